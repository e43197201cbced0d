/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/trace_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/keyed.h"
#include "base/order.h"
#include "base/room.h"
#include "base/sorted.h"

#define TIME_MAX_NS (1ull << 62)
/* Two readings of a clock's offset differ by less, unless the clock was set. */
#define OFFSET_SLACK_NS 10000000

int trace_model_init(struct trace_model *m)
{
	memset(m, 0, sizeof(*m));
	return intern_text(&m->names, "", TRACE_MODEL_NAMES_MAX) < 0 ? -ENOMEM : 0;
}

static void free_rank(struct trace_rank *r)
{
	free(r->host);
	free(r->device);
	free(r->steps);
	free(r->windows);
	free(r->covered);
	stack_batch_fini(&r->stacks);
}

struct trace_rank *trace_model_rank(const struct trace_model *m, long rank)
{
	for (size_t i = 0; i < m->rank_count; i++)
		if (m->ranks[i].who.rank == rank)
			return &m->ranks[i];
	return NULL;
}

void trace_model_keep(struct trace_model *m, const struct trace_rank *a, const struct trace_rank *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->rank_count; i++) {
		if (&m->ranks[i] != a && &m->ranks[i] != b)
			free_rank(&m->ranks[i]);
	}
	for (size_t i = 0; i < m->rank_count; i++)
		if (&m->ranks[i] == a || &m->ranks[i] == b)
			m->ranks[kept++] = m->ranks[i];
	m->rank_count = kept;
}

void trace_model_fini(struct trace_model *m)
{
	for (size_t i = 0; i < m->rank_count; i++)
		free_rank(&m->ranks[i]);
	free(m->ranks);
	intern_fini(&m->names);
	memset(m, 0, sizeof(*m));
}

/* The id of a name; 0: "" or no room. */
static uint32_t name_id(struct trace_model *m, const char *text)
{
	int64_t id = text ? intern_text(&m->names, text, TRACE_MODEL_NAMES_MAX) : 0;

	return id > 0 ? (uint32_t)id : 0;
}

static struct trace_rank *find_rank(struct trace_model *m, const struct window *w)
{
	struct trace_rank *r;

	for (size_t i = 0; i < m->rank_count; i++) {
		r = &m->ranks[i];
		if (r->who.rank == w->rank.rank && r->who.pid == w->rank.pid &&
		    !strcmp(r->who.node, w->rank.node) && !strcmp(r->who.job, w->rank.job))
			return r;
	}
	if (m->rank_count >= TRACE_MODEL_RANKS_MAX)
		return NULL;
	if (ROOM_FOR(m->ranks, m->rank_room, m->rank_count + 1))
		return NULL;
	r = &m->ranks[m->rank_count++];
	memset(r, 0, sizeof(*r));
	r->who = w->rank;
	r->realtime_offset_ns = w->realtime_offset_ns;
	stack_batch_init(&r->stacks, keyed_process());
	return r;
}

/* Converts to CLOCK_REALTIME; 0 stays 0 (unknown); UINT64_MAX: impossible. */
static uint64_t shift(uint64_t t, int64_t offset)
{
	int64_t sum;

	if (!t)
		return 0;
	if (t > INT64_MAX || __builtin_add_overflow((int64_t)t, offset, &sum) || sum <= 0)
		return UINT64_MAX;
	return (uint64_t)sum;
}

/* Each window has the clock's offset from when it was made, and readings differ by nanoseconds. All windows
 * of a process use one offset, so a record in two of them has one time. If the clock was set or the machine
 * restarted in between, they keep their own. */
static int64_t offset_of(const struct trace_rank *r, const struct window *w)
{
	int64_t d;

	if (__builtin_sub_overflow(w->realtime_offset_ns, r->realtime_offset_ns, &d) ||
	    d > OFFSET_SLACK_NS || d < -OFFSET_SLACK_NS)
		return w->realtime_offset_ns;
	return r->realtime_offset_ns;
}

/* CUPTI gives copies no names. */
static const char *copy_name(const struct record *r)
{
	static const char *const texts[] = {"copy",
					    "copy host to device",
					    "copy device to host",
					    "copy host to array",
					    "copy array to host",
					    "copy array to array",
					    "copy array to device",
					    "copy device to array",
					    "copy device to device",
					    "copy host to host",
					    "copy peer to peer"};

	if (r->kind == RECORD_MEMSET)
		return "memset";
	return r->kind == RECORD_COPY ? texts[r->func < ARRAY_LEN(texts) ? r->func : 0] : "";
}

static int add_records(struct trace_model *m, struct record **to, size_t *count, size_t *room,
		       const struct record *from, uint32_t n, const struct window *w,
		       int64_t offset_ns, const uint32_t *ids)
{
	uint32_t wanted = n;

	if (m->only_collectives) {
		wanted = 0;
		for (uint32_t i = 0; i < n; i++)
			wanted += record_is_collective(&from[i]);
	}
	if (wanted > TRACE_MODEL_RECORDS_MAX - m->records) {
		m->left_out += wanted;
		return 0;
	}
	if (ROOM_FOR(*to, *room, *count + wanted))
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct record *r = &(*to)[*count];

		if (m->only_collectives && !record_is_collective(&from[i]))
			continue;
		*r = from[i];
		r->begin_ns = shift(r->begin_ns, offset_ns);
		r->end_ns = shift(r->end_ns, offset_ns);
		r->launch_ns = shift(r->launch_ns, offset_ns);
		r->name = r->name < w->name_count ? ids[r->name] : 0;
		if (!r->name)
			r->name = name_id(m, copy_name(r));
		if (!r->begin_ns || r->begin_ns > TIME_MAX_NS || r->end_ns > TIME_MAX_NS) {
			m->left_out++;
			continue;
		}
		if (r->end_ns < r->begin_ns)
			r->end_ns = r->begin_ns;
		(*count)++;
		m->records++;
	}
	return 0;
}

static int add_steps(struct trace_model *m, struct trace_rank *r, const struct window *w,
		     const uint32_t *ids)
{
	int64_t offset_ns = offset_of(r, w);

	if (ROOM_FOR(r->steps, r->step_room, r->step_count + w->step_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < w->step_count; i++) {
		struct window_step *s = &r->steps[r->step_count];

		*s = w->steps[i];
		s->flags &= ~TRACE_STEP_BY_PEERS;
		if (w->reason == WINDOW_PEER && !(s->flags & WINDOW_STEP_MARGIN))
			s->flags |= TRACE_STEP_BY_PEERS;
		if (s->step.source == STEP_SOURCE_EXPLICIT) /* a name */
			s->step.phase = s->step.phase < w->name_count ? ids[s->step.phase] : 0;
		s->step.begin_ns = shift(s->step.begin_ns, offset_ns);
		s->step.end_ns = shift(s->step.end_ns, offset_ns);
		s->step.device_begin_ns = shift(s->step.device_begin_ns, offset_ns);
		s->step.device_end_ns = shift(s->step.device_end_ns, offset_ns);
		if (s->step.begin_ns > TIME_MAX_NS || s->step.end_ns > TIME_MAX_NS ||
		    s->step.end_ns < s->step.begin_ns) {
			m->left_out++;
			continue;
		}
		r->step_count++;
	}
	return 0;
}

static void add_gpu(struct trace_rank *r, struct trace_window *t, const struct window *w)
{
	static const enum os_signal_kind kinds[TRACE_GPU_READINGS] = {
	    OS_SIGNAL_GPU_SM_CLOCK, OS_SIGNAL_GPU_POWER, OS_SIGNAL_GPU_TEMPERATURE};

	for (int k = 0; k < TRACE_GPU_READINGS; k++) {
		t->gpu[k] = NAN;
		for (uint32_t i = 0; i < w->signal_count; i++) {
			const struct os_signal *s = &w->signals[i];
			const char *end;

			if (strcmp(s->name, os_signal_info(kinds[k])->name))
				continue;
			t->gpu[k] = s->value;
			end = strstr(s->subject, " ("); /* "GPU 3 (at most 1980 MHz)" */
			snprintf(r->gpu, sizeof(r->gpu), "%.*s",
				 (int)(end ? end - s->subject : (long)strlen(s->subject)),
				 s->subject);
		}
	}
}

static int add_window(struct trace_rank *r, const struct window *w)
{
	struct trace_window *t;

	if (ROOM_FOR(r->windows, r->window_room, r->window_count + 1))
		return -ENOMEM;
	t = &r->windows[r->window_count];
	memset(t, 0, sizeof(*t));
	t->begin_ns = shift(w->begin_ns, offset_of(r, w));
	t->end_ns = shift(w->end_ns, offset_of(r, w));
	if (t->begin_ns > TIME_MAX_NS || t->end_ns > TIME_MAX_NS || t->end_ns < t->begin_ns)
		return 0;
	t->reason = w->reason;
	t->model_state = w->model_state;
	t->model_r2 = w->model_r2;
	t->summary_only = w->summary_only;
	add_gpu(r, t, w);
	for (uint32_t i = 0; i < w->step_count; i++)
		t->flagged += !!(w->steps[i].flags & WINDOW_STEP_FLAGGED);
	r->window_count++;
	return 0;
}

/* The next part of [*begin, end) that no earlier window covers; false: none. */
static bool next_uncovered(const struct trace_rank *r, uint64_t *begin_ns, uint64_t end_ns,
			   uint64_t *until_ns)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (size_t i = 0; i < r->covered_count; i++) {
			const struct trace_span *s = &r->covered[i];

			if (s->begin_ns <= *begin_ns && s->end_ns > *begin_ns) {
				*begin_ns = s->end_ns;
				moved = true;
			}
		}
	}
	*until_ns = end_ns;
	for (size_t i = 0; i < r->covered_count; i++)
		if (r->covered[i].begin_ns > *begin_ns && r->covered[i].begin_ns < *until_ns)
			*until_ns = r->covered[i].begin_ns;
	return *begin_ns < end_ns;
}

/* Windows of one anomaly overlap; a sample in both counts once. */
static int add_stacks(struct trace_model *m, struct trace_rank *r, const struct window *w)
{
	uint64_t begin_ns = w->begin_ns, until_ns;
	int err = 0;

	if (!w->stacks.sample_count || w->end_ns <= w->begin_ns)
		return 0;
	if (ROOM_FOR(r->covered, r->covered_room, r->covered_count + 1))
		return -ENOMEM;
	if (!r->covered_count)
		r->stacks.begin_ns = w->begin_ns;
	if (w->begin_ns < r->stacks.begin_ns)
		r->stacks.begin_ns = w->begin_ns;
	if (w->end_ns > r->stacks.end_ns)
		r->stacks.end_ns = w->end_ns;
	while (!err && next_uncovered(r, &begin_ns, w->end_ns, &until_ns)) {
		err = stack_batch_merge(&r->stacks, &w->stacks, NULL, 0, begin_ns, until_ns);
		begin_ns = until_ns;
	}
	r->covered[r->covered_count++] = (struct trace_span){w->begin_ns, w->end_ns};
	if (err == -E2BIG) {
		m->left_out += w->stacks.sample_count;
		return 0;
	}
	return err;
}

int trace_model_add(struct trace_model *m, const struct window *w)
{
	struct trace_rank *r = find_rank(m, w);
	uint32_t *ids;
	int err;

	if (!r)
		return -ENOMEM;
	ids = calloc(w->name_count + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->name_count && w->names; i++)
		ids[i] = name_id(m, w->names[i]);
	err = add_window(r, w);
	if (!err && w->steps)
		err = add_steps(m, r, w, ids);
	if (!err && w->host)
		err = add_records(m, &r->host, &r->host_count, &r->host_room, w->host,
				  w->host_count, w, offset_of(r, w), ids);
	if (!err && w->device)
		err = add_records(m, &r->device, &r->device_count, &r->device_room, w->device,
				  w->device_count, w, offset_of(r, w), ids);
	if (!err)
		err = add_stacks(m, r, w);
	free(ids);
	return err;
}

/* the longer one first, since it encloses the other */
ORDER_BY(compare_records, struct record,
	 ORDER_UP(begin_ns) ?: ORDER_DOWN(end_ns) ?: ORDER_UP(thread) ?: ORDER_UP(stream)
	 ?: ORDER_UP(correlation) ?: ORDER_UP(kind) ?: ORDER_UP(name) ?: ORDER_UP(seq)
	 ?: ORDER_UP(func) ?: ORDER_UP(key));

/* if two windows have the same step, the flagged one counts, not the margin */
ORDER_BY(compare_steps, struct window_step,
	 ORDER_UP(step.begin_ns) ?: ORDER_UP(step.index)
	 ?: ORDER(b->flags & WINDOW_STEP_FLAGGED, a->flags & WINDOW_STEP_FLAGGED));

ORDER_BY(compare_ranks, struct trace_rank,
	 ORDER_TEXT(who.job) ?: ORDER_UP(who.rank) ?: ORDER_TEXT(who.node) ?: ORDER_UP(who.pid));

ORDER_BY(compare_windows, struct trace_window, ORDER_UP(begin_ns) ?: ORDER_DOWN(end_ns));

static size_t unique_records(struct record *a, size_t n)
{
	size_t kept = 0;

	ORDER_SORT(a, n, compare_records);
	for (size_t i = 0; i < n; i++)
		if (!kept || compare_records(&a[kept - 1], &a[i]))
			a[kept++] = a[i];
	return kept;
}

void trace_model_finish(struct trace_model *m)
{
	for (size_t i = 0; i < m->rank_count; i++) {
		struct trace_rank *r = &m->ranks[i];
		size_t kept = 0;

		r->host_count = unique_records(r->host, r->host_count);
		r->device_count = unique_records(r->device, r->device_count);
		ORDER_SORT(r->steps, r->step_count, compare_steps);
		for (size_t k = 0; k < r->step_count; k++)
			if (!kept || r->steps[kept - 1].step.index != r->steps[k].step.index)
				r->steps[kept++] = r->steps[k];
		r->step_count = kept;
		ORDER_SORT(r->windows, r->window_count, compare_windows);
	}
	ORDER_SORT(m->ranks, m->rank_count, compare_ranks);
}

void trace_model_set_fault(struct trace_model *m, uint64_t begin_unix_ns, uint64_t end_unix_ns)
{
	for (size_t k = 0; k < m->rank_count && end_unix_ns; k++)
		for (size_t i = 0; i < m->ranks[k].step_count; i++) {
			struct window_step *s = &m->ranks[k].steps[i];

			if (s->step.end_ns < begin_unix_ns || s->step.begin_ns > end_unix_ns)
				s->flags |= TRACE_STEP_APART;
		}
}

ptrdiff_t trace_model_launch(const struct trace_rank *r, const struct record *d)
{
	size_t at;

	if (!d->launch_ns || (d->flags & RECORD_FLAG_UNMATCHED) || !r->host_count)
		return -1;
	at = SORTED_FROM(r->host, r->host_count, begin_ns, d->launch_ns);
	for (; at < r->host_count && r->host[at].begin_ns == d->launch_ns; at++) {
		if (record_is_launch(&r->host[at]) || r->host[at].kind == RECORD_COPY_CALL)
			return (ptrdiff_t)at;
	}
	return -1;
}

uint64_t trace_model_covered_ns(const struct trace_rank *r)
{
	uint64_t sum = 0;

	/* adds the part of each span that no earlier one covers */
	for (size_t i = 0; i < r->covered_count; i++) {
		struct trace_rank before = {.covered = r->covered, .covered_count = i};
		uint64_t at = r->covered[i].begin_ns, until;

		while (next_uncovered(&before, &at, r->covered[i].end_ns, &until)) {
			sum += until - at;
			at = until;
		}
	}
	return sum;
}

ptrdiff_t trace_model_step_at(const struct trace_rank *r, uint64_t t)
{
	size_t after = r->step_count ? SORTED_ABOVE(r->steps, r->step_count, step.begin_ns, t) : 0;

	return after && t < r->steps[after - 1].step.end_ns ? (ptrdiff_t)after - 1 : -1;
}

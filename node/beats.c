/* SPDX-License-Identifier: Apache-2.0
 * A group's medians are computed when its last step arrives, and are stored until the next beat. A
 * sampled collective waits until its kernel and its step are known, up to seconds after the call.
 * So a beat may report a collective of the beat before. */
#include "node/beats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/limits.h"
#include "base/order.h"
#include "model/beat_sample.h"
#include "wire/codec.h"

#define VALUES 8
/* Stored values per group; of a longer group every second, fourth ... step is stored. */
#define KEPT_MAX 1024u
#define QUEUE	 128u /* groups waiting for a beat */
#define PENDING	 64u  /* collectives waiting for their kernel */
#define COMMS	 32u
/* latest collectives of a communicator whose kernels are awaited; 8 KB */
#define ENTERED	      512u
#define SHIFT_MAX     40u
#define COUNT_LOG_MAX 20u
/* After this time a collective is sent without its kernel or step; device records arrive
 * earlier. */
#define PENDING_NS   4000000000ull
#define STEP_UNKNOWN UINT64_MAX
/* If a communicator enters nothing for this long, the beat also reports its first unfinished
 * collective. */
#define STILL_NS 3000000000ull

struct entered {
	uint64_t bytes;
	uint32_t seq;
	uint8_t func, dtype;
};

#define FUNCS 16u /* greater than any collective's function number */
/* sequence numbers from here on belong to graph replays (node/join/join_match.c) */
#define GRAPH_SEQ 0x80000000u

struct comm {
	struct beat_comm row;
	uint32_t next[FUNCS];	      /* per function: sequence number of the next call */
	struct entered ring[ENTERED]; /* the n-th collective is at (n - 1) % ENTERED */
	uint64_t used_ns;
};

struct beats {
	uint64_t period_ns;
	struct beats_stats stats;
	/* The open group. */
	struct beat_group open;
	double value[VALUES][KEPT_MAX];
	uint32_t kept, stride_log;
	bool is_open;
	double pace_ns; /* smoothed latency of a step */
	uint32_t count_log;
	struct beat_group queue[QUEUE];
	uint32_t queued;
	/* Collectives. */
	struct beat_coll pending[PENDING]; /* in order of their calls */
	uint32_t pending_count;
	uint32_t shift, low_periods;
	uint64_t entered_in_period, period_begin_ns;
	struct comm comm[COMMS];
	uint32_t comm_count, comm_last;
};

int beats_open(struct beats **out, uint64_t period_ns)
{
	struct beats *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->period_ns = period_ns;
	*out = b;
	return 0;
}

void beats_close(struct beats *b)
{
	free(b);
}

/* ---- step groups ---- */

/* The number of groups of 2^log steps in a period. */
static double groups_at(const struct beats *b, uint32_t log)
{
	return (double)b->period_ns / (b->pace_ns * (double)(1ull << log));
}

static void adapt_group_size(struct beats *b, uint64_t first_step)
{
	uint32_t want = b->count_log;

	if (!(b->pace_ns > 0))
		return;
	/* Grow by one size at a time. A job's first steps say little about its pace, and the values
	 * of a large group come late. */
	if (want < COUNT_LOG_MAX && groups_at(b, want) > BEATS_GROUPS_HIGH)
		want++;
	while (want && groups_at(b, want - 1) <= BEATS_GROUPS_LOW)
		want--;
	/* a larger group begins at a multiple of its size */
	while (want > b->count_log && first_step & ((1u << want) - 1))
		want--;
	b->count_log = want;
}

static void keep_values(struct beats *b, const struct step *s)
{
	const double v[VALUES] = {(double)s->latency_ns,      (double)s->self_ns,
				  (double)s->exposed_comm_ns, (double)s->compute_ns,
				  (double)s->idle_ns,	      (double)s->copy_ns,
				  (double)s->launches,	      s->blocks};

	if ((b->open.used++ & ((1u << b->stride_log) - 1)) != 0)
		return;
	/* full: store every second value, and every second step from now on */
	if (b->kept == KEPT_MAX) {
		for (int i = 0; i < VALUES; i++)
			for (uint32_t k = 0; k < KEPT_MAX / 2; k++)
				b->value[i][k] = b->value[i][2 * k];
		b->kept = KEPT_MAX / 2;
		b->stride_log++;
	}
	for (int i = 0; i < VALUES; i++)
		b->value[i][b->kept] = v[i];
	b->kept++;
}

/* Merges two neighbours of equal size into one of twice the size. Uses means of medians, weighted
 * by steps. That is exact enough; otherwise neither group could be sent. */
static bool merge(struct beat_group *a, const struct beat_group *b)
{
	double wa, wb;

	if (a->count != b->count || a->first_step & a->count || a->count >= BEAT_GROUP_STEPS_MAX ||
	    b->first_step != a->first_step + a->count)
		return false;
	wa = a->used + b->used ? (double)a->used / (a->used + b->used) : 0.5;
	wb = 1 - wa;
#define MIX(f) a->f = wa * a->f + wb * b->f
	MIX(latency_ns);
	MIX(self_ns);
	MIX(self_mad_ns);
	MIX(exposed_comm_ns);
	MIX(compute_ns);
	MIX(idle_ns);
	MIX(copy_ns);
	MIX(kernels);
	MIX(blocks);
#undef MIX
	a->count *= 2;
	a->used += b->used;
	a->flagged += b->flagged;
	a->end_ns = b->end_ns;
	return true;
}

/* Halves the number of groups over the same steps. False: nothing could be merged. */
static bool merge_all(struct beat_group *g, uint32_t *count, uint64_t *merged)
{
	uint32_t kept = 0, before = *count;

	for (uint32_t i = 0; i < before; i++) {
		g[kept] = g[i];
		if (i + 1 < before && merge(&g[kept], &g[i + 1]))
			i++;
		kept++;
	}
	*count = kept;
	*merged += before - kept;
	return kept < before;
}

static void drop_oldest(struct beats *b, uint32_t n)
{
	memmove(b->queue, b->queue + n, sizeof(b->queue[0]) * (b->queued - n));
	b->queued -= n;
	b->stats.groups_lost += n;
}

static void close_group(struct beats *b)
{
	struct beat_group *g = &b->open;

	b->is_open = false;
	g->self_mad_ns = 0;
	if (b->kept) {
		double *self = b->value[1];

		g->latency_ns = median_of(b->value[0], b->kept);
		g->self_ns = median_of(self, b->kept);
		g->exposed_comm_ns = median_of(b->value[2], b->kept);
		g->compute_ns = median_of(b->value[3], b->kept);
		g->idle_ns = median_of(b->value[4], b->kept);
		g->copy_ns = median_of(b->value[5], b->kept);
		g->kernels = median_of(b->value[6], b->kept);
		g->blocks = median_of(b->value[7], b->kept);
		g->self_mad_ns = median_mad(self, b->kept, g->self_ns);
	}
	if (b->queued == QUEUE && !merge_all(b->queue, &b->queued, &b->stats.groups_merged))
		drop_oldest(b, 1);
	b->queue[b->queued++] = *g;
}

static void open_group(struct beats *b, uint64_t index)
{
	adapt_group_size(b, index);
	b->open = (struct beat_group){.count = 1u << b->count_log,
				      .first_step = index >> b->count_log << b->count_log};
	b->kept = b->stride_log = 0;
	b->is_open = true;
}

static void name_step(struct beats *b, const struct step *s)
{
	for (uint32_t i = 0; i < b->pending_count; i++) {
		struct beat_coll *c = &b->pending[i];

		if (c->step == STEP_UNKNOWN && c->call_ns >= s->begin_ns && c->call_ns < s->end_ns)
			c->step = s->index;
	}
}

void beats_step(struct beats *b, const struct window_step *ws, bool used)
{
	const struct step *s = &ws->step;

	b->pace_ns += ((double)s->latency_ns - b->pace_ns) * (b->pace_ns > 0 ? 0.1 : 1);
	if (b->is_open && s->index >= b->open.first_step + b->open.count)
		close_group(b);
	if (!b->is_open)
		open_group(b, s->index);
	b->open.end_ns = s->end_ns;
	b->open.flagged += !!(ws->flags & WINDOW_STEP_FLAGGED);
	if (used)
		keep_values(b, s);
	if (s->index + 1 == b->open.first_step + b->open.count)
		close_group(b);
	name_step(b, s);
}

/* ---- communicators ---- */

static struct comm *find_comm(struct beats *b, uint64_t id, uint64_t now_ns)
{
	struct comm *oldest = &b->comm[0];

	if (b->comm_last < b->comm_count && b->comm[b->comm_last].row.comm == id)
		return &b->comm[b->comm_last];
	for (uint32_t i = 0; i < b->comm_count; i++) {
		if (b->comm[i].row.comm == id) {
			b->comm_last = i;
			return &b->comm[i];
		}
		if (b->comm[i].used_ns < oldest->used_ns)
			oldest = &b->comm[i];
	}
	if (b->comm_count < COMMS)
		oldest = &b->comm[b->comm_count++];
	else
		b->stats.comms_forgotten++;
	memset(oldest, 0, sizeof(*oldest));
	oldest->row.comm = id;
	oldest->used_ns = now_ns;
	b->comm_last = (uint32_t)(oldest - b->comm);
	return oldest;
}

static void forget_comm(struct beats *b, uint64_t id)
{
	for (uint32_t i = 0; i < b->comm_count; i++)
		if (b->comm[i].row.comm == id) {
			b->comm[i] = b->comm[--b->comm_count];
			return;
		}
}

/* Also enters calls before r that were not recorded (tracing was off, sysomd started later, the
 * ring was full). Their number follows from the sequence numbers. Otherwise the counts of the
 * ranks, which are compared, would differ forever. False: r itself was already entered in this
 * way. */
static bool catch_up(struct comm *c, const struct record *r)
{
	uint64_t missed;

	if (r->func >= FUNCS || r->seq >= GRAPH_SEQ)
		return true;
	if (r->seq < c->next[r->func] && c->next[r->func] - r->seq <= ENTERED)
		return false;
	missed = r->seq > c->next[r->func] ? r->seq - c->next[r->func] : 0;
	c->next[r->func] = r->seq + 1;
	/* enters the missed calls as unknown */
	for (uint64_t i = 0; i < missed && i < ENTERED; i++)
		c->ring[(c->row.entered + missed - 1 - i) % ENTERED] = (struct entered){0};
	c->row.entered += missed;
	return true;
}

static void enter(struct comm *c, const struct record *r, uint64_t call_ns)
{
	if (!catch_up(c, r))
		return;
	c->ring[c->row.entered++ % ENTERED] =
	    (struct entered){.bytes = r->bytes, .seq = r->seq, .func = r->func, .dtype = r->dtype};
	c->row.func = r->func;
	c->row.seq = r->seq;
	c->row.bytes = r->bytes;
	c->row.call_ns = call_ns;
	c->row.done_ns = 0;
	c->used_ns = call_ns;
}

/* Notes the end of a kernel; kernels of a communicator end in the order of their calls. */
static void end_of(struct comm *c, const struct record *r)
{
	uint64_t first = c->row.ended;

	if (c->row.entered - first > ENTERED)
		first = c->row.entered - ENTERED;
	for (uint64_t n = first; n < c->row.entered; n++) {
		const struct entered *e = &c->ring[n % ENTERED];

		if (e->seq != r->seq || e->func != r->func)
			continue;
		c->row.ended = n + 1;
		if (c->row.ended == c->row.entered)
			c->row.done_ns = r->end_ns;
		return;
	}
}

/* ---- sampled collectives ---- */

static bool is_collective(const struct record *r)
{
	return r->key && !(r->flags & RECORD_FLAG_FAILED) &&
	       ((r->func >= RECORD_COLL_ALL_REDUCE && r->func <= RECORD_COLL_SCATTER) ||
		r->func == RECORD_COLL_BCAST);
}

/* Drops the waiting collectives that the raised threshold excludes. */
static void drop_unsampled(struct beats *b)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < b->pending_count; i++) {
		const struct beat_coll *c = &b->pending[i];

		if (beat_sample(c->comm, c->func, c->seq, b->shift))
			b->pending[kept++] = *c;
	}
	b->stats.colls_thinned += b->pending_count - kept;
	b->pending_count = kept;
}

static void sample(struct beats *b, const struct record *r, uint64_t call_ns, uint64_t begin_ns,
		   uint64_t end_ns)
{
	if (!beat_sample(r->key, r->func, r->seq, b->shift))
		return;
	while (b->pending_count == PENDING && b->shift < SHIFT_MAX) {
		b->shift++;
		drop_unsampled(b);
	}
	if (b->pending_count == PENDING || !beat_sample(r->key, r->func, r->seq, b->shift)) {
		b->stats.colls_thinned++;
		return;
	}
	b->pending[b->pending_count++] = (struct beat_coll){.comm = r->key,
							    .func = r->func,
							    .seq = r->seq,
							    .step = STEP_UNKNOWN,
							    .call_ns = call_ns,
							    .begin_ns = begin_ns,
							    .end_ns = end_ns};
}

/* Adapts the threshold once per period: raised at once if too many were sampled, lowered after
 * three periods with few. */
static void adapt_threshold(struct beats *b, uint64_t now_ns)
{
	uint64_t sampled;

	if (!b->period_begin_ns)
		b->period_begin_ns = now_ns;
	if (now_ns < b->period_begin_ns + b->period_ns)
		return;
	sampled = b->entered_in_period >> b->shift;
	while (sampled > BEAT_COLLS_MAX && b->shift < SHIFT_MAX) {
		b->shift++;
		sampled = b->entered_in_period >> b->shift;
	}
	b->low_periods = sampled * 3 < BEATS_COLLS_AIM ? b->low_periods + 1 : 0;
	if (b->low_periods == 3) {
		b->low_periods = 0;
		b->shift -= b->shift > 0;
	}
	b->entered_in_period = 0;
	b->period_begin_ns = now_ns;
}

void beats_host(struct beats *b, const struct record *r)
{
	struct comm *c;

	if (r->kind != RECORD_COLL && r->kind != RECORD_COMM)
		return;
	if (r->kind == RECORD_COMM) {
		/* bytes: number of ranks when created; 0 when destroyed */
		if (r->key && r->bytes) {
			c = find_comm(b, r->key, r->begin_ns);
			c->row.ranks = r->bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)r->bytes;
			c->row.rank = r->peer < 0 ? 0 : (uint32_t)r->peer;
		} else {
			forget_comm(b, r->key);
		}
		return;
	}
	/* A captured call runs when its graph is launched, and its kernel is recorded then. */
	if (!is_collective(r) || r->flags & RECORD_FLAG_CAPTURED)
		return;
	enter(find_comm(b, r->key, r->begin_ns), r, r->begin_ns);
	b->entered_in_period++;
	sample(b, r, r->begin_ns, 0, 0);
}

void beats_device(struct beats *b, const struct record *r)
{
	struct comm *c;

	if (r->kind != RECORD_COLL_KERNEL || r->flags & RECORD_FLAG_UNMATCHED || !is_collective(r))
		return;
	c = find_comm(b, r->key, r->begin_ns);
	if (r->flags & RECORD_FLAG_GRAPH) {
		enter(c, r, r->launch_ns ? r->launch_ns : r->begin_ns);
		b->entered_in_period++;
		sample(b, r, r->launch_ns, r->begin_ns, r->end_ns);
	}
	end_of(c, r);
	if (!beat_sample(r->key, r->func, r->seq, b->shift))
		return;
	for (uint32_t i = 0; i < b->pending_count; i++) {
		struct beat_coll *p = &b->pending[i];

		if (p->seq == r->seq && p->comm == r->key && p->func == r->func && !p->end_ns) {
			p->begin_ns = r->begin_ns;
			p->end_ns = r->end_ns;
			return;
		}
	}
}

/* ---- a beat ---- */

static void fill_groups(struct beats *b, struct beat_rank *out)
{
	while (b->queued > BEAT_GROUPS_MAX &&
	       merge_all(b->queue, &b->queued, &b->stats.groups_merged))
		;
	if (b->queued > BEAT_GROUPS_MAX)
		drop_oldest(b, b->queued - BEAT_GROUPS_MAX);
	memcpy(out->groups, b->queue, sizeof(b->queue[0]) * b->queued);
	out->group_count = b->queued;
	b->queued = 0;
}

static void fill_colls(struct beats *b, struct beat_rank *out, uint64_t now_ns)
{
	uint32_t kept = 0;

	out->coll_count = 0;
	out->coll_shift = b->shift;
	for (uint32_t i = 0; i < b->pending_count; i++) {
		const struct beat_coll *c = &b->pending[i];
		bool whole = c->end_ns && c->step != STEP_UNKNOWN;

		if (out->coll_count < BEAT_COLLS_MAX && (whole || now_ns > c->call_ns + PENDING_NS))
			out->colls[out->coll_count++] = *c;
		else
			b->pending[kept++] = *c;
	}
	b->pending_count = kept;
}

ORDER_BY(by_use, struct beat_comm, ORDER_DOWN(call_ns));

static void fill_open(const struct comm *c, struct beat_comm *row, uint64_t now_ns)
{
	const struct entered *e = &c->ring[row->ended % ENTERED];

	if (row->ended == row->entered || row->entered - row->ended > ENTERED ||
	    now_ns < row->call_ns + STILL_NS)
		return;
	row->open_func = e->func;
	row->open_seq = e->seq;
	row->open_dtype = e->dtype;
	row->open_bytes = e->bytes;
}

static void fill_comms(const struct beats *b, struct beat_rank *out, uint64_t now_ns)
{
	struct beat_comm all[COMMS];

	for (uint32_t i = 0; i < b->comm_count; i++) {
		all[i] = b->comm[i].row;
		fill_open(&b->comm[i], &all[i], now_ns);
	}
	qsort(all, b->comm_count, sizeof(all[0]), by_use);
	out->comm_count = b->comm_count < BEAT_COMMS_MAX ? b->comm_count : BEAT_COMMS_MAX;
	memcpy(out->comms, all, sizeof(all[0]) * out->comm_count);
}

/* Drops half of the collectives by using the next threshold, so that every rank keeps the same
 * ones. */
static bool fewer_colls(struct beats *b, struct beat_rank *r)
{
	uint32_t kept = 0;

	if (!r->coll_count || r->coll_shift >= SHIFT_MAX)
		return false;
	r->coll_shift++;
	for (uint32_t i = 0; i < r->coll_count; i++)
		if (beat_sample(r->colls[i].comm, r->colls[i].func, r->colls[i].seq, r->coll_shift))
			r->colls[kept++] = r->colls[i];
	b->stats.colls_thinned += r->coll_count - kept;
	r->coll_count = kept;
	return true;
}

/* Shrinks the beat to its limit. First it drops collectives, since more will follow; then it merges
 * groups; then it drops communicators. */
static void fit(struct beats *b, struct beat_rank *r)
{
	while (wire_beat_rank_bytes(r) > LIMIT_BEAT_BYTES_PER_RANK) {
		if (r->coll_count > BEAT_COLLS_MAX / 4 && fewer_colls(b, r))
			continue;
		if (merge_all(r->groups, &r->group_count, &b->stats.groups_merged))
			continue;
		if (r->comm_count > 4) {
			r->comm_count--;
		} else if (r->coll_count) {
			b->stats.colls_thinned += r->coll_count;
			r->coll_count = 0;
		} else if (r->group_count) {
			b->stats.groups_lost += r->group_count;
			r->group_count = 0;
		} else {
			return;
		}
	}
}

void beats_fill(struct beats *b, struct beat_rank *out, uint64_t now_ns)
{
	adapt_threshold(b, now_ns);
	fill_groups(b, out);
	fill_colls(b, out, now_ns);
	fill_comms(b, out, now_ns);
	fit(b, out);
}

void beats_stats_get(const struct beats *b, struct beats_stats *out)
{
	*out = b->stats;
}

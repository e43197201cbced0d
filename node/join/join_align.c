/* SPDX-License-Identifier: Apache-2.0
 * Finds a kernel's launch: the launch whose number is the kernel's number plus the stream's
 * difference.
 *
 * The process numbers launches and kernels before anything can be lost, so the difference survives
 * any loss in the ring. It is 0 if both counters started at the stream's start; otherwise it is
 * learned. It lies between two bounds, which kernels narrow: a kernel's launch was called before
 * the kernel began, after the last wait of the host, is among the last JOIN_PENDING calls, and has
 * the kernel's grid and block. After tracing was off, kernel 1 belongs to the first launch since
 * then. Nothing is joined until the bounds meet. A kernel that contradicts the bounds resets both.
 *
 * Comparing runs of equal grids without numbers does not work: layers repeat, so kernels are joined
 * with the launches of another layer (docs/decisions/0022-numbered-launches.md). */
#include "node/join/join_private.h"

static uint8_t epoch_of(uint32_t number)
{
	return (uint8_t)(number >> 24);
}

/* a - b, for numbers less than half their range apart. */
static int32_t apart(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* ---- bounds ---- */

static void raise_low(struct join_align *a, uint32_t low)
{
	if (a->has_low && apart(low, a->low) <= 0)
		return;
	a->low = low;
	a->has_low = true;
}

static void lower_high(struct join_align *a, uint32_t high)
{
	if (a->has_high && apart(high, a->high) >= 0)
		return;
	a->high = high;
	a->has_high = true;
}

/* The number of possible differences minus one; negative: none, so a bound was wrong. */
static int32_t width(const struct join_align *a)
{
	return a->has_low && a->has_high ? apart(a->high, a->low) : (int32_t)JOIN_PENDING;
}

static void forget(struct join_align *a)
{
	a->has_low = a->has_high = a->met = false;
	a->called = a->at_low = a->at_high = 0;
	a->misfits = 0;
}

static void contradicted(struct join *j, struct join_align *a)
{
	forget(a);
	a->has_gap_floor = a->has_sure = false;
}

void join_align_bound(struct join_stream *s)
{
	forget(&s->align);
	s->align.began = s->align.has_floor = false;
}

/* ---- launches ---- */

/* If there is a newer gap, resets what is known about the end of the last one. */
static struct join_align *since_gap(const struct join *j, struct join_align *a)
{
	if (a->gap == j->gap.serial)
		return a;
	a->gap = j->gap.serial;
	a->has_sure = false;
	a->has_gap_floor = a->gone_end_ns && a->gone_end_ns < j->gap.to_ns;
	a->gap_floor = a->gone + 1;
	return a;
}

void join_align_left(const struct join *j, struct join_stream *s, uint32_t node,
		     const struct join_launch *l)
{
	struct join_align *a = since_gap(j, &s->align);

	if (l->type == JOIN_LAUNCH_KERNEL) {
		a->gone = l->number;
		a->gone_end_ns = l->end_ns;
		if (l->end_ns < j->gap.to_ns) {
			a->gap_floor = l->number + 1;
			a->has_gap_floor = true;
		}
	}
	if (a->called == node)
		a->called = 0;
	if (a->at_low == node)
		a->at_low = 0;
	if (a->at_high == node)
		a->at_high = 0;
}

void join_align_over(struct join_stream *s, uint64_t before_ns, uint64_t from_ns)
{
	struct join_align *a = &s->align;

	if (!a->gone_end_ns || a->gone_end_ns >= before_ns || epoch_of(a->gone) != a->launch_epoch)
		return;
	a->floor = a->gone + 1;
	a->floor_ns = from_ns;
	a->has_floor = true;
}

static bool is_kernel(const struct join *j, uint32_t node)
{
	return j->launches[node].type == JOIN_LAUNCH_KERNEL;
}

/* Call when the stream's numbers have restarted: earlier launches have lost their kernels. */
static void count_anew(struct join *j, struct join_stream *s)
{
	while (s->launches.head != s->launches.tail)
		join_match_launch_drop(j, s);
	join_align_bound(s);
	s->align.gone_end_ns = 0;
}

/* A number is taken at the end of a call, its time at the start, so numbers of simultaneous calls
 * may be out of order. */
static void sort_in(struct join *j, const struct join_stream *s)
{
	uint32_t node = s->launches.tail, prev;

	for (uint32_t i = 0; i < JOIN_RACE; i++, node = prev) {
		struct join_launch l = j->launches[node];

		prev = join_launch_prev(j, s, node);
		if (!prev || !is_kernel(j, prev) || apart(j->launches[prev].number, l.number) < 0)
			return;
		j->launches[node] = j->launches[prev];
		j->launches[prev] = l;
	}
}

void join_align_launched(struct join *j, struct join_stream *s)
{
	struct join_align *a = since_gap(j, &s->align);
	struct join_launch *l = &j->launches[s->launches.tail];
	uint32_t prev = join_launch_prev(j, s, s->launches.tail);
	int32_t on = apart(l->number, a->last_launch);

	if (a->launched && (epoch_of(l->number) != a->launch_epoch || on < -(int32_t)JOIN_RACE)) {
		count_anew(j, s);
		prev = 0;
	}
	l->raced = a->launched && l->t_ns < a->calls_end_ns;
	if (l->raced && prev)
		j->launches[prev].raced = true;
	if (l->end_ns > a->calls_end_ns)
		a->calls_end_ns = l->end_ns;
	if (a->launched && prev && on <= 0)
		sort_in(j, s);
	else
		a->last_launch = l->number;
	a->launch_epoch = epoch_of(l->number);
	a->launched = true;
	if (a->gap && !a->has_sure && !l->raced && l->t_ns >= j->gap.on_ns) {
		a->sure = l->number;
		a->has_sure = true;
	}
}

/* ---- learning ---- */

static uint32_t after(const struct join *j, const struct join_stream *s, uint32_t node)
{
	return node ? join_launch_next(j, s, node) : s->launches.head;
}

/* Sets bounds by time: neither a call after the kernel's start nor a call that is too old is its
 * launch. */
static void learn_by_calls(struct join *j, struct join_stream *s, uint32_t kernel,
			   uint64_t begin_ns, uint32_t *steps)
{
	struct join_align *a = &s->align;
	uint64_t error_ns = j->clock->error_ns;
	uint32_t node = after(j, s, a->called);

	for (; node && j->launches[node].t_ns <= begin_ns + error_ns; node = after(j, s, node)) {
		const struct join_launch *l = &j->launches[node];

		if (!*steps)
			return;
		--*steps;
		a->called = node;
		if (l->type != JOIN_LAUNCH_KERNEL)
			continue;
		if (a->began && !l->raced && l->t_ns > a->last_begin_ns + error_ns)
			lower_high(a, l->number - 1 - a->last_kernel);
		raise_low(a, l->number - JOIN_PENDING - kernel);
	}
	if (node && is_kernel(j, node) && !j->launches[node].raced)
		lower_high(a, j->launches[node].number - 1 - kernel);
}

/* Searches for the launch with that number, starting at *near. 0: it is not there, or too far away
 * for now. */
static uint32_t find_launch(struct join *j, const struct join_stream *s, uint32_t *near,
			    uint32_t number, uint32_t *steps)
{
	uint32_t node = *near ? *near : s->launches.head;
	int32_t on = 0;

	while (node && *steps) {
		uint32_t next;

		--*steps;
		*near = node;
		if (is_kernel(j, node)) {
			int32_t to = apart(number, j->launches[node].number);

			if (!to)
				return node;
			if ((to > 0 && on < 0) || (to < 0 && on > 0))
				/* the number lies between two launches: the launch was lost */
				return 0;
			on = to;
		}
		next = on < 0 ? join_launch_prev(j, s, node) : join_launch_next(j, s, node);
		node = next;
	}
	return 0;
}

/* Whether the grid and block of the launch that the difference implies contradict it. */
static bool disproved(struct join *j, const struct join_stream *s, const struct join_device_pend *p,
		      uint32_t difference, uint32_t *near, uint32_t *steps)
{
	uint32_t node = find_launch(j, s, near, p->e.kernel.number + difference, steps);

	return node && !j->launches[node].raced && !join_match_fits(j, &j->launches[node], p);
}

static void learn(struct join *j, struct join_stream *s, const struct join_device_pend *p)
{
	struct join_align *a = &s->align;
	uint32_t kernel = p->e.kernel.number, steps = JOIN_LEARN_STEPS, low_steps, all = steps;

	learn_by_calls(j, s, kernel, p->begin_ns, &steps);
	if (a->has_floor && p->begin_ns >= a->floor_ns)
		raise_low(a, a->floor - kernel);
	if (since_gap(j, a)->gap && epoch_of(kernel) == j->gap.epoch) {
		if (a->has_gap_floor)
			raise_low(a, a->gap_floor - 1);
		if (a->has_sure)
			lower_high(a, a->sure - 1);
	}
	if (!a->at_high)
		a->at_high = a->called;
	low_steps = (steps + 1) / 2;
	steps -= low_steps;
	while (a->has_low && a->has_high && width(a) > 0 && low_steps &&
	       disproved(j, s, p, a->low, &a->at_low, &low_steps))
		a->low++;
	steps += low_steps;
	while (a->has_low && a->has_high && width(a) > 0 && steps &&
	       disproved(j, s, p, a->high, &a->at_high, &steps))
		a->high--;
	j->stats.align_steps += all - steps;
	if (width(a) < 0)
		contradicted(j, a);
}

/* ---- kernels ---- */

/* Counts a kernel that has no launch record, between two kernels that have one. */
static void count_unseen(struct join_align *a, bool sure)
{
	a->unseen = true;
	a->low--;
	a->high -= sure;
}

static void give_up_kernel(struct join *j, struct join_stream *s, const struct join_device_pend *p)
{
	struct join_align *a = &s->align;

	if (join_match_meet_unseen_coll(j, s, p))
		count_unseen(a, true);
	else
		join_match_unmatched(j, p, JOIN_KERNEL_AMBIGUOUS);
	/* drops launches that cannot belong to any later kernel */
	while (a->has_low && s->launches.count && is_kernel(j, s->launches.head) &&
	       apart(j->launches[s->launches.head].number, p->e.kernel.number + a->low) <= 0)
		join_match_launch_drop(j, s);
}

/* Drops the launches before that number. True: the launch with that number is now the oldest. */
static bool advance(struct join *j, struct join_stream *s, uint32_t number)
{
	uint32_t node = s->launches.head, drop = 0, graphs = 0, passed = 0;
	bool found = false;

	for (; node && graphs < JOIN_RACE && !found; node = join_launch_next(j, s, node)) {
		int32_t on = apart(j->launches[node].number, number);

		j->stats.align_steps++;
		if (!is_kernel(j, node)) {
			graphs++;
			passed++;
			continue;
		}
		if (on > 0)
			break;
		found = !on;
		drop = passed;
		passed++;
		if (!found)
			drop = passed;
	}
	while (drop--)
		join_match_launch_drop(j, s);
	return found;
}

static void doubt(struct join *j, struct join_stream *s, const struct join_device_pend *p,
		  bool raced)
{
	join_match_unmatched(j, p, JOIN_KERNEL_AMBIGUOUS);
	if (!raced || ++s->align.misfits > JOIN_MISFITS)
		contradicted(j, &s->align);
}

/* Joins a kernel whose stream's difference is known. */
static void join_kernel(struct join *j, struct join_stream *s, const struct join_device_pend *p)
{
	struct join_align *a = &s->align;
	uint32_t number = p->e.kernel.number + a->low;
	const struct join_launch *l;

	if ((a->met && apart(number, a->last_met) <= 0) ||
	    (a->has_floor && p->begin_ns >= a->floor_ns && apart(number, a->floor) < 0)) {
		contradicted(j, a);
		learn(j, s, p);
		give_up_kernel(j, s, p);
		return;
	}
	if (!advance(j, s, number)) {
		bool lost = s->launches.count > 0; /* later launches are known */

		if (!join_match_meet_unseen_coll(j, s, p))
			join_match_unmatched(j, p, JOIN_KERNEL_NO_LAUNCH);
		else if (!lost)
			count_unseen(a, false);
		return;
	}
	l = &j->launches[s->launches.head];
	if (join_match_fits(j, l, p)) {
		a->misfits = 0;
		a->met = true;
		a->last_met = l->number;
		join_match_meet(j, s, p);
	} else if (join_match_meet_unseen_coll(j, s, p)) {
		count_unseen(a, true);
	} else {
		doubt(j, s, p, l->raced);
	}
}

/* Starts an epoch with its first kernel. */
static void begin_epoch(struct join_align *a, uint8_t epoch)
{
	uint32_t low = a->low;
	bool knew = a->began && a->has_low && (uint8_t)(epoch - a->kernel_epoch) <= INT8_MAX;

	forget(a);
	if (knew)
		raise_low(a, low); /* uncounted kernels can only raise it */
	else if (!a->launch_epoch)
		raise_low(a, 0); /* every launch was counted */
	if (!a->began && !a->launch_epoch && !epoch)
		lower_high(a, 0);
	a->kernel_epoch = epoch;
}

void join_align_kernel(struct join *j, struct join_stream *s, const struct join_device_pend *p)
{
	struct join_align *a = &s->align;
	uint32_t number = p->e.kernel.number;
	int32_t on = apart(number, a->last_kernel);

	if (!number || !a->launched) {
		if (!join_match_meet_unseen_coll(j, s, p))
			join_match_unmatched(
			    j, p, number ? JOIN_KERNEL_NO_LAUNCH : JOIN_KERNEL_AMBIGUOUS);
		return;
	}
	if (!a->began || epoch_of(number) != a->kernel_epoch) {
		begin_epoch(a, epoch_of(number));
		a->began = false;
	} else if (on <= 0 || (on > 1 && a->unseen)) {
		/* the kernel is late, or kernels both with and without launch records were lost */
		contradicted(j, a);
		a->began = on > 0;
	}
	if (width(a))
		learn(j, s, p);
	a->began = true;
	a->last_kernel = number;
	a->last_begin_ns = p->begin_ns;
	if (width(a))
		give_up_kernel(j, s, p);
	else
		join_kernel(j, s, p);
}

/* ---- streams of unknown ids ---- */

static bool fits_number(struct join *j, const struct join_stream *s,
			const struct join_device_pend *p)
{
	uint32_t near = 0, steps = JOIN_BIND_KERNELS;
	uint32_t node = find_launch(j, s, &near, p->e.kernel.number, &steps);

	return node && join_match_fits(j, &j->launches[node], p);
}

struct join_stream *join_align_bind(struct join *j, struct join_device_stream *d,
				    const struct join_device_pend *p)
{
	uint32_t fits = 0, found = 0;

	/* Without other information, only equal numbers count. */
	if (d->tried >= JOIN_BIND_KERNELS || !p->e.kernel.number || epoch_of(p->e.kernel.number))
		return NULL;
	d->tried++;
	for (uint32_t i = 0; i < j->stream_count && fits < 2; i++) {
		const struct join_stream *s = &j->streams[i];

		if (s->known || s->device_stream >= 0 || !s->launches.count ||
		    !fits_number(j, s, p))
			continue;
		fits++;
		found = i;
	}
	if (fits != 1)
		return NULL;
	d->fits = d->fits && d->guess == found ? d->fits + 1 : 1;
	d->guess = found;
	if (d->fits < JOIN_BIND_FITS)
		return NULL;
	d->stream = (int32_t)found;
	j->streams[found].device_stream = (int32_t)(d - j->device_streams);
	return &j->streams[found];
}

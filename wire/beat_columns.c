/* SPDX-License-Identifier: Apache-2.0
 * Rows are differences from the previous row, so a row of a steady job takes some ten bytes. Times
 * of groups are rounded: a median of eight steps to 1/16,384 of a step is far finer than the steps'
 * own spread, and takes two bytes instead of four. Times of collectives are exact, because they
 * align the nodes' clocks. */
#include "wire/beat_columns.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

#define GROUP_FRACTION 16384.0 /* of the shortest latency */
#define SHIFT_MAX      40u
#define VALUE_MAX      (1ull << 62) /* any figure: 146 years in nanoseconds */

/* ---- step groups ---- */

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

static bool group_allowed(const struct beat_group *g, const struct beat_group *before)
{
	return is_power_of_two(g->count) && g->count <= BEAT_GROUP_STEPS_MAX &&
	       !(g->first_step & (g->count - 1)) && g->first_step <= VALUE_MAX &&
	       g->used <= g->count && g->flagged <= g->count &&
	       (!before || g->first_step >= before->first_step + before->count);
}

/* Times of these groups on the wire are multiples of 2^shift. */
static uint32_t shift_of(const struct beat_group *groups, uint32_t count)
{
	double least = 0;
	uint32_t shift = 0;

	for (uint32_t i = 0; i < count; i++)
		if (groups[i].latency_ns > 0 && (least <= 0 || groups[i].latency_ns < least))
			least = groups[i].latency_ns;
	while (shift < SHIFT_MAX && (double)(2ull << shift) * GROUP_FRACTION <= least)
		shift++;
	return shift;
}

static uint64_t rounded(double v, uint32_t shift)
{
	v = v / (double)(1ull << shift) + 0.5;
	if (!(v >= 1)) /* also false for NAN */
		return 0;
	return v >= (double)(VALUE_MAX >> shift) ? VALUE_MAX >> shift : (uint64_t)v;
}

static uint64_t rounded_time(uint64_t t_ns, uint32_t shift)
{
	uint64_t half = shift ? 1ull << (shift - 1) : 0;

	return t_ns > UINT64_MAX - half ? UINT64_MAX >> shift : (t_ns + half) >> shift;
}

static uint32_t log2_of(uint32_t power)
{
	uint32_t log = 0;

	while (power >> log > 1)
		log++;
	return log;
}

/* Of the row before, in the wire's units. */
struct group_row {
	uint64_t end, next, figure[8];
};

static void group_row(struct fields *f, struct beat_group *g, uint32_t shift, struct group_row *row)
{
	double *const figures[] = {&g->latency_ns,	&g->self_ns,	&g->self_mad_ns,
				   &g->exposed_comm_ns, &g->compute_ns, &g->idle_ns,
				   &g->copy_ns,		&g->kernels};
	uint32_t log = log2_of(g->count), unused = g->count - g->used;
	uint64_t skip = g->first_step - row->next, end = rounded_time(g->end_ns, shift);

	_Static_assert(ARRAY_LEN(figures) == ARRAY_LEN(row->figure), "figures of a group");
	fields_u32(f, &log, 20);
	fields_u64(f, &skip, VALUE_MAX);
	fields_u32(f, &unused, 1u << log);
	fields_u32(f, &g->flagged, 1u << log);
	fields_change(f, &end, row->end);
	fields_demand(f, end <= UINT64_MAX >> shift);
	g->first_step = row->next + skip;
	g->end_ns = end << shift;
	g->count = 1u << log;
	g->used = g->count - unused;
	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		uint32_t unit = figures[i] == &g->kernels ? 0 : shift;
		uint64_t v = rounded(*figures[i], unit);

		fields_change(f, &v, row->figure[i]);
		fields_demand(f, v <= VALUE_MAX >> unit);
		*figures[i] = (double)v * (double)(1ull << unit);
		row->figure[i] = v;
	}
	row->end = end;
	row->next = g->first_step + g->count;
}

/* The head of a block of rows: their count, 1 to max. False: there is no row. */
static bool count_row(struct fields *f, uint32_t *count, uint32_t max)
{
	if (f->out ? !*count : !f->bytes) {
		*count = 0;
		return false;
	}
	fields_u32(f, count, max);
	fields_demand(f, *count > 0);
	return !f->err;
}

int beat_columns_groups(struct fields *f, struct beat_rank *r)
{
	uint32_t shift = f->out ? shift_of(r->groups, r->group_count) : 0;
	struct group_row row = {0};

	if (!count_row(f, &r->group_count, BEAT_GROUPS_MAX))
		return fields_end(f);
	fields_u32(f, &shift, SHIFT_MAX);
	for (uint32_t i = 0; i < r->group_count && !f->err; i++) {
		struct beat_group g = f->out ? r->groups[i] : (struct beat_group){0};

		group_row(f, &g, shift, &row);
		if (!f->out)
			r->groups[i] = g;
		fields_demand(f, group_allowed(&r->groups[i], i ? &r->groups[i - 1] : NULL));
	}
	return fields_end(f);
}

int beat_columns_blocks(struct fields *f, struct beat_rank *r)
{
	bool any = !f->out && f->bytes;
	uint64_t before = 0;

	for (uint32_t i = 0; f->out && i < r->group_count; i++)
		any |= r->groups[i].blocks >= 0.5;
	for (uint32_t i = 0; any && i < r->group_count; i++) {
		uint64_t now = rounded(r->groups[i].blocks, 0);

		fields_change(f, &now, before);
		fields_demand(f, now <= VALUE_MAX);
		if (!f->out)
			r->groups[i].blocks = (double)now;
		before = now;
	}
	return fields_end(f);
}

/* ---- communicators and collectives ---- */

/* A list of times, each the difference from the previous one in the block; 0 stays 0. */
static void times_row(struct fields *f, uint64_t *last, uint64_t *const t[], uint32_t count)
{
	uint32_t present = 0;

	for (uint32_t i = 0; i < count; i++)
		present |= (uint32_t)(*t[i] != 0) << i;
	fields_u32(f, &present, (1u << count) - 1);
	for (uint32_t i = 0; i < count; i++) {
		if (!(present >> i & 1))
			continue;
		fields_change(f, t[i], *last);
		fields_demand(f, *t[i] > 0);
		*last = *t[i];
	}
}

static void comm_row(struct fields *f, struct beat_comm *c, uint64_t *last)
{
	uint64_t *const times[] = {&c->call_ns, &c->done_ns}, open = c->entered - c->ended;

	fields_fixed64(f, &c->comm);
	fields_u32(f, &c->ranks, UINT32_MAX);
	fields_u32(f, &c->rank, UINT32_MAX);
	fields_u64(f, &c->entered, UINT64_MAX);
	fields_u64(f, &open, c->entered);
	c->ended = c->entered - open;
	fields_u32(f, &c->func, UINT32_MAX);
	fields_u32(f, &c->seq, UINT32_MAX);
	fields_u64(f, &c->bytes, UINT64_MAX);
	times_row(f, last, times, ARRAY_LEN(times));
}

int beat_columns_comms(struct fields *f, struct beat_rank *r)
{
	uint64_t last = 0;

	if (!count_row(f, &r->comm_count, BEAT_COMMS_MAX))
		return fields_end(f);
	for (uint32_t i = 0; i < r->comm_count; i++) {
		struct beat_comm c = f->out ? r->comms[i] : (struct beat_comm){0};

		comm_row(f, &c, &last);
		if (!f->out)
			r->comms[i] = c;
	}
	return fields_end(f);
}

static uint32_t comm_number(const struct beat_rank *r, uint64_t comm)
{
	for (uint32_t i = 0; i < r->comm_count; i++)
		if (r->comms[i].comm == comm)
			return i + 1;
	return 0;
}

static void coll_row(struct fields *f, const struct beat_rank *r, struct beat_coll *c,
		     const struct beat_coll *before, uint64_t *last)
{
	uint64_t *const times[] = {&c->call_ns, &c->begin_ns, &c->end_ns};
	uint64_t seq = (uint64_t)(int32_t)(c->seq - before->seq);
	uint32_t number = f->out ? comm_number(r, c->comm) : 0;

	fields_u32(f, &number, r->comm_count);
	if (number)
		c->comm = r->comms[number - 1].comm;
	else
		fields_fixed64(f, &c->comm);
	fields_u32(f, &c->func, UINT32_MAX);
	fields_change(f, &seq, 0);
	fields_demand(f, (int64_t)seq == (int32_t)seq);
	c->seq = before->seq + (uint32_t)seq;
	fields_change(f, &c->step, before->step);
	times_row(f, last, times, ARRAY_LEN(times));
}

int beat_columns_colls(struct fields *f, struct beat_rank *r)
{
	const struct beat_coll none = {0};
	uint64_t last = 0;

	fields_demand(f, r->comm_count <= BEAT_COMMS_MAX);
	if (!count_row(f, &r->coll_count, BEAT_COLLS_MAX))
		return fields_end(f);
	for (uint32_t i = 0; i < r->coll_count; i++) {
		struct beat_coll c = f->out ? r->colls[i] : none;

		coll_row(f, r, &c, i ? &r->colls[i - 1] : &none, &last);
		if (!f->out)
			r->colls[i] = c;
	}
	return fields_end(f);
}

/* ---- collectives that do not end ---- */

int beat_columns_opens(struct fields *f, struct beat_rank *r)
{
	uint32_t count = 0, next = 0;

	fields_demand(f, r->comm_count <= BEAT_COMMS_MAX);
	for (uint32_t i = 0; !f->err && i < r->comm_count; i++)
		count += r->comms[i].open_func > 0;
	if (!count_row(f, &count, r->comm_count))
		return fields_end(f);
	for (uint32_t i = 0; i < count && !f->err; i++) {
		uint32_t at = next;
		struct beat_comm c;

		while (f->out && !r->comms[at].open_func)
			at++;
		fields_u32(f, &at, r->comm_count - 1);
		fields_demand(f, at >= next);
		c = r->comms[at];
		fields_u32(f, &c.open_func, UINT32_MAX);
		fields_demand(f, c.open_func > 0);
		fields_u32(f, &c.open_seq, UINT32_MAX);
		fields_u32(f, &c.open_dtype, UINT32_MAX);
		fields_u64(f, &c.open_bytes, UINT64_MAX);
		if (!f->out)
			r->comms[at] = c;
		next = at + 1;
	}
	return fields_end(f);
}

/* SPDX-License-Identifier: Apache-2.0
 * Rows are differences from the previous row, so a row of a steady job takes some ten bytes. Times
 * of groups are rounded: a median of eight steps to 1/16,384 of a step is far finer than the steps'
 * own spread, and takes two bytes instead of four. Times of collectives are exact, because they
 * align the nodes' clocks. */
#include "wire/beat_columns.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/check.h"

#define GROUP_FRACTION 16384.0 /* of the shortest latency */
#define SHIFT_MAX      40u
#define VALUE_MAX      (1ull << 62) /* any figure: 146 years in nanoseconds */
#define GROUP_VALUES   8	    /* figures of a group, as medians */

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

uint32_t beat_columns_shift(const struct beat_group *groups, uint32_t count)
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

static void group_values(const struct beat_group *g, uint32_t shift, uint64_t v[GROUP_VALUES])
{
	const double times[] = {g->latency_ns, g->self_ns, g->self_mad_ns, g->exposed_comm_ns,
				g->compute_ns, g->idle_ns, g->copy_ns};

	_Static_assert(ARRAY_LEN(times) + 1 == GROUP_VALUES, "figures of a group");
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		v[i] = rounded(times[i], shift);
	v[GROUP_VALUES - 1] = rounded(g->kernels, 0);
}

static uint32_t log2_of(uint32_t power)
{
	uint32_t log = 0;

	while (power >> log > 1)
		log++;
	return log;
}

int beat_columns_groups_pack(const struct beat_rank *r, struct buf *out)
{
	uint32_t shift = beat_columns_shift(r->groups, r->group_count);
	uint64_t before[GROUP_VALUES] = {0}, now[GROUP_VALUES], end = 0, next = 0;

	if (!r->group_count)
		return 0;
	if (r->group_count > BEAT_GROUPS_MAX)
		return -EINVAL;
	buf_varint(out, r->group_count);
	buf_varint(out, shift);
	for (uint32_t i = 0; i < r->group_count; i++) {
		const struct beat_group *g = &r->groups[i];
		uint64_t at = rounded_time(g->end_ns, shift);

		if (!group_allowed(g, i ? g - 1 : NULL))
			return -EINVAL;
		buf_varint(out, log2_of(g->count));
		buf_varint(out, g->first_step - next);
		buf_varint(out, g->count - g->used);
		buf_varint(out, g->flagged);
		buf_svarint(out, (int64_t)(at - end));
		group_values(g, shift, now);
		for (int v = 0; v < GROUP_VALUES; v++)
			buf_svarint(out, (int64_t)(now[v] - before[v]));
		memcpy(before, now, sizeof(before));
		end = at;
		next = g->first_step + g->count;
	}
	return out->failed ? -ENOMEM : 0;
}

static int read_values(const uint8_t *data, size_t bytes, size_t *pos, uint32_t shift,
		       uint64_t v[GROUP_VALUES])
{
	for (int i = 0; i < GROUP_VALUES; i++) {
		int64_t d = 0;

		if (buf_read_svarint(data, bytes, pos, &d))
			return -EPROTO;
		v[i] += (uint64_t)d;
		if (v[i] > VALUE_MAX >> (i < GROUP_VALUES - 1 ? shift : 0))
			return -EPROTO;
	}
	return 0;
}

static void set_values(struct beat_group *g, uint32_t shift, const uint64_t v[GROUP_VALUES])
{
	double unit = (double)(1ull << shift);

	g->latency_ns = (double)v[0] * unit;
	g->self_ns = (double)v[1] * unit;
	g->self_mad_ns = (double)v[2] * unit;
	g->exposed_comm_ns = (double)v[3] * unit;
	g->compute_ns = (double)v[4] * unit;
	g->idle_ns = (double)v[5] * unit;
	g->copy_ns = (double)v[6] * unit;
	g->kernels = (double)v[7];
}

/* Reads the head of a block of rows: their count, 1 to max. */
static int read_count(const uint8_t *data, size_t bytes, size_t *pos, uint32_t max, uint32_t *out)
{
	uint64_t n = 0;

	if (buf_read_varint(data, bytes, pos, &n) || !n || n > max)
		return -EPROTO;
	*out = (uint32_t)n;
	return 0;
}

int beat_columns_groups_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r)
{
	uint64_t v[GROUP_VALUES] = {0}, shift = 0, end = 0, next = 0;
	size_t pos = 0;

	r->group_count = 0;
	if (!bytes)
		return 0;
	if (read_count(data, bytes, &pos, BEAT_GROUPS_MAX, &r->group_count) ||
	    buf_read_varint(data, bytes, &pos, &shift) || shift > SHIFT_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < r->group_count; i++) {
		struct beat_group *g = &r->groups[i];
		uint64_t log = 0, skip = 0, unused = 0, flagged = 0;
		int64_t d = 0;

		if (buf_read_varint(data, bytes, &pos, &log) || log > 20 ||
		    buf_read_varint(data, bytes, &pos, &skip) || skip > VALUE_MAX ||
		    buf_read_varint(data, bytes, &pos, &unused) || unused > 1ull << log ||
		    buf_read_varint(data, bytes, &pos, &flagged) || flagged > 1ull << log ||
		    buf_read_svarint(data, bytes, &pos, &d) ||
		    read_values(data, bytes, &pos, (uint32_t)shift, v))
			return -EPROTO;
		end += (uint64_t)d;
		*g = (struct beat_group){.first_step = next + skip,
					 .end_ns = end << shift,
					 .count = 1u << log,
					 .flagged = (uint32_t)flagged};
		g->used = g->count - (uint32_t)unused;
		set_values(g, (uint32_t)shift, v);
		if (end > UINT64_MAX >> shift || !group_allowed(g, i ? g - 1 : NULL))
			return -EPROTO;
		next = g->first_step + g->count;
	}
	return pos == bytes ? 0 : -EPROTO;
}

int beat_columns_blocks_pack(const struct beat_rank *r, struct buf *out)
{
	uint64_t before = 0;
	bool any = false;

	for (uint32_t i = 0; i < r->group_count; i++)
		any |= r->groups[i].blocks >= 0.5;
	for (uint32_t i = 0; any && i < r->group_count; i++) {
		uint64_t now = rounded(r->groups[i].blocks, 0);

		buf_svarint(out, (int64_t)(now - before));
		before = now;
	}
	return out->failed ? -ENOMEM : 0;
}

int beat_columns_blocks_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r)
{
	uint64_t v = 0;
	size_t pos = 0;

	for (uint32_t i = 0; bytes && i < r->group_count; i++) {
		int64_t d = 0;

		if (buf_read_svarint(data, bytes, &pos, &d))
			return -EPROTO;
		v += (uint64_t)d;
		if (v > VALUE_MAX)
			return -EPROTO;
		r->groups[i].blocks = (double)v;
	}
	return pos == bytes ? 0 : -EPROTO;
}

/* ---- communicators and collectives ---- */

/* A list of times, each the difference from the previous one in the block; 0 stays 0. */
struct times {
	uint64_t last;
};

static void put_times(struct buf *out, struct times *s, const uint64_t *t, unsigned count)
{
	uint64_t present = 0;

	for (unsigned i = 0; i < count; i++)
		present |= (uint64_t)(t[i] != 0) << i;
	buf_varint(out, present);
	for (unsigned i = 0; i < count; i++) {
		if (!t[i])
			continue;
		buf_svarint(out, (int64_t)(t[i] - s->last));
		s->last = t[i];
	}
}

static int get_times(const uint8_t *data, size_t bytes, size_t *pos, struct times *s, uint64_t *t,
		     unsigned count)
{
	uint64_t present = 0;

	if (buf_read_varint(data, bytes, pos, &present) || present >> count)
		return -EPROTO;
	for (unsigned i = 0; i < count; i++) {
		int64_t d = 0;

		t[i] = 0;
		if (!(present >> i & 1))
			continue;
		if (buf_read_svarint(data, bytes, pos, &d))
			return -EPROTO;
		s->last += (uint64_t)d;
		if (!s->last)
			return -EPROTO;
		t[i] = s->last;
	}
	return 0;
}

static void put_id(struct buf *out, uint64_t id)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(id >> (8 * i));
	buf_append(out, bytes, sizeof(bytes));
}

static int get_id(const uint8_t *data, size_t bytes, size_t *pos, uint64_t *id)
{
	if (bytes - *pos < 8)
		return -EPROTO;
	*id = 0;
	for (int i = 0; i < 8; i++)
		*id |= (uint64_t)data[(*pos)++] << (8 * i);
	return 0;
}

static int get_u32(const uint8_t *data, size_t bytes, size_t *pos, uint32_t *out)
{
	uint64_t v = 0;

	if (buf_read_varint(data, bytes, pos, &v) || v > UINT32_MAX)
		return -EPROTO;
	*out = (uint32_t)v;
	return 0;
}

int beat_columns_comms_pack(const struct beat_rank *r, struct buf *out)
{
	struct times t = {0};

	if (!r->comm_count)
		return 0;
	if (r->comm_count > BEAT_COMMS_MAX)
		return -EINVAL;
	buf_varint(out, r->comm_count);
	for (uint32_t i = 0; i < r->comm_count; i++) {
		const struct beat_comm *c = &r->comms[i];
		const uint64_t at[] = {c->call_ns, c->done_ns};

		if (c->ended > c->entered)
			return -EINVAL;
		put_id(out, c->comm);
		buf_varint(out, c->ranks);
		buf_varint(out, c->rank);
		buf_varint(out, c->entered);
		buf_varint(out, c->entered - c->ended);
		buf_varint(out, c->func);
		buf_varint(out, c->seq);
		buf_varint(out, c->bytes);
		put_times(out, &t, at, 2);
	}
	return out->failed ? -ENOMEM : 0;
}

int beat_columns_comms_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r)
{
	struct times t = {0};
	size_t pos = 0;

	r->comm_count = 0;
	if (!bytes)
		return 0;
	if (read_count(data, bytes, &pos, BEAT_COMMS_MAX, &r->comm_count))
		return -EPROTO;
	for (uint32_t i = 0; i < r->comm_count; i++) {
		struct beat_comm *c = &r->comms[i];
		uint64_t at[2], open = 0;

		memset(c, 0, sizeof(*c));
		if (get_id(data, bytes, &pos, &c->comm) || get_u32(data, bytes, &pos, &c->ranks) ||
		    get_u32(data, bytes, &pos, &c->rank) ||
		    buf_read_varint(data, bytes, &pos, &c->entered) ||
		    buf_read_varint(data, bytes, &pos, &open) || open > c->entered ||
		    get_u32(data, bytes, &pos, &c->func) || get_u32(data, bytes, &pos, &c->seq) ||
		    buf_read_varint(data, bytes, &pos, &c->bytes) ||
		    get_times(data, bytes, &pos, &t, at, 2))
			return -EPROTO;
		c->ended = c->entered - open;
		c->call_ns = at[0];
		c->done_ns = at[1];
	}
	return pos == bytes ? 0 : -EPROTO;
}

static uint32_t comm_number(const struct beat_rank *r, uint64_t comm)
{
	for (uint32_t i = 0; i < r->comm_count; i++)
		if (r->comms[i].comm == comm)
			return i + 1;
	return 0;
}

int beat_columns_colls_pack(const struct beat_rank *r, struct buf *out)
{
	struct beat_coll none = {0};
	struct times t = {0};

	if (!r->coll_count)
		return 0;
	if (r->coll_count > BEAT_COLLS_MAX || r->comm_count > BEAT_COMMS_MAX)
		return -EINVAL;
	buf_varint(out, r->coll_count);
	for (uint32_t i = 0; i < r->coll_count; i++) {
		const struct beat_coll *c = &r->colls[i], *before = i ? c - 1 : &none;
		const uint64_t at[] = {c->call_ns, c->begin_ns, c->end_ns};
		uint32_t number = comm_number(r, c->comm);

		buf_varint(out, number);
		if (!number)
			put_id(out, c->comm);
		buf_varint(out, c->func);
		buf_svarint(out, (int32_t)(c->seq - before->seq));
		buf_svarint(out, (int64_t)(c->step - before->step));
		put_times(out, &t, at, 3);
	}
	return out->failed ? -ENOMEM : 0;
}

int beat_columns_colls_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r)
{
	struct beat_coll before = {0};
	struct times t = {0};
	size_t pos = 0;

	r->coll_count = 0;
	if (!bytes)
		return 0;
	if (read_count(data, bytes, &pos, BEAT_COLLS_MAX, &r->coll_count))
		return -EPROTO;
	for (uint32_t i = 0; i < r->coll_count; i++) {
		struct beat_coll *c = &r->colls[i];
		uint64_t at[3], number = 0;
		int64_t seq = 0, step = 0;

		memset(c, 0, sizeof(*c));
		if (buf_read_varint(data, bytes, &pos, &number) || number > r->comm_count)
			return -EPROTO;
		if (number)
			c->comm = r->comms[number - 1].comm;
		else if (get_id(data, bytes, &pos, &c->comm))
			return -EPROTO;
		if (get_u32(data, bytes, &pos, &c->func) ||
		    buf_read_svarint(data, bytes, &pos, &seq) || seq != (int32_t)seq ||
		    buf_read_svarint(data, bytes, &pos, &step) ||
		    get_times(data, bytes, &pos, &t, at, 3))
			return -EPROTO;
		c->seq = before.seq + (uint32_t)seq;
		c->step = before.step + (uint64_t)step;
		c->call_ns = at[0];
		c->begin_ns = at[1];
		c->end_ns = at[2];
		before = *c;
	}
	return pos == bytes ? 0 : -EPROTO;
}

/* ---- collectives that do not end ---- */

int beat_columns_opens_pack(const struct beat_rank *r, struct buf *out)
{
	uint32_t count = 0;

	if (r->comm_count > BEAT_COMMS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < r->comm_count; i++)
		count += r->comms[i].open_func > 0;
	if (!count)
		return 0;
	buf_varint(out, count);
	for (uint32_t i = 0; i < r->comm_count; i++) {
		const struct beat_comm *c = &r->comms[i];

		if (!c->open_func)
			continue;
		buf_varint(out, i);
		buf_varint(out, c->open_func);
		buf_varint(out, c->open_seq);
		buf_varint(out, c->open_dtype);
		buf_varint(out, c->open_bytes);
	}
	return out->failed ? -ENOMEM : 0;
}

int beat_columns_opens_unpack(const uint8_t *data, size_t bytes, struct beat_rank *r)
{
	uint32_t count = 0, row = 0;
	size_t pos = 0;

	if (!bytes)
		return 0;
	if (read_count(data, bytes, &pos, r->comm_count, &count))
		return -EPROTO;
	for (uint32_t i = 0; i < count; i++) {
		struct beat_comm *c;
		uint32_t next = 0;

		if (get_u32(data, bytes, &pos, &next) || next >= r->comm_count ||
		    (i && next <= row))
			return -EPROTO;
		row = next;
		c = &r->comms[row];
		if (get_u32(data, bytes, &pos, &c->open_func) || !c->open_func ||
		    get_u32(data, bytes, &pos, &c->open_seq) ||
		    get_u32(data, bytes, &pos, &c->open_dtype) ||
		    buf_read_varint(data, bytes, &pos, &c->open_bytes))
			return -EPROTO;
	}
	return pos == bytes ? 0 : -EPROTO;
}

/* SPDX-License-Identifier: Apache-2.0
 * A window has at most a few hundred steps, so these columns are simple. Whole numbers are
 * differences from the previous row (times from another time of the same row). Floating-point
 * numbers are the exclusive or with the previous row, in eight byte planes. A column of zeros is
 * left out. */
#include "wire/columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "wire/pack.h"

/* Whole numbers of a row, predicted from the previous one; the caller defines the order. */
enum { INT_COUNT = 25, FLOAT_COUNT = 8, STEP_COLUMNS = INT_COUNT + FLOAT_COUNT };
_Static_assert(STEP_COLUMNS <= 64, "one bit per column");

struct row {
	uint64_t ints[INT_COUNT];
	double floats[FLOAT_COUNT];
};

static void row_from_step(struct row *r, const struct window_step *w)
{
	const struct step *s = &w->step;
	const uint64_t ints[] = {
	    s->index,
	    s->begin_ns,
	    s->end_ns - s->begin_ns,
	    s->device_begin_ns ? s->device_begin_ns - s->begin_ns : 0,
	    s->device_end_ns ? s->device_end_ns - s->end_ns : 0,
	    s->latency_ns - (s->end_ns - s->begin_ns),
	    s->latency_ns - s->self_ns,
	    s->compute_ns,
	    s->comm_ns,
	    s->comm_ns - s->exposed_comm_ns,
	    s->copy_ns,
	    s->idle_ns,
	    s->launch_gap_max_ns,
	    s->kernels,
	    s->launches,
	    s->collectives,
	    s->copies,
	    s->unmatched,
	    s->phase,
	    s->key,
	    s->work_count,
	    s->source,
	    (uint64_t)w->kind << 32 | s->flags,
	    (uint64_t)w->period << 32 | w->flags,
	    /* above, a zero device time and one equal to the host's look the same. The last
		 * bit: the latency is the device's, as in found steps */
	    (s->device_begin_ns ? 1u : 0u) | (s->device_end_ns ? 2u : 0u) |
		(s->device_latency_ns && s->device_latency_ns == s->latency_ns ? 4u : 0u),
	};
	const double floats[] = {s->work[0],	 s->work[1],	      s->work[2], s->work[3],
				 w->expected_ns, w->expected_self_ns, w->excess,  w->self_excess};

	_Static_assert(ARRAY_LEN(ints) == INT_COUNT && ARRAY_LEN(floats) == FLOAT_COUNT, "row");
	memcpy(r->ints, ints, sizeof(ints));
	memcpy(r->floats, floats, sizeof(floats));
}

static void row_to_step(const struct row *r, struct window_step *w)
{
	const uint64_t *v = r->ints;
	struct step *s = &w->step;

	memset(w, 0, sizeof(*w));
	s->index = v[0];
	s->begin_ns = v[1];
	s->end_ns = v[1] + v[2];
	s->device_begin_ns = v[24] & 1 ? s->begin_ns + v[3] : 0;
	s->device_end_ns = v[24] & 2 ? s->end_ns + v[4] : 0;
	s->latency_ns = v[5] + v[2];
	s->device_latency_ns = v[24] & 4 ? s->latency_ns : 0;
	s->self_ns = s->latency_ns - v[6];
	s->compute_ns = v[7];
	s->comm_ns = v[8];
	s->exposed_comm_ns = s->comm_ns - v[9];
	s->copy_ns = v[10];
	s->idle_ns = v[11];
	s->launch_gap_max_ns = v[12];
	s->kernels = (uint32_t)v[13];
	s->launches = (uint32_t)v[14];
	s->collectives = (uint32_t)v[15];
	s->copies = (uint32_t)v[16];
	s->unmatched = (uint32_t)v[17];
	s->phase = (uint32_t)v[18];
	s->key = v[19];
	s->work_count = (uint32_t)v[20];
	s->source = (uint32_t)v[21];
	s->flags = (uint32_t)v[22];
	w->kind = (uint32_t)(v[22] >> 32);
	w->flags = (uint32_t)v[23];
	w->period = (uint32_t)(v[23] >> 32);
	memcpy(s->work, r->floats, sizeof(s->work));
	w->expected_ns = r->floats[4];
	w->expected_self_ns = r->floats[5];
	w->excess = r->floats[6];
	w->self_excess = r->floats[7];
}

static uint64_t float_bits(double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

/* Finds the columns that are not all zero after differences. */
static uint64_t used_columns(const struct row *rows, uint32_t count)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		for (int c = 0; c < INT_COUNT; c++)
			if (rows[i].ints[c] != (i ? rows[i - 1].ints[c] : 0))
				used |= 1ull << c;
		for (int c = 0; c < FLOAT_COUNT; c++)
			if (float_bits(rows[i].floats[c]) !=
			    (i ? float_bits(rows[i - 1].floats[c]) : 0))
				used |= 1ull << (INT_COUNT + c);
	}
	return used;
}

int columns_steps_pack(const struct window_step *steps, uint32_t count, struct buf *out)
{
	struct pack_part part;
	struct row *rows;
	struct buf b;
	uint64_t used;
	int err;

	if (count > LIMIT_WINDOW_STEPS)
		return -EMSGSIZE;
	rows = calloc(count + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		row_from_step(&rows[i], &steps[i]);
	used = used_columns(rows, count);
	buf_init(&b, LIMIT_WIRE_UNPACKED_BYTES);
	buf_varint(&b, used);
	for (int c = 0; c < INT_COUNT; c++)
		for (uint32_t i = 0; used >> c & 1 && i < count; i++)
			buf_svarint(&b, (int64_t)(rows[i].ints[c] - (i ? rows[i - 1].ints[c] : 0)));
	for (int c = 0; c < FLOAT_COUNT; c++)
		for (int plane = 0; used >> (INT_COUNT + c) & 1 && plane < 8; plane++)
			for (uint32_t i = 0; i < count; i++) {
				uint64_t v = float_bits(rows[i].floats[c]) ^
					     (i ? float_bits(rows[i - 1].floats[c]) : 0);
				uint8_t byte = (uint8_t)(v >> (8 * plane));

				buf_append(&b, &byte, 1);
			}
	part = (struct pack_part){b.data, b.bytes};
	err = b.failed ? -ENOMEM : pack_write(&part, 1, PACK_CLOSE, out);
	buf_fini(&b);
	free(rows);
	return err;
}

static int read_rows(const uint8_t *p, size_t n, struct row *rows, uint32_t count)
{
	uint64_t used = 0;
	size_t pos = 0;

	if (buf_read_varint(p, n, &pos, &used) || used >> STEP_COLUMNS)
		return -EPROTO;
	for (int c = 0; c < INT_COUNT; c++)
		for (uint32_t i = 0; used >> c & 1 && i < count; i++) {
			int64_t d = 0;

			if (buf_read_svarint(p, n, &pos, &d))
				return -EPROTO;
			rows[i].ints[c] = (i ? rows[i - 1].ints[c] : 0) + (uint64_t)d;
		}
	for (int c = 0; c < FLOAT_COUNT; c++) {
		uint64_t bits = 0;

		if (!(used >> (INT_COUNT + c) & 1))
			continue;
		if (n - pos < (size_t)count * 8)
			return -EPROTO;
		for (uint32_t i = 0; i < count; i++) {
			uint64_t v = 0;

			for (int plane = 0; plane < 8; plane++)
				v |= (uint64_t)p[pos + (size_t)plane * count + i] << (8 * plane);
			bits ^= v;
			memcpy(&rows[i].floats[c], &bits, sizeof(bits));
		}
		pos += (size_t)count * 8;
	}
	return pos == n ? 0 : -EPROTO;
}

int columns_steps_unpack(const void *data, size_t bytes, size_t max_bytes,
			 struct window_step *steps, uint32_t count)
{
	struct row *rows;
	uint8_t *p = NULL;
	size_t n = 0;
	int err = pack_read(data, bytes, max_bytes, &p, &n);

	if (err)
		return err;
	rows = calloc(count + 1, sizeof(*rows));
	err = rows ? read_rows(p, n, rows, count) : -ENOMEM;
	for (uint32_t i = 0; !err && i < count; i++)
		row_to_step(&rows[i], &steps[i]);
	free(rows);
	free(p);
	return err;
}

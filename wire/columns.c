/* SPDX-License-Identifier: Apache-2.0
 * A job repeats itself: the same kernels follow each other in every layer and step. So a row is
 * coded as its difference from an earlier row: the one that followed the same three rows of its
 * lane (thread or stream), else the last one with its kind and name. A mask names the fields that
 * differ; a row as predicted takes one zero byte and two times. Times are noise around a running
 * mean per context, so we store their bit length (which zstd packs) and their bits (which nothing
 * packs). The launch time of a device row is the start of the host row with its correlation, if
 * that row is in the block. Plain delta columns need 3.7 bytes per row for the same stream, and
 * handling their zeros costs time too. */
#include "wire/columns.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "wire/pack.h"

#define LANE_COUNT    256u
#define CONTEXT_COUNT 4096u
#define SEQ_COUNT     1024u
#define LAUNCH_MAX    262144u
/* mask, gap class, duration class */
#define ROW_BYTES_MIN 3u
#define HISTORY	      3
/* Prefetches the names' contexts of rows this far ahead: the tables exceed the nearer caches. */
#define CODE_AHEAD 4u
/* Prefetches the rows themselves even earlier: another CPU wrote them. */
#define ROWS_AHEAD 16u

enum column {
	COL_MASK,
	COL_GAP_CLASS,
	COL_GAP_BITS,
	COL_DURATION_CLASS,
	COL_DURATION_BITS,
	COL_LAUNCH_CLASS,
	COL_LAUNCH_BITS,
	COL_LANE,
	COL_NAME,
	COL_CORRELATION,
	COL_SHAPE,
	COL_BYTES,
	COL_SEQ,
	COL_REST,
	COL_COUNT,
};

/* Bits of a row's mask, the most frequent first, so that the varint stays short. */
enum {
	MASK_LANE = 1 << 0, /* not the lane of the previous row */
	MASK_NAME = 1 << 1,
	MASK_CORRELATION = 1 << 2,
	MASK_LAUNCH = 1 << 3, /* launch time not as predicted */
	MASK_BYTES = 1 << 4,
	MASK_SEQ = 1 << 5,
	MASK_KIND = 1 << 6,
	MASK_LANE_NEW = 1 << 7, /* the lane's slot gets a new thread and stream */
	MASK_FLAGS = 1 << 8,
	MASK_GRID = 1 << 9,
	MASK_BLOCK = 1 << 10,
	MASK_REGISTERS = 1 << 11,
	MASK_SHARED = 1 << 12,
	MASK_KEY = 1 << 13,
	MASK_FUNC = 1 << 14,
	MASK_PEER = 1 << 15,
	MASK_LAUNCH_PRESENT = 1 << 16, /* has a launch time although none is usual, or the
				        * reverse */
	MASK_RESERVED = 1 << 17,
	MASK_ALL = (1 << 18) - 1,
};

struct lane {
	uint32_t thread, stream, device;
	uint32_t history[HISTORY];
	uint32_t correlation;
	int64_t end, launch;
};

struct context {
	uint32_t row; /* model's first + 1 + index of the reference row; up to first: none */
	uint32_t correlation;
	int64_t duration, gap, launch; /* running means */
};

struct seq {
	uint32_t row, seq;
};

struct launch {
	uint32_t row, correlation;
	int64_t begin;
};

/* State that coder and decoder update alike while they go through the rows. The tables are large
 * compared with a recorder's block, so each thread keeps them: entries of an earlier block have
 * rows up to `first`. */
struct model {
	const struct record *host, *device;
	uint32_t host_count, count, first;
	uint64_t base;
	int64_t scale;
	int64_t begin; /* of the previous row */
	uint32_t lane;
	uint32_t launch_mask, launch_slots;
	struct lane lanes[LANE_COUNT];
	struct context by_history[CONTEXT_COUNT], by_name[CONTEXT_COUNT];
	struct seq seqs[SEQ_COUNT];
	struct launch launches[];
};

static const struct record no_record;
static const struct context no_context;

static uint32_t mix32(uint32_t a, uint32_t b)
{
	uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(x >> 32) ^ (uint32_t)x;
}

static const struct record *model_row(const struct model *m, uint32_t i)
{
	return i < m->host_count ? &m->host[i] : &m->device[i - m->host_count];
}

/* Slots in a thread's kept model: enough for the recorder's blocks and small windows. */
#define KEPT_LAUNCHES 16384u

static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;
static bool kept_have_key;

static void kept_make_key(void)
{
	kept_have_key = !pthread_key_create(&kept_key, free);
}

static struct model *model_alloc(uint32_t slots)
{
	struct model *m = calloc(1, sizeof(*m) + slots * sizeof(m->launches[0]));

	if (m)
		m->launch_slots = slots;
	return m;
}

/* Takes the thread's own model while it is used; NULL: none, or too small. */
static struct model *kept_take(uint32_t slots)
{
	struct model *m;

	pthread_once(&kept_once, kept_make_key);
	if (!kept_have_key || slots > KEPT_LAUNCHES)
		return NULL;
	m = pthread_getspecific(kept_key);
	if (!m)
		return model_alloc(KEPT_LAUNCHES);
	pthread_setspecific(kept_key, NULL);
	return m;
}

static void model_free(struct model *m)
{
	if (!m || m->launch_slots != KEPT_LAUNCHES || !kept_have_key ||
	    pthread_setspecific(kept_key, m))
		free(m);
}

static struct model *model_new(const struct record *host, uint32_t host_count,
			       const struct record *device, uint32_t device_count)
{
	uint32_t slots = 64, count = host_count + device_count;
	struct model *m;

	while (slots < LAUNCH_MAX && slots < 4 * host_count)
		slots *= 2;
	m = kept_take(slots);
	if (m && m->count > UINT32_MAX - m->first - 1 - count) {
		free(m);
		m = NULL;
	}
	if (!m)
		m = model_alloc(slots);
	if (!m)
		return NULL;
	m->first += m->count;
	m->host = host;
	m->device = device;
	m->host_count = host_count;
	m->count = count;
	m->base = 0;
	m->scale = 0;
	m->begin = 0;
	m->lane = 0;
	m->launch_mask = slots - 1;
	memset(m->lanes, 0, sizeof(m->lanes));
	return m;
}

static bool model_has(const struct model *m, uint32_t row)
{
	return row > m->first;
}

static const struct record *model_reference(const struct model *m, const struct context *x)
{
	return model_has(m, x->row) ? model_row(m, x->row - m->first - 1) : &no_record;
}

static struct context *model_history(struct model *m, const struct lane *l)
{
	uint32_t h = mix32(mix32(l->history[0], l->history[1]), l->history[2] + l->device);

	return &m->by_history[h % CONTEXT_COUNT];
}

static struct context *model_name(struct model *m, const struct record *r)
{
	return &m->by_name[mix32(r->name, r->kind) % CONTEXT_COUNT];
}

static struct seq *model_seq(struct model *m, const struct record *r)
{
	uint64_t h = hash_mix(r->key ^ (uint64_t)r->func << 8 ^ r->kind);

	return &m->seqs[h % SEQ_COUNT];
}

static uint32_t model_seq_next(struct model *m, const struct record *r)
{
	const struct seq *s = model_seq(m, r);

	return (model_has(m, s->row) ? s->seq : 0) + 1;
}

static bool expects_launch(const struct record *r)
{
	return RECORD_IS_DEVICE(r->kind) && !(r->flags & RECORD_FLAG_UNMATCHED);
}

static int64_t add64(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t sub64(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int64_t unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static int64_t to_scaled(const struct model *m, uint64_t t)
{
	int64_t d = (int64_t)(t - m->base);

	return m->scale == 1 ? d : d / m->scale;
}

static uint64_t from_scaled(const struct model *m, int64_t t)
{
	return m->base + (uint64_t)t * (uint64_t)m->scale;
}

/* The expected start of a row without its usual gap: after the previous row, and after the end of
 * its lane. */
static int64_t model_floor(const struct model *m, const struct lane *l)
{
	return l->end > m->begin ? l->end : m->begin;
}

static int64_t model_launch(const struct model *m, const struct lane *l, const struct context *x,
			    const struct record *r)
{
	const struct launch *at = &m->launches[r->correlation & m->launch_mask];

	if (r->correlation && at->correlation == r->correlation && model_has(m, at->row))
		return at->begin;
	return add64(l->launch, x->launch);
}

static int64_t mean(bool first, int64_t m, int64_t v)
{
	return first ? v : add64(m, sub64(v, m) >> 1);
}

/* Updates the model with a coded or decoded row. Spans enclose later rows, so their ends do not
 * predict the next row. */
static void model_learn(struct model *m, struct lane *l, struct context *history,
			const struct context *x, const struct record *r, uint32_t row, int64_t gap,
			int64_t launch)
{
	int64_t begin = to_scaled(m, r->begin_ns), end = to_scaled(m, r->end_ns);
	struct context n = *x;
	bool first = !model_has(m, x->row);

	n.row = m->first + row + 1;
	n.duration = mean(first, x->duration, sub64(end, begin));
	n.gap = mean(first, x->gap, gap);
	n.correlation = r->correlation - l->correlation;
	if (r->launch_ns) {
		n.launch = mean(first, x->launch, sub64(launch, l->launch));
		l->launch = launch;
	}
	*history = n;
	*model_name(m, r) = n;
	if (record_is_collective(r))
		*model_seq(m, r) = (struct seq){n.row, r->seq};
	if (!RECORD_IS_DEVICE(r->kind) && r->correlation)
		m->launches[r->correlation & m->launch_mask] =
		    (struct launch){n.row, r->correlation, begin};
	m->begin = begin;
	if (r->kind != RECORD_SPAN && r->kind != RECORD_STEP_BEGIN && r->kind != RECORD_STEP_END)
		l->end = end;
	l->correlation = r->correlation;
	l->history[0] = l->history[1];
	l->history[1] = l->history[2];
	l->history[2] = mix32(r->name + 1, r->kind ^ r->grid[0] << 8);
}

/* The context for a row of this kind and name; valid until the row is learned. */
static const struct context *model_context(struct model *m, const struct context *history,
					   bool as_expected, const struct record *r)
{
	const struct context *x =
	    as_expected && model_has(m, history->row) ? history : model_name(m, r);

	return model_has(m, x->row) ? x : &no_context;
}

/* ---- coding ---- */

struct bits {
	struct buf *to;
	uint64_t acc;
	unsigned have;
};

struct coder {
	struct buf cols[COL_COUNT];
	struct bits gap, duration, launch;
};

static inline void put_byte(struct buf *b, uint8_t v)
{
	if (b->bytes < b->capacity_bytes)
		b->data[b->bytes++] = v;
	else
		buf_append(b, &v, 1);
}

static void put_bits(struct bits *b, uint64_t v, unsigned width)
{
	b->acc |= v << b->have;
	if (b->have + width >= 64) {
		buf_append(b->to, &b->acc, 8);
		b->acc = b->have ? v >> (64 - b->have) : 0;
		b->have = b->have + width - 64;
	} else {
		b->have += width;
	}
}

/* Writes the bit length, then the bits below the leading one. */
static void put_time(struct buf *classes, struct bits *b, int64_t v)
{
	uint64_t z = zigzag(v);
	unsigned class = z ? 64 - (unsigned)__builtin_clzll(z) : 0;

	put_byte(classes, (uint8_t) class);
	if (class > 1)
		put_bits(b, z & ((1ull << (class - 1)) - 1), class - 1);
}

static void bits_finish(struct bits *b)
{
	if (b->have)
		buf_append(b->to, &b->acc, (b->have + 7) / 8);
}

static struct lane *code_lane(struct model *m, struct coder *c, const struct record *r,
			      uint32_t *mask)
{
	bool device = RECORD_IS_DEVICE(r->kind);
	uint32_t slot = mix32(r->thread, r->stream * 2 + device) % LANE_COUNT;
	struct lane *l = &m->lanes[slot];

	if (slot != m->lane) {
		*mask |= MASK_LANE;
		buf_varint(&c->cols[COL_LANE], slot);
		m->lane = slot;
	}
	if (l->thread != r->thread || l->stream != r->stream || l->device != device) {
		*mask |= MASK_LANE_NEW;
		buf_varint(&c->cols[COL_LANE], (uint64_t)r->thread << 1 | device);
		buf_varint(&c->cols[COL_LANE], r->stream);
		*l = (struct lane){.thread = r->thread, .stream = r->stream, .device = device};
	}
	return l;
}

static void code_delta(struct buf *b, uint32_t *mask, uint32_t bit, uint64_t value,
		       uint64_t predicted)
{
	if (value == predicted)
		return;
	*mask |= bit;
	buf_svarint(b, (int64_t)(value - predicted));
}

/* grid to peer are adjacent. */
#define SHAPE_AT    offsetof(struct record, grid)
#define SHAPE_BYTES 28u
_Static_assert(offsetof(struct record, peer) + sizeof(int16_t) - SHAPE_AT == SHAPE_BYTES, "shape");

static uint64_t word_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool same_shape(const struct record *a, const struct record *b)
{
	const uint8_t *p = (const uint8_t *)a + SHAPE_AT, *q = (const uint8_t *)b + SHAPE_AT;
	const uint32_t last = SHAPE_BYTES - 8;

	return !((word_at(p) ^ word_at(q)) | (word_at(p + 8) ^ word_at(q + 8)) |
		 (word_at(p + 16) ^ word_at(q + 16)) | (word_at(p + last) ^ word_at(q + last)));
}

/* Fields that rarely differ from the reference row. */
static void code_rest(struct coder *c, const struct record *r, const struct record *ref,
		      uint32_t *mask)
{
	struct buf *rest = &c->cols[COL_REST], *shape = &c->cols[COL_SHAPE];

	if (r->flags == ref->flags && r->key == ref->key && same_shape(r, ref))
		return;
	code_delta(rest, mask, MASK_FLAGS, r->flags, ref->flags);
	if (memcmp(r->grid, ref->grid, sizeof(r->grid))) {
		*mask |= MASK_GRID;
		for (int i = 0; i < 3; i++)
			buf_varint(shape, r->grid[i]);
	}
	if (memcmp(r->block, ref->block, sizeof(r->block))) {
		*mask |= MASK_BLOCK;
		for (int i = 0; i < 3; i++)
			buf_varint(shape, r->block[i]);
	}
	code_delta(shape, mask, MASK_REGISTERS, r->registers, ref->registers);
	code_delta(shape, mask, MASK_SHARED, r->shared_bytes, ref->shared_bytes);
	code_delta(rest, mask, MASK_KEY, r->key, ref->key);
	code_delta(rest, mask, MASK_FUNC, r->func, ref->func);
	code_delta(rest, mask, MASK_PEER, (uint16_t)r->peer, (uint16_t)ref->peer);
	code_delta(rest, mask, MASK_RESERVED, r->dtype, ref->dtype);
}

static void code_row(struct model *m, struct coder *c, uint32_t row)
{
	const struct record *r = model_row(m, row), *ref;
	uint32_t mask = 0, delta;
	struct lane *l = code_lane(m, c, r, &mask);
	struct context *history = model_history(m, l);
	const struct context *x;
	int64_t begin = to_scaled(m, r->begin_ns), gap = sub64(begin, model_floor(m, l)),
		launch = 0;

	ref = model_reference(m, history);
	code_delta(&c->cols[COL_NAME], &mask, MASK_KIND, r->kind, ref->kind);
	code_delta(&c->cols[COL_NAME], &mask, MASK_NAME, r->name, ref->name);
	x = model_context(m, history, !(mask & (MASK_KIND | MASK_NAME)), r);
	ref = model_reference(m, x);
	delta = r->correlation - l->correlation - x->correlation;
	if (delta) {
		mask |= MASK_CORRELATION;
		buf_svarint(&c->cols[COL_CORRELATION], (int32_t)delta);
	}
	code_rest(c, r, ref, &mask);
	code_delta(&c->cols[COL_BYTES], &mask, MASK_BYTES, r->bytes, ref->bytes);
	code_delta(&c->cols[COL_SEQ], &mask, MASK_SEQ, r->seq,
		   record_is_collective(r) ? model_seq_next(m, r) : ref->seq);
	put_time(&c->cols[COL_GAP_CLASS], &c->gap, sub64(gap, x->gap));
	put_time(&c->cols[COL_DURATION_CLASS], &c->duration,
		 sub64(sub64(to_scaled(m, r->end_ns), begin), x->duration));
	if (expects_launch(r) != (r->launch_ns != 0))
		mask |= MASK_LAUNCH_PRESENT;
	if (r->launch_ns) {
		int64_t expected = model_launch(m, l, x, r);

		launch = to_scaled(m, r->launch_ns);
		if (launch != expected) {
			mask |= MASK_LAUNCH;
			put_time(&c->cols[COL_LAUNCH_CLASS], &c->launch, sub64(launch, expected));
		}
	}
	if (mask < 0x80)
		put_byte(&c->cols[COL_MASK], (uint8_t)mask);
	else
		buf_varint(&c->cols[COL_MASK], mask);
	model_learn(m, l, history, x, r, row, gap, launch);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t t = a % b;

		a = b;
		b = t;
	}
	return a;
}

static uint64_t magnitude(uint64_t t, uint64_t base)
{
	int64_t d = (int64_t)(t - base);

	return d < 0 ? 0 - (uint64_t)d : (uint64_t)d;
}

/* The largest unit that divides every time of the block, from the first one on: traces are often in
 * microseconds, and some GPUs count in 32 ns. */
static void model_scale(struct model *m)
{
	uint64_t g = 0;

	if (m->count)
		m->base = model_row(m, 0)->begin_ns;
	for (uint32_t i = 0; i < m->count && g != 1; i++) {
		const struct record *r = model_row(m, i);

		g = gcd(magnitude(r->begin_ns, m->base), g);
		g = gcd(magnitude(r->end_ns, m->base), g);
		if (r->launch_ns)
			g = gcd(magnitude(r->launch_ns, m->base), g);
	}
	m->scale = g && g <= INT64_MAX ? (int64_t)g : 1;
}

static int code_finish(const struct model *m, struct coder *c, enum pack_effort effort,
		       struct buf *out)
{
	struct pack_part parts[COL_COUNT + 1];
	struct buf head;
	int err = 0;

	bits_finish(&c->gap);
	bits_finish(&c->duration);
	bits_finish(&c->launch);
	buf_init(&head, 1024);
	buf_varint(&head, m->base);
	buf_varint(&head, (uint64_t)m->scale);
	parts[0].bytes = 0;
	for (int i = 0; i < COL_COUNT; i++) {
		buf_varint(&head, c->cols[i].bytes);
		parts[i + 1] = (struct pack_part){c->cols[i].data, c->cols[i].bytes};
		parts[0].bytes += c->cols[i].bytes;
		if (c->cols[i].failed)
			err =
			    c->cols[i].bytes > LIMIT_WIRE_UNPACKED_BYTES / 2 ? -EMSGSIZE : -ENOMEM;
	}
	if (head.failed)
		err = -ENOMEM;
	if (!err && parts[0].bytes + head.bytes > LIMIT_WIRE_UNPACKED_BYTES)
		err = -EMSGSIZE;
	parts[0] = (struct pack_part){head.data, head.bytes};
	if (!err)
		err = pack_write(parts, COL_COUNT + 1, effort, out);
	buf_fini(&head);
	return err;
}

int columns_pack(const struct record *host, uint32_t host_count, const struct record *device,
		 uint32_t device_count, enum pack_effort effort, struct buf *out)
{
	struct model *m;
	struct coder c;
	int err;

	if (host_count > LIMIT_WINDOW_RECORDS || device_count > LIMIT_WINDOW_RECORDS)
		return -EMSGSIZE;
	m = model_new(host, host_count, device, device_count);
	if (!m)
		return -ENOMEM;
	for (int i = 0; i < COL_COUNT; i++)
		buf_init(&c.cols[i], LIMIT_WIRE_UNPACKED_BYTES);
	c.gap = (struct bits){.to = &c.cols[COL_GAP_BITS]};
	c.duration = (struct bits){.to = &c.cols[COL_DURATION_BITS]};
	c.launch = (struct bits){.to = &c.cols[COL_LAUNCH_BITS]};
	model_scale(m);
	for (uint32_t i = 0; i < m->count; i++) {
		if (i + ROWS_AHEAD < m->count) {
			const char *row = (const char *)model_row(m, i + ROWS_AHEAD);

			__builtin_prefetch(row);
			__builtin_prefetch(row + 64);
		}
		if (i + CODE_AHEAD < m->count)
			__builtin_prefetch(model_name(m, model_row(m, i + CODE_AHEAD)), 1);
		code_row(m, &c, i);
	}
	err = code_finish(m, &c, effort, out);
	for (int i = 0; i < COL_COUNT; i++)
		buf_fini(&c.cols[i]);
	model_free(m);
	return err;
}

/* ---- decoding ---- */

struct column_reader {
	const uint8_t *data;
	size_t bytes, pos; /* in the *_BITS columns pos counts bits */
};

struct decoder {
	struct column_reader cols[COL_COUNT];
	bool bad;
};

bool columns_rows_fit(uint64_t rows, size_t unpacked_bytes)
{
	return rows <= unpacked_bytes / ROW_BYTES_MIN;
}

static uint64_t get(struct decoder *d, enum column c)
{
	struct column_reader *r = &d->cols[c];
	uint64_t v = 0;

	if (r->pos < r->bytes && r->data[r->pos] < 0x80)
		return r->data[r->pos++];
	if (buf_read_varint(r->data, r->bytes, &r->pos, &v))
		d->bad = true;
	return v;
}

static uint64_t get_delta(struct decoder *d, enum column c, uint32_t mask, uint32_t bit,
			  uint64_t predicted)
{
	return mask & bit ? predicted + (uint64_t)unzigzag(get(d, c)) : predicted;
}

static uint64_t get_bits(struct decoder *d, enum column c, unsigned width)
{
	struct column_reader *r = &d->cols[c];
	uint64_t v = 0;
	size_t byte = r->pos / 8;
	unsigned shift = r->pos % 8, got;

	if (width > r->bytes * 8 - r->pos) {
		d->bad = true;
		return 0;
	}
	r->pos += width;
	if (byte + 8 <= r->bytes && shift + width <= 64) {
		memcpy(&v, r->data + byte, 8);
		return (v >> shift) & ((1ull << width) - 1);
	}
	v = (uint64_t)r->data[byte] >> shift;
	for (got = 8 - shift; got < width; got += 8)
		v |= (uint64_t)r->data[++byte] << got;
	return v & ((1ull << width) - 1);
}

static int64_t get_time(struct decoder *d, enum column classes, enum column bits)
{
	struct column_reader *r = &d->cols[classes];
	unsigned class;

	if (r->pos >= r->bytes) {
		d->bad = true;
		return 0;
	}
	class = r->data[r->pos++];
	if (class < 2)
		return unzigzag(class);
	if (class > 64) {
		d->bad = true;
		return 0;
	}
	return unzigzag(1ull << (class - 1) | get_bits(d, bits, class - 1));
}

static struct lane *decode_lane(struct model *m, struct decoder *d, uint32_t mask)
{
	struct lane *l;

	if (mask & MASK_LANE)
		m->lane = (uint32_t)(get(d, COL_LANE) % LANE_COUNT);
	l = &m->lanes[m->lane];
	if (mask & MASK_LANE_NEW) {
		uint64_t v = get(d, COL_LANE);
		uint32_t stream = (uint32_t)get(d, COL_LANE);

		*l = (struct lane){.thread = (uint32_t)(v >> 1), .stream = stream, .device = v & 1};
	}
	return l;
}

static void decode_rest(struct decoder *d, struct record *r, const struct record *ref,
			uint32_t mask)
{
	r->flags = (uint16_t)get_delta(d, COL_REST, mask, MASK_FLAGS, ref->flags);
	memcpy(r->grid, ref->grid, sizeof(r->grid));
	memcpy(r->block, ref->block, sizeof(r->block));
	for (int i = 0; mask & MASK_GRID && i < 3; i++)
		r->grid[i] = (uint32_t)get(d, COL_SHAPE);
	for (int i = 0; mask & MASK_BLOCK && i < 3; i++)
		r->block[i] = (uint16_t)get(d, COL_SHAPE);
	r->registers = (uint16_t)get_delta(d, COL_SHAPE, mask, MASK_REGISTERS, ref->registers);
	r->shared_bytes = (uint32_t)get_delta(d, COL_SHAPE, mask, MASK_SHARED, ref->shared_bytes);
	r->key = get_delta(d, COL_REST, mask, MASK_KEY, ref->key);
	r->func = (uint8_t)get_delta(d, COL_REST, mask, MASK_FUNC, ref->func);
	r->peer = (int16_t)get_delta(d, COL_REST, mask, MASK_PEER, (uint16_t)ref->peer);
	r->dtype = (uint8_t)get_delta(d, COL_REST, mask, MASK_RESERVED, ref->dtype);
}

static void decode_row(struct model *m, struct decoder *d, struct record *r, uint32_t row)
{
	uint64_t bits = get(d, COL_MASK);
	uint32_t mask = (uint32_t)(bits & MASK_ALL);
	struct lane *l = decode_lane(m, d, mask);
	struct context *history = model_history(m, l);
	const struct context *x;
	const struct record *ref = model_reference(m, history);
	int64_t gap, begin, launch = 0;

	if (bits > MASK_ALL)
		d->bad = true;
	r->thread = l->thread;
	r->stream = l->stream;
	r->kind = (uint16_t)get_delta(d, COL_NAME, mask, MASK_KIND, ref->kind);
	r->name = (uint32_t)get_delta(d, COL_NAME, mask, MASK_NAME, ref->name);
	x = model_context(m, history, !(mask & (MASK_KIND | MASK_NAME)), r);
	ref = model_reference(m, x);
	r->correlation = l->correlation + x->correlation;
	if (mask & MASK_CORRELATION)
		r->correlation += (uint32_t)unzigzag(get(d, COL_CORRELATION));
	decode_rest(d, r, ref, mask);
	r->bytes = get_delta(d, COL_BYTES, mask, MASK_BYTES, ref->bytes);
	r->seq = (uint32_t)get_delta(d, COL_SEQ, mask, MASK_SEQ,
				     record_is_collective(r) ? model_seq_next(m, r) : ref->seq);
	gap = add64(get_time(d, COL_GAP_CLASS, COL_GAP_BITS), x->gap);
	begin = add64(model_floor(m, l), gap);
	r->begin_ns = from_scaled(m, begin);
	r->end_ns = from_scaled(m, add64(add64(begin, x->duration),
					 get_time(d, COL_DURATION_CLASS, COL_DURATION_BITS)));
	r->launch_ns = 0;
	if (expects_launch(r) != !!(mask & MASK_LAUNCH_PRESENT)) {
		launch = model_launch(m, l, x, r);
		if (mask & MASK_LAUNCH)
			launch = add64(launch, get_time(d, COL_LAUNCH_CLASS, COL_LAUNCH_BITS));
		r->launch_ns = from_scaled(m, launch);
	}
	model_learn(m, l, history, x, r, row, gap, launch);
}

static bool is_bits(int c)
{
	return c == COL_GAP_BITS || c == COL_DURATION_BITS || c == COL_LAUNCH_BITS;
}

static int decoder_init(struct decoder *d, struct model *m, const uint8_t *p, size_t bytes)
{
	uint64_t scale = 0, sizes[COL_COUNT];
	size_t pos = 0;
	int err = buf_read_varint(p, bytes, &pos, &m->base);

	if (!err)
		err = buf_read_varint(p, bytes, &pos, &scale);
	for (int i = 0; i < COL_COUNT && !err; i++)
		err = buf_read_varint(p, bytes, &pos, &sizes[i]);
	if (err || !scale || scale > INT64_MAX)
		return -EPROTO;
	m->scale = (int64_t)scale;
	d->bad = false;
	for (int i = 0; i < COL_COUNT; i++) {
		if (sizes[i] > bytes - pos)
			return -EPROTO;
		d->cols[i] = (struct column_reader){p + pos, (size_t)sizes[i], 0};
		pos += (size_t)sizes[i];
	}
	return pos == bytes ? 0 : -EPROTO;
}

/* Whether every byte of every column was used. */
static bool decoder_done(const struct decoder *d)
{
	for (int i = 0; i < COL_COUNT; i++) {
		size_t pos = is_bits(i) ? (d->cols[i].pos + 7) / 8 : d->cols[i].pos;

		if (pos != d->cols[i].bytes)
			return false;
	}
	return !d->bad;
}

int columns_unpack(const void *data, size_t bytes, size_t max_bytes, struct record *host,
		   uint32_t host_count, struct record *device, uint32_t device_count)
{
	uint8_t *p = NULL;
	size_t n = 0;
	struct model *m;
	struct decoder d;
	int err = pack_read(data, bytes, max_bytes, &p, &n);

	if (err)
		return err;
	m = model_new(host, host_count, device, device_count);
	if (!m) {
		free(p);
		return -ENOMEM;
	}
	err = decoder_init(&d, m, p, n);
	for (uint32_t i = 0; !err && i < m->count; i++) {
		decode_row(m, &d, i < host_count ? &host[i] : &device[i - host_count], i);
		if (d.bad)
			err = -EPROTO;
	}
	if (!err && !decoder_done(&d))
		err = -EPROTO;
	model_free(m);
	free(p);
	return err;
}

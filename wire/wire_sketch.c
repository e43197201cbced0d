/* SPDX-License-Identifier: Apache-2.0
 * Sketches: figures are plain protobuf. The lists with their names are one zstd frame, because
 * mangled names share most of their text. All texts come first, then all figures. */
#include "wire/codec.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "wire/codec_internal.h"
#include "wire/pack.h"

#define SHARE_UNIT 1e6
#define CALLS_UNIT 1e3
#define VALUE_MAX  9e18

/* clang-format off */
#define SKETCH_INTS(X) \
	X(begin_ns) X(end_ns) X(realtime_offset_ns) X(steps) X(flagged) X(model_state) \
	X(functions_cut) X(kernels_cut) X(function_count) X(kernel_count) X(setting_count)
/* clang-format on */
/* clang-format off */
#define SKETCH_DOUBLES(X) \
	X(latency_ns) X(latency_mad_ns) X(self_ns) X(self_mad_ns) X(compute_ns) X(comm_ns) \
	X(exposed_comm_ns) X(copy_ns) X(idle_ns) X(launches) X(cpu_ns) X(samples) X(off_ns) \
	X(gil_wait_ns) X(model_r2)
/* clang-format on */

/* ---- writing ---- */

static uint64_t whole(double v)
{
	if (!(v > 0))
		return 0;
	return v >= VALUE_MAX ? (uint64_t)VALUE_MAX : (uint64_t)(v + 0.5);
}

static int put_text(struct buf *b, const char *text, size_t max)
{
	size_t n = strlen(text);
	char *p;

	if (n > max)
		return -EMSGSIZE;
	buf_varint(b, n);
	p = buf_reserve(b, n + 1);
	if (!p)
		return -EMSGSIZE;
	memcpy(p, text, n + 1);
	utf8_repair(p, strlen(p));
	b->bytes += n;
	return 0;
}

static int put_texts(const struct sketch *s, struct buf *b)
{
	int err = 0;

	for (uint32_t i = 0; i < s->function_count && !err; i++)
		err = put_text(b, s->functions[i].name, LIMIT_NAME_BYTES);
	for (uint32_t i = 0; i < s->kernel_count && !err; i++)
		err = put_text(b, s->kernels[i].name, LIMIT_NAME_BYTES);
	for (uint32_t i = 0; i < s->setting_count && !err; i++) {
		err = put_text(b, s->settings[i].name, LIMIT_SKETCH_VALUE_BYTES);
		if (!err)
			err = put_text(b, s->settings[i].value, LIMIT_SKETCH_VALUE_BYTES);
	}
	return err;
}

static void put_figures(const struct sketch *s, struct buf *b)
{
	for (uint32_t i = 0; i < s->function_count; i++) {
		const struct sketch_function *f = &s->functions[i];

		buf_varint(b, f->kind);
		buf_varint(b, whole(f->self_share * SHARE_UNIT));
		buf_varint(b, whole(f->total_share * SHARE_UNIT));
		buf_varint(b, whole(f->off_ns));
	}
	for (uint32_t i = 0; i < s->kernel_count; i++) {
		buf_varint(b, whole(s->kernels[i].per_step * CALLS_UNIT));
		buf_varint(b, whole(s->kernels[i].ns_per_step));
	}
}

static int pack_body(const struct sketch *s, struct buf *out)
{
	struct pack_part part;
	struct buf b;
	int err;

	buf_init(&b, LIMIT_SKETCH_UNPACKED_BYTES);
	err = put_texts(s, &b);
	if (!err)
		put_figures(s, &b);
	if (!err && b.failed)
		err = -EMSGSIZE;
	part = (struct pack_part){b.data, b.bytes};
	if (!err && b.bytes)
		err = pack_write(&part, 1, PACK_CLOSE, out);
	buf_fini(&b);
	return err;
}

static void put_kinds(const struct sketch *s, struct buf *b)
{
	for (uint32_t i = 0; i < s->kind_count; i++) {
		const struct kinds_row *k = &s->kinds[i];

		buf_varint(b, k->by_work ? KINDS_PARTS : k->part);
		buf_varint(b, k->grown);
		buf_varint(b, k->period);
		buf_varint(b, k->count);
		buf_varint(b, k->first_step);
		buf_varint(b, k->last_step);
		buf_varint(b, whole(k->steps * CALLS_UNIT));
		buf_varint(b, whole(k->cost_ns));
		buf_varint(b, whole(k->share * SHARE_UNIT));
		buf_varint(b, whole(k->launches * CALLS_UNIT));
		buf_varint(b, whole(k->collectives * CALLS_UNIT));
	}
}

static int check_sketch(const struct sketch *s)
{
	if (s->kind_count > SKETCH_KINDS_MAX)
		return -EMSGSIZE;
	if (s->function_count > LIMIT_SKETCH_FUNCTIONS || s->kernel_count > LIMIT_SKETCH_KERNELS ||
	    s->setting_count > LIMIT_SKETCH_SETTINGS)
		return -EMSGSIZE;
	for (uint32_t i = 0; i < s->function_count; i++)
		if (s->functions[i].kind > FUNCTION_PYTHON || s->functions[i].self_share > 1 ||
		    s->functions[i].total_share > 1)
			return -EINVAL;
	return 0;
}

int wire_sketch_encode(const struct sketch *s, struct buf *out)
{
	Sysom__Wire__Envelope e = SYSOM__WIRE__ENVELOPE__INIT;
	Sysom__Wire__Sketch pb = SYSOM__WIRE__SKETCH__INIT;
	struct codec_rank rank;
	struct buf body, kinds;
	int err = check_sketch(s);

	if (err)
		return err;
	buf_init(&body, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&kinds, LIMIT_WIRE_MESSAGE_BYTES);
	err = pack_body(s, &body);
	put_kinds(s, &kinds);
	if (!err && kinds.failed)
		err = -ENOMEM;
	codec_rank_fill(&rank, &s->rank);
	pb.rank = &rank.pb;
#define X(f) pb.f = s->f;
	SKETCH_INTS(X)
#undef X
#define X(f) pb.f = isfinite(s->f) && s->f > 0 ? s->f : 0;
	SKETCH_DOUBLES(X)
#undef X
	pb.body = (ProtobufCBinaryData){body.bytes, body.data};
	pb.kinds = (ProtobufCBinaryData){kinds.bytes, kinds.data};
	e.sketch = &pb;
	if (!err)
		err = codec_emit(&e, WIRE_SKETCH, LIMIT_SKETCH_BYTES_PER_RANK, out);
	buf_fini(&kinds);
	buf_fini(&body);
	return err;
}

/* ---- reading ---- */

struct reader {
	const uint8_t *data;
	size_t bytes, pos;
};

static int get_text(struct reader *r, size_t max, char **out)
{
	uint64_t n = 0;
	char *text;

	if (buf_read_varint(r->data, r->bytes, &r->pos, &n) || n > r->bytes - r->pos || n > max ||
	    memchr(r->data + r->pos, 0, (size_t)n))
		return -EPROTO;
	text = malloc((size_t)n + 1);
	if (!text)
		return -ENOMEM;
	memcpy(text, r->data + r->pos, (size_t)n);
	text[n] = '\0';
	r->pos += (size_t)n;
	*out = text;
	return utf8_is_valid(text) ? 0 : -EPROTO;
}

static int get_number(struct reader *r, double unit, double *out)
{
	uint64_t v = 0;

	if (buf_read_varint(r->data, r->bytes, &r->pos, &v) || v > (uint64_t)VALUE_MAX)
		return -EPROTO;
	*out = (double)v / unit;
	return 0;
}

static int get_texts(struct reader *r, struct sketch *s)
{
	int err = 0;

	for (uint32_t i = 0; i < s->function_count && !err; i++)
		err = get_text(r, LIMIT_NAME_BYTES, &s->functions[i].name);
	for (uint32_t i = 0; i < s->kernel_count && !err; i++)
		err = get_text(r, LIMIT_NAME_BYTES, &s->kernels[i].name);
	for (uint32_t i = 0; i < s->setting_count && !err; i++) {
		err = get_text(r, LIMIT_SKETCH_VALUE_BYTES, &s->settings[i].name);
		if (!err)
			err = get_text(r, LIMIT_SKETCH_VALUE_BYTES, &s->settings[i].value);
	}
	return err;
}

static int get_figures(struct reader *r, struct sketch *s)
{
	for (uint32_t i = 0; i < s->function_count; i++) {
		struct sketch_function *f = &s->functions[i];
		uint64_t kind = 0;

		if (buf_read_varint(r->data, r->bytes, &r->pos, &kind) || kind > FUNCTION_PYTHON ||
		    get_number(r, SHARE_UNIT, &f->self_share) || f->self_share > 1 ||
		    get_number(r, SHARE_UNIT, &f->total_share) || f->total_share > 1 ||
		    get_number(r, 1, &f->off_ns))
			return -EPROTO;
		f->kind = (uint32_t)kind;
	}
	for (uint32_t i = 0; i < s->kernel_count; i++)
		if (get_number(r, CALLS_UNIT, &s->kernels[i].per_step) ||
		    get_number(r, 1, &s->kernels[i].ns_per_step))
			return -EPROTO;
	return r->pos == r->bytes ? 0 : -EPROTO;
}

/* Allocates the lists, after checking that the bytes can contain them. */
static int make_lists(struct sketch *s, size_t bytes)
{
	/* a function has at least a text's length and four figures */
	if (5ull * s->function_count + 3ull * s->kernel_count + 2ull * s->setting_count > bytes)
		return -EPROTO;
	s->functions = calloc(s->function_count + 1u, sizeof(*s->functions));
	s->kernels = calloc(s->kernel_count + 1u, sizeof(*s->kernels));
	s->settings = calloc(s->setting_count + 1u, sizeof(*s->settings));
	return s->functions && s->kernels && s->settings ? 0 : -ENOMEM;
}

static int read_body(const Sysom__Wire__Sketch *pb, struct sketch *s)
{
	struct reader r = {0};
	uint8_t *p = NULL;
	int err;

	if (!s->function_count && !s->kernel_count && !s->setting_count)
		return pb->body.len ? -EPROTO : 0;
	err = pack_read(pb->body.data, pb->body.len, LIMIT_SKETCH_UNPACKED_BYTES, &p, &r.bytes);
	if (err)
		return err;
	r.data = p;
	err = make_lists(s, r.bytes);
	if (!err)
		err = get_texts(&r, s);
	if (!err)
		err = get_figures(&r, s);
	free(p);
	return err;
}

static int get_kind(struct reader *r, struct kinds_row *k)
{
	uint64_t v[6];

	for (int i = 0; i < 6; i++)
		if (buf_read_varint(r->data, r->bytes, &r->pos, &v[i]) ||
		    v[i] > (uint64_t)VALUE_MAX)
			return -EPROTO;
	if (v[0] > KINDS_PARTS || v[1] > 1 || !v[3] || get_number(r, CALLS_UNIT, &k->steps) ||
	    get_number(r, 1, &k->cost_ns) || get_number(r, SHARE_UNIT, &k->share) || k->share > 1 ||
	    get_number(r, CALLS_UNIT, &k->launches) || get_number(r, CALLS_UNIT, &k->collectives))
		return -EPROTO;
	k->by_work = v[0] == KINDS_PARTS;
	k->part = k->by_work ? 0 : (uint32_t)v[0];
	k->grown = v[1];
	k->period = v[2];
	k->count = v[3];
	k->first_step = v[4];
	k->last_step = v[5];
	return 0;
}

static int read_kinds(const Sysom__Wire__Sketch *pb, struct sketch *s)
{
	struct reader r = {.data = pb->kinds.data, .bytes = pb->kinds.len};
	int err = 0;

	while (!err && r.pos < r.bytes && s->kind_count < SKETCH_KINDS_MAX)
		err = get_kind(&r, &s->kinds[s->kind_count++]);
	return !err && r.pos < r.bytes ? -EMSGSIZE : err;
}

static int sketch_fill(const Sysom__Wire__Sketch *pb, struct sketch *s)
{
	int err = codec_rank_read(pb->rank, &s->rank);

	if (err)
		return err;
#define X(f) s->f = pb->f;
	SKETCH_DOUBLES(X)
#undef X
#define X(f)                                                                                       \
	if (!isfinite(s->f) || s->f < 0)                                                           \
		return -EPROTO;
	SKETCH_DOUBLES(X)
#undef X
	if (pb->function_count > LIMIT_SKETCH_FUNCTIONS ||
	    pb->kernel_count > LIMIT_SKETCH_KERNELS || pb->setting_count > LIMIT_SKETCH_SETTINGS)
		return -EMSGSIZE;
#define X(f) s->f = pb->f;
	SKETCH_INTS(X)
#undef X
	err = read_kinds(pb, s);
	return err ? err : read_body(pb, s);
}

int wire_sketch_decode(const void *data, size_t bytes, struct sketch *s)
{
	struct codec_arena a;
	Sysom__Wire__Envelope *e;
	int err = 0;

	memset(s, 0, sizeof(*s));
	if (bytes > LIMIT_SKETCH_BYTES_PER_RANK)
		return -EMSGSIZE;
	e = codec_open(&a, data, bytes, WIRE_SKETCH, &err);
	if (!e)
		return err;
	err = sketch_fill(e->sketch, s);
	codec_close(&a, e);
	if (err)
		wire_sketch_free(s);
	return err;
}

void wire_sketch_free(struct sketch *s)
{
	for (uint32_t i = 0; s->functions && i < s->function_count; i++)
		free(s->functions[i].name);
	for (uint32_t i = 0; s->kernels && i < s->kernel_count; i++)
		free(s->kernels[i].name);
	for (uint32_t i = 0; s->settings && i < s->setting_count; i++) {
		free(s->settings[i].name);
		free(s->settings[i].value);
	}
	free(s->functions);
	free(s->kernels);
	free(s->settings);
	s->functions = NULL;
	s->kernels = NULL;
	s->settings = NULL;
	s->function_count = s->kernel_count = s->setting_count = 0;
}

/* ---- as much as fits ---- */

/* Part of a list that is dropped at a time when it does not fit. */
#define CUT_PART       8u
#define KEEP_FUNCTIONS 64u
#define KEEP_KERNELS   32u

static uint32_t cut(uint32_t *count, uint32_t *cut_count)
{
	uint32_t last = *count, n = last / CUT_PART + 1;

	*count -= n;
	*cut_count += n;
	return last;
}

static void cut_functions(struct sketch *s)
{
	uint32_t last = cut(&s->function_count, &s->functions_cut);

	for (uint32_t i = s->function_count; i < last; i++)
		free(s->functions[i].name);
}

static void cut_kernels(struct sketch *s)
{
	uint32_t last = cut(&s->kernel_count, &s->kernels_cut);

	for (uint32_t i = s->kernel_count; i < last; i++)
		free(s->kernels[i].name);
}

/* Lists are sorted, so this drops what matters least. False: nothing is left. */
static bool cut_some(struct sketch *s)
{
	if (s->function_count > KEEP_FUNCTIONS) {
		cut_functions(s);
	} else if (s->kernel_count > KEEP_KERNELS || (s->kernel_count && !s->function_count)) {
		cut_kernels(s);
	} else if (s->function_count) {
		free(s->functions[--s->function_count].name);
		s->functions_cut++;
	} else if (s->setting_count) {
		s->setting_count--;
		free(s->settings[s->setting_count].name);
		free(s->settings[s->setting_count].value);
	} else {
		return false;
	}
	return true;
}

int wire_sketch_fit(struct sketch *s, struct buf *out, uint64_t *gone)
{
	uint32_t before = s->function_count + s->kernel_count + s->setting_count;
	int err;

	while ((err = wire_sketch_encode(s, out)) == -EMSGSIZE) {
		buf_clear(out);
		if (!cut_some(s))
			break;
	}
	*gone = before - s->function_count - s->kernel_count - s->setting_count;
	return err;
}

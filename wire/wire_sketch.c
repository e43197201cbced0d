/* SPDX-License-Identifier: Apache-2.0
 * Sketches: figures are plain protobuf. The lists with their names are one zstd frame, because
 * mangled names share most of their text. All texts come first, then all figures. */
#include "wire/codec.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/utf8.h"
#include "wire/codec_internal.h"
#include "wire/fields.h"
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

/* ---- rows ---- */

/* A figure as a whole number of 1 / unit; what is read is at most max. */
static void figure(struct fields *f, double *v, double unit, double max)
{
	double scaled = *v * unit;
	uint64_t whole = !(scaled > 0)	       ? 0
			 : scaled >= VALUE_MAX ? (uint64_t)VALUE_MAX
					       : (uint64_t)(scaled + 0.5);

	fields_u64(f, &whole, (uint64_t)VALUE_MAX);
	if (f->out)
		return;
	*v = (double)whole / unit;
	fields_demand(f, *v <= max);
}

/* Written as valid UTF-8; read into a string of its own. */
static void text(struct fields *f, char **t, size_t max)
{
	char *copy = f->out ? strdup(*t) : NULL;
	const char *p = copy;
	size_t n = copy ? strlen(copy) : 0;

	if (!f->err && f->out && (!copy || n > max))
		f->err = -EMSGSIZE;
	if (copy)
		utf8_repair(copy, n);
	fields_text(f, &p, &n, max);
	free(copy);
	if (f->out || f->err)
		return;
	*t = strndup(p, n);
	if (!*t)
		f->err = -ENOMEM;
	fields_demand(f, !*t || utf8_is_valid(*t));
}

static void body(struct fields *f, struct sketch *s)
{
	for (uint32_t i = 0; i < s->function_count; i++)
		text(f, &s->functions[i].name, LIMIT_NAME_BYTES);
	for (uint32_t i = 0; i < s->kernel_count; i++)
		text(f, &s->kernels[i].name, LIMIT_NAME_BYTES);
	for (uint32_t i = 0; i < s->setting_count; i++) {
		text(f, &s->settings[i].name, LIMIT_SKETCH_VALUE_BYTES);
		text(f, &s->settings[i].value, LIMIT_SKETCH_VALUE_BYTES);
	}
	for (uint32_t i = 0; i < s->function_count; i++) {
		struct sketch_function *of = &s->functions[i];

		fields_u32(f, &of->kind, FUNCTION_PYTHON);
		figure(f, &of->self_share, SHARE_UNIT, 1);
		figure(f, &of->total_share, SHARE_UNIT, 1);
		figure(f, &of->off_ns, 1, VALUE_MAX);
	}
	for (uint32_t i = 0; i < s->kernel_count; i++) {
		figure(f, &s->kernels[i].per_step, CALLS_UNIT, VALUE_MAX);
		figure(f, &s->kernels[i].ns_per_step, 1, VALUE_MAX);
	}
}

static void kind_row(struct fields *f, struct kinds_row *k)
{
	uint32_t part = k->by_work ? KINDS_PARTS : k->part, grown = k->grown;

	fields_u32(f, &part, KINDS_PARTS);
	fields_u32(f, &grown, 1);
	fields_u64(f, &k->period, (uint64_t)VALUE_MAX);
	fields_u64(f, &k->count, (uint64_t)VALUE_MAX);
	fields_u64(f, &k->first_step, (uint64_t)VALUE_MAX);
	fields_u64(f, &k->last_step, (uint64_t)VALUE_MAX);
	figure(f, &k->steps, CALLS_UNIT, VALUE_MAX);
	figure(f, &k->cost_ns, 1, VALUE_MAX);
	figure(f, &k->share, SHARE_UNIT, 1);
	figure(f, &k->launches, CALLS_UNIT, VALUE_MAX);
	figure(f, &k->collectives, CALLS_UNIT, VALUE_MAX);
	fields_demand(f, k->count > 0);
	if (f->out)
		return;
	k->by_work = part == KINDS_PARTS;
	k->part = k->by_work ? 0 : part;
	k->grown = grown;
}

/* ---- writing ---- */

static int pack_body(const struct sketch *s, struct buf *out)
{
	struct buf b;
	struct fields f = {.out = &b};
	struct pack_part part;

	buf_init(&b, LIMIT_SKETCH_UNPACKED_BYTES);
	body(&f, (struct sketch *)(uintptr_t)s);
	if (!f.err && b.failed)
		f.err = -EMSGSIZE;
	part = (struct pack_part){b.data, b.bytes};
	if (!f.err && b.bytes)
		f.err = pack_write(&part, 1, PACK_CLOSE, out);
	buf_fini(&b);
	return f.err;
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
	struct buf packed, kinds;
	struct fields f = {.out = &kinds};
	uint64_t period_ns[SKETCH_KINDS_MAX];
	int err = check_sketch(s);

	if (err)
		return err;
	buf_init(&packed, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&kinds, LIMIT_WIRE_MESSAGE_BYTES);
	err = pack_body(s, &packed);
	for (uint32_t i = 0; i < s->kind_count; i++) {
		struct kinds_row k = s->kinds[i];

		kind_row(&f, &k);
		period_ns[i] = k.period_ns;
	}
	if (!err)
		err = fields_end(&f);
	codec_rank_fill(&rank, &s->rank);
	pb.rank = &rank.pb;
#define X(f) pb.f = s->f;
	SKETCH_INTS(X)
#undef X
#define X(f) pb.f = isfinite(s->f) && s->f > 0 ? s->f : 0;
	SKETCH_DOUBLES(X)
#undef X
	pb.body = (ProtobufCBinaryData){packed.bytes, packed.data};
	pb.kinds = (ProtobufCBinaryData){kinds.bytes, kinds.data};
	pb.n_kind_period_ns = s->kind_count;
	pb.kind_period_ns = period_ns;
	e.sketch = &pb;
	if (!err)
		err = codec_emit(&e, WIRE_SKETCH, LIMIT_SKETCH_BYTES_PER_RANK, out);
	buf_fini(&kinds);
	buf_fini(&packed);
	return err;
}

/* ---- reading ---- */

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
	struct fields f = {0};
	uint8_t *p = NULL;

	if (!s->function_count && !s->kernel_count && !s->setting_count)
		return pb->body.len ? -EPROTO : 0;
	f.err = pack_read(pb->body.data, pb->body.len, LIMIT_SKETCH_UNPACKED_BYTES, &p, &f.bytes);
	if (!f.err)
		f.err = make_lists(s, f.bytes);
	f.data = p;
	if (!f.err)
		body(&f, s);
	free(p);
	return fields_end(&f);
}

static int read_kinds(const Sysom__Wire__Sketch *pb, struct sketch *s)
{
	struct fields f = {.data = pb->kinds.data, .bytes = pb->kinds.len};

	while (!f.err && f.pos < f.bytes && s->kind_count < SKETCH_KINDS_MAX)
		kind_row(&f, &s->kinds[s->kind_count++]);
	for (uint32_t k = 0; k < s->kind_count && k < pb->n_kind_period_ns; k++)
		s->kinds[k].period_ns = pb->kind_period_ns[k];
	return !f.err && f.pos < f.bytes ? -EMSGSIZE : f.err;
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

/* ---- shortening ---- */

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

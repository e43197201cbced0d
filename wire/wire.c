/* SPDX-License-Identifier: Apache-2.0
 * The envelope is plain protobuf. Only the bulky fields inside a window are compressed, each as a
 * separate frame. So an index needs no decompression of the records, and a relay or a person with
 * protoc can read the rest. Arrays are columns and not repeated messages, because a repeated
 * message of two bytes unpacks to hundreds. The few repeated messages are unpacked with a
 * maximum. */
#include "wire/codec.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "wire/codec_internal.h"
#include "wire/columns.h"
#include "wire/pack.h"
#include "wire/stacks.h"

/* clang-format off */
#define WINDOW_FIELDS(X) \
	X(begin_ns) X(end_ns) X(realtime_offset_ns) X(clock_error_ns) X(reason) X(sequence) \
	X(summary_only) X(model_state) X(model_r2) X(model_spread) X(raw_bytes) X(step_count) \
	X(host_count) X(device_count) X(name_count) X(open_since_ns)
/* clang-format on */

static int pack_names(const struct window *w, struct buf *out)
{
	struct pack_part part;
	struct buf b;
	int err;

	buf_init(&b, LIMIT_WIRE_UNPACKED_BYTES);
	for (uint32_t i = 0; i < w->name_count; i++) {
		size_t n = strlen(w->names[i]);

		if (n > LIMIT_NAME_BYTES) {
			buf_fini(&b);
			return -EMSGSIZE;
		}
		buf_varint(&b, n);
		buf_append(&b, w->names[i], n);
	}
	part = (struct pack_part){b.data, b.bytes};
	err = b.failed ? -EMSGSIZE : pack_write(&part, 1, PACK_CLOSE, out);
	buf_fini(&b);
	return err;
}

static int check_rows(const struct record *rows, uint32_t count, bool device, uint32_t names)
{
	for (uint32_t i = 0; i < count; i++)
		if (RECORD_IS_DEVICE(rows[i].kind) != device ||
		    (rows[i].name && rows[i].name >= names))
			return -EINVAL;
	return 0;
}

static int check_window(const struct window *w)
{
	if (w->step_count > LIMIT_WINDOW_STEPS || w->name_count > LIMIT_WINDOW_NAMES ||
	    w->loss_count > WIRE_LOSS_MAX || w->signal_count > LIMIT_WINDOW_SIGNALS ||
	    (uint64_t)w->host_count + w->device_count > LIMIT_WINDOW_RECORDS)
		return -EMSGSIZE;
	if (check_rows(w->host, w->host_count, false, w->name_count) ||
	    check_rows(w->device, w->device_count, true, w->name_count))
		return -EINVAL;
	return 0;
}

struct window_lists {
	Sysom__Wire__Loss losses[WIRE_LOSS_MAX], *loss_list[WIRE_LOSS_MAX];
	char causes[WIRE_LOSS_MAX][32];
	Sysom__Wire__Signal signals[LIMIT_WINDOW_SIGNALS], *signal_list[LIMIT_WINDOW_SIGNALS];
	struct {
		char name[OS_SIGNAL_NAME_BYTES], subject[OS_SIGNAL_SUBJECT_BYTES],
		    unit[OS_SIGNAL_UNIT_BYTES];
	} signal_texts[LIMIT_WINDOW_SIGNALS];
	struct codec_rank rank;
	char unfinished[WIRE_TEXT_BYTES];
};

/* Replaces what the other side would refuse. */
static double figure(double v)
{
	return isnan(v) ? 0 : fmin(fmax(v, -LIMIT_SIGNAL_VALUE), LIMIT_SIGNAL_VALUE);
}

static void fill_signal(Sysom__Wire__Window *pb, struct window_lists *l, const struct os_signal *s)
{
	size_t i = pb->n_signals++;
	Sysom__Wire__Signal *to = &l->signals[i];

	sysom__wire__signal__init(to);
	codec_text_clean(s->name, l->signal_texts[i].name, sizeof(l->signal_texts[i].name));
	codec_text_clean(s->subject, l->signal_texts[i].subject,
			 sizeof(l->signal_texts[i].subject));
	codec_text_clean(s->unit, l->signal_texts[i].unit, sizeof(l->signal_texts[i].unit));
	to->name = l->signal_texts[i].name;
	to->subject = l->signal_texts[i].subject;
	to->unit = l->signal_texts[i].unit;
	to->value = figure(s->value);
	to->usual = figure(s->usual);
	to->weight_ms = figure(s->weight_ms);
	to->flags = s->flags;
	to->cpu = s->cpu;
	l->signal_list[i] = to;
}

static void fill_window(Sysom__Wire__Window *pb, struct window_lists *l, const struct window *w)
{
	pb->id = (ProtobufCBinaryData){16, (uint8_t *)w->id};
	pb->anomaly_id = (ProtobufCBinaryData){16, (uint8_t *)w->anomaly_id};
	codec_rank_fill(&l->rank, &w->rank);
	pb->rank = &l->rank.pb;
#define X(f) pb->f = w->f;
	WINDOW_FIELDS(X)
#undef X
	for (uint32_t i = 0; i < w->loss_count; i++) {
		sysom__wire__loss__init(&l->losses[i]);
		codec_text_clean(w->losses[i].cause, l->causes[i], sizeof(l->causes[i]));
		l->losses[i].cause = l->causes[i];
		l->losses[i].count = w->losses[i].count;
		l->loss_list[i] = &l->losses[i];
	}
	pb->losses = l->loss_list;
	pb->n_losses = w->loss_count;
	if (w->unfinished.kind) {
		pb->unfinished_kind = w->unfinished.kind;
		pb->unfinished_launch_ns = w->unfinished.launch_ns;
		codec_text_clean(w->unfinished.name, l->unfinished, sizeof(l->unfinished));
		pb->unfinished_name = l->unfinished;
	}
	pb->signals = l->signal_list;
	for (uint32_t i = 0; i < w->signal_count; i++)
		fill_signal(pb, l, &w->signals[i]);
}

/* The work allowed for a message of this size: peers pay in bytes for the work they cause. */
static size_t admitted(size_t bytes)
{
	return LIMIT_WIRE_WORK_BYTES + bytes * LIMIT_WIRE_WORK_PER_BYTE;
}

static size_t unpacked_of(const struct buf *b)
{
	size_t bytes = 0;

	return b->bytes && !pack_size(b->data, b->bytes, SIZE_MAX, &bytes) ? bytes : 0;
}

enum { STEPS, NAMES, RECORDS, STACKS, PADDING, FIELDS };

/* The reader's work, as its budget counts it. */
static size_t work_of(const struct window *w, const struct buf *fields)
{
	size_t work = w->step_count * sizeof(*w->steps) + w->name_count * sizeof(*w->names) +
		      ((size_t)w->host_count + w->device_count) * sizeof(*w->host);

	for (size_t i = 0; i < PADDING; i++)
		work += unpacked_of(&fields[i]);
	for (uint32_t i = 0; i < w->stacks.stack_count; i++)
		work += w->stacks.stacks[i].count * sizeof(*w->stacks.frames);
	return work;
}

/* Identical rows pack to almost nothing: pads such a window to the length that its work
 * requires. */
static int pad(Sysom__Wire__Window *pb, size_t work, struct buf *padding)
{
	size_t packed = pb->steps.len + pb->names.len + pb->records.len + pb->content_stacks.len;
	size_t missing;
	uint8_t *p;

	if (work <= admitted(packed))
		return 0;
	missing = (work - admitted(packed)) / LIMIT_WIRE_WORK_PER_BYTE + 1;
	p = buf_reserve(padding, missing);
	if (!p)
		return -ENOMEM;
	memset(p, 0, missing);
	padding->bytes += missing;
	pb->padding = (ProtobufCBinaryData){padding->bytes, padding->data};
	return 0;
}

int wire_window_encode(const struct window *w, struct buf *out)
{
	Sysom__Wire__Envelope e = SYSOM__WIRE__ENVELOPE__INIT;
	Sysom__Wire__Window pb = SYSOM__WIRE__WINDOW__INIT;
	struct buf field[FIELDS];
	struct window_lists *l;
	int err = check_window(w);

	if (err)
		return err;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	for (int i = 0; i < FIELDS; i++)
		buf_init(&field[i], LIMIT_WIRE_MESSAGE_BYTES);
	fill_window(&pb, l, w);
	if (w->step_count)
		err = columns_steps_pack(w->steps, w->step_count, &field[STEPS]);
	if (!err && w->name_count)
		err = pack_names(w, &field[NAMES]);
	if (!err && w->host_count + w->device_count)
		err = columns_pack(w->host, w->host_count, w->device, w->device_count, PACK_CLOSE,
				   &field[RECORDS]);
	if (!err && (w->stacks.sample_count || w->stacks.switch_count))
		err = stacks_pack(&w->stacks, &field[STACKS]);
	pb.steps = (ProtobufCBinaryData){field[STEPS].bytes, field[STEPS].data};
	pb.names = (ProtobufCBinaryData){field[NAMES].bytes, field[NAMES].data};
	pb.records = (ProtobufCBinaryData){field[RECORDS].bytes, field[RECORDS].data};
	pb.content_stacks = (ProtobufCBinaryData){field[STACKS].bytes, field[STACKS].data};
	if (!err)
		err = pad(&pb, work_of(w, field), &field[PADDING]);
	e.window = &pb;
	if (!err)
		err = codec_emit(&e, WIRE_WINDOW, LIMIT_WIRE_MESSAGE_BYTES, out);
	for (int i = 0; i < FIELDS; i++)
		buf_fini(&field[i]);
	free(l);
	return err;
}

static int read_losses(const Sysom__Wire__Window *pb, struct window *w)
{
	if (pb->n_losses > WIRE_LOSS_MAX)
		return -EMSGSIZE;
	w->loss_count = (uint32_t)pb->n_losses;
	for (uint32_t i = 0; i < w->loss_count; i++) {
		if (codec_text_read(pb->losses[i]->cause, w->losses[i].cause,
				    sizeof(w->losses[i].cause)))
			return -EPROTO;
		w->losses[i].count = pb->losses[i]->count;
	}
	return 0;
}

/* No rate of a machine is larger, and texts have no room for every double. */
static bool is_figure(double v)
{
	return fabs(v) <= LIMIT_SIGNAL_VALUE;
}

/* A kind of a later version cannot be shown. */
static int read_unfinished(const Sysom__Wire__Window *pb, struct window *w)
{
	if (!pb->unfinished_kind || pb->unfinished_kind > BEAT_UNFINISHED_GRAPH)
		return 0;
	w->unfinished.kind = pb->unfinished_kind;
	w->unfinished.launch_ns = pb->unfinished_launch_ns;
	return codec_text_read(pb->unfinished_name, w->unfinished.name, sizeof(w->unfinished.name));
}

static int read_signals(const Sysom__Wire__Window *pb, struct window *w)
{
	if (pb->n_signals > LIMIT_WINDOW_SIGNALS)
		return -EMSGSIZE;
	if (!pb->n_signals)
		return 0;
	w->signals = calloc(pb->n_signals, sizeof(*w->signals));
	if (!w->signals)
		return -ENOMEM;
	w->signal_count = (uint32_t)pb->n_signals;
	for (uint32_t i = 0; i < w->signal_count; i++) {
		const Sysom__Wire__Signal *p = pb->signals[i];
		struct os_signal *s = &w->signals[i];

		if (codec_text_read(p->name, s->name, sizeof(s->name)) ||
		    codec_text_read(p->subject, s->subject, sizeof(s->subject)) ||
		    codec_text_read(p->unit, s->unit, sizeof(s->unit)) || !is_figure(p->value) ||
		    !is_figure(p->usual) || !is_figure(p->weight_ms))
			return -EPROTO;
		s->value = p->value;
		s->usual = p->usual;
		s->weight_ms = p->weight_ms;
		s->flags = p->flags & (OS_SIGNAL_RAISED | OS_SIGNAL_TOTAL);
		s->cpu = p->cpu;
	}
	return 0;
}

/* The work that one message may cause. */
struct budget {
	size_t unpacked; /* bytes of all packed fields, together */
	size_t work;	 /* the same, plus the memory of the rows made from them */
};

static int take_work(struct budget *b, size_t rows, size_t row_bytes)
{
	if (rows > b->work / row_bytes)
		return -EMSGSIZE;
	b->work -= rows * row_bytes;
	return 0;
}

/* Charges a field's stated size before it is unpacked. */
static int take_budget(const ProtobufCBinaryData *field, struct budget *b, size_t rows,
		       size_t row_bytes, size_t *unpacked)
{
	int err = pack_size(field->data, field->len, b->unpacked, unpacked);

	if (!err)
		err = take_work(b, *unpacked, 1);
	if (!err)
		err = take_work(b, rows, row_bytes);
	if (!err)
		b->unpacked -= *unpacked;
	return err;
}

static int read_steps(const Sysom__Wire__Window *pb, struct window *w, struct budget *budget)
{
	size_t unpacked = 0;
	int err;

	if (!w->step_count)
		return pb->steps.len ? -EPROTO : 0;
	err = take_budget(&pb->steps, budget, w->step_count, sizeof(*w->steps), &unpacked);
	if (err)
		return err;
	w->steps = calloc(w->step_count, sizeof(*w->steps));
	if (!w->steps)
		return -ENOMEM;
	return columns_steps_unpack(pb->steps.data, pb->steps.len, unpacked, w->steps,
				    w->step_count);
}

static int read_head(const Sysom__Wire__Window *pb, struct window *w, struct budget *budget)
{
	int err;

	if (pb->reason < WINDOW_SELF || pb->reason > WINDOW_PEER)
		return -EPROTO;
	if (pb->step_count > LIMIT_WINDOW_STEPS || pb->name_count > LIMIT_WINDOW_NAMES ||
	    (uint64_t)pb->host_count + pb->device_count > LIMIT_WINDOW_RECORDS)
		return -EMSGSIZE;
	err = codec_id_read(&pb->id, w->id);
	if (!err)
		err = codec_id_read(&pb->anomaly_id, w->anomaly_id);
	if (!err)
		err = codec_rank_read(pb->rank, &w->rank);
	if (err)
		return err;
#define X(f) w->f = pb->f;
	WINDOW_FIELDS(X)
#undef X
	err = read_losses(pb, w);
	if (!err)
		err = read_unfinished(pb, w);
	if (!err)
		err = read_signals(pb, w);
	return err ? err : read_steps(pb, w, budget);
}

/* Splits the unpacked table in place; all names are in one allocation after the pointers. */
static int split_names(const uint8_t *p, size_t n, struct window *w)
{
	size_t pos = 0;
	char *at;

	/* a length byte precedes every name, which leaves room for the NUL after it */
	if (w->name_count > n)
		return -EPROTO;
	w->names = malloc(w->name_count * sizeof(*w->names) + n + 1);
	if (!w->names)
		return -ENOMEM;
	at = (char *)(w->names + w->name_count);
	for (uint32_t i = 0; i < w->name_count; i++) {
		uint64_t len = 0;

		if (buf_read_varint(p, n, &pos, &len) || len > n - pos || len > LIMIT_NAME_BYTES ||
		    memchr(p + pos, 0, (size_t)len) || (!i && len))
			return -EPROTO;
		w->names[i] = at;
		memcpy(at, p + pos, (size_t)len);
		at[len] = '\0';
		at += len + 1;
		pos += (size_t)len;
	}
	return pos == n ? 0 : -EPROTO;
}

static int read_names(const Sysom__Wire__Window *pb, struct window *w, struct budget *budget)
{
	uint8_t *p = NULL;
	size_t n = 0, unpacked = 0;
	int err;

	if (!w->name_count)
		return pb->names.len ? -EPROTO : 0;
	err = take_budget(&pb->names, budget, w->name_count, sizeof(*w->names), &unpacked);
	if (!err)
		err = pack_read(pb->names.data, pb->names.len, unpacked, &p, &n);
	if (!err)
		err = split_names(p, n, w);
	free(p);
	return err;
}

static int read_records(const Sysom__Wire__Window *pb, struct window *w, struct budget *budget)
{
	uint64_t rows = (uint64_t)w->host_count + w->device_count;
	size_t unpacked = 0;
	int err;

	if (!rows)
		return pb->records.len ? -EPROTO : 0;
	err = take_budget(&pb->records, budget, rows, sizeof(*w->host), &unpacked);
	if (err)
		return err;
	if (!columns_rows_fit(rows, unpacked))
		return -EPROTO;
	w->host = calloc(w->host_count + 1u, sizeof(*w->host));
	w->device = calloc(w->device_count + 1u, sizeof(*w->device));
	if (!w->host || !w->device)
		return -ENOMEM;
	err = columns_unpack(pb->records.data, pb->records.len, unpacked, w->host, w->host_count,
			     w->device, w->device_count);
	if (!err && (check_rows(w->host, w->host_count, false, w->name_count) ||
		     check_rows(w->device, w->device_count, true, w->name_count)))
		err = -EPROTO;
	return err;
}

static int read_stacks(const Sysom__Wire__Window *pb, struct window *w, struct budget *budget)
{
	const ProtobufCBinaryData *stacks =
	    pb->content_stacks.len ? &pb->content_stacks : &pb->stacks;
	size_t unpacked = 0, frames;
	int err;

	if (!stacks->len)
		return 0;
	err = take_budget(stacks, budget, 0, 1, &unpacked);
	if (err)
		return err;
	frames = budget->work / sizeof(*w->stacks.frames);
	return stacks_unpack_within(
	    stacks->data, stacks->len, unpacked,
	    frames < LIMIT_WINDOW_STACK_FRAMES ? frames : LIMIT_WINDOW_STACK_FRAMES, &w->stacks);
}

static int window_decode(const void *data, size_t bytes, size_t work, bool records,
			 struct window *w)
{
	struct budget budget = {LIMIT_WIRE_UNPACKED_BYTES, work};
	struct codec_arena a;
	Sysom__Wire__Envelope *e;
	int err = 0;

	memset(w, 0, sizeof(*w));
	e = codec_open(&a, data, bytes, WIRE_WINDOW, &err);
	if (!e)
		return err;
	err = read_head(e->window, w, &budget);
	if (!err)
		err = read_names(e->window, w, &budget);
	if (!err && records)
		err = read_records(e->window, w, &budget);
	if (!err && records)
		err = read_stacks(e->window, w, &budget);
	codec_close(&a, e);
	if (err)
		wire_window_free(w);
	return err;
}

int wire_window_decode(const void *data, size_t bytes, struct window *w)
{
	return window_decode(data, bytes, SIZE_MAX, true, w);
}

int wire_window_decode_admitted(const void *data, size_t bytes, bool records, struct window *w)
{
	return window_decode(data, bytes, admitted(bytes), records, w);
}

void wire_window_free(struct window *w)
{
	free(w->steps);
	free(w->signals);
	free(w->host);
	free(w->device);
	free(w->names);
	stack_batch_fini(&w->stacks);
	w->steps = NULL;
	w->signals = NULL;
	w->signal_count = 0;
	w->host = w->device = NULL;
	w->names = NULL;
	w->step_count = w->host_count = w->device_count = w->name_count = 0;
}

/* ---- a block of records ---- */

static const uint8_t records_magic[4] = {'S', 'Y', 'R', WIRE_VERSION};

int wire_records_encode(const struct record *records, uint32_t count, struct buf *out)
{
	buf_append(out, records_magic, sizeof(records_magic));
	buf_varint(out, count);
	if (out->failed)
		return -ENOMEM;
	return columns_pack(records, count, NULL, 0, PACK_QUICK, out);
}

int wire_records_decode(const void *data, size_t bytes, struct record **records, uint32_t *count)
{
	const uint8_t *p = data;
	size_t pos = sizeof(records_magic), unpacked = 0;
	uint64_t n = 0;
	struct record *r;
	int err;

	if (bytes < pos || memcmp(p, records_magic, pos) || buf_read_varint(p, bytes, &pos, &n))
		return -EPROTO;
	if (n > LIMIT_WINDOW_RECORDS)
		return -EMSGSIZE;
	err = pack_size(p + pos, bytes - pos, LIMIT_WIRE_UNPACKED_BYTES, &unpacked);
	if (err)
		return err;
	if (!columns_rows_fit(n, unpacked))
		return -EPROTO;
	r = calloc((size_t)n + 1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	err = columns_unpack(p + pos, bytes - pos, unpacked, r, (uint32_t)n, NULL, 0);
	if (err) {
		free(r);
		return err;
	}
	*records = r;
	*count = (uint32_t)n;
	return 0;
}

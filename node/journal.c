/* SPDX-License-Identifier: Apache-2.0
 * Integers are varints. Real numbers are eight raw bytes, because verdicts are compared bit for
 * bit. One table per struct lists its fields. Reader and writer both use it, so they cannot
 * differ. */
#include "node/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "wire/codec.h"
#include "wire/fields.h"
#include "wire/pack.h"

/* The longest event: JOURNAL_RANK with three texts; a step has 40 numbers. */
#define EVENT_BYTES_MAX 2048u
#define BLOCK_MAGIC	0x4b4c424au /* "JBLK" */

enum field_type { FIELD_U64, FIELD_U32, FIELD_I32, FIELD_BOOL, FIELD_REAL, FIELD_TEXT };
struct field {
	enum field_type type;
	size_t at;
};
struct layout {
	const struct field *fields;
	size_t count;
};
#define LAYOUT(name)                                                                               \
	{                                                                                          \
		name, sizeof(name) / sizeof(name[0])                                               \
	}

#define F(type, strct, member)                                                                     \
	{                                                                                          \
		FIELD_##type, offsetof(struct strct, member)                                       \
	}

/* The order is the file format: a new field goes to the end, with a new version. */
static const struct field rank_fields[] = {
    F(TEXT, journal_rank, job),
    F(TEXT, journal_rank, role),
    F(TEXT, journal_rank, node),
    F(I32, journal_rank, rank),
    F(I32, journal_rank, world_size),
    F(BOOL, journal_rank, steps.automatic_only),
    F(U32, journal_rank, steps.launch_max),
    F(U64, journal_rank, steps.period_max_ns),
    F(U64, journal_rank, steps.max_wait_ns),
    F(U64, journal_rank, steps.lock_min_ns),
    F(BOOL, journal_rank, steps.whole_first),
    F(U32, journal_rank, judge.roofline.mode),
    F(U32, journal_rank, judge.roofline.learn_min),
    F(U32, journal_rank, judge.roofline.learn_max),
    F(REAL, journal_rank, judge.roofline.tail_mads),
    F(REAL, journal_rank, judge.roofline.floor_ratio),
    F(U32, journal_rank, judge.roofline.persist_n),
    F(U32, journal_rank, judge.roofline.persist_m),
    F(REAL, journal_rank, judge.roofline.instant_mads),
    F(REAL, journal_rank, judge.roofline.refuse_spread),
    F(U32, journal_rank, judge.roofline.p99_retrain),
    F(U64, journal_rank, judge.roofline.seed),
    F(REAL, journal_rank, judge.instant_ratio),
    F(U64, journal_rank, judge.step_min_ns),
    F(REAL, journal_rank, judge.host_stall_share),
};
_Static_assert(sizeof(enum roofline_mode) == sizeof(uint32_t), "written as one");

static const struct field sample_fields[] = {
    F(U64, judge_sample, key),	    F(REAL, judge_sample, latency_ns),
    F(REAL, judge_sample, self_ns), F(REAL, judge_sample, work[0]),
    F(REAL, judge_sample, work[1]), F(REAL, judge_sample, work[2]),
    F(REAL, judge_sample, work[3]), F(U32, judge_sample, work_count),
    F(U32, judge_sample, known),
};

static const struct field mark_fields[] = {
    F(REAL, step_mark, work[0]), F(REAL, step_mark, work[1]),	F(REAL, step_mark, work[2]),
    F(REAL, step_mark, work[3]), F(U32, step_mark, work_count), F(U32, step_mark, phase),
};

static const struct field step_fields[] = {
    F(U64, journal_step, step.index),
    F(U64, journal_step, step.begin_ns),
    F(U64, journal_step, step.end_ns),
    F(U64, journal_step, step.device_begin_ns),
    F(U64, journal_step, step.device_end_ns),
    F(U64, journal_step, step.latency_ns),
    F(U64, journal_step, step.self_ns),
    F(U64, journal_step, step.compute_ns),
    F(U64, journal_step, step.comm_ns),
    F(U64, journal_step, step.exposed_comm_ns),
    F(U64, journal_step, step.copy_ns),
    F(U64, journal_step, step.idle_ns),
    F(U64, journal_step, step.launch_gap_max_ns),
    F(U32, journal_step, step.kernels),
    F(U32, journal_step, step.launches),
    F(U32, journal_step, step.collectives),
    F(U32, journal_step, step.copies),
    F(U32, journal_step, step.unmatched),
    F(U32, journal_step, step.phase),
    F(U64, journal_step, step.key),
    F(REAL, journal_step, step.work[0]),
    F(REAL, journal_step, step.work[1]),
    F(REAL, journal_step, step.work[2]),
    F(REAL, journal_step, step.work[3]),
    F(U32, journal_step, step.work_count),
    F(U32, journal_step, step.source),
    F(U32, journal_step, step.flags),
    F(U64, journal_step, step.device_latency_ns),
    F(U64, journal_step, stalled_ns),
    F(U32, journal_step, verdict.skip),
    F(U32, journal_step, verdict.state),
    F(REAL, journal_step, verdict.expected_ns),
    F(REAL, journal_step, verdict.expected_self_ns),
    F(REAL, journal_step, verdict.excess),
    F(REAL, journal_step, verdict.self_excess),
    F(BOOL, journal_step, verdict.self_known),
    F(BOOL, journal_step, verdict.out),
    F(BOOL, journal_step, verdict.flagged),
    F(BOOL, journal_step, verdict.self),
    F(BOOL, journal_step, verdict.drift),
};

static const struct field flag_fields[] = {
    F(U32, local_peers_flag, slot),	F(BOOL, local_peers_flag, ended),
    F(U64, local_peers_flag, begin_ns), F(U64, local_peers_flag, end_ns),
    F(REAL, local_peers_flag, excess),	F(REAL, local_peers_flag, excess_ns),
};

static const struct field run_fields[] = {F(U64, journal_event, as.device_ns)};
static const struct field compare_fields[] = {F(U64, journal_event, as.compare.key),
					      F(BOOL, journal_event, as.compare.used)};
static const struct field end_fields[] = {F(U32, journal_event, as.end)};

/* The fields of an event and the struct that holds them. RECORDS has only a count, handled
 * separately. */
static struct layout layout_of(struct journal_event *e, void **at)
{
	static const struct layout rank = LAYOUT(rank_fields), sample = LAYOUT(sample_fields),
				   mark = LAYOUT(mark_fields), step = LAYOUT(step_fields),
				   flag = LAYOUT(flag_fields), run = LAYOUT(run_fields),
				   compare = LAYOUT(compare_fields), end = LAYOUT(end_fields), none;

	*at = &e->as;
	switch (e->kind) {
	case JOURNAL_RANK:
		return rank;
	case JOURNAL_SAMPLE:
		return sample;
	case JOURNAL_MARK:
		return mark;
	case JOURNAL_STEP:
		return step;
	case JOURNAL_FLAG:
		return flag;
	case JOURNAL_RUN:
		*at = e;
		return run;
	case JOURNAL_COMPARE:
		*at = e;
		return compare;
	case JOURNAL_END:
		*at = e;
		return end;
	case JOURNAL_RECORDS:
	case JOURNAL_FINISH:
	case JOURNAL_FORGET:
		break;
	}
	return none;
}

const char *journal_end_name(unsigned why)
{
	static const char *const names[] = {"clean", "full", "busy"};

	return why < sizeof(names) / sizeof(names[0]) ? names[why] : "unknown";
}

/* ---- fields ---- */

static void text_field(struct fields *f, char *text)
{
	size_t n = f->out ? strnlen(text, JOURNAL_TEXT_BYTES - 1) : 0;
	const char *p = text;

	fields_text(f, &p, &n, JOURNAL_TEXT_BYTES - 1);
	if (f->out || f->err)
		return;
	memcpy(text, p, n);
	text[n] = '\0';
}

/* Writes or reads a field of the struct at `of`. */
static void put_field(struct fields *f, const struct field *field, void *of)
{
	char *p = (char *)of + field->at;
	uint64_t u64 = 0;
	uint32_t u32 = 0;
	int32_t i32 = 0;

	switch (field->type) {
	case FIELD_U64:
		fields_u64(f, (uint64_t *)(void *)p, UINT64_MAX);
		break;
	case FIELD_U32:
		fields_u32(f, (uint32_t *)(void *)p, UINT32_MAX);
		break;
	case FIELD_I32:
		memcpy(&i32, p, sizeof(i32));
		u64 = (uint64_t)i32;
		fields_change(f, &u64, 0);
		fields_demand(f, (int64_t)u64 == (int32_t)u64);
		i32 = (int32_t)u64;
		memcpy(p, &i32, sizeof(i32));
		break;
	case FIELD_BOOL:
		u32 = *(const bool *)p;
		fields_u32(f, &u32, 1);
		*(bool *)p = u32;
		break;
	case FIELD_REAL:
		memcpy(&u64, p, sizeof(u64));
		fields_fixed64(f, &u64);
		memcpy(p, &u64, sizeof(u64));
		break;
	case FIELD_TEXT:
		text_field(f, p);
	}
}

/* ---- writing ---- */

/* A block begins with its magic and version, and the bytes of its body. */
static void head_fields(struct fields *f, uint64_t *body_bytes)
{
	uint64_t begin = (uint64_t)JOURNAL_VERSION << 32 | BLOCK_MAGIC, magic = begin;

	fields_fixed64(f, &begin);
	fields_demand(f, begin == magic);
	fields_fixed64(f, body_bytes);
}

int journal_writer_init(struct journal_writer *w)
{
	*w = (struct journal_writer){0};
	buf_init(&w->events, LIMIT_JOURNAL_EVENT_BYTES);
	w->records = malloc(sizeof(*w->records) * LIMIT_JOURNAL_RECORDS);
	w->slots = malloc(LIMIT_JOURNAL_RECORDS);
	if (w->records && w->slots)
		return 0;
	journal_writer_fini(w);
	return -ENOMEM;
}

void journal_writer_fini(struct journal_writer *w)
{
	buf_fini(&w->events);
	free(w->records);
	free(w->slots);
	*w = (struct journal_writer){0};
}

void journal_writer_clear(struct journal_writer *w)
{
	buf_clear(&w->events);
	w->count = w->open_count = 0;
}

bool journal_writer_full(const struct journal_writer *w)
{
	return w->count == LIMIT_JOURNAL_RECORDS || w->events.failed ||
	       w->events.bytes + 3 * EVENT_BYTES_MAX > LIMIT_JOURNAL_EVENT_BYTES;
}

static void put_head(struct journal_writer *w, enum journal_kind kind, uint32_t slot)
{
	buf_varint(&w->events, (uint64_t)kind);
	buf_varint(&w->events, slot);
}

static void close_records(struct journal_writer *w)
{
	if (!w->open_count)
		return;
	put_head(w, JOURNAL_RECORDS, w->open_slot);
	buf_varint(&w->events, w->open_count);
	w->open_count = 0;
}

void journal_writer_event(struct journal_writer *w, const struct journal_event *e)
{
	struct fields f = {.out = &w->events};
	struct journal_event copy = *e;
	struct layout l;
	void *at;

	close_records(w);
	put_head(w, e->kind, e->slot);
	l = layout_of(&copy, &at);
	for (size_t i = 0; i < l.count; i++)
		put_field(&f, &l.fields[i], at);
}

void journal_writer_record(struct journal_writer *w, uint32_t slot, const struct record *r,
			   const struct step_mark *mark)
{
	if (mark) {
		struct journal_event e = {.kind = JOURNAL_MARK, .slot = slot};

		e.as.mark = *mark;
		journal_writer_event(w, &e);
	}
	CHECK(w->count < LIMIT_JOURNAL_RECORDS && slot < LIMIT_NODE_PROCESSES);
	if (w->open_slot != slot)
		close_records(w);
	w->open_slot = slot;
	w->open_count++;
	w->records[w->count] = *r;
	w->slots[w->count++] = (uint8_t)slot;
}

static void put_part(struct buf *body, const struct buf *part)
{
	const void *data = part->data;
	size_t bytes = part->bytes;

	fields_bytes(&(struct fields){.out = body}, &data, &bytes, SIZE_MAX);
}

/* Packs one rank's records separately, because the column codec predicts from the rank's own
 * previous records. */
static int pack_slot(const struct journal_writer *w, uint32_t slot, struct record *scratch,
		     struct buf *one, struct buf *body)
{
	uint32_t n = 0;
	int err;

	for (uint32_t i = 0; i < w->count; i++)
		if (w->slots[i] == slot)
			scratch[n++] = w->records[i];
	if (!n)
		return 0;
	buf_clear(one);
	err = wire_records_encode(scratch, n, one);
	if (err)
		return err;
	buf_varint(body, slot);
	put_part(body, one);
	return body->failed ? -ENOMEM : 0;
}

int journal_writer_pack(struct journal_writer *w, struct buf *out)
{
	struct pack_part part;
	struct record *scratch = malloc(sizeof(*scratch) * (w->count + 1));
	struct buf one, body;
	int err = scratch ? 0 : -ENOMEM;

	close_records(w);
	buf_init(&one, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&body, LIMIT_JOURNAL_BLOCK_BYTES);
	part = (struct pack_part){w->events.data, w->events.bytes};
	if (w->events.failed)
		err = -ENOMEM;
	if (!err)
		err = pack_write(&part, 1, PACK_QUICK, &one);
	if (!err)
		put_part(&body, &one);
	for (uint32_t slot = 0; slot < LIMIT_NODE_PROCESSES && !err; slot++)
		err = pack_slot(w, slot, scratch, &one, &body);
	if (!err && body.failed)
		err = -ENOMEM;
	if (!err) {
		head_fields(&(struct fields){.out = out}, &(uint64_t){body.bytes});
		buf_append(out, body.data, body.bytes);
		err = out->failed ? -EMSGSIZE : 0;
	}
	buf_fini(&one);
	buf_fini(&body);
	free(scratch);
	return err;
}

/* ---- reading ---- */

struct journal_block {
	uint8_t *events;
	struct fields f; /* reads them */
	struct {
		struct record *records;
		uint32_t count, used;
	} slot[LIMIT_NODE_PROCESSES];
};

int journal_block_bytes(const uint8_t head[JOURNAL_HEAD_BYTES], uint32_t *body_bytes)
{
	struct fields f = {.data = head, .bytes = JOURNAL_HEAD_BYTES};
	uint64_t bytes = 0;

	head_fields(&f, &bytes);
	fields_demand(&f, bytes <= LIMIT_JOURNAL_BLOCK_BYTES);
	*body_bytes = (uint32_t)bytes;
	return fields_end(&f);
}

static int open_slots(struct journal_block *b, struct fields *f)
{
	uint32_t total = 0;

	while (!f->err && f->pos < f->bytes) {
		const void *part = NULL;
		size_t bytes = 0;
		uint32_t slot = 0;
		int err;

		fields_u32(f, &slot, LIMIT_NODE_PROCESSES - 1);
		fields_demand(f, !b->slot[slot].records);
		fields_bytes(f, &part, &bytes, f->bytes);
		if (f->err)
			break;
		err =
		    wire_records_decode(part, bytes, &b->slot[slot].records, &b->slot[slot].count);
		if (err)
			return err == -ENOMEM ? err : -EBADMSG;
		total += b->slot[slot].count;
		fields_demand(f, b->slot[slot].count <= LIMIT_JOURNAL_RECORDS &&
				     total <= LIMIT_JOURNAL_RECORDS);
	}
	return f->err;
}

int journal_block_open(struct journal_block **out, const uint8_t head[JOURNAL_HEAD_BYTES],
		       const void *body, uint32_t body_bytes)
{
	struct journal_block *b = calloc(1, sizeof(*b));
	struct fields f = {.data = body, .bytes = body_bytes};
	const void *part = NULL;
	size_t bytes = 0;
	uint32_t stated;
	int err;

	if (!b)
		return -ENOMEM;
	err = journal_block_bytes(head, &stated);
	fields_demand(&f, !err && stated == body_bytes);
	fields_bytes(&f, &part, &bytes, f.bytes);
	err = f.err;
	if (!err) {
		err = pack_read(part, bytes, LIMIT_JOURNAL_EVENT_BYTES, &b->events, &b->f.bytes);
		b->f.data = b->events;
		if (err && err != -ENOMEM)
			err = -EBADMSG;
	}
	if (!err)
		err = open_slots(b, &f);
	if (err) {
		journal_block_close(b);
		return err;
	}
	*out = b;
	return 0;
}

void journal_block_close(struct journal_block *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		free(b->slot[i].records);
	free(b->events);
	free(b);
}

/* Bounds that the analysis assumes; the daemon checks its own settings when it reads them. */
static bool is_sane_rank(const struct journal_rank *r)
{
	const struct roofline_config *c = &r->judge.roofline;

	return r->steps.launch_max >= 16 && r->steps.launch_max <= LIMIT_JOURNAL_LAUNCHES &&
	       (c->mode == ROOFLINE_ROBUST || c->mode == ROOFLINE_P99) && c->learn_min >= 10 &&
	       c->learn_min <= c->learn_max && c->learn_max <= LIMIT_JOURNAL_LEARN &&
	       c->tail_mads >= 0 && c->floor_ratio >= 0 && c->persist_n >= 1 &&
	       c->persist_n <= c->persist_m && c->persist_m <= 64 && c->instant_mads >= 0 &&
	       c->refuse_spread >= 0 && c->p99_retrain >= 1;
}

static void get_records(struct journal_block *b, struct journal_event *e)
{
	uint32_t used = b->slot[e->slot].used, n = 0;

	fields_u32(&b->f, &n, b->slot[e->slot].count - used);
	fields_demand(&b->f, n > 0);
	e->as.records.first = b->slot[e->slot].records + used;
	e->as.records.count = n;
	b->slot[e->slot].used += n;
}

static bool is_sane(const struct journal_event *e)
{
	switch (e->kind) {
	case JOURNAL_RANK:
		return is_sane_rank(&e->as.rank);
	case JOURNAL_SAMPLE:
		return e->as.sample.work_count <= STEP_WORK_MAX && e->as.sample.known <= 1;
	case JOURNAL_MARK:
		return e->as.mark.work_count <= STEP_WORK_MAX;
	case JOURNAL_STEP:
		return e->as.step.step.work_count <= STEP_WORK_MAX;
	case JOURNAL_FLAG:
		return e->as.flag.slot == e->slot;
	default:
		return true;
	}
}

int journal_block_next(struct journal_block *b, struct journal_event *e)
{
	struct fields *f = &b->f;
	uint32_t kind = 0;
	struct layout l;
	void *at;

	if (f->pos == f->bytes) {
		for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
			if (b->slot[i].used != b->slot[i].count)
				return -EPROTO;
		return f->err;
	}
	memset(e, 0, sizeof(*e));
	fields_u32(f, &kind, JOURNAL_END);
	fields_demand(f, kind > 0);
	fields_u32(f, &e->slot, LIMIT_NODE_PROCESSES - 1);
	e->kind = (enum journal_kind)kind;
	if (e->kind == JOURNAL_RECORDS)
		get_records(b, e);
	if (e->kind == JOURNAL_RANK)
		/* for the fields that no setting changes */
		judge_config_default(&e->as.rank.judge);
	l = layout_of(e, &at);
	for (size_t i = 0; i < l.count; i++)
		put_field(f, &l.fields[i], at);
	fields_demand(f, is_sane(e));
	return f->err ? f->err : 1;
}

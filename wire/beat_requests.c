/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/beat_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "model/request.h"
#include "wire/fields.h"

/* Fields that have the same type on both sides. */
/* clang-format off */
#define JOB_FIELDS(X) \
	X(running, running) X(waiting, waiting) X(oldest_wait_ns, oldest_wait_ns) \
	X(arrived, counts.arrived) X(ended, counts.ended) X(lost, counts.lost) \
	X(violations_dropped, counts.violations_dropped) \
	X(ttft_judged, counts.judged[REQUEST_TTFT]) X(tpot_judged, counts.judged[REQUEST_TPOT]) \
	X(ttft_violated, counts.violated[REQUEST_TTFT]) \
	X(tpot_violated, counts.violated[REQUEST_TPOT])
#define VIOLATION_FIELDS(X) \
	X(id) X(objective) X(phase) X(prompt_tokens) X(output_tokens) X(arrival_ns) \
	X(scheduled_ns) X(first_ns) X(last_ns) X(value_ns) X(phase_ns) X(objective_ns)
/* clang-format on */

struct item {
	Sysom__Wire__BeatRequests pb;
	Sysom__Wire__Violation violation[REQUEST_VIOLATIONS_MAX], *list[REQUEST_VIOLATIONS_MAX];
	char job[WIRE_TEXT_BYTES], span[REQUEST_VIOLATIONS_MAX][REQUEST_SPAN_BYTES];
	struct buf ttft, tpot, queue;
};
struct beat_requests {
	uint32_t count;
	Sysom__Wire__BeatRequests **list;
	struct item item[];
};

/* ---- durations: v rows; per row v class, from the row before, and v count ---- */

static int durations_rows(struct fields *f, struct durations *d)
{
	uint32_t rows = 0, class = 0;

	for (uint32_t i = 0; f->out && i < DURATIONS_CLASSES; i++)
		rows += d->count[i] != 0;
	if (f->out ? !rows : !f->bytes)
		return 0;
	fields_u32(f, &rows, DURATIONS_CLASSES);
	fields_demand(f, rows > 0);
	for (uint32_t i = 0; i < rows && !f->err; i++, class ++) {
		uint32_t skip = 0, count;

		while (f->out && !d->count[class + skip])
			skip++;
		fields_u32(f, &skip, DURATIONS_CLASSES);
		class += skip;
		fields_demand(f, class < DURATIONS_CLASSES);
		count = f->out ? d->count[class] : 0;
		fields_u32(f, &count, UINT32_MAX);
		fields_demand(f, count > 0);
		if (!f->out && !f->err)
			durations_add_class(d, class, count);
	}
	return fields_end(f);
}

/* ---- to protobuf ---- */

static ProtobufCBinaryData durations_bytes(const struct durations *d, struct buf *out)
{
	buf_init(out, LIMIT_WIRE_MESSAGE_BYTES);
	durations_rows(&(struct fields){.out = out}, (struct durations *)(uintptr_t)d);
	return (ProtobufCBinaryData){out->bytes, out->data};
}

static void fill_violation(struct item *it, uint32_t at, const struct request_violation *v)
{
	Sysom__Wire__Violation *pb = &it->violation[at];

	sysom__wire__violation__init(pb);
#define X(f) pb->f = v->f;
	VIOLATION_FIELDS(X)
#undef X
	pb->slow_begin_ns = v->slow.begin_ns;
	pb->slow_end_ns = v->slow.end_ns;
	pb->slow_tokens = v->slow.tokens;
	pb->slow_step_tokens = v->slow.step_tokens;
	pb->slow_batch = v->slow.batch;
	codec_text_clean(v->span, it->span[at], sizeof(it->span[at]));
	pb->span = it->span[at];
	it->list[at] = pb;
}

/* Fills an empty item; release it whatever this returns. */
static int item_fill(struct item *it, const struct request_job *r)
{
	uint32_t count = r->violation_count < REQUEST_VIOLATIONS_MAX ? r->violation_count
								     : REQUEST_VIOLATIONS_MAX;

	sysom__wire__beat_requests__init(&it->pb);
	codec_text_clean(r->job, it->job, sizeof(it->job));
	it->pb.job = it->job;
#define X(pb_field, field) it->pb.pb_field = r->field;
	JOB_FIELDS(X)
#undef X
	it->pb.ttft = durations_bytes(&r->ttft, &it->ttft);
	it->pb.tpot = durations_bytes(&r->tpot, &it->tpot);
	it->pb.queue = durations_bytes(&r->queue, &it->queue);
	for (uint32_t i = 0; i < count; i++)
		fill_violation(it, i, &r->violation[i]);
	it->pb.violations = it->list;
	it->pb.n_violations = count;
	return it->ttft.failed || it->tpot.failed || it->queue.failed ? -ENOMEM : 0;
}

static void item_release(struct item *it)
{
	buf_fini(&it->ttft);
	buf_fini(&it->tpot);
	buf_fini(&it->queue);
}

static size_t item_bytes(const Sysom__Wire__BeatRequests *pb)
{
	return sysom__wire__beat_requests__get_packed_size(pb);
}

size_t beat_requests_fit(struct request_job *r, size_t bytes)
{
	struct item *it = calloc(1, sizeof(*it));
	size_t is = 0;

	while (it) {
		int err = item_fill(it, r);

		is = err ? 0 : item_bytes(&it->pb);
		item_release(it);
		if (!is || is <= bytes)
			break;
		is = 0;
		if (r->violation_count) {
			r->violation_count--;
			r->counts.violations_dropped++;
		} else if (r->ttft.total || r->tpot.total || r->queue.total) {
			r->ttft = r->tpot = r->queue = (struct durations){0};
		} else {
			break;
		}
	}
	free(it);
	return is;
}

int beat_requests_pack(const struct beat *b, Sysom__Wire__Beat *pb, struct beat_requests **out)
{
	struct beat_requests *r;
	int err = 0;

	if (!b->request_count)
		return 0;
	if (b->request_count > LIMIT_NODE_PROCESSES)
		return -EMSGSIZE;
	r = calloc(1, sizeof(*r) + b->request_count * sizeof(r->item[0]));
	if (!r)
		return -ENOMEM;
	*out = r;
	r->list = calloc(b->request_count, sizeof(*r->list));
	if (!r->list)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->request_count && !err; i++) {
		r->count++;
		err = item_fill(&r->item[i], &b->requests[i]);
		if (!err && item_bytes(&r->item[i].pb) > LIMIT_BEAT_BYTES_PER_RANK)
			err = -EMSGSIZE;
		r->list[i] = &r->item[i].pb;
	}
	pb->requests = r->list;
	pb->n_requests = r->count;
	return err;
}

void beat_requests_release(struct beat_requests *r)
{
	for (uint32_t i = 0; r && i < r->count; i++)
		item_release(&r->item[i]);
	if (r)
		free(r->list);
	free(r);
}

/* ---- from protobuf ---- */

static int read_violation(const Sysom__Wire__Violation *pb, struct request_violation *v)
{
#define X(f) v->f = pb->f;
	VIOLATION_FIELDS(X)
#undef X
	v->slow = (struct request_step){pb->slow_begin_ns, pb->slow_end_ns, pb->slow_tokens,
					pb->slow_step_tokens, pb->slow_batch};
	if (v->objective >= REQUEST_OBJECTIVES || v->slow.end_ns < v->slow.begin_ns)
		return -EPROTO;
	if (v->phase >= REQUEST_PHASES) /* of a later version */
		v->phase = REQUEST_PHASE_NONE;
	return codec_text_read(pb->span, v->span, sizeof(v->span));
}

static int durations_read(const ProtobufCBinaryData *from, struct durations *d)
{
	return durations_rows(&(struct fields){.data = from->data, .bytes = from->len}, d);
}

static int read_job(const Sysom__Wire__BeatRequests *pb, const struct beat *b,
		    struct request_job *r)
{
	int err = codec_text_read(pb->job, r->job, sizeof(r->job));

	if (!err && !codec_has_job(b, r->job))
		err = -EPROTO;
	if (!err && (item_bytes(pb) > LIMIT_BEAT_BYTES_PER_RANK ||
		     pb->n_violations > REQUEST_VIOLATIONS_MAX))
		err = -EMSGSIZE;
#define X(pb_field, field) r->field = pb->pb_field;
	JOB_FIELDS(X)
#undef X
	if (!err)
		err = durations_read(&pb->ttft, &r->ttft);
	if (!err)
		err = durations_read(&pb->tpot, &r->tpot);
	if (!err)
		err = durations_read(&pb->queue, &r->queue);
	for (size_t i = 0; i < pb->n_violations && !err; i++)
		err = read_violation(pb->violations[i], &r->violation[r->violation_count++]);
	return err;
}

int beat_requests_unpack(const Sysom__Wire__Beat *pb, struct beat *b)
{
	int err = 0;

	if (!pb->n_requests)
		return 0;
	if (pb->n_requests > LIMIT_NODE_PROCESSES)
		return -EMSGSIZE;
	b->requests = calloc(pb->n_requests, sizeof(*b->requests));
	if (!b->requests)
		return -ENOMEM;
	for (size_t i = 0; i < pb->n_requests && !err; i++)
		err = read_job(pb->requests[i], b, &b->requests[i]);
	b->request_count = (uint32_t)pb->n_requests;
	return err;
}

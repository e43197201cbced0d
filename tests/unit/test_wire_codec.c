/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/job_key.h"
#include "base/limits.h"
#include "tests/wire_synth.h"
#include "wire/codec_internal.h"

#define NAMES 5
static char *names[NAMES] = {"", "gemm<float>", "ncclDevKernel_AllReduce", "a", "\xff\xfe raw"};

static void random_bytes(void *to, size_t bytes, uint64_t *state)
{
	uint8_t *p = to;

	while (bytes--)
		*p++ = (uint8_t)synth_random(state);
}

static void random_text(char *to, uint64_t *state)
{
	size_t n = synth_random(state) % (WIRE_TEXT_BYTES - 4);

	for (size_t i = 0; i < n; i++)
		to[i] = (char)('a' + synth_random(state) % 26);
	memcpy(to + n, "\xc3\xa9", 3);
}

static double random_double(uint64_t *state)
{
	return synth_random(state) % 4 ? 1e6 * synth_normal(state) : 0;
}

static void random_rank(struct wire_rank *r, uint64_t *state)
{
	memset(r, 0, sizeof(*r));
	random_text(r->job, state);
	random_text(r->node, state);
	random_text(r->role, state);
	for (int k = 0; k < POD_TEXTS; k++)
		random_text(r->pod.text[k], state);
	random_text(r->gpu_uuid, state);
	random_text(r->program, state);
	r->rank = (int32_t)synth_random(state);
	r->world_size = -1;
	r->local_rank = (int32_t)(synth_random(state) % 8);
	r->pid = (uint32_t)synth_random(state);
	r->start_time_ticks = synth_random(state);
}

/* Any bytes in every field; fields of a real row most of the time. */
static void random_records(struct record *r, uint32_t n, bool device, uint64_t *state)
{
	for (uint32_t i = 0; i < n; i++) {
		memset(&r[i], 0, sizeof(r[i])); /* the padding too */
		random_bytes(&r[i], offsetof(struct record, peer) + sizeof(r[i].peer), state);
		if (synth_random(state) % 3)
			r[i].flags &= 3;
		if (i && synth_random(state) % 2)
			r[i] = r[i - 1];
		r[i].kind =
		    (uint16_t)(device ? 32 + synth_random(state) % 1000 : synth_random(state) % 32);
		r[i].name = (uint32_t)(synth_random(state) % NAMES);
		if (synth_random(state) % 5 == 0)
			r[i].launch_ns = 0;
		if (i && synth_random(state) % 4)
			r[i].begin_ns = r[i - 1].begin_ns + synth_random(state) % 100000;
	}
}

static void random_steps(struct window_step *s, uint32_t n, uint64_t *state)
{
	for (uint32_t i = 0; i < n; i++) {
		struct step *p = &s[i].step;

		memset(&s[i], 0, sizeof(s[i]));
		p->index = i + 7;
		p->begin_ns = synth_random(state) >> (i % 3 ? 20 : 0);
		p->end_ns = p->begin_ns + synth_random(state) % 1000000;
		p->device_begin_ns = i % 3 ? synth_random(state) : i % 2 ? p->begin_ns : 0;
		p->device_end_ns = i % 4 ? synth_random(state) : i % 2 ? p->end_ns : 0;
		p->latency_ns = synth_random(state);
		p->device_latency_ns = i % 5 ? p->latency_ns : 0;
		p->self_ns = synth_random(state);
		p->compute_ns = synth_random(state) % 100000;
		p->comm_ns = synth_random(state);
		p->exposed_comm_ns = synth_random(state);
		p->copy_ns = p->idle_ns = synth_random(state) % 50;
		p->launch_gap_max_ns = synth_random(state);
		p->kernels = p->launches = (uint32_t)synth_random(state);
		p->collectives = p->copies = 3;
		p->unmatched = UINT32_MAX;
		p->phase = i;
		p->key = synth_random(state);
		p->work[0] = p->work[3] = random_double(state);
		p->work_count = i % 5;
		p->source = STEP_SOURCE_AUTO;
		p->flags = (uint32_t)synth_random(state);
		s[i].expected_ns = random_double(state);
		s[i].expected_self_ns = random_double(state);
		s[i].excess = random_double(state);
		s[i].self_excess = random_double(state);
		s[i].flags = (uint32_t)synth_random(state);
		s[i].kind = (uint32_t)synth_random(state);
		s[i].period = (uint32_t)synth_random(state);
	}
}

struct fixture {
	struct window w;
	struct window_step steps[40];
	struct record host[300], device[300];
	struct os_signal signals[LIMIT_WINDOW_SIGNALS];
};

static void random_window(struct fixture *f, uint64_t *state)
{
	struct window *w = &f->w;

	memset(f, 0, sizeof(*f));
	random_bytes(w->id, 16, state);
	random_bytes(w->anomaly_id, 16, state);
	random_rank(&w->rank, state);
	w->begin_ns = synth_random(state);
	w->end_ns = synth_random(state);
	w->realtime_offset_ns = (int64_t)synth_random(state);
	w->clock_error_ns = synth_random(state) % 1000;
	w->reason = WINDOW_SELF + (uint32_t)(synth_random(state) % WINDOW_PEER);
	w->sequence = (uint32_t)synth_random(state);
	w->summary_only = synth_random(state) % 2;
	w->model_state = 1;
	w->model_r2 = random_double(state);
	w->model_spread = random_double(state);
	w->raw_bytes = synth_random(state);
	w->open_since_ns = synth_random(state);
	w->unfinished.kind = (uint32_t)(synth_random(state) % (BEAT_UNFINISHED_GRAPH + 1));
	if (w->unfinished.kind) {
		w->unfinished.launch_ns = synth_random(state);
		random_text(w->unfinished.name, state);
	}
	w->steps = f->steps;
	w->step_count = (uint32_t)(synth_random(state) % 41);
	w->host = f->host;
	w->device = f->device;
	w->host_count = (uint32_t)(synth_random(state) % 301);
	w->device_count = (uint32_t)(synth_random(state) % 301);
	w->names = names;
	w->name_count = NAMES;
	random_steps(f->steps, w->step_count, state);
	random_records(f->host, w->host_count, false, state);
	random_records(f->device, w->device_count, true, state);
	w->loss_count = (uint32_t)(synth_random(state) % (WIRE_LOSS_MAX + 1));
	for (uint32_t i = 0; i < w->loss_count; i++) {
		snprintf(w->losses[i].cause, sizeof(w->losses[i].cause), "cause_%u", i);
		w->losses[i].count = synth_random(state);
	}
	w->signals = f->signals;
	w->signal_count = (uint32_t)(synth_random(state) % (LIMIT_WINDOW_SIGNALS + 1));
	for (uint32_t i = 0; i < w->signal_count; i++) {
		os_signal_make(&f->signals[i], i % OS_SIGNAL_KINDS, "NET_RX from thread a on CPU 1",
			       synth_random(state) % 1000, (double)i - 1, 100);
		f->signals[i].cpu = i;
	}
}

static void assert_same_head(const struct window *a, const struct window *b)
{
	assert_memory_equal(a->id, b->id, 16);
	assert_memory_equal(a->anomaly_id, b->anomaly_id, 16);
	assert_memory_equal(&a->rank, &b->rank, sizeof(a->rank));
	assert_int_equal(a->begin_ns, b->begin_ns);
	assert_int_equal(a->end_ns, b->end_ns);
	assert_int_equal(a->realtime_offset_ns, b->realtime_offset_ns);
	assert_int_equal(a->clock_error_ns, b->clock_error_ns);
	assert_int_equal(a->reason, b->reason);
	assert_int_equal(a->sequence, b->sequence);
	assert_int_equal(a->summary_only, b->summary_only);
	assert_int_equal(a->model_state, b->model_state);
	assert_memory_equal(&a->model_r2, &b->model_r2, 8);
	assert_memory_equal(&a->model_spread, &b->model_spread, 8);
	assert_int_equal(a->raw_bytes, b->raw_bytes);
	assert_int_equal(a->open_since_ns, b->open_since_ns);
	assert_memory_equal(&a->unfinished, &b->unfinished, sizeof(a->unfinished));
	assert_int_equal(a->step_count, b->step_count);
	assert_memory_equal(a->steps ? a->steps : (void *)"", b->steps ? b->steps : (void *)"",
			    a->step_count * sizeof(*a->steps));
	assert_int_equal(a->loss_count, b->loss_count);
	assert_memory_equal(a->losses, b->losses, a->loss_count * sizeof(a->losses[0]));
	assert_int_equal(a->signal_count, b->signal_count);
	assert_memory_equal(a->signals ? a->signals : (void *)"",
			    b->signals ? b->signals : (void *)"",
			    a->signal_count * sizeof(*a->signals));
	assert_int_equal(a->host_count, b->host_count);
	assert_int_equal(a->device_count, b->device_count);
	assert_int_equal(a->name_count, b->name_count);
}

static void round_trips_any_window(void **unused)
{
	static struct fixture f;
	uint64_t state = 20261121;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (int i = 0; i < 400; i++) {
		struct window got;

		random_window(&f, &state);
		buf_clear(&b);
		assert_int_equal(wire_window_encode(&f.w, &b), 0);
		assert_int_equal(codec_kind(b.data, b.bytes), WIRE_WINDOW);
		assert_int_equal(wire_window_decode_admitted(b.data, b.bytes, false, &got), 0);
		assert_null(got.host);
		assert_same_head(&f.w, &got);
		wire_window_free(&got);
		assert_int_equal(wire_window_decode(b.data, b.bytes, &got), 0);
		assert_same_head(&f.w, &got);
		assert_memory_equal(got.host ? got.host : f.host, f.host,
				    f.w.host_count * sizeof(f.host[0]));
		assert_memory_equal(got.device ? got.device : f.device, f.device,
				    f.w.device_count * sizeof(f.device[0]));
		for (int k = 0; k < NAMES; k++)
			assert_string_equal(got.names[k], names[k]);
		wire_window_free(&got);
	}
	buf_fini(&b);
}

static void round_trips_any_records(void **unused)
{
	struct record r[200], *got;
	uint64_t state = 99;
	uint32_t count;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (int i = 0; i < 500; i++) {
		uint32_t n = (uint32_t)(synth_random(&state) % 201);

		random_records(r, n, i % 2, &state);
		for (uint32_t k = 0; i % 3 == 0 && k < n; k++)
			r[k].kind = (uint16_t)synth_random(&state); /* both kinds mixed */
		buf_clear(&b);
		assert_int_equal(wire_records_encode(r, n, &b), 0);
		assert_int_equal(wire_records_decode(b.data, b.bytes, &got, &count), 0);
		assert_int_equal(count, n);
		assert_memory_equal(got, r, n * sizeof(r[0]));
		free(got);
	}
	buf_fini(&b);
}

static void stores_a_kernel_stream_in_three_bytes_per_event(void **unused)
{
	struct synth s;
	struct window w = {.reason = WINDOW_SELF};
	struct buf b;

	synth_init(&s, 10000, 5);
	synth_transformer(&s, 0.012);
	w.host = s.host;
	w.device = s.device;
	w.host_count = w.device_count = 10000;
	w.names = calloc(SYNTH_NAMES + 2, sizeof(char *));
	w.name_count = SYNTH_NAMES + 2;
	for (uint32_t i = 0; i < w.name_count; i++)
		w.names[i] = "";
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, &b), 0);
	assert_true(b.bytes <= 3 * 20000);
	buf_fini(&b);
	free(w.names);
	synth_fini(&s);
}

static void divides_out_the_unit_of_coarse_clocks(void **unused)
{
	struct synth fine, coarse;
	struct buf b, c;

	synth_init(&fine, 5000, 5);
	synth_init(&coarse, 5000, 5);
	synth_transformer(&fine, 0.012);
	for (uint32_t i = 0; i < 5000; i++) {
		coarse.host[i] = fine.host[i];
		coarse.host[i].begin_ns = fine.host[i].begin_ns / 1000 * 1000;
		coarse.host[i].end_ns = fine.host[i].end_ns / 1000 * 1000;
	}
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&c, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_records_encode(fine.host, 5000, &b), 0);
	assert_int_equal(wire_records_encode(coarse.host, 5000, &c), 0);
	assert_true(c.bytes * 2 < b.bytes);
	buf_fini(&b);
	buf_fini(&c);
	synth_fini(&fine);
	synth_fini(&coarse);
}

static struct window small_window(void)
{
	return (struct window){.reason = WINDOW_COMM, .names = names, .name_count = NAMES};
}

static void refuses_to_encode_what_the_reader_would_reject(void **unused)
{
	struct record host = {.kind = RECORD_KERNEL}, device = {.kind = RECORD_LAUNCH};
	struct window w = small_window();
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	w.host = &host;
	w.host_count = 1;
	assert_int_equal(wire_window_encode(&w, &b), -EINVAL);
	w = small_window();
	w.device = &device;
	w.device_count = 1;
	assert_int_equal(wire_window_encode(&w, &b), -EINVAL);
	device = (struct record){.kind = RECORD_KERNEL, .name = NAMES};
	assert_int_equal(wire_window_encode(&w, &b), -EINVAL);
	w = small_window();
	w.step_count = LIMIT_WINDOW_STEPS + 1;
	assert_int_equal(wire_window_encode(&w, &b), -EMSGSIZE);
	w = small_window();
	w.host_count = LIMIT_WINDOW_RECORDS;
	w.device_count = 1;
	assert_int_equal(wire_window_encode(&w, &b), -EMSGSIZE);
	assert_int_equal(b.bytes, 0);
	buf_fini(&b);
}

static void refuses_a_window_above_the_message_limit(void **unused)
{
	uint32_t n = 300000;
	struct record *r = calloc(n, sizeof(*r));
	struct window w = small_window();
	uint64_t state = 4;
	struct buf b;

	for (uint32_t i = 0; i < n; i++) {
		random_bytes(&r[i], sizeof(r[i]), &state);
		r[i].kind = RECORD_LAUNCH;
		r[i].name = 0;
	}
	w.host = r;
	w.host_count = n;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, &b), -EMSGSIZE);
	buf_fini(&b);
	free(r);
}

static int code_of(const char *job, uint32_t owner)
{
	struct window w = small_window(), got;
	struct buf b;
	int err;

	strcpy(w.rank.job, job);
	w.rank.owner = owner;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, &b), 0);
	err = wire_window_decode(b.data, b.bytes, &got);
	if (!err) {
		assert_int_equal(got.rank.owner, owner);
		assert_string_equal(got.rank.job, job);
		wire_window_free(&got);
	}
	buf_fini(&b);
	return err;
}

/* An earlier sysomd does not send one, and passes on whatever name the job has. */
static void a_jobs_user_is_the_one_that_its_node_vouches_for(void **unused)
{
	assert_int_equal(code_of("train@1000", 1001), 0);
	assert_int_equal(code_of("train@0", 1), 0);
	assert_int_equal(code_of("a@b@4294967294", 4294967295u), 0);
	assert_int_equal(code_of("train", 0), 0);
	assert_int_equal(code_of("train@home", 0), 0);
	assert_int_equal(code_of("train@1000", 0), -EPROTO);
	assert_int_equal(code_of("train@1000", 1002), -EPROTO);
	assert_int_equal(code_of("train", 1001), -EPROTO);
	assert_int_equal(code_of("train@01000", 1001), -EPROTO);
	assert_int_equal(code_of("train@4294968296", 1001), -EPROTO); /* 2^32 + 1000 */
}

static void a_key_keeps_its_uid_however_long_the_name(void **unused)
{
	char name[300], key[WIRE_TEXT_BYTES];
	uint32_t uid = 0;

	for (size_t n = 0; n < sizeof(name); n++) {
		memset(name, 'x', n);
		if (n > 1)
			memcpy(name + n - 2, "\xc3\xa4", 2);
		name[n] = 0;
		job_key_make(key, sizeof(key), name, 4294967294u);
		assert_true(strlen(key) < sizeof(key));
		assert_true(job_key_owner(key, &uid));
		assert_int_equal(uid, 4294967294u);
		assert_int_equal(n <= 116, job_key_matches(key, name));
		assert_int_equal(code_of(key, 4294967295u), 0);
	}
}

static void a_claimed_name_never_stands_for_another_users_key(void **unused)
{
	assert_true(job_key_matches("train@61001", "train@61001"));
	assert_true(job_key_matches("train@61001", "train"));
	assert_false(job_key_matches("train@61001@61003", "train@61001"));
	assert_true(job_key_matches("train@61001@61003", "train@61001@61003"));
	assert_false(job_key_matches("train@61001@61003", "train"));
}

static void a_series_stands_for_its_runs(void **unused)
{
	static const struct {
		const char *key, *asked;
		bool fits;
	} cases[] = {
	    {"train#12.0@7", "train", true},	  {"train#12.0@7", "train@7", true},
	    {"train#12.0@7", "train#12.0", true}, {"train#12.0@7", "train#12.0@7", true},
	    {"train#12.0@7", "train@8", false},	  {"train#12.0@7", "train#12", true},
	    {"train#12.0@7", "trai", false},	  {"train2#12.0@7", "train", false},
	    {"exp#3#12.0@7", "exp#3", true},	  {"exp#3#12.0@7", "exp", true},
	    {"train@7", "train#12.0", false},	  {"train#12.0@7", "train#1", false},
	    {"train.2#12@7", "train", false},	  {"train#1@7@8", "train@7", false},
	    {"train#12.0", "train", false},
	};
	char series[WIRE_TEXT_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(job_key_matches(cases[i].key, cases[i].asked), cases[i].fits);
	job_key_series(series, sizeof(series), "train#12.0@7");
	assert_string_equal(series, "train@7");
	job_key_series(series, sizeof(series), "exp#3#12.0@7");
	assert_string_equal(series, "exp#3@7");
	job_key_series(series, sizeof(series), "train@7");
	assert_string_equal(series, "train@7");
	job_key_series(series, sizeof(series), "#12@7");
	assert_string_equal(series, "#12@7");
	job_key_series(series, sizeof(series), "train#12");
	assert_string_equal(series, "train");
}

static void cleans_texts_that_are_not_utf8(void **unused)
{
	struct window w = small_window(), got;
	struct buf b;

	strcpy(w.rank.job, "job\xff\xc0\xaf\xed\xa0\x80ok");
	memset(w.rank.node, 'n', sizeof(w.rank.node)); /* no NUL at all */
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, &b), 0);
	assert_int_equal(wire_window_decode(b.data, b.bytes, &got), 0);
	assert_string_equal(got.rank.job, "job??????ok");
	assert_int_equal(strlen(got.rank.node), WIRE_TEXT_BYTES - 1);
	wire_window_free(&got);
	buf_fini(&b);
}

/* Encodes an envelope whose window the caller bends first. */
static int decode_bent(void (*bend)(Sysom__Wire__Window *w))
{
	struct record rows[3] = {
	    {.kind = RECORD_LAUNCH}, {.kind = RECORD_LAUNCH}, {.kind = RECORD_LAUNCH}};
	struct window w = small_window(), got;
	Sysom__Wire__Envelope *e;
	uint8_t out[4096];
	struct buf b;
	size_t n;
	int err;

	w.host = rows;
	w.host_count = 3;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, &b), 0);
	e = sysom__wire__envelope__unpack(NULL, b.bytes, b.data);
	assert_non_null(e);
	bend(e->window);
	n = sysom__wire__envelope__get_packed_size(e);
	assert_true(n < sizeof(out));
	sysom__wire__envelope__pack(e, out);
	sysom__wire__envelope__free_unpacked(e, NULL);
	buf_fini(&b);
	err = wire_window_decode(out, n, &got);
	if (!err)
		wire_window_free(&got);
	return err;
}

static void bend_nothing(Sysom__Wire__Window *w)
{
	(void)w;
}
static void bend_more_rows(Sysom__Wire__Window *w)
{
	w->host_count = 4;
}
static void bend_fewer_rows(Sysom__Wire__Window *w)
{
	w->host_count = 2;
}
static void bend_million_rows(Sysom__Wire__Window *w)
{
	w->host_count = LIMIT_WINDOW_RECORDS;
}
static void bend_too_many_rows(Sysom__Wire__Window *w)
{
	w->device_count = LIMIT_WINDOW_RECORDS;
}
static void bend_overflowing_rows(Sysom__Wire__Window *w)
{
	w->host_count = w->device_count = UINT32_MAX;
}
static void bend_kind(Sysom__Wire__Window *w)
{
	w->host_count = 0;
	w->device_count = 3;
}
static void bend_names(Sysom__Wire__Window *w)
{
	w->name_count = LIMIT_WINDOW_NAMES + 1;
}
static void bend_fewer_names(Sysom__Wire__Window *w)
{
	w->name_count = 2;
}
static void bend_steps(Sysom__Wire__Window *w)
{
	w->step_count = 1;
}
static void bend_id(Sysom__Wire__Window *w)
{
	w->id.len = 15;
}
static void bend_unfinished(Sysom__Wire__Window *w)
{
	w->unfinished_kind = BEAT_UNFINISHED_KERNEL;
	w->unfinished_name = strdup("\xff\xfe"); /* freed with the message */
}

static void bend_reason(Sysom__Wire__Window *w)
{
	w->reason = WINDOW_PEER + 1;
}

static void rejects_counts_that_its_columns_do_not_hold(void **unused)
{
	assert_int_equal(decode_bent(bend_nothing), 0);
	assert_int_equal(decode_bent(bend_more_rows), -EPROTO);
	assert_int_equal(decode_bent(bend_fewer_rows), -EPROTO);
	assert_int_equal(decode_bent(bend_million_rows), -EPROTO);
	assert_int_equal(decode_bent(bend_too_many_rows), -EMSGSIZE);
	assert_int_equal(decode_bent(bend_overflowing_rows), -EMSGSIZE);
	assert_int_equal(decode_bent(bend_kind), -EPROTO);
	assert_int_equal(decode_bent(bend_names), -EMSGSIZE);
	assert_int_equal(decode_bent(bend_fewer_names), -EPROTO);
	assert_int_equal(decode_bent(bend_steps), -EPROTO);
	assert_int_equal(decode_bent(bend_id), -EPROTO);
	assert_int_equal(decode_bent(bend_reason), -EPROTO);
	assert_int_equal(decode_bent(bend_unfinished), -EPROTO);
}

static void survives_every_single_cut_and_any_flip(void **unused)
{
	static struct fixture f;
	uint64_t state = 31;
	struct window got;
	struct buf b;

	random_window(&f, &state);
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&f.w, &b), 0);
	for (size_t n = 0; n < b.bytes; n += 1 + n / 200)
		assert_true(wire_window_decode(b.data, n, &got) < 0);
	for (int i = 0; i < 3000; i++) {
		size_t at = synth_random(&state) % b.bytes;
		uint8_t was = b.data[at];

		b.data[at] ^= (uint8_t)(1 + synth_random(&state) % 255);
		if (!wire_window_decode(b.data, b.bytes, &got))
			wire_window_free(&got);
		b.data[at] = was;
	}
	buf_fini(&b);
}

static void round_trips_a_full_beat_within_its_limit(void **unused)
{
	static struct beat_rank ranks[LIMIT_NODE_PROCESSES];
	struct beat b = {.ranks = ranks,
			 .rank_count = LIMIT_NODE_PROCESSES,
			 .sequence = 9,
			 .realtime_offset_ns = -5},
		    got;
	uint64_t state = 8;
	struct buf out;

	random_text(b.node, &state);
	random_bytes(b.boot_id, 16, &state);
	for (int i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		memset(&ranks[i], 0, sizeof(ranks[i]));
		random_bytes(&ranks[i], offsetof(struct beat_rank, groups), &state);
		random_rank(&ranks[i].rank, &state);
		ranks[i].latency_median_ns = random_double(&state);
		ranks[i].flags = (uint32_t)i;
	}
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_beat_encode(&b, &out), 0);
	assert_true(out.bytes <= LIMIT_BEAT_BYTES_PER_RANK * (LIMIT_NODE_PROCESSES + 1));
	assert_int_equal(wire_beat_decode(out.data, out.bytes, &got), 0);
	assert_int_equal(got.rank_count, b.rank_count);
	assert_memory_equal(got.ranks, ranks, sizeof(ranks));
	assert_string_equal(got.node, b.node);
	assert_memory_equal(got.boot_id, b.boot_id, 16);
	assert_int_equal(got.realtime_offset_ns, -5);
	wire_beat_free(&got);
	b.rank_count++;
	assert_int_equal(wire_beat_encode(&b, &out), -EMSGSIZE);
	buf_fini(&out);
}

static void bounds_the_memory_of_a_beat_of_empty_ranks(void **unused)
{
	size_t n = 2 * 60000;
	uint8_t *p = malloc(n + 16);
	size_t at = 0;
	struct beat got;

	p[at++] = 0x08;
	p[at++] = WIRE_VERSION;
	p[at++] = 0x10;
	p[at++] = WIRE_BEAT;
	p[at++] = 0x22; /* beat */
	p[at++] = (uint8_t)(n & 0x7f) | 0x80;
	p[at++] = (uint8_t)(n >> 7 & 0x7f) | 0x80;
	p[at++] = (uint8_t)(n >> 14);
	for (size_t i = 0; i < n / 2; i++) {
		p[at++] = 0x7a; /* ranks */
		p[at++] = 0;
	}
	assert_true(wire_beat_decode(p, at, &got) < 0);
	free(p);
}

static void round_trips_replies_with_commands(void **unused)
{
	static struct wire_reply r, got;
	struct buf b;

	r.status = WIRE_RETRY;
	memset(r.id, 7, 16);
	strcpy(r.message, "disk full");
	r.command_count = WIRE_COMMANDS_MAX;
	for (int i = 0; i < WIRE_COMMANDS_MAX; i++) {
		r.commands[i] = (struct wire_command){
		    .kind = 1, .rank = i - 1, .begin_ns = UINT64_MAX, .end_ns = (uint64_t)i};
		snprintf(r.commands[i].job, sizeof(r.commands[i].job), "job %d", i);
		if (i % 2) /* the others leave it to the sidecar */
			memset(r.commands[i].anomaly_id, i, sizeof(r.commands[i].anomaly_id));
	}
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_reply_encode(&r, &b), 0);
	assert_int_equal(wire_reply_decode(b.data, b.bytes, &got), 0);
	assert_memory_equal(&r, &got, sizeof(r));
	assert_int_equal(codec_kind(b.data, b.bytes), WIRE_REPLY);
	assert_int_equal(codec_kind("SYR1", 4), -EPROTO);
	buf_fini(&b);
}

static void knows_a_message_of_a_later_version(void **unused)
{
	uint8_t m[] = {0x08, WIRE_VERSION, 0x10, WIRE_WINDOW};

	(void)unused;
	assert_false(codec_is_newer(m, sizeof(m)));
	m[1] = WIRE_VERSION + 1;
	assert_true(codec_is_newer(m, sizeof(m)));
	assert_int_equal(codec_kind(m, sizeof(m)), -EPROTO);
	assert_false(codec_is_newer(m, sizeof(m) - 1));
	m[3] = 99; /* a kind that only the later version has */
	assert_true(codec_is_newer(m, sizeof(m)));
	m[1] = 0x80; /* a longer number */
	assert_false(codec_is_newer(m, sizeof(m)));
	m[1] = WIRE_VERSION + 1;
	m[2] = 0x11;
	assert_false(codec_is_newer(m, sizeof(m)));
}

static void refuses_records_of_another_version_or_too_many(void **unused)
{
	struct record r[2] = {{.kind = 1}, {.kind = 33}}, *got;
	uint32_t count;
	struct buf b;

	buf_init(&b, 65536);
	assert_int_equal(wire_records_encode(r, 2, &b), 0);
	b.data[3]++;
	assert_int_equal(wire_records_decode(b.data, b.bytes, &got, &count), -EPROTO);
	b.data[3]--;
	b.data[4] = 3;
	assert_int_equal(wire_records_decode(b.data, b.bytes, &got, &count), -EPROTO);
	assert_int_equal(wire_records_decode(b.data, 4, &got, &count), -EPROTO);
	buf_fini(&b);
}

/* The message as a peer would send it who saves the padding. */
static void without_padding(const struct buf *from, struct buf *to)
{
	Sysom__Wire__Envelope *e = sysom__wire__envelope__unpack(NULL, from->bytes, from->data);

	assert_non_null(e);
	assert_true(e->window->padding.len > 0);
	free(e->window->padding.data);
	e->window->padding = (ProtobufCBinaryData){0, NULL};
	buf_clear(to);
	to->bytes = sysom__wire__envelope__get_packed_size(e);
	assert_non_null(buf_reserve(to, to->bytes));
	sysom__wire__envelope__pack(e, to->data);
	sysom__wire__envelope__free_unpacked(e, NULL);
}

static void a_window_is_as_long_as_the_work_it_makes(void **unused)
{
	uint32_t n = 200000;
	struct window w = small_window(), back;
	struct buf b, bare;

	(void)unused;
	w.host = calloc(n, sizeof(*w.host));
	assert_non_null(w.host);
	w.host_count = n;
	for (uint32_t i = 0; i < n; i++)
		w.host[i].kind = RECORD_LAUNCH;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&bare, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, &b), 0);
	assert_true(b.bytes * LIMIT_WIRE_WORK_PER_BYTE + LIMIT_WIRE_WORK_BYTES >=
		    n * sizeof(*w.host));
	assert_int_equal(wire_window_decode_admitted(b.data, b.bytes, true, &back), 0);
	assert_int_equal(back.host_count, n);
	wire_window_free(&back);
	without_padding(&b, &bare);
	assert_true(bare.bytes < 4096);
	assert_int_equal(wire_window_decode_admitted(bare.data, bare.bytes, true, &back),
			 -EMSGSIZE);
	/* what is in the store and in files is taken as it is */
	assert_int_equal(wire_window_decode(bare.data, bare.bytes, &back), 0);
	wire_window_free(&back);
	buf_fini(&bare);
	buf_fini(&b);
	free(w.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_window_is_as_long_as_the_work_it_makes),
	    cmocka_unit_test(round_trips_any_window),
	    cmocka_unit_test(round_trips_any_records),
	    cmocka_unit_test(stores_a_kernel_stream_in_three_bytes_per_event),
	    cmocka_unit_test(divides_out_the_unit_of_coarse_clocks),
	    cmocka_unit_test(refuses_to_encode_what_the_reader_would_reject),
	    cmocka_unit_test(refuses_a_window_above_the_message_limit),
	    cmocka_unit_test(cleans_texts_that_are_not_utf8),
	    cmocka_unit_test(rejects_counts_that_its_columns_do_not_hold),
	    cmocka_unit_test(survives_every_single_cut_and_any_flip),
	    cmocka_unit_test(round_trips_a_full_beat_within_its_limit),
	    cmocka_unit_test(bounds_the_memory_of_a_beat_of_empty_ranks),
	    cmocka_unit_test(a_jobs_user_is_the_one_that_its_node_vouches_for),
	    cmocka_unit_test(a_key_keeps_its_uid_however_long_the_name),
	    cmocka_unit_test(a_claimed_name_never_stands_for_another_users_key),
	    cmocka_unit_test(a_series_stands_for_its_runs),
	    cmocka_unit_test(round_trips_replies_with_commands),
	    cmocka_unit_test(knows_a_message_of_a_later_version),
	    cmocka_unit_test(refuses_records_of_another_version_or_too_many),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

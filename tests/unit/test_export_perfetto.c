/* SPDX-License-Identifier: Apache-2.0
 * With --write-windows DIR it writes the made-up windows, encoded, for tests/e2e/cli_trace.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/perfetto.pb-c.h"
#include "cli/trace/export.h"
#include "cli/trace/trace_label.h"
#include "tests/unit/cli_windows.h"
#include "tests/unit/skip.h"
#include "wire/codec.h"

#include <jansson.h>
#include <math.h>

typedef Perfetto__Protos__TracePacket packet_t;
typedef Perfetto__Protos__TrackEvent event_t;

struct fixture {
	struct trace_model m;
	Perfetto__Protos__Trace *trace;
	uint64_t slices, left_out;
	char *text;
	size_t bytes;
};

static int load(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(trace_model_init(&f->m), 0);
	for (int i = 0; i < CLI_WINDOWS; i++)
		assert_int_equal(trace_model_add(&f->m, &c->w[i]), 0);
	trace_model_finish(&f->m);
	*state = f;
	return 0;
}

static int setup(void **state)
{
	struct fixture *f;
	FILE *to;

	load(state);
	f = *state;
	to = open_memstream(&f->text, &f->bytes);
	assert_int_equal(export_perfetto_write(&f->m, to, &f->slices, &f->left_out), 0);
	fclose(to);
	f->trace = perfetto__protos__trace__unpack(NULL, f->bytes, (uint8_t *)f->text);
	assert_non_null(f->trace);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->trace)
		perfetto__protos__trace__free_unpacked(f->trace, NULL);
	trace_model_fini(&f->m);
	free(f->text);
	free(f);
	return 0;
}

static void merges_windows_of_a_rank_without_duplicates(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->m.rank_count, 2);
	assert_int_equal(f->m.ranks[0].who.rank, 0);
	assert_int_equal(f->m.ranks[1].window_count, 2);
	/* 6 + 6 steps of which 2 are the same */
	assert_int_equal(f->m.ranks[1].step_count, 10);
	assert_int_equal(f->m.ranks[1].device_count, 10 * 7);
	assert_int_equal(f->m.ranks[0].device_count, 6 * 7);
	assert_int_equal(f->m.ranks[1].host_count, 10 * 10);
}

static void counts_records_with_impossible_times(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct trace_model m;

	assert_int_equal(trace_model_init(&m), 0);
	c->w[0].device[0].begin_ns = UINT64_MAX;
	c->w[0].device[1].begin_ns = 0;
	c->w[0].device[2].name = 4000000000u;
	c->w[0].steps[0].step.begin_ns = c->w[0].steps[0].step.end_ns + 1;
	assert_int_equal(trace_model_add(&m, &c->w[0]), 0);
	trace_model_finish(&m);
	assert_int_equal(m.left_out, 3);
	assert_int_equal(m.ranks[0].device_count, CLI_WINDOWS_STEPS * 7 - 2);
	trace_model_fini(&m);
}

static void starts_with_clocks_and_cleared_state(void **state)
{
	struct fixture *f = *state;
	packet_t *p = f->trace->packet[0];

	assert_non_null(p->clock_snapshot);
	assert_int_equal(p->clock_snapshot->primary_trace_clock, 1);
	assert_int_equal(p->sequence_flags, 1);
	assert_int_equal(p->trace_packet_defaults->timestamp_clock_id, 1);
	assert_true(p->first_packet_on_sequence);
	for (size_t i = 0; i < f->trace->n_packet; i++) {
		assert_true(f->trace->packet[i]->has_trusted_packet_sequence_id);
		assert_int_equal(f->trace->packet[i]->trusted_packet_sequence_id, 1);
		if (f->trace->packet[i]->track_event)
			assert_int_equal(f->trace->packet[i]->sequence_flags, 2);
	}
}

/* What a trace processor does: a stable sort by time over the file, then a stack per track. */
struct open_track {
	uint64_t uuid;
	unsigned depth, slices;
	bool described;
};

static struct open_track *track(struct open_track *t, size_t *n, uint64_t uuid)
{
	for (size_t i = 0; i < *n; i++)
		if (t[i].uuid == uuid)
			return &t[i];
	assert_true(*n < 256);
	t[*n] = (struct open_track){.uuid = uuid};
	return &t[(*n)++];
}

struct timed {
	uint64_t t;
	size_t at;
	event_t *e;
};

static int by_time(const void *x, const void *y)
{
	const struct timed *a = x, *b = y;

	if (a->t != b->t)
		return a->t < b->t ? -1 : 1;
	return a->at < b->at ? -1 : 1;
}

static void every_slice_ends_and_nests_on_a_described_track(void **state)
{
	struct fixture *f = *state;
	struct timed *events = calloc(f->trace->n_packet, sizeof(*events));
	static struct open_track tracks[256];
	size_t n = 0, track_count = 0, processes = 0, threads = 0;
	uint64_t begins = 0;

	for (size_t i = 0; i < f->trace->n_packet; i++) {
		packet_t *p = f->trace->packet[i];

		if (p->track_descriptor) {
			struct open_track *t =
			    track(tracks, &track_count, p->track_descriptor->uuid);

			assert_false(t->described);
			t->described = true;
			processes += p->track_descriptor->process != NULL;
			threads += p->track_descriptor->thread != NULL;
			if (p->track_descriptor->has_parent_uuid)
				assert_true(
				    track(tracks, &track_count, p->track_descriptor->parent_uuid)
					->described);
		}
		if (!p->track_event)
			continue;
		/* a descriptor comes before the events of its track */
		assert_true(track(tracks, &track_count, p->track_event->track_uuid)->described);
		events[n] = (struct timed){p->timestamp, i, p->track_event};
		n++;
	}
	qsort(events, n, sizeof(*events), by_time);
	for (size_t i = 0; i < n; i++) {
		struct open_track *t = track(tracks, &track_count, events[i].e->track_uuid);

		if (events[i].e->type == PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN) {
			t->depth++;
			begins++;
		} else {
			assert_true(t->depth > 0);
			t->depth--;
		}
	}
	for (size_t i = 0; i < track_count; i++)
		assert_int_equal(tracks[i].depth, 0);
	assert_int_equal(begins, f->slices);
	assert_int_equal(processes, 2);
	assert_int_equal(threads, 2);
	assert_int_equal(f->left_out, 0);
	free(events);
}

static const char *name_of(const Perfetto__Protos__Trace *t, uint64_t iid)
{
	for (size_t i = 0; i < t->n_packet; i++) {
		Perfetto__Protos__InternedData *d = t->packet[i]->interned_data;

		for (size_t k = 0; d && k < d->n_event_names; k++)
			if (d->event_names[k]->iid == iid)
				return d->event_names[k]->name;
	}
	return NULL;
}

static void interns_every_name_once_before_its_use(void **state)
{
	struct fixture *f = *state;
	static uint8_t names[4096], keys[256], categories[256];

	for (size_t i = 0; i < f->trace->n_packet; i++) {
		packet_t *p = f->trace->packet[i];
		Perfetto__Protos__InternedData *d = p->interned_data;
		event_t *e = p->track_event;

		for (size_t k = 0; d && k < d->n_event_names; k++)
			assert_int_equal(names[d->event_names[k]->iid]++, 0);
		for (size_t k = 0; d && k < d->n_debug_annotation_names; k++)
			assert_int_equal(keys[d->debug_annotation_names[k]->iid]++, 0);
		for (size_t k = 0; d && k < d->n_event_categories; k++)
			assert_int_equal(categories[d->event_categories[k]->iid]++, 0);
		if (!e || e->type != PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN)
			continue;
		assert_int_equal(names[e->name_iid], 1);
		assert_int_equal(e->n_category_iids, 1);
		assert_int_equal(categories[e->category_iids[0]], 1);
		for (size_t k = 0; k < e->n_debug_annotations; k++)
			assert_int_equal(keys[e->debug_annotations[k]->name_iid], 1);
	}
}

static void joins_launches_with_kernels_and_collectives_across_ranks(void **state)
{
	struct fixture *f = *state;
	size_t launch_flows = 0, kernel_flows = 0, collectives = 0;

	for (size_t i = 0; i < f->trace->n_packet; i++) {
		event_t *e = f->trace->packet[i]->track_event;
		const char *name;

		if (!e || !e->has_name_iid)
			continue;
		name = name_of(f->trace, e->name_iid);
		assert_non_null(name);
		collectives += e->has_correlation_id;
		if (!e->n_flow_ids)
			continue;
		if (strncmp(name, "launch ", 7) == 0 || strcmp(name, "ncclAllReduce") == 0)
			launch_flows++;
		else
			kernel_flows++;
	}
	assert_int_equal(launch_flows, (10 + 6) * 5);
	assert_int_equal(kernel_flows, (10 + 6) * 5);
	assert_int_equal(collectives, (10 + 6) * 2);
	assert_int_equal(trace_model_launch(&f->m.ranks[1], &f->m.ranks[1].device[0]) >= 0, 1);
}

static void steps_carry_expected_and_observed(void **state)
{
	struct fixture *f = *state;
	size_t steps = 0;

	for (size_t i = 0; i < f->trace->n_packet; i++) {
		event_t *e = f->trace->packet[i]->track_event;
		const char *name = e && e->has_name_iid ? name_of(f->trace, e->name_iid) : "";

		if (strncmp(name, "step ", 5))
			continue;
		steps++;
		assert_true(e->n_debug_annotations >= 10);
		assert_true(e->debug_annotations[0]->double_value == 10.0);
		assert_true(e->debug_annotations[1]->double_value == 6.0);
	}
	assert_int_equal(steps, 16);
}

static void kineto_is_json_with_the_usual_fields(void **state)
{
	struct fixture *f = *state;
	size_t kernels = 0, launches = 0, starts = 0, ends = 0, i;
	json_t *j, *e;
	FILE *to;

	to = open_memstream(&f->text, &f->bytes);
	assert_int_equal(export_kineto_write(&f->m, to, &f->slices), 0);
	fclose(to);
	j = json_loadb(f->text, f->bytes, 0, NULL);
	assert_non_null(j);
	json_array_foreach (json_object_get(j, "traceEvents"), i, e) {
		const char *cat = json_string_value(json_object_get(e, "cat"));
		const char *ph = json_string_value(json_object_get(e, "ph"));

		starts += *ph == 's';
		ends += *ph == 'f';
		if (*ph != 'X')
			continue;
		assert_true(json_number_value(json_object_get(e, "ts")) >= 0);
		kernels += strcmp(cat, "kernel") == 0;
		launches += strcmp(cat, "cuda_runtime") == 0;
	}
	assert_int_equal(kernels, 16 * 7);
	assert_int_equal(launches, 16 * 5); /* four launches and a wait */
	assert_int_equal(starts, 16 * 5);
	assert_int_equal(ends, 16 * 5);
	assert_null(json_object_get(j, "distributedInfo"));
	json_decref(j);
}

/* Two windows of rank 1, 5 ms apart, and one that says only what was in it. */
static void kineto_says_where_nothing_was_kept(void **state)
{
	struct fixture *f = *state;
	struct trace_rank *r = &f->m.ranks[1];
	uint64_t base_ns, from_ns = r->windows[0].begin_ns;
	size_t holes = 0, i;
	json_t *j, *e;
	FILE *to;

	assert_true(r->window_count >= 1);
	r->windows = realloc(r->windows, 4 * sizeof(*r->windows));
	assert_non_null(r->windows);
	for (i = 1; i < 4; i++)
		r->windows[i] = r->windows[0];
	r->windows[0].end_ns = from_ns + 10000000;
	r->windows[1].begin_ns = from_ns + 2000000; /* within it */
	r->windows[1].end_ns = from_ns + 9000000;
	r->windows[2].begin_ns = from_ns + 11000000;
	r->windows[2].end_ns = from_ns + 14000000;
	r->windows[2].summary_only = true;
	r->windows[3].begin_ns = from_ns + 15000000;
	r->windows[3].end_ns = from_ns + 40000000;
	r->window_count = r->window_room = 4;
	to = open_memstream(&f->text, &f->bytes);
	assert_int_equal(export_kineto_write(&f->m, to, &f->slices), 0);
	fclose(to);
	j = json_loadb(f->text, f->bytes, 0, NULL);
	assert_non_null(j);
	base_ns = (uint64_t)json_integer_value(json_object_get(j, "baseTimeNanoseconds"));
	json_array_foreach (json_object_get(j, "traceEvents"), i, e) {
		const char *cat = json_string_value(json_object_get(e, "cat"));
		double ts_us = json_number_value(json_object_get(e, "ts"));

		if (!cat || strcmp(cat, TRACE_LABEL_HOLE_CATEGORY))
			continue;
		holes++;
		assert_true(fabs(ts_us - (double)(from_ns + 10000000 - base_ns) / 1e3) < 0.01);
		assert_true(fabs(json_number_value(json_object_get(e, "dur")) - 5000) < 0.01);
	}
	assert_int_equal(holes, 1);
	/* the same for every file of the same days */
	assert_int_equal(base_ns % (90ull * 86400 * 1000000000), 0);
	assert_true(from_ns - base_ns < 90ull * 86400 * 1000000000);
	json_decref(j);
}

static void writes_an_empty_model(void **state)
{
	uint64_t slices = 1, left_out = 1;
	struct trace_model m;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	assert_int_equal(trace_model_init(&m), 0);
	trace_model_finish(&m);
	to = open_memstream(&text, &bytes);
	assert_int_equal(export_perfetto_write(&m, to, &slices, &left_out), 0);
	assert_int_equal(export_kineto_write(&m, to, &slices), 0);
	fclose(to);
	assert_int_equal(slices, 0);
	free(text);
	trace_model_fini(&m);
}

static void reports_a_file_that_is_full(void **state)
{
	struct fixture *f = *state;
	FILE *to = fopen("/dev/full", "w");

	if (!to)
		skip_needs("file:/dev/full");
	setvbuf(to, NULL, _IONBF, 0);
	assert_true(export_perfetto_write(&f->m, to, &f->slices, &f->left_out) < 0);
	fclose(to);
}

static int write_windows(const char *dir)
{
	struct cli_windows *c = cli_windows_make();

	for (int i = 0; i < CLI_WINDOWS; i++) {
		char path[4096];
		struct buf b;
		FILE *to;
		int n;

		n = snprintf(path, sizeof(path) - 40, "%s/", dir);
		for (int k = 0; k < 16; k++)
			n += sprintf(path + n, "%02x", c->w[i].id[k]);
		buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
		to = fopen(path, "w");
		if (!to || wire_window_encode(&c->w[i], &b) ||
		    fwrite(b.data, 1, b.bytes, to) != b.bytes || fclose(to))
			return 1;
		buf_fini(&b);
	}
	return 0;
}

/* A window of a process without steps. */
static void add_process(struct trace_model *m, uint32_t pid, int32_t rank, struct record *host,
			uint32_t count)
{
	static char *names[] = {(char *)"", (char *)"LLMEngine::Request",
				(char *)"EngineCore::Schedule", (char *)"ModelRunner::Step"};
	struct window w = {.begin_ns = 1000,
			   .end_ns = 9000,
			   .rank = {.job = "serve@0",
				    .node = "n",
				    .program = "serve.py",
				    .rank = rank,
				    .pid = pid},
			   .host = host,
			   .host_count = count,
			   .names = names,
			   .name_count = 4};

	assert_int_equal(trace_model_add(m, &w), 0);
}

#define SPAN(n, b, e, id, process)                                                                 \
	{                                                                                          \
		.kind = RECORD_SPAN, .flags = RECORD_FLAG_PYTHON, .name = n, .thread = 1,          \
		.begin_ns = b, .end_ns = e, .key = id, .func = process                             \
	}
#define PART(n, b, id, tokens)                                                                     \
	{                                                                                          \
		.kind = RECORD_SPAN_REQUEST, .flags = RECORD_FLAG_PYTHON, .name = n, .thread = 1,  \
		.begin_ns = b, .end_ns = b, .key = id, .bytes = tokens                             \
	}

static void a_request_is_one_track_over_all_processes(void **state)
{
	struct record api[] = {SPAN(1, 1000, 2000, 0xabc, 1)};
	struct record engine[] = {SPAN(2, 3000, 3500, 0, 2), PART(2, 3000, 0xabc, 512),
				  PART(2, 3000, 0xdef, 7), PART(2, 4000, 0xabc, 1)};
	struct record worker[] = {SPAN(3, 3600, 4600, 0, 3), PART(3, 3600, 0xabc, 512)};
	uint64_t track = 0, parent = 0, slices, left_out;
	Perfetto__Protos__Trace *t;
	unsigned tracks = 0, begins = 0, processes = 0;
	struct trace_model m;
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_int_equal(trace_model_init(&m), 0);
	add_process(&m, 10, -1, api, 1);
	add_process(&m, 11, -1, engine, 4);
	add_process(&m, 12, 0, worker, 2);
	add_process(&m, 13, 1, worker, 2); /* does the same as rank 0 */
	trace_model_finish(&m);
	assert_int_equal(export_perfetto_write(&m, to, &slices, &left_out), 0);
	fclose(to);
	t = perfetto__protos__trace__unpack(NULL, bytes, (uint8_t *)text);
	assert_non_null(t);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Perfetto__Protos__TrackDescriptor *d = t->packet[i]->track_descriptor;
		const event_t *e = t->packet[i]->track_event;

		if (d && d->process) { /* the API and the engine have no rank */
			assert_string_equal(d->process->process_name,
					    d->process->pid < 12    ? "serve.py on n"
					    : d->process->pid == 12 ? "rank 0 serve.py on n"
								    : "rank 1 serve.py on n");
			processes++;
		}
		if (d && d->name && !strcmp(d->name, "requests"))
			parent = d->uuid;
		if (d && d->name && !strncmp(d->name, "request ", 8)) {
			assert_true(parent && d->parent_uuid == parent);
			tracks++;
			if (!strcmp(d->name, "request 0000000000000abc"))
				track = d->uuid;
		}
		begins += e && track && e->track_uuid == track &&
			  e->type == PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	}
	assert_int_equal(processes, 4);
	assert_int_equal(tracks, 2);
	/* the part of 4000 has no span; the worker of rank 1 is left out */
	assert_int_equal(begins, 3);
	perfetto__protos__trace__free_unpacked(t, NULL);
	trace_model_fini(&m);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_request_is_one_track_over_all_processes),
	    cmocka_unit_test_setup_teardown(merges_windows_of_a_rank_without_duplicates, load,
					    teardown),
	    cmocka_unit_test(counts_records_with_impossible_times),
	    cmocka_unit_test_setup_teardown(starts_with_clocks_and_cleared_state, setup, teardown),
	    cmocka_unit_test_setup_teardown(every_slice_ends_and_nests_on_a_described_track, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(interns_every_name_once_before_its_use, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(
		joins_launches_with_kernels_and_collectives_across_ranks, setup, teardown),
	    cmocka_unit_test_setup_teardown(steps_carry_expected_and_observed, setup, teardown),
	    cmocka_unit_test_setup_teardown(kineto_is_json_with_the_usual_fields, load, teardown),
	    cmocka_unit_test_setup_teardown(kineto_says_where_nothing_was_kept, load, teardown),
	    cmocka_unit_test(writes_an_empty_model),
	    cmocka_unit_test_setup_teardown(reports_a_file_that_is_full, load, teardown),
	};

	if (argc == 3 && strcmp(argv[1], "--write-windows") == 0)
		return write_windows(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * A window from a hostile node, through the decoder into every export: each slice that begins also
 * ends, the JSON parses. */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/perfetto.pb-c.h"
#include "cli/report/report.h"
#include "cli/report/show_plots.h"
#include "cli/trace/export.h"
#include "tests/fuzz/fuzz_budget.h"
#include "wire/codec.h"

static void check_perfetto(const char *text, size_t bytes)
{
	Perfetto__Protos__Trace *t =
	    perfetto__protos__trace__unpack(NULL, bytes, (const uint8_t *)text);
	int64_t open = 0;

	if (!t)
		abort();
	for (size_t i = 0; i < t->n_packet; i++)
		if (t->packet[i]->track_event)
			open += t->packet[i]->track_event->type ==
					PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN
				    ? 1
				    : -1;
	if (open)
		abort();
	perfetto__protos__trace__free_unpacked(t, NULL);
}

static void export(struct trace_model *m)
{
	uint64_t slices, left_out;
	char *text = NULL;
	size_t bytes = 0;
	json_t *j;
	FILE *to = open_memstream(&text, &bytes);

	if (export_perfetto_write(m, to, &slices, &left_out))
		abort();
	fclose(to);
	fuzz_budget_check_begin();
	check_perfetto(text, bytes);
	fuzz_budget_check_end();
	free(text);
	to = open_memstream(&text, &bytes);
	export_kineto_write(m, to, &slices);
	fclose(to);
	fuzz_budget_check_begin();
	j = json_loadb(text, bytes, 0, NULL);
	if (!j)
		abort();
	json_decref(j);
	fuzz_budget_check_end();
	free(text);
	to = open_memstream(&text, &bytes);
	j = json_pack("{s:[i]}", "ranks", m->rank_count ? m->ranks[0].who.rank : 0);
	report_html_write(to, j, m);
	show_plots_print(to, j, m, 80);
	fclose(to);
	for (const char *at = text, *frame; at; at = frame ? strchr(frame + 8, '"') : NULL) {
		/* a frame's page is an attribute, in which names are data */
		size_t left = bytes - (size_t)(at - text);

		frame = memmem(at, left, "srcdoc=\"", 8);
		if (memmem(at, frame ? (size_t)(frame - at) : left, "<img", 4))
			abort();
	}
	json_decref(j);
	free(text);
}

/* Twice: as itself, and as a peer on another node with another clock, so that there is something to
 * compare. */
static void add_and_export(const struct window *w)
{
	struct window peer = *w;
	struct trace_model m;

	if (trace_model_init(&m))
		return;
	peer.rank.rank = w->rank.rank < INT32_MAX ? w->rank.rank + 1 : 0;
	peer.rank.pid ^= 1;
	peer.rank.node[0] = 'x';
	peer.rank.node[1] = '\0';
	peer.realtime_offset_ns = (int64_t)((uint64_t)w->realtime_offset_ns ^ (1ull << 40));
	if (!trace_model_add(&m, w) && !trace_model_add(&m, &peer)) {
		trace_model_finish(&m);
		if (trace_align_apply(&m))
			abort();
		export(&m);
	}
	trace_model_fini(&m);
}

/* The bytes as records and steps: past the compression, which a fuzzer seldom gets through. */
static void from_raw(const uint8_t *data, size_t bytes)
{
	static struct window_step steps[8];
	static struct record records[64], host[64], device[64];
	static char *names[] = {(char *)"", (char *)"a\"b", (char *)"\xff\x01"};
	struct window w;

	memset(&w, 0, sizeof(w));
	memset(steps, 0, sizeof(steps));
	memcpy(steps, data, bytes < sizeof(steps) ? bytes : sizeof(steps));
	w.steps = steps;
	w.step_count = 2;
	w.names = names;
	w.name_count = 3;
	if (bytes > 2 * sizeof(steps[0])) {
		uint32_t n;

		data += 2 * sizeof(steps[0]);
		bytes -= 2 * sizeof(steps[0]);
		bytes = bytes < sizeof(records) ? bytes : sizeof(records);
		memcpy(records, data, bytes);
		n = (uint32_t)(bytes / sizeof(records[0]));
		w.host = host;
		w.device = device;
		for (uint32_t i = 0; i < n; i++) /* the decoder refuses a kind on the other side */
			if (RECORD_IS_DEVICE(records[i].kind))
				device[w.device_count++] = records[i];
			else
				host[w.host_count++] = records[i];
	}
	add_and_export(&w);
}

/* A window unpacks to 1 MiB and 256 bytes for each of its own, in records of 96. Each is there twice and
 * stands in three texts, which take 4 KiB as they grow, and 3 us. */
#define WINDOW_BYTES	 (1u << 20)
#define PER_BYTE	 256u
#define ALLOCATED(bytes) ((bytes) / 96 * 4096)
#define CPU_NS(bytes)	 ((bytes) / 96 * 3000)
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 0,
    .allocated = ALLOCATED(WINDOW_BYTES) + (4u << 20),
    .allocated_per_byte = ALLOCATED(PER_BYTE) + 4096,
    .cpu_us = CPU_NS(WINDOW_BYTES) / 1000,
    .cpu_ns_per_byte = CPU_NS(PER_BYTE) + 3000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct window w;

	if (bytes && data[0] == 0xff) { /* no message of ours begins so */
		from_raw(data + 1, bytes - 1);
		return 0;
	}
	memset(&w, 0, sizeof(w));
	if (wire_window_decode(data, bytes, &w))
		return 0;
	add_and_export(&w);
	wire_window_free(&w);
	return 0;
}

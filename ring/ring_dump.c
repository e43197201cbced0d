/* SPDX-License-Identifier: Apache-2.0
 * ring_dump.c - sysom-ring: prints a ring offline, from a file or from /proc/PID/fd/N of a process
 * that is running or stopped. It reads a copy and changes nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/exit_status.h"
#include "base/text/json_text.h"
#include "base/text/text.h"
#include "ring/ring_reader.h"

#define DUMP_BATCH 256

struct options {
	bool json, events;
	int64_t lane;	/* -1: all */
	uint64_t limit; /* newest events per lane; 0: all */
};

/* ---- the fields of each event ---- */

enum field_type { U8, U16, U32, U64, I16, I32, F32, F64, HEX, NAME };

struct field {
	const char *name;
	uint16_t offset;
	uint8_t type, count;
};

#define F(kind, field_, type_)                                                                     \
	{                                                                                          \
		.name = #field_, .offset = offsetof(struct event_##kind, field_), .type = (type_), \
		.count = 1                                                                         \
	}
#define F_ARRAY(kind, field_, type_)                                                               \
	{                                                                                          \
		.name = #field_, .offset = offsetof(struct event_##kind, field_), .type = (type_), \
		.count = sizeof(((struct event_##kind *)0)->field_) /                              \
			 sizeof(((struct event_##kind *)0)->field_[0])                             \
	}
#define F_END                                                                                      \
	{                                                                                          \
		.name = NULL                                                                       \
	}

static const struct field launch_fields[] = {
    F(launch, func, HEX),	F(launch, stream, HEX),
    F_ARRAY(launch, grid, U32), F_ARRAY(launch, block, U16),
    F(launch, api, U16),	F(launch, duration, U32),
    F(launch, number, U32),	F_END};
static const struct field coll_fields[] = {F(coll, func, U8),	   F(coll, dtype, U8),
					   F(coll, comm, HEX),	   F(coll, stream, HEX),
					   F(coll, count, U64),	   F(coll, capture, U64),
					   F(coll, seq, U32),	   F(coll, peer, I16),
					   F(coll, duration, U32), F_END};
static const struct field comm_fields[] = {
    F(comm, action, U16), F(comm, comm, HEX),	  F(comm, id, HEX),
    F(comm, parent, HEX), F(comm, nranks, I32),	  F(comm, rank, I32),
    F(comm, color, U16),  F(comm, duration, U32), F_END};
static const struct field mem_fields[] = {F(mem, bytes, U64),	 F(mem, address, HEX),
					  F(mem, api, U16),	 F(mem, result, U16),
					  F(mem, duration, U32), F_END};
static const struct field sync_fields[] = {F(sync, handle, HEX), F(sync, api, U16),
					   F(sync, scope, U16), F(sync, duration, U32), F_END};
static const struct field step_fields[] = {F(step, index, U32), F(step, work_count, U32),
					   F_ARRAY(step, work, F64), F(step, phase, NAME), F_END};
static const struct field span_fields[] = {
    F(span, name, NAME),      F(span, span, U64),   F(span, domain, HEX),
    F(span, source, U8),      F(span, process, U8), F(span, thread, U8),
    F_ARRAY(span, work, F32), F(span, depth, U32),  F_END};
static const struct field span_request_fields[] = {
    F(span_request, name, NAME), F_ARRAY(span_request, request, HEX),
    F_ARRAY(span_request, tokens, U32), F(span_request, done, U8), F_END};
static const struct field stream_fields[] = {F(stream, stream, HEX),	F(stream, context, HEX),
					     F(stream, stream_id, U32), F(stream, context_id, U32),
					     F(stream, device, U32),	F_END};
static const struct field gap_fields[] = {F(gap, cause, U16), F(gap, to, U64), F(gap, detail, I32),
					  F(gap, name, NAME), F_END};
static const struct field plugin_fields[] = {
    F(plugin, type, U16),    F(plugin, comm_hash, HEX), F(plugin, handle, HEX),
    F(plugin, parent, HEX),  F(plugin, value, U64),	F(plugin, seq, U32),
    F(plugin, channel, I16), F(plugin, peer, I32),	F_END};
static const struct field transfer_fields[] = {F(transfer, comm_hash, HEX),
					       F(transfer, func, U8),
					       F(transfer, seq, U32),
					       F(transfer, rank, U16),
					       F(transfer, peer, I32),
					       F(transfer, channel, U8),
					       F(transfer, transfers, U32),
					       F(transfer, bytes, U64),
					       F(transfer, wait, U64),
					       F(transfer, duration, U32),
					       F_END};
static const struct field anchor_fields[] = {F(anchor, ticks, U64), F(anchor, monotonic_ns, U64),
					     F(anchor, realtime_ns, U64), F_END};
static const struct field graph_fields[] = {F(graph, action, U16),
					    F(graph, graph, HEX),
					    F(graph, exec, HEX),
					    F(graph, capture, U64),
					    F(graph, stream, HEX),
					    F(graph, nodes, U32),
					    F_END};
static const struct field kernel_fields[] = {F(kernel, end, U64),
					     F(kernel, name, NAME),
					     F(kernel, correlation, U32),
					     F(kernel, device, U32),
					     F(kernel, context_id, U32),
					     F(kernel, stream_id, U32),
					     F_ARRAY(kernel, grid, U32),
					     F_ARRAY(kernel, block, U16),
					     F(kernel, registers, U16),
					     F(kernel, shared_static_bytes, U32),
					     F(kernel, shared_dynamic_bytes, U32),
					     F(kernel, graph_id, U32),
					     F(kernel, graph_node_id, U64),
					     F(kernel, exported, U64),
					     F(kernel, number, U32),
					     F_END};
static const struct field copy_fields[] = {F(copy, end, U64),
					   F(copy, bytes, U64),
					   F(copy, correlation, U32),
					   F(copy, device, U32),
					   F(copy, context_id, U32),
					   F(copy, stream_id, U32),
					   F(copy, copy_kind, U8),
					   F(copy, src_kind, U8),
					   F(copy, dst_kind, U8),
					   F(copy, graph_id, U32),
					   F(copy, graph_node_id, U64),
					   F(copy, exported, U64),
					   F_END};

static const struct kind {
	uint16_t kind;
	const char *name;
	const struct field *fields;
} kinds[] = {
    {EVENT_LAUNCH, "launch", launch_fields},
    {EVENT_GRAPH_LAUNCH, "graph_launch", launch_fields},
    {EVENT_COLL, "coll", coll_fields},
    {EVENT_COMM, "comm", comm_fields},
    {EVENT_MEM, "mem", mem_fields},
    {EVENT_SYNC, "sync", sync_fields},
    {EVENT_STEP_BEGIN, "step_begin", step_fields},
    {EVENT_STEP_END, "step_end", step_fields},
    {EVENT_SPAN_BEGIN, "span_begin", span_fields},
    {EVENT_SPAN_END, "span_end", span_fields},
    {EVENT_SPAN_REQUEST, "span_request", span_request_fields},
    {EVENT_STREAM, "stream", stream_fields},
    {EVENT_CONTEXT, "context", stream_fields},
    {EVENT_GAP, "gap", gap_fields},
    {EVENT_PLUGIN, "plugin", plugin_fields},
    {EVENT_TRANSFER, "transfer", transfer_fields},
    {EVENT_ANCHOR, "anchor", anchor_fields},
    {EVENT_GRAPH_NODE, "graph_node", coll_fields},
    {EVENT_GRAPH, "graph", graph_fields},
    {EVENT_KERNEL, "kernel", kernel_fields},
    {EVENT_COPY, "copy", copy_fields},
    {EVENT_GRAPH_EXEC, "graph_exec", kernel_fields},
};

static const struct kind *find_kind(uint16_t kind)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].kind == kind)
			return &kinds[i];
	abort(); /* the reader passes only the kinds of ring_format.h */
}

static size_t type_bytes(uint8_t type)
{
	static const size_t bytes[] = {[U8] = 1,  [U16] = 2, [U32] = 4, [U64] = 8, [I16] = 2,
				       [I32] = 4, [F32] = 4, [F64] = 8, [HEX] = 8, [NAME] = 4};

	return bytes[type];
}

/* ---- printing ---- */

static double float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return (double)f;
}

/* Many readers lose digits of JSON numbers above 2^53, so handles are strings. */
static void print_value(const struct ring_reader *r, const uint8_t *at, uint8_t type, bool json)
{
	uint64_t v = 0;
	double d;

	memcpy(&v, at, type_bytes(type)); /* only for little-endian machines, like the format */
	switch (type) {
	case I16:
		printf("%d", (int16_t)v);
		break;
	case I32:
		printf("%d", (int32_t)v);
		break;
	case F32:
	case F64:
		d = type == F32 ? float_of((uint32_t)v) : 0;
		if (type == F64)
			memcpy(&d, &v, 8);
		if (json && (d != d || d - d != 0))
			printf("null");
		else
			printf("%.17g", d);
		break;
	case HEX:
		printf(json ? "\"0x%" PRIx64 "\"" : "0x%" PRIx64, v);
		break;
	case NAME:
		json_text_print(stdout, "", ring_reader_name(r, (uint32_t)v));
		break;
	default:
		printf("%" PRIu64, v);
	}
}

static void print_field(const struct ring_reader *r, const union ring_event *e,
			const struct field *f, bool json)
{
	printf(json ? ",\"%s\":" : " %s=", f->name);
	if (json && f->count > 1)
		putchar('[');
	for (size_t i = 0; i < f->count; i++) {
		if (i)
			putchar(',');
		print_value(r, e->bytes + f->offset + i * type_bytes(f->type), f->type, json);
	}
	if (json && f->count > 1)
		putchar(']');
}

static void print_event(const struct ring_reader *r, const union ring_event *e,
			const struct ring_lane_view *view, bool json, bool first)
{
	const struct kind *k = find_kind(e->head.kind);

	if (json)
		printf("%s{\"lane\":%u,\"tid\":%u,\"seq\":%u,\"kind\":\"%s\",\"flags\":%u,"
		       "\"t\":%" PRIu64,
		       first ? "\n" : ",\n", view->lane, view->tid, e->head.seq_begin, k->name,
		       e->head.flags, e->head.t);
	else
		printf("%3u %7u %10u %20" PRIu64 " %-12s flags=0x%x", view->lane, view->tid,
		       e->head.seq_begin, e->head.t, k->name, e->head.flags);
	for (const struct field *f = k->fields; f->name; f++)
		print_field(r, e, f, json);
	printf(json ? "}" : "\n");
}

static const char *clock_name(uint32_t source)
{
	switch (source) {
	case CLOCK_SOURCE_MONOTONIC:
		return "monotonic";
	case CLOCK_SOURCE_REALTIME:
		return "realtime";
	case CLOCK_SOURCE_TSC:
		return "tsc";
	}
	return "unknown";
}

static const char *const drop_names[] = {
#define X(name, text, events) text,
    RING_DROP_CAUSES (X)
#undef X
};

static const char *trace_name(uint32_t state)
{
	static const char *const names[] = {"off", "on", "latched"};

	return state < ARRAY_LEN(names) ? names[state] : "unknown";
}

static const char *cupti_name(uint32_t state)
{
	static const char *const names[] = {"none", "v2", "legacy", "yielded", "refused", "idle"};

	return state < ARRAY_LEN(names) ? names[state] : "unknown";
}

static void print_head_text(const struct ring_reader *r)
{
	const struct ring_header *h = ring_reader_header(r);
	struct ring_counters c;

	ring_reader_counters(r, &c);
	printf("ring version=%u bytes=%" PRIu64 " pid=%u start_time_ticks=%" PRIu64
	       " clock=%s lanes=%u\n",
	       h->version, h->total_bytes, h->pid, h->start_time_ticks, clock_name(h->clock_source),
	       h->lane_count);
	printf("anchor ticks=%" PRIu64 " monotonic_ns=%" PRIu64 " realtime_ns=%" PRIu64 "\n",
	       h->anchor_ticks, h->anchor_monotonic_ns, h->anchor_realtime_ns);
	printf("state trace=%s cupti=%s cupti_gaps=%" PRIu64 " heartbeat_ns=%" PRIu64
	       " events=%" PRIu64 " bytes_written=%" PRIu64 "\n",
	       trace_name(c.trace_state), cupti_name(c.cupti_state), c.cupti_gap_count,
	       c.heartbeat_ns, c.events, c.bytes_written);
	printf("drops");
	for (size_t i = 0; i < RING_DROP_COUNT; i++)
		printf(" %s=%" PRIu64, drop_names[i], c.drops[i]);
	printf("\n");
	for (uint32_t i = 1; i <= ring_reader_name_count(r); i++)
		printf("name %u %s\n", i, ring_reader_name(r, i));
}

static void print_head_json(const struct ring_reader *r)
{
	const struct ring_header *h = ring_reader_header(r);
	struct ring_counters c;

	ring_reader_counters(r, &c);
	printf("{\"header\":{\"version\":%u,\"bytes\":%" PRIu64 ",\"pid\":%u,"
	       "\"start_time_ticks\":%" PRIu64 ",\"clock\":\"%s\",\"lanes\":%u,"
	       "\"anchor_ticks\":%" PRIu64 ",\"anchor_monotonic_ns\":%" PRIu64
	       ",\"anchor_realtime_ns\":%" PRIu64 "},\n",
	       h->version, h->total_bytes, h->pid, h->start_time_ticks, clock_name(h->clock_source),
	       h->lane_count, h->anchor_ticks, h->anchor_monotonic_ns, h->anchor_realtime_ns);
	printf("\"state\":{\"trace\":\"%s\",\"cupti\":\"%s\",\"cupti_gaps\":%" PRIu64
	       ",\"heartbeat_ns\":%" PRIu64 ",\"events\":%" PRIu64 ",\"bytes_written\":%" PRIu64
	       "},\n\"drops\":{",
	       trace_name(c.trace_state), cupti_name(c.cupti_state), c.cupti_gap_count,
	       c.heartbeat_ns, c.events, c.bytes_written);
	for (size_t i = 0; i < RING_DROP_COUNT; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", drop_names[i], c.drops[i]);
	printf("},\n\"names\":[");
	for (uint32_t i = 1; i <= ring_reader_name_count(r); i++) {
		printf(i > 1 ? ",\n" : "\n");
		json_text_print(stdout, "", ring_reader_name(r, i));
	}
	printf("],\n\"events\":[");
}

/* ---- the whole ---- */

/* Prints all events of a lane, or the newest ones: earlier events are read but not shown. */
static uint64_t dump_lane(struct ring_reader *r, uint32_t lane, const struct options *o,
			  uint64_t skip, bool print, bool *first)
{
	static union ring_event out[DUMP_BATCH];
	struct ring_lane_view view;
	uint64_t seen = 0;
	size_t n;

	do {
		uint64_t torn =
		    ring_reader_stats(r)->lost_torn + ring_reader_stats(r)->lost_bad_kind;

		n = ring_reader_drain_lane(r, lane, out, DUMP_BATCH, &view);
		for (size_t i = 0; i < n; i++, seen++) {
			if (!print || seen < skip)
				continue;
			print_event(r, &out[i], &view, o->json, *first);
			*first = false;
		}
		if (!n &&
		    torn != ring_reader_stats(r)->lost_torn + ring_reader_stats(r)->lost_bad_kind)
			n = 1; /* a batch may hold only losses: continue after it */
	} while (n);
	return seen;
}

static struct ring_reader *open_or_tell(const char *path)
{
	struct ring_reader *r;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0) {
		fprintf(stderr, "sysom-ring: %s: %s\n", path, strerror(errno));
		return NULL;
	}
	rc = ring_reader_open(&r, fd, -1);
	if (!rc)
		return r;
	fprintf(stderr, "sysom-ring: %s: %s\n", path,
		rc == -EPROTO ? "not a ring of version 1, or cut short" : strerror(-rc));
	close(fd);
	return NULL;
}

/* Counts each lane's events by reading a copy once more. */
static void count_lanes(const char *path, const struct options *o, uint64_t *counts)
{
	struct ring_reader *r = open_or_tell(path);
	bool first = true;

	for (uint32_t i = 0; r && i < ring_reader_lane_count(r); i++)
		counts[i] = dump_lane(r, i, o, 0, false, &first);
	ring_reader_close(r);
}

static int dump(const char *path, const struct options *o)
{
	static uint64_t counts[512];
	const struct ring_stats *s;
	struct ring_reader *r;
	bool first = true, broken;

	if (o->limit)
		count_lanes(path, o, counts);
	r = open_or_tell(path);
	if (!r)
		return EXIT_USAGE;
	while (ring_reader_poll_names(r))
		;
	if (o->json)
		print_head_json(r);
	else
		print_head_text(r);
	for (uint32_t i = 0; i < ring_reader_lane_count(r); i++) {
		uint64_t skip = o->limit && counts[i] > o->limit ? counts[i] - o->limit : 0;

		dump_lane(r, i, o, skip, o->events && (o->lane < 0 || o->lane == i), &first);
	}
	s = ring_reader_stats(r);
	printf(o->json ? "],\n\"read\":{\"events\":%" PRIu64 ",\"overwritten\":%" PRIu64
			 ",\"torn\":%" PRIu64 ",\"bad_kind\":%" PRIu64 ",\"broken\":%s}}\n"
		       : "read events=%" PRIu64 " overwritten=%" PRIu64 " torn=%" PRIu64
			 " bad_kind=%" PRIu64 " broken=%s\n",
	       s->events, s->lost_lapped, s->lost_torn, s->lost_bad_kind,
	       s->detach_reason ? "true" : "false");
	broken = s->detach_reason != 0;
	if (broken)
		fprintf(stderr, "sysom-ring: %s: broken: only a part could be read\n", path);
	ring_reader_close(r);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sysom-ring: standard output: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	return broken ? EXIT_USAGE : EXIT_OK;
}

/* Finds the descriptor of the process that is its ring. 0 or -errno. */
static int find_ring(const char *pid, char *out, size_t out_bytes)
{
	char path[512], target[128];
	struct dirent *entry;
	DIR *d;
	int rc = -ENOENT;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	d = opendir(path);
	if (!d)
		return -errno;
	while ((entry = readdir(d))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = 0;
		if (strncmp(target, "/memfd:sysom-ring", strlen("/memfd:sysom-ring")))
			continue;
		snprintf(out, out_bytes, "%s", path);
		rc = 0;
		break;
	}
	closedir(d);
	return rc;
}

static void usage(FILE *to)
{
	fputs("Usage: sysom-ring [OPTIONS] FILE\n"
	      "       sysom-ring [OPTIONS] --pid PID\n"
	      "Prints the shared-memory ring of a traced process, from a file or /proc/PID/fd/N.\n"
	      "\n"
	      "  --json         one JSON document\n"
	      "  --summary      no events\n"
	      "  --lane N       events of lane N only\n"
	      "  --limit N      the newest N events of each lane\n"
	      "  --pid PID      find the ring among the descriptors of process PID\n"
	      "  --help\n"
	      "\n"
	      "Event lines: lane, thread, sequence, time stamp (clock of the lane), kind, fields.\n"
	      "Exit status: 0; 1 not readable or broken; 2 usage.\n",
	      to);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
	    {"json", no_argument, NULL, 'j'},
	    {"summary", no_argument, NULL, 's'},
	    {"lane", required_argument, NULL, 'l'},
	    {"limit", required_argument, NULL, 'n'},
	    {"pid", required_argument, NULL, 'p'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	struct options o = {.events = true, .lane = -1};
	char path[512];
	const char *pid = NULL;
	uint64_t v = 0;
	int c, rc;

	while ((c = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		bool good = true;

		if (c == 'h') {
			usage(stdout);
			return 0;
		} else if (c == 'j') {
			o.json = true;
		} else if (c == 's') {
			o.events = false;
		} else if (c == 'l') {
			good = text_number(optarg, 510, &v);
			o.lane = (int64_t)v;
		} else if (c == 'n') {
			good = text_number(optarg, UINT64_MAX, &o.limit) && o.limit > 0;
		} else if (c == 'p') {
			good = text_number(optarg, UINT64_MAX, &v);
			pid = optarg;
		} else {
			good = false;
		}
		if (!good) {
			usage(stderr);
			return EXIT_USAGE;
		}
	}
	if (argc - optind != (pid ? 0 : 1)) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!pid)
		return dump(argv[optind], &o);
	rc = find_ring(pid, path, sizeof(path));
	if (rc) {
		fprintf(stderr, "sysom-ring: process %s: %s\n", pid,
			rc == -ENOENT ? "no such process, or it has no ring" : strerror(-rc));
		return EXIT_NOTHING;
	}
	return dump(path, &o);
}

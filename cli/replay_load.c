/* SPDX-License-Identifier: Apache-2.0
 * Rows are kept whole and sorted before records are made of them: real traces are written by
 * several threads' buffers, so neither rows nor launches come in order. */
#include "cli/replay_load.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "cli/trace_reader.h"

enum row_kind {
	ROW_KERNEL, ROW_NCCL, ROW_MEMCPY, ROW_MEMSET, ROW_LAUNCH, ROW_GRAPH, ROW_COPY_CALL, ROW_SYNC,
	ROW_STEP, ROW_OTHER,
};

struct row {
	uint64_t ts, dur, bytes;
	uint32_t corr, name, device, stream;
	uint32_t grid[3];
	uint16_t block[3];
	uint8_t kind;
	bool has_corr;
};

struct loader {
	struct replay_trace *t;
	const char *path;
	struct trace_reader *reader;
	struct row *rows;
	size_t count, room;
	uint64_t line;
};

/* Tells the kernel that a large array will be filled from end to end. */
static void *filled(void *array, size_t bytes)
{
	const uintptr_t page = 2u << 20;
	uintptr_t from = ((uintptr_t)array + page - 1) & ~(page - 1);
	uintptr_t to = ((uintptr_t)array + bytes) & ~(page - 1);

	if (array && to > from)
		madvise((void *)from, to - from, MADV_HUGEPAGE);
	return array;
}

/* ---- names ---- */

static bool names_grow(struct replay_names *n)
{
	uint32_t size = n->slots ? (n->slots_mask + 1) * 2 : 1024;
	uint32_t *slots = calloc(size, sizeof(*slots));
	char **text = realloc(n->text, size / 2 * sizeof(*text));
	uint8_t *optimizer = realloc(n->optimizer, size / 2);

	if (text)
		n->text = text;
	if (optimizer)
		n->optimizer = optimizer;
	if (!slots || !text || !optimizer) {
		free(slots);
		return false;
	}
	if (!n->count) {
		n->text[0] = strdup("");
		if (!n->text[0]) {
			free(slots);
			return false;
		}
		n->optimizer[0] = 0;
		n->count = 1;
	}
	free(n->slots);
	n->slots = slots;
	n->slots_mask = size - 1;
	n->room = size / 2;
	for (uint32_t i = 1; i < n->count; i++) {
		uint64_t h = hash_mix(hash_bytes(HASH_SEED, n->text[i], strlen(n->text[i])));
		uint32_t at = (uint32_t)h & n->slots_mask;

		while (n->slots[at])
			at = (at + 1) & n->slots_mask;
		n->slots[at] = i;
	}
	return true;
}

/* The id of a name; 0 when it is empty, or when there is no room. */
static uint32_t names_id(struct replay_names *n, const char *text, size_t bytes)
{
	uint32_t at;

	bytes = strnlen(text, bytes);
	if (!bytes || n->count >= REPLAY_LOAD_NAMES_MAX)
		return 0;
	if (n->count + 1 >= n->room && !names_grow(n))
		return 0;
	at = (uint32_t)hash_mix(hash_bytes(HASH_SEED, text, bytes)) & n->slots_mask;
	for (; n->slots[at]; at = (at + 1) & n->slots_mask) {
		const char *have = n->text[n->slots[at]];

		if (!strncmp(have, text, bytes) && !have[bytes])
			return n->slots[at];
	}
	n->text[n->count] = strndup(text, bytes);
	if (!n->text[n->count])
		return 0;
	n->optimizer[n->count] = record_is_optimizer(n->text[n->count]);
	n->slots[at] = n->count;
	return n->count++;
}

/* ---- rows ---- */

static int complain(const struct loader *l, const char *what)
{
	fprintf(stderr, "sysom replay events: %s:%llu: %s\n", l->path, (unsigned long long)l->line,
		what);
	return -EBADMSG;
}

static struct row *row_new(struct loader *l)
{
	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 4096;
		struct row *rows = room > REPLAY_LOAD_ROWS_MAX * (size_t)2
					   ? NULL
					   : realloc(l->rows, room * sizeof(*rows));

		if (!rows)
			return NULL;
		l->rows = filled(rows, room * sizeof(*rows));
		l->room = room;
	}
	memset(&l->rows[l->count], 0, sizeof(l->rows[0]));
	return &l->rows[l->count++];
}

static uint8_t api_kind(const char *name)
{
	if (strncmp(name, "cuda", 4) && strncmp(name, "cu", 2) && strncmp(name, "hip", 3))
		return ROW_OTHER;
	if (strstr(name, "LaunchHostFunc"))
		return ROW_OTHER;
	if (strstr(name, "GraphLaunch"))
		return ROW_GRAPH;
	if (strstr(name, "Launch"))
		return ROW_LAUNCH;
	if (strstr(name, "Memcpy") || strstr(name, "Memset"))
		return ROW_COPY_CALL;
	if (strstr(name, "Synchronize"))
		return ROW_SYNC;
	return ROW_OTHER;
}

/* Sets the row's kind and name; false drops it. */
static bool row_classify(struct loader *l, struct row *r, const char *kind, const char *name,
			 size_t name_bytes)
{
	struct replay_trace *t = l->t;

	if (!strcmp(kind, "kernel")) {
		r->kind = record_is_coll_kernel(name) ? ROW_NCCL : ROW_KERNEL;
	} else if (!strcmp(kind, "nccl")) {
		r->kind = ROW_NCCL;
	} else if (!strcmp(kind, "memcpy")) {
		r->kind = ROW_MEMCPY;
	} else if (!strcmp(kind, "memset")) {
		r->kind = ROW_MEMSET;
	} else if (!strcmp(kind, "api")) {
		r->kind = api_kind(name);
		if (r->kind == ROW_OTHER) {
			t->api_other++;
			return false;
		}
	} else if (!strcmp(kind, "step")) {
		r->kind = ROW_STEP;
	} else if (!strcmp(kind, "collop")) {
		t->api_other++;
		return false;
	} else {
		t->unknown_kind++;
		return false;
	}
	r->name = names_id(&t->names, name, name_bytes);
	return true;
}

/* ---- CSV ---- */

enum column { COL_TS, COL_DUR, COL_KIND, COL_DEVICE, COL_STREAM, COL_CORR, COL_BYTES, COL_NAME,
	      COLUMNS };
static const char *const column_names[COLUMNS] = {
	"ts_ns", "dur_ns", "kind", "device", "stream", "corr", "bytes", "name",
};
#define CSV_FIELDS_MAX 64

/* A header row moves the columns; true when the row was one. */
static bool csv_header(const struct trace_field *f, int n, int *where)
{
	bool header = false;

	for (int i = 0; i < n; i++)
		header |= !strcmp(f[i].text, "ts_ns");
	if (!header)
		return false;
	for (int c = 0; c < COLUMNS; c++) {
		where[c] = -1;
		for (int i = 0; i < n; i++)
			if (!strcmp(f[i].text, column_names[c]))
				where[c] = i;
	}
	return true;
}

/* An optional column: absent and empty are 0; false when it is no number. */
static bool csv_optional(const struct trace_field *f, int n, int at, uint64_t *out, bool *given)
{
	*out = 0;
	if (given)
		*given = false;
	if (at < 0 || at >= n || !f[at].bytes)
		return true;
	if (f[at].text[0] == '-') /* -1: not known */
		return true;
	if (given)
		*given = true;
	return trace_reader_u64(&f[at], out);
}

static int csv_row(struct loader *l, const struct trace_field *f, int n, const int *where)
{
	struct row r = {0}, *kept;
	uint64_t device, stream, corr;
	struct trace_field name = {(char *)"", 0};

	if (where[COL_TS] < 0 || where[COL_KIND] < 0)
		return complain(l, "no ts_ns or kind column");
	if (n <= where[COL_TS] || n <= where[COL_KIND])
		return complain(l, "too few columns");
	if (!trace_reader_u64(&f[where[COL_TS]], &r.ts))
		return complain(l, "ts_ns is not a number");
	if (!csv_optional(f, n, where[COL_DUR], &r.dur, NULL))
		return complain(l, "dur_ns is not a number");
	if (!csv_optional(f, n, where[COL_DEVICE], &device, NULL) ||
	    !csv_optional(f, n, where[COL_STREAM], &stream, NULL) ||
	    !csv_optional(f, n, where[COL_CORR], &corr, &r.has_corr) ||
	    !csv_optional(f, n, where[COL_BYTES], &r.bytes, NULL))
		return complain(l, "device, stream, corr or bytes is not a number");
	if (r.ts > UINT64_MAX / 4 || r.dur > UINT64_MAX / 4)
		return complain(l, "time out of range");
	r.device = (uint32_t)device;
	r.stream = (uint32_t)stream;
	r.corr = (uint32_t)corr;
	if (where[COL_NAME] >= 0 && where[COL_NAME] < n)
		name = f[where[COL_NAME]];
	if (!row_classify(l, &r, f[where[COL_KIND]].text, name.text, name.bytes))
		return 0;
	kept = row_new(l);
	if (!kept)
		return complain(l, "more rows than memory");
	*kept = r;
	return 0;
}

static int load_csv(struct loader *l)
{
	int where[COLUMNS] = {0, 1, 2, 3, 4, 5, 6, 7};
	struct trace_field f[CSV_FIELDS_MAX];
	bool first = true;
	char *line;
	size_t bytes;
	int rc;

	while ((rc = trace_reader_line(l->reader, &line, &bytes)) > 0) {
		int n;

		l->line = trace_reader_line_number(l->reader);
		if (!bytes)
			continue;
		n = trace_reader_fields(line, bytes, f, CSV_FIELDS_MAX);
		if (n < 0)
			return complain(l, "unbalanced quotes");
		if (n > CSV_FIELDS_MAX)
			return complain(l, "too many columns");
		if (first && csv_header(f, n, where)) {
			first = false;
			continue;
		}
		first = false;
		l->t->rows++;
		rc = csv_row(l, f, n, where);
		if (rc)
			return rc;
	}
	l->line = trace_reader_line_number(l->reader);
	return rc < 0 ? complain(l, trace_reader_error(l->reader)) : 0;
}

/* ---- Kineto JSON ---- */

static size_t json_bytes(void *buffer, size_t bytes, void *data)
{
	struct loader *l = data;
	ssize_t n = trace_reader_read(l->reader, buffer, bytes);

	if (n > 0)
		l->line += (uint64_t)n; /* bytes, while the text is read */
	if (l->line > REPLAY_LOAD_JSON_BYTES_MAX)
		return (size_t)-1;
	return n < 0 ? (size_t)-1 : (size_t)n;
}

static uint64_t json_ns(const json_t *v)
{
	double us = json_number_value(v);

	if (json_is_integer(v))
		return json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) * 1000 : 0;
	return us > 0 && us < 4e15 ? (uint64_t)llround(us * 1000) : 0;
}

static uint64_t json_u64(const json_t *args, const char *key, bool *given)
{
	const json_t *v = json_object_get(args, key);

	if (given)
		*given = json_is_integer(v);
	return json_is_integer(v) && json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
}

/* The flat kind of a Kineto category, NULL for what we do not read. */
static const char *json_kind(const char *cat, const char *name)
{
	if (!strcmp(cat, "kernel") || !strcmp(cat, "Kernel"))
		return "kernel";
	if (!strcmp(cat, "gpu_memcpy") || !strcmp(cat, "Memcpy"))
		return "memcpy";
	if (!strcmp(cat, "gpu_memset") || !strcmp(cat, "Memset"))
		return "memset";
	if (!strcmp(cat, "cuda_runtime") || !strcmp(cat, "cuda_driver") || !strcmp(cat, "Runtime") ||
	    !strcmp(cat, "hip_runtime") || !strcmp(cat, "hip_driver"))
		return "api";
	if (!strncmp(name, "ProfilerStep", 12) && strcmp(cat, "gpu_user_annotation"))
		return "step";
	return NULL;
}

static int json_row(struct loader *l, const json_t *e)
{
	const char *cat = json_string_value(json_object_get(e, "cat"));
	const char *name = json_string_value(json_object_get(e, "name"));
	const char *phase = json_string_value(json_object_get(e, "ph"));
	const json_t *args = json_object_get(e, "args"), *shape;
	const char *kind;
	struct row r = {0}, *kept;

	l->t->rows++;
	if (!cat || !name || !phase || strcmp(phase, "X") || !(kind = json_kind(cat, name))) {
		l->t->unknown_kind++;
		return 0;
	}
	if (!json_is_number(json_object_get(e, "ts")))
		return complain(l, "an event without ts");
	r.ts = json_ns(json_object_get(e, "ts"));
	r.dur = json_ns(json_object_get(e, "dur"));
	r.corr = (uint32_t)json_u64(args, "correlation", &r.has_corr);
	r.bytes = json_u64(args, "bytes", NULL);
	r.device = (uint32_t)json_u64(args, "device", NULL);
	r.stream = (uint32_t)json_u64(args, "stream", NULL);
	shape = json_object_get(args, "grid");
	for (size_t i = 0; i < 3; i++)
		r.grid[i] = (uint32_t)json_integer_value(json_array_get(shape, i));
	shape = json_object_get(args, "block");
	for (size_t i = 0; i < 3; i++)
		r.block[i] = (uint16_t)json_integer_value(json_array_get(shape, i));
	if (!row_classify(l, &r, kind, name, strlen(name)))
		return 0;
	kept = row_new(l);
	if (!kept)
		return complain(l, "more rows than memory");
	*kept = r;
	return 0;
}

static int load_json(struct loader *l)
{
	json_error_t error;
	json_t *doc = json_load_callback(json_bytes, l, JSON_DISABLE_EOF_CHECK, &error), *events;
	const json_t *e;
	size_t i;
	int rc = 0;

	if (!doc) {
		bool large = l->line > REPLAY_LOAD_JSON_BYTES_MAX;

		l->line = error.line > 0 ? (uint64_t)error.line : 1;
		return complain(l, large ? "JSON larger than 512 MiB" : error.text);
	}
	l->line = 1;
	events = json_is_array(doc) ? doc : json_object_get(doc, "traceEvents");
	if (!json_is_array(events))
		rc = complain(l, "no traceEvents");
	else
		json_array_foreach(events, i, e)
			if (!rc)
				rc = json_row(l, e);
	json_decref(doc);
	return rc;
}

/* ---- from rows to records ---- */

static bool row_is_device(const struct row *r)
{
	return r->kind <= ROW_MEMSET;
}

/* Correlation id to the row of its launch call and of its first kernel. */
struct join_slot {
	uint32_t corr;
	uint32_t call, device; /* row + 1; 0 none */
	uint32_t devices;
};

struct join {
	struct join_slot *slots;
	size_t mask;
};

static struct join_slot *join_at(const struct join *j, uint32_t corr)
{
	size_t at = hash_mix(corr + 1ull) & j->mask;

	while ((j->slots[at].call || j->slots[at].device) && j->slots[at].corr != corr)
		at = (at + 1) & j->mask;
	return &j->slots[at];
}

static bool join_build(struct join *j, const struct loader *l)
{
	size_t size = 16;

	while (size < l->count * 2)
		size <<= 1;
	j->mask = size - 1;
	j->slots = filled(calloc(size, sizeof(*j->slots)), size * sizeof(*j->slots));
	if (!j->slots)
		return false;
	for (size_t i = 0; i < l->count; i++) {
		const struct row *r = &l->rows[i];
		struct join_slot *slot;

		if (!r->has_corr || r->kind == ROW_STEP || r->kind == ROW_SYNC)
			continue;
		slot = join_at(j, r->corr);
		slot->corr = r->corr;
		if (row_is_device(r)) {
			if (!slot->device)
				slot->device = (uint32_t)i + 1;
			slot->devices++;
		} else if (!slot->call) {
			slot->call = (uint32_t)i + 1;
		}
	}
	return true;
}

static unsigned coll_of(const char *name)
{
	static const struct {
		const char *text;
		unsigned func;
	} known[] = {
		{"AllReduce", RECORD_COLL_ALL_REDUCE}, {"ReduceScatter", RECORD_COLL_REDUCE_SCATTER},
		{"AllGather", RECORD_COLL_ALL_GATHER}, {"Broadcast", RECORD_COLL_BROADCAST},
		{"AllToAll", RECORD_COLL_ALL_TO_ALL}, {"SendRecv", RECORD_COLL_ALL_TO_ALL},
		{"Reduce", RECORD_COLL_REDUCE}, {"Gather", RECORD_COLL_GATHER},
		{"Scatter", RECORD_COLL_SCATTER}, {"Send", RECORD_COLL_SEND},
		{"Recv", RECORD_COLL_RECV},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(name, known[i].text))
			return known[i].func;
	return RECORD_COLL_OTHER;
}

static void device_record(struct loader *l, const struct row *r, uint64_t launch_ns)
{
	struct record *x = &l->t->device[l->t->device_count++];

	memset(x, 0, sizeof(*x));
	x->kind = r->kind == ROW_KERNEL ? RECORD_KERNEL
		  : r->kind == ROW_NCCL ? RECORD_COLL_KERNEL
		  : r->kind == ROW_MEMCPY ? RECORD_COPY : RECORD_MEMSET;
	x->begin_ns = r->ts;
	x->end_ns = r->ts + r->dur;
	x->launch_ns = launch_ns;
	x->bytes = r->bytes;
	x->name = r->name;
	x->thread = r->device;
	x->stream = r->stream;
	x->correlation = r->corr;
	memcpy(x->grid, r->grid, sizeof(x->grid));
	memcpy(x->block, r->block, sizeof(x->block));
	if (r->kind == ROW_NCCL)
		x->func = (uint8_t)coll_of(l->t->names.text[r->name]);
	if (!launch_ns) {
		x->flags |= RECORD_FLAG_UNMATCHED;
		l->t->unmatched++;
	}
}

static void host_record(struct loader *l, const struct row *r, const struct row *device,
			uint32_t devices)
{
	struct record *x = &l->t->host[l->t->host_count++];

	memset(x, 0, sizeof(*x));
	x->kind = r->kind == ROW_SYNC ? RECORD_SYNC
		  : r->kind == ROW_GRAPH ? RECORD_GRAPH_LAUNCH
		  : r->kind == ROW_COPY_CALL || r->kind == ROW_MEMCPY || r->kind == ROW_MEMSET
			  ? RECORD_COPY_CALL : RECORD_LAUNCH;
	x->begin_ns = r->ts;
	x->end_ns = row_is_device(r) ? r->ts : r->ts + r->dur;
	x->name = r->name;
	x->correlation = r->corr;
	if (r->kind == ROW_SYNC)
		return;
	if (!device) { /* no kernel of it is in the file: none to wait for */
		x->flags |= RECORD_FLAG_UNMATCHED;
		return;
	}
	x->name = device->name ? device->name : r->name;
	if (x->kind == RECORD_LAUNCH && l->t->names.optimizer[x->name])
		x->flags |= RECORD_FLAG_OPTIMIZER;
	x->bytes = device->bytes;
	x->stream = device->stream;
	memcpy(x->grid, device->grid, sizeof(x->grid));
	memcpy(x->block, device->block, sizeof(x->block));
	if (r->kind == ROW_GRAPH)
		x->grid[0] = devices;
}

static int host_order(const void *pa, const void *pb)
{
	const struct record *a = pa, *b = pb;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int device_order(const void *pa, const void *pb)
{
	const struct record *a = pa, *b = pb;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static void sort_records(struct record *v, size_t n, int (*order)(const void *, const void *))
{
	for (size_t i = 1; i < n; i++)
		if (order(&v[i - 1], &v[i]) > 0) {
			qsort(v, n, sizeof(*v), order);
			return;
		}
}

/* ProfilerStep rows; the one that Kineto repeats for the device overlaps the other. */
static void marks_take(struct loader *l)
{
	struct replay_trace *t = l->t;
	size_t n = 0;

	for (size_t i = 0; i < l->count; i++)
		if (l->rows[i].kind == ROW_STEP)
			t->marks[t->mark_count++] = (struct record){
				.kind = RECORD_STEP_BEGIN, .begin_ns = l->rows[i].ts,
				.end_ns = l->rows[i].ts + l->rows[i].dur, .name = l->rows[i].name,
			};
	sort_records(t->marks, t->mark_count, host_order);
	for (size_t i = 0; i < t->mark_count; i++) {
		struct record *m = &t->marks[i];

		if (n && (t->marks[n - 1].name == m->name ||
			  m->begin_ns + 1000 < t->marks[n - 1].end_ns)) {
			t->duplicate_marks++;
			continue;
		}
		t->marks[n] = *m;
		t->marks[n].key = n;
		n++;
	}
	t->mark_count = n;
}

static int records_make(struct loader *l)
{
	struct replay_trace *t = l->t;
	struct join j = {0};
	size_t devices = 0, joined = 0;
	bool proxies;

	if (!join_build(&j, l))
		return complain(l, "out of memory");
	for (size_t i = 0; i < l->count; i++)
		if (row_is_device(&l->rows[i])) {
			devices++;
			joined += l->rows[i].has_corr && join_at(&j, l->rows[i].corr)->call;
		}
	proxies = joined * 2 < devices;
	t->host = filled(malloc((l->count - devices * !proxies + 1) * sizeof(*t->host)),
			 (l->count - devices * !proxies + 1) * sizeof(*t->host));
	t->device = filled(malloc((devices + 1) * sizeof(*t->device)),
			   (devices + 1) * sizeof(*t->device));
	t->marks = malloc((l->count - devices + 1) * sizeof(*t->marks));
	if (!t->host || !t->device || !t->marks) {
		free(j.slots);
		return complain(l, "out of memory");
	}
	for (size_t i = 0; i < l->count; i++) {
		const struct row *r = &l->rows[i];
		const struct join_slot *slot = r->has_corr && r->kind != ROW_STEP &&
					       r->kind != ROW_SYNC ? join_at(&j, r->corr) : NULL;

		if (row_is_device(r)) {
			uint64_t launch = slot && slot->call ? l->rows[slot->call - 1].ts : 0;

			if (!launch && proxies) {
				host_record(l, r, r, 1);
				t->proxies++;
				launch = r->ts;
			}
			device_record(l, r, launch);
		} else if (r->kind != ROW_STEP) {
			host_record(l, r, slot && slot->device ? &l->rows[slot->device - 1] : NULL,
				    slot ? slot->devices : 0);
		}
	}
	free(j.slots);
	marks_take(l);
	sort_records(t->host, t->host_count, host_order);
	sort_records(t->device, t->device_count, device_order);
	return 0;
}

int replay_load(struct replay_trace *t, const char *path)
{
	struct loader l = {.t = t, .path = path, .line = 1};
	int c, rc;

	if (!names_grow(&t->names))
		return complain(&l, "out of memory");
	rc = trace_reader_open(&l.reader, path);
	if (rc) {
		fprintf(stderr, "sysom replay events: %s: %s\n", path,
			rc == -EBADMSG ? "damaged" : strerror(-rc));
		return rc;
	}
	c = trace_reader_peek(l.reader);
	rc = c == '{' || c == '[' ? load_json(&l) : load_csv(&l);
	trace_reader_close(l.reader);
	t->kept = l.count;
	if (!rc)
		rc = records_make(&l);
	free(l.rows);
	return rc;
}

void replay_load_free(struct replay_trace *t)
{
	for (uint32_t i = 0; i < t->names.count; i++)
		free(t->names.text[i]);
	free(t->names.text);
	free(t->names.slots);
	free(t->names.optimizer);
	free(t->host);
	free(t->device);
	free(t->marks);
	memset(t, 0, sizeof(*t));
}

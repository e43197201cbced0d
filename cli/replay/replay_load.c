/* SPDX-License-Identifier: Apache-2.0
 * Each row becomes a record at once. Afterwards records are joined by correlation id and sorted: real
 * traces come from several threads' buffers, so neither rows nor launches are in order. Touching new
 * memory is most of the cost, so nothing is stored twice. A name is interpreted once, not per row. */
#include "cli/replay/replay_load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/idmap.h"
#include "base/order.h"
#include "base/room.h"
#include "cli/text/pages.h"
#include "render/term.h"
#include "cli/trace/kineto_reader.h"
#include "cli/trace/trace_label.h"
#include "cli/trace/trace_reader.h"

enum row_kind {
	ROW_KERNEL,
	ROW_NCCL,
	ROW_MEMCPY,
	ROW_MEMSET,
	ROW_LAUNCH,
	ROW_GRAPH,
	ROW_COPY_CALL,
	ROW_SYNC,
	ROW_HOLE,
	ROW_STEP,
	ROW_OTHER,
};

static const uint8_t record_kinds[] = {
    [ROW_KERNEL] = RECORD_KERNEL,
    [ROW_NCCL] = RECORD_COLL_KERNEL,
    [ROW_MEMCPY] = RECORD_COPY,
    [ROW_MEMSET] = RECORD_MEMSET,
    [ROW_LAUNCH] = RECORD_LAUNCH,
    [ROW_GRAPH] = RECORD_GRAPH_LAUNCH,
    [ROW_COPY_CALL] = RECORD_COPY_CALL,
    [ROW_SYNC] = RECORD_SYNC,
    [ROW_HOLE] = RECORD_GAP,
    [ROW_STEP] = RECORD_STEP_BEGIN,
};

/* In record.dtype while loading: the row has a correlation id. */
#define HAS_CORRELATION 1

struct loader {
	struct replay_trace *t;
	const char *path;
	struct trace_reader *reader;
	size_t host_room, device_room, mark_room;
	uint64_t line;
	const char *why; /* why an event was refused */
	uint64_t pid;	 /* of a Kineto file's launches; 0: none yet */
};

/* ---- names ---- */

static uint8_t api_kind(const char *name)
{
	if (!strcmp(name, TRACE_LABEL_WAIT)) /* of our export */
		return ROW_SYNC;
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

static unsigned coll_of(const char *name)
{
	static const struct {
		const char *text;
		unsigned func;
	} known[] = {
	    {"AllReduce", RECORD_COLL_ALL_REDUCE},
	    {"ReduceScatter", RECORD_COLL_REDUCE_SCATTER},
	    {"AllGather", RECORD_COLL_ALL_GATHER},
	    {"Broadcast", RECORD_COLL_BROADCAST},
	    {"AllToAll", RECORD_COLL_ALL_TO_ALL},
	    {"SendRecv", RECORD_COLL_ALL_TO_ALL},
	    {"Reduce", RECORD_COLL_REDUCE},
	    {"Gather", RECORD_COLL_GATHER},
	    {"Scatter", RECORD_COLL_SCATTER},
	    {"Send", RECORD_COLL_SEND},
	    {"Recv", RECORD_COLL_RECV},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(name, known[i].text))
			return known[i].func;
	return RECORD_COLL_OTHER;
}

static struct replay_name name_of(const char *text)
{
	return (struct replay_name){.optimizer = record_is_optimizer(text),
				    .coll = record_is_coll_kernel(text),
				    .api = api_kind(text),
				    .func = (uint8_t)coll_of(text)};
}

/* The id of a name, which may have a zero byte before its end; 0: "", or no room. */
static uint32_t names_id(struct replay_trace *t, const char *text, size_t bytes)
{
	uint32_t before = t->names.count;
	int64_t id =
	    ROOM_FOR(t->name, t->name_room, before + 1ull)
		? -ENOMEM
		: intern_bytes(&t->names, text, strnlen(text, bytes), REPLAY_LOAD_NAMES_MAX);

	if (id == before)
		t->name[id] = name_of(t->names.text[id]);
	return id > 0 ? (uint32_t)id : 0;
}

/* ---- rows ---- */

static int complain(const struct loader *l, const char *what)
{
	/* the parser's text may quote the file */
	fprintf(stderr, "sysom replay events: %s:%llu: %s\n", l->path, (unsigned long long)l->line,
		term_safe(what, 200));
	return -EBADMSG;
}

/* A new element of *array; NULL: out of memory. */
static struct record *record_new(struct loader *l, struct record **array, size_t *count,
				 size_t *room)
{
	size_t had = *room;

	if (*count >= REPLAY_LOAD_ROWS_MAX || ROOM_FOR(*array, *room, *count + 1)) {
		complain(l, "not enough memory for so many rows");
		return NULL;
	}
	if (*room > had)
		pages_filled(*array, *room * sizeof(**array));
	return &(*array)[(*count)++];
}

/* Sets the row's kind (enum row_kind) and name; false: skip the row. */
static bool row_classify(struct loader *l, struct record *r, const char *kind, const char *name,
			 size_t name_bytes)
{
	static const struct {
		const char *text;
		uint8_t row;
	} kinds[] = {{"nccl", ROW_NCCL},
		     {"memcpy", ROW_MEMCPY},
		     {"memset", ROW_MEMSET},
		     {"step", ROW_STEP},
		     {"hole", ROW_HOLE}};
	struct replay_trace *t = l->t;
	struct replay_name what;
	size_t at = 0;
	bool kernel = !strcmp(kind, "kernel"), api = !strcmp(kind, "api");

	if (kernel || api) {
		r->name = names_id(t, name, name_bytes);
		what = r->name ? t->name[r->name] : name_of(name);
		r->kind = api ? what.api : what.coll ? ROW_NCCL : ROW_KERNEL;
		if (r->kind == ROW_OTHER)
			t->api_other++;
		return r->kind != ROW_OTHER;
	}
	while (at < ARRAY_LEN(kinds) && strcmp(kind, kinds[at].text))
		at++;
	if (at == ARRAY_LEN(kinds)) {
		++*(strcmp(kind, "collop") ? &t->unknown_kind : &t->api_other);
		return false;
	}
	r->kind = kinds[at].row;
	t->holes += r->kind == ROW_HOLE;
	r->name = names_id(t, name, name_bytes);
	return true;
}

/* Adds a row after row_classify. */
static int row_keep(struct loader *l, const struct record *r)
{
	struct replay_trace *t = l->t;
	unsigned row = r->kind;
	struct record *x;

	if (row <= ROW_MEMSET)
		x = record_new(l, &t->device, &t->device_count, &l->device_room);
	else if (row == ROW_STEP)
		x = record_new(l, &t->marks, &t->mark_count, &l->mark_room);
	else
		x = record_new(l, &t->host, &t->host_count, &l->host_room);
	if (!x)
		return -ENOMEM;
	*x = *r;
	x->kind = record_kinds[row];
	if (row > ROW_MEMSET)
		x->thread = 0;
	if (row == ROW_NCCL)
		x->func = t->name[r->name].func;
	t->kept++;
	return 0;
}

/* ---- CSV ---- */

enum column {
	COL_TS,
	COL_DUR,
	COL_KIND,
	COL_DEVICE,
	COL_STREAM,
	COL_CORR,
	COL_BYTES,
	COL_NAME,
	COLUMNS
};
static const char *const column_names[COLUMNS] = {
    "ts_ns", "dur_ns", "kind", "device", "stream", "corr", "bytes", "name",
};

/* If the row is a header, takes the order of columns from it and returns true. */
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

/* An optional column: 0 if absent or empty; false: not a number. */
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

/* -1 means not known; a smaller number is an error. */
static bool csv_negative(const struct trace_field *f, int n, int at)
{
	return at >= 0 && at < n && f[at].bytes && f[at].text[0] == '-' && strcmp(f[at].text, "-1");
}

static int csv_row(struct loader *l, const struct trace_field *f, int n, const int *where)
{
	struct record r = {0};
	uint64_t device, stream, corr, ns;
	bool has_corr;
	struct trace_field name = {(char *)"", 0};

	if (where[COL_TS] < 0 || where[COL_KIND] < 0)
		return complain(l, "no ts_ns or kind column");
	if (n <= where[COL_TS] || n <= where[COL_KIND])
		return complain(l, "too few columns");
	if (!trace_reader_u64(&f[where[COL_TS]], &r.begin_ns))
		return complain(l, "ts_ns is not a number");
	if (!csv_optional(f, n, where[COL_DUR], &ns, NULL))
		return complain(l, "dur_ns is not a number");
	if (csv_negative(f, n, where[COL_DUR]))
		return complain(l, "a negative dur_ns");
	if (!csv_optional(f, n, where[COL_DEVICE], &device, NULL) ||
	    !csv_optional(f, n, where[COL_STREAM], &stream, NULL) ||
	    !csv_optional(f, n, where[COL_CORR], &corr, &has_corr) ||
	    !csv_optional(f, n, where[COL_BYTES], &r.bytes, NULL))
		return complain(l, "device, stream, corr or bytes is not a number");
	if (r.begin_ns > UINT64_MAX / 4 || ns > UINT64_MAX / 4)
		return complain(l, "time out of range");
	r.end_ns = r.begin_ns + ns;
	r.thread = (uint32_t)device;
	r.stream = (uint32_t)stream;
	r.correlation = (uint32_t)corr;
	r.dtype = has_corr ? HAS_CORRELATION : 0;
	if (where[COL_NAME] >= 0 && where[COL_NAME] < n)
		name = f[where[COL_NAME]];
	if (!row_classify(l, &r, f[where[COL_KIND]].text, name.text, name.bytes))
		return 0;
	return row_keep(l, &r);
}

/* No text: a Perfetto trace, most likely. */
static bool is_binary(const struct trace_field *f, int n)
{
	for (int i = 0; i < n; i++)
		for (const char *p = f[i].text; *p; p++)
			if ((unsigned char)*p < '\t')
				return true;
	return false;
}

static int csv_refuse(const struct loader *l, const char *why)
{
	char text[200];

	if (l->t->rows)
		return complain(l, why);
	snprintf(text, sizeof(text),
		 "%s: neither CSV nor Kineto JSON (of an incident, `sysom trace --format kineto` "
		 "writes one)",
		 why);
	return complain(l, text);
}

static int load_csv(struct loader *l)
{
	int where[COLUMNS] = {0, 1, 2, 3, 4, 5, 6, 7};
	struct trace_field *f;
	bool first = true;
	int width = 0; /* of the header */
	int n, rc;

	while ((n = trace_reader_csv(l->reader, &f)) > 0) {
		l->line = trace_reader_line_number(l->reader);
		if (!l->t->rows && is_binary(f, n))
			return csv_refuse(l, "no text");
		if (first && csv_header(f, n, where)) {
			first = false;
			width = n;
			continue;
		}
		first = false;
		if (width && n != width)
			return complain(l, "the number of columns differs from the header");
		l->t->rows++;
		rc = csv_row(l, f, n, where);
		if (rc)
			return rc;
	}
	l->line = trace_reader_line_number(l->reader);
	return n < 0 ? csv_refuse(l, trace_reader_error(l->reader)) : 0;
}

/* ---- Kineto JSON ---- */

/* The CSV kind of a Kineto category; NULL: not used. */
static const char *json_kind(const char *cat, const char *name)
{
	if (!strcmp(cat, "kernel") || !strcmp(cat, "Kernel"))
		return "kernel";
	if (!strcmp(cat, "gpu_memcpy") || !strcmp(cat, "Memcpy"))
		return "memcpy";
	if (!strcmp(cat, "gpu_memset") || !strcmp(cat, "Memset"))
		return "memset";
	if (!strcmp(cat, "cuda_runtime") || !strcmp(cat, "cuda_driver") ||
	    !strcmp(cat, "Runtime") || !strcmp(cat, "hip_runtime") || !strcmp(cat, "hip_driver"))
		return "api";
	if (!strcmp(cat, TRACE_LABEL_HOLE_CATEGORY))
		return "hole";
	if (!strncmp(name, "ProfilerStep", 12) && strcmp(cat, "gpu_user_annotation"))
		return "step";
	return NULL;
}

static int json_event(void *arg, const struct kineto_event *e)
{
	struct loader *l = arg;
	const char *kind;
	struct record r = {0};

	l->t->rows++;
	if (!*e->category || strcmp(e->phase, "X") || !(kind = json_kind(e->category, e->name))) {
		l->t->unknown_kind++;
		return 0;
	}
	if (e->bad_time || !e->has_begin) {
		l->why =
		    e->bad_time ? "ts or dur is negative or not a number" : "an event without ts";
		return -EBADMSG;
	}
	/* each process has its own correlation ids and clock */
	if (!strcmp(kind, "api") && e->pid) {
		if (l->pid && l->pid != e->pid) {
			l->why =
			    "launches of several processes; use one file per rank (`sysom trace "
			    "--rank R` writes it)";
			return -EBADMSG;
		}
		l->pid = e->pid;
	}
	r.begin_ns = e->begin_ns;
	r.end_ns = r.begin_ns + e->duration_ns;
	r.correlation = (uint32_t)e->correlation;
	r.dtype = e->has_correlation ? HAS_CORRELATION : 0;
	r.bytes = e->bytes;
	r.thread = (uint32_t)e->device;
	r.stream = (uint32_t)e->stream;
	for (size_t i = 0; i < 3; i++) {
		r.grid[i] = e->grid[i];
		r.block[i] = (uint16_t)e->block[i];
	}
	if (!row_classify(l, &r, kind, e->name, e->name_bytes))
		return 0;
	return row_keep(l, &r);
}

static int load_json(struct loader *l)
{
	struct kineto_result result;
	int rc = kineto_reader_run(l->reader, json_event, l, &result);

	l->line = result.line;
	l->t->base_ns = result.base_ns;
	if (result.rank >= 0)
		l->t->rank = result.rank;
	if (!rc || rc == -ENOMEM)
		return rc;
	return complain(l, result.error[0] ? result.error : l->why ? l->why : "cannot be read");
}

/* ---- launches and their kernels ---- */

/* What has a correlation id: its launch call and its first kernel. */
struct join_slot {
	uint32_t call, device; /* index + 1; 0 none */
	uint32_t devices;
};

struct join {
	struct idmap by_id;
	struct join_slot *slots;
	size_t room;
};

/* NULL: the record is not joined. */
static struct join_slot *join_of(const struct join *j, const struct record *r)
{
	uint32_t at = r->dtype == HAS_CORRELATION && r->kind != RECORD_SYNC
			  ? idmap_get(&j->by_id, r->correlation)
			  : IDMAP_NONE;

	return at == IDMAP_NONE ? NULL : &j->slots[at];
}

/* The same, but adds a missing one. 0 or -ENOMEM. */
static int join_add(struct join *j, const struct record *r, struct join_slot **out)
{
	uint32_t at = j->by_id.count;

	*out = join_of(j, r);
	if (*out || r->dtype != HAS_CORRELATION || r->kind == RECORD_SYNC)
		return 0;
	if (ROOM_FOR(j->slots, j->room, at + 1ull) || idmap_put(&j->by_id, r->correlation, at))
		return -ENOMEM;
	*out = &j->slots[at];
	**out = (struct join_slot){0};
	return 0;
}

static int join_build(struct join *j, const struct replay_trace *t)
{
	struct join_slot *slot;

	j->by_id.max = UINT32_MAX - 1;
	for (size_t i = 0; i < t->host_count; i++) {
		if (join_add(j, &t->host[i], &slot))
			return -ENOMEM;
		if (slot && !slot->call)
			slot->call = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < t->device_count; i++) {
		if (join_add(j, &t->device[i], &slot))
			return -ENOMEM;
		if (slot && !slot->devices++)
			slot->device = (uint32_t)i + 1;
	}
	return 0;
}

static void join_free(struct join *j)
{
	idmap_fini(&j->by_id);
	free(j->slots);
}

/* Fills a launch's fields from its first kernel; NULL: the file has none. */
static void host_finish(const struct replay_trace *t, struct record *x, const struct record *device,
			uint32_t devices)
{
	x->stream = 0;
	x->bytes = 0;
	memset(x->grid, 0, sizeof(x->grid));
	memset(x->block, 0, sizeof(x->block));
	if (x->kind == RECORD_SYNC || x->kind == RECORD_GAP)
		return;
	if (!device) { /* no kernel */
		x->flags |= RECORD_FLAG_UNMATCHED;
		return;
	}
	x->name = device->name ? device->name : x->name;
	if (x->kind == RECORD_LAUNCH && t->name[x->name].optimizer)
		x->flags |= RECORD_FLAG_OPTIMIZER;
	x->bytes = device->bytes;
	x->stream = device->stream;
	memcpy(x->grid, device->grid, sizeof(x->grid));
	memcpy(x->block, device->block, sizeof(x->block));
	if (x->kind == RECORD_GRAPH_LAUNCH)
		x->grid[0] = devices;
}

/* Uses the kernel's start as its launch. */
static int proxy_add(struct loader *l, const struct record *device)
{
	struct replay_trace *t = l->t;
	bool kernel = device->kind == RECORD_KERNEL || device->kind == RECORD_COLL_KERNEL;
	struct record *x = record_new(l, &t->host, &t->host_count, &l->host_room);

	if (!x)
		return -ENOMEM;
	*x = (struct record){.kind = kernel ? RECORD_LAUNCH : RECORD_COPY_CALL,
			     .begin_ns = device->begin_ns,
			     .end_ns = device->begin_ns,
			     .name = device->name,
			     .correlation = device->correlation};
	host_finish(t, x, device, 1);
	t->proxies++;
	return 0;
}

ORDER_BY(host_order, struct record, ORDER_UP(begin_ns) ?: ORDER_UP(correlation));

ORDER_BY(device_order, struct record,
	 ORDER_UP(begin_ns) ?: ORDER_UP(stream) ?: ORDER_UP(correlation));

static void sort_records(struct record *v, size_t n, int (*order)(const void *, const void *))
{
	for (size_t i = 1; i < n; i++)
		if (order(&v[i - 1], &v[i]) > 0) {
			qsort(v, n, sizeof(*v), order);
			return;
		}
}

/* Drops ProfilerStep rows that Kineto repeats for the device: they overlap the first one. */
static void marks_take(struct loader *l)
{
	struct replay_trace *t = l->t;
	size_t n = 0;

	for (size_t i = 0; i < t->mark_count; i++)
		t->marks[i] = (struct record){.kind = RECORD_STEP_BEGIN,
					      .begin_ns = t->marks[i].begin_ns,
					      .end_ns = t->marks[i].end_ns,
					      .name = t->marks[i].name};
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

static int devices_finish(struct loader *l, const struct join *j)
{
	struct replay_trace *t = l->t;
	size_t joined = 0;
	bool proxies;

	for (size_t i = 0; i < t->device_count; i++) {
		struct record *x = &t->device[i];
		const struct join_slot *slot = join_of(j, x);

		if (slot && slot->call) {
			x->launch_ns = t->host[slot->call - 1].begin_ns;
			joined += x->launch_ns != 0;
		}
	}
	proxies = joined * 2 < t->device_count;
	for (size_t i = 0; i < t->device_count; i++) {
		struct record *x = &t->device[i];

		x->dtype = 0;
		if (x->launch_ns)
			continue;
		if (proxies && proxy_add(l, x))
			return -ENOMEM;
		x->launch_ns = proxies ? x->begin_ns : 0;
		if (x->launch_ns)
			continue;
		x->flags |= RECORD_FLAG_UNMATCHED;
		t->unmatched++;
	}
	return 0;
}

static int records_finish(struct loader *l)
{
	struct replay_trace *t = l->t;
	struct join j = {0};
	size_t calls = t->host_count;
	int rc;

	if (join_build(&j, t)) {
		join_free(&j);
		return complain(l, "out of memory");
	}
	for (size_t i = 0; i < calls; i++) {
		const struct join_slot *slot = join_of(&j, &t->host[i]);

		host_finish(t, &t->host[i],
			    slot && slot->device ? &t->device[slot->device - 1] : NULL,
			    slot ? slot->devices : 0);
	}
	rc = devices_finish(l, &j);
	for (size_t i = 0; i < calls; i++)
		t->host[i].dtype = 0;
	join_free(&j);
	if (rc)
		return rc;
	marks_take(l);
	sort_records(t->host, t->host_count, host_order);
	sort_records(t->device, t->device_count, device_order);
	return 0;
}

static int load(struct loader *l)
{
	int c, rc;

	names_id(l->t, "", 0);
	if (!l->t->names.count)
		return complain(l, "out of memory");
	rc = trace_reader_open(&l->reader, l->path);
	if (rc) {
		fprintf(stderr, "sysom replay events: %s: %s\n", l->path,
			rc == -EBADMSG ? "damaged" : strerror(-rc));
		return rc;
	}
	c = trace_reader_peek(l->reader);
	rc = c == '{' || c == '[' ? load_json(l) : load_csv(l);
	trace_reader_close(l->reader);
	return rc ? rc : records_finish(l);
}

int replay_load(struct replay_trace *t, const char *path)
{
	struct loader l = {.t = t, .path = path, .line = 1};
	int rc = load(&l);

	if (rc)
		replay_load_free(t);
	return rc;
}

static bool shift(struct record *v, size_t count, int64_t by_ns)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t *at[] = {&v[i].begin_ns, &v[i].end_ns, &v[i].launch_ns};

		for (size_t k = 0; k < ARRAY_LEN(at); k++) {
			int64_t sum;

			if (!*at[k]) /* not known */
				continue;
			if (__builtin_add_overflow((int64_t)*at[k], by_ns, &sum) || sum <= 0 ||
			    sum > INT64_MAX / 2)
				return false;
			*at[k] = (uint64_t)sum;
		}
	}
	return true;
}

int replay_load_rebase(struct replay_trace *t, uint64_t base_ns)
{
	int64_t by_ns = (int64_t)(t->base_ns - base_ns);

	if (!by_ns)
		return 0;
	return shift(t->host, t->host_count, by_ns) && shift(t->device, t->device_count, by_ns) &&
		       shift(t->marks, t->mark_count, by_ns)
		   ? 0
		   : -ERANGE;
}

static uint64_t next_mark_ns(const struct replay_cursor *c)
{
	const struct record *m = c->trace->marks + c->mark;

	if (!c->marks || c->mark == c->trace->mark_count)
		return UINT64_MAX;
	return c->in_mark ? m->end_ns : m->begin_ns;
}

static uint64_t next_host_ns(const struct replay_cursor *c)
{
	return c->host < c->trace->host_count ? c->trace->host[c->host].begin_ns : UINT64_MAX;
}

uint64_t replay_cursor_ns(const struct replay_cursor *c)
{
	uint64_t mark_ns = next_mark_ns(c), host_ns = next_host_ns(c);

	return mark_ns < host_ns ? mark_ns : host_ns;
}

struct record replay_cursor_take(struct replay_cursor *c)
{
	uint64_t at_ns = next_mark_ns(c);
	struct record x;

	if (at_ns <= next_host_ns(c)) {
		x = c->trace->marks[c->mark];
		x.kind = c->in_mark ? RECORD_STEP_END : RECORD_STEP_BEGIN;
		x.begin_ns = x.end_ns = at_ns;
		c->mark += c->in_mark;
		c->in_mark = !c->in_mark;
		return x;
	}
	x = c->trace->host[c->host++];
	if (x.kind == RECORD_GAP) /* the next record is after the hole */
		x.end_ns = x.begin_ns;
	return x;
}

void replay_load_free(struct replay_trace *t)
{
	intern_fini(&t->names);
	free(t->name);
	free(t->host);
	free(t->device);
	free(t->marks);
	memset(t, 0, sizeof(*t));
}

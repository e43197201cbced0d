/* SPDX-License-Identifier: Apache-2.0
 * job_trace.c - turns a trace into a program. A traced step becomes a phase: each kernel, copy and
 * collective is launched at the host offset of its traced API call. A trace does not record which
 * event a stream waited for. The order of launches, the traced times and the cudaStreamWaitEvent
 * calls are enough to make a rank wait for late peers. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sim/job.h"
#include "sim/scramble.h"

#define TRACE_MAX_BYTES (512u << 20) /* unpacked; the largest public step traces are below 200 MB */
#define TRACE_MAX_STEPS 64

enum kind { E_API, E_KERNEL, E_NCCL, E_COPY, E_SET, E_COLL, E_STEP };

struct event {
	int64_t ts, dur;
	enum kind kind;
	int64_t stream, corr, bytes;
	int64_t launch_ts; /* of the API call; GPU events only */
	uint32_t grid[3], block[3];
	char *name;
};

struct trace {
	struct event *events;
	size_t count, room;
	char *text;
	json_t *json;
};

static struct event *event_add(struct trace *t)
{
	if (t->count == t->room) {
		size_t room = t->room ? t->room * 2 : 4096;
		struct event *grown = realloc(t->events, room * sizeof(*grown));

		if (!grown) {
			fprintf(stderr, "simjob: out of memory\n");
			exit(1);
		}
		t->events = grown;
		t->room = room;
	}
	memset(&t->events[t->count], 0, sizeof(struct event));
	t->events[t->count].stream = -1;
	return &t->events[t->count++];
}

static char *read_text(const char *path, size_t *bytes)
{
	gzFile f = gzopen(path, "rb"); /* reads plain files too */
	size_t room = 1 << 20, n = 0;
	char *text = malloc(room + 1);
	int got = 0;

	if (!f || !text) {
		fprintf(stderr, "simjob: %s: %s\n", path, strerror(errno));
		free(text);
		if (f)
			gzclose(f);
		return NULL;
	}
	while ((got = gzread(f, text + n, (unsigned)(room - n))) > 0) {
		n += (size_t)got;
		if (n == room) {
			char *grown = room < TRACE_MAX_BYTES ? realloc(text, room * 2 + 1) : NULL;

			if (!grown) {
				got = -1;
				break;
			}
			text = grown;
			room *= 2;
		}
	}
	gzclose(f);
	if (got < 0) {
		fprintf(stderr, "simjob: %s: unreadable or too large\n", path);
		free(text);
		return NULL;
	}
	text[n] = 0;
	*bytes = n;
	return text;
}

/* ---- columns: ts_ns,dur_ns,kind,device,stream,corr,bytes,name ---- */

/* Cuts one field off; doubled quotes inside quotes stand for one. */
static char *field(char **p)
{
	char *start = *p, *to, *s = *p;

	if (*s != '"') {
		while (*s && *s != ',')
			s++;
		*p = *s ? s + 1 : s;
		*s = 0;
		return start;
	}
	start = to = ++s;
	while (*s && !(*s == '"' && s[1] != '"')) {
		s += *s == '"';
		*to++ = *s++;
	}
	if (*s)
		s++;
	*p = *s ? s + 1 : s;
	*to = 0;
	return start;
}

static int parse_csv(struct trace *t, const char *path)
{
	static const char *const kinds[] = {"api",    "kernel", "nccl", "memcpy",
					    "memset", "collop", "step"};
	unsigned line = 1;
	char *save = NULL, *row = strtok_r(t->text, "\n", &save);

	if (!row || strncmp(row, "ts_ns,dur_ns,kind,", 18)) {
		fprintf(stderr, "simjob: %s:1: expected the header ts_ns,dur_ns,kind,...\n", path);
		return 2;
	}
	while ((row = strtok_r(NULL, "\n", &save))) {
		char *f[8], *p = row;
		struct event *e;
		int k = 0;

		line++;
		for (int i = 0; i < 8; i++)
			f[i] = field(&p);
		while (k < 7 && strcmp(f[2], kinds[k]))
			k++;
		if (k == 7 || !*f[0])
			continue;
		e = event_add(t);
		e->kind = (enum kind)k;
		e->ts = strtoll(f[0], NULL, 10);
		e->dur = strtoll(f[1], NULL, 10);
		e->stream = *f[4] ? strtoll(f[4], NULL, 10) : -1;
		e->corr = strtoll(f[5], NULL, 10);
		e->bytes = strtoll(f[6], NULL, 10);
		e->name = f[7];
		if (e->ts < 0 || e->dur < 0) {
			fprintf(stderr, "simjob: %s:%u: negative time\n", path, line);
			return 2;
		}
	}
	return 0;
}

/* ---- Kineto ---- */

static void dims(const json_t *args, const char *key, uint32_t out[3])
{
	const json_t *a = json_object_get(args, key);

	for (size_t i = 0; i < 3 && json_is_array(a); i++)
		out[i] = (uint32_t)json_integer_value(json_array_get(a, i));
}

static bool kineto_kind(const char *cat, const char *name, enum kind *kind)
{
	if (!strcasecmp(cat, "kernel"))
		*kind = strncmp(name, "nccl", 4) ? E_KERNEL : E_NCCL;
	else if (!strcasecmp(cat, "gpu_memcpy") || !strcasecmp(cat, "Memcpy"))
		*kind = E_COPY;
	else if (!strcasecmp(cat, "gpu_memset") || !strcasecmp(cat, "Memset"))
		*kind = E_SET;
	else if (!strcasecmp(cat, "cuda_runtime") || !strcasecmp(cat, "Runtime") ||
		 !strcasecmp(cat, "cuda_driver"))
		*kind = E_API;
	else if (!strncmp(name, "ProfilerStep#", 13) && strcasecmp(cat, "gpu_user_annotation"))
		*kind = E_STEP;
	else if (!strncmp(name, "nccl:", 5) && strcasecmp(cat, "gpu_user_annotation"))
		*kind = E_COLL;
	else
		return false;
	return true;
}

static int parse_json(struct trace *t, const char *path, size_t bytes)
{
	json_error_t error;
	json_t *events, *one;
	size_t i;

	t->json = json_loadb(t->text, bytes, 0, &error);
	if (!t->json) {
		fprintf(stderr, "simjob: %s:%d: %s\n", path, error.line, error.text);
		return 2;
	}
	events = json_is_array(t->json) ? t->json : json_object_get(t->json, "traceEvents");
	json_array_foreach (events, i, one) {
		const char *cat = json_string_value(json_object_get(one, "cat"));
		const char *name = json_string_value(json_object_get(one, "name"));
		const char *ph = json_string_value(json_object_get(one, "ph"));
		const json_t *args = json_object_get(one, "args");
		struct event *e;
		enum kind kind;

		if (!cat || !name || !ph || strcmp(ph, "X") || !kineto_kind(cat, name, &kind))
			continue;
		e = event_add(t);
		e->kind = kind;
		e->ts = (int64_t)(json_number_value(json_object_get(one, "ts")) * 1000);
		e->dur = (int64_t)(json_number_value(json_object_get(one, "dur")) * 1000);
		e->stream = json_is_integer(json_object_get(args, "stream"))
				? json_integer_value(json_object_get(args, "stream"))
				: -1;
		e->corr = json_integer_value(json_object_get(args, "correlation"));
		e->bytes = (int64_t)json_number_value(json_object_get(args, "bytes"));
		dims(args, "grid", e->grid);
		dims(args, "block", e->block);
		e->name = (char *)name;
	}
	return 0;
}

/* ---- from events to actions ---- */

static bool on_gpu(const struct event *e)
{
	return e->kind == E_KERNEL || e->kind == E_NCCL || e->kind == E_COPY || e->kind == E_SET;
}

static int by_corr(const void *a, const void *b)
{
	const struct event *x = *(struct event *const *)a, *y = *(struct event *const *)b;

	return x->corr < y->corr ? -1 : x->corr > y->corr;
}

static void find_launches(struct trace *t)
{
	struct event **apis = job_alloc(t->count, sizeof(*apis));
	size_t n = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->events[i].kind == E_API && t->events[i].corr)
			apis[n++] = &t->events[i];
	qsort(apis, n, sizeof(*apis), by_corr);
	for (size_t i = 0; i < t->count; i++) {
		struct event *e = &t->events[i], *key = e, **hit;

		if (!on_gpu(e)) {
			e->launch_ts = e->ts;
			continue;
		}
		hit = e->corr ? bsearch(&key, apis, n, sizeof(*apis), by_corr) : NULL;
		e->launch_ts = hit && (*hit)->ts <= e->ts ? (*hit)->ts : e->ts - 5000;
	}
	free(apis);
}

static int by_launch(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->launch_ts != y->launch_ts)
		return x->launch_ts < y->launch_ts ? -1 : 1;
	return x->ts < y->ts ? -1 : x->ts > y->ts;
}

struct shaper {
	struct job_program *p;
	struct job_phase *ph;
	const struct trace *t;
	int64_t begin, end;
	int64_t streams[JOB_STREAMS];
	unsigned stream_count;
	unsigned last_stream;	     /* of the last launch that is not a collective */
	const struct event *pending; /* the last collective that nobody waits for yet */
	unsigned pending_stream;
	unsigned next_event;
	bool traced_waits, wait_seen;
	int ranks;
};

static unsigned stream_index(struct shaper *s, int64_t id)
{
	for (unsigned i = 0; i < s->stream_count; i++)
		if (s->streams[i] == id)
			return i + 1;
	if (s->stream_count == JOB_STREAMS - 1)
		return JOB_STREAMS - 1;
	s->streams[s->stream_count++] = id;
	return s->stream_count;
}

static void order_streams(struct shaper *s, unsigned first, unsigned then, uint64_t at)
{
	unsigned e = s->next_event++ % JOB_EVENTS;

	job_phase_add(s->ph, JOB_RECORD, first, at)->slot = (uint16_t)e;
	job_phase_add(s->ph, JOB_WAIT, then, at)->slot = (uint16_t)e;
}

/* The payload of a collective, from the nccl:* operator around its launch. */
static int64_t collective_bytes(const struct shaper *s, const struct event *e)
{
	int64_t best = 0;

	for (size_t i = 0; i < s->t->count; i++) {
		const struct event *c = &s->t->events[i];

		if (c->kind == E_COLL && c->bytes && c->ts <= e->launch_ts &&
		    c->ts + c->dur >= e->launch_ts)
			best = c->bytes;
	}
	return best ? best : e->dur * 20; /* 20 GB/s assumed: most of such a kernel is waiting */
}

static enum job_collective collective_of(const char *name)
{
	if (strstr(name, "AllGather"))
		return JOB_ALLGATHER;
	if (strstr(name, "ReduceScatter"))
		return JOB_REDUCESCATTER;
	if (strstr(name, "SendRecv"))
		return JOB_ALLTOALL;
	if (strstr(name, "Broadcast"))
		return JOB_BROADCAST;
	return JOB_ALLREDUCE;
}

static void shape_kernel(struct shaper *s, const struct event *e, unsigned stream, uint64_t at)
{
	struct job_action *a = job_phase_add(s->ph, JOB_KERNEL, stream, at);
	uint64_t h = scramble(scramble_bytes(SCRAMBLE_SEED, e->name, strlen(e->name)));

	a->function = job_program_name(s->p, e->name);
	a->dur_ns = (uint64_t)(e->dur > 500 ? e->dur : 500);
	a->ex = !strncmp(e->name, "triton_", 7);
	for (int i = 0; i < 3; i++) {
		a->grid[i] = e->grid[i] ? e->grid[i] : i ? 1 : 1 + (uint32_t)(h % 1024);
		a->block[i] = e->block[i] ? e->block[i] : i ? 1 : 32u << (h >> 32) % 5;
	}
}

static void shape_gpu(struct shaper *s, const struct event *e, uint64_t at)
{
	unsigned stream = stream_index(s, e->stream);
	struct job_action *a;

	if (e->kind == E_NCCL) {
		if (s->ranks < 2) { /* a single rank: an ordinary kernel */
			shape_kernel(s, e, stream, at);
			return;
		}
		if (s->last_stream && s->last_stream != stream)
			order_streams(s, s->last_stream, stream, at);
		a = job_phase_add(s->ph, JOB_COLLECTIVE, stream, at);
		a->collective = (uint8_t)collective_of(e->name);
		a->bytes = (uint64_t)collective_bytes(s, e);
		s->pending = e;
		s->pending_stream = stream;
		s->wait_seen = false;
		return;
	}
	/* Work that began after a collective's end waits for it, if the host requested that in
	 * between. */
	if (s->pending && s->pending_stream != stream &&
	    e->ts >= s->pending->ts + s->pending->dur && (s->wait_seen || !s->traced_waits)) {
		order_streams(s, s->pending_stream, stream, at);
		s->pending = NULL;
	}
	s->last_stream = stream;
	if (e->kind == E_KERNEL) {
		shape_kernel(s, e, stream, at);
	} else if (e->kind == E_SET) {
		job_phase_add(s->ph, JOB_SET, stream, at)->bytes =
		    (uint64_t)(e->bytes ? e->bytes : 64);
	} else {
		enum job_action_kind k = strstr(e->name, "HtoD")   ? JOB_COPY_IN
					 : strstr(e->name, "DtoH") ? JOB_COPY_OUT
								   : JOB_COPY_DEVICE;

		job_phase_add(s->ph, k, stream, at)->bytes = (uint64_t)(e->bytes ? e->bytes : 64);
	}
}

static void shape_api(struct shaper *s, const struct event *e, uint64_t at)
{
	struct job_action *a;

	if (strstr(e->name, "StreamWaitEvent")) {
		s->wait_seen = s->pending != NULL;
		return;
	}
	if (!strstr(e->name, "Synchronize"))
		return;
	a = strstr(e->name, "Device") || strstr(e->name, "Ctx") || !s->last_stream
		? job_phase_add(s->ph, JOB_SYNC_ALL, 0, at)
		: job_phase_add(s->ph, JOB_SYNC, s->last_stream, at);
	a->dur_ns = at + (uint64_t)e->dur;
}

/* Events are in launch order. */
static void shape_phase(struct shaper *s)
{
	s->pending = NULL;
	s->last_stream = 0;
	for (size_t i = 0; i < s->t->count; i++) {
		const struct event *e = &s->t->events[i];

		if (e->launch_ts < s->begin || e->launch_ts >= s->end)
			continue;
		if (on_gpu(e))
			shape_gpu(s, e, (uint64_t)(e->launch_ts - s->begin));
		else if (e->kind == E_API)
			shape_api(s, e, (uint64_t)(e->ts - s->begin));
	}
	job_phase_add(s->ph, JOB_SYNC_ALL, 0, (uint64_t)(s->end - s->begin));
}

static unsigned choose_cycle(const struct job_program *p, uint64_t seed, uint64_t step)
{
	return (unsigned)(step % p->phase_count);
}

struct marks {
	int64_t starts[TRACE_MAX_STEPS], ends[TRACE_MAX_STEPS];
	const char *names[TRACE_MAX_STEPS];
	unsigned count;
};

/* A step may be marked on the host and again on the GPU: the first mark is the host's. */
static void mark_add(struct marks *m, const struct event *e)
{
	for (unsigned i = 0; i < m->count; i++)
		if (!strcmp(m->names[i], e->name))
			return;
	if (m->count == TRACE_MAX_STEPS)
		return;
	m->names[m->count] = e->name;
	m->starts[m->count] = e->ts;
	m->ends[m->count++] = e->ts + e->dur;
}

static int shape(struct job_program *p, struct trace *t, const char *path, int ranks)
{
	struct shaper s = {.p = p, .t = t, .ranks = ranks};
	struct marks m = {.count = 0};
	int64_t low = INT64_MAX, high = 0;

	find_launches(t);
	qsort(t->events, t->count, sizeof(*t->events), by_launch);
	for (size_t i = 0; i < t->count; i++) {
		const struct event *e = &t->events[i];

		if (e->kind == E_STEP)
			mark_add(&m, e);
		s.traced_waits |= e->kind == E_API && strstr(e->name, "StreamWaitEvent");
		if (on_gpu(e)) {
			low = e->launch_ts < low ? e->launch_ts : low;
			high = e->launch_ts + 1 > high ? e->launch_ts + 1 : high;
		}
	}
	if (low == INT64_MAX) {
		fprintf(stderr, "simjob: %s: no GPU work in it\n", path);
		return 2;
	}
	if (!m.count) {
		m.starts[0] = low;
		m.ends[0] = high;
		m.count = 1;
	}
	p->phases = job_alloc(m.count, sizeof(*p->phases));
	for (unsigned i = 0; i < m.count; i++) {
		s.ph = &p->phases[p->phase_count];
		s.begin = m.starts[i];
		/* Up to the next step's mark, without a gap. */
		s.end = i + 1 < m.count ? m.starts[i + 1] : m.ends[i];
		shape_phase(&s);
		if (s.ph->count < 2)
			continue;
		snprintf(s.ph->name, sizeof(s.ph->name), "traced-%u", i);
		p->nominal_ns += (uint64_t)(s.end - s.begin);
		p->phase_count++;
	}
	if (!p->phase_count) {
		fprintf(stderr, "simjob: %s: no GPU work in its steps\n", path);
		return 2;
	}
	p->nominal_ns /= p->phase_count;
	p->choose = choose_cycle;
	return 0;
}

/* Multiplies every time by `times`, relative to the first event. */
static void stretch(struct trace *t, unsigned times)
{
	int64_t low = INT64_MAX;

	for (size_t i = 0; i < t->count; i++)
		low = t->events[i].ts < low ? t->events[i].ts : low;
	for (size_t i = 0; i < t->count; i++) {
		t->events[i].ts = (t->events[i].ts - low) * times;
		t->events[i].dur *= times;
	}
}

int job_trace_build(struct job_program *p, const char *path, int ranks, unsigned times)
{
	struct trace t = {0};
	size_t bytes;
	int rc;

	t.text = read_text(path, &bytes);
	if (!t.text)
		return 2;
	rc = strstr(path, ".json") ? parse_json(&t, path, bytes) : parse_csv(&t, path);
	if (!rc) {
		stretch(&t, times);
		rc = shape(p, &t, path, ranks);
	}
	json_decref(t.json);
	free(t.events);
	free(t.text);
	return rc;
}

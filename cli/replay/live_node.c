/* SPDX-License-Identifier: Apache-2.0
 * Does what sysomd does between its rings and its socket (sysomd.c, drain.c, ship.c, requests.c,
 * sketch_maker.c), but has neither. */
#include "cli/replay/live_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "node/windows.h"

#define MEMORY_BYTES	(256ull << 20) /* of the recorder; sysomd keeps more in files */
#define DEVICE_LAG_NS	300000000ull
#define STEP_LAG_NS	1000000000ull
#define TEND_NS		250000000ull
#define BEAT_NS		5000000000ull
#define BEAT_SUSPECT_NS 1000000000ull
#define SKETCH_NS	60000000000ull
#define WINDOW_NS	4000000000ull
#define WINDOW_RECORDS	200000u
#define TASKS		128u
#define CLOCK_ERROR_NS	1000u

struct live_rank {
	struct live_trace from;
	struct wire_rank id;
	struct rank *rank;
	struct replay_cursor host;
	size_t device, call;
	uint64_t kernels, sketch_at_ns; /* sketch_at_ns: of the latest sketch; 0: none yet */
};

struct task {
	uint32_t slot;
	uint64_t begin_ns, end_ns; /* 0: free */
	uint8_t anomaly_id[16];
};

struct live_node {
	struct live_node_sink sink;
	char name[WIRE_TEXT_BYTES];
	int64_t realtime_offset_ns;
	uint64_t now_ns, tend_ns, beat_ns, closer_until_ns, sequence;
	struct recorder *recorder;
	struct windows *windows;
	struct live_rank *rank[LIMIT_NODE_PROCESSES];
	uint32_t count;
	struct beat_rank *beat; /* [LIMIT_NODE_PROCESSES] */
	uint32_t *name_map;
	struct task task[TASKS];
	int failed; /* -ENOMEM */
};

/* ---- windows ---- */

static const char *name_of(void *arg, uint32_t id)
{
	const struct live_rank *r = arg;

	return id < r->from.trace->names.count ? r->from.trace->names.text[id] : "";
}

static int pack(struct live_node *n, struct live_rank *r, const struct windows_request *q,
		struct buf *out)
{
	struct window w = {.rank = r->id,
			   .realtime_offset_ns = n->realtime_offset_ns,
			   .clock_error_ns = CLOCK_ERROR_NS};
	int err;

	stack_batch_init(&w.stacks, keyed_process());
	rank_fresh_id(r->rank, w.id);
	err = windows_fill(&w, q, r->rank);
	if (!err && !q->summary_only)
		err = windows_records(&w, q, r->rank, WINDOW_RECORDS);
	if (!err)
		err = windows_names(&w, n->name_map, name_of, r);
	if (!err)
		err = windows_encode(&w, out);
	wire_window_free(&w);
	return err;
}

/* Encodes and decodes the window, so that the aggregator's code gets what it gets live. */
static void ship(void *arg, uint32_t slot, const struct windows_request *q)
{
	struct live_node *n = arg;
	struct buf packed;
	struct window w;
	int err;

	buf_init(&packed, LIMIT_WIRE_MESSAGE_BYTES);
	err = pack(n, n->rank[slot], q, &packed);
	if (!err)
		err = wire_window_decode(packed.data, packed.bytes, &w);
	if (!err) {
		n->sink.window(n->sink.arg, &w, packed.bytes);
		wire_window_free(&w);
	}
	n->failed = err ? err : n->failed;
	buf_fini(&packed);
}

static uint64_t now_of(void *arg)
{
	const struct live_node *n = arg;

	return n->now_ns;
}

/* ---- the aggregator's requests ---- */

static void ask(struct live_node *n, uint32_t slot, const struct wire_command *c)
{
	for (uint32_t i = 0; i < TASKS; i++) {
		struct task *t = &n->task[i];

		if (t->end_ns)
			continue;
		*t = (struct task){.slot = slot, .begin_ns = c->begin_ns, .end_ns = c->end_ns};
		memcpy(t->anomaly_id, c->anomaly_id, sizeof(t->anomaly_id));
		return;
	}
}

void live_node_command(struct live_node *n, const struct wire_command *c, uint64_t now_ns)
{
	for (uint32_t i = 0; i < n->count; i++) {
		if (c->rank != INT32_MIN && c->rank != n->rank[i]->id.rank)
			continue;
		if (c->kind == WIRE_COMMAND_SUSPECT)
			windows_suspect(n->windows, c->end_ns, now_ns);
		else if (c->kind == WIRE_COMMAND_WINDOW && c->end_ns > c->begin_ns)
			ask(n, i, c);
	}
}

static void answer(struct live_node *n, struct task *t)
{
	static const uint8_t none[16];
	struct windows_request q = {
	    .reason = WINDOW_ASKED, .begin_ns = t->begin_ns, .end_ns = t->end_ns};

	if (memcmp(t->anomaly_id, none, sizeof(none)))
		q.anomaly_id = t->anomaly_id;
	if (windows_steps(&q, n->rank[t->slot]->rank))
		n->failed = -ENOMEM;
	else
		ship(n, t->slot, &q);
	free(q.steps);
	t->end_ns = 0;
}

/* ---- beats and sketches ---- */

static void beat(struct live_node *n)
{
	struct beat b = {.sequence = n->sequence++,
			 .now_ns = n->now_ns,
			 .ranks = n->beat,
			 .rank_count = n->count,
			 .realtime_offset_ns = n->realtime_offset_ns};
	uint64_t boot = hash_bytes(HASH_SEED, n->name, strlen(n->name));
	struct beat got;
	struct buf packed;
	int err;

	memcpy(b.node, n->name, sizeof(b.node));
	memcpy(b.boot_id, &boot, sizeof(boot));
	for (uint32_t i = 0; i < n->count; i++) {
		struct beat_rank *r = &n->beat[i];

		rank_beat(n->rank[i]->rank, r);
		r->rank = n->rank[i]->id;
		r->events = n->rank[i]->host.host + n->rank[i]->device;
		r->kernels_joined = n->rank[i]->kernels;
		r->flags = windows_flags(n->windows, i, n->now_ns);
		beats_fill(n->rank[i]->rank->beats, r, n->now_ns);
	}
	buf_init(&packed, LIMIT_WIRE_MESSAGE_BYTES);
	err = wire_beat_encode(&b, &packed);
	if (!err)
		err = wire_beat_decode(packed.data, packed.bytes, &got);
	if (!err) {
		n->sink.beat(n->sink.arg, &got);
		wire_beat_free(&got);
	}
	n->failed = err ? err : n->failed;
	buf_fini(&packed);
}

static void sketch(struct live_node *n, struct live_rank *r)
{
	struct sketch s = {.rank = r->id, .realtime_offset_ns = n->realtime_offset_ns};
	struct normal_when when;
	struct buf packed;
	uint64_t gone;
	int err;

	if (!rank_has_sketch(r->rank))
		return;
	r->sketch_at_ns = n->now_ns;
	buf_init(&packed, LIMIT_WIRE_MESSAGE_BYTES);
	err = rank_sketch(r->rank, name_of, r, &s, &when);
	if (!err)
		err = wire_sketch_fit(&s, &packed, &gone);
	if (!err)
		n->sink.sketch(n->sink.arg, &s, &packed);
	n->failed = err ? err : n->failed;
	buf_fini(&packed);
	wire_sketch_free(&s);
}

/* ---- records ---- */

static void push(struct live_rank *r, uint64_t now_ns)
{
	uint64_t ended_ns = now_ns > DEVICE_LAG_NS ? now_ns - DEVICE_LAG_NS : 0;
	uint64_t until_ns = now_ns > STEP_LAG_NS ? now_ns - STEP_LAG_NS : 0;
	const struct replay_trace *t = r->from.trace;

	while (r->call < r->from.call_count && r->from.calls[r->call].begin_ns <= now_ns)
		beats_host(r->rank->beats, &r->from.calls[r->call++]);
	while (replay_cursor_ns(&r->host) <= now_ns) {
		struct record x = replay_cursor_take(&r->host);

		rank_host(r->rank, &x, NULL);
	}
	while (r->device < t->device_count && t->device[r->device].end_ns <= ended_ns) {
		const struct record *x = &t->device[r->device++];

		r->kernels += x->kind == RECORD_KERNEL || x->kind == RECORD_COLL_KERNEL;
		rank_device(r->rank, x);
	}
	if (r->device < t->device_count && t->device[r->device].begin_ns < until_ns)
		until_ns = t->device[r->device].begin_ns;
	rank_run(r->rank, until_ns, now_ns);
}

static bool goes_on(const struct live_rank *r)
{
	return replay_cursor_ns(&r->host) != UINT64_MAX || r->device < r->from.trace->device_count;
}

/* Whether the GPU still has launched work. */
static bool works(const struct live_rank *r, uint64_t now_ns)
{
	const struct replay_trace *t = r->from.trace;
	const struct record *next = r->device < t->device_count ? &t->device[r->device] : NULL;

	return next && (next->launch_ns ? next->launch_ns : next->begin_ns) <= now_ns;
}

static void tend(struct live_node *n)
{
	windows_tend(n->windows, n->now_ns);
	for (uint32_t i = 0; i < n->count; i++) {
		if (goes_on(n->rank[i]) && rank_is_still(n->rank[i]->rank, n->now_ns))
			windows_still(n->windows, i, works(n->rank[i], n->now_ns), n->now_ns);
		if (!n->rank[i]->sketch_at_ns || n->now_ns - n->rank[i]->sketch_at_ns >= SKETCH_NS)
			sketch(n, n->rank[i]);
	}
	for (uint32_t i = 0; i < TASKS; i++)
		if (n->task[i].end_ns && n->now_ns >= n->task[i].end_ns + WINDOWS_SETTLE_NS)
			answer(n, &n->task[i]);
	if (n->beat_ns && n->now_ns - n->beat_ns <
			      (windows_is_close(n->windows, n->now_ns) ? BEAT_SUSPECT_NS : BEAT_NS))
		return;
	n->beat_ns = n->now_ns;
	beat(n);
}

int live_node_turn(struct live_node *n, uint64_t now_ns)
{
	n->now_ns = now_ns;
	for (uint32_t i = 0; i < n->count; i++)
		push(n->rank[i], now_ns);
	if (!n->tend_ns || now_ns - n->tend_ns >= TEND_NS) {
		n->tend_ns = now_ns;
		tend(n);
	}
	return n->failed;
}

uint64_t live_node_next_ns(const struct live_node *n)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < n->count; i++) {
		const struct live_rank *r = n->rank[i];
		const struct replay_trace *t = r->from.trace;
		uint64_t host = replay_cursor_ns(&r->host);
		uint64_t device =
		    r->device < t->device_count ? t->device[r->device].end_ns : UINT64_MAX;

		next = host < next ? host : next;
		next = device < next ? device : next;
	}
	return next;
}

int live_node_finish(struct live_node *n, uint64_t now_ns)
{
	n->now_ns = now_ns;
	for (uint32_t i = 0; i < n->count; i++) {
		push(n->rank[i], now_ns);
		rank_run(n->rank[i]->rank, UINT64_MAX, now_ns);
		rank_finish(n->rank[i]->rank, now_ns);
		windows_flush(n->windows, i, now_ns);
	}
	tend(n);
	beat(n);
	return n->failed;
}

/* ---- open and close ---- */

int live_node_open(struct live_node **out, const char *name, int64_t realtime_offset_ns,
		   enum peers_mode mode, const struct live_node_sink *sink)
{
	struct recorder_config rc = {.memory_bytes = MEMORY_BYTES,
				     .ranks_max = LIMIT_NODE_PROCESSES};
	struct live_node *n = calloc(1, sizeof(*n));
	struct windows_config wc = {.peers = true,
				    .peers_mode = mode,
				    .length_ns = WINDOW_NS,
				    .now_ns = now_of,
				    .ship = ship};
	int err;

	if (!n)
		return -ENOMEM;
	wc.closer_until_ns = &n->closer_until_ns;
	wc.arg = n;
	n->sink = *sink;
	n->realtime_offset_ns = realtime_offset_ns;
	snprintf(n->name, sizeof(n->name), "%s", name);
	n->beat = calloc(LIMIT_NODE_PROCESSES, sizeof(*n->beat));
	n->name_map = malloc(sizeof(*n->name_map) * (LIMIT_NAME_COUNT + 1));
	err = n->beat && n->name_map ? recorder_open(&n->recorder, &rc) : -ENOMEM;
	if (!err)
		err = windows_open(&n->windows, &wc);
	if (err)
		live_node_close(n);
	else
		*out = n;
	return err;
}

void live_node_close(struct live_node *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->count; i++) {
		rank_close(n->rank[i]->rank);
		free(n->rank[i]);
	}
	windows_close(n->windows);
	recorder_close(n->recorder);
	free(n->beat);
	free(n->name_map);
	free(n);
}

int live_node_add(struct live_node *n, const struct live_trace *t, uint64_t now_ns)
{
	struct live_rank *r;
	struct rank_config c;
	int err;

	if (n->count == LIMIT_NODE_PROCESSES)
		return -ENOSPC;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->from = *t;
	r->host = (struct replay_cursor){.trace = t->trace, .marks = t->marks};
	snprintf(r->id.job, sizeof(r->id.job), "replay");
	memcpy(r->id.node, n->name, sizeof(r->id.node));
	r->id.rank = t->rank;
	r->id.local_rank = (int32_t)n->count;
	r->id.world_size = t->world_size;
	r->id.pid = (uint32_t)t->rank + 1;
	rank_config_default(&c);
	c.steps.automatic_only = !t->marks;
	err = recorder_add_rank(n->recorder, n->count, n->count + 1);
	if (!err)
		err = rank_open(&r->rank, &c, n->recorder, n->count, NULL,
				hash_mix(HASH_SEED + (uint64_t)t->rank), now_ns);
	if (err) {
		free(r);
		return err;
	}
	windows_add(n->windows, n->count, &r->id, r->rank);
	n->rank[n->count++] = r;
	return 0;
}

void live_node_steps(const struct live_node *n, uint64_t *steps, uint64_t *flagged)
{
	for (uint32_t i = 0; i < n->count; i++) {
		*steps += n->rank[i]->rank->stats.steps;
		*flagged += n->rank[i]->rank->stats.flagged;
	}
}

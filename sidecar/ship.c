/* SPDX-License-Identifier: Apache-2.0
 * Turns the windows that windows.c requests into messages, and makes the beats. Nothing else leaves
 * the node (INV-10). */
#include "sidecar/ship.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "analysis/cause/excerpt.h"
#include "base/daemon/log.h"
#include "base/hash.h"
#include "base/version.h"
#include "base/text/text.h"
#include "sidecar/drain.h"
#include "sidecar/gpu/gpu_node.h"
#include "sidecar/os/os_node.h"
#include "sidecar/process.h"
#include "sidecar/serving/request_node.h"
#include "sidecar/stacks/cpu_stacks.h"
#include "sidecar/stacks/symbol_offer.h"

/* If no step ends for this long, a beat names the GPU's unfinished work. */
#define SHIP_STILL_NS 3000000000ull
#define SHIP_ENDED_NS 15000000000ull
/* Two drains of the sampler. A look at what a rank waits for covers at most this time. */
#define SHIP_WAIT_NS	  10000000000ull
#define SHIP_WAIT_RECORDS 4096u
#define SHIP_STEPS_AHEAD  2.0 /* steps that a host launches ahead of its GPU, at most */

struct ship {
	uint64_t beat_sequence;
	uint32_t names[LIMIT_NAME_COUNT + 1]; /* scratch of windows_names */
};

/* ---- one window ---- */

static void random_id(uint8_t id[16])
{
	uint64_t v = clock_ticks();

	if (getrandom(id, 16, GRND_NONBLOCK) == 16)
		return;
	for (int i = 0; i < 2; i++) {
		v = hash_mix(v + 0x9e3779b97f4a7c15ull);
		memcpy(id + 8 * i, &v, 8);
	}
}

static void add_loss(void *arg, const char *cause, uint64_t count)
{
	windows_loss(arg, cause, count);
}

/* Stacks that exceed the window's limits are left out and counted: a part of them would mislead.
 * The summary of a rank that only waits has no stacks; the aggregator can ask for the window
 * (WINDOW_ASKED). */
static int fill_stacks(struct process *p, struct window *w, const struct windows_request *q)
{
	uint32_t frames_max =
	    q->summary_only ? LIMIT_WINDOW_SUMMARY_STACK_FRAMES : LIMIT_WINDOW_STACK_FRAMES;
	struct windows_piece piece[ANOMALY_REFERENCE_MAX + 1];
	uint32_t n = windows_pieces(q, piece);
	int err = 0;

	if (q->summary_only && q->reason == WINDOW_COMM)
		return 0;
	for (uint32_t i = 0; i < n && !err; i++)
		err = cpu_stacks_extract(p->node->stacks, p->pid > 0 ? (uint32_t)p->pid : 0,
					 piece[i].begin_ns, piece[i].end_ns, &w->stacks);
	if (err == -ENOMEM)
		return err;
	if (err && err != -ENOSYS)
		log_warn("stacks", "rank=%d: a window goes without stacks: %s", p->id.rank,
			 strerror(-err));
	if (err || w->stacks.frame_count > frames_max ||
	    w->stacks.sample_count > LIMIT_WINDOW_STACK_SAMPLES ||
	    w->stacks.switch_count > LIMIT_WINDOW_SWITCHES) {
		if (err != -ENOSYS)
			add_loss(w, "stacks_too_large", 1);
		stack_batch_clear(&w->stacks);
	}
	for (uint32_t i = 0; i < w->stacks.object_count; i++) {
		const struct stack_object *o = &w->stacks.objects[i];

		symbol_offer_note(p->node->offer, o->build_id, o->build_id_bytes,
				  stack_batch_text(&w->stacks, o->path), (uint32_t)p->pid);
	}
	if (w->stacks.lost_samples)
		add_loss(w, "stack_samples", w->stacks.lost_samples);
	return 0;
}

/* Finds the GPU's oldest unfinished work. Ignores work launched long before the latest step: since
 * steps went on without it, it is a kernel that runs forever (a server on the GPU), or its record
 * is lost. */
static void find_unfinished(const struct process *p, double latency_ns, struct join_unfinished *out)
{
	uint64_t last = p->rank->stats.last_step_end_ns;
	uint64_t before = (uint64_t)(SHIP_STEPS_AHEAD * latency_ns);

	*out = (struct join_unfinished){.kind = JOIN_UNFINISHED_NONE};
	if (p->join)
		join_unfinished(p->join, last > before ? last - before : 0, out);
}

/* When the steps stopped, if long enough ago that unfinished work explains it; 0: they continue. */
static uint64_t fill_unfinished(const struct process *p, double latency_ns,
				struct beat_unfinished *out, uint64_t now_ns)
{
	uint64_t last = rank_still_since(p->rank);
	struct join_unfinished u;

	now_ns = now_ns < p->lanes.drained_ns ? now_ns : p->lanes.drained_ns;
	if (!last || now_ns < last + SHIP_STILL_NS ||
	    (double)(now_ns - last) < SHIP_STEPS_AHEAD * latency_ns)
		return 0;
	find_unfinished(p, latency_ns, &u);
	if (!u.kind)
		return last;
	out->kind = u.kind;
	out->stream = u.stream;
	out->launch_ns = u.launch_ns;
	snprintf(out->name, sizeof(out->name), "%s",
		 u.kind == JOIN_UNFINISHED_COLL && u.func ? record_coll_name(u.func)
		 : p->reader				  ? ring_reader_name(p->reader, u.name)
							  : "");
	return last;
}

/* Fills the window of a rank that stands still: its last launches, which show its launch threads,
 * and what its threads did recently. */
static int fill_still(struct process *p, uint64_t still_ns, uint64_t now_ns, struct window *w)
{
	struct windows_request q = {
	    .begin_ns = still_ns > SHIP_WAIT_NS ? still_ns - SHIP_WAIT_NS : 0, .end_ns = now_ns};
	uint64_t begin_ns = now_ns - still_ns > SHIP_WAIT_NS ? now_ns - SHIP_WAIT_NS : still_ns;
	int err;

	*w = (struct window){
	    .rank = p->id, .begin_ns = begin_ns, .end_ns = now_ns, .open_since_ns = still_ns};
	stack_batch_init(&w->stacks, keyed_process());
	err = windows_records(w, &q, p->rank, SHIP_WAIT_RECORDS);
	return err ? err
		   : cpu_stacks_extract(p->node->stacks, p->pid > 0 ? (uint32_t)p->pid : 0,
					begin_ns, now_ns, &w->stacks);
}

/* What the launch thread waits for if the GPU has nothing to do. A rank without requests stands
 * still for hours, so each look comes after twice the time. */
static void find_wait(struct process *p, uint64_t still_ns, struct beat_unfinished *out,
		      uint64_t now_ns)
{
	struct process_wait *wait = &p->wait;
	struct excerpt *x = NULL;
	struct window w;

	if (wait->still_ns != still_ns)
		*wait = (struct process_wait){.still_ns = still_ns, .looked_ns = still_ns};
	if (now_ns - still_ns >= 2 * (wait->looked_ns - still_ns)) {
		wait->looked_ns = now_ns;
		if (!fill_still(p, still_ns, now_ns, &w))
			x = excerpt_make(&w, NULL, NULL);
		wait->found = x ? x->wait : (struct beat_unfinished){.kind = 0};
		/* it waited for this all the time, as far as the looks show */
		if (wait->found.kind)
			wait->found.launch_ns = still_ns;
		excerpt_drop(x);
		wire_window_free(&w);
	}
	*out = wait->found;
}

/* Fills the open interval. A process that has ended waits for nothing, so it gets none. */
static void fill_open(const struct process *p, struct window *w)
{
	struct rank_medians m;

	if (p->state == PROCESS_GONE)
		return;
	rank_medians(p->rank, &m);
	w->open_since_ns = fill_unfinished(p, m.latency_ns, &w->unfinished, w->end_ns);
}

static int fill_window(struct process *p, struct window *w, const struct windows_request *q)
{
	struct node *n = p->node;
	const struct clockmap *c = &n->clock;
	const struct clockmap_anchor *a = &c->anchors[c->count - 1];
	int err;

	*w = (struct window){.rank = p->id, .clock_error_ns = c->error_ns};
	stack_batch_init(&w->stacks, keyed_process());
	w->realtime_offset_ns = (int64_t)(a->realtime_ns - a->monotonic_ns);
	random_id(w->id);
	process_losses(p, true, add_loss, w);
	err = windows_fill(w, q, p->rank);
	if (err)
		return err;
	fill_open(p, w);
	if (os_node_read(p)) {
		/* after os_node_read, so that both count in the same second */
		gpu_node_tend(n, clock_monotonic_ns());
		os_node_fill(p, w);
	}
	if (!q->summary_only)
		err = windows_records(w, q, p->rank, (uint32_t)n->settings.window_records);
	if (!err)
		err = fill_stacks(p, w, q);
	return err ? err : windows_names(w, n->ship->names, process_name, p);
}

/* Encodes the window into an empty buffer, which the caller frees. id: 16 bytes, or NULL. */
static int pack(struct process *p, const struct windows_request *q, uint8_t *id, struct buf *out)
{
	struct window w;
	int err;

	buf_init(out, LIMIT_WIRE_MESSAGE_BYTES);
	err = fill_window(p, &w, q);
	if (!err)
		err = windows_encode(&w, out);
	if (err) {
		log_warn("window", "rank=%d reason=%s: not made: %s", p->id.rank,
			 window_reason_name(q->reason), strerror(-err));
		buf_fini(out);
	} else {
		log_info("window",
			 "rank=%d reason=%s steps=%u records=%u stacks=%u bytes=%zu summary=%d",
			 p->id.rank, window_reason_name(q->reason), w.step_count,
			 w.host_count + w.device_count, w.stacks.sample_count, out->bytes,
			 w.summary_only);
	}
	if (id)
		memcpy(id, w.id, sizeof(w.id));
	wire_window_free(&w);
	return err;
}

static int ship(struct process *p, const struct windows_request *q)
{
	struct buf b;
	int err = pack(p, q, NULL, &b);

	if (!err)
		uplink_put_window(p->node->uplink, &b);
	return err;
}

/* ---- windows ---- */

static void on_request(void *arg, uint32_t slot, const struct windows_request *q)
{
	struct node *n = arg;

	ship(n->processes[slot], q);
}

static uint64_t now_of(void *arg)
{
	return clock_monotonic_ns();
}

int ship_open(struct node *n)
{
	struct windows_config c = {.peers = n->settings.node_peers,
				   .peers_mode = (enum peers_mode)n->settings.peers_mode,
				   .length_ns = n->settings.window_length_ns,
				   .log = n->analysis.log,
				   .closer_until_ns = &n->analysis.closer_until_ns,
				   .now_ns = now_of,
				   .ship = on_request,
				   .arg = n};

	n->ship = calloc(1, sizeof(*n->ship));
	if (!n->ship)
		return -ENOMEM;
	return windows_open(&n->analysis.windows, &c);
}

void ship_close(struct node *n)
{
	windows_close(n->analysis.windows);
	free(n->ship);
}

/* Checks whether a rank stands still. If we did not run ourselves, and so did not read its ring, it
 * may have gone on. */
static void look_at_stall(const struct process *p)
{
	uint64_t now_ns = p->lanes.drained_ns;
	struct join_unfinished u;
	struct rank_medians m;

	if (!rank_is_still(p->rank, now_ns))
		return;
	rank_medians(p->rank, &m);
	find_unfinished(p, m.latency_ns, &u);
	windows_still(p->node->analysis.windows, p->slot, u.kind != JOIN_UNFINISHED_NONE, now_ns);
}

void ship_tend(struct node *n, uint64_t now_ns)
{
	windows_tend(n->analysis.windows, now_ns);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (process_is_read(n->processes[i]))
			look_at_stall(n->processes[i]);
}

void ship_flush(struct node *n)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (p && p->join)
			drain_last(p);
		if (p)
			windows_flush(n->analysis.windows, i, clock_monotonic_ns());
	}
}

static int pack_range(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
		      const uint8_t *anomaly_id, uint8_t *id, struct buf *out)
{
	struct windows_request q = {
	    .reason = reason, .begin_ns = begin_ns, .end_ns = end_ns, .anomaly_id = anomaly_id};
	int err = windows_steps(&q, p->rank);

	if (!err)
		err = pack(p, &q, id, out);
	free(q.steps);
	return err;
}

int ship_pack(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	      const uint8_t *anomaly_id, struct buf *out)
{
	return pack_range(p, reason, begin_ns, end_ns, anomaly_id, NULL, out);
}

int ship_range(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	       const uint8_t *anomaly_id, uint8_t id[16])
{
	struct buf b;
	int err = pack_range(p, reason, begin_ns, end_ns, anomaly_id, id, &b);

	if (!err)
		uplink_put_window(p->node->uplink, &b);
	return err;
}

/* ---- beats ---- */

static void fill_beat_rank(struct process *p, struct beat_rank *b, uint64_t now_ns)
{
	uint64_t still_ns;

	rank_beat(p->rank, b);
	b->rank = p->id;
	b->trace_state = p->link.trace_state;
	b->cupti_state = p->link.cupti_state;
	b->events = process_events(p);
	b->lost = process_lost(p);
	b->kernels_joined = process_join_stats(p)->kernels_joined;
	b->kernels_unmatched = process_join_stats(p)->kernels_unmatched;
	if (p->state == PROCESS_GONE) {
		b->flags = BEAT_RANK_ENDED;
		b->stalled_since_ns = 0;
		return;
	}
	b->flags = windows_flags(p->node->analysis.windows, p->slot, now_ns) |
		   (cpu_stacks_raised(p->node->stacks) ? BEAT_RANK_WIDE : 0);
	still_ns = fill_unfinished(p, b->latency_median_ns, &b->unfinished, now_ns);
	if (still_ns && !b->unfinished.kind && p->link.trace_state == RING_TRACE_ON)
		find_wait(p, still_ns, &b->unfinished, now_ns);
	beats_fill(p->rank->beats, b, now_ns);
}

/* An ended process is reported in several beats, because a beat may be lost; not if the same rank
 * attached again. */
static bool is_reported(const struct node *n, const struct process *p, uint64_t now_ns)
{
	if (p->state != PROCESS_GONE)
		return true;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *o = n->processes[i];

		if (o && o->state != PROCESS_GONE && o->id.rank == p->id.rank &&
		    !strcmp(o->id.job, p->id.job))
			return false;
	}
	return !p->join && now_ns < p->left_ns + SHIP_ENDED_NS;
}

static void fill_beat(struct node *n, struct beat *b, struct beat_rank *ranks, uint64_t now_ns)
{
	const struct clockmap_anchor *a = &n->clock.anchors[n->clock.count - 1];
	struct uplink_stats us;

	*b = (struct beat){.sequence = n->ship->beat_sequence++,
			   .now_ns = now_ns,
			   .ranks = ranks,
			   .raw_bytes = n->admission.raw_bytes_gone};
	memcpy(b->node, n->settings.node_name, sizeof(b->node));
	text_copy(b->version, sizeof(b->version), SYSOM_VERSION);
	memcpy(b->boot_id, n->run.boot_id, sizeof(b->boot_id));
	b->realtime_offset_ns = (int64_t)(a->realtime_ns - a->monotonic_ns);
	uplink_stats(n->uplink, &us);
	b->uploaded_bytes = us.uploaded_bytes;
	b->windows_dropped = us.windows_dropped;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (!p)
			continue;
		b->raw_bytes += process_raw_bytes(p);
		if (is_reported(n, p, now_ns))
			fill_beat_rank(p, &ranks[b->rank_count++], now_ns);
	}
	request_node_beat(n, b, now_ns);
}

void ship_beat(struct node *n, uint64_t now_ns)
{
	struct beat_rank *ranks = calloc(LIMIT_NODE_PROCESSES, sizeof(*ranks));
	struct beat b;
	struct buf out;
	int err = -ENOMEM;

	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	if (ranks) {
		fill_beat(n, &b, ranks, now_ns);
		err = wire_beat_encode(&b, &out);
	}
	if (!err && out.bytes > (size_t)LIMIT_BEAT_BYTES_PER_RANK * (b.rank_count + 1))
		err = -EMSGSIZE;
	if (err) {
		log_warn("beat", "not sent: %s", strerror(-err));
		buf_fini(&out);
	} else {
		uplink_put_beat(n->uplink, &out);
	}
	free(ranks);
}

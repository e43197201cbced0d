/* SPDX-License-Identifier: Apache-2.0
 * From a closed anomaly to a message, and the beats. INV-10: this is all that leaves the node.
 * A rank that only waits for others ships no records while a rank of the same job here is the
 * suspect: the suspect's own window shows more. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"
#include "base/log.h"
#include "sidecar/node.h"
#include "sidecar/cpu_stacks.h"
#include "analysis/local_peers.h"
#include "sidecar/symbol_offer.h"

/* How long a waiting rank's window waits for a suspect to show up. */
#define SHIP_ARBITRATION_NS 1000000000ull
/* A suspect's flags count this long before and after the window. */
#define SHIP_SUSPECT_SLACK_NS 3000000000ull
#define SHIP_ASKED_STEPS 256u
#define SHIP_PEER_STEPS 64u
/* Without a step for so long, a beat tells what the GPU does not end. */
#define SHIP_STILL_NS 3000000000ull
#define SHIP_STEPS_AHEAD 2.0 /* of the GPU, that a host launches at most */
/* While a rank stays slow among its peers, a window so often: an aggregator closes an incident of which it
 * has heard nothing for 30 s. */
#define SHIP_PEER_AGAIN_NS 20000000000ull
/* The second one sooner: by then all ticks have been sampled for a while. */
#define SHIP_PEER_SECOND_NS 6000000000ull
/* And beats at a suspect's pace, all ticks sampled, for so long from when it is found. */
#define SHIP_PEER_SUSPECT_NS 30000000000ull

struct request {
	uint32_t reason;
	bool summary_only;
	struct window_step *steps;
	uint32_t step_count;
	uint64_t begin_ns, end_ns;
	const uint8_t *anomaly_id; /* NULL: one of its own */
	uint32_t sequence;
	bool explain;
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

/* Ids of the process become dense ids of the window. */
static uint32_t map_name(struct node *n, struct window *w, const struct process *p, uint32_t name)
{
	const char *text;

	if (!name || name > LIMIT_NAME_COUNT)
		return 0;
	if (n->name_map[name])
		return n->name_map[name];
	text = ring_reader_name(p->reader, name);
	if (!*text || w->name_count >= LIMIT_WINDOW_NAMES)
		return 0;
	w->names[w->name_count] = (char *)(uintptr_t)text; /* borrowed from the reader */
	return n->name_map[name] = w->name_count++;
}

static int fill_names(struct node *n, struct window *w, const struct process *p)
{
	static char nameless[1];

	w->names = calloc(LIMIT_NAME_COUNT + 1, sizeof(char *));
	if (!w->names)
		return -ENOMEM;
	w->names[0] = nameless;
	w->name_count = 1;
	memset(n->name_map, 0, sizeof(*n->name_map) * (LIMIT_NAME_COUNT + 1));
	for (uint32_t i = 0; i < w->host_count; i++)
		w->host[i].name = map_name(n, w, p, w->host[i].name);
	for (uint32_t i = 0; i < w->device_count; i++)
		w->device[i].name = map_name(n, w, p, w->device[i].name);
	for (uint32_t i = 0; i < w->part_count; i++)
		w->parts[i].name = map_name(n, w, p, w->parts[i].name);
	for (uint32_t i = 0; i < w->step_count; i++)
		if (w->steps[i].step.source == STEP_SOURCE_EXPLICIT)
			w->steps[i].step.phase = map_name(n, w, p, w->steps[i].step.phase);
	return 0;
}

static void add_loss(void *arg, const char *cause, uint64_t count)
{
	struct window *w = arg;
	size_t bytes = strlen(cause);

	if (!count || w->loss_count == WIRE_LOSS_MAX)
		return;
	if (bytes >= sizeof(w->losses[0].cause))
		bytes = sizeof(w->losses[0].cause) - 1;
	memcpy(w->losses[w->loss_count].cause, cause, bytes);
	w->losses[w->loss_count++].count = count;
}

static int fill_records(struct process *p, struct window *w, const struct request *q)
{
	struct node *n = p->node;
	struct recorder_extract x;
	uint64_t until = q->end_ns;
	int err;

	/* The device runs behind the host. */
	for (uint32_t i = 0; i < q->step_count; i++)
		if (q->steps[i].step.device_end_ns > until &&
		    q->steps[i].step.device_end_ns < q->end_ns + 60000000000ull)
			until = q->steps[i].step.device_end_ns;
	err = recorder_extract(n->recorder, p->slot, q->begin_ns, until,
			       (uint32_t)n->settings.window_records, &x);
	if (err)
		return err;
	while (x.host_count && x.host[x.host_count - 1].begin_ns > q->end_ns)
		x.host_count--;
	w->host = x.host;
	w->host_count = x.host_count;
	w->device = x.device;
	w->device_count = x.device_count;
	w->raw_bytes = (uint64_t)x.host_count * RING_HOST_SLOT_BYTES +
		       (uint64_t)x.device_count * RING_DEVICE_SLOT_BYTES;
	if (x.cut)
		add_loss(w, "window_cut", 1);
	return 0;
}

/* What a window can't hold is not sent at all and counted: a part of the stacks would mislead. A rank
 * that only waits sends none with its summary: who wants them asks for the window (WINDOW_ASKED). */
static int fill_stacks(struct process *p, struct window *w, const struct request *q)
{
	uint32_t frames_max = q->summary_only ? LIMIT_WINDOW_SUMMARY_STACK_FRAMES :
						LIMIT_WINDOW_STACK_FRAMES;
	int err;

	if (q->summary_only && q->reason == WINDOW_COMM)
		return 0;
	err = cpu_stacks_extract(p->node, p->pid > 0 ? (uint32_t)p->pid : 0, q->begin_ns, q->end_ns,
				 &w->stacks);
	if (err == -ENOMEM)
		return err;
	if (err && err != -ENOSYS)
		log_warn("stacks", "rank=%d: %s", p->id.rank, strerror(-err));
	if (err || w->stacks.frame_count > frames_max ||
	    w->stacks.sample_count > LIMIT_WINDOW_STACK_SAMPLES) {
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

static int fill_window(struct process *p, struct window *w, const struct request *q)
{
	const struct clockmap *c = &p->node->clock;
	const struct clockmap_anchor *a = &c->anchors[c->count - 1];
	int err = 0;

	*w = (struct window){ .rank = p->id, .begin_ns = q->begin_ns, .end_ns = q->end_ns,
			      .reason = q->reason, .sequence = q->sequence,
			      .summary_only = q->summary_only, .clock_error_ns = c->error_ns };
	stack_batch_init(&w->stacks);
	w->realtime_offset_ns = (int64_t)(a->realtime_ns - a->monotonic_ns);
	random_id(w->id);
	memcpy(w->anomaly_id, q->anomaly_id ? q->anomaly_id : w->id, 16);
	w->model_state = rank_model(p->rank, &w->model_r2, &w->model_spread);
	process_losses(p, add_loss, w);
	if (q->step_count) {
		w->steps = malloc(sizeof(*w->steps) * q->step_count);
		if (!w->steps)
			return -ENOMEM;
		memcpy(w->steps, q->steps, sizeof(*w->steps) * q->step_count);
		w->step_count = q->step_count;
	}
	if (q->explain) {
		w->parts = calloc(EXPLAIN_PARTS_MAX, sizeof(*w->parts));
		if (!w->parts)
			return -ENOMEM;
		w->part_count = explain_parts(p->rank->explain, w->parts, EXPLAIN_PARTS_MAX);
	}
	os_node_fill(p, w);
	if (!q->summary_only)
		err = fill_records(p, w, q);
	if (!err)
		err = fill_stacks(p, w, q);
	return err ? err : fill_names(p->node, w, p);
}

/* Too large for one message: the stacks stay behind, then the records; the steps and what explains
 * them always go. */
static int encode(struct window *w, struct buf *out)
{
	int err = wire_window_encode(w, out);

	if (err == -EMSGSIZE && w->stacks.sample_count) {
		stack_batch_clear(&w->stacks);
		add_loss(w, "stacks_too_large", 1);
		buf_clear(out);
		err = wire_window_encode(w, out);
	}
	if (err != -EMSGSIZE || w->summary_only)
		return err;
	free(w->host);
	free(w->device);
	w->host = w->device = NULL;
	w->host_count = w->device_count = 0;
	w->summary_only = true;
	add_loss(w, "window_too_large", 1);
	buf_clear(out);
	return wire_window_encode(w, out);
}

/* The message, into an empty buffer that is the caller's to free. */
static int pack(struct process *p, const struct request *q, struct buf *out)
{
	struct window w;
	int err;

	buf_init(out, LIMIT_WIRE_MESSAGE_BYTES);
	err = fill_window(p, &w, q);
	if (!err)
		err = encode(&w, out);
	if (err) {
		p->node->stats.window_failed++;
		log_warn("window", "rank=%d reason=%u: %s", p->id.rank, q->reason, strerror(-err));
		buf_fini(out);
	} else {
		log_info("window", "rank=%d reason=%u steps=%u records=%u stacks=%u bytes=%zu summary=%d",
			 p->id.rank, q->reason, w.step_count, w.host_count + w.device_count,
			 w.stacks.sample_count, out->bytes, w.summary_only);
	}
	wire_window_free(&w);
	return err;
}

static int ship(struct process *p, const struct request *q)
{
	struct buf b;
	int err = pack(p, q, &b);

	if (!err)
		uplink_put_window(p->node->uplink, &b);
	return err;
}

/* ---- anomalies ---- */

/* Another rank of the job here shows more, or as much: it is a suspect, or waited in the same time and
 * its window went with all records. */
static bool shown_elsewhere(const struct process *p, uint64_t begin_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *o = p->node->processes[i];
		uint64_t at;

		if (!o || o == p || strcmp(o->id.job, p->id.job))
			continue;
		at = o->rank->stats.last_self_flag_ns;
		if (at && at + SHIP_SUSPECT_SLACK_NS >= begin_ns &&
		    at <= end_ns + SHIP_SUSPECT_SLACK_NS)
			return true;
		at = o->rank->full_comm_ns;
		if (at && at >= begin_ns && at <= end_ns + SHIP_SUSPECT_SLACK_NS)
			return true;
	}
	return false;
}

static void ship_anomaly(struct process *p, uint64_t now_ns)
{
	struct anomaly *a = &p->rank->anomaly;
	struct request q = { .reason = anomaly_reason(a), .steps = a->steps,
			     .step_count = a->step_count, .anomaly_id = a->id,
			     .sequence = a->sequence, .explain = true };
	bool full;

	q.begin_ns = a->steps[0].step.begin_ns;
	q.end_ns = a->steps[a->step_count - 1].step.end_ns;
	full = q.reason == WINDOW_SELF || !shown_elsewhere(p, q.begin_ns, q.end_ns);
	switch (anomaly_grant(a, full, now_ns)) {
	case ANOMALY_FULL:
		if (q.reason == WINDOW_COMM)
			p->rank->full_comm_ns = q.end_ns;
		ship(p, &q);
		break;
	case ANOMALY_SUMMARY:
		p->rank->stats.windows_summary++;
		q.summary_only = true;
		ship(p, &q);
		break;
	case ANOMALY_COUNT_ONLY:
		p->rank->stats.windows_counted++;
	}
	anomaly_reset(a);
}

static void on_window(void *arg, struct rank *r)
{
	ship_anomaly(arg, clock_monotonic_ns());
}

static void on_drift(void *arg, struct rank *r)
{
	struct process *p = arg;
	uint64_t now_ns = clock_monotonic_ns();
	struct window_step *steps = malloc(sizeof(*steps) * SHIP_ASKED_STEPS);
	struct request q = { .reason = WINDOW_DRIFT, .summary_only = true, .steps = steps };

	if (!steps || anomaly_grant(&r->anomaly, false, now_ns) == ANOMALY_COUNT_ONLY) {
		r->stats.windows_counted++;
		free(steps);
		return;
	}
	q.step_count = rank_recent(r, 0, UINT64_MAX, steps, SHIP_ASKED_STEPS);
	if (q.step_count) {
		q.begin_ns = steps[0].step.begin_ns;
		q.end_ns = steps[q.step_count - 1].step.end_ns;
		ship(p, &q);
	}
	free(steps);
}

/* ---- slow among its peers on the node ---- */

/* A rank of a job of several, and the only one of that number here: two jobs of one name, or replicas
 * that have no ranks, do not go in step. */
static bool has_peers(const struct process *p)
{
	if (p->id.rank < 0 || p->id.world_size < 2)
		return false;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *o = p->node->processes[i];

		if (o && o != p && o->state != PROCESS_GONE && o->id.rank == p->id.rank &&
		    !strcmp(o->id.job, p->id.job))
			return false;
	}
	return true;
}

static void on_step(void *arg, struct rank *r, const struct window_step *ws, bool used,
		    uint32_t kernel_count)
{
	const struct process *p = arg;
	uint64_t key = hash_bytes(HASH_SEED, p->id.job, strlen(p->id.job));

	key = hash_bytes(hash_mix(key), p->id.role, strlen(p->id.role));
	if (!p->node->peers || !has_peers(p))
		return;
	analysis_log_compare(p->node->log, p->slot, key, used);
	local_peers_step(p->node->peers, p->slot, key, &ws->step, used);
}

/* What the rank's own model calls usual is what the peers show to be slow. */
static void mark_steps(const struct process *p, struct window_step *steps, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct window_step *w = &steps[i];

		if (w->step.end_ns <= p->peer_since_ns) {
			w->flags |= WINDOW_STEP_MARGIN;
			continue;
		}
		w->flags |= WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
		w->expected_self_ns = (double)w->step.self_ns / (1 + p->peer_excess);
		w->self_excess = p->peer_excess;
		w->expected_ns = fmax((double)w->step.latency_ns - p->peer_excess_ns, 0);
		w->excess = w->expected_ns > 0 ? p->peer_excess_ns / w->expected_ns : 0;
	}
}

/* The latest steps; the full records while the bucket has some. */
static void ship_peer(struct process *p, uint64_t now_ns)
{
	struct rank *r = p->rank;
	struct window_step *steps = malloc(sizeof(*steps) * SHIP_PEER_STEPS);
	/* the first two tell what there is to tell */
	enum anomaly_grant grant = anomaly_grant(&r->anomaly, p->peer_sequence < 2, now_ns);
	struct request q = { .reason = WINDOW_PEER, .summary_only = grant == ANOMALY_SUMMARY,
			     .steps = steps, .anomaly_id = p->peer_id, .sequence = p->peer_sequence };

	if (!steps || grant == ANOMALY_COUNT_ONLY) {
		r->stats.windows_counted++;
		free(steps);
		return;
	}
	q.step_count = rank_recent(r, now_ns - p->node->settings.window_length_ns, UINT64_MAX, steps,
				   SHIP_PEER_STEPS);
	if (q.step_count) {
		mark_steps(p, steps, q.step_count);
		q.begin_ns = steps[0].step.begin_ns;
		q.end_ns = steps[q.step_count - 1].step.end_ns;
		/* what the rank's own model flagged in this time explains it too */
		q.explain = r->stats.last_flag_ns >= q.begin_ns;
		ship(p, &q);
		p->peer_sequence++;
	}
	free(steps);
}

static void take_peer_flag(struct process *p, const struct local_peers_flag *f, uint64_t now_ns)
{
	log_info("peers", "rank=%d slow=%d excess=%.2f%% excess_ms=%.3f", p->id.rank, !f->ended,
		 f->excess * 100, f->excess_ns * 1e-6);
	p->peer_excess = f->excess;
	p->peer_excess_ns = f->excess_ns;
	if (f->ended) {
		p->peer_slow = false;
		return;
	}
	if (!p->peer_slow) {
		random_id(p->peer_id);
		p->peer_sequence = 0;
		p->peer_window_ns = 0;
		p->peer_flags++;
		if (p->node->closer_until_ns < now_ns + SHIP_PEER_SUSPECT_NS)
			p->node->closer_until_ns = now_ns + SHIP_PEER_SUSPECT_NS;
	}
	p->peer_slow = true;
	p->peer_since_ns = f->begin_ns;
}

/* A window when it is found, and again now and then while it lasts; none where the rank's own model has
 * just sent one that shows the same. */
static void tend_peers(struct node *n, uint64_t now_ns)
{
	struct local_peers_flag f;

	while (n->peers && local_peers_next(n->peers, &f)) {
		analysis_log_flag(n->log, &f);
		if (n->processes[f.slot])
			take_peer_flag(n->processes[f.slot], &f, now_ns);
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (!p || !p->peer_slow || p->state == PROCESS_GONE ||
		    (p->peer_window_ns &&
		     now_ns - p->peer_window_ns <
			     (p->peer_sequence < 2 ? SHIP_PEER_SECOND_NS : SHIP_PEER_AGAIN_NS)))
			continue;
		p->peer_window_ns = now_ns;
		if (!p->rank->stats.last_self_flag_ns ||
		    now_ns - p->rank->stats.last_self_flag_ns > SHIP_PEER_AGAIN_NS)
			ship_peer(p, now_ns);
	}
}

void ship_forget(struct process *p)
{
	if (p->node->peers) {
		analysis_log_forget(p->node->log, p->slot);
		local_peers_forget(p->node->peers, p->slot);
	}
	p->peer_slow = false;
}

void ship_init(struct process *p)
{
	p->rank->on_step = on_step;
	p->rank->on_window = on_window;
	p->rank->on_drift = on_drift;
	p->rank->arg = p;
}

void ship_tend(struct node *n, uint64_t now_ns)
{
	tend_peers(n, now_ns);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (!p)
			continue;
		if (p->rank->anomaly.state == ANOMALY_CLOSED &&
		    now_ns - p->rank->anomaly.closed_ns >= SHIP_ARBITRATION_NS)
			ship_anomaly(p, now_ns);
		if (p->state == PROCESS_ATTACHED && p->trace_state == RING_TRACE_ON && !p->backlog &&
		    rank_check_stall(p->rank, now_ns))
			ship_stall(p, now_ns);
	}
}

void ship_flush(struct node *n)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (p && p->join)
			drain_last(p);
		if (p && p->rank->anomaly.state == ANOMALY_CLOSED)
			ship_anomaly(p, clock_monotonic_ns());
	}
}

void ship_stall(struct process *p, uint64_t now_ns)
{
	struct window_step last[8];
	uint64_t since = p->rank->stats.last_step_end_ns;
	struct request q = { .reason = WINDOW_STALL, .steps = last, .end_ns = now_ns };
	enum anomaly_grant grant = anomaly_grant(&p->rank->anomaly, true, now_ns);

	log_warn("stall", "rank=%d no step for %.1f s", p->id.rank, (double)(now_ns - since) * 1e-9);
	if (grant == ANOMALY_COUNT_ONLY) {
		p->rank->stats.windows_counted++;
		return;
	}
	q.summary_only = grant == ANOMALY_SUMMARY;
	q.step_count = rank_recent(p->rank, 0, UINT64_MAX, last, 8);
	for (uint32_t i = 0; i < q.step_count; i++)
		last[i].flags |= WINDOW_STEP_MARGIN;
	q.begin_ns = q.step_count ? last[0].step.begin_ns : since;
	ship(p, &q);
}

int ship_pack(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	      const uint8_t *anomaly_id, struct buf *out)
{
	struct window_step *steps = malloc(sizeof(*steps) * SHIP_ASKED_STEPS);
	struct request q = { .reason = reason, .steps = steps, .begin_ns = begin_ns,
			     .end_ns = end_ns, .anomaly_id = anomaly_id };
	int err;

	if (!steps)
		return -ENOMEM;
	q.step_count = rank_recent(p->rank, begin_ns, end_ns, steps, SHIP_ASKED_STEPS);
	err = pack(p, &q, out);
	free(steps);
	return err;
}

int ship_range(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	       const uint8_t *anomaly_id)
{
	struct buf b;
	int err = ship_pack(p, reason, begin_ns, end_ns, anomaly_id, &b);

	if (!err)
		uplink_put_window(p->node->uplink, &b);
	return err;
}

/* ---- beats ---- */

/* A suspect's flags of so long ago still count: steps are judged up to two seconds after their end. */
#define SHIP_SUSPECT_NS 5000000000ull

static uint32_t beat_flags(const struct process *p, uint64_t now_ns)
{
	const struct rank *r = p->rank;
	uint32_t flags = 0;

	if (r->anomaly.state != ANOMALY_IDLE)
		flags |= BEAT_RANK_ANOMALY;
	if (r->stats.last_self_flag_ns && now_ns < r->stats.last_self_flag_ns + SHIP_SUSPECT_NS)
		flags |= BEAT_RANK_SUSPECT;
	if (p->peer_slow)
		flags |= BEAT_RANK_PEER | BEAT_RANK_SUSPECT;
	if (r->stalled)
		flags |= BEAT_RANK_STALLED;
	if (cpu_stacks_raised(p->node))
		flags |= BEAT_RANK_WIDE;
	return flags;
}

/* What its GPU does not end, while its steps stand still. A kernel that was launched long before the
 * latest step, and yet the steps went on, runs for ever (a server on the GPU), or its record is
 * lost. */
static void fill_unfinished(const struct process *p, double latency_ns, struct beat_unfinished *out,
			    uint64_t now_ns)
{
	uint64_t last = p->rank->stats.last_step_end_ns;
	uint64_t before = (uint64_t)(SHIP_STEPS_AHEAD * latency_ns);
	struct join_unfinished u;

	if (!p->join || !last || now_ns < last + SHIP_STILL_NS ||
	    (double)(now_ns - last) < SHIP_STEPS_AHEAD * latency_ns)
		return;
	join_unfinished(p->join, last > before ? last - before : 0, &u);
	if (!u.kind)
		return;
	out->kind = u.kind;
	out->stream = u.stream;
	out->launch_ns = u.launch_ns;
	snprintf(out->name, sizeof(out->name), "%s",
		 u.kind == JOIN_UNFINISHED_COLL && u.func ? record_coll_name(u.func) :
		 p->reader				    ? ring_reader_name(p->reader, u.name) : "");
}

static void fill_beat_rank(const struct process *p, struct beat_rank *b, uint64_t now_ns)
{
	const struct rank_stats *st = &p->rank->stats;
	struct rank_medians m;

	rank_medians(p->rank, &m);
	*b = (struct beat_rank){
		.rank = p->id, .trace_state = p->trace_state, .cupti_state = p->cupti_state,
		.model_state = rank_model(p->rank, NULL, NULL),
		.phase_count = judge_model_count(p->rank->judge), .steps = st->steps,
		.flagged = st->flagged, .incomplete = st->incomplete,
		.latency_median_ns = m.latency_ns, .latency_mad_ns = m.latency_mad_ns,
		.self_median_ns = m.self_ns, .expected_ns = m.expected_ns,
		.compute_ns = m.compute_ns, .comm_ns = m.comm_ns,
		.exposed_comm_ns = m.exposed_comm_ns, .copy_ns = m.copy_ns, .idle_ns = m.idle_ns,
		.events = process_events(p), .lost = process_lost(p),
		.ring_bytes = process_raw_bytes(p), .last_step_end_ns = st->last_step_end_ns,
	};
	if (p->join) {
		b->kernels_joined = join_stats(p->join)->kernels_joined;
		b->kernels_unmatched = join_stats(p->join)->kernels_unmatched;
	}
	b->flags = beat_flags(p, now_ns);
	fill_unfinished(p, m.latency_ns, &b->unfinished, now_ns);
	beats_fill(p->rank->beats, b, now_ns);
}

static void fill_beat(struct node *n, struct beat *b, struct beat_rank *ranks, uint64_t now_ns)
{
	const struct clockmap_anchor *a = &n->clock.anchors[n->clock.count - 1];
	struct recorder_stats rs;
	struct uplink_stats us;

	*b = (struct beat){ .sequence = n->beat_sequence++, .now_ns = now_ns, .ranks = ranks,
			    .cpu_share = n->stats.cpu_share, .rss_bytes = status_rss_bytes(),
			    .retention_ns = status_retention_ns(n, now_ns),
			    .raw_bytes = n->stats.raw_bytes_gone };
	memcpy(b->node, n->settings.node_name, sizeof(b->node));
	memcpy(b->boot_id, n->boot_id, sizeof(b->boot_id));
	b->realtime_offset_ns = (int64_t)(a->realtime_ns - a->monotonic_ns);
	recorder_stats(n->recorder, &rs);
	uplink_stats(n->uplink, &us);
	b->recorder_bytes = rs.memory_bytes + rs.file_bytes;
	b->spool_bytes = us.spool.bytes;
	b->uploaded_bytes = us.uploaded_bytes;
	b->windows_sent = us.windows_sent;
	b->windows_dropped = us.windows_dropped;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (!p)
			continue;
		b->raw_bytes += process_raw_bytes(p);
		if (p->state != PROCESS_GONE)
			fill_beat_rank(p, &ranks[b->rank_count++], now_ns);
	}
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
		n->stats.beat_oversize++;
		log_warn("beat", "not sent: %s", strerror(-err));
		buf_fini(&out);
	} else {
		uplink_put_beat(n->uplink, &out);
	}
	free(ranks);
}

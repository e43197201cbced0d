/* SPDX-License-Identifier: Apache-2.0
 * Besides beats and sketches, only the windows requested here leave the node. So the token buckets
 * and the arbitration between ranks in this file bound what the node sends. */
#include "node/windows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/daemon/log.h"
#include "base/hash.h"
#include "base/limits.h"
#include "ring/ring_format.h"
#include "wire/codec.h"

/* How long a victim's window waits for a suspect to appear. */
#define ARBITRATION_NS 1000000000ull
/* A suspect's flags count if they are at most this long before or after the window. */
#define SUSPECT_SLACK_NS 3000000000ull
#define PEER_STEPS	 64u
#define STALL_STEPS	 8u
#define GROWTH_BEFORE	 8u
#define GROWTH_AFTER	 16u
/* Interval of windows while a rank stays slow among its peers. An aggregator closes an incident
 * after 30 s (incident.silence) without a window. */
#define PEER_AGAIN_NS 20000000000ull
/* The second window comes sooner: by then every tick has been sampled for a while. */
#define PEER_SECOND_NS 6000000000ull
/* How long after a rank was found slow beats come more often and every tick is sampled. */
#define PEER_SUSPECT_NS 30000000000ull
/* A suspicion from the aggregator expires after this time, unless it is renewed. */
#define SUSPECT_MAX_NS 60000000000ull
/* A suspect's flag counts for this long: steps are judged up to two seconds after their end. */
#define SUSPECT_NS 5000000000ull
/* The device runs at most this far behind the host. */
#define DEVICE_BEHIND_NS 60000000000ull

struct slot {
	struct windows *all;
	uint32_t number;
	bool ended;
	bool unfinished;	    /* its GPU had unfinished work when it last stood still */
	const struct wire_rank *id; /* NULL: free */
	struct rank *rank;
	struct windows_peer peer;
};

struct windows {
	struct windows_config config;
	struct local_peers *peers; /* NULL: not compared */
	struct slot slot[LIMIT_NODE_PROCESSES];
};

int windows_open(struct windows **out, const struct windows_config *c)
{
	struct windows *w = calloc(1, sizeof(*w));

	if (!w || (c->peers && local_peers_open(&w->peers, c->peers_mode))) {
		free(w);
		return -ENOMEM;
	}
	w->config = *c;
	*out = w;
	return 0;
}

void windows_close(struct windows *w)
{
	if (w)
		local_peers_close(w->peers);
	free(w);
}

/* ---- anomalies ---- */

/* Whether another rank of the job on this node shows as much as this one or more: a suspect, or a
 * victim of the same time whose window was sent with all records. */
static bool shown_elsewhere(const struct slot *s, uint64_t begin_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct slot *o = &s->all->slot[i];
		uint64_t at;

		if (!o->id || o == s || strcmp(o->id->job, s->id->job))
			continue;
		at = o->rank->stats.last_self_flag_ns;
		if (at && at + SUSPECT_SLACK_NS >= begin_ns && at <= end_ns + SUSPECT_SLACK_NS)
			return true;
		at = o->rank->full_comm_ns;
		if (at && at >= begin_ns && at <= end_ns + SUSPECT_SLACK_NS)
			return true;
	}
	return false;
}

static void ship(struct slot *s, const struct windows_request *q)
{
	s->all->config.ship(s->all->config.arg, s->number, q);
}

static void ship_anomaly(struct slot *s, uint64_t now_ns)
{
	struct rank *r = s->rank;
	struct anomaly *a = &r->anomaly;
	struct window_step steps[ANOMALY_REFERENCE_MAX + ANOMALY_STEPS_MAX];
	uint32_t before = anomaly_reference(a, steps);
	struct windows_request q = {.reason = anomaly_reason(a),
				    .steps = steps,
				    .step_count = before + a->step_count,
				    .anomaly_id = a->id,
				    .sequence = a->sequence};
	bool full;

	memcpy(steps + before, a->steps, a->step_count * sizeof(*steps));
	q.begin_ns = a->steps[0].step.begin_ns;
	q.end_ns = a->steps[a->step_count - 1].step.end_ns;
	full = q.reason == WINDOW_SELF || !shown_elsewhere(s, q.begin_ns, q.end_ns);
	switch (anomaly_grant(a, full, now_ns)) {
	case ANOMALY_FULL:
		if (q.reason == WINDOW_COMM)
			r->full_comm_ns = q.end_ns;
		ship(s, &q);
		break;
	case ANOMALY_SUMMARY:
		q.summary_only = true;
		ship(s, &q);
		break;
	case ANOMALY_COUNT_ONLY:
		r->stats.windows_counted++;
	}
	anomaly_reset(a);
}

static uint64_t now_of(const struct slot *s)
{
	return s->all->config.now_ns(s->all->config.arg);
}

static void on_window(void *arg, struct rank *r)
{
	ship_anomaly(arg, now_of(arg));
}

/* Ships a window that covers exactly its steps. */
static void ship_steps(struct slot *s, struct windows_request *q)
{
	if (!q->step_count)
		return;
	q->begin_ns = q->steps[0].step.begin_ns;
	q->end_ns = q->steps[q->step_count - 1].step.end_ns;
	ship(s, q);
}

/* Marks the last steps as slow. */
static void mark_drift(struct window_step *steps, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		steps[i].flags |= i + JUDGE_PERIOD < count ? WINDOW_STEP_MARGIN
							   : WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
}

static double excess(uint64_t ns, double expected_ns)
{
	return expected_ns > 0 ? (double)ns / expected_ns - 1 : 0;
}

/* Compares the steps with more work with the steps before the growth, because the model expects
 * them to take longer. Every rank that launches more shares the loss, whoever waits for whom. The
 * expectation must not become 0, which would mean that there is none. */
static void mark_growth(struct window_step *steps, uint32_t count, const struct growth_change *more)
{
	for (uint32_t i = 0; i < count; i++) {
		struct window_step *w = &steps[i];

		if (w->step.index < more->first) {
			w->flags |= WINDOW_STEP_MARGIN;
			continue;
		}
		w->flags |= WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
		w->expected_ns = more->before_ns;
		w->excess = excess(w->step.latency_ns, more->before_ns);
		w->expected_self_ns = fmax(
		    (double)w->step.self_ns - ((double)w->step.latency_ns - more->before_ns), 1);
		w->self_excess = excess(w->step.self_ns, w->expected_self_ns);
	}
}

/* Keeps some steps before the growth, and as many as are needed to show it. */
static uint32_t around(struct window_step *steps, uint32_t count, uint64_t first)
{
	uint32_t at = 0, from, to;

	while (at < count && steps[at].step.index < first)
		at++;
	from = at > GROWTH_BEFORE ? at - GROWTH_BEFORE : 0;
	to = count - at > GROWTH_AFTER ? at + GROWTH_AFTER : count;
	memmove(steps, steps + from, (to - from) * sizeof(*steps));
	return to - from;
}

static void on_drift(void *arg, struct rank *r, const struct growth_change *more)
{
	struct slot *s = arg;
	struct window_step *steps = malloc(sizeof(*steps) * WINDOWS_ASKED_STEPS);
	struct windows_request q = {.reason = WINDOW_DRIFT, .steps = steps};

	if (!steps || anomaly_grant(&r->anomaly, more != NULL, now_of(s)) == ANOMALY_COUNT_ONLY) {
		r->stats.windows_counted++;
		free(steps);
		return;
	}
	q.step_count = rank_recent(r, 0, UINT64_MAX, steps, WINDOWS_ASKED_STEPS);
	if (more) {
		q.step_count = around(steps, q.step_count, more->first);
		mark_growth(steps, q.step_count, more);
	} else {
		mark_drift(steps, q.step_count);
	}
	ship_steps(s, &q);
	free(steps);
}

/* ---- slow among its peers on the node ---- */

/* Whether the rank can be compared: its job has several ranks, and its number is unique here. Two
 * jobs with the same name, or replicas without rank numbers, do not run in step. */
static bool has_peers(const struct slot *s)
{
	if (s->id->rank < 0 || s->id->world_size < 2)
		return false;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct slot *o = &s->all->slot[i];

		if (o->id && o != s && !o->ended && o->id->rank == s->id->rank &&
		    !strcmp(o->id->job, s->id->job))
			return false;
	}
	return true;
}

static void on_step(void *arg, struct rank *r, const struct window_step *ws, bool used,
		    uint32_t kernel_count)
{
	const struct slot *s = arg;
	uint64_t key = hash_bytes(HASH_SEED, s->id->job, strlen(s->id->job));

	key = hash_bytes(hash_mix(key), s->id->role, strlen(s->id->role));
	if (!s->all->peers || !has_peers(s))
		return;
	analysis_log_compare(s->all->config.log, s->number, key, used);
	local_peers_step(s->all->peers, s->number, key, &ws->step, used);
}

/* Marks the slow steps. The rank's own model finds them usual; the comparison with its peers does
 * not. */
static void mark_steps(const struct windows_peer *p, struct window_step *steps, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct window_step *w = &steps[i];

		if (w->step.end_ns <= p->since_ns) {
			w->flags |= WINDOW_STEP_MARGIN;
			continue;
		}
		w->flags |= WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
		w->expected_self_ns = (double)w->step.self_ns / (1 + p->excess);
		w->self_excess = p->excess;
		w->expected_ns = fmax((double)w->step.latency_ns - p->excess_ns, 0);
		w->excess = w->expected_ns > 0 ? p->excess_ns / w->expected_ns : 0;
	}
}

/* Ships the latest steps, with full records while the bucket allows. */
static void ship_peer(struct slot *s, uint64_t now_ns)
{
	uint64_t length_ns = s->all->config.length_ns;
	struct rank *r = s->rank;
	struct window_step *steps = malloc(sizeof(*steps) * PEER_STEPS);
	/* the first two windows show everything */
	enum anomaly_grant grant = anomaly_grant(&r->anomaly, s->peer.sequence < 2, now_ns);
	struct windows_request q = {.reason = WINDOW_PEER,
				    .summary_only = grant == ANOMALY_SUMMARY,
				    .steps = steps,
				    .anomaly_id = s->peer.id,
				    .sequence = s->peer.sequence};

	if (!steps || grant == ANOMALY_COUNT_ONLY) {
		r->stats.windows_counted++;
		free(steps);
		return;
	}
	q.step_count = rank_recent(r, now_ns > length_ns ? now_ns - length_ns : 0, UINT64_MAX,
				   steps, PEER_STEPS);
	if (q.step_count) {
		mark_steps(&s->peer, steps, q.step_count);
		ship_steps(s, &q);
		s->peer.sequence++;
	}
	free(steps);
}

static void apply_peer_flag(struct slot *s, const struct local_peers_flag *f, uint64_t now_ns)
{
	uint64_t *closer = s->all->config.closer_until_ns;
	struct windows_peer *p = &s->peer;

	log_info("peers", "rank=%d slow=%d excess=%.2f%% excess_ms=%.3f", s->id->rank, !f->ended,
		 f->excess * 100, f->excess_ns * 1e-6);
	p->excess = f->excess;
	p->excess_ns = f->excess_ns;
	if (f->ended) {
		p->slow = false;
		return;
	}
	if (!p->slow) {
		rank_fresh_id(s->rank, p->id);
		p->sequence = 0;
		p->window_ns = 0;
		p->flags++;
		if (*closer < now_ns + PEER_SUSPECT_NS)
			*closer = now_ns + PEER_SUSPECT_NS;
	}
	p->slow = true;
	p->since_ns = f->begin_ns;
}

/* Ships a window when the rank is found slow, and regularly while this lasts. Ships none if the
 * rank's own model has just sent one about the same slowness. */
static void update_peer(struct slot *s, uint64_t now_ns)
{
	struct windows_peer *p = &s->peer;
	uint64_t flag_ns = s->rank->stats.last_self_flag_ns;

	if (!p->slow || s->ended ||
	    (p->window_ns &&
	     now_ns - p->window_ns < (p->sequence < 2 ? PEER_SECOND_NS : PEER_AGAIN_NS)))
		return;
	p->window_ns = now_ns;
	if (!flag_ns || now_ns - flag_ns > PEER_AGAIN_NS)
		ship_peer(s, now_ns);
}

static void update_peers(struct windows *w, uint64_t now_ns)
{
	struct local_peers_flag f;

	while (w->peers && local_peers_next(w->peers, &f)) {
		analysis_log_flag(w->config.log, &f);
		if (w->slot[f.slot].id)
			apply_peer_flag(&w->slot[f.slot], &f, now_ns);
	}
}

/* ---- ranks ---- */

void windows_add(struct windows *w, uint32_t slot, const struct wire_rank *id, struct rank *r)
{
	w->slot[slot] = (struct slot){.all = w, .number = slot, .id = id, .rank = r};
	r->on_step = on_step;
	r->on_window = on_window;
	r->on_drift = on_drift;
	r->arg = &w->slot[slot];
}

void windows_end(struct windows *w, uint32_t slot)
{
	if (w->peers) {
		analysis_log_forget(w->config.log, slot);
		local_peers_forget(w->peers, slot);
	}
	w->slot[slot].ended = true;
	w->slot[slot].peer.slow = false;
}

void windows_drop(struct windows *w, uint32_t slot)
{
	windows_end(w, slot);
	w->slot[slot] = (struct slot){0};
}

void windows_tend(struct windows *w, uint64_t now_ns)
{
	update_peers(w, now_ns);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct slot *s = &w->slot[i];

		if (!s->id)
			continue;
		update_peer(s, now_ns);
		if (s->rank->anomaly.state == ANOMALY_CLOSED &&
		    now_ns - s->rank->anomaly.closed_ns >= ARBITRATION_NS)
			ship_anomaly(s, now_ns);
	}
}

void windows_flush(struct windows *w, uint32_t slot, uint64_t now_ns)
{
	struct slot *s = &w->slot[slot];

	if (s->id && s->rank->anomaly.state == ANOMALY_CLOSED)
		ship_anomaly(s, now_ns);
}

static bool ship_stall(struct slot *s, uint64_t since, uint64_t now_ns)
{
	struct window_step last[STALL_STEPS];
	struct windows_request q = {.reason = WINDOW_STALL, .steps = last, .end_ns = now_ns};
	enum anomaly_grant grant = anomaly_grant(&s->rank->anomaly, true, now_ns);

	log_warn("stall", "rank=%d the GPU got and finished no work for %.1f s", s->id->rank,
		 (double)(now_ns - since) * 1e-9);
	if (grant == ANOMALY_COUNT_ONLY) {
		s->rank->stats.windows_counted++;
		return false;
	}
	q.summary_only = grant == ANOMALY_SUMMARY;
	q.step_count = rank_recent(s->rank, 0, UINT64_MAX, last, STALL_STEPS);
	for (uint32_t i = 0; i < q.step_count; i++)
		last[i].flags |= WINDOW_STEP_MARGIN;
	q.begin_ns = q.step_count ? last[0].step.begin_ns : since;
	ship(s, &q);
	return true;
}

static bool peer_hangs(const struct slot *s)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct slot *o = &s->all->slot[i];

		if (o->id && o != s && !o->ended && o->unfinished && rank_stalled_since(o->rank) &&
		    !strcmp(o->id->job, s->id->job))
			return true;
	}
	return false;
}

void windows_still(struct windows *w, uint32_t slot, bool unfinished, uint64_t now_ns)
{
	struct slot *s = &w->slot[slot];

	s->unfinished = unfinished;
	if (rank_stalled_since(s->rank) || (!unfinished && !peer_hangs(s)))
		return;
	rank_stall(s->rank);
	ship_stall(s, rank_stalled_since(s->rank), now_ns);
}

bool windows_stall_again(struct windows *w, uint32_t slot, uint64_t now_ns)
{
	struct slot *s = &w->slot[slot];
	uint64_t since = s->id && !s->ended ? rank_stalled_since(s->rank) : 0;

	return since && ship_stall(s, since, now_ns);
}

void windows_suspect(struct windows *w, uint64_t end_ns, uint64_t now_ns)
{
	uint64_t latest = now_ns + SUSPECT_MAX_NS, *closer = w->config.closer_until_ns;

	end_ns = end_ns < latest ? end_ns : latest;
	*closer = end_ns > *closer ? end_ns : *closer;
}

bool windows_is_close(const struct windows *w, uint64_t now_ns)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (w->slot[i].id && w->slot[i].rank->anomaly.state != ANOMALY_IDLE)
			return true;
	return now_ns < *w->config.closer_until_ns;
}

uint32_t windows_flags(const struct windows *w, uint32_t slot, uint64_t now_ns)
{
	const struct slot *s = &w->slot[slot];
	const struct rank *r = s->rank;
	uint32_t flags = 0;

	if (r->anomaly.state != ANOMALY_IDLE)
		flags |= BEAT_RANK_ANOMALY;
	if (r->stats.last_self_flag_ns && now_ns < r->stats.last_self_flag_ns + SUSPECT_NS)
		flags |= BEAT_RANK_SUSPECT;
	if (s->peer.slow)
		flags |= BEAT_RANK_PEER | BEAT_RANK_SUSPECT;
	if (rank_stalled_since(r))
		flags |= BEAT_RANK_STALLED;
	return flags;
}

const struct windows_peer *windows_peer(const struct windows *w, uint32_t slot)
{
	return &w->slot[slot].peer;
}

void windows_peers_stats(const struct windows *w, struct local_peers_stats *out)
{
	*out = (struct local_peers_stats){0};
	if (w && w->peers)
		local_peers_stats_get(w->peers, out);
}

/* ---- contents of a window ---- */

void windows_loss(struct window *out, const char *cause, uint64_t count)
{
	size_t bytes = strlen(cause);

	if (!count || out->loss_count == WIRE_LOSS_MAX)
		return;
	if (bytes >= sizeof(out->losses[0].cause))
		bytes = sizeof(out->losses[0].cause) - 1;
	memcpy(out->losses[out->loss_count].cause, cause, bytes);
	out->losses[out->loss_count++].count = count;
}

int windows_fill(struct window *out, const struct windows_request *q, const struct rank *r)
{
	out->begin_ns = q->begin_ns;
	out->end_ns = q->end_ns;
	out->reason = q->reason;
	out->sequence = q->sequence;
	out->summary_only = q->summary_only;
	memcpy(out->anomaly_id, q->anomaly_id ? q->anomaly_id : out->id, 16);
	out->model_state = rank_model(r, &out->model_r2, &out->model_spread);
	if (q->step_count) {
		out->steps = malloc(sizeof(*out->steps) * q->step_count);
		if (!out->steps)
			return -ENOMEM;
		memcpy(out->steps, q->steps, sizeof(*out->steps) * q->step_count);
		out->step_count = q->step_count;
	}
	return 0;
}

/* Appends the records that are not there yet. Pieces may share records, because the device may do
 * the work of a piece's steps in the next piece. */
static int append(struct record **to, uint32_t *count, struct record **records, uint32_t n)
{
	const struct record *from = *records;
	struct record *all;

	if (!*to) { /* most windows have one piece: take its records without copying */
		*to = *records;
		*count = n;
		*records = NULL;
		return 0;
	}
	while (n && *count && from->begin_ns <= (*to)[*count - 1].begin_ns) {
		from++;
		n--;
	}
	all = realloc(*to, ((size_t)*count + n + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	if (n)
		memcpy(all + *count, from, n * sizeof(*all));
	*to = all;
	*count += n;
	return 0;
}

static bool is_whole(const struct step *s, const struct recorder_extract *x)
{
	return s->begin_ns >= x->from_ns && s->end_ns <= x->until_ns &&
	       s->device_end_ns <= x->until_ns;
}

uint32_t windows_pieces(const struct windows_request *q, struct windows_piece *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->step_count && n < ANOMALY_REFERENCE_MAX; i++) {
		const struct step *s = &q->steps[i].step;

		struct windows_piece p = {s->begin_ns, s->end_ns};

		if (s->end_ns > q->begin_ns)
			break;
		if (s->device_end_ns > p.end_ns)
			p.end_ns = s->device_end_ns < q->begin_ns ? s->device_end_ns : q->begin_ns;
		if (n && p.begin_ns <= out[n - 1].end_ns)
			out[n - 1].end_ns = p.end_ns;
		else
			out[n++] = p;
	}
	out[n++] = (struct windows_piece){q->begin_ns, q->end_ns};
	return n;
}

/* Adds the records of a piece and of the steps [first, last), which end in it. */
static int add_piece(struct window *out, const struct rank *r, const struct windows_piece *p,
		     uint32_t first, uint32_t last, uint32_t max)
{
	uint64_t until = p->end_ns;
	struct recorder_extract x;
	int err;

	for (uint32_t i = first; i < last; i++)
		if (out->steps[i].step.device_end_ns > until &&
		    out->steps[i].step.device_end_ns < p->end_ns + DEVICE_BEHIND_NS)
			until = out->steps[i].step.device_end_ns;
	err = recorder_extract(r->recorder, r->slot, p->begin_ns, until, max, &x);
	if (err)
		return err;
	while (x.host_count && x.host[x.host_count - 1].begin_ns > p->end_ns)
		x.host_count--;
	err = append(&out->host, &out->host_count, &x.host, x.host_count)
		  ?: append(&out->device, &out->device_count, &x.device, x.device_count);
	for (uint32_t i = first; i < last; i++)
		if (!is_whole(&out->steps[i].step, &x))
			out->steps[i].flags |= WINDOW_STEP_CUT;
	if (x.until_ns != UINT64_MAX)
		windows_loss(out, "window_cut", 1);
	recorder_extract_free(&x);
	return err;
}

int windows_records(struct window *out, const struct windows_request *q, const struct rank *r,
		    uint32_t max)
{
	struct windows_piece piece[ANOMALY_REFERENCE_MAX + 1];
	uint32_t n = windows_pieces(q, piece), first = 0, last = 0;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		uint32_t had =
		    out->host_count > out->device_count ? out->host_count : out->device_count;

		while (last < out->step_count &&
		       (i + 1 == n || out->steps[last].step.end_ns <= piece[i].end_ns))
			last++;
		err = add_piece(out, r, &piece[i], first, last, max > had ? max - had : 0);
		first = last;
	}
	out->raw_bytes = (uint64_t)out->host_count * RING_HOST_SLOT_BYTES +
			 (uint64_t)out->device_count * RING_DEVICE_SLOT_BYTES;
	return err;
}

int windows_steps(struct windows_request *q, const struct rank *r)
{
	q->steps = malloc(sizeof(*q->steps) * WINDOWS_ASKED_STEPS);
	if (!q->steps)
		return -ENOMEM;
	q->step_count = rank_recent(r, q->begin_ns, q->end_ns, q->steps, WINDOWS_ASKED_STEPS);
	return 0;
}

struct naming {
	struct window *window;
	uint32_t *map;
	const char *(*text)(void *arg, uint32_t id);
	void *arg;
};

static uint32_t map_name(const struct naming *n, uint32_t id)
{
	const char *text;

	if (!id || id > LIMIT_NAME_COUNT)
		return 0;
	if (n->map[id])
		return n->map[id];
	text = n->text(n->arg, id);
	if (!*text || n->window->name_count >= LIMIT_WINDOW_NAMES)
		return 0;
	n->window->names[n->window->name_count] = (char *)(uintptr_t)text;
	return n->map[id] = n->window->name_count++;
}

int windows_names(struct window *out, uint32_t *map, const char *(*text)(void *arg, uint32_t id),
		  void *arg)
{
	static char nameless[1];
	struct naming n = {out, map, text, arg};

	out->names = calloc(LIMIT_NAME_COUNT + 1, sizeof(char *));
	if (!out->names)
		return -ENOMEM;
	out->names[0] = nameless;
	out->name_count = 1;
	memset(map, 0, sizeof(*map) * (LIMIT_NAME_COUNT + 1));
	for (uint32_t i = 0; i < out->host_count; i++)
		out->host[i].name = map_name(&n, out->host[i].name);
	for (uint32_t i = 0; i < out->device_count; i++)
		out->device[i].name = map_name(&n, out->device[i].name);
	for (uint32_t i = 0; i < out->step_count; i++)
		if (out->steps[i].step.source == STEP_SOURCE_EXPLICIT)
			out->steps[i].step.phase = map_name(&n, out->steps[i].step.phase);
	return 0;
}

int windows_encode(struct window *w, struct buf *out)
{
	int err = wire_window_encode(w, out);

	if (err == -EMSGSIZE && w->stacks.sample_count) {
		stack_batch_clear(&w->stacks);
		windows_loss(w, "stacks_too_large", 1);
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
	windows_loss(w, "window_too_large", 1);
	buf_clear(out);
	return wire_window_encode(w, out);
}

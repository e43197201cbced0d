/* SPDX-License-Identifier: Apache-2.0
 * Making a window takes the loop some ten milliseconds, during which rings fill. So each turn makes
 * at most one window. A hold costs nothing while the recorder still has the time range. Its window
 * is made and kept only when the recorder is about to lose the records or the steps. */
#include "sidecar/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/process.h"
#include "sidecar/serving/request_node.h"
#include "sidecar/ship.h"

#define TASKS 128u
/* Of a longer range only the last part is used: a window has no room for more. */
#define LENGTH_MAX_NS 120000000000ull
/* A range that ends further in the future is refused as bad. */
#define AHEAD_MAX_NS 120000000000ull
/* How long before the loss a held window is made: a few turns of the loop for each rank of the
 * node. */
#define MARGIN_NS 20000000000ull
#define HOLD_NS	  600000000000ull /* a diagnosis always asks within this time */

struct task {
	uint32_t kind;	  /* enum wire_command_kind; 0: free */
	uint64_t process; /* serial */
	uint64_t begin_ns, end_ns, asked_ns;
	uint8_t anomaly_id[16];
	struct buf kept; /* for a hold: the window's message, once it is made */
};

struct requests {
	struct task task[TASKS];
	struct requests_stats stats;
};

int requests_open(struct node *n)
{
	n->requests = calloc(1, sizeof(*n->requests));
	return n->requests ? 0 : -ENOMEM;
}

static void drop(struct requests *k, struct task *t)
{
	k->stats.held_bytes -= t->kept.bytes;
	buf_fini(&t->kept);
	memset(t, 0, sizeof(*t));
}

void requests_close(struct node *n)
{
	for (uint32_t i = 0; n->requests && i < TASKS; i++)
		drop(n->requests, &n->requests->task[i]);
	free(n->requests);
	n->requests = NULL;
}

/* ---- taking ---- */

static bool asks_again(const struct requests *k, const struct task *t)
{
	for (uint32_t i = 0; i < TASKS; i++) {
		const struct task *o = &k->task[i];

		if (o->kind == t->kind && o->process == t->process && o->begin_ns == t->begin_ns &&
		    o->end_ns == t->end_ns && !memcmp(o->anomaly_id, t->anomaly_id, 16))
			return true;
	}
	return false;
}

static void enqueue(struct requests *k, const struct wire_command *c, const struct process *p,
		    uint64_t now_ns)
{
	struct task t = {.kind = c->kind,
			 .process = p->serial,
			 .begin_ns = c->begin_ns,
			 .end_ns = c->end_ns,
			 .asked_ns = now_ns};

	if (t.end_ns - t.begin_ns > LENGTH_MAX_NS)
		t.begin_ns = t.end_ns - LENGTH_MAX_NS;
	memcpy(t.anomaly_id, c->anomaly_id, sizeof(t.anomaly_id));
	if (asks_again(k, &t))
		return;
	for (uint32_t i = 0; i < TASKS; i++) {
		if (k->task[i].kind)
			continue;
		k->task[i] = t;
		k->stats.holds += c->kind == WIRE_COMMAND_HOLD;
		return;
	}
	k->stats.full++;
}

static void suspect(struct node *n, uint64_t end_ns, uint64_t now_ns)
{
	if (end_ns <= now_ns)
		return;
	n->requests->stats.suspects++;
	windows_suspect(n->analysis.windows, end_ns, now_ns);
}

/* Whether the process ended before the range begins, so that the command means a later run. */
static bool is_past(const struct process *p, const struct wire_command *c)
{
	return p->state == PROCESS_GONE && p->rank->stats.last_step_end_ns < c->begin_ns;
}

void requests_take(void *arg, const struct wire_command *c)
{
	struct node *n = arg;
	struct requests *k = n->requests;
	uint64_t now_ns = clock_monotonic_ns();
	bool found = false;

	if (c->kind < WIRE_COMMAND_WINDOW || c->kind > WIRE_COMMAND_PIECES) {
		k->stats.unknown++;
		return;
	}
	if (c->kind != WIRE_COMMAND_SUSPECT && c->kind != WIRE_COMMAND_PIECES &&
	    (c->end_ns <= c->begin_ns || c->end_ns > now_ns + AHEAD_MAX_NS)) {
		k->stats.bad++;
		return;
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (!p || !process_matches(p, c->job, c->rank) || is_past(p, c))
			continue;
		found = true;
		if (c->kind == WIRE_COMMAND_SUSPECT)
			suspect(n, c->end_ns, now_ns);
		else if (c->kind == WIRE_COMMAND_PIECES)
			request_node_forward(p, c->end_ns, now_ns);
		else
			enqueue(k, c, p, now_ns);
	}
	k->stats.nobody += !found;
}

/* ---- doing ---- */

static const uint8_t *id_of(const struct task *t)
{
	static const uint8_t none[16];

	return memcmp(t->anomaly_id, none, sizeof(none)) ? t->anomaly_id : NULL;
}

static uint64_t oldest_record_ns(const struct node *n)
{
	struct recorder_stats rs;

	recorder_stats(n->analysis.recorder, &rs);
	return rs.oldest_ns;
}

/* When the oldest stored step began; 0: no step was forgotten yet. */
static uint64_t oldest_step_ns(const struct rank *r)
{
	return r->recent_count < RANK_RECENT ? 0 : r->recent[r->recent_next].step.begin_ns;
}

/* Whether the rank may soon forget the steps from begin_ns on. Fast steps fill its memory in
 * seconds. */
static bool steps_pass(const struct rank *r, uint64_t begin_ns)
{
	uint64_t oldest_ns = oldest_step_ns(r);
	uint32_t n = r->recent_count, last = (r->recent_next + RANK_RECENT - 1) % RANK_RECENT;
	uint32_t first = (r->recent_next + RANK_RECENT - n) % RANK_RECENT;
	double span_ns =
	    n ? (double)(r->recent[last].step.end_ns - r->recent[first].step.begin_ns) : 0;

	return (n && span_ns / n * RANK_RECENT < 2.0 * (double)MARGIN_NS) ||
	       (oldest_ns && oldest_ns + MARGIN_NS > begin_ns);
}

/* A kept window of this rank that contains the range's start. */
static struct task *kept_for(struct requests *k, const struct task *t)
{
	for (uint32_t i = 0; i < TASKS; i++) {
		struct task *h = &k->task[i];

		if (h->kind == WIRE_COMMAND_HOLD && h->kept.bytes && h->process == t->process &&
		    h->begin_ns <= t->begin_ns && h->end_ns > t->begin_ns)
			return h;
	}
	return NULL;
}

bool requests_allowed(struct process *p, uint64_t now_ns)
{
	struct anomaly_bucket *b = &p->asked;

	if (!b->at_ns)
		*b = (struct anomaly_bucket){REQUESTS_ASKED_BURST, now_ns};
	b->tokens += (double)(now_ns - b->at_ns) * 1e-9 * p->node->settings.asked_per_minute / 60;
	if (b->tokens > REQUESTS_ASKED_BURST)
		b->tokens = REQUESTS_ASKED_BURST;
	b->at_ns = now_ns;
	if (b->tokens < 1)
		return false;
	b->tokens -= 1;
	return true;
}

static bool send_kept(struct node *n, struct task *held)
{
	struct buf copy;

	buf_init(&copy, LIMIT_WIRE_MESSAGE_BYTES);
	buf_append(&copy, held->kept.data, held->kept.bytes);
	if (copy.failed) {
		buf_fini(&copy);
		return false;
	}
	uplink_put_window(n->uplink, &copy); /* the aggregator counts a duplicate once */
	n->requests->stats.holds_used++;
	return true;
}

/* True if a window was made. */
static bool answer(struct node *n, struct task *t, uint64_t now_ns)
{
	struct requests *k = n->requests;
	struct process *p = process_by_serial(n, t->process);
	struct task *held;
	bool made = false;

	if (now_ns < t->end_ns + WINDOWS_SETTLE_NS)
		return false;
	if (!p) {
		k->stats.nobody++;
	} else if (!requests_allowed(p, now_ns)) {
		k->stats.windows_bounded++;
	} else {
		held = oldest_record_ns(n) > t->begin_ns || oldest_step_ns(p->rank) > t->begin_ns
			   ? kept_for(k, t)
			   : NULL;
		made = !held || !send_kept(n, held);
		if (!made || !ship_range(p, WINDOW_ASKED, t->begin_ns, t->end_ns, id_of(t), NULL))
			k->stats.windows++;
		else
			k->stats.windows_failed++;
	}
	drop(k, t);
	return made;
}

/* True if a window was made. */
static bool hold(struct node *n, struct task *t, uint64_t now_ns)
{
	struct requests *k = n->requests;
	struct process *p = process_by_serial(n, t->process);
	struct buf b;

	if (now_ns > t->asked_ns + HOLD_NS) {
		drop(k, t);
		return false;
	}
	if (t->kept.bytes || now_ns < t->end_ns + WINDOWS_SETTLE_NS)
		return false;
	if (!p) {
		k->stats.holds_lost++;
		drop(k, t);
		return false;
	}
	if (oldest_record_ns(n) + MARGIN_NS <= t->begin_ns && !steps_pass(p->rank, t->begin_ns))
		return false;
	if (k->stats.held_bytes >= n->settings.hold_bytes ||
	    ship_pack(p, WINDOW_ASKED, t->begin_ns, t->end_ns, id_of(t), &b)) {
		k->stats.holds_lost++;
		drop(k, t);
		return true;
	}
	if (k->stats.held_bytes + b.bytes > n->settings.hold_bytes) {
		k->stats.holds_lost++;
		buf_fini(&b);
		drop(k, t);
		return true;
	}
	t->kept = b;
	k->stats.held_bytes += b.bytes;
	k->stats.holds_kept++;
	return true;
}

void requests_tend(struct node *n, uint64_t now_ns)
{
	struct requests *k = n->requests;
	bool made = false;

	/* holds come first, because an answer may use a window that they keep */
	for (uint32_t i = 0; i < TASKS && !made; i++)
		if (k->task[i].kind == WIRE_COMMAND_HOLD)
			made = hold(n, &k->task[i], now_ns);
	for (uint32_t i = 0; i < TASKS && !made; i++)
		if (k->task[i].kind == WIRE_COMMAND_WINDOW)
			made = answer(n, &k->task[i], now_ns);
}

void requests_stats_get(const struct node *n, struct requests_stats *out)
{
	memset(out, 0, sizeof(*out));
	if (n->requests)
		*out = n->requests->stats;
}

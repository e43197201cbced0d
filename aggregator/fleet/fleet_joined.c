/* SPDX-License-Identifier: Apache-2.0
 * Requests whose instances are on different nodes. While a job's requests are seen on several
 * nodes, its nodes are asked for pieces of requests instead of verdicts. All pieces with the same
 * id are one request. The same code judges it here as on a node. If no id is seen on two nodes, the
 * nodes are replicas, and judge by themselves again.
 *
 * A node that is not believed about the job has a part in a request only if a believed node has a
 * request with the same id. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "analysis/requests/request_table.h"
#include "base/hash.h"
#include "base/job_key.h"
#include "base/text/text.h"
#include "render/request_json.h"

#define ASK_AGAIN_NS (LIMIT_PIECES_ASKED_NS / 2)
/* After this many requests in a row of one node each, the nodes are replicas. */
#define ALONE_MAX  256u
#define REPLICA_NS 600000000000ull
/* Time after the last piece until a request is judged: two beats, in which another node would
 * report that the request goes on there. */
#define SETTLE_NS  12000000000ull
#define SILENT_NS  3600000000000ull
#define AGE_MAX_NS 3600000000000ull
#define SHARES_MAX 64u
#define ASKED_MAX  16u	      /* as many as there are groups of late requests */
#define PROCESS	   0u	      /* the table's only process stands for the whole job */
#define NOBODY	   UINT64_MAX /* owner of the jobs whose keys have no uid */

struct fleet_joined {
	struct request_table *table; /* NULL: the job has none of the fleet's places */
	uint64_t owner;
	struct fleet *f; /* set while the table is called */
	struct fleet_job *job;
	uint64_t now_ns, asked_ns, replica_until_ns, alone_since, joined_before;
	uint64_t windows_begin_ns, windows_end_ns; /* the time for which windows were asked last */
	uint64_t ttft_ns, tpot_ns, bad;
	/* ring: nodes that had a part in a request of a believed node */
	uint32_t sharing[SHARES_MAX], shares;
	uint8_t asked[ASKED_MAX][16]; /* ring: anomalies that windows were asked for */
	uint32_t asks;
};

/* ---- a request that missed an objective ---- */

/* The time of the request's longest phase; 0: not known. */
static struct request_step slow_time(const struct request *r, uint32_t phase)
{
	struct request_step s = {0};

	if (phase == REQUEST_QUEUE)
		s = (struct request_step){.begin_ns = r->arrival_ns, .end_ns = r->scheduled_ns};
	else if (phase == REQUEST_PREFILL)
		s = r->prefill[0];
	else if (phase == REQUEST_DECODE || phase == REQUEST_DRAFTS)
		s = r->decode[0];
	else if (phase == REQUEST_PAUSE)
		s = r->pause;
	else if (phase == REQUEST_TRANSFER)
		s = r->transfer;
	return s;
}

static void ask_windows(struct fleet_joined *q, const struct request *r,
			const struct request_violation *v, const uint32_t *node, uint32_t nodes)
{
	struct request_step s = slow_time(r, v->phase);
	uint64_t begin_ns = s.begin_ns - REQUEST_MARGIN_NS, end_ns = s.end_ns + REQUEST_MARGIN_NS;
	uint8_t anomaly[16];

	if (s.begin_ns < REQUEST_MARGIN_NS || s.end_ns < s.begin_ns ||
	    (begin_ns < q->windows_end_ns && end_ns > q->windows_begin_ns))
		return;
	q->windows_begin_ns = begin_ns;
	q->windows_end_ns = end_ns;
	request_anomaly(q->job->name, v, anomaly);
	memcpy(q->asked[q->asks++ % ASKED_MAX], anomaly, sizeof(anomaly));
	for (uint32_t i = 0; i < nodes; i++)
		fleet_pull_request(q->f, q->job, node[i], begin_ns, end_ns, anomaly, q->now_ns);
}

static void append(char text[WIRE_TEXT_BYTES], const char *more)
{
	size_t used = strlen(text);

	text_copy(text + used, WIRE_TEXT_BYTES - used, more);
}

static void on_violation(void *arg, const char *job, uint32_t process, struct request_violation *v)
{
	struct fleet_joined *q = arg;
	const struct request *r = request_table_find(q->table, PROCESS, v->id);
	uint32_t node[REQUEST_PIECES], nodes = r ? request_table_nodes(q->table, r, node) : 0;
	char names[WIRE_TEXT_BYTES] = "";

	(void)job;
	(void)process;
	for (uint32_t i = 0; i < nodes; i++) {
		if (i)
			append(names, ", ");
		append(names, q->f->nodes[node[i]].name);
	}
	fleet_requests_late(q->job, names, v, q->now_ns);
	if (nodes)
		ask_windows(q, r, v, node, nodes);
}

/* ---- life ---- */

static struct fleet_joined **place_of(struct fleet *f, const struct fleet_joined *q)
{
	struct fleet_joined **at = f->joined;

	while (at < f->joined + LIMIT_FLEET_JOINED && *at != q)
		at++;
	return at < f->joined + LIMIT_FLEET_JOINED ? at : NULL;
}

static void lose_place(struct fleet_joined **at)
{
	request_table_close((*at)->table);
	(*at)->table = NULL;
	(*at)->joined_before = (*at)->alone_since = 0;
	*at = NULL;
}

void fleet_joined_free(struct fleet *f, struct fleet_joined *q)
{
	if (q && q->table)
		lose_place(place_of(f, q));
	free(q);
}

static uint64_t places_of(const struct fleet *f, uint64_t owner)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < LIMIT_FLEET_JOINED; i++)
		n += f->joined[i] && f->joined[i]->owner == owner;
	return n;
}

/* Whether the job's nodes are not asked any more (they are replicas, or the job has ended), and no
 * request waits for them. */
static bool is_idle(const struct fleet_joined *q, uint64_t now_ns)
{
	return now_ns - q->asked_ns > LIMIT_PIECES_ASKED_NS && request_table_is_idle(q->table);
}

/* Finds a place: a free one, that of an idle job, or one of the user who has most places. NULL:
 * nobody has a place to spare. */
static struct fleet_joined **make_place(struct fleet *f, const struct fleet_joined *q,
					uint64_t now_ns)
{
	struct fleet_joined **at = place_of(f, NULL), **most = &f->joined[0];

	for (uint32_t i = 0; i < LIMIT_FLEET_JOINED && !at; i++) {
		if (is_idle(f->joined[i], now_ns))
			at = &f->joined[i];
		if (places_of(f, f->joined[i]->owner) > places_of(f, (*most)->owner))
			most = &f->joined[i];
	}
	if (!at && places_of(f, (*most)->owner) > places_of(f, q->owner) + 1)
		at = most;
	if (at && *at)
		lose_place(at);
	return at;
}

static bool open_table(struct fleet *f, struct fleet_joined *q, const char *job, uint64_t now_ns)
{
	struct fleet_joined **at = make_place(f, q, now_ns);
	struct request_config c;

	request_config_default(&c);
	c.settle_ns = SETTLE_NS;
	c.silent_ns = SILENT_NS;
	c.open_max = LIMIT_FLEET_JOINED_REQUESTS;
	c.joins = true;
	if (!at || request_table_open(&q->table, &c, on_violation, q))
		return false;
	*at = q;
	request_table_begin(q->table, PROCESS, job);
	return true;
}

static struct fleet_joined *make(const char *job)
{
	struct fleet_joined *q = calloc(1, sizeof(*q));
	uint32_t uid;

	if (q)
		q->owner = job_key_owner(job, &uid) ? uid : NOBODY;
	return q;
}

/* ---- asking ---- */

static uint32_t living_parts(const struct fleet *f, const struct fleet_job *job, uint64_t now_ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->part_count; i++)
		n += job->parts[i].node != FLEET_NONE &&
		     fleet_is_alive(f, job->parts[i].seen_ns, now_ns);
	return n;
}

static const struct request_stats *stats_of(const struct fleet_joined *q)
{
	const char *job;

	return q->table ? request_table_stats(q->table, 0, &job) : NULL;
}

/* Whether the nodes are replicas: of many requests, none was on two nodes. */
static bool are_replicas(struct fleet_joined *q, uint64_t now_ns)
{
	const struct request_stats *s = stats_of(q);
	uint64_t ended = s ? s->ended + s->lost : 0;

	if (s && s->joined > q->joined_before) {
		q->joined_before = s->joined;
		q->alone_since = ended;
	}
	if (ended - q->alone_since >= ALONE_MAX) {
		q->alone_since = ended;
		q->replica_until_ns = now_ns + REPLICA_NS;
	}
	return now_ns < q->replica_until_ns;
}

/* Call before any call of the table, because the table may report a late request meanwhile. */
static void call(struct fleet_joined *q, struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	q->f = f;
	q->job = job;
	q->now_ns = now_ns;
}

/* Identifies the run of the node's sysomd. A new run does not know that the old one was asked. */
static uint64_t run_of(const struct fleet_node *n)
{
	return hash_bytes(HASH_SEED, n->boot_id, sizeof(n->boot_id)) | 1;
}

static void ask(struct fleet *f, const struct fleet_job *job, struct fleet_joined *q,
		struct fleet_part *part)
{
	uint64_t run = run_of(&f->nodes[part->node]);

	if (part->asked_run && part->asked_run != run)
		request_table_leave(q->table, part->node);
	part->asked_run = run;
	fleet_pull_pieces(f, job, part->node, LIMIT_PIECES_ASKED_NS);
}

struct fleet_joined *fleet_joined_ask(struct fleet *f, struct fleet_job *job,
				      struct fleet_joined *q, const struct fleet_node *n,
				      uint64_t now_ns)
{
	struct fleet_part *own = fleet_admit_find_part(f, job, (uint32_t)(n - f->nodes));

	if (q)
		call(q, f, job, now_ns);
	if (q && q->asked_ns && now_ns - q->asked_ns < ASK_AGAIN_NS) {
		if (own && q->table && own->asked_run != run_of(n))
			ask(f, job, q, own);
		return q;
	}
	if (living_parts(f, job, now_ns) < 2)
		return q;
	q = q ? q : make(job->name);
	if (!q || are_replicas(q, now_ns) || (!q->table && !open_table(f, q, job->name, now_ns)))
		return q;
	q->asked_ns = now_ns;
	for (uint32_t i = 0; i < job->part_count; i++)
		if (job->parts[i].node != FLEET_NONE &&
		    fleet_is_alive(f, job->parts[i].seen_ns, now_ns))
			ask(f, job, q, &job->parts[i]);
	return q;
}

/* ---- pieces ---- */

/* How far the node's clock is ahead of the job's, as far as collectives show it. False: not
 * known. */
static bool clock_of(const struct fleet *f, struct fleet_job *job, uint32_t node,
		     int64_t *before_ns)
{
	const struct fleet_node *n = &f->nodes[node];
	const struct fleet_part *part = fleet_admit_find_part(f, job, node);
	double offset, drift, error;
	bool known = part && cross_clock_state(job->cross, (uint32_t)(part - job->parts),
					       (int64_t)n->now_ns + n->realtime_offset_ns, &offset,
					       &drift, &error);

	*before_ns = known ? (int64_t)offset : 0;
	return known;
}

/* Converts a time to the job's clock. False: the time is impossible, or too long ago. */
static bool place(const struct fleet_node *n, int64_t before_ns, uint64_t *t_ns)
{
	if (!*t_ns)
		return true;
	if (*t_ns > n->now_ns || n->now_ns - *t_ns >= AGE_MAX_NS)
		return false;
	*t_ns += (uint64_t)n->realtime_offset_ns - (uint64_t)before_ns;
	return (int64_t)*t_ns > 0;
}

static bool place_piece(const struct fleet_node *n, int64_t before_ns, struct request_piece *p)
{
	bool good = true;

#define X(t) good = place(n, before_ns, &p->t) && good;
	REQUEST_PIECE_TIMES(X)
#undef X
	for (int i = 0; i < REQUEST_PIECE_STEPS; i++) {
		good = place(n, before_ns, &p->longest[i].begin_ns) && good;
		good = place(n, before_ns, &p->longest[i].end_ns) && good;
	}
	return good;
}

/* Takes what the table has counted since the last call. */
static void take_counts(struct fleet_joined *q)
{
	struct request_job *now = calloc(1, sizeof(*now));

	if (now && request_table_take(q->table, 0, q->now_ns, now)) {
		now->counts.violations_dropped = 0; /* violations were taken one by one */
		fleet_requests_counted(q->job, now);
	}
	free(now);
}

static void note_share(struct fleet_joined *q, uint32_t node)
{
	if (!fleet_joined_shares(q, node))
		q->sharing[q->shares++ % SHARES_MAX] = node;
}

bool fleet_joined_shares(const struct fleet_joined *q, uint32_t node)
{
	for (uint32_t i = 0; i < q->shares && i < SHARES_MAX; i++)
		if (q->sharing[i] == node)
			return true;
	return false;
}

bool fleet_joined_asked(const struct fleet_joined *q, uint32_t node, const uint8_t anomaly[16])
{
	bool asked = false;

	for (uint32_t i = 0; i < q->asks && i < ASKED_MAX; i++)
		asked |= !memcmp(q->asked[i], anomaly, 16);
	return asked && fleet_joined_shares(q, node);
}

struct fleet_joined *fleet_joined_pieces(struct fleet *f, struct fleet_job *job,
					 struct fleet_joined *q, const struct fleet_node *n,
					 bool believed, const struct request_pieces *p,
					 uint64_t now_ns)
{
	uint32_t node = (uint32_t)(n - f->nodes);
	int64_t before_ns;

	q = !q && believed ? make(job->name) : q;
	if (!q || (!q->table && !(believed && open_table(f, q, job->name, now_ns)))) {
		f->counts.dropped++;
		return q;
	}
	call(q, f, job, now_ns);
	request_table_tend(q->table, now_ns);
	clock_of(f, job, node, &before_ns);
	if (believed) {
		q->ttft_ns = p->ttft_ns;
		q->tpot_ns = p->tpot_ns;
		request_table_objectives(q->table, p->ttft_ns, p->tpot_ns);
	}
	for (uint32_t i = 0; i < p->count; i++) {
		struct request_piece piece = p->piece[i];

		if (!place_piece(n, before_ns, &piece))
			q->bad++;
		else if (request_table_join(q->table, PROCESS, node, believed, &piece))
			note_share(q, node);
	}
	return q;
}

void fleet_joined_tick(struct fleet *f, struct fleet_job *job, struct fleet_joined *q,
		       uint64_t now_ns)
{
	if (!q->table)
		return;
	call(q, f, job, now_ns);
	request_table_tend(q->table, now_ns);
	take_counts(q);
}

/* ---- for the API ---- */

bool fleet_joined_json(struct fleet *f, struct fleet_job *job, struct fleet_joined *q, uint64_t id,
		       struct buf *out)
{
	const struct request *r = q->table ? request_table_find(q->table, PROCESS, id) : NULL;
	const char *names[REQUEST_PIECES];
	uint32_t node[REQUEST_PIECES], nodes;
	bool aligned = true;
	int64_t before_ns;

	if (!r || request_table_collides(q->table, r) || request_table_is_orphan(q->table, r))
		return false;
	nodes = request_table_nodes(q->table, r, node);
	for (uint32_t i = 0; i < nodes; i++) {
		names[i] = f->nodes[node[i]].name;
		aligned = clock_of(f, job, node[i], &before_ns) && aligned;
	}
	request_json(r,
		     &(struct request_json_place){.job = job->name,
						  .nodes = names,
						  .node_count = nodes,
						  .clock = aligned ? "aligned" : "system"},
		     out);
	return true;
}

json_t *fleet_joined_objectives(const struct fleet_joined *q)
{
	return json_pack("{s:f, s:f}", "ttft_ms", (double)q->ttft_ns * 1e-6, "tpot_ms",
			 (double)q->tpot_ns * 1e-6);
}

json_t *fleet_joined_counts(const struct fleet_joined *q, uint64_t now_ns)
{
	static const struct request_stats none;
	const struct request_stats *s = stats_of(q);

	s = s ? s : &none;
	return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "refused",
			 !q->table && now_ns >= q->replica_until_ns, "requests",
			 (json_int_t)s->joined, "partial", (json_int_t)s->partial, "unbelieved",
			 (json_int_t)s->unbelieved, "evicted", (json_int_t)s->evicted,
			 "pieces_lost", (json_int_t)s->parts_lost, "repeated",
			 (json_int_t)(s->repeated + s->shared), "bad", (json_int_t)q->bad);
}

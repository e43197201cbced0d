/* SPDX-License-Identifier: Apache-2.0
 * Many requests may miss an objective because of one step. So a step's span is found only once
 * (struct link), and a token bucket (READS_BURST) bounds the reads of records. */
#include "sidecar/serving/request_node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/http/http_query.h"
#include "base/job_key.h"
#include "base/span_kind.h"
#include "base/http/http_user.h"
#include "base/metrics/metrics.h"
#include "base/text/json_text.h"
#include "base/text/text.h"
#include "analysis/requests/request_table.h"
#include "render/request_json.h"
#include "sidecar/node.h"
#include "sidecar/serving/request_beat.h"

#define LINKS 16u
/* reads of a process's records: 4 to 14 ms each, during which no ring is drained */
#define READS_BURST   16.0
#define READS_PER_S   4.0
#define SPANS_MAX     20000u /* records of a process in one step that are looked at */
#define LISTED_MAX    500u   /* requests in an answer */
#define TEXT_ID_BYTES 17
/* Bytes of a beat besides its ranks and jobs, including the tags of these. */
#define BEAT_HEAD_BYTES 512u

/* A slow step that was examined. */
struct link {
	uint64_t begin_ns;
	uint32_t process;
	char span[REQUEST_SPAN_BYTES];
};

struct request_node {
	struct request_table *table;
	uplink_command_fn ask;
	struct link link[LINKS]; /* ring */
	uint32_t links;
	struct anomaly_bucket bucket;
	struct request_beat beat;
	uint64_t sent_before; /* the uplink's count of beats when the last beat was handed over */
	bool violated;	      /* a violation occurred since the last beat */
	bool pieces_wait;     /* pieces had no room in the last beat */
	struct request_pieces pieces[LIMIT_NODE_PROCESSES];
	/* windows to ask for, once the aggregator knows why */
	struct ask {
		uint64_t due_ns; /* 0: free */
		struct wire_command command;
	} wait[LINKS];
	/* violations whose step was not examined, because there were too many at once */
	uint64_t unlinked;
};

/* ---- the slow step of a request ---- */

static uint64_t overlap(const struct record *r, const struct request_step *s)
{
	uint64_t begin = r->begin_ns > s->begin_ns ? r->begin_ns : s->begin_ns;
	uint64_t end = r->end_ns < s->end_ns ? r->end_ns : s->end_ns;

	return end > begin ? end - begin : 0;
}

/* The shortest span of the process that fills at least half of the engine's step. */
static void find_span(struct process *p, const struct request_step *s, uint64_t *best_ns,
		      char out[REQUEST_SPAN_BYTES])
{
	struct recorder_extract x;

	if (recorder_extract(p->node->analysis.recorder, p->slot, s->begin_ns, s->end_ns, SPANS_MAX,
			     &x))
		return;
	for (uint32_t i = 0; i < x.host_count; i++) {
		const struct record *r = &x.host[i];
		uint64_t ns = r->end_ns - r->begin_ns;

		if (r->kind != RECORD_SPAN || !(r->flags & RECORD_FLAG_PYTHON) || !r->name ||
		    span_process_is_client(r->func) || r->end_ns < r->begin_ns || ns >= *best_ns ||
		    2 * overlap(r, s) < s->end_ns - s->begin_ns)
			continue;
		*best_ns = ns;
		text_copy(out, REQUEST_SPAN_BYTES, ring_reader_name(p->reader, r->name));
	}
	recorder_extract_free(&x);
}

/* How long to wait before asking for windows. Beats come faster after a violation, and the
 * aggregator examines them every second. */
#define ASK_AFTER_NS 5000000000ull

static void ask_windows(struct node *n, const char *job, const struct request_violation *v)
{
	struct request_node *q = n->request_node;
	struct wire_command c = {.kind = WIRE_COMMAND_WINDOW,
				 .rank = INT32_MIN,
				 .begin_ns = v->slow.begin_ns - REQUEST_MARGIN_NS,
				 .end_ns = v->slow.end_ns + REQUEST_MARGIN_NS};

	if (v->slow.begin_ns < REQUEST_MARGIN_NS)
		return;
	text_copy(c.job, sizeof(c.job), job);
	request_anomaly(job, v, c.anomaly_id);
	for (uint32_t i = 0; i < LINKS; i++) {
		if (q->wait[i].due_ns)
			continue;
		q->wait[i] = (struct ask){clock_monotonic_ns() + ASK_AFTER_NS, c};
		return;
	}
	q->unlinked++;
}

static const struct link *known_link(const struct request_node *q, uint32_t process,
				     uint64_t begin_ns)
{
	for (uint32_t i = 0; i < LINKS; i++)
		if (q->link[i].begin_ns == begin_ns && q->link[i].process == process)
			return &q->link[i];
	return NULL;
}

static bool may_read(struct request_node *q, uint64_t now_ns)
{
	struct anomaly_bucket *b = &q->bucket;

	b->tokens += (double)(now_ns - b->at_ns) * 1e-9 * READS_PER_S;
	if (b->tokens > READS_BURST || !b->at_ns)
		b->tokens = READS_BURST;
	b->at_ns = now_ns;
	return b->tokens >= 1;
}

static void on_violation(void *arg, const char *job, uint32_t process, struct request_violation *v)
{
	struct node *n = arg;
	struct request_node *q = n->request_node;
	const struct link *known = known_link(q, process, v->slow.begin_ns);
	uint64_t best_ns = UINT64_MAX;
	struct link *l;

	q->violated = true;
	if (!v->slow.begin_ns)
		return;
	if (known) {
		text_copy(v->span, sizeof(v->span), known->span);
		return;
	}
	if (!may_read(q, clock_monotonic_ns())) {
		q->unlinked++;
		return;
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && q->bucket.tokens >= 1; i++) {
		if (!n->processes[i] || strcmp(n->processes[i]->id.job, job))
			continue;
		q->bucket.tokens -= 1;
		find_span(n->processes[i], &v->slow, &best_ns, v->span);
	}
	l = &q->link[q->links++ % LINKS];
	*l = (struct link){.begin_ns = v->slow.begin_ns, .process = process};
	text_copy(l->span, sizeof(l->span), v->span);
	ask_windows(n, job, v);
}

/* ---- life ---- */

int request_node_open(struct node *n, uplink_command_fn ask)
{
	struct request_config c;

	request_config_default(&c);
	c.ttft_ns = n->settings.requests_ttft_ns;
	c.tpot_ns = n->settings.requests_tpot_ns;
	n->request_node = calloc(1, sizeof(*n->request_node));
	if (!n->request_node)
		return -ENOMEM;
	n->request_node->ask = ask;
	return request_table_open(&n->request_node->table, &c, on_violation, n);
}

void request_node_close(struct node *n)
{
	if (n->request_node)
		request_table_close(n->request_node->table);
	free(n->request_node);
	n->request_node = NULL;
}

int request_node_begin(struct process *p)
{
	return request_table_begin(p->node->request_node->table, p->slot, p->id.job);
}

void request_node_record(struct process *p, const struct record *r)
{
	request_table_record(p->node->request_node->table, p->slot, r);
}

void request_node_end(struct process *p)
{
	request_table_end(p->node->request_node->table, p->slot, clock_monotonic_ns());
}

void request_node_drop(struct process *p)
{
	request_table_drop(p->node->request_node->table, p->slot);
}

void request_node_tend(struct node *n, uint64_t now_ns)
{
	struct request_node *q = n->request_node;

	request_table_tend(q->table, now_ns);
	for (uint32_t i = 0; i < LINKS; i++) {
		if (!q->wait[i].due_ns || now_ns < q->wait[i].due_ns)
			continue;
		q->wait[i].due_ns = 0;
		q->ask(n, &q->wait[i].command);
	}
}

bool request_node_is_urgent(const struct node *n)
{
	const struct request_node *q = n->request_node;

	return q->violated || q->beat.waits || q->pieces_wait;
}

void request_node_forward(const struct process *p, uint64_t until_ns, uint64_t now_ns)
{
	if (until_ns > now_ns + LIMIT_PIECES_ASKED_NS)
		until_ns = now_ns + LIMIT_PIECES_ASKED_NS;
	request_table_forward(p->node->request_node->table, p->slot, until_ns);
}

/* ---- beats ---- */

/* How many of the beat's bytes the ranks leave. */
static size_t room_of(const struct beat *b)
{
	size_t room = LIMIT_BEAT_BYTES_PER_RANK * (b->rank_count + 1ull) - BEAT_HEAD_BYTES;

	for (uint32_t i = 0; i < b->rank_count; i++) {
		int bytes = wire_beat_rank_bytes(&b->ranks[i]);

		room -= bytes > 0 && (size_t)bytes < room ? (size_t)bytes + WIRE_BEAT_TAG_BYTES : 0;
	}
	return room;
}

/* Adds pieces of requests, in the room that is left. */
static void add_pieces(struct node *n, struct beat *b, size_t room)
{
	uint32_t at[LIMIT_NODE_PROCESSES], count[LIMIT_NODE_PROCESSES], jobs = 0;
	struct request_node *q = n->request_node;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct request_pieces *p = &q->pieces[jobs];
		const char *job;

		/* the pieces are only read */
		p->piece = (struct request_piece *)(uintptr_t)request_table_pieces(q->table, i,
										   &job, &p->count);
		request_table_sent(q->table, i, 0);
		if (!p->piece || !codec_has_job(b, job))
			continue;
		text_copy(p->job, sizeof(p->job), job);
		p->ttft_ns = n->settings.requests_ttft_ns;
		p->tpot_ns = n->settings.requests_tpot_ns;
		at[jobs] = i;
		count[jobs++] = p->count;
	}
	wire_beat_pieces_fit(q->pieces, jobs, room);
	q->pieces_wait = false;
	b->pieces = q->pieces;
	b->piece_jobs = 0;
	for (uint32_t i = 0; i < jobs; i++) {
		request_table_sent(q->table, at[i], q->pieces[i].count);
		q->pieces_wait |= q->pieces[i].count < count[i];
		if (q->pieces[i].count)
			q->pieces[b->piece_jobs++] = q->pieces[i];
	}
}

void request_node_beat(struct node *n, struct beat *b, uint64_t now_ns)
{
	struct request_node *q = n->request_node;
	struct uplink_stats us;
	bool arrived;
	size_t room;

	uplink_stats(n->uplink, &us);
	arrived = us.beats_sent > q->sent_before;
	room = request_beat_fill(&q->beat, q->table, b, arrived, room_of(b), now_ns);
	q->sent_before = us.beats_sent;
	q->violated = false;
	b->requests = q->beat.sent;
	b->request_count = q->beat.count;
	if (arrived)
		request_table_arrived(q->table);
	add_pieces(n, b, room);
}

/* ---- for people ---- */

static void put_jobs(const struct node *n, const struct http_user *user, struct buf *out)
{
	const struct request_table *t = n->request_node->table;
	bool first = true;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const char *job;
		const struct request_stats *s = request_table_stats(t, i, &job);

		if (!s || !http_user_sees_job(user, job))
			continue;
		json_text_append(out, first ? "{\"job\":" : ",{\"job\":", job);
		first = false;
		buf_printf(out,
			   ",\"arrived\":%" PRIu64 ",\"ended\":%" PRIu64 ",\"lost\":%" PRIu64
			   ",\"partial\":%" PRIu64 ",\"evicted\":%" PRIu64 ",\"repeated\":%" PRIu64
			   ",\"shared\":%" PRIu64 ",\"bad\":%" PRIu64 ",\"parts_lost\":%" PRIu64
			   ",\"ttft_judged\":%" PRIu64 ",\"ttft_violated\":%" PRIu64
			   ",\"tpot_judged\":%" PRIu64 ",\"tpot_violated\":%" PRIu64 "}",
			   s->arrived, s->ended, s->lost, s->partial, s->evicted, s->repeated,
			   s->shared, s->bad, s->parts_lost, s->judged[REQUEST_TTFT],
			   s->violated[REQUEST_TTFT], s->judged[REQUEST_TPOT],
			   s->violated[REQUEST_TPOT]);
	}
}

bool request_node_json(struct node *n, const struct http_user *user, const struct http_query *q,
		       struct buf *out)
{
	const struct request_table *t = n->request_node->table;
	const char *id = http_query_get(q, "id"), *job = http_query_get(q, "job");
	const struct clockmap_anchor *a = &n->clock.anchors[n->clock.count - 1];
	const char *node = n->settings.node_name;
	uint8_t digits[8];
	uint64_t only = 0;
	uint32_t at = 0, listed = 0;

	if (id) {
		if (strlen(id) != TEXT_ID_BYTES - 1 || text_unhex(id, digits, sizeof(digits)))
			return false;
		only = strtoull(id, NULL, 16);
	}
	buf_printf(out,
		   "{\"objectives\":{\"ttft_ms\":%.6f,\"tpot_ms\":%.6f},\"unlinked\":%" PRIu64
		   ",\"jobs\":[",
		   (double)n->settings.requests_ttft_ns * 1e-6,
		   (double)n->settings.requests_tpot_ns * 1e-6, n->request_node->unlinked);
	put_jobs(n, user, out);
	buf_puts(out, "],\"requests\":[");
	for (const struct request *r; listed < LISTED_MAX && (r = request_table_next(t, &at));) {
		bool shown = only ? r->id == only
				  : r->state < REQUEST_ENDING || r->violated[REQUEST_TTFT] ||
					r->violated[REQUEST_TPOT];

		if (!shown || !http_user_sees_job(user, request_table_job(t, r)) ||
		    (job && !job_key_matches(request_table_job(t, r), job)))
			continue;
		buf_puts(out, listed++ ? "," : "");
		request_json(r,
			     &(struct request_json_place){.job = request_table_job(t, r),
							  .realtime_offset_ns =
							      a->realtime_ns - a->monotonic_ns,
							  .nodes = &node,
							  .node_count = 1},
			     out);
	}
	buf_puts(out, "]}\n");
	return true;
}

/* A job that has ended has no series: its last values would look like present ones. */
static bool is_shown(const struct node *n, const struct http_user *user, const char *job)
{
	for (uint32_t i = 0; http_user_sees_job(user, job) && i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (p && p->state != PROCESS_GONE && !strcmp(p->id.job, job))
			return true;
	}
	return false;
}

void request_node_metrics(struct node *n, const struct http_user *user, struct metrics *m)
{
	static const char *const results[] = {"ended", "lost", "evicted"};
	const struct request_table *t = n->request_node->table;

	metrics_family(m, "sysom_requests_total",
		       "Requests of a serving job, by how they left: ended; lost: without an end; "
		       "evicted: for lack of room.");
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const char *job;
		const struct request_stats *s = request_table_stats(t, i, &job);

		if (!s || !is_shown(n, user, job))
			continue;
		/* each request counts in exactly one of these, so they can be summed */
		const uint64_t values[] = {s->ended, s->lost - s->evicted, s->evicted};

		for (size_t k = 0; k < ARRAY_LEN(results); k++)
			metrics_sample(m, "sysom_requests_total", (double)values[k], "job_name",
				       job, "result", results[k], NULL);
	}
	metrics_family(m, "sysom_request_violations_total",
		       "Requests that missed an objective: time to first token (ttft) or time per "
		       "output token (tpot).");
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const char *job;
		const struct request_stats *s = request_table_stats(t, i, &job);

		if (!s || !is_shown(n, user, job))
			continue;
		for (unsigned k = 0; k < REQUEST_OBJECTIVES; k++)
			metrics_sample(m, "sysom_request_violations_total", (double)s->violated[k],
				       "job_name", job, "objective", request_objective_name(k),
				       NULL);
	}
}

/* SPDX-License-Identifier: Apache-2.0
 * Requests of serving jobs, as their nodes report them: counts, times over the last one to two
 * minutes, and the requests that missed an objective. These are grouped by objective, phase and
 * span. A group is one finding, and so one incident, however often it recurs. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/check.h"
#include "base/http/http_user.h"
#include "base/metrics/metrics.h"
#include "base/order.h"
#include "base/text/json_text.h"
#include "base/text/text.h"
#include "model/request.h"

#define GROUPS_MAX  16u
#define RECENT_MAX  64u
#define PERIOD_NS   60000000000ull   /* the time that each of the two histograms covers */
#define TOGETHER_NS 5000000000ull    /* violations this close together are one occurrence */
#define QUIET_NS    600000000000ull  /* a group without a new request for this long has ended */
#define AGE_MAX_NS  3600000000000ull /* times of a node that are older count as this old */

/* Sums over the nodes that are alive. */
struct open_sum {
	uint64_t nodes, running, waiting;
	uint64_t wait_ns; /* the longest of all nodes */
};

struct seen {
	struct request_violation v;
	char node[WIRE_TEXT_BYTES];
	/* from the request's arrival to the token that was late */
	uint64_t begin_unix_ns, end_unix_ns;
	uint64_t step_begin_unix_ns, step_end_unix_ns; /* its slow step; 0: none is known */
	uint8_t group[16];
};

struct group {
	uint8_t id[16];
	uint32_t objective, phase;
	char span[REQUEST_SPAN_BYTES];
	uint64_t count, occurrences; /* count: requests; occurrences: how often at least one came */
	uint64_t first_unix_ns, last_unix_ns, begin_unix_ns;
	uint64_t updated_ns;
	double sum_ns;
	struct seen worst;
	bool changed; /* since the last report */
};

struct times {
	struct durations ttft, tpot, queue;
};

struct fleet_requests {
	struct request_counts sum;
	struct times now, before;
	uint64_t period_ns;		 /* start of `now` */
	struct group *group[GROUPS_MAX]; /* NULL: free */
	uint64_t groups_full;
	struct seen *recent; /* ring of RECENT_MAX; NULL: none yet */
	uint64_t recents;
	struct fleet_joined *joined; /* NULL: the job has only one node */
};

void fleet_requests_free(struct fleet *f, struct fleet_job *job)
{
	struct fleet_requests *q = job->requests;

	job->requests = NULL;
	if (!q)
		return;
	for (uint32_t i = 0; i < GROUPS_MAX; i++)
		free(q->group[i]);
	fleet_joined_free(f, q->joined);
	free(q->recent);
	free(q);
}

/* ---- a node's report ---- */

/* Converts a time of the node's clock. An impossible time becomes the nearest possible one, so the
 * order stays. */
static uint64_t unix_of(const struct fleet_node *n, uint64_t t_ns)
{
	uint64_t oldest_ns = n->now_ns > AGE_MAX_NS ? n->now_ns - AGE_MAX_NS : 0;

	t_ns = t_ns < oldest_ns ? oldest_ns : t_ns > n->now_ns ? n->now_ns : t_ns;
	return t_ns + (uint64_t)n->realtime_offset_ns;
}

static struct group *group_of(struct fleet_requests *q, const uint8_t id[16])
{
	struct group **spare = NULL;

	for (uint32_t i = 0; i < GROUPS_MAX; i++) {
		if (q->group[i] && !memcmp(q->group[i]->id, id, 16))
			return q->group[i];
		if (!q->group[i])
			spare = &q->group[i];
	}
	if (!spare || !(*spare = calloc(1, sizeof(**spare))))
		return NULL;
	memcpy((*spare)->id, id, 16);
	return *spare;
}

static void group_add(struct group *g, const struct seen *s, uint64_t now_ns)
{
	if (!g->count) {
		g->objective = s->v.objective;
		g->phase = s->v.phase;
		g->first_unix_ns = s->end_unix_ns;
		g->begin_unix_ns = s->begin_unix_ns;
		text_copy(g->span, sizeof(g->span), s->v.span);
	}
	g->count++;
	g->occurrences += !g->occurrences || s->end_unix_ns > g->last_unix_ns + TOGETHER_NS;
	g->last_unix_ns = s->end_unix_ns > g->last_unix_ns ? s->end_unix_ns : g->last_unix_ns;
	g->sum_ns += (double)s->v.value_ns;
	if (s->v.value_ns >= g->worst.v.value_ns)
		g->worst = *s;
	g->updated_ns = now_ns;
	g->changed = true;
}

/* Adds a violation, whose times are on the job's clock. */
static void take_violation(struct fleet_requests *q, const struct fleet_job *job, const char *node,
			   const struct request_violation *v, uint64_t now_ns)
{
	struct seen *s;
	struct group *g;

	if (!q->recent && !(q->recent = calloc(RECENT_MAX, sizeof(*q->recent)))) {
		q->sum.violations_dropped++;
		return;
	}
	s = &q->recent[q->recents++ % RECENT_MAX];
	*s = (struct seen){.v = *v};
	text_copy(s->node, sizeof(s->node), node);
	s->begin_unix_ns = v->arrival_ns;
	s->end_unix_ns = v->objective == REQUEST_TPOT || !v->first_ns ? v->last_ns : v->first_ns;
	if (s->end_unix_ns < s->begin_unix_ns)
		s->end_unix_ns = s->begin_unix_ns;
	s->step_begin_unix_ns = v->slow.begin_ns;
	s->step_end_unix_ns = v->slow.end_ns;
	request_anomaly(job->name, v, s->group);
	g = group_of(q, s->group);
	if (g)
		group_add(g, s, now_ns);
	else
		q->groups_full++;
}

static struct request_violation on_unix(const struct fleet_node *n,
					const struct request_violation *v)
{
	struct request_violation u = *v;

	u.arrival_ns = unix_of(n, v->arrival_ns);
	u.first_ns = v->first_ns ? unix_of(n, v->first_ns) : 0;
	u.last_ns = unix_of(n, v->last_ns);
	if (v->slow.begin_ns) {
		u.slow.begin_ns = unix_of(n, v->slow.begin_ns);
		u.slow.end_ns = unix_of(n, v->slow.end_ns);
	}
	return u;
}

void fleet_requests_counted(struct fleet_job *job, const struct request_job *r)
{
	struct fleet_requests *q = job->requests;

	request_counts_add(&q->sum, &r->counts);
	if ((int64_t)q->sum.arrived < 0) /* arrivals that several nodes counted were subtracted */
		q->sum.arrived = 0;
	durations_merge(&q->now.ttft, &r->ttft);
	durations_merge(&q->now.tpot, &r->tpot);
	durations_merge(&q->now.queue, &r->queue);
}

void fleet_requests_late(struct fleet_job *job, const char *nodes,
			 const struct request_violation *v, uint64_t now_ns)
{
	take_violation(job->requests, job, nodes, v, now_ns);
}

void fleet_requests_beat(struct fleet *f, struct fleet_job *job, const struct fleet_node *n,
			 bool believed, const struct request_job *r, uint64_t now_ns)
{
	struct fleet_part *part = fleet_admit_find_part(f, job, (uint32_t)(n - f->nodes));
	struct fleet_requests *q = job->requests;

	if (!q && believed)
		q = job->requests = calloc(1, sizeof(*q));
	if (!q) {
		f->counts.dropped++;
		return;
	}
	q->joined = fleet_joined_ask(f, job, q->joined, n, now_ns);
	if (now_ns - q->period_ns >= PERIOD_NS) {
		q->before = now_ns - q->period_ns < 2 * PERIOD_NS ? q->now : (struct times){0};
		q->now = (struct times){0};
		q->period_ns = now_ns;
	}
	if (part &&
	    (believed || (q->joined && fleet_joined_shares(q->joined, (uint32_t)(n - f->nodes))))) {
		part->running = r->running;
		part->waiting = r->waiting;
		part->wait_ns = r->oldest_wait_ns;
		part->requests_ns = now_ns;
	}
	if (!believed) {
		f->counts.dropped++;
		return;
	}
	fleet_requests_counted(job, r);
	for (uint32_t i = 0; i < r->violation_count; i++) {
		struct request_violation v = on_unix(n, &r->violation[i]);

		take_violation(q, job, n->name, &v, now_ns);
	}
}

void fleet_requests_pieces(struct fleet *f, struct fleet_job *job, const struct fleet_node *n,
			   bool believed, const struct request_pieces *p, uint64_t now_ns)
{
	struct fleet_requests *q = job->requests;

	if (q)
		q->joined = fleet_joined_pieces(f, job, q->joined, n, believed, p, now_ns);
	else
		f->counts.dropped++;
}

/* ---- findings ---- */

static enum finding_cause cause_of(uint32_t phase)
{
	static const enum finding_cause causes[REQUEST_PHASES] = {
	    CAUSE_UNKNOWN,	   CAUSE_REQUEST_API,	 CAUSE_REQUEST_QUEUE,
	    CAUSE_REQUEST_PREFILL, CAUSE_REQUEST_DECODE, CAUSE_REQUEST_PAUSE,
	    CAUSE_REQUEST_OUTPUT,  CAUSE_REQUEST_DRAFTS, CAUSE_REQUEST_TRANSFER};

	return causes[phase < REQUEST_PHASES ? phase : 0];
}

static double period_of(const struct group *g)
{
	return g->occurrences > 1
		   ? (double)(g->last_unix_ns - g->first_unix_ns) / (double)(g->occurrences - 1)
		   : 0;
}

static void say_count(struct finding *f, const struct group *g)
{
	char mean[TEXT_DURATION_BYTES], most[TEXT_DURATION_BYTES], limit[TEXT_DURATION_BYTES];
	uint64_t limit_ns = g->worst.v.objective_ns;
	bool ttft = g->objective == REQUEST_TTFT;
	const char *span = g->worst.v.span, *in = *span ? "; slowest step in " : "";

	text_duration(g->sum_ns / (double)g->count, mean);
	text_duration((double)g->worst.v.value_ns, most);
	text_duration((double)limit_ns, limit);
	if (g->count == 1)
		finding_say(f, LAYER_SOFTWARE, 0,
			    "a request took %s %s: longer than the objective requests.%s%s%s%s%s",
			    mean, ttft ? "to its first token" : "per token",
			    request_objective_name(g->objective), limit_ns ? " of " : "",
			    limit_ns ? limit : "", in, span);
	else
		finding_say(f, LAYER_SOFTWARE, 0,
			    "%" PRIu64 " requests took %s %s on average, at most %s: longer "
			    "than the objective requests.%s%s%s%s%s",
			    g->count, mean, ttft ? "to their first token" : "per token", most,
			    request_objective_name(g->objective), limit_ns ? " of " : "",
			    limit_ns ? limit : "", in, span);
	if (period_of(g) > 0)
		finding_say(f, LAYER_SOFTWARE, 0, "%" PRIu64 " times, every %.4g s", g->occurrences,
			    period_of(g) * 1e-9);
}

static void say_step(struct finding *f, const struct group *g)
{
	static const char *const where[REQUEST_PHASES] = {
	    "is not known in which phase",
	    "passed before it was handed to the engine",
	    "passed before its first step",
	    "passed in its prefill steps",
	    "passed in its decode steps",
	    "passed between its decode steps",
	    "passed until it was delivered",
	    "passed in decode steps that accepted drafts usually save",
	    "passed from its last step in one engine to its first in another: transfer of its "
	    "key-value cache"};
	const struct request_violation *v = &g->worst.v;
	const struct request_step *s = &v->slow;
	char time[TEXT_DURATION_BYTES];

	finding_say(f, LAYER_SOFTWARE, 0, "of the worst one, %016" PRIx64 " on %.60s, %s %s", v->id,
		    g->worst.node, text_duration((double)v->phase_ns, time), where[v->phase]);
	if (!s->begin_ns)
		return;
	text_duration((double)(s->end_ns - s->begin_ns), time);
	if (!s->batch)
		finding_say(f, LAYER_SOFTWARE, 0, "no step of its engines ended in %s", time);
	else
		finding_say(f, LAYER_SOFTWARE, 0,
			    "the longest step then: %s, %u token%s of %u request%s%s%s", time,
			    s->step_tokens, s->step_tokens == 1 ? "" : "s", s->batch,
			    s->batch == 1 ? "" : "s", *v->span ? ", most of it in " : "", v->span);
}

static void report(struct fleet *f, const struct fleet_job *job, struct group *g, bool ended)
{
	struct finding_report *e = fleet_detect_pending(f);

	if (!e)
		return;
	*e = (struct finding_report){
	    .begin_unix_ns = g->begin_unix_ns, .end_unix_ns = g->last_unix_ns, .ended = ended};
	text_copy(e->job, sizeof(e->job), job->name);
	e->finding.kind = FINDING_REQUESTS;
	e->finding.cause = cause_of(g->phase);
	e->finding.confidence = 0.9;
	e->finding.count = g->count;
	e->finding.period_ns = period_of(g);
	memcpy(e->finding.anomaly_id, g->id, sizeof(g->id));
	e->finding.step_begin_unix_ns = g->worst.step_begin_unix_ns;
	e->finding.step_end_unix_ns = g->worst.step_end_unix_ns;
	say_count(&e->finding, g);
	say_step(&e->finding, g);
	g->changed = false;
}

bool fleet_requests_asked(const struct fleet *f, const struct fleet_job *job,
			  const struct fleet_node *n, const uint8_t anomaly[16])
{
	return n && job->requests && job->requests->joined &&
	       fleet_joined_asked(job->requests->joined, (uint32_t)(n - f->nodes), anomaly);
}

void fleet_requests_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	struct fleet_requests *q = job->requests;

	if (q && q->joined)
		fleet_joined_tick(f, job, q->joined, now_ns);
	for (uint32_t i = 0; q && i < GROUPS_MAX; i++) {
		struct group *g = q->group[i];
		bool ended = g && now_ns - g->updated_ns > QUIET_NS;

		if (g && (g->changed || ended))
			report(f, job, g, ended);
		if (ended) {
			free(g);
			q->group[i] = NULL;
		}
	}
}

/* ---- for the API ---- */

static json_t *times_json(const struct durations *before, const struct durations *now)
{
	struct durations both = *now;

	durations_merge(&both, before);
	return json_pack("{s:I, s:f, s:f}", "requests", (json_int_t)both.total, "median_ms",
			 durations_quantile(&both, 0.5) * 1e-6, "p99_ms",
			 durations_quantile(&both, 0.99) * 1e-6);
}

static json_t *objective_json(const struct fleet_requests *q, enum request_objective o)
{
	json_t *out = o == REQUEST_TTFT ? times_json(&q->before.ttft, &q->now.ttft)
					: times_json(&q->before.tpot, &q->now.tpot);

	json_object_set_new(out, "judged", json_integer((json_int_t)q->sum.judged[o]));
	json_object_set_new(out, "violated", json_integer((json_int_t)q->sum.violated[o]));
	return out;
}

static json_t *step_json(const struct seen *s)
{
	const struct request_step *t = &s->v.slow;

	if (!t->begin_ns)
		return json_null();
	return json_pack("{s:f, s:f, s:I, s:I, s:I, s:o}", "after_ms",
			 (double)(int64_t)(t->begin_ns - s->v.arrival_ns) * 1e-6, "ms",
			 (double)(t->end_ns - t->begin_ns) * 1e-6, "tokens", (json_int_t)t->tokens,
			 "step_tokens", (json_int_t)t->step_tokens, "batch", (json_int_t)t->batch,
			 "span", json_text(s->v.span));
}

static json_t *violation_json(const struct seen *s)
{
	const struct request_violation *v = &s->v;
	char id[17], group[33];
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(v->id >> (56 - 8 * i));
	text_hex(bytes, sizeof(bytes), id);
	text_hex(s->group, sizeof(s->group), group);
	return json_pack(
	    "{s:s, s:o, s:s, s:f, s:s, s:f, s:f, s:I, s:I, s:o, s:o, s:s, s:o}", "id", id, "node",
	    json_text(s->node), "objective", request_objective_name(v->objective), "objective_ms",
	    (double)v->objective_ns * 1e-6, "phase", request_phase_name(v->phase), "ms",
	    (double)v->value_ns * 1e-6, "phase_ms", (double)v->phase_ns * 1e-6, "prompt_tokens",
	    (json_int_t)v->prompt_tokens, "output_tokens", (json_int_t)v->output_tokens,
	    "begin_unix_ns", json_exact(s->begin_unix_ns), "end_unix_ns",
	    json_exact(s->end_unix_ns), "anomaly_id", group, "slow_step", step_json(s));
}

static json_t *violations_json(const struct fleet_requests *q)
{
	uint64_t count = q->recents < RECENT_MAX ? q->recents : RECENT_MAX;
	json_t *list = json_array();

	for (uint64_t i = 1; i <= count; i++)
		json_array_append_new(list,
				      violation_json(&q->recent[(q->recents - i) % RECENT_MAX]));
	return list;
}

static struct open_sum sum_of(const struct fleet *f, const struct fleet_job *job, uint64_t now_ns)
{
	struct open_sum sum = {0};

	for (uint32_t i = 0; i < job->part_count; i++) {
		const struct fleet_part *p = &job->parts[i];

		if (p->node == FLEET_NONE || !p->requests_ns ||
		    !fleet_is_alive(f, p->requests_ns, now_ns))
			continue;
		sum.nodes++;
		sum.running += p->running;
		sum.waiting += p->waiting;
		sum.wait_ns = p->wait_ns > sum.wait_ns ? p->wait_ns : sum.wait_ns;
	}
	return sum;
}

static json_t *job_json(const struct fleet *f, const struct fleet_job *job, bool whole,
			uint64_t now_ns)
{
	const struct fleet_requests *q = job->requests;
	struct open_sum sum = sum_of(f, job, now_ns);
	json_t *out = json_pack(
	    "{s:o, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "job",
	    json_text(job->name), "nodes", (json_int_t)sum.nodes, "running",
	    (json_int_t)sum.running, "waiting", (json_int_t)sum.waiting, "oldest_wait_ms",
	    (double)sum.wait_ns * 1e-6, "arrived", (json_int_t)q->sum.arrived, "ended",
	    (json_int_t)q->sum.ended, "lost", (json_int_t)q->sum.lost, "violations_dropped",
	    (json_int_t)(q->sum.violations_dropped + q->groups_full), "ttft",
	    objective_json(q, REQUEST_TTFT), "tpot", objective_json(q, REQUEST_TPOT), "queue",
	    times_json(&q->before.queue, &q->now.queue));

	if (q->joined)
		json_object_set_new(out, "joined", fleet_joined_counts(q->joined, now_ns));
	if (whole)
		json_object_set_new(out, "violations", violations_json(q));
	return out;
}

/* Adds the request, if the job has it. */
static void add_request(struct fleet *f, struct fleet_job *job, uint64_t id, json_t *out)
{
	struct fleet_joined *joined = job && job->requests ? job->requests->joined : NULL;
	struct buf text;
	json_t *one;

	buf_init(&text, LIMIT_API_LIST_BYTES);
	if (joined && fleet_joined_json(f, job, joined, id, &text) && !text.failed) {
		one = json_loadb((const char *)text.data, text.bytes, 0, NULL);
		json_object_set_new(out, "objectives", fleet_joined_objectives(joined));
		if (one)
			json_array_append_new(json_object_get(out, "requests"), one);
	}
	buf_fini(&text);
}

json_t *fleet_request_json(struct fleet *f, const struct http_user *who, const char *job,
			   uint64_t id)
{
	json_t *out = json_pack("{s:{}, s:[]}", "objectives", "requests");
	struct fleet_job_name *names;
	uint32_t n;

	if (fleet_job_names(f, who, job, NULL, &names, &n)) {
		json_decref(out);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		pthread_mutex_lock(&f->lock);
		add_request(f, fleet_find_job(f, names[i].name), id, out);
		pthread_mutex_unlock(&f->lock);
	}
	free(names);
	return out;
}

json_t *fleet_requests_json(struct fleet *f, const struct fleet_page *q, uint64_t now_ns)
{
	json_t *list = json_array(), *out = json_pack("{s:o}", "requests", list);
	struct fleet_job_name *names;
	const struct fleet_job *job;
	uint32_t n, i = 0;

	if (fleet_job_names(f, q->who, q->job, q->after, &names, &n)) {
		json_decref(out);
		return NULL;
	}
	for (; i < n && json_array_size(list) < q->limit; i++) {
		if (q->job && strcmp(names[i].name, q->job)) /* another run or step of the job */
			continue;
		pthread_mutex_lock(&f->lock);
		job = fleet_find_job(f, names[i].name);
		if (job && job->requests)
			json_array_append_new(list, job_json(f, job, q->job != NULL, now_ns));
		pthread_mutex_unlock(&f->lock);
	}
	if (i < n)
		json_object_set_new(out, "next", json_text(names[i].name));
	free(names);
	return out;
}

/* ---- metrics ---- */

static const struct {
	const char *name;
	double p;
} quantiles[] = {{"0.5", 0.5}, {"0.99", 0.99}};

/* The figures of a job, as of one moment. */
struct job_figures {
	bool known;
	struct open_sum now;
	double quantile_s[REQUEST_OBJECTIVES][ARRAY_LEN(quantiles)]; /* NAN: no request */
	double violated[REQUEST_OBJECTIVES];
};

static void take_figures(const struct fleet *f, const struct fleet_job *job, uint64_t now_ns,
			 struct job_figures *out)
{
	const struct fleet_requests *q = job->requests;

	out->known = true;
	out->now = sum_of(f, job, now_ns);
	for (unsigned o = 0; o < REQUEST_OBJECTIVES; o++) {
		struct durations both = o == REQUEST_TTFT ? q->now.ttft : q->now.tpot;

		durations_merge(&both, o == REQUEST_TTFT ? &q->before.ttft : &q->before.tpot);
		for (size_t k = 0; k < ARRAY_LEN(quantiles); k++)
			out->quantile_s[o][k] =
			    both.total ? durations_quantile(&both, quantiles[k].p) * 1e-9 : NAN;
		out->violated[o] = (double)q->sum.violated[o];
	}
}

static void put_quantiles(struct metrics *m, const char *job, const struct job_figures *v)
{
	for (unsigned o = 0; o < REQUEST_OBJECTIVES; o++)
		for (size_t k = 0; k < ARRAY_LEN(quantiles); k++)
			if (!isnan(v->quantile_s[o][k]))
				metrics_sample(m, "sysom_job_request_seconds", v->quantile_s[o][k],
					       "job_name", job, "objective",
					       request_objective_name(o), "quantile",
					       quantiles[k].name, NULL);
}

static void put_figures(struct metrics *m, const struct fleet_job_name *names,
			const struct job_figures *v, uint32_t n)
{
	metrics_family(m, "sysom_job_requests", "Requests of a serving job now.");
	for (uint32_t i = 0; i < n; i++) {
		if (!v[i].known)
			continue;
		metrics_sample(m, "sysom_job_requests", (double)v[i].now.running, "job_name",
			       names[i].name, "state", "running", NULL);
		metrics_sample(m, "sysom_job_requests", (double)v[i].now.waiting, "job_name",
			       names[i].name, "state", "waiting", NULL);
	}
	metrics_family(m, "sysom_job_request_seconds",
		       "Time to first token (ttft) and time per output token (tpot) of the last "
		       "one to two minutes.");
	for (uint32_t i = 0; i < n; i++)
		if (v[i].known)
			put_quantiles(m, names[i].name, &v[i]);
	metrics_family(m, "sysom_job_request_violations_total",
		       "Requests of a serving job that missed an objective.");
	for (uint32_t i = 0; i < n; i++)
		for (unsigned o = 0; o < REQUEST_OBJECTIVES && v[i].known; o++)
			metrics_sample(m, "sysom_job_request_violations_total", v[i].violated[o],
				       "job_name", names[i].name, "objective",
				       request_objective_name(o), NULL);
}

/* A job that has ended has no series: its last values would look like present ones. */
static bool is_running(const struct fleet *f, const struct fleet_job *job, uint64_t now_ns)
{
	for (uint32_t i = 0; i < job->rank_count; i++)
		if (job->ranks[i].used && fleet_rank_is_alive(f, &job->ranks[i], now_ns))
			return true;
	return false;
}

void fleet_requests_metrics(struct fleet *f, const struct http_user *who, uint64_t now_ns,
			    struct metrics *m)
{
	struct fleet_job_name *names;
	struct job_figures *v;
	uint32_t n;

	if (fleet_job_names(f, who, NULL, NULL, &names, &n))
		return;
	v = calloc((size_t)n + 1, sizeof(*v));
	for (uint32_t i = 0; v && i < n; i++) {
		const struct fleet_job *job;

		pthread_mutex_lock(&f->lock);
		job = fleet_find_job(f, names[i].name);
		if (job && job->requests && is_running(f, job, now_ns))
			take_figures(f, job, now_ns, &v[i]);
		pthread_mutex_unlock(&f->lock);
	}
	if (v)
		put_figures(m, names, v, n);
	free(v);
	free(names);
}

/* SPDX-License-Identifier: Apache-2.0
 * A request is in one list of its job: open (waiting or running; the one without an update for
 * longest first), ending (updates from other processes may still come), ended (kept for people). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/thresholds.h"
#include "analysis/requests/request_table_private.h"

/* An id that comes so soon after its end is a late update, not a new request. */
#define REUSE_NS 10000000000ull
/* Requests after which older ones count half. */
#define USUAL_REQUESTS 128

void request_config_default(struct request_config *c)
{
	*c = (struct request_config){.ttft_ns = 10000000000ull,
				     .tpot_ns = 100000000ull,
				     .settle_ns = 2000000000ull,
				     .silent_ns = 600000000000ull};
}

int request_table_open(struct request_table **out, const struct request_config *c,
		       request_violation_fn fn, void *arg)
{
	struct request_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->config = *c;
	t->fn = fn;
	t->arg = arg;
	t->by_id.max = LIMIT_NODE_REQUESTS + REQUEST_ENDED_MAX;
	*out = t;
	return 0;
}

static void free_engine(struct request_table *t, uint32_t process)
{
	if (t->engine[process])
		idmap_fini(&t->engine[process]->top);
	free(t->engine[process]);
	t->engine[process] = NULL;
}

void request_table_close(struct request_table *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		free_engine(t, i);
	idmap_fini(&t->by_id);
	free(t->request);
	free(t);
}

/* ---- lists ---- */

static struct request *at_of(const struct request_table *t, uint32_t number)
{
	return number ? &t->request[number - 1] : NULL;
}

static struct request_list *list_of(struct request_table *t, const struct request *r)
{
	struct request_job_state *j = &t->job[r->job];

	return r->state == REQUEST_ENDED    ? &j->ended
	       : r->state == REQUEST_ENDING ? &j->ending
					    : &j->open;
}

static void unlink_request(struct request_table *t, struct request *r)
{
	struct request_list *l = list_of(t, r);
	struct request *before = at_of(t, r->before), *next = at_of(t, r->next);

	*(before ? &before->next : &l->first) = r->next;
	*(next ? &next->before : &l->last) = r->before;
	l->count--;
	t->job[r->job].running -= r->state == REQUEST_RUNNING;
	t->open -= r->state != REQUEST_ENDED;
	t->ended -= r->state == REQUEST_ENDED;
}

static void link_request(struct request_table *t, struct request *r, enum request_state state)
{
	struct request_list *l;
	struct request *last;
	uint32_t number = (uint32_t)(r - t->request) + 1;

	r->state = (uint8_t)state;
	l = list_of(t, r);
	last = at_of(t, l->last);
	r->before = l->last;
	r->next = 0;
	*(last ? &last->next : &l->first) = number;
	l->last = number;
	l->count++;
	t->job[r->job].running += state == REQUEST_RUNNING;
	t->open += state != REQUEST_ENDED;
	t->ended += state == REQUEST_ENDED;
}

static void move(struct request_table *t, struct request *r, enum request_state state)
{
	unlink_request(t, r);
	link_request(t, r, state);
}

static uint64_t key_of(const struct request_table *t, uint32_t job, uint64_t id)
{
	return id ^ t->job[job].salt;
}

static void forget(struct request_table *t, struct request *r)
{
	unlink_request(t, r);
	idmap_remove(&t->by_id, key_of(t, r->job, r->id));
	*r = (struct request){.next = t->free};
	t->free = (uint32_t)(r - t->request) + 1;
}

/* ---- verdicts ---- */

static uint64_t from_to(uint64_t from_ns, uint64_t to_ns)
{
	return from_ns && to_ns > from_ns ? to_ns - from_ns : 0;
}

uint64_t request_first_ns(const struct request *r)
{
	return r->delivered_first_ns ? r->delivered_first_ns : r->first_ns;
}

uint64_t request_last_ns(const struct request *r)
{
	return r->delivered_first_ns ? r->delivered_last_ns : r->last_ns;
}

uint64_t request_ttft_ns(const struct request *r)
{
	return from_to(r->arrival_ns, request_first_ns(r));
}

uint32_t request_output_tokens(const struct request *r)
{
	if (r->delivered_tokens)
		return r->delivered_tokens;
	return r->output_tokens ? r->output_tokens : r->decode_steps + (r->first_ns != 0);
}

uint64_t request_tpot_ns(const struct request *r)
{
	uint32_t tokens = request_output_tokens(r);

	return tokens > 1 ? from_to(request_first_ns(r), request_last_ns(r)) / (tokens - 1) : 0;
}

/* The longest phase of what missed the objective. per: so many tokens share the time. */
static void take_longest(const struct request *r, enum request_objective objective, uint32_t per,
			 struct request_violation *v)
{
	uint64_t ns[REQUEST_PHASES];

	request_parts(r, objective, ns);
	for (unsigned i = REQUEST_PHASE_NONE + 1; i < REQUEST_PHASES; i++)
		if (ns[i] / per > v->phase_ns) {
			v->phase = i;
			v->phase_ns = ns[i] / per;
		}
}

static const struct request_engine *engine_of(const struct request_table *t,
					      const struct request *r)
{
	return r->process < LIMIT_NODE_PROCESSES ? t->engine[r->process] : NULL;
}

static void explain_ttft(const struct request_table *t, const struct request *r,
			 struct request_violation *v)
{
	uint64_t handed = r->handed_ns > r->arrival_ns ? r->handed_ns : r->arrival_ns;
	const struct request_engine *e = engine_of(t, r);

	take_longest(r, REQUEST_TTFT, 1, v);
	if (v->phase == REQUEST_PREFILL)
		v->slow = r->prefill[0];
	else if (v->phase == REQUEST_TRANSFER)
		v->slow = request_table_longest(e, r->transfer.begin_ns, r->transfer.end_ns);
	else if (v->phase == REQUEST_QUEUE)
		v->slow = request_table_longest(e, handed, r->scheduled_ns);
}

/* Without either, its tokens are guessed from its steps. */
static bool tokens_known(const struct request *r)
{
	return r->delivered_tokens || r->output_tokens;
}

/* Decode takes longer if steps are longer, or if fewer drafts are accepted and a token needs more of
 * them. If more steps explain most of the excess, they are the phase. */
static void separate_drafts(const struct request_usual *u, const struct request *r, double tokens,
			    struct request_violation *v)
{
	double now_ns = (double)v->phase_ns, excess_ns, drafts_ns;

	if (u->requests < thresholds.count.some || !r->decode_steps || !tokens_known(r))
		return;
	excess_ns = now_ns - u->decode_ns / u->tokens;
	drafts_ns = now_ns * (1 - u->decode_steps / u->tokens * tokens / r->decode_steps);
	if (excess_ns <= 0 || drafts_ns <= thresholds.part.half * excess_ns)
		return;
	v->phase = REQUEST_DRAFTS;
	v->phase_ns = (uint64_t)drafts_ns;
}

static void learn_usual(struct request_usual *u, const struct request *r)
{
	uint64_t ns[REQUEST_PHASES];

	if (!r->decode_steps || !tokens_known(r))
		return;
	if (u->requests >= USUAL_REQUESTS) {
		u->requests /= 2;
		u->tokens /= 2;
		u->decode_steps /= 2;
		u->decode_ns /= 2;
	}
	u->requests++;
	u->tokens += request_output_tokens(r) - 1;
	u->decode_steps += r->decode_steps;
	request_parts(r, REQUEST_TPOT, ns);
	u->decode_ns += (double)ns[REQUEST_DECODE];
}

static void explain_tpot(const struct request_table *t, const struct request *r,
			 struct request_violation *v)
{
	uint32_t gaps = request_output_tokens(r) - 1;
	const struct request_engine *e = engine_of(t, r);

	take_longest(r, REQUEST_TPOT, gaps, v);
	if (v->phase == REQUEST_DECODE) {
		v->slow = r->decode[0];
		separate_drafts(&t->job[r->job].usual, r, gaps, v);
	} else if (v->phase == REQUEST_PAUSE) {
		v->slow = request_table_longest(e, r->pause.begin_ns, r->pause.end_ns);
	} else if (v->phase == REQUEST_TRANSFER) {
		v->slow = request_table_longest(e, r->transfer.begin_ns, r->transfer.end_ns);
	}
}

static void report(struct request_table *t, const struct request *r,
		   enum request_objective objective, uint64_t value_ns)
{
	struct request_job *b = &t->job[r->job].beat;
	struct request_violation v = {.id = r->id,
				      .objective = objective,
				      .prompt_tokens = r->prompt_tokens,
				      .output_tokens = request_output_tokens(r),
				      .arrival_ns = r->arrival_ns,
				      .scheduled_ns = r->scheduled_ns,
				      .first_ns = r->first_ns,
				      .last_ns = r->last_ns,
				      .value_ns = value_ns};

	if (objective == REQUEST_TTFT)
		explain_ttft(t, r, &v);
	else
		explain_tpot(t, r, &v);
	t->fn(t->arg, t->job[r->job].name, r->process, &v);
	if (b->violation_count < REQUEST_VIOLATIONS_MAX)
		b->violation[b->violation_count++] = v;
	else
		b->counts.violations_dropped++;
}

static void judge(struct request_table *t, struct request *r, enum request_objective objective,
		  uint64_t value_ns)
{
	struct request_job_state *j = &t->job[r->job];
	bool out = value_ns > (objective == REQUEST_TTFT ? t->config.ttft_ns : t->config.tpot_ns);

	if (!value_ns || r->judged[objective])
		return;
	r->judged[objective] = true;
	r->violated[objective] = out;
	j->stats.judged[objective]++;
	j->stats.violated[objective] += out;
	j->beat.counts.judged[objective]++;
	j->beat.counts.violated[objective] += out;
	durations_add(objective == REQUEST_TTFT ? &j->beat.ttft : &j->beat.tpot, value_ns);
	if (objective == REQUEST_TTFT && r->scheduled_ns)
		durations_add(&j->beat.queue, from_to(r->arrival_ns, r->scheduled_ns));
	if (out)
		report(t, r, objective, value_ns);
	else if (objective == REQUEST_TPOT)
		learn_usual(&j->usual, r);
}

/* No update comes any more, or it is too late. */
static void close_request(struct request_table *t, struct request *r, bool lost)
{
	struct request_job_state *j = &t->job[r->job];
	struct request_job_state *most = j;

	r->lost = lost;
	if (!r->ended_known_ns)
		r->ended_known_ns = t->now_ns;
	j->stats.lost += lost;
	j->beat.counts.lost += lost;
	j->stats.ended += !lost;
	j->beat.counts.ended += !lost;
	j->stats.partial += !r->arrival_ns;
	judge(t, r, REQUEST_TTFT, request_ttft_ns(r));
	if (!lost && r->arrival_ns)
		judge(t, r, REQUEST_TPOT, request_tpot_ns(r));
	move(t, r, REQUEST_ENDED);
	if (t->ended <= REQUEST_ENDED_MAX)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (t->job[i].ended.count > most->ended.count)
			most = &t->job[i];
	forget(t, at_of(t, most->ended.first));
}

/* ---- for request_table_steps.c ---- */

/* Of the job with most open requests, the one without an update for longest. */
static void make_room(struct request_table *t)
{
	struct request_job_state *most = &t->job[0];
	struct request *r;

	for (uint32_t i = 1; i < LIMIT_NODE_PROCESSES; i++)
		if (t->job[i].open.count + t->job[i].ending.count >
		    most->open.count + most->ending.count)
			most = &t->job[i];
	r = at_of(t, most->open.first ? most->open.first : most->ending.first);
	most->stats.evicted++;
	close_request(t, r, true);
}

static struct request *place(struct request_table *t)
{
	struct request *r;

	if (t->open >= LIMIT_NODE_REQUESTS)
		make_room(t);
	if (t->free) {
		r = at_of(t, t->free);
		t->free = r->next;
		return r;
	}
	if (ROOM_FOR(t->request, t->room, t->count + 1ull))
		return NULL;
	return &t->request[t->count++];
}

struct request *request_table_get(struct request_table *t, uint32_t job, uint64_t id,
				  uint32_t process)
{
	struct request_job_state *j = &t->job[job];
	uint32_t at = idmap_get(&t->by_id, key_of(t, job, id));
	struct request *r = at != IDMAP_NONE ? &t->request[at] : NULL;

	if (r && r->state != REQUEST_ENDED)
		return r;
	if (r && t->now_ns < r->ended_known_ns + REUSE_NS &&
	    (process == r->process || process == REQUEST_NO_PROCESS))
		return NULL;
	if (r) {
		j->stats.repeated++;
		forget(t, r);
	}
	r = place(t);
	if (!r)
		return NULL;
	*r = (struct request){
	    .id = id, .job = job, .process = REQUEST_NO_PROCESS, .updated_ns = t->now_ns};
	link_request(t, r, REQUEST_WAITING);
	if (idmap_put(&t->by_id, key_of(t, job, id), (uint32_t)(r - t->request))) {
		forget(t, r);
		return NULL;
	}
	j->used = true;
	j->stats.arrived++;
	j->beat.counts.arrived++;
	return r;
}

void request_table_touch(struct request_table *t, struct request *r)
{
	r->updated_ns = t->now_ns;
	if (!r->first_known_ns && request_first_ns(r))
		r->first_known_ns = t->now_ns;
	if (r->state != REQUEST_ENDING)
		move(t, r, r->state);
	if (r->first_known_ns && t->now_ns > r->first_known_ns + t->config.settle_ns)
		judge(t, r, REQUEST_TTFT, request_ttft_ns(r));
}

void request_table_run(struct request_table *t, struct request *r, uint32_t process)
{
	r->moved |= r->last_ns && r->process != process;
	r->process = process;
	r->ended_ns = r->ended_known_ns = 0;
	move(t, r, REQUEST_RUNNING);
}

void request_table_finish(struct request_table *t, struct request *r, uint64_t t_ns)
{
	if (r->state == REQUEST_ENDING)
		return;
	r->ended_ns = t_ns;
	r->ended_known_ns = t->now_ns;
	move(t, r, REQUEST_ENDING);
}

/* ---- processes and time ---- */

int request_table_begin(struct request_table *t, uint32_t process, const char *job)
{
	uint32_t at = LIMIT_NODE_PROCESSES;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		if (!strcmp(t->job[i].name, job)) {
			at = i;
			break;
		}
		if (!t->job[i].name[0] && at == LIMIT_NODE_PROCESSES)
			at = i;
	}
	if (at == LIMIT_NODE_PROCESSES || !*job)
		return -ENOMEM;
	text_copy(t->job[at].name, sizeof(t->job[at].name), job);
	t->job[at].salt = keyed_text(keyed_process(), job);
	t->job[at].processes++;
	t->job_of[process] = at + 1;
	return 0;
}

void request_table_end(struct request_table *t, uint32_t process, uint64_t now_ns)
{
	uint32_t next;

	if (!t->job_of[process])
		return;
	t->now_ns = now_ns > t->now_ns ? now_ns : t->now_ns;
	for (uint32_t at = t->job[t->job_of[process] - 1].open.first; at; at = next) {
		struct request *r = at_of(t, at);

		next = r->next;
		if (r->process == process)
			close_request(t, r, true);
	}
}

static void forget_list(struct request_table *t, struct request_list *l)
{
	while (l->first)
		forget(t, at_of(t, l->first));
}

void request_table_drop(struct request_table *t, uint32_t process)
{
	struct request_job_state *j;

	free_engine(t, process);
	if (!t->job_of[process])
		return;
	j = &t->job[t->job_of[process] - 1];
	t->job_of[process] = 0;
	if (--j->processes)
		return;
	forget_list(t, &j->open);
	forget_list(t, &j->ending);
	forget_list(t, &j->ended);
	*j = (struct request_job_state){.name = ""};
}

void request_table_tend(struct request_table *t, uint64_t now_ns)
{
	t->now_ns = now_ns > t->now_ns ? now_ns : t->now_ns;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct request_job_state *j = &t->job[i];
		struct request *r;

		while ((r = at_of(t, j->ending.first)) &&
		       t->now_ns > r->ended_known_ns + t->config.settle_ns)
			close_request(t, r, false);
		while ((r = at_of(t, j->open.first)) &&
		       t->now_ns > r->updated_ns + t->config.silent_ns)
			close_request(t, r, true);
	}
}

/* ---- what others read ---- */

const struct request *request_table_next(const struct request_table *t, uint32_t *at)
{
	while (*at < t->count) {
		const struct request *r = &t->request[(*at)++];

		if (r->id)
			return r;
	}
	return NULL;
}

const char *request_table_job(const struct request_table *t, const struct request *r)
{
	return t->job[r->job].name;
}

/* The longest wait. Requests arrive in order, and an update moves a request to the end. */
static uint64_t oldest_wait(const struct request_table *t, const struct request_job_state *j,
			    uint64_t now_ns)
{
	for (uint32_t at = j->open.first; at; at = t->request[at - 1].next) {
		const struct request *r = &t->request[at - 1];

		if (r->state == REQUEST_WAITING)
			return from_to(r->arrival_ns, now_ns);
	}
	return 0;
}

bool request_table_take(struct request_table *t, uint32_t at, uint64_t now_ns,
			struct request_job *out)
{
	struct request_job_state *j = &t->job[at];

	if (!j->used)
		return false;
	*out = j->beat;
	j->beat = (struct request_job){.running = 0};
	text_copy(out->job, sizeof(out->job), j->name);
	out->running = j->running;
	out->waiting = j->open.count - j->running;
	out->oldest_wait_ns = out->waiting ? oldest_wait(t, j, now_ns) : 0;
	return true;
}

const struct request_stats *request_table_stats(const struct request_table *t, uint32_t at,
						const char **job)
{
	const struct request_stats *s = &t->job[at].stats;

	*job = t->job[at].name;
	return t->job[at].used || s->bad || s->parts_lost ? s : NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 * A request is in one list of its job: open (waiting or running; the one whose latest update is
 * oldest comes first), ending (updates from other processes may still come), or ended (kept only to
 * be shown). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/thresholds.h"
#include "analysis/requests/request_table_private.h"

/* If an id is named again this soon after its request ended, it is a late update, not a new
 * request. */
#define REUSE_NS 10000000000ull
/* When the usual sums hold this many requests, they are halved: older requests count less. */
#define USUAL_REQUESTS 128

void request_config_default(struct request_config *c)
{
	*c = (struct request_config){.ttft_ns = 10000000000ull,
				     .tpot_ns = 100000000ull,
				     .settle_ns = 2000000000ull,
				     .silent_ns = 600000000000ull,
				     .stall_ns = 30000000000ull,
				     .open_max = LIMIT_NODE_REQUESTS};
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
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		free(t->job[i].piece);
	free(t->seen);
	free(t->request);
	free(t);
}

/* ---- pieces ---- */

static bool forwards(const struct request_table *t, const struct request *r)
{
	return r->announced ||
	       (t->now_ns < t->job[r->job].pieces_until_ns && !r->judged[REQUEST_TTFT]);
}

/* A piece replaces the request's earlier open piece, unless that one may already have been sent. */
static void put_piece(struct request_job_state *j, const struct request *r, uint32_t flags)
{
	uint32_t at = j->pieces_sent;

	if (!j->piece)
		j->piece = malloc(REQUEST_PIECES_MAX * sizeof(*j->piece));
	while (j->piece && at < j->pieces && j->piece[at].serial != r->serial)
		at++;
	if (!j->piece || at == REQUEST_PIECES_MAX) {
		j->stats.parts_lost++;
		return;
	}
	request_pieces_of(r, &j->piece[at]);
	j->piece[at].flags |= flags;
	j->pieces += at == j->pieces;
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

/* Finds the longest phase of the time that missed the objective. per: number of tokens that share
 * this time. */
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

/* Whether the number of output tokens is known. If it is not, it is guessed from the steps. */
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

static uint64_t objective_ns(const struct request_table *t, enum request_objective objective)
{
	return objective == REQUEST_TTFT ? t->config.ttft_ns : t->config.tpot_ns;
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
				      .value_ns = value_ns,
				      .objective_ns = objective_ns(t, objective)};

	if (objective == REQUEST_TTFT)
		explain_ttft(t, r, &v);
	else
		explain_tpot(t, r, &v);
	if (t->still.begin_ns)
		v.slow = t->still;
	t->fn(t->arg, t->job[r->job].name, r->process, &v);
	if (b->violation_count < REQUEST_VIOLATIONS_MAX)
		b->violation[b->violation_count++] = v;
	else
		b->counts.violations_dropped++;
}

bool request_table_is_orphan(const struct request_table *t, const struct request *r)
{
	return t->config.joins && t->job[r->job].has_client && !r->handed_ns;
}

bool request_table_collides(const struct request_table *t, const struct request *r)
{
	return t->config.joins ? request_pieces_collide(&t->seen[r - t->request]) : r->shared;
}

/* Whether the request must not be judged here: only the joined pieces of several nodes show how
 * long it took, or no believed node reported it. */
static bool is_for_others(const struct request_table *t, const struct request *r)
{
	return t->config.joins ? !t->seen[r - t->request].believed ||
				     request_table_is_orphan(t, r) || request_table_collides(t, r)
			       : forwards(t, r);
}

static void judge(struct request_table *t, struct request *r, enum request_objective objective,
		  uint64_t value_ns)
{
	struct request_job_state *j = &t->job[r->job];
	bool out = value_ns > objective_ns(t, objective);

	if (!value_ns || r->judged[objective] || is_for_others(t, r) ||
	    request_table_collides(t, r))
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

/* Whether the request waits for an engine. It does if an engine has it, or if an API process has
 * handed it over. With `here`, the engine may be on another node, so handing over is not enough. A
 * request that the API process refuses, or divides into several, does not wait. */
static bool waits(const struct request *r, bool here)
{
	return r->state == REQUEST_WAITING && (r->queued_ns || (!here && r->handed_last_ns));
}

/* Judges the waiting requests of a job whose engines do nothing: they have missed the objective,
 * whenever their first token comes. This needs spans that show first tokens, so an earlier request
 * of the job must have been judged. */
static void judge_overdue(struct request_table *t, const struct request_job_state *j)
{
	uint64_t late_ns = t->config.ttft_ns + t->config.settle_ns;
	uint64_t still_ns = t->config.stall_ns > late_ns ? t->config.stall_ns : late_ns;
	uint32_t next;

	if (t->config.joins || !j->stats.judged[REQUEST_TTFT] || t->now_ns < j->moved_ns + still_ns)
		return;
	t->still = (struct request_step){.begin_ns = j->moved_ns, .end_ns = t->now_ns};
	for (uint32_t at = j->open.first; at; at = next) {
		struct request *r = at_of(t, at), until_now = *r;

		next = r->next;
		if (!r->arrival_ns || request_first_ns(r) || t->now_ns < r->arrival_ns + late_ns ||
		    !(waits(r, false) || r->state == REQUEST_RUNNING))
			continue;
		until_now.scheduled_ns = r->scheduled_ns ? r->scheduled_ns : t->now_ns;
		until_now.first_ns = t->now_ns;
		judge(t, &until_now, REQUEST_TTFT, request_ttft_ns(&until_now));
		r->judged[REQUEST_TTFT] = until_now.judged[REQUEST_TTFT];
		r->violated[REQUEST_TTFT] = until_now.violated[REQUEST_TTFT];
	}
	t->still = (struct request_step){0};
}

/* Closes the request: no update comes any more, or it comes too late. */
static void close_request(struct request_table *t, struct request *r, bool lost)
{
	struct request_job_state *j = &t->job[r->job];
	struct request_job_state *most = j;
	uint32_t node[REQUEST_PIECES];

	r->lost = lost;
	if (!r->ended_known_ns)
		r->ended_known_ns = t->now_ns;
	j->stats.lost += lost;
	j->stats.ended += !lost;
	if (!is_for_others(t, r)) {
		j->beat.counts.arrived += 1ull - r->counted;
		j->beat.counts.lost += lost;
		j->beat.counts.ended += !lost;
	} else if (!t->config.joins) {
		put_piece(j, r, 0);
	} else if (t->seen[r - t->request].believed) {
		j->beat.counts.arrived -= r->counted;
	} else {
		j->stats.unbelieved++;
		t->strangers--;
	}
	j->stats.shared += request_table_collides(t, r);
	j->stats.joined +=
	    t->config.joins && !request_table_collides(t, r) && request_table_nodes(t, r, node) > 1;
	j->stats.partial += !r->arrival_ns || request_table_is_orphan(t, r);
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

/* Drops a request: the one whose latest update is oldest, of the job with most open requests. */
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

	if (t->open >= t->config.open_max)
		make_room(t);
	if (t->free) {
		r = at_of(t, t->free);
		t->free = r->next;
		return r;
	}
	if (ROOM_FOR(t->request, t->room, t->count + 1ull) ||
	    (t->config.joins && ROOM_FOR(t->seen, t->seen_room, t->count + 1ull)))
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
	t->serial = t->now_ns > t->serial ? t->now_ns : t->serial + 1;
	*r = (struct request){.id = id,
			      .serial = t->serial,
			      .job = job,
			      .process = REQUEST_NO_PROCESS,
			      .stepped = REQUEST_NO_PROCESS,
			      .left = REQUEST_NO_PROCESS,
			      .updated_ns = t->now_ns};
	if (t->config.joins) {
		t->seen[r - t->request].count = t->seen[r - t->request].believed = 0;
		t->strangers++;
	}
	r->counted = !t->config.joins && !forwards(t, r);
	link_request(t, r, REQUEST_WAITING);
	if (idmap_put(&t->by_id, key_of(t, job, id), (uint32_t)(r - t->request))) {
		t->strangers -= t->config.joins;
		forget(t, r);
		return NULL;
	}
	j->used = true;
	j->stats.arrived++;
	j->beat.counts.arrived += r->counted;
	return r;
}

void request_table_touch(struct request_table *t, struct request *r)
{
	r->updated_ns = t->now_ns;
	if (!r->first_known_ns && request_first_ns(r))
		r->first_known_ns = t->now_ns;
	if (r->state != REQUEST_ENDING)
		move(t, r, r->state);
	if (!t->config.joins && !r->announced && forwards(t, r)) {
		r->announced = true;
		put_piece(&t->job[r->job], r, REQUEST_PIECE_OPEN);
	}
	if (!t->config.joins && r->first_known_ns &&
	    t->now_ns > r->first_known_ns + t->config.settle_ns)
		judge(t, r, REQUEST_TTFT, request_ttft_ns(r));
}

void request_table_run(struct request_table *t, struct request *r, uint32_t process)
{
	r->process = process;
	r->ended_ns = r->ended_known_ns = 0;
	move(t, r, REQUEST_RUNNING);
}

void request_table_finish(struct request_table *t, struct request *r, uint64_t t_ns)
{
	if (r->state == REQUEST_ENDING || t_ns < r->handed_last_ns)
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
	t->ended_process[process] = false;
	return 0;
}

void request_table_end(struct request_table *t, uint32_t process, uint64_t now_ns)
{
	struct request_job_state *j = t->job_of[process] ? &t->job[t->job_of[process] - 1] : NULL;
	uint32_t next;

	if (!j || t->ended_process[process])
		return;
	t->ended_process[process] = true;
	j->ended_processes++;
	t->now_ns = now_ns > t->now_ns ? now_ns : t->now_ns;
	for (uint32_t at = j->open.first; at; at = next) {
		struct request *r = at_of(t, at);

		next = r->next;
		if (r->process == process || j->ended_processes == j->processes)
			close_request(t, r, true);
	}
}

void request_table_end_marked(struct request_table *t, uint32_t process, uint32_t mark)
{
	uint32_t next;

	for (uint32_t at = t->job[t->job_of[process] - 1].open.first; at; at = next) {
		struct request *r = at_of(t, at);

		next = r->next;
		if (r->process != process || r->mark != mark || r->stepped != REQUEST_NO_PROCESS)
			continue;
		request_table_finish(t, r, r->queued_ns);
		/* that span was its end, and counted other tokens */
		r->queued_ns = 0;
		if (!r->handed_ns)
			r->arrival_ns = r->prompt_tokens = 0;
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
	j->ended_processes -= t->ended_process[process];
	if (--j->processes)
		return;
	forget_list(t, &j->open);
	forget_list(t, &j->ending);
	forget_list(t, &j->ended);
	free(j->piece);
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
			close_request(t, r, r->lost);
		while ((r = at_of(t, j->open.first)) &&
		       t->now_ns > r->updated_ns + t->config.silent_ns)
			close_request(t, r, true);
		judge_overdue(t, j);
	}
}

/* ---- a request whose instances are on different nodes ---- */

void request_table_forward(struct request_table *t, uint32_t process, uint64_t until_ns)
{
	if (t->job_of[process])
		t->job[t->job_of[process] - 1].pieces_until_ns = until_ns;
}

const struct request_piece *request_table_pieces(const struct request_table *t, uint32_t at,
						 const char **job, uint32_t *count)
{
	*job = t->job[at].name;
	*count = t->job[at].pieces;
	return *count ? t->job[at].piece : NULL;
}

void request_table_sent(struct request_table *t, uint32_t at, uint32_t count)
{
	t->job[at].pieces_sent = count;
}

void request_table_arrived(struct request_table *t)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct request_job_state *j = &t->job[i];

		if (!j->pieces_sent)
			continue;
		j->pieces -= j->pieces_sent;
		memmove(j->piece, j->piece + j->pieces_sent, j->pieces * sizeof(*j->piece));
		j->pieces_sent = 0;
	}
}

/* Replaces the piece with the same serial. False: there are too many. */
static bool keep_piece(struct request_seen *s, uint32_t node, const struct request_piece *p)
{
	uint32_t at = 0;

	while (at < s->count && (s->node[at] != node || s->piece[at].serial != p->serial))
		at++;
	if (at == REQUEST_PIECES)
		return false;
	/* a piece that was sent twice may come late */
	if (at == s->count || !(p->flags & REQUEST_PIECE_OPEN))
		s->piece[at] = *p;
	s->node[at] = node;
	s->count += at == s->count;
	return true;
}

static bool is_open(const struct request_seen *s)
{
	bool open = false;

	for (uint32_t i = 0; i < s->count; i++)
		open |= s->piece[i].flags & REQUEST_PIECE_OPEN;
	return open;
}

/* Fills the request's times from its pieces. Its place in the table stays the same. */
static void fill_whole(struct request *r, const struct request_seen *s)
{
	struct request whole = {.id = r->id,
				.serial = r->serial,
				.job = r->job,
				.process = REQUEST_NO_PROCESS,
				.updated_ns = r->updated_ns,
				.ended_known_ns = r->ended_known_ns,
				.state = r->state,
				.before = r->before,
				.next = r->next};

	request_pieces_join(s, &whole);
	*r = whole;
}

static bool has_room(const struct request_table *t, uint32_t process, bool believed, uint64_t id)
{
	return believed || t->strangers < t->config.open_max / 2 ||
	       request_table_find(t, process, id);
}

bool request_table_join(struct request_table *t, uint32_t process, uint32_t node, bool believed,
			const struct request_piece *p)
{
	uint32_t job = t->job_of[process] - 1, nodes[REQUEST_PIECES];
	struct request *r = has_room(t, process, believed, p->id)
				? request_table_get(t, job, p->id, REQUEST_NO_PROCESS)
				: NULL;
	struct request_seen *s = r ? &t->seen[r - t->request] : NULL;

	if (!r || !keep_piece(s, node, p)) {
		t->job[job].stats.parts_lost++;
		return false;
	}
	t->strangers -= believed && !s->believed;
	s->believed |= believed;
	t->job[job].has_client |= believed && p->handed_ns;
	fill_whole(r, s);
	request_table_touch(t, r);
	if (is_open(s) && r->state != REQUEST_RUNNING)
		move(t, r, REQUEST_RUNNING);
	if (!is_open(s)) {
		r->ended_known_ns = t->now_ns;
		move(t, r, REQUEST_ENDING);
	}
	return s->believed && request_table_nodes(t, r, nodes) > 1;
}

static bool drop_open(struct request_seen *s, uint32_t node)
{
	uint32_t kept = 0, before = s->count;

	for (uint32_t i = 0; i < before; i++) {
		if (s->node[i] == node && s->piece[i].flags & REQUEST_PIECE_OPEN)
			continue;
		s->node[kept] = s->node[i];
		s->piece[kept++] = s->piece[i];
	}
	s->count = kept;
	return kept < before;
}

static void leave_job(struct request_table *t, struct request_job_state *j, uint32_t node)
{
	uint32_t next;

	for (uint32_t at = j->open.first; at; at = next) {
		struct request *r = at_of(t, at);
		struct request_seen *s = &t->seen[r - t->request];

		next = r->next;
		if (!drop_open(s, node))
			continue;
		if (!s->count) {
			close_request(t, r, true);
		} else if (!is_open(s)) {
			r->ended_known_ns = t->now_ns;
			move(t, r, REQUEST_ENDING);
		}
	}
}

void request_table_leave(struct request_table *t, uint32_t node)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		leave_job(t, &t->job[i], node);
}

bool request_table_is_idle(const struct request_table *t)
{
	return !t->open;
}

void request_table_objectives(struct request_table *t, uint64_t ttft_ns, uint64_t tpot_ns)
{
	t->config.ttft_ns = ttft_ns;
	t->config.tpot_ns = tpot_ns;
}

uint32_t request_table_nodes(const struct request_table *t, const struct request *r,
			     uint32_t node[REQUEST_PIECES])
{
	const struct request_seen *s = &t->seen[r - t->request];
	uint32_t count = 0, order[REQUEST_PIECES] = {0};

	request_pieces_order(s, order);
	for (uint32_t i = 0; i < s->count; i++) {
		uint32_t at = 0;

		while (at < count && node[at] != s->node[order[i]])
			at++;
		node[at] = s->node[order[i]];
		count += at == count;
	}
	return count;
}

const struct request *request_table_find(const struct request_table *t, uint32_t process,
					 uint64_t id)
{
	uint32_t at = idmap_get(&t->by_id, key_of(t, t->job_of[process] - 1, id));

	return at != IDMAP_NONE ? &t->request[at] : NULL;
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

/* Counts open requests. here: the job's engines are on several nodes, so only requests that an
 * engine of this node has are counted. Requests arrive in order, and an update moves a request to
 * the end of the list, so the first waiting request has waited longest. */
static void count_open(const struct request_table *t, const struct request_job_state *j, bool here,
		       uint64_t now_ns, struct request_job *out)
{
	out->running = out->waiting = 0;
	out->oldest_wait_ns = 0;
	for (uint32_t at = j->open.first; at; at = t->request[at - 1].next) {
		const struct request *r = &t->request[at - 1];

		out->running +=
		    r->state == REQUEST_RUNNING && (!here || r->scheduled_ns > r->handed_last_ns ||
						    r->last_ns > r->handed_last_ns);
		if (!waits(r, here))
			continue;
		if (!out->waiting++)
			out->oldest_wait_ns = from_to(r->arrival_ns, now_ns);
	}
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
	count_open(t, j, t->now_ns < j->pieces_until_ns, now_ns, out);
	return true;
}

void request_table_give_back(struct request_table *t, const struct request_job *r)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct request_job *b = &t->job[i].beat;

		if (!*r->job || strcmp(t->job[i].name, r->job))
			continue;
		request_counts_add(&b->counts, &r->counts);
		durations_merge(&b->ttft, &r->ttft);
		durations_merge(&b->tpot, &r->tpot);
		durations_merge(&b->queue, &r->queue);
		for (uint32_t k = 0; k < r->violation_count; k++)
			if (b->violation_count < REQUEST_VIOLATIONS_MAX)
				b->violation[b->violation_count++] = r->violation[k];
			else
				b->counts.violations_dropped++;
		return;
	}
}

const struct request_stats *request_table_stats(const struct request_table *t, uint32_t at,
						const char **job)
{
	const struct request_stats *s = &t->job[at].stats;

	*job = t->job[at].name;
	return t->job[at].used || s->bad || s->parts_lost ? s : NULL;
}

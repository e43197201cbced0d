/* SPDX-License-Identifier: Apache-2.0
 * The job over time: samples of each role for the temporal model; the baselines, which are read
 * when a run starts and written once a minute; and the finding that all ranks are slower. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "aggregator/fleet/sketch_merge.h"
#include "aggregator/incident/verdict_sketch.h"
#include "analysis/robust/median.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/job_key.h"
#include "base/order.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/thresholds.h"

/* A starting job's ranks appear within a beat, so its lowest rank is known after this time. */
#define RUN_SETTLE_NS 10000000000ull
#define SAVE_NS	      60000000000ull
/* The most sketches that are merged for a role; more would hardly change a median. */
#define MERGE_MAX 16u

/* ---- identity of the run ---- */

static uint64_t identity_of(const struct fleet *f, const struct fleet_rank *r)
{
	const char *node = f->nodes[r->node].name;
	uint64_t h = hash_bytes(HASH_SEED, node, strlen(node) + 1);

	h = hash_bytes(h, &r->pid, sizeof(r->pid));
	h = hash_mix(hash_bytes(h, &r->start_time_ticks, sizeof(r->start_time_ticks)));
	return h ? h : 1;
}

static void load(struct fleet *f, struct fleet_job *job, struct fleet_role *role)
{
	struct baselines_run runs[LIMIT_BASELINE_RUNS];
	double v[LIMIT_BASELINE_RUNS], typical;
	struct temporal_base base = {0};
	char series[WIRE_TEXT_BYTES];
	struct sketch newest;
	int n;

	job_key_series(series, sizeof(series), job->name);
	n = baselines_runs(f->baselines, series, role->name, job->run, runs, LIMIT_BASELINE_RUNS,
			   &newest);
	if (n < 0)
		f->counts.baselines_failed++;
	if (n <= 0)
		return;
	if (role->has_base)
		wire_sketch_free(&role->base);
	role->base = newest;
	role->has_base = true;
	base.runs = (uint32_t)n;
	base.latency_ns = runs[0].latency_ns;
	base.self_ns = runs[0].self_ns;
	base.mad_ns = runs[0].mad_ns;
	for (int i = 0; i < n; i++)
		v[i] = runs[i].latency_ns;
	typical = median_of(v, (uint32_t)n);
	for (int i = 0; i < n && typical > 0; i++)
		v[i] = v[i] > typical ? v[i] / typical - 1 : 1 - v[i] / typical;
	base.spread = n > 1 ? median_of(v, (uint32_t)n) : 0;
	temporal_set_base(role->temporal, &base);
}

/* ---- samples ---- */

static struct temporal_sample sample_of(const struct fleet_rank *r)
{
	const struct fleet_stats *s = &r->stats;
	uint64_t steps = s->steps >= r->steps_before ? s->steps - r->steps_before : s->steps;
	uint64_t flagged = s->flagged >= r->flagged_before ? s->flagged - r->flagged_before : 0;

	return (struct temporal_sample){
	    .latency_ns = s->latency_median_ns,
	    .self_ns = s->self_median_ns,
	    .compute_ns = s->compute_ns,
	    .comm_ns = s->comm_ns,
	    .exposed_comm_ns = s->exposed_comm_ns,
	    .copy_ns = s->copy_ns,
	    .idle_ns = s->idle_ns,
	    .ratio = s->model_state == 1 && s->expected_ns > 0
			 ? s->latency_median_ns / s->expected_ns
			 : 0,
	    .steps = (double)steps,
	    .flagged = steps ? (double)flagged / (double)steps : 0,
	};
}

#define OF_SAMPLE(figure) offsetof(struct temporal_sample, figure)
static const size_t figures[] = {
    OF_SAMPLE(latency_ns),	OF_SAMPLE(self_ns), OF_SAMPLE(compute_ns), OF_SAMPLE(comm_ns),
    OF_SAMPLE(exposed_comm_ns), OF_SAMPLE(copy_ns), OF_SAMPLE(idle_ns),	   OF_SAMPLE(ratio),
    OF_SAMPLE(steps),		OF_SAMPLE(flagged)};

/* Medians of n samples; for self time also the 10th percentile. */
static void take_medians(const struct temporal_sample *of, uint32_t n, double *v,
			 struct temporal_sample *out)
{
	for (size_t k = 0; k < ARRAY_LEN(figures); k++) {
		for (uint32_t i = 0; i < n; i++)
			v[i] = *(const double *)(const void *)((const char *)&of[i] + figures[k]);
		*(double *)(void *)((char *)out + figures[k]) = median_of(v, n);
		if (figures[k] == OF_SAMPLE(self_ns))
			out->self_low_ns = v[n / 10];
	}
}

/* Ends the finding of a role that no rank has any more, because its ranks now have another role. */
static void end_role(struct fleet_job *job, struct temporal *t)
{
	struct temporal_change c;

	if (!temporal_state(t, &c))
		return;
	if (c.open) {
		temporal_finish(t);
		return;
	}
	temporal_restart(t);
	job->run_loaded = false;
}

/* of, v: scratch with room for all ranks of the job. */
static void sample_role(struct fleet *f, struct fleet_job *job, uint32_t role,
			struct temporal_sample *of, double *v, uint64_t now_ns,
			uint64_t now_unix_ns)
{
	struct temporal_sample s = {.unix_ns = now_unix_ns};
	uint32_t n = 0, members = 0;

	for (uint32_t i = 0; i < job->rank_count; i++) {
		struct fleet_rank *r = &job->ranks[i];

		if (!r->used || !r->compared || r->role != role)
			continue;
		members++;
		if (!fleet_rank_is_alive(f, r, now_ns) || !(r->stats.latency_median_ns > 0))
			continue;
		of[n++] = sample_of(r);
		r->steps_before = r->stats.steps;
		r->flagged_before = r->stats.flagged;
	}
	job->roles[role].members = members;
	if (!members)
		end_role(job, job->roles[role].temporal);
	if (!n)
		return;
	take_medians(of, n, v, &s);
	s.suspects = cross_suspects(job->cross) > 0 || hang_is_open(job->hang);
	temporal_push(job->roles[role].temporal, &s);
}

/* ---- the role's sketch ---- */

/* Merges the latest sketches of up to MERGE_MAX ranks; -ENOENT: none sent one. */
static int merge_role(struct fleet_job *job, uint32_t role, struct sketch *out)
{
	struct sketch *list = calloc(MERGE_MAX, sizeof(*list));
	const struct sketch *in[MERGE_MAX];
	uint32_t n = 0;
	int err = -ENOENT;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < job->rank_count && n < MERGE_MAX; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		if (!r->used || !r->compared || r->role != role || !r->sketch ||
		    wire_sketch_decode(r->sketch, r->sketch_bytes, &list[n]))
			continue;
		in[n] = &list[n];
		n++;
	}
	if (n)
		err = sketch_merge(in, n, out);
	for (uint32_t i = 0; i < n; i++)
		wire_sketch_free(&list[i]);
	free(list);
	return err;
}

static void save_role(struct fleet *f, struct fleet_job *job, uint32_t role, uint64_t now_unix_ns)
{
	uint64_t gone;
	struct fleet_role *r = &job->roles[role];
	struct fleet_save *save;
	struct sketch s;

	if (temporal_healthy_steps(r->temporal) < TEMPORAL_STEPS_MIN ||
	    ROOM_FOR(f->saves, f->save_room, f->save_count + 1))
		return;
	if (merge_role(job, role, &s))
		memset(&s, 0, sizeof(s));
	text_copy(s.rank.job, sizeof(s.rank.job), job->name);
	text_copy(s.rank.role, sizeof(s.rank.role), r->name);
	s.rank.rank = -1;
	temporal_summary(r->temporal, &s);
	save = &f->saves[f->save_count];
	memset(save, 0, sizeof(*save));
	buf_init(&save->body, 2 * LIMIT_SKETCH_BYTES_PER_RANK);
	job_key_series(save->job, sizeof(save->job), job->name);
	text_copy(save->role, sizeof(save->role), r->name);
	save->run = (struct baselines_run){job->run,	 now_unix_ns, s.steps,
					   s.latency_ns, s.self_ns,   s.latency_mad_ns};
	if (wire_sketch_fit(&s, &save->body, &gone))
		buf_fini(&save->body);
	else
		f->save_count++;
	wire_sketch_free(&s);
}

/* ---- all ranks are slower ---- */

static void say_role(struct fleet_job *job, uint32_t role, const struct temporal_change *c,
		     struct finding *to)
{
	struct fleet_role *r = &job->roles[role];
	struct sketch now;
	enum finding_cause cause;

	finding_say(to, LAYER_UNKNOWN, c->latency_ns - c->before_ns,
		    "role %.80s: steps take %.3f ms, %.3f ms %s (%+.1f%%; noise explains %.1f%%)",
		    r->name, c->latency_ns / 1e6, c->before_ns / 1e6,
		    c->runs ? "in earlier runs" : "earlier in this run", 100 * c->excess,
		    100 * c->threshold);
	if (!c->runs || !r->has_base || merge_role(job, role, &now))
		return;
	/* Use the measured time per step: the sketches may be a minute old. */
	now.latency_ns = c->latency_ns;
	cause = verdict_sketch_compare(&r->base, &now, c->latency_ns - c->before_ns, to);
	if (to->cause == CAUSE_UNKNOWN || to->cause == CAUSE_SW_SLOWER)
		to->cause = cause;
	wire_sketch_free(&now);
}

static void add_ranks(const struct fleet_job *job, uint32_t role, struct finding *to)
{
	for (uint32_t i = 0; i < job->rank_count && to->rank_count < FINDING_RANKS_MAX; i++)
		if (job->ranks[i].used && job->ranks[i].compared && job->ranks[i].role == role)
			to->ranks[to->rank_count++] = job->ranks[i].rank;
}

ORDER_BY(by_number, int32_t, ORDER(*a, *b));

static void report(struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	struct finding_report *e = fleet_detect_pending(f);
	struct temporal_change c;
	int64_t last = -1;
	bool open = false;

	if (!e)
		return;
	*e = (struct finding_report){.begin_unix_ns = UINT64_MAX};
	memcpy(e->job, job->name, sizeof(e->job));
	e->finding.kind = FINDING_UNIFORM;
	for (uint32_t i = 0; i < job->role_count; i++) {
		if (!temporal_state(job->roles[i].temporal, &c))
			continue;
		open |= c.open;
		e->finding.earlier_runs |= c.runs;
		e->begin_unix_ns =
		    c.begin_unix_ns < e->begin_unix_ns ? c.begin_unix_ns : e->begin_unix_ns;
		e->end_unix_ns = c.end_unix_ns > e->end_unix_ns ? c.end_unix_ns : e->end_unix_ns;
		if (c.excess > e->finding.excess) {
			e->finding.excess = c.excess;
			e->finding.effect_ns = c.latency_ns - c.before_ns;
			e->finding.confidence = 0.5 + 0.45 * (1 - c.threshold / (c.excess + 1e-9));
		}
		add_ranks(job, i, &e->finding);
		say_role(job, i, &c, &e->finding);
		for (uint32_t k = 0; k < job->rank_count && last < 0; k++)
			if (job->ranks[k].used && job->ranks[k].role == i &&
			    job->ranks[k].stats.steps)
				last = cross_step(job->cross, k, job->ranks[k].stats.steps - 1);
		if (last >= 0)
			job->uniform_step = (uint64_t)last;
		e->finding.last_step = job->uniform_step;
		e->finding.first_step = (double)e->finding.last_step > c.steps
					    ? e->finding.last_step - (uint64_t)c.steps
					    : 0;
	}
	if (!open && !job->uniform) {
		f->pending_count--;
		return;
	}
	qsort(e->finding.ranks, e->finding.rank_count, sizeof(e->finding.ranks[0]), by_number);
	e->ended = !open;
	/* the start time identifies the finding, even if that role recovers first */
	if (job->uniform)
		e->begin_unix_ns = job->uniform_begin_unix_ns;
	if (job->uniform && open &&
	    now_ns - job->uniform_reported_ns < thresholds.time.together_ns) {
		f->pending_count--;
		return;
	}
	f->counts.uniform += !job->uniform;
	job->uniform = open;
	job->uniform_begin_unix_ns = e->begin_unix_ns;
	job->uniform_reported_ns = now_ns;
	fleet_pull_finding(f, job, e, now_ns);
}

/* The process of the lowest rank identifies the run, even after a restart of the aggregator. */
static void look_at_run(struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	const struct fleet_rank *lowest = NULL;
	uint64_t run;

	for (uint32_t i = 0; i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		if (r->used && r->compared && r->rank >= 0 && (!lowest || r->rank < lowest->rank))
			lowest = r;
	}
	run = lowest ? identity_of(f, lowest) : 0;
	if (!run || run == job->run)
		return;
	for (uint32_t i = 0; i < job->role_count; i++)
		temporal_finish(job->roles[i].temporal);
	if (job->uniform) /* the earlier run's finding ends with that run */
		report(f, job, now_ns);
	for (uint32_t i = 0; i < job->role_count && job->run; i++)
		temporal_restart(job->roles[i].temporal);
	job->run = run;
	job->run_loaded = false;
}

void fleet_temporal_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns,
			 uint64_t now_unix_ns)
{
	struct temporal_sample *of = malloc((job->rank_count + 1) * sizeof(*of));
	double *v = malloc((job->rank_count + 1) * sizeof(*v));
	bool changed = job->uniform;

	if (now_ns - job->born_ns >= RUN_SETTLE_NS)
		look_at_run(f, job, now_ns);
	if (job->run && !job->run_loaded && f->baselines) {
		for (uint32_t i = 0; i < job->role_count; i++)
			load(f, job, &job->roles[i]);
		job->run_loaded = true;
	}
	for (uint32_t i = 0; i < job->role_count && of && v && job->run; i++) {
		struct temporal_change c;

		sample_role(f, job, i, of, v, now_ns, now_unix_ns);
		changed |= temporal_state(job->roles[i].temporal, &c);
	}
	free(of);
	free(v);
	if (changed)
		report(f, job, now_ns);
	if (!f->baselines || !job->run || now_ns - job->save_ns < SAVE_NS)
		return;
	job->save_ns = now_ns;
	for (uint32_t i = 0; i < job->role_count; i++)
		save_role(f, job, i, now_unix_ns);
}

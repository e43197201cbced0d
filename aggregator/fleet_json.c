/* SPDX-License-Identifier: Apache-2.0
 * The fleet for people and for diagnosis. The lock is let go between two jobs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet_private.h"
#include "aggregator/sketch_json.h"
#include "aggregator/sketch_merge.h"
#include "aggregator/text.h"

static const char *name_of(const char *const *names, size_t count, uint32_t i)
{
	return i < count ? names[i] : "unknown";
}

static const char *role_name(const struct fleet_job *job, const struct fleet_rank *r)
{
	return r->role < job->role_count ? job->roles[r->role].name : "";
}

static json_t *rank_json(const struct fleet *f, const struct fleet_job *job,
			 const struct fleet_rank *r, uint64_t now_ns)
{
	static const char *const traces[] = {"off", "on", "latched"};
	static const char *const cuptis[] = {"none", "v2", "legacy", "yielded", "refused", "idle"};
	static const char *const models[] = {"learning", "armed", "refused"};
	const struct fleet_stats *s = &r->stats;
	uint64_t age_ns = now_ns > r->seen_ns ? now_ns - r->seen_ns : 0;

	return json_pack(
	    "{s:s, s:s, s:s, s:i, s:i, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
	    "s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:s, s:b, s:b}",
	    "job", job->name, "node", f->nodes[r->node].name, "program",
	    r->program ? r->program : "", "rank", (int)r->rank, "world_size", (int)r->world_size,
	    "alive", fleet_is_alive(f, r->seen_ns, now_ns), "beat_age_ms",
	    (json_int_t)(age_ns / 1000000), "steps", (json_int_t)s->steps, "flagged",
	    (json_int_t)s->flagged, "latency_ms", text_ms(s->latency_median_ns), "self_ms",
	    text_ms(s->self_median_ns), "expected_ms", text_ms(s->expected_ns), "compute_ms",
	    text_ms(s->compute_ns), "comm_ms", text_ms(s->comm_ns), "exposed_comm_ms",
	    text_ms(s->exposed_comm_ns), "copy_ms", text_ms(s->copy_ns), "idle_ms",
	    text_ms(s->idle_ns), "events", (json_int_t)s->events, "lost", (json_int_t)s->lost,
	    "trace", name_of(traces, 3, s->trace_state), "cupti",
	    name_of(cuptis, 6, s->cupti_state), "model", name_of(models, 3, s->model_state),
	    "joined", (json_int_t)s->kernels_joined, "unmatched", (json_int_t)s->kernels_unmatched,
	    "role", role_name(job, r), "suspect",
	    cross_is_suspect(job->cross, (uint32_t)(r - job->ranks)), "quarantined",
	    r->rank >= 0 && !r->compared);
}

static int by_rank(const void *a, const void *b)
{
	const struct fleet_rank *x = *(struct fleet_rank *const *)a,
				*y = *(struct fleet_rank *const *)b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct fleet_job *const *)a)->name, (*(struct fleet_job *const *)b)->name);
}

/* The known jobs by name; the caller frees. Under the lock. */
static struct fleet_job **jobs_of(const struct fleet *f, uint32_t *count)
{
	struct fleet_job **list = malloc((f->job_count + 1) * sizeof(struct fleet_job *));
	uint32_t n = 0;

	for (uint32_t i = 0; list && i < f->job_count; i++)
		if (f->jobs[i])
			list[n++] = f->jobs[i];
	if (list)
		qsort(list, n, sizeof(*list), by_name);
	*count = n;
	return list;
}

static void ranks_json(const struct fleet *f, struct fleet_job *job, uint64_t now_ns, json_t *out)
{
	struct fleet_rank **list = malloc((job->rank_count + 1) * sizeof(struct fleet_rank *));
	uint32_t n = 0;

	for (uint32_t i = 0; list && i < job->rank_count; i++)
		if (job->ranks[i].used)
			list[n++] = &job->ranks[i];
	if (list)
		qsort(list, n, sizeof(*list), by_rank);
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(out, rank_json(f, job, list[i], now_ns));
	free(list);
}

json_t *fleet_json(struct fleet *f, const char *job, uint64_t now_ns)
{
	json_t *out = json_array();
	struct fleet_job **list;
	uint32_t n = 0;

	pthread_mutex_lock(&f->lock);
	list = jobs_of(f, &n);
	for (uint32_t i = 0; i < n; i++)
		if (!job || !strcmp(list[i]->name, job))
			ranks_json(f, list[i], now_ns, out);
	pthread_mutex_unlock(&f->lock);
	free(list);
	return json_pack("{s:o}", "ranks", out);
}

uint32_t fleet_job_ranks(struct fleet *f, const char *name, uint64_t now_ns)
{
	struct fleet_job *job;
	uint32_t n = 0;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	for (uint32_t i = 0; job && i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		n += r->used && fleet_is_alive(f, r->seen_ns, now_ns) &&
		     fleet_admit_believes(job, fleet_admit_find_part(f, job, r->node));
	}
	pthread_mutex_unlock(&f->lock);
	return n;
}

static void add_job(const struct fleet *f, const struct fleet_job *job, uint64_t now_ns,
		    struct fleet_totals *t)
{
	struct cross_stats c;
	struct hang_stats h;

	cross_stats(job->cross, &c);
	hang_stats(job->hang, &h);
	t->jobs++;
	t->suspects += cross_suspects(job->cross);
	for (uint32_t i = 0; i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		if (!r->used)
			continue;
		t->ranks++;
		t->ranks_alive += fleet_is_alive(f, r->seen_ns, now_ns);
		t->ranks_quarantined += r->rank >= 0 && !r->compared;
		t->events += r->stats.events;
		t->lost += r->stats.lost;
	}
	t->groups += c.groups;
	t->rows += c.rows;
	t->stale += c.stale;
	t->ahead += c.ahead;
	t->bad += c.bad + h.bad;
	t->unplaced += c.unplaced;
	t->no_room += c.no_room;
	t->renumbered += c.renumbered;
	t->findings += c.findings;
	t->imbalances += c.imbalances;
	t->bytes += c.bytes + job->rank_room * sizeof(*job->ranks);
	for (uint32_t i = 0; i < job->role_count; i++)
		t->bytes += waterline_bytes(job->roles[i].waterline);
}

void fleet_totals(struct fleet *f, uint64_t now_ns, struct fleet_totals *out)
{
	pthread_mutex_lock(&f->lock);
	*out = f->counts;
	for (uint32_t i = 0; i < f->job_count; i++)
		if (f->jobs[i])
			add_job(f, f->jobs[i], now_ns, out);
	for (uint32_t i = 0; i < LIMIT_FLEET_NODES; i++) {
		const struct fleet_node *n = &f->nodes[i];

		if (!n->used || (now_ns > n->seen_ns && now_ns - n->seen_ns > f->config.forget_ns))
			continue;
		out->nodes++;
		out->nodes_alive += fleet_is_alive(f, n->seen_ns, now_ns);
		out->uploaded_bytes += n->uploaded_bytes;
		out->raw_bytes += n->raw_bytes;
		out->windows_dropped += n->windows_dropped;
	}
	pthread_mutex_unlock(&f->lock);
}

/* ---- for diagnosis ---- */

int fleet_rank_info(struct fleet *f, const char *name, int32_t rank, struct fleet_rank_info *out)
{
	struct fleet_job *job;
	struct fleet_rank *r;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	r = job ? fleet_find_rank(job, rank) : NULL;
	if (r) {
		const struct fleet_stats *s = &r->stats;

		*out = (struct fleet_rank_info){
		    .rank = rank,
		    .suspect = cross_is_suspect(job->cross, (uint32_t)(r - job->ranks)),
		    .latency_ns = s->latency_median_ns,
		    .self_ns = s->self_median_ns,
		    .compute_ns = s->compute_ns,
		    .comm_ns = s->comm_ns,
		    .exposed_comm_ns = s->exposed_comm_ns,
		    .copy_ns = s->copy_ns,
		    .idle_ns = s->idle_ns,
		    .steps = s->steps,
		};
		out->alive = fleet_is_alive(f, r->seen_ns, f->last_tick_ns);
		text_copy(out->node, sizeof(out->node), f->nodes[r->node].name);
		text_copy(out->role, sizeof(out->role), role_name(job, r));
	}
	pthread_mutex_unlock(&f->lock);
	return r ? 0 : -ENOENT;
}

uint32_t fleet_peers(struct fleet *f, const char *name, int32_t rank, int32_t *ranks, uint32_t max)
{
	uint32_t slots[64], n = 0;
	struct fleet_job *job;
	struct fleet_rank *r;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	r = job ? fleet_find_rank(job, rank) : NULL;
	if (r)
		n = cross_healthy_peers(job->cross, (uint32_t)(r - job->ranks), slots,
					max < 64 ? max : 64);
	for (uint32_t i = 0; i < n; i++)
		ranks[i] = job->ranks[slots[i]].rank;
	pthread_mutex_unlock(&f->lock);
	return n;
}

int fleet_sketch(struct fleet *f, const char *name, int32_t rank, struct sketch *out)
{
	struct fleet_job *job;
	struct fleet_rank *r;
	int err;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	r = job ? fleet_find_rank(job, rank) : NULL;
	err = r && r->sketch ? wire_sketch_decode(r->sketch, r->sketch_bytes, out) : -ENOENT;
	pthread_mutex_unlock(&f->lock);
	return err;
}

int fleet_baseline(struct fleet *f, const char *name, const char *role, struct sketch *out)
{
	struct fleet_job *job;
	int err = -ENOENT;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	for (uint32_t i = 0; job && i < job->role_count; i++) {
		const struct sketch *base = &job->roles[i].base;

		if (!job->roles[i].has_base || (role && strcmp(job->roles[i].name, role)))
			continue;
		err = sketch_merge(&base, 1, out);
		break;
	}
	pthread_mutex_unlock(&f->lock);
	return err;
}

/* The rows in one block, names behind them. */
static int copy_rows(const struct waterline_row *rows, uint32_t n, bool paper,
		     struct diagnosis_group *out)
{
	struct diagnosis_usual *list;
	size_t text = 0;
	char *names;

	for (uint32_t i = 0; i < n; i++)
		text += strlen(rows[i].name) + 1;
	list = malloc((n + 1) * sizeof(*list) + text);
	if (!list)
		return -ENOMEM;
	names = (char *)(list + n + 1);
	for (uint32_t i = 0; i < n; i++) {
		const struct waterline_row *r = &rows[i];
		double usual = paper ? r->mean : r->median;

		list[i] = (struct diagnosis_usual){
		    .name = names,
		    .kind = (uint8_t)r->kind,
		    .usual = usual,
		    .line = usual + WATERLINE_SPREADS * (paper ? r->sigma : r->spread)};
		names = stpcpy(names, r->name) + 1;
	}
	out->function = list;
	out->function_count = n;
	out->paper = paper;
	return 0;
}

static const struct fleet_rank *compared_rank(struct fleet_job *job, int32_t rank)
{
	const struct fleet_rank *r = fleet_find_rank(job, rank);

	return r && r->compared && r->role < job->role_count ? r : NULL;
}

int fleet_waterline(struct fleet *f, const char *name, const int32_t *ranks, uint32_t count,
		    uint64_t now_ns, bool *is_of, struct diagnosis_group *out)
{
	struct waterline_row *rows = NULL;
	const struct fleet_rank *first;
	struct fleet_job *job;
	uint32_t *except = malloc((count + 1) * sizeof(*except)), n = 0;
	int err = -ENOENT;

	*out = (struct diagnosis_group){.function = NULL};
	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	first = job && count ? compared_rank(job, ranks[0]) : NULL;
	for (uint32_t i = 0; first && except && i < count; i++) {
		const struct fleet_rank *r = compared_rank(job, ranks[i]);

		is_of[i] = r && r->role == first->role;
		if (is_of[i])
			except[n++] = (uint32_t)(r - job->ranks);
	}
	if (first && except)
		err = waterline_rows(job->roles[first->role].waterline, now_ns, except, n, &rows, &n);
	out->sketches = err > 0 ? (uint32_t)err : 0;
	err = err >= 0 ? copy_rows(rows, n, f->config.sysom, out) : err;
	pthread_mutex_unlock(&f->lock);
	free(rows);
	free(except);
	return err;
}

/* ---- for people ---- */

json_t *fleet_jobs_json(struct fleet *f, uint64_t now_ns)
{
	json_t *out = json_array();
	struct fleet_job **list;
	uint32_t n = 0;

	pthread_mutex_lock(&f->lock);
	list = jobs_of(f, &n);
	for (uint32_t i = 0; i < n; i++) {
		const struct fleet_job *job = list[i];
		json_t *roles = json_array();
		uint32_t alive = 0;
		char run[17];

		for (uint32_t k = 0; k < job->rank_count; k++)
			alive +=
			    job->ranks[k].used && fleet_is_alive(f, job->ranks[k].seen_ns, now_ns);
		for (uint32_t k = 0; k < job->role_count; k++)
			json_array_append_new(roles, json_string(job->roles[k].name));
		snprintf(run, sizeof(run), "%016llx", (unsigned long long)job->run);
		json_array_append_new(out,
				      json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:o, s:i, s:I}",
						"job", job->name, "world_size", (int)job->world,
						"ranks", (int)job->used, "alive", (int)alive,
						"nodes", (int)job->by_node.count, "run", run, "roles",
						roles, "suspects", (int)cross_suspects(job->cross),
						"refused", (json_int_t)job->refused));
	}
	pthread_mutex_unlock(&f->lock);
	free(list);
	return json_pack("{s:o}", "jobs", out);
}

json_t *fleet_roles_json(struct fleet *f, const char *name, uint64_t now_unix_ns)
{
	json_t *clocks = json_array(), *roles = NULL;
	struct fleet_job *job;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	for (uint32_t i = 0; job && i < job->part_count; i++) {
		double offset, drift, error;

		if (job->parts[i].node == FLEET_NONE ||
		    !cross_clock_state(job->cross, i, (int64_t)now_unix_ns, &offset, &drift,
				       &error))
			continue;
		json_array_append_new(clocks, json_pack("{s:s, s:f, s:f, s:f}", "node",
							f->nodes[job->parts[i].node].name,
							"offset_us", offset / 1e3, "drift_ppm",
							drift * 1e6, "error_us", error / 1e3));
	}
	if (job)
		roles = cross_json(job->cross);
	pthread_mutex_unlock(&f->lock);
	if (!job) {
		json_decref(clocks);
		return NULL;
	}
	return json_pack("{s:s, s:o, s:o}", "job", name, "roles", roles, "clocks", clocks);
}

static json_t *waterline_json(struct fleet_job *job, struct waterline *w, uint64_t now_ns,
			      int *sketches)
{
	static const char *const kinds[] = {"native", "kernel", "python"};
	struct waterline_row *rows;
	json_t *list = json_array();
	uint32_t n;

	*sketches = waterline_rows(w, now_ns, NULL, 0, &rows, &n);
	for (uint32_t i = 0; i < n; i++) {
		const struct waterline_row *r = &rows[i];
		int highest =
		    r->highest_slot < job->rank_count ? job->ranks[r->highest_slot].rank : -1;

		json_array_append_new(
		    list,
		    json_pack("{s:o, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "function",
			      text_json(r->name), "kind", name_of(kinds, 3, r->kind), "sketches",
			      (int)r->sketches, "mean", r->mean, "sigma", r->sigma, "line",
			      r->mean + WATERLINE_SPREADS * r->sigma, "median", r->median,
			      "spread", r->spread, "self_median", r->self_median, "highest",
			      r->highest, "highest_rank", highest));
	}
	free(rows);
	return list;
}

json_t *fleet_waterline_json(struct fleet *f, const char *name, const char *role, uint64_t now_ns)
{
	struct fleet_job *job;
	json_t *out = NULL;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	for (uint32_t i = 0; job && i < job->role_count && !out; i++) {
		int sketches;
		json_t *list;

		if (role && strcmp(job->roles[i].name, role))
			continue;
		list = waterline_json(job, job->roles[i].waterline, now_ns, &sketches);
		out = json_pack("{s:s, s:s, s:i, s:o}", "job", name, "role", job->roles[i].name,
				"sketches", sketches > 0 ? sketches : 0, "functions", list);
	}
	pthread_mutex_unlock(&f->lock);
	return out;
}

json_t *fleet_baselines_json(struct fleet *f, const char *name, uint64_t now_ns)
{
	bool alive = fleet_job_ranks(f, name, now_ns) > 0;
	struct fleet_job *job;
	char run[17] = "";

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	if (alive && job && job->run)
		snprintf(run, sizeof(run), "%016llx", (unsigned long long)job->run);
	pthread_mutex_unlock(&f->lock);
	return json_pack("{s:s, s:s, s:o}", "job", name, "present_run", run, "baselines",
			 f->baselines ? baselines_json(f->baselines, name) : json_array());
}

json_t *fleet_baseline_json(struct fleet *f, const char *name, const char *role, uint64_t run)
{
	uint64_t updated_ns;
	struct sketch s;
	char id[17];
	json_t *j;

	if (!f->baselines || baselines_get(f->baselines, name, role, run, &updated_ns, &s))
		return NULL;
	j = sketch_json(&s);
	wire_sketch_free(&s);
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)run);
	json_object_set_new(j, "run", json_string(id));
	json_object_set_new(j, "updated_unix_ns", json_integer((json_int_t)updated_ns));
	return j;
}

json_t *fleet_sketch_json(struct fleet *f, const char *name, int32_t rank)
{
	struct sketch s;
	json_t *j;

	if (fleet_sketch(f, name, rank, &s))
		return NULL;
	j = sketch_json(&s);
	wire_sketch_free(&s);
	return j;
}

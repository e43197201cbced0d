/* SPDX-License-Identifier: Apache-2.0
 * What the fleet answers to diagnosis, and JSON of one job or rank. JSON of the whole fleet is in
 * fleet_pages.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "aggregator/fleet/sketch_json.h"
#include "aggregator/fleet/sketch_merge.h"
#include "base/job_key.h"
#include "base/text/json_text.h"
#include "base/text/text.h"

uint32_t fleet_resolve_job(struct fleet *f, const char *asked, char key[WIRE_TEXT_BYTES])
{
	char series[WIRE_TEXT_BYTES], other[WIRE_TEXT_BYTES];
	const struct fleet_job *found;
	uint32_t n;

	text_copy(key, WIRE_TEXT_BYTES, asked);
	pthread_mutex_lock(&f->lock);
	found = fleet_find_job(f, asked);
	n = found != NULL;
	for (uint32_t i = 0; !n && i < f->job_count; i++) {
		const struct fleet_job *job = f->jobs[i];

		if (!job || !job_key_matches(job->name, asked))
			continue;
		job_key_series(other, sizeof(other), job->name);
		if (found && strcmp(series, other))
			n = 2;
		else if (!found || job->born_ns > found->born_ns)
			found = job;
		text_copy(series, sizeof(series), other);
	}
	if (found && !n)
		n = 1;
	if (found)
		text_copy(key, WIRE_TEXT_BYTES, found->name);
	pthread_mutex_unlock(&f->lock);
	job_key_series(series, sizeof(series), asked);
	return n || !f->baselines ? n : baselines_resolve(f->baselines, series, key);
}

uint32_t fleet_job_ranks(struct fleet *f, const char *name, uint64_t now_ns)
{
	struct fleet_job *job;
	uint32_t ranks = 0, others = 0;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	for (uint32_t i = 0; job && i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		if (!r->used || r->contested || !fleet_is_alive(f, r->seen_ns, now_ns) ||
		    !fleet_admit_believes(job, fleet_admit_find_part(f, job, r->node)))
			continue;
		ranks += r->rank >= 0;
		others += r->rank < 0; /* a serving engine, its API process */
	}
	pthread_mutex_unlock(&f->lock);
	return ranks ? ranks : others;
}

/* ---- for diagnosis ---- */

/* NULL: unknown. Takes the lock in either case. */
static struct fleet_rank *lock_rank(struct fleet *f, const char *name, int32_t rank,
				    struct fleet_job **job)
{
	pthread_mutex_lock(&f->lock);
	*job = fleet_find_job(f, name);
	return *job ? fleet_find_rank(*job, rank) : NULL;
}

uint32_t fleet_peers(struct fleet *f, const char *name, int32_t rank, int32_t *ranks, uint32_t max)
{
	uint32_t slots[64], n = 0;
	struct fleet_job *job;
	const struct fleet_rank *r = lock_rank(f, name, rank, &job);

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
	const struct fleet_rank *r = lock_rank(f, name, rank, &job);
	int err = r && r->sketch ? wire_sketch_decode(r->sketch, r->sketch_bytes, out) : -ENOENT;

	pthread_mutex_unlock(&f->lock);
	return err;
}

int fleet_baseline(struct fleet *f, const char *name, int32_t rank, struct sketch *out)
{
	struct fleet_job *job;
	const struct fleet_rank *r = lock_rank(f, name, rank, &job);
	const struct fleet_role *role =
	    r && r->role < job->role_count ? &job->roles[r->role] : NULL;
	const struct sketch *base = role && role->has_base ? &role->base : NULL;
	int err = base ? sketch_merge(&base, 1, out) : -ENOENT;

	pthread_mutex_unlock(&f->lock);
	return err;
}

/* Copies the rows into one block, with the names behind them. */
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
		err =
		    waterline_rows(job->roles[first->role].waterline, now_ns, except, n, &rows, &n);
	out->sketches = err > 0 ? (uint32_t)err : 0;
	err = err >= 0 ? copy_rows(rows, n, f->config.sysom, out) : err;
	pthread_mutex_unlock(&f->lock);
	free(rows);
	free(except);
	return err;
}

/* ---- for the API ---- */

static json_t *role_json(const struct cross *c, const struct cross_role *role)
{
	json_t *ranks = json_array(), *suspects = json_array();

	for (uint32_t i = 0; i < role->count; i++) {
		int32_t rank;
		bool suspect;

		if (!cross_role_member(c, role, i, &rank, &suspect))
			continue;
		json_array_append_new(ranks, json_integer(rank));
		if (suspect)
			json_array_append_new(suspects, json_integer(rank));
	}
	return json_pack("{s:s, s:i, s:o, s:i, s:f, s:f, s:I, s:o}", "role", role->role, "part",
			 (int)role->part, "ranks", ranks, "steps_per_row", (int)role->steps_per_row,
			 "step_ms", text_ms(role->step_ns), "self_ms", text_ms(role->self_ns),
			 "last_step", (json_int_t)role->last_step, "suspects", suspects);
}

static json_t *roles_json(const struct cross *c)
{
	json_t *list = json_array();
	struct cross_role role;

	for (uint32_t i = 0; cross_role(c, i, &role); i++)
		json_array_append_new(list, role_json(c, &role));
	return list;
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
		roles = roles_json(job->cross);
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
			      json_text(r->name), "kind", fleet_name_of(kinds, 3, r->kind),
			      "sketches", (int)r->sketches, "mean", r->mean, "sigma", r->sigma,
			      "line", r->mean + WATERLINE_SPREADS * r->sigma, "median", r->median,
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
		out = json_pack("{s:s, s:s, s:i, s:I, s:o}", "job", name, "role",
				job->roles[i].name, "sketches", sketches > 0 ? sketches : 0,
				"no_room", (json_int_t)waterline_no_room(job->roles[i].waterline),
				"functions", list);
	}
	pthread_mutex_unlock(&f->lock);
	return out;
}

json_t *fleet_baselines_json(struct fleet *f, const char *name, uint64_t now_ns)
{
	bool alive = fleet_job_ranks(f, name, now_ns) > 0;
	char run[17] = "", series[WIRE_TEXT_BYTES];
	struct fleet_job *job;

	job_key_series(series, sizeof(series), name);
	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	if (alive && job && job->run)
		snprintf(run, sizeof(run), "%016llx", (unsigned long long)job->run);
	pthread_mutex_unlock(&f->lock);
	return json_pack("{s:s, s:s, s:o}", "job", name, "present_run", run, "baselines",
			 f->baselines ? baselines_json(f->baselines, series) : json_array());
}

json_t *fleet_baseline_json(struct fleet *f, const char *name, const char *role, uint64_t run)
{
	char id[17], series[WIRE_TEXT_BYTES];
	uint64_t updated_ns;
	struct sketch s;
	json_t *j;

	job_key_series(series, sizeof(series), name);
	if (!f->baselines || baselines_get(f->baselines, series, role, run, &updated_ns, &s))
		return NULL;
	j = sketch_json(&s);
	wire_sketch_free(&s);
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)run);
	json_object_set_new(j, "run", json_string(id));
	json_object_set_new(j, "updated_unix_ns", json_exact(updated_ns));
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

/* SPDX-License-Identifier: Apache-2.0
 * A role of four or more ranks is judged by itself, because the steps of a role vary together. A
 * smaller role has too few ranks. Then all ranks form one group, and each is judged relative to
 * the level of its own role. */
#include "analysis/trace/workers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/trace/workers_private.h"
#include "base/carve.h"
#include "base/room.h"
#include "model/thresholds.h"

/* The series of a rank's kernels are correlated. Together they count as one more series besides self
 * time. */
#define SERIES_APART 2

static void keep_flag(struct workers *w, const struct workers_flag *f)
{
	if (ROOM_FOR(w->flag, w->flags_room, w->flags + 1ull))
		w->no_memory = true;
	else
		w->flag[w->flags++] = *f;
}

struct group {
	const uint32_t *member; /* rows of the tables */
	uint32_t count;
	const double *self, *late;
	double scale; /* ns per unit of self */
	double step_ns;
	bool known; /* without a fault, self is 1 for all ranks */
	bool replica;
	uint32_t series;
};

static void push(struct peers *p, const struct workers_table *t, const struct group *g,
		 uint32_t step, double *row, double *late)
{
	for (uint32_t k = 0; k < g->count; k++) {
		size_t at = workers_cell(t, g->member[k], step);

		row[k] = g->self[at] * g->scale;
		late[k] = g->late ? g->late[at] : NAN;
	}
	peers_push(p, t->step[step], row, g->late ? late : NULL, g->step_ns, 1);
}

/* Judges the rows twice: the first pass learns the noise, the second judges with it. */
static int judge(const struct workers_table *t, const struct group *g,
		 const struct peers_config *config, workers_stretch *take, void *context)
{
	double *row = calloc(2 * (size_t)g->count + 1, sizeof(*row)), *late = row + g->count;
	struct peers_config c = *config;
	void *memory = NULL;
	struct peers *p;
	struct peers_flag f;

	c.usual_ns = g->known ? g->scale : 0;
	if (row && g->count >= 2)
		memory = aligned_alloc(16, (peers_memory_bytes(&c, g->count) + 15) & ~(size_t)15);
	if (!memory) {
		free(row);
		return row && g->count < 2 ? 0 : -ENOMEM;
	}
	p = peers_init(memory, &c, g->count);
	for (uint32_t s = 0; s < t->steps && c.mode == PEERS_ROBUST; s++)
		push(p, t, g, s, row, late);
	peers_again(p);
	for (uint32_t s = 0; s <= t->steps; s++) {
		if (s < t->steps)
			push(p, t, g, s, row, late);
		else
			peers_finish(p);
		while (peers_next(p, &f))
			if (f.ended)
				take(context, &f);
	}
	free(row);
	free(memory);
	return 0;
}

struct keeping {
	struct workers *w;
	const struct group *g;
};

/* Whether the rank was slow in most steps, so that its usual value is not known. */
static bool is_unusual(const struct workers_table *t, const struct peers_flag *f)
{
	uint32_t n = 0;

	for (uint32_t s = 0; s < t->steps; s++)
		n += workers_is_in(t, s, f);
	return n <= (1 - WORKERS_MOST_STEPS) * t->steps;
}

static void keep_one(void *context, const struct peers_flag *f)
{
	const struct keeping *k = context;

	if (k->w->t->uneven && !is_unusual(k->w->t, f))
		return;
	keep_flag(k->w, &(struct workers_flag){.flag = *f,
					       .worker = k->g->member[f->member],
					       .replica = k->g->replica,
					       .series = k->g->series,
					       .pair = k->g->count == 2});
}

/* Hours of all ranks together. */
static double hours(const struct workers_table *t, double step_ns)
{
	return fmax(t->workers * (double)t->steps * step_ns / 3600e9, 1e-9);
}

static int judge_group(struct workers *w, struct group *g)
{
	struct peers_config c = w->t->config;
	struct keeping k = {w, g};
	int err;

	g->step_ns = w->step_ns;
	c.false_per_member_hour = fmax(c.false_per_member_hour,
				       thresholds.sure.false_per_file / hours(w->t, w->step_ns)) /
				  (w->t->more_count ? SERIES_APART : 1);
	err = judge(w->t, g, &c, keep_one, &k);
	return w->no_memory ? -ENOMEM : err;
}

struct alone {
	workers_stretch *take;
	void *context;
};

static void forward_first(void *context, const struct peers_flag *f)
{
	const struct alone *a = context;

	if (!f->member)
		a->take(a->context, f);
}

int workers_alone(const struct peers_config *c, const uint64_t *step, uint32_t steps,
		  const double *value, double step_ns, workers_stretch *take, void *context)
{
	static const uint32_t members[] = {0, 1};
	struct workers_table t = {.workers = 1, .steps = steps, .step = step};
	struct peers_config once = *c;
	double *pair = malloc(2 * (size_t)steps * sizeof(*pair));
	struct group g = {.member = members,
			  .count = 2,
			  .self = pair,
			  .scale = step_ns,
			  .step_ns = step_ns,
			  .known = true};
	struct alone a = {take, context};
	int err;

	if (!pair)
		return -ENOMEM;
	once.false_per_member_hour =
	    fmax(c->false_per_member_hour, thresholds.sure.false_per_file / hours(&t, step_ns));
	for (uint32_t s = 0; s < steps; s++) {
		pair[s] = value[s];
		pair[steps + s] = 1;
	}
	err = judge(&t, &g, &once, forward_first, &a);
	free(pair);
	return err;
}

static uint32_t members_of(const struct workers_table *t, uint32_t role, uint32_t *member)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->workers; i++)
		if (t->role[i] == role)
			member[n++] = i;
	return n;
}

/* Excludes the steps of the largest flags when usual values are learned. False: there are no
 * flags. */
static bool exclude_stretches(struct workers *w)
{
	const struct workers_table *t = w->t;
	double most = 0;

	for (uint32_t i = 0; i < w->flags; i++)
		most = fmax(most, w->flag[i].flag.excess);
	for (uint32_t i = 0; i < w->flags; i++) {
		const struct peers_flag *f = &w->flag[i].flag;

		for (uint32_t s = 0; s < t->steps && f->excess >= most / 2; s++)
			w->away[s] |= workers_is_in(t, s, f);
	}
	return w->flags > 0;
}

/* Judges every series of every rank against its usual value. */
static int judge_uneven(struct workers *w)
{
	const struct workers_table *t = w->t;
	struct group g = {.member = w->member,
			  .count = t->workers,
			  .self = w->self,
			  .scale = w->step_ns,
			  .known = true};
	int err;

	for (uint32_t i = 0; i < t->workers; i++)
		w->member[i] = i;
	err = judge_group(w, &g);
	if (!err && exclude_stretches(w)) {
		w->flags = 0;
		workers_level(w);
		err = judge_group(w, &g);
	}
	for (g.series = 1; g.series <= t->more_count && !err; g.series++) {
		workers_more(w, t->more[g.series - 1]);
		g.self = w->more;
		err = judge_group(w, &g);
	}
	return err;
}

static int judge_all(struct workers *w)
{
	const struct workers_table *t = w->t;
	struct group g = {
	    .member = w->member, .self = w->self, .late = t->late_ns ? w->late : NULL};
	uint32_t least = t->workers;
	int err = 0;

	for (uint32_t r = 0; r < t->roles; r++) {
		uint32_t n = members_of(t, r, w->member);

		least = n < least ? n : least;
		if (n > PEERS_MEMBERS_MAX)
			return -E2BIG;
	}
	if (t->uneven)
		return judge_uneven(w);
	if (t->roles == 1 || least > thresholds.count.few || t->workers > PEERS_MEMBERS_MAX) {
		for (uint32_t r = 0; r < t->roles && !err; r++) {
			g.count = members_of(t, r, w->member);
			g.scale = w->role_level[r];
			err = judge_group(w, &g);
		}
		return err;
	}
	for (uint32_t i = 0; i < t->workers; i++) {
		w->member[i] = i;
		w->scratch[i] = w->level[i];
	}
	g.scale = median_of(w->scratch, t->workers);
	g.count = t->workers;
	return judge_group(w, &g);
}

static int judge_replicas(struct workers *w)
{
	const struct workers_table *t = w->t;
	struct group g = {.member = w->member,
			  .count = t->replicas,
			  .self = w->input,
			  .scale = w->step_ns,
			  .replica = true};

	if (!t->replica || t->roles < 2 || t->replicas < 2 || t->replicas > PEERS_MEMBERS_MAX)
		return 0;
	for (uint32_t r = 0; r < t->replicas; r++)
		w->member[r] = r;
	return judge_group(w, &g);
}

static double typical_step(struct workers *w)
{
	const struct workers_table *t = w->t;
	double most = 0;

	if (t->step_ns > 0)
		return t->step_ns;
	for (uint32_t r = 0; r < t->roles; r++)
		most = w->role_level[r] > most ? w->role_level[r] : most;
	return most > 0 ? most : 1e9;
}

static size_t lay_out(struct workers *w, void *memory)
{
	const struct workers_table *t = w->t;
	size_t cells = (size_t)t->steps * t->workers, replicas = t->replica ? t->replicas : 0;
	struct carve at = {.memory = memory};

	w->self = carve_take(&at, cells, sizeof(*w->self));
	w->late = carve_take(&at, t->late_ns ? cells : 0, sizeof(*w->late));
	w->more = carve_take(&at, t->more_count ? cells : 0, sizeof(*w->more));
	w->level = carve_take(&at, t->workers, sizeof(*w->level));
	w->usual = carve_take(&at, t->workers, sizeof(*w->usual));
	w->away = carve_take(&at, t->steps, sizeof(*w->away));
	w->role_level = carve_take(&at, t->roles, sizeof(*w->role_level));
	w->role_late = carve_take(&at, t->roles, sizeof(*w->role_late));
	w->common = carve_take(&at, t->steps, sizeof(*w->common));
	w->input = carve_take(&at, t->steps * replicas, sizeof(*w->input));
	w->scratch =
	    carve_take(&at, t->steps > t->workers ? t->steps : t->workers, sizeof(*w->scratch));
	w->member = carve_take(&at, t->workers + replicas, sizeof(*w->member));
	return at.bytes;
}

int workers_find(const struct workers_table *t, workers_report *report, void *context)
{
	struct workers w = {.t = t};
	void *memory = calloc(1, lay_out(&w, NULL));
	int err;

	if (!memory)
		return -ENOMEM;
	lay_out(&w, memory);
	workers_level(&w);
	w.step_ns = typical_step(&w);
	err = judge_all(&w);
	if (!err)
		err = judge_replicas(&w);
	if (!err)
		err = workers_findings(&w, report, context);
	free(w.flag);
	free(memory);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0
 * Roles of four and more are judged each by itself: their steps may vary together. Smaller ones would
 * say little, so all workers are one group, each measured against its own role's level. */
#include "analysis/workers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/median.h"
#include "analysis/workers_private.h"

#define ROLE_ALONE 4u

static void keep(struct workers *w, const struct peers_flag *f, uint32_t worker, bool replica, bool pair)
{
	if (w->flags == w->flags_room) {
		uint32_t room = w->flags_room ? 2 * w->flags_room : 64;
		struct workers_flag *more = realloc(w->flag, room * sizeof(*more));

		if (!more) {
			w->no_memory = true;
			return;
		}
		w->flag = more;
		w->flags_room = room;
	}
	w->flag[w->flags++] = (struct workers_flag){ .flag = *f, .worker = worker, .replica = replica,
						     .pair = pair };
}

struct group {
	const uint32_t *member; /* columns of the tables */
	uint32_t count, columns;
	const double *self, *late;
	double scale; /* self is of this many ns */
	bool replica;
};

static int judge(struct workers *w, const struct group *g)
{
	const struct workers_table *t = w->t;
	double *row = calloc(2 * (size_t)g->count, sizeof(*row)), *late = row + g->count;
	void *memory = NULL;
	struct peers *p;
	struct peers_flag f;
	int err = -ENOMEM;

	if (!row)
		return -ENOMEM;
	if (g->count >= 2)
		memory = aligned_alloc(16, (peers_memory_bytes(&t->config, g->count) + 15) & ~(size_t)15);
	if (!memory)
		goto done;
	p = peers_init(memory, &t->config, g->count);
	for (uint32_t s = 0; s <= t->steps; s++) {
		for (uint32_t k = 0; k < g->count && s < t->steps; k++) {
			size_t at = (size_t)s * g->columns + g->member[k];

			row[k] = g->self[at] * g->scale;
			late[k] = g->late ? g->late[at] : NAN;
		}
		if (s < t->steps)
			peers_push(p, t->step[s], row, g->late ? late : NULL, w->step_ns, 1);
		else
			peers_finish(p);
		while (peers_next(p, &f))
			if (f.ended)
				keep(w, &f, g->member[f.member], g->replica, g->count == 2);
	}
	err = w->no_memory ? -ENOMEM : 0;
done:
	free(row);
	free(memory);
	return g->count < 2 ? 0 : err;
}

static uint32_t members_of(const struct workers_table *t, uint32_t role, uint32_t *member)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->workers; i++)
		if (t->role[i] == role)
			member[n++] = i;
	return n;
}

static int judge_all(struct workers *w, uint32_t *member)
{
	const struct workers_table *t = w->t;
	struct group g = { .member = member, .columns = t->workers, .self = w->self,
			   .late = t->late_ns ? w->late : NULL };
	uint32_t least = t->workers;
	int err = 0;

	for (uint32_t r = 0; r < t->roles; r++) {
		uint32_t n = members_of(t, r, member);

		least = n < least ? n : least;
		if (n > PEERS_MEMBERS_MAX)
			return -E2BIG;
	}
	if (t->roles == 1 || least >= ROLE_ALONE || t->workers > PEERS_MEMBERS_MAX) {
		for (uint32_t r = 0; r < t->roles && !err; r++) {
			g.count = members_of(t, r, member);
			g.scale = w->role_level[r];
			err = judge(w, &g);
		}
		return err;
	}
	for (uint32_t i = 0; i < t->workers; i++) {
		member[i] = i;
		w->scratch[i] = w->level[i];
	}
	g.scale = median_of(w->scratch, t->workers);
	g.count = t->workers;
	return judge(w, &g);
}

static int judge_replicas(struct workers *w, uint32_t *member)
{
	const struct workers_table *t = w->t;
	struct group g = { .member = member, .columns = t->replicas, .count = t->replicas,
			   .self = w->input, .scale = w->step_ns, .replica = true };

	if (!t->replica || t->roles < 2 || t->replicas < 2 || t->replicas > PEERS_MEMBERS_MAX)
		return 0;
	for (uint32_t r = 0; r < t->replicas; r++)
		member[r] = r;
	return judge(w, &g);
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

int workers_find(const struct workers_table *t, workers_tell *tell, void *context)
{
	size_t cells = (size_t)t->steps * t->workers, replicas = t->replica ? t->replicas : 0;
	uint32_t most = t->steps > t->workers ? t->steps : t->workers;
	struct workers w = { .t = t };
	uint32_t *member = calloc(t->workers + replicas + 1, sizeof(*member));
	int err = -ENOMEM;

	w.self = calloc(cells, sizeof(double));
	w.late = t->late_ns ? calloc(cells, sizeof(double)) : NULL;
	w.level = calloc(t->workers, sizeof(double));
	w.role_level = calloc(t->roles, sizeof(double));
	w.role_late = calloc(t->roles, sizeof(double));
	w.common = calloc(t->steps, sizeof(double));
	w.input = calloc(t->steps * replicas + 1, sizeof(double));
	w.scratch = calloc(most, sizeof(double));
	if (member && w.self && (w.late || !t->late_ns) && w.level && w.role_level && w.role_late &&
	    w.common && w.input && w.scratch) {
		workers_level(&w);
		w.step_ns = typical_step(&w);
		err = judge_all(&w, member);
		if (!err)
			err = judge_replicas(&w, member);
		if (!err)
			err = workers_findings(&w, tell, context);
	}
	free(member);
	free(w.self);
	free(w.late);
	free(w.level);
	free(w.role_level);
	free(w.role_late);
	free(w.common);
	free(w.input);
	free(w.scratch);
	free(w.flag);
	return err;
}

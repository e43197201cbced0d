/* SPDX-License-Identifier: Apache-2.0
 * Steps are matched in rounds. A round is one step of the group's first rank and, of every other
 * rank, the step with the nearest end. A round is judged when every rank has passed it. A
 * rank that falls far behind is not waited for; its value is missing. */
#include "analysis/slow/local_peers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/slow/peers.h"
#include "analysis/slow/skew.h"
#include "base/carve.h"
#include "base/limits.h"
#include "model/thresholds.h"

#define GROUPS 16u
/* steps of a rank that wait for the other ranks: 2.5 s of 5 ms steps */
#define RING	      512u
#define ROW_NS	      40000000.0 /* duration of a row */
#define ROW_STEPS_MAX 64u
#define FLAGS	      128u
#define SKEW_ROWS     256u  /* latest rows, in which uneven work is looked for */
#define ROW_TIMES     2048u /* rows whose end times are kept, for the start of a flag */

struct peer_step {
	uint64_t end_ns;
	double latency_ns, self_ns;
	double work[STEP_WORK_MAX + 1]; /* launches, then the work vector */
	bool used;
};

struct member {
	bool known;
	uint64_t key;
	struct peer_step ring[RING];
	/* head: the next step to match; count: steps pushed so far. The ring holds the steps in
	 * between. */
	uint64_t head, count;
};

struct group {
	uint64_t key; /* n == 0: free */
	uint32_t slot[LIMIT_NODE_PROCESSES], n;
	struct peers *peers;
	void *memory;
	double pace_ns;
	uint32_t log; /* a row has 2^log steps */
	double value[LIMIT_NODE_PROCESSES][ROW_STEPS_MAX];
	uint32_t values[LIMIT_NODE_PROCESSES], steps; /* of the open row */
	uint64_t row, row_end_ns[ROW_TIMES];
	uint32_t rounds, unlike[LIMIT_NODE_PROCESSES]; /* counts over the first rounds */
	/* Skew of the ranks' work (analysis/slow/skew.h) per row, without flagged stretches. */
	double skew_row[SKEW_ROWS][LIMIT_NODE_PROCESSES];
	struct skew_step skew[SKEW_ROWS];
	uint64_t high_from[LIMIT_NODE_PROCESSES],
	    /* rows of the latest flagged stretch */
	    high_end[LIMIT_NODE_PROCESSES];
	double usual[LIMIT_NODE_PROCESSES][STEP_WORK_MAX + 1]; /* usual work of each rank */
	bool uneven, known; /* known: the first rounds were examined; nothing is compared before */
};

struct local_peers {
	enum peers_mode mode;
	struct member *member[LIMIT_NODE_PROCESSES]; /* NULL: no steps yet */
	struct group group[GROUPS];
	struct local_peers_flag flag[FLAGS];
	uint32_t flag_first, flag_count;
	struct local_peers_stats stats;
};

int local_peers_open(struct local_peers **out, enum peers_mode mode)
{
	*out = calloc(1, sizeof(**out));
	if (*out)
		(*out)->mode = mode;
	return *out ? 0 : -ENOMEM;
}

static void drop_group(struct group *g)
{
	free(g->memory);
	memset(g, 0, sizeof(*g));
}

void local_peers_close(struct local_peers *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < GROUPS; i++)
		drop_group(&l->group[i]);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		free(l->member[i]);
	free(l);
}

/* ---- flags ---- */

static void queue_flag(struct local_peers *l, const struct local_peers_flag *f)
{
	if (l->flag_count == FLAGS)
		return;
	l->flag[(l->flag_first + l->flag_count++) % FLAGS] = *f;
}

bool local_peers_next(struct local_peers *l, struct local_peers_flag *out)
{
	if (!l->flag_count)
		return false;
	*out = l->flag[l->flag_first];
	l->flag_first = (l->flag_first + 1) % FLAGS;
	l->flag_count--;
	return true;
}

static uint64_t row_time(const struct group *g, uint64_t row)
{
	uint64_t oldest = g->row > ROW_TIMES ? g->row - ROW_TIMES : 0;

	return g->row_end_ns[(row < oldest ? oldest : row) % ROW_TIMES];
}

static bool is_high(const struct group *g, uint32_t member, uint64_t row)
{
	return row >= g->high_from[member] && row < g->high_end[member];
}

static void compute_skew(struct group *g, uint64_t row)
{
	double v[LIMIT_NODE_PROCESSES], scratch[LIMIT_NODE_PROCESSES];
	bool away = false;

	/* If the ranks differ by nature, the self times of the others include their waiting for the
	 * slow one. */
	for (uint32_t i = 0; i < g->n; i++)
		away |= g->uneven && is_high(g, i, row);
	for (uint32_t i = 0; i < g->n; i++)
		v[i] = away || is_high(g, i, row) ? NAN : g->skew_row[row % SKEW_ROWS][i];
	g->skew[row % SKEW_ROWS] = skew_of_step(v, NULL, g->n, scratch);
}

static void skew_push(struct group *g, uint64_t row, const double *self)
{
	memcpy(g->skew_row[row % SKEW_ROWS], self, g->n * sizeof(*self));
	compute_skew(g, row);
}

/* Excludes the rank's stretch from the skew, and computes the skew again. */
static void exclude(struct group *g, uint32_t member, uint64_t from, uint64_t end)
{
	uint64_t first = g->row < SKEW_ROWS ? 0 : g->row - SKEW_ROWS;

	g->high_from[member] = from;
	g->high_end[member] = end;
	for (uint64_t row = first; row < g->row; row++)
		compute_skew(g, row);
}

/* Whether uneven work explains the flag. */
static bool is_skew(struct group *g, const struct peers_flag *f)
{
	uint32_t times[LIMIT_NODE_PROCESSES], n = g->row < SKEW_ROWS ? (uint32_t)g->row : SKEW_ROWS;
	double loss[SKEW_ROWS];
	struct skew k;

	if (f->ended) {
		if (g->high_end[f->member] == UINT64_MAX)
			exclude(g, f->member, g->high_from[f->member], f->last_step + 1);
		return false;
	}
	exclude(g, f->member, f->first_step, UINT64_MAX);
	k = skew_of(g->skew, n, times, g->n, loss);
	if (!skew_explains(&k, f->excess))
		return false;
	exclude(g, f->member, 0, 0);
	return true;
}

static void drain_flags(struct local_peers *l, struct group *g)
{
	struct peers_flag f;

	while (peers_next(g->peers, &f)) {
		struct local_peers_flag out = {.slot = g->slot[f.member],
					       .ended = f.ended,
					       .excess = f.excess,
					       .excess_ns = f.excess_ns};

		if (f.measure != PEERS_SELF)
			continue;
		if (l->mode == PEERS_ROBUST && is_skew(g, &f)) {
			l->stats.skewed++;
			continue;
		}
		l->stats.flags += !f.ended;
		out.begin_ns = row_time(g, f.first_step ? f.first_step - 1 : 0);
		out.end_ns = row_time(g, f.last_step);
		queue_flag(l, &out);
	}
}

/* Ends the open flags: the ranks change, so their comparison does too. */
static void end_group(struct local_peers *l, struct group *g)
{
	if (g->peers) {
		peers_finish(g->peers);
		drain_flags(l, g);
	}
	drop_group(g);
}

/* ---- groups ---- */

static struct group *find_group(struct local_peers *l, uint64_t key)
{
	for (uint32_t i = 0; i < GROUPS; i++)
		if (l->group[i].n && l->group[i].key == key)
			return &l->group[i];
	return NULL;
}

static bool is_in(const struct group *g, uint32_t slot)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->slot[i] == slot)
			return true;
	return false;
}

static void init_peers(const struct local_peers *l, struct group *g)
{
	struct peers_config c;

	peers_config_default(&c);
	c.mode = l->mode;
	c.changes_only = g->uneven; /* never set in the paper's mode */
	free(g->memory);	    /* the size depends on c */
	g->memory = carve_memory(peers_memory_bytes(&c, g->n));
	g->peers = g->memory ? peers_init(g->memory, &c, g->n) : NULL;
}

/* Groups the ranks of a key that have enough steps. A rank's first steps are discarded, because
 * the first steps of a job are slow. */
static void make_group(struct local_peers *l, uint64_t key)
{
	struct group *g = find_group(l, key);

	if (g)
		end_group(l, g);
	for (uint32_t i = 0; i < GROUPS && !g; i++)
		if (!l->group[i].n)
			g = &l->group[i];
	if (!g)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (l->member[i] && l->member[i]->known && l->member[i]->key == key &&
		    l->member[i]->count >= thresholds.count.many)
			g->slot[g->n++] = i;
	if (g->n < 2) {
		memset(g, 0, sizeof(*g));
		return;
	}
	g->key = key;
	g->known = l->mode == PEERS_SYSOM;
	init_peers(l, g);
	for (uint32_t i = 0; i < g->n; i++)
		l->member[g->slot[i]]->head = l->member[g->slot[i]]->count;
}

/* ---- rounds ---- */

static const struct peer_step *at(const struct member *m, uint64_t number)
{
	return &m->ring[number % RING];
}

/* The rank's step whose end is nearest to end_ns, within half a step; earlier ones are dropped.
 * NULL: none. */
static const struct peer_step *match(struct local_peers *l, struct member *m, uint64_t end_ns,
				     double pace_ns)
{
	uint64_t half = (uint64_t)(pace_ns / 2);

	while (m->head < m->count && at(m, m->head)->end_ns + half < end_ns) {
		m->head++;
		l->stats.missing++;
	}
	if (m->head == m->count || at(m, m->head)->end_ns > end_ns + half)
		return NULL;
	return at(m, m->head++);
}

static bool alike(const struct peer_step *a, const double *middle)
{
	for (int i = 0; i <= STEP_WORK_MAX; i++)
		if (fabs(a->work[i] - middle[i]) > thresholds.same.work * fabs(middle[i]))
			return false;
	return true;
}

/* Whether the step has the rank's own usual work. Ranks whose work differs by nature are
 * compared only with themselves. */
static bool alike_own(struct group *g, uint32_t i, const struct peer_step *s)
{
	double share =
	    g->rounds < thresholds.count.many ? 1.0 / (g->rounds + 1) : 1.0 / thresholds.count.many;
	bool like = alike(s, g->usual[i]);

	for (int k = 0; k <= STEP_WORK_MAX; k++)
		g->usual[i][k] += (s->work[k] - g->usual[i][k]) * share;
	return like;
}

static void middle_work(const struct peer_step *const *steps, uint32_t n, double *middle)
{
	double v[LIMIT_NODE_PROCESSES];

	for (int k = 0; k <= STEP_WORK_MAX; k++) {
		uint32_t known = 0;

		for (uint32_t i = 0; i < n; i++)
			if (steps[i])
				v[known++] = steps[i]->work[k];
		middle[k] = median_of(v, known);
	}
}

static void judge_row(struct local_peers *l, struct group *g)
{
	double self[LIMIT_NODE_PROCESSES];
	uint32_t most = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		/* a row's value needs at least half of the row's steps */
		self[i] = 2 * g->values[i] >= g->steps && g->values[i]
			      ? median_of(g->value[i], g->values[i])
			      : NAN;
		most = g->values[i] > most ? g->values[i] : most;
		g->values[i] = 0;
	}
	skew_push(g, g->row, self);
	peers_push(g->peers, g->row++, self, NULL, g->pace_ns, most ? most : g->steps);
	g->steps = 0;
	drain_flags(l, g);
}

/* If most steps of one rank have other work than the median, the ranks differ by nature. From
 * then on only changes against a rank's own past are reported. */
static void learn_uneven(struct local_peers *l, struct group *g)
{
	uint32_t most = 0;

	g->rounds++;
	if (g->uneven || g->rounds < thresholds.count.some)
		return;
	for (uint32_t i = 0; i < g->n; i++) {
		most = g->unlike[i] > most ? g->unlike[i] : most;
		g->unlike[i] = 0;
	}
	g->known = true;
	if (most < thresholds.part.most * g->rounds) {
		g->rounds = 0;
		return;
	}
	peers_finish(g->peers);
	drain_flags(l, g);
	g->uneven = true;
	g->rounds = 0;
	init_peers(l, g);
}

static void judge_round(struct local_peers *l, struct group *g,
			const struct peer_step *const *steps, uint64_t end_ns)
{
	double middle[STEP_WORK_MAX + 1];

	middle_work(steps, g->n, middle);
	l->stats.rounds++;
	for (uint32_t i = 0; i < g->n; i++) {
		if (!steps[i] || !steps[i]->used)
			continue;
		if (l->mode == PEERS_SYSOM ||
		    (g->uneven ? alike_own(g, i, steps[i]) : alike(steps[i], middle))) {
			g->value[i][g->values[i]++] = steps[i]->self_ns;
		} else {
			l->stats.unlike++;
			g->unlike[i]++;
		}
	}
	if (l->mode == PEERS_ROBUST)
		learn_uneven(l, g);
	g->row_end_ns[g->row % ROW_TIMES] = end_ns;
	if (!g->known) {
		memset(g->values, 0, sizeof(g->values));
		return;
	}
	if (++g->steps < 1u << g->log)
		return;
	judge_row(l, g);
	/* Adapt the row length between rows, and only when the step time has changed by more than a
	 * factor of two. */
	if (l->mode == PEERS_SYSOM) /* its windows count steps */
		return;
	while (g->log < 6 && g->pace_ns * (double)(1u << g->log) < ROW_NS)
		g->log++;
	while (g->log && g->pace_ns * (double)(1u << g->log) > 4 * ROW_NS)
		g->log--;
}

/* Whether every rank has passed that time. A rank that is far behind is not waited for. */
static bool all_past(const struct local_peers *l, const struct group *g, uint64_t t_ns)
{
	uint64_t newest = 0;
	bool all = true;

	for (uint32_t i = 0; i < g->n; i++) {
		const struct member *m = l->member[g->slot[i]];
		uint64_t end_ns = at(m, m->count - 1)->end_ns;

		newest = end_ns > newest ? end_ns : newest;
		all &= end_ns > t_ns;
	}
	return all || newest > t_ns + (uint64_t)thresholds.time.lasting_ns;
}

static void advance(struct local_peers *l, struct group *g)
{
	struct member *first = l->member[g->slot[0]];

	while (first->head < first->count) {
		const struct peer_step *steps[LIMIT_NODE_PROCESSES], *lead = at(first, first->head);
		uint64_t end_ns = lead->end_ns;

		g->pace_ns += (lead->latency_ns - g->pace_ns) *
			      (g->pace_ns > 0 ? 1.0 / thresholds.count.many : 1);
		if (!all_past(l, g, end_ns + (uint64_t)(g->pace_ns / 2)))
			return;
		first->head++;
		steps[0] = lead;
		for (uint32_t i = 1; i < g->n; i++)
			steps[i] = match(l, l->member[g->slot[i]], end_ns, g->pace_ns);
		judge_round(l, g, steps, end_ns);
	}
}

/* ---- ranks ---- */

static void push(struct local_peers *l, struct member *m, const struct step *s, bool used)
{
	struct peer_step *to = &m->ring[m->count++ % RING];
	uint32_t n = s->work_count;

	if (m->count - m->head > RING) {
		m->head = m->count - RING;
		l->stats.missing++;
	}
	*to = (struct peer_step){.end_ns = s->end_ns,
				 .latency_ns = (double)s->latency_ns,
				 .self_ns = (double)s->self_ns,
				 .used = used && s->kernels};
	to->work[0] = s->launches;
	/* Whether a copy falls into this step or the next is chance. So without explicit steps,
	 * work is compared by launches, blocks and collective bytes only. */
	if (s->source != STEP_SOURCE_EXPLICIT && n > STEP_WORK_COPY_BYTES)
		n = STEP_WORK_COPY_BYTES;
	for (uint32_t i = 0; i < STEP_WORK_MAX; i++)
		to->work[i + 1] = i < n ? s->work[i] : 0;
}

void local_peers_step(struct local_peers *l, uint32_t slot, uint64_t key, const struct step *s,
		      bool used)
{
	struct member *m = l->member[slot];
	struct group *g;

	if (!m)
		m = l->member[slot] = calloc(1, sizeof(*m));
	if (!m)
		return;
	if (m->known && m->key != key)
		local_peers_forget(l, slot);
	m->known = true;
	m->key = key;
	push(l, m, s, used);
	g = find_group(l, key);
	if (m->count >= thresholds.count.many && !(g && is_in(g, slot))) {
		make_group(l, key);
		g = find_group(l, key);
	}
	/* a rank without a group keeps no steps */
	if (!g || !is_in(g, slot))
		m->head = m->count;
	else if (g->peers)
		advance(l, g);
}

void local_peers_forget(struct local_peers *l, uint32_t slot)
{
	struct member *m = l->member[slot];
	struct group *g;

	if (!m || !m->known)
		return;
	g = find_group(l, m->key);
	m->known = false;
	m->count = m->head = 0;
	if (g && is_in(g, slot))
		make_group(l, g->key);
}

void local_peers_stats_get(const struct local_peers *l, struct local_peers_stats *out)
{
	*out = l->stats;
	out->groups = 0;
	for (uint32_t i = 0; i < GROUPS; i++)
		out->groups += l->group[i].n > 0;
}

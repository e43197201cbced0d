/* SPDX-License-Identifier: Apache-2.0
 * The rule of SysOM-AI 3.1, kept for comparison. A rank is slow if its mean over W steps lies
 * above the ranks' mean by more than k standard deviations. The window slides by a tenth of its
 * length. */
#include "analysis/slow/peers_private.h"

#include <math.h>

#include "analysis/robust/spread.h"

struct average {
	double mean, limit;
};

static double member_mean(const struct peers *p, const struct peers_series *s, uint32_t member)
{
	const double *count = s->part + PEERS_SYSOM_PARTS * (size_t)p->n;
	double sum = 0, n = 0;

	for (uint32_t part = 0; part < PEERS_SYSOM_PARTS; part++) {
		sum += s->part[part * (size_t)p->n + member];
		n += count[part * (size_t)p->n + member];
	}
	return n > 0 ? sum / n : NAN;
}

static struct average group_mean(struct peers *p, const struct peers_series *s)
{
	struct average a;
	uint32_t known = 0;
	double sigma;

	for (uint32_t i = 0; i < p->n; i++) {
		p->value[i] = member_mean(p, s, i);
		if (!isnan(p->value[i]))
			p->scratch[known++] = p->value[i];
	}
	a.mean = spread_mean(p->scratch, known, &sigma);
	a.limit = a.mean + p->c.k * sigma;
	return a;
}

static void judge(struct peers *p, enum peers_measure q, uint32_t member, const struct average *a,
		  uint64_t first_step, uint64_t step)
{
	struct peers_member *m = &p->series[q].member[member];
	bool slow = p->value[member] > a->limit && a->limit > a->mean;

	if (slow) {
		double whole = q == PEERS_SELF ? a->mean : p->step_ns;

		if (!m->open)
			m->flag = (struct peers_flag){.member = member,
						      .measure = q,
						      .window = p->c.w,
						      .first_step = first_step,
						      .sure_step = step};
		m->flag.last_step = step;
		m->flag.excess_ns = p->value[member] - a->mean;
		m->flag.excess = m->flag.excess_ns / whole;
		m->flag.score = m->flag.excess_ns / (a->limit - a->mean);
	}
	if (slow == m->open)
		return;
	m->flag.ended = !slow;
	m->open = slow;
	peers_queue_flag(p, &m->flag);
}

void peers_sysom_push(struct peers *p, enum peers_measure q, const double *value)
{
	struct peers_series *s = &p->series[q];
	uint64_t length = p->c.w > PEERS_SYSOM_PARTS ? p->c.w / PEERS_SYSOM_PARTS : 1;
	uint64_t done = p->pushes + 1, back = length * PEERS_SYSOM_PARTS;
	size_t part = (size_t)(p->pushes / length % PEERS_SYSOM_PARTS) * p->n;
	double *sum = s->part + part, *count = sum + PEERS_SYSOM_PARTS * (size_t)p->n;
	struct average a;

	for (uint32_t i = 0; i < p->n; i++) {
		if (p->pushes % length == 0)
			sum[i] = count[i] = 0;
		if (!isfinite(value[i]))
			continue;
		sum[i] += value[i];
		count[i] += 1;
	}
	if (done < back || done % length)
		return;
	a = group_mean(p, s);
	back = back > p->depth ? p->depth : back;
	for (uint32_t i = 0; i < p->n; i++)
		judge(p, q, i, &a, p->step[peers_at(p, done - back)],
		      p->step[peers_at(p, p->pushes)]);
}

/* SPDX-License-Identifier: Apache-2.0
 * Joins flags of single ranks into findings. Ranks of one role whose slowness began at the same
 * time share a finding, since one fault is one incident. Ranks whose slowness began at another time
 * get a finding of their own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cross/cross_private.h"
#include "base/order.h"
#include "base/room.h"
#include "model/thresholds.h"

static struct cross_culprit *find_culprit(struct cross_finding *f, uint32_t slot)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (f->culprits[i].slot == slot && !f->culprits[i].done)
			return &f->culprits[i];
	return NULL;
}

static struct cross_finding *open_finding_of(struct cross *c, uint32_t slot,
					     struct cross_culprit **culprit)
{
	for (uint32_t i = 0; i < LIMIT_CROSS_FINDINGS; i++) {
		struct cross_finding *f = &c->findings[i];

		*culprit = f->used && !f->ended ? find_culprit(f, slot) : NULL;
		if (*culprit)
			return f;
	}
	return NULL;
}

int64_t cross_findings_time(const struct cross_role_part *rp, uint64_t step)
{
	uint32_t n = rp->time_count < CROSS_TIMES ? rp->time_count : CROSS_TIMES;
	int64_t best = 0;
	uint64_t best_step = 0, newest = 0;
	int64_t newest_ns = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t s = rp->times[i].step;

		if (s <= step && (!best || s >= best_step)) {
			best = rp->times[i].end_unix_ns;
			best_step = s;
		}
		if (s >= newest) {
			newest = s;
			newest_ns = rp->times[i].end_unix_ns;
		}
	}
	/* The step is older than the stored times. Extrapolate with the present step time. */
	if (!best)
		return newest_ns - (int64_t)((double)(newest - step) * rp->step_ns);
	return best;
}

/* If the rank had recovered, or has returned in another slot, it is the same culprit again. */
static struct cross_culprit *known_culprit(struct cross *c, struct cross_finding *f, uint32_t slot)
{
	for (uint32_t i = 0; i < f->count; i++) {
		struct cross_culprit *k = &f->culprits[i];

		if (k->rank != c->slots[slot].rank)
			continue;
		if (!k->done && c->slots[k->slot].findings)
			c->slots[k->slot].findings--;
		k->slot = slot;
		k->measures = 0;
		k->orphan_ns = 0;
		k->done = false;
		c->slots[slot].findings++;
		return k;
	}
	return NULL;
}

static struct cross_culprit *add_culprit(struct cross *c, struct cross_finding *f, uint32_t slot)
{
	struct cross_culprit *list = known_culprit(c, f, slot);

	if (list)
		return list;
	if (f->count == FINDING_RANKS_MAX || ROOM_FOR(f->culprits, f->room, f->count + 1))
		return NULL;
	f->culprits[f->count] = (struct cross_culprit){.slot = slot, .rank = c->slots[slot].rank};
	c->slots[slot].findings++;
	return &f->culprits[f->count++];
}

static struct cross_finding *open_one(struct cross *c, const struct cross_role_part *rp,
				      int64_t begin_ns, uint64_t first_step)
{
	struct cross_finding *room = NULL;

	for (uint32_t i = 0; i < LIMIT_CROSS_FINDINGS; i++) {
		struct cross_finding *f = &c->findings[i];

		if (!f->used)
			room = room ? room : f;
		else if (!f->ended && f->role == rp->role &&
			 llabs(f->begin_unix_ns - begin_ns) <= (int64_t)thresholds.time.together_ns)
			return f;
	}
	if (!room) {
		c->stats.no_room++;
		return NULL;
	}
	free(room->culprits);
	*room = (struct cross_finding){
	    .used = true, .role = rp->role, .first_step = first_step, .begin_unix_ns = begin_ns};
	c->stats.findings++;
	return room;
}

static void finish_culprit(struct cross *c, struct cross_finding *f, struct cross_culprit *k)
{
	k->done = true;
	k->measures = 0;
	if (c->slots[k->slot].findings)
		c->slots[k->slot].findings--;
	for (uint32_t i = 0; i < f->count; i++)
		if (!f->culprits[i].done)
			return;
	f->ended = true;
	f->changed = true;
	/* While the finding lasted, last_step followed the newest step of the job. */
	f->last_step = f->first_step;
	for (uint32_t i = 0; i < f->count; i++)
		if (f->culprits[i].last_step > f->last_step)
			f->last_step = f->culprits[i].last_step;
}

void cross_findings_flag(struct cross *c, struct cross_role_part *rp, const struct peers_flag *flag)
{
	uint32_t slot = rp->members[flag->member].slot, bit = 1u << flag->measure;
	struct cross_culprit *k;
	struct cross_finding *f = open_finding_of(c, slot, &k);
	uint64_t last = flag->last_step + rp->steps - 1;
	bool explained = cross_skew_explains(rp, flag) && c->config.mode == PEERS_ROBUST;

	if (!f) {
		if (flag->ended || explained)
			return;
		f = open_one(c, rp, cross_findings_time(rp, flag->first_step), flag->first_step);
		k = f ? add_culprit(c, f, slot) : NULL;
		if (!k)
			return;
	}
	f->peers = rp->count;
	f->changed = true;
	k->orphan_ns = 0;
	if (flag->first_step < f->first_step) {
		f->first_step = flag->first_step;
		f->begin_unix_ns = cross_findings_time(rp, flag->first_step);
	}
	if (last > k->last_step)
		k->last_step = last;
	if (last > f->last_step)
		f->last_step = last;
	f->end_unix_ns = cross_findings_time(rp, flag->last_step);
	if (flag->measure == PEERS_SELF) {
		k->excess = flag->excess;
		k->excess_ns = flag->excess_ns;
		k->window = flag->window;
	} else {
		k->late_excess_ns = flag->excess_ns;
		k->window = k->window ? k->window : flag->window;
	}
	k->score = flag->score > k->score ? flag->score : k->score;
	k->measures = flag->ended ? k->measures & ~bit : k->measures | bit;
	if (!k->measures)
		finish_culprit(c, f, k);
}

void cross_findings_orphan(struct cross *c, uint32_t slot, uint64_t now_ns)
{
	struct cross_culprit *k;

	if (open_finding_of(c, slot, &k) && !k->orphan_ns)
		k->orphan_ns = now_ns;
}

static void update_finding(struct cross *c, struct cross_finding *f, uint64_t now_ns)
{
	bool lasts = false;

	for (uint32_t i = 0; i < f->count && !f->ended; i++) {
		struct cross_culprit *k = &f->culprits[i];
		const struct cross_slot *s = &c->slots[k->slot];

		if (k->done)
			continue;
		if (!cross_alive(s, now_ns) && !k->orphan_ns)
			k->orphan_ns = now_ns;
		/* The rank's comparison was restarted, or the rank sends nothing any more, so its
		 * flag never ends by itself. */
		if (k->orphan_ns && now_ns - k->orphan_ns >= 2 * thresholds.time.gone_ns) {
			finish_culprit(c, f, k);
			continue;
		}
		lasts = true;
		if (s->role_part != CROSS_NONE && c->role_parts[s->role_part].role == f->role &&
		    c->role_parts[s->role_part].time_count && !k->orphan_ns) {
			const struct cross_role_part *rp = &c->role_parts[s->role_part];
			uint32_t newest = (rp->time_count - 1) % CROSS_TIMES;

			f->last_step = rp->times[newest].step + rp->steps - 1;
			f->end_unix_ns = rp->times[newest].end_unix_ns;
		}
	}
	if (lasts && now_ns - f->reported_ns >= CROSS_REFRESH_NS)
		f->changed = true;
}

void cross_findings_tick(struct cross *c, uint64_t now_ns)
{
	for (uint32_t i = 0; i < LIMIT_CROSS_FINDINGS; i++)
		if (c->findings[i].used && !c->findings[i].ended)
			update_finding(c, &c->findings[i], now_ns);
	for (uint32_t i = 0; i < LIMIT_CROSS_FINDINGS; i++)
		if (c->findings[i].changed)
			c->findings[i].reported_ns = now_ns;
}

/* ---- reports ---- */

static double effect_of(const struct cross_culprit *k)
{
	/* A delay shows both in self time and in lateness. Self time is the part that this rank
	 * alone decides. */
	return k->excess_ns > 0 ? k->excess_ns : k->late_excess_ns;
}

ORDER_BY(worst_first, struct cross_culprit, ORDER(effect_of(b), effect_of(a)) ?: ORDER_UP(rank));

static void add_evidence(const struct cross_finding *f, const struct cross_culprit *k,
			 struct finding *out)
{
	double effect = effect_of(k);

	if (k->excess_ns > 0)
		finding_say_of(
		    out, k->rank, LAYER_UNKNOWN, effect,
		    "rank %d: self time is %.2f ms per step (%.1f%%) above the median of its "
		    "role's %u ranks; confirmed over %u steps, %.1fx the threshold",
		    k->rank, k->excess_ns / 1e6, 100 * k->excess, f->peers, k->window, k->score);
	if (k->late_excess_ns > 0)
		finding_say_of(
		    out, k->rank, LAYER_UNKNOWN, effect,
		    "rank %d: enters collectives %.2f ms later than a typical rank of its role",
		    k->rank, k->late_excess_ns / 1e6);
}

void cross_findings_frame(const struct cross *c, int64_t begin_unix_ns, int64_t end_unix_ns,
			  bool ended, struct finding_report *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->job, c->job, sizeof(out->job));
	out->begin_unix_ns = begin_unix_ns > 0 ? (uint64_t)begin_unix_ns : 0;
	out->end_unix_ns = end_unix_ns > begin_unix_ns ? (uint64_t)end_unix_ns : out->begin_unix_ns;
	out->ended = ended;
}

static void fill(const struct cross *c, struct cross_finding *f, struct finding_report *out)
{
	struct finding *to = &out->finding;
	double excess = 0, score = 0;

	cross_findings_frame(c, f->begin_unix_ns, f->end_unix_ns, f->ended, out);
	to->kind = FINDING_SLOW_RANK;
	to->cause = CAUSE_UNKNOWN;
	to->first_step = f->first_step;
	to->last_step = f->last_step;
	qsort(f->culprits, f->count, sizeof(*f->culprits), worst_first);
	for (uint32_t i = 0; i < f->count; i++) {
		const struct cross_culprit *k = &f->culprits[i];

		to->ranks[to->rank_count++] = k->rank;
		excess = k->excess > excess ? k->excess : excess;
		score = k->score > score ? k->score : score;
		if (i < FINDING_EVIDENCE_MAX / 2)
			add_evidence(f, k, to);
	}
	to->effect_ns = f->count ? effect_of(&f->culprits[0]) : 0;
	to->excess = excess;
	/* At the threshold one test in a thousand errs. At three times the threshold hardly any
	 * does. */
	to->confidence = score > 1 ? fmin(0.99, 0.6 + 0.2 * (score - 1)) : 0.6;
}

bool cross_next(struct cross *c, struct finding_report *out)
{
	for (uint32_t i = 0; i < LIMIT_CROSS_FINDINGS; i++) {
		struct cross_finding *f = &c->findings[i];

		if (!f->used || !f->changed)
			continue;
		f->changed = false;
		fill(c, f, out);
		if (f->ended) {
			free(f->culprits);
			*f = (struct cross_finding){0};
		}
		return true;
	}
	return cross_skew_next(c, out);
}

/* SPDX-License-Identifier: Apache-2.0
 * Compares CPU profiles by function. Testing shares one by one would flag all functions once one
 * new function takes time from them, so the test allows for dilution. */
#include "analysis/cause/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/chance.h"
#include "analysis/robust/median.h"
#include "analysis/robust/spread.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/probe.h"
#include "base/room.h"
#include "model/thresholds.h"

#define NO_FUNCTION UINT32_MAX

struct function {
	char *name;
	double self, total;
	uint64_t seen; /* number of the latest stack that contained it */
};

struct profile {
	struct keyed key; /* key of by_name */
	struct function *function;
	uint32_t count;
	size_t room;
	struct probe by_name;
	struct profile_function *sorted;
	uint64_t stacks, dropped;
	size_t name_bytes;
	double total, squares; /* sum of the squared weights of the samples */
};

int profile_open(struct profile **out, const struct keyed *key)
{
	struct profile *p = calloc(1, sizeof(*p));

	*out = p;
	if (!p)
		return -ENOMEM;
	p->key = *key;
	return 0;
}

void profile_close(struct profile *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->count; i++)
		free(p->function[i].name);
	free(p->function);
	probe_fini(&p->by_name);
	free(p->sorted);
	free(p);
}

static uint32_t find(const struct profile *p, const char *name)
{
	PROBE_EACH (i, &p->by_name, keyed_text(&p->key, name))
		if (!strcmp(p->function[i.number].name, name))
			return i.number;
	return NO_FUNCTION;
}

static int intern(struct profile *p, const char *name, uint32_t *out)
{
	size_t bytes = strlen(name) + 1;

	*out = find(p, name);
	if (*out != NO_FUNCTION)
		return 0;
	if (bytes > LIMIT_PROFILE_NAME_BYTES - p->name_bytes || p->count >= LIMIT_PROFILE_FUNCTIONS)
		return -E2BIG;
	if (ROOM_FOR(p->function, p->room, p->count + 1ull))
		return -ENOMEM;
	p->function[p->count] = (struct function){.name = strdup(name)};
	if (!p->function[p->count].name ||
	    probe_add(&p->by_name, keyed_text(&p->key, name), p->count)) {
		free(p->function[p->count].name);
		return -ENOMEM;
	}
	p->name_bytes += bytes;
	*out = p->count++;
	return 0;
}

int profile_add(struct profile *p, const char *const *names, uint32_t count, double weight,
		double samples)
{
	uint32_t stack[LIMIT_STACK_DEPTH + 2];
	int err = 0;

	if (!count || !(weight >= 0) || !isfinite(weight) || !(samples >= 0) || !isfinite(samples))
		return -EINVAL;
	if (count > LIMIT_STACK_DEPTH + 2)
		err = -E2BIG;
	for (uint32_t i = 0; i < count && !err; i++)
		err = intern(p, names[i], &stack[i]);
	if (err) {
		p->dropped++;
		return err;
	}
	p->stacks++;
	for (uint32_t i = 0; i < count; i++) {
		struct function *f = &p->function[stack[i]];

		if (f->seen != p->stacks)
			f->total += weight;
		f->seen = p->stacks;
	}
	p->function[stack[count - 1]].self += weight;
	p->total += weight;
	if (samples > 0)
		p->squares += weight * weight / samples;
	return 0;
}

int profile_put(struct profile *p, const char *name, double self, double total)
{
	uint32_t at;
	int err = intern(p, name, &at);

	if (err) {
		p->dropped++;
		return err;
	}
	p->function[at].self += self;
	p->function[at].total += total;
	return 0;
}

void profile_set_total(struct profile *p, double weight, double samples)
{
	p->total = weight;
	p->squares = weight * weight / samples;
}

double profile_total(const struct profile *p)
{
	return p->total;
}

double profile_samples(const struct profile *p)
{
	return p->squares > 0 ? p->total * p->total / p->squares : INFINITY;
}

uint64_t profile_dropped(const struct profile *p)
{
	return p->dropped;
}

ORDER_BY(by_total, struct profile_function, ORDER_DOWN(total) ?: ORDER_TEXT(name));

const struct profile_function *profile_functions(struct profile *p, uint32_t *count)
{
	struct profile_function *s = realloc(p->sorted, (p->count + 1ull) * sizeof(*s));

	*count = 0;
	if (!s)
		return NULL;
	p->sorted = s;
	for (uint32_t i = 0; i < p->count; i++)
		s[i] = (struct profile_function){p->function[i].name, p->function[i].self,
						 p->function[i].total};
	qsort(s, p->count, sizeof(*s), by_total);
	*count = p->count;
	return s;
}

/* ---- two profiles ---- */

/* The factor by which an unchanged share of base shrank because other functions were added. */
static int find_dilution(const struct profile_delta *d, uint32_t count, double *out)
{
	struct median_weighted *r = calloc(count + 1ull, sizeof(*r));
	uint32_t n = 0;

	*out = 1;
	if (!r)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		if (!(d[i].base_self > 0))
			continue;
		r[n++] = (struct median_weighted){d[i].other_self / d[i].base_self, d[i].base_self};
	}
	*out = median_of_weighted(r, n, 1);
	free(r);
	/* beyond, most of the profile is other functions, and nothing was diluted */
	if (*out * thresholds.same.factor < 1 || *out > thresholds.same.factor)
		*out = 1;
	return 0;
}

/* Two-sided chance that sampling alone makes other differ from base times dilution. */
static double chance(const struct profile_delta *d, double dilution, double base_samples,
		     double other_samples)
{
	double apart = d->other - dilution * d->base, pooled, variance;

	if (isinf(base_samples) && isinf(other_samples))
		return apart != 0 ? 0 : 1;
	if (fmin(base_samples, other_samples) < PROFILE_SAMPLES_MIN)
		return 1;
	if (isinf(base_samples))
		pooled = d->base * dilution;
	else if (isinf(other_samples))
		pooled = d->other;
	else
		pooled = (d->base * dilution * base_samples + d->other * other_samples) /
			 (base_samples + other_samples);
	pooled = pooled < 1 ? pooled : 1;
	variance = spread_of_shares(pooled, base_samples / (dilution * dilution), other_samples);
	if (!(variance > 0))
		return apart != 0 ? 0 : 1;
	return chance_beyond(fabs(apart) / sqrt(variance));
}

static bool has_share(const struct profile_delta *d, double delta)
{
	return d->base >= delta || d->other >= delta;
}

/* The largest chance that is still significant; below 0: none is. */
static int find_cut(const struct profile_delta *d, uint32_t count, double delta, double *out)
{
	double *p = calloc(count + 1ull, sizeof(*p));
	uint32_t n = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (has_share(&d[i], delta))
			p[n++] = d[i].chance;
	*out = chance_cut(p, n, thresholds.sure.false_share);
	free(p);
	return 0;
}

ORDER_BY(by_delta, struct profile_delta, ORDER(fabs(b->delta), fabs(a->delta)) ?: ORDER_TEXT(name));

/* The functions of base in its order, then those that only other has. */
static struct profile_delta *join(const struct profile *base, const struct profile *other,
				  uint32_t *count)
{
	struct profile_delta *d = calloc(1ull + base->count + other->count, sizeof(*d));
	uint32_t n = base->count;

	for (uint32_t i = 0; d && i < base->count; i++) {
		d[i].name = base->function[i].name;
		d[i].base = base->function[i].total / base->total;
		d[i].base_self = base->function[i].self / base->total;
	}
	for (uint32_t i = 0; d && i < other->count; i++) {
		const struct function *f = &other->function[i];
		uint32_t same = find(base, f->name);
		struct profile_delta *to = &d[same != NO_FUNCTION ? same : n++];

		to->name = f->name;
		to->other = f->total / other->total;
		to->other_self = f->self / other->total;
	}
	*count = n;
	return d;
}

int profile_compare(struct profile *base, struct profile *other, double delta,
		    struct profile_delta **out, uint32_t *count)
{
	double dilution, cut, base_samples = profile_samples(base),
			      other_samples = profile_samples(other);
	struct profile_delta *d;
	int err;

	*out = NULL;
	*count = 0;
	if (!(base->total > 0) || !(other->total > 0))
		return -EINVAL;
	d = join(base, other, count);
	if (!d)
		return -ENOMEM;
	err = find_dilution(d, *count, &dilution);
	for (uint32_t i = 0; i < *count; i++) {
		d[i].delta = d[i].other - d[i].base;
		d[i].beyond = d[i].other - dilution * d[i].base;
		/* the dilution is an estimate: it may excuse a difference, but not create one */
		d[i].chance = fmax(chance(&d[i], 1, base_samples, other_samples),
				   chance(&d[i], dilution, base_samples, other_samples));
	}
	if (!err)
		err = find_cut(d, *count, delta, &cut);
	if (err) {
		free(d);
		*count = 0;
		return err;
	}
	for (uint32_t i = 0; i < *count; i++)
		d[i].flagged = fabs(d[i].delta) > delta && fabs(d[i].beyond) > delta &&
			       d[i].delta * d[i].beyond > 0 && d[i].chance <= cut;
	qsort(d, *count, sizeof(*d), by_delta);
	*out = d;
	return 0;
}

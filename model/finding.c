/* SPDX-License-Identifier: Apache-2.0 */
#include "model/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct cause {
	const char *id, *title, *remedy;
	enum finding_layer layer;
} causes[CAUSE_COUNT] = {
#define CAUSE(symbol, layer, id, title, depth, symptom, evidence, remedy)                          \
	{id, title, remedy, LAYER_##layer},
#include "model/causes.def"
#undef CAUSE
};

static const struct cause *cause_of(enum finding_cause c)
{
	return &causes[(unsigned)c < CAUSE_COUNT ? c : CAUSE_UNKNOWN];
}

const char *finding_kind_name(enum finding_kind kind)
{
	static const char *const names[] = {"unknown", "slow_rank", "uniform",
					    "hang",    "imbalance", "requests"};

	return names[(unsigned)kind <= FINDING_REQUESTS ? kind : 0];
}

const char *finding_layer_name(enum finding_layer layer)
{
	static const char *const names[LAYER_COUNT] = {"unknown", "gpu",     "cpu",	"os",
						       "network", "storage", "software"};

	return names[(unsigned)layer < LAYER_COUNT ? layer : LAYER_UNKNOWN];
}

const char *finding_cause_id(enum finding_cause cause)
{
	return cause_of(cause)->id;
}

const char *finding_cause_title(enum finding_cause cause)
{
	return cause_of(cause)->title;
}

const char *finding_cause_remedy(enum finding_cause cause)
{
	return cause_of(cause)->remedy;
}

enum finding_layer finding_cause_layer(enum finding_cause cause)
{
	return cause_of(cause)->layer;
}

enum finding_kind finding_kind_find(const char *name)
{
	int k = FINDING_REQUESTS;

	while (k && strcmp(name, finding_kind_name((enum finding_kind)k)))
		k--;
	return (enum finding_kind)k;
}

enum finding_layer finding_layer_find(const char *name)
{
	int k = LAYER_COUNT - 1;

	while (k > LAYER_UNKNOWN && strcmp(name, finding_layer_name((enum finding_layer)k)))
		k--;
	return (enum finding_layer)k;
}

enum finding_cause finding_cause_find(const char *id)
{
	unsigned i = 0;

	while (i < CAUSE_COUNT && strcmp(causes[i].id, id))
		i++;
	return (enum finding_cause)i;
}

bool finding_names(const struct finding *f, int32_t rank)
{
	for (uint32_t k = 0; k < f->rank_count; k++)
		if (f->ranks[k] == rank)
			return true;
	return false;
}

double finding_effect_of(const struct finding *f, int32_t rank)
{
	double most = 0;

	for (uint32_t k = 0; k < f->evidence_count; k++)
		if (f->evidence[k].rank == rank && f->evidence[k].effect_ns > most)
			most = f->evidence[k].effect_ns;
	return most > 0 ? most : f->effect_ns;
}

static void say(struct finding *f, const struct finding_line *line, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

static void say(struct finding *f, const struct finding_line *line, const char *fmt, va_list ap)
{
	struct finding_line *at = &f->evidence[f->evidence_count];

	if (f->evidence_count == FINDING_EVIDENCE_MAX) {
		at = &f->evidence[0];
		for (uint32_t i = 1; i < FINDING_EVIDENCE_MAX; i++)
			if (f->evidence[i].effect_ns < at->effect_ns)
				at = &f->evidence[i];
		if (at->effect_ns > line->effect_ns)
			return;
	} else {
		f->evidence_count++;
	}
	*at = *line;
	vsnprintf(at->text, sizeof(at->text), fmt, ap);
}

void finding_say(struct finding *f, enum finding_layer layer, double effect_ns, const char *fmt,
		 ...)
{
	struct finding_line line = {
	    .layer = layer, .rank = FINDING_NO_RANK, .effect_ns = effect_ns};
	va_list ap;

	va_start(ap, fmt);
	say(f, &line, fmt, ap);
	va_end(ap);
}

void finding_say_of(struct finding *f, int32_t rank, enum finding_layer layer, double effect_ns,
		    const char *fmt, ...)
{
	struct finding_line line = {.layer = layer, .rank = rank, .effect_ns = effect_ns};
	va_list ap;

	va_start(ap, fmt);
	say(f, &line, fmt, ap);
	va_end(ap);
}

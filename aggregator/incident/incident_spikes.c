/* SPDX-License-Identifier: Apache-2.0
 * Spikes of an incident by what they are about. While a rank is slow for another reason, its spikes
 * belong to that incident; here they keep their function. */
#include <string.h>

#include "aggregator/incident/incident_private.h"
#include "base/text/json_text.h"
#include "base/text/text.h"

static bool is_of(const struct incident_spike *k, const char *span, const char *name)
{
	return !strcmp(k->span, span) && !strcmp(k->name, name);
}

/* Longest first; without room the shortest kind goes. */
static void take(struct incident *i, const struct incident_spike *one)
{
	struct incident_spike *list = i->spikes, sum = *one;
	uint32_t at = 0, to;

	while (at < i->spike_count && !is_of(&list[at], one->span, one->name))
		at++;
	if (at < i->spike_count) {
		uint64_t count = list[at].count + one->count;

		if (list[at].begin_unix_ns == one->begin_unix_ns) /* a step in two windows */
			return;
		if (list[at].latency_ns > one->latency_ns)
			sum = list[at];
		sum.count = count;
	} else if (at == LIMIT_INCIDENT_SPIKES) {
		if (list[--at].latency_ns >= one->latency_ns)
			return;
	} else {
		i->spike_count++;
	}
	to = at;
	while (to && list[to - 1].latency_ns < sum.latency_ns)
		to--;
	memmove(&list[to + 1], &list[to], (at - to) * sizeof(*list));
	list[to] = sum;
}

void incident_spikes_note(struct incident *i, int32_t rank, const struct slow_step *s)
{
	struct incident_spike one = {.latency_ns = s->latency_ns,
				     .expected_ns = s->expected_ns,
				     .begin_unix_ns = s->begin_unix_ns,
				     .count = 1,
				     .rank = rank};

	text_copy(one.span, sizeof(one.span), s->span);
	text_copy(one.function, sizeof(one.function), s->function);
	text_copy(one.name, sizeof(one.name), s->function_name);
	take(i, &one);
}

void incident_spikes_merge(struct incident *to, const struct incident *from)
{
	for (uint32_t k = 0; k < from->spike_count; k++)
		take(to, &from->spikes[k]);
}

json_t *incident_spikes_json(const struct incident *i, const struct slow_step *shown)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < i->spike_count; k++) {
		const struct incident_spike *s = &i->spikes[k];

		if (shown && is_of(s, shown->span, shown->function_name))
			continue;
		json_array_append_new(
		    list,
		    json_pack("{s:i, s:I, s:o, s:o, s:o, s:f, s:f}", "rank", (int)s->rank, "count",
			      (json_int_t)s->count, "function", json_text(s->function), "span",
			      *s->span ? json_text(s->span) : json_null(), "begin_unix_ns",
			      json_exact((uint64_t)s->begin_unix_ns), "latency_ms",
			      text_ms(s->latency_ns), "expected_ms", text_ms(s->expected_ns)));
	}
	return list;
}

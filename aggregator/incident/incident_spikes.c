/* SPDX-License-Identifier: Apache-2.0
 * The spikes of an incident, by function and span. While a rank is slow for another reason, its
 * spikes belong to that incident, but here they keep their function. */
#include <string.h>

#include "aggregator/incident/incident_private.h"
#include "base/room.h"
#include "base/text/json_text.h"
#include "base/text/text.h"

bool incident_spikes_is_like(const struct slow_step *a, const struct slow_step *b)
{
	return !strcmp(a->span, b->span) && !strcmp(a->function_name, b->function_name);
}

static bool is_before(const struct incident_spike *a, const struct incident_spike *b)
{
	return a->waits != b->waits ? b->waits : a->step.latency_ns > b->step.latency_ns;
}

/* Notes one spike. Without room the last function goes. */
static void take(struct incident *i, const struct incident_spike *one)
{
	struct incident_spike *have = i->spikes, sum = *one;
	uint32_t at = 0, to;

	while (at < i->spike_count && (have[at].waits != one->waits ||
				       !incident_spikes_is_like(&have[at].step, &one->step)))
		at++;
	if (at < i->spike_count) {
		if (have[at].step.begin_unix_ns == one->step.begin_unix_ns)
			return; /* the step is in two windows */
		if (is_before(&have[at], one))
			sum = have[at];
		sum.count = have[at].count + one->count;
	} else if (at == LIMIT_INCIDENT_SPIKES) {
		if (!is_before(one, &have[--at]))
			return;
	} else {
		if (ROOM_FOR(i->spikes, i->spike_room, at + 1ull))
			return;
		i->spike_count++;
	}
	to = at;
	while (to && is_before(&sum, &i->spikes[to - 1]))
		to--;
	memmove(&i->spikes[to + 1], &i->spikes[to], (at - to) * sizeof(sum));
	i->spikes[to] = sum;
}

void incident_spikes_note(struct incident *i, int32_t rank, const struct slow_step *s, bool waits)
{
	take(i, &(struct incident_spike){.step = *s, .count = 1, .rank = rank, .waits = waits});
}

void incident_spikes_merge(struct incident *to, const struct incident *from)
{
	for (uint32_t k = 0; k < from->spike_count; k++)
		take(to, &from->spikes[k]);
}

const struct slow_step *incident_spikes_of_request(const struct incident *i)
{
	return i->apart > 1 && i->spike_count && !i->spikes->waits ? &i->spikes->step : NULL;
}

json_t *incident_spikes_json(const struct incident *i, const struct slow_step *shown)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < i->spike_count; k++) {
		const struct slow_step *s = &i->spikes[k].step;

		if (i->spikes[k].waits || (shown && incident_spikes_is_like(s, shown)))
			continue;
		json_array_append_new(
		    list,
		    json_pack("{s:i, s:I, s:o, s:o, s:o, s:f, s:f}", "rank", (int)i->spikes[k].rank,
			      "count", (json_int_t)i->spikes[k].count, "function",
			      json_text(s->function), "span",
			      *s->span ? json_text(s->span) : json_null(), "begin_unix_ns",
			      json_exact((uint64_t)s->begin_unix_ns), "latency_ms",
			      text_ms(s->latency_ns), "expected_ms", text_ms(s->expected_ns)));
	}
	return list;
}

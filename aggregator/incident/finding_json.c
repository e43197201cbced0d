/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/incident/finding_json.h"

#include <errno.h>
#include <string.h>

#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/text/text.h"

json_t *finding_json_lines(const struct finding_line *lines, uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < count; k++) {
		const struct finding_line *l = &lines[k];
		json_t *one =
		    json_pack("{s:s, s:f, s:o}", "layer", finding_layer_name(l->layer), "effect_ms",
			      text_ms(l->effect_ns), "text", json_text(l->text));

		if (l->rank != FINDING_NO_RANK)
			json_object_set_new(one, "rank", json_integer(l->rank));
		json_array_append_new(list, one);
	}
	return list;
}

json_t *finding_json_make(const struct finding_report *f)
{
	const struct finding *g = &f->finding;
	json_t *ranks = json_array(), *out;
	char id[2 * sizeof(g->anomaly_id) + 1];

	for (uint32_t k = 0; k < g->rank_count; k++)
		json_array_append_new(ranks, json_integer(g->ranks[k]));
	out = json_pack(
	    "{s:s, s:s, s:o, s:I, s:I, s:f, s:f, s:f, s:o, s:o, s:b, s:b, s:o}", "kind",
	    finding_kind_name(g->kind), "cause", finding_cause_id(g->cause), "ranks", ranks,
	    "first_step", (json_int_t)g->first_step, "last_step", (json_int_t)g->last_step,
	    "excess", text_finite(g->excess), "effect_ms", text_ms(g->effect_ns), "confidence",
	    text_finite(g->confidence), "begin_unix_ns", json_exact(f->begin_unix_ns),
	    "end_unix_ns", json_exact(f->end_unix_ns), "ended", f->ended, "earlier_runs",
	    g->earlier_runs, "evidence", finding_json_lines(g->evidence, g->evidence_count));
	if (g->kind != FINDING_REQUESTS)
		return out;
	text_hex(g->anomaly_id, sizeof(g->anomaly_id), id);
	json_object_set_new(out, "count", json_integer((json_int_t)g->count));
	json_object_set_new(out, "period_s", json_real(text_finite(g->period_ns) * 1e-9));
	json_object_set_new(out, "anomaly_id", json_string(id));
	json_object_set_new(out, "step_begin_unix_ns", json_exact(g->step_begin_unix_ns));
	json_object_set_new(out, "step_end_unix_ns", json_exact(g->step_end_unix_ns));
	return out;
}

int finding_json_parse(const json_t *j, struct finding_report *out)
{
	const json_t *ranks = json_object_get(j, "ranks"), *lines = json_object_get(j, "evidence"),
		     *v;
	struct finding *g = &out->finding;
	size_t k;

	memset(out, 0, sizeof(*out));
	g->kind = finding_kind_find(jsonget_text(j, "kind"));
	if (!g->kind)
		return -EINVAL;
	g->cause = finding_cause_find(jsonget_text(j, "cause"));
	if (g->cause == CAUSE_COUNT)
		g->cause = CAUSE_UNKNOWN;
	for (k = 0; k < json_array_size(ranks) && k < FINDING_RANKS_MAX; k++)
		g->ranks[g->rank_count++] = (int32_t)json_integer_value(json_array_get(ranks, k));
	for (k = 0; k < json_array_size(lines) && k < FINDING_EVIDENCE_MAX; k++) {
		struct finding_line *l = &g->evidence[g->evidence_count++];
		const json_t *rank;

		v = json_array_get(lines, k);
		rank = json_object_get(v, "rank");
		l->rank = json_is_integer(rank) && json_integer_value(rank) >= INT32_MIN &&
				  json_integer_value(rank) <= INT32_MAX
			      ? (int32_t)json_integer_value(rank)
			      : FINDING_NO_RANK;
		l->layer = finding_layer_find(jsonget_text(v, "layer"));
		l->effect_ns = jsonget_number(v, "effect_ms") * 1e6;
		text_copy(l->text, sizeof(l->text), jsonget_text(v, "text"));
	}
	g->first_step = jsonget_unsigned(j, "first_step");
	g->last_step = jsonget_unsigned(j, "last_step");
	g->excess = jsonget_number(j, "excess");
	g->effect_ns = jsonget_number(j, "effect_ms") * 1e6;
	g->confidence = jsonget_number(j, "confidence");
	out->begin_unix_ns = jsonget_unsigned(j, "begin_unix_ns");
	out->end_unix_ns = jsonget_unsigned(j, "end_unix_ns");
	out->reporter = jsonget_unsigned(j, "reporter");
	out->reported_begin_unix_ns = jsonget_unsigned(j, "reported_begin_unix_ns");
	out->ended = jsonget_true(j, "ended");
	g->earlier_runs = jsonget_true(j, "earlier_runs");
	g->count = jsonget_unsigned(j, "count");
	g->period_ns = jsonget_number(j, "period_s") * 1e9;
	g->step_begin_unix_ns = jsonget_unsigned(j, "step_begin_unix_ns");
	g->step_end_unix_ns = jsonget_unsigned(j, "step_end_unix_ns");
	if (g->kind == FINDING_REQUESTS &&
	    text_unhex(jsonget_text(j, "anomaly_id"), g->anomaly_id, sizeof(g->anomaly_id)))
		return -EINVAL;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/sketch_json.h"

#include "base/text/json_text.h"
#include "base/text/text.h"

static json_t *functions_json(const struct sketch *s)
{
	static const char *const kinds[] = {"native", "kernel", "python"};
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->function_count; i++) {
		const struct sketch_function *f = &s->functions[i];

		json_array_append_new(
		    list,
		    json_pack("{s:o, s:s, s:f, s:f, s:f}", "function", json_text(f->name), "kind",
			      f->kind < 3 ? kinds[f->kind] : "native", "self", f->self_share,
			      "total", f->total_share, "off_ms", text_ms(f->off_ns)));
	}
	return list;
}

static json_t *kernels_json(const struct sketch *s)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->kernel_count; i++)
		json_array_append_new(list, json_pack("{s:o, s:f, s:f}", "kernel",
						      json_text(s->kernels[i].name), "per_step",
						      s->kernels[i].per_step, "ms",
						      text_ms(s->kernels[i].ns_per_step)));
	return list;
}

static json_t *settings_json(const struct sketch *s)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->setting_count; i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "name",
						      json_text(s->settings[i].name), "value",
						      json_text(s->settings[i].value)));
	return list;
}

json_t *sketch_json(const struct sketch *s)
{
	return json_pack(
	    "{s:o, s:o, s:o, s:i, s:o, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
	    "s:f, "
	    "s:f, s:f, s:f, s:i, s:i, s:o, s:o, s:o}",
	    "job", json_text(s->rank.job), "role", json_text(s->rank.role), "node",
	    json_text(s->rank.node), "rank", (int)s->rank.rank, "end_unix_ns",
	    json_exact(s->end_ns + (uint64_t)s->realtime_offset_ns), "steps", (json_int_t)s->steps,
	    "flagged", (json_int_t)s->flagged, "latency_ms", text_ms(s->latency_ns),
	    "latency_mad_ms", text_ms(s->latency_mad_ns), "self_ms", text_ms(s->self_ns),
	    "self_mad_ms", text_ms(s->self_mad_ns), "compute_ms", text_ms(s->compute_ns), "comm_ms",
	    text_ms(s->comm_ns), "exposed_comm_ms", text_ms(s->exposed_comm_ns), "copy_ms",
	    text_ms(s->copy_ns), "idle_ms", text_ms(s->idle_ns), "launches", s->launches, "cpu_ms",
	    text_ms(s->cpu_ns), "samples", s->samples, "off_ms", text_ms(s->off_ns), "gil_wait_ms",
	    text_ms(s->gil_wait_ns), "functions_cut", (int)s->functions_cut, "kernels_cut",
	    (int)s->kernels_cut, "functions", functions_json(s), "kernels", kernels_json(s),
	    "settings", settings_json(s));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/incident/slow_step_json.h"

#include "base/text/json_text.h"
#include "base/text/text.h"

static json_t *ms(double ns)
{
	return json_real(text_ms(ns));
}

static json_t *text_or_null(const char *text)
{
	return *text ? json_text(text) : json_null();
}

static json_t *bubbles(const struct slow_step *s)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < s->bubble_count; k++) {
		const struct slow_step_bubble *b = &s->bubble[k];

		json_array_append_new(
		    list, json_pack("{s:o, s:o, s:o, s:o}", "offset_ms", ms((double)b->offset_ns),
				    "ms", ms((double)b->ns), "gil_wait_ms", ms(b->gil_wait_ns),
				    "gil_holder", text_or_null(b->holder)));
	}
	return list;
}

static json_t *kernels(const struct slow_step *s)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < s->kernel_count; k++)
		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:I}", "name",
						      json_text(s->kernel[k].name), "ms",
						      ms(s->kernel[k].ns), "usual_ms",
						      ms(s->kernel[k].usual_ns), "count",
						      (json_int_t)s->kernel[k].count));
	return list;
}

json_t *slow_step_json_make(const struct slow_step *s)
{
	if (!s || !s->known)
		return json_null();
	return json_pack(
	    "{s:I, s:o, s:o, s:o, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "step",
	    (json_int_t)s->index, "begin_unix_ns", json_exact((uint64_t)s->begin_unix_ns),
	    "latency_ms", ms(s->latency_ns), "expected_ms", ms(s->expected_ns), "spike",
	    (int)s->spike, "bound", slow_step_bound_name(s->bound), "span", text_or_null(s->span),
	    "span_ms", ms(s->span_ns), "span_usual_ms", ms(s->span_usual_ns), "function",
	    text_or_null(s->function), "function_ms", ms(s->function_ns), "blocked_ms",
	    ms(s->blocked_ns), "samples", (json_int_t)s->samples, "gpu_idle", bubbles(s), "kernels",
	    kernels(s));
}

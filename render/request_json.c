/* SPDX-License-Identifier: Apache-2.0 */
#include "render/request_json.h"

#include <inttypes.h>

#include "base/text/json_text.h"

static void put_time(struct buf *out, const char *key, uint64_t from_ns, uint64_t at_ns)
{
	if (at_ns && from_ns)
		buf_printf(out, ",\"%s\":%.6f", key, (double)(int64_t)(at_ns - from_ns) * 1e-6);
	else
		buf_printf(out, ",\"%s\":null", key);
}

static void put_step(struct buf *out, const struct request_step *s, uint64_t from_ns, bool first)
{
	buf_printf(out,
		   "%s{\"begin_ms\":%.6f,\"ms\":%.6f,\"tokens\":%u,\"step_tokens\":%u,"
		   "\"batch\":%u}",
		   first ? "" : ",", (double)(int64_t)(s->begin_ns - from_ns) * 1e-6,
		   (double)(s->end_ns - s->begin_ns) * 1e-6, s->tokens, s->step_tokens, s->batch);
}

static void put_steps(struct buf *out, const char *key, const struct request_step *list,
		      uint64_t from_ns)
{
	buf_printf(out, ",\"%s\":[", key);
	for (uint32_t i = 0; i < REQUEST_SLOWEST && list[i].begin_ns; i++)
		put_step(out, &list[i], from_ns, !i);
	buf_puts(out, "]");
}

static void put_parts(struct buf *out, const char *key, const struct request *r,
		      enum request_objective objective, uint64_t tokens)
{
	uint64_t ns[REQUEST_PHASES];
	bool first = true;

	request_parts(r, objective, ns);
	buf_printf(out, ",\"%s\":{", key);
	for (unsigned i = 0; i < REQUEST_PHASES; i++) {
		if (!ns[i])
			continue;
		buf_printf(out, "%s\"%s\":%.6f", first ? "" : ",", request_phase_name(i),
			   (double)ns[i] * 1e-6 / (double)tokens);
		first = false;
	}
	buf_puts(out, "}");
}

static void put_nodes(const struct request *r, const struct request_json_place *p, struct buf *out)
{
	buf_puts(out, ",\"nodes\":[");
	for (uint32_t i = 0; i < p->node_count; i++)
		json_text_append(out, i ? "," : "", p->nodes[i]);
	buf_printf(out, "],\"clock\":\"%s\"",
		   r->clock_unknown    ? "unknown"
		   : p->node_count > 1 ? p->clock
				       : "one");
}

void request_json(const struct request *r, const struct request_json_place *p, struct buf *out)
{
	static const char *const states[] = {"waiting", "running", "ending", "ended"};
	uint64_t from = r->arrival_ns ? r->arrival_ns : r->scheduled_ns;
	uint64_t ttft = request_ttft_ns(r), tpot = request_tpot_ns(r);

	buf_printf(out, "{\"id\":\"%016" PRIx64 "\"", r->id);
	json_text_append(out, ",\"job\":", p->job);
	put_nodes(r, p, out);
	buf_printf(out, ",\"state\":\"%s\",\"arrival_unix_ns\":\"%" PRIu64 "\"",
		   r->lost ? "lost" : states[r->state], from ? from + p->realtime_offset_ns : 0);
	put_time(out, "handed_ms", from, r->handed_ns);
	put_time(out, "queued_ms", from, r->queued_ns);
	put_time(out, "scheduled_ms", from, r->scheduled_ns);
	put_time(out, "first_ms", from, r->first_ns);
	put_time(out, "last_ms", from, r->last_ns);
	put_time(out, "delivered_first_ms", from, r->delivered_first_ns);
	put_time(out, "delivered_last_ms", from, r->delivered_last_ns);
	buf_printf(out, ",\"ttft_ms\":");
	if (ttft)
		buf_printf(out, "%.6f", (double)ttft * 1e-6);
	else
		buf_puts(out, "null");
	buf_printf(out, ",\"tpot_ms\":");
	if (tpot)
		buf_printf(out, "%.6f", (double)tpot * 1e-6);
	else
		buf_puts(out, "null");
	buf_printf(out,
		   ",\"ttft_violated\":%s,\"tpot_violated\":%s,\"prompt_tokens\":%u,"
		   "\"output_tokens\":%u,\"prefill_steps\":%u,\"decode_steps\":%u,"
		   "\"prefill_ms\":%.6f,\"decode_ms\":%.6f,\"pause_ms\":%.6f,\"transfer_ms\":%.6f",
		   r->violated[REQUEST_TTFT] ? "true" : "false",
		   r->violated[REQUEST_TPOT] ? "true" : "false", r->prompt_tokens,
		   request_output_tokens(r), r->prefill_steps, r->decode_steps,
		   (double)r->prefill_ns * 1e-6, (double)r->decode_ns * 1e-6,
		   (double)r->pause_ns * 1e-6, (double)r->transfer_ns * 1e-6);
	buf_printf(out, ",\"piece\":%s,\"shared\":%s", r->announced ? "true" : "false",
		   r->shared ? "true" : "false");
	put_parts(out, "ttft_parts_ms", r, REQUEST_TTFT, 1);
	put_parts(out, "tpot_parts_ms", r, REQUEST_TPOT, tpot ? request_output_tokens(r) - 1 : 1);
	put_steps(out, "slowest_prefill", r->prefill, from);
	put_steps(out, "slowest_decode", r->decode, from);
	buf_puts(out, "}");
}

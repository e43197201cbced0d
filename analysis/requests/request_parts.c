/* SPDX-License-Identifier: Apache-2.0
 * The client's time is divided by deliveries, the engine's by steps. Each moment of the client's
 * time belongs to exactly one phase, so the phases add up. Work of the engine that lies outside of
 * the client's time (before the delivery of the first token, or after the delivery of the last one)
 * belongs to no phase. */
#include "analysis/requests/request_table.h"

static uint64_t clamp(uint64_t t_ns, uint64_t least_ns, uint64_t most_ns)
{
	return t_ns < least_ns ? least_ns : t_ns > most_ns ? most_ns : t_ns;
}

/* Whether the client had the first token before another engine went on with the request. */
static bool moved_late(const struct request *r)
{
	return r->transfer.end_ns > request_first_ns(r);
}

/* How much of the transfer time lies after t_ns. */
static uint64_t transfer_since(const struct request *r, uint64_t t_ns)
{
	uint64_t before = t_ns > r->transfer.begin_ns ? t_ns - r->transfer.begin_ns : 0;

	return r->transfer_ns > before ? r->transfer_ns - before : 0;
}

/* The phase of the client's time that no engine accounts for. If the time between two engines is
 * not known, that time is included. */
static enum request_phase after_engine(const struct request *r)
{
	return r->clock_unknown ? REQUEST_PHASE_NONE : REQUEST_OUTPUT;
}

static void first_token(const struct request *r, uint64_t *ns)
{
	uint64_t end = request_first_ns(r);
	uint64_t scheduled = r->scheduled_ns ? clamp(r->scheduled_ns, r->arrival_ns, end) : end;
	uint64_t handed = clamp(r->handed_ns, r->arrival_ns, scheduled);
	uint64_t first = r->first_ns ? clamp(r->first_ns, scheduled, end) : end;

	ns[REQUEST_API] = handed - r->arrival_ns;
	ns[r->scheduled_ns ? REQUEST_QUEUE : REQUEST_PHASE_NONE] = scheduled - handed;
	ns[r->first_ns ? REQUEST_PREFILL : REQUEST_PHASE_NONE] += first - scheduled;
	ns[REQUEST_TRANSFER] = moved_late(r) ? 0 : clamp(r->transfer_ns, 0, end - first);
	ns[after_engine(r)] += end - first - ns[REQUEST_TRANSFER];
}

static void further_tokens(const struct request *r, uint64_t *ns)
{
	uint64_t begin = request_first_ns(r), end = request_last_ns(r);
	uint64_t from = clamp(r->first_ns, begin, end), to = clamp(r->last_ns, from, end);
	double steps = (double)r->decode_ns + (double)r->pause_ns, engine;

	ns[REQUEST_TRANSFER] = moved_late(r) ? clamp(transfer_since(r, from), 0, to - from) : 0;
	engine = (double)(to - from - ns[REQUEST_TRANSFER]);
	if (steps > 0)
		ns[REQUEST_DECODE] = (uint64_t)(engine * ((double)r->decode_ns / steps));
	ns[steps > 0 ? REQUEST_PAUSE : REQUEST_PHASE_NONE] =
	    to - from - ns[REQUEST_TRANSFER] - ns[REQUEST_DECODE];
	ns[after_engine(r)] += end - begin - (to - from);
}

void request_parts(const struct request *r, enum request_objective objective,
		   uint64_t ns[REQUEST_PHASES])
{
	for (unsigned i = 0; i < REQUEST_PHASES; i++)
		ns[i] = 0;
	if (objective == REQUEST_TTFT && request_ttft_ns(r))
		first_token(r, ns);
	else if (objective == REQUEST_TPOT && request_tpot_ns(r))
		further_tokens(r, ns);
}

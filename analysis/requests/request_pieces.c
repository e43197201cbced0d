/* SPDX-License-Identifier: Apache-2.0
 * Joins what several nodes saw of one request whose instances are on different nodes. The result is
 * what one node with all of these processes would have seen. Pieces are joined in the order of
 * their times, so the order in which they arrive does not matter. */
#include "analysis/requests/request_table_private.h"

enum { PREFILL, DECODE, PAUSE, TRANSFER };

static uint64_t least(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

void request_pieces_of(const struct request *r, struct request_piece *out)
{
	const struct request_step *const longest[] = {&r->prefill[0], &r->decode[0], &r->pause,
						      &r->transfer};

	*out = (struct request_piece){.id = r->id, .serial = r->serial};
	out->flags = (r->counted ? REQUEST_PIECE_COUNTED : 0) | (r->lost ? REQUEST_PIECE_LOST : 0) |
		     (r->shared ? REQUEST_PIECE_SHARED : 0);
#define X(t) out->t = r->t;
	REQUEST_PIECE_TIMES(X)
#undef X
#define X(v) out->v = least(r->v, REQUEST_PIECE_NS_MAX);
	REQUEST_PIECE_SUMS(X)
#undef X
#define X(v) out->v = (uint32_t)least(r->v, REQUEST_TOKENS_MAX);
	REQUEST_PIECE_COUNTS(X)
#undef X
	for (int i = 0; i < REQUEST_PIECE_STEPS; i++) {
		out->longest[i] = *longest[i];
		if (longest[i]->end_ns - longest[i]->begin_ns > REQUEST_PIECE_NS_MAX)
			out->longest[i].end_ns = longest[i]->begin_ns + REQUEST_PIECE_NS_MAX;
	}
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

/* Adds what an API process or a router reported. Without these, the time at which the engine got
 * the request counts as the arrival. */
static void add_client(struct request *r, const struct request_piece *p)
{
	bool first = p->handed_ns && !r->handed_ns;

	if (first || !p->handed_ns == !r->handed_ns)
		r->arrival_ns = first ? p->arrival_ns : earlier(r->arrival_ns, p->arrival_ns);
	r->handed_ns = earlier(r->handed_ns, p->handed_ns);
	r->delivered_first_ns = earlier(r->delivered_first_ns, p->delivered_first_ns);
	r->delivered_last_ns = later(r->delivered_last_ns, p->delivered_last_ns);
	r->delivered_tokens = (uint32_t)least((uint64_t)r->delivered_tokens + p->delivered_tokens,
					      REQUEST_TOKENS_MAX);
	if (!r->prompt_tokens)
		r->prompt_tokens = p->prompt_tokens;
	r->ended_ns = later(r->ended_ns, p->ended_ns);
	r->counted += (p->flags & REQUEST_PIECE_COUNTED) != 0;
	r->lost |= (p->flags & REQUEST_PIECE_LOST) != 0;
}

/* A time of the engine, moved by by_ns, and never before the engine's first step. */
static uint64_t moved(const struct request_piece *p, uint64_t t_ns, uint64_t by_ns)
{
	return (t_ns > p->scheduled_ns ? t_ns : p->scheduled_ns) + by_ns;
}

/* The piece's longest step of that kind, moved by by_ns; begin_ns 0: none. */
static struct request_step longest(const struct request_piece *p, int kind, uint64_t by_ns)
{
	struct request_step s = p->longest[kind];

	if (s.begin_ns) {
		s.begin_ns = moved(p, s.begin_ns, by_ns);
		s.end_ns = moved(p, s.end_ns, by_ns);
	}
	return s;
}

static void keep(struct request_step *list, struct request_step s)
{
	if (s.begin_ns)
		request_table_keep_longest(list, &s);
}

static void keep_longer(struct request_step *best, struct request_step s)
{
	if (s.begin_ns && s.end_ns - s.begin_ns > best->end_ns - best->begin_ns)
		*best = s;
}

/* How long an engine may go on after the client's last token: for a step, and the time before it. */
static uint64_t step_more(const struct request_piece *p)
{
	uint64_t ns = 0;

	for (int i = PREFILL; i <= PAUSE; i++)
		ns += p->longest[i].end_ns - p->longest[i].begin_ns;
	return ns;
}

/* How far to move the times of the next engine. Its clock is behind if its first step begins before
 * the previous engine has ended. Its clock is ahead if it ends too long after the client had the
 * last token. In both cases the time between the two engines is not known, and the next engine's
 * steps are made to follow at once. */
static uint64_t moved_by(const struct request *r, const struct request_piece *p)
{
	bool behind = p->scheduled_ns < r->last_ns;
	bool ahead =
	    r->last_ns && r->delivered_last_ns && p->last_ns > r->delivered_last_ns + step_more(p);

	return behind || ahead ? r->last_ns - p->scheduled_ns : 0;
}

/* Adds the steps of the next engine. */
static void add_engine(struct request *r, const struct request_piece *p)
{
	uint64_t by_ns = moved_by(r, p);
	uint64_t begin_ns = p->scheduled_ns + by_ns, engine_ns = p->last_ns - p->scheduled_ns;
	uint64_t known_ns = p->prefill_ns + p->decode_ns + p->transfer_ns;
	struct request_step gap = {.begin_ns = r->last_ns, .end_ns = begin_ns};
	bool first = !r->scheduled_ns, decodes;

	if (!p->scheduled_ns || p->last_ns < p->scheduled_ns)
		return;
	r->queued_ns = earlier(r->queued_ns, p->queued_ns);
	if (first)
		r->scheduled_ns = begin_ns;
	else if (!r->first_ns && p->prefill_tokens <= 1)
		r->first_ns = r->last_ns; /* as before a step with a single token */
	r->clock_unknown |= !first && by_ns;
	decodes = r->first_ns;
	if (decodes) {
		r->transfer_ns += begin_ns - r->last_ns;
		keep_longer(&r->transfer, gap);
		r->pause_ns += engine_ns > known_ns ? engine_ns - known_ns : 0;
	} else {
		r->first_ns = p->first_ns ? moved(p, p->first_ns, by_ns) : 0;
		r->prefill_tokens = (uint32_t)least((uint64_t)r->prefill_tokens + p->prefill_tokens,
						    REQUEST_TOKENS_MAX);
		r->pause_ns += p->pause_ns;
	}
	*(decodes ? &r->decode_steps : &r->prefill_steps) += p->prefill_steps;
	*(decodes ? &r->decode_ns : &r->prefill_ns) += p->prefill_ns;
	keep(decodes ? r->decode : r->prefill, longest(p, PREFILL, by_ns));
	r->decode_steps += p->decode_steps;
	r->decode_ns += p->decode_ns;
	keep(r->decode, longest(p, DECODE, by_ns));
	keep_longer(&r->pause, longest(p, PAUSE, by_ns));
	r->transfer_ns += p->transfer_ns;
	keep_longer(&r->transfer, longest(p, TRANSFER, by_ns));
	r->last_ns = p->last_ns + by_ns;
	r->output_tokens = p->output_tokens ? p->output_tokens : r->output_tokens;
}

/* Orders pieces by time. But whatever the clocks say, an engine that decodes comes after one that
 * computed more than one token of the prompt. */
static bool is_before(const struct request_piece *a, const struct request_piece *b)
{
	bool decodes_a = a->scheduled_ns && a->prefill_tokens <= 1;
	bool decodes_b = b->scheduled_ns && b->prefill_tokens <= 1;
	uint64_t a_ns = a->scheduled_ns ? a->scheduled_ns : a->arrival_ns;
	uint64_t b_ns = b->scheduled_ns ? b->scheduled_ns : b->arrival_ns;

	return decodes_a != decodes_b ? decodes_b : a_ns < b_ns;
}

void request_pieces_order(const struct request_seen *s, uint32_t order[REQUEST_PIECES])
{
	for (uint32_t i = 0; i < s->count; i++) {
		uint32_t at = i;

		for (; at && is_before(&s->piece[i], &s->piece[order[at - 1]]); at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

bool request_pieces_collide(const struct request_seen *s)
{
	uint32_t whole = 0;
	bool shared = false;

	for (uint32_t i = 0; i < s->count; i++) {
		whole += s->piece[i].prefill_tokens > 1 && s->piece[i].decode_steps > 1;
		shared |= (s->piece[i].flags & REQUEST_PIECE_SHARED) != 0;
	}
	return shared || whole > 1;
}

void request_pieces_join(const struct request_seen *s, struct request *r)
{
	uint32_t order[REQUEST_PIECES] = {0};

	request_pieces_order(s, order);
	for (uint32_t i = 0; i < s->count; i++)
		add_client(r, &s->piece[order[i]]);
	for (uint32_t i = 0; i < s->count; i++)
		add_engine(r, &s->piece[order[i]]);
}

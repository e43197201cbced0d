/* SPDX-License-Identifier: Apache-2.0
 * keyed.h - SipHash-1-3 (Aumasson and Bernstein 2012), for every table whose keys a peer may
 * choose. Without the secret key nobody can prepare keys that share a chain or a hash. A hash is
 * valid only within one run of one process: never store it, send it, or compare it with another
 * process's hash.
 * Threads: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct keyed {
	uint64_t word[2];
};

struct keyed_state { /* for hashing several words */
	uint64_t v[4];
};

static inline void keyed_round(struct keyed_state *s)
{
	uint64_t a = s->v[0], b = s->v[1], c = s->v[2], d = s->v[3];

	a += b;
	c += d;
	b = (b << 13 | b >> 51) ^ a;
	d = (d << 16 | d >> 48) ^ c;
	a = a << 32 | a >> 32;
	c += b;
	a += d;
	b = (b << 17 | b >> 47) ^ c;
	d = (d << 21 | d >> 43) ^ a;
	c = c << 32 | c >> 32;
	*s = (struct keyed_state){{a, b, c, d}};
}

static inline struct keyed_state keyed_begin(const struct keyed *k)
{
	return (struct keyed_state){
	    {k->word[0] ^ 0x736f6d6570736575ull, k->word[1] ^ 0x646f72616e646f6dull,
	     k->word[0] ^ 0x6c7967656e657261ull, k->word[1] ^ 0x7465646279746573ull}};
}

static inline void keyed_add(struct keyed_state *s, uint64_t word)
{
	s->v[3] ^= word;
	keyed_round(s);
	s->v[0] ^= word;
}

static inline uint64_t keyed_end(struct keyed_state *s)
{
	s->v[2] ^= 0xff;
	keyed_round(s);
	keyed_round(s);
	keyed_round(s);
	return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

static inline uint64_t keyed_word(const struct keyed *k, uint64_t word)
{
	struct keyed_state s = keyed_begin(k);

	keyed_add(&s, word);
	return keyed_end(&s);
}

static inline uint64_t keyed_words(const struct keyed *k, uint64_t a, uint64_t b)
{
	struct keyed_state s = keyed_begin(k);

	keyed_add(&s, a);
	keyed_add(&s, b);
	return keyed_end(&s);
}

/* A slot among 2^bits, by one multiplication with a secret odd factor (Dietzfelbinger 1997). Two
 * words share a slot with a probability of at most 2 in 2^bits. For tables that probe only a few
 * slots: if these are full, the peer that chose the words loses an entry, and nobody loses time. */
static inline uint32_t keyed_place(const struct keyed *k, uint64_t word, uint32_t bits)
{
	return (uint32_t)(word * (k->word[0] | 1) >> (64 - bits));
}

uint64_t keyed_bytes(const struct keyed *k, const void *data, size_t bytes);
uint64_t keyed_text(const struct keyed *k, const char *text);
/* This process's own random key. It is made at the first call, and never changes. */
const struct keyed *keyed_process(void);

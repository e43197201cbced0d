/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/os/os_series.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/limits.h"

#define HASH_SLOTS (2u * LIMIT_OS_SERIES)
#define NONE	   UINT32_MAX

struct row {
	uint32_t owner, kind; /* undefined in a free row */
	uint64_t key;
	uint32_t next; /* next row of its chain, or of the free list */
	bool used;
	uint64_t serial; /* of the last bucket with a value */
	char subject[OS_SIGNAL_SUBJECT_BYTES];
	float sum[LIMIT_OS_SECONDS];
};

struct os_series {
	struct os_span bucket[LIMIT_OS_SECONDS];
	uint64_t serial; /* of the current bucket; its index is serial modulo LIMIT_OS_SECONDS */
	uint64_t lost;
	uint32_t count, free;
	uint32_t chain[HASH_SLOTS];
	struct row rows[LIMIT_OS_SERIES];
};

static uint32_t slot_of(uint32_t owner, uint32_t kind, uint64_t key)
{
	return (uint32_t)(keyed_words(keyed_process(), key, (uint64_t)owner << 32 | kind) %
			  HASH_SLOTS);
}

int os_series_open(struct os_series **out, uint64_t now_ns)
{
	struct os_series *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	memset(s->chain, 0xff, sizeof(s->chain));
	for (uint32_t i = 0; i < LIMIT_OS_SERIES; i++)
		s->rows[i].next = i + 1 < LIMIT_OS_SERIES ? i + 1 : NONE;
	s->bucket[0].begin_ns = s->bucket[0].end_ns = now_ns;
	*out = s;
	return 0;
}

void os_series_close(struct os_series *s)
{
	free(s);
}

static void drop(struct os_series *s, uint32_t i)
{
	struct row *r = &s->rows[i];
	uint32_t *at = &s->chain[slot_of(r->owner, r->kind, r->key)];

	while (*at != i)
		at = &s->rows[*at].next;
	*at = r->next;
	r->used = false;
	r->next = s->free;
	s->free = i;
	s->count--;
}

void os_series_advance(struct os_series *s, uint64_t now_ns)
{
	struct os_span *b = &s->bucket[s->serial % LIMIT_OS_SECONDS];
	uint32_t at;

	if (now_ns <= b->end_ns)
		return;
	if (b->end_ns - b->begin_ns < OS_SERIES_BUCKET_NS) {
		b->end_ns = now_ns;
		return;
	}
	at = (uint32_t)(++s->serial % LIMIT_OS_SECONDS);
	s->bucket[at].begin_ns = b->end_ns;
	s->bucket[at].end_ns = now_ns;
	for (uint32_t i = 0; i < LIMIT_OS_SERIES; i++) {
		struct row *r = &s->rows[i];

		if (!r->used)
			continue;
		r->sum[at] = 0;
		if (s->serial - r->serial >= LIMIT_OS_SECONDS)
			drop(s, i);
	}
}

static struct row *find(const struct os_series *s, uint32_t owner, uint32_t kind, uint64_t key)
{
	uint32_t i = s->chain[slot_of(owner, kind, key)];

	for (; i != NONE; i = s->rows[i].next) {
		const struct row *r = &s->rows[i];

		if (r->owner == owner && r->kind == kind && r->key == key)
			return (struct row *)(uintptr_t)r;
	}
	return NULL;
}

bool os_series_has(const struct os_series *s, uint32_t owner, uint32_t kind, uint64_t key)
{
	return find(s, owner, kind, key) != NULL;
}

bool os_series_add(struct os_series *s, uint32_t owner, uint32_t kind, uint64_t key, double value,
		   const char *subject)
{
	struct row *r = find(s, owner, kind, key);
	uint32_t i = s->free, slot = slot_of(owner, kind, key);

	if (!r) {
		if (i == NONE) {
			s->lost++;
			return false;
		}
		r = &s->rows[i];
		s->free = r->next;
		s->count++;
		memset(r, 0, sizeof(*r));
		r->owner = owner;
		r->kind = kind;
		r->key = key;
		r->used = true;
		r->next = s->chain[slot];
		s->chain[slot] = i;
	}
	if (subject && *subject) {
		size_t bytes = strnlen(subject, sizeof(r->subject) - 1);

		memcpy(r->subject, subject, bytes);
		r->subject[bytes] = '\0';
	}
	r->sum[s->serial % LIMIT_OS_SECONDS] += (float)value;
	r->serial = s->serial;
	return true;
}

void os_series_forget(struct os_series *s, uint32_t owner)
{
	for (uint32_t i = 0; i < LIMIT_OS_SERIES; i++)
		if (s->rows[i].used && s->rows[i].owner == owner)
			drop(s, i);
}

uint64_t os_series_lost(const struct os_series *s)
{
	return s->lost;
}

uint32_t os_series_count(const struct os_series *s)
{
	return s->count;
}

/* ---- queries ---- */

static uint64_t overlap(const struct os_span *b, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t from = b->begin_ns > begin_ns ? b->begin_ns : begin_ns;
	uint64_t to = b->end_ns < end_ns ? b->end_ns : end_ns;

	return to > from ? to - from : 0;
}

static bool is_usual(const struct os_span *b, const struct os_series_query *q)
{
	if (b->end_ns > q->begin_ns || b->begin_ns < q->from_ns)
		return false;
	for (uint32_t i = 0; i < q->unusual_count; i++)
		if (overlap(b, q->unusual[i].begin_ns, q->unusual[i].end_ns))
			return false;
	return true;
}

/* Marks the latest usual buckets, OS_SERIES_USUAL_NS in all, and returns their length. */
static uint64_t find_usual(const struct os_series *s, const struct os_series_query *q, bool *usual)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < LIMIT_OS_SECONDS; i++) {
		uint32_t at = (uint32_t)((s->serial + LIMIT_OS_SECONDS - i) % LIMIT_OS_SECONDS);
		const struct os_span *b = &s->bucket[at];

		usual[at] = b->end_ns > b->begin_ns && ns < OS_SERIES_USUAL_NS && is_usual(b, q);
		ns += usual[at] ? b->end_ns - b->begin_ns : 0;
	}
	return ns;
}

/* Weight of each bucket in the two means. */
struct weights {
	double window[LIMIT_OS_SECONDS], usual[LIMIT_OS_SECONDS]; /* per unit of sum */
	double usual_ns;
};

static void weigh(const struct os_series *s, const struct os_series_query *q, struct weights *w)
{
	bool usual[LIMIT_OS_SECONDS];
	double window_ns = 0;

	memset(w, 0, sizeof(*w));
	w->usual_ns = (double)find_usual(s, q, usual);
	for (uint32_t i = 0; i < LIMIT_OS_SECONDS; i++) {
		const struct os_span *b = &s->bucket[i];
		double length = (double)(b->end_ns - b->begin_ns);
		double within = (double)overlap(b, q->begin_ns, q->end_ns);

		if (!(length > 0))
			continue;
		w->window[i] = within / length;
		window_ns += within;
		w->usual[i] = usual[i];
	}
	for (uint32_t i = 0; i < LIMIT_OS_SECONDS; i++) {
		w->window[i] = window_ns > 0 ? w->window[i] / window_ns * 1e9 : 0;
		w->usual[i] = w->usual_ns > 0 ? w->usual[i] / w->usual_ns * 1e9 : 0;
	}
}

bool os_series_knows_usual(const struct os_series *s, const struct os_series_query *q)
{
	bool usual[LIMIT_OS_SECONDS];

	return find_usual(s, q, usual) >= OS_SERIES_USUAL_MIN_NS;
}

void os_series_each(const struct os_series *s, uint32_t owner, const struct os_series_query *q,
		    void (*fn)(void *arg, const struct os_series_row *row), void *arg)
{
	struct weights w;

	weigh(s, q, &w);
	for (uint32_t i = 0; i < LIMIT_OS_SERIES; i++) {
		const struct row *r = &s->rows[i];
		struct os_series_row out = {
		    .owner = owner, .kind = r->kind, .key = r->key, .subject = r->subject};

		if (!r->used || r->owner != owner)
			continue;
		for (uint32_t k = 0; k < LIMIT_OS_SECONDS; k++) {
			out.value += w.window[k] * (double)r->sum[k];
			out.usual += w.usual[k] * (double)r->sum[k];
		}
		if (w.usual_ns < (double)OS_SERIES_USUAL_MIN_NS)
			out.usual = -1;
		fn(arg, &out);
	}
}

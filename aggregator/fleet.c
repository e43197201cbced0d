/* SPDX-License-Identifier: Apache-2.0
 * An open-addressed table of entries keyed by (job, rank), or (job, node, pid) where the rank is
 * unknown, sized once: 10,000 nodes of 8 ranks fit, and a flood of made-up ranks can't grow it. */
#include "aggregator/fleet.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/text.h"
#include "base/hash.h"
#include "base/limits.h"

#define PROBE_MAX 32u

struct entry {
	struct beat_rank *rank; /* NULL: free */
	uint64_t key, seen_ns, node;
};

struct node {
	char name[WIRE_TEXT_BYTES];
	uint64_t key, seen_ns;
	uint64_t uploaded_bytes, raw_bytes, windows_dropped;
	bool used;
};

struct fleet {
	pthread_mutex_t lock;
	uint64_t alive_ns, forget_ns, dropped;
	struct entry ranks[LIMIT_FLEET_RANKS];
	struct node nodes[LIMIT_FLEET_NODES];
};

int fleet_open(struct fleet **out, uint64_t alive_ns, uint64_t forget_ns)
{
	struct fleet *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	pthread_mutex_init(&f->lock, NULL);
	f->alive_ns = alive_ns;
	f->forget_ns = forget_ns;
	*out = f;
	return 0;
}

void fleet_close(struct fleet *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < LIMIT_FLEET_RANKS; i++)
		free(f->ranks[i].rank);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static uint64_t text_key(const char *text)
{
	return hash_mix(hash_bytes(HASH_SEED, text, strlen(text)));
}

static uint64_t rank_key(const struct wire_rank *r)
{
	uint64_t h = hash_bytes(HASH_SEED, r->job, strlen(r->job) + 1);

	h = hash_bytes(h, &r->rank, sizeof(r->rank));
	if (r->rank < 0) {
		h = hash_bytes(h, r->node, strlen(r->node) + 1);
		h = hash_bytes(h, &r->pid, sizeof(r->pid));
	}
	h = hash_mix(h);
	return h ? h : 1;
}

static bool too_old(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns)
{
	return now_ns > seen_ns && now_ns - seen_ns > f->forget_ns;
}

/* Probes a bounded stretch; a forgotten entry in it makes room. */
static struct entry *find_rank(struct fleet *f, uint64_t key, uint64_t now_ns)
{
	struct entry *room = NULL;

	for (uint32_t i = 0; i < PROBE_MAX; i++) {
		struct entry *e = &f->ranks[(key + i) % LIMIT_FLEET_RANKS];

		if (e->rank && e->key == key)
			return e;
		if (!room && (!e->rank || too_old(f, e->seen_ns, now_ns)))
			room = e;
	}
	if (!room)
		return NULL;
	if (!room->rank)
		room->rank = malloc(sizeof(*room->rank));
	return room->rank ? room : NULL;
}

static struct node *find_node(struct fleet *f, const char *name, uint64_t now_ns)
{
	uint64_t key = text_key(name);
	struct node *room = NULL;

	for (uint32_t i = 0; i < PROBE_MAX; i++) {
		struct node *n = &f->nodes[(key + i) % LIMIT_FLEET_NODES];

		if (n->used && n->key == key)
			return n;
		if (!room && (!n->used || too_old(f, n->seen_ns, now_ns)))
			room = n;
	}
	if (room) {
		*room = (struct node){ .key = key, .used = true };
		text_copy(room->name, sizeof(room->name), name);
	}
	return room;
}

void fleet_beat(struct fleet *f, const struct beat *b, uint64_t now_ns)
{
	uint64_t node_key = text_key(b->node);
	struct node *n;

	pthread_mutex_lock(&f->lock);
	n = find_node(f, b->node, now_ns);
	if (n) {
		n->seen_ns = now_ns;
		n->uploaded_bytes = b->uploaded_bytes;
		n->raw_bytes = b->raw_bytes;
		n->windows_dropped = b->windows_dropped;
	} else {
		f->dropped++;
	}
	for (uint32_t i = 0; i < b->rank_count; i++) {
		uint64_t key = rank_key(&b->ranks[i].rank);
		struct entry *e = find_rank(f, key, now_ns);

		if (!e) {
			f->dropped++;
			continue;
		}
		*e->rank = b->ranks[i];
		e->key = key;
		e->seen_ns = now_ns;
		e->node = node_key;
	}
	pthread_mutex_unlock(&f->lock);
}

static bool is_alive(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns)
{
	return now_ns <= seen_ns || now_ns - seen_ns <= f->alive_ns;
}

uint32_t fleet_job_ranks(struct fleet *f, const char *job, uint64_t now_ns)
{
	uint32_t n = 0;

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < LIMIT_FLEET_RANKS; i++) {
		const struct entry *e = &f->ranks[i];

		n += e->rank && is_alive(f, e->seen_ns, now_ns) && !strcmp(e->rank->rank.job, job);
	}
	pthread_mutex_unlock(&f->lock);
	return n;
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void fleet_totals(struct fleet *f, uint64_t now_ns, struct fleet_totals *out)
{
	uint64_t *jobs = malloc(LIMIT_FLEET_RANKS * sizeof(*jobs));
	uint32_t n = 0;

	*out = (struct fleet_totals){ 0 };
	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < LIMIT_FLEET_RANKS; i++) {
		const struct entry *e = &f->ranks[i];

		if (!e->rank || too_old(f, e->seen_ns, now_ns))
			continue;
		out->ranks++;
		out->ranks_alive += is_alive(f, e->seen_ns, now_ns);
		out->events += e->rank->events;
		out->lost += e->rank->lost;
		if (jobs)
			jobs[n++] = text_key(e->rank->rank.job);
	}
	for (uint32_t i = 0; i < LIMIT_FLEET_NODES; i++) {
		const struct node *d = &f->nodes[i];

		if (!d->used || too_old(f, d->seen_ns, now_ns))
			continue;
		out->nodes++;
		out->nodes_alive += is_alive(f, d->seen_ns, now_ns);
		out->uploaded_bytes += d->uploaded_bytes;
		out->raw_bytes += d->raw_bytes;
		out->windows_dropped += d->windows_dropped;
	}
	out->dropped = f->dropped;
	pthread_mutex_unlock(&f->lock);
	if (jobs) {
		qsort(jobs, n, sizeof(*jobs), by_key);
		for (uint32_t i = 0; i < n; i++)
			out->jobs += !i || jobs[i] != jobs[i - 1];
	}
	free(jobs);
}

static const char *name_of(const char *const *names, size_t count, uint32_t i)
{
	return i < count ? names[i] : "unknown";
}

static json_t *rank_json(const struct fleet *f, const struct entry *e, uint64_t now_ns)
{
	static const char *const traces[] = { "off", "on", "latched" };
	static const char *const cuptis[] = { "none", "v2", "legacy", "yielded", "refused", "idle" };
	static const char *const models[] = { "learning", "armed", "refused" };
	const struct beat_rank *r = e->rank;
	uint64_t age_ns = now_ns > e->seen_ns ? now_ns - e->seen_ns : 0;

	return json_pack(
		"{s:s, s:s, s:s, s:i, s:i, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
		"s:I, s:I, s:s, s:s, s:s, s:I, s:I}",
		"job", r->rank.job, "node", r->rank.node, "program", r->rank.program, "rank",
		(int)r->rank.rank, "world_size", (int)r->rank.world_size, "alive",
		is_alive(f, e->seen_ns, now_ns), "beat_age_ms", (json_int_t)(age_ns / 1000000), "steps",
		(json_int_t)r->steps, "flagged", (json_int_t)r->flagged, "latency_ms",
		text_ms(r->latency_median_ns), "self_ms", text_ms(r->self_median_ns), "expected_ms",
		text_ms(r->expected_ns), "compute_ms", text_ms(r->compute_ns), "comm_ms",
		text_ms(r->comm_ns), "exposed_comm_ms", text_ms(r->exposed_comm_ns), "copy_ms",
		text_ms(r->copy_ns), "idle_ms", text_ms(r->idle_ns), "events", (json_int_t)r->events,
		"lost", (json_int_t)r->lost, "trace", name_of(traces, 3, r->trace_state), "cupti",
		name_of(cuptis, 6, r->cupti_state), "model", name_of(models, 3, r->model_state),
		"joined", (json_int_t)r->kernels_joined, "unmatched", (json_int_t)r->kernels_unmatched);
}

static int by_job_and_rank(const void *a, const void *b)
{
	const struct beat_rank *x = (*(struct entry *const *)a)->rank,
			       *y = (*(struct entry *const *)b)->rank;
	int c = strcmp(x->rank.job, y->rank.job);

	if (!c)
		c = x->rank.rank < y->rank.rank ? -1 : x->rank.rank > y->rank.rank;
	return c;
}

json_t *fleet_json(struct fleet *f, const char *job, uint64_t now_ns)
{
	struct entry **list = malloc(LIMIT_FLEET_RANKS * sizeof(struct entry *));
	json_t *out = json_array();
	uint32_t n = 0;

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; list && i < LIMIT_FLEET_RANKS; i++) {
		struct entry *e = &f->ranks[i];

		if (e->rank && !too_old(f, e->seen_ns, now_ns) &&
		    (!job || !strcmp(e->rank->rank.job, job)))
			list[n++] = e;
	}
	if (list)
		qsort(list, n, sizeof(*list), by_job_and_rank);
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(out, rank_json(f, list[i], now_ns));
	pthread_mutex_unlock(&f->lock);
	free(list);
	return json_pack("{s:o}", "ranks", out);
}

/* SPDX-License-Identifier: Apache-2.0
 * Lists of the fleet, page by page. Beats wait for the fleet's lock, so no work in proportion to
 * the fleet is done under it. A page's data is copied in slices, then sorted and printed without
 * the lock. Each slice is consistent; ranks may come or go between slices. */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/job_key.h"
#include "base/http/http_user.h"
#include "base/metrics/metrics.h"
#include "base/text/json_text.h"
#include "base/order.h"
#include "base/room.h"
#include "base/text/text.h"

#define SLICE_JOBS 512u
/* Number of ranks per slice that are scanned, and that are copied whole. Either takes about 0.1
 * ms. */
#define SLICE_RANKS FLEET_SLICE
#define SLICE_WHOLE 128u

/* ---- slices ---- */

static void lock(struct fleet *f)
{
	pthread_mutex_lock(&f->lock);
}

/* Ends a slice that saw this many jobs or ranks. */
static void unlock(struct fleet *f, uint32_t seen)
{
	if (seen > f->slice_most)
		f->slice_most = seen;
	pthread_mutex_unlock(&f->lock);
}

ORDER_BY(by_name, struct fleet_job_name, ORDER_TEXT(name));

int fleet_job_names(struct fleet *f, const struct http_user *who, const char *only,
		    const char *after, struct fleet_job_name **out, uint32_t *count)
{
	struct fleet_job_name *list = NULL;
	size_t room = 0;
	uint32_t n = 0, at = 0;
	bool more = true;

	*out = NULL;
	*count = 0;
	while (more) {
		uint32_t end = at + SLICE_JOBS;

		if (ROOM_FOR(list, room, n + SLICE_JOBS)) {
			free(list);
			return -ENOMEM;
		}
		lock(f);
		for (; at < end && at < f->job_count; at++)
			if (f->jobs[at] && (!who || http_user_sees_job(who, f->jobs[at]->name)) &&
			    (!only || job_key_matches(f->jobs[at]->name, only)) &&
			    (!after || strcmp(f->jobs[at]->name, after) >= 0))
				text_copy(list[n++].name, sizeof(list->name), f->jobs[at]->name);
		more = at < f->job_count;
		unlock(f, SLICE_JOBS);
	}
	qsort(list, n, sizeof(*list), by_name);
	*out = list;
	*count = n;
	return 0;
}

/* ---- ranks ---- */

struct place {
	int32_t rank;
	uint32_t slot;
};

struct row {
	struct place place;
	int32_t world_size;
	char node[WIRE_TEXT_BYTES], program[WIRE_TEXT_BYTES], role[WIRE_TEXT_BYTES];
	struct wire_pod pod;
	struct fleet_stats stats;
	double role_self_ns;
	uint64_t known_ns;	   /* when the process was first heard of */
	uint64_t age_ns, hangs_ns; /* hangs_ns: for how long */
	bool alive, ended, suspect, quarantined, contested;
};

ORDER_BY(by_rank, struct place, ORDER_UP(rank) ?: ORDER_UP(slot));

/* A job's places, sorted by rank; the caller frees them. */
static int places_of(struct fleet *f, const char *name, struct place **out, uint32_t *count)
{
	struct place *list = NULL;
	size_t room = 0;
	uint32_t n = 0, at = 0;
	bool more = true;

	*out = NULL;
	*count = 0;
	while (more) {
		uint32_t end = at + SLICE_RANKS;
		struct fleet_job *job;

		if (ROOM_FOR(list, room, n + SLICE_RANKS)) {
			free(list);
			return -ENOMEM;
		}
		lock(f);
		job = fleet_find_job(f, name);
		for (; job && at < end && at < job->rank_count; at++)
			if (job->ranks[at].used)
				list[n++] = (struct place){job->ranks[at].rank, at};
		more = job && at < job->rank_count;
		unlock(f, SLICE_RANKS);
	}
	qsort(list, n, sizeof(*list), by_rank);
	*out = list;
	*count = n;
	return 0;
}

static void copy_row(const struct fleet *f, const struct fleet_job *job, const struct fleet_rank *r,
		     uint64_t now_ns, struct row *out)
{
	struct cross_recent recent;

	out->place = (struct place){r->rank, (uint32_t)(r - job->ranks)};
	out->world_size = r->world_size;
	text_copy(out->node, sizeof(out->node), f->nodes[r->node].name);
	text_copy(out->program, sizeof(out->program), r->program ? r->program : "");
	text_copy(out->role, sizeof(out->role),
		  r->role < job->role_count ? job->roles[r->role].name : "");
	for (int k = 0; k < POD_TEXTS; k++)
		text_copy(out->pod.text[k], WIRE_TEXT_BYTES, r->pod[k] ? r->pod[k] : "");
	out->stats = r->stats;
	out->known_ns = now_ns > r->began_ns ? now_ns - r->began_ns : 0;
	out->age_ns = now_ns > r->seen_ns ? now_ns - r->seen_ns : 0;
	out->alive = fleet_rank_is_alive(f, r, now_ns);
	out->ended = r->ended;
	out->hangs_ns = fleet_rank_hangs(f, job, r, now_ns);
	out->hangs_ns = out->hangs_ns && out->hangs_ns < now_ns ? now_ns - out->hangs_ns : 0;
	recent = cross_recent(job->cross, out->place.slot, &out->role_self_ns);
	if (recent.self_ns > 0) {
		out->stats.self_median_ns = recent.self_ns;
		out->stats.latency_median_ns = recent.latency_ns;
	}
	out->suspect = fleet_rank_is_suspect(job, r);
	out->quarantined = r->rank >= 0 && !r->compared;
	out->contested = r->contested;
}

/* Copies the places that still hold the same rank; at most SLICE_WHOLE. */
static uint32_t copy_rows(struct fleet *f, const char *name, const struct place *list,
			  uint32_t count, uint64_t now_ns, struct row *out)
{
	struct fleet_job *job;
	uint32_t n = 0;

	lock(f);
	job = fleet_find_job(f, name);
	for (uint32_t i = 0; job && i < count; i++)
		if (list[i].slot < job->rank_count && job->ranks[list[i].slot].used &&
		    job->ranks[list[i].slot].rank == list[i].rank)
			copy_row(f, job, &job->ranks[list[i].slot], now_ns, &out[n++]);
	unlock(f, count);
	return n;
}

static const char *truth(bool v)
{
	return v ? "true" : "false";
}

static void put_times(struct buf *b, const struct fleet_stats *s)
{
	buf_printf(b,
		   ",\"latency_ms\":%.9g,\"self_ms\":%.9g,\"expected_ms\":%.9g,\"compute_ms\":%.9g,"
		   "\"comm_ms\":%.9g,\"exposed_comm_ms\":%.9g,\"copy_ms\":%.9g,\"idle_ms\":%.9g",
		   text_ms(s->latency_median_ns), text_ms(s->self_median_ns),
		   text_ms(s->expected_ns), text_ms(s->compute_ns), text_ms(s->comm_ns),
		   text_ms(s->exposed_comm_ns), text_ms(s->copy_ns), text_ms(s->idle_ns));
}

static void put_row(struct buf *b, const char *job, const struct row *r)
{
	static const char *const traces[] = {"off", "on", "latched"};
	static const char *const cuptis[] = {"none", "v2", "legacy", "yielded", "refused", "idle"};
	static const char *const models[] = {"learning", "ready", "refused"};
	const struct fleet_stats *s = &r->stats;

	uint32_t uid;

	buf_puts(b, "{\"uid\":");
	if (job_key_owner(job, &uid))
		buf_printf(b, "%u", uid);
	else
		buf_puts(b, "null");
	buf_printf(b, ",\"contested\":%s", truth(r->contested));
	json_text_append(b, ",\"job\":", job);
	json_text_append(b, ",\"node\":", r->node);
	json_text_append(b, ",\"program\":", r->program);
	buf_printf(b, ",\"rank\":%d,\"world_size\":%d,\"alive\":%s,\"beat_age_ms\":%llu",
		   r->place.rank, r->world_size, truth(r->alive),
		   (unsigned long long)(r->age_ns / 1000000));
	buf_printf(b, ",\"ended\":%s,\"hang_s\":%.3f,\"steps\":%llu,\"flagged\":%llu",
		   truth(r->ended), (double)r->hangs_ns * 1e-9, (unsigned long long)s->steps,
		   (unsigned long long)s->flagged);
	put_times(b, s);
	buf_printf(b, ",\"role_self_ms\":%.9g,\"known_s\":%.3f", text_ms(r->role_self_ns),
		   (double)r->known_ns * 1e-9);
	buf_printf(
	    b, ",\"events\":%llu,\"lost\":%llu,\"trace\":\"%s\",\"cupti\":\"%s\",\"model\":\"%s\"",
	    (unsigned long long)s->events, (unsigned long long)s->lost,
	    fleet_name_of(traces, 3, s->trace_state), fleet_name_of(cuptis, 6, s->cupti_state),
	    fleet_name_of(models, 3, s->model_state));
	buf_printf(b, ",\"joined\":%llu,\"unmatched\":%llu", (unsigned long long)s->kernels_joined,
		   (unsigned long long)s->kernels_unmatched);
	json_text_append(b, ",\"role\":", r->role);
	window_pod_json(&r->pod, b);
	buf_printf(b, ",\"suspect\":%s,\"quarantined\":%s}", truth(r->suspect),
		   truth(r->quarantined));
}

/* Parses "RANK.SLOT.JOB", where the previous page ended. */
static int parse_after(const char *text, struct place *place, const char **job)
{
	int used = 0;

	if (sscanf(text, "%8d.%8u.%n", &place->rank, &place->slot, &used) != 2 || !used)
		return -EINVAL;
	*job = text + used;
	return 0;
}

struct page {
	struct buf *out;
	uint32_t limit, count;
	struct row *rows; /* SLICE_WHOLE */
	struct place last;
	char last_job[WIRE_TEXT_BYTES];
	bool more;
};

static int put_job(struct fleet *f, const char *name, const struct place *after, uint64_t now_ns,
		   struct page *p)
{
	struct place *list;
	uint32_t n, at = 0, got;
	int err = places_of(f, name, &list, &n);

	while (!err && after && at < n && by_rank(&list[at], after) <= 0)
		at++;
	for (; !err && at < n && p->count < p->limit; at += got) {
		got = n - at < SLICE_WHOLE ? n - at : SLICE_WHOLE;
		got = got < p->limit - p->count ? got : p->limit - p->count;
		p->last = list[at + got - 1];
		for (uint32_t i = 0, k = copy_rows(f, name, list + at, got, now_ns, p->rows); i < k;
		     i++) {
			buf_puts(p->out, p->count++ ? "," : "");
			put_row(p->out, name, &p->rows[i]);
		}
	}
	if (!err && at)
		text_copy(p->last_job, sizeof(p->last_job), name);
	p->more = !err && at < n;
	free(list);
	return err;
}

static int put_ranks(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct page *p)
{
	struct place after = {0};
	const char *first = NULL;
	struct fleet_job_name *names;
	uint32_t n, i;
	int err = q->after ? parse_after(q->after, &after, &first) : 0;

	if (!err)
		err = fleet_job_names(f, q->who, q->job, first, &names, &n);
	if (err)
		return err;
	buf_puts(p->out, "{\"ranks\":[");
	for (i = 0; i < n && !err && p->count < p->limit; i++)
		err = put_job(f, names[i].name,
			      first && !strcmp(first, names[i].name) ? &after : NULL, now_ns, p);
	p->more |= i < n && p->count;
	free(names);
	buf_puts(p->out, "]");
	if (p->more) {
		char next[WIRE_TEXT_BYTES + 32];

		snprintf(next, sizeof(next), "%d.%u.%s", p->last.rank, p->last.slot, p->last_job);
		json_text_append(p->out, ",\"next\":", next);
	}
	buf_puts(p->out, "}\n");
	return err ? err : p->out->failed ? -ENOMEM : 0;
}

int fleet_ranks_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out)
{
	struct page p = {
	    .out = out, .limit = q->limit, .rows = calloc(SLICE_WHOLE, sizeof(*p.rows))};
	int err = p.rows ? put_ranks(f, q, now_ns, &p) : -ENOMEM;

	free(p.rows);
	return err;
}

/* ---- ranks, for Prometheus ---- */

enum { INFO, SUSPECT, EXCESS, SERIES };

static const struct {
	const char *name, *help;
} series[SERIES] = {
    [INFO] = {"sysom_rank_info",
	      "1; where a rank runs and its role, to join on job_name and rank."},
    [SUSPECT] = {"sysom_rank_suspect", "1 while a finding names the rank."},
    [EXCESS] = {"sysom_rank_self_excess_seconds",
		"Median self time of the rank above that of its role."},
};

/* What the metric families after the first need about each rank. All series of a family must be
 * together, but the fleet is read only once. */
struct kept {
	uint32_t job; /* index of its name */
	int32_t rank;
	double excess_s; /* NAN: not known */
	bool suspect;
};

struct kept_list {
	struct kept *of;
	size_t room;
	uint32_t count;
};

static void put_info(struct metrics *m, const char *job, const struct row *r)
{
	char rank[12];

	snprintf(rank, sizeof(rank), "%d", r->place.rank);
	metrics_sample(m, series[INFO].name, 1, "job_name", job, "rank", rank, "node", r->node,
		       "role", r->role, "namespace", r->pod.text[POD_NAMESPACE], "pod",
		       r->pod.text[POD_NAME], "container", r->pod.text[POD_CONTAINER], "hostname",
		       window_pod_host(&r->pod, r->node), NULL);
}

static void keep(struct kept_list *k, uint32_t job, const struct row *r)
{
	bool known = r->stats.self_median_ns > 0 && r->role_self_ns > 0;

	if (ROOM_FOR(k->of, k->room, k->count + 1ull))
		return;
	k->of[k->count++] = (struct kept){
	    job, r->place.rank,
	    known ? (r->stats.self_median_ns - r->role_self_ns) * 1e-9 : (double)NAN, r->suspect};
}

/* If two nodes claim a rank, its series show the first one. The other row is contested. */
static void put_job_series(struct fleet *f, const struct fleet_job_name *names, uint32_t job,
			   uint64_t now_ns, struct row *rows, struct metrics *m,
			   struct kept_list *k)
{
	const char *name = names[job].name;
	struct place *list;
	uint32_t n;

	if (places_of(f, name, &list, &n))
		return;
	for (uint32_t at = 0; at < n; at += SLICE_WHOLE) {
		uint32_t got = n - at < SLICE_WHOLE ? n - at : SLICE_WHOLE;

		got = copy_rows(f, name, list + at, got, now_ns, rows);
		for (uint32_t i = 0; i < got; i++) {
			if (!rows[i].alive || rows[i].place.rank < 0 || rows[i].contested)
				continue;
			put_info(m, name, &rows[i]);
			keep(k, job, &rows[i]);
		}
	}
	free(list);
}

static void put_kept(struct metrics *m, unsigned which, const struct fleet_job_name *names,
		     const struct kept_list *list)
{
	metrics_family(m, series[which].name, series[which].help);
	for (uint32_t i = 0; i < list->count; i++) {
		const struct kept *k = &list->of[i];
		double value = which == SUSPECT ? k->suspect : k->excess_s;
		char rank[12];

		if (isnan(value))
			continue;
		snprintf(rank, sizeof(rank), "%d", k->rank);
		metrics_sample(m, series[which].name, value, "job_name", names[k->job].name, "rank",
			       rank, NULL);
	}
}

void fleet_ranks_metrics(struct fleet *f, const struct http_user *who, uint64_t now_ns,
			 struct metrics *m)
{
	struct row *rows = calloc(SLICE_WHOLE, sizeof(*rows));
	struct kept_list list = {0};
	struct fleet_job_name *names = NULL;
	uint32_t n = 0;

	if (!rows || fleet_job_names(f, who, NULL, NULL, &names, &n))
		n = 0;
	metrics_family(m, series[INFO].name, series[INFO].help);
	for (uint32_t i = 0; i < n; i++)
		put_job_series(f, names, i, now_ns, rows, m, &list);
	put_kept(m, SUSPECT, names, &list);
	put_kept(m, EXCESS, names, &list);
	free(list.of);
	free(names);
	free(rows);
}

/* ---- jobs ---- */

struct job_row {
	int32_t world;
	uint32_t ranks, alive, others, nodes, suspects, role_count;
	uint64_t run, refused;
	char (*roles)[WIRE_TEXT_BYTES]; /* LIMIT_CROSS_ROLES */
};

/* Counts ranks and living processes from *from on, within one slice. False: the job is gone. */
static bool count_alive(struct fleet *f, const char *name, uint32_t *from, uint64_t now_ns,
			struct job_row *out)
{
	uint32_t end = *from + SLICE_RANKS;
	struct fleet_job *job;
	bool more;

	lock(f);
	job = fleet_find_job(f, name);
	for (; job && *from < end && *from < job->rank_count; ++*from) {
		const struct fleet_rank *r = &job->ranks[*from];

		out->ranks += r->used && r->rank >= 0;
		*(r->rank >= 0 ? &out->alive : &out->others) +=
		    r->used && fleet_rank_is_alive(f, r, now_ns);
	}
	more = job && *from < job->rank_count;
	unlock(f, SLICE_RANKS);
	return more;
}

static bool copy_job(struct fleet *f, const char *name, uint64_t now_ns, struct job_row *out)
{
	struct fleet_job *job;
	uint32_t from = 0;

	lock(f);
	job = fleet_find_job(f, name);
	if (job) {
		out->world = job->world;
		out->nodes = job->by_node.count;
		out->run = job->run;
		out->refused = job->refused;
		out->suspects = fleet_suspects(job);
		out->ranks = out->alive = out->others = 0;
		out->role_count =
		    job->role_count < LIMIT_CROSS_ROLES ? job->role_count : LIMIT_CROSS_ROLES;
		for (uint32_t k = 0; k < out->role_count; k++)
			text_copy(out->roles[k], sizeof(*out->roles), job->roles[k].name);
	}
	unlock(f, LIMIT_CROSS_ROLES);
	while (job && count_alive(f, name, &from, now_ns, out))
		;
	return job;
}

static void put_job_row(struct buf *b, const char *name, const struct job_row *r)
{
	json_text_append(b, "{\"job\":", name);
	buf_printf(
	    b, ",\"world_size\":%d,\"ranks\":%u,\"alive\":%u,\"other_processes\":%u,\"nodes\":%u",
	    r->world, r->ranks, r->alive, r->others, r->nodes);
	buf_printf(b, ",\"run\":\"%016llx\",\"roles\":[", (unsigned long long)r->run);
	for (uint32_t k = 0; k < r->role_count; k++)
		json_text_append(b, k ? "," : "", r->roles[k]);
	buf_printf(b, "],\"suspects\":%u,\"refused\":%llu}", r->suspects,
		   (unsigned long long)r->refused);
}

int fleet_jobs_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out)
{
	struct job_row row = {.roles = calloc(LIMIT_CROSS_ROLES, sizeof(*row.roles))};
	struct fleet_job_name *names = NULL;
	uint32_t n = 0, i = 0, count = 0;
	int err = row.roles ? fleet_job_names(f, q->who, q->job, q->after, &names, &n) : -ENOMEM;

	if (err) {
		free(row.roles);
		return err;
	}
	buf_puts(out, "{\"jobs\":[");
	if (q->after && n && !strcmp(names[0].name, q->after))
		i++;
	for (; i < n && count < q->limit; i++) {
		if (!copy_job(f, names[i].name, now_ns, &row))
			continue;
		buf_puts(out, count++ ? "," : "");
		put_job_row(out, names[i].name, &row);
	}
	buf_puts(out, "]");
	if (i < n)
		json_text_append(out, ",\"next\":", names[i - 1].name);
	buf_puts(out, "}\n");
	free(row.roles);
	free(names);
	return out->failed ? -ENOMEM : 0;
}

/* ---- nodes ---- */

struct node_row {
	char name[WIRE_TEXT_BYTES], version[WIRE_VERSION_BYTES], certificate[WIRE_TEXT_BYTES];
	uint32_t wire_version, ranks, others;
	uint64_t age_ns;
	bool alive;
};

static void add_alive(const struct fleet *f, const struct fleet_node *n, uint64_t now_ns,
		      struct node_row *out)
{
	for (uint32_t i = 0; i < n->held_count; i++) {
		const struct fleet_rank *r = &n->held[i].job->ranks[n->held[i].slot];

		*(r->rank >= 0 ? &out->ranks : &out->others) += fleet_rank_is_alive(f, r, now_ns);
	}
}

/* Copies nodes from place *at on, within one slice. Sets *at to where the next slice begins. */
static uint32_t copy_nodes(struct fleet *f, uint32_t *at, uint32_t max, uint64_t now_ns,
			   struct node_row *out)
{
	uint32_t n = 0, end = *at + SLICE_RANKS;

	lock(f);
	for (; *at < end && *at < LIMIT_FLEET_NODES && n < max; ++*at) {
		const struct fleet_node *node = &f->nodes[*at];
		uint64_t age_ns = now_ns > node->seen_ns ? now_ns - node->seen_ns : 0;

		if (!node->used || age_ns > f->config.forget_ns)
			continue;
		out[n] = (struct node_row){.wire_version = node->wire_version,
					   .age_ns = age_ns,
					   .alive = fleet_is_alive(f, node->seen_ns, now_ns)};
		add_alive(f, node, now_ns, &out[n]);
		text_copy(out[n].name, sizeof(out->name), node->name);
		text_copy(out[n].version, sizeof(out->version), node->version);
		text_copy(out[n].certificate, sizeof(out->certificate), node->certificate);
		n++;
	}
	unlock(f, SLICE_RANKS);
	return n;
}

static void put_node(struct buf *b, const struct node_row *r)
{
	json_text_append(b, "{\"node\":", r->name);
	json_text_append(b, ",\"version\":", r->version);
	json_text_append(b, ",\"certificate\":", r->certificate);
	buf_printf(b,
		   ",\"wire_version\":%u,\"ranks\":%u,\"other_processes\":%u,\"alive\":%s,"
		   "\"beat_age_ms\":%llu}",
		   r->wire_version, r->ranks, r->others, truth(r->alive),
		   (unsigned long long)(r->age_ns / 1000000));
}

int fleet_nodes_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out)
{
	struct node_row *rows;
	uint64_t first = 0;
	uint32_t at, count = 0;

	if (q->after && !text_number(q->after, LIMIT_FLEET_NODES, &first))
		return -EINVAL;
	rows = calloc(SLICE_WHOLE, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	at = (uint32_t)first;
	buf_puts(out, "{\"nodes\":[");
	while (at < LIMIT_FLEET_NODES && count < q->limit) {
		uint32_t left = q->limit - count, n;

		n = copy_nodes(f, &at, left < SLICE_WHOLE ? left : SLICE_WHOLE, now_ns, rows);
		for (uint32_t i = 0; i < n; i++) {
			buf_puts(out, count++ ? "," : "");
			put_node(out, &rows[i]);
		}
	}
	free(rows);
	if (at < LIMIT_FLEET_NODES)
		buf_printf(out, "],\"next\":\"%u\"}\n", at);
	else
		buf_puts(out, "]}\n");
	return out->failed ? -ENOMEM : 0;
}

/* ---- totals ---- */

/* Ends the slice, lets waiting threads take the lock, and begins the next slice. */
static void next_slice(struct fleet *f, uint32_t *left)
{
	unlock(f, SLICE_RANKS);
	sched_yield();
	lock(f);
	*left = SLICE_RANKS;
}

static void add_rank(const struct fleet *f, const struct fleet_rank *r, uint64_t now_ns,
		     struct fleet_totals *t)
{
	*(r->rank >= 0 ? &t->ranks : &t->others) += 1;
	*(r->rank >= 0 ? &t->ranks_alive : &t->others_alive) += fleet_rank_is_alive(f, r, now_ns);
	t->ranks_quarantined += r->rank >= 0 && !r->compared;
	t->events += r->stats.events;
	t->lost += r->stats.lost;
}

static void add_job(struct fleet_job *job, struct fleet_totals *t)
{
	struct cross_stats c;
	struct hang_stats h;

	cross_stats(job->cross, &c);
	hang_stats(job->hang, &h);
	t->jobs++;
	t->jobs_hanging += hang_is_open(job->hang);
	t->suspects += fleet_suspects(job);
	t->groups += c.groups;
	t->rows += c.rows;
	t->stale += c.stale;
	t->ahead += c.ahead;
	t->bad += c.bad + h.bad;
	t->unplaced += c.unplaced;
	t->no_room += c.no_room;
	t->thinned += c.thinned;
	t->renumbered += c.renumbered;
	t->findings += c.findings;
	t->imbalances += c.imbalances;
	t->bytes += c.bytes + job->rank_room * sizeof(*job->ranks);
	for (uint32_t i = 0; i < job->role_count; i++)
		t->bytes += waterline_bytes(job->roles[i].waterline);
}

void fleet_totals(struct fleet *f, uint64_t now_ns, struct fleet_totals *out)
{
	uint32_t left = SLICE_RANKS;

	lock(f);
	*out = f->counts;
	for (uint32_t i = 0; i < f->job_count; i++) {
		uint32_t alive = out->ranks_alive + out->others_alive;

		if (!f->jobs[i])
			continue;
		add_job(f->jobs[i], out);
		/* the job may be replaced or removed whenever the lock is released */
		for (uint32_t k = 0; f->jobs[i] && k < f->jobs[i]->rank_count; k++) {
			if (f->jobs[i]->ranks[k].used)
				add_rank(f, &f->jobs[i]->ranks[k], now_ns, out);
			if (!--left)
				next_slice(f, &left);
		}
		out->jobs_alive += out->ranks_alive + out->others_alive > alive;
	}
	for (uint32_t i = 0; i < LIMIT_FLEET_NODES; i++) {
		const struct fleet_node *n = &f->nodes[i];

		if (!--left)
			next_slice(f, &left);
		if (!n->used || (now_ns > n->seen_ns && now_ns - n->seen_ns > f->config.forget_ns))
			continue;
		out->nodes++;
		out->nodes_alive += fleet_is_alive(f, n->seen_ns, now_ns);
		out->uploaded_bytes += n->uploaded_bytes;
		out->raw_bytes += n->raw_bytes;
		out->windows_dropped += n->windows_dropped;
	}
	out->slice_most = f->slice_most;
	unlock(f, SLICE_RANKS - left);
}

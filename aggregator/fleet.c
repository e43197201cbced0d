/* SPDX-License-Identifier: Apache-2.0
 * Tables: nodes, sized once, so that a flood of made-up names can't grow it; jobs with their ranks,
 * as many as LIMIT_FLEET_RANKS in all. A beat touches its own ranks and nothing else; what looks at
 * all ranks of a job is done once a second, job by job, and the lock is let go between two jobs. */
#include "aggregator/fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet_private.h"
#include "aggregator/text.h"
#include "base/hash.h"

#define PROBE_MAX 32u
#define EXPIRE_NS 600000000000ull

void fleet_config_default(struct fleet_config *c)
{
	*c = (struct fleet_config){.alive_ns = 15000000000,
				   .forget_ns = 600000000000,
				   .hang_ns = 20000000000,
				   .waterline_ns = 600000000000,
				   .pull = true,
				   .baseline_age_ns = 90ull * 86400 * 1000000000};
}

int fleet_open_with(struct fleet **out, const struct fleet_config *c)
{
	struct fleet *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	pthread_mutex_init(&f->lock, NULL);
	f->config = *c;
	f->by_name.max = LIMIT_FLEET_JOBS;
	*out = f;
	return 0;
}

int fleet_open(struct fleet **out, uint64_t alive_ns, uint64_t forget_ns)
{
	struct fleet_config c;

	fleet_config_default(&c);
	c.alive_ns = alive_ns;
	c.forget_ns = forget_ns;
	return fleet_open_with(out, &c);
}

int fleet_keep_baselines(struct fleet *f, const char *dir)
{
	return baselines_open(&f->baselines, dir);
}

static void rank_fini(struct fleet *f, struct fleet_rank *r)
{
	f->counts.sketch_bytes -= r->sketch_bytes;
	free(r->sketch);
	free(r->program);
	free(r->role_text);
	free(r->kernels);
	*r = (struct fleet_rank){0};
}

static void job_free(struct fleet *f, struct fleet_job *job)
{
	struct cross_stats c;

	if (job->cross) { /* a counter does not go down */
		cross_stats(job->cross, &c);
		f->counts.findings += c.findings;
		f->counts.imbalances += c.imbalances;
	}
	for (uint32_t i = 0; i < job->rank_count; i++) {
		f->ranks -= job->ranks[i].used;
		rank_fini(f, &job->ranks[i]);
	}
	for (uint32_t i = 0; i < job->role_count; i++) {
		waterline_close(job->roles[i].waterline);
		temporal_close(job->roles[i].temporal);
		if (job->roles[i].has_base)
			wire_sketch_free(&job->roles[i].base);
	}
	idmap_fini(&job->by_rank);
	idmap_fini(&job->by_node);
	idmap_fini(&job->comms);
	cross_close(job->cross);
	hang_close(job->hang);
	free(job->ranks);
	free(job->parts);
	free(job->roles);
	free(job);
}

void fleet_close(struct fleet *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->job_count; i++)
		if (f->jobs[i])
			job_free(f, f->jobs[i]);
	for (uint32_t i = 0; i < LIMIT_FLEET_NODES; i++)
		free(f->nodes[i].commands);
	idmap_fini(&f->by_name);
	baselines_close(f->baselines);
	pthread_mutex_destroy(&f->lock);
	for (uint32_t i = 0; i < f->save_count; i++)
		buf_fini(&f->saves[i].body);
	free(f->saves);
	free(f->pending);
	free(f);
}

void fleet_on_finding(struct fleet *f, fleet_finding_fn fn, void *arg)
{
	f->fn = fn;
	f->arg = arg;
}

/* ---- finding and making ---- */

uint64_t fleet_text_key(const char *text)
{
	return hash_mix(hash_bytes(HASH_SEED, text, strlen(text)));
}

bool fleet_is_alive(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns)
{
	return now_ns <= seen_ns || now_ns - seen_ns <= f->config.alive_ns;
}

static bool too_old(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns)
{
	return now_ns > seen_ns && now_ns - seen_ns > f->config.forget_ns;
}

static uint64_t rank_key(const struct wire_rank *r)
{
	uint64_t h = hash_bytes(HASH_SEED, &r->rank, sizeof(r->rank));

	if (r->rank < 0) {
		h = hash_bytes(h, r->node, strlen(r->node) + 1);
		h = hash_bytes(h, &r->pid, sizeof(r->pid));
	}
	return h;
}

static struct fleet_node *find_node(struct fleet *f, const char *name, uint64_t now_ns, bool *fresh)
{
	uint64_t key = fleet_text_key(name);
	struct fleet_node *room = NULL;

	*fresh = false;
	for (uint32_t i = 0; i < PROBE_MAX; i++) {
		struct fleet_node *n = &f->nodes[(key + i) % LIMIT_FLEET_NODES];

		if (n->used && n->key == key && !strcmp(n->name, name))
			return n;
		if (!room && (!n->used || too_old(f, n->seen_ns, now_ns)))
			room = n;
	}
	if (room) {
		free(room->commands);
		*room = (struct fleet_node){.key = key, .used = true};
		text_copy(room->name, sizeof(room->name), name);
		*fresh = true;
	}
	return room;
}

struct fleet_job *fleet_find_job(const struct fleet *f, const char *name)
{
	uint32_t at = idmap_get(&f->by_name, fleet_text_key(name));
	struct fleet_job *job = at < f->job_count ? f->jobs[at] : NULL;

	return job && !strcmp(job->name, name) ? job : NULL;
}

static struct fleet_job *make_job(struct fleet *f, const char *name, uint64_t now_ns)
{
	struct fleet_job *job = calloc(1, sizeof(*job));
	struct peers_config c;
	uint32_t at = 0;

	while (at < f->job_count && f->jobs[at])
		at++;
	peers_config_default(&c);
	c.mode = f->config.sysom ? PEERS_SYSOM : PEERS_ROBUST;
	/* Of 80,000 ranks one in half a day; the price is a few steps. */
	c.false_per_member_hour = 1e-6;
	if (!job || at == LIMIT_FLEET_JOBS || cross_open(&job->cross, name, &c) ||
	    hang_open(&job->hang, name))
		goto fail;
	text_copy(job->name, sizeof(job->name), name);
	job->key = fleet_text_key(name);
	job->born_ns = now_ns;
	job->by_rank.max = LIMIT_FLEET_RANKS;
	job->comms.max = BEAT_COMMS_MAX * LIMIT_FLEET_RANKS;
	if (idmap_put(&f->by_name, job->key, at))
		goto fail;
	f->jobs[at] = job;
	if (at == f->job_count)
		f->job_count++;
	return job;
fail:
	if (job)
		job_free(f, job);
	return NULL;
}

struct fleet_rank *fleet_find_rank(struct fleet_job *job, int32_t rank)
{
	struct wire_rank id = {.rank = rank};
	uint32_t at = rank < 0 ? IDMAP_NONE : idmap_get(&job->by_rank, rank_key(&id));

	return at < job->rank_count && job->ranks[at].used ? &job->ranks[at] : NULL;
}

/* A slot stays its rank's for as long as the job is known: detection numbers by it. */
static struct fleet_rank *make_rank(struct fleet *f, struct fleet_job *job, uint64_t key)
{
	uint32_t at = idmap_get(&job->by_rank, key);
	struct fleet_rank *ranks;

	if (f->ranks == LIMIT_FLEET_RANKS)
		return NULL;
	if (at == IDMAP_NONE) {
		for (at = 0;
		     job->used < job->rank_count && at < job->rank_count && job->ranks[at].used;)
			at++;
		if (job->used == job->rank_count)
			at = job->rank_count;
		if (at == job->rank_room) {
			uint32_t room = job->rank_room ? 2 * job->rank_room : 8;

			ranks = realloc(job->ranks, room * sizeof(*ranks));
			if (!ranks)
				return NULL;
			job->ranks = ranks;
			job->rank_room = room;
		}
		if (idmap_put(&job->by_rank, key, at))
			return NULL;
		if (at == job->rank_count)
			job->rank_count++;
	}
	job->ranks[at] =
	    (struct fleet_rank){.used = true, .key = key, .before = FLEET_NONE, .role = FLEET_NONE};
	job->used++;
	f->ranks++;
	return &job->ranks[at];
}

/* ---- beats ---- */

static void set_text(char **to, const char *text)
{
	char *copy;

	if (*to && !strcmp(*to, text))
		return;
	copy = strdup(text);
	if (!copy)
		return;
	free(*to);
	*to = copy;
}

static void fill_stats(struct fleet_stats *s, const struct beat_rank *b)
{
#define X(f) s->f = b->f;
	FLEET_STATS_32(X)
	FLEET_STATS_64(X)
#undef X
#define X(f) s->f = text_finite(b->f) >= 0 ? text_finite(b->f) : 0;
	FLEET_STATS_DOUBLE(X)
#undef X
}

static void take_rank(struct fleet *f, struct fleet_node *n, const struct beat_rank *b,
		      uint64_t now_ns)
{
	uint32_t node = (uint32_t)(n - f->nodes), at;
	struct fleet_job *job = fleet_find_job(f, b->rank.job);
	struct fleet_part *part;
	struct fleet_rank *r;
	bool restarted;

	if (!job)
		job = make_job(f, b->rank.job, now_ns);
	if (!job) {
		f->counts.dropped++;
		return;
	}
	at = idmap_get(&job->by_rank, rank_key(&b->rank));
	r = at < job->rank_count && job->ranks[at].used ? &job->ranks[at] : NULL;
	if (!fleet_admit_rank(f, job, r, &b->rank, node, now_ns))
		return;
	part = fleet_admit_part(f, job, node, now_ns);
	if (part && !r)
		r = make_rank(f, job, rank_key(&b->rank));
	if (!part || !r) {
		f->counts.dropped++;
		return;
	}
	restarted = r->seen_ns && (r->pid != b->rank.pid || r->node != node ||
				   r->start_time_ticks != b->rank.start_time_ticks);
	if (r->seen_ns && r->node != node)
		r->before = r->node;
	if (!r->seen_ns)
		r->born_ns = now_ns;
	r->rank = b->rank.rank;
	r->world_size = b->rank.world_size;
	r->local_rank = b->rank.local_rank;
	r->pid = b->rank.pid;
	r->start_time_ticks = b->rank.start_time_ticks;
	r->node = node;
	r->seen_ns = job->seen_ns = now_ns;
	set_text(&r->program, b->rank.program);
	set_text(&r->role_text, b->rank.role);
	fill_stats(&r->stats, b);
	fleet_admit_prove(job, part, b);
	if (r->rank >= 0)
		fleet_detect_beat(f, job, (uint32_t)(r - job->ranks), b, n,
				  (uint32_t)(part - job->parts), restarted, now_ns);
}

void fleet_beat(struct fleet *f, const struct beat *b, uint64_t now_ns)
{
	struct fleet_node *n;
	bool fresh;

	pthread_mutex_lock(&f->lock);
	n = find_node(f, b->node, now_ns, &fresh);
	if (!n) {
		f->counts.dropped += 1 + b->rank_count;
	} else if (fleet_admit_node(f, n, fresh, b, now_ns)) {
		n->seen_ns = now_ns;
		n->uploaded_bytes = b->uploaded_bytes;
		n->raw_bytes = b->raw_bytes;
		n->windows_dropped = b->windows_dropped;
		for (uint32_t i = 0; i < b->rank_count; i++)
			take_rank(f, n, &b->ranks[i], now_ns);
	}
	pthread_mutex_unlock(&f->lock);
}

uint32_t fleet_commands(struct fleet *f, const struct beat *b, struct wire_command *out,
			uint32_t max)
{
	struct fleet_node *n = NULL;
	uint32_t count = 0;
	uint64_t key = fleet_text_key(b->node);

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < PROBE_MAX && !n; i++) {
		struct fleet_node *at = &f->nodes[(key + i) % LIMIT_FLEET_NODES];

		if (at->used && at->key == key && !strcmp(at->name, b->node))
			n = at;
	}
	/* Not to one that only answers to the name. */
	if (n && n->commands && !memcmp(n->boot_id, b->boot_id, sizeof(n->boot_id))) {
		count = n->command_count < max ? n->command_count : max;
		memcpy(out, n->commands, count * sizeof(*out));
		n->command_count -= count;
		memmove(n->commands, n->commands + count, n->command_count * sizeof(*out));
		if (!n->command_count) {
			free(n->commands);
			n->commands = NULL;
		}
	}
	pthread_mutex_unlock(&f->lock);
	return count;
}

/* ---- sketches and windows ---- */

bool fleet_sketch_put(struct fleet *f, const struct sketch *s, const void *data, size_t bytes,
		      uint64_t now_ns)
{
	struct fleet_job *job;
	struct fleet_rank *r;
	struct fleet_role *role;
	void *copy;
	bool good;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, s->rank.job);
	r = job ? fleet_find_rank(job, s->rank.rank) : NULL;
	good = r && !strcmp(f->nodes[r->node].name, s->rank.node) &&
	       bytes <= LIMIT_SKETCH_BYTES_PER_RANK;
	if (!good) {
		f->counts.refused_sketch++;
		goto out;
	}
	f->counts.sketches++;
	if (r->compared)
		fleet_roles_sketch(job, r, s);
	role = r->compared && r->role < job->role_count ? &job->roles[r->role] : NULL;
	if (role && role->waterline)
		waterline_push(role->waterline, (uint32_t)(r - job->ranks),
			       role->members ? role->members : job->used, s, now_ns);
	if (f->counts.sketch_bytes - r->sketch_bytes + bytes > LIMIT_FLEET_SKETCH_BYTES ||
	    !(copy = malloc(bytes))) {
		f->counts.sketches_dropped++;
		goto out;
	}
	memcpy(copy, data, bytes);
	f->counts.sketch_bytes += bytes - r->sketch_bytes;
	free(r->sketch);
	r->sketch = copy;
	r->sketch_bytes = (uint32_t)bytes;
	r->sketch_ns = now_ns;
out:
	pthread_mutex_unlock(&f->lock);
	return good;
}

bool fleet_window(struct fleet *f, const struct digest *d, uint64_t now_ns)
{
	struct fleet_job *job;
	struct fleet_rank *r;
	bool good = true;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, d->rank.job);
	r = job ? fleet_find_rank(job, d->rank.rank) : NULL;
	/* A job that nobody beats for (its windows came late) has no one to ask. */
	if (job && r) {
		good = !strcmp(f->nodes[r->node].name, d->rank.node) ||
		       (r->before != FLEET_NONE && !strcmp(f->nodes[r->before].name, d->rank.node));
	} else if (job) {
		good = false;
		for (uint32_t i = 0; i < job->part_count && !good; i++)
			good = job->parts[i].node != FLEET_NONE &&
			       !strcmp(f->nodes[job->parts[i].node].name, d->rank.node) &&
			       fleet_admit_believes(job, &job->parts[i]);
		good &= !job->world || d->rank.rank < job->world;
	}
	if (good && r && !r->compared)
		good = false;
	if (!good)
		f->counts.refused_window++;
	else if (r)
		fleet_pull_window(f, job, r, d, now_ns);
	pthread_mutex_unlock(&f->lock);
	return good;
}

/* ---- a second's work ---- */

static void forget(struct fleet *f, uint32_t at, uint64_t now_ns)
{
	struct fleet_job *job = f->jobs[at];

	/* the others still wait for who died */
	if (hang_is_open(job->hang))
		return;
	for (uint32_t i = 0; i < job->rank_count; i++) {
		struct fleet_rank *r = &job->ranks[i];

		if (!r->used || !too_old(f, r->seen_ns, now_ns))
			continue;
		cross_drop(job->cross, i, now_ns);
		hang_drop(job->hang, i);
		idmap_remove(&job->by_rank, r->key);
		rank_fini(f, r);
		job->used--;
		f->ranks--;
	}
	for (uint32_t i = 0; i < job->part_count; i++) {
		struct fleet_part *p = &job->parts[i];

		if (p->node == FLEET_NONE || !too_old(f, p->seen_ns, now_ns))
			continue;
		idmap_remove(&job->by_node, p->node);
		p->node = FLEET_NONE;
		p->proven = false;
	}
	if (job->used)
		return;
	idmap_remove(&f->by_name, job->key);
	f->jobs[at] = NULL;
	job_free(f, job);
}

/* Only the thread that ticks touches these; the disk is waited for without the lock. */
static void write_baselines(struct fleet *f, uint64_t now_ns, uint64_t now_unix_ns)
{
	uint64_t age = f->config.baseline_age_ns, saved = 0, failed = 0;

	for (uint32_t i = 0; i < f->save_count; i++) {
		struct fleet_save *s = &f->saves[i];
		int err = baselines_put(f->baselines, s->job, s->role, &s->run, s->body.data,
					s->body.bytes);

		saved += !err;
		failed += err != 0;
		buf_fini(&s->body);
	}
	f->save_count = 0;
	if (f->baselines && now_ns - f->expire_ns >= EXPIRE_NS) {
		f->expire_ns = now_ns;
		failed +=
		    baselines_expire(f->baselines, now_unix_ns > age ? now_unix_ns - age : 0) != 0;
	}
	pthread_mutex_lock(&f->lock);
	f->counts.baselines_saved += saved;
	f->counts.baselines_failed += failed;
	pthread_mutex_unlock(&f->lock);
}

void fleet_tick(struct fleet *f, uint64_t now_ns, uint64_t now_unix_ns)
{
	uint32_t count;

	pthread_mutex_lock(&f->lock);
	count = f->job_count;
	f->last_tick_ns = now_ns;
	pthread_mutex_unlock(&f->lock);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t told;

		pthread_mutex_lock(&f->lock);
		if (f->jobs[i])
			fleet_detect_tick(f, f->jobs[i], now_ns, now_unix_ns);
		if (f->jobs[i])
			forget(f, i, now_ns);
		told = f->pending_count;
		f->pending_count = 0;
		pthread_mutex_unlock(&f->lock);
		for (uint32_t k = 0; k < told && f->fn; k++)
			f->fn(f->arg, &f->pending[k]);
	}
	write_baselines(f, now_ns, now_unix_ns);
}

/* SPDX-License-Identifier: Apache-2.0
 * Two tables. Nodes have a table of fixed size, so that a flood of invented names cannot grow it.
 * Jobs have their ranks, LIMIT_FLEET_RANKS in all. A beat touches only its own ranks. Work over all
 * ranks of a job is done once a second, job by job, and the lock is released between two jobs. */
#include "aggregator/fleet/fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/hash.h"
#include "base/keyed.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/request.h"

#define PROBE_MAX 32u
/* A table filled this far is crowded: only believed nodes get the remaining places. */
#define CROWD(limit) ((limit) / 8 * 7)
#define EXPIRE_NS    600000000000ull

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
	f->nodes = mmap(NULL, LIMIT_FLEET_NODES * sizeof(*f->nodes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (f->nodes == MAP_FAILED) {
		free(f);
		return -ENOMEM;
	}
	pthread_mutex_init(&f->lock, NULL);
	f->config = *c;
	f->forget_ns = c->forget_ns;
	f->by_name.max = LIMIT_FLEET_JOBS;
	f->by_via.max = LIMIT_FLEET_NODES;
	*out = f;
	return 0;
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
	free(r->before);
	for (int k = 0; k < POD_TEXTS; k++)
		free(r->pod[k]);
	free(r->kernels);
	*r = (struct fleet_rank){0};
}

static void job_free(struct fleet *f, struct fleet_job *job)
{
	struct cross_stats c;

	if (job->cross) { /* keep the counts: counters must not fall */
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
	fleet_requests_free(f, job);
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
	for (uint32_t at = f->first_node; at; at = f->nodes[at - 1].next) {
		free(f->nodes[at - 1].commands);
		free(f->nodes[at - 1].held);
	}
	munmap(f->nodes, LIMIT_FLEET_NODES * sizeof(*f->nodes));
	idmap_fini(&f->by_name);
	idmap_fini(&f->by_via);
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

static uint64_t text_key(const char *text)
{
	return keyed_text(keyed_process(), text);
}

bool fleet_is_alive(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns)
{
	return now_ns <= seen_ns || now_ns - seen_ns <= f->config.alive_ns;
}

bool fleet_rank_is_alive(const struct fleet *f, const struct fleet_rank *r, uint64_t now_ns)
{
	return !r->ended && fleet_is_alive(f, r->seen_ns, now_ns);
}

/* According to its node's report. If the job hangs, every rank does. */
uint64_t fleet_rank_hangs(const struct fleet *f, const struct fleet_job *job,
			  const struct fleet_rank *r, uint64_t now_ns)
{
	if (!fleet_rank_is_alive(f, r, now_ns))
		return 0;
	return r->stalled_ns ? r->stalled_ns : hang_since_ns(job->hang);
}

static bool is_slow(const struct fleet_job *job, const struct fleet_rank *r)
{
	return cross_is_suspect(job->cross, (uint32_t)(r - job->ranks));
}

bool fleet_rank_is_suspect(const struct fleet_job *job, const struct fleet_rank *r)
{
	const struct finding *hang = hang_finding(job->hang);

	for (uint32_t i = 0; hang && i < hang->rank_count; i++)
		if (hang->ranks[i] == r->rank)
			return true;
	return is_slow(job, r);
}

uint32_t fleet_suspects(struct fleet_job *job)
{
	const struct finding *hang = hang_finding(job->hang);
	uint32_t count = cross_suspects(job->cross);

	for (uint32_t i = 0; hang && i < hang->rank_count; i++) {
		const struct fleet_rank *r = fleet_find_rank(job, hang->ranks[i]);

		count += r && !is_slow(job, r);
	}
	return count;
}

bool fleet_is_forgotten(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns)
{
	return now_ns > seen_ns && now_ns - seen_ns > f->forget_ns;
}

static bool is_crowded(const struct fleet *f)
{
	return f->ranks >= CROWD(LIMIT_FLEET_RANKS);
}

static uint64_t rank_key(const struct wire_rank *r)
{
	if (r->rank >= 0)
		return (uint32_t)r->rank;
	return keyed_words(keyed_process(), keyed_text(keyed_process(), r->node), r->pid) |
	       1ull << 63;
}

/* The key of a rank that another node has too. */
static uint64_t contested_key(const struct fleet_node *n, const struct wire_rank *r)
{
	return hash_bytes(n->key, &r->rank, sizeof(r->rank)) | 1ull << 63;
}

/* ---- a node's ranks ---- */

static bool hold_rank(struct fleet_node *n, struct fleet_job *job, uint32_t slot)
{
	if (ROOM_FOR(n->held, n->held_room, n->held_count + 1))
		return false;
	n->held[n->held_count++] = (struct fleet_held){job, slot};
	return true;
}

static void release_rank(struct fleet_node *n, const struct fleet_job *job, uint32_t slot)
{
	for (uint32_t i = 0; i < n->held_count; i++)
		if (n->held[i].job == job && n->held[i].slot == slot) {
			n->held[i] = n->held[--n->held_count];
			return;
		}
}

static void drop_rank(struct fleet *f, struct fleet_job *job, uint32_t slot, uint64_t now_ns)
{
	struct fleet_rank *r = &job->ranks[slot];

	release_rank(&f->nodes[r->node], job, slot);
	cross_drop(job->cross, slot, now_ns);
	hang_drop(job->hang, slot);
	idmap_remove(&job->by_rank, r->key);
	rank_fini(f, r);
	r->node = job->free_rank;
	job->free_rank = slot + 1;
	job->used--;
	f->ranks--;
}

/* Whether the node may have one more rank. If necessary, the rank that was silent for longest is
 * dropped. */
static bool has_room(struct fleet *f, struct fleet_node *n, uint64_t now_ns)
{
	uint64_t oldest_ns = UINT64_MAX;
	struct fleet_held oldest = {0};

	if (n->held_count < LIMIT_NODE_PROCESSES)
		return true;
	for (uint32_t i = 0; i < n->held_count; i++) {
		uint64_t seen_ns = n->held[i].job->ranks[n->held[i].slot].seen_ns;

		if (seen_ns < oldest_ns) {
			oldest_ns = seen_ns;
			oldest = n->held[i];
		}
	}
	if (fleet_is_alive(f, oldest_ns, now_ns)) {
		f->counts.refused_processes++;
		return false;
	}
	drop_rank(f, oldest.job, oldest.slot, now_ns);
	return true;
}

/* ---- lookup and creation ---- */

/* The i-th of PROBE_MAX places for a key. They are scattered, because adjacent places would fill up
 * together. */
static struct fleet_node *node_place(struct fleet *f, uint64_t key, uint32_t i)
{
	return &f->nodes[keyed_words(keyed_process(), key, i) % LIMIT_FLEET_NODES];
}

static struct fleet_node *find_node(struct fleet *f, const char *name)
{
	uint64_t key = text_key(name);

	for (uint32_t i = 0; i < PROBE_MAX; i++) {
		struct fleet_node *n = node_place(f, key, i);

		if (n->used && n->key == key && !strcmp(n->name, name))
			return n;
	}
	return NULL;
}

/* Takes a free place, or that of the node that was silent for longest. NULL: all nodes are
 * alive. */
static struct fleet_node *make_node(struct fleet *f, const char *name, uint64_t now_ns)
{
	uint64_t key = text_key(name);
	struct fleet_node *room = NULL;

	for (uint32_t i = 0; i < PROBE_MAX; i++) {
		struct fleet_node *n = node_place(f, key, i);

		if (n->used && fleet_is_alive(f, n->seen_ns, now_ns))
			continue;
		if (!room || n->seen_ns < room->seen_ns)
			room = n;
	}
	if (!room)
		return NULL;
	while (room->held_count)
		drop_rank(f, room->held[0].job, room->held[0].slot, now_ns);
	idmap_remove(&f->by_via, room->via);
	free(room->commands);
	free(room->held);
	if (!room->used) {
		room->next = f->first_node;
		f->first_node = 1 + (uint32_t)(room - f->nodes);
	}
	*room = (struct fleet_node){.key = key, .used = true, .next = room->next};
	text_copy(room->name, sizeof(room->name), name);
	return room;
}

struct fleet_job *fleet_find_job(const struct fleet *f, const char *name)
{
	uint32_t at = idmap_get(&f->by_name, text_key(name));
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
	/* One wrong flag in half a day for 80,000 ranks. It costs a few steps of delay. */
	c.false_per_member_hour = 1e-6;
	if (!job || at == LIMIT_FLEET_JOBS ||
	    idmap_get(&f->by_name, text_key(name)) != IDMAP_NONE ||
	    cross_open(&job->cross, name, &c) || hang_open(&job->hang, name))
		goto fail;
	text_copy(job->name, sizeof(job->name), name);
	job->key = text_key(name);
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
	uint32_t at = rank < 0 ? IDMAP_NONE : idmap_get(&job->by_rank, (uint32_t)rank);

	return at < job->rank_count && job->ranks[at].used ? &job->ranks[at] : NULL;
}

/* Detection refers to a rank by its slot. */
static struct fleet_rank *make_rank(struct fleet *f, struct fleet_job *job, uint32_t node,
				    uint64_t key)
{
	uint32_t at = job->free_rank ? job->free_rank - 1 : job->rank_count;
	struct fleet_rank *r;

	if (f->ranks == LIMIT_FLEET_RANKS || ROOM_FOR(job->ranks, job->rank_room, at + 1))
		return NULL;
	if (idmap_put(&job->by_rank, key, at))
		return NULL;
	if (!hold_rank(&f->nodes[node], job, at)) {
		idmap_remove(&job->by_rank, key);
		return NULL;
	}
	r = &job->ranks[at];
	if (at == job->rank_count)
		job->rank_count++;
	else
		job->free_rank = r->node;
	*r = (struct fleet_rank){.used = true, .key = key, .node = node, .role = FLEET_NONE};
	job->used++;
	f->ranks++;
	return r;
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

/* From now on the rank belongs to this node. */
static bool move_rank(struct fleet *f, struct fleet_job *job, struct fleet_rank *r, uint32_t node)
{
	uint32_t slot = (uint32_t)(r - job->ranks);

	if (r->node == node)
		return true;
	if (!hold_rank(&f->nodes[node], job, slot))
		return false;
	release_rank(&f->nodes[r->node], job, slot);
	set_text(&r->before, f->nodes[r->node].name);
	r->node = node;
	return true;
}

static void fill_rank(struct fleet_rank *r, const struct beat_rank *b, uint64_t now_ns)
{
	if (!r->seen_ns)
		r->born_ns = now_ns;
	if (!r->seen_ns || r->pid != b->rank.pid || r->start_time_ticks != b->rank.start_time_ticks)
		r->began_ns = now_ns;
	r->rank = b->rank.rank;
	r->world_size = b->rank.world_size;
	r->pid = b->rank.pid;
	r->start_time_ticks = b->rank.start_time_ticks;
	r->seen_ns = now_ns;
	r->ended = false;
	set_text(&r->program, b->rank.program);
	set_text(&r->role_text, b->rank.role);
	for (int k = 0; k < POD_TEXTS; k++)
		set_text(&r->pod[k], b->rank.pod.text[k]);
	fill_stats(&r->stats, b);
}

/* Whether another living node has the rank too. Nobody can decide which node is right, so both
 * entries stay visible. */
static bool is_contested(const struct fleet *f, const struct fleet_rank *r, uint32_t node,
			 uint64_t now_ns)
{
	return r && r->node != node && fleet_rank_is_alive(f, r, now_ns);
}

static void take_contested(struct fleet *f, struct fleet_job *job, struct fleet_node *n,
			   const struct beat_rank *b, uint64_t now_ns)
{
	uint64_t key = contested_key(n, &b->rank);
	uint32_t at = idmap_get(&job->by_rank, key);
	struct fleet_rank *r = at != IDMAP_NONE ? &job->ranks[at] : NULL;

	f->counts.refused_foreign++;
	job->refused++;
	if (!r && !is_crowded(f) && has_room(f, n, now_ns))
		r = make_rank(f, job, (uint32_t)(n - f->nodes), key);
	if (!r)
		return;
	r->contested = true;
	fill_rank(r, b, now_ns);
}

/* Call when the node has got the rank, or turns out to have it: drops its contested entry. */
static void end_contest(struct fleet *f, struct fleet_job *job, const struct fleet_node *n,
			const struct wire_rank *id, uint64_t now_ns)
{
	uint32_t at = idmap_get(&job->by_rank, contested_key(n, id));

	if (at != IDMAP_NONE)
		drop_rank(f, job, at, now_ns);
}

/* Converts a time of the node's clock to this machine's, assuming the beat of beat_ns arrived now;
 * 0 stays 0. */
static uint64_t since_here(uint64_t since_ns, uint64_t beat_ns, uint64_t now_ns)
{
	uint64_t age_ns = since_ns < beat_ns ? beat_ns - since_ns : 0;

	return !since_ns ? 0 : age_ns < now_ns ? now_ns - age_ns : 1;
}

/* Takes the last report of an ended process. */
static void take_end(struct fleet *f, const struct fleet_node *n, const struct beat_rank *b)
{
	struct fleet_job *job = fleet_find_job(f, b->rank.job);
	uint32_t at = job ? idmap_get(&job->by_rank, rank_key(&b->rank)) : IDMAP_NONE;
	struct fleet_rank *r = at != IDMAP_NONE ? &job->ranks[at] : NULL;

	if (!r || r->node != (uint32_t)(n - f->nodes) || r->pid != b->rank.pid ||
	    r->start_time_ticks != b->rank.start_time_ticks)
		return;
	r->ended = true;
	fill_stats(&r->stats, b);
	hang_end(job->hang, at);
}

static void take_rank(struct fleet *f, struct fleet_node *n, const struct beat_rank *b,
		      uint64_t now_ns)
{
	uint32_t node = (uint32_t)(n - f->nodes), at;
	struct fleet_job *job = fleet_find_job(f, b->rank.job);
	struct fleet_part *part = NULL;
	struct fleet_rank *r;
	bool restarted, joins;

	at = job ? idmap_get(&job->by_rank, rank_key(&b->rank)) : IDMAP_NONE;
	r = at != IDMAP_NONE ? &job->ranks[at] : NULL;
	if (is_contested(f, r, node, now_ns)) {
		take_contested(f, job, n, b, now_ns);
		return;
	}
	if (job)
		end_contest(f, job, n, &b->rank, now_ns);
	if ((!r || r->node != node) && !has_room(f, n, now_ns))
		return;
	if (!job) {
		job = make_job(f, b->rank.job, now_ns);
		if (job)
			job->sender = n->sender;
	}
	if (job && !fleet_admit_rank(f, job, &b->rank, node, now_ns))
		return;
	if (job)
		part = fleet_admit_part(f, job, node, now_ns);
	if (part)
		fleet_admit_prove(job, part, b);
	if (part && !r && (!is_crowded(f) || fleet_admit_believes(job, part)))
		r = make_rank(f, job, node, rank_key(&b->rank));
	restarted = r && r->seen_ns &&
		    (r->pid != b->rank.pid || r->node != node ||
		     r->start_time_ticks != b->rank.start_time_ticks);
	if (!part || !r || !move_rank(f, job, r, node)) {
		f->counts.dropped++;
		return;
	}
	joins = !r->seen_ns && part->proven;
	fill_rank(r, b, now_ns);
	r->stalled_ns = since_here(b->stalled_since_ns, n->now_ns, now_ns);
	/* Mark a job complete as soon as its last rank joins: then a node that appears even before
	 * the next tick is a stranger. */
	if (joins && !job->complete && job->world > 0 && job->used >= (uint32_t)job->world)
		fleet_admit_tick(f, job, now_ns);
	if (r->rank >= 0)
		fleet_detect_beat(f, job, (uint32_t)(r - job->ranks), b, n,
				  (uint32_t)(part - job->parts), restarted, now_ns);
}

/* The job of that name, if the node has a part of it. NULL: what the node says about the job is
 * dropped. */
static struct fleet_job *job_of_node(struct fleet *f, const struct fleet_node *n, const char *name,
				     bool *believed)
{
	struct fleet_job *job = fleet_find_job(f, name);
	const struct fleet_part *part =
	    job ? fleet_admit_find_part(f, job, (uint32_t)(n - f->nodes)) : NULL;

	f->counts.dropped += !part;
	*believed = part && fleet_admit_believes(job, part);
	return part ? job : NULL;
}

static void take_requests(struct fleet *f, struct fleet_node *n, const struct beat *b,
			  uint64_t now_ns)
{
	bool believed;

	for (uint32_t i = 0; i < b->request_count; i++) {
		struct fleet_job *job = job_of_node(f, n, b->requests[i].job, &believed);

		if (job)
			fleet_requests_beat(f, job, n, believed, &b->requests[i], now_ns);
	}
	for (uint32_t i = 0; i < b->piece_jobs; i++) {
		struct fleet_job *job = job_of_node(f, n, b->pieces[i].job, &believed);

		if (job)
			fleet_requests_pieces(f, job, n, believed, &b->pieces[i], now_ns);
	}
}

void fleet_beat(struct fleet *f, const struct beat *b, struct fleet_via via, uint64_t now_ns)
{
	struct fleet_node *n;
	bool good;

	pthread_mutex_lock(&f->lock);
	n = find_node(f, b->node);
	good = fleet_admit_beat(f, n, b, via.connection, now_ns);
	if (good && !n)
		n = make_node(f, b->node, now_ns);
	if (good && !n) {
		f->counts.dropped += 1 + b->rank_count;
	} else if (good) {
		fleet_admit_node(f, n, b, via.connection);
		n->sender = via.sender;
		n->seen_ns = now_ns;
		n->uploaded_bytes = b->uploaded_bytes;
		n->raw_bytes = b->raw_bytes;
		n->windows_dropped = b->windows_dropped;
		n->wire_version = b->wire_version;
		text_copy(n->version, sizeof(n->version), b->version);
		text_copy(n->certificate, sizeof(n->certificate),
			  via.certificate ? via.certificate : "");
		for (uint32_t i = 0; i < b->rank_count; i++)
			if (b->ranks[i].flags & BEAT_RANK_ENDED)
				take_end(f, n, &b->ranks[i]);
			else
				take_rank(f, n, &b->ranks[i], now_ns);
		take_requests(f, n, b, now_ns);
	}
	pthread_mutex_unlock(&f->lock);
}

void fleet_gone(struct fleet *f, uint64_t connection)
{
	uint32_t at;

	pthread_mutex_lock(&f->lock);
	at = idmap_get(&f->by_via, connection);
	if (at != IDMAP_NONE) {
		f->nodes[at].connected = false;
		idmap_remove(&f->by_via, connection);
	}
	pthread_mutex_unlock(&f->lock);
}

uint32_t fleet_commands(struct fleet *f, const struct beat *b, struct wire_command *out,
			uint32_t max)
{
	struct fleet_node *n;
	uint32_t count = 0;

	pthread_mutex_lock(&f->lock);
	n = find_node(f, b->node);
	/* do not send them to another node with the same name */
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
		      struct fleet_via via, uint64_t now_ns)
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
	       fleet_admit_heard(&f->nodes[r->node], via.connection) &&
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
out:
	pthread_mutex_unlock(&f->lock);
	return good;
}

/* Whether the sender's window counts. n: the sender, NULL if unknown; r NULL: no node has the
 * rank. */
static bool may_report(const struct fleet *f, struct fleet_job *job, const struct fleet_rank *r,
		       const struct fleet_node *n, const char *name)
{
	if (r)
		return r->compared && (!strcmp(f->nodes[r->node].name, name) ||
				       (r->before && !strcmp(r->before, name)));
	return n &&
	       fleet_admit_believes(job, fleet_admit_find_part(f, job, (uint32_t)(n - f->nodes)));
}

enum fleet_word fleet_window(struct fleet *f, struct digest *d, struct fleet_via via,
			     uint64_t now_ns)
{
	enum fleet_word word = FLEET_REFUSED;
	const struct fleet_node *n;
	struct fleet_job *job;
	struct fleet_rank *r;
	bool heard, may = false;

	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, d->rank.job);
	r = job ? fleet_find_rank(job, d->rank.rank) : NULL;
	n = find_node(f, d->rank.node);
	heard = fleet_admit_heard(n, via.connection);
	/* no beat names this job (its windows came late), so there are no ranks to check against */
	if (!job) {
		word = FLEET_TAKEN;
	} else if (!heard && now_ns - via.since_ns < LIMIT_FLEET_HEAR_NS) {
		word = FLEET_LATER;
	} else if (!heard || (!(may = may_report(f, job, r, n, d->rank.node)) &&
			      !fleet_requests_asked(f, job, n, d->anomaly_id))) {
		f->counts.refused_window++;
	} else if (!fleet_admit_window(job, &d->rank)) {
		f->counts.refused_world++;
	} else {
		word = FLEET_TAKEN;
		if (r && may) {
			d->beyond_peers =
			    cross_beyond_peers(job->cross, (uint32_t)(r - job->ranks));
			fleet_pull_window(f, job, r, d, now_ns);
		}
	}
	pthread_mutex_unlock(&f->lock);
	return word;
}

/* ---- the tick, once a second ---- */

static bool is_believed(const struct fleet *f, struct fleet_job *job, const struct fleet_rank *r)
{
	return fleet_admit_believes(job, fleet_admit_find_part(f, job, r->node));
}

/* While a table is crowded, shortens the time after which silent ranks are forgotten, so that the
 * longest silent ranks go first. */
static void set_forget(struct fleet *f)
{
	bool crowded = is_crowded(f) || f->by_name.count >= CROWD(LIMIT_FLEET_JOBS);

	f->forget_ns = crowded ? f->forget_ns / 2 : f->forget_ns * 2;
	if (f->forget_ns < f->config.alive_ns)
		f->forget_ns = f->config.alive_ns;
	if (f->forget_ns > f->config.forget_ns)
		f->forget_ns = f->config.forget_ns;
}

static void forget(struct fleet *f, uint32_t at, uint64_t now_ns)
{
	struct fleet_job *job = f->jobs[at];

	/* the other ranks still wait for the one that died */
	if (hang_is_open(job->hang))
		return;
	for (uint32_t i = 0; i < job->rank_count; i++) {
		struct fleet_rank *r = &job->ranks[i];

		if (r->used && (fleet_is_forgotten(f, r->seen_ns, now_ns) ||
				(is_crowded(f) && !is_believed(f, job, r))))
			drop_rank(f, job, i, now_ns);
	}
	fleet_admit_forget(f, job, now_ns);
	if (job->used)
		return;
	idmap_remove(&f->by_name, job->key);
	f->jobs[at] = NULL;
	job_free(f, job);
}

/* Writes to disk without the lock. Only the ticking thread uses the saves. */
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
	set_forget(f);
	pthread_mutex_unlock(&f->lock);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t reported;

		pthread_mutex_lock(&f->lock);
		if (f->jobs[i])
			fleet_detect_tick(f, f->jobs[i], now_ns, now_unix_ns);
		for (uint32_t k = 0; k < f->pending_count; k++)
			f->pending[k].sender = f->jobs[i]->sender;
		if (f->jobs[i])
			forget(f, i, now_ns);
		reported = f->pending_count;
		f->pending_count = 0;
		pthread_mutex_unlock(&f->lock);
		for (uint32_t k = 0; k < reported && f->fn; k++)
			f->fn(f->arg, &f->pending[k]);
	}
	write_baselines(f, now_ns, now_unix_ns);
}

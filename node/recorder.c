/* SPDX-License-Identifier: Apache-2.0
 * Both tiers are rings of whole blocks in the order of writing. To make room, the oldest block is
 * dropped, so there is no free list and no compaction.
 *
 * Packing and writing are a third of the cost of a record, and a disk may block. So a thread
 * does both. The caller passes it the memory of a full block, and gets that memory back after
 * packing. */
#include "node/recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/daemon/log.h"
#include "base/room.h"
#include "wire/codec.h"

#define RECORDER_MEMORY_BLOCKS 32768u
#define RECORDER_FILE_BLOCKS   131072u
#define RECORDER_SEGMENTS      16u
/* For incompressible records: 96 bytes, and the overhead of the columns. */
#define RECORDER_BLOCK_BYTES (RECORDER_BLOCK_RECORDS * 128u)
#define RECORDER_PATH_BYTES  512
#define PUSH_AHEAD	     3u /* records; the prefetch takes as long as about three pushes */

struct block {
	uint64_t owner, begin_ns, end_ns; /* when the first and the last record began */
	uint64_t at;			  /* offset in the arena or in the segment */
	uint32_t bytes, segment;
	uint8_t device;
};

struct block_ring {
	struct block *blocks;
	uint32_t capacity, head, count; /* head: oldest */
};

struct open_block {
	struct record *records;
	uint32_t count;
	uint64_t begin_ns, end_ns;
};

struct rank_place {
	uint64_t owner;		   /* 0: free */
	struct open_block open[2]; /* host, device */
};

struct full_block {
	struct record *records;
	uint32_t count;
	uint64_t owner, begin_ns, end_ns;
	bool device;
};

struct recorder {
	uint64_t records; /* pushed */
	/* Shared between caller and thread. */
	pthread_t thread;
	pthread_mutex_t queue_lock;
	/* filled: a block waits, or the thread must stop; packed: a block was packed */
	pthread_cond_t filled, packed;
	struct full_block queue[RECORDER_QUEUE];
	uint32_t queue_head, queue_count; /* the head stays until it is packed */
	struct record *spare[RECORDER_SPARES];
	uint32_t spare_count;
	bool thread_runs, stopping;

	/* The thread owns the fields that follow. The caller uses them with this lock, or while the
	 * queue is empty. */
	pthread_mutex_t store_lock;
	struct recorder_stats stats;
	uint8_t *arena;
	uint64_t arena_bytes, arena_head; /* arena_head: where the next block goes */
	struct block_ring memory, file;
	char dir[RECORDER_PATH_BYTES];
	uint64_t segment_max_bytes, segment_bytes;
	uint32_t segment; /* number of the segment being written */
	int fds[RECORDER_SEGMENTS];
	uint64_t segment_size[RECORDER_SEGMENTS];
	struct rank_place *places;
	uint32_t place_count;
	uint64_t gone_ns; /* end of the latest block that was lost or dropped */
	struct buf scratch;
};

static void *pack_blocks(void *arg);

static void segment_path(const struct recorder *r, uint32_t n, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s/rec-%08u.seg", r->dir, n);
}

static void remove_segments(const struct recorder *r)
{
	char path[RECORDER_PATH_BYTES + 300];
	struct dirent *e;
	DIR *d = opendir(r->dir);

	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "rec-", 4) && strstr(e->d_name, ".seg")) {
			snprintf(path, sizeof(path), "%s/%s", r->dir, e->d_name);
			unlink(path);
		}
	if (d)
		closedir(d);
}

static bool ring_init(struct block_ring *b, uint32_t capacity)
{
	b->capacity = capacity;
	b->blocks = calloc(capacity, sizeof(*b->blocks));
	return b->blocks;
}

static struct block *ring_at(const struct block_ring *b, uint32_t i)
{
	return &b->blocks[(b->head + i) % b->capacity];
}

static void ring_drop(struct block_ring *b)
{
	b->head = (b->head + 1) % b->capacity;
	b->count--;
}

static void forget(struct recorder *r, uint64_t end_ns)
{
	if (end_ns > r->gone_ns)
		r->gone_ns = end_ns;
}

static void file_drop(struct recorder *r)
{
	forget(r, ring_at(&r->file, 0)->end_ns);
	ring_drop(&r->file);
}

int recorder_open(struct recorder **out, const struct recorder_config *c)
{
	struct recorder *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	for (uint32_t i = 0; i < RECORDER_SEGMENTS; i++)
		r->fds[i] = -1;
	pthread_mutex_init(&r->queue_lock, NULL);
	pthread_mutex_init(&r->store_lock, NULL);
	pthread_cond_init(&r->filled, NULL);
	pthread_cond_init(&r->packed, NULL);
	buf_init(&r->scratch, RECORDER_BLOCK_BYTES);
	r->arena_bytes =
	    c->memory_bytes > RECORDER_BLOCK_BYTES ? c->memory_bytes : RECORDER_BLOCK_BYTES;
	r->arena = mmap(NULL, r->arena_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r->place_count = c->ranks_max;
	r->places = calloc(c->ranks_max, sizeof(*r->places));
	if (r->arena == MAP_FAILED)
		r->arena = NULL;
	if (!r->arena || !r->places || !ring_init(&r->memory, RECORDER_MEMORY_BLOCKS))
		goto fail;
	if (c->file_bytes && c->dir && strlen(c->dir) < RECORDER_PATH_BYTES - 32) {
		if (!ring_init(&r->file, RECORDER_FILE_BLOCKS))
			goto fail;
		snprintf(r->dir, sizeof(r->dir), "%s", c->dir);
		r->segment_max_bytes = c->file_bytes / RECORDER_SEGMENTS;
		if (r->segment_max_bytes < RECORDER_BLOCK_BYTES)
			r->segment_max_bytes = RECORDER_BLOCK_BYTES;
		remove_segments(r);
	}
	if (pthread_create(&r->thread, NULL, pack_blocks, r))
		goto fail;
	r->thread_runs = true;
	*out = r;
	return 0;
fail:
	recorder_close(r);
	return -ENOMEM;
}

/* Packs all waiting blocks first. */
static void stop_thread(struct recorder *r)
{
	if (!r->thread_runs)
		return;
	pthread_mutex_lock(&r->queue_lock);
	r->stopping = true;
	pthread_cond_signal(&r->filled);
	pthread_mutex_unlock(&r->queue_lock);
	pthread_join(r->thread, NULL);
}

void recorder_close(struct recorder *r)
{
	if (!r)
		return;
	stop_thread(r);
	for (uint32_t i = 0; i < r->place_count && r->places; i++)
		recorder_drop_rank(r, i);
	while (r->spare_count)
		free(r->spare[--r->spare_count]);
	for (uint32_t i = 0; i < RECORDER_SEGMENTS; i++)
		if (r->fds[i] >= 0)
			close(r->fds[i]);
	if (r->dir[0])
		remove_segments(r);
	if (r->arena)
		munmap(r->arena, r->arena_bytes);
	buf_fini(&r->scratch);
	free(r->memory.blocks);
	free(r->file.blocks);
	free(r->places);
	pthread_cond_destroy(&r->packed);
	pthread_cond_destroy(&r->filled);
	pthread_mutex_destroy(&r->store_lock);
	pthread_mutex_destroy(&r->queue_lock);
	free(r);
}

int recorder_add_rank(struct recorder *r, uint32_t slot, uint64_t owner)
{
	struct rank_place *p;

	CHECK(slot < r->place_count);
	p = &r->places[slot];
	for (int i = 0; i < 2; i++) {
		p->open[i].count = 0;
		if (!p->open[i].records)
			p->open[i].records = malloc(sizeof(struct record) * RECORDER_BLOCK_RECORDS);
		if (!p->open[i].records)
			return -ENOMEM;
	}
	p->owner = owner;
	return 0;
}

void recorder_drop_rank(struct recorder *r, uint32_t slot)
{
	struct rank_place *p = &r->places[slot];

	for (int i = 0; i < 2; i++) {
		free(p->open[i].records);
		p->open[i] = (struct open_block){0};
	}
	p->owner = 0;
}

/* ---- files ---- */

static void drop_segment(struct recorder *r, uint32_t n)
{
	char path[RECORDER_PATH_BYTES + 32];
	uint32_t i = n % RECORDER_SEGMENTS;

	while (r->file.count && ring_at(&r->file, 0)->segment <= n)
		file_drop(r);
	if (r->fds[i] < 0)
		return;
	close(r->fds[i]);
	r->fds[i] = -1;
	r->stats.file_bytes -= r->segment_size[i];
	r->segment_size[i] = 0;
	segment_path(r, n, path, sizeof(path));
	unlink(path);
}

static int next_segment(struct recorder *r)
{
	char path[RECORDER_PATH_BYTES + 32];
	uint32_t n = r->segment + 1;

	if (n >= RECORDER_SEGMENTS)
		drop_segment(r, n - RECORDER_SEGMENTS);
	segment_path(r, n, path, sizeof(path));
	r->fds[n % RECORDER_SEGMENTS] = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	if (r->fds[n % RECORDER_SEGMENTS] < 0)
		return -errno;
	r->segment = n;
	r->segment_bytes = 0;
	return 0;
}

/* Writes a block that leaves memory. */
static int file_put(struct recorder *r, const struct block *b)
{
	uint32_t i;
	ssize_t n;

	if (!r->file.blocks)
		return -ENOENT;
	if (!r->segment || r->fds[r->segment % RECORDER_SEGMENTS] < 0 ||
	    r->segment_bytes + b->bytes > r->segment_max_bytes) {
		int err = next_segment(r);

		if (err)
			return err;
	}
	i = r->segment % RECORDER_SEGMENTS;
	n = pwrite(r->fds[i], r->arena + b->at, b->bytes, (off_t)r->segment_bytes);
	if (n != (ssize_t)b->bytes)
		return n < 0 ? -errno : -ENOSPC;
	if (r->file.count == r->file.capacity)
		file_drop(r);
	r->file.count++;
	*ring_at(&r->file, r->file.count - 1) = *b;
	ring_at(&r->file, r->file.count - 1)->at = r->segment_bytes;
	ring_at(&r->file, r->file.count - 1)->segment = r->segment;
	r->segment_bytes += b->bytes;
	r->segment_size[i] = r->segment_bytes;
	r->stats.file_bytes += b->bytes;
	return 0;
}

/* ---- memory ---- */

static void evict(struct recorder *r)
{
	const struct block *b = ring_at(&r->memory, 0);
	int err = file_put(r, b);

	if (err)
		forget(r, b->end_ns);
	if (err && err != -ENOENT)
		log_warn("recorder", "cannot write a block: %s", strerror(-err));
	r->stats.memory_bytes -= b->bytes;
	ring_drop(&r->memory);
}

/* Makes room at arena_head. Blocks lie in ring order, so only the oldest ones are in the way. */
static void make_room(struct recorder *r, uint32_t bytes)
{
	if (r->arena_head + bytes > r->arena_bytes) {
		/* The rest of the arena is too short: evict the blocks in it, and start over. */
		while (r->memory.count && ring_at(&r->memory, 0)->at >= r->arena_head)
			evict(r);
		r->arena_head = 0;
	}
	while (r->memory.count) {
		const struct block *b = ring_at(&r->memory, 0);

		if (r->memory.count < r->memory.capacity &&
		    (b->at >= r->arena_head + bytes || b->at + b->bytes <= r->arena_head))
			break;
		evict(r);
	}
}

static void store_block(struct recorder *r, const struct full_block *f)
{
	struct block *b;

	make_room(r, (uint32_t)r->scratch.bytes);
	memcpy(r->arena + r->arena_head, r->scratch.data, r->scratch.bytes);
	r->memory.count++;
	b = ring_at(&r->memory, r->memory.count - 1);
	*b = (struct block){.owner = f->owner,
			    .begin_ns = f->begin_ns,
			    .end_ns = f->end_ns,
			    .at = r->arena_head,
			    .bytes = (uint32_t)r->scratch.bytes,
			    .device = f->device};
	r->arena_head += r->scratch.bytes;
	r->stats.memory_bytes += r->scratch.bytes;
	r->stats.stored_bytes += r->scratch.bytes;
	r->stats.blocks++;
}

/* ---- the thread ---- */

static void lose(struct recorder *r, const struct full_block *f)
{
	r->stats.lost_records += f->count;
	forget(r, f->end_ns);
}

static void pack_block(struct recorder *r, const struct full_block *f)
{
	bool lost;

	buf_clear(&r->scratch);
	lost = wire_records_encode(f->records, f->count, &r->scratch) || r->scratch.failed ||
	       r->scratch.bytes > r->arena_bytes;
	pthread_mutex_lock(&r->store_lock);
	if (lost)
		lose(r, f);
	else
		store_block(r, f);
	pthread_mutex_unlock(&r->store_lock);
}

static void *pack_blocks(void *arg)
{
	struct recorder *r = arg;

	pthread_mutex_lock(&r->queue_lock);
	for (;;) {
		struct full_block f;

		while (!r->queue_count && !r->stopping)
			pthread_cond_wait(&r->filled, &r->queue_lock);
		if (!r->queue_count)
			break;
		f = r->queue[r->queue_head];
		pthread_mutex_unlock(&r->queue_lock);
		pack_block(r, &f);
		pthread_mutex_lock(&r->queue_lock);
		r->queue_head = (r->queue_head + 1) % RECORDER_QUEUE;
		r->queue_count--;
		CHECK(r->spare_count < RECORDER_SPARES);
		r->spare[r->spare_count++] = f.records;
		pthread_cond_signal(&r->packed);
	}
	pthread_mutex_unlock(&r->queue_lock);
	return NULL;
}

/* Waits until the queue is empty. Then all records are in packed or open blocks. */
static void wait_packed(struct recorder *r)
{
	pthread_mutex_lock(&r->queue_lock);
	while (r->queue_count)
		pthread_cond_wait(&r->packed, &r->queue_lock);
	pthread_mutex_unlock(&r->queue_lock);
}

/* ---- input ---- */

/* Passes the open block to the thread, and gets other memory. */
static void close_block(struct recorder *r, struct rank_place *p, bool device)
{
	struct open_block *o = &p->open[device];
	struct full_block f = {.records = o->records,
			       .count = o->count,
			       .owner = p->owner,
			       .begin_ns = o->begin_ns,
			       .end_ns = o->end_ns,
			       .device = device};
	struct record *next = NULL;

	o->count = 0;
	pthread_mutex_lock(&r->queue_lock);
	while (r->queue_count == RECORDER_QUEUE)
		pthread_cond_wait(&r->packed, &r->queue_lock);
	if (r->spare_count)
		next = r->spare[--r->spare_count];
	else
		next = malloc(sizeof(*next) * RECORDER_BLOCK_RECORDS);
	if (next) {
		o->records = next;
		r->queue[(r->queue_head + r->queue_count++) % RECORDER_QUEUE] = f;
		pthread_cond_signal(&r->filled);
	}
	pthread_mutex_unlock(&r->queue_lock);
	if (next)
		return;
	pthread_mutex_lock(&r->store_lock);
	lose(r, &f);
	pthread_mutex_unlock(&r->store_lock);
}

void recorder_push(struct recorder *r, uint32_t slot, const struct record *rec)
{
	struct rank_place *p = &r->places[slot];
	bool device = RECORD_IS_DEVICE(rec->kind);
	struct open_block *o = &p->open[device];

	if (!o->count || rec->begin_ns < o->begin_ns)
		o->begin_ns = rec->begin_ns;
	if (!o->count || rec->begin_ns > o->end_ns)
		o->end_ns = rec->begin_ns;
	o->records[o->count++] = *rec;
	/* Pushes to a block are so rare that its memory leaves the caches. */
	__builtin_prefetch(&o->records[o->count + PUSH_AHEAD], 1);
	__builtin_prefetch((const char *)&o->records[o->count + PUSH_AHEAD] + 64, 1);
	r->records++;
	if (o->count == RECORDER_BLOCK_RECORDS)
		close_block(r, p, device);
}

/* ---- extraction ---- */

struct gather {
	struct record *records;
	uint32_t count, max;
	size_t room;
	/* cut_ns: start of the first record without room; UINT64_MAX: all had room. */
	uint64_t begin_ns, end_ns, cut_ns;
};

static int gather_add(struct gather *g, const struct record *rec, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (rec[i].begin_ns < g->begin_ns || rec[i].begin_ns > g->end_ns)
			continue;
		if (g->count == g->max) {
			g->cut_ns = rec[i].begin_ns < g->cut_ns ? rec[i].begin_ns : g->cut_ns;
			return 0;
		}
		if (ROOM_FOR(g->records, g->room, g->count + 1ull))
			return -ENOMEM;
		g->records[g->count++] = rec[i];
	}
	return 0;
}

static int gather_bytes(struct gather *g, const void *data, size_t bytes)
{
	struct record *records;
	uint32_t count;
	int err = wire_records_decode(data, bytes, &records, &count);

	if (err)
		return err;
	err = gather_add(g, records, count);
	free(records);
	return err;
}

static bool wanted(const struct block *b, const struct gather *g, uint64_t owner, bool device)
{
	return b->owner == owner && b->device == device && b->begin_ns <= g->end_ns &&
	       b->end_ns >= g->begin_ns;
}

static int gather_file(struct recorder *r, struct gather *g, const struct block *b)
{
	uint8_t *p;

	buf_clear(&r->scratch);
	p = buf_reserve(&r->scratch, b->bytes);
	if (!p)
		return -ENOMEM;
	if (pread(r->fds[b->segment % RECORDER_SEGMENTS], p, b->bytes, (off_t)b->at) !=
	    (ssize_t)b->bytes) {
		log_warn("recorder", "cannot read a block: %s", strerror(errno));
		return 0;
	}
	return gather_bytes(g, p, b->bytes) == -ENOMEM ? -ENOMEM : 0;
}

static int gather_all(struct recorder *r, const struct rank_place *p, bool device, struct gather *g)
{
	int err = 0;

	for (uint32_t i = 0; i < r->file.count && !err && g->cut_ns == UINT64_MAX; i++)
		if (wanted(ring_at(&r->file, i), g, p->owner, device))
			err = gather_file(r, g, ring_at(&r->file, i));
	for (uint32_t i = 0; i < r->memory.count && !err && g->cut_ns == UINT64_MAX; i++) {
		const struct block *b = ring_at(&r->memory, i);

		if (wanted(b, g, p->owner, device))
			err = gather_bytes(g, r->arena + b->at, b->bytes);
	}
	return err ? err : gather_add(g, p->open[device].records, p->open[device].count);
}

static int by_begin(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	bool device = RECORD_IS_DEVICE(x->kind);
	uint32_t p = device ? x->stream : x->thread, q = device ? y->stream : y->thread;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	if (p != q)
		return p < q ? -1 : 1;
	return device && x->correlation != y->correlation
		   ? (x->correlation < y->correlation ? -1 : 1)
		   : 0;
}

int recorder_extract(struct recorder *r, uint32_t slot, uint64_t begin_ns, uint64_t end_ns,
		     uint32_t max, struct recorder_extract *out)
{
	struct gather all = {.max = max,
			     .begin_ns = begin_ns,
			     .end_ns = end_ns,
			     .cut_ns = UINT64_MAX},
		      g[2] = {all, all};
	struct rank_place *p = &r->places[slot];

	*out = (struct recorder_extract){0};
	wait_packed(r); /* only the caller pushes, so the thread is idle from here on */
	for (int i = 0; i < 2; i++) {
		if (p->owner && gather_all(r, p, i, &g[i])) {
			free(g[0].records);
			free(g[1].records);
			return -ENOMEM;
		}
		if (g[i].count)
			qsort(g[i].records, g[i].count, sizeof(struct record), by_begin);
	}
	out->host = g[0].records;
	out->host_count = g[0].count;
	out->device = g[1].records;
	out->device_count = g[1].count;
	out->from_ns = r->gone_ns;
	out->until_ns = g[0].cut_ns < g[1].cut_ns ? g[0].cut_ns : g[1].cut_ns;
	return 0;
}

void recorder_extract_free(struct recorder_extract *x)
{
	free(x->host);
	free(x->device);
	*x = (struct recorder_extract){0};
}

void recorder_stats(const struct recorder *r, struct recorder_stats *out)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&r->store_lock;

	pthread_mutex_lock(lock);
	*out = r->stats;
	out->records = r->records;
	out->oldest_ns = 0;
	if (r->file.count)
		out->oldest_ns = ring_at(&r->file, 0)->begin_ns;
	else if (r->memory.count)
		out->oldest_ns = ring_at(&r->memory, 0)->begin_ns;
	pthread_mutex_unlock(lock);
}

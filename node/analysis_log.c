/* SPDX-License-Identifier: Apache-2.0
 * The loop fills one block while the thread packs and writes the earlier ones. If no block is free,
 * the recording ends, because a replay needs every event: after a hole the rest would be
 * worthless. */
#include "node/analysis_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/daemon/log.h"
#include "base/all_bytes.h"

#define BLOCKS	 5u /* one is being filled, at most four wait */
#define FLUSH_NS 1000000000ull
/* Reserved for the block that says why the recording ended. */
#define END_BYTES 512u

struct block {
	struct journal_writer writer;
	uint64_t events;
};

struct analysis_log {
	struct block block[BLOCKS];
	uint32_t fill;	   /* the loop's; the thread owns the blocks from `next` up to this one */
	uint64_t since_ns; /* when analysis_log_tend first saw an event in it; 0: not yet */
	bool refused;	   /* the loop's: the recording has ended */
	uint64_t lost;	   /* the loop's */
	int fd;
	uint64_t bytes_max;
	struct buf packed; /* the thread's */
	pthread_t thread;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t wake;
	uint32_t next;
	bool stopping, ended;
	bool closed; /* the end is written, or cannot be written */
	uint32_t why;
	uint64_t bytes, events, lost_blocks;
};

/* ---- the thread ---- */

/* 0; -ENOSPC: beyond the size limit; -errno. */
static int put_block(struct analysis_log *l, struct journal_writer *w, uint64_t spare)
{
	int err;

	buf_clear(&l->packed);
	err = journal_writer_pack(w, &l->packed);
	if (!err && l->bytes + l->packed.bytes + spare > l->bytes_max)
		err = -ENOSPC;
	if (!err)
		err = all_bytes_write(l->fd, l->packed.data, l->packed.bytes);
	return err;
}

/* Writes the last block. w: any free writer. Returns the bytes written. */
static uint64_t put_end(struct analysis_log *l, struct journal_writer *w, uint32_t why)
{
	struct journal_event e = {.kind = JOURNAL_END};

	e.as.end = why;
	journal_writer_clear(w);
	journal_writer_event(w, &e);
	if (!put_block(l, w, 0))
		return l->packed.bytes;
	log_warn("record", "cannot write the end of the recording");
	return 0;
}

/* The caller holds the lock; it is released while the block is written. */
static void write_block(struct analysis_log *l, struct block *b)
{
	bool closed = l->closed;
	uint64_t bytes = 0;
	uint32_t why = 0;
	int err;

	pthread_mutex_unlock(&l->lock);
	err = closed ? -ECANCELED : put_block(l, &b->writer, END_BYTES);
	if (!err)
		bytes = l->packed.bytes;
	if (err && !closed) {
		why = err == -ENOSPC ? JOURNAL_END_FULL : JOURNAL_END_BUSY;
		log_warn("record", "recording ended: %s",
			 err == -ENOSPC ? "size limit reached" : strerror(-err));
		/* Remove the partly written block. */
		if (ftruncate(l->fd, (off_t)l->bytes) || lseek(l->fd, 0, SEEK_END) < 0)
			log_warn("record", "cannot remove a partly written block: %s",
				 strerror(errno));
		bytes = put_end(l, &b->writer, why);
	}
	pthread_mutex_lock(&l->lock);
	l->bytes += bytes;
	l->events += err ? 0 : b->events;
	l->lost_blocks += err ? b->events : 0;
	if (err && !closed) {
		l->ended = l->closed = true;
		l->why = why;
	}
	journal_writer_clear(&b->writer);
	b->events = 0;
}

static void *analysis_log_thread(void *arg)
{
	struct analysis_log *l = arg;

	pthread_mutex_lock(&l->lock);
	for (;;) {
		while (l->next == l->fill && !l->stopping)
			pthread_cond_wait(&l->wake, &l->lock);
		if (l->next == l->fill)
			break;
		write_block(l, &l->block[l->next]);
		l->next = (l->next + 1) % BLOCKS;
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* ---- the loop ---- */

int analysis_log_open(struct analysis_log **out, const char *path, uint64_t bytes_max)
{
	struct analysis_log *l = calloc(1, sizeof(*l));
	int err = l ? 0 : -ENOMEM;

	if (err)
		return err;
	l->bytes_max = bytes_max;
	buf_init(&l->packed, LIMIT_JOURNAL_BLOCK_BYTES + JOURNAL_HEAD_BYTES);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->wake, NULL);
	for (uint32_t i = 0; i < BLOCKS && !err; i++)
		err = journal_writer_init(&l->block[i].writer);
	l->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (!err && l->fd < 0)
		err = -errno;
	if (!err)
		err = all_bytes_write(l->fd, (const uint8_t *)JOURNAL_MAGIC, JOURNAL_MAGIC_BYTES);
	l->bytes = JOURNAL_MAGIC_BYTES;
	if (!err)
		err = -pthread_create(&l->thread, NULL, analysis_log_thread, l);
	if (!err) {
		*out = l;
		return 0;
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		journal_writer_fini(&l->block[i].writer);
	if (l->fd >= 0)
		close(l->fd);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->wake);
	free(l);
	return err;
}

/* Passes the full block to the thread. The recording ends if there is no free block. */
static void queue_block(struct analysis_log *l)
{
	uint32_t after = (l->fill + 1) % BLOCKS;

	pthread_mutex_lock(&l->lock);
	if (!l->ended && after == l->next) {
		l->ended = true;
		l->why = JOURNAL_END_BUSY;
	}
	l->refused = l->ended;
	if (!l->ended) {
		l->fill = after;
		pthread_cond_signal(&l->wake);
	}
	pthread_mutex_unlock(&l->lock);
	if (l->refused)
		l->lost += l->block[l->fill].events;
	l->since_ns = 0;
	if (!l->refused)
		return;
	log_warn("record", "recording ended: %s", journal_end_name(l->why));
	journal_writer_clear(&l->block[l->fill].writer);
	l->block[l->fill].events = 0;
}

/* The writer for the next event; NULL: the recording has ended. */
static struct journal_writer *next_writer(struct analysis_log *l)
{
	if (!l->refused && journal_writer_full(&l->block[l->fill].writer))
		queue_block(l);
	if (l->refused) {
		l->lost++;
		return NULL;
	}
	l->block[l->fill].events++;
	return &l->block[l->fill].writer;
}

static void put(struct analysis_log *l, const struct journal_event *e)
{
	struct journal_writer *w = next_writer(l);

	if (w)
		journal_writer_event(w, e);
}

void analysis_log_close(struct analysis_log *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	pthread_mutex_lock(&l->lock);
	if (l->block[l->fill].events) /* here the caller may wait for the disk */
		write_block(l, &l->block[l->fill]);
	pthread_mutex_unlock(&l->lock);
	/* A recording that ended at its size limit already has its last block. One that ended
	 * because of a slow disk gets it now. */
	if (!l->closed)
		l->bytes +=
		    put_end(l, &l->block[l->fill].writer, l->ended ? l->why : JOURNAL_END_CLEAN);
	log_info("record", "bytes=%llu events=%llu lost=%llu", (unsigned long long)l->bytes,
		 (unsigned long long)l->events, (unsigned long long)(l->lost + l->lost_blocks));
	close(l->fd);
	for (uint32_t i = 0; i < BLOCKS; i++)
		journal_writer_fini(&l->block[i].writer);
	buf_fini(&l->packed);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->wake);
	free(l);
}

void analysis_log_rank(struct analysis_log *l, uint32_t slot, const struct journal_rank *r)
{
	struct journal_event e = {.kind = JOURNAL_RANK, .slot = slot};

	e.as.rank = *r;
	if (l)
		put(l, &e);
}

void analysis_log_sample(struct analysis_log *l, uint32_t slot, const struct judge_sample *s)
{
	struct journal_event e = {.kind = JOURNAL_SAMPLE, .slot = slot};

	e.as.sample = *s;
	if (l)
		put(l, &e);
}

void analysis_log_record(struct analysis_log *l, uint32_t slot, const struct record *r,
			 const struct step_mark *mark)
{
	struct journal_writer *w = l ? next_writer(l) : NULL;

	if (w)
		journal_writer_record(w, slot, r, mark);
}

void analysis_log_run(struct analysis_log *l, uint32_t slot, uint64_t device_ns)
{
	struct journal_event e = {.kind = JOURNAL_RUN, .slot = slot};

	e.as.device_ns = device_ns;
	if (l)
		put(l, &e);
}

void analysis_log_finish(struct analysis_log *l, uint32_t slot)
{
	struct journal_event e = {.kind = JOURNAL_FINISH, .slot = slot};

	if (l)
		put(l, &e);
}

void analysis_log_step(struct analysis_log *l, uint32_t slot, const struct step *s,
		       uint64_t stalled_ns, const struct judge_verdict *v)
{
	struct journal_event e = {.kind = JOURNAL_STEP, .slot = slot};

	e.as.step = (struct journal_step){*s, stalled_ns, *v};
	if (l)
		put(l, &e);
}

void analysis_log_compare(struct analysis_log *l, uint32_t slot, uint64_t key, bool used)
{
	struct journal_event e = {.kind = JOURNAL_COMPARE, .slot = slot};

	e.as.compare.key = key;
	e.as.compare.used = used;
	if (l)
		put(l, &e);
}

void analysis_log_forget(struct analysis_log *l, uint32_t slot)
{
	struct journal_event e = {.kind = JOURNAL_FORGET, .slot = slot};

	if (l)
		put(l, &e);
}

void analysis_log_flag(struct analysis_log *l, const struct local_peers_flag *f)
{
	struct journal_event e = {.kind = JOURNAL_FLAG, .slot = f->slot};

	e.as.flag = *f;
	if (l)
		put(l, &e);
}

void analysis_log_tend(struct analysis_log *l, uint64_t now_ns)
{
	if (!l || l->refused || !l->block[l->fill].events)
		return;
	if (!l->since_ns)
		l->since_ns = now_ns;
	else if (now_ns - l->since_ns >= FLUSH_NS)
		queue_block(l);
}

void analysis_log_stats(struct analysis_log *l, struct analysis_log_stats *out)
{
	*out = (struct analysis_log_stats){0};
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	*out = (struct analysis_log_stats){.bytes = l->bytes,
					   .events = l->events,
					   .lost = l->lost + l->lost_blocks,
					   .ended = l->ended,
					   .why = l->why};
	pthread_mutex_unlock(&l->lock);
}

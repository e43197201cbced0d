/* SPDX-License-Identifier: Apache-2.0
 * nccl_peers.c - ranks share only the latest arrival and a count. Each rank computes the same end
 * from them, so no message is needed. */
#include "sim/nccl_peers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/scramble.h"

#define COLLECTIVE_PLACES 256u
#define MESSAGE_PLACES	  32u
#define SPLIT_PLACES	  8u

struct split_entry {
	int32_t color, key;
};

struct split_place {
	uint32_t generation, told, acked, pad;
	struct split_entry entries[NCCL_PEERS_MAX_RANKS];
};

struct segment {
	uint32_t joined; /* futex */
	uint32_t word;	 /* futex */
	uint32_t split_word;
	uint32_t pad;
	struct split_place splits[SPLIT_PLACES];
	struct nccl_meet collectives[COLLECTIVE_PLACES];
	struct nccl_meet messages[]; /* rank_count squared times MESSAGE_PLACES */
};

struct nccl_peers {
	struct segment *seg;
	size_t bytes;
	int rank, rank_count;
	uint8_t id[NCCL_PEERS_ID_BYTES];
	char path[128];
};

static void wait_word(uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void wake_word(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Increments the word; pairs with the acquire loads of the GPU's worker. */
static void announce(uint32_t *word)
{
	__atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
	wake_word(word);
}

static int segment_open(const char *name, char *path, size_t path_bytes)
{
	const char *dirs[] = {getenv("SIM_NCCL_DIR"), "/dev/shm", getenv("TMPDIR"), "/tmp"};
	int fd = -1;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && fd < 0; i++) {
		if (!dirs[i])
			continue;
		snprintf(path, path_bytes, "%s/%s", dirs[i], name);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	}
	return fd;
}

int nccl_peers_open(struct nccl_peers **out, const uint8_t id[NCCL_PEERS_ID_BYTES], int rank,
		    int rank_count)
{
	struct nccl_peers *p;
	char name[64] = "simnccl-";
	int fd, rc;

	if (rank_count < 1 || rank_count > NCCL_PEERS_MAX_RANKS || rank < 0 || rank >= rank_count)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	for (int i = 0; i < NCCL_PEERS_ID_BYTES; i++)
		sprintf(name + 8 + 2 * i, "%02x", id[i]);
	p->rank = rank;
	p->rank_count = rank_count;
	memcpy(p->id, id, sizeof(p->id));
	p->bytes = sizeof(struct segment) + (size_t)rank_count * (size_t)rank_count *
						MESSAGE_PLACES * sizeof(struct nccl_meet);
	fd = segment_open(name, p->path, sizeof(p->path));
	if (fd < 0) {
		rc = -errno;
		goto out;
	}
	if (ftruncate(fd, (off_t)p->bytes)) {
		rc = -errno;
		close(fd);
		goto out;
	}
	p->seg = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	rc = p->seg == MAP_FAILED ? -errno : 0;
	close(fd);
	if (rc)
		goto out;
	if (__atomic_add_fetch(&p->seg->joined, 1, __ATOMIC_ACQ_REL) == (uint32_t)rank_count) {
		unlink(p->path);
		wake_word(&p->seg->joined);
	}
	*out = p;
	return 0;
out:
	free(p);
	return rc;
}

void nccl_peers_wait(struct nccl_peers *p)
{
	uint32_t n;

	while ((n = __atomic_load_n(&p->seg->joined, __ATOMIC_ACQUIRE)) < (uint32_t)p->rank_count)
		wait_word(&p->seg->joined, n);
}

void nccl_peers_close(struct nccl_peers *p)
{
	if (!p)
		return;
	munmap(p->seg, p->bytes);
	free(p);
}

uint32_t *nccl_peers_word(struct nccl_peers *p)
{
	return &p->seg->word;
}

struct nccl_meet *nccl_peers_collective(struct nccl_peers *p, uint64_t k, uint32_t *generation)
{
	*generation = (uint32_t)(k / COLLECTIVE_PLACES);
	return &p->seg->collectives[k % COLLECTIVE_PLACES];
}

struct nccl_meet *nccl_peers_message(struct nccl_peers *p, int src, int dst, uint64_t k,
				     uint32_t *generation)
{
	size_t pair = (size_t)src * (size_t)p->rank_count + (size_t)dst;

	*generation = (uint32_t)(k / MESSAGE_PLACES);
	return &p->seg->messages[pair * MESSAGE_PLACES + k % MESSAGE_PLACES];
}

static void raise_to(uint64_t *word, uint64_t value)
{
	uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (seen < value && !__atomic_compare_exchange_n(word, &seen, value, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

bool nccl_peers_arrive(struct nccl_peers *p, struct nccl_meet *m, uint32_t generation,
		       uint32_t need, uint32_t what, uint64_t start_ns, uint64_t cost_ns)
{
	uint32_t first = 0;

	if (__atomic_load_n(&m->generation, __ATOMIC_ACQUIRE) != generation)
		return false;
	raise_to(&m->latest_ns, start_ns);
	raise_to(&m->cost_ns, cost_ns);
	/* visible together with `arrived`, which is released after it */
	if (!__atomic_compare_exchange_n(&m->what, &first, what, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    first != what)
		__atomic_store_n(&m->what, NCCL_PEERS_TORN, __ATOMIC_RELAXED);
	/* release; pairs with the acquire in nccl_peers_end */
	if (__atomic_add_fetch(&m->arrived, 1, __ATOMIC_ACQ_REL) == need && need > 1)
		announce(&p->seg->word);
	return true;
}

uint64_t nccl_peers_end(struct nccl_meet *m, uint32_t need)
{
	if (__atomic_load_n(&m->arrived, __ATOMIC_ACQUIRE) != need)
		return 0;
	if (__atomic_load_n(&m->what, __ATOMIC_RELAXED) == NCCL_PEERS_TORN)
		return 0;
	return __atomic_load_n(&m->latest_ns, __ATOMIC_RELAXED) +
	       __atomic_load_n(&m->cost_ns, __ATOMIC_RELAXED);
}

void nccl_peers_leave(struct nccl_meet *m, uint32_t need)
{
	if (__atomic_add_fetch(&m->acked, 1, __ATOMIC_ACQ_REL) != need)
		return;
	m->latest_ns = 0;
	m->cost_ns = 0;
	m->what = 0;
	m->arrived = 0;
	m->acked = 0;
	/* release; pairs with the acquire in nccl_peers_arrive. A rank waits for a slot only if it
	 * is hundreds of operations ahead; the next complete meeting wakes it. */
	__atomic_add_fetch(&m->generation, 1, __ATOMIC_RELEASE);
}

int nccl_peers_split_tell(struct nccl_peers *p, uint64_t s, int color, int key)
{
	struct split_place *pl = &p->seg->splits[s % SPLIT_PLACES];
	uint32_t seen;

	for (;;) {
		seen = __atomic_load_n(&p->seg->split_word, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&pl->generation, __ATOMIC_ACQUIRE) == s / SPLIT_PLACES)
			break;
		wait_word(&p->seg->split_word, seen);
	}
	pl->entries[p->rank] = (struct split_entry){color, key};
	__atomic_add_fetch(&pl->told, 1, __ATOMIC_ACQ_REL);
	announce(&p->seg->split_word);
	return 0;
}

int nccl_peers_split_wait(struct nccl_peers *p, uint64_t s, int *rank,
			  uint8_t id[NCCL_PEERS_ID_BYTES])
{
	struct split_place *pl = &p->seg->splits[s % SPLIT_PLACES];
	struct split_entry mine = pl->entries[p->rank];
	uint64_t h;
	int count = 0, place = 0;

	for (;;) {
		uint32_t seen = __atomic_load_n(&p->seg->split_word, __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&pl->told, __ATOMIC_ACQUIRE) == (uint32_t)p->rank_count)
			break;
		wait_word(&p->seg->split_word, seen);
	}
	for (int i = 0; i < p->rank_count && mine.color >= 0; i++) {
		struct split_entry e = pl->entries[i];

		if (e.color != mine.color)
			continue;
		count++;
		if (e.key < mine.key || (e.key == mine.key && i < p->rank))
			place++;
	}
	h = scramble_bytes(SCRAMBLE_SEED, p->id, sizeof(p->id));
	h = scramble_bytes(h, &s, sizeof(s));
	h = scramble_bytes(h, &mine.color, sizeof(mine.color));
	for (int i = 0; i < 2; i++) {
		uint64_t part = scramble(h + (uint64_t)i * 0x9e3779b97f4a7c15ull);

		memcpy(id + 8 * i, &part, 8);
	}
	*rank = place;
	if (__atomic_add_fetch(&pl->acked, 1, __ATOMIC_ACQ_REL) == (uint32_t)p->rank_count) {
		pl->told = 0;
		pl->acked = 0;
		__atomic_add_fetch(&pl->generation, 1, __ATOMIC_RELEASE);
		announce(&p->seg->split_word);
	}
	return count;
}

/* SPDX-License-Identifier: Apache-2.0
 * ring_writer.h - the application's end of the ring: create the memfd, claim lanes, push events.
 * Owns: the memfd and its mapping. libc only; ring_writer_push never exits, prints, blocks or
 * touches errno. Threads: push needs one thread per lane; each other function says who may call it.
 * After fork without exec the wipe-on-fork page reads 0, and every push is a no-op. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ring/ring_format.h"

struct ring_writer {
	uint8_t *base;
	struct ring_header *header;
	struct ring_counters *counters;
	struct ring_reader_page *reader;
	struct ring_lane *lanes;
	uint32_t *alive; /* its own page, MADV_WIPEONFORK: 0 in a forked child */
	int fd, page_fd; /* fd: the ring; page_fd: the reader page */
	uint32_t lane_count;
	/* Private copies: others can write the shared mapping, so its words are not trusted. */
	uint64_t names_offset, names_bytes;
	struct ring_intern *intern; /* private tables of names and lanes, mapped at init */
};

/* One thread's lane, in private memory; head is copied to the mapping. */
struct ring_lane_writer {
	struct ring_writer *w;
	struct ring_lane *lane;
	uint8_t *slots;
	uint64_t head;
	uint32_t mask;
	uint32_t slot_bytes;
};

/* Lanes lie in the order host, device, small. Small lanes are host lanes for threads that start
 * after the large ones are taken. */
struct ring_geometry {
	uint32_t host_lanes, host_slots, device_lanes, device_slots, small_lanes, small_slots;
	uint32_t names_bytes;
	uint8_t host_clock, device_clock; /* enum clock_source */
};
/* Defaults from base/limits.h; the total fits LIMIT_RING_BYTES. */
void ring_geometry_default(struct ring_geometry *g);

/* Creates and seals the memfd, maps it, writes the header and touches all pages before the slots. 0
 * or -errno. One thread. */
int ring_writer_init(struct ring_writer *w, const struct ring_geometry *g);
void ring_writer_fini(struct ring_writer *w);
/* The memfd for attach_connect; -EBADF if the program has closed it. Its number may then belong to
 * another file, so never use w->fd unchecked. Keeps errno. */
int ring_writer_fd(const struct ring_writer *w);
/* The same for the reader page's memfd. */
int ring_writer_page_fd(const struct ring_writer *w);
/* Touches every lane, so that the whole ring is charged to this process and nothing to a reader.
 * Lanes may be claimed meanwhile. 0 or -errno (no memory: call again later). Helper thread, before
 * the ring is passed on. */
int ring_writer_fill(struct ring_writer *w);
/* Claims by CAS the first lane that is free, or that has ended and was read. False: there is no
 * such lane, or no memory for it (the caller counts NO_LANE). Any thread. Makes one system call if
 * the lane was not touched yet, else none. The caller supplies tid. */
bool ring_writer_claim(struct ring_writer *w, enum ring_lane_kind kind, uint32_t tid,
		       struct ring_lane_writer *out);
/* Call when the thread has ended or no longer needs the lane, which becomes RING_LANE_ENDED. It is
 * reused after the reader has consumed it (its tail equals head) or after 2 s. Any thread, once the
 * owner has stopped pushing. */
void ring_writer_release(struct ring_lane_writer *lw);
/* Frees ended lanes that may be claimed again; returns how many. Also updates the counters events,
 * bytes_written and heartbeat_ns. Helper thread, every 100 ms. */
int ring_writer_reclaim(struct ring_writer *w, uint64_t now_monotonic_ns);
/* The id of a name, which is interned at its first use; RING_NAME_NONE if it does not fit
 * (counted). Lock-free; no allocation; copies the text and cuts it at LIMIT_NAME_BYTES. Any
 * thread. */
uint32_t ring_writer_intern(struct ring_writer *w, const char *text, size_t bytes);
void ring_writer_count_drop(struct ring_writer *w, enum ring_drop cause, uint64_t n);
/* Call these around each call of the user's NCCL plugin; they count ring_counters.plugin_calls. Any
 * thread. True: counted, so ring_writer_plugin_leave must follow. */
bool ring_writer_plugin_enter(struct ring_writer *w);
void ring_writer_plugin_leave(struct ring_writer *w);
/* The number of the lane's slots that the reader has not consumed. 0 if there is no live reader,
 * because then nobody waits for them. For pacing of device lanes. */
uint64_t ring_writer_backlog(const struct ring_lane_writer *lw, uint64_t now_monotonic_ns);
/* Field 22 of /proc/self/stat; 0 unknown. Keeps errno. */
uint64_t ring_writer_start_time(void);

/* gcc warns that its thread sanitizer does not model fences. We do not depend on that: the reader
 * has its own mapping. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* Copies word by word, because a reader may copy the same slot now; bytes is a multiple of 8. */
static inline void ring_writer_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word;

		__builtin_memcpy(&word, from + i, 8);
		__atomic_store_n((uint64_t *)(to + i), word, __ATOMIC_RELAXED);
	}
}

/* Copies one event (a struct event_* whose seq fields are ignored) into the lane. Wait-free: two
 * sequence stores and a copy of slot_bytes. Inline, because it is on the launch path. */
static inline void ring_writer_push(struct ring_lane_writer *lw, const void *event)
{
	uint64_t n = lw->head;
	uint32_t seq = (uint32_t)(n + 1);
	uint8_t *slot;
	const uint8_t *src = (const uint8_t *)event;
	size_t bytes = lw->slot_bytes;
	uint32_t half;

	if (__builtin_expect(!*(volatile uint32_t *)lw->w->alive, 0))
		return;
	slot = lw->slots + (size_t)(n & lw->mask) * bytes;
	/* relaxed + release fence: orders seq_begin before the payload; pairs with the acquire
	 * fence before the second read of seq_begin in ring_reader.c */
	__atomic_store_n((uint32_t *)slot, seq, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__builtin_memcpy(&half, src + 4, 4);
	__atomic_store_n((uint32_t *)(slot + 4), half, __ATOMIC_RELAXED);
	if (__builtin_expect(bytes == RING_HOST_SLOT_BYTES, 1))
		ring_writer_copy(slot + 8, src + 8, RING_HOST_SLOT_BYTES - 16);
	else
		ring_writer_copy(slot + 8, src + 8, bytes - 16);
	__builtin_memcpy(&half, src + bytes - 8, 4);
	__atomic_store_n((uint32_t *)(slot + bytes - 8), half, __ATOMIC_RELAXED);
	/* release; pairs with the acquire load of seq_end in ring_reader.c */
	__atomic_store_n((uint32_t *)(slot + bytes - 4), seq, __ATOMIC_RELEASE);
	lw->head = n + 1;
	/* release; pairs with the acquire load of lane.head in ring_reader.c */
	__atomic_store_n(&lw->lane->head, n + 1, __ATOMIC_RELEASE);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/* SPDX-License-Identifier: Apache-2.0
 * test_ring_writer.c - the application's end: layout, lanes, names, pacing, fork. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/clock.h"
#include "ring/ring_reader.h"
#include "ring/ring_writer.h"
#include "tests/unit/skip.h"

#define S 1000000000ull

static void small_geometry(struct ring_geometry *g)
{
	ring_geometry_default(g);
	g->host_lanes = 4;
	g->host_slots = 16;
	g->device_lanes = 1;
	g->device_slots = 16;
	g->small_lanes = 0;
	g->names_bytes = 4096;
	g->host_clock = CLOCK_SOURCE_TSC;
}

static void small_init(struct ring_writer *w)
{
	struct ring_geometry g;

	small_geometry(&g);
	assert_int_equal(ring_writer_init(w, &g), 0);
}

static void push_kind(struct ring_lane_writer *lw, uint16_t kind)
{
	struct event_launch e = {.head.kind = kind};

	ring_writer_push(lw, &e);
}

static void default_ring_fits_its_limit(void **state)
{
	struct ring_geometry g;
	struct ring_writer w;
	struct stat st;

	ring_geometry_default(&g);
	assert_int_equal(ring_writer_init(&w, &g), 0);
	assert_int_equal(fstat(w.fd, &st), 0);
	assert_true(st.st_size <= LIMIT_RING_BYTES);
	assert_int_equal(st.st_size, w.header->total_bytes);
	assert_int_equal(w.lane_count,
			 LIMIT_RING_HOST_LANES + LIMIT_RING_DEVICE_LANES + LIMIT_RING_SMALL_LANES);
	ring_writer_fini(&w);
	ring_writer_fini(&w); /* twice is harmless */
}

static void layout_is_the_documented_bytes(void **state)
{
	static const uint8_t magic[8] = "YSOMRING";
	static const uint8_t event[64] = {
	    3,	  0,	0,    0,    1,	  0,	0x01, 0x00, 8,	  7,	6,    5,    4,
	    3,	  2,	1,    0xf8, 0xf7, 0xf6, 0xf5, 0xf4, 0xf3, 0xf2, 0xf1, 0x18, 0x17,
	    0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 2,    0,    0,	  0,	3,    0,    0,
	    0,	  4,	0,    0,    0,	  0x05, 0x01, 0x06, 0x01, 0x07, 0x01, 0x09, 0x01,
	    0xd4, 0xd3, 0xd2, 0xd1, 0,	  0,	0,    0,    3,	  0,	0,    0};
	struct event_launch e = {
	    .head = {.seq_begin = 99,
		     .kind = EVENT_LAUNCH,
		     .flags = EVENT_FLAG_PTSZ,
		     .t = 0x0102030405060708},
	    .func = 0xf1f2f3f4f5f6f7f8,
	    .stream = 0x1112131415161718,
	    .grid = {2, 3, 4},
	    .block = {0x105, 0x106, 0x107},
	    .api = 0x109,
	    .duration = 0xd1d2d3d4,
	    .seq_end = 99,
	};
	struct ring_lane_writer lw;
	struct ring_writer w;

	small_init(&w);
	assert_memory_equal(w.base, magic, 8);
	assert_int_equal(*(uint32_t *)(w.base + 8), 1);	    /* version */
	assert_int_equal(*(uint32_t *)(w.base + 12), 4096); /* header_bytes */
	assert_int_equal(*(uint64_t *)(w.base + 16), 12288 + 4096 + 4096 + 5 * 4096);
	assert_int_equal(*(uint32_t *)(w.base + 24), CLOCK_SOURCE_TSC);
	assert_int_equal(*(uint32_t *)(w.base + 28), 5);     /* lane_count */
	assert_int_equal(*(uint64_t *)(w.base + 32), 12288); /* lanes_offset */
	assert_int_equal(*(uint64_t *)(w.base + 40), 16384); /* names_offset */
	assert_int_equal(*(uint64_t *)(w.base + 48), 4096);  /* names_bytes */
	assert_int_equal(*(uint32_t *)(w.base + 80), getpid());
	assert_int_equal(*(uint64_t *)(w.base + 88), ring_writer_start_time());
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 0x1234, &lw));
	for (int i = 0; i < 3; i++)
		ring_writer_push(&lw, &e);
	assert_memory_equal(w.base + 20480 + 2 * 64, event, 64);
	assert_int_equal(*(uint64_t *)(w.base + 12288), 3); /* head */
	assert_int_equal(*(uint32_t *)(w.base + 12296), RING_LANE_CLAIMED);
	assert_int_equal(*(uint32_t *)(w.base + 12300), 0x1234); /* tid */
	assert_int_equal(*(uint64_t *)(w.base + 12304), 20480);	 /* offset */
	assert_int_equal(*(uint32_t *)(w.base + 12312), 16);	 /* slots */
	assert_int_equal(*(uint16_t *)(w.base + 12316), 64);	 /* slot_bytes */
	assert_int_equal(w.base[12318], RING_LANE_HOST);
	assert_int_equal(w.base[12319], CLOCK_SOURCE_TSC);
	assert_int_equal(*(uint32_t *)(w.base + 12320), 1); /* generation */
	assert_int_equal(ring_writer_intern(&w, "abc", 3), 1);
	assert_memory_equal(w.base + 16384, "\1\0\0\0\3\0\0\0abc\0\0\0\0\0", 16);
	assert_int_equal(*(uint64_t *)(w.base + 4096 + 264), 16); /* names_tail */
	ring_writer_fini(&w);
}

/* Whoever reads a hole of the ring is charged for a page: there is none, and none can be made. */
static void every_page_of_the_ring_is_there_and_stays(void **state)
{
	struct ring_geometry g;
	struct ring_writer w;
	struct stat before, after;
	uint64_t bytes;

	ring_geometry_default(&g);
	assert_int_equal(ring_writer_init(&w, &g), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	bytes = w.header->total_bytes;
	assert_int_equal(fstat(w.fd, &before), 0);
	assert_int_equal(lseek(w.fd, 0, SEEK_HOLE), bytes);
	assert_int_equal(fallocate(w.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 65536, 65536),
			 -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(madvise(w.base + 65536, 65536, MADV_REMOVE), -1);
	assert_ptr_equal(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w.fd, 0),
			 MAP_FAILED);
	assert_int_equal(madvise(w.base, bytes, MADV_DONTNEED), 0);
	assert_int_equal(fstat(w.fd, &after), 0);
	assert_int_equal(before.st_blocks, after.st_blocks);
	assert_int_equal((uint64_t)after.st_blocks * 512, bytes);
	ring_writer_fini(&w);
}

static void memfd_is_sealed_against_resizing(void **state)
{
	struct ring_writer w;

	small_init(&w);
	assert_int_equal(fcntl(w.fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_int_equal(fcntl(w.page_fd, F_GET_SEALS) &
			     (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_int_equal(ftruncate(w.fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(w.fd, 1 << 24), -1);
	assert_true(fcntl(w.fd, F_GETFD) & FD_CLOEXEC);
	ring_writer_fini(&w);
}

static void refuses_impossible_geometry(void **state)
{
	struct ring_geometry g;
	struct ring_writer w;

	errno = 77;
	small_geometry(&g);
	g.host_slots = 24;
	assert_int_equal(ring_writer_init(&w, &g), -EINVAL);
	small_geometry(&g);
	g.host_lanes = 512;
	assert_int_equal(ring_writer_init(&w, &g), -EINVAL);
	small_geometry(&g);
	g.host_lanes = UINT32_MAX;
	g.device_lanes = 2;
	assert_int_equal(ring_writer_init(&w, &g), -EINVAL);
	small_geometry(&g);
	g.names_bytes = LIMIT_RING_BYTES;
	assert_int_equal(ring_writer_init(&w, &g), -EINVAL);
	small_geometry(&g);
	g.names_bytes = 12;
	assert_int_equal(ring_writer_init(&w, &g), -EINVAL);
	ring_writer_fini(&w); /* after a refusal */
	assert_int_equal(errno, 77);
}

static void keeps_errno(void **state)
{
	struct ring_lane_writer lw;
	struct ring_writer w;

	errno = 77;
	small_init(&w);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw));
	ring_writer_fill(&w);
	push_kind(&lw, 1);
	ring_writer_intern(&w, "x", 1);
	ring_writer_release(&lw);
	ring_writer_reclaim(&w, 1);
	ring_writer_start_time();
	ring_writer_fini(&w);
	assert_int_equal(errno, 77);
}

static uint64_t allocated_bytes(const struct ring_writer *w)
{
	struct stat st;

	assert_int_equal(fstat(w->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void claims_touch_their_lane_and_fill_touches_all(void **state)
{
	struct ring_lane_writer lw[5];
	struct ring_writer w;

	small_init(&w);
	assert_int_equal(allocated_bytes(&w), 5 * 4096);
	for (int i = 0; i < 4; i++) {
		assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw[i]));
		assert_int_equal(lw[i].lane - w.lanes, i);
		assert_int_equal(allocated_bytes(&w), (6 + i) * 4096);
	}
	assert_false(ring_writer_claim(&w, RING_LANE_HOST, 5, &lw[4]));
	assert_int_equal(ring_writer_fill(&w), 0);
	assert_int_equal(allocated_bytes(&w), w.header->total_bytes);
	assert_true(ring_writer_claim(&w, RING_LANE_DEVICE, 5, &lw[4]));
	assert_int_equal(lw[4].slot_bytes, 128);
	ring_writer_fini(&w);
}

static void threads_beyond_the_large_lanes_get_small_ones(void **state)
{
	struct ring_lane_writer lw;
	union ring_event event;
	struct ring_geometry g;
	struct ring_lane_view view;
	struct ring_reader *r;
	struct ring_writer w;

	ring_geometry_default(&g);
	assert_int_equal(ring_writer_init(&w, &g), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	assert_int_equal(ring_reader_open(&r, dup(w.fd), dup(w.page_fd)), 0);
	for (uint32_t i = 0; i < LIMIT_RING_HOST_LANES + LIMIT_RING_SMALL_LANES; i++) {
		uint32_t at = i < LIMIT_RING_HOST_LANES ? i : i + LIMIT_RING_DEVICE_LANES;

		assert_true(ring_writer_claim(&w, RING_LANE_HOST, 100 + i, &lw));
		push_kind(&lw, 1);
		assert_int_equal(lw.lane - w.lanes, at);
		assert_int_equal(ring_reader_lanes_used(r), at + 1);
		assert_int_equal(ring_reader_drain_lane(r, at, &event, 1, &view), 1);
		assert_int_equal(view.tid, 100 + i);
	}
	assert_int_equal(view.slots, LIMIT_RING_SMALL_LANE_SLOTS);
	assert_false(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw));
	ring_reader_close(r);
	ring_writer_fini(&w);
}

static void lanes_used_never_falls_and_never_exceeds_the_ring(void **state)
{
	struct ring_lane_writer lw;
	struct ring_reader *r;
	struct ring_writer w;

	small_init(&w);
	assert_int_equal(ring_writer_fill(&w), 0);
	assert_int_equal(ring_reader_open(&r, dup(w.fd), dup(w.page_fd)), 0);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw));
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw));
	assert_int_equal(ring_reader_lanes_used(r), 2);
	w.counters->lanes_used = 1; /* a hostile word */
	assert_int_equal(ring_reader_lanes_used(r), 2);
	w.counters->lanes_used = UINT64_MAX;
	assert_int_equal(ring_reader_lanes_used(r), 5);
	ring_reader_close(r);
	ring_writer_fini(&w);
}

static void lane_is_reclaimed_once_the_reader_has_consumed_it(void **state)
{
	struct ring_lane_writer a, b;
	struct ring_writer w;

	small_init(&w);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &a));
	for (int i = 0; i < 5; i++)
		push_kind(&a, 1);
	ring_writer_release(&a);
	assert_int_equal(w.lanes[0].state, RING_LANE_ENDED);
	assert_int_equal(ring_writer_reclaim(&w, 1 * S), 0);
	w.reader->tail[0] = 4;
	assert_int_equal(ring_writer_reclaim(&w, 1 * S + 1), 0);
	w.reader->tail[0] = 5;
	assert_int_equal(ring_writer_reclaim(&w, 1 * S + 2), 1);
	assert_int_equal(w.lanes[0].state, RING_LANE_FREE);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 9, &b));
	assert_int_equal(b.head, 5);
	assert_int_equal(w.lanes[0].generation, 2);
	assert_int_equal(w.lanes[0].owner_first, 5);
	ring_writer_fini(&w);
}

static void lane_is_reclaimed_after_two_seconds_without_a_reader(void **state)
{
	struct ring_lane_writer a;
	struct ring_writer w;

	small_init(&w);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &a));
	push_kind(&a, 1);
	ring_writer_release(&a);
	ring_writer_release(&a); /* of nothing */
	assert_int_equal(ring_writer_reclaim(&w, 5 * S), 0);
	assert_int_equal(ring_writer_reclaim(&w, 7 * S - 1), 0);
	assert_int_equal(ring_writer_reclaim(&w, 7 * S), 1);
	ring_writer_fini(&w);
}

static void totals_are_refreshed_by_reclaim(void **state)
{
	struct event_kernel k = {.head.kind = EVENT_KERNEL};
	struct ring_lane_writer host, device;
	struct ring_writer w;

	small_init(&w);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &host));
	assert_true(ring_writer_claim(&w, RING_LANE_DEVICE, 1, &device));
	for (int i = 0; i < 20; i++)
		push_kind(&host, 1);
	ring_writer_push(&device, &k);
	ring_writer_reclaim(&w, 123);
	assert_int_equal(w.counters->events, 21);
	assert_int_equal(w.counters->bytes_written, 20 * 64 + 128);
	assert_int_equal(w.counters->heartbeat_ns, 123);
	ring_writer_fini(&w);
}

static void backlog_is_what_a_live_reader_has_not_consumed(void **state)
{
	struct ring_lane_writer lw;
	struct ring_writer w;

	small_init(&w);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw));
	for (int i = 0; i < 10; i++)
		push_kind(&lw, 1);
	assert_int_equal(ring_writer_backlog(&lw, 5 * S), 0); /* never a reader */
	w.reader->heartbeat_ns = 5 * S;
	assert_int_equal(ring_writer_backlog(&lw, 5 * S), 10);
	w.reader->tail[0] = 7;
	assert_int_equal(ring_writer_backlog(&lw, 6 * S), 3);
	assert_int_equal(ring_writer_backlog(&lw, 6 * S + 1), 0); /* reader gone */
	w.reader->heartbeat_ns = UINT64_MAX;			  /* hostile values */
	assert_int_equal(ring_writer_backlog(&lw, 6 * S), 0);
	w.reader->heartbeat_ns = 6 * S + 5; /* beat after now was read */
	assert_int_equal(ring_writer_backlog(&lw, 6 * S), 3);
	w.reader->tail[0] = UINT64_MAX;
	assert_int_equal(ring_writer_backlog(&lw, 6 * S), 0);
	w.reader->tail[0] = 0;
	for (int i = 0; i < 100; i++)
		push_kind(&lw, 1);
	assert_int_equal(ring_writer_backlog(&lw, 6 * S), 16); /* never more than the lane */
	ring_writer_fini(&w);
}

static void same_name_has_one_id(void **state)
{
	char longer[LIMIT_NAME_BYTES + 100];
	struct ring_geometry g;
	struct ring_writer w;

	small_geometry(&g);
	g.names_bytes = 65536;
	assert_int_equal(ring_writer_init(&w, &g), 0);
	assert_int_equal(ring_writer_intern(&w, "gemm", 4), 1);
	assert_int_equal(ring_writer_intern(&w, "gemv", 4), 2);
	assert_int_equal(ring_writer_intern(&w, "gemm", 4), 1);
	assert_int_equal(ring_writer_intern(&w, "gem", 3), 3);
	assert_int_equal(ring_writer_intern(&w, "", 0), RING_NAME_NONE);
	assert_int_equal(ring_writer_intern(&w, NULL, 3), RING_NAME_NONE);
	memset(longer, 'x', sizeof(longer));
	assert_int_equal(ring_writer_intern(&w, longer, sizeof(longer)), 4);
	assert_int_equal(ring_writer_intern(&w, longer, LIMIT_NAME_BYTES), 4); /* cut */
	assert_int_equal(w.counters->drops[RING_DROP_NAMES_FULL], 0);
	ring_writer_fini(&w);
}

static void full_arena_is_counted(void **state)
{
	char name[64];
	struct ring_writer w;
	uint32_t id, count = 0;

	small_init(&w); /* 4096 bytes: 56 per record of 48 */
	memset(name, 'n', sizeof(name));
	do {
		snprintf(name, 9, "%08u", count);
		name[8] = '.';
		id = ring_writer_intern(&w, name, 48);
		count += id != 0;
	} while (id);
	assert_int_equal(count, 4096 / 56);
	assert_int_equal(w.counters->drops[RING_DROP_NAMES_FULL], 1);
	assert_int_equal(ring_writer_intern(&w, name, 48), RING_NAME_NONE);
	assert_int_equal(w.counters->drops[RING_DROP_NAMES_FULL], 2); /* every call counts */
	assert_int_equal(ring_writer_intern(&w, "00000000", 8), RING_NAME_NONE);
	assert_int_equal(w.counters->drops[RING_DROP_NAMES_FULL], 3);
	ring_writer_count_drop(&w, (enum ring_drop)77, 1); /* no such cause: ignored */
	ring_writer_fini(&w);
}

static void number_of_names_is_bounded(void **state)
{
	struct ring_geometry g;
	struct ring_writer w;
	char name[16];

	small_geometry(&g);
	g.names_bytes = 1 << 20;
	assert_int_equal(ring_writer_init(&w, &g), 0);
	for (unsigned i = 0; i < LIMIT_NAME_COUNT; i++) {
		int n = snprintf(name, sizeof(name), "%u", i);

		assert_int_equal(ring_writer_intern(&w, name, (size_t)n), i + 1);
	}
	assert_int_equal(ring_writer_intern(&w, "one more", 8), RING_NAME_NONE);
	assert_int_equal(w.counters->drops[RING_DROP_NAMES_FULL], 1);
	assert_int_equal(ring_writer_intern(&w, "4711", 4), 4712);
	ring_writer_fini(&w);
}

#define THREADS 4
#define NAMES	300

struct interner {
	struct ring_writer *w;
	uint32_t ids[NAMES];
	unsigned seed;
};

static void *intern_all(void *arg)
{
	struct interner *in = arg;
	char name[32];

	for (unsigned i = 0; i < NAMES; i++) {
		int n = snprintf(name, sizeof(name), "kernel_%u", i);

		in->ids[i] = ring_writer_intern(in->w, name, (size_t)n);
		if (i % 16 == in->seed)
			sched_yield();
	}
	return NULL;
}

static void threads_that_intern_together_agree_on_ids(void **state)
{
	static struct interner in[THREADS];
	struct ring_geometry g;
	struct ring_reader *r;
	struct ring_writer w;
	pthread_t t[THREADS];
	char name[32];

	small_geometry(&g);
	g.names_bytes = 65536;
	assert_int_equal(ring_writer_init(&w, &g), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		in[i].w = &w;
		in[i].seed = i;
		assert_int_equal(pthread_create(&t[i], NULL, intern_all, &in[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(ring_writer_fill(&w), 0);
	assert_int_equal(ring_reader_open(&r, dup(w.fd), dup(w.page_fd)), 0);
	while (ring_reader_poll_names(r))
		;
	assert_int_equal(ring_reader_stats(r)->detach_reason, 0);
	assert_true(ring_reader_name_count(r) >= NAMES);
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "kernel_%u", i);
		for (int k = 0; k < THREADS; k++)
			assert_int_equal(in[k].ids[i], in[0].ids[i]);
		assert_string_equal(ring_reader_name(r, in[0].ids[i]), name);
	}
	ring_reader_close(r);
	ring_writer_fini(&w);
}

struct claimer {
	struct ring_writer *w;
	struct ring_lane_writer lw;
	bool got;
};

static void *claim_one(void *arg)
{
	struct claimer *c = arg;

	c->got = ring_writer_claim(c->w, RING_LANE_HOST, 1, &c->lw);
	if (c->got)
		push_kind(&c->lw, 1);
	return NULL;
}

static void threads_that_claim_together_get_lanes_of_their_own(void **state)
{
	struct ring_writer w;

	small_init(&w);
	for (int round = 0; round < 50; round++) {
		struct claimer c[6];
		unsigned seen = 0, got = 0;
		pthread_t t[6];

		for (int i = 0; i < 6; i++) {
			c[i].w = &w;
			assert_int_equal(pthread_create(&t[i], NULL, claim_one, &c[i]), 0);
		}
		for (int i = 0; i < 6; i++) {
			pthread_join(t[i], NULL);
			if (!c[i].got)
				continue;
			got++;
			assert_false(seen & 1u << (c[i].lw.lane - w.lanes));
			seen |= 1u << (c[i].lw.lane - w.lanes);
			ring_writer_release(&c[i].lw);
		}
		assert_int_equal(got, 4);
		for (int i = 0; i < 4; i++)
			w.reader->tail[i] = w.lanes[i].head;
		assert_int_equal(ring_writer_reclaim(&w, S), 4);
	}
	ring_writer_fini(&w);
}

static void forked_child_changes_nothing(void **state)
{
	struct ring_lane_writer lw, other;
	struct ring_writer w;
	uint8_t *before;
	size_t bytes;
	int status;
	pid_t child;

	small_init(&w);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw));
	push_kind(&lw, 1);
	bytes = w.header->total_bytes;
	before = malloc(bytes);
	memcpy(before, w.base, bytes);
	child = fork();
	if (!child) {
		push_kind(&lw, 2);
		if (ring_writer_claim(&w, RING_LANE_HOST, 2, &other))
			_exit(1);
		if (ring_writer_intern(&w, "child", 5) || ring_writer_fill(&w) ||
		    ring_writer_backlog(&lw, 1))
			_exit(2);
		ring_writer_count_drop(&w, RING_DROP_INTERNAL, 1);
		ring_writer_release(&lw);
		ring_writer_reclaim(&w, 1);
		ring_writer_fini(&w);
		small_init(&w); /* a ring of its own */
		if (!ring_writer_claim(&w, RING_LANE_HOST, 2, &other))
			_exit(3);
		push_kind(&other, 3);
		_exit(w.lanes[0].head == 1 ? 0 : 4);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_memory_equal(w.base, before, bytes);
	push_kind(&lw, 1);
	assert_int_equal(w.lanes[0].head, 2);
	free(before);
	ring_writer_fini(&w);
}

static void small_file_size_limit_is_an_error_and_no_signal(void **state)
{
	int status;
	pid_t child = fork();

	if (!child) {
		struct rlimit limit = {.rlim_cur = 8192, .rlim_max = RLIM_INFINITY};
		struct ring_geometry g;
		struct ring_writer w;

		setrlimit(RLIMIT_FSIZE, &limit);
		small_geometry(&g);
		_exit(ring_writer_init(&w, &g) == -EFBIG ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* As on a kernel before 5.14: MADV_POPULATE_WRITE is an invalid argument. */
static void refuse_populate(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_madvise, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

static void older_kernels_fault_lanes_in_by_fallocate(void **state)
{
	int status;
	pid_t child = fork();

	if (!child) {
		struct ring_lane_writer lw;
		struct ring_geometry g;
		struct ring_writer w;

		refuse_populate();
		small_geometry(&g);
		if (ring_writer_init(&w, &g) || ring_writer_fill(&w) ||
		    !ring_writer_claim(&w, RING_LANE_HOST, 1, &lw))
			_exit(1);
		push_kind(&lw, 1);
		/* without the descriptor no lane more, but no harm either */
		ring_writer_fini(&w);
		if (ring_writer_init(&w, &g))
			_exit(2);
		close(w.fd);
		if (ring_writer_fill(&w) != -EBADF || ring_writer_claim(&w, RING_LANE_HOST, 1, &lw))
			_exit(3);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		skip_needs("seccomp");
	}
	assert_int_equal(status, 0);
}

static void descriptor_that_the_program_closed_is_left_alone(void **state)
{
	struct ring_lane_writer lw;
	struct ring_writer w;
	int other;

	small_init(&w);
	assert_true(w.fd >= 500);
	assert_int_equal(ring_writer_fd(&w), w.fd);
	close(w.fd);
	assert_int_equal(ring_writer_fd(&w), -EBADF);
	assert_int_equal(ring_writer_page_fd(&w), w.page_fd);
	close(w.page_fd);
	assert_int_equal(ring_writer_page_fd(&w), -EBADF);
	other = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(dup2(other, w.fd), w.fd);
	assert_int_equal(ring_writer_fd(&w), -EBADF);
	assert_true(ring_writer_claim(&w, RING_LANE_HOST, 1, &lw));
	push_kind(&lw, 1);
	close(other);
	other = w.fd;
	ring_writer_fini(&w);
	assert_int_equal(fcntl(other, F_GETFD), 0); /* still open: it is not ours */
	close(other);
}

static void garbled_mapping_never_harms_the_writer(void **state)
{
	unsigned seed = 20240607;
	struct ring_writer w;
	size_t bytes;

	print_message("seed %u\n", seed);
	small_init(&w);
	bytes = w.header->total_bytes;
	for (int round = 0; round < 2000; round++) {
		struct ring_lane_writer lw;
		char name[8];

		/* A hostile peer that has the memfd sets anything to anything. */
		for (int i = 0; i < 200; i++)
			w.base[(size_t)rand_r(&seed) % bytes] = (uint8_t)rand_r(&seed);
		if (ring_writer_claim(&w, RING_LANE_HOST, 1, &lw)) {
			push_kind(&lw, 1);
			ring_writer_backlog(&lw, S);
			ring_writer_release(&lw);
		}
		snprintf(name, sizeof(name), "%d", rand_r(&seed) % 1000);
		ring_writer_intern(&w, name, strlen(name));
		ring_writer_reclaim(&w, (uint64_t)round * S);
		ring_writer_fill(&w);
	}
	ring_writer_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(default_ring_fits_its_limit),
	    cmocka_unit_test(layout_is_the_documented_bytes),
	    cmocka_unit_test(memfd_is_sealed_against_resizing),
	    cmocka_unit_test(every_page_of_the_ring_is_there_and_stays),
	    cmocka_unit_test(refuses_impossible_geometry),
	    cmocka_unit_test(keeps_errno),
	    cmocka_unit_test(claims_touch_their_lane_and_fill_touches_all),
	    cmocka_unit_test(threads_beyond_the_large_lanes_get_small_ones),
	    cmocka_unit_test(lanes_used_never_falls_and_never_exceeds_the_ring),
	    cmocka_unit_test(lane_is_reclaimed_once_the_reader_has_consumed_it),
	    cmocka_unit_test(lane_is_reclaimed_after_two_seconds_without_a_reader),
	    cmocka_unit_test(totals_are_refreshed_by_reclaim),
	    cmocka_unit_test(backlog_is_what_a_live_reader_has_not_consumed),
	    cmocka_unit_test(same_name_has_one_id),
	    cmocka_unit_test(full_arena_is_counted),
	    cmocka_unit_test(number_of_names_is_bounded),
	    cmocka_unit_test(threads_that_intern_together_agree_on_ids),
	    cmocka_unit_test(threads_that_claim_together_get_lanes_of_their_own),
	    cmocka_unit_test(forked_child_changes_nothing),
	    cmocka_unit_test(small_file_size_limit_is_an_error_and_no_signal),
	    cmocka_unit_test(older_kernels_fault_lanes_in_by_fallocate),
	    cmocka_unit_test(descriptor_that_the_program_closed_is_left_alone),
	    cmocka_unit_test(garbled_mapping_never_harms_the_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

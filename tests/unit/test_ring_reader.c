/* SPDX-License-Identifier: Apache-2.0
 * test_ring_reader.c - the ring from one end to the other: what is pushed arrives intact or is
 * counted, whatever the two ends do. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "ring/ring_reader.h"
#include "ring/ring_writer.h"

struct ends {
	struct ring_writer w;
	struct ring_reader *r;
};

static void geometry(struct ring_geometry *g, uint32_t host_slots)
{
	ring_geometry_default(g);
	g->host_lanes = 4;
	g->host_slots = host_slots;
	g->device_lanes = 1;
	g->small_lanes = 0;
	g->device_slots = host_slots;
	g->names_bytes = 65536;
}

static void ends_init(struct ends *e, uint32_t host_slots)
{
	struct ring_geometry g;

	geometry(&g, host_slots);
	assert_int_equal(ring_writer_init(&e->w, &g), 0);
	assert_int_equal(ring_writer_fill(&e->w), 0);
	assert_int_equal(ring_reader_open(&e->r, dup(e->w.fd), dup(e->w.page_fd)), 0);
}

static void ends_fini(struct ends *e)
{
	ring_reader_close(e->r);
	ring_writer_fini(&e->w);
}

/* An event whose every payload word follows from n. */
static void fill_event(struct event_mem *m, uint64_t n)
{
	memset(m, 0, sizeof(*m));
	m->head.kind = EVENT_MEM;
	m->head.t = n;
	m->bytes = hash_mix(n);
	m->address = hash_mix(n + 1);
	m->reserved[0] = hash_mix(n + 2);
	m->reserved[1] = hash_mix(n + 3);
	m->api = (uint16_t)n;
	m->duration = (uint32_t)hash_mix(n + 4);
	m->reserved2 = (uint32_t)hash_mix(n + 5);
}

static bool event_intact(const union ring_event *e)
{
	struct event_mem want;

	fill_event(&want, e->head.t);
	return !memcmp(e->bytes + 4, (uint8_t *)&want + 4, sizeof(want) - 8);
}

static void push_n(struct ring_lane_writer *lw, uint64_t first, uint64_t count)
{
	for (uint64_t n = first; n < first + count; n++) {
		struct event_mem m;

		fill_event(&m, n);
		ring_writer_push(lw, &m);
	}
}

static void delivers_events_in_order_and_intact(void **state)
{
	union ring_event out[64];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ends e;

	ends_init(&e, 256);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 4711, &lw));
	push_n(&lw, 0, 100);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 64, &view), 64);
	for (int i = 0; i < 64; i++) {
		assert_int_equal(out[i].head.t, i);
		assert_true(event_intact(&out[i]));
	}
	assert_int_equal(view.tid, 4711);
	assert_int_equal(view.kind, RING_LANE_HOST);
	assert_int_equal(view.generation, 1);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 64, &view), 36);
	assert_int_equal(out[35].head.t, 99);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 64, &view), 0);
	assert_int_equal(ring_reader_stats(e.r)->events, 100);
	assert_int_equal(ring_reader_stats(e.r)->bytes, 6400);
	ends_fini(&e);
}

static void delivers_device_events_of_128_bytes(void **state)
{
	struct event_kernel k = {.head = {.kind = EVENT_KERNEL, .t = 5}, .end = 9, .exported = 77};
	union ring_event out[4];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_DEVICE, 1, &lw));
	ring_writer_push(&lw, &k);
	assert_int_equal(ring_reader_drain_lane(e.r, 4, out, 4, &view), 1);
	assert_int_equal(out[0].kernel.end, 9);
	assert_int_equal(out[0].kernel.exported, 77);
	assert_int_equal(out[0].kernel.seq_end, 1);
	assert_int_equal(view.kind, RING_LANE_DEVICE);
	ends_fini(&e);
}

static void counts_laps_exactly(void **state)
{
	union ring_event out[16];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 1, &lw));
	push_n(&lw, 0, 16 * 3 + 5);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 16);
	assert_int_equal(out[0].head.t, 37);
	assert_int_equal(ring_reader_stats(e.r)->lost_lapped, 37);
	assert_int_equal(ring_reader_stats(e.r)->lost_torn, 0);
	ends_fini(&e);
}

static void counts_a_slot_that_is_being_overwritten_as_lapped(void **state)
{
	union ring_event out[16];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	uint32_t next = 17;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 1, &lw));
	push_n(&lw, 0, 16);
	memcpy(lw.slots, &next, 4); /* as a writer that dies after seq_begin of slot 16 */
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 15);
	assert_int_equal(out[0].head.t, 1);
	assert_int_equal(ring_reader_stats(e.r)->lost_lapped, 1);
	ends_fini(&e);
}

static void counts_a_garbled_sequence_as_torn_and_goes_on(void **state)
{
	union ring_event out[16];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	uint32_t wrong = 12345;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 1, &lw));
	push_n(&lw, 0, 4);
	memcpy(lw.slots + 64, &wrong, 4);
	memcpy(lw.slots + 2 * 64 + 60, &wrong, 4);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 2);
	assert_int_equal(ring_reader_stats(e.r)->lost_torn, 2);
	ends_fini(&e);
}

static void counts_kinds_that_do_not_fit_the_lane(void **state)
{
	struct event_kernel k = {.head.kind = EVENT_KERNEL};
	union ring_event out[16];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 1, &lw));
	ring_writer_push(&lw, &k);
	k.head.kind = 0;
	ring_writer_push(&lw, &k);
	k.head.kind = EVENT_STEP_END;
	ring_writer_push(&lw, &k);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 1);
	assert_int_equal(ring_reader_stats(e.r)->lost_bad_kind, 2);
	ends_fini(&e);
}

static void attributes_events_to_the_owner_that_pushed_them(void **state)
{
	union ring_event out[16];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 100, &lw));
	push_n(&lw, 0, 2);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 1, &view), 1);
	ring_writer_release(&lw);
	ring_writer_reclaim(&e.w, 1);
	ring_writer_reclaim(&e.w, 3000000000ull); /* free again though slot 1 is not consumed */
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 200, &lw));
	push_n(&lw, 2, 3);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 1);
	assert_int_equal(view.tid, 100);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 3);
	assert_int_equal(view.tid, 200);
	assert_int_equal(view.generation, 2);
	ends_fini(&e);
}

static void takes_over_where_the_reader_before_had_published(void **state)
{
	union ring_event out[64];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 1, &lw));
	push_n(&lw, 0, 40);
	ring_reader_drain_lane(e.r, 0, out, 64, &view);
	ring_reader_publish(e.r, 1);
	ring_reader_close(e.r);
	push_n(&lw, 40, 3);
	assert_int_equal(ring_reader_open(&e.r, dup(e.w.fd), dup(e.w.page_fd)), 0);
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 64, &view), 3);
	assert_int_equal(out[0].head.t, 40);
	assert_int_equal(ring_reader_stats(e.r)->lost_lapped, 0);
	ends_fini(&e);
}

static int file_with(const void *data, size_t bytes)
{
	char path[] = "/tmp/test_ring_XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	unlink(path);
	CHECK(write(fd, data, bytes) == (ssize_t)bytes);
	return fd;
}

static void reads_a_ring_from_a_file(void **state)
{
	union ring_event out[64];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ring_reader *r;
	struct ends e;
	int fd;

	ends_init(&e, 64);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 9, &lw));
	push_n(&lw, 0, 10);
	assert_int_equal(ring_writer_intern(&e.w, "gemm", 4), 1);
	fd = file_with(e.w.base, e.w.header->total_bytes);
	assert_int_equal(ring_reader_open(&r, fd, e.w.page_fd), -EPERM);
	assert_int_equal(ring_reader_open(&r, fd, -1), 0);
	assert_int_equal(ring_reader_drain_lane(r, 0, out, 64, &view), 10);
	assert_true(event_intact(&out[9]));
	/* whoever has an event has its name */
	assert_string_equal(ring_reader_name(r, 1), "gemm");
	ring_reader_publish(r, 1); /* a no-op */
	ring_reader_close(r);
	ends_fini(&e);
}

/* A copy, of which a page is left out; hole at or past the end: none. */
static int memfd_with_hole(const struct ring_writer *w, int seals, uint64_t hole)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint64_t bytes = w->header->total_bytes;

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	for (uint64_t at = 0; at < bytes; at += 4096)
		CHECK(at == hole || pwrite(fd, w->base + at, 4096, (off_t)at) == 4096);
	CHECK(!fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static int memfd_like(const struct ring_writer *w, int seals)
{
	return memfd_with_hole(w, seals, UINT64_MAX);
}

static void refuses_a_memfd_that_is_not_sealed_in_full(void **state)
{
	static const int seals[] = {0,
				    F_SEAL_SHRINK,
				    F_SEAL_GROW,
				    F_SEAL_SHRINK | F_SEAL_GROW,
				    F_SEAL_SHRINK | F_SEAL_SEAL,
				    F_SEAL_GROW | F_SEAL_SEAL,
				    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL};
	struct ring_reader *r;
	struct ends e;

	ends_init(&e, 64);
	for (size_t i = 0; i < ARRAY_LEN(seals); i++) {
		int fd = memfd_like(&e.w, seals[i]);

		assert_int_equal(ring_reader_open(&r, fd, e.w.page_fd), -EPERM);
		close(fd);
	}
	ends_fini(&e);
}

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE)

/* The pages of a sparse ring would be made by the reader that looks at them, and be its own. */
static void a_ring_with_a_hole_anywhere_is_refused_and_costs_no_page(void **state)
{
	struct ring_reader *r;
	struct stat before, after;
	struct ends e;

	ends_init(&e, 64);
	for (uint64_t hole = 0; hole < e.w.header->total_bytes; hole += 4096) {
		int fd = memfd_with_hole(&e.w, ALL_SEALS, hole);

		assert_int_equal(fstat(fd, &before), 0);
		assert_int_equal(ring_reader_open(&r, fd, e.w.page_fd), -ENODATA);
		assert_int_equal(fstat(fd, &after), 0);
		assert_int_equal(before.st_blocks, after.st_blocks);
		close(fd);
	}
	ends_fini(&e);
}

/* A reader that believes every lane full looks at every page and makes none. */
static void rings_of_many_processes_are_charged_to_their_owners(void **state)
{
	struct ring_writer w[8];
	struct ring_reader *r[ARRAY_LEN(w)];
	static union ring_event out[64];
	struct ring_lane_view view;
	struct ring_geometry g;
	uint64_t pages = 0;

	ring_geometry_default(&g);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		struct stat st;

		assert_int_equal(ring_writer_init(&w[i], &g), 0);
		assert_int_equal(ring_writer_fill(&w[i]), 0);
		assert_int_equal(ring_reader_open(&r[i], dup(w[i].fd), dup(w[i].page_fd)), 0);
		fstat(w[i].fd, &st);
		pages += (uint64_t)st.st_blocks * 512;
	}
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		struct stat st;

		for (uint32_t lane = 0; lane < ring_reader_lane_count(r[i]); lane++) {
			w[i].lanes[lane].head = 1ull << 30; /* every slot seems to be full */
			while (ring_reader_drain_lane(r[i], lane, out, 64, &view))
				;
		}
		ring_reader_publish(r[i], 1);
		fstat(w[i].fd, &st);
		assert_true(pages >= (uint64_t)st.st_blocks * 512);
		pages -= (uint64_t)st.st_blocks * 512;
	}
	assert_int_equal(pages, 0); /* the reader has made none */
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		ring_reader_close(r[i]);
		ring_writer_fini(&w[i]);
	}
}

static void refuses_a_reader_page_that_is_not_one(void **state)
{
	struct ring_reader *r;
	struct ends e;
	int fd, pipes[2];

	ends_init(&e, 64);
	fd = memfd_like(&e.w, ALL_SEALS);
	assert_int_equal(ring_reader_open(&r, e.w.fd, fd), -EPROTO); /* too large */
	close(fd);
	fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ring_reader_open(&r, e.w.fd, fd), -EPERM);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	assert_int_equal(ring_reader_open(&r, e.w.fd, fd), -EPROTO);
	close(fd);
	fd = memfd_create("sealed for writing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS), 0);
	assert_int_equal(ring_reader_open(&r, e.w.fd, fd), -EPERM);
	close(fd);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ring_reader_open(&r, e.w.fd, pipes[0]), -EPERM);
	close(pipes[0]);
	close(pipes[1]);
	ends_fini(&e);
}

static void refuses_files_that_are_short_long_or_no_files(void **state)
{
	uint8_t *zero = calloc(1, LIMIT_RING_BYTES + 1);
	struct ring_reader *r;
	struct ends e;
	int fd, pipes[2];

	ends_init(&e, 64);
	fd = file_with(zero, 100);
	assert_int_equal(ring_reader_open(&r, fd, -1), -EPROTO);
	close(fd);
	fd = file_with(e.w.base, e.w.header->total_bytes - 1);
	assert_int_equal(ring_reader_open(&r, fd, -1), -EPROTO);
	close(fd);
	fd = file_with(zero, LIMIT_RING_BYTES + 1);
	assert_int_equal(ring_reader_open(&r, fd, -1), -EFBIG);
	close(fd);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ring_reader_open(&r, pipes[0], -1), -EPROTO);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(ring_reader_open(&r, -1, e.w.page_fd), -EBADF);
	free(zero);
	ends_fini(&e);
}

struct patch {
	const char *what;
	size_t offset, bytes;
	uint64_t value;
};

#define PATCH_HEADER(f, v)                                                                         \
	{                                                                                          \
#f, offsetof(struct ring_header, f), sizeof(((struct ring_header *)0)->f), (v)     \
	}
#define PATCH_LANE(f, v)                                                                           \
	{                                                                                          \
#f, 12288 + offsetof(struct ring_lane, f), sizeof(((struct ring_lane *)0)->f), (v) \
	}

static void refuses_every_impossible_layout(void **state)
{
	static const struct patch patches[] = {
	    PATCH_HEADER(magic, 1),
	    PATCH_HEADER(version, 2),
	    PATCH_HEADER(header_bytes, 1),
	    PATCH_HEADER(total_bytes, 1),
	    PATCH_HEADER(clock_source, 0),
	    PATCH_HEADER(clock_source, 99),
	    PATCH_HEADER(lane_count, 0),
	    PATCH_HEADER(lane_count, 512),
	    PATCH_HEADER(lane_count, UINT32_MAX),
	    PATCH_HEADER(lanes_offset, 0),
	    PATCH_HEADER(lanes_offset, 12289),
	    PATCH_HEADER(lanes_offset, UINT64_MAX - 63),
	    PATCH_HEADER(lanes_offset, 8u << 20),
	    PATCH_HEADER(names_offset, 4),
	    PATCH_HEADER(names_offset, UINT64_MAX - 7),
	    PATCH_HEADER(names_bytes, UINT64_MAX - 7),
	    PATCH_HEADER(names_bytes, 12),
	    PATCH_LANE(offset, 0),
	    PATCH_LANE(offset, 12320),
	    PATCH_LANE(offset, UINT64_MAX - 63),
	    PATCH_LANE(slots, 0),
	    PATCH_LANE(slots, 1),
	    PATCH_LANE(slots, 48),
	    PATCH_LANE(slots, 1u << 31),
	    PATCH_LANE(slot_bytes, 128),
	    PATCH_LANE(slot_bytes, 0),
	    PATCH_LANE(kind, 0),
	    PATCH_LANE(kind, 2),
	    PATCH_LANE(kind, 255),
	    PATCH_LANE(clock_source, 0),
	};
	struct ring_reader *r;
	struct ends e;

	ends_init(&e, 64);
	for (size_t i = 0; i < ARRAY_LEN(patches); i++) {
		const struct patch *p = &patches[i];
		uint64_t keep;
		int live = dup(e.w.fd), rc, fd;

		memcpy(&keep, e.w.base + p->offset, p->bytes);
		memcpy(e.w.base + p->offset, &p->value, p->bytes);
		rc = ring_reader_open(&r, live, e.w.page_fd);
		if (rc != -EPROTO)
			print_message("%s = %llu\n", p->what, (unsigned long long)p->value);
		assert_int_equal(rc, -EPROTO);
		fd = memfd_like(&e.w, 0);
		assert_int_equal(ring_reader_open(&r, fd, -1), -EPROTO);
		close(fd);
		close(live);
		memcpy(e.w.base + p->offset, &keep, p->bytes);
	}
	ends_fini(&e);
}

static void detaches_when_a_head_goes_back_or_leaps(void **state)
{
	static const uint64_t heads[] = {3, 0, UINT64_MAX, 1ull << 62};
	union ring_event out[16];
	struct ring_lane_view view;

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct ring_lane_writer lw;
		struct ends e;

		ends_init(&e, 16);
		assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 1, &lw));
		push_n(&lw, 0, 4);
		assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 4);
		e.w.lanes[0].head = heads[i];
		assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 0);
		assert_int_equal(ring_reader_stats(e.r)->detach_reason, EPROTO);
		ends_fini(&e);
	}
}

static void ignores_later_changes_of_the_layout(void **state)
{
	union ring_event out[16];
	struct ring_lane_view view;
	struct ring_lane_writer lw;
	struct ends e;

	ends_init(&e, 16);
	assert_true(ring_writer_claim(&e.w, RING_LANE_HOST, 1, &lw));
	push_n(&lw, 0, 4);
	e.w.lanes[0].offset = UINT64_MAX;
	e.w.lanes[0].slots = UINT32_MAX;
	e.w.lanes[0].slot_bytes = UINT16_MAX;
	e.w.lanes[0].kind = 99;
	e.w.header->lanes_offset = UINT64_MAX;
	e.w.header->names_offset = UINT64_MAX;
	e.w.header->lane_count = UINT32_MAX;
	assert_int_equal(ring_reader_drain_lane(e.r, 0, out, 16, &view), 4);
	assert_true(event_intact(&out[3]));
	assert_int_equal(ring_reader_poll_names(e.r), 0);
	assert_int_equal(ring_reader_stats(e.r)->detach_reason, 0);
	assert_int_equal(ring_reader_lane_count(e.r), 5);
	ends_fini(&e);
}

static void makes_names_valid_utf8(void **state)
{
	static const char bad[] = "a\xff"
				  "b\x01\xc3\xa9\xe2\x82\xed\xa0\x80"
				  "z";
	struct ends e;

	ends_init(&e, 16);
	assert_int_equal(ring_writer_intern(&e.w, bad, sizeof(bad) - 1), 1);
	assert_int_equal(ring_reader_poll_names(e.r), 1);
	assert_string_equal(ring_reader_name(e.r, 1), "a?b?\xc3\xa9?????z");
	assert_string_equal(ring_reader_name(e.r, 0), "");
	assert_string_equal(ring_reader_name(e.r, 2), "");
	assert_string_equal(ring_reader_name(e.r, UINT32_MAX), "");
	ends_fini(&e);
}

static void waits_for_a_name_that_is_still_being_written(void **state)
{
	struct ring_name *first;
	struct ends e;

	ends_init(&e, 16);
	ring_writer_intern(&e.w, "one", 3);
	ring_writer_intern(&e.w, "two", 3);
	first = (struct ring_name *)(e.w.base + e.w.names_offset);
	first->bytes = 0;
	assert_int_equal(ring_reader_poll_names(e.r), 0);
	first->bytes = 3;
	assert_int_equal(ring_reader_poll_names(e.r), 2);
	assert_string_equal(ring_reader_name(e.r, 2), "two");
	assert_int_equal(ring_reader_stats(e.r)->detach_reason, 0);
	ends_fini(&e);
}

static void detaches_from_a_broken_name_arena(void **state)
{
	for (int how = 0; how < 5; how++) {
		struct ring_name *first;
		struct ends e;

		ends_init(&e, 16);
		ring_writer_intern(&e.w, "one", 3);
		first = (struct ring_name *)(e.w.base + e.w.names_offset);
		if (how == 0)
			first->bytes = UINT32_MAX;
		else if (how == 1)
			first->bytes = 4097;
		else if (how == 2)
			first->id = 2;
		else if (how == 3)
			e.w.counters->names_tail = UINT64_MAX;
		else
			e.w.counters->names_tail = 8; /* shorter than the record */
		assert_int_equal(ring_reader_poll_names(e.r), 0);
		assert_int_equal(ring_reader_stats(e.r)->detach_reason, EPROTO);
		ends_fini(&e);
	}
}

static void copies_the_counters(void **state)
{
	struct ring_counters c;
	struct ends e;

	ends_init(&e, 16);
	ring_writer_count_drop(&e.w, RING_DROP_PACING, 7);
	ring_reader_counters(e.r, &c);
	assert_int_equal(c.drops[RING_DROP_PACING], 7);
	ends_fini(&e);
}

/* ---- both ends at work ---- */

struct stress {
	struct ends e;
	struct ring_lane_writer lw;
	uint64_t count;
	int done, stop;
};

static void *stress_writer(void *arg)
{
	struct stress *s = arg;

	for (uint64_t n = 0; n < s->count; n++) {
		push_n(&s->lw, n, 1);
		if (n % 64 == 0)
			sched_yield();
	}
	__atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void accounts_for_every_event_under_load(void **state)
{
	static union ring_event out[64];
	static struct stress s;
	struct ring_lane_view view;
	uint64_t received = 0, last = UINT64_MAX;
	bool done = false;
	pthread_t t;

	memset(&s, 0, sizeof(s));
	ends_init(&s.e, 64);
	s.count = 400000;
	assert_true(ring_writer_claim(&s.e.w, RING_LANE_HOST, 1, &s.lw));
	assert_int_equal(pthread_create(&t, NULL, stress_writer, &s), 0);
	for (;;) {
		size_t n = ring_reader_drain_lane(s.e.r, 0, out, 64, &view);

		for (size_t i = 0; i < n; i++) {
			assert_true(event_intact(&out[i]));
			assert_true(last == UINT64_MAX || out[i].head.t > last);
			last = out[i].head.t;
		}
		received += n;
		if (!n && done)
			break;
		done = __atomic_load_n(&s.done, __ATOMIC_ACQUIRE);
	}
	pthread_join(t, NULL);
	print_message("%llu received, %llu lapped\n", (unsigned long long)received,
		      (unsigned long long)ring_reader_stats(s.e.r)->lost_lapped);
	assert_int_equal(received + ring_reader_stats(s.e.r)->lost_lapped, s.count);
	assert_int_equal(ring_reader_stats(s.e.r)->lost_torn, 0);
	assert_int_equal(ring_reader_stats(s.e.r)->lost_bad_kind, 0);
	assert_int_equal(ring_reader_stats(s.e.r)->detach_reason, 0);
	ends_fini(&s.e);
}

/* Bursts that lap the ring while snapshots are taken, and rests in which one can succeed. */
static void *burst_writer(void *arg)
{
	struct stress *s = arg;
	uint64_t n = 0;

	for (; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); n += 100) {
		push_n(&s->lw, n, 100);
		if (n % 3000 == 0)
			usleep(300);
	}
	return NULL;
}

static void snapshots_of_a_busy_ring_hold_only_whole_events(void **state)
{
	static union ring_event out[256];
	static struct stress s;
	uint64_t events = 0, torn = 0;
	pthread_t t;

	memset(&s, 0, sizeof(s));
	ends_init(&s.e, 1024);
	assert_true(ring_writer_claim(&s.e.w, RING_LANE_HOST, 1, &s.lw));
	assert_int_equal(pthread_create(&t, NULL, burst_writer, &s), 0);
	for (int i = 0; i < 300; i++) {
		struct ring_lane_view view;
		struct ring_reader *r;
		size_t n;

		assert_int_equal(ring_reader_open(&r, dup(s.e.w.fd), -1), 0);
		while ((n = ring_reader_drain_lane(r, 0, out, 256, &view)) > 0) {
			for (size_t k = 0; k < n; k++)
				assert_true(event_intact(&out[k]));
			events += n;
		}
		torn += ring_reader_stats(r)->lost_torn;
		ring_reader_close(r);
	}
	__atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	print_message("%llu events in snapshots\n", (unsigned long long)events);
	assert_int_equal(torn, 0);
	ends_fini(&s.e);
}

static void reads_on_after_the_writer_was_killed(void **state)
{
	union ring_event out[64];
	struct ring_lane_view view;
	struct ring_geometry g;
	struct ring_reader *r;
	uint64_t received = 0, head;
	int pipes[2], fds[2] = {-1, -1}, status;
	size_t n;
	pid_t child;

	/* The child makes the ring, hands over its number and pushes until it dies. */
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		struct ring_lane_writer lw;
		struct ring_writer w;

		geometry(&g, 1024);
		if (ring_writer_init(&w, &g) || ring_writer_fill(&w) ||
		    !ring_writer_claim(&w, RING_LANE_HOST, 1, &lw))
			_exit(1);
		ring_writer_intern(&w, "last words", 10);
		for (uint64_t i = 0;; i++) {
			push_n(&lw, i, 1);
			if (i == 5000 &&
			    write(pipes[1], (int[]){w.fd, w.page_fd}, sizeof(fds)) != sizeof(fds))
				_exit(1);
		}
	}
	if (read(pipes[0], fds, sizeof(fds)) == sizeof(fds)) {
		char path[64];

		for (int i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "/proc/%d/fd/%d", child, fds[i]);
			fds[i] = open(path, O_RDWR | O_CLOEXEC);
		}
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	assert_int_equal(ring_reader_open(&r, fds[0], fds[1]), 0);
	while ((n = ring_reader_drain_lane(r, 0, out, 64, &view)) > 0) {
		for (size_t i = 0; i < n; i++)
			assert_true(event_intact(&out[i]));
		received += n;
	}
	assert_true(received >= 1023);
	head = out[0].head.t; /* not the head itself, but in the stretch before it */
	assert_true(head >= 5000 - 1024);
	assert_true(received + ring_reader_stats(r)->lost_lapped > 5000);
	assert_int_equal(ring_reader_stats(r)->lost_torn, 0);
	assert_string_equal(ring_reader_name(r, 1), "last words");
	ring_reader_close(r);
	close(pipes[0]);
	close(pipes[1]);
}

static void closing_nothing_is_harmless(void **state)
{
	ring_reader_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(delivers_events_in_order_and_intact),
	    cmocka_unit_test(delivers_device_events_of_128_bytes),
	    cmocka_unit_test(counts_laps_exactly),
	    cmocka_unit_test(counts_a_slot_that_is_being_overwritten_as_lapped),
	    cmocka_unit_test(counts_a_garbled_sequence_as_torn_and_goes_on),
	    cmocka_unit_test(counts_kinds_that_do_not_fit_the_lane),
	    cmocka_unit_test(attributes_events_to_the_owner_that_pushed_them),
	    cmocka_unit_test(takes_over_where_the_reader_before_had_published),
	    cmocka_unit_test(reads_a_ring_from_a_file),
	    cmocka_unit_test(refuses_a_memfd_that_is_not_sealed_in_full),
	    cmocka_unit_test(a_ring_with_a_hole_anywhere_is_refused_and_costs_no_page),
	    cmocka_unit_test(rings_of_many_processes_are_charged_to_their_owners),
	    cmocka_unit_test(refuses_a_reader_page_that_is_not_one),
	    cmocka_unit_test(refuses_files_that_are_short_long_or_no_files),
	    cmocka_unit_test(refuses_every_impossible_layout),
	    cmocka_unit_test(detaches_when_a_head_goes_back_or_leaps),
	    cmocka_unit_test(ignores_later_changes_of_the_layout),
	    cmocka_unit_test(makes_names_valid_utf8),
	    cmocka_unit_test(waits_for_a_name_that_is_still_being_written),
	    cmocka_unit_test(detaches_from_a_broken_name_arena),
	    cmocka_unit_test(copies_the_counters),
	    cmocka_unit_test(accounts_for_every_event_under_load),
	    cmocka_unit_test(snapshots_of_a_busy_ring_hold_only_whole_events),
	    cmocka_unit_test(reads_on_after_the_writer_was_killed),
	    cmocka_unit_test(closing_nothing_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

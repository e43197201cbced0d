/* SPDX-License-Identifier: Apache-2.0
 * test_ring_hostile.c - another process sets every field of the mapping to anything at any time
 * while the reader works. Nothing may follow but counted drops or a detach. The seed is printed;
 * SYSOM_TEST_SEED sets it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "ring/ring_reader.h"
#include "ring/ring_writer.h"

#define LANES	       5
#define BATCH	       64
#define LIVE_TURNS     30000
#define LIVE_TURNS_MAX 3000000 /* where the scribbler gets little of the machine */
#define STEP_TURNS     20000

static uint64_t seed_state;

static uint64_t rnd(void)
{
	seed_state += 0x9e3779b97f4a7c15ull;
	return hash_mix(seed_state);
}

static void seed_init(void)
{
	const char *text = getenv("SYSOM_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20240607;

	print_message("seed %llu\n", (unsigned long long)seed);
	seed_state = seed;
}

static void init(struct ring_writer *w, struct ring_lane_writer *lw)
{
	struct ring_geometry g;

	ring_geometry_default(&g);
	g.host_lanes = LANES - 1;
	g.host_slots = 32;
	g.device_lanes = 1;
	g.small_lanes = 0;
	g.device_slots = 32;
	g.names_bytes = 4096;
	assert_int_equal(ring_writer_init(w, &g), 0);
	assert_int_equal(ring_writer_fill(w), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(
		    ring_writer_claim(w, i < 2 ? RING_LANE_HOST : RING_LANE_DEVICE, 7, &lw[i]));
		for (int n = 0; n < 20; n++) {
			union ring_event e = {.head.kind = i < 2 ? EVENT_LAUNCH : EVENT_KERNEL};

			ring_writer_push(&lw[i], &e);
		}
	}
	ring_writer_intern(w, "first", 5);
	ring_writer_intern(w, "second name", 11);
}

/* Values at the edges of what a reader might believe. */
static uint64_t extreme(uint64_t near)
{
	switch (rnd() % 12) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return UINT32_MAX;
	case 3:
		return 1ull << 63;
	case 4:
		return 1ull << 31;
	case 5:
		return near + 1;
	case 6:
		return near - 1;
	case 7:
		return near + 31 + rnd() % 3;
	case 8:
		return near - 31 - rnd() % 3;
	case 9:
		return near + (1ull << 40) + rnd() % 3 - 1;
	case 10:
		return rnd() % 65536;
	default:
		return rnd();
	}
}

static void set(uint8_t *base, size_t offset, size_t bytes, uint64_t value)
{
	if (bytes == 8)
		__atomic_store_n((uint64_t *)(base + (offset & ~7ull)), value, __ATOMIC_RELAXED);
	else if (bytes == 4)
		__atomic_store_n((uint32_t *)(base + (offset & ~3ull)), (uint32_t)value,
				 __ATOMIC_RELAXED);
	else if (bytes == 2)
		__atomic_store_n((uint16_t *)(base + (offset & ~1ull)), (uint16_t)value,
				 __ATOMIC_RELAXED);
	else
		base[offset] = (uint8_t)value;
}

static uint64_t get64(const uint8_t *base, size_t offset)
{
	return __atomic_load_n((const uint64_t *)(base + (offset & ~7ull)), __ATOMIC_RELAXED);
}

/* A slot whose sequences are right, but whose contents are anything. */
static void forge_slot(uint8_t *base, const struct ring_header *h)
{
	size_t lane = rnd() % LANES;
	uint8_t *l = base + h->lanes_offset + lane * sizeof(struct ring_lane);
	uint64_t head = get64(l, 0), back = rnd() % 33, n = head - back;
	size_t slot_bytes = lane < LANES - 1 ? 64 : 128;
	size_t first = h->names_offset + h->names_bytes + lane * 4096;
	uint8_t *slot = base + first + (n % 32) * slot_bytes;

	for (size_t i = 0; i < slot_bytes; i += 8)
		set(slot, i, 8, rnd());
	set(slot, 0, 4, n + 1);
	set(slot, 4, 2, rnd() % 40);
	set(slot, slot_bytes - 4, 4, n + 1);
	if (rnd() % 2)
		set(l, 0, 8, head + rnd() % 40);
}

static void mutate_names(uint8_t *base, const struct ring_header *h)
{
	size_t arena = h->names_offset, tail = 4096 + offsetof(struct ring_counters, names_tail);

	switch (rnd() % 4) {
	case 0: /* an id or a length of any record */
		set(base, arena + (rnd() % (h->names_bytes / 4)) * 4, 4, extreme(3));
		break;
	case 1:
		set(base, tail, 8, extreme(get64(base, tail)) & ~(rnd() % 8));
		break;
	case 2: { /* a record that is right but for its text */
		size_t at = get64(base, tail) % h->names_bytes & ~7ull;
		size_t bytes = rnd() % 64;

		for (size_t i = 8; i < 8 + bytes && at + i < h->names_bytes; i++)
			set(base, arena + at + i, 1, rnd());
		set(base, arena + at, 4, 3 + rnd() % 3);
		set(base, arena + (at + 4) % h->names_bytes, 4, bytes);
		set(base, tail, 8, (at + 8 + bytes + 7) & ~7ull);
		break;
	}
	default: /* a chain of records that leads back to its beginning */
		for (size_t at = 0; at + 16 <= h->names_bytes; at += 16) {
			set(base, arena + at, 4, 1 + (at / 16) % 4);
			set(base, arena + at + 4, 4, 8);
		}
		set(base, tail, 8, h->names_bytes);
	}
}

static void mutate(uint8_t *base, const struct ring_header *h)
{
	static const uint8_t widths[] = {1, 2, 4, 8};
	size_t width = widths[rnd() % 4];
	size_t at;

	switch (rnd() % 8) {
	case 0:
		at = rnd() % 96;
		set(base, at, width, extreme(get64(base, at)));
		break;
	case 1: /* any field of any lane */
	case 2:
		at = h->lanes_offset + rnd() % (LANES * sizeof(struct ring_lane));
		set(base, at, width, extreme(get64(base, at)));
		break;
	case 3: /* heads above all */
		at = h->lanes_offset + rnd() % LANES * sizeof(struct ring_lane);
		set(base, at, 8, extreme(get64(base, at)));
		break;
	case 4:
		mutate_names(base, h);
		break;
	case 5:
	case 6:
		forge_slot(base, h);
		break;
	default:
		at = rnd() % h->total_bytes;
		set(base, at, width, extreme(get64(base, at)));
	}
}

static size_t text_length(const char *text)
{
	size_t n = 0;

	for (; text[n]; n++)
		assert_true((unsigned char)text[n] >= 0x20);
	return n;
}

/* One round of everything a daemon does; whatever it is given is used. */
static uint64_t use(struct ring_reader *r)
{
	union ring_event out[BATCH];
	struct ring_counters counters;
	uint64_t sum = 0;

	for (uint32_t lane = 0; lane < ring_reader_lane_count(r); lane++) {
		struct ring_lane_view view;
		size_t n = ring_reader_drain_lane(r, lane, out, BATCH, &view);

		assert_true(n <= BATCH);
		for (size_t i = 0; i < n; i++) {
			if (view.kind == RING_LANE_HOST)
				assert_in_range(out[i].head.kind, EVENT_LAUNCH, EVENT_SPAN_REQUEST);
			else
				assert_in_range(out[i].head.kind, EVENT_KERNEL, EVENT_GRAPH_EXEC);
			sum += out[i].bytes[63];
		}
	}
	ring_reader_poll_names(r);
	for (uint32_t id = 0; id <= ring_reader_name_count(r) + 1; id++)
		assert_true(text_length(ring_reader_name(r, id)) <= LIMIT_NAME_BYTES);
	ring_reader_counters(r, &counters);
	ring_reader_publish(r, clock_monotonic_ns());
	return sum;
}

struct tally {
	uint64_t opened, refused, detached, events, lapped, torn, bad_kind, names;
};

static void count(struct tally *t, struct ring_reader *r)
{
	const struct ring_stats *s = ring_reader_stats(r);

	t->events += s->events;
	t->lapped += s->lost_lapped;
	t->torn += s->lost_torn;
	t->bad_kind += s->lost_bad_kind;
	t->names += ring_reader_name_count(r);
	t->detached += s->detach_reason != 0;
}

/* All the ways that there are were gone. */
static bool walked(const struct tally *t)
{
	return t->opened > 10 && t->refused > 10 && t->detached > 10 && t->events > 10 &&
	       t->torn > 10 && t->bad_kind > 10 && t->names > 10;
}

static void print_tally(const struct tally *t)
{
	print_message("opened %llu refused %llu detached %llu events %llu torn %llu bad kind %llu "
		      "names %llu\n",
		      (unsigned long long)t->opened, (unsigned long long)t->refused,
		      (unsigned long long)t->detached, (unsigned long long)t->events,
		      (unsigned long long)t->torn, (unsigned long long)t->bad_kind,
		      (unsigned long long)t->names);
	assert_true(walked(t));
}

/* NULL when the reader refused. */
static struct ring_reader *try_open(struct tally *t, const struct ring_writer *w, bool live)
{
	struct ring_reader *r;
	int copy = dup(w->fd), page = live ? dup(w->page_fd) : -1, rc;

	assert_true(copy >= 0);
	rc = ring_reader_open(&r, copy, page);
	if (!rc) {
		t->opened++;
		return r;
	}
	assert_int_equal(rc, -EPROTO);
	t->refused++;
	close(copy);
	if (live)
		close(page);
	return NULL;
}

/* In turn, so that a seed gives the same run each time; offline and live by turns. */
static void survives_every_field_set_to_anything_between_calls(void **state)
{
	struct ring_lane_writer lw[3];
	struct ring_reader *r = NULL;
	struct ring_header h;
	struct ring_writer w;
	struct tally t = {0};
	uint8_t *image;

	seed_init();
	init(&w, lw);
	h = *w.header;
	image = malloc(h.total_bytes);
	memcpy(image, w.base, h.total_bytes);
	for (int i = 0; i < STEP_TURNS; i++) {
		for (uint64_t k = rnd() % 4; k > 0; k--)
			mutate(w.base, &h);
		if (r && (rnd() % 64 == 0 || ring_reader_stats(r)->detach_reason)) {
			count(&t, r);
			ring_reader_close(r);
			r = NULL;
		}
		if (!r)
			r = try_open(&t, &w, i % 2);
		if (r)
			use(r);
		else
			memcpy(w.base, image, h.total_bytes);
	}
	if (r)
		count(&t, r);
	ring_reader_close(r);
	free(image);
	print_tally(&t);
	ring_writer_fini(&w);
}

static void scribble(const struct ring_writer *w, const struct ring_header *h, const uint8_t *image,
		     int repair)
{
	uint8_t *base = w->base; /* no other mapping could write */
	char command;

	for (;;) {
		w->reader->heartbeat_ns = rnd();
		w->reader->tail[rnd() % LANES] = rnd();
		for (int i = 0; i < 50; i++)
			mutate(base, h);
		/* All of these fail. */
		if (rnd() % 8 == 0) {
			off_t at = (off_t)(rnd() % 10 * 4096);

			if (!ftruncate(w->fd, 0) || !ftruncate(w->fd, 1 << 22) ||
			    !fcntl(w->fd, F_ADD_SEALS, F_SEAL_WRITE) ||
			    !fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
				       4096) ||
			    !madvise(base + at, 4096, MADV_REMOVE))
				_exit(1);
		}
		if (read(repair, &command, 1) == 1)
			memcpy(base, image, h->total_bytes);
	}
}

static void survives_a_process_that_scribbles_at_any_time(void **state)
{
	struct ring_lane_writer lw[3];
	struct ring_reader *r = NULL;
	int repair[2], status, turns = 0;
	struct ring_header h;
	struct ring_writer w;
	struct tally t = {0};
	uint8_t *image;
	pid_t child;

	seed_init();
	init(&w, lw);
	h = *w.header;
	image = malloc(h.total_bytes);
	memcpy(image, w.base, h.total_bytes);
	assert_int_equal(pipe2(repair, O_NONBLOCK), 0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		scribble(&w, &h, image, repair[0]);
	}
	for (int i = 0; i < LIVE_TURNS || (!walked(&t) && i < LIVE_TURNS_MAX); i++) {
		if (i % 64 == 0)
			sched_yield();
		if (r && (++turns % 256 == 0 || ring_reader_stats(r)->detach_reason)) {
			count(&t, r);
			ring_reader_close(r);
			r = NULL;
		}
		if (!r)
			r = try_open(&t, &w, i % 4);
		if (r) {
			use(r);
		} else {
			assert_int_not_equal(write(repair[1], "r", 1), 0);
			sched_yield();
		}
	}
	assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* it was at it all the time */
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	if (r)
		count(&t, r);
	ring_reader_close(r);
	free(image);
	close(repair[0]);
	close(repair[1]);
	print_tally(&t);
	ring_writer_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(survives_every_field_set_to_anything_between_calls),
	    cmocka_unit_test(survives_a_process_that_scribbles_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * fuzz_ring_reader.c - any file as a ring, read live, or with bit 7 of byte 0 as a copy. Its other bits say
 * how the rest is meant: 0: it is the file; otherwise patches {u16 offset, u8 length, bytes} of a small
 * valid ring, a length of 0 letting the reader work once in between. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "ring/ring_reader.h"
#include "ring/ring_writer.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define BATCH	  64
#define ROUNDS	  2
#define TURNS_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t *template_image;
static size_t template_bytes;

static void template_init(void)
{
	static const char *const names[] = {"gemm", "ncclDevKernel_AllReduce", "\xff\xc3"};
	struct ring_geometry g;
	struct ring_writer w;

	ring_geometry_default(&g);
	g.host_lanes = 2;
	g.host_slots = 16;
	g.device_lanes = 1;
	g.small_lanes = 0;
	g.device_slots = 16;
	g.names_bytes = 512;
	CHECK(!ring_writer_init(&w, &g));
	for (int i = 0; i < 3; i++) {
		struct ring_lane_writer lw;

		CHECK(ring_writer_claim(&w, i < 2 ? RING_LANE_HOST : RING_LANE_DEVICE, 7, &lw));
		for (int n = 0; n < 10; n++) {
			union ring_event e = {.head.kind = i < 2 ? EVENT_LAUNCH : EVENT_KERNEL};

			ring_writer_push(&lw, &e);
		}
		ring_writer_intern(&w, names[i], strlen(names[i]));
	}
	template_bytes = w.header->total_bytes;
	template_image = malloc(template_bytes);
	CHECK(template_image);
	memcpy(template_image, w.base, template_bytes);
	ring_writer_fini(&w);
}

/* *map: as the producer has it, the only mapping that can write; NULL: not asked for. */
static int memfd_with(const uint8_t *image, size_t bytes, uint8_t **map, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK(pwrite(fd, image, bytes, 0) == (ssize_t)bytes);
	if (map) {
		*map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(*map != MAP_FAILED);
	}
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals));
	return fd;
}

static int open_any(struct ring_reader **r, int fd, bool live)
{
	static const struct ring_reader_page page;
	int page_fd = live ? memfd_with((const uint8_t *)&page, sizeof(page), NULL, 0) : -1;
	int err = ring_reader_open(r, fd, page_fd);

	if (err && live)
		close(page_fd);
	return err;
}

static void use_once(struct ring_reader *r)
{
	union ring_event out[BATCH];
	struct ring_counters counters;
	struct ring_lane_view view;

	for (uint32_t lane = 0; lane < ring_reader_lane_count(r); lane++) {
		size_t n = ring_reader_drain_lane(r, lane, out, BATCH, &view);

		CHECK(n <= BATCH);
		for (size_t i = 0; i < n; i++)
			CHECK((out[i].head.kind >= EVENT_KERNEL) ==
			      (view.kind == RING_LANE_DEVICE));
	}
	ring_reader_poll_names(r);
	for (uint32_t id = 0; id <= ring_reader_name_count(r) + 1; id++)
		CHECK(strlen(ring_reader_name(r, id)) <= LIMIT_NAME_BYTES);
	ring_reader_counters(r, &counters);
	ring_reader_publish(r, 1);
}

static void use_image(const uint8_t *image, size_t bytes, bool live)
{
	struct ring_reader *r;
	int fd = memfd_with(image, bytes, NULL, F_SEAL_FUTURE_WRITE);

	if (open_any(&r, fd, live)) {
		close(fd);
		return;
	}
	for (int i = 0; i < ROUNDS; i++)
		use_once(r);
	ring_reader_close(r);
}

/* Applies the patches to a live ring, the reader at work in between where a patch says so. */
static void use_patches(const uint8_t *data, size_t bytes, bool live)
{
	uint8_t *map;
	int fd = memfd_with(template_image, template_bytes, &map, F_SEAL_FUTURE_WRITE);
	int copy = dup(fd);
	struct ring_reader *r = NULL;
	size_t at = 0, turns = 0;

	while (at + 3 <= bytes && turns < TURNS_MAX) {
		size_t offset = data[at] | (size_t)data[at + 1] << 8, n = data[at + 2];

		at += 3;
		if (n > bytes - at)
			n = bytes - at;
		if (n && offset + n <= template_bytes)
			memcpy(map + offset, data + at, n);
		at += n;
		if (!n && !r && copy >= 0 && !open_any(&r, copy, live))
			copy = -1;
		if (!n && r)
			use_once(r);
		turns += !n;
	}
	if (!r && !open_any(&r, copy, live))
		copy = -1;
	if (r)
		use_once(r);
	ring_reader_close(r);
	if (copy >= 0)
		close(copy);
	close(fd);
	munmap(map, template_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!template_image)
		template_init();
	if (bytes < 1)
		return 0;
	if (data[0] & 0x7f)
		use_patches(data + 1, bytes - 1, !(data[0] & 0x80));
	else
		use_image(data + 1, bytes - 1, !(data[0] & 0x80));
	return 0;
}

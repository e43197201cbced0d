/* SPDX-License-Identifier: Apache-2.0
 * fuzz_ring_reader.c - any file as a ring, read live and as a copy. Byte 0 says how the rest is
 * meant: 0: it is the file; otherwise patches {u16 offset, u8 length, bytes} of a small valid ring,
 * a length of 0 letting the reader work once in between. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "ring/ring_reader.h"
#include "ring/ring_writer.h"

#define BATCH 64
#define ROUNDS 8

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

static int memfd_with(const uint8_t *image, size_t bytes)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK(pwrite(fd, image, bytes, 0) == (ssize_t)bytes);
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	return fd;
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
			CHECK((out[i].head.kind >= EVENT_KERNEL) == (view.kind == RING_LANE_DEVICE));
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
	int fd = memfd_with(image, bytes);

	if (ring_reader_open(&r, fd, live)) {
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
	int fd = memfd_with(template_image, template_bytes), copy = dup(fd);
	struct ring_reader *r = NULL;
	size_t at = 0;

	while (at + 3 <= bytes) {
		size_t offset = data[at] | (size_t)data[at + 1] << 8, n = data[at + 2];

		at += 3;
		if (n > bytes - at)
			n = bytes - at;
		if (n && offset + n <= template_bytes)
			CHECK(pwrite(fd, data + at, n, (off_t)offset) == (ssize_t)n);
		at += n;
		if (!n && !r && copy >= 0 && !ring_reader_open(&r, copy, live))
			copy = -1;
		if (!n && r)
			use_once(r);
	}
	if (!r && !ring_reader_open(&r, copy, live))
		copy = -1;
	if (r)
		use_once(r);
	ring_reader_close(r);
	if (copy >= 0)
		close(copy);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!template_image)
		template_init();
	if (bytes < 1)
		return 0;
	if (data[0] == 0) {
		use_image(data + 1, bytes - 1, true);
		use_image(data + 1, bytes - 1, false);
	} else {
		use_patches(data + 1, bytes - 1, true);
		use_patches(data + 1, bytes - 1, false);
	}
	return 0;
}

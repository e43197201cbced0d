/* SPDX-License-Identifier: Apache-2.0
 * fuzz_python.c - any memory of a process: finding, walking and naming end, within their bounds.
 * Input: u8 version (0 to 2: 3.10 to 3.12; else by debug offsets), u8 how addresses that no piece covers
 * read (odd: as bytes of the input, so that every pointer leads somewhere; even: not at all), u16
 * pieces, u64 fsbase, u64 runtime, u64 code_type; then pieces of {u64 address, 64 bytes}; the rest is
 * read by the first kind. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "bpf/python.h"
#include "fuzz_budget.h"
#include "sampler/python/python_names.h"
#include "sampler/python/python_runtime.h"
#include "sampler/python/python_stitch.h"

#define PIECE	  64u
#define READS_MAX 200000u

struct image {
	const uint8_t *data, *piece;
	size_t bytes, pieces;
	bool anywhere;
	uint32_t reads;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool byte_at(struct image *m, uint64_t address, uint8_t *out)
{
	for (size_t i = 0; i < m->pieces; i++) {
		uint64_t at;

		memcpy(&at, m->piece + i * (8 + PIECE), 8);
		if (address >= at && address - at < PIECE) {
			*out = m->piece[i * (8 + PIECE) + 8 + (address - at)];
			return true;
		}
	}
	*out = m->data[address % m->bytes];
	return m->anywhere;
}

static long image_read(void *owner, void *to, __u32 bytes, __u64 address)
{
	struct image *m = owner;
	struct image one = *m;

	m->reads++;
	CHECK(m->reads < READS_MAX);
	one.pieces = 0;
	for (__u32 i = 0; i < bytes; i++) {
		/* whole pieces are looked up once */
		if (!i || (address + i) % PIECE == 0) {
			one.pieces = 0;
			for (size_t k = 0; k < m->pieces && !one.pieces; k++) {
				uint64_t at;

				memcpy(&at, m->piece + k * (8 + PIECE), 8);
				if (address + i >= at && address + i - at < PIECE) {
					one.piece = m->piece + k * (8 + PIECE);
					one.pieces = 1;
				}
			}
		}
		if (!byte_at(&one, address + i, (uint8_t *)to + i))
			return -1;
	}
	return 0;
}

static void name_all(const struct python_runtime *r, const struct read_user *reader,
		     const struct python_state *state)
{
	struct python_names *names;

	CHECK(!python_names_open(&names, r));
	for (int period = 0; period < 2; period++) {
		for (uint32_t i = 0; i < state->count; i++) {
			struct python_name name;

			if (python_names_find(names, reader, &state->frame[i], &name))
				continue;
			CHECK(strlen(name.function) < LIMIT_PYTHON_NAME_BYTES);
			CHECK(strlen(name.file) < LIMIT_PYTHON_FILE_BYTES);
		}
		python_names_begin(names);
	}
	python_names_close(names);
}

static void once(const uint8_t *data, size_t bytes)
{
	static const char *const PATHS[] = {"python3.10", "python3.11", "python3.12"};
	static struct python_state state;
	struct python_elf elf = {0};
	struct python_runtime r;
	struct image m = {.data = data, .bytes = bytes};
	struct read_user reader = {image_read, &m};
	uint16_t pieces;

	if (bytes < 28)
		return;
	m.anywhere = data[1] & 1;
	memcpy(&pieces, data + 2, 2);
	m.piece = data + 28;
	m.pieces = pieces;
	if (m.pieces > (bytes - 28) / (8 + PIECE))
		m.pieces = (bytes - 28) / (8 + PIECE);
	memcpy(&elf.runtime, data + 12, 8);
	memcpy(&elf.code_type, data + 20, 8);
	if (python_runtime_probe(&r, &elf, 0, data[0] < 3 ? PATHS[data[0]] : "x", &reader))
		return;
	CHECK(r.what[0] && strlen(r.what) < sizeof(r.what));
	for (int by_list = 0; by_list < 2; by_list++) {
		memset(&state, 0xee, sizeof(state));
		memcpy(&state.fsbase, data + 4, 8);
		state.futex = r.process.gil + 40;
		read_user_source = reader;
		m.reads = 0;
		python_walk(&state, &r.process);
		CHECK(m.reads <= PYTHON_STEP_MAX + PYTHON_THREAD_MAX + 16);
		CHECK(state.count <= PYTHON_FRAME_MAX && state.end < PYTHON_END_COUNT);
		CHECK(state.gil <= PYTHON_GIL_UNKNOWN);
		for (uint32_t i = 0; i < state.count; i++)
			CHECK(state.frame[i].code < 1ull << 47 && state.frame[i].flags <= 1);
		name_all(&r, &reader, &state);
		r.process.tsd_slot = 0;
	}
}

/* Two walks of 256 frames, each named twice: a name, a file and a table of lines may be read for each,
 * whatever the input's size. Nothing else is allocated. */
#define ALLOCATED_BYTES                                                                            \
	(4ull * PYTHON_FRAME_MAX *                                                                 \
	 (LIMIT_PYTHON_NAME_BYTES + LIMIT_PYTHON_FILE_BYTES + 2 * LIMIT_PYTHON_LINES_BYTES))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	fuzz_budget_begin();
	once(data, bytes);
	fuzz_budget_end(bytes, 0, ALLOCATED_BYTES, 0);
	return 0;
}

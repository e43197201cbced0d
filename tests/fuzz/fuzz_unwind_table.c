/* SPDX-License-Identifier: Apache-2.0
 * fuzz_unwind_table.c - any bytes as an ELF file: refused with a reason or compiled into a table
 * that keeps its promises, goes into the arena, and leads a walk over any stack to an end; at no more
 * work and memory than its real bytes allow, also with a hole of a tebibyte behind it. */
#include <stdlib.h>
#include <elfutils/libdw.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "fuzz_budget.h"
#include "sampler/unwind/unwind_replay.h"
#include "sampler/unwind/unwind_store.h"
#include "sampler/unwind/unwind_table.h"
#include "tests/decoded_cfi.h"

/* Two stores of 8 MiB, and 64 walks in each mode. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 1024,
    .allocated = 48u << 20,
    .allocated_per_byte = 1024,
    .cpu_us = 200000,
    .cpu_ns_per_byte = 10000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct stack {
	const uint8_t *data;
	size_t bytes;
};

/* The file's own bytes, over and over, are all the memory there is. */
static int read_stack(void *context, void *to, size_t bytes, uint64_t address)
{
	const struct stack *s = context;

	if (!s->bytes || address >> 47)
		return -1;
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = s->data[(address + i) % s->bytes];
	return 0;
}

static void check_table(const struct unwind_table *t)
{
	CHECK(t->row_count && t->rule_count && t->rule_count <= LIMIT_UNWIND_FILE_RULES);
	CHECK(t->end > t->begin && t->end - t->begin <= LIMIT_UNWIND_SPAN_BYTES);
	CHECK(t->begin % UNWIND_PAGE_BYTES == 0);
	for (uint32_t i = 0; i < t->row_count; i++) {
		CHECK(t->rows[i].rule < t->rule_count);
		CHECK(t->rows[i].address <= t->end - t->begin);
		CHECK(!i || t->rows[i].address > t->rows[i - 1].address);
	}
	for (uint32_t i = 0; i < t->rule_count; i++)
		CHECK(UNWIND_RULE_CFA(&t->rules[i]) < UNWIND_CFA_COUNT);
}

static void walk(const struct unwind_table *t, struct stack *stack)
{
	static struct unwind_state state;
	const struct unwind_store_key key = {.count = 1, .kind = 1};
	struct unwind_mapping m;
	struct unwind_process p;
	struct unwind_store *s;
	uint32_t file;

	CHECK(!unwind_store_open(&s, &unwind_store_memory, 8u << 20));
	if (!unwind_store_add(s, &key, t, &file)) {
		uint64_t end =
		    (t->end + UNWIND_PAGE_BYTES - 1) & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);

		unwind_store_mapping(s, file, t->begin, end, 0, &m);
		CHECK(!unwind_store_publish(s, &m, 1, &p, NULL));
		for (enum unwind_mode mode = UNWIND_MODE_TABLE; mode <= UNWIND_MODE_PAPER; mode++) {
			struct unwind_replay *r;

			CHECK(!unwind_replay_open(&r, s, mode, read_stack, stack));
			for (uint32_t i = 0; i < t->row_count && i < 64; i++) {
				state.pc = t->begin + t->rows[i].address;
				for (int k = 0; k < UNWIND_REGISTERS; k++)
					state.reg[k] = 0x1000u + 8u * (unsigned)k;
				state.process = p;
				unwind_replay_walk(r, &state);
				CHECK(state.count <= UNWIND_FRAME_MAX &&
				      state.end < UNWIND_END_COUNT);
			}
			unwind_replay_close(r);
		}
	}
	unwind_store_close(s);
}

static void once(const uint8_t *data, size_t bytes, int sparse)
{
	char why[UNWIND_TABLE_WHY_BYTES];
	struct stack stack = {data, bytes};
	struct unwind_table t;
	int fd = fuzz_budget_file(data, bytes, sparse), rc;

	decoded = 0;
	fuzz_budget_begin();
	rc = unwind_table_compile(&t, fd, why);
	/* headers and names first; then a byte of a program may be a row, and a room doubles */
	fuzz_budget_end(bytes, 1u << 20, 2u << 20, 256);
	/* each entry twice, of two sections, of which one may unpack to 64 times its size */
	CHECK(decoded <= 16 + 4 * 64 * bytes);
	CHECK(rc <= 0);
	if (rc) {
		CHECK(why[0] && !t.rows && !t.rules);
	} else {
		check_table(&t);
		walk(&t, &stack);
	}
	unwind_table_fini(&t);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	once(data, bytes, 0);
	once(data, bytes, 1);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * fuzz_symbol - any bytes as an ELF file: it is refused, or its index opens, has disjoint rows in rising
 * order and answers every address without leaving its file. Each is tried with a hole of a tebibyte behind
 * it too, and must cost no more than its bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "fuzz_budget.h"
#include "symbol/symbol_elf.h"
#include "symbol/symbol_index.h"

/* Twice what one file may. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 1024,
    .allocated = 160u << 20,
    .allocated_per_byte = 2048,
    .cpu_us = 20000,
    .cpu_ns_per_byte = 10000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_index(const char *path)
{
	struct symbol_index x;
	struct symbol_hit hit;
	uint64_t hits = 0;

	CHECK(!symbol_index_open(&x, path));
	for (uint64_t a = 0; a < 0x8000; a += 16) {
		if (symbol_index_find(&x, a, &hit))
			continue;
		CHECK(a >= hit.begin && a - hit.begin < hit.size &&
		      strlen(hit.name) < x.names_bytes);
		hits++;
	}
	CHECK(!hits || x.row_count);
	symbol_index_close(&x);
}

/* The runs' buffer has 6 MiB, LZMA's window up to 64, most of it never touched; a symbol of 24 bytes
 * becomes at most two rows of 32, and is read and sorted through a file; what was packed small unpacks to
 * 64 times its size. */
#define MOVED_BYTES	(1u << 20)
#define ALLOCATED_BYTES (80u << 20)
#define FACTOR		1024u

static void once(const uint8_t *data, size_t bytes, int sparse)
{
	int fd = fuzz_budget_file(data, bytes, sparse);
	char path[64], name[256];
	struct symbol_elf e;
	const char *why;
	uint32_t crc;

	snprintf(path, sizeof(path), "/tmp/sysom-fuzz-symbol-%d.idx", getpid());
	fuzz_budget_begin();
	if (!symbol_elf_init(&e, fd, &why)) {
		CHECK(e.build_id_bytes <= SYMBOL_BUILD_ID_MAX);
		symbol_elf_debug_link(&e, name, sizeof(name), &crc);
		if (!symbol_index_build(&e, path, &why)) {
			fuzz_budget_end(bytes, MOVED_BYTES, ALLOCATED_BYTES, FACTOR);
			check_index(path);
		}
		unlink(path);
		symbol_elf_fini(&e);
	}
	fuzz_budget_end(bytes, MOVED_BYTES, ALLOCATED_BYTES, FACTOR);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	once(data, bytes, 0);
	once(data, bytes, 1);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * fuzz_symbol - any bytes as an ELF file: it is refused, or its index opens, has disjoint rows in rising
 * order and answers every address without leaving its file. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "symbol/symbol_elf.h"
#include "symbol/symbol_index.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char path[64], name[256];
	struct symbol_elf e;
	const char *why;
	uint32_t crc;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	if (!symbol_elf_init(&e, fd, &why)) {
		CHECK(e.build_id_bytes <= SYMBOL_BUILD_ID_MAX);
		symbol_elf_debug_link(&e, name, sizeof(name), &crc);
		snprintf(path, sizeof(path), "/tmp/sysom-fuzz-symbol-%d.idx", getpid());
		if (!symbol_index_build(&e, path, &why))
			check_index(path);
		unlink(path);
		symbol_elf_fini(&e);
	}
	close(fd);
	return 0;
}

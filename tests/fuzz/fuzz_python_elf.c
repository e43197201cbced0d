/* SPDX-License-Identifier: Apache-2.0
 * fuzz_python_elf.c - any file as an interpreter's, also with a hole of a tebibyte behind it: refused or
 * read, within bounds, and at no more work and memory than its real bytes allow. */
#include <stdint.h>
#include <unistd.h>

#include "base/check.h"
#include "fuzz_budget.h"
#include "sampler/python/python_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void once(const uint8_t *data, size_t bytes, int sparse)
{
	int fd = fuzz_budget_file(data, bytes, sparse);
	struct python_elf e;
	uint64_t address;

	fuzz_budget_begin();
	if (!python_elf_read(&e, fd)) {
		CHECK(e.runtime && e.eval_count <= PYTHON_ELF_EVAL_MAX);
		CHECK(e.wait_count <= PYTHON_ELF_WAIT_MAX && e.load_count <= PYTHON_ELF_LOAD_MAX);
		for (uint32_t i = 0; i < e.eval_count; i++)
			CHECK(e.eval[i].begin < e.eval[i].end);
		python_elf_address(&e, 4096, &address);
	}
	/* headers, notes and names of up to 128 notes; then each table once or twice */
	fuzz_budget_end(bytes, 1u << 20, 1u << 20, 16);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	once(data, bytes, 0);
	once(data, bytes, 1);
	return 0;
}

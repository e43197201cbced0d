/* SPDX-License-Identifier: Apache-2.0
 * fuzz_python_elf.c - any file as an interpreter's: refused or read, within bounds. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "sampler/python_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct python_elf e;
	uint64_t address;

	CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	if (!python_elf_read(&e, fd)) {
		CHECK(e.runtime && e.eval_count <= PYTHON_ELF_EVAL_MAX);
		CHECK(e.wait_count <= PYTHON_ELF_WAIT_MAX && e.load_count <= PYTHON_ELF_LOAD_MAX);
		for (uint32_t i = 0; i < e.eval_count; i++)
			CHECK(e.eval[i].begin < e.eval[i].end);
		python_elf_address(&e, 4096, &address);
	}
	close(fd);
	return 0;
}

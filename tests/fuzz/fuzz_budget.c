/* SPDX-License-Identifier: Apache-2.0
 * Stands before the C library's functions: the program's own definitions win. Under a
 * sanitizer that has its own allocator, its hook counts. The linker wraps the entry of every
 * fuzzer. */
#include "fuzz_budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/sanitized.h"

static _Thread_local uint64_t moved, allocated;
static _Thread_local int counting;

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
	ssize_t n = syscall(SYS_pread64, fd, to, bytes, at);

	if (counting > 0 && n > 0)
		moved += (uint64_t)n;
	return n;
}

ssize_t write(int fd, const void *from, size_t bytes)
{
	ssize_t n = syscall(SYS_write, fd, from, bytes);

	if (counting > 0 && n > 0)
		moved += (uint64_t)n;
	return n;
}

#ifdef SANITIZED
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *p, size_t bytes)
{
	if (counting > 0)
		allocated += bytes;
}

static void on_free(const volatile void *p)
{
}

__attribute__((constructor)) static void install(void)
{
	__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#else
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static void count(size_t bytes)
{
	if (counting > 0)
		allocated += bytes;
}

void *malloc(size_t bytes)
{
	count(bytes);
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	count(n * bytes);
	return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
	count(bytes);
	return __libc_realloc(p, bytes);
}
#endif

static uint64_t part_moved, part_allocated;

void fuzz_budget_begin(void)
{
	part_moved = moved;
	part_allocated = allocated;
}

void fuzz_budget_end(size_t input_bytes, uint64_t moved_fixed, uint64_t allocated_fixed,
		     uint64_t factor)
{
	uint64_t m = moved - part_moved, a = allocated - part_allocated;

	if (m <= moved_fixed + factor * input_bytes && a <= allocated_fixed + factor * input_bytes)
		return;
	counting = 0;
	fprintf(stderr, "%zu bytes made it move %llu and allocate %llu\n", input_bytes,
		(unsigned long long)m, (unsigned long long)a);
	abort();
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t check_ns; /* of the checks of this input */

void fuzz_budget_check_begin(void)
{
	counting--;
	check_ns -= cpu_ns();
}

void fuzz_budget_check_end(void)
{
	check_ns += cpu_ns();
	counting++;
}

/* ---- every input as a whole ---- */

#define TRIES	   3
#define CPU_FACTOR 10 /* sanitizers, and a machine that is slow just now */

__attribute__((weak)) struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 256,
    .allocated = 4u << 20,
    .allocated_per_byte = 1024,
    .cpu_us = 20000,
    .cpu_ns_per_byte = 10000,
};

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct fuzz_bounds *b = &fuzz_bounds;

	for (int i = 0; i < TRIES; i++) {
		uint64_t begin_ns = cpu_ns(), ns;
		int rc;

		moved = allocated = check_ns = 0;
		counting = 1;
		rc = __real_LLVMFuzzerTestOneInput(data, bytes);
		counting = 0;
		ns = cpu_ns() - begin_ns - check_ns;
		if (moved <= b->moved + b->moved_per_byte * bytes &&
		    allocated <= b->allocated + b->allocated_per_byte * bytes &&
		    ns <= CPU_FACTOR * (b->cpu_us * 1000 + b->cpu_ns_per_byte * bytes))
			return rc;
		fprintf(stderr, "%zu bytes made it move %llu, allocate %llu and run for %llu us\n",
			bytes, (unsigned long long)moved, (unsigned long long)allocated,
			(unsigned long long)ns / 1000);
	}
	abort();
}

int fuzz_budget_file(const uint8_t *data, size_t bytes, int sparse)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes ||
	    (sparse && ftruncate(fd, 1ll << 40)))
		abort();
	return fd;
}

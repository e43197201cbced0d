/* SPDX-License-Identifier: Apache-2.0
 * hostile_maps.c - a traced process that maps what is made to hurt whoever reads it: sparse ELF files whose
 * tables have terabytes, and a file of a file system that never answers. Runs as the user UID.
 * usage: sysom run -- hostile_maps DIR UID SECONDS       (as root, with /dev/fuse; DIR is an empty one) */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/sparse_elf.h"
#include "tests/unit/fuse_hang.h"

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void map(int fd)
{
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		fail("mmap");
	close(fd);
}

static void map_sparse(const char *dir, int number, uint64_t names_bytes, uint32_t sections,
		       uint64_t symbols_bytes)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/libpython-%d.so", dir, number);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	if (fd < 0 || sparse_elf_write(fd, names_bytes, sections, symbols_bytes))
		fail(path);
	map(fd);
}

int main(int argc, char **argv)
{
	void (*begin)(const double *, unsigned) =
	    (void (*)(const double *, unsigned))dlsym(RTLD_DEFAULT, "sysom_step_begin");
	void (*end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "sysom_step_end");
	uid_t uid = argc > 3 ? (uid_t)atoi(argv[2]) : 0;
	time_t until = time(NULL) + (argc > 3 ? atoi(argv[3]) : 0);
	struct fuse_hang hang;
	char path[256];

	if (argc < 4 || !begin || !end) {
		fprintf(stderr, "usage: sysom run -- hostile_maps DIR UID SECONDS\n");
		return 2;
	}
	snprintf(path, sizeof(path), "%s/hang", argv[1]);
	if (fuse_hang_open(&hang, path))
		fail(path);
	if (chown(argv[1], uid, uid) || setgroups(0, NULL) || setresgid(uid, uid, uid) ||
	    setresuid(uid, uid, uid))
		fail("setuid");
	map_sparse(argv[1], 0, 1ull << 42, 3, 4096);
	map_sparse(argv[1], 1, 4096, 3, 1ull << 42);
	map_sparse(argv[1], 2, 4096, 60000, 4096);
	map_sparse(argv[1], 3, 4096, 0x7fffffff, 4096);
	snprintf(path, sizeof(path), "%s/hang/read", argv[1]);
	map(open(path, O_RDONLY | O_CLOEXEC));
	while (time(NULL) < until) {
		begin(NULL, 0);
		for (volatile unsigned i = 0; i < 20000000; i++)
			;
		end();
	}
	return 0;
}

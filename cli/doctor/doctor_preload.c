/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/paths.h"
#include "render/term.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the ELF reader below is for little-endian machines"
#endif

/* The library must be built for the same machine as this program. */
#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_NONE
#endif

struct elf {
	const uint8_t *data;
	size_t bytes;
};

static const void *at(const struct elf *e, uint64_t offset, uint64_t bytes)
{
	return offset <= e->bytes && bytes <= e->bytes - offset ? e->data + offset : NULL;
}

/* File offset of an address, from the load segments. */
static uint64_t file_offset(const struct elf *e, const Elf64_Ehdr *h, uint64_t address)
{
	for (unsigned i = 0; i < h->e_phnum; i++) {
		const Elf64_Phdr *p = at(e, h->e_phoff + i * sizeof(*p), sizeof(*p));

		if (p && p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz)
			return p->p_offset + (address - p->p_vaddr);
	}
	return UINT64_MAX;
}

static const Elf64_Dyn *find_dynamic(const struct elf *e, const Elf64_Ehdr *h, size_t *count)
{
	for (unsigned i = 0; i < h->e_phnum; i++) {
		const Elf64_Phdr *p = at(e, h->e_phoff + i * sizeof(*p), sizeof(*p));

		if (!p || p->p_type != PT_DYNAMIC)
			continue;
		*count = p->p_filesz / sizeof(Elf64_Dyn);
		return at(e, p->p_offset, p->p_filesz);
	}
	return NULL;
}

/* The NEEDED entries, comma-separated; *foreign: one is not part of the C library. */
static void list_needed(const struct elf *e, const Elf64_Ehdr *h, char *out, size_t out_bytes,
			bool *foreign)
{
	size_t count = 0, used = 0;
	const Elf64_Dyn *dyn = find_dynamic(e, h, &count);
	uint64_t strings = UINT64_MAX;

	*foreign = false;
	*out = '\0';
	for (size_t i = 0; dyn && i < count; i++)
		if (dyn[i].d_tag == DT_STRTAB)
			strings = file_offset(e, h, dyn[i].d_un.d_ptr);
	for (size_t i = 0; dyn && strings != UINT64_MAX && i < count && dyn[i].d_tag != DT_NULL;
	     i++) {
		const char *name;

		if (dyn[i].d_tag != DT_NEEDED)
			continue;
		name = at(e, strings + dyn[i].d_un.d_val, 1);
		if (!name || !memchr(name, 0, e->bytes - (size_t)(name - (const char *)e->data)))
			continue;
		if (strncmp(name, "libc.so", 7) && strncmp(name, "ld-linux", 8))
			*foreign = true;
		if (used < out_bytes)
			used += (size_t)snprintf(out + used, out_bytes - used, "%s%s",
						 used ? ", " : "", term_safe(name, 60));
	}
}

static void check_elf(struct doctor *d, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf e = {NULL, 0};
	const Elf64_Ehdr *h;
	char needed[256];
	struct stat st;
	bool foreign;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
		e.bytes = (size_t)st.st_size;
		e.data = mmap(NULL, e.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
		if (e.data == MAP_FAILED)
			e.data = NULL;
	}
	h = e.data ? at(&e, 0, sizeof(*h)) : NULL;
	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_machine != OUR_MACHINE || h->e_type != ET_DYN) {
		doctor_add(d, "preload format", DOCTOR_FAIL, "build or install it for this machine",
			   "%s is not a shared object for this machine", path);
	} else {
		list_needed(&e, h, needed, sizeof(needed), &foreign);
		doctor_add(d, "preload format", foreign ? DOCTOR_WARN : DOCTOR_OK,
			   foreign ? "it should need only the C library: every job would load the "
				     "others too"
				   : "",
			   "needs %s", *needed ? needed : "nothing");
	}
	if (e.data)
		munmap((void *)e.data, e.bytes);
	if (fd >= 0)
		close(fd);
}

static void run_true(void *arg, int fd)
{
	setenv("LD_PRELOAD", arg, 1);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	execl("/bin/true", "true", (char *)NULL);
	dprintf(fd, "/bin/true: %s", strerror(errno));
	_exit(127);
}

void doctor_preload_check(struct doctor *d)
{
	const char *disabled = getenv("SYSOM_DISABLE");
	char path[PATH_MAX], out[300];
	int r;

	if (paths_preload(path, sizeof(path))) {
		doctor_add(
		    d, "preload library", DOCTOR_FAIL,
		    "install libsysom_preload.so in ../lib beside sysom, or set SYSOM_PRELOAD",
		    "%s is missing or can't be read", path);
		return;
	}
	doctor_add(d, "preload library", DOCTOR_OK, "", "%s", path);
	if (strpbrk(path, ": "))
		doctor_add(d, "preload path", DOCTOR_FAIL,
			   "install it elsewhere or set SYSOM_PRELOAD",
			   "LD_PRELOAD can't hold a path with a colon or space");
	check_elf(d, path);
	r = doctor_child(run_true, path, out, sizeof(out));
	if (r == 0 && !*out)
		doctor_add(d, "preload loads", DOCTOR_OK, "",
			   "/bin/true runs under it and prints nothing");
	else
		doctor_add(d, "preload loads", DOCTOR_FAIL, "rebuild it on this machine",
			   "/bin/true fails with it: status %d %s", r, term_safe(out, 100));
	if (disabled && *disabled && strcmp(disabled, "0"))
		doctor_add(d, "switched off", DOCTOR_WARN, "unset SYSOM_DISABLE",
			   "SYSOM_DISABLE is set: jobs start without tracing");
	doctor_add(
	    d, "setuid programs", DOCTOR_OK, "",
	    "ld.so drops LD_PRELOAD for setuid programs and file capabilities: write sudo sysom "
	    "run, not sysom run sudo");
}

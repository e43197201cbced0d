/* SPDX-License-Identifier: Apache-2.0
 * mapping_scan.c - see mapping_scan.h. */
#include "sampler/mapping_scan.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/room.h"
#include "symbol/symbol_content.h"

_Static_assert(STACK_BUILD_ID_MAX == SYMBOL_ID_MAX, "stacks carry a file's identity");

#define VDSO "[vdso]"

/* The kernel maps one vdso into every 64-bit process. */
static int vdso_open(void)
{
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
	Elf64_Ehdr eh;
	size_t bytes;
	int fd;

	if (!image)
		return -ENOENT;
	memcpy(&eh, image, sizeof(eh));
	bytes = (size_t)eh.e_shoff + (size_t)eh.e_shnum * eh.e_shentsize;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, image, bytes) != (ssize_t)bytes) {
		close(fd);
		return -EIO;
	}
	return fd;
}

int mapping_open(struct reader_target *t, uint64_t begin, uint64_t end, const char *path)
{
	return strcmp(path, VDSO) ? reader_target_open(t, READER_MAPPING, begin, end, path)
				  : vdso_open();
}

static void key_fill(struct mapping_elf *e, const struct stat *st)
{
	uint64_t identity[4] = {(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
				(uint64_t)st->st_mtim.tv_sec * 1000000000ull +
				    (uint64_t)st->st_mtim.tv_nsec};

	memset(&e->key, 0, sizeof(e->key));
	if (e->build_id_bytes) {
		memcpy(e->key.bytes, e->build_id, e->build_id_bytes);
		e->key.count = e->build_id_bytes;
		e->key.kind = 1;
	} else {
		memcpy(e->key.bytes, identity, sizeof(identity));
		e->key.count = sizeof(identity);
		e->key.kind = 2;
	}
}

int mapping_elf_read(struct mapping_elf *out, int fd)
{
	Elf64_Ehdr eh;
	struct stat st;
	int n;

	memset(out, 0, sizeof(*out));
	if (fstat(fd, &st))
		return -errno;
	if (pread(fd, &eh, sizeof(eh), 0) != (ssize_t)sizeof(eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_machine != EM_X86_64)
		return -ENOTSUP;
	if (eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phnum > LIMIT_SYMBOL_SEGMENTS)
		return -EBADMSG;
	for (int i = 0; i < eh.e_phnum && out->load_count < MAPPING_SEGMENTS; i++) {
		Elf64_Phdr ph;

		if (pread(fd, &ph, sizeof(ph), (off_t)(eh.e_phoff + (uint64_t)i * sizeof(ph))) !=
		    (ssize_t)sizeof(ph))
			return -EBADMSG;
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X))
			continue;
		out->load[out->load_count].offset = ph.p_offset;
		out->load[out->load_count].address = ph.p_vaddr;
		out->load[out->load_count++].bytes = ph.p_filesz;
	}
	n = symbol_content_id(fd, out->build_id);
	out->build_id_bytes = n > 0 ? (uint8_t)n : 0;
	key_fill(out, &st);
	return 0;
}

bool mapping_elf_bias(const struct mapping_elf *e, uint64_t begin, uint64_t offset,
		      uint64_t *load_bias)
{
	for (uint32_t i = 0; i < e->load_count; i++) {
		uint64_t first = e->load[i].offset & ~4095ull;

		if (offset < first || offset >= e->load[i].offset + e->load[i].bytes)
			continue;
		*load_bias = begin - (e->load[i].address - e->load[i].offset + offset);
		return true;
	}
	return false;
}

/* Reads the ELF headers of the file behind a mapping. A mapping without a file is not an error. */
static void mapping_identify(struct mapping *m, struct reader_target *t)
{
	struct mapping_elf *e;
	int fd = mapping_open(t, m->begin, m->end, m->path);

	if (fd < 0)
		return;
	e = malloc(sizeof(*e));
	if (e && !mapping_elf_read(e, fd) &&
	    mapping_elf_bias(e, m->begin, m->offset, &m->load_bias))
		m->elf = e;
	else
		free(e);
	close(fd);
}

/* Parses one line of maps: 0, or a reason to stop. */
static int scan_line(struct mapping_scan *s, size_t *room, char *line, struct reader_target *t)
{
	unsigned long begin, end, offset, inode;
	struct mapping *m;
	char perms[8], *path;
	int at = 0, err;

	if (sscanf(line, "%lx-%lx %7s %lx %*s %lu %n", &begin, &end, perms, &offset, &inode, &at) <
		5 ||
	    perms[2] != 'x' || begin >= end || begin >> 56)
		return 0;
	path = line + at;
	path[strcspn(path, "\n")] = 0;
	if (s->count >= UNWIND_MAPPING_MAX)
		return -E2BIG;
	err = ROOM_FOR(s->mappings, *room, s->count + 1ull);
	if (err)
		return err;
	m = &s->mappings[s->count];
	memset(m, 0, sizeof(*m));
	m->begin = begin;
	m->end = end;
	m->offset = offset;
	m->path = strdup(inode || !strcmp(path, VDSO) ? path : "");
	if (!m->path)
		return -ENOMEM;
	s->count++;
	if (m->path[0])
		mapping_identify(m, t);
	return 0;
}

int mapping_scan_read(struct mapping_scan *out, struct reader_target *t)
{
	size_t room = 0, line_room = 0;
	char *line = NULL;
	FILE *f;
	int fd = reader_target_open(t, READER_MAPS, 0, 0, NULL), err = 0;

	memset(out, 0, sizeof(*out));
	out->pid = t->pid;
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	while (!err && getline(&line, &line_room, f) > 0)
		err = scan_line(out, &room, line, t);
	free(line);
	fclose(f);
	if (err == -E2BIG)
		err = 0; /* no room for more: keeps the first mappings by address */
	if (err)
		mapping_scan_fini(out);
	return err;
}

void mapping_scan_fini(struct mapping_scan *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		free(s->mappings[i].elf);
		free(s->mappings[i].path);
	}
	free(s->mappings);
	memset(s, 0, sizeof(*s));
}

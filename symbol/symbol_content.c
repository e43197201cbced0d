/* SPDX-License-Identifier: Apache-2.0
 * symbol_content.c - see symbol_content.h.
 * The headers are hashed too, so that the bytes that follow can be split in only one way. */
#include "symbol/symbol_content.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <nettle/sha2.h>

#include "base/all_bytes.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "symbol/symbol_elf.h"

/* Two changes within one step of the clock leave the same times. */
#define SETTLED_S 2

struct memo {
	dev_t dev;
	ino_t ino;
	off_t bytes;
	struct timespec mtime, ctime;
	int result;
	bool used;
	uint8_t content[SYMBOL_CONTENT_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memo memos[LIMIT_SYMBOL_CONTENTS]; /* under lock; by the file's hash */

struct digest {
	const struct symbol_elf *e;
	struct sha256_ctx sha;
	uint64_t left; /* sections of a valid file do not overlap: together at most the file's
		        * bytes */
};

static int add(struct digest *d, uint64_t offset, uint64_t bytes)
{
	uint8_t chunk[65536];
	int err = 0;

	if (bytes > d->left || !symbol_elf_has(d->e, offset, bytes))
		return -EBADMSG;
	d->left -= bytes;
	while (bytes && !err) {
		size_t n = bytes < sizeof(chunk) ? bytes : sizeof(chunk);

		err = all_bytes_read(d->e->fd, chunk, n, offset);
		if (!err)
			sha256_update(&d->sha, n, chunk);
		offset += n;
		bytes -= n;
	}
	return err;
}

static bool is_told_from(uint32_t type, const char *name)
{
	static const char *const names[] = {".eh_frame",      ".eh_frame_hdr",	".debug_frame",
					    ".gnu_debugdata", ".gnu_debuglink", ".rela.plt"};

	if (type == SHT_SYMTAB || type == SHT_DYNSYM || type == SHT_STRTAB || type == SHT_NOTE)
		return true;
	for (size_t i = 0; type != SHT_NOBITS && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static int add_sections(struct digest *d)
{
	const struct symbol_elf *e = d->e;
	int err = add(d, e->section_headers, e->section_count * sizeof(Elf64_Shdr));

	for (uint32_t i = 1; i < e->section_count && !err; i++) {
		char name[SYMBOL_SECTION_NAME_BYTES];

		err = symbol_elf_section_name(e, i, name);
		if (!err && is_told_from(e->sections[i].type, name))
			err = add(d, e->sections[i].offset, e->sections[i].bytes);
	}
	return err;
}

static int add_frames_segment(struct digest *d, const Elf64_Phdr *ph, int count)
{
	uint64_t frames = 0;

	for (int i = 0; i < count; i++)
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			frames = ph[i].p_vaddr;
	for (int i = 0; i < count; i++)
		if (frames && ph[i].p_type == PT_LOAD && frames >= ph[i].p_vaddr &&
		    frames - ph[i].p_vaddr < ph[i].p_filesz)
			return add(d, ph[i].p_offset, ph[i].p_filesz);
	return 0;
}

static int compute(int fd, uint8_t content[SYMBOL_CONTENT_BYTES])
{
	Elf64_Phdr ph[LIMIT_SYMBOL_SEGMENTS];
	struct symbol_elf e;
	struct digest d = {.e = &e};
	const char *why;
	int err = symbol_elf_init(&e, fd, &why), count;

	if (err)
		return err;
	d.left = e.file_bytes;
	sha256_init(&d.sha);
	count = symbol_elf_segments(&e, ph, LIMIT_SYMBOL_SEGMENTS);
	err = count < 0 ? count : add(&d, 0, sizeof(Elf64_Ehdr));
	if (!err) {
		sha256_update(&d.sha, (size_t)count * sizeof(ph[0]), (const uint8_t *)ph);
		err = e.section_count ? add_sections(&d) : add_frames_segment(&d, ph, count);
	}
	if (!err)
		sha256_digest(&d.sha, SYMBOL_CONTENT_BYTES, content);
	symbol_elf_fini(&e);
	return err;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int symbol_content(int fd, uint8_t content[SYMBOL_CONTENT_BYTES])
{
	struct timespec now;
	struct memo m;
	struct stat st;
	uint32_t slot;

	if (fstat(fd, &st))
		return -errno;
	slot = (uint32_t)hash_mix(st.st_ino ^ hash_mix(st.st_dev)) % LIMIT_SYMBOL_CONTENTS;
	pthread_mutex_lock(&lock);
	m = memos[slot];
	pthread_mutex_unlock(&lock);
	if (m.used && m.dev == st.st_dev && m.ino == st.st_ino && m.bytes == st.st_size &&
	    same_time(&m.mtime, &st.st_mtim) && same_time(&m.ctime, &st.st_ctim)) {
		memcpy(content, m.content, sizeof(m.content));
		return m.result;
	}
	m = (struct memo){.used = true,
			  .dev = st.st_dev,
			  .ino = st.st_ino,
			  .bytes = st.st_size,
			  .mtime = st.st_mtim,
			  .ctime = st.st_ctim};
	m.result = compute(fd, m.content);
	memcpy(content, m.content, sizeof(m.content));
	clock_gettime(CLOCK_REALTIME, &now);
	if (m.result == -ENOMEM || m.result == -EIO || now.tv_sec - st.st_ctim.tv_sec < SETTLED_S)
		return m.result;
	pthread_mutex_lock(&lock);
	memos[slot] = m;
	pthread_mutex_unlock(&lock);
	return m.result;
}

int symbol_content_id(int fd, uint8_t id[SYMBOL_ID_MAX])
{
	uint8_t note[SYMBOL_BUILD_ID_MAX];
	int n = symbol_elf_build_id(fd, note), err;

	if (n < 0)
		return n;
	if (n > SYMBOL_NOTE_MAX)
		n = SYMBOL_NOTE_MAX;
	if (n + SYMBOL_CONTENT_BYTES <= SYMBOL_NOTE_MAX)
		return 0;
	memcpy(id, note, (size_t)n);
	err = symbol_content(fd, id + n);
	return err == -EBADMSG || err == -ENOEXEC ? 0 : err ? err : n + SYMBOL_CONTENT_BYTES;
}

int symbol_content_path(const char *dir, const char *below, const uint8_t *id, size_t id_bytes,
			const char *suffix, char *out, size_t out_bytes)
{
	char hex[2 * SYMBOL_BUILD_ID_MAX + 1];

	if (id_bytes < 2 || id_bytes > SYMBOL_BUILD_ID_MAX)
		return -EINVAL;
	text_hex(id, id_bytes, hex);
	return (size_t)snprintf(out, out_bytes, "%s%s/%.2s/%s%s", dir, below, hex, hex + 2,
				suffix) < out_bytes
		   ? 0
		   : -ENAMETOOLONG;
}

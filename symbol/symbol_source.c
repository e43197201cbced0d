/* SPDX-License-Identifier: Apache-2.0
 * symbol_source.c - see symbol_source.h. It tries cheap places first and stops at a file with a
 * full symbol table. */
#include "symbol/symbol_source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include <elfutils/debuginfod.h>

#include "base/limits.h"
#include "symbol/symbol_content.h"

struct best {
	struct symbol_elf elf;
	int fd;
	bool any, refused;
	const char *why;
};

/* Takes fd. Keeps the file if it is the right one and better than the best so far. */
static void offer_fd(struct best *b, int fd, const uint8_t *build_id, size_t bytes)
{
	uint8_t content[SYMBOL_CONTENT_BYTES];
	size_t note = symbol_content_note(bytes);
	struct symbol_elf e;
	const char *why;
	int err = symbol_elf_init(&e, fd, &why);

	if (!err && note < bytes && symbol_content_proves(bytes) &&
	    (symbol_content(fd, content) || memcmp(content, build_id + note, sizeof(content)))) {
		symbol_elf_fini(&e);
		why = "other content behind the same Build ID";
		err = -EBADMSG;
	}
	bytes = note;
	if (err) {
		if (err == -EBADMSG || err == -ENOEXEC) {
			b->refused = true;
			b->why = why;
		}
		close(fd);
		return;
	}
	if ((bytes && (e.build_id_bytes < bytes || memcmp(e.build_id, build_id, bytes))) ||
	    (b->any && b->elf.quality >= e.quality)) {
		symbol_elf_fini(&e);
		close(fd);
		return;
	}
	if (b->any) {
		symbol_elf_fini(&b->elf);
		close(b->fd);
	}
	b->elf = e;
	b->fd = fd;
	b->any = true;
}

/* Links inside a container mean the container's files, and none may lead out of it. Kernels before
 * 5.6 cannot enforce this, but the Build ID is checked anyway. */
static int open_below(const char *root, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
			       .resolve = RESOLVE_IN_ROOT};
	int dir = root ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : AT_FDCWD, fd;

	if (!root)
		return open(path, (int)how.flags);
	if (dir < 0)
		return -1;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		while (*path == '/')
			path++;
		fd = openat(dir, path, (int)how.flags);
	}
	close(dir);
	return fd;
}

static int open_found(const struct symbol_source *s, const char *path)
{
	return s->open ? s->open(s->open_arg, path) : open_below(s->root, path);
}

static void offer(struct best *b, const struct symbol_source *s, const char *path,
		  const uint8_t *build_id, size_t bytes)
{
	int fd = s ? open_found(s, path) : open_below(NULL, path);

	if (fd >= 0)
		offer_fd(b, fd, build_id, bytes);
}

static bool enough(const struct best *b)
{
	return b->any && b->elf.quality >= SYMBOL_TABLE;
}

/* Only for a file without holes that is not too long. */
static bool crc_matches(const struct symbol_source *s, int fd, uint32_t want)
{
	static _Thread_local uint8_t chunk[65536];
	uint64_t max = s->link_bytes_max ? s->link_bytes_max : LIMIT_SYMBOL_FILE_BYTES;
	uint32_t crc = (uint32_t)crc32(0, NULL, 0);
	struct stat st;
	ssize_t n = -1;
	off_t at = 0;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > max ||
	    (st.st_size && lseek(fd, 0, SEEK_HOLE) < st.st_size))
		return false;
	/* not beyond the original size: the file may grow as fast as we read */
	for (; at < st.st_size && !(s->stop && atomic_load(s->stop)); at += n) {
		n = pread(fd, chunk, sizeof(chunk), at);
		if (n <= 0)
			return false;
		crc = (uint32_t)crc32(crc, chunk, (uInt)n);
	}
	return at >= st.st_size && crc == want;
}

/* Tries the debug link's file: beside the binary, in .debug, and below the debug directory. */
static void offer_debug_link(struct best *b, const struct symbol_source *s, const char *path,
			     const uint8_t *build_id, size_t bytes)
{
	const char *const root = s->debug_root ? s->debug_root : "/usr/lib/debug";
	const char *const before[] = {"", "", root}, *const after[] = {"", "/.debug", ""};
	const char *slash = strrchr(path, '/');
	char name[256], full[4096];
	uint32_t crc;

	if (!slash || !b->any || symbol_elf_debug_link(&b->elf, name, sizeof(name), &crc))
		return;
	for (int i = 0; i < 3 && !enough(b); i++) {
		int fd, n = snprintf(full, sizeof(full), "%s%.*s%s/%s", before[i],
				     (int)(slash - path), path, after[i], name);

		if (n < 0 || (size_t)n >= sizeof(full))
			continue;
		fd = open_found(s, full);
		if (fd < 0)
			continue;
		/* Without a Build ID only the checksum shows that the two belong together. */
		if (!bytes && !crc_matches(s, fd, crc))
			close(fd);
		else
			offer_fd(b, fd, build_id, bytes);
	}
}

static int on_progress(debuginfod_client *c, long a, long b)
{
	const atomic_bool *stop = debuginfod_get_user_data(c);

	return stop && atomic_load(stop);
}

static void offer_debuginfod(struct best *b, const struct symbol_source *s, const uint8_t *build_id,
			     size_t bytes)
{
	debuginfod_client *c = debuginfod_begin();
	int fd;

	if (!c)
		return;
	debuginfod_set_user_data(c, (void *)(uintptr_t)s->stop);
	debuginfod_set_progressfn(c, on_progress);
	fd = debuginfod_find_debuginfo(c, build_id, (int)bytes, NULL);
	if (fd < 0 && !b->any)
		fd = debuginfod_find_executable(c, build_id, (int)bytes, NULL);
	if (fd >= 0)
		offer_fd(b, fd, build_id, bytes);
	debuginfod_end(c);
}

/* Tries the places where the content is the proof: the mapped file itself, or its copy in the
 * directory. */
static void offer_proven(struct best *b, const struct symbol_source *s, const uint8_t *id,
			 size_t bytes, const char *path)
{
	char full[4096];

	if (s->directory && !symbol_content_path(s->directory, "/.build-id", id, bytes, ".debug",
						 full, sizeof(full)))
		offer(b, NULL, full, id, bytes);
	if (path && !enough(b))
		offer(b, s, path, id, bytes);
}

/* Tries the places that only a Build ID leads to. */
static void offer_named(struct best *b, const struct symbol_source *s, const uint8_t *id,
			size_t bytes, const char *path)
{
	const char *dirs[] = {s->directory, s->debug_root ? s->debug_root : "/usr/lib/debug"};
	char full[4096];

	for (size_t i = 0; i < 2 && !enough(b); i++) {
		const int before = b->any ? b->fd : -1;

		if (dirs[i] && !symbol_content_path(dirs[i], "/.build-id", id, bytes, ".debug",
						    full, sizeof(full)))
			offer(b, NULL, full, id, bytes);
		/* only root can put files into the system's directory */
		if (i == 1 && b->any && b->fd != before)
			b->elf.trusted = true;
	}
	if (path && (s->links || !bytes) && !enough(b)) {
		offer(b, s, path, id, bytes);
		if (s->links && !enough(b))
			offer_debug_link(b, s, path, id, bytes);
	}
	if (s->debuginfod && bytes && !enough(b))
		offer_debuginfod(b, s, id, bytes);
}

int symbol_source_open(const struct symbol_source *s, const uint8_t *build_id,
		       size_t build_id_bytes, const char *path, struct symbol_elf *e, int *fd,
		       const char **why)
{
	struct best b = {.why = ""};

	if (symbol_content_proves(build_id_bytes)) {
		offer_proven(&b, s, build_id, build_id_bytes, path);
		b.elf.trusted = true;
	} else {
		offer_named(&b, s, build_id, build_id_bytes, path);
	}
	*why = b.why;
	if (!b.any)
		return b.refused ? -EBADMSG : -ENODATA;
	*e = b.elf;
	*fd = b.fd;
	return 0;
}

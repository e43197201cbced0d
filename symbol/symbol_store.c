/* SPDX-License-Identifier: Apache-2.0
 * symbol_store.c - see symbol_store.h.
 * An upload lives as long as this process. A restart removes partial files, and the uploader learns
 * that its session is unknown and starts again. Continuing a file from another process's bytes
 * could combine two different files. */
#include "symbol/symbol_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/daemon/dirs.h"
#include "base/limits.h"
#include "symbol/symbol_files.h"

#define IDLE_NS		120000000000ull
#define IDLE_CROWDED_NS 10000000000ull /* if all slots are taken */

struct upload {
	uint64_t session; /* 0: free */
	uint8_t id[SYMBOL_FILES_ID_MAX];
	uint8_t id_bytes;
	bool finishing;
	enum symbol_quality quality;
	uint64_t bytes, have, moved_ns;
	int fd;
};

struct symbol_store {
	pthread_mutex_t lock;
	char dir[900], tree[1000];
	uint64_t bytes_max, reserve_bytes, idle_ns;
	bool evict;
	struct symbol_files *files;
	struct upload uploads[LIMIT_SYMBOL_UPLOADS];
	struct symbol_store_stats stats;
};

/* ---- open and close ---- */

static void part_path(const struct symbol_store *s, uint64_t session, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s/upload/%016llx.part", s->dir, (unsigned long long)session);
}

static int clear_uploads(const struct symbol_store *s)
{
	char path[1200];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/upload", s->dir);
	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	d = opendir(path);
	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		size_t n = strlen(e->d_name);

		if (n > 5 && !strcmp(e->d_name + n - 5, ".part"))
			unlinkat(dirfd(d), e->d_name, 0);
	}
	closedir(d);
	return 0;
}

static int make_dirs(struct symbol_store *s)
{
	char path[1100];

	if (mkdir(s->dir, 0755) && errno != EEXIST)
		return -errno;
	if (mkdir(s->tree, 0755) && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/.build-id", s->tree);
	return symbol_files_open(&s->files, path, ".debug", s->bytes_max);
}

int symbol_store_open(struct symbol_store **out, const struct symbol_store_options *o)
{
	struct symbol_store *s = calloc(1, sizeof(*s));
	int err = 0;

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->bytes_max = o->bytes_max;
	s->reserve_bytes = o->reserve_bytes;
	s->idle_ns = o->idle_ns ? o->idle_ns : IDLE_NS;
	s->evict = o->evict;
	if ((size_t)snprintf(s->dir, sizeof(s->dir), "%s", o->directory) >= sizeof(s->dir))
		err = -ENAMETOOLONG;
	snprintf(s->tree, sizeof(s->tree), "%s/tree", s->dir);
	if (!err)
		err = make_dirs(s);
	if (!err)
		err = clear_uploads(s);
	if (err) {
		symbol_store_close(s);
		return err;
	}
	*out = s;
	return 0;
}

static void drop(struct symbol_store *s, struct upload *u)
{
	char path[1200];

	part_path(s, u->session, path, sizeof(path));
	unlink(path);
	if (u->fd >= 0)
		close(u->fd);
	s->stats.reserved_bytes -= u->bytes;
	s->stats.uploading--;
	memset(u, 0, sizeof(*u));
}

void symbol_store_close(struct symbol_store *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < LIMIT_SYMBOL_UPLOADS; i++)
		if (s->uploads[i].session)
			drop(s, &s->uploads[i]);
	symbol_files_close(s->files);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

const char *symbol_store_tree(const struct symbol_store *s)
{
	return s->tree;
}

/* ---- existing files ---- */

/* Locked. A file found at start is examined when it is first asked for. */
static enum symbol_quality quality_of(struct symbol_store *s, const uint8_t *id, size_t id_bytes)
{
	struct symbol_files_item *i = symbol_files_find(s->files, id, id_bytes);
	struct symbol_elf e;
	const char *why;
	char path[1200];
	int fd;

	if (!i || i->quality)
		return i ? (enum symbol_quality)i->quality : SYMBOL_NONE;
	if (symbol_files_path(s->files, id, id_bytes, path, sizeof(path)))
		return SYMBOL_NONE;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && !symbol_elf_init(&e, fd, &why)) {
		i->quality = (uint8_t)e.quality;
		symbol_elf_fini(&e);
	}
	if (fd >= 0)
		close(fd);
	return (enum symbol_quality)i->quality;
}

void symbol_store_use(struct symbol_store *s, const uint8_t *id, size_t id_bytes)
{
	struct symbol_files_item *i;

	pthread_mutex_lock(&s->lock);
	i = symbol_files_find(s->files, id, id_bytes);
	if (i)
		symbol_files_use(s->files, i);
	pthread_mutex_unlock(&s->lock);
}

static struct upload *upload_of(struct symbol_store *s, const uint8_t *id, size_t id_bytes)
{
	for (uint32_t i = 0; i < LIMIT_SYMBOL_UPLOADS; i++) {
		struct upload *u = &s->uploads[i];

		if (u->session && u->id_bytes == id_bytes && !memcmp(u->id, id, id_bytes))
			return u;
	}
	return NULL;
}

static bool is_idle(const struct upload *u, uint64_t now_ns, uint64_t idle_ns)
{
	return !u->finishing && now_ns > u->moved_ns && now_ns - u->moved_ns > idle_ns;
}

/* Locked. 0 if a file of that quality would be accepted. */
static int wanted(struct symbol_store *s, const uint8_t *id, size_t id_bytes,
		  enum symbol_quality quality, uint64_t now_ns)
{
	const struct upload *u = upload_of(s, id, id_bytes);

	if (quality <= quality_of(s, id, id_bytes))
		return -EEXIST;
	return u && !is_idle(u, now_ns, s->idle_ns) ? -EBUSY : 0;
}

bool symbol_store_needed(struct symbol_store *s, const uint8_t *id, size_t id_bytes,
			 enum symbol_quality quality, uint64_t now_ns)
{
	bool yes;

	pthread_mutex_lock(&s->lock);
	yes = id_bytes >= 2 && !wanted(s, id, symbol_content_cut(id_bytes), quality, now_ns);
	pthread_mutex_unlock(&s->lock);
	return yes;
}

/* ---- uploads ---- */

/* Locked. A free slot; if all are taken, that of the upload that has been idle longest. */
static struct upload *free_place(struct symbol_store *s, uint64_t now_ns)
{
	struct upload *oldest = NULL;

	for (uint32_t i = 0; i < LIMIT_SYMBOL_UPLOADS; i++) {
		struct upload *u = &s->uploads[i];

		if (!u->session)
			return u;
		if (is_idle(u, now_ns, IDLE_CROWDED_NS) &&
		    (!oldest || u->moved_ns < oldest->moved_ns))
			oldest = u;
	}
	if (oldest) {
		s->stats.abandoned++;
		drop(s, oldest);
	}
	return oldest;
}

static int check_room(struct symbol_store *s, uint64_t bytes)
{
	struct statvfs fs;

	if (bytes > LIMIT_SYMBOL_FILE_BYTES || (s->bytes_max && bytes > s->bytes_max))
		return -EFBIG;
	if (!statvfs(s->dir, &fs) && (uint64_t)fs.f_bavail * fs.f_frsize <
					 bytes + s->stats.reserved_bytes + s->reserve_bytes)
		return -ENOSPC;
	return symbol_files_make_room(s->files, bytes + s->stats.reserved_bytes, s->evict);
}

static int open_part(struct symbol_store *s, struct upload *u)
{
	char path[1200];

	if (getrandom(&u->session, sizeof(u->session), 0) != (ssize_t)sizeof(u->session))
		return -EIO;
	u->session |= !u->session;
	part_path(s, u->session, path, sizeof(path));
	u->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (u->fd < 0) {
		u->session = 0;
		return -errno;
	}
	return 0;
}

/* Locked. */
static int begin(struct symbol_store *s, const uint8_t *id, size_t id_bytes, uint64_t bytes,
		 enum symbol_quality quality, uint64_t now_ns, uint64_t *session)
{
	struct upload *u = upload_of(s, id, id_bytes);
	int err = wanted(s, id, id_bytes, quality, now_ns);

	if (err)
		return err;
	if (u) {
		s->stats.abandoned++;
		drop(s, u);
	}
	u = free_place(s, now_ns);
	if (!u)
		return -EMFILE;
	err = check_room(s, bytes);
	if (!err)
		err = open_part(s, u);
	if (err)
		return err;
	memcpy(u->id, id, id_bytes);
	u->id_bytes = (uint8_t)id_bytes;
	u->quality = quality;
	u->bytes = bytes;
	u->moved_ns = now_ns;
	s->stats.reserved_bytes += bytes;
	s->stats.uploading++;
	s->stats.begun++;
	*session = u->session;
	return 0;
}

int symbol_store_begin(struct symbol_store *s, const uint8_t *id, size_t id_bytes, uint64_t bytes,
		       enum symbol_quality quality, uint64_t now_ns, uint64_t *session)
{
	int err;

	if (id_bytes < 2 || !bytes || quality < SYMBOL_DYNAMIC || quality > SYMBOL_DEBUG)
		return -EINVAL;
	pthread_mutex_lock(&s->lock);
	err = begin(s, id, symbol_content_cut(id_bytes), bytes, quality, now_ns, session);
	if (err == -EEXIST || err == -EBUSY)
		s->stats.refused_known++;
	else if (err)
		s->stats.refused_room++;
	pthread_mutex_unlock(&s->lock);
	return err;
}

static struct upload *by_session(struct symbol_store *s, uint64_t session)
{
	for (uint32_t i = 0; session && i < LIMIT_SYMBOL_UPLOADS; i++)
		if (s->uploads[i].session == session && !s->uploads[i].finishing)
			return &s->uploads[i];
	return NULL;
}

int symbol_store_progress(struct symbol_store *s, uint64_t session, uint64_t *have, uint64_t *bytes)
{
	const struct upload *u;

	pthread_mutex_lock(&s->lock);
	u = by_session(s, session);
	if (u) {
		*have = u->have;
		*bytes = u->bytes;
	}
	pthread_mutex_unlock(&s->lock);
	return u ? 0 : -ENOENT;
}

static int write_at(int fd, const char *data, size_t bytes, uint64_t offset)
{
	while (bytes) {
		ssize_t n = pwrite(fd, data, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		data += n;
		bytes -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* Locked. */
static int append(struct symbol_store *s, struct upload *u, uint64_t offset, const void *data,
		  size_t bytes, uint64_t now_ns)
{
	int err;

	if (offset != u->have) {
		s->stats.refused_order++;
		return -ERANGE;
	}
	if (bytes > u->bytes - u->have)
		return -EFBIG;
	err = write_at(u->fd, data, bytes, offset);
	if (err) {
		s->stats.refused_room++;
		drop(s, u);
		return err;
	}
	u->have += bytes;
	u->moved_ns = now_ns;
	s->stats.received_bytes += bytes;
	return 0;
}

int symbol_store_append(struct symbol_store *s, uint64_t session, uint64_t offset, const void *data,
			size_t bytes, uint64_t now_ns)
{
	struct upload *u;
	int err;

	pthread_mutex_lock(&s->lock);
	u = by_session(s, session);
	err = u ? append(s, u, offset, data, bytes, now_ns) : -ENOENT;
	pthread_mutex_unlock(&s->lock);
	return err;
}

/* ---- the complete file ---- */

static int check_file(const struct upload *u, enum symbol_quality *quality, const char **why)
{
	uint8_t content[SYMBOL_CONTENT_BYTES];
	struct symbol_elf e;
	size_t n;
	int err = symbol_elf_init(&e, u->fd, why);

	if (err)
		return err == -ENOEXEC ? -EBADMSG : err;
	*quality = e.quality;
	n = e.build_id_bytes < SYMBOL_NOTE_MAX ? e.build_id_bytes : SYMBOL_NOTE_MAX;
	if (n != symbol_content_note(u->id_bytes) || memcmp(e.build_id, u->id, n)) {
		*why = e.build_id_bytes ? "carries another Build ID" : "carries no Build ID";
		err = -ENXIO;
	} else if (symbol_content_proves(u->id_bytes) &&
		   (symbol_content(u->fd, content) ||
		    memcmp(content, u->id + n, sizeof(content)))) {
		*why = "has other content than the identity says";
		err = -ENXIO;
	} else if (e.quality < u->quality) {
		*why = "has fewer symbols than the upload claimed";
		err = -ENODATA;
	}
	symbol_elf_fini(&e);
	return err;
}

/* Locked; the file is synced. */
static int put(struct symbol_store *s, struct upload *u, enum symbol_quality quality,
	       const char **why)
{
	enum symbol_quality before = quality_of(s, u->id, u->id_bytes);
	struct symbol_files_item *i;
	char from[1200], to[1200];
	int err;

	if (quality <= before) {
		*why = "an equally good file is stored";
		s->stats.refused_stripped++;
		return -EEXIST;
	}
	part_path(s, u->session, from, sizeof(from));
	err = symbol_files_prepare(s->files, u->id, u->id_bytes);
	if (!err)
		err = symbol_files_path(s->files, u->id, u->id_bytes, to, sizeof(to));
	if (!err && rename(from, to))
		err = -errno;
	if (err)
		return err;
	s->stats.finished++;
	s->stats.replaced += before != SYMBOL_NONE;
	i = symbol_files_put(s->files, u->id, u->id_bytes, u->bytes);
	if (i)
		i->quality = (uint8_t)quality;
	*strrchr(to, '/') = 0;
	err = dirs_sync(to);
	if (!err) {
		snprintf(to, sizeof(to), "%s/.build-id", s->tree);
		err = dirs_sync(to);
	}
	return err;
}

static void count_refusal(struct symbol_store *s, int err)
{
	if (err == -EBADMSG)
		s->stats.refused_damaged++;
	else if (err == -ENXIO)
		s->stats.refused_build_id++;
	else if (err == -ENODATA)
		s->stats.refused_stripped++;
}

int symbol_store_finish(struct symbol_store *s, uint64_t session, uint8_t *id, size_t *id_bytes,
			const char **why)
{
	enum symbol_quality quality = SYMBOL_NONE;
	struct upload *u;
	int err;

	*why = "";
	pthread_mutex_lock(&s->lock);
	u = by_session(s, session);
	err = !u ? -ENOENT : u->have < u->bytes ? -EAGAIN : 0;
	if (!err)
		u->finishing = true; /* from now on nobody else finds it */
	pthread_mutex_unlock(&s->lock);
	if (err)
		return err;
	err = check_file(u, &quality, why);
	if (!err && fsync(u->fd))
		err = -errno;
	pthread_mutex_lock(&s->lock);
	memcpy(id, u->id, u->id_bytes);
	*id_bytes = u->id_bytes;
	count_refusal(s, err);
	if (!err)
		err = put(s, u, quality, why);
	else if (err == -ENXIO || err == -ENODATA)
		err = -EBADMSG;
	drop(s, u);
	pthread_mutex_unlock(&s->lock);
	return err;
}

void symbol_store_abort(struct symbol_store *s, uint64_t session)
{
	struct upload *u;

	pthread_mutex_lock(&s->lock);
	u = by_session(s, session);
	if (u)
		drop(s, u);
	pthread_mutex_unlock(&s->lock);
}

void symbol_store_tend(struct symbol_store *s, uint64_t now_ns)
{
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < LIMIT_SYMBOL_UPLOADS; i++) {
		struct upload *u = &s->uploads[i];

		if (u->session && is_idle(u, now_ns, s->idle_ns)) {
			s->stats.abandoned++;
			drop(s, u);
		}
	}
	pthread_mutex_unlock(&s->lock);
}

void symbol_store_stats_get(struct symbol_store *s, struct symbol_store_stats *out)
{
	struct symbol_files_stats files;

	pthread_mutex_lock(&s->lock);
	symbol_files_stats_get(s->files, &files);
	*out = s->stats;
	pthread_mutex_unlock(&s->lock);
	out->files = files.files;
	out->bytes = files.bytes;
	out->evicted = files.evicted;
	out->memory_bytes = files.memory_bytes + sizeof(*s);
}

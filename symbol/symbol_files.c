/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/keyed.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/probe.h"
#include "base/room.h"
#include "base/text/text.h"

#define USE_STEP_S 3600u /* how old a file's access time may be */

struct symbol_files {
	char dir[1024], suffix[16];
	uint64_t bytes_max;
	struct symbol_files_item *item;
	uint32_t count;
	size_t room;
	struct probe by_id;
	struct symbol_files_stats stats;
};

static uint64_t hash(const uint8_t *id, size_t id_bytes)
{
	return keyed_bytes(keyed_process(), id, id_bytes);
}

/* ---- reading the directory ---- */

static int found(struct symbol_files *s, int dir, uint8_t first, const char *name)
{
	size_t n = strlen(name), tail = strlen(s->suffix), bytes;
	uint8_t id[SYMBOL_FILES_ID_MAX] = {first};
	char digits[2 * SYMBOL_FILES_ID_MAX];
	struct symbol_files_item *i;
	struct stat st;

	if (n <= tail || n - tail >= sizeof(digits) || strcmp(name + n - tail, s->suffix))
		return 0;
	text_copy(digits, n - tail + 1, name);
	bytes = (n - tail) / 2;
	if (text_unhex(digits, id + 1, bytes) || s->count >= LIMIT_SYMBOL_FILES ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return 0;
	i = symbol_files_put(s, id, bytes + 1, (uint64_t)st.st_size);
	if (!i)
		return -ENOMEM;
	i->used_s = i->kept_s = (uint32_t)st.st_atime;
	return 0;
}

static int scan_below(struct symbol_files *s, int parent, const char *name, uint8_t first)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (!err && (e = readdir(d)))
		err = found(s, fd, first, e->d_name);
	closedir(d);
	return err;
}

static int scan(struct symbol_files *s)
{
	DIR *d = opendir(s->dir);
	struct dirent *e;
	uint8_t first;
	int err = 0;

	if (!d)
		return -errno;
	while (!err && (e = readdir(d)))
		if (!text_unhex(e->d_name, &first, 1))
			err = scan_below(s, dirfd(d), e->d_name, first);
	closedir(d);
	return err;
}

int symbol_files_open(struct symbol_files **out, const char *dir, const char *suffix,
		      uint64_t bytes_max)
{
	struct symbol_files *s = calloc(1, sizeof(*s));
	int err = 0;

	if (!s)
		return -ENOMEM;
	s->bytes_max = bytes_max;
	if ((size_t)snprintf(s->dir, sizeof(s->dir), "%s", dir) >= sizeof(s->dir) ||
	    (size_t)snprintf(s->suffix, sizeof(s->suffix), "%s", suffix) >= sizeof(s->suffix))
		err = -ENAMETOOLONG;
	if (!err && mkdir(dir, 0755) && errno != EEXIST)
		err = -errno;
	if (!err)
		err = scan(s);
	if (err) {
		symbol_files_close(s);
		return err;
	}
	*out = s;
	return 0;
}

void symbol_files_close(struct symbol_files *s)
{
	if (!s)
		return;
	free(s->item);
	probe_fini(&s->by_id);
	free(s);
}

/* ---- one file ---- */

int symbol_files_path(const struct symbol_files *s, const uint8_t *id, size_t id_bytes, char *out,
		      size_t out_bytes)
{
	return symbol_content_path(s->dir, "", id, symbol_content_cut(id_bytes), s->suffix, out,
				   out_bytes);
}

int symbol_files_prepare(struct symbol_files *s, const uint8_t *id, size_t id_bytes)
{
	char path[1100];

	if (id_bytes < 2)
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/%02x", s->dir, id[0]);
	return mkdir(path, 0755) && errno != EEXIST ? -errno : 0;
}

struct symbol_files_item *symbol_files_find(struct symbol_files *s, const uint8_t *id,
					    size_t id_bytes)
{
	if (id_bytes < 2)
		return NULL;
	id_bytes = symbol_content_cut(id_bytes);
	PROBE_EACH (i, &s->by_id, hash(id, id_bytes)) {
		struct symbol_files_item *have = &s->item[i.number];

		if (have->id_bytes == id_bytes && !memcmp(have->id, id, id_bytes))
			return have;
	}
	return NULL;
}

void symbol_files_use(struct symbol_files *s, struct symbol_files_item *i)
{
	struct timespec times[2] = {{.tv_nsec = 0}, {.tv_nsec = UTIME_OMIT}};
	char path[1200];

	i->used_s = (uint32_t)time(NULL);
	if (i->used_s - i->kept_s < USE_STEP_S)
		return;
	i->kept_s = i->used_s;
	times[0].tv_sec = i->used_s;
	if (!symbol_files_path(s, i->id, i->id_bytes, path, sizeof(path)))
		utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

struct symbol_files_item *symbol_files_put(struct symbol_files *s, const uint8_t *id,
					   size_t id_bytes, uint64_t bytes)
{
	struct symbol_files_item *i = symbol_files_find(s, id, id_bytes);

	if (id_bytes < 2)
		return NULL;
	id_bytes = symbol_content_cut(id_bytes);
	if (i) {
		s->stats.bytes -= i->bytes;
	} else {
		if (ROOM_FOR(s->item, s->room, s->count + 1ull) ||
		    probe_add(&s->by_id, hash(id, id_bytes), s->count))
			return NULL;
		i = &s->item[s->count++];
		*i = (struct symbol_files_item){.id_bytes = (uint8_t)id_bytes};
		memcpy(i->id, id, id_bytes);
	}
	i->quality = 0;
	i->bytes = bytes;
	i->used_s = i->kept_s = (uint32_t)time(NULL);
	s->stats.bytes += bytes;
	return i;
}

/* Removes the item; the last one takes its slot. */
static void forget(struct symbol_files *s, struct symbol_files_item *i)
{
	const struct symbol_files_item *last = &s->item[--s->count];

	s->stats.bytes -= i->bytes;
	probe_remove(&s->by_id, hash(i->id, i->id_bytes), (uint32_t)(i - s->item));
	if (i == last)
		return;
	probe_remove(&s->by_id, hash(last->id, last->id_bytes), s->count);
	*i = *last;
	probe_add(&s->by_id, hash(i->id, i->id_bytes), (uint32_t)(i - s->item));
}

void symbol_files_remove(struct symbol_files *s, const uint8_t *id, size_t id_bytes)
{
	struct symbol_files_item *i = symbol_files_find(s, id, id_bytes);
	char path[1200];

	if (!symbol_files_path(s, id, id_bytes, path, sizeof(path)))
		unlink(path);
	if (i)
		forget(s, i);
}

/* ---- room ---- */

ORDER_BY(compare_use, struct symbol_files_item, ORDER_UP(used_s));

static bool fits(const struct symbol_files *s, uint64_t bytes)
{
	return s->count < LIMIT_SYMBOL_FILES &&
	       (!s->bytes_max || (bytes <= s->bytes_max && s->stats.bytes <= s->bytes_max - bytes));
}

int symbol_files_make_room(struct symbol_files *s, uint64_t bytes, bool evict)
{
	struct symbol_files_item *all;
	uint32_t n = s->count;

	if (fits(s, bytes))
		return 0;
	if (!evict || (s->bytes_max && bytes > s->bytes_max))
		return -ENOSPC;
	all = malloc((s->count + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	if (n)
		memcpy(all, s->item, n * sizeof(*all));
	qsort(all, n, sizeof(*all), compare_use);
	for (uint32_t k = 0; k < n && !fits(s, bytes); k++) {
		s->stats.evicted++;
		symbol_files_remove(s, all[k].id, all[k].id_bytes);
	}
	free(all);
	return fits(s, bytes) ? 0 : -ENOSPC;
}

void symbol_files_stats_get(const struct symbol_files *s, struct symbol_files_stats *out)
{
	*out = s->stats;
	out->files = s->count;
	out->memory_bytes =
	    sizeof(*s) + s->room * sizeof(*s->item) + s->by_id.room * sizeof(*s->by_id.slot);
}

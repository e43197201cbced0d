/* SPDX-License-Identifier: Apache-2.0
 * Each message is a file. So dropping the oldest is an unlink, and a torn file costs one message,
 * not a whole log. The name is SEQUENCE-BOOT-ARRIVAL.msg, in hex: the message's place in the order,
 * and when it arrived by that boot's clock. The wall clock is not used: if somebody sets it, an
 * hour of windows could expire at once, or never. Files of another boot, or of an earlier version
 * (SEQUENCE.msg), age from when they are found. */
#include "sidecar/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "base/daemon/log.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/replace.h"
#include "wire/codec.h"

#define SPOOL_PATH_BYTES 512
#define SPOOL_NAME_BYTES 64

struct spool_entry {
	uint64_t key; /* grows by one */
	uint64_t arrived_ns, bytes;
	void *memory; /* NULL: on disk */
};

struct spool {
	char dir[SPOOL_PATH_BYTES];
	int dirfd; /* -1: memory only */
	uint64_t bytes_max, age_max_ns;
	uint64_t last_key;
	uint32_t boot;
	struct spool_entry entries[SPOOL_ENTRIES_MAX]; /* oldest first */
	uint32_t count;
	struct spool_stats stats;
};

static void entry_name(const struct spool *s, const struct spool_entry *e,
		       char out[SPOOL_NAME_BYTES])
{
	snprintf(out, SPOOL_NAME_BYTES, "%016" PRIx64 "-%08" PRIx32 "-%016" PRIx64 ".msg", e->key,
		 s->boot, e->arrived_ns);
}

static void disk_failed(struct spool *s, int err, const char *what)
{
	s->stats.disk_errors++;
	s->stats.disk_error = err;
	log_warn("spool", "%s: %s", what, strerror(-err));
}

static void remove_at(struct spool *s, uint32_t i)
{
	struct spool_entry *e = &s->entries[i];
	char name[SPOOL_NAME_BYTES];

	if (e->memory) {
		s->stats.memory_bytes -= e->bytes;
		free(e->memory);
	} else {
		entry_name(s, e, name);
		unlinkat(s->dirfd, name, 0);
	}
	s->stats.bytes -= e->bytes;
	memmove(e, e + 1, sizeof(*e) * (--s->count - i));
	s->stats.count = s->count;
}

ORDER_BY(by_key, struct spool_entry, ORDER_UP(key));

/* Parses the name of a message file; false: not one of ours. */
static bool parse_name(struct spool *s, const char *name, uint64_t now_ns, struct spool_entry *e)
{
	char back[SPOOL_NAME_BYTES];
	uint32_t boot;

	*e = (struct spool_entry){.arrived_ns = now_ns};
	if (strlen(name) == 20 && sscanf(name, "%16" SCNx64, &e->key) == 1) {
		snprintf(back, sizeof(back), "%016" PRIx64 ".msg", e->key);
		return !strcmp(back, name);
	}
	if (strlen(name) != 46 || sscanf(name, "%16" SCNx64 "-%8" SCNx32 "-%16" SCNx64, &e->key,
					 &boot, &e->arrived_ns) != 3)
		return false;
	snprintf(back, sizeof(back), "%016" PRIx64 "-%08" PRIx32 "-%016" PRIx64 ".msg", e->key,
		 boot, e->arrived_ns);
	if (strcmp(back, name))
		return false;
	if (boot != s->boot || e->arrived_ns > now_ns)
		e->arrived_ns = now_ns;
	return true;
}

/* Takes over a file of an earlier run, and renames it to the entry's name if it differs. */
static bool adopt(struct spool *s, const char *name, uint64_t bytes, struct spool_entry *e)
{
	char now[SPOOL_NAME_BYTES];

	e->bytes = bytes;
	entry_name(s, e, now);
	if (!strcmp(now, name) || !renameat(s->dirfd, name, s->dirfd, now))
		return true;
	disk_failed(s, -errno, name);
	return false;
}

static void scan(struct spool *s, uint64_t now_ns)
{
	int fd = dup(s->dirfd);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	struct spool_entry entry;
	struct stat st;

	if (!d && fd >= 0)
		close(fd);
	while (d && (e = readdir(d))) {
		size_t n = strlen(e->d_name);

		if (n > 4 && !strcmp(e->d_name + n - 4, ".tmp")) {
			unlinkat(s->dirfd, e->d_name, 0);
			continue;
		}
		if (!parse_name(s, e->d_name, now_ns, &entry) ||
		    fstatat(s->dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
		    st.st_size > (off_t)LIMIT_WIRE_MESSAGE_BYTES || s->count == SPOOL_ENTRIES_MAX) {
			s->stats.dropped_bad++;
			unlinkat(s->dirfd, e->d_name, 0);
			continue;
		}
		if (!adopt(s, e->d_name, (uint64_t)st.st_size, &entry))
			continue;
		s->entries[s->count++] = entry;
		s->stats.bytes += (uint64_t)st.st_size;
	}
	if (d)
		closedir(d);
	qsort(s->entries, s->count, sizeof(s->entries[0]), by_key);
	s->stats.count = s->count;
	if (s->count)
		s->last_key = s->entries[s->count - 1].key;
}

static void trim(struct spool *s, uint64_t now_ns)
{
	while (s->count && s->stats.bytes > s->bytes_max) {
		s->stats.dropped_full++;
		remove_at(s, 0);
	}
	while (s->count && now_ns > s->entries[0].arrived_ns &&
	       now_ns - s->entries[0].arrived_ns > s->age_max_ns) {
		s->stats.dropped_age++;
		remove_at(s, 0);
	}
	while (s->count && s->stats.memory_bytes > SPOOL_MEMORY_BYTES) {
		uint32_t i = 0;

		while (!s->entries[i].memory)
			i++;
		s->stats.dropped_memory++;
		remove_at(s, i);
	}
}

uint32_t spool_boot(void)
{
	char id[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, id, sizeof(id));

	if (fd >= 0)
		close(fd);
	return n > 0 ? (uint32_t)hash_mix(hash_bytes(HASH_SEED, id, (size_t)n)) : 0;
}

int spool_open(struct spool **out, const struct spool_config *c, uint64_t now_ns)
{
	struct spool *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->dirfd = -1;
	s->bytes_max = c->bytes_max;
	s->age_max_ns = c->age_max_ns;
	s->boot = c->boot;
	if (c->dir && *c->dir) {
		snprintf(s->dir, sizeof(s->dir), "%s", c->dir);
		if (mkdir(c->dir, 0700) && errno != EEXIST)
			disk_failed(s, -errno, c->dir);
		s->dirfd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (s->dirfd < 0)
			disk_failed(s, -errno, c->dir);
		else
			scan(s, now_ns);
	}
	trim(s, now_ns);
	*out = s;
	return 0;
}

void spool_close(struct spool *s)
{
	uint32_t lost = 0;

	if (!s)
		return;
	for (uint32_t i = 0; i < s->count; i++) {
		lost += s->entries[i].memory != NULL;
		free(s->entries[i].memory);
	}
	if (lost)
		log_warn("spool", "%u messages are lost: they could not be written to disk", lost);
	if (s->dirfd >= 0)
		close(s->dirfd);
	free(s);
}

static int disk_put(struct spool *s, const struct spool_entry *e, const void *data)
{
	char name[SPOOL_NAME_BYTES];
	struct replace file;
	int err;

	if (s->dirfd < 0)
		return -ENOENT;
	entry_name(s, e, name);
	err = replace_begin(&file, s->dirfd, name, 0600);
	if (err)
		return err;
	err = all_bytes_write(file.fd, data, e->bytes);
	if (!err && fsync(file.fd))
		err = -errno;
	err = replace_end(&file, err);
	if (!err)
		fsync(s->dirfd); /* the file is synced; some file systems cannot sync a directory */
	return err;
}

int spool_put(struct spool *s, const void *data, size_t bytes, uint64_t now_ns)
{
	struct spool_entry e = {.bytes = bytes, .arrived_ns = now_ns};
	int err;

	if (!bytes || bytes > LIMIT_WIRE_MESSAGE_BYTES || bytes > s->bytes_max)
		return -EMSGSIZE;
	if (s->count == SPOOL_ENTRIES_MAX) {
		s->stats.dropped_full++;
		remove_at(s, 0);
	}
	e.key = s->last_key + 1;
	err = disk_put(s, &e, data);
	if (err) {
		if (s->dirfd >= 0)
			disk_failed(s, err, "a message could not be written and stays in memory");
		e.memory = malloc(bytes);
		if (!e.memory) {
			s->stats.dropped_memory++;
			return -ENOSPC;
		}
		memcpy(e.memory, data, bytes);
		s->stats.memory_bytes += bytes;
	} else {
		s->stats.disk_error = 0;
	}
	s->last_key = e.key;
	s->entries[s->count++] = e;
	s->stats.count = s->count;
	s->stats.bytes += bytes;
	trim(s, now_ns);
	return e.memory ? 1 : 0;
}

static int disk_get(struct spool *s, const struct spool_entry *e, uint8_t *data)
{
	char name[SPOOL_NAME_BYTES];
	int fd, err;

	entry_name(s, e, name);
	fd = openat(s->dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	err = all_bytes_read(fd, data, e->bytes, 0);
	close(fd);
	return err ? -EIO : 0;
}

int spool_peek(struct spool *s, void **data, size_t *bytes, uint64_t *key)
{
	while (s->count) {
		const struct spool_entry *e = &s->entries[0];
		uint8_t *p = malloc(e->bytes);
		int err = 0;

		if (!p)
			return -ENOMEM;
		if (e->memory)
			memcpy(p, e->memory, e->bytes);
		else
			err = disk_get(s, e, p);
		if (!err && codec_kind(p, e->bytes) == WIRE_WINDOW) {
			*data = p;
			*bytes = e->bytes;
			*key = e->key;
			return 0;
		}
		free(p);
		s->stats.dropped_bad++;
		remove_at(s, 0);
	}
	return -ENOENT;
}

void spool_drop(struct spool *s, uint64_t key)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->entries[i].key == key) {
			remove_at(s, i);
			return;
		}
}

void spool_tend(struct spool *s, uint64_t now_ns)
{
	trim(s, now_ns);
	for (uint32_t i = 0; i < s->count && s->stats.memory_bytes && s->dirfd >= 0; i++) {
		struct spool_entry *e = &s->entries[i];
		int err;

		if (!e->memory)
			continue;
		err = disk_put(s, e, e->memory);
		if (err) {
			s->stats.disk_error = err;
			return;
		}
		s->stats.disk_error = 0;
		s->stats.memory_bytes -= e->bytes;
		free(e->memory);
		e->memory = NULL;
	}
}

void spool_stats(const struct spool *s, struct spool_stats *out)
{
	*out = s->stats;
}

/* SPDX-License-Identifier: Apache-2.0
 * symbol_resolver.c - see symbol_resolver.h.
 * The cache holds mappings, not names: an index that is mapped costs the pages that were searched, and
 * the kernel takes those back when it must. What could not be found is remembered too, so that a stack
 * full of unknown frames asks once. */
#include "symbol/symbol_resolver.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libiberty/demangle.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_source.h"

#define ENTRIES	       512u
#define MISS_RETRY_NS  60000000000ull
#define CACHE_BYTES    (64u << 20)

struct entry {
	char *name;	/* of the index file: the Build ID in hex, or a hash of the path; NULL: free */
	char *path;	/* without a Build ID: which file this is */
	uint64_t used;	/* clock of the resolver */
	uint64_t until_ns; /* a miss holds till then */
	int err;	/* 0: index is open */
	struct symbol_index index;
};

struct symbol_resolver {
	struct symbol_source source;
	char directory[1024], debug_root[1024], index_dir[1024];
	bool private_dir;
	size_t cache_bytes_max;
	uint64_t clock;
	struct entry entries[ENTRIES];
	struct symbol_resolver_stats stats;
	char *demangled;
	const char *why;
};

static int make_index_dir(struct symbol_resolver *r)
{
	const char *tmp = getenv("TMPDIR");

	if (*r->index_dir)
		return mkdir(r->index_dir, 0700) && errno != EEXIST ? -errno : 0;
	snprintf(r->index_dir, sizeof(r->index_dir), "%.900s/sysom-symbols-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(r->index_dir))
		return -errno;
	r->private_dir = true;
	return 0;
}

static bool copy_text(char *to, size_t bytes, const char *from)
{
	return (size_t)snprintf(to, bytes, "%s", from ? from : "") < bytes;
}

int symbol_resolver_open(struct symbol_resolver **out, const struct symbol_resolver_options *o)
{
	struct symbol_resolver *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	err = copy_text(r->directory, sizeof(r->directory), o->directory) &&
	      copy_text(r->debug_root, sizeof(r->debug_root), o->debug_root) &&
	      copy_text(r->index_dir, sizeof(r->index_dir), o->index_dir) ? 0 : -ENAMETOOLONG;
	if (!err)
		err = make_index_dir(r);
	if (err) {
		free(r);
		return err;
	}
	r->source = (struct symbol_source){ o->directory ? r->directory : NULL,
					    o->debug_root ? r->debug_root : NULL, o->debuginfod };
	r->cache_bytes_max = o->cache_bytes_max ? o->cache_bytes_max : CACHE_BYTES;
	r->why = "";
	*out = r;
	return 0;
}

static void drop(struct symbol_resolver *r, struct entry *e)
{
	if (e->index.map) {
		r->stats.cached_bytes -= e->index.map_bytes;
		symbol_index_close(&e->index);
	}
	free(e->name);
	free(e->path);
	memset(e, 0, sizeof(*e));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

void symbol_resolver_close(struct symbol_resolver *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < ENTRIES; i++)
		drop(r, &r->entries[i]);
	if (r->private_dir)
		nftw(r->index_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(r->demangled);
	free(r);
}

static bool entry_is(const struct entry *e, const char *name, const char *path)
{
	return e->name && !strcmp(e->name, name) && !e->path == !path &&
	       (!path || !strcmp(e->path, path));
}

/* The entry of this file, or a free one in place of the longest unused. */
static struct entry *entry_for(struct symbol_resolver *r, const char *name, const char *path)
{
	struct entry *oldest = &r->entries[0];

	for (uint32_t i = 0; i < ENTRIES; i++) {
		struct entry *e = &r->entries[i];

		if (entry_is(e, name, path))
			return e;
		if (e->used < oldest->used)
			oldest = e;
	}
	r->stats.evicted += !!oldest->name;
	drop(r, oldest);
	return oldest;
}

static void make_room(struct symbol_resolver *r, const struct entry *keep)
{
	while (r->stats.cached_bytes > r->cache_bytes_max) {
		struct entry *oldest = NULL;

		for (uint32_t i = 0; i < ENTRIES; i++) {
			struct entry *e = &r->entries[i];

			if (e != keep && e->index.map && (!oldest || e->used < oldest->used))
				oldest = e;
		}
		if (!oldest)
			return;
		r->stats.evicted++;
		drop(r, oldest); /* its index file stays and is opened again when asked for */
	}
}

static int build(struct symbol_resolver *r, const uint8_t *id, size_t id_bytes, const char *path,
		 const char *index)
{
	struct symbol_elf e;
	char dir[1400];
	int fd, err;

	r->why = "";
	err = symbol_source_open(&r->source, id, id_bytes, path, &e, &fd, &r->why);
	if (err)
		return err;
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(index, '/') - index), index);
	mkdir(dir, 0700);
	err = symbol_index_build(&e, index, &r->why);
	symbol_elf_fini(&e);
	close(fd);
	r->stats.built += !err;
	return err;
}

static void index_path(const struct symbol_resolver *r, const char *name, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s/%.2s/%s.idx", r->index_dir, name, name);
}

static void load(struct symbol_resolver *r, struct entry *e, const uint8_t *id, size_t id_bytes,
		 const char *path)
{
	char index[1400];

	index_path(r, e->name, index, sizeof(index));
	/* Without a Build ID the file behind the path may have changed since it was indexed. */
	e->err = id_bytes ? symbol_index_open(&e->index, index) : -ENOENT;
	if (e->err) {
		e->err = build(r, id, id_bytes, path, index);
		if (!e->err)
			e->err = symbol_index_open(&e->index, index);
	}
	if (e->err) {
		e->until_ns = clock_monotonic_ns() + MISS_RETRY_NS;
		return;
	}
	r->stats.opened++;
	r->stats.cached_bytes += e->index.map_bytes;
	make_room(r, e);
}

static void name_of(const uint8_t *id, size_t id_bytes, const char *path, char *out, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < id_bytes; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%02x", id[i]);
	if (!id_bytes)
		snprintf(out, bytes, "%016llx-path",
			 (unsigned long long)hash_mix(hash_bytes(HASH_SEED, path, strlen(path))));
}

/* C++ and Rust; what is neither comes back as it is. */
static const char *demangle(struct symbol_resolver *r, const char *raw)
{
	size_t bytes = strnlen(raw, LIMIT_SYMBOL_NAME_BYTES);

	free(r->demangled);
	r->demangled = NULL;
	if (bytes == LIMIT_SYMBOL_NAME_BYTES || raw[0] != '_')
		return raw;
	r->demangled = cplus_demangle(raw, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
	return r->demangled ? r->demangled : raw;
}

static const char *plt_name(struct symbol_resolver *r, const char *function)
{
	char *text;

	if (asprintf(&text, "%s@plt", function) < 0)
		return function;
	free(r->demangled);
	return r->demangled = text;
}

static struct entry *lookup(struct symbol_resolver *r, const uint8_t *id, size_t id_bytes,
			    const char *path)
{
	char name[2 * SYMBOL_BUILD_ID_MAX + 8];
	const char *by_path = id_bytes ? NULL : path;
	struct entry *e;

	name_of(id, id_bytes, path, name, sizeof(name));
	e = entry_for(r, name, by_path);
	if (!e->name) {
		e->name = strdup(name);
		e->path = by_path ? strdup(by_path) : NULL;
		if (!e->name || (by_path && !e->path)) {
			drop(r, e);
			return NULL;
		}
		load(r, e, id, id_bytes, path);
	} else if (e->err && clock_monotonic_ns() >= e->until_ns) {
		load(r, e, id, id_bytes, path);
	}
	e->used = ++r->clock;
	return e;
}

int symbol_resolver_find(struct symbol_resolver *r, const uint8_t *build_id, size_t build_id_bytes,
			 const char *path, uint64_t address, struct symbol_name *out)
{
	struct symbol_hit hit;
	struct entry *e;

	if (build_id_bytes > SYMBOL_BUILD_ID_MAX || (!build_id_bytes && !path))
		return -ENODATA;
	e = lookup(r, build_id, build_id_bytes, path);
	if (!e)
		return -ENOMEM;
	if (e->err) {
		r->stats.no_file += e->err == -ENODATA;
		r->stats.refused += e->err != -ENODATA;
		return e->err == -ENODATA ? -ENODATA : -EBADMSG;
	}
	if (symbol_index_find(&e->index, address, &hit)) {
		r->stats.no_symbol++;
		return -ENOENT;
	}
	r->stats.found++;
	*out = (struct symbol_name){ demangle(r, hit.name), hit.name, hit.begin, hit.size };
	if (hit.plt)
		out->function = plt_name(r, out->function);
	return 0;
}

void symbol_resolver_forget(struct symbol_resolver *r, const uint8_t *build_id, size_t build_id_bytes)
{
	char name[2 * SYMBOL_BUILD_ID_MAX + 8], path[1400];

	if (!build_id_bytes || build_id_bytes > SYMBOL_BUILD_ID_MAX)
		return;
	name_of(build_id, build_id_bytes, NULL, name, sizeof(name));
	for (uint32_t i = 0; i < ENTRIES; i++)
		if (entry_is(&r->entries[i], name, NULL))
			drop(r, &r->entries[i]);
	index_path(r, name, path, sizeof(path));
	unlink(path);
}

const char *symbol_resolver_why(const struct symbol_resolver *r)
{
	return r->why;
}

void symbol_resolver_stats_get(const struct symbol_resolver *r, struct symbol_resolver_stats *out)
{
	*out = r->stats;
}

/* SPDX-License-Identifier: Apache-2.0
 * symbol_resolver.c - see symbol_resolver.h.
 * The cache holds open indexes, not names: each costs a descriptor and some 10 KB. Misses are
 * cached too, so that a stack full of unknown frames asks once. */
#include "symbol/symbol_resolver.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/text/demangle.h"
#include "base/text/text.h"
#include "symbol/symbol_files.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_source.h"

/* Files open at a time; the usual descriptor limit is 1,024. */
#define ENTRIES	      512u
#define BUCKETS	      1024u
#define MISS_RETRY_NS 60000000000ull
#define CACHE_BYTES   (64u << 20)
#define INDEX_BYTES   (4ull << 30)

struct entry {
	uint8_t id[SYMBOL_FILES_ID_MAX];
	uint8_t id_bytes;      /* 0: has a path; neither: free */
	char *path;	       /* identifies a file without a Build ID */
	uint64_t used;	       /* the resolver's clock */
	uint64_t until_ns;     /* a miss is valid until then */
	int err;	       /* 0: the index is open */
	uint16_t bucket, next; /* hash chain: entry number + 1, 0: none */
	size_t memory;	       /* of the index, as counted */
	struct symbol_index index;
};

struct symbol_resolver {
	struct symbol_source source;
	char directory[1024], debug_root[1024], index_dir[1024];
	bool private_dir;
	size_t cache_bytes_max;
	int (*index)(void *arg, const uint8_t *id, size_t id_bytes, const char *path,
		     const char *index);
	void *index_arg;
	struct symbol_files *files; /* the index files */
	uint64_t clock;
	uint16_t buckets[BUCKETS]; /* entry number + 1 */
	struct entry entries[ENTRIES];
	struct symbol_resolver_stats stats;
	char demangled[LIMIT_SYMBOL_NAME_BYTES + sizeof("@plt")];
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
		      copy_text(r->index_dir, sizeof(r->index_dir), o->index_dir)
		  ? 0
		  : -ENAMETOOLONG;
	if (!err)
		err = make_index_dir(r);
	if (!err)
		err = symbol_files_open(&r->files, r->index_dir, ".idx",
					o->index_bytes_max ? o->index_bytes_max : INDEX_BYTES);
	if (err) {
		symbol_resolver_close(r);
		return err;
	}
	r->source = (struct symbol_source){.directory = o->directory ? r->directory : NULL,
					   .debug_root = o->debug_root ? r->debug_root : NULL,
					   .debuginfod = o->debuginfod,
					   .links = o->links,
					   .stop = o->stop};
	r->index = o->index;
	r->index_arg = o->index_arg;
	r->cache_bytes_max = o->cache_bytes_max ? o->cache_bytes_max : CACHE_BYTES;
	r->why = "";
	*out = r;
	return 0;
}

static void drop(struct symbol_resolver *r, struct entry *e)
{
	uint16_t number = (uint16_t)(e - r->entries + 1), *at = &r->buckets[e->bucket];

	if (!e->id_bytes && !e->path)
		return;
	while (*at && *at != number)
		at = &r->entries[*at - 1].next;
	if (*at)
		*at = e->next;
	if (!e->err)
		r->stats.cached--;
	r->stats.cached_bytes -= e->memory;
	symbol_index_close(&e->index);
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
	symbol_files_close(r->files);
	if (r->private_dir)
		nftw(r->index_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(r);
}

/* A file's key: its Build ID, or its path. */
struct key {
	const uint8_t *id;
	size_t id_bytes;
	const char *path;
	uint64_t hash;
};

static struct key key_of(const uint8_t *id, size_t id_bytes, const char *path)
{
	struct key k = {id, symbol_content_cut(id_bytes), id_bytes ? NULL : path, 0};

	k.hash = id_bytes ? keyed_bytes(keyed_process(), id, k.id_bytes)
			  : keyed_text(keyed_process(), path);
	return k;
}

static bool entry_is(const struct entry *e, const struct key *k)
{
	if (k->id_bytes)
		return e->id_bytes == k->id_bytes && !memcmp(e->id, k->id, k->id_bytes);
	return e->path && !strcmp(e->path, k->path);
}

static struct entry *known(struct symbol_resolver *r, const struct key *k)
{
	uint16_t i = r->buckets[k->hash % BUCKETS];

	while (i && !entry_is(&r->entries[i - 1], k))
		i = r->entries[i - 1].next;
	return i ? &r->entries[i - 1] : NULL;
}

/* A free entry, or the least recently used one. */
static struct entry *place(struct symbol_resolver *r)
{
	struct entry *oldest = &r->entries[0];

	for (uint32_t i = 0; i < ENTRIES; i++) {
		struct entry *e = &r->entries[i];

		if (!e->id_bytes && !e->path)
			return e;
		if (e->used < oldest->used)
			oldest = e;
	}
	r->stats.evicted++;
	drop(r, oldest);
	return oldest;
}

static struct entry *add(struct symbol_resolver *r, const struct key *k)
{
	struct entry *e = place(r);

	if (k->id_bytes)
		memcpy(e->id, k->id, k->id_bytes);
	else
		e->path = strdup(k->path);
	if (!k->id_bytes && !e->path)
		return NULL;
	e->id_bytes = (uint8_t)k->id_bytes;
	e->index.fd = -1;
	e->err = -ENODATA;
	e->bucket = (uint16_t)(k->hash % BUCKETS);
	e->next = r->buckets[e->bucket];
	r->buckets[e->bucket] = (uint16_t)(e - r->entries + 1);
	return e;
}

static void count_memory(struct symbol_resolver *r, struct entry *e)
{
	size_t now = symbol_index_memory(&e->index);

	r->stats.cached_bytes += now - e->memory;
	e->memory = now;
}

static void make_room(struct symbol_resolver *r, const struct entry *keep)
{
	while (r->stats.cached_bytes > r->cache_bytes_max) {
		struct entry *oldest = NULL;

		for (uint32_t i = 0; i < ENTRIES; i++) {
			struct entry *e = &r->entries[i];

			if (e != keep && e->memory && (!oldest || e->used < oldest->used))
				oldest = e;
		}
		if (!oldest)
			return;
		r->stats.evicted++;
		drop(r, oldest); /* its index file stays and can be opened again */
	}
}

static int build_here(struct symbol_resolver *r, const struct key *k, const char *path,
		      bool download, const char *index)
{
	struct symbol_source source = r->source;
	struct symbol_elf e;
	int fd, err;

	r->why = "";
	source.debuginfod &= download;
	err = symbol_source_open(&source, k->id, k->id_bytes, path, &e, &fd, &r->why);
	if (err)
		return err;
	/* An index has 32 bytes per symbol of 24, and the names: about the size of its source. */
	if (k->id_bytes) {
		symbol_files_make_room(r->files, e.file_bytes, true);
		symbol_files_prepare(r->files, k->id, k->id_bytes);
	}
	err = symbol_index_build(&e, index, &r->why);
	symbol_elf_fini(&e);
	close(fd);
	return err;
}

/* This process itself reads our own directories and asks servers by Build ID; another process reads
 * what paths lead to. */
static int build(struct symbol_resolver *r, const struct key *k, const char *path,
		 const char *index)
{
	int err = -ENODATA;

	if (!r->index)
		err = build_here(r, k, path, true, index);
	else if (k->id_bytes)
		err = build_here(r, k, NULL, false, index);
	if (err == -ENODATA && r->index && path) {
		if (k->id_bytes)
			symbol_files_prepare(r->files, k->id, k->id_bytes);
		err = r->index(r->index_arg, k->id, k->id_bytes, path, index);
	}
	if (err == -ENODATA && r->index && r->source.debuginfod && k->id_bytes)
		err = build_here(r, k, NULL, true, index);
	r->stats.built += !err;
	return err;
}

static uint64_t bytes_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* The index of a file without a Build ID cannot be reused, because the file behind the path may
 * change. It is removed when it is closed. */
static void load(struct symbol_resolver *r, struct entry *e, const struct key *k, const char *path)
{
	struct symbol_files_item *i = symbol_files_find(r->files, k->id, k->id_bytes);
	char index[1400];

	if (!k->id_bytes || symbol_files_path(r->files, k->id, k->id_bytes, index, sizeof(index)))
		snprintf(index, sizeof(index), "%s/by-path.idx", r->index_dir);
	e->err = i ? symbol_index_open(&e->index, index) : -ENOENT;
	if (e->err) {
		e->err = build(r, k, path, index);
		if (!e->err)
			e->err = symbol_index_open(&e->index, index);
		if (!k->id_bytes)
			unlink(index);
		else if (!e->err)
			i = symbol_files_put(r->files, k->id, k->id_bytes, bytes_of(index));
		else
			symbol_files_remove(r->files, k->id, k->id_bytes);
	}
	if (e->err) {
		e->until_ns = clock_monotonic_ns() + MISS_RETRY_NS;
		return;
	}
	if (i)
		symbol_files_use(r->files, i);
	r->stats.opened++;
	r->stats.cached++;
	count_memory(r, e);
	make_room(r, e);
}

/* C++ and Rust; other names are returned unchanged. */
static const char *function_of(struct symbol_resolver *r, const char *raw)
{
	return demangle(raw, true, r->demangled, LIMIT_SYMBOL_NAME_BYTES) ? r->demangled : raw;
}

static const char *plt_name(struct symbol_resolver *r, const char *function)
{
	if (function != r->demangled)
		text_copy(r->demangled, LIMIT_SYMBOL_NAME_BYTES, function);
	return strcat(r->demangled, "@plt");
}

static struct entry *lookup(struct symbol_resolver *r, const struct key *k, const char *path)
{
	struct entry *e = known(r, k);

	if (!e) {
		e = add(r, k);
		if (e)
			load(r, e, k, path);
	} else if (e->err && clock_monotonic_ns() >= e->until_ns) {
		load(r, e, k, path);
	}
	if (e)
		e->used = ++r->clock;
	return e;
}

static int find(struct symbol_resolver *r, const uint8_t *id, size_t id_bytes, const char *path,
		uint64_t address, struct symbol_name *out)
{
	struct key k = key_of(id, id_bytes, path);
	struct entry *e = lookup(r, &k, path);
	struct symbol_hit hit;
	int err;

	if (!e)
		return -ENOMEM;
	if (e->err)
		return e->err == -ENODATA ? -ENODATA : -EBADMSG;
	err = symbol_index_find(&e->index, address, &hit);
	count_memory(r, e);
	if (err)
		return -ENOENT;
	*out = (struct symbol_name){function_of(r, hit.name), hit.name, hit.begin, hit.size,
				    e->index.trusted};
	if (hit.plt)
		out->function = plt_name(r, out->function);
	return 0;
}

int symbol_resolver_find(struct symbol_resolver *r, const uint8_t *build_id, size_t build_id_bytes,
			 const char *path, uint64_t address, struct symbol_name *out)
{
	int err, named;

	if (build_id_bytes == 1 || build_id_bytes > SYMBOL_BUILD_ID_MAX ||
	    (!build_id_bytes && !path))
		return -ENODATA;
	err = find(r, build_id, build_id_bytes, path, address, out);
	if (err && err != -ENOMEM && symbol_content_proves(build_id_bytes)) {
		/* then by the Build ID alone; if one search knows a file, its answer wins */
		named = find(r, build_id, symbol_content_note(build_id_bytes), path, address, out);
		err = !named || err == -ENODATA || named == -ENOENT ? named : err;
	}
	r->stats.found += !err;
	r->stats.no_file += err == -ENODATA;
	r->stats.refused += err == -EBADMSG;
	return err;
}

void symbol_resolver_forget(struct symbol_resolver *r, const uint8_t *build_id,
			    size_t build_id_bytes)
{
	struct entry *e;
	struct key k;

	if (build_id_bytes < 2 || build_id_bytes > SYMBOL_BUILD_ID_MAX)
		return;
	k = key_of(build_id, build_id_bytes, NULL);
	e = known(r, &k);
	if (e)
		drop(r, e);
	symbol_files_remove(r->files, k.id, k.id_bytes);
}

const char *symbol_resolver_why(const struct symbol_resolver *r)
{
	return r->why;
}

void symbol_resolver_stats_get(const struct symbol_resolver *r, struct symbol_resolver_stats *out)
{
	struct symbol_files_stats files;

	symbol_files_stats_get(r->files, &files);
	*out = r->stats;
	out->index_files = files.files;
	out->index_bytes = files.bytes;
}

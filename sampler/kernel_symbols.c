/* SPDX-License-Identifier: Apache-2.0
 * kernel_symbols.c - see kernel_symbols.h. kallsyms has no sizes: a symbol ends where the next one
 * of any kind begins. So data symbols are kept without names, only to mark ends. Modules and BPF
 * programs come and go: an address without a symbol triggers a new read, at most once per
 * RELOAD_NS. A table never changes after it was read. All readers of the same file share it,
 * because it takes 5 MB and a daemon has several readers. */
#include "sampler/kernel_symbols.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"

#define RELOAD_NS 10000000000ull
/* No function is larger. An address further behind a symbol lies in a gap between modules. */
#define FUNCTION_BYTES_MAX (4u << 20)

struct symbol {
	uint64_t begin;
	uint32_t name; /* offset in names; 0: not code */
};

struct table {
	uint32_t users; /* under tables_lock */
	char path[128];
	struct symbol *symbols;
	uint32_t count;
	size_t room;
	char *names;
	size_t bytes, bytes_room;
	uint64_t read_ns;
};

struct kernel_symbols {
	char path[128];
	struct table *table; /* NULL: not read yet */
	uint64_t tried_ns;   /* time of the last attempt to get a newer table */
};

/* The latest table; NULL when nobody uses it. */
static struct table *table_latest;
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

/* Among symbols at one address, the named ones come first. */
ORDER_BY(by_begin, struct symbol, ORDER_UP(begin) ?: ORDER_DOWN(name));

static int name_keep(struct table *k, const char *name, uint32_t *at)
{
	size_t bytes = strlen(name) + 1;

	if (k->bytes + bytes > LIMIT_SAMPLER_KERNEL_NAME_BYTES)
		return -E2BIG;
	if (ROOM_FOR(k->names, k->bytes_room, k->bytes + bytes))
		return -ENOMEM;
	memcpy(k->names + k->bytes, name, bytes);
	*at = (uint32_t)k->bytes;
	k->bytes += bytes;
	return 0;
}

static int symbol_keep(struct table *k, uint64_t begin, char type, const char *name)
{
	uint32_t at = 0;
	int err = 0;

	if (k->count >= LIMIT_SAMPLER_KERNEL_SYMBOLS)
		return -E2BIG;
	if (ROOM_FOR(k->symbols, k->room, k->count + 1ull))
		return -ENOMEM;
	if (tolower((unsigned char)type) == 't' || tolower((unsigned char)type) == 'w')
		err = name_keep(k, name, &at);
	if (err)
		return err;
	k->symbols[k->count].begin = begin;
	k->symbols[k->count++].name = at;
	return 0;
}

static void read_all(struct table *k)
{
	FILE *f = fopen(k->path, "re");
	char line[512], name[256], type;
	unsigned long begin;
	uint32_t kept = 0, at;
	int err = 0;

	k->read_ns = clock_monotonic_ns();
	if (name_keep(k, "", &at))
		err = -ENOMEM;
	while (f && !err && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx %c %255s", &begin, &type, name) == 3 && begin)
			err = symbol_keep(k, begin, type, name);
	}
	if (f)
		fclose(f);
	ORDER_SORT(k->symbols, k->count, by_begin);
	for (uint32_t i = 0; i < k->count; i++) { /* aliases */
		if (!kept || k->symbols[kept - 1].begin != k->symbols[i].begin)
			k->symbols[kept++] = k->symbols[i];
	}
	k->count = kept;
}

/* Under tables_lock. */
static void table_leave(struct table *t)
{
	if (!t || --t->users)
		return;
	if (table_latest == t)
		table_latest = NULL;
	free(t->symbols);
	free(t->names);
	free(t);
}

/* Under tables_lock; takes over t. */
static void table_use(struct kernel_symbols *k, struct table *t)
{
	t->users++;
	table_leave(k->table);
	k->table = t;
}

/* Takes a newer table that another reader has made; false: there is none. */
static bool table_take(struct kernel_symbols *k)
{
	bool other;

	pthread_mutex_lock(&tables_lock);
	other = table_latest && table_latest != k->table && !strcmp(table_latest->path, k->path);
	if (other)
		table_use(k, table_latest);
	pthread_mutex_unlock(&tables_lock);
	return other;
}

static void table_read(struct kernel_symbols *k)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	memcpy(t->path, k->path, sizeof(t->path));
	read_all(t);
	pthread_mutex_lock(&tables_lock);
	table_latest = t;
	table_use(k, t);
	pthread_mutex_unlock(&tables_lock);
}

static const char *look_up(const struct table *k, uint64_t address, uint64_t *offset)
{
	uint32_t low = 0, high = k ? k->count : 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (k->symbols[middle].begin <= address)
			low = middle + 1;
		else
			high = middle;
	}
	*offset = 0;
	if (!low || !k->symbols[low - 1].name ||
	    address - k->symbols[low - 1].begin > FUNCTION_BYTES_MAX)
		return "";
	*offset = address - k->symbols[low - 1].begin;
	return k->names + k->symbols[low - 1].name;
}

const char *kernel_symbols_find(struct kernel_symbols *k, uint64_t address, uint64_t *offset)
{
	const char *name = look_up(k->table, address, offset);
	uint64_t now_ns;

	if (name[0])
		return name;
	now_ns = clock_monotonic_ns();
	if (k->tried_ns && now_ns - k->tried_ns <= RELOAD_NS)
		return name;
	k->tried_ns = now_ns;
	if (table_take(k))
		name = look_up(k->table, address, offset);
	if (!name[0] && (!k->table || now_ns - k->table->read_ns > RELOAD_NS)) {
		table_read(k);
		name = look_up(k->table, address, offset);
	}
	return name;
}

int kernel_symbols_open(struct kernel_symbols **out, const char *path)
{
	struct kernel_symbols *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	snprintf(k->path, sizeof(k->path), "%s", path ? path : "/proc/kallsyms");
	*out = k;
	return 0;
}

void kernel_symbols_close(struct kernel_symbols *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&tables_lock);
	table_leave(k->table);
	pthread_mutex_unlock(&tables_lock);
	free(k);
}

/* SPDX-License-Identifier: Apache-2.0
 * kernel_symbols.c - see kernel_symbols.h.
 * kallsyms gives no sizes: a symbol ends where the next one of any kind begins, so that data
 * symbols are kept as ends, without names. Modules and BPF programs come and go; an address that no
 * symbol explains has the file read again, at most once every RELOAD_NS. */
#include "sampler/kernel_symbols.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"

#define RELOAD_NS 10000000000ull
/* Further from the last symbol than any function reaches: a hole between modules. */
#define FUNCTION_BYTES_MAX (4u << 20)

struct symbol {
	uint64_t begin;
	uint32_t name; /* offset in names; 0: not code */
};

struct kernel_symbols {
	char path[128];
	struct symbol *symbols;
	uint32_t count, room;
	char *names;
	size_t bytes, bytes_room;
	uint64_t read_ns;
};

static int by_begin(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->name < y->name) - (x->name > y->name); /* named ones first */
}

static int name_keep(struct kernel_symbols *k, const char *name, uint32_t *at)
{
	size_t bytes = strlen(name) + 1;
	char *grown;

	if (k->bytes + bytes > k->bytes_room) {
		size_t room = k->bytes_room ? k->bytes_room * 2 : 1u << 20;

		if (room > LIMIT_SAMPLER_KERNEL_NAME_BYTES)
			return -E2BIG;
		grown = realloc(k->names, room);
		if (!grown)
			return -ENOMEM;
		k->names = grown;
		k->bytes_room = room;
	}
	memcpy(k->names + k->bytes, name, bytes);
	*at = (uint32_t)k->bytes;
	k->bytes += bytes;
	return 0;
}

static int symbol_keep(struct kernel_symbols *k, uint64_t begin, char type, const char *name)
{
	struct symbol *grown;
	uint32_t at = 0;
	int err = 0;

	if (k->count == k->room) {
		uint32_t room = k->room ? k->room * 2 : 65536;

		if (room > LIMIT_SAMPLER_KERNEL_SYMBOLS)
			return -E2BIG;
		grown = realloc(k->symbols, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		k->symbols = grown;
		k->room = room;
	}
	if (tolower((unsigned char)type) == 't' || tolower((unsigned char)type) == 'w')
		err = name_keep(k, name, &at);
	if (err)
		return err;
	k->symbols[k->count].begin = begin;
	k->symbols[k->count++].name = at;
	return 0;
}

static void read_all(struct kernel_symbols *k)
{
	FILE *f = fopen(k->path, "re");
	char line[512], name[256], type;
	unsigned long begin;
	uint32_t kept = 0, at;
	int err = 0;

	k->read_ns = clock_monotonic_ns();
	k->count = 0;
	k->bytes = 0;
	if (name_keep(k, "", &at))
		err = -ENOMEM;
	while (f && !err && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx %c %255s", &begin, &type, name) == 3 && begin)
			err = symbol_keep(k, begin, type, name);
	}
	if (f)
		fclose(f);
	qsort(k->symbols, k->count, sizeof(*k->symbols), by_begin);
	for (uint32_t i = 0; i < k->count; i++) { /* aliases */
		if (!kept || k->symbols[kept - 1].begin != k->symbols[i].begin)
			k->symbols[kept++] = k->symbols[i];
	}
	k->count = kept;
}

static const char *look_up(const struct kernel_symbols *k, uint64_t address, uint64_t *offset)
{
	uint32_t low = 0, high = k->count;

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
	const char *name = k->read_ns ? look_up(k, address, offset) : "";

	if (!name[0] && (!k->read_ns || clock_monotonic_ns() - k->read_ns > RELOAD_NS)) {
		read_all(k);
		name = look_up(k, address, offset);
	}
	return name;
}

size_t kernel_symbols_bytes(const struct kernel_symbols *k)
{
	return k->room * sizeof(*k->symbols) + k->bytes_room;
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
	free(k->symbols);
	free(k->names);
	free(k);
}

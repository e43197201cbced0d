/* SPDX-License-Identifier: Apache-2.0
 * names.c - see names.h. A hash table of (Build ID, address). */
#include "tests/accuracy/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/unwind_format.h"
#include "symbol/symbol_resolver.h"

#define SLOTS (1u << 18) /* a power of two; it is full at half */

struct seen {
	uint64_t address; /* ELF virtual; of a return address the byte before */
	uint64_t named;	  /* the address that names it: a leaf's is where its row begins */
	uint64_t count;	  /* 0: a free slot */
	uint8_t build_id[STACK_BUILD_ID_MAX];
	uint8_t build_id_bytes;
	char *path;
};

struct names {
	struct symbol_resolver *resolver;
	struct seen *slots;
	uint32_t used, pid;
};

int names_open(struct names **out, const char *directory, uint32_t pid)
{
	struct symbol_resolver_options o = {.directory = directory};
	struct names *n = calloc(1, sizeof(*n));
	int rc;

	*out = NULL;
	if (!n)
		return -ENOMEM;
	n->pid = pid;
	n->slots = calloc(SLOTS, sizeof(*n->slots));
	rc = n->slots ? symbol_resolver_open(&n->resolver, &o) : -ENOMEM;
	if (rc) {
		names_close(n);
		return rc;
	}
	*out = n;
	return 0;
}

void names_close(struct names *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; n->slots && i < SLOTS; i++)
		free(n->slots[i].path);
	free(n->slots);
	symbol_resolver_close(n->resolver);
	free(n);
}

static uint32_t slot_of(const struct mapping_elf *e, uint64_t address)
{
	uint64_t h = address;

	for (uint8_t i = 0; i < e->build_id_bytes; i++)
		h = (h ^ e->build_id[i]) * 0x100000001b3ull;
	return (uint32_t)(h >> 20) & (SLOTS - 1);
}

int names_add(struct names *n, const struct mapping *m, uint64_t frame, uint64_t by)
{
	uint64_t address = frame & UNWIND_FRAME_PC, named = by & UNWIND_FRAME_PC;
	struct seen *s;

	if (!m || !m->elf || !m->elf->build_id_bytes)
		return 0;
	address -= m->load_bias + (frame & UNWIND_FRAME_RETURN ? 1 : 0);
	named -= m->load_bias + (frame & UNWIND_FRAME_RETURN ? 1 : 0);
	for (uint32_t i = slot_of(m->elf, address);; i = (i + 1) & (SLOTS - 1)) {
		s = &n->slots[i];
		if (!s->count)
			break;
		if (s->address == address && s->named == named &&
		    s->build_id_bytes == m->elf->build_id_bytes &&
		    !memcmp(s->build_id, m->elf->build_id, s->build_id_bytes)) {
			s->count++;
			return 0;
		}
	}
	if (n->used >= SLOTS / 2)
		return -ENOMEM;
	s->path = strdup(m->path);
	if (!s->path)
		return -ENOMEM;
	s->address = address;
	s->named = named;
	s->count = 1;
	s->build_id_bytes = m->elf->build_id_bytes;
	memcpy(s->build_id, m->elf->build_id, sizeof(s->build_id));
	n->used++;
	return 0;
}

/* The symbol itself; of a PLT entry what is shown, since its symbol is the function behind it. */
static const char *judged_name(const struct symbol_name *n)
{
	size_t length = strlen(n->function);

	return length > 4 && !strcmp(n->function + length - 4, "@plt") ? n->function : n->raw;
}

static void write_one(struct names *n, const struct seen *s, FILE *f)
{
	struct symbol_name name;
	char path[4200];
	int rc;

	snprintf(path, sizeof(path), "/proc/%u/root%s", n->pid, s->path);
	rc = symbol_resolver_find(n->resolver, s->build_id, s->build_id_bytes, path, s->named,
				  &name);
	for (size_t i = 0; i < symbol_content_note(s->build_id_bytes); i++)
		fprintf(f, "%02x", s->build_id[i]);
	fprintf(f, "\t%lx\t%lu\t%s\t%s\n", s->address, s->count, s->path,
		rc ? "-" : judged_name(&name));
}

int names_write(struct names *n, const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return -errno;
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (n->slots[i].count)
			write_one(n, &n->slots[i], f);
	}
	return fclose(f) ? -EIO : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * unwind_table.c - see unwind_table.h. One pass over the section fills raw rows, function by
 * function, in the order of the file; the functions are then sorted by address and their rows
 * strung together, with a gap row wherever the next function does not follow at once. Sections are
 * read, not mapped: a job may truncate its file at any time. */
#include "sampler/unwind_table.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "sampler/unwind_cfi.h"

#define RULE_NONE	 0u
#define RULE_UNSUPPORTED 1u
#define RULE_HASH_SLOTS	 (LIMIT_UNWIND_FILE_RULES * 4)
#define SEGMENTS_MAX	 16
#define CIE_CACHE	 64

struct fde {
	uint64_t begin, end;
	uint32_t first, count; /* of build.rows */
	uint32_t order;	       /* the earlier one wins where two begin at one address */
};

struct raw_row {
	uint32_t offset; /* from the function's begin */
	uint32_t rule;
};

struct cie {
	Dwarf_Off offset;
	bool known, sized;
	uint8_t encoding;
	size_t unsized_bytes; /* augmentation data in front of each function's program */
	struct unwind_cfi_machine machine;
};

struct build {
	Elf *elf;
	char *why;
	struct {
		uint64_t begin, end;
	} code[SEGMENTS_MAX];
	unsigned code_count;
	struct fde *fdes;
	struct raw_row *rows;
	uint32_t fde_count, fde_room, row_count, row_room;
	struct unwind_rule *rules;
	uint32_t rule_count;
	uint32_t hash[RULE_HASH_SLOTS]; /* index + 1 */
	struct cie cies[CIE_CACHE];
	/* the section that is being read */
	Elf_Data *data;
	uint64_t address;
	bool eh_frame;
	unsigned char ident[EI_NIDENT];
	int rc;
};

static int refuse(struct build *b, int rc, const char *why)
{
	if (!b->why[0])
		snprintf(b->why, UNWIND_TABLE_WHY_BYTES, "%s", why);
	b->rc = rc;
	return rc;
}

static bool grow(void **p, uint32_t *room, uint32_t need, size_t each)
{
	uint32_t want = *room ? *room : 4096;
	void *q;

	if (need <= *room)
		return true;
	while (want < need)
		want *= 2;
	q = realloc(*p, want * each);
	if (!q)
		return false;
	*p = q;
	*room = want;
	return true;
}

static uint32_t intern(struct build *b, const struct unwind_rule *r)
{
	uint32_t i = (uint32_t)hash_mix(hash_bytes(HASH_SEED, r, sizeof(*r))) % RULE_HASH_SLOTS;

	for (; b->hash[i]; i = (i + 1) % RULE_HASH_SLOTS) {
		if (!memcmp(&b->rules[b->hash[i] - 1], r, sizeof(*r)))
			return b->hash[i] - 1;
	}
	if (b->rule_count == LIMIT_UNWIND_FILE_RULES)
		return RULE_UNSUPPORTED;
	b->rules[b->rule_count++] = *r;
	b->hash[i] = b->rule_count;
	return b->rule_count - 1;
}

static bool in_code(const struct build *b, uint64_t begin, uint64_t end)
{
	for (unsigned i = 0; i < b->code_count; i++) {
		if (begin >= b->code[i].begin && end <= b->code[i].end)
			return true;
	}
	return false;
}

/* Fills c from what the augmentation string says. -1: not understood. */
static int read_augmentation(struct cie *c, const Dwarf_CIE *e)
{
	struct unwind_cfi_cursor data = {e->augmentation_data,
					 e->augmentation_data + e->augmentation_data_size, false};
	const char *a = e->augmentation;

	c->encoding = DW_EH_PE_absptr;
	c->sized = *a == 'z';
	c->unsized_bytes = e->fde_augmentation_data_size;
	if (!c->sized)
		return *a ? -1 : 0; /* gcc 2's "eh" is older than x86-64 */
	for (a++; *a; a++) {
		if (!data.p)
			return -1;
		if (*a == 'R') {
			c->encoding =
			    (uint8_t)unwind_cfi_uleb(&data); /* one byte; bit 7 is refused below */
			if (c->encoding & 0x80)
				return -1;
		} else if (*a == 'L') {
			data.p += data.p < data.end;
		} else if (*a == 'P') {
			uint8_t encoding = data.p < data.end ? *data.p++ : UNWIND_CFI_OMIT;

			/* its value does not matter here, its length does; an indirect one is read
			 * alike */
			if (encoding != UNWIND_CFI_OMIT)
				unwind_cfi_pointer(&data, encoding & 0x0f, 0);
		} else if (*a != 'S' && *a != 'B') {
			return -1;
		}
	}
	return data.failed ? -1 : 0;
}

/* The common part of a function's entry, from the cache or the section. NULL: refused. */
static struct cie *find_cie(struct build *b, Dwarf_Off offset)
{
	struct cie *c = &b->cies[hash_mix(offset) % CIE_CACHE];
	struct unwind_cfi_machine *m = &c->machine;
	struct unwind_cfi_cursor program = {0};
	Dwarf_CFI_Entry e;
	Dwarf_Off next;

	if (c->known && c->offset == offset)
		return c;
	memset(c, 0, sizeof(*c));
	if (offset >= b->data->d_size ||
	    dwarf_next_cfi(b->ident, b->data, b->eh_frame, offset, &next, &e) ||
	    !dwarf_cfi_cie_p(&e)) {
		refuse(b, -EBADMSG, "a function names no valid CIE");
		return NULL;
	}
	program.p = e.cie.initial_instructions;
	program.end = e.cie.initial_instructions_end;
	if (!program.p || program.p > program.end ||
	    program.end - program.p > (ptrdiff_t)LIMIT_UNWIND_CIE_BYTES) {
		refuse(b, -EBADMSG, "a CIE's program is too long");
		return NULL;
	}
	if (read_augmentation(c, &e.cie)) {
		refuse(b, -EBADMSG, "an augmentation that is not understood");
		return NULL;
	}
	m->code_align = e.cie.code_alignment_factor;
	m->data_align = e.cie.data_alignment_factor;
	m->ra_register = e.cie.return_address_register;
	m->pointer_encoding = c->encoding;
	m->section_address = b->address;
	m->section_begin = b->data->d_buf;
	if (unwind_cfi_run(m, &program)) {
		refuse(b, -EBADMSG, "a CIE's program is invalid");
		return NULL;
	}
	m->initial = m->now;
	c->offset = offset;
	c->known = true;
	return c;
}

static int add_row(struct build *b, struct fde *f, uint64_t offset,
		   const struct unwind_cfi_state *s)
{
	struct unwind_rule rule = unwind_cfi_rule(s);
	uint32_t id = intern(b, &rule);

	if (f->count && b->rows[b->row_count - 1].rule == id)
		return 0;
	if (f->count &&
	    b->rows[b->row_count - 1].offset == offset) { /* two rows at one place: the later */
		b->rows[b->row_count - 1].rule = id;
		return 0;
	}
	if (b->row_count == LIMIT_UNWIND_ROWS)
		return refuse(b, -E2BIG, "too many rows");
	if (!grow((void **)&b->rows, &b->row_room, b->row_count + 1, sizeof(*b->rows)))
		return refuse(b, -ENOMEM, "no memory");
	b->rows[b->row_count++] = (struct raw_row){(uint32_t)offset, id};
	f->count++;
	return 0;
}

static int run_program(struct build *b, const struct cie *c, struct fde *f,
		       struct unwind_cfi_cursor *p)
{
	struct unwind_cfi_machine m = c->machine;
	uint64_t at = f->begin;
	int rc;

	m.pc = f->begin;
	m.depth = 0;
	do {
		struct unwind_cfi_cursor before = *p;

		/* what holds at `at` is what m.now says when the next advance is met */
		rc = unwind_cfi_run(&m, p);
		if (rc < 0 || (rc == 1 && (m.pc < at || p->p == before.p)))
			return refuse(b, -EBADMSG, "a function's program is invalid");
		if (at >= f->end)
			return 0;
		if (add_row(b, f, at - f->begin, &m.now))
			return b->rc;
		at = m.pc;
	} while (rc == 1);
	return 0;
}

static int add_fde(struct build *b, const Dwarf_FDE *e)
{
	struct unwind_cfi_cursor p = {e->start, e->end, false};
	uint64_t base = b->address + (uint64_t)(e->start - (const uint8_t *)b->data->d_buf);
	struct cie *c = find_cie(b, e->CIE_pointer);
	struct fde *f;
	uint64_t skip;

	if (!c)
		return b->rc;
	if (!grow((void **)&b->fdes, &b->fde_room, b->fde_count + 1, sizeof(*b->fdes)))
		return refuse(b, -ENOMEM, "no memory");
	f = &b->fdes[b->fde_count];
	*f = (struct fde){.first = b->row_count, .order = b->fde_count};
	f->begin = unwind_cfi_pointer(&p, c->encoding, base);
	f->end = f->begin + unwind_cfi_pointer(&p, c->encoding & 0x0f, 0);
	skip = c->sized ? unwind_cfi_uleb(&p) : c->unsized_bytes;
	if (p.failed || skip > (uint64_t)(p.end - p.p))
		return refuse(b, -EBADMSG, "a function's entry is cut short");
	p.p += skip;
	/* functions that the linker dropped are left at address 0; others may be data */
	if (f->end <= f->begin || !in_code(b, f->begin, f->end))
		return 0;
	if (b->fde_count + 1 >= LIMIT_UNWIND_FDES)
		return refuse(b, -E2BIG, "too many functions");
	if (run_program(b, c, f, &p))
		return b->rc;
	b->fde_count++;
	return 0;
}

static int read_section(struct build *b)
{
	Dwarf_Off offset = 0, next = 0;

	memset(b->cies, 0, sizeof(b->cies));
	for (;; offset = next) {
		Dwarf_CFI_Entry e;
		int rc = dwarf_next_cfi(b->ident, b->data, b->eh_frame, offset, &next, &e);

		if (rc == 1)
			return 0;
		if (next <= offset)
			return refuse(b, -EBADMSG, "an entry's length is invalid");
		if (rc < 0)
			continue; /* libdw does not know this entry but where it ends */
		if (!dwarf_cfi_cie_p(&e) && add_fde(b, &e.fde))
			return b->rc;
	}
}

static int open_section(struct build *b, Elf_Scn *scn, GElf_Shdr *sh)
{
	if (sh->sh_flags & SHF_COMPRESSED) {
		GElf_Chdr ch;

		if (!gelf_getchdr(scn, &ch) || ch.ch_size > LIMIT_UNWIND_SECTION_BYTES)
			return refuse(b, -E2BIG, "a compressed section is too large");
		if (elf_compress(scn, 0, 0) < 0)
			return refuse(b, -EBADMSG, "a compressed section is invalid");
	} else if (sh->sh_size > LIMIT_UNWIND_SECTION_BYTES) {
		return refuse(b, -E2BIG, "the section is too large");
	}
	b->data = elf_rawdata(scn, NULL);
	b->address = sh->sh_addr;
	if (!b->data || !b->data->d_buf)
		return refuse(b, -EBADMSG, "the section lies outside the file");
	return 0;
}

/* Compiles the section of that name, if there is one with contents. */
static int add_section(struct build *b, const char *name)
{
	size_t names, count = 0;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(b->elf, &names) || elf_getshdrnum(b->elf, &count))
		return 0; /* no sections */
	while ((scn = elf_nextscn(b->elf, scn))) {
		GElf_Shdr sh;
		const char *s;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type == SHT_NOBITS || !sh.sh_size)
			continue;
		s = elf_strptr(b->elf, names, sh.sh_name);
		if (!s || strcmp(s, name))
			continue;
		if (open_section(b, scn, &sh))
			return b->rc;
		b->eh_frame = name[1] == 'e';
		return read_section(b);
	}
	return 0;
}

static int check_header(struct build *b)
{
	GElf_Ehdr eh;
	size_t count;

	if (elf_kind(b->elf) != ELF_K_ELF || !gelf_getehdr(b->elf, &eh))
		return refuse(b, -ENOTSUP, "not an ELF file");
	if (eh.e_machine != EM_X86_64 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB || (eh.e_type != ET_DYN && eh.e_type != ET_EXEC))
		return refuse(b, -ENOTSUP, "not an x86-64 program or library");
	memcpy(b->ident, eh.e_ident, EI_NIDENT);
	if (elf_getphdrnum(b->elf, &count))
		return refuse(b, -EBADMSG, "no program headers");
	for (size_t i = 0; i < count && b->code_count < SEGMENTS_MAX; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(b->elf, (int)i, &ph))
			return refuse(b, -EBADMSG, "the program headers lie outside the file");
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X) ||
		    ph.p_vaddr + ph.p_memsz < ph.p_vaddr)
			continue;
		b->code[b->code_count].begin = ph.p_vaddr;
		b->code[b->code_count++].end = ph.p_vaddr + ph.p_memsz;
	}
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct fde *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool is_fp(const struct unwind_rule *r)
{
	return r->cfa == (UNWIND_CFA_REGISTER | UNWIND_RBP << 4) && r->offset == 16 &&
	       UNWIND_RULE_RBP(r) == UNWIND_SAVED_CFA && r->rbp_slot == -2;
}

/* Appends a row to the table unless it says what the last one says. */
static void put(struct unwind_table *t, uint64_t address, uint32_t rule)
{
	if (t->row_count && t->rows[t->row_count - 1].rule == rule)
		return;
	t->rows[t->row_count++] = (struct unwind_table_row){(uint32_t)(address - t->begin), rule};
}

static void account(struct unwind_table *t, const struct unwind_rule *r, uint64_t bytes)
{
	t->code_bytes += bytes;
	if (is_fp(r))
		t->fp_bytes += bytes;
	if (UNWIND_RULE_CFA(r) == UNWIND_CFA_UNSUPPORTED) {
		t->unsupported_bytes += bytes;
		t->unsupported_rows++;
	}
}

/* One function's rows up to `end`, which may be where an overlapping one begins. */
static void string_fde(struct build *b, struct unwind_table *t, const struct fde *f, uint64_t end)
{
	for (uint32_t i = 0; i < f->count; i++) {
		const struct raw_row *row = &b->rows[f->first + i];
		uint64_t from = f->begin + row->offset;
		uint64_t to = i + 1 < f->count ? f->begin + row[1].offset : end;

		if (from >= end)
			return;
		put(t, from, row->rule);
		account(t, &b->rules[row->rule], (to < end ? to : end) - from);
	}
}

static int string_rows(struct build *b, struct unwind_table *t)
{
	uint64_t reached;

	if (!b->fde_count)
		return refuse(b, -ENODATA, "no call frame information");
	qsort(b->fdes, b->fde_count, sizeof(*b->fdes), by_begin);
	t->begin = b->fdes[0].begin & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);
	reached = t->begin;
	for (uint32_t i = 0; i < b->fde_count; i++)
		t->end = b->fdes[i].end > t->end ? b->fdes[i].end : t->end;
	if (t->end - t->begin > LIMIT_UNWIND_SPAN_BYTES)
		return refuse(b, -E2BIG, "the functions lie too far apart");
	/* each function may bring one gap row, and one more ends the table */
	t->rows = malloc(((size_t)b->row_count + b->fde_count + 1) * sizeof(*t->rows));
	if (!t->rows)
		return refuse(b, -ENOMEM, "no memory");
	for (uint32_t i = 0; i < b->fde_count; i++) {
		const struct fde *f = &b->fdes[i];
		uint64_t end = f->end;

		if (i && f->begin == f[-1].begin)
			continue;
		for (uint32_t k = i + 1; k < b->fde_count && b->fdes[k].begin < end; k++) {
			if (b->fdes[k].begin > f->begin) {
				end = b->fdes[k].begin;
				break;
			}
		}
		if (f->begin > reached)
			put(t, reached, RULE_NONE);
		string_fde(b, t, f, end);
		reached = end;
		t->fde_count++;
	}
	put(t, reached, RULE_NONE);
	t->end = reached;
	return 0;
}

static int compile(struct unwind_table *out, Elf *elf, char *why)
{
	struct build *b;
	struct unwind_rule none = {.cfa = UNWIND_CFA_NONE},
			   unsupported = {.cfa = UNWIND_CFA_UNSUPPORTED};
	int rc;

	memset(out, 0, sizeof(*out));
	why[0] = 0;
	if (!elf) {
		snprintf(why, UNWIND_TABLE_WHY_BYTES, "not an ELF file");
		return -ENOTSUP;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		snprintf(why, UNWIND_TABLE_WHY_BYTES, "no memory");
		return -ENOMEM;
	}
	b->elf = elf;
	b->why = why;
	b->rules = malloc(LIMIT_UNWIND_FILE_RULES * sizeof(*b->rules));
	if (!b->rules) {
		rc = refuse(b, -ENOMEM, "no memory");
		goto out;
	}
	CHECK(intern(b, &none) == RULE_NONE);
	CHECK(intern(b, &unsupported) == RULE_UNSUPPORTED);
	rc = check_header(b);
	if (!rc)
		rc = add_section(b, ".eh_frame");
	if (!rc) {
		snprintf(out->source, sizeof(out->source), "%s",
			 b->fde_count ? ".eh_frame" : ".debug_frame");
		rc = add_section(b, ".debug_frame");
	}
	if (!rc)
		rc = string_rows(b, out);
	out->rules = b->rules;
	out->rule_count = b->rule_count;
	b->rules = NULL;
out:
	free(b->rules);
	free(b->rows);
	free(b->fdes);
	free(b);
	if (rc)
		unwind_table_fini(out);
	return rc;
}

int unwind_table_compile(struct unwind_table *out, int fd, char why[UNWIND_TABLE_WHY_BYTES])
{
	Elf *elf;
	int rc;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	rc = compile(out, elf, why);
	elf_end(elf);
	return rc;
}

int unwind_table_compile_image(struct unwind_table *out, void *image, size_t bytes,
			       char why[UNWIND_TABLE_WHY_BYTES])
{
	Elf *elf;
	int rc;

	elf_version(EV_CURRENT);
	elf = elf_memory(image, bytes);
	rc = compile(out, elf, why);
	elf_end(elf);
	return rc;
}

void unwind_table_fini(struct unwind_table *t)
{
	free(t->rows);
	free(t->rules);
	memset(t, 0, sizeof(*t));
}

const struct unwind_rule *unwind_table_find(const struct unwind_table *t, uint64_t address)
{
	uint32_t low = 0, high = t->row_count;

	if (address < t->begin || address >= t->end)
		return NULL;
	address -= t->begin;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (t->rows[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &t->rules[t->rows[low - 1].rule] : NULL;
}

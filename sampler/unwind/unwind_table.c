/* SPDX-License-Identifier: Apache-2.0
 * unwind_table.c - see unwind_table.h. A first pass over the section lists its entries. A second
 * pass fills raw rows, function by function, with all functions of one CIE together. Then the
 * functions are sorted by address and their rows concatenated, with a gap row wherever the next
 * function does not follow directly. Sections are read, not mapped: a job may truncate its file at
 * any time. */
#include "sampler/unwind/unwind_table.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/probe.h"
#include "base/room.h"
#include "sampler/unwind/unwind_cfi.h"
#include "sampler/unwind/unwind_section.h"

#define RULE_NONE	 0u
#define RULE_UNSUPPORTED 1u
#define SEGMENTS_MAX	 16
#define PLTS		 3

struct fde {
	uint64_t begin, end;
	uint32_t first, count; /* of build.rows */
	uint32_t order;	       /* if two entries begin at one address, the earlier one wins */
};

struct raw_row {
	uint32_t offset; /* from the function's start */
	uint32_t rule;
};

/* A function's entry and the CIE that it names, by their offsets in the section. */
struct entry {
	uint32_t cie, offset;
};

struct cie {
	bool sized;
	uint8_t encoding;
	size_t unsized_bytes; /* augmentation data before each function's program */
	struct unwind_cfi_machine machine;
};

struct build {
	struct symbol_elf elf;
	char *why;
	struct {
		uint64_t begin, end;
	} code[SEGMENTS_MAX];
	unsigned code_count;
	struct {
		uint64_t begin, end;
		uint32_t step;
	} plt[PLTS];
	struct fde *fdes;
	struct raw_row *rows;
	uint32_t fde_count, row_count;
	size_t fde_room, row_room;
	struct unwind_rule *rules;
	uint32_t rule_count;
	struct probe by_rule;
	/* the section being read */
	struct cie cie; /* of the function being read */
	uint32_t *cies; /* where each begins */
	struct entry *entries;
	uint32_t cie_count, entry_count;
	size_t cie_room, entry_room;
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

static uint32_t intern(struct build *b, const struct unwind_rule *r)
{
	uint64_t hash = keyed_bytes(keyed_process(), r, sizeof(*r));

	PROBE_EACH (i, &b->by_rule, hash)
		if (!memcmp(&b->rules[i.number], r, sizeof(*r)))
			return i.number;
	if (b->rule_count == LIMIT_UNWIND_FILE_RULES || probe_add(&b->by_rule, hash, b->rule_count))
		return RULE_UNSUPPORTED;
	b->rules[b->rule_count] = *r;
	return b->rule_count++;
}

static bool in_code(const struct build *b, uint64_t begin, uint64_t end)
{
	for (unsigned i = 0; i < b->code_count; i++) {
		if (begin >= b->code[i].begin && end <= b->code[i].end)
			return true;
	}
	return false;
}

/* Fills c from the augmentation string. -1: unknown string. */
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

			/* only the length of the value matters; an indirect value has the same */
			if (encoding != UNWIND_CFI_OMIT)
				unwind_cfi_pointer(&data, encoding & 0x0f, 0);
		} else if (*a != 'S' && *a != 'B') {
			return -1;
		}
	}
	return data.failed ? -1 : 0;
}

/* Reads the common part of functions' entries, from the offset of a known CIE. */
static int read_cie(struct build *b, Dwarf_Off offset)
{
	struct cie *c = &b->cie;
	struct unwind_cfi_machine *m = &c->machine;
	struct unwind_cfi_cursor program = {0};
	Dwarf_CFI_Entry e;
	Dwarf_Off next;

	memset(c, 0, sizeof(*c));
	if (dwarf_next_cfi(b->ident, b->data, b->eh_frame, offset, &next, &e) ||
	    !dwarf_cfi_cie_p(&e))
		return refuse(b, -EBADMSG, "a function names no valid CIE");
	program.p = e.cie.initial_instructions;
	program.end = e.cie.initial_instructions_end;
	if (!program.p || program.p > program.end ||
	    program.end - program.p > (ptrdiff_t)LIMIT_UNWIND_CIE_BYTES)
		return refuse(b, -EBADMSG, "a CIE's program is too long");
	if (read_augmentation(c, &e.cie))
		return refuse(b, -EBADMSG, "an augmentation that is not understood");
	m->code_align = e.cie.code_alignment_factor;
	m->data_align = e.cie.data_alignment_factor;
	m->ra_register = e.cie.return_address_register;
	m->pointer_encoding = c->encoding;
	m->section_address = b->address;
	m->section_begin = b->data->d_buf;
	if (unwind_cfi_run(m, &program))
		return refuse(b, -EBADMSG, "a CIE's program is invalid");
	m->initial = m->now;
	return 0;
}

static int add_row(struct build *b, struct fde *f, uint64_t offset,
		   const struct unwind_cfi_state *s)
{
	struct unwind_rule rule = unwind_cfi_rule(s);
	uint32_t id = intern(b, &rule);

	if (f->count && b->rows[b->row_count - 1].rule == id)
		return 0;
	if (f->count &&
	    /* two rows at one place: keeps the later row */
	    b->rows[b->row_count - 1].offset == offset) {
		b->rows[b->row_count - 1].rule = id;
		return 0;
	}
	if (b->row_count == LIMIT_UNWIND_ROWS)
		return refuse(b, -E2BIG, "too many rows");
	if (ROOM_FOR(b->rows, b->row_room, b->row_count + 1ull))
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

		/* m.now is valid up to the next advance, so it is the state at `at` */
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

static int add_fde(struct build *b, const Dwarf_FDE *e, uint32_t order)
{
	struct unwind_cfi_cursor p = {e->start, e->end, false};
	uint64_t base = b->address + (uint64_t)(e->start - (const uint8_t *)b->data->d_buf);
	const struct cie *c = &b->cie;
	struct fde *f;
	uint64_t skip;

	if (ROOM_FOR(b->fdes, b->fde_room, b->fde_count + 1ull))
		return refuse(b, -ENOMEM, "no memory");
	f = &b->fdes[b->fde_count];
	*f = (struct fde){.first = b->row_count, .order = order};
	f->begin = unwind_cfi_pointer(&p, c->encoding, base);
	f->end = f->begin + unwind_cfi_pointer(&p, c->encoding & 0x0f, 0);
	skip = c->sized ? unwind_cfi_uleb(&p) : c->unsized_bytes;
	if (p.failed || skip > (uint64_t)(p.end - p.p))
		return refuse(b, -EBADMSG, "a function's entry is cut short");
	p.p += skip;
	/* functions that the linker dropped stay at address 0; others may be data */
	if (f->end <= f->begin || !in_code(b, f->begin, f->end))
		return 0;
	if (b->fde_count + 1 >= LIMIT_UNWIND_FDES)
		return refuse(b, -E2BIG, "too many functions");
	if (run_program(b, c, f, &p))
		return b->rc;
	b->fde_count++;
	return 0;
}

/* Lists where each entry begins. Each entry is decoded at most twice. */
static int list_entries(struct build *b)
{
	Dwarf_Off offset = 0, next = 0;

	b->cie_count = b->entry_count = 0;
	for (;; offset = next) {
		Dwarf_CFI_Entry e;
		int rc = dwarf_next_cfi(b->ident, b->data, b->eh_frame, offset, &next, &e);

		if (rc == 1)
			return 0;
		if (next <= offset)
			return refuse(b, -EBADMSG, "an entry's length is invalid");
		if (rc < 0)
			continue; /* libdw only knows where this entry ends */
		if (dwarf_cfi_cie_p(&e)) {
			if (ROOM_FOR(b->cies, b->cie_room, b->cie_count + 1ull))
				return refuse(b, -ENOMEM, "no memory");
			b->cies[b->cie_count++] = (uint32_t)offset;
			continue;
		}
		if (e.fde.CIE_pointer >= b->data->d_size)
			return refuse(b, -EBADMSG, "a function names no valid CIE");
		if (ROOM_FOR(b->entries, b->entry_room, b->entry_count + 1ull))
			return refuse(b, -ENOMEM, "no memory");
		b->entries[b->entry_count++] =
		    (struct entry){(uint32_t)e.fde.CIE_pointer, (uint32_t)offset};
	}
}

ORDER_BY(by_cie, struct entry, ORDER_UP(cie) ?: ORDER_UP(offset));

/* Reads the functions CIE by CIE, so that each CIE is read once. */
static int read_section(struct build *b)
{
	uint32_t cie = 0;
	int rc = list_entries(b);

	if (!rc && b->entry_count)
		qsort(b->entries, b->entry_count, sizeof(*b->entries), by_cie);
	for (uint32_t i = 0; !rc && i < b->entry_count; i++) {
		const struct entry *at = &b->entries[i];
		Dwarf_CFI_Entry e;
		Dwarf_Off next;

		if (!i || at->cie != at[-1].cie) {
			while (cie < b->cie_count && b->cies[cie] < at->cie)
				cie++;
			if (cie == b->cie_count || b->cies[cie] != at->cie)
				return refuse(b, -EBADMSG, "a function names no valid CIE");
			rc = read_cie(b, at->cie);
		}
		if (!rc && !dwarf_next_cfi(b->ident, b->data, b->eh_frame, at->offset, &next, &e))
			rc = add_fde(b, &e.fde, at->offset);
	}
	return rc;
}

/* Compiles the section of that name, if it exists and is not empty. */
static int add_section(struct build *b, const char *name)
{
	struct unwind_section section;
	Elf_Data data = {.d_type = ELF_T_BYTE, .d_version = EV_CURRENT};
	const char *why;
	int rc = unwind_section_read(&section, &b->elf, name, &why);

	if (rc)
		return refuse(b, rc, why);
	if (section.bytes) {
		data.d_buf = section.bytes;
		data.d_size = section.count;
		b->data = &data;
		b->address = section.address;
		b->eh_frame = name[1] == 'e';
		rc = read_section(b);
		b->data = NULL;
	}
	unwind_section_fini(&section);
	return rc;
}

/* Each entry of a procedure linkage table counts as a function, although one FDE covers them
 * all. */
static void find_plt(struct build *b)
{
	static const char *const names[PLTS] = {".plt", ".plt.sec", ".plt.got"};

	for (uint32_t i = 1; i < b->elf.section_count; i++) {
		const struct symbol_section *s = &b->elf.sections[i];
		char name[SYMBOL_SECTION_NAME_BYTES];

		if (s->type != SHT_PROGBITS || s->bytes > LIMIT_UNWIND_SECTION_BYTES ||
		    symbol_elf_section_name(&b->elf, i, name))
			continue;
		for (unsigned k = 0; k < PLTS; k++) {
			if (strcmp(name, names[k]) || !symbol_elf_has(&b->elf, s->offset, s->bytes))
				continue;
			b->plt[k].begin = s->address;
			b->plt[k].end = s->address + s->bytes;
			b->plt[k].step =
			    k == 2 ? 8 : 16; /* .plt.got: 8 bytes, or 16 with endbr64 */
		}
	}
}

static int check_header(struct build *b)
{
	Elf64_Phdr ph[LIMIT_SYMBOL_SEGMENTS];
	int count = symbol_elf_segments(&b->elf, ph, LIMIT_SYMBOL_SEGMENTS);

	b->ident[EI_CLASS] = ELFCLASS64;
	b->ident[EI_DATA] = ELFDATA2LSB;
	if (count < 0)
		return refuse(b, -EBADMSG, "the program headers lie outside the file");
	for (int i = 0; i < count && b->code_count < SEGMENTS_MAX; i++) {
		if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_X))
			continue;
		/* the page index also covers the space between functions, so the file must have
		 * these bytes */
		if (ph[i].p_vaddr + ph[i].p_filesz < ph[i].p_vaddr ||
		    !symbol_elf_has(&b->elf, ph[i].p_offset, ph[i].p_filesz))
			return refuse(b, -EBADMSG, "code lies outside the file, or has a hole");
		b->code[b->code_count].begin = ph[i].p_vaddr;
		b->code[b->code_count++].end = ph[i].p_vaddr + ph[i].p_filesz;
	}
	find_plt(b);
	return 0;
}

ORDER_BY(by_begin, struct fde, ORDER_UP(begin) ?: ORDER_UP(order));

/* Appends a row to the table unless it equals the last one for the same function. */
static void put(struct unwind_table *t, uint64_t address, uint32_t rule, bool begins)
{
	if (!begins && t->row_count && t->rows[t->row_count - 1].rule == rule)
		return;
	t->rows[t->row_count++] = (struct unwind_table_row){(uint32_t)(address - t->begin), rule};
}

/* Adds a row for each entry of a procedure linkage table that begins between from and to. */
static void cut_plt(const struct build *b, struct unwind_table *t, uint64_t from, uint64_t to,
		    uint32_t rule)
{
	for (unsigned k = 0; k < PLTS; k++) {
		uint64_t at = b->plt[k].begin;

		if (from < at || from >= b->plt[k].end)
			continue;
		for (at += ((from - at) / b->plt[k].step + 1) * b->plt[k].step;
		     at < to && at < b->plt[k].end; at += b->plt[k].step)
			put(t, at, rule, true);
		return;
	}
}

/* Adds one function's rows up to `end`, which may be the start of an overlapping function. */
static void string_fde(struct build *b, struct unwind_table *t, const struct fde *f, uint64_t end)
{
	for (uint32_t i = 0; i < f->count; i++) {
		const struct raw_row *row = &b->rows[f->first + i];
		uint64_t from = f->begin + row->offset;
		uint64_t to = i + 1 < f->count ? f->begin + row[1].offset : end;

		if (from >= end)
			return;
		put(t, from, row->rule, !i);
		cut_plt(b, t, from, to < end ? to : end, row->rule);
		t->code_bytes += (to < end ? to : end) - from;
	}
}

static int string_rows(struct build *b, struct unwind_table *t)
{
	uint64_t reached, plt_rows = 0;

	if (!b->fde_count)
		return refuse(b, -ENODATA, "no call frame information");
	qsort(b->fdes, b->fde_count, sizeof(*b->fdes), by_begin);
	t->begin = b->fdes[0].begin & ~(uint64_t)(UNWIND_PAGE_BYTES - 1);
	reached = t->begin;
	for (uint32_t i = 0; i < b->fde_count; i++)
		t->end = b->fdes[i].end > t->end ? b->fdes[i].end : t->end;
	if (t->end - t->begin > LIMIT_UNWIND_SPAN_BYTES)
		return refuse(b, -E2BIG, "the functions lie too far apart");
	for (unsigned k = 0; k < PLTS; k++)
		plt_rows +=
		    b->plt[k].step ? (b->plt[k].end - b->plt[k].begin) / b->plt[k].step + 1 : 0;
	/* each function may add one gap row, and one more ends the table */
	t->rows = malloc((b->row_count + plt_rows + b->fde_count + 1) * sizeof(*t->rows));
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
			put(t, reached, RULE_NONE, false);
		string_fde(b, t, f, end);
		reached = end;
		t->fde_count++;
	}
	put(t, reached, RULE_NONE, false);
	t->end = reached;
	return 0;
}

static int compile(struct build *b, struct unwind_table *out)
{
	struct unwind_rule none = {.cfa = UNWIND_CFA_NONE},
			   unsupported = {.cfa = UNWIND_CFA_UNSUPPORTED};
	int rc;

	b->rules = malloc(LIMIT_UNWIND_FILE_RULES * sizeof(*b->rules));
	if (!b->rules)
		return refuse(b, -ENOMEM, "no memory");
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
	return rc;
}

int unwind_table_compile(struct unwind_table *out, int fd, char why[UNWIND_TABLE_WHY_BYTES])
{
	const char *said;
	struct build *b;
	int rc;

	memset(out, 0, sizeof(*out));
	why[0] = 0;
	b = calloc(1, sizeof(*b));
	if (!b) {
		snprintf(why, UNWIND_TABLE_WHY_BYTES, "no memory");
		return -ENOMEM;
	}
	b->why = why;
	rc = symbol_elf_init(&b->elf, fd, &said);
	rc = rc ? refuse(b, rc == -ENOEXEC ? -ENOTSUP : rc, said) : compile(b, out);
	symbol_elf_fini(&b->elf);
	free(b->rules);
	probe_fini(&b->by_rule);
	free(b->rows);
	free(b->fdes);
	free(b->cies);
	free(b->entries);
	free(b);
	if (rc)
		unwind_table_fini(out);
	return rc;
}

void unwind_table_fini(struct unwind_table *t)
{
	free(t->rows);
	free(t->rules);
	memset(t, 0, sizeof(*t));
}

/* SPDX-License-Identifier: Apache-2.0
 * python_elf.c - finds the interpreter in an ELF file.
 * In a stripped file the cold part of the interpreter loop has no symbol. But it is a separate
 * function in .eh_frame_hdr, and most jumps out of the loop that are not tail calls lead to it. */
#include "sampler/python/python_elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "symbol/symbol_elf.h"

/* The largest section that is read. libpython has 14,000 symbols: 0.4 MiB, and as much for names.
 * torch's largest file has 30 MiB. */
#define ELF_SECTION_BYTES_MAX (64ull << 20)
/* The loop takes 33 to 62 KiB, twice that in debug builds. */
#define ELF_EVAL_BYTES_MAX (1u << 20)
/* Jumps that must agree before a function counts as the loop's cold part; 400 were seen. */
#define ELF_COLD_JUMPS_MIN 8u
#define ELF_FDES_MAX	   (1u << 20)

static const char EVAL_NAME[] = "_PyEval_EvalFrameDefault";
static const char *const WAIT_NAMES[] = {
    "take_gil",		  "PyEval_RestoreThread",  "PyEval_AcquireThread",
    "PyEval_AcquireLock", "_PyThreadState_Attach", "_PyEval_AcquireLock",
};

static void range_add(struct python_range *list, uint32_t *count, uint32_t max, uint64_t begin,
		      uint64_t bytes)
{
	for (uint32_t i = 0; i < *count; i++) {
		if (list[i].begin == begin)
			return;
	}
	if (*count < max && bytes && begin + bytes > begin)
		list[(*count)++] = (struct python_range){begin, begin + bytes};
}

/* Whether name is base, or base with a compiler's suffix: .cold, .part.0, .localalias. */
static bool is_part(const char *name, const char *base)
{
	size_t n = strlen(base);

	return !strncmp(name, base, n) && (!name[n] || name[n] == '.');
}

static void symbol_take(struct python_elf *e, const char *name, const Elf64_Sym *sym)
{
	if (sym->st_shndx == SHN_UNDEF || !sym->st_value)
		return;
	if (!strcmp(name, "_PyRuntime")) {
		e->runtime = sym->st_value;
	} else if (!strcmp(name, "PyCode_Type")) {
		e->code_type = sym->st_value;
	} else if (!strcmp(name, "Py_Version")) {
		e->version = sym->st_value;
	} else if (is_part(name, EVAL_NAME)) {
		range_add(e->eval, &e->eval_count, PYTHON_ELF_EVAL_MAX, sym->st_value,
			  sym->st_size);
	} else {
		for (size_t i = 0; i < sizeof(WAIT_NAMES) / sizeof(WAIT_NAMES[0]); i++) {
			if (is_part(name, WAIT_NAMES[i]))
				range_add(e->wait, &e->wait_count, PYTHON_ELF_WAIT_MAX,
					  sym->st_value, sym->st_size);
		}
	}
}

static void symbols_take(struct python_elf *out, const struct symbol_elf *e, uint32_t table)
{
	const struct symbol_section *symbols, *strings;
	Elf64_Sym chunk[256];
	uint64_t count;
	char *text;

	if (!table)
		return;
	symbols = &e->sections[table];
	strings = &e->sections[symbols->link];
	if (symbols->bytes > ELF_SECTION_BYTES_MAX || strings->bytes > ELF_SECTION_BYTES_MAX)
		return;
	count = symbols->bytes / sizeof(chunk[0]);
	text = malloc(strings->bytes + 1);
	if (!text || all_bytes_read(e->fd, text, strings->bytes, strings->offset))
		count = 0;
	else
		text[strings->bytes] = 0; /* name comparisons stop here */
	for (uint64_t at = 0; at < count; at += 256) {
		uint64_t n = count - at < 256 ? count - at : 256;

		if (all_bytes_read(e->fd, chunk, n * sizeof(chunk[0]),
				   symbols->offset + at * sizeof(chunk[0])))
			break;
		for (uint64_t i = 0; i < n; i++)
			if (chunk[i].st_name < strings->bytes)
				symbol_take(out, text + chunk[i].st_name, &chunk[i]);
	}
	free(text);
}

bool python_elf_address(const struct python_elf *e, uint64_t offset, uint64_t *address)
{
	for (uint32_t i = 0; i < e->load_count; i++) {
		if (offset >= e->load[i].offset && offset - e->load[i].offset < e->load[i].bytes) {
			*address = e->load[i].address + (offset - e->load[i].offset);
			return true;
		}
	}
	return false;
}

/* Bytes of the file at an ELF virtual address, owned; NULL if the file lacks some of them. */
static void *address_read(const struct python_elf *out, const struct symbol_elf *e,
			  uint64_t address, size_t bytes)
{
	for (uint32_t i = 0; i < out->load_count; i++) {
		uint64_t at = address - out->load[i].address, offset = out->load[i].offset + at;
		void *data;

		if (address < out->load[i].address || at >= out->load[i].bytes ||
		    bytes > out->load[i].bytes - at)
			continue;
		data = symbol_elf_has(e, offset, bytes) ? malloc(bytes + 1) : NULL;
		if (data && !all_bytes_read(e->fd, data, bytes, offset))
			return data;
		free(data);
		return NULL;
	}
	return NULL;
}

/* Begins of functions, sorted: the search table of .eh_frame_hdr in its usual encoding. Returns
 * owned ELF virtual addresses, or NULL. */
static uint64_t *function_begins(const struct python_elf *out, const struct symbol_elf *e,
				 const Elf64_Phdr *ph, uint32_t *count)
{
	struct head {
		uint8_t version, frame_encoding, count_encoding, table_encoding;
		int32_t frame;
		uint32_t count;
	} *head = address_read(out, e, ph->p_vaddr, sizeof(*head));
	uint64_t *begin = NULL;
	int32_t *row = NULL;

	if (head && head->version == 1 && (head->frame_encoding & 0x0f) == 0x0b &&
	    head->count_encoding == 0x03 && head->table_encoding == 0x3b && head->count &&
	    head->count <= ELF_FDES_MAX)
		row = address_read(out, e, ph->p_vaddr + sizeof(*head), head->count * 8u);
	if (row)
		begin = malloc(head->count * sizeof(*begin));
	if (begin) {
		for (uint32_t i = 0; i < head->count; i++)
			begin[i] = ph->p_vaddr + (uint64_t)(int64_t)row[2 * i];
		*count = head->count;
	}
	free(row);
	free(head);
	return begin;
}

/* Index of the last begin at or below address; count if there is none. The table may be
 * unsorted. */
static uint32_t function_find(const uint64_t *begin, uint32_t count, uint64_t address)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (begin[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : count;
}

static void cold_guess(struct python_elf *e, const struct symbol_elf *file, const Elf64_Phdr *ph)
{
	const struct python_range hot = e->eval[0];
	uint32_t count = 0, best = 0;
	size_t bytes = (size_t)(hot.end - hot.begin);
	uint8_t *code = address_read(e, file, hot.begin, bytes);
	uint64_t *begin = code ? function_begins(e, file, ph, &count) : NULL;
	uint32_t *jumps = begin ? calloc(count, sizeof(*jumps)) : NULL;

	if (!jumps)
		goto out;
	for (size_t i = 0; i + 6 <= bytes; i++) {
		bool conditional = code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80;
		int32_t distance;
		uint64_t to;
		uint32_t f;

		if (!conditional && code[i] != 0xe9)
			continue; /* neither jcc rel32 nor jmp rel32 */
		memcpy(&distance, &code[i + 1 + conditional], 4);
		to = hot.begin + i + 5 + conditional + (uint64_t)(int64_t)distance;
		f = function_find(begin, count, to);
		/* counts jumps into the middle of another function; a tail call jumps to a start */
		if (f < count && to != begin[f] && (to < hot.begin || to >= hot.end) &&
		    ++jumps[f] > jumps[best])
			best = f;
	}
	/* the cold part ends at the next function's start */
	if (jumps[best] >= ELF_COLD_JUMPS_MIN && best + 1 < count &&
	    begin[best + 1] - begin[best] < ELF_EVAL_BYTES_MAX) {
		range_add(e->eval, &e->eval_count, PYTHON_ELF_EVAL_MAX, begin[best],
			  begin[best + 1] - begin[best]);
		e->cold_guessed = true;
	}
out:
	free(jumps);
	free(begin);
	free(code);
}

static int segments_take(struct python_elf *out, const struct symbol_elf *e, Elf64_Phdr *frames)
{
	Elf64_Phdr ph[64];
	int count = symbol_elf_segments(e, ph, 64);

	for (int i = 0; i < count; i++) {
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			*frames = ph[i];
		if (ph[i].p_type != PT_LOAD || out->load_count == PYTHON_ELF_LOAD_MAX)
			continue;
		/* as the kernel maps it: whole pages */
		out->load[out->load_count].offset = ph[i].p_offset & ~4095ull;
		out->load[out->load_count].address = ph[i].p_vaddr & ~4095ull;
		out->load[out->load_count].bytes = ph[i].p_filesz + (ph[i].p_offset & 4095);
		out->load_count++;
	}
	return out->load_count ? 0 : -EBADMSG;
}

int python_elf_read(struct python_elf *out, int fd)
{
	Elf64_Phdr frames = {.p_type = PT_NULL};
	struct symbol_elf e;
	const char *why;
	int err = symbol_elf_init(&e, fd, &why);

	memset(out, 0, sizeof(*out));
	if (err)
		return err == -ENOEXEC ? -EBADMSG : err;
	err = segments_take(out, &e, &frames);
	if (!err) {
		symbols_take(out, &e, e.dynsym);
		symbols_take(out, &e, e.symtab);
		if (!out->runtime)
			out->runtime = e.python_runtime;
		err = out->runtime ? 0 : -ENOENT;
	}
	if (!err && out->eval_count == 1 && frames.p_type == PT_GNU_EH_FRAME &&
	    out->eval[0].end - out->eval[0].begin < ELF_EVAL_BYTES_MAX)
		cold_guess(out, &e, &frames);
	symbol_elf_fini(&e);
	return err;
}

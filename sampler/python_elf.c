/* SPDX-License-Identifier: Apache-2.0
 * python_elf.c - finds the interpreter in an ELF file.
 * libelf in its reading mode (no mapping: a file that shrinks under a mapping raises SIGBUS). The cold
 * part of the interpreter loop has no symbol in a stripped file, but it is one function of its own in
 * .eh_frame_hdr, and it is where most jumps out of the loop lead that are no tail calls. */
#include "sampler/python_elf.h"

#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libpython with symbols: 14,000 of them, 0.4 MiB and as much in names; torch's largest file: 30 MiB. */
#define ELF_SECTION_BYTES_MAX (64ull << 20)
#define ELF_SECTIONS_MAX 4096u
/* The loop takes 33 to 62 KiB, debug builds twice that. */
#define ELF_EVAL_BYTES_MAX (1u << 20)
/* Jumps that must agree before a function counts as the loop's cold part; seen: 400. */
#define ELF_COLD_JUMPS_MIN 8u
#define ELF_FDES_MAX (1u << 20)

static const char EVAL_NAME[] = "_PyEval_EvalFrameDefault";
static const char *const WAIT_NAMES[] = {
	"take_gil",	      "PyEval_RestoreThread", "PyEval_AcquireThread",
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
		list[(*count)++] = (struct python_range){ begin, begin + bytes };
}

/* name is base, or base and a suffix of the compiler: .cold, .part.0, .localalias. */
static bool is_part(const char *name, const char *base)
{
	size_t n = strlen(base);

	return !strncmp(name, base, n) && (!name[n] || name[n] == '.');
}

static void symbol_take(struct python_elf *e, const char *name, const GElf_Sym *sym)
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

/* The section's bytes, or NULL if they are not all in the file. */
static Elf_Data *section_data(Elf_Scn *scn, const GElf_Shdr *sh, uint64_t file_bytes)
{
	if (sh->sh_type == SHT_NOBITS || sh->sh_size > ELF_SECTION_BYTES_MAX ||
	    sh->sh_offset > file_bytes || sh->sh_size > file_bytes - sh->sh_offset)
		return NULL;
	return elf_getdata(scn, NULL);
}

static void symbols_take(struct python_elf *e, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh,
			 uint64_t file_bytes)
{
	Elf_Scn *strings = elf_getscn(elf, sh->sh_link);
	GElf_Shdr strings_sh;
	Elf_Data *data, *text;
	size_t count;

	if (!strings || !gelf_getshdr(strings, &strings_sh) || sh->sh_entsize != sizeof(Elf64_Sym))
		return;
	data = section_data(scn, sh, file_bytes);
	text = section_data(strings, &strings_sh, file_bytes);
	/* names are compared up to their end: the table must have one */
	if (!data || !text || !text->d_size || ((char *)text->d_buf)[text->d_size - 1])
		return;
	count = data->d_size / sizeof(Elf64_Sym);
	for (size_t i = 0; i < count; i++) {
		GElf_Sym sym;

		if (gelf_getsym(data, (int)i, &sym) && sym.st_name < text->d_size)
			symbol_take(e, (char *)text->d_buf + sym.st_name, &sym);
	}
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

/* bytes of the file at an ELF virtual address. */
static bool address_read(const struct python_elf *e, int fd, uint64_t address, void *to,
			 size_t bytes)
{
	for (uint32_t i = 0; i < e->load_count; i++) {
		uint64_t at = address - e->load[i].address;

		if (address >= e->load[i].address && at < e->load[i].bytes &&
		    bytes <= e->load[i].bytes - at)
			return pread(fd, to, bytes, (off_t)(e->load[i].offset + at)) ==
			       (ssize_t)bytes;
	}
	return false;
}

/* Where functions begin, sorted: the search table of .eh_frame_hdr in its usual encoding. Returns
 * owned ELF virtual addresses, or NULL. */
static uint64_t *function_begins(const struct python_elf *e, int fd, const GElf_Phdr *ph,
				 uint32_t *count)
{
	uint64_t *out;
	int32_t *row;
	struct {
		uint8_t version, frame_encoding, count_encoding, table_encoding;
		int32_t frame;
		uint32_t count;
	} head;

	if (!address_read(e, fd, ph->p_vaddr, &head, sizeof(head)) || head.version != 1 ||
	    (head.frame_encoding & 0x0f) != 0x0b || head.count_encoding != 0x03 ||
	    head.table_encoding != 0x3b || !head.count || head.count > ELF_FDES_MAX)
		return NULL;
	row = malloc(head.count * 8u);
	out = malloc(head.count * sizeof(*out));
	if (row && out && address_read(e, fd, ph->p_vaddr + sizeof(head), row, head.count * 8u)) {
		for (uint32_t i = 0; i < head.count; i++)
			out[i] = ph->p_vaddr + (uint64_t)(int64_t)row[2 * i];
		*count = head.count;
	} else {
		free(out);
		out = NULL;
	}
	free(row);
	return out;
}

/* Index of the last begin at or below address; count when there is none. The table may be unsorted. */
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

static void cold_guess(struct python_elf *e, int fd, const GElf_Phdr *ph)
{
	const struct python_range hot = e->eval[0];
	uint32_t count = 0, best = 0;
	size_t bytes = (size_t)(hot.end - hot.begin);
	uint8_t *code = malloc(bytes);
	uint64_t *begin = function_begins(e, fd, ph, &count);
	uint32_t *jumps = begin ? calloc(count, sizeof(*jumps)) : NULL;

	if (!code || !jumps || !address_read(e, fd, hot.begin, code, bytes))
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
		/* into the midst of another function: a tail call goes to its begin */
		if (f < count && to != begin[f] && (to < hot.begin || to >= hot.end) &&
		    ++jumps[f] > jumps[best])
			best = f;
	}
	/* another function's start is no cold part of this one, so its end is the next start */
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

static int segments_take(struct python_elf *e, Elf *elf, GElf_Phdr *frames)
{
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return -EBADMSG;
	for (size_t i = 0; i < count && i < 64; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph))
			return -EBADMSG;
		if (ph.p_type == PT_GNU_EH_FRAME)
			*frames = ph;
		if (ph.p_type != PT_LOAD || e->load_count == PYTHON_ELF_LOAD_MAX)
			continue;
		/* as the kernel maps it: whole pages */
		e->load[e->load_count].offset = ph.p_offset & ~4095ull;
		e->load[e->load_count].address = ph.p_vaddr & ~4095ull;
		e->load[e->load_count].bytes = ph.p_filesz + (ph.p_offset & 4095);
		e->load_count++;
	}
	return e->load_count ? 0 : -EBADMSG;
}

static int sections_take(struct python_elf *e, Elf *elf, uint64_t file_bytes)
{
	Elf_Scn *scn = NULL;
	uint64_t named = 0;
	size_t names, count;

	if (elf_getshdrnum(elf, &count) || count > ELF_SECTIONS_MAX)
		return -EBADMSG;
	if (elf_getshdrstrndx(elf, &names))
		return -EBADMSG;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;
		const char *name;

		if (!gelf_getshdr(scn, &sh))
			return -EBADMSG;
		if (sh.sh_type == SHT_DYNSYM || sh.sh_type == SHT_SYMTAB)
			symbols_take(e, elf, scn, &sh, file_bytes);
		name = elf_strptr(elf, names, sh.sh_name);
		if (name && !strcmp(name, ".PyRuntime"))
			named = sh.sh_addr;
	}
	if (!e->runtime)
		e->runtime = named;
	return e->runtime ? 0 : -ENOENT;
}

int python_elf_read(struct python_elf *out, int fd)
{
	GElf_Phdr frames = { .p_type = PT_NULL };
	off_t end = lseek(fd, 0, SEEK_END);
	const char *ident;
	size_t ident_bytes = 0;
	Elf *elf;
	int err;

	memset(out, 0, sizeof(*out));
	if (end < 0)
		return -errno;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return -EBADMSG;
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf)
		return -EBADMSG;
	ident = elf_getident(elf, &ident_bytes);
	if (elf_kind(elf) != ELF_K_ELF || !ident || ident_bytes < EI_NIDENT ||
	    ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB) {
		elf_end(elf);
		return -EBADMSG;
	}
	err = segments_take(out, elf, &frames);
	if (!err)
		err = sections_take(out, elf, (uint64_t)end);
	elf_end(elf);
	if (!err && out->eval_count == 1 && frames.p_type == PT_GNU_EH_FRAME &&
	    out->eval[0].end - out->eval[0].begin < ELF_EVAL_BYTES_MAX)
		cold_guess(out, fd, &frames);
	return err;
}

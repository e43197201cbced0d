/* SPDX-License-Identifier: Apache-2.0
 * symbol_elf.h - properties of a symbol file: its Build ID, its quality, where its tables lie.
 * It reads the file only with pread. A file of the job may shrink meanwhile, and a mapping would
 * then raise SIGBUS.
 * Threads: any.  Trust: hostile; every offset and count is checked against the file's size. A table
 * that includes a hole of a sparse file is rejected, so work and memory are bounded by bytes that
 * exist. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_BUILD_ID_MAX 64 /* linkers write 8, 16 or 20 bytes; users may choose more */

/* How much a file knows, in rising order. A better file replaces a worse one, never the reverse. */
enum symbol_quality {
	SYMBOL_NONE = 0,
	SYMBOL_DYNAMIC, /* stripped: exported functions only */
	SYMBOL_TABLE,	/* .symtab, or .dynsym and .gnu_debugdata: every function */
	SYMBOL_DEBUG,	/* .symtab and line information */
};

struct symbol_section {
	uint64_t address, offset, bytes, flags;
	uint32_t type, link, name;
};

struct symbol_elf {
	int fd; /* borrowed */
	uint64_t file_bytes;
	uint8_t build_id[SYMBOL_BUILD_ID_MAX];
	size_t build_id_bytes; /* 0: no note */
	enum symbol_quality quality;
	struct symbol_section *sections;
	uint32_t section_count;
	uint32_t symtab, dynsym; /* section numbers; 0: missing */
	uint32_t debug_link;	 /* section number of .gnu_debuglink */
	uint32_t mini;		 /* section number of .gnu_debugdata: the functions that .dynsym
				   * lacks, in LZMA */
	uint32_t plt, plt_sec, rela_plt;
	uint32_t section_names;
	uint64_t section_headers; /* offset in the file */
	bool trusted; /* set by symbol_source.c: its content is proven, or the administrator put it
		       * there */
	uint64_t python_runtime; /* address of the section .PyRuntime; 0: missing */
};

/* Reads headers, notes and section names. 0; -ENOEXEC: not an ELF file for x86-64 Linux; -EBADMSG:
 * damaged (*why says how); -ENOMEM, or pread's error. Release with symbol_elf_fini. */
int symbol_elf_init(struct symbol_elf *e, int fd, const char **why);
void symbol_elf_fini(struct symbol_elf *e);
/* Reads only the Build ID: GNU's from the notes of the program headers (also right for a core of a
 * mapping), else from the note sections; else the last part of Go's own, as text. Returns its
 * length, 0 without one, -errno. */
int symbol_elf_build_id(int fd, uint8_t id[SYMBOL_BUILD_ID_MAX]);
#define SYMBOL_SECTION_NAME_BYTES 32 /* longer names are cut */
/* The name of a section (below section_count). 0, -EBADMSG. */
int symbol_elf_section_name(const struct symbol_elf *e, uint32_t section,
			    char name[SYMBOL_SECTION_NAME_BYTES]);
/* Whether the file contains these bytes, and none of them is in a hole. */
bool symbol_elf_has(const struct symbol_elf *e, uint64_t offset, uint64_t bytes);
/* Reads at most max program headers. Returns their number, -EBADMSG, -errno. */
int symbol_elf_segments(const struct symbol_elf *e, Elf64_Phdr *out, uint32_t max);
/* Reads the name and checksum in .gnu_debuglink. 0, -ENOENT, -EBADMSG. */
int symbol_elf_debug_link(const struct symbol_elf *e, char *name, size_t name_bytes, uint32_t *crc);

/* SPDX-License-Identifier: Apache-2.0
 * mapping_scan.h - the executable mappings of a process, and the identity of each file.
 * Owns: a scan is private memory of the caller.  Threads: any, one per scan.
 * Trust: the process and its files are hostile. They may vanish during the read, or never answer,
 * so this runs in a parser (reader/reader.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/stack.h"
#include "reader/reader.h"
#include "sampler/unwind/unwind_store.h"

#define MAPPING_SEGMENTS 16

/* The parts of an ELF file's headers that place it in memory. */
struct mapping_elf {
	struct {
		uint64_t offset, address, bytes; /* an executable PT_LOAD */
	} load[MAPPING_SEGMENTS];
	uint32_t load_count;
	uint8_t build_id[STACK_BUILD_ID_MAX];
	uint8_t build_id_bytes;
	struct unwind_store_key key;
};

struct mapping {
	uint64_t begin, end;
	uint64_t offset;	 /* file offset of begin */
	uint64_t load_bias;	 /* address minus ELF virtual address */
	struct mapping_elf *elf; /* NULL: anonymous memory, or not an ELF file; owned by the scan */
	char *path; /* as the process sees it, "" for anonymous memory; owned by the scan */
};

struct mapping_scan {
	uint32_t pid;
	struct mapping *mappings; /* sorted by address */
	uint32_t count;
};

/* Reads the process's maps and the headers of the files. 0, -ESRCH, -EACCES, -ENOMEM. */
int mapping_scan_read(struct mapping_scan *out, struct reader_target *t);
void mapping_scan_fini(struct mapping_scan *s);

/* Like reader_target_open with READER_MAPPING; "[vdso]" gives a copy of this process's own vdso. */
int mapping_open(struct reader_target *t, uint64_t begin, uint64_t end, const char *path);
/* 0; -ENOTSUP: not an x86-64 ELF file; -EBADMSG: damaged; -errno. */
int mapping_elf_read(struct mapping_elf *out, int fd);
/* Computes the load bias of a file whose `offset` is mapped at `begin`. False: the offset is in no
 * executable segment. */
bool mapping_elf_bias(const struct mapping_elf *e, uint64_t begin, uint64_t offset,
		      uint64_t *load_bias);

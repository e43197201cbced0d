/* SPDX-License-Identifier: Apache-2.0
 * symbol_content.h - one digest of all that a file says about its functions.
 * A Build ID is a note that anybody can write (-Wl,--build-id=0x...). The digest covers every byte
 * that names and unwind rules are made from: ELF header, program and section headers, symbol tables
 * and their strings, notes, PLT relocations, .gnu_debugdata, .gnu_debuglink, .eh_frame,
 * .eh_frame_hdr and .debug_frame. Without section headers it covers the segment that contains
 * PT_GNU_EH_FRAME. Two files with the same digest give the same names and the same callers. Code
 * and data are not read: a CUDA library has gigabytes of them, and no name comes from them.
 * An identity is the Build ID, cut to 20 bytes, followed by the digest. An identity of at most 20
 * bytes is only a Build ID and proves nothing.
 * Threads: any.  Trust: the file is hostile: reads are bounded by its own bytes, without holes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of a SHA-256. A second file with the digest of a given one costs 2^128 tries. */
#define SYMBOL_CONTENT_BYTES 16

/* 0; -ENOEXEC: not an ELF file for x86-64; -EBADMSG: damaged or sparse, or sections overlap;
 * -ENOMEM, -errno. Cached by device, inode, size and times: a file that was unchanged for some
 * seconds is read once. */
int symbol_content(int fd, uint8_t content[SYMBOL_CONTENT_BYTES]);

#define SYMBOL_NOTE_MAX 20 /* bytes used of a Build ID; of a longer one the first 20 */
#define SYMBOL_ID_MAX	(SYMBOL_NOTE_MAX + SYMBOL_CONTENT_BYTES)
/* Returns the identity's length, more than 20. 0: the file has no Build ID of at least 5 bytes, or
 * no digest: only its path and inode identify it. -errno. */
int symbol_content_id(int fd, uint8_t id[SYMBOL_ID_MAX]);

/* The used bytes: a note of another tool may be longer than 20 bytes, an identity is not. */
static inline size_t symbol_content_cut(size_t id_bytes)
{
	return id_bytes <= SYMBOL_ID_MAX ? id_bytes : SYMBOL_NOTE_MAX;
}

static inline bool symbol_content_proves(size_t id_bytes)
{
	return symbol_content_cut(id_bytes) > SYMBOL_NOTE_MAX;
}

/* How many bytes of an identity belong to the Build ID. */
static inline size_t symbol_content_note(size_t id_bytes)
{
	return symbol_content_proves(id_bytes) ? id_bytes - SYMBOL_CONTENT_BYTES
					       : symbol_content_cut(id_bytes);
}

/* dir, below, and then "/ab/cdef" and the suffix; -EINVAL: an ID of less than 2 bytes, or overlong;
 * -ENAMETOOLONG. */
int symbol_content_path(const char *dir, const char *below, const uint8_t *id, size_t id_bytes,
			const char *suffix, char *out, size_t out_bytes);

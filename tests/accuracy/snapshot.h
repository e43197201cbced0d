/* SPDX-License-Identifier: Apache-2.0
 * snapshot.h - one recorded sample in a file: registers, memory, mappings, the unwind rows for its
 * frames, and the frames that independent unwinders found. The sampler's own unwind.h replays it,
 * without BPF and without the mapped files. Format: docs/unwinding.md.
 * Owns: a snapshot's memory, until snapshot_fini.  Threads: one caller. Trust: a file is hostile:
 * every count is bounded, every read is checked. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bpf/unwind_format.h"
#include "sampler/unwind/unwind_table.h"

#define SNAPSHOT_NAME_BYTES 64

struct snapshot_piece {
	uint64_t address;
	uint32_t bytes;
	uint8_t *data;
};

struct snapshot_mapping {
	uint64_t begin, end, load_bias;
	uint32_t file; /* index into files + 1; 0: anonymous */
};

struct snapshot {
	char name[SNAPSHOT_NAME_BYTES];
	uint64_t pc, reg[UNWIND_REGISTERS];
	struct snapshot_piece *pieces;
	struct snapshot_mapping *mappings;
	struct unwind_table *files; /* row_count 0: a file without unwind information */
	uint32_t piece_count, mapping_count, file_count;
	uint64_t *frames; /* expected: program counters, leaf first */
	uint32_t frame_count;
	uint32_t end; /* expected enum unwind_end */
};

void snapshot_fini(struct snapshot *s);
/* 0; -ENOMEM. Copies the bytes. */
int snapshot_add_piece(struct snapshot *s, uint64_t address, const void *data, uint32_t bytes);
/* Adds to s->files the rows of t on the pages of these addresses (ELF virtual). 0, -ENOMEM. */
int snapshot_add_file(struct snapshot *s, const struct unwind_table *t, const uint64_t *addresses,
		      uint32_t count);
/* Encodes the file; b->failed: no memory. */
void snapshot_write(const struct snapshot *s, struct buf *b);
/* 0; -EPROTO: not a snapshot, or damaged; -ENOMEM. */
int snapshot_read(struct snapshot *out, const uint8_t *data, size_t bytes);
/* Unwinds it. 0 and the result in *state; -ENOMEM, -ENOSPC, -EPROTO. */
int snapshot_walk(const struct snapshot *s, enum unwind_mode mode, struct unwind_state *state);

/* SPDX-License-Identifier: Apache-2.0
 * record.c - see record.h. The stack goes in from rsp to 64 bytes above the last thing that a walk
 * could need of it; of the rest of the memory, the code around the return addresses. */
#include "tests/accuracy/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE_BEFORE    16
#define CODE_BYTES     32
#define FILE_BYTES_MAX (1u << 20)

/* The mappings that hold frames, each with the rows that its frames need. */
static int add_mapping(struct snapshot *s, const struct mapping_scan *scan, const struct mapping *m,
		       const struct truth_stack *t, const char *blind)
{
	struct snapshot_mapping *out = &s->mappings[s->mapping_count];
	uint64_t *at = calloc(t->count, sizeof(*at));
	char why[UNWIND_TABLE_WHY_BYTES];
	struct unwind_table table = {0};
	uint32_t n = 0;
	struct reader_target target;
	int fd, rc = -ENOMEM;

	reader_target_direct(&target, "/proc", scan->pid);
	if (!at)
		return rc;
	for (uint32_t i = 0; i < t->count; i++) {
		if (t->pc[i] >= m->begin && t->pc[i] < m->end)
			at[n++] = t->pc[i] - m->load_bias;
	}
	*out =
	    (struct snapshot_mapping){.begin = m->begin, .end = m->end, .load_bias = m->load_bias};
	rc = 0;
	if (n && m->elf) {
		fd = blind && strstr(m->path, blind)
			 ? -1
			 : mapping_open(&target, m->begin, m->end, m->path);
		if (fd >= 0) {
			unwind_table_compile(&table, fd, why);
			close(fd);
		}
		rc = snapshot_add_file(s, &table, at, n);
		unwind_table_fini(&table);
		out->file = s->file_count;
	}
	if (n)
		s->mapping_count++;
	free(at);
	return rc;
}

/* How far above rsp frames of the stack `begin` reach: they lie between their return addresses. */
static uint32_t used_stack(const uint8_t *stack, uint32_t bytes, const struct truth_stack *t)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word;

		memcpy(&word, stack + i, 8);
		for (uint32_t k = 1; k < t->count; k++) {
			if (word == t->pc[k])
				last = i + 8;
		}
	}
	return last + 64 < bytes ? last + 64 : bytes;
}

static int add_memory(struct snapshot *s, struct truth *truth, const struct snapshot_record *r,
		      const struct truth_stack *t)
{
	uint64_t skip = (r->reg[UNWIND_RSP] & ~7ull) - r->stack_begin;
	int rc = 0;

	if (skip < r->stack_bytes)
		rc = snapshot_add_piece(
		    s, r->stack_begin + skip, r->stack + skip,
		    used_stack(r->stack + skip, r->stack_bytes - (uint32_t)skip, t));
	if (!rc && r->other_bytes)
		rc = snapshot_add_piece(s, r->other_begin, r->other,
					used_stack(r->other, r->other_bytes, t));
	for (uint32_t i = 0; !rc && i < t->count; i++) {
		uint8_t code[CODE_BYTES];

		if (!truth_read(truth, r, code, sizeof(code), t->pc[i] - CODE_BEFORE))
			rc = snapshot_add_piece(s, t->pc[i] - CODE_BEFORE, code, sizeof(code));
	}
	return rc;
}

int record_write(const char *path, const char *name, struct truth *truth,
		 const struct mapping_scan *scan, const struct snapshot_record *r,
		 const struct truth_stack *expected, const char *blind)
{
	struct snapshot s = {.pc = r->pc, .end = r->end};
	struct buf b;
	FILE *f;
	int rc;

	snprintf(s.name, sizeof(s.name), "%s", name);
	memcpy(s.reg, r->reg, sizeof(s.reg));
	s.mappings = calloc(scan->count + 1u, sizeof(*s.mappings));
	s.frames = calloc(expected->count + 1u, sizeof(*s.frames));
	rc = s.mappings && s.frames ? add_memory(&s, truth, r, expected) : -ENOMEM;
	for (uint32_t i = 0; !rc && i < scan->count; i++)
		rc = add_mapping(&s, scan, &scan->mappings[i], expected, blind);
	for (uint32_t i = 0; !rc && i < expected->count; i++)
		s.frames[s.frame_count++] = expected->pc[i];
	buf_init(&b, FILE_BYTES_MAX);
	if (!rc) {
		snapshot_write(&s, &b);
		f = b.failed ? NULL : fopen(path, "wb");
		rc = f && fwrite(b.data, 1, b.bytes, f) == b.bytes ? 0 : -EIO;
		if (f && fclose(f))
			rc = -EIO;
	}
	buf_fini(&b);
	snapshot_fini(&s);
	return rc;
}

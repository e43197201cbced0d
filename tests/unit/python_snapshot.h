/* SPDX-License-Identifier: Apache-2.0
 * python_snapshot.h - for tests: a stopped interpreter in a file: the memory that finding, walking and
 * naming touched (in pieces of 64 bytes), its threads' registers, and the frames that the interpreter
 * itself listed. gzip'd records of {kind, bytes, value} and a payload, little-endian. */
#pragma once

#include <zlib.h>

#include "bpf/read_user.h"
#include "sampler/python/python_runtime.h"
#include "tests/unit/python_target.h"

#define SNAPSHOT_PIECE 64u

enum snapshot_kind {
	SNAPSHOT_ELF =
	    1,	       /* value: bias; payload: runtime, code_type, version, loop's begin and end */
	SNAPSHOT_PATH, /* payload: of the interpreter's file */
	SNAPSHOT_THREAD, /* value: tid; payload: fsbase, futex */
	SNAPSHOT_FRAME,	 /* value: line; payload: function, tab, file; of the last thread */
	SNAPSHOT_MEMORY, /* value: address; payload: a piece */
};

struct snapshot_head {
	uint32_t kind, bytes;
	uint64_t value;
};

struct snapshot_piece {
	uint64_t address;
	uint8_t byte[SNAPSHOT_PIECE];
};

struct snapshot {
	struct python_elf elf;
	uint64_t bias;
	char path[512];
	struct truth truth;
	uint64_t fsbase[TARGET_THREADS_MAX], futex[TARGET_THREADS_MAX];
	struct snapshot_piece *piece; /* sorted by address */
	size_t count, room;
	struct read_user live; /* while recording */
};

static inline int snapshot_compare(const void *a, const void *b)
{
	const struct snapshot_piece *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static inline void snapshot_add(struct snapshot *s, uint64_t address, const uint8_t *bytes)
{
	if (s->count == s->room) {
		s->room = s->room ? s->room * 2 : 1024;
		s->piece = realloc(s->piece, s->room * sizeof(*s->piece));
		CHECK(s->piece);
	}
	s->piece[s->count].address = address;
	memcpy(s->piece[s->count++].byte, bytes, SNAPSHOT_PIECE);
}

static inline long snapshot_read(void *owner, void *to, __u32 bytes, __u64 address)
{
	struct snapshot *s = owner;
	uint8_t *out = to;

	while (bytes) {
		struct snapshot_piece key = {.address = address & ~(uint64_t)(SNAPSHOT_PIECE - 1)};
		struct snapshot_piece *p =
		    bsearch(&key, s->piece, s->count, sizeof(*s->piece), snapshot_compare);
		uint32_t at = (uint32_t)(address - key.address), n = SNAPSHOT_PIECE - at;

		if (!p)
			return -EFAULT;
		if (n > bytes)
			n = bytes;
		memcpy(out, p->byte + at, n);
		out += n;
		address += n;
		bytes -= n;
	}
	return 0;
}

/* Reads the live process and remembers what was touched. */
static inline long snapshot_record(void *owner, void *to, __u32 bytes, __u64 address)
{
	struct snapshot *s = owner;
	uint8_t piece[SNAPSHOT_PIECE];
	uint64_t at = address & ~(uint64_t)(SNAPSHOT_PIECE - 1);

	if (s->live.read(s->live.owner, to, bytes, address))
		return -EFAULT;
	for (; at < address + bytes; at += SNAPSHOT_PIECE) {
		if (!s->live.read(s->live.owner, piece, sizeof(piece), at))
			snapshot_add(s, at, piece);
	}
	return 0;
}

static inline void snapshot_put(gzFile f, uint32_t kind, uint64_t value, const void *payload,
				uint32_t bytes)
{
	struct snapshot_head h = {kind, bytes, value};

	CHECK(gzwrite(f, &h, sizeof(h)) == sizeof(h));
	CHECK(gzwrite(f, payload, bytes) == (int)bytes);
}

static inline void snapshot_write(struct snapshot *s, const char *path)
{
	gzFile f = gzopen(path, "wb9");
	uint64_t elf[5] = {s->elf.runtime, s->elf.code_type, s->elf.version, s->elf.eval[0].begin,
			   s->elf.eval[0].end};

	CHECK(f);
	snapshot_put(f, SNAPSHOT_ELF, s->bias, elf, sizeof(elf));
	snapshot_put(f, SNAPSHOT_PATH, 0, s->path, (uint32_t)strlen(s->path));
	for (unsigned int i = 0; i < s->truth.count; i++) {
		const struct truth_thread *t = &s->truth.thread[i];
		uint64_t registers[2] = {s->fsbase[i], s->futex[i]};

		snapshot_put(f, SNAPSHOT_THREAD, (uint64_t)t->tid, registers, sizeof(registers));
		for (unsigned int k = 0; k < t->count; k++) {
			char text[8192];
			int n = snprintf(text, sizeof(text), "%s\t%s", t->frame[k].function,
					 t->frame[k].file);

			snapshot_put(f, SNAPSHOT_FRAME, t->frame[k].line, text, (uint32_t)n);
		}
	}
	qsort(s->piece, s->count, sizeof(*s->piece), snapshot_compare);
	for (size_t i = 0; i < s->count; i++) {
		if (!i || s->piece[i].address != s->piece[i - 1].address)
			snapshot_put(f, SNAPSHOT_MEMORY, s->piece[i].address, s->piece[i].byte,
				     SNAPSHOT_PIECE);
	}
	CHECK(gzclose(f) == Z_OK);
}

static inline void snapshot_take(struct snapshot *s, const struct snapshot_head *h,
				 const char *payload)
{
	struct truth_thread *t = s->truth.count ? &s->truth.thread[s->truth.count - 1] : NULL;
	uint64_t word[5];

	switch (h->kind) {
	case SNAPSHOT_ELF:
		memcpy(word, payload, sizeof(word));
		s->bias = h->value;
		s->elf.runtime = word[0];
		s->elf.code_type = word[1];
		s->elf.version = word[2];
		s->elf.eval[0] = (struct python_range){word[3], word[4]};
		s->elf.eval_count = 1;
		break;
	case SNAPSHOT_PATH:
		snprintf(s->path, sizeof(s->path), "%.511s", payload);
		break;
	case SNAPSHOT_THREAD:
		memcpy(word, payload, 16);
		s->fsbase[s->truth.count] = word[0];
		s->futex[s->truth.count] = word[1];
		s->truth.thread[s->truth.count++].tid = (pid_t)h->value;
		break;
	case SNAPSHOT_FRAME:
		CHECK(t && strchr(payload, '\t'));
		t->frame[t->count].line = (unsigned int)h->value;
		t->frame[t->count].function = strndup(payload, strcspn(payload, "\t"));
		t->frame[t->count++].file = strdup(strchr(payload, '\t') + 1);
		break;
	case SNAPSHOT_MEMORY:
		snapshot_add(s, h->value, (const uint8_t *)payload);
		break;
	}
}

/* False: no such file. */
static inline bool snapshot_load(struct snapshot *s, const char *path)
{
	gzFile f = gzopen(path, "rb");
	struct snapshot_head h;
	char payload[8192];

	memset(s, 0, sizeof(*s));
	if (!f)
		return false;
	while (gzread(f, &h, sizeof(h)) == sizeof(h)) {
		CHECK(h.bytes < sizeof(payload) && gzread(f, payload, h.bytes) == (int)h.bytes);
		payload[h.bytes] = 0;
		snapshot_take(s, &h, payload);
	}
	gzclose(f);
	return true;
}

static inline void snapshot_free(struct snapshot *s)
{
	truth_free(&s->truth);
	free(s->piece);
}

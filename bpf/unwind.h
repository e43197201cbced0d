/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * unwind.h - walks a user stack, frame by frame, with tables (unwind_format.h).
 * The same code runs in the kernel and, for replay and tests, in user space. There the including file
 * defines before the #include:
 *	long unwind_read_user(void *to, __u32 bytes, __u64 address);	0, or not 0: not readable
 *	struct unwind_chunk *unwind_chunk_of(__u32 word);	the chunk of a word, or NULL
 *	__u32 unwind_marker_get(__u64 key);  void unwind_marker_set(__u64 key, __u32 marker);
 * UNWIND_MODE may be an expression (a rodata constant: unused modes cost nothing).
 * Use: unwind_start; set pc, reg, process, owner; call unwind_frame until UNWIND_DONE, and unwind_blind
 * after UNWIND_BLIND; unwind_finish.
 * Trust: registers, stack and tables may hold anything; every read is checked, every loop bounded.
 */
#pragma once

#include "bpf/unwind_format.h"

#ifndef UNWIND_MODE
#define UNWIND_MODE UNWIND_MODE_TABLE
#endif

#ifdef __bpf__

#ifndef UNWIND_PROBE_READ_USER
#define UNWIND_PROBE_READ_USER bpf_probe_read_user
#endif
#define UNWIND_MARKERS 8192

struct unwind_shard {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_SHARD_CHUNKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_chunk));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_SHARD_MAX);
	__uint(key_size, sizeof(__u32));
	__array(values, struct unwind_shard);
} unwind_shards SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, UNWIND_MARKERS);
	__type(key, __u64);
	__type(value, __u8);
} unwind_markers SEC(".maps");

/* Hides a value's history from compiler and verifier, so a search is one state and not one per index. */
#define UNWIND_HIDE(s, x) ((x) ^= *(volatile __u32 *)&(s)->zero)
/* Keeps the compiler from moving or removing a mask that the verifier needs. */
#define UNWIND_BARRIER(x) asm volatile("" : "+r"(x))
/* Makes the compiler read values from the state again. */
#define UNWIND_MEMORY() asm volatile("" ::: "memory")

static __always_inline long unwind_read_user(void *to, __u32 bytes, __u64 address)
{
	return UNWIND_PROBE_READ_USER(to, bytes, (const void *)address);
}

static __always_inline struct unwind_chunk *unwind_chunk_of(__u32 word)
{
	__u32 shard = word / UNWIND_SHARD_WORDS;
	__u32 chunk = word / UNWIND_CHUNK_WORDS % UNWIND_SHARD_CHUNKS;
	void *map = bpf_map_lookup_elem(&unwind_shards, &shard);

	return map ? bpf_map_lookup_elem(map, &chunk) : NULL;
}

static __always_inline __u32 unwind_marker_get(__u64 key)
{
	__u8 *marker = bpf_map_lookup_elem(&unwind_markers, &key);

	return marker ? *marker : UNWIND_MARKER_NONE;
}

static __always_inline void unwind_marker_set(__u64 key, __u32 marker)
{
	__u8 value = marker;

	bpf_map_update_elem(&unwind_markers, &key, &value, BPF_ANY);
}

#else /* user space */

#include <stddef.h>
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define UNWIND_HIDE(s, x) ((void)0)
#define UNWIND_BARRIER(x) ((void)0)
#define UNWIND_MEMORY()	  ((void)0)

#endif

/* In rbp_at and rbx_at: the value is lost. */
#define UNWIND_LOST 1
/* Results of unwind_frame and unwind_blind. */
#define UNWIND_MORE  0 /* s->pc is the caller: call unwind_frame again */
#define UNWIND_DONE  1 /* s->end has the reason */
#define UNWIND_BLIND 2 /* no rule for this frame: call unwind_blind */
/* Results of unwind_step and its parts: the walk continues, or 1 + enum unwind_end. */
#define UNWIND_ON	 0
#define UNWIND_STOP(end) (1 + (end))
#define UNWIND_NO_RULE	 -1

static __always_inline void unwind_start(struct unwind_state *s)
{
	s->rbp_at = 0;
	s->rbx_at = 0;
	s->signal_sp = 0;
	s->leaf_row = 0;
	s->zero = 0;
	s->count = 0;
	s->leaf = 1;
	s->end = UNWIND_END_DEPTH;
	s->mark = 0;
	s->pending_count = 0;
	s->scanned = 0;
	s->by_fp = 0;
}

/* One step of a binary search in [at, at + left): to the second half (go 1) or the first (go 0). It has no
 * branch, so the verifier sees one path and not 2^n. One element stays one element. */
#define UNWIND_HALVE(at, left, go)                                                                 \
	do {                                                                                       \
		__u32 go_ = (__u32)(go);                                                           \
		__u32 half_ = (left) / 2;                                                          \
		UNWIND_BARRIER(go_);                                                               \
		(at) += half_ & -go_;                                                              \
		(left) = half_ + ((left)&go_);                                                     \
	} while (0)

/* The last of `left` sorted mappings, from index `at` on, that begins at or below pc. */
static __always_inline __u32 unwind_mapping_slot(const struct unwind_mapping *all, __u32 at,
						 __u32 left, __u64 pc)
{
	for (int i = 0; i < 11; i++) { /* for 2^11 mappings */
		__u32 slot = at + left / 2;

		UNWIND_BARRIER(slot);
		slot &= UNWIND_MAPPING_MAX - 1;
		UNWIND_HALVE(at, left, (all[slot].begin - pc - 1) >> 63);
	}
	UNWIND_BARRIER(at);
	return at & (UNWIND_MAPPING_MAX - 1);
}

/* The executable mapping of s->process that contains pc, or NULL. */
static __always_inline const struct unwind_mapping *
unwind_find_mapping(const struct unwind_state *s, __u64 pc)
{
	__u32 at = s->process.mappings, left = s->process.mapping_count;
	const struct unwind_chunk *chunk = unwind_chunk_of(at);
	const struct unwind_mapping *all = (const void *)chunk;

	if (!chunk || !left)
		return NULL;
	at = unwind_mapping_slot(all, at % UNWIND_CHUNK_WORDS / UNWIND_MAPPING_WORDS, left, pc);
	if (pc < all[at].begin || (pc - all[at].begin) >> UNWIND_PAGE_SHIFT >= all[at].page_total)
		return NULL;
	return &all[at];
}

/* Finds the rule for an address in m and the address where its row begins. 0; -1: none. */
static __always_inline int unwind_find_rule(const struct unwind_state *s,
					    const struct unwind_mapping *m, __u64 address,
					    struct unwind_rule *rule, __u64 *row_begin)
{
	__u64 offset = address - m->bias, page = offset >> UNWIND_PAGE_SHIFT;
	__u32 at, left, slot, row, low = offset % UNWIND_PAGE_BYTES;
	const struct unwind_chunk *chunk;

	if (page >= m->page_count)
		return -1;
	slot = m->table + (__u32)page * 2;
	chunk = unwind_chunk_of(slot);
	if (!chunk)
		return -1;
	slot &= UNWIND_CHUNK_WORDS - 2;
	at = chunk->word[slot];
	left = chunk->word[slot + 1];
	if (!left)
		return -1;
	chunk = unwind_chunk_of(at);
	if (!chunk)
		return -1;
	if (left > 16) {
		for (int i = 4; i < UNWIND_PAGE_SHIFT; i++) { /* at most one row per byte */
			slot = at + left / 2;
			UNWIND_BARRIER(slot);
			slot &= UNWIND_CHUNK_WORDS - 1;
			UNWIND_HALVE(at, left,
				     (UNWIND_ROW_OFFSET(chunk->word[slot]) - low - 1) >> 31);
		}
	}
	for (int i = 0; i < 4; i++) {
		slot = at + left / 2;
		UNWIND_BARRIER(slot);
		slot &= UNWIND_CHUNK_WORDS - 1;
		UNWIND_HALVE(at, left, (UNWIND_ROW_OFFSET(chunk->word[slot]) - low - 1) >> 31);
	}
	UNWIND_BARRIER(at);
	at &= UNWIND_CHUNK_WORDS - 1;
	row = chunk->word[at];
	*row_begin = address - low + UNWIND_ROW_OFFSET(row);
	slot = UNWIND_ROW_RULE(row) * 2;
	chunk = unwind_chunk_of(slot);
	if (!chunk)
		return -1;
	UNWIND_BARRIER(slot);
	slot &= UNWIND_CHUNK_WORDS - 2;
	*rule = *(const struct unwind_rule *)&chunk->word[slot];
	return 0;
}

/* Reads a saved rbp or rbx only when a rule needs it. 0; -1: lost. */
static __always_inline int unwind_rbp(struct unwind_state *s, __u64 *value)
{
	if (s->rbp_at) {
		if (s->rbp_at == UNWIND_LOST || unwind_read_user(&s->reg[UNWIND_RBP], 8, s->rbp_at))
			return -1;
		s->rbp_at = 0;
	}
	*value = s->reg[UNWIND_RBP];
	return 0;
}

static __always_inline int unwind_rbx(struct unwind_state *s, __u64 *value)
{
	if (s->rbx_at) {
		if (s->rbx_at == UNWIND_LOST || unwind_read_user(&s->reg[UNWIND_RBX], 8, s->rbx_at))
			return -1;
		s->rbx_at = 0;
	}
	*value = s->reg[UNWIND_RBX];
	return 0;
}

static __always_inline int unwind_register(struct unwind_state *s, __u32 number, __u64 *value)
{
	if (number == UNWIND_RSP) {
		*value = s->reg[UNWIND_RSP];
		return 0;
	}
	if (number == UNWIND_RBP)
		return unwind_rbp(s, value);
	if (number == UNWIND_RBX)
		return unwind_rbx(s, value);
	if (!s->leaf)
		return -1;
	UNWIND_BARRIER(number);
	number &= UNWIND_REGISTERS - 1;
	*value = s->reg[number];
	return 0;
}

/* rsp points to the ucontext that the kernel wrote for a signal. Its `gregs` begins at byte 40 with r8 to
 * r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (the kernel's struct sigcontext, x86-64). */
static __always_inline int unwind_signal(struct unwind_state *s)
{
	__u32 at = s->count - 1;
	__u64 g[17];

	if (unwind_read_user(g, sizeof(g), s->reg[UNWIND_RSP] + 40))
		return UNWIND_STOP(UNWIND_END_FAULT);
	/* the kernel set the handler's return address: there is no call before the trampoline, so the byte
	 * before it is another function's */
	UNWIND_BARRIER(at);
	s->frame[at & (UNWIND_FRAME_MAX - 1)] &= ~UNWIND_FRAME_RETURN;
	for (int i = 0; i < 8; i++)
		s->reg[8 + i] = g[i];
	s->reg[UNWIND_RDI] = g[8];
	s->reg[UNWIND_RSI] = g[9];
	s->reg[UNWIND_RBP] = g[10];
	s->reg[UNWIND_RBX] = g[11];
	s->reg[UNWIND_RDX] = g[12];
	s->reg[UNWIND_RAX] = g[13];
	s->reg[UNWIND_RCX] = g[14];
	s->reg[UNWIND_RSP] = g[15];
	s->pc = g[16];
	s->signal_sp = g[15];
	s->rbp_at = 0;
	s->rbx_at = 0;
	s->leaf = 1;
	s->mark = 0;
	return UNWIND_ON;
}

static __always_inline void unwind_return_to(struct unwind_state *s, __u64 pc, __u64 sp,
					     __u64 marks)
{
	s->pc = pc;
	s->reg[UNWIND_RSP] = sp;
	s->leaf = 0;
	s->mark = (UNWIND_FRAME_RETURN | marks) >> 56;
}

static __always_inline int unwind_cfa_of(struct unwind_state *s, const struct unwind_rule *r,
					 __u64 *cfa)
{
	__u32 kind = UNWIND_RULE_CFA(r);
	__s64 offset = r->offset;

	if (kind == UNWIND_CFA_REGISTER || kind == UNWIND_CFA_DEREF) {
		if (unwind_register(s, UNWIND_RULE_REGISTER(r), cfa))
			return UNWIND_STOP(UNWIND_END_UNSUPPORTED);
		if (kind == UNWIND_CFA_REGISTER) {
			*cfa += offset;
			return UNWIND_ON;
		}
		if (unwind_read_user(cfa, 8, *cfa + UNWIND_DEREF_A((__s32)offset)))
			return UNWIND_STOP(UNWIND_END_FAULT);
		*cfa += UNWIND_DEREF_B((__s32)offset);
		return UNWIND_ON;
	}
	if (kind == UNWIND_CFA_PLT) {
		*cfa = s->reg[UNWIND_RSP] + 8 + ((s->pc & 15) >= (__u64)offset ? 8 : 0);
		return UNWIND_ON;
	}
	return UNWIND_STOP(UNWIND_END_UNSUPPORTED);
}

static __always_inline int unwind_by_rule(struct unwind_state *s, const struct unwind_rule *r)
{
	__u32 kind = UNWIND_RULE_CFA(r), ra_register = UNWIND_RULE_RA(r);
	__u64 cfa = 0, pc = 0, rbp = 0;
	int rc;

	if (kind == UNWIND_CFA_END)
		return UNWIND_STOP(UNWIND_END_ROOT);
	if (kind == UNWIND_CFA_SIGNAL)
		return unwind_signal(s);
	rc = unwind_cfa_of(s, r, &cfa);
	if (rc)
		return rc;
	if (ra_register) {
		if (!s->leaf)
			return UNWIND_STOP(UNWIND_END_UNSUPPORTED);
		pc = s->reg[ra_register & (UNWIND_REGISTERS - 1)];
	} else if (unwind_read_user(&pc, 8, cfa - 8)) {
		return UNWIND_STOP(UNWIND_END_FAULT);
	}
	/* a call pushes its return address, so the stack pointer must grow from frame to frame; vfork pops
	 * its own, so it stays equal there */
	if (cfa < s->reg[UNWIND_RSP] || (cfa == s->reg[UNWIND_RSP] && !ra_register))
		return UNWIND_STOP(UNWIND_END_FAULT);
	if (UNWIND_RULE_RBP(r) == UNWIND_SAVED_RBP || UNWIND_RULE_RBX(r) == UNWIND_SAVED_RBP) {
		if (unwind_rbp(s, &rbp))
			return UNWIND_STOP(UNWIND_END_UNSUPPORTED);
	}
	if (UNWIND_RULE_RBP(r) == UNWIND_SAVED_CFA)
		s->rbp_at = cfa + (__s64)r->rbp_slot * 8;
	else if (UNWIND_RULE_RBP(r) == UNWIND_SAVED_RBP)
		s->rbp_at = rbp + (__s64)r->rbp_slot * 8;
	else if (UNWIND_RULE_RBP(r) == UNWIND_SAVED_LOST)
		s->rbp_at = UNWIND_LOST;
	if (UNWIND_RULE_RBX(r) == UNWIND_SAVED_CFA)
		s->rbx_at = cfa + (__s64)r->rbx_slot * 8;
	else if (UNWIND_RULE_RBX(r) == UNWIND_SAVED_RBP)
		s->rbx_at = rbp + (__s64)r->rbx_slot * 8;
	else if (UNWIND_RULE_RBX(r) == UNWIND_SAVED_LOST)
		s->rbx_at = UNWIND_LOST;
	unwind_return_to(s, pc, cfa, 0);
	return UNWIND_ON;
}

/* A step by rbp without other checks. 0; -1: impossible. */
static __always_inline int unwind_by_rbp(struct unwind_state *s)
{
	__u64 rbp, pair[2];

	if (unwind_rbp(s, &rbp) || unwind_read_user(pair, sizeof(pair), rbp))
		return -1;
	if (rbp + 16 <= s->reg[UNWIND_RSP])
		return -1;
	s->reg[UNWIND_RBP] = pair[0];
	s->rbx_at = UNWIND_LOST;
	unwind_return_to(s, pair[1], rbp + 16, 0);
	return 0;
}

static __always_inline __u64 unwind_marker_key(const struct unwind_state *s,
					       const struct unwind_mapping *m)
{
	if (m->file)
		return (__u64)m->file << 44 ^ (s->pc - m->bias) ^ (__u64)s->leaf << 43;
	return s->owner << 48 ^ s->pc ^ 1ull << 63;
}

enum unwind_call {
	UNWIND_CALL_NONE = 0,  /* no call ends here */
	UNWIND_CALL_ELSEWHERE, /* a direct call of another function */
	UNWIND_CALL_INDIRECT, /* through a register, memory or a PLT entry: the target is not known */
	UNWIND_CALL_HERE,     /* a direct call to an address shortly below the pc */
};

/* The kind of call instruction that ends at `ra`, seen from code at pc. *target: of a direct call. */
static __always_inline enum unwind_call unwind_call_before(__u64 ra, __u64 pc, __u64 *target)
{
	__u8 b[8], t[8];

	*target = 0;
	if (unwind_read_user(b, sizeof(b), ra - 8))
		return UNWIND_CALL_NONE;
	if (b[3] == 0xe8) { /* call rel32 */
		__s32 relative =
		    (__s32)(b[4] | (__u32)b[5] << 8 | (__u32)b[6] << 16 | (__u32)b[7] << 24);

		*target = ra + (__s64)relative;
		if (*target <= pc && pc - *target < UNWIND_BLIND_FUNCTION_BYTES)
			return UNWIND_CALL_HERE;
		if (unwind_read_user(t, sizeof(t), *target))
			return UNWIND_CALL_NONE;
		/* a PLT entry: jmp *rel32(%rip), perhaps with endbr64 and bnd */
		if ((t[0] == 0xff && t[1] == 0x25) ||
		    (t[0] == 0xf2 && t[1] == 0xff && t[2] == 0x25) ||
		    (t[0] == 0xf3 && t[1] == 0x0f && t[2] == 0x1e && t[3] == 0xfa))
			return UNWIND_CALL_INDIRECT;
		return UNWIND_CALL_ELSEWHERE;
	}
	/* ff /2, by length: register, disp8 with and without SIB, disp32, SIB and disp32 */
	if ((b[6] == 0xff && (b[7] & 0x38) == 0x10) || (b[5] == 0xff && (b[6] & 0x38) == 0x10) ||
	    (b[4] == 0xff && (b[5] & 0x38) == 0x10) || (b[2] == 0xff && (b[3] & 0x38) == 0x10) ||
	    (b[1] == 0xff && (b[2] & 0x38) == 0x10))
		return UNWIND_CALL_INDIRECT;
	return UNWIND_CALL_NONE;
}

/* Whether the walk can continue at pc: it has a rule, or it is code without a table, which another blind
 * step checks. */
static __always_inline int unwind_resolves(const struct unwind_state *s, __u64 pc)
{
	const struct unwind_mapping *m = unwind_find_mapping(s, pc - 1);
	struct unwind_rule rule = {0};
	__u64 row;

	if (!m)
		return 0;
	if (!m->page_count)
		return 1;
	return !unwind_find_rule(s, m, pc - 1, &rule, &row) &&
	       UNWIND_RULE_CFA(&rule) != UNWIND_CFA_NONE;
}

/* The same for a blind step at s->pc. Then pc may also be in the mapping of s->pc: code without rules in a
 * file that has some (Go with a few C functions, V8's built-in code). */
static __always_inline int unwind_continues(const struct unwind_state *s, __u64 other)
{
	const struct unwind_mapping *m;

	if (unwind_resolves(s, other))
		return 1;
	m = unwind_find_mapping(s, s->pc);
	return m && other >= m->begin && (other - m->begin) >> UNWIND_PAGE_SHIFT < m->page_total;
}

/* The instructions of every sigreturn trampoline: mov $15, %eax or %rax; syscall. */
static __always_inline int unwind_at_sigreturn(__u64 pc)
{
	__u8 b[9];

	if (unwind_read_user(b, sizeof(b), pc))
		return 0;
	if (b[0] == 0xb8 && b[1] == 15 && !b[2] && !b[3] && !b[4] && b[5] == 0x0f && b[6] == 0x05)
		return 1;
	return b[0] == 0x48 && b[1] == 0xc7 && b[2] == 0xc0 && b[3] == 15 && !b[4] && !b[5] &&
	       !b[6] && b[7] == 0x0f && b[8] == 0x05;
}

/* Fills s->candidate with the indexes of words that point into code, among the first `words` words above
 * rsp; returns their number. For the verifier it has no branch per word: the next word overwrites one that
 * does not count. */
static __always_inline __u32 unwind_scan_window(struct unwind_state *s, __u32 words)
{
	__u32 first = s->process.mappings, left = s->process.mapping_count, count = 0;
	const struct unwind_mapping *all = (const void *)unwind_chunk_of(first);

	if (!all || !left)
		return 0;
	first = first % UNWIND_CHUNK_WORDS / UNWIND_MAPPING_WORDS;
	for (__u32 i = 0; i < UNWIND_SCAN_WORDS; i++) {
		__u64 word = s->window[i] - 1, page;
		__u32 at = unwind_mapping_slot(all, first, left, word), slot = count;
		__u32 in, room;

		page = (word - all[at].begin) >>
		       UNWIND_PAGE_SHIFT; /* below begin: beyond any mapping */
		page -= all[at].page_total;
		in = i - words;
		room = count - UNWIND_CANDIDATES;
		UNWIND_BARRIER(page);
		UNWIND_BARRIER(in);
		UNWIND_BARRIER(room);
		in = (__u32)(page >> 63) & in >> 31 & room >> 31;
		UNWIND_BARRIER(slot);
		s->candidate[slot & (2 * UNWIND_CANDIDATES - 1)] = i;
		count += in;
		UNWIND_HIDE(s, count);
	}
	return count;
}

/* First part of a blind step: is rbp a frame pointer? If so, its frame is near and aligned, the walk can
 * continue at its return address, and a fitting call instruction ends there. */
static __always_inline void unwind_blind_fp(struct unwind_state *s)
{
	__u64 sp = s->reg[UNWIND_RSP], rbp = 0, target = 0;
	enum unwind_call call;

	s->blind_fp = 0;
	s->blind_target = 0;
	s->blind_words = UNWIND_SCAN_WORDS;
	s->blind_marker = unwind_marker_get(s->blind_key);
	if (s->blind_marker == UNWIND_MARKER_DWARF || unwind_rbp(s, &rbp))
		return;
	if (!rbp && s->mark == (UNWIND_FRAME_FP | UNWIND_FRAME_RETURN) >>
				   56) { /* end of a chain of frame pointers */
		s->blind_words = 0;
		return;
	}
	if (rbp < sp || (rbp & 7) || rbp - sp >= UNWIND_BLIND_FRAME_BYTES ||
	    unwind_read_user(s->blind_pair, sizeof(s->blind_pair), rbp))
		return;
	/* if the next frame is near, the caller may be any code, also without rules in a file that has some
	 * (V8's built-in code); else the walk must be able to continue there */
	if (s->blind_pair[0] > rbp && s->blind_pair[0] - rbp < UNWIND_BLIND_FRAME_BYTES) {
		if (!unwind_find_mapping(s, s->blind_pair[1] - 1))
			return;
	} else if (!unwind_continues(s, s->blind_pair[1])) {
		return;
	}
	call = unwind_call_before(s->blind_pair[1], s->pc, &target);
	/* the outermost frame saves 0 as rbp, and its code may never have been called: Go's goroutines
	 * return to the second byte of a function */
	if (call == UNWIND_CALL_NONE && s->blind_pair[0])
		return;
	/* a call of another function has two explanations. That function jumped here by a tail call (V8's
	 * built-in functions jump to compiled code), which is so if a chain of frame pointers led here. Or
	 * rbp is still the caller's, and a nearer return address exists */
	s->blind_fp = call == UNWIND_CALL_ELSEWHERE &&
			      s->mark != (UNWIND_FRAME_FP | UNWIND_FRAME_RETURN) >> 56
			  ? UNWIND_FP_LIKELY
			  : UNWIND_FP_SURE;
	s->blind_rbp = rbp;
	s->blind_target = call == UNWIND_CALL_HERE ? target : 0;
	if ((rbp + 8 - sp) / 8 < UNWIND_SCAN_WORDS)
		s->blind_words = (rbp + 8 - sp) / 8;
	/* only a leaf may have no frame yet */
	if (s->blind_marker == UNWIND_MARKER_FP || (!s->leaf && s->blind_fp == UNWIND_FP_SURE))
		s->blind_words = 0;
}

/* Second part: finds the nearest return address above rsp. It must belong to a direct call to an address
 * shortly below the pc, and nearer to it than the target of rbp's return address (then this is a leaf that
 * has not touched rbp). If rbp is not surely a frame pointer, any call will do. */
static __always_inline void unwind_blind_scan(struct unwind_state *s)
{
	__u32 count;

	s->blind_found = UNWIND_SCAN_WORDS;
	if (!s->blind_words)
		return;
	if (unwind_read_user(s->window, sizeof(s->window), s->reg[UNWIND_RSP]))
		__builtin_memset(s->window, 0, sizeof(s->window)); /* near the stack's end */
	count = unwind_scan_window(s, s->blind_words);
	for (__u32 k = 0; k < UNWIND_CANDIDATES; k++) {
		__u32 i = s->candidate[k] & (UNWIND_SCAN_WORDS - 1), call;
		__u64 target;

		UNWIND_HIDE(s, count);
		if (k >= count)
			break;
		call = unwind_call_before(s->window[i], s->pc, &target);
		UNWIND_HIDE(s, call);
		if (call == UNWIND_CALL_NONE || !unwind_continues(s, s->window[i]))
			continue;
		if (call == UNWIND_CALL_HERE && target > s->blind_target) {
			s->blind_found = i;
			return;
		}
		if (s->blind_fp != UNWIND_FP_SURE && s->blind_found == UNWIND_SCAN_WORDS)
			s->blind_found = i;
	}
}

/* Third part: uses the result. */
static __always_inline int unwind_blind_take(struct unwind_state *s)
{
	__u64 at, below;
	__u32 found = s->blind_found;

	if (s->blind_fp && found >= UNWIND_SCAN_WORDS) {
		if (s->blind_marker == UNWIND_MARKER_NONE && s->pending_count < UNWIND_PENDING_MAX)
			s->pending[s->pending_count++ & (UNWIND_PENDING_MAX - 1)] = s->blind_key;
		s->reg[UNWIND_RBP] = s->blind_pair[0];
		s->rbx_at = UNWIND_LOST;
		s->by_fp++;
		unwind_return_to(s, s->blind_pair[1], s->blind_rbp + 16, UNWIND_FRAME_FP);
		return UNWIND_MORE;
	}
	if (found >= UNWIND_SCAN_WORDS) {
		/* by the ABI the outermost frame has 0 in rbp; in a leaf or after a scan rbp is a general
		 * register */
		if (s->mark && !(s->mark & UNWIND_FRAME_SCANNED >> 56) && !s->rbp_at &&
		    !s->reg[UNWIND_RBP])
			s->end = UNWIND_END_ROOT;
		return UNWIND_DONE; /* else s->end has the reason for which there was no rule */
	}
	if (s->blind_marker == UNWIND_MARKER_NONE && !s->blind_fp)
		unwind_marker_set(s->blind_key, UNWIND_MARKER_DWARF);
	UNWIND_BARRIER(found);
	found &= UNWIND_SCAN_WORDS - 1;
	at = s->reg[UNWIND_RSP] + 8 * (__u64)found;
	/* compilers push rbp first, oneDNN's generator rbx and then rbp; a value that does not look like a
	 * frame pointer will not be used as one */
	below = s->window[(found - 1) & (UNWIND_SCAN_WORDS - 1)];
	if (found >= 1 && below - at < UNWIND_BLIND_FRAME_BYTES)
		s->rbp_at = at - 8;
	else if (found >= 2)
		s->rbp_at = at - 16;
	s->rbx_at = UNWIND_LOST;
	s->scanned++;
	unwind_return_to(s, s->window[found], at + 8, UNWIND_FRAME_SCANNED);
	return UNWIND_MORE;
}

/* Completes a frame after UNWIND_BLIND: code without a usable rule. Uses the frame pointer if all checks
 * pass, else a scan of the stack. Returns as unwind_frame, but never UNWIND_BLIND. It is a function of its
 * own because programs with tail calls can afford it once, not per frame. Its parts communicate only
 * through *s, so that the verifier keeps few states between them. */
static __always_inline int unwind_blind(struct unwind_state *s)
{
	if (unwind_at_sigreturn(s->pc)) {
		if (unwind_signal(s) == UNWIND_ON)
			return UNWIND_MORE;
		s->end = UNWIND_END_FAULT;
		return UNWIND_DONE;
	}
	unwind_blind_fp(s);
	UNWIND_MEMORY();
	unwind_blind_scan(s);
	UNWIND_MEMORY();
	return unwind_blind_take(s);
}

/* SysOM-AI, Algorithm 1. An unmarked pc tries rbp. Its mark is FP if the caller's pc is executable and the
 * stack pointer grows, else DWARF. A marked pc follows its mark. -1: use the table. */
static __always_inline int unwind_paper(struct unwind_state *s, const struct unwind_mapping *m)
{
	__u64 key = unwind_marker_key(s, m), rbp, pair[2];
	__u32 marker = unwind_marker_get(key);

	if (marker == UNWIND_MARKER_DWARF)
		return -1;
	if (marker == UNWIND_MARKER_NONE) {
		marker = UNWIND_MARKER_DWARF;
		if (!unwind_rbp(s, &rbp) && !unwind_read_user(pair, sizeof(pair), rbp) &&
		    rbp + 16 > s->reg[UNWIND_RSP] && unwind_find_mapping(s, pair[1]))
			marker = UNWIND_MARKER_FP;
		unwind_marker_set(key, marker);
		if (marker == UNWIND_MARKER_DWARF)
			return -1;
	}
	return unwind_by_rbp(s) ? UNWIND_STOP(UNWIND_END_FAULT) : UNWIND_ON;
}

/* Whether s->pc is the bottom of a stack that was made by hand. Its return address is the second byte of a
 * function, where no call can end: a row begins at s->pc - 1, the first byte. Such an address lets
 * unwinders find the function (Go's goexit), but its rule would read unwritten memory. Two cases look
 * alike and are excluded: the sigreturn trampoline, which C libraries describe from one byte before it,
 * and a page's begin, where a first row always begins. */
static __always_inline int unwind_is_bottom(const struct unwind_state *s,
					    const struct unwind_rule *rule, __u64 row)
{
	return !s->leaf && row == s->pc - 1 && (row & (UNWIND_PAGE_BYTES - 1)) &&
	       UNWIND_RULE_CFA(rule) != UNWIND_CFA_SIGNAL;
}

/* Steps from the frame at s->pc, which is in m, to its caller. UNWIND_ON, UNWIND_STOP(end) or
 * UNWIND_NO_RULE. */
static __always_inline int unwind_step(struct unwind_state *s, const struct unwind_mapping *m)
{
	struct unwind_rule rule = {0};
	__u64 row = s->pc;
	int rc;

	if (UNWIND_MODE == UNWIND_MODE_FP)
		return unwind_by_rbp(s) ? UNWIND_STOP(UNWIND_END_FAULT) : UNWIND_ON;
	if (UNWIND_MODE == UNWIND_MODE_PAPER) {
		rc = unwind_paper(s, m);
		if (rc >= 0)
			return rc;
	}
	rc = unwind_find_rule(s, m, s->leaf ? s->pc : s->pc - 1, &rule, &row);
	/* a gap may contain several functions without rules: only the pc distinguishes them */
	if (s->count == 1)
		s->leaf_row = UNWIND_RULE_CFA(&rule) == UNWIND_CFA_NONE ? s->pc : row;
	if (!rc && UNWIND_RULE_CFA(&rule) != UNWIND_CFA_NONE) {
		if (unwind_is_bottom(s, &rule, row))
			return UNWIND_STOP(UNWIND_END_ROOT);
		rc = unwind_by_rule(s, &rule);
		if (rc != UNWIND_STOP(UNWIND_END_UNSUPPORTED))
			return rc;
		rc = UNWIND_END_UNSUPPORTED;
	} else {
		rc = m->page_count ? UNWIND_END_NO_ROW : UNWIND_END_NO_TABLE;
	}
	if (UNWIND_MODE == UNWIND_MODE_PAPER)
		return UNWIND_STOP(rc);
	s->blind_key = unwind_marker_key(s, m);
	s->end = rc;
	return UNWIND_NO_RULE;
}

/* Adds the frame at s->pc to s->frame and moves s->pc to its caller. */
static __always_inline int unwind_frame(struct unwind_state *s)
{
	const struct unwind_mapping *m;
	__u32 at = s->count;
	__u64 rbp;
	int rc;

	/* by the ABI both are 0 at the bottom of a stack. A return address of 0 alone may be chance, where
	 * code switches stacks without a rule */
	if (!s->pc) {
		s->end = unwind_rbp(s, &rbp) || rbp ? UNWIND_END_NO_MAPPING : UNWIND_END_ROOT;
		return UNWIND_DONE;
	}
	if (at >= UNWIND_FRAME_MAX) {
		s->end = UNWIND_END_DEPTH;
		return UNWIND_DONE;
	}
	m = unwind_find_mapping(s, s->leaf ? s->pc : s->pc - 1);
	if (!m) {
		s->end = UNWIND_END_NO_MAPPING;
		return UNWIND_DONE;
	}
	UNWIND_BARRIER(at);
	at &= UNWIND_FRAME_MAX - 1;
	s->frame[at] = (s->pc & UNWIND_FRAME_PC) | (__u64)s->mark << 56;
	s->count = at + 1;
	rc = unwind_step(s, m);
	if (rc == UNWIND_ON)
		return UNWIND_MORE;
	if (rc == UNWIND_NO_RULE)
		return UNWIND_BLIND;
	s->end = rc - 1;
	return UNWIND_DONE;
}

/* After the last frame: marks from frame pointers are kept only if the walk reached the root. */
static __always_inline void unwind_finish(struct unwind_state *s)
{
	if (s->end != UNWIND_END_ROOT)
		return;
	for (__u32 i = 0; i < UNWIND_PENDING_MAX; i++) {
		if (i < s->pending_count)
			unwind_marker_set(s->pending[i], UNWIND_MARKER_FP);
	}
}

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * unwind_format.h - unwind tables, which user space writes and the kernel reads. They are in one arena of
 * 32-bit words: shards of 4 MiB, made on demand, each an array of 64 KiB chunks (one value of a BPF array,
 * which can be mmaped). A word index is a position in the arena.
 *
 *   rules     words [0, UNWIND_RULE_MAX * 2): struct unwind_rule by id, the same for all files
 *   a table   the page index of one file, 2 words per 4 KiB page of its address range, then rows
 *   mappings  the sorted executable mappings of one process, in one chunk
 *
 * A row is one word: the low 12 bits are the offset in the page from which it applies, the high 20 bits
 * the rule. The rows of a page are sorted, in one chunk, and the first has offset 0. Writers fill a table
 * before the mapping that refers to it. Freed memory is written again only after every program that may
 * have seen it has ended (unwind_store.h). */
#pragma once

#include <linux/types.h>

#define UNWIND_CHUNK_WORDS  16384u /* 64 KiB */
#define UNWIND_SHARD_CHUNKS 64u	   /* 4 MiB */
#define UNWIND_SHARD_WORDS  (UNWIND_CHUNK_WORDS * UNWIND_SHARD_CHUNKS)
#define UNWIND_SHARD_MAX    64u /* 256 MiB */

struct unwind_chunk {
	__u32 word[UNWIND_CHUNK_WORDS];
};

/* A PyTorch process had 3,700 distinct rules; one file may add at most a fraction. */
#define UNWIND_RULE_MAX	  32768u
#define UNWIND_RULE_WORDS (UNWIND_RULE_MAX * 2)

#define UNWIND_PAGE_SHIFT	 12
#define UNWIND_PAGE_BYTES	 (1u << UNWIND_PAGE_SHIFT)
#define UNWIND_ROW_OFFSET(row)	 ((row) & (UNWIND_PAGE_BYTES - 1))
#define UNWIND_ROW_RULE(row)	 ((row) >> UNWIND_PAGE_SHIFT)
#define UNWIND_ROW(offset, rule) ((__u32)(offset) | (__u32)(rule) << UNWIND_PAGE_SHIFT)

/* DWARF's numbers of the x86-64 registers that unwinding uses. */
enum unwind_register {
	UNWIND_RAX = 0,
	UNWIND_RDX = 1,
	UNWIND_RCX = 2,
	UNWIND_RBX = 3,
	UNWIND_RSI = 4,
	UNWIND_RDI = 5,
	UNWIND_RBP = 6,
	UNWIND_RSP = 7,
	UNWIND_R10 = 10,
	UNWIND_REGISTERS = 16
};

/* How the canonical frame address (the stack pointer before the call) is computed. */
enum unwind_cfa {
	UNWIND_CFA_NONE =
	    0, /* no unwind information here: a gap between functions, or a whole file */
	UNWIND_CFA_REGISTER,	/* register + offset */
	UNWIND_CFA_DEREF,	/* *(register + UNWIND_DEREF_A(offset)) + UNWIND_DEREF_B(offset) */
	UNWIND_CFA_PLT,		/* rsp + 8; rsp + 16 from byte `offset` of a 16-byte PLT entry on */
	UNWIND_CFA_SIGNAL,	/* rsp points to the kernel's ucontext, which has all registers */
	UNWIND_CFA_END,		/* the outermost frame: its return address is undefined */
	UNWIND_CFA_UNSUPPORTED, /* known, but not expressible */
	UNWIND_CFA_COUNT
};

/* Where the caller's rbp or rbx is saved. */
enum unwind_saved {
	UNWIND_SAVED_SAME = 0, /* not touched */
	UNWIND_SAVED_CFA,      /* at CFA + 8 * slot */
	UNWIND_SAVED_RBP,      /* at rbp + 8 * slot, in realigned frames */
	UNWIND_SAVED_LOST,     /* undefined */
};

/* One rule, 8 bytes, shared by all equal rows. */
struct unwind_rule {
	__u8 cfa;   /* bits 0-3 enum unwind_cfa, bits 4-7 the register */
	__u8 saved; /* bits 0-1 rbp, 2-3 rbx (enum unwind_saved); bits 4-7 the register that holds
		     * the return address, 0: it is at CFA - 8 */
	__s8 rbp_slot; /* in units of 8 bytes */
	__s8 rbx_slot;
	__s32 offset; /* bytes */
};
_Static_assert(sizeof(struct unwind_rule) == 8, "two words");

#define UNWIND_RULE_CFA(r)	((r)->cfa & 15)
#define UNWIND_RULE_REGISTER(r) ((r)->cfa >> 4)
#define UNWIND_RULE_RBP(r)	((r)->saved & 3)
#define UNWIND_RULE_RBX(r)	((r)->saved >> 2 & 3)
#define UNWIND_RULE_RA(r)	((r)->saved >> 4)
/* DEREF's two offsets: a, 24 bits signed, in bytes; b, 8 bits signed, in units of 8 bytes. */
#define UNWIND_DEREF(a, b)     ((__s32)(((__u32)(a)&0xffffffu) | (__u32)((b) / 8) << 24))
#define UNWIND_DEREF_A(offset) ((__s32)((__u32)(offset) << 8) >> 8)
#define UNWIND_DEREF_B(offset) (((offset) >> 24) * 8)

/* An entry of the page index: the rows of one 4 KiB page. */
struct unwind_page {
	__u32 row;   /* word index of the first */
	__u32 count; /* 0: no code with unwind information on this page */
};
_Static_assert(sizeof(struct unwind_page) == 8, "two words");

/* One executable mapping. Its table covers [bias, bias + page_count * 4096), perhaps more than the
 * mapping. */
struct unwind_mapping {
	__u64 begin;	  /* of the mapping, page-aligned */
	__u64 bias;	  /* virtual address of the table's page 0 */
	__u32 page_total; /* length of the mapping, in pages */
	__u32 table;	  /* word index of the page index */
	__u32 page_count; /* of the table; 0: none */
	__u32 file;	  /* number of the file in unwind_store; 0: anonymous memory (JIT code) */
};
_Static_assert(sizeof(struct unwind_mapping) == 32, "eight words");

#define UNWIND_MAPPING_WORDS 8u
/* A PyTorch process has 320; they must lie in one chunk. */
#define UNWIND_MAPPING_MAX (UNWIND_CHUNK_WORDS / UNWIND_MAPPING_WORDS)

/* A process's mappings: replaced as a whole, so that a reader sees either the old or the new ones. */
struct unwind_process {
	__u32 mappings; /* word index, a multiple of 8 */
	__u32 mapping_count;
};
_Static_assert(sizeof(struct unwind_process) == 8, "two words");

/* Frames per user stack: enough for real programs (PyTorch: 30 to 120) and one 4 KiB page, but less than
 * Python's recursion limit of 1000. The sampler's 31 tail calls of 16 frames reach 496. */
#define UNWIND_FRAME_MAX 512u

/* A frame is its program counter with these marks in the top bits (user addresses are below 2^56). */
#define UNWIND_FRAME_RETURN  (1ull << 63) /* a return address: the call is before it */
#define UNWIND_FRAME_SCANNED (1ull << 62) /* found by scanning the stack */
#define UNWIND_FRAME_FP	     (1ull << 61) /* found by frame pointer in code without a table */
#define UNWIND_FRAME_PC	     ((1ull << 56) - 1)

/* How a stack ended. Values as in enum stack_end (model/stack.h). */
enum unwind_end {
	UNWIND_END_ROOT = 0,
	UNWIND_END_DEPTH,
	UNWIND_END_NO_MAPPING,
	UNWIND_END_NO_TABLE,
	UNWIND_END_NO_ROW,
	UNWIND_END_UNSUPPORTED,
	UNWIND_END_FAULT,
	UNWIND_END_COUNT
};

/* How frames are found. The others exist only to compare them with TABLE. */
enum unwind_mode {
	UNWIND_MODE_TABLE =
	    0,		/* tables; without one, frame pointer or scan, validated and marked */
	UNWIND_MODE_FP, /* only frame pointers */
	UNWIND_MODE_PAPER, /* Algorithm 1 of SysOM-AI: try rbp once per pc and remember, else the table */
};

/* What was learned about a pc in code without unwind information; in UNWIND_MODE_PAPER about any pc. */
enum unwind_marker {
	UNWIND_MARKER_NONE = 0,
	UNWIND_MARKER_FP,
	UNWIND_MARKER_DWARF,
};

/* Whether rbp is a frame pointer in code without unwind information. */
enum unwind_fp {
	UNWIND_FP_NONE = 0,
	UNWIND_FP_LIKELY, /* unless a return address lies below its frame */
	UNWIND_FP_SURE,	  /* all checks pass */
};

/* How far above rsp a return address is searched in code without a table. oneDNN's kernels keep it within
 * 48 words (3,937 of 3,937 samples). */
#define UNWIND_SCAN_WORDS 64u
/* The most of these words that are checked as return addresses. */
#define UNWIND_CANDIDATES 8u
/* Upper bounds of frame size and function length in code without unwind information. */
#define UNWIND_BLIND_FRAME_BYTES    (1u << 20)
#define UNWIND_BLIND_FUNCTION_BYTES (1u << 20)

/* The most pcs that one stack can mark. */
#define UNWIND_PENDING_MAX 4u

/* One walk. In the kernel it is in map memory (per CPU), where `zero` is 0. The verifier does not know
 * that, so it does not follow every index of a search. */
struct unwind_state {
	__u64 pc;
	__u64
	    reg[UNWIND_REGISTERS]; /* by DWARF number. rsp is always right, rbp and rbx according to
				      * *_at, the others only while `leaf` */
	__u64 rbp_at,
	    rbx_at;	 /* 0: the value is in reg; 1: lost; else the address where it is saved */
	__u64 signal_sp; /* rsp of the last frame that a signal interrupted; 0: none */
	/* begin of the row of the first pc; in code without rules the pc */
	__u64 leaf_row;
	__u64 pending[UNWIND_PENDING_MAX]; /* keys to mark as UNWIND_MARKER_FP at the root */
	__u64 owner;			   /* the process, for marker keys of anonymous code */
	struct unwind_process process;
	__u32 zero;
	__u32 count; /* of frame */
	__u8 leaf;   /* 1: pc is exact and all registers are known (first or interrupted frame) */
	__u8 end;    /* enum unwind_end, once the walk is over */
	__u8 mark;   /* UNWIND_FRAME_* >> 56 of the next frame */
	__u8 pending_count;
	__u16 scanned; /* frames found by scan */
	__u16 by_fp;   /* frames found by frame pointer in code without a table */
	/* between unwind_frame's UNWIND_BLIND and the end of unwind_blind */
	__u64 blind_key;     /* of the marker */
	__u64 blind_pair[2]; /* what rbp points to: the caller's rbp and the return address */
	__u64 blind_rbp;
	__u64 blind_target; /* target of the call at that return address; 0: not known */
	__u32 blind_marker;
	__u32 blind_fp;	   /* enum unwind_fp */
	__u32 blind_words; /* words of the window to scan */
	__u32 blind_found; /* index in the window, or UNWIND_SCAN_WORDS */
	__u8 candidate[2 * UNWIND_CANDIDATES];
	__u64 window[UNWIND_SCAN_WORDS]; /* the piece of the stack that is scanned */
	__u64 frame[UNWIND_FRAME_MAX];
};

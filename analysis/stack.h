/* SPDX-License-Identifier: Apache-2.0
 * stack.h - CPU stacks as normalised records: what the sampler hands out and everybody else reads.
 * A batch is one drained period of one node. Nothing in it is resolved later than it must be: Python
 * and kernel names are strings, since only the node can read them; native frames stay (Build ID,
 * offset) until a symbol resolver names them.
 * Owns: stack_batch_fini releases what a builder put in; readers borrow.  Threads: one caller. */
#ifndef SYSOM_ANALYSIS_STACK_H
#define SYSOM_ANALYSIS_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/keyed.h"

/* Bytes of a file's identity: its Build ID, cut to its first 20, and 16 of its content's digest
 * (symbol/symbol_content.h). */
#define STACK_BUILD_ID_MAX 36

enum stack_frame_kind {
	STACK_FRAME_NATIVE = 1, /* object: index into objects; address: ELF virtual address in it */
	STACK_FRAME_KERNEL,     /* object: string, the symbol's name (0: unknown); address: offset in it */
	STACK_FRAME_PYTHON,     /* object: string, the qualified function name; file: string; line */
	STACK_FRAME_ANONYMOUS,  /* code without a file (JIT); address: the virtual address */
};

enum stack_frame_flags {
	STACK_FRAME_RETURN = 1,  /* address is a return address: look up address - 1 */
	STACK_FRAME_SCANNED = 2, /* found by the bounded scan of the stack behind code without tables */
	STACK_FRAME_FP = 4,      /* reached by a frame pointer in code without unwind information */
	STACK_FRAME_SHIM = 8,    /* an interpreter's entry that Python frames could not replace */
};

struct stack_frame {
	uint8_t kind;  /* enum stack_frame_kind */
	uint8_t flags; /* enum stack_frame_flags */
	uint16_t pad;
	uint32_t object; /* index into objects or strings, by kind */
	uint64_t address;
	uint32_t file; /* string; Python only, else 0 */
	uint32_t line; /* 0: unknown */
};

/* How a user stack ended; everything but STACK_END_ROOT is a truncated stack. */
enum stack_end {
	STACK_END_ROOT = 0,    /* the outermost frame, marked so by the unwind information or a zero pc */
	STACK_END_DEPTH,       /* deeper than the limit */
	STACK_END_NO_MAPPING,  /* pc in no executable mapping */
	STACK_END_NO_TABLE,    /* mapping known, table not there (yet), and nothing found by scan */
	STACK_END_NO_ROW,      /* no unwind information for this pc */
	STACK_END_UNSUPPORTED, /* a rule that the table cannot express */
	STACK_END_FAULT,       /* the stack could not be read */
	STACK_END_GUESSED,     /* a root was reached, but by a guess on the way: a frame that was found
				* without a rule, or Python and native frames that do not agree */
	STACK_END_COUNT
};

enum stack_sample_kind {
	STACK_ON_CPU = 1, /* count samples; weight_ns: count times the sampling period over the fraction */
	STACK_OFF_CPU,    /* count blockings; weight_ns: time off the CPU. One that spans batches is in
			   * each of them, with its part of the time */
};

enum stack_gil {
	STACK_GIL_NONE = 0, /* no interpreter in this thread, or a build without a GIL */
	STACK_GIL_HOLDER,
	STACK_GIL_WAITER,   /* has a thread state, waits for the GIL */
	STACK_GIL_RELEASED, /* has a thread state, runs native code without the GIL */
	STACK_GIL_UNKNOWN,
};

struct stack_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC, begin of the slice that the samples fell into */
	uint64_t weight_ns;
	uint32_t pid, tid; /* as the daemon's PID namespace names them */
	uint32_t stack;    /* index into stacks */
	uint32_t count;
	uint8_t kind; /* enum stack_sample_kind */
	uint8_t gil;  /* enum stack_gil */
	uint16_t cpu; /* of the first sample */
	uint32_t comm; /* string: the thread's name */
	uint32_t waker_tid; /* off-CPU: who woke it, 0 unknown */
	uint32_t waker_comm; /* string */
};

struct stack {
	uint32_t first; /* index into frames; leaf first: kernel frames, then user frames, root last */
	uint32_t count;
	uint32_t kernel_count; /* of the first frames, how many are kernel frames */
	uint8_t end;           /* enum stack_end of the user part */
	uint8_t pad[3];
};

struct stack_object {
	uint8_t build_id[STACK_BUILD_ID_MAX];
	uint8_t build_id_bytes; /* 0: the file has no Build ID */
	uint8_t pad[3];
	uint32_t path; /* string, as the process sees it */
};

/* Of a thread off the CPU. */
enum stack_switch_state {
	STACK_SWITCH_RUNNABLE = 0,    /* it could have run on, and another thread had the CPU */
	STACK_SWITCH_INTERRUPTIBLE,   /* asleep; a signal would wake it */
	STACK_SWITCH_UNINTERRUPTIBLE, /* asleep, usually for a lock of the kernel's or for memory */
	STACK_SWITCH_STOPPED,	      /* by a signal or a debugger */
	STACK_SWITCH_UNKNOWN,	      /* asleep, in a state that nobody saw */
	STACK_SWITCH_IO,	      /* uninterruptible, and the kernel says that it waits for storage */
	STACK_SWITCH_WOKEN,	      /* it could run again, and waits for a CPU; none leaves one so */
	STACK_SWITCH_STATES
};

enum stack_switch_flags {
	STACK_SWITCH_OPEN = 1,	    /* it was still off the CPU at in_ns, where it was looked at */
	STACK_SWITCH_CONTINUED = 2, /* goes on where such a record of an earlier batch ended */
	STACK_SWITCH_FOLDED = 4,    /* several times off the CPU, with time on it in between */
	STACK_SWITCH_BEGUN = 8,	    /* it was off the CPU already when its recording began */
	STACK_SWITCH_COUNTED = 16,  /* taken_ns and faults are known */
};

/* What takes a thread's time away, on the CPU or (THROTTLED) off it. */
enum stack_taken {
	STACK_TAKEN_DEVICE = 0, /* interrupt handlers of devices */
	STACK_TAKEN_TIMER,	/* soft interrupts, by vector */
	STACK_TAKEN_NET_TX,
	STACK_TAKEN_NET_RX,
	STACK_TAKEN_BLOCK,
	STACK_TAKEN_TASKLET,
	STACK_TAKEN_SCHED,
	STACK_TAKEN_RCU,
	STACK_TAKEN_STEAL,     /* the hypervisor ran others */
	STACK_TAKEN_THROTTLED, /* the CPU limit of its cgroup kept it off the CPU */
	STACK_TAKEN_KINDS
};

/* Why several were folded into one record. */
enum stack_switch_cause {
	STACK_SWITCH_PACED = 0, /* the thread switched more often than its rate of records */
	STACK_SWITCH_RING_FULL, /* of the kernel */
	STACK_SWITCH_NO_ROOM,	/* more records than a batch holds */
	STACK_SWITCH_CAUSES
};

#define STACK_SWITCH_NO_STACK UINT32_MAX
/* Marks a number of the first PID namespace: that thread has none in the daemon's. */
#define STACK_SWITCH_NOT_OURS (1u << 31)
/* In place of a waker: a timer ended the wait. */
#define STACK_WAKER_TIMER UINT32_MAX

/* A time off the CPU of one thread, or of several folded ones the sums. Times are CLOCK_MONOTONIC. */
struct stack_switch {
	uint64_t out_ns, in_ns;
	uint64_t woken_ns; /* from then on it was runnable; 0: it never slept, or nobody saw it woken */
	uint64_t ns[STACK_SWITCH_STATES]; /* the time by state; of what sleeps, from woken_ns on WOKEN */
	/* With COUNTED: what was taken of its time on the CPU before out_ns (of a folded one: in between,
	 * too), and of its runnable time here (THROTTLED). UINT32_MAX: so much or more. */
	uint32_t taken_ns[STACK_TAKEN_KINDS];
	uint32_t faults; /* of pages, on the CPU before out_ns */
	uint32_t pid, tid;
	uint32_t count; /* of times that ended here: 1, 0 (OPEN), or how many are folded */
	uint32_t stack; /* where it went to sleep; STACK_SWITCH_NO_STACK: not taken */
	uint32_t next_tid;  /* who had the CPU next; 0: nobody */
	uint32_t waker_tid; /* 0: an interrupt, or unknown; or STACK_WAKER_TIMER */
	uint16_t cpu;	    /* that it left */
	uint8_t state;	    /* enum stack_switch_state, in which it left */
	uint8_t flags;	    /* enum stack_switch_flags */
	uint8_t gil;	    /* enum stack_gil, when it left */
	uint8_t pad[7];
};

/* A thread whose switches are in the batch. What lies between begin_ns and end_ns and in none of its
 * records was time on the CPU. */
struct stack_switch_thread {
	uint64_t begin_ns, end_ns; /* equal: it was not seen to switch yet */
	uint64_t records;	   /* not folded, and ended */
	uint64_t folded[STACK_SWITCH_CAUSES]; /* times off the CPU */
	uint64_t folded_ns;
	uint64_t missed; /* switches that were not seen: between begin_ns and end_ns something is wrong */
	uint32_t pid, tid;
	bool ended; /* the thread is gone */
};

struct stack_batch {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	struct stack_object *objects;
	struct stack_frame *frames;
	struct stack *stacks;
	struct stack_sample *samples;
	char *strings;          /* bytes of all strings, each NUL-terminated */
	uint32_t *string_offset; /* string i starts at strings + string_offset[i]; string 0 is "" */
	uint32_t object_count, frame_count, stack_count, sample_count, string_count;
	size_t string_bytes;
	uint32_t object_room, frame_room, stack_room, sample_room, string_room;
	size_t string_bytes_room;
	uint64_t lost_samples; /* of this period, all causes */
	/* Of a thread in order of time. */
	struct stack_switch *switches;
	struct stack_switch_thread *switch_threads;
	uint32_t switch_count, switch_thread_count;
	uint32_t switch_room, switch_thread_room;
	struct keyed key;      /* of the builder's hash tables */
	void *index;           /* the builder's hash tables; NULL in a batch that is only read */
};

/* An empty batch on the caller's storage. key: of the builder's tables, whose content a peer chooses; no
 * result depends on it. */
void stack_batch_init(struct stack_batch *b, const struct keyed *key);
void stack_batch_fini(struct stack_batch *b);
/* Forgets the content, keeps the memory. */
void stack_batch_clear(struct stack_batch *b);

/* Builders intern: the same content gives the same index. All return 0 and the index in *out,
 * -ENOMEM, or -E2BIG past the bounds of base/limits.h (the caller counts a loss). */
int stack_batch_string(struct stack_batch *b, const char *s, size_t bytes, uint32_t *out);
int stack_batch_object(struct stack_batch *b, const uint8_t *build_id, size_t build_id_bytes,
		       const char *path, uint32_t *out);
/* frames: count of them (at most LIMIT_STACK_DEPTH), leaf first, copied. */
int stack_batch_stack(struct stack_batch *b, const struct stack_frame *frames, uint32_t count,
		      uint32_t kernel_count, enum stack_end end, uint32_t *out);
/* Samples that agree in all but count and weight are added up. */
int stack_batch_sample(struct stack_batch *b, const struct stack_sample *s);
int stack_batch_switch(struct stack_batch *b, const struct stack_switch *s);
int stack_batch_switch_thread(struct stack_batch *b, const struct stack_switch_thread *t);
/* By thread, then by time. */
void stack_batch_switches_sort(struct stack_batch *b);
/* Of a sorted batch: leaves out times off the CPU below min_ns, which then count as time on it. What was
 * taken meanwhile goes to the thread's next one; its last one stays if it has some of that. */
void stack_batch_switches_thin(struct stack_batch *b, uint64_t min_ns);
/* Copies into *into what of *from concerns the pids (pid_count of them; 0: all) and falls into
 * [begin_ns, end_ns); into may hold samples already. Of switches, those that overlap it, whole. */
int stack_batch_merge(struct stack_batch *into, const struct stack_batch *from, const uint32_t *pids,
		      size_t pid_count, uint64_t begin_ns, uint64_t end_ns);

/* The string's text; "" for an index out of range. */
static inline const char *stack_batch_text(const struct stack_batch *b, uint32_t string)
{
	return string < b->string_count ? b->strings + b->string_offset[string] : "";
}

/* Every index within its table, counts within bounds: for batches that came over a boundary. */
bool stack_batch_valid(const struct stack_batch *b);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * stack.h - CPU stacks as normalised records: the sampler's output, and the input of everything
 * else. A batch is one drained period of one node. Names are resolved as late as possible. Python
 * and kernel names are strings, because only the node can read them; native frames stay (Build ID,
 * offset) until a symbol resolver names them. Owns: stack_batch_fini releases what a builder added;
 * readers borrow.  Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/keyed.h"

/* The most bytes of a file's identity: its Build ID, cut to 20 bytes, followed by 16 bytes of its
 * content's digest (symbol/symbol_content.h). */
#define STACK_BUILD_ID_MAX 36

enum stack_frame_kind {
	STACK_FRAME_NATIVE = 1, /* object: index into objects; address: ELF virtual address in the
				 * file */
	STACK_FRAME_KERNEL,	/* object: string, the symbol's name (0: unknown); address: offset
				 * in the symbol */
	STACK_FRAME_PYTHON,    /* object: string, the qualified function name; file: string; line */
	STACK_FRAME_ANONYMOUS, /* code without a file (JIT); address: the virtual address */
};

enum stack_frame_flags {
	STACK_FRAME_RETURN = 1, /* a return address: look up address - 1 */
	/* found by a bounded scan of the stack, after code without tables */
	STACK_FRAME_SCANNED = 2,
	STACK_FRAME_FP = 4,   /* reached by a frame pointer in code without unwind information */
	STACK_FRAME_SHIM = 8, /* an interpreter's entry that Python frames could not replace */
};

/* Stands for the name of a Python function that could not be read. */
#define STACK_NO_NAME "?"

struct stack_frame {
	uint8_t kind;  /* enum stack_frame_kind */
	uint8_t flags; /* enum stack_frame_flags */
	uint16_t pad;
	uint32_t object; /* index into objects or strings, by kind */
	uint64_t address;
	uint32_t file; /* string; Python only, else 0 */
	uint32_t line; /* 0: unknown */
};

/* How a user stack ended; every value except STACK_END_ROOT means truncated. */
enum stack_end {
	STACK_END_ROOT = 0,    /* the outermost frame, marked by the unwind information or a zero
			        * pc */
	STACK_END_DEPTH,       /* deeper than the limit */
	STACK_END_NO_MAPPING,  /* pc is in no executable mapping */
	STACK_END_NO_TABLE,    /* the mapping is known, but its table is missing (so far), and the
			        * scan found nothing */
	STACK_END_NO_ROW,      /* no unwind information for this pc */
	STACK_END_UNSUPPORTED, /* a rule that the table cannot express */
	STACK_END_FAULT,       /* the stack could not be read */
	/* reached a root, but guessed: a frame was found without a rule, or Python and native
	 * frames disagree */
	STACK_END_GUESSED,
	STACK_END_COUNT
};

enum stack_sample_kind {
	/* counts samples; weight_ns: count times the period, divided by the sampled fraction */
	STACK_ON_CPU = 1,
	/* counts blocking events; weight_ns: off-CPU time. An event that spans several batches is
	 * in each of them, with its part of the time */
	STACK_OFF_CPU,
};

enum stack_gil {
	STACK_GIL_NONE = 0, /* no interpreter in this thread, or a build without a GIL */
	STACK_GIL_HOLDER,
	STACK_GIL_WAITER,   /* has a thread state, and waits for the GIL */
	STACK_GIL_RELEASED, /* has a thread state, and runs native code without the GIL */
	STACK_GIL_UNKNOWN,
};

/* Length of the slices of a rank's on-CPU samples. */
#define STACK_SLICE_NS 10000000u

struct stack_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC, start of the slice that contains the samples */
	uint64_t weight_ns;
	uint32_t pid, tid; /* in the daemon's PID namespace */
	uint32_t stack;	   /* index into stacks */
	uint32_t count;
	uint8_t kind;	     /* enum stack_sample_kind */
	uint8_t gil;	     /* enum stack_gil */
	uint16_t cpu;	     /* of the first sample */
	uint32_t comm;	     /* string: the thread's name */
	uint32_t waker_tid;  /* off-CPU: the thread that woke it, 0 unknown */
	uint32_t waker_comm; /* string */
};

/* What a sample adds to the sum of squared weights. Threads are sampled at unequal rates, so
 * samples have unequal weights. (Sum of weights)^2 / (sum of squares) is the number of samples of
 * equal weight that would be as exact (Kish, Survey Sampling, 1965). */
static inline double stack_sample_square(const struct stack_sample *s)
{
	return (double)s->weight_ns * (double)s->weight_ns / (s->count ? s->count : 1);
}

struct stack {
	uint32_t first; /* index into frames; leaf first: kernel frames, then user frames, root
			 * last */
	uint32_t count;
	uint32_t kernel_count; /* how many of the first frames are kernel frames */
	uint8_t end;	       /* enum stack_end of the user part */
	uint8_t pad[3];
};

struct stack_object {
	uint8_t build_id[STACK_BUILD_ID_MAX];
	uint8_t build_id_bytes; /* 0: the file has no Build ID */
	uint8_t pad[3];
	uint32_t path; /* string, the path in the process */
};

/* State of a thread while off the CPU. */
enum stack_switch_state {
	STACK_SWITCH_RUNNABLE = 0,    /* runnable, but another thread had the CPU */
	STACK_SWITCH_INTERRUPTIBLE,   /* asleep; a signal would wake it */
	STACK_SWITCH_UNINTERRUPTIBLE, /* asleep, usually for a kernel lock or memory */
	STACK_SWITCH_STOPPED,	      /* stopped by a signal or a debugger */
	STACK_SWITCH_UNKNOWN,	      /* asleep, in a state that was not observed */
	STACK_SWITCH_IO,	      /* uninterruptible, and the kernel says that it waits for
				       * storage */
	STACK_SWITCH_WOKEN,	      /* woken, and waiting for a CPU; no thread leaves the CPU in
				       * this state */
	STACK_SWITCH_STATES
};

enum stack_switch_flags {
	STACK_SWITCH_OPEN = 1,	    /* still off the CPU when the batch was drained, at in_ns */
	STACK_SWITCH_CONTINUED = 2, /* continues a record of an earlier batch with OPEN */
	STACK_SWITCH_FOLDED = 4,    /* several off-CPU intervals, with on-CPU time between them */
	STACK_SWITCH_BEGUN = 8,	    /* already off the CPU when recording began */
	STACK_SWITCH_COUNTED = 16,  /* taken_ns and faults are known */
};

/* What takes a thread's time away on the CPU, or (THROTTLED) keeps it off the CPU. */
enum stack_taken {
	STACK_TAKEN_DEVICE = 0, /* interrupt handlers of devices and of the CPU's clock */
	STACK_TAKEN_TIMER,	/* soft interrupts, by vector */
	STACK_TAKEN_NET_TX,
	STACK_TAKEN_NET_RX,
	STACK_TAKEN_BLOCK,
	STACK_TAKEN_TASKLET,
	STACK_TAKEN_SCHED,
	STACK_TAKEN_RCU,
	STACK_TAKEN_STEAL,     /* the hypervisor ran other guests */
	STACK_TAKEN_THROTTLED, /* its cgroup's CPU limit kept it off the CPU */
	STACK_TAKEN_KINDS
};

/* Why several intervals were folded into one record. */
enum stack_switch_cause {
	STACK_SWITCH_PACED = 0, /* the thread exceeded its rate of records */
	STACK_SWITCH_RING_FULL, /* the kernel's ring was full */
	STACK_SWITCH_NO_ROOM,	/* more records than fit into a batch */
	STACK_SWITCH_CAUSES
};

#define STACK_SWITCH_NO_STACK UINT32_MAX
/* Marks a thread number of the initial PID namespace: the thread has no number in the daemon's
 * namespace. */
#define STACK_SWITCH_NOT_OURS (1u << 31)
/* In place of a waker's number: a timer ended the wait. */
#define STACK_WAKER_TIMER UINT32_MAX
/* Bits above a waker's number, which is below 2^22. They say what ended the wait. NETWORK: data
 * that arrived from the network. PROCESS: a system call of another process. CHILD: the thread's
 * process started that other process, directly or through others. */
#define STACK_WAKER_NETWORK (1u << 22)
#define STACK_WAKER_PROCESS (1u << 23)
#define STACK_WAKER_CHILD   (1u << 24)
#define STACK_WAKER_BITS    (STACK_WAKER_NETWORK | STACK_WAKER_PROCESS | STACK_WAKER_CHILD)

/* An off-CPU interval of one thread, or the sums of several folded ones. Times are
 * CLOCK_MONOTONIC. */
struct stack_switch {
	uint64_t out_ns, in_ns;
	/* runnable from then on; 0: it did not sleep, or the wake-up was not recorded */
	uint64_t woken_ns;
	/* the time in each state; of a sleep, the time from woken_ns on counts as WOKEN */
	uint64_t ns[STACK_SWITCH_STATES];
	/* With COUNTED: what was taken from the thread's on-CPU time before out_ns (folded: also
	 * between the intervals), and from its runnable time in this record (THROTTLED).
	 * UINT32_MAX: this much or more. */
	uint32_t taken_ns[STACK_TAKEN_KINDS];
	uint32_t faults; /* page faults while on the CPU before out_ns */
	uint32_t pid, tid;
	uint32_t count;	    /* intervals that ended here: 1, 0 (OPEN), or the number folded */
	uint32_t stack;	    /* where it went to sleep; STACK_SWITCH_NO_STACK: not recorded */
	uint32_t next_tid;  /* the thread that got the CPU next; 0: none */
	uint32_t waker_tid; /* 0: an interrupt, or unknown; with STACK_WAKER_* */
	uint16_t cpu;	    /* the CPU that it left */
	uint8_t state;	    /* enum stack_switch_state, when it left */
	uint8_t flags;	    /* enum stack_switch_flags */
	uint8_t gil;	    /* enum stack_gil, when it left */
	uint8_t pad[7];
};

/* The thread that ended the wait; 0: none, or not known. */
static inline uint32_t stack_switch_waker(const struct stack_switch *s)
{
	return s->waker_tid == STACK_WAKER_TIMER ? 0 : s->waker_tid & ~STACK_WAKER_BITS;
}

/* A thread whose switches are in the batch. It was on a CPU at all times from begin_ns to end_ns
 * that no record covers. */
struct stack_switch_thread {
	uint64_t begin_ns, end_ns;	      /* equal: no switch was seen yet */
	uint64_t records;		      /* not folded, and ended */
	uint64_t folded[STACK_SWITCH_CAUSES]; /* off-CPU intervals */
	/* switches that were not recorded, so a part of begin_ns to end_ns is wrong */
	uint64_t missed;
	uint32_t pid, tid;
};

struct stack_batch {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	struct stack_object *objects;
	struct stack_frame *frames;
	struct stack *stacks;
	struct stack_sample *samples;
	char *strings;		 /* bytes of all strings, each NUL-terminated */
	uint32_t *string_offset; /* string i starts at strings + string_offset[i]; string 0 is "" */
	uint32_t object_count, frame_count, stack_count, sample_count, string_count;
	size_t string_bytes;
	size_t object_room, frame_room, stack_room, sample_room, string_room, string_bytes_room;
	uint64_t lost_samples; /* in this period, for all reasons */
	/* Per thread in order of time. */
	struct stack_switch *switches;
	struct stack_switch_thread *switch_threads;
	uint32_t switch_count, switch_thread_count;
	size_t switch_room, switch_thread_room;
	struct keyed key; /* key of the builder's hash tables */
	void *index;	  /* the builder's hash tables; NULL in a batch that is only read */
};

/* Makes an empty batch in the caller's storage. key: secret key of the builder's hash tables,
 * because peers choose what the tables hold; results do not depend on it. */
void stack_batch_init(struct stack_batch *b, const struct keyed *key);
void stack_batch_fini(struct stack_batch *b);
/* Removes the content but keeps the memory. */
void stack_batch_clear(struct stack_batch *b);

/* Builders intern: the same content gives the same index. All return 0 and the index in *out,
 * -ENOMEM, or -E2BIG past the bounds of base/limits.h (the caller counts a loss). */
int stack_batch_string(struct stack_batch *b, const char *s, size_t bytes, uint32_t *out);
int stack_batch_object(struct stack_batch *b, const uint8_t *build_id, size_t build_id_bytes,
		       const char *path, uint32_t *out);
/* frames: count of them (at most LIMIT_STACK_DEPTH), leaf first, copied. */
int stack_batch_stack(struct stack_batch *b, const struct stack_frame *frames, uint32_t count,
		      uint32_t kernel_count, enum stack_end end, uint32_t *out);
/* Adds up samples that differ only in count and weight. */
int stack_batch_sample(struct stack_batch *b, const struct stack_sample *s);
int stack_batch_switch(struct stack_batch *b, const struct stack_switch *s);
int stack_batch_switch_thread(struct stack_batch *b, const struct stack_switch_thread *t);
/* By thread, then by time. */
void stack_batch_switches_sort(struct stack_batch *b);
/* For a sorted batch: drops off-CPU intervals below min_ns, which then count as on-CPU time. The
 * taken time of a dropped interval moves to the thread's next interval. A thread's last interval is
 * kept if it has taken time. */
void stack_batch_switches_thin(struct stack_batch *b, uint64_t min_ns);
/* Copies to *into the part of *from that belongs to these pids (pid_count 0: all) and to [begin_ns,
 * end_ns). *into may already have samples. Switches that overlap the range are copied whole. */
int stack_batch_merge(struct stack_batch *into, const struct stack_batch *from,
		      const uint32_t *pids, size_t pid_count, uint64_t begin_ns, uint64_t end_ns);

/* The string's text; "" if the index is out of range. */
static inline const char *stack_batch_text(const struct stack_batch *b, uint32_t string)
{
	return string < b->string_count ? b->strings + b->string_offset[string] : "";
}

/* Whether the frame is a Python function whose name could not be read. Such a frame says nothing,
 * and accuses nobody. */
bool stack_frame_is_nameless(const struct stack_batch *b, const struct stack_frame *f);

/* Whether every index is within its table, and counts are within bounds: for batches from another
 * process. */
bool stack_batch_valid(const struct stack_batch *b);

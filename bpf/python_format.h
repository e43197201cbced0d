/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * python_format.h - what the kernel gets about a CPython process, and the frames that it returns. User
 * space finds the interpreter, checks its layout and fills struct python_process
 * (sampler/python/python_runtime.h). python.h walks the frames, and sampler/python/python_stitch.h joins
 * and names them. */
#pragma once

#include <linux/types.h>

/* Python frames per stack. Native stacks end at 512, an interpreter before 3.11 needs at least one native
 * frame per Python frame, and PyTorch models nest 30 to 100. 16 bytes each: 4 KiB per CPU. */
#define PYTHON_FRAME_MAX 256u
/* Frames that a walk reads. From 3.12 on each entry from C has a shim frame; a PyTorch module calls the
 * next one with one shim and three real frames. */
#define PYTHON_STEP_MAX 384u
/* Thread states that a walk reads, if thread-specific data does not give the thread's own. */
#define PYTHON_THREAD_MAX 128u
/* No code object is larger: 3.11 and later keep the bytecode inside it. */
#define PYTHON_CODE_BYTES_MAX (1u << 28)

/* How frames are linked, and what marks an entry from C. */
enum python_layout {
	PYTHON_LAYOUT_NONE = 0,
	PYTHON_LAYOUT_OBJECT, /* 3.10: PyFrameObject.f_back; every frame has its own native frame */
	PYTHON_LAYOUT_ENTRY,  /* 3.11: _PyInterpreterFrame with is_entry */
	PYTHON_LAYOUT_SHIM,   /* 3.12 and later: a shim frame, owned by the C stack, is between */
};

/* A process with an interpreter; map value by pid. Offsets are in bytes; addresses are the process's. */
struct python_process {
	__u64 interp;	 /* the main interpreter's state */
	__u64 gil;	 /* its GIL */
	__u64 current;	 /* 3.10, 3.11: address of the holder's thread state; else 0 */
	__s64 tsd_block; /* from fsbase: place of tsd_slot's base address; 0: the base is fsbase */
	__s64 tsd_slot;	 /* from the base: place of the thread state; 0: search the list */
	__u64 tag_mask;	 /* bits of a code reference that are its address */
	__u16 threads_head; /* of interp: first thread state */
	__u16 interp_gil;   /* of interp: address of its GIL; 0: one for the whole process */
	__u16 gil_bytes, gil_holder, gil_locked;
	__u16 tstate_bytes, tstate_next, tstate_interp, tstate_thread_id;
	__u16 tstate_frame; /* of a thread state: its innermost frame */
	/* 3.11, 3.12: size of the struct that tstate_frame points to; 0: it points to the frame */
	__u16 cframe_bytes;
	__u16 cframe_frame; /* of that struct: the frame */
	__u16 frame_bytes, frame_code, frame_previous, frame_instr, frame_owner;
	__u8 layout;	 /* enum python_layout */
	__u8 shim_owner; /* frame_owner of shim frames; larger values are not frames either */
	__u8 minor;	 /* 3.minor, for output */
	__u8 pad[3];
};
_Static_assert(sizeof(struct python_process) == 88, "no holes");

enum python_frame_flags {
	PYTHON_FRAME_ENTRY = 1, /* C entered the interpreter here: the last frame of its run */
};

struct python_frame {
	/* address of the code object; 0: the interpreter has no Python frame (yet) */
	__u64 code;
	/* 3.11 on: bytes from the code object to the instruction. 3.10: f_lasti; ~0: none */
	__u32 instr;
	__u32 flags; /* enum python_frame_flags */
};

/* How a walk ended. */
enum python_end {
	PYTHON_END_ROOT = 0,
	PYTHON_END_NONE,    /* no thread state: the thread never ran Python */
	PYTHON_END_DEPTH,   /* more than PYTHON_FRAME_MAX frames */
	PYTHON_END_FAULT,   /* memory could not be read */
	PYTHON_END_GARBAGE, /* the memory can't be a frame */
	PYTHON_END_COUNT
};

/* The values of enum stack_gil (model/stack.h). */
enum python_gil {
	PYTHON_GIL_NONE = 0,
	PYTHON_GIL_HOLDER,
	PYTHON_GIL_WAITER,   /* blocked in futex(2) within the GIL */
	PYTHON_GIL_RELEASED, /* or about to block: native frames decide (python_runtime_gil) */
	PYTHON_GIL_UNKNOWN,
};

/* A power of two; the largest struct (a thread state up to its ids) has 208 bytes. */
#define PYTHON_SCRATCH_WORDS 32u
#define PYTHON_SCRATCH_BYTES (PYTHON_SCRATCH_WORDS * 8)

/* One walk. Lives in map memory (per CPU) in the kernel. */
struct python_state {
	/* in */
	__u64 fsbase; /* of the thread */
	__u64 futex;  /* first argument of futex(2) if the thread is in it, else 0 */
	/* out */
	__u64 tstate; /* 0: none */
	__u64 holder; /* thread state that holds the GIL; 0: none or unknown */
	__u32 count;
	__u8 end; /* enum python_end */
	__u8 gil; /* enum python_gil */
	__u8 pad[2];
	struct python_frame frame[PYTHON_FRAME_MAX]; /* innermost first */
	__u64 scratch[PYTHON_SCRATCH_WORDS];
};

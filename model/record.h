/* SPDX-License-Identifier: Apache-2.0
 * record.h - the normalised record: the common input of analysis/, the recorder, wire/ and replay.
 * node/join/join makes records from ring events, and cli/replay from trace files. All use one clock
 * of the node, in nanoseconds (CLOCK_MONOTONIC live, the trace's clock in replay). Names are ids in
 * a per-rank name table that travels with the records. Canonical order: host records by (begin_ns,
 * thread, arrival); device records by (begin_ns, stream, correlation). The two sequences are passed
 * on separately, as they arrive. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_kind {
	/* host: actions of a thread of the job */
	RECORD_LAUNCH = 1, /* kernel launch; name may be 0 until the kernel supplies it */
	RECORD_GRAPH_LAUNCH = 2,
	RECORD_COLL = 3, /* NCCL call: func, comm, seq, bytes; also group start and end */
	RECORD_COMM = 4, /* communicator made or destroyed: key = id, seq = action, peer =
				  * rank in it, bytes = number of ranks, 0: destroyed */
	RECORD_SYNC = 5, /* the host waited for the GPU */
	RECORD_MEM = 6,	 /* allocation (bytes) or free (bytes 0) */
	RECORD_SPAN = 7, /* NVTX, API or Python span, complete; seq = depth. Python: work in grid
			  * (tokens, batch, context) and bytes (drafts), func and dtype = kinds of
			  * its process and thread (base/span_kind.h) */
	RECORD_STEP_BEGIN =
	    8, /* explicit; begin_ns == end_ns; work in `work` of struct step_mark */
	RECORD_STEP_END = 9,
	RECORD_GAP = 10,       /* nothing, or only a part, was recorded; seq = cause */
	RECORD_COPY_CALL = 11, /* replay only: a host copy call (cudaMemcpyAsync ...) */
	RECORD_API = 12,       /* replay only: any other host API call */
	RECORD_SPAN_REQUEST =
	    13, /* one request that a Python span handles; begin_ns == end_ns and name: the span's
		 * start and name, bytes = tokens, key = hash of the request's id */
	/* device: actions of a GPU */
	RECORD_KERNEL = 32,
	RECORD_COLL_KERNEL = 33, /* a kernel of the communication library */
	RECORD_COPY = 34,
	RECORD_MEMSET = 35,	/* replay only */
	RECORD_GRAPH_EXEC = 36, /* a whole graph launch as one record */
};
#define RECORD_IS_DEVICE(kind) ((kind) >= 32)

#define RECORD_FLAG_FAILED    0x0001
#define RECORD_FLAG_CAPTURED  0x0002
#define RECORD_FLAG_GRAPH     0x0004 /* device: ran inside a graph launch */
#define RECORD_FLAG_UNMATCHED 0x0008 /* device: no launch found; launch_ns is 0 */
#define RECORD_FLAG_EXPLICIT  0x0010
#define RECORD_FLAG_GROUPED   0x0020 /* inside ncclGroupStart/End */
#define RECORD_FLAG_COARSE    0x0080 /* gap: only the nodes of graph launches are missing */
#define RECORD_FLAG_PYTHON    0x0100 /* span: of a catalogue of Python functions */
/* STEP_BEGIN: requests of the step before continue in this step */
#define RECORD_FLAG_CONTINUES 0x0400
#define RECORD_FLAG_DONE      0x0200 /* SPAN_REQUEST: the request ends here */
#define RECORD_FLAG_OPTIMIZER 0x0040 /* launch or kernel: of an optimizer, if known */

struct record {
	uint64_t begin_ns, end_ns;
	uint64_t launch_ns; /* device: begin_ns of the launch that caused it; 0 unmatched */
	uint64_t bytes;	    /* copies, collectives (payload of this rank), allocations */
	uint64_t key;	    /* COLL, COMM, COLL_KERNEL: communicator id, the same on every rank;
			     * STEP_*: index of the explicit step; MEM: address; SPAN: domain,
			     * or Python: hash of the request's id, 0 none */
	uint16_t kind;
	uint16_t flags;
	uint32_t name;	 /* 0 unknown */
	uint32_t thread; /* host: tid; device: CUDA device ordinal */
	uint32_t stream; /* CUPTI stream id, or a dense id of the handle */
	uint32_t correlation;
	/* COLL, COLL_KERNEL: number of the call of (communicator, function[, pair]) */
	uint32_t seq;
	uint32_t grid[3];
	uint16_t block[3];
	uint16_t registers;
	uint32_t shared_bytes; /* static + dynamic */
	uint8_t func;	       /* COLL*: enum record_coll; COPY: CUpti_ActivityMemcpyKind */
	uint8_t dtype;	       /* COLL: ncclDataType_t + 1, 0 unknown */
	int16_t peer;	       /* root or peer rank, -1 none */
	uint32_t reserved;     /* 0, so that no byte of a record is undefined */
};
_Static_assert(sizeof(struct record) == 96, "record");

/* Equals enum event_coll_func of the ring; analysis/ may not include ring/. */
enum record_coll {
	RECORD_COLL_ALL_REDUCE = 1,
	RECORD_COLL_BROADCAST,
	RECORD_COLL_REDUCE,
	RECORD_COLL_ALL_GATHER,
	RECORD_COLL_REDUCE_SCATTER,
	RECORD_COLL_ALL_TO_ALL,
	RECORD_COLL_GATHER,
	RECORD_COLL_SCATTER,
	RECORD_COLL_SEND,
	RECORD_COLL_RECV,
	RECORD_COLL_BCAST,
	RECORD_COLL_GROUP_START = 32,
	RECORD_COLL_GROUP_END,
	RECORD_COLL_GROUP_SIMULATE,
	RECORD_COLL_OTHER = 63,
};

/* A call that gives the GPU work. */
static inline bool record_is_launch(const struct record *r)
{
	return r->kind == RECORD_LAUNCH || r->kind == RECORD_GRAPH_LAUNCH || r->kind == RECORD_COLL;
}

static inline bool record_is_collective(const struct record *r)
{
	return r->kind == RECORD_COLL || r->kind == RECORD_COLL_KERNEL;
}

/* "AllReduce" ...; "Other" if unknown. Static text. */
const char *record_coll_name(unsigned func);
/* "float32" ... for a record's dtype; "" if unknown. Static text. */
const char *record_dtype_name(unsigned dtype);
/* "launch", "kernel", ... Static text. */
const char *record_kind_name(unsigned kind);
/* Whether a kernel of this name belongs to NCCL, RCCL or a fork (ncclDevKernel_*, ncclKernel_*). */
bool record_is_coll_kernel(const char *kernel_name);

/* Whether a kernel of this name belongs to an optimizer (adam, sgd, lamb, multi_tensor_apply
 * ...). */
bool record_is_optimizer(const char *kernel_name);

/* The work vector of an explicit step, besides its RECORD_STEP_BEGIN. */
#define STEP_WORK_MAX 4
struct step_mark {
	double work[STEP_WORK_MAX];
	uint32_t work_count;
	uint32_t phase; /* name id, 0 none */
};

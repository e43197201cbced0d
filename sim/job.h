/* SPDX-License-Identifier: Apache-2.0
 * job.h - the parts of simjob: options, programs (what a step does) and the rank that runs them.
 * Owns: see each function.  Threads: one per process.  Errors: messages on stderr, exit 2 for
 * usage, 1 for failures. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "foreign/cuda.h"
#include "foreign/nccl.h"
#include "sim/sim_base.h"
#include "sim/job_host.h"
#include "sim/scramble.h"

#define JOB_MAX_RANKS	64
#define JOB_MAX_STRETCH 1000
#define JOB_STREAMS	32
#define JOB_EVENTS	64

enum job_fault_kind {
	JOB_FAULT_NONE,
	JOB_FAULT_SLOW,
	JOB_FAULT_KERNEL,
	JOB_FAULT_GAPS,
	JOB_FAULT_LATE,
	JOB_FAULT_STOP,
	JOB_FAULT_STUCK,
	JOB_FAULT_VARIANT,
	JOB_FAULT_HOST,
	JOB_FAULT_ENDLESS,
	JOB_FAULT_MISMATCH,
};

/* enum job_fault_kind as options and the truth name them. */
extern const char *const job_fault_names[JOB_FAULT_MISMATCH + 1];

struct job_fault {
	enum job_fault_kind kind;
	int rank;
	uint64_t start_step; /* UINT64_MAX: by time */
	uint64_t start_ns;   /* after the job's start */
	uint64_t steps;
	double size; /* a step takes about this many times as long (slow, kernel: its kernels) */
	char kernel[256];
	char variant[256]; /* launched instead of it */
};

#define JOB_MAX_FAULTS 8

struct job_options {
	int ranks;
	uint64_t seconds, steps, seed;
	unsigned stretch; /* of traces */
	double skew;	  /* kernels of a rank's step take exp(skew * N(0, 1)) times as long */
	const char *mix;
	char **traces;
	int trace_count;
	struct job_fault faults[JOB_MAX_FAULTS];
	int fault_count;
	const char *truth;
	const char *join;		   /* file that the ranks of a foreign launcher share */
	const char *mark_begin, *mark_end; /* --explicit-steps */
	struct job_host host;		   /* for mix shard */
	bool comm_thread;		   /* in mix shard a separate thread handles shards */
	bool verbose;
};

/* Shared by the launcher and its ranks (an inherited memfd). */
struct job_control {
	uint32_t id_ready; /* futex */
	uint32_t stop_ms;  /* futex: a rank asks to be stopped for this long */
	uint32_t stop_rank;
	uint32_t finish; /* the job's time is over, whatever o->seconds says */
	uint64_t start_ns;
	uint64_t last_step; /* the first step that does not run */
	uint64_t host_kib;  /* packed by a rank per step, if requested by time */
	nccl_unique_id id;
};

enum job_action_kind {
	JOB_KERNEL,
	JOB_COPY_IN,
	JOB_COPY_OUT,
	JOB_COPY_DEVICE,
	JOB_SET,
	JOB_COLLECTIVE,
	JOB_RECORD,
	JOB_WAIT,
	JOB_SYNC, /* the host waits for a stream */
	JOB_SYNC_ALL,
	JOB_GRAPH,
	JOB_PACE,  /* the host works until at_ns */
	JOB_SHARE, /* rank `slot` prepares its shard on the host and sends it to all */
};

enum job_collective {
	JOB_ALLREDUCE,
	JOB_ALLGATHER,
	JOB_REDUCESCATTER,
	JOB_ALLTOALL,
	JOB_BROADCAST,
};

struct job_action {
	uint8_t kind, stream, collective;
	bool ex;	   /* launched by cuLaunchKernelEx, found by dlsym, as Triton does */
	uint16_t slot;	   /* event or graph */
	uint32_t function; /* index into names */
	uint64_t at_ns;	   /* not before this host offset in the step */
	uint64_t dur_ns, bytes;
	uint32_t grid[3], block[3];
};

struct job_phase {
	char name[24];
	double work; /* batch, tokens or micro-steps; 0: the number of actions */
	struct job_action *actions;
	unsigned count, room;
};

/* Everything that a rank may run; `plan` selects the phases of step number s. */
struct job_program {
	char **names;
	cu_function *functions;
	unsigned name_count, name_room;
	struct job_phase *phases; /* steps */
	unsigned phase_count;
	struct job_phase *graphs; /* captured once at the start */
	unsigned graph_count;
	double jitter;
	unsigned (*choose)(const struct job_program *p, uint64_t seed, uint64_t step);
	uint64_t nominal_ns; /* of a typical step */
};

/* Randomness is a pure function of a seed and counters (splitmix64). */
static inline uint64_t job_random(uint64_t *state)
{
	return scramble(*state += 0x9e3779b97f4a7c15ull);
}

static inline double job_uniform(uint64_t *state)
{
	return (double)(job_random(state) >> 11) * 0x1p-53;
}

void *job_alloc(size_t count, size_t bytes);

unsigned job_program_name(struct job_program *p, const char *name);
struct job_action *job_phase_add(struct job_phase *ph, enum job_action_kind kind, unsigned stream,
				 uint64_t at_ns);

/* job_mix.c: fills p from a built-in mix. false: unknown name. */
bool job_mix_build(struct job_program *p, const char *name, int ranks);
const char *job_mix_names(void);
/* job_trace.c: fills p from a trace (*.csv[.gz] or Kineto *.json[.gz]), with all times multiplied
 * by `stretch` (1 to JOB_MAX_STRETCH). 0, or 2 and a message. */
int job_trace_build(struct job_program *p, const char *path, int ranks, unsigned stretch);

/* job_rank.c: the main function of one rank's process. Returns the exit status. */
int job_rank_run(const struct job_options *o, struct job_control *control, int rank);
/* The directory of the doubles relative to this program: ../lib/sim in a build, ../lib/sysom/sim
 * installed. */
bool job_rank_library_dir(char *path, size_t bytes);

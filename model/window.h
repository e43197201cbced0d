/* SPDX-License-Identifier: Apache-2.0
 * window.h - what leaves a node: a window (a stretch of steps of one rank with its full evidence)
 * and a beat (the small periodic summary). Plain structs; wire/codec.h encodes them.
 * All times are CLOCK_MONOTONIC nanoseconds of the node; realtime_offset_ns + t =
 * CLOCK_REALTIME. */
#pragma once

#include "model/os_signal.h"
#include "model/record.h"
#include "model/stack.h"
#include "model/step.h"

#define WIRE_TEXT_BYTES	   128
#define WIRE_VERSION_BYTES 32 /* of a program's version */
#define WIRE_LOSS_MAX	   32

/* Where a rank runs in Kubernetes, as its environment says; all are "" elsewhere. */
enum { POD_NAMESPACE, POD_NAME, POD_CONTAINER, POD_HOST, POD_TEXTS };
struct wire_pod {
	char text[POD_TEXTS][WIRE_TEXT_BYTES];
};
/* The names of these texts in JSON and in metrics. DCGM's exporter uses the same names, so metrics
 * of both can be joined. */
extern const char *const window_pod_keys[POD_TEXTS];
struct buf;
/* Appends ,"namespace":"...","pod":"..." and so on. */
void window_pod_json(const struct wire_pod *pod, struct buf *out);
/* The host's name for people: the Pod's host if it is known, else the node's name. Borrowed from
 * the argument. */
const char *window_pod_host(const struct wire_pod *pod, const char *node);

/* The sender. Texts are NUL-terminated valid UTF-8. Trust: the node vouches for the uid in the
 * job's key (base/job_key.h) and for the pid. The node's own name is a claim unless a certificate
 * proves it. Everything else is the job's claim. */
struct wire_rank {
	char job[WIRE_TEXT_BYTES]; /* NAME@UID; without @UID if the node does not vouch for one */
	char node[WIRE_TEXT_BYTES];
	char role[WIRE_TEXT_BYTES];
	struct wire_pod pod;
	char gpu_uuid[WIRE_TEXT_BYTES];
	char program[WIRE_TEXT_BYTES];
	int32_t rank, world_size, local_rank; /* -1 unknown */
	uint32_t pid;
	uint32_t owner; /* uid + 1; 0: the node does not vouch for one */
	uint64_t start_time_ticks;
};

enum function_kind { FUNCTION_NATIVE, FUNCTION_KERNEL, FUNCTION_PYTHON };

enum window_reason {
	WINDOW_SELF = 1,  /* the rank's self time exceeds the expected one: a suspect */
	WINDOW_COMM = 2,  /* slow, but its self time is as expected: it waits for others */
	WINDOW_DRIFT = 3, /* a lasting change against the frozen baseline */
	WINDOW_STALL = 4, /* no step for many times the expected latency: it hangs or has
			     * stopped */
	WINDOW_ASKED = 5, /* the aggregator asked for it */
	WINDOW_MANUAL = 6,
	WINDOW_PEER = 7, /* slow compared with its peers on the node: a suspect, although its own
			     * model sees nothing */
};

/* What a window of that reason says; 0: no such reason. */
#define WINDOW_SAYS_OWN	  1u /* the rank itself was slow; it did not only wait for others */
#define WINDOW_SAYS_WAITS 2u /* it only waited */
#define WINDOW_SAYS_LASTS 4u /* it stays slow: no transient, however few steps the window has */
#define WINDOW_SAYS_AGAIN 8u /* it was requested, so its steps are in other windows too */
unsigned window_reason_says(unsigned reason);
const char *window_reason_name(unsigned reason);   /* "self", ...; "unknown": no such reason */
const char *window_reason_title(const char *name); /* "slow itself", ...; no such name: the name */

#define WINDOW_STEP_OUT	    0x0100 /* in window_step.flags, above the STEP_FLAG_* */
#define WINDOW_STEP_FLAGGED 0x0200
#define WINDOW_STEP_MARGIN  0x0400 /* before or after the anomaly, for context */
#define WINDOW_STEP_FIRST   0x0800 /* of no kind, and longer than any step before */
/* a single such step counts, and is not a transient (judge_verdict.spike) */
#define WINDOW_STEP_SPIKE 0x2000
#define WINDOW_STEP_CUT	  0x1000 /* some of its records had no room, or are no longer stored */

struct window_step {
	struct step step;
	double expected_ns;	 /* latency that the roofline expects; 0: unknown */
	double expected_self_ns; /* self time that it expects; 0: unknown */
	double excess, self_excess;
	uint32_t flags; /* STEP_FLAG_* | WINDOW_STEP_* */
	/* kind: the kind of steps that the step is compared with (kinds.h); period: after how many
	 * steps that kind recurs. 0: it is compared with the steps of its phase. */
	uint32_t kind, period;
};
/* Whether the step is a transient: it is longer than any before, so it may never recur. A spike is
 * no transient, because it counts by itself. */
static inline bool window_step_is_transient(const struct window_step *s)
{
	return (s->flags & (WINDOW_STEP_FIRST | WINDOW_STEP_SPIKE)) == WINDOW_STEP_FIRST;
}
/* How much longer it took than expected; negative: faster; 0: no expectation. */
static inline double window_step_lost_ns(const struct window_step *s)
{
	return s->expected_ns > 0 ? (double)s->step.latency_ns - s->expected_ns : 0;
}

/* How much longer its self time was than expected; negative: shorter; 0: no expectation. */
static inline double window_step_lost_self_ns(const struct window_step *s)
{
	return s->expected_self_ns > 0 ? (double)s->step.self_ns - s->expected_self_ns : 0;
}

/* The oldest work on a rank's GPU that was launched but not seen to end, while the rank makes no
 * steps. Later work may wait for it, never the reverse. */
enum beat_unfinished_kind {
	BEAT_UNFINISHED_NONE = 0,
	BEAT_UNFINISHED_KERNEL = 1,
	BEAT_UNFINISHED_COLLECTIVE = 2, /* a kernel that waits for other ranks */
	BEAT_UNFINISHED_GRAPH = 3,	/* of a graph launch; the kernel is unknown */
	/* The GPU has nothing to do. What the launch thread has been blocked in since launch_ns: */
	BEAT_UNFINISHED_HOST = 4,    /* a collective on the CPU: it waits for other ranks */
	BEAT_UNFINISHED_HELD = 5,    /* something else that is not a wait for requests */
	BEAT_UNFINISHED_MESSAGE = 6, /* a message of another rank, on the CPU */
};
struct beat_unfinished {
	uint32_t kind;
	uint32_t stream; /* the stream's number in records */
	uint64_t launch_ns;
	/* The kernel's name, cut; "": unknown. COLLECTIVE: the function. HELD, MESSAGE: the
	 * account. */
	char name[WIRE_TEXT_BYTES];
};

struct window {
	uint8_t id[16]; /* random; idempotence key */
	struct wire_rank rank;
	uint64_t begin_ns, end_ns;
	int64_t realtime_offset_ns;
	uint64_t clock_error_ns;
	uint32_t reason;	/* enum window_reason */
	uint32_t sequence;	/* number among the rank's windows of one continuing anomaly, from
				  * 0 */
	uint8_t anomaly_id[16]; /* equal in all windows of one continuing anomaly */
	bool summary_only;	/* sent without records: token bucket, or a peer is the culprit */
	uint32_t model_state;	/* enum roofline_state of the latency model */
	double model_r2, model_spread;
	uint64_t raw_bytes; /* ring bytes from which the window's records were made */
	/* The rank has made no steps from this time until at least end_ns; 0: it makes steps.
	 * unfinished: set only if this is not 0, and without its stream. */
	uint64_t open_since_ns;
	struct beat_unfinished unfinished;
	/* The arrays belong to whoever made the window (see wire_window_free). */
	struct window_step *steps;
	uint32_t step_count;
	struct record *host, *device; /* each in canonical order */
	uint32_t host_count, device_count;
	char **names; /* names[0] == "" ; record.name indexes it */
	uint32_t name_count;
	/* CPU stacks of the rank's process and its children; no samples: none taken, or not
	 * sent. */
	struct stack_batch stacks;
	/* What the operating system did to the rank in this time, most important first. */
	struct os_signal *signals;
	uint32_t signal_count;
	/* The rank's losses up to this window, by cause; texts are short identifiers. */
	struct {
		char cause[32];
		uint64_t count;
	} losses[WIRE_LOSS_MAX];
	uint32_t loss_count;
};
/* The flag that marks the window's slow steps: WINDOW_STEP_FLAGGED; if no step has it,
 * WINDOW_STEP_OUT; 0: no step is slow. */
uint32_t window_slow_flag(const struct window *w);
/* Whether the window's transients count as slow steps. They count only if no other step has any of
 * these flags, because transients are not the reason why other steps are slow. */
bool window_transients_count(const struct window *w, uint32_t slow_flags);
/* Index of the step that contains the time t; step_count: none. */
uint32_t window_step_at(const struct window *w, uint64_t t);

/* A step group: consecutive steps of one rank as one row. It contains the steps first_step to
 * first_step + count - 1 in the rank's own numbering (beat_coll.step relates the numberings of
 * ranks). count is a power of two, first_step a multiple of it. Rows ascend and do not overlap. */
#define BEAT_GROUPS_MAX	     32
#define BEAT_GROUP_STEPS_MAX (1u << 20)
struct beat_group {
	uint64_t first_step;
	uint64_t end_ns; /* end of its last step */
	uint32_t count;
	uint32_t used;	  /* steps behind the figures: complete, without a host stall */
	uint32_t flagged; /* used steps that the roofline flagged */
	/* Medians of the used steps, and the spread (MAD) of self time; 0: unknown. The wire keeps
	 * times to 1/16,384 of the shortest latency of the beat's groups (docs/wire-format.md). */
	double latency_ns, self_ns, self_mad_ns;
	double exposed_comm_ns, compute_ns, idle_ns, copy_ns;
	double kernels; /* launches; a whole number */
	double blocks;	/* thread blocks launched; a whole number */
};

/* A sampled collective. A pure function of (comm, func, seq) selects one of 2^coll_shift
 * collectives (beat_sample.h). So ranks with the same coll_shift select the same ones, and a rank
 * with a smaller one selects these and more. */
#define BEAT_COLLS_MAX 24
struct beat_coll {
	uint64_t comm;
	uint32_t func, seq;
	uint64_t step; /* the rank's step that was open at the call; UINT64_MAX: unknown */
	/* call_ns: the host's call; begin_ns, end_ns: the kernel; 0: not seen */
	uint64_t call_ns, begin_ns, end_ns;
};

/* A communicator of the rank, and the last collective that the rank entered. Used to find roles and
 * hangs. */
#define BEAT_COMMS_MAX 16
struct beat_comm {
	uint64_t comm;
	uint32_t ranks, rank; /* size, and own number in it; ranks 0: unknown */
	uint64_t entered;     /* collectives entered since the communicator was made */
	uint64_t ended; /* entered collectives up to the last one whose kernel was seen to end */
	uint32_t func, seq; /* the last one entered */
	uint64_t bytes;
	uint64_t call_ns, done_ns; /* start of its call; end of its kernel, 0: not seen */
	/* The first collective that was not seen to end (number ended + 1). Needed because ranks go
	 * on entering collectives after the one that hangs. Reported only if nothing was entered
	 * for a while. open_func 0: not reported. dtype as in records. */
	uint32_t open_func, open_seq, open_dtype;
	uint64_t open_bytes;
};

struct request_job;

#define BEAT_RANK_ANOMALY 0x01 /* a window is open */
/* its self time, or the comparison with its peers on the node, makes it a suspect */
#define BEAT_RANK_SUSPECT 0x02
#define BEAT_RANK_PEER	  0x04 /* slow compared with its peers on the node */
#define BEAT_RANK_STALLED 0x08 /* it hangs */
#define BEAT_RANK_WIDE	  0x10 /* sampled at full rate */
/* Its process has ended: the beat has its last counts only. Sent for 15 s. */
#define BEAT_RANK_ENDED 0x20

struct beat_rank {
	struct wire_rank rank;
	uint32_t trace_state, cupti_state, model_state;
	uint32_t coll_shift;	 /* one of 2^coll_shift collectives is sampled */
	uint64_t steps, flagged; /* since attach */
	double latency_median_ns, latency_mad_ns, self_median_ns, expected_ns; /* last period */
	double compute_ns, comm_ns, exposed_comm_ns, copy_ns, idle_ns;	       /* medians */
	uint64_t events, lost;						       /* since attach */
	uint64_t stalled_since_ns; /* when the rank stopped, if BEAT_RANK_STALLED; else 0 */
	uint64_t kernels_joined, kernels_unmatched;
	struct beat_group groups[BEAT_GROUPS_MAX]; /* since the last beat, in order */
	struct beat_coll colls[BEAT_COLLS_MAX];
	struct beat_comm comms[BEAT_COMMS_MAX];
	uint32_t flags; /* BEAT_RANK_* */
	uint32_t group_count, coll_count, comm_count;
	struct beat_unfinished unfinished; /* kind 0: none */
};

/* What is usual for one rank, at most LIMIT_SKETCH_BYTES_PER_RANK per minute. Texts are valid
 * UTF-8, owned by whoever made the sketch. */
struct sketch_function {
	char *name;			/* as shown to people; "file+0x..." without a symbol */
	uint32_t kind;			/* enum function_kind */
	double self_share, total_share; /* shares of the rank's CPU time; to 1e-6 */
	double off_ns; /* blocked time per step with this function on the stack, of the launch
		        * threads; a whole number */
};
struct sketch_kernel {
	char *name;		      /* mangled */
	double per_step, ns_per_step; /* to 1/1000 of a call; whole nanoseconds */
};
#define SKETCH_KINDS_MAX 8u
struct sketch_setting {
	char *name, *value;
};
struct sketch {
	struct wire_rank rank;
	uint64_t begin_ns, end_ns;
	int64_t realtime_offset_ns;
	uint64_t steps, flagged; /* counts of this minute */
	double latency_ns, latency_mad_ns, self_ns, self_mad_ns, compute_ns, comm_ns,
	    exposed_comm_ns, copy_ns, idle_ns; /* per step, medians of the healthy steps */
	double launches;		       /* median launches per healthy step */
	/* cpu_ns: on-CPU time of all threads per step; samples: effective number */
	double cpu_ns, samples;
	/* how long the launch threads were blocked per step, and waited for the GIL */
	double off_ns, gil_wait_ns;
	uint32_t model_state; /* enum roofline_state of the latency model */
	double model_r2;
	uint32_t functions_cut, kernels_cut; /* entries without room */
	struct sketch_function *functions;
	struct sketch_kernel *kernels;
	struct sketch_setting *settings;
	uint32_t function_count, kernel_count, setting_count;
	struct kinds_row kinds[SKETCH_KINDS_MAX]; /* since attach; most expensive first */
	uint32_t kind_count;
};
void wire_sketch_free(struct sketch *s); /* frees the arrays and texts, not the struct */

struct beat {
	char node[WIRE_TEXT_BYTES];
	char version[WIRE_VERSION_BYTES]; /* version of its sysomd; "": not stated */
	uint32_t wire_version;		  /* wire version of the decoded message */
	uint8_t boot_id[16];		  /* identifies this run of sysomd */
	uint64_t sequence, now_ns;
	int64_t realtime_offset_ns;
	uint64_t uploaded_bytes, raw_bytes; /* since start, all ranks */
	uint64_t windows_dropped;
	struct beat_rank *ranks;
	uint32_t rank_count;
	struct request_job *requests; /* model/request.h; each for a job of one of the ranks */
	uint32_t request_count;
	struct request_pieces *pieces; /* model/request.h; each for a job of one of the ranks */
	uint32_t piece_jobs;
};

/* For decoded windows: frees the arrays inside (all names are one allocation), not the struct. */
void wire_window_free(struct window *w);
void wire_beat_free(struct beat *b);

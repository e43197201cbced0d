/* SPDX-License-Identifier: Apache-2.0
 * node.h - the data that sysomd's parts share: one node, and the processes attached to it.
 *
 *   node
 *    +- settings, loop, reader, clock     what every part uses
 *    +- processes[]                       by slot; NULL: free
 *    |   +- id, pid, uid                  who it is
 *    |   +- link                          its socket and pidfd; commands and their answers
 *    |   +- reader -> lanes               its ring, drained lane by lane
 *    |   +- join                          events become records
 *    |   +- rank                          records become steps, which are judged
 *    |   +- kept                          what a restarted sysomd would know of it
 *    +- admission                         who may attach; counts
 *    +- analysis                          shared by all ranks: recorder, canary, windows, log
 *    +- drain, keep, ship, http, ...      the parts; each one's state is known to its own file
 *
 *   ring -> drain -> join -> rank -> windows -> ship -> uplink
 *
 * Threads: everything here belongs to the loop's thread; uplink, stacks, os, gpu, sketch_maker and
 * offer have threads of their own inside. */
#pragma once

#include <sys/types.h>

#include "base/daemon/loop.h"
#include "base/daemon/quota.h"
#include "base/limits.h"
#include "node/join/clockmap.h"
#include "node/join/join.h"
#include "node/links.h"
#include "node/rank.h"
#include "node/windows.h"
#include "reader/reader.h"
#include "ring/attach.h"
#include "sidecar/settings.h"
#include "sidecar/uplink.h"

#define NODE_TEND_MS 250u
/* Interval of both timers while there is no process. The first attach ends the idle state at
 * once. */
#define NODE_IDLE_MS 1000u

enum process_state {
	PROCESS_ATTACHED = 1, /* socket open */
	PROCESS_DETACHED = 2, /* socket closed, process alive as far as we know */
	PROCESS_GONE = 3,     /* ended; its records are kept for a while */
};

/* Connection to the process; process.c writes it. */
struct process_link {
	int sock, pidfd; /* -1: none */
	struct loop_source *sock_source, *pid_source;
	uint32_t command_serial, acked_serial;
	uint32_t trace_state, cupti_state; /* as the process reports: RING_TRACE_*, RING_CUPTI_* */
};

/* How far its ring is read; drain.c writes it. */
struct process_lanes {
	uint8_t kind[LIMIT_RING_LANES]; /* enum ring_lane_kind */
	uint32_t next;			/* the lane at which the last batch stopped */
	bool backlog;			/* events are left unread in this turn */
	uint64_t lapped_seen;		/* ring_stats.lost_lapped, already reported as a gap */
	uint64_t drained_ns;		/* start of the latest turn that read it */
};

/* Counts from objects that were closed: readers of earlier attaches, and the join of a process that
 * is gone. */
struct process_past {
	uint64_t events, lost, bytes;
	struct join_stats join;
};

/* Its baseline as last saved; keep.c writes it. */
struct process_kept {
	/* total: number of steps learned by then; at_ns: when it was saved */
	uint64_t total, at_ns;
	uint32_t ready; /* number of models that were ready by then, and still are */
};

/* What the launch thread waits for while nothing happens (ship.c). */
struct process_wait {
	/* still_ns: since when it stands still; looked_ns: time of the latest look */
	uint64_t still_ns, looked_ns;
	struct beat_unfinished found;
};
struct process {
	struct node *node;
	uint32_t slot;
	uint64_t serial; /* counts processes since start: owner in the recorder */
	enum process_state state;
	pid_t pid; /* in our pid namespace, by SO_PEERCRED; 0: not visible from here */
	uid_t uid;
	struct wire_rank id;
	char libs[ATTACH_TEXT_BYTES];
	uint64_t attached_ns, left_ns; /* left_ns: when it was detached or went */
	struct process_link link;
	struct ring_reader *reader;
	struct process_lanes lanes;
	struct join *join; /* NULL once it is gone and fully read */
	struct rank *rank;
	struct links *links;
	struct process_past past;
	struct process_kept kept;
	/* serial of the list of launch threads (of the join) that was last given to the sampler */
	uint32_t launchers_seen;
	uint64_t sketch_at_ns;	     /* when the latest sketch was made; 0: none yet */
	struct anomaly_bucket asked; /* limits the windows that the aggregator asks for */
	struct process_wait wait;
	/* restarts: how often its rank was restarted in this run of the job; before_pid: the
	 * process whose place it took, 0: none */
	uint32_t restarts, before_pid;
};

/* This run of sysomd. */
struct node_run {
	uint8_t boot_id[16]; /* differs in each run */
	double cpu_share;    /* sysomd's own use of one core, over the last 5 s */
	bool idle;	     /* no process is known, so nothing is measured */
	struct loop_source *drain_timer, *tend_timer;
};

/* A rank whose process ended while other ranks of its job continued. */
struct process_ended {
	char job[WIRE_TEXT_BYTES]; /* "": free */
	int32_t rank;
	uint32_t pid, restarts;
};

/* Slots by user, and the outcomes of attaching. process.c and registration.c write it. */
struct admission {
	struct quota quota;
	uint64_t serial; /* processes since start */
	uint64_t attached, reattached, refused_full, refused_bad, refused_busy;
	uint64_t rests;		 /* pauses in accepting connections, after refusals */
	uint64_t gave_way;	 /* processes detached to make room, because their user had most */
	uint64_t raw_bytes_gone; /* ring bytes of processes that are forgotten */
	uint64_t restarts;	 /* processes that took the place of one that had ended */
	struct process_ended ended[LIMIT_NODE_ENDED]; /* ring */
	uint32_t ended_next;
};

/* What the ranks' analysis shares. */
struct node_analysis {
	/* settings of every rank; the scratch is shared, because one thread judges all ranks */
	struct rank_config rank;
	struct recorder *recorder;
	struct canary *canary; /* NULL: off */
	struct windows *windows;
	struct analysis_log *log; /* NULL: the analysis is not recorded */
	uint64_t closer_until_ns; /* until then beats come faster and every tick is sampled */
};

struct node {
	struct settings settings;
	struct node_run run;
	struct loop *loop;
	struct reader *reader; /* reads files and memory of other processes */
	struct clockmap clock;
	struct process *processes[LIMIT_NODE_PROCESSES]; /* by slot; NULL: free */
	struct admission admission;
	struct node_analysis analysis;
	struct drain *drain;		   /* drain.h */
	struct keep *keep;		   /* keep.h */
	struct ship *ship;		   /* ship.h */
	struct otlp_export *otlp;	   /* NULL: no receiver */
	struct tls *tls;		   /* wire/link/tls.h; NULL: plain TCP */
	struct uplink *uplink;		   /* uplink.h */
	struct requests *requests;	   /* requests.h */
	struct request_node *request_node; /* serving/request_node.h */
	struct http *http;		   /* http.h */
	struct cpu_stacks *stacks;	   /* stacks/cpu_stacks.h; NULL: not opened */
	struct sketch_maker *sketch_maker; /* stacks/sketch_maker.h; NULL: not opened */
	struct symbol_offer *offer;	   /* stacks/symbol_offer.h; NULL: off, or no aggregator */
	const char *offer_why; /* why symbols are not offered although they should be; "" */
	struct os_node *os;    /* os/os_node.h; NULL: off */
	struct gpu_node *gpu;  /* gpu/gpu_node.h; NULL: off */
	struct ras_node *ras;  /* ras/ras_node.h; NULL: off */
};

/* Whether everything that the process recorded has been read. p: may be NULL. */
static inline bool process_is_read(const struct process *p)
{
	return p && p->state == PROCESS_ATTACHED && p->link.trace_state == RING_TRACE_ON &&
	       !p->lanes.backlog;
}

/* SPDX-License-Identifier: Apache-2.0
 * node.h - what sysomd's parts share: settings, the loop, the processes of this node.
 * Threads: everything here belongs to the loop's thread; uplink and canary have their own inside. */
#ifndef SYSOM_SIDECAR_NODE_H
#define SYSOM_SIDECAR_NODE_H

#include <sys/types.h>

#include "base/http/http_hosts.h"
#include "base/daemon/loop.h"
#include "base/limits.h"
#include "base/daemon/quota.h"
#include "node/join/clockmap.h"
#include "node/join/join.h"
#include "node/rank.h"
#include "node/windows.h"
#include "reader/reader.h"
#include "ring/attach.h"
#include "sidecar/uplink.h"

#define NODE_PATH_BYTES 256
/* A wake-up and cold caches cost more than the events of 10 ms; but no lane may fill meanwhile, and
 * a step is judged one turn after its end at the latest. */
#define NODE_DRAIN_MS	  10u
#define NODE_DRAIN_MAX_MS 40u
#define NODE_TEND_MS	  250u
#define NODE_IDLE_MS	  1000u /* both, while there is no process: its attach ends that at once */
/* Cause of a RECORD_GAP that sysomd itself saw: events were overwritten before they were read. */
#define NODE_GAP_LAPPED 64u

struct settings {
	char socket_path[NODE_PATH_BYTES], control_path[NODE_PATH_BYTES],
	    state_dir[NODE_PATH_BYTES];
	char http_listen[NODE_PATH_BYTES], http_hosts[HTTP_HOSTS_BYTES],
	    http_see_all[NODE_PATH_BYTES];
	char uplink_url[NODE_PATH_BYTES], node_name[WIRE_TEXT_BYTES];
	uint64_t recorder_memory_bytes, recorder_file_bytes;
	uint64_t spool_bytes, spool_age_ns;
	uint64_t beat_ns, beat_suspect_ns, sketch_ns;
	bool sketch_symbols;
	int log_level, roofline_mode, peers_mode;
	uint64_t learn_min, learn_max, persist_n, persist_m;
	double tail_mads, floor_ratio;
	uint64_t window_margin, window_steps, window_length_ns, window_records;
	double window_burst, window_per_minute, asked_per_minute;
	uint64_t hold_bytes;
	uint64_t stall_ns;
	bool canary, canary_realtime, node_peers;
	bool automatic_steps;
	char record_analysis[NODE_PATH_BYTES];
	uint64_t record_analysis_bytes;
	/* CPU stacks */
	int sampler_mode; /* enum sampler_mode, the best to try */
	uint64_t sampler_rate_hz, sampler_fraction, sampler_period_ns, sampler_off_cpu_min_ns;
	bool sampler_off_cpu, sampler_python, sampler_all, sampler_wide;
	/* symbol files for the aggregator */
	char uplink_http[NODE_PATH_BYTES];
	uint64_t symbols_rate, symbols_per_day;
	bool symbols_offer;
	/* OS signals */
	bool os_signals, os_bpf;
	double os_bpf_budget; /* percent of the time of all CPUs */
	/* GPU telemetry */
	bool gpu_on;
	uint64_t gpu_period_ns;
	char gpu_library[NODE_PATH_BYTES];
	char proc_root[NODE_PATH_BYTES], sys_root[NODE_PATH_BYTES];
};

enum process_state {
	PROCESS_ATTACHED = 1, /* socket open */
	PROCESS_DETACHED = 2, /* socket closed, process alive as far as we know */
	PROCESS_GONE = 3,     /* ended; its records are kept for a while */
};

struct process {
	struct node *node;
	uint32_t slot;
	uint64_t serial; /* counts processes since start: owner in the recorder */
	enum process_state state;
	int sock, pidfd;
	struct loop_source *sock_source, *pid_source;
	pid_t pid; /* in our pid namespace, by SO_PEERCRED; 0 not visible from here */
	uid_t uid;
	struct wire_rank id;
	char libs[ATTACH_TEXT_BYTES];
	struct ring_reader *reader;
	struct join *join;
	struct rank *rank;
	uint32_t launchers_seen;	     /* serial of the join's list that the sampler knows */
	uint8_t lane_kind[LIMIT_RING_LANES]; /* enum ring_lane_kind */
	uint32_t lane_next;
	bool backlog;
	uint64_t attached_ns, left_ns; /* left: detached or gone since */
	uint64_t lapped_seen, drained_ns;
	/* Readers of an earlier attach of the same process. */
	uint64_t earlier_events, earlier_lost, earlier_bytes;
	struct join_stats last_join;	   /* of one that is gone */
	uint32_t trace_state, cupti_state; /* as the process says */
	uint32_t command_serial, acked_serial;
	uint64_t baseline_total, baseline_at_ns; /* learned steps at the latest save, and when */
	uint32_t baseline_armed;		 /* models that judged by then, and still do */
	uint64_t sketch_at_ns;			 /* of the latest; 0: none yet */
	struct anomaly_bucket asked;		 /* windows that the aggregator may still ask for */
};

struct node_stats {
	uint64_t attached, reattached, refused_full, refused_bad, refused_busy, ended;
	uint64_t attach_rests; /* times that no connection was taken for a while, after refusals */
	uint64_t gave_way; /* processes put out, since their user had most and others had less */
	uint64_t drain_turns, drain_behind; /* turns that ended with events left */
	uint64_t raw_bytes_gone;	    /* ring bytes of processes that are forgotten */
	uint64_t beat_oversize, window_failed;
	uint64_t baselines_restored, baselines_armed, baseline_steps_restored;
	uint64_t baselines_bad, baseline_errors;
	double cpu_share;
	uint64_t cpu_ns_before, cpu_at_ns;
};

struct viewer;	     /* viewer.h */
struct registration; /* registration.c */
struct http;	     /* http.c */
struct cpu_stacks;   /* cpu_stacks.c */
struct symbol_offer; /* symbol_offer.c */
struct os_signals;   /* os_signals.c */
struct sketch_maker; /* sketch_maker.c */
struct requests;     /* requests.c */
struct os_opening;   /* os_node.c */
struct gpu_node;     /* gpu_node.c */

struct node {
	struct settings settings;
	struct loop *loop;
	struct reader *reader; /* what reads other processes */
	int failed;	       /* -errno: why the loop was ended, other than on request */
	struct clockmap clock;
	struct recorder *recorder;
	struct uplink *uplink;
	struct canary *canary;
	/* No process is known: what looks at the machine for the ranks' sake stands still. */
	bool idle, os_paused;
	struct loop_source *tend_timer;
	struct registration *registration;
	struct http *http;
	struct cpu_stacks *stacks;  /* cpu_stacks.c; NULL: not opened */
	struct symbol_offer *offer; /* symbol_offer.c; NULL: off, or nobody to offer to */
	struct requests *requests;
	struct windows *windows;
	struct analysis_log *log;	   /* NULL: what is analysed is not recorded */
	uint64_t closer_until_ns;	   /* till then beats at a suspect's pace, and all ticks */
	struct sketch_maker *sketch_maker; /* sketch_maker.c; NULL: off */
	struct os_signals *os;		   /* NULL: switched off, or being loaded */
	struct os_opening *os_opening;	   /* os_node.c; NULL: not being loaded */
	struct gpu_node *gpu;		   /* NULL: switched off */
	struct process *processes[LIMIT_NODE_PROCESSES]; /* NULL: free */
	struct quota process_quota;			 /* slots in it, by user */
	uint32_t drain_first; /* slot that the next round of a turn begins with */
	uint64_t process_serial, beat_sequence, beat_at_ns, started_ns;
	struct loop_source *drain_timer;
	double drain_fill;	/* of this turn: the fullest lane, by what was in it */
	uint32_t drain_ms;	/* between turns, now */
	uint64_t drain_calm_ns; /* since then turns could have come half as often */
	uint8_t boot_id[16];
	uint32_t boot;	 /* spool_boot() */
	int baseline_fd; /* directory; -1: what is learned is not kept */
	uint32_t baseline_next;
	struct judge_sample *samples; /* RANK_LEARNED, for saving and restoring */
	int lock_fd;		      /* on state.dir; -1: could not be made */
	struct node_stats stats;
	struct rank_config rank_config;
	void *steps_scratch;	 /* of all ranks' steps: one thread judges them */
	union ring_event *batch; /* LIMIT_DRAIN_BATCH */
	uint32_t *name_map;	 /* of ship.c: LIMIT_NAME_COUNT + 1 */
};

/* registration.c: the attach socket */
int registration_open(struct node *n);
void registration_close(struct node *n); /* commands ATTACH_... are not sent: the jobs run on */
/* Drops connections that never said hello. */
void registration_tend(struct node *n, uint64_t now_ns);

/* process.c: one process's life */
/* Takes fds, and on success sock. -EDQUOT, -EPROTO and what ring_reader_open says. */
int process_attach(struct node *n, const struct attach_hello *h, pid_t pid, uid_t uid, int sock,
		   const int fds[ATTACH_FDS]);
void process_forget(struct process *p);
/* Ends processes that are gone, forgets those gone for long; without any the node is idle. */
void process_tend(struct node *n, uint64_t now_ns);
/* Idle, nothing looks at the machine: no canary, no BPF program, hardly a timer. */
void process_idle(struct node *n, bool idle);
/* enum attach_command_kind; the serial, or -errno. */
int64_t process_command(struct process *p, uint32_t kind);
uint64_t process_lost(const struct process *p);
/* Calls, launches and collectives that were not recorded since tracing was switched off: no loss. */
uint64_t process_switched_off(const struct process *p);
uint64_t process_raw_bytes(const struct process *p);
uint64_t process_events(const struct process *p);
/* Of the kernels and launches so far, also of a process that is gone; never NULL. */
const struct join_stats *process_join_stats(const struct process *p);
/* Losses by cause, through fn. */
void process_losses(const struct process *p,
		    void (*fn)(void *arg, const char *cause, uint64_t count), void *arg);
/* Matches a job ("" or NULL: any) and rank (INT32_MIN: any). */
bool process_matches(const struct process *p, const char *job, int32_t rank);
/* A closer look is wanted: a rank is in an anomaly, or somebody asked for it. */
bool process_any_anomaly(const struct node *n, uint64_t now_ns);

/* keep.c: what is learned, for a successor */
void keep_open(struct node *n);	      /* a directory that can't be used is told and done without */
void keep_close(struct node *n);      /* saves all; keeps the files */
void keep_restore(struct process *p); /* before its first record */
/* Saves the next process that has learned enough since; one a call. */
void keep_tend(struct node *n, uint64_t now_ns);
/* Processes whose successor would not know yet what they know. */
uint32_t keep_due(const struct node *n, uint64_t now_ns);
void keep_forget(struct process *p); /* the process has ended */

/* drain.c: rings -> join -> rank */
/* Before the process is told that it is accepted. */
void drain_prepare(struct process *p);
void drain_turn(struct node *n);
/* Sets drain_ms for the next turns, from how full this one found the fullest lane: NODE_DRAIN_MS to
 * NODE_DRAIN_MAX_MS, shorter at once and longer by and by. */
void drain_pace(struct node *n, double fill, uint64_t now_ns);
/* All that is left of one process. */
void drain_last(struct process *p);

/* ship.c: windows and beats */
int ship_open(struct node *n); /* which windows are made; after the log. -ENOMEM */
/* Windows that are due; ranks that have stopped. */
void ship_tend(struct node *n, uint64_t now_ns);
void ship_flush(struct node *n); /* closes and sends every open window */
/* A window of what is recorded: reason WINDOW_ASKED or WINDOW_MANUAL. 0 or -errno. */
int ship_range(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	       const uint8_t *anomaly_id); /* 16 bytes; NULL: one of its own */
/* The same, not sent: the message into an uninitialised buffer, the caller's to free. */
int ship_pack(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	      const uint8_t *anomaly_id, struct buf *out);
void ship_beat(struct node *n, uint64_t now_ns);

/* http.c: /metrics, /healthz, status, control */
int http_open(struct node *n);
void http_close(struct node *n);
void http_tend(struct node *n, uint64_t now_ns);
const struct http_counts *http_counts(const struct node *n);

/* os_node.c: OS signals of the ranks */
int os_node_open(struct node *n);
void os_node_close(struct node *n);
/* Once a second: follows the processes, reads the counters. */
void os_node_tend(struct node *n, uint64_t now_ns);
/* Signals of the window's stretch into w->signals (allocated). */
void os_node_fill(struct process *p, struct window *w);
void os_node_json(const struct node *n, struct buf *out);
void os_node_metrics(const struct node *n, struct buf *out);

/* gpu_node.c: what the GPUs say of themselves */
int gpu_node_open(struct node *n);
void gpu_node_close(struct node *n);
/* New readings become signals of the ranks. Once a second, and before a window is made. */
void gpu_node_tend(struct node *n, uint64_t now_ns);
void gpu_node_json(const struct node *n, const struct viewer *v, struct buf *out);
void gpu_node_metrics(const struct node *n, struct buf *out);

/* status.c: texts of what is known */
/* With the ranks that the viewer may see, and how many there are besides. */
void status_json(struct node *n, const struct viewer *v, struct buf *out);
void status_metrics(struct node *n, const struct viewer *v, struct buf *out);
/* status_compare.c: beats, sketches, peers, commands */
void status_compare_json(struct node *n, struct buf *out);
void status_compare_metrics(struct node *n, struct buf *out);
uint64_t status_rss_bytes(void);
uint64_t status_retention_ns(const struct node *n, uint64_t now_ns);
const char *status_trace_name(uint32_t state);
const char *status_cupti_name(uint32_t state);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * sysomd runs once per node. It reads the rings of the jobs' processes, judges their steps, records
 * everything for a while and sends slow steps to the aggregator. One loop thread does this. Other
 * threads do work that may block (uplink), or that must not wait for the loop (canary). */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/daemon/config.h"
#include "base/daemon/dirs.h"
#include "base/daemon/log.h"
#include "base/daemon/rights.h"
#include "base/daemon/service.h"
#include "base/daemon/watchdog.h"
#include "base/exit_status.h"
#include "base/http/http_address.h"
#include "base/http/http_server.h"
#include "sidecar/drain.h"
#include "sidecar/gpu/gpu_node.h"
#include "sidecar/http.h"
#include "sidecar/keep.h"
#include "sidecar/links_node.h"
#include "sidecar/ras/ras_node.h"
#include "sidecar/os/os_node.h"
#include "sidecar/process.h"
#include "sidecar/registration.h"
#include "sidecar/requests.h"
#include "sidecar/serving/request_node.h"
#include "sidecar/ship.h"
#include "sidecar/stacks/cpu_stacks.h"
#include "sidecar/stacks/sketch_maker.h"
#include "sidecar/stacks/symbol_offer.h"

#define DEFAULT_CONFIG "/etc/sysom/sysomd.yaml"
/* After SIGTERM: how long to send queued messages. What remains waits in the spool. */
#define LINGER_MS 3000u
/* All windows are in the spool by then, so nothing is worth a longer wait. */
#define CLOSE_S 3u
/* Larger allocations use mmap and return to the kernel when freed. */
#define MALLOC_MMAP_BYTES (128 << 10)

#define KEY(field, key, type, initial, help, ...)                                                  \
	CONFIG_KEY(struct settings, field, key, type, initial, help, __VA_ARGS__)

static const struct config_key keys[] = {
    KEY(socket_path, "socket.path", CONFIG_STRING, "",
	"attach socket; empty: /run/sysom/sysomd.sock, or in a private directory of the user"),
    KEY(control_path, "control.path", CONFIG_STRING, "",
	"HTTP control socket; empty: control.sock beside the attach socket"),
    KEY(state_dir, "state.dir", CONFIG_STRING, "",
	"directory of spool and recorder files; empty: /var/lib/sysom, or a private one of "
	"the user"),
    KEY(node_name, "node.name", CONFIG_STRING, "", "name of this node; empty: the host name"),
    KEY(log_level, "log.level", CONFIG_ENUM, "info", "lowest level that is logged",
	.choices = "error|warn|info|debug"),
    HTTP_SETTINGS_KEYS(struct settings, http, "127.0.0.1:9470",
		       "ADDRESS:PORT of /metrics, /healthz and /api/v1/status; empty: no server"),
    KEY(uplink_url, "uplink.url", CONFIG_STRING, "tcp://127.0.0.1:9471",
	"address of the aggregator; empty: windows stay in the spool"),
    KEY(uplink_http, "uplink.http", CONFIG_STRING, "",
	"the aggregator's HTTP URL, for symbol files; empty: port 9472 if uplink.url has "
	"port 9471, else none"),
    KEY(uplink_http_ca, "uplink.http_ca", CONFIG_STRING, "",
	"PEM file of the certificates that may sign the one at uplink.http; empty: the system's"),
    KEY(uplink_http_token, "uplink.http_token", CONFIG_STRING, "",
	"file with the upload token for uplink.http, mode 0640 or less"),
    KEY(tls_name, "tls.name", CONFIG_STRING, "",
	"name that the aggregator's certificate must have; empty: the host of uplink.url"),
    TLS_SETTINGS(KEY, tls),
    OTLP_SETTINGS(KEY, otlp),
    KEY(spool_bytes, "spool.bytes", CONFIG_BYTES, "500MB",
	"size limit of windows that wait for the aggregator; the oldest are dropped first",
	.min = 1e6, .max = 1e12),
    KEY(spool_age_ns, "spool.age", CONFIG_DURATION, "1h",
	"age at which a window that waits for the aggregator is dropped", .min = 1e9, .max = 3e15),
    KEY(recorder_memory_bytes, "recorder.memory", CONFIG_BYTES, "32MiB",
	"memory for compressed records", .min = 1e6, .max = 64e9),
    KEY(recorder_file_bytes, "recorder.files", CONFIG_BYTES, "1GB",
	"disk space below state.dir for older records; 0: no files", .min = 0, .max = 1e12),
    KEY(beat_ns, "beat.period", CONFIG_DURATION, "5s", "interval between beats to the aggregator",
	.min = 1e8, .max = 600e9),
    KEY(beat_suspect_ns, "beat.suspect", CONFIG_DURATION, "1s",
	"interval between beats while a rank of this node is a suspect or has a window open",
	.min = 1e8, .max = 600e9),
    KEY(sketch_ns, "sketch.period", CONFIG_DURATION, "60s",
	"interval between sketches of each rank; the first follows when the rank's model is "
	"ready",
	.min = 1e9, .max = 3600e9),
    KEY(sketch_symbols, "sketch.symbols", CONFIG_BOOL, "true",
	"name native functions in sketches from this node's symbol files; false: names are file "
	"and page, such as libcuda.so.1+0x2f5000"),
    KEY(roofline_mode, "roofline.mode", CONFIG_ENUM, "robust",
	"robust: median line with calibrated tail; p99: the StriaTrace paper's 99th "
	"percentile with RANSAC",
	.choices = "robust|p99"),
    KEY(learn_min, "roofline.learn_min", CONFIG_UINT, "50",
	"number of steps that a model learns before it judges; 2.5 times as many if the work is "
	"continuous",
	.min = 10, .max = 100000),
    KEY(learn_max, "roofline.learn_max", CONFIG_UINT, "2000",
	"number of steps after which the baseline no longer changes", .min = 20, .max = 100000),
    KEY(tail_mads, "roofline.tail_mads", CONFIG_DOUBLE, "7",
	"a step is out if its relative residual exceeds this many MADs", .min = 1, .max = 100),
    KEY(floor_ratio, "roofline.floor", CONFIG_DOUBLE, "0.05",
	"a step is never out if its relative excess is below this", .min = 0, .max = 10),
    KEY(persist_n, "roofline.persist_n", CONFIG_UINT, "2",
	"n: a step is flagged if n of the last m steps are out", .min = 1, .max = 64),
    KEY(persist_m, "roofline.persist_m", CONFIG_UINT, "3", "m: see roofline.persist_n", .min = 1,
	.max = 64),
    KEY(automatic_steps, "steps.automatic_only", CONFIG_BOOL, "false",
	"find steps from the launch pattern even if the job marks its steps"),
    KEY(window_margin, "window.margin", CONFIG_UINT, "8",
	"healthy steps that a window includes before and after an anomaly", .min = 0,
	.max = ANOMALY_MARGIN_MAX),
    KEY(window_steps, "window.steps", CONFIG_UINT, "256", "largest number of steps in a window",
	.min = 130, .max = ANOMALY_STEPS_MAX),
    KEY(window_length_ns, "window.length", CONFIG_DURATION, "4s",
	"a window ends at most this long after its first slow step; the next window continues the "
	"anomaly",
	.min = 1e8, .max = 600e9),
    KEY(window_records, "window.records", CONFIG_UINT, "200000",
	"largest number of host records in a window; the same limit holds for device records",
	.min = 1000, .max = LIMIT_WINDOW_RECORDS / 2),
    KEY(window_burst, "window.burst", CONFIG_DOUBLE, "4",
	"full windows of a rank in a burst; further ones become summaries, then only a count",
	.min = 1, .max = 1000),
    KEY(window_per_minute, "window.per_minute", CONFIG_DOUBLE, "3",
	"full windows of a rank per minute in the long run", .min = 0.01, .max = 600),
    KEY(asked_per_minute, "window.asked_per_minute", CONFIG_DOUBLE, "6",
	"windows of a rank that the aggregator may request per minute in the long run", .min = 0,
	.max = 600),
    KEY(hold_bytes, "window.hold", CONFIG_BYTES, "16MiB",
	"memory for windows that the aggregator asked to hold and the recorder would overwrite",
	.min = 0, .max = 1e10),
    KEY(stall_ns, "stall.after", CONFIG_DURATION, "5s",
	"a rank hangs if its GPU has work but makes no progress for this long and at least for the "
	"time of 30 usual steps",
	.min = 1e9, .max = 3600e9),
    KEY(requests_ttft_ns, "requests.ttft", CONFIG_DURATION, "10s",
	"objective of serving jobs: the first token of a request comes within this time",
	.min = 1e6, .max = 3600e9),
    KEY(requests_tpot_ns, "requests.tpot", CONFIG_DURATION, "100ms",
	"objective of serving jobs: each further token takes at most this long, on average over a "
	"request",
	.min = 1e5, .max = 3600e9),
    KEY(sampler_mode, "sampler.mode", CONFIG_ENUM, "bpf",
	"where CPU stacks are unwound: bpf: in the kernel; bpf_tail: there, with tail calls "
	"only; copy: in user space",
	.choices = "off|copy|bpf_tail|bpf"),
    KEY(sampler_rate_hz, "sampler.rate", CONFIG_UINT, "99", "ticks per second on each CPU",
	.min = 10, .max = 999),
    KEY(sampler_fraction, "sampler.fraction", CONFIG_UINT, "10",
	"percent of ticks that take a sample; while a rank is slow, every tick does", .min = 1,
	.max = 100),
    KEY(sampler_period_ns, "sampler.period", CONFIG_DURATION, "5s",
	"interval at which samples are read from the kernel", .min = 5e8, .max = 60e9),
    KEY(sampler_off_cpu, "sampler.off_cpu", CONFIG_BOOL, "true", "sample blocked time"),
    KEY(sampler_off_cpu_min_ns, "sampler.off_cpu_min", CONFIG_DURATION, "1ms",
	"shortest blocked time that is sampled", .min = 1e4, .max = 10e9),
    KEY(sampler_python, "sampler.python", CONFIG_BOOL, "true", "read CPython frames"),
    KEY(sampler_all, "sampler.all", CONFIG_BOOL, "false",
	"sample every process of the node, not only ranks and their children"),
    KEY(sampler_wide, "sampler.wide", CONFIG_BOOL, "true",
	"while a rank is slow, also sample the kernel stacks of other processes, for at most a "
	"minute at a time and 20% of the time in the long run"),
    KEY(symbols_offer, "symbols.offer", CONFIG_BOOL, "true",
	"upload symbol files that the aggregator lacks for the stacks it received"),
    KEY(symbols_rate, "symbols.rate", CONFIG_BYTES, "4 MB",
	"upload limit for symbol files, per second", .min = 65536, .max = 1e10),
    KEY(symbols_per_day, "symbols.per_day", CONFIG_BYTES, "4 GB",
	"upload limit for symbol files, per 24 hours", .min = 0, .max = 1e15),
    KEY(os_signals, "os.on", CONFIG_BOOL, "true",
	"measure what the operating system does to ranks: interrupts, waits, faults, "
	"storage, locks"),
    KEY(os_bpf, "os.bpf", CONFIG_BOOL, "true",
	"measure with BPF: more signals for about 50 ns per context switch; false: only /proc"),
    KEY(os_bpf_budget, "os.bpf_budget", CONFIG_DOUBLE, "0.3",
	"percent of all CPU time that the BPF programs of os.bpf may use; above it the "
	"costliest group pauses; 0: no limit",
	.min = 0, .max = 100),
    KEY(gpu_on, "gpu.on", CONFIG_BOOL, "true",
	"read GPU telemetry with NVML: clocks, throttling, power, temperature, errors"),
    KEY(gpu_period_ns, "gpu.period", CONFIG_DURATION, "500ms",
	"interval between readings of each GPU", .min = 1e8, .max = 60e9),
    KEY(gpu_library, "gpu.library", CONFIG_STRING, "",
	"path of the NVML library; empty: libnvidia-ml.so.1"),
    KEY(ras_port, "ras.port", CONFIG_UINT, "28028",
	"port of NCCL's RAS service on this node; sysomd asks it while a rank makes no progress; "
	"0: "
	"never",
	.min = 0, .max = 65535),
    KEY(proc_root, "proc.root", CONFIG_STRING, "/proc", "mount point of the host's /proc"),
    KEY(sys_root, "sys.root", CONFIG_STRING, "/sys", "mount point of the host's /sys"),
    KEY(node_peers, "peers.on", CONFIG_BOOL, "true",
	"compare ranks of the same job and role on this node"),
    KEY(peers_mode, "peers.mode", CONFIG_ENUM, "robust",
	"how ranks are compared: robust statistics, or mean + 2 sigma over 100 steps as in "
	"the SysOM-AI paper",
	.choices = "robust|sysom"),
    KEY(canary, "canary.on", CONFIG_BOOL, "true",
	"do not judge steps in which the whole machine stood still"),
    KEY(canary_realtime, "canary.realtime", CONFIG_BOOL, "true",
	"use real-time threads on up to 4 CPUs, if allowed, to measure time that a "
	"hypervisor takes"),
    KEY(record_analysis, "record.analysis", CONFIG_STRING, "",
	"file for the input and output of the analysis, which sysom replay window reads; "
	"empty: none"),
    KEY(record_analysis_bytes, "record.analysis_bytes", CONFIG_BYTES, "1GB",
	"size of that file at which the recording ends", .min = 1e5, .max = 1e12),
};

static const char about[] =
    "sysomd: reads the events of this node's GPU jobs from rings in shared memory, finds\n"
    "their steps, judges them, and sends the slow ones to sysom-aggregator.";

/* What only main needs, besides the node. */
struct daemon {
	struct node node;
	struct registration *registration;
	int lock_fd; /* lock on state.dir; -1: the lock file could not be made */
	int failed;  /* -errno: why the loop ended without being asked to */
	uint64_t beat_at_ns;
	/* CPU time used when it was last measured, and when; 0: not measured yet */
	uint64_t cpu_ns, cpu_at_ns;
};

/* ---- paths ---- */

/* Makes the directory (one level) if needed. True if we can write it and nobody else can: others
 * could replace our sockets and files. */
static bool usable_dir(const char *dir, mode_t mode)
{
	struct stat st;

	if (mkdir(dir, mode) && errno != EEXIST)
		return false;
	if (lstat(dir, &st) || access(dir, W_OK | X_OK))
		return false;
	if (!S_ISDIR(st.st_mode))
		log_error("state", "%s is not a directory (a link?): remove it", dir);
	else if (st.st_uid != geteuid() && st.st_uid)
		log_error("state",
			  "%s belongs to uid %u: remove it, or use --socket-path and "
			  "--state-dir for other directories",
			  dir, (unsigned)st.st_uid);
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		log_error("state", "%s can be written by others (mode %o): chmod go-w %s", dir,
			  (unsigned)st.st_mode & 07777, dir);
	else
		return true;
	return false;
}

/* Tries `first`, then $XDG_RUNTIME_DIR/sysom, then /tmp/sysom-UID (0700). */
static int own_dir(char *out, size_t bytes, const char *first)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");

	snprintf(out, bytes, "%s", first);
	if (usable_dir(out, 0755))
		return 0;
	if (xdg && *xdg) {
		snprintf(out, bytes, "%s/sysom", xdg);
		if (usable_dir(out, 0755))
			return 0;
	}
	snprintf(out, bytes, "/tmp/sysom-%u", (unsigned)geteuid());
	return usable_dir(out, 0700) ? 0 : -EPERM;
}

static int set_path(char *out, const char *dir, const char *name)
{
	int n;

	if (*out)
		return 0;
	n = snprintf(out, NODE_PATH_BYTES, "%.*s/%s", NODE_PATH_BYTES - 1, dir, name);
	return n < 0 || n >= NODE_PATH_BYTES ? -ENAMETOOLONG : 0;
}

static int default_paths(struct settings *s)
{
	char dir[NODE_PATH_BYTES];
	char *slash;
	const char *unit = service_state_dir();
	int err;

	if (!*s->socket_path)
		service_listener_path(SOCK_SEQPACKET, s->socket_path, sizeof(s->socket_path));
	if (!*s->control_path)
		service_listener_path(SOCK_STREAM, s->control_path, sizeof(s->control_path));
	if (!*s->socket_path) {
		err = own_dir(dir, sizeof(dir), "/run/sysom");
		if (!err)
			err = set_path(s->socket_path, dir, "sysomd.sock");
		if (err)
			return err;
	}
	snprintf(dir, sizeof(dir), "%s", s->socket_path);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
	err = set_path(s->control_path, slash ? dir : ".", "control.sock");
	if (err)
		return err;
	if (!*s->state_dir && unit)
		snprintf(s->state_dir, sizeof(s->state_dir), "%s", unit);
	if (!*s->state_dir) {
		err = own_dir(dir, sizeof(dir), "/var/lib/sysom");
		if (err)
			return err;
		snprintf(s->state_dir, sizeof(s->state_dir), "%s", dir);
	}
	err = dirs_make(s->state_dir, 0700);
	if (err)
		log_warn("state", "%s: %s; use --state-dir for another directory", s->state_dir,
			 strerror(-err));
	if (!*s->node_name && gethostname(s->node_name, sizeof(s->node_name) - 1))
		strcpy(s->node_name, "unknown");
	return 0;
}

/* Two daemons with one state.dir would send each other's windows and overwrite each other's files.
 * The kernel releases the lock when its holder ends. -EBUSY: another daemon holds it. */
static int take_lock(struct daemon *d)
{
	const char *dir = d->node.settings.state_dir;
	char path[NODE_PATH_BYTES + 8];

	snprintf(path, sizeof(path), "%s/lock", dir);
	d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0) {
		/* An unwritable disk holds no files that two daemons could overwrite. */
		log_warn("state", "%s: %s; nothing is kept on disk", path, strerror(errno));
		return 0;
	}
	if (!flock(d->lock_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK) {
		log_warn("state", "%s: cannot lock: %s", path, strerror(errno));
		return 0;
	}
	log_error("state", "%s: another sysomd uses this state.dir; use --state-dir for another",
		  dir);
	return -EBUSY;
}

/* ---- timers ---- */

static void on_drain(void *arg, uint32_t count)
{
	struct node *n = arg;
	uint32_t before_ms = drain_ms(n->drain);
	uint64_t now_ns;

	drain_turn(n);
	if (drain_ms(n->drain) != before_ms && !n->run.idle)
		loop_timer_period(n->run.drain_timer, drain_ms(n->drain));
	now_ns = clock_monotonic_ns();
	process_tend(n, now_ns);
	http_tend(n, now_ns);
}

static void measure_own(struct daemon *d, uint64_t now_ns)
{
	uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	if (now_ns - d->cpu_at_ns < 5000000000ull && d->cpu_at_ns)
		return;
	if (d->cpu_at_ns)
		d->node.run.cpu_share =
		    (double)(cpu_ns - d->cpu_ns) / (double)(now_ns - d->cpu_at_ns);
	d->cpu_ns = cpu_ns;
	d->cpu_at_ns = now_ns;
}

static void export_metrics(struct node *n)
{
	static const struct http_user everybody = {.roles = HTTP_ROLES_ALL, .all = true};
	struct metrics *m = otlp_export_begin(n->otlp, clock_monotonic_ns());

	if (!m)
		return;
	http_metrics(n, &everybody, m);
	otlp_export_end(n->otlp);
}

static void on_second(void *arg, uint32_t count)
{
	struct daemon *d = arg;
	struct node *n = &d->node;
	struct clockmap_anchor a;

	clockmap_read(&a);
	clockmap_add(&n->clock, &a);
	registration_tend(d->registration, clock_monotonic_ns());
	os_node_tend(n, clock_monotonic_ns());
	gpu_node_tend(n, clock_monotonic_ns());
	links_node_tend(n, clock_monotonic_ns());
	ras_node_tend(n, clock_monotonic_ns());
	measure_own(d, clock_monotonic_ns());
	export_metrics(n);
	service_alive();
}

/* Reports new launch threads to the sampler. */
static void record_launchers(struct node *n)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];
		const struct join_launchers *l =
		    p && p->state == PROCESS_ATTACHED && p->join ? join_launchers(p->join) : NULL;

		if (!l || l->serial == p->launchers_seen || p->pid <= 0)
			continue;
		p->launchers_seen = l->serial;
		cpu_stacks_record_threads(n->stacks, (uint32_t)p->pid, l->tid, JOIN_LAUNCHERS);
	}
}

static void on_tend(void *arg, uint32_t count)
{
	struct daemon *d = arg;
	struct node *n = &d->node;
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t period = windows_is_close(n->analysis.windows, now_ns) || request_node_is_urgent(n)
			      ? n->settings.beat_suspect_ns
			      : n->settings.beat_ns;

	ship_tend(n, now_ns);
	request_node_tend(n, now_ns);
	analysis_log_tend(n->analysis.log, now_ns);
	requests_tend(n, now_ns);
	keep_tend(n->keep, n->processes, now_ns);
	record_launchers(n);
	cpu_stacks_tend(n->stacks, process_any_anomaly(n, now_ns), now_ns);
	sketch_maker_tend(n, now_ns);
	if (d->beat_at_ns && now_ns - d->beat_at_ns < period)
		return;
	d->beat_at_ns = now_ns;
	ship_beat(n, now_ns);
}

/* The keeper forks from a process without threads. This process has threads, so it cannot start
 * another keeper. systemd restarts sysomd, which takes up the rings, the spool and the baselines
 * again. */
static void on_keeper_gone(void *arg, uint32_t events)
{
	struct daemon *d = arg;

	log_error("reader",
		  "the keeper of the reader processes died; sysomd ends, and systemd restarts it");
	d->failed = -ECHILD;
	service_stop(d->node.loop);
}

/* ---- start and end ---- */

/* One scratch for all ranks: one thread judges them. -ENOMEM */
static int fill_rank_config(struct node *n)
{
	const struct settings *s = &n->settings;
	struct rank_config *c = &n->analysis.rank;

	rank_config_default(c);
	c->judge.roofline.mode = s->roofline_mode ? ROOFLINE_P99 : ROOFLINE_ROBUST;
	c->judge.roofline.learn_min = (uint32_t)s->learn_min;
	c->judge.roofline.learn_max = (uint32_t)s->learn_max;
	c->judge.roofline.tail_mads = s->tail_mads;
	c->judge.roofline.instant_mads = 3 * s->tail_mads;
	c->judge.roofline.floor_ratio = s->floor_ratio;
	c->judge.roofline.persist_n = (uint32_t)s->persist_n;
	c->judge.roofline.persist_m = (uint32_t)s->persist_m;
	c->steps.automatic_only = s->automatic_steps;
	c->anomaly.margin_steps = (uint32_t)s->window_margin;
	c->anomaly.steps_max = (uint32_t)s->window_steps;
	c->anomaly.length_max_ns = s->window_length_ns;
	c->anomaly.full_burst = s->window_burst;
	c->anomaly.full_per_s = s->window_per_minute / 60;
	c->anomaly.summary_burst = 4 * s->window_burst;
	c->anomaly.summary_per_s = 4 * s->window_per_minute / 60;
	c->stall_ns = s->stall_ns;
	c->beat_ns = s->beat_ns;
	c->steps.scratch = aligned_alloc(16, steps_scratch_bytes(&c->steps));
	if (!c->steps.scratch)
		return -ENOMEM;
	steps_scratch_init(c->steps.scratch);
	return 0;
}

/* A node may speak only for itself, so its name is its certificate's name. sysomd also runs
 * without usable certificate files, because the job beside a sidecar waits until the sidecar has
 * started. */
static int open_tls(struct node *n)
{
	const struct settings *s = &n->settings;

	return tls_settings_on(&s->tls) ? tls_open_later(&n->tls, &s->tls.files, s->node_name) : 0;
}

static int open_stores(struct node *n)
{
	char spool[NODE_PATH_BYTES + 16], files[NODE_PATH_BYTES + 16];
	struct recorder_config rc = {.memory_bytes = n->settings.recorder_memory_bytes,
				     .file_bytes = n->settings.recorder_file_bytes,
				     .dir = files,
				     .ranks_max = LIMIT_NODE_PROCESSES};
	struct uplink_config uc = {
	    .url = n->settings.uplink_url,
	    .tls = n->tls,
	    .name = n->settings.tls_name,
	    .spool = {spool, n->settings.spool_bytes, n->settings.spool_age_ns, spool_boot()}};
	int err;

	snprintf(spool, sizeof(spool), "%s/spool", n->settings.state_dir);
	snprintf(files, sizeof(files), "%s/recorder", n->settings.state_dir);
	if (rc.file_bytes && mkdir(files, 0700) && errno != EEXIST)
		rc.file_bytes = 0; /* records stay in memory; the retention metric shows it */
	err = recorder_open(&n->analysis.recorder, &rc);
	return err ? err : uplink_open(&n->uplink, &uc, n->loop, requests_take, n);
}

/* Without symbol uploads windows still go out, but their frames have no names. */
static void open_offer(struct node *n)
{
	char url[NODE_PATH_BYTES];
	struct symbol_offer_config c = {.url = url,
					.proc_root = n->settings.proc_root,
					.ca = n->settings.uplink_http_ca,
					.token_file = n->settings.uplink_http_token,
					.reader = n->reader,
					.bytes_per_s = n->settings.symbols_rate,
					.bytes_per_day = n->settings.symbols_per_day};
	int err;

	n->offer_why = "";
	snprintf(url, sizeof(url), "%s", n->settings.uplink_http);
	if (!n->settings.symbols_offer || (!*url && !*n->settings.uplink_url))
		return;
	if (!*url && symbol_offer_url(n->settings.uplink_url, url, sizeof(url)))
		n->offer_why = "uplink.url does not say where the aggregator's HTTP is: set "
			       "uplink.http";
	err = *n->offer_why ? 0 : symbol_offer_open(&n->offer, &c);
	if (err)
		n->offer_why = err == -EINVAL ? "uplink.http is not an http:// or https:// URL"
					      : strerror(-err);
	if (*n->offer_why)
		log_warn("symbols",
			 "http=%s why=\"%s\" effect=\"symbol files are not uploaded, so functions "
			 "have fewer names\"",
			 url, n->offer_why);
}

/* The user asked for this file, so sysomd does not start without it. */
static int open_log(struct node *n)
{
	const struct settings *s = &n->settings;
	int err = !*s->record_analysis ? 0
				       : analysis_log_open(&n->analysis.log, s->record_analysis,
							   s->record_analysis_bytes);

	if (err)
		log_error("record", "%s: %s", s->record_analysis, strerror(-err));
	return err;
}

static int daemon_open(struct daemon *d)
{
	struct node *n = &d->node;
	int err = reader_open(&n->reader, n->settings.proc_root); /* before any thread */

	if (!err)
		err = loop_open(&n->loop);

	if (err)
		return err;
	signal(SIGPIPE, SIG_IGN);
	if ((err = service_stop_on_signals(n->loop)) ||
	    (err = loop_add_fd(n->loop, reader_fd(n->reader), 0, on_keeper_gone, d, NULL)))
		return err;
	if (getrandom(n->run.boot_id, sizeof(n->run.boot_id), GRND_NONBLOCK) < 0)
		memcpy(n->run.boot_id, &(uint64_t){clock_monotonic_ns()}, sizeof(uint64_t));
	clockmap_init(&n->clock);
	quota_init(&n->admission.quota, LIMIT_NODE_PROCESSES, 0);
	err = fill_rank_config(n);
	if (!err)
		err = keep_open(&n->keep, n->settings.state_dir);
	if (!err)
		err = drain_open(&n->drain);
	if (!err && n->settings.canary)
		err = canary_open(&n->analysis.canary, n->settings.canary_realtime);
	if (err)
		return err;
	err = requests_open(n);
	if (!err)
		err = request_node_open(n, requests_take);
	if (!err)
		err = open_log(n);
	if (!err)
		err = ship_open(n);
	if (!err)
		err = cpu_stacks_open(&n->stacks, &n->settings, n->reader);
	if (!err)
		err = os_node_open(n);
	if (!err)
		err = gpu_node_open(n);
	if (!err)
		err = ras_node_open(n);
	if (err)
		return err;
	err = registration_open(&d->registration, n);
	if (err) {
		log_error("socket", "%s: %s%s", n->settings.socket_path, strerror(-err),
			  err == -EADDRINUSE
			      ? "; if another sysomd runs here, use --socket-path for another "
				"path"
			      : "");
		return err;
	}
	if ((err = open_tls(n)) || (err = open_stores(n)) || (err = http_open(n)) ||
	    (err =
		 otlp_export_open(&n->otlp, &n->settings.otlp, "sysomd", n->settings.node_name)) ||
	    (err = loop_add_timer(n->loop, 0, drain_ms(n->drain), on_drain, n,
				  &n->run.drain_timer)) ||
	    (err = loop_add_timer(n->loop, 0, 1000, on_second, d, NULL)))
		return err;
	open_offer(n);
	err = sketch_maker_open(n);
	if (err)
		return err;
	return loop_add_timer(n->loop, 50, NODE_TEND_MS, on_tend, d, &n->run.tend_timer);
}

/* `code` is the exit status. */
static void daemon_close(struct daemon *d, int code)
{
	struct node *n = &d->node;

	if (n->uplink) {
		ship_flush(n);
		ship_beat(n, clock_monotonic_ns());
	}
	sketch_maker_close(n);
	otlp_export_close(n->otlp);
	http_close(n);
	keep_all(n->keep, n->processes, clock_monotonic_ns());
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i])
			process_forget(n->processes[i]);
	analysis_log_close(n->analysis.log);
	cpu_stacks_close(n->stacks);
	registration_close(d->registration);
	requests_close(n);
	request_node_close(n);
	ship_close(n);
	keep_close(n->keep);
	drain_close(n->drain);
	symbol_offer_close(n->offer);
	uplink_finish(n->uplink, LINGER_MS);
	recorder_close(n->analysis.recorder);
	ras_node_close(n);
	gpu_node_close(n);
	os_node_close(n);
	canary_close(n->analysis.canary);
	watchdog_arm(CLOSE_S, code);
	uplink_close(n->uplink);
	tls_close(n->tls);
	free(n->analysis.rank.steps.scratch);
	reader_close(n->reader);
	loop_close(n->loop);
	if (d->lock_fd >= 0)
		close(d->lock_fd);
}

static int check_settings(const void *values, char *why, size_t why_bytes)
{
	const struct settings *s = values;
	const char *bad = NULL;

	if (s->persist_n > s->persist_m)
		bad = "roofline.persist_n is larger than roofline.persist_m";
	else if (s->learn_min > s->learn_max)
		bad = "roofline.learn_min is larger than roofline.learn_max";
	else if (*s->uplink_url && !config_is_socket_url(s->uplink_url, true))
		return config_refuse(why, why_bytes, "uplink.url", s->uplink_url,
				     "not tcp://HOST:PORT, tls+tcp://HOST:PORT or ipc://PATH");
	else if (*s->uplink_http && strncmp(s->uplink_http, "http://", 7) &&
		 strncmp(s->uplink_http, "https://", 8))
		return config_refuse(why, why_bytes, "uplink.http", s->uplink_http,
				     "not an http:// or https:// URL");
	else if (*s->uplink_http_token && !http_address_keeps_token(s->uplink_http))
		bad = "uplink.http_token needs an uplink.http that is https://, or http:// on "
		      "loopback, so that nobody on the network reads the token";
	if (!bad)
		return http_server_check(&s->http, why, why_bytes) ||
			       otlp_settings_check(&s->otlp, why, why_bytes) ||
			       tls_settings_check(&s->tls, "uplink.url", s->uplink_url, why,
						  why_bytes)
			   ? -EINVAL
			   : 0;
	snprintf(why, why_bytes, "%s", bad);
	return -EINVAL;
}

/* Some threads allocate rarely. With few arenas, the memory of a window or of kernel symbols
 * returns to the kernel at once. */
static void bound_malloc(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES);
}

static void log_rights(void)
{
	bool has[RIGHTS];

	rights_now(has);
	for (int i = 0; i < RIGHTS; i++)
		if (!has[i])
			log_info("rights", "without=CAP_%s lost=\"%s\"", rights[i].name,
				 rights[i].lost);
}

/* In a Pod, Kubernetes starts the job once it has seen sysomd running, and it checks about once a
 * second. A sidecar that ends at once would keep the job from starting. */
#define POD_SEEN_S 10

static int leave(int status)
{
	static const struct timespec seen = {.tv_sec = POD_SEEN_S};
	sigset_t end;

	watchdog_arm(POD_SEEN_S + CLOSE_S, status);
	if (status == EXIT_OK || !getenv("KUBERNETES_SERVICE_HOST"))
		return status;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	sigtimedwait(&end, NULL, &seen);
	return status;
}

int main(int argc, char **argv)
{
	static struct daemon d = {.lock_fd = -1};
	struct settings *s = &d.node.settings;
	int err, status;

	service_init();
	bound_malloc();
	umask(
	    022); /* all users must reach the socket, whoever starts sysomd; other modes are explicit */
	log_init("sysomd", LOG_INFO);
	switch (config_load(s, keys, ARRAY_LEN(keys), "sysomd", about, DEFAULT_CONFIG, argc, argv,
			    check_settings)) {
	case CONFIG_EXIT_OK:
		return EXIT_OK;
	case CONFIG_EXIT_BAD:
		return leave(EXIT_USAGE);
	case CONFIG_RUN:
		break;
	}
	log_init("sysomd", (enum log_level)s->log_level);
	err = default_paths(s);
	if (!err)
		err = take_lock(&d);
	if (!err)
		err = daemon_open(&d);
	if (!err) {
		log_info("start", "socket=%s control=%s http=%s uplink=%s state=%s", s->socket_path,
			 s->control_path, s->http.listen, s->uplink_url, s->state_dir);
		log_rights();
		service_ready();
		err = loop_run(d.node.loop);
		if (!err)
			err = d.failed;
	}
	service_stopping();
	if (err)
		log_error("end", "cannot go on: %s", strerror(-err));
	status = err ? EXIT_FAILED : EXIT_OK;
	daemon_close(&d, status);
	log_info("end", "status=%d", status);
	return leave(status);
}

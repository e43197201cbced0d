/* SPDX-License-Identifier: Apache-2.0
 * sysomd: one per node. Reads the rings of the jobs' processes, judges their steps, keeps everything
 * for a while and sends what is out of the ordinary. One loop thread does all of it but what may
 * block (uplink) and what must not wait for it (canary). */
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/slow/local_peers.h"
#include "base/check.h"
#include "base/daemon/config.h"
#include "base/daemon/dirs.h"
#include "base/daemon/log.h"
#include "base/daemon/service.h"
#include "base/daemon/watchdog.h"
#include "sidecar/node.h"
#include "sidecar/requests.h"
#include "sidecar/stacks/cpu_stacks.h"
#include "sidecar/stacks/sketch_maker.h"
#include "sidecar/stacks/symbol_offer.h"

#define DEFAULT_CONFIG "/etc/sysom/sysomd.yaml"
/* SIGTERM: as long as this for what is queued; what remains waits in the spool. */
#define LINGER_MS 3000u
/* And then it ends, whatever the disk or nng waits for. Below systemd's 90 s, after which it kills. */
#define STOP_S 60u
/* Once all is in the spool there is nothing left worth waiting for. */
#define CLOSE_S 3u
/* Larger allocations come from the kernel and go back to it when they are freed. */
#define MALLOC_MMAP_BYTES (128 << 10)

#define KEY(field, key, type, initial, help, ...)                                                  \
	CONFIG_KEY(struct settings, field, key, type, initial, help, __VA_ARGS__)

static const struct config_key keys[] = {
    KEY(socket_path, "socket.path", CONFIG_STRING, "",
	"attach socket; default /run/sysom/sysomd.sock, or in a private directory of the user"),
    KEY(control_path, "control.path", CONFIG_STRING, "",
	"HTTP control socket; default control.sock beside the attach socket"),
    KEY(state_dir, "state.dir", CONFIG_STRING, "",
	"directory of spool and recorder files; default /var/lib/sysom, or a private one of "
	"the user"),
    KEY(node_name, "node.name", CONFIG_STRING, "", "name of this node; default: the host name"),
    KEY(log_level, "log.level", CONFIG_ENUM, "info", "what is logged",
	.choices = "error|warn|info|debug"),
    KEY(http_listen, "http.listen", CONFIG_STRING, "127.0.0.1:9470",
	"ADDRESS:PORT of /metrics, /healthz and /api/v1/status; empty: no server"),
    KEY(http_hosts, "http.hosts", CONFIG_STRING, "",
	"host names that clients may use for this server, comma-separated; IP addresses and "
	"localhost always work"),
    KEY(http_see_all, "http.see_all", CONFIG_STRING, "",
	"uids that may see all users' ranks over HTTP, like root, comma-separated (e.g. "
	"Prometheus); *: any client"),
    KEY(uplink_url, "uplink.url", CONFIG_STRING, "tcp://127.0.0.1:9471",
	"address of the aggregator; empty: windows stay in the spool"),
    KEY(uplink_http, "uplink.http", CONFIG_STRING, "",
	"the aggregator's HTTP URL, for symbol files; empty: port 9472 if uplink.url has "
	"port 9471, else none"),
    KEY(spool_bytes, "spool.bytes", CONFIG_BYTES, "500MB",
	"size limit of windows that wait for the aggregator; the oldest are dropped first",
	.min = 1e6, .max = 1e12),
    KEY(spool_age_ns, "spool.age", CONFIG_DURATION, "1h",
	"windows that wait longer than this are dropped", .min = 1e9, .max = 3e15),
    KEY(recorder_memory_bytes, "recorder.memory", CONFIG_BYTES, "32MiB",
	"memory for compressed records", .min = 1e6, .max = 64e9),
    KEY(recorder_file_bytes, "recorder.files", CONFIG_BYTES, "1GB",
	"disk space below state.dir for older records; 0: no files", .min = 0, .max = 1e12),
    KEY(beat_ns, "beat.period", CONFIG_DURATION, "5s", "interval between beats to the aggregator",
	.min = 1e8, .max = 600e9),
    KEY(beat_suspect_ns, "beat.suspect", CONFIG_DURATION, "1s",
	"interval while a rank of this node is a suspect or has a window open", .min = 1e8,
	.max = 600e9),
    KEY(sketch_ns, "sketch.period", CONFIG_DURATION, "60s",
	"interval between sketches of each rank; the first follows when the rank's model is "
	"ready",
	.min = 1e9, .max = 3600e9),
    KEY(sketch_symbols, "sketch.symbols", CONFIG_BOOL, "true",
	"name native functions in sketches from this node's symbol files; false: file and "
	"page only"),
    KEY(roofline_mode, "roofline.mode", CONFIG_ENUM, "robust",
	"robust: median line with calibrated tail; p99: the paper's 99th percentile with "
	"RANSAC",
	.choices = "robust|p99"),
    KEY(learn_min, "roofline.learn_min", CONFIG_UINT, "50",
	"a model needs this many steps before it judges", .min = 10, .max = 100000),
    KEY(learn_max, "roofline.learn_max", CONFIG_UINT, "2000",
	"number of steps after which the baseline is frozen", .min = 20, .max = 100000),
    KEY(tail_mads, "roofline.tail_mads", CONFIG_DOUBLE, "7",
	"a step is out if its relative residual exceeds this many MADs", .min = 1, .max = 100),
    KEY(floor_ratio, "roofline.floor", CONFIG_DOUBLE, "0.05",
	"smallest relative excess that is flagged", .min = 0, .max = 10),
    KEY(persist_n, "roofline.persist_n", CONFIG_UINT, "2",
	"a step is flagged when n of the last m steps are out: n", .min = 1, .max = 64),
    KEY(persist_m, "roofline.persist_m", CONFIG_UINT, "3", "m of the rule above", .min = 1,
	.max = 64),
    KEY(automatic_steps, "steps.automatic_only", CONFIG_BOOL, "false",
	"find steps from the launch pattern even if the job marks its steps"),
    KEY(window_margin, "window.margin", CONFIG_UINT, "8",
	"healthy steps that a window includes before and after an anomaly", .min = 0,
	.max = ANOMALY_MARGIN_MAX),
    KEY(window_steps, "window.steps", CONFIG_UINT, "256", "largest number of steps in a window",
	.min = 130, .max = ANOMALY_STEPS_MAX),
    KEY(window_length_ns, "window.length", CONFIG_DURATION, "4s",
	"longest time from a window's first slow step; the next window continues the anomaly",
	.min = 1e8, .max = 600e9),
    KEY(window_records, "window.records", CONFIG_UINT, "200000",
	"largest number of host records in a window, and of device records", .min = 1000,
	.max = LIMIT_WINDOW_RECORDS / 2),
    KEY(window_burst, "window.burst", CONFIG_DOUBLE, "4",
	"full windows of a rank in a burst; beyond it summaries, then only a count", .min = 1,
	.max = 1000),
    KEY(window_per_minute, "window.per_minute", CONFIG_DOUBLE, "3",
	"full windows of a rank per minute in the long run", .min = 0.01, .max = 600),
    KEY(asked_per_minute, "window.asked_per_minute", CONFIG_DOUBLE, "6",
	"windows of a rank that the aggregator may request per minute in the long run", .min = 0,
	.max = 600),
    KEY(hold_bytes, "window.hold", CONFIG_BYTES, "16MiB",
	"memory for windows that the aggregator wants kept and the recorder would overwrite",
	.min = 0, .max = 1e10),
    KEY(stall_ns, "stall.after", CONFIG_DURATION, "5s",
	"a rank hangs if its GPU has work but makes no progress for this long (and for 30 "
	"usual steps)",
	.min = 1e9, .max = 3600e9),
    KEY(sampler_mode, "sampler.mode", CONFIG_ENUM, "bpf",
	"how to unwind CPU stacks: bpf in the kernel; bpf_tail always with tail calls; copy "
	"in user space",
	.choices = "off|copy|bpf_tail|bpf"),
    KEY(sampler_rate_hz, "sampler.rate", CONFIG_UINT, "99", "ticks per second on each CPU",
	.min = 10, .max = 999),
    KEY(sampler_fraction, "sampler.fraction", CONFIG_UINT, "10",
	"percent of ticks that take a sample; every tick while a rank is slow", .min = 1,
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
	"while a rank is slow, also sample other processes' kernel stacks: up to a minute, "
	"20% in the long run"),
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
	"percent of all CPU time that these BPF programs may use; above it the costliest "
	"group pauses; 0: no limit",
	.min = 0, .max = 100),
    KEY(gpu_on, "gpu.on", CONFIG_BOOL, "true",
	"read GPU telemetry with NVML: clocks, throttling, power, temperature, errors"),
    KEY(gpu_period_ns, "gpu.period", CONFIG_DURATION, "500ms", "interval between readings",
	.min = 1e8, .max = 60e9),
    KEY(gpu_library, "gpu.library", CONFIG_STRING, "",
	"path of the NVML library; empty: libnvidia-ml.so.1"),
    KEY(proc_root, "proc.root", CONFIG_STRING, "/proc", "mount point of the host's /proc"),
    KEY(sys_root, "sys.root", CONFIG_STRING, "/sys", "mount point of the host's /sys"),
    KEY(node_peers, "peers.on", CONFIG_BOOL, "true",
	"compare ranks of the same job and role on this node"),
    KEY(peers_mode, "peers.mode", CONFIG_ENUM, "robust",
	"how: robust statistics, or mean + k sigma over 100 steps as in the SysOM-AI paper",
	.choices = "robust|sysom"),
    KEY(canary, "canary.on", CONFIG_BOOL, "true",
	"do not judge steps during which the whole machine stood still"),
    KEY(canary_realtime, "canary.realtime", CONFIG_BOOL, "true",
	"use real-time threads on up to 4 CPUs, if allowed, to measure time that a "
	"hypervisor takes"),
    KEY(record_analysis, "record.analysis", CONFIG_STRING, "",
	"file that records the input and output of the analysis, for sysom replay window; "
	"empty: none"),
    KEY(record_analysis_bytes, "record.analysis_bytes", CONFIG_BYTES, "1GB",
	"size at which the recording ends", .min = 1e5, .max = 1e12),
};

static const char about[] =
    "sysomd: watches the GPU jobs of this node through rings in shared memory, finds their\n"
    "steps, judges them, and sends the anomalous ones to sysom-aggregator.";

/* ---- paths ---- */

/* Makes the directory (one level) if need be; true when it can be written, and by nobody else: who may
 * write it can take the place of our sockets and files. */
static bool usable_dir(const char *dir, mode_t mode)
{
	struct stat st;

	if (mkdir(dir, mode) && errno != EEXIST)
		return false;
	if (lstat(dir, &st) || access(dir, W_OK | X_OK))
		return false;
	if (!S_ISDIR(st.st_mode))
		log_error("state", "%s is no directory (a link?): remove it", dir);
	else if (st.st_uid != geteuid() && st.st_uid)
		log_error("state",
			  "%s belongs to uid %u: remove it, or name others with --socket-path "
			  "and --state-dir",
			  dir, (unsigned)st.st_uid);
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		log_error("state", "%s can be written by others (mode %o): chmod go-w %s", dir,
			  (unsigned)st.st_mode & 07777, dir);
	else
		return true;
	return false;
}

/* DESIGN.md: /run/sysom, then $XDG_RUNTIME_DIR/sysom, then /tmp/sysom-UID (0700). */
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
		log_warn("state", "%s: %s", s->state_dir, strerror(-err));
	if (!*s->node_name && gethostname(s->node_name, sizeof(s->node_name) - 1))
		strcpy(s->node_name, "unknown");
	return 0;
}

/* Two daemons on one directory would send each other's windows and overwrite each other's files. The
 * kernel lets the lock go when its holder ends, however it does. -EBUSY: another one has it. */
static int take_lock(struct node *n)
{
	char path[NODE_PATH_BYTES + 8];

	snprintf(path, sizeof(path), "%s/lock", n->settings.state_dir);
	n->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (n->lock_fd < 0) {
		/* A disk that can't be written: nothing of ours can be there to spoil. */
		log_warn("state", "%s: %s", path, strerror(errno));
		return 0;
	}
	if (!flock(n->lock_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK) {
		log_warn("state", "%s: %s", path, strerror(errno));
		return 0;
	}
	log_error("state", "%s: another sysomd uses this state.dir", n->settings.state_dir);
	return -EBUSY;
}

/* ---- timers ---- */

static void on_drain(void *arg, uint32_t count)
{
	struct node *n = arg;
	uint32_t before_ms = n->drain_ms;
	uint64_t now_ns;

	drain_turn(n);
	if (n->drain_ms != before_ms && !n->idle)
		loop_timer_period(n->drain_timer, n->drain_ms);
	now_ns = clock_monotonic_ns();
	process_tend(n, now_ns);
	http_tend(n, now_ns);
}

static void measure_own(struct node *n, uint64_t now_ns)
{
	struct timespec ts;
	uint64_t cpu_ns;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	cpu_ns = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	if (now_ns - n->stats.cpu_at_ns < 5000000000ull && n->stats.cpu_at_ns)
		return;
	if (n->stats.cpu_at_ns)
		n->stats.cpu_share = (double)(cpu_ns - n->stats.cpu_ns_before) /
				     (double)(now_ns - n->stats.cpu_at_ns);
	n->stats.cpu_ns_before = cpu_ns;
	n->stats.cpu_at_ns = now_ns;
}

static void on_second(void *arg, uint32_t count)
{
	struct node *n = arg;
	struct clockmap_anchor a;

	clockmap_read(&a);
	clockmap_add(&n->clock, &a);
	registration_tend(n, clock_monotonic_ns());
	os_node_tend(n, clock_monotonic_ns());
	gpu_node_tend(n, clock_monotonic_ns());
	measure_own(n, clock_monotonic_ns());
	service_alive();
}

/* Threads that began to launch since the last time. */
static void record_launchers(struct node *n)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];
		const struct join_launchers *l =
		    p && p->state == PROCESS_ATTACHED && p->join ? join_launchers(p->join) : NULL;

		if (!l || l->serial == p->launchers_seen || p->pid <= 0)
			continue;
		p->launchers_seen = l->serial;
		cpu_stacks_record_threads(n, (uint32_t)p->pid, l->tid, JOIN_LAUNCHERS);
	}
}

static void on_tend(void *arg, uint32_t count)
{
	struct node *n = arg;
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t period = windows_is_close(n->windows, now_ns) ? n->settings.beat_suspect_ns
							       : n->settings.beat_ns;

	ship_tend(n, now_ns);
	analysis_log_tend(n->log, now_ns);
	requests_tend(n, now_ns);
	keep_tend(n, now_ns);
	record_launchers(n);
	cpu_stacks_tend(n, now_ns);
	sketch_maker_tend(n, now_ns);
	if (n->beat_at_ns && now_ns - n->beat_at_ns < period)
		return;
	n->beat_at_ns = now_ns;
	ship_beat(n, now_ns);
}

static void on_signal(void *arg, uint32_t signum)
{
	struct node *n = arg;

	log_info("stop", "signal=%u", signum);
	watchdog_arm(STOP_S, 1);
	loop_stop(n->loop);
}

/* The keeper forks from a process without threads, so that this one can't make another: systemd starts us
 * anew, and rings, spool and baselines are taken up. */
static void on_keeper_gone(void *arg, uint32_t events)
{
	struct node *n = arg;

	log_error("reader",
		  "the keeper of the reader processes died; sysomd ends to be started again");
	n->failed = -ECHILD;
	watchdog_arm(STOP_S, 1);
	loop_stop(n->loop);
}

/* ---- start and end ---- */

static void fill_rank_config(struct node *n)
{
	const struct settings *s = &n->settings;
	struct rank_config *c = &n->rank_config;

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
	    .spool = {spool, n->settings.spool_bytes, n->settings.spool_age_ns, n->boot}};
	int err;

	snprintf(spool, sizeof(spool), "%s/spool", n->settings.state_dir);
	snprintf(files, sizeof(files), "%s/recorder", n->settings.state_dir);
	if (rc.file_bytes && mkdir(files, 0700) && errno != EEXIST)
		rc.file_bytes = 0; /* memory alone; retention tells */
	err = recorder_open(&n->recorder, &rc);
	return err ? err : uplink_open(&n->uplink, &uc, n->loop, requests_take, n);
}

/* Without it windows still go out: only their frames stay without names. */
static void open_offer(struct node *n)
{
	char url[NODE_PATH_BYTES];
	struct symbol_offer_config c = {.url = url,
					.proc_root = n->settings.proc_root,
					.reader = n->reader,
					.bytes_per_s = n->settings.symbols_rate,
					.bytes_per_day = n->settings.symbols_per_day};
	int err;

	snprintf(url, sizeof(url), "%s", n->settings.uplink_http);
	if (!n->settings.symbols_offer ||
	    (!*url && symbol_offer_url(n->settings.uplink_url, url, sizeof(url))))
		return;
	err = symbol_offer_open(&n->offer, &c);
	if (err)
		log_warn("symbols", "%s: %s", url, strerror(-err));
}

/* Somebody asked for it: without it there is no use in going on. */
static int open_log(struct node *n)
{
	const struct settings *s = &n->settings;
	int err = !*s->record_analysis
		      ? 0
		      : analysis_log_open(&n->log, s->record_analysis, s->record_analysis_bytes);

	if (err)
		log_error("record", "%s: %s", s->record_analysis, strerror(-err));
	return err;
}

static int node_open(struct node *n)
{
	int err = reader_open(&n->reader, n->settings.proc_root); /* before any thread */

	if (!err)
		err = loop_open(&n->loop);

	if (err)
		return err;
	/* Before any thread, so that they inherit the mask. */
	signal(SIGPIPE, SIG_IGN);
	if ((err = loop_add_signal(n->loop, SIGTERM, on_signal, n, NULL)) ||
	    (err = loop_add_signal(n->loop, SIGINT, on_signal, n, NULL)) ||
	    (err = loop_add_fd(n->loop, reader_fd(n->reader), 0, on_keeper_gone, n, NULL)))
		return err;
	n->started_ns = clock_monotonic_ns();
	if (getrandom(n->boot_id, sizeof(n->boot_id), GRND_NONBLOCK) < 0)
		memcpy(n->boot_id, &n->started_ns, sizeof(n->started_ns));
	clockmap_init(&n->clock);
	quota_init(&n->process_quota, LIMIT_NODE_PROCESSES, 0);
	fill_rank_config(n);
	keep_open(n);
	n->drain_ms = NODE_DRAIN_MS;
	n->batch = malloc(sizeof(*n->batch) * LIMIT_DRAIN_BATCH);
	n->name_map = malloc(sizeof(*n->name_map) * (LIMIT_NAME_COUNT + 1));
	n->steps_scratch = aligned_alloc(16, steps_scratch_bytes(&n->rank_config.steps));
	if (!n->batch || !n->name_map || !n->steps_scratch)
		return -ENOMEM;
	steps_scratch_init(n->steps_scratch);
	n->rank_config.steps.scratch = n->steps_scratch;
	if (n->settings.canary && (err = canary_open(&n->canary, n->settings.canary_realtime)))
		return err;
	err = requests_open(n);
	if (!err)
		err = open_log(n);
	if (!err)
		err = ship_open(n);
	if (!err)
		err = cpu_stacks_open(n);
	if (!err)
		err = os_node_open(n);
	if (!err)
		err = gpu_node_open(n);
	if (err)
		return err;
	err = registration_open(n);
	if (err) {
		log_error("socket", "%s: %s%s", n->settings.socket_path, strerror(-err),
			  err == -EADDRINUSE
			      ? "; does another sysomd run here? --socket-path names another"
			      : "");
		return err;
	}
	if ((err = open_stores(n)) || (err = http_open(n)) ||
	    (err = loop_add_timer(n->loop, 0, n->drain_ms, on_drain, n, &n->drain_timer)) ||
	    (err = loop_add_timer(n->loop, 0, 1000, on_second, n, NULL)))
		return err;
	open_offer(n);
	err = sketch_maker_open(n);
	if (err)
		return err;
	return loop_add_timer(n->loop, 50, NODE_TEND_MS, on_tend, n, &n->tend_timer);
}

/* `code` is what the process will end with. */
static void node_close(struct node *n, int code)
{
	if (n->uplink) {
		ship_flush(n);
		ship_beat(n, clock_monotonic_ns());
	}
	sketch_maker_close(n);
	http_close(n);
	keep_close(n);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i])
			process_forget(n->processes[i]);
	analysis_log_close(n->log);
	cpu_stacks_close(n);
	registration_close(n);
	requests_close(n);
	windows_close(n->windows);
	symbol_offer_close(n->offer);
	uplink_finish(n->uplink, LINGER_MS);
	recorder_close(n->recorder);
	gpu_node_close(n);
	os_node_close(n);
	canary_close(n->canary);
	watchdog_arm(CLOSE_S, code);
	uplink_close(n->uplink);
	free(n->batch);
	free(n->name_map);
	free(n->steps_scratch);
	reader_close(n->reader);
	loop_close(n->loop);
	if (n->lock_fd >= 0)
		close(n->lock_fd);
}

static bool is_listen_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	char *end;
	long port;

	if (!*text)
		return true;
	if (!colon || colon == text)
		return false;
	port = strtol(colon + 1, &end, 10);
	return end != colon + 1 && !*end && port >= 0 && port <= 65535;
}

static int check_settings(const void *values, char *why, size_t why_bytes)
{
	const struct settings *s = values;
	const char *bad = NULL;
	struct http_hosts hosts;

	if (s->persist_n > s->persist_m)
		bad = "roofline.persist_n is larger than roofline.persist_m";
	else if (s->learn_min > s->learn_max)
		bad = "roofline.learn_min is larger than roofline.learn_max";
	else if (!is_listen_address(s->http_listen))
		return config_refuse(why, why_bytes, "http.listen", s->http_listen,
				     "not ADDRESS:PORT");
	else if (http_hosts_init(&hosts, s->http_listen, s->http_hosts))
		bad = "http.hosts: not names separated by commas, or more than 1 KiB of them";
	else if (*s->uplink_url && !config_is_socket_url(s->uplink_url, true))
		return config_refuse(why, why_bytes, "uplink.url", s->uplink_url,
				     "none of tcp://HOST:PORT, tls+tcp://HOST:PORT, ipc://PATH");
	else if (*s->uplink_http && strncmp(s->uplink_http, "http://", 7) &&
		 strncmp(s->uplink_http, "https://", 8))
		return config_refuse(why, why_bytes, "uplink.http", s->uplink_http,
				     "none of http://, https://");
	if (!bad)
		return 0;
	snprintf(why, why_bytes, "%s", bad);
	return -EINVAL;
}

/* A few threads allocate now and then; what a window or the kernel's symbols took goes back at once,
 * rather than staying in an arena per thread. */
static void bound_malloc(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES);
}

int main(int argc, char **argv)
{
	static struct node node = {.baseline_fd = -1, .lock_fd = -1};
	int err;

	service_init();
	bound_malloc();
	log_init("sysomd", LOG_INFO);
	switch (config_load_checked(&node.settings, keys, ARRAY_LEN(keys), "sysomd", about,
				    DEFAULT_CONFIG, argc, argv, check_settings)) {
	case CONFIG_EXIT_OK:
		return 0;
	case CONFIG_EXIT_BAD:
		return 2;
	case CONFIG_RUN:
		break;
	}
	log_init("sysomd", (enum log_level)node.settings.log_level);
	err = default_paths(&node.settings);
	if (!err)
		err = take_lock(&node);
	if (!err)
		err = node_open(&node);
	if (!err) {
		log_info("start", "socket=%s control=%s http=%s uplink=%s state=%s",
			 node.settings.socket_path, node.settings.control_path,
			 node.settings.http_listen, node.settings.uplink_url,
			 node.settings.state_dir);
		service_ready();
		err = loop_run(node.loop);
		if (!err)
			err = node.failed;
	}
	service_stopping();
	if (err)
		log_error("end", "%s", strerror(-err));
	node_close(&node, err ? 1 : 0);
	log_info("end", "code=%d", err ? 1 : 0);
	return err ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * A process's identity is (pid, start time). If it connects again, its ring and models continue.
 * Its pidfd shows when it ends. A closed socket does not, because the helper thread may have
 * restarted. */
#include "sidecar/process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/daemon/log.h"
#include "base/daemon/foreign.h"
#include "base/hash.h"
#include "base/job_key.h"
#include "base/text/utf8.h"
#include "sidecar/drain.h"
#include "sidecar/keep.h"
#include "sidecar/serving/request_node.h"
#include "sidecar/stacks/cpu_stacks.h"

/* A process whose socket closed connects again within 2 s (attach.h). */
#define PROCESS_DETACHED_NS 10000000000ull
/* How long an ended process is kept: the aggregator still asks for windows of a rank that died. */
#define PROCESS_GONE_NS 60000000000ull

static void copy_text(char *to, size_t to_bytes, const char *from)
{
	size_t n = strnlen(from, to_bytes - 1);

	memcpy(to, from, n);
	to[n] = 0;
	utf8_clean(to, (uint32_t)n);
}

static void identify(struct process *p, const struct attach_hello *h)
{
	struct wire_rank *id = &p->id;
	char name[sizeof(h->job)];

	copy_text(id->node, sizeof(id->node), p->node->settings.node_name);
	copy_text(id->role, sizeof(id->role), h->role);
	copy_text(id->pod.text[POD_NAMESPACE], WIRE_TEXT_BYTES, h->pod_namespace);
	copy_text(id->pod.text[POD_NAME], WIRE_TEXT_BYTES, h->pod);
	copy_text(id->pod.text[POD_CONTAINER], WIRE_TEXT_BYTES, h->pod_container);
	copy_text(id->pod.text[POD_HOST], WIRE_TEXT_BYTES, h->pod_host);
	copy_text(id->gpu_uuid, sizeof(id->gpu_uuid), h->gpu_uuid);
	copy_text(id->program, sizeof(id->program), h->program);
	copy_text(p->libs, sizeof(p->libs), h->libs);
	id->rank = h->rank < -1 ? -1 : h->rank;
	id->world_size = h->world_size < -1 ? -1 : h->world_size;
	id->local_rank = h->local_rank < -1 ? -1 : h->local_rank;
	id->pid = p->pid > 0 ? (uint32_t)p->pid : (uint32_t)h->pid;
	id->start_time_ticks = h->start_time_ticks;
	/* Default job name: program and world size. */
	copy_text(name, sizeof(name), h->job);
	if (!name[0])
		snprintf(name, sizeof(name), "%.80s:%d", id->program, (int)id->world_size);
	job_key_make(id->job, sizeof(id->job), name, p->uid);
	id->owner = p->uid + 1; /* 0 for the reserved uid (uid_t)-1 */
}

const char *process_unknown_variable(const struct process *p)
{
	static const char key[] = "unknown_variable=";
	const char *at = strstr(p->libs, key);

	return at ? at + strlen(key) : "";
}

uint32_t process_spans_bad_line(const struct process *p)
{
	static const char key[] = " spans=bad:";
	const char *at = strstr(p->libs, key);
	unsigned long line = at ? strtoul(at + strlen(key), NULL, 10) : 0;

	return line < UINT32_MAX ? (uint32_t)line : 0;
}

/* ---- ranks that start again ---- */

static bool job_goes_on(const struct process *p)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *o = p->node->processes[i];

		if (o && o != p && o->state != PROCESS_GONE && !strcmp(o->id.job, p->id.job))
			return true;
	}
	return false;
}

/* When a job's last process ends, the run is over, and a later process restarts nothing. */
static void note_end(const struct process *p)
{
	struct admission *a = &p->node->admission;
	struct process_ended *e;

	if (!job_goes_on(p)) {
		for (uint32_t i = 0; i < LIMIT_NODE_ENDED; i++)
			if (!strcmp(a->ended[i].job, p->id.job))
				a->ended[i].job[0] = 0;
	} else if (p->id.rank >= 0) {
		e = &a->ended[a->ended_next++ % LIMIT_NODE_ENDED];
		*e = (struct process_ended){
		    .rank = p->id.rank, .pid = p->id.pid, .restarts = p->restarts};
		copy_text(e->job, sizeof(e->job), p->id.job);
	}
}

/* Call when the process's rank is known. */
static void note_start(struct process *p)
{
	struct admission *a = &p->node->admission;

	for (uint32_t i = 0; i < LIMIT_NODE_ENDED; i++) {
		struct process_ended *e = &a->ended[i];

		if (e->rank != p->id.rank || strcmp(e->job, p->id.job) != 0)
			continue;
		p->restarts = e->restarts + 1;
		p->before_pid = e->pid;
		e->job[0] = 0;
		a->restarts++;
		log_info("restart", "pid=%u rank=%d before=%u", p->id.pid, p->id.rank, e->pid);
	}
}

/* ---- join's sink ---- */

static void record(struct process *p);

/* Some launchers (vLLM's) give a process no rank number. Then its number in its first communicator
 * with others is used, unless another process of the job has that number. */
static void number_by_communicator(struct process *p, const struct record *r)
{
	if (r->bytes < 2 || r->bytes > LIMIT_FLEET_RANKS || r->peer < 0 ||
	    (uint64_t)r->peer >= r->bytes)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *o = p->node->processes[i];

		if (o && o->state != PROCESS_GONE && o->id.rank == r->peer &&
		    !strcmp(o->id.job, p->id.job))
			return;
	}
	p->id.rank = r->peer;
	if (p->id.world_size < 0)
		p->id.world_size = (int32_t)r->bytes;
	log_info("rank", "pid=%u rank=%d world=%d: as in its first communicator", p->id.pid,
		 p->id.rank, p->id.world_size);
	note_start(p);
	record(p);
}

static void sink_host(void *arg, const struct record *r, const struct step_mark *mark)
{
	struct process *p = arg;

	if (r->kind == RECORD_COMM && p->id.rank < 0)
		number_by_communicator(p, r);
	rank_host(p->rank, r, mark);
	if (r->flags & RECORD_FLAG_PYTHON)
		request_node_record(p, r);
}

static void sink_device(void *arg, const struct record *r)
{
	rank_device(((struct process *)arg)->rank, r);
}

static void sink_transfer(void *arg, const struct transfer *t)
{
	links_add(((struct process *)arg)->links, t);
}

/* The driver is believed rather than the environment. Of several devices the last one counts,
 * because a process that is late to set its device makes a context on the first one. */
static void sink_gpu(void *arg, const uint8_t u[16])
{
	struct process *p = arg;

	snprintf(p->id.gpu_uuid, sizeof(p->id.gpu_uuid),
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
}

const char *process_name(void *process, uint32_t id)
{
	return ring_reader_name(((struct process *)process)->reader, id);
}

/* ---- socket and pid ---- */

static void drop_socket(struct process *p)
{
	loop_source_close(p->link.sock_source);
	p->link.sock_source = NULL;
	foreign_close(p->link.sock);
	p->link.sock = -1;
}

static void leave(struct process *p, enum process_state state)
{
	if (p->state >= state)
		return;
	p->state = state;
	p->left_ns = clock_monotonic_ns();
	drop_socket(p);
	if (state == PROCESS_GONE) {
		note_end(p);
		windows_end(p->node->analysis.windows, p->slot);
		keep_forget(p->node->keep, p);
		if (p->pid > 0)
			cpu_stacks_unwatch(p->node->stacks, (uint32_t)p->pid);
	}
	if (state == PROCESS_DETACHED)
		log_info("detach", "pid=%u rank=%d", p->id.pid, p->id.rank);
}

static void on_socket(void *arg, uint32_t events)
{
	struct process *p = arg;
	struct attach_state st;

	for (int i = 0; i < 16; i++) {
		struct foreign f;
		ssize_t n;

		/* a state message carries no descriptor, but a hostile one may */
		foreign_begin(&f);
		n = recv(p->link.sock, &st, sizeof(st), MSG_DONTWAIT | MSG_TRUNC);
		foreign_end(&f);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n != (ssize_t)sizeof(st) || st.magic != ATTACH_MAGIC) {
			if (n > 0)
				log_warn("detach", "pid=%u sent an invalid state message",
					 p->id.pid);
			/* Without a pidfd, the closed socket is the only sign of the end. */
			leave(p, p->link.pidfd >= 0 ? PROCESS_DETACHED : PROCESS_GONE);
			return;
		}
		if (st.trace_state == RING_TRACE_ON && p->link.trace_state != RING_TRACE_ON)
			rank_watch(p->rank, clock_monotonic_ns());
		p->link.trace_state = st.trace_state;
		p->link.cupti_state = st.cupti_state;
		if ((int32_t)(st.serial - p->link.acked_serial) > 0 &&
		    (int32_t)(st.serial - p->link.command_serial) <= 0)
			p->link.acked_serial = st.serial;
	}
}

static void on_pid(void *arg, uint32_t events)
{
	struct process *p = arg;

	loop_source_close(p->link.pid_source);
	p->link.pid_source = NULL;
	leave(p, PROCESS_GONE);
}

int64_t process_command(struct process *p, uint32_t kind, int32_t arg)
{
	struct attach_command c = {
	    .magic = ATTACH_MAGIC, .kind = kind, .arg = arg, .serial = p->link.command_serial + 1};

	if (p->link.sock < 0)
		return -ENOTCONN;
	if (send(p->link.sock, &c, sizeof(c), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(c))
		return -errno;
	return p->link.command_serial = c.serial;
}

static int watch(struct process *p)
{
	struct node *n = p->node;
	int err = loop_add_fd(n->loop, p->link.sock, EPOLLIN, on_socket, p, &p->link.sock_source);

	if (err || p->link.pid_source || p->pid <= 0)
		return err;
	/* Kernels before 5.3 have no pidfd: watch the socket only. */
	if (p->link.pidfd < 0)
		p->link.pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->link.pidfd >= 0 &&
	    loop_add_fd(n->loop, p->link.pidfd, EPOLLIN, on_pid, p, &p->link.pid_source)) {
		close(p->link.pidfd);
		p->link.pidfd = -1;
	}
	return 0;
}

/* ---- attach ---- */

static void slow_down(struct loop_source *timer, uint32_t period_ms)
{
	if (timer)
		loop_timer_period(timer, period_ms);
}

/* While idle, nothing is measured: no canary, no BPF program, hardly a timer. */
static void set_idle(struct node *n, bool idle)
{
	if (n->run.idle == idle)
		return;
	n->run.idle = idle;
	canary_run(n->analysis.canary, !idle);
	slow_down(n->run.drain_timer, idle ? NODE_IDLE_MS : DRAIN_MS);
	slow_down(n->run.tend_timer, idle ? NODE_IDLE_MS : NODE_TEND_MS);
}

static struct process *find_same(struct node *n, const struct attach_hello *h, pid_t pid)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (p && p->state != PROCESS_GONE && p->pid == pid && pid > 0 &&
		    p->id.start_time_ticks == h->start_time_ticks)
			return p;
	}
	return NULL;
}

/* A pid belongs to one process at a time. A different start time means that the known process has
 * ended, or that this one lies. A liar could take slot after slot, so it loses the slot that it
 * has. */
static void supersede(struct node *n, pid_t pid)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];
		struct pollfd ended = {.events = POLLIN};

		if (!p || p->pid != pid || pid <= 0 || p->state == PROCESS_GONE)
			continue;
		ended.fd = p->link.pidfd;
		if (p->link.pidfd < 0 || poll(&ended, 1, 0) == 1) {
			leave(p, PROCESS_GONE);
			continue;
		}
		log_warn("attach", "pid=%d is alive but claims another start time; dropped",
			 (int)pid);
		n->admission.refused_bad++;
		process_forget(p);
	}
}

/* The process of this user that is dropped first: the one that ended first; if none has ended, and
 * unless only_gone, the one that attached last. */
static struct process *least_needed(struct node *n, uid_t uid, bool only_gone)
{
	struct process *gone = NULL, *last = NULL;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (!p || p->uid != uid)
			continue;
		if (p->state == PROCESS_GONE && (!gone || p->left_ns < gone->left_ns))
			gone = p;
		if (!last || p->serial > last->serial)
			last = p;
	}
	return gone || only_gone ? gone : last;
}

/* Finds a slot for one more process of this user (base/daemon/quota.h). An ended process still
 * counts, because the aggregator may ask for its records. */
static int free_slot(struct node *n, uid_t uid)
{
	struct process *p;
	uid_t heaviest = uid;

	if (!quota_may(&n->admission.quota, uid, 1, 0)) {
		p = least_needed(n, uid, true);
		if (!p)
			return -EDQUOT;
		process_forget(p);
	} else if (quota_is_full(&n->admission.quota, 1) &&
		   quota_heaviest(&n->admission.quota, &heaviest)) {
		p = least_needed(n, heaviest, false);
		if (p->state != PROCESS_GONE) {
			n->admission.gave_way++;
			log_warn(
			    "detach",
			    "pid=%u uid=%u rank=%d: dropped for a process of uid=%u: the node is "
			    "full, and this user has the most processes",
			    p->id.pid, (unsigned)p->uid, p->id.rank, (unsigned)uid);
		}
		process_forget(p);
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (!n->processes[i])
			return (int)i;
	return -EDQUOT;
}

static void count_reader(struct process *p)
{
	const struct ring_stats *st = ring_reader_stats(p->reader);

	p->past.events += st->events;
	p->past.lost += st->lost_lapped + st->lost_torn + st->lost_bad_kind;
	p->past.bytes += st->bytes;
	p->lanes.lapped_seen = 0;
}

static int reattach(struct process *p, int sock, struct ring_reader *reader)
{
	/* The new reader continues where the old one stopped. */
	ring_reader_publish(p->reader, clock_monotonic_ns());
	count_reader(p);
	ring_reader_close(p->reader);
	p->reader = reader;
	ring_reader_poll_names(reader);
	drop_socket(p);
	p->link.sock = sock;
	p->state = PROCESS_ATTACHED;
	rank_watch(p->rank, clock_monotonic_ns());
	p->node->admission.reattached++;
	log_info("reattach", "pid=%u rank=%d", p->id.pid, p->id.rank);
	return watch(p);
}

/* From here on the log records all input of the rank's analysis. */
static void record(struct process *p)
{
	struct journal_rank r = {.rank = p->id.rank,
				 .world_size = p->id.world_size,
				 .steps = p->rank->config.steps,
				 .judge = p->rank->config.judge};

	copy_text(r.job, sizeof(r.job), p->id.job);
	copy_text(r.role, sizeof(r.role), p->id.role);
	copy_text(r.node, sizeof(r.node), p->id.node);
	p->rank->log = p->node->analysis.log;
	analysis_log_rank(p->node->analysis.log, p->slot, &r);
}

static struct links *links_of_job(const struct process *p)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *o = p->node->processes[i];

		if (o && o != p && o->links && !strcmp(o->id.job, p->id.job))
			return o->links;
	}
	return NULL;
}

static int start(struct process *p, struct ring_reader *reader)
{
	struct node *n = p->node;
	struct join_sink sink = {p, sink_host, sink_device, process_name, sink_transfer, sink_gpu};
	struct rank_config c = n->analysis.rank;
	uint64_t seed = hash_mix(n->admission.serial ^ hash_bytes(HASH_SEED, n->run.boot_id, 16));
	int err;

	/* Ids and seeds need not be secret, but must differ between runs. */
	err = recorder_add_rank(n->analysis.recorder, p->slot, p->serial);
	if (!err)
		err = rank_open(&p->rank, &c, n->analysis.recorder, p->slot, n->analysis.canary,
				seed, clock_monotonic_ns());
	if (!err)
		err = links_open(&p->links, links_of_job(p));
	if (!err)
		err = request_node_begin(p);
	if (!err)
		err = join_open(&p->join, &sink, &n->clock, ring_reader_lane_count(reader));
	if (err)
		return err;
	windows_add(n->analysis.windows, p->slot, &p->id, p->rank);
	note_start(p);
	record(p);
	keep_restore(n->keep, p);
	if (p->pid > 0)
		cpu_stacks_watch(n->stacks, (uint32_t)p->pid);
	return watch(p);
}

static void release(struct process *p)
{
	drop_socket(p);
	loop_source_close(p->link.pid_source);
	if (p->link.pidfd >= 0)
		close(p->link.pidfd);
	join_close(p->join);
	windows_drop(p->node->analysis.windows, p->slot);
	rank_close(p->rank);
	links_close(p->links);
	request_node_drop(p);
	recorder_drop_rank(p->node->analysis.recorder, p->slot);
	ring_reader_close(p->reader);
	p->node->processes[p->slot] = NULL;
	quota_give(&p->node->admission.quota, p->uid, 1);
	free(p);
}

static void accept_process(struct process *p)
{
	struct attach_command c = {.magic = ATTACH_MAGIC, .kind = ATTACH_ACCEPT};

	drain_prepare(p);
	if (send(p->link.sock, &c, sizeof(c), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("attach", "pid=%u accept not sent: %s", p->id.pid, strerror(errno));
}

/* Takes fds, also on error. */
static int open_ring(struct ring_reader **out, const int fds[ATTACH_FDS])
{
	int err = ring_reader_open(out, fds[0], fds[1]);

	if (err) {
		close(fds[0]);
		close(fds[1]);
	}
	return err;
}

int process_attach(struct node *n, const struct attach_hello *h, pid_t pid, uid_t uid, int sock,
		   const int fds[ATTACH_FDS])
{
	struct process *p = find_same(n, h, pid);
	struct ring_reader *reader;
	int slot, err;

	if (p) {
		/* Publish before opening: the new reader starts at the last published tails. */
		ring_reader_publish(p->reader, clock_monotonic_ns());
		err = open_ring(&reader, fds);
		if (err)
			return err;
		if (ring_reader_lane_count(reader) != ring_reader_lane_count(p->reader)) {
			ring_reader_close(reader);
			return -EPROTO;
		}
		err = reattach(p, sock, reader);
		if (err) /* sock is ours now, so leave() closes it */
			leave(p, PROCESS_DETACHED);
		else
			accept_process(p);
		return 0;
	}
	err = open_ring(&reader, fds);
	if (err)
		return err;
	supersede(n, pid);
	slot = free_slot(n, uid);
	if (slot < 0) {
		ring_reader_close(reader);
		return slot;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		ring_reader_close(reader);
		return -ENOMEM;
	}
	*p = (struct process){.node = n,
			      .slot = (uint32_t)slot,
			      .serial = ++n->admission.serial,
			      .state = PROCESS_ATTACHED,
			      .pid = pid,
			      .uid = uid,
			      .reader = reader,
			      .attached_ns = clock_monotonic_ns(),
			      .link = {.sock = sock, .pidfd = -1, .trace_state = RING_TRACE_ON}};
	n->processes[slot] = p;
	quota_take(&n->admission.quota, uid, 1, 0);
	set_idle(n, false);
	identify(p, h);
	err = start(p, reader);
	if (err) {
		log_warn("attach", "pid=%d: cannot start its analysis: %s", (int)pid,
			 strerror(-err));
		release(p);
		return 0;
	}
	n->admission.attached++;
	log_info("attach", "pid=%u uid=%u rank=%d world=%d job=%s program=%s libs=\"%s\"",
		 p->id.pid, (unsigned)uid, p->id.rank, p->id.world_size, p->id.job, p->id.program,
		 p->libs);
	accept_process(p);
	return 0;
}

/* ---- end ---- */

void process_forget(struct process *p)
{
	p->node->admission.raw_bytes_gone += process_raw_bytes(p);
	if (p->pid > 0 && p->state != PROCESS_GONE)
		cpu_stacks_unwatch(p->node->stacks, (uint32_t)p->pid);
	release(p);
}

void process_tend(struct node *n, uint64_t now_ns)
{
	bool any = false;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (!p)
			continue;
		any = true;
		if (p->state == PROCESS_DETACHED && now_ns > p->left_ns &&
		    now_ns - p->left_ns > PROCESS_DETACHED_NS)
			leave(p, PROCESS_GONE);
		if (p->state == PROCESS_ATTACHED && ring_reader_stats(p->reader)->detach_reason) {
			log_warn("detach", "pid=%u: invalid ring contents; detached", p->id.pid);
			n->admission.refused_bad++;
			leave(p, PROCESS_GONE);
		}
		if (p->state != PROCESS_GONE)
			continue;
		if (p->join) { /* the process has ended since the last turn */
			drain_last(p);
			request_node_end(p);
			log_info("end", "pid=%u rank=%d steps=%llu flagged=%llu", p->id.pid,
				 p->id.rank, (unsigned long long)p->rank->stats.steps,
				 (unsigned long long)p->rank->stats.flagged);
		} else if (now_ns > p->left_ns && now_ns - p->left_ns > PROCESS_GONE_NS) {
			process_forget(p);
		}
	}
	set_idle(n, !any);
}

/* ---- counts ---- */

uint64_t process_events(const struct process *p)
{
	return p->past.events + ring_reader_stats(p->reader)->events;
}

uint64_t process_raw_bytes(const struct process *p)
{
	const struct ring_stats *st = ring_reader_stats(p->reader);

	return p->past.bytes + st->bytes;
}

const struct join_stats *process_join_stats(const struct process *p)
{
	return p->join ? join_stats(p->join) : &p->past.join;
}

static const bool drop_loses[] = {
#define X(name, text, events) events,
    RING_DROP_CAUSES (X)
#undef X
};

void process_losses(const struct process *p, bool events_only,
		    void (*fn)(void *arg, const char *cause, uint64_t count), void *arg)
{
	static const char *const drop_names[] = {
#define X(name, text, events) text,
	    RING_DROP_CAUSES (X)
#undef X
	};
	const struct ring_stats *st = ring_reader_stats(p->reader);
	const struct join_stats *js = process_join_stats(p);
	struct ring_counters c;

	fn(arg, "lapped", st->lost_lapped);
	fn(arg, "torn", st->lost_torn);
	fn(arg, "bad_kind", st->lost_bad_kind);
	fn(arg, "before_reattach", p->past.lost);
	ring_reader_counters(p->reader, &c);
	for (int i = 0; i < RING_DROP_COUNT; i++)
		if (events_only ? drop_loses[i]
				: i != RING_DROP_SWITCHED_OFF) /* the user asked for it */
			fn(arg, drop_names[i], c.drops[i]);
	if (!events_only)
		fn(arg, "plugin_crash", p->state == PROCESS_GONE && c.plugin_calls > 0);
	for (unsigned i = 0; i < JOIN_LOSS_COUNT; i++)
		fn(arg, join_loss_name(i), js->loss[i]);
}

/* The process writes these counters: a hostile one must not wrap the sum. */
static void add_lost(uint64_t *sum, uint64_t count)
{
	*sum = *sum + count < *sum ? UINT64_MAX : *sum + count;
}

uint64_t process_lost(const struct process *p)
{
	const struct ring_stats *st = ring_reader_stats(p->reader);
	uint64_t sum = p->past.lost + st->lost_lapped + st->lost_torn + st->lost_bad_kind;
	struct ring_counters c;

	ring_reader_counters(p->reader, &c);
	for (int i = 0; i < RING_DROP_COUNT; i++)
		if (drop_loses[i])
			add_lost(&sum, c.drops[i]);
	return sum;
}

uint64_t process_switched_off(const struct process *p)
{
	uint64_t sum = process_join_stats(p)->switched_off;
	struct ring_counters c;

	ring_reader_counters(p->reader, &c);
	add_lost(&sum, c.drops[RING_DROP_SWITCHED_OFF]);
	return sum;
}

bool process_any_anomaly(const struct node *n, uint64_t now_ns)
{
	if (now_ns < n->analysis.closer_until_ns)
		return true;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i] && n->processes[i]->rank->anomaly.state == ANOMALY_OPEN)
			return true;
	return false;
}

struct process *process_by_serial(const struct node *n, uint64_t serial)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i] && n->processes[i]->serial == serial)
			return n->processes[i];
	return NULL;
}

bool process_matches(const struct process *p, const char *job, int32_t rank)
{
	return (!job || !*job || job_key_matches(p->id.job, job)) &&
	       (rank == INT32_MIN || rank == p->id.rank);
}

/* SPDX-License-Identifier: Apache-2.0
 * The sampler has its own thread, because the rings would fill if the loop did its work: loading
 * takes seconds in the kernel's verifier, and a drain, or a process with hundreds of mappings,
 * takes milliseconds. The loop requests a turn; the thread carries it out and keeps the periods.
 * Periods are kept packed, in the format in which they would be sent (wire/stacks.h). A period of a
 * busy node takes megabytes unpacked and some ten kilobytes packed, and most periods are never
 * sent. */
#include "sidecar/stacks/cpu_stacks.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/daemon/log.h"
#include "base/limits.h"
#include "sidecar/settings.h"
#include "sidecar/stacks/neighbours.h"
#include "wire/stacks.h"

#define PERIODS 256u
/* Between drains while an anomaly is open: the kernel's maps fill faster. */
#define RAISED_NS 1000000000ull
#define LOWER_NS                                                                                   \
	10000000000ull /* sample at every tick for this long after the last anomaly closed */
/* Longest time of sampling the whole node, and its share in the long run: sampling other processes
 * costs them time. */
#define WIDE_MAX_NS   60000000000ull
#define WIDE_SHARE    0.2
#define WIDE_MIN_NS   10000000000ull /* do not start with less time left */
#define FAMILY_MAX    4096u
#define ANCESTORS_MAX 32
/* The longest wait for the drain that completes a window. After that the window goes without the
 * drain. Rings fill during a wait, so for a while no other wait follows. */
#define EXTRACT_WAIT_MS	   40u
#define EXTRACT_BACKOFF_NS 2000000000ull
#define THREAD_NICE	   5
/* the sampler's own limit */
#define RECORDED_MAX 512u
/* A waking thread is recorded if the waits that it ended took a 20th of a period. At most
 * WAKERS_MAX candidates per process. */
#define WAKER_SHARE 20u
#define WAKERS_MAX  16u
/* Shorter times off the CPU are dropped. Most switches are shorter; a step has some hundred longer
 * ones at most. */
#define SWITCH_MIN_NS 100000u

struct period {
	uint64_t begin_ns, end_ns;
	struct buf packed;
};

struct member { /* a process seen in a batch, and its rank */
	uint32_t pid, root;
	uint64_t seen;	   /* drain number */
	uint64_t asked_of; /* roots_serial when no rank was found for it */
};

/* A thread whose switches are recorded one by one, so that a step's time can be divided at them. */
struct recorded {
	uint32_t pid, tid; /* 0: free */
	bool on;	   /* the sampler records it */
};

struct cpu_stacks {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	int wake; /* eventfd: a turn was requested, or the end */
	bool thread_runs;
	const struct settings *settings;
	/* used only by the loop */
	uint64_t drain_asked_ns, anomaly_ns, hurry_until_ns;
	bool raising;
	double wide_left_ns; /* for sampling the whole node */
	uint64_t wide_at_ns;
	/* under lock: what the loop requests */
	uint32_t root[LIMIT_NODE_PROCESSES];
	uint64_t asked; /* requested turns so far */
	uint64_t roots_serial;
	struct recorded recorded[RECORDED_MAX];
	bool recorded_new; /* some threads in recorded[] are not on yet */
	bool raise, drain, stop, wide;
	/* under lock: what the thread has done */
	uint64_t done, drained_ns;
	struct period period[PERIODS];
	uint32_t first, count;
	struct member member[FAMILY_MAX];
	uint32_t member_count;
	struct cpu_stacks_stats stats;
	struct sampler_stats sampler_stats;
	struct neighbours *neighbours; /* NULL: the whole node was never sampled */
	bool sampling;
	/* used only by the thread */
	struct sampler *sampler;
	struct sampler_options options;
	uint32_t added[LIMIT_NODE_PROCESSES];
	bool raised, widened, paused;
};

static void drop_oldest(struct cpu_stacks *s)
{
	struct period *p = &s->period[s->first];

	s->stats.kept_bytes -= p->packed.bytes;
	buf_fini(&p->packed);
	s->first = (s->first + 1) % PERIODS;
	s->count--;
}

/* ---- whose process is it ---- */

static uint32_t parent_of(uint32_t pid)
{
	char path[32], text[512], *close;
	unsigned parent = 0;
	size_t bytes;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	bytes = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[bytes] = 0;
	close = strrchr(text, ')'); /* a process name may contain anything, even brackets */
	return close && sscanf(close + 1, " %*c %u", &parent) == 1 ? parent : 0;
}

static bool is_root(const struct cpu_stacks *s, uint32_t pid)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (pid && s->root[i] == pid)
			return true;
	return false;
}

/* The rank's process that is pid or an ancestor of it; 0: none. */
static uint32_t find_root(const struct cpu_stacks *s, uint32_t pid)
{
	for (int i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
		if (is_root(s, pid))
			return pid;
		pid = parent_of(pid);
	}
	return 0;
}

static struct member *member_of(struct cpu_stacks *s, uint32_t pid)
{
	for (uint32_t i = 0; i < s->member_count; i++)
		if (s->member[i].pid == pid)
			return &s->member[i];
	return NULL;
}

/* Under lock. Learns which rank the batch's processes belong to, while most of them still live. A
 * process not seen for PERIODS drains makes room. */
static void learn_family(struct cpu_stacks *s, const struct stack_batch *b)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < b->sample_count; i++) {
		uint32_t pid = b->samples[i].pid;
		struct member *m;

		if (pid == last)
			continue;
		last = pid;
		m = member_of(s, pid);
		if (!m && s->member_count == FAMILY_MAX) {
			uint32_t kept = 0;

			for (uint32_t k = 0; k < s->member_count; k++)
				if (s->member[k].seen + PERIODS > s->stats.drains)
					s->member[kept++] = s->member[k];
			s->member_count = kept;
		}
		if (!m && s->member_count < FAMILY_MAX) {
			m = &s->member[s->member_count++];
			*m = (struct member){.pid = pid};
			m->asked_of = s->roots_serial - 1;
		}
		/* no rank was found among earlier roots, or the pid was used again */
		if (m && ((!m->root && m->asked_of != s->roots_serial) ||
			  s->stats.drains > m->seen + PERIODS)) {
			m->root = find_root(s, pid);
			m->asked_of = s->roots_serial;
		}
		if (m)
			m->seen = s->stats.drains;
		if (m && m->root)
			continue;
		if (s->widened)
			s->stats.others++;
		else
			s->stats.strangers++;
	}
}

/* ---- periods ---- */

/* Under lock. Takes packed's bytes. */
static void keep(struct cpu_stacks *s, const struct stack_batch *b, struct buf *packed)
{
	struct period *p;

	if (!packed->bytes)
		return;
	if (s->count == PERIODS)
		drop_oldest(s);
	p = &s->period[(s->first + s->count) % PERIODS];
	*p = (struct period){.begin_ns = b->begin_ns, .end_ns = b->end_ns, .packed = *packed};
	memset(packed, 0, sizeof(*packed));
	s->count++;
	s->stats.kept_bytes += p->packed.bytes;
	while (s->count && (s->stats.kept_bytes > LIMIT_STACKS_KEPT_BYTES ||
			    s->period[s->first].end_ns + LIMIT_STACKS_KEPT_NS < b->end_ns))
		drop_oldest(s);
}

/* ---- the thread ---- */

static uint32_t root_of(void *arg, uint32_t pid)
{
	const struct member *m = member_of(arg, pid);

	return m ? m->root : 0;
}

static bool is_recorded(const struct cpu_stacks *s, uint32_t pid, uint32_t tid)
{
	for (uint32_t i = 0; i < RECORDED_MAX; i++)
		if (s->recorded[i].pid == pid && s->recorded[i].tid == tid)
			return true;
	return false;
}

/* Under lock. */
static void record_thread(struct cpu_stacks *s, uint32_t pid, uint32_t tid)
{
	uint32_t at = 0;

	while (at < RECORDED_MAX && s->recorded[at].tid)
		at++;
	if (at == RECORDED_MAX || is_recorded(s, pid, tid))
		return;
	s->recorded[at] = (struct recorded){.pid = pid, .tid = tid};
	s->recorded_new = true;
}

/* 0: none that can be recorded. */
static uint32_t waker_of(const struct stack_switch *s)
{
	uint32_t tid = stack_switch_waker(s);

	return tid & STACK_SWITCH_NOT_OURS || s->waker_tid & STACK_WAKER_PROCESS ? 0 : tid;
}

/* Under lock. Also records the thread that ended most of a process's waits, one more per drain. It
 * is usually a communication thread: its own waits at a socket show what the other threads wait
 * for. */
static void record_wakers(struct cpu_stacks *s, const struct stack_batch *b)
{
	for (uint32_t k = 0; k < LIMIT_NODE_PROCESSES; k++) {
		struct waker {
			uint32_t tid;
			uint64_t ns;
		} list[WAKERS_MAX] = {{0}}, *most = list;
		uint32_t n = 0, at;

		for (uint32_t i = 0; s->added[k] && i < b->switch_count; i++) {
			const struct stack_switch *w = &b->switches[i];

			uint32_t tid = waker_of(w);

			if (w->pid != s->added[k] || !tid || w->woken_ns <= w->out_ns)
				continue;
			for (at = 0; at < n && list[at].tid != tid; at++)
				;
			if (at == WAKERS_MAX || (at == n && is_recorded(s, w->pid, tid)))
				continue;
			n += at == n;
			list[at].tid = tid;
			list[at].ns += w->woken_ns - w->out_ns;
			if (list[at].ns > most->ns)
				most = &list[at];
		}
		if (most->ns * WAKER_SHARE >= b->end_ns - b->begin_ns && b->end_ns > b->begin_ns)
			record_thread(s, s->added[k], most->tid);
	}
}

static void drain(struct cpu_stacks *s)
{
	uint64_t begin_ns = clock_monotonic_ns(), spent_ns;
	struct stack_batch b;
	struct buf packed;
	int err;

	stack_batch_init(&b, keyed_process());
	buf_init(&packed, LIMIT_STACKS_KEPT_BYTES);
	err = sampler_drain(s->sampler, &b);
	if (err)
		log_warn("sampler", "cannot read samples: %s", strerror(-err));
	stack_batch_switches_thin(&b, SWITCH_MIN_NS);
	err = b.sample_count || b.switch_count ? stacks_pack(&b, &packed) : 0;
	if (err) {
		log_warn("sampler", "dropped a period of %u samples: %s", b.sample_count,
			 strerror(-err));
		buf_clear(&packed);
	}
	pthread_mutex_lock(&s->lock);
	s->stats.drains++;
	s->stats.pack_failed += !!err;
	learn_family(s, &b);
	record_wakers(s, &b);
	if (s->widened && s->neighbours)
		neighbours_add(s->neighbours, &b, root_of, s);
	keep(s, &b, &packed);
	s->drained_ns = begin_ns;
	spent_ns = clock_monotonic_ns() - begin_ns;
	s->stats.drain_ns += spent_ns;
	if (spent_ns > s->stats.drain_max_ns)
		s->stats.drain_max_ns = spent_ns;
	pthread_mutex_unlock(&s->lock);
	buf_fini(&packed);
	stack_batch_fini(&b);
}

static bool listed(const uint32_t *list, uint32_t pid)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (list[i] == pid)
			return true;
	return false;
}

/* Adds and removes processes until the sampler has those of root. */
static void follow(struct cpu_stacks *s, const uint32_t *root)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		if (s->added[i] && !listed(root, s->added[i])) {
			sampler_remove(s->sampler, s->added[i]);
			s->added[i] = 0;
		}
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		int err;

		if (!root[i] || listed(s->added, root[i]))
			continue;
		err = sampler_add(s->sampler, root[i], true);
		if (err)
			log_warn("sampler", "pid=%u: cannot sample it: %s", root[i],
				 strerror(-err));
		for (uint32_t k = 0; k < LIMIT_NODE_PROCESSES; k++) {
			if (!s->added[k]) {
				s->added[k] = root[i];
				break;
			}
		}
	}
}

/* Under lock, but releases it meanwhile. Starts recording newly named threads. */
static void start_recording(struct cpu_stacks *s)
{
	if (!s->recorded_new)
		return;
	s->recorded_new = false;
	for (uint32_t i = 0; i < RECORDED_MAX; i++) {
		struct recorded r = s->recorded[i];
		int err;

		if (!r.tid || r.on)
			continue;
		pthread_mutex_unlock(&s->lock);
		err = sampler_record_switches(s->sampler, r.pid, r.tid, true);
		pthread_mutex_lock(&s->lock);
		if (s->recorded[i].pid != r.pid || s->recorded[i].tid != r.tid)
			continue;
		if (err == -EAGAIN) /* try again after the next drain */
			s->recorded_new = true;
		else if (err)
			s->recorded[i] = (struct recorded){0};
		else
			s->recorded[i].on = true;
	}
}

static void widen(struct cpu_stacks *s, bool wide)
{
	int err;

	if (wide == s->widened)
		return;
	err = sampler_set_wide(s->sampler, wide);
	if (err && wide)
		log_warn("sampler", "cannot sample the whole node: %s", strerror(-err));
	pthread_mutex_lock(&s->lock);
	if (wide && !err && !s->neighbours)
		s->neighbours = calloc(1, sizeof(*s->neighbours));
	s->widened = wide && !err;
	s->stats.wide_begun += s->widened;
	pthread_mutex_unlock(&s->lock);
}

/* Pauses sampling while there is no rank to sample. */
static void set_paused(struct cpu_stacks *s, bool paused)
{
	int err;

	if (paused == s->paused)
		return;
	err = sampler_pause(s->sampler, paused);
	if (err)
		log_warn("sampler", "cannot sample blocked time: %s", strerror(-err));
	s->paused = paused;
}

static bool any_root(const uint32_t *root)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (root[i])
			return true;
	return false;
}

/* Does what the loop requested; false at the end. */
static bool turn(struct cpu_stacks *s)
{
	uint32_t root[LIMIT_NODE_PROCESSES];
	bool raise, wanted, stop, wide, idle;
	struct sampler_stats st;
	uint64_t serial;

	pthread_mutex_lock(&s->lock);
	memcpy(root, s->root, sizeof(root));
	serial = s->asked;
	raise = s->raise;
	wide = s->wide;
	wanted = s->drain;
	s->drain = false;
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	idle = !s->options.all_processes && !any_root(root);
	if (!idle)
		set_paused(s, false);
	follow(s, root);
	if (s->paused)
		wanted = false;
	if (wanted || (idle && !s->paused) || raise != s->raised || wide != s->widened)
		drain(s); /* drains first, because samples so far have the old weight */
	if (raise != s->raised)
		sampler_set_rate(s->sampler, s->options.rate_hz,
				 raise ? 100 : s->options.fraction_percent);
	s->raised = raise;
	widen(s, wide && !idle);
	if (idle)
		set_paused(s, true);
	sampler_stats_get(s->sampler, &st);
	pthread_mutex_lock(&s->lock);
	start_recording(s);
	s->stats.raised = raise;
	s->stats.wide = s->widened;
	s->sampler_stats = st;
	s->done = serial;
	pthread_cond_broadcast(&s->turned);
	pthread_mutex_unlock(&s->lock);
	return !stop;
}

static bool open_sampler(struct cpu_stacks *s)
{
	struct sampler_stats st = {.mode = SAMPLER_OFF};
	int err = sampler_open(&s->sampler, &s->options);

	if (err) {
		log_warn("sampler", "not opened: %s; there are no CPU stacks", strerror(-err));
		snprintf(st.why, sizeof(st.why), "could not be opened: %s", strerror(-err));
	} else {
		sampler_stats_get(s->sampler, &st);
		log_info("sampler", "mode=%s rate_hz=%u fraction=%u%% why=\"%s\" missing=\"%s\"",
			 sampler_mode_name(st.mode), s->options.rate_hz,
			 s->options.fraction_percent, st.why, st.missing);
	}
	pthread_mutex_lock(&s->lock);
	s->sampler_stats = st;
	s->sampling = !err;
	s->stats.opening = false;
	pthread_mutex_unlock(&s->lock);
	return !err;
}

static void *work(void *arg)
{
	struct cpu_stacks *s = arg;
	struct pollfd p[2] = {{.fd = s->wake, .events = POLLIN}, {.events = POLLIN}};
	uint64_t count;
	bool go_on = true;

	setpriority(PRIO_PROCESS, 0,
		    THREAD_NICE); /* this thread only: draining the rings comes first */
	if (!open_sampler(s))
		return NULL;
	malloc_trim(0); /* loading the programs took megabytes */
	set_paused(s, !s->options.all_processes);
	p[1].fd = sampler_fd(s->sampler); /* negative if there is none; poll ignores it */
	while (go_on) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents)
			sampler_poll(s->sampler);
		if (p[0].revents && read(s->wake, &count, sizeof(count)) == sizeof(count))
			go_on = turn(s);
	}
	sampler_close(s->sampler);
	return NULL;
}

/* ---- the loop ---- */

/* Under lock. Requests a turn of the thread. */
static void ask(struct cpu_stacks *s)
{
	uint64_t one = 1;

	s->asked++;
	if (write(s->wake, &one, sizeof(one)) != sizeof(one))
		log_warn("sampler", "cannot wake the thread: %s", strerror(errno));
}

static void fill_options(struct sampler_options *o, const struct settings *set)
{
	sampler_options_init(o);
	o->mode_max = (enum sampler_mode)set->sampler_mode;
	o->rate_hz = (uint32_t)set->sampler_rate_hz;
	o->fraction_percent = (uint32_t)set->sampler_fraction;
	o->slice_ms = STACK_SLICE_NS / 1000000;
	o->off_cpu = set->sampler_off_cpu;
	o->off_cpu_min_ns = set->sampler_off_cpu_min_ns;
	o->python = set->sampler_python;
	o->all_processes = set->sampler_all;
}

int cpu_stacks_open(struct cpu_stacks **out, const struct settings *set, struct reader *reader)
{
	struct cpu_stacks *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->wake = eventfd(0, EFD_CLOEXEC);
	if (s->wake < 0) {
		free(s);
		return -errno;
	}
	*out = s;
	s->settings = set;
	s->drained_ns = s->drain_asked_ns = clock_monotonic_ns();
	fill_options(&s->options, set);
	s->options.reader = reader;
	s->stats.opening = true;
	pthread_mutex_init(&s->lock, NULL);
	cond_init_monotonic(&s->turned);
	err = pthread_create(&s->thread, NULL, work, s);
	s->thread_runs = !err;
	return -err;
}

void cpu_stacks_close(struct cpu_stacks *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	ask(s);
	pthread_mutex_unlock(&s->lock);
	if (s->thread_runs)
		pthread_join(s->thread, NULL);
	while (s->count)
		drop_oldest(s);
	free(s->neighbours);
	pthread_cond_destroy(&s->turned);
	pthread_mutex_destroy(&s->lock);
	close(s->wake);
	free(s);
}

/* Replaces the first root equal to from. */
static void replace_root(struct cpu_stacks *s, uint32_t from, uint32_t to)
{
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && !listed(s->root, to ? to : UINT32_MAX);
	     i++) {
		if (s->root[i] != from)
			continue;
		s->root[i] = to;
		s->roots_serial++;
		ask(s);
		break;
	}
	pthread_mutex_unlock(&s->lock);
}

void cpu_stacks_watch(struct cpu_stacks *s, uint32_t pid)
{
	if (s && pid)
		replace_root(s, 0, pid);
}

void cpu_stacks_unwatch(struct cpu_stacks *s, uint32_t pid)
{
	if (!s || !pid)
		return;
	replace_root(s, pid, 0);
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < RECORDED_MAX; i++)
		if (s->recorded[i].pid == pid)
			s->recorded[i] = (struct recorded){0};
	pthread_mutex_unlock(&s->lock);
}

void cpu_stacks_record_threads(struct cpu_stacks *s, uint32_t pid, const uint32_t *tids,
			       uint32_t count)
{
	if (!s || !pid)
		return;
	pthread_mutex_lock(&s->lock);
	record_thread(s, pid, pid); /* other threads wait for the first thread */
	for (uint32_t i = 0; i < count; i++)
		if (tids[i])
			record_thread(s, pid, tids[i]);
	if (s->recorded_new)
		ask(s);
	pthread_mutex_unlock(&s->lock);
}

bool cpu_stacks_raised(const struct cpu_stacks *s)
{
	return s && s->raising;
}

/* Under lock. Whether the whole node may be sampled now. */
static bool may_widen(struct cpu_stacks *s, bool raise, uint64_t now_ns)
{
	double passed_ns = s->wide_at_ns ? (double)(now_ns - s->wide_at_ns) : 0;

	s->wide_left_ns =
	    s->wide_at_ns ? s->wide_left_ns + passed_ns * WIDE_SHARE : (double)WIDE_MAX_NS;
	s->wide_at_ns = now_ns;
	if (s->wide) {
		s->wide_left_ns -= passed_ns;
		s->stats.wide_ns += (uint64_t)passed_ns;
	}
	if (s->wide_left_ns > (double)WIDE_MAX_NS)
		s->wide_left_ns = (double)WIDE_MAX_NS;
	return raise && s->wide_left_ns > (s->wide ? 0.0 : (double)WIDE_MIN_NS);
}

void cpu_stacks_tend(struct cpu_stacks *s, bool closer, uint64_t now_ns)
{
	bool raise, wide;

	if (!s)
		return;
	if (closer)
		s->anomaly_ns = now_ns;
	raise = s->raising = s->anomaly_ns && now_ns - s->anomaly_ns < LOWER_NS;
	pthread_mutex_lock(&s->lock);
	if (s->sampling) {
		bool due = now_ns - s->drain_asked_ns >=
			   (raise ? RAISED_NS : s->settings->sampler_period_ns);

		/* copy mode has only stacks of the ranks */
		wide = s->settings->sampler_wide && s->sampler_stats.mode >= SAMPLER_BPF_TAIL &&
		       may_widen(s, raise, now_ns);
		if (due || raise != s->raise || wide != s->wide) {
			s->drain_asked_ns = now_ns;
			s->drain |= due;
			s->raise = raise;
			s->wide = wide;
			ask(s);
		}
	}
	pthread_mutex_unlock(&s->lock);
}

/* Under lock, but releases it while it waits. True if the thread has done all requested turns. */
static bool settle(struct cpu_stacks *s, uint32_t wait_ms)
{
	uint64_t until_ns = clock_monotonic_ns() + wait_ms * 1000000ull, serial = s->asked;
	struct timespec t = clock_timespec(until_ns);

	while (s->sampling && s->done < serial)
		if (pthread_cond_timedwait(&s->turned, &s->lock, &t))
			return false;
	return s->sampling;
}

bool cpu_stacks_settle(struct cpu_stacks *s, uint32_t wait_ms)
{
	bool done = false;

	if (s) {
		pthread_mutex_lock(&s->lock);
		done = settle(s, wait_ms);
		pthread_mutex_unlock(&s->lock);
	}
	return done;
}

/* Under lock. */
static int extract(struct cpu_stacks *s, const uint32_t *pids, size_t pid_count, uint64_t begin_ns,
		   uint64_t end_ns, struct stack_batch *out)
{
	int err = 0;

	for (uint32_t i = 0; i < s->count && !err; i++) {
		const struct period *p = &s->period[(s->first + i) % PERIODS];
		struct stack_batch b;

		if (p->end_ns <= begin_ns || p->begin_ns >= end_ns)
			continue;
		stack_batch_init(&b, keyed_process());
		err = stacks_unpack(p->packed.data, p->packed.bytes, &b);
		if (!err)
			err = stack_batch_merge(out, &b, pids, pid_count, begin_ns, end_ns);
		if (!err)
			out->lost_samples += b.lost_samples;
		stack_batch_fini(&b);
	}
	return err == -E2BIG ? 0 : err; /* the batch is full, which is not an error */
}

int cpu_stacks_extract(struct cpu_stacks *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
		       struct stack_batch *out)
{
	uint32_t pids[FAMILY_MAX];
	uint64_t now_ns = clock_monotonic_ns();
	size_t pid_count = 0;
	int err = -ENOSYS;

	if (!s || !pid)
		return -ENOSYS;
	out->begin_ns = begin_ns;
	out->end_ns = end_ns;
	pthread_mutex_lock(&s->lock);
	if (s->sampling && end_ns > s->drained_ns && now_ns >= s->hurry_until_ns) {
		s->drain = true;
		ask(s);
		if (!settle(s, EXTRACT_WAIT_MS))
			s->hurry_until_ns = now_ns + EXTRACT_BACKOFF_NS;
	}
	for (uint32_t i = 0; i < s->member_count; i++)
		if (s->member[i].root == pid)
			pids[pid_count++] = s->member[i].pid;
	if (s->sampling)
		err = pid_count ? extract(s, pids, pid_count, begin_ns, end_ns, out) : 0;
	pthread_mutex_unlock(&s->lock);
	return err;
}

void cpu_stacks_neighbours(struct cpu_stacks *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
			   double step_ms, struct os_signal *list, uint32_t *count, uint32_t max)
{
	if (!s || !pid)
		return;
	pthread_mutex_lock(&s->lock);
	if (s->neighbours)
		neighbours_signals(s->neighbours, pid, begin_ns, end_ns, step_ms, list, count, max);
	pthread_mutex_unlock(&s->lock);
}

/* Under lock. */
static int copy_periods(const struct cpu_stacks *s, uint64_t begin_ns, uint64_t end_ns,
			struct buf *out)
{
	int n = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct period *p = &s->period[(s->first + i) % PERIODS];

		if (p->end_ns <= begin_ns || p->begin_ns >= end_ns)
			continue;
		buf_init(&out[n], LIMIT_STACKS_KEPT_BYTES);
		buf_append(&out[n], p->packed.data, p->packed.bytes);
		n += !out[n].failed;
	}
	return n;
}

int cpu_stacks_copy(struct cpu_stacks *s, uint64_t begin_ns, uint64_t end_ns, struct buf **out,
		    struct cpu_stacks_member **family, uint32_t *family_count)
{
	int count = -ENOSYS;

	if (!s)
		return -ENOSYS;
	*out = calloc(PERIODS, sizeof(**out));
	*family = calloc(FAMILY_MAX, sizeof(**family));
	if (!*out || !*family) {
		free(*out);
		free(*family);
		return -ENOMEM;
	}
	pthread_mutex_lock(&s->lock);
	if (s->sampling) {
		count = copy_periods(s, begin_ns, end_ns, *out);
		for (*family_count = 0; *family_count < s->member_count; (*family_count)++)
			(*family)[*family_count] = (struct cpu_stacks_member){
			    s->member[*family_count].pid, s->member[*family_count].root};
	}
	pthread_mutex_unlock(&s->lock);
	if (count < 0) {
		free(*out);
		free(*family);
	}
	return count;
}

void cpu_stacks_stats_get(struct cpu_stacks *s, struct cpu_stacks_stats *out,
			  struct sampler_stats *sampler)
{
	memset(out, 0, sizeof(*out));
	memset(sampler, 0, sizeof(*sampler));
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	out->neighbours_lost = s->neighbours ? s->neighbours->lost : 0;
	if (s->count)
		out->kept_ns = s->period[(s->first + s->count - 1) % PERIODS].end_ns -
			       s->period[s->first].begin_ns;
	*sampler = s->sampler_stats;
	if (out->opening)
		snprintf(sampler->why, sizeof(sampler->why), "being loaded");
	pthread_mutex_unlock(&s->lock);
}

/* SPDX-License-Identifier: Apache-2.0
 * cpu_stacks.c - see cpu_stacks.h.
 * Periods are kept packed as they would be sent (wire/stacks.h): a period of a busy node is
 * megabytes in memory and some ten kilobytes packed, and most are never looked at. */
#include "sidecar/cpu_stacks.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/limits.h"
#include "base/log.h"
#include "sidecar/node.h"
#include "wire/stacks.h"

#define PERIODS 256u
#define RAISED_NS                                                                                  \
	1000000000ull /* between drains while an anomaly is open: the count maps fill faster */
#define LOWER_NS      10000000000ull /* all ticks for this long after the last anomaly closed */
#define FAMILY_MAX    4096u
#define ANCESTORS_MAX 32

struct period {
	uint64_t begin_ns, end_ns;
	struct buf packed;
};

struct member { /* a process seen in a batch: whose it is */
	uint32_t pid, root;
	uint64_t seen; /* drain number */
};

struct cpu_stacks {
	struct sampler *sampler, *opening; /* NULL: not there yet */
	struct sampler_options options;
	pthread_t thread; /* opens it */
	bool thread_runs, opened;
	int open_err;
	struct loop_source *source;
	struct period period[PERIODS];
	uint32_t first, count;
	struct member member[FAMILY_MAX];
	uint32_t member_count;
	uint32_t root[LIMIT_NODE_PROCESSES];
	uint64_t drained_ns, anomaly_ns;
	struct cpu_stacks_stats stats;
};

static void on_sampler(void *arg, uint32_t events)
{
	struct node *n = arg;

	sampler_poll(n->stacks->sampler);
}

static void add_root(struct cpu_stacks *s, uint32_t pid)
{
	int err = s->sampler ? sampler_add(s->sampler, pid, true) : 0;

	if (err)
		log_warn("sampler", "pid=%u: %s", pid, strerror(-err));
}

/* Loading takes the kernel's verifier seconds of CPU time: the jobs' rings are read meanwhile. */
static void *open_sampler(void *arg)
{
	struct cpu_stacks *s = arg;

	s->open_err = sampler_open(&s->opening, &s->options);
	/* release: pairs with the acquire in take_sampler */
	__atomic_store_n(&s->opened, true, __ATOMIC_RELEASE);
	return NULL;
}

int cpu_stacks_open(struct node *n)
{
	const struct settings *set = &n->settings;
	struct cpu_stacks *s = calloc(1, sizeof(*s));
	struct sampler_options *o;
	int err;

	if (!s)
		return -ENOMEM;
	n->stacks = s;
	s->drained_ns = clock_monotonic_ns();
	o = &s->options;
	sampler_options_init(o);
	o->mode_max = (enum sampler_mode)set->sampler_mode;
	o->rate_hz = (uint32_t)set->sampler_rate_hz;
	o->fraction_percent = (uint32_t)set->sampler_fraction;
	o->slice_ms = 100;
	o->off_cpu = set->sampler_off_cpu;
	o->off_cpu_min_ns = set->sampler_off_cpu_min_ns;
	o->python = set->sampler_python;
	o->all_processes = set->sampler_all;
	s->stats.opening = true;
	err = pthread_create(&s->thread, NULL, open_sampler, s);
	if (err)
		return -err;
	s->thread_runs = true;
	return 0;
}

/* The sampler, once its thread has it; with all ranks that came meanwhile. */
static void take_sampler(struct node *n)
{
	struct cpu_stacks *s = n->stacks;
	struct sampler_stats st;
	int fd, err;

	/* acquire: pairs with the release in open_sampler */
	if (!s->thread_runs || !__atomic_load_n(&s->opened, __ATOMIC_ACQUIRE))
		return;
	pthread_join(s->thread, NULL);
	s->thread_runs = false;
	s->stats.opening = false;
	if (s->open_err) {
		log_warn("sampler", "not opened: %s", strerror(-s->open_err));
		return;
	}
	s->sampler = s->opening;
	s->opening = NULL;
	sampler_stats_get(s->sampler, &st);
	log_info("sampler", "mode=%s rate_hz=%u fraction=%u%% why=\"%s\" missing=\"%s\"",
		 sampler_mode_name(st.mode), s->options.rate_hz, s->options.fraction_percent, st.why,
		 st.missing);
	fd = sampler_fd(s->sampler);
	err = fd < 0 ? 0 : loop_add_fd(n->loop, fd, EPOLLIN, on_sampler, n, &s->source);
	if (err)
		log_warn("sampler", "not watched: %s", strerror(-err));
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (s->root[i])
			add_root(s, s->root[i]);
}

static void drop_oldest(struct cpu_stacks *s)
{
	struct period *p = &s->period[s->first];

	s->stats.kept_bytes -= p->packed.bytes;
	buf_fini(&p->packed);
	s->first = (s->first + 1) % PERIODS;
	s->count--;
}

void cpu_stacks_close(struct node *n)
{
	struct cpu_stacks *s = n->stacks;

	if (!s)
		return;
	if (s->thread_runs)
		pthread_join(s->thread, NULL);
	loop_source_close(s->source);
	sampler_close(s->sampler);
	sampler_close(s->opening);
	while (s->count)
		drop_oldest(s);
	free(s);
	n->stacks = NULL;
}

void cpu_stacks_watch(struct node *n, uint32_t pid)
{
	struct cpu_stacks *s = n->stacks;

	if (!s || !pid)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		if (s->root[i] == pid)
			return;
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		if (s->root[i])
			continue;
		s->root[i] = pid;
		add_root(s, pid);
		return;
	}
}

void cpu_stacks_unwatch(struct node *n, uint32_t pid)
{
	struct cpu_stacks *s = n->stacks;

	for (uint32_t i = 0; s && i < LIMIT_NODE_PROCESSES; i++) {
		if (s->root[i] != pid)
			continue;
		s->root[i] = 0;
		if (s->sampler)
			sampler_remove(s->sampler, pid);
	}
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
	close = strrchr(text, ')'); /* a name may hold anything, brackets too */
	return close && sscanf(close + 1, " %*c %u", &parent) == 1 ? parent : 0;
}

static bool is_root(const struct cpu_stacks *s, uint32_t pid)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (pid && s->root[i] == pid)
			return true;
	return false;
}

/* The rank's process that pid descends from; 0: none that is known. */
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

/* Learns the processes of a fresh batch while they (mostly) still live. Those not seen for as long
 * as periods are kept make room. */
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
			*m = (struct member){.pid = pid, .root = find_root(s, pid)};
		}
		if (m && (!m->root || s->stats.drains > m->seen + PERIODS))
			m->root =
			    find_root(s, pid); /* unknown so far, or the number is used again */
		if (m)
			m->seen = s->stats.drains;
		if (!m || !m->root)
			s->stats.strangers++;
	}
}

/* ---- periods ---- */

static void keep(struct cpu_stacks *s, const struct stack_batch *b)
{
	struct period *p;
	int err;

	if (!b->sample_count)
		return;
	if (s->count == PERIODS)
		drop_oldest(s);
	p = &s->period[(s->first + s->count) % PERIODS];
	*p = (struct period){.begin_ns = b->begin_ns, .end_ns = b->end_ns};
	buf_init(&p->packed, LIMIT_STACKS_KEPT_BYTES);
	err = stacks_pack(b, &p->packed);
	if (err) {
		s->stats.pack_failed++;
		log_warn("sampler", "a period of %u samples is not kept: %s", b->sample_count,
			 strerror(-err));
		buf_fini(&p->packed);
		return;
	}
	s->count++;
	s->stats.kept_bytes += p->packed.bytes;
	while (s->count && (s->stats.kept_bytes > LIMIT_STACKS_KEPT_BYTES ||
			    s->period[s->first].end_ns + LIMIT_STACKS_KEPT_NS < b->end_ns))
		drop_oldest(s);
}

static void drain(struct cpu_stacks *s, uint64_t now_ns)
{
	struct stack_batch b;
	uint64_t spent_ns;
	int err;

	stack_batch_init(&b);
	err = sampler_drain(s->sampler, &b);
	s->stats.drains++;
	if (err)
		log_warn("sampler", "drain: %s", strerror(-err));
	learn_family(s, &b);
	keep(s, &b);
	stack_batch_fini(&b);
	s->drained_ns = now_ns;
	spent_ns = clock_monotonic_ns() - now_ns;
	s->stats.drain_ns += spent_ns;
	if (spent_ns > s->stats.drain_max_ns)
		s->stats.drain_max_ns = spent_ns;
}

static bool anomaly_open(const struct node *n)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i] && n->processes[i]->rank->anomaly.state == ANOMALY_OPEN)
			return true;
	return false;
}

void cpu_stacks_tend(struct node *n, uint64_t now_ns)
{
	struct cpu_stacks *s = n->stacks;
	bool raise;

	if (!s)
		return;
	take_sampler(n);
	if (!s->sampler)
		return;
	if (anomaly_open(n))
		s->anomaly_ns = now_ns;
	raise = s->anomaly_ns && now_ns - s->anomaly_ns < LOWER_NS;
	if (raise != s->stats.raised) {
		uint32_t fraction = raise ? 100 : (uint32_t)n->settings.sampler_fraction;

		/* what was counted so far has the old weight */
		drain(s, now_ns);
		sampler_set_rate(s->sampler, (uint32_t)n->settings.sampler_rate_hz, fraction);
		s->stats.raised = raise;
	}
	if (now_ns - s->drained_ns >= (raise ? RAISED_NS : n->settings.sampler_period_ns))
		drain(s, now_ns);
}

int cpu_stacks_extract(struct node *n, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
		       struct stack_batch *out)
{
	struct cpu_stacks *s = n->stacks;
	uint32_t pids[FAMILY_MAX];
	size_t pid_count = 0;
	int err = 0;

	if (!s || !s->sampler || !pid)
		return -ENOSYS;
	if (end_ns > s->drained_ns)
		drain(s, clock_monotonic_ns());
	for (uint32_t i = 0; i < s->member_count; i++)
		if (s->member[i].root == pid)
			pids[pid_count++] = s->member[i].pid;
	out->begin_ns = begin_ns;
	out->end_ns = end_ns;
	if (!pid_count)
		return 0;
	for (uint32_t i = 0; i < s->count && !err; i++) {
		const struct period *p = &s->period[(s->first + i) % PERIODS];
		struct stack_batch b;

		if (p->end_ns <= begin_ns || p->begin_ns >= end_ns)
			continue;
		stack_batch_init(&b);
		err = stacks_unpack(p->packed.data, p->packed.bytes, LIMIT_WIRE_UNPACKED_BYTES, &b);
		if (!err)
			err = stack_batch_merge(out, &b, pids, pid_count, begin_ns, end_ns);
		if (!err)
			out->lost_samples += b.lost_samples;
		stack_batch_fini(&b);
	}
	return err == -E2BIG ? 0 : err; /* as many as a window may hold */
}

void cpu_stacks_stats_get(const struct node *n, struct cpu_stacks_stats *out,
			  struct sampler_stats *sampler)
{
	const struct cpu_stacks *s = n->stacks;

	memset(out, 0, sizeof(*out));
	memset(sampler, 0, sizeof(*sampler));
	if (!s)
		return;
	*out = s->stats;
	if (s->count)
		out->kept_ns = s->period[(s->first + s->count - 1) % PERIODS].end_ns -
			       s->period[s->first].begin_ns;
	if (s->sampler)
		sampler_stats_get(s->sampler, sampler);
	else
		snprintf(sampler->why, sizeof(sampler->why), "%s",
			 s->stats.opening ? "being loaded" : "could not be opened (see the log)");
}

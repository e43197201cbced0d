/* SPDX-License-Identifier: Apache-2.0
 * Sketches of ranks that are due at about the same time are made together, so that each period of
 * stacks is unpacked once. */
#include "sidecar/stacks/sketch_maker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/daemon/log.h"
#include "base/limits.h"
#include "sidecar/node.h"
#include "sidecar/process.h"
#include "sidecar/stacks/cpu_stacks.h"
#include "sidecar/stacks/installed.h"
#include "wire/stacks.h"

#define SKETCHES_NICE 19
/* When a sketch is due, ranks that have passed this share of their period get one too. */
#define TOGETHER 0.9

struct item {
	struct sketch s;
	struct normal_when when;
	uint32_t pid;
	char libs[ATTACH_TEXT_BYTES];
};

struct sketch_maker {
	struct node *node; /* the thread uses only its settings, stacks and uplink */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool stop, started;
	/* under lock */
	struct item *items; /* requested; NULL: none */
	uint32_t item_count;
	bool busy;
	struct sketch_maker_stats stats;
	atomic_bool ending; /* also stops what the thread waits for */
	/* used only by the thread */
	struct reader_queue *readers;
	struct symbol_reader *symbols;
	struct cpu_profile *profile;
	struct cpu_stacks_member *family;
	uint32_t family_count;
};

/* ---- the thread ---- */

static uint32_t root_of(void *arg, uint32_t pid)
{
	const struct sketch_maker *k = arg;

	for (uint32_t i = 0; i < k->family_count; i++)
		if (k->family[i].pid == pid)
			return k->family[i].root;
	return 0;
}

static void add_period(struct sketch_maker *k, struct buf *packed)
{
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	if (!stacks_unpack(packed->data, packed->bytes, &b))
		cpu_profile_add(k->profile, &b, root_of, k);
	stack_batch_fini(&b);
}

static void add_stacks(struct sketch_maker *k, struct item *items, uint32_t count)
{
	struct cpu_profile_rank ranks[LIMIT_NODE_PROCESSES];
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;
	struct buf *periods = NULL;
	int n;

	for (uint32_t i = 0; i < count; i++) {
		const struct sketch *s = &items[i].s;

		ranks[i] =
		    (struct cpu_profile_rank){items[i].pid, s->begin_ns, s->end_ns, &items[i].when};
		begin_ns = s->begin_ns < begin_ns ? s->begin_ns : begin_ns;
		end_ns = s->end_ns > end_ns ? s->end_ns : end_ns;
	}
	if (cpu_profile_begin(k->profile, ranks, count))
		return;
	n = cpu_stacks_copy(k->node->stacks, begin_ns, end_ns, &periods, &k->family,
			    &k->family_count);
	if (n < 0)
		return;
	for (int i = 0; i < n; i++) {
		add_period(k, &periods[i]);
		buf_fini(&periods[i]);
	}
	free(periods);
	free(k->family);
	k->family = NULL;
	k->family_count = 0;
}

static int encode(struct sketch_maker *k, struct sketch *s, struct buf *out)
{
	uint64_t gone = 0;
	int err = wire_sketch_fit(s, out, &gone);

	pthread_mutex_lock(&k->lock);
	k->stats.cut += gone;
	pthread_mutex_unlock(&k->lock);
	return err;
}

static void send(struct sketch_maker *k, struct item *it, uint32_t number)
{
	struct buf b;
	int err = cpu_profile_take(k->profile, number, &it->s);

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	if (!err)
		err = installed_read(k->readers, &k->ending, k->node->settings.proc_root, it->pid,
				     it->libs, &it->s);
	if (!err)
		err = encode(k, &it->s, &b);
	if (err)
		log_warn("sketch", "rank=%d: not sent: %s", it->s.rank.rank, strerror(-err));
	else
		log_debug("sketch",
			  "rank=%d steps=%llu functions=%u kernels=%u settings=%u bytes=%zu",
			  it->s.rank.rank, (unsigned long long)it->s.steps, it->s.function_count,
			  it->s.kernel_count, it->s.setting_count, b.bytes);
	pthread_mutex_lock(&k->lock);
	k->stats.made += !err;
	k->stats.failed += !!err;
	pthread_mutex_unlock(&k->lock);
	if (!err)
		uplink_put_sketch(k->node->uplink, it->pid, &b);
	buf_fini(&b);
}

static void make(struct sketch_maker *k, struct item *items, uint32_t count)
{
	add_stacks(k, items, count);
	for (uint32_t i = 0; i < count; i++) {
		send(k, &items[i], i);
		wire_sketch_free(&items[i].s);
	}
	free(items);
	pthread_mutex_lock(&k->lock);
	cpu_profile_stats_get(k->profile, &k->stats.profile);
	k->stats.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	k->busy = false;
	pthread_mutex_unlock(&k->lock);
}

static void *work(void *arg)
{
	struct sketch_maker *k = arg;

	setpriority(PRIO_PROCESS, 0, SKETCHES_NICE); /* of this thread only */
	for (;;) {
		struct item *items;
		uint32_t count;

		pthread_mutex_lock(&k->lock);
		while (!k->items && !k->stop)
			pthread_cond_wait(&k->more, &k->lock);
		items = k->items;
		count = k->item_count;
		k->items = NULL;
		k->busy = items != NULL;
		pthread_mutex_unlock(&k->lock);
		if (!items)
			return NULL;
		make(k, items, count);
	}
}

/* ---- the loop ---- */

int sketch_maker_open(struct node *n)
{
	struct sketch_maker *k = calloc(1, sizeof(*k));
	char index[NODE_PATH_BYTES + 16];
	struct cpu_profile_options o = {.proc_root = n->settings.proc_root,
					.index_dir = index,
					.resolve = n->settings.sketch_symbols};
	int err;

	if (!k)
		return -ENOMEM;
	snprintf(index, sizeof(index), "%s/index", n->settings.state_dir);
	err = reader_queue_open(&k->readers, n->reader, NULL);
	if (!err)
		err = symbol_reader_open(&k->symbols, n->reader, &k->ending);
	o.reader = k->symbols;
	if (!err)
		err = cpu_profile_open(&k->profile, &o);
	if (err) {
		symbol_reader_close(k->symbols);
		reader_queue_close(k->readers);
		free(k);
		return err;
	}
	k->node = n;
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->more, NULL);
	err = -pthread_create(&k->thread, NULL, work, k);
	k->started = !err;
	n->sketch_maker = k;
	return err;
}

void sketch_maker_close(struct node *n)
{
	struct sketch_maker *k = n->sketch_maker;

	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->stop = true;
	atomic_store(&k->ending, true);
	pthread_cond_signal(&k->more);
	pthread_mutex_unlock(&k->lock);
	if (k->started)
		pthread_join(k->thread, NULL);
	cpu_profile_close(k->profile);
	symbol_reader_close(k->symbols);
	reader_queue_close(k->readers);
	pthread_cond_destroy(&k->more);
	pthread_mutex_destroy(&k->lock);
	free(k);
	n->sketch_maker = NULL;
}

/* A process without a rank has no role: no one could compare or request its sketch. */
static bool is_due(const struct process *p, uint64_t now_ns, double of_period)
{
	const struct settings *s = &p->node->settings;

	if (p->id.rank < 0)
		return false;
	if (p->sketch_at_ns &&
	    (double)(now_ns - p->sketch_at_ns) < of_period * (double)s->sketch_ns)
		return false;
	return p->state != PROCESS_GONE && rank_has_sketch(p->rank);
}

static int take(struct process *p, struct item *it)
{
	const struct clockmap *c = &p->node->clock;
	const struct clockmap_anchor *a = &c->anchors[c->count - 1];
	int err = rank_sketch(p->rank, process_name, p, &it->s, &it->when);

	if (err)
		return err;
	it->s.rank = p->id;
	it->s.realtime_offset_ns = (int64_t)(a->realtime_ns - a->monotonic_ns);
	it->pid = p->pid > 0 ? (uint32_t)p->pid : 0;
	memcpy(it->libs, p->libs, sizeof(it->libs));
	return 0;
}

void sketch_maker_tend(struct node *n, uint64_t now_ns)
{
	struct sketch_maker *k = n->sketch_maker;
	struct item *items = NULL;
	uint32_t count = 0;
	bool due = false, free_now;

	for (uint32_t i = 0; k && i < LIMIT_NODE_PROCESSES && !due; i++)
		due = n->processes[i] && is_due(n->processes[i], now_ns, 1);
	if (!due)
		return;
	pthread_mutex_lock(&k->lock);
	free_now = !k->items && !k->busy;
	pthread_mutex_unlock(&k->lock);
	if (free_now)
		items = calloc(LIMIT_NODE_PROCESSES, sizeof(*items));
	for (uint32_t i = 0; items && i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (!p || !is_due(p, now_ns, TOGETHER) || take(p, &items[count]))
			continue;
		p->sketch_at_ns = now_ns;
		count++;
	}
	if (!items)
		return;
	pthread_mutex_lock(&k->lock);
	k->items = items;
	k->item_count = count;
	pthread_cond_signal(&k->more);
	pthread_mutex_unlock(&k->lock);
}

void sketch_maker_stats_get(const struct node *n, struct sketch_maker_stats *out)
{
	struct sketch_maker *k = n->sketch_maker;

	memset(out, 0, sizeof(*out));
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	*out = k->stats;
	pthread_mutex_unlock(&k->lock);
}

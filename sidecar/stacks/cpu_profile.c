/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/stacks/cpu_profile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/probe.h"
#include "base/room.h"
#include "symbol/symbol_resolver.h"

/* A node with 8 PyTorch ranks samples some 10,000 addresses in 5,000 functions. When a table
 * reaches its limit, the tables are emptied. */
#define ADDRESSES   (1u << 17)
#define FUNCTIONS   (1u << 15)
#define CACHE_BYTES (8u << 20)
#define INDEX_BYTES (1ull << 30)
#define SHARE_MIN   0.001
#define PAGE_MASK   0xfffull
#define NO_FUNCTION UINT32_MAX

struct function {
	char *name;
	uint8_t kind; /* enum function_kind */
};

struct weights {
	double self, total, off;
};

struct rank {
	struct cpu_profile_rank of;
	struct weights *at; /* indexed by function */
	size_t room;
	double cpu_ns, off_ns, gil_wait_ns;
	double square_ns2; /* of the samples behind cpu_ns: stack_sample_square */
	double covered_ns; /* time of [begin, end) that periods covered, without the spans */
};

struct cpu_profile {
	struct cpu_profile_options options;
	struct symbol_resolver *resolver; /* NULL: none */
	struct cpu_profile_stats stats;
	struct idmap by_address; /* (object, address) -> function */
	struct function *function;
	uint32_t function_count;
	struct probe by_name; /* functions, by kind and name */
	uint64_t *stamp;      /* per function: the last stack that contained it */
	uint64_t stacks;
	struct rank rank[LIMIT_NODE_PROCESSES];
	uint32_t rank_count;
	uint64_t spent_ns; /* on naming, in this round */
};

int cpu_profile_open(struct cpu_profile **out, const struct cpu_profile_options *o)
{
	struct symbol_resolver_options ro = {.index_dir = o->index_dir,
					     .cache_bytes_max = CACHE_BYTES,
					     .index_bytes_max = INDEX_BYTES};
	struct cpu_profile *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	if (o->reader) {
		ro.index = symbol_reader_index;
		ro.index_arg = o->reader;
	}
	p->options = *o;
	p->options.index_dir = NULL; /* the resolver has its own copy */
	p->by_address.max = ADDRESSES;
	p->function = calloc(FUNCTIONS, sizeof(*p->function));
	p->stamp = calloc(FUNCTIONS, sizeof(*p->stamp));
	if (!p->function || !p->stamp) {
		cpu_profile_close(p);
		return -ENOMEM;
	}
	/* without a resolver, frames are named by file and page */
	if (o->resolve && symbol_resolver_open(&p->resolver, &ro))
		p->resolver = NULL;
	*out = p;
	return 0;
}

static void forget_names(struct cpu_profile *p)
{
	for (uint32_t i = 0; i < p->function_count; i++)
		free(p->function[i].name);
	p->function_count = 0;
	idmap_clear(&p->by_address);
	probe_clear(&p->by_name);
	memset(p->stamp, 0, FUNCTIONS * sizeof(*p->stamp));
}

void cpu_profile_close(struct cpu_profile *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; p->function && i < p->function_count; i++)
		free(p->function[i].name);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		free(p->rank[i].at);
	symbol_resolver_close(p->resolver);
	idmap_fini(&p->by_address);
	free(p->function);
	probe_fini(&p->by_name);
	free(p->stamp);
	free(p);
}

int cpu_profile_begin(struct cpu_profile *p, const struct cpu_profile_rank *ranks, uint32_t count)
{
	for (uint32_t i = 0; i < p->rank_count; i++)
		free(p->rank[i].at);
	memset(p->rank, 0, sizeof(p->rank));
	p->rank_count = count < LIMIT_NODE_PROCESSES ? count : LIMIT_NODE_PROCESSES;
	for (uint32_t i = 0; i < p->rank_count; i++)
		p->rank[i].of = ranks[i];
	if (p->by_address.count > ADDRESSES / 4 * 3 || p->function_count > FUNCTIONS / 4 * 3)
		forget_names(p);
	p->spent_ns = 0;
	p->stats.rounds++;
	return 0;
}

/* ---- names ---- */

static uint32_t intern(struct cpu_profile *p, uint8_t kind, const char *name)
{
	uint64_t h = keyed_words(keyed_process(), keyed_text(keyed_process(), name), kind);
	struct function *f = &p->function[p->function_count];

	PROBE_EACH (i, &p->by_name, h)
		if (p->function[i.number].kind == kind && !strcmp(p->function[i.number].name, name))
			return i.number;
	if (p->function_count == FUNCTIONS) {
		p->stats.unnamed++;
		return NO_FUNCTION;
	}
	*f = (struct function){.name = strndup(name, LIMIT_NAME_BYTES - 1), .kind = kind};
	if (!f->name || probe_add(&p->by_name, h, p->function_count)) {
		free(f->name);
		return NO_FUNCTION;
	}
	return p->function_count++;
}

/* True if found; the name lives until the next call. */
static bool look_up(struct cpu_profile *p, const struct stack_batch *b,
		    const struct stack_object *o, uint64_t address, uint32_t pid, const char **name)
{
	const char *path = stack_batch_text(b, o->path);
	struct symbol_name found;
	char rooted[4400], root[300];
	uint64_t before_ns;
	int err;

	if (!p->resolver || (!o->build_id_bytes && *path != '/'))
		return false;
	if (p->spent_ns > CPU_PROFILE_BUDGET_NS) {
		p->stats.over_budget++;
		return false;
	}
	before_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	snprintf(root, sizeof(root), "%.256s/%u/root", p->options.proc_root, pid);
	snprintf(rooted, sizeof(rooted), "%s%.4000s", root, path);
	if (p->options.reader)
		symbol_reader_root(p->options.reader, root, pid, false);
	err = symbol_resolver_find(p->resolver, o->build_id, o->build_id_bytes,
				   *path == '/' ? rooted : NULL, address, &found);
	p->spent_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
	if (err)
		return false;
	*name = found.function;
	return true;
}

static uint64_t object_key(const struct stack_batch *b, const struct stack_object *o)
{
	const char *path = stack_batch_text(b, o->path);

	return o->build_id_bytes ? keyed_bytes(keyed_process(), o->build_id, o->build_id_bytes)
				 : keyed_text(keyed_process(), path);
}

static uint32_t native(struct cpu_profile *p, const struct stack_batch *b,
		       const struct stack_frame *f, uint64_t object, uint32_t pid)
{
	const struct stack_object *o = &b->objects[f->object];
	uint64_t address = f->address - !!(f->flags & STACK_FRAME_RETURN);
	uint64_t key = keyed_words(keyed_process(), object, address),
		 spent_before = p->stats.over_budget;
	uint32_t function;
	const char *name, *path = stack_batch_text(b, o->path), *slash = strrchr(path, '/');
	char text[300];

	function = idmap_get(&p->by_address, key);
	if (function != IDMAP_NONE)
		return function;
	if (look_up(p, b, o, address, pid, &name)) {
		p->stats.named++;
	} else {
		snprintf(text, sizeof(text), "%.255s+0x%llx", slash ? slash + 1 : path,
			 (unsigned long long)(address & ~PAGE_MASK));
		p->stats.unnamed++;
		name = text;
	}
	function = intern(p, FUNCTION_NATIVE, name);
	/* keep no entry if the budget ended the lookup: the next round tries again */
	if (function != NO_FUNCTION && p->stats.over_budget == spent_before)
		idmap_put(&p->by_address, key, function);
	return function;
}

static uint32_t function_of(struct cpu_profile *p, const struct stack_batch *b,
			    const struct stack_frame *f, const uint64_t *objects, uint32_t pid)
{
	const char *text;

	switch (f->kind) {
	case STACK_FRAME_NATIVE:
		return native(p, b, f, objects[f->object], pid);
	case STACK_FRAME_KERNEL:
		text = stack_batch_text(b, f->object);
		return intern(p, FUNCTION_KERNEL, *text ? text : "[unknown]");
	case STACK_FRAME_PYTHON:
		text = stack_batch_text(b, f->object);
		return intern(p, FUNCTION_PYTHON, *text ? text : "[unknown]");
	default:
		return intern(p, FUNCTION_NATIVE, "[jit]");
	}
}

/* ---- samples ---- */

static struct rank *rank_of(struct cpu_profile *p, uint32_t pid)
{
	for (uint32_t i = 0; pid && i < p->rank_count; i++)
		if (p->rank[i].of.pid == pid)
			return &p->rank[i];
	return NULL;
}

static bool healthy(const struct rank *r, uint64_t t_ns)
{
	const struct normal_when *w = r->of.when;

	if (t_ns < r->of.begin_ns || t_ns >= r->of.end_ns)
		return false;
	for (uint32_t i = 0; i < w->span_count; i++)
		if (t_ns >= w->spans[i].begin_ns && t_ns < w->spans[i].end_ns)
			return false;
	return true;
}

static bool launches(const struct rank *r, uint32_t tid)
{
	for (uint32_t i = 0; i < r->of.when->thread_count; i++)
		if (r->of.when->threads[i] == tid)
			return true;
	return false;
}

static struct weights *weights_of(struct rank *r, uint32_t function)
{
	return ROOM_FOR_ZERO(r->at, r->room, function + 1ull) ? NULL : &r->at[function];
}

static int add_sample(struct cpu_profile *p, const struct stack_batch *b, const uint64_t *objects,
		      struct rank *r, const struct stack_sample *s)
{
	const struct stack *k = &b->stacks[s->stack];
	double weight = (double)s->weight_ns;
	bool on = s->kind == STACK_ON_CPU, leaf = true;

	if (s->gil == STACK_GIL_WAITER && launches(r, s->tid))
		r->gil_wait_ns += weight;
	if (on) {
		r->cpu_ns += weight;
		r->square_ns2 += stack_sample_square(s);
	} else if (launches(r, s->tid)) {
		r->off_ns += weight;
	} else {
		return 0;
	}
	p->stacks++;
	for (uint32_t i = 0; i < k->count; i++) {
		uint32_t f = function_of(p, b, &b->frames[k->first + i], objects, r->of.pid);
		struct weights *w = f == NO_FUNCTION ? NULL : weights_of(r, f);

		if (f == NO_FUNCTION)
			continue;
		if (!w)
			return -ENOMEM;
		if (on && leaf)
			w->self += weight;
		leaf = false;
		if (p->stamp[f] == p->stacks)
			continue; /* recursion counts once */
		p->stamp[f] = p->stacks;
		if (on)
			w->total += weight;
		else
			w->off += weight;
	}
	return 0;
}

static double overlap(uint64_t a0, uint64_t a1, uint64_t b0, uint64_t b1)
{
	uint64_t from = a0 > b0 ? a0 : b0, to = a1 < b1 ? a1 : b1;

	return to > from ? (double)(to - from) : 0;
}

static void cover(struct rank *r, const struct stack_batch *b)
{
	uint64_t from = b->begin_ns > r->of.begin_ns ? b->begin_ns : r->of.begin_ns;
	uint64_t to = b->end_ns < r->of.end_ns ? b->end_ns : r->of.end_ns;
	const struct normal_when *w = r->of.when;

	if (to <= from)
		return;
	r->covered_ns += (double)(to - from);
	for (uint32_t i = 0; i < w->span_count; i++)
		r->covered_ns -= overlap(from, to, w->spans[i].begin_ns, w->spans[i].end_ns);
}

int cpu_profile_add(struct cpu_profile *p, const struct stack_batch *b,
		    uint32_t (*root_of)(void *arg, uint32_t pid), void *arg)
{
	uint64_t *objects = malloc(sizeof(*objects) * (b->object_count + 1));
	uint32_t last_pid = 0;
	struct rank *r = NULL;
	int err = objects ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < b->object_count; i++)
		objects[i] = object_key(b, &b->objects[i]);
	for (uint32_t i = 0; !err && i < p->rank_count; i++)
		cover(&p->rank[i], b);
	for (uint32_t i = 0; !err && i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];

		if (s->pid != last_pid) {
			r = rank_of(p, root_of(arg, s->pid));
			last_pid = s->pid;
		}
		if (r && healthy(r, s->time_ns))
			err = add_sample(p, b, objects, r, s);
	}
	free(objects);
	return err;
}

/* ---- results ---- */

ORDER_BY(by_share, struct sketch_function,
	 ORDER_DOWN(total_share) ?: ORDER_DOWN(off_ns) ?: ORDER_TEXT(name));

/* The list borrows the names. */
static uint32_t list_functions(const struct cpu_profile *p, const struct rank *r, double steps,
			       struct sketch_function *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->room && i < p->function_count; i++) {
		const struct weights *w = &r->at[i];

		if (!(r->cpu_ns > 0 && w->total >= SHARE_MIN * r->cpu_ns) &&
		    !(w->off > 0 && w->off >= SHARE_MIN * r->covered_ns))
			continue;
		out[n++] = (struct sketch_function){
		    .name = p->function[i].name,
		    .kind = p->function[i].kind,
		    .self_share = r->cpu_ns > 0 ? fmin(w->self / r->cpu_ns, 1) : 0,
		    .total_share = r->cpu_ns > 0 ? fmin(w->total / r->cpu_ns, 1) : 0,
		    .off_ns = steps > 0 ? w->off / steps : 0};
	}
	qsort(out, n, sizeof(*out), by_share);
	return n;
}

int cpu_profile_take(struct cpu_profile *p, uint32_t rank, struct sketch *s)
{
	const struct rank *r = &p->rank[rank];
	double steps = s->latency_ns > 0 ? r->covered_ns / s->latency_ns : 0;
	struct sketch_function *all = calloc(r->room + 1u, sizeof(*all));
	uint32_t n, kept;

	s->functions = calloc(LIMIT_SKETCH_FUNCTIONS, sizeof(*s->functions));
	if (!all || !s->functions) {
		free(all);
		return -ENOMEM;
	}
	n = list_functions(p, r, steps, all);
	kept = n < LIMIT_SKETCH_FUNCTIONS ? n : LIMIT_SKETCH_FUNCTIONS;
	for (uint32_t i = 0; i < kept; i++) {
		s->functions[i] = all[i];
		s->functions[i].name = strdup(all[i].name);
		if (!s->functions[i].name) {
			free(all);
			return -ENOMEM; /* the caller frees the names copied so far */
		}
		s->function_count++;
	}
	s->functions_cut = n - kept;
	if (steps > 0) {
		s->cpu_ns = r->cpu_ns / steps;
		s->off_ns = r->off_ns / steps;
		s->gil_wait_ns = r->gil_wait_ns / steps;
	}
	s->samples = r->square_ns2 > 0 ? r->cpu_ns * r->cpu_ns / r->square_ns2 : 0;
	free(all);
	return 0;
}

void cpu_profile_stats_get(const struct cpu_profile *p, struct cpu_profile_stats *out)
{
	*out = p->stats;
}

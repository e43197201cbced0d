/* SPDX-License-Identifier: Apache-2.0
 * Accounts a finished step: unions of intervals, kernels by name, work, key.
 *
 * All of a step's device records are sorted by start once; each union then needs only one running
 * end. Exposed communication is the union of everything, less the union of everything but
 * communication. So no lists of intervals are needed. */
#include "analysis/steps/steps_private.h"
#include "model/thresholds.h"

#include "base/hash.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/probe.h"

/* Largest number of names per step; more are counted under name 0. A power of two. */
#define NAMES_MAX 4096
/* names are untrusted: a name that finds no place after this many tries is left out */
#define NAMES_LOOK 64u
/* Prefetch distance in launches: device records are scattered in the pool. */
#define GATHER_AHEAD 4

size_t steps_account_scratch_bytes(uint32_t devices_max)
{
	size_t bytes = NAMES_MAX * (sizeof(struct step_kernel) + sizeof(uint32_t)) +
		       (size_t)devices_max * sizeof(uint32_t) * 2;

	return (bytes + 15) & ~(size_t)15;
}

/* Each step leaves the table of names empty, so it is cleared only here. */
void steps_account_init(void *account)
{
	memset(account, 0, NAMES_MAX * sizeof(struct step_kernel));
}

static void free_slot(struct steps *s, uint32_t slot)
{
	s->pool[slot].next = s->pool_free;
	s->pool_free = slot;
}

void steps_account_free(struct steps *s, struct steps_item *i)
{
	while (i->first_device != STEPS_NONE) {
		uint32_t slot = i->first_device;

		i->first_device = s->pool[slot].next;
		free_slot(s, slot);
	}
}

uint32_t steps_account_pop_copy(struct steps *s)
{
	uint32_t slot = s->copies_first;

	if (slot != STEPS_NONE)
		s->copies_first = s->pool[slot].next;
	return slot;
}

static bool device_before(const struct steps *s, uint32_t a, uint32_t b)
{
	return s->pool[a].begin_ns <= s->pool[b].begin_ns;
}

/* Merge sort of slots by start; sorted input costs one pass. */
static void sort_slots(const struct steps *s, uint32_t *slots, uint32_t *other, uint32_t n)
{
	bool sorted = true;

	for (uint32_t i = 1; i < n && sorted; i++)
		sorted = device_before(s, slots[i - 1], slots[i]);
	if (sorted)
		return;
	for (uint32_t width = 1; width < n; width *= 2) {
		for (uint32_t from = 0; from < n; from += 2 * width) {
			uint32_t mid = from + width < n ? from + width : n;
			uint32_t to = mid + width < n ? mid + width : n;
			uint32_t a = from, b = mid, k = from;

			while (a < mid && b < to)
				other[k++] =
				    device_before(s, slots[a], slots[b]) ? slots[a++] : slots[b++];
			while (a < mid)
				other[k++] = slots[a++];
			while (b < to)
				other[k++] = slots[b++];
		}
		memcpy(slots, other, n * sizeof(*slots));
	}
}

/* Merges the copies that begin before `until` into the n sorted slots. Returns the new count. A
 * copy that ended before the step is dropped as late. */
static uint32_t gather_copies(struct steps *s, uint32_t *slots, uint32_t *other, uint32_t n,
			      uint64_t until)
{
	uint32_t count = 0;

	while (s->copies_first != STEPS_NONE && s->pool[s->copies_first].begin_ns < until) {
		uint32_t slot = steps_account_pop_copy(s);
		struct steps_device *d = &s->pool[slot];

		if (d->end_ns <= s->device_end_last_ns) {
			free_slot(s, slot);
			continue;
		}
		if (d->begin_ns < s->device_end_last_ns)
			d->begin_ns = s->device_end_last_ns;
		slots[n + count++] = slot;
	}
	sort_slots(s, slots + n, other, count);
	memcpy(other, slots + n, count * sizeof(*other));
	for (uint32_t from = n, copies = count, to = n + count; copies > 0;) {
		bool copy_last = !from || device_before(s, slots[from - 1], other[copies - 1]);

		slots[--to] = copy_last ? other[--copies] : slots[--from];
	}
	return n + count;
}

static void cover_add(struct cover *c, uint64_t begin, uint64_t end)
{
	if (begin < c->end_ns)
		begin = c->end_ns;
	if (end > begin) {
		c->total_ns += end - begin;
		c->end_ns = end;
	}
}

/* An entry with count 0 is free. */
static void names_add(struct step_kernel *names, uint32_t *used, uint32_t *count,
		      const struct step_kernel *d)
{
	uint64_t h = hash_mix((uint64_t)d->name << 16 | (uint64_t)d->kind << 8 | d->func);
	uint32_t looks = 0;

	PROBE_PLACES (at, h, NAMES_MAX) {
		struct step_kernel *n = &names[at];

		if (looks++ == NAMES_LOOK)
			return;
		if (!n->count) {
			if (*count >= NAMES_MAX / 2)
				return;
			*n =
			    (struct step_kernel){.name = d->name, .kind = d->kind, .func = d->func};
			used[(*count)++] = at;
		}
		if (n->name != d->name || n->kind != d->kind || n->func != d->func)
			continue;
		n->count += d->count;
		n->total_ns += d->total_ns;
		if (d->max_ns > n->max_ns)
			n->max_ns = d->max_ns;
		return;
	}
}

ORDER_BY(kernel_order, struct step_kernel,
	 ORDER_DOWN(total_ns) ?: ORDER_UP(name) ?: ORDER_UP(kind) ?: ORDER_UP(func));

static void kernel_offer(struct step_kernel *kernels, uint32_t *count, const struct step_kernel *k,
			 struct step_kernel *rest)
{
	const struct step_kernel *out = k;
	uint32_t at = *count;

	if (at < STEP_KERNELS_MAX - 1) {
		kernels[(*count)++] = *k;
		return;
	}
	/* full: the smallest entry joins the rest */
	for (uint32_t i = 0; i < *count; i++)
		if (kernel_order(&kernels[i], out) > 0) {
			out = &kernels[i];
			at = i;
		}
	rest->count += out->count;
	rest->total_ns += out->total_ns;
	if (out->max_ns > rest->max_ns)
		rest->max_ns = out->max_ns;
	if (out != k)
		kernels[at] = *k;
}

static void names_out(struct step_kernel *names, const uint32_t *used, uint32_t n,
		      const struct step_kernel *all, struct step_kernel *kernels, uint32_t *count)
{
	struct step_kernel rest = {.kind = RECORD_KERNEL};
	uint64_t named_count = 0, named_ns = 0;

	*count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct step_kernel *k = &names[used[i]];

		named_count += k->count;
		named_ns += k->total_ns;
		kernel_offer(kernels, count, k, &rest);
		k->count = 0;
	}
	/* names that found no place in the table */
	rest.count += (uint32_t)(all->count - named_count);
	rest.total_ns += all->total_ns - named_ns;
	qsort(kernels, *count, sizeof(*kernels), kernel_order);
	if (rest.count)
		kernels[(*count)++] = rest;
}

/* Collects the device records of [first, last) in slots[], and adds up the host side. Returns their
 * count. */
static uint32_t gather(struct steps *s, uint64_t first, uint64_t last, struct step *out,
		       uint32_t *slots)
{
	bool began = out->launches || out->collectives;
	uint64_t blocks = 0, comm_bytes = 0;
	uint32_t n = 0;

	for (uint64_t q = first; q < last; q++) {
		const struct steps_item *i = steps_at(s, q);
		uint32_t from = n;

		if (q + GATHER_AHEAD < last) {
			uint32_t ahead = steps_at(s, q + GATHER_AHEAD)->first_device;

			if (ahead != STEPS_NONE)
				__builtin_prefetch(&s->pool[ahead]);
		}

		if (!steps_is_symbol(i))
			continue;
		if (i->kind == RECORD_COLL) {
			out->collectives++;
			comm_bytes += i->amount;
		} else {
			out->launches++;
		}
		if ((q > first || began) && i->gap_ns > out->launch_gap_max_ns)
			out->launch_gap_max_ns = i->gap_ns;
		blocks += i->kind == RECORD_LAUNCH ? i->amount : 0;
		for (uint32_t d = i->first_device; d != STEPS_NONE; d = s->pool[d].next)
			slots[n++] = d;
		/* A chain has the newest record first. */
		for (uint32_t a = from, b = n; a + 1 < b; a++, b--) {
			uint32_t t = slots[a];

			slots[a] = slots[b - 1];
			slots[b - 1] = t;
		}
	}
	out->work[STEP_WORK_BLOCKS] += (double)blocks;
	out->work[STEP_WORK_COMM_BYTES] += (double)comm_bytes;
	return n;
}

static void device_add(struct steps_fold *f, const struct steps_device *d)
{
	struct covers *c = &f->covers;
	struct cover *own = &c->compute;
	struct step *out = &f->out;

	switch (d->kind) {
	case RECORD_COLL_KERNEL:
		own = &c->comm;
		out->kernels++;
		f->coll_kernels++;
		f->coll_bytes += (double)d->bytes;
		break;
	case RECORD_COPY:
		out->copies++;
		out->work[STEP_WORK_COPY_BYTES] += (double)d->bytes;
		own = &c->copy;
		break;
	case RECORD_MEMSET:
		own = &c->copy;
		break;
	default:
		out->kernels++;
	}
	cover_add(own, d->begin_ns, d->end_ns);
	if (own != &c->comm)
		cover_add(&c->work, d->begin_ns, d->end_ns);
	cover_add(&c->all, d->begin_ns, d->end_ns);
	out->unmatched += d->unmatched;
}

uint64_t steps_key(uint32_t source, uint32_t phase)
{
	return hash_mix(((uint64_t)source << 32) ^ phase ^ 0x5354455053ull);
}

static void key_and_work(const struct steps_pending *p, struct step *out)
{
	out->work[STEP_WORK_KERNELS] =
	    (double)(out->kernels > out->launches ? out->kernels : out->launches);
	out->work_count = STEP_WORK_MAX;
	out->blocks = out->work[STEP_WORK_BLOCKS];
	if (p->source == STEP_SOURCE_EXPLICIT && p->mark.work_count) {
		memset(out->work, 0, sizeof(out->work));
		memcpy(out->work, p->mark.work, p->mark.work_count * sizeof(double));
		out->work_count = p->mark.work_count;
		out->flags |= STEP_FLAG_STATED;
	}
	out->key = steps_key(p->source, p->phase);
}

/* A marked step also lasts until its mark: after the GPU's work the host may have to finish it. */
static uint64_t step_end(const struct cover *all, const struct step *out)
{
	return out->source == STEP_SOURCE_EXPLICIT && out->end_ns > all->end_ns ? out->end_ns
										: all->end_ns;
}

/* The device latency runs from the end of the GPU's work for the step before to the end of the
 * GPU's work for this step, because the host may run ahead. If the GPU was idle when the step
 * began, it runs from the step's start: between two marked steps an engine waits for requests. An
 * automatic step's latency is its device latency. A marked step's latency is from mark to mark. */
static void set_latencies(struct steps *s, const struct cover *all, struct step *out)
{
	if (all->end_ns) {
		out->device_end_ns = all->end_ns;
		if (s->device_end_last_ns && all->end_ns > s->device_end_last_ns &&
		    !(out->flags & (STEP_FLAG_FIRST | STEP_FLAG_INCOMPLETE)))
			out->device_latency_ns =
			    step_end(all, out) - (s->device_end_last_ns > out->begin_ns
						      ? s->device_end_last_ns
						      : out->begin_ns);
		if (all->end_ns > s->device_end_last_ns)
			s->device_end_last_ns = all->end_ns;
	}
	if (out->device_latency_ns && out->source == STEP_SOURCE_AUTO)
		out->latency_ns = out->device_latency_ns;
	out->self_ns = out->device_latency_ns ? out->device_latency_ns : out->latency_ns;
	out->self_ns -= out->exposed_comm_ns < out->self_ns ? out->exposed_comm_ns : out->self_ns;
}

/* Parts of the step's work may run before the step's time begins, in parallel with the step before. */
static uint64_t idle_of(const struct cover *all, const struct step *out)
{
	uint64_t ns =
	    out->device_latency_ns ? out->device_latency_ns : all->end_ns - out->device_begin_ns;

	return ns > all->total_ns ? ns - all->total_ns : 0;
}

/* Adds the device work of [first, last) and the copies during it; without a kernel, the copies
 * before end_ns. */
static void add_range(struct steps *s, struct steps_fold *f, uint64_t first, uint64_t last,
		      uint64_t end_ns, struct step_kernel *names, uint32_t *used,
		      uint32_t *names_count)
{
	uint32_t *slots = used + NAMES_MAX, *other = slots + s->pool_max;
	uint32_t n = gather(s, first, last, &f->out, slots);

	sort_slots(s, slots, other, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct steps_device *d = &s->pool[slots[i]];

		end_ns = !i || d->end_ns > end_ns ? d->end_ns : end_ns;
	}
	n = gather_copies(s, slots, other, n, end_ns);
	if (n && (!f->out.device_begin_ns || s->pool[slots[0]].begin_ns < f->out.device_begin_ns))
		f->out.device_begin_ns = s->pool[slots[0]].begin_ns;
	for (uint32_t i = 0; i < n; i++) {
		const struct steps_device *d = &s->pool[slots[i]];
		uint64_t ns = d->end_ns - d->begin_ns;
		struct step_kernel one = {.name = d->name,
					  .kind = d->kind,
					  .func = d->func,
					  .count = 1,
					  .total_ns = ns,
					  .max_ns = ns};

		device_add(f, d);
		names_add(names, used, names_count, &one);
		f->all.count++;
		f->all.total_ns += ns;
		if (d->listed)
			free_slot(s, slots[i]);
	}
	for (uint64_t q = first; q < last; q++)
		steps_account_free(s, steps_at(s, q));
}

/* Adds up a part of a step. Apart from overlaps of streams, intervals of a part begin after those
 * of the part before. */
void steps_account_fold(struct steps *s, uint64_t first, uint64_t last)
{
	struct steps_fold *f = s->fold;
	struct step_kernel *names = s->account;
	uint32_t *used = (uint32_t *)(names + NAMES_MAX), names_count = 0;

	if (!s->open_folds)
		memset(f, 0, sizeof(*f));
	s->fold_used = s->open_folds = true;
	for (uint32_t i = 0; i < f->kernel_count; i++)
		names_add(names, used, &names_count, &f->kernels[i]);
	add_range(s, f, first, last, 0, names, used, &names_count);
	f->kernel_count = 0;
	for (uint32_t i = 0; i < names_count; i++) {
		/* A name without room is still in f->all, and ends under name 0. */
		if (f->kernel_count < STEPS_FOLD_NAMES)
			f->kernels[f->kernel_count++] = names[used[i]];
		names[used[i]].count = 0;
	}
}

void steps_account_step(struct steps *s, const struct steps_pending *p, struct step *out,
			struct step_kernel *kernels, uint32_t *kernel_count)
{
	struct step_kernel *names = s->account;
	uint32_t *used = (uint32_t *)(names + NAMES_MAX), names_count = 0;
	struct steps_fold whole, *f = &whole;

	if (p->folded) {
		f = s->fold;
		s->fold_used = false;
		for (uint32_t i = 0; i < f->kernel_count; i++)
			names_add(names, used, &names_count, &f->kernels[i]);
	} else { /* The names are not used, so they are not cleared. */
		memset(f, 0, offsetof(struct steps_fold, kernels));
	}
	add_range(s, f, p->first, p->last, p->end_ns, names, used, &names_count);
	*out = f->out;
	out->begin_ns = p->begin_ns;
	out->end_ns = p->end_ns;
	out->latency_ns = p->end_ns - p->begin_ns;
	out->flags = p->flags;
	out->source = p->source;
	out->phase = p->phase;
	out->launches += p->folded_launches;
	if (f->coll_kernels > out->collectives)
		out->collectives = f->coll_kernels;
	if (out->work[STEP_WORK_COMM_BYTES] == 0)
		out->work[STEP_WORK_COMM_BYTES] = f->coll_bytes;
	out->compute_ns = f->covers.compute.total_ns;
	out->comm_ns = f->covers.comm.total_ns;
	out->copy_ns = f->covers.copy.total_ns;
	out->exposed_comm_ns = f->covers.all.total_ns - f->covers.work.total_ns;
	set_latencies(s, &f->covers.all, out);
	if (f->all.count)
		out->idle_ns = idle_of(&f->covers.all, out);
	if (f->all.count &&
	    (double)f->covers.all.total_ns < thresholds.part.most * (double)out->latency_ns)
		out->flags |= STEP_FLAG_CPU_BOUND;
	key_and_work(p, out);
	names_out(names, used, names_count, &f->all, kernels, kernel_count);
}

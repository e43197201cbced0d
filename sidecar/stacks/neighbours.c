/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/stacks/neighbours.h"

#include <stdio.h>
#include <string.h>

#define CPUS	      1024u
#define OWN_CPU_SHARE 0.05
#define NAMED_MAX     16u /* processes named per rank */

enum lock_kind { LOCK_NONE = 0, LOCK_SPIN, LOCK_RWSEM, LOCK_MUTEX, LOCK_REF };

static const struct {
	const char *name;    /* prefix of its name */
	enum lock_kind kind; /* LOCK_NONE: part of the way to a lock; no kind of its own */
} lock_functions[] = {
    {"native_queued_spin_lock_slowpath", LOCK_SPIN},
    {"__pv_queued_spin_lock_slowpath", LOCK_SPIN},
    {"queued_spin_lock_slowpath", LOCK_SPIN},
    {"queued_read_lock_slowpath", LOCK_SPIN},
    {"queued_write_lock_slowpath", LOCK_SPIN},
    {"rwsem_", LOCK_RWSEM},
    {"lockref_", LOCK_REF},
    {"mutex_spin_on_owner", LOCK_MUTEX},
    {"__mutex_lock", LOCK_MUTEX},
    {"mutex_lock", LOCK_NONE},
    {"osq_lock", LOCK_NONE},
    {"_raw_", LOCK_NONE},
    {"down_read", LOCK_NONE},
    {"down_write", LOCK_NONE},
    {"__down_", LOCK_NONE},
    {"schedule", LOCK_NONE},
    {"__schedule", LOCK_NONE},
    {"preempt_schedule", LOCK_NONE},
    {"kvm_wait", LOCK_NONE},
    {"pv_wait", LOCK_NONE},
    {"dput", LOCK_NONE},
};

static const char *kernel_name(const struct stack_batch *b, const struct stack *s, uint32_t i)
{
	const struct stack_frame *f = &b->frames[s->first + i];

	return f->kind == STACK_FRAME_KERNEL ? stack_batch_text(b, f->object) : "";
}

/* Whether the function belongs to a lock's implementation. */
static bool is_lock(const char *name, enum lock_kind *kind)
{
	for (size_t i = 0; i < sizeof(lock_functions) / sizeof(lock_functions[0]); i++)
		if (!strncmp(name, lock_functions[i].name, strlen(lock_functions[i].name))) {
			if (lock_functions[i].kind)
				*kind = lock_functions[i].kind;
			return true;
		}
	return false;
}

/* The kind of lock at the innermost frames; place: the functions that wanted it. */
static enum lock_kind lock_of(const struct stack_batch *b, const struct stack *s, char *place)
{
	enum lock_kind kind = LOCK_NONE;
	uint32_t i = 0;

	while (i < s->kernel_count && is_lock(kernel_name(b, s, i), &kind))
		i++;
	*place = '\0';
	if (kind && i + 1 < s->kernel_count)
		snprintf(place, NEIGHBOURS_PLACE_BYTES, "%.28s in %.28s", kernel_name(b, s, i),
			 kernel_name(b, s, i + 1));
	else if (kind && i < s->kernel_count)
		snprintf(place, NEIGHBOURS_PLACE_BYTES, "%.28s", kernel_name(b, s, i));
	return kind;
}

static struct neighbours_row *find_row(struct neighbours *n, uint32_t since,
				       const struct neighbours_row *r)
{
	for (uint32_t k = since; k < n->count; k++) {
		struct neighbours_row *o = &n->row[(n->first + k) % NEIGHBOURS_ROWS];

		if (o->pid == r->pid && o->cpu == r->cpu && o->lock == r->lock &&
		    !strcmp(o->place, r->place))
			return o;
	}
	return NULL;
}

void neighbours_add(struct neighbours *n, const struct stack_batch *b,
		    uint32_t (*root_of)(void *arg, uint32_t pid), void *arg)
{
	uint32_t since = n->count;

	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];
		struct neighbours_row r = {.begin_ns = b->begin_ns,
					   .end_ns = b->end_ns,
					   .pid = s->pid,
					   .root = root_of(arg, s->pid),
					   .cpu = s->cpu},
				      *o;

		r.lock = (uint16_t)lock_of(b, &b->stacks[s->stack], r.place);
		if (s->kind != STACK_ON_CPU && !(r.lock && r.root))
			continue; /* sleeps of other processes are not sampled */
		snprintf(r.comm, sizeof(r.comm), "%s", stack_batch_text(b, s->comm));
		if (s->kind != STACK_ON_CPU)
			r.cpu = CPUS - 1;
		o = find_row(n, since, &r);
		if (!o) {
			if (n->count == NEIGHBOURS_ROWS) {
				n->first = (n->first + 1) % NEIGHBOURS_ROWS;
				n->count--;
				n->lost += !since;
				since -= since > 0;
			}
			o = &n->row[(n->first + n->count++) % NEIGHBOURS_ROWS];
			*o = r;
		}
		o->ns += s->weight_ns;
	}
}

/* ---- signals of a rank ---- */

struct other {
	const struct neighbours_row *row;
	double cpu_ns, lock_ns[LOCK_REF + 1];
};

struct view {
	double own_ns, own_cpu_ns[CPUS], lock_ns[LOCK_REF + 1], seen_ns;
	const struct neighbours_row
	    *place[LOCK_REF + 1]; /* where the rank waits longest for this kind of lock */
	uint64_t place_ns[LOCK_REF + 1];
	struct other other[NAMED_MAX];
	uint32_t others;
};

static bool in_time(const struct neighbours_row *r, uint64_t begin_ns, uint64_t end_ns)
{
	return r->end_ns > begin_ns && r->begin_ns < end_ns;
}

static void see_own(struct view *v, const struct neighbours_row *r)
{
	if (r->lock) {
		v->lock_ns[r->lock] += (double)r->ns;
		if (r->ns > v->place_ns[r->lock] && *r->place) {
			v->place_ns[r->lock] = r->ns;
			v->place[r->lock] = r;
		}
	}
	if (r->cpu >= CPUS - 1)
		return;
	v->own_ns += (double)r->ns;
	v->own_cpu_ns[r->cpu] += (double)r->ns;
}

static void see_other(struct view *v, const struct neighbours_row *r)
{
	struct other *o = NULL;

	for (uint32_t i = 0; i < v->others && !o; i++)
		if (v->other[i].row->pid == r->pid)
			o = &v->other[i];
	if (!o && v->others < NAMED_MAX) {
		o = &v->other[v->others++];
		*o = (struct other){.row = r};
	}
	if (!o)
		return;
	if (r->cpu < CPUS - 1 && v->own_ns > 0 &&
	    v->own_cpu_ns[r->cpu] >= OWN_CPU_SHARE * v->own_ns)
		o->cpu_ns += (double)r->ns;
	if (r->lock && v->lock_ns[r->lock] > 0)
		o->lock_ns[r->lock] += (double)r->ns;
}

static void put(struct os_signal *list, uint32_t *count, uint32_t max, enum os_signal_kind kind,
		const char *subject, double ms_per_s, double step_ms)
{
	struct os_signal s;

	os_signal_make(&s, kind, subject, ms_per_s, -1, step_ms);
	if (os_signal_is_notable(&s))
		os_signal_put(list, count, max, &s);
}

static void put_locks(const struct view *v, double step_ms, struct os_signal *list, uint32_t *count,
		      uint32_t max)
{
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	for (int k = LOCK_SPIN; k <= LOCK_REF; k++) {
		const struct other *most = NULL;

		if (!v->place[k])
			continue;
		for (uint32_t i = 0; i < v->others; i++)
			if (v->other[i].lock_ns[k] > (most ? most->lock_ns[k] : 0))
				most = &v->other[i];
		if (most)
			snprintf(subject, sizeof(subject),
				 "%.40s, which is shared with %.15s (pid %u)", v->place[k]->place,
				 most->row->comm, most->row->pid);
		else
			snprintf(subject, sizeof(subject), "%s", v->place[k]->place);
		put(list, count, max, OS_SIGNAL_LOCK_PLACE, subject,
		    v->lock_ns[k] / v->seen_ns * 1e3, step_ms);
	}
}

void neighbours_signals(const struct neighbours *n, uint32_t root, uint64_t begin_ns,
			uint64_t end_ns, double step_ms, struct os_signal *list, uint32_t *count,
			uint32_t max)
{
	static const struct view none;
	struct view v = none;
	uint64_t last_ns = 0;
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t k = 0; k < n->count; k++) {
			const struct neighbours_row *r = &n->row[(n->first + k) % NEIGHBOURS_ROWS];

			if (!in_time(r, begin_ns, end_ns))
				continue;
			if (!pass && r->begin_ns >= last_ns) {
				v.seen_ns += (double)(r->end_ns - r->begin_ns);
				last_ns = r->end_ns;
			}
			if (!pass && r->root == root)
				see_own(&v, r);
			else if (pass && !r->root)
				see_other(&v, r);
		}
	if (v.seen_ns <= 0)
		return;
	for (uint32_t i = 0; i < v.others; i++) {
		snprintf(subject, sizeof(subject), "%.15s (pid %u)", v.other[i].row->comm,
			 v.other[i].row->pid);
		put(list, count, max, OS_SIGNAL_CPU_HOG, subject,
		    v.other[i].cpu_ns / v.seen_ns * 1e3, step_ms);
	}
	put_locks(&v, step_ms, list, count, max);
}

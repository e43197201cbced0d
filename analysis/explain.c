/* SPDX-License-Identifier: Apache-2.0
 * The baseline is a sample of whole healthy steps per key, not a number per kernel name: steps of
 * one key may carry different work, so the flagged ones are held against the stored steps whose
 * work is nearest. The sample is drawn over the key's whole life (reservoir), so that a slow drift
 * does not become the norm. */
#include "analysis/explain.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/thresholds.h"
#include "base/hash.h"

#define BASE_STEPS 24	 /* healthy steps kept per key */
#define BASE_NEAR 11	 /* of them the nearest in work are compared with */
#define OPEN_STEPS 16	 /* flagged steps kept of the open window */
#define NAMES_MAX 512	 /* names told apart in one explanation */

struct kept_kernel {
	uint32_t name, count;
	float total_ns;
};

struct kept_step {
	uint64_t key;
	double latency_ns, compute_ns, exposed_comm_ns, copy_ns, idle_ns;
	double work[STEP_WORK_MAX];
	uint32_t work_count, kernel_count;
	struct kept_kernel kernel[STEP_KERNELS_MAX]; /* compute kernels by name */
};

struct baseline {
	uint64_t key, used, seen;
	uint32_t count;
	struct kept_step step[BASE_STEPS];
};

struct explain {
	uint32_t keys_max, keys, open_count;
	uint64_t tick, open_seen;
	struct kept_step open[OPEN_STEPS];
	struct baseline base[];
};

struct name_row {
	uint32_t name;
	double expected_ns, observed_ns;
	double expected_count, observed_count;
};

struct side {
	const struct kept_step *step[BASE_STEPS];
	uint32_t count;
};

const char *explain_kind_name(unsigned kind)
{
	static const char *const names[] = {
		[EXPLAIN_KERNEL] = "kernel",
		[EXPLAIN_ALL_KERNELS] = "all-kernels",
		[EXPLAIN_GAP] = "gap",
		[EXPLAIN_COPY] = "copy",
		[EXPLAIN_COMM_WAIT] = "comm-wait",
		[EXPLAIN_EXTRA_KERNELS] = "extra-kernels",
	};

	return kind && kind <= EXPLAIN_EXTRA_KERNELS ? names[kind] : "unknown";
}

size_t explain_memory_bytes(uint32_t keys_max)
{
	return sizeof(struct explain) + keys_max * sizeof(struct baseline);
}

struct explain *explain_init(void *memory, uint32_t keys_max)
{
	struct explain *e = memory;

	memset(e, 0, sizeof(*e));
	e->keys_max = keys_max;
	return e;
}

static void keep(struct kept_step *k, const struct step *s, const struct step_kernel *kernels,
		 uint32_t kernel_count)
{
	if (!k)
		return;
	*k = (struct kept_step){
		.key = s->key,
		.latency_ns = (double)s->latency_ns,
		.compute_ns = (double)s->compute_ns,
		.exposed_comm_ns = (double)s->exposed_comm_ns,
		.copy_ns = (double)s->copy_ns,
		.idle_ns = (double)s->idle_ns,
		.work_count = s->work_count < STEP_WORK_MAX ? s->work_count : STEP_WORK_MAX,
	};
	memcpy(k->work, s->work, sizeof(k->work));
	for (uint32_t i = 0; i < kernel_count; i++) {
		uint32_t j;

		if (kernels[i].kind != RECORD_KERNEL && kernels[i].kind != RECORD_GRAPH_EXEC)
			continue;
		if (k->kernel_count == STEP_KERNELS_MAX)
			break;
		for (j = k->kernel_count++; j > 0 && k->kernel[j - 1].name > kernels[i].name; j--)
			k->kernel[j] = k->kernel[j - 1];
		k->kernel[j] = (struct kept_kernel){ kernels[i].name, kernels[i].count,
						     (float)kernels[i].total_ns };
	}
}

/* A place in a reservoir for one more of a stream of which it holds *count; NULL: none. */
static struct kept_step *reservoir_slot(struct kept_step *kept, uint32_t capacity, uint32_t *count,
					uint64_t *seen)
{
	uint64_t n = (*seen)++, at;

	if (*count < capacity)
		return &kept[(*count)++];
	at = hash_mix(n * 0x9e3779b97f4a7c15ull + 1) % (n + 1);
	return at < capacity ? &kept[at] : NULL;
}

static struct baseline *baseline_for(struct explain *e, uint64_t key)
{
	struct baseline *oldest = NULL;

	for (uint32_t i = 0; i < e->keys; i++) {
		if (e->base[i].key == key)
			return &e->base[i];
		if (!oldest || e->base[i].used < oldest->used)
			oldest = &e->base[i];
	}
	if (e->keys < e->keys_max)
		oldest = &e->base[e->keys++];
	if (oldest) {
		oldest->key = key;
		oldest->seen = 0;
		oldest->count = 0;
	}
	return oldest;
}

void explain_learn(struct explain *e, const struct step *s, const struct step_kernel *kernels,
		   uint32_t kernel_count)
{
	struct baseline *b = baseline_for(e, s->key);

	if (!b)
		return;
	b->used = ++e->tick;
	keep(reservoir_slot(b->step, BASE_STEPS, &b->count, &b->seen), s, kernels, kernel_count);
}

void explain_begin(struct explain *e)
{
	e->open_count = 0;
	e->open_seen = 0;
}

void explain_add(struct explain *e, const struct step *s, const struct step_kernel *kernels,
		 uint32_t kernel_count)
{
	keep(reservoir_slot(e->open, OPEN_STEPS, &e->open_count, &e->open_seen), s, kernels,
	     kernel_count);
}

/* The median over a side's steps of the double at this offset of struct kept_step. */
static double side_median(const struct side *s, size_t offset)
{
	double v[BASE_STEPS];

	for (uint32_t i = 0; i < s->count; i++)
		v[i] = *(const double *)((const char *)s->step[i] + offset);
	return median_of(v, s->count);
}

static void side_kernel(const struct side *s, uint32_t name, double *total_ns, double *count)
{
	double v[BASE_STEPS], c[BASE_STEPS];

	for (uint32_t i = 0; i < s->count; i++) {
		const struct kept_step *k = s->step[i];

		v[i] = c[i] = 0;
		for (uint32_t n = 0; n < k->kernel_count; n++) {
			bool same = k->kernel[n].name == name;

			v[i] += same ? k->kernel[n].total_ns : 0;
			c[i] += same ? k->kernel[n].count : 0;
		}
	}
	*total_ns = median_of(v, s->count);
	*count = median_of(c, s->count);
}

/* The flagged steps of the key that most of them have. */
static void side_open(const struct explain *e, struct side *out)
{
	uint64_t key = 0;
	uint32_t best = 0;

	for (uint32_t i = 0; i < e->open_count; i++) {
		uint32_t same = 0;

		for (uint32_t j = 0; j < e->open_count; j++)
			same += e->open[j].key == e->open[i].key;
		if (same > best) {
			best = same;
			key = e->open[i].key;
		}
	}
	out->count = 0;
	for (uint32_t i = 0; i < e->open_count; i++)
		if (e->open[i].key == key)
			out->step[out->count++] = &e->open[i];
}

static double work_distance(const struct kept_step *k, const double *work)
{
	double sum = 0;

	for (uint32_t i = 0; i < k->work_count; i++)
		sum += fabs(log((1 + fabs(k->work[i])) / (1 + fabs(work[i]))));
	return sum;
}

/* The healthy steps nearest in work to the flagged ones. */
static void side_base(const struct baseline *b, const struct side *open, struct side *out)
{
	double work[STEP_WORK_MAX], distance[BASE_STEPS];

	for (uint32_t i = 0; i < STEP_WORK_MAX; i++)
		work[i] = side_median(open, offsetof(struct kept_step, work) + i * sizeof(double));
	out->count = 0;
	for (uint32_t i = 0; i < b->count; i++) {
		double d = work_distance(&b->step[i], work);
		uint32_t j;

		for (j = i; j > 0 && distance[j - 1] > d; j--) {
			distance[j] = distance[j - 1];
			out->step[j] = out->step[j - 1];
		}
		distance[j] = d;
		out->step[j] = &b->step[i];
		out->count++;
	}
	/* no farther than the nearest ones, unless they are as near */
	while (out->count > BASE_NEAR && distance[out->count - 1] > distance[BASE_NEAR - 1])
		out->count--;
}

static uint32_t rows_fill(struct name_row *rows, const struct side *base, const struct side *open)
{
	uint32_t n = 0;

	for (uint32_t side = 0; side < 2; side++) {
		const struct side *s = side ? open : base;

		for (uint32_t i = 0; i < s->count; i++)
			for (uint32_t k = 0; k < s->step[i]->kernel_count && n < NAMES_MAX; k++) {
				uint32_t name = s->step[i]->kernel[k].name, j = 0;

				while (j < n && rows[j].name != name)
					j++;
				if (j == n)
					rows[n++].name = name;
			}
	}
	for (uint32_t i = 0; i < n; i++) {
		side_kernel(base, rows[i].name, &rows[i].expected_ns, &rows[i].expected_count);
		side_kernel(open, rows[i].name, &rows[i].observed_ns, &rows[i].observed_count);
	}
	return n;
}

struct parts {
	struct explain_part *out;
	uint32_t count, max;
	double whole; /* excess per step */
};

static void part_add(struct parts *p, struct explain_part part, double growth)
{
	uint32_t i;

	part.share = p->whole > 0 ? growth / p->whole : 0;
	if (part.share > 1)
		part.share = 1;
	if (growth <= 0 || part.share < thresholds.part.told)
		return;
	if (p->count < p->max)
		i = p->count++;
	else if (p->max && p->out[p->max - 1].share < part.share)
		i = p->max - 1;
	else
		return;
	for (; i > 0 && p->out[i - 1].share < part.share; i--)
		p->out[i] = p->out[i - 1];
	p->out[i] = part;
}

/* Whether most of the compute time, over most of the names, slowed by about one ratio. */
static bool slowed_alike(const struct name_row *rows, uint32_t n, double expected, double observed)
{
	double ratio = observed / expected - 1, time = 0;
	uint32_t names = 0, alike = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct name_row *r = &rows[i];
		double own = r->expected_ns > 0 ? r->observed_ns / r->expected_ns - 1 : 0;

		if (r->expected_ns < thresholds.excess.least * expected)
			continue;
		names++;
		if (own < thresholds.part.shows * ratio || own * thresholds.part.shows > ratio)
			continue;
		alike++;
		time += r->expected_ns;
	}
	return names >= thresholds.count.few && alike >= thresholds.part.most * names &&
	       time >= thresholds.part.most * expected;
}

/* Time that more instances of a kernel cost, at its usual time per instance. */
static double extra_ns(const struct name_row *r)
{
	double more = r->observed_count - r->expected_count, each;

	if (more < 1 || r->observed_count < (1 + thresholds.excess.work) * r->expected_count)
		return 0;
	each = r->expected_count > 0 ? r->expected_ns / r->expected_count :
				       r->observed_ns / r->observed_count;
	return each * more;
}

static void parts_kernels(struct parts *p, const struct name_row *rows, uint32_t n, double growth)
{
	double expected = 0, observed = 0, sum = 0, extra = 0, most = 0, scale;
	struct explain_part more = { .kind = EXPLAIN_EXTRA_KERNELS };

	for (uint32_t i = 0; i < n; i++) {
		double g = rows[i].observed_ns - rows[i].expected_ns, x = extra_ns(&rows[i]);

		expected += rows[i].expected_ns;
		observed += rows[i].observed_ns;
		sum += g > 0 ? g : 0;
		extra += x;
		if (x > 0) {
			more.expected_ns += rows[i].expected_ns;
			more.observed_ns += rows[i].observed_ns;
		}
		if (x > most) {
			most = x;
			more.name = rows[i].name;
		}
	}
	if (growth <= 0 || sum <= 0 || expected <= 0)
		return;
	/* kernels that overlap, or that gave way to others, grow by more than the device's time */
	scale = growth < sum ? growth / sum : 1;
	if (extra < thresholds.part.shows * sum && slowed_alike(rows, n, expected, observed)) {
		part_add(p, (struct explain_part){ EXPLAIN_ALL_KERNELS, 0, expected, observed, 0 },
			 growth);
		return;
	}
	part_add(p, more, (extra < sum ? extra : sum) * scale);
	for (uint32_t i = 0; i < n; i++) {
		double x = extra_ns(&rows[i]);

		part_add(p,
			 (struct explain_part){ EXPLAIN_KERNEL, rows[i].name, rows[i].expected_ns,
						rows[i].observed_ns, 0 },
			 (rows[i].observed_ns - rows[i].expected_ns - x) * scale);
	}
}

/* Host and device timelines differ: idle time between two steps' kernels shows in the latency
 * alone, idle time inside in both. */
static void parts_rest(struct parts *p, const struct side *base, const struct side *open)
{
#define BOTH(field) side_median(base, offsetof(struct kept_step, field)), \
		    side_median(open, offsetof(struct kept_step, field))
	double compute[2] = { BOTH(compute_ns) }, comm[2] = { BOTH(exposed_comm_ns) };
	double copy[2] = { BOTH(copy_ns) }, idle[2] = { BOTH(idle_ns) };
	double latency[2] = { BOTH(latency_ns) };
#undef BOTH
	double busy = fmax(compute[1] - compute[0], 0) + fmax(comm[1] - comm[0], 0) +
		      fmax(copy[1] - copy[0], 0);
	double left = latency[1] - latency[0] - busy, inside = idle[1] - idle[0];
	double gap = left > inside ? left : inside, outside[2];

	/* what is told is idle time inside the span, or all time not spent on the device */
	for (uint32_t i = 0; i < 2; i++)
		outside[i] = fmax(latency[i] - compute[i] - comm[i], 0);
	part_add(p, (struct explain_part){ EXPLAIN_COMM_WAIT, 0, comm[0], comm[1], 0 },
		 comm[1] - comm[0]);
	part_add(p, (struct explain_part){ EXPLAIN_COPY, 0, copy[0], copy[1], 0 },
		 copy[1] - copy[0]);
	part_add(p,
		 (struct explain_part){ EXPLAIN_GAP, 0, left > inside ? outside[0] : idle[0],
					left > inside ? outside[1] : idle[1], 0 },
		 gap);
}

static const struct baseline *baseline_of(const struct explain *e, const struct side *open)
{
	for (uint32_t i = 0; i < e->keys && open->count; i++)
		if (e->base[i].key == open->step[0]->key && e->base[i].count >= thresholds.count.few)
			return &e->base[i];
	return NULL;
}

uint32_t explain_parts(const struct explain *e, struct explain_part *out, uint32_t max)
{
	struct parts p = { .out = out, .max = max };
	struct name_row rows[NAMES_MAX];
	struct side open, base;
	const struct baseline *b;
	double compute, grown;
	uint32_t n;

	side_open(e, &open);
	b = baseline_of(e, &open);
	if (!b)
		return 0;
	side_base(b, &open, &base);
	n = rows_fill(rows, &base, &open);
	compute = side_median(&open, offsetof(struct kept_step, compute_ns)) -
		  side_median(&base, offsetof(struct kept_step, compute_ns));
	p.whole = side_median(&open, offsetof(struct kept_step, latency_ns)) -
		  side_median(&base, offsetof(struct kept_step, latency_ns));
	/* where the device runs behind the host, the device may have grown by more */
	grown = fmax(compute, 0) + fmax(side_median(&open, offsetof(struct kept_step, exposed_comm_ns)) -
				       side_median(&base, offsetof(struct kept_step, exposed_comm_ns)), 0);
	if (grown > p.whole)
		p.whole = grown;
	if (p.whole <= 0)
		return 0;
	parts_kernels(&p, rows, n, compute);
	parts_rest(&p, &base, &open);
	return p.count;
}

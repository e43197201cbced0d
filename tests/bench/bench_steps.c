/* SPDX-License-Identifier: Apache-2.0
 * Boundary precision and recall of the automatic step detector, and its speed.
 *
 * Synthetic traces are generated here, with their true boundaries (the end of each step's last
 * launch); real ones carry ProfilerStep marks, unseen by the detector. A boundary found within
 * 5% of a step time of a true one that no other took counts as found. Boundaries outside the first
 * and last true one are not scored. `bench_steps SEEDS` tries that many seeds per kind. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/steps/steps.h"
#include "cli/replay/replay_load.h"

#define RECORDS_MAX 3000000
#define STEPS_MAX   20000

struct trace {
	struct record *host;
	size_t count;
	uint64_t truth[STEPS_MAX];
	size_t truth_count;
	uint64_t now, seed;
	uint64_t launch_ns; /* typical spacing */
	double jitter;
	uint32_t streams;
	uint64_t step_gap_ns; /* typical host gap after a step; 0 back to back */
	bool input_copy, anonymous;
	unsigned sync; /* 0 none, 1 at the end of a step, 2 after the loss */
};

static uint64_t next_random(struct trace *t)
{
	uint64_t z = t->seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static double uniform(struct trace *t)
{
	return (double)(next_random(t) >> 11) / 9007199254740992.0;
}

static uint64_t jittered(struct trace *t, uint64_t ns)
{
	double x = 1 + t->jitter * (uniform(t) * 2 - 1);

	if (uniform(t) < 0.002)
		x += 5 * uniform(t); /* the host was elsewhere for a moment */
	return (uint64_t)((double)ns * x);
}

static struct record *emit(struct trace *t, unsigned kind, uint32_t name, uint32_t grid)
{
	struct record *r = &t->host[t->count < RECORDS_MAX - 1 ? t->count++ : t->count];

	memset(r, 0, sizeof(*r));
	t->now += jittered(t, t->launch_ns / 2);
	r->kind = (uint16_t)kind;
	r->name = name;
	r->begin_ns = t->now;
	r->stream = name % t->streams;
	r->grid[0] = grid;
	r->grid[1] = r->grid[2] = 1;
	r->block[0] = 128;
	r->block[1] = r->block[2] = 1;
	t->now += jittered(t, t->launch_ns / 2);
	r->end_ns = t->now;
	return r;
}

static void kernels(struct trace *t, uint32_t first, uint32_t count, uint32_t grid)
{
	for (uint32_t k = 0; k < count; k++)
		emit(t, RECORD_LAUNCH, first + k, grid);
}

static void collective(struct trace *t, uint32_t name, uint64_t bytes)
{
	struct record *r = emit(t, RECORD_COLL, name, 0);

	r->grid[0] = r->grid[1] = r->grid[2] = 0;
	r->block[0] = r->block[1] = r->block[2] = 0;
	r->func = RECORD_COLL_ALL_REDUCE;
	r->bytes = bytes;
}

static void wait_gpu(struct trace *t, uint64_t ns)
{
	struct record *r = emit(t, RECORD_SYNC, 1, 0);

	t->now += jittered(t, ns);
	r->end_ns = t->now;
}

static void truth(struct trace *t)
{
	t->truth[t->truth_count < STEPS_MAX - 1 ? t->truth_count++ : t->truth_count] =
	    t->host[t->count - 1].end_ns;
	if (t->sync == 1)
		wait_gpu(t, t->launch_ns * 50);
	t->now += jittered(t, t->step_gap_ns);
}

/* names: 10.. forward layer, 30.. backward layer, 50.. embedding, 60.. loss, 70.. optimizer */
struct shape {
	uint32_t layers, fwd, bwd, fwd_colls, bwd_colls, opt, grid;
};

static void forward(struct trace *t, const struct shape *s)
{
	if (t->input_copy)
		emit(t, RECORD_COPY_CALL, 5, 0)->bytes = 1 << 20;
	kernels(t, 50, 2, s->grid);
	for (uint32_t l = 0; l < s->layers; l++) {
		kernels(t, 10, s->fwd, s->grid);
		for (uint32_t c = 0; c < s->fwd_colls; c++)
			collective(t, 90, 4096 * s->grid);
	}
	kernels(t, 60, 3, s->grid);
}

static void backward(struct trace *t, const struct shape *s, bool reduce)
{
	if (t->sync == 2)
		wait_gpu(t, t->launch_ns * 100);
	kernels(t, 64, 2, s->grid);
	for (uint32_t l = 0; l < s->layers; l++) {
		kernels(t, 30, s->bwd, s->grid);
		for (uint32_t c = 0; reduce && c < s->bwd_colls; c++)
			collective(t, 91, 8192 * s->grid);
	}
	kernels(t, 54, 1, s->grid);
}

static void optimizer(struct trace *t, const struct shape *s)
{
	kernels(t, 70, 2, 7);
	for (uint32_t k = 0; k < s->opt; k++)
		emit(t, RECORD_LAUNCH, 72 + k % 3, 100 + k % 5);
}

static void vary(struct trace *t, uint64_t seed)
{
	t->seed = seed * 7919 + 1;
	t->count = t->truth_count = 0;
	t->now = 1000000000ull * (1 + seed);
	t->launch_ns = 3000 + next_random(t) % 12000;
	t->jitter = 0.1 + 0.5 * uniform(t);
	t->streams = 1 + (uint32_t)(next_random(t) % 8);
	t->input_copy = next_random(t) % 3 > 0;
	t->sync = (unsigned)(next_random(t) % 3);
	t->step_gap_ns = next_random(t) % 4 ? t->launch_ns * (2 + next_random(t) % 400) : 0;
	if (!t->step_gap_ns && !t->input_copy && t->sync == 2)
		t->step_gap_ns = t->launch_ns * 20; /* else nothing shows where a step ends */
}

static struct shape shape_of(struct trace *t)
{
	return (struct shape){
	    .layers = 4 + (uint32_t)(next_random(t) % 28),
	    .fwd = 5 + (uint32_t)(next_random(t) % 12),
	    .bwd = 8 + (uint32_t)(next_random(t) % 12),
	    .bwd_colls = (uint32_t)(next_random(t) % 2),
	    .opt = 1 + (uint32_t)(next_random(t) % 60),
	    .grid = 16 + (uint32_t)(next_random(t) % 100),
	};
}

static void make_collectives(struct trace *t, uint64_t seed)
{
	struct shape s;

	vary(t, seed);
	s = shape_of(t);
	s.layers = 100;
	s.fwd_colls = s.bwd_colls = 2;
	for (int i = 0; i < 30; i++) {
		forward(t, &s);
		backward(t, &s, true);
		optimizer(t, &s);
		truth(t);
	}
}

static void make_accumulation(struct trace *t, uint64_t seed)
{
	struct shape s;
	uint32_t micro;

	vary(t, seed);
	s = shape_of(t);
	micro = 2 + (uint32_t)(next_random(t) % 15);
	for (int i = 0; i < 25; i++) {
		for (uint32_t m = 0; m < micro; m++) {
			forward(t, &s);
			backward(t, &s, m + 1 == micro);
		}
		optimizer(t, &s);
		truth(t);
	}
}

static void make_evaluation(struct trace *t, uint64_t seed)
{
	struct shape s, e;
	uint32_t every, batches;

	vary(t, seed);
	s = e = shape_of(t);
	if (next_random(t) % 2)
		e.grid *= 2; /* larger batches */
	every = 5 + (uint32_t)(next_random(t) % 15);
	batches = 2 + (uint32_t)(next_random(t) % 8);
	for (uint32_t i = 1; i <= 80; i++) {
		forward(t, &s);
		backward(t, &s, true);
		optimizer(t, &s);
		truth(t);
		for (uint32_t b = 0; i % every == 0 && b < batches; b++) {
			forward(t, &e);
			if (seed % 3 == 0)
				kernels(t, 68, 2, 3);
			truth(t);
		}
	}
}

static void make_data_dependent(struct trace *t, uint64_t seed)
{
	struct shape s;
	uint32_t layers;

	vary(t, seed);
	s = shape_of(t);
	layers = s.layers;
	for (int i = 0; i < 60; i++) {
		s.layers = layers / 2 + 1 + (uint32_t)(next_random(t) % (layers / 2 + 1));
		s.grid = 16 + (uint32_t)(next_random(t) % 64);
		forward(t, &s);
		if (next_random(t) % 3 == 0)
			kernels(t, 100, 10 + (uint32_t)(next_random(t) % 20), s.grid);
		for (uint32_t k = (uint32_t)(next_random(t) % 8); k; k--)
			kernels(t, 130 + (uint32_t)(next_random(t) % 8), 2, s.grid);
		backward(t, &s, true);
		optimizer(t, &s);
		truth(t);
	}
}

static void make_decode(struct trace *t, uint64_t seed)
{
	vary(t, seed);
	t->launch_ns = 20000;
	t->step_gap_ns = t->step_gap_ns / 10 + t->launch_ns * 20;
	for (int i = 0; i < 400; i++) {
		emit(t, RECORD_COPY_CALL, 5, 0)->bytes = 64;
		emit(t, RECORD_GRAPH_LAUNCH, 200 + (uint32_t)(next_random(t) % 2), 400);
		kernels(t, 210, 4, 8);
		truth(t);
	}
}

static void make_warm_up(struct trace *t, uint64_t seed)
{
	struct shape s;

	vary(t, seed);
	s = shape_of(t);
	for (int i = 0; i < 40; i++) {
		forward(t, &s);
		if (i < 3) /* kernels tried out */
			for (uint32_t k = 0; k < 300 / (uint32_t)(i + 1); k++)
				emit(t, RECORD_LAUNCH, 300 + k % 7, k);
		backward(t, &s, true);
		optimizer(t, &s);
		if (i % 10 == 9)
			emit(t, RECORD_COPY_CALL, 6, 0)->bytes = 4;
		truth(t);
	}
}

/* A serving engine without graphs: batches come and go, and other sizes take other kernels. */
static void make_engine(struct trace *t, uint64_t seed)
{
	uint32_t layers, batch = 8;

	vary(t, seed);
	t->sync = 1; /* for the tokens */
	layers = 8 + (uint32_t)(next_random(t) % 24);
	for (int i = 0; i < 200; i++) {
		uint32_t variant;

		batch += (uint32_t)(next_random(t) % 7);
		batch = batch > 3 ? batch - 3 : 1;
		batch = batch < 64 ? batch : 64;
		variant = batch > 32 ? 2 : batch > 16 ? 1 : 0;
		emit(t, RECORD_COPY_CALL, 5, 0)->bytes = 64 * batch;
		kernels(t, 50, 2, batch);
		for (uint32_t l = 0; l < layers; l++) {
			kernels(t, 10, 4, batch);
			kernels(t, 20 + 4 * variant, 2 + variant, batch);
			kernels(t, 40, 2, batch);
		}
		kernels(t, 60, 3, batch); /* head and sampler */
		truth(t);
	}
}

/* Experts without tokens launch nothing. */
static void make_experts(struct trace *t, uint64_t seed)
{
	struct shape s;

	vary(t, seed);
	s = shape_of(t);
	for (int i = 0; i < 40; i++) {
		if (t->input_copy)
			emit(t, RECORD_COPY_CALL, 5, 0)->bytes = 1 << 20;
		kernels(t, 50, 2, s.grid);
		for (uint32_t l = 0; l < s.layers; l++) {
			kernels(t, 10, s.fwd, s.grid);
			collective(t, 92, 65536);
			for (uint32_t e = 0; e < 8; e++)
				if (next_random(t) % 4)
					kernels(t, 110, 3, 1 + (uint32_t)(next_random(t) % 64));
			collective(t, 92, 65536);
		}
		kernels(t, 60, 3, s.grid);
		backward(t, &s, true);
		optimizer(t, &s);
		truth(t);
	}
}

static void make_micro(struct trace *t, uint64_t seed, uint32_t micro)
{
	struct shape s;

	vary(t, seed);
	s = shape_of(t);
	for (int i = 0; i < 40; i++) {
		for (uint32_t m = 0; m < micro; m++) {
			forward(t, &s);
			backward(t, &s, m + 1 == micro);
		}
		optimizer(t, &s);
		truth(t);
	}
}

static void make_micro_8(struct trace *t, uint64_t seed)
{
	make_micro(t, seed, 8);
}

static void make_micro_32(struct trace *t, uint64_t seed)
{
	make_micro(t, seed, 32);
}

static void point_to_point(struct trace *t, unsigned func, uint32_t name)
{
	collective(t, name, 1 << 22);
	t->host[t->count - 1].func = (uint16_t)func;
}

/* One of two pipeline stages, one forward and one backward in turn after the fill. */
static void make_pipeline(struct trace *t, uint64_t seed)
{
	struct shape s;
	uint32_t micro, stage = seed % 2;

	vary(t, seed);
	s = shape_of(t);
	micro = 4 + (uint32_t)(next_random(t) % 9);
	for (int i = 0; i < 25; i++) {
		for (uint32_t slot = 0; slot < 2 * micro; slot++) {
			bool fwd =
			    stage ? slot % 2 == 0 : !slot || (slot % 2 && slot < 2 * micro - 1);

			if (stage || !fwd)
				point_to_point(t, RECORD_COLL_RECV, 95);
			if (fwd)
				forward(t, &s);
			else
				backward(t, &s, slot + 1 == 2 * micro);
			if (!stage == fwd)
				point_to_point(t, RECORD_COLL_SEND, 96);
		}
		optimizer(t, &s);
		truth(t);
	}
}

/* ---- detection and score ---- */

static uint64_t *boundaries;
static size_t boundary_count;

static void detect(const struct record *host, size_t count, bool live)
{
	static struct step_kernel kernel[STEP_KERNELS_MAX];
	struct steps_config c;
	struct steps *s;
	struct step st;
	void *memory;
	uint32_t n;

	steps_config_default(&c);
	c.automatic_only = true;
	c.whole_first = !live;
	if (live) /* the traces are shorter than a job */
		c.lock_min_ns = (host[count - 1].end_ns - host[0].begin_ns) / 8;
	if (!live)
		c.launch_max = (uint32_t)(count < 1 << 20 ? count + 1 : 1 << 20);
	memory = aligned_alloc(16, steps_memory_bytes(&c));
	s = steps_init(memory, &c);
	boundary_count = 0;
	for (size_t i = 0; i <= count; i++) {
		if (i < count) {
			struct record r = host[i];

			r.flags |= RECORD_FLAG_UNMATCHED;
			steps_push_host(s, &r, NULL);
		} else {
			steps_finish(s);
		}
		while (steps_next(s, &st, kernel, &n)) {
			/* an edge before the first launch is no boundary */
			if (st.end_ns && boundary_count < STEPS_MAX)
				boundaries[boundary_count++] = st.end_ns;
		}
	}
	free(memory);
}

struct score {
	double precision, recall;
	size_t found, predicted, known;
};

static struct score score(const uint64_t *known, size_t n, uint64_t from, uint64_t to)
{
	static bool taken[STEPS_MAX];
	struct score s = {0};
	double step = n > 1 ? (double)(known[n - 1] - known[0]) / (double)(n - 1) : 0;
	size_t inner = 0;

	memset(taken, 0, sizeof(taken));
	for (size_t i = 0; i < n; i++)
		inner += known[i] > from && known[i] < to;
	for (size_t b = 0; b < boundary_count; b++) {
		double best = 0.05 * step;
		size_t which = n;

		if ((double)boundaries[b] < (double)from + 0.05 * step ||
		    (double)boundaries[b] > (double)to - 0.05 * step)
			continue;
		s.predicted++;
		for (size_t i = 0; i < n; i++) {
			double d = fabs((double)boundaries[b] - (double)known[i]);

			if (!taken[i] && known[i] > from && known[i] < to && d <= best) {
				best = d;
				which = i;
			}
		}
		if (which < n) {
			taken[which] = true;
			s.found++;
		}
	}
	s.known = inner;
	s.precision = s.predicted ? (double)s.found / (double)s.predicted : 0;
	s.recall = inner ? (double)s.found / (double)inner : 0;
	return s;
}

static void report(const char *name, struct score s, const char *note)
{
	printf("%-44s precision %.3f  recall %.3f  (%zu of %zu found, %zu predicted)%s%s\n", name,
	       s.precision, s.recall, s.found, s.known, s.predicted,
	       s.precision < 0.95 || s.recall < 0.95 ? "  below 0.95" : "", note);
}

static void synthetic(struct trace *t, const char *name, void (*make)(struct trace *, uint64_t),
		      uint64_t seeds, bool live, bool verbose)
{
	struct score sum = {0};
	uint64_t bad = 0;
	char line[64];

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct score s;

		make(t, seed);
		detect(t->host, t->count, live);
		s = score(t->truth, t->truth_count, t->truth[0],
			  live ? t->truth[t->truth_count - 1] : t->truth[t->truth_count - 1]);
		sum.found += s.found;
		sum.predicted += s.predicted;
		sum.known += s.known;
		bad += s.precision < 0.95 || s.recall < 0.95;
		if (verbose && (s.precision < 0.95 || s.recall < 0.95))
			printf("  seed %llu: precision %.3f recall %.3f gap %.1f copy %d sync %u "
			       "launches/step %zu\n",
			       (unsigned long long)seed, s.precision, s.recall,
			       (double)t->step_gap_ns / (double)t->launch_ns, t->input_copy,
			       t->sync, t->count / t->truth_count);
	}
	sum.precision = sum.predicted ? (double)sum.found / (double)sum.predicted : 0;
	sum.recall = sum.known ? (double)sum.found / (double)sum.known : 0;
	snprintf(line, sizeof(line), ", %llu of %llu seeds below", (unsigned long long)bad,
		 (unsigned long long)seeds);
	report(name, sum, line);
}

static void real_trace(const char *path)
{
	struct replay_trace t = {0};
	uint64_t known[256];
	size_t n = 0;
	const char *name = strrchr(path, '/');

	if (replay_load(&t, path))
		return;
	if (t.mark_count >= 3) {
		for (size_t i = 0; i < t.mark_count && n < 255; i++)
			known[n++] = t.marks[i].begin_ns;
		known[n++] = t.marks[t.mark_count - 1].end_ns;
		detect(t.host, t.host_count, false);
		report(name ? name + 1 : path, score(known, n, known[0], known[n - 1]), "");
	}
	replay_load_free(&t);
}

static void real_traces(void)
{
	const char *data = getenv("SYSOM_DATA");
	char pattern[512];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/*/*.events.csv.gz", data ? data : "../shared/data");
	if (glob(pattern, 0, NULL, &found)) {
		printf("real traces: none at %s, skipped\n", pattern);
		return;
	}
	for (size_t i = 0; i < found.gl_pathc; i++)
		real_trace(found.gl_pathv[i]);
	globfree(&found);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Launch and kernel of each, as they come live. */
static void throughput(struct trace *t)
{
	struct steps_config c;
	struct step_kernel kernel[STEP_KERNELS_MAX];
	struct step st;
	uint64_t events = 0, found = 0;
	double begin, took;
	void *memory;
	struct steps *s;
	uint32_t n;

	make_collectives(t, 3);
	steps_config_default(&c);
	memory = aligned_alloc(16, steps_memory_bytes(&c));
	s = steps_init(memory, &c);
	begin = seconds();
	for (int round = 0; round < 10; round++) {
		uint64_t shift = (uint64_t)round * (t->now - t->host[0].begin_ns + 1000);

		for (size_t i = 0; i < t->count; i++) {
			struct record h = t->host[i], d = h;

			h.begin_ns += shift;
			h.end_ns += shift;
			steps_push_host(s, &h, NULL);
			events++;
			if (h.kind != RECORD_LAUNCH)
				continue;
			d.kind = RECORD_KERNEL;
			d.launch_ns = h.begin_ns;
			d.begin_ns = h.begin_ns + 5000;
			d.end_ns = h.end_ns + 5000;
			steps_push_device(s, &d);
			events++;
			while (steps_next(s, &st, kernel, &n))
				found++;
		}
	}
	took = seconds() - begin;
	printf("throughput: %.2f M events/s (%llu events, %llu steps, %.0f ns each)\n",
	       (double)events / took / 1e6, (unsigned long long)events, (unsigned long long)found,
	       took * 1e9 / (double)events);
	free(memory);
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 12;
	static const struct {
		const char *name;
		void (*make)(struct trace *, uint64_t);
	} kinds[] = {
	    {"400 collectives per step", make_collectives},
	    {"gradient accumulation", make_accumulation},
	    {"evaluation in between", make_evaluation},
	    {"data-dependent graph", make_data_dependent},
	    {"decode with graphs", make_decode},
	    {"different first steps", make_warm_up},
	    {"engine with changing batches", make_engine},
	    {"mixture of experts", make_experts},
	    {"8 micro-batches", make_micro_8},
	    {"32 micro-batches", make_micro_32},
	    {"2-stage pipeline, one rank", make_pipeline},
	};
	static struct trace t;

	t.host = malloc(RECORDS_MAX * sizeof(*t.host));
	boundaries = malloc(STEPS_MAX * sizeof(*boundaries));
	if (!t.host || !boundaries || !seeds)
		return 1;
	printf("boundaries within 5%% of a step time; seeds 1 to %llu\n",
	       (unsigned long long)seeds);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (int live = 0; live < 2; live++) {
			char name[64];

			snprintf(name, sizeof(name), "%s%s", kinds[k].name, live ? ", live" : "");
			synthetic(&t, name, kinds[k].make, seeds, live, argc > 2);
		}
	real_traces();
	throughput(&t);
	free(t.host);
	free(boundaries);
	return 0;
}

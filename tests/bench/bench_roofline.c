/* SPDX-License-Identifier: Apache-2.0
 * What the roofline finds and what it gets wrong, on measured latencies: real healthy rows, slow
 * steps made by multiplying some of them. Each case is run at several contaminations of the
 * learning part and with several seeds, in both modes. Nothing of this data is in the constants. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/expect/roofline.h"
#include "base/check.h"
#include "base/hash.h"
#include "cli/trace/trace_reader.h"

#define ROWS_MAX  20000
#define KEYS_MAX  64
#define STEPS_MAX 100000
#define FACTORS	  3
#define VIDUR	  "vidur-profiles/"

struct row {
	char key[96];
	double work[2], latency_ns;
};

struct data {
	const char *name;
	struct row *row;
	uint32_t rows, work_count;
	bool ordered; /* a time series: not shuffled */
	/* steps per key drawn from the rows, 1% noise on top; 0: each row once */
	uint32_t resample;
};

struct tally {
	uint64_t injected[FACTORS], found[FACTORS], healthy, wrong, refused, judged;
};

static const double factor[FACTORS] = {1.2, 1.5, 2.0};
static uint32_t seeds = 5;
static bool tell_misses;  /* every miss and false positive, for whoever works on the roofline */
static double bad_factor; /* of slow learning steps; 0: anything from 1.2 to 3 */
static const double contamination[] = {0, 0.02, 0.05, 0.10, 0.20};

static double uniform(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return (double)(hash_mix(*state) >> 11) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
	return sqrt(-2 * log(1 - uniform(state))) * cos(2 * M_PI * uniform(state));
}

static int column(const struct trace_field *f, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(f[i].text, name))
			return i;
	return -1;
}

/* Rows of a CSV file: key columns (up to 3), work columns (up to 2), latency in unit_ns. */
static bool load(struct data *d, const char *dir, const char *file, const char *latency,
		 const char *const *work, const char *const *key, double unit_ns)
{
	char path[1024];
	struct trace_reader *c;
	struct trace_field *f;
	int n, at[6];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (trace_reader_open(&c, path))
		return false;
	n = trace_reader_csv(c, &f);
	for (int i = 0; i < 3; i++)
		at[i] = key[i] ? column(f, n, key[i]) : -1;
	for (int i = 0; i < 2; i++)
		at[3 + i] = work[i] ? column(f, n, work[i]) : -1;
	at[5] = column(f, n, latency);
	d->work_count = (work[0] != NULL) + (work[1] != NULL);
	while (at[5] >= 0 && trace_reader_csv(c, &f) > 0 && d->rows < ROWS_MAX) {
		struct row *r = &d->row[d->rows];

		snprintf(r->key, sizeof(r->key), "%.30s %.20s %.20s",
			 at[0] < 0 ? "" : f[at[0]].text, at[1] < 0 ? "" : f[at[1]].text,
			 at[2] < 0 ? "" : f[at[2]].text);
		/* power-capped rows are scaled copies of others */
		if (strstr(r->key, "pcap") || !trace_reader_number(&f[at[5]], &r->latency_ns))
			continue;
		for (uint32_t i = 0; i < d->work_count; i++)
			CHECK(trace_reader_number(&f[at[3 + i]], &r->work[i]));
		r->latency_ns *= unit_ns;
		d->rows++;
	}
	trace_reader_close(c);
	return d->rows > 0;
}

/* Compute seconds per (rank, step) of the production job, in step order, keyed by stage. */
static bool load_steps(struct data *d, const char *dir)
{
	static double sum[STEPS_MAX][8];
	char path[1024], stage[8] = {0};
	struct trace_reader *c;
	struct trace_field *f;
	int n, rank, step, op, duration, place, last = 0;

	snprintf(path, sizeof(path), "%s/straggler-bytedance/trace-ST.csv.gz", dir);
	if (trace_reader_open(&c, path))
		return false;
	memset(sum, 0, sizeof(sum));
	n = trace_reader_csv(c, &f);
	rank = column(f, n, "rank");
	step = column(f, n, "step");
	op = column(f, n, "optype");
	duration = column(f, n, "duration");
	place = column(f, n, "stage");
	while (trace_reader_csv(c, &f) > 0) {
		int k = atoi(f[rank].text) & 7, s = atoi(f[step].text);

		CHECK(s >= 0 && s < STEPS_MAX);
		last = s > last ? s : last;
		stage[k] = f[place].text[0];
		if (strstr(f[op].text, "compute"))
			sum[s][k] += atof(f[duration].text);
	}
	trace_reader_close(c);
	for (int s = 0; s <= last; s++)
		for (int k = 0; k < 8; k++) {
			if (sum[s][k] <= 0)
				continue;
			snprintf(d->row[d->rows].key, sizeof(d->row[0].key), "stage %c", stage[k]);
			d->row[d->rows++].latency_ns = sum[s][k] * 1e9;
		}
	d->ordered = true;
	return d->rows > 0;
}

/* Synthetic, so that the truth is complete: curve kinds times noise kinds. */
static void synthesise(struct data *d, unsigned kind, uint64_t seed)
{
	for (d->rows = 0; d->rows < 4000; d->rows++) {
		struct row *r = &d->row[d->rows];
		double x = floor(exp(uniform(&seed) * 8)) + 1, b = floor(uniform(&seed) * 64) + 1;
		double e = normal(&seed), ms = 0;

		memset(r, 0, sizeof(*r));
		r->work[0] = x;
		r->work[1] = b;
		switch (kind) {
		case 0: /* floor, then linear, then quadratic: prefill */
			ms = fmax(20, 5 + 0.08 * x + 6e-6 * x * x) * (1 + 0.01 * e);
			break;
		case 1: /* decode: batch and context tokens, skewed noise */
			ms = (12 + 0.1 * b + 4e-5 * b * x) * exp(0.02 * fabs(e) * (1 + (e > 2)));
			break;
		case 2: /* constant work, heavy tails */
			r->work[0] = r->work[1] = 1;
			ms = 180 * (1 + 0.004 * e / sqrt(uniform(&seed) + 0.02));
			break;
		case 3: /* stairs of tiles */
			ms = (4 + 1.5 * ceil(x / 256)) * (1 + 0.015 * e);
			break;
		case 4: /* gaussian 5% */
			ms = (10 + 0.02 * x + 0.2 * b) * (1 + 0.05 * e);
			break;
		default: /* nothing to learn */
			ms = 400 * exp(0.5 * e);
			break;
		}
		r->latency_ns = ms * 1e6;
	}
}

/* One key's rows: 60% to learn from, the rest to judge, one in twenty made slow. */
static void run_key(const struct data *d, const struct row **rows, uint32_t n,
		    const struct roofline_config *config, double bad, uint64_t seed,
		    struct tally *t)
{
	void *memory = aligned_alloc(64, (roofline_set_memory_bytes(config, 1) + 63) & ~63ul);
	struct roofline *m = roofline_set_get(roofline_set_init(memory, config, 1), 0);
	uint64_t seed0 = seed;
	uint32_t total = d->resample ? d->resample : n, learn = (uint32_t)(0.6 * total);

	for (uint32_t i = 0; i < total; i++) {
		const struct row *r = rows[d->resample ? (uint32_t)(uniform(&seed) * n) : i];
		double latency = r->latency_ns * (d->resample ? 1 + 0.01 * normal(&seed) : 1);
		int which = -1;
		struct roofline_verdict v;

		if (i < learn && uniform(&seed) < bad)
			latency *= bad_factor > 0 ? bad_factor : 1.2 + 1.8 * uniform(&seed);
		if (i >= learn && uniform(&seed) < 0.05) {
			which = (int)(uniform(&seed) * FACTORS);
			latency *= factor[which];
		}
		v = roofline_push(m, r->work, d->work_count, latency);
		if (i < learn)
			continue;
		if (tell_misses && config->mode == ROOFLINE_ROBUST && which != 0 &&
		    (which > 0) != v.flagged)
			printf("  %s seed %" PRIu64
			       " %s work %g %g latency %g expected %g excess %.3f "
			       "threshold %.3f %s%s\n",
			       which >= 1 ? "MISS" : "FALSE", seed0, r->key, r->work[0], r->work[1],
			       latency, v.expected_ns, v.excess, v.threshold,
			       roofline_state_name(v.state),
			       v.novel ? " novel"
			       : v.out ? " out"
				       : "");
		t->judged++;
		t->refused += v.state != ROOFLINE_READY;
		if (which >= 0) {
			t->injected[which]++;
			t->found[which] += v.flagged;
		} else {
			t->healthy++;
			t->wrong += v.flagged;
		}
	}
	free(memory);
}

static void run_once(const struct data *d, const struct roofline_config *config, double bad,
		     uint64_t seed, struct tally *t)
{
	static const struct row *rows[ROWS_MAX];
	const char *keys[KEYS_MAX];
	uint32_t key_count = 0;

	for (uint32_t i = 0; i < d->rows; i++) {
		uint32_t k = 0;

		while (k < key_count && strcmp(keys[k], d->row[i].key))
			k++;
		if (k == key_count && key_count < KEYS_MAX)
			keys[key_count++] = d->row[i].key;
	}
	for (uint32_t k = 0; k < key_count; k++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < d->rows; i++)
			if (!strcmp(d->row[i].key, keys[k]))
				rows[n++] = &d->row[i];
		for (uint32_t i = n; !d->ordered && i-- > 1;) {
			uint32_t j = (uint32_t)(uniform(&seed) * (i + 1));
			const struct row *r = rows[i];

			rows[i] = rows[j];
			rows[j] = r;
		}
		run_key(d, rows, n, config, bad, seed + k, t);
	}
}

static double percent(uint64_t a, uint64_t b)
{
	return b ? 100.0 * (double)a / (double)b : NAN;
}

static void report(const struct data *d, uint64_t seed)
{
	char drawn[64];

	snprintf(drawn, sizeof(drawn), "drawn to %" PRIu32 " per key with 1%% noise", d->resample);
	printf("\n%s: %" PRIu32 " rows, %s, seeds %" PRIu64 "..%" PRIu64 "\n", d->name, d->rows,
	       d->resample  ? drawn
	       : d->ordered ? "in time order"
			    : "each once, shuffled",
	       seed, seed + seeds - 1);
	printf("  bad    | robust: x1.2   x1.5     x2   false+  unready "
	       "| p99: x1.2   x1.5     x2   false+\n");
	for (size_t c = 0; c < sizeof(contamination) / sizeof(contamination[0]); c++) {
		struct tally t[2];

		memset(t, 0, sizeof(t));
		for (uint32_t mode = 0; mode < 2; mode++)
			for (uint32_t s = 0; s < seeds; s++) {
				struct roofline_config config;

				roofline_config_default(&config);
				config.mode = (enum roofline_mode)mode;
				config.seed = seed + s;
				run_once(d, &config, contamination[c], seed + s, &t[mode]);
			}
		printf("  %3.0f%%  |    ", 100 * contamination[c]);
		for (int f = 0; f < FACTORS; f++)
			printf("%6.1f%%", percent(t[0].found[f], t[0].injected[f]));
		printf("  %6.3f%% %6.1f%%  |", percent(t[0].wrong, t[0].healthy),
		       percent(t[0].refused, t[0].judged));
		for (int f = 0; f < FACTORS; f++)
			printf("%6.1f%%", percent(t[1].found[f], t[1].injected[f]));
		printf("  %6.3f%%\n", percent(t[1].wrong, t[1].healthy));
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void speed(void)
{
	struct roofline_config config;
	uint64_t random = 7;
	double begin, best[2] = {1e9, 1e9}, learning = 0;

	for (int round = 0; round < 5; round++)
		for (uint32_t mode = 0; mode < 2; mode++) {
			void *memory;
			struct roofline *m;
			uint32_t n = 200000;

			roofline_config_default(&config);
			config.mode = (enum roofline_mode)mode;
			memory =
			    aligned_alloc(64, (roofline_set_memory_bytes(&config, 1) + 63) & ~63ul);
			m = roofline_set_get(roofline_set_init(memory, &config, 1), 0);
			begin = seconds();
			for (uint32_t i = 0; i < 5000 + n; i++) {
				double x = uniform(&random) * 4096, work[2] = {x, i % 64};

				if (i == 5000) {
					learning = mode ? learning : seconds() - begin;
					begin = seconds();
				}
				roofline_push(m, work, 2, 1e7 + 5e3 * x + 1e5 * (i % 64));
			}
			begin = (seconds() - begin) / n * 1e9;
			best[mode] = begin < best[mode] ? begin : best[mode];
			free(memory);
		}
	printf(
	    "\ncost: %.0f ns per decision (robust, two work values, ready and frozen; best of 5), "
	    "%.1f ms in all for the first 5000 steps; p99 mode %.0f ns with its retraining\n",
	    best[0], 1e3 * learning, best[1]);
}

static const char *data_dir(void)
{
	const char *env = getenv("SYSOM_DATA");

	return env ? env : "../shared/data";
}

int main(int argc, char **argv)
{
	static const char *const splitwise_work[] = {"prompt_size", "batch_size"};
	static const char *const splitwise_key[] = {"model", "hardware", "tensor_parallel"};
	static const char *const vidur_work[] = {"num_tokens", NULL};
	static const char *const vidur_key[] = {"num_tensor_parallel_workers", NULL, NULL};
	static const char *const synthetic[] = {
	    "synthetic prefill curve, 1% noise",    "synthetic decode, skewed noise",
	    "synthetic constant work, heavy tails", "synthetic stairs, 1.5% noise",
	    "synthetic two works, 5% noise",	    "synthetic noise only: to be refused",
	};
	const char *dir = data_dir();
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	static const uint32_t drawn[] = {400, 1000, 3000};
	const char *only = argc > 3 ? argv[3] : NULL;
	struct data d = {.row = calloc(ROWS_MAX, sizeof(struct row))};

	CHECK(d.row);
	seeds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : seeds;
	bad_factor = getenv("BAD") ? atof(getenv("BAD")) : 0;
	tell_misses = getenv("MISSES") != NULL;
#define CASE(label, loading)                                                                       \
	do {                                                                                       \
		d.name = label;                                                                    \
		d.rows = 0;                                                                        \
		d.ordered = false;                                                                 \
		d.work_count = 0;                                                                  \
		memset(d.row, 0, ROWS_MAX * sizeof(struct row));                                   \
		d.resample = 0;                                                                    \
		if (only && !strstr(label, only))                                                  \
			break;                                                                     \
		if (loading) {                                                                     \
			report(&d, seed);                                                          \
			for (uint32_t k = 0; k < 3 && !d.ordered; k++) {                           \
				d.resample = drawn[k];                                             \
				report(&d, seed);                                                  \
			}                                                                          \
		} else                                                                             \
			printf("\n%s: no data under %s, skipped\n", label, dir);                   \
	} while (0)
	CASE("Splitwise prompt", load(&d, dir, "roofline-splitwise/perf_model.csv", "prompt_time",
				      splitwise_work, splitwise_key, 1e6));
	CASE("Splitwise decode", load(&d, dir, "roofline-splitwise/perf_model.csv", "token_time",
				      splitwise_work, splitwise_key, 1e6));
	CASE("Vidur A100 mlp_up_proj",
	     load(&d, dir, VIDUR "compute__a100__meta-llama__Llama-2-7b-hf__mlp.csv.gz",
		  "time_stats.mlp_up_proj.median", vidur_work, vidur_key, 1e6));
	CASE("Vidur H100 attn_pre_proj",
	     load(&d, dir, VIDUR "compute__h100__meta-llama__Llama-2-7b-hf__mlp.csv.gz",
		  "time_stats.attn_pre_proj.mean", vidur_work, vidur_key, 1e6));
	CASE("Vidur H100 mlp_down_proj",
	     load(&d, dir, VIDUR "compute__h100__meta-llama__Llama-2-7b-hf__mlp.csv.gz",
		  "time_stats.mlp_down_proj.median", vidur_work, vidur_key, 1e6));
	CASE("ByteDance compute per step, by stage", load_steps(&d, dir));
	for (unsigned kind = 0; kind < 6; kind++) {
		if (only && !strstr(synthetic[kind], only))
			continue;
		d.work_count = 2;
		synthesise(&d, kind, seed);
		d.name = synthetic[kind];
		d.ordered = false;
		d.resample = 0;
		report(&d, seed);
	}
	if (!only)
		speed();
	free(d.row);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * Recall, right rank, false flags per rank-hour and steps to detect of analysis/slow/peers, on step times
 * that carry residuals resampled from a real job's operations (1x and 3x), or made ones with heavy tails
 * and lag, with and without constant differences between healthy ranks; the paper's mode beside ours;
 * and the speed. argv[1]: seed. SYSOM_DATA: directory with straggler-bytedance/. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/robust/median.h"
#include "analysis/slow/peers.h"
#include "base/check.h"
#include "cli/trace/trace_reader.h"

#define RANKS_MAX 1024u
#define STAGES	  4
#define STEPS_MAX 512
#define STEP_NS	  100e6

static double residual[STAGES * 2 * STEPS_MAX]; /* of one rank's compute in one step */
static double constant[STAGES * 2];		/* of one rank over the whole job */
static uint32_t residuals;
static uint64_t rng;

static uint64_t next64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng * 0x2545f4914f6cdd1dull;
}

static double uniform(void)
{
	return ((double)(next64() >> 11) + 0.5) * 0x1p-53;
}

static double gauss(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* ---- the real job's residuals ---- */

struct table {
	double sum[STAGES][2][STEPS_MAX];
	long step[STEPS_MAX];
	uint32_t steps;
};

static uint32_t step_of(struct table *t, long step)
{
	uint32_t i = 0;

	while (i < t->steps && t->step[i] != step)
		i++;
	CHECK(i < STEPS_MAX);
	if (i == t->steps)
		t->step[t->steps++] = step;
	return i;
}

static int read_table(struct table *t, const char *path)
{
	struct trace_reader *c;
	struct trace_field *f;
	int n = trace_reader_open(&c, path);

	if (n)
		return n;
	trace_reader_csv(c, &f);
	while ((n = trace_reader_csv(c, &f)) > 6) {
		int dp = atoi(f[0].text), stage = atoi(f[1].text);

		if (strstr(f[4].text, "-compute") && dp < 2 && stage < STAGES)
			t->sum[stage][dp][step_of(t, atol(f[3].text))] += atof(f[6].text);
	}
	trace_reader_close(c);
	return n;
}

/* What is left of a rank's step after its own level and the step's: both medians. */
static void make_residuals(struct table *t)
{
	double level[STAGES][2], v[STEPS_MAX], all[STAGES * 2];

	for (int s = 0; s < STAGES; s++)
		for (int d = 0; d < 2; d++) {
			memcpy(v, t->sum[s][d], t->steps * sizeof(*v));
			level[s][d] = median_of(v, t->steps);
		}
	for (int s = 0; s < STAGES; s++)
		for (int d = 0; d < 2; d++)
			constant[s * 2 + d] = level[s][d] / sqrt(level[s][0] * level[s][1]) - 1;
	for (uint32_t i = 0; i < t->steps; i++) {
		for (int k = 0; k < STAGES * 2; k++)
			all[k] = t->sum[k / 2][k % 2][i] / level[k / 2][k % 2];
		double common = median_of(all, STAGES * 2);

		for (int k = 0; k < STAGES * 2; k++)
			residual[residuals++] =
			    t->sum[k / 2][k % 2][i] / level[k / 2][k % 2] / common - 1;
	}
}

/* ---- arms ---- */

enum noise { REAL, MADE };
struct arm {
	enum noise noise;
	double scale; /* of the noise: 1 or 3 */
	bool differ;  /* healthy ranks differ by constants, as the real ones do */
	uint32_t ranks, slow;
	double factor; /* of the slow ranks' self time; or */
	double add_ns; /* what they lose per step */
	uint32_t before, steps, after;
	enum peers_mode mode;
	bool late; /* add_ns is lateness, not self time */
};
struct tally {
	uint32_t trials, found, exact, wrong, at_ten;
	double steps_to, *delay, excess;
	uint32_t delays;
	double member_hours;
	int64_t first_error, last_error; /* sums of absolute */
};

static double lag[RANKS_MAX];

static double noise_of(const struct arm *a, uint32_t rank)
{
	double e, squares = 0;

	if (a->noise == REAL)
		return a->scale * residual[next64() % residuals];
	/* Student's t of 3 degrees, lag-1 correlation 0.6, standard deviation about 1% */
	for (int i = 0; i < 3; i++) {
		e = gauss();
		squares += e * e;
	}
	e = gauss() / sqrt(squares / 3);
	e = e > 30 ? 30 : e < -30 ? -30 : e;
	lag[rank] = 0.6 * lag[rank] + 0.8 * 0.006 * e;
	return a->scale * lag[rank];
}

static void steps_of(const struct arm *a, struct peers *p, const uint32_t *slow,
		     const double *level)
{
	double self[RANKS_MAX], late[RANKS_MAX];

	for (uint32_t t = 0; t < a->before + a->steps + a->after; t++) {
		double common = STEP_NS * (1 + 0.02 * gauss());
		bool on = t >= a->before && t < a->before + a->steps;

		for (uint32_t i = 0; i < a->ranks; i++) {
			self[i] = common * (1 + level[i] + noise_of(a, i));
			late[i] = fabs(0.2e6 * a->scale * gauss());
		}
		for (uint32_t k = 0; k < a->slow && on; k++) {
			if (!a->late)
				self[slow[k]] = self[slow[k]] * a->factor + a->add_ns;
			else
				late[slow[k]] += a->add_ns;
		}
		peers_push(p, t, self, a->late ? late : NULL, STEP_NS, 1);
	}
	peers_finish(p);
}

static bool is_slow(const struct arm *a, const uint32_t *slow, uint32_t member)
{
	for (uint32_t k = 0; k < a->slow; k++)
		if (slow[k] == member)
			return true;
	return false;
}

/* A flag is right when it is of a slow rank and its steps meet the fault's. */
static void score(const struct arm *a, struct peers *p, const uint32_t *slow, struct tally *y)
{
	uint64_t end = a->before + a->steps;
	bool seen[RANKS_MAX] = {false}, wrong = false, ten = true;
	uint32_t found = 0;
	struct peers_flag f;

	while (peers_next(p, &f)) {
		if (getenv("PEERS_TRACE"))
			fprintf(stderr,
				"member %u measure %d window %u steps %lu-%lu sure %lu "
				"excess %.4f score %.2f %s%s\n",
				f.member, f.measure, f.window, (unsigned long)f.first_step,
				(unsigned long)f.last_step, (unsigned long)f.sure_step, f.excess,
				f.score, f.ended ? "ended" : "open",
				is_slow(a, slow, f.member) ? "" : " WRONG");
		if (!is_slow(a, slow, f.member) || f.first_step >= end ||
		    f.last_step + 3 < a->before) {
			wrong |= true;
			continue;
		}
		if (!seen[f.member]) {
			seen[f.member] = true;
			found++;
			y->delay[y->delays++] = (double)f.sure_step - a->before + 1;
			ten &= f.sure_step + 1 <= a->before + 10;
		}
		if (f.ended) {
			y->first_error += llabs((int64_t)f.first_step - (int64_t)a->before);
			y->last_error += llabs((int64_t)f.last_step - (int64_t)end + 1);
			y->excess += f.excess;
			y->exact++;
		}
	}
	y->trials++;
	y->found += found == a->slow;
	y->at_ten += found == a->slow && ten;
	y->wrong += wrong;
}

static void run(const struct arm *a, uint32_t trials, struct tally *y)
{
	struct peers_config c;
	uint32_t slow[RANKS_MAX], order[RANKS_MAX];
	double level[RANKS_MAX];
	void *memory;

	peers_config_default(&c);
	c.mode = a->mode;
	memory = aligned_alloc(16, (peers_memory_bytes(&c, a->ranks) + 15) & ~15ul);
	*y = (struct tally){.delay = calloc((size_t)trials * (a->slow + 1) * 8, sizeof(double))};
	CHECK(memory && y->delay);
	for (uint32_t k = 0; k < trials; k++) {
		struct peers *p = peers_init(memory, &c, a->ranks);

		memset(lag, 0, sizeof(lag));
		for (uint32_t i = 0; i < a->ranks; i++) {
			order[i] = i;
			level[i] = a->differ ? constant[next64() % (STAGES * 2)] : 0;
		}
		for (uint32_t i = 0; i < a->slow; i++) {
			uint32_t j = i + (uint32_t)(next64() % (a->ranks - i)), t = order[i];

			slow[i] = order[j];
			order[j] = t;
			order[i] = slow[i];
		}
		steps_of(a, p, slow, level);
		score(a, p, slow, y);
		y->member_hours +=
		    (double)a->ranks * (a->before + a->steps + a->after) * STEP_NS / 3600e9;
	}
	free(memory);
}

static double median_delay(struct tally *y)
{
	double m = y->delays ? median_of(y->delay, y->delays) : NAN;

	free(y->delay);
	y->delay = NULL;
	return m;
}

static void faults(uint32_t trials)
{
	static const uint32_t ranks[] = {2, 4, 8, 64, 1024};
	static const double factor[] = {1.05, 1.1, 1.2, 1.5, 2};

	printf(
	    "One slow rank for 20 steps after 120 (100 ms steps). recall: found; <=10: in 10 "
	    "steps;\n"
	    "wrong: trials with a flag on a healthy rank or outside the fault; steps: median to\n"
	    "detect; begin, end: mean error\n\n");
	printf("%-22s %5s %6s | %7s %6s %6s %6s %6s %6s %7s\n", "noise", "ranks", "factor",
	       "recall", "<=10", "wrong", "steps", "begin", "end", "excess");
	for (int n = 0; n < 4; n++)
		for (size_t r = 0; r < ARRAY_LEN(ranks); r++)
			for (size_t x = 0; x < ARRAY_LEN(factor); x++) {
				struct arm a = {.noise = n < 2 ? REAL : MADE,
						.scale = n % 2 ? 3 : 1,
						.differ = n < 2,
						.ranks = ranks[r],
						.slow = 1,
						.factor = factor[x],
						.before = 120,
						.steps = 20,
						.after = 60};
				uint32_t k = ranks[r] > 64 ? trials / 10 + 1 : trials;
				struct tally y;

				if (ranks[r] == 1024 && x > 1 && x < 4)
					continue;
				run(&a, k, &y);
				printf("%-22s %5u %6.2f | %6.1f%% %5.1f%% %5.1f%%",
				       n == 0	? "real x1"
				       : n == 1 ? "real x3"
				       : n == 2 ? "t3, lag 0.6, 1%"
						: "t3, lag 0.6, 3%",
				       ranks[r], factor[x], 100.0 * y.found / y.trials,
				       100.0 * y.at_ten / y.trials, 100.0 * y.wrong / y.trials);
				printf(" %6.0f %6.1f %6.1f %6.1f%%\n", median_delay(&y),
				       y.exact ? (double)y.first_error / y.exact : NAN,
				       y.exact ? (double)y.last_error / y.exact : NAN,
				       y.exact ? 100 * y.excess / y.exact : NAN);
				fflush(stdout);
			}
}

static void several(uint32_t trials)
{
	static const struct {
		uint32_t ranks, slow, before;
	} shape[] = {
	    {8, 2, 60}, {8, 2, 0},  {8, 3, 60}, {8, 4, 60},   {8, 4, 0},
	    {8, 5, 60}, {8, 6, 60}, {8, 6, 0},	{64, 16, 60}, {64, 40, 60},
	};

	printf(
	    "\nSeveral slow ranks, x1.2 for 40 steps, real x1 and x3 with constant differences;\n"
	    "the paper's mode has 400 steps\n\n");
	printf("%5s %5s %7s | %8s %8s %7s | %s\n", "ranks", "slow", "from", "x1 all", "x3 all",
	       "wrong", "sysom mode: all, wrong");
	for (size_t i = 0; i < ARRAY_LEN(shape); i++) {
		struct arm a = {.noise = REAL,
				.scale = 1,
				.differ = true,
				.ranks = shape[i].ranks,
				.slow = shape[i].slow,
				.factor = 1.2,
				.before = shape[i].before,
				.steps = 40,
				.after = 20};
		struct tally y[3];

		run(&a, trials, &y[0]);
		a.scale = 3;
		run(&a, trials, &y[1]);
		a.scale = 1;
		a.mode = PEERS_SYSOM;
		a.steps = 400;
		run(&a, trials, &y[2]);
		for (int k = 0; k < 3; k++)
			median_delay(&y[k]);
		printf("%5u %5u %7u | %7.1f%% %7.1f%% %6.1f%% | %.1f%% %.1f%%\n", a.ranks, a.slow,
		       a.before, 100.0 * y[0].found / trials, 100.0 * y[1].found / trials,
		       100.0 * (y[0].wrong + y[1].wrong) / trials / 2, 100.0 * y[2].found / trials,
		       100.0 * y[2].wrong / trials);
		fflush(stdout);
	}
}

static void lateness(uint32_t trials)
{
	static const double ms[] = {0.3, 0.4, 0.6};

	printf("\nConstant lateness of one of 8 ranks, 100 ms steps: median steps to detect\n"
	       "(recall in 3,000)\n\n");
	printf("%6s | %-22s %-22s %-22s\n", "ms", "self time, real x1", "self time, real x3",
	       "lateness, 0.2 ms noise");
	for (size_t i = 0; i < ARRAY_LEN(ms); i++) {
		printf("%6.1f |", ms[i]);
		for (int k = 0; k < 3; k++) {
			struct arm a = {.noise = REAL,
					.scale = k == 1 ? 3 : 1,
					.ranks = 8,
					.slow = 1,
					.factor = 1,
					.add_ns = ms[i] * 1e6,
					.before = 500,
					.steps = 3000,
					.late = k == 2};
			struct tally y;
			char text[40];

			run(&a, trials, &y);
			snprintf(text, sizeof(text), "%.0f (%.0f%%, %.0f%% wrong)",
				 median_delay(&y), 100.0 * y.found / trials,
				 100.0 * y.wrong / trials);
			printf(" %-22s", text);
			fflush(stdout);
		}
		printf("\n");
	}
}

static void healthy(uint32_t trials)
{
	static const char *const title[] = {
	    "real x1",	       "real x3",	 "real x1, differing", "real x3, differing",
	    "t3, lag 0.6, 1%", "t3, lag 0.6, 3%"};
	static const uint32_t ranks[] = {2, 4, 8, 64, 1024};

	printf("\nHealthy ranks: runs with a false flag, rank-hours, false flags' rate;\n"
	       "runs with one in the paper's mode\n\n");
	for (int n = 0; n < 6; n++)
		for (size_t r = 0; r < ARRAY_LEN(ranks); r++) {
			struct arm a = {.noise = n < 4 ? REAL : MADE,
					.scale = n % 2 ? 3 : 1,
					.differ = n / 2 == 1,
					.ranks = ranks[r],
					.before = 3000};
			uint32_t k = ranks[r] > 64  ? trials / 50 + 1
				     : ranks[r] > 8 ? trials / 10 + 1
						    : trials;
			struct tally y, z;

			run(&a, k, &y);
			a.mode = PEERS_SYSOM;
			run(&a, k, &z);
			printf("%-20s %5u ranks: %4u of %4u runs, %8.0f rank-hours, %.2g/h | sysom "
			       "%u\n",
			       title[n], ranks[r], y.wrong, y.trials, y.member_hours,
			       y.wrong / y.member_hours, z.wrong);
			median_delay(&y);
			median_delay(&z);
			fflush(stdout);
		}
}

static void speed(void)
{
	static const uint32_t ranks[] = {8, 1024};

	printf("\nSpeed, healthy ranks with constant differences:\n");
	for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
		struct peers_config c;
		uint32_t n = ranks[i], steps = 4000000 / n;
		double *v = malloc(256 * (size_t)n * sizeof(*v));
		struct timespec a, b;
		struct peers *p;
		struct peers_flag f;

		peers_config_default(&c);
		p = peers_init(aligned_alloc(16, (peers_memory_bytes(&c, n) + 15) & ~15ul), &c, n);
		for (uint32_t k = 0; k < 256 * n; k++)
			v[k] = STEP_NS * (1 + residual[next64() % residuals] + constant[k % n % 8]);
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (uint32_t t = 0; t < steps; t++) {
			peers_push(p, t, v + t % 256 * n, NULL, STEP_NS, 1);
			while (peers_next(p, &f))
				;
		}
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("  %4u members: %.1f million values a second, %.1f MB\n", n,
		       (double)n * steps / 1e6 /
			   ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9),
		       (double)peers_memory_bytes(&c, n) / 1e6);
		free(p);
		free(v);
	}
}

int main(int argc, char **argv)
{
	static struct table t;
	char path[512];
	const char *data = getenv("SYSOM_DATA"), *only = argc > 2 ? argv[2] : "";
	uint32_t trials = getenv("TRIALS") ? (uint32_t)atoi(getenv("TRIALS")) : 200;

	rng = 0x9e3779b97f4a7c15ull ^ (argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
	snprintf(path, sizeof(path), "%s/straggler-bytedance/trace-ST.csv.gz", data ? data : ".");
	if (read_table(&t, path)) {
		fprintf(stderr, "bench_peers: %s: not readable\n", path);
		return 77;
	}
	make_residuals(&t);
	printf("bench-peers: seed %s, %u trials an arm, %u residuals of %u steps of a real job\n\n",
	       argc > 1 ? argv[1] : "1", trials, residuals, t.steps);
	if (!*only || strstr(only, "faults"))
		faults(trials);
	if (!*only || strstr(only, "several"))
		several(trials);
	if (!*only || strstr(only, "lateness"))
		lateness(trials / 5 + 1);
	if (!*only || strstr(only, "healthy"))
		healthy(trials);
	if (!*only || strstr(only, "speed"))
		speed();
	return 0;
}

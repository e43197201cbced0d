/* SPDX-License-Identifier: Apache-2.0
 * bench_verdict - is a confidence of 80% right in 80 of 100 cases? Jobs of eight ranks, one of
 * which has a fault by construction: windows of the culprit, of ranks that wait for it, of healthy
 * peers, and of ranks with a transient of their own, through the aggregator's incident to its verdict.
 * Strength, noise, what else goes on and which evidence is missing are drawn. One line per job: the
 * confidence, whether rank, layer and cause are right (1 or 0), the fault, what the verdict said, and
 * what was drawn; reliability.py makes the table. usage: bench_verdict [SEED [JOBS]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/incident/incident_private.h"
#include "analysis/cause/excerpt.h"
#include "base/check.h"
#include "base/daemon/log.h"
#include "model/stack.h"

#define S	1000000000ull
#define MS	1e6
#define T0	(1700000000 * S)
#define RANKS	8
#define STEPS	32u
#define KERNELS 6u
#define PID(r)	(100u + (uint32_t)(r))

enum what {
	GPU_SLOW,
	GPU_CLOCKS,
	GPU_ONE,
	GPU_OTHER,
	COPY,
	SOFTIRQ,
	RUN_QUEUE,
	CPU_LIMIT,
	LOCK,
	DISK,
	PYTHON,
	GIL,
	LOADER,
	NOT_SEEN,
	WHATS
};

static const enum finding_cause causes[WHATS] = {
    [GPU_SLOW] = CAUSE_GPU_SLOW,      [GPU_CLOCKS] = CAUSE_GPU_CLOCKS,
    [GPU_ONE] = CAUSE_GPU_KERNEL,     [GPU_OTHER] = CAUSE_GPU_VARIANT,
    [COPY] = CAUSE_GPU_COPY,	      [SOFTIRQ] = CAUSE_OS_SOFTIRQ,
    [RUN_QUEUE] = CAUSE_OS_RUN_QUEUE, [CPU_LIMIT] = CAUSE_OS_CPU_LIMIT,
    [LOCK] = CAUSE_OS_LOCK,	      [DISK] = CAUSE_STORAGE_DISK,
    [PYTHON] = CAUSE_CPU_PYTHON,      [GIL] = CAUSE_CPU_GIL,
    [LOADER] = CAUSE_STORAGE_LOADER,  [NOT_SEEN] = CAUSE_CPU_HOST_GAP,
};

/* What is drawn for a job. */
struct job {
	enum what what;
	int culprit, windows, moments;
	double lost_ms, noise_ms, kernel_noise; /* of a step of 100 ms */
	double bias_ms[RANKS];
	bool no_signals, no_stacks, no_kernels, no_peers, no_healthy;
	enum os_signal_kind other; /* goes on beside the fault, without costing it */
	double other_ms;	   /* a second; 0: nothing */
	/* what the measurement sees of what was lost; more where slack hides some of it */
	double shown;
	bool other_code; /* a function of which its launch thread has more, for free */
	double before;	 /* the part of the fault that its healthy steps have as well */
};

struct made {
	struct window w;
	struct window_step steps[STEPS];
	struct record device[STEPS * (KERNELS + 2)], host[STEPS];
	struct os_signal signals[8];
	char *names[KERNELS + 3];
};

static struct made made;
static uint64_t state;
static uint32_t next_id;

static double uniform(void)
{
	state += 0x9e3779b97f4a7c15ull;
	uint64_t z = state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

static bool chance(double p)
{
	return uniform() < p;
}

static double between(double low, double high)
{
	return low * pow(high / low, uniform());
}

static void draw(struct job *j)
{
	static const enum os_signal_kind others[] = {
	    OS_SIGNAL_SOFTIRQ_STOLEN, OS_SIGNAL_RUN_WAIT_THREAD, OS_SIGNAL_IO_WAIT_THREAD,
	    OS_SIGNAL_LOCK_PLACE};

	*j = (struct job){.what = (enum what)(uniform() * WHATS),
			  .culprit = (int)(uniform() * RANKS),
			  .windows = 1 + (int)(uniform() * 5),
			  .moments = chance(0.4) ? 1 + (int)(uniform() * 2) : 0,
			  .lost_ms = between(2, 50),
			  .noise_ms = between(0.3, 4),
			  .kernel_noise = between(0.003, 0.03),
			  .no_signals = chance(0.15),
			  .no_stacks = chance(0.2),
			  .no_kernels = chance(0.1),
			  .no_peers = chance(0.25),
			  .no_healthy = chance(0.25),
			  .other = others[(int)(uniform() * 4)],
			  .other_ms = chance(0.4) ? between(5, 200) : 0,
			  .shown = between(0.4, 3),
			  .other_code = chance(0.2)};
	for (int r = 0; r < RANKS; r++)
		j->bias_ms[r] = 0.5 * normal();
	j->before = chance(0.15) ? uniform() : 0;
}

/* ---- one window ---- */

static const double kernel_ms[KERNELS] = {18, 12, 8, 6, 4, 2};

static void name_kernels(void)
{
	static char names[KERNELS + 3][24] = {
	    "",	    "_Z4gemmIfLi128EEvT_",     "attention<128>",    "norm", "softmax", "embed",
	    "adam", "ncclDevKernel_AllReduce", "_Z4gemmIfLi64EEvT_"};

	for (uint32_t k = 0; k < KERNELS + 3; k++)
		made.names[k] = names[k];
	made.w.names = made.names;
	made.w.name_count = KERNELS + 3;
}

/* How much longer kernel k takes, the fault's share of it. */
static double kernel_extra(const struct job *j, uint32_t k, double lost_ms)
{
	if (j->what == GPU_SLOW || j->what == GPU_CLOCKS)
		return lost_ms * kernel_ms[k] / 50;
	if (j->what == GPU_ONE)
		return k == 1 ? lost_ms : 0;
	return j->what == GPU_OTHER && k == 0 ? lost_ms : 0;
}

/* The figures of a step are of what its records show. */
static void add_record(const struct job *j, uint16_t kind, uint32_t name, uint64_t launch_ns,
		       uint64_t begin_ns, double ns)
{
	if (!j->no_kernels)
		made.device[made.w.device_count++] =
		    (struct record){.kind = kind,
				    .name = name,
				    .launch_ns = launch_ns,
				    .begin_ns = begin_ns,
				    .end_ns = begin_ns + (uint64_t)ns,
				    .peer = -1};
}

/* Step i of the window from t on; lost_ms: of what the rank does itself. Returns its end. */
static uint64_t add_step(const struct job *j, int rank, uint32_t i, uint64_t t, double lost_ms,
			 double wait_ms, bool of_fault)
{
	struct window_step *s = &made.steps[i];
	double compute = 0, copy = of_fault && j->what == COPY ? lost_ms : 0,
	       own = j->bias_ms[rank] + j->noise_ms * normal() + lost_ms;
	uint64_t at = t + 5 * (uint64_t)MS;

	for (uint32_t k = 0; k < KERNELS; k++) {
		double ms = kernel_ms[k] * (1 + j->kernel_noise * normal()) +
			    (of_fault ? kernel_extra(j, k, lost_ms) : 0);
		uint64_t ns = (uint64_t)(ms * MS);

		compute += ms;
		add_record(j, RECORD_KERNEL,
			   !k && j->what == GPU_OTHER && of_fault && lost_ms >= j->lost_ms
			       ? KERNELS + 2
			       : k + 1,
			   t + 1 + k, at, (double)ns);
		at += ns;
	}
	add_record(j, RECORD_COPY, 0, at - 1, at, (1 + copy) * MS);
	made.host[made.w.host_count++] = (struct record){.kind = RECORD_LAUNCH,
							 .begin_ns = t + 1,
							 .end_ns = t + 2,
							 .thread = PID(rank),
							 .peer = -1};
	own = own < -20 ? -20 : own;
	s->step = (struct step){.index = 100 + i,
				.begin_ns = t,
				.latency_ns = (uint64_t)((100 + own + wait_ms) * MS),
				.self_ns = (uint64_t)((90 + own) * MS),
				.compute_ns = (uint64_t)(compute * MS),
				.copy_ns = (uint64_t)((1 + copy) * MS),
				.comm_ns = (uint64_t)((10 + wait_ms) * MS),
				.exposed_comm_ns = (uint64_t)((10 + wait_ms) * MS),
				.kernels = KERNELS};
	s->step.idle_ns = (uint64_t)(fmax(1, 90 + own - compute - copy - 1) * MS);
	s->step.end_ns = t + s->step.latency_ns;
	add_record(j, RECORD_COLL_KERNEL, KERNELS + 1, s->step.end_ns - s->step.exposed_comm_ns - 1,
		   s->step.end_ns - s->step.exposed_comm_ns, (double)s->step.exposed_comm_ns);
	s->expected_ns = 100 * MS;
	s->expected_self_ns = (90 + j->bias_ms[rank]) * MS;
	return s->step.end_ns;
}

static void sample(struct stack_batch *b, int rank, const char *function, uint32_t tid,
		   unsigned kind, unsigned gil, double ms)
{
	struct stack_frame f = {.kind = STACK_FRAME_PYTHON};
	uint32_t count = (uint32_t)(ms / 10 + uniform()); /* 100 Hz */
	struct stack_sample s = {.time_ns = made.w.begin_ns,
				 .weight_ns = count * 10 * (uint64_t)MS,
				 .pid = PID(rank),
				 .tid = tid,
				 .count = count,
				 .kind = (uint8_t)kind,
				 .gil = (uint8_t)gil};

	if (!count)
		return;
	CHECK(!stack_batch_string(b, function, strlen(function), &f.object));
	CHECK(!stack_batch_string(b, "/srv/train.py", 13, &f.file));
	CHECK(!stack_batch_string(b, tid == PID(rank) ? "main" : "load", 4, &s.comm));
	CHECK(!stack_batch_stack(b, &f, 1, 0, STACK_END_ROOT, &s.stack));
	CHECK(!stack_batch_sample(b, &s));
}

/* Of the whole window: its samples are not separated by step. */
static void add_stacks(const struct job *j, int rank, bool of_fault, uint32_t slow)
{
	struct stack_batch *b = &made.w.stacks;
	double lost = of_fault ? j->lost_ms * slow * j->shown : 0;
	uint32_t tid = PID(rank);

	b->begin_ns = made.w.begin_ns;
	b->end_ns = made.w.end_ns;
	sample(b, rank, "forward", tid, STACK_ON_CPU, STACK_GIL_HOLDER,
	       30 * STEPS * (1 + 0.1 * normal()));
	sample(b, rank, "backward", tid, STACK_ON_CPU, STACK_GIL_HOLDER,
	       10 * STEPS * (1 + 0.1 * normal()));
	sample(b, rank, "prefetch", PID(rank) + 50, STACK_ON_CPU, STACK_GIL_RELEASED, 5 * STEPS);
	if (of_fault && j->what == PYTHON)
		sample(b, rank, "tokenize", tid, STACK_ON_CPU, STACK_GIL_HOLDER, lost);
	if (of_fault && j->what == GIL) {
		sample(b, rank, "step", tid, STACK_OFF_CPU, STACK_GIL_WAITER, lost);
		sample(b, rank, "shuffle", PID(rank) + 50, STACK_ON_CPU, STACK_GIL_HOLDER, lost);
	}
	if (of_fault && j->what == LOADER)
		sample(b, rank, "_next_data", tid, STACK_OFF_CPU, STACK_GIL_RELEASED, lost);
	if (rank == j->culprit && j->other_code)
		sample(b, rank, "metrics", tid, STACK_ON_CPU, STACK_GIL_HOLDER,
		       3 * STEPS * uniform() * 2);
}

static void signal_of(enum os_signal_kind kind, const char *subject, double value, double usual)
{
	if (made.w.signal_count < 8)
		os_signal_make(&made.signals[made.w.signal_count++], kind, subject, value, usual,
			       100);
}

static void add_signal(enum os_signal_kind kind, double value)
{
	const char *subject = kind == OS_SIGNAL_SOFTIRQ_STOLEN ? "NET_RX from thread main on CPU 1"
			      : kind == OS_SIGNAL_LOCK_PLACE ? "d_alloc_parallel, also find (pid 7)"
			      : kind == OS_SIGNAL_THROTTLED  ? ""
							     : "main";

	if (value >= os_signal_info(kind)->notable)
		signal_of(kind, subject, value, 1);
}

static void add_signals(const struct job *j, int rank, bool of_fault, uint32_t slow)
{
	static const enum os_signal_kind kinds[WHATS] = {[SOFTIRQ] = OS_SIGNAL_SOFTIRQ_STOLEN,
							 [RUN_QUEUE] = OS_SIGNAL_RUN_WAIT_THREAD,
							 [CPU_LIMIT] = OS_SIGNAL_THROTTLED,
							 [LOCK] = OS_SIGNAL_LOCK_PLACE,
							 [DISK] = OS_SIGNAL_IO_WAIT_THREAD};
	/* means over the flagged steps, which are the last ones */
	double seconds =
	    (double)(made.w.end_ns - made.steps[slow ? STEPS - slow : 0].step.begin_ns) * 1e-9;
	double lost = j->lost_ms * slow * j->shown / seconds;

	signal_of(OS_SIGNAL_RUN_WAIT, "", 8, 7);
	signal_of(OS_SIGNAL_GPU_SM_CLOCK, "GPU 0", of_fault && j->what == GPU_CLOCKS ? 1400 : 1980,
		  1980);
	if (of_fault && (kinds[j->what] != OS_SIGNAL_SOFTIRQ_STOLEN || j->what == SOFTIRQ))
		add_signal(kinds[j->what], lost);
	if (of_fault && j->what == SOFTIRQ) /* and who is not running waits */
		add_signal(OS_SIGNAL_RUN_WAIT_THREAD, lost * uniform());
	if (rank == j->culprit && j->other_ms > 0)
		add_signal(j->other, j->other_ms * uniform());
}

static void make(const struct job *j, int rank, uint32_t reason, double begin_s)
{
	uint64_t t = (uint64_t)(begin_s * 1e9);
	bool of_fault = rank == j->culprit && reason == WINDOW_SELF;
	uint32_t healthy = !of_fault	   ? 8
			   : j->no_healthy ? 0
					   : 4 + (uint32_t)(uniform() * 8),
		 slow = 0;

	memset(&made, 0, sizeof(made));
	made.w = (struct window){.begin_ns = t,
				 .realtime_offset_ns = (int64_t)T0,
				 .reason = reason,
				 .steps = made.steps,
				 .step_count = STEPS,
				 .device = made.device,
				 .host = made.host,
				 .signals = made.signals,
				 .raw_bytes = 50000};
	next_id++;
	memcpy(made.w.id, &next_id, sizeof(next_id));
	memset(made.w.anomaly_id, rank + 1, 16);
	snprintf(made.w.rank.job, WIRE_TEXT_BYTES, "job");
	snprintf(made.w.rank.node, WIRE_TEXT_BYTES, "node-%d", rank / 4);
	made.w.rank.rank = rank;
	made.w.rank.world_size = RANKS;
	made.w.rank.pid = PID(rank);
	name_kernels();
	for (uint32_t i = 0; i < STEPS; i++) {
		bool transient = reason == WINDOW_SELF && !of_fault && i >= 8 && i < 11;
		bool hit = i >= healthy && reason != WINDOW_ASKED;
		double lost = transient ? 60 : of_fault ? j->lost_ms * (hit ? 1 : j->before) : 0;
		double wait = reason == WINDOW_COMM && hit ? j->lost_ms : 0;

		t = add_step(j, rank, i, t, lost, wait, of_fault);
		made.steps[i].flags = transient || (hit && (of_fault || reason == WINDOW_COMM))
					  ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED
					  : WINDOW_STEP_MARGIN;
		slow += hit && of_fault;
	}
	made.w.end_ns = t;
	stack_batch_init(&made.w.stacks, keyed_process());
	if (!j->no_stacks)
		add_stacks(j, rank, of_fault, slow);
	if (!j->no_signals)
		add_signals(j, rank, of_fault, slow);
}

static struct incident_change send(struct incident_set *set)
{
	struct incident_change c;
	struct digest d;

	digest_make(&made.w, 1000, &d);
	d.excerpt = excerpt_make(&made.w, NULL, NULL);
	CHECK(!incident_set_add(set, &d, d.end_unix_ns, &c));
	excerpt_drop(d.excerpt);
	stack_batch_fini(&made.w.stacks);
	return c;
}

/* ---- one job ---- */

/* The incident names the culprit and nobody else, and why. */
static bool is_right(const struct job *j, const json_t *in)
{
	const json_t *d = json_object_get(in, "diagnosis"), *ranks = json_object_get(in, "ranks");

	return json_array_size(ranks) == 1 &&
	       json_integer_value(json_array_get(ranks, 0)) == j->culprit &&
	       !strcmp(json_string_value(json_object_get(d, "cause")),
		       finding_cause_id(causes[j->what]));
}

static void play(const struct job *j)
{
	const struct incident_config config = {
	    .gap_ns = 10 * S, .silence_ns = 30 * S, .memory_ns = 3600 * S};
	struct incident_change c = {.id = ""};
	struct incident_set *set;
	const json_t *d;
	json_t *in;

	CHECK(!incident_set_open(&set, &config));
	for (int k = 0; k < j->moments; k++) {
		make(j, (j->culprit + 2 + k) % RANKS, WINDOW_SELF, 1 + 2 * k);
		send(set);
	}
	for (int k = 0; k < j->windows; k++) {
		make(j, j->culprit, WINDOW_SELF, 8 + 5 * k);
		c = send(set);
		make(j, (j->culprit + 1) % RANKS, WINDOW_COMM, 8 + 5 * k);
		send(set);
	}
	for (int r = 0; r < RANKS && !j->no_peers; r++)
		if ((r + RANKS - j->culprit) % RANKS >= 5) {
			make(j, r, WINDOW_ASKED, 8);
			send(set);
		}
	in = incident_set_json(set, c.id, RANKS, NULL);
	d = json_object_get(in, "diagnosis");
	printf(
	    "%.4f %d %s %s missing=%zu lost=%.1f noise=%.1f shown=%.2f before=%.2f other=%s:%.0f "
	    "code=%d without=%s%s%s%s%s windows=%d\n",
	    json_number_value(json_object_get(d, "confidence")), is_right(j, in),
	    finding_cause_id(causes[j->what]), json_string_value(json_object_get(d, "cause")),
	    json_array_size(json_object_get(d, "missing")), j->lost_ms, j->noise_ms, j->shown,
	    j->before, j->other_ms > 0 ? os_signal_info(j->other)->name : "", j->other_ms,
	    j->other_code, j->no_signals ? "signals," : "", j->no_stacks ? "stacks," : "",
	    j->no_kernels ? "kernels," : "", j->no_peers ? "peers," : "",
	    j->no_healthy ? "healthy," : "", j->windows);
	json_decref(in);
	incident_set_close(set);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint32_t jobs = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2000;

	for (uint32_t k = 0; k < jobs; k++) {
		struct job j;

		state = seed * 1000003 + k;
		draw(&j);
		play(&j);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * cli_incident.h - a job made up for tests of what people look at: 4 ranks on 2 nodes whose clocks stand
 * 3 ms apart, 40 steps of 20 ms; from step 16 on rank 2 enters its collective 5 ms late, since NET_RX
 * soft interrupts take its thread's CPU; in all steps it runs another variant of the gemm, 20% longer. Its
 * GPU's clock is lower than the others'.
 * Names of it attack whoever prints them. Storage is static, rebuilt by each call. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "model/window.h"

#define CLI_INCIDENT_RANKS     4
#define CLI_INCIDENT_STEPS     40
#define CLI_INCIDENT_SLOW_FROM 16
#define CLI_INCIDENT_CULPRIT   2
#define CLI_INCIDENT_LATE_NS   5000000ull
#define CLI_INCIDENT_SKEW_NS   3000000ll /* of the second node's CLOCK_REALTIME */
#define CLI_INCIDENT_BEGIN_NS  12000000000ull
#define CLI_INCIDENT_REAL_NS   1795229400000000000ll

enum {
	CLI_GEMM = 1,
	CLI_GEMM_OTHER,
	CLI_RELU,
	CLI_EVIL,
	CLI_ADAM,
	CLI_NCCL,
	CLI_FORWARD,
	CLI_BACKWARD,
	CLI_NAMES
};
static char *cli_incident_names[CLI_NAMES] = {
    (char *)"",
    (char *)"_Z4gemmIfLi128ELb1EEvPT_",
    (char *)"_Z4gemmIfLi64ELb1EEvPT_",
    (char *)"void at::native::vectorized_elementwise_kernel<4, Relu>(int, Relu)",
    (char *)"</script><img src=x onerror=\"document.title='owned'\">",
    (char *)"void multi_tensor_apply_kernel<Adam>(Adam)",
    (char *)"ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    (char *)"forward",
    (char *)"backward<script>document.title='owned'</script>",
};

struct cli_incident {
	struct window w[CLI_INCIDENT_RANKS];
	struct window_step steps[CLI_INCIDENT_RANKS][CLI_INCIDENT_STEPS];
	struct record host[CLI_INCIDENT_RANKS][CLI_INCIDENT_STEPS * 16];
	struct record device[CLI_INCIDENT_RANKS][CLI_INCIDENT_STEPS * 16];
	struct os_signal signals[CLI_INCIDENT_RANKS][5];
};

static inline struct record *cli_incident_host(struct window *w, unsigned kind, uint64_t begin_ns,
					       uint64_t end_ns, uint32_t name)
{
	struct record *r = &w->host[w->host_count++];

	*r = (struct record){.kind = (uint16_t)kind,
			     .begin_ns = begin_ns,
			     .end_ns = end_ns,
			     .name = name,
			     .thread = w->rank.pid,
			     .peer = -1};
	return r;
}

/* A launch and its kernel. */
static inline uint64_t cli_incident_kernel(struct window *w, uint64_t launch_ns, uint64_t begin_ns,
					   uint64_t ns, uint32_t name)
{
	struct record *d = &w->device[w->device_count++];
	struct record *h = cli_incident_host(w, RECORD_LAUNCH, launch_ns, launch_ns + 4000, name);

	*d = (struct record){.kind = RECORD_KERNEL,
			     .begin_ns = begin_ns,
			     .end_ns = begin_ns + ns,
			     .launch_ns = launch_ns,
			     .name = name,
			     .stream = 7,
			     .peer = -1,
			     .grid = {64, 1, 1},
			     .block = {128, 1, 1}};
	h->correlation = d->correlation = w->device_count;
	h->stream = 7;
	return d->end_ns;
}

/* All ranks leave the collective at end_ns; returns when the rank's own work was done. */
static inline uint64_t cli_incident_step(struct window *w, uint64_t t, uint64_t late_ns,
					 uint64_t end_ns, uint32_t index)
{
	bool culprit = w->rank.rank == CLI_INCIDENT_CULPRIT;
	uint32_t gemm = culprit ? CLI_GEMM_OTHER : CLI_GEMM;
	uint64_t gemm_ns = culprit ? 1200000 : 1000000, at = t + 400000;
	struct record *h, *d;

	cli_incident_host(w, RECORD_SPAN, t + 100000, t + 2000000, CLI_FORWARD);
	for (unsigned i = 0; i < 4; i++)
		at = cli_incident_kernel(w, t + 200000 + i * 100000, at, gemm_ns, gemm);
	at = cli_incident_kernel(w, t + 700000, at, 500000, CLI_RELU);
	cli_incident_host(w, RECORD_SPAN, t + 2100000, t + 4000000, CLI_BACKWARD);
	at += late_ns;
	for (unsigned i = 0; i < 4; i++)
		at = cli_incident_kernel(w, t + 2200000 + i * 100000, at, gemm_ns, gemm);
	at = cli_incident_kernel(w, t + 2700000, at, 300000, CLI_EVIL);
	h = cli_incident_host(w, RECORD_COLL, t + 3000000, t + 3010000, 0);
	d = &w->device[w->device_count++];
	*d = (struct record){.kind = RECORD_COLL_KERNEL,
			     .begin_ns = at,
			     .end_ns = end_ns - 1000000,
			     .launch_ns = h->begin_ns,
			     .name = CLI_NCCL,
			     .stream = 8,
			     .peer = -1,
			     .func = RECORD_COLL_ALL_REDUCE,
			     .key = 0xfeed,
			     .seq = index,
			     .bytes = 1 << 20};
	h->func = d->func;
	h->key = d->key;
	h->seq = d->seq;
	h->bytes = d->bytes;
	cli_incident_kernel(w, t + 3100000, end_ns - 900000, 800000, CLI_ADAM);
	return at;
}

static inline uint32_t cli_incident_text(struct stack_batch *b, const char *s)
{
	uint32_t i = 0;

	stack_batch_string(b, s, strlen(s), &i);
	return i;
}

/* names leaf first; kernel: of the first ones. */
static inline void cli_incident_sample(struct stack_batch *b, uint32_t pid, uint64_t t,
				       const char *const *names, uint32_t count, uint32_t kernel,
				       uint32_t samples, enum stack_sample_kind kind)
{
	struct stack_frame f[8] = {{0}};
	struct stack_sample s = {.time_ns = t,
				 .pid = pid,
				 .tid = pid,
				 .count = samples,
				 .weight_ns = samples * 1010101ull,
				 .kind = (uint8_t)kind};

	for (uint32_t i = 0; i < count; i++) {
		f[i].kind = i < kernel ? STACK_FRAME_KERNEL : STACK_FRAME_PYTHON;
		f[i].object = cli_incident_text(b, names[i]);
		f[i].file = i < kernel ? 0 : cli_incident_text(b, "/srv/job/train.py");
		f[i].line = i < kernel ? 0 : 10 + i;
	}
	s.comm = cli_incident_text(b, "python3");
	stack_batch_stack(b, f, count, kernel, STACK_END_ROOT, &s.stack);
	stack_batch_sample(b, &s);
}

static inline void cli_incident_stacks(struct window *w)
{
	static const char *const compute[] = {"launch_all", "train_step", "main"};
	static const char *const load[] = {"copy_user_generic", "read_batch", "train_step", "main"};
	static const char *const evil[] = {"\"><svg onload=alert(1)>", "train_step", "main"};
	static const char *const wait[] = {"schedule", "synchronize", "train_step", "main"};
	static const char *const irq[] = {"tcp_v4_rcv", "net_rx_action", "__do_softirq",
					  "launch_all", "train_step",	 "main"};
	bool culprit = w->rank.rank == CLI_INCIDENT_CULPRIT;

	stack_batch_init(&w->stacks, keyed_process());
	w->stacks.begin_ns = w->begin_ns;
	w->stacks.end_ns = w->end_ns;
	for (uint64_t t = w->begin_ns; t < w->end_ns; t += 100000000) {
		cli_incident_sample(&w->stacks, w->rank.pid, t, compute, 3, 0, 50, STACK_ON_CPU);
		cli_incident_sample(&w->stacks, w->rank.pid, t, load, 4, 1, 20, STACK_ON_CPU);
		cli_incident_sample(&w->stacks, w->rank.pid, t, evil, 3, 0, 5, STACK_ON_CPU);
		cli_incident_sample(&w->stacks, w->rank.pid, t, wait, 4, 1, culprit ? 5 : 20,
				    STACK_OFF_CPU);
		if (culprit)
			cli_incident_sample(&w->stacks, w->rank.pid, t, irq, 6, 3, 15,
					    STACK_ON_CPU);
	}
}

static inline void cli_incident_switch(struct window *w, uint64_t out_ns, uint64_t ns,
				       enum stack_switch_state state)
{
	struct stack_switch s = {.out_ns = out_ns,
				 .in_ns = out_ns + ns,
				 .pid = w->rank.pid,
				 .tid = w->rank.pid,
				 .count = 1,
				 .stack = STACK_SWITCH_NO_STACK,
				 .state = (uint8_t)state};

	s.ns[state] = ns;
	stack_batch_switch(&w->stacks, &s);
}

static inline uint32_t cli_incident_signals(struct os_signal *s, int rank)
{
	bool culprit = rank == CLI_INCIDENT_CULPRIT;
	char gpu[40];

	snprintf(gpu, sizeof(gpu), "GPU %d", rank % 2);
	os_signal_make(&s[0], OS_SIGNAL_GPU_TEMPERATURE, gpu, culprit ? 83 : 61, 60, 25);
	os_signal_make(&s[1], OS_SIGNAL_GPU_POWER, gpu, culprit ? 402 : 640, 640, 25);
	strcat(gpu, " (at most 1980 MHz)");
	os_signal_make(&s[2], OS_SIGNAL_GPU_SM_CLOCK, gpu, culprit ? 1410 : 1965, 1970, 25);
	if (culprit)
		os_signal_make(&s[3], OS_SIGNAL_SOFTIRQ_STOLEN,
			       "NET_RX from thread python3<b> on CPU 1", 250, 2, 25);
	return culprit ? 4 : 3;
}

static inline void cli_incident_rank(struct cli_incident *c, int rank)
{
	struct window *w = &c->w[rank];
	bool culprit = rank == CLI_INCIDENT_CULPRIT;
	uint64_t t = CLI_INCIDENT_BEGIN_NS;

	memset(w, 0, sizeof(*w));
	memset(w->id, 0xa0 + rank, sizeof(w->id));
	strcpy(w->rank.job, "demo");
	snprintf(w->rank.node, sizeof(w->rank.node), "node-%d", rank / 2);
	strcpy(w->rank.program, "train.py");
	w->rank.rank = rank;
	w->rank.world_size = CLI_INCIDENT_RANKS;
	w->rank.pid = 4000 + (uint32_t)rank;
	w->realtime_offset_ns = CLI_INCIDENT_REAL_NS + (rank / 2) * CLI_INCIDENT_SKEW_NS;
	w->begin_ns = t;
	w->reason = culprit ? WINDOW_SELF : WINDOW_ASKED;
	w->model_state = 1;
	w->model_r2 = 0.98;
	w->steps = c->steps[rank];
	w->host = c->host[rank];
	w->device = c->device[rank];
	w->names = cli_incident_names;
	w->name_count = CLI_NAMES;
	w->signals = c->signals[rank];
	w->signal_count = cli_incident_signals(w->signals, rank);
	for (uint32_t i = 0; i < CLI_INCIDENT_STEPS; i++) {
		bool slow = i >= CLI_INCIDENT_SLOW_FROM;
		uint64_t ns =
		    20000000 + (slow ? CLI_INCIDENT_LATE_NS : 0) + (i * 7919 % 13) * 20000;
		uint64_t done =
		    cli_incident_step(w, t, culprit && slow ? CLI_INCIDENT_LATE_NS : 0, t + ns, i);
		struct window_step *s = &w->steps[w->step_count++];

		memset(s, 0, sizeof(*s));
		s->step = (struct step){.index = 100 + i,
					.begin_ns = t,
					.end_ns = t + ns,
					.latency_ns = ns,
					.self_ns = done - t + 1000000,
					.compute_ns = culprit ? 11200000 : 9600000,
					.exposed_comm_ns = t + ns - 1000000 - done,
					.idle_ns = culprit && slow ? CLI_INCIDENT_LATE_NS : 400000,
					.kernels = 12,
					.launches = 12,
					.source = STEP_SOURCE_AUTO,
					.work = {900 + i * 7919 % 13 * 20},
					.work_count = 1};
		s->expected_ns = 20000000 + (i * 7919 % 13) * 20000;
		s->expected_self_ns = culprit ? 13000000 : 11000000;
		s->excess = (double)ns / s->expected_ns - 1;
		s->self_excess = (double)s->step.self_ns / s->expected_self_ns - 1;
		s->flags =
		    slow && culprit ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED : WINDOW_STEP_MARGIN;
		t += ns;
	}
	w->end_ns = t;
	cli_incident_stacks(w);
	/* of which a part is seen: the thread waits for the CPU, then for a lock */
	for (uint32_t i = CLI_INCIDENT_SLOW_FROM; culprit && i < CLI_INCIDENT_STEPS; i++) {
		uint64_t at = w->steps[i].step.begin_ns + 2740000;

		cli_incident_switch(w, at, 3000000, STACK_SWITCH_RUNNABLE);
		cli_incident_switch(w, at + 3100000, 1000000, STACK_SWITCH_INTERRUPTIBLE);
	}
}

static inline struct cli_incident *cli_incident_make(void)
{
	static struct cli_incident c;

	for (int r = 0; r < CLI_INCIDENT_RANKS; r++)
		stack_batch_fini(&c.w[r].stacks);
	memset(&c, 0, sizeof(c));
	for (int r = 0; r < CLI_INCIDENT_RANKS; r++)
		cli_incident_rank(&c, r);
	return &c;
}

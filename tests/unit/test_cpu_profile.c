/* SPDX-License-Identifier: Apache-2.0
 * Stacks made by hand; what is made of healthy steps beside them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/cause/diagnosis.h"
#include "base/limits.h"
#include "sidecar/stacks/cpu_profile.h"

#define S  1000000000ull
#define MS 1000000ull
#define T0 (5000 * S)

struct frame {
	uint8_t kind;
	const char *name; /* native: file */
	uint64_t address;
};

static void add_stack(struct stack_batch *b, uint64_t t, uint32_t pid, uint32_t tid, uint8_t kind,
		      uint8_t gil, uint64_t weight_ns, uint32_t count, const struct frame *frames,
		      uint32_t n)
{
	struct stack_frame f[16] = {{0}};
	struct stack_sample s = {.time_ns = t,
				 .weight_ns = weight_ns,
				 .pid = pid,
				 .tid = tid,
				 .count = count,
				 .kind = kind,
				 .gil = gil};
	uint32_t kernel = 0;

	for (uint32_t i = 0; i < n; i++) {
		f[i].kind = frames[i].kind;
		f[i].address = frames[i].address;
		if (frames[i].kind == STACK_FRAME_NATIVE)
			stack_batch_object(b, NULL, 0, frames[i].name, &f[i].object);
		else
			stack_batch_string(b, frames[i].name, strlen(frames[i].name), &f[i].object);
		kernel += frames[i].kind == STACK_FRAME_KERNEL;
	}
	assert_int_equal(stack_batch_stack(b, f, n, kernel, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(b, &s), 0);
}

static uint32_t root_of(void *arg, uint32_t pid)
{
	return pid == 101 ? 100 : pid == 100 || pid == 200 ? pid : 0;
}

static const struct sketch_function *find(const struct sketch *s, uint32_t kind, const char *name)
{
	for (uint32_t i = 0; i < s->function_count; i++)
		if (s->functions[i].kind == kind && !strcmp(s->functions[i].name, name))
			return &s->functions[i];
	return NULL;
}

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)
#define MAIN                                                                                       \
	{                                                                                          \
		STACK_FRAME_NATIVE, "/usr/bin/train", 0x1010                                       \
	}
#define LOOP                                                                                       \
	{                                                                                          \
		STACK_FRAME_PYTHON, "train_loop", 0                                                \
	}
#define FWD                                                                                        \
	{                                                                                          \
		STACK_FRAME_PYTHON, "forward", 0                                                   \
	}
#define GEMM                                                                                       \
	{                                                                                          \
		STACK_FRAME_NATIVE, "/lib/libblas.so", 0x20ff                                      \
	}
#define GEMM2                                                                                      \
	{                                                                                          \
		STACK_FRAME_NATIVE, "/lib/libblas.so", 0x2abc                                      \
	} /* the same page */
#define WAIT                                                                                       \
	{                                                                                          \
		STACK_FRAME_KERNEL, "futex_wait", 0                                                \
	}

static void shares_are_of_the_ranks_time(void **unused)
{
	static const struct frame busy[] = {GEMM, FWD, LOOP, MAIN}, other[] = {GEMM2, LOOP, MAIN},
				  again[] = {FWD, FWD, FWD, LOOP, MAIN},
				  asleep[] = {WAIT, LOOP, MAIN};
	struct normal_when when = {.threads = {11},
				   .thread_count = 1,
				   .spans = {{T0 + 5 * S, T0 + 6 * S}},
				   .span_count = 1};
	struct cpu_profile_rank ranks[] = {{100, T0, T0 + 10 * S, &when},
					   {200, T0, T0 + 10 * S, &when}};
	struct cpu_profile_options o = {.proc_root = "/proc"};
	struct sketch s = {.latency_ns = 90e6}; /* 9 s of healthy time: 100 steps */
	const struct sketch_function *f;
	struct cpu_profile *p;
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	b.begin_ns = T0 - 5 * S;
	b.end_ns = T0 + 10 * S;
	add_stack(&b, T0 + S, 100, 11, STACK_ON_CPU, 0, 600 * MS, 60, busy, 4);
	add_stack(&b, T0 + S, 101, 12, STACK_ON_CPU, 0, 300 * MS, 30, other, 3); /* its child */
	add_stack(&b, T0 + 2 * S, 100, 11, STACK_ON_CPU, STACK_GIL_WAITER, 100 * MS, 10, again, 5);
	add_stack(&b, T0 + 2 * S, 100, 11, STACK_OFF_CPU, STACK_GIL_WAITER, 500 * MS, 1, asleep, 3);
	add_stack(&b, T0 + 2 * S, 100, 99, STACK_OFF_CPU, 0, 900 * MS, 1, asleep,
		  3); /* launches nothing */
	add_stack(&b, T0 + 5 * S + 1, 100, 11, STACK_ON_CPU, 0, S, 100, busy, 4); /* flagged then */
	add_stack(&b, T0 - S, 100, 11, STACK_ON_CPU, 0, S, 100, busy, 4);	  /* before it */
	add_stack(&b, T0 + S, 300, 31, STACK_ON_CPU, 0, S, 100, busy, 4); /* somebody else */
	assert_int_equal(cpu_profile_open(&p, &o), 0);
	assert_int_equal(cpu_profile_begin(p, ranks, 2), 0);
	assert_int_equal(cpu_profile_add(p, &b, root_of, NULL), 0);
	assert_int_equal(cpu_profile_take(p, 0, &s), 0);
	NEAR(s.cpu_ns, 10e6);
	NEAR(s.samples, 100);
	NEAR(s.off_ns, 5e6);
	NEAR(s.gil_wait_ns, 6e6);
	f = find(&s, FUNCTION_PYTHON, "train_loop");
	assert_non_null(f);
	NEAR(f->total_share, 1);
	NEAR(f->self_share, 0);
	NEAR(f->off_ns, 5e6);
	f = find(&s, FUNCTION_PYTHON, "forward");
	NEAR(f->total_share, 0.7); /* recursion counts once */
	NEAR(f->self_share, 0.1);
	f = find(&s, FUNCTION_NATIVE, "libblas.so+0x2000");
	assert_non_null(f);
	NEAR(f->self_share, 0.9);
	f = find(&s, FUNCTION_KERNEL, "futex_wait");
	NEAR(f->total_share, 0);
	NEAR(f->off_ns, 5e6);
	assert_int_equal(s.function_count, 5);
	NEAR(s.functions[0].total_share, 1); /* largest first */
	wire_sketch_free(&s);
	assert_int_equal(cpu_profile_take(p, 1, &s), 0);
	assert_int_equal(s.function_count, 0);
	wire_sketch_free(&s);
	stack_batch_fini(&b);
	cpu_profile_close(p);
}

static __attribute__((noinline)) int named_function(int x)
{
	return x * 3 + 1;
}

/* The address of a function of this program, as its file has it. */
static uint64_t own_address(char *path, size_t bytes)
{
	unsigned long long begin, end, offset,
	    want = (unsigned long long)(uintptr_t)&named_function;
	char line[512], file[400];
	FILE *f = fopen("/proc/self/maps", "re");
	uint64_t found = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %399s", &begin, &end, &offset, file) ==
			4 &&
		    want >= begin && want < end) {
			found = want - begin + offset;
			snprintf(path, bytes, "%s", file);
		}
	if (f)
		fclose(f);
	return found;
}

static uint32_t own_root(void *arg, uint32_t pid)
{
	return pid == (uint32_t)getpid() ? pid : 0;
}

static void names_a_native_function_by_its_file(void **unused)
{
	struct normal_when when = {0};
	struct cpu_profile_rank rank = {(uint32_t)getpid(), T0, T0 + S, &when};
	struct cpu_profile_options o = {.proc_root = "/proc", .resolve = true};
	struct cpu_profile_stats st;
	struct frame frame = {STACK_FRAME_NATIVE, NULL, 0};
	char path[512] = "";
	struct cpu_profile *p;
	struct stack_batch b;

	assert_int_equal(named_function(2), 7);
	frame.address = own_address(path, sizeof(path));
	frame.name = path;
	assert_true(frame.address > 0);
	assert_int_equal(cpu_profile_open(&p, &o), 0);
	for (int round = 0; round < 2; round++) {
		struct sketch s = {.latency_ns = 1e6};

		stack_batch_init(&b, keyed_process());
		b.begin_ns = T0;
		b.end_ns = T0 + S;
		add_stack(&b, T0, rank.pid, 1, STACK_ON_CPU, 0, MS, 1, &frame, 1);
		assert_int_equal(cpu_profile_begin(p, &rank, 1), 0);
		assert_int_equal(cpu_profile_add(p, &b, own_root, NULL), 0);
		assert_int_equal(cpu_profile_take(p, 0, &s), 0);
		assert_int_equal(s.function_count, 1);
		assert_string_equal(s.functions[0].name, "named_function");
		wire_sketch_free(&s);
		stack_batch_fini(&b);
	}
	cpu_profile_stats_get(p, &st);
	assert_int_equal(st.named, 1); /* the second round knew it */
	assert_int_equal(st.unnamed, 0);
	cpu_profile_close(p);
}

/* ---- normal ---- */

static const char *name_of(void *arg, uint32_t id)
{
	static const char *const names[] = {"", "gemm", "ncclDevKernel_AllReduce", "relu"};

	return id < 4 ? names[id] : "";
}

static void push(struct normal *n, uint64_t i, uint64_t latency_ns, uint32_t flags, bool used)
{
	struct window_step ws = {.flags = flags};
	struct step_kernel k[] = {{.name = 1, .count = 4, .total_ns = 4000 + i % 2},
				  {.name = 2, .count = 1, .total_ns = 9000},
				  {.name = 0, .count = 9, .total_ns = 99999}};

	ws.step = (struct step){.index = i,
				.begin_ns = T0 + i * 100 * MS,
				.end_ns = T0 + (i + 1) * 100 * MS,
				.latency_ns = latency_ns,
				.self_ns = latency_ns / 2,
				.compute_ns = 7,
				.comm_ns = 6,
				.exposed_comm_ns = 5,
				.copy_ns = 4,
				.idle_ns = 3,
				.launches = 14};
	normal_step(n, &ws, used, k, 3);
}

static void gives_medians_of_healthy_steps_and_when_they_were_not(void **unused)
{
	struct normal_when when;
	struct sketch s = {0};
	struct normal *n;

	assert_int_equal(normal_open(&n), 0);
	for (uint64_t i = 0; i < 21; i++)
		push(n, i, 100 + i, 0, true); /* 100 to 120 */
	for (uint64_t i = 21; i < 24; i++)
		push(n, i, 1000000, WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT, true);
	push(n, 24, 1000000, WINDOW_STEP_OUT, true);
	push(n, 25, 1000000, 0, false);
	push(n, 26, 1000000, WINDOW_STEP_FLAGGED, false);
	for (uint32_t i = 0; i < 100; i++) {
		struct record r = {.kind = RECORD_LAUNCH, .thread = i < 80 ? 7 : i < 92 ? 8 : 9};

		normal_host(n, &r);
	}
	assert_int_equal(normal_steps(n), 27);
	assert_int_equal(normal_take(n, name_of, NULL, &s, &when), 0);
	assert_int_equal(s.steps, 27);
	assert_int_equal(s.flagged, 4);
	NEAR(s.latency_ns, 110);
	NEAR(s.latency_mad_ns, 5);
	NEAR(s.self_ns, 55);
	NEAR(s.compute_ns + s.comm_ns + s.exposed_comm_ns + s.copy_ns + s.idle_ns, 25);
	NEAR(s.launches, 14);
	assert_int_equal(s.begin_ns, T0);
	assert_int_equal(s.end_ns, T0 + 27 * 100 * MS);
	assert_int_equal(s.kernel_count, 2);
	assert_string_equal(s.kernels[0].name, "ncclDevKernel_AllReduce"); /* the largest first */
	NEAR(s.kernels[0].ns_per_step, 9000);
	NEAR(s.kernels[1].per_step, 4);
	NEAR(s.kernels[1].ns_per_step, 4000 + 10.0 / 21);
	assert_int_equal(when.healthy, 21);
	assert_int_equal(when.span_count, 2);
	assert_int_equal(when.spans[0].begin_ns, T0 + 21 * 100 * MS);
	assert_int_equal(when.spans[0].end_ns, T0 + 24 * 100 * MS);
	assert_int_equal(when.spans[1].begin_ns, T0 + 26 * 100 * MS);
	assert_int_equal(when.thread_count, 2); /* the third launches less than a tenth */
	assert_int_equal(normal_steps(n), 0);
	wire_sketch_free(&s);
	memset(&s, 0, sizeof(s));
	push(n, 30, 50, 0, true);
	assert_int_equal(normal_take(n, name_of, NULL, &s, &when), 0);
	NEAR(s.latency_ns, 50); /* nothing of before */
	assert_int_equal(when.span_count, 0);
	wire_sketch_free(&s);
	normal_close(n);
}

static void many_steps_and_kernels_stay_within_their_room(void **unused)
{
	struct normal_when when;
	struct sketch s = {0};
	struct normal *n;

	assert_int_equal(normal_open(&n), 0);
	for (uint64_t i = 0; i < 100001; i++) {
		struct window_step ws = {.flags = i % 3 ? 0 : WINDOW_STEP_FLAGGED};
		struct step_kernel k = {
		    .name = 4 + (uint32_t)(i % 5000), .count = 1, .total_ns = 10};

		ws.step.begin_ns = T0 + i * 1000;
		ws.step.end_ns = ws.step.begin_ns + 500;
		ws.step.latency_ns = 1000 + i % 100;
		normal_step(n, &ws, true, &k, 1);
	}
	assert_int_equal(normal_take(n, name_of, NULL, &s, &when), 0);
	assert_int_equal(s.kernel_count, 0); /* none has a name */
	assert_true(s.kernels_cut > 0);
	assert_true(fabs(s.latency_ns - 1049.5) < 10);
	assert_int_equal(when.span_count, NORMAL_SPANS_MAX);
	wire_sketch_free(&s);
	normal_close(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shares_are_of_the_ranks_time),
	    cmocka_unit_test(names_a_native_function_by_its_file),
	    cmocka_unit_test(gives_medians_of_healthy_steps_and_when_they_were_not),
	    cmocka_unit_test(many_steps_and_kernels_stay_within_their_room),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

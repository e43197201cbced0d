/* SPDX-License-Identifier: Apache-2.0
 * Two ledgers made by hand, of healthy and of slow steps, and the verdict of their difference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cause/diagnosis.h"
#include "base/check.h"

#define MS    1000000ull
#define STEPS 20u

struct world {
	struct ledger slow, usual;
	struct os_signal signal[4];
	struct diagnosis_rank rank;
	enum finding_kind kind;
	enum finding_cause known;
	double scale, before_ms;	/* before_ms: by which other healthy steps are slow */
	double kernels, kernels_before; /* 0: not known */
	double less_ms;			/* by which the kernels of other healthy steps take less */
	/* by name, of one window; the earlier one had other work */
	struct diagnosis_kernel named[3], named_before[3];
	uint32_t named_count;
};

static struct diagnosis out;

/* ms: of each step. */
static void both(struct world *w, enum ledger_kind kind, enum ledger_what what, const char *name,
		 double usual_ms, double slow_ms, uint64_t usual_count, uint64_t slow_count)
{
	ledger_charge(&w->usual, kind, what, name, (uint64_t)(usual_ms * MS * w->scale) * STEPS,
		      usual_count * STEPS);
	ledger_charge(&w->slow, kind, what, name, (uint64_t)(slow_ms * MS * w->scale) * STEPS,
		      slow_count * STEPS);
}

/* Steps of 100 ms: 50 of kernels, 10 of a collective, 40 of a host that runs and waits a little. */
static void healthy(struct world *w)
{
	static const char *const gemm[] = {"gemm_a<<<8,1,1, 256,1,1>>>",
					   "gemm_b<<<8,1,1, 256,1,1>>>",
					   "norm<<<64,1,1, 256,1,1>>>"};

	both(w, LEDGER_COLLECTIVE, 0, "AllReduce", 10, 10, 2, 2);
	for (int i = 0; i < 2; i++)
		both(w, LEDGER_COMPUTE, 0, gemm[i], 20, 20, 10, 10);
	both(w, LEDGER_COMPUTE, 0, gemm[2], 10, 10, 10, 10);
	both(w, LEDGER_RUNNING, LEDGER_PYTHON, "step (train.py)", 30, 30, 0, 0);
	both(w, LEDGER_RUNNABLE, 0, "", 1, 1, 0, 0);
	both(w, LEDGER_BLOCKED, LEDGER_FILE_READ, "load (train.py)", 7, 7, 3, 3);
	both(w, LEDGER_UNOBSERVED, 0, "", 2, 2, 0, 0);
}

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	ledger_init(&w->slow);
	ledger_init(&w->usual);
	w->slow.steps = w->usual.steps = STEPS;
	w->kind = FINDING_SLOW_RANK;
	w->scale = 1;
	healthy(w);
}

static void signal_add(struct world *w, enum os_signal_kind kind, const char *subject, double value,
		       double usual)
{
	os_signal_make(&w->signal[w->rank.signal_count++], kind, subject, value, usual, 120);
}

/* Of one rank, or of two that have the same. */
static void judge_all(struct world *w, uint32_t suspects)
{
	const double step_ns = (double)ledger_sum(&w->slow) / STEPS;
	struct diagnosis_rank who[2];
	struct diagnosis_input in = {
	    .kind = w->kind, .suspect = who, .suspect_count = suspects, .known = w->known};
	struct diagnosis_rank before = {.steps = STEPS,
					.step_ns = (100 + w->before_ms) * 1e6 * w->scale,
					.self_ns = (90 + w->before_ms) * 1e6 * w->scale,
					.compute_ns = (50 - w->less_ms) * 1e6 * w->scale,
					.idle_ns = 40e6 * w->scale,
					.kernels = w->kernels_before,
					.kernel = w->named_before,
					.kernel_count = w->named_count,
					.off_ns = -1,
					.gil_wait_ns = -1};

	w->rank.rank = 5;
	w->rank.steps = STEPS;
	w->rank.step_ns = step_ns;
	w->rank.self_ns = step_ns - 10e6 * w->scale;
	w->rank.compute_ns = 50e6 * w->scale;
	w->rank.kernels = w->kernels;
	w->rank.kernel = w->named;
	w->rank.kernel_count = w->named_count;
	w->rank.idle_ns = step_ns - 60e6 * w->scale;
	w->rank.off_ns = w->rank.gil_wait_ns = -1;
	w->rank.signal = w->signal;
	w->rank.ledger = &w->slow;
	w->rank.usual = &w->usual;
	w->rank.usual_is_own = true;
	in.before = &before;
	who[0] = who[1] = w->rank;
	who[1].rank = 6;
	diagnosis_make(&in, &out);
}

static void judge(struct world *w)
{
	judge_all(w, 1);
}

/* A rank whose code runs longer and whose launching thread waits longer for a CPU. */
static void runs_and_waits(struct world *w, double runs_ms, double waits_ms)
{
	begin(w);
	both(w, LEDGER_RUNNING, LEDGER_PYTHON, "step (train.py)", 0, runs_ms, 0, 0);
	both(w, LEDGER_RUNNABLE, LEDGER_NONE, "", 0, waits_ms, 0, 0);
	judge_all(w, 1);
}

static void end(struct world *w)
{
	ledger_fini(&w->slow);
	ledger_fini(&w->usual);
}

/* An account that is 20 ms longer in slow steps. */
static const struct fault {
	enum ledger_kind kind;
	enum ledger_what what;
	const char *name;
	enum finding_cause cause, of_all; /* of one rank; where every rank has it */
	const char *said;		  /* in the summary */
} faults[] = {
    {LEDGER_RUNNING, LEDGER_PYTHON, "augment (train.py)", CAUSE_CPU_PYTHON, CAUSE_SW_HOT_PATH,
     "augment (train.py)"},
    /* beside 30 ms of Python's */
    {LEDGER_RUNNING, LEDGER_NONE, "lzma_code (liblzma.so.5) at line 7 of load (train.py)",
     CAUSE_CPU_FUNCTION, CAUSE_SW_HOT_PATH,
     "lzma_code (liblzma.so.5) at line 7 of load (train.py) takes longer"},
    {LEDGER_RUNNING, LEDGER_LOGGING, "Logger.debug (__init__.py)", CAUSE_SW_LOGGING,
     CAUSE_SW_LOGGING, "it writes logs in Logger.debug"},
    {LEDGER_RUNNING, LEDGER_LOADER, "next_batch (d.py)", CAUSE_STORAGE_LOADER, CAUSE_STORAGE_LOADER,
     "next_batch"},
    {LEDGER_RUNNING, LEDGER_STORAGE_CLIENT, "BZ2_bzDecompress", CAUSE_STORAGE_CLIENT,
     CAUSE_STORAGE_CLIENT, "BZ2_bzDecompress"},
    {LEDGER_KERNEL_CODE, LEDGER_PAGE_FAULT, "touch (train.py)", CAUSE_OS_FAULTS, CAUSE_OS_FAULTS,
     "page faults of touch"},
    {LEDGER_KERNEL_CODE, LEDGER_RECLAIM, "touch (train.py)", CAUSE_OS_MEMORY, CAUSE_OS_MEMORY,
     "frees memory"},
    {LEDGER_KERNEL_CODE, LEDGER_NUMA, "touch (train.py)", CAUSE_OS_NUMA, CAUSE_OS_NUMA, "NUMA"},
    {LEDGER_KERNEL_CODE, LEDGER_KERNEL_LOCK, "open (train.py)", CAUSE_OS_LOCK, CAUSE_OS_LOCK,
     "lock in the kernel"},
    {LEDGER_STOLEN, LEDGER_NET_RX, "", CAUSE_OS_SOFTIRQ, CAUSE_OS_SOFTIRQ, "soft interrupts"},
    {LEDGER_STOLEN, LEDGER_DEVICE, "", CAUSE_OS_IRQ, CAUSE_OS_IRQ, "interrupts run"},
    {LEDGER_RUNNABLE, 0, "stress", CAUSE_OS_RUN_QUEUE, CAUSE_OS_RUN_QUEUE, "taken by stress"},
    {LEDGER_RUNNABLE, 0, "", CAUSE_OS_RUN_QUEUE, CAUSE_OS_RUN_QUEUE, "wait for a CPU ("},
    {LEDGER_STOPPED, LEDGER_SIGNAL, "", CAUSE_OS_STOPPED, CAUSE_OS_STOPPED, "it was stopped"},
    {LEDGER_BLOCKED, LEDGER_GIL, "run (train.py)", CAUSE_CPU_GIL, CAUSE_CPU_GIL, "GIL"},
    {LEDGER_BLOCKED, LEDGER_LOCK, "acquire (t.py)", CAUSE_CPU_LOCK, CAUSE_CPU_LOCK,
     "another thread in acquire"},
    {LEDGER_BLOCKED, LEDGER_LIBC_LOCK, "collate (t.py)", CAUSE_CPU_LOCK, CAUSE_CPU_LOCK,
     "lock of the C library (heap or stdio), in collate"},
    {LEDGER_BLOCKED, LEDGER_FILE_LOCK, "flock (t.py)", CAUSE_CPU_LOCK, CAUSE_CPU_LOCK, "file lock"},
    {LEDGER_BLOCKED, LEDGER_CHILD, "run (t.py)", CAUSE_CPU_PROCESS, CAUSE_CPU_PROCESS,
     "child process in run"},
    {LEDGER_BLOCKED, LEDGER_PIPE_READ, "get (t.py)", CAUSE_CPU_PROCESS, CAUSE_CPU_PROCESS, "pipe"},
    {LEDGER_BLOCKED, LEDGER_TERMINAL_READ, "cmdloop (cmd.py)", CAUSE_CPU_PROCESS, CAUSE_CPU_PROCESS,
     "input from a terminal"},
    {LEDGER_BLOCKED, LEDGER_SLEEP, "nap (t.py)", CAUSE_CPU_SLEEP, CAUSE_CPU_SLEEP,
     "it sleeps in nap"},
    {LEDGER_BLOCKED, LEDGER_SLEEP, "", CAUSE_CPU_SLEEP, CAUSE_CPU_SLEEP, "it sleeps ("},
    {LEDGER_BLOCKED, LEDGER_DRIVER, "", CAUSE_CPU_HOST_GAP, CAUSE_CPU_HOST_GAP,
     "in calls of the CUDA driver"},
    {LEDGER_BLOCKED, LEDGER_PIPE_WRITE, "log (t.py)", CAUSE_SW_OUTPUT, CAUSE_SW_OUTPUT,
     "a reader of its output, in log"},
    {LEDGER_BLOCKED, LEDGER_SOCKET, "recv (t.py)", CAUSE_NET_WAIT, CAUSE_NET_WAIT, "socket"},
    {LEDGER_BLOCKED, LEDGER_FILE_SYNC, "save (t.py)", CAUSE_STORAGE_SYNC, CAUSE_STORAGE_SYNC,
     "on the disk, in save"},
    {LEDGER_BLOCKED, LEDGER_FILE_READ, "load (t.py)", CAUSE_STORAGE_DISK, CAUSE_STORAGE_DISK,
     "waits for storage in load"},
    {LEDGER_BLOCKED, LEDGER_DISK_LIMIT, "load (t.py)", CAUSE_STORAGE_LIMIT, CAUSE_STORAGE_LIMIT,
     "I/O limit"},
    {LEDGER_BLOCKED, LEDGER_MEMORY_LIMIT, "load (t.py)", CAUSE_OS_MEMORY, CAUSE_OS_MEMORY,
     "memory"},
    {LEDGER_BLOCKED, LEDGER_LOADER, "__next__ (dataloader.py)", CAUSE_STORAGE_LOADER,
     CAUSE_STORAGE_LOADER, "data loader in __next__"},
    {LEDGER_BLOCKED, LEDGER_LOGGING, "Handler.acquire (__init__.py)", CAUSE_SW_LOGGING,
     CAUSE_SW_LOGGING, "logs to be written, in Handler.acquire"},
    {LEDGER_KERNEL_CODE, LEDGER_FILE_SYNC, "save (t.py)", CAUSE_STORAGE_SYNC, CAUSE_STORAGE_SYNC,
     "writes its files to the disk, in save"},
    {LEDGER_BLOCKED, LEDGER_SYSCALL, "membarrier() of reclaim (t.py)", CAUSE_CPU_HOST_GAP,
     CAUSE_CPU_HOST_GAP, "blocked in a system call: membarrier() of reclaim (t.py)"},
    {LEDGER_BLOCKED, 0, "somewhere", CAUSE_CPU_HOST_GAP, CAUSE_CPU_HOST_GAP, ""},
    {LEDGER_QUEUED, 0, "", CAUSE_GPU_QUEUE, CAUSE_GPU_QUEUE, "launched work starts late"},
};

static void an_account_that_grew_is_the_cause(void **unused)
{
	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		for (int all = 0; all < 2; all++) {
			const struct fault *f = &faults[i];
			enum finding_cause cause = all ? f->of_all : f->cause;
			struct world w;

			begin(&w);
			w.kind = all ? FINDING_UNIFORM : FINDING_SLOW_RANK;
			both(&w, f->kind, f->what, f->name, 1, 21, 1, 1);
			judge(&w);
			if (out.cause != cause || !strstr(out.summary, f->said) ||
			    fabs(out.effect_ns - 20e6) > 1e3)
				fail_msg("fault %zu: %s (%.1f ms), not %s: %s", i,
					 finding_cause_id(out.cause), out.effect_ns / 1e6,
					 finding_cause_id(cause), out.summary);
			if (cause == CAUSE_CPU_HOST_GAP && !f->what ? out.confidence > 0.8
								    : out.confidence < 0.9)
				fail_msg("fault %zu: confidence %.2f: %s", i, out.confidence,
					 out.summary);
			end(&w);
		}
}

/* A hand-over between threads: the calls of the kernel that its code makes take longer than itself. */
static void code_that_calls_the_kernel_has_the_language_of_its_user_code(void **unused)
{
	for (int python = 0; python < 2; python++) {
		struct world w;

		begin(&w);
		w.usual.count = w.slow.count = 0; /* nothing of Python's but this */
		both(&w, LEDGER_COMPUTE, 0, "gemm", 40, 40, 1, 1);
		both(&w, LEDGER_KERNEL_CODE, LEDGER_SYSCALL, "hand_over (t.py)", 0, 20, 0, 0);
		both(&w, LEDGER_RUNNING, python ? LEDGER_PYTHON : LEDGER_NONE, "hand_over (t.py)",
		     0, 6, 0, 0);
		judge(&w);
		assert_int_equal(out.cause, python ? CAUSE_CPU_PYTHON : CAUSE_CPU_FUNCTION);
		end(&w);
	}
}

/* Many small copies that are waited for one by one, and the code that makes them. */
static void only_an_unobserved_host_gap_stands_behind_smaller_causes(void **unused)
{
	for (int seen = 0; seen < 2; seen++) {
		struct world w;

		begin(&w);
		if (seen)
			both(&w, LEDGER_BLOCKED, LEDGER_DRIVER, "", 0, 13, 8, 225);
		else
			both(&w, LEDGER_UNOBSERVED, 0, "", 0, 13, 0, 0);
		both(&w, LEDGER_RUNNING, LEDGER_PYTHON, "read_metrics (t.py)", 0, 5, 0, 0);
		judge(&w);
		assert_int_equal(out.cause, seen ? CAUSE_CPU_HOST_GAP : CAUSE_CPU_PYTHON);
		assert_int_equal(!!strstr(out.summary, "it waits in calls of the CUDA driver"),
				 seen);
		end(&w);
	}
}

static void waits_in_the_driver_are_explained_by_a_setting_of_cuda(void **unused)
{
	static const struct diagnosis_setting blocking[] = {{"env:CUDA_LAUNCH_BLOCKING", "1"},
							    {"torch", "2.1"}},
					      usual[] = {{"env:CUDA_LAUNCH_BLOCKING", NULL},
							 {"torch", "2.1"}};
	const struct diagnosis_rank peer = {
	    .steps = STEPS, .setting = usual + 1, .setting_count = 1};
	const struct diagnosis_rank peers[] = {peer, peer};

	for (int sleeps = 0; sleeps < 2; sleeps++) {
		struct diagnosis_input in = {
		    .kind = FINDING_SLOW_RANK, .suspect_count = 1, .peer = peers, .peer_count = 2};
		struct world w;

		begin(&w);
		both(&w, LEDGER_BLOCKED, sleeps ? LEDGER_SLEEP : LEDGER_DRIVER, "", 1, 21, 1, 1);
		judge(&w); /* fills in the rank */
		w.rank.setting = blocking;
		w.rank.setting_count = 2;
		in.suspect = &w.rank;
		diagnosis_make(&in, &out);
		assert_int_equal(out.cause, sleeps ? CAUSE_CPU_SLEEP : CAUSE_SW_ENVIRONMENT);
		assert_int_equal(!strstr(out.summary, "env:CUDA_LAUNCH_BLOCKING is 1"), sleeps);
		end(&w);
	}
}

static void of_two_ranks_it_is_said_in_the_plural(void **unused)
{
	static const char *const singular[] = {" it ", " its ", " it ("};

	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		struct world w;

		begin(&w);
		both(&w, faults[i].kind, faults[i].what, faults[i].name, 1, 21, 1, 1);
		judge_all(&w, 2);
		assert_int_equal(out.cause, faults[i].cause);
		for (size_t k = 0; k < ARRAY_LEN(singular); k++)
			if (strstr(out.summary, singular[k]))
				fail_msg("fault %zu: %s", i, out.summary);
		assert_non_null(strstr(out.summary, "ranks 5 and 6 are slow because "));
		end(&w);
	}
}

static bool has_any(const char *text, const char *const *words)
{
	while (*words && !strstr(text, *words))
		words++;
	return *words;
}

/* Of all accounts, those too that no fault above lengthens. */
static void every_account_has_both_numbers(void **unused)
{
	static const char *const singular[] = {" it ", " its ", " it:", NULL}, *const plural[] = {
										   " they ",
										   " their ",
										   " them", NULL};
	static const char *const of[][2] = {
#define ACCOUNT(kind, first, last, cause, by, one, many, joint) {" " one ":", " " many ":"},
#include "analysis/cause/accounts.def"
#undef ACCOUNT
	};

	for (size_t i = 0; i < ARRAY_LEN(of); i++)
		if (has_any(of[i][0], plural) || has_any(of[i][1], singular) ||
		    has_any(of[i][0], singular) != has_any(of[i][1], plural))
			fail_msg("account %zu:%s%s", i, of[i][0], of[i][1]);
}

static void a_signal_without_an_excess_in_its_account_is_no_cause(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_BLOCKED, LEDGER_SLEEP, "nap (t.py)", 0, 20, 0, 1);
	signal_add(&w, OS_SIGNAL_THROTTLED, "", 900, 0);
	signal_add(&w, OS_SIGNAL_IO_WAIT_THREAD, "main", 900, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_SLEEP);
	assert_true(out.confidence > 0.95);
	end(&w);
}

/* 900 ms/s of a step of 120 ms are more than the 20 ms by which the account grew. */
static void a_signal_explains_the_account_that_it_lengthens(void **unused)
{
	static const struct {
		enum os_signal_kind kind;
		const char *subject;
		enum ledger_kind account;
		enum ledger_what what;
		enum finding_cause cause, without;
	} cases[] = {
	    {OS_SIGNAL_THROTTLED, "", LEDGER_RUNNABLE, 0, CAUSE_OS_CPU_LIMIT, CAUSE_OS_RUN_QUEUE},
	    {OS_SIGNAL_IO_LIMIT, "reads of vda (1 MB/s)", LEDGER_BLOCKED, LEDGER_SLEEP,
	     CAUSE_CPU_SLEEP, CAUSE_CPU_SLEEP},
	    {OS_SIGNAL_STEAL, "", LEDGER_RUNNING, LEDGER_PYTHON, CAUSE_OS_STEAL, CAUSE_CPU_PYTHON},
	    {OS_SIGNAL_LOCK_PLACE, "walk_component in path_lookupat, also find (pid 7)",
	     LEDGER_KERNEL_CODE, LEDGER_FILE_SYSTEM, CAUSE_OS_LOCK, CAUSE_CPU_PYTHON},
	    {OS_SIGNAL_THROTTLED, "", LEDGER_BLOCKED, 0, CAUSE_OS_CPU_LIMIT, CAUSE_CPU_HOST_GAP},
	    {OS_SIGNAL_REFAULTS, "64 MB", LEDGER_BLOCKED, LEDGER_FILE_FAULT, CAUSE_OS_MEMORY,
	     CAUSE_STORAGE_DISK},
	    {OS_SIGNAL_FILE_LOCK, "download (pid 900)", LEDGER_BLOCKED, LEDGER_FILE_LOCK,
	     CAUSE_CPU_LOCK, CAUSE_CPU_LOCK},
	    {OS_SIGNAL_REFAULTS, "64 MB", LEDGER_KERNEL_CODE, LEDGER_PAGE_FAULT, CAUSE_OS_MEMORY,
	     CAUSE_OS_FAULTS},
	    {OS_SIGNAL_REFAULTS, "64 MB", LEDGER_BLOCKED, LEDGER_SLEEP, CAUSE_CPU_SLEEP,
	     CAUSE_CPU_SLEEP},
	    {OS_SIGNAL_IO_WAIT_THREAD, "main", LEDGER_BLOCKED, LEDGER_FILE_SYNC, CAUSE_STORAGE_SYNC,
	     CAUSE_STORAGE_SYNC},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (int with = 0; with < 2; with++) {
			struct world w;

			begin(&w);
			both(&w, cases[i].account, cases[i].what, "f", 0, 20, 0, 1);
			if (with)
				signal_add(&w, cases[i].kind, cases[i].subject, 900, 0);
			judge(&w);
			if (out.cause != (with ? cases[i].cause : cases[i].without))
				fail_msg("case %zu, %s: %s: %s", i, with ? "with" : "without",
					 finding_cause_id(out.cause), out.summary);
			assert_true(out.effect_ns < 20.01e6);
			end(&w);
		}
}

static enum finding_cause cause_with(enum ledger_kind account, enum ledger_what what,
				     enum os_signal_kind kind, const char *subject)
{
	struct world w;

	begin(&w);
	both(&w, account, what, "f", 0, 20, 0, 1);
	if (kind != OS_SIGNAL_KINDS)
		signal_add(&w, kind, subject, 900, 0);
	judge(&w);
	end(&w);
	return out.cause;
}

/* Reports say which accounts each signal lengthens. This compares every signal with every account. */
static void a_signal_that_changes_the_cause_lengthens_the_account(void **unused)
{
	static const struct {
		enum ledger_kind account;
		enum ledger_what what;
	} of[] = {
#define ACCOUNT(kind, first, last, cause, by, one, many, joint) {LEDGER_##kind, LEDGER_##first},
#include "analysis/cause/accounts.def"
#undef ACCOUNT
	};
	uint64_t changed = 0; /* kinds of signals that changed a cause */

	for (unsigned k = 0; k < OS_SIGNAL_KINDS; k++)
		for (size_t i = 0; i < ARRAY_LEN(of); i++) {
			const char *subject = k == OS_SIGNAL_PRESSURE ? "memory" : "main";
			uint64_t causes = diagnosis_signal_causes(os_signal_info(k)->name, subject);

			if (cause_with(of[i].account, of[i].what, k, subject) ==
			    cause_with(of[i].account, of[i].what, OS_SIGNAL_KINDS, ""))
				continue;
			changed |= 1ull << k;
			if (!diagnosis_causes_lengthen(causes, ledger_kind_name(of[i].account),
						       ledger_what_id(of[i].what)))
				fail_msg("%s, account %zu: %s", os_signal_info(k)->name, i,
					 finding_cause_id(out.cause));
		}
	assert_true(__builtin_popcountll(changed) >= 15);
}

/* The kernel counts waits for storage, whatever they are for. */
static void waits_for_storage_have_the_cause_of_their_accounts(void **unused)
{
	for (int sync = 0; sync < 2; sync++) {
		struct world w;

		begin(&w);
		both(&w, LEDGER_BLOCKED, sync ? LEDGER_FILE_SYNC : LEDGER_STORAGE, "save (t.py)", 0,
		     3, 0, 10);
		both(&w, LEDGER_UNOBSERVED, 0, "", 0, 20, 0, 0);
		signal_add(&w, OS_SIGNAL_IO_WAIT_THREAD, "main", 170, 0);
		judge(&w);
		assert_int_equal(out.cause, sync ? CAUSE_STORAGE_SYNC : CAUSE_STORAGE_DISK);
		end(&w);
	}
}

/* Of 20 ms a signal of 50 ms/s explains 6: the account keeps 14. */
static void a_signal_explains_no_more_than_its_own_time(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_RUNNABLE, 0, "stress", 0, 20, 0, 0);
	signal_add(&w, OS_SIGNAL_THROTTLED, "", 50, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_RUN_QUEUE);
	assert_float_equal(out.effect_ns, 14e6, 0.2e6);
	assert_float_equal(out.confidence, 0.885, 0.02); /* of 14 / 20 */
	end(&w);
}

/* An fsync waits for more than the device. */
static void a_wait_for_a_sync_is_no_limit_because_the_disk_is_fast(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_BLOCKED, LEDGER_FILE_SYNC, "save (train.py)", 0, 20, 0, 1);
	signal_add(&w, OS_SIGNAL_IO_WAIT_THREAD, "python3", 170, 0);
	signal_add(&w, OS_SIGNAL_IO_LATENCY, "", 0.6, 0.6);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_STORAGE_SYNC);
	end(&w);
}

/* Switches show 20 ms, the signal 6 of them. Both say the same, so the verdict is no less sure. */
static void a_wait_for_a_cpu_names_the_task_that_the_signal_knows(void **unused)
{
	struct world w;
	double alone;

	begin(&w);
	w.rank.launch_thread = "python3";
	both(&w, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "", 0, 20, 0, 0);
	judge(&w);
	alone = out.confidence;
	signal_add(&w, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 50, 0);
	signal_add(&w, OS_SIGNAL_CPU_HOG, "cc1 (pid 9)", 40, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_RUN_QUEUE);
	assert_float_equal(out.effect_ns, 20e6, 0.2e6);
	assert_non_null(strstr(out.summary, "taken by cc1 (pid 9)"));
	assert_true(out.confidence >= alone);
	end(&w);
}

/* A library's own thread carries the collective, and does not get its CPU. */
static void a_collective_on_the_cpu_waits_for_a_thread_without_a_cpu(void **unused)
{
	for (int signal = 0; signal < 2; signal++) {
		struct world w;

		begin(&w);
		both(&w, LEDGER_BLOCKED, LEDGER_HOST_COLLECTIVE, "all_reduce (comm.py)", 0, 20, 0,
		     1);
		if (signal)
			signal_add(&w, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 150, 0);
		judge(&w);
		assert_int_equal(out.cause, signal ? CAUSE_OS_RUN_QUEUE : CAUSE_NET_WAIT);
		end(&w);
	}
}

static void larger_launches_are_more_work_and_not_slower_kernels(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_COMPUTE, 0, "attention<<<8,1,1, 256,1,1>>>", 20, 0, 10, 0);
	both(&w, LEDGER_COMPUTE, 0, "attention<<<16,1,1, 256,1,1>>>", 0, 40, 0, 10);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_IMBALANCE_INPUT);
	end(&w);
}

/* Each step has other work. With a spread of 30 ms, four steps may have 20 ms more by chance; with one of
 * 3 ms they don't. */
static void more_work_in_a_few_steps_of_uneven_work_is_chance(void **unused)
{
	for (int even = 0; even < 2; even++) {
		double spread_ns = (even ? 3 : 30) * (double)MS;
		struct world w;

		begin(&w);
		both(&w, LEDGER_COMPUTE, 0, "attention<<<8,1,1, 256,1,1>>>", 20, 0, 10, 0);
		both(&w, LEDGER_COMPUTE, 0, "attention<<<16,1,1, 256,1,1>>>", 0, 40, 0, 10);
		both(&w, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "", 2, 14, 0, 0);
		w.slow.seen = 4;
		w.slow.compute_squares =
		    (double)w.slow.steps * (90e6 * 90e6 + spread_ns * spread_ns);
		judge(&w);
		assert_int_equal(out.cause, even ? CAUSE_IMBALANCE_INPUT : CAUSE_OS_RUN_QUEUE);
		end(&w);
	}
}

/* Every fourth step has more micro-batches: the median step launches as many kernels as before. */
static void more_launches_in_some_steps_are_more_work(void **unused)
{
	struct world w;

	begin(&w);
	w.kernels = w.kernels_before = 40;
	both(&w, LEDGER_COMPUTE, 0, "attention<<<8,1,1, 256,1,1>>>", 20, 25, 16, 20);
	both(&w, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "", 2, 4, 0, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_IMBALANCE_INPUT);
	assert_non_null(strstr(out.summary, "50 compute kernels per step, 46 before"));
	end(&w);
}

/* In fewer threads, and slower: no more work is done. */
static void smaller_launches_that_take_longer_are_a_variant(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_COMPUTE, 0, "attention<<<1024,1,1, 256,1,1>>>", 20, 0, 10, 0);
	both(&w, LEDGER_COMPUTE, 0, "attention<<<96,1,1, 256,1,1>>>", 0, 40, 0, 10);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_GPU_VARIANT);
	end(&w);
}

/* The slow steps launch one configuration more often and another one less, and a window of earlier
 * steps had half of the work. Neither makes the other kernels slower, nor hides how much slower the
 * slow one is: the ledger has both sides of each configuration. */
static void kernels_are_compared_where_the_work_is_the_same(void **unused)
{
	static const char *const names[] = {"gemm_a", "gemm_b", "norm"};
	struct world w;

	begin(&w);
	both(&w, LEDGER_COMPUTE, 0, "gemm_a<<<8,1,1, 256,1,1>>>", 0, 40, 0, 0);
	both(&w, LEDGER_COMPUTE, 0, "gemm_a<<<16,1,1, 256,1,1>>>", 8, 48, 2, 4);
	for (int i = 0; i < 3; i++) {
		w.named[i] = (struct diagnosis_kernel){
		    .name = names[i], .count = 10, .total_ns = (i ? 20 : 108) * 1e6};
		w.named_before[i] =
		    (struct diagnosis_kernel){.name = names[i], .count = 10, .total_ns = 10e6};
	}
	w.named_count = 3;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_GPU_KERNEL);
	/* 20 ms and 4 launches of 4 ms would have taken 36 */
	assert_non_null(strstr(out.summary, "kernel gemm_a takes 3.00 times as long as before"));
	for (uint32_t i = 0; i < out.evidence_count; i++)
		assert_null(strstr(out.evidence[i].text, "compute kernels take"));
	end(&w);
}

/* The slow steps are those with an optimizer, and no healthy step of the ledger is. A window has one. */
static void a_kernel_of_other_steps_is_compared_by_name(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_COMPUTE, 0, "lamb<<<320,1,1, 512,1,1>>>", 0, 60, 0, 1);
	w.named[0] = (struct diagnosis_kernel){.name = "lamb", .count = 1, .total_ns = 60e6};
	w.named_before[0] = (struct diagnosis_kernel){.name = "lamb", .count = 1, .total_ns = 20e6};
	w.named_count = 1;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_GPU_KERNEL);
	assert_non_null(strstr(out.summary, "kernel lamb takes 3.00 times as long as before"));
	end(&w);
}

/* In 8 of 10 launches, as some slow steps have another reason; in 3, as no step is known as slow. */
static void a_variant_in_some_of_the_slow_steps_is_a_variant(void **unused)
{
	for (int less = 0; less < 2; less++) {
		uint64_t runs = less ? 3 : 8;
		struct world w;

		begin(&w);
		both(&w, LEDGER_COMPUTE, 0, "void flash<128>(half*)<<<8,1,1, 256,1,1>>>", 10,
		     10 - (double)runs, 10, 10 - runs);
		both(&w, LEDGER_COMPUTE, 0, "void flash<64>(half*)<<<8,1,1, 256,1,1>>>", 0,
		     4 * (double)runs, 0, runs);
		judge(&w);
		assert_int_equal(out.cause, CAUSE_GPU_VARIANT);
		assert_float_equal(out.effect_ns, 3e6 * (double)runs, 0.1e6);
		assert_non_null(strstr(out.summary,
				       "rank 5 is slow because kernel void flash<64>(half*) runs "
				       "in place of void flash<128>(half*) (before)"));
		end(&w);
	}
}

/* Sequences of uneven length: each side launches sizes of its own, and the time grows with the square
 * of the size. Half as long again for their sizes: the GPU is slower. As long as their sizes take:
 * more work. */
static void launches_of_uneven_sizes_are_held_against_their_sizes(void **unused)
{
	for (int slower = 0; slower < 2; slower++) {
		struct world w;

		begin(&w);
		for (int kernel = 0; kernel < 3; kernel++)
			for (int i = 0; i < 12; i++) {
				int size = i % 2 ? 100 + 10 * i : (slower ? 105 : 115) + 10 * i;
				double ms = size * size * 1e-5 * (kernel + 1);
				char name[64];

				snprintf(name, sizeof(name), "%s<<<%d,1,1, 256,1,1>>>",
					 kernel == 0   ? "attention"
					 : kernel == 1 ? "gemm"
						       : "softmax",
					 size);
				if (i % 2)
					both(&w, LEDGER_COMPUTE, 0, name, ms, 0, 1, 0);
				else
					both(&w, LEDGER_COMPUTE, 0, name, 0,
					     ms * (slower ? 1.5 : 1.0), 0, 1);
			}
		if (slower) {
			both(&w, LEDGER_COMPUTE, 0, "gemm_a<<<8,1,1, 256,1,1>>>", 0, 10, 0, 0);
			both(&w, LEDGER_COMPUTE, 0, "gemm_b<<<8,1,1, 256,1,1>>>", 0, 10, 0, 0);
			both(&w, LEDGER_COMPUTE, 0, "norm<<<64,1,1, 256,1,1>>>", 0, 5, 0, 0);
		} else {
			both(&w, LEDGER_COMPUTE, 0, "attention<<<180,1,1, 256,1,1>>>", 0, 4, 0, 12);
		}
		judge(&w);
		if (out.cause != (slower ? CAUSE_GPU_SLOW : CAUSE_IMBALANCE_INPUT))
			fail_msg("%s: %s", slower ? "slower" : "more work", out.summary);
		end(&w);
	}
}

/* As many sizes as steps, and few healthy ones: more rows than are looked at. */
static void rows_of_the_reference_are_not_crowded_out(void **unused)
{
	struct world w;
	char name[64];

	(void)unused;
	begin(&w);
	for (int kernel = 0; kernel < 3; kernel++)
		for (int i = 0; i < 200; i++) {
			int size = 100 + 2 * i;
			double ms = size * size * 1e-6 * (kernel + 1);

			snprintf(name, sizeof(name), "k%d<<<%d,1,1, 256,1,1>>>", kernel, size);
			both(&w, LEDGER_COMPUTE, 0, name, 0, ms * 1.5, 0, 1);
			snprintf(name, sizeof(name), "k%d<<<%d,1,1, 256,1,1>>>", kernel, size + 1);
			if (i % 20 == 10)
				both(&w, LEDGER_COMPUTE, 0, name, ms * 20, 0, 20, 0);
		}
	judge(&w);
	if (out.cause != CAUSE_GPU_SLOW)
		fail_msg("%s", out.summary);
	end(&w);
}

static void all_times_longer_change_nothing_but_the_times(void **unused)
{
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		struct diagnosis first;

		for (int k = 0; k < 2; k++) {
			struct world w;

			begin(&w);
			end(&w);
			w.slow = w.usual = (struct ledger){.steps = STEPS};
			w.scale = k ? 7 : 1;
			healthy(&w);
			both(&w, faults[i].kind, faults[i].what, faults[i].name, 1, 21, 1, 1);
			judge(&w);
			if (!k)
				first = out;
			end(&w);
		}
		assert_int_equal(out.cause, first.cause);
		assert_float_equal(out.effect_ns, 7 * first.effect_ns, 1e4);
		assert_float_equal(out.confidence, first.confidence, 1e-6);
	}
}

/* What is taken out of an account that explains, and is then not observed, makes nobody surer. */
static void less_seen_is_never_surer(void **unused)
{
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		double last = 1;

		for (int seen = 20; seen >= 0; seen -= 2) {
			struct world w;

			begin(&w);
			both(&w, faults[i].kind, faults[i].what, faults[i].name, 1, 1 + seen, 1, 1);
			both(&w, LEDGER_UNOBSERVED, 0, "", 0, 20 - seen, 0, 0);
			judge(&w);
			if (out.by_ledger && out.cause == faults[i].cause &&
			    faults[i].cause != CAUSE_CPU_HOST_GAP) {
				assert_true(out.confidence <= last + 1e-9);
				last = out.confidence;
			}
			end(&w);
		}
	}
}

/* It waits in collectives for somebody else: nothing that it did itself. */
static void waiting_in_collectives_is_no_cause_of_a_slow_rank(void **unused)
{
	const char *network = "";
	struct world w;

	begin(&w);
	both(&w, LEDGER_COLLECTIVE, 0, "AllReduce", 0, 15, 0, 0);
	both(&w, LEDGER_COLLECTIVE, LEDGER_LAST_RANK, "AllReduce", 0, 25, 0, 0);
	both(&w, LEDGER_BLOCKED, LEDGER_SLEEP, "nap (t.py)", 0, 4, 0, 1);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_SLEEP);
	assert_float_equal(out.effect_ns, 4e6, 1e3);
	assert_non_null(strstr(out.summary, " (4.0 of 44.0 ms more per step than when healthy)"));
	for (uint32_t i = 0; i < out.ruled_out_count; i++)
		if (out.ruled_out[i].layer == LAYER_NETWORK)
			network = out.ruled_out[i].text;
	/* the table's figures */
	assert_string_equal(network, "collectives take 50.0 ms per step, 10.0 ms when healthy");
	end(&w);
}

/* 8 ms of sleep and 12 in system calls are one read; in another function they are two things. */
static void system_calls_between_waits_for_storage_are_io(void **unused)
{
	for (int same = 0; same < 2; same++) {
		struct world w;

		begin(&w);
		both(&w, LEDGER_BLOCKED, LEDGER_FILE_READ, "load (train.py)", 0, 8, 0, 3);
		both(&w, LEDGER_KERNEL_CODE, LEDGER_FILE_SYSTEM,
		     same ? "load (train.py)" : "scan (train.py)", 0, 6, 0, 0);
		both(&w, LEDGER_KERNEL_CODE, LEDGER_SYSCALL,
		     same ? "fadvise64() of load (train.py)" : "scan (train.py)", 0, 6, 0, 0);
		judge(&w);
		assert_int_equal(out.cause, same ? CAUSE_STORAGE_DISK : CAUSE_CPU_PYTHON);
		assert_float_equal(out.effect_ns, same ? 20e6 : 12e6, 1e3);
		end(&w);
	}
}

/* Opening cached files is work, even if one of a thousand waits for the disk. And a function that
 * wrote a little before it read much waits for its reads, though the stacks of these were not seen. */
static void the_longest_wait_decides_what_its_system_calls_are(void **unused)
{
	for (int reads = 0; reads < 2; reads++) {
		struct world w;

		begin(&w);
		both(&w, LEDGER_BLOCKED, reads ? LEDGER_FILE_SYNC : LEDGER_FILE_READ,
		     "scan (train.py)", 0, 1, 0, 1);
		both(&w, LEDGER_BLOCKED, LEDGER_FILE_READ, "", 0, reads ? 5 : 0, 0, 4);
		both(&w, LEDGER_KERNEL_CODE, LEDGER_FILE_SYSTEM, "scan (train.py)", 0, 12, 0, 0);
		both(&w, LEDGER_KERNEL_CODE, LEDGER_SYSCALL, "openat() of scan (train.py)", 0, 7, 0,
		     0);
		judge(&w);
		assert_int_equal(out.cause, reads ? CAUSE_STORAGE_DISK : CAUSE_CPU_PYTHON);
		end(&w);
	}
}

/* Functions that call each other are one account of the rank's code together. */
static void what_a_function_hands_to_another_is_no_excess(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_RUNNING, LEDGER_PYTHON, "old (t.py)", 20, 0, 0, 0);
	both(&w, LEDGER_RUNNING, LEDGER_PYTHON, "new (t.py)", 0, 20, 0, 0);
	both(&w, LEDGER_BLOCKED, LEDGER_SLEEP, "nap (t.py)", 0, 5, 0, 1);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_SLEEP);
	assert_true(out.confidence > 0.95);
	end(&w);
}

/* On a busy machine each sleep is followed by a wait for a CPU: ten times as many sleeps, ten times
 * as many waits. And with longer waits than before it is the CPU's users'. */
static void waits_for_a_cpu_belong_to_what_asks_for_it(void **unused)
{
	for (int longer = 0; longer < 2; longer++) {
		struct world w;

		begin(&w);
		both(&w, LEDGER_RUNNABLE, LEDGER_WOKEN, "", 3, longer ? 60 : 30, 0, 0);
		both(&w, LEDGER_BLOCKED, LEDGER_FILE_SYNC, "save (t.py)", 0, 5, 0, longer ? 1 : 27);
		judge(&w);
		assert_int_equal(out.cause, longer ? CAUSE_OS_RUN_QUEUE : CAUSE_STORAGE_SYNC);
		assert_float_equal(out.effect_ns, longer ? 56e6 : 32e6, 0.1e6);
		assert_true(longer || strstr(out.evidence[0].text, "27 waits, 0 when healthy"));
		end(&w);
	}
}

/* After each of 23 syncs, which were not there before, the thread waits for a CPU much longer than after
 * its usual sleeps. But these do not take longer than before, unless others use the CPUs. */
static void waits_for_a_cpu_belong_to_the_sleeps_before_them(void **unused)
{
	for (int busy = 0; busy < 2; busy++) {
		struct world w;

		begin(&w);
		both(&w, LEDGER_BLOCKED, LEDGER_SLEEP, "nap (t.py)", 1, 0, 2, 1);
		both(&w, LEDGER_BLOCKED, LEDGER_FILE_SYNC, "save (t.py)", 0, 6, 0, 23);
		both(&w, LEDGER_BLOCKED, LEDGER_LOCK, "get (t.py)", 2, 2, 10, 10);
		both(&w, LEDGER_RUNNABLE, LEDGER_WOKEN, "futex", 0.5, busy ? 10 : 0.5, 0, 0);
		both(&w, LEDGER_RUNNABLE, LEDGER_WOKEN, "file sync", 0, 15, 0, 0);
		judge(&w);
		assert_int_equal(out.cause, busy ? CAUSE_OS_RUN_QUEUE : CAUSE_STORAGE_SYNC);
		assert_float_equal(out.effect_ns, busy ? 23.8e6 : 20.35e6, 0.1e6);
		end(&w);
	}
}

/* The same sleeps with another name, and longer waits for a CPU after them. */
static void sleeps_with_another_name_are_not_more_sleeps(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_BLOCKED, LEDGER_LOCK, "get (t.py)", 2, 0, 10, 0);
	both(&w, LEDGER_BLOCKED, LEDGER_GIL, "get (t.py)", 0, 3, 0, 10);
	both(&w, LEDGER_RUNNABLE, LEDGER_WOKEN, "futex", 1, 0, 0, 0);
	both(&w, LEDGER_RUNNABLE, LEDGER_WOKEN, "GIL", 0, 15, 0, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_RUN_QUEUE);
	end(&w);
}

/* 20 ms at a pipe or in sleep; another process ended 15 or 5 ms of the waits. */
static void who_ended_a_wait_for_others_is_named(void **unused)
{
	static const struct {
		enum ledger_what what;
		double woken_ms;
		bool named;
	} cases[] = {{LEDGER_PIPE_READ, 15, true},
		     {LEDGER_LOCK, 15, true},
		     {LEDGER_PIPE_READ, 5, false},
		     {LEDGER_SLEEP, 15, false}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world w;

		begin(&w);
		w.rank.waker = "writer (thread 7)";
		w.rank.waker_ns = cases[i].woken_ms * 1e6;
		both(&w, LEDGER_BLOCKED, cases[i].what, "read (t.py)", 0, 20, 0, 2);
		judge(&w);
		assert_int_equal(strstr(out.evidence[0].text, "; woken by writer (thread 7)") !=
				     NULL,
				 cases[i].named);
		end(&w);
	}
}

static void preemptions_belong_to_what_runs_longer(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "peer", 15, 30, 0, 0);
	both(&w, LEDGER_RUNNING, LEDGER_PYTHON, "augment (t.py)", 0, 30, 0, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_PYTHON);
	assert_true(out.confidence > 0.95);
	end(&w);
}

/* One open interval of 30 s beside healthy steps. */
static void hangs_in(struct world *w, enum ledger_kind kind, enum ledger_what what,
		     const char *name, enum finding_cause known)
{
	begin(w);
	ledger_fini(&w->slow);
	w->slow.steps = 1;
	ledger_charge(&w->slow, kind, what, name, 30000 * MS, 1);
	w->kind = FINDING_HANG;
	w->known = known;
	w->rank.stuck = "flock < save (train.py:88)";
	judge(w);
}

static void a_rank_hangs_in_what_its_open_interval_is_in(void **unused)
{
	static const struct {
		enum ledger_kind kind;
		enum ledger_what what;
		const char *name;
		enum finding_cause cause;
		const char *said;
	} hangs[] = {
	    {LEDGER_BLOCKED, LEDGER_FILE_LOCK, "save (train.py)", CAUSE_CPU_LOCK,
	     "rank 5 hangs because it waits for a file lock in save (train.py)"},
	    {LEDGER_BLOCKED, LEDGER_LOCK, "step (train.py)", CAUSE_CPU_LOCK,
	     "a lock or another thread"},
	    {LEDGER_BLOCKED, LEDGER_PIPE_READ, "ask (train.py)", CAUSE_CPU_PROCESS, "at a pipe"},
	    {LEDGER_BLOCKED, LEDGER_SOCKET, "ask (train.py)", CAUSE_NET_WAIT, "a peer at a socket"},
	    {LEDGER_BLOCKED, LEDGER_NETWORK_FILE, "read (train.py)", CAUSE_STORAGE_DISK, "storage"},
	    {LEDGER_BLOCKED, LEDGER_LOADER, "next (train.py)", CAUSE_STORAGE_LOADER, "data loader"},
	    {LEDGER_STOPPED, LEDGER_SIGNAL, "", CAUSE_OS_STOPPED, "it was stopped"},
	    {LEDGER_RUNNING, LEDGER_PYTHON, "poll (train.py)", CAUSE_CPU_PYTHON,
	     "its code is still running in poll (train.py)"},
	    {LEDGER_COMPUTE, LEDGER_NONE, "gemm", CAUSE_HANG_KERNEL, ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(hangs); i++)
		for (int known = 0; known < 2; known++) {
			struct world w;

			hangs_in(&w, hangs[i].kind, hangs[i].what, hangs[i].name,
				 known ? CAUSE_HANG_MISSING : CAUSE_UNKNOWN);
			if (out.cause != hangs[i].cause || !strstr(out.summary, hangs[i].said))
				fail_msg("hang %zu: %s: %s", i, finding_cause_id(out.cause),
					 out.summary);
			assert_true(out.by_ledger && out.confidence > 0.9);
			assert_float_equal(out.effect_ns, 30e9, 0.1e9);
			assert_null(strstr(out.evidence[0].text, "per step"));
			assert_string_equal(out.evidence[1].text,
					    "rank 5 is in flock < save (train.py:88)");
			end(&w);
		}
}

static void that_a_rank_hangs_needs_no_healthy_steps(void **unused)
{
	struct world w;

	hangs_in(&w, LEDGER_BLOCKED, LEDGER_FILE_LOCK, "save (train.py)", CAUSE_HANG_MISSING);
	ledger_fini(&w.usual);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_LOCK);
	end(&w);
}

/* Who waits for others, and of whom nobody saw what it does, has no account that says why. */
static void what_detection_knows_of_a_hang_stands_where_the_ledger_says_less(void **unused)
{
	static const struct {
		enum ledger_kind kind;
		enum ledger_what what;
		enum finding_cause known;
	} hangs[] = {{LEDGER_COLLECTIVE, LEDGER_NONE, CAUSE_HANG_MISSING},
		     {LEDGER_UNOBSERVED, LEDGER_NONE, CAUSE_HANG_MISSING},
		     {LEDGER_BLOCKED, LEDGER_NONE, CAUSE_HANG_MISSING},
		     {LEDGER_BLOCKED, LEDGER_FILE_LOCK, CAUSE_HANG_MISMATCH},
		     {LEDGER_BLOCKED, LEDGER_FILE_LOCK, CAUSE_HANG_TRANSFER}};

	for (size_t i = 0; i < ARRAY_LEN(hangs); i++) {
		struct world w;

		hangs_in(&w, hangs[i].kind, hangs[i].what, "wait (train.py)", hangs[i].known);
		assert_int_equal(out.cause, hangs[i].known);
		end(&w);
	}
}

/* Gradients in 600 small buckets: they lengthen accounts of the host, too. And a lock that is held for
 * longer, in steps that launch a few kernels more. */
static void more_launches_of_every_rank_explain_all_that_grew(void **unused)
{
	for (int many = 0; many < 2; many++) {
		struct world w;

		begin(&w);
		w.kind = FINDING_UNIFORM;
		w.kernels_before = 32;
		w.kernels = many ? 632 : 34;
		both(&w, LEDGER_COLLECTIVE, LEDGER_TRANSFER, "AllReduce", 0, many ? 20 : 0, 0,
		     many ? 600 : 0);
		both(&w, LEDGER_BLOCKED, LEDGER_LOCK, "acquire (train.py)", 0, 60, 0, 600);
		judge(&w);
		assert_int_equal(out.cause, many ? CAUSE_SW_KERNELS : CAUSE_CPU_LOCK);
		if (many) {
			assert_float_equal(out.effect_ns, 80e6, 1e5);
			assert_non_null(strstr(out.summary, "each step launches 632 kernels, 32 "
							    "before; most of them collective "
							    "AllReduce"));
		}
		end(&w);
	}
}

/* The slow steps launch half as many kernels again, which take 20 ms, as detection expects. They lost 20 ms
 * beyond that. */
static void launches_that_detection_expects_explain_no_loss(void **unused)
{
	struct world w;

	begin(&w);
	w.kind = FINDING_UNIFORM;
	both(&w, LEDGER_COMPUTE, 0, "gemm_a<<<8,1,1, 256,1,1>>>", 0, 20, 0, 10);
	both(&w, LEDGER_COMPUTE, 0, "norm<<<64,1,1, 256,1,1>>>", 0, 0, 0, 6);
	both(&w, LEDGER_RUNNABLE, LEDGER_WOKEN, "", 0, 20, 0, 10);
	w.kernels_before = 32;
	w.kernels = 48;
	w.rank.lost_ns = 20e6;
	assert_int_equal(ledger_same_work(&w.slow, &w.usual, 20e6), 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_RUN_QUEUE);
	assert_float_equal(out.effect_ns, 20e6, 1e5);
	end(&w);
}

/* Three of seven kernels take longer, none of them by half of the whole. */
static void several_slower_kernels_do_not_hang(void **unused)
{
	static const char *const others[] = {"a<<<8,1,1, 256,1,1>>>", "b<<<8,1,1, 256,1,1>>>",
					     "c<<<8,1,1, 256,1,1>>>", "d<<<8,1,1, 256,1,1>>>"};
	struct world w;

	begin(&w);
	both(&w, LEDGER_COMPUTE, 0, "gemm_a<<<8,1,1, 256,1,1>>>", 0, 10, 0, 0);
	both(&w, LEDGER_COMPUTE, 0, "gemm_b<<<8,1,1, 256,1,1>>>", 0, 8, 0, 0);
	both(&w, LEDGER_COMPUTE, 0, "norm<<<64,1,1, 256,1,1>>>", 0, 7, 0, 0);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		both(&w, LEDGER_COMPUTE, 0, others[i], 20, 20, 10, 10);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_GPU_KERNEL);
	assert_non_null(strstr(out.summary, "several kernels take longer, most of all gemm_a"));
	end(&w);
}

/* Nobody is missing, and no record says so: the ranks wait for each other on the CPU. */
static void ranks_that_wait_for_each_other_on_the_cpu_wait_at_sockets(void **unused)
{
	struct world w;

	hangs_in(&w, LEDGER_BLOCKED, LEDGER_HOST_COLLECTIVE, "all_reduce (comm.py)",
		 CAUSE_HANG_TRANSFER);
	assert_int_equal(out.cause, CAUSE_NET_WAIT);
	end(&w);
}

static void what_explains_little_of_what_was_lost_is_no_cause(void **unused)
{
	for (int lost_ms = 0; lost_ms <= 20; lost_ms += 20) {
		struct world w;

		begin(&w);
		both(&w, LEDGER_RUNNING, LEDGER_LOGGING, "Logger.debug (__init__.py)", 0, 2, 0, 0);
		w.rank.lost_ns = lost_ms * (double)MS;
		judge(&w);
		assert_int_equal(out.cause, lost_ms ? CAUSE_UNKNOWN : CAUSE_SW_LOGGING);
		end(&w);
	}
}

/* The healthy steps of its windows waited for a CPU as long as its slow ones: their difference
 * shows 3 ms of Python. What was lost is known from before, and the figures of other healthy steps
 * may show it. */
static void what_the_reference_lost_as_well_is_explained_by_what_else_is_known(void **unused)
{
	static const struct {
		double waited_ms, before_ms;
		bool by_ledger, shown;
	} cases[] = {{5, 0, true, true}, {20, 0, false, true}, {20, 25, true, false}};
	static const char *const names[] = {"gemm_a", "gemm_b", "norm"};
	double sure[3];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world w;
		bool listed = false;

		begin(&w);
		both(&w, LEDGER_RUNNING, LEDGER_PYTHON, "pack (train.py)", 6, 9, 0, 0);
		both(&w, LEDGER_RUNNABLE, 0, "stress", cases[i].waited_ms, 20, 0, 0);
		signal_add(&w, OS_SIGNAL_RUN_WAIT_THREAD, "python3", 300, 20);
		w.signal[0].weight_ms = 20;
		w.rank.lost_ns = 18.0 * MS;
		w.before_ms = cases[i].before_ms;
		/* one window had longer sequences; by the ledger, no kernel is slower */
		for (int k = 0; k < 3; k++) {
			w.named[k] = (struct diagnosis_kernel){
			    .name = names[k], .count = 10, .total_ns = 26.0 * MS};
			w.named_before[k] = (struct diagnosis_kernel){
			    .name = names[k], .count = 10, .total_ns = 20.0 * MS};
		}
		w.named_count = 3;
		w.less_ms = 15;
		judge(&w);
		for (uint32_t k = 0; k < out.evidence_count; k++)
			assert_null(strstr(out.evidence[k].text, "compute kernels take"));
		for (uint32_t k = 0; k < out.missing_count; k++)
			listed |= strstr(out.missing[k], "healthy steps to compare with") != NULL;
		assert_int_equal(out.cause, CAUSE_OS_RUN_QUEUE);
		assert_int_equal(out.by_ledger, cases[i].by_ledger);
		assert_int_equal(listed, !cases[i].shown);
		sure[i] = out.confidence;
		end(&w);
	}
	assert_true(sure[2] < sure[0]);
}

/* No single account holds half of what it explains. */
static void a_signal_that_explains_several_accounts_leads(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_BLOCKED, LEDGER_KERNEL_LOCK, "", 0, 12, 0, 9);
	both(&w, LEDGER_KERNEL_CODE, LEDGER_KERNEL_LOCK, "", 0, 10, 0, 0);
	both(&w, LEDGER_RUNNING, 0, "access", 10, 18, 0, 0);
	signal_add(&w, OS_SIGNAL_LOCK_PLACE,
		   "walk_component, which is shared with dir_churn (pid 7)", 220, 0);
	w.signal[0].weight_ms = 28;
	judge(&w);
	assert_int_equal(out.cause, CAUSE_OS_LOCK);
	assert_non_null(strstr(out.summary, "walk_component"));
	assert_non_null(strstr(out.remedy, "dir_churn"));
	end(&w);
}

static void ranks_with_both_accounts_have_one_cause(void **unused)
{
	static const struct {
		double runs_ms[2], waits_ms[2], lost_ms;
		uint32_t groups, shows;
		enum finding_cause cause; /* of the first group */
	} cases[] = {
	    /* which one is larger differs */
	    {{12, 10}, {10, 12}, 0, 1, 0, CAUSE_CPU_PYTHON},
	    {{5, 10}, {6, 0}, 0, 1, 1, CAUSE_CPU_PYTHON},
	    /* the second rank has one of them alone */
	    {{20, 0}, {5, 12}, 0, 2, 0, CAUSE_CPU_PYTHON},
	    /* neither cause explains most of both */
	    {{20, 10}, {4, 20}, 0, 2, 0, CAUSE_CPU_PYTHON},
	    /* of the first rank nothing is known, and it takes nobody's cause */
	    {{0.05, 12}, {0, 0}, 20, 2, 0, CAUSE_UNKNOWN},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world w[2];
		struct diagnosis_rank who[2];
		struct diagnosis_input in = {
		    .kind = FINDING_SLOW_RANK, .suspect = who, .suspect_count = 2};
		uint32_t group[2], shows[2];
		struct diagnosis_wait waits[2];

		for (int k = 0; k < 2; k++) {
			runs_and_waits(&w[k], cases[i].runs_ms[k], cases[i].waits_ms[k]);
			who[k] = w[k].rank;
			who[k].rank = 5 + k;
		}
		who[0].lost_ns = cases[i].lost_ms * (double)MS;
		assert_int_equal(diagnosis_split(&in, group, shows, waits), cases[i].groups);
		assert_int_equal(group[0], 0);
		assert_int_equal(group[1], cases[i].groups - 1);
		assert_int_equal(shows[0], cases[i].shows);
		in.suspect = &who[shows[0]];
		in.suspect_count = 1;
		diagnosis_make(&in, &out);
		assert_int_equal(out.cause, cases[i].cause);
		end(&w[0]);
		end(&w[1]);
	}
}

/* What is not observed can be what was observed in healthy steps. 14 ms are unobserved, but the host
 * takes only 4 ms longer. */
static void unobserved_time_first_makes_up_for_what_was_observed_before(void **unused)
{
	struct world w;

	begin(&w);
	both(&w, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "", 15, 9, 0, 0);
	both(&w, LEDGER_RUNNING, LEDGER_PYTHON, "pack (t.py)", 10, 6, 0, 0);
	both(&w, LEDGER_UNOBSERVED, LEDGER_NONE, "", 0, 14, 0, 0);
	judge(&w);
	assert_int_equal(out.cause, CAUSE_CPU_HOST_GAP);
	assert_float_equal(out.effect_ns, 4e6, 0.1e6);
	end(&w);
}

/* Whether the collectives wait for a rank or transfer slowly is not known, so they lose against an account
 * that says what it is; if that is half as long, they win. */
static void what_was_seen_directly_outweighs_a_little_more_of_what_was_not(void **unused)
{
	for (int less = 0; less < 2; less++) {
		struct world w;

		begin(&w);
		w.kind = FINDING_UNIFORM;
		both(&w, LEDGER_COLLECTIVE, LEDGER_NONE, "AllReduce", 2, 44, 4, 4);
		both(&w, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "", 6, less ? 26 : 46, 0, 0);
		judge(&w);
		assert_int_equal(out.cause, less ? CAUSE_NET_TRANSFER : CAUSE_OS_RUN_QUEUE);
		/* the figures that its effect comes from, not those of one window */
		if (less)
			assert_string_equal(out.evidence[0].text,
					    "exposed communication takes 54.0 ms per step, 12.0 ms "
					    "when healthy");
		end(&w);
	}
}

/* On a busy host the other three wait for a CPU, and so does the first rank, but less than it runs. */
static void a_rank_keeps_its_cause_however_many_have_another(void **unused)
{
	struct world w[4];
	struct diagnosis_rank who[4];
	struct diagnosis_input in = {.kind = FINDING_SLOW_RANK, .suspect = who, .suspect_count = 4};
	uint32_t group[4], shows[4];
	struct diagnosis_wait waits[4];

	for (int k = 0; k < 4; k++) {
		runs_and_waits(&w[k], k ? 0 : 29, k ? 30 : 18);
		who[k] = w[k].rank;
		who[k].rank = k;
	}
	assert_int_equal(diagnosis_split(&in, group, shows, waits), 2);
	assert_int_equal(group[0], 0);
	for (int k = 1; k < 4; k++)
		assert_int_equal(group[k], 1);
	for (int k = 0; k < 4; k++)
		end(&w[k]);
}

/* What grew on a rank; in the healthy steps each account takes 40 ms. */
struct grew {
	enum ledger_kind kind;
	enum ledger_what what;
	double ms, waits;
};
#define RUNS(ms)                                                                                   \
	{                                                                                          \
		LEDGER_RUNNING, LEDGER_PYTHON, ms, 0                                               \
	}
#define AT(what, ms)                                                                               \
	{                                                                                          \
		LEDGER_BLOCKED, LEDGER_##what, ms, 0                                               \
	}
#define POLLS(ms)                                                                                  \
	{                                                                                          \
		LEDGER_BLOCKED, LEDGER_SLEEP, ms, 9                                                \
	}
#define UNOBSERVED(ms)                                                                             \
	{                                                                                          \
		LEDGER_UNOBSERVED, LEDGER_NONE, ms, 0                                              \
	}

/* first: rank 0. others: ranks 1 and 2, from later_s on, which only wait or not. */
static void ranks_that_only_wait_for_a_late_one_have_no_group(void **unused)
{
	static const struct {
		struct grew first[2], others[2];
		bool only_wait;
		uint32_t groups;
		double hidden_ms; /* of the others, beside what grew */
		double later_s;
	} cases[] = {
	    {{RUNS(25), AT(HOST_COLLECTIVE, 5)}, {AT(HOST_COLLECTIVE, 30)}, true, 1, 0, 0},
	    {{RUNS(25)}, {AT(SOCKET, 30)}, true, 1, 0, 0},
	    {{RUNS(25)}, {AT(POLL, 30)}, true, 1, 0, 0},
	    {{RUNS(25)}, {AT(FILE_LOCK, 30)}, true, 1, 0, 0},
	    {{RUNS(25)}, {POLLS(30)}, true, 1, 0, 0},
	    {{RUNS(25)}, {AT(SOCKET, 30)}, true, 1, 0, 12},
	    /* a longer sleep, and its own process */
	    {{RUNS(25)}, {AT(SLEEP, 30)}, false, 2, 0, 0},
	    {{RUNS(25)}, {AT(CHILD, 30)}, false, 2, 0, 0},
	    /* longer than the first one is late */
	    {{RUNS(10)}, {AT(HOST_COLLECTIVE, 30)}, false, 2, 0, 0},
	    {{RUNS(25)}, {POLLS(60)}, false, 2, 0, 0},
	    /* at another time */
	    {{RUNS(25)}, {AT(SOCKET, 30)}, false, 2, 0, 30},
	    /* the first one waits as long, or has less of another wait */
	    {{AT(HOST_COLLECTIVE, 30)}, {AT(HOST_COLLECTIVE, 30)}, false, 1, 0, 0},
	    {{RUNS(10), AT(SOCKET, 20)}, {AT(SOCKET, 30)}, false, 1, 0, 0},
	    {{RUNS(31), AT(SOCKET, 30)}, {AT(SOCKET, 30)}, false, 1, 0, 0},
	    {{AT(SOCKET, 30), AT(PIPE_READ, -30)}, {AT(SOCKET, 30)}, false, 1, 0, 0},
	    /* what the first one did was not seen */
	    {{UNOBSERVED(30)}, {AT(SOCKET, 30)}, false, 2, 0, 0},
	    /* the others are hardly less late without their waits, or lost more than they waited */
	    {{RUNS(25)}, {AT(SOCKET, 30), RUNS(14)}, false, 2, 0, 0},
	    {{RUNS(90)}, {AT(SOCKET, 30), RUNS(40)}, false, 1, 0, 0},
	    {{RUNS(25)}, {AT(SOCKET, 30), UNOBSERVED(20)}, false, 2, 0, 0},
	    {{RUNS(25)}, {AT(SOCKET, 10)}, false, 2, 90, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world w[3];
		struct diagnosis_rank who[3];
		struct diagnosis_input in = {
		    .kind = FINDING_SLOW_RANK, .suspect = who, .suspect_count = 3};
		uint32_t group[3], shows[3];
		struct diagnosis_wait waits[3];

		for (int k = 0; k < 3; k++) {
			const struct grew *g = k ? cases[i].others : cases[i].first;

			begin(&w[k]);
			for (int n = 0; n < 2; n++)
				both(&w[k], g[n].kind, g[n].what, "call (t.py)", 40, 40 + g[n].ms,
				     1, 1 + (uint64_t)g[n].waits);
			judge_all(&w[k], 1);
			who[k] = w[k].rank;
			who[k].rank = k;
			who[k].lost_ns = k ? cases[i].hidden_ms * (double)MS : 0;
			who[k].begin_unix_ns = (uint64_t)((100 + (k ? cases[i].later_s : 0)) * 1e9);
			who[k].end_unix_ns = who[k].begin_unix_ns + 20000 * MS;
		}
		assert_int_equal(diagnosis_split(&in, group, shows, waits), cases[i].groups);
		assert_int_equal(group[0], 0);
		for (int k = 1; k < 3; k++) {
			assert_int_equal(group[k] == DIAGNOSIS_WAITS, cases[i].only_wait);
			if (cases[i].only_wait)
				assert_int_equal(waits[k].whom, 0);
		}
		for (int k = 0; k < 3; k++)
			end(&w[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_account_that_grew_is_the_cause),
	    cmocka_unit_test(code_that_calls_the_kernel_has_the_language_of_its_user_code),
	    cmocka_unit_test(only_an_unobserved_host_gap_stands_behind_smaller_causes),
	    cmocka_unit_test(waits_in_the_driver_are_explained_by_a_setting_of_cuda),
	    cmocka_unit_test(of_two_ranks_it_is_said_in_the_plural),
	    cmocka_unit_test(every_account_has_both_numbers),
	    cmocka_unit_test(a_signal_without_an_excess_in_its_account_is_no_cause),
	    cmocka_unit_test(a_signal_explains_the_account_that_it_lengthens),
	    cmocka_unit_test(a_signal_that_changes_the_cause_lengthens_the_account),
	    cmocka_unit_test(waits_for_storage_have_the_cause_of_their_accounts),
	    cmocka_unit_test(a_signal_explains_no_more_than_its_own_time),
	    cmocka_unit_test(a_wait_for_a_sync_is_no_limit_because_the_disk_is_fast),
	    cmocka_unit_test(a_wait_for_a_cpu_names_the_task_that_the_signal_knows),
	    cmocka_unit_test(a_collective_on_the_cpu_waits_for_a_thread_without_a_cpu),
	    cmocka_unit_test(larger_launches_are_more_work_and_not_slower_kernels),
	    cmocka_unit_test(more_work_in_a_few_steps_of_uneven_work_is_chance),
	    cmocka_unit_test(more_launches_in_some_steps_are_more_work),
	    cmocka_unit_test(smaller_launches_that_take_longer_are_a_variant),
	    cmocka_unit_test(kernels_are_compared_where_the_work_is_the_same),
	    cmocka_unit_test(a_kernel_of_other_steps_is_compared_by_name),
	    cmocka_unit_test(a_variant_in_some_of_the_slow_steps_is_a_variant),
	    cmocka_unit_test(launches_of_uneven_sizes_are_held_against_their_sizes),
	    cmocka_unit_test(rows_of_the_reference_are_not_crowded_out),
	    cmocka_unit_test(all_times_longer_change_nothing_but_the_times),
	    cmocka_unit_test(less_seen_is_never_surer),
	    cmocka_unit_test(waiting_in_collectives_is_no_cause_of_a_slow_rank),
	    cmocka_unit_test(system_calls_between_waits_for_storage_are_io),
	    cmocka_unit_test(the_longest_wait_decides_what_its_system_calls_are),
	    cmocka_unit_test(waits_for_a_cpu_belong_to_what_asks_for_it),
	    cmocka_unit_test(waits_for_a_cpu_belong_to_the_sleeps_before_them),
	    cmocka_unit_test(sleeps_with_another_name_are_not_more_sleeps),
	    cmocka_unit_test(who_ended_a_wait_for_others_is_named),
	    cmocka_unit_test(preemptions_belong_to_what_runs_longer),
	    cmocka_unit_test(ranks_with_both_accounts_have_one_cause),
	    cmocka_unit_test(unobserved_time_first_makes_up_for_what_was_observed_before),
	    cmocka_unit_test(what_was_seen_directly_outweighs_a_little_more_of_what_was_not),
	    cmocka_unit_test(a_rank_keeps_its_cause_however_many_have_another),
	    cmocka_unit_test(ranks_that_only_wait_for_a_late_one_have_no_group),
	    cmocka_unit_test(what_explains_little_of_what_was_lost_is_no_cause),
	    cmocka_unit_test(what_the_reference_lost_as_well_is_explained_by_what_else_is_known),
	    cmocka_unit_test(a_signal_that_explains_several_accounts_leads),
	    cmocka_unit_test(what_a_function_hands_to_another_is_no_excess),
	    cmocka_unit_test(a_rank_hangs_in_what_its_open_interval_is_in),
	    cmocka_unit_test(that_a_rank_hangs_needs_no_healthy_steps),
	    cmocka_unit_test(more_launches_of_every_rank_explain_all_that_grew),
	    cmocka_unit_test(launches_that_detection_expects_explain_no_loss),
	    cmocka_unit_test(several_slower_kernels_do_not_hang),
	    cmocka_unit_test(ranks_that_wait_for_each_other_on_the_cpu_wait_at_sockets),
	    cmocka_unit_test(what_detection_knows_of_a_hang_stands_where_the_ledger_says_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * The sampler on live processes: this program starts itself as the target, so that every function of a
 * stack is known. BPF needs root; what an ordinary user gets is tested in any case, as nobody. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "sampler/sampler.h"
#include "symbol/symbol_resolver.h"

#define SLEEP_MS 40

static char self[4096];
static enum sampler_mode mode_wanted;

/* ---- targets: what the children of this test run ---- */

#define TARGET static __attribute__((noinline, noclone, used))
static volatile uint64_t sink;

TARGET void target_spin(void)
{
	for (int i = 0; i < 200000; i++)
		sink += (uint64_t)i * 3;
}

TARGET void target_inner(void)
{
	target_spin();
	sink++;
}

TARGET void target_middle(int depth)
{
	if (depth)
		target_middle(depth - 1);
	else
		target_inner();
	sink++;
}

TARGET void target_outer(void)
{
	target_middle(5);
	sink++;
}

TARGET void target_nap(void)
{
	struct timespec t = {.tv_nsec = SLEEP_MS * 1000000l};

	nanosleep(&t, NULL);
	sink++;
}

TARGET void target_sleeper(void)
{
	target_nap();
	sink++;
}

TARGET void target_reader(void)
{
	static char block[1 << 20];
	int fd = open("/dev/zero", O_RDONLY);

	for (int i = 0; i < 50 && fd >= 0; i++)
		sink += (uint64_t)read(fd, block, sizeof(block));
	if (fd >= 0)
		close(fd);
}

static int run_target(const char *what)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!strcmp(what, "fork")) { /* the child works, the parent waits */
		poll(NULL, 0, 300);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				target_outer();
		}
		for (;;)
			pause();
	}
	if (!strcmp(what, "exec")) {
		poll(NULL, 0, 300);
		execl(self, self, "spin", NULL);
	}
	if (!strcmp(what, "dlopen")) {
		static unsigned char bytes[1 << 16];
		unsigned long (*crc)(unsigned long, const unsigned char *, unsigned) = NULL;
		void *z;

		poll(NULL, 0, 300);
		z = dlopen("libz.so.1", RTLD_NOW);
		if (z)
			*(void **)&crc = dlsym(z, "crc32");
		for (;;)
			sink += crc ? crc(0, bytes, sizeof(bytes)) : 0;
	}
	for (;;) {
		if (!strcmp(what, "sleep"))
			target_sleeper();
		else if (!strcmp(what, "read"))
			target_reader();
		else
			target_outer();
	}
	return 0;
}

static pid_t start_target(const char *what)
{
	pid_t pid = fork();

	if (!pid) {
		execl(self, self, what, NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

static void stop_target(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- looking at batches ---- */

struct names {
	struct symbol_resolver *resolver;
	const struct stack_batch *batch;
};

static const char *frame_name(struct names *n, const struct stack_frame *f)
{
	const struct stack_object *o;
	struct symbol_name name;

	if (f->kind == STACK_FRAME_KERNEL || f->kind == STACK_FRAME_PYTHON)
		return stack_batch_text(n->batch, f->object);
	if (f->kind != STACK_FRAME_NATIVE)
		return "";
	o = &n->batch->objects[f->object];
	if (symbol_resolver_find(n->resolver, o->build_id, o->build_id_bytes,
				 stack_batch_text(n->batch, o->path),
				 f->address - (f->flags & STACK_FRAME_RETURN ? 1 : 0), &name))
		return "";
	return name.raw;
}

/* Whether the names stand in this order in the stack, other frames between them or not. */
static bool has_chain(struct names *n, const struct stack_sample *s, const char *const *chain)
{
	const struct stack *k = &n->batch->stacks[s->stack];

	for (uint32_t i = 0; i < k->count && *chain; i++) {
		if (!strcmp(frame_name(n, &n->batch->frames[k->first + i]), *chain))
			chain++;
	}
	return !*chain;
}

struct tally {
	uint64_t samples, chained, rooted, weight_ns, chained_weight_ns, kernel;
};

static void tally_up(const struct stack_batch *b, uint32_t pid, uint8_t kind, const char *const *chain,
		     struct tally *t)
{
	struct symbol_resolver_options o = {0};
	struct names n = {.batch = b};

	memset(t, 0, sizeof(*t));
	assert_int_equal(symbol_resolver_open(&n.resolver, &o), 0);
	assert_true(stack_batch_valid(b));
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];

		if ((pid && s->pid != pid) || s->kind != kind)
			continue;
		t->samples += s->count;
		t->weight_ns += s->weight_ns;
		t->kernel += b->stacks[s->stack].kernel_count ? s->count : 0;
		t->rooted += b->stacks[s->stack].end == STACK_END_ROOT ? s->count : 0;
		if (has_chain(&n, s, chain)) {
			t->chained += s->count;
			t->chained_weight_ns += s->weight_ns;
		}
	}
	symbol_resolver_close(n.resolver);
}

/* Polls as the daemon's loop does, for so long. */
static void let_run(struct sampler *s, int ms)
{
	uint64_t end = clock_monotonic_ns() + (uint64_t)ms * 1000000;

	for (uint64_t now; (now = clock_monotonic_ns()) < end;) {
		struct pollfd p = {.fd = sampler_fd(s), .events = POLLIN};

		poll(&p, 1, (int)((end - now) / 1000000) + 1);
		sampler_poll(s);
	}
}

/* Until every file that is mapped has its table. */
static void let_settle(struct sampler *s)
{
	struct sampler_stats stats;
	struct stack_batch b;

	for (int i = 0; i < 200; i++) {
		let_run(s, 50);
		sampler_stats_get(s, &stats);
		if (i > 2 && !stats.pending)
			break;
	}
	assert_int_equal(stats.pending, 0);
	stack_batch_init(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	stack_batch_fini(&b);
}

static struct sampler *open_wanted(uint64_t off_cpu_min_ns)
{
	struct sampler_options o;
	struct sampler_stats stats;
	struct sampler *s;

	sampler_options_init(&o);
	o.mode_max = mode_wanted;
	o.rate_hz = 999;
	o.fraction_percent = 100;
	o.off_cpu_min_ns = off_cpu_min_ns;
	assert_int_equal(sampler_open(&s, &o), 0);
	sampler_stats_get(s, &stats);
	if (stats.mode != mode_wanted)
		print_message("# wanted %s, got %s: %s\n", sampler_mode_name(mode_wanted),
			      sampler_mode_name(stats.mode), stats.why);
	if (stats.missing[0])
		print_message("# missing: %s\n", stats.missing);
	assert_int_equal(stats.mode, mode_wanted);
	return s;
}

static const char *const spin_chain[] = {"target_spin",	  "target_inner",  "target_middle", "target_middle",
					 "target_middle", "target_middle", "target_middle", "target_middle",
					 "target_outer",  "main",	   NULL};

/* ---- the cases ---- */

static void finds_the_known_chain(void **state)
{
	struct sampler *s = open_wanted(1000000);
	pid_t pid = start_target("spin");
	struct stack_batch b;
	struct tally t;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	let_run(s, 500);
	stack_batch_init(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, spin_chain, &t);
	print_message("# %s: %lu samples, %lu with the chain, %lu to the root\n",
		      sampler_mode_name(mode_wanted), t.samples, t.chained, t.rooted);
	assert_true(t.samples >= 20);
	/* between two calls of target_outer the chain is shorter */
	assert_true(t.chained * 100 >= t.samples * 95);
	assert_true(t.rooted * 100 >= t.samples * 99);
	assert_int_equal(t.weight_ns, t.samples * (100000000000ull / 999 / 100));
	stack_batch_fini(&b);
	stop_target(pid);
	sampler_close(s);
}

static void follows(const char *what, bool root_is_enough, const char *const *chain)
{
	struct sampler *s = open_wanted(1000000);
	pid_t pid = start_target(what);
	struct stack_batch b;
	struct tally t;

	assert_int_equal(sampler_add(s, (uint32_t)pid, true), 0);
	let_run(s, 700); /* it forks, execs or loads 300 ms after its start */
	let_settle(s);
	let_run(s, 400);
	stack_batch_init(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, 0, STACK_ON_CPU, chain, &t);
	print_message("# %s: %lu samples, %lu with the chain, %lu to the root\n", what, t.samples, t.chained,
		      t.rooted);
	assert_true(t.samples >= 20);
	assert_true(t.chained * 100 >= t.samples * 90);
	assert_true(!root_is_enough || t.rooted * 100 >= t.samples * 99);
	stack_batch_fini(&b);
	stop_target(pid);
	sampler_close(s);
}

static void follows_a_fork(void **state)
{
	follows("fork", true, spin_chain);
}

static void follows_an_exec(void **state)
{
	follows("exec", true, spin_chain);
}

static void follows_a_dlopen(void **state)
{
	static const char *const chain[] = {"crc32_z", "main", NULL};

	follows("dlopen", true, chain);
}

static void measures_blocked_time(void **state)
{
	static const char *const chain[] = {"__schedule", "target_nap", "target_sleeper", "main", NULL};
	struct sampler *s = open_wanted(10000000);
	pid_t pid = start_target("sleep");
	struct sampler_stats stats;
	struct stack_batch b;
	struct tally t;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	let_run(s, 600);
	stack_batch_init(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_OFF_CPU, chain, &t);
	sampler_stats_get(s, &stats);
	print_message("# off CPU: %lu sleeps of %lu us on average, %lu with the chain\n", t.samples,
		      t.samples ? t.weight_ns / t.samples / 1000 : 0, t.chained);
	assert_true(t.samples >= 4);
	assert_int_equal(t.chained, t.samples);
	/* nanosleep never sleeps shorter than it was told */
	assert_true(t.weight_ns >= t.samples * SLEEP_MS * 1000000ull);
	stack_batch_fini(&b);
	stop_target(pid);
	sampler_close(s);
}

static void shows_kernel_stacks(void **state)
{
	static const char *const chain[] = {"read_zero", "vfs_read", "target_reader", "main", NULL};
	static const char *const iter_chain[] = {"read_iter_zero", "vfs_read", "target_reader", "main", NULL};
	struct sampler *s = open_wanted(1000000);
	pid_t pid = start_target("read");
	struct stack_batch b;
	struct tally t, iter;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	let_run(s, 400);
	stack_batch_init(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, chain, &t);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, iter_chain, &iter);
	print_message("# read: %lu samples, %lu in the kernel, %lu with the chain\n", t.samples, t.kernel,
		      t.chained + iter.chained);
	assert_true(t.samples >= 20);
	assert_true((t.chained + iter.chained) * 100 >= t.samples * 80);
	stack_batch_fini(&b);
	stop_target(pid);
	sampler_close(s);
}

/* Every sample that the kernel took is in some batch or was counted as lost: 40 swaps under load. */
static void loses_nothing_in_the_swap(void **state)
{
	struct sampler *s = open_wanted(1000000);
	pid_t pid[4];
	struct sampler_stats before, after;
	struct stack_batch b;
	uint64_t counted = 0;

	for (int i = 0; i < 4; i++) {
		pid[i] = start_target(i & 1 ? "sleep" : "spin");
		assert_int_equal(sampler_add(s, (uint32_t)pid[i], false), 0);
	}
	let_settle(s);
	stack_batch_init(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	for (uint32_t i = 0; i < b.sample_count; i++)
		counted += b.samples[i].count;
	sampler_stats_get(s, &before);
	counted = 0;
	for (int i = 0; i < 40; i++) {
		stack_batch_clear(&b);
		assert_int_equal(sampler_drain(s, &b), 0);
		for (uint32_t k = 0; k < b.sample_count; k++)
			counted += b.samples[k].count;
		poll(NULL, 0, 10);
	}
	for (int i = 0; i < 4; i++)
		stop_target(pid[i]);
	for (int i = 0; i < 2; i++) { /* what the last one left behind */
		stack_batch_clear(&b);
		assert_int_equal(sampler_drain(s, &b), 0);
		for (uint32_t k = 0; k < b.sample_count; k++)
			counted += b.samples[k].count;
	}
	sampler_stats_get(s, &after);
	print_message("# swap: %lu taken, %lu drained, lost %lu %lu %lu\n", after.samples - before.samples,
		      counted, after.lost_count_full, after.lost_ring_full, after.lost_stack_full);
	assert_true(counted > 100);
	/* samples between the first drain's swap and its reading of the counters are in both */
	assert_true(counted + (after.lost_count_full - before.lost_count_full) >=
		    after.samples - before.samples);
	assert_true(counted <= after.samples - before.samples + 16);
	assert_int_equal(after.lost_ring_full, 0);
	stack_batch_fini(&b);
	sampler_close(s);
}

static void changes_rate_and_fraction(void **state)
{
	struct sampler *s = open_wanted(1000000);
	pid_t pid = start_target("spin");
	struct stack_batch b;
	struct tally full, tenth;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	assert_int_equal(sampler_set_rate(s, 1000, 100), -EINVAL);
	assert_int_equal(sampler_set_rate(s, 99, 0), -EINVAL);
	let_settle(s);
	let_run(s, 400);
	stack_batch_init(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, spin_chain, &full);
	assert_int_equal(sampler_set_rate(s, 99, 50), 0);
	stack_batch_clear(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	let_run(s, 400);
	stack_batch_clear(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, spin_chain, &tenth);
	print_message("# rate: %lu samples at 999 Hz 100%%, %lu at 99 Hz 50%%\n", full.samples,
		      tenth.samples);
	assert_true(tenth.samples * 5 < full.samples);
	assert_int_equal(tenth.weight_ns, tenth.samples * (100000000000ull / 99 / 50));
	stack_batch_fini(&b);
	stop_target(pid);
	sampler_close(s);
}

static void says_why_it_is_off(void **state)
{
	struct sampler_options o;
	struct sampler_stats stats;
	struct stack_batch b;
	struct sampler *s;

	sampler_options_init(&o);
	o.mode_max = SAMPLER_OFF;
	assert_int_equal(sampler_open(&s, &o), 0);
	sampler_stats_get(s, &stats);
	assert_int_equal(stats.mode, SAMPLER_OFF);
	assert_string_equal(stats.why, "switched off");
	stack_batch_init(&b);
	assert_int_equal(sampler_add(s, (uint32_t)getpid(), false), 0);
	assert_int_equal(sampler_drain(s, &b), 0);
	assert_int_equal(b.sample_count, 0);
	stack_batch_fini(&b);
	sampler_close(s);
}

/* What nobody gets: copied stacks, with the reason why not more. Runs in a child that gave up root. */
static int as_nobody(void)
{
	static const char *const chain[] = {"target_inner", "target_middle", "target_outer", "main", NULL};
	struct sampler_options o;
	struct sampler_stats stats;
	struct stack_batch b;
	struct tally t;
	struct sampler *s;
	pid_t pid;

	if (!getuid() && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
		return 1;
	prctl(PR_SET_DUMPABLE, 1);
	sampler_options_init(&o);
	o.rate_hz = 999;
	o.fraction_percent = 100;
	if (sampler_open(&s, &o))
		return 2;
	sampler_stats_get(s, &stats);
	print_message("# as nobody: %s; why: %s; missing: %s\n", sampler_mode_name(stats.mode), stats.why,
		      stats.missing);
	if (stats.mode == SAMPLER_OFF)
		return strstr(stats.why, "perf_event_paranoid") ? 77 : 3;
	if (stats.mode != SAMPLER_COPY || !stats.why[0])
		return 4;
	pid = start_target("spin");
	poll(NULL, 0, 100);
	if (sampler_add(s, (uint32_t)pid, false))
		return 5;
	let_settle(s);
	let_run(s, 500);
	stack_batch_init(&b);
	if (sampler_drain(s, &b))
		return 6;
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, chain, &t);
	print_message("# as nobody: %lu samples, %lu with the chain, %lu to the root\n", t.samples, t.chained,
		      t.rooted);
	stop_target(pid);
	stack_batch_fini(&b);
	sampler_close(s);
	return t.samples >= 20 && t.chained * 100 >= t.samples * 95 ? 0 : 7;
}

static void gives_an_ordinary_user_copied_stacks(void **state)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(as_nobody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static int as_loop(void **state)
{
	mode_wanted = SAMPLER_BPF_LOOP;
	return 0;
}

static int as_tail(void **state)
{
	mode_wanted = SAMPLER_BPF_TAIL;
	return 0;
}

#define CASES                                                                                      \
	cmocka_unit_test(finds_the_known_chain), cmocka_unit_test(follows_a_fork),                 \
		cmocka_unit_test(follows_an_exec), cmocka_unit_test(follows_a_dlopen),             \
		cmocka_unit_test(measures_blocked_time), cmocka_unit_test(shows_kernel_stacks),    \
		cmocka_unit_test(loses_nothing_in_the_swap),                                       \
		cmocka_unit_test(changes_rate_and_fraction)

int main(int argc, char **argv)
{
	const struct CMUnitTest any[] = {
		cmocka_unit_test(says_why_it_is_off),
		cmocka_unit_test(gives_an_ordinary_user_copied_stacks),
	};
	const struct CMUnitTest loop[] = {CASES};
	const struct CMUnitTest tail[] = {CASES};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int failed;

	if (argc > 1)
		return run_target(argv[1]);
	if (n <= 0)
		return 1;
	failed = cmocka_run_group_tests_name("sampler", any, NULL, NULL);
	if (!getuid() && !access("/sys/kernel/btf/vmlinux", R_OK)) {
		failed += cmocka_run_group_tests_name("sampler with bpf_loop", loop, as_loop, NULL);
		failed += cmocka_run_group_tests_name("sampler with tail calls", tail, as_tail, NULL);
	}
	return failed;
}

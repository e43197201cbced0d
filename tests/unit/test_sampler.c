/* SPDX-License-Identifier: Apache-2.0
 * The sampler on live processes: this program starts itself as the target, so that every function
 * of a stack is known. BPF needs root; what an ordinary user gets is tested in any case, as nobody.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "sampler/sampler.h"
#include "symbol/symbol_resolver.h"
#include "tests/unit/skip.h"

#define SLEEP_MS   40
#define LONG_NAP_S 4

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

TARGET void target_long_nap(void)
{
	struct timespec t = {.tv_sec = LONG_NAP_S};

	nanosleep(&t, NULL);
	sink++;
}

TARGET void target_hang(void)
{
	static uint32_t word;

	for (;;)
		sink += (uint64_t)syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
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

/* Calls target_outer from code that no file describes, without a frame pointer, as a JIT compiler's. */
static void target_jit(void)
{
	static const uint8_t code[] = {0x48, 0x83, 0xec, 0x28, /* sub $40, %rsp */
				       0xff, 0xd7,	       /* call *%rdi */
				       0x48, 0x83, 0xc4, 0x28, /* add $40, %rsp */
				       0xc3};
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	void (*jit)(void (*)(void)) = NULL;

	memcpy(at, code, sizeof(code));
	memcpy(&jit, &at, sizeof(at));
	for (;;)
		jit(target_outer);
}

static int run_target(const char *what)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!strcmp(what, "jit"))
		target_jit();
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
	for (int i = 0; !strcmp(what, "churn"); i++) {
		pid_t pid = fork();

		if (!pid) {
			if (i % 3)
				execl("/bin/true", "true", NULL);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	if (!strcmp(what, "hang")) {
		poll(NULL, 0, 1500); /* until its tables are there */
		target_long_nap();
		target_hang();
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

static struct sampler *shared; /* by all cases of a group */
static pid_t started[16];

/* first and second may be NULL. */
static pid_t start_command(const char *program, const char *first, const char *second)
{
	pid_t pid = fork();
	size_t slot = 0;

	if (!pid) {
		execl(program, program, first, second, NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	while (started[slot])
		slot++;
	started[slot] = pid;
	return pid;
}

static pid_t start_target(const char *what)
{
	return start_command(self, what, NULL);
}

static void stop_target(pid_t pid)
{
	for (size_t i = 0; i < sizeof(started) / sizeof(started[0]); i++)
		started[i] = started[i] == pid ? 0 : started[i];
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* What a case that failed left behind. */
static int clean_up(void **state)
{
	for (size_t i = 0; i < sizeof(started) / sizeof(started[0]); i++) {
		if (!started[i])
			continue;
		if (shared)
			sampler_remove(shared, (uint32_t)started[i]);
		stop_target(started[i]);
	}
	return 0;
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

static void tally_up(const struct stack_batch *b, uint32_t pid, uint8_t kind,
		     const char *const *chain, struct tally *t)
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

/* Until so many more samples were taken: how long that takes is the machine's affair. */
static void let_sample(struct sampler *s, uint64_t count)
{
	struct sampler_stats stats;
	uint64_t until;

	sampler_stats_get(s, &stats);
	until = stats.samples + count;
	for (int i = 0; i < 400 && stats.samples < until; i++) {
		let_run(s, 50);
		sampler_stats_get(s, &stats);
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
	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_drain(s, &b), 0);
	stack_batch_fini(&b);
}

static void options_of(struct sampler_options *o, enum sampler_mode mode, bool whole)
{
	sampler_options_init(o);
	o->mode_max = mode;
	o->off_cpu = o->python = whole;
	o->rate_hz = 999;
	o->fraction_percent = 100;
	o->off_cpu_min_ns = 10000000;
}

/* One sampler per group: loading it takes seconds, most of them the kernel's verifier. */
static int open_mode(enum sampler_mode mode, bool whole)
{
	struct sampler_options o;
	struct sampler_stats stats;

	mode_wanted = mode;
	options_of(&o, mode, whole);
	if (sampler_open(&shared, &o))
		return -1;
	sampler_stats_get(shared, &stats);
	if (stats.missing[0])
		print_message("# missing: %s\n", stats.missing);
	if (stats.mode == mode)
		return 0;
	print_message("# wanted %s, got %s: %s\n", sampler_mode_name(mode),
		      sampler_mode_name(stats.mode), stats.why);
	return -1;
}

static int close_mode(void **state)
{
	sampler_close(shared);
	shared = NULL;
	return 0;
}

static const char *const spin_chain[] = {"target_spin",
					 "target_inner",
					 "target_middle",
					 "target_middle",
					 "target_middle",
					 "target_middle",
					 "target_middle",
					 "target_middle",
					 "target_outer",
					 "main",
					 NULL};

/* ---- the cases ---- */

static void finds_the_known_chain(void **state)
{
	struct sampler *s = shared;
	pid_t pid = start_target("spin");
	struct stack_batch b;
	struct tally t;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	let_sample(s, 100);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, spin_chain, &t);
	print_message("# %s: %lu samples, %lu with the chain, %lu to the root\n",
		      sampler_mode_name(mode_wanted), t.samples, t.chained, t.rooted);
	assert_true(t.samples >= 20);
	/* between two calls of target_outer the chain is shorter */
	assert_true(t.chained * 100 >= t.samples * 95);
	/* after a loss of copies stacks are guessed until the mappings are read again */
	assert_true(t.rooted * 100 >= t.samples * (mode_wanted == SAMPLER_COPY ? 50 : 99));
	assert_int_equal(t.weight_ns, t.samples * (100000000000ull / 999 / 100));
	stack_batch_fini(&b);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

/* While a file's table is still being made, frames are guessed: such a stack has no root. */
static void claims_no_root_before_the_tables(void **state)
{
	static const char *const none[] = {NULL};
	struct sampler *s = shared;
	struct sampler_stats before, after;
	pid_t pid = start_target("spin");
	struct stack_batch b;
	struct tally t;

	sampler_stats_get(s, &before);
	let_run(s, 200);
	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_run(s, 400); /* from the first mapping on, tables come one by one */
	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, none, &t);
	for (uint32_t i = 0; i < b.sample_count; i++) {
		const struct stack *k = &b.stacks[b.samples[i].stack];

		if (b.samples[i].pid != (uint32_t)pid || k->end != STACK_END_ROOT)
			continue;
		for (uint32_t f = 0; f < k->count; f++)
			assert_false(b.frames[k->first + f].flags & STACK_FRAME_SCANNED);
	}
	sampler_stats_get(s, &after);
	print_message("# at first: %lu samples, %lu to the root, %lu before the tables\n",
		      t.samples, t.rooted, after.early - before.early);
	stack_batch_fini(&b);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

/* Behind code without rules every caller is a guess: never a whole stack, also where it ends at a root. */
static void a_guessed_stack_does_not_count_as_whole(void **state)
{
	uint64_t guessed = 0, whole = 0, other = 0;
	struct sampler *s = shared;
	struct sampler_stats before, after;
	pid_t pid = start_target("jit");
	struct stack_batch b;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	sampler_stats_get(s, &before);
	let_run(s, 400);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_drain(s, &b), 0);
	for (uint32_t i = 0; i < b.sample_count; i++) {
		const struct stack_sample *x = &b.samples[i];
		const struct stack *k = &b.stacks[x->stack];
		bool jit = false;

		for (uint32_t f = 0; f < k->count; f++)
			jit |= b.frames[k->first + f].kind == STACK_FRAME_ANONYMOUS;
		if (x->pid != (uint32_t)pid || x->kind != STACK_ON_CPU || !jit)
			continue;
		whole += k->end == STACK_END_ROOT ? x->count : 0;
		guessed += k->end == STACK_END_GUESSED ? x->count : 0;
		other += k->end != STACK_END_ROOT && k->end != STACK_END_GUESSED ? x->count : 0;
	}
	sampler_stats_get(s, &after);
	print_message("# through code without rules: %lu guessed, %lu cut, %lu whole\n", guessed,
		      other, whole);
	assert_int_equal(whole, 0);
	/* a copy of the stack shows no code, and ends there */
	assert_true((mode_wanted == SAMPLER_COPY ? other : guessed) > 20);
	assert_true(after.guessed - before.guessed >= guessed);
	stack_batch_fini(&b);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

static void follows(const char *what, bool root_is_enough, const char *const *chain)
{
	struct sampler *s = shared;
	pid_t pid = start_target(what);
	struct stack_batch b;
	struct tally t;

	assert_int_equal(sampler_add(s, (uint32_t)pid, true), 0);
	stack_batch_init(&b, keyed_process());
	/* it forks, execs or loads 300 ms after its start, and a busy machine takes its time */
	for (int i = 0; i < 20; i++) {
		let_run(s, 400);
		let_settle(s);
		let_sample(s, 100);
		stack_batch_clear(&b);
		assert_int_equal(sampler_drain(s, &b), 0);
		tally_up(&b, 0, STACK_ON_CPU, chain, &t);
		if (t.chained && t.rooted * 100 >= t.samples * 99)
			break;
	}
	print_message("# %s: %lu samples, %lu with the chain, %lu to the root\n", what, t.samples,
		      t.chained, t.rooted);
	assert_true(t.samples >= 20);
	assert_true(t.chained * 100 >= t.samples * 90);
	assert_true(!root_is_enough || t.rooted * 100 >= t.samples * 99);
	stack_batch_fini(&b);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
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

/* ---- targets/target_rules: the same code with other rules ---- */

#define RULES_DEPTH 12

static const char *rules_file(char to[4200], const char *name)
{
	const char *slash = strrchr(self, '/');

	snprintf(to, 4200, "%.*s/../targets/%s", (int)(slash - self), self, name);
	return to;
}

static pid_t start_rules(const char *program, const char *first, const char *second)
{
	char file[3][4200];
	pid_t pid;

	rules_file(file[0], program);
	pid = start_command(file[0], first ? rules_file(file[1], first) : NULL,
			    first ? rules_file(file[2], second) : NULL);
	return pid;
}

/* Stacks that count as whole and have as many frames between callback and main as there are, or not. */
static void count_rules(const struct stack_batch *b, pid_t pid, uint64_t *right, uint64_t *wrong,
			uint64_t *flagged)
{
	struct symbol_resolver_options o = {0};
	struct names n = {.batch = b};

	*right = *wrong = *flagged = 0;
	assert_int_equal(symbol_resolver_open(&n.resolver, &o), 0);
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];
		const struct stack *k = &b->stacks[s->stack];
		uint32_t callback = UINT32_MAX, outer = UINT32_MAX;

		if (s->pid != (uint32_t)pid || s->kind != STACK_ON_CPU)
			continue;
		for (uint32_t f = 0; f < k->count; f++) {
			const char *name = frame_name(&n, &b->frames[k->first + f]);

			callback = strcmp(name, "callback") ? callback : f;
			outer = strcmp(name, "main") ? outer : f;
		}
		if (callback == UINT32_MAX)
			continue; /* on its way, or the dynamic linker's */
		if (k->end != STACK_END_ROOT)
			*flagged += s->count;
		else if (outer - callback - 1 == RULES_DEPTH)
			*right += s->count;
		else
			*wrong += s->count;
	}
	symbol_resolver_close(n.resolver);
}

/* A Build ID is what whoever links writes: another program's rules are not this one's. */
static void a_forged_build_id_gets_its_own_rules(void **state)
{
	uint64_t right, wrong, flagged;
	struct sampler *s = shared;
	pid_t pid[2];
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	pid[0] = start_rules("target_rules_88", NULL, NULL);
	assert_int_equal(sampler_add(s, (uint32_t)pid[0], false), 0);
	let_run(s, 300); /* until it is its own program, not this one */
	let_settle(s);
	pid[1] = start_rules("target_rules_24", NULL, NULL);
	assert_int_equal(sampler_add(s, (uint32_t)pid[1], false), 0);
	let_run(s, 300);
	let_settle(s);
	let_sample(s, 200);
	assert_int_equal(sampler_drain(s, &b), 0);
	for (int i = 0; i < 2; i++) {
		count_rules(&b, pid[i], &right, &wrong, &flagged);
		print_message("# %s: %lu right, %lu wrong, %lu flagged\n",
			      i ? "the second" : "the first", right, wrong, flagged);
		assert_true(right >= 20);
		assert_int_equal(wrong, 0);
		/* a busy machine loses copies, and perhaps a mapping among them */
		assert_true(flagged * (mode_wanted == SAMPLER_COPY ? 2 : 20) <= right);
		sampler_remove(s, (uint32_t)pid[i]);
		stop_target(pid[i]);
	}
	stack_batch_fini(&b);
}

/* Another library in the first one's place every 3 ms: what is not known yet is never whole. */
static void a_library_in_anothers_place_is_right_or_flagged(void **state)
{
	uint64_t right, wrong, flagged;
	struct sampler *s = shared;
	pid_t pid = start_rules("target_rules_24", "target_rules_24.so", "target_rules_88.so");
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_run(s, 300);
	let_sample(s, 2000);
	assert_int_equal(sampler_drain(s, &b), 0);
	count_rules(&b, pid, &right, &wrong, &flagged);
	print_message("# %lu right, %lu wrong, %lu flagged\n", right, wrong, flagged);
	assert_true(right + flagged >= 100);
	assert_int_equal(wrong, 0);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
	stack_batch_fini(&b);
}

static void measures_blocked_time(void **state)
{
	static const char *const chain[] = {"__schedule", "target_nap", "target_sleeper", "main",
					    NULL};
	struct sampler *s = shared;
	pid_t pid = start_target("sleep");
	struct sampler_stats stats;
	struct stack_batch b;
	struct tally t;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	let_sample(s, 10);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_OFF_CPU, chain, &t);
	sampler_stats_get(s, &stats);
	print_message("# off CPU: %lu sleeps of %lu us on average, %lu with the chain\n", t.samples,
		      t.samples ? t.weight_ns / t.samples / 1000 : 0, t.chained);
	assert_true(t.samples >= 4);
	/* a busy machine has it wait elsewhere too, for a page or a lock */
	assert_true(t.chained * 10 >= t.samples * 7);
	/* nanosleep never sleeps shorter than asked; the drains cut the first and the last */
	assert_true(t.chained_weight_ns >= (t.chained - 2) * SLEEP_MS * 1000000ull);
	stack_batch_fini(&b);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

/* A sleep over many drains is in each of them with its part, and not again when it ends; a thread
 * that never wakes is in every drain, with all of the time. */
static void reports_threads_that_sleep_on(void **state)
{
	static const char *const chain[2][4] = {{"target_long_nap", "main"},
						{"target_hang", "main"}};
	struct sampler *s = shared;
	uint64_t begin = clock_monotonic_ns(), end = 0, napped = 0, drains = 0;
	pid_t pid = start_target("hang");
	struct stack_batch b;
	struct tally nap, hang;
	int hung = 0;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	/* the hang follows the nap; how long they take is the machine's affair */
	for (int i = 0; i < 400 && hung < 4; i++) {
		let_run(s, 300);
		stack_batch_init(&b, keyed_process());
		assert_int_equal(sampler_drain(s, &b), 0);
		tally_up(&b, (uint32_t)pid, STACK_OFF_CPU, chain[0], &nap);
		tally_up(&b, (uint32_t)pid, STACK_OFF_CPU, chain[1], &hang);
		napped += nap.chained_weight_ns;
		drains += nap.chained > 0;
		if (hung) { /* since before this period: all of it, and nothing else */
			assert_int_equal(hang.samples, 1);
			assert_int_equal(hang.chained_weight_ns, b.end_ns - b.begin_ns);
		} else if (hang.chained) {
			end = clock_monotonic_ns();
		}
		hung += hang.chained > 0;
		stack_batch_fini(&b);
	}
	print_message("# sleeps on: %lu ms in %lu drains, then a hang\n", napped / 1000000, drains);
	assert_int_equal(hung, 4);
	assert_true(drains >= 3);
	/* reported twice it would be more than the time that went by */
	assert_true(napped <= end - begin);
	assert_true(napped >= LONG_NAP_S * 900000000ull);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

static void shows_kernel_stacks(void **state)
{
	static const char *const chain[] = {"read_zero", "vfs_read", "target_reader", "main", NULL};
	static const char *const iter_chain[] = {"read_iter_zero", "vfs_read", "target_reader",
						 "main", NULL};
	/* the kernel's other ways, as those into and out of the call, have no read_zero */
	static const char *const inside[] = {"read_zero", NULL};
	static const char *const iter_inside[] = {"read_iter_zero", NULL};
	struct sampler *s = shared;
	pid_t pid = start_target("read");
	struct stack_batch b;
	struct tally t, iter, in, iter_in;

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	stack_batch_init(&b, keyed_process());
	/* not of all samples: a sanitizer's read() has work of its own */
	do {
		let_sample(s, 100);
		assert_int_equal(sampler_drain(s, &b), 0);
		tally_up(&b, (uint32_t)pid, STACK_ON_CPU, chain, &t);
	} while (t.samples < 10000 && t.kernel < 20);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, iter_chain, &iter);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, inside, &in);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, iter_inside, &iter_in);
	print_message(
	    "# read: %lu samples, %lu in the kernel, %lu in the read, %lu with the chain\n",
	    t.samples, t.kernel, in.chained + iter_in.chained, t.chained + iter.chained);
	assert_true(t.kernel >= 20);
	assert_true((in.chained + iter_in.chained) * 2 >= t.kernel);
	assert_true((t.chained + iter.chained) * 100 >= (in.chained + iter_in.chained) * 95);
	stack_batch_fini(&b);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

static uint64_t drain_count(struct sampler *s, struct stack_batch *b)
{
	uint64_t count = 0;

	stack_batch_clear(b);
	assert_int_equal(sampler_drain(s, b), 0);
	for (uint32_t i = 0; i < b->sample_count; i++)
		count += b->samples[i].count;
	return count;
}

/* Every sample that the kernel took is in one batch or was counted as lost: 40 swaps under load. */
static void loses_nothing_in_the_swap(void **state)
{
	struct sampler *s = shared;
	pid_t pid[4];
	struct sampler_stats before, after;
	struct stack_batch b;
	uint64_t counted = 0;

	stack_batch_init(&b, keyed_process());
	drain_count(s, &b); /* nothing is sampled now */
	sampler_stats_get(s, &before);
	for (int i = 0; i < 4; i++) {
		pid[i] = start_target(i & 1 ? "sleep" : "spin");
		assert_int_equal(sampler_add(s, (uint32_t)pid[i], false), 0);
	}
	for (int i = 0; i < 40; i++) {
		let_run(s, 15);
		counted += drain_count(s, &b);
	}
	for (int i = 0; i < 4; i++) {
		sampler_remove(s, (uint32_t)pid[i]);
		stop_target(pid[i]);
	}
	counted += drain_count(s, &b) + drain_count(s, &b);
	sampler_stats_get(s, &after);
	print_message("# swap: %lu taken, %lu drained, lost %lu %lu %lu\n",
		      after.samples - before.samples, counted, after.lost_count_full,
		      after.lost_ring_full, after.lost_stack_full);
	assert_true(counted > 100);
	assert_int_equal(counted + after.lost_count_full - before.lost_count_full,
			 after.samples - before.samples);
	/* A tick that interrupts the other program while it holds the ring's lock on the same CPU is
	 * refused: that sample counts, without its stack, and is reported. */
	assert_true(after.lost_ring_full - before.lost_ring_full <= counted / 50);
	stack_batch_fini(&b);
}

static uint64_t cpu_time_ns(pid_t pid)
{
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	return clock_ns(clock);
}

/* The weights of a busy process's samples add up to its CPU time, at any rate and fraction. */
static void check_weight(struct sampler *s, pid_t pid, uint32_t rate_hz, uint32_t fraction_percent,
			 uint64_t weight_ns, uint64_t count)
{
	struct stack_batch b;
	struct tally t;
	uint64_t begin, used;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_set_rate(s, rate_hz, fraction_percent), 0);
	assert_int_equal(sampler_drain(s, &b), 0);
	begin = cpu_time_ns(pid);
	let_sample(s, count);
	stack_batch_clear(&b);
	assert_int_equal(sampler_drain(s, &b), 0);
	used = cpu_time_ns(pid) - begin;
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, spin_chain, &t);
	print_message("# %u Hz, %u%%: %lu samples weigh %lu ms, CPU time %lu ms\n", rate_hz,
		      fraction_percent, t.samples, t.weight_ns / 1000000, used / 1000000);
	assert_int_equal(t.weight_ns, t.samples * weight_ns);
	assert_true(t.weight_ns > used / 2 && t.weight_ns < used * 3 / 2);
	stack_batch_fini(&b);
}

static void changes_rate_and_fraction(void **state)
{
	struct sampler *s = shared;
	pid_t pid = start_target("spin");

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	assert_int_equal(sampler_set_rate(s, 1000, 100), -EINVAL);
	assert_int_equal(sampler_set_rate(s, 9, 100), -EINVAL);
	assert_int_equal(sampler_set_rate(s, 99, 0), -EINVAL);
	let_settle(s);
	check_weight(s, pid, 999, 20, 100000000000ull / 999 / 20, 80);
	check_weight(s, pid, 99, 100, 1000000000ull / 99, 80);
	assert_int_equal(sampler_set_rate(s, 999, 100), 0);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

/* The fraction holds for all other threads. */
static void samples_a_recorded_thread_at_every_tick(void **state)
{
	struct sampler *s = shared;
	pid_t pid = start_target("spin");

	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	assert_int_equal(sampler_record_switches(s, (uint32_t)pid, (uint32_t)pid, true), 0);
	check_weight(s, pid, 499, 1, 1000000000ull / 499, 200);
	assert_int_equal(sampler_record_switches(s, (uint32_t)pid, (uint32_t)pid, false), 0);
	let_settle(s);
	check_weight(s, pid, 999, 50, 100000000000ull / 999 / 50, 80);
	assert_int_equal(sampler_set_rate(s, 999, 100), 0);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

/* Python functions stand between the interpreter's frames, with their lines. */
static void names_python_frames(void **state)
{
	static const char *const program = "def leaf():\n"
					   "    return sum(i * i for i in range(2000))\n"
					   "def caller():\n"
					   "    return leaf()\n"
					   "while True:\n"
					   "    caller()\n";
	static const char *const chain[] = {"leaf", "caller", "<module>", NULL};
	struct sampler *s = shared;
	struct stack_batch b;
	struct tally t;
	pid_t pid;

	if (access("/usr/bin/python3", X_OK))
		skip_needs("file:/usr/bin/python3");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/usr/bin/python3", "python3", "-c", program, NULL);
		_exit(127);
	}
	let_run(s, 300);
	assert_int_equal(sampler_add(s, (uint32_t)pid, false), 0);
	let_settle(s);
	let_sample(s, 100);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_drain(s, &b), 0);
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, chain, &t);
	print_message("# python: %lu samples, %lu with the chain, %lu to the root\n", t.samples,
		      t.chained, t.rooted);
	assert_true(t.chained * 100 >= t.samples * 90);
	for (uint32_t i = 0; i < b.frame_count; i++) {
		if (b.frames[i].kind == STACK_FRAME_PYTHON &&
		    !strcmp(stack_batch_text(&b, b.frames[i].object), "caller"))
			assert_in_range(b.frames[i].line, 3, 4); /* on its way in, or in the call */
	}
	for (uint32_t i = 0; i < b.sample_count; i++) {
		if (b.samples[i].pid == (uint32_t)pid && b.samples[i].kind == STACK_ON_CPU)
			assert_int_equal(b.samples[i].gil, STACK_GIL_HOLDER);
	}
	stack_batch_fini(&b);
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
}

/* Processes that end while they are read; none may stay behind. */
static void survives_processes_that_end_at_once(void **state)
{
	struct sampler *s = shared;
	pid_t pid = start_target("churn");
	struct sampler_stats stats;
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_add(s, (uint32_t)pid, true), 0);
	for (int i = 0; i < 10; i++) {
		let_run(s, 100);
		drain_count(s, &b);
	}
	sampler_remove(s, (uint32_t)pid);
	stop_target(pid);
	for (int i = 0; i < 400; i++) { /* a busy machine takes its time to end them */
		let_run(s, 50);
		drain_count(s, &b);
		sampler_stats_get(s, &stats);
		if (i > 2 && stats.processes <= 1)
			break;
	}
	print_message("# churn: %u processes left\n", stats.processes);
	assert_true(stats.processes <= 1);
	stack_batch_fini(&b);
}

static void samples_the_whole_node(void **state)
{
	pid_t before = start_target("spin"), after;
	struct tally t[2] = {{0}};
	struct sampler_options o;
	struct stack_batch b;
	struct sampler *s;

	options_of(&o, mode_wanted, false);
	o.all_processes = true;
	assert_int_equal(sampler_open(&s, &o), 0);
	after = start_target("spin");
	stack_batch_init(&b, keyed_process());
	/* reading a whole node takes as long as it takes */
	for (int i = 0; i < 200 && !(t[0].chained && t[1].chained); i++) {
		let_run(s, 100);
		stack_batch_clear(&b);
		assert_int_equal(sampler_drain(s, &b), 0);
		tally_up(&b, (uint32_t)before, STACK_ON_CPU, spin_chain, &t[0]);
		tally_up(&b, (uint32_t)after, STACK_ON_CPU, spin_chain, &t[1]);
	}
	print_message("# node: %lu and %lu samples, %lu and %lu with the chain\n", t[0].samples,
		      t[1].samples, t[0].chained, t[1].chained);
	assert_true(t[0].chained > 0 && t[1].chained > 0);
	stop_target(before);
	stop_target(after);
	sampler_close(s);
	stack_batch_fini(&b);
}

/* In a PID namespace of its own, as in a container: the first process of it is this one. */
static int in_namespace(void)
{
	struct stack_batch b;
	struct tally t;
	pid_t pid;

	if (getpid() != 1 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL))
		return 77;
	if (open_mode(SAMPLER_BPF_LOOP, false))
		return 1;
	pid = start_target("spin");
	if (sampler_add(shared, (uint32_t)pid, true))
		return 2;
	let_settle(shared);
	let_sample(shared, 50);
	stack_batch_init(&b, keyed_process());
	if (sampler_drain(shared, &b))
		return 3;
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, spin_chain, &t);
	print_message("# namespace: pid %d, %lu samples, %lu with the chain\n", (int)pid, t.samples,
		      t.chained);
	stop_target(pid);
	sampler_close(shared);
	return pid < 100 && t.samples >= 20 && t.chained * 100 >= t.samples * 90 ? 0 : 4;
}

static void speaks_of_pids_as_its_namespace_does(void **state)
{
	pid_t pid = fork(), inner;
	int status;

	if (!pid) {
		if (unshare(CLONE_NEWPID | CLONE_NEWNS))
			_exit(77);
		inner = fork();
		if (!inner)
			_exit(in_namespace());
		_exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status)
									       : 9);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_needs("mounts");
	assert_int_equal(status, 0);
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
	stack_batch_init(&b, keyed_process());
	assert_int_equal(sampler_add(s, (uint32_t)getpid(), false), 0);
	assert_int_equal(sampler_drain(s, &b), 0);
	assert_int_equal(b.sample_count, 0);
	stack_batch_fini(&b);
	sampler_close(s);
}

/* Readers read the files of others, and this process opens none of them. */
static bool holds_open(const char *path)
{
	DIR *d = opendir("/proc/self/fd");
	bool found = false;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		char to[PATH_MAX];
		ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);

		to[n > 0 ? n : 0] = 0;
		found |= !strcmp(to, path);
	}
	closedir(d);
	return found;
}

/* What nobody gets: copied stacks, with the reason why not more. Runs in a child that gave up root.
 */
static int as_nobody(void)
{
	static const char *const chain[] = {"target_inner", "target_middle", "target_outer", "main",
					    NULL};
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
	print_message("# as nobody: %s; why: %s; missing: %s\n", sampler_mode_name(stats.mode),
		      stats.why, stats.missing);
	if (stats.mode == SAMPLER_OFF)
		return strstr(stats.why, "perf_event_paranoid") ? 77 : 3;
	if (stats.mode != SAMPLER_COPY || !stats.why[0])
		return 4;
	pid = start_target("spin");
	poll(NULL, 0, 100);
	if (sampler_add(s, (uint32_t)pid, false))
		return 5;
	let_settle(s);
	let_sample(s, 400);
	stack_batch_init(&b, keyed_process());
	if (sampler_drain(s, &b))
		return 6;
	tally_up(&b, (uint32_t)pid, STACK_ON_CPU, chain, &t);
	print_message("# as nobody: %lu samples, %lu with the chain, %lu to the root\n", t.samples,
		      t.chained, t.rooted);
	if (holds_open(self))
		return 8;
	stop_target(pid);
	stack_batch_fini(&b);
	sampler_close(s);
	return t.samples >= 20 && t.chained * 100 >= t.samples * 95 &&
		       t.rooted * 100 >= t.samples * 99
		   ? 0
		   : 7;
}

static void gives_an_ordinary_user_copied_stacks(void **state)
{
	char dir[] = "/tmp/sysom-test-XXXXXX", built[sizeof(self)], command[2 * sizeof(self) + 64];
	int status;
	pid_t pid;

	/* the build tree may be in a directory that is closed to others, as /root is */
	assert_non_null(mkdtemp(dir));
	memcpy(built, self, sizeof(self));
	snprintf(self, sizeof(self), "%s/target", dir);
	snprintf(command, sizeof(command), "chmod 755 %s && cp '%s' %s", dir, built, self);
	assert_int_equal(system(command), 0);
	pid = fork();
	if (!pid)
		_exit(as_nobody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	unlink(self);
	rmdir(dir);
	memcpy(self, built, sizeof(self));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_needs("own-perf");
	assert_int_equal(status, 0);
}

static int as_loop(void **state)
{
	return open_mode(SAMPLER_BPF_LOOP, true);
}

static int as_tail(void **state)
{
	return open_mode(SAMPLER_BPF_TAIL, true);
}

static int as_copy(void **state)
{
	return open_mode(SAMPLER_COPY, false);
}

#define CASE(f) cmocka_unit_test_teardown(f, clean_up)
#define CASES_ANY                                                                                  \
	CASE(a_guessed_stack_does_not_count_as_whole), CASE(finds_the_known_chain),                \
	    CASE(follows_a_fork), CASE(follows_an_exec), CASE(follows_a_dlopen),                   \
	    CASE(a_forged_build_id_gets_its_own_rules),                                            \
	    CASE(a_library_in_anothers_place_is_right_or_flagged)
#define CASES                                                                                      \
	CASE(claims_no_root_before_the_tables), CASES_ANY, CASE(measures_blocked_time),            \
	    CASE(reports_threads_that_sleep_on), CASE(shows_kernel_stacks),                        \
	    CASE(loses_nothing_in_the_swap), CASE(changes_rate_and_fraction),                      \
	    CASE(samples_a_recorded_thread_at_every_tick), CASE(names_python_frames),              \
	    CASE(survives_processes_that_end_at_once), CASE(samples_the_whole_node)

int main(int argc, char **argv)
{
	const struct CMUnitTest any[] = {
	    cmocka_unit_test(says_why_it_is_off),
	    cmocka_unit_test(gives_an_ordinary_user_copied_stacks),
	};
	const struct CMUnitTest root[] = {cmocka_unit_test(speaks_of_pids_as_its_namespace_does)};
	const struct CMUnitTest loop[] = {CASES};
	const struct CMUnitTest tail[] = {CASES};
	const struct CMUnitTest copy[] = {CASES_ANY};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int failed;

	if (argc > 1)
		return run_target(argv[1]);
	if (n <= 0)
		return 1;
	failed = cmocka_run_group_tests_name("sampler", any, NULL, NULL);
	if (!getuid() && !access("/sys/kernel/btf/vmlinux", R_OK)) {
		failed += cmocka_run_group_tests_name("sampler in a namespace", root, NULL, NULL);
		failed +=
		    cmocka_run_group_tests_name("sampler with bpf_loop", loop, as_loop, close_mode);
		failed += cmocka_run_group_tests_name("sampler with tail calls", tail, as_tail,
						      close_mode);
		failed +=
		    cmocka_run_group_tests_name("sampler with copies", copy, as_copy, close_mode);
	}
	return failed;
}

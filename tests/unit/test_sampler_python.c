/* SPDX-License-Identifier: Apache-2.0
 * The sampler on running interpreters: Python and native frames joined, and who has the GIL. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <poll.h>

#include "base/clock.h"
#include "base/limits.h"
#include "model/stack.h"
#include "sampler/sampler.h"
#include "sampler/sampler_maps.h"
#include "tests/unit/python_target.h"
#include "tests/unit/skip.h"

struct run {
	struct target target;
	struct truth truth;
	struct sampler *sampler;
	struct stack_batch batch;
	struct sampler_stats stats;
};

static const char *python;

/* Samples the script until there are so many (or for 60 s, on a machine that has other things to do).
 * False: this machine has no such mode. */
static bool run_start(struct run *r, const char *script, enum sampler_mode mode, uint64_t samples)
{
	struct sampler_options o;
	uint64_t end, before = 0;

	memset(r, 0, sizeof(*r));
	sampler_options_init(&o);
	o.mode_max = mode;
	o.rate_hz = 499;
	o.fraction_percent = 100;
	o.off_cpu_min_ns = 200000;
	assert_int_equal(sampler_open(&r->sampler, &o), 0);
	sampler_stats_get(r->sampler, &r->stats);
	if (r->stats.mode != mode) {
		print_message("# no %s: %s\n", sampler_mode_name(mode), r->stats.why);
		sampler_close(r->sampler);
		return false;
	}
	stack_batch_init(&r->batch, keyed_process());
	target_start(&r->target, python, script, NULL);
	assert_true(truth_read(&r->truth, r->target.output));
	assert_int_equal(sampler_add(r->sampler, (uint32_t)r->truth.pid, true), 0);
	end = clock_monotonic_ns() + 60000000000ull;
	while (clock_monotonic_ns() < end && r->stats.samples - before < samples) {
		struct pollfd p = {.fd = sampler_fd(r->sampler), .events = POLLIN};

		poll(&p, 1, 50);
		sampler_poll(r->sampler);
		sampler_stats_get(r->sampler, &r->stats);
		/* what was sampled before the tables were there is cut */
		if (r->stats.pending) {
			assert_int_equal(sampler_drain(r->sampler, &r->batch), 0);
			stack_batch_clear(&r->batch);
			before = r->stats.samples;
		}
	}
	assert_int_equal(sampler_drain(r->sampler, &r->batch), 0);
	sampler_stats_get(r->sampler, &r->stats);
	return true;
}

static void run_end(struct run *r)
{
	target_end(&r->target);
	truth_free(&r->truth);
	stack_batch_fini(&r->batch);
	sampler_close(r->sampler);
}

static bool is(const struct run *r, const struct stack_frame *f, const char *name)
{
	const char *text, *dot;

	if (f->kind != STACK_FRAME_PYTHON)
		return false;
	text = stack_batch_text(&r->batch, f->object);
	dot = strrchr(text, '.'); /* qualified from 3.11 on */
	return !strcmp(text, name) || (dot && !strcmp(dot + 1, name));
}

/* From the root: <module>, main, 11 of recurse, spread; then C; order; perhaps C; __lt__ or __init__... */
static bool chain_is_right(const struct run *r, const struct stack *k)
{
	const struct stack_frame *f = &r->batch.frames[k->first];
	static const char *const OUTER[] = {"<module>", "main",	   "recurse", "recurse", "recurse",
					    "recurse",	"recurse", "recurse", "recurse", "recurse",
					    "recurse",	"recurse", "recurse", "spread"};
	unsigned int next = 0, natives = 0;
	int order = -1;

	for (uint32_t i = k->count; i-- > 0;) {
		if (f[i].kind != STACK_FRAME_PYTHON) {
			natives += next == ARRAY_LEN(OUTER);
			continue;
		}
		if (next < ARRAY_LEN(OUTER)) {
			if (!is(r, &f[i], OUTER[next++]))
				return false;
		} else if (order < 0) {
			/* map() stands between */
			if (!is(r, &f[i], "order") || !natives)
				return false;
			order = (int)i;
			natives = 0;
		} else if (is(r, &f[i], "__lt__")) {
			return natives > 0 && stack_batch_text(&r->batch, f[i].file)[0] == '/' &&
			       f[i].line >= 19 && f[i].line <= 21;
		} else {
			return is(r, &f[i], "__init__") || is(r, &f[i], "<listcomp>");
		}
	}
	/* on its way in or out */
	return next > 2;
}

/* Root first, native frames as a dot. */
static void chain_print(const struct run *r, const struct stack *k)
{
	const struct stack_frame *f = &r->batch.frames[k->first];

	print_message("#");
	for (uint32_t i = k->count; i-- > 0;) {
		if (f[i].kind == STACK_FRAME_PYTHON)
			print_message(" %s:%u", stack_batch_text(&r->batch, f[i].object),
				      f[i].line);
		else
			print_message(" .");
	}
	print_message("\n");
}

static void joined(enum sampler_mode mode)
{
	uint64_t samples = 0, right = 0, whole = 0, shims = 0, gil = 0, printed = 0;
	struct run r;

	if (!run_start(&r, "tests/python/busy.py", mode, 200)) {
		skip_needs("bpf");
		return;
	}
	for (uint32_t i = 0; i < r.batch.sample_count; i++) {
		const struct stack_sample *s = &r.batch.samples[i];
		const struct stack *k = &r.batch.stacks[s->stack];
		bool has = false, scanned = false;

		if (s->kind != STACK_ON_CPU || s->pid != (uint32_t)r.truth.pid)
			continue;
		samples += s->count;
		gil += s->gil == STACK_GIL_HOLDER ? s->count : 0;
		for (uint32_t n = 0; n < k->count; n++) {
			has |= (r.batch.frames[k->first + n].flags & STACK_FRAME_SHIM) != 0;
			scanned |= (r.batch.frames[k->first + n].flags & STACK_FRAME_SCANNED) != 0;
		}
		shims += has ? s->count : 0;
		/* before the tables are there, native stacks are cut or guessed */
		if (k->end != STACK_END_ROOT || scanned)
			continue;
		whole += s->count;
		if (chain_is_right(&r, k))
			right += s->count;
		else if (++printed <= 3)
			chain_print(&r, k);
	}
	print_message(
	    "# %s, %s: %lu samples, %lu to the root by tables, %lu with the right chain, "
	    "%lu with a loop left over, %lu with the GIL; %lu Python frames, %lu failed\n",
	    python, sampler_mode_name(mode), samples, whole, right, shims, gil,
	    r.stats.python_frames, r.stats.python_failed);
	assert_true(whole > 30);
	assert_true(right * 100 >= whole * 98);
	assert_true(shims * 100 <= samples * 2);
	assert_true(gil * 100 >= samples * 98);
	run_end(&r);
}

/* How long its main thread slept, and for how much of it the function's name is known. */
static uint64_t slept(const struct run *r, uint64_t *named_ns)
{
	uint64_t ns = 0;

	*named_ns = 0;
	for (uint32_t i = 0; i < r->batch.sample_count; i++) {
		const struct stack_sample *s = &r->batch.samples[i];
		const struct stack *k = &r->batch.stacks[s->stack];

		if (s->kind != STACK_OFF_CPU || s->tid != (uint32_t)r->truth.pid)
			continue;
		ns += s->weight_ns;
		for (uint32_t n = 0; n < k->count; n++)
			if (is(r, &r->batch.frames[k->first + n], "wait_for_ever"))
				*named_ns += s->weight_ns;
	}
	return ns;
}

/* Every drain reports the threads that still sleep, with the names of their functions. */
static void who_sleeps_on_keeps_its_names(void **unused)
{
	uint64_t named_ns, slept_ns, end = clock_monotonic_ns() + 60000000000ull;
	int in_a_row = 0;
	struct run r;

	if (!run_start(&r, "tests/python/sleeper.py", SAMPLER_BPF_LOOP, 50)) {
		skip_needs("bpf");
		return;
	}
	assert_int_equal(kill(r.truth.pid, SIGUSR1), 0);
	/* a machine that is busy may not answer for a drain */
	while (in_a_row < 2 && clock_monotonic_ns() < end) {
		stack_batch_clear(&r.batch);
		assert_int_equal(sampler_drain(r.sampler, &r.batch), 0);
		slept_ns = slept(&r, &named_ns);
		in_a_row = slept_ns && named_ns == slept_ns ? in_a_row + 1 : 0;
	}
	assert_int_equal(in_a_row, 2);
	run_end(&r);
}

static void joined_by_loop(void **unused)
{
	joined(SAMPLER_BPF_LOOP);
}

static void joined_by_tail_calls(void **unused)
{
	joined(SAMPLER_BPF_TAIL);
}

/* Of one of greenlets.py's stacks, root first: which it is, or 0 if it is none of them. */
static char greenlet_of(const struct run *r, const struct stack *k)
{
	const struct stack_frame *f = &r->batch.frames[k->first];
	unsigned int natives = 0, own_frames = 0;
	char which = 0;

	for (uint32_t i = k->count; i-- > k->kernel_count;) {
		const char *name = stack_batch_text(&r->batch, f[i].object);
		char own = f[i].kind == STACK_FRAME_PYTHON && name[1] == '_' ? name[0] : 'm';

		if (f[i].flags & STACK_FRAME_SHIM)
			return 0;
		if (f[i].kind != STACK_FRAME_PYTHON) {
			natives++;
			continue;
		}
		if (!strcmp(name, "work"))
			return which;
		if (which && own != which)
			return 0;
		/* map() */
		if (!strcmp(name + 1, "_leaf") && !natives)
			return 0;
		which = own;
		natives = 0;
		own_frames++;
	}
	return own_frames ? which : 0;
}

static void switched_stacks_are_right_or_flagged(void **unused)
{
	uint64_t right[128] = {0}, wrong = 0, flagged = 0, samples = 0;
	char command[640];
	struct run r;

	snprintf(command, sizeof(command), "%.500s -c 'import greenlet' 2>/dev/null", python);
	if (system(command)) {
		snprintf(command, sizeof(command), "module:greenlet@%.500s", python);
		skip_needs(command);
		return;
	}
	if (!run_start(&r, "tests/python/greenlets.py", SAMPLER_BPF_LOOP, 400)) {
		skip_needs("bpf");
		return;
	}
	for (uint32_t i = 0; i < r.batch.sample_count; i++) {
		const struct stack_sample *s = &r.batch.samples[i];
		const struct stack *k = &r.batch.stacks[s->stack];
		char which = k->end == STACK_END_ROOT ? greenlet_of(&r, k) : 0;

		if (s->kind != STACK_ON_CPU)
			continue;
		samples += s->count;
		if (k->end != STACK_END_ROOT) {
			flagged += s->count;
		} else if (which) {
			right[(unsigned char)which] += s->count;
		} else if (!wrong++) {
			chain_print(&r, k);
		}
	}
	print_message(
	    "# %s: %lu samples, right: %lu of the first stack, %lu and %lu of the others; "
	    "%lu wrong, %lu flagged (%lu mismatches)\n",
	    python, samples, right['m'], right['a'], right['b'], wrong, flagged,
	    r.stats.python_mismatch);
	assert_int_equal(wrong, 0);
	assert_true(right['m'] > 10 && right['a'] > 10 && right['b'] > 10);
	assert_true(flagged * 50 <= samples);
	run_end(&r);
}

static void second_interpreters_are_right_or_flagged(void **unused)
{
	uint64_t found = 0, missing = 0, flagged = 0;
	char command[640];
	struct run r;

	snprintf(
	    command, sizeof(command),
	    "%.500s -c 'try: import _interpreters\nexcept ImportError: import _xxsubinterpreters' "
	    "2>/dev/null",
	    python);
	if (system(command)) {
		snprintf(command, sizeof(command), "module:_xxsubinterpreters@%.500s", python);
		skip_needs(command);
		return;
	}
	if (!run_start(&r, "tests/python/interpreters.py", SAMPLER_BPF_LOOP, 200)) {
		skip_needs("bpf");
		return;
	}
	for (uint32_t i = 0; i < r.batch.sample_count; i++) {
		const struct stack_sample *s = &r.batch.samples[i];
		const struct stack *k = &r.batch.stacks[s->stack];
		bool sub = false;

		if (s->kind != STACK_ON_CPU)
			continue;
		for (uint32_t n = 0; n < k->count; n++)
			sub |= is(&r, &r.batch.frames[k->first + n], "sub_run");
		found += sub ? s->count : 0;
		flagged += !sub && k->end != STACK_END_ROOT ? s->count : 0;
		if (!sub && k->end == STACK_END_ROOT && !missing++)
			chain_print(&r, k);
	}
	print_message("# %s: %lu with the second interpreter's frames, %lu flagged, %lu neither\n",
		      python, found, flagged, missing);
	assert_true(found + flagged > 30);
	/* a sample may fall between two loops, or before the second interpreter runs */
	assert_true(missing * 100 <= found + flagged);
	assert_true(found || r.stats.python_mismatch >= flagged - flagged / 10);
	run_end(&r);
}

static void holder_and_waiters(void **unused)
{
	uint64_t on[5] = {0}, off[5] = {0}, off_ns[5] = {0};
	struct run r;

	if (!run_start(&r, "tests/python/gil.py", SAMPLER_BPF_LOOP, 400)) {
		skip_needs("bpf");
		return;
	}
	for (uint32_t i = 0; i < r.batch.sample_count; i++) {
		const struct stack_sample *s = &r.batch.samples[i];

		assert_true(s->gil <= STACK_GIL_UNKNOWN);
		if (s->kind == STACK_ON_CPU) {
			on[s->gil] += s->count;
		} else {
			off[s->gil] += s->count;
			off_ns[s->gil] += s->weight_ns;
		}
	}
	print_message(
	    "# %s: on a CPU %lu holder, %lu waiter, %lu released, %lu none; off it %lu waiter "
	    "(%lu ms), %lu holder, %lu released\n",
	    python, on[STACK_GIL_HOLDER], on[STACK_GIL_WAITER], on[STACK_GIL_RELEASED],
	    on[STACK_GIL_NONE], off[STACK_GIL_WAITER], off_ns[STACK_GIL_WAITER] / 1000000,
	    off[STACK_GIL_HOLDER], off[STACK_GIL_RELEASED]);
	assert_true(on[STACK_GIL_HOLDER] > 20);
	/* one of three spins: the others are off the CPU as waiters */
	assert_true(on[STACK_GIL_HOLDER] > on[STACK_GIL_WAITER] + on[STACK_GIL_RELEASED]);
	assert_true(off[STACK_GIL_WAITER] > 20);
	assert_true(off_ns[STACK_GIL_WAITER] > off_ns[STACK_GIL_RELEASED]);
	run_end(&r);
}

static void a_refused_interpreter_is_reported(void **unused)
{
	const char *build = getenv("B");
	uint64_t native = 0, other = 0;
	char path[512];
	struct run r;

	snprintf(path, sizeof(path), "%s/python/old_python", build ? build : "build/gcc");
	python = path;
	if (!run_start(&r, NULL, SAMPLER_BPF_LOOP, 100)) {
		skip_needs("bpf");
		return;
	}
	for (uint32_t i = 0; i < r.batch.sample_count; i++) {
		const struct stack *k = &r.batch.stacks[r.batch.samples[i].stack];

		assert_int_equal(r.batch.samples[i].gil, STACK_GIL_NONE);
		for (uint32_t n = k->kernel_count; n < k->count; n++) {
			native += r.batch.frames[k->first + n].kind == STACK_FRAME_NATIVE;
			other += r.batch.frames[k->first + n].kind == STACK_FRAME_PYTHON;
		}
	}
	assert_int_equal(r.stats.python_refused, 1);
	assert_string_equal(r.stats.python_why, "CPython 3.9: not 3.10 to 3.14");
	assert_true(native > 0);
	assert_int_equal(other, 0);
	run_end(&r);
}

static void every_process_may_have_an_interpreter(void **unused)
{
	struct python_process p = {.minor = 11};
	char why[160] = "", missing[160] = "";
	struct sampler_options o;
	struct sampler_maps *m;

	sampler_options_init(&o);
	if (sampler_maps_open(&m, SAMPLER_BPF_LOOP, &o, why, missing)) {
		print_message("# %s\n", why);
		skip_needs("bpf");
		return;
	}
	for (uint32_t pid = 1; pid <= LIMIT_SAMPLER_PROCESSES; pid++)
		assert_int_equal(sampler_maps_python(m, pid, &p), 0);
	/* one more says so, and is counted by who asked */
	assert_int_equal(sampler_maps_python(m, LIMIT_SAMPLER_PROCESSES + 1, &p), -E2BIG);
	assert_int_equal(sampler_maps_python(m, 1, NULL), 0);
	assert_int_equal(sampler_maps_python(m, LIMIT_SAMPLER_PROCESSES + 1, &p), 0);
	sampler_maps_close(m);
}

static int choose(void **state)
{
	python = *state;
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		CMUnitTestFunction f;
	} CASES[] = {
	    {"joined_by_loop", joined_by_loop},
	    {"joined_by_tail_calls", joined_by_tail_calls},
	    {"who_sleeps_on_keeps_its_names", who_sleeps_on_keeps_its_names},
	    {"holder_and_waiters", holder_and_waiters},
	    {"switched_stacks_are_right_or_flagged", switched_stacks_are_right_or_flagged},
	    {"second_interpreters_are_right_or_flagged", second_interpreters_are_right_or_flagged},
	};
	static char path[16][512], names[16 * ARRAY_LEN(CASES)][640];
	struct CMUnitTest tests[16 * ARRAY_LEN(CASES) + 2];
	unsigned int count = target_interpreters(path, 16), n = 0;

	for (unsigned int i = 0; i < count; i++) {
		for (size_t k = 0; k < ARRAY_LEN(CASES); k++) {
			/* which kernel program walks makes no difference to the versions; the first
			 * interpreter is the system's, whose greenlet is installed */
			if (i && (CASES[k].f == joined_by_tail_calls ||
				  CASES[k].f == switched_stacks_are_right_or_flagged))
				continue;
			snprintf(names[n], sizeof(names[n]), "%s of %.500s", CASES[k].name,
				 path[i]);
			tests[n] = (struct CMUnitTest){names[n], CASES[k].f, choose, NULL, path[i]};
			n++;
		}
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_refused_interpreter_is_reported);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_process_may_have_an_interpreter);
	return _cmocka_run_group_tests("test_sampler_python", tests, n, NULL, NULL);
}

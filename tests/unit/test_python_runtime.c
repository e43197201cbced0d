/* SPDX-License-Identifier: Apache-2.0
 * Real interpreters, all that this machine has: each thread's frames as the interpreter itself lists
 * them against the walk, native frames by libdw. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <elfutils/libdwfl.h>

#include "bpf/python.h"
#include "sampler/python/python_names.h"
#include "sampler/python/python_runtime.h"
#include "sampler/python/python_stitch.h"
#include "tests/unit/python_target.h"

struct subject {
	struct target target;
	struct truth truth;
	struct stopped stopped;
	struct python_finder *finder;
	struct python_runtime runtime;
	struct python_memory memory;
	struct read_user reader;
	struct python_names *names;
	Dwfl *dwfl;
};

static const char *python; /* of the running case */

static const Dwfl_Callbacks CALLBACKS = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
};

static void subject_attach(struct subject *s, pid_t pid)
{
	struct reader_target t;
	int err;

	threads_stop(&s->stopped, pid);
	assert_int_equal(python_finder_open(&s->finder), 0);
	reader_target_direct(&t, "/proc", (uint32_t)pid);
	err = python_runtime_find(s->finder, &s->runtime, &t);
	if (err)
		print_error("%s\n", s->runtime.what);
	assert_int_equal(err, 0);
	assert_int_equal(python_memory_open(&s->memory, &t), 0);
	s->reader = python_memory_reader(&s->memory);
	assert_int_equal(python_names_open(&s->names, &s->runtime), 0);
	s->dwfl = dwfl_begin(&CALLBACKS);
	assert_non_null(s->dwfl);
	assert_int_equal(dwfl_linux_proc_report(s->dwfl, pid), 0);
	dwfl_report_end(s->dwfl, NULL, NULL);
	assert_int_equal(dwfl_linux_proc_attach(s->dwfl, pid, true), 0);
}

static void subject_start(struct subject *s, const char *script, const char *how)
{
	memset(s, 0, sizeof(*s));
	target_start(&s->target, python, script, how);
	assert_true(truth_read(&s->truth, s->target.output));
	subject_attach(s, s->truth.pid);
}

static void subject_end(struct subject *s)
{
	dwfl_end(s->dwfl);
	python_names_close(s->names);
	python_memory_close(&s->memory);
	python_finder_close(s->finder);
	threads_go(&s->stopped);
	truth_free(&s->truth);
	target_end(&s->target);
}

static void walk(struct subject *s, const struct user_regs_struct *regs, struct python_state *state)
{
	memset(state, 0xee, sizeof(*state));
	state->fsbase = regs->fs_base;
	state->futex = regs->orig_rax == 202 ? regs->rdi : 0;
	read_user_source = s->reader;
	python_walk(state, &s->runtime.process);
}

struct native {
	struct stack_frame frame[2048];
	uint8_t mark[2048];
	char *symbol[2048];
	unsigned int count;
	const struct python_runtime *runtime;
	Dwfl *dwfl;
};

static int native_frame(Dwfl_Frame *f, void *arg)
{
	struct native *n = arg;
	Dwarf_Addr pc;
	bool exact;
	Dwfl_Module *m;
	const char *symbol;

	if (n->count == 2048 || !dwfl_frame_pc(f, &pc, &exact))
		return DWARF_CB_ABORT;
	if (!exact)
		pc--;
	m = dwfl_addrmodule(n->dwfl, pc);
	symbol = m ? dwfl_module_addrname(m, pc) : NULL;
	n->symbol[n->count] = strdup(symbol ? symbol : "?");
	n->mark[n->count] = (uint8_t)python_runtime_mark(n->runtime, pc);
	n->frame[n->count] = (struct stack_frame){
	    .kind = STACK_FRAME_NATIVE,
	    .flags = n->mark[n->count] == PYTHON_MARK_EVAL ? STACK_FRAME_SHIM : 0,
	    .address = pc,
	};
	n->count++;
	return DWARF_CB_OK;
}

static void native_walk(struct subject *s, pid_t tid, struct native *n)
{
	memset(n, 0, sizeof(*n));
	n->runtime = &s->runtime;
	n->dwfl = s->dwfl;
	dwfl_getthread_frames(s->dwfl, tid, native_frame, n);
	assert_true(n->count > 0);
}

static void native_free(struct native *n)
{
	for (unsigned int i = 0; i < n->count; i++)
		free(n->symbol[i]);
}

/* Frames with code, in order, against the interpreter's own list. */
static void check_frames(struct subject *s, const struct truth_thread *t,
			 const struct python_state *state)
{
	unsigned int k = 0;

	for (unsigned int i = 0; i < state->count; i++) {
		struct python_name name;

		if (!state->frame[i].code)
			continue;
		assert_int_equal(python_names_find(s->names, &s->reader, &state->frame[i], &name),
				 0);
		assert_true(k < t->count);
		assert_string_equal(name.function, t->frame[k].function);
		assert_string_equal(name.file, t->frame[k].file);
		assert_int_equal(name.line, t->frame[k].line);
		k++;
	}
	if (t->count <= PYTHON_FRAME_MAX) {
		assert_int_equal(state->end, PYTHON_END_ROOT);
		assert_int_equal(k, t->count);
	} else {
		assert_int_equal(state->end, PYTHON_END_DEPTH);
		assert_true(k > PYTHON_FRAME_MAX - 8);
	}
}

/* Each native frame of the loop stands for one run, and the joined stack has them all in place. */
static void check_native(struct subject *s, pid_t tid, const struct python_state *state)
{
	static struct native n;
	static struct stack_frame named[PYTHON_FRAME_MAX], out[4096];
	unsigned int loops = 0, entries = 0, kept = 0;
	struct python_stitch_in in = {0};
	uint32_t count;

	native_walk(s, tid, &n);
	for (unsigned int i = 0; i < n.count; i++) {
		bool loop = n.mark[i] == PYTHON_MARK_EVAL;

		/* the other voice, where the file has symbols */
		if (!strncmp(n.symbol[i], "_PyEval_EvalFrameDefault", 24))
			assert_true(loop);
		loops += loop;
	}
	for (unsigned int i = 0; i < state->count; i++) {
		entries += state->frame[i].flags & PYTHON_FRAME_ENTRY;
		named[i] = (struct stack_frame){.kind = STACK_FRAME_PYTHON, .object = i};
	}
	if (state->end == PYTHON_END_ROOT)
		assert_int_equal(loops, entries);
	in.native = n.frame;
	in.native_count = n.count;
	in.native_whole = true;
	in.python = state->frame;
	in.named = named;
	in.python_count = state->count;
	in.python_whole = state->end == PYTHON_END_ROOT;
	assert_int_equal(python_stitch(&in, out, 4096, &count),
			 in.python_whole ? PYTHON_STITCH_EXACT : PYTHON_STITCH_CUT);
	for (uint32_t i = 0; i < count; i++)
		kept += out[i].kind == STACK_FRAME_PYTHON;
	assert_int_equal(kept, state->count);
	if (in.python_whole)
		assert_int_equal(count, n.count - loops + state->count);
	native_free(&n);
}

static void check_threads(struct subject *s)
{
	static struct python_state state;

	assert_true(s->truth.count > 0);
	for (unsigned int i = 0; i < s->truth.count; i++) {
		const struct truth_thread *t = &s->truth.thread[i];
		bool found = false;

		for (unsigned int k = 0; k < s->stopped.count; k++) {
			if (s->stopped.thread[k].tid != t->tid)
				continue;
			found = true;
			walk(s, &s->stopped.thread[k].regs, &state);
			check_frames(s, t, &state);
			check_native(s, t->tid, &state);
			assert_int_equal(state.gil, PYTHON_GIL_RELEASED);
		}
		assert_true(found);
	}
}

static void frames_of_every_thread(void **unused)
{
	struct subject s;

	subject_start(&s, "tests/python/chains.py", NULL);
	print_message("# %s: %s\n", python, s.runtime.what);
	assert_int_equal(s.truth.count, 13);
	assert_true(s.runtime.process.tsd_slot != 0);
	check_threads(&s);
	/* the same without the thread's own slot */
	s.runtime.process.tsd_slot = 0;
	check_threads(&s);
	subject_end(&s);
}

static void frames_of_the_main_thread(void **unused)
{
	struct subject s;

	subject_start(&s, "tests/python/chains.py", "main");
	assert_int_equal(s.truth.thread[0].tid, s.truth.pid);
	check_threads(&s);
	subject_end(&s);
}

static void frames_of_a_forked_child(void **unused)
{
	struct subject s;

	subject_start(&s, "tests/python/chains.py", "fork");
	assert_int_not_equal(s.truth.pid, s.target.pid);
	check_threads(&s);
	subject_end(&s);
}

static void frames_of_a_spawned_child(void **unused)
{
	struct subject s;

	subject_start(&s, "tests/python/chains.py", "spawn");
	assert_int_not_equal(s.truth.pid, s.target.pid);
	check_threads(&s);
	subject_end(&s);
}

/* Who waits by the native stack's symbols, where there are any: the second voice. */
static bool waits_by_symbol(const struct native *n)
{
	for (unsigned int i = 0; i < n->count; i++) {
		if (!strcmp(n->symbol[i], "take_gil"))
			return true;
		if (!strncmp(n->symbol[i], "_PyEval_EvalFrameDefault", 24))
			break;
	}
	return false;
}

static void one_holder_and_the_others_wait(void **unused)
{
	static struct python_state state;
	static struct native n;
	unsigned int holders = 0, waiters = 0, released = 0;
	struct subject s;

	memset(&s, 0, sizeof(s));
	target_start(&s.target, python, "tests/python/gil.py", NULL);
	assert_true(truth_read(&s.truth, s.target.output));
	for (int round = 0; round < 20; round++) {
		unsigned int now = 0;

		subject_attach(&s, s.truth.pid);
		for (unsigned int i = 0; i < s.stopped.count; i++) {
			enum stack_gil gil;

			walk(&s, &s.stopped.thread[i].regs, &state);
			native_walk(&s, s.stopped.thread[i].tid, &n);
			gil = python_stitch_gil((enum stack_gil)state.gil, n.mark, n.count);
			now += gil == STACK_GIL_HOLDER;
			waiters += gil == STACK_GIL_WAITER;
			released += gil == STACK_GIL_RELEASED;
			if (waits_by_symbol(&n) && gil != STACK_GIL_HOLDER)
				assert_int_equal(gil, STACK_GIL_WAITER);
			if (state.gil == PYTHON_GIL_WAITER && state.holder)
				assert_int_not_equal(state.holder, state.tstate);
			native_free(&n);
		}
		assert_true(now <= 1);
		holders += now;
		dwfl_end(s.dwfl);
		python_names_close(s.names);
		python_memory_close(&s.memory);
		python_finder_close(s.finder);
		threads_go(&s.stopped);
		usleep(3000);
	}
	print_message("# %s: %u holders, %u waiters, %u released in 20 stops of 4 threads\n",
		      python, holders, waiters, released);
	assert_true(holders >= 10);
	assert_true(waiters >= 20);
	/* the thread in a long system call */
	assert_true(released >= 20);
	truth_free(&s.truth);
	target_end(&s.target);
}

static int choose(void **state)
{
	python = *state;
	return 0;
}

int main(void)
{
	static const struct {
		const char *name;
		CMUnitTestFunction f;
	} CASES[] = {
	    {"frames_of_every_thread", frames_of_every_thread},
	    {"frames_of_the_main_thread", frames_of_the_main_thread},
	    {"frames_of_a_forked_child", frames_of_a_forked_child},
	    {"frames_of_a_spawned_child", frames_of_a_spawned_child},
	    {"one_holder_and_the_others_wait", one_holder_and_the_others_wait},
	};
	static char path[16][512], names[16 * ARRAY_LEN(CASES)][640];
	struct CMUnitTest tests[16 * ARRAY_LEN(CASES)];
	unsigned int count = target_interpreters(path, 16), n = 0;

	for (unsigned int i = 0; i < count; i++) {
		for (size_t k = 0; k < ARRAY_LEN(CASES); k++) {
			snprintf(names[n], sizeof(names[n]), "%s of %.500s", CASES[k].name,
				 path[i]);
			tests[n] = (struct CMUnitTest){names[n], CASES[k].f, choose, NULL, path[i]};
			n++;
		}
	}
	return _cmocka_run_group_tests("test_python_runtime", tests, n, NULL, NULL);
}

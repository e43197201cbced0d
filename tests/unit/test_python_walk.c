/* SPDX-License-Identifier: Apache-2.0
 * The walk over recorded interpreters (3.10 to 3.13) and over one that is built here by the published
 * layout of 3.14, with what the interpreters listed themselves as the truth.
 * `test_python_walk --record DIR`, in a directory with chains.py, writes recordings of the interpreters
 * that are there, DIR/snapshot_0.gz and so on. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "base/limits.h"
#include "bpf/python.h"
#include "sampler/python/python_names.h"
#include "tests/unit/python_snapshot.h"

#define SNAPSHOTS "tests/python/"

static void check_thread(struct python_names *names, const struct read_user *reader,
			 const struct truth_thread *t, const struct python_state *state)
{
	unsigned int k = 0;

	assert_int_equal(state->end, PYTHON_END_ROOT);
	for (unsigned int i = 0; i < state->count; i++) {
		struct python_name name;

		if (!state->frame[i].code)
			continue;
		assert_true(k < t->count);
		assert_int_equal(python_names_find(names, reader, &state->frame[i], &name), 0);
		assert_string_equal(name.function, t->frame[k].function);
		assert_string_equal(name.file, t->frame[k].file);
		assert_int_equal(name.line, t->frame[k].line);
		k++;
	}
	assert_int_equal(k, t->count);
}

/* Walks and names every thread. Returns the number of frames. */
static unsigned int check_threads(const struct python_runtime *r, struct truth *truth,
				  const uint64_t *fsbase, const uint64_t *futex,
				  const struct read_user *reader)
{
	static struct python_state state;
	struct python_names *names;
	unsigned int frames = 0;

	assert_int_equal(python_names_open(&names, r), 0);
	for (unsigned int i = 0; i < truth->count; i++) {
		memset(&state, 0xee, sizeof(state));
		state.fsbase = fsbase[i];
		state.futex = futex[i];
		read_user_source = *reader;
		python_walk(&state, &r->process);
		check_thread(names, reader, &truth->thread[i], &state);
		assert_int_equal(state.gil, PYTHON_GIL_RELEASED);
		frames += state.count;
	}
	python_names_close(names);
	return frames;
}

static void frames_of_a_recording(void **state)
{
	const char *version = *state;
	struct snapshot *s = malloc(sizeof(*s));
	struct read_user reader = {snapshot_read, s};
	struct python_runtime r;
	char path[512];

	assert_non_null(s);
	snprintf(path, sizeof(path), SNAPSHOTS "snapshot_%s.gz", version);
	assert_true(snapshot_load(s, path));
	assert_int_equal(python_runtime_probe(&r, &s->elf, s->bias, s->path, &reader), 0);
	assert_true(r.offsets.verified);
	assert_true(r.process.tsd_slot != 0);
	assert_int_equal(s->truth.count, 12);
	print_message("# %s: %u frames, %zu bytes of memory\n", r.what,
		      check_threads(&r, &s->truth, s->fsbase, s->futex, &reader),
		      s->count * SNAPSHOT_PIECE);
	/* and by the interpreter's list */
	r.process.tsd_slot = 0;
	check_threads(&r, &s->truth, s->fsbase, s->futex, &reader);
	snapshot_free(s);
	free(s);
}

/* ---- an interpreter made here ---- */

#define MADE_BASE      0x7f1200000000ull
#define MADE_FSBASE    (MADE_BASE + 0x8000)
#define MADE_KEY       5u
#define MADE_INTERP    (MADE_BASE + 0x2000)
#define MADE_GIL       (MADE_BASE + 0x3000)
#define MADE_TSTATE    (MADE_BASE + 0x4000)
#define MADE_FRAMES    (MADE_BASE + 0x10000)
#define MADE_OBJECTS   (MADE_BASE + 0x80000)
#define MADE_CODE_TYPE (MADE_BASE + 0x1000)
#define MADE_NONE      (MADE_BASE + 0x1100)

struct made {
	uint8_t byte[1 << 20];
	uint64_t objects; /* next free address */
	unsigned int frames;
	struct truth_thread truth;
};

static long made_read(void *owner, void *to, __u32 bytes, __u64 address)
{
	struct made *m = owner;

	if (address < MADE_BASE || address - MADE_BASE > sizeof(m->byte) - bytes)
		return -EFAULT;
	memcpy(to, m->byte + (address - MADE_BASE), bytes);
	return 0;
}

static void put64(struct made *m, uint64_t address, uint64_t value)
{
	assert_true(address - MADE_BASE < sizeof(m->byte) - 8);
	memcpy(m->byte + (address - MADE_BASE), &value, 8);
}

static void put_bytes(struct made *m, uint64_t address, const void *bytes, size_t n)
{
	assert_true(address - MADE_BASE < sizeof(m->byte) - n);
	memcpy(m->byte + (address - MADE_BASE), bytes, n);
}

static uint64_t made_object(struct made *m, size_t bytes)
{
	uint64_t at = m->objects;

	m->objects += (bytes + 31) & ~31ull;
	return at;
}

/* A compact str object of 3.12 and later. */
static uint64_t made_text(struct made *m, const char *text)
{
	uint64_t at = made_object(m, 41 + strlen(text));

	put64(m, at + 16, strlen(text));
	put64(m, at + 32, 1 << 2 | 1 << 5 | 1 << 6);
	put_bytes(m, at + 40, text, strlen(text));
	return at;
}

/* A code object with lines: first line, then one line more per instruction of 2 bytes. */
static uint64_t made_code(struct made *m, const char *function, uint32_t first, unsigned int units)
{
	uint64_t at = made_object(m, 208 + units * 2), table = made_object(m, 32 + units * 2 + 2);
	/* head {1, 13 no columns, 1 unit} and a line difference of +1, zigzag 2; the first 0 */
	uint8_t entry[2] = {0x80 | 13 << 3 | 0, 2};

	put64(m, table + 16, units * 2);
	for (unsigned int i = 0; i < units; i++) {
		entry[1] = i ? 2 : 0;
		put_bytes(m, table + 32 + i * 2, entry, 2);
	}
	put64(m, at + 8, MADE_CODE_TYPE);
	put_bytes(m, at + 68, &first, 4);
	put64(m, at + 112, made_text(m, "/srv/made.py"));
	put64(m, at + 120, made_text(m, "short"));
	put64(m, at + 128, made_text(m, function));
	put64(m, at + 136, table);
	return at;
}

/* Adds the next outer frame and links the one before to it. */
static uint64_t made_frame(struct made *m, uint64_t code, unsigned int unit, unsigned int owner)
{
	uint64_t at = MADE_FRAMES + m->frames++ * 96;

	if (m->frames > 1)
		put64(m, at - 96 + 8, at);
	put64(m, at, (code ? code : MADE_NONE) | 1); /* tagged */
	put64(m, at + 8, 0);
	put64(m, at + 56, code ? code + 208 + unit * 2 : MADE_NONE);
	put64(m, at + 72, (uint64_t)owner << 16 | 0xffff);
	return at;
}

static void made_call(struct made *m, const char *function, uint32_t first, unsigned int unit)
{
	struct truth_frame *f = &m->truth.frame[m->truth.count++];

	made_frame(m, made_code(m, function, first, unit + 3), unit, 0);
	*f = (struct truth_frame){first + unit, strdup(function), strdup("/srv/made.py")};
}

/* _Py_DebugOffsets as 3.14 publishes it: its members in their order. */
static void made_offsets(struct made *m, uint64_t version, uint64_t free_threaded)
{
	const uint64_t words[] = {
	    version,
	    free_threaded,
	    /* runtime_state */ 4096,
	    8,
	    0x340,
	    /* interpreter_state */ 4096,
	    8,
	    0x10,
	    0x20,
	    0x28,
	    0x40,
	    0x48,
	    0x50,
	    0x58,
	    0x60,
	    0x100,
	    0,
	    0x110,
	    0x108,
	    0x200,
	    0x208,
	    /* thread_state */ 400,
	    0,
	    8,
	    16,
	    72,
	    152,
	    160,
	    200,
	    24,
	    /* interpreter_frame */ 88,
	    8,
	    0,
	    56,
	    80,
	    74,
	    64,
	    0,
	    /* code_object */ 216,
	    112,
	    120,
	    128,
	    136,
	    68,
	    52,
	    96,
	    104,
	    208,
	    0,
	    /* pyobject */ 16,
	    8,
	    /* type_object */ 408,
	    24,
	    88,
	    168,
	    /* tuple, list */ 32,
	    24,
	    16,
	    40,
	    24,
	    16,
	    /* set */ 200,
	    24,
	    32,
	    40,
	    /* dict, float, long */ 48,
	    32,
	    40,
	    24,
	    16,
	    32,
	    16,
	    24,
	    /* bytes */ 40,
	    16,
	    32,
	    /* unicode */ 64,
	    32,
	    16,
	    40,
	};

	put_bytes(m, MADE_BASE, "xdebugpy", 8);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		put64(m, MADE_BASE + 8 + i * 8, words[i]);
	put64(m, MADE_BASE + 0x340, MADE_INTERP);
}

static struct made *made_start(void)
{
	struct made *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->objects = MADE_OBJECTS;
	made_offsets(m, 0x030e00f0, 0);
	put64(m, MADE_INTERP + 0x20, MADE_TSTATE);
	put64(m, MADE_INTERP + 0x60, MADE_GIL);
	put64(m, MADE_TSTATE + 16, MADE_INTERP);
	put64(m, MADE_TSTATE + 152, MADE_FSBASE);
	put64(m, MADE_TSTATE + 72, MADE_FRAMES);
	put64(m, MADE_FSBASE + 0x310 + 16 * MADE_KEY + 8, MADE_TSTATE);
	return m;
}

static void made_end(struct made *m)
{
	for (unsigned int i = 0; i < m->truth.count; i++) {
		free(m->truth.frame[i].function);
		free(m->truth.frame[i].file);
	}
	free(m);
}

static int made_probe(struct made *m, struct python_runtime *r)
{
	struct python_elf elf = {.runtime = 0, .code_type = MADE_CODE_TYPE - MADE_BASE};
	struct read_user reader = {made_read, m};

	return python_runtime_probe(r, &elf, MADE_BASE, "/opt/embedder", &reader);
}

static void made_walk(struct made *m, const struct python_runtime *r, struct python_state *state)
{
	memset(state, 0xee, sizeof(*state));
	state->fsbase = MADE_FSBASE;
	state->futex = 0;
	read_user_source = (struct read_user){made_read, m};
	python_walk(state, &r->process);
}

static void frames_by_the_layout_of_3_14(void **unused)
{
	struct made *m = made_start();
	struct read_user reader = {made_read, m};
	static struct python_state state;
	struct python_runtime r;
	struct python_names *names;

	made_call(m, "leaf", 10, 3);
	made_call(m, "K.middle", 100, 0);
	made_frame(m, 0, 0, 3); /* C entered the interpreter here */
	made_call(m, "outer.<locals>.g", 7, 1);
	made_frame(m, 0, 0, 4); /* owned by the C stack: no frame, no entry */
	made_call(m, "<module>", 1, 9);
	made_frame(m, 0, 0, 3);
	assert_int_equal(made_probe(m, &r), 0);
	assert_false(r.offsets.verified);
	assert_non_null(strstr(r.what, "unverified"));
	assert_int_equal(r.process.tsd_slot, 0x310 + 16 * MADE_KEY + 8);
	made_walk(m, &r, &state);
	assert_int_equal(python_names_open(&names, &r), 0);
	check_thread(names, &reader, &m->truth, &state);
	python_names_close(names);
	assert_int_equal(state.count, 4);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(state.frame[i].flags, i & 1 ? PYTHON_FRAME_ENTRY : 0);
	made_end(m);
}

static void gil_by_holder_and_futex(void **unused)
{
	struct made *m = made_start();
	static struct python_state state;
	struct python_runtime r;

	made_call(m, "f", 1, 0);
	made_frame(m, 0, 0, 3);
	assert_int_equal(made_probe(m, &r), 0);
	made_walk(m, &r, &state);
	assert_int_equal(state.gil, PYTHON_GIL_RELEASED);
	put64(m, MADE_GIL + 8, MADE_TSTATE);
	made_walk(m, &r, &state);
	assert_int_equal(state.gil, PYTHON_GIL_RELEASED); /* the last holder, not locked */
	put64(m, MADE_GIL + 16, 1);
	made_walk(m, &r, &state);
	assert_int_equal(state.gil, PYTHON_GIL_HOLDER);
	put64(m, MADE_GIL + 8, MADE_TSTATE + 0x400);
	made_walk(m, &r, &state);
	assert_int_equal(state.gil, PYTHON_GIL_RELEASED);
	assert_int_equal(state.holder, MADE_TSTATE + 0x400);
	state.futex = MADE_GIL + 40;
	read_user_source = (struct read_user){made_read, m};
	python_walk(&state, &r.process);
	assert_int_equal(state.gil, PYTHON_GIL_WAITER);
	made_end(m);
}

static void refuses_what_it_does_not_know(void **unused)
{
	struct made *m = made_start();
	struct python_runtime r;

	made_offsets(m, 0x030e00f0, 1);
	assert_int_equal(made_probe(m, &r), -ENOTSUP);
	assert_non_null(strstr(r.what, "free-threaded"));
	made_offsets(m, 0x030f00f0, 0);
	assert_int_equal(made_probe(m, &r), -ENOTSUP);
	assert_non_null(strstr(r.what, "CPython 3.15"));
	made_offsets(m, 0x030e00f0, 0);
	put64(m, MADE_BASE + 288, 1 << 20); /* owner's place in a frame */
	assert_int_equal(made_probe(m, &r), -ENOTSUP);
	assert_non_null(strstr(r.what, "implausible"));
	memset(m->byte, 0, 4096);
	assert_int_equal(made_probe(m, &r), -ENOTSUP);
	assert_non_null(strstr(r.what, "unknown version"));
	made_offsets(m, 0x030e00f0, 0);
	put64(m, MADE_BASE + 0x340, 0);
	assert_int_equal(made_probe(m, &r), -EAGAIN);
	made_end(m);
}

static void refuses_versions_by_number(void **unused)
{
	struct python_offsets o;

	assert_int_equal(python_offsets_of_version(&o, 0x030907f0), -ENOTSUP);
	assert_int_equal(python_offsets_of_version(&o, 0x02071200), -ENOTSUP);
	assert_int_equal(python_offsets_of_version(&o, 0x030d00f0), -ENOTSUP);
	assert_int_equal(python_offsets_of_version(&o, 0x030a0000), 0);
}

static void garbage_ends_the_walk(void **unused)
{
	struct made *m = made_start();
	static struct python_state state;
	struct python_runtime r;
	uint64_t first;

	assert_int_equal(made_probe(m, &r), 0);
	for (int i = 0; i < 700; i++)
		first = made_frame(m, MADE_OBJECTS, 1, 0);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_DEPTH);
	assert_int_equal(state.count, PYTHON_FRAME_MAX);
	/* a circle of two, and of shims alone */
	put64(m, MADE_FRAMES + 96 + 8, MADE_FRAMES);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_DEPTH);
	put64(m, MADE_FRAMES + 72, 3 << 16);
	put64(m, MADE_FRAMES + 96 + 72, 3 << 16);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_DEPTH);
	put64(m, MADE_FRAMES + 72, 0);
	/* itself; nowhere; an odd address */
	put64(m, MADE_FRAMES + 8, MADE_FRAMES);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_GARBAGE);
	put64(m, MADE_FRAMES + 8, 0x700000000000ull);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_FAULT);
	assert_int_equal(state.count, 1);
	put64(m, MADE_FRAMES + 8, first + 1);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_FAULT);
	/* no owner of this number; an instruction outside the code; no code */
	put64(m, MADE_FRAMES + 72, 9 << 16);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_GARBAGE);
	put64(m, MADE_FRAMES + 72, 0);
	put64(m, MADE_FRAMES + 56, 0x1234);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_GARBAGE);
	put64(m, MADE_FRAMES, 0);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_GARBAGE);
	/* another thread's thread state; none */
	put64(m, MADE_TSTATE + 152, MADE_FSBASE + 8);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_GARBAGE);
	assert_int_equal(state.gil, PYTHON_GIL_UNKNOWN);
	put64(m, MADE_FSBASE + 0x310 + 16 * MADE_KEY + 8, 0);
	made_walk(m, &r, &state);
	assert_int_equal(state.end, PYTHON_END_NONE);
	assert_int_equal(state.gil, PYTHON_GIL_NONE);
	made_end(m);
}

static void a_new_code_object_at_an_old_address(void **unused)
{
	struct made *m = made_start();
	struct read_user reader = {made_read, m};
	struct python_runtime r;
	struct python_names *names;
	struct python_name name;
	struct python_frame f = {.code = made_code(m, "first", 5, 4)};

	assert_int_equal(made_probe(m, &r), 0);
	assert_int_equal(python_names_open(&names, &r), 0);
	f.instr = 208 + 2 * 2;
	assert_int_equal(python_names_find(names, &reader, &f, &name), 0);
	assert_string_equal(name.function, "first");
	assert_int_equal(name.line, 7);
	put64(m, f.code + 128, made_text(m, "second"));
	assert_int_equal(python_names_find(names, &reader, &f, &name), 0);
	assert_string_equal(name.function, "first"); /* one check per period */
	python_names_begin(names);
	assert_int_equal(python_names_find(names, &reader, &f, &name), 0);
	assert_string_equal(name.function, "second");
	put64(m, f.code + 8, MADE_NONE); /* another type */
	python_names_begin(names);
	assert_int_equal(python_names_find(names, &reader, &f, &name), -ENOENT);
	assert_int_equal(python_names_find(names, &reader, &f, &name), -ENOENT);
	python_names_close(names);
	made_end(m);
}

static void names_are_bounded_and_forgotten(void **unused)
{
	struct made *m = made_start();
	struct read_user reader = {made_read, m};
	struct python_runtime r;
	struct python_names *names;
	struct python_name name;
	uint64_t code = made_code(m, "f", 5, 4);
	uint8_t head[208];

	assert_int_equal(made_probe(m, &r), 0);
	assert_int_equal(python_names_open(&names, &r), 0);
	memcpy(head, m->byte + (code - MADE_BASE), sizeof(head));
	for (unsigned int i = 0; i < LIMIT_PYTHON_CODES + 8; i++) {
		struct python_frame f = {.code = MADE_FRAMES + (i % 2000) * 224, .instr = 208};

		/* as many good ones as the memory has room for, then addresses that hold none */
		put_bytes(m, f.code, head, sizeof(head));
		if (i >= 2000)
			f.code = MADE_BASE + sizeof(m->byte) + i * 16;
		assert_int_equal(python_names_find(names, &reader, &f, &name),
				 i < 2000		  ? 0
				 : i < LIMIT_PYTHON_CODES ? -ENOENT
							  : -ENOSPC);
	}
	python_names_begin(names);
	for (int i = 0; i < 60; i++)
		python_names_begin(names);
	/* all were forgotten: there is room for as many others */
	for (unsigned int i = 0; i < LIMIT_PYTHON_CODES; i++) {
		struct python_frame f = {.code = MADE_BASE + (1u << 30) + i * 16};

		assert_int_equal(python_names_find(names, &reader, &f, &name), -ENOENT);
	}
	python_names_close(names);
	made_end(m);
}

/* Names as many code objects as a batch has, twice over, each with the longest line table that is read, and
 * so of more bytes than an answer may have. */
static void requests_and_answers_are_bounded_and_all_names_come(void **unused)
{
	enum { LINES = LIMIT_PYTHON_LINES_BYTES - 1, CODES = 2048 };
	struct made *m = made_start();
	struct read_user reader = {made_read, m};
	uint64_t code = made_code(m, "f", 5, 4), table = made_object(m, 32 + LINES);
	uint32_t named = 0, rounds = 0;
	struct python_runtime r;
	struct python_names *names;
	struct python_name name;
	uint8_t head[208];

	assert_int_equal(made_probe(m, &r), 0);
	assert_int_equal(python_names_open(&names, &r), 0);
	put64(m, table + 16, LINES);
	put64(m, code + 136, table);
	memcpy(head, m->byte + (code - MADE_BASE), sizeof(head));
	for (; named < CODES; rounds++) {
		size_t bytes;
		struct buf answer;
		void *ask;

		named = 0;
		for (uint32_t i = 0; i < CODES; i++) {
			struct python_frame f = {.code = MADE_FRAMES + i * 216, .instr = 208};

			put_bytes(m, f.code, head, sizeof(head));
			named += !python_names_find(names, NULL, &f, &name);
		}
		ask = python_names_ask(names, &bytes);
		if (!ask)
			break;
		assert_true(bytes > 1024 * 16 || rounds);
		assert_true(bytes <= 1024 * 16 + 4096); /* and the offsets of this version */
		buf_init(&answer, SIZE_MAX);
		assert_int_equal(python_names_read(ask, bytes, &reader, &answer), 0);
		assert_true(answer.bytes <= 8 << 20); /* a larger one is none (reader.h) */
		python_names_answer(names, 0, answer.data, answer.bytes);
		buf_fini(&answer);
		free(ask);
	}
	assert_int_equal(named, CODES);
	python_names_close(names);
	made_end(m);
}

static int record(const char *directory)
{
	static char python[16][512];
	unsigned int count = target_interpreters(python, 16);

	for (unsigned int i = 0; i < count; i++) {
		struct snapshot *s = calloc(1, sizeof(*s));
		struct read_user reader = {snapshot_record, s};
		struct python_finder *finder;
		struct python_memory memory;
		struct reader_target t;
		struct python_runtime r;
		struct stopped stopped;
		struct target target;
		char path[1024];

		CHECK(s);
		target_start(&target, python[i], "chains.py", "12");
		CHECK(truth_read(&s->truth, target.output));
		threads_stop(&stopped, s->truth.pid);
		CHECK(!python_finder_open(&finder));
		reader_target_direct(&t, "/proc", (uint32_t)s->truth.pid);
		CHECK(!python_runtime_find(finder, &r, &t));
		CHECK(!python_memory_open(&memory, &t));
		s->live = python_memory_reader(&memory);
		s->bias = r.bias;
		s->elf.runtime = r.runtime - r.bias;
		s->elf.code_type = r.code_type - r.bias;
		s->elf.version = r.version ? r.version - r.bias : 0;
		s->elf.eval[0] = r.eval[0];
		s->elf.eval_count = 1;
		snprintf(s->path, sizeof(s->path), "%.511s", python[i]);
		CHECK(!python_runtime_probe(&r, &s->elf, s->bias, s->path, &reader));
		for (unsigned int k = 0; k < s->truth.count; k++) {
			for (unsigned int j = 0; j < stopped.count; j++) {
				if (stopped.thread[j].tid == s->truth.thread[k].tid)
					s->fsbase[k] = stopped.thread[j].regs.fs_base;
			}
		}
		check_threads(&r, &s->truth, s->fsbase, s->futex, &reader);
		r.process.tsd_slot = 0;
		check_threads(&r, &s->truth, s->fsbase, s->futex, &reader);
		snprintf(path, sizeof(path), "%s/snapshot_%u.gz", directory, i);
		snapshot_write(s, path);
		printf("%s: %s: %zu pieces\n", path, r.what, s->count);
		python_memory_close(&memory);
		python_finder_close(finder);
		threads_go(&stopped);
		target_end(&target);
		snapshot_free(s);
		free(s);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    {"frames of 3.10.13", frames_of_a_recording, NULL, NULL, "3.10.13"},
	    {"frames of 3.11.2, static", frames_of_a_recording, NULL, NULL, "3.11.2"},
	    {"frames of 3.11.7", frames_of_a_recording, NULL, NULL, "3.11.7"},
	    {"frames of 3.12.1", frames_of_a_recording, NULL, NULL, "3.12.1"},
	    {"frames of 3.13.0", frames_of_a_recording, NULL, NULL, "3.13.0"},
	    cmocka_unit_test(frames_by_the_layout_of_3_14),
	    cmocka_unit_test(gil_by_holder_and_futex),
	    cmocka_unit_test(refuses_what_it_does_not_know),
	    cmocka_unit_test(refuses_versions_by_number),
	    cmocka_unit_test(garbage_ends_the_walk),
	    cmocka_unit_test(a_new_code_object_at_an_old_address),
	    cmocka_unit_test(names_are_bounded_and_forgotten),
	    cmocka_unit_test(requests_and_answers_are_bounded_and_all_names_come),
	};

	if (argc == 3 && !strcmp(argv[1], "--record"))
		return record(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

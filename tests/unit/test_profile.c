/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "cli/profile.pb-c.h"
#include "cli/profile_flame.h"
#include "cli/profile_names.h"
#include "cli/profile_pprof.h"
#include "cli/profile_tree.h"

struct fixture {
	struct stack_batch b;
	struct profile_names *names;
	struct profile_tree tree;
};

static uint32_t text(struct stack_batch *b, const char *s)
{
	uint32_t i;

	assert_int_equal(stack_batch_string(b, s, strlen(s), &i), 0);
	return i;
}

/* main -> (train.py) step -> { matmul | sys_read in the kernel }, and one blocked in lock. */
static void fill(struct stack_batch *b)
{
	static const uint8_t id[20] = { 0xde, 0xad };
	struct stack_frame f[4] = { { .kind = STACK_FRAME_KERNEL }, { .kind = STACK_FRAME_NATIVE },
				    { .kind = STACK_FRAME_PYTHON }, { .kind = STACK_FRAME_NATIVE } };
	struct stack_sample s = { .pid = 10, .tid = 11, .count = 3, .weight_ns = 30000000,
				  .kind = STACK_ON_CPU };
	uint32_t libtorch, python;

	b->begin_ns = 5;
	b->end_ns = 1000000005;
	assert_int_equal(stack_batch_object(b, id, 20, "/lib/libtorch.so", &libtorch), 0);
	assert_int_equal(stack_batch_object(b, NULL, 0, "/usr/bin/python3", &python), 0);
	s.comm = text(b, "python3");
	f[0].object = text(b, "ksys_read");
	f[1].object = libtorch;
	f[1].address = 0x1234;
	f[2].object = text(b, "Trainer.step;x");
	f[2].file = text(b, "/srv/job/train.py");
	f[2].line = 42;
	f[3].object = python;
	f[3].address = 0x999;
	assert_int_equal(stack_batch_stack(b, f + 1, 3, 0, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(b, &s), 0);
	assert_int_equal(stack_batch_stack(b, f, 4, 1, STACK_END_ROOT, &s.stack), 0);
	s.weight_ns = 10000000;
	s.count = 1;
	assert_int_equal(stack_batch_sample(b, &s), 0);
	f[2].line = 50; /* another line of the same function */
	assert_int_equal(stack_batch_stack(b, f + 2, 2, 0, STACK_END_ROOT, &s.stack), 0);
	s.kind = STACK_OFF_CPU;
	s.weight_ns = 700000000;
	assert_int_equal(stack_batch_sample(b, &s), 0);
}

static int set_up(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	stack_batch_init(&x->b);
	fill(&x->b);
	assert_int_equal(profile_names_open(&x->names, &x->b, NULL, NULL), 0);
	assert_int_equal(profile_tree_init(&x->tree), 0);
	assert_int_equal(profile_tree_add(&x->tree, &x->b, x->names, PROFILE_BY_THREAD_NAME), 0);
	*state = x;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *x = *state;

	profile_tree_fini(&x->tree);
	profile_names_close(x->names);
	stack_batch_fini(&x->b);
	free(x);
	return 0;
}

static void folded_stacks_run_from_the_root_and_mark_kernel_and_python(void **state)
{
	struct fixture *x = *state;
	char *out;
	size_t bytes;
	FILE *f = open_memstream(&out, &bytes);

	assert_int_equal(profile_tree_folded(&x->tree, false, f), 2);
	fclose(f);
	assert_string_equal(out,
		"python3;[python3];Trainer.step:x (train.py);[libtorch.so] 30000000\n"
		"python3;[python3];Trainer.step:x (train.py);[libtorch.so];ksys_read_[k] 10000000\n");
	free(out);
	f = open_memstream(&out, &bytes);
	assert_int_equal(profile_tree_folded(&x->tree, true, f), 1);
	fclose(f);
	assert_string_equal(out, "python3;[python3];Trainer.step:x (train.py) 700000000\n");
	free(out);
}

static Sysom__Pprof__Profile *read_pprof(struct fixture *x)
{
	static uint8_t plain[1 << 16];
	char *out;
	size_t bytes;
	FILE *f = open_memstream(&out, &bytes);
	z_stream z = { .next_out = plain, .avail_out = sizeof(plain) };
	Sysom__Pprof__Profile *p;

	assert_int_equal(profile_pprof_write(f, &x->b, x->names, 1700000000000000000ull, 10101010), 0);
	fclose(f);
	z.next_in = (Bytef *)out;
	z.avail_in = (uInt)bytes;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	free(out);
	p = sysom__pprof__profile__unpack(NULL, sizeof(plain) - z.avail_out, plain);
	assert_non_null(p);
	return p;
}

static void pprof_keeps_values_labels_addresses_and_build_ids(void **state)
{
	Sysom__Pprof__Profile *p = read_pprof(*state);
	char **s = p->string_table;

	assert_string_equal(s[0], "");
	assert_int_equal(p->n_sample_type, 4);
	assert_string_equal(s[p->sample_type[1]->type], "cpu");
	assert_string_equal(s[p->sample_type[1]->unit], "nanoseconds");
	assert_int_equal(p->n_sample, 3);
	assert_int_equal(p->sample[0]->value[0], 3);
	assert_int_equal(p->sample[0]->value[1], 30000000);
	assert_int_equal(p->sample[2]->value[3], 700000000);
	assert_int_equal(p->sample[1]->n_location_id, 4);
	assert_int_equal(p->sample[0]->label[0]->num, 10);
	assert_string_equal(s[p->sample[0]->label[2]->str], "python3");
	assert_int_equal(p->n_mapping, 2);
	assert_string_equal(s[p->mapping[0]->filename], "/lib/libtorch.so");
	assert_string_equal(s[p->mapping[0]->build_id], "dead000000000000000000000000000000000000");
	for (size_t i = 0; i < p->n_sample; i++) {
		for (size_t k = 0; k < p->sample[i]->n_location_id; k++) {
			uint64_t l = p->sample[i]->location_id[k];

			assert_true(l >= 1 && l <= p->n_location);
			assert_int_equal(p->location[l - 1]->id, l);
		}
	}
	/* leaf first: the kernel frame has a function and a line entry, the native one an address only */
	assert_int_equal(p->location[p->sample[1]->location_id[0] - 1]->n_line, 1);
	assert_int_equal(p->location[p->sample[1]->location_id[1] - 1]->n_line, 0);
	assert_int_equal(p->location[p->sample[1]->location_id[1] - 1]->address, 0x1234);
	assert_int_equal(p->location[p->sample[1]->location_id[2] - 1]->line[0]->line, 42);
	sysom__pprof__profile__free_unpacked(p, NULL);
}

static void the_flame_page_is_safe_and_complete(void **state)
{
	struct fixture *x = *state;
	char *out;
	size_t bytes;
	FILE *f = open_memstream(&out, &bytes);

	assert_int_equal(profile_flame_write(f, &x->tree, "<b>job & co</b>", "note </script>", 0), 0);
	fclose(f);
	assert_non_null(strstr(out, "&#60;b&#62;job &#38; co"));
	assert_null(strstr(out, "<b>job"));
	assert_non_null(strstr(out, "\"Trainer.step;x\""));
	assert_non_null(strstr(out, "on: [0,0,0,0,30000000,10000000]"));
	assert_non_null(strstr(out, "off: [0,0,0,700000000,0,0]"));
	assert_non_null(strstr(out, "const DATA"));
	assert_null(strstr(out, "http"));
	free(out);
}

static void small_frames_are_folded_into_their_callers(void **state)
{
	struct fixture *x = *state;
	char *out;
	size_t bytes;
	FILE *f = open_memstream(&out, &bytes);

	assert_int_equal(profile_flame_write(f, &x->tree, "t", "", 0.5), 0);
	fclose(f);
	assert_null(strstr(out, "ksys_read"));
	assert_non_null(strstr(out, "on: [0,0,0,0,40000000]"));
	assert_non_null(strstr(out, "1 frames below 50%"));
	free(out);
}

static void native_frames_are_named_from_the_file_with_that_build_id(void **state)
{
	struct symbol_resolver_options o = { .directory = NULL };
	struct stack_frame f = { .kind = STACK_FRAME_NATIVE, .flags = STACK_FRAME_RETURN };
	struct profile_names *names;
	struct symbol_resolver *r;
	struct profile_name n;
	struct stack_batch b;
	unsigned long long main_at;
	char line[600], self[256];
	uint32_t stack;
	FILE *nm;

	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	snprintf(line, sizeof(line), "nm %s | grep ' T main$'", self);
	nm = popen(line, "r");
	assert_int_equal(fscanf(nm, "%llx", &main_at), 1);
	pclose(nm);
	stack_batch_init(&b);
	assert_int_equal(stack_batch_object(&b, NULL, 0, self, &f.object), 0);
	f.address = main_at + 1; /* the byte behind a call: belongs to what precedes it */
	assert_int_equal(stack_batch_stack(&b, &f, 1, 0, STACK_END_ROOT, &stack), 0);
	assert_int_equal(symbol_resolver_open(&r, &o), 0);
	assert_int_equal(profile_names_open(&names, &b, r, NULL), 0);
	assert_int_equal(profile_names_get(names, 0, &n), 0);
	assert_string_equal(n.function, "main");
	assert_string_equal(n.module, "test_profile");
	assert_true(n.resolved);
	profile_names_close(names);
	symbol_resolver_close(r);
	stack_batch_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folded_stacks_run_from_the_root_and_mark_kernel_and_python),
		cmocka_unit_test(pprof_keeps_values_labels_addresses_and_build_ids),
		cmocka_unit_test(the_flame_page_is_safe_and_complete),
		cmocka_unit_test(small_frames_are_folded_into_their_callers),
		cmocka_unit_test(native_frames_are_named_from_the_file_with_that_build_id),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

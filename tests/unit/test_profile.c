/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
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
#include "cli/profile/pprof_read.h"
#include "cli/profile/profile_flame.h"
#include "cli/profile/profile_names.h"
#include "cli/profile/profile_out.h"
#include "cli/profile/profile_pprof.h"
#include "cli/profile/profile_summary.h"
#include "cli/profile/profile_tree.h"
#include "symbol/symbol_content.h"
#include "symbol/symbol_elf.h"

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
	static const uint8_t id[20] = {0xde, 0xad};
	struct stack_frame f[4] = {{.kind = STACK_FRAME_KERNEL},
				   {.kind = STACK_FRAME_NATIVE},
				   {.kind = STACK_FRAME_PYTHON},
				   {.kind = STACK_FRAME_NATIVE}};
	struct stack_sample s = {
	    .pid = 10, .tid = 11, .count = 3, .weight_ns = 30000000, .kind = STACK_ON_CPU};
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

	stack_batch_init(&x->b, keyed_process());
	fill(&x->b);
	assert_int_equal(profile_names_open(&x->names, &x->b, NULL, NULL, NULL), 0);
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
	assert_string_equal(
	    out,
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
	z_stream z = {.next_out = plain, .avail_out = sizeof(plain)};
	Sysom__Pprof__Profile *p;

	assert_int_equal(profile_pprof_write(f, &x->b, x->names, 1700000000000000000ull, 10101010),
			 0);
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
	/* pprof takes the first for the program */
	assert_string_equal(s[p->mapping[0]->filename], "/usr/bin/python3");
	assert_string_equal(s[p->mapping[1]->filename], "/lib/libtorch.so");
	assert_string_equal(s[p->mapping[1]->build_id], "dead000000000000000000000000000000000000");
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

	assert_int_equal(profile_flame_page(f, &x->tree,
					    &(struct profile_flame){.title = "<b>job & co</b>",
								    .note = "note </script>",
								    .share_min = 0}),
			 0);
	fclose(f);
	assert_non_null(strstr(out, "&lt;b&gt;job &amp; co"));
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

	assert_int_equal(
	    profile_flame_page(f, &x->tree,
			       &(struct profile_flame){.title = "t", .note = "", .share_min = 0.5}),
	    0);
	fclose(f);
	assert_null(strstr(out, "ksys_read"));
	assert_non_null(strstr(out, "on: [0,0,0,0,40000000]"));
	assert_non_null(strstr(out, "1 frames below 50%"));
	free(out);
}

/* proc_root: where the files of process 1 are looked for first. */
static void named_main(const char *proc_root)
{
	struct symbol_resolver_options o = {.directory = NULL};
	struct stack_frame f = {.kind = STACK_FRAME_NATIVE, .flags = STACK_FRAME_RETURN};
	struct stack_sample sample = {.pid = 1, .count = 1};
	struct profile_names *names;
	struct symbol_resolver *r;
	struct profile_name n;
	struct stack_batch b;
	unsigned long long main_at;
	char line[600], self[256];
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct symbol_reader *files;
	struct reader *reader;
	FILE *nm;

	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	snprintf(line, sizeof(line), "nm %s | grep ' T main$'", self);
	nm = popen(line, "r");
	assert_int_equal(fscanf(nm, "%llx", &main_at), 1);
	pclose(nm);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(symbol_content_id(fd, id), SYMBOL_ID_MAX);
	close(fd);
	assert_int_equal(stack_batch_object(&b, id, SYMBOL_ID_MAX, self, &f.object), 0);
	f.address = main_at + 1; /* the byte behind a call: belongs to what precedes it */
	assert_int_equal(stack_batch_stack(&b, &f, 1, 0, STACK_END_ROOT, &sample.stack), 0);
	assert_int_equal(stack_batch_sample(&b, &sample), 0);
	assert_int_equal(reader_open(&reader, "/proc"), 0);
	assert_int_equal(symbol_reader_open(&files, reader, NULL), 0);
	o.index = symbol_reader_index;
	o.index_arg = files;
	assert_int_equal(symbol_resolver_open(&r, &o), 0);
	assert_int_equal(profile_names_open(&names, &b, files, r, proc_root), 0);
	assert_int_equal(profile_names_get(names, 0, &n), 0);
	assert_string_equal(n.function, "main");
	assert_string_equal(n.module, "test_profile");
	assert_true(n.resolved);
	profile_names_close(names);
	symbol_reader_close(files);
	reader_close(reader);
	stack_batch_fini(&b);
}

static void native_frames_are_named_from_the_file_with_that_build_id(void **state)
{
	named_main(NULL);
}

static void files_of_an_ended_process_are_found_at_their_own_path(void **state)
{
	named_main("/nowhere");
}

static void the_format_follows_the_files_ending(void **state)
{
	assert_int_equal(profile_out_format("a.html"), PROFILE_HTML);
	assert_int_equal(profile_out_format("-"), PROFILE_HTML);
	assert_int_equal(profile_out_format("a.pb.gz"), PROFILE_PPROF);
	assert_int_equal(profile_out_format("a.folded"), PROFILE_FOLDED);
}

/* Of all lines: the numbers behind the last blank. */
static uint64_t folded_sum(const char *path)
{
	uint64_t sum = 0;
	char *line = NULL;
	size_t room = 0;
	FILE *f = fopen(path, "re");

	assert_non_null(f);
	while (getline(&line, &room, f) > 0)
		sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
	free(line);
	fclose(f);
	return sum;
}

static void folded_sums_are_the_samples_time(void **state)
{
	struct fixture *x = *state;
	char path[] = "/tmp/test_profile.XXXXXX";
	struct profile_out o = {.path = path, .format = PROFILE_FOLDED};
	struct profile_counts n;
	FILE *to;

	close(mkstemp(path));
	to = fopen(path, "w");
	profile_out_count(&x->b, &n);
	assert_int_equal(n.on_count, 4);
	assert_int_equal(n.frames, 3 * 3 + 4 + 2);
	assert_int_equal(profile_out_write(&o, &x->b, x->names, to), 0);
	fclose(to);
	assert_int_equal(folded_sum(path), n.on_ns);
	o.blocked = true;
	to = fopen(path, "w");
	assert_int_equal(profile_out_write(&o, &x->b, x->names, to), 0);
	fclose(to);
	assert_int_equal(folded_sum(path), n.off_ns);
	unlink(path);
}

/* Process 10: its main thread waits for the GIL 600 of 1000 ms, thread 12 holds it in spin. A worker
 * reads a disk, another thread merely idles. */
static void fill_hog(struct stack_batch *b)
{
	struct stack_frame f[3] = {{.kind = STACK_FRAME_KERNEL},
				   {.kind = STACK_FRAME_KERNEL},
				   {.kind = STACK_FRAME_PYTHON}};
	struct stack_sample s = {.pid = 10,
				 .tid = 10,
				 .count = 40,
				 .weight_ns = 400000000,
				 .kind = STACK_ON_CPU,
				 .gil = STACK_GIL_HOLDER};

	s.comm = text(b, "python3");
	f[2].object = text(b, "train");
	f[2].file = text(b, "/srv/train.py");
	f[2].line = 7;
	assert_int_equal(stack_batch_stack(b, f + 2, 1, 0, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(b, &s), 0);
	f[0].object = text(b, "schedule");
	f[1].object = text(b, "futex_wait_queue");
	s.kind = STACK_OFF_CPU;
	s.gil = STACK_GIL_WAITER;
	assert_int_equal(stack_batch_stack(b, f, 3, 2, STACK_END_ROOT, &s.stack), 0);
	s.count = 60;
	s.weight_ns = 250000000;
	s.waker_tid = 14;
	s.waker_comm = text(b, "other");
	assert_int_equal(stack_batch_sample(b, &s), 0);
	s.weight_ns = 350000000;
	s.waker_tid = 12;
	s.waker_comm = text(b, "hog");
	assert_int_equal(stack_batch_sample(b, &s), 0);
	s.waker_tid = s.waker_comm = 0;
	s.tid = 11; /* an idle thread */
	s.gil = STACK_GIL_RELEASED;
	s.weight_ns = 990000000;
	assert_int_equal(stack_batch_sample(b, &s), 0);
	s.pid = s.tid = 20; /* a data loader */
	f[0].object = text(b, "io_schedule");
	f[1].object = text(b, "folio_wait_bit_common");
	f[2].object = text(b, "load");
	s.weight_ns = 100000000;
	assert_int_equal(stack_batch_stack(b, f, 3, 2, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(b, &s), 0);
	s.pid = 10;
	s.tid = 12;
	s.comm = text(b, "hog");
	s.kind = STACK_ON_CPU;
	s.gil = STACK_GIL_HOLDER;
	s.weight_ns = 700000000;
	f[2].object = text(b, "spin");
	f[2].line = 12;
	assert_int_equal(stack_batch_stack(b, f + 2, 1, 0, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(b, &s), 0);
}

static void the_summary_says_who_holds_the_gil_and_where_threads_sleep(void **state)
{
	struct profile_summary s;
	struct profile_names *names;
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	fill_hog(&b);
	assert_int_equal(profile_names_open(&names, &b, NULL, NULL, NULL), 0);
	assert_int_equal(profile_summary_make(&s, &b, names, 10), 0);
	assert_int_equal(s.main_on_ns, 400000000);
	assert_int_equal(s.main_off_ns, 600000000);
	assert_int_equal(s.gil.wait_tid, 10);
	assert_int_equal(s.gil.wait_ns, 600000000);
	assert_int_equal(s.gil.thread_ns, 1000000000);
	assert_int_equal(s.gil.hold_tid, 12);
	assert_string_equal(s.gil.hold_comm, "hog");
	assert_string_equal(s.gil.hold_function, "spin");
	assert_int_equal(s.gil.hold_line, 12);
	assert_string_equal(s.rows[0].name.function, "spin");
	assert_int_equal(s.rows[0].self_ns, 700000000);
	/* the idle thread is left out */
	assert_int_equal(s.block_count, 2);
	assert_string_equal(s.blocks[0].where, "train");
	assert_string_equal(s.blocks[0].kernel, "futex_wait_queue");
	assert_false(s.blocks[0].disk);
	assert_int_equal(s.blocks[0].waker_tid, 12);
	assert_string_equal(s.blocks[0].waker, "hog");
	assert_string_equal(s.blocks[1].where, "load");
	assert_true(s.blocks[1].disk);
	assert_int_equal(s.blocks[1].waker_tid, 0);
	profile_names_close(names);
	stack_batch_fini(&b);
}

static void recursion_counts_once(void **state)
{
	struct stack_frame f[3] = {{.kind = STACK_FRAME_PYTHON},
				   {.kind = STACK_FRAME_PYTHON},
				   {.kind = STACK_FRAME_PYTHON}};
	struct stack_sample s = {
	    .pid = 1, .tid = 1, .count = 1, .weight_ns = 10, .kind = STACK_ON_CPU};
	struct profile_summary sum;
	struct profile_names *names;
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	for (int i = 0; i < 3; i++)
		f[i].object = text(&b, i == 1 ? "g" : "f");
	assert_int_equal(stack_batch_stack(&b, f, 3, 0, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(&b, &s), 0);
	assert_int_equal(profile_names_open(&names, &b, NULL, NULL, NULL), 0);
	assert_int_equal(profile_summary_make(&sum, &b, names, 1), 0);
	assert_int_equal(sum.call_count, 2);
	assert_int_equal(sum.calls[0].total_ns, 10);
	assert_int_equal(sum.calls[1].total_ns, 10);
	assert_int_equal(sum.row_count, 1);
	profile_names_close(names);
	stack_batch_fini(&b);
}

/* A plain profile, in a field that nobody knows so many zeros, as a hole. */
static int load_padded(struct fixture *x, uint32_t zeros)
{
	const uint8_t field[] = {15 << 3 | 2,
				 (uint8_t)(zeros | 0x80),
				 (uint8_t)(zeros >> 7 | 0x80),
				 (uint8_t)(zeros >> 14 | 0x80),
				 (uint8_t)(zeros >> 21 | 0x80),
				 (uint8_t)(zeros >> 28)};
	Sysom__Pprof__Profile *p = read_pprof(x);
	size_t bytes = sysom__pprof__profile__get_packed_size(p);
	uint8_t *packed = malloc(bytes);
	char path[] = "/tmp/sysom-test-pprof-XXXXXX";
	int fd = mkstemp(path), err;
	struct profile *loaded;
	uint64_t skipped;

	sysom__pprof__profile__pack(p, packed);
	sysom__pprof__profile__free_unpacked(p, NULL);
	assert_int_equal(write(fd, packed, bytes), bytes);
	assert_int_equal(write(fd, field, sizeof(field)), sizeof(field));
	assert_int_equal(ftruncate(fd, (off_t)(bytes + sizeof(field)) + zeros), 0);
	close(fd);
	free(packed);
	err = pprof_read_load(&loaded, path, &skipped);
	profile_close(loaded);
	unlink(path);
	return err;
}

static void a_pprof_file_of_more_than_256_MiB_is_refused(void **state)
{
	assert_int_equal(load_padded(*state, 200 << 20), 0);
	assert_int_equal(load_padded(*state, 256 << 20), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(folded_stacks_run_from_the_root_and_mark_kernel_and_python),
	    cmocka_unit_test(pprof_keeps_values_labels_addresses_and_build_ids),
	    cmocka_unit_test(the_flame_page_is_safe_and_complete),
	    cmocka_unit_test(small_frames_are_folded_into_their_callers),
	    cmocka_unit_test(native_frames_are_named_from_the_file_with_that_build_id),
	    cmocka_unit_test(files_of_an_ended_process_are_found_at_their_own_path),
	    cmocka_unit_test(the_format_follows_the_files_ending),
	    cmocka_unit_test(folded_sums_are_the_samples_time),
	    cmocka_unit_test(the_summary_says_who_holds_the_gil_and_where_threads_sleep),
	    cmocka_unit_test(recursion_counts_once),
	    cmocka_unit_test(a_pprof_file_of_more_than_256_MiB_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

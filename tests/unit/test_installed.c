/* SPDX-License-Identifier: Apache-2.0
 * A made-up /proc tree of one process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "sidecar/stacks/installed.h"
#include "symbol/symbol_elf.h"

struct tree {
	char dir[64];
};

static void make_dirs(const char *path)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *p = copy + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			mkdir(copy, 0755);
			*p = '/';
		}
}

static void put(const struct tree *t, const char *name, const void *data, size_t bytes)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", t->dir, name);
	make_dirs(path);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, bytes, f), bytes);
	fclose(f);
}

static void put_text(const struct tree *t, const char *name, const char *text)
{
	put(t, name, text, strlen(text));
}

static unsigned long long inode_of(const struct tree *t, const char *name)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", t->dir, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static int setup(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	*state = t;
	strcpy(t->dir, "/tmp/test_installed.XXXXXX");
	return mkdtemp(t->dir) ? 0 : -1;
}

static int teardown(void **state)
{
	struct tree *t = *state;
	char command[128];
	int rc;

	snprintf(command, sizeof(command), "rm -rf %s", t->dir);
	rc = system(command);
	free(t);
	return rc;
}

static const char *value(const struct sketch *s, const char *name)
{
	for (uint32_t i = 0; i < s->setting_count; i++)
		if (!strcmp(s->settings[i].name, name))
			return s->settings[i].value;
	return NULL;
}

static struct sketch *read_all(const struct tree *t, const char *libs)
{
	static struct sketch s;

	wire_sketch_free(&s);
	memset(&s, 0, sizeof(s));
	assert_int_equal(installed_read(NULL, NULL, t->dir, 7, libs, &s), 0);
	for (uint32_t i = 1; i < s.setting_count; i++)
		assert_true(strcmp(s.settings[i - 1].name, s.settings[i].name) < 0);
	return &s;
}

static void has_the_host_and_what_the_process_said(void **state)
{
	struct tree *t = *state;
	struct sketch *s;

	put_text(t, "sys/kernel/osrelease", "6.1.0-18-amd64\n");
	put_text(t, "cpuinfo",
		 "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags : x\nmodel name\t: other\n");
	put_text(t, "driver/nvidia/version",
		 "NVRM version: NVIDIA UNIX x86_64  550.54.15\nGCC x\n");
	put_text(t, "driver/nvidia/gpus/0000:01:00.0/information",
		 "Model: \t\t NVIDIA H200\nIRQ: 4\n");
	put_text(t, "driver/nvidia/gpus/0000:02:00.0/information",
		 "Model: \t\t NVIDIA H200\nIRQ: 5\n");
	s = read_all(t, "cuda=12040 cupti=130001 nccl=22105 nonsense");
	assert_string_equal(value(s, "kernel"), "6.1.0-18-amd64");
	assert_string_equal(value(s, "cpu"), "AMD EPYC 9654");
	assert_string_equal(value(s, "driver"), "NVIDIA UNIX x86_64  550.54.15");
	assert_string_equal(value(s, "gpu"), "NVIDIA H200");
	assert_string_equal(value(s, "cuda"), "12040");
	assert_string_equal(value(s, "nccl"), "22105");
	assert_null(value(s, "nonsense"));
	put_text(t, "driver/nvidia/gpus/0000:02:00.0/information", "Model: \t\t NVIDIA L4\n");
	assert_null(value(read_all(t, ""), "gpu"));
}

static void takes_the_variables_that_steer_and_never_a_secret(void **state)
{
	static const char environment[] =
	    "HOME=/root\0NCCL_ALGO=Ring\0CUDA_VISIBLE_DEVICES=0,1\0"
	    "OMP_NUM_THREADS=8\0LD_PRELOAD=/x.so\0PYTHONPATH=/a:/b\0"
	    "TORCH_API_TOKEN=hunter2\0NCCL_SECRET_X=hunter2\0"
	    "CUDA_key_file=hunter2\0PYTHON_PASSWORD=hunter2\0"
	    "MKL_PROXY=http://user:hunter2@host/\0NCCL_AUTH=hunter2\0"
	    "WANDB_API_KEY=hunter2\0AWS=hunter2\0NCCL_EMPTY=\0NCCL_NOTHING\0"
	    "NCCL_ALGO=Tree";
	struct tree *t = *state;
	struct sketch *s;

	put(t, "7/environ", environment, sizeof(environment));
	s = read_all(t, "");
	assert_string_equal(value(s, "env:NCCL_ALGO"), "Ring");
	assert_string_equal(value(s, "env:CUDA_VISIBLE_DEVICES"), "0,1");
	assert_string_equal(value(s, "env:OMP_NUM_THREADS"), "8");
	assert_string_equal(value(s, "env:LD_PRELOAD"), "/x.so");
	assert_string_equal(value(s, "env:PYTHONPATH"), "/a:/b");
	assert_string_equal(value(s, "env:NCCL_EMPTY"), "");
	assert_null(value(s, "env:HOME"));
	for (uint32_t i = 0; i < s->setting_count; i++)
		assert_null(strstr(s->settings[i].value, "hunter2"));
}

static void bounds_what_a_process_can_make_it_read(void **state)
{
	struct tree *t = *state;
	size_t bytes = 1 << 20;
	char *text = malloc(bytes);
	struct sketch *s;
	size_t at = 0;

	/* two values that differ behind the cut, then thousands of variables, then one past the bound */
	at += (size_t)snprintf(text, bytes, "NCCL_LONG=%0*d", 3000, 1) + 1;
	at += (size_t)snprintf(text + at, bytes - at, "NCCL_LONGER=%0*d", 3000, 2) + 1;
	for (int i = 0; i < 5000; i++)
		at += (size_t)snprintf(text + at, bytes - at, "NCCL_V%d=%d", i, i) + 1;
	put(t, "7/environ", text, at);
	s = read_all(t, "");
	assert_int_equal(s->setting_count, LIMIT_SKETCH_SETTINGS);
	assert_true(strlen(value(s, "env:NCCL_LONG")) <= LIMIT_SKETCH_VALUE_BYTES);
	assert_string_not_equal(value(s, "env:NCCL_LONG"), value(s, "env:NCCL_LONGER"));
	memset(text, 'x', bytes);
	memcpy(text, "NCCL_HUGE=", 10);
	put(t, "7/environ", text, bytes);
	assert_null(value(read_all(t, ""), "env:NCCL_HUGE"));
	free(text);
}

static void names_libraries_by_their_build(void **state)
{
	struct tree *t = *state;
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	char maps[2048], want[17] = "", line[4096];
	struct sketch *s;
	FILE *f = fopen("/proc/self/exe", "re");
	size_t bytes;
	static char exe[8 << 20];
	int n;

	/* any ELF file with a Build ID will do for a library: this test's own */
	assert_non_null(f);
	n = symbol_elf_build_id(fileno(f), id);
	bytes = fread(exe, 1, sizeof(exe), f);
	fclose(f);
	put(t, "7/root/opt/lib/libnccl.so.2.21.5", exe, bytes);
	put(t, "7/root/site/torch/lib/libtorch_cpu.so", exe, bytes);
	put_text(t, "7/root/site/torch/version.py",
		 "# x\n__version__ = '2.3.0+cu121'\ndebug = False\n");
	put_text(t, "7/root/usr/lib/libcuda.so.550.54.15", "not an ELF file");
	snprintf(maps, sizeof(maps),
		 "00400000-00500000 r-xp 00000000 08:01 %llu   /opt/lib/libnccl.so.2.21.5\n"
		 "00500000-00600000 r--p 00000000 08:01 %llu   /opt/lib/libnccl.so.2.21.5\n"
		 "00600000-00700000 r-xp 00000000 08:01 %llu   /site/torch/lib/libtorch_cpu.so\n"
		 "00700000-00800000 r-xp 00000000 08:01 %llu   /usr/lib/libcuda.so.550.54.15\n"
		 "00800000-00900000 r-xp 00000000 08:01 1   /usr/lib/libcudart.so.12\n"
		 "00900000-00a00000 r-xp 00000000 08:01 5   /usr/bin/python3.11\n"
		 "7ff000000-7ff100000 rw-p 00000000 00:00 0   [stack]\n",
		 inode_of(t, "7/root/opt/lib/libnccl.so.2.21.5"),
		 inode_of(t, "7/root/opt/lib/libnccl.so.2.21.5"),
		 inode_of(t, "7/root/site/torch/lib/libtorch_cpu.so"),
		 inode_of(t, "7/root/usr/lib/libcuda.so.550.54.15"));
	put_text(t, "7/maps", maps);
	s = read_all(t, "");
	for (int i = 0; i < n && i < 8; i++)
		snprintf(want + 2 * i, 3, "%02x", id[i]);
	assert_true(n >= 8);
	assert_string_equal(value(s, "lib:libnccl.so.2.21.5"), want);
	assert_string_equal(value(s, "torch"), "2.3.0+cu121");
	assert_string_equal(value(s, "python"), "3.11");
	assert_string_equal(value(s, "lib:libcuda.so.550.54.15"), "");
	assert_string_equal(value(s, "lib:libcudart.so.12"), ""); /* gone from the disk */
	/* a link that leads out of the process's root is followed inside it alone */
	snprintf(line, sizeof(line), "%s/7/root/opt/lib/libgomp.so.1", t->dir);
	assert_int_equal(symlink("/proc/self/exe", line), 0);
	put_text(t, "7/maps", "00400000-00500000 r-xp 00000000 08:01 9 /opt/lib/libgomp.so.1\n");
	assert_string_equal(value(read_all(t, ""), "lib:libgomp.so.1"), "");
}

static void does_without_what_cannot_be_read(void **state)
{
	struct tree *t = *state;
	struct sketch *s = read_all(t, "");

	assert_true(s->setting_count <= 1); /* the kernel's release, by uname */
	put_text(t, "7/maps",
		 "\n/\n-\nxxxxx r-xp 0 0 12 relative/libnccl.so\n 1 2 3 4 5 /libnccl.so.2");
	read_all(t, "");
	wire_sketch_free(s);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(has_the_host_and_what_the_process_said),
	    CASE(takes_the_variables_that_steer_and_never_a_secret),
	    CASE(bounds_what_a_process_can_make_it_read),
	    CASE(names_libraries_by_their_build),
	    CASE(does_without_what_cannot_be_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/stacks/installed.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text/text.h"
#include "symbol/symbol_elf.h"

/* The kernel limits arguments and variables to a quarter of the stack. This is enough for some tens
 * of variables that matter, and for large ones before them. */
#define ENVIRON_BYTES	(256u << 10)
#define TEXT_BYTES	4096u
#define BUILD_ID_DIGITS 16
#define ANSWER_BYTES	(2ull * LIMIT_SKETCH_SETTINGS * (LIMIT_SKETCH_VALUE_BYTES + 1))

static const char *const env_prefixes[] = {"NCCL_", "CUDA_", "TORCH_", "PYTORCH_",
					   "OMP_",  "MKL_",  "PYTHON", "LD_"};
static const char *const secrets[] = {"KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH"};
static const char *const libraries[] = {
    "libcuda.so.", "libcudart.so",  "libcublas.so",   "libcublasLt.so",	 "libcudnn.so",
    "libnccl.so",  "libnccl-net",   "libtorch.so",    "libtorch_cpu.so", "libtorch_cuda.so",
    "libpython3.", "libc.so.",	    "libgomp",	      "libiomp5.so",	 "libmkl_core.so",
    "libopenblas", "libibverbs.so", "libc10_cuda.so",
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- the list ---- */

static struct sketch_setting *find(struct sketch *s, const char *name)
{
	for (uint32_t i = 0; i < s->setting_count; i++)
		if (!strcmp(s->settings[i].name, name))
			return &s->settings[i];
	return NULL;
}

/* Cuts a long value and appends its hash, so that values that differ behind the cut still
 * differ. */
static char *value_of(const char *value)
{
	char text[LIMIT_SKETCH_VALUE_BYTES + 1];
	size_t n = strlen(value);

	if (n <= LIMIT_SKETCH_VALUE_BYTES)
		return strdup(value);
	snprintf(text, sizeof(text), "%.*s...#%016llx", (int)LIMIT_SKETCH_VALUE_BYTES - 20, value,
		 (unsigned long long)hash_bytes(HASH_SEED, value, n));
	return strdup(text);
}

/* Only the first value of a name counts. 0 (also when the list is full), -ENOMEM. */
static int add(struct sketch *s, const char *name, const char *value)
{
	struct sketch_setting *to;

	if (!s->settings) {
		s->settings = calloc(LIMIT_SKETCH_SETTINGS, sizeof(*s->settings));
		if (!s->settings)
			return -ENOMEM;
	}
	if (!*name || strlen(name) > LIMIT_SKETCH_VALUE_BYTES || find(s, name) ||
	    s->setting_count == LIMIT_SKETCH_SETTINGS)
		return 0;
	to = &s->settings[s->setting_count];
	to->name = strdup(name);
	to->value = value_of(value);
	if (!to->name || !to->value) {
		free(to->name);
		free(to->value);
		*to = (struct sketch_setting){NULL, NULL};
		return -ENOMEM;
	}
	s->setting_count++;
	return 0;
}

ORDER_BY(by_name, struct sketch_setting, ORDER_TEXT(name));

/* ---- files ---- */

/* Takes fd. Reads at most room - 1 bytes and adds a NUL. 0 if unreadable. */
static size_t read_all(int fd, char *out, size_t room)
{
	size_t have = 0;
	ssize_t n = 0;

	if (fd >= 0) {
		while (have + 1 < room && (n = read(fd, out + have, room - 1 - have)) > 0)
			have += (size_t)n;
		close(fd);
	}
	out[have] = '\0';
	return have;
}

/* Reads a file of /proc or /sys. */
static size_t read_file(const char *path, char *out, size_t room)
{
	return read_all(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), out, room);
}

static void first_line(const char *text, const char *field, char *out, size_t room)
{
	const char *p = strstr(text, field);

	*out = '\0';
	if (!p)
		return;
	p += strlen(field);
	p += strspn(p, " \t:='\"");
	snprintf(out, room, "%.*s", (int)strcspn(p, "\n'\""), p);
}

/* ---- the environment ---- */

static bool starts(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool is_secret(const char *name, const char *value)
{
	char upper[LIMIT_SKETCH_VALUE_BYTES + 1];
	const char *scheme = strstr(value, "://");
	size_t n = strlen(name);

	if (n >= sizeof(upper))
		return true;
	for (size_t i = 0; i <= n; i++)
		upper[i] = (char)toupper((unsigned char)name[i]);
	for (size_t i = 0; i < COUNT(secrets); i++)
		if (strstr(upper, secrets[i]))
			return true;
	return scheme && strchr(scheme, '@');
}

static int add_variable(struct sketch *s, char *text)
{
	char *equals = strchr(text, '='), name[LIMIT_SKETCH_VALUE_BYTES];
	bool wanted = false;

	if (!equals)
		return 0;
	*equals = '\0';
	for (size_t i = 0; i < COUNT(env_prefixes) && !wanted; i++)
		wanted = starts(text, env_prefixes[i]);
	if (!wanted || is_secret(text, equals + 1) ||
	    (size_t)snprintf(name, sizeof(name), "env:%s", text) >= sizeof(name))
		return 0;
	return add(s, name, equals + 1);
}

/* Reads the environment. Drops a variable that the size limit cuts off. */
static int read_variables(struct reader_target *t, struct sketch *s)
{
	char *text = malloc(ENVIRON_BYTES + 1);
	size_t bytes, at = 0;
	int err = 0;

	if (!text)
		return -ENOMEM;
	bytes =
	    read_all(reader_target_open(t, READER_ENVIRON, 0, 0, NULL), text, ENVIRON_BYTES + 1);
	while (!err && at < bytes) {
		size_t n = strlen(text + at);

		if (at + n < bytes)
			err = add_variable(s, text + at);
		at += n + 1;
	}
	free(text);
	return err;
}

/* ---- what is mapped ---- */

static int add_library(struct reader_target *t, const char *path, uint64_t inode, struct sketch *s)
{
	const char *base = strrchr(path, '/') + 1;
	char name[LIMIT_SKETCH_VALUE_BYTES], value[BUILD_ID_DIGITS + 1] = "";
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	struct stat st;
	int fd, n = 0;

	if ((size_t)snprintf(name, sizeof(name), "lib:%s", base) >= sizeof(name) || find(s, name))
		return 0;
	fd = reader_target_open(t, READER_PATH, 0, 0, path);
	if (fd >= 0 && !fstat(fd, &st) && (uint64_t)st.st_ino == inode)
		n = symbol_elf_build_id(fd, id);
	if (fd >= 0)
		close(fd);
	if (n > 0)
		text_hex(id, n < BUILD_ID_DIGITS / 2 ? (size_t)n : BUILD_ID_DIGITS / 2, value);
	return add(s, name, value);
}

/* "3.11" of "libpython3.11.so.1.0" or "python3.11". */
static int add_python(const char *base, struct sketch *s)
{
	const char *p = starts(base, "libpython3.") ? base + 9
			: starts(base, "python3.")  ? base + 6
						    : NULL;
	char version[16];

	if (!p)
		return 0;
	snprintf(version, sizeof(version), "3.%.*s", (int)strspn(p + 2, "0123456789"), p + 2);
	return add(s, "python", version);
}

static int add_torch(struct reader_target *t, const char *path, struct sketch *s)
{
	static const char tail[] = "/torch/lib/libtorch_cpu.so";
	size_t n = strlen(path);
	char file[TEXT_BYTES + 32], text[TEXT_BYTES], version[64];
	ssize_t got;
	int fd;

	if (n < sizeof(tail) || n >= TEXT_BYTES || strcmp(path + n - (sizeof(tail) - 1), tail))
		return 0;
	snprintf(file, sizeof(file), "%.*s/version.py", (int)(n - strlen("/lib/libtorch_cpu.so")),
		 path);
	fd = reader_target_open(t, READER_PATH, 0, 0, file);
	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	first_line(text, "__version__", version, sizeof(version));
	return *version ? add(s, "torch", version) : 0;
}

static int take_mapping(struct reader_target *t, char *line, struct sketch *s)
{
	unsigned long long inode = 0;
	char *path = strchr(line, '/');
	const char *base;
	int err = 0;

	/* address perms offset device inode path */
	if (!path || sscanf(line, "%*s %*s %*s %*s %llu", &inode) != 1 || !inode)
		return 0;
	path[strcspn(path, "\n")] = '\0';
	base = strrchr(path, '/') + 1;
	for (size_t i = 0; i < COUNT(libraries); i++) {
		if (!starts(base, libraries[i]))
			continue;
		err = add_library(t, path, inode, s);
		break;
	}
	if (!err)
		err = add_python(base, s);
	return err ? err : add_torch(t, path, s);
}

static int read_maps(struct reader_target *t, struct sketch *s)
{
	int fd = reader_target_open(t, READER_MAPS, 0, 0, NULL);
	char last[TEXT_BYTES + 256] = "", *line = malloc(sizeof(last));
	uint32_t lines = 0;
	int err = line ? 0 : -ENOMEM;
	FILE *f;

	f = err || fd < 0 ? NULL : fdopen(fd, "r");
	while (f && !err && lines++ < LIMIT_PYTHON_MAPS_LINES && fgets(line, sizeof(last), f)) {
		const char *file = strchr(line, '/');

		/* a file's mappings are adjacent */
		if (!file || !strcmp(file, last))
			continue;
		snprintf(last, sizeof(last), "%s", file);
		err = take_mapping(t, line, s);
	}
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	free(line);
	return err;
}

/* ---- the host ---- */

static int read_host(const char *proc_root, struct sketch *s)
{
	char path[TEXT_BYTES], text[TEXT_BYTES], value[LIMIT_SKETCH_VALUE_BYTES];
	struct utsname u;
	int err = 0;

	snprintf(path, sizeof(path), "%s/sys/kernel/osrelease", proc_root);
	if (read_file(path, text, sizeof(text))) {
		text[strcspn(text, "\n")] = '\0';
		err = add(s, "kernel", text);
	} else if (!uname(&u)) {
		err = add(s, "kernel", u.release);
	}
	snprintf(path, sizeof(path), "%s/cpuinfo", proc_root);
	read_file(path, text, sizeof(text));
	first_line(text, "model name", value, sizeof(value));
	if (!err && *value)
		err = add(s, "cpu", value);
	snprintf(path, sizeof(path), "%s/driver/nvidia/version", proc_root);
	if (!err && read_file(path, text, sizeof(text))) {
		first_line(text, "NVRM version", value, sizeof(value));
		err = add(s, "driver", value);
	}
	return err;
}

/* The GPUs' model, if all have the same. */
static int read_gpus(const char *proc_root, struct sketch *s)
{
	char path[TEXT_BYTES], text[TEXT_BYTES], model[LIMIT_SKETCH_VALUE_BYTES];
	char first[LIMIT_SKETCH_VALUE_BYTES] = "";
	bool same = true;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/driver/nvidia/gpus", proc_root);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%.2048s/driver/nvidia/gpus/%.255s/information",
			 proc_root, e->d_name);
		if (!read_file(path, text, sizeof(text)))
			continue;
		first_line(text, "Model:", model, sizeof(model));
		same &= !*first || !strcmp(first, model);
		memcpy(first, model, sizeof(first));
	}
	if (d)
		closedir(d);
	return same && *first ? add(s, "gpu", first) : 0;
}

/* "cuda=13000 nccl=22809": each becomes a setting. */
static int add_libs(const char *libs, struct sketch *s)
{
	char copy[LIMIT_SKETCH_VALUE_BYTES], *save = NULL;
	int err = 0;

	snprintf(copy, sizeof(copy), "%s", libs);
	for (char *p = strtok_r(copy, " ", &save); p && !err; p = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(p, '=');

		/* 0: not known yet when the process attached */
		if (!equals || !strcmp(equals, "=0"))
			continue;
		*equals = '\0';
		err = add(s, p, equals + 1);
	}
	return err;
}

/* ---- the process, in a parser ---- */

/* The settings as texts: name, value, name, value. */
static int run(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	struct sketch s = {.setting_count = 0};
	int err = read_maps(t, &s);

	(void)request;
	(void)bytes;
	if (!err)
		err = read_variables(t, &s);
	for (uint32_t i = 0; i < s.setting_count; i++) {
		buf_append(answer, s.settings[i].name, strlen(s.settings[i].name) + 1);
		buf_append(answer, s.settings[i].value, strlen(s.settings[i].value) + 1);
		free(s.settings[i].name);
		free(s.settings[i].value);
	}
	free(s.settings);
	return err;
}

/* A process has some twenty libraries; one page of headers is read of each. */
static const struct reader_op op_installed = {run, ANSWER_BYTES, 5, 5000, false};

static int add_answer(struct sketch *s, const uint8_t *text, size_t bytes)
{
	size_t at = 0;
	int err = 0;

	while (!err && at < bytes) {
		const char *name = (const char *)text + at, *value;
		size_t n = strnlen(name, bytes - at), m;

		if (at + n + 1 >= bytes)
			break;
		value = name + n + 1;
		m = strnlen(value, bytes - at - n - 1);
		if (at + n + 1 + m >= bytes)
			break;
		err = add(s, name, value);
		at += n + m + 2;
	}
	return err;
}

static int read_process(struct reader_queue *q, const atomic_bool *stop, const char *proc_root,
			uint32_t pid, struct sketch *s)
{
	struct reader_job job = {.op = &op_installed, .pid = pid};
	struct reader_target t;
	struct buf b;
	int err;

	if (q) {
		reader_queue_call(q, &job, stop);
		err = add_answer(s, job.answer, job.answer_bytes);
		reader_job_fini(&job);
		return err;
	}
	reader_target_direct(&t, proc_root, pid);
	buf_init(&b, op_installed.answer_max);
	err = run(&t, NULL, 0, &b);
	if (!err)
		err = add_answer(s, b.data, b.bytes);
	buf_fini(&b);
	return err;
}

int installed_read(struct reader_queue *q, const atomic_bool *stop, const char *proc_root,
		   uint32_t pid, const char *libs, struct sketch *s)
{
	int err = add_libs(libs, s);

	if (!err)
		err = read_host(proc_root, s);
	if (!err)
		err = read_gpus(proc_root, s);
	if (!err && pid)
		err = read_process(q, stop, proc_root, pid, s);
	ORDER_SORT(s->settings, s->setting_count, by_name);
	return err;
}

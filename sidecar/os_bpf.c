/* SPDX-License-Identifier: Apache-2.0
 * A program that a kernel cannot load makes libbpf refuse the whole object. So programs whose tracepoint
 * the kernel does not have are left out before, and where the verifier still refuses, each is tried alone
 * to find those it is about. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sidecar/os_internal.h"

#ifdef SIDECAR_BPF
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "bpf/os_programs.skel.h"

#define PID_NS_FIRST  0xeffffffcu /* inode of the first PID namespace */
#define PROGRAMS_MAX  32u
#define BTF_TYPEDEF_BYTES 96

struct os_bpf {
	struct os_programs *object;
	int fd[OS_MAP_COUNT], stacks_fd;
	uint32_t key_bytes[OS_MAP_COUNT], value_bytes[OS_MAP_COUNT], entries[OS_MAP_COUNT];
	uint32_t cpu_count;
};

static int on_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0; /* what fails is told by its code */
}

/* Programs that stay away, by their place in the object. */
struct left_out {
	bool program[PROGRAMS_MAX];
};

static void name_missing(struct os_signals *s, const char *program, const char *why)
{
	size_t used = strlen(s->stats.missing);

	snprintf(s->stats.missing + used, sizeof(s->stats.missing) - used, "%s%s (%s)", used ? ", " : "",
		 program, why);
}

static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	while (list && *list) {
		if (strcspn(list, ",") == n && !strncmp(list, name, n))
			return true;
		list += strcspn(list, ",");
		list += *list == ',';
	}
	return false;
}

/* Before 5.11 the block tracepoints had the queue as their first argument. */
static bool is_before_5_11(void)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major < 5 || (major == 5 && minor < 11));
}

/* NULL: it can be tried. */
static const char *why_not(const struct os_signals *s, const struct btf *kernel,
			   const struct bpf_program *p)
{
	const char *section = bpf_program__section_name(p), *slash = strchr(section, '/');
	char type[BTF_TYPEDEF_BYTES];

	if (listed(s->options.without, bpf_program__name(p)))
		return "left out";
	snprintf(type, sizeof(type), "btf_trace_%s", slash ? slash + 1 : section);
	if (btf__find_by_name_kind(kernel, type, BTF_KIND_TYPEDEF) < 0)
		return "no such tracepoint";
	if (!strncmp(type, "btf_trace_block_rq_", 19) && is_before_5_11())
		return "arguments before 5.11";
	return NULL;
}

/* How deep our PID namespace is: the numbers of our own process in it and those above. */
static uint32_t pid_ns_level(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint32_t level = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "NSpid:", 6))
			continue;
		for (char *at = line + 6; (at = strpbrk(at, "\t ")); at++)
			level++;
	}
	if (f)
		fclose(f);
	return level ? level - 1 : 0;
}

/* only: the place of the one program wanted; PROGRAMS_MAX: all that are not left out. */
static int load(struct os_signals *s, const struct left_out *out, uint32_t only,
		struct os_programs **object)
{
	struct os_programs *o = os_programs__open();
	struct bpf_program *p;
	struct stat st;
	uint32_t at = 0;
	int err;

	if (!o)
		return -errno;
	bpf_object__for_each_program(p, o->obj) {
		bool wanted = at < PROGRAMS_MAX && !out->program[at] &&
			      (only == PROGRAMS_MAX || only == at);

		bpf_program__set_autoload(p, wanted);
		at++;
	}
	if (!stat("/proc/self/ns/pid", &st) && st.st_ino != PID_NS_FIRST) {
		o->rodata->task_number_ns = (uint32_t)st.st_ino;
		o->rodata->task_number_ns_level = pid_ns_level();
	}
	os_proc_numa(s->options.sys_root, (uint8_t *)(uintptr_t)o->rodata->os_node_of_cpu);
	err = os_programs__load(o);
	if (err) {
		os_programs__destroy(o);
		return err;
	}
	*object = o;
	return 0;
}

/* Adds to out what the kernel refuses when it is alone; the number of those that it takes. */
static uint32_t try_each(struct os_signals *s, struct left_out *out, const struct os_programs *names)
{
	struct bpf_program *p;
	uint32_t at = 0, good = 0;

	bpf_object__for_each_program(p, names->obj) {
		struct os_programs *one;
		int err;

		if (at >= PROGRAMS_MAX)
			break;
		if (!out->program[at]) {
			err = load(s, out, at, &one);
			if (!err)
				os_programs__destroy(one);
			out->program[at] = err != 0;
			good += !err;
			if (err)
				name_missing(s, bpf_program__name(p), strerror(-err));
		}
		at++;
	}
	return good;
}

static int load_most(struct os_signals *s, struct os_programs **object)
{
	struct btf *kernel = btf__load_vmlinux_btf();
	struct os_programs *names = os_programs__open();
	struct left_out out = { { false } };
	struct bpf_program *p;
	uint32_t at = 0;
	int err;

	if (!kernel || !names) {
		err = kernel ? -errno : -ENOENT;
		snprintf(s->stats.why, sizeof(s->stats.why), "%s",
			 kernel ? "out of memory" : "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
		goto end;
	}
	bpf_object__for_each_program(p, names->obj) {
		const char *why = why_not(s, kernel, p);

		if (why && at < PROGRAMS_MAX) {
			out.program[at] = true;
			name_missing(s, bpf_program__name(p), why);
		}
		at++;
	}
	err = load(s, &out, PROGRAMS_MAX, object);
	if (err && err != -EPERM && try_each(s, &out, names))
		err = load(s, &out, PROGRAMS_MAX, object);
	if (err)
		snprintf(s->stats.why, sizeof(s->stats.why), "%s",
			 err == -EPERM || err == -EACCES ?
				 "not allowed (needs root, or CAP_BPF and CAP_PERFMON)" :
				 strerror(-err));
end:
	os_programs__destroy(names);
	btf__free(kernel);
	return err;
}

static int attach(struct os_signals *s, struct os_programs *o)
{
	struct bpf_program *p;
	uint32_t good = 0;
	int err = -ENOENT;

	bpf_object__for_each_program(p, o->obj) {
		struct bpf_link *link;

		if (bpf_program__fd(p) < 0)
			continue;
		link = bpf_program__attach(p);
		if (!link) {
			err = -errno;
			name_missing(s, bpf_program__name(p), strerror(-err));
			continue;
		}
		/* goes with the process; kept by the kernel for as long as its descriptor */
		bpf_link__disconnect(link);
		good++;
	}
	if (good)
		return 0;
	snprintf(s->stats.why, sizeof(s->stats.why), "not attached: %s", strerror(-err));
	return err;
}
#endif

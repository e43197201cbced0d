/* SPDX-License-Identifier: Apache-2.0
 * A child opens the sampler like sysomd and `sysom record`: the BPF verifier may take seconds. */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "render/term.h"
#include "sampler/sampler.h"

/* The CPython versions of bpf/python.h and sampler/python/python_offsets.c. */
#define PYTHON_FIRST 10
#define OPEN_SECONDS 40u /* more than the usual 10 s: a busy machine verifies for that long */
#define PYTHON_LAST  14

static void open_sampler(void *arg, int fd)
{
	struct sampler_options o;
	struct sampler_stats s;
	struct sampler *sampler;

	alarm(OPEN_SECONDS);
	sampler_options_init(&o);
	if (sampler_open(&sampler, &o))
		return;
	sampler_stats_get(sampler, &s);
	dprintf(fd, "%d\n%s\n%s\n", (int)s.mode, s.why, s.missing);
	sampler_close(sampler);
}

/* Cuts the next line off the text. */
static char *next_line(char **at)
{
	char *line = *at, *end = strchr(line, '\n');

	if (end) {
		*end = '\0';
		*at = end + 1;
	} else {
		*at = line + strlen(line);
	}
	return line;
}

static void check_stacks(struct doctor *d)
{
	static const char *const texts[] = {
	    "not available",
	    "copied and unwound here: no Python names, no blocked time",
	    "unwound in the kernel by tail calls",
	    "unwound in the kernel",
	};
	char out[600], *at = out;
	int status = doctor_child(open_sampler, NULL, out, sizeof(out)), mode;
	const char *why, *missing;

	if (status || !isdigit((unsigned char)*out)) {
		doctor_add(d, "CPU stacks", DOCTOR_WARN,
			   "report this as a bug, with the kernel's version",
			   status == -SIGALRM ? "loading the BPF programs takes more than 40 s here"
					      : "opening the sampler failed (%d)",
			   status);
		return;
	}
	mode = atoi(next_line(&at));
	why = next_line(&at);
	missing = next_line(&at);
	if (mode < SAMPLER_OFF || mode > SAMPLER_BPF_LOOP)
		return;
	doctor_add(d, "CPU stacks", mode >= SAMPLER_BPF_TAIL ? DOCTOR_OK : DOCTOR_WARN,
		   "run sysomd and sysom record as root, or with CAP_BPF and CAP_PERFMON, on a "
		   "kernel with BTF; everything else works without these rights",
		   "%s: %s%s%s%s%s", sampler_mode_name((enum sampler_mode)mode), texts[mode],
		   *why ? "; " : "", term_safe(why, 160), *missing ? "; " : "",
		   term_safe(missing, 120));
}

static void check_rights(struct doctor *d)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	bool btf = !access("/sys/kernel/btf/vmlinux", R_OK);
	int paranoid = 0;

	if (!f || fscanf(f, "%d", &paranoid) != 1)
		doctor_add(d, "perf events", DOCTOR_WARN, "use a kernel with CONFIG_PERF_EVENTS",
			   "not in this kernel");
	else if (geteuid() && paranoid > 2)
		doctor_add(d, "perf events", DOCTOR_WARN,
			   "sysctl kernel.perf_event_paranoid=2, or run as root",
			   "kernel.perf_event_paranoid is %d: only root may use them", paranoid);
	else
		doctor_add(d, "perf events", DOCTOR_OK, "", "kernel.perf_event_paranoid %d%s",
			   paranoid, paranoid > 1 && geteuid() ? ": user code only" : "");
	if (f)
		fclose(f);
	if (btf)
		doctor_add(d, "kernel BTF", DOCTOR_OK, "", "/sys/kernel/btf/vmlinux");
	else
		doctor_add(d, "kernel BTF", DOCTOR_WARN,
			   "use a kernel with CONFIG_DEBUG_INFO_BTF=y (most since 2021)",
			   "none: BPF programs can't adapt to this kernel");
}

/* The minor version of a process that runs CPython 3; -1: it does not. */
static int python_minor(const char *pid)
{
	char link[64], path[4096];
	const char *name;
	ssize_t n;
	int minor, end = 0;

	snprintf(link, sizeof(link), "/proc/%.20s/exe", pid);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return -1;
	path[n] = '\0';
	name = strrchr(path, '/');
	return name && sscanf(name, "/python3.%d%n", &minor, &end) == 1 && end ? minor : -1;
}

static void check_python(struct doctor *d)
{
	unsigned known[PYTHON_LAST + 1] = {0}, other = 0;
	char text[200] = "";
	struct dirent *e;
	DIR *proc = opendir("/proc");
	size_t n = 0;

	while (proc && (e = readdir(proc))) {
		int minor = isdigit((unsigned char)*e->d_name) ? python_minor(e->d_name) : -1;

		if (minor >= PYTHON_FIRST && minor <= PYTHON_LAST)
			known[minor]++;
		else
			other += minor >= 0;
	}
	if (proc)
		closedir(proc);
	for (int i = PYTHON_FIRST; i <= PYTHON_LAST && n < sizeof(text) - 40; i++)
		if (known[i])
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s3.%d (%u)",
					      n ? ", " : "", i, known[i]);
	if (other)
		doctor_add(d, "Python stacks", DOCTOR_WARN, "use CPython 3.10 to 3.14",
			   "%u running processes use another version: native frames only", other);
	else
		doctor_add(d, "Python stacks", DOCTOR_OK, "",
			   "CPython 3.10 to 3.14 is supported%s%s", n ? "; running now: " : "",
			   text);
}

void doctor_sampler_check(struct doctor *d)
{
	check_stacks(d);
	check_rights(d);
	check_python(d);
}

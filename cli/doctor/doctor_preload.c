/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/paths.h"
#include "render/term.h"

/* The library must be built for the same machine as this program. */
#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_NONE
#endif

/* The NEEDED entries, comma-separated. Returns whether one is not part of the C library. */
static bool list_needed(Elf *e, char *out, size_t out_bytes)
{
	Elf_Scn *scn = NULL;
	bool foreign = false;
	size_t used = 0;
	GElf_Shdr h;
	GElf_Dyn dyn;

	*out = '\0';
	while ((scn = elf_nextscn(e, scn))) {
		Elf_Data *data = NULL;

		if (gelf_getshdr(scn, &h) && h.sh_type == SHT_DYNAMIC)
			data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
			const char *name = dyn.d_tag == DT_NEEDED
					       ? elf_strptr(e, h.sh_link, dyn.d_un.d_val)
					       : NULL;

			if (!name)
				continue;
			foreign |= strncmp(name, "libc.so", 7) && strncmp(name, "ld-linux", 8);
			if (used < out_bytes)
				used += (size_t)snprintf(out + used, out_bytes - used, "%s%s",
							 used ? ", " : "", term_safe(name, 60));
		}
	}
	return foreign;
}

static void check_elf(struct doctor *d, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char needed[256];
	GElf_Ehdr h;
	Elf *e;

	elf_version(EV_CURRENT);
	e = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	if (!e || !gelf_getehdr(e, &h) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_machine != OUR_MACHINE || h.e_type != ET_DYN) {
		doctor_add(d, "preload format", DOCTOR_FAIL, "build or install it for this machine",
			   "%s is not a shared object for this machine", path);
	} else {
		bool foreign = list_needed(e, needed, sizeof(needed));

		doctor_add(d, "preload format", foreign ? DOCTOR_WARN : DOCTOR_OK,
			   foreign ? "it should need only the C library: every job would load the "
				     "others too"
				   : "",
			   "needs %s", *needed ? needed : "nothing");
	}
	elf_end(e);
	if (fd >= 0)
		close(fd);
}

static void run_true(void *arg, int fd)
{
	setenv("LD_PRELOAD", arg, 1);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	execl("/bin/true", "true", (char *)NULL);
	dprintf(fd, "/bin/true: %s", strerror(errno));
	_exit(127);
}

void doctor_preload_check(struct doctor *d)
{
	const char *disabled = getenv("SYSOM_DISABLE");
	char path[PATH_MAX], out[300];
	int r;

	if (paths_preload(path, sizeof(path))) {
		doctor_add(
		    d, "preload library", DOCTOR_FAIL,
		    "install libsysom_preload.so in ../lib beside sysom, or set SYSOM_PRELOAD",
		    "%s is missing or can't be read", path);
		return;
	}
	doctor_add(d, "preload library", DOCTOR_OK, "", "%s", path);
	if (strpbrk(path, ": "))
		doctor_add(d, "preload path", DOCTOR_FAIL,
			   "install it elsewhere or set SYSOM_PRELOAD",
			   "LD_PRELOAD can't hold a path with a colon or space");
	check_elf(d, path);
	r = doctor_child(run_true, path, out, sizeof(out));
	if (r == 0 && !*out)
		doctor_add(d, "preload loads", DOCTOR_OK, "",
			   "/bin/true runs under it and prints nothing");
	else
		doctor_add(d, "preload loads", DOCTOR_FAIL, "rebuild it on this machine",
			   "/bin/true fails with it: status %d %s", r, term_safe(out, 100));
	if (disabled && *disabled && strcmp(disabled, "0"))
		doctor_add(d, "switched off", DOCTOR_WARN, "unset SYSOM_DISABLE",
			   "SYSOM_DISABLE is set: jobs start without tracing");
	doctor_add(
	    d, "setuid programs", DOCTOR_OK, "",
	    "ld.so drops LD_PRELOAD for setuid programs and file capabilities: write sudo sysom "
	    "run, not sysom run sudo");
}

/* SPDX-License-Identifier: Apache-2.0
 * Processes that have libsysom_preload.so in LD_PRELOAD and run without it. glibc's loader has printed
 * a line if there was no such file. The others print nothing: musl's loader refuses the library
 * (preload/refuse_musl.c), and a static program has no loader. */
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "cli/doctor/doctor.h"
#include "render/term.h"

#define FILE_NAME "libsysom_preload.so"

enum loader { LOADER_MUSL, LOADER_NONE, LOADER_OTHER, LOADERS };

struct untraced {
	size_t count;
	char first[64]; /* "76 (train.py)" */
};

static FILE *open_of(const char *pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, name);
	return fopen(path, "re");
}

/* Whether a record of the process's file begins with prefix and contains the library's name. end: of a
 * record. */
static bool names_library(const char *pid, const char *file, int end, const char *prefix)
{
	FILE *f = open_of(pid, file);
	size_t bytes = 0, length = strlen(prefix);
	char *record = NULL;
	bool found = false;

	while (f && !found && getdelim(&record, &bytes, end, f) > 0)
		found = !strncmp(record, prefix, length) && strstr(record, FILE_NAME);
	free(record);
	if (f)
		fclose(f);
	return found;
}

static enum loader loader_of(const char *pid)
{
	FILE *f = open_of(pid, "exe");
	enum loader l = LOADER_OTHER;
	char name[256] = "";
	Elf64_Ehdr h;
	Elf64_Phdr p;

	if (f && fread(&h, sizeof(h), 1, f) == 1 && !memcmp(h.e_ident, ELFMAG, SELFMAG)) {
		l = LOADER_NONE;
		for (unsigned i = 0; i < h.e_phnum && l == LOADER_NONE; i++)
			if (!fseek(f, (long)(h.e_phoff + i * sizeof(p)), SEEK_SET) &&
			    fread(&p, sizeof(p), 1, f) == 1 && p.p_type == PT_INTERP)
				l = LOADER_OTHER;
		if (l == LOADER_OTHER && !fseek(f, (long)p.p_offset, SEEK_SET) &&
		    fread(name, 1, sizeof(name) - 1, f) && strstr(name, "ld-musl"))
			l = LOADER_MUSL;
	}
	if (f)
		fclose(f);
	return l;
}

static void count(struct untraced *u, const char *pid)
{
	char name[32] = "";
	FILE *f = u->count++ ? NULL : open_of(pid, "comm");

	if (f && fgets(name, sizeof(name), f)) {
		name[strcspn(name, "\n")] = '\0';
		snprintf(u->first, sizeof(u->first), "%.20s (%s)", pid, term_safe(name, 16));
	}
	if (f)
		fclose(f);
}

void doctor_jobs_check(struct doctor *d)
{
	static const char *const whys[LOADERS] = {
	    "their C library is musl, and tracing needs glibc",
	    "they are linked statically",
	    "their loader did not find it, or ignores LD_PRELOAD for them",
	};
	static const char *const remedies[LOADERS] = {
	    "they run unchanged; use an image with glibc 2.34 or newer to trace them",
	    "they run unchanged; link them dynamically to trace them",
	    "look at the path in their LD_PRELOAD, inside their container; in "
	    "Kubernetes the log of the container sysom-preload says what failed",
	};
	struct untraced u[LOADERS] = {0};
	DIR *proc = opendir("/proc");
	struct dirent *e;

	while (proc && (e = readdir(proc)))
		if (isdigit((unsigned char)*e->d_name) &&
		    names_library(e->d_name, "environ", '\0', "LD_PRELOAD=") &&
		    !names_library(e->d_name, "maps", '\n', ""))
			count(&u[loader_of(e->d_name)], e->d_name);
	if (proc)
		closedir(proc);
	for (size_t i = 0; i < LOADERS; i++)
		if (u[i].count)
			doctor_add(
			    d, "untraced", DOCTOR_WARN, remedies[i],
			    "%zu processes with the library in LD_PRELOAD run without it, for "
			    "example %s: %s",
			    u[i].count, u[i].first, whys[i]);
}

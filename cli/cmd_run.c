/* SPDX-License-Identifier: Apache-2.0
 * LD_PRELOAD gets an absolute path: ld.so would print an error in every process of the job if it did not
 * find a bare name. Without the library or a sysomd the job runs after one warning. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/span_kind.h"
#include "cli/commands.h"
#include "cli/paths.h"

/* False: it is there already (sysom run inside sysom run). */
static bool prepend_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;

	if (!old || !*old) {
		setenv("LD_PRELOAD", library, 1);
		return true;
	}
	if (strncmp(old, library, strlen(library)) == 0 && strchr(": ", old[strlen(library)]))
		return false; /* strchr also finds the final NUL */
	if (asprintf(&value, "%s:%s", library, old) < 0)
		return true;
	setenv("LD_PRELOAD", value, 1);
	free(value);
	return true;
}

static void warn_without_sysomd(const char *socket)
{
	const char *remedy;
	int r = paths_attach(socket, &remedy);

	if (r && r != -EAGAIN)
		fprintf(stderr,
			"sysom run: no sysomd answers at %s (%s): nothing is recorded until one "
			"does; %s\n",
			socket, strerror(-r), remedy);
}

/* Without a GPU and a catalogue, a process does not attach to sysomd, so no other command would report
 * it. */
static void warn_without_spans(void)
{
	const char *path = getenv("SYSOM_SPANS"), *wrong = NULL;
	char head[] = SPAN_TABLE_HEAD "\n", line[sizeof(head)] = "";
	FILE *f;

	if (!path || !*path || !strcmp(path, "off"))
		return;
	f = fopen(path, "re");
	if (!f)
		wrong = strerror(errno);
	else if (!fgets(line, sizeof(line), f) || strcmp(line, head))
		wrong = "not a compiled catalogue: use sysom spans compile";
	else if (*path != '/')
		wrong = "not an absolute path: the job may change its directory";
	if (f)
		fclose(f);
	if (wrong)
		fprintf(stderr, "sysom run: no Python spans with SYSOM_SPANS=%s: %s\n", path,
			wrong);
}

int cmd_run_main(const struct options *o)
{
	char library[PATH_MAX], socket[PATHS_BYTES];

	if (paths_preload(library, sizeof(library))) {
		fprintf(stderr, "sysom run: %s is missing: the job runs without tracing\n",
			library);
	} else if (strpbrk(library, ": ")) {
		fprintf(stderr,
			"sysom run: %s: a path in LD_PRELOAD can't hold a colon or space: "
			"the job runs without tracing\n",
			library);
	} else {
		bool outer = prepend_preload(library);

		if (o->job)
			setenv("SYSOM_JOB", o->job, 1);
		if (o->role)
			setenv("SYSOM_ROLE", o->role, 1);
		paths_socket(socket, "SYSOM_SOCKET_PATH", "sysomd.sock");
		if (strcmp(socket, "/run/sysom/sysomd.sock"))
			setenv("SYSOM_SOCKET_PATH", socket, 1);
		if (outer) {
			warn_without_sysomd(socket);
			warn_without_spans();
		}
	}
	execvp(o->argv[0], o->argv);
	fprintf(stderr, "sysom run: %s: %s\n", o->argv[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

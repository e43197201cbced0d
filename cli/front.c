/* SPDX-License-Identifier: Apache-2.0
 * front.c - `sysom` starts fast because it does not link libcurl, libbpf or libdw: loading them and their
 * 44 libraries takes 20 ms or more. For a command that needs them it executes sysom-full, which has the
 * same commands and every library. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/paths.h"

/* Relative to this program: in a build, and installed. */
static const char *const places[] = {COMMANDS_FULL, "../lib/sysom/" COMMANDS_FULL};

static int become_full(void)
{
	static char name[] = COMMANDS_FULL;
	char path[4096];

	front_argv[0] = name;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (paths_beside(path, sizeof(path), places[i]))
			execv(path, front_argv);
	fprintf(stderr, "sysom: %s: %s; is sysom fully installed?\n", places[1], strerror(errno));
	return EXIT_FAILED;
}

#define FULL(name)                                                                                 \
	int name(const struct options *o)                                                          \
	{                                                                                          \
		return become_full();                                                              \
	}

FULL(cmd_status_main)
FULL(cmd_top_main)
FULL(cmd_requests_main)
FULL(cmd_incidents_list)
FULL(cmd_incidents_show)
FULL(cmd_control_off)
FULL(cmd_control_on)
FULL(cmd_control_capture)
FULL(cmd_wait_main)
FULL(cmd_verdict_main)
FULL(cmd_trace_main)
FULL(cmd_report_main)
FULL(cmd_flame_main)
FULL(cmd_diff_main)
FULL(cmd_doctor_main)

int cmd_record_main(int argc, char **argv)
{
	return become_full();
}

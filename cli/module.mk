# SPDX-License-Identifier: Apache-2.0
LIBS += cli
cli_SRCS := cli/client.c cli/cmd_control.c cli/cmd_incidents.c cli/cmd_replay.c cli/cmd_run.c \
	cli/cmd_status.c cli/cmd_wait.c cli/commands.c cli/incident_text.c cli/options.c cli/paths.c \
	cli/term.c
cli_LDLIBS := -lcurl -ljansson

PROGS += sysom
sysom_SRCS := cli/sysom.c
sysom_USES := cli base

SCRIPTS_TEST += tests/e2e/cli_commands.sh tests/e2e/cli_run.sh

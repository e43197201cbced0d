/* SPDX-License-Identifier: Apache-2.0
 * replay.h - the kinds of `sysom replay`. argv[0] is the kind's name, the rest its arguments.
 * Exit statuses: 0 read to the end, 2 bad arguments or input, 3 output failed or out of memory. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_H
#define SYSOM_CLI_REPLAY_REPLAY_H

#include "base/exit_status.h"

int replay_steps_main(int argc, char **argv);
int replay_events_main(int argc, char **argv);
int replay_ops_main(int argc, char **argv);
int replay_links_main(int argc, char **argv);
int replay_stacks_main(int argc, char **argv);
int replay_timings_main(int argc, char **argv);
int replay_window_main(int argc, char **argv);

#endif

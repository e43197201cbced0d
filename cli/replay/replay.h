/* SPDX-License-Identifier: Apache-2.0
 * replay.h - the kinds of `sysom replay`: "replay KIND" is each one's name.
 * Exit statuses: 0 read to the end, 2 bad arguments or input, 3 output failed or out of memory. */
#pragma once

#include "cli/options.h"

#define REPLAY_STATUS "0 read to the end, 2 bad arguments or malformed input"

extern const struct command replay_steps, replay_events, replay_ops, replay_links, replay_stacks,
    replay_timings, replay_window;

/* SPDX-License-Identifier: Apache-2.0
 * exit_status.h - the exit statuses of every program, as the manual pages document them. */
#pragma once

enum {
	EXIT_OK = 0,
	EXIT_NOTHING = 1, /* the answer is no: nothing was found, or a check failed */
	EXIT_USAGE = 2,	  /* bad arguments, settings or input files */
	EXIT_FAILED = 3,  /* what was asked could not be done: nobody answers, no room, no memory */
};

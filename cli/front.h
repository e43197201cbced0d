/* SPDX-License-Identifier: Apache-2.0
 * front.h - what front.c needs to hand a command over: the program's own arguments. */
#ifndef SYSOM_CLI_FRONT_H
#define SYSOM_CLI_FRONT_H

extern char **front_argv;

#endif

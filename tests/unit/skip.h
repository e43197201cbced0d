/* SPDX-License-Identifier: Apache-2.0
 * A case that cannot run here: names what it lacks, as tests/needs.py knows it. Where that is here,
 * tests/run.py calls the skip a failure. */
#pragma once

#define skip_needs(need)                                                                           \
	do {                                                                                       \
		print_message("# needs %s\n", need);                                               \
		skip();                                                                            \
	} while (0)

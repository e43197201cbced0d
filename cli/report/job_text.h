/* SPDX-License-Identifier: Apache-2.0
 * job_text.h - a job's kinds of steps as text for people. Threads: one caller. Trust: they are a server's
 * JSON: missing or odd fields are left out. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* answer: of /api/v1/kinds; a kind may have a "cause", from the incident of its first occurrence. */
void job_text_print(FILE *to, const json_t *answer);

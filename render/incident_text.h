/* SPDX-License-Identifier: Apache-2.0
 * incident_text.h - an incident as text for people. Threads: one caller. Trust: the incident is a server's
 * JSON; fields that are missing or invalid are left out. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* plots: the output of show_plots_print; stacks: of incident_stacks_print; or NULL. */
void incident_text_print(FILE *to, const json_t *incident, const char *plots, const char *stacks);
/* Columns of running text: 80 if standard output is not a terminal. */
unsigned incident_text_columns(void);
/* One line of the list of incidents, and the list's heading. */
void incident_text_row(FILE *to, const json_t *incident);
void incident_text_head(FILE *to);
/* Whether the incident is a transient. */
bool incident_text_is_transient(const json_t *in);
/* Whether the incident overlaps this time and is a better match than `best` (NULL: none yet). Any other
 * incident is better than a transient; otherwise the shorter one is better. False for incidents of
 * requests. */
bool incident_text_holds(const json_t *in, const json_t *best, uint64_t begin_unix_ns,
			 uint64_t end_unix_ns);
/* When a hang began and was last seen, if known; false: not a hang, or not known. */
bool incident_text_hung(const json_t *in, uint64_t *since_unix_ns, uint64_t *until_unix_ns);
/* ", for 12.4 s so far"; ", for 12.4 s; nothing slow since 02:50:24" of an open incident whose findings
 * have ended; "". Static buffer. */
const char *incident_text_lasted(const json_t *in);
/* "rank 5 is slow", "ranks 0-7 are slow together", ... Static buffer. */
const char *incident_text_title(const json_t *incident);
/* "NAMESPACE/POD, container NAME, host NAME" of an element of "pods". Static buffer. */
const char *incident_text_pod(const json_t *place);
/* An array of ranks, sorted, as "0-4, 6". */
const char *incident_text_ranks(const json_t *ranks);

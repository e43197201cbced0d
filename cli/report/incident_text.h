/* SPDX-License-Identifier: Apache-2.0
 * incident_text.h - an incident as a person wants to read it. Threads: one caller. Trust: the
 * incident is a peer's JSON: missing or odd fields are left out. */
#ifndef SYSOM_CLI_REPORT_INCIDENT_TEXT_H
#define SYSOM_CLI_REPORT_INCIDENT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The verdict first, if there is one. plots: what show_plots_print wrote, stacks: what
 * incident_stacks_print did, or NULL. */
void incident_text_print(FILE *to, const json_t *incident, const char *plots, const char *stacks);
/* How wide running text may be: 80 where standard output is no terminal. */
unsigned incident_text_columns(void);
/* One line of a list; the head names its columns. */
void incident_text_row(FILE *to, const json_t *incident);
void incident_text_head(FILE *to);
/* One or two slow steps of a rank, as when its host is late once. */
bool incident_text_is_transient(const json_t *in);
/* When a hang began and was last seen, as far as that is told; false: of no hang. */
bool incident_text_hung(const json_t *in, uint64_t *since_unix_ns, uint64_t *until_unix_ns);
/* "rank 5 is slow", "ranks 0-7 are slow together", ... In a static buffer of term.h. */
const char *incident_text_title(const json_t *incident);
/* An array of ranks, sorted, as "0-4, 6". */
const char *incident_text_ranks(const json_t *ranks);

#endif

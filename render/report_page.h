/* SPDX-License-Identifier: Apache-2.0
 * report_page.h - the part of a report that needs the incident's JSON alone: title, verdict with its
 * ledger and evidence, figures, signals, and which windows there are. `sysom report` adds the pictures;
 * sysom-aggregator serves it as it is. One self-contained HTML page without a script.
 * Trust: the incident is a peer's JSON: every text is escaped. Threads: any, each with a FILE. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* The page's head, its title, the verdicts and the figures. */
void report_page_begin(FILE *to, const json_t *incident);
/* What the operating system and the GPU did; for a raised signal, how much longer its accounts are. */
void report_page_signals(FILE *to, const json_t *incident);
void report_page_windows(FILE *to, const json_t *incident);
void report_page_end(FILE *to);
/* All of it, as a complete page. */
void report_page_write(FILE *to, const json_t *incident);

/* Writes a page that links to the page of each incident in an answer of /api/v1/incidents, without
 * transients. The button for older incidents keeps the arguments in "query", which the caller adds
 * to the answer. */
void report_page_list(FILE *to, const json_t *answer);

/* report_verdict.c: the diagnosis, or that there is none. */
void report_verdict_put(FILE *to, const json_t *incident);

/* SPDX-License-Identifier: Apache-2.0
 * incident_ledger.h - the table of a verdict: what each account of a step takes usually, what it
 * took in the slow steps, and the difference; the differences add up to the slowdown. Threads: one
 * caller. */
#ifndef SYSOM_CLI_REPORT_INCIDENT_LEDGER_H
#define SYSOM_CLI_REPORT_INCIDENT_LEDGER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether the verdict came with a ledger. */
bool incident_ledger_is_known(const json_t *diagnosis);
/* Prints nothing where it did not. */
void incident_ledger_print(FILE *to, const json_t *diagnosis, bool hang, unsigned columns);
/* "kernel gemm <<<128, 256>>>": an account as a person reads it. Static; harmless. */
const char *incident_ledger_account(const json_t *row, unsigned columns);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * incident_ledger.h - a verdict's table: each account's time in the reference and in the slow steps, and
 * its excess. The excesses add up to the slowdown. Threads: one caller. */
#ifndef SYSOM_CLI_REPORT_INCIDENT_LEDGER_H
#define SYSOM_CLI_REPORT_INCIDENT_LEDGER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether the verdict has a ledger. */
bool incident_ledger_is_known(const json_t *diagnosis);
/* Prints nothing without a ledger. */
void incident_ledger_print(FILE *to, const json_t *diagnosis, bool hang, unsigned columns);
/* "kernel gemm <<<128, 256>>>": an account as a person reads it. Static; harmless. */
const char *incident_ledger_account(const json_t *row, unsigned columns);

#endif

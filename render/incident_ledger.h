/* SPDX-License-Identifier: Apache-2.0
 * incident_ledger.h - a verdict's table: each account's time in the reference and in the slow steps, and
 * its excess. The excesses add up to the slowdown. Threads: one caller. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether the verdict has a ledger. */
bool incident_ledger_is_known(const json_t *diagnosis);
/* A sentence if the verdict is not based on this ledger; else "". Static. */
const char *incident_ledger_note(const json_t *diagnosis);
struct incident_ledger_figures {
	double usual, slow, excess; /* ms */
};
/* Calls put for each account that matters, largest excess first, and for "all else"; name is at most so
 * many columns wide. */
void incident_ledger_each(const json_t *ledger, unsigned columns,
			  void (*put)(void *arg, const char *name,
				      struct incident_ledger_figures f),
			  void *arg);
/* Prints nothing without a ledger. */
void incident_ledger_print(FILE *to, const json_t *diagnosis, bool hang, unsigned columns);
/* "kernel gemm <<<128, 256>>>": an account as a person reads it. Static; safe to print. */
const char *incident_ledger_account(const json_t *row, unsigned columns);

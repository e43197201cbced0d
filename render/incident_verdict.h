/* SPDX-License-Identifier: Apache-2.0
 * incident_verdict.h - the diagnosis of an incident (docs/INTERFACES.md) as a note.
 * Trust: it is a server's JSON. Threads: one caller; texts are term.h's. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The text of a line of evidence, which is an object or a text. Borrowed. */
const char *incident_verdict_line(const json_t *line);
/* Whether it is a hang, which has no steps and so no figures per step. */
bool incident_verdict_is_hang(const json_t *incident);
/* The cause is unknown, and there is no evidence (INV-9). */
bool incident_verdict_is_empty(const json_t *d);
/* The layer that a line of evidence is about; "": none or unknown. Borrowed. */
const char *incident_verdict_layer(const json_t *line);
const char *incident_verdict_hours(double gpu_hours); /* "19.2", "0.4" */
/* It is open, and detection has not seen its end. */
bool incident_verdict_goes_on(const json_t *incident);
/* The k-th diagnosis, main one first: unrelated faults have one each. NULL: no more. Borrowed. */
const json_t *incident_verdict_at(const json_t *incident, size_t k);
/* The kind of time of the account that the first verdict rests on, as flame graphs call it: "on", "off",
 * "gpu"; NULL: none of them, or no ledger. Static. */
const char *incident_verdict_metric(const json_t *incident);
/* Prints nothing without a diagnosis; columns wide. */
void incident_verdict_print(FILE *to, const json_t *incident, unsigned columns);

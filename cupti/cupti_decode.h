/* SPDX-License-Identifier: Apache-2.0
 * cupti_decode.h - CUPTI's activity records to ring events. Pure except for the two callbacks.
 * Trust: the records are CUPTI's; stamps are checked, names copied at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foreign/cupti.h"
#include "ring/ring_format.h"

enum cupti_decode_result {
	CUPTI_DECODE_KERNEL, /* *out is a struct event_kernel */
	CUPTI_DECODE_COPY,   /* *out is a struct event_copy */
	CUPTI_DECODE_GRAPH,  /* *out is a struct event_kernel of kind EVENT_GRAPH_EXEC */
	CUPTI_DECODE_ZERO_STAMP,
	CUPTI_DECODE_REVERSED,
	CUPTI_DECODE_PARTIAL,
	CUPTI_DECODE_UNKNOWN,
};

union cupti_decode_event {
	struct event_head head;
	struct event_kernel kernel;
	struct event_copy copy;
};

/* Decodes one record. A kernel's fields are filled in even if its stamps are invalid. *name: the
 * kernel's name to intern (borrowed from CUPTI), else NULL. */
enum cupti_decode_result cupti_decode_record(const void *record, union cupti_decode_event *out,
					     const char **name);

/* SPDX-License-Identifier: Apache-2.0
 * span.h - spans that the preload itself makes, from functions that a catalogue names (python/).
 * Threads: any. Keeps errno; never allocates after a thread's first event. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ring/ring_format.h"

#define SPAN_VALUE_MAX 1e15 /* more is not a count of anything */

struct span_mark {
	uint64_t t;	  /* tracer_now() */
	uint64_t request; /* hash of the request's id; 0: none */
	float work[SPAN_WORK_MAX];
	uint32_t name;
	uint8_t process, thread;
	uint16_t depth; /* among the open spans of a catalogue on this thread */
};
struct tracer_thread;

/* One end of a span, EVENT_SPAN_BEGIN or EVENT_SPAN_END, on the calling thread's lane. */
void span_push_mark(struct tracer_thread *t, uint16_t kind, const struct span_mark *m);
uint32_t span_intern(const char *text);
/* A step of a catalogue. continues: some of its requests were in the step before. The job's own
 * calls of sysom.h take precedence: after the first one, these calls have no effect. Steps are
 * counted even while tracing is off. */
void span_step_begin(uint64_t t, const float work[SPAN_WORK_MAX], enum span_phase phase,
		     bool continues);
void span_step_end(void);

/* SPDX-License-Identifier: Apache-2.0
 * retention.h - one list of rules: how long a job's windows and incidents are kept, and how many. The
 * first rule whose pattern fits the job's key (NAME[#RUN]@UID) decides. The general limits apply to
 * what this rule does not set, and to jobs that no rule fits.
 * Pure: no I/O, no clock. Threads: any, while nobody writes to it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "model/window.h"

/* A shorter age would remove what is being written. */
#define RETENTION_AGE_MIN_NS	60e9
#define RETENTION_AGE_MAX_NS	(3650 * 86400e9)
#define RETENTION_INCIDENTS_MAX 1e9

struct retention_limits {
	uint64_t window_age_ns;	  /* bodies of windows go this long after they arrived */
	uint64_t incident_age_ns; /* closed incidents go this long after their last window */
	uint64_t bytes;	    /* bound of bodies and incidents; above it the oldest go; 0: none */
	uint64_t incidents; /* bound of closed incidents; above it the oldest go; 0: none */
};

struct retention {
	struct retention_limits rest; /* of jobs that no rule fits; set before the rules are read */
	uint32_t rule_count;
	struct retention_rule {
		char pattern[WIRE_TEXT_BYTES];
		struct retention_limits limits;
	} rules[LIMIT_RETENTION_RULES];
};

/* Reads "PATTERN [windows=AGE] [incidents=AGE] [max_bytes=SIZE] [max_incidents=N]; ...". In a
 * pattern, '*' stands for any text and '?' for any byte. 0, or -EINVAL with the reason in `why`. */
int retention_read(struct retention *r, const char *text, char *why, size_t why_bytes);
/* Borrowed from r. */
const struct retention_limits *retention_of(const struct retention *r, const char *job);
/* The longest age of an incident in any rule. */
uint64_t retention_longest_ns(const struct retention *r);
/* The shortest age of an incident in any rule. */
uint64_t retention_shortest_ns(const struct retention *r);

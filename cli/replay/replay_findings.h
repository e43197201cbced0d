/* SPDX-License-Identifier: Apache-2.0
 * replay_findings.h - findings as `sysom replay` prints them: a JSON object per line, or text.
 * Threads: one caller. Trust: texts hold names from the job: made harmless here. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_FINDINGS_H
#define SYSOM_CLI_REPLAY_REPLAY_FINDINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "model/finding.h"

/* What only some kinds know. */
struct replay_findings_extra {
	bool has_sure_step; /* the step after which detection was sure */
	uint64_t sure_step;
	const char *measure; /* "self", "late"; NULL: not told */
	uint32_t window;     /* steps of the window that was sure first; 0: not told */
};

/* One line. extra may be NULL. */
void replay_findings_json(FILE *to, const struct finding *f,
			  const struct replay_findings_extra *extra);
/* A line, then its evidence, indented, and the remedy. */
void replay_findings_text(FILE *to, const struct finding *f,
			  const struct replay_findings_extra *extra);
#endif

/* SPDX-License-Identifier: Apache-2.0
 * replay_findings.h - prints findings for `sysom replay`: a JSON object per line, or text.
 * Threads: one caller. Trust: texts hold names from the job: they are printed harmless. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "model/finding.h"

/* Fields that only some kinds have. */
struct replay_findings_extra {
	bool has_sure_step; /* sure_step: the step after which detection was certain */
	uint64_t sure_step;
	const char *measure; /* "self", "late"; NULL: none */
	uint32_t window;     /* steps of the first window that was certain; 0: none */
};

/* One line. extra may be NULL. */
void replay_findings_json(FILE *to, const struct finding *f,
			  const struct replay_findings_extra *extra);
/* A line; below it, indented, evidence and remedy. */
void replay_findings_text(FILE *to, const struct finding *f,
			  const struct replay_findings_extra *extra);

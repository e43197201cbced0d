/* SPDX-License-Identifier: Apache-2.0
 * replay_line.h - a judged step in print, as `sysom replay window` has it. Threads: any. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_LINE_H
#define SYSOM_CLI_REPLAY_REPLAY_LINE_H

#include <stdio.h>

#include "analysis/expect/judge.h"
#include "base/buf.h"
#include "model/window.h"

/* A line with its end. Real numbers have 17 digits: equal lines are equal bits. */
void replay_line_step_json(struct buf *b, int32_t rank, const struct step *s,
			   const struct judge_verdict *v);
/* The same for people; a head before the first one. */
void replay_line_step_text(FILE *to, bool *headed, int32_t rank, const struct step *s,
			   const struct judge_verdict *v);
/* A step as a stored window has it: with what was said of it then. */
void replay_line_window_json(struct buf *b, const struct window *w, const struct window_step *s);
void replay_line_window_text(FILE *to, bool *headed, const struct window *w,
			     const struct window_step *s);

#endif

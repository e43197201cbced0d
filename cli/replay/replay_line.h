/* SPDX-License-Identifier: Apache-2.0
 * replay_line.h - prints judged steps for `sysom replay window`. Threads: any. */
#pragma once

#include <stdio.h>

#include "analysis/expect/judge.h"
#include "base/buf.h"
#include "model/window.h"

/* A line with its newline. Numbers have 17 digits, so equal lines mean equal bits. */
void replay_line_step_json(struct buf *b, int32_t rank, const struct step *s,
			   const struct judge_verdict *v);
/* The same for people, with a heading before the first line. */
void replay_line_step_text(FILE *to, bool *headed, int32_t rank, const struct step *s,
			   const struct judge_verdict *v);
/* A stored window's step, with its live judgement. */
void replay_line_window_json(struct buf *b, const struct window *w, const struct window_step *s);
void replay_line_window_text(FILE *to, bool *headed, const struct window *w,
			     const struct window_step *s);

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/replay_line.h"

#include <math.h>

#include "base/text.h"

/* JSON knows no infinity and no NaN. */
static void put_real(struct buf *b, const char *key, double v)
{
	if (isfinite(v))
		buf_printf(b, ",\"%s\":%.17g", key, v);
	else
		buf_printf(b, ",\"%s\":null", key);
}

static void put_count(struct buf *b, const char *key, uint64_t v)
{
	buf_printf(b, ",\"%s\":%llu", key, (unsigned long long)v);
}

static void put_bool(struct buf *b, const char *key, bool v)
{
	buf_printf(b, ",\"%s\":%s", key, v ? "true" : "false");
}

/* What was found, and whether it was flagged; the line goes on. */
static void put_step(struct buf *b, int32_t rank, const struct step *s, bool flagged)
{
	buf_printf(b, "{\"type\":\"step\",\"rank\":%d", (int)rank);
	put_count(b, "step", s->index);
	put_count(b, "begin_ns", s->begin_ns);
	put_count(b, "end_ns", s->end_ns);
	put_count(b, "compute_ns", s->compute_ns);
	put_count(b, "comm_ns", s->comm_ns);
	put_count(b, "exposed_comm_ns", s->exposed_comm_ns);
	put_count(b, "copy_ns", s->copy_ns);
	put_count(b, "idle_ns", s->idle_ns);
	put_count(b, "kernels", s->kernels);
	put_bool(b, "flagged", flagged);
	put_count(b, "latency_ns", s->latency_ns);
	put_count(b, "self_ns", s->self_ns);
	put_count(b, "device_begin_ns", s->device_begin_ns);
	put_count(b, "device_end_ns", s->device_end_ns);
	put_count(b, "device_latency_ns", s->device_latency_ns);
	put_count(b, "launch_gap_max_ns", s->launch_gap_max_ns);
	put_count(b, "launches", s->launches);
	put_count(b, "collectives", s->collectives);
	put_count(b, "copies", s->copies);
	put_count(b, "unmatched", s->unmatched);
	put_count(b, "phase", s->phase);
	buf_printf(b, ",\"key\":\"%016llx\",\"work\":[", (unsigned long long)s->key);
	for (uint32_t i = 0; i < s->work_count && i < STEP_WORK_MAX; i++)
		buf_printf(b, isfinite(s->work[i]) ? "%s%.17g" : "%snull", i ? "," : "",
			   s->work[i]);
	buf_printf(b, "],\"source\":\"%s\"", s->source == STEP_SOURCE_EXPLICIT ? "marks" : "auto");
	put_bool(b, "edge", s->flags & STEP_FLAG_EDGE);
	put_bool(b, "gap", s->flags & STEP_FLAG_GAP);
	put_bool(b, "incomplete", s->flags & STEP_FLAG_INCOMPLETE);
	put_bool(b, "cpu_bound", s->flags & STEP_FLAG_CPU_BOUND);
	put_bool(b, "resync", s->flags & STEP_FLAG_RESYNC);
}

void replay_line_step_json(struct buf *b, int32_t rank, const struct step *s,
			   const struct judge_verdict *v)
{
	put_step(b, rank, s, v->flagged);
	buf_printf(b, ",\"state\":\"%s\",\"judged\":\"%s\"",
		   roofline_state_name((enum roofline_state)v->state), judge_skip_name(v->skip));
	put_real(b, "expected_ns", v->expected_ns);
	put_real(b, "excess", v->excess);
	put_real(b, "expected_self_ns", v->expected_self_ns);
	put_real(b, "self_excess", v->self_excess);
	put_bool(b, "out", v->out);
	put_bool(b, "self_flagged", v->self);
	put_bool(b, "drift", v->drift);
	buf_puts(b, "}\n");
}

void replay_line_window_json(struct buf *b, const struct window *w, const struct window_step *s)
{
	char id[2 * sizeof(w->id) + 1];

	put_step(b, w->rank.rank, &s->step, s->flags & WINDOW_STEP_FLAGGED);
	put_real(b, "expected_ns", s->expected_ns);
	put_real(b, "excess", s->excess);
	put_real(b, "expected_self_ns", s->expected_self_ns);
	put_real(b, "self_excess", s->self_excess);
	put_bool(b, "out", s->flags & WINDOW_STEP_OUT);
	put_bool(b, "margin", s->flags & WINDOW_STEP_MARGIN);
	text_hex(w->id, sizeof(w->id), id);
	buf_printf(b, ",\"window\":\"%s\"}\n", id);
}

static void print_head(FILE *to, bool *headed)
{
	if (!*headed)
		fputs("rank     step   latency ms  expected ms  excess %      self ms  self excess "
		      "%\n",
		      to);
	*headed = true;
}

static void print_figures(FILE *to, int32_t rank, const struct step *s, double expected_ns,
			  double excess, double self_excess)
{
	fprintf(to, "%4d %8llu %12.3f %12.3f %9.2f %12.3f %14.2f  ", (int)rank,
		(unsigned long long)s->index, (double)s->latency_ns * 1e-6, expected_ns * 1e-6,
		excess * 100, (double)s->self_ns * 1e-6, self_excess * 100);
}

void replay_line_step_text(FILE *to, bool *headed, int32_t rank, const struct step *s,
			   const struct judge_verdict *v)
{
	print_head(to, headed);
	print_figures(to, rank, s, v->expected_ns, v->excess, v->self_excess);
	fprintf(to, "%s%s%s%s\n",
		v->skip != JUDGE_USED ? judge_skip_name(v->skip)
				      : roofline_state_name((enum roofline_state)v->state),
		v->flagged ? " SLOW" : "", v->self ? " in self time" : "",
		v->drift ? " drift" : "");
}

void replay_line_window_text(FILE *to, bool *headed, const struct window *w,
			     const struct window_step *s)
{
	print_head(to, headed);
	print_figures(to, w->rank.rank, &s->step, s->expected_ns, s->excess, s->self_excess);
	fprintf(to, "%s%s\n", s->flags & WINDOW_STEP_MARGIN ? "margin" : "",
		s->flags & WINDOW_STEP_FLAGGED ? "SLOW" : "");
}

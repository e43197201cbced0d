/* SPDX-License-Identifier: Apache-2.0
 * diff_trace.c - see diff_source.h: makes a window from what the replay reads of a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/room.h"
#include "cli/diff/diff_source.h"
#include "cli/replay/replay_find.h"

#define STEPS_MAX (1u << 22)

struct found {
	struct window_step *step;
	size_t count, room;
};

static int keep(void *to, const struct step *s, const struct step_kernel *kernels, uint32_t count,
		const struct judge_verdict *v)
{
	struct found *f = to;

	(void)kernels;
	(void)count;
	if (f->count == STEPS_MAX)
		return -E2BIG;
	if (ROOM_FOR(f->step, f->room, f->count + 1))
		return -ENOMEM;
	f->step[f->count++] =
	    (struct window_step){.step = *s,
				 .expected_ns = v->expected_ns,
				 .expected_self_ns = v->expected_self_ns,
				 .excess = v->excess,
				 .self_excess = v->self_excess,
				 .flags = s->flags | (v->flagged ? WINDOW_STEP_FLAGGED : 0)};
	return 0;
}

int diff_trace_load(struct trace_model *m, const char *path, uint64_t *skipped)
{
	struct replay_trace t = {.rank = 0};
	struct found f = {0};
	struct replay_find find = {.step = keep, .to = &f};
	struct window w = {.rank = {.rank = -1, .world_size = -1, .local_rank = -1}};
	int err = replay_load(&t, path);

	if (err)
		return err;
	err = replay_find(&find, &t);
	if (!err && t.host_count < UINT32_MAX && t.device_count < UINT32_MAX) {
		w.steps = f.step;
		w.step_count = (uint32_t)f.count;
		w.host = t.host;
		w.host_count = (uint32_t)t.host_count;
		w.device = t.device;
		w.device_count = (uint32_t)t.device_count;
		w.names = t.names.text;
		w.name_count = t.names.count;
		w.begin_ns = f.count ? f.step[0].step.begin_ns : 1;
		w.end_ns = f.count ? f.step[f.count - 1].step.end_ns : 1;
		err = trace_model_add(m, &w);
		trace_model_finish(m);
	}
	*skipped = t.unknown_kind + m->left_out;
	if (err)
		fprintf(stderr, "sysom diff: %s: %s\n", path, strerror(-err));
	free(f.step);
	replay_load_free(&t);
	return err;
}

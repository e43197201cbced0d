/* SPDX-License-Identifier: Apache-2.0
 * diff_trace.c - see diff_source.h: what the replay reads of a file becomes a window. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/expect/roofline.h"
#include "analysis/steps/steps.h"
#include "base/room.h"
#include "cli/diff/diff_source.h"
#include "cli/replay/replay_load.h"
#include "cli/text/pages.h"

#define KEYS_MAX     256u
#define LAUNCHES_MAX (1u << 20)
#define STEPS_MAX    (1u << 22)

struct finder {
	struct steps *steps;
	struct roofline_set *latency, *self;
	struct window_step *out;
	size_t count, room;
};

static void judge(struct finder *f, struct window_step *w)
{
	const struct step *s = &w->step;
	struct roofline_verdict latency, self = {0};

	if (s->flags & (STEP_FLAG_EDGE | STEP_FLAG_GAP | STEP_FLAG_RESYNC))
		return;
	if ((s->flags & STEP_FLAG_INCOMPLETE) && s->unmatched * 20 > s->launches)
		return;
	latency = roofline_push(roofline_set_get(f->latency, s->key), s->work, s->work_count,
				(double)s->latency_ns);
	if (s->kernels)
		self = roofline_push(roofline_set_get(f->self, s->key), s->work, s->work_count,
				     (double)s->self_ns);
	w->expected_ns = latency.expected_ns;
	w->expected_self_ns = self.expected_ns;
	w->excess = latency.excess;
	w->self_excess = self.excess;
	if (latency.flagged || (self.flagged && (latency.out || latency.state != ROOFLINE_READY)))
		w->flags |= WINDOW_STEP_FLAGGED;
}

static int take(struct finder *f)
{
	static struct step_kernel kernels[STEP_KERNELS_MAX];
	struct step s;
	uint32_t n;

	while (steps_next(f->steps, &s, kernels, &n)) {
		if (f->count == STEPS_MAX)
			return -E2BIG;
		if (ROOM_FOR(f->out, f->room, f->count + 1))
			return -ENOMEM;
		f->out[f->count] = (struct window_step){.step = s, .flags = s.flags};
		judge(f, &f->out[f->count++]);
	}
	return 0;
}

static int find(struct finder *f, const struct replay_trace *t)
{
	size_t h = 0, d = 0;
	int err = 0;

	while ((h < t->host_count || d < t->device_count) && !err) {
		uint64_t host = h < t->host_count ? t->host[h].begin_ns : UINT64_MAX;
		uint64_t device = d < t->device_count ? t->device[d].begin_ns : UINT64_MAX;

		if (host <= device) {
			steps_push_host(f->steps, &t->host[h++], NULL);
		} else {
			steps_push_device(f->steps, &t->device[d++]);
			steps_advance(f->steps, device);
		}
		err = take(f);
	}
	steps_finish(f->steps);
	return err ? err : take(f);
}

static int find_steps(struct finder *f, const struct replay_trace *t)
{
	size_t most = t->host_count > t->device_count / 2 ? t->host_count : t->device_count / 2;
	struct roofline_config rc;
	struct steps_config sc;
	void *memory[3];
	int err = -ENOMEM;

	steps_config_default(&sc);
	roofline_config_default(&rc);
	sc.automatic_only = sc.whole_first = true;
	sc.launch_max = most < LAUNCHES_MAX ? (uint32_t)most + 1 : LAUNCHES_MAX;
	memory[0] = pages_aligned(steps_memory_bytes(&sc));
	memory[1] = pages_aligned(roofline_set_memory_bytes(&rc, KEYS_MAX));
	memory[2] = pages_aligned(roofline_set_memory_bytes(&rc, KEYS_MAX));
	if (memory[0] && memory[1] && memory[2]) {
		f->steps = steps_init(memory[0], &sc);
		f->latency = roofline_set_init(memory[1], &rc, KEYS_MAX);
		f->self = roofline_set_init(memory[2], &rc, KEYS_MAX);
		err = find(f, t);
	}
	for (int i = 0; i < 3; i++)
		free(memory[i]);
	return err;
}

int diff_trace_load(struct trace_model *m, const char *path, uint64_t *skipped)
{
	struct replay_trace t = {.rank = 0};
	struct finder f = {0};
	struct window w = {.rank = {.rank = -1, .world_size = -1, .local_rank = -1}};
	int err = replay_load(&t, path);

	if (err)
		return err;
	err = find_steps(&f, &t);
	if (!err && t.host_count < UINT32_MAX && t.device_count < UINT32_MAX) {
		w.steps = f.out;
		w.step_count = (uint32_t)f.count;
		w.host = t.host;
		w.host_count = (uint32_t)t.host_count;
		w.device = t.device;
		w.device_count = (uint32_t)t.device_count;
		w.names = t.names.text;
		w.name_count = t.names.count;
		w.begin_ns = f.count ? f.out[0].step.begin_ns : 1;
		w.end_ns = f.count ? f.out[f.count - 1].step.end_ns : 1;
		err = trace_model_add(m, &w);
		trace_model_finish(m);
	}
	*skipped = t.unknown_kind + m->left_out;
	if (err)
		fprintf(stderr, "sysom diff: %s: %s\n", path, strerror(-err));
	free(f.out);
	replay_load_free(&t);
	return err;
}

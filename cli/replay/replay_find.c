/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/replay_find.h"

#include "base/carve.h"
#include "cli/text/pages.h"
#include <errno.h>
#include <stdlib.h>

#include "analysis/steps/steps.h"

#define LAUNCHES_MAX (1u << 20)

static int take(struct replay_find *f, struct steps *s, struct judge *j)
{
	static struct step_kernel kernels[STEP_KERNELS_MAX];
	struct step st;
	uint32_t count;
	int err = 0;

	while (!err && steps_next(s, &st, kernels, &count)) {
		struct judge_verdict v = judge_push(j, &st, 0);

		err = f->step(f->to, &st, kernels, count, &v);
	}
	return err;
}

/* Merges host records, marks and device records in the order of a live run. */
static int feed(struct replay_find *f, const struct replay_trace *t, struct steps *s,
		struct judge *j)
{
	struct replay_cursor c = {.trace = t, .marks = f->marks};
	size_t d = 0;
	int err = 0;

	while (!err) {
		uint64_t device = d < t->device_count ? t->device[d].begin_ns : UINT64_MAX;
		uint64_t host = replay_cursor_ns(&c);

		if (host == UINT64_MAX && device == UINT64_MAX)
			break;
		if (host <= device) {
			struct record x = replay_cursor_take(&c);

			steps_push_host(s, &x, NULL);
		} else {
			steps_push_device(s, &t->device[d++]);
			steps_advance(s, device);
		}
		err = take(f, s, j);
	}
	steps_finish(s);
	return err ? err : take(f, s, j);
}

int replay_find(struct replay_find *f, const struct replay_trace *t)
{
	size_t most = t->host_count > t->device_count / 2 ? t->host_count : t->device_count / 2;
	struct judge_config jc;
	struct steps_config sc;
	struct steps_stats stats;
	void *memory, *judge_memory;
	int err = -ENOMEM;

	steps_config_default(&sc);
	sc.automatic_only = !f->marks;
	sc.whole_first = true;
	sc.launch_max = most < LAUNCHES_MAX ? (uint32_t)most + 1 : LAUNCHES_MAX;
	judge_config_default(&jc);
	jc.roofline.mode = f->mode;
	memory = pages_filled(carve_memory(steps_memory_bytes(&sc)), steps_memory_bytes(&sc));
	judge_memory = carve_memory(judge_memory_bytes(&jc));
	if (memory && judge_memory) {
		struct steps *s = steps_init(memory, &sc);

		err = feed(f, t, s, judge_init(judge_memory, &jc));
		steps_stats(s, &stats);
		f->few = stats.few;
	}
	free(memory);
	free(judge_memory);
	return err;
}

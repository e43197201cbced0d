/* SPDX-License-Identifier: Apache-2.0
 * governor.c - one short burst must not cost the records, and a lasting load must not cost the job:
 * hence several windows in a row, and a pause that grows. */
#include "preload/governor.h"

static void governor_window(struct governor *g, uint64_t now_ns, uint64_t cpu_ns)
{
	g->window_from_ns = now_ns;
	g->window_cpu_ns = cpu_ns;
}

static void governor_turn_off(struct governor *g, uint64_t now_ns)
{
	bool soon = g->on_since_ns && now_ns - g->on_since_ns < GOVERNOR_QUIET_NS;

	g->off_for_ns = soon ? g->off_for_ns * 2 : GOVERNOR_OFF_MIN_NS;
	if (g->off_for_ns < GOVERNOR_OFF_MIN_NS)
		g->off_for_ns = GOVERNOR_OFF_MIN_NS;
	if (g->off_for_ns > GOVERNOR_OFF_MAX_NS)
		g->off_for_ns = GOVERNOR_OFF_MAX_NS;
	g->off_from_ns = now_ns;
	g->strikes = 0;
}

bool governor_step(struct governor *g, uint64_t now_ns, uint64_t cpu_ns)
{
	if (g->off_from_ns) {
		if (now_ns - g->off_from_ns < g->off_for_ns)
			return true;
		g->off_from_ns = 0;
		g->on_since_ns = now_ns;
		governor_window(g, now_ns, cpu_ns);
		return false;
	}
	if (!g->window_from_ns) {
		governor_window(g, now_ns, cpu_ns);
		return false;
	}
	if (now_ns - g->window_from_ns < GOVERNOR_WINDOW_NS)
		return false;
	g->share = (double)(cpu_ns - g->window_cpu_ns) / (double)(now_ns - g->window_from_ns);
	g->strikes = g->share > GOVERNOR_SHARE ? g->strikes + 1 : 0;
	governor_window(g, now_ns, cpu_ns);
	if (g->strikes >= GOVERNOR_STRIKES)
		governor_turn_off(g, now_ns);
	return g->off_from_ns != 0;
}

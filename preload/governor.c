/* SPDX-License-Identifier: Apache-2.0
 * governor.c - one short burst must not stop the records, and a lasting load must not slow the job.
 * So the governor acts only after several consecutive windows above the budget, and its pauses
 * grow. In the middle level each window begins with a burst of full records. The cost of the burst
 * shows whether the load is over, and how long the next burst may be. */
#include "preload/governor.h"

static void governor_window(struct governor *g, const struct governor_load *load)
{
	g->window_from_ns = load->now_ns;
	g->window_cpu_ns = load->cpu_ns;
	g->window_records = load->records;
	g->window_nodes = load->nodes;
}

static double governor_share(const struct governor *g, const struct governor_load *load)
{
	uint64_t ns = load->now_ns - g->window_from_ns;

	return ns ? (double)(load->cpu_ns - g->window_cpu_ns) / (double)ns : 0.0;
}

/* Whether recording graph launches instead of their nodes would help. */
static bool governor_nodes_count(const struct governor *g, const struct governor_load *load)
{
	return load->can_coarsen &&
	       (double)(load->nodes - g->window_nodes) >
		   GOVERNOR_NODES_MOST * (double)(load->records - g->window_records);
}

static void governor_turn_off(struct governor *g, uint64_t now_ns)
{
	bool soon = g->on_since_ns && now_ns - g->on_since_ns < GOVERNOR_QUIET * g->window_ns;

	g->off_for_ns = soon ? g->off_for_ns * 2 : GOVERNOR_OFF_MIN * g->window_ns;
	if (g->off_for_ns < GOVERNOR_OFF_MIN * g->window_ns)
		g->off_for_ns = GOVERNOR_OFF_MIN * g->window_ns;
	if (g->off_for_ns > GOVERNOR_OFF_MAX * g->window_ns)
		g->off_for_ns = GOVERNOR_OFF_MAX * g->window_ns;
	g->off_from_ns = now_ns;
	g->strikes = 0;
	g->burst = false;
}

/* At share s, bursts may run for GOVERNOR_DUTY_SHARE * budget / s of the time. */
static void governor_set_duty(struct governor *g, double share)
{
	double duty = share > 0.0 ? GOVERNOR_DUTY_SHARE * g->budget / share : GOVERNOR_DUTY_MAX;

	g->duty = duty < GOVERNOR_DUTY_MIN   ? GOVERNOR_DUTY_MIN
		  : duty > GOVERNOR_DUTY_MAX ? GOVERNOR_DUTY_MAX
					     : duty;
}

static void governor_begin_cycle(struct governor *g, const struct governor_load *load)
{
	governor_window(g, load);
	g->burst = g->graphs;
}

/* A complete window is over. */
static void governor_judge(struct governor *g, const struct governor_load *load)
{
	double share = governor_share(g, load);

	if (!g->graphs)
		g->share = share;
	g->strikes = share > g->budget ? g->strikes + 1 : 0;
	if (g->strikes < GOVERNOR_STRIKES)
		return;
	g->share = share;
	if (!g->graphs && governor_nodes_count(g, load)) {
		g->graphs = true;
		g->calm = 0;
		g->strikes = 0;
		governor_set_duty(g, share);
		return;
	}
	governor_turn_off(g, load->now_ns);
}

static void governor_end_burst(struct governor *g, const struct governor_load *load)
{
	g->burst = false;
	g->share = governor_share(g, load);
	g->calm = g->share <= g->budget ? g->calm + 1 : 0;
	governor_set_duty(g, g->share);
	if (g->calm < GOVERNOR_CALM && load->can_coarsen)
		return;
	g->graphs = false;
	g->strikes = 0;
	governor_window(g, load);
}

enum governor_records governor_step(struct governor *g, const struct governor_load *load)
{
	uint64_t in_window;

	if (!g->window_ns)
		g->window_ns = GOVERNOR_WINDOW_NS;
	if (g->budget <= 0.0)
		g->budget = GOVERNOR_SHARE;
	if (g->off_from_ns) {
		if (load->now_ns - g->off_from_ns < g->off_for_ns)
			return GOVERNOR_NONE;
		g->off_from_ns = 0;
		g->on_since_ns = load->now_ns;
		governor_begin_cycle(g, load);
	} else if (!g->window_from_ns) {
		governor_begin_cycle(g, load);
	}
	in_window = load->now_ns - g->window_from_ns;
	if (g->burst && in_window >= (uint64_t)(g->duty * (double)g->window_ns))
		governor_end_burst(g, load);
	else if (!g->burst && in_window >= g->window_ns) {
		governor_judge(g, load);
		governor_begin_cycle(g, load);
	}
	if (g->off_from_ns)
		return GOVERNOR_NONE;
	return g->graphs && !g->burst ? GOVERNOR_COARSE : GOVERNOR_ALL;
}

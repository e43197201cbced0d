/* SPDX-License-Identifier: Apache-2.0
 * cli_windows.h - windows made up for tests of the exporters: two ranks on two nodes, two overlapping
 * windows of the slow one, a graph with parallel branches, spans that do not nest, a name that needs
 * escaping, impossible times. The caller frees nothing: storage is static, rebuilt by each call. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "model/window.h"

#define CLI_WINDOWS	      3
#define CLI_WINDOWS_STEPS     6
#define CLI_WINDOWS_STEP_NS   10000000ull
#define CLI_WINDOWS_BEGIN_NS  12000000000ull
#define CLI_WINDOWS_OFFSET_NS 1795229400000000000ll

struct cli_windows {
	struct window w[CLI_WINDOWS];
	struct window_step steps[CLI_WINDOWS][CLI_WINDOWS_STEPS];
	struct record host[CLI_WINDOWS][256], device[CLI_WINDOWS][256];
};

static char *cli_windows_names[] = {(char *)"", (char *)"gemm<float, \"128x64\">\\n",
				    (char *)"ncclDevKernel_AllReduce_Sum_f32_RING_LL",
				    (char *)"forward", (char *)"graph branch"};

static inline struct record *cli_windows_add(struct record *a, uint32_t *count, unsigned kind,
					     uint64_t begin_ns, uint64_t end_ns, uint32_t name,
					     uint32_t thread, uint32_t stream)
{
	struct record *r = &a[(*count)++];

	memset(r, 0, sizeof(*r));
	r->kind = (uint16_t)kind;
	r->begin_ns = begin_ns;
	r->end_ns = end_ns;
	r->name = name;
	r->thread = thread;
	r->stream = stream;
	r->peer = -1;
	return r;
}

static inline void cli_windows_step(struct cli_windows *c, struct window *w, int which, uint64_t t,
				    uint64_t index)
{
	struct record *host = c->host[which], *device = c->device[which], *r;
	uint32_t *hc = &w->host_count, *dc = &w->device_count;
	uint32_t tid = w->rank.pid;

	cli_windows_add(host, hc, RECORD_SPAN, t, t + 4000000, 3, tid, 0);
	cli_windows_add(host, hc, RECORD_SPAN, t + 2000000, t + 6000000, 3, tid, 0);
	for (unsigned i = 0; i < 4; i++) {
		r = cli_windows_add(host, hc, RECORD_LAUNCH, t + i * 100000, t + i * 100000 + 5000,
				    1, tid, 7); /* no correlation: sysomd's have none */
		r->grid[0] = 64;
		r->grid[1] = r->grid[2] = 1;
		r = cli_windows_add(device, dc, RECORD_KERNEL, t + 500000 + i * 1000000,
				    t + 500000 + (i + 1) * 1000000, 1, 0, 7);
		r->launch_ns = t + i * 100000;
		r->correlation = (uint32_t)(index * 10 + i + 1);
		r->grid[0] = 64;
		r->grid[1] = r->grid[2] = 1;
		r->block[0] = 128;
		r->block[1] = r->block[2] = 1;
	}
	/* a group around a collective: nested host slices */
	r = cli_windows_add(host, hc, RECORD_COLL, t + 500000, t + 900000, 0, tid, 0);
	r->func = RECORD_COLL_GROUP_START;
	r = cli_windows_add(host, hc, RECORD_COLL, t + 600000, t + 700000, 0, tid, 8);
	r->func = RECORD_COLL_ALL_REDUCE;
	r->key = 0xfeedface;
	r->seq = (uint32_t)index;
	r = cli_windows_add(device, dc, RECORD_COLL_KERNEL, t + 5000000, t + 8000000, 2, 0, 8);
	r->func = RECORD_COLL_ALL_REDUCE;
	r->launch_ns = t + 600000;
	r->key = 0xfeedface;
	r->seq = (uint32_t)index;
	r->bytes = 1 << 20;
	/* parallel branches of a graph on one stream */
	r = cli_windows_add(device, dc, RECORD_KERNEL, t + 8000000, t + 9000000, 4, 0, 7);
	r->flags = RECORD_FLAG_GRAPH;
	r = cli_windows_add(device, dc, RECORD_KERNEL, t + 8500000, t + 9500000, 4, 0, 7);
	r->flags = RECORD_FLAG_GRAPH | RECORD_FLAG_UNMATCHED;
	cli_windows_add(host, hc, RECORD_SYNC, t + 9000000, t + 9900000, 0, tid, 0);
	cli_windows_add(host, hc, RECORD_STEP_BEGIN, t, t, 0, tid, 0);
}

static inline void cli_windows_fill(struct cli_windows *c, int which, int rank, uint64_t first)
{
	struct window *w = &c->w[which];

	memset(w, 0, sizeof(*w));
	memset(w->id, 0x10 + which, sizeof(w->id));
	strcpy(w->rank.job, "demo");
	snprintf(w->rank.node, sizeof(w->rank.node), "node-%d", rank);
	strcpy(w->rank.program, "train.py");
	w->rank.rank = rank;
	w->rank.world_size = 2;
	w->rank.pid = 4242; /* the same on both nodes */
	w->realtime_offset_ns = CLI_WINDOWS_OFFSET_NS;
	w->begin_ns = CLI_WINDOWS_BEGIN_NS + first * CLI_WINDOWS_STEP_NS;
	w->end_ns = w->begin_ns + CLI_WINDOWS_STEPS * CLI_WINDOWS_STEP_NS;
	w->reason = rank ? WINDOW_SELF : WINDOW_ASKED;
	w->model_state = 1;
	w->steps = c->steps[which];
	w->host = c->host[which];
	w->device = c->device[which];
	w->names = cli_windows_names;
	w->name_count = 5;
	for (uint64_t i = 0; i < CLI_WINDOWS_STEPS; i++) {
		struct window_step *s = &w->steps[w->step_count++];
		uint64_t index = first + i;

		memset(s, 0, sizeof(*s));
		s->step.index = index;
		s->step.begin_ns = CLI_WINDOWS_BEGIN_NS + index * CLI_WINDOWS_STEP_NS;
		s->step.end_ns = s->step.begin_ns + CLI_WINDOWS_STEP_NS;
		s->step.latency_ns = CLI_WINDOWS_STEP_NS;
		s->step.self_ns = 7000000;
		s->step.source = STEP_SOURCE_AUTO;
		s->expected_ns = 6000000;
		s->excess = 0.6667;
		s->flags = rank && index >= 2 && index < 6 ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED
							   : WINDOW_STEP_MARGIN;
		cli_windows_step(c, w, which, s->step.begin_ns, index);
	}
}

static inline struct cli_windows *cli_windows_make(void)
{
	static struct cli_windows c;

	memset(&c, 0, sizeof(c));
	cli_windows_fill(&c, 0, 1, 0);
	cli_windows_fill(&c, 1, 1, 4); /* overlaps the first in two steps */
	cli_windows_fill(&c, 2, 0, 0);
	return &c;
}

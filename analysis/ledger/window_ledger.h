/* SPDX-License-Identifier: Apache-2.0
 * window_ledger.h - the ledgers of a window's slow and healthy steps. A step's interval is the
 * GPU's, if known: from the end of the step before to its own end. Trust: the window was decoded;
 * its times are checked here. Time: n log n in its device records. Threads: any. */
#pragma once

#include "analysis/ledger/coll_split.h"
#include "analysis/ledger/host_timeline.h"
#include "analysis/ledger/ledger.h"
#include "model/window.h"

#define WINDOW_LEDGER_KINDS 4u

struct window_ledger {
	struct {
		struct ledger slow, healthy;
	} kind[WINDOW_LEDGER_KINDS]; /* one for each set of steps that are compared */
	struct coll_parts colls;     /* collectives of slow and healthy steps */
	/* the open interval of a rank that hangs, as one step; empty: no hang */
	struct ledger open;
};
/* The open interval of a window; false: it has none. */
bool window_ledger_interval(const struct window *w, struct ledger_interval *out);
/* The index of the thread in which the rank hangs: the launch thread that blocked last. The other
 * threads wait for it, or have nothing to do. */
uint32_t window_ledger_thread(const struct host_timeline *host, struct ledger_interval open);
/* What the thread did last in the open interval; NULL: not known. *since_ns: if the thread waits,
 * when that wait began; else the end of what is known. */
const struct ledger_segment *window_ledger_wait(const struct host_timeline *host, uint32_t thread,
						struct ledger_interval open, uint64_t *since_ns);
void window_ledger_fini(struct window_ledger *l);
/* Adds the window to *out. slow[], healthy[], kind[]: for each step of the window, whether it
 * counts as slow, whether it counts as healthy, and its kind. The kind of a step that counts is
 * below WINDOW_LEDGER_KINDS. False: no memory. */
bool window_ledger_add(const struct window *w, const bool *slow, const bool *healthy,
		       const uint8_t *kind, const struct host_timeline *host,
		       struct window_ledger *out);

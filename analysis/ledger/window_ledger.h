/* SPDX-License-Identifier: Apache-2.0
 * window_ledger.h - the ledgers of a window's slow and healthy steps. A step's interval is the
 * GPU's, if known: from the end of the step before to its own end. Trust: the window was decoded;
 * its times are checked here. Time: n log n in its device records. Threads: any. */
#pragma once

#include "analysis/ledger/coll_split.h"
#include "analysis/ledger/host_timeline.h"
#include "analysis/ledger/ledger.h"
#include "model/window.h"

struct window_ledger {
	struct ledger slow, healthy;
	struct coll_parts colls; /* of slow and healthy steps */
	/* the open interval of a rank that hangs, as one step; empty: no hang */
	struct ledger open;
};
/* The open interval of a window; false: it has none. */
bool window_ledger_interval(const struct window *w, struct ledger_interval *out);
/* The index of the thread in which the rank hangs: the launch thread that blocked last. The others
 * wait for it, or have nothing to do. */
uint32_t window_ledger_thread(const struct host_timeline *host, struct ledger_interval open);
/* What the thread did last in the open interval; NULL: not known. since_ns: if it waits, when that
 * wait began; else the end of what is known. */
const struct ledger_segment *window_ledger_wait(const struct host_timeline *host, uint32_t thread,
						struct ledger_interval open, uint64_t *since_ns);
/* Adds to *out. slow[], healthy[]: for each step of the window, whether it counts as slow or as
 * healthy. false: no memory. */
bool window_ledger_add(const struct window *w, const bool *slow, const bool *healthy,
		       const struct host_timeline *host, struct window_ledger *out);

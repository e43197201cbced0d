/* SPDX-License-Identifier: Apache-2.0
 * window_ledger.h - the ledgers (analysis/ledger/ledger.h) of a window's slow and healthy steps.
 * A step's interval is the GPU's: from the end of the step before to its own end, where that is
 * known. Trust: the window was decoded; its times are checked here. Work: n log n in its device
 * records. Threads: any. */
#ifndef SYSOM_ANALYSIS_LEDGER_WINDOW_LEDGER_H
#define SYSOM_ANALYSIS_LEDGER_WINDOW_LEDGER_H

#include "analysis/ledger/coll_split.h"
#include "analysis/ledger/host_timeline.h"
#include "analysis/ledger/ledger.h"
#include "model/window.h"

struct window_ledger {
	struct ledger slow, calm;
	struct coll_parts colls; /* of both */
	struct ledger open; /* of the time in which the steps stand still, as one step; empty: they go on */
};
/* The open interval of a window; false: it has none. */
bool window_ledger_interval(const struct window *w, struct ledger_interval *out);
/* The thread that the rank hangs in, as the timeline numbers it: of all that launch the one that came to
 * rest last. The others wait for it, or have nothing to do. */
uint32_t window_ledger_thread(const struct host_timeline *host, struct ledger_interval open);
/* slow[], calm[]: for each step of the window whether it counts there. host: of the
 * launching threads. Adds to *out; false: no memory. */
bool window_ledger_add(const struct window *w, const bool *slow, const bool *calm,
		       const struct host_timeline *host, struct window_ledger *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * window_ledger.h - the ledgers (analysis/ledger.h) of a window's slow and healthy steps.
 * A step's interval is the GPU's: from the end of the step before to its own end, where that is
 * known. Trust: the window was decoded; its times are checked here. Work: n log n in its device
 * records. Threads: any. */
#ifndef SYSOM_AGGREGATOR_WINDOW_LEDGER_H
#define SYSOM_AGGREGATOR_WINDOW_LEDGER_H

#include "aggregator/coll_split.h"
#include "aggregator/host_timeline.h"
#include "analysis/ledger.h"
#include "wire/window.h"

struct window_ledger {
	struct ledger slow, calm;
	struct coll_parts colls; /* of both */
};
/* slow[], calm[]: for each step of the window whether it counts there. host: of the
 * launching threads. Adds to *out; false: no memory. */
bool window_ledger_add(const struct window *w, const bool *slow, const bool *calm,
		       const struct host_timeline *host, struct window_ledger *out);

#endif

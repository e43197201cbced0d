/* SPDX-License-Identifier: Apache-2.0
 * ingest.h - handles the nodes' messages: validates them, passes them to the committer or the
 * fleet, and replies. Trust: every message is hostile. rep disconnects peers with too large
 * messages; the codec refuses other invalid ones. Threads: nng's; open, stop and close from one
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregator/commit.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/rep.h"

struct ingest;

struct ingest_stats {
	uint64_t windows_ok, windows_duplicate, windows_retry, windows_reject;
	uint64_t windows_unsound; /* of the rejected ones */
	uint64_t beats_ok, beats_reject, sketches_ok, sketches_reject, other_reject, newer_retry;
	uint64_t foreign; /* messages in another node's name than the certificate's */
	uint64_t received_bytes;
	struct rep_stats peers;
	struct tls_facts tls;
};

struct ingest_config { /* all borrowed until the close, url during the open */
	const char *url;
	struct tls *tls; /* NULL: plain TCP; a node's name is not verified */
	uint32_t contexts;
	bool verify; /* also decode the records before a window is acknowledged */
	struct commit *commit;
	struct fleet *fleet;
	excerpt_name_fn name; /* of functions of stacks (analysis/cause/excerpt.h); NULL: none */
	void *name_arg;
};

/* 0; -EADDRINUSE, -EINVAL (url), -ENOMEM, -EIO. */
int ingest_open(struct ingest **out, const struct ingest_config *c);
/* From now on replies ask nodes to send windows again later; replies in progress still go out. */
void ingest_stop(struct ingest *g);
/* Call after commit_stop, when the committer has no item left. Lets replies go out, then waits for
 * nng's threads. NULL is a no-op. */
void ingest_close(struct ingest *g);
void ingest_stats(struct ingest *g, struct ingest_stats *out);

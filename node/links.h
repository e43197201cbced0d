/* SPDX-License-Identifier: Apache-2.0
 * links.h - the transfers of one rank's process: how fast each link is, against its own past, and
 * what each collective sent.
 * An input is all that one channel sent to one peer for one collective. It counts as a whole in the
 * period in which it ended. The inputs with the same communicator, function and sequence are one
 * collective, which is complete when no input has come for a second. So nothing is divided between
 * two periods, and a collective that sends nothing between nodes leaves nothing open.
 * The ranks of a job on this node share the times of their collectives: those of one communicator
 * and function are one sample, whichever rank saw them.
 * Owns: its tables, allocated at the first transfer: 1.4 MB; with its siblings, 18 KB for each
 * (communicator, function). Threads: one caller for all siblings. Trust: the transfers are hostile:
 * links and open collectives are bounded, the rest is counted. */
#pragma once

#include <stdbool.h>

#include "analysis/link/link_fit.h"
#include "model/transfer.h"

#define LINKS_MAX	  32u	  /* peers of a rank, over all communicators */
#define LINKS_COLLS_MAX	  16u	  /* (communicator, function) */
#define LINKS_CHANNELS	  64u	  /* of the communication library; higher numbers share the last */
#define LINKS_OPEN_MAX	  64u	  /* collectives whose inputs are still coming */
#define LINKS_LEARN_MIN	  200u	  /* transfers before a link's times are judged */
#define LINKS_LEARN_MAX	  200000u /* after which its usual times are final */
#define LINKS_COMPLETE_NS 1000000000ull

struct links_key {
	uint64_t comm;
	int32_t peer; /* -1: a collective */
	uint16_t rank;
	uint8_t func; /* 0: a link */
};
/* Since the start. */
struct links_sums {
	uint64_t transfers, bytes;
	uint64_t collectives; /* of a link: 0 */
	/* from first to last transfer, summed over collectives, or over a link's inputs (which overlap
	 * if there are several channels) */
	uint64_t time_ns;
};
struct links_usual {
	struct link_samples samples;
	uint64_t count, fitted_count; /* of samples: now; when they were fitted */
	/* A link has one line, a collective has one for each regime of sizes. Periods are compared with
	 * LINK_MEDIAN; LINK_MIN shows the link without congestion. */
	struct link_fit fit[LINK_CENTRES];
};
struct links_link {
	struct links_key key;
	struct links_sums sum;
	uint64_t channels; /* a bit per channel of the period */
	uint64_t busy_ns;  /* sum over inputs of the period, from begin to end */
	struct link_samples period;
	struct links_usual usual;
};
/* The collectives of one communicator and function: what the ranks of the job on this node saw. */
struct links_pool {
	struct links_sums sum;
	uint32_t ranks;
	struct links_usual
	    usual; /* whole collectives: the bytes that the rank sent, and their time */
	const struct links *first; /* one of the ranks */
};
/* The part of one rank. */
struct links_coll {
	struct links_key key;
	struct links_sums sum;
	struct links_pool *pool;
};
/* What one channel of a link has sent since the start. */
struct links_channel {
	uint64_t inputs, transfers, bytes;
	uint64_t time_ns; /* from the first to the last transfer of each input */
	uint64_t wait_ns; /* of each transfer with the network; transfers overlap */
};
/* A link in one period. */
struct links_verdict {
	const struct links_link *link; /* valid until the next call */
	struct link_change change;
	double lost_ns; /* how much longer than usual the period's transfers took; at least 0 */
};
struct links_stats {
	uint64_t inputs, bad, no_room; /* bad: impossible figures */
	uint64_t collectives, late;    /* late: inputs of a collective that was complete */
};
struct links; /* opaque */

/* sibling: of another rank of the same job and user, or NULL. 0 or -ENOMEM. */
int links_open(struct links **out, struct links *sibling);
void links_close(struct links *l); /* NULL is a no-op */
void links_add(struct links *l, const struct transfer *t);
/* Ends a period. Calls back for each link that sent in it, if its usual times are known. */
void links_judge(struct links *l, uint64_t now_ns,
		 void (*on)(void *arg, const struct links_verdict *v), void *arg);
/* The at-th link, and the at-th (communicator, function). NULL: there are no more. */
const struct links_link *links_at(const struct links *l, uint32_t at);
const struct links_coll *links_coll_at(const struct links *l, uint32_t at);
/* The channel of the at-th link; NULL: there is none, or it sent nothing. */
const struct links_channel *links_channel_at(const struct links *l, uint32_t at, uint32_t channel);
/* Bytes per second of the at-th link: its channels send side by side. 0: not known. */
double links_rate(const struct links *l, uint32_t at);
const struct links_stats *links_stats(const struct links *l);

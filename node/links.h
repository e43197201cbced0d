/* SPDX-License-Identifier: Apache-2.0
 * links.h - the transfers of one rank's process: how fast each link is, against its own past, and
 * what each collective sent. An input is everything that one channel sent to one peer for one
 * collective. It counts as a whole, in the period in which it ended, so nothing is divided between
 * two periods. The inputs with the same communicator, function and sequence number are one
 * collective. It is complete when no input has come for a second, so a collective without transfers
 * between nodes leaves nothing open. The ranks of a job on this node share the times of their
 * collectives: the times of one communicator and function go to one set of samples, whichever rank
 * saw them.
 * Owns: its tables, allocated at the first transfer: 1.4 MB; with its siblings, 18 KB for each
 * (communicator, function). Threads: one caller for all siblings. Trust: the transfers are hostile.
 * Links and open collectives are bounded; what exceeds the bounds is counted. */
#pragma once

#include <stdbool.h>

#include "analysis/link/link_fit.h"
#include "model/transfer.h"

#define LINKS_MAX	32u /* peers of a rank, over all communicators */
#define LINKS_COLLS_MAX 16u /* (communicator, function) */
/* channels of the communication library; higher numbers share the last one */
#define LINKS_CHANNELS	  64u
#define LINKS_OPEN_MAX	  64u	  /* collectives whose inputs are still coming */
#define LINKS_LEARN_MIN	  200u	  /* transfers before a link's times are judged */
#define LINKS_LEARN_MAX	  200000u /* transfers after which its usual times are final */
#define LINKS_COMPLETE_NS 1000000000ull

struct links_key {
	uint64_t comm;
	int32_t peer; /* -1: a collective */
	uint16_t rank;
	uint8_t func; /* 0: a link */
};
/* Sums since the start. */
struct links_sums {
	uint64_t transfers, bytes;
	uint64_t collectives; /* 0 for a link */
	/* time from the first to the last transfer, summed over collectives; for a link, over its
	 * inputs (which overlap if there are several channels) */
	uint64_t time_ns;
};
struct links_usual {
	struct link_samples samples;
	/* number of samples now, and at the last fit */
	uint64_t count, fitted_count;
	/* A link has one line, a collective has one for each regime of sizes. Periods are compared with
	 * LINK_MEDIAN; LINK_MIN shows the link without congestion. */
	struct link_fit fit[LINK_CENTRES];
};
struct links_link {
	struct links_key key;
	struct links_sums sum;
	uint64_t channels; /* one bit per channel used in the period */
	uint64_t busy_ns;  /* sum over the period's inputs of the time from begin to end */
	struct link_samples period;
	struct links_usual usual;
};
/* The collectives of one communicator and function, as the job's ranks on this node saw them. */
struct links_pool {
	struct links_sums sum;
	uint32_t ranks;
	struct links_usual
	    usual; /* samples are whole collectives: the bytes that a rank sent, and the time */
	const struct links *first; /* one of the ranks */
};
/* One rank's part of a pool. */
struct links_coll {
	struct links_key key;
	struct links_sums sum;
	struct links_pool *pool;
};
/* What one channel of a link has sent since the start. */
struct links_channel {
	uint64_t inputs, transfers, bytes;
	uint64_t time_ns; /* from the first to the last transfer of each input */
	/* sum over the transfers of their time with the network; transfers overlap */
	uint64_t wait_ns;
};
/* A link in one period. */
struct links_verdict {
	const struct links_link *link; /* valid until the next call */
	struct link_change change;
	double lost_ns; /* how much longer than usual the period's transfers took; at least 0 */
};
struct links_stats {
	uint64_t inputs, bad, no_room; /* bad: impossible figures */
	uint64_t collectives, late;    /* late: inputs for a collective that was already complete */
};
struct links; /* opaque */

/* sibling: the links of another rank of the same job and user, or NULL. 0 or -ENOMEM. */
int links_open(struct links **out, struct links *sibling);
void links_close(struct links *l); /* NULL is a no-op */
void links_add(struct links *l, const struct transfer *t);
/* Ends a period. Calls `on` for each link that sent in the period and whose usual times are
 * known. */
void links_judge(struct links *l, uint64_t now_ns,
		 void (*on)(void *arg, const struct links_verdict *v), void *arg);
/* The link number `at`, and the (communicator, function) number `at`. NULL: there are no more. */
const struct links_link *links_at(const struct links *l, uint32_t at);
const struct links_coll *links_coll_at(const struct links *l, uint32_t at);
/* A channel of link number `at`; NULL: there is no such channel, or it sent nothing. */
const struct links_channel *links_channel_at(const struct links *l, uint32_t at, uint32_t channel);
/* Bytes per second of link number `at`, summed over its channels, which send in parallel. 0: not
 * known. */
double links_rate(const struct links *l, uint32_t at);
const struct links_stats *links_stats(const struct links *l);

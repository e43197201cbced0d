/* SPDX-License-Identifier: Apache-2.0
 * nccl_peers.h - the meeting place of one simulated communicator's ranks: a shared-memory segment
 * named by the communicator's id, and unlinked after everybody has joined.
 * Owns: the mapping.  Threads: any thread may use meets; one at a time for joins and splits.
 * Trust: the other ranks run the same program.  If a rank dies, its peers wait, as in reality. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_PEERS_ID_BYTES  16
#define NCCL_PEERS_MAX_RANKS 64
#define NCCL_PEERS_TORN	     UINT32_MAX

/* A rendezvous of `need` parties; `generation` counts its uses. */
struct nccl_meet {
	uint32_t generation;
	uint32_t arrived;
	uint32_t acked;
	uint32_t what; /* of the first arrival; NCCL_PEERS_TORN if another one differed */
	uint64_t latest_ns;
	uint64_t cost_ns; /* the largest of all parties */
};

struct nccl_peers;

/* Announces this rank. 0 or -errno. */
int nccl_peers_open(struct nccl_peers **out, const uint8_t id[NCCL_PEERS_ID_BYTES], int rank,
		    int rank_count);
/* Sleeps until every rank has announced itself. */
void nccl_peers_wait(struct nccl_peers *p);
void nccl_peers_close(struct nccl_peers *p);
/* Changes whenever a meeting is complete or free again (a shared futex). */
uint32_t *nccl_peers_word(struct nccl_peers *p);

/* The k-th collective, and the k-th message from src to dst. */
struct nccl_meet *nccl_peers_collective(struct nccl_peers *p, uint64_t k, uint32_t *generation);
struct nccl_meet *nccl_peers_message(struct nccl_peers *p, int src, int dst, uint64_t k,
				     uint32_t *generation);
/* what: function and type of the operation, not 0 or NCCL_PEERS_TORN. If parties differ, their
 * operation never ends, as in reality. false: an earlier use of the slot has not finished, try
 * again later. */
bool nccl_peers_arrive(struct nccl_peers *p, struct nccl_meet *m, uint32_t generation,
		       uint32_t need, uint32_t what, uint64_t start_ns, uint64_t cost_ns);
/* 0 while a party is missing, and for ever if they differ; otherwise the last arrival plus the
 * cost, equal for all. Call nccl_peers_leave once afterwards. */
uint64_t nccl_peers_end(struct nccl_meet *m, uint32_t need);
void nccl_peers_leave(struct nccl_meet *m, uint32_t need);

/* The s-th split: publishes color and key; the second call waits for those of all ranks. */
int nccl_peers_split_tell(struct nccl_peers *p, uint64_t s, int color, int key);
/* Fills the order of the ranks of this rank's color and the new id. Returns their number; 0 for a
 * rank without a color. *rank is this rank's place. */
int nccl_peers_split_wait(struct nccl_peers *p, uint64_t s, int *rank,
			  uint8_t id[NCCL_PEERS_ID_BYTES]);

/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/links_node.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "model/record.h"
#include "node/links.h"
#include "sidecar/node.h"
#include "sidecar/os/os_node.h"
#include "sidecar/os/os_signals.h"

struct feed {
	struct os_signals *os;
	uint32_t pid;
};

static void on_verdict(void *arg, const struct links_verdict *v)
{
	const struct feed *f = arg;
	const struct links_key *k = &v->link->key;
	/* the upper bits of a level's key are its kind's */
	uint64_t key = hash_mix(k->comm ^ (uint64_t)k->rank << 32 ^ (uint32_t)k->peer) >> 16;
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	snprintf(subject, sizeof(subject), "%u to %" PRId32 " of communicator %" PRIx64, k->rank,
		 k->peer, k->comm);
	os_signals_level(f->os, f->pid, OS_SIGNAL_LINK_TIME, key,
			 v->change.mean > 1 ? 100 * (v->change.mean - 1) : 0, subject);
	os_signals_count(f->os, f->pid, OS_SIGNAL_LINK_WAIT, key, v->lost_ns / 1e6, subject);
}

void links_node_tend(struct node *n, uint64_t now_ns)
{
	struct os_signals *os = os_node_signals(n);

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];
		struct feed f = {os, p && p->pid > 0 ? (uint32_t)p->pid : 0};

		/* without signals the transfers wait for them: periods may have any length */
		if (p && p->links && os && f.pid)
			links_judge(p->links, now_ns, on_verdict, &f);
	}
}

static void put_fit(struct buf *out, const struct link_fit *f)
{
	buf_printf(out, ",\"regimes\":[");
	for (uint32_t i = 0; i < f->regimes; i++) {
		const struct link_regime *r = &f->regime[i];

		buf_printf(out, "%s{\"max_bytes\":%" PRIu64 ",\"latency_us\":%.6g,\"rate_gb_s\":",
			   i ? "," : "", r->max_bytes, r->latency_ns / 1e3);
		if (r->ns_per_byte > 0)
			buf_printf(out, "%.6g}", 1 / r->ns_per_byte);
		else
			buf_printf(out, "null}");
	}
	buf_printf(out, "],\"mape\":%.4f", f->regimes ? f->mape : 0.0);
}

void links_node_json(const struct process *p, struct buf *out)
{
	const struct links_link *k;

	buf_printf(out, ",\"links\":[");
	for (uint32_t i = 0; p->links && (k = links_at(p->links, i)); i++) {
		buf_printf(out,
			   "%s{\"communicator\":\"%" PRIx64 "\",\"from\":%u,\"to\":%" PRId32
			   ",\"transfers\":%" PRIu64 ",\"bytes\":\"%" PRIu64 "\"",
			   i ? "," : "", k->key.comm, k->key.rank, k->key.peer, k->transfers,
			   k->bytes);
		put_fit(out, &k->fit);
		buf_printf(out, "}");
	}
	buf_printf(out, "],\"collectives\":[");
	for (uint32_t i = 0; p->links && (k = links_coll_at(p->links, i)); i++)
		buf_printf(out,
			   "%s{\"communicator\":\"%" PRIx64
			   "\",\"function\":\"%s\",\"count\":%" PRIu64 ",\"bytes\":\"%" PRIu64
			   "\"}",
			   i ? "," : "", k->key.comm, record_coll_name(k->key.func), k->transfers,
			   k->bytes);
	buf_printf(out, "]");
}

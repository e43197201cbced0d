/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/links_node.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/http/http_user.h"
#include "base/text/json_text.h"
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

		/* until there are signals, the transfers are kept: a period may have any length */
		if (p && p->links && os && f.pid)
			links_judge(p->links, now_ns, on_verdict, &f);
	}
}

static void put_line(struct buf *out, const struct link_fit *f)
{
	buf_printf(out, "\"regimes\":[");
	for (uint32_t i = 0; i < f->regimes; i++) {
		const struct link_regime *r = &f->regime[i];

		buf_printf(out, "%s{\"max_bytes\":%" PRIu64 ",\"latency_us\":%.6g,\"rate_gb_s\":",
			   i ? "," : "", r->max_bytes, r->latency_ns / 1e3);
		if (r->ns_per_byte > 0)
			buf_printf(out, "%.6g}", 1 / r->ns_per_byte);
		else
			buf_printf(out, "null}");
	}
	buf_printf(out, "],\"r2\":%.4f,\"mape\":%.4f", f->regimes ? f->r2 : 0.0,
		   f->regimes ? f->mape : 0.0);
}

static void put_fits(struct buf *out, const struct link_fit fit[LINK_CENTRES])
{
	buf_printf(out, ",");
	put_line(out, &fit[LINK_MEDIAN]);
	buf_printf(out, ",\"avg\":{");
	put_line(out, &fit[LINK_AVG]);
	buf_printf(out, "},\"min\":{");
	put_line(out, &fit[LINK_MIN]);
	buf_printf(out, "}");
}

static void put_channels(const struct links *l, uint32_t at, struct buf *out)
{
	bool first = true;

	buf_printf(out, ",\"gb_s\":%.6g,\"channels\":[", links_rate(l, at) / 1e9);
	for (uint32_t i = 0; i < LINKS_CHANNELS; i++) {
		const struct links_channel *c = links_channel_at(l, at, i);

		if (!c)
			continue;
		buf_printf(out,
			   "%s{\"channel\":%u,\"transfers\":%" PRIu64 ",\"bytes\":\"%" PRIu64
			   "\",\"size\":%.0f,\"ms\":%.6g,\"latency_us\":%.6g}",
			   first ? "" : ",", i, c->transfers, c->bytes,
			   (double)c->bytes / (double)c->transfers, (double)c->time_ns / 1e6,
			   (double)c->wait_ns / 1e3 / (double)c->transfers);
		first = false;
	}
	buf_printf(out, "]");
}

void links_node_json(const struct process *p, struct buf *out)
{
	const struct links_link *k;

	buf_printf(out, ",\"links\":[");
	for (uint32_t i = 0; p->links && (k = links_at(p->links, i)); i++) {
		buf_printf(out,
			   "%s{\"communicator\":\"%" PRIx64 "\",\"from\":%u,\"to\":%" PRId32
			   ",\"transfers\":%" PRIu64 ",\"bytes\":\"%" PRIu64 "\"",
			   i ? "," : "", k->key.comm, k->key.rank, k->key.peer, k->sum.transfers,
			   k->sum.bytes);
		put_fits(out, k->usual.fit);
		put_channels(p->links, i, out);
		buf_printf(out, "}");
	}
	buf_printf(out, "]");
}

static void put_coll(const struct process *p, const struct links_coll *c, struct buf *out)
{
	const struct links_sums *s = &c->pool->sum;

	json_text_append(out, "{\"job\":", p->id.job);
	buf_printf(
	    out,
	    ",\"communicator\":\"%" PRIx64 "\",\"function\":\"%s\",\"ranks\":%u,\"count\":%" PRIu64
	    ",\"transfers\":%" PRIu64 ",\"bytes\":\"%" PRIu64 "\",\"ms\":%.6g,\"bus_gb_s\":%.6g",
	    c->key.comm, record_coll_name(c->key.func), c->pool->ranks, s->collectives,
	    s->transfers, s->bytes, (double)s->time_ns / 1e6,
	    s->time_ns ? (double)s->bytes / (double)s->time_ns : 0.0);
	put_fits(out, c->pool->usual.fit);
	buf_printf(out, "}");
}

void links_node_json_colls(const struct node *n, const struct http_user *user, struct buf *out)
{
	const char *comma = "";

	buf_printf(out, ",\"collectives\":[");
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];
		const struct links_coll *c;

		if (!p || !p->links || !http_user_sees(user, p->uid))
			continue;
		for (uint32_t at = 0; (c = links_coll_at(p->links, at)); at++) {
			if (c->pool->first != p->links)
				continue;
			buf_printf(out, "%s", comma);
			put_coll(p, c, out);
			comma = ",";
		}
	}
	buf_printf(out, "]");
}

/* ---- metrics ---- */

static const struct {
	const char *name, *help;
	bool of_coll;
	enum { BYTES, SECONDS, TRANSFERS, COLLECTIVES } what;
} series[] = {
    {"sysom_collective_bytes_total", "Bytes that the rank sent to other nodes in collectives.",
     true, BYTES},
    {"sysom_collective_seconds_total",
     "Time of these collectives from first to last transfer; bytes per second of it are the bus "
     "bandwidth.",
     true, SECONDS},
    {"sysom_collective_transfers_total", "Transfers to other nodes in these collectives.", true,
     TRANSFERS},
    {"sysom_collectives_total", "Collectives with transfers to other nodes.", true, COLLECTIVES},
    {"sysom_link_bytes_total", "Bytes that the rank sent to this peer.", false, BYTES},
    {"sysom_link_seconds_total", "Time of these transfers, of all channels together.", false,
     SECONDS},
    {"sysom_link_transfers_total", "Transfers to this peer.", false, TRANSFERS},
};

static void put_sample(struct metrics *m, size_t at, const struct process *p,
		       const struct links_key *key, const struct links_sums *sum)
{
	double v = series[at].what == BYTES	  ? (double)sum->bytes
		   : series[at].what == SECONDS	  ? (double)sum->time_ns * 1e-9
		   : series[at].what == TRANSFERS ? (double)sum->transfers
						  : (double)sum->collectives;
	char rank[12], comm[20], to[12];

	snprintf(rank, sizeof(rank), "%d", p->id.rank);
	snprintf(comm, sizeof(comm), "%" PRIx64, key->comm);
	snprintf(to, sizeof(to), "%" PRId32, key->peer);
	metrics_sample(m, series[at].name, v, "job_name", p->id.job, "rank", rank, "communicator",
		       comm, series[at].of_coll ? "function" : "to",
		       series[at].of_coll ? record_coll_name(key->func) : to, NULL);
}

static void put_samples(struct metrics *m, size_t at, const struct process *p)
{
	const struct links_coll *c;
	const struct links_link *k;

	for (uint32_t i = 0; series[at].of_coll && (c = links_coll_at(p->links, i)); i++)
		put_sample(m, at, p, &c->key, &c->sum);
	for (uint32_t i = 0; !series[at].of_coll && (k = links_at(p->links, i)); i++)
		put_sample(m, at, p, &k->key, &k->sum);
}

void links_node_metrics(const struct node *n, const struct http_user *user, struct metrics *m)
{
	for (size_t s = 0; s < ARRAY_LEN(series); s++) {
		metrics_family(m, series[s].name, series[s].help);
		for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
			const struct process *p = n->processes[i];

			if (p && p->links && p->state != PROCESS_GONE &&
			    http_user_sees(user, p->uid))
				put_samples(m, s, p);
		}
	}
}

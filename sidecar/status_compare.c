/* SPDX-License-Identifier: Apache-2.0
 * The part of the status about comparing ranks: beats, sketches, peers on this node, and commands
 * from the aggregator. One table serves the JSON and the metrics. */
#include <stdio.h>
#include <string.h>

#include "analysis/slow/local_peers.h"
#include "base/check.h"
#include "base/metrics/metrics.h"
#include "sidecar/node.h"
#include "sidecar/requests.h"
#include "sidecar/stacks/sketch_maker.h"
#include "sidecar/status.h"

struct compare {
	struct beats_stats beats; /* of all attached ranks */
	struct sketch_maker_stats sketches;
	struct requests_stats requests;
	struct local_peers_stats peers;
	struct uplink_stats uplink;
};

static const struct status_row rows[] = {
#define ROW(part, key, end, field, help, time)                                                     \
	{                                                                                          \
		part, key, "sysom_" part "_" key end, help, offsetof(struct compare, field), time  \
	}
#define COUNT(part, key, field, help) ROW(part, key, "_total", field, help, false)
    COUNT("beats", "sent", uplink.beats_sent, "Beats answered."),
    COUNT("beats", "failed", uplink.beats_failed, "Beats without an answer."),
    COUNT("beats", "replaced", uplink.beats_replaced,
	  "Beats that the next one replaced before they were sent."),
    COUNT("beats", "groups_merged", beats.groups_merged,
	  "Step groups merged because a beat had no room."),
    COUNT("beats", "groups_lost", beats.groups_lost,
	  "Step groups dropped because a beat had no room."),
    COUNT("beats", "collectives_thinned", beats.colls_thinned,
	  "Sampled collectives left out because a beat had no room."),
    COUNT("beats", "communicators_forgotten", beats.comms_forgotten,
	  "Communicators dropped to make room for newer ones."),
    COUNT("sketches", "made", sketches.made, "Sketches made."),
    COUNT("sketches", "failed", sketches.failed, "Sketches that could not be made."),
    COUNT("sketches", "cut", sketches.cut, "Functions and kernels that found no room in a sketch."),
    COUNT("sketches", "sent", uplink.sketches_sent, "Sketches accepted by the aggregator."),
    COUNT("sketches", "again", uplink.sketches_again, "Sketches sent again on a new connection."),
    COUNT("sketches", "refused", uplink.sketches_failed,
	  "Sketches refused by the aggregator, or not answered."),
    COUNT("sketches", "dropped", uplink.sketches_dropped, "Sketches dropped without a connection."),
    COUNT("sketches", "addresses_named", sketches.profile.named,
	  "Native addresses of sketches that got a name."),
    COUNT("sketches", "addresses_unnamed", sketches.profile.unnamed,
	  "Native addresses that no symbol covers."),
    COUNT("sketches", "addresses_over_budget", sketches.profile.over_budget,
	  "Native addresses left for a later sketch."),
    ROW("sketches", "cpu", "_seconds_total", sketches.cpu_ns,
	"CPU time of the thread that makes sketches.", true),
    COUNT("peers", "rounds", peers.rounds, "Steps compared among ranks of this node."),
    COUNT("peers", "missing", peers.missing, "Steps without a step of a peer to compare with."),
    COUNT("peers", "unlike", peers.unlike, "Steps not compared because their work differed."),
    COUNT("peers", "skewed", peers.skewed, "Slow stretches that uneven work explains."),
    COUNT("peers", "flags", peers.flags, "Ranks found slower than their peers on this node."),
    COUNT("asked", "windows", requests.windows,
	  "Windows sent because the aggregator asked for them."),
    COUNT("asked", "windows_bounded", requests.windows_bounded,
	  "Windows not sent because the aggregator asked for too many of the rank."),
    COUNT("asked", "windows_failed", requests.windows_failed,
	  "Windows that the aggregator asked for and that could not be made."),
    COUNT("asked", "holds", requests.holds, "Time ranges that the aggregator asked to hold."),
    COUNT("asked", "holds_kept", requests.holds_kept,
	  "Held ranges whose window was made before the recorder lost them."),
    COUNT("asked", "holds_used", requests.holds_used,
	  "Held windows that the aggregator asked for later."),
    COUNT("asked", "holds_lost", requests.holds_lost, "Time ranges that could not be held."),
    ROW("asked", "held_bytes", "", requests.held_bytes, "Memory of held windows.", false),
    COUNT("asked", "suspects", requests.suspects,
	  "Times that the aggregator asked for a closer look."),
    COUNT("asked", "nobody", requests.nobody, "Commands for a rank that is not on this node."),
    COUNT("asked", "unknown", requests.unknown, "Commands of an unknown kind."),
    COUNT("asked", "bad", requests.bad, "Commands with an invalid time range."),
    COUNT("asked", "full", requests.full, "Commands dropped because the list was full."),
#undef COUNT
#undef ROW
};

static void collect(struct node *n, struct compare *c)
{
	memset(c, 0, sizeof(*c));
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct beats_stats st;

		if (!n->processes[i])
			continue;
		beats_stats_get(n->processes[i]->rank->beats, &st);
		c->beats.groups_merged += st.groups_merged;
		c->beats.groups_lost += st.groups_lost;
		c->beats.colls_thinned += st.colls_thinned;
		c->beats.comms_forgotten += st.comms_forgotten;
	}
	sketch_maker_stats_get(n, &c->sketches);
	requests_stats_get(n, &c->requests);
	windows_peers_stats(n->analysis.windows, &c->peers);
	uplink_stats(n->uplink, &c->uplink);
}

void status_compare_json(struct node *n, struct buf *b)
{
	const char *part = "";
	struct compare c;

	collect(n, &c);
	buf_puts(b, "\"compare\":{");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct status_row *r = &rows[i];
		bool fresh = strcmp(part, r->part) != 0;

		if (fresh)
			buf_printf(b, "%s\"%s\":{", i ? "}," : "", r->part);
		part = r->part;
		buf_printf(b, "%s\"%s%s\":%llu", fresh ? "" : ",", r->key, r->time ? "_ms" : "",
			   (unsigned long long)(status_row_value(r, &c) / (r->time ? 1000000 : 1)));
	}
	buf_puts(b, "}},");
}

void status_compare_metrics(struct node *n, struct metrics *m)
{
	struct compare c;

	collect(n, &c);
	status_rows_metrics(m, rows, ARRAY_LEN(rows), &c);
}

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

struct compare_value {
	const char *part, *key, *help;
	bool gauge;
	bool time;     /* in ns; "_ms" in the JSON, "_seconds" in the metrics */
	size_t offset; /* of a uint64_t in struct compare */
};

static const struct compare_value values[] = {
#define VALUE(part, key, field, gauge, help)                                                       \
	{                                                                                          \
		part, key, help, gauge, false, offsetof(struct compare, field)                     \
	}
#define TIME(part, key, field, help)                                                               \
	{                                                                                          \
		part, key, help, false, true, offsetof(struct compare, field)                      \
	}
    VALUE("beats", "sent", uplink.beats_sent, false, "Beats answered."),
    VALUE("beats", "failed", uplink.beats_failed, false, "Beats without an answer."),
    VALUE("beats", "replaced", uplink.beats_replaced, false,
	  "Beats that the next one replaced before they were sent."),
    VALUE("beats", "groups_merged", beats.groups_merged, false,
	  "Step groups merged because a beat had no room."),
    VALUE("beats", "groups_lost", beats.groups_lost, false,
	  "Step groups dropped because a beat had no room."),
    VALUE("beats", "collectives_thinned", beats.colls_thinned, false,
	  "Sampled collectives left out because a beat had no room."),
    VALUE("beats", "communicators_forgotten", beats.comms_forgotten, false,
	  "Communicators dropped to make room for newer ones."),
    VALUE("sketches", "made", sketches.made, false, "Sketches made."),
    VALUE("sketches", "failed", sketches.failed, false, "Sketches that could not be made."),
    VALUE("sketches", "cut", sketches.cut, false,
	  "Functions and kernels that found no room in a sketch."),
    VALUE("sketches", "sent", uplink.sketches_sent, false, "Sketches accepted by the aggregator."),
    VALUE("sketches", "again", uplink.sketches_again, false,
	  "Sketches sent again on a new connection."),
    VALUE("sketches", "refused", uplink.sketches_failed, false,
	  "Sketches refused by the aggregator, or not answered."),
    VALUE("sketches", "dropped", uplink.sketches_dropped, false,
	  "Sketches dropped without a connection."),
    VALUE("sketches", "addresses_named", sketches.profile.named, false,
	  "Native addresses of sketches that got a name."),
    VALUE("sketches", "addresses_unnamed", sketches.profile.unnamed, false,
	  "Native addresses that no symbol covers."),
    VALUE("sketches", "addresses_over_budget", sketches.profile.over_budget, false,
	  "Native addresses left for a later sketch."),
    TIME("sketches", "cpu", sketches.cpu_ns, "CPU time of the thread that makes sketches."),
    VALUE("peers", "rounds", peers.rounds, false, "Steps compared among ranks of this node."),
    VALUE("peers", "missing", peers.missing, false,
	  "Steps without a step of a peer to compare with."),
    VALUE("peers", "unlike", peers.unlike, false,
	  "Steps not compared because their work differed."),
    VALUE("peers", "skewed", peers.skewed, false, "Slow stretches that uneven work explains."),
    VALUE("peers", "flags", peers.flags, false,
	  "Ranks found slower than their peers on this node."),
    VALUE("asked", "windows", requests.windows, false,
	  "Windows sent because the aggregator asked for them."),
    VALUE("asked", "windows_bounded", requests.windows_bounded, false,
	  "Windows not sent because the aggregator asked for too many of the rank."),
    VALUE("asked", "windows_failed", requests.windows_failed, false,
	  "Windows that the aggregator asked for and that could not be made."),
    VALUE("asked", "holds", requests.holds, false,
	  "Time ranges that the aggregator asked to hold."),
    VALUE("asked", "holds_kept", requests.holds_kept, false,
	  "Held ranges whose window was made before the recorder lost them."),
    VALUE("asked", "holds_used", requests.holds_used, false,
	  "Held windows that the aggregator asked for later."),
    VALUE("asked", "holds_lost", requests.holds_lost, false, "Time ranges that could not be held."),
    VALUE("asked", "held_bytes", requests.held_bytes, true, "Memory of held windows."),
    VALUE("asked", "suspects", requests.suspects, false,
	  "Times that the aggregator asked for a closer look."),
    VALUE("asked", "nobody", requests.nobody, false,
	  "Commands for a rank that is not on this node."),
    VALUE("asked", "unknown", requests.unknown, false, "Commands of an unknown kind."),
    VALUE("asked", "bad", requests.bad, false, "Commands with an invalid time range."),
    VALUE("asked", "full", requests.full, false, "Commands dropped because the list was full."),
#undef TIME
#undef VALUE
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

static uint64_t value_of(const struct compare *c, const struct compare_value *v)
{
	uint64_t value;

	memcpy(&value, (const char *)c + v->offset, sizeof(value));
	return value;
}

void status_compare_json(struct node *n, struct buf *b)
{
	const char *part = "";
	struct compare c;

	collect(n, &c);
	buf_puts(b, "\"compare\":{");
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		const struct compare_value *v = &values[i];
		bool fresh = strcmp(part, v->part) != 0;

		if (fresh)
			buf_printf(b, "%s\"%s\":{", i ? "}," : "", v->part);
		part = v->part;
		buf_printf(b, "%s\"%s%s\":%llu", fresh ? "" : ",", v->key, v->time ? "_ms" : "",
			   (unsigned long long)(value_of(&c, v) / (v->time ? 1000000 : 1)));
	}
	buf_puts(b, "}},");
}

void status_compare_metrics(struct node *n, struct metrics *m)
{
	struct compare c;

	collect(n, &c);
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		const struct compare_value *v = &values[i];
		const char *end = v->gauge ? "" : v->time ? "_seconds_total" : "_total";
		char name[96];

		snprintf(name, sizeof(name), "sysom_%s_%s%s", v->part, v->key, end);
		(v->gauge ? metrics_gauge : metrics_counter)(
		    m, name, v->help, (double)value_of(&c, v) / (v->time ? 1e9 : 1));
	}
}

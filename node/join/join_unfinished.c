/* SPDX-License-Identifier: Apache-2.0
 * Finds the oldest unfinished work of a process. A stream finishes its work in order, and a stream
 * that waits for an event waits for work launched earlier. So the oldest unfinished launch waits
 * for nothing else of this process: it runs without end, or waits for other ranks. */
#include "node/join/join_private.h"

/* The collective on stream s during which the launch was made; NULL: none. */
static const struct join_coll *coll_at(const struct join *j, const struct join_stream *s,
				       uint64_t launch_ns)
{
	for (uint32_t node = s->colls.head; node; node = j->colls[node].next) {
		const struct join_coll *c = &j->colls[node];

		if (launch_ns < c->begin_ns)
			break;
		if (launch_ns <= c->end_ns)
			return c;
	}
	return NULL;
}

static void fill_unfinished(struct join *j, const struct join_stream *s,
			    const struct join_launch *l, struct join_unfinished *out)
{
	const struct join_coll *c = coll_at(j, s, l->t_ns);
	const struct join_func *f = join_match_func(j, l->func, false);

	*out = (struct join_unfinished){.kind = JOIN_UNFINISHED_KERNEL,
					.launch_ns = l->t_ns,
					.stream = join_stream_number(j, s),
					.name = f ? f->name : 0};
	if (l->type == JOIN_LAUNCH_GRAPH) {
		out->kind = JOIN_UNFINISHED_GRAPH;
		out->name = 0;
	} else if (c || join_match_name_class(j, out->name) & JOIN_NAME_COLL) {
		out->kind = JOIN_UNFINISHED_COLL;
		out->func = c ? c->func : 0;
	}
}

static bool is_older(const struct join_unfinished *than, uint64_t t_ns)
{
	return !than->kind || t_ns < than->launch_ns;
}

static void check_stream(struct join *j, const struct join_stream *s, uint64_t after_ns,
			 struct join_unfinished *out)
{
	uint64_t waited = s->sync_count ? s->syncs[s->sync_count - 1].begin_ns : 0;
	uint32_t node = s->launches.head, coll = s->colls.head;

	while (node && (j->launches[node].t_ns < after_ns || j->launches[node].end_ns < waited))
		node = join_launch_next(j, s, node);
	if (node && is_older(out, j->launches[node].t_ns))
		fill_unfinished(j, s, &j->launches[node], out);
	/* collectives whose kernel NCCL launched without a wrapper of ours */
	while (coll && (j->colls[coll].launches || j->colls[coll].open ||
			j->colls[coll].call_ns < after_ns || j->colls[coll].end_ns < waited))
		coll = j->colls[coll].next;
	if (coll && is_older(out, j->colls[coll].call_ns))
		*out = (struct join_unfinished){.kind = JOIN_UNFINISHED_COLL,
						.launch_ns = j->colls[coll].call_ns,
						.stream = join_stream_number(j, s),
						.func = j->colls[coll].func};
}

/* Whether the host has waited for any stream since since_ns. */
static bool has_waited(const struct join *j, uint64_t since_ns)
{
	for (uint32_t i = 0; i < j->stream_count; i++) {
		const struct join_stream *s = &j->streams[i];

		if (s->sync_count && s->syncs[s->sync_count - 1].begin_ns >= since_ns)
			return true;
	}
	return false;
}

void join_unfinished(struct join *j, uint64_t after_ns, struct join_unfinished *out)
{
	const struct join_replay *graph = NULL, *last = &j->replays[j->replay_next % JOIN_REPLAYS];

	*out = (struct join_unfinished){.kind = JOIN_UNFINISHED_NONE};
	for (uint32_t i = 0; i < j->stream_count; i++)
		check_stream(j, &j->streams[i], after_ns, out);
	/* A graph's first record removes its launch from the stream, and its last record is not
	 * marked. It is known to be unfinished only if some of its collectives have not ended. */
	if (!out->kind && last->number && last->next_coll && last->t_ns >= after_ns &&
	    !has_waited(j, last->t_ns))
		*out = (struct join_unfinished){.kind = JOIN_UNFINISHED_GRAPH,
						.launch_ns = last->t_ns};
	for (uint32_t i = 0; out->kind && i < JOIN_REPLAYS; i++) {
		const struct join_replay *r = &j->replays[i];

		if (r->number && r->t_ns >= after_ns && r->t_ns < out->launch_ns &&
		    (!graph || r->t_ns < graph->t_ns))
			graph = r;
	}
	if (graph)
		*out = (struct join_unfinished){
		    .kind = JOIN_UNFINISHED_GRAPH, .launch_ns = graph->t_ns, .stream = out->stream};
}

/* SPDX-License-Identifier: Apache-2.0
 * A trace does not name communicators. So ranks that share a collective (analysis/trace/align) form one.
 * Its collectives get the numbers that NCCL's callers would count. A node's ranks share its clock. */
#include "cli/replay/replay_live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet.h"
#include "base/check.h"
#include "base/daemon/log.h"
#include "base/hash.h"
#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/order.h"
#include "base/room.h"
#include "cli/replay/live_node.h"
#include "cli/replay/replay_incident.h"

#define TURN_NS	  50000000ull
#define SECOND_NS 1000000000ull
/* Time before the first record, so that clocks of nodes stay above 0. */
#define BEFORE_NS (10 * SECOND_NS)
/* Time after the last record, for late messages and a few turns of the aggregator. */
#define AFTER_NS (12 * SECOND_NS)
/* After this long without a record, time jumps to shortly before the next one. */
#define IDLE_NS	     (60 * SECOND_NS)
#define REPORTED_MAX 4096u

struct live_job_rank {
	struct replay_trace trace;
	struct record *calls;
	size_t call_count;
};

struct reported { /* a verdict that was printed */
	char id[INCIDENT_ID_BYTES];
	uint64_t what;
};

struct replay_live {
	struct replay_live_config config;
	struct live_job_rank *rank;
	size_t room;
	uint32_t count;
	struct live_node **node;
	uint32_t node_count;
	const struct align_job *align;
	uint64_t base_ns; /* added to the nodes' clocks: the traces' time */
	uint64_t now_ns;  /* the aggregator's, on the reference's clock */
	struct fleet *fleet;
	struct replay_incident *incidents;
	struct reported reported[REPORTED_MAX];
	uint32_t reported_count;
	uint32_t turn_node; /* the node whose turn it is */
	struct replay_live_stats stats;
	int failed;
};

int replay_live_open(struct replay_live **out, const struct replay_live_config *c)
{
	struct replay_live *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->config = *c;
	log_init("sysom", LOG_ERROR); /* our output replaces the daemons' logs */
	*out = l;
	return 0;
}

void replay_live_close(struct replay_live *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < l->node_count; i++)
		live_node_close(l->node[i]);
	replay_incident_close(l->incidents);
	fleet_close(l->fleet);
	for (uint32_t i = 0; i < l->count; i++) {
		replay_load_free(&l->rank[i].trace);
		free(l->rank[i].calls);
	}
	free(l->node);
	free(l->rank);
	free(l);
}

int replay_live_add(struct replay_live *l, struct replay_trace *t)
{
	uint32_t at = l->count;

	if (ROOM_FOR(l->rank, l->room, at + 1ull))
		return -ENOMEM;
	for (; at && l->rank[at - 1].trace.rank > t->rank; at--)
		l->rank[at] = l->rank[at - 1];
	l->rank[at] = (struct live_job_rank){.trace = *t};
	memset(t, 0, sizeof(*t));
	l->count++;
	return 0;
}

/* ---- collectives ---- */

struct instance {
	uint64_t comm, end_ns; /* comm: hash of its ranks; end_ns: on the reference's clock */
	uint32_t old, seq, ranks;
	uint8_t func;
};

ORDER_BY(instance_order, struct instance,
	 ORDER_UP(comm) ?: ORDER_UP(func) ?: ORDER_UP(end_ns) ?: ORDER_UP(old));

ORDER_BY(old_order, struct instance, ORDER_UP(old));

/* Gives each collective its communicator and sequence; sorted by number. NULL: out of memory. */
static struct instance *make_instances(const struct replay_live *l)
{
	struct instance *v = calloc(l->align->instances ? l->align->instances : 1, sizeof(*v));

	if (!v)
		return NULL;
	for (uint32_t r = 0; r < l->count; r++)
		for (uint32_t i = 0; i < l->align->rank[r].count; i++) {
			const struct align_coll *c = &l->align->rank[r].coll[i];
			struct instance *x = &v[c->instance];

			if (c->instance == ALIGN_NONE)
				continue;
			x->comm += hash_mix(HASH_SEED + r) | 1;
			x->ranks++;
			x->end_ns = align_to_reference(l->align, r, c->end_ns);
			x->func = l->rank[r].trace.device[c->order].func;
		}
	for (uint32_t i = 0; i < l->align->instances; i++)
		v[i].old = i;
	qsort(v, l->align->instances, sizeof(*v), instance_order);
	for (uint32_t i = 1; i < l->align->instances; i++)
		if (v[i].comm == v[i - 1].comm && v[i].func == v[i - 1].func)
			v[i].seq = v[i - 1].seq + 1;
	qsort(v, l->align->instances, sizeof(*v), old_order);
	return v;
}

/* created before it is used */
ORDER_BY(call_order, struct record, ORDER_UP(begin_ns) ?: ORDER_DOWN(kind));

/* A rank's number in a communicator is the count of its lower ranks. There are few communicators. */
static bool is_new(const struct record *calls, size_t count, uint64_t comm)
{
	for (size_t i = 0; i < count; i++)
		if (calls[i].kind == RECORD_COMM && calls[i].key == comm)
			return false;
	return true;
}

#define COMMS_MAX 32u /* reported with their size; as many as a rank's beats follow */

/* Makes the calls that the trace lacks, and sets communicator and number in its kernels. */
static int name_calls(struct replay_live *l, uint32_t r, const struct instance *instances)
{
	const struct align_rank *a = &l->align->rank[r];
	struct live_job_rank *k = &l->rank[r];
	uint32_t comms = 0;

	k->calls = calloc(a->count + COMMS_MAX, sizeof(*k->calls));
	if (!k->calls)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->count; i++) {
		struct record *device = &k->trace.device[a->coll[i].order], *call;
		const struct instance *in;

		if (a->coll[i].instance == ALIGN_NONE)
			continue;
		in = &instances[a->coll[i].instance];
		device->key = in->comm;
		device->seq = in->seq;
		if (!device->launch_ns)
			continue;
		if (comms < COMMS_MAX && is_new(k->calls, k->call_count, in->comm)) {
			k->calls[k->call_count++] =
			    (struct record){.kind = RECORD_COMM,
					    .begin_ns = device->launch_ns,
					    .end_ns = device->launch_ns,
					    .key = in->comm,
					    .bytes = in->ranks,
					    .peer = (int16_t)(r & INT16_MAX)};
			comms++;
		}
		call = &k->calls[k->call_count++];
		*call = (struct record){.kind = RECORD_COLL,
					.begin_ns = device->launch_ns,
					.end_ns = device->launch_ns,
					.key = in->comm,
					.seq = in->seq,
					.func = device->func,
					.peer = -1,
					.bytes = device->bytes};
	}
	qsort(k->calls, k->call_count, sizeof(*k->calls), call_order);
	return 0;
}

/* ---- clocks ---- */

/* A time of rank r on its node's clock, which is the clock of the node's first rank. 0 stays 0. */
static uint64_t on_node(const struct replay_live *l, uint32_t r, uint64_t ns)
{
	uint32_t first = r - r % l->config.ranks_per_node;

	if (!ns)
		return 0;
	if (r != first)
		ns = align_to_local(l->align, first, align_to_reference(l->align, r, ns));
	return ns > l->base_ns ? ns - l->base_ns : 1;
}

static void move_records(const struct replay_live *l, uint32_t r, struct record *v, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		v[i].begin_ns = on_node(l, r, v[i].begin_ns);
		v[i].end_ns = on_node(l, r, v[i].end_ns);
		v[i].launch_ns = on_node(l, r, v[i].launch_ns);
	}
}

/* First and last time of all ranks, on the reference's clock. */
static void span(const struct replay_live *l, uint64_t *begin_ns, uint64_t *end_ns)
{
	*begin_ns = UINT64_MAX;
	*end_ns = 0;
	for (uint32_t r = 0; r < l->count; r++) {
		const struct replay_trace *t = &l->rank[r].trace;
		const struct record *first[] = {t->host_count ? &t->host[0] : NULL,
						t->device_count ? &t->device[0] : NULL};

		for (size_t i = 0; i < ARRAY_LEN(first); i++) {
			uint64_t ns = first[i] ? align_to_reference(l->align, r, first[i]->begin_ns)
					       : UINT64_MAX;

			*begin_ns = ns < *begin_ns ? ns : *begin_ns;
		}
		for (size_t i = 0; i < t->device_count; i++) {
			uint64_t ns = align_to_reference(l->align, r, t->device[i].end_ns);

			*end_ns = ns > *end_ns ? ns : *end_ns;
		}
		if (t->host_count) {
			uint64_t ns =
			    align_to_reference(l->align, r, t->host[t->host_count - 1].end_ns);

			*end_ns = ns > *end_ns ? ns : *end_ns;
		}
	}
}

static int prepare(struct replay_live *l)
{
	struct instance *instances = make_instances(l);
	int err = 0;

	if (!instances)
		return -ENOMEM;
	for (uint32_t r = 0; r < l->count && !err; r++)
		err = name_calls(l, r, instances);
	free(instances);
	return err;
}

static void move_all(struct replay_live *l)
{
	for (uint32_t r = 0; r < l->count; r++) {
		struct live_job_rank *k = &l->rank[r];

		move_records(l, r, k->trace.host, k->trace.host_count);
		move_records(l, r, k->trace.device, k->trace.device_count);
		move_records(l, r, k->trace.marks, k->trace.mark_count);
		move_records(l, r, k->calls, k->call_count);
	}
}

/* ---- output ---- */

static void print_ranks(const json_t *ranks)
{
	const json_t *one;
	size_t k;

	json_array_foreach ((json_t *)ranks, k, one)
		printf("%s%d", k ? "," : "", (int)json_integer_value(one));
}

static void print_verdict(const struct replay_live *l, const char *id, const char *symptom,
			  const json_t *d)
{
	const char *layer = jsonget_text(d, "layer"), *cause = jsonget_text(d, "cause");
	uint64_t at_ns = l->now_ns + l->base_ns;

	if (l->config.json) {
		printf("{\"type\":\"reported\",\"at_ns\":\"%llu\",\"incident\":\"%s\",\"ranks\":[",
		       (unsigned long long)at_ns, id);
		print_ranks(json_object_get(d, "ranks"));
		json_text_print(stdout, "],\"symptom\":", symptom);
		json_text_print(stdout, ",\"layer\":", layer);
		json_text_print(stdout, ",\"cause\":", cause);
		printf(",\"confidence\":%.4f}\n", jsonget_number(d, "confidence"));
		return;
	}
	printf("%9.3f s  incident %s: rank ", (double)(l->now_ns - BEFORE_NS) * 1e-9, id);
	print_ranks(json_object_get(d, "ranks"));
	printf(", %s, %s (%.0f%%)%s\n", layer, cause, 100 * jsonget_number(d, "confidence"),
	       strcmp(symptom, "transient") ? "" : ", a transient so far");
}

static uint64_t hash_of(const char *symptom, const json_t *d)
{
	const char *text[] = {symptom, jsonget_text(d, "layer"), jsonget_text(d, "cause")};
	const json_t *one;
	uint64_t h = HASH_SEED;
	size_t k;

	for (size_t i = 0; i < ARRAY_LEN(text); i++)
		h = hash_mix(hash_bytes(h, text[i], strlen(text[i])));
	json_array_foreach (json_object_get(d, "ranks"), k, one)
		h = hash_mix(h + (uint64_t)json_integer_value(one));
	return h;
}

/* Whether the incident had no such verdict before; remembers it. */
static bool is_news(struct replay_live *l, const char *id, uint64_t what)
{
	for (uint32_t i = 0; i < l->reported_count; i++)
		if (!strcmp(l->reported[i].id, id) && l->reported[i].what == what)
			return false;
	if (l->reported_count < REPORTED_MAX) {
		memcpy(l->reported[l->reported_count].id, id, INCIDENT_ID_BYTES);
		l->reported[l->reported_count++].what = what;
	}
	return true;
}

static void print_news(struct replay_live *l, const char *id)
{
	json_t *in = *id ? replay_incident_json(l->incidents, id) : NULL;
	const char *symptom = in ? jsonget_text(in, "symptom") : "";
	const json_t *d;
	size_t k;

	json_array_foreach (json_object_get(in, "diagnoses"), k, d)
		if (is_news(l, id, hash_of(symptom, d)))
			print_verdict(l, id, symptom, d);
	json_decref(in);
}

static uint64_t now_unix_ns(const struct replay_live *l)
{
	return l->now_ns + l->base_ns;
}

/* Each node has its own connection. */
static struct fleet_via via_of(const struct replay_live *l)
{
	return (struct fleet_via){.connection = l->turn_node + 1};
}

static void on_window(void *arg, const struct window *w, size_t bytes)
{
	struct replay_live *l = arg;
	char id[INCIDENT_ID_BYTES] = "";
	struct digest *d;
	bool known;

	l->stats.windows++;
	l->stats.window_bytes += bytes;
	d = digest_is_sound(w) ? malloc(sizeof(*d)) : NULL;
	if (!d)
		return;
	digest_make(w, bytes, d);
	known = fleet_window(l->fleet, d, via_of(l), l->now_ns) == FLEET_TAKEN;
	free(d);
	if (!known)
		return;
	if (replay_incident_take(l->incidents, w, bytes, now_unix_ns(l), id))
		l->failed = -ENOMEM;
	print_news(l, id);
}

static void on_finding(void *arg, const struct finding_report *f)
{
	struct replay_live *l = arg;
	char id[INCIDENT_ID_BYTES] = "";

	if (replay_incident_finding(l->incidents, f, now_unix_ns(l), id))
		l->failed = -ENOMEM;
	print_news(l, id);
}

static void on_beat(void *arg, const struct beat *b)
{
	struct wire_command commands[WIRE_COMMANDS_MAX];
	struct replay_live *l = arg;
	uint32_t count;

	fleet_beat(l->fleet, b, via_of(l), l->now_ns);
	count = fleet_commands(l->fleet, b, commands, WIRE_COMMANDS_MAX);
	for (uint32_t i = 0; i < count; i++)
		live_node_command(l->node[l->turn_node], &commands[i], b->now_ns);
}

static void on_sketch(void *arg, const struct sketch *s, const struct buf *packed)
{
	struct replay_live *l = arg;

	fleet_sketch_put(l->fleet, s, packed->data, packed->bytes, via_of(l), l->now_ns);
}

/* ---- the run ---- */

static int open_cluster(struct replay_live *l)
{
	struct incident_sources sources;
	struct fleet_config fc;
	int err;

	fleet_config_default(&fc);
	fc.sysom = l->config.mode == PEERS_SYSOM;
	err = fleet_open_with(&l->fleet, &fc);
	if (err)
		return err;
	fleet_on_finding(l->fleet, on_finding, l);
	fleet_sources(l->fleet, &sources);
	return replay_incident_live(&l->incidents, stdout, l->config.json, &sources, l->count);
}

static int open_nodes(struct replay_live *l)
{
	struct live_node_sink sink = {on_window, on_beat, on_sketch, l};
	uint32_t each = l->config.ranks_per_node;
	int err = 0;

	l->node = calloc((l->count + each - 1) / each, sizeof(struct live_node *));
	if (!l->node)
		return -ENOMEM;
	for (uint32_t r = 0; r < l->count && !err; r++) {
		struct live_trace t = {&l->rank[r].trace,     l->rank[r].calls,
				       l->rank[r].call_count, l->rank[r].trace.rank,
				       (int32_t)l->count,     l->config.marks};
		char name[32];

		if (r % each == 0) {
			snprintf(name, sizeof(name), "node-%u", r / each);
			err = live_node_open(&l->node[l->node_count], name, (int64_t)l->base_ns,
					     l->config.mode, &sink);
			l->node_count += !err;
		}
		if (!err)
			err = live_node_add(l->node[l->node_count - 1], &t, BEFORE_NS);
	}
	return err;
}

/* The node's clock at a time on the reference's clock. */
static uint64_t node_now(const struct replay_live *l, uint32_t node, uint64_t now_ns)
{
	uint64_t ns =
	    align_to_local(l->align, node * l->config.ranks_per_node, now_ns + l->base_ns);

	return ns > l->base_ns ? ns - l->base_ns : 1;
}

static int look(struct replay_live *l)
{
	fleet_tick(l->fleet, l->now_ns, now_unix_ns(l));
	replay_incident_tick(l->incidents, now_unix_ns(l));
	return l->failed;
}

/* A trace may have days in which nothing happens. */
static void skip_idle(struct replay_live *l, uint64_t end_ns)
{
	uint64_t next_ns = end_ns;

	for (uint32_t i = 0; i < l->node_count; i++) {
		uint64_t ns = live_node_next_ns(l->node[i]);

		if (ns < UINT64_MAX - SECOND_NS && ns < next_ns)
			next_ns = ns;
	}
	if (next_ns > l->now_ns && next_ns - l->now_ns > IDLE_NS)
		l->now_ns = next_ns - SECOND_NS;
}

static int turns(struct replay_live *l, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t look_ns = 0;
	int err = 0;

	for (l->now_ns = begin_ns; l->now_ns < end_ns && !err; l->now_ns += TURN_NS) {
		for (l->turn_node = 0; l->turn_node < l->node_count && !err; l->turn_node++)
			err = live_node_turn(l->node[l->turn_node],
					     node_now(l, l->turn_node, l->now_ns));
		if (!err && l->now_ns - look_ns >= SECOND_NS) {
			look_ns = l->now_ns;
			err = look(l);
			skip_idle(l, end_ns);
		}
	}
	return err;
}

static int end(struct replay_live *l)
{
	uint64_t until_ns = l->now_ns + AFTER_NS;
	int err = 0;

	for (l->turn_node = 0; l->turn_node < l->node_count && !err; l->turn_node++)
		err = live_node_finish(l->node[l->turn_node], node_now(l, l->turn_node, l->now_ns));
	for (; l->now_ns < until_ns && !err; l->now_ns += SECOND_NS)
		err = look(l);
	return err;
}

int replay_live_run(struct replay_live *l, const struct align_job *align,
		    struct replay_live_stats *out)
{
	struct replay_incident_stats is;
	uint64_t begin_ns, end_ns;
	int err;

	*out = (struct replay_live_stats){0};
	if (!l->count)
		return 0;
	l->align = align;
	err = prepare(l);
	if (err)
		return err;
	span(l, &begin_ns, &end_ns);
	if (begin_ns > end_ns)
		return 0;
	l->base_ns = begin_ns > BEFORE_NS ? begin_ns - BEFORE_NS : 0;
	move_all(l);
	err = open_cluster(l);
	if (!err)
		err = open_nodes(l);
	if (!err)
		err = turns(l, begin_ns - l->base_ns, end_ns - l->base_ns + 2 * SECOND_NS);
	if (!err)
		err = end(l);
	if (!err)
		err = replay_incident_finish(l->incidents);
	if (err)
		return err;
	replay_incident_stats_get(l->incidents, &is);
	for (uint32_t i = 0; i < l->node_count; i++)
		live_node_steps(l->node[i], &l->stats.steps, &l->stats.flagged);
	l->stats.findings = is.findings;
	l->stats.incidents = is.incidents;
	*out = l->stats;
	return 0;
}

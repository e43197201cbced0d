/* SPDX-License-Identifier: Apache-2.0
 * fuzz_fleet - beats, sketches and windows of hostile nodes, as the decoders let them pass, beside a
 * healthy job whose nodes do nothing wrong: nothing breaks, and nobody who is not in the job moves a
 * verdict about it. The job is the first to speak, also where nobody has looked yet; what one who spoke
 * before it may do, docs/fleet.md says. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet.h"
#include "aggregator/incident/incident.h"
#include "base/check.h"
#include "base/text/text.h"
#include "model/request.h"
#include "tests/fleet_synth.h"

#define RANKS	       4u
#define OPS_MAX	       10
#define TURN_S	       5   /* a beat's period */
#define STEP_NS	       5e8 /* 10 steps a beat: the work is the strangers', not the healthy job's */
#define NODES	       4u  /* of strangers */
#define OWN_CONNECTION 1u

struct input {
	const uint8_t *at;
	size_t left;
};

struct world {
	struct fleet *fleet;
	struct incident_set *incidents;
	struct fs_job job;
	double now_s;
	uint64_t sequence;
	uint64_t connection[NODES]; /* of strangers, and the latest number of all */
	uint64_t connections;
};

static uint8_t byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

static uint64_t raw(struct input *in)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | byte(in);
	return v;
}

/* Near the numbers that break things, more often than chance would have it. */
static uint64_t number(struct input *in)
{
	uint8_t b = byte(in);

	switch (b % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - b / 8;
	case 2:
		return (1ull << (b / 4)) - 1;
	case 3:
		return raw(in);
	default:
		return (uint64_t)byte(in) * (b & 0x80 ? 1000000 : 1);
	}
}

static double real(struct input *in)
{
	static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 5e-324, 1.7e308, 0};
	uint8_t b = byte(in);

	return b % 4 ? (double)number(in) : odd[b / 4 % (sizeof(odd) / sizeof(*odd))];
}

static uint64_t mono(const struct world *w)
{
	return (uint64_t)((w->now_s + 5000) * 1e9);
}

static uint64_t unix_of(const struct world *w)
{
	return FS_UNIX + (uint64_t)(w->now_s * 1e9);
}

static void on_finding(void *arg, const struct finding_report *f)
{
	struct world *w = arg;
	struct incident_change c;

	CHECK(strcmp(f->job, "good"));
	incident_set_add_finding(w->incidents, f, f->end_unix_ns, &c);
}

/* A stranger's; it may hang up and come again. */
static struct fleet_via via_of(struct world *w, struct input *in, uint8_t node)
{
	uint8_t b = byte(in);

	if (b % 16 == 0) {
		fleet_gone(w->fleet, w->connection[node]);
		w->connection[node] = ++w->connections;
	}
	return (struct fleet_via){.connection = w->connection[node],
				  .since_ns = mono(w) - b * 1000000000ull};
}

/* Its own name, or that of the healthy job's node. */
static void node_name(struct input *in, char *name, size_t bytes, uint8_t node)
{
	if (byte(in) % 4)
		snprintf(name, bytes, "evil%u", node);
	else
		snprintf(name, bytes, "n0");
}

static void rank_of(struct input *in, struct wire_rank *r, uint8_t node)
{
	static const char *const jobs[] = {"good", "good", "bad", "worse"};

	memset(r, 0, sizeof(*r));
	snprintf(r->job, sizeof(r->job), "%s", jobs[byte(in) % 4]);
	node_name(in, r->node, sizeof(r->node), node);
	if (byte(in) & 1)
		snprintf(r->role, sizeof(r->role), "role%u", byte(in));
	r->rank = (int32_t)(byte(in) % 20) - 2;
	r->world_size = (int32_t)number(in);
	r->local_rank = (int32_t)(byte(in) % 8);
	r->pid = byte(in);
	r->start_time_ticks = byte(in);
}

static void rows(struct input *in, struct beat_rank *b)
{
	b->group_count = byte(in) % 8;
	for (uint32_t i = 0; i < b->group_count; i++)
		b->groups[i] = (struct beat_group){.first_step = number(in),
						   .end_ns = number(in),
						   .count = byte(in),
						   .used = byte(in),
						   .flagged = byte(in),
						   .latency_ns = real(in),
						   .self_ns = real(in),
						   .self_mad_ns = real(in),
						   .kernels = real(in)};
	b->coll_count = byte(in) % 4;
	for (uint32_t i = 0; i < b->coll_count; i++)
		b->colls[i] = (struct beat_coll){.comm = byte(in),
						 .func = byte(in),
						 .seq = byte(in),
						 .step = number(in),
						 .call_ns = number(in),
						 .begin_ns = number(in),
						 .end_ns = number(in)};
	b->comm_count = byte(in) % 4;
	for (uint32_t i = 0; i < b->comm_count; i++)
		b->comms[i] = (struct beat_comm){.comm = byte(in),
						 .ranks = (uint32_t)number(in),
						 .rank = (uint32_t)number(in),
						 .entered = number(in),
						 .ended = number(in),
						 .func = byte(in),
						 .seq = byte(in),
						 .bytes = number(in),
						 .call_ns = number(in),
						 .done_ns = number(in),
						 .open_func = byte(in),
						 .open_seq = byte(in),
						 .open_bytes = number(in)};
}

/* A time of the last minutes, mostly. */
static uint64_t lately(const struct world *w, struct input *in)
{
	uint8_t b = byte(in);

	return b % 8 ? mono(w) - b * 1000000000ull : number(in);
}

static void requests(struct world *w, struct input *in, const char *name, struct request_job *job,
		     struct request_pieces *p)
{
	memset(job, 0, sizeof(*job));
	text_copy(job->job, sizeof(job->job), name);
	text_copy(p->job, sizeof(p->job), name);
	job->counts.arrived = number(in);
	job->running = (uint32_t)number(in);
	job->violation_count = byte(in) & 1;
	job->violation[0] = (struct request_violation){
	    .id = 1 + byte(in), .phase = byte(in) % REQUEST_PHASES, .arrival_ns = number(in)};
	p->ttft_ns = number(in);
	p->count = byte(in) % 5;
	for (uint32_t i = 0; i < p->count; i++) {
		struct request_piece *q = &p->piece[i];

		*q = (struct request_piece){
		    .id = 1 + byte(in) % 4, .serial = byte(in), .flags = byte(in)};
		if (q->flags & REQUEST_PIECE_OPEN)
			continue;
#define X(t) q->t = lately(w, in);
		REQUEST_PIECE_TIMES(X)
#undef X
		q->prefill_ns = number(in) % REQUEST_PIECE_NS_MAX;
		q->decode_ns = number(in) % REQUEST_PIECE_NS_MAX;
		q->delivered_tokens = byte(in);
		q->prefill_tokens = byte(in) % 3;
		q->longest[0].begin_ns = lately(w, in);
		q->longest[0].end_ns = q->longest[0].begin_ns + byte(in);
	}
}

static void beat(struct world *w, struct input *in)
{
	static struct beat_rank ranks[4];
	static struct request_job job;
	static struct request_piece piece[4];
	struct request_pieces pieces = {.piece = piece};
	uint8_t node = byte(in) % NODES, more;
	struct wire_command commands[64];
	struct beat b = {.sequence = ++w->sequence,
			 .now_ns = mono(w),
			 .ranks = ranks,
			 .realtime_offset_ns = (int64_t)(unix_of(w) - mono(w))};

	node_name(in, b.node, sizeof(b.node), node);
	b.boot_id[15] = 1; /* what the job's own node has nobody knows */
	more = byte(in);
	if (more & 1) {
		b.boot_id[0] = byte(in);
		b.sequence = number(in);
		b.now_ns = number(in);
		b.realtime_offset_ns = (int64_t)number(in);
	}
	b.rank_count = byte(in) % 5;
	for (uint32_t i = 0; i < b.rank_count; i++) {
		struct beat_rank *r = &ranks[i];

		memset(r, 0, sizeof(*r));
		rank_of(in, &r->rank, node);
		r->steps = number(in);
		r->flagged = number(in);
		r->latency_median_ns = real(in);
		r->self_median_ns = real(in);
		r->expected_ns = real(in);
		r->events = number(in);
		r->kernels_joined = number(in);
		r->unfinished.kind = byte(in) % (BEAT_UNFINISHED_MESSAGE + 1);
		r->unfinished.launch_ns = number(in);
		rows(in, r);
	}
	if (more & 0x40 && b.rank_count) {
		requests(w, in, ranks[0].rank.job, &job, &pieces);
		b.requests = &job;
		b.pieces = &pieces;
		b.request_count = b.piece_jobs = 1;
	}
	fleet_beat(w->fleet, &b, via_of(w, in, node), mono(w));
	fleet_commands(w->fleet, &b, commands, 64);
}

static void window(struct world *w, struct input *in)
{
	static struct digest d;
	uint8_t node = byte(in) % NODES;
	struct incident_change c;
	uint64_t begin_ns = unix_of(w) - (uint64_t)byte(in) * 1000000000ull;

	memset(&d, 0, sizeof(d));
	rank_of(in, &d.rank, node);
	if (!d.rank.job[0] || !strcmp(d.rank.job, "worse")) /* nobody beats for it: taken */
		return;
	d.reason = WINDOW_SELF + byte(in) % 7;
	d.begin_unix_ns = begin_ns;
	d.end_unix_ns = begin_ns + byte(in) * 100000000ull;
	d.slow.flagged = byte(in);
	d.slow.first_step = number(in);
	d.slow.last_step = number(in);
	d.latency_ns = fabs(real(in));
	d.slow.self_excess_ns = real(in);
	d.collectives = number(in);
	memset(d.anomaly_id, byte(in), sizeof(d.anomaly_id));
	memset(d.id, (int)w->sequence++, sizeof(d.id));
	if (fleet_window(w->fleet, &d, via_of(w, in, node), mono(w)) != FLEET_TAKEN)
		return;
	CHECK(strcmp(d.rank.job, "good"));
	incident_set_add(w->incidents, &d, unix_of(w), &c);
}

/* Of the healthy job's own node, of a world that may be another one. */
static void own_window(struct world *w, struct input *in)
{
	static struct digest d;
	bool fits;

	memset(&d, 0, sizeof(d));
	snprintf(d.rank.job, sizeof(d.rank.job), "good");
	snprintf(d.rank.node, sizeof(d.rank.node), "n0");
	d.rank.rank = (int32_t)(byte(in) % RANKS);
	d.rank.world_size = (int32_t)number(in);
	d.reason = WINDOW_SELF + byte(in) % 7;
	d.end_unix_ns = unix_of(w);
	d.begin_unix_ns = d.end_unix_ns - byte(in) * 100000000ull;
	fits = d.rank.world_size <= 0 || d.rank.world_size == RANKS;
	CHECK(fleet_window(w->fleet, &d, (struct fleet_via){.connection = OWN_CONNECTION},
			   mono(w)) == (fits ? FLEET_TAKEN : FLEET_REFUSED));
}

static void sketch(struct world *w, struct input *in)
{
	char name[] = "gemm", other[] = "main";
	struct sketch_kernel kernel = {name, real(in), real(in)};
	struct sketch_function function = {other, 0, real(in), real(in), real(in)};
	struct sketch s = {.begin_ns = number(in),
			   .end_ns = number(in),
			   .steps = number(in),
			   .latency_ns = real(in),
			   .self_ns = real(in),
			   .samples = real(in),
			   .kernels = &kernel,
			   .kernel_count = 1,
			   .functions = &function,
			   .function_count = 1};
	uint8_t node = byte(in) % NODES;
	bool taken;

	rank_of(in, &s.rank, node);
	taken = fleet_sketch_put(w->fleet, &s, "", 0, via_of(w, in, node), mono(w));
	CHECK(!taken || strcmp(s.rank.node, "n0"));
}

/* A beat's period of the healthy job, and a look at all jobs where the input asks for one: to compare ranks
 * takes far more time than to take in what they say. */
static void turn(struct world *w, bool looks)
{
	static struct request_job job;
	struct beat_rank ranks[RANKS];
	struct request_piece piece;
	struct request_pieces pieces = {
	    .piece = &piece, .count = 1, .ttft_ns = 1000000000, .tpot_ns = 1000000000};
	struct beat b;

	w->now_s += TURN_S;
	if (!fs_beat(&w->job, 0, w->now_s, ranks, &b))
		return;
	/* a request a beat, in time; its id is a hash that strangers do not know */
	piece = (struct request_piece){.id = hash_mix((uint64_t)w->now_s),
				       .serial = b.now_ns,
				       .arrival_ns = b.now_ns - 2000000,
				       .handed_ns = b.now_ns - 2000000,
				       .delivered_first_ns = b.now_ns - 1000000,
				       .delivered_last_ns = b.now_ns,
				       .delivered_tokens = 2};
	snprintf(job.job, sizeof(job.job), "good");
	snprintf(pieces.job, sizeof(pieces.job), "good");
	b.requests = &job;
	b.pieces = &pieces;
	b.request_count = b.piece_jobs = 1;
	fleet_beat(w->fleet, &b, (struct fleet_via){.connection = OWN_CONNECTION}, mono(w));
	if (looks)
		fleet_tick(w->fleet, mono(w), unix_of(w));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = {data, bytes};
	const struct incident_config config = {
	    .gap_ns = 5000000000, .silence_ns = 30000000000, .memory_ns = 3600000000000};
	struct fleet_config c;
	struct world w = {.connection = {2, 3, 4, 5}, .connections = 5};

	fleet_config_default(&c);
	CHECK(!fleet_open_with(&w.fleet, &c));
	CHECK(!incident_set_open(&w.incidents, &config));
	fleet_on_finding(w.fleet, on_finding, &w);
	fs_init(&w.job, "good", RANKS, RANKS, 1);
	w.job.step_ns = STEP_NS;
	for (uint32_t r = 0; r < RANKS; r++)
		w.job.rank[r].kernels = 100;
	turn(&w, false);
	for (int n = 0; in.left && n < OPS_MAX; n++) {
		switch (byte(&in) % 8) {
		case 0:
			sketch(&w, &in);
			break;
		case 1:
			window(&w, &in);
			break;
		case 2:
			own_window(&w, &in);
			break;
		case 3:
			for (int k = byte(&in) % 4; k; k--)
				turn(&w, true);
			break;
		default:
			beat(&w, &in);
			turn(&w, false);
		}
	}
	turn(&w, false);
	CHECK(fleet_job_ranks(w.fleet, "good", mono(&w)) == RANKS);
	for (int r = 0; r < (int)RANKS; r++)
		CHECK(fs_is_on(w.fleet, "good", r, "n0"));
	fs_fini(&w.job);
	fleet_close(w.fleet);
	incident_set_close(w.incidents);
	return 0;
}

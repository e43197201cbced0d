/* SPDX-License-Identifier: Apache-2.0
 * sysom replay ops: the operations of a data and pipeline parallel job. A rank's self time is its compute
 * and its lateness in the stage's collectives. All ranks leave a collective together. So a rank that was in
 * it for less time than its peers entered later by the difference, and no common clock is needed. Lateness
 * counts only up to the gap before the collective, in which the rank neither computed nor transferred. The
 * time that a rank may have waited for other ranks of its replica is subtracted. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/check.h"
#include "base/exit_status.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/room.h"
#include "cli/replay/replay.h"
#include "cli/timings/replay_workers.h"

#define OPS_MAX (1u << 25) /* 48 bytes each */
/* Gaps are a few percent of a step; the framework's housekeeping in them is not a fault. */
#define GAP_LEAST 0.02
/* Ranks of one stage always differ a little: in their part of the input or of the embedding. */
#define SELF_LEAST 0.025

enum column {
	COLUMN_DP,
	COLUMN_STAGE,
	COLUMN_RANK,
	COLUMN_STEP,
	COLUMN_TYPE,
	COLUMN_START,
	COLUMN_DURATION,
	COLUMNS
};
static const char *const names[COLUMNS] = {"dp_rank", "stage",	  "rank",    "step",
					   "optype",  "start_ts", "duration"};
enum type { TYPE_FORWARD, TYPE_BACKWARD, TYPE_COMPUTE, TYPE_TRANSFER, TYPE_COLLECTIVE, TYPE_OTHER };
static const char *const collectives[] = {"reduce",	"gather",  "broadcast",
					  "all-to-all", "barrier", "sync"};

struct op {
	uint32_t rank, step;
	double begin_ns, end_ns;
	enum type type;
	uint64_t what; /* hash of a collective's name */
	double gap_ns; /* idle time between the previous collective and this one */
};

/* One rank in one collective of its stage. */
struct entry {
	uint32_t stage, step, rank, number;
	uint64_t what;
	double in_ns, gap_ns;
};

struct ops {
	struct replay_workers r;
	uint32_t column[COLUMNS];
	struct op *op;
	size_t count, room;
	struct replay_workers_ids stage, replica;
	uint32_t *stage_of, *replica_of; /* [REPLAY_WORKERS_MAX] */
	uint64_t moved;			 /* rows whose rank had another stage or replica earlier */
	struct workers_table t;
	uint64_t *step;	   /* ascending */
	uint32_t *members; /* [stages]: ranks */
	uint32_t *order;   /* a step's number by appearance -> its place in time */
	int32_t *rank;
	double *self, *late, *part[2]; /* part: forward, backward; one allocation, self first */
};

static int read_header(struct ops *o, const struct replay_input *in, const struct trace_field *f)
{
	for (uint32_t k = 0; k < COLUMNS; k++)
		if (replay_input_columns(in, f, names[k], &o->column[k], 1) < 0)
			return EXIT_USAGE;
	return 0;
}

static enum type type_of(const char *name)
{
	if (!strcmp(name, "forward-compute"))
		return TYPE_FORWARD;
	if (!strcmp(name, "backward-compute"))
		return TYPE_BACKWARD;
	if (strstr(name, "compute"))
		return TYPE_COMPUTE;
	if (strstr(name, "send") || strstr(name, "recv"))
		return TYPE_TRANSFER;
	for (size_t i = 0; i < ARRAY_LEN(collectives); i++)
		if (strstr(name, collectives[i]))
			return TYPE_COLLECTIVE;
	return TYPE_OTHER;
}

static bool integer(const struct trace_field *f, double most, int64_t *out)
{
	double v;

	if (!trace_reader_number(f, &v) || v != floor(v) || v < 0 || v > most)
		return false;
	*out = (int64_t)v;
	return true;
}

static int64_t place(struct ops *o, const int64_t *id)
{
	uint32_t known = o->r.rank.count;
	int64_t rank = replay_workers_find(&o->r.rank, id[COLUMN_RANK], REPLAY_WORKERS_MAX);
	int64_t stage = replay_workers_find(&o->stage, id[COLUMN_STAGE], REPLAY_WORKERS_MAX);
	int64_t replica = replay_workers_find(&o->replica, id[COLUMN_DP], REPLAY_WORKERS_MAX);

	if (rank < 0 || stage < 0 || replica < 0)
		return rank < 0 ? rank : stage < 0 ? stage : replica;
	if (o->r.rank.count > known) {
		o->stage_of[rank] = (uint32_t)stage;
		o->replica_of[rank] = (uint32_t)replica;
	}
	o->moved +=
	    o->stage_of[rank] != (uint32_t)stage || o->replica_of[rank] != (uint32_t)replica;
	return rank;
}

static struct op *op_new(struct ops *o)
{
	if (o->count == OPS_MAX || ROOM_FOR(o->op, o->room, o->count + 1))
		return NULL;
	return &o->op[o->count++];
}

static int read_row(void *ops, const struct replay_input *in, struct trace_field *f)
{
	struct ops *o = ops;
	int64_t id[COLUMNS], rank, step;
	double start, duration;
	struct op *op;

	if (!in->row)
		return read_header(o, in, f);
	for (uint32_t k = COLUMN_DP; k <= COLUMN_STEP; k++)
		if (!integer(&f[o->column[k]], k == COLUMN_STEP ? 0x1p53 : INT32_MAX, &id[k]))
			return replay_input_bad(in, names[k], f[o->column[k]].text);
	if (!trace_reader_number(&f[o->column[COLUMN_START]], &start) || fabs(start) > 1e10)
		return replay_input_bad(in, names[COLUMN_START], f[o->column[COLUMN_START]].text);
	if (!trace_reader_number(&f[o->column[COLUMN_DURATION]], &duration) || duration < 0 ||
	    duration > 1e7)
		return replay_input_bad(in, names[COLUMN_DURATION],
					f[o->column[COLUMN_DURATION]].text);
	rank = place(o, id);
	step = replay_workers_find(&o->r.step, id[COLUMN_STEP], REPLAY_WORKERS_STEPS_MAX);
	if (rank == -E2BIG || step == -E2BIG)
		return replay_input_bad(in, "too many ranks or steps", NULL);
	op = rank < 0 || step < 0 ? NULL : op_new(o);
	if (!op)
		return replay_input_bad(in, "not enough memory for so many rows", NULL);
	*op = (struct op){.rank = (uint32_t)rank,
			  .step = (uint32_t)step,
			  .begin_ns = 1e9 * start,
			  .end_ns = 1e9 * (start + duration),
			  .type = type_of(f[o->column[COLUMN_TYPE]].text),
			  .what = hash_bytes(HASH_SEED, f[o->column[COLUMN_TYPE]].text,
					     strlen(f[o->column[COLUMN_TYPE]].text))};
	o->r.rows++;
	return 0;
}

ORDER_BY(by_time, struct op, ORDER_UP(rank) ?: ORDER_UP(step) ?: ORDER_UP(begin_ns));

/* Ops [begin, end) of one rank and step, by time. */
static void fill_cell(struct ops *o, size_t begin, size_t end)
{
	size_t at = workers_cell(&o->t, o->op[begin].rank, o->op[begin].step);
	double covered = o->op[begin].begin_ns, gap = 0, self = 0, part[2] = {0, 0};

	for (size_t i = begin; i < end; i++) {
		struct op *op = &o->op[i];

		if (op->begin_ns > covered)
			gap += op->begin_ns - covered;
		covered = op->end_ns > covered ? op->end_ns : covered;
		if (op->type <= TYPE_COMPUTE)
			self += op->end_ns - op->begin_ns;
		if (op->type <= TYPE_BACKWARD)
			part[op->type] += op->end_ns - op->begin_ns;
		if (op->type != TYPE_COLLECTIVE)
			continue;
		op->gap_ns = gap;
		gap = 0;
	}
	if (self > 0)
		o->self[at] = self;
	for (int k = 0; k < 2; k++)
		if (part[k] > 0)
			o->part[k][at] = part[k];
}

/* ---- lateness ---- */

ORDER_BY(by_collective, struct entry,
	 ORDER_UP(stage) ?: ORDER_UP(step) ?: ORDER_UP(what) ?: ORDER_UP(number)
	 ?: ORDER_UP(rank));

/* The collectives of each rank and step, numbered by name. Ops are sorted by rank, step and time. NULL: out
 * of memory. */
static struct entry *entries_of(const struct ops *o, size_t *count)
{
	struct entry *v = malloc((o->count + 1) * sizeof(*v));
	size_t n = 0, cell = 0;

	for (size_t i = 0; v && i < o->count; i++) {
		const struct op *op = &o->op[i];
		uint32_t number = 0;

		if (i && (op->rank != op[-1].rank || op->step != op[-1].step))
			cell = n;
		if (op->type != TYPE_COLLECTIVE)
			continue;
		for (size_t k = n; k > cell && !number; k--)
			number = v[k - 1].what == op->what ? v[k - 1].number + 1 : 0;
		v[n++] = (struct entry){.stage = o->stage_of[op->rank],
					.step = op->step,
					.rank = op->rank,
					.number = number,
					.what = op->what,
					.in_ns = op->end_ns - op->begin_ns,
					.gap_ns = op->gap_ns};
	}
	*count = n;
	return v;
}

/* e: one collective's entries. A rank's lateness is how much longer its peers were in it, at most the gap
 * before it. v: [2 n] */
static void add_lateness(struct ops *o, const struct entry *e, uint32_t n, double *v)
{
	for (uint32_t i = 0; i < n; i++) {
		double *late = &o->late[workers_cell(&o->t, e[i].rank, e[i].step)], waited;
		uint32_t others = 0;

		for (uint32_t k = 0; k < n; k++)
			if (k != i)
				v[others++] = e[k].in_ns;
		waited = median_select(v, others) - e[i].in_ns;
		*late = (isnan(*late) ? 0 : *late) + fmax(0, fmin(waited, e[i].gap_ns));
	}
}

/* A rank may have waited for other ranks of its replica: for their lateness, and for their excess over
 * their stage. */
static void subtract_waits(struct ops *o, double *late, double *others)
{
	uint32_t n = o->t.workers;
	size_t steps = o->t.steps;

	for (uint32_t s = 0; s < steps; s++) {
		double *row = &o->late[s], *self = &o->self[s];

		for (uint32_t i = 0; i < n; i++) {
			uint32_t known = 0;

			for (uint32_t k = 0; k < n; k++)
				if (k != i && o->stage_of[k] == o->stage_of[i] &&
				    self[k * steps] > 0)
					others[known++] = self[k * steps];
			late[i] = row[i * steps] > 0 ? row[i * steps] : 0;
			if (known && self[i * steps] > 0)
				late[i] += fmax(0, self[i * steps] - median_select(others, known));
		}
		for (uint32_t i = 0; i < n; i++) {
			double most = 0;

			for (uint32_t k = 0; k < n; k++)
				if (k != i && o->replica_of[k] == o->replica_of[i] &&
				    o->stage_of[k] != o->stage_of[i])
					most = fmax(most, late[k]);
			row[i * steps] =
			    isnan(row[i * steps]) ? NAN : fmax(0, row[i * steps] - most);
		}
	}
}

static int lateness(struct ops *o)
{
	double *v = malloc(2 * (size_t)o->t.workers * sizeof(*v));
	size_t count = 0;
	struct entry *e = entries_of(o, &count);
	int err = v && e ? 0 : -ENOMEM;

	if (!err && count)
		qsort(e, count, sizeof(*e), by_collective);
	for (size_t i = 0, j; !err && i < count; i = j) {
		/* only with the whole stage: else a row was lost */
		for (j = i + 1; j < count && e[j].stage == e[i].stage && e[j].step == e[i].step &&
				e[j].what == e[i].what && e[j].number == e[i].number;
		     j++)
			;
		if (j - i == o->members[e[i].stage] && j - i > 1)
			add_lateness(o, &e[i], (uint32_t)(j - i), v);
	}
	if (!err)
		subtract_waits(o, v, v + o->t.workers);
	free(v);
	free(e);
	return err;
}

/* The median over steps of the time from the first begin to the last end. */
static double step_time(struct ops *o)
{
	double *begin = malloc(2ull * o->t.steps * sizeof(*begin)), *end = begin + o->t.steps, out;

	if (!begin)
		return 0;
	for (uint32_t s = 0; s < o->t.steps; s++) {
		begin[s] = INFINITY;
		end[s] = -INFINITY;
	}
	for (size_t i = 0; i < o->count; i++) {
		const struct op *op = &o->op[i];

		begin[op->step] = fmin(begin[op->step], op->begin_ns);
		end[op->step] = fmax(end[op->step], op->end_ns);
	}
	for (uint32_t s = 0; s < o->t.steps; s++)
		end[s] -= begin[s];
	out = median_of(end, o->t.steps);
	free(begin);
	return out;
}

/* Sorts ranks, steps and stages by number: the order of rows means nothing. */
static int renumber(struct ops *o)
{
	uint32_t *rank = replay_workers_places(&o->r.rank),
		 *stage = replay_workers_places(&o->stage);
	uint32_t *replica = replay_workers_places(&o->replica);
	uint32_t *role = calloc(o->t.workers, sizeof(*role)),
		 *of = calloc(o->t.workers, sizeof(*of));
	int err = -ENOMEM;

	o->order = replay_workers_places(&o->r.step);
	if (!rank || !stage || !replica || !role || !of || !o->order)
		goto done;
	for (uint32_t i = 0; i < o->t.workers; i++) {
		role[rank[i]] = stage[o->stage_of[i]];
		of[rank[i]] = replica[o->replica_of[i]];
		o->rank[rank[i]] = (int32_t)o->r.rank.id[i];
	}
	memcpy(o->stage_of, role, o->t.workers * sizeof(*role));
	memcpy(o->replica_of, of, o->t.workers * sizeof(*of));
	for (uint32_t s = 0; s < o->t.steps; s++)
		o->step[o->order[s]] = (uint64_t)o->r.step.id[s];
	for (size_t i = 0; i < o->count; i++) {
		o->op[i].rank = rank[o->op[i].rank];
		o->op[i].step = o->order[o->op[i].step];
	}
	err = 0;
done:
	free(rank);
	free(stage);
	free(replica);
	free(role);
	free(of);
	return err;
}

static int fill(struct ops *o)
{
	size_t cells = (size_t)o->r.rank.count * o->r.step.count;

	if (cells > REPLAY_WORKERS_CELLS_MAX)
		return -E2BIG;
	o->t.workers = o->r.rank.count;
	o->t.steps = o->r.step.count;
	o->rank = calloc(o->t.workers, sizeof(*o->rank));
	o->step = calloc(o->t.steps, sizeof(*o->step));
	o->self = malloc(4 * cells * sizeof(double));
	o->late = o->self + cells;
	o->part[0] = o->late + cells;
	o->part[1] = o->part[0] + cells;
	o->members = calloc(o->stage.count, sizeof(*o->members));
	if (!o->rank || !o->step || !o->self || !o->members || renumber(o))
		return -ENOMEM;
	for (size_t i = 0; i < 4 * cells; i++)
		o->self[i] = NAN;
	qsort(o->op, o->count, sizeof(*o->op), by_time);
	for (size_t i = 0, j; i < o->count; i = j) {
		for (j = i + 1; j < o->count && o->op[j].rank == o->op[i].rank &&
				o->op[j].step == o->op[i].step;
		     j++)
			;
		fill_cell(o, i, j);
	}
	for (uint32_t i = 0; i < o->t.workers; i++)
		o->members[o->stage_of[i]]++;
	if (lateness(o))
		return -ENOMEM;
	o->t.step = o->step;
	o->t.rank = o->rank;
	o->t.role = o->stage_of;
	o->t.roles = o->stage.count;
	o->t.replica = o->replica_of;
	o->t.replicas = o->replica.count;
	o->t.self_ns = o->self;
	o->t.late_ns = o->late;
	o->t.step_ns = step_time(o);
	return 0;
}

/* How much one kind of a rank's compute grew from the steps outside [first, last] to those inside,
 * relative to the others of its stage; without others, absolutely. NAN: not known. */
static double growth(const struct ops *o, const double *v, uint32_t worker, uint64_t first,
		     uint64_t last)
{
	uint32_t n = o->t.workers, known[2] = {0, 0};
	double *others = malloc((n + 2ull * o->t.steps) * sizeof(double)), out = NAN;
	double *ratio[2] = {others + n, others + n + o->t.steps};

	for (uint32_t s = 0; others && s < o->t.steps; s++) {
		bool in = o->step[s] >= first && o->step[s] <= last;
		uint32_t k = 0;
		double x = v[workers_cell(&o->t, worker, s)];

		for (uint32_t i = 0; i < n; i++)
			if (i != worker && o->stage_of[i] == o->stage_of[worker] &&
			    v[workers_cell(&o->t, i, s)] > 0)
				others[k++] = v[workers_cell(&o->t, i, s)];
		if (x > 0)
			ratio[in][known[in]++] = k ? x / median_of(others, k) : x;
	}
	if (known[1] && known[0] >= 5)
		out = median_of(ratio[1], known[1]) / median_of(ratio[0], known[0]) - 1;
	else if (known[1])
		out = median_of(ratio[1], known[1]) - 1;
	free(others);
	return out;
}

static void refine(void *ops, struct workers_finding *found)
{
	struct ops *o = ops;
	struct finding *f = &found->finding;
	uint32_t worker = 0;
	double forward, backward;

	if (f->kind != FINDING_SLOW_RANK || !f->rank_count)
		return;
	if (found->measure == PEERS_LATE) {
		f->cause = CAUSE_CPU_HOST_GAP;
		finding_say(
		    f, LAYER_CPU, f->effect_ns,
		    "the other ranks of its stage waited for it in collectives; it spent the "
		    "time in gaps without compute or transfers");
		return;
	}
	while (worker < o->t.workers && o->rank[worker] != f->ranks[0])
		worker++;
	forward = growth(o, o->part[0], worker, f->first_step, f->last_step);
	backward = growth(o, o->part[1], worker, f->first_step, f->last_step);
	if (isnan(forward) || isnan(backward))
		return;
	finding_say(f, LAYER_GPU, f->effect_ns,
		    "rank %" PRId32
		    ": forward-compute %+.1f%%, backward-compute %+.1f%% compared with its "
		    "stage's other ranks",
		    f->ranks[0], 100 * forward, 100 * backward);
	f->cause = fmin(forward, backward) > 0.4 * fmax(forward, backward) ? CAUSE_GPU_SLOW
									   : CAUSE_GPU_KERNEL;
}

static void print_summary(const struct ops *o)
{
	if (o->r.json)
		printf("{\"type\":\"summary\",\"kind\":\"ops\",\"rows\":%" PRIu64
		       ",\"skipped\":{\"blank_line\":%" PRIu64 "},\"rank_moved\":%" PRIu64
		       ",\"ranks\":%" PRIu32 ",\"stages\":%" PRIu32 ",\"steps\":%" PRIu32
		       ",\"findings\":%" PRIu64 ",\"mode\":\"%s\"}\n",
		       o->r.rows, o->r.in.blank, o->moved, o->t.workers, o->t.roles, o->t.steps,
		       o->r.findings, o->r.config.mode == PEERS_SYSOM ? "sysom" : "robust");
	else
		printf("\n%" PRIu64 " operations of %" PRIu32 " ranks in %" PRIu32
		       " stages, %" PRIu32 " steps; skipped: %" PRIu64 " blank lines; %" PRIu64
		       " rows whose rank had another stage or replica before\n",
		       o->r.rows, o->t.workers, o->t.roles, o->t.steps, o->r.in.blank, o->moved);
}

static int finish(void *ops)
{
	struct ops *o = ops;
	int err = o->count ? fill(o) : 0, rc;

	if (err) {
		fprintf(stderr, "%s: %s\n", o->r.in.path,
			err == -E2BIG ? "too many ranks times steps" : "out of memory");
		return err == -E2BIG ? EXIT_USAGE : EXIT_FAILED;
	}
	o->r.config.least[PEERS_LATE] = GAP_LEAST;
	o->r.config.least[PEERS_SELF] = SELF_LEAST;
	rc = o->count ? replay_workers_judge(&o->r, &o->t) : 0;
	if (!rc)
		print_summary(o);
	return rc;
}

static int replay_ops_main(int argc, char **argv)
{
	struct ops o = {.r = {.refine = refine},
			.stage_of = calloc(REPLAY_WORKERS_MAX, sizeof(*o.stage_of)),
			.replica_of = calloc(REPLAY_WORKERS_MAX, sizeof(*o.replica_of))};
	int rc = EXIT_FAILED;

	if (o.stage_of && o.replica_of)
		rc = replay_workers_main(&o.r, &replay_ops, argc, argv, read_row, finish);
	else
		fprintf(stderr, "sysom replay ops: out of memory\n");
	replay_workers_forget(&o.stage);
	replay_workers_forget(&o.replica);
	free(o.stage_of);
	free(o.replica_of);
	free(o.op);
	free(o.step);
	free(o.order);
	free(o.members);
	free(o.rank);
	free(o.self);
	return rc;
}

const struct command replay_ops = {
    .name = "replay ops",
    .raw = replay_ops_main,
    .rows = replay_workers_rows,
    .args = "F.csv",
    .args_min = 1,
    .args_max = 1,
    .summary = "operations of a data and pipeline parallel job: slow ranks, uneven stages",
    .status = REPLAY_STATUS};

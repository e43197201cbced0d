/* SPDX-License-Identifier: Apache-2.0
 * Repeats the live run's calls into analysis/ in their order. The recording has the live verdicts too. One
 * function writes both as text, and the texts are compared. Numbers have 17 digits, so equal lines mean
 * equal bits. */
#include "cli/replay/replay_journal.h"

#include "base/carve.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay/replay_findings.h"
#include "cli/replay/replay_line.h"
#include "model/finding.h"

#define STEPS_KEPT     4096u /* per rank, to find the steps of a stretch of time */
#define LINE_BYTES_MAX (64u << 10)

struct kept_step {
	uint64_t index, end_ns;
};

struct side { /* a rank's steps on one side: live, or here */
	struct kept_step kept[STEPS_KEPT];
	uint64_t count;
};

struct rank_run {
	bool open; /* this turn may still find steps */
	struct journal_rank id;
	void *steps_memory, *judge_memory;
	uint64_t memory_bytes;
	struct steps *steps;
	struct judge *judge;
	struct step_mark mark;
	bool has_mark, has_step;
	struct step last;
	struct side live, here;
};

struct replay_journal {
	FILE *to;
	bool json, said_live, headed;
	struct rank_run *rank[LIMIT_NODE_PROCESSES]; /* by slot; NULL: empty */
	struct local_peers *peers;
	uint64_t memory_bytes;
	uint64_t made_bytes, read_bytes; /* of all models ever made; of all blocks */
	struct step_kernel kernels[STEP_KERNELS_MAX];
	struct buf live, here;
	struct replay_journal_stats stats;
};

int replay_journal_open(struct replay_journal **out, FILE *to, bool json, bool live)
{
	struct replay_journal *j = calloc(1, sizeof(*j));

	if (!j || local_peers_open(&j->peers, PEERS_ROBUST)) {
		free(j);
		return -ENOMEM;
	}
	j->to = to;
	j->json = json;
	j->said_live = live;
	buf_init(&j->live, LINE_BYTES_MAX);
	buf_init(&j->here, LINE_BYTES_MAX);
	*out = j;
	return 0;
}

static void drop_rank(struct replay_journal *j, uint32_t slot)
{
	struct rank_run *r = j->rank[slot];

	if (!r)
		return;
	j->memory_bytes -= r->memory_bytes;
	free(r->steps_memory);
	free(r->judge_memory);
	free(r);
	j->rank[slot] = NULL;
}

void replay_journal_close(struct replay_journal *j)
{
	if (!j)
		return;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		drop_rank(j, i);
	local_peers_close(j->peers);
	buf_fini(&j->live);
	buf_fini(&j->here);
	free(j);
}

/* ---- lines ---- */

/* Compares the two sides' lines, and prints the chosen one. */
static void compare(struct replay_journal *j, const struct step *step[2],
		    const struct judge_verdict *verdict[2], int32_t rank)
{
	struct buf *line[2] = {&j->live, &j->here};
	int which = j->said_live ? 0 : 1;

	for (int i = 0; i < 2; i++) {
		buf_clear(line[i]);
		if (step[i])
			replay_line_step_json(line[i], rank, step[i], verdict[i]);
	}
	j->stats.differ += line[0]->bytes != line[1]->bytes ||
			   memcmp(line[0]->data, line[1]->data, line[0]->bytes);
	if (!step[which])
		return;
	j->stats.steps++;
	j->stats.judged += verdict[which]->skip == JUDGE_USED;
	j->stats.flagged += verdict[which]->flagged;
	if (j->json)
		fwrite(line[which]->data, 1, line[which]->bytes, j->to);
	else
		replay_line_step_text(j->to, &j->headed, rank, step[which], verdict[which]);
}

static void keep(struct side *s, const struct step *st)
{
	s->kept[s->count++ % STEPS_KEPT] = (struct kept_step){st->index, st->end_ns};
}

/* The finding of a rank that is slow among its peers on the node, without a cause. */
static void make_finding(struct finding *f, const struct rank_run *r, const struct side *s,
			 const struct local_peers_flag *flag)
{
	uint64_t from = s->count > STEPS_KEPT ? s->count - STEPS_KEPT : 0;
	bool any = false;

	memset(f, 0, sizeof(*f));
	f->kind = FINDING_SLOW_RANK;
	f->cause = finding_cause_find("unknown");
	f->ranks[f->rank_count++] = r ? r->id.rank : -1;
	f->excess = flag->excess;
	f->effect_ns = flag->excess_ns;
	for (uint64_t i = from; i < s->count; i++) {
		const struct kept_step *k = &s->kept[i % STEPS_KEPT];

		if (k->end_ns <= flag->begin_ns || k->end_ns > flag->end_ns)
			continue;
		if (!any)
			f->first_step = k->index;
		any = true;
		f->last_step = k->index;
	}
	finding_say(f, LAYER_UNKNOWN, flag->excess_ns,
		    "self time per step is %.6f ms (%.4f%%) above that of its peers on the node",
		    flag->excess_ns * 1e-6, flag->excess * 100);
}

static int put_finding(struct replay_journal *j, struct buf *line, const struct rank_run *r,
		       const struct side *s, const struct local_peers_flag *flag)
{
	static struct finding f;
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	buf_clear(line);
	if (!to)
		return -ENOMEM;
	make_finding(&f, r, s, flag);
	if (j->json)
		replay_findings_json(to, &f, NULL);
	else
		replay_findings_text(to, &f, NULL);
	fclose(to);
	buf_append(line, text, bytes);
	free(text);
	return line->failed ? -ENOMEM : 0;
}

/* ---- events ---- */

/* Ends a turn: steps that only this side found are differences. */
static void settle(struct replay_journal *j, struct rank_run *r)
{
	struct step s;
	uint32_t kernels;

	while (r->open && steps_next(r->steps, &s, j->kernels, &kernels)) {
		struct judge_verdict v = judge_push(r->judge, &s, 0);

		compare(j, (const struct step *[2]){NULL, &s},
			(const struct judge_verdict *[2]){NULL, &v}, r->id.rank);
	}
	r->open = false;
}

/* A process without a number gets one from its communicator, before its first step. */
static bool is_renamed(const struct rank_run *r, const struct journal_rank *id)
{
	return r && !r->has_step && r->id.rank < 0 && id->rank >= 0 &&
	       !strcmp(r->id.job, id->job) && !strcmp(r->id.role, id->role) &&
	       !strcmp(r->id.node, id->node);
}

static int begin_rank(struct replay_journal *j, uint32_t slot, const struct journal_rank *id)
{
	struct rank_run *r;
	uint64_t bytes =
	    sizeof(*r) + steps_memory_bytes(&id->steps) + judge_memory_bytes(&id->judge);

	if (is_renamed(j->rank[slot], id)) {
		j->rank[slot]->id.rank = id->rank;
		j->rank[slot]->id.world_size = id->world_size;
		return 0;
	}
	if (j->rank[slot])
		settle(j, j->rank[slot]);
	drop_rank(j, slot);
	/* a file with many ranks must not make us build models forever */
	if (j->memory_bytes + bytes > LIMIT_JOURNAL_MODEL_BYTES ||
	    j->made_bytes + bytes > LIMIT_JOURNAL_MODEL_BYTES + LIMIT_JOURNAL_WORK * j->read_bytes)
		return -E2BIG;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	j->rank[slot] = r;
	r->id = *id;
	r->memory_bytes = bytes;
	j->memory_bytes += bytes;
	j->made_bytes += bytes;
	r->steps_memory = carve_memory(steps_memory_bytes(&id->steps));
	r->judge_memory = carve_memory(judge_memory_bytes(&id->judge));
	if (!r->steps_memory || !r->judge_memory)
		return -ENOMEM;
	r->steps = steps_init(r->steps_memory, &id->steps);
	r->judge = judge_init(r->judge_memory, &id->judge);
	j->stats.ranks++;
	return 0;
}

static void feed(struct replay_journal *j, struct rank_run *r, const struct record *first,
		 uint32_t count)
{
	j->stats.records += count;
	for (uint32_t i = 0; i < count; i++) {
		const struct record *rec = &first[i];
		bool marked = r->has_mark && rec->kind == RECORD_STEP_BEGIN;

		if (RECORD_IS_DEVICE(rec->kind))
			steps_push_device(r->steps, rec);
		else
			steps_push_host(r->steps, rec, marked ? &r->mark : NULL);
		r->has_mark &= !marked;
	}
}

static void take_step(struct replay_journal *j, struct rank_run *r, const struct journal_step *live)
{
	const struct step *step[2] = {&live->step, NULL};
	const struct judge_verdict *verdict[2] = {&live->verdict, NULL};
	struct judge_verdict v;
	uint32_t kernels;

	keep(&r->live, &live->step);
	r->has_step = r->open && steps_next(r->steps, &r->last, j->kernels, &kernels);
	if (r->has_step) {
		v = judge_push(r->judge, &r->last, live->stalled_ns);
		step[1] = &r->last;
		verdict[1] = &v;
		keep(&r->here, &r->last);
	}
	compare(j, step, verdict, r->id.rank);
}

static int take_flag(struct replay_journal *j, uint32_t slot, const struct local_peers_flag *live)
{
	static const struct side nothing;
	const struct rank_run *r = j->rank[slot];
	struct local_peers_flag here;
	bool got = local_peers_next(j->peers, &here), same;
	const struct rank_run *of = got ? j->rank[here.slot] : NULL;
	const struct buf *line = j->said_live ? &j->live : &j->here;
	int err = put_finding(j, &j->live, r, r ? &r->live : &nothing, live);

	buf_clear(&j->here);
	if (!err && got)
		err = put_finding(j, &j->here, of, of ? &of->here : &nothing, &here);
	if (err)
		return err;
	same = got && here.slot == live->slot && here.ended == live->ended &&
	       here.begin_ns == live->begin_ns && here.end_ns == live->end_ns &&
	       !memcmp(&here.excess, &live->excess, sizeof(double)) &&
	       !memcmp(&here.excess_ns, &live->excess_ns, sizeof(double)) &&
	       j->live.bytes == j->here.bytes && !memcmp(j->live.data, j->here.data, j->live.bytes);
	j->stats.differ += !same;
	/* its end is not a second finding */
	if (j->said_live ? live->ended : !got || here.ended)
		return 0;
	j->stats.findings++;
	fwrite(line->data, 1, line->bytes, j->to);
	return 0;
}

static int take_rank_event(struct replay_journal *j, const struct journal_event *e)
{
	struct rank_run *r = j->rank[e->slot];

	if (!r)
		return -EPROTO; /* a rank's settings must come first */
	if (e->kind != JOURNAL_STEP && e->kind != JOURNAL_COMPARE)
		settle(j, r);
	switch (e->kind) {
	case JOURNAL_SAMPLE:
		judge_restore(r->judge, &e->as.sample);
		break;
	case JOURNAL_MARK:
		r->mark = e->as.mark;
		r->has_mark = true;
		break;
	case JOURNAL_RECORDS:
		feed(j, r, e->as.records.first, e->as.records.count);
		break;
	case JOURNAL_RUN:
		steps_advance(r->steps, e->as.device_ns);
		r->open = true;
		break;
	case JOURNAL_FINISH:
		steps_finish(r->steps);
		r->open = true;
		break;
	case JOURNAL_STEP:
		take_step(j, r, &e->as.step);
		break;
	case JOURNAL_COMPARE:
		if (r->has_step)
			local_peers_step(j->peers, e->slot, e->as.compare.key, &r->last,
					 e->as.compare.used);
		break;
	default:
		break;
	}
	return 0;
}

static int take_event(struct replay_journal *j, const struct journal_event *e)
{
	j->stats.events++;
	switch (e->kind) {
	case JOURNAL_RANK:
		return begin_rank(j, e->slot, &e->as.rank);
	case JOURNAL_FORGET:
		local_peers_forget(j->peers, e->slot);
		return 0;
	case JOURNAL_FLAG:
		return take_flag(j, e->slot, &e->as.flag);
	case JOURNAL_END:
		j->stats.ended = true;
		j->stats.why = e->as.end;
		return 0;
	default:
		return take_rank_event(j, e);
	}
}

int replay_journal_block(struct replay_journal *j, const uint8_t head[JOURNAL_HEAD_BYTES],
			 const void *body, uint32_t body_bytes)
{
	struct journal_block *b;
	struct journal_event e;
	int err = j->stats.ended ? -EPROTO : journal_block_open(&b, head, body, body_bytes);
	int more;

	if (err)
		return err;
	j->stats.blocks++;
	j->read_bytes += body_bytes;
	while ((more = journal_block_next(b, &e)) > 0 && !err)
		err = j->stats.ended ? -EPROTO : take_event(j, &e);
	journal_block_close(b);
	return err ? err : more;
}

void replay_journal_finish(struct replay_journal *j)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (j->rank[i])
			settle(j, j->rank[i]);
}

void replay_journal_stats_get(const struct replay_journal *j, struct replay_journal_stats *out)
{
	*out = j->stats;
}

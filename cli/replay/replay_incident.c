/* SPDX-License-Identifier: Apache-2.0
 * Restores an incident as the aggregator does when it starts: the row, the findings, the windows. */
#include "cli/replay/replay_incident.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/incident/finding_json.h"
#include "analysis/cause/excerpt.h"
#include "base/check.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/room.h"
#include "cli/replay/replay_findings.h"
#include "cli/replay/replay_line.h"
#include "wire/codec.h"

/* The aggregator's defaults of incident.gap and incident.silence. */
#define GAP_NS	       5000000000ull
#define SILENCE_NS     30000000000ull
#define LINE_BYTES_MAX (64u << 10)

struct replay_incident {
	FILE *to;
	bool json, headed;
	const json_t *known;
	struct incident_set *set;
	char (*ids)[INCIDENT_ID_BYTES];
	uint32_t id_count;
	uint8_t (*seen)[16]; /* ids of windows */
	uint32_t seen_count;
	size_t seen_room;
	uint32_t job_ranks; /* 0: not known */
	struct buf line;
	struct replay_incident_stats stats;
};

/* ---- open and close ---- */

static int take_known(struct replay_incident *r, const json_t *in)
{
	struct incident_row row = {.open = !strcmp(jsonget_text(in, "state"), "open"),
				   .begin_unix_ns = jsonget_unsigned(in, "begin_unix_ns"),
				   .end_unix_ns = jsonget_unsigned(in, "end_unix_ns")};
	struct finding_report *f = malloc(sizeof(*f));
	const json_t *list = json_object_get(in, "findings"), *one;
	size_t k;
	int err = f ? 0 : -ENOMEM;

	snprintf(row.id, sizeof(row.id), "%s", jsonget_text(in, "id"));
	snprintf(row.job, sizeof(row.job), "%s", jsonget_text(in, "job"));
	if (!err && (!row.id[0] || !row.job[0] || row.end_unix_ns < row.begin_unix_ns))
		err = -EINVAL;
	if (!err)
		err = incident_set_restore(r->set, &row);
	json_array_foreach ((json_t *)list, k, one) {
		if (err)
			break;
		err = finding_json_parse(one, f);
		snprintf(f->job, sizeof(f->job), "%s", row.job);
		if (!err)
			err = incident_set_restore_finding(r->set, row.id, f);
	}
	if (!err)
		memcpy(r->ids[r->id_count++], row.id, sizeof(row.id));
	free(f);
	return err;
}

static const struct incident_sources no_sources;

int replay_incident_live(struct replay_incident **out, FILE *to, bool json,
			 const struct incident_sources *sources, uint32_t job_ranks)
{
	const struct incident_config c = {.gap_ns = GAP_NS,
					  .silence_ns = SILENCE_NS,
					  .memory_ns = UINT64_MAX,
					  .sources = *sources};
	struct replay_incident *r = calloc(1, sizeof(*r));
	int err = r ? incident_set_open(&r->set, &c) : -ENOMEM;

	if (err) {
		free(r);
		return err;
	}
	r->to = to;
	r->json = json;
	r->job_ranks = job_ranks;
	buf_init(&r->line, LINE_BYTES_MAX);
	r->ids = calloc(LIMIT_INCIDENTS_LIVE, sizeof(*r->ids));
	if (!r->ids) {
		replay_incident_close(r);
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

int replay_incident_open(struct replay_incident **out, FILE *to, bool json, const json_t *known)
{
	struct replay_incident *r;
	int err = replay_incident_live(&r, to, json, &no_sources,
				       (uint32_t)jsonget_unsigned(known, "job_ranks"));

	if (err)
		return err;
	r->known = known;
	err = known ? take_known(r, known) : 0;
	if (err)
		replay_incident_close(r);
	else
		*out = r;
	return err;
}

void replay_incident_close(struct replay_incident *r)
{
	if (!r)
		return;
	incident_set_close(r->set);
	buf_fini(&r->line);
	free(r->ids);
	free(r->seen);
	free(r);
}

/* ---- windows ---- */

/* A window counts once. 0; 1: it has come before; -ENOMEM. */
static int is_again(struct replay_incident *r, const uint8_t id[16])
{
	for (uint32_t i = 0; i < r->seen_count; i++)
		if (!memcmp(r->seen[i], id, 16))
			return 1;
	if (ROOM_FOR(r->seen, r->seen_room, r->seen_count + 1ull))
		return -ENOMEM;
	memcpy(r->seen[r->seen_count++], id, 16);
	return 0;
}

static void note_change(struct replay_incident *r, const struct incident_change *c)
{
	bool known = !c->id[0];

	for (uint32_t k = 0; k < c->absorbed_count; k++)
		for (uint32_t i = 0; i < r->id_count; i++)
			if (!strcmp(r->ids[i], c->absorbed[k])) {
				r->id_count--;
				memmove(r->ids[i], r->ids[r->id_count], INCIDENT_ID_BYTES);
				break;
			}
	for (uint32_t i = 0; i < r->id_count; i++)
		known |= !strcmp(r->ids[i], c->id);
	if (!known && r->id_count < LIMIT_INCIDENTS_LIVE)
		memcpy(r->ids[r->id_count++], c->id, INCIDENT_ID_BYTES);
	r->stats.alone += !c->id[0];
}

/* now_unix_ns 0: it arrives at its end. */
static int add(struct replay_incident *r, const struct window *w, size_t bytes,
	       uint64_t now_unix_ns, struct incident_change *change)
{
	struct digest *d = malloc(sizeof(*d));
	int err;

	change->id[0] = '\0';
	if (!d)
		return -ENOMEM;
	digest_make(w, bytes, d);
	d->excerpt = excerpt_make(w, NULL, NULL);
	if (r->known) {
		err = incident_set_restore_window(r->set, r->ids[0], d);
	} else {
		err =
		    incident_set_add(r->set, d, now_unix_ns ? now_unix_ns : d->end_unix_ns, change);
		if (!err)
			note_change(r, change);
	}
	excerpt_drop(d->excerpt);
	free(d);
	return err;
}

int replay_incident_take(struct replay_incident *r, const struct window *w, size_t bytes,
			 uint64_t now_unix_ns, char id[INCIDENT_ID_BYTES])
{
	struct incident_change change;
	int err;

	r->stats.windows++;
	err = add(r, w, bytes, now_unix_ns, &change);
	memcpy(id, change.id, INCIDENT_ID_BYTES);
	return err;
}

int replay_incident_finding(struct replay_incident *r, const struct finding_report *f,
			    uint64_t now_unix_ns, char id[INCIDENT_ID_BYTES])
{
	struct incident_change change = {.id = ""};
	int err = incident_set_add_finding(r->set, f, now_unix_ns, &change);

	if (!err && change.id[0])
		note_change(r, &change);
	memcpy(id, change.id, INCIDENT_ID_BYTES);
	return err == -EINVAL ? 0 : err;
}

void replay_incident_tick(struct replay_incident *r, uint64_t now_unix_ns)
{
	char closed[16][INCIDENT_ID_BYTES];

	while (incident_set_tick(r->set, now_unix_ns, closed, ARRAY_LEN(closed)) ==
	       ARRAY_LEN(closed))
		;
}

json_t *replay_incident_json(const struct replay_incident *r, const char *id)
{
	return incident_set_json(r->set, id, r->job_ranks, NULL);
}

static void print_steps(struct replay_incident *r, const struct window *w)
{
	for (uint32_t i = 0; i < w->step_count; i++) {
		r->stats.steps++;
		r->stats.flagged += (w->steps[i].flags & WINDOW_STEP_FLAGGED) != 0;
		if (!r->json) {
			replay_line_window_text(r->to, &r->headed, w, &w->steps[i]);
			continue;
		}
		buf_clear(&r->line);
		replay_line_window_json(&r->line, w, &w->steps[i]);
		fwrite(r->line.data, 1, r->line.bytes, r->to);
	}
}

int replay_incident_window(struct replay_incident *r, const void *data, size_t bytes)
{
	struct incident_change change;
	struct window w;
	int err = wire_window_decode(data, bytes, &w), again;

	if (err)
		return err;
	if (!digest_is_sound(&w)) {
		wire_window_free(&w);
		return -EPROTO;
	}
	again = is_again(r, w.id);
	if (!again) {
		print_steps(r, &w);
		r->stats.windows++;
		err = add(r, &w, bytes, 0, &change);
	}
	r->stats.duplicates += again > 0;
	wire_window_free(&w);
	return again < 0 ? again : err;
}

/* ---- incidents ---- */

/* One verdict of the incident as a finding. */
static void fill_finding(struct finding *f, const json_t *in, const json_t *d)
{
	const json_t *one;
	size_t k;

	memset(f, 0, sizeof(*f));
	f->kind = finding_kind_find(jsonget_text(in, "kind")) ?: FINDING_SLOW_RANK;
	f->cause = finding_cause_find(jsonget_text(d, "cause"));
	json_array_foreach (json_object_get(d, "ranks"), k, one)
		if (f->rank_count < FINDING_RANKS_MAX)
			f->ranks[f->rank_count++] = (int32_t)json_integer_value(one);
	f->first_step = jsonget_unsigned(in, "first_step");
	f->last_step = jsonget_unsigned(in, "last_step");
	f->excess = jsonget_number(in, "excess");
	f->effect_ns = jsonget_number(d, "effect_ms") * 1e6;
	f->confidence = jsonget_number(d, "confidence");
	json_array_foreach (json_object_get(d, "evidence"), k, one)
		finding_say(f, finding_layer_find(jsonget_text(one, "layer")),
			    jsonget_number(one, "effect_ms") * 1e6, "%s",
			    jsonget_text(one, "text"));
}

static int print_incident(struct replay_incident *r, const char *id)
{
	json_t *in = replay_incident_json(r, id);
	struct finding *f = malloc(sizeof(*f));
	const json_t *one;
	size_t k;
	int err = in && f ? 0 : -ENOMEM;

	json_array_foreach (json_object_get(in, "diagnoses"), k, one) {
		if (err)
			break;
		fill_finding(f, in, one);
		if (r->json)
			replay_findings_json(r->to, f, NULL);
		else
			replay_findings_text(r->to, f, NULL);
		r->stats.findings++;
	}
	if (!err && r->json) {
		json_object_set_new(in, "type", json_string("incident"));
		err = json_dumpf(in, r->to, JSON_COMPACT | JSON_REAL_PRECISION(9)) ? -ENOMEM : 0;
		fputc('\n', r->to);
	}
	r->stats.incidents += !err;
	free(f);
	json_decref(in);
	return err;
}

int replay_incident_finish(struct replay_incident *r)
{
	int err = 0;

	for (uint32_t i = 0; i < r->id_count && !err; i++)
		err = print_incident(r, r->ids[i]);
	return err;
}

void replay_incident_stats_get(const struct replay_incident *r, struct replay_incident_stats *out)
{
	*out = r->stats;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/replay_workers.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/order.h"
#include "base/room.h"
#include "cli/replay/replay_findings.h"

#define AT(field) offsetof(struct replay_workers, field)

const struct option_row replay_workers_rows[] = {
    {"time", 0, "COL[,COL]", "the columns of times, whatever their names", OPTION_TEXT,
     .at = AT(times), .bit = REPLAY_WORKERS_TIMES},
    {"unit", 0, "ns|us|ms|s", "unit of times whose name has none (default s)", OPTION_TEXT,
     .at = AT(unit), .bit = REPLAY_WORKERS_TIMES},
    {"mode", 0, "robust|sysom",
     "compare with peers and the past (default), or mean + k sigma (SysOM-AI)", OPTION_WORD,
     .at = AT(mode)},
    {"k", 0, "N", "k of mode sysom (default 2)", OPTION_NUMBER, .at = AT(k), .least = 0.001,
     .most = 100},
    {"window", 0, "N", "steps that mode sysom compares (default 100)", OPTION_COUNT,
     .at = AT(window), .least = 1, .most = 1e6},
    {"json", 'j', NULL, "one JSON object per line", OPTION_SWITCH, .at = AT(json)},
    {0},
};

static int parse(struct replay_workers *r, const struct command *c, int argc, char **argv)
{
	int status = options_read(c, r, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	peers_config_default(&r->config);
	r->config.mode = (enum peers_mode)r->mode;
	if ((r->k > 0 || r->window) && r->mode != PEERS_SYSOM) {
		fprintf(stderr, "sysom %s: --k and --window need --mode sysom\n", c->name);
		return EXIT_USAGE;
	}
	r->config.k = r->k > 0 ? r->k : r->config.k;
	r->config.w = r->window ? r->window : r->config.w;
	return OPTIONS_GO_ON;
}

int64_t replay_workers_find(struct replay_workers_ids *ids, int64_t id, uint32_t max)
{
	uint32_t at = idmap_get(&ids->by_id, (uint64_t)id);

	if (at != IDMAP_NONE)
		return at;
	if (ids->count >= max)
		return -E2BIG;
	ids->by_id.max = max;
	if (ROOM_FOR(ids->id, ids->room, ids->count + 1ull) ||
	    idmap_put(&ids->by_id, (uint64_t)id, ids->count))
		return -ENOMEM;
	ids->id[ids->count] = id;
	return ids->count++;
}

static const int64_t *sort_ids; /* for by_id: qsort has no context */
static int by_id(const void *a, const void *b)
{
	int64_t x = sort_ids[*(const uint32_t *)a], y = sort_ids[*(const uint32_t *)b];

	return ORDER(x, y);
}

uint32_t *replay_workers_places(const struct replay_workers_ids *ids)
{
	uint32_t *by = malloc((ids->count + 1ull) * sizeof(*by));
	uint32_t *to = by ? malloc((ids->count + 1ull) * sizeof(*to)) : NULL;

	for (uint32_t i = 0; to && i < ids->count; i++)
		by[i] = i;
	sort_ids = ids->id;
	if (to && ids->count)
		qsort(by, ids->count, sizeof(*by), by_id);
	for (uint32_t i = 0; to && i < ids->count; i++)
		to[by[i]] = i;
	free(by);
	return to;
}

void replay_workers_forget(struct replay_workers_ids *ids)
{
	free(ids->id);
	idmap_fini(&ids->by_id);
	*ids = (struct replay_workers_ids){0};
}

static void print(void *context, const struct workers_finding *found)
{
	struct replay_workers *r = context;
	struct workers_finding f = *found;
	struct replay_findings_extra extra = {.has_sure_step = true,
					      .sure_step = f.sure_step,
					      .window = f.window,
					      .measure = f.finding.kind != FINDING_SLOW_RANK ? NULL
							 : f.measure == PEERS_LATE ? "late"
										   : "self"};

	if (r->refine)
		r->refine(r, &f);
	r->findings++;
	if (r->json)
		replay_findings_json(stdout, &f.finding, &extra);
	else
		replay_findings_text(stdout, &f.finding, &extra);
}

int replay_workers_judge(struct replay_workers *r, struct workers_table *t)
{
	int err;

	t->config = r->config;
	err = workers_find(t, print, r);
	if (err == -E2BIG) {
		fprintf(stderr, "%s: a role of more than %u workers\n", r->in.path,
			PEERS_MEMBERS_MAX);
		return EXIT_USAGE;
	}
	if (err) {
		fprintf(stderr, "%s: out of memory\n", r->in.path);
		return EXIT_FAILED;
	}
	if (!r->json && !r->findings)
		printf("no slow rank, no imbalance\n");
	return 0;
}

void replay_workers_free(struct replay_workers *r)
{
	replay_workers_forget(&r->rank);
	replay_workers_forget(&r->step);
}

int replay_workers_main(struct replay_workers *r, const struct command *c, int argc, char **argv,
			replay_input_row *row, int (*finish)(void *kind))
{
	int rc = parse(r, c, argc, argv);

	if (rc != OPTIONS_GO_ON)
		return rc;
	rc = replay_input_each(&r->in, argv[optind], row, r);
	if (!rc)
		rc = finish(r);
	replay_workers_free(r);
	return rc;
}

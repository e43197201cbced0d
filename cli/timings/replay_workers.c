/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/replay_workers.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/room.h"
#include "cli/options.h"
#include "cli/replay/replay_findings.h"
#include "cli/timings/replay_input.h"
#include "render/term.h"

static int usage_error(const struct replay_workers *r, const char *what, const char *which)
{
	fprintf(stderr, "sysom replay %s: %s%s%s; try --help\n", r->kind, what, which ? ": " : "",
		which ? term_safe(which, 80) : "");
	return 2;
}

static int option_of(void *workers, int option, const char *arg)
{
	struct replay_workers *r = workers;
	double v;

	switch (option) {
	case 'j':
		r->json = true;
		return 0;
	case 'm':
		if (strcmp(arg, "robust") && strcmp(arg, "sysom"))
			return usage_error(r, "unknown mode", arg);
		r->config.mode = *arg == 's' ? PEERS_SYSOM : PEERS_ROBUST;
		return 0;
	case 't':
		r->times = arg;
		return 0;
	case 'u':
		r->unit = replay_unit_of(arg);
		return r->unit ? 0 : usage_error(r, "unknown unit", arg);
	case 'k':
		r->of_sysom = "--k";
		if (!options_number(arg, 0, 100, &r->config.k))
			return usage_error(r, "not a number of deviations", arg);
		return 0;
	case 'w':
		r->of_sysom = "--window";
		if (!options_number(arg, 1, 1e6, &v) || v != floor(v))
			return usage_error(r, "not a number of steps", arg);
		r->config.w = (uint32_t)v;
		return 0;
	}
	return 2; /* getopt printed the reason */
}

static int parse(struct replay_workers *r, int argc, char **argv, const char *usage)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'},	    {"mode", required_argument, NULL, 'm'},
	    {"k", required_argument, NULL, 'k'},    {"window", required_argument, NULL, 'w'},
	    {"help", no_argument, NULL, 'h'},	    {"time", required_argument, NULL, 't'},
	    {"unit", required_argument, NULL, 'u'}, {NULL, 0, NULL, 0},
	};
	int rc;

	peers_config_default(&r->config);
	rc = options_each(argc, argv, options, option_of, r);
	if (rc == OPTIONS_HELP)
		fputs(usage, stdout);
	if (rc)
		return rc;
	if (r->of_sysom && r->config.mode != PEERS_SYSOM)
		return usage_error(r, "needs --mode sysom", r->of_sysom);
	if (!r->has_times && (r->times || r->unit))
		return usage_error(r, "an option of timings", r->times ? "--time" : "--unit");
	if (optind + 1 != argc)
		return usage_error(r, "one file is read", optind < argc ? argv[optind + 1] : NULL);
	r->path = argv[optind];
	return 0;
}

int replay_workers_bad(const struct replay_workers *r, const struct replay_csv *c, const char *what,
		       const char *which)
{
	return replay_input_bad(r->path, c, what, which);
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
		r->refine(r->context, &f);
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
		fprintf(stderr, "%s: a role of more than %u workers\n", r->path, PEERS_MEMBERS_MAX);
		return 2;
	}
	if (err) {
		fprintf(stderr, "sysom replay %s: out of memory\n", r->kind);
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

int replay_workers_main(struct replay_workers *r, int argc, char **argv, const char *usage,
			int (*run)(void *context, struct replay_csv *c))
{
	struct replay_csv *c = NULL;
	int rc = parse(r, argc, argv, usage);

	if (rc)
		return rc == OPTIONS_HELP ? 0 : rc;
	rc = replay_csv_open(&c, r->path);
	if (rc)
		fprintf(stderr, "%s: %s\n", r->path, strerror(-rc));
	rc = rc ? 2 : run(r->context, c);
	replay_csv_close(c);
	replay_workers_free(r);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 * replay_stacks.c - compares two profiles of folded stacks by function. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cause/profile.h"
#include "base/check.h"
#include "base/text/json_text.h"
#include "cli/options.h"
#include "cli/profile/folded.h"
#include "cli/replay/replay.h"
#include "render/term.h"

#define ROWS_SHOWN 30

struct side {
	const char *path;
	struct folded f;
	struct profile *p;
};

struct arguments {
	bool json;
	double delta, sample_weight;
};

#define AT(field) offsetof(struct arguments, field)

static const struct option_row rows[] = {
    {"json", 'j', NULL, "one JSON object per line", OPTION_SWITCH, .at = AT(json)},
    {"delta", 'd', "X", "smallest difference that matters, as a share of the whole (0.005)",
     OPTION_NUMBER, .at = AT(delta), .least = 1e-9, .most = 1 - 1e-9},
    {"sample-weight", 'w', "N",
     "what one sample adds to a line (1; for times in nanoseconds the smallest value)",
     OPTION_NUMBER, .at = AT(sample_weight), .least = FOLDED_VALUE_MIN, .most = FOLDED_VALUE_MAX},
    {0},
};

static int load(struct side *s, double sample_weight)
{
	int err = folded_load(&s->f, s->path, sample_weight);

	if (!err)
		err = folded_profile(&s->f, &s->p); /* the summary counts stacks without room */
	if (err == -ENOMEM)
		fprintf(stderr, "sysom replay stacks: out of memory\n");
	return err;
}

static void put_side(const char *name, struct side *s)
{
	double samples = profile_samples(s->p);
	uint32_t functions;

	profile_functions(s->p, &functions);
	printf("\"%s\":{\"file\":", name);
	json_text_print(stdout, "", s->path);
	printf(",\"rows\":%llu,\"skipped\":{\"blank\":%llu,\"deep\":%llu,\"no_room\":%llu},"
	       "\"functions\":%u,\"total\":%.9g,\"samples\":",
	       (unsigned long long)s->f.rows, (unsigned long long)s->f.blank,
	       (unsigned long long)s->f.deep, (unsigned long long)profile_dropped(s->p), functions,
	       profile_total(s->p));
	printf(isinf(samples) ? "null}" : "%.0f}", samples);
}

static void print_json(const struct arguments *a, struct side *side, const struct profile_delta *d,
		       uint32_t count, uint32_t flagged)
{
	for (uint32_t i = 0; i < count; i++) {
		json_text_print(stdout, "{\"type\":\"delta\",\"function\":", d[i].name);
		printf(",\"base\":%.9g,\"other\":%.9g,\"delta\":%.9g,\"flagged\":%s,\"base_self\":%"
		       ".9g,"
		       "\"other_self\":%.9g,\"beyond\":%.9g,\"chance\":%.3g}\n",
		       d[i].base, d[i].other, d[i].delta, d[i].flagged ? "true" : "false",
		       d[i].base_self, d[i].other_self, d[i].beyond, d[i].chance);
	}
	fputs("{\"type\":\"summary\",", stdout);
	put_side("base", &side[0]);
	putchar(',');
	put_side("other", &side[1]);
	printf(",\"functions\":%u,\"flagged\":%u,\"threshold\":%.9g}\n", count, flagged, a->delta);
}

static void print_people(const struct arguments *a, struct side *side,
			 const struct profile_delta *d, uint32_t count, uint32_t flagged)
{
	uint32_t shown = 0, functions;

	printf("%s%9s %9s %9s %9s  %s%s\n", term_style(TERM_BOLD), "base", "other", "delta", "self",
	       "function (! flagged)", term_style(TERM_PLAIN));
	for (uint32_t i = 0; i < count && shown < ROWS_SHOWN; i++) {
		if (fabs(d[i].delta) <= a->delta)
			break;
		printf("%8.2f%% %8.2f%% %s%+8.2f%%%s %+8.2f%% %c%s\n", 100 * d[i].base,
		       100 * d[i].other,
		       term_style(!d[i].flagged	   ? TERM_DIM
				  : d[i].delta > 0 ? TERM_RED
						   : TERM_CYAN),
		       100 * d[i].delta, term_style(TERM_PLAIN),
		       100 * (d[i].other_self - d[i].base_self), d[i].flagged ? '!' : ' ',
		       term_safe(d[i].name, term_columns() > 60 ? term_columns() - 42 : 40));
		shown++;
	}
	printf("\n%u functions, %u flagged, %u shown\n", count, flagged, shown);
	for (int s = 0; s < 2; s++) {
		double samples = profile_samples(side[s].p);

		profile_functions(side[s].p, &functions);
		printf("%s: %s stacks of %s functions, %s; skipped: %s blank lines, %s stacks too "
		       "deep, "
		       "%s without room\n",
		       term_safe(side[s].path, 80), term_count((double)side[s].f.rows),
		       term_count(functions),
		       isinf(samples) ? "number of samples not known" : term_count(samples),
		       term_count((double)side[s].f.blank), term_count((double)side[s].f.deep),
		       term_count((double)profile_dropped(side[s].p)));
	}
}

static int compare(const struct arguments *a, struct side *side)
{
	struct profile_delta *d;
	uint32_t count, flagged = 0;
	int err = profile_compare(side[0].p, side[1].p, a->delta, &d, &count);

	if (err) {
		fprintf(stderr, "sysom replay stacks: %s\n",
			err == -EINVAL ? "a file has no stack that fits" : strerror(-err));
		return EXIT_FAILED;
	}
	for (uint32_t i = 0; i < count; i++)
		flagged += d[i].flagged;
	if (a->json)
		print_json(a, side, d, count, flagged);
	else
		print_people(a, side, d, count, flagged);
	free(d);
	return EXIT_OK;
}

static int replay_stacks_main(int argc, char **argv)
{
	struct arguments a = {.delta = PROFILE_DELTA};
	struct side side[2] = {0};
	int err = 0, rc = options_read(&replay_stacks, &a, argc, argv);

	if (rc != OPTIONS_GO_ON)
		return rc;
	for (int i = 0; i < 2; i++)
		side[i].path = argv[optind + i];
	if (!strcmp(side[0].path, "-") && !strcmp(side[1].path, "-")) {
		fprintf(stderr, "sysom replay stacks: only one of the two can be standard input\n");
		return EXIT_USAGE;
	}
	for (int i = 0; i < 2 && !err; i++)
		err = load(&side[i], a.sample_weight);
	rc = !err ? compare(&a, side) : err == -ENOMEM ? EXIT_FAILED : EXIT_USAGE;
	for (int i = 0; i < 2; i++) {
		profile_close(side[i].p);
		folded_free(&side[i].f);
	}
	return rc;
}

const struct command replay_stacks = {
    .name = "replay stacks",
    .raw = replay_stacks_main,
    .rows = rows,
    .args = "BASE.folded OTHER.folded",
    .args_min = 2,
    .args_max = 2,
    .summary = "two files of folded stacks: shares by function, flagged differences",
    .status = REPLAY_STATUS};

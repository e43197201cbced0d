/* SPDX-License-Identifier: Apache-2.0
 * replay_stacks.c - two profiles of folded stacks, function by function. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cause/profile.h"
#include "base/check.h"
#include "base/json_text.h"
#include "base/limits.h"
#include "cli/options.h"
#include "cli/profile/folded.h"
#include "cli/replay/replay.h"
#include "cli/text/term.h"

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

static int usage(FILE *to)
{
	fputs(
	    "usage: sysom replay stacks [options] BASE.folded OTHER.folded\n\n"
	    "Per function its share of the time in two profiles of folded stacks\n"
	    "(root;...;leaf VALUE), largest difference first. Shares are of all time with the\n"
	    "function on the stack; _self: with it as the leaf. Flagged: the share changed by\n"
	    "more than delta, beyond the mere dilution by what is new, and by more than\n"
	    "sampling noise. Files may be .gz or .zst; - is standard input.\n\n"
	    "  --json             one JSON object per line\n"
	    "  --delta X          what difference matters, of the whole (0.005)\n"
	    "  --sample-weight N  what one sample adds to a line (1; of times in nanoseconds the\n"
	    "                     smallest value of the file)\n\n"
	    "example:\n"
	    "  sysom replay stacks healthy.folded slow.folded --json | jq 'select(.flagged)'\n",
	    to);
	return to == stdout ? EXIT_OK : EXIT_USAGE;
}

static bool positive(const char *text, double most, double *out)
{
	return options_number(text, 0, most, out) && *out > 0;
}

static int wrong(const char *what)
{
	fprintf(stderr, "sysom replay stacks: %s; try --help\n", what);
	return EXIT_USAGE;
}

/* -1: go on. */
static int parse(struct arguments *a, struct side *side, int argc, char **argv)
{
	static const struct option longs[] = {{"json", 0, NULL, 'j'},
					      {"delta", 1, NULL, 'd'},
					      {"sample-weight", 1, NULL, 'w'},
					      {"help", 0, NULL, 'h'},
					      {0}};
	int opt;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "jd:w:h", longs, NULL)) != -1) {
		bool good = true;

		if (opt == 'h')
			return usage(stdout);
		if (opt == 'j')
			a->json = true;
		else if (opt == 'd')
			good = positive(optarg, 1, &a->delta) && a->delta < 1;
		else if (opt == 'w')
			good = positive(optarg, FOLDED_VALUE_MAX, &a->sample_weight) &&
			       a->sample_weight >= FOLDED_VALUE_MIN;
		else
			return wrong("unknown option or its value is missing");
		if (!good) {
			fprintf(stderr, "sysom replay stacks: %s: a number above 0 is wanted%s\n",
				term_safe(optarg, 40), opt == 'd' ? ", below 1" : ", 1e-9 to 2^64");
			return EXIT_USAGE;
		}
	}
	if (argc - optind != 2)
		return wrong("two files are wanted");
	side[0].path = argv[optind];
	side[1].path = argv[optind + 1];
	if (!strcmp(side[0].path, "-") && !strcmp(side[1].path, "-")) {
		fprintf(stderr, "sysom replay stacks: standard input can be one of the two only\n");
		return EXIT_USAGE;
	}
	return -1;
}

static int load(struct side *s, double sample_weight)
{
	int err = folded_load(&s->f, s->path, sample_weight);

	if (!err)
		err = folded_profile(&s->f, &s->p); /* what has no room is told in the summary */
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
		       isinf(samples) ? "samples not known" : term_count(samples),
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
			err == -EINVAL ? "no stack of a file found room" : strerror(-err));
		return EXIT_NOTHING;
	}
	for (uint32_t i = 0; i < count; i++)
		flagged += d[i].flagged;
	if (a->json)
		print_json(a, side, d, count, flagged);
	else
		print_people(a, side, d, count, flagged);
	free(d);
	return fflush(stdout) || ferror(stdout) ? EXIT_NOTHING : EXIT_OK;
}

int replay_stacks_main(int argc, char **argv)
{
	struct arguments a = {.delta = PROFILE_DELTA};
	struct side side[2] = {0};
	int err = 0, rc = parse(&a, side, argc, argv);

	if (rc >= 0)
		return rc;
	for (int i = 0; i < 2 && !err; i++)
		err = load(&side[i], a.sample_weight);
	rc = !err ? compare(&a, side) : err == -ENOMEM ? EXIT_NOTHING : EXIT_USAGE;
	for (int i = 0; i < 2; i++) {
		profile_close(side[i].p);
		folded_free(&side[i].f);
	}
	return rc;
}

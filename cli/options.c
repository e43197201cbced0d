/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/embed.h"
#include "base/limits.h"
#include "render/term.h"

#define OPTIONS_MAX 40u
#define SECONDS_MAX (86400 * 7)
#define AT(field)   offsetof(struct options, field)

/* For each command a line "= NAME", what it does, "examples:" and command lines. */
EMBED_TEXT(options_help_text, "cli/help.txt");

static const struct option_row common[] = {
    {"json", 'j', NULL, "print JSON", OPTION_SWITCH, .at = AT(json), .bit = OPTION_JSON},
    {"url", 'u', "URL",
     "the aggregator (SYSOM_URL; else url of the settings file; else http://127.0.0.1:9472)",
     OPTION_TEXT, .at = AT(url), .bit = OPTION_URL},
    {"control", 'c', "PATH",
     "sysomd's control socket (SYSOM_CONTROL_PATH; default /run/sysom/control.sock)", OPTION_TEXT,
     .at = AT(control), .bit = OPTION_CONTROL},
    {"job", 'J', "JOB", "only this job", OPTION_TEXT, .at = AT(job), .bit = OPTION_JOB},
    {"job", 'J', "JOB", "the job's name", OPTION_TEXT, .at = AT(job), .bit = OPTION_ROLE},
    {"role", 'R', "ROLE", "role of the processes within the job", OPTION_TEXT, .at = AT(role),
     .bit = OPTION_ROLE},
    {"rank", 'r', "N", "only this rank", OPTION_COUNT, .at = AT(rank), .most = INT32_MAX,
     .bit = OPTION_RANK},
    {"once", '1', NULL, "print once and return", OPTION_SWITCH, .at = AT(once), .bit = OPTION_ONCE},
    {"all", 'a', NULL, "also list transients: a few slow steps, or little time lost", OPTION_SWITCH,
     .at = AT(all), .bit = OPTION_ALL},
    {"any", 'A', NULL, "accept one that was closed before the wait began", OPTION_SWITCH,
     .at = AT(any), .bit = OPTION_ANY},
    {"state", 's', "open|closed", "only in this state", OPTION_TEXT, .at = AT(state),
     .bit = OPTION_STATE},
    {"limit", 'n', "N", "print at most N (default 20)", OPTION_COUNT, .at = AT(limit), .least = 1,
     .most = LIMIT_API_INCIDENTS, .bit = OPTION_LIMIT},
    {"output", 'o', "FILE", "file to write; - is standard output", OPTION_TEXT, .at = AT(out),
     .bit = OPTION_OUT},
    {"diff", 'D', NULL, "compare with a healthy peer of the incident", OPTION_SWITCH,
     .at = AT(diff), .bit = OPTION_DIFF},
    {"base", 'b', "FILE", "compare with these folded stacks (- is standard input)", OPTION_TEXT,
     .at = AT(base), .bit = OPTION_BASE},
    {"format", 'f', "perfetto|kineto", "default perfetto; kineto for a FILE.json", OPTION_TEXT,
     .at = AT(format), .bit = OPTION_FORMAT},
    {"timeout", 't', "S", "seconds to wait (default 60)", OPTION_NUMBER, .at = AT(timeout_s),
     .least = 0.001, .most = SECONDS_MAX, .bit = OPTION_TIMEOUT},
    {"seconds", 'S', "S", "how many seconds to send (default 10)", OPTION_NUMBER, .at = AT(seconds),
     .least = 0.001, .most = SECONDS_MAX, .bit = OPTION_SECONDS},
    {"channels", 0, "S", "record the channels of NCCL's kernels for S seconds; 0: stop",
     OPTION_NUMBER, .at = AT(channels), .least = 0, .most = 3600, .bit = OPTION_CHANNELS},
    {"thresholds", 'T', NULL, "print the thresholds of detection and diagnosis", OPTION_SWITCH,
     .at = AT(thresholds), .bit = OPTION_THRESHOLDS},
    {"cluster", 'C', NULL,
     "print the nodes that the aggregator knows: version, certificate, latest beat", OPTION_SWITCH,
     .at = AT(cluster), .bit = OPTION_CLUSTER},
    {"state-dir", 'd', "DIR", "directory whose disk space is checked (default: sysomd's)",
     OPTION_TEXT, .at = AT(state_dir), .bit = OPTION_STATE_DIR},
    {"optional", 0, NULL, "if it can't be copied, say why and exit with 0", OPTION_SWITCH,
     .at = AT(optional), .bit = OPTION_OPTIONAL},
    {0},
};

/* The command's next row from r on; NULL: no more. */
static const struct option_row *next_row(const struct command *c, const struct option_row *r)
{
	while (r->name && r->bit && !(c->flags & r->bit))
		r++;
	return r->name ? r : NULL;
}

static const struct option_row *first_row(const struct command *c)
{
	return next_row(c, c->rows ? c->rows : common);
}

void options_help(FILE *to, const struct command *c, bool examples)
{
	char head[64];
	const char *from, *middle, *end;

	snprintf(head, sizeof(head), "\n= %s\n", c->name);
	from = strstr(options_help_text, head);
	middle = from ? strstr(from, "\nexamples:\n") : NULL;
	CHECK(middle); /* every command has a section */
	from += strlen(head);
	if (examples) {
		from = middle + strlen("\nexamples:\n");
		end = strstr(from, "\n\n= ");
		fprintf(to, "%.*s\n", (int)(end ? end - from : (ptrdiff_t)strlen(from) - 1), from);
	} else if (from <= middle) {
		fprintf(to, "\n%.*s\n", (int)(middle - from), from);
	}
}

static void print_help(const struct command *c)
{
	bool any = first_row(c);

	printf("usage: sysom %s%s%s%s\n\n%s\n", c->name, any ? " [options]" : "",
	       *c->args ? " " : "", c->args, c->summary);
	options_help(stdout, c, false);
	fputs("\noptions:\n", stdout);
	for (const struct option_row *r = first_row(c); r; r = next_row(c, r + 1)) {
		bool may = r->value && *r->value == '[';
		char flag[80], letter[8] = "    ";

		if (r->letter)
			snprintf(letter, sizeof(letter), "-%c, ", r->letter);
		snprintf(flag, sizeof(flag), "%s--%s%s%s", letter, r->name,
			 r->value && !may ? " " : "", r->value ? r->value : "");
		printf("  %-32s %s\n", flag, r->help);
	}
	printf("  %-32s %s\n", "-h, --help", "print this");
	puts("\nexamples:");
	options_help(stdout, c, true);
	if (c->status || c->args_max >= 0) /* else another command's status */
		printf("\nexit status: %s\n", c->status
						  ? c->status
						  : "0 done; 1 nothing was found, or a check "
						    "failed; 2 bad arguments or input; 3 failed");
}

bool options_number(const char *text, double least, double most, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (!*text || *end || !(v >= least && v <= most))
		return false;
	*out = v;
	return true;
}

/* The index of the word in a list with bars between, or -1. */
static int word_of(const char *words, const char *word)
{
	for (int at = 0;; at++) {
		size_t n = strcspn(words, "|");

		if (strlen(word) == n && !strncmp(words, word, n))
			return at;
		words += n;
		if (!*words++)
			return -1;
	}
}

/* NULL, or what was expected instead of text. */
static const char *store(const struct option_row *r, void *to, const char *text)
{
	void *at = (char *)to + r->at;
	static char want[80];
	double v = r->preset;
	int word = r->kind == OPTION_WORD || (r->value && strchr(r->value, '|'))
		       ? word_of(r->value, text)
		       : 0;

	if (word < 0)
		return r->value;
	switch (r->kind) {
	case OPTION_SWITCH:
	case OPTION_OFF:
		*(bool *)at = r->kind == OPTION_SWITCH;
		return NULL;
	case OPTION_TEXT:
		*(const char **)at = text;
		return NULL;
	case OPTION_WORD:
		*(int *)at = word;
		return NULL;
	case OPTION_TAKEN:
		return r->take(to, text);
	case OPTION_NUMBER:
	case OPTION_COUNT:
		break;
	}
	snprintf(want, sizeof(want), "a %snumber from %.10g to %.10g",
		 r->kind == OPTION_COUNT ? "whole " : "", r->least, r->most);
	if (text && (!options_number(text, r->least, r->most, &v) ||
		     (r->kind == OPTION_COUNT && v != floor(v))))
		return want;
	if (r->kind == OPTION_COUNT)
		*(uint32_t *)at = (uint32_t)v;
	else
		*(double *)at = v;
	return NULL;
}

/* Whether the command takes this many positional arguments; if not, prints a message. */
static bool takes(const struct command *c, int count, char **args)
{
	if (count < c->args_min)
		fprintf(stderr, "sysom %s: %s is missing; try sysom %s --help\n", c->name, c->args,
			c->name);
	else if (c->args_max >= 0 && count > c->args_max)
		fprintf(stderr, "sysom %s: %s is one argument too many; try sysom %s --help\n",
			c->name, term_safe(args[c->args_max], 80), c->name);
	else
		return true;
	return false;
}

int options_read(const struct command *c, void *to, int argc, char **argv)
{
	const struct option_row *row[OPTIONS_MAX];
	struct option longs[OPTIONS_MAX + 2];
	/* '+': options end at the other command's name */
	char shorts[2 * OPTIONS_MAX + 4], *s = stpcpy(shorts, c->args_max < 0 ? "+:h" : ":h");
	int n = 0, got, at = 0;

	for (const struct option_row *r = first_row(c); r && n < (int)OPTIONS_MAX;
	     r = next_row(c, r + 1)) {
		/* longs[at].val is the letter, or a number above all letters */
		longs[n] = (struct option){r->name,
					   !r->value	      ? no_argument
					   : *r->value == '[' ? optional_argument
							      : required_argument,
					   NULL, r->letter ? r->letter : 256 + n};
		row[n++] = r;
		if (r->letter)
			*s++ = r->letter;
		if (r->letter && r->value)
			*s++ = ':';
	}
	*s = '\0';
	longs[n] = (struct option){"help", no_argument, NULL, 'h'};
	longs[n + 1] = (struct option){0};
	optind = opterr = 0;
	while ((got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const char *want;

		if (got == 'h') {
			print_help(c);
			return EXIT_OK;
		}
		for (at = 0; at < n && longs[at].val != got;)
			at++;
		if (at == n) {
			fprintf(stderr, "sysom %s: %s %s; try sysom %s --help\n", c->name,
				got == ':' ? "missing value after" : "unknown option",
				term_safe(argv[optind - 1], 80), c->name);
			return EXIT_USAGE;
		}
		want = store(row[at], to, optarg);
		if (want) {
			fprintf(stderr, "sysom %s: --%s %s: expected %s\n", c->name, row[at]->name,
				term_safe(optarg, 80), want);
			return EXIT_USAGE;
		}
	}
	return takes(c, argc - optind, argv + optind) ? OPTIONS_GO_ON : EXIT_USAGE;
}

int options_parse(struct options *o, const struct command *c, int argc, char **argv)
{
	const char *url = getenv("SYSOM_URL");
	int status;

	*o = (struct options){.url = url && *url ? url : NULL,
			      .rank = -1,
			      .limit = 20,
			      .timeout_s = 60,
			      .channels = -1};
	status = options_read(c, o, argc, argv);
	o->argc = argc - optind;
	o->argv = argv + optind;
	return status;
}

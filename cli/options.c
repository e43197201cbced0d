/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"

struct option_def {
	unsigned bit;
	const char *name;
	char letter;
	const char *metavar; /* NULL: a switch */
	const char *help;
	size_t at; /* offset in struct options: of a switch's bool or of a text; 0: neither */
};

#define AT(field) offsetof(struct options, field)

static const struct option_def defs[] = {
    {OPTION_JSON, "json", 'j', NULL, "print JSON", AT(json)},
    {OPTION_URL, "url", 'u', "URL",
     "the aggregator (SYSOM_URL; else url of the settings file; else http://127.0.0.1:9472)",
     AT(url)},
    {OPTION_CONTROL, "control", 'c', "PATH",
     "sysomd's control socket (SYSOM_CONTROL_PATH; default /run/sysom/control.sock)", AT(control)},
    {OPTION_JOB, "job", 'J', "JOB", "only this job", AT(job)},
    {OPTION_ROLE, "role", 'R', "ROLE", "role of the processes within the job", AT(role)},
    {OPTION_RANK, "rank", 'r', "N", "only this rank", 0},
    {OPTION_ONCE, "once", '1', NULL, "print once and return", AT(once)},
    {OPTION_ALL, "all", 'a', NULL, "also list transients: a few slow steps, or little time lost",
     AT(all)},
    {OPTION_ANY, "any", 'A', NULL, "accept one that was closed before the wait began", AT(any)},
    {OPTION_STATE, "state", 's', "open|closed", "only in this state", AT(state)},
    {OPTION_LIMIT, "limit", 'n', "N", "print at most N (default 20)", 0},
    {OPTION_OUT, "output", 'o', "FILE", "file to write; - is standard output", AT(out)},
    {OPTION_DIFF, "diff", 'D', NULL, "compare with a healthy peer of the incident", AT(diff)},
    {OPTION_BASE, "base", 'b', "FILE", "compare with these folded stacks (- is standard input)",
     AT(base)},
    {OPTION_FORMAT, "format", 'f', "perfetto|kineto", "default perfetto; kineto for a FILE.json",
     AT(format)},
    {OPTION_TIMEOUT, "timeout", 't', "S", "seconds to wait (default 60)", 0},
    {OPTION_SECONDS, "seconds", 'S', "S", "how many seconds to send", 0},
    {OPTION_THRESHOLDS, "thresholds", 'T', NULL, "print the thresholds of detection and diagnosis",
     AT(thresholds)},
    {OPTION_CLUSTER, "cluster", 'C', NULL,
     "print the nodes that the aggregator knows: version, certificate, when heard", AT(cluster)},
    {OPTION_STATE_DIR, "state-dir", 'd', "DIR",
     "directory whose disk space is checked (default: sysomd's)", AT(state_dir)},
};

static void options_help(FILE *to, const struct command *c)
{
	fprintf(to, "usage: sysom %s%s%s%s\n\n%s\n", c->name, c->flags ? " [options]" : "",
		*c->args ? " " : "", c->args, c->summary);
	if (c->detail)
		fprintf(to, "\n%s", c->detail);
	fputs("\noptions:\n", to);
	for (size_t i = 0; i < ARRAY_LEN(defs); i++) {
		char flag[64];

		if (!(c->flags & defs[i].bit))
			continue;
		snprintf(flag, sizeof(flag), "-%c, --%s%s%s", defs[i].letter, defs[i].name,
			 defs[i].metavar ? " " : "", defs[i].metavar ? defs[i].metavar : "");
		fprintf(to, "  %-32s %s\n", flag,
			defs[i].bit == OPTION_JOB && (c->flags & OPTION_ROLE) ? "the job's name"
									      : defs[i].help);
	}
	fprintf(to, "  %-32s %s\n", "-h, --help", "print this");
	if (c->examples)
		fprintf(to, "\nexamples:\n%s", c->examples);
	if (c->args_max < 0) /* another command's status */
		return;
	fputs("\nexit status: 0 done; 1 nothing was found, or a check failed; 2 bad arguments; 3 "
	      "failed\n",
	      to);
}

static int bad(const struct command *c, const char *flag, const char *value, const char *want)
{
	fprintf(stderr, "sysom %s: --%s %s: %s\n", c->name, flag, value, want);
	return -EINVAL;
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

static int parse_seconds(const struct command *c, const char *flag, const char *text, double *out)
{
	double v;

	if (!options_number(text, 0, 86400 * 7, &v) || v <= 0)
		return bad(c, flag, text, "expected a number of seconds");
	*out = v;
	return 0;
}

static int parse_integer(const struct command *c, const char *flag, const char *text, long min,
			 long max, long *out)
{
	char want[64], *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	snprintf(want, sizeof(want), "expected a whole number from %ld to %ld", min, max);
	if (!*text || *end || errno || v < min || v > max)
		return bad(c, flag, text, want);
	*out = v;
	return 0;
}

/* Stores the value of an option that is a number. */
static int store_number(struct options *o, const struct command *c, unsigned bit, const char *arg)
{
	long n = 0;
	int r;

	switch (bit) {
	case OPTION_RANK:
		r = parse_integer(c, "rank", arg, 0, INT32_MAX, &n);
		o->rank = (int)n;
		o->have_rank = !r;
		return r;
	case OPTION_LIMIT:
		r = parse_integer(c, "limit", arg, 1, LIMIT_API_INCIDENTS, &n);
		o->limit = (unsigned)n;
		return r;
	case OPTION_TIMEOUT:
		return parse_seconds(c, "timeout", arg, &o->timeout_s);
	case OPTION_SECONDS:
		return parse_seconds(c, "seconds", arg, &o->seconds);
	}
	return -EINVAL;
}

static int store(struct options *o, const struct command *c, const struct option_def *d,
		 const char *arg)
{
	char *at = (char *)o + d->at;

	if (!d->at)
		return store_number(o, c, d->bit, arg);
	if (d->metavar)
		memcpy(at, &arg, sizeof(arg));
	else
		*(bool *)at = true;
	if (d->bit == OPTION_STATE && strcmp(arg, "open") && strcmp(arg, "closed"))
		return bad(c, "state", arg, "expected open or closed");
	if (d->bit == OPTION_FORMAT && strcmp(arg, "perfetto") && strcmp(arg, "kineto"))
		return bad(c, "format", arg, "expected perfetto or kineto");
	return 0;
}

static void set_defaults(struct options *o)
{
	memset(o, 0, sizeof(*o));
	o->url = getenv("SYSOM_URL");
	if (o->url && !*o->url)
		o->url = NULL;
	o->limit = 20;
	o->timeout_s = 60;
}

int options_parse(struct options *o, const struct command *c, int argc, char **argv)
{
	struct option longs[ARRAY_LEN(defs) + 2];
	/* '+': the arguments are another command, so options end at its name */
	char shorts[2 * ARRAY_LEN(defs) + 8] = "";
	size_t n = 0, s = 0;
	int opt, r;

	set_defaults(o);
	if (c->args_max < 0)
		shorts[s++] = '+';
	shorts[s++] = ':';
	for (size_t i = 0; i < ARRAY_LEN(defs); i++) {
		if (!(c->flags & defs[i].bit))
			continue;
		longs[n++] =
		    (struct option){defs[i].name, defs[i].metavar ? 1 : 0, NULL, defs[i].letter};
		shorts[s++] = defs[i].letter;
		if (defs[i].metavar)
			shorts[s++] = ':';
	}
	longs[n++] = (struct option){"help", 0, NULL, 'h'};
	longs[n] = (struct option){0};
	shorts[s++] = 'h';
	shorts[s] = '\0';
	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (opt == 'h') {
			options_help(stdout, c);
			return 1;
		}
		if (opt == '?' || opt == ':') {
			fprintf(stderr, "sysom %s: %s %s; try sysom %s --help\n", c->name,
				opt == ':' ? "missing value after" : "unknown option",
				argv[optind - 1], c->name);
			return -EINVAL;
		}
		for (size_t i = 0; i < ARRAY_LEN(defs); i++) {
			if (defs[i].letter != opt)
				continue;
			r = store(o, c, &defs[i], optarg);
			if (r)
				return r;
		}
	}
	o->argc = argc - optind;
	o->argv = argv + optind;
	if (o->argc < c->args_min || (c->args_max >= 0 && o->argc > c->args_max)) {
		if (o->argc < c->args_min)
			fprintf(stderr, "sysom %s: %s is missing; try sysom %s --help\n", c->name,
				c->args, c->name);
		else
			fprintf(stderr,
				"sysom %s: %s is one argument too many; try sysom %s --help\n",
				c->name, o->argv[c->args_max], c->name);
		return -EINVAL;
	}
	return 0;
}

int options_each(int argc, char **argv, const struct option *longs,
		 int (*take)(void *arg, int option, const char *value), void *arg)
{
	int option, rc = 0;

	optind = 0; /* getopt may have been used before */
	while (!rc && (option = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		rc = option == 'h' ? OPTIONS_HELP : take(arg, option, optarg);
	return rc;
}

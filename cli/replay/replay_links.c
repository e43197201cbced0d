/* SPDX-License-Identifier: Apache-2.0
 * sysom replay links: latency and rate of collectives or links, one line per regime of sizes, from
 * measured times. Rows of several files with the same key are one group. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/link/link_fit.h"
#include "analysis/robust/regress.h"
#include "base/check.h"
#include "base/room.h"
#include "base/text/json_text.h"
#include "cli/options.h"
#include "cli/replay/replay.h"
#include "cli/text/intern.h"
#include "cli/timings/replay_input.h"
#include "cli/timings/replay_unit.h"
#include "render/term.h"

#define KEY_COLUMNS_MAX 8
#define KEY_BYTES_MAX	1024
#define GROUPS_MAX	65536	   /* 24 bytes each, and their rows */
#define ROWS_MAX	(1u << 26) /* 16 bytes each */
#define SIZE_MAX_BYTES	0x1p53	   /* larger ones are not exact in a CSV file */
#define FOLDS		5	   /* each row is predicted from the other four fifths */
#define KEY_WIDTH	36
#define GROWS		0.01 /* part of the latency that the largest size must add, to show a rate */

struct row {
	double bytes, ns;
};

struct group {
	struct row *row;
	size_t rows, room;
};

struct links {
	struct link_config config;
	const struct replay_unit *unit;
	const char *key_names, *bytes_name, *time_name, *path;
	bool json;
	uint32_t columns, key[KEY_COLUMNS_MAX], key_count, bytes, time;
	struct intern keys;
	struct group *group; /* [keys.count] */
	size_t group_room;
	struct link_scratch *scratch;
	struct link_samples *samples, *others; /* of a group; without one fold */
	uint64_t rows, not_positive, out_of_range, blank;
	double off, held_off, plain_off; /* sums over all rows */
};

/* What is printed of a group. */
struct result {
	struct link_fit fit;
	double mape, held_out, plain;
};

static const char usage_text[] =
    "usage: sysom replay links F.csv... [options]\n\n"
    "Fits time = latency + bytes / rate to measured transfers or collectives, for each group of\n"
    "rows with the same key. A regime is a range of sizes with one line; the library may use\n"
    "another algorithm beyond it. Regimes are found from the data. Files have a header row and\n"
    "may be gzipped or zstd-packed; - is standard input.\n\n"
    "  --key COL[,COL]     columns that all rows of a group share (op,dtype,num_gpus)\n"
    "  --bytes COL         the size (message_bytes)\n"
    "  --latency COL       the time (latency_us)\n"
    "  --latency-unit UNIT ns, us (default), ms or s\n"
    "  --mode MODE         which time of each size counts: median (default), avg or min\n"
    "  --regimes N         lines per group, 1 to 8 (8)\n"
    "  --json              one JSON object per line\n\n"
    "mape: mean of |predicted - time| / time over all rows. held out: the same for rows that the\n"
    "fit has not seen (five fits, each without a fifth of the rows). plain: the same for one\n"
    "least-squares line.\n\n"
    "example:\n"
    "  sysom replay links nccl.csv --json | jq 'select(.mape > 0.1)'\n\n"
    "exit status: 0 read to the end, 2 bad arguments or malformed input\n";

static int usage_error(const char *what, const char *which)
{
	fprintf(stderr, "sysom replay links: %s%s%s; try --help\n", what, which ? ": " : "",
		which ? term_safe(which, 80) : "");
	return EXIT_USAGE;
}

static int option_of(void *links, int option, const char *arg)
{
	struct links *l = links;
	static const char *const modes[] = {"median", "avg", "min"};
	double v;

	switch (option) {
	case 'j':
		l->json = true;
		return 0;
	case 'k':
		l->key_names = arg;
		return 0;
	case 'b':
		l->bytes_name = arg;
		return 0;
	case 'l':
		l->time_name = arg;
		return 0;
	case 'u':
		l->unit = replay_unit_of(arg);
		return l->unit ? 0 : usage_error("unknown unit", arg);
	case 'm':
		for (uint32_t i = 0; i < ARRAY_LEN(modes); i++)
			if (!strcmp(arg, modes[i])) {
				l->config.centre = (enum link_centre)i;
				return 0;
			}
		return usage_error("unknown mode", arg);
	case 'r':
		if (!options_number(arg, 1, LINK_REGIMES_MAX, &v) || v != floor(v))
			return usage_error("not a number of regimes, 1 to 8", arg);
		l->config.regimes_max = (uint32_t)v;
		return 0;
	}
	return EXIT_USAGE; /* getopt printed the reason */
}

static int parse(struct links *l, int argc, char **argv)
{
	static const struct option options[] = {
	    {"key", required_argument, NULL, 'k'},
	    {"bytes", required_argument, NULL, 'b'},
	    {"latency", required_argument, NULL, 'l'},
	    {"latency-unit", required_argument, NULL, 'u'},
	    {"mode", required_argument, NULL, 'm'},
	    {"regimes", required_argument, NULL, 'r'},
	    {"json", no_argument, NULL, 'j'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	int rc = options_each(argc, argv, options, option_of, l);

	if (rc == OPTIONS_HELP)
		fputs(usage_text, stdout);
	return rc || optind < argc ? rc : usage_error("no file is named", NULL);
}

static int bad_row(const struct links *l, const struct replay_csv *c, const char *what,
		   const char *which)
{
	return replay_input_bad(l->path, c, what, which);
}

/* ---- reading ---- */

static int find_columns(const struct links *l, const struct replay_csv *c,
			const struct trace_field *f, const char *names, uint32_t *out,
			uint32_t most)
{
	int n = replay_input_columns(l->path, c, f, l->columns, names, out, most);

	if (n == -E2BIG)
		usage_error("too many columns named", names);
	return n;
}

static int read_header(struct links *l, struct replay_csv *c)
{
	struct trace_field *f;
	int n = replay_csv_next(c, &f);

	if (n <= 0)
		return bad_row(l, c, n ? replay_csv_error(c) : "no header row", NULL);
	l->columns = (uint32_t)n;
	n = find_columns(l, c, f, l->key_names, l->key, KEY_COLUMNS_MAX);
	if (n < 0 || find_columns(l, c, f, l->bytes_name, &l->bytes, 1) < 0 ||
	    find_columns(l, c, f, l->time_name, &l->time, 1) < 0)
		return EXIT_USAGE;
	l->key_count = (uint32_t)n;
	return 0;
}

static int read_row(struct links *l, struct replay_csv *c, const struct trace_field *f)
{
	char key[KEY_BYTES_MAX];
	int n = replay_csv_join(f, l->key, l->key_count, key, sizeof(key));
	struct row r;
	struct group *g;
	int64_t at;

	if (!replay_csv_number(&f[l->bytes], &r.bytes) || r.bytes < 0 ||
	    r.bytes != floor(r.bytes) || r.bytes > SIZE_MAX_BYTES)
		return bad_row(l, c, "not a size in bytes", f[l->bytes].text);
	if (!replay_csv_number(&f[l->time], &r.ns))
		return bad_row(l, c, "latency is not a number", f[l->time].text);
	if (r.ns < 0)
		return bad_row(l, c, "a negative latency", f[l->time].text);
	if (n < 0)
		return bad_row(l, c, "the key is too long", NULL);
	r.ns *= l->unit->ns;
	l->rows++;
	if (r.bytes < 1 || r.ns < 1) {
		l->not_positive++;
		return 0;
	}
	if (r.bytes >= 0x1p42 || r.ns >= 0x1p42) {
		l->out_of_range++;
		return 0;
	}
	at = intern_bytes(&l->keys, key, (size_t)n, GROUPS_MAX);
	if (at == -E2BIG || l->rows > ROWS_MAX)
		return bad_row(l, c, at < 0 ? "too many groups" : "too many rows", NULL);
	if (at < 0 || ROOM_FOR_ZERO(l->group, l->group_room, (size_t)at + 1))
		return bad_row(l, c, "out of memory", NULL);
	g = &l->group[at];
	if (ROOM_FOR(g->row, g->room, g->rows + 1))
		return bad_row(l, c, "out of memory", NULL);
	g->row[g->rows++] = r;
	return 0;
}

static int read_file(struct links *l, const char *path)
{
	struct replay_csv *c;
	struct trace_field *f;
	int err = replay_csv_open(&c, path), rc, n = 0;

	l->path = path;
	if (err) {
		fprintf(stderr, "%s: %s\n", path, strerror(-err));
		return EXIT_USAGE;
	}
	rc = read_header(l, c);
	while (!rc && (n = replay_csv_next(c, &f)) > 0)
		rc = (uint32_t)n == l->columns
			 ? read_row(l, c, f)
			 : bad_row(l, c, "the number of fields differs from the header", NULL);
	if (!rc && n < 0)
		rc = bad_row(l, c, replay_csv_error(c), NULL);
	l->blank += replay_csv_blank(c);
	replay_csv_close(c);
	return rc;
}

/* ---- fitting ---- */

static double off(double expected, const struct row *r)
{
	return fabs(expected - r->ns) / r->ns;
}

/* Of the rows: those of one fold, those of all others, or (fold FOLDS) all. */
static void take(struct link_samples *s, const struct group *g, uint32_t without)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < g->rows; i++)
		if (i % FOLDS != without)
			link_samples_add(s, (uint64_t)g->row[i].bytes,
					 (uint64_t)llround(g->row[i].ns));
}

static double held_out(const struct links *l, const struct group *g)
{
	double sum = 0;

	if (g->rows < FOLDS)
		return NAN;
	for (uint32_t fold = 0; fold < FOLDS; fold++) {
		struct link_fit f;

		take(l->others, g, fold);
		link_fit_run(&f, l->others, &l->config, l->scratch);
		for (size_t i = fold; i < g->rows; i += FOLDS)
			sum += off(link_fit_predict(&f, g->row[i].bytes), &g->row[i]);
	}
	return sum;
}

static double plain(const struct group *g)
{
	struct regress_sums s = {0};
	double a = 0, slope = 0, sum = 0;

	for (size_t i = 0; i < g->rows; i++)
		regress_add(&s, g->row[i].bytes, g->row[i].ns);
	if (!regress_line(&s, &a, &slope))
		a = s.y / s.n;
	for (size_t i = 0; i < g->rows; i++)
		sum += off(a + slope * g->row[i].bytes, &g->row[i]);
	return sum;
}

static void fit(struct links *l, const struct group *g, struct result *out)
{
	double sum = 0;

	take(l->samples, g, FOLDS);
	link_fit_run(&out->fit, l->samples, &l->config, l->scratch);
	for (size_t i = 0; i < g->rows; i++)
		sum += off(link_fit_predict(&out->fit, g->row[i].bytes), &g->row[i]);
	out->mape = sum / (double)g->rows;
	out->held_out = held_out(l, g);
	out->plain = plain(g);
	l->off += sum;
	l->held_off += isnan(out->held_out) ? 0 : out->held_out;
	l->plain_off += out->plain;
	out->held_out /= (double)g->rows;
	out->plain /= (double)g->rows;
}

/* ---- printing ---- */

static void put_share(const char *before, double v)
{
	if (isfinite(v))
		printf("%s%.6g", before, v);
	else
		printf("%snull", before);
}

static void print_json(const struct links *l, uint32_t at, const struct result *r)
{
	json_text_print(stdout, "{\"type\":\"link\",\"key\":", l->keys.text[at]);
	printf(",\"rows\":%zu,\"sizes\":%" PRIu32 ",\"regimes\":[", l->group[at].rows,
	       r->fit.sizes);
	for (uint32_t i = 0; i < r->fit.regimes; i++) {
		const struct link_regime *g = &r->fit.regime[i];

		printf("%s{\"max_bytes\":%" PRIu64 ",\"latency_us\":%.6g", i ? "," : "",
		       g->max_bytes, g->latency_ns / 1e3);
		put_share(",\"rate_gb_s\":", 1 / g->ns_per_byte);
		printf(",\"sizes\":%" PRIu32 "}", g->sizes);
	}
	put_share("],\"mape\":", r->mape);
	put_share(",\"held_out_mape\":", r->held_out);
	put_share(",\"plain_mape\":", r->plain);
	put_share(",\"r2\":", r->fit.r2);
	printf(",\"refused\":%" PRIu64 "}\n", l->samples->refused);
}

static const char *share(double v)
{
	return isfinite(v) ? term_percent(v) : "-";
}

static void print_text(const struct links *l, uint32_t at, const struct result *r)
{
	printf("%-*s %8s %8s %8s %8s %8.4f\n", KEY_WIDTH, term_safe(l->keys.text[at], KEY_WIDTH),
	       term_count((double)l->group[at].rows), share(r->mape), share(r->held_out),
	       share(r->plain), r->fit.r2);
	for (uint32_t i = 0; i < r->fit.regimes; i++) {
		const struct link_regime *g = &r->fit.regime[i];

		printf("  up to %10s  latency %10s", term_bytes((double)g->max_bytes),
		       term_ms(g->latency_ns / 1e6));
		if (g->ns_per_byte * (double)g->max_bytes > GROWS * g->latency_ns)
			printf("  rate %8.3g GB/s\n", 1 / g->ns_per_byte);
		else
			puts("  time does not grow with the size");
	}
}

static void print_summary(const struct links *l)
{
	uint64_t used = l->rows - l->not_positive - l->out_of_range;
	double n = (double)used;

	if (l->json) {
		printf("{\"type\":\"summary\",\"kind\":\"links\",\"rows\":%" PRIu64
		       ",\"skipped\":{\"blank_line\":%" PRIu64 ",\"not_positive\":%" PRIu64
		       ",\"out_of_range\":%" PRIu64 "},\"groups\":%" PRIu32,
		       l->rows, l->blank, l->not_positive, l->out_of_range, l->keys.count);
		put_share(",\"mape\":", l->off / n);
		put_share(",\"held_out_mape\":", l->held_off / n);
		put_share(",\"plain_mape\":", l->plain_off / n);
		puts("}");
		return;
	}
	printf("\n%" PRIu32 " groups, %" PRIu64 " rows: mape %s, held out %s, plain least squares "
	       "%s\nskipped: %" PRIu64 " blank lines, %" PRIu64 " without size or time, %" PRIu64
	       " out of range\n",
	       l->keys.count, used, share(l->off / n), share(l->held_off / n),
	       share(l->plain_off / n), l->blank, l->not_positive, l->out_of_range);
}

static int run(struct links *l)
{
	struct result r;

	l->scratch = malloc(sizeof(*l->scratch));
	l->samples = malloc(sizeof(*l->samples));
	l->others = malloc(sizeof(*l->others));
	if (!l->scratch || !l->samples || !l->others) {
		fprintf(stderr, "sysom replay links: out of memory\n");
		return EXIT_FAILED;
	}
	if (!l->json)
		printf("%s%-*s %8s %8s %8s %8s %8s%s\n", term_style(TERM_BOLD), KEY_WIDTH, "key",
		       "rows", "mape", "held out", "plain", "R2", term_style(TERM_PLAIN));
	for (uint32_t i = 0; i < l->keys.count; i++) {
		fit(l, &l->group[i], &r);
		if (l->json)
			print_json(l, i, &r);
		else
			print_text(l, i, &r);
	}
	print_summary(l);
	return EXIT_OK;
}

int replay_links_main(int argc, char **argv)
{
	struct links l = {.key_names = "op,dtype,num_gpus",
			  .bytes_name = "message_bytes",
			  .time_name = "latency_us",
			  .unit = replay_unit_of("us")};
	int rc;

	link_config_default(&l.config);
	rc = parse(&l, argc, argv);
	for (int i = optind; i < argc && !rc; i++)
		rc = read_file(&l, argv[i]);
	if (!rc)
		rc = run(&l);
	for (uint32_t i = 0; i < l.keys.count && i < l.group_room; i++)
		free(l.group[i].row);
	free(l.group);
	free(l.scratch);
	free(l.samples);
	free(l.others);
	intern_fini(&l.keys);
	return rc == OPTIONS_HELP ? EXIT_OK : rc;
}

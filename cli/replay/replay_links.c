/* SPDX-License-Identifier: Apache-2.0
 * sysom replay links: latency and rate of collectives or links, one line per regime of sizes, from
 * measured times. Rows of several files with the same key are one group. */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/link/link_fit.h"
#include "analysis/robust/regress.h"
#include "base/room.h"
#include "base/text/json_text.h"
#include "cli/replay/replay.h"
#include "cli/timings/replay_input.h"
#include "cli/timings/replay_unit.h"
#include "render/term.h"

#define GROUPS_MAX     65536	  /* 24 bytes each, and their rows */
#define ROWS_MAX       (1u << 26) /* 16 bytes each */
#define SIZE_MAX_BYTES 0x1p53	  /* larger ones are not exact in a CSV file */
#define FOLDS	       5	  /* each row is predicted from the other four fifths */
#define ALL_ROWS       "all rows" /* the group if no column divides them */
#define KEY_WIDTH      72	  /* a longer key moves the figures of its row */
/* a rate is shown only if the largest size adds more than this share of the latency */
#define GROWS 0.01

struct row {
	double bytes, ns;
};

struct group {
	struct row *row;
	size_t rows, room;
};

struct links {
	struct link_config config;
	const char *unit, *key_names, *bytes_name, *time_name;
	bool json;
	uint32_t bytes, time;
	struct replay_keys keys;
	struct group *group; /* [keys.texts.count] */
	size_t group_room;
	struct link_scratch *scratch;
	struct link_samples *samples, *others; /* of a group; without one fold */
	struct replay_input in;
	uint64_t rows, not_positive, out_of_range;
	double off, held_off, plain_off; /* sums over all rows */
};

/* What is printed of a group. */
struct result {
	struct link_fit fit;
	double mape, held_out, plain;
};

#define AT(field) offsetof(struct links, field)

static const struct option_row rows[] = {
    {"key", 0, "COL[,COL]",
     "columns that all rows of a group share (op,dtype,num_gpus); '': all rows are one group",
     OPTION_TEXT, .at = AT(key_names)},
    {"bytes", 0, "COL", "the size (message_bytes)", OPTION_TEXT, .at = AT(bytes_name)},
    {"latency", 0, "COL", "the time (latency_us)", OPTION_TEXT, .at = AT(time_name)},
    {"latency-unit", 0, "ns|us|ms|s", "its unit (default us)", OPTION_TEXT, .at = AT(unit)},
    {"mode", 0, "median|avg|min", "which time of each size counts (default median)", OPTION_WORD,
     .at = AT(config.centre)},
    {"regimes", 0, "N", "the most lines per group, 1 to 8 (8)", OPTION_COUNT,
     .at = AT(config.regimes_max), .least = 1, .most = LINK_REGIMES_MAX},
    {"json", 'j', NULL, "one JSON object per line", OPTION_SWITCH, .at = AT(json)},
    {0},
};

/* ---- reading ---- */

static int read_header(struct links *l, const struct trace_field *f)
{
	int n = replay_input_columns(&l->in, f, *l->key_names ? l->key_names : NULL, l->keys.column,
				     REPLAY_INPUT_COLUMNS_MAX);

	l->keys.count = n < 0 ? 0 : (uint32_t)n;
	return n < 0 || replay_input_columns(&l->in, f, l->bytes_name, &l->bytes, 1) < 0 ||
		       replay_input_columns(&l->in, f, l->time_name, &l->time, 1) < 0
		   ? EXIT_USAGE
		   : 0;
}

static int read_row(void *links, const struct replay_input *in, struct trace_field *f)
{
	struct links *l = links;
	struct row r;
	struct group *g;
	int64_t at;

	if (!in->row)
		return read_header(l, f);
	if (!trace_reader_number(&f[l->bytes], &r.bytes) || r.bytes < 0 ||
	    r.bytes != floor(r.bytes) || r.bytes > SIZE_MAX_BYTES)
		return replay_input_bad(in, "not a size in bytes", f[l->bytes].text);
	if (!trace_reader_number(&f[l->time], &r.ns))
		return replay_input_bad(in, "latency is not a number", f[l->time].text);
	if (r.ns < 0)
		return replay_input_bad(in, "a negative latency", f[l->time].text);
	r.ns *= replay_unit_of(l->unit)->ns;
	l->rows++;
	if (r.bytes < 1 || r.ns < 1) {
		l->not_positive++;
		return 0;
	}
	if (r.bytes >= 0x1p42 || r.ns >= 0x1p42) {
		l->out_of_range++;
		return 0;
	}
	at = replay_input_key(in, f, &l->keys, GROUPS_MAX);
	if (at < 0)
		return EXIT_USAGE;
	if (l->rows > ROWS_MAX)
		return replay_input_bad(in, "too many rows", NULL);
	if (ROOM_FOR_ZERO(l->group, l->group_room, (size_t)at + 1))
		return replay_input_bad(in, "out of memory", NULL);
	g = &l->group[at];
	if (ROOM_FOR(g->row, g->room, g->rows + 1))
		return replay_input_bad(in, "out of memory", NULL);
	g->row[g->rows++] = r;
	return 0;
}

/* ---- fitting ---- */

static double off(double expected, const struct row *r)
{
	return fabs(expected - r->ns) / r->ns;
}

/* Takes the rows outside one fold; FOLDS: all rows. */
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
	json_text_print(stdout, "{\"type\":\"link\",\"key\":", l->keys.texts.text[at]);
	printf(",\"rows\":%zu,\"sizes\":%" PRIu32 ",\"regimes\":[", l->group[at].rows,
	       r->fit.sizes);
	for (uint32_t i = 0; i < r->fit.regimes; i++) {
		const struct link_regime *g = &r->fit.regime[i];

		printf("%s{\"max_bytes\":%" PRIu64
		       ",\"begin_bytes\":%.17g,\"end_bytes\":%.17g,\"latency_us\":%.6g",
		       i ? "," : "", g->max_bytes, g->begin_bytes, g->end_bytes,
		       g->latency_ns / 1e3);
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

/* The longest key, up to the bound. */
static int key_width(const struct links *l)
{
	size_t width = strlen(*l->key_names ? l->key_names : ALL_ROWS), bytes;

	for (uint32_t i = 0; i < l->keys.texts.count; i++) {
		bytes = strlen(l->keys.texts.text[i]);
		width = bytes > width ? bytes : width;
	}
	return width < KEY_WIDTH ? (int)width : KEY_WIDTH;
}

static void print_text(const struct links *l, uint32_t at, const struct result *r, int width)
{
	printf("%-*s %8s %8s %8s %8s %8.4f\n", width,
	       *l->key_names ? term_safe(l->keys.texts.text[at], TERM_COLUMNS_MAX) : ALL_ROWS,
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
		       l->rows, l->in.blank, l->not_positive, l->out_of_range, l->keys.texts.count);
		put_share(",\"mape\":", l->off / n);
		put_share(",\"held_out_mape\":", l->held_off / n);
		put_share(",\"plain_mape\":", l->plain_off / n);
		puts("}");
		return;
	}
	printf("\n%" PRIu32 " group%s, %" PRIu64 " rows: mape %s, held out %s, plain least squares "
	       "%s\nskipped: %" PRIu64 " blank lines, %" PRIu64 " without size or time, %" PRIu64
	       " out of range\n",
	       l->keys.texts.count, l->keys.texts.count == 1 ? "" : "s", used, share(l->off / n),
	       share(l->held_off / n), share(l->plain_off / n), l->in.blank, l->not_positive,
	       l->out_of_range);
}

static int run(struct links *l)
{
	struct result r;
	int width = key_width(l);

	l->scratch = malloc(sizeof(*l->scratch));
	l->samples = malloc(sizeof(*l->samples));
	l->others = malloc(sizeof(*l->others));
	if (!l->scratch || !l->samples || !l->others) {
		fprintf(stderr, "sysom replay links: out of memory\n");
		return EXIT_FAILED;
	}
	if (!l->json)
		printf("%s%-*s %8s %8s %8s %8s %8s%s\n", term_style(TERM_BOLD), width,
		       term_safe(l->key_names, TERM_COLUMNS_MAX), "rows", "mape", "held out",
		       "plain", "R2", term_style(TERM_PLAIN));
	for (uint32_t i = 0; i < l->keys.texts.count; i++) {
		fit(l, &l->group[i], &r);
		if (l->json)
			print_json(l, i, &r);
		else
			print_text(l, i, &r, width);
	}
	print_summary(l);
	return EXIT_OK;
}

static int replay_links_main(int argc, char **argv)
{
	struct links l = {.key_names = "op,dtype,num_gpus",
			  .bytes_name = "message_bytes",
			  .time_name = "latency_us",
			  .unit = "us"};
	int rc;

	link_config_default(&l.config);
	rc = options_read(&replay_links, &l, argc, argv);
	if (rc != OPTIONS_GO_ON)
		return rc;
	rc = 0;
	for (int i = optind; i < argc && !rc; i++)
		rc = replay_input_each(&l.in, argv[i], read_row, &l);
	if (!rc)
		rc = run(&l);
	for (uint32_t i = 0; i < l.group_room; i++)
		free(l.group[i].row);
	free(l.group);
	free(l.scratch);
	free(l.samples);
	free(l.others);
	intern_fini(&l.keys.texts);
	return rc;
}

const struct command replay_links = {
    .name = "replay links",
    .raw = replay_links_main,
    .rows = rows,
    .args = "F.csv...",
    .args_min = 1,
    .args_max = OPTIONS_ANY,
    .summary = "times of transfers by size: latency, rate and regimes, and their error",
    .status = REPLAY_STATUS};

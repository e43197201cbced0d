/* SPDX-License-Identifier: Apache-2.0
 * sysom replay steps: judges one step per CSV row with the roofline of live steps. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/expect/roofline.h"
#include "base/text/json_text.h"
#include "base/room.h"
#include "cli/options.h"
#include "cli/replay/replay.h"
#include "cli/text/intern.h"
#include "cli/text/pages.h"
#include "render/term.h"
#include "cli/timings/replay_input.h"
#include "cli/timings/replay_unit.h"

#define KEY_COLUMNS_MAX 8
#define KEY_BYTES_MAX	1024
#define MODELS_MAX	4096 /* 60 KB each when used; the least recently used is evicted */
#define KEYS_MAX	(1u << 20)
#define PLOT_POINTS	4096
#define PLOT_WIDTH	72
#define PLOT_HEIGHT	18
#define POOR_FIT	"poor fit" /* why a model refuses */

enum skip { SKIP_NOT_POSITIVE, SKIP_COUNT };

struct key {
	const char *text;
	char *json; /* escaped, with its quotes */
	uint32_t flagged;
	uint64_t rows, skipped;
};

struct point {
	uint32_t key;
	float x, y;
	bool flagged;
};

struct replay {
	const char *path;
	struct roofline_config config;
	bool json;
	double unit_ns;
	uint32_t latency, work[ROOFLINE_WORK_MAX], work_count, keys_of[KEY_COLUMNS_MAX], key_count;
	uint32_t columns;
	const char *latency_name, *work_names, *key_names;
	void *memory;
	struct roofline_set *set;
	struct intern keys;
	struct key *key; /* [keys.count] */
	size_t key_room;
	uint32_t last;
	uint64_t rows, flagged, out, novel, skipped[SKIP_COUNT];
	struct point *point; /* for the plot: an even sample of the steps */
	uint32_t points, point_stride;
};

static void print_usage(FILE *to)
{
	fputs(
	    "usage: sysom replay steps F.csv --latency COL [options]\n\n"
	    "Learns how long a step takes for its work, and flags slow steps. The CSV file has "
	    "one\n"
	    "step per row, in time order.\n"
	    "F.csv has a header row and may be gzipped or zstd-packed; - is standard input.\n\n"
	    "  --latency COL         the step's time\n"
	    "  --latency-unit UNIT   ns (default), us, ms or s\n"
	    "  --work COL[,COL]      what the time depends on, up to 4 columns\n"
	    "  --key COL[,COL]       a model per distinct value, up to 8 columns\n"
	    "  --mode robust|p99     median curve with calibrated tail, or the P99 line\n"
	    "  --learn-min N         steps before a model may judge (20)\n"
	    "  --learn-max N         steps after which the model no longer changes (2000)\n"
	    "  --seed N              seed of mode p99's random choices (1)\n"
	    "  --json                one JSON object per line\n\n"
	    "example:\n"
	    "  sysom replay steps s.csv --latency ms --latency-unit ms --work tokens --key gpu\n\n"
	    "exit status: 0 read to the end, 2 bad arguments or malformed input\n",
	    to);
}

static int usage(const char *what, const char *which)
{
	fprintf(stderr, "sysom replay steps: %s%s%s; try --help\n", what, which ? ": " : "",
		which ? term_safe(which, 80) : "");
	return 2;
}

static bool parse_count(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	return !errno && end != text && !*end && *text != '-' && *out <= max;
}

static int parse_option(void *replay, int option, const char *arg)
{
	struct replay *r = replay;
	const struct replay_unit *unit;
	uint64_t n;
	int mode;

	switch (option) {
	case 'l':
		r->latency_name = arg;
		return 0;
	case 'w':
		r->work_names = arg;
		return 0;
	case 'k':
		r->key_names = arg;
		return 0;
	case 'j':
		r->json = true;
		return 0;
	case 'm':
		mode = roofline_mode_parse(arg);
		if (mode < 0)
			return usage("unknown mode", arg);
		r->config.mode = (enum roofline_mode)mode;
		return 0;
	case 'u':
		unit = replay_unit_of(arg);
		if (!unit)
			return usage("unknown unit", arg);
		r->unit_ns = unit->ns;
		return 0;
	case 's':
		return parse_count(arg, UINT64_MAX, &r->config.seed) ? 0 : usage("not a seed", arg);
	case 'a':
	case 'b':
		if (!parse_count(arg, 1000000, &n) || !n)
			return usage("not a number of steps", arg);
		*(option == 'a' ? &r->config.learn_min : &r->config.learn_max) = (uint32_t)n;
		return 0;
	}
	return 2; /* getopt printed the reason */
}

static int parse_arguments(struct replay *r, int argc, char **argv)
{
	static const struct option options[] = {
	    {"latency", required_argument, NULL, 'l'},
	    {"work", required_argument, NULL, 'w'},
	    {"key", required_argument, NULL, 'k'},
	    {"mode", required_argument, NULL, 'm'},
	    {"latency-unit", required_argument, NULL, 'u'},
	    {"seed", required_argument, NULL, 's'},
	    {"learn-min", required_argument, NULL, 'a'},
	    {"learn-max", required_argument, NULL, 'b'},
	    {"json", no_argument, NULL, 'j'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	int rc = options_each(argc, argv, options, parse_option, r);

	if (rc == OPTIONS_HELP)
		print_usage(stdout);
	if (rc)
		return rc;
	if (optind + 1 != argc)
		return usage("one file is read", optind < argc ? argv[optind + 1] : NULL);
	if (!r->latency_name)
		return usage("--latency is missing", NULL);
	r->path = argv[optind];
	return 0;
}

static int bad_row(const struct replay *r, const struct replay_csv *c, const char *what,
		   const char *which)
{
	return replay_input_bad(r->path, c, what, which);
}

/* Returns how many columns have these names; -1 after a message. */
static int find_columns(const struct replay *r, const struct replay_csv *c,
			const struct trace_field *f, const char *names, uint32_t *out, uint32_t max)
{
	int n = names ? replay_input_columns(r->path, c, f, r->columns, names, out, max) : 0;

	if (n == -E2BIG)
		usage("too many columns named", names);
	return n < 0 ? -1 : n;
}

static int read_header(struct replay *r, struct replay_csv *c)
{
	struct trace_field *f;
	int n = replay_csv_next(c, &f), latencies, works, keys;

	if (n < 0)
		return bad_row(r, c, replay_csv_error(c), NULL);
	if (!n)
		return bad_row(r, c, "no header row", NULL);
	r->columns = (uint32_t)n;
	latencies = find_columns(r, c, f, r->latency_name, &r->latency, 1);
	works =
	    latencies < 0 ? -1 : find_columns(r, c, f, r->work_names, r->work, ROOFLINE_WORK_MAX);
	keys = works < 0 ? -1 : find_columns(r, c, f, r->key_names, r->keys_of, KEY_COLUMNS_MAX);
	if (keys < 0)
		return 2;
	r->work_count = (uint32_t)works;
	r->key_count = (uint32_t)keys;
	return 0;
}

/* A JSON string. Owned; NULL without memory. */
static char *json_of(const char *text)
{
	struct buf b;

	buf_init(&b, SIZE_MAX);
	json_text_append(&b, "", text);
	buf_append(&b, "", 1);
	if (b.failed)
		buf_fini(&b);
	return (char *)b.data;
}

/* The index of this key's text; -errno. */
static int64_t key_find(struct replay *r, const char *text, size_t bytes)
{
	uint32_t before = r->keys.count;
	int64_t at;

	if (before && !strcmp(r->keys.text[r->last], text))
		return r->last;
	if (ROOM_FOR(r->key, r->key_room, before + 1ull))
		return -ENOMEM;
	at = intern_bytes(&r->keys, text, bytes, KEYS_MAX);
	if (at == before) {
		r->key[at] = (struct key){.text = r->keys.text[at], .json = json_of(text)};
		if (!r->key[at].json)
			return -ENOMEM;
	}
	r->last = at < 0 ? r->last : (uint32_t)at;
	return at;
}

/* The key's columns joined by commas. */
static int64_t row_key(struct replay *r, const struct trace_field *f)
{
	char text[KEY_BYTES_MAX];
	int n = replay_csv_join(f, r->keys_of, r->key_count, text, sizeof(text));

	return n < 0 ? n : key_find(r, text, (size_t)n);
}

static char *put_count(char *p, uint64_t v)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*p++ = digits[--n];
	return p;
}

/* Fixed decimals; very large numbers with printf. At most 32 bytes. */
static char *put_number(char *p, double v, unsigned decimals)
{
	static const double ten[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6};
	uint64_t scale = (uint64_t)ten[decimals], n;

	if (!(fabs(v) < 1e12))
		return p + sprintf(p, "%.17g", isfinite(v) ? v : 0.0);
	n = (uint64_t)(fabs(v) * ten[decimals] + 0.5);
	if (v < 0 && n)
		*p++ = '-';
	p = put_count(p, n / scale);
	if (!decimals)
		return p;
	*p++ = '.';
	for (uint64_t rest = n % scale; decimals--; rest %= scale) {
		scale /= 10;
		*p++ = (char)('0' + rest / scale);
	}
	return p;
}

static void print_step(const struct replay *r, const struct key *k,
		       const struct roofline_verdict *v, double latency_ns, bool skipped)
{
	char line[512], *p;

	p = stpcpy(line, "{\"type\":\"step\",\"row\":");
	p = put_count(p, r->rows);
	p = stpcpy(p, ",\"key\":");
	fwrite_unlocked(line, 1, (size_t)(p - line), stdout);
	fputs_unlocked(k->json, stdout);
	p = stpcpy(line, ",\"state\":\"");
	p = stpcpy(p, roofline_state_name(v->state));
	p = stpcpy(p, "\",\"expected_ns\":");
	p = put_number(p, v->expected_ns, 1);
	p = stpcpy(p, ",\"latency_ns\":");
	p = put_number(p, latency_ns, 1);
	p = stpcpy(p, ",\"excess\":");
	p = put_number(p, v->excess, 6);
	p = stpcpy(p, v->out ? ",\"out\":true" : ",\"out\":false");
	if (v->novel)
		p = stpcpy(p, ",\"novel\":true");
	if (v->drift)
		p = stpcpy(p, ",\"drift\":true");
	if (skipped)
		p = stpcpy(p, ",\"skipped\":\"latency not positive\"");
	p = stpcpy(p, v->flagged ? ",\"flagged\":true}\n" : ",\"flagged\":false}\n");
	fwrite_unlocked(line, 1, (size_t)(p - line), stdout);
}

/* An even sample: when it is full, every other point is dropped and the stride doubles. */
static void plot_keep(struct replay *r, uint32_t key, double x, double y, bool flagged)
{
	if (!flagged && r->rows % r->point_stride)
		return;
	if (r->points == PLOT_POINTS) {
		for (uint32_t i = 0; i < PLOT_POINTS / 2; i++)
			r->point[i] = r->point[2 * i];
		r->points = PLOT_POINTS / 2;
		r->point_stride *= 2;
	}
	r->point[r->points++] = (struct point){key, (float)x, (float)y, flagged};
}

static int read_row(struct replay *r, struct replay_csv *c, const struct trace_field *f)
{
	double latency, work[ROOFLINE_WORK_MAX] = {0};
	struct roofline_verdict v;
	int64_t key;
	bool skip;

	if (!replay_csv_number(&f[r->latency], &latency))
		return bad_row(r, c, "latency is not a number", f[r->latency].text);
	if (latency < 0)
		return bad_row(r, c, "a negative latency", f[r->latency].text);
	for (uint32_t i = 0; i < r->work_count; i++)
		if (!replay_csv_number(&f[r->work[i]], &work[i]))
			return bad_row(r, c, "work is not a number", f[r->work[i]].text);
	key = row_key(r, f);
	if (key == -ENOMEM)
		return bad_row(r, c, "out of memory", NULL);
	if (key < 0)
		return bad_row(r, c, key == -E2BIG ? "too many keys" : "the key is too long", NULL);
	latency *= r->unit_ns;
	skip = latency == 0;
	v = roofline_push(roofline_set_get(r->set, (uint64_t)key), work, r->work_count, latency);
	r->key[key].rows++;
	r->key[key].flagged += v.flagged;
	r->skipped[SKIP_NOT_POSITIVE] += skip;
	r->flagged += v.flagged;
	r->out += v.out;
	r->novel += v.novel;
	if (r->json)
		print_step(r, &r->key[key], &v, latency, skip);
	else if (!skip && (r->work_count < 2 || v.expected_ns > 0))
		plot_keep(r, (uint32_t)key,
			  r->work_count == 0   ? (double)r->rows
			  : r->work_count == 1 ? work[0]
					       : v.expected_ns / 1e6,
			  latency, v.flagged);
	r->rows++;
	return 0;
}

static int read_rows(struct replay *r, struct replay_csv *c)
{
	struct trace_field *f;
	char counts[64];
	int n, rc;

	while ((n = replay_csv_next(c, &f)) > 0) {
		if ((uint32_t)n != r->columns) {
			snprintf(counts, sizeof(counts), "%d fields, but the header has %" PRIu32,
				 n, r->columns);
			return bad_row(r, c, counts, NULL);
		}
		rc = read_row(r, c, f);
		if (rc)
			return rc;
		if (ferror(stdout)) /* the caller of every command reports it */
			return EXIT_OK;
	}
	return n < 0 ? bad_row(r, c, replay_csv_error(c), NULL) : 0;
}

/* The model of each key, or NULL if it was evicted. The caller owns the array. */
static struct roofline **models_by_key(const struct replay *r)
{
	struct roofline **model = calloc(r->keys.count + 1, sizeof(struct roofline *)), *m;
	uint64_t key;

	for (uint32_t i = 0; model && i < roofline_set_count(r->set); i++) {
		m = roofline_set_at(r->set, i, &key);
		if (key < r->keys.count)
			model[key] = m;
	}
	return model;
}

static void print_model_json(const struct key *k, const struct roofline *m, uint32_t work_count)
{
	struct roofline_summary s = {0};

	if (m)
		roofline_summary(m, &s);
	printf("{\"type\":\"model\",\"key\":%s,\"state\":\"%s\",\"r2\":%.6f,\"drift\":%s,"
	       "\"steps\":%" PRIu64 ",\"flagged\":%" PRIu32 ",\"novel\":%" PRIu64
	       ",\"spread\":%.6f,\"threshold\":%.6f,\"intercept_ns\":%.1f,\"slope_ns\":[",
	       k->json, roofline_state_name(s.state), s.r2, s.drift ? "true" : "false", k->rows,
	       k->flagged, s.novel, s.spread, s.threshold, s.intercept_ns);
	for (uint32_t i = 0; i < work_count; i++)
		printf("%s%.9g", i ? "," : "", s.slope_ns[i]);
	if (s.state == ROOFLINE_REFUSED)
		printf("],\"reason\":\"%s\"}\n", POOR_FIT);
	else
		printf("]%s}\n", m ? "" : ",\"evicted\":true");
}

static void print_json(const struct replay *r, struct roofline **model, const struct replay_csv *c)
{
	uint32_t states[3] = {0}, evicted = 0, drifts = 0;

	for (uint32_t i = 0; i < r->keys.count; i++) {
		struct roofline_summary s = {0};

		print_model_json(&r->key[i], model[i], r->work_count);
		evicted += !model[i];
		if (!model[i])
			continue;
		roofline_summary(model[i], &s);
		states[s.state]++;
		drifts += s.drift;
	}
	printf("{\"type\":\"summary\",\"kind\":\"steps\",\"rows\":%" PRIu64
	       ",\"skipped\":{\"latency_not_positive\":%" PRIu64 ",\"blank_line\":%" PRIu64
	       "},\"keys\":%" PRIu32 ",\"learning\":%" PRIu32 ",\"ready\":%" PRIu32
	       ",\"refused\":%" PRIu32 ",\"evicted\":%" PRIu32 ",\"drift\":%" PRIu32
	       ",\"out\":%" PRIu64 ",\"flagged\":%" PRIu64 ",\"novel\":%" PRIu64
	       ",\"mode\":\"%s\",\"seed\":\"%" PRIu64 "\"}\n",
	       r->rows, r->skipped[SKIP_NOT_POSITIVE], replay_csv_blank(c), r->keys.count,
	       states[0], states[1], states[2], evicted, drifts, r->out, r->flagged, r->novel,
	       r->config.mode == ROOFLINE_P99 ? "p99" : "robust", r->config.seed);
}

/* Plots latency by work; with several work values by expected latency, with none by row. */
static void print_plot(const struct replay *r, uint32_t key)
{
	char cell[PLOT_HEIGHT][PLOT_WIDTH + 1];
	double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY};
	bool log_axis[2];

	for (uint32_t i = 0; i < r->points; i++) {
		double v[2] = {r->point[i].x, r->point[i].y};

		for (int a = 0; a < 2 && r->point[i].key == key; a++) {
			lo[a] = v[a] < lo[a] ? v[a] : lo[a];
			hi[a] = v[a] > hi[a] ? v[a] : hi[a];
		}
	}
	if (!(hi[1] > lo[1]))
		return;
	memset(cell, ' ', sizeof(cell));
	for (int a = 0; a < 2; a++)
		log_axis[a] = lo[a] > 0 && hi[a] > 10 * lo[a] && (a || r->work_count);
	for (uint32_t pass = 0; pass < 2 * r->points; pass++) {
		const struct point *p = &r->point[pass % r->points];
		double v[2] = {p->x, p->y}, at[2];

		/* flagged ones last, so that they are visible */
		if (p->key != key || p->flagged != (pass >= r->points))
			continue;
		for (int a = 0; a < 2; a++) {
			at[a] = hi[a] <= lo[a] ? 0.5
				: log_axis[a]  ? log(v[a] / lo[a]) / log(hi[a] / lo[a])
					       : (v[a] - lo[a]) / (hi[a] - lo[a]);
			/* extreme values may overflow: the point stays inside the plot */
			at[a] = at[a] >= 0 && at[a] <= 1 ? at[a] : 0.5;
		}
		cell[PLOT_HEIGHT - 1 - (int)(at[1] * (PLOT_HEIGHT - 1))]
		    [(int)(at[0] * (PLOT_WIDTH - 1))] = p->flagged ? 'X' : '.';
	}
	printf("\nlatency%s against %s%s of \"%s\": . step, X flagged\n",
	       log_axis[1] ? " (log)" : "",
	       r->work_count == 0   ? "row"
	       : r->work_count == 1 ? "work"
				    : "expected ms",
	       log_axis[0] ? " (log)" : "", term_safe(r->key[key].text, 60));
	for (int y = 0; y < PLOT_HEIGHT; y++) {
		cell[y][PLOT_WIDTH] = '\0';
		if (y == 0 || y == PLOT_HEIGHT - 1)
			printf("%12.4g |%s\n", (y ? lo[1] : hi[1]) / 1e6, cell[y]);
		else
			printf("%12s |%s\n", "", cell[y]);
	}
	printf("%12s +%-*.4g%*.4g\n", "ms", PLOT_WIDTH / 2, lo[0], PLOT_WIDTH / 2, hi[0]);
}

static void print_people(const struct replay *r, struct roofline **model,
			 const struct replay_csv *c)
{
	uint32_t shown = 0;

	if (r->keys.count)
		printf("%-40s %-17s %9s %8s %7s %8s %9s %s\n", "key", "state", "steps", "flagged",
		       "r2", "spread", "threshold", "drift");
	for (uint32_t i = 0; i < r->keys.count; i++) {
		struct roofline_summary s = {0};

		if (model[i])
			roofline_summary(model[i], &s);
		printf("%-40s %-17s %9" PRIu64 " %8" PRIu32 " %7.3f %7.2f%% %8.1f%% %s\n",
		       r->key[i].text[0] ? term_safe(r->key[i].text, 40) : "(all)",
		       !model[i]		     ? "evicted"
		       : s.state == ROOFLINE_REFUSED ? "refused: " POOR_FIT
						     : roofline_state_name(s.state),
		       r->key[i].rows, r->key[i].flagged, s.r2, 100 * s.spread, 100 * s.threshold,
		       s.drift ? "DRIFT" : "-");
	}
	for (uint32_t i = 0; i < r->keys.count && shown < 3; i++)
		if (r->key[i].flagged || r->keys.count == 1) {
			print_plot(r, i);
			shown++;
		}
	printf("\n%" PRIu64 " steps of %" PRIu32 " keys, %" PRIu64 " flagged, %" PRIu64
	       " with new work; skipped: %" PRIu64 " latencies not positive, %" PRIu64
	       " blank lines; seed %" PRIu64 "\n",
	       r->rows, r->keys.count, r->flagged, r->novel, r->skipped[SKIP_NOT_POSITIVE],
	       replay_csv_blank(c), r->config.seed);
}

static int run(struct replay *r, struct replay_csv *c)
{
	struct roofline **model;
	int rc = read_header(r, c);

	if (!rc)
		rc = read_rows(r, c);
	if (rc)
		return rc;
	if (!r->rows)
		fprintf(stderr, "%s: no rows with a latency\n", r->path);
	model = models_by_key(r);
	if (!model)
		return EXIT_FAILED;
	if (r->json)
		print_json(r, model, c);
	else
		print_people(r, model, c);
	free(model);
	return EXIT_OK;
}

int replay_steps_main(int argc, char **argv)
{
	struct replay r = {.unit_ns = 1, .point_stride = 1};
	struct replay_csv *c = NULL;
	int rc;

	roofline_config_default(&r.config);
	rc = parse_arguments(&r, argc, argv);
	if (rc)
		return rc == OPTIONS_HELP ? 0 : rc;
	r.memory = pages_aligned(roofline_set_memory_bytes(&r.config, MODELS_MAX));
	r.point = r.json ? NULL : malloc(PLOT_POINTS * sizeof(*r.point));
	if (!r.memory || (!r.json && !r.point)) {
		fprintf(stderr, "sysom replay steps: out of memory\n");
		rc = EXIT_FAILED;
		goto done;
	}
	r.set = roofline_set_init(r.memory, &r.config, MODELS_MAX);
	rc = replay_csv_open(&c, r.path);
	if (rc) {
		fprintf(stderr, "%s: %s\n", r.path, strerror(-rc));
		rc = 2;
		goto done;
	}
	rc = run(&r, c);
done:
	/* lines before an error are complete */
	fflush(stdout);
	replay_csv_close(c);
	for (uint32_t i = 0; i < r.keys.count; i++)
		free(r.key[i].json);
	intern_fini(&r.keys);
	free(r.key);
	free(r.point);
	free(r.memory);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 * sysom replay steps: judges one step per CSV row with the roofline of live steps. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/expect/roofline.h"
#include "base/carve.h"
#include "base/text/json_text.h"
#include "base/text/text.h"
#include "base/room.h"
#include "cli/replay/replay.h"
#include "render/term.h"
#include "cli/timings/replay_input.h"
#include "cli/timings/replay_unit.h"

#define MODELS_MAX  4096 /* 60 KB each when used; the least recently used is evicted */
#define KEYS_MAX    (1u << 20)
#define PLOT_POINTS 4096
#define PLOT_WIDTH  72
#define PLOT_HEIGHT 18
#define POOR_FIT    "poor fit" /* why a model refuses */

struct key {
	uint32_t flagged;
	uint64_t rows;
};

struct point {
	uint32_t key;
	float x, y;
	bool flagged;
};

struct replay {
	struct roofline_config config;
	bool json;
	const char *unit;
	uint32_t latency, work[ROOFLINE_WORK_MAX], work_count;
	const char *latency_name, *work_names, *key_names;
	void *memory;
	struct roofline_set *set;
	struct replay_keys keys;
	struct key *key; /* [keys.texts.count] */
	size_t key_room;
	uint64_t rows, flagged, out, novel, not_positive;
	struct point *point; /* for the plot: an even sample of the steps */
	uint32_t points, point_stride;
};

static const char *take_seed(void *to, const char *text)
{
	struct replay *r = to;
	char *end;

	errno = 0;
	r->config.seed = strtoull(text, &end, 0);
	return errno || end == text || *end || *text == '-' ? "a number from 0 to 2^64 - 1" : NULL;
}

#define AT(field) offsetof(struct replay, field)

static const struct option_row rows[] = {
    {"latency", 0, "COL", "the step's time", OPTION_TEXT, .at = AT(latency_name)},
    {"latency-unit", 0, "ns|us|ms|s", "its unit (default ns)", OPTION_TEXT, .at = AT(unit)},
    {"work", 0, "COL[,COL]", "what the time depends on, up to 4 columns", OPTION_TEXT,
     .at = AT(work_names)},
    {"key", 0, "COL[,COL]", "a model per distinct value, up to 8 columns", OPTION_TEXT,
     .at = AT(key_names)},
    {"mode", 0, "robust|p99", "median curve with calibrated tail, or the P99 line", OPTION_WORD,
     .at = AT(config.mode)},
    {"learn-min", 0, "N", "steps before a model may judge (20)", OPTION_COUNT,
     .at = AT(config.learn_min), .least = 1, .most = 1e6},
    {"learn-max", 0, "N", "steps after which the model no longer changes (2000)", OPTION_COUNT,
     .at = AT(config.learn_max), .least = 1, .most = 1e6},
    {"seed", 0, "N", "seed of mode p99's random choices (1)", OPTION_TAKEN, .take = take_seed},
    {"json", 'j', NULL, "one JSON object per line", OPTION_SWITCH, .at = AT(json)},
    {0},
};

static int read_header(struct replay *r, const struct replay_input *in, const struct trace_field *f)
{
	int works, keys;

	if (replay_input_columns(in, f, r->latency_name, &r->latency, 1) < 0)
		return EXIT_USAGE;
	works = replay_input_columns(in, f, r->work_names, r->work, ROOFLINE_WORK_MAX);
	keys = works < 0 ? -1
			 : replay_input_columns(in, f, r->key_names, r->keys.column,
						REPLAY_INPUT_COLUMNS_MAX);
	if (keys < 0)
		return EXIT_USAGE;
	r->work_count = (uint32_t)works;
	r->keys.count = (uint32_t)keys;
	return 0;
}

static void print_step(const struct replay *r, uint32_t key, const struct roofline_verdict *v,
		       double latency_ns)
{
	printf("{\"type\":\"step\",\"row\":%" PRIu64, r->rows);
	json_text_print(stdout, ",\"key\":", r->keys.texts.text[key]);
	printf(
	    ",\"state\":\"%s\",\"expected_ns\":%.1f,\"latency_ns\":%.1f,\"excess\":%.6f,\"out\":%s"
	    "%s%s%s,\"flagged\":%s}\n",
	    roofline_state_name(v->state), text_finite(v->expected_ns), text_finite(latency_ns),
	    text_finite(v->excess), v->out ? "true" : "false", v->novel ? ",\"novel\":true" : "",
	    v->drift ? ",\"drift\":true" : "",
	    latency_ns > 0 ? "" : ",\"skipped\":\"latency not positive\"",
	    v->flagged ? "true" : "false");
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

static int read_row(void *replay, const struct replay_input *in, struct trace_field *f)
{
	struct replay *r = replay;
	double latency, work[ROOFLINE_WORK_MAX] = {0};
	struct roofline_verdict v;
	int64_t key;

	if (!in->row)
		return read_header(r, in, f);
	if (!trace_reader_number(&f[r->latency], &latency))
		return replay_input_bad(in, "latency is not a number", f[r->latency].text);
	if (latency < 0)
		return replay_input_bad(in, "a negative latency", f[r->latency].text);
	for (uint32_t i = 0; i < r->work_count; i++)
		if (!trace_reader_number(&f[r->work[i]], &work[i]))
			return replay_input_bad(in, "work is not a number", f[r->work[i]].text);
	key = replay_input_key(in, f, &r->keys, KEYS_MAX);
	if (key < 0)
		return EXIT_USAGE;
	if (ROOM_FOR_ZERO(r->key, r->key_room, (size_t)key + 1))
		return replay_input_bad(in, "out of memory", NULL);
	latency *= replay_unit_of(r->unit)->ns;
	v = roofline_push(roofline_set_get(r->set, (uint64_t)key), work, r->work_count, latency);
	r->key[key].rows++;
	r->key[key].flagged += v.flagged;
	r->not_positive += latency == 0;
	r->flagged += v.flagged;
	r->out += v.out;
	r->novel += v.novel;
	if (r->json)
		print_step(r, (uint32_t)key, &v, latency);
	else if (latency > 0 && (r->work_count < 2 || v.expected_ns > 0))
		plot_keep(r, (uint32_t)key,
			  r->work_count == 0   ? (double)r->rows
			  : r->work_count == 1 ? work[0]
					       : v.expected_ns / 1e6,
			  latency, v.flagged);
	r->rows++;
	return 0;
}

/* The model of each key, or NULL if it was evicted. The caller owns the array. */
static struct roofline **models_by_key(const struct replay *r)
{
	struct roofline **model = calloc(r->keys.texts.count + 1, sizeof(struct roofline *)), *m;
	uint64_t key;

	for (uint32_t i = 0; model && i < roofline_set_count(r->set); i++) {
		m = roofline_set_at(r->set, i, &key);
		if (key < r->keys.texts.count)
			model[key] = m;
	}
	return model;
}

static void print_model_json(const struct replay *r, uint32_t key, const struct roofline *m)
{
	const struct key *k = &r->key[key];
	struct roofline_summary s = {0};

	if (m)
		roofline_summary(m, &s);
	json_text_print(stdout, "{\"type\":\"model\",\"key\":", r->keys.texts.text[key]);
	printf(",\"state\":\"%s\",\"r2\":%.6f,\"drift\":%s,"
	       "\"steps\":%" PRIu64 ",\"flagged\":%" PRIu32 ",\"novel\":%" PRIu64
	       ",\"spread\":%.6f,\"threshold\":%.6f,\"intercept_ns\":%.1f,\"slope_ns\":[",
	       roofline_state_name(s.state), s.r2, s.drift ? "true" : "false", k->rows, k->flagged,
	       s.novel, s.spread, s.threshold, s.intercept_ns);
	for (uint32_t i = 0; i < r->work_count; i++)
		printf("%s%.9g", i ? "," : "", s.slope_ns[i]);
	if (s.state == ROOFLINE_REFUSED)
		printf("],\"reason\":\"%s\"}\n", POOR_FIT);
	else
		printf("]%s}\n", m ? "" : ",\"evicted\":true");
}

static void print_json(const struct replay *r, struct roofline **model, uint64_t blank)
{
	uint32_t states[3] = {0}, evicted = 0, drifts = 0;

	for (uint32_t i = 0; i < r->keys.texts.count; i++) {
		struct roofline_summary s = {0};

		print_model_json(r, i, model[i]);
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
	       r->rows, r->not_positive, blank, r->keys.texts.count, states[0], states[1],
	       states[2], evicted, drifts, r->out, r->flagged, r->novel,
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
	       log_axis[0] ? " (log)" : "", term_safe(r->keys.texts.text[key], 60));
	for (int y = 0; y < PLOT_HEIGHT; y++) {
		cell[y][PLOT_WIDTH] = '\0';
		if (y == 0 || y == PLOT_HEIGHT - 1)
			printf("%12.4g |%s\n", (y ? lo[1] : hi[1]) / 1e6, cell[y]);
		else
			printf("%12s |%s\n", "", cell[y]);
	}
	printf("%12s +%-*.4g%*.4g\n", "ms", PLOT_WIDTH / 2, lo[0], PLOT_WIDTH / 2, hi[0]);
}

static void print_people(const struct replay *r, struct roofline **model, uint64_t blank)
{
	uint32_t shown = 0;

	if (r->keys.texts.count)
		printf("%-40s %-17s %9s %8s %7s %8s %9s %s\n", "key", "state", "steps", "flagged",
		       "r2", "spread", "threshold", "drift");
	for (uint32_t i = 0; i < r->keys.texts.count; i++) {
		struct roofline_summary s = {0};

		if (model[i])
			roofline_summary(model[i], &s);
		printf("%-40s %-17s %9" PRIu64 " %8" PRIu32 " %7.3f %7.2f%% %8.1f%% %s\n",
		       r->keys.count ? term_safe(r->keys.texts.text[i], 40) : "(all)",
		       !model[i]		     ? "evicted"
		       : s.state == ROOFLINE_REFUSED ? "refused: " POOR_FIT
						     : roofline_state_name(s.state),
		       r->key[i].rows, r->key[i].flagged, s.r2, 100 * s.spread, 100 * s.threshold,
		       s.drift ? "DRIFT" : "-");
	}
	for (uint32_t i = 0; i < r->keys.texts.count && shown < 3; i++)
		if (r->key[i].flagged || r->keys.texts.count == 1) {
			print_plot(r, i);
			shown++;
		}
	printf("\n%" PRIu64 " steps of %" PRIu32 " keys, %" PRIu64 " flagged, %" PRIu64
	       " with new work; skipped: %" PRIu64 " latencies not positive, %" PRIu64
	       " blank lines; seed %" PRIu64 "\n",
	       r->rows, r->keys.texts.count, r->flagged, r->novel, r->not_positive, blank,
	       r->config.seed);
}

static int run(struct replay *r, const char *path)
{
	struct replay_input in = {0};
	struct roofline **model;
	int rc = replay_input_each(&in, path, read_row, r);

	if (rc)
		return rc;
	if (!r->rows)
		fprintf(stderr, "%s: no rows with a latency\n", path);
	model = models_by_key(r);
	if (!model)
		return EXIT_FAILED;
	if (r->json)
		print_json(r, model, in.blank);
	else
		print_people(r, model, in.blank);
	free(model);
	return EXIT_OK;
}

static int replay_steps_main(int argc, char **argv)
{
	struct replay r = {.unit = "ns", .point_stride = 1};
	int rc;

	roofline_config_default(&r.config);
	rc = options_read(&replay_steps, &r, argc, argv);
	if (rc != OPTIONS_GO_ON)
		return rc;
	if (!r.latency_name) {
		fprintf(
		    stderr,
		    "sysom replay steps: --latency is missing; try sysom replay steps --help\n");
		return EXIT_USAGE;
	}
	r.memory = carve_memory(roofline_set_memory_bytes(&r.config, MODELS_MAX));
	r.point = r.json ? NULL : malloc(PLOT_POINTS * sizeof(*r.point));
	if (r.memory && (r.json || r.point)) {
		r.set = roofline_set_init(r.memory, &r.config, MODELS_MAX);
		rc = run(&r, argv[optind]);
	} else {
		fprintf(stderr, "sysom replay steps: out of memory\n");
		rc = EXIT_FAILED;
	}
	fflush(stdout); /* lines before an error are complete */
	intern_fini(&r.keys.texts);
	free(r.key);
	free(r.point);
	free(r.memory);
	return rc;
}

const struct command replay_steps = {.name = "replay steps",
				     .raw = replay_steps_main,
				     .rows = rows,
				     .args = "F.csv",
				     .args_min = 1,
				     .args_max = 1,
				     .summary =
					 "one row per step: expected latency, excess, flagged",
				     .status = REPLAY_STATUS};

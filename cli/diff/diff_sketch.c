/* SPDX-License-Identifier: Apache-2.0
 * diff_sketch.c - see diff_source.h: baselines and sketches from the aggregator. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/jsonget.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/diff/diff_source.h"
#include "cli/profile/folded.h"
#include "model/stack.h"
#include "render/term.h"

#define BASELINE   "baseline:"
#define SKETCH	   "sketch:"
#define RUN_CHARS  16
#define RUN_DIGITS "0123456789abcdef"
#define KNOWN_MAX  20u /* names that an error message lists */
#define VALUE_MAX  9e18

/* ---- the aggregator's JSON ---- */

static const struct {
	const char *key;
	size_t at;
	double unit;
} figures[] = {
    {"latency_ms", offsetof(struct sketch, latency_ns), 1e6},
    {"latency_mad_ms", offsetof(struct sketch, latency_mad_ns), 1e6},
    {"self_ms", offsetof(struct sketch, self_ns), 1e6},
    {"self_mad_ms", offsetof(struct sketch, self_mad_ns), 1e6},
    {"compute_ms", offsetof(struct sketch, compute_ns), 1e6},
    {"comm_ms", offsetof(struct sketch, comm_ns), 1e6},
    {"exposed_comm_ms", offsetof(struct sketch, exposed_comm_ns), 1e6},
    {"copy_ms", offsetof(struct sketch, copy_ns), 1e6},
    {"idle_ms", offsetof(struct sketch, idle_ns), 1e6},
    {"launches", offsetof(struct sketch, launches), 1},
    {"cpu_ms", offsetof(struct sketch, cpu_ns), 1e6},
    {"samples", offsetof(struct sketch, samples), 1},
    {"off_ms", offsetof(struct sketch, off_ns), 1e6},
    {"gil_wait_ms", offsetof(struct sketch, gil_wait_ns), 1e6},
};

/* A number of at least 0; 0: missing. */
static int number(const json_t *o, const char *key, double unit, double max, double *out)
{
	const json_t *v = json_object_get(o, key);

	*out = json_number_value(v) * unit;
	return (!v || json_is_number(v)) && *out >= 0 && *out <= max ? 0 : -EPROTO;
}

static int text(const json_t *o, const char *key, size_t max, char **out)
{
	const char *v = json_string_value(json_object_get(o, key));

	if (!v || strlen(v) > max)
		return -EPROTO;
	*out = strdup(v);
	return *out ? 0 : -ENOMEM;
}

/* Names are in the form of folded stacks, but without a file: a sketch does not have it. */
static int read_function(const json_t *o, struct sketch *s)
{
	struct sketch_function *f = &s->functions[s->function_count++];
	const char *kind = jsonget_text(o, "kind");
	char *name = NULL;
	int err = text(o, "function", LIMIT_NAME_BYTES, &name);

	if (!err) {
		f->name = folded_name(!strcmp(kind, "kernel")	? STACK_FRAME_KERNEL
				      : !strcmp(kind, "python") ? STACK_FRAME_PYTHON
								: STACK_FRAME_NATIVE,
				      name, "Python");
		err = f->name ? 0 : -ENOMEM;
	}
	free(name);
	if (!err)
		err = number(o, "self", 1, 1, &f->self_share);
	if (!err)
		err = number(o, "total", 1, 1, &f->total_share);
	return err ? err : number(o, "off_ms", 1e6, VALUE_MAX, &f->off_ns);
}

static int read_kernel(const json_t *o, struct sketch *s)
{
	struct sketch_kernel *k = &s->kernels[s->kernel_count++];
	int err = text(o, "kernel", LIMIT_NAME_BYTES, &k->name);

	if (!err)
		err = number(o, "per_step", 1, VALUE_MAX, &k->per_step);
	return err ? err : number(o, "ms", 1e6, VALUE_MAX, &k->ns_per_step);
}

static int read_setting(const json_t *o, struct sketch *s)
{
	struct sketch_setting *k = &s->settings[s->setting_count++];
	int err = text(o, "name", LIMIT_SKETCH_VALUE_BYTES, &k->name);

	return err ? err : text(o, "value", LIMIT_SKETCH_VALUE_BYTES, &k->value);
}

static int read_list(const json_t *o, const char *key, size_t max, struct sketch *s,
		     int (*item)(const json_t *o, struct sketch *s))
{
	const json_t *list = json_object_get(o, key);
	int err = json_is_array(list) && json_array_size(list) <= max ? 0 : -EPROTO;

	for (size_t i = 0; i < json_array_size(list) && !err; i++)
		err = item(json_array_get(list, i), s);
	return err;
}

/* 0, -ENOMEM, -EPROTO: invalid or too much. */
static int read_sketch(const json_t *o, struct sketch *s)
{
	int err = 0;

	s->functions = calloc(LIMIT_SKETCH_FUNCTIONS, sizeof(*s->functions));
	s->kernels = calloc(LIMIT_SKETCH_KERNELS, sizeof(*s->kernels));
	s->settings = calloc(LIMIT_SKETCH_SETTINGS, sizeof(*s->settings));
	if (!s->functions || !s->kernels || !s->settings)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]) && !err; i++)
		err = number(o, figures[i].key, figures[i].unit, VALUE_MAX,
			     (double *)(void *)((char *)s + figures[i].at));
	s->steps = jsonget_unsigned(o, "steps");
	if (!err)
		err = read_list(o, "functions", LIMIT_SKETCH_FUNCTIONS, s, read_function);
	if (!err)
		err = read_list(o, "kernels", LIMIT_SKETCH_KERNELS, s, read_kernel);
	return err ? err : read_list(o, "settings", LIMIT_SKETCH_SETTINGS, s, read_setting);
}

static int add_functions(struct diff_source *s)
{
	int err = 0;

	if (!(s->sketch.samples > 0))
		return 0;
	err = profile_open(&s->functions, keyed_process());
	for (uint32_t i = 0; i < s->sketch.function_count && !err; i++) {
		const struct sketch_function *f = &s->sketch.functions[i];

		if (f->total_share > 0)
			err = profile_put(s->functions, f->name, f->self_share, f->total_share);
	}
	if (!err)
		profile_set_total(s->functions, 1, s->sketch.samples);
	return err;
}

static int take(struct diff_source *s, const char *arg, const char *path, json_t **answer)
{
	struct client_error e;
	int err;

	if (client_json(&s->client, path, answer, &e))
		return commands_complain("diff", &e);
	err = read_sketch(*answer, &s->sketch);
	if (!err)
		err = add_functions(s);
	s->has_sketch = !err;
	if (!err)
		return EXIT_OK;
	fprintf(stderr, "sysom diff: %s: %s\n", term_safe(arg, 80),
		err == -EPROTO ? "the aggregator's answer is not a valid sketch" : strerror(-err));
	return EXIT_FAILED;
}

/* ---- choosing one ---- */

/* Splits text at its colons into empty parts; %3A is a colon in a name. Returns their number; 0: too many
 * or too long. */
static unsigned split(const char *arg, unsigned max, char part[][WIRE_TEXT_BYTES])
{
	unsigned at = 0;
	size_t n = 0;

	for (; *arg; arg++) {
		char c = *arg;

		if (c == ':') {
			if (++at == max)
				return 0;
			n = 0;
			continue;
		}
		if (!strncasecmp(arg, "%3a", 3)) {
			c = ':';
			arg += 2;
		}
		if (n + 1 == WIRE_TEXT_BYTES)
			return 0;
		part[at][n++] = c;
	}
	return at + 1;
}

static void list_known(const json_t *list, const char *key)
{
	unsigned listed = 0;

	for (size_t i = 0; i < json_array_size(list) && listed < KNOWN_MAX; i++) {
		const char *name = jsonget_text(json_array_get(list, i), key);
		size_t k = 0;

		while (k < i && strcmp(name, jsonget_text(json_array_get(list, k), key)))
			k++;
		if (k == i)
			fprintf(stderr, "%s%s", listed++ ? ", " : "", term_safe(name, 60));
	}
	fputc('\n', stderr);
}

/* The newest matching baseline, an earlier run's if there is one; NULL after a message. */
static const json_t *choose(const json_t *answer, const char *arg, const char *role,
			    const char *run)
{
	const json_t *list = json_object_get(answer, "baselines"), *best = NULL;
	const char *present = jsonget_text(answer, "present_run");
	bool of_role = false, several = false;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *b = json_array_get(list, i);
		const char *id = jsonget_text(b, "run");
		bool now = !strcmp(id, present),
		     best_now = !strcmp(jsonget_text(best, "run"), present);

		if (*role && strcmp(role, jsonget_text(b, "role")))
			continue;
		of_role = true;
		if (*run && strcmp(run, id))
			continue;
		several |= best && strcmp(jsonget_text(best, "role"), jsonget_text(b, "role"));
		if (!best || (best_now && !now) ||
		    (best_now == now && jsonget_unsigned(b, "updated_unix_ns") >
					    jsonget_unsigned(best, "updated_unix_ns")))
			best = b;
	}
	if (best && !several)
		return best;
	fprintf(stderr, "sysom diff: %s: ", term_safe(arg, 80));
	if (!json_array_size(list)) {
		fprintf(stderr,
			"this job has no baseline; a run makes one from 200 healthy steps and the "
			"first sketch of its ranks, which comes after a minute\n");
	} else if (several || !of_role) {
		fprintf(stderr,
			"%s: ", several ? "name one of its roles" : "no such role; available");
		list_known(list, "role");
	} else {
		fprintf(stderr, "no such run; available: ");
		list_known(list, "run");
	}
	return NULL;
}

static int open_baseline(struct diff_source *s, const char *arg, char part[][WIRE_TEXT_BYTES])
{
	char path[1024] = "/api/v1/baselines";
	json_t *all = NULL, *answer = NULL;
	const json_t *found;
	struct client_error e;
	int rc = EXIT_NOTHING;

	client_add(path, sizeof(path), "job", part[0]);
	if (client_json(&s->client, path, &all, &e))
		return commands_complain("diff", &e);
	found = choose(all, arg, part[1], part[2]);
	if (found) {
		snprintf(path, sizeof(path), "/api/v1/baselines/%.*s",
			 (int)strspn(jsonget_text(found, "run"), RUN_DIGITS),
			 jsonget_text(found, "run"));
		client_add(path, sizeof(path), "job", part[0]);
		client_add(path, sizeof(path), "role", jsonget_text(found, "role"));
		rc = take(s, arg, path, &answer);
	}
	if (rc == EXIT_OK)
		snprintf(s->label, sizeof(s->label), "baseline of %s, role %s, run %s, until %s",
			 term_safe(part[0], 50), term_safe(jsonget_text(found, "role"), 30),
			 term_safe(jsonget_text(found, "run"), RUN_CHARS),
			 term_time(jsonget_unsigned(answer, "updated_unix_ns")));
	s->baseline = true;
	json_decref(answer);
	json_decref(all);
	return rc;
}

static int open_rank(struct diff_source *s, const char *arg, char part[][WIRE_TEXT_BYTES])
{
	char path[1024] = "/api/v1/sketch";
	json_t *answer = NULL;
	int rc;

	client_add(path, sizeof(path), "job", part[0]);
	client_add(path, sizeof(path), "rank", part[1]);
	rc = take(s, arg, path, &answer);
	if (rc == EXIT_OK)
		snprintf(s->label, sizeof(s->label), "sketch of rank %s of %s, until %s", part[1],
			 term_safe(part[0], 60),
			 term_time(jsonget_unsigned(answer, "end_unix_ns")));
	json_decref(answer);
	return rc;
}

static bool is_baseline(const char *arg)
{
	return !strncmp(arg, BASELINE, sizeof(BASELINE) - 1);
}

bool diff_sketch_is(const char *arg)
{
	return is_baseline(arg) || !strncmp(arg, SKETCH, sizeof(SKETCH) - 1);
}

int diff_sketch_open(struct diff_source *s, const struct options *o, const char *arg)
{
	bool baseline = is_baseline(arg);
	const char *wanted = baseline ? "baseline:JOB[:ROLE[:RUN]], RUN of 16 hexadecimal digits"
				      : "sketch:JOB:RANK";
	char part[3][WIRE_TEXT_BYTES] = {0};
	unsigned n = split(strchr(arg, ':') + 1, baseline ? 3 : 2, part);
	size_t digits = strspn(part[1], "0123456789"), run = strspn(part[2], RUN_DIGITS);

	s->kind = baseline ? "baseline" : "sketch";
	if (!*part[0] && o->job)
		snprintf(part[0], sizeof(part[0]), "%s", o->job);
	if (!n || !*part[0] || part[2][run] || (run && run != RUN_CHARS) ||
	    (!baseline && (!digits || digits > 9 || part[1][digits]))) {
		fprintf(stderr, "sysom diff: %s: expected %s\n", term_safe(arg, 80), wanted);
		return EXIT_USAGE;
	}
	if (commands_aggregator(o, &s->client))
		return EXIT_USAGE;
	return baseline ? open_baseline(s, arg, part) : open_rank(s, arg, part);
}

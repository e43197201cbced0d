/* SPDX-License-Identifier: Apache-2.0
 * This file uses libyaml's event parser, not a document tree, because only events have the line of
 * every key. A user needs the line to correct the file. */
#include "base/daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "base/daemon/misspelt.h"
#include "base/daemon/log.h"
#include "base/text/text.h"
#include "base/version.h"

#define CONFIG_KEY_BYTES 128
#define HELP_INDENT	 31
#define HELP_COLUMNS	 100

static int fail(char *why, size_t why_bytes, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(char *why, size_t why_bytes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, why_bytes, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

struct unit {
	const char *name;
	double factor;
};

static const struct unit byte_units[] = {
    {"", 1},	 {"B", 1},    {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824.0},
    {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},   {NULL, 0},
};
static const struct unit time_units[] = {
    {"ns", 1},	 {"us", 1e3},	{"ms", 1e6},	{"s", 1e9},
    {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {NULL, 0},
};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

/* Parses a finite, unsigned number with one of the units. */
static int parse_number(const char *text, const struct unit *units, double *out, char *why,
			size_t why_bytes)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || errno || !isfinite(v))
		return fail(why, why_bytes, "\"%s\" is not a number", text);
	while (*end == ' ')
		end++;
	for (const struct unit *u = units; u->name; u++)
		if (!strcmp(end, u->name)) {
			*out = v * u->factor;
			return 0;
		}
	if (!*end)
		return fail(why, why_bytes, "\"%s\" needs a unit, as in \"%s%s\"", text, text,
			    units == time_units ? "s" : "");
	return fail(why, why_bytes, "\"%s\" is not a unit of %s", end,
		    units == time_units	  ? "time: ns, us, ms, s, m, h or d"
		    : units == byte_units ? "bytes: B, KiB, MiB, GiB, KB, MB or GB"
					  : "this: it is a plain number");
}

static int check_range(const struct config_key *k, double v, const char *text, char *why,
		       size_t why_bytes)
{
	/* numbers are exact up to 2^53; a duration is in ns, up to 292 years */
	double most = k->type == CONFIG_DURATION ? 9.2e18 : 9007199254740992.0;

	if (k->type != CONFIG_DOUBLE && (v < 0 || v > most))
		return fail(why, why_bytes, "%s is out of range: %s", text,
			    v < 0			 ? "below 0"
			    : k->type == CONFIG_DURATION ? "above 292 years"
							 : "above 2^53");
	if ((k->min || k->max) && (v < k->min || v > k->max)) {
		double scale = k->type == CONFIG_DURATION ? 1e9 : 1;

		return fail(why, why_bytes, "%s is out of range: %g to %g%s", text, k->min / scale,
			    k->max / scale, k->type == CONFIG_DURATION ? " s" : "");
	}
	return 0;
}

static int set_enum(int *out, const struct config_key *k, const char *text, char *why,
		    size_t why_bytes)
{
	const char *p = k->choices;
	size_t n = strlen(text);

	for (int i = 0; p; i++) {
		size_t len = strcspn(p, "|");

		if (len == n && !strncmp(p, text, n)) {
			*out = i;
			return 0;
		}
		p = p[len] ? p + len + 1 : NULL;
	}
	return fail(why, why_bytes, "\"%s\" is not one of %s", text, k->choices);
}

static int set_bool(bool *out, const char *text, char *why, size_t why_bytes)
{
	static const char *const yes[] = {"true", "yes", "on", "1"};
	static const char *const no[] = {"false", "no", "off", "0"};

	for (size_t i = 0; i < 4; i++) {
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*out = !strcasecmp(text, yes[i]);
			return 0;
		}
	}
	return fail(why, why_bytes, "\"%s\" is not true or false", text);
}

int config_set(void *into, const struct config_key *k, const char *text, char *why,
	       size_t why_bytes)
{
	char *at = (char *)into + k->offset;
	double v = 0;
	int err;

	switch (k->type) {
	case CONFIG_STRING:
		if (strlen(text) >= k->bytes)
			return fail(why, why_bytes, "longer than %zu bytes", k->bytes - 1);
		strcpy(at, text);
		return 0;
	case CONFIG_BOOL:
		return set_bool((bool *)at, text, why, why_bytes);
	case CONFIG_ENUM:
		return set_enum((int *)at, k, text, why, why_bytes);
	case CONFIG_DOUBLE:
	case CONFIG_UINT:
		err = parse_number(text, no_units, &v, why, why_bytes);
		break;
	case CONFIG_BYTES:
		err = parse_number(text, byte_units, &v, why, why_bytes);
		break;
	case CONFIG_DURATION:
		err = strcmp(text, "0") ? parse_number(text, time_units, &v, why, why_bytes) : 0;
		break;
	default:
		return -EINVAL;
	}
	if (!err)
		err = check_range(k, v, text, why, why_bytes);
	if (err)
		return err;
	if (k->type == CONFIG_DOUBLE)
		*(double *)at = v;
	else if (k->type == CONFIG_UINT && v != floor(v))
		return fail(why, why_bytes, "\"%s\" is not a whole number", text);
	else
		*(uint64_t *)at = (uint64_t)(v + 0.5);
	return 0;
}

static const struct config_key *find(const struct config_key *keys, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(keys[i].key, name))
			return &keys[i];
	return NULL;
}

struct reader {
	const char *path;
	void *into;
	const struct config_key *keys;
	size_t key_count;
	int errors;
	bool seen[256];
};

static void complain(struct reader *r, size_t line, const char *key, const char *why)
{
	fprintf(stderr, "%s:%zu: %s%s%s\n", r->path, line + 1, key, *key ? ": " : "", why);
	r->errors++;
}

/* Explains an unknown name: a value was given to a section, or a setting is misspelt. */
static void explain_unknown(const struct reader *r, const char *name, char *why, size_t why_bytes)
{
	size_t n = strlen(name);
	const char *close = NULL;
	unsigned best = 3;

	for (size_t i = 0; i < r->key_count; i++) {
		const char *key = r->keys[i].key;
		unsigned d = text_distance(name, key);

		if (!strncmp(key, name, n) && key[n] == '.') {
			snprintf(why, why_bytes,
				 "a section: its settings, such as \"%s: ...\", stand "
				 "indented on lines below it",
				 key + n + 1);
			return;
		}
		if (d < best) {
			best = d;
			close = key;
		}
	}
	snprintf(why, why_bytes, "no such setting%s%s%s", close ? " (" : "", close ? close : "",
		 close ? "?)" : "");
}

static void assign(struct reader *r, const char *name, const char *value, size_t line)
{
	const struct config_key *k = find(r->keys, r->key_count, name);
	char why[256];

	if (!k) {
		explain_unknown(r, name, why, sizeof(why));
		complain(r, line, name, why);
		return;
	}
	if ((size_t)(k - r->keys) < sizeof(r->seen)) {
		if (r->seen[k - r->keys])
			complain(r, line, name, "set twice");
		r->seen[k - r->keys] = true;
	}
	if (config_set(r->into, k, value, why, sizeof(why)))
		complain(r, line, name, why);
}

int config_refuse(char *why, size_t why_bytes, const char *key, const char *value,
		  const char *wrong)
{
	snprintf(why, why_bytes, "%s: \"%.100s\" is %s", key, value, wrong);
	return -EINVAL;
}

bool config_is_socket_url(const char *text, bool needs_host)
{
	const char *host = strstr(text, "://"), *colon;
	size_t digits;

	if (!strncmp(text, "ipc://", 6))
		return text[6] != '\0';
	if (strncmp(text, "tcp://", 6) && strncmp(text, "tls+tcp://", 10))
		return false;
	colon = strrchr(host + 3, ':');
	digits = colon ? strspn(colon + 1, "0123456789") : 0;
	return digits && digits <= 5 && !colon[1 + digits] && atoi(colon + 1) <= 65535 &&
	       (!needs_host || colon > host + 3);
}

/* Two levels of mappings: "section:" with "name: value" inside, or "name: value" at the top. */
static void read_events(struct reader *r, yaml_parser_t *parser)
{
	char section[CONFIG_KEY_BYTES] = "", key[CONFIG_KEY_BYTES] = "", full[2 * CONFIG_KEY_BYTES];
	int depth = 0;
	bool have_key = false, done = false;

	while (!done) {
		yaml_event_t ev;
		size_t line;

		if (!yaml_parser_parse(parser, &ev)) {
			complain(r, parser->problem_mark.line, "",
				 parser->problem ? parser->problem : "cannot be read");
			return;
		}
		line = ev.start_mark.line;
		switch (ev.type) {
		case YAML_MAPPING_START_EVENT:
			if (depth == 1 && have_key)
				snprintf(section, sizeof(section), "%s.", key);
			else if (depth > 0) {
				complain(r, line, key, "nested deeper than section and name");
				done = true;
			}
			depth++;
			have_key = false;
			break;
		case YAML_MAPPING_END_EVENT:
			depth--;
			section[0] = '\0';
			have_key = false;
			break;
		case YAML_SCALAR_EVENT:
			if (!depth) {
				if (ev.data.scalar.length) {
					complain(r, line, "", "not a mapping of settings");
					done = true;
				}
			} else if (!have_key) {
				snprintf(key, sizeof(key), "%s", (char *)ev.data.scalar.value);
				have_key = true;
			} else {
				snprintf(full, sizeof(full), "%s%s", section, key);
				/* "section:" with nothing below it is an empty scalar */
				if (ev.data.scalar.length || depth > 1 ||
				    find(r->keys, r->key_count, full))
					assign(r, full, (char *)ev.data.scalar.value, line);
				have_key = false;
			}
			break;
		case YAML_SEQUENCE_START_EVENT:
		case YAML_ALIAS_EVENT:
			complain(r, line, key, "lists and aliases are not used here");
			done = true;
			break;
		case YAML_STREAM_END_EVENT:
			done = true;
			break;
		default:
			break;
		}
		yaml_event_delete(&ev);
	}
}

static int read_file(struct reader *r, bool required)
{
	yaml_parser_t parser;
	FILE *f = fopen(r->path, "re");
	int first;

	if (!f) {
		if (!required && errno == ENOENT)
			return 0;
		fprintf(stderr, "%s: %s\n", r->path, strerror(errno));
		return -1;
	}
	first = getc(f);
	if (ferror(f)) { /* For example a directory; the parser would only say "input error" */
		fprintf(stderr, "%s: %s\n", r->path, strerror(errno));
		fclose(f);
		return -1;
	}
	ungetc(first, f);
	if (!yaml_parser_initialize(&parser)) {
		fclose(f);
		return -1;
	}
	yaml_parser_set_input_file(&parser, f);
	read_events(r, &parser);
	yaml_parser_delete(&parser);
	fclose(f);
	return r->errors ? -1 : 0;
}

int config_read_text(void *into, const struct config_key *keys, size_t key_count, const char *path,
		     const char *text, size_t bytes)
{
	struct reader r = {.path = path, .into = into, .keys = keys, .key_count = key_count};
	yaml_parser_t parser;
	char why[256];

	for (size_t i = 0; i < key_count; i++)
		config_set(into, &keys[i], keys[i].initial, why, sizeof(why));
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	read_events(&r, &parser);
	yaml_parser_delete(&parser);
	return r.errors ? -EINVAL : 0;
}

/* "window.per_minute" -> "SYSOM_WINDOW_PER_MINUTE" or "--window-per-minute" */
static void derive(const char *key, const char *prefix, bool upper, char *out, size_t bytes)
{
	size_t n = (size_t)snprintf(out, bytes, "%s", prefix);

	for (; *key && n + 1 < bytes; key++) {
		bool joint = *key == '.' || *key == '_' || *key == '-';

		out[n++] = joint ? (upper ? '_' : '-')
				 : (char)(upper ? toupper((unsigned char)*key) : *key);
	}
	out[n] = '\0';
}

static int read_environment(void *into, const struct config_key *keys, size_t n)
{
	char warning[MISSPELT_BYTES];
	size_t at = 0;
	int errors = 0;

	while (misspelt_warning(&at, warning))
		log_warn("environment", "%s", warning);

	for (size_t i = 0; i < n; i++) {
		char name[CONFIG_KEY_BYTES], why[256];
		const char *v;

		derive(keys[i].key, "SYSOM_", true, name, sizeof(name));
		v = getenv(name);
		if (v && config_set(into, &keys[i], v, why, sizeof(why))) {
			fprintf(stderr, "%s: %s\n", name, why);
			errors++;
		}
	}
	return errors ? -1 : 0;
}

static void print_value(FILE *to, const void *values, const struct config_key *k)
{
	const char *at = (const char *)values + k->offset;
	const char *p = k->choices;

	switch (k->type) {
	case CONFIG_STRING:
		fputc('"', to);
		for (; *at; at++)
			fprintf(to, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
		fputc('"', to);
		break;
	case CONFIG_BOOL:
		fputs(*(const bool *)at ? "true" : "false", to);
		break;
	case CONFIG_DOUBLE:
		fprintf(to, "%g", *(const double *)at);
		break;
	case CONFIG_ENUM:
		for (int i = *(const int *)at; i > 0; i--)
			p += strcspn(p, "|") + 1;
		fprintf(to, "%.*s", (int)strcspn(p, "|"), p);
		break;
	default: {
		const struct unit *units = k->type == CONFIG_BYTES	? byte_units
					   : k->type == CONFIG_DURATION ? time_units
									: no_units;
		uint64_t v = *(const uint64_t *)at;
		const struct unit *best = &units[0];

		for (const struct unit *u = units; u->name; u++)
			if (v && u->factor >= best->factor && u->factor <= (double)v &&
			    v % (uint64_t)u->factor == 0)
				best = u;
		fprintf(to, "%llu%s%s", (unsigned long long)(v / (uint64_t)best->factor),
			k->type == CONFIG_BYTES && *best->name ? " " : "", best->name);
	}
	}
}

void config_print(FILE *to, const void *values, const struct config_key *keys, size_t n)
{
	char section[CONFIG_KEY_BYTES] = "";

	for (size_t i = 0; i < n; i++) {
		const char *dot = strchr(keys[i].key, '.');
		size_t len = dot ? (size_t)(dot - keys[i].key) : 0;
		const char *indent = dot ? "  " : "";

		if (len != strlen(section) || strncmp(section, keys[i].key, len)) {
			snprintf(section, sizeof(section), "%.*s", (int)len, keys[i].key);
			if (len)
				fprintf(to, "\n%s:\n", section);
		}
		fprintf(to, "%s# %s", indent, keys[i].help);
		if (keys[i].choices)
			fprintf(to, " (%s)", keys[i].choices);
		fprintf(to, "\n%s%s: ", indent, dot ? dot + 1 : keys[i].key);
		print_value(to, values, &keys[i]);
		fputc('\n', to);
	}
}

/* Prints a text broken between words; further lines begin below its beginning. */
static void print_wrapped(const char *text)
{
	unsigned column = HELP_INDENT - 1;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (column >= HELP_INDENT && column + 1 + word > HELP_COLUMNS) {
			printf("\n%*s", HELP_INDENT - 1, "");
			column = HELP_INDENT - 1;
		}
		column += (unsigned)printf(" %.*s", (int)word, text);
		text += word + (text[word] == ' ');
	}
	putchar('\n');
}

static void print_help(const struct config_key *keys, size_t n, const char *program,
		       const char *about, const char *default_path, const void *initial)
{
	printf("usage: %s [--config FILE] [--SETTING VALUE]...\n%s\n\n", program, about);
	printf("  --config FILE      settings in YAML (default %s, if it is there)\n",
	       default_path);
	printf("  --check-config     say whether the settings are good, and exit\n");
	printf("  --print-config     print the settings in force, commented, and exit\n");
	printf("  --version, --help\n\nsettings (file < environment SYSOM_... < flag):\n");
	for (size_t i = 0; i < n; i++) {
		char flag[CONFIG_KEY_BYTES], *text = NULL;
		size_t bytes;
		FILE *to = open_memstream(&text, &bytes);

		if (!to)
			return;
		derive(keys[i].key, "--", false, flag, sizeof(flag));
		printf("  %-*s", HELP_INDENT - 3, flag);
		fputs(keys[i].help, to);
		if (keys[i].choices)
			fprintf(to, " (%s)", keys[i].choices);
		fputs(" [", to);
		print_value(to, initial, &keys[i]);
		fputs("]", to);
		if (!fclose(to))
			print_wrapped(text);
		free(text);
	}
}

static int read_flag(void *into, const struct config_key *keys, size_t n, const char *program,
		     int argc, char **argv, int *i)
{
	const char *arg = argv[*i], *value = strchr(arg, '=');
	char name[CONFIG_KEY_BYTES], why[256];
	size_t len = value ? (size_t)(value - arg) : strlen(arg);

	for (size_t k = 0; k < n; k++) {
		derive(keys[k].key, "--", false, name, sizeof(name));
		if (strlen(name) != len || strncmp(name, arg, len))
			continue;
		if (value)
			value++;
		else if (keys[k].type == CONFIG_BOOL && (*i + 1 >= argc || argv[*i + 1][0] == '-'))
			value = "true";
		else if (*i + 1 < argc)
			value = argv[++*i];
		else {
			fprintf(stderr, "%s: %s: needs a value\n", program, name);
			return -1;
		}
		if (config_set(into, &keys[k], value, why, sizeof(why))) {
			fprintf(stderr, "%s: %s: %s\n", program, name, why);
			return -1;
		}
		return 0;
	}
	fprintf(stderr, "%s: %s: no such option; --help lists them\n", program, arg);
	return -1;
}

struct switches {
	const char *path;
	bool required, check, print;
};

/* Reads the switches that are not settings. Flags of settings are read later, after file and
 * environment, which they override. */
static enum config_result read_switches(struct switches *s, const char *program, int argc,
					char **argv, bool *help)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			*help = true;
		else if (!strcmp(argv[i], "--version")) {
			printf("%s %s\n", program, SYSOM_VERSION);
			return CONFIG_EXIT_OK;
		} else if (!strcmp(argv[i], "--check-config"))
			s->check = true;
		else if (!strcmp(argv[i], "--print-config"))
			s->print = true;
		else if (!strncmp(argv[i], "--config=", 9)) {
			s->path = argv[i] + 9;
			s->required = true;
		} else if (!strcmp(argv[i], "--config")) {
			if (i + 1 >= argc) {
				fprintf(stderr, "%s: --config: needs a file\n", program);
				return CONFIG_EXIT_BAD;
			}
			s->path = argv[++i];
			s->required = true;
		}
	}
	return CONFIG_RUN;
}

static bool is_switch(char **argv, int *i)
{
	const char *a = argv[*i];

	if (!strcmp(a, "--config")) {
		++*i;
		return true;
	}
	return !strncmp(a, "--config=", 9) || !strcmp(a, "--check-config") ||
	       !strcmp(a, "--print-config");
}

enum config_result config_load(void *into, const struct config_key *keys, size_t n,
			       const char *program, const char *about, const char *default_path,
			       int argc, char **argv, config_check_fn check)
{
	struct switches s = {.path = default_path};
	struct reader r = {.into = into, .keys = keys, .key_count = n};
	enum config_result result;
	bool help = false;
	char why[256];

	for (size_t i = 0; i < n; i++)
		if (config_set(into, &keys[i], keys[i].initial, why, sizeof(why))) {
			fprintf(stderr, "%s: initial value: %s\n", keys[i].key, why);
			abort();
		}
	result = read_switches(&s, program, argc, argv, &help);
	if (result != CONFIG_RUN)
		return result;
	if (help) {
		print_help(keys, n, program, about, default_path, into);
		return CONFIG_EXIT_OK;
	}
	r.path = s.path;
	if (read_file(&r, s.required) || read_environment(into, keys, n))
		return CONFIG_EXIT_BAD;
	for (int i = 1; i < argc; i++)
		if (!is_switch(argv, &i) && read_flag(into, keys, n, program, argc, argv, &i))
			return CONFIG_EXIT_BAD;
	if (check && check(into, why, sizeof(why))) {
		fprintf(stderr, "%s: %s\n", access(s.path, R_OK) ? program : s.path, why);
		return CONFIG_EXIT_BAD;
	}
	if (s.print) {
		printf("# %s: every setting. Flags (--log-level) and environment (SYSOM_LOG_LEVEL) "
		       "override this file.\n",
		       program);
		config_print(stdout, into, keys, n);
		return CONFIG_EXIT_OK;
	}
	if (s.check) {
		printf("%s: settings are good\n", access(s.path, R_OK) ? program : s.path);
		return CONFIG_EXIT_OK;
	}
	return CONFIG_RUN;
}

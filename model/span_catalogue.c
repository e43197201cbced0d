/* SPDX-License-Identifier: Apache-2.0
 * Uses libyaml's documents, not its events: the parts of a document can be checked in any order,
 * and each node carries its line. */
#include "model/span_catalogue.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/span_kind.h"

static const char *const processes[] = {
#define X(name) name,
    SPAN_PROCESSES(X)
#undef X
};
static const char *const threads[] = {
#define X(name) name,
    SPAN_THREADS(X)
#undef X
};
static const char *const works[] = {
#define X(name) name,
    SPAN_WORKS(X)
#undef X
};
static const char *const starts[] = {"gpu", "import"};

struct catalogue {
	struct buf *out;
	const char *path;
	FILE *errors;
	yaml_document_t doc;
	struct span_catalogue_count *count;
	unsigned error_count;
	const char *seen[LIMIT_SPAN_COUNT]; /* names in this catalogue */
	unsigned seen_count;
};

static void complain(struct catalogue *c, const yaml_node_t *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void complain(struct catalogue *c, const yaml_node_t *at, const char *fmt, ...)
{
	va_list ap;

	fprintf(c->errors, "%s:%zu: ", c->path, at ? at->start_mark.line + 1 : 1);
	va_start(ap, fmt);
	vfprintf(c->errors, fmt, ap);
	va_end(ap);
	fputc('\n', c->errors);
	c->error_count++;
}

static yaml_node_t *node_of(struct catalogue *c, int index)
{
	return yaml_document_get_node(&c->doc, index);
}

/* A scalar's text. NULL, after a message: the node is no scalar, is empty or too long, or has bytes
 * that a line cannot have. */
static const char *text_of(struct catalogue *c, const yaml_node_t *n, const char *what)
{
	const char *text;

	if (n->type != YAML_SCALAR_NODE) {
		complain(c, n, "%s must be one word or text", what);
		return NULL;
	}
	text = (const char *)n->data.scalar.value;
	if (!n->data.scalar.length || n->data.scalar.length > LIMIT_SPAN_TEXT_BYTES) {
		complain(c, n, "%s must have 1 to %u bytes", what, LIMIT_SPAN_TEXT_BYTES);
		return NULL;
	}
	for (size_t i = 0; i < n->data.scalar.length; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
			complain(c, n, "%s has a control character", what);
			return NULL;
		}
	return text;
}

/* The index of a word; -1 after a message that lists the words. */
static int word_of(struct catalogue *c, const yaml_node_t *n, const char *what,
		   const char *const *words, size_t word_count)
{
	const char *text = text_of(c, n, what);
	char list[160] = "";

	for (size_t i = 0; text && i < word_count; i++)
		if (!strcmp(text, words[i]))
			return (int)i;
	for (size_t i = 0; i < word_count; i++) {
		size_t at = strlen(list);

		snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", words[i]);
	}
	if (text)
		complain(c, n, "%s: \"%s\" is not one of %s", what, text, list);
	return -1;
}

/* Python's identifiers, as far as catalogues need them: ASCII, or any byte above. */
static size_t identifier(const char *text)
{
	size_t n = 0;

	while (text[n] == '_' || isalpha((unsigned char)text[n]) || (text[n] & 0x80) ||
	       (n && isdigit((unsigned char)text[n])))
		n++;
	return n;
}

/* The length of a dotted name of at most `most` parts; 0: the text is no such name. `locals`:
 * "<locals>" may stand between two parts. */
static size_t dotted(const char *text, unsigned most, bool locals)
{
	size_t at = 0;

	for (unsigned parts = 1; parts <= most; parts++) {
		size_t n = identifier(text + at);

		if (!n && locals && parts > 1 && !strncmp(text + at, "<locals>.", 9))
			n = 8;
		if (!n)
			return 0;
		at += n;
		if (text[at] != '.')
			return at;
		at++;
	}
	return 0;
}

static void put_function(struct catalogue *c, const yaml_node_t *n)
{
	const char *text = text_of(c, n, "a function"), *name;
	size_t module;

	if (!text)
		return;
	module = dotted(text, LIMIT_SPAN_PARTS, false);
	name = text + module + 1;
	if (!module || text[module] != ':' || !dotted(name, LIMIT_SPAN_PARTS, true) ||
	    name[dotted(name, LIMIT_SPAN_PARTS, true)]) {
		complain(c, n, "\"%s\" is not MODULE:FUNCTION or MODULE:CLASS.METHOD", text);
		return;
	}
	if (c->count->functions == LIMIT_SPAN_FUNCTIONS) {
		complain(c, n, "more than %u functions", LIMIT_SPAN_FUNCTIONS);
		return;
	}
	c->count->functions++;
	buf_printf(c->out, "function\t%.*s\t%s\n", (int)module, text, name);
}

/* The words that a term may have besides its path, and their signs in the compiled form. */
static const struct {
	const char *word;
	char sign;
} forms[] = {{"len", '#'}, {"sum", '+'}, {"ones", '='}, {"base", '-'}};

/* Appends the term, PATH or FORM(PATH), at `text`. Returns its length; 0: there is no term. */
static size_t put_term(struct catalogue *c, const char *text)
{
	size_t path;

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		size_t n = strlen(forms[i].word);

		if (strncmp(text, forms[i].word, n) || text[n] != '(')
			continue;
		path = dotted(text + n + 1, LIMIT_SPAN_PARTS, false);
		if (!path || text[n + 1 + path] != ')')
			return 0;
		buf_printf(c->out, "%c%.*s", forms[i].sign, (int)path, text + n + 1);
		return n + path + 2;
	}
	path = dotted(text, LIMIT_SPAN_PARTS, false);
	buf_printf(c->out, "%.*s", (int)path, text);
	return path;
}

/* Appends where a value is: terms that are added up. */
static void put_value(struct catalogue *c, const yaml_node_t *n, const char *what)
{
	const char *text = text_of(c, n, what), *at = text;
	size_t bytes;

	if (!text)
		return;
	buf_printf(c->out, "%s\t", what);
	while ((bytes = put_term(c, at)) != 0 && !strncmp(at + bytes, " + ", 3)) {
		buf_puts(c->out, " ");
		at += bytes + 3;
	}
	if (!bytes || at[bytes])
		complain(c, n,
			 "%s: \"%s\" is not ARGUMENT or ARGUMENT.ATTRIBUTE, len(...), sum(...), "
			 "ones(...) or base(...) of them, or several with \" + \" between, with at "
			 "most %u names",
			 what, text, LIMIT_SPAN_PARTS);
	buf_puts(c->out, "\n");
}

/* Appends an NVTX pattern: "step {tokens} of *". The word in braces names a work. */
static void put_nvtx(struct catalogue *c, const yaml_node_t *n)
{
	const char *text = text_of(c, n, "nvtx");

	for (const char *at = text; at && (at = strchr(at, '{')); at++) {
		bool good = false;

		for (size_t i = 0; i < ARRAY_LEN(works); i++) {
			size_t bytes = strlen(works[i]);

			good |= !strncmp(at + 1, works[i], bytes) && at[bytes + 1] == '}';
		}
		if (good)
			continue;
		complain(
		    c, n,
		    "nvtx: in \"%s\" a brace is not one of {tokens}, {batch}, {context}, {drafts}",
		    text);
		return;
	}
	if (text && c->count->nvtx == LIMIT_SPAN_NVTX) {
		complain(c, n, "more than %u patterns of nvtx", LIMIT_SPAN_NVTX);
		return;
	}
	c->count->nvtx++;
	if (text)
		buf_printf(c->out, "nvtx\t%s\n", text);
}

static bool yes(struct catalogue *c, const yaml_node_t *n, const char *what)
{
	static const char *const words[] = {"false", "true"};

	return word_of(c, n, what, words, 2) == 1;
}

enum span_key {
	NVTX,
	NAME,
	FUNCTIONS,
	PROCESS,
	THREAD,
	WORK,
	REQUEST,
	REQUESTS,
	STEP,
	DECODE,
	SPAN_KEYS
};
static const char *const span_keys[SPAN_KEYS] = {"nvtx",   "name",  "functions", "process",
						 "thread", "work",  "request",	 "requests",
						 "step",   "decode"};

/* Gets the values of a mapping's keys, in the order of `keys`. Reports unknown keys and
 * duplicates. */
static bool map_of(struct catalogue *c, const yaml_node_t *n, const char *what,
		   const char *const *keys, yaml_node_t **value, size_t count)
{
	memset(value, 0, count * sizeof(*value));
	if (n->type != YAML_MAPPING_NODE) {
		complain(c, n, "%s must be a mapping", what);
		return false;
	}
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
	     p++) {
		const yaml_node_t *key = node_of(c, p->key);
		int which = word_of(c, key, "a key", keys, count);

		if (which >= 0 && value[which])
			complain(c, key, "%s is given twice", keys[which]);
		if (which >= 0)
			value[which] = node_of(c, p->value);
	}
	return true;
}

static void put_work(struct catalogue *c, const yaml_node_t *n)
{
	yaml_node_t *v[ARRAY_LEN(works)];

	if (!map_of(c, n, "work", works, v, ARRAY_LEN(works)))
		return;
	for (size_t i = 0; i < ARRAY_LEN(works); i++)
		if (v[i])
			put_value(c, v[i], works[i]);
}

/* Appends where the requests of a span are: a dict ID -> count, a list of ids, or a list of objects
 * and the attributes to read from them. */
static void put_requests(struct catalogue *c, const yaml_node_t *n)
{
	static const char *const keys[] = {"in", "id", "tokens", "done"};
	static const char *const lines[] = {"requests", "requests.id", "requests.tokens",
					    "requests.done"};
	yaml_node_t *v[4];

	if (n->type == YAML_SCALAR_NODE) {
		put_value(c, n, "requests");
		return;
	}
	if (!map_of(c, n, "requests", keys, v, 4))
		return;
	if (!v[0] || !v[1])
		complain(c, n,
			 "requests needs in and id, as in {in: batch.requests, id: request_id}");
	for (unsigned i = 0; i < 4; i++)
		if (v[i])
			put_value(c, v[i], lines[i]);
}

static void note_name(struct catalogue *c, const yaml_node_t *n, const char *name)
{
	for (unsigned i = 0; i < c->seen_count; i++)
		if (!strcmp(c->seen[i], name))
			complain(c, n, "there are two spans \"%s\"; one may name several functions",
				 name);
	if (c->seen_count < LIMIT_SPAN_COUNT)
		c->seen[c->seen_count++] = name;
}

static void put_span(struct catalogue *c, const yaml_node_t *n)
{
	yaml_node_t *v[SPAN_KEYS];
	const char *name;
	int process = 0, thread = 0;
	bool step;

	if (!map_of(c, n, "a span", span_keys, v, SPAN_KEYS))
		return;
	if (!v[NAME] || (!v[FUNCTIONS] && !v[NVTX])) {
		complain(c, n, "a span needs a name, and functions or nvtx");
		return;
	}
	name = text_of(c, v[NAME], "name");
	if (!name)
		return;
	note_name(c, v[NAME], name);
	if (c->count->spans == LIMIT_SPAN_COUNT) {
		complain(c, n, "more than %u spans", LIMIT_SPAN_COUNT);
		return;
	}
	c->count->spans++;
	if (v[PROCESS])
		process = word_of(c, v[PROCESS], "process", processes, ARRAY_LEN(processes));
	if (v[THREAD])
		thread = word_of(c, v[THREAD], "thread", threads, ARRAY_LEN(threads));
	step = v[STEP] && yes(c, v[STEP], "step");
	buf_printf(c->out, "span\t%s\t%d\t%d\t%d\n", name, process, thread, step);
	if (v[WORK])
		put_work(c, v[WORK]);
	if (v[REQUEST])
		put_value(c, v[REQUEST], "request");
	if (v[REQUESTS])
		put_requests(c, v[REQUESTS]);
	if (v[DECODE])
		put_value(c, v[DECODE], "decode");
	if (v[NVTX])
		put_nvtx(c, v[NVTX]);
	if (!v[FUNCTIONS])
		return;
	if (v[FUNCTIONS]->type != YAML_SEQUENCE_NODE ||
	    v[FUNCTIONS]->data.sequence.items.start == v[FUNCTIONS]->data.sequence.items.top) {
		complain(c, v[FUNCTIONS], "functions must be a list of MODULE:FUNCTION");
		return;
	}
	for (yaml_node_item_t *i = v[FUNCTIONS]->data.sequence.items.start;
	     i < v[FUNCTIONS]->data.sequence.items.top; i++)
		put_function(c, node_of(c, *i));
}

static void put_catalogue(struct catalogue *c, const yaml_node_t *root)
{
	static const char *const keys[] = {"framework", "start", "spans"};
	yaml_node_t *v[3];
	const char *framework;
	int start;

	if (!root) {
		complain(c, NULL, "the file is empty");
		return;
	}
	if (!map_of(c, root, "a catalogue", keys, v, 3))
		return;
	if (!v[0] || !v[1] || !v[2]) {
		complain(c, root, "a catalogue needs framework, start and spans");
		return;
	}
	framework = text_of(c, v[0], "framework");
	start = word_of(c, v[1], "start", starts, ARRAY_LEN(starts));
	if (v[2]->type != YAML_SEQUENCE_NODE) {
		complain(c, v[2], "spans must be a list");
		return;
	}
	buf_printf(c->out, "framework\t%s\t%d\n", framework ? framework : "", start);
	for (yaml_node_item_t *i = v[2]->data.sequence.items.start;
	     i < v[2]->data.sequence.items.top; i++)
		put_span(c, node_of(c, *i));
}

void span_catalogue_head(struct buf *out)
{
	buf_puts(out, SPAN_TABLE_HEAD "\n");
}

unsigned span_catalogue_compile(struct buf *out, const char *path, const char *text, size_t bytes,
				struct span_catalogue_count *count, FILE *errors)
{
	struct catalogue c = {.out = out, .path = path, .errors = errors, .count = count};
	yaml_document_t more;
	yaml_parser_t parser;

	if (!yaml_parser_initialize(&parser)) {
		fprintf(errors, "%s: out of memory\n", path);
		return 1;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	if (yaml_parser_load(&parser, &c.doc)) {
		const yaml_node_t *root = yaml_document_get_root_node(&c.doc);

		put_catalogue(&c, root);
		if (root && yaml_parser_load(&parser, &more)) {
			if (yaml_document_get_root_node(&more))
				complain(&c, yaml_document_get_root_node(&more),
					 "a second document; write one file for each");
			yaml_document_delete(&more);
		}
		yaml_document_delete(&c.doc);
	}
	if (parser.error) {
		fprintf(errors, "%s:%zu: %s%s%s\n", path, parser.problem_mark.line + 1,
			parser.context ? parser.context : "", parser.context ? ": " : "",
			parser.problem ? parser.problem : "not YAML");
		c.error_count++;
	}
	if (out->failed || out->bytes > LIMIT_SPAN_TABLE_BYTES) {
		fprintf(errors, "%s: the catalogues exceed %u bytes\n", path,
			LIMIT_SPAN_TABLE_BYTES);
		c.error_count++;
	}
	yaml_parser_delete(&parser);
	return c.error_count;
}

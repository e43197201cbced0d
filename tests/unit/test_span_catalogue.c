/* SPDX-License-Identifier: Apache-2.0
 * Catalogues of spans: YAML to lines, what is wrong with a file and where, and the lines as the
 * preload reads them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/span_catalogue.h"
#include "preload/python/span_table.h"
#include "preload/span_pattern.h"

#define HEAD "framework: f\nstart: import\nspans:\n"
#define SPAN "  - name: s\n    functions: [\"m:f\"]\n"

static char messages[4096];
static struct span_table table;

/* The compiled form, and the messages; the count of errors. */
static unsigned compile(struct buf *out, const char *yaml)
{
	struct span_catalogue_count count = {0};
	FILE *f = fmemopen(messages, sizeof(messages), "w");
	unsigned errors;

	buf_init(out, 2 * LIMIT_SPAN_TABLE_BYTES);
	span_catalogue_head(out);
	errors = span_catalogue_compile(out, "x.yaml", yaml, strlen(yaml), &count, f);
	fclose(f);
	return errors;
}

static void refused(const char *yaml, const char *message)
{
	struct buf out;

	memset(messages, 0, sizeof(messages));
	assert_int_not_equal(compile(&out, yaml), 0);
	buf_fini(&out);
	if (!strstr(messages, message))
		fail_msg("\"%s\" is not in: %s", message, messages);
}

static void says_what_is_wrong_and_where(void **state)
{
	refused("", "x.yaml:1: the file is empty");
	refused("[1, 2", "x.yaml:");
	refused("- a\n", "x.yaml:1: a catalogue must be a mapping");
	refused("framework: f\n", "a catalogue needs framework, start and spans");
	refused("framework: f\nstart: now\nspans: []\n",
		"x.yaml:2: start: \"now\" is not one of gpu, import");
	refused("framework: f\nstart: gpu\nspans: {}\n", "x.yaml:3: spans must be a list");
	refused("framework: f\nstart: gpu\nspans: []\nspan: []\n", "x.yaml:4: a key: \"span\"");
	refused(HEAD "  - name: s\n", "x.yaml:4: a span needs a name, and functions or nvtx");
	refused(HEAD SPAN SPAN, "x.yaml:6: there are two spans \"s\"");
	refused(HEAD SPAN "    process: gpu\n",
		"x.yaml:6: process: \"gpu\" is not one of any, api");
	refused(HEAD SPAN "    step: 1\n", "x.yaml:6: step: \"1\" is not one of false, true");
	refused(HEAD SPAN "    name: t\n", "x.yaml:6: name is given twice");
	refused(HEAD SPAN "    work: 3\n", "x.yaml:6: work must be a mapping");
	refused(HEAD SPAN "    work: {flops: a}\n",
		"x.yaml:6: a key: \"flops\" is not one of tokens");
	refused(HEAD SPAN "    work: {tokens: a, tokens: b}\n", "x.yaml:6: tokens is given twice");
	refused(HEAD SPAN "    request: a.b()\n", "x.yaml:6: request: \"a.b()\" is not ARGUMENT");
	refused(HEAD SPAN "    request: len(a\n", "x.yaml:6: request: \"len(a\"");
	refused(HEAD SPAN "    work: {tokens: max(a)}\n", "x.yaml:6: tokens: \"max(a)\"");
	refused(HEAD SPAN "    work: {tokens: a + }\n", "x.yaml:6: tokens: \"a +\"");
	refused(HEAD SPAN "    work: {tokens: a+b}\n", "x.yaml:6: tokens: \"a+b\"");
	refused(HEAD SPAN "    requests: [a]\n", "x.yaml:6: requests must be a mapping");
	refused(HEAD SPAN "    requests: {in: a}\n", "x.yaml:6: requests needs in and id");
	refused(HEAD SPAN "    requests: {in: a, id: b, of: c}\n", "x.yaml:6: a key: \"of\"");
	refused(HEAD SPAN "    request: a.b.c.d.e.f.g.h.i\n", "with at most 8 names");
	refused(HEAD "  - name: \"a\\tb\"\n    functions: [\"m:f\"]\n",
		"x.yaml:4: name has a control");
	refused(HEAD "  - name: s\n    functions: [m.f]\n",
		"x.yaml:5: \"m.f\" is not MODULE:FUNCTION");
	refused(HEAD "  - name: s\n    functions: [\"m:f..g\"]\n", "is not MODULE:FUNCTION");
	refused(HEAD "  - name: s\n    functions: [\"m:<locals>.g\"]\n", "is not MODULE:FUNCTION");
	refused(HEAD "  - name: s\n    functions: []\n", "x.yaml:5: functions must be a list");
	refused(HEAD SPAN "---\na: b\n", "x.yaml:7: a second document");
}

static void bounds_hold(void **state)
{
	struct buf yaml;

	buf_init(&yaml, 1 << 20);
	buf_puts(&yaml, HEAD);
	for (unsigned i = 0; i <= LIMIT_SPAN_COUNT; i++)
		buf_printf(&yaml, "  - {name: s%u, functions: [\"m:f%u\"]}\n", i, i);
	buf_append(&yaml, "", 1);
	refused((const char *)yaml.data, "more than 256 spans");
	buf_clear(&yaml);
	buf_puts(&yaml, HEAD "  - name: s\n    functions:\n");
	for (unsigned i = 0; i <= LIMIT_SPAN_FUNCTIONS; i++)
		buf_printf(&yaml, "      - \"m:f%u\"\n", i);
	buf_append(&yaml, "", 1);
	refused((const char *)yaml.data, "more than 512 functions");
	buf_clear(&yaml);
	buf_puts(&yaml, HEAD "  - functions: [\"m:f\"]\n    name: ");
	for (unsigned i = 0; i <= LIMIT_SPAN_TEXT_BYTES; i++)
		buf_puts(&yaml, "n");
	buf_append(&yaml, "", 1);
	refused((const char *)yaml.data, "name must have 1 to 160 bytes");
	buf_fini(&yaml);
}

static void the_preload_reads_what_was_written(void **state)
{
	struct buf out;
	const struct span_row *r = &table.rows[0];

	assert_int_equal(compile(&out,
				 HEAD "  - name: A b\n"
				      "    process: worker\n    thread: loop\n    step: true\n"
				      "    work: {batch: len(a.b), tokens: return.n}\n"
				      "    request: base(q)\n"
				      "    requests: {in: a.b, id: i, tokens: len(t), done: d}\n"
				      "    decode: ones(a.c) + len(a.d) + sum(a)\n"
				      "    functions: [\"m.n:C.f\", \"m:g.<locals>.h\"]\n"
				      "  - {name: t, functions: [\"m:f\"]}\n"),
			 0);
	assert_int_equal(span_table_parse(&table, (char *)out.data, out.bytes), 0);
	assert_int_equal(table.row_count, 2);
	assert_int_equal(table.function_count, 3);
	assert_string_equal(r->name, "A b");
	assert_int_equal(r->process, 3);
	assert_int_equal(r->thread, 2);
	assert_true(r->step && r->on_import);
	assert_string_equal(r->value[0], "return.n");
	assert_string_equal(r->value[1], "#a.b");
	assert_null(r->value[2]);
	assert_string_equal(r->value[SPAN_VALUE_REQUEST], "-q");
	assert_string_equal(r->value[SPAN_VALUE_DECODE], "=a.c #a.d +a");
	assert_string_equal(r->value[SPAN_VALUE_REQUESTS], "a.b");
	assert_string_equal(r->value[SPAN_VALUE_ITEM + SPAN_ITEM_ID], "i");
	assert_string_equal(r->value[SPAN_VALUE_ITEM + SPAN_ITEM_TOKENS], "#t");
	assert_string_equal(r->value[SPAN_VALUE_ITEM + SPAN_ITEM_DONE], "d");
	assert_string_equal(table.functions[0].module, "m.n");
	assert_string_equal(table.functions[0].name, "C.f");
	assert_string_equal(table.functions[1].name, "g.<locals>.h");
	assert_int_equal(table.functions[2].row, 1);
	assert_false(table.rows[1].step);
	buf_fini(&out);
}

static void damaged_tables_are_refused_whole(void **state)
{
	static const char *const bad[] = {
	    "",
	    "sysom-spans 2\n",
	    "sysom-spans 1",
	    "sysom-spans 1\nspan\n",
	    "sysom-spans 1\nspan\ts\t0\t0\n",
	    "sysom-spans 1\nspan\ts\t9\t0\t0\n",
	    "sysom-spans 1\nspan\ts\t0\t0\t2\n",
	    "sysom-spans 1\nspan\ts\t0\t0\t0\t0\n",
	    "sysom-spans 1\nfunction\tm\tf\n",
	    "sysom-spans 1\nspan\ts\t0\t0\t0\nfunction\tm\n",
	    "sysom-spans 1\nspan\ts\t0\t0\t0\ntokens\t\n",
	    "sysom-spans 1\nspan\ts\t0\t0\t0\nflops\ta\n",
	    "sysom-spans 1\nframework\tf\t3\n",
	};
	char text[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		strcpy(text, bad[i]);
		assert_int_not_equal(span_table_parse(&table, text, strlen(bad[i])), 0);
		assert_int_equal(table.row_count + table.function_count, 0);
	}
	memcpy(text, "sysom-spans 1\nspan\0\n", 20);
	assert_int_equal(span_table_parse(&table, text, 20), 2);
}

/* Any change of one byte, and any cut: no crash, and never more than the bounds. */
static void every_damage_is_survived(void **state)
{
	static const char whole[] = "sysom-spans 1\nframework\tf\t1\nspan\ts\t1\t1\t1\n"
				    "tokens\t#a.b\nrequest\tq\nfunction\tm\tC.f\n";
	char text[sizeof(whole)];

	for (size_t at = 0; at < sizeof(whole) - 1; at++)
		for (int c = 0; c < 256; c++) {
			memcpy(text, whole, sizeof(whole));
			text[at] = (char)c;
			span_table_parse(&table, text, sizeof(whole) - 1);
			assert_true(table.function_count <= 2 && table.row_count <= 2);
			memcpy(text, whole, sizeof(whole));
			span_table_parse(&table, text, at);
		}
}

static void our_own_catalogues_are_good(void **state)
{
	static char text[LIMIT_SPAN_TABLE_BYTES];
	struct span_catalogue_count count = {0};
	struct buf out;
	glob_t files;

	assert_int_equal(glob("conf/spans/*.yaml", 0, NULL, &files), 0);
	assert_true(files.gl_pathc >= 5);
	buf_init(&out, 2 * LIMIT_SPAN_TABLE_BYTES);
	span_catalogue_head(&out);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		FILE *f = fopen(files.gl_pathv[i], "re");
		size_t n = fread(text, 1, sizeof(text), f);

		fclose(f);
		assert_int_equal(
		    span_catalogue_compile(&out, files.gl_pathv[i], text, n, &count, stderr), 0);
	}
	globfree(&files);
	assert_int_equal(span_table_parse(&table, (char *)out.data, out.bytes), 0);
	assert_int_equal(table.row_count, count.spans);
	assert_int_equal(table.function_count, count.functions);
	buf_fini(&out);
}

/* ---- NVTX ---- */

static bool matches(const char *pattern, const char *text, float tokens, float batch)
{
	float work[SPAN_WORK_MAX];

	return span_pattern_match(pattern, text, strlen(text), work) && work[0] == tokens &&
	       work[1] == batch;
}

static void a_pattern_takes_work_from_a_text(void **state)
{
	float work[SPAN_WORK_MAX];

	assert_true(matches("step", "step", 0, 0));
	assert_true(matches("step {tokens}", "step 512", 512, 0));
	assert_true(matches("execute_{batch}({tokens})", "execute_8(4096)", 4096, 8));
	assert_true(
	    matches("*_{batch}({tokens})*", "execute_context_8(4096)_generation_2(2)", 4096, 8));
	assert_true(matches("*", "", 0, 0));
	assert_true(matches("a*b*c", "a-b-b-c", 0, 0));
	assert_true(matches("{tokens}{batch}", "12", 12, 0) == false);
	assert_false(matches("step", "steps", 0, 0));
	assert_false(matches("step", "ste", 0, 0));
	assert_false(matches("step {tokens}", "step", 0, 0));
	assert_false(matches("step {tokens}", "step x", 0, 0));
	assert_false(matches("step {tokens}", "step -3", 0, 0));
	assert_false(matches("step {tokens}", "step 1234567890123456", 0, 0));
	/* braces that no compiler lets pass stand for themselves */
	assert_true(matches("{x}", "{x}", 0, 0));
	assert_false(span_pattern_match("step {tokens} end", "step 5 en", 9, work));
	assert_true(work[0] == 0);
}

static void a_hostile_text_costs_no_more_than_its_length(void **state)
{
	static char text[1 << 20];
	float work[SPAN_WORK_MAX];

	memset(text, 'a', sizeof(text));
	assert_false(span_pattern_match("*a*a*a*a*a*a*b", text, sizeof(text), work));
	assert_true(span_pattern_match("*a*", text, sizeof(text), work));
}

static void compiles_patterns_of_nvtx(void **state)
{
	struct buf out;

	assert_int_equal(compile(&out, HEAD "  - name: s\n    step: true\n"
					    "    nvtx: \"step {tokens} of *\"\n"),
			 0);
	assert_int_equal(span_table_parse(&table, (char *)out.data, out.bytes), 0);
	assert_int_equal(table.nvtx_count, 1);
	assert_string_equal(table.nvtx[0].pattern, "step {tokens} of *");
	assert_true(table.rows[table.nvtx[0].row].step);
	buf_fini(&out);
	refused(HEAD "  - name: s\n    nvtx: \"step {token}\"\n",
		"x.yaml:5: nvtx: in \"step {token}\"");
	refused(HEAD "  - name: s\n    nvtx: [a]\n", "x.yaml:5: nvtx must be one word or text");
	refused(HEAD "  - name: s\n", "x.yaml:4: a span needs a name, and functions or nvtx");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(says_what_is_wrong_and_where),
	    cmocka_unit_test(bounds_hold),
	    cmocka_unit_test(the_preload_reads_what_was_written),
	    cmocka_unit_test(damaged_tables_are_refused_whole),
	    cmocka_unit_test(every_damage_is_survived),
	    cmocka_unit_test(our_own_catalogues_are_good),
	    cmocka_unit_test(a_pattern_takes_work_from_a_text),
	    cmocka_unit_test(a_hostile_text_costs_no_more_than_its_length),
	    cmocka_unit_test(compiles_patterns_of_nvtx),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

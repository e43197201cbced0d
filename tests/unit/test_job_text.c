/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/report/job_text.h"
#include "render/term.h"

static char *printed(const json_t *answer)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	job_text_print(to, answer);
	fclose(to);
	return text;
}

static void says_when_how_much_who_and_what(void **unused)
{
	json_t *checkpoint = json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:b, s:[i], s:[i,i,i], s:s}",
				       "account", "host", "period", 50, "count", 10, "steps", 1.0,
				       "cost_ms", 1900.0, "share", 0.42, "grown", 1, "ranks", 0,
				       "waiting", 1, 2, 3, "cause", "it sleeps in save");
	json_t *evaluation =
	    json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:[i,i], s:[]}", "account", "work",
		      "period", 60, "count", 9, "steps", 12.0, "cost_ms", 320.0, "share", 0.08,
		      "launches", 37.0, "collectives", 0.0, "ranks", 0, 1, "waiting");
	json_t *answer = json_pack("{s:s, s:i, s:[o,o]}", "job", "train@0", "ranks", 4, "kinds",
				   checkpoint, evaluation);
	char *text;

	term_init();
	assert_non_null(answer);
	text = printed(answer);
	assert_non_null(strstr(text, "every 50 steps"));
	assert_non_null(strstr(text, "1.90 s"));
	assert_non_null(strstr(text, "42"));
	assert_non_null(strstr(text, "rank 0, the latest one longer than the others\n"));
	assert_non_null(strstr(text, "the GPU waits for the host: it sleeps in save\n"));
	assert_non_null(strstr(text, "ranks 1-3 wait meanwhile\n"));
	assert_non_null(strstr(text, "12 of every 60 steps"));
	assert_non_null(strstr(text, "other work: 37 launches and 0 collectives a step\n"));
	free(text);
	assert_int_equal(json_object_set_new(checkpoint, "period_s", json_real(15)), 0);
	text = printed(answer);
	assert_null(strstr(text, "every 50 steps"));
	assert_non_null(strstr(text, "every 15.0 s "));
	free(text);
	json_decref(answer);
}

static void survives_an_answer_of_another_shape(void **unused)
{
	json_t *odd = json_loads(
	    "{\"job\": 3, \"kinds\": [4, {\"ranks\": \"x\", \"period\": \"a\"}]}", 0, NULL);
	char *text = printed(odd);

	assert_non_null(strstr(text, "at no fixed interval"));
	free(text);
	json_decref(odd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(says_when_how_much_who_and_what),
	    cmocka_unit_test(survives_an_answer_of_another_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * An aggregator's answer, hostile, as text and as HTML: what reaches the terminal or the file holds
 * no control characters but newlines, and no markup of the peer's. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "render/incident_text.h"
#include "cli/report/report.h"

static void check(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
			abort();
	if (memmem(text, bytes, "<script", 7))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	json_t *in = json_loadb((const char *)data, bytes, 0, NULL);
	struct trace_model m;
	char *text = NULL;
	size_t length = 0;
	FILE *to;

	if (!json_is_object(in)) {
		json_decref(in);
		return 0;
	}
	to = open_memstream(&text, &length);
	if (to && !trace_model_init(&m)) {
		incident_text_head(to);
		incident_text_row(to, in);
		incident_text_print(to, in, NULL, NULL);
		fflush(to);
		/* text may hold "<": only the HTML is checked for markup */
		for (size_t i = 0; i < length; i++)
			if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
				abort();
		rewind(to);
		report_html_write(to, in, &m);
		fclose(to);
		check(text, length);
		trace_model_fini(&m);
	}
	free(text);
	json_decref(in);
	return 0;
}

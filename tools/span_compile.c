/* SPDX-License-Identifier: Apache-2.0
 * span_compile - at build time: the catalogues of conf/spans as the C string that
 * libsysom_preload.so carries. usage: span_compile FILE.yaml... >preload/python/spans_builtin.inc */
#include <stdlib.h>

#include "base/limits.h"
#include "model/span_catalogue.h"

static unsigned compile(struct buf *out, const char *path, struct span_catalogue_count *count)
{
	static char text[LIMIT_SPAN_TABLE_BYTES];
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text), f) : 0;

	if (!f) {
		perror(path);
		return 1;
	}
	fclose(f);
	return span_catalogue_compile(out, path, text, n, count, stderr);
}

int main(int argc, char **argv)
{
	struct span_catalogue_count count = {0};
	unsigned errors = 0;
	struct buf out;

	buf_init(&out, 2 * LIMIT_SPAN_TABLE_BYTES);
	span_catalogue_head(&out);
	for (int i = 1; i < argc; i++)
		errors += compile(&out, argv[i], &count);
	putchar('"');
	for (size_t i = 0; i < out.bytes; i++) {
		int c = out.data[i];

		if (c == '\n')
			fputs(i + 1 < out.bytes ? "\\n\"\n\"" : "\\n", stdout);
		else if (c == '\t')
			fputs("\\t", stdout);
		else if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c & 0x80)
			printf("\\%03o", c);
		else
			putchar(c);
	}
	puts("\"");
	buf_fini(&out);
	return errors ? EXIT_FAILURE : EXIT_SUCCESS;
}

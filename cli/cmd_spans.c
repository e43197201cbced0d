/* SPDX-License-Identifier: Apache-2.0
 * sysom spans check|compile FILE... - catalogues of Python functions whose calls are spans. The
 * preload has no YAML parser: it reads what `compile` writes (docs/spans.md). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/exit_status.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/text/outfile.h"
#include "model/span_catalogue.h"

static unsigned read_one(struct buf *out, const char *path, struct span_catalogue_count *count)
{
	static char text[LIMIT_SPAN_TABLE_BYTES + 1];
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	size_t n;
	bool failed;

	if (!f) {
		fprintf(stderr, "sysom spans: %s: %s\n", path, strerror(errno));
		return 1;
	}
	n = fread(text, 1, sizeof(text), f);
	failed = ferror(f);
	if (f != stdin)
		fclose(f);
	if (failed || n > LIMIT_SPAN_TABLE_BYTES) {
		fprintf(stderr, "sysom spans: %s: %s\n", path,
			failed ? "cannot be read" : "longer than 64 KiB");
		return 1;
	}
	return span_catalogue_compile(out, path, text, n, count, stderr);
}

int cmd_spans_main(const struct options *o)
{
	bool check = !strcmp(o->argv[0], "check");
	struct span_catalogue_count count = {0};
	unsigned errors = 0;
	struct outfile to;
	struct buf out;
	int err = 0;

	if (!check && strcmp(o->argv[0], "compile")) {
		fprintf(stderr, "sysom spans: \"%s\" is not check or compile\n", o->argv[0]);
		return EXIT_USAGE;
	}
	buf_init(&out, 2 * LIMIT_SPAN_TABLE_BYTES);
	span_catalogue_head(&out);
	for (int i = 1; i < o->argc; i++)
		errors += read_one(&out, o->argv[i], &count);
	if (!errors && check)
		printf("spans: %u, functions: %u, NVTX patterns: %u\n", count.spans,
		       count.functions, count.nvtx);
	if (!errors && !check) {
		err = outfile_open(&to, o->out ? o->out : "-");
		if (!err) {
			fwrite(out.data, 1, out.bytes, to.f);
			err = outfile_close(&to, 0);
		}
		if (err)
			fprintf(stderr, "sysom spans: %s: %s\n",
				o->out ? o->out : "standard output", strerror(-err));
	}
	buf_fini(&out);
	return errors ? EXIT_USAGE : err ? EXIT_FAILED : EXIT_OK;
}

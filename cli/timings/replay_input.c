/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/replay_input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/exit_status.h"
#include "render/term.h"

#define QUOTED 80u /* characters of the file in a message */

int replay_input_bad(const char *path, const struct replay_csv *c, const char *what,
		     const char *which)
{
	fprintf(stderr, "%s:%" PRIu64 ": %s%s%s\n", path, replay_csv_line(c), what,
		which ? ": " : "", which ? term_safe(which, QUOTED) : "");
	return EXIT_USAGE;
}

int replay_input_columns(const char *path, const struct replay_csv *c, const struct trace_field *f,
			 uint32_t n, const char *names, uint32_t *out, uint32_t most)
{
	const char *at;
	size_t bytes;
	int count = replay_csv_columns(f, n, names, out, most, &at, &bytes);

	if (count == -ENOENT)
		fprintf(stderr, "%s:%" PRIu64 ": no column \"%s\" in the header\n", path,
			replay_csv_line(c),
			term_safe(at, bytes < QUOTED ? (unsigned)bytes : QUOTED));
	return count;
}

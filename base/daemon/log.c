/* SPDX-License-Identifier: Apache-2.0
 * One write(2) per line, so that lines of different threads and processes do not mix. */
#include "base/daemon/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LOG_LINE_BYTES 1024
#define LOG_SITE_BURST 10

static const char *log_program = "sysom";
static enum log_level log_threshold = LOG_INFO;
static const char *const level_names[] = {"error", "warn", "info", "debug", "audit"};

void log_init(const char *program, enum log_level level)
{
	log_program = program;
	log_threshold = level;
}

void log_write(struct log_site *site, enum log_level level, const char *event, const char *fmt, ...)
{
	char line[LOG_LINE_BYTES];
	uint64_t now_ns = clock_realtime_ns();
	uint64_t second = now_ns / 1000000000ull;
	time_t t = (time_t)second;
	uint32_t held = 0;
	struct tm tm;
	va_list ap;
	size_t n;

	if (level > log_threshold && level != LOG_AUDIT)
		return;
	/* A race between threads miscounts by one or two lines, which is harmless. */
	if (site && site->second != second) {
		held = site->held_back;
		site->second = second;
		site->in_second = site->held_back = 0;
	}
	if (site && ++site->in_second > LOG_SITE_BURST) {
		site->held_back++;
		return;
	}
	gmtime_r(&t, &tm);
	n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03uZ %s level=%s event=%s ",
			      (unsigned)(now_ns / 1000000 % 1000), log_program, level_names[level],
			      event);
	va_start(ap, fmt);
	n += (size_t)vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	va_end(ap);
	if (held && n < sizeof(line))
		n += (size_t)snprintf(line + n, sizeof(line) - n, " held_back=%u", held);
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

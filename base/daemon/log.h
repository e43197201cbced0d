/* SPDX-License-Identifier: Apache-2.0
 * log.h - one line per event on standard error, key=value, for the daemons and the command line.
 * Threads: any. Rate: each call site prints at most LOG_SITE_BURST lines per second and then
 * reports how many it suppressed. preload/ and cupti/ never include this file: hooks count, they do
 * not log. */
#pragma once

#include <stdarg.h>
#include <stdint.h>

/* LOG_AUDIT, who changed what, is logged at every threshold. */
enum log_level { LOG_ERROR = 0, LOG_WARN = 1, LOG_INFO = 2, LOG_DEBUG = 3, LOG_AUDIT = 4 };

struct log_site {
	uint64_t second;
	uint32_t in_second, held_back;
};

/* program: borrowed for the process's life. */
void log_init(const char *program, enum log_level level);
/* site NULL: no rate limit. */
void log_write(struct log_site *site, enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* log_info("attach", "pid=%d rank=%d", pid, rank) */
#define LOG_AT(level, event, ...)                                                                  \
	do {                                                                                       \
		static struct log_site log_site_;                                                  \
		log_write(&log_site_, level, event, __VA_ARGS__);                                  \
	} while (0)
#define log_error(event, ...) LOG_AT(LOG_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...)  LOG_AT(LOG_WARN, event, __VA_ARGS__)
#define log_info(event, ...)  LOG_AT(LOG_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) LOG_AT(LOG_DEBUG, event, __VA_ARGS__)
/* Has no rate limit. For lines whose number is bounded in another way, and that are useful only if
 * all are there. */
#define log_record(event, ...) log_write(NULL, LOG_INFO, event, __VA_ARGS__)

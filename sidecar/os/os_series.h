/* SPDX-License-Identifier: Apache-2.0
 * os_series.h - sums per second, kept for minutes: one row per owner (a rank's process; 0: the
 * host), kind and key.
 * Owns: LIMIT_OS_SERIES rows of LIMIT_OS_SECONDS sums, allocated at open.
 * Threads: one caller. Pure but for memory: time is an argument. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/os_signal.h"

/* The shortest bucket. A read that comes earlier extends the current bucket. */
#define OS_SERIES_BUCKET_NS 900000000ull
/* The usual value is the mean over the latest usual time: at most and at least this much of it. */
#define OS_SERIES_USUAL_NS     60000000000ull
#define OS_SERIES_USUAL_MIN_NS 4000000000ull

struct os_series;

int os_series_open(struct os_series **out, uint64_t now_ns);
void os_series_close(struct os_series *s); /* NULL is a no-op */
/* What is added after this call belongs to the time from the advance before it to now_ns. */
void os_series_advance(struct os_series *s, uint64_t now_ns);
/* Adds to a row. subject: the row's new subject; NULL or "" keeps the old one. False: no room;
 * counted. */
bool os_series_add(struct os_series *s, uint32_t owner, uint32_t kind, uint64_t key, double value,
		   const char *subject);
/* Whether the row exists, so that the caller needs no subject. */
bool os_series_has(const struct os_series *s, uint32_t owner, uint32_t kind, uint64_t key);
void os_series_forget(struct os_series *s, uint32_t owner);
uint64_t os_series_lost(const struct os_series *s);
uint32_t os_series_count(const struct os_series *s);

struct os_span {
	uint64_t begin_ns, end_ns;
};
struct os_series_query {
	uint64_t begin_ns, end_ns;
	uint64_t from_ns;	       /* time before this is not usual */
	const struct os_span *unusual; /* times that are not usual */
	uint32_t unusual_count;
};
struct os_series_row {
	uint32_t owner, kind;
	uint64_t key;
	const char *subject;
	double value, usual; /* per second; usual < 0: unknown */
};
/* Calls fn for each row of the owner, in no order; the subject is borrowed for the call. */
void os_series_each(const struct os_series *s, uint32_t owner, const struct os_series_query *q,
		    void (*fn)(void *arg, const struct os_series_row *row), void *arg);
/* Whether enough time before the window is usual. */
bool os_series_knows_usual(const struct os_series *s, const struct os_series_query *q);

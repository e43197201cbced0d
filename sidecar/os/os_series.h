/* SPDX-License-Identifier: Apache-2.0
 * os_series.h - what was counted in each second, for minutes: per owner (a rank's process, 0 the
 * host), kind and key one row of sums. Owns: LIMIT_OS_SERIES rows of LIMIT_OS_SECONDS sums,
 * allocated at open. Threads: one caller. Pure but for memory: time is an argument. */
#ifndef SYSOM_SIDECAR_OS_OS_SERIES_H
#define SYSOM_SIDECAR_OS_OS_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/os_signal.h"

/* A bucket is at least this long; a read in between only makes the current one longer. */
#define OS_SERIES_BUCKET_NS 900000000ull
/* How far back the usual value looks, how much of it there must be, and how close to the window. */
#define OS_SERIES_USUAL_NS     60000000000ull
#define OS_SERIES_USUAL_MIN_NS 4000000000ull

struct os_series;

int os_series_open(struct os_series **out, uint64_t now_ns);
void os_series_close(struct os_series *s); /* NULL is a no-op */
/* What is added from here on happened between the last advance and now. */
void os_series_advance(struct os_series *s, uint64_t now_ns);
/* subject: the row's from now on; NULL or "" leaves it. False: no room, counted. */
bool os_series_add(struct os_series *s, uint32_t owner, uint32_t kind, uint64_t key, double value,
		   const char *subject);
/* So that a subject is only made when it is needed. */
bool os_series_has(const struct os_series *s, uint32_t owner, uint32_t kind, uint64_t key);
void os_series_forget(struct os_series *s, uint32_t owner);
uint64_t os_series_lost(const struct os_series *s);
uint32_t os_series_count(const struct os_series *s);

struct os_span {
	uint64_t begin_ns, end_ns;
};
struct os_series_query {
	uint64_t begin_ns, end_ns;
	uint64_t from_ns;	       /* nothing before it is usual */
	const struct os_span *unusual; /* nor is what happened in these */
	uint32_t unusual_count;
};
struct os_series_row {
	uint32_t owner, kind;
	uint64_t key;
	const char *subject;
	double value, usual; /* per second; usual < 0: not known */
};
/* Calls fn for each row of the owner (in no order); the subject is borrowed for the call. */
void os_series_each(const struct os_series *s, uint32_t owner, const struct os_series_query *q,
		    void (*fn)(void *arg, const struct os_series_row *row), void *arg);
/* Whether enough time before the window is usual time. */
bool os_series_knows_usual(const struct os_series *s, const struct os_series_query *q);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * otlp.h - metrics as OTLP export requests (protobuf, https://opentelemetry.io/docs/specs/otlp). A
 * counter becomes a cumulative, monotonic sum since the program's start; a gauge stays a gauge.
 * Names are those of the Prometheus page. The unit comes from the name's suffix, in UCUM. Labels
 * become attributes, in well-formed UTF-8. A request has at most OTLP_POINTS data points, because
 * receivers bound a body. Threads: one per struct otlp. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"

#define OTLP_POINTS	   10000u
#define OTLP_REQUEST_BYTES (16u << 20)

struct otlp_resource {
	const char *service;	/* service.name */
	const char *host;	/* host.name, and service.instance.id */
	uint64_t start_unix_ns; /* of counters */
};

/* Receives a request, and owns its memory. */
typedef void (*otlp_fn)(void *arg, struct buf *request);

struct otlp;
/* Borrows *r. 0, -ENOMEM. */
int otlp_begin(struct otlp **out, const struct otlp_resource *r, uint64_t now_unix_ns, otlp_fn fn,
	       void *arg);
struct metrics *otlp_metrics(struct otlp *o);
/* How many data points of a request the receiver rejects, according to its answer. why: the reason;
 * "": not stated. 0 if the answer is no OTLP answer, because receivers answer with all sorts of
 * content. */
uint64_t otlp_rejected(const void *answer, size_t bytes, char *why, size_t why_bytes);
/* Passes on the last request, and frees o. 0; -ENOMEM, -EMSGSIZE: some data points were left
 * out. */
int otlp_end(struct otlp *o);

/* SPDX-License-Identifier: Apache-2.0
 * otlp_export.h - periodically sends a program's metrics to an OTLP receiver, such as
 * OpenTelemetry's collector, over HTTP. The program writes its metrics on a thread of its own
 * choice (otlp_export_begin to otlp_export_end); a thread of this module sends them, so a receiver
 * never delays the program. Metrics that are not sent when the next ones come are dropped and
 * counted; nothing is lost, because the counters are cumulative. A failed request is repeated after
 * 1 s, 2 s, 4 s ...
 * Threads: one calls everything but otlp_export_stats, which any may. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/daemon/config.h"
#include "base/metrics/metrics.h"

#define OTLP_PATH_BYTES 256u
#define OTLP_URL_BYTES	1024u

struct otlp_settings {
	char url[OTLP_URL_BYTES], ca[OTLP_PATH_BYTES], token[OTLP_PATH_BYTES];
	uint64_t interval_ns;
};

/* Rows of a program's table. KEY: its macro; field: the struct otlp_settings. */
#define OTLP_SETTINGS(KEY, field)                                                                  \
	KEY(field.url, "otlp.url", CONFIG_STRING, "",                                              \
	    "URL of an OTLP receiver for the metrics, http(s)://HOST:4318; without a path, "       \
	    "/v1/metrics is added; empty: none"),                                                  \
	    KEY(field.interval_ns, "otlp.interval", CONFIG_DURATION, "30s",                        \
		"how often metrics are sent", .min = 1e9, .max = 3600e9),                          \
	    KEY(field.ca, "otlp.ca", CONFIG_STRING, "",                                            \
		"PEM file of the certificates that may sign the receiver's; empty: the system's"), \
	    KEY(field.token, "otlp.token", CONFIG_STRING, "",                                      \
		"file with the bearer token for the receiver, mode 0640 or less")

/* For a config_check_fn. 0, or -EINVAL with `why`. */
int otlp_settings_check(const struct otlp_settings *s, char *why, size_t why_bytes);

struct otlp_export;

struct otlp_export_stats {
	uint64_t sent, failed, dropped; /* requests */
	uint64_t rejected; /* data points of sent requests that the receiver rejected */
	char fault[256];   /* why the latest request failed; "": it did not fail */
};

/* service: the program's name; host: this machine's name. *out: NULL without a URL. 0, -ENOMEM,
 * -errno of the thread. */
int otlp_export_open(struct otlp_export **out, const struct otlp_settings *s, const char *service,
		     const char *host);
/* Tries once more to send what is waiting, but for at most 3 to 4 s, however slow the receiver is.
 * NULL is a no-op. */
void otlp_export_close(struct otlp_export *e);
/* Returns where to write the metrics if they are due; then otlp_export_end must follow. NULL: they
 * are not due, e is NULL, or there is no memory. */
struct metrics *otlp_export_begin(struct otlp_export *e, uint64_t now_ns);
void otlp_export_end(struct otlp_export *e);
/* e NULL: nothing was sent. */
void otlp_export_stats(struct otlp_export *e, struct otlp_export_stats *out);
/* Writes the counts above as metrics; no-op if e is NULL. */
void otlp_export_metrics(struct otlp_export *e, struct metrics *m);

/* SPDX-License-Identifier: Apache-2.0
 * alert.h - posts incidents to an Alertmanager, or to any receiver of its v2 JSON. An alert fires
 * while its incident is open, and is resolved when the incident closes or is merged into another
 * one. An incident stays one alert, because its labels never change (alertname, incident, job,
 * severity); ranks, cause and figures are annotations. Transients are not posted; an incident that
 * turns out to be a transient is resolved.
 * Owns: its thread, and the last state of each firing alert, at most LIMIT_ALERTS. Threads: any may
 * push; a push copies and never waits for the network. Errors: a failed POST is repeated after 1 s
 * to 60 s, with the alert as it is then. Only pushes without room are lost (counted). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"

struct alert;
struct http_user;

struct alert_config {
	/* of the endpoint: http://alertmanager:9093/api/v2/alerts; "": nothing is posted, the state
	 * serves alert_metrics() alone */
	const char *url;
	const char *link; /* what people open: LINK/incidents/ID; "": none */
	/* how often firing alerts are sent again, because they expire at the receiver */
	uint64_t repeat_ns;
};

struct alert_stats {
	uint64_t sent, failed, dropped; /* POSTs; pushes without room */
	uint32_t firing;
};

/* 0, -ENOMEM, -EINVAL (not a URL), -errno of the thread. */
int alert_open(struct alert **out, const struct alert_config *c);
/* Tries once more to send what waits, for a few seconds at most. NULL is a no-op. */
void alert_close(struct alert *a);
/* incident: as incident_set_json makes it. */
void alert_push(struct alert *a, const json_t *incident);
/* The incident was merged into another one, or is no longer to be posted. No effect unless it
 * fires. */
void alert_resolve(struct alert *a, const char *incident, uint64_t now_unix_ns);
void alert_stats(struct alert *a, struct alert_stats *out);
/* Appends the open incidents that `who` sees (NULL: all) to a page of metrics, at most
 * LIMIT_ALERTS. */
void alert_metrics(struct alert *a, const struct http_user *who, struct metrics *m);

/* An incident as one alert of the posted list; NULL: it is not to be posted. Returns owned. */
json_t *alert_json(const json_t *incident, const char *link, uint64_t expires_unix_ns);

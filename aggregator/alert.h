/* SPDX-License-Identifier: Apache-2.0
 * alert.h - tells an Alertmanager (or whatever takes its v2 JSON) of incidents by POST: firing
 * while they are open, resolved when they are cleared or became part of another one. Labels never
 * change in an incident's life (alertname, incident, job, severity), so that it stays one alert;
 * ranks, cause and figures are annotations. Hiccups are not told; an incident that turns out to be one is
 * resolved as it was told last. Owns: its thread and the last
 * state of each alert that is firing, LIMIT_ALERTS at most. Threads: any may push; a push copies
 * and never waits for the network. Errors: a POST that fails is tried again after 1 s to 60 s with
 * what is the state by then; nothing is lost but what has no room (counted). */
#ifndef SYSOM_AGGREGATOR_ALERT_H
#define SYSOM_AGGREGATOR_ALERT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct alert;

struct alert_config {
	const char *url;  /* of the endpoint: http://alertmanager:9093/api/v2/alerts */
	const char *link; /* what people open: LINK/api/v1/incidents/ID; "" none */
	uint64_t
	    repeat_ns; /* firing alerts are sent again so often, since they expire over there */
};

struct alert_stats {
	uint64_t sent, failed, dropped; /* POSTs; pushes without room */
	uint32_t firing;
};

/* An http:// or https:// URL with a host that could be. */
bool alert_is_url(const char *text);
/* 0, -ENOMEM, -EINVAL (no alert_is_url), -errno of the thread. */
int alert_open(struct alert **out, const struct alert_config *c);
/* What waits is tried once more, for a few seconds at most. NULL is a no-op. */
void alert_close(struct alert *a);
/* incident: as incident_set_json makes it. */
void alert_push(struct alert *a, const json_t *incident);
/* The incident became part of another one, or is none that is told. Nothing where it does not fire. */
void alert_resolve(struct alert *a, const char *incident, uint64_t now_unix_ns);
void alert_stats(struct alert *a, struct alert_stats *out);

/* One alert of the list that is posted; NULL: this incident is not told. Returns owned. */
json_t *alert_json(const json_t *incident, const char *link, uint64_t expires_unix_ns);

#endif

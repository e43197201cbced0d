/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "aggregator/api/api_route.h"
#include "base/clock.h"

static void metric(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP sysom_aggregator_%s %s\n# TYPE sysom_aggregator_%s %s\n", name, help,
		   name, type);
}

static void sample(struct buf *b, const char *name, const char *labels, uint64_t value)
{
	buf_printf(b, "sysom_aggregator_%s%s %llu\n", name, labels, (unsigned long long)value);
}

static void counter(struct buf *b, const char *name, const char *help, uint64_t value)
{
	metric(b, name, "counter", help);
	sample(b, name, "", value);
}

static void gauge(struct buf *b, const char *name, const char *help, uint64_t value)
{
	metric(b, name, "gauge", help);
	sample(b, name, "", value);
}

static void metrics_ingest(const struct api_sources *api, struct buf *b)
{
	struct ingest_stats s;

	ingest_stats(api->ingest, &s);
	metric(b, "windows_total", "counter", "Windows received, by reply.");
	sample(b, "windows_total", "{status=\"ok\"}", s.windows_ok);
	sample(b, "windows_total", "{status=\"duplicate\"}", s.windows_duplicate);
	sample(b, "windows_total", "{status=\"retry\"}", s.windows_retry);
	sample(b, "windows_total", "{status=\"reject\"}", s.windows_reject);
	counter(b, "windows_unsound_total", "Windows rejected because of impossible times or rank.",
		s.windows_unsound);
	metric(b, "beats_total", "counter", "Beats received, by reply.");
	sample(b, "beats_total", "{status=\"ok\"}", s.beats_ok);
	sample(b, "beats_total", "{status=\"reject\"}", s.beats_reject);
	metric(b, "sketches_total", "counter", "Sketches received, by reply.");
	sample(b, "sketches_total", "{status=\"ok\"}", s.sketches_ok);
	sample(b, "sketches_total", "{status=\"reject\"}", s.sketches_reject);
	counter(b, "unknown_messages_total", "Messages of an unknown kind or version.",
		s.other_reject);
	counter(b, "received_bytes_total", "Bytes of received messages.", s.received_bytes);
	gauge(b, "connections", "Peers that are connected.", s.peers.connections);
	gauge(b, "requests_waiting", "Messages that wait for their sender's turn.",
	      s.peers.waiting);
	counter(b, "connections_total", "Connections accepted.", s.peers.accepted);
	metric(b, "connections_closed_total", "counter",
	       "Connections closed by the aggregator, by reason.");
	sample(b, "connections_closed_total", "{reason=\"broken\"}", s.peers.broken);
	sample(b, "connections_closed_total", "{reason=\"overdue\"}", s.peers.overdue);
	sample(b, "connections_closed_total", "{reason=\"evicted\"}", s.peers.evicted);
}

static void metrics_store(const struct api_sources *api, struct buf *b)
{
	struct commit_stats s;

	commit_stats(api->commit, &s);
	counter(b, "transactions_total", "Transactions committed.", s.transactions);
	metric(b, "transaction_seconds_total", "counter", "Time spent in transactions.");
	buf_printf(b, "sysom_aggregator_transaction_seconds_total %.6f\n",
		   (double)s.transaction_ns / 1e9);
	counter(b, "expired_windows_total", "Window bodies removed by age or size.", s.expired);
	counter(b, "incidents_opened_total", "Incidents opened.", s.incidents_opened);
	counter(b, "incidents_evicted_total", "Open incidents closed to make room.",
		s.incidents_evicted);
	counter(b, "incidents_renamed_total",
		"Open incidents rebuilt because new symbol files gave names.", s.incidents_renamed);
	gauge(b, "store_bytes", "Bytes used in the store.", s.store.bytes);
	gauge(b, "store_windows", "Windows known to the store.", s.store.windows);
	gauge(b, "pending_bytes", "Bytes received and not yet committed.", s.pending_bytes);
	gauge(b, "disk_full", "1 while windows are refused because the disk is full.", s.disk_full);
	metric(b, "incidents", "gauge", "Incidents in the store, by state.");
	sample(b, "incidents", "{state=\"open\"}", s.store.open_incidents);
	sample(b, "incidents", "{state=\"closed\"}", s.store.incidents - s.store.open_incidents);
}

static void metrics_verdicts(const struct api_sources *api, struct buf *b)
{
	struct alert_stats alerts = {0};
	struct commit_stats s;

	commit_stats(api->commit, &s);
	if (api->alert)
		alert_stats(api->alert, &alerts);
	counter(b, "findings_total", "Findings without windows that were committed.", s.findings);
	counter(b, "findings_dropped_total", "Findings dropped because the queue was full.",
		s.findings_dropped);
	gauge(b, "alerts_firing", "Firing alerts.", alerts.firing);
	metric(b, "alert_posts_total", "counter", "POSTs to the webhook, by outcome.");
	sample(b, "alert_posts_total", "{outcome=\"ok\"}", alerts.sent);
	sample(b, "alert_posts_total", "{outcome=\"failed\"}", alerts.failed);
	counter(b, "alerts_dropped_total", "Alerts dropped because there was no room.",
		alerts.dropped);
}

static void metrics_refused(struct buf *b, const struct fleet_totals *f)
{
	metric(b, "refused_total", "counter", "Reports about ranks that were refused, by reason.");
	sample(b, "refused_total", "{reason=\"foreign\"}", f->refused_foreign);
	sample(b, "refused_total", "{reason=\"range\"}", f->refused_range);
	sample(b, "refused_total", "{reason=\"world\"}", f->refused_world);
	sample(b, "refused_total", "{reason=\"node\"}", f->refused_node);
	sample(b, "refused_total", "{reason=\"backwards\"}", f->refused_backwards);
	sample(b, "refused_total", "{reason=\"repeated\"}", f->refused_repeated);
	sample(b, "refused_total", "{reason=\"processes\"}", f->refused_processes);
	sample(b, "refused_total", "{reason=\"window\"}", f->refused_window);
	sample(b, "refused_total", "{reason=\"sketch\"}", f->refused_sketch);
	gauge(b, "quarantined_ranks",
	      "Ranks without a communicator of their job; they are compared with nobody.",
	      f->ranks_quarantined);
	metric(b, "detect_dropped", "gauge",
	       "Steps and collectives of known jobs that were not compared, by reason.");
	sample(b, "detect_dropped", "{reason=\"bad\"}", f->bad);
	sample(b, "detect_dropped", "{reason=\"stale\"}", f->stale);
	sample(b, "detect_dropped", "{reason=\"ahead\"}", f->ahead);
	sample(b, "detect_dropped", "{reason=\"unplaced\"}", f->unplaced);
	sample(b, "detect_dropped", "{reason=\"no_room\"}", f->no_room);
	sample(b, "detect_dropped", "{reason=\"thinned\"}", f->thinned);
}

static void metrics_detect(struct buf *b, const struct fleet_totals *f)
{
	gauge(b, "suspects", "Ranks that an open finding names.", f->suspects);
	gauge(b, "compared_rows", "Steps compared across the ranks of known jobs.", f->rows);
	gauge(b, "detect_bytes", "Memory of the comparison and the waterlines.", f->bytes);
	metric(b, "detected_total", "counter", "Findings that detection opened, by kind.");
	sample(b, "detected_total", "{kind=\"slow_rank\"}", f->findings);
	sample(b, "detected_total", "{kind=\"imbalance\"}", f->imbalances);
	sample(b, "detected_total", "{kind=\"hang\"}", f->hangs);
	sample(b, "detected_total", "{kind=\"uniform\"}", f->uniform);
	metric(b, "commands_total", "counter", "Commands for nodes, by kind.");
	sample(b, "commands_total", "{kind=\"window\"}", f->commands_window);
	sample(b, "commands_total", "{kind=\"hold\"}", f->commands_hold);
	sample(b, "commands_total", "{kind=\"suspect\"}", f->commands_suspect);
	counter(b, "commands_refused_total",
		"Commands not sent because of the limits per job and node.", f->commands_refused);
	gauge(b, "sketch_bytes", "Bytes of the ranks' last sketches.", f->sketch_bytes);
	counter(b, "sketches_dropped_total", "Sketches dropped because there was no room.",
		f->sketches_dropped);
	counter(b, "baselines_saved_total", "Baselines written.", f->baselines_saved);
	counter(b, "baselines_failed_total", "Baselines that could not be read or written.",
		f->baselines_failed);
}

static void metrics_fleet(const struct api_sources *api, struct buf *b)
{
	struct fleet_totals f;

	fleet_totals(api->fleet, clock_monotonic_ns(), &f);
	gauge(b, "jobs", "Jobs with a known rank.", f.jobs);
	metric(b, "ranks", "gauge", "Known ranks, by liveness.");
	sample(b, "ranks", "{alive=\"yes\"}", f.ranks_alive);
	sample(b, "ranks", "{alive=\"no\"}", f.ranks - f.ranks_alive);
	metric(b, "nodes", "gauge", "Known nodes, by liveness.");
	sample(b, "nodes", "{alive=\"yes\"}", f.nodes_alive);
	sample(b, "nodes", "{alive=\"no\"}", f.nodes - f.nodes_alive);
	gauge(b, "lost_events", "Events that known ranks lost, for any cause.", f.lost);
	gauge(b, "node_windows_dropped", "Windows that known nodes dropped before sending.",
	      f.windows_dropped);
	counter(b, "fleet_dropped_total", "Entries of beats dropped because there was no room.",
		f.dropped);
	gauge(b, "fleet_slice_ranks",
	      "Most jobs or ranks handled while the fleet's lock was held once.", f.slice_most);
	metrics_refused(b, &f);
	metrics_detect(b, &f);
}

static void metrics_http(const struct api_counts *c, struct buf *b)
{
	metric(b, "http_requests_total", "counter", "Answers of this API, by status class.");
	for (int i = 2; i < 6; i++) {
		char labels[32];

		snprintf(labels, sizeof(labels), "{code=\"%dxx\"}", i);
		sample(b, "http_requests_total", labels, atomic_load(&c->by_class[i]));
	}
	metric(b, "http_refused_total", "counter",
	       "Requests refused before they were read, by reason.");
	sample(b, "http_refused_total", "{reason=\"host\"}", atomic_load(&c->foreign_host));
	sample(b, "http_refused_total", "{reason=\"busy\"}", atomic_load(&c->busy));
	counter(b, "http_evicted_total", "HTTP connections closed to make room for others.",
		atomic_load(&c->evicted));
}

void api_metrics(const struct api_sources *api, struct api_answer *a)
{
	struct buf *b = &a->body;

	a->type = "text/plain; version=0.0.4; charset=utf-8";
	metrics_ingest(api, b);
	metrics_store(api, b);
	metrics_verdicts(api, b);
	metrics_fleet(api, b);
	fleet_ranks_metrics(api->fleet, clock_monotonic_ns(), b);
	api_symbols_metrics(api->symbols, b);
	metrics_http(api->http, b);
}

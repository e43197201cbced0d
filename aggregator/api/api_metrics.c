/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/api_route.h"
#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "wire/codec.h"

static void metrics_tls(const struct ingest_stats *s, struct metrics *m)
{
	struct metrics_count refused[TLS_FAULTS] = {{NULL, 0}};

	for (int i = 1; i < TLS_FAULTS; i++)
		refused[i - 1] = (struct metrics_count){tls_fault_name((enum tls_fault)i),
							(double)s->peers.refused[i]};
	metrics_by(m, "sysom_aggregator_tls_refused_total",
		   "Connections that TLS refused, by reason.", "reason", refused);
	METRICS(m,
		{"sysom_aggregator_tls_handshakes_total", "TLS handshakes that succeeded.",
		 s->peers.shaken},
		{"sysom_aggregator_identity_refused_total",
		 "Messages in the name of another node than the certificate's.", s->foreign},
		{"sysom_aggregator_tls_expiry_unix_seconds",
		 "End of the certificate in use; 0: no TLS.", s->tls.expires_unix_s});
	METRICS_BY(m, "sysom_aggregator_tls_loads_total",
		   "Times that changed certificate files were read, by outcome.", "outcome",
		   {"ok", (double)s->tls.loads}, {"failed", (double)s->tls.failed_loads});
}

static void metrics_ingest(const struct api_sources *api, struct metrics *m)
{
	struct ingest_stats s;

	ingest_stats(api->ingest, &s);
	METRICS_BY(m, "sysom_aggregator_windows_total", "Windows received, by reply.", "status",
		   {"ok", s.windows_ok}, {"duplicate", s.windows_duplicate},
		   {"retry", s.windows_retry}, {"reject", s.windows_reject});
	METRICS(m, {"sysom_aggregator_windows_unsound_total",
		    "Windows rejected because of impossible times or rank.", s.windows_unsound});
	METRICS_BY(m, "sysom_aggregator_beats_total", "Beats received, by reply.", "status",
		   {"ok", s.beats_ok}, {"reject", s.beats_reject});
	METRICS_BY(m, "sysom_aggregator_sketches_total", "Sketches received, by reply.", "status",
		   {"ok", s.sketches_ok}, {"reject", s.sketches_reject});
	METRICS(m,
		{"sysom_aggregator_unknown_messages_total", "Messages of an unknown kind.",
		 s.other_reject},
		{"sysom_aggregator_newer_messages_total",
		 "Messages of nodes with a newer version, which they keep.", s.newer_retry},
		{"sysom_aggregator_received_bytes_total", "Bytes of received messages.",
		 s.received_bytes},
		{"sysom_aggregator_connections", "Peers that are connected.", s.peers.connections},
		{"sysom_aggregator_requests_waiting", "Messages that wait for their sender's turn.",
		 s.peers.waiting},
		{"sysom_aggregator_connections_total", "Connections accepted.", s.peers.accepted});
	METRICS_BY(m, "sysom_aggregator_connections_closed_total",
		   "Connections closed by the aggregator, by reason.", "reason",
		   {"broken", s.peers.broken}, {"overdue", s.peers.overdue},
		   {"evicted", s.peers.evicted});
	metrics_tls(&s, m);
}

static void metrics_store(const struct api_sources *api, struct metrics *m)
{
	struct commit_stats s;

	commit_stats(api->commit, &s);
	METRICS(m,
		{"sysom_aggregator_transactions_total", "Transactions committed.", s.transactions},
		{"sysom_aggregator_transaction_seconds_total", "Time spent in transactions.",
		 s.transaction_ns / 1e9},
		{"sysom_aggregator_expired_windows_total", "Window bodies removed by age or size.",
		 s.expired});
	METRICS_BY(m, "sysom_aggregator_quota_removed_total",
		   "Removed because a job had more than its quota, by kind.", "kind",
		   {"window", s.quota_windows}, {"incident", s.quota_incidents});
	METRICS(
	    m,
	    {"sysom_aggregator_largest_job_bytes", "Evidence of the job that has most.",
	     s.largest_bytes},
	    {"sysom_aggregator_incidents_opened_total", "Incidents opened.", s.incidents_opened},
	    {"sysom_aggregator_incidents_evicted_total", "Open incidents closed to make room.",
	     s.incidents_evicted},
	    {"sysom_aggregator_incidents_renamed_total",
	     "Open incidents rebuilt because new symbol files gave names.", s.incidents_renamed},
	    {"sysom_aggregator_store_bytes", "Bytes used in the store.", s.store.bytes},
	    {"sysom_aggregator_store_windows", "Windows known to the store.", s.store.windows},
	    {"sysom_aggregator_pending_bytes", "Bytes received and not yet committed.",
	     s.pending_bytes},
	    {"sysom_aggregator_disk_full", "1 while windows are refused because the disk is full.",
	     s.disk_full});
	METRICS_BY(m, "sysom_aggregator_incidents", "Incidents in the store, by state.", "state",
		   {"open", s.store.open_incidents},
		   {"closed", s.store.incidents - s.store.open_incidents});
}

static void metrics_verdicts(const struct api_sources *api, struct metrics *m)
{
	struct alert_stats alerts = {0};
	struct commit_stats s;

	commit_stats(api->commit, &s);
	if (api->alert)
		alert_stats(api->alert, &alerts);
	METRICS(m,
		{"sysom_aggregator_findings_total", "Findings without windows that were committed.",
		 s.findings},
		{"sysom_aggregator_findings_dropped_total",
		 "Findings dropped because the queue was full.", s.findings_dropped},
		{"sysom_aggregator_alerts_firing", "Open incidents, without transients.",
		 alerts.firing});
	METRICS_BY(m, "sysom_aggregator_alert_posts_total", "POSTs to the webhook, by outcome.",
		   "outcome", {"ok", alerts.sent}, {"failed", alerts.failed});
	METRICS(m, {"sysom_aggregator_alerts_dropped_total",
		    "Alerts dropped because there was no room.", alerts.dropped});
}

static void metrics_refused(struct metrics *m, const struct fleet_totals *f)
{
	METRICS_BY(m, "sysom_aggregator_refused_total",
		   "Reports about ranks that were refused, by reason.", "reason",
		   {"foreign", f->refused_foreign}, {"range", f->refused_range},
		   {"world", f->refused_world}, {"node", f->refused_node},
		   {"backwards", f->refused_backwards}, {"repeated", f->refused_repeated},
		   {"processes", f->refused_processes}, {"window", f->refused_window},
		   {"sketch", f->refused_sketch});
	METRICS(m, {"sysom_aggregator_quarantined_ranks",
		    "Ranks without a communicator of their job; they are compared with nobody.",
		    f->ranks_quarantined});
	METRICS_BY(m, "sysom_aggregator_detect_dropped",
		   "Steps and collectives of known jobs that were not compared, by reason.",
		   "reason", {"bad", f->bad}, {"stale", f->stale}, {"ahead", f->ahead},
		   {"unplaced", f->unplaced}, {"no_room", f->no_room}, {"thinned", f->thinned});
}

static void metrics_detect(struct metrics *m, const struct fleet_totals *f)
{
	METRICS(m, {"sysom_aggregator_suspects", "Ranks that an open finding names.", f->suspects},
		{"sysom_aggregator_compared_rows", "Steps compared across the ranks of known jobs.",
		 f->rows},
		{"sysom_aggregator_detect_bytes", "Memory of the comparison and the waterlines.",
		 f->bytes});
	METRICS_BY(m, "sysom_aggregator_detected_total", "Findings that detection opened, by kind.",
		   "kind", {"slow_rank", f->findings}, {"imbalance", f->imbalances},
		   {"hang", f->hangs}, {"uniform", f->uniform});
	METRICS_BY(m, "sysom_aggregator_commands_total", "Commands for nodes, by kind.", "kind",
		   {"window", f->commands_window}, {"hold", f->commands_hold},
		   {"suspect", f->commands_suspect}, {"pieces", f->commands_pieces});
	METRICS(
	    m,
	    {"sysom_aggregator_commands_refused_total",
	     "Commands not sent because of the limits per job and node.", f->commands_refused},
	    {"sysom_aggregator_sketch_bytes", "Bytes of the ranks' last sketches.",
	     f->sketch_bytes},
	    {"sysom_aggregator_sketches_dropped_total",
	     "Sketches dropped because there was no room.", f->sketches_dropped},
	    {"sysom_aggregator_baselines_saved_total", "Baselines written.", f->baselines_saved},
	    {"sysom_aggregator_baselines_failed_total",
	     "Baselines that could not be read or written.", f->baselines_failed});
}

static void metrics_fleet(const struct api_sources *api, struct metrics *m)
{
	struct fleet_totals f;

	fleet_totals(api->fleet, clock_monotonic_ns(), &f);
	METRICS(m, {"sysom_aggregator_jobs", "Jobs with a known process.", f.jobs});
	METRICS_BY(m, "sysom_aggregator_ranks", "Known ranks, by liveness.", "alive",
		   {"yes", f.ranks_alive}, {"no", f.ranks - f.ranks_alive});
	METRICS_BY(m, "sysom_aggregator_other_processes",
		   "Known processes of jobs without a rank, by liveness.", "alive",
		   {"yes", f.others_alive}, {"no", f.others - f.others_alive});
	METRICS_BY(m, "sysom_aggregator_nodes", "Known nodes, by liveness.", "alive",
		   {"yes", f.nodes_alive}, {"no", f.nodes - f.nodes_alive});
	METRICS(m,
		{"sysom_aggregator_lost_events", "Events that known ranks lost, for any cause.",
		 f.lost},
		{"sysom_aggregator_node_windows_dropped",
		 "Windows that known nodes dropped before sending.", f.windows_dropped},
		{"sysom_aggregator_fleet_dropped_total",
		 "Entries of beats dropped because there was no room.", f.dropped},
		{"sysom_aggregator_fleet_slice_ranks",
		 "Most jobs or ranks handled while the fleet's lock was held once.", f.slice_most});
	metrics_refused(m, &f);
	metrics_detect(m, &f);
}

static void metrics_http(const struct api_counts *c, struct metrics *m)
{
	METRICS_BY(m, "sysom_aggregator_http_requests_total",
		   "Answers of this API, by status class.", "code",
		   {"2xx", atomic_load(&c->server.by_class[2])},
		   {"3xx", atomic_load(&c->server.by_class[3])},
		   {"4xx", atomic_load(&c->server.by_class[4])},
		   {"5xx", atomic_load(&c->server.by_class[5])});
	METRICS_BY(m, "sysom_aggregator_http_refused_total",
		   "Requests refused before they were read, by reason.", "reason",
		   {"host", atomic_load(&c->server.foreign_host)},
		   {"token", atomic_load(&c->server.no_token)},
		   {"role", atomic_load(&c->server.no_role)}, {"busy", atomic_load(&c->busy)});
	METRICS(m, {"sysom_aggregator_http_evicted_total",
		    "HTTP connections closed to make room for others.",
		    atomic_load(&c->server.evicted)});
}

void api_metrics(const struct api_sources *api, struct metrics *m)
{
	metrics_build_info(m, WIRE_VERSION);
	metrics_ingest(api, m);
	metrics_store(api, m);
	metrics_verdicts(api, m);
	if (api->alert)
		alert_metrics(api->alert, api->user, m);
	otlp_export_metrics(api->otlp, m);
	metrics_fleet(api, m);
	fleet_ranks_metrics(api->fleet, api->user, clock_monotonic_ns(), m);
	fleet_requests_metrics(api->fleet, api->user, clock_monotonic_ns(), m);
	api_symbols_metrics(api->symbols, m);
	metrics_http(api->http, m);
}

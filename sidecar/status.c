/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/status.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/daemon/rights.h"
#include "base/http/http_user.h"
#include "base/metrics/metrics.h"
#include "base/text/json_text.h"
#include "base/version.h"
#include "sidecar/drain.h"
#include "sidecar/gpu/gpu_node.h"
#include "sidecar/links_node.h"
#include "sidecar/ras/ras_node.h"
#include "sidecar/keep.h"
#include "sidecar/os/os_node.h"
#include "sidecar/process.h"
#include "sidecar/stacks/cpu_stacks.h"
#include "sidecar/stacks/symbol_offer.h"
#include "wire/codec.h"

static const char *trace_name(uint32_t state)
{
	switch (state) {
	case RING_TRACE_OFF:
		return "off";
	case RING_TRACE_ON:
		return "on";
	case RING_TRACE_LATCHED:
		return "latched";
	}
	return "unknown";
}

static const char *cupti_name(uint32_t state)
{
	static const char *const names[] = {"none", "v2", "legacy", "yielded", "refused", "idle"};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static uint64_t rss_bytes(void)
{
	unsigned long long size = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* How far back records go. */
static uint64_t retention_ns(const struct node *n, uint64_t now_ns)
{
	struct recorder_stats rs;
	uint64_t since = now_ns, attached = now_ns;

	recorder_stats(n->analysis.recorder, &rs);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i] && n->processes[i]->attached_ns < attached)
			attached = n->processes[i]->attached_ns;
	/* Before the first attach there was nothing to record. */
	since = rs.oldest_ns ? rs.oldest_ns : attached;
	return since < now_ns ? now_ns - since : 0;
}

static void json_loss(void *arg, const char *cause, uint64_t count)
{
	struct buf *b = arg;

	if (count)
		buf_printf(b, "%s\"%s\":%llu", b->data[b->bytes - 1] == '{' ? "" : ",", cause,
			   (unsigned long long)count);
}

/* The latency models by kind of step: how well work explains time in each. */
static void models_json(const struct process *p, struct buf *b)
{
	struct judge_model_row row[JUDGE_MODELS];
	uint32_t n = judge_models(p->rank->judge, row, JUDGE_MODELS);

	buf_puts(b, ",\"models\":[");
	for (uint32_t i = 0; i < n; i++) {
		const char *phase = row[i].source == STEP_SOURCE_EXPLICIT && row[i].phase
					? ring_reader_name(p->reader, row[i].phase)
					: "";

		json_text_append(b, i ? ",{\"phase\":" : "{\"phase\":", phase);
		buf_printf(b, ",\"state\":\"%s\",\"steps\":%llu,\"r2\":%.4f,\"spread\":%.4f}",
			   roofline_state_name(row[i].fit.state),
			   (unsigned long long)row[i].fit.steps, row[i].fit.r2, row[i].fit.spread);
	}
	buf_puts(b, "]");
}

static void json_rank(struct buf *b, const struct process *p)
{
	const struct rank_stats *st = &p->rank->stats;
	const struct join_stats *js = process_join_stats(p);
	const struct windows_peer *peer = windows_peer(p->node->analysis.windows, p->slot);
	uint64_t now_ns = clock_monotonic_ns(), hangs = rank_stalled_since(p->rank);
	struct rank_medians m;

	rank_medians(p->rank, &m);
	if (p->state != PROCESS_ATTACHED || hangs > now_ns)
		hangs = 0;
	json_text_append(b, "{\"job\":", p->id.job);
	buf_printf(b, ",\"uid\":%u,\"rank\":%d,\"pid\":%u", (unsigned)p->uid, p->id.rank,
		   p->id.pid);
	json_text_append(b, ",\"program\":", p->id.program);
	buf_printf(
	    b,
	    ",\"state\":\"%s\",\"trace\":\"%s\",\"cupti\":\"%s\",\"model\":\"%s\","
	    "\"steps\":%llu,\"flagged\":%llu,\"flagged_self\":%llu,\"incomplete\":%llu,"
	    "\"host_stall\":%llu,\"step_ms\":%.6f,\"expected_ms\":%.6f,\"events\":%llu,\"lost\":{",
	    p->state == PROCESS_ATTACHED   ? "attached"
	    : p->state == PROCESS_DETACHED ? "detached"
					   : "gone",
	    trace_name(p->link.trace_state), cupti_name(p->link.cupti_state),
	    roofline_state_name(rank_model(p->rank, NULL, NULL)), (unsigned long long)st->steps,
	    (unsigned long long)st->flagged, (unsigned long long)st->flagged_self,
	    (unsigned long long)st->incomplete, (unsigned long long)st->host_stall,
	    m.latency_ns * 1e-6, m.expected_ns * 1e-6, (unsigned long long)process_events(p));
	process_losses(p, false, json_loss, b);
	buf_puts(b, "}");
	models_json(p, b);
	json_text_append(b, ",\"unknown_variable\":", process_unknown_variable(p));
	buf_printf(b, ",\"spans_bad_line\":%u", process_spans_bad_line(p));
	buf_printf(b, ",\"restarts\":%u,\"before_pid\":%u", p->restarts, p->before_pid);
	window_pod_json(&p->id.pod, b);
	buf_printf(b, ",\"hang_s\":%.3f", hangs ? (double)(now_ns - hangs) * 1e-9 : 0.0);
	buf_printf(b, ",\"peer_slow\":%s,\"peer_excess_ms\":%.6f,\"peer_flags\":%llu",
		   peer->slow ? "true" : "false", peer->slow ? peer->excess_ns * 1e-6 : 0.0,
		   (unsigned long long)peer->flags);
	buf_printf(
	    b, ",\"switched_off\":%llu,\"graph_coarse_s\":%.3f,\"joined\":%llu,\"unmatched\":%llu",
	    (unsigned long long)process_switched_off(p), (double)js->graph_coarse_ns * 1e-9,
	    (unsigned long long)js->kernels_joined, (unsigned long long)js->kernels_unmatched);
	links_node_json(p, b);
	buf_puts(b, "}");
}

static uint64_t raw_bytes(const struct node *n)
{
	uint64_t sum = n->admission.raw_bytes_gone;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i])
			sum += process_raw_bytes(n->processes[i]);
	return sum;
}

static const char *stacks_mode(const struct node *n)
{
	struct cpu_stacks_stats st;
	struct sampler_stats ss;

	cpu_stacks_stats_get(n->stacks, &st, &ss);
	return st.opening		? "starting"
	       : ss.mode == SAMPLER_OFF ? "none"
					: sampler_mode_name(ss.mode);
}

uint64_t status_row_value(const struct status_row *row, const void *figures)
{
	return *(const uint64_t *)((const char *)figures + row->at);
}

void status_rows_metrics(struct metrics *m, const struct status_row *rows, size_t count,
			 const void *figures)
{
	for (const struct status_row *r = rows; r < rows + count; r++)
		METRICS(m, {r->metric, r->help,
			    (double)status_row_value(r, figures) / (r->time ? 1e9 : 1)});
}

static const struct status_row sampler_rows[] = {
#define VALUE(key, field, help)                                                                    \
	{                                                                                          \
		"sampler", key, "sysom_sampler_" key, help, offsetof(struct sampler_stats, field), \
		    false                                                                          \
	}
    VALUE("samples_total", samples, "CPU stacks taken."),
    VALUE("frames_total", frames, "Frames of these stacks."),
    VALUE("scanned_total", scanned, "Stacks with a frame that was found by scanning."),
    VALUE("python_frames_total", python_frames, "CPython frames."),
    VALUE("python_failed_total", python_failed, "CPython walks that gave up."),
    VALUE("python_mismatch_total", python_mismatch,
	  "Samples whose Python and native stacks disagree."),
    VALUE("python_full_total", python_full,
	  "Interpreters that the kernel has no room for: native frames only."),
    VALUE("guessed_total", guessed,
	  "Samples that reached a root by a guess; not counted as complete."),
    VALUE("early_total", early, "Stacks taken before their unwind table existed."),
    VALUE("off_cpu_asleep_total", off_cpu_asleep,
	  "Sleeps in progress at a drain, counted once per drain."),
    VALUE("off_cpu_captures_total", off_cpu_captures, "Stacks taken when a thread went to sleep."),
    VALUE("off_cpu_short_total", off_cpu_short,
	  "Sleeps not kept because they were shorter than sampler.off_cpu_min."),
    VALUE("off_cpu_leaf_only_total", off_cpu_leaf_only,
	  "Long sleeps of which only one frame is known."),
    VALUE("mappings_dropped_total", mappings_dropped,
	  "Mappings of processes without room: stacks end there."),
    VALUE("mappings_unpublished_total", publish_full,
	  "Processes whose mappings did not fit the kernel's map: stacks end there."),
    VALUE("scans_failed_total", scan_failed,
	  "Reads of a process's mappings that failed: stacks end there."),
    VALUE("switches_total", switch_records,
	  "Times off the CPU of launch threads, each with a record."),
    VALUE("switches_paced_total", switch_paced,
	  "Times off the CPU without a record, because the thread had too many: summed."),
    VALUE("switches_ring_full_total", switch_ring_full,
	  "Times off the CPU without a record, because the ring was full: summed."),
    VALUE("switches_no_room_total", switch_no_room,
	  "Times off the CPU without a record, because a batch was full: summed."),
    VALUE("switches_missed_total", switch_missed,
	  "Switches of launch threads that the kernel did not report."),
    VALUE("table_bytes", table_bytes, "Memory of the unwind tables."),
    VALUE("map_bytes", map_bytes, "Memory of all BPF maps."),
#undef VALUE
};

static const char *const stack_end_names[STACK_END_COUNT] = {
    "root", "depth", "no_mapping", "no_table", "no_row", "unsupported", "fault", "guessed",
};

/* Lost samples, by cause. */
static void sampler_losses(const struct cpu_stacks_stats *st, const struct sampler_stats *s,
			   void (*fn)(void *arg, const char *cause, uint64_t count), void *arg)
{
	fn(arg, "count_full", s->lost_count_full);
	fn(arg, "stack_full", s->lost_stack_full);
	fn(arg, "ring_full", s->lost_ring_full);
	fn(arg, "mapping", s->lost_mapping);
	fn(arg, "stranger", st->strangers);
	fn(arg, "period_too_large", st->pack_failed);
}

/* Counters of the reader processes (reader/reader.h). */
static const struct status_row reader_rows[] = {
#define VALUE(key, end, help)                                                                      \
	{                                                                                          \
		"readers", #key, "sysom_readers_" #key end, help,                                  \
		    offsetof(struct reader_stats, key), false                                      \
	}
    VALUE(started, "_total",
	  "Pairs of reader processes started; they read other processes' files and memory."),
    VALUE(killed, "_total", "Pairs killed because they took too long."),
    VALUE(cpu, "_total", "Parsers killed because a file took too much CPU time."),
    VALUE(crashed, "_total", "Parsers that crashed."),
    VALUE(file_refused, "_total", "Requests refused because the file cost too much before."),
    VALUE(no_worker, "_total", "Requests refused because too many pairs were abandoned."),
    VALUE(files, "", "Files that are refused now."),
    VALUE(abandoned, "", "Killed pairs that have not ended yet."),
#undef VALUE
};

static void json_readers(const struct node *n, struct buf *b)
{
	struct reader_stats st;

	reader_stats_get(n->reader, &st);
	buf_puts(b, "\"readers\":{");
	for (size_t i = 0; i < ARRAY_LEN(reader_rows); i++)
		buf_printf(b, "%s\"%s\":%llu", i ? "," : "", reader_rows[i].key,
			   (unsigned long long)status_row_value(&reader_rows[i], &st));
	buf_puts(b, "},");
}

/* The capabilities that are missing. */
static void json_rights(struct buf *b)
{
	bool has[RIGHTS];

	rights_now(has);
	buf_puts(b, "\"rights\":[");
	for (int i = 0, n = 0; i < RIGHTS; i++) {
		if (has[i])
			continue;
		buf_printf(b, "%s{\"without\":\"CAP_%s\"", n++ ? "," : "", rights[i].name);
		json_text_append(b, ",\"lost\":", rights[i].lost);
		buf_puts(b, "}");
	}
	buf_puts(b, "],");
}

static void json_sampler(const struct node *n, struct buf *b)
{
	struct cpu_stacks_stats st;
	struct sampler_stats s;

	cpu_stacks_stats_get(n->stacks, &st, &s);
	json_text_append(b, "\"sampler\":{\"why\":", s.why);
	json_text_append(b, ",\"missing\":", s.missing);
	json_text_append(b, ",\"python_why\":", s.python_why);
	buf_printf(b, ",\"python_refused\":%u", s.python_refused);
	buf_printf(b,
		   ",\"rate_hz\":%llu,\"fraction_percent\":%llu,\"raised\":%s,\"wide\":%s,"
		   "\"wide_s\":%.3f,\"wide_begun\":%llu,\"others\":%llu,\"neighbours_lost\":%llu,",
		   (unsigned long long)n->settings.sampler_rate_hz,
		   (unsigned long long)(st.raised ? 100 : n->settings.sampler_fraction),
		   st.raised ? "true" : "false", st.wide ? "true" : "false",
		   (double)st.wide_ns * 1e-9, (unsigned long long)st.wide_begun,
		   (unsigned long long)st.others, (unsigned long long)st.neighbours_lost);
	for (size_t i = 0; i < ARRAY_LEN(sampler_rows); i++)
		buf_printf(b, "\"%s\":%llu,", sampler_rows[i].key,
			   (unsigned long long)status_row_value(&sampler_rows[i], &s));
	buf_puts(b, "\"ends\":{");
	for (int i = 0; i < STACK_END_COUNT; i++)
		json_loss(b, stack_end_names[i], s.end[i]);
	buf_puts(b, "},\"lost\":{");
	sampler_losses(&st, &s, json_loss, b);
	buf_printf(b,
		   "},\"processes\":%u,\"mappings\":%u,\"tables\":%u,\"tables_refused\":%u,"
		   "\"table_build_s\":%.6f,\"drains\":%llu,\"drain_s\":%.6f,"
		   "\"drain_max_s\":%.6f,\"kept_bytes\":%llu,\"kept_s\":%.3f},",
		   s.processes, s.mappings, s.tables, s.tables_refused,
		   (double)s.table_build_ns * 1e-9, (unsigned long long)st.drains,
		   (double)st.drain_ns * 1e-9, (double)st.drain_max_ns * 1e-9,
		   (unsigned long long)st.kept_bytes, (double)st.kept_ns * 1e-9);
}

static void json_symbols(struct node *n, struct buf *b)
{
	struct symbol_offer_stats st;

	symbol_offer_stats_get(n->offer, &st);
	json_text_append(b, "\"symbols\":{\"fault\":", n->offer ? st.fault : n->offer_why);
	buf_printf(b, ",\"uploaded\":%llu,\"failed\":%llu},", (unsigned long long)st.uploaded,
		   (unsigned long long)(st.failed + st.refused));
}

static void json_otlp(struct node *n, struct buf *b)
{
	struct otlp_export_stats s;

	otlp_export_stats(n->otlp, &s);
	json_text_append(b, "\"otlp\":{\"fault\":", s.fault);
	buf_printf(b, ",\"sent\":%llu,\"failed\":%llu,\"dropped\":%llu,\"rejected\":%llu},",
		   (unsigned long long)s.sent, (unsigned long long)s.failed,
		   (unsigned long long)s.dropped, (unsigned long long)s.rejected);
}

void status_json(struct node *n, const struct http_user *user, struct buf *b)
{
	uint32_t hidden = 0;
	struct uplink_stats us;
	struct recorder_stats rs;
	bool first = true;

	uplink_stats(n->uplink, &us);
	recorder_stats(n->analysis.recorder, &rs);
	json_text_append(b, "{\"node\":", n->settings.node_name);
	json_text_append(b, ",\"state_dir\":", n->settings.state_dir);
	buf_printf(b,
		   ",\"version\":\"%s\",\"mode\":{\"stacks\":\"%s\",\"roofline\":\"%s\","
		   "\"canary\":%s,\"stops\":\"%s\",\"spool\":\"%s\"},\"ranks\":[",
		   SYSOM_VERSION, stacks_mode(n), n->settings.roofline_mode ? "p99" : "robust",
		   canary_is_on(n->analysis.canary) ? "true" : "false",
		   canary_is_realtime(n->analysis.canary) ? "seen" : "unseen",
		   us.spool.disk_error ? "memory" : "disk");
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		if (!n->processes[i])
			continue;
		if (!http_user_sees(user, n->processes[i]->uid)) {
			hidden++;
			continue;
		}
		if (!first)
			buf_puts(b, ",");
		first = false;
		json_rank(b, n->processes[i]);
	}
	buf_printf(b, "],\"hidden_ranks\":%u", hidden);
	links_node_json_colls(n, user, b);
	json_text_append(b, ",\"uplink\":{\"url\":", n->settings.uplink_url);
	buf_printf(b,
		   ",\"connected\":%s,\"spool_bytes\":%llu,\"windows_sent\":%llu,"
		   "\"windows_dropped\":%llu,\"uploaded_bytes\":%llu,\"raw_bytes\":%llu},",
		   us.connected ? "true" : "false", (unsigned long long)us.spool.bytes,
		   (unsigned long long)us.windows_sent, (unsigned long long)us.windows_dropped,
		   (unsigned long long)us.uploaded_bytes, (unsigned long long)raw_bytes(n));
	json_symbols(n, b);
	json_otlp(n, b);
	json_rights(b);
	json_sampler(n, b);
	json_readers(n, b);
	os_node_json(n, b);
	gpu_node_json(n, user, b);
	ras_node_json(n, b);
	status_compare_json(n, b);
	buf_printf(b,
		   "\"own\":{\"cpu_share\":%.6f,\"rss_bytes\":%llu,\"recorder_bytes\":%llu,"
		   "\"retention_s\":%.3f}}\n",
		   n->run.cpu_share, (unsigned long long)rss_bytes(),
		   (unsigned long long)(rs.memory_bytes + rs.file_bytes),
		   (double)retention_ns(n, clock_monotonic_ns()) * 1e-9);
}

/* ---- Prometheus ---- */

/* cause: NULL except for losses. */
static void rank_sample(struct metrics *m, const char *name, double v, const struct process *p,
			const char *cause)
{
	char rank[12];

	snprintf(rank, sizeof(rank), "%d", p->id.rank);
	metrics_sample(m, name, v, "job_name", p->id.job, "rank", rank, cause ? "cause" : NULL,
		       cause, NULL);
}

/* Metrics of one rank; rank_value computes their values. */
#define RANK_METRICS(X)                                                                            \
	X(steps_total, "Steps found.", st->steps)                                                  \
	X(flagged_steps_total, "Steps slower than expected.", st->flagged)                         \
	X(flagged_self_steps_total, "Steps slower than expected in the rank's self time.",         \
	  st->flagged_self)                                                                        \
	X(incomplete_steps_total, "Steps not judged because some of their kernels were not seen.", \
	  st->incomplete)                                                                          \
	X(host_stall_steps_total, "Steps not judged because the machine stood still.",             \
	  st->host_stall)                                                                          \
	X(step_seconds, "Median latency of the last steps.", medians(p).latency_ns * 1e-9)         \
	X(expected_step_seconds, "Median expected latency.", medians(p).expected_ns * 1e-9)        \
	X(events_total, "Events read from the ring.", process_events(p))                           \
	X(ring_bytes_total, "Bytes read from the ring.", process_raw_bytes(p))                     \
	X(kernels_joined_total, "Kernels matched with their launch.", js->kernels_joined)          \
	X(kernels_unmatched_total, "Kernels without a launch.", js->kernels_unmatched)             \
	X(switched_off_total,                                                                      \
	  "Calls, launches and collectives not recorded because tracing was off.",                 \
	  process_switched_off(p))                                                                 \
	X(trace_on, "1 while tracing is on.", p->link.trace_state == RING_TRACE_ON)                \
	X(model_state, "0 learning, 1 ready, 2 refused.", rank_model(p->rank, NULL, NULL))         \
	X(peer_excess_seconds,                                                                     \
	  "Self time per step above the rank's peers on this node; 0 if the rank is as fast.",     \
	  peer->slow ? peer->excess_ns * 1e-9 : 0)                                                 \
	X(windows_counted_total,                                                                   \
	  "Windows beyond the limits of window.burst and window.per_minute: only counted.",        \
	  st->windows_counted)

static const struct rank_metric {
	const char *name, *help;
} rank_metrics[] = {
#define METRIC(name, help, value) {"sysom_rank_" #name, help},
    RANK_METRICS(METRIC)
#undef METRIC
};

static struct rank_medians medians(const struct process *p)
{
	struct rank_medians m;

	rank_medians(p->rank, &m);
	return m;
}

enum {
#define METRIC(name, help, value) METRIC_##name,
	RANK_METRICS(METRIC)
#undef METRIC
};

static double rank_value(const struct process *p, size_t metric)
{
	const struct windows_peer *peer = windows_peer(p->node->analysis.windows, p->slot);
	const struct join_stats *js = process_join_stats(p);
	const struct rank_stats *st = &p->rank->stats;

	switch (metric) {
#define VALUE(name, help, value)                                                                   \
	case METRIC_##name:                                                                        \
		return (double)(value);
		RANK_METRICS(VALUE)
#undef VALUE
	}
	return 0;
}

struct loss_arg {
	struct metrics *m;
	const struct process *p;
};

static void metric_loss(void *arg, const char *cause, uint64_t count)
{
	struct loss_arg *l = arg;

	if (count)
		rank_sample(l->m, "sysom_rank_lost_total", (double)count, l->p, cause);
}

static void rank_info(const struct process *p, struct metrics *m)
{
	const char *uuid = "";
	int gpu = gpu_node_of(p, &uuid);
	const struct wire_pod *pod = &p->id.pod;
	char rank[12], index[12] = "";

	snprintf(rank, sizeof(rank), "%d", p->id.rank);
	if (gpu >= 0)
		snprintf(index, sizeof(index), "%d", gpu);
	metrics_sample(m, "sysom_rank_info", 1, "job_name", p->id.job, "rank", rank, "namespace",
		       pod->text[POD_NAMESPACE], "pod", pod->text[POD_NAME], "container",
		       pod->text[POD_CONTAINER], "hostname", window_pod_host(pod, p->id.node),
		       "gpu", index, "UUID", uuid, NULL);
}

static void rank_series(struct node *n, const struct http_user *user, struct metrics *out)
{
	metrics_family(out, "sysom_rank_info",
		       "1; where a rank runs, to join on job_name and rank.");
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (p && p->state != PROCESS_GONE && http_user_sees(user, p->uid))
			rank_info(p, out);
	}
	for (size_t k = 0; k < ARRAY_LEN(rank_metrics); k++) {
		const struct rank_metric *m = &rank_metrics[k];

		metrics_family(out, m->name, m->help);
		for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
			const struct process *p = n->processes[i];

			/* Skip ended ranks: a rank that attached again would appear twice. */
			if (!p || p->state == PROCESS_GONE || !http_user_sees(user, p->uid))
				continue;
			rank_sample(out, m->name, rank_value(p, k), p, NULL);
		}
	}
	metrics_family(out, "sysom_rank_lost_total", "Events and records lost, by cause.");
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct loss_arg l = {out, n->processes[i]};

		if (l.p && l.p->state != PROCESS_GONE && http_user_sees(user, l.p->uid))
			process_losses(l.p, false, metric_loss, &l);
	}
}

static void uplink_series(struct node *n, struct metrics *m)
{
	struct uplink_stats us;

	uplink_stats(n->uplink, &us);
	METRICS(
	    m, {"sysom_uplink_connected", "1 while connected to the aggregator.", us.connected},
	    {"sysom_uplink_windows_sent_total", "Windows committed by the aggregator.",
	     us.windows_sent},
	    {"sysom_uplink_windows_dropped_total", "Windows dropped, for any cause.",
	     us.windows_dropped},
	    {"sysom_uplink_windows_rejected_total", "Windows the aggregator refused.",
	     us.windows_rejected},
	    {"sysom_uplink_bad_replies_total",
	     "Answers of the aggregator that were not understood.", us.bad_replies},
	    {"sysom_uplink_retries_total", "Window requests that must be sent again.", us.retries},
	    {"sysom_uplink_bytes_total", "Bytes sent.", us.uploaded_bytes},
	    {"sysom_spool_bytes", "Bytes waiting in the spool.", us.spool.bytes},
	    {"sysom_spool_memory_bytes", "Spool bytes in memory because the disk is unusable.",
	     us.spool.memory_bytes},
	    {"sysom_spool_disk_errors_total", "Spool writes that failed.", us.spool.disk_errors});
}

static void offer_series(struct node *n, struct metrics *m)
{
	struct symbol_offer_stats st;

	symbol_offer_stats_get(n->offer, &st);
	METRICS(
	    m, {"sysom_symbols_noted_total", "Build IDs in the stacks that were sent.", st.noted},
	    {"sysom_symbols_forgotten_total", "Build IDs that found no place in the list.",
	     st.forgotten},
	    {"sysom_symbols_needed_total", "Symbol files that the aggregator lacked.", st.needed},
	    {"sysom_symbols_uploaded_total", "Symbol files uploaded.", st.uploaded},
	    {"sysom_symbols_uploaded_bytes_total", "Bytes of uploads, failed ones included.",
	     st.uploaded_bytes},
	    {"sysom_symbols_no_file_total", "Build IDs without a file to upload.", st.no_file},
	    {"sysom_symbols_over_budget_total", "Uploads delayed by symbols.per_day.",
	     st.over_budget},
	    {"sysom_symbols_refused_total", "Uploads that the aggregator refused.", st.refused},
	    {"sysom_symbols_failed_total", "Upload requests without an answer.", st.failed},
	    {"sysom_symbols_fault",
	     "1 while symbol files can't be uploaded; the log and sysom doctor say why.",
	     n->offer ? *st.fault != '\0' : *n->offer_why != '\0'});
}

static void sampler_loss(void *arg, const char *cause, uint64_t count)
{
	metrics_sample(arg, "sysom_sampler_lost_total", (double)count, "cause", cause, NULL);
}

static void reader_series(struct node *n, struct metrics *m)
{
	struct reader_stats st;

	reader_stats_get(n->reader, &st);
	status_rows_metrics(m, reader_rows, ARRAY_LEN(reader_rows), &st);
}

static void sampler_series(struct node *n, struct metrics *m)
{
	struct cpu_stacks_stats st;
	struct sampler_stats s;

	cpu_stacks_stats_get(n->stacks, &st, &s);
	METRICS(
	    m,
	    {"sysom_sampler_mode", "0 none, 1 copied stacks, 2 BPF tail calls, 3 BPF loops.",
	     s.mode},
	    {"sysom_sampler_fraction", "Share of ticks that take a sample.",
	     st.raised ? 1 : (double)n->settings.sampler_fraction / 100},
	    {"sysom_sampler_wide", "1 while the whole node is sampled.", st.wide},
	    {"sysom_sampler_wide_seconds_total", "Time during which the whole node was sampled.",
	     st.wide_ns * 1e-9},
	    {"sysom_sampler_others_total", "Samples of other processes in that time.", st.others},
	    {"sysom_sampler_neighbours_lost_total",
	     "Samples of other processes that found no room.", st.neighbours_lost});
	status_rows_metrics(m, sampler_rows, ARRAY_LEN(sampler_rows), &s);
	metrics_family(m, "sysom_sampler_stacks_total", "User stacks, by how they ended.");
	for (int i = 0; i < STACK_END_COUNT; i++)
		metrics_sample(m, "sysom_sampler_stacks_total", (double)s.end[i], "end",
			       stack_end_names[i], NULL);
	metrics_family(m, "sysom_sampler_lost_total", "Samples lost, by cause.");
	sampler_losses(&st, &s, sampler_loss, m);
	METRICS(m, {"sysom_sampler_processes", "Processes that are sampled.", s.processes},
		{"sysom_sampler_tables", "Unwind tables, one per Build ID.", s.tables},
		{"sysom_sampler_tables_refused_total", "Files without a usable table.",
		 s.tables_refused},
		{"sysom_sampler_drain_seconds_total", "Time spent in drains.", st.drain_ns * 1e-9},
		{"sysom_sampler_kept_bytes", "Stacks kept in memory, packed.", st.kept_bytes});
}

static void attach_series(struct node *n, struct metrics *m)
{
	METRICS(
	    m, {"sysom_attached_total", "Processes attached.", n->admission.attached},
	    {"sysom_reattached_total", "Processes that connected again.", n->admission.reattached},
	    {"sysom_attach_refused_full_total",
	     "Processes refused because the node is full and their user has a fair share.",
	     n->admission.refused_full},
	    {"sysom_gave_way_total",
	     "Processes of a full node dropped for a user with fewer processes.",
	     n->admission.gave_way},
	    {"sysom_rank_restarts_total",
	     "Processes that took the place of one that had ended, in a job that went on.",
	     n->admission.restarts},
	    {"sysom_attach_refused_bad_total",
	     "Connections refused because the peer broke the protocol.", n->admission.refused_bad},
	    {"sysom_attach_refused_busy_total",
	     "Connections refused because their user has too many, or attaches too often.",
	     n->admission.refused_busy},
	    {"sysom_attach_rests_total",
	     "Pauses in accepting after refusals, which bound their CPU time.",
	     n->admission.rests});
}

static void rights_series(struct metrics *m)
{
	bool has[RIGHTS];

	rights_now(has);
	metrics_family(m, "sysom_capability",
		       "1 if sysomd has the capability; docs/sysomd.md says what each is for.");
	for (int i = 0; i < RIGHTS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "CAP_%s", rights[i].name);
		metrics_sample(m, "sysom_capability", has[i], "capability", name, NULL);
	}
}

void status_metrics(struct node *n, const struct http_user *user, struct metrics *m)
{
	uint64_t now_ns = clock_monotonic_ns(), stalls, stalled_ns;
	struct recorder_stats rs;
	struct analysis_log_stats ls;
	struct keep_stats ks;

	recorder_stats(n->analysis.recorder, &rs);
	keep_stats_get(n->keep, &ks);
	canary_totals(n->analysis.canary, &stalls, &stalled_ns);
	metrics_build_info(m, WIRE_VERSION);
	rights_series(m);
	rank_series(n, user, m);
	links_node_metrics(n, user, m);
	uplink_series(n, m);
	offer_series(n, m);
	sampler_series(n, m);
	reader_series(n, m);
	os_node_metrics(n, m);
	gpu_node_metrics(n, m);
	status_compare_metrics(n, m);
	attach_series(n, m);
	METRICS(
	    m,
	    {"sysom_baselines_restored_total",
	     "Processes whose baseline an earlier sysomd had saved.", ks.restored},
	    {"sysom_baselines_ready_total",
	     "Restored processes that were judged from their first step on.", ks.ready},
	    {"sysom_baseline_restored_steps_total", "Learning steps of the restored processes.",
	     ks.steps},
	    {"sysom_baselines_due", "Processes whose baseline must be saved.",
	     keep_due(n->keep, n->processes, clock_monotonic_ns())},
	    {"sysom_baselines_bad_total", "Baseline files that were refused.", ks.bad},
	    {"sysom_baseline_errors_total", "Baseline files that could not be written.", ks.errors},
	    {"sysom_drain_behind_total", "Drain turns that left events unread.",
	     drain_behind(n->drain)},
	    {"sysom_recorder_records_total", "Records kept.", rs.records},
	    {"sysom_recorder_stored_bytes_total", "Bytes of the records, compressed.",
	     rs.stored_bytes},
	    {"sysom_recorder_memory_bytes", "Bytes of records in memory.", rs.memory_bytes},
	    {"sysom_recorder_file_bytes", "Bytes of records in files.", rs.file_bytes},
	    {"sysom_recorder_lost_records_total", "Records that could not be kept.",
	     rs.lost_records},
	    {"sysom_recorder_retention_seconds", "Age of the oldest record.",
	     retention_ns(n, now_ns) * 1e-9});
	if (n->analysis.log) {
		analysis_log_stats(n->analysis.log, &ls);
		METRICS(m, {"sysom_analysis_recorded_bytes", "Size of record.analysis.", ls.bytes},
			{"sysom_analysis_unrecorded_events_total",
			 "Events not recorded: record.analysis is full, or its disk too slow.",
			 ls.lost});
	}
	METRICS(
	    m, {"sysom_host_stalls_total", "Times the machine stood still.", stalls},
	    {"sysom_host_stall_seconds_total", "Time during which the machine stood still.",
	     stalled_ns * 1e-9},
	    {"sysom_host_stolen_seconds_total",
	     "Estimated time taken from the machine, short stalls included; 0 without real-time "
	     "threads.",
	     canary_stolen_ns(n->analysis.canary) * 1e-9},
	    {"sysom_clock_error_seconds", "Largest error of the clock conversion.",
	     n->clock.error_ns * 1e-9},
	    {"sysom_own_cpu_share", "CPU time of sysomd per second of wall time.",
	     n->run.cpu_share},
	    {"sysom_own_resident_bytes", "Resident memory of sysomd.", rss_bytes()});
}

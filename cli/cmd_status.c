/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text/jsonget.h"
#include "base/daemon/misspelt.h"
#include "cli/commands.h"
#include "render/term.h"
#include "ring/ring_format.h"

#define ROWS_MAX 200 /* of a table for people; --json has them all */
/* Columns that the full tables need; a narrower terminal gets fewer fields. */
#define NODE_WIDE 100
#define INDENT	  12 /* of the texts after the labels */

/* Some causes only count input of the job that sysomd can't use. */
static bool loses_events(const char *cause)
{
#define X(name, text, events)                                                                      \
	if (!strcmp(cause, text))                                                                  \
		return events;
	RING_DROP_CAUSES (X)
#undef X
		return true; /* of the ring's reader */
}

static void print_lost(const json_t *rank)
{
	const json_t *lost = json_object_get(rank, "lost"), *v;
	const char *cause;

	json_object_foreach ((json_t *)lost, cause, v)
		if (json_number_value(v) > 0)
			printf("      %s%s %s: %s%s%s\n", term_style(TERM_YELLOW),
			       loses_events(cause) ? "lost" : "left out", term_safe(cause, 32),
			       term_count(json_number_value(v)),
			       loses_events(cause) ? "" : " (sysom doctor explains it)",
			       term_style(TERM_PLAIN));
	if (jsonget_number(rank, "switched_off") > 0)
		printf("      not recorded while tracing was off: %s\n",
		       term_count(jsonget_number(rank, "switched_off")));
}

/* R2 of each kind of step that the job's spans name. */
static void print_models(const json_t *rank)
{
	const json_t *models = json_object_get(rank, "models"), *m;
	unsigned shown = 0;
	size_t i;

	json_array_foreach ((json_t *)models, i, m) {
		const char *phase = jsonget_text(m, "phase"), *state = jsonget_text(m, "state");

		if (!*phase)
			continue;
		printf("%s%s ", shown++ ? ", " : "      models  ", term_safe(phase, 16));
		if (strcmp(state, "ready") != 0)
			printf("%s", term_safe(state, 16));
		else
			printf("R2 %.3f", jsonget_number(m, "r2"));
		printf(" (%s)", term_counted(jsonget_number(m, "steps"), "step", "steps"));
	}
	if (shown)
		putchar('\n');
}

static void print_line(const json_t *regimes)
{
	const json_t *r;
	size_t i;

	json_array_foreach ((json_t *)regimes, i, r) {
		double rate = jsonget_number(r, "rate_gb_s");

		if (json_array_size(regimes) > 1)
			printf("%sto %s ", i ? ", " : "",
			       term_bytes(jsonget_number(r, "max_bytes")));
		printf("%.3g us", jsonget_number(r, "latency_us"));
		if (rate > 0)
			printf(" + bytes / %.3g GB/s", rate);
	}
}

static void print_fit(const char *what, const char *name, const json_t *k)
{
	const json_t *regimes = json_object_get(k, "regimes");
	const json_t *best = json_object_get(json_object_get(k, "min"), "regimes");

	if (!json_array_size(regimes))
		return;
	printf("%s %s: ", what, term_safe(name, 160));
	print_line(regimes);
	printf("; R2 %.3f, error %.1f%%%s", jsonget_number(k, "r2"),
	       100 * jsonget_number(k, "mape"), json_array_size(best) ? "; at best " : "");
	print_line(best);
	putchar('\n');
}

/* The expected times of transfers, by size. */
static void print_links(const json_t *rank)
{
	const json_t *list = json_object_get(rank, "links"), *k;
	char to[32];
	size_t i;

	json_array_foreach ((json_t *)list, i, k) {
		snprintf(to, sizeof(to), "%lld", (long long)jsonget_integer(k, "to"));
		print_fit("      link to", to, k);
	}
}

/* The same for a whole collective, whichever rank of the node saw it. */
static void print_collectives(const json_t *list)
{
	const json_t *k;
	size_t i;

	json_array_foreach ((json_t *)list, i, k) {
		char name[160];
		double ranks = jsonget_number(k, "ranks");

		snprintf(name, sizeof(name), "%s of %s rank%s of %s, communicator %s",
			 jsonget_text(k, "function"), term_count(ranks), ranks == 1 ? "" : "s",
			 jsonget_text(k, "job"), jsonget_text(k, "communicator"));
		print_fit(" ", name, k);
	}
}

static void print_unknown_variable(const json_t *rank)
{
	const char *name = jsonget_text(rank, "unknown_variable");

	if (*name)
		printf("      %s%s is set in the job, but nothing reads it; did you mean %s?%s\n",
		       term_style(TERM_YELLOW), term_safe(name, 40), misspelt_nearest(name),
		       term_style(TERM_PLAIN));
}

static void print_restarts(const json_t *rank)
{
	double n = jsonget_number(rank, "restarts");

	if (n > 0)
		printf("      %sstarted again %s time%s; process %lld had ended before%s\n",
		       term_style(TERM_YELLOW), term_count(n), n == 1 ? "" : "s",
		       (long long)jsonget_integer(rank, "before_pid"), term_style(TERM_PLAIN));
}

static void print_peer(const json_t *rank)
{
	if (jsonget_true(rank, "peer_slow"))
		printf("      %sslower than its peers on this node by %s a step%s\n",
		       term_style(TERM_YELLOW), term_ms(jsonget_number(rank, "peer_excess_ms")),
		       term_style(TERM_PLAIN));
}

static void print_hang(const json_t *rank)
{
	double hang_s = jsonget_number(rank, "hang_s");

	if (hang_s > 0)
		printf(
		    "      %shangs for %s: it launches nothing, and its GPU finishes nothing%s\n",
		    term_style(TERM_RED), term_span(hang_s), term_style(TERM_PLAIN));
}

/* Of a process that has ended, sysomd only has past values. */
static bool is_here(const json_t *rank)
{
	const char *state = jsonget_text(rank, "state");

	return !*state || !strcmp(state, "attached");
}

static void print_node_ranks(const json_t *ranks)
{
	size_t count;
	json_t **sorted = commands_sorted_ranks(ranks, &count);
	bool wide = term_columns() >= NODE_WIDE;

	if (!sorted || !count) {
		puts("  no processes attached (sysom run -- COMMAND)");
		free(sorted);
		return;
	}
	printf("  %s%-14s %4s", term_style(TERM_BOLD), "job", "rank");
	if (wide)
		printf(" %8s", "pid");
	printf(" %-8s %-9s %10s %10s %9s %7s", "trace", "model", "step", "expected", "steps",
	       "flagged");
	if (wide)
		printf(" %10s", "events");
	printf("%s\n", term_style(TERM_PLAIN));
	for (size_t i = 0; i < count; i++) {
		const json_t *r = sorted[i];

		if (i == ROWS_MAX) {
			printf("  ... %zu more (--json)\n", count - i);
			break;
		}
		printf("  %-14s %4s", term_safe(jsonget_text(r, "job"), 14), commands_rank(r));
		if (wide)
			printf(" %8lld", (long long)jsonget_integer(r, "pid"));
		printf(" %-8s %-9s %10s %10s %9s %7s", is_here(r) ? commands_word(r, "trace") : "-",
		       jsonget_number(r, "hang_s") > 0
			   ? "hangs"
			   : commands_word(r, is_here(r) ? "model" : "state"),
		       commands_ms(jsonget_number(r, "step_ms")),
		       commands_ms(jsonget_number(r, "expected_ms")),
		       term_count(jsonget_number(r, "steps")),
		       term_count(jsonget_number(r, "flagged")));
		if (wide)
			printf(" %10s", term_count(jsonget_number(r, "events")));
		putchar('\n');
		print_models(r);
		print_links(r);
		print_unknown_variable(r);
		print_restarts(r);
		print_hang(r);
		print_peer(r);
		print_lost(r);
	}
	free(sorted);
}

/* Explains a mode of sysomd; key and value as in --json. */
static const char *explain_mode(const char *key, const char *value)
{
	static const struct {
		const char *key, *value, *text;
	} table[] = {
	    {"stacks", "none", "no CPU stacks are taken"},
	    {"stacks", "starting", "the sampler is being loaded"},
	    {"stacks", "copy", "unwound by sysomd: no Python names, no blocked time"},
	    {"stacks", "bpf-tail", "unwound in the kernel, by tail calls"},
	    {"stacks", "bpf-loop", "unwound in the kernel"},
	    {"roofline", "robust", "expected times: a median line and a calibrated tail"},
	    {"roofline", "p99", "expected times: a 99th percentile line (RANSAC)"},
	    {"canary", "on", "steps in which the whole node stood still are not judged"},
	    {"canary", "off", "stalls of the whole node may look like slow ranks"},
	    {"stops", "seen", "real-time threads measure what the hypervisor takes"},
	    {"stops", "unseen", "switched off, no CAP_SYS_NICE, or one CPU"},
	    {"spool", "disk", "windows wait on the disk until the aggregator has them"},
	    {"spool", "memory", "windows wait in memory: they cannot be written to the disk"},
	};

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (!strcmp(table[i].key, key) && !strcmp(table[i].value, value))
			return table[i].text;
	return "";
}

static void print_sampler(const json_t *s)
{
	const json_t *lost = json_object_get(s, "lost"), *ends = json_object_get(s, "ends"), *v;
	double truncated = 0, lost_count = 0;
	const char *cause;
	char text[300];

	if (!json_is_object(s))
		return; /* an older sysomd */
	json_object_foreach ((json_t *)ends, cause, v)
		if (strcmp(cause, "root"))
			truncated += json_number_value(v);
	json_object_foreach ((json_t *)lost, cause, v)
		lost_count += json_number_value(v);
	if (*jsonget_text(s, "why"))
		printf("            %s%s%s\n", term_style(TERM_YELLOW),
		       term_safe(jsonget_text(s, "why"), 160), term_style(TERM_PLAIN));
	if (*jsonget_text(s, "missing"))
		printf("            %s\n", term_safe(jsonget_text(s, "missing"), 160));
	if (jsonget_number(s, "python_refused") > 0)
		printf("            no Python frames of %s processes: %s\n",
		       term_count(jsonget_number(s, "python_refused")),
		       term_safe(jsonget_text(s, "python_why"), 160));
	if (jsonget_number(s, "samples_total") <= 0)
		return;
	snprintf(text, sizeof(text),
		 "%s Hz, %s%% of ticks%s; %s samples of %s, truncated %s, lost %s",
		 term_count(jsonget_number(s, "rate_hz")),
		 term_count(jsonget_number(s, "fraction_percent")),
		 jsonget_true(s, "wide")     ? " (on the whole node, because a rank is slow)"
		 : jsonget_true(s, "raised") ? " (more, because a rank is slow)"
					     : "",
		 term_count(jsonget_number(s, "samples_total")),
		 term_counted(jsonget_number(s, "processes"), "process", "processes"),
		 term_count(truncated), term_count(lost_count));
	term_wrap(stdout, INDENT, "", text, term_columns());
}

static void print_mode(const json_t *mode, const json_t *sampler)
{
	const json_t *v;
	const char *key;

	json_object_foreach ((json_t *)mode, key, v) {
		char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
		const char *value = json_is_string(v)  ? json_string_value(v)
				    : json_is_true(v)  ? "on"
				    : json_is_false(v) ? "off"
				    : text	       ? text
						       : "";

		if (*explain_mode(key, value))
			printf("  %-9s %-9s %s%s%s\n", term_safe(key, 20), term_safe(value, 60),
			       term_style(TERM_DIM), explain_mode(key, value),
			       term_style(TERM_PLAIN));
		else
			printf("  %-9s %s\n", term_safe(key, 20), term_safe(value, 60));
		if (!strcmp(key, "stacks"))
			print_sampler(sampler);
		free(text);
	}
}

static void print_os(const json_t *os)
{
	const char *mode = jsonget_text(os, "mode");
	bool bpf = !strcmp(mode, "bpf");

	if (!os)
		return;
	printf("  OS        %s%s%s%s", term_style(bpf ? TERM_PLAIN : TERM_YELLOW),
	       bpf		       ? "by BPF"
	       : !strcmp(mode, "proc") ? "from /proc only: "
				       : "off: ",
	       bpf ? "" : term_safe(jsonget_text(os, "why"), 120), term_style(TERM_PLAIN));
	if (bpf)
		printf(", %s, %s",
		       term_counted(jsonget_number(os, "processes"), "process", "processes"),
		       term_counted(jsonget_number(os, "threads"), "thread", "threads"));
	if (*jsonget_text(os, "missing"))
		printf("; not available: %s", term_safe(jsonget_text(os, "missing"), 200));
	if (*jsonget_text(json_object_get(os, "cost"), "turned_down"))
		printf("%s; reduced to stay in its CPU budget: %s%s", term_style(TERM_YELLOW),
		       term_safe(jsonget_text(json_object_get(os, "cost"), "turned_down"), 160),
		       term_style(TERM_PLAIN));
	putchar('\n');
}

/* Why a GPU's clocks are limited. */
static const char *reason_text(const char *reason)
{
	static const char *const texts[][2] = {
	    {"power_cap", "power cap"},
	    {"hw_slowdown", "hardware slowdown"},
	    {"sync_boost", "sync boost"},
	    {"sw_thermal", "heat (software limit)"},
	    {"hw_thermal", "heat (hardware limit)"},
	    {"power_brake", "power brake"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(texts[i][0], reason))
			return texts[i][1];
	return reason;
}

/* Prints a GPU that a rank uses or that has a problem. */
static void print_device(const json_t *d)
{
	const json_t *ranks = json_object_get(d, "ranks"),
		     *throttle = json_object_get(d, "throttle"), *v;
	bool answers = jsonget_true(d, "answers");
	double xids = jsonget_number(d, "xids");
	size_t i;

	if (!json_array_size(ranks) && answers && !json_array_size(throttle) && xids <= 0)
		return;
	printf("  %-9s GPU %.0f", "", jsonget_number(d, "index"));
	json_array_foreach ((json_t *)ranks, i, v)
		printf("%s%.0f", i ? ", " : " of rank ", jsonget_number(v, "rank"));
	if (!answers) {
		printf(": %sdoes not answer%s\n", term_style(TERM_RED), term_style(TERM_PLAIN));
		return;
	}
	printf(": %.0f of %.0f MHz, %.0f C, %.0f W", jsonget_number(d, "sm_clock_mhz"),
	       jsonget_number(d, "sm_clock_max_mhz"), jsonget_number(d, "temperature_c"),
	       jsonget_number(d, "power_mw") * 1e-3);
	json_array_foreach ((json_t *)throttle, i, v)
		printf("%s%s%s%s", i ? ", " : "; clocks held down by ", term_style(TERM_YELLOW),
		       reason_text(json_string_value(v) ? term_safe(json_string_value(v), 20) : ""),
		       term_style(TERM_PLAIN));
	if (jsonget_number(d, "ecc_uncorrected") > 0)
		printf("; %s memory errors not corrected",
		       term_count(jsonget_number(d, "ecc_uncorrected")));
	if (xids > 0)
		printf("; last XID %.0f", jsonget_number(d, "xid"));
	putchar('\n');
}

static void print_gpu(const json_t *g)
{
	const json_t *devices = json_object_get(g, "devices"), *d;
	bool open = !strcmp(jsonget_text(g, "mode"), "nvml");
	char text[200];
	size_t i;

	if (!g)
		return;
	if (!open) {
		snprintf(text, sizeof(text), "no telemetry: %s", jsonget_text(g, "why"));
		term_wrap(stdout, INDENT, "GPU", text, term_columns());
		return;
	}
	printf("  %-9s NVML, driver %s, %zu devices", "GPU",
	       term_safe(jsonget_text(g, "driver"), 30), json_array_size(devices));
	if (jsonget_number(g, "hangs_s") > 5)
		printf("; %sno answer for %s%s", term_style(TERM_RED),
		       term_span(jsonget_number(g, "hangs_s")), term_style(TERM_PLAIN));
	putchar('\n');
	json_array_foreach ((json_t *)devices, i, d)
		print_device(d);
}

static void print_node(const json_t *n)
{
	const json_t *up = json_object_get(n, "uplink"), *own = json_object_get(n, "own");
	bool connected = jsonget_true(up, "connected");

	printf("%snode %s%s  sysomd %s\n", term_style(TERM_BOLD),
	       term_safe(jsonget_text(n, "node"), 60), term_style(TERM_PLAIN),
	       term_safe(jsonget_text(n, "version"), 30));
	print_mode(json_object_get(n, "mode"), json_object_get(n, "sampler"));
	print_node_ranks(json_object_get(n, "ranks"));
	print_collectives(json_object_get(n, "collectives"));
	printf("  uplink    %s %s%s%s%s %s waiting, windows sent %s, dropped %s\n",
	       term_safe(jsonget_text(up, "url"), 60),
	       term_style(connected ? TERM_GREEN : TERM_RED),
	       connected ? "connected" : "not connected", term_style(TERM_PLAIN),
	       term_columns() < NODE_WIDE ? ",\n           " : ",",
	       term_bytes(jsonget_number(up, "spool_bytes")),
	       term_count(jsonget_number(up, "windows_sent")),
	       term_count(jsonget_number(up, "windows_dropped")));
	printf("  uploaded  %s\n",
	       term_sent(jsonget_number(up, "uploaded_bytes"), jsonget_number(up, "raw_bytes")));
	printf("  own cost  %s of a core, %s resident, recorder %s, keeps %s\n",
	       term_percent(jsonget_number(own, "cpu_share")),
	       term_bytes(jsonget_number(own, "rss_bytes")),
	       term_bytes(jsonget_number(own, "recorder_bytes")),
	       term_span(jsonget_number(own, "retention_s")));
	print_os(json_object_get(n, "os"));
	print_gpu(json_object_get(n, "gpu"));
}

/* "1 job", "2 jobs" */
static const char *counted(const json_t *o, const char *key, const char *noun)
{
	char many[32];

	snprintf(many, sizeof(many), "%ss", noun);
	return term_counted(jsonget_number(o, key), noun, many);
}

static void print_cluster(const char *url, const json_t *c)
{
	printf("%scluster %s%s  sysom-aggregator %s\n", term_style(TERM_BOLD), term_safe(url, 80),
	       term_style(TERM_PLAIN), term_safe(jsonget_text(c, "version"), 30));
	char hang[64] = "";

	if (jsonget_number(c, "hanging_jobs") > 0)
		snprintf(hang, sizeof(hang), " (%s%s%s%s)", term_style(TERM_RED),
			 term_count(jsonget_number(c, "hanging_jobs")),
			 jsonget_number(c, "hanging_jobs") == 1 ? " hangs" : " hang",
			 term_style(TERM_PLAIN));
	printf("  %s%s, %s on %s; %s, %s (%s open); store %s\n", counted(c, "jobs", "job"), hang,
	       term_ranks(jsonget_number(c, "ranks"), jsonget_number(c, "other_processes")),
	       counted(c, "nodes", "node"), counted(c, "windows", "window"),
	       counted(c, "incidents", "incident"), term_count(jsonget_number(c, "open_incidents")),
	       term_bytes(jsonget_number(c, "store_bytes")));
}

static void print_absent(const char *what, const char *who, const struct client_error *e)
{
	printf("%s%-7s%s  no %s: %s\n", term_style(TERM_BOLD), what, term_style(TERM_PLAIN), who,
	       term_safe(e->why, 200));
	if (*e->remedy)
		printf("         %s%s%s\n", term_style(TERM_DIM), e->remedy,
		       term_style(TERM_PLAIN));
}

int cmd_status_main(const struct options *o)
{
	struct client_error node_error, cluster_error;
	struct client node, cluster;
	json_t *n, *c;

	if (commands_control(o, &node) || commands_aggregator(o, &cluster))
		return EXIT_USAGE;
	n = commands_node_status(o, &node, &node_error);
	client_json(&cluster, "/api/v1/status", &c, &cluster_error);
	if (o->json) {
		json_t *all = json_pack("{s:O?, s:O?, s:{s:s*, s:s*}}", "node", n, "cluster", c,
					"errors", "node", n ? NULL : node_error.why, "cluster",
					c ? NULL : cluster_error.why);

		commands_print_new(all);
	} else {
		if (n)
			print_node(n);
		else
			print_absent("node", "sysomd", &node_error);
		if (c)
			print_cluster(cluster.url, c);
		else
			print_absent("cluster", "aggregator", &cluster_error);
	}
	json_decref(n);
	json_decref(c);
	return n || c ? EXIT_OK : EXIT_FAILED;
}

/* SPDX-License-Identifier: Apache-2.0
 * What `sysom doctor --cluster` prints: which node runs what, and what the aggregator removed because
 * a job had too much. */
#include <stdlib.h>
#include <string.h>

#include "base/exit_status.h"
#include "base/order.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "render/term.h"

#define NODES_MAX 20000u

ORDER_BY(by_name, json_t *, strcmp(jsonget_text(*a, "node"), jsonget_text(*b, "node")));

static void print_node(const json_t *n, const char *version)
{
	bool same = !strcmp(jsonget_text(n, "version"), version);
	bool alive = jsonget_true(n, "alive");

	printf("%-24s ", term_safe(jsonget_text(n, "node"), 24));
	printf("%s%-12s%s ", same ? "" : term_style(TERM_YELLOW), commands_word(n, "version"),
	       term_style(TERM_PLAIN));
	printf("%4.0f %5.0f  ", jsonget_number(n, "wire_version"), jsonget_number(n, "ranks"));
	printf("%s%-10s%s ", alive ? "" : term_style(TERM_YELLOW),
	       term_span(jsonget_number(n, "beat_age_ms") / 1e3), term_style(TERM_PLAIN));
	printf("%s\n", commands_word(n, "certificate"));
}

static void print_nodes(const json_t *list, const char *version)
{
	size_t count = json_array_size(list), other = 0, silent = 0;
	const json_t **sorted = calloc(count + 1, sizeof(*sorted));

	for (size_t i = 0; sorted && i < count; i++)
		sorted[i] = json_array_get(list, i);
	if (sorted)
		qsort(sorted, count, sizeof(*sorted), by_name);
	printf("%-24s %-12s %4s %5s  %-10s %s\n", "node", "version", "wire", "ranks", "heard ago",
	       "certificate");
	for (size_t i = 0; sorted && i < count; i++) {
		print_node(sorted[i], version);
		other += strcmp(jsonget_text(sorted[i], "version"), version) != 0;
		silent += !jsonget_true(sorted[i], "alive");
	}
	free(sorted);
	printf("\nnodes: %zu, silent: %zu, with another version than the aggregator's %s: %zu\n",
	       count, silent, term_safe(version, 20), other);
}

static void print_quotas(const json_t *status)
{
	double windows = jsonget_number(status, "quota_windows");
	double incidents = jsonget_number(status, "quota_incidents");

	printf("store: %s", term_bytes(jsonget_number(status, "store_bytes")));
	if (*jsonget_text(status, "largest_job"))
		printf(", %s of it evidence of %s",
		       term_bytes(jsonget_number(status, "largest_job_bytes")),
		       term_safe(jsonget_text(status, "largest_job"), 60));
	if (windows > 0 || incidents > 0)
		printf("; of jobs beyond their quota, %.0f windows lost their evidence and %.0f "
		       "incidents were removed (store.job_max_bytes, store.job_max_incidents)",
		       windows, incidents);
	else
		printf("; no job is beyond its quota");
	puts("");
}

int doctor_cluster(const struct options *o)
{
	json_t *nodes = NULL, *status = NULL;
	struct client_error e;
	struct client c;
	int err = commands_aggregator(o, &c);

	if (err)
		return err;
	err = client_json(&c, "/api/v1/status", &status, &e);
	if (!err)
		err = commands_list(&c, "nodes", NULL, NULL, NODES_MAX, &nodes, &e);
	if (err) {
		json_decref(status);
		return commands_complain("doctor", &e);
	}
	if (o->json) {
		json_object_set(nodes, "aggregator", status);
		commands_print_json(nodes);
	} else {
		print_nodes(json_object_get(nodes, "nodes"), jsonget_text(status, "version"));
		print_quotas(status);
	}
	json_decref(nodes);
	json_decref(status);
	return EXIT_OK;
}

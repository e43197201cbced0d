/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/incident_load.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "base/check.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "render/term.h"
#include "wire/codec.h"

/* The most windows of one incident: 8 ranks for minutes. */
#define WINDOWS_MAX 4096
/* The most sketches that are requested; a report's first lines name as many ranks. */
#define NICS_MAX 16
/* malloc keeps a freed window's memory for the next one; this is the largest value that it allows. */
#define KEPT_BYTES (32 << 20)

static bool is_named(const json_t *ranks, int32_t rank)
{
	return !json_array_size(ranks) || jsonget_has(ranks, rank);
}

/* 1: read; 0: not available, after a message; -ENOMEM. */
static int load_one(const struct client *c, const char *id, const json_t *ranks,
		    struct trace_model *m)
{
	struct client_error e;
	struct window w;
	char path[128];
	struct buf body;
	int r;

	buf_init(&body, LIMIT_WIRE_MESSAGE_BYTES);
	snprintf(path, sizeof(path), "/api/v1/windows/%s", id);
	r = client_bytes(c, path, &body, &e);
	if (r) {
		commands_complain("", &e);
		buf_fini(&body);
		return 0;
	}
	memset(&w, 0, sizeof(w));
	r = wire_window_decode(body.data, body.bytes, &w);
	buf_fini(&body);
	if (r) {
		fprintf(stderr, "sysom: window %s can't be read: %s\n", id, strerror(-r));
		return r == -ENOMEM ? r : 0;
	}
	if (m->only_collectives && !is_named(ranks, w.rank.rank))
		w.stacks.sample_count = 0;
	r = trace_model_add(m, &w);
	wire_window_free(&w);
	return r ? r : 1;
}

int incident_load_windows(const struct client *c, const json_t *incident, int rank,
			  struct trace_model *m)
{
	const json_t *windows = json_object_get(incident, "windows"), *w;
	int count = 0, r;
	size_t i;

	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	json_array_foreach ((json_t *)windows, i, w) {
		const char *id = jsonget_text(w, "id");

		if (rank >= 0 && jsonget_integer(w, "rank") != rank)
			continue;
		if (i >= WINDOWS_MAX) {
			fprintf(stderr, "sysom: only the first %d windows are read\n", WINDOWS_MAX);
			break;
		}
		if (!commands_is_id(id)) {
			fprintf(stderr, "sysom: a window with an invalid id is left out\n");
			continue;
		}
		r = load_one(c, id, json_object_get(incident, "ranks"), m);
		if (r < 0)
			return r;
		count += r;
	}
	trace_model_finish(m);
	trace_model_set_fault(m, jsonget_unsigned(incident, "begin_unix_ns"),
			      jsonget_unsigned(incident, "end_unix_ns"));
	r = trace_align_apply(m);
	if (r)
		return r;
	for (size_t k = 0; k < m->rank_count; k++)
		m->ranks[k].aggregator = c;
	if (m->left_out)
		fprintf(
		    stderr,
		    "sysom: %s records are left out: they are too many for one file (try --rank) "
		    "or have impossible times\n",
		    term_count((double)m->left_out));
	return count;
}

static void load_nic(const struct client *c, struct trace_rank *r)
{
	static const char *const settings[] = {"env:NCCL_IB_HCA", "env:NCCL_SOCKET_IFNAME"};
	char path[3 * WIRE_TEXT_BYTES + 64] = "/api/v1/sketch", rank[16];
	json_t *sketch = NULL, *s;
	struct client_error e;
	size_t i;

	snprintf(rank, sizeof(rank), "%d", r->who.rank);
	client_add(path, sizeof(path), "job", r->who.job);
	client_add(path, sizeof(path), "rank", rank);
	if (client_json(c, path, &sketch, &e)) /* none came yet, or none is kept any more */
		return;
	for (size_t k = 0; k < ARRAY_LEN(settings); k++)
		json_array_foreach (json_object_get(sketch, "settings"), i, s)
			if (!*r->nic && !strcmp(jsonget_text(s, "name"), settings[k]))
				snprintf(r->nic, sizeof(r->nic), "%s", jsonget_text(s, "value"));
	json_decref(sketch);
}

void incident_load_nics(const struct client *c, const json_t *incident, struct trace_model *m)
{
	unsigned left = NICS_MAX;

	for (size_t i = 0; i < m->rank_count && left; i++)
		if (jsonget_has(json_object_get(incident, "ranks"), m->ranks[i].who.rank)) {
			load_nic(c, &m->ranks[i]);
			left--;
		}
}

/* SPDX-License-Identifier: Apache-2.0
 * fuzz_verdict - windows of hostile nodes, as the codec lets them through: any steps, kinds, phases and
 * records become excerpts whose kinds and ledgers are possible, and an incident that can be shown. A
 * window is 4 bytes, then 4 bytes for each of its steps. */
#include <math.h>
#include <string.h>

#include "aggregator/incident/incident.h"
#include "analysis/cause/excerpt.h"
#include "base/check.h"
#include "base/text/jsonget.h"
#include "tests/fuzz/fuzz_budget.h"

#define STEPS_MAX   96u
#define WINDOWS_MAX 12u
#define RECORDS	    3u /* per step: a kernel, a kernel of another name, a collective */
#define MS	    1000000ull

/* Each window is diagnosed when it comes, and the incident for each of its ranks. */
struct fuzz_bounds fuzz_bounds = {.allocated = 256u << 20,
				  .allocated_per_byte = 1u << 20,
				  .cpu_us = 1000000,
				  .cpu_ns_per_byte = 4000000};

static char *const names[] = {"", "gemm", "gemm<<<", "<T as U>::f<<<8,1>>>", "_Z<<<", "decode"};

struct made {
	struct window w;
	struct window_step steps[STEPS_MAX];
	struct record device[STEPS_MAX * RECORDS], host[STEPS_MAX];
	struct os_signal signals[1];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What a step should take: also nothing, less than nothing, and what is no number. */
static double expected_of(uint8_t v)
{
	static const double odd[] = {0, -1e9, 1e300, INFINITY, -INFINITY, NAN, 1e-300, 60e9};

	return v < 8 ? odd[v] : v * 1e6;
}

static void make_records(struct made *m, const struct step *s, const uint8_t *p)
{
	for (uint32_t k = 0; k < RECORDS; k++) {
		bool coll = k == 2;
		uint64_t begin = s->begin_ns + k * MS;

		m->device[m->w.device_count++] = (struct record){
		    .kind = coll ? RECORD_COLL_KERNEL : RECORD_KERNEL,
		    .name = (p[2] + k) % ARRAY_LEN(names),
		    .launch_ns = p[1] & 1 ? 0 : s->begin_ns,
		    .begin_ns = begin,
		    .end_ns = begin + (uint64_t)p[2] * MS / 4,
		    .key = coll,
		    .func = coll ? p[2] & 1 ? RECORD_COLL_ALL_REDUCE : RECORD_COLL_SEND : 0,
		    .seq = (uint32_t)s->index,
		    .grid = {p[3], 1, 1}};
	}
	m->host[m->w.host_count++] = (struct record){.kind = RECORD_LAUNCH,
						     .begin_ns = s->begin_ns,
						     .end_ns = s->begin_ns + 1,
						     .thread = 100};
}

static void make_step(struct made *m, const uint8_t *p)
{
	static const uint32_t flags[] = {WINDOW_STEP_MARGIN, WINDOW_STEP_OUT,
					 WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED,
					 WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED | WINDOW_STEP_FIRST};
	struct window_step *to = &m->steps[m->w.step_count];
	uint64_t ns = (uint64_t)p[2] * MS;

	to->step = (struct step){.index = m->w.step_count,
				 .begin_ns = m->w.end_ns,
				 .end_ns = m->w.end_ns + ns,
				 .latency_ns = p[0] & 64 ? ns * 9 : ns,
				 .self_ns = ns / (1 + (p[1] & 3u)),
				 .compute_ns = ns / 2,
				 .kernels = p[1] & 128 ? UINT32_MAX - p[3] : p[1] >> 4,
				 .launches = p[1] >> 4,
				 .phase = p[3] < 200 ? p[3] & 15u : UINT32_MAX - p[3],
				 .source = p[0] & 16 ? STEP_SOURCE_EXPLICIT : STEP_SOURCE_AUTO,
				 .flags = p[0] & 32 ? STEP_FLAG_STATED : 0};
	to->flags = flags[p[0] & 3u] | (p[0] & 4 ? WINDOW_STEP_CUT : 0) |
		    (p[0] & 8 ? WINDOW_STEP_SPIKE : 0);
	to->expected_ns = expected_of(p[3]);
	to->expected_self_ns = expected_of(p[3]) / 2;
	to->period = p[1] & 8 ? p[3] : 0;
	make_records(m, &to->step, p);
	m->w.end_ns = to->step.end_ns;
	m->w.step_count++;
}

/* Returns the bytes that were read. */
static size_t make(struct made *m, uint32_t number, const uint8_t *data, size_t bytes)
{
	size_t at = 4;

	memset(m, 0, sizeof(*m));
	m->w = (struct window){.begin_ns = 1 + data[2] * 500 * MS,
			       .realtime_offset_ns = 1700000000000000000,
			       .reason = data[0] >> 4 & 7u,
			       .steps = m->steps,
			       .device = m->device,
			       .host = m->host,
			       .names = (char **)names,
			       .name_count = ARRAY_LEN(names),
			       .signals = m->signals};
	memcpy(m->w.id, &number, sizeof(number));
	memset(m->w.anomaly_id, 1 + (data[0] & 7), sizeof(m->w.anomaly_id));
	snprintf(m->w.rank.job, sizeof(m->w.rank.job), "job");
	snprintf(m->w.rank.node, sizeof(m->w.rank.node), "node-%d", data[0] & 1);
	m->w.rank.rank = data[0] & 7;
	m->w.rank.world_size = 8;
	m->w.end_ns = m->w.begin_ns;
	for (; m->w.step_count < data[1] % (STEPS_MAX + 1) && at + 4 <= bytes; at += 4)
		make_step(m, data + at);
	if (data[0] & 8) {
		m->w.open_since_ns = m->w.end_ns;
		m->w.end_ns += 8000 * MS;
		m->w.unfinished = (struct beat_unfinished){
		    .kind = data[3] % 6u, .launch_ns = m->w.open_since_ns + 1, .name = "<<<"};
	}
	if (data[3] & 128)
		m->w.device = m->w.host = NULL, m->w.device_count = m->w.host_count = 0;
	if (data[3] & 64)
		os_signal_make(&m->signals[m->w.signal_count++], OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX",
			       data[3] * 1e13, 0, 100);
	return at;
}

static void check_excerpt(const struct excerpt *p, const struct window *w)
{
	uint64_t steps = 0;

	CHECK(p->kinds <= WINDOW_LEDGER_KINDS && p->slow.rank.steps <= w->step_count &&
	      p->healthy.rank.steps <= w->step_count);
	for (uint32_t k = 0; k < WINDOW_LEDGER_KINDS; k++)
		for (int healthy = 0; healthy < 2; healthy++) {
			const struct ledger *l = excerpt_ledger(p, k, healthy);

			CHECK(k < p->kinds || !l->steps);
			CHECK(ledger_sum(l) == l->total_ns && l->seen == l->steps);
			steps += l->steps;
		}
	CHECK(steps <= 2 * w->step_count);
}

static void check_figures(const json_t *d)
{
	double sure = jsonget_number(d, "confidence");

	CHECK(sure >= 0 && sure <= 1 && jsonget_number(d, "effect_ms") >= 0);
}

static void show(const struct incident_set *set, const char *id)
{
	json_t *j = incident_set_json(set, id, 8, NULL);
	char *text = json_dumps(j, JSON_COMPACT);

	CHECK(j && text);
	check_figures(json_object_get(j, "diagnosis"));
	CHECK(jsonget_number(j, "gpu_hours_lost") >= 0 && jsonget_number(j, "lost_ms") >= 0);
	free(text);
	json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct incident_config config = {
	    .gap_ns = 5000 * MS, .silence_ns = 30000 * MS, .memory_ns = 3600000 * MS};
	struct made *m = malloc(sizeof(*m));
	struct incident_change c = {0};
	struct incident_set *set;

	CHECK(m && !incident_set_open(&set, &config));
	for (uint32_t n = 0; n < WINDOWS_MAX && bytes >= 4; n++) {
		size_t used = make(m, n + 1, data, bytes);
		struct digest d;

		data += used;
		bytes -= used;
		if (!digest_is_sound(&m->w))
			continue;
		digest_make(&m->w, used, &d);
		d.excerpt = excerpt_make(&m->w, NULL, NULL);
		if (d.excerpt)
			check_excerpt(d.excerpt, &m->w);
		if (!incident_set_add(set, &d, d.end_unix_ns, &c) && *c.id)
			show(set, c.id);
		excerpt_drop(d.excerpt);
	}
	incident_set_close(set);
	free(m);
	return 0;
}

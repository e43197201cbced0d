/* SPDX-License-Identifier: Apache-2.0
 * sysomd's use of GPU telemetry: which rank uses a GPU, readings as signals of that rank, status
 * and metrics. The loop never calls NVML itself: it may block. */
#include "sidecar/gpu/gpu_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/daemon/log.h"
#include "base/metrics/metrics.h"
#include "base/text/json_text.h"
#include "foreign/nvml.h"
#include "sidecar/gpu/gpu_match.h"
#include "sidecar/gpu/gpu_poll.h"
#include "sidecar/node.h"
#include "sidecar/os/os_node.h"
#include "sidecar/os/os_proc.h"
#include "sidecar/os/os_signals.h"
#include "base/http/http_user.h"

/* After this many polls without an answer a GPU counts as lost. */
#define FAILED_MAX 3u

/* The reasons for limited clocks that count. An idle GPU and limits that somebody set do not. */
static const struct {
	uint64_t bit;
	const char *name, *text;
} reasons[] = {
    {NVML_THROTTLE_SW_POWER_CAP, "power_cap", "power cap"},
    {NVML_THROTTLE_HW_SLOWDOWN, "hw_slowdown", "hardware slowdown"},
    {NVML_THROTTLE_SYNC_BOOST, "sync_boost", "sync boost"},
    {NVML_THROTTLE_SW_THERMAL, "sw_thermal", "heat (software limit)"},
    {NVML_THROTTLE_HW_THERMAL, "hw_thermal", "heat (hardware limit)"},
    {NVML_THROTTLE_HW_POWER_BRAKE, "power_brake", "power brake"},
};

struct gpu_node {
	struct gpu_poll *poll;
	struct gpu_poll_device device[GPU_DEVICES_MAX];
	uint32_t count;
	/* the sample before the new ones; at_ns 0: none */
	struct gpu_sample before[GPU_DEVICES_MAX];
	struct gpu_sample batch[GPU_POLL_SAMPLES];
	bool logged_open, logged_hang;
	char logged_why[160];
};

int gpu_node_open(struct node *n)
{
	struct gpu_node *g;
	int err;

	if (!n->settings.gpu_on)
		return 0;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	err = gpu_poll_open(&g->poll, n->settings.gpu_library, n->settings.gpu_period_ns);
	if (err) {
		free(g);
		return err;
	}
	n->gpu = g;
	return 0;
}

void gpu_node_close(struct node *n)
{
	if (!n->gpu)
		return;
	gpu_poll_close(n->gpu->poll);
	free(n->gpu);
	n->gpu = NULL;
}

static uint32_t device_of(const struct gpu_node *g, const struct process *p,
			  enum gpu_match_source *source)
{
	return gpu_match(g->device, g->count, p->pid > 0 ? (uint32_t)p->pid : 0, p->id.gpu_uuid,
			 p->id.local_rank, source);
}

int gpu_node_of(const struct process *p, const char **uuid)
{
	const struct gpu_node *g = p->node->gpu;
	enum gpu_match_source source;
	uint32_t at = g ? device_of(g, p, &source) : GPU_NONE;

	if (at == GPU_NONE)
		return -1;
	*uuid = g->device[at].id.uuid;
	return (int)at;
}

/* ---- readings as signals ---- */

struct feed {
	struct os_signals *os;
	uint32_t device, pid; /* of the rank's process */
	const struct gpu_identity *id;
	const struct process *process;
};

static bool has(const struct gpu_sample *s, enum gpu_field field)
{
	return s->has >> field & 1;
}

static void level(const struct feed *f, const struct gpu_sample *s, enum gpu_field field,
		  enum os_signal_kind kind, double unit)
{
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	if (!has(s, field))
		return;
	if (kind == OS_SIGNAL_GPU_SM_CLOCK && f->id->sm_clock_max_mhz)
		snprintf(subject, sizeof(subject), "GPU %u (at most %u MHz)", f->device,
			 f->id->sm_clock_max_mhz);
	else if (kind == OS_SIGNAL_GPU_POWER && has(s, GPU_POWER_LIMIT))
		snprintf(subject, sizeof(subject), "GPU %u (limit %.0f W)", f->device,
			 (double)s->value[GPU_POWER_LIMIT] * 1e-3);
	else
		snprintf(subject, sizeof(subject), "GPU %u", f->device);
	os_signals_level(f->os, f->pid, kind, f->device, (double)s->value[field] * unit, subject);
}

static void grown(const struct feed *f, const struct gpu_sample *s, const struct gpu_sample *before,
		  enum gpu_field field, enum os_signal_kind kind)
{
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	/* a counter fell: the driver was loaded again */
	if (!has(s, field) || !has(before, field) || s->value[field] <= before->value[field])
		return;
	snprintf(subject, sizeof(subject), "GPU %u", f->device);
	os_signals_count(f->os, f->pid, kind, f->device,
			 (double)(s->value[field] - before->value[field]), subject);
}

static bool is_of_the_job(const struct process *p, uint32_t pid)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *q = p->node->processes[i];

		if (q && q->pid > 0 && (uint32_t)q->pid == pid && !strcmp(q->id.job, p->id.job))
			return true;
	}
	return false;
}

/* Adds who else has work on the GPU. Assumes that they have had it since the previous reading. */
static void feed_others(const struct feed *f, const struct gpu_sample *s, double ms)
{
	char subject[OS_SIGNAL_SUBJECT_BYTES], name[32];

	for (uint32_t i = 0; i < s->pid_count; i++) {
		if (is_of_the_job(f->process, s->pid[i]))
			continue;
		os_proc_name("/proc", s->pid[i], s->pid[i], name, sizeof(name));
		snprintf(subject, sizeof(subject), "%s (pid %u) on GPU %u", name, s->pid[i],
			 f->device);
		os_signals_count(f->os, f->pid, OS_SIGNAL_GPU_OTHERS, s->pid[i], ms, subject);
	}
}

/* GB/s in each direction, from generation and number of lanes. */
static double link_gbs(uint64_t generation, uint64_t lanes)
{
	static const double lane[] = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

	return generation < ARRAY_LEN(lane) ? lane[generation] * (double)lanes : 0;
}

static void feed_sample(const struct feed *f, const struct gpu_sample *s,
			const struct gpu_sample *before)
{
	double ms = before->at_ns ? (double)(s->at_ns - before->at_ns) * 1e-6 : 0;
	char subject[OS_SIGNAL_SUBJECT_BYTES];
	double gbs;

	level(f, s, GPU_SM_CLOCK, OS_SIGNAL_GPU_SM_CLOCK, 1);
	level(f, s, GPU_MEM_CLOCK, OS_SIGNAL_GPU_MEM_CLOCK, 1);
	level(f, s, GPU_TEMPERATURE, OS_SIGNAL_GPU_TEMPERATURE, 1);
	level(f, s, GPU_POWER, OS_SIGNAL_GPU_POWER, 1e-3);
	level(f, s, GPU_UTILISATION, OS_SIGNAL_GPU_UTILISATION, 1);
	if (has(s, GPU_PCIE_GENERATION) && has(s, GPU_PCIE_WIDTH)) {
		gbs = link_gbs(s->value[GPU_PCIE_GENERATION], s->value[GPU_PCIE_WIDTH]);
		snprintf(subject, sizeof(subject), "GPU %u", f->device);
		os_signals_level(f->os, f->pid, OS_SIGNAL_GPU_PCIE_LINK, f->device, gbs, subject);
	}
	/* assumes that a reason has held since the previous reading */
	for (size_t i = 0; has(s, GPU_THROTTLE) && i < ARRAY_LEN(reasons); i++) {
		if (!(s->value[GPU_THROTTLE] & reasons[i].bit))
			continue;
		snprintf(subject, sizeof(subject), "%s of GPU %u", reasons[i].text, f->device);
		os_signals_count(f->os, f->pid, OS_SIGNAL_GPU_THROTTLE,
				 (uint64_t)f->device << 8 | i, ms, subject);
	}
	feed_others(f, s, ms);
	grown(f, s, before, GPU_ECC_CORRECTED, OS_SIGNAL_GPU_ECC);
	grown(f, s, before, GPU_ECC_UNCORRECTED, OS_SIGNAL_GPU_ECC_UNCORRECTED);
	grown(f, s, before, GPU_PCIE_REPLAYS, OS_SIGNAL_GPU_PCIE_REPLAYS);
}

/* Calls fn for each rank of this GPU: several may share it. */
static void each_rank(struct node *n, uint32_t device, void (*fn)(const struct feed *f, void *arg),
		      void *arg)
{
	struct gpu_node *g = n->gpu;
	enum gpu_match_source source;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];
		struct feed f = {os_node_signals(n), device, 0, &g->device[device].id, p};

		if (!p || p->pid <= 0 || p->state == PROCESS_GONE ||
		    device_of(g, p, &source) != device)
			continue;
		f.pid = (uint32_t)p->pid;
		fn(&f, arg);
	}
}

struct batch {
	const struct gpu_sample *before, *sample;
	uint32_t count;
};

static void feed_batch(const struct feed *f, void *arg)
{
	const struct batch *b = arg;

	for (uint32_t i = 0; i < b->count; i++)
		feed_sample(f, &b->sample[i], i ? &b->sample[i - 1] : b->before);
}

static void feed_xid(const struct feed *f, void *arg)
{
	const struct gpu_poll_xid *x = arg;
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	snprintf(subject, sizeof(subject), "XID %llu of GPU %u", (unsigned long long)x->xid,
		 f->device);
	os_signals_count(f->os, f->pid, OS_SIGNAL_GPU_XID, x->xid << 8 | f->device, 1, subject);
}

static void log_changes(struct gpu_node *g, const struct gpu_poll_state *st, uint64_t now_ns)
{
	bool hangs = st->busy_since_ns && now_ns > st->busy_since_ns + 5000000000ull;

	if (st->open && !g->logged_open)
		log_info("gpu", "nvml=open driver=\"%s\" devices=%u", st->driver, st->count);
	else if (!st->open && strcmp(st->why, g->logged_why) && strcmp(st->why, "starting"))
		log_info("gpu", "nvml=none why=\"%s\"", st->why);
	if (hangs != g->logged_hang)
		log_warn("gpu", hangs ? "NVML has not answered for 5 s; GPU telemetry stops"
				      : "NVML answers again");
	g->logged_open = st->open;
	g->logged_hang = hangs;
	snprintf(g->logged_why, sizeof(g->logged_why), "%s", st->why);
}

void gpu_node_tend(struct node *n, uint64_t now_ns)
{
	struct gpu_node *g = n->gpu;
	struct gpu_poll_state st;
	struct gpu_poll_xid xid[GPU_POLL_XIDS];
	uint32_t xids;

	if (!g)
		return;
	gpu_poll_state(g->poll, &st);
	log_changes(g, &st, now_ns);
	g->count = 0;
	while (g->count < st.count && gpu_poll_device(g->poll, g->count, &g->device[g->count]))
		g->count++;
	for (uint32_t i = 0; i < g->count; i++) {
		struct batch b = {&g->before[i], g->batch, 0};

		b.count = gpu_poll_take(g->poll, i, g->batch, GPU_POLL_SAMPLES);
		if (!b.count)
			continue;
		if (os_node_signals(n))
			each_rank(n, i, feed_batch, &b);
		g->before[i] = g->batch[b.count - 1];
	}
	xids = gpu_poll_take_xids(g->poll, xid, GPU_POLL_XIDS);
	for (uint32_t i = 0; i < xids; i++) {
		log_warn("gpu", "xid=%llu device=%u", (unsigned long long)xid[i].xid,
			 xid[i].device);
		if (os_node_signals(n) && xid[i].device < g->count)
			each_rank(n, xid[i].device, feed_xid, &xid[i]);
	}
}

/* ---- status and metrics ---- */

static const struct {
	enum gpu_field field;
	const char *key, *metric, *help;
	double unit; /* of the metric */
} values[] = {
    {GPU_SM_CLOCK, "sm_clock_mhz", "sysom_gpu_sm_clock_hertz", "SM clock.", 1e6},
    {GPU_MEM_CLOCK, "mem_clock_mhz", "sysom_gpu_memory_clock_hertz", "Memory clock.", 1e6},
    {GPU_POWER, "power_mw", "sysom_gpu_power_watts", "Power drawn.", 1e-3},
    {GPU_POWER_LIMIT, "power_limit_mw", "sysom_gpu_power_limit_watts", "Power limit.", 1e-3},
    {GPU_TEMPERATURE, "temperature_c", "sysom_gpu_temperature_celsius", "Temperature.", 1},
    {GPU_UTILISATION, "utilisation_percent", "sysom_gpu_busy_ratio",
     "Share of time in which a kernel ran.", 1e-2},
    {GPU_ECC_CORRECTED, "ecc_corrected", "sysom_gpu_ecc_corrected_total",
     "Memory errors corrected.", 1},
    {GPU_ECC_UNCORRECTED, "ecc_uncorrected", "sysom_gpu_ecc_uncorrected_total",
     "Memory errors not corrected.", 1},
    {GPU_PCIE_REPLAYS, "pcie_replays", "sysom_gpu_pcie_replays_total", "PCIe packets sent again.",
     1},
    {GPU_PCIE_GENERATION, "pcie_generation", "sysom_gpu_pcie_generation",
     "Current PCIe generation of the link.", 1},
    {GPU_PCIE_WIDTH, "pcie_width", "sysom_gpu_pcie_lanes", "Current number of PCIe lanes.", 1},
};

static void json_device(const struct node *n, uint32_t i, const struct http_user *user,
			struct buf *b)
{
	const struct gpu_node *g = n->gpu;
	const struct gpu_poll_device *d = &g->device[i];
	enum gpu_match_source source;
	bool first = true;

	buf_printf(b, "%s{\"index\":%u", i ? "," : "", i);
	json_text_append(b, ",\"uuid\":", d->id.uuid);
	json_text_append(b, ",\"name\":", d->id.name);
	json_text_append(b, ",\"bus\":", d->id.bus);
	buf_printf(b, ",\"answers\":%s,\"sm_clock_max_mhz\":%u,\"mem_clock_max_mhz\":%u",
		   d->failed < FAILED_MAX ? "true" : "false", d->id.sm_clock_max_mhz,
		   d->id.mem_clock_max_mhz);
	for (size_t k = 0; k < ARRAY_LEN(values); k++)
		if (has(&d->last, values[k].field))
			buf_printf(b, ",\"%s\":%llu", values[k].key,
				   (unsigned long long)d->last.value[values[k].field]);
	buf_puts(b, ",\"throttle\":[");
	for (size_t k = 0; has(&d->last, GPU_THROTTLE) && k < ARRAY_LEN(reasons); k++)
		if (d->last.value[GPU_THROTTLE] & reasons[k].bit) {
			buf_printf(b, "%s\"%s\"", first ? "" : ",", reasons[k].name);
			first = false;
		}
	buf_printf(b, "],\"xid\":%llu,\"xids\":%llu,\"ranks\":[", (unsigned long long)d->xid,
		   (unsigned long long)d->xid_count);
	first = true;
	for (uint32_t k = 0; k < LIMIT_NODE_PROCESSES; k++) {
		const struct process *p = n->processes[k];

		if (!p || p->state == PROCESS_GONE || !http_user_sees(user, p->uid) ||
		    device_of(g, p, &source) != i)
			continue;
		buf_printf(b, "%s{\"rank\":%d,\"pid\":%d,\"by\":\"%s\"}", first ? "" : ",",
			   p->id.rank, (int)p->pid, gpu_match_source_name(source));
		first = false;
	}
	buf_puts(b, "]}");
}

void gpu_node_json(const struct node *n, const struct http_user *user, struct buf *b)
{
	const struct gpu_node *g = n->gpu;
	struct gpu_poll_state st;

	if (!g) {
		buf_puts(b, "\"gpu\":{\"mode\":\"off\",\"why\":\"switched off\",\"devices\":[]},");
		return;
	}
	gpu_poll_state(g->poll, &st);
	buf_printf(b, "\"gpu\":{\"mode\":\"%s\"", st.open ? "nvml" : "none");
	json_text_append(b, ",\"why\":", st.why);
	json_text_append(b, ",\"driver\":", st.driver);
	buf_printf(b,
		   ",\"xid_events\":%s,\"polls\":%llu,\"poll_s\":%.6f,\"lost\":%llu,"
		   "\"hangs_s\":%.3f,\"devices\":[",
		   st.xid_events ? "true" : "false", (unsigned long long)st.polls,
		   (double)st.poll_ns * 1e-9, (unsigned long long)st.lost,
		   st.busy_since_ns ? (double)(clock_monotonic_ns() - st.busy_since_ns) * 1e-9 : 0);
	for (uint32_t i = 0; i < g->count; i++)
		json_device(n, i, user, b);
	buf_puts(b, "]},");
}

/* reason: NULL except for throttling. */
static void sample(const struct node *n, uint32_t i, const char *name, double v, const char *reason,
		   struct metrics *m)
{
	char gpu[12];

	snprintf(gpu, sizeof(gpu), "%u", i);
	metrics_sample(m, name, v, "gpu", gpu, "UUID", n->gpu->device[i].id.uuid, "hostname",
		       n->settings.node_name, reason ? "reason" : NULL, reason, NULL);
}

void gpu_node_metrics(const struct node *n, struct metrics *m)
{
	const struct gpu_node *g = n->gpu;
	struct gpu_poll_state st = {.open = false};

	if (g)
		gpu_poll_state(g->poll, &st);
	METRICS(m, {"sysom_gpu_nvml", "1 while NVML answers.", st.open},
		{"sysom_gpu_polls_total", "Rounds over all GPUs.", st.polls},
		{"sysom_gpu_poll_seconds_total", "Time spent in these rounds.", st.poll_ns * 1e-9},
		{"sysom_gpu_lost_total", "Readings and XIDs overwritten before they were used.",
		 st.lost});
	if (!g)
		return;
	for (size_t k = 0; k < ARRAY_LEN(values); k++) {
		metrics_family(m, values[k].metric, values[k].help);
		for (uint32_t i = 0; i < g->count; i++)
			if (has(&g->device[i].last, values[k].field))
				sample(n, i, values[k].metric,
				       (double)g->device[i].last.value[values[k].field] *
					   values[k].unit,
				       NULL, m);
	}
	metrics_family(m, "sysom_gpu_throttled", "1 while this reason limits the clocks.");
	for (uint32_t i = 0; i < g->count; i++)
		for (size_t k = 0; has(&g->device[i].last, GPU_THROTTLE) && k < ARRAY_LEN(reasons);
		     k++)
			sample(n, i, "sysom_gpu_throttled",
			       (g->device[i].last.value[GPU_THROTTLE] & reasons[k].bit) != 0,
			       reasons[k].name, m);
	metrics_family(m, "sysom_gpu_xid_total", "XID errors that the driver reported.");
	for (uint32_t i = 0; i < g->count; i++)
		sample(n, i, "sysom_gpu_xid_total", (double)g->device[i].xid_count, NULL, m);
	metrics_family(m, "sysom_gpu_answers", "0 if the GPU does not answer NVML, else 1.");
	for (uint32_t i = 0; i < g->count; i++)
		sample(n, i, "sysom_gpu_answers", g->device[i].failed < FAILED_MAX, NULL, m);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/gpu/gpu_poll.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cond.h"

#define AGAIN_NS     60000000000ull
#define CLOSE_WAIT_S 2
/* Waits are divided into pieces of this length, so that closing is quick. */
#define PIECE_MS 200u

struct ring {
	struct gpu_sample sample[GPU_POLL_SAMPLES];
	uint64_t made, taken;
};

struct gpu_poll {
	pthread_t thread;
	pthread_mutex_t lock; /* protects all below except nvml, which only the thread uses */
	pthread_cond_t wake;
	bool stop;
	uint64_t period_ns;
	char library[256];
	struct gpu_nvml *nvml;
	struct gpu_poll_state state;
	struct gpu_poll_device device[GPU_DEVICES_MAX];
	struct ring ring[GPU_DEVICES_MAX];
	struct gpu_poll_xid xid[GPU_POLL_XIDS];
	uint64_t xids_made, xids_taken;
};

static void enter_call(struct gpu_poll *p, uint64_t now_ns)
{
	pthread_mutex_lock(&p->lock);
	p->state.busy_since_ns = now_ns;
	pthread_mutex_unlock(&p->lock);
}

static bool stopping(struct gpu_poll *p)
{
	bool stop;

	pthread_mutex_lock(&p->lock);
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return stop;
}

static void open_nvml(struct gpu_poll *p)
{
	struct gpu_identity id[GPU_DEVICES_MAX];
	char why[sizeof(p->state.why)] = "";
	int err;

	enter_call(p, clock_monotonic_ns());
	err = gpu_nvml_open(&p->nvml, p->library, why, sizeof(why));
	for (uint32_t i = 0; !err && i < gpu_nvml_count(p->nvml); i++)
		gpu_nvml_identity(p->nvml, i, &id[i]);
	pthread_mutex_lock(&p->lock);
	p->state.busy_since_ns = 0;
	p->state.open = !err;
	snprintf(p->state.why, sizeof(p->state.why), "%s", why);
	p->state.count = err ? 0 : gpu_nvml_count(p->nvml);
	for (uint32_t i = 0; i < p->state.count; i++)
		p->device[i].id = id[i];
	if (!err)
		snprintf(p->state.driver, sizeof(p->state.driver), "%s", gpu_nvml_driver(p->nvml));
	pthread_mutex_unlock(&p->lock);
}

static void keep(struct gpu_poll *p, uint32_t device, int err, const struct gpu_sample *s)
{
	struct ring *r = &p->ring[device];

	pthread_mutex_lock(&p->lock);
	p->device[device].failed = err ? p->device[device].failed + 1 : 0;
	if (!err) {
		p->device[device].last = *s;
		r->sample[r->made++ % GPU_POLL_SAMPLES] = *s;
	}
	pthread_mutex_unlock(&p->lock);
}

static void poll_all(struct gpu_poll *p)
{
	uint64_t begin_ns = clock_monotonic_ns();
	struct gpu_sample s;

	enter_call(p, begin_ns);
	for (uint32_t i = 0; i < p->state.count && !stopping(p); i++) {
		int err = gpu_nvml_read(p->nvml, i, &s);

		s.at_ns = clock_monotonic_ns();
		keep(p, i, err, &s);
	}
	pthread_mutex_lock(&p->lock);
	p->state.busy_since_ns = 0;
	p->state.polls++;
	p->state.poll_ns += clock_monotonic_ns() - begin_ns;
	pthread_mutex_unlock(&p->lock);
}

static void keep_xid(struct gpu_poll *p, uint32_t device, uint64_t xid)
{
	pthread_mutex_lock(&p->lock);
	p->xid[p->xids_made++ % GPU_POLL_XIDS] = (struct gpu_poll_xid){xid, device};
	p->device[device].xid = xid;
	p->device[device].xid_count++;
	pthread_mutex_unlock(&p->lock);
}

static void sleep_until(struct gpu_poll *p, uint64_t until_ns)
{
	struct timespec ts = clock_timespec(until_ns);

	pthread_mutex_lock(&p->lock);
	while (!p->stop && !pthread_cond_timedwait(&p->wake, &p->lock, &ts))
		;
	pthread_mutex_unlock(&p->lock);
}

/* Waits until until_ns. Meanwhile listens for events, if NVML reports them. */
static void wait_until(struct gpu_poll *p, uint64_t until_ns)
{
	uint64_t now_ns, xid;
	uint32_t device;

	while (p->nvml && !stopping(p) && (now_ns = clock_monotonic_ns()) < until_ns) {
		uint64_t ms = (until_ns - now_ns) / 1000000 + 1;
		int got = gpu_nvml_wait_xid(p->nvml, ms < PIECE_MS ? (uint32_t)ms : PIECE_MS,
					    &device, &xid);

		pthread_mutex_lock(&p->lock);
		p->state.xid_events = got >= 0;
		pthread_mutex_unlock(&p->lock);
		if (got < 0)
			break;
		if (got)
			keep_xid(p, device, xid);
	}
	sleep_until(p, until_ns);
}

static void *poll_thread(void *arg)
{
	struct gpu_poll *p = arg;
	uint64_t due_ns = clock_monotonic_ns();

	while (!stopping(p)) {
		uint64_t now_ns;

		if (!p->nvml)
			open_nvml(p);
		if (p->nvml)
			poll_all(p);
		now_ns = clock_monotonic_ns();
		due_ns += p->nvml ? p->period_ns : AGAIN_NS;
		if (due_ns < now_ns)
			due_ns = now_ns + p->period_ns; /* a poll takes longer than the period */
		wait_until(p, due_ns);
	}
	gpu_nvml_close(p->nvml);
	return NULL;
}

int gpu_poll_open(struct gpu_poll **out, const char *library, uint64_t period_ns)
{
	struct gpu_poll *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->period_ns = period_ns;
	snprintf(p->library, sizeof(p->library), "%s", library ? library : "");
	snprintf(p->state.why, sizeof(p->state.why), "starting");
	pthread_mutex_init(&p->lock, NULL);
	cond_init_monotonic(&p->wake);
	err = pthread_create(&p->thread, NULL, poll_thread, p);
	if (err) {
		pthread_cond_destroy(&p->wake);
		pthread_mutex_destroy(&p->lock);
		free(p);
		return -err;
	}
	*out = p;
	return 0;
}

void gpu_poll_close(struct gpu_poll *p)
{
	struct timespec until;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CLOSE_WAIT_S;
	if (pthread_timedjoin_np(p->thread, NULL, &until)) {
		/* NVML blocks the thread, so the thread and its memory stay until the process
		 * ends */
		pthread_detach(p->thread);
		return;
	}
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void gpu_poll_state(struct gpu_poll *p, struct gpu_poll_state *out)
{
	pthread_mutex_lock(&p->lock);
	*out = p->state;
	pthread_mutex_unlock(&p->lock);
}

bool gpu_poll_device(struct gpu_poll *p, uint32_t device, struct gpu_poll_device *out)
{
	bool there;

	pthread_mutex_lock(&p->lock);
	there = device < p->state.count;
	if (there)
		*out = p->device[device];
	pthread_mutex_unlock(&p->lock);
	return there;
}

uint32_t gpu_poll_take(struct gpu_poll *p, uint32_t device, struct gpu_sample *out, uint32_t max)
{
	struct ring *r;
	uint32_t n = 0;

	if (device >= GPU_DEVICES_MAX)
		return 0;
	r = &p->ring[device];
	pthread_mutex_lock(&p->lock);
	if (r->made - r->taken > GPU_POLL_SAMPLES) {
		p->state.lost += r->made - r->taken - GPU_POLL_SAMPLES;
		r->taken = r->made - GPU_POLL_SAMPLES;
	}
	while (r->taken < r->made && n < max)
		out[n++] = r->sample[r->taken++ % GPU_POLL_SAMPLES];
	pthread_mutex_unlock(&p->lock);
	return n;
}

uint32_t gpu_poll_take_xids(struct gpu_poll *p, struct gpu_poll_xid *out, uint32_t max)
{
	uint32_t n = 0;

	pthread_mutex_lock(&p->lock);
	if (p->xids_made - p->xids_taken > GPU_POLL_XIDS) {
		p->state.lost += p->xids_made - p->xids_taken - GPU_POLL_XIDS;
		p->xids_taken = p->xids_made - GPU_POLL_XIDS;
	}
	while (p->xids_taken < p->xids_made && n < max)
		out[n++] = p->xid[p->xids_taken++ % GPU_POLL_XIDS];
	pthread_mutex_unlock(&p->lock);
	return n;
}

/* SPDX-License-Identifier: Apache-2.0
 * helper.c - one thread; it runs every 100 ms, or when a synchronisation ends. It does not sleep on
 * its socket, but polls it at each tick. So it waits only on one futex, and a command takes effect
 * within a tick. sysomd may be absent, start late, restart or die. The ring is written regardless,
 * and each new attach passes the same memfd and reports all live objects again. At exit the job's
 * other libraries are torn down around this thread, so it leaves CUPTI before that and never enters
 * it again. */
#include "preload/helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file_id.h"
#include "cupti/cupti_client.h"
#include "preload/driver.h"
#include "preload/governor.h"
#include "preload/hooks.h"
#include "preload/nccl/nccl_channels.h"
#include "preload/nccl/nccl_lookup.h"
#include "preload/nccl/nccl_plugin.h"
#include "preload/python/python_spans.h"
#include "preload/python/span_table.h"
#include "preload/registry.h"
#include "preload/tracer.h"
#include "ring/attach.h"

#define HELPER_BACKOFF_MIN_MS 100
#define HELPER_BACKOFF_MAX_MS 2000
#define HELPER_NO_READER_MS   60000
#define HELPER_ACCEPT_NS      2000000000ull /* without an answer for this long, connect again */
#define HELPER_STACK_BYTES    (512u << 10)
#define HELPER_CAPTURE_NS     10000000000ull
#define HELPER_EXIT_WAIT_NS   300000000ull
/* The cost of channels is measured over a tenth of the governor's window, because they are on only
 * for seconds. */
#define HELPER_CHANNELS_WINDOWS 10

enum helper_exit { EXIT_NO = 0, EXIT_ASKED = 1, EXIT_DONE = 2 };

static struct {
	uint32_t wake;	   /* futex: 1: asked to run */
	uint32_t sleeping; /* the thread is in futex_wait or about to enter it */
	uint64_t flushed_ns;
	uint32_t exit;		/* enum helper_exit */
	uint32_t context_early; /* there is a context, but perhaps no ring yet */
	uint32_t context_seen;
	/* the fields below belong to the helper alone */
	int sock;
	struct file_id sock_file;
	uint64_t capture_since_ns;
	bool accepted;
	uint64_t dialled_ns, reader_seen_ns, next_dial_ns;
	uint32_t backoff_ms, serial;
	uint32_t told_trace, told_cupti;
	struct attach_hello hello;
	char path[128], unknown_variable[ENVIRONMENT_NAME_BYTES];
	struct governor governor;
	uint64_t no_reader_ns;
} helper = {.sock = -1, .backoff_ms = HELPER_BACKOFF_MIN_MS};

static long helper_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

/* ---- called by wrappers ---- */

static void helper_wake(void)
{
	__atomic_store_n(&helper.wake, 1, __ATOMIC_SEQ_CST);
	/* seq_cst on both sides: either we see it sleeping or it sees wake */
	if (__atomic_load_n(&helper.sleeping, __ATOMIC_SEQ_CST))
		helper_futex(&helper.wake, FUTEX_WAKE, 1, NULL);
}

void helper_sync_done(void)
{
	int saved = errno;

	if (cupti_client_started() &&
	    clock_monotonic_ns() - __atomic_load_n(&helper.flushed_ns, __ATOMIC_RELAXED) >
		HELPER_FLUSH_MIN_NS)
		helper_wake();
	errno = saved;
}

static void helper_gap(uint16_t cause, int32_t detail, uint64_t from_ns, uint64_t to_ns)
{
	/* gaps are stamped with the lane's clock */
	uint64_t ticks = tracer_now(), now = clock_monotonic_ns();
	double rate = 1.0;
	struct event_gap e = {.head = {.kind = EVENT_GAP}, .cause = cause, .detail = detail};

	if (tracer_clock_tsc && now > tracer_ring.header->anchor_monotonic_ns + 1000000)
		rate = (double)(ticks - tracer_ring.header->anchor_ticks) /
		       (double)(now - tracer_ring.header->anchor_monotonic_ns);
	e.head.t = ticks - (uint64_t)((double)(now - from_ns) * rate);
	e.to = to_ns ? ticks - (uint64_t)((double)(now - to_ns) * rate) : 0;
	e.on = to_ns ? ticks : 0;
	if (!tracer_is_dead())
		tracer_push(&e);
}

/* The last chance to leave CUPTI cleanly. This handler is registered after those of the driver and
 * CUPTI, so it runs before them. It waits, for a bounded time, until the helper has fetched the
 * remaining records. */
static void helper_at_exit(void)
{
	uint64_t until = clock_monotonic_ns() + HELPER_EXIT_WAIT_NS;
	struct timespec pause = {0, 500000};
	uint32_t no = EXIT_NO;

	if (tracer_is_dead() || !cupti_client_started())
		return;
	if (!__atomic_compare_exchange_n(&helper.exit, &no, EXIT_ASKED, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return;
	helper_wake();
	while (__atomic_load_n(&helper.exit, __ATOMIC_ACQUIRE) != EXIT_DONE &&
	       clock_monotonic_ns() < until)
		nanosleep(&pause, NULL);
}

static uint64_t helper_now(void)
{
	return tracer_now();
}

void helper_context_ready(void)
{
	static const struct cupti_client_host host = {&tracer_ring, hooks_dlsym,       hooks_loaded,
						      helper_gap,   registry_launched, helper_now};
	uint32_t inside = tracer_inside_bits;
	int saved = errno;

	if (__atomic_load_n(&helper.context_seen, __ATOMIC_RELAXED))
		return;
	/* seq_cst on both sides: while another thread builds the ring, either it sees this, or we
	 * see its ring */
	__atomic_store_n(&helper.context_early, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&tracer_state_word, __ATOMIC_SEQ_CST) == TRACER_COLD ||
	    __atomic_exchange_n(&helper.context_seen, 1, __ATOMIC_RELAXED))
		return;
	tracer_inside_bits = inside | TRACER_IN_SYSOM;
	cupti_client_start(&host, driver_version());
	if (cupti_client_started())
		atexit(helper_at_exit);
	tracer_inside_bits = inside;
	errno = saved;
}

void helper_ring_ready(void)
{
	if (__atomic_load_n(&helper.context_early, __ATOMIC_SEQ_CST))
		helper_context_ready();
}

/* ---- the socket ---- */

static void helper_hang_up(uint64_t now)
{
	if (file_id_is(helper.sock, &helper.sock_file))
		close(helper.sock);
	helper.sock = -1;
	helper.accepted = false;
	helper.next_dial_ns = now + helper.backoff_ms * 1000000ull;
	helper.backoff_ms *= 2;
	if (helper.backoff_ms > HELPER_BACKOFF_MAX_MS)
		helper.backoff_ms = HELPER_BACKOFF_MAX_MS;
}

/* The name of a variable comes last, because it may contain anything. */
static void helper_describe(void)
{
	uint32_t bad_line = span_table_bad_line();
	char spans[32] = "";

	if (bad_line)
		snprintf(spans, sizeof(spans), " spans=bad:%u", bad_line);
	snprintf(helper.hello.libs, sizeof(helper.hello.libs), "cuda=%d cupti=%u%s%s%s",
		 helper.context_seen ? driver_version() : 0, cupti_client_version(), spans,
		 helper.unknown_variable[0] ? " unknown_variable=" : "", helper.unknown_variable);
}

static void helper_dial(uint64_t now)
{
	/* Without a sysomd we take no descriptor, not even briefly: a program that closes one
	 * expects its number back. We pass the ring on only after all of it is charged to us: no
	 * reader is charged for its memory. */
	if (ring_writer_fd(&tracer_ring) < 0 || ring_writer_page_fd(&tracer_ring) < 0 ||
	    !helper.path[0] || access(helper.path, F_OK) || ring_writer_fill(&tracer_ring)) {
		helper_hang_up(now);
		return;
	}
	helper_describe();
	helper.sock = attach_connect(helper.path, &helper.hello,
				     (const int[]){tracer_ring.fd, tracer_ring.page_fd});
	helper.dialled_ns = now;
	if (helper.sock == -EAGAIN) /* the attempt itself has already waited */
		helper.backoff_ms = HELPER_BACKOFF_MIN_MS;
	if (helper.sock < 0 || !file_id_note(helper.sock, &helper.sock_file))
		helper_hang_up(now);
}

static void helper_send_state(bool always)
{
	struct attach_state s = {.magic = ATTACH_MAGIC,
				 .serial = helper.serial,
				 .trace_state = tracer_state() == TRACER_ON    ? RING_TRACE_ON
						: tracer_state() == TRACER_OFF ? RING_TRACE_OFF
									       : RING_TRACE_LATCHED,
				 .cupti_state = cupti_client_state()};

	if (!helper.accepted ||
	    (!always && s.trace_state == helper.told_trace && s.cupti_state == helper.told_cupti))
		return;
	if (send(helper.sock, &s, sizeof(s), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(s)) {
		helper.told_trace = s.trace_state;
		helper.told_cupti = s.cupti_state;
	}
}

static void helper_switch(bool on)
{
	static uint64_t since_ns;
	uint64_t until_ns;
	bool was_on = tracer_state() == TRACER_ON;

	if (on == was_on || tracer_is_dead())
		return;
	if (on) {
		tracer_switch(true);
		/* launches have kernel records from the moment the kinds are on */
		until_ns = clock_monotonic_ns();
		cupti_client_pause(CUPTI_PAUSE_SWITCHED, false, 0);
		helper_gap(GAP_SWITCHED_OFF, 0, since_ns, until_ns);
	} else {
		since_ns = clock_monotonic_ns();
		helper_gap(GAP_SWITCHED_OFF, 0, since_ns, 0);
		cupti_client_pause(CUPTI_PAUSE_SWITCHED, true, 0);
		cupti_client_tend(since_ns, true);
		tracer_switch(false);
	}
}

/* Carries out a command. Returns true if it asks for a flush. */
static bool helper_obey(const struct attach_command *c, uint64_t now)
{
	helper.serial = c->serial;
	switch (c->kind) {
	case ATTACH_ACCEPT:
		helper.accepted = true;
		helper.backoff_ms = HELPER_BACKOFF_MIN_MS;
		if (!tracer_is_dead())
			registry_restate(tracer_push, tracer_now());
		return true;
	case ATTACH_REFUSE:
		helper.backoff_ms = HELPER_BACKOFF_MAX_MS;
		helper_hang_up(now);
		return false;
	case ATTACH_OFF:
	case ATTACH_ON:
		helper_switch(c->kind == ATTACH_ON);
		return false;
	case ATTACH_FLUSH:
		return true;
	case ATTACH_CHANNELS:
		nccl_channels_demand(c->arg > 0 ? now + (uint64_t)c->arg * 1000000 : 0);
		return false;
	default:
		return false;
	}
}

static bool helper_listen(uint64_t now)
{
	struct attach_command c;
	bool flush = false, answered = false;

	if (helper.sock >= 0 && !file_id_is(helper.sock, &helper.sock_file))
		helper_hang_up(now);
	if (helper.sock < 0 && now >= helper.next_dial_ns)
		helper_dial(now);
	for (int i = 0; helper.sock >= 0 && i < 16; i++) {
		ssize_t n = recv(helper.sock, &c, sizeof(c), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n != sizeof(c) || c.magic != ATTACH_MAGIC) {
			helper_hang_up(now);
			break;
		}
		flush |= helper_obey(&c, now);
		answered = true;
	}
	if (helper.sock >= 0 && !helper.accepted && now - helper.dialled_ns > HELPER_ACCEPT_NS)
		helper_hang_up(now);
	helper_send_state(answered);
	return flush;
}

/* ---- the tick ---- */

static void helper_watch_reader(uint64_t now)
{
	if (helper.accepted || !helper.reader_seen_ns)
		helper.reader_seen_ns = now;
	cupti_client_pause(CUPTI_PAUSE_NO_READER, now - helper.reader_seen_ns > helper.no_reader_ns,
			   0);
}

static void helper_govern(uint64_t now)
{
	struct governor_load load = {.now_ns = now,
				     .cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID),
				     .can_coarsen = cupti_client_can_coarsen()};
	enum governor_records want;

	cupti_client_counts(&load.records, &load.nodes);
	want = governor_step(&helper.governor, &load);
	cupti_client_pause(CUPTI_PAUSE_GOVERNED, want == GOVERNOR_NONE,
			   (int32_t)(helper.governor.share * 1e6));
	cupti_client_graphs(want == GOVERNOR_COARSE, (int32_t)(helper.governor.duty * 1e6));
}

static void helper_tell_anchor(void)
{
	struct event_anchor e = {.head = {.kind = EVENT_ANCHOR, .t = tracer_now()}};

	e.monotonic_ns = clock_monotonic_ns();
	e.ticks = tracer_now();
	e.realtime_ns = clock_realtime_ns();
	tracer_push(&e);
}

static void helper_sleep(void)
{
	const struct timespec tick = {0, HELPER_TICK_MS * 1000000};

	__atomic_store_n(&helper.sleeping, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&helper.wake, __ATOMIC_SEQ_CST))
		helper_futex(&helper.wake, FUTEX_WAIT, 0, &tick);
	__atomic_store_n(&helper.sleeping, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&helper.wake, 0, __ATOMIC_SEQ_CST);
}

/* Whether the process is capturing a stream. We then leave CUPTI alone, because some captures fail
 * if any thread makes a call that cannot be captured. The pause is bounded: a capture that never
 * ends must not stop the records. */
static bool helper_capturing(uint64_t now)
{
	if (!__atomic_load_n(&registry_captures_active, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&helper.exit, __ATOMIC_RELAXED) != EXIT_NO) {
		helper.capture_since_ns = 0;
		return false;
	}
	if (!helper.capture_since_ns)
		helper.capture_since_ns = now;
	return now - helper.capture_since_ns < HELPER_CAPTURE_NS;
}

static void helper_tick(uint64_t now, uint64_t *told_ns)
{
	uint32_t ending = __atomic_load_n(&helper.exit, __ATOMIC_ACQUIRE);
	bool flush;

	if (ending == EXIT_NO && !tracer_is_dead())
		/* must come first, because the hello says whether the catalogue is bad */
		python_spans_tend(now);
	flush = helper_listen(now);
	tracer_tend_lanes(now);
	if (ending == EXIT_DONE || tracer_is_dead())
		return;
	if (now - *told_ns > 1000000000ull && tracer_state() == TRACER_ON) {
		*told_ns = now;
		helper_tell_anchor();
	}
	helper_watch_reader(now);
	helper_govern(now);
	nccl_plugin_tend(now);
	if (helper_capturing(now)) {
		cupti_client_tend(now, false);
		return;
	}
	if (flush || now - helper.flushed_ns > HELPER_FLUSH_MIN_NS || ending) {
		__atomic_store_n(&helper.flushed_ns, now, __ATOMIC_RELAXED);
		cupti_client_tend(now, true);
	}
	if (ending == EXIT_ASKED) {
		cupti_client_pause(CUPTI_PAUSE_EXIT, true, 0);
		tracer_tend_lanes(now);
		__atomic_store_n(&helper.exit, EXIT_DONE, __ATOMIC_RELEASE);
	}
}

/* A real-time job passes its priority on to this thread: the job must never wait for it. */
static void helper_leave_realtime(void)
{
	static const struct sched_param usual = {.sched_priority = 0};
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

	if (policy == SCHED_FIFO || policy == SCHED_RR)
		sched_setscheduler(0, SCHED_OTHER, &usual);
}

static void *helper_main(void *arg)
{
	uint64_t told_ns = 0;

	helper_leave_realtime();
	tracer_inside_bits = TRACER_IN_SYSOM;
	tracer_adopt_helper_lane();
	prctl(PR_SET_NAME, RING_HELPER_NAME, 0, 0, 0);
	for (;;) {
		helper_tick(clock_monotonic_ns(), &told_ns);
		helper_sleep();
	}
	return NULL;
}

/* A positive number from the environment, or the default. */
static uint64_t helper_setting(const char *name, uint64_t usual)
{
	const char *text = getenv(name);
	unsigned long long value = text ? strtoull(text, NULL, 10) : 0;

	return value && value < 1000000000ull ? value : usual;
}

static void helper_read_settings(void)
{
	size_t at = 0;
	const char *unknown = environment_unknown(&at);

	if (unknown)
		snprintf(helper.unknown_variable, sizeof(helper.unknown_variable), "%.*s",
			 (int)strcspn(unknown, "= "), unknown);
	helper.no_reader_ns =
	    helper_setting("SYSOM_CUPTI_LINGER_MS", HELPER_NO_READER_MS) * 1000000;
	helper.governor.window_ns =
	    helper_setting("SYSOM_CUPTI_WINDOW_MS", GOVERNOR_WINDOW_NS / 1000000) * 1000000;
	helper.governor.budget =
	    (double)helper_setting("SYSOM_CUPTI_BUDGET_PPM", (uint64_t)(GOVERNOR_SHARE * 1e6)) *
	    1e-6;
	nccl_channels_budget(helper.governor.budget,
			     helper.governor.window_ns / HELPER_CHANNELS_WINDOWS);
	span_table_load(); /* SYSOM_SPANS */
}

int helper_start(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	/* Read here once, in the thread of the job's first GPU use: our thread must not read the
	 * environment while the job may change it. */
	if (attach_path(helper.path, sizeof(helper.path)))
		helper.path[0] = 0;
	helper_read_settings();
	attach_hello_fill(&helper.hello);
	sigfillset(&all);
	if (pthread_attr_init(&attr))
		return -ENOMEM;
	/* if this fails, the default stays: a process with much static TLS needs a larger stack */
	pthread_attr_setstacksize(&attr, HELPER_STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, helper_main, NULL);
	if (err == EINVAL) {
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		err = pthread_create(&thread, &attr, helper_main, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

void helper_forked(void)
{
	/* The parent's connection: our copy of the descriptor would keep it open after the parent's
	 * death, and sysomd would think the parent is alive. */
	if (file_id_is(helper.sock, &helper.sock_file))
		close(helper.sock);
	helper.sock = -1;
	if (ring_writer_fd(&tracer_ring) >= 0)
		close(tracer_ring.fd);
	if (ring_writer_page_fd(&tracer_ring) >= 0)
		close(tracer_ring.page_fd);
}

void helper_prepare_environment(void)
{
	Dl_info info;

	/* only an absolute path, because the job may change its directory */
	if (dladdr((void *)helper_prepare_environment, &info) && info.dli_fname &&
	    info.dli_fname[0] == '/')
		setenv("NVTX_INJECTION64_PATH", info.dli_fname, 0);
	nccl_lookup_prepare();
}

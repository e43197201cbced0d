/* SPDX-License-Identifier: Apache-2.0
 * A request without an answer in time is dropped, and sent again later. So a beat can go in
 * between, and shutdown need not wait. A late answer to a dropped request is ignored. If its window
 * was committed nevertheless, the next answer is WIRE_DUPLICATE. */
#include "sidecar/uplink.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/daemon/log.h"
#include "base/limits.h"
#include "base/text/text.h"
#include "wire/link/req.h"

/* The most windows between the loop and the spool: enough for the time of one fsync. */
#define UPLINK_QUEUE 64u
#define UPLINK_KEPT  64u /* sketches: LIMIT_NODE_PROCESSES */
/* shortest time between two rounds of sending all sketches again */
#define UPLINK_AGAIN_NS 30000000000ull
/* a connection missing for this long is down; a restart takes less */
#define UPLINK_DOWN_NS	   5000000000ull
#define UPLINK_COMMANDS	   256u
#define UPLINK_REPLY_BYTES (256u << 10)
#define UPLINK_ANSWER_MS   10000
#define UPLINK_POLL_MS	   250

/* The latest sketch of a process. */
struct kept {
	uint64_t key, put; /* put: number of the sketch; 0: free */
	struct buf message;
};

struct uplink {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool started, stopping;
	uint64_t stop_by_ns;
	struct buf queue[UPLINK_QUEUE];
	uint32_t queue_head, queue_count;
	struct buf beat;
	struct buf sketches[UPLINK_QUEUE];
	uint32_t sketch_head, sketch_count;
	struct kept kept[UPLINK_KEPT];
	uint64_t sketches_put, again_at_ns;
	bool fresh; /* a new connection, not the first, on which no beat was answered yet */
	bool was_connected;
	struct wire_command commands[UPLINK_COMMANDS];
	uint32_t command_count;
	struct uplink_stats stats;

	/* used only by the thread */
	struct spool *spool;
	struct req *req;      /* NULL: nothing is sent */
	uint64_t retry_at_ns; /* windows wait until then */
	uint32_t backoff_ms;
	struct wire_reply reply;
	char waits_for[WIRE_TEXT_BYTES]; /* the last logged reason why windows must wait */
	const char *url;
	const struct tls *tls;
	uint64_t without_ns; /* when the connection was lost */
	enum { NOTHING, UP, DOWN } logged;
	char why[TLS_WHY_BYTES]; /* as logged last */

	struct loop_source *wake;
	uplink_command_fn fn;
	void *arg;
};

static uint32_t random_below(uint32_t n)
{
	uint32_t v = 0;

	if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
		v = (uint32_t)clock_ticks();
	return n ? v % n : 0;
}

static void on_change(void *arg, bool connected)
{
	struct uplink *u = arg;

	pthread_mutex_lock(&u->lock);
	u->stats.connected = connected;
	u->fresh |= connected && u->was_connected;
	u->was_connected |= connected;
	pthread_cond_signal(&u->more);
	pthread_mutex_unlock(&u->lock);
}

static int open_req(struct uplink *u, const struct uplink_config *c)
{
	const struct req_config rc = {.url = c->url,
				      .tls = c->tls,
				      .name = c->name,
				      .answer_max_bytes = UPLINK_REPLY_BYTES,
				      /* random, so that not all nodes reconnect at once */
				      .again_min_ms = 100 + random_below(200),
				      .again_max_ms = 2000 + random_below(3000),
				      .changed = on_change,
				      .arg = u};
	int err = req_open(&u->req, &rc);

	if (err)
		log_error("uplink", "%s: %s", c->url, strerror(-err));
	return err;
}

static bool is_stopping(struct uplink *u)
{
	bool stop;

	pthread_mutex_lock(&u->lock);
	stop = u->stopping && clock_monotonic_ns() >= u->stop_by_ns;
	pthread_mutex_unlock(&u->lock);
	return stop;
}

static bool is_connected(struct uplink *u)
{
	bool yes;

	pthread_mutex_lock(&u->lock);
	yes = u->stats.connected;
	pthread_mutex_unlock(&u->lock);
	return yes;
}

/* Sends a request and waits for the answer. 0 or -errno. Polls, so that it notices a shutdown
 * soon. */
static int ask(struct uplink *u, const void *data, size_t bytes)
{
	uint64_t until_ns = clock_monotonic_ns() + UPLINK_ANSWER_MS * 1000000ull;
	const void *answer;
	size_t answer_bytes;
	int err = req_send(u->req, data, bytes);

	if (err)
		return err;
	pthread_mutex_lock(&u->lock);
	u->stats.uploaded_bytes += bytes;
	pthread_mutex_unlock(&u->lock);
	do
		err = req_receive(u->req, UPLINK_POLL_MS, &answer, &answer_bytes);
	while (err == -ETIMEDOUT && clock_monotonic_ns() < until_ns && !is_stopping(u));
	if (err)
		return err;
	err = wire_reply_decode(answer, answer_bytes, &u->reply);
	if (err) {
		pthread_mutex_lock(&u->lock);
		u->stats.bad_replies++;
		pthread_mutex_unlock(&u->lock);
	}
	return err;
}

static void pass_commands(struct uplink *u)
{
	if (!u->reply.command_count)
		return;
	pthread_mutex_lock(&u->lock);
	for (uint32_t i = 0; i < u->reply.command_count && i < WIRE_COMMANDS_MAX &&
			     u->command_count < UPLINK_COMMANDS;
	     i++)
		u->commands[u->command_count++] = u->reply.commands[i];
	pthread_mutex_unlock(&u->lock);
	loop_wake(u->wake);
}

static void hold_back(struct uplink *u)
{
	u->backoff_ms = u->backoff_ms ? u->backoff_ms * 2 : 200;
	if (u->backoff_ms > 5000)
		u->backoff_ms = 5000;
	u->retry_at_ns =
	    clock_monotonic_ns() + (u->backoff_ms / 2 + random_below(u->backoff_ms)) * 1000000ull;
}

/* Logs a window that the aggregator's store has committed, before the spool drops it. Not
 * rate-limited: after an outage many windows may be committed in one second. */
static void log_acked(const struct wire_reply *r)
{
	char id[2 * sizeof(r->id) + 1];

	text_hex(r->id, sizeof(r->id), id);
	log_record("window_acked", "id=%s duplicate=%d", id, r->status == WIRE_DUPLICATE);
}

/* Logs why the aggregator accepts no windows, once for each change of the reason. "": it accepted
 * one. */
static void log_waiting(struct uplink *u, const char *why)
{
	if (*why && strcmp(why, u->waits_for))
		log_warn("uplink",
			 "the aggregator accepts no windows now; they wait in the spool: %s", why);
	text_copy(u->waits_for, sizeof(u->waits_for), why);
}

/* Sends the spool's oldest window; false if there is none or it must wait. */
static bool send_window(struct uplink *u)
{
	void *data;
	size_t bytes;
	uint64_t key;
	int err;

	if (clock_monotonic_ns() < u->retry_at_ns || spool_peek(u->spool, &data, &bytes, &key))
		return false;
	err = ask(u, data, bytes);
	free(data);
	pthread_mutex_lock(&u->lock);
	if (err || u->reply.status == WIRE_RETRY) {
		u->stats.retries++;
	} else if (u->reply.status == WIRE_OK) {
		u->stats.windows_sent++;
	} else if (u->reply.status == WIRE_DUPLICATE) {
		u->stats.windows_sent++;
		u->stats.windows_duplicate++;
	} else {
		u->stats.windows_rejected++;
		u->stats.windows_dropped++;
	}
	pthread_mutex_unlock(&u->lock);
	if (err || u->reply.status == WIRE_RETRY) {
		if (!err)
			log_waiting(u, u->reply.message);
		hold_back(u);
		return false;
	}
	if (u->reply.status == WIRE_REJECT)
		log_warn("uplink", "the aggregator rejected a window: %s", u->reply.message);
	else
		log_acked(&u->reply);
	log_waiting(u, "");
	u->backoff_ms = 0;
	spool_drop(u->spool, key);
	pass_commands(u);
	return true;
}

/* False if out of memory; *to is then empty. */
static bool copy_of(struct buf *to, const struct buf *message)
{
	buf_init(to, LIMIT_WIRE_MESSAGE_BYTES);
	buf_append(to, message->data, message->bytes);
	if (to->failed)
		buf_fini(to);
	return !to->failed;
}

/* Under lock. Queues a copy if the queue has room. */
static void queue_copy(struct uplink *u, const struct buf *message)
{
	struct buf *to = &u->sketches[(u->sketch_head + u->sketch_count) % UPLINK_QUEUE];

	if (u->sketch_count == UPLINK_QUEUE || !copy_of(to, message))
		return;
	u->sketch_count++;
	u->stats.sketches_again++;
}

/* Under lock, after a beat was answered. The aggregator may have restarted: then it knows the ranks
 * again, but no sketches. So the latest sketch of each process is sent again. */
static void sketches_again(struct uplink *u)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (!u->fresh || u->sketch_count ||
	    (u->again_at_ns && now_ns - u->again_at_ns < UPLINK_AGAIN_NS))
		return;
	u->fresh = false;
	u->again_at_ns = now_ns;
	for (uint32_t i = 0; i < UPLINK_KEPT; i++)
		if (u->kept[i].put)
			queue_copy(u, &u->kept[i].message);
}

static void send_beat(struct uplink *u, struct buf *beat)
{
	int err = ask(u, beat->data, beat->bytes);

	pthread_mutex_lock(&u->lock);
	if (err)
		u->stats.beats_failed++;
	else
		u->stats.beats_sent++;
	if (!err)
		sketches_again(u);
	pthread_mutex_unlock(&u->lock);
	if (!err)
		pass_commands(u);
}

static void send_sketch(struct uplink *u, struct buf *sketch)
{
	int err = ask(u, sketch->data, sketch->bytes);

	pthread_mutex_lock(&u->lock);
	if (err || u->reply.status != WIRE_OK)
		u->stats.sketches_failed++;
	else
		u->stats.sketches_sent++;
	pthread_mutex_unlock(&u->lock);
	if (!err)
		pass_commands(u);
}

/* Moves queued windows to the spool. */
static void spool_queued(struct uplink *u)
{
	for (;;) {
		struct buf b;
		int err;

		pthread_mutex_lock(&u->lock);
		if (!u->queue_count) {
			pthread_mutex_unlock(&u->lock);
			return;
		}
		b = u->queue[u->queue_head];
		u->queue_head = (u->queue_head + 1) % UPLINK_QUEUE;
		u->queue_count--;
		pthread_mutex_unlock(&u->lock);
		err = spool_put(u->spool, b.data, b.bytes, clock_boottime_ns());
		if (err == -EMSGSIZE) {
			pthread_mutex_lock(&u->lock);
			u->stats.windows_dropped++;
			pthread_mutex_unlock(&u->lock);
		}
		buf_fini(&b);
	}
}

static void publish(struct uplink *u)
{
	pthread_mutex_lock(&u->lock);
	spool_stats(u->spool, &u->stats.spool);
	pthread_mutex_unlock(&u->lock);
}

/* Under lock. Takes the oldest sketch, or an empty buffer. */
static struct buf take_sketch(struct uplink *u)
{
	struct buf b = {0};

	if (u->sketch_count) {
		b = u->sketches[u->sketch_head];
		u->sketch_head = (u->sketch_head + 1) % UPLINK_QUEUE;
		u->sketch_count--;
	}
	return b;
}

/* Waits up to 200 ms for work or a connection. Takes the beat and the oldest sketch that can be
 * sent. False: the thread must end. */
static bool wait_for_work(struct uplink *u, bool idle, struct buf *beat, struct buf *sketch)
{
	uint64_t until_ns = clock_monotonic_ns() + 200000000ull;
	struct timespec ts = clock_timespec(until_ns);
	bool go;

	pthread_mutex_lock(&u->lock);
	if (idle && !u->queue_count && !u->stopping &&
	    !((u->beat.bytes || u->sketch_count) && u->stats.connected))
		pthread_cond_timedwait(&u->more, &u->lock, &ts);
	*beat = (struct buf){0};
	if (u->beat.bytes && u->stats.connected) {
		*beat = u->beat;
		buf_init(&u->beat, LIMIT_WIRE_MESSAGE_BYTES);
	}
	*sketch = u->stats.connected && !u->stopping ? take_sketch(u) : (struct buf){0};
	go = !u->stopping || u->queue_count || clock_monotonic_ns() < u->stop_by_ns;
	pthread_mutex_unlock(&u->lock);
	return go;
}

/* Logs why TLS refuses the connection, once for each change of the reason. */
static void log_refusal(struct uplink *u, const char *why)
{
	if (!strcmp(why, u->why))
		return;
	text_copy(u->why, sizeof(u->why), why);
	log_warn("uplink", "%s: %s", u->url, why);
}

/* Logs each lasting change of the connection. Otherwise the log would not show that an aggregator
 * was never reached. */
static void log_connection(struct uplink *u)
{
	uint64_t now_ns = clock_monotonic_ns();
	char why[TLS_WHY_BYTES];

	if (is_connected(u)) {
		u->without_ns = 0;
		u->why[0] = '\0';
		if (u->logged != UP)
			log_info("uplink", "%s: connected%s", u->url, u->tls ? " by TLS" : "");
		u->logged = UP;
		return;
	}
	if (req_why(u->req, why, sizeof(why)))
		log_refusal(u, why);
	u->without_ns = u->without_ns ? u->without_ns : now_ns;
	if (u->logged == DOWN || now_ns - u->without_ns < UPLINK_DOWN_NS)
		return;
	log_warn("uplink", "%s: no connection for %llu s; windows wait in the spool (%s)", u->url,
		 UPLINK_DOWN_NS / 1000000000ull, *why ? why : "no answer");
	u->logged = DOWN;
}

static void *uplink_thread(void *arg)
{
	struct uplink *u = arg;
	struct spool_stats st;
	struct buf beat, sketch;
	bool idle = true;

	while (wait_for_work(u, idle, &beat, &sketch)) {
		spool_queued(u);
		spool_tend(u->spool, clock_boottime_ns());
		if (u->req) {
			req_tend(u->req);
			log_connection(u);
		}
		if (beat.bytes && u->req)
			send_beat(u, &beat);
		buf_fini(&beat);
		if (sketch.bytes && u->req)
			send_sketch(u, &sketch);
		buf_fini(&sketch);
		idle = !u->req || !is_connected(u) || !send_window(u);
		publish(u);
		spool_stats(u->spool, &st);
		pthread_mutex_lock(&u->lock);
		if (u->stopping && !u->queue_count && (!st.count || !u->stats.connected))
			u->stop_by_ns = 0;
		pthread_mutex_unlock(&u->lock);
		if (idle && u->stopping && st.count)
			usleep(20000);
	}
	buf_fini(&beat);
	buf_fini(&sketch);
	spool_queued(u);
	publish(u);
	return NULL;
}

static void on_wake(void *arg, uint32_t events)
{
	struct uplink *u = arg;
	struct wire_command commands[UPLINK_COMMANDS];
	uint32_t n;

	pthread_mutex_lock(&u->lock);
	n = u->command_count;
	memcpy(commands, u->commands, sizeof(commands[0]) * n);
	u->command_count = 0;
	u->stats.commands += n;
	pthread_mutex_unlock(&u->lock);
	for (uint32_t i = 0; i < n; i++)
		u->fn(u->arg, &commands[i]);
}

int uplink_open(struct uplink **out, const struct uplink_config *c, struct loop *loop,
		uplink_command_fn fn, void *arg)
{
	struct uplink *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	pthread_mutex_init(&u->lock, NULL);
	/* with the monotonic clock, setting the wall clock back does not lengthen a wait */
	cond_init_monotonic(&u->more);
	buf_init(&u->beat, LIMIT_WIRE_MESSAGE_BYTES);
	u->url = c->url;
	u->tls = c->tls;
	u->fn = fn;
	u->arg = arg;
	err = spool_open(&u->spool, &c->spool, clock_boottime_ns());
	if (!err)
		err = loop_add_wake(loop, on_wake, u, &u->wake);
	if (!err && c->url && *c->url)
		err = open_req(u, c);
	if (!err) {
		publish(u);
		err = -pthread_create(&u->thread, NULL, uplink_thread, u);
		u->started = !err;
	}
	if (err) {
		uplink_close(u);
		return err;
	}
	*out = u;
	return 0;
}

void uplink_put_window(struct uplink *u, struct buf *message)
{
	pthread_mutex_lock(&u->lock);
	if (u->queue_count == UPLINK_QUEUE) {
		buf_fini(&u->queue[u->queue_head]);
		u->queue_head = (u->queue_head + 1) % UPLINK_QUEUE;
		u->queue_count--;
		u->stats.windows_dropped++;
	}
	u->queue[(u->queue_head + u->queue_count++) % UPLINK_QUEUE] = *message;
	pthread_cond_signal(&u->more);
	pthread_mutex_unlock(&u->lock);
	buf_init(message, LIMIT_WIRE_MESSAGE_BYTES);
}

void uplink_put_beat(struct uplink *u, struct buf *message)
{
	pthread_mutex_lock(&u->lock);
	u->stats.beats_replaced += u->beat.bytes > 0;
	buf_fini(&u->beat);
	u->beat = *message;
	pthread_cond_signal(&u->more);
	pthread_mutex_unlock(&u->lock);
	buf_init(message, LIMIT_WIRE_MESSAGE_BYTES);
}

/* Under lock. Replaces the sketch with this key, else the one that was renewed longest ago. Out of
 * memory: keeps none. */
static void keep_sketch(struct uplink *u, uint64_t key, const struct buf *message)
{
	struct kept *to = &u->kept[0];

	for (uint32_t i = 0; i < UPLINK_KEPT && !(to->put && to->key == key); i++)
		if ((u->kept[i].put && u->kept[i].key == key) || u->kept[i].put < to->put)
			to = &u->kept[i];
	buf_fini(&to->message);
	to->key = key;
	to->put = copy_of(&to->message, message) ? ++u->sketches_put : 0;
}

void uplink_put_sketch(struct uplink *u, uint64_t key, struct buf *message)
{
	struct buf old = {0};

	pthread_mutex_lock(&u->lock);
	keep_sketch(u, key, message);
	if (u->sketch_count == UPLINK_QUEUE) {
		old = take_sketch(u);
		u->stats.sketches_dropped++;
	}
	u->sketches[(u->sketch_head + u->sketch_count++) % UPLINK_QUEUE] = *message;
	pthread_cond_signal(&u->more);
	pthread_mutex_unlock(&u->lock);
	buf_fini(&old);
	buf_init(message, LIMIT_WIRE_MESSAGE_BYTES);
}

void uplink_stats(struct uplink *u, struct uplink_stats *out)
{
	pthread_mutex_lock(&u->lock);
	*out = u->stats;
	pthread_mutex_unlock(&u->lock);
	out->windows_dropped += out->spool.dropped_full + out->spool.dropped_age +
				out->spool.dropped_bad + out->spool.dropped_memory;
}

void uplink_finish(struct uplink *u, uint32_t linger_ms)
{
	if (!u)
		return;
	if (u->started) {
		pthread_mutex_lock(&u->lock);
		u->stopping = true;
		u->stop_by_ns = clock_monotonic_ns() + linger_ms * 1000000ull;
		pthread_cond_signal(&u->more);
		pthread_mutex_unlock(&u->lock);
		pthread_join(u->thread, NULL);
		u->started = false;
	}
	spool_close(u->spool);
	u->spool = NULL;
}

void uplink_close(struct uplink *u)
{
	if (!u)
		return;
	uplink_finish(u, 0);
	req_close(u->req);
	while (u->queue_count) {
		buf_fini(&u->queue[u->queue_head]);
		u->queue_head = (u->queue_head + 1) % UPLINK_QUEUE;
		u->queue_count--;
	}
	while (u->sketch_count) {
		struct buf b = take_sketch(u);

		buf_fini(&b);
	}
	for (uint32_t i = 0; i < UPLINK_KEPT; i++)
		buf_fini(&u->kept[i].message);
	buf_fini(&u->beat);
	loop_source_close(u->wake);
	pthread_cond_destroy(&u->more);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

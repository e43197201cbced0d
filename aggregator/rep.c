/* SPDX-License-Identifier: Apache-2.0
 * Why not nng's own REP: in nng 1.5 a connection that is closed on one side (an answer can't be sent)
 * while the other side is between a message's length and its body never ends; the one thread that
 * frees connections waits for it, and from then on none is freed. A peer brings that about by asking
 * much and hanging up. Here a connection has one operation at a time, so there is nothing to race.
 *
 * A connection's life: greet, hear the greeting, then head, body, (wait for a slot,) handle, answer,
 * and head again. Every step but a head's first byte has a deadline.
 * Locks: rep.lock, then connection.lock. nng runs callbacks on threads of its own, never from within
 * a call. A stream that is closed is never asked for anything: nng would not answer. */
#include "aggregator/rep.h"

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

#define REQ_PROTOCOL	 0x30
#define REP_PROTOCOL	 0x31
#define GREETING_BYTES	 8
#define HOPS_MAX	 15
#define FIRST_BYTES	 4096u /* a beat's; doubled while a message comes in */
#define GREETING_MS	 5000
#define MESSAGE_MS	 60000
#define ANSWER_MS	 30000
#define ACCEPT_AGAIN_MS	 20
/* Who has been silent for less is not idle, only slow. */
#define IDLE_NS		 1000000000ull

enum state { GREET, GREETED, HEAD, BODY, WAIT, RUN, HANDLE, ANSWER, DEAD };

struct connection {
	struct rep_request request; /* first: rep_answer gets this pointer */
	struct rep *r;
	struct connection *next, *prev; /* of all, or of the dead */
	struct connection *next_waiting;
	nng_stream *stream;
	nng_aio *aio;
	pthread_mutex_t lock; /* closed against the next operation */
	bool closed;
	enum state state; /* changes under rep.lock */
	uint64_t since_ns; /* of the state, or of the latest answer */
	uint8_t head[1 + 8];
	uint8_t *body, *out;
	size_t got, want, capacity, hops_bytes;
};

struct rep {
	struct rep_config config;
	rep_request_fn fn;
	void *arg;
	bool ipc;
	nng_stream_listener *listener;
	nng_aio *accept;
	bool accept_pause;
	pthread_t thread;
	bool thread_started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closing;
	struct connection *all, *dead, *waiting, **waiting_last;
	uint64_t buffer_bytes;
	struct rep_stats stats;
	uint32_t free_count;
	uint32_t free_slots[]; /* a stack */
};

/* ---- ends ---- */

/* Called by whoever runs the connection; nothing of it is under way any more. */
static void bury(struct connection *c)
{
	struct rep *r = c->r;

	if (r->config.gone)
		r->config.gone(r->arg, c->request.connection);
	pthread_mutex_lock(&r->lock);
	if (c->prev)
		c->prev->next = c->next;
	else
		r->all = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->state = DEAD;
	c->next = r->dead;
	r->dead = c;
	r->buffer_bytes -= c->capacity;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

static void count(struct rep *r, uint64_t *counter)
{
	pthread_mutex_lock(&r->lock);
	++*counter;
	pthread_mutex_unlock(&r->lock);
}

/* What is under way ends with NNG_ECLOSED. */
static void hang_up(struct connection *c)
{
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	nng_stream_close(c->stream);
	pthread_mutex_unlock(&c->lock);
}

static void connection_free(struct connection *c)
{
	if (c->stream)
		hang_up(c);
	nng_aio_stop(c->aio); /* its last callback may still be on its way out */
	if (c->stream)
		nng_stream_free(c->stream);
	nng_aio_free(c->aio);
	pthread_mutex_destroy(&c->lock);
	free(c->body);
	free(c->out);
	free(c);
}

static void *free_thread(void *arg)
{
	struct rep *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		struct connection *c = r->dead;

		if (!c && r->closing && !r->stats.connections)
			break;
		if (!c) {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		r->dead = c->next;
		pthread_mutex_unlock(&r->lock);
		connection_free(c);
		pthread_mutex_lock(&r->lock);
		r->stats.connections--;
		pthread_cond_broadcast(&r->changed);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* The one that has been idle, or slow with its message, for longest. Under rep.lock. */
static void evict(struct rep *r, bool with_buffer)
{
	struct connection *oldest = NULL;
	uint64_t now_ns = clock_monotonic_ns();

	for (struct connection *c = r->all; c; c = c->next) {
		if (c->state != GREETED && c->state != HEAD && c->state != BODY)
			continue;
		if ((with_buffer && !c->capacity) || now_ns - c->since_ns < IDLE_NS)
			continue;
		if (!oldest || c->since_ns < oldest->since_ns)
			oldest = c;
	}
	if (!oldest)
		return;
	r->stats.evicted++;
	oldest->since_ns = now_ns; /* not again */
	hang_up(oldest);
}

/* ---- one operation ---- */

/* Moves to the state and starts its operation; the callback goes on. */
static void go(struct connection *c, enum state state, nng_duration limit_ms, void *data,
	       size_t bytes)
{
	nng_iov iov = { data, bytes };
	bool closed;

	pthread_mutex_lock(&c->r->lock);
	if (c->state != state)
		c->since_ns = clock_monotonic_ns();
	c->state = state;
	pthread_mutex_unlock(&c->r->lock);
	pthread_mutex_lock(&c->lock);
	closed = c->closed;
	if (!closed) {
		nng_aio_set_timeout(c->aio, limit_ms);
		nng_aio_set_iov(c->aio, 1, &iov);
		if (state == GREET || state == ANSWER)
			nng_stream_send(c->stream, c->aio);
		else
			nng_stream_recv(c->stream, c->aio);
	}
	pthread_mutex_unlock(&c->lock);
	if (closed)
		bury(c);
}

static void read_head(struct connection *c)
{
	c->got = 0;
	c->want = c->r->ipc ? 9 : 8;
	go(c, HEAD, NNG_DURATION_INFINITE, c->head, c->want);
}

/* Memory for what comes next; a peer has to send as much as it makes us keep. */
static bool grow(struct connection *c)
{
	struct rep *r = c->r;
	size_t capacity = c->capacity ? 2 * c->capacity : FIRST_BYTES;
	uint8_t *body;

	if (capacity > c->want)
		capacity = c->want;
	body = realloc(c->body, capacity);
	if (!body)
		return false;
	c->body = body;
	pthread_mutex_lock(&r->lock);
	r->buffer_bytes += capacity - c->capacity;
	c->capacity = capacity;
	if (r->buffer_bytes > r->config.buffer_max_bytes)
		evict(r, true);
	pthread_mutex_unlock(&r->lock);
	return true;
}

static void release_body(struct connection *c)
{
	pthread_mutex_lock(&c->r->lock);
	c->r->buffer_bytes -= c->capacity;
	c->capacity = 0;
	pthread_mutex_unlock(&c->r->lock);
	free(c->body);
	c->body = NULL;
}

/* Bytes of the way back in front of the message, which the answer repeats; 0: malformed. */
static size_t hops_bytes(const uint8_t *body, size_t bytes)
{
	for (size_t at = 0; at + 4 <= bytes && at < HOPS_MAX * 4; at += 4)
		if (body[at] & 0x80)
			return at + 4;
	return 0;
}

static void handle(struct connection *c)
{
	c->request.body = c->body + c->hops_bytes;
	c->request.bytes = c->got - c->hops_bytes;
	c->r->fn(c->r->arg, &c->request);
}

/* A message is there: its turn, or the end of the queue. */
static void take_slot(struct connection *c)
{
	struct rep *r = c->r;
	bool now, closing;

	pthread_mutex_lock(&r->lock);
	closing = r->closing;
	now = !closing && r->free_count > 0;
	if (now) {
		c->state = HANDLE;
		c->request.slot = r->free_slots[--r->free_count];
	} else if (!closing) {
		c->state = WAIT;
		c->next_waiting = NULL;
		*r->waiting_last = c;
		r->waiting_last = &c->next_waiting;
	}
	pthread_mutex_unlock(&r->lock);
	if (now)
		handle(c);
	else if (closing)
		bury(c);
}

/* The head of the queue, or NULL. Under rep.lock. */
static struct connection *pop_waiting(struct rep *r)
{
	struct connection *c = r->waiting;

	if (c)
		r->waiting = c->next_waiting;
	if (!r->waiting)
		r->waiting_last = &r->waiting;
	return c;
}

/* Gives the slot to the next one in the queue, which goes on on a thread of nng's. */
static void pass_slot(struct rep *r, uint32_t slot)
{
	struct connection *c;

	pthread_mutex_lock(&r->lock);
	c = pop_waiting(r);
	if (c) {
		c->request.slot = slot;
		c->state = RUN;
	} else {
		r->free_slots[r->free_count++] = slot;
	}
	pthread_mutex_unlock(&r->lock);
	if (!c)
		return;
	CHECK(nng_aio_begin(c->aio)); /* no stop but after bury */
	nng_aio_finish(c->aio, 0);
}

/* ---- steps ---- */

static uint64_t get64(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static void put64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

static bool on_head(struct connection *c)
{
	uint64_t bytes = get64(c->head + (c->r->ipc ? 1 : 0));

	if ((c->r->ipc && c->head[0] != 1) || bytes < 4 ||
	    bytes > c->r->config.message_max_bytes + HOPS_MAX * 4)
		return false;
	c->got = 0;
	c->want = (size_t)bytes;
	return true;
}

/* The wanted bytes are there; false: not the protocol. */
static bool step(struct connection *c)
{
	static const uint8_t greeting[] = { 0, 'S', 'P', 0, 0, REQ_PROTOCOL, 0, 0 };

	switch (c->state) {
	case GREET:
		c->got = 0;
		go(c, GREETED, GREETING_MS, c->head, c->want);
		return true;
	case GREETED:
		if (memcmp(c->head, greeting, sizeof(greeting)))
			return false;
		read_head(c);
		return true;
	case HEAD:
		if (!on_head(c))
			return false;
		if (!grow(c)) {
			bury(c);
			return true;
		}
		go(c, BODY, MESSAGE_MS, c->body, c->capacity);
		return true;
	case BODY:
		c->hops_bytes = hops_bytes(c->body, c->got);
		if (!c->hops_bytes)
			return false;
		take_slot(c);
		return true;
	case RUN:
		pthread_mutex_lock(&c->r->lock);
		c->state = HANDLE;
		pthread_mutex_unlock(&c->r->lock);
		handle(c);
		return true;
	default: /* ANSWER */
		free(c->out);
		c->out = NULL;
		read_head(c);
		return true;
	}
}

/* More of what the state wants; true when an operation was started or the connection ended. */
static bool go_on(struct connection *c)
{
	uint8_t *data = c->head;
	nng_duration limit = c->state == GREET || c->state == GREETED ? GREETING_MS : MESSAGE_MS;
	size_t bytes;

	if (c->state == RUN)
		return false;
	c->got += nng_aio_count(c->aio);
	if (c->got == c->want)
		return false;
	bytes = c->want - c->got;
	if (c->state == BODY) {
		/* Drips do not extend the deadline. */
		uint64_t spent_ms = (clock_monotonic_ns() - c->since_ns) / 1000000;

		if (spent_ms >= MESSAGE_MS) {
			count(c->r, &c->r->stats.overdue);
			bury(c);
			return true;
		}
		limit = (nng_duration)(MESSAGE_MS - spent_ms);
		if (c->got == c->capacity && !grow(c)) {
			bury(c);
			return true;
		}
		data = c->body;
		bytes = c->capacity - c->got;
	} else if (c->state == ANSWER) {
		data = c->out;
		limit = ANSWER_MS;
	}
	go(c, c->state, limit, data + c->got, bytes);
	return true;
}

static void on_aio(void *arg)
{
	struct connection *c = arg;
	int err = nng_aio_result(c->aio);

	if (err) {
		if (err == NNG_ETIMEDOUT)
			count(c->r, &c->r->stats.overdue);
		bury(c);
		return;
	}
	if (go_on(c) || step(c))
		return;
	count(c->r, &c->r->stats.broken);
	bury(c);
}

void rep_answer(struct rep *r, struct rep_request *q, const void *data, size_t bytes)
{
	struct connection *c = (struct connection *)q;
	size_t frame = r->ipc ? 9 : 8, hops = c->hops_bytes;

	c->out = bytes ? malloc(frame + hops + bytes) : NULL;
	if (c->out) {
		c->out[0] = 1;
		put64(c->out + frame - 8, hops + bytes);
		memcpy(c->out + frame, c->body, hops);
		memcpy(c->out + frame + hops, data, bytes);
	}
	release_body(c);
	pass_slot(r, q->slot);
	if (!c->out) {
		bury(c);
		return;
	}
	c->got = 0;
	c->want = frame + hops + bytes;
	go(c, ANSWER, ANSWER_MS, c->out, c->want);
}

/* ---- coming ---- */

static void greet(struct rep *r, nng_stream *stream)
{
	static const uint8_t greeting[] = { 0, 'S', 'P', 0, 0, REP_PROTOCOL, 0, 0 };
	struct connection *c = calloc(1, sizeof(*c));

	if (!c || nng_aio_alloc(&c->aio, on_aio, c)) {
		free(c);
		nng_stream_free(stream);
		return;
	}
	c->r = r;
	c->stream = stream;
	pthread_mutex_init(&c->lock, NULL);
	memcpy(c->head, greeting, sizeof(greeting));
	c->want = GREETING_BYTES;
	c->since_ns = c->request.connected_ns = clock_monotonic_ns();
	pthread_mutex_lock(&r->lock);
	c->closed = r->closing; /* rep_close has seen all that were there */
	c->next = r->all;
	if (r->all)
		r->all->prev = c;
	r->all = c;
	c->request.connection = ++r->stats.accepted;
	if (r->stats.connections++ >= r->config.connection_max)
		evict(r, false);
	pthread_mutex_unlock(&r->lock);
	go(c, GREET, GREETING_MS, c->head, GREETING_BYTES);
}

static void on_accept(void *arg)
{
	struct rep *r = arg;
	int err = nng_aio_result(r->accept);
	bool full;

	if (err == NNG_ECLOSED || err == NNG_ECANCELED)
		return;
	if (!err && !r->accept_pause)
		greet(r, nng_aio_get_output(r->accept, 0));
	pthread_mutex_lock(&r->lock);
	/* Twice as many: nobody was idle. The rest wait in the kernel. */
	full = err || r->stats.connections >= 2ull * r->config.connection_max;
	if (full)
		evict(r, false);
	r->accept_pause = full;
	if (r->closing) {
		pthread_mutex_unlock(&r->lock);
		return;
	}
	pthread_mutex_unlock(&r->lock);
	if (full)
		nng_sleep_aio(ACCEPT_AGAIN_MS, r->accept);
	else
		nng_stream_listener_accept(r->listener, r->accept);
}

static int listen_on(struct rep *r)
{
	int err = nng_stream_listener_alloc(&r->listener, r->config.url);

	if (err)
		return err;
	/* A node that lost its power must not be kept for ever; ipc has no such option. */
	if (nng_stream_listener_set_bool(r->listener, NNG_OPT_TCP_KEEPALIVE, true) && !r->ipc)
		return NNG_ENOTSUP;
	return nng_stream_listener_listen(r->listener);
}

int rep_open(struct rep **out, const struct rep_config *config, rep_request_fn fn, void *arg)
{
	struct rep *r = calloc(1, sizeof(*r) + config->slot_count * sizeof(r->free_slots[0]));
	int err;

	if (!r)
		return NNG_ENOMEM;
	r->config = *config;
	r->fn = fn;
	r->arg = arg;
	r->ipc = !strncmp(config->url, "ipc:", 4);
	r->waiting_last = &r->waiting;
	while (r->free_count < config->slot_count) {
		r->free_slots[r->free_count] = r->free_count;
		r->free_count++;
	}
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	err = nng_aio_alloc(&r->accept, on_accept, r);
	if (!err)
		err = listen_on(r);
	if (!err && pthread_create(&r->thread, NULL, free_thread, r))
		err = NNG_ENOMEM;
	if (err) {
		rep_close(r, 0);
		return err;
	}
	r->thread_started = true;
	r->config.url = NULL;
	*out = r;
	nng_stream_listener_accept(r->listener, r->accept);
	return 0;
}

static bool has_answers(struct rep *r)
{
	bool yes = false;

	pthread_mutex_lock(&r->lock);
	for (struct connection *c = r->all; c && !yes; c = c->next)
		yes = c->state == HANDLE || c->state == RUN || c->state == ANSWER;
	pthread_mutex_unlock(&r->lock);
	return yes;
}

void rep_close(struct rep *r, uint32_t grace_ms)
{
	struct connection *c;

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->closing = true;
	pthread_mutex_unlock(&r->lock);
	if (r->listener)
		nng_stream_listener_close(r->listener);
	nng_aio_stop(r->accept);
	for (; grace_ms && has_answers(r); grace_ms--)
		usleep(1000);
	pthread_mutex_lock(&r->lock);
	for (c = r->all; c; c = c->next)
		hang_up(c);
	/* Those in the queue have no operation that could end: as if each had its turn. */
	while ((c = pop_waiting(r))) {
		pthread_mutex_unlock(&r->lock);
		bury(c);
		pthread_mutex_lock(&r->lock);
	}
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	if (r->thread_started)
		pthread_join(r->thread, NULL);
	nng_aio_free(r->accept);
	if (r->listener)
		nng_stream_listener_free(r->listener);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void rep_stats(struct rep *r, struct rep_stats *out)
{
	pthread_mutex_lock(&r->lock);
	*out = r->stats;
	pthread_mutex_unlock(&r->lock);
}

/* SPDX-License-Identifier: Apache-2.0
 * docs/decisions/0032-rep.md says why we do not use nng's own REP. Here a connection has one
 * operation at a time, so closing it races with nothing.
 *
 * A connection's life: greet, then read a message, wait for its turn, handle, answer, and read
 * again. Every step has a deadline, except waiting for a message's first byte. nng's threads only
 * receive and send; work runs on the threads of a lane, in the order that senders.h gives.
 * Locks: rep.lock, then connection.lock. nng runs callbacks on its own threads, never from within a
 * call; it never ends an operation on a closed stream, so none is started there. */
#include "aggregator/rep.h"

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include "aggregator/sp.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/daemon/peer.h"
#include "base/keyed.h"

#define GREETING_MS	5000
#define MESSAGE_MS	60000
#define ANSWER_MS	30000
#define ACCEPT_AGAIN_MS 20
/* A connection silent for less than this is slow, not idle. */
#define IDLE_NS 1000000000ull

enum state { GREET, READ, WAIT, HANDLE, ANSWER, DEAD };

struct connection {
	struct rep_request request; /* first: rep_answer gets this pointer */
	struct rep *r;
	struct seat seat;
	LIST_ENTRY(connection) next; /* of the dead */
	nng_stream *stream;
	nng_aio *aio;
	pthread_mutex_t lock; /* orders closing and the next operation */
	bool closed;
	/* under rep.lock */
	enum state state;
	int lane;
	uint32_t busy;	   /* request functions that have not returned yet */
	uint64_t since_ns; /* start of the state, or of the latest phase of reading */
	/* used only by the current operation */
	struct sp sp;
	uint8_t *out;
	size_t sent, out_bytes;
};

struct worker {
	struct rep *r;
	int lane;
};

struct lane {
	pthread_cond_t wake;
	uint32_t free_count, *free_slots; /* a stack */
	struct worker worker;
	pthread_t *threads;
	uint32_t thread_count;
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
	struct lane lane[SENDERS_LANES];
	struct senders *senders;
	LIST_HEAD(, connection) dead;
	uint64_t buffer_bytes;
	uint32_t answers; /* being handled or sent */
	struct rep_stats stats;
};

static struct connection *connection_of(struct seat *seat)
{
	return (struct connection *)(void *)((char *)seat - offsetof(struct connection, seat));
}

/* ---- the end of a connection ---- */

/* Under rep.lock. Sets the memory that its messages use now. */
static void hold(struct connection *c, size_t bytes)
{
	c->r->buffer_bytes += bytes - c->seat.bytes;
	senders_hold(c->r->senders, &c->seat, bytes);
}

/* Under rep.lock. Call when no operation is in progress; its request function may still run. */
static void bury_locked(struct connection *c)
{
	struct rep *r = c->r;

	r->stats.waiting -= c->state == WAIT;
	r->answers -= c->state == HANDLE || c->state == ANSWER;
	senders_cancel(r->senders, &c->seat);
	hold(c, 0);
	c->state = DEAD;
	LIST_INSERT_HEAD(&r->dead, c, next);
	pthread_cond_broadcast(&r->changed);
}

static void bury(struct connection *c)
{
	pthread_mutex_lock(&c->r->lock);
	bury_locked(c);
	pthread_mutex_unlock(&c->r->lock);
}

static void count(struct rep *r, uint64_t *counter)
{
	pthread_mutex_lock(&r->lock);
	++*counter;
	pthread_mutex_unlock(&r->lock);
}

/* The operation in progress ends with NNG_ECLOSED. */
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
	nng_aio_stop(c->aio); /* its last callback may still be running */
	if (c->stream)
		nng_stream_free(c->stream);
	nng_aio_free(c->aio);
	pthread_mutex_destroy(&c->lock);
	sp_fini(&c->sp);
	free(c->out);
	free(c);
}

/* Under rep.lock. Takes a dead connection whose function has returned. */
static struct connection *pop_dead(struct rep *r)
{
	struct connection *c;

	LIST_FOREACH (c, &r->dead, next)
		if (!c->busy) {
			LIST_REMOVE(c, next);
			senders_leave(r->senders, &c->seat);
			return c;
		}
	return NULL;
}

static void *free_thread(void *arg)
{
	struct rep *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		struct connection *c = pop_dead(r);

		if (!c && r->closing && !r->stats.connections)
			break;
		if (!c) {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		if (r->config.gone)
			r->config.gone(r->arg, c->request.connection);
		connection_free(c);
		pthread_mutex_lock(&r->lock);
		r->stats.connections--;
		pthread_cond_broadcast(&r->changed);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- room ---- */

/* Under rep.lock. Its bytes no longer count: they are freed as soon as nng is done with them. */
static void evict(struct connection *c)
{
	c->r->stats.evicted++;
	if (c->state == WAIT) {
		bury_locked(c);
		return;
	}
	hold(c, 0);
	hang_up(c);
}

/* Makes a place for one more connection of newcomer (NULL: unknown yet). The sender with most
 * connections loses one. If that is the newcomer, or has no more than it, only an idle connection
 * is dropped. */
static void make_place(struct rep *r, const struct sender *newcomer)
{
	struct sender *most = senders_most_seats(r->senders);
	bool busy_too = most && most->seats > (newcomer ? newcomer->seats : 1);
	uint64_t now_ns = clock_monotonic_ns();
	struct seat *s;

	if (!most)
		return;
	TAILQ_FOREACH (s, &most->by_age, next) {
		struct connection *c = connection_of(s);

		if (!busy_too && now_ns - c->since_ns < IDLE_NS)
			return;
		if ((c->state != READ && (c->state != WAIT || !busy_too)) || c->closed)
			continue;
		evict(c);
		return;
	}
}

/* Under rep.lock. False: c itself must be dropped. */
static bool make_room(struct connection *c)
{
	struct rep *r = c->r;

	while (r->buffer_bytes > r->config.buffer_max_bytes) {
		struct sender *most = senders_most_bytes(r->senders);
		struct seat *s;

		TAILQ_FOREACH (s, &most->by_age, next)
			if (s->bytes &&
			    (connection_of(s)->state == READ || connection_of(s)->state == WAIT))
				break;
		if (!s || connection_of(s) == c) {
			r->stats.evicted++;
			return false;
		}
		evict(connection_of(s));
	}
	return true;
}

/* ---- one operation ---- */

/* Enters the state and starts its operation; the callback continues. */
static void go(struct connection *c, enum state state, nng_duration limit_ms, void *data,
	       size_t bytes)
{
	nng_iov iov = {data, bytes};
	bool closed;

	pthread_mutex_lock(&c->r->lock);
	c->r->answers -= c->state == ANSWER && state != ANSWER;
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

/* Notes a new phase: the connection becomes its sender's youngest. */
static void touch(struct connection *c)
{
	pthread_mutex_lock(&c->r->lock);
	c->since_ns = clock_monotonic_ns();
	senders_touch(&c->seat);
	pthread_mutex_unlock(&c->r->lock);
}

/* Time left for the phase; slow bytes do not extend it. 0: over. */
static nng_duration limit_of(const struct connection *c)
{
	uint64_t limit_ms = c->sp.phase == SP_GREETING ? GREETING_MS : MESSAGE_MS;
	uint64_t spent_ms = (clock_monotonic_ns() - c->since_ns) / 1000000;

	if (c->sp.phase == SP_HEAD && !c->sp.got)
		return NNG_DURATION_INFINITE;
	return spent_ms < limit_ms ? (nng_duration)(limit_ms - spent_ms) : 0;
}

/* Reads the next part of a message. */
static void read_on(struct connection *c)
{
	nng_duration limit = limit_of(c);
	uint8_t *at = NULL;
	size_t bytes = 0;
	bool good = true;

	if (!limit)
		count(c->r, &c->r->stats.overdue);
	if (!limit || sp_room(&c->sp, &at, &bytes)) {
		bury(c);
		return;
	}
	if (c->sp.capacity != c->seat.bytes) {
		pthread_mutex_lock(&c->r->lock);
		hold(c, c->sp.capacity);
		good = make_room(c);
		pthread_mutex_unlock(&c->r->lock);
	}
	if (good)
		go(c, READ, limit, at, bytes);
	else
		bury(c);
}

/* ---- turns ---- */

/* Queues a complete message. */
static void take_turn(struct connection *c)
{
	struct rep *r = c->r;

	c->request.body = c->sp.body + c->sp.hops_bytes;
	c->request.bytes = c->sp.got - c->sp.hops_bytes;
	c->request.cost_ns = 0;
	c->lane = r->config.lane_of(r->arg, c->request.body, c->request.bytes);
	pthread_mutex_lock(&r->lock);
	if (r->closing || c->closed) {
		bury_locked(c);
	} else {
		c->state = WAIT;
		r->stats.waiting++;
		senders_wait(r->senders, &c->seat, c->lane);
		pthread_cond_signal(&r->lane[c->lane].wake);
	}
	pthread_mutex_unlock(&r->lock);
}

/* Under rep.lock, but releases it while the function runs. */
static void run(struct rep *r, struct connection *c, int lane)
{
	struct lane *l = &r->lane[lane];
	uint64_t begun_ns;

	c->state = HANDLE;
	c->busy++;
	c->request.slot = l->free_slots[--l->free_count];
	r->stats.waiting--;
	r->answers++;
	pthread_mutex_unlock(&r->lock);
	begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	r->fn(r->arg, &c->request);
	begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
	pthread_mutex_lock(&r->lock);
	senders_charge(r->senders, &c->seat, lane, begun_ns);
	c->busy--;
	if (c->state == DEAD)
		pthread_cond_broadcast(&r->changed);
}

static void *work(void *arg)
{
	const struct worker *w = arg;
	struct rep *r = w->r;
	struct lane *l = &r->lane[w->lane];

	if (r->config.lane[w->lane].nice) /* 0: this thread; if not permitted, the priority stays */
		setpriority(PRIO_PROCESS, 0,
			    getpriority(PRIO_PROCESS, 0) + r->config.lane[w->lane].nice);
	pthread_mutex_lock(&r->lock);
	while (!r->closing) {
		struct seat *next = l->free_count ? senders_next(r->senders, w->lane) : NULL;

		if (next)
			run(r, connection_of(next), w->lane);
		else
			pthread_cond_wait(&l->wake, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- steps ---- */

static void on_sent(struct connection *c)
{
	c->sent += nng_aio_count(c->aio);
	if (c->sent < c->out_bytes) {
		go(c, c->state, c->state == GREET ? GREETING_MS : ANSWER_MS, c->out + c->sent,
		   c->out_bytes - c->sent);
		return;
	}
	free(c->out);
	c->out = NULL;
	touch(c);
	read_on(c);
}

static void on_read(struct connection *c)
{
	size_t bytes = nng_aio_count(c->aio);
	bool begins = c->sp.phase == SP_HEAD && !c->sp.got && bytes;

	if (sp_take(&c->sp, bytes)) {
		count(c->r, &c->r->stats.broken);
		bury(c);
		return;
	}
	if (begins || (c->sp.phase == SP_HEAD && !c->sp.got))
		touch(c);
	if (c->sp.phase == SP_MESSAGE)
		take_turn(c);
	else
		read_on(c);
}

static void on_aio(void *arg)
{
	struct connection *c = arg;
	int err = nng_aio_result(c->aio);

	if (err) {
		if (err == NNG_ETIMEDOUT)
			count(c->r, &c->r->stats.overdue);
		bury(c);
	} else if (c->state == READ) {
		on_read(c);
	} else {
		on_sent(c);
	}
}

void rep_answer(struct rep *r, struct rep_request *q, const void *data, size_t bytes)
{
	struct connection *c = (struct connection *)q;
	size_t hops = c->sp.hops_bytes, frame;
	uint8_t head[SP_FRAME_BYTES];
	struct lane *l = &r->lane[c->lane];

	frame = sp_frame(head, r->ipc, hops + bytes);
	c->out = bytes ? malloc(frame + hops + bytes) : NULL;
	c->out_bytes = frame + hops + bytes;
	c->sent = 0;
	if (c->out) {
		memcpy(c->out, head, frame);
		memcpy(c->out + frame, c->sp.body, hops);
		memcpy(c->out + frame + hops, data, bytes);
	}
	sp_next(&c->sp);
	pthread_mutex_lock(&r->lock);
	senders_charge(r->senders, &c->seat, c->lane, q->cost_ns);
	hold(c, 0);
	l->free_slots[l->free_count++] = q->slot;
	pthread_cond_signal(&l->wake);
	if (c->out)
		c->state = ANSWER; /* counts as an answer from now on */
	else
		bury_locked(c);
	pthread_mutex_unlock(&r->lock);
	if (c->out)
		go(c, ANSWER, ANSWER_MS, c->out, c->out_bytes);
}

/* ---- new connections ---- */

/* False: not TCP. */
static bool address_of(nng_stream *stream, const char *option, union peer_address *out)
{
	nng_sockaddr a;

	memset(out, 0, sizeof(*out));
	if (nng_stream_get_addr(stream, option, &a))
		return false;
	if (a.s_family == NNG_AF_INET) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = a.s_in.sa_port;
		out->v4.sin_addr.s_addr = a.s_in.sa_addr;
	} else if (a.s_family == NNG_AF_INET6) {
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = a.s_in6.sa_port;
		memcpy(&out->v6.sin6_addr, a.s_in6.sa_addr, sizeof(out->v6.sin6_addr));
	}
	return out->any.ss_family != AF_UNSPEC;
}

static struct peer_key sender_of(nng_stream *stream)
{
	struct peer_key k = {.kind = AF_UNSPEC};
	union peer_address peer, own;
	uint64_t uid;

	if (!nng_stream_get_uint64(stream, NNG_OPT_IPC_PEER_UID, &uid))
		return (struct peer_key){PEER_USER, uid};
	if (address_of(stream, NNG_OPT_REMADDR, &peer) && address_of(stream, NNG_OPT_LOCADDR, &own))
		peer_key_between(&k, &peer, &own);
	return k;
}

static void greet(struct rep *r, nng_stream *stream)
{
	struct peer_key key = sender_of(stream);
	struct connection *c = calloc(1, sizeof(*c));
	bool seated = false;

	if (c && !nng_aio_alloc(&c->aio, on_aio, c))
		c->out = malloc(SP_GREETING_BYTES);
	if (c && c->out) {
		pthread_mutex_lock(&r->lock);
		seated = !senders_sit(r->senders, &c->seat, key);
		pthread_mutex_unlock(&r->lock);
	}
	if (!seated) {
		if (c && c->aio)
			nng_aio_free(c->aio);
		free(c ? c->out : NULL);
		free(c);
		nng_stream_free(stream);
		return;
	}
	c->r = r;
	c->stream = stream;
	pthread_mutex_init(&c->lock, NULL);
	sp_init(&c->sp, r->ipc, r->config.message_max_bytes);
	sp_greeting(c->out);
	c->out_bytes = SP_GREETING_BYTES;
	c->since_ns = c->request.connected_ns = clock_monotonic_ns();
	c->request.sender = keyed_words(keyed_process(), key.value, key.kind);
	pthread_mutex_lock(&r->lock);
	c->closed = r->closing; /* rep_close has already closed all that were there */
	c->request.connection = ++r->stats.accepted;
	if (r->stats.connections++ >= r->config.connection_max)
		make_place(r, c->seat.sender);
	pthread_mutex_unlock(&r->lock);
	go(c, GREET, GREETING_MS, c->out, SP_GREETING_BYTES);
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
	/* An eighth above the limit, because none was idle. The rest wait in the kernel. */
	full = err || r->stats.connections >= r->config.connection_max / 8 * 9ull;
	if (full)
		make_place(r, NULL);
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
	/* Detects a node that lost its power; ipc has no such option. */
	if (nng_stream_listener_set_bool(r->listener, NNG_OPT_TCP_KEEPALIVE, true) && !r->ipc)
		return NNG_ENOTSUP;
	return nng_stream_listener_listen(r->listener);
}

static int open_lane(struct rep *r, int lane, uint32_t *slots)
{
	const struct rep_lane *config = &r->config.lane[lane];
	struct lane *l = &r->lane[lane];

	l->worker = (struct worker){r, lane};
	l->free_slots = calloc(config->slots, sizeof(*l->free_slots));
	l->threads = calloc(config->threads, sizeof(*l->threads));
	if (!l->free_slots || !l->threads)
		return NNG_ENOMEM;
	while (l->free_count < config->slots)
		l->free_slots[l->free_count++] = (*slots)++;
	for (; l->thread_count < config->threads; l->thread_count++)
		if (pthread_create(&l->threads[l->thread_count], NULL, work, &l->worker))
			return NNG_ENOMEM;
	return 0;
}

int rep_open(struct rep **out, const struct rep_config *config, rep_request_fn fn, void *arg)
{
	struct rep *r = calloc(1, sizeof(*r));
	uint32_t slots = 0;
	int err;

	if (!r)
		return NNG_ENOMEM;
	r->config = *config;
	r->fn = fn;
	r->arg = arg;
	r->ipc = !strncmp(config->url, "ipc:", 4);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	for (int i = 0; i < SENDERS_LANES; i++)
		pthread_cond_init(&r->lane[i].wake, NULL);
	err = senders_open(&r->senders) ? NNG_ENOMEM : 0;
	for (int i = 0; i < SENDERS_LANES && !err; i++)
		err = open_lane(r, i, &slots);
	if (!err)
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
	bool yes;

	pthread_mutex_lock(&r->lock);
	yes = r->answers > 0;
	pthread_mutex_unlock(&r->lock);
	return yes;
}

static void hang_up_seat(struct seat *s)
{
	struct connection *c = connection_of(s);

	if (c->state != DEAD)
		hang_up(c);
}

/* Under rep.lock. Waiting connections have no operation that could end, so bury them. */
static void hang_up_all(struct rep *r)
{
	struct seat *s;

	for (int i = 0; i < SENDERS_LANES; i++)
		while ((s = senders_next(r->senders, i)))
			bury_locked(connection_of(s));
	senders_each(r->senders, hang_up_seat);
	pthread_cond_broadcast(&r->changed);
}

void rep_close(struct rep *r, uint32_t grace_ms)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->closing = true;
	for (int i = 0; i < SENDERS_LANES; i++)
		pthread_cond_broadcast(&r->lane[i].wake);
	pthread_mutex_unlock(&r->lock);
	if (r->listener)
		nng_stream_listener_close(r->listener);
	if (r->accept)
		nng_aio_stop(r->accept);
	for (int i = 0; i < SENDERS_LANES; i++)
		for (uint32_t k = 0; k < r->lane[i].thread_count; k++)
			pthread_join(r->lane[i].threads[k], NULL);
	for (; grace_ms && has_answers(r); grace_ms--)
		usleep(1000);
	pthread_mutex_lock(&r->lock);
	if (r->senders)
		hang_up_all(r);
	pthread_mutex_unlock(&r->lock);
	if (r->thread_started)
		pthread_join(r->thread, NULL);
	nng_aio_free(r->accept);
	if (r->listener)
		nng_stream_listener_free(r->listener);
	senders_close(r->senders);
	for (int i = 0; i < SENDERS_LANES; i++) {
		free(r->lane[i].free_slots);
		free(r->lane[i].threads);
		pthread_cond_destroy(&r->lane[i].wake);
	}
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

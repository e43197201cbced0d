/* SPDX-License-Identifier: Apache-2.0
 * docs/decisions/0032-rep.md says why we do not use nng's own REP. Here a connection has one
 * operation at a time, so closing it races with nothing.
 *
 * A connection's life: with TLS the handshake, then greet, read a message, wait for its turn,
 * handle, answer, and read again. Every step has a deadline, except waiting for a message's first
 * byte. nng's threads only receive and send; work runs on the threads of a lane, in the order that
 * senders.h gives. So does each step of a handshake: a storm of dials delays nobody's messages.
 * Locks: rep.lock, then connection.lock. nng runs callbacks on its own threads, never from within a
 * call; it never ends an operation on a closed stream, so none is started there. */
#include "aggregator/rep.h"

#include <arpa/inet.h>
#include <errno.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include "wire/link/sp.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/daemon/peer.h"
#include "base/keyed.h"

#define GREETING_MS	5000
#define MESSAGE_MS	60000
#define ANSWER_MS	30000
#define ACCEPT_AGAIN_MS 20
/* Gives a refused peer time to read the reason before the connection is reset. */
#define DOOMED_MS 1000
/* A connection silent for less than this is slow, not idle. */
#define IDLE_NS 1000000000ull

enum state { SHAKE, GREET, READ, WAIT, HANDLE, ANSWER, DOOMED, DEAD };
enum progress { STARTED, DONE, FAILED };

struct connection {
	struct rep_request request; /* first: rep_answer gets this pointer */
	struct rep *r;
	struct sender_connection entry;
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
	struct tls_session *tls; /* NULL: plain */
	/* the operation of the state: what to receive or send, until when (0: no limit) */
	void *data;
	size_t bytes;
	uint64_t by_ns;
	bool sending;	    /* what nng does now */
	bool shaking;	    /* waits for the lane of handshakes */
	uint64_t queued_ns; /* since then */
	size_t in_records;  /* of data: TLS has taken them, and they are being sent */
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

static struct connection *connection_of(struct sender_connection *s)
{
	return (struct connection *)(void *)((char *)s - offsetof(struct connection, entry));
}

/* ---- the end of a connection ---- */

/* Under rep.lock. Sets the memory that its messages use now. */
static void hold(struct connection *c, size_t bytes)
{
	c->r->buffer_bytes += bytes - c->entry.bytes;
	senders_hold(c->r->senders, &c->entry, bytes);
}

/* Under rep.lock. Call when no operation is in progress; its request function may still run. */
static void bury_locked(struct connection *c)
{
	struct rep *r = c->r;

	r->stats.waiting -= c->state == WAIT;
	r->answers -= c->state == HANDLE || c->state == ANSWER;
	senders_cancel(r->senders, &c->entry);
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
	/* A deadline may have passed just as the operation ended: then nng cancels it once more, on
	 * the stream. Only nng_aio_free waits for that. */
	nng_aio_free(c->aio);
	if (c->stream)
		nng_stream_free(c->stream);
	tls_session_close(c->tls);
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
			senders_remove(r->senders, &c->entry);
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
	struct sender *most = senders_most_connections(r->senders);
	bool busy_too = most && most->connections > (newcomer ? newcomer->connections : 1);
	uint64_t now_ns = clock_monotonic_ns();
	struct sender_connection *s;

	if (!most)
		return;
	TAILQ_FOREACH (s, &most->by_age, next) {
		struct connection *c = connection_of(s);

		if (!busy_too && now_ns - c->since_ns < IDLE_NS)
			return;
		if ((c->state != READ && (c->state != WAIT || c->shaking || !busy_too)) ||
		    c->closed)
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
		struct sender_connection *s;

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

/* Enters the state; advance() does its operation. */
static void go(struct connection *c, enum state state, nng_duration limit_ms, void *data,
	       size_t bytes)
{
	pthread_mutex_lock(&c->r->lock);
	c->r->answers -= c->state == ANSWER && state != ANSWER;
	c->state = state;
	pthread_mutex_unlock(&c->r->lock);
	c->data = data;
	c->bytes = bytes;
	c->by_ns = limit_ms == NNG_DURATION_INFINITE
		       ? 0
		       : clock_monotonic_ns() + (uint64_t)limit_ms * 1000000;
}

/* Starts nng's operation; its callback continues. */
static enum progress start(struct connection *c, bool send, void *data, size_t bytes)
{
	uint64_t now_ns = clock_monotonic_ns();
	nng_duration limit = !c->by_ns		 ? NNG_DURATION_INFINITE
			     : c->by_ns > now_ns ? (nng_duration)((c->by_ns - now_ns) / 1000000) + 1
						 : 1;
	nng_iov iov = {data, bytes};
	bool closed;

	pthread_mutex_lock(&c->lock);
	closed = c->closed;
	if (!closed) {
		c->sending = send;
		nng_aio_set_timeout(c->aio, limit);
		nng_aio_set_iov(c->aio, 1, &iov);
		if (send)
			nng_stream_send(c->stream, c->aio);
		else
			nng_stream_recv(c->stream, c->aio);
	}
	pthread_mutex_unlock(&c->lock);
	return closed ? FAILED : STARTED;
}

/* ---- TLS ---- */

static bool address_of(nng_stream *stream, const char *option, union peer_address *out);

static void log_refusal(struct connection *c)
{
	char host[INET6_ADDRSTRLEN] = "?";
	union peer_address a;

	if (address_of(c->stream, NNG_OPT_REMADDR, &a))
		inet_ntop(a.any.ss_family,
			  a.any.ss_family == AF_INET ? (void *)&a.v4.sin_addr
						     : (void *)&a.v6.sin6_addr,
			  host, sizeof(host));
	log_warn("refused", "peer=%s name=%s reason=%s why=\"%s\"", host, tls_session_peer(c->tls),
		 tls_fault_name(tls_session_fault(c->tls)), tls_session_why(c->tls));
}

/* Refuses the peer; it may still read why. */
static void doom(struct connection *c)
{
	count(c->r, &c->r->stats.refused[tls_session_fault(c->tls)]);
	log_refusal(c);
	go(c, DOOMED, DOOMED_MS, NULL, 0);
}

/* One step of the state's operation. done: bytes of it. */
static enum progress step_tls(struct connection *c, size_t *done)
{
	size_t bytes;
	void *at;
	ssize_t n;

	if (tls_session_out(c->tls, &at, &bytes))
		return start(c, true, at, bytes);
	if (c->in_records) {
		*done = c->in_records;
		c->in_records = 0;
		return DONE;
	}
	n = c->state == DOOMED	? -EAGAIN
	    : c->state == SHAKE ? tls_session_shake(c->tls)
	    : c->state == READ	? tls_session_read(c->tls, c->data, c->bytes)
				: tls_session_write(c->tls, c->data, c->bytes);
	if (n == -EPROTO) {
		doom(c);
		return step_tls(c, done);
	}
	if (n > 0 && c->state != READ) {
		c->in_records = (size_t)n;
		return step_tls(c, done);
	}
	if (n == 0 && c->state == READ)
		return FAILED; /* the peer has closed */
	*done = n < 0 ? 0 : (size_t)n;
	if (n >= 0)
		return DONE;
	if (tls_session_out(c->tls, &at, &bytes))
		return start(c, true, at, bytes);
	tls_session_room(c->tls, &at, &bytes);
	return start(c, false, at, bytes);
}

static bool on_done(struct connection *c, size_t bytes);

/* Does operations until one waits for the peer or for a turn. Afterwards c may be another
 * thread's. */
static void advance(struct connection *c)
{
	for (;;) {
		size_t done = 0;
		enum progress p =
		    c->tls ? step_tls(c, &done) : start(c, c->state != READ, c->data, c->bytes);

		if (p == STARTED)
			return;
		if (p == FAILED) {
			bury(c);
			return;
		}
		if (!on_done(c, done))
			return;
	}
}

/* Notes a new phase: the connection becomes its sender's youngest. */
static void touch(struct connection *c)
{
	pthread_mutex_lock(&c->r->lock);
	c->since_ns = clock_monotonic_ns();
	senders_touch(&c->entry);
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

/* Reads the next part of a message. False: c is buried. */
static bool read_on(struct connection *c)
{
	nng_duration limit = limit_of(c);
	uint8_t *at = NULL;
	size_t bytes = 0;
	bool good = true;

	if (!limit)
		count(c->r, &c->r->stats.overdue);
	if (!limit || sp_room(&c->sp, &at, &bytes)) {
		bury(c);
		return false;
	}
	if (c->sp.capacity != c->entry.bytes) {
		pthread_mutex_lock(&c->r->lock);
		hold(c, c->sp.capacity);
		good = make_room(c);
		pthread_mutex_unlock(&c->r->lock);
	}
	if (good)
		go(c, READ, limit, at, bytes);
	else
		bury(c);
	return good;
}

/* ---- turns ---- */

/* Queues c for the lane. */
static void queue(struct connection *c, int lane)
{
	struct rep *r = c->r;

	pthread_mutex_lock(&r->lock);
	if (r->closing || c->closed) {
		bury_locked(c);
	} else {
		c->state = WAIT;
		r->stats.waiting++;
		senders_wait(r->senders, &c->entry, lane);
		pthread_cond_signal(&r->lane[lane].wake);
	}
	pthread_mutex_unlock(&r->lock);
}

/* Queues a complete message. */
static void take_turn(struct connection *c)
{
	c->request.body = c->sp.body + c->sp.hops_bytes;
	c->request.bytes = c->sp.got - c->sp.hops_bytes;
	c->request.cost_ns = 0;
	c->lane = c->r->config.lane_of(c->r->arg, c->request.body, c->request.bytes);
	queue(c, c->lane);
}

/* A step of a handshake is due. */
static void take_shake_turn(struct connection *c)
{
	pthread_mutex_lock(&c->r->lock);
	c->shaking = true;
	pthread_mutex_unlock(&c->r->lock);
	c->queued_ns = clock_monotonic_ns();
	queue(c, REP_LANE_SHAKE);
}

/* Under rep.lock, but releases it while the step is done. */
static void shake(struct rep *r, struct connection *c)
{
	uint64_t begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	c->state = SHAKE;
	c->shaking = false;
	c->busy++;
	r->stats.waiting--;
	pthread_mutex_unlock(&r->lock);
	c->by_ns += clock_monotonic_ns() - c->queued_ns; /* the peer did not take this time */
	advance(c);
	begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
	pthread_mutex_lock(&r->lock);
	senders_charge(r->senders, &c->entry, REP_LANE_SHAKE, begun_ns);
	c->busy--;
	if (c->state == DEAD)
		pthread_cond_broadcast(&r->changed);
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
	senders_charge(r->senders, &c->entry, lane, begun_ns);
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
		struct sender_connection *next = l->free_count || w->lane == REP_LANE_SHAKE
						     ? senders_next(r->senders, w->lane)
						     : NULL;

		if (next && w->lane == REP_LANE_SHAKE)
			shake(r, connection_of(next));
		else if (next)
			run(r, connection_of(next), w->lane);
		else
			pthread_cond_wait(&l->wake, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- steps: each returns whether another operation follows ---- */

/* From now on the sender is who the certificate names. */
static bool on_shaken(struct connection *c)
{
	struct rep *r = c->r;
	struct peer_key key = {PEER_NAME, keyed_text(keyed_process(), tls_session_peer(c->tls))};
	bool moved;

	pthread_mutex_lock(&r->lock);
	moved = !senders_move(r->senders, &c->entry, key);
	r->stats.shaken++;
	pthread_mutex_unlock(&r->lock);
	if (moved) /* else, out of memory, it stays its address */
		c->request.sender = keyed_words(keyed_process(), key.value, key.kind);
	c->request.tls = c->tls;
	touch(c);
	go(c, GREET, GREETING_MS, c->out, c->out_bytes);
	return true;
}

static bool on_sent(struct connection *c, size_t bytes)
{
	c->sent += bytes;
	if (c->sent < c->out_bytes) {
		go(c, c->state, c->state == GREET ? GREETING_MS : ANSWER_MS, c->out + c->sent,
		   c->out_bytes - c->sent);
		return true;
	}
	free(c->out);
	c->out = NULL;
	touch(c);
	return read_on(c);
}

static bool on_read(struct connection *c, size_t bytes)
{
	bool begins = c->sp.phase == SP_HEAD && !c->sp.got && bytes;

	if (sp_take(&c->sp, bytes)) {
		count(c->r, &c->r->stats.broken);
		bury(c);
		return false;
	}
	if (begins || (c->sp.phase == SP_HEAD && !c->sp.got))
		touch(c);
	if (c->sp.phase != SP_MESSAGE)
		return read_on(c);
	if (c->tls && tls_session_check(c->tls)) {
		doom(c);
		return true;
	}
	take_turn(c);
	return false;
}

static bool on_done(struct connection *c, size_t bytes)
{
	return c->state == SHAKE  ? on_shaken(c)
	       : c->state == READ ? on_read(c, bytes)
				  : on_sent(c, bytes);
}

/* Bytes of a doomed connection are ignored; it is only read to notice its end. */
static void on_bytes(struct connection *c, size_t bytes)
{
	if (!c->tls) {
		if (on_done(c, bytes))
			advance(c);
		return;
	}
	if (c->sending)
		tls_session_sent(c->tls, bytes);
	else if (c->state != DOOMED)
		tls_session_received(c->tls, bytes);
	if (c->state == SHAKE && !c->sending)
		take_shake_turn(c);
	else
		advance(c);
}

static void on_aio(void *arg)
{
	struct connection *c = arg;
	int err = nng_aio_result(c->aio);

	if (err) {
		if (err == NNG_ETIMEDOUT && c->state != DOOMED)
			count(c->r, &c->r->stats.overdue);
		bury(c);
	} else {
		on_bytes(c, nng_aio_count(c->aio));
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
	senders_charge(r->senders, &c->entry, c->lane, q->cost_ns);
	hold(c, 0);
	l->free_slots[l->free_count++] = q->slot;
	pthread_cond_signal(&l->wake);
	if (c->out)
		c->state = ANSWER; /* counts as an answer from now on */
	else
		bury_locked(c);
	pthread_mutex_unlock(&r->lock);
	if (!c->out)
		return;
	go(c, ANSWER, ANSWER_MS, c->out, c->out_bytes);
	advance(c);
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
	bool added = false;

	if (c && !nng_aio_alloc(&c->aio, on_aio, c))
		c->out = malloc(SP_GREETING_BYTES);
	if (c && c->out) {
		pthread_mutex_lock(&r->lock);
		added = !senders_add(r->senders, &c->entry, key);
		pthread_mutex_unlock(&r->lock);
	}
	if (added && r->config.tls && !r->ipc && tls_session_open(&c->tls, r->config.tls, NULL)) {
		pthread_mutex_lock(&r->lock);
		senders_remove(r->senders, &c->entry);
		pthread_mutex_unlock(&r->lock);
		added = false;
	}
	if (!added) {
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
	sp_init(&c->sp, SP_ASKS, r->ipc, r->config.message_max_bytes);
	sp_greeting(c->out, SP_REPLIES);
	c->out_bytes = SP_GREETING_BYTES;
	c->since_ns = c->request.connected_ns = clock_monotonic_ns();
	c->request.sender = keyed_words(keyed_process(), key.value, key.kind);
	pthread_mutex_lock(&r->lock);
	c->closed = r->closing; /* rep_close has already closed all that were there */
	c->request.connection = ++r->stats.accepted;
	if (r->stats.connections++ >= r->config.connection_max)
		make_place(r, c->entry.sender);
	pthread_mutex_unlock(&r->lock);
	go(c, c->tls ? SHAKE : GREET, GREETING_MS, c->out, SP_GREETING_BYTES);
	advance(c);
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
	int err = nng_stream_listener_alloc(
	    &r->listener, strncmp(r->config.url, "tls+", 4) ? r->config.url : r->config.url + 4);

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

static void hang_up_one(struct sender_connection *s)
{
	struct connection *c = connection_of(s);

	if (c->state != DEAD)
		hang_up(c);
}

/* Under rep.lock. Waiting connections have no operation that could end, so bury them. */
static void hang_up_all(struct rep *r)
{
	struct sender_connection *s;

	for (int i = 0; i < SENDERS_LANES; i++)
		while ((s = senders_next(r->senders, i)))
			bury_locked(connection_of(s));
	senders_each(r->senders, hang_up_one);
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

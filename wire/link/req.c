/* SPDX-License-Identifier: Apache-2.0
 * One lock guards everything. nng's callbacks take it, change the state, and start what is next:
 * pump() is the one place that moves bytes. A stream is freed when no operation on it is left; then we
 * dial again. */
#include "wire/link/req.h"

#include <errno.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/text/text.h"
#include "wire/link/sp.h"

#define CONNECT_MS    30000 /* each step until both have greeted: a busy server queues us */
#define MESSAGE_MS    60000 /* between two pieces of an answer */
#define HOST_BYTES    256u
#define ID_BYTES      4u
#define OUT_BYTES_MAX (64u << 20) /* the codec bounds messages */

enum state { REST, DIAL, UP /* there is a stream */ };

struct req {
	struct req_config config;
	char url[TLS_PATH_BYTES], host[HOST_BYTES];
	bool ipc, closing;
	pthread_mutex_t lock;
	pthread_cond_t more;
	nng_stream_dialer *dialer;
	nng_aio *control, *in, *out; /* dials and rests; receives; sends */
	enum state state;
	uint32_t again_ms;
	char why[TLS_WHY_BYTES];
	bool by_tls; /* why is from TLS */
	/* of the stream */
	nng_stream *stream;
	bool ended, receiving, sending, shaken, greeted;
	struct tls_session *tls;
	struct sp sp;
	uint8_t *at;	 /* where a plain receive puts its bytes */
	struct buf wire; /* plain bytes to be sent */
	size_t wire_at;
	uint32_t last_id;
	uint32_t id; /* of the request whose answer is missing; 0: none */
	bool answered;
};

static void pump(struct req *r);

/* ---- the end of a connection, and the next one ---- */

/* Under lock. Rests for a random part of the delay, then dials. */
static void rest(struct req *r)
{
	uint32_t dice = 0;

	r->state = REST;
	if (r->closing)
		return;
	if (getrandom(&dice, sizeof(dice), GRND_NONBLOCK) != (ssize_t)sizeof(dice))
		dice = (uint32_t)clock_ticks();
	nng_sleep_aio((nng_duration)(1 + dice % r->again_ms), r->control);
	r->again_ms =
	    2 * r->again_ms < r->config.again_max_ms ? 2 * r->again_ms : r->config.again_max_ms;
}

/* Under lock. Frees the stream when nothing uses it any more. */
static void settle(struct req *r)
{
	if (!r->ended || r->receiving || r->sending)
		return;
	nng_stream_free(r->stream);
	r->stream = NULL;
	tls_session_close(r->tls);
	r->tls = NULL;
	sp_fini(&r->sp);
	buf_fini(&r->wire);
	rest(r);
}

/* Under lock. Ends the connection; settle() follows with the last callback. */
static void end(struct req *r, const char *why)
{
	bool was = r->greeted && !r->ended;

	if (r->ended)
		return;
	r->ended = true;
	if (why) {
		text_copy(r->why, sizeof(r->why), why);
		r->by_tls = false;
	}
	nng_stream_close(r->stream);
	pthread_cond_broadcast(&r->more);
	if (was)
		r->config.changed(r->config.arg, false);
}

static void end_by_tls(struct req *r)
{
	char why[TLS_WHY_BYTES];

	if (r->ended)
		return;
	snprintf(why, sizeof(why), "TLS: %.300s", tls_session_why(r->tls));
	end(r, why);
	r->by_tls = true;
}

/* ---- bytes ---- */

/* Under lock. What was received, through TLS or not. */
static void take(struct req *r, size_t bytes)
{
	const uint8_t *head = r->sp.head;

	if (sp_take(&r->sp, bytes)) {
		end(r, r->greeted ? "it sent something that is not an answer"
		       : head[0] == 0x15 || head[0] == 0x16
			   ? "it wants TLS; set tls.cert, tls.key and tls.ca"
			   : "it does not speak nng's REP");
		return;
	}
	if (!r->greeted && r->sp.phase != SP_GREETING) {
		r->greeted = true;
		r->again_ms = r->config.again_min_ms;
		r->why[0] = '\0';
		r->config.changed(r->config.arg, true);
	}
	if (r->sp.phase != SP_MESSAGE)
		return;
	if (r->id && r->sp.hops_bytes == ID_BYTES &&
	    !memcmp(r->sp.body,
		    (uint8_t[]){(uint8_t)(r->id >> 24), (uint8_t)(r->id >> 16),
				(uint8_t)(r->id >> 8), (uint8_t)r->id},
		    ID_BYTES)) {
		r->id = 0;
		r->answered = true;
		pthread_cond_broadcast(&r->more);
	} else {
		sp_next(&r->sp); /* late, or nobody's */
	}
}

static void start(struct req *r, nng_aio *aio, void *data, size_t bytes)
{
	bool idle = r->greeted && r->sp.phase == SP_HEAD && !r->sp.got;
	nng_iov iov = {data, bytes};

	nng_aio_set_timeout(aio, aio == r->out ? MESSAGE_MS
				 : !r->greeted ? CONNECT_MS
				 : idle	       ? NNG_DURATION_INFINITE
					       : MESSAGE_MS);
	nng_aio_set_iov(aio, 1, &iov);
	if (aio == r->out) {
		r->sending = true;
		nng_stream_send(r->stream, aio);
	} else {
		r->receiving = true;
		nng_stream_recv(r->stream, aio);
	}
}

/* Under lock. Decrypts what there is. */
static void pump_in(struct req *r)
{
	while (!r->ended && r->shaken && r->sp.phase != SP_MESSAGE) {
		size_t bytes;
		ssize_t n;

		if (sp_room(&r->sp, &r->at, &bytes)) {
			end(r, "out of memory");
			return;
		}
		n = tls_session_read(r->tls, r->at, bytes);
		if (n == -EAGAIN)
			return;
		if (n > 0)
			take(r, (size_t)n);
		else if (n == 0)
			end(r, "it closed the connection");
		else
			end_by_tls(r);
	}
}

/* Under lock. Moves bytes until both directions wait for nng. */
static void pump_tls(struct req *r)
{
	size_t bytes;
	void *at;
	int err = r->shaken ? 0 : tls_session_shake(r->tls);

	if (err == -EPROTO && !tls_session_out(r->tls, &at, &bytes)) {
		end_by_tls(r);
		return;
	}
	r->shaken |= !err;
	pump_in(r);
	if (r->ended || r->sending)
		return;
	if (r->shaken && !tls_session_out(r->tls, &at, &bytes) && r->wire_at < r->wire.bytes) {
		ssize_t n = tls_session_write(r->tls, r->wire.data + r->wire_at,
					      r->wire.bytes - r->wire_at);

		if (n < 0) {
			end_by_tls(r);
			return;
		}
		r->wire_at += (size_t)n;
	}
	if (tls_session_out(r->tls, &at, &bytes))
		start(r, r->out, at, bytes);
	if (r->receiving || err == -EPROTO)
		return;
	tls_session_room(r->tls, &at, &bytes);
	if (bytes)
		start(r, r->in, at, bytes);
}

static void pump(struct req *r)
{
	size_t bytes;

	if (r->ended)
		return;
	if (r->tls) {
		pump_tls(r);
		return;
	}
	if (!r->sending && r->wire_at < r->wire.bytes)
		start(r, r->out, r->wire.data + r->wire_at, r->wire.bytes - r->wire_at);
	if (r->receiving || r->sp.phase == SP_MESSAGE)
		return;
	if (sp_room(&r->sp, &r->at, &bytes))
		end(r, "out of memory");
	else
		start(r, r->in, r->at, bytes);
}

static void on_in(void *arg)
{
	struct req *r = arg;
	int err = nng_aio_result(r->in);
	size_t bytes = nng_aio_count(r->in);

	pthread_mutex_lock(&r->lock);
	r->receiving = false;
	if (err)
		end(r, err == NNG_ECONNSHUT && !r->greeted ? "it hung up before it greeted"
							   : nng_strerror(err));
	else if (r->tls)
		tls_session_received(r->tls, bytes);
	else
		take(r, bytes);
	pump(r);
	settle(r);
	pthread_mutex_unlock(&r->lock);
}

static void on_out(void *arg)
{
	struct req *r = arg;
	int err = nng_aio_result(r->out);
	size_t bytes = nng_aio_count(r->out);

	pthread_mutex_lock(&r->lock);
	r->sending = false;
	/* What the peer sent before it hung up may say why; receiving brings it. */
	if (err && (!r->receiving || err == NNG_ETIMEDOUT))
		end(r, nng_strerror(err));
	else if (!err && r->tls)
		tls_session_sent(r->tls, bytes);
	else if (!err)
		r->wire_at += bytes;
	if (!err)
		pump(r);
	settle(r);
	pthread_mutex_unlock(&r->lock);
}

/* Under lock. The stream is new. */
static void begin(struct req *r, nng_stream *stream)
{
	uint8_t hello[SP_GREETING_BYTES];
	int err = 0;

	r->state = UP;
	r->stream = stream;
	r->ended = r->shaken = r->greeted = r->answered = false;
	r->id = 0;
	sp_init(&r->sp, SP_REPLIES, r->ipc, r->config.answer_max_bytes);
	buf_init(&r->wire, OUT_BYTES_MAX);
	r->wire_at = 0;
	sp_greeting(hello, SP_ASKS);
	buf_append(&r->wire, hello, sizeof(hello));
	if (r->config.tls && !r->ipc)
		err =
		    tls_session_open(&r->tls, r->config.tls,
				     r->config.name && *r->config.name ? r->config.name : r->host);
	if (err == -ENOENT)
		end(r, "this node has no usable certificate: see the log");
	else if (err || r->wire.failed)
		end(r, "out of memory");
	pump(r);
	settle(r);
}

static void on_control(void *arg)
{
	struct req *r = arg;
	int err = nng_aio_result(r->control);

	pthread_mutex_lock(&r->lock);
	if (r->closing) {
		if (!err && r->state == DIAL)
			nng_stream_free(nng_aio_get_output(r->control, 0));
	} else if (r->state == REST) {
		r->state = DIAL;
		nng_aio_set_timeout(r->control, CONNECT_MS);
		nng_stream_dialer_dial(r->dialer, r->control);
	} else if (err) {
		text_copy(r->why, sizeof(r->why), nng_strerror(err));
		r->by_tls = false;
		rest(r);
	} else {
		begin(r, nng_aio_get_output(r->control, 0));
	}
	pthread_mutex_unlock(&r->lock);
}

/* ---- the caller's side ---- */

static void read_url(struct req *r, const char *url)
{
	const char *host = strstr(url, "://") + 3, *colon = strrchr(host, ':');
	size_t bytes = colon ? (size_t)(colon - host) : strlen(host);

	r->ipc = !strncmp(url, "ipc:", 4);
	text_copy(r->url, sizeof(r->url), strncmp(url, "tls+", 4) ? url : url + 4);
	if (bytes > 1 && *host == '[' && host[bytes - 1] == ']') {
		host++;
		bytes -= 2;
	}
	snprintf(r->host, sizeof(r->host), "%.*s", (int)bytes, host);
}

int req_open(struct req **out, const struct req_config *c)
{
	struct req *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->config = *c;
	r->again_ms = c->again_min_ms;
	pthread_mutex_init(&r->lock, NULL);
	cond_init_monotonic(&r->more);
	read_url(r, c->url);
	err = nng_stream_dialer_alloc(&r->dialer, r->url);
	if (!err && !r->ipc)
		nng_stream_dialer_set_bool(r->dialer, NNG_OPT_TCP_KEEPALIVE, true);
	if (!err)
		err = nng_aio_alloc(&r->control, on_control, r);
	if (!err)
		err = nng_aio_alloc(&r->in, on_in, r);
	if (!err)
		err = nng_aio_alloc(&r->out, on_out, r);
	if (err) {
		req_close(r);
		return err == NNG_ENOMEM ? -ENOMEM : -EINVAL;
	}
	*out = r;
	r->state = DIAL;
	nng_aio_set_timeout(r->control, CONNECT_MS);
	nng_stream_dialer_dial(r->dialer, r->control);
	return 0;
}

void req_close(struct req *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->closing = r->ended = true;
	if (r->stream)
		nng_stream_close(r->stream);
	pthread_mutex_unlock(&r->lock);
	if (r->dialer)
		nng_stream_dialer_close(r->dialer);
	/* After each of these its callback does not run any more. */
	if (r->control)
		nng_aio_stop(r->control);
	if (r->in)
		nng_aio_stop(r->in);
	if (r->out)
		nng_aio_stop(r->out);
	/* nng may still cancel an operation whose deadline has passed; nng_aio_free waits for that. */
	nng_aio_free(r->control);
	nng_aio_free(r->in);
	nng_aio_free(r->out);
	if (r->stream) {
		nng_stream_free(r->stream);
		tls_session_close(r->tls);
		sp_fini(&r->sp);
		buf_fini(&r->wire);
	}
	if (r->dialer)
		nng_stream_dialer_free(r->dialer);
	pthread_cond_destroy(&r->more);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static bool is_up(const struct req *r)
{
	return r->stream && r->greeted && !r->ended && !r->closing;
}

int req_send(struct req *r, const void *data, size_t bytes)
{
	uint8_t frame[SP_FRAME_BYTES], id[ID_BYTES];
	int err = -ENOTCONN;
	size_t n;

	pthread_mutex_lock(&r->lock);
	if (is_up(r)) {
		if (r->sp.phase == SP_MESSAGE)
			sp_next(&r->sp);
		r->answered = false;
		r->id = ++r->last_id | 0x80000000u;
		for (size_t i = 0; i < ID_BYTES; i++)
			id[i] = (uint8_t)(r->id >> (24 - 8 * i));
		n = sp_frame(frame, r->ipc, ID_BYTES + bytes);
		if (r->wire_at == r->wire.bytes && !r->sending) {
			buf_fini(&r->wire);
			buf_init(&r->wire, OUT_BYTES_MAX);
			r->wire_at = 0;
		}
		buf_append(&r->wire, frame, n);
		buf_append(&r->wire, id, ID_BYTES);
		buf_append(&r->wire, data, bytes);
		err = r->wire.failed ? -ENOMEM : 0;
		if (err)
			end(r, "out of memory");
		pump(r);
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

int req_receive(struct req *r, uint32_t wait_ms, const void **body, size_t *bytes)
{
	struct timespec until = clock_timespec(clock_monotonic_ns() + wait_ms * 1000000ull);
	int err = 0;

	pthread_mutex_lock(&r->lock);
	while (!r->answered && is_up(r) && !err)
		err = pthread_cond_timedwait(&r->more, &r->lock, &until);
	if (r->answered && is_up(r)) {
		*body = r->sp.body + r->sp.hops_bytes;
		*bytes = r->sp.got - r->sp.hops_bytes;
		err = 0;
	} else {
		err = is_up(r) ? -ETIMEDOUT : -ENOTCONN;
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

void req_tend(struct req *r)
{
	pthread_mutex_lock(&r->lock);
	if (is_up(r) && r->tls && !r->id) {
		int err = tls_session_check(r->tls);

		if (err == -ESTALE)
			end(r, "new certificates: it connects again");
		else if (err)
			end_by_tls(r);
		settle(r);
	}
	pthread_mutex_unlock(&r->lock);
}

bool req_why(struct req *r, char *out, size_t bytes)
{
	bool by_tls;

	pthread_mutex_lock(&r->lock);
	text_copy(out, bytes, r->why);
	by_tls = *out && r->by_tls;
	pthread_mutex_unlock(&r->lock);
	return by_tls;
}

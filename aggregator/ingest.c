/* SPDX-License-Identifier: Apache-2.0
 * Each context is a small state machine on nng's threads: receive, (wait for the commit,) send. A
 * beat is answered at once. Decoding takes processor time and memory that a hostile peer can stretch,
 * so only as many threads as there are processors do it at a time. */
#include "aggregator/ingest.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/text.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"

#define DECODERS_MAX 8
/* nng counts its own header too. */
#define FRAME_BYTES 256
/* For the last replies to leave; a reply that is cut off only costs a resend. */
#define STOP_GRACE_MS 100

enum state { STATE_RECEIVE, STATE_COMMIT, STATE_SEND };

struct context {
	struct commit_item item; /* first: done gets this pointer */
	struct ingest *g;
	nng_ctx ctx;
	nng_aio *aio;
	nng_msg *msg; /* the request, while the committer has it */
	enum state state;
	bool have_ctx;
};

struct ingest {
	nng_socket socket;
	struct commit *commit;
	struct fleet *fleet;
	bool verify, have_socket;
	int stopping; /* atomic; a hint, no data hangs on it */
	sem_t decoders;
	pthread_mutex_t lock;
	struct ingest_stats stats; /* under lock */
	uint32_t context_count;
	struct context contexts[];
};

static void count(struct ingest *g, uint64_t *counter)
{
	pthread_mutex_lock(&g->lock);
	++*counter;
	pthread_mutex_unlock(&g->lock);
}

static void reply(struct context *x, const struct wire_reply *r)
{
	struct buf b;
	nng_msg *msg = NULL;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	if (wire_reply_encode(r, &b) || nng_msg_alloc(&msg, 0) ||
	    nng_msg_append(msg, b.data, b.bytes)) {
		/* no memory for an answer: the peer sends again */
		if (msg)
			nng_msg_free(msg);
		buf_fini(&b);
		x->state = STATE_RECEIVE;
		nng_ctx_recv(x->ctx, x->aio);
		return;
	}
	buf_fini(&b);
	x->state = STATE_SEND;
	nng_aio_set_msg(x->aio, msg);
	nng_ctx_send(x->ctx, x->aio);
}

static void reply_simple(struct context *x, enum wire_status status, const uint8_t *id,
			 const char *why)
{
	struct wire_reply *r = calloc(1, sizeof(*r));

	if (!r) {
		x->state = STATE_RECEIVE;
		nng_ctx_recv(x->ctx, x->aio);
		return;
	}
	r->status = status;
	if (id)
		memcpy(r->id, id, sizeof(r->id));
	text_copy(r->message, sizeof(r->message), why);
	reply(x, r);
	free(r);
}

static void on_committed(struct commit_item *item, enum wire_status status, const char *why)
{
	struct context *x = (struct context *)item;
	struct ingest *g = x->g;

	count(g, status == WIRE_OK	  ? &g->stats.windows_ok :
		 status == WIRE_DUPLICATE ? &g->stats.windows_duplicate :
					    &g->stats.windows_retry);
	nng_msg_free(x->msg);
	x->msg = NULL;
	reply_simple(x, status, item->digest.id, why);
}

static const char *why_rejected(int err)
{
	return err == -EMSGSIZE ? "over a limit" : err == -ENOMEM ? "out of memory" : "malformed";
}

static void handle_window(struct context *x, nng_msg *msg)
{
	struct ingest *g = x->g;
	size_t bytes = nng_msg_len(msg);
	struct window w;
	int err;

	sem_wait(&g->decoders);
	err = g->verify ? wire_window_decode(nng_msg_body(msg), bytes, &w) :
			  wire_window_decode_names(nng_msg_body(msg), bytes, &w);
	if (!err) {
		digest_make(&w, bytes, &x->item.digest);
		wire_window_free(&w);
	}
	sem_post(&g->decoders);
	if (err) {
		bool again = err == -ENOMEM;

		count(g, again ? &g->stats.windows_retry : &g->stats.windows_reject);
		log_warn("window", "status=%s bytes=%zu why=\"%s\"", again ? "retry" : "reject", bytes,
			 why_rejected(err));
		nng_msg_free(msg);
		reply_simple(x, again ? WIRE_RETRY : WIRE_REJECT, NULL, why_rejected(err));
		return;
	}
	x->msg = msg;
	x->item.body = nng_msg_body(msg);
	x->item.bytes = bytes;
	x->item.done = on_committed;
	x->state = STATE_COMMIT;
	err = __atomic_load_n(&g->stopping, __ATOMIC_RELAXED) ? -ESHUTDOWN :
								commit_push(g->commit, &x->item);
	if (err) {
		count(g, &g->stats.windows_retry);
		nng_msg_free(msg);
		x->msg = NULL;
		reply_simple(x, WIRE_RETRY, x->item.digest.id,
			     err == -ESHUTDOWN ? "shutting down" : "busy");
	}
}

static void handle_beat(struct context *x, nng_msg *msg)
{
	struct ingest *g = x->g;
	struct beat b;
	int err = wire_beat_decode(nng_msg_body(msg), nng_msg_len(msg), &b);

	nng_msg_free(msg);
	count(g, err ? &g->stats.beats_reject : &g->stats.beats_ok);
	if (err) {
		reply_simple(x, err == -ENOMEM ? WIRE_RETRY : WIRE_REJECT, NULL, why_rejected(err));
		return;
	}
	fleet_beat(g->fleet, &b, clock_monotonic_ns());
	wire_beat_free(&b);
	reply_simple(x, WIRE_OK, NULL, "");
}

static void handle(struct context *x, nng_msg *msg)
{
	struct ingest *g = x->g;
	int kind = wire_peek_kind(nng_msg_body(msg), nng_msg_len(msg));

	pthread_mutex_lock(&g->lock);
	g->stats.received_bytes += nng_msg_len(msg);
	pthread_mutex_unlock(&g->lock);
	switch (kind) {
	case WIRE_WINDOW:
		handle_window(x, msg);
		break;
	case WIRE_BEAT:
		handle_beat(x, msg);
		break;
	default:
		count(g, &g->stats.other_reject);
		nng_msg_free(msg);
		reply_simple(x, WIRE_REJECT, NULL, "not a message of this version");
	}
}

static void on_aio(void *arg)
{
	struct context *x = arg;
	int err = nng_aio_result(x->aio);

	if (x->state == STATE_SEND) {
		if (err)
			nng_msg_free(nng_aio_get_msg(x->aio));
		if (err == NNG_ECLOSED || err == NNG_ECANCELED)
			return;
		x->state = STATE_RECEIVE;
		nng_ctx_recv(x->ctx, x->aio);
		return;
	}
	if (err == NNG_ECLOSED || err == NNG_ECANCELED)
		return;
	if (err) {
		nng_ctx_recv(x->ctx, x->aio);
		return;
	}
	handle(x, nng_aio_get_msg(x->aio));
}

static int to_errno(int nng)
{
	switch (nng) {
	case 0:
		return 0;
	case NNG_EADDRINUSE:
		return -EADDRINUSE;
	case NNG_ENOMEM:
		return -ENOMEM;
	case NNG_EADDRINVAL:
	case NNG_EINVAL:
	case NNG_ENOTSUP:
		return -EINVAL;
	case NNG_EPERM:
		return -EPERM;
	default:
		return -EIO;
	}
}

static int listen_on(struct ingest *g, const char *url)
{
	nng_listener l;
	int err = nng_listener_create(&l, g->socket, url);

	if (!err)
		err = nng_listener_setopt_size(l, NNG_OPT_RECVMAXSZ,
					       LIMIT_WIRE_MESSAGE_BYTES + FRAME_BYTES);
	return err ? err : nng_listener_start(l, 0);
}

int ingest_open(struct ingest **out, const char *url, uint32_t contexts, bool verify,
		struct commit *commit, struct fleet *fleet)
{
	struct ingest *g = calloc(1, sizeof(*g) + contexts * sizeof(g->contexts[0]));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int err;

	if (!g)
		return -ENOMEM;
	g->commit = commit;
	g->fleet = fleet;
	g->verify = verify;
	pthread_mutex_init(&g->lock, NULL);
	sem_init(&g->decoders, 0, cpus < 1 ? 1 : cpus > DECODERS_MAX ? DECODERS_MAX : (unsigned)cpus);
	err = nng_rep0_open(&g->socket);
	g->have_socket = !err;
	for (uint32_t i = 0; i < contexts && !err; i++) {
		struct context *x = &g->contexts[i];

		x->g = g;
		err = nng_aio_alloc(&x->aio, on_aio, x);
		if (!err) {
			g->context_count++;
			err = nng_ctx_open(&x->ctx, g->socket);
			x->have_ctx = !err;
		}
	}
	if (!err)
		err = listen_on(g, url);
	for (uint32_t i = 0; i < g->context_count && !err; i++)
		nng_ctx_recv(g->contexts[i].ctx, g->contexts[i].aio);
	if (err) {
		log_error("listen", "url=%s why=\"%s\"", url, nng_strerror(err));
		ingest_close(g);
		return to_errno(err);
	}
	*out = g;
	return 0;
}

void ingest_stop(struct ingest *g)
{
	__atomic_store_n(&g->stopping, 1, __ATOMIC_RELAXED);
}

void ingest_close(struct ingest *g)
{
	if (!g)
		return;
	if (__atomic_load_n(&g->stopping, __ATOMIC_RELAXED))
		usleep(STOP_GRACE_MS * 1000);
	for (uint32_t i = 0; i < g->context_count; i++)
		nng_aio_stop(g->contexts[i].aio);
	if (g->have_socket)
		nng_close(g->socket);
	for (uint32_t i = 0; i < g->context_count; i++)
		nng_aio_free(g->contexts[i].aio);
	sem_destroy(&g->decoders);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

void ingest_stats(struct ingest *g, struct ingest_stats *out)
{
	pthread_mutex_lock(&g->lock);
	*out = g->stats;
	pthread_mutex_unlock(&g->lock);
}

/* SPDX-License-Identifier: Apache-2.0
 * A beat is answered at once, a window after its commit. A hostile peer can make the decoding of
 * windows take much CPU time and memory. So beats have their own lane. In the other lane, as many
 * threads as CPUs decode at lower priority, and senders take turns. A message's size limits what it
 * may unpack to (wire_window_decode_admitted). */
#include "aggregator/ingest.h"

#include <errno.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "aggregator/rep.h"
#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/limits.h"
#include "base/text/text.h"

#define BEAT_THREADS	 2u
#define BULK_THREADS_MAX 8u
/* Decoding windows yields to beats, the API and detection. */
#define BULK_NICE 5
/* For sending the last replies; a reply that is lost only costs a resend. */
#define STOP_GRACE_MS  1000
#define BEAT_BYTES_MAX ((size_t)LIMIT_BEAT_BYTES_PER_RANK * (LIMIT_NODE_PROCESSES + 1))

enum { LANE_BEATS, LANE_BULK };

/* One per slot of rep: a request being handled. */
struct context {
	struct commit_item item; /* first: done gets this pointer */
	struct ingest *g;
	struct rep_request *request;
};

struct ingest {
	struct rep *rep;
	struct tls *tls;
	struct commit *commit;
	struct fleet *fleet;
	bool verify;
	excerpt_name_fn name;
	void *name_arg;
	int stopping; /* atomic; a hint only: it orders no data */
	pthread_mutex_t lock;
	struct ingest_stats stats; /* under lock */
	struct context contexts[];
};

static void count(struct ingest *g, uint64_t *counter)
{
	pthread_mutex_lock(&g->lock);
	++*counter;
	pthread_mutex_unlock(&g->lock);
}

/* r NULL: out of memory for an answer; the peer sends again. */
static void send_reply(struct context *x, const struct wire_reply *r)
{
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	if (r && wire_reply_encode(r, &b))
		b.bytes = 0;
	rep_answer(x->g->rep, x->request, b.data, b.bytes);
	buf_fini(&b);
}

static void reply(struct context *x, enum wire_status status, const uint8_t *id, const char *why)
{
	struct wire_reply *r = calloc(1, sizeof(*r));

	if (r) {
		r->status = status;
		if (id)
			memcpy(r->id, id, sizeof(r->id));
		text_copy(r->message, sizeof(r->message), why);
	}
	send_reply(x, r);
	free(r);
}

/* The answer to a beat carries the node's commands. */
static void reply_commands(struct context *x, const struct beat *b)
{
	struct wire_reply *r = calloc(1, sizeof(*r));

	if (r)
		r->command_count = fleet_commands(x->g->fleet, b, r->commands, WIRE_COMMANDS_MAX);
	send_reply(x, r);
	free(r);
}

static void on_committed(struct commit_item *item, enum wire_status status, const char *why)
{
	struct context *x = (struct context *)item;
	struct ingest *g = x->g;

	count(g, status == WIRE_OK	    ? &g->stats.windows_ok
		 : status == WIRE_DUPLICATE ? &g->stats.windows_duplicate
					    : &g->stats.windows_retry);
	excerpt_drop(item->digest.excerpt);
	x->request->cost_ns = item->cost_ns;
	reply(x, status, item->digest.id, why);
}

static struct fleet_via via_of(const struct context *x)
{
	return (struct fleet_via){x->request->connection, x->request->connected_ns,
				  x->request->sender,
				  x->request->tls ? tls_session_peer(x->request->tls) : NULL};
}

static const char *why_rejected(int err)
{
	return err == -EMSGSIZE ? "over a limit"
	       : err == -ENOMEM ? "out of memory"
	       : err == -ERANGE ? "impossible times or rank"
				: "malformed";
}

/* With a certificate a node speaks only for itself. False: refused and answered. */
static bool speaks_for(struct context *x, const char *node)
{
	const struct tls_session *tls = x->request->tls;
	struct ingest *g = x->g;

	if (!tls || tls_session_names(tls, node))
		return true;
	count(g, &g->stats.foreign);
	log_warn("identity", "certificate=%s node=%s effect=\"refused\"", tls_session_peer(tls),
		 node);
	reply(x, WIRE_REJECT, NULL, "the node's name is not its certificate's");
	return false;
}

static void handle_window(struct context *x)
{
	struct ingest *g = x->g;
	const void *body = x->request->body;
	size_t bytes = x->request->bytes;
	enum fleet_word word;
	struct window w;
	int err;

	err = wire_window_decode_admitted(body, bytes, g->verify, &w);
	if (!err && !digest_is_sound(&w)) {
		wire_window_free(&w);
		err = -ERANGE;
		count(g, &g->stats.windows_unsound);
	}
	if (!err && !speaks_for(x, w.rank.node)) {
		wire_window_free(&w);
		count(g, &g->stats.windows_reject);
		return;
	}
	if (!err) {
		digest_make(&w, bytes, &x->item.digest);
		x->item.digest.excerpt = excerpt_make(&w, g->name, g->name_arg);
		x->item.digest.sender = x->request->sender;
		wire_window_free(&w);
	}
	if (err) {
		bool again = err == -ENOMEM;

		count(g, again ? &g->stats.windows_retry : &g->stats.windows_reject);
		log_warn("window", "status=%s bytes=%zu why=\"%s\"", again ? "retry" : "reject",
			 bytes, why_rejected(err));
		reply(x, again ? WIRE_RETRY : WIRE_REJECT, NULL, why_rejected(err));
		return;
	}
	x->item.body = body;
	x->item.bytes = bytes;
	word = fleet_window(g->fleet, &x->item.digest, via_of(x), clock_monotonic_ns());
	x->item.cost_ns = 0;
	x->item.stranger = word == FLEET_REFUSED;
	x->item.done = on_committed;
	if (__atomic_load_n(&g->stopping, __ATOMIC_RELAXED))
		on_committed(&x->item, WIRE_RETRY, "shutting down");
	else if (word == FLEET_LATER)
		on_committed(&x->item, WIRE_RETRY,
			     "no beat of its node has come through this connection yet");
	else if (commit_push(g->commit, &x->item))
		on_committed(&x->item, WIRE_RETRY, "busy");
}

static void handle_beat(struct context *x)
{
	struct ingest *g = x->g;
	struct beat b;
	int err = wire_beat_decode(x->request->body, x->request->bytes, &b);

	if (!err && !speaks_for(x, b.node)) {
		wire_beat_free(&b);
		count(g, &g->stats.beats_reject);
		return;
	}
	count(g, err ? &g->stats.beats_reject : &g->stats.beats_ok);
	if (err) {
		reply(x, err == -ENOMEM ? WIRE_RETRY : WIRE_REJECT, NULL, why_rejected(err));
		return;
	}
	fleet_beat(g->fleet, &b, via_of(x), clock_monotonic_ns());
	reply_commands(x, &b);
	wire_beat_free(&b);
}

static void handle_sketch(struct context *x)
{
	struct ingest *g = x->g;
	struct sketch s;
	int err;
	bool good;

	err = wire_sketch_decode(x->request->body, x->request->bytes, &s);
	if (err) {
		count(g, &g->stats.sketches_reject);
		reply(x, err == -ENOMEM ? WIRE_RETRY : WIRE_REJECT, NULL, why_rejected(err));
		return;
	}
	if (!speaks_for(x, s.rank.node)) {
		wire_sketch_free(&s);
		count(g, &g->stats.sketches_reject);
		return;
	}
	good = fleet_sketch_put(g->fleet, &s, x->request->body, x->request->bytes, via_of(x),
				clock_monotonic_ns());
	count(g, good ? &g->stats.sketches_ok : &g->stats.sketches_reject);
	wire_sketch_free(&s);
	reply(x, good ? WIRE_OK : WIRE_REJECT, NULL, good ? "" : "not this node's rank");
}

static void on_request(void *arg, struct rep_request *q)
{
	struct ingest *g = arg;
	struct context *x = &g->contexts[q->slot];
	int kind = codec_kind(q->body, q->bytes);

	x->request = q;

	pthread_mutex_lock(&g->lock);
	g->stats.received_bytes += q->bytes;
	pthread_mutex_unlock(&g->lock);
	switch (kind) {
	case WIRE_WINDOW:
		handle_window(x);
		break;
	case WIRE_BEAT:
		handle_beat(x);
		break;
	case WIRE_SKETCH:
		handle_sketch(x);
		break;
	default:
		if (codec_is_newer(q->body, q->bytes)) {
			count(g, &g->stats.newer_retry);
			reply(x, WIRE_RETRY, NULL,
			      "it is older than this node's sysomd; upgrade the aggregator");
			return;
		}
		count(g, &g->stats.other_reject);
		reply(x, WIRE_REJECT, NULL, "not a message of this version");
	}
}

static int lane_of(void *arg, const void *body, size_t bytes)
{
	(void)arg;
	return codec_kind(body, bytes) == WIRE_BEAT && bytes <= BEAT_BYTES_MAX ? LANE_BEATS
									       : LANE_BULK;
}

static void on_gone(void *arg, uint64_t connection)
{
	struct ingest *g = arg;

	fleet_gone(g->fleet, connection);
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

/* One descriptor per connection, less some for the store, HTTP and closing connections. rep may
 * exceed it by an eighth while it makes room. */
static uint32_t connection_max(void)
{
	struct rlimit r;
	rlim_t most;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur > 4 * (rlim_t)LIMIT_FLEET_NODES)
		return LIMIT_FLEET_NODES;
	most = r.rlim_cur - r.rlim_cur / 8;
	most = most > 128 ? (most - 64) / 9 * 8 : 32;
	return most < LIMIT_FLEET_NODES ? (uint32_t)most : LIMIT_FLEET_NODES;
}

int ingest_open(struct ingest **out, const struct ingest_config *config)
{
	uint32_t slots = config->contexts + BEAT_THREADS;
	struct ingest *g = calloc(1, sizeof(*g) + slots * sizeof(g->contexts[0]));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t threads = cpus < 1		     ? 1
			   : cpus > BULK_THREADS_MAX ? BULK_THREADS_MAX
						     : (uint32_t)cpus;
	const struct rep_config c = {
	    .url = config->url,
	    .tls = config->tls,
	    .lane[LANE_BEATS] = {BEAT_THREADS, BEAT_THREADS, 0},
	    .lane[LANE_BULK] = {config->contexts, threads, BULK_NICE},
	    .lane[REP_LANE_SHAKE] = {0, config->tls ? threads : 0, BULK_NICE},
	    .lane_of = lane_of,
	    .connection_max = connection_max(),
	    .gone = on_gone,
	    .message_max_bytes = LIMIT_WIRE_MESSAGE_BYTES,
	    .buffer_max_bytes = LIMIT_INGEST_BUFFER_BYTES,
	};
	int err;

	if (!g)
		return -ENOMEM;
	g->tls = config->tls;
	g->commit = config->commit;
	g->fleet = config->fleet;
	g->verify = config->verify;
	g->name = config->name;
	g->name_arg = config->name_arg;
	pthread_mutex_init(&g->lock, NULL);
	for (uint32_t i = 0; i < slots; i++)
		g->contexts[i].g = g;
	/* A request may come before rep_open returns. */
	err = rep_open(&g->rep, &c, on_request, g);
	if (err) {
		log_error("listen", "url=%s why=\"%s\"", config->url, nng_strerror(err));
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
	rep_close(g->rep, __atomic_load_n(&g->stopping, __ATOMIC_RELAXED) ? STOP_GRACE_MS : 0);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

void ingest_stats(struct ingest *g, struct ingest_stats *out)
{
	pthread_mutex_lock(&g->lock);
	*out = g->stats;
	pthread_mutex_unlock(&g->lock);
	rep_stats(g->rep, &out->peers);
	if (g->tls)
		tls_facts(g->tls, &out->tls);
}

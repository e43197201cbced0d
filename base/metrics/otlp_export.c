/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics/otlp_export.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/daemon/log.h"
#include "base/http/http_address.h"
#include "base/http/http_post.h"
#include "base/metrics/otlp.h"
#include "base/text/text.h"

#define TIMEOUT_S 10L
/* time after otlp_export_close in which waiting requests may still be sent */
#define CLOSE_NS 3000000000ull
/* Metrics of about 20,000 ranks. More are dropped. */
#define WAITING	     64u
#define DEFAULT_PATH "/v1/metrics"
#define ANSWER_BYTES 65536u

struct otlp_export {
	char url[OTLP_URL_BYTES + sizeof(DEFAULT_PATH)], service[64], host[256];
	struct otlp_settings settings;
	struct otlp_resource resource;
	struct otlp *writing;
	uint64_t due_ns;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* under lock */
	struct buf waiting[WAITING];
	uint32_t count;
	/* number of the waiting metrics' round: changes when new metrics replace them */
	uint64_t round;
	struct otlp_export_stats stats;
	uint64_t close_ns; /* when to give up after otlp_export_close; 0: e is not being closed */
	/* of the thread */
	CURL *curl;
	bool logged; /* the failure is in the log */
};

/* ---- the thread that sends ---- */

static bool is_overdue(void *arg)
{
	struct otlp_export *e = arg;
	uint64_t close_ns;

	pthread_mutex_lock(&e->lock);
	close_ns = e->close_ns;
	pthread_mutex_unlock(&e->lock);
	return close_ns && clock_monotonic_ns() >= close_ns;
}

/* *rejected: number of data points that the receiver rejected in a request that it accepted. */
static int post(struct otlp_export *e, const struct buf *b, uint64_t *rejected, char *why,
		size_t why_bytes)
{
	char reason[128];
	struct buf answer;
	struct http_post p = {.url = e->url,
			      .type = "application/x-protobuf",
			      .agent = e->service,
			      .ca = e->settings.ca,
			      .token_file = e->settings.token,
			      .timeout_s = TIMEOUT_S,
			      .answer = &answer,
			      .give_up = is_overdue,
			      .arg = e};
	int err;

	*why = '\0';
	buf_init(&answer, ANSWER_BYTES);
	err = http_post(e->curl, &p, b->data, b->bytes, why, why_bytes);
	*rejected = err ? 0 : otlp_rejected(answer.data, answer.bytes, reason, sizeof(reason));
	buf_fini(&answer);
	if (*rejected)
		snprintf(why, why_bytes, "the receiver rejects %llu data points%s%s",
			 (unsigned long long)*rejected, *reason ? ": " : "", reason);
	else if (!err)
		*why = '\0';
	if (*why && !e->logged)
		log_warn("otlp", "url=%s why=\"%s\"", e->url, why);
	if (!*why && e->logged)
		log_info("otlp", "url=%s works again", e->url);
	e->logged = *why;
	return err;
}

/* Under lock. Waits until there is something to send, or until until_ns; false: e closes. */
static bool wait_for_work(struct otlp_export *e, uint64_t until_ns)
{
	struct timespec until = clock_timespec(until_ns);

	while (!e->close_ns && (until_ns ? clock_monotonic_ns() < until_ns : !e->count)) {
		if (until_ns)
			pthread_cond_timedwait(&e->wake, &e->lock, &until);
		else
			pthread_cond_wait(&e->wake, &e->lock);
	}
	return !e->close_ns;
}

/* Sends one request. If it must be sent again, it keeps its place in the queue. */
static int send_one(struct otlp_export *e, struct buf *b)
{
	uint64_t round = e->round, rejected;
	char why[sizeof(e->stats.fault)];
	int err;

	pthread_mutex_unlock(&e->lock);
	err = post(e, b, &rejected, why, sizeof(why));
	pthread_mutex_lock(&e->lock);
	text_copy(e->stats.fault, sizeof(e->stats.fault), why);
	e->stats.rejected += rejected;
	e->stats.sent += !err;
	e->stats.failed += err != 0;
	if (err == -EAGAIN && round == e->round) {
		memmove(e->waiting + 1, e->waiting, e->count * sizeof(*e->waiting));
		e->waiting[0] = *b;
		e->count++;
		return err;
	}
	e->stats.dropped += err != 0;
	buf_fini(b);
	return err;
}

static int send_first(struct otlp_export *e)
{
	struct buf b = e->waiting[0];

	memmove(e->waiting, e->waiting + 1, --e->count * sizeof(*e->waiting));
	return send_one(e, &b);
}

static void *thread_main(void *arg)
{
	struct otlp_export *e = arg;
	uint64_t backoff_ns = 0;

	pthread_mutex_lock(&e->lock);
	while (wait_for_work(e, backoff_ns ? clock_monotonic_ns() + backoff_ns : 0)) {
		if (!e->count || send_first(e) != -EAGAIN) {
			backoff_ns = 0;
			continue;
		}
		backoff_ns = http_post_backoff_ns(backoff_ns);
	}
	while (e->count && clock_monotonic_ns() < e->close_ns && !send_first(e))
		;
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

/* ---- the program's side ---- */

/* Under lock. */
static void drop_waiting(struct otlp_export *e)
{
	while (e->count) {
		buf_fini(&e->waiting[--e->count]);
		e->stats.dropped++;
	}
}

/* Queues a request. One place stays free, for a request that must be sent again. */
static void take(void *arg, struct buf *request)
{
	struct otlp_export *e = arg;

	pthread_mutex_lock(&e->lock);
	if (e->count < WAITING - 1) {
		e->waiting[e->count++] = *request;
		pthread_cond_signal(&e->wake);
	} else {
		buf_fini(request);
		e->stats.dropped++;
	}
	pthread_mutex_unlock(&e->lock);
}

struct metrics *otlp_export_begin(struct otlp_export *e, uint64_t now_ns)
{
	if (!e || now_ns < e->due_ns ||
	    otlp_begin(&e->writing, &e->resource, clock_realtime_ns(), take, e))
		return NULL;
	e->due_ns = now_ns + e->settings.interval_ns;
	pthread_mutex_lock(&e->lock);
	drop_waiting(e);
	e->round++;
	pthread_mutex_unlock(&e->lock);
	return otlp_metrics(e->writing);
}

void otlp_export_end(struct otlp_export *e)
{
	int err = otlp_end(e->writing);

	e->writing = NULL;
	if (!err)
		return;
	log_warn("otlp", "why=\"%s\" effect=\"metrics were not sent\"", strerror(-err));
	pthread_mutex_lock(&e->lock);
	e->stats.dropped++;
	pthread_mutex_unlock(&e->lock);
}

void otlp_export_stats(struct otlp_export *e, struct otlp_export_stats *out)
{
	*out = (struct otlp_export_stats){.sent = 0};
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	*out = e->stats;
	pthread_mutex_unlock(&e->lock);
}

void otlp_export_metrics(struct otlp_export *e, struct metrics *m)
{
	struct otlp_export_stats s;

	if (!e)
		return;
	otlp_export_stats(e, &s);
	METRICS_BY(m, "sysom_otlp_requests_total", "Requests with metrics to otlp.url, by result.",
		   "result", {"sent", s.sent}, {"failed", s.failed}, {"dropped", s.dropped});
	METRICS(m, {"sysom_otlp_rejected_points_total",
		    "Data points that the receiver of otlp.url rejected.", s.rejected});
}

/* ---- open and close ---- */

int otlp_settings_check(const struct otlp_settings *s, char *why, size_t why_bytes)
{
	if (*s->url && !http_post_is_url(s->url)) {
		snprintf(why, why_bytes, "otlp.url is not an http:// or https:// URL: %.200s",
			 s->url);
		return -EINVAL;
	}
	if (*s->token && !http_address_keeps_token(s->url)) {
		snprintf(why, why_bytes,
			 "otlp.token needs an otlp.url that is https://, or http:// on loopback, "
			 "so that nobody on the network reads the token");
		return -EINVAL;
	}
	return 0;
}

/* As with OTEL_EXPORTER_OTLP_ENDPOINT, a URL without a path is the receiver's base. */
static void set_url(struct otlp_export *e, const char *url)
{
	const char *host = strstr(url, "://") + 3, *path = strchr(host, '/');

	if (path && path[1])
		text_copy(e->url, sizeof(e->url), url);
	else
		snprintf(e->url, sizeof(e->url), "%.*s%s",
			 (int)(path ? path - url : (long)strlen(url)), url, DEFAULT_PATH);
}

int otlp_export_open(struct otlp_export **out, const struct otlp_settings *s, const char *service,
		     const char *host)
{
	struct otlp_export *e;
	int err;

	*out = NULL;
	if (!*s->url)
		return 0;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->settings = *s;
	set_url(e, s->url);
	text_copy(e->service, sizeof(e->service), service);
	text_copy(e->host, sizeof(e->host), host);
	e->resource = (struct otlp_resource){e->service, e->host, clock_realtime_ns()};
	pthread_mutex_init(&e->lock, NULL);
	cond_init_monotonic(&e->wake);
	e->curl = curl_easy_init();
	err = e->curl ? -pthread_create(&e->thread, NULL, thread_main, e) : -ENOMEM;
	if (err) {
		curl_easy_cleanup(e->curl);
		free(e);
		return err;
	}
	*out = e;
	return 0;
}

void otlp_export_close(struct otlp_export *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	e->close_ns = clock_monotonic_ns() + CLOSE_NS;
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->thread, NULL);
	drop_waiting(e);
	curl_easy_cleanup(e->curl);
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->wake);
	free(e);
}

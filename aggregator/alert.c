/* SPDX-License-Identifier: Apache-2.0
 * Keeps the state of each alert, not a queue of messages: a receiver that was away for an hour
 * needs to know once what is firing now. */
#include "aggregator/alert.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/daemon/log.h"
#include "base/http/http_post.h"
#include "base/http/http_user.h"
#include "base/metrics/metrics.h"
#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/text/text.h"

#define ID_BYTES  9
#define TIMEOUT_S 10L
#define CLOSE_S	  5L
/* Alertmanager resolves an alert after its endsAt, so this many repeats may get lost. */
#define EXPIRES_REPEATS 4u
#define BATCH		64u
/* If only an alert's figures change, it is sent at most this often. */
#define FIGURES_NS	 10000000000ull
#define ALERT_PAGE_BYTES 512

struct slot {
	char id[ID_BYTES]; /* "": free */
	json_t *incident;
	uint64_t begin_unix_ns;
	bool resolved;
	bool changed;	  /* anything changed */
	bool at_once;	  /* its subject changed, or it must be sent again */
	uint64_t sent_ns; /* CLOCK_MONOTONIC; 0: never */
};

struct alert {
	char url[1024], link[256];
	uint64_t repeat_ns;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* under lock */
	struct slot slots[LIMIT_ALERTS];
	struct alert_stats stats;
	bool closing;
	/* of the thread */
	CURL *curl;
	uint64_t backoff_ns, next_ns;
};

/* ---- an alert's JSON ---- */

static void put_time(json_t *to, const char *key, uint64_t unix_ns)
{
	time_t s = (time_t)(unix_ns / 1000000000);
	char text[64];
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03uZ", (unsigned)(unix_ns / 1000000 % 1000));
	json_object_set_new(to, key, json_string(text));
}

/* Ranks or nodes, as many as there is room for: "1, 2". */
/* Numbers, texts, or containers as NAMESPACE/POD/CONTAINER. */
static void list_text(const json_t *list, char *text, size_t text_bytes)
{
	size_t used = 0, k;
	json_t *v;

	*text = '\0';

	json_array_foreach ((json_t *)list, k, v) {
		int n = json_is_integer(v)
			    ? snprintf(text + used, text_bytes - used, "%s%lld", k ? ", " : "",
				       (long long)json_integer_value(v))
			: json_is_object(v)
			    ? snprintf(text + used, text_bytes - used, "%s%s/%s/%s", k ? ", " : "",
				       jsonget_text(v, "namespace"), jsonget_text(v, "pod"),
				       jsonget_text(v, "container"))
			    : snprintf(text + used, text_bytes - used, "%s%s", k ? ", " : "",
				       json_string_value(v));

		if (n < 0 || used + (size_t)n >= text_bytes)
			break;
		used += (size_t)n;
	}
}

static void put_list(json_t *to, const char *key, const json_t *list)
{
	char text[512];

	list_text(list, text, sizeof(text));
	json_object_set_new(to, key, json_text(text));
}

static void put_number(json_t *to, const char *key, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3g", v);
	json_object_set_new(to, key, json_string(text));
}

static json_t *annotations_of(const json_t *incident)
{
	const json_t *d = json_object_get(incident, "diagnosis");
	json_t *out = json_object(), *others = json_object_get(incident, "diagnoses");
	char also[512] = "";

	json_object_set_new(out, "summary", json_string(jsonget_text(d, "summary")));
	json_object_set_new(out, "cause", json_string(jsonget_text(d, "cause")));
	json_object_set_new(out, "layer", json_string(jsonget_text(d, "layer")));
	json_object_set_new(out, "remedy", json_string(jsonget_text(d, "remedy")));
	json_object_set_new(out, "symptom", json_string(jsonget_text(incident, "symptom")));
	put_list(out, "ranks", json_object_get(incident, "ranks"));
	put_list(out, "nodes", json_object_get(incident, "nodes"));
	put_list(out, "pods", json_object_get(incident, "pods"));
	put_number(out, "confidence", jsonget_number(d, "confidence"));
	put_number(out, "effect_ms", jsonget_number(d, "effect_ms"));
	put_number(out, "gpu_hours_lost", jsonget_number(incident, "gpu_hours_lost"));
	put_number(out, "gpu_hours_per_day", jsonget_number(incident, "gpu_hours_per_day"));
	for (size_t k = 1; k < json_array_size(others); k++)
		snprintf(also + strlen(also), sizeof(also) - strlen(also), "%s%.200s",
			 k > 1 ? "; " : "", jsonget_text(json_array_get(others, k), "summary"));
	if (*also)
		json_object_set_new(out, "also", json_text(also));
	return out;
}

static const char *severity_of(const char *symptom)
{
	return !strcmp(symptom, "stall")       ? "critical"
	       : !strcmp(symptom, "imbalance") ? "info"
					       : "warning";
}

/* The incident's page, or "" without a link. */
static void page_of(const char *link, const char *id, char url[ALERT_PAGE_BYTES])
{
	snprintf(url, ALERT_PAGE_BYTES, *link ? "%.400s/incidents/%s" : "", link, id);
}

json_t *alert_json(const json_t *incident, const char *link, uint64_t expires_unix_ns)
{
	char url[ALERT_PAGE_BYTES];
	const char *symptom = jsonget_text(incident, "symptom"), *id = jsonget_text(incident, "id");
	bool open = !strcmp(jsonget_text(incident, "state"), "open");
	json_t *out;

	if (!*id || !strcmp(symptom, "transient"))
		return NULL;
	out = json_object();
	json_object_set_new(out, "labels",
			    json_pack("{s:s, s:s, s:s, s:s}", "alertname", "SysomIncident",
				      "incident", id, "job", jsonget_text(incident, "job"),
				      "severity", severity_of(symptom)));
	json_object_set_new(out, "annotations", annotations_of(incident));
	put_time(out, "startsAt", jsonget_unsigned(incident, "begin_unix_ns"));
	put_time(out, "endsAt", open ? expires_unix_ns : jsonget_unsigned(incident, "end_unix_ns"));
	page_of(link, id, url);
	if (*url) {
		json_object_set_new(out, "generatorURL", json_string(url));
		json_object_set_new(json_object_get(out, "annotations"), "runbook_url",
				    json_string(url));
	}
	return out;
}

/* ---- slots ---- */

static struct slot *slot_of(struct alert *a, const char *id)
{
	struct slot *free_slot = NULL;

	for (uint32_t k = 0; k < LIMIT_ALERTS; k++) {
		if (!strcmp(a->slots[k].id, id))
			return &a->slots[k];
		if (!a->slots[k].id[0] && !free_slot)
			free_slot = &a->slots[k];
	}
	return free_slot;
}

static bool is_about_the_same(const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, "diagnoses"), *y = json_object_get(b, "diagnoses");
	bool same = !strcmp(jsonget_text(a, "state"), jsonget_text(b, "state")) &&
		    !strcmp(jsonget_text(a, "symptom"), jsonget_text(b, "symptom")) &&
		    json_equal(json_object_get(a, "ranks"), json_object_get(b, "ranks")) &&
		    json_array_size(x) == json_array_size(y);

	for (size_t k = 0; same && k < json_array_size(x); k++)
		same = !strcmp(jsonget_text(json_array_get(x, k), "cause"),
			       jsonget_text(json_array_get(y, k), "cause"));
	return same;
}

void alert_push(struct alert *a, const json_t *incident)
{
	const char *id = jsonget_text(incident, "id");
	json_t *copy;
	struct slot *s;

	if (!*id || strlen(id) >= ID_BYTES)
		return;
	if (!strcmp(jsonget_text(incident, "symptom"),
		    "transient")) { /* it is not an incident any more */
		alert_resolve(a, id, clock_realtime_ns());
		return;
	}
	copy = json_deep_copy(incident);
	pthread_mutex_lock(&a->lock);
	s = copy ? slot_of(a, id) : NULL;
	if (s) {
		/* keep an alert's start, even if earlier windows come later */
		if (!s->id[0])
			s->begin_unix_ns = jsonget_unsigned(incident, "begin_unix_ns");
		s->at_once |= !s->id[0] || !is_about_the_same(s->incident, copy);
		text_copy(s->id, sizeof(s->id), id);
		json_decref(s->incident);
		s->incident = copy;
		s->resolved = strcmp(jsonget_text(incident, "state"), "open") != 0;
		s->changed = true;
		pthread_cond_signal(&a->wake);
	} else {
		json_decref(copy);
		a->stats.dropped++;
	}
	pthread_mutex_unlock(&a->lock);
}

void alert_resolve(struct alert *a, const char *incident, uint64_t now_unix_ns)
{
	pthread_mutex_lock(&a->lock);
	for (uint32_t k = 0; k < LIMIT_ALERTS; k++) {
		struct slot *s = &a->slots[k];

		if (!s->id[0] || strcmp(s->id, incident))
			continue;
		json_object_set_new(s->incident, "state", json_string("closed"));
		json_object_set_new(s->incident, "end_unix_ns", json_exact(now_unix_ns));
		s->resolved = s->changed = s->at_once = true;
		pthread_cond_signal(&a->wake);
	}
	pthread_mutex_unlock(&a->lock);
}

/* ---- sending ---- */

static bool is_due(const struct alert *a, const struct slot *s, uint64_t now)
{
	uint64_t since = now - s->sent_ns;

	return s->id[0] && (s->at_once || !s->sent_ns || since >= a->repeat_ns ||
			    (s->changed && since >= FIGURES_NS));
}

/* Under lock. Collects the alerts that are due; taken[k] is the k-th one's slot. */
static json_t *gather(struct alert *a, uint64_t now, uint32_t *taken, uint32_t *count)
{
	uint64_t expires = clock_realtime_ns() + EXPIRES_REPEATS * a->repeat_ns;
	json_t *list = json_array();

	*count = 0;
	for (uint32_t k = 0; k < LIMIT_ALERTS && *count < BATCH; k++) {
		struct slot *s = &a->slots[k];
		json_t *one;

		if (!is_due(a, s, now))
			continue;
		one = alert_json(s->incident, a->link, expires);
		s->changed = s->at_once = false;
		if (!one) {
			s->sent_ns = now;
			continue;
		}
		put_time(one, "startsAt", s->begin_unix_ns);
		/* a verdict may move the fault to an earlier time */
		if (s->resolved && jsonget_unsigned(s->incident, "end_unix_ns") < s->begin_unix_ns)
			put_time(one, "endsAt", s->begin_unix_ns);
		json_array_append_new(list, one);
		taken[(*count)++] = k;
	}
	return list;
}

static int post(struct alert *a, const char *body, long timeout_s)
{
	struct http_post p = {.url = a->url,
			      .type = "application/json",
			      .agent = "sysom-aggregator",
			      .timeout_s = timeout_s};
	char why[256];
	int err = http_post(a->curl, &p, body, strlen(body), why, sizeof(why));

	if (err)
		log_warn("alert", "why=\"%s\"", why);
	return err;
}

/* Under lock. Notes the result of a POST. */
static void settle(struct alert *a, const uint32_t *taken, uint32_t count, int err, uint64_t now)
{
	for (uint32_t k = 0; k < count; k++) {
		struct slot *s = &a->slots[taken[k]];

		if (err == -EAGAIN) {
			s->at_once = true;
			continue;
		}
		s->sent_ns = now;
		if (!s->resolved || s->changed) /* changed meanwhile: send it again */
			continue;
		json_decref(s->incident);
		*s = (struct slot){.id = ""};
	}
	a->stats.sent += !err && *a->url;
	a->stats.failed += err != 0;
}

/* Makes one POST of the due alerts; false: none are due, or it failed. */
static bool send_due(struct alert *a, long timeout_s)
{
	uint64_t now = clock_monotonic_ns();
	uint32_t taken[BATCH], count;
	json_t *list;
	char *body;
	int err;

	pthread_mutex_lock(&a->lock);
	list = gather(a, now, taken, &count);
	pthread_mutex_unlock(&a->lock);
	body = count ? json_dumps(list, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	json_decref(list);
	if (!count)
		return false;
	err = !body ? -EAGAIN : *a->url ? post(a, body, timeout_s) : 0;
	free(body);
	pthread_mutex_lock(&a->lock);
	settle(a, taken, count, err, now);
	pthread_mutex_unlock(&a->lock);
	if (err != -EAGAIN) {
		a->backoff_ns = 0;
		return true;
	}
	a->backoff_ns = http_post_backoff_ns(a->backoff_ns);
	a->next_ns = clock_monotonic_ns() + a->backoff_ns;
	return false;
}

/* Waits until something changes, or a retry or repeat is due. */
static bool wait_for_work(struct alert *a)
{
	uint64_t now = clock_monotonic_ns();
	bool closing, due = false;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += 1;
	pthread_mutex_lock(&a->lock);
	for (uint32_t k = 0; k < LIMIT_ALERTS; k++)
		due |= is_due(a, &a->slots[k], now);
	if (!a->closing && (!due || a->backoff_ns))
		pthread_cond_timedwait(&a->wake, &a->lock, &until);
	closing = a->closing;
	pthread_mutex_unlock(&a->lock);
	return !closing;
}

static void *thread_main(void *arg)
{
	struct alert *a = arg;

	while (wait_for_work(a))
		if (!a->backoff_ns || clock_monotonic_ns() >= a->next_ns)
			while (send_due(a, TIMEOUT_S))
				;
	send_due(a, CLOSE_S);
	return NULL;
}

int alert_open(struct alert **out, const struct alert_config *c)
{
	struct alert *a;
	int err;

	if (*c->url && !http_post_is_url(c->url))
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	text_copy(a->url, sizeof(a->url), c->url);
	text_copy(a->link, sizeof(a->link), c->link ? c->link : "");
	a->repeat_ns = c->repeat_ns;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	a->curl = curl_easy_init();
	pthread_mutex_init(&a->lock, NULL);
	cond_init_monotonic(&a->wake);
	err = a->curl ? -pthread_create(&a->thread, NULL, thread_main, a) : -ENOMEM;
	if (err) {
		curl_easy_cleanup(a->curl);
		free(a);
		return err;
	}
	*out = a;
	return 0;
}

void alert_close(struct alert *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->closing = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	for (uint32_t k = 0; k < LIMIT_ALERTS; k++)
		json_decref(a->slots[k].incident);
	curl_easy_cleanup(a->curl);
	pthread_cond_destroy(&a->wake);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void alert_stats(struct alert *a, struct alert_stats *out)
{
	pthread_mutex_lock(&a->lock);
	*out = a->stats;
	out->firing = 0;
	for (uint32_t k = 0; k < LIMIT_ALERTS; k++)
		out->firing += a->slots[k].id[0] && !a->slots[k].resolved;
	pthread_mutex_unlock(&a->lock);
}

static void open_sample(const struct alert *a, const struct slot *s, struct metrics *m)
{
	const json_t *i = s->incident, *d = json_object_get(i, "diagnosis");
	const char *symptom = jsonget_text(i, "symptom");
	char ranks[64], nodes[256], pods[512], page[ALERT_PAGE_BYTES];

	list_text(json_object_get(i, "ranks"), ranks, sizeof(ranks));
	list_text(json_object_get(i, "nodes"), nodes, sizeof(nodes));
	list_text(json_object_get(i, "pods"), pods, sizeof(pods));
	page_of(a->link, s->id, page);
	metrics_sample(m, "sysom_incident_open", 1, "incident", s->id, "job_name",
		       jsonget_text(i, "job"), "severity", severity_of(symptom), "symptom", symptom,
		       "ranks", ranks, "nodes", nodes, "pods", pods, "layer",
		       jsonget_text(d, "layer"), "cause", jsonget_text(d, "cause"), "page", page,
		       NULL);
}

static bool is_shown(const struct slot *s, const struct http_user *who)
{
	return s->id[0] && !s->resolved &&
	       (!who || http_user_sees_job(who, jsonget_text(s->incident, "job")));
}

void alert_metrics(struct alert *a, const struct http_user *who, struct metrics *m)
{
	pthread_mutex_lock(&a->lock);
	metrics_family(m, "sysom_incident_open",
		       "1 for each open incident; its labels follow the verdict.");
	for (uint32_t k = 0; k < LIMIT_ALERTS; k++)
		if (is_shown(&a->slots[k], who))
			open_sample(a, &a->slots[k], m);
	metrics_family(m, "sysom_incident_lost_gpu_seconds",
		       "GPU time that each open incident has cost so far.");
	for (uint32_t k = 0; k < LIMIT_ALERTS; k++)
		if (is_shown(&a->slots[k], who))
			metrics_sample(m, "sysom_incident_lost_gpu_seconds",
				       3600 *
					   jsonget_number(a->slots[k].incident, "gpu_hours_lost"),
				       "incident", a->slots[k].id, "job_name",
				       jsonget_text(a->slots[k].incident, "job"), NULL);
	pthread_mutex_unlock(&a->lock);
}

/* SPDX-License-Identifier: Apache-2.0
 * Batches form by themselves: while one transaction waits for the disk, the next windows queue up.
 * Waiting for a batch to fill would only delay a single window. */
#include "aggregator/commit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aggregator/incident/finding_json.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/daemon/log.h"
#include "base/limits.h"
#include "base/text/text.h"

#define TICK_NS 1000000000ull
/* Findings per batch; the others wait for the next one. */
#define FINDINGS_MAX 64u
#define DIRTY_MAX    (LIMIT_COMMIT_WINDOWS + FINDINGS_MAX)
/* Silent incidents closed at a time. */
#define CLOSED_MAX 64u
/* Limits per rebuild after new symbol files: incidents, and windows of each. About a second of the
 * thread. */
#define RENAMED_MAX	    16u
#define RENAMED_WINDOWS_MAX 128u
/* Rebuilds after new symbol files: windows in progress used the old names. */
#define RENAME_LOOKS 3u

struct waiting_finding {
	STAILQ_ENTRY(waiting_finding) next;
	struct finding_report finding;
};

STAILQ_HEAD(items, commit_item);
STAILQ_HEAD(findings, waiting_finding);

/* Moves at most `most` elements from the head of a list into an empty one. */
#define TAKE(to, from, most)                                                                       \
	for (uint32_t n_ = (most); n_ && !STAILQ_EMPTY(from); n_--) {                              \
		__typeof__(STAILQ_FIRST(from)) one_ = STAILQ_FIRST(from);                          \
                                                                                                   \
		STAILQ_REMOVE_HEAD(from, next);                                                    \
		STAILQ_INSERT_TAIL(to, one_, next);                                                \
	}
/* Moves all of a list before those of another one. */
#define GIVE_BACK(list, to)                                                                        \
	do {                                                                                       \
		STAILQ_CONCAT(list, to);                                                           \
		STAILQ_CONCAT(to, list);                                                           \
	} while (0)

struct commit {
	struct commit_config config;
	struct fleet *fleet;
	struct store *store;
	struct incident_set *set;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* under lock */
	struct items items;
	struct findings findings;
	uint32_t finding_count;
	struct commit_stats stats;
	bool closing;
	/* of the thread */
	uint64_t opened_ns, tick_ns, named;
	uint32_t rename_looks;
	char dirty[DIRTY_MAX][INCIDENT_ID_BYTES];
	uint32_t dirty_count, opened, evicted;
	char gone[DIRTY_MAX * INCIDENT_ABSORB_MAX][INCIDENT_ID_BYTES]; /* merged into another one */
	uint32_t gone_count;
	/* written by this transaction, for the alerts: the evicted, then the dirty */
	json_t *written[2 * DIRTY_MAX];
	uint32_t written_count;
	uint64_t updated_unix_ns;
	bool findings_failed; /* the last findings failed: wait a second before the next try */
};

/* ---- restoring ---- */

struct restore {
	struct commit *c;
	const char *id;
};

static int restore_window(void *arg, const void *body, size_t bytes)
{
	struct restore *r = arg;
	struct digest d;
	struct window w;
	int err;

	/* it was checked on arrival: skip what this version cannot decode */
	if (wire_window_decode(body, bytes, &w))
		return 0;
	if (!digest_is_sound(&w)) { /* accepted by an earlier version */
		wire_window_free(&w);
		return 0;
	}
	digest_make(&w, bytes, &d);
	d.excerpt = excerpt_make(&w, r->c->config.name, r->c->config.name_arg);
	wire_window_free(&w);
	err = incident_set_restore_window(r->c->set, r->id, &d);
	excerpt_drop(d.excerpt);
	return err;
}

/* Leaves out unreadable findings: an incident without one is better than no incident. */
static void restore_findings(struct commit *c, const struct incident_row *row)
{
	json_t *list = store_findings(c->store, row->id), *one;
	struct finding_report *f = malloc(sizeof(*f));
	size_t k;

	json_array_foreach (list, k, one) {
		if (!f || finding_json_parse(one, f))
			continue;
		text_copy(f->job, sizeof(f->job), row->job);
		incident_set_restore_finding(c->set, row->id, f);
	}
	free(f);
	json_decref(list);
}

static int restore_incident(void *arg, const struct incident_row *row)
{
	struct commit *c = arg;
	struct restore r = {c, row->id};
	int err = incident_set_restore(c->set, row);

	if (err)
		return err;
	restore_findings(c, row);
	return store_each_window_body(c->store, row->id, restore_window, &r);
}

/* Rebuilds the set from the store: at the start, and after a failed transaction. */
static int restore(struct commit *c)
{
	struct incident_set *set = NULL, *old = c->set;
	uint64_t now = clock_realtime_ns(), memory = c->config.incident.memory_ns;
	int err = incident_set_open(&set, &c->config.incident);

	if (err)
		return err;
	c->set = set;
	err = store_each_incident(c->store, now > memory ? now - memory : 0, restore_incident, c);
	if (err) {
		incident_set_close(set);
		c->set = old;
		return err;
	}
	incident_set_close(old);
	return 0;
}

/* ---- one batch ---- */

static void mark_dirty(struct commit *c, const char *id)
{
	for (uint32_t i = 0; i < c->dirty_count; i++)
		if (!strcmp(c->dirty[i], id))
			return;
	CHECK(c->dirty_count < DIRTY_MAX);
	text_copy(c->dirty[c->dirty_count++], INCIDENT_ID_BYTES, id);
}

/* No two writes have the same time, so that a reader of the feed misses none. */
static uint64_t next_update(struct commit *c)
{
	c->updated_unix_ns = store_update_ns(c->updated_unix_ns);
	return c->updated_unix_ns;
}

static int put_json(struct commit *c, const struct incident_row *row, const json_t *j)
{
	char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
	int err = text ? store_put_incident(c->store, row, text) : -ENOMEM;
	json_t *findings = incident_set_findings(c->set, row->id);

	free(text);
	if (findings && !err) {
		text = json_dumps(findings, JSON_COMPACT);
		err = text ? store_put_findings(c->store, row->id, text) : -ENOMEM;
		free(text);
	}
	json_decref(findings);
	return err;
}

static int put_incident(struct commit *c, const char *id)
{
	struct incident_row row;
	json_t *j;
	int err;

	if (!incident_set_row(c->set, id, &row)) /* merged into another one meanwhile */
		return 0;
	j = incident_set_json(c->set, id, fleet_job_ranks(c->fleet, row.job, clock_monotonic_ns()),
			      NULL);
	row.updated_unix_ns = next_update(c);
	err = j ? put_json(c, &row, j) : -ENOMEM;
	if (c->config.alert && !err) {
		CHECK(c->written_count < ARRAY_LEN(c->written));
		c->written[c->written_count++] = json_incref(j);
	}
	json_decref(j);
	return err;
}

static int put_dirty(struct commit *c)
{
	int err = 0;

	for (uint32_t i = 0; i < c->dirty_count && !err; i++)
		err = put_incident(c, c->dirty[i]);
	c->dirty_count = 0;
	return err;
}

/* After the transaction: passes what was written to the alerts, or drops it. */
static void push_alerts(struct commit *c, bool committed)
{
	for (uint32_t i = 0; i < c->gone_count && committed && c->config.alert; i++)
		alert_resolve(c->config.alert, c->gone[i], clock_realtime_ns());
	for (uint32_t i = 0; i < c->written_count; i++) {
		if (committed)
			alert_push(c->config.alert, c->written[i]);
		json_decref(c->written[i]);
	}
	c->written_count = c->gone_count = 0;
}

static int take_change(struct commit *c, const struct incident_change *change)
{
	int err = 0;

	for (uint32_t i = 0; i < change->absorbed_count && !err; i++) {
		err = store_merge_incident(c->store, change->id, change->absorbed[i]);
		CHECK(c->gone_count < ARRAY_LEN(c->gone));
		text_copy(c->gone[c->gone_count++], INCIDENT_ID_BYTES, change->absorbed[i]);
	}
	mark_dirty(c, change->id);
	c->opened += change->opened;
	if (change->evicted[0] && !err) { /* at once: the next one takes its place */
		log_warn("incident", "id=%s state=closed why=\"no room for a new incident\"",
			 change->evicted);
		err = put_incident(c, change->evicted);
		c->evicted++;
	}
	return err;
}

static int put_one(struct commit *c, const struct commit_item *item, uint64_t now)
{
	struct incident_change change;
	int err = store_put_window(c->store, &item->digest, now, item->body, item->bytes);

	if (err <= 0)
		return err;
	if (item->stranger) /* only stored, as evidence of who sent it */
		return 1;
	err = incident_set_add(c->set, &item->digest, now, &change);
	if (err || !change.id[0])
		return err ? err : 1;
	err = take_change(c, &change);
	if (!err)
		err = store_set_window_incident(c->store, item->digest.id, change.id);
	return err ? err : 1;
}

/* Drops invalid findings and goes on with the others. */
static int put_findings(struct commit *c, const struct findings *list, uint64_t now)
{
	const struct waiting_finding *f;

	STAILQ_FOREACH (f, list, next) {
		struct incident_change change;
		int err = incident_set_add_finding(c->set, &f->finding, now, &change);

		if (err == -EINVAL) {
			log_warn("finding", "why=\"invalid; dropped\" kind=%s",
				 finding_kind_name(f->finding.finding.kind));
			continue;
		}
		if (!err && change.id[0])
			err = take_change(c, &change);
		if (err)
			return err;
	}
	return 0;
}

/* After the transaction: frees the findings, or puts them before newer ones for another try. */
static void settle_findings(struct commit *c, struct findings *list, int err)
{
	struct waiting_finding *f;

	pthread_mutex_lock(&c->lock);
	if (err)
		GIVE_BACK(list, &c->findings);
	while ((f = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, next);
		free(f);
		c->finding_count--;
		c->stats.findings++;
	}
	pthread_mutex_unlock(&c->lock);
}

static const char *why_not(int err)
{
	return err == -ENOSPC ? "disk full" : err == -ENOMEM ? "out of memory" : "store failed";
}

/* cpu_ns: of the whole batch. Time that no window used alone is divided equally. */
static void share_cost(struct items *list, uint64_t cpu_ns)
{
	struct commit_item *p;
	uint64_t count = 0;

	STAILQ_FOREACH (p, list, next) {
		cpu_ns -= p->cost_ns < cpu_ns ? p->cost_ns : cpu_ns;
		count++;
	}
	STAILQ_FOREACH (p, list, next)
		p->cost_ns += cpu_ns / count;
}

static void finish(struct commit *c, struct items *list, const bool *fresh, int err)
{
	struct commit_item *item;

	while ((item = STAILQ_FIRST(list))) {
		enum wire_status status = err ? WIRE_RETRY : *fresh++ ? WIRE_OK : WIRE_DUPLICATE;

		STAILQ_REMOVE_HEAD(list, next);
		pthread_mutex_lock(&c->lock);
		c->stats.pending_bytes -= item->bytes;
		c->stats.retries += status == WIRE_RETRY;
		c->stats.committed += status == WIRE_OK;
		c->stats.duplicates += status == WIRE_DUPLICATE;
		pthread_mutex_unlock(&c->lock);
		item->done(item, status, err ? why_not(err) : "");
	}
}

static void refresh_totals(struct commit *c, const struct store_removed *removed)
{
	struct store_totals totals;
	char job[WIRE_TEXT_BYTES];
	uint64_t bytes;
	bool known = !store_totals(c->store, &totals) && !store_largest_job(c->store, job, &bytes);

	pthread_mutex_lock(&c->lock);
	if (known) {
		c->stats.store = totals;
		c->stats.largest_bytes = bytes;
		text_copy(c->stats.largest_job, sizeof(c->stats.largest_job), job);
	}
	c->stats.expired += removed->bodies;
	c->stats.quota_windows += removed->quota_bodies;
	c->stats.quota_incidents += removed->quota_incidents;
	pthread_mutex_unlock(&c->lock);
}

static struct store_bounds bounds(const struct commit *c, uint64_t now)
{
	return (struct store_bounds){.retention = &c->config.retention,
				     .now_unix_ns = now,
				     .max_bytes = c->config.max_bytes};
}

static void count_transaction(struct commit *c, uint64_t begun_ns, int err)
{
	pthread_mutex_lock(&c->lock);
	c->stats.transactions += !err;
	c->stats.transaction_ns += clock_monotonic_ns() - begun_ns;
	c->stats.disk_full = err == -ENOSPC;
	if (!err) {
		c->stats.incidents_opened += c->opened;
		c->stats.incidents_evicted += c->evicted;
	}
	pthread_mutex_unlock(&c->lock);
	c->opened = c->evicted = 0;
}

static int check_space(const struct commit *c)
{
	return store_free_bytes(c->store) < c->config.reserve_bytes ? -ENOSPC : 0;
}

static void commit_batch(struct commit *c, struct items *list, struct findings *findings)
{
	bool fresh[LIMIT_COMMIT_WINDOWS] = {false};
	uint64_t begun = clock_monotonic_ns(), now = clock_realtime_ns();
	struct store_bounds keep = bounds(c, now);
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct items done = STAILQ_HEAD_INITIALIZER(done);
	struct store_removed removed = {0};
	bool had_findings = !STAILQ_EMPTY(findings);
	int err = check_space(c), one = 0;

	if (!err)
		err = store_begin(c->store);
	for (uint32_t i = 0; !STAILQ_EMPTY(list) && !err; i++) {
		struct commit_item *p = STAILQ_FIRST(list);

		TAKE(&done, list, 1);
		p->cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		one = put_one(c, p, now);
		p->cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - p->cost_ns;
		fresh[i] = one > 0;
		err = one < 0 ? one : 0;
		if (!err && clock_monotonic_ns() - begun > LIMIT_COMMIT_NS) {
			pthread_mutex_lock(&c->lock);
			GIVE_BACK(list, &c->items);
			pthread_mutex_unlock(&c->lock);
		}
	}
	STAILQ_CONCAT(&done, list); /* after an error */
	if (!err)
		err = put_findings(c, findings, now);
	if (!err)
		err = put_dirty(c);
	if (!err)
		err = store_keep(c->store, &keep, &removed);
	if (!err)
		err = store_commit(c->store);
	push_alerts(c, !err);
	if (err) {
		store_rollback(c->store);
		c->dirty_count = 0;
		log_warn("commit",
			 "why=\"%s\" error=\"%s\" effect=\"nodes send the windows again\"",
			 why_not(err), strerror(-err));
		if (restore(c))
			log_error("commit", "why=\"cannot restore the incidents from the store\"");
	}
	count_transaction(c, begun, err);
	if (!err)
		refresh_totals(c, &removed);
	c->findings_failed = err && had_findings;
	settle_findings(c, findings, err);
	share_cost(&done, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
	finish(c, &done, fresh, err);
}

/* ---- upkeep ---- */

/* Ends findings of an earlier process that this one has not found again in time, and findings of
 * jobs without living ranks. */
static void end_findings(struct commit *c)
{
	char job[WIRE_TEXT_BYTES];

	if (clock_monotonic_ns() - c->opened_ns < c->config.report_again_ns)
		return;
	incident_set_end_earlier(c->set);
	for (uint32_t k = 0; incident_set_held_job(c->set, k, job);) {
		if (!fleet_job_ranks(c->fleet, job, clock_monotonic_ns()))
			incident_set_job_ended(c->set, job); /* the next job has its index now */
		else
			k++;
	}
}

/* Writes the dirty incidents in one transaction. False: it failed, and the set was restored from
 * the store. */
static bool write_dirty(struct commit *c)
{
	int err;

	if (!c->dirty_count)
		return true;
	err = store_begin(c->store);
	if (!err)
		err = put_dirty(c);
	if (!err)
		err = store_commit(c->store);
	push_alerts(c, !err);
	c->dirty_count = 0;
	if (err) {
		store_rollback(c->store);
		restore(c);
		return false;
	}
	refresh_totals(c, &(struct store_removed){0});
	return true;
}

static void close_silent(struct commit *c, uint64_t now)
{
	char ids[CLOSED_MAX][INCIDENT_ID_BYTES];
	uint32_t n;

	end_findings(c);
	n = incident_set_tick(c->set, now, ids, CLOSED_MAX);
	for (uint32_t i = 0; i < n; i++)
		mark_dirty(c, ids[i]);
	if (!write_dirty(c))
		return;
	for (uint32_t i = 0; i < n; i++)
		log_info("incident", "id=%s state=closed", ids[i]);
}

/* Rebuilds an incident from its stored windows, with the current names. If that fails, the old one
 * stays. */
static bool rebuild(struct commit *c, const char *id)
{
	struct incident_row row;
	struct incident *old;

	if (!incident_set_row(c->set, id, &row))
		return false;
	old = incident_set_take_out(c->set, id);
	if (!old)
		return false;
	if (restore_incident(c, &row)) {
		incident_set_put_back(c->set, old);
		return false;
	}
	return incident_set_keep(c->set, old);
}

/* A window that arrives before its program's symbols has no function names; a later one has.
 * Comparing them would show differences that do not exist. */
static void rename_functions(struct commit *c)
{
	char ids[RENAMED_MAX][INCIDENT_ID_BYTES];
	uint64_t named = c->config.named ? c->config.named(c->config.name_arg) : 0;
	uint32_t n, done = 0;

	if (named != c->named)
		c->rename_looks = RENAME_LOOKS;
	c->named = named;
	if (!c->rename_looks)
		return;
	c->rename_looks--;
	n = incident_set_unnamed(c->set, RENAMED_WINDOWS_MAX, ids, RENAMED_MAX);
	for (uint32_t i = 0; i < n; i++) {
		if (!rebuild(c, ids[i]))
			continue;
		mark_dirty(c, ids[i]);
		done++;
	}
	write_dirty(c);
	pthread_mutex_lock(&c->lock);
	c->stats.incidents_renamed += done;
	pthread_mutex_unlock(&c->lock);
}

static void expire(struct commit *c, uint64_t now)
{
	struct store_bounds keep = bounds(c, now);
	struct store_removed removed = {0};

	if (store_expire(c->store, &keep, &removed))
		return;
	if (removed.bodies || removed.quota_incidents)
		log_info("expire", "windows=%llu of_quota=%llu incidents_of_quota=%llu",
			 (unsigned long long)removed.bodies,
			 (unsigned long long)removed.quota_bodies,
			 (unsigned long long)removed.quota_incidents);
	refresh_totals(c, &removed);
}

static void upkeep(struct commit *c)
{
	uint64_t mono = clock_monotonic_ns(), now = clock_realtime_ns();

	if (mono - c->tick_ns < TICK_NS)
		return;
	c->tick_ns = mono;
	rename_functions(c);
	close_silent(c, now);
	expire(c, now);
}

static void *thread_main(void *arg)
{
	struct commit *c = arg;

	for (;;) {
		struct items list = STAILQ_HEAD_INITIALIZER(list);
		struct findings findings = STAILQ_HEAD_INITIALIZER(findings);
		struct timespec until;
		bool closing, no_items, no_findings;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += 1;
		pthread_mutex_lock(&c->lock);
		while (STAILQ_EMPTY(&c->items) &&
		       (STAILQ_EMPTY(&c->findings) || c->findings_failed) && !c->closing &&
		       pthread_cond_timedwait(&c->wake, &c->lock, &until) != ETIMEDOUT)
			;
		TAKE(&list, &c->items, LIMIT_COMMIT_WINDOWS);
		TAKE(&findings, &c->findings, FINDINGS_MAX);
		closing = c->closing;
		pthread_mutex_unlock(&c->lock);
		no_items = STAILQ_EMPTY(&list);
		no_findings = STAILQ_EMPTY(&findings);
		if (!no_items || !no_findings)
			commit_batch(c, &list, &findings);
		if (closing && no_items && (no_findings || c->findings_failed))
			return NULL;
		upkeep(c);
	}
}

static bool is_stored(void *arg, const char *id)
{
	const struct commit *c = arg;
	char whole[INCIDENT_ID_BYTES];

	return !store_incident_id(c->store, NULL, id, whole);
}

static int start_thread(struct commit *c)
{
	pthread_mutex_init(&c->lock, NULL);
	cond_init_monotonic(&c->wake);
	return -pthread_create(&c->thread, NULL, thread_main, c);
}

int commit_open(struct commit **out, const struct commit_config *config, struct fleet *fleet)
{
	struct commit *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->config = *config;
	c->config.incident.reporter = clock_realtime_ns();
	c->config.incident.is_taken = is_stored;
	c->config.incident.taken_arg = c;
	c->opened_ns = clock_monotonic_ns();
	c->fleet = fleet;
	fleet_sources(fleet, &c->config.incident.sources);
	STAILQ_INIT(&c->items);
	STAILQ_INIT(&c->findings);
	err = store_open(&c->store, config->dir);
	if (!err && config->opened)
		config->opened(config->name_arg);
	if (!err)
		err = restore(c);
	if (!err)
		err = store_totals(c->store, &c->stats.store);
	if (!err)
		err = start_thread(c);
	if (err) {
		incident_set_close(c->set);
		store_close(c->store);
		free(c);
		return err;
	}
	*out = c;
	return 0;
}

void commit_stop(struct commit *c)
{
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	CHECK(STAILQ_EMPTY(&c->items));
}

void commit_close(struct commit *c)
{
	if (!c)
		return;
	settle_findings(c, &c->findings, 0);
	incident_set_close(c->set);
	store_close(c->store);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

int commit_push(struct commit *c, struct commit_item *item)
{
	int err = 0;

	pthread_mutex_lock(&c->lock);
	if (c->closing)
		err = -ESHUTDOWN;
	else if (c->stats.pending_bytes + item->bytes > LIMIT_PENDING_BYTES)
		err = -EBUSY;
	if (err) {
		c->stats.retries++;
	} else {
		STAILQ_INSERT_TAIL(&c->items, item, next);
		c->stats.pending_bytes += item->bytes;
		pthread_cond_signal(&c->wake);
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

int commit_push_finding(struct commit *c, const struct finding_report *f)
{
	struct waiting_finding *t = malloc(sizeof(*t));
	int err = t ? 0 : -ENOMEM;

	pthread_mutex_lock(&c->lock);
	if (!err && c->closing)
		err = -ESHUTDOWN;
	else if (!err && c->finding_count >= LIMIT_COMMIT_FINDINGS)
		err = -EBUSY;
	if (err) {
		c->stats.findings_dropped++;
	} else {
		t->finding = *f;
		STAILQ_INSERT_TAIL(&c->findings, t, next);
		c->finding_count++;
		pthread_cond_signal(&c->wake);
	}
	pthread_mutex_unlock(&c->lock);
	if (err)
		free(t);
	return err;
}

void commit_stats(struct commit *c, struct commit_stats *out)
{
	pthread_mutex_lock(&c->lock);
	*out = c->stats;
	pthread_mutex_unlock(&c->lock);
}

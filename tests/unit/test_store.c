/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregator/store/store_private.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/text/jsonget.h"

static char dir[64];
static struct store *store;

static int setup(void **unused)
{
	strcpy(dir, "/tmp/test_store_XXXXXX");
	return mkdtemp(dir) ? store_open(&store, dir) : -1;
}

static int teardown(void **unused)
{
	char command[128];

	store_close(store);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static struct digest digest(uint8_t id)
{
	struct digest d = {
	    .id = {id}, .reason = WINDOW_SELF, .begin_unix_ns = 100, .end_unix_ns = 200};

	strcpy(d.rank.job, "it's a job");
	strcpy(d.rank.node, "node");
	d.rank.rank = id;
	return d;
}

static int put(uint8_t id, uint64_t received, size_t bytes)
{
	struct digest d = digest(id);
	uint8_t *body = calloc(1, bytes);
	int n;

	body[0] = id;
	assert_int_equal(store_begin(store), 0);
	n = store_put_window(store, &d, received, body, bytes);
	assert_int_equal(store_commit(store), 0);
	free(body);
	return n;
}

static int body_of(struct store *s, uint8_t id, size_t *bytes)
{
	uint8_t key[16] = {id};
	struct buf b;
	int err;

	buf_init(&b, 1 << 20);
	err = store_window_body(s, NULL, key, &b);
	if (!err)
		assert_int_equal(b.data[0], id);
	*bytes = b.bytes;
	buf_fini(&b);
	return err;
}

static json_t *list(const char *job, const char *state, uint32_t limit, const char *after)
{
	struct store_list q = {.job = job, .state = state, .limit = limit};
	struct buf b;
	json_t *j;

	if (after)
		assert_int_equal(store_list_after(&q, after), 0);
	buf_init(&b, 64 << 20);
	assert_int_equal(store_list(store, &q, &b), 0);
	j = json_loadb((char *)b.data, b.bytes, 0, NULL);
	assert_non_null(j);
	buf_fini(&b);
	return j;
}

static void stores_a_window_once(void **unused)
{
	struct store_totals t;
	size_t n;

	assert_int_equal(put(7, 1000, 5000), 1);
	assert_int_equal(put(7, 1001, 6000), 0);
	assert_int_equal(body_of(store, 7, &n), 0);
	assert_int_equal(n, 5000);
	assert_int_equal(body_of(store, 8, &n), -ENOENT);
	assert_int_equal(store_totals(store, &t), 0);
	assert_int_equal(t.windows, 1);
}

static void a_reader_sees_what_was_committed_and_nothing_else(void **unused)
{
	struct digest d = digest(1);
	struct store *reader;
	size_t n;

	assert_int_equal(store_open_reader(&reader, dir), 0);
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_window(store, &d, 1, "\1", 1), 1);
	assert_int_equal(body_of(reader, 1, &n), -ENOENT);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(body_of(reader, 1, &n), 0);
	assert_int_equal(store_begin(store), 0);
	d = digest(2);
	assert_int_equal(store_put_window(store, &d, 1, "\2", 1), 1);
	store_rollback(store);
	assert_int_equal(body_of(reader, 2, &n), -ENOENT);
	store_close(reader);
}

static void refuses_a_second_writer_and_foreign_files(void **unused)
{
	struct store *second;
	char path[128];
	FILE *f;

	assert_int_equal(store_open(&second, dir), -EBUSY);
	snprintf(path, sizeof(path), "%s/other", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/other/store.db", dir);
	f = fopen(path, "w");
	fprintf(f, "this is no database, and long enough to look like a header of one............");
	fclose(f);
	snprintf(path, sizeof(path), "%s/other", dir);
	assert_true(store_open(&second, path) < 0);
}

static void keeps_everything_over_a_reopen(void **unused)
{
	struct incident_row row = {
	    .open = true, .begin_unix_ns = 5, .end_unix_ns = 6, .arrival_unix_ns = 7};
	uint8_t id[16] = {3};
	json_t *j;
	size_t n;

	strcpy(row.id, "0123abcd");
	strcpy(row.job, "it's a job");
	assert_int_equal(put(3, 1000, 100), 1);
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_incident(store, &row, "{\"id\":\"0123abcd\"}"), 0);
	assert_int_equal(store_set_window_incident(store, id, row.id), 0);
	assert_int_equal(store_commit(store), 0);
	store_close(store);
	assert_int_equal(store_open(&store, dir), 0);
	assert_int_equal(body_of(store, 3, &n), 0);
	assert_int_equal(put(3, 2000, 100), 0);
	j = store_incident_json(store, "0123abcd");
	assert_int_equal(json_array_size(json_object_get(j, "windows")), 1);
	json_decref(j);
	j = list("it's a job", "open", 10, NULL);
	assert_int_equal(json_array_size(json_object_get(j, "incidents")), 1);
	json_decref(j);
	j = list(NULL, "closed", 10, NULL);
	assert_int_equal(json_array_size(json_object_get(j, "incidents")), 0);
	json_decref(j);
}

static int count_row(void *arg, const struct incident_row *row)
{
	(void)row;
	++*(int *)arg;
	return 0;
}

static int count_open(void *arg, const struct incident_row *row)
{
	*(uint32_t *)arg += row->open;
	return 0;
}

/* However many closed ones are younger. */
static void an_open_incident_is_among_those_to_restore(void **unused)
{
	struct incident_row row = {.id = "00000000", .open = true, .arrival_unix_ns = 1};
	uint32_t open = 0;

	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k <= LIMIT_INCIDENTS_LIVE; k++) {
		assert_int_equal(store_put_incident(store, &row, "{}"), 0);
		row = (struct incident_row){.arrival_unix_ns = 100};
		snprintf(row.id, sizeof(row.id), "%08x", k + 1);
	}
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(store_each_incident(store, 50, count_open, &open), 0);
	assert_int_equal(open, 1);
}

static void merges_incidents(void **unused)
{
	struct incident_row a = {.id = "aaaaaaaa", .open = true, .arrival_unix_ns = 9},
			    b = {.id = "bbbbbbbb", .open = true, .arrival_unix_ns = 9};
	uint8_t id[16] = {3};
	int rows = 0;
	json_t *j;

	assert_int_equal(put(3, 1000, 100), 1);
	assert_int_equal(store_begin(store), 0);
	store_put_incident(store, &a, "{}");
	store_put_incident(store, &b, "{}");
	store_set_window_incident(store, id, "bbbbbbbb");
	assert_int_equal(store_merge_incident(store, "aaaaaaaa", "bbbbbbbb"), 0);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(store_each_incident(store, 0, count_row, &rows), 0);
	assert_int_equal(rows, 1);
	j = store_incident_json(store, "bbbbbbbb");
	assert_string_equal(json_string_value(json_object_get(j, "merged_from")), "bbbbbbbb");
	assert_int_equal(json_array_size(json_object_get(j, "windows")), 1);
	json_decref(j);
	j = store_incident_json(store, "aaaaaaaa");
	assert_null(json_object_get(j, "merged_from"));
	assert_int_equal(json_array_size(json_object_get(j, "windows")), 1);
	json_decref(j);
	assert_null(store_incident_json(store, "cccccccc"));
}

/* kind, time of the JSON; the row begins earlier, as it holds the windows */
static void put_at(const char *id, const char *job, const char *kind, uint64_t begin, uint64_t end,
		   const char *more)
{
	struct incident_row row = {.begin_unix_ns = begin - 5, .end_unix_ns = end};
	char text[400];

	snprintf(row.id, sizeof(row.id), "%s", id);
	snprintf(row.job, sizeof(row.job), "%s", job);
	snprintf(text, sizeof(text),
		 "{\"id\":\"%s\",\"job\":\"%s\",\"kind\":\"%s\",\"ranks\":[3],"
		 "\"begin_unix_ns\":\"%d\",\"end_unix_ns\":\"%d\"%s}",
		 id, job, kind, (int)begin, (int)end, more);
	assert_int_equal(store_put_incident(store, &row, text), 0);
}

static void late_requests_name_the_incident_of_their_slow_step(void **unused)
{
	json_t *j, *step;

	assert_int_equal(store_begin(store), 0);
	put_at("0000000a", "serve@1", "slow_rank", 100, 900, "");
	put_at("0000000b", "serve@1", "slow_rank", 400, 500, ""); /* the shorter one */
	put_at("00000009", "serve@1", "slow_rank", 445, 447, ",\"symptom\":\"transient\"");
	put_at("0000000c", "serve@1", "slow_rank", 455, 470, ""); /* after it, and not its row */
	put_at("0000000d", "serve@1", "slow_rank", 430, 439, ""); /* before it */
	put_at("0000000e", "other@1", "slow_rank", 441, 449, "");
	put_at("0000000f", "serve@1", "requests", 420, 460, "");
	put_at("000000aa", "serve@1", "requests", 300, 2000,
	       ",\"findings\":[{\"step_begin_unix_ns\":\"440\",\"step_end_unix_ns\":\"452\"}]");
	put_at("000000ab", "serve@1", "requests", 3000, 4000,
	       ",\"findings\":[{\"step_begin_unix_ns\":\"3100\",\"step_end_unix_ns\":\"3200\"}]");
	assert_int_equal(store_commit(store), 0);
	j = store_incident_json(store, "000000aa");
	step = json_object_get(j, "step_incident");
	assert_string_equal(json_string_value(json_object_get(step, "id")), "0000000b");
	assert_string_equal(json_string_value(json_object_get(step, "title")), "rank 3 is slow");
	json_decref(j);
	j = store_incident_json(store, "000000ab");
	assert_true(json_is_null(json_object_get(j, "step_incident")));
	json_decref(j);
	j = store_incident_json(store, "0000000a");
	assert_null(json_object_get(j, "step_incident"));
	json_decref(j);
}

static void an_id_may_be_as_short_as_is_unique(void **unused)
{
	struct incident_row rows[4] = {
	    {.id = "0123abcd"}, {.id = "0123abff"}, {.id = "f9999999"}, {.id = "ffffffff"}};
	char id[INCIDENT_ID_BYTES];

	assert_int_equal(store_begin(store), 0);
	for (int k = 0; k < 4; k++)
		assert_int_equal(store_put_incident(store, &rows[k], "{}"), 0);
	assert_int_equal(store_merge_incident(store, "f9999999", "0123abff"), 0);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(store_incident_id(store, NULL, "0123abc", id), 0);
	assert_string_equal(id, "0123abcd");
	assert_int_equal(store_incident_id(store, NULL, "0123abff", id), 0);
	assert_string_equal(id, "0123abff");
	assert_int_equal(store_incident_id(store, NULL, "ff", id), 0);
	assert_string_equal(id, "ffffffff");
	assert_int_equal(store_incident_id(store, NULL, "f9", id),
			 0); /* which became part of another */
	assert_string_equal(id, "f9999999");
	assert_int_equal(store_incident_id(store, NULL, "f", id), -ENOTUNIQ);
	assert_int_equal(store_incident_id(store, NULL, "0", id), -ENOTUNIQ);
	assert_int_equal(store_incident_id(store, NULL, "1", id), -ENOENT);
	assert_int_equal(store_incident_id(store, NULL, "", id), -ENOENT);
	assert_int_equal(store_incident_id(store, NULL, "0123abcd0", id), -ENOENT);
	assert_int_equal(store_incident_id(store, NULL, "%", id), -ENOENT);
}

static void follows_an_incident_that_was_merged_twice(void **unused)
{
	struct incident_row rows[3] = {{.id = "aaaaaaaa"}, {.id = "bbbbbbbb"}, {.id = "cccccccc"}};
	json_t *j;

	assert_int_equal(store_begin(store), 0);
	for (int k = 0; k < 3; k++)
		assert_int_equal(store_put_incident(store, &rows[k], k ? "{}" : "{\"id\":\"a\"}"),
				 0);
	assert_int_equal(store_merge_incident(store, "bbbbbbbb", "cccccccc"), 0);
	assert_int_equal(store_merge_incident(store, "aaaaaaaa", "bbbbbbbb"), 0);
	assert_int_equal(store_commit(store), 0);
	j = store_incident_json(store, "cccccccc");
	assert_string_equal(json_string_value(json_object_get(j, "id")), "a");
	json_decref(j);
}

static void keeps_findings_with_their_incident(void **unused)
{
	struct incident_row row = {.id = "aaaaaaaa"};
	json_t *list;

	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_incident(store, &row, "{}"), 0);
	assert_int_equal(store_put_findings(store, "aaaaaaaa", "[1]"), 0);
	assert_int_equal(store_put_findings(store, "aaaaaaaa", "[1,2]"), 0);
	assert_int_equal(store_commit(store), 0);
	list = store_findings(store, "aaaaaaaa");
	assert_int_equal(json_array_size(list), 2);
	json_decref(list);
	assert_null(store_findings(store, "bbbbbbbb"));
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_findings(store, "aaaaaaaa", NULL), 0);
	assert_int_equal(store_commit(store), 0);
	assert_null(store_findings(store, "aaaaaaaa"));
}

static void the_feed_has_each_write_once_and_in_order(void **unused)
{
	struct incident_row a = {.id = "aaaaaaaa", .updated_unix_ns = 1 << 20},
			    b = {.id = "bbbbbbbb", .updated_unix_ns = 1 << 21};
	struct buf out;

	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_incident(store, &b, "{\"id\":\"b\"}"), 0);
	assert_int_equal(store_put_incident(store, &a, "{\"id\":\"a\"}"), 0);
	assert_int_equal(store_commit(store), 0);
	buf_init(&out, 1 << 16);
	assert_int_equal(store_feed(store, NULL, 0, 10, &out), 0);
	buf_append(&out, "", 1);
	assert_string_equal((char *)out.data, "{\"updated_unix_ns\":\"1048576\",\"id\":\"a\"}\n"
					      "{\"updated_unix_ns\":\"2097152\",\"id\":\"b\"}\n");
	out.bytes = 0;
	assert_int_equal(store_feed(store, NULL, 1 << 20, 10, &out), 0);
	buf_append(&out, "", 1);
	assert_string_equal((char *)out.data, "{\"updated_unix_ns\":\"2097152\",\"id\":\"b\"}\n");
	out.bytes = 0;
	assert_int_equal(store_feed(store, NULL, 1 << 21, 10, &out), 0);
	assert_int_equal(out.bytes, 0);
	buf_fini(&out);
}

static void assert_totals_are_right(void);
static int64_t count(const char *text);

/* A store as an earlier version made it: a copy stays, what it holds is still there, and new things
 * find their place. Where no copy can be made, nothing is changed. */
static void take_over(int version)
{
	struct incident_row row = {.id = "bbbbbbbb", .updated_unix_ns = 5};
	char command[1024];
	json_t *j;
	size_t n;

	store_close(store);
	store = NULL;
	snprintf(command, sizeof(command),
		 "rm -f %s/store.db* && python3 tests/unit/store_old.py %d %s/store.db && "
		 "sqlite_dump() { python3 -c 'import sqlite3,sys\nfor l in "
		 "sqlite3.connect(sys.argv[1]).iterdump(): print(l)' $1; } && "
		 "sqlite_dump %s/store.db >%s/before",
		 dir, version, dir, dir, dir);
	assert_int_equal(system(command), 0);
	/* something is in the copy's way: the store is not touched; a killed process left a part */
	snprintf(command, sizeof(command),
		 "cd %s && mkdir store.db.v%d && touch store.db.v%d.7-0.tmp "
		 "store.db.v%d.7-0.tmp-journal",
		 dir, version, version, version);
	assert_int_equal(system(command), 0);
	assert_true(store_open(&store, dir) < 0);
	store = NULL;
	snprintf(command, sizeof(command),
		 "rmdir %s/store.db.v%d && python3 -c 'import sqlite3,sys\nsys.exit("
		 "sqlite3.connect(sys.argv[1]).execute(\"PRAGMA user_version\").fetchone()[0] != "
		 "%d)' %s/store.db && test -z \"$(ls %s | grep tmp)\"",
		 dir, version, version, dir, dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(store_open(&store, dir), 0);
	snprintf(command, sizeof(command),
		 "python3 -c 'import sqlite3,sys\nfor l in "
		 "sqlite3.connect(sys.argv[1]).iterdump(): print(l)' %s/store.db.v%d >%s/after && "
		 "cmp %s/before %s/after",
		 dir, version, dir, dir, dir);
	assert_int_equal(system(command), 0);
	assert_totals_are_right();
	j = store_incident_json(store, "aaaaaaaa");
	assert_string_equal(json_string_value(json_object_get(j, "id")), "aaaaaaaa");
	assert_string_equal(json_string_value(json_object_get(j, "symptom")), "transient");
	assert_int_equal(json_array_size(json_object_get(j, "windows")), 1);
	json_decref(j);
	j = list("job", "closed", 10, NULL);
	assert_int_equal(json_array_size(json_object_get(j, "incidents")), 1);
	json_decref(j);
	assert_int_equal(body_of(store, 0, &n), 0);
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_incident(store, &row, "{}"), 0);
	assert_int_equal(store_put_findings(store, "bbbbbbbb", "[1]"), 0);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(put(9, 1000, 100), 1);
	assert_totals_are_right();
	store_close(store);
	assert_int_equal(store_open(&store, dir), 0);
	assert_totals_are_right();
}

static void takes_over_a_store_of_version_1(void **unused)
{
	take_over(1);
}

static void takes_over_a_store_of_version_2(void **unused)
{
	json_t *kept, *one;

	take_over(2);
	kept = store_findings(store, "aaaaaaaa");
	assert_int_equal(json_array_size(kept), 1);
	one = json_array_get(kept, 0);
	assert_int_equal(jsonget_unsigned(one, "reporter"), 2);
	assert_int_equal(jsonget_unsigned(one, "reported_begin_unix_ns"), 7);
	json_decref(kept);
	assert_null(store_findings(store, "cccccccc")); /* of an incident that is gone */
}

static void take_over_with_owners(int version)
{
	take_over(version);
	assert_int_equal(count("SELECT owner FROM incidents WHERE id='dddddddd'"), 1000);
	assert_int_equal(count("SELECT owner FROM windows WHERE job='mine@1000'"), 1000);
	assert_int_equal(count("SELECT bytes FROM owners WHERE owner=1000"), 1 + 17);
	assert_int_equal(count("SELECT owner FROM incidents WHERE id='aaaaaaaa'"), -1);
	assert_int_equal(count("SELECT owner FROM merged WHERE id='eeeeeeee'"), 1000);
}

static void takes_over_a_store_of_version_4(void **unused)
{
	take_over_with_owners(4);
}

static void takes_over_a_store_of_version_5(void **unused)
{
	take_over_with_owners(5);
}

#define NOW 1000000000ull
/* keeps everything, whatever its age */
static const struct retention forever = {
    .rest = {.window_age_ns = UINT64_MAX, .incident_age_ns = UINT64_MAX}};

static int expire(uint64_t windows_before, uint64_t incidents_before, uint64_t max_bytes)
{
	const struct retention r = {.rest = {.window_age_ns = NOW - windows_before,
					     .incident_age_ns = NOW - incidents_before}};
	const struct store_bounds b = {.retention = &r, .now_unix_ns = NOW, .max_bytes = max_bytes};
	struct store_removed removed = {0};
	int err = store_expire(store, &b, &removed);

	return err ? err : (int)removed.bodies;
}

static void expires_evidence_by_age_but_remembers_ids(void **unused)
{
	size_t n;

	put(1, 1000, 100);
	put(2, 3000, 100);
	assert_int_equal(expire(2000, 500, 0), 1);
	assert_int_equal(body_of(store, 1, &n), -ESTALE);
	assert_int_equal(body_of(store, 2, &n), 0);
	assert_int_equal(put(1, 4000, 100), 0); /* a late copy still counts once */
	assert_int_equal(expire(2000, 2000, 0), 0);
	assert_int_equal(body_of(store, 1, &n), -ENOENT);
}

static void expires_the_oldest_evidence_by_size(void **unused)
{
	struct store_totals t;
	size_t n;

	for (uint8_t i = 1; i <= 60; i++)
		put(i, 1000u + i, 100000);
	assert_int_equal(store_totals(store, &t), 0);
	assert_true(t.bytes > 6000000);
	assert_true(expire(0, 0, 2000000) >= 40);
	assert_int_equal(store_totals(store, &t), 0);
	assert_true(t.bytes <= 2000000);
	assert_int_equal(t.windows, 60);
	assert_int_equal(body_of(store, 1, &n), -ESTALE);
	assert_int_equal(body_of(store, 60, &n), 0);
}

static uint64_t file_bytes(void)
{
	struct stat st;
	char path[128];

	snprintf(path, sizeof(path), "%s/store.db", dir);
	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

static void put_batch(uint32_t first, uint32_t count, size_t bytes)
{
	uint8_t *body = calloc(1, bytes);

	for (uint32_t i = first; i < first + count; i++) {
		struct digest d = digest(1);

		memcpy(d.id, &i, sizeof(i));
		assert_int_equal(store_put_window(store, &d, 1000 + i, body, bytes), 1);
	}
	free(body);
}

/* Windows that come as fast as they can: each transaction makes room for what it brought. */
static void the_file_keeps_its_bound_at_any_rate(void **unused)
{
	const struct store_bounds b = {.retention = &forever, .max_bytes = 8 << 20};
	struct store_removed removed = {0};
	struct store_totals t;

	for (uint32_t k = 0; k < 40; k++) {
		assert_int_equal(store_begin(store), 0);
		put_batch(k * LIMIT_COMMIT_WINDOWS, LIMIT_COMMIT_WINDOWS, 64 << 10);
		assert_int_equal(store_keep(store, &b, &removed), 0);
		assert_int_equal(store_commit(store), 0);
		assert_int_equal(store_totals(store, &t), 0);
		assert_true(t.bytes <= b.max_bytes);
	}
	assert_int_equal(t.windows, 40 * LIMIT_COMMIT_WINDOWS);
	assert_true(t.bodies > 64);
	/* the file itself: what one transaction brings is not there twice */
	assert_true(file_bytes() <= b.max_bytes + LIMIT_COMMIT_WINDOWS * (72 << 10));
}

/* Nor do the rows of windows whose evidence is gone fill the file. */
static void rows_without_evidence_have_a_part_of_the_file(void **unused)
{
	const struct store_bounds b = {.retention = &forever, .max_bytes = 2 << 20};
	struct store_removed removed = {0};
	struct store_totals t;

	for (uint32_t k = 0; k < 200; k++) {
		assert_int_equal(store_begin(store), 0);
		put_batch(k * LIMIT_COMMIT_WINDOWS, LIMIT_COMMIT_WINDOWS, 500);
		assert_int_equal(store_keep(store, &b, &removed), 0);
		assert_int_equal(store_commit(store), 0);
	}
	assert_int_equal(store_totals(store, &t), 0);
	assert_true(t.bytes <= b.max_bytes);
	assert_true(t.bodies >= 64);
	assert_true((t.windows - t.bodies) * 400 <= b.max_bytes / 4 + 16 * 400);
}

/* What is left when incidents alone are too much: the youngest. */
static void closed_incidents_go_when_nothing_else_is_left(void **unused)
{
	char *body = malloc(20001);
	struct store_totals t;
	json_t *j;

	memset(body, ' ', 20000);
	memcpy(body, "{\"a\":1", 6);
	strcpy(body + 19999, "}");
	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k < 100; k++) {
		struct incident_row row = {
		    .open = k == 0, .arrival_unix_ns = k, .begin_unix_ns = k};

		snprintf(row.id, sizeof(row.id), "%08x", k);
		assert_int_equal(store_put_incident(store, &row, body), 0);
	}
	assert_int_equal(store_commit(store), 0);
	free(body);
	assert_true(expire(0, 0, 1 << 20) >= 0);
	assert_int_equal(store_totals(store, &t), 0);
	assert_true(t.bytes <= 1 << 20 && t.incidents >= 16);
	assert_int_equal(t.open_incidents, 1);
	j = store_incident_json(store, "00000000");
	assert_non_null(j);
	json_decref(j);
	j = store_incident_json(store, "00000063");
	assert_non_null(j);
	json_decref(j);
}

/* ---- large stores ---- */

/* Whether the statement reads its table from the index, by SQLite's own plan. */
static bool reads_all(enum statement which)
{
	char text[2048];
	sqlite3_stmt *st = NULL;
	bool bad = false;
	/* Of several users' jobs of one name there is no index by time: their rows are sorted. */
	bool sorts = which == ST_EACH_BODY || which == ST_LIST_NAME || which == ST_LIST_NAME_STATE;

	snprintf(text, sizeof(text), "EXPLAIN QUERY PLAN %s", store_sql[which]);
	assert_int_equal(sqlite3_prepare_v2(store->sql.db, text, -1, &st, NULL), SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW) {
		const char *detail = (const char *)sqlite3_column_text(st, 3);
		bool pages = which == ST_PAGES && strstr(detail, "VIRTUAL TABLE");

		if ((!strncmp(detail, "SCAN", 4) && !pages) ||
		    (strstr(detail, "TEMP B-TREE") && !sorts)) {
			fprintf(stderr, "%s\n  %s\n", store_sql[which], detail);
			bad = true;
		}
	}
	sqlite3_finalize(st);
	return bad;
}

static void no_statement_reads_a_whole_table(void **unused)
{
	bool bad = false;

	for (enum statement k = ST_PUT_WINDOW; k < ST_COUNT; k++)
		bad |= reads_all(k);
	assert_false(bad);
}

static void put_incidents(uint32_t first, uint32_t count)
{
	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = first; k < first + count; k++) {
		struct incident_row row = {.open = k % 100 == 0,
					   .begin_unix_ns = 1000 + k / 3,
					   .arrival_unix_ns = 1000 + k,
					   .updated_unix_ns = 2048 * k};
		char body[64];

		snprintf(row.id, sizeof(row.id), "%08x", k);
		snprintf(row.job, sizeof(row.job), "job%u", k % 50);
		snprintf(body, sizeof(body), "{\"id\":\"%s\",\"n\":%u}", row.id, k);
		assert_int_equal(store_put_incident(store, &row, body), 0);
	}
	assert_int_equal(store_commit(store), 0);
}

static size_t listed(const char *job)
{
	json_t *j = list(job, NULL, 20, NULL);
	size_t n = json_array_size(json_object_get(j, "incidents"));

	json_decref(j);
	return n;
}

static void a_name_lists_the_jobs_of_all_users_and_a_key_one(void **unused)
{
	static const char *const jobs[] = {"train@0",	"train@1000", "train",	    "train@x@7",
					   "train2@0",	"trains@0",   "other@1000", "array#1@5",
					   "array#2@5", "array#3@6",  "array2#1@5"};

	assert_int_equal(store_begin(store), 0);
	for (unsigned k = 0; k < ARRAY_LEN(jobs); k++) {
		struct incident_row row = {
		    .begin_unix_ns = 1 + k, .arrival_unix_ns = 1 + k, .updated_unix_ns = 1 + k};

		snprintf(row.id, sizeof(row.id), "%08x", k);
		snprintf(row.job, sizeof(row.job), "%s", jobs[k]);
		assert_int_equal(store_put_incident(store, &row, "{}"), 0);
	}
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(listed("train"), 3);
	assert_int_equal(listed("train@1000"), 1);
	assert_int_equal(listed("train@x"), 1);
	assert_int_equal(listed("other"), 1);
	assert_int_equal(listed("train@5"), 0);
	assert_int_equal(listed("trai"), 0);
	assert_int_equal(listed("array"), 3);
	assert_int_equal(listed("array@5"), 2);
	assert_int_equal(listed("array#3"), 1);
	assert_int_equal(listed(NULL), ARRAY_LEN(jobs));
}

/* Steps of SQLite's machine in one list: in proportion to the rows it visited. */
static int steps_of(enum statement which, const char *job, const char *state)
{
	json_t *j = list(job, state, 20, NULL);
	int n = sqlite3_stmt_status(store->sql.statement[which], SQLITE_STMTSTATUS_VM_STEP, 1);

	assert_int_equal(json_array_size(json_object_get(j, "incidents")), 20);
	json_decref(j);
	return n;
}

static void a_job_is_listed_by_its_index_whatever_other_names_begin_alike(void **unused)
{
	struct incident_row row = {.begin_unix_ns = 1, .arrival_unix_ns = 1, .updated_unix_ns = 1};

	assert_int_equal(store_begin(store), 0);
	for (unsigned k = 0; k < 200; k++) {
		snprintf(row.id, sizeof(row.id), "%08x", k);
		if (k < 199)
			snprintf(row.job, sizeof(row.job), "run%s%u%s", k < 100 ? "" : "-", k,
				 k < 100 ? "@1" : "");
		else
			strcpy(row.job, "run@7");
		assert_int_equal(store_put_incident(store, &row, "{}"), 0);
	}
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(listed("run"), 1);
	assert_int_equal(listed("run@7"), 1);
	assert_int_equal(listed("run5"), 1);
	assert_int_equal(listed("run4"), 1);
	/* the list that looks at every row of such names was never needed */
	assert_null(store->sql.statement[ST_LIST_NAME]);
}

static void lists_and_totals_cost_the_same_however_large_the_store_is(void **unused)
{
	static const struct {
		enum statement which;
		const char *job, *state;
	} lists[] = {{ST_LIST, NULL, NULL},
		     {ST_LIST_JOB, "job7", NULL},
		     {ST_LIST_STATE, NULL, "closed"},
		     {ST_LIST_STATE, NULL, "open"},
		     {ST_LIST_JOB_STATE, "job7", "closed"}};
	int small[ARRAY_LEN(lists)], totals;
	struct store_totals t;

	put_incidents(0, 2000);
	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		small[k] = steps_of(lists[k].which, lists[k].job, lists[k].state);
	assert_int_equal(store_totals(store, &t), 0);
	totals = sqlite3_stmt_status(store->sql.statement[ST_TOTALS], SQLITE_STMTSTATUS_VM_STEP, 1);
	put_incidents(2000, 18000);
	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		assert_in_range(steps_of(lists[k].which, lists[k].job, lists[k].state), 1,
				small[k] + 50);
	assert_int_equal(store_totals(store, &t), 0);
	assert_int_equal(
	    sqlite3_stmt_status(store->sql.statement[ST_TOTALS], SQLITE_STMTSTATUS_VM_STEP, 1),
	    totals);
	assert_int_equal(t.incidents, 20000);
	assert_int_equal(t.open_incidents, 200);
}

static uint32_t walk(const char *job, const char *state, uint32_t limit)
{
	char next[64] = "", before[64] = "~";
	uint32_t n = 0;

	for (;;) {
		json_t *j = list(job, state, limit, *next ? next : NULL), *one;
		const char *more;
		size_t k;

		json_array_foreach (json_object_get(j, "incidents"), k, one) {
			char at[64];
			uint32_t number = (uint32_t)json_integer_value(json_object_get(one, "n"));

			snprintf(at, sizeof(at), "%08x%08x", number / 3, number);
			assert_true(strcmp(at, before) < 0);
			strcpy(before, at);
			n++;
		}
		more = json_string_value(json_object_get(j, "next"));
		snprintf(next, sizeof(next), "%s", more ? more : "");
		json_decref(j);
		if (!*next)
			return n;
	}
}

static void pages_have_each_incident_once_and_in_order(void **unused)
{
	struct store_list q = {0};

	put_incidents(0, 1000);
	assert_int_equal(walk(NULL, NULL, 7), 1000);
	assert_int_equal(walk(NULL, NULL, 1000), 1000);
	assert_int_equal(walk("job3", NULL, 3), 20);
	assert_int_equal(walk(NULL, "open", 4), 10);
	assert_int_equal(walk("job0", "closed", 3), 10);
	assert_int_equal(walk("nobody", NULL, 3), 0);
	assert_int_equal(store_list_after(&q, ""), -EINVAL);
	assert_int_equal(store_list_after(&q, "x000000000000000aaaaaaaa"), -EINVAL);
	assert_int_equal(store_list_after(&q, "ffffffffffffffffaaaaaaaa"), -EINVAL);
}

static void a_page_ends_where_it_is_large(void **unused)
{
	size_t bytes = LIMIT_API_LIST_BYTES / 3;
	char *body = malloc(bytes + 1);
	json_t *j;

	memset(body, ' ', bytes);
	memcpy(body, "{\"a\":1", 6);
	strcpy(body + bytes - 1, "}");
	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k < 10; k++) {
		struct incident_row row = {.begin_unix_ns = k};

		snprintf(row.id, sizeof(row.id), "%08x", k);
		assert_int_equal(store_put_incident(store, &row, body), 0);
	}
	assert_int_equal(store_commit(store), 0);
	free(body);
	j = list(NULL, NULL, 1000, NULL);
	assert_in_range(json_array_size(json_object_get(j, "incidents")), 3, 5);
	assert_non_null(json_object_get(j, "next"));
	json_decref(j);
}

/* ---- quotas ---- */

static int put_of(const char *job, uint32_t id, size_t bytes)
{
	struct digest d = digest(1);
	uint8_t *body = calloc(1, bytes);
	int n;

	memcpy(d.id, &id, sizeof(id));
	snprintf(d.rank.job, sizeof(d.rank.job), "%s", job);
	n = store_put_window(store, &d, 1000 + id, body, bytes);
	free(body);
	return n;
}

static bool has(uint32_t id)
{
	uint8_t key[16] = {0};
	struct buf b;
	int err;

	memcpy(key, &id, sizeof(id));
	buf_init(&b, 1 << 20);
	err = store_window_body(store, NULL, key, &b);
	buf_fini(&b);
	return !err;
}

static struct store_removed keep(const struct store_bounds *b)
{
	struct store_removed removed = {0};

	assert_int_equal(store_expire(store, b, &removed), 0);
	return removed;
}

static void a_job_beyond_its_quota_loses_its_own_oldest_windows(void **unused)
{
	struct retention r = forever;
	const struct store_bounds b = {.retention = &r};
	struct store_removed removed;
	char job[WIRE_TEXT_BYTES];
	uint64_t bytes;

	r.rest.bytes = 10000;
	assert_int_equal(store_begin(store), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(put_of("small@7", i, 1000), 1);
	for (uint32_t i = 100; i < 130; i++)
		assert_int_equal(put_of("large@8", i, 1000), 1);
	assert_int_equal(store_commit(store), 0);
	removed = keep(&b);
	assert_int_equal(removed.quota_bodies, 20);
	assert_int_equal(removed.bodies, 20);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(has(i));
	for (uint32_t i = 100; i < 130; i++)
		assert_int_equal(has(i), i >= 120);
	assert_int_equal(store_largest_job(store, job, &bytes), 0);
	assert_string_equal(job, "large@8");
	assert_int_equal(bytes, 10000);
	assert_int_equal(keep(&b).bodies, 0);
	assert_totals_are_right();
}

static void a_job_beyond_its_quota_loses_its_oldest_closed_incidents(void **unused)
{
	struct retention r = forever;
	const struct store_bounds b = {.retention = &r};

	r.rest.incidents = 5;
	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k < 30; k++) {
		struct incident_row row = {.begin_unix_ns = k, .open = k == 1};

		snprintf(row.id, sizeof(row.id), "%08x", k);
		strcpy(row.job, k == 0 ? "other@1" : "many@2");
		assert_int_equal(store_put_incident(store, &row, "{}"), 0);
	}
	assert_int_equal(store_commit(store), 0);
	assert_totals_are_right();
	assert_int_equal(keep(&b).quota_incidents, 23);
	assert_int_equal(listed("other@1"), 1);
	assert_int_equal(listed("many@2"), 6); /* one is open */
	assert_totals_are_right();
}

/* Texts of incidents count too: a job without any window is no way around its quota. */
static void the_texts_of_incidents_count_for_the_quota(void **unused)
{
	struct retention r = forever;
	const struct store_bounds b = {.retention = &r};
	char *body = malloc(10001), job[WIRE_TEXT_BYTES];
	uint64_t bytes;

	memset(body, ' ', 10000);
	memcpy(body, "{\"a\":1", 6);
	strcpy(body + 9999, "}");
	r.rest.bytes = 50000;
	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k < 30; k++) {
		struct incident_row row = {.begin_unix_ns = k, .arrival_unix_ns = k};

		snprintf(row.id, sizeof(row.id), "%08x", k);
		strcpy(row.job, k < 2 ? "other@1" : "texts@2");
		assert_int_equal(store_put_incident(store, &row, body), 0);
		assert_int_equal(store_put_incident(store, &row, body), 0); /* written anew */
	}
	free(body);
	assert_int_equal(put_of("texts@2", 1, 1000), 1);
	assert_int_equal(store_commit(store), 0);
	assert_totals_are_right();
	assert_int_equal(store_largest_job(store, job, &bytes), 0);
	assert_string_equal(job, "texts@2");
	assert_int_equal(bytes, 281000);
	assert_int_equal(keep(&b).quota_incidents, 23);
	assert_false(has(1)); /* evidence goes first */
	assert_int_equal(listed("texts@2"), 5);
	assert_int_equal(listed("other@1"), 2);
	assert_totals_are_right();
}

/* Ages and quotas of some jobs differ; those of jobs that get nothing more are applied too. */
static void each_job_is_kept_as_its_rule_says(void **unused)
{
	struct retention r = forever;
	const struct store_bounds b = {.retention = &r, .now_unix_ns = 1000000000000000ull};
	char why[256], job[WIRE_TEXT_BYTES];

	assert_int_equal(retention_read(&r, "test-*@7 windows=1m incidents=1h; *@8 max_bytes=5KB",
					why, sizeof(why)),
			 0);
	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k < 500; k++) { /* more jobs than one transaction looks at */
		struct incident_row row = {.begin_unix_ns = k, .arrival_unix_ns = k};

		snprintf(row.id, sizeof(row.id), "%08x", k);
		snprintf(job, sizeof(job), "test-%u@%u", k, k % 2 ? 7 : 9);
		assert_int_equal(put_of(job, k, 100), 1);
		strcpy(row.job, job);
		assert_int_equal(store_put_incident(store, &row, "{}"), 0);
	}
	for (uint32_t k = 1000; k < 1010; k++)
		assert_int_equal(put_of("test-1@8", k, 1000), 1);
	assert_int_equal(store_commit(store), 0);
	for (int turns = 0; turns < 500 / 64 + 2; turns++)
		keep(&b);
	for (uint32_t k = 0; k < 500; k++) {
		snprintf(job, sizeof(job), "test-%u@%u", k, k % 2 ? 7 : 9);
		assert_int_equal(has(k), k % 2 == 0);
		assert_int_equal(listed(job), k % 2 == 0);
	}
	for (uint32_t k = 1000; k < 1010; k++)
		assert_int_equal(has(k), k >= 1005);
	assert_totals_are_right();
}

/* A user with many jobs does not push out another user's only one. */
static void a_full_store_takes_from_the_owner_with_most(void **unused)
{
	const struct store_bounds b = {.retention = &forever, .max_bytes = 3 << 20};

	assert_int_equal(store_begin(store), 0);
	assert_int_equal(put_of("quiet@7", 1, 500000), 1);
	for (uint32_t i = 100; i < 400; i++) {
		char job[32];

		snprintf(job, sizeof(job), "flood%u@8", i % 50);
		assert_int_equal(put_of(job, i, 40000), 1);
	}
	assert_int_equal(store_commit(store), 0);
	assert_true(keep(&b).bodies > 200);
	assert_true(has(1));
	assert_true(has(399));
	assert_false(has(100));
	assert_totals_are_right();
}

/* ---- users ---- */

static const struct http_user seven = {.has_uid = true, .uid = 7}, nobody = {.all = false},
			      everybody = {.all = true};

static size_t seen(const struct http_user *who, const char *job, const char *state)
{
	struct store_list q = {.who = who, .job = job, .state = state, .limit = 100};
	struct buf b;
	size_t n;
	json_t *j;

	buf_init(&b, 1 << 20);
	assert_int_equal(store_list(store, &q, &b), 0);
	j = json_loadb((char *)b.data, b.bytes, 0, NULL);
	n = json_array_size(json_object_get(j, "incidents"));
	json_decref(j);
	buf_fini(&b);
	return n;
}

static size_t lines_of_feed(const struct http_user *who)
{
	struct buf b;
	size_t n = 0;

	buf_init(&b, 1 << 20);
	assert_int_equal(store_feed(store, who, 0, 100, &b), 0);
	for (size_t i = 0; i < b.bytes; i++)
		n += b.data[i] == '\n';
	buf_fini(&b);
	return n;
}

static int window_of(const struct http_user *who, uint32_t id)
{
	uint8_t key[16] = {0};
	struct buf b;
	int err;

	memcpy(key, &id, sizeof(id));
	buf_init(&b, 1 << 20);
	err = store_window_body(store, who, key, &b);
	buf_fini(&b);
	return err;
}

static void users_see_their_own_jobs_alone(void **unused)
{
	static const char *const jobs[] = {"a@7", "a@8", "b@7", "c@70", "unowned", "a@8"};
	char id[INCIDENT_ID_BYTES];

	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k < ARRAY_LEN(jobs); k++) {
		struct incident_row row = {.begin_unix_ns = k, .updated_unix_ns = 1 + k};

		snprintf(row.id, sizeof(row.id), "%08x", k + 0xa0000000u);
		snprintf(row.job, sizeof(row.job), "%s", jobs[k]);
		row.open = k == 2;
		assert_int_equal(store_put_incident(store, &row, "{}"), 0);
		assert_int_equal(put_of(jobs[k], k, 10), 1);
	}
	assert_int_equal(store_merge_incident(store, "a0000001", "a0000005"), 0);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(seen(NULL, NULL, NULL), 5);
	assert_int_equal(seen(&everybody, NULL, NULL), 5);
	assert_int_equal(seen(&seven, NULL, NULL), 2);
	assert_int_equal(seen(&seven, NULL, "open"), 1);
	assert_int_equal(seen(&seven, "a@7", NULL), 1);
	assert_int_equal(seen(&seven, "a@8", NULL), 0);
	assert_int_equal(seen(&seven, "a", NULL), 0); /* no key: the caller completes it */
	assert_int_equal(seen(&nobody, NULL, NULL), 0);
	assert_int_equal(seen(&nobody, "unowned", NULL), 0);
	assert_int_equal(lines_of_feed(&everybody), 6);
	assert_int_equal(lines_of_feed(&seven), 2);
	assert_int_equal(lines_of_feed(&nobody), 0);
	assert_int_equal(store_incident_id(store, &seven, "a0000000", id), 0);
	assert_int_equal(store_incident_id(store, &seven, "a0000001", id), -ENOENT);
	assert_int_equal(store_incident_id(store, &seven, "a0000005", id), -ENOENT); /* merged */
	assert_int_equal(store_incident_id(store, &seven, "a0000003", id), -ENOENT);
	assert_int_equal(store_incident_id(store, &nobody, "a0000004", id), -ENOENT);
	assert_int_equal(store_incident_id(store, &everybody, "a0000005", id), 0);
	assert_int_equal(window_of(&seven, 0), 0);
	assert_int_equal(window_of(&seven, 1), -ENOENT);
	assert_int_equal(window_of(&nobody, 4), -ENOENT);
	assert_int_equal(window_of(&everybody, 1), 0);
}

static int64_t count(const char *text)
{
	sqlite3_stmt *st;
	int64_t n;

	assert_int_equal(sqlite3_prepare_v2(store->sql.db, text, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

static void assert_totals_are_right(void)
{
	struct store_totals t;

	assert_int_equal(store_totals(store, &t), 0);
	assert_int_equal(t.windows, count("SELECT COUNT(*) FROM windows"));
	assert_int_equal(t.bodies, count("SELECT COUNT(*) FROM bodies"));
	assert_int_equal(t.incidents, count("SELECT COUNT(*) FROM incidents"));
	assert_int_equal(t.open_incidents, count("SELECT COUNT(*) FROM incidents WHERE open=1"));
	/* what each job and each owner have, counted anew */
	assert_int_equal(count("SELECT COUNT(*) FROM windows WHERE stored<>(seq IN (SELECT seq "
			       "FROM bodies))"),
			 0);
	assert_int_equal(
	    count("SELECT COUNT(*) FROM (SELECT * FROM jobs EXCEPT SELECT "
		  "job,owner,SUM(bytes),SUM(closed) FROM (SELECT job,owner,bytes,0 AS closed FROM "
		  "windows WHERE stored=1 UNION ALL SELECT job,owner,length(CAST(body AS BLOB)),"
		  "1-open FROM incidents) GROUP BY job)"),
	    0);
	assert_int_equal(
	    count("SELECT COALESCE(SUM(bytes),0) FROM jobs"),
	    count("SELECT (SELECT COALESCE(SUM(bytes),0) FROM windows WHERE stored=1)+"
		  "(SELECT COALESCE(SUM(length(CAST(body AS BLOB))),0) FROM incidents)"));
	assert_int_equal(count("SELECT COALESCE(SUM(closed),0) FROM jobs"),
			 count("SELECT COUNT(*) FROM incidents WHERE open=0"));
	assert_int_equal(count("SELECT COUNT(*) FROM (SELECT * FROM owners EXCEPT SELECT "
			       "owner,SUM(bytes) FROM jobs GROUP BY owner)"),
			 0);
	assert_int_equal(count("SELECT COUNT(*) FROM owners"),
			 count("SELECT COUNT(DISTINCT owner) FROM jobs"));
}

static void totals_are_kept_whatever_happens(void **unused)
{
	struct incident_row row = {.id = "00000003", .open = true};

	put_incidents(0, 300);
	for (uint8_t k = 1; k < 20; k++)
		put(k, 1000u + k, 1000);
	put(3, 2000, 1000);
	assert_totals_are_right();
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_incident(store, &row, "{}"), 0); /* reopened */
	assert_int_equal(store_put_findings(store, row.id, "[1]"), 0);
	assert_int_equal(store_commit(store), 0);
	assert_totals_are_right();
	assert_int_equal(store_begin(store), 0);
	put_batch(1000, 10, 100);
	assert_int_equal(store_merge_incident(store, "00000001", "00000002"), 0);
	store_rollback(store);
	assert_totals_are_right();
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_merge_incident(store, "00000001", "00000003"), 0);
	assert_int_equal(store_commit(store), 0);
	assert_null(store_findings(store, "00000003"));
	assert_int_equal(expire(1010, 1005, 0), 9);
	assert_totals_are_right();
	store_close(store);
	assert_int_equal(store_open(&store, dir), 0);
	assert_totals_are_right();
}

/* What goes into a file that nobody finds again must not count as stored. */
static void a_store_that_was_moved_takes_nothing(void **unused)
{
	char path[96], away[96];

	snprintf(path, sizeof(path), "%s/store.db", dir);
	snprintf(away, sizeof(away), "%s/away.db", dir);
	assert_int_equal(put(1, 10, 100), 1);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(store_begin(store), -EIO);
	store_rollback(store);
	assert_int_equal(rename(away, path), 0);
	assert_int_equal(put(2, 10, 100), 1);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(stores_a_window_once),
	    CASE(a_reader_sees_what_was_committed_and_nothing_else),
	    CASE(refuses_a_second_writer_and_foreign_files),
	    CASE(keeps_everything_over_a_reopen),
	    CASE(an_open_incident_is_among_those_to_restore),
	    CASE(merges_incidents),
	    CASE(late_requests_name_the_incident_of_their_slow_step),
	    CASE(an_id_may_be_as_short_as_is_unique),
	    CASE(follows_an_incident_that_was_merged_twice),
	    CASE(keeps_findings_with_their_incident),
	    CASE(the_feed_has_each_write_once_and_in_order),
	    CASE(takes_over_a_store_of_version_1),
	    CASE(takes_over_a_store_of_version_2),
	    CASE(takes_over_a_store_of_version_4),
	    CASE(takes_over_a_store_of_version_5),
	    CASE(a_job_beyond_its_quota_loses_its_own_oldest_windows),
	    CASE(a_job_beyond_its_quota_loses_its_oldest_closed_incidents),
	    CASE(the_texts_of_incidents_count_for_the_quota),
	    CASE(each_job_is_kept_as_its_rule_says),
	    CASE(a_full_store_takes_from_the_owner_with_most),
	    CASE(users_see_their_own_jobs_alone),
	    CASE(the_file_keeps_its_bound_at_any_rate),
	    CASE(rows_without_evidence_have_a_part_of_the_file),
	    CASE(closed_incidents_go_when_nothing_else_is_left),
	    CASE(no_statement_reads_a_whole_table),
	    CASE(a_name_lists_the_jobs_of_all_users_and_a_key_one),
	    CASE(a_job_is_listed_by_its_index_whatever_other_names_begin_alike),
	    CASE(lists_and_totals_cost_the_same_however_large_the_store_is),
	    CASE(pages_have_each_incident_once_and_in_order),
	    CASE(a_page_ends_where_it_is_large),
	    CASE(totals_are_kept_whatever_happens),
	    CASE(expires_evidence_by_age_but_remembers_ids),
	    CASE(expires_the_oldest_evidence_by_size),
	    CASE(a_store_that_was_moved_takes_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

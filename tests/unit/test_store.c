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

#include "aggregator/store.h"
#include "base/limits.h"

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
	struct digest d = { .id = { id }, .reason = WINDOW_SELF, .begin_unix_ns = 100, .end_unix_ns = 200 };

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
	uint8_t key[16] = { id };
	struct buf b;
	int err;

	buf_init(&b, 1 << 20);
	err = store_window_body(s, key, &b);
	if (!err)
		assert_int_equal(b.data[0], id);
	*bytes = b.bytes;
	buf_fini(&b);
	return err;
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
	struct incident_row row = { .open = true, .begin_unix_ns = 5, .end_unix_ns = 6,
				    .arrival_unix_ns = 7 };
	uint8_t id[16] = { 3 };
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
	j = store_incidents_json(store, "it's a job", "open", 10);
	assert_int_equal(json_array_size(json_object_get(j, "incidents")), 1);
	json_decref(j);
	j = store_incidents_json(store, NULL, "closed", 10);
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
	struct incident_row row = { .id = "00000000", .open = true, .arrival_unix_ns = 1 };
	uint32_t open = 0;

	assert_int_equal(store_begin(store), 0);
	for (uint32_t k = 0; k <= LIMIT_INCIDENTS_LIVE; k++) {
		assert_int_equal(store_put_incident(store, &row, "{}"), 0);
		row = (struct incident_row){ .arrival_unix_ns = 100 };
		snprintf(row.id, sizeof(row.id), "%08x", k + 1);
	}
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(store_each_incident(store, 50, count_open, &open), 0);
	assert_int_equal(open, 1);
}

static void merges_incidents(void **unused)
{
	struct incident_row a = { .id = "aaaaaaaa", .open = true, .arrival_unix_ns = 9 },
			    b = { .id = "bbbbbbbb", .open = true, .arrival_unix_ns = 9 };
	uint8_t id[16] = { 3 };
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

static void follows_an_incident_that_was_merged_twice(void **unused)
{
	struct incident_row rows[3] = { { .id = "aaaaaaaa" }, { .id = "bbbbbbbb" }, { .id = "cccccccc" } };
	json_t *j;

	assert_int_equal(store_begin(store), 0);
	for (int k = 0; k < 3; k++)
		assert_int_equal(store_put_incident(store, &rows[k], k ? "{}" : "{\"id\":\"a\"}"), 0);
	assert_int_equal(store_merge_incident(store, "bbbbbbbb", "cccccccc"), 0);
	assert_int_equal(store_merge_incident(store, "aaaaaaaa", "bbbbbbbb"), 0);
	assert_int_equal(store_commit(store), 0);
	j = store_incident_json(store, "cccccccc");
	assert_string_equal(json_string_value(json_object_get(j, "id")), "a");
	json_decref(j);
}

static void keeps_findings_with_their_incident(void **unused)
{
	struct incident_row row = { .id = "aaaaaaaa" };
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

static void the_feed_tells_each_write_once_and_in_order(void **unused)
{
	struct incident_row a = { .id = "aaaaaaaa", .updated_unix_ns = 1 << 20 },
			    b = { .id = "bbbbbbbb", .updated_unix_ns = 1 << 21 };
	struct buf out;

	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_incident(store, &b, "{\"id\":\"b\"}"), 0);
	assert_int_equal(store_put_incident(store, &a, "{\"id\":\"a\"}"), 0);
	assert_int_equal(store_commit(store), 0);
	buf_init(&out, 1 << 16);
	assert_int_equal(store_feed(store, 0, 10, &out), 0);
	buf_append(&out, "", 1);
	assert_string_equal((char *)out.data, "{\"id\":\"a\",\"updated_unix_ns\":1048576}\n"
					      "{\"id\":\"b\",\"updated_unix_ns\":2097152}\n");
	out.bytes = 0;
	assert_int_equal(store_feed(store, (1 << 20) - 100, 10, &out), 0);
	buf_append(&out, "", 1);
	assert_string_equal((char *)out.data, "{\"id\":\"b\",\"updated_unix_ns\":2097152}\n");
	out.bytes = 0;
	assert_int_equal(store_feed(store, (1 << 21) - 100, 10, &out), 0);
	assert_int_equal(out.bytes, 0);
	buf_fini(&out);
}

/* A store as version 0.1 made it: what it holds is still there, and new things find their place. */
static void takes_over_a_store_of_version_1(void **unused)
{
	struct incident_row row = { .id = "bbbbbbbb", .updated_unix_ns = 5 };
	char command[512];
	json_t *j;

	store_close(store);
	store = NULL;
	snprintf(command, sizeof(command),
		 "rm -f %s/store.db* && python3 tests/unit/store_v1.py %s/store.db", dir, dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(store_open(&store, dir), 0);
	j = store_incident_json(store, "aaaaaaaa");
	assert_string_equal(json_string_value(json_object_get(j, "id")), "aaaaaaaa");
	json_decref(j);
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_put_incident(store, &row, "{}"), 0);
	assert_int_equal(store_put_findings(store, "bbbbbbbb", "[1]"), 0);
	assert_int_equal(store_commit(store), 0);
	store_close(store);
	assert_int_equal(store_open(&store, dir), 0);
}

static void expires_evidence_by_age_but_remembers_ids(void **unused)
{
	size_t n;

	put(1, 1000, 100);
	put(2, 3000, 100);
	assert_int_equal(store_expire(store, 2000, 500, 0), 1);
	assert_int_equal(body_of(store, 1, &n), -ESTALE);
	assert_int_equal(body_of(store, 2, &n), 0);
	assert_int_equal(put(1, 4000, 100), 0); /* a late copy still counts once */
	assert_int_equal(store_expire(store, 2000, 2000, 0), 0);
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
	assert_true(store_expire(store, 0, 0, 2000000) >= 40);
	assert_int_equal(store_totals(store, &t), 0);
	assert_true(t.bytes <= 2000000);
	assert_int_equal(t.windows, 60);
	assert_int_equal(body_of(store, 1, &n), -ESTALE);
	assert_int_equal(body_of(store, 60, &n), 0);
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
		CASE(follows_an_incident_that_was_merged_twice),
		CASE(keeps_findings_with_their_incident),
		CASE(the_feed_tells_each_write_once_and_in_order),
		CASE(takes_over_a_store_of_version_1),
		CASE(expires_evidence_by_age_but_remembers_ids),
		CASE(expires_the_oldest_evidence_by_size),
		CASE(a_store_that_was_moved_takes_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

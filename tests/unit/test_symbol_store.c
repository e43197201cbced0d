/* SPDX-License-Identifier: Apache-2.0
 * The files are gcc's, their Build IDs readelf's; what is in place at the end is compared byte by byte. */
#include <errno.h>
#include <fcntl.h>
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

#include "symbol/symbol_files.h"
#include "symbol/symbol_resolver.h"
#include "symbol/symbol_store.h"

/* Of the stored file: the best that it is not poorer than. */
static enum symbol_quality quality_of(struct symbol_store *s, const uint8_t *build_id)
{
	int q = SYMBOL_DEBUG;

	while (q > SYMBOL_NONE &&
	       symbol_store_needed(s, build_id, 20, (enum symbol_quality)q, 1000000000))
		q--;
	return (enum symbol_quality)q;
}

#define SECOND 1000000000ull

static char dir[] = "/tmp/sysom-test-store-XXXXXX";
static uint8_t id[64], other_id[64];
static size_t id_bytes, other_bytes;

static void sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sh(const char *fmt, ...)
{
	char command[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command))
		fail_msg("failed: %s", command);
}

static size_t build_id_of(const char *name, uint8_t out[64])
{
	char line[512];
	size_t n = 0;
	unsigned byte;
	FILE *f;

	snprintf(line, sizeof(line), "readelf -n %s/%s | sed -n 's/.*Build ID: //p'", dir, name);
	f = popen(line, "r");
	assert_non_null(f);
	while (n < 64 && fscanf(f, "%2x", &byte) == 1)
		out[n++] = (uint8_t)byte;
	pclose(f);
	return n;
}

static int set_up(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	sh("cd %s && printf 'int shown(int a) { return a; } static __attribute__((noinline,used)) "
	   "int "
	   "hidden(int a) { return shown(a) + 1; }' >a.c && "
	   "gcc -O1 -g -fPIC -shared -Wl,--build-id -o full.so a.c && strip -o stripped.so full.so "
	   "&& "
	   "strip -g -o table.so full.so && objcopy --only-keep-debug full.so debug.so && "
	   "printf 'int other;' | gcc -xc -g -fPIC -shared -Wl,--build-id -o other.so - && "
	   "gcc -g -fPIC -shared -Wl,--build-id=none -o anonymous.so a.c",
	   dir);
	id_bytes = build_id_of("full.so", id);
	other_bytes = build_id_of("other.so", other_id);
	return id_bytes == 20 && other_bytes == 20 ? 0 : -1;
}

static int tear_down(void **state)
{
	sh("rm -rf %s", dir);
	return 0;
}

static char *read_file(const char *name, size_t *bytes)
{
	static char data[1 << 20];
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	assert_non_null(f);
	*bytes = fread(data, 1, sizeof(data), f);
	fclose(f);
	return data;
}

static struct symbol_store *open_store(const char *name, uint64_t bytes_max, bool evict)
{
	char path[256];
	struct symbol_store_options o = {.directory = path, .bytes_max = bytes_max, .evict = evict};
	struct symbol_store *s;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(symbol_store_open(&s, &o), 0);
	return s;
}

/* Uploads a file in pieces of step bytes; what finishing says. */
static int upload(struct symbol_store *s, const char *name, const uint8_t *as,
		  enum symbol_quality q, size_t step)
{
	uint8_t got[SYMBOL_BUILD_ID_MAX];
	const char *why;
	size_t bytes, got_bytes;
	const char *data = read_file(name, &bytes);
	uint64_t session;
	int err = symbol_store_begin(s, as, 20, bytes, q, SECOND, &session);

	if (err)
		return err;
	for (size_t at = 0; at < bytes; at += step) {
		assert_int_equal(symbol_store_finish(s, session, got, &got_bytes, &why), -EAGAIN);
		assert_int_equal(symbol_store_append(s, session, at, data + at,
						     bytes - at < step ? bytes - at : step, SECOND),
				 0);
	}
	err = symbol_store_finish(s, session, got, &got_bytes, &why);
	if (!err) {
		assert_int_equal(got_bytes, 20);
		assert_memory_equal(got, as, 20);
	} else {
		assert_true(strlen(why) > 0);
	}
	return err;
}

static void a_file_uploaded_in_pieces_is_whole_and_where_gdb_looks(void **state)
{
	struct symbol_store *s = open_store("whole", 0, true);
	struct symbol_store_stats st;
	char hex[41] = "";

	for (int i = 0; i < 20; i++)
		sprintf(hex + 2 * i, "%02x", id[i]);
	assert_true(symbol_store_needed(s, id, 20, SYMBOL_DEBUG, SECOND));
	assert_int_equal(upload(s, "full.so", id, SYMBOL_DEBUG, 1000), 0);
	sh("cmp %s/full.so %s/whole/tree/.build-id/%.2s/%s.debug", dir, dir, hex, hex + 2);
	sh("gdb -nx -batch -ex 'set debug-file-directory %s/whole/tree' -ex 'file %s/stripped.so' "
	   "-ex 'info line hidden' 2>&1 | grep -q 'a.c'",
	   dir, dir);
	sh("test -z \"$(ls %s/whole/upload)\"", dir);
	assert_false(symbol_store_needed(s, id, 20, SYMBOL_DEBUG, SECOND));
	symbol_store_stats_get(s, &st);
	assert_int_equal(st.files, 1);
	assert_int_equal(st.finished, 1);
	symbol_store_close(s);
}

static void what_was_stored_is_known_after_a_restart_and_what_was_half_is_gone(void **state)
{
	struct symbol_store *s = open_store("restart", 0, true);
	struct symbol_store_stats st;
	uint64_t session, have, bytes;

	assert_int_equal(upload(s, "table.so", id, SYMBOL_TABLE, 5000), 0);
	assert_int_equal(
	    symbol_store_begin(s, other_id, 20, 100000, SYMBOL_DEBUG, SECOND, &session), 0);
	assert_int_equal(symbol_store_append(s, session, 0, "abc", 3, SECOND), 0);
	sh("cp -r %s/restart %s/crashed", dir, dir); /* what a kill would leave */
	symbol_store_close(s);
	s = open_store("crashed", 0, true);
	symbol_store_stats_get(s, &st);
	assert_int_equal(st.files, 1);
	assert_int_equal(quality_of(s, id), SYMBOL_TABLE);
	assert_int_equal(symbol_store_progress(s, session, &have, &bytes), -ENOENT);
	sh("test -z \"$(ls %s/crashed/upload)\"", dir);
	assert_true(symbol_store_needed(s, other_id, 20, SYMBOL_DEBUG, SECOND));
	symbol_store_close(s);
}

static void a_better_file_replaces_and_a_poorer_one_never(void **state)
{
	struct symbol_store *s = open_store("better", 0, true);
	struct symbol_store_stats st;

	assert_int_equal(upload(s, "stripped.so", id, SYMBOL_DYNAMIC, 4096), 0);
	assert_int_equal(quality_of(s, id), SYMBOL_DYNAMIC);
	assert_int_equal(upload(s, "table.so", id, SYMBOL_TABLE, 4096), 0);
	assert_int_equal(upload(s, "stripped.so", id, SYMBOL_DYNAMIC, 4096), -EEXIST);
	/* promised more than it is */
	assert_int_equal(upload(s, "stripped.so", id, SYMBOL_DEBUG, 4096), -EBADMSG);
	assert_int_equal(quality_of(s, id), SYMBOL_TABLE);
	assert_int_equal(upload(s, "debug.so", id, SYMBOL_DEBUG, 4096), 0);
	assert_int_equal(quality_of(s, id), SYMBOL_DEBUG);
	symbol_store_stats_get(s, &st);
	assert_int_equal(st.files, 1);
	assert_int_equal(st.replaced, 2);
	assert_int_equal(st.refused_known, 1);
	assert_int_equal(st.refused_stripped, 1);
	symbol_store_close(s);
}

static void a_file_under_a_name_that_is_not_its_own_is_refused(void **state)
{
	struct symbol_store *s = open_store("names", 0, true);
	struct symbol_store_stats st;

	assert_int_equal(upload(s, "full.so", other_id, SYMBOL_DEBUG, 4096), -EBADMSG);
	assert_int_equal(upload(s, "anonymous.so", id, SYMBOL_DEBUG, 4096), -EBADMSG);
	assert_int_equal(upload(s, "a.c", id, SYMBOL_DEBUG, 4096), -EBADMSG);
	symbol_store_stats_get(s, &st);
	assert_int_equal(st.files, 0);
	assert_int_equal(st.refused_build_id, 2);
	assert_int_equal(st.refused_damaged, 1);
	assert_int_equal(st.reserved_bytes, 0);
	sh("test -z \"$(find %s/names/tree -type f)\"", dir);
	symbol_store_close(s);
}

static void chunks_that_do_not_follow_are_refused_and_the_upload_goes_on(void **state)
{
	struct symbol_store *s = open_store("order", 0, true);
	uint8_t got[SYMBOL_BUILD_ID_MAX];
	size_t bytes, got_bytes;
	const char *data = read_file("full.so", &bytes), *why;
	uint64_t session, have, all;

	assert_int_equal(symbol_store_begin(s, id, 20, bytes, SYMBOL_DEBUG, SECOND, &session), 0);
	assert_int_equal(symbol_store_append(s, session, 10, data, 10, SECOND), -ERANGE);
	assert_int_equal(symbol_store_append(s, session, 0, data, 100, SECOND), 0);
	assert_int_equal(symbol_store_append(s, session, 0, data, 100, SECOND),
			 -ERANGE); /* twice */
	assert_int_equal(symbol_store_append(s, session + 1, 100, data, 100, SECOND), -ENOENT);
	assert_int_equal(symbol_store_append(s, session, 100, data, bytes, SECOND), -EFBIG);
	assert_int_equal(symbol_store_progress(s, session, &have, &all), 0);
	assert_int_equal(have, 100);
	assert_int_equal(all, bytes);
	assert_int_equal(symbol_store_append(s, session, 100, data + 100, bytes - 100, SECOND), 0);
	assert_int_equal(symbol_store_finish(s, session, got, &got_bytes, &why), 0);
	symbol_store_close(s);
}

static void uploads_are_bounded_and_the_idle_give_way(void **state)
{
	struct symbol_store *s = open_store("many", 0, true);
	uint8_t many[20] = {1};
	struct symbol_store_stats st;
	uint64_t session, first;

	assert_int_equal(symbol_store_begin(s, id, 20, 1000, SYMBOL_DEBUG, SECOND, &first), 0);
	assert_int_equal(symbol_store_begin(s, id, 20, 1000, SYMBOL_DEBUG, SECOND, &session),
			 -EBUSY);
	assert_false(symbol_store_needed(s, id, 20, SYMBOL_DEBUG, SECOND));
	for (uint8_t i = 1; i < 64; i++) {
		many[1] = i;
		assert_int_equal(
		    symbol_store_begin(s, many, 20, 1000, SYMBOL_DEBUG, 2 * SECOND, &session), 0);
	}
	many[1] = 64;
	assert_int_equal(symbol_store_begin(s, many, 20, 1000, SYMBOL_DEBUG, 5 * SECOND, &session),
			 -EMFILE);
	/* the one that stood still longest */
	assert_int_equal(symbol_store_begin(s, many, 20, 1000, SYMBOL_DEBUG, 12 * SECOND, &session),
			 0);
	assert_int_equal(symbol_store_append(s, first, 0, "x", 1, 12 * SECOND), -ENOENT);
	symbol_store_tend(s, 1000 * SECOND);
	symbol_store_stats_get(s, &st);
	assert_int_equal(st.uploading, 0);
	assert_int_equal(st.reserved_bytes, 0);
	assert_int_equal(st.abandoned, 65);
	sh("test -z \"$(ls %s/many/upload)\"", dir);
	symbol_store_close(s);
}

static void a_full_directory_refuses_or_lets_the_longest_unused_go(void **state)
{
	struct symbol_store *s;
	struct symbol_store_stats st;
	uint64_t session;
	size_t bytes, both;

	read_file("full.so", &bytes);
	read_file("other.so", &both);
	both += bytes;
	s = open_store("full", both - 1, false);
	assert_int_equal(upload(s, "full.so", id, SYMBOL_DEBUG, 4096), 0);
	assert_int_equal(upload(s, "other.so", other_id, SYMBOL_DEBUG, 4096), -ENOSPC);
	assert_int_equal(symbol_store_begin(s, other_id, 20, both, SYMBOL_DEBUG, SECOND, &session),
			 -EFBIG);
	symbol_store_close(s);
	sh("touch -a -d '2 days ago' %s/full/tree/.build-id/*/*.debug", dir);
	s = open_store("full", both - 1, true);
	assert_int_equal(upload(s, "other.so", other_id, SYMBOL_DEBUG, 4096), 0);
	symbol_store_stats_get(s, &st);
	assert_int_equal(st.files, 1);
	assert_int_equal(st.evicted, 1);
	assert_int_equal(quality_of(s, id), SYMBOL_NONE);
	assert_int_equal(quality_of(s, other_id), SYMBOL_DEBUG);
	symbol_store_close(s);
}

/* The paper's case, from upload to name: until the real file comes, nobody gets the hidden function's
 * samples. */
static void a_name_comes_with_the_file_and_not_before(void **state)
{
	struct symbol_store *s = open_store("late", 0, true);
	struct symbol_resolver_options o = {.directory = symbol_store_tree(s), .debug_root = dir};
	struct symbol_resolver *r;
	struct symbol_name n;
	unsigned long long at;
	char line[512];
	FILE *f;

	snprintf(line, sizeof(line), "nm %s/full.so | grep ' t hidden'", dir);
	f = popen(line, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llx", &at), 1);
	pclose(f);
	assert_int_equal(symbol_resolver_open(&r, &o), 0);
	assert_int_equal(symbol_resolver_find(r, id, 20, NULL, at + 1, &n), -ENODATA);
	assert_int_equal(upload(s, "stripped.so", id, SYMBOL_DYNAMIC, 4096), 0);
	symbol_resolver_forget(r, id, 20);
	assert_int_equal(symbol_resolver_find(r, id, 20, NULL, at + 1, &n), -ENOENT);
	assert_int_equal(upload(s, "full.so", id, SYMBOL_DEBUG, 4096), 0);
	symbol_resolver_forget(r, id, 20);
	assert_int_equal(symbol_resolver_find(r, id, 20, NULL, at + 1, &n), 0);
	assert_string_equal(n.function, "hidden");
	symbol_resolver_close(r);
	symbol_store_close(s);
}

static void the_table_of_files_finds_what_was_added_in_any_order(void **state)
{
	struct symbol_files_stats st;
	struct symbol_files *s;
	char path[256];
	uint8_t key[20];
	unsigned seed = 12345;

	snprintf(path, sizeof(path), "%s/files", dir);
	assert_int_equal(symbol_files_open(&s, path, ".x", 0), 0);
	for (uint32_t i = 0; i < 50000; i++) {
		memset(key, 0, sizeof(key));
		memcpy(key + 2, &i, sizeof(i));
		assert_non_null(symbol_files_put(s, key, 20, i));
	}
	for (uint32_t i = 0; i < 50000; i += 1 + (seed = seed * 1103515245 + 12345) / 65536 % 3) {
		memset(key, 0, sizeof(key));
		memcpy(key + 2, &i, sizeof(i));
		symbol_files_remove(s, key, 20);
		key[19] = 1; /* marked as gone, by another key */
		assert_null(symbol_files_find(s, key, 20));
		key[19] = 0;
		assert_null(symbol_files_find(s, key, 20));
	}
	seed = 12345;
	for (uint32_t i = 0, gone = 0; i < 50000; i++) {
		struct symbol_files_item *item;

		memset(key, 0, sizeof(key));
		memcpy(key + 2, &i, sizeof(i));
		item = symbol_files_find(s, key, 20);
		if (i == gone) {
			assert_null(item);
			gone += 1 + (seed = seed * 1103515245 + 12345) / 65536 % 3;
		} else {
			assert_non_null(item);
			assert_int_equal(item->bytes, i);
		}
	}
	symbol_files_stats_get(s, &st);
	assert_true(st.files > 10000 && st.files < 40000);
	symbol_files_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_uploaded_in_pieces_is_whole_and_where_gdb_looks),
	    cmocka_unit_test(what_was_stored_is_known_after_a_restart_and_what_was_half_is_gone),
	    cmocka_unit_test(a_better_file_replaces_and_a_poorer_one_never),
	    cmocka_unit_test(a_file_under_a_name_that_is_not_its_own_is_refused),
	    cmocka_unit_test(chunks_that_do_not_follow_are_refused_and_the_upload_goes_on),
	    cmocka_unit_test(uploads_are_bounded_and_the_idle_give_way),
	    cmocka_unit_test(a_full_directory_refuses_or_lets_the_longest_unused_go),
	    cmocka_unit_test(a_name_comes_with_the_file_and_not_before),
	    cmocka_unit_test(the_table_of_files_finds_what_was_added_in_any_order),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

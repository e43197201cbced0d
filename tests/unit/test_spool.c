/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "sidecar/spool.h"
#include "wire/codec.h"

#define SECOND 1000000000ull

struct rig {
	char dir[64], spool[80];
	struct spool *s;
	struct spool_config c;
};

static void reopen(struct rig *g, uint64_t now_ns)
{
	spool_close(g->s);
	assert_int_equal(spool_open(&g->s, &g->c, now_ns), 0);
}

static int setup(void **state)
{
	struct rig *g = calloc(1, sizeof(*g));

	strcpy(g->dir, "/tmp/test_spool.XXXXXX");
	if (!mkdtemp(g->dir))
		return -1;
	snprintf(g->spool, sizeof(g->spool), "%s/spool", g->dir);
	g->c = (struct spool_config){g->spool, 1 << 20, 3600 * SECOND, 7};
	*state = g;
	return spool_open(&g->s, &g->c, SECOND);
}

static int teardown(void **state)
{
	struct rig *g = *state;
	char command[128];

	spool_close(g->s);
	snprintf(command, sizeof(command), "rm -rf %s", g->dir);
	free(g);
	return system(command);
}

/* A window message; n is its first step count byte's worth of difference. */
static void message(struct buf *b, int rank)
{
	struct window w = {.reason = WINDOW_SELF,
			   .begin_ns = 1,
			   .end_ns = 2,
			   .rank = {.rank = rank},
			   .summary_only = true};
	char *names[1] = {""};

	w.names = names;
	w.name_count = 1;
	buf_init(b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, b), 0);
}

static int put(struct rig *g, int rank, uint64_t now_ns)
{
	struct buf b;
	int err;

	message(&b, rank);
	err = spool_put(g->s, b.data, b.bytes, now_ns);
	buf_fini(&b);
	return err;
}

/* The rank in the oldest message; -1 none. */
static int oldest(struct rig *g, uint64_t *key)
{
	struct window w;
	void *data;
	size_t bytes;
	int rank;

	if (spool_peek(g->s, &data, &bytes, key))
		return -1;
	assert_int_equal(wire_window_decode(data, bytes, &w), 0);
	rank = w.rank.rank;
	wire_window_free(&w);
	free(data);
	return rank;
}

static unsigned files(const struct rig *g)
{
	DIR *d = opendir(g->spool);
	unsigned n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void gives_back_in_order_what_was_put(void **state)
{
	struct rig *g = *state;
	uint64_t key;

	for (int i = 0; i < 5; i++)
		assert_int_equal(put(g, i, 2 * SECOND), 0); /* all at one time */
	for (int i = 0; i < 5; i++) {
		assert_int_equal(oldest(g, &key), i);
		assert_int_equal(oldest(g, &key), i); /* a peek takes nothing */
		spool_drop(g->s, key);
	}
	assert_int_equal(oldest(g, &key), -1);
	assert_int_equal(files(g), 0);
}

static void survives_a_restart(void **state)
{
	struct rig *g = *state;
	uint64_t key;

	for (int i = 0; i < 3; i++)
		put(g, i, 2 * SECOND);
	reopen(g, 3 * SECOND);
	put(g, 3, 3 * SECOND);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(oldest(g, &key), i);
		spool_drop(g->s, key);
	}
}

static void drops_the_oldest_beyond_its_bytes(void **state)
{
	struct rig *g = *state;
	struct spool_stats st;
	struct buf b;
	uint64_t key;

	message(&b, 0);
	g->c.bytes_max = b.bytes * 3 + b.bytes / 2;
	buf_fini(&b);
	reopen(g, SECOND);
	for (int i = 0; i < 5; i++)
		put(g, i, 2 * SECOND);
	spool_stats(g->s, &st);
	assert_int_equal(st.dropped_full, 2);
	assert_int_equal(st.count, 3);
	assert_int_equal(oldest(g, &key), 2);
	assert_int_equal(files(g), 3);
}

static void drops_what_is_too_old(void **state)
{
	struct rig *g = *state;
	struct spool_stats st;
	uint64_t key;

	put(g, 1, 2 * SECOND);
	put(g, 2, 3000 * SECOND);
	spool_tend(g->s, 3700 * SECOND);
	spool_stats(g->s, &st);
	assert_int_equal(st.dropped_age, 1);
	assert_int_equal(oldest(g, &key), 2);
}

/* The wall clock is no argument of any call; what can jump is the boot's. */
static void what_another_boot_left_ages_from_when_it_is_found(void **state)
{
	struct rig *g = *state;
	struct spool_stats st;
	uint64_t key;

	put(g, 1, 5000 * SECOND);
	put(g, 2, 8000 * SECOND);
	g->c.boot = 8; /* its clock starts at 0 */
	reopen(g, 20 * SECOND);
	put(g, 3, 30 * SECOND);
	spool_tend(g->s, 3600 * SECOND);
	spool_stats(g->s, &st);
	assert_int_equal(st.count, 2 + 1);
	/* a restart within the boot does not make them young again */
	reopen(g, 3610 * SECOND);
	assert_int_equal(oldest(g, &key), 1);
	spool_tend(g->s, 3621 * SECOND);
	assert_int_equal(oldest(g, &key), 3);
	spool_tend(g->s, 3631 * SECOND);
	assert_int_equal(oldest(g, &key), -1);
	assert_int_equal(files(g), 0);
}

static void a_clock_that_runs_backwards_drops_nothing_and_keeps_the_order(void **state)
{
	struct rig *g = *state;
	struct spool_stats st;
	uint64_t key;

	put(g, 1, 8000 * SECOND);
	put(g, 2, 10 * SECOND);
	reopen(g, 5 * SECOND);
	put(g, 3, 6 * SECOND);
	spool_stats(g->s, &st);
	assert_int_equal(st.dropped_age, 0);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(oldest(g, &key), i);
		spool_drop(g->s, key);
	}
}

static void takes_up_the_files_of_an_earlier_version(void **state)
{
	struct rig *g = *state;
	char path[160];
	struct buf b;
	uint64_t key;
	int fd;

	message(&b, 1);
	snprintf(path, sizeof(path), "%s/17a2b3c4d5e6f708.msg", g->spool);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, b.data, b.bytes), b.bytes);
	close(fd);
	buf_fini(&b);
	reopen(g, 2 * SECOND);
	put(g, 2, 2 * SECOND);
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(oldest(g, &key), i);
		spool_drop(g->s, key);
	}
	assert_int_equal(files(g), 0);
}

static void ignores_and_clears_what_is_not_its_own(void **state)
{
	struct rig *g = *state;
	struct spool_stats st;
	char path[160];
	uint64_t key;
	int fd;

	put(g, 1, 2 * SECOND);
	snprintf(path, sizeof(path), "%s/0000000000000000.msg", g->spool);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "garbage", 7), 7);
	close(fd);
	snprintf(path, sizeof(path), "%s/0000000000000009.msg.tmp", g->spool);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	snprintf(path, sizeof(path), "%s/README", g->spool);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	snprintf(path, sizeof(path), "%s/0000000000000002.msg", g->spool);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	reopen(g, 2 * SECOND);
	assert_int_equal(oldest(g, &key), 1);
	spool_stats(g->s, &st);
	assert_int_equal(st.dropped_bad, 2); /* the garbage and the link */
	assert_int_equal(st.count, 1);
	assert_int_equal(files(g), 2); /* README is not ours to remove */
}

/* A file size limit stands for a full disk: writes fail, the process goes on. */
static void waits_in_memory_while_the_disk_is_full(void **state)
{
	struct rig *g = *state;
	struct rlimit old, none;
	struct spool_stats st;
	uint64_t key;

	put(g, 1, 2 * SECOND);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	none = old;
	none.rlim_cur = 8;
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(put(g, 2, 3 * SECOND), 1);
	assert_int_equal(put(g, 3, 3 * SECOND), 1);
	spool_tend(g->s, 3 * SECOND);
	setrlimit(RLIMIT_FSIZE, &old);
	spool_stats(g->s, &st);
	assert_int_equal(st.count, 3);
	assert_true(st.memory_bytes > 0);
	assert_true(st.disk_errors > 0);
	assert_int_not_equal(st.disk_error, 0);
	assert_int_equal(files(g), 1); /* no torn file is left */
	/* Room again: what waited goes to disk, in its old place. */
	spool_tend(g->s, 4 * SECOND);
	spool_stats(g->s, &st);
	assert_int_equal(st.memory_bytes, 0);
	reopen(g, 4 * SECOND);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(oldest(g, &key), i);
		spool_drop(g->s, key);
	}
}

static void works_without_a_directory(void **state)
{
	struct rig *g = *state;
	uint64_t key;

	spool_close(g->s);
	g->c.dir = "/proc/none/such";
	assert_int_equal(spool_open(&g->s, &g->c, SECOND), 0);
	assert_int_equal(put(g, 7, SECOND), 1);
	assert_int_equal(oldest(g, &key), 7);
}

static void refuses_what_is_too_large(void **state)
{
	struct rig *g = *state;
	uint8_t byte = 0;

	assert_int_equal(spool_put(g->s, &byte, (size_t)LIMIT_WIRE_MESSAGE_BYTES + 1, SECOND),
			 -EMSGSIZE);
	assert_int_equal(spool_put(g->s, &byte, 0, SECOND), -EMSGSIZE);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(gives_back_in_order_what_was_put),
	    T(survives_a_restart),
	    T(drops_the_oldest_beyond_its_bytes),
	    T(drops_what_is_too_old),
	    T(what_another_boot_left_ages_from_when_it_is_found),
	    T(a_clock_that_runs_backwards_drops_nothing_and_keeps_the_order),
	    T(takes_up_the_files_of_an_earlier_version),
	    T(ignores_and_clears_what_is_not_its_own),
	    T(waits_in_memory_while_the_disk_is_full),
	    T(works_without_a_directory),
	    T(refuses_what_is_too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

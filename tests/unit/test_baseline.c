/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sidecar/baseline.h"

static const struct baseline_id id = {1, 1000, 77, 9}; /* pid 1 is alive */
static struct judge_sample samples[RANK_LEARNED], back[RANK_LEARNED];
static char dir[64];
static int dirfd;

/* Steps of 10 ms with 0.1% of noise. */
static void fill(uint32_t count, uint32_t phase)
{
	for (uint32_t i = 0; i < count; i++)
		samples[i] = (struct judge_sample){.key = steps_key(STEP_SOURCE_AUTO, phase),
						   .work = {100, 6400},
						   .latency_ns = 10e6 + 1e4 * (i * 7 % 11),
						   .self_ns = 9e6 + 1e4 * (i * 5 % 7),
						   .work_count = 2,
						   .known = 1};
}

static int setup(void **state)
{
	strcpy(dir, "/tmp/test_baseline.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	dirfd = open(dir, O_RDONLY | O_DIRECTORY);
	fill(RANK_LEARNED, 0);
	return dirfd < 0;
}

static int teardown(void **state)
{
	char command[128];

	close(dirfd);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static int file(int flags)
{
	return openat(dirfd, "1-00000009-77.baseline", flags, 0600);
}

static void gives_back_what_was_saved(void **state)
{
	assert_int_equal(baseline_save(dirfd, &id, samples, 300), 0);
	assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), 300);
	assert_memory_equal(back, samples, 300 * sizeof(samples[0]));
	baseline_remove(dirfd, &id);
	assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), -ENOENT);
}

static void is_for_that_very_process_alone(void **state)
{
	struct baseline_id other = id;

	assert_int_equal(baseline_save(dirfd, &id, samples, 20), 0);
	other.start_ticks++;
	assert_int_equal(baseline_load(dirfd, &other, back, RANK_LEARNED), -ENOENT);
	other = id;
	other.uid = 1001;
	assert_int_equal(baseline_load(dirfd, &other, back, RANK_LEARNED), -EPROTO);
	other = id;
	other.boot++;
	assert_int_equal(baseline_load(dirfd, &other, back, RANK_LEARNED), -ENOENT);
}

static void refuses_every_bent_byte_and_every_cut(void **state)
{
	uint8_t whole[56 + 4 * sizeof(samples[0])], bent;
	int fd;

	assert_int_equal(baseline_save(dirfd, &id, samples, 4), 0);
	fd = file(O_RDWR);
	assert_int_equal(read(fd, whole, sizeof(whole)), sizeof(whole));
	for (size_t i = 0; i < sizeof(whole); i++) {
		bent = whole[i] ^ 0x41;
		assert_int_equal(pwrite(fd, &bent, 1, (off_t)i), 1);
		assert_true(baseline_load(dirfd, &id, back, RANK_LEARNED) < 0);
		assert_int_equal(pwrite(fd, &whole[i], 1, (off_t)i), 1);
	}
	assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), 4);
	for (size_t i = 0; i < sizeof(whole); i += 7) {
		assert_int_equal(ftruncate(fd, (off_t)i), 0);
		assert_true(baseline_load(dirfd, &id, back, RANK_LEARNED) < 0);
		assert_int_equal(pwrite(fd, whole, sizeof(whole), 0), sizeof(whole));
	}
	close(fd);
	unlinkat(dirfd, "1-00000009-77.baseline", 0);
	assert_int_equal(symlinkat("/etc/passwd", dirfd, "1-00000009-77.baseline"), 0);
	assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), -EPROTO);
	unlinkat(dirfd, "1-00000009-77.baseline", 0);
	assert_int_equal(mkfifoat(dirfd, "1-00000009-77.baseline", 0600), 0);
	assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), -EPROTO);
}

/* A right checksum over values that no step has. */
static void refuses_values_that_no_step_has(void **state)
{
	const double bad[] = {NAN, INFINITY, -1, 1e300};

	for (size_t i = 0; i < 4; i++) {
		fill(4, 0);
		samples[2].latency_ns = bad[i];
		assert_int_equal(baseline_save(dirfd, &id, samples, 4), 0);
		assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), -EBADMSG);
		fill(4, 0);
		samples[3].work[1] = bad[i];
		assert_int_equal(baseline_save(dirfd, &id, samples, 4), 0);
		assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), -EBADMSG);
	}
	fill(4, 0);
	samples[0].work_count = STEP_WORK_MAX + 1;
	assert_int_equal(baseline_save(dirfd, &id, samples, 4), 0);
	assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), -EBADMSG);
}

static void keeps_the_living_and_sweeps_the_rest(void **state)
{
	const struct baseline_id gone = {INT32_MAX, 0, 5, 9}, earlier = {1, 1000, 77, 8};

	assert_int_equal(baseline_save(dirfd, &id, samples, 20), 0);
	assert_int_equal(baseline_save(dirfd, &gone, samples, 20), 0);
	assert_int_equal(baseline_save(dirfd, &earlier, samples, 20), 0);
	close(openat(dirfd, "1-00000009-77.baseline.tmp", O_CREAT | O_WRONLY, 0600));
	baseline_sweep(dirfd, 9);
	assert_int_equal(baseline_load(dirfd, &id, back, RANK_LEARNED), 20);
	assert_int_equal(baseline_load(dirfd, &gone, back, RANK_LEARNED), -ENOENT);
	assert_int_equal(baseline_load(dirfd, &earlier, back, RANK_LEARNED), -ENOENT);
	assert_int_equal(faccessat(dirfd, "1-00000009-77.baseline.tmp", F_OK, 0), -1);
}

static struct rank *fresh(struct recorder **rec)
{
	const struct recorder_config rc = {.memory_bytes = 1 << 20, .ranks_max = 1};
	struct rank_config c;
	struct rank *r;

	rank_config_default(&c);
	c.judge.roofline.learn_min = 50;
	assert_int_equal(recorder_open(rec, &rc), 0);
	assert_int_equal(rank_open(&r, &c, *rec, 0, NULL, 1, 1), 0);
	return r;
}

static void a_restored_model_is_ready_at_once(void **state)
{
	struct recorder *rec;
	struct rank *r = fresh(&rec);

	assert_int_equal(rank_model(r, NULL, NULL), ROOFLINE_LEARNING);
	assert_int_equal(rank_restore(r, samples, 100), 100);
	assert_int_equal(rank_model(r, NULL, NULL), ROOFLINE_READY);
	assert_int_equal(rank_learned(r, back), 100);
	assert_memory_equal(back, samples, 100 * sizeof(samples[0]));
	rank_close(r);
	recorder_close(rec);
}

/* A model whose first steps scattered is fitted at 50, 66, 88 and 117 steps, and good from 100 on, where
 * the newer half is. */
static void a_restored_model_does_not_wait_for_its_next_fit(void **state)
{
	struct recorder *rec;
	struct rank *r = fresh(&rec);

	for (uint32_t i = 0; i < 40; i++)
		samples[i].latency_ns = (10 + i * 17 % 61 * 0.1) * 1e6;
	assert_int_equal(rank_restore(r, samples, 88), 88);
	assert_int_not_equal(rank_model(r, NULL, NULL), ROOFLINE_READY);
	rank_close(r);
	recorder_close(rec);
	r = fresh(&rec);
	assert_int_equal(rank_restore(r, samples, 110), 110);
	assert_int_equal(rank_model(r, NULL, NULL), ROOFLINE_READY);
	rank_close(r);
	recorder_close(rec);
}

static void patterns_whose_numbers_may_have_changed_are_learned_anew(void **state)
{
	struct recorder *rec;
	struct rank *r = fresh(&rec);

	for (uint32_t i = 90; i < 93; i++)
		samples[i].key = steps_key(STEP_SOURCE_AUTO, 1);
	samples[98].key = steps_key(STEP_SOURCE_EXPLICIT, 12); /* a name stays what it is */
	assert_int_equal(rank_restore(r, samples, 100), 1);
	assert_int_equal(rank_model(r, NULL, NULL), ROOFLINE_LEARNING);
	rank_close(r);
	recorder_close(rec);
}

static void a_stray_first_step_does_not_cost_what_was_learned(void **state)
{
	struct recorder *rec;
	struct rank *r = fresh(&rec);

	fill(RANK_LEARNED, 1);
	samples[0].key = steps_key(STEP_SOURCE_AUTO, 0);
	assert_int_equal(rank_restore(r, samples, 60), 59);
	assert_int_equal(rank_model(r, NULL, NULL), ROOFLINE_READY);
	assert_int_equal(rank_learned(r, back), 59);
	for (uint32_t i = 0; i < 59; i++)
		assert_int_equal(back[i].key, steps_key(STEP_SOURCE_AUTO, 0));
	rank_close(r);
	recorder_close(rec);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(gives_back_what_was_saved),
	    T(is_for_that_very_process_alone),
	    T(refuses_every_bent_byte_and_every_cut),
	    T(refuses_values_that_no_step_has),
	    T(keeps_the_living_and_sweeps_the_rest),
	    T(a_restored_model_is_ready_at_once),
	    T(a_restored_model_does_not_wait_for_its_next_fit),
	    T(patterns_whose_numbers_may_have_changed_are_learned_anew),
	    T(a_stray_first_step_does_not_cost_what_was_learned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

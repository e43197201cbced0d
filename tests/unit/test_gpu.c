/* SPDX-License-Identifier: Apache-2.0
 * GPU telemetry against the simulated node's NVML, whose answers stand in a file: what is read is what the
 * file says. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "foreign/nvml.h"
#include "sidecar/gpu/gpu_match.h"
#include "sidecar/gpu/gpu_poll.h"

static char nvml_double[512]; /* beside this program's build */
static char path[] = "/tmp/test_gpu_XXXXXX";

static void file_says(const char *text)
{
	char fresh[64];
	FILE *f;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	f = fopen(fresh, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_false(rename(fresh, path));
}

static void nap(unsigned ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

static struct gpu_nvml *opened(void)
{
	char why[160] = "";
	struct gpu_nvml *n = NULL;

	if (gpu_nvml_open(&n, nvml_double, why, sizeof(why)))
		fail_msg("%s", why);
	return n;
}

/* ---- gpu_nvml ---- */

static void reads_what_the_device_says(void **state)
{
	struct gpu_identity id;
	struct gpu_sample s;
	struct gpu_nvml *n;

	file_says("3.sm_clock_mhz 1335\n3.throttle 0x60\n3.power_mw 412000\n"
		  "3.temperature_c 91\n3.ecc_corrected 7\n3.ecc_uncorrected 1\n"
		  "3.pcie_replay 12\n3.pcie_width 8\n3.util_gpu 55\n3.process 4711\n");
	n = opened();
	assert_int_equal(gpu_nvml_count(n), 8);
	assert_string_equal(gpu_nvml_driver(n), "580.65.06");
	gpu_nvml_identity(n, 3, &id);
	assert_string_equal(id.uuid, "GPU-53494d47-5055-0000-0000-000000000003");
	assert_string_equal(id.bus, "00000000:13:00.0");
	assert_int_equal(id.sm_clock_max_mhz, 1980);
	assert_int_equal(gpu_nvml_read(n, 3, &s), 0);
	assert_int_equal(s.has, (1u << GPU_FIELDS) - 1);
	assert_int_equal(s.value[GPU_SM_CLOCK], 1335);
	assert_int_equal(s.value[GPU_MEM_CLOCK], 2619);
	assert_int_equal(s.value[GPU_THROTTLE],
			 NVML_THROTTLE_SW_THERMAL | NVML_THROTTLE_HW_THERMAL);
	assert_int_equal(s.value[GPU_POWER], 412000);
	assert_int_equal(s.value[GPU_TEMPERATURE], 91);
	assert_int_equal(s.value[GPU_UTILISATION], 55);
	assert_int_equal(s.value[GPU_ECC_CORRECTED], 7);
	assert_int_equal(s.value[GPU_ECC_UNCORRECTED], 1);
	assert_int_equal(s.value[GPU_PCIE_REPLAYS], 12);
	assert_int_equal(s.value[GPU_PCIE_WIDTH], 8);
	assert_int_equal(s.pid_count, 1);
	assert_int_equal(s.pid[0], 4711);
	assert_int_equal(gpu_nvml_read(n, 2, &s), 0);
	assert_int_equal(s.value[GPU_SM_CLOCK], 1980);
	assert_int_equal(s.pid_count, 0);
	assert_int_equal(gpu_nvml_read(n, 8, &s), -EIO);
	gpu_nvml_close(n);
}

static void a_library_that_is_not_there_is_a_reason(void **state)
{
	struct gpu_nvml *n = NULL;
	char why[160] = "";

	assert_int_equal(gpu_nvml_open(&n, "/nowhere/libnvidia-ml.so.1", why, sizeof(why)),
			 -ENOENT);
	assert_non_null(strstr(why, "/nowhere/libnvidia-ml.so.1"));
	assert_null(n);
	/* a library, but another one */
	assert_int_equal(gpu_nvml_open(&n, "libm.so.6", why, sizeof(why)), -ENXIO);
	assert_string_equal(why, "no nvmlInit_v2");
}

static void no_devices_is_a_reason(void **state)
{
	struct gpu_nvml *n = NULL;
	char why[160] = "";

	setenv("SIM_DEVICE_COUNT", "0", 1);
	assert_int_equal(gpu_nvml_open(&n, nvml_double, why, sizeof(why)), -ENODEV);
	unsetenv("SIM_DEVICE_COUNT");
	assert_string_equal(why, "no devices");
}

static void a_device_off_the_bus_gives_an_error_and_the_others_go_on(void **state)
{
	struct gpu_sample s;
	struct gpu_nvml *n;

	file_says("5.lost 1\n");
	n = opened();
	assert_int_equal(gpu_nvml_read(n, 5, &s), -EIO);
	assert_int_equal(s.has, 0);
	assert_int_equal(gpu_nvml_read(n, 4, &s), 0);
	gpu_nvml_close(n);
}

static void reports_each_xid_once(void **state)
{
	struct gpu_nvml *n;
	uint32_t device = 0;
	uint64_t xid = 0;

	file_says("1.xid 13\n"); /* from before */
	n = opened();
	assert_int_equal(gpu_nvml_wait_xid(n, 0, &device, &xid), 0);
	file_says("1.xid 13\n6.xid 79\n");
	assert_int_equal(gpu_nvml_wait_xid(n, 5000, &device, &xid), 1);
	assert_int_equal(device, 6);
	assert_int_equal(xid, 79);
	assert_int_equal(gpu_nvml_wait_xid(n, 0, &device, &xid), 0);
	gpu_nvml_close(n);
}

/* ---- gpu_poll ---- */

static struct gpu_poll_state wait_polls(struct gpu_poll *p, uint64_t polls)
{
	struct gpu_poll_state st;

	for (unsigned i = 0; i < 2000; i++) {
		gpu_poll_state(p, &st);
		if (st.polls >= polls)
			return st;
		nap(5);
	}
	fail_msg("%llu polls of %llu", (unsigned long long)st.polls, (unsigned long long)polls);
	return st;
}

static void polls_and_hands_out_each_reading_once(void **state)
{
	struct gpu_sample s[GPU_POLL_SAMPLES];
	struct gpu_poll_device d;
	struct gpu_poll_state st;
	struct gpu_poll *p;
	uint32_t n, again;

	file_says("0.sm_clock_mhz 1500\n");
	assert_int_equal(gpu_poll_open(&p, nvml_double, 20000000), 0);
	st = wait_polls(p, 4);
	assert_true(st.open);
	assert_int_equal(st.count, 8);
	n = gpu_poll_take(p, 0, s, GPU_POLL_SAMPLES);
	assert_true(n >= 4);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(s[i].value[GPU_SM_CLOCK], 1500);
		assert_true(!i || s[i].at_ns > s[i - 1].at_ns);
	}
	file_says("0.sm_clock_mhz 900\n");
	wait_polls(p, st.polls + 3); /* one may have begun before */
	again = gpu_poll_take(p, 0, s, GPU_POLL_SAMPLES);
	assert_true(again >= 2);
	assert_int_equal(s[again - 1].value[GPU_SM_CLOCK], 900);
	assert_true(gpu_poll_device(p, 0, &d));
	assert_string_equal(d.id.uuid, "GPU-53494d47-5055-0000-0000-000000000000");
	assert_false(gpu_poll_device(p, 8, &d));
	gpu_poll_close(p);
}

static void a_slow_reader_loses_the_oldest_and_that_is_counted(void **state)
{
	struct gpu_sample s[GPU_POLL_SAMPLES];
	struct gpu_poll_state st;
	struct gpu_poll *p;

	file_says("");
	assert_int_equal(gpu_poll_open(&p, nvml_double, 1000000), 0);
	wait_polls(p, GPU_POLL_SAMPLES + 10);
	assert_int_equal(gpu_poll_take(p, 2, s, GPU_POLL_SAMPLES), GPU_POLL_SAMPLES);
	gpu_poll_state(p, &st);
	assert_true(st.lost >= 10);
	gpu_poll_close(p);
}

static void keeps_xids_and_devices_that_stop_answering(void **state)
{
	struct gpu_poll_xid x[GPU_POLL_XIDS];
	struct gpu_poll_device d;
	struct gpu_poll_state st;
	struct gpu_poll *p;
	uint32_t n = 0;

	file_says("");
	assert_int_equal(gpu_poll_open(&p, nvml_double, 10000000), 0);
	st = wait_polls(p, 2);
	file_says("4.xid 48\n7.lost 1\n");
	for (unsigned i = 0; i < 2000 && !n; i++) {
		n = gpu_poll_take_xids(p, x, GPU_POLL_XIDS);
		nap(5);
	}
	assert_int_equal(n, 1);
	assert_int_equal(x[0].device, 4);
	assert_int_equal(x[0].xid, 48);
	st = wait_polls(p, st.polls + 6);
	assert_true(st.xid_events);
	assert_true(gpu_poll_device(p, 7, &d));
	assert_true(d.failed >= 3);
	assert_true(gpu_poll_device(p, 4, &d));
	assert_int_equal(d.failed, 0);
	assert_int_equal(d.xid, 48);
	assert_int_equal(d.xid_count, 1);
	gpu_poll_close(p);
}

static void nvml_that_is_missing_says_so(void **state)
{
	struct gpu_poll_state st;
	struct gpu_poll *p;

	assert_int_equal(gpu_poll_open(&p, "/nowhere/libnvidia-ml.so.1", 10000000), 0);
	for (unsigned i = 0; i < 2000; i++) {
		gpu_poll_state(p, &st);
		if (strcmp(st.why, "starting"))
			break;
		nap(5);
	}
	assert_false(st.open);
	assert_non_null(strstr(st.why, "/nowhere/"));
	assert_int_equal(st.count, 0);
	gpu_poll_close(p); /* at once, not after the minute until the next attempt */
}

/* Who asks is never made to wait, and the daemon can end. */
static void a_driver_that_hangs_holds_up_nobody(void **state)
{
	struct gpu_poll_device d;
	struct gpu_poll_state st = {.busy_since_ns = 0};
	struct gpu_poll *p;

	file_says("hang_ms 20000\n");
	assert_int_equal(gpu_poll_open(&p, nvml_double, 10000000), 0);
	for (unsigned i = 0; i < 2000 && !st.busy_since_ns; i++) {
		gpu_poll_state(p, &st);
		nap(5);
	}
	assert_true(st.busy_since_ns);
	assert_false(gpu_poll_device(p, 0, &d) && d.last.at_ns);
	gpu_poll_close(p);
	file_says("");
}

/* ---- gpu_match ---- */

static struct gpu_poll_device devices[4];

static void devices_make(void)
{
	static const char *const uuids[] = {
	    "GPU-aaaa1111-0000-0000-0000-000000000000", "GPU-aaaa2222-0000-0000-0000-000000000000",
	    "GPU-bbbb0000-0000-0000-0000-000000000000", "GPU-cccc0000-0000-0000-0000-000000000000"};

	memset(devices, 0, sizeof(devices));
	for (unsigned i = 0; i < 4; i++)
		strcpy(devices[i].id.uuid, uuids[i]);
}

static uint32_t matched(uint32_t pid, const char *visible, int32_t local, enum gpu_match_source by)
{
	enum gpu_match_source source;
	uint32_t at = gpu_match(devices, 4, pid, visible, local, &source);

	assert_int_equal(source, by);
	return at;
}

static void a_rank_has_the_gpu_that_it_computes_on(void **state)
{
	devices_make();
	devices[2].last.pid[0] = 77;
	devices[2].last.pid_count = 1;
	/* whatever its environment says: numbers in a container are others */
	assert_int_equal(matched(77, "0", 1, GPU_MATCH_PROCESS), 2);
	devices[3].last.pid[0] = 77;
	devices[3].last.pid_count = 1;
	assert_int_equal(matched(77, "GPU-bbbb0000-0000-0000-0000-000000000000", 1, GPU_MATCH_UUID),
			 2);
}

static void else_the_one_that_its_environment_names(void **state)
{
	devices_make();
	assert_int_equal(matched(1, "GPU-cccc0000-0000-0000-0000-000000000000", 0, GPU_MATCH_UUID),
			 3);
	assert_int_equal(matched(1, "GPU-bbbb", 0, GPU_MATCH_UUID), 2);
	assert_int_equal(matched(1, "gpu-AAAA2", 0, GPU_MATCH_UUID), 1);
	assert_int_equal(matched(1, "3", 0, GPU_MATCH_INDEX), 3);
	assert_int_equal(matched(1, "", 1, GPU_MATCH_LOCAL), 1);
}

static void and_none_rather_than_a_guess(void **state)
{
	devices_make();
	assert_int_equal(matched(1, "GPU-aaaa", 0, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(1, "GPU-", 0, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(1, "GPU-dddd", 0, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(1, "MIG-aaaa", 0, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(1, "4", 0, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(1, "-1", 0, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(1, "1x", 0, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(0, "", -1, GPU_MATCH_NONE), GPU_NONE);
	assert_int_equal(matched(0, "", 4, GPU_MATCH_NONE), GPU_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_what_the_device_says),
	    cmocka_unit_test(a_library_that_is_not_there_is_a_reason),
	    cmocka_unit_test(no_devices_is_a_reason),
	    cmocka_unit_test(a_device_off_the_bus_gives_an_error_and_the_others_go_on),
	    cmocka_unit_test(reports_each_xid_once),
	    cmocka_unit_test(polls_and_hands_out_each_reading_once),
	    cmocka_unit_test(a_slow_reader_loses_the_oldest_and_that_is_counted),
	    cmocka_unit_test(keeps_xids_and_devices_that_stop_answering),
	    cmocka_unit_test(nvml_that_is_missing_says_so),
	    cmocka_unit_test(a_rank_has_the_gpu_that_it_computes_on),
	    cmocka_unit_test(else_the_one_that_its_environment_names),
	    cmocka_unit_test(and_none_rather_than_a_guess),
	    cmocka_unit_test(a_driver_that_hangs_holds_up_nobody), /* last: its thread stays */
	};
	int rc, fd = mkstemp(path);
	ssize_t n = readlink("/proc/self/exe", nvml_double, 400);

	if (fd < 0 || n <= 0)
		return 1;
	strcpy(strrchr(nvml_double, '/'), "/../lib/sim/libnvidia-ml.so.1");
	close(fd);
	setenv("SIM_NVML_FILE", path, 1);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	/* not through the exit of a library whose call is under way */
	fflush(NULL);
	_exit(rc);
}

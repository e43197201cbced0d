/* SPDX-License-Identifier: Apache-2.0
 * nvml_double.c - NVML over a text file. $SIM_NVML_FILE has lines `KEY VALUE` for every device or
 * `INDEX.KEY VALUE` for one. It is read again whenever it changes, so that a test or a scenario can
 * lower a clock or raise a throttle reason while a job runs. Missing keys have a healthy default. A
 * change of the key `xid` to a value other than 0 is an event. `process` is the process that runs
 * on the device, `other` another one; `lost 1`: the device has fallen off the bus; `hang_ms`: how
 * long each call takes. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "foreign/nvml.h"

#define NVML_API(name, params)                                                                     \
	__attribute__((visibility("default"))) nvml_result name params;                            \
	nvml_result name params

#define MAX_DEVICES 16

struct nvml_device_st {
	unsigned index;
};

static const struct {
	const char *name;
	uint64_t value;
} keys[] = {
    {"sm_clock_mhz", 1980},
    {"mem_clock_mhz", 2619},
    {"sm_clock_max_mhz", 1980},
    {"mem_clock_max_mhz", 2619},
    {"power_mw", 520000},
    {"power_limit_mw", 700000},
    {"temperature_c", 58},
    {"throttle", 0},
    {"util_gpu", 97},
    {"util_memory", 61},
    {"ecc_corrected", 0},
    {"ecc_uncorrected", 0},
    {"pcie_replay", 0},
    {"pcie_generation", 5},
    {"pcie_width", 16},
    {"xid", 0},
    {"process", 0},
    {"other", 0},
    {"lost", 0},
    {"hang_ms", 0},
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static struct nvml_device_st devices[MAX_DEVICES];
static uint64_t values[MAX_DEVICES][KEYS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timespec changed;
static unsigned refs;

static unsigned device_count(void)
{
	const char *s = getenv("SIM_DEVICE_COUNT");
	unsigned n = s ? (unsigned)strtoul(s, NULL, 10) : 8;

	return n < MAX_DEVICES ? n : MAX_DEVICES;
}

static void set_key(const char *key, uint64_t value)
{
	unsigned first = 0, last = MAX_DEVICES - 1;
	const char *dot = strchr(key, '.');

	if (dot) {
		first = last = (unsigned)strtoul(key, NULL, 10);
		if (first >= MAX_DEVICES)
			return;
		key = dot + 1;
	}
	for (size_t k = 0; k < KEYS; k++)
		for (unsigned d = first; d <= last && !strcmp(keys[k].name, key); d++)
			values[d][k] = value;
}

static void refresh_locked(void)
{
	const char *path = getenv("SIM_NVML_FILE");
	struct stat st;
	char line[256], key[64], text[64];
	FILE *f;

	if (!path || stat(path, &st) || !memcmp(&st.st_mtim, &changed, sizeof(changed)))
		return;
	f = fopen(path, "r");
	if (!f)
		return;
	changed = st.st_mtim;
	for (unsigned d = 0; d < MAX_DEVICES; d++)
		for (size_t k = 0; k < KEYS; k++)
			values[d][k] = keys[k].value;
	while (fgets(line, sizeof(line), f))
		if (line[0] != '#' && sscanf(line, "%63s %63s", key, text) == 2)
			set_key(key, strtoull(text, NULL, 0));
	fclose(f);
}

static uint64_t value_locked(unsigned device, const char *key)
{
	for (size_t k = 0; k < KEYS; k++)
		if (!strcmp(keys[k].name, key))
			return values[device][k];
	return 0;
}

static void sleep_ms(uint64_t ms)
{
	struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (ms && nanosleep(&ts, &ts))
		;
}

static nvml_result get(nvml_device d, const char *key, uint64_t *out)
{
	uint64_t hang_ms, lost;

	if (!refs)
		return NVML_UNINITIALIZED;
	if (!d || d < devices || d >= devices + MAX_DEVICES || !out)
		return NVML_INVALID_ARGUMENT;
	pthread_mutex_lock(&lock);
	refresh_locked();
	*out = value_locked(d->index, key);
	hang_ms = value_locked(d->index, "hang_ms");
	lost = value_locked(d->index, "lost");
	pthread_mutex_unlock(&lock);
	sleep_ms(hang_ms);
	return lost ? NVML_GPU_IS_LOST : NVML_OK;
}

static nvml_result get_unsigned(nvml_device d, const char *key, unsigned *out)
{
	uint64_t v = 0;
	nvml_result rc = out ? get(d, key, &v) : NVML_INVALID_ARGUMENT;

	if (!rc)
		*out = (unsigned)v;
	return rc;
}

NVML_API(nvmlInit_v2, (void))
{
	pthread_mutex_lock(&lock);
	if (!refs++)
		for (unsigned d = 0; d < MAX_DEVICES; d++) {
			devices[d].index = d;
			for (size_t k = 0; k < KEYS; k++)
				values[d][k] = keys[k].value;
		}
	memset(&changed, 0, sizeof(changed));
	pthread_mutex_unlock(&lock);
	return NVML_OK;
}

NVML_API(nvmlShutdown, (void))
{
	nvml_result rc = NVML_OK;

	pthread_mutex_lock(&lock);
	if (refs)
		refs--;
	else
		rc = NVML_UNINITIALIZED;
	pthread_mutex_unlock(&lock);
	return rc;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(nvml_result rc);
const char *nvmlErrorString(nvml_result rc)
{
	switch (rc) {
	case NVML_OK:
		return "Success";
	case NVML_UNINITIALIZED:
		return "Uninitialized";
	case NVML_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_NOT_FOUND:
		return "Not Found";
	case NVML_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	default:
		return "Unknown Error";
	}
}

static nvml_result text(char *out, unsigned bytes, const char *s)
{
	if (!refs)
		return NVML_UNINITIALIZED;
	if (!out)
		return NVML_INVALID_ARGUMENT;
	if (strlen(s) >= bytes)
		return NVML_INSUFFICIENT_SIZE;
	strcpy(out, s);
	return NVML_OK;
}

NVML_API(nvmlSystemGetDriverVersion, (char *out, unsigned bytes))
{
	return text(out, bytes, "580.65.06");
}

NVML_API(nvmlDeviceGetCount_v2, (unsigned *count))
{
	if (!refs)
		return NVML_UNINITIALIZED;
	if (!count)
		return NVML_INVALID_ARGUMENT;
	*count = device_count();
	return NVML_OK;
}

NVML_API(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvml_device *out))
{
	if (!refs)
		return NVML_UNINITIALIZED;
	if (!out || index >= device_count())
		return NVML_INVALID_ARGUMENT;
	*out = &devices[index];
	return NVML_OK;
}

static void uuid_of(unsigned index, char *out, size_t bytes)
{
	/* The same bytes as cuDeviceGetUuid of the libcuda double. */
	snprintf(out, bytes, "GPU-53494d47-5055-0000-0000-0000000000%02x", index);
}

NVML_API(nvmlDeviceGetName, (nvml_device d, char *out, unsigned bytes))
{
	return text(out, bytes, "Simulated GPU");
}

NVML_API(nvmlDeviceGetUUID, (nvml_device d, char *out, unsigned bytes))
{
	char mine[NVML_UUID_BYTES];

	if (!d)
		return NVML_INVALID_ARGUMENT;
	uuid_of(d->index, mine, sizeof(mine));
	return text(out, bytes, mine);
}

NVML_API(nvmlDeviceGetPciInfo_v3, (nvml_device d, nvml_pci_info *info))
{
	if (!refs)
		return NVML_UNINITIALIZED;
	if (!d || !info)
		return NVML_INVALID_ARGUMENT;
	memset(info, 0, sizeof(*info));
	info->bus = 0x10 + d->index;
	snprintf(info->bus_id_legacy, sizeof(info->bus_id_legacy), "0000:%02X:00.0", info->bus);
	snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%02X:00.0", info->bus);
	return NVML_OK;
}

NVML_API(nvmlDeviceGetUtilizationRates, (nvml_device d, nvml_utilization *u))
{
	nvml_result rc = u ? get_unsigned(d, "util_gpu", &u->gpu) : NVML_INVALID_ARGUMENT;

	return rc ? rc : get_unsigned(d, "util_memory", &u->memory);
}

NVML_API(nvmlDeviceGetTemperature, (nvml_device d, int sensor, unsigned *c))
{
	return sensor == NVML_TEMPERATURE_GPU ? get_unsigned(d, "temperature_c", c)
					      : NVML_INVALID_ARGUMENT;
}

NVML_API(nvmlDeviceGetPowerUsage, (nvml_device d, unsigned *mw))
{
	return get_unsigned(d, "power_mw", mw);
}

NVML_API(nvmlDeviceGetEnforcedPowerLimit, (nvml_device d, unsigned *mw))
{
	return get_unsigned(d, "power_limit_mw", mw);
}

NVML_API(nvmlDeviceGetClockInfo, (nvml_device d, int type, unsigned *mhz))
{
	return get_unsigned(d, type == NVML_CLOCK_MEM ? "mem_clock_mhz" : "sm_clock_mhz", mhz);
}

NVML_API(nvmlDeviceGetMaxClockInfo, (nvml_device d, int type, unsigned *mhz))
{
	return get_unsigned(d, type == NVML_CLOCK_MEM ? "mem_clock_max_mhz" : "sm_clock_max_mhz",
			    mhz);
}

NVML_API(nvmlDeviceGetCurrentClocksThrottleReasons, (nvml_device d, unsigned long long *reasons))
{
	uint64_t v = 0;
	nvml_result rc = reasons ? get(d, "throttle", &v) : NVML_INVALID_ARGUMENT;

	if (!rc)
		*reasons = v;
	return rc;
}

NVML_API(nvmlDeviceGetTotalEccErrors,
	 (nvml_device d, int type, int counter, unsigned long long *count))
{
	uint64_t v = 0;
	nvml_result rc;

	if (!count || type < 0 || type > 1)
		return NVML_INVALID_ARGUMENT;
	rc = get(d, type == NVML_ECC_UNCORRECTED ? "ecc_uncorrected" : "ecc_corrected", &v);
	if (!rc)
		*count = v;
	return rc;
}

NVML_API(nvmlDeviceGetPcieReplayCounter, (nvml_device d, unsigned *count))
{
	return get_unsigned(d, "pcie_replay", count);
}

NVML_API(nvmlDeviceGetCurrPcieLinkGeneration, (nvml_device d, unsigned *generation))
{
	return get_unsigned(d, "pcie_generation", generation);
}

NVML_API(nvmlDeviceGetCurrPcieLinkWidth, (nvml_device d, unsigned *width))
{
	return get_unsigned(d, "pcie_width", width);
}

NVML_API(nvmlDeviceGetComputeRunningProcesses_v3,
	 (nvml_device d, unsigned *count, nvml_process *list))
{
	static const char *const these[] = {"process", "other"};
	unsigned n = 0;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t pid = 0;
		nvml_result rc = count ? get(d, these[i], &pid) : NVML_INVALID_ARGUMENT;

		if (rc)
			return rc;
		if (!pid)
			continue;
		if (n == *count || !list)
			return NVML_INSUFFICIENT_SIZE;
		list[n++] = (nvml_process){.pid = (unsigned)pid};
	}
	*count = n;
	return NVML_OK;
}

/* ---- events: one set is enough for whoever asks ---- */

struct nvml_event_set_st {
	bool registered[MAX_DEVICES];
	uint64_t seen[MAX_DEVICES]; /* the last reported XID */
};

NVML_API(nvmlEventSetCreate, (nvml_event_set * set))
{
	if (!refs)
		return NVML_UNINITIALIZED;
	if (!set)
		return NVML_INVALID_ARGUMENT;
	*set = calloc(1, sizeof(**set));
	return *set ? NVML_OK : NVML_UNKNOWN;
}

NVML_API(nvmlDeviceRegisterEvents, (nvml_device d, unsigned long long types, nvml_event_set set))
{
	uint64_t xid;
	nvml_result rc =
	    set && types == NVML_EVENT_XID ? get(d, "xid", &xid) : NVML_INVALID_ARGUMENT;

	if (rc)
		return rc;
	set->registered[d->index] = true;
	set->seen[d->index] = xid; /* earlier XIDs are not events */
	return NVML_OK;
}

static bool next_event(nvml_event_set set, nvml_event *event)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	refresh_locked();
	for (unsigned d = 0; d < MAX_DEVICES && !found; d++) {
		uint64_t xid = value_locked(d, "xid");

		if (!set->registered[d] || xid == set->seen[d])
			continue;
		set->seen[d] = xid;
		if (!xid)
			continue;
		*event = (nvml_event){.device = &devices[d], .type = NVML_EVENT_XID, .data = xid};
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

NVML_API(nvmlEventSetWait_v2, (nvml_event_set set, nvml_event *event, unsigned timeout_ms))
{
	if (!refs)
		return NVML_UNINITIALIZED;
	if (!set || !event)
		return NVML_INVALID_ARGUMENT;
	for (unsigned waited_ms = 0;; waited_ms += 10) {
		if (next_event(set, event))
			return NVML_OK;
		if (waited_ms >= timeout_ms)
			return NVML_TIMEOUT;
		sleep_ms(timeout_ms - waited_ms < 10 ? timeout_ms - waited_ms : 10);
	}
}

NVML_API(nvmlEventSetFree, (nvml_event_set set))
{
	free(set);
	return NVML_OK;
}

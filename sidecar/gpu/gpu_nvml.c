/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/gpu/gpu_nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "foreign/nvml.h"

#define LIBRARY "libnvidia-ml.so.1"

/* Fields that one call of NVML returns. SELECTED: the call takes `which` besides the device. */
static const struct {
	enum gpu_field field;
	const char *symbol;
	enum { PLAIN, PLAIN_64, SELECTED } kind;
	int which;
} fields[] = {
    {GPU_SM_CLOCK, "nvmlDeviceGetClockInfo", SELECTED, NVML_CLOCK_SM},
    {GPU_MEM_CLOCK, "nvmlDeviceGetClockInfo", SELECTED, NVML_CLOCK_MEM},
    {GPU_THROTTLE, "nvmlDeviceGetCurrentClocksThrottleReasons", PLAIN_64, 0},
    {GPU_POWER, "nvmlDeviceGetPowerUsage", PLAIN, 0},
    {GPU_POWER_LIMIT, "nvmlDeviceGetEnforcedPowerLimit", PLAIN, 0},
    {GPU_TEMPERATURE, "nvmlDeviceGetTemperature", SELECTED, NVML_TEMPERATURE_GPU},
    {GPU_PCIE_REPLAYS, "nvmlDeviceGetPcieReplayCounter", PLAIN, 0},
    {GPU_PCIE_GENERATION, "nvmlDeviceGetCurrPcieLinkGeneration", PLAIN, 0},
    {GPU_PCIE_WIDTH, "nvmlDeviceGetCurrPcieLinkWidth", PLAIN, 0},
};

struct gpu_nvml {
	void *library;
	nvml_device device[GPU_DEVICES_MAX];
	uint32_t count;
	char driver[GPU_TEXT_BYTES];
	void *call[ARRAY_LEN(fields)]; /* NULL: this release lacks it */
	nvml_shutdown_fn shutdown;
	nvml_text_fn uuid, name;
	nvml_pci_fn pci;
	nvml_selected_fn clock_max;
	nvml_utilization_fn utilisation;
	nvml_ecc_fn ecc;
	nvml_processes_fn processes;
	nvml_event_wait_fn event_wait;
	nvml_event_free_fn event_free;
	nvml_event_set events; /* NULL: none */
};

/* Stores dlsym's result as a function's address; POSIX allows the conversion. */
static void find(void *library, const char *symbol, void *out)
{
	void *address = dlsym(library, symbol);

	memcpy(out, &address, sizeof(address));
}

static void open_events(struct gpu_nvml *n)
{
	nvml_event_create_fn create;
	nvml_event_register_fn enlist;
	uint32_t enlisted = 0;

	find(n->library, "nvmlEventSetCreate", &create);
	find(n->library, "nvmlDeviceRegisterEvents", &enlist);
	find(n->library, "nvmlEventSetWait_v2", &n->event_wait);
	find(n->library, "nvmlEventSetFree", &n->event_free);
	if (!create || !enlist || !n->event_wait || !n->event_free || create(&n->events)) {
		n->events = NULL;
		return;
	}
	for (uint32_t i = 0; i < n->count; i++)
		enlisted += !enlist(n->device[i], NVML_EVENT_XID, n->events);
	if (enlisted)
		return;
	n->event_free(n->events);
	n->events = NULL;
}

static int find_devices(struct gpu_nvml *n)
{
	nvml_count_fn count_of;
	nvml_handle_fn handle;
	unsigned count = 0;

	find(n->library, "nvmlDeviceGetCount_v2", &count_of);
	find(n->library, "nvmlDeviceGetHandleByIndex_v2", &handle);
	if (!count_of || !handle)
		return -ENOSYS;
	if (count_of(&count) || !count)
		return -ENODEV;
	n->count = count < GPU_DEVICES_MAX ? count : GPU_DEVICES_MAX;
	/* a lost device has no handle, but keeps its place, so that our numbers equal NVML's */
	for (uint32_t i = 0; i < n->count; i++)
		if (handle(i, &n->device[i]))
			n->device[i] = NULL;
	return 0;
}

static void find_calls(struct gpu_nvml *n)
{
	nvml_system_text_fn driver;

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		n->call[i] = dlsym(n->library, fields[i].symbol);
	find(n->library, "nvmlDeviceGetUUID", &n->uuid);
	find(n->library, "nvmlDeviceGetName", &n->name);
	find(n->library, "nvmlDeviceGetPciInfo_v3", &n->pci);
	find(n->library, "nvmlDeviceGetMaxClockInfo", &n->clock_max);
	find(n->library, "nvmlDeviceGetUtilizationRates", &n->utilisation);
	find(n->library, "nvmlDeviceGetTotalEccErrors", &n->ecc);
	find(n->library, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes);
	find(n->library, "nvmlSystemGetDriverVersion", &driver);
	if (driver && driver(n->driver, sizeof(n->driver) - 1))
		n->driver[0] = '\0';
	n->driver[sizeof(n->driver) - 1] = '\0';
}

int gpu_nvml_open(struct gpu_nvml **out, const char *library, char *why, size_t bytes)
{
	struct gpu_nvml *n = calloc(1, sizeof(*n));
	nvml_error_text_fn text;
	nvml_init_fn init;
	int err, rc;

	if (!n)
		return -ENOMEM;
	n->library = dlopen(library && *library ? library : LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!n->library) {
		snprintf(why, bytes, "%s", dlerror());
		free(n);
		return -ENOENT;
	}
	find(n->library, "nvmlInit_v2", &init);
	find(n->library, "nvmlShutdown", &n->shutdown);
	rc = init ? init() : NVML_UNKNOWN;
	if (rc) {
		n->shutdown = NULL; /* nvmlInit failed, so there is nothing to undo */
		find(n->library, "nvmlErrorString", &text);
		if (init)
			snprintf(why, bytes, "nvmlInit_v2: %s",
				 text ? text(rc) : "no reason given");
		else
			snprintf(why, bytes, "no nvmlInit_v2");
		err = -ENXIO;
		goto fail;
	}
	err = find_devices(n);
	if (err) {
		snprintf(why, bytes, "%s",
			 err == -ENODEV ? "no devices" : "the library is too old");
		goto fail;
	}
	find_calls(n);
	open_events(n);
	*out = n;
	return 0;
fail:
	gpu_nvml_close(n);
	return err;
}

void gpu_nvml_close(struct gpu_nvml *n)
{
	if (!n)
		return;
	if (n->events)
		n->event_free(n->events);
	if (n->shutdown)
		n->shutdown();
	dlclose(n->library);
	free(n);
}

uint32_t gpu_nvml_count(const struct gpu_nvml *n)
{
	return n->count;
}

const char *gpu_nvml_driver(const struct gpu_nvml *n)
{
	return n->driver;
}

static void text(nvml_text_fn fn, nvml_device d, char *out)
{
	if (!fn || fn(d, out, GPU_TEXT_BYTES - 1))
		out[0] = '\0';
	out[GPU_TEXT_BYTES - 1] = '\0';
}

void gpu_nvml_identity(const struct gpu_nvml *n, uint32_t device, struct gpu_identity *out)
{
	nvml_device d = device < n->count ? n->device[device] : NULL;
	nvml_pci_info pci;
	unsigned mhz;

	memset(out, 0, sizeof(*out));
	if (!d)
		return;
	text(n->uuid, d, out->uuid);
	text(n->name, d, out->name);
	if (n->pci && !n->pci(d, &pci))
		snprintf(out->bus, sizeof(out->bus), "%.31s", pci.bus_id);
	if (n->clock_max && !n->clock_max(d, NVML_CLOCK_SM, &mhz))
		out->sm_clock_max_mhz = mhz;
	if (n->clock_max && !n->clock_max(d, NVML_CLOCK_MEM, &mhz))
		out->mem_clock_max_mhz = mhz;
}

static void set(struct gpu_sample *s, enum gpu_field field, uint64_t value)
{
	s->value[field] = value;
	s->has |= 1u << field;
}

static void read_field(const struct gpu_nvml *n, size_t i, nvml_device d, struct gpu_sample *out)
{
	unsigned long long wide = 0;
	unsigned narrow = 0;
	nvml_selected_fn selected;
	nvml_unsigned_fn plain;
	nvml_u64_fn plain_64;
	int rc;

	if (!n->call[i])
		return;
	memcpy(&selected, &n->call[i], sizeof(selected));
	memcpy(&plain, &n->call[i], sizeof(plain));
	memcpy(&plain_64, &n->call[i], sizeof(plain_64));
	if (fields[i].kind == SELECTED)
		rc = selected(d, fields[i].which, &narrow);
	else if (fields[i].kind == PLAIN)
		rc = plain(d, &narrow);
	else
		rc = plain_64(d, &wide);
	if (!rc)
		set(out, fields[i].field, fields[i].kind == PLAIN_64 ? wide : narrow);
}

static void read_rest(const struct gpu_nvml *n, nvml_device d, struct gpu_sample *out)
{
	nvml_process list[GPU_PROCESSES_MAX];
	unsigned count = GPU_PROCESSES_MAX;
	nvml_utilization use;
	unsigned long long errors;

	if (n->utilisation && !n->utilisation(d, &use))
		set(out, GPU_UTILISATION, use.gpu);
	if (n->ecc && !n->ecc(d, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE, &errors))
		set(out, GPU_ECC_CORRECTED, errors);
	if (n->ecc && !n->ecc(d, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &errors))
		set(out, GPU_ECC_UNCORRECTED, errors);
	if (!n->processes || n->processes(d, &count, list))
		return;
	for (unsigned i = 0; i < count && i < GPU_PROCESSES_MAX; i++)
		out->pid[out->pid_count++] = list[i].pid;
}

int gpu_nvml_read(const struct gpu_nvml *n, uint32_t device, struct gpu_sample *out)
{
	nvml_device d = device < n->count ? n->device[device] : NULL;

	memset(out, 0, sizeof(*out));
	if (!d)
		return -EIO;
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		read_field(n, i, d, out);
	read_rest(n, d, out);
	return out->has ? 0 : -EIO;
}

int gpu_nvml_wait_xid(struct gpu_nvml *n, uint32_t timeout_ms, uint32_t *device, uint64_t *xid)
{
	nvml_event e;
	int rc;

	if (!n->events)
		return -ENOTSUP;
	rc = n->event_wait(n->events, &e, timeout_ms);
	if (rc == NVML_TIMEOUT)
		return 0;
	if (rc) { /* for example a lost device: do not retry at once forever */
		n->event_free(n->events);
		n->events = NULL;
		return -ENOTSUP;
	}
	if (e.type != NVML_EVENT_XID)
		return 0;
	for (uint32_t i = 0; i < n->count; i++)
		if (n->device[i] == e.device) {
			*device = i;
			*xid = e.data;
			return 1;
		}
	return 0;
}

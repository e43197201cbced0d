/* SPDX-License-Identifier: Apache-2.0
 * nvml.h - the part of NVML's ABI that sysom uses (R450 to R580), under our own names. Frozen:
 * extend, never renumber. */
#pragma once

#include <stdint.h>

typedef int nvml_result; /* nvmlReturn_t */
enum {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_TIMEOUT = 10,
	NVML_GPU_IS_LOST = 15,
	NVML_UNKNOWN = 999,
};

typedef struct nvml_device_st *nvml_device;

#define NVML_UUID_BYTES	     96
#define NVML_NAME_BYTES	     96
#define NVML_TEMPERATURE_GPU 0
/* nvmlClockType_t */
#define NVML_CLOCK_GRAPHICS 0
#define NVML_CLOCK_SM	    1
#define NVML_CLOCK_MEM	    2
/* nvmlPcieUtilCounter_t; the counts are KB/s over 20 ms */
#define NVML_PCIE_TX 0
#define NVML_PCIE_RX 1
/* nvmlMemoryErrorType_t, nvmlEccCounterType_t */
#define NVML_ECC_CORRECTED   0
#define NVML_ECC_UNCORRECTED 1
#define NVML_ECC_VOLATILE    0
#define NVML_ECC_AGGREGATE   1
/* nvmlClocksThrottleReason* (also called event reasons) */
#define NVML_THROTTLE_GPU_IDLE	     0x001ull
#define NVML_THROTTLE_APPLICATION    0x002ull
#define NVML_THROTTLE_SW_POWER_CAP   0x004ull
#define NVML_THROTTLE_HW_SLOWDOWN    0x008ull
#define NVML_THROTTLE_SYNC_BOOST     0x010ull
#define NVML_THROTTLE_SW_THERMAL     0x020ull
#define NVML_THROTTLE_HW_THERMAL     0x040ull
#define NVML_THROTTLE_HW_POWER_BRAKE 0x080ull
#define NVML_THROTTLE_DISPLAY	     0x100ull

typedef struct {
	unsigned long long total, free, used;
} nvml_memory; /* nvmlMemory_t */

typedef struct {
	unsigned gpu, memory; /* percent */
} nvml_utilization;	      /* nvmlUtilization_t */

typedef struct {
	char bus_id_legacy[16];
	unsigned domain, bus, device;
	unsigned pci_device_id, pci_subsystem_id;
	char bus_id[32];
} nvml_pci_info; /* nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3 */
_Static_assert(sizeof(nvml_pci_info) == 68, "nvml_pci_info");

/* Of nvmlDeviceGetComputeRunningProcesses_v3 (nvmlProcessInfo_t). */
typedef struct {
	unsigned pid;
	unsigned long long used_memory;
	unsigned gpu_instance, compute_instance;
} nvml_process;
_Static_assert(sizeof(nvml_process) == 24, "nvml_process");

/* nvmlEventData_t of nvmlEventSetWait_v2 */
#define NVML_EVENT_XID 0x8ull /* nvmlEventTypeXidCriticalError; data: the XID */
typedef struct nvml_event_set_st *nvml_event_set;
typedef struct {
	nvml_device device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
} nvml_event;
_Static_assert(sizeof(nvml_event) == 32, "nvml_event");

/* Types of the functions that we look up by dlsym; the names follow NVML's: nvmlInit_v2 and so
 * on. */
typedef nvml_result (*nvml_init_fn)(void);
typedef const char *(*nvml_error_text_fn)(nvml_result rc); /* nvmlErrorString */
typedef nvml_result (*nvml_shutdown_fn)(void);
typedef nvml_result (*nvml_count_fn)(unsigned *count);
typedef nvml_result (*nvml_handle_fn)(unsigned index, nvml_device *device);
typedef nvml_result (*nvml_text_fn)(nvml_device device, char *text, unsigned bytes);
typedef nvml_result (*nvml_unsigned_fn)(nvml_device device, unsigned *value);
typedef nvml_result (*nvml_u64_fn)(nvml_device device, unsigned long long *value);
/* temperature(sensor), clock(type), PCIe throughput(counter) */
typedef nvml_result (*nvml_selected_fn)(nvml_device device, int which, unsigned *value);
typedef nvml_result (*nvml_memory_fn)(nvml_device device, nvml_memory *memory);
typedef nvml_result (*nvml_utilization_fn)(nvml_device device, nvml_utilization *utilization);
typedef nvml_result (*nvml_pci_fn)(nvml_device device, nvml_pci_info *info);
typedef nvml_result (*nvml_ecc_fn)(nvml_device device, int type, int counter,
				   unsigned long long *count);
typedef nvml_result (*nvml_system_text_fn)(char *text, unsigned bytes);
/* count: capacity in, number out */
typedef nvml_result (*nvml_processes_fn)(nvml_device device, unsigned *count, nvml_process *list);
typedef nvml_result (*nvml_event_create_fn)(nvml_event_set *set);
typedef nvml_result (*nvml_event_register_fn)(nvml_device device, unsigned long long types,
					      nvml_event_set set);
typedef nvml_result (*nvml_event_wait_fn)(nvml_event_set set, nvml_event *event,
					  unsigned timeout_ms);
typedef nvml_result (*nvml_event_free_fn)(nvml_event_set set);

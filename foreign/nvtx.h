/* SPDX-License-Identifier: Apache-2.0
 * nvtx.h - the part of NVTX version 2/3's injection ABI that sysom implements, under our own
 * names. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NVTX_TABLE_CALLBACKS 1u
#define NVTX_MODULE_CORE     1u
#define NVTX_MODULE_CORE2    5u

/* NvtxCallbackIdCore */
enum {
	NVTX_CORE_MARK_EX = 1,
	NVTX_CORE_MARK_A = 2,
	NVTX_CORE_RANGE_START_EX = 4,
	NVTX_CORE_RANGE_START_A = 5,
	NVTX_CORE_RANGE_END = 7,
	NVTX_CORE_RANGE_PUSH_EX = 8,
	NVTX_CORE_RANGE_PUSH_A = 9,
	NVTX_CORE_RANGE_POP = 11,
};
/* NvtxCallbackIdCore2 */
enum {
	NVTX_CORE2_DOMAIN_RANGE_START_EX = 2,
	NVTX_CORE2_DOMAIN_RANGE_END = 3,
	NVTX_CORE2_DOMAIN_RANGE_PUSH_EX = 4,
	NVTX_CORE2_DOMAIN_RANGE_POP = 5,
	NVTX_CORE2_DOMAIN_REGISTER_STRING_A = 10,
	NVTX_CORE2_DOMAIN_CREATE_A = 12,
};

/* nvtxEventAttributes_t */
#define NVTX_MESSAGE_NONE	0
#define NVTX_MESSAGE_ASCII	1
#define NVTX_MESSAGE_UNICODE	2
#define NVTX_MESSAGE_REGISTERED 3
struct nvtx_event {
	uint16_t version, bytes;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved0;
	uint64_t payload;
	int32_t message_type;
	union {
		const char *ascii;
		const void *registered;
	} message;
};
_Static_assert(sizeof(struct nvtx_event) == 48, "nvtx_event");
_Static_assert(offsetof(struct nvtx_event, message) == 40, "nvtx_event.message");

/* NvtxExportTableCallbacks; a table is an array of pointers to function pointers. */
struct nvtx_callbacks {
	size_t struct_bytes;
	int (*get_module)(uint32_t module, void ****table, unsigned *count);
};
typedef const void *(*nvtx_get_export_table_fn)(uint32_t table);

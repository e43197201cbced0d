/* SPDX-License-Identifier: Apache-2.0
 * nccl.h - the part of NCCL's public ABI that sysom uses (2.0 to 2.29 and forks that keep it). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "foreign/cuda.h"

typedef int nccl_result;
enum {
	NCCL_OK = 0,
	NCCL_UNHANDLED_CUDA = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6,
	NCCL_IN_PROGRESS = 7
};
typedef struct nccl_comm_st *nccl_comm;
typedef struct {
	char internal[128];
} nccl_unique_id; /* ncclUniqueId, passed by value */

#define NCCL_SPLIT_NO_COLOR (-1)

/* ncclDataType_t -> bytes; 0 unknown. */
static inline unsigned nccl_type_bytes(unsigned type)
{
	static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type < sizeof(bytes) ? bytes[type] : 0;
}

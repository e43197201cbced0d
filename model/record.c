/* SPDX-License-Identifier: Apache-2.0 */
#include "model/record.h"

#include <string.h>

const char *record_coll_name(unsigned func)
{
	static const char *const names[] = {
	    [RECORD_COLL_ALL_REDUCE] = "AllReduce",
	    [RECORD_COLL_BROADCAST] = "Broadcast",
	    [RECORD_COLL_REDUCE] = "Reduce",
	    [RECORD_COLL_ALL_GATHER] = "AllGather",
	    [RECORD_COLL_REDUCE_SCATTER] = "ReduceScatter",
	    [RECORD_COLL_ALL_TO_ALL] = "AllToAll",
	    [RECORD_COLL_GATHER] = "Gather",
	    [RECORD_COLL_SCATTER] = "Scatter",
	    [RECORD_COLL_SEND] = "Send",
	    [RECORD_COLL_RECV] = "Recv",
	    [RECORD_COLL_BCAST] = "Bcast",
	    [RECORD_COLL_GROUP_START] = "GroupStart",
	    [RECORD_COLL_GROUP_END] = "GroupEnd",
	    [RECORD_COLL_GROUP_SIMULATE] = "GroupSimulate",
	};

	if (func < sizeof(names) / sizeof(names[0]) && names[func])
		return names[func];
	return "Other";
}

const char *record_dtype_name(unsigned dtype)
{
	static const char *const names[] = {"int8",    "uint8",	   "int32",	 "uint32",
					    "int64",   "uint64",   "float16",	 "float32",
					    "float64", "bfloat16", "float8e4m3", "float8e5m2"};

	return dtype && dtype <= sizeof(names) / sizeof(names[0]) ? names[dtype - 1] : "";
}

const char *record_kind_name(unsigned kind)
{
	static const char *const names[] = {
	    [RECORD_LAUNCH] = "launch",
	    [RECORD_GRAPH_LAUNCH] = "graph_launch",
	    [RECORD_COLL] = "collective",
	    [RECORD_COMM] = "communicator",
	    [RECORD_SYNC] = "sync",
	    [RECORD_MEM] = "memory",
	    [RECORD_SPAN] = "span",
	    [RECORD_STEP_BEGIN] = "step_begin",
	    [RECORD_STEP_END] = "step_end",
	    [RECORD_GAP] = "gap",
	    [RECORD_COPY_CALL] = "copy_call",
	    [RECORD_API] = "api",
	    [RECORD_SPAN_REQUEST] = "span_request",
	    [RECORD_KERNEL] = "kernel",
	    [RECORD_COLL_KERNEL] = "collective_kernel",
	    [RECORD_COPY] = "copy",
	    [RECORD_MEMSET] = "memset",
	    [RECORD_GRAPH_EXEC] = "graph",
	};

	if (kind < sizeof(names) / sizeof(names[0]) && names[kind])
		return names[kind];
	return "unknown";
}

bool record_is_coll_kernel(const char *kernel_name)
{
	return !strncmp(kernel_name, "ncclDevKernel", 13) ||
	       !strncmp(kernel_name, "ncclKernel", 10) ||
	       !strncmp(kernel_name, "ncclSymkDevKernel", 17) ||
	       strstr(kernel_name, "ncclDevKernel_") || strstr(kernel_name, "ncclKernel_");
}

bool record_is_optimizer(const char *kernel_name)
{
	static const char *const words[] = {
	    "multi_tensor_apply",
	    "ptimizer",
	    "adam",
	    "Adam",
	    "adagrad",
	    "Adagrad",
	    "lamb_",
	    "Lamb",
	    "LAMB",
	    "rmsprop",
	    "RMSprop",
	    "sgd",
	    "SGD",
	    "lion_",
	    "Lion",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(kernel_name, words[i]))
			return true;
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/record.h"

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
	static const char *const names[] = { "int8",	"uint8",   "int32",   "uint32",
					     "int64",	"uint64",  "float16", "float32",
					     "float64", "bfloat16", "float8e4m3", "float8e5m2" };

	return dtype && dtype <= sizeof(names) / sizeof(names[0]) ? names[dtype - 1] : "";
}

const char *record_kind_name(unsigned kind)
{
	switch ((enum record_kind)kind) {
	case RECORD_LAUNCH:
		return "launch";
	case RECORD_GRAPH_LAUNCH:
		return "graph_launch";
	case RECORD_COLL:
		return "collective";
	case RECORD_COMM:
		return "communicator";
	case RECORD_SYNC:
		return "sync";
	case RECORD_MEM:
		return "memory";
	case RECORD_SPAN:
		return "span";
	case RECORD_STEP_BEGIN:
		return "step_begin";
	case RECORD_STEP_END:
		return "step_end";
	case RECORD_GAP:
		return "gap";
	case RECORD_COPY_CALL:
		return "copy_call";
	case RECORD_API:
		return "api";
	case RECORD_KERNEL:
		return "kernel";
	case RECORD_COLL_KERNEL:
		return "collective_kernel";
	case RECORD_COPY:
		return "copy";
	case RECORD_MEMSET:
		return "memset";
	case RECORD_GRAPH_EXEC:
		return "graph";
	}
	return "unknown";
}

bool record_is_coll_kernel(const char *kernel_name)
{
	return !strncmp(kernel_name, "ncclDevKernel", 13) || !strncmp(kernel_name, "ncclKernel", 10) ||
	       !strncmp(kernel_name, "ncclSymkDevKernel", 17) ||
	       strstr(kernel_name, "ncclDevKernel_") || strstr(kernel_name, "ncclKernel_");
}

bool record_is_optimizer(const char *kernel_name)
{
	static const char *const words[] = {
		"multi_tensor_apply", "ptimizer", "adam", "Adam", "adagrad", "Adagrad", "lamb_", "Lamb",
		"LAMB", "rmsprop", "RMSprop", "sgd", "SGD", "lion_", "Lion",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(kernel_name, words[i]))
			return true;
	return false;
}

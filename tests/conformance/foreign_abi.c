/* SPDX-License-Identifier: Apache-2.0
 * foreign_abi.c - compiled, not run: our frozen declarations beside NVIDIA's headers. Every size,
 * offset and value that sysom relies on. */
#include <stddef.h>
#include <cuda.h>
#include <cupti.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include "foreign/cuda.h"
#include "foreign/cupti.h"
#include "foreign/cupti_v2.h"
#include "foreign/nccl.h"
#include "foreign/nvtx.h"

#define SAME(a, b)		    _Static_assert((long)(a) == (long)(b), #a " is not " #b)
#define FIELD(ours, of, theirs, tf) SAME(offsetof(ours, of), offsetof(theirs, tf))

/* driver */
SAME(CU_OK, CUDA_SUCCESS);
SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(CU_GPA_DEFAULT, CU_GET_PROC_ADDRESS_DEFAULT);
SAME(CU_GPA_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(CU_GPA_PTSZ, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME(CU_GPA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS);
SAME(CU_GPA_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CU_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(sizeof(cu_launch_config), sizeof(CUlaunchConfig));
FIELD(cu_launch_config, grid_x, CUlaunchConfig, gridDimX);
FIELD(cu_launch_config, block_z, CUlaunchConfig, blockDimZ);
FIELD(cu_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes);
FIELD(cu_launch_config, stream, CUlaunchConfig, hStream);
FIELD(cu_launch_config, attr_count, CUlaunchConfig, numAttrs);
SAME(sizeof(cu_deviceptr), sizeof(CUdeviceptr));

/* CUPTI */
SAME(CUPTI_OK, CUPTI_SUCCESS);
SAME(CUPTI_MAX_LIMIT, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(CUPTI_INVALID_KIND, CUPTI_ERROR_INVALID_KIND);
SAME(CUPTI_NOT_COMPATIBLE, CUPTI_ERROR_NOT_COMPATIBLE);
SAME(CUPTI_NOT_INITIALIZED_, CUPTI_ERROR_NOT_INITIALIZED);
SAME(CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME(CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
SAME(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME(CUPTI_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
SAME(CUPTI_ATTR_DEVICE_BUFFER_SIZE, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE);
SAME(CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);
SAME(CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME(CUPTI_ATTR_PER_THREAD_ACTIVITY_BUFFER, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
SAME(CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(sizeof(cupti_graph_trace), sizeof(CUpti_ActivityGraphTrace));
FIELD(cupti_graph_trace, correlation, CUpti_ActivityGraphTrace2, correlationId);
FIELD(cupti_graph_trace, start, CUpti_ActivityGraphTrace2, start);
FIELD(cupti_graph_trace, end, CUpti_ActivityGraphTrace2, end);
FIELD(cupti_graph_trace, device, CUpti_ActivityGraphTrace2, deviceId);
FIELD(cupti_graph_trace, graph_id, CUpti_ActivityGraphTrace2, graphId);
FIELD(cupti_graph_trace, context, CUpti_ActivityGraphTrace2, contextId);
FIELD(cupti_graph_trace, stream, CUpti_ActivityGraphTrace2, streamId);
/* the part of CUpti_SubscriberParams that 13.0 has; 13.2 appends to it */
FIELD(cupti_subscriber_params, struct_bytes, CUpti_SubscriberParams, structSize);
FIELD(cupti_subscriber_params, name, CUpti_SubscriberParams, subscriberName);
FIELD(cupti_subscriber_params, old_name, CUpti_SubscriberParams, oldSubscriberName);
FIELD(cupti_subscriber_params, old_name_bytes, CUpti_SubscriberParams, oldSubscriberSize);

#define KERNEL(theirs, bytes)                                                                      \
	SAME(sizeof(theirs), bytes);                                                               \
	FIELD(cupti_kernel, registers, theirs, registersPerThread);                                \
	FIELD(cupti_kernel, start, theirs, start);                                                 \
	FIELD(cupti_kernel, end, theirs, end);                                                     \
	FIELD(cupti_kernel, device, theirs, deviceId);                                             \
	FIELD(cupti_kernel, context, theirs, contextId);                                           \
	FIELD(cupti_kernel, stream, theirs, streamId);                                             \
	FIELD(cupti_kernel, grid, theirs, gridX);                                                  \
	FIELD(cupti_kernel, block, theirs, blockX);                                                \
	FIELD(cupti_kernel, shared_static_bytes, theirs, staticSharedMemory);                      \
	FIELD(cupti_kernel, shared_dynamic_bytes, theirs, dynamicSharedMemory);                    \
	FIELD(cupti_kernel, correlation, theirs, correlationId);                                   \
	FIELD(cupti_kernel, name, theirs, name);                                                   \
	FIELD(cupti_kernel, graph_node_id, theirs, graphNodeId);                                   \
	FIELD(cupti_kernel, graph_id, theirs, graphId)
/* 5 has no graph id by name: its last word is padding there and 0 */
SAME(sizeof(CUpti_ActivityKernel5), CUPTI_KERNEL5_BYTES);
KERNEL(CUpti_ActivityKernel6, CUPTI_KERNEL6_BYTES);
KERNEL(CUpti_ActivityKernel7, CUPTI_KERNEL7_BYTES);
KERNEL(CUpti_ActivityKernel8, CUPTI_KERNEL8_BYTES);
KERNEL(CUpti_ActivityKernel9, CUPTI_KERNEL9_BYTES);
KERNEL(CUpti_ActivityKernel10, CUPTI_KERNEL10_BYTES);

SAME(sizeof(cupti_memcpy), sizeof(CUpti_ActivityMemcpy6));
FIELD(cupti_memcpy, copy_kind, CUpti_ActivityMemcpy6, copyKind);
FIELD(cupti_memcpy, bytes, CUpti_ActivityMemcpy6, bytes);
FIELD(cupti_memcpy, start, CUpti_ActivityMemcpy6, start);
FIELD(cupti_memcpy, end, CUpti_ActivityMemcpy6, end);
FIELD(cupti_memcpy, device, CUpti_ActivityMemcpy6, deviceId);
FIELD(cupti_memcpy, context, CUpti_ActivityMemcpy6, contextId);
FIELD(cupti_memcpy, stream, CUpti_ActivityMemcpy6, streamId);
FIELD(cupti_memcpy, correlation, CUpti_ActivityMemcpy6, correlationId);
FIELD(cupti_memcpy, graph_node_id, CUpti_ActivityMemcpy6, graphNodeId);
FIELD(cupti_memcpy, graph_id, CUpti_ActivityMemcpy6, graphId);
SAME(sizeof(cupti_memcpy_peer), sizeof(CUpti_ActivityMemcpyPtoP4));
SAME(CUPTI_MEMCPY_PEER3_BYTES, sizeof(CUpti_ActivityMemcpyPtoP3));
SAME(CUPTI_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME(CUPTI_COPY_PEER, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
FIELD(cupti_memcpy_peer, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
FIELD(cupti_memcpy_peer, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
FIELD(cupti_memcpy_peer, start, CUpti_ActivityMemcpyPtoP4, start);
FIELD(cupti_memcpy_peer, end, CUpti_ActivityMemcpyPtoP4, end);
FIELD(cupti_memcpy_peer, device, CUpti_ActivityMemcpyPtoP4, deviceId);
FIELD(cupti_memcpy_peer, context, CUpti_ActivityMemcpyPtoP4, contextId);
FIELD(cupti_memcpy_peer, stream, CUpti_ActivityMemcpyPtoP4, streamId);
FIELD(cupti_memcpy_peer, src_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
FIELD(cupti_memcpy_peer, dst_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
FIELD(cupti_memcpy_peer, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
FIELD(cupti_memcpy_peer, graph_node_id, CUpti_ActivityMemcpyPtoP4, graphNodeId);
FIELD(cupti_memcpy_peer, graph_id, CUpti_ActivityMemcpyPtoP4, graphId);

/* the functions, by assignment: a wrong signature does not compile */
static cupti_result (*const check_register)(CUpti_BuffersCallbackRequestFunc,
					    CUpti_BuffersCallbackCompleteFunc) =
    (cupti_result(*)(CUpti_BuffersCallbackRequestFunc,
		     CUpti_BuffersCallbackCompleteFunc))cuptiActivityRegisterCallbacks;
static void (*const check_requested)(uint8_t **, size_t *,
				     size_t *) = (CUpti_BuffersCallbackRequestFunc)0;
SAME(sizeof(CUpti_ActivityKind), sizeof(uint32_t));
SAME(sizeof(CUpti_ActivityAttribute), sizeof(uint32_t));
SAME(sizeof(CUptiResult), sizeof(cupti_result));

/* NCCL */
SAME(sizeof(nccl_unique_id), sizeof(ncclUniqueId));
SAME(NCCL_OK, ncclSuccess);
SAME(NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_SPLIT_NO_COLOR, NCCL_SPLIT_NOCOLOR);
SAME(sizeof(ncclResult_t), sizeof(nccl_result));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));

/* NVTX */
SAME(sizeof(struct nvtx_event), sizeof(nvtxEventAttributes_t));
FIELD(struct nvtx_event, category, nvtxEventAttributes_t, category);
FIELD(struct nvtx_event, message_type, nvtxEventAttributes_t, messageType);
FIELD(struct nvtx_event, message, nvtxEventAttributes_t, message);
SAME(NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
SAME(NVTX_CORE_RANGE_PUSH_A, NVTX_CBID_CORE_RangePushA);
SAME(NVTX_CORE_RANGE_PUSH_EX, NVTX_CBID_CORE_RangePushEx);
SAME(NVTX_CORE_RANGE_POP, NVTX_CBID_CORE_RangePop);
SAME(NVTX_CORE_RANGE_START_A, NVTX_CBID_CORE_RangeStartA);
SAME(NVTX_CORE_RANGE_START_EX, NVTX_CBID_CORE_RangeStartEx);
SAME(NVTX_CORE_RANGE_END, NVTX_CBID_CORE_RangeEnd);
SAME(NVTX_CORE2_DOMAIN_RANGE_PUSH_EX, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(NVTX_CORE2_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(NVTX_CORE2_DOMAIN_RANGE_START_EX, NVTX_CBID_CORE2_DomainRangeStartEx);
SAME(NVTX_CORE2_DOMAIN_RANGE_END, NVTX_CBID_CORE2_DomainRangeEnd);
SAME(NVTX_CORE2_DOMAIN_REGISTER_STRING_A, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(NVTX_CORE2_DOMAIN_CREATE_A, NVTX_CBID_CORE2_DomainCreateA);
SAME(sizeof(struct nvtx_callbacks), sizeof(NvtxExportTableCallbacks));

int foreign_abi_used(void);
int foreign_abi_used(void)
{
	return check_register && !check_requested;
}

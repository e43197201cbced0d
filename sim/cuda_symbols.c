/* SPDX-License-Identifier: Apache-2.0
 * cuda_symbols.c - the table of cuGetProcAddress in the libcuda double: base name, the CUDA version
 * that introduced the ABI, and whether it is the per-thread-default-stream twin. */
#include "sim/cuda_double.h"

/* Only the addresses matter here. */
extern char cuInit[];
extern char cuDriverGetVersion[];
extern char cuDeviceGetCount[];
extern char cuDeviceGet[];
extern char cuDeviceGetName[];
extern char cuDeviceTotalMem_v2[];
extern char cuDeviceGetAttribute[];
extern char cuDeviceGetUuid[];
extern char cuDeviceGetUuid_v2[];
extern char cuDeviceGetPCIBusId[];
extern char cuDeviceCanAccessPeer[];
extern char cuDevicePrimaryCtxRetain[];
extern char cuDevicePrimaryCtxRelease_v2[];
extern char cuDevicePrimaryCtxReset_v2[];
extern char cuDevicePrimaryCtxSetFlags_v2[];
extern char cuDevicePrimaryCtxGetState[];
extern char cuCtxCreate_v2[];
extern char cuCtxDestroy_v2[];
extern char cuCtxSetCurrent[];
extern char cuCtxGetCurrent[];
extern char cuCtxPushCurrent_v2[];
extern char cuCtxPopCurrent_v2[];
extern char cuCtxSynchronize[];
extern char cuCtxGetDevice[];
extern char cuCtxGetId[];
extern char cuCtxGetApiVersion[];
extern char cuCtxGetFlags[];
extern char cuCtxGetStreamPriorityRange[];
extern char cuModuleLoad[];
extern char cuModuleLoadData[];
extern char cuModuleLoadDataEx[];
extern char cuModuleLoadFatBinary[];
extern char cuModuleUnload[];
extern char cuModuleGetFunction[];
extern char cuModuleGetLoadingMode[];
extern char cuLibraryLoadData[];
extern char cuLibraryUnload[];
extern char cuLibraryGetKernel[];
extern char cuKernelGetFunction[];
extern char cuKernelGetName[];
extern char cuFuncGetName[];
extern char cuFuncGetModule[];
extern char cuFuncGetAttribute[];
extern char cuFuncSetAttribute[];
extern char cuOccupancyMaxActiveBlocksPerMultiprocessor[];
extern char cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags[];
extern char cuStreamCreate[];
extern char cuStreamCreateWithPriority[];
extern char cuStreamDestroy_v2[];
extern char cuEventCreate[];
extern char cuEventDestroy_v2[];
extern char cuEventQuery[];
extern char cuEventSynchronize[];
extern char cuEventElapsedTime[];
extern char cuEventElapsedTime_v2[];
extern char cuGetErrorName[];
extern char cuGetErrorString[];
extern char cuGetExportTable[];
extern char cuProfilerStart[];
extern char cuProfilerStop[];
extern char cuGetProcAddress[];
extern char cuGetProcAddress_v2[];
extern char cuMemAlloc_v2[];
extern char cuMemAllocManaged[];
extern char cuMemAllocPitch_v2[];
extern char cuMemFree_v2[];
extern char cuDeviceGetDefaultMemPool[];
extern char cuMemPoolSetAttribute[];
extern char cuMemHostAlloc[];
extern char cuMemAllocHost_v2[];
extern char cuMemFreeHost[];
extern char cuMemHostRegister_v2[];
extern char cuMemHostUnregister[];
extern char cuMemHostGetDevicePointer_v2[];
extern char cuMemGetInfo_v2[];
extern char cuMemGetAddressRange_v2[];
extern char cuPointerGetAttribute[];
extern char cuThreadExchangeStreamCaptureMode[];
extern char cuGraphCreate[];
extern char cuGraphDestroy[];
extern char cuGraphGetNodes[];
extern char cuGraphInstantiateWithFlags[];
extern char cuGraphInstantiate_v2[];
extern char cuGraphExecDestroy[];
extern char cuGraphExecKernelNodeSetParams_v2[];
extern char cuLaunchKernel[];
extern char cuLaunchKernel_ptsz[];
extern char cuLaunchCooperativeKernel[];
extern char cuLaunchCooperativeKernel_ptsz[];
extern char cuLaunchKernelEx[];
extern char cuLaunchKernelEx_ptsz[];
extern char cuLaunchHostFunc[];
extern char cuLaunchHostFunc_ptsz[];
extern char cuStreamSynchronize[];
extern char cuStreamSynchronize_ptsz[];
extern char cuStreamQuery[];
extern char cuStreamQuery_ptsz[];
extern char cuStreamWaitEvent[];
extern char cuStreamWaitEvent_ptsz[];
extern char cuStreamGetPriority[];
extern char cuStreamGetPriority_ptsz[];
extern char cuStreamGetFlags[];
extern char cuStreamGetFlags_ptsz[];
extern char cuStreamGetCtx[];
extern char cuStreamGetCtx_ptsz[];
extern char cuStreamGetId[];
extern char cuStreamGetId_ptsz[];
extern char cuEventRecord[];
extern char cuEventRecord_ptsz[];
extern char cuEventRecordWithFlags[];
extern char cuEventRecordWithFlags_ptsz[];
extern char cuStreamBeginCapture_v2[];
extern char cuStreamBeginCapture_v2_ptsz[];
extern char cuStreamEndCapture[];
extern char cuStreamEndCapture_ptsz[];
extern char cuStreamIsCapturing[];
extern char cuStreamIsCapturing_ptsz[];
extern char cuStreamGetCaptureInfo[];
extern char cuStreamGetCaptureInfo_ptsz[];
extern char cuStreamGetCaptureInfo_v2[];
extern char cuStreamGetCaptureInfo_v2_ptsz[];
extern char cuStreamGetCaptureInfo_v3[];
extern char cuStreamGetCaptureInfo_v3_ptsz[];
extern char cuGraphInstantiateWithParams[];
extern char cuGraphInstantiateWithParams_ptsz[];
extern char cuGraphUpload[];
extern char cuGraphUpload_ptsz[];
extern char cuGraphLaunch[];
extern char cuGraphLaunch_ptsz[];
extern char cuMemAllocAsync[];
extern char cuMemAllocAsync_ptsz[];
extern char cuMemFreeAsync[];
extern char cuMemFreeAsync_ptsz[];
extern char cuMemAllocFromPoolAsync[];
extern char cuMemAllocFromPoolAsync_ptsz[];
extern char cuMemcpyHtoD_v2[];
extern char cuMemcpyHtoD_v2_ptds[];
extern char cuMemcpyDtoH_v2[];
extern char cuMemcpyDtoH_v2_ptds[];
extern char cuMemcpyDtoD_v2[];
extern char cuMemcpyDtoD_v2_ptds[];
extern char cuMemcpy[];
extern char cuMemcpy_ptds[];
extern char cuMemcpyHtoDAsync_v2[];
extern char cuMemcpyHtoDAsync_v2_ptsz[];
extern char cuMemcpyDtoHAsync_v2[];
extern char cuMemcpyDtoHAsync_v2_ptsz[];
extern char cuMemcpyDtoDAsync_v2[];
extern char cuMemcpyDtoDAsync_v2_ptsz[];
extern char cuMemcpyAsync[];
extern char cuMemcpyAsync_ptsz[];
extern char cuMemsetD8_v2[];
extern char cuMemsetD8_v2_ptds[];
extern char cuMemsetD32_v2[];
extern char cuMemsetD32_v2_ptds[];
extern char cuMemsetD8Async[];
extern char cuMemsetD8Async_ptsz[];
extern char cuMemsetD32Async[];
extern char cuMemsetD32Async_ptsz[];

const struct cuda_double_symbol cuda_double_symbols[] = {
    {"cuInit", 2000, false, cuInit},
    {"cuDriverGetVersion", 2020, false, cuDriverGetVersion},
    {"cuDeviceGetCount", 2000, false, cuDeviceGetCount},
    {"cuDeviceGet", 2000, false, cuDeviceGet},
    {"cuDeviceGetName", 2000, false, cuDeviceGetName},
    {"cuDeviceTotalMem", 3020, false, cuDeviceTotalMem_v2},
    {"cuDeviceGetAttribute", 2000, false, cuDeviceGetAttribute},
    {"cuDeviceGetUuid", 9020, false, cuDeviceGetUuid},
    {"cuDeviceGetUuid", 11040, false, cuDeviceGetUuid_v2},
    {"cuDeviceGetPCIBusId", 4010, false, cuDeviceGetPCIBusId},
    {"cuDeviceCanAccessPeer", 4000, false, cuDeviceCanAccessPeer},
    {"cuDevicePrimaryCtxRetain", 7000, false, cuDevicePrimaryCtxRetain},
    {"cuDevicePrimaryCtxRelease", 11000, false, cuDevicePrimaryCtxRelease_v2},
    {"cuDevicePrimaryCtxReset", 11000, false, cuDevicePrimaryCtxReset_v2},
    {"cuDevicePrimaryCtxSetFlags", 11000, false, cuDevicePrimaryCtxSetFlags_v2},
    {"cuDevicePrimaryCtxGetState", 7000, false, cuDevicePrimaryCtxGetState},
    {"cuCtxCreate", 3020, false, cuCtxCreate_v2},
    {"cuCtxDestroy", 4000, false, cuCtxDestroy_v2},
    {"cuCtxSetCurrent", 4000, false, cuCtxSetCurrent},
    {"cuCtxGetCurrent", 4000, false, cuCtxGetCurrent},
    {"cuCtxPushCurrent", 4000, false, cuCtxPushCurrent_v2},
    {"cuCtxPopCurrent", 4000, false, cuCtxPopCurrent_v2},
    {"cuCtxSynchronize", 2000, false, cuCtxSynchronize},
    {"cuCtxGetDevice", 2000, false, cuCtxGetDevice},
    {"cuCtxGetId", 12000, false, cuCtxGetId},
    {"cuCtxGetApiVersion", 3020, false, cuCtxGetApiVersion},
    {"cuCtxGetFlags", 7000, false, cuCtxGetFlags},
    {"cuCtxGetStreamPriorityRange", 5050, false, cuCtxGetStreamPriorityRange},
    {"cuModuleLoad", 2000, false, cuModuleLoad},
    {"cuModuleLoadData", 2000, false, cuModuleLoadData},
    {"cuModuleLoadDataEx", 2010, false, cuModuleLoadDataEx},
    {"cuModuleLoadFatBinary", 2000, false, cuModuleLoadFatBinary},
    {"cuModuleUnload", 2000, false, cuModuleUnload},
    {"cuModuleGetFunction", 2000, false, cuModuleGetFunction},
    {"cuModuleGetLoadingMode", 11070, false, cuModuleGetLoadingMode},
    {"cuLibraryLoadData", 12000, false, cuLibraryLoadData},
    {"cuLibraryUnload", 12000, false, cuLibraryUnload},
    {"cuLibraryGetKernel", 12000, false, cuLibraryGetKernel},
    {"cuKernelGetFunction", 12000, false, cuKernelGetFunction},
    {"cuKernelGetName", 12030, false, cuKernelGetName},
    {"cuFuncGetName", 12030, false, cuFuncGetName},
    {"cuFuncGetModule", 11000, false, cuFuncGetModule},
    {"cuFuncGetAttribute", 2020, false, cuFuncGetAttribute},
    {"cuFuncSetAttribute", 9000, false, cuFuncSetAttribute},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, false,
     cuOccupancyMaxActiveBlocksPerMultiprocessor},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 7000, false,
     cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags},
    {"cuStreamCreate", 2000, false, cuStreamCreate},
    {"cuStreamCreateWithPriority", 5050, false, cuStreamCreateWithPriority},
    {"cuStreamDestroy", 4000, false, cuStreamDestroy_v2},
    {"cuEventCreate", 2000, false, cuEventCreate},
    {"cuEventDestroy", 4000, false, cuEventDestroy_v2},
    {"cuEventQuery", 2000, false, cuEventQuery},
    {"cuEventSynchronize", 2000, false, cuEventSynchronize},
    {"cuEventElapsedTime", 2000, false, cuEventElapsedTime},
    {"cuEventElapsedTime", 12080, false, cuEventElapsedTime_v2},
    {"cuGetErrorName", 6000, false, cuGetErrorName},
    {"cuGetErrorString", 6000, false, cuGetErrorString},
    {"cuGetExportTable", 3000, false, cuGetExportTable},
    {"cuProfilerStart", 4000, false, cuProfilerStart},
    {"cuProfilerStop", 4000, false, cuProfilerStop},
    {"cuGetProcAddress", 11030, false, cuGetProcAddress},
    {"cuGetProcAddress", 12000, false, cuGetProcAddress_v2},
    {"cuMemAlloc", 3020, false, cuMemAlloc_v2},
    {"cuMemAllocManaged", 6000, false, cuMemAllocManaged},
    {"cuMemAllocPitch", 3020, false, cuMemAllocPitch_v2},
    {"cuMemFree", 3020, false, cuMemFree_v2},
    {"cuDeviceGetDefaultMemPool", 11020, false, cuDeviceGetDefaultMemPool},
    {"cuMemPoolSetAttribute", 11020, false, cuMemPoolSetAttribute},
    {"cuMemHostAlloc", 2020, false, cuMemHostAlloc},
    {"cuMemAllocHost", 3020, false, cuMemAllocHost_v2},
    {"cuMemFreeHost", 2000, false, cuMemFreeHost},
    {"cuMemHostRegister", 6050, false, cuMemHostRegister_v2},
    {"cuMemHostUnregister", 4000, false, cuMemHostUnregister},
    {"cuMemHostGetDevicePointer", 3020, false, cuMemHostGetDevicePointer_v2},
    {"cuMemGetInfo", 3020, false, cuMemGetInfo_v2},
    {"cuMemGetAddressRange", 3020, false, cuMemGetAddressRange_v2},
    {"cuPointerGetAttribute", 4000, false, cuPointerGetAttribute},
    {"cuThreadExchangeStreamCaptureMode", 10010, false, cuThreadExchangeStreamCaptureMode},
    {"cuGraphCreate", 10000, false, cuGraphCreate},
    {"cuGraphDestroy", 10000, false, cuGraphDestroy},
    {"cuGraphGetNodes", 10000, false, cuGraphGetNodes},
    {"cuGraphInstantiateWithFlags", 11040, false, cuGraphInstantiateWithFlags},
    {"cuGraphInstantiate", 11000, false, cuGraphInstantiate_v2},
    {"cuGraphInstantiate", 12000, false, cuGraphInstantiateWithFlags},
    {"cuGraphExecDestroy", 10000, false, cuGraphExecDestroy},
    {"cuGraphExecKernelNodeSetParams", 12000, false, cuGraphExecKernelNodeSetParams_v2},
    {"cuLaunchKernel", 4000, false, cuLaunchKernel},
    {"cuLaunchKernel", 7000, true, cuLaunchKernel_ptsz},
    {"cuLaunchCooperativeKernel", 9000, false, cuLaunchCooperativeKernel},
    {"cuLaunchCooperativeKernel", 9000, true, cuLaunchCooperativeKernel_ptsz},
    {"cuLaunchKernelEx", 11060, false, cuLaunchKernelEx},
    {"cuLaunchKernelEx", 11060, true, cuLaunchKernelEx_ptsz},
    {"cuLaunchHostFunc", 10000, false, cuLaunchHostFunc},
    {"cuLaunchHostFunc", 10000, true, cuLaunchHostFunc_ptsz},
    {"cuStreamSynchronize", 2000, false, cuStreamSynchronize},
    {"cuStreamSynchronize", 7000, true, cuStreamSynchronize_ptsz},
    {"cuStreamQuery", 2000, false, cuStreamQuery},
    {"cuStreamQuery", 7000, true, cuStreamQuery_ptsz},
    {"cuStreamWaitEvent", 3020, false, cuStreamWaitEvent},
    {"cuStreamWaitEvent", 7000, true, cuStreamWaitEvent_ptsz},
    {"cuStreamGetPriority", 5050, false, cuStreamGetPriority},
    {"cuStreamGetPriority", 7000, true, cuStreamGetPriority_ptsz},
    {"cuStreamGetFlags", 5050, false, cuStreamGetFlags},
    {"cuStreamGetFlags", 7000, true, cuStreamGetFlags_ptsz},
    {"cuStreamGetCtx", 9020, false, cuStreamGetCtx},
    {"cuStreamGetCtx", 9020, true, cuStreamGetCtx_ptsz},
    {"cuStreamGetId", 12000, false, cuStreamGetId},
    {"cuStreamGetId", 12000, true, cuStreamGetId_ptsz},
    {"cuEventRecord", 2000, false, cuEventRecord},
    {"cuEventRecord", 7000, true, cuEventRecord_ptsz},
    {"cuEventRecordWithFlags", 11010, false, cuEventRecordWithFlags},
    {"cuEventRecordWithFlags", 11010, true, cuEventRecordWithFlags_ptsz},
    {"cuStreamBeginCapture", 10010, false, cuStreamBeginCapture_v2},
    {"cuStreamBeginCapture", 10010, true, cuStreamBeginCapture_v2_ptsz},
    {"cuStreamEndCapture", 10000, false, cuStreamEndCapture},
    {"cuStreamEndCapture", 10000, true, cuStreamEndCapture_ptsz},
    {"cuStreamIsCapturing", 10000, false, cuStreamIsCapturing},
    {"cuStreamIsCapturing", 10000, true, cuStreamIsCapturing_ptsz},
    {"cuStreamGetCaptureInfo", 10010, false, cuStreamGetCaptureInfo},
    {"cuStreamGetCaptureInfo", 10010, true, cuStreamGetCaptureInfo_ptsz},
    {"cuStreamGetCaptureInfo", 11030, false, cuStreamGetCaptureInfo_v2},
    {"cuStreamGetCaptureInfo", 11030, true, cuStreamGetCaptureInfo_v2_ptsz},
    {"cuStreamGetCaptureInfo", 12030, false, cuStreamGetCaptureInfo_v3},
    {"cuStreamGetCaptureInfo", 12030, true, cuStreamGetCaptureInfo_v3_ptsz},
    {"cuGraphInstantiateWithParams", 12000, false, cuGraphInstantiateWithParams},
    {"cuGraphInstantiateWithParams", 12000, true, cuGraphInstantiateWithParams_ptsz},
    {"cuGraphUpload", 11010, false, cuGraphUpload},
    {"cuGraphUpload", 11010, true, cuGraphUpload_ptsz},
    {"cuGraphLaunch", 10000, false, cuGraphLaunch},
    {"cuGraphLaunch", 10000, true, cuGraphLaunch_ptsz},
    {"cuMemAllocAsync", 11020, false, cuMemAllocAsync},
    {"cuMemAllocAsync", 11020, true, cuMemAllocAsync_ptsz},
    {"cuMemFreeAsync", 11020, false, cuMemFreeAsync},
    {"cuMemFreeAsync", 11020, true, cuMemFreeAsync_ptsz},
    {"cuMemAllocFromPoolAsync", 11020, false, cuMemAllocFromPoolAsync},
    {"cuMemAllocFromPoolAsync", 11020, true, cuMemAllocFromPoolAsync_ptsz},
    {"cuMemcpyHtoD", 3020, false, cuMemcpyHtoD_v2},
    {"cuMemcpyHtoD", 7000, true, cuMemcpyHtoD_v2_ptds},
    {"cuMemcpyDtoH", 3020, false, cuMemcpyDtoH_v2},
    {"cuMemcpyDtoH", 7000, true, cuMemcpyDtoH_v2_ptds},
    {"cuMemcpyDtoD", 3020, false, cuMemcpyDtoD_v2},
    {"cuMemcpyDtoD", 7000, true, cuMemcpyDtoD_v2_ptds},
    {"cuMemcpy", 4000, false, cuMemcpy},
    {"cuMemcpy", 7000, true, cuMemcpy_ptds},
    {"cuMemcpyHtoDAsync", 3020, false, cuMemcpyHtoDAsync_v2},
    {"cuMemcpyHtoDAsync", 7000, true, cuMemcpyHtoDAsync_v2_ptsz},
    {"cuMemcpyDtoHAsync", 3020, false, cuMemcpyDtoHAsync_v2},
    {"cuMemcpyDtoHAsync", 7000, true, cuMemcpyDtoHAsync_v2_ptsz},
    {"cuMemcpyDtoDAsync", 3020, false, cuMemcpyDtoDAsync_v2},
    {"cuMemcpyDtoDAsync", 7000, true, cuMemcpyDtoDAsync_v2_ptsz},
    {"cuMemcpyAsync", 4000, false, cuMemcpyAsync},
    {"cuMemcpyAsync", 7000, true, cuMemcpyAsync_ptsz},
    {"cuMemsetD8", 3020, false, cuMemsetD8_v2},
    {"cuMemsetD8", 7000, true, cuMemsetD8_v2_ptds},
    {"cuMemsetD32", 3020, false, cuMemsetD32_v2},
    {"cuMemsetD32", 7000, true, cuMemsetD32_v2_ptds},
    {"cuMemsetD8Async", 3020, false, cuMemsetD8Async},
    {"cuMemsetD8Async", 7000, true, cuMemsetD8Async_ptsz},
    {"cuMemsetD32Async", 3020, false, cuMemsetD32Async},
    {"cuMemsetD32Async", 7000, true, cuMemsetD32Async_ptsz},
    {NULL, 0, false, NULL},
};

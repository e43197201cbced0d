# SPDX-License-Identifier: Apache-2.0
# The doubles lie apart from the product's libraries: a job finds them by LD_LIBRARY_PATH.
SIM_LIBS := libcuda.so.1 libcupti.so.13 libcupti.so.12 libnccl.so.2 libnvidia-ml.so.1
SOS += $(SIM_LIBS)
libcuda.so.1_DIR := lib/sim
libcuda.so.1_SRCS := sim/gpu.c sim/gpu_clock.c sim/cuda_double.c sim/cuda_graph.c sim/cuda_memory.c
libcuda.so.1_LDLIBS := -lpthread
libcupti.so.13_DIR := lib/sim
libcupti.so.13_SRCS := sim/cupti_double.c
libcupti.so.13_LDLIBS := -lpthread -ldl
libcupti.so.12_DIR := lib/sim
libcupti.so.12_SRCS := sim/cupti_double.c
libcupti.so.12_CFLAGS := -DSIM_CUPTI_12
libcupti.so.12_LDLIBS := -lpthread -ldl
libnccl.so.2_DIR := lib/sim
libnccl.so.2_SRCS := sim/nccl_double.c sim/nccl_peers.c sim/nccl_profile.c
libnccl.so.2_LDLIBS := -lpthread -ldl
libnvidia-ml.so.1_DIR := lib/sim
libnvidia-ml.so.1_SRCS := sim/nvml_double.c
libnvidia-ml.so.1_LDLIBS := -lpthread
PROGS += simjob
INSTALL_PROGS += simjob
simjob_SRCS := sim/simjob.c sim/job_rank.c sim/job_host.c sim/job_mix.c sim/job_trace.c
simjob_LDLIBS := -lz -ljansson
# NCCL_PROFILER_PLUGIN=STATIC_PLUGIN looks for its symbol in the program
test_sim_nccl_LDFLAGS := -Wl,--export-dynamic-symbol=ncclProfiler_v4
TEST_PARTS += $(addprefix $(B)/lib/sim/,$(SIM_LIBS))
SCRIPTS_TEST += tests/e2e/sim_job.sh tests/e2e/sim_torchrun.sh tests/e2e/serve_engine.py tests/e2e/demo_serve.sh

$(call unit,,test_sim_gpu test_sim_cupti test_sim_nccl)

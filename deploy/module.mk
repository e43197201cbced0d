# SPDX-License-Identifier: Apache-2.0
# Slurm's plugin, where Slurm's headers are: it must be built for the Slurm that loads it.
ifneq ($(wildcard $(or $(SLURM_INCLUDE),/usr/include)/slurm/spank.h),)
SOS += spank_sysom.so
SLURM_PLUGINS := spank_sysom.so
spank_sysom.so_DIR := lib/slurm
spank_sysom.so_SRCS := deploy/slurm/spank_sysom.c
# Slurm looks for its functions by name
spank_sysom.so_CFLAGS := $(if $(SLURM_INCLUDE),-I$(SLURM_INCLUDE)) -fvisibility=default -fno-sanitize=all
spank_sysom.so_LDFLAGS := -fno-sanitize=all
endif
SCRIPTS_TEST += tests/e2e/slurm.sh tests/e2e/release.sh tests/e2e/package_tools.sh

# SPDX-License-Identifier: Apache-2.0
# Unwind tables: compiled, stored, replayed.
sampler_SRCS += sampler/unwind_cfi.c sampler/unwind_table.c sampler/unwind_store.c \
	sampler/unwind_replay.c
sampler_LDLIBS += -ldw -lelf

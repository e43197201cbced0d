# SPDX-License-Identifier: Apache-2.0
# Unwind tables: compiled, stored, replayed.
sampler_SRCS += sampler/unwind_cfi.c sampler/unwind_table.c sampler/unwind_store.c \
	sampler/unwind_replay.c sampler/snapshot.c
sampler_LDLIBS += -ldw -lelf

UNIT += test_unwind_table test_unwind_store test_snapshot
test_snapshot_USES := sampler base
test_snapshot_LDLIBS := -lcmocka
test_unwind_table_USES := sampler base
test_unwind_table_LDLIBS := -lcmocka
test_unwind_store_USES := sampler base
test_unwind_store_LDLIBS := -lcmocka
FUZZ += fuzz_unwind_table
fuzz_unwind_table_USES := sampler base

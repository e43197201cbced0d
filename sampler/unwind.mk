# SPDX-License-Identifier: Apache-2.0
# Unwind tables: compiled, stored, replayed.
sampler_SRCS += sampler/unwind_cfi.c sampler/unwind_section.c sampler/unwind_table.c sampler/unwind_store.c \
	sampler/unwind_replay.c sampler/snapshot.c
sampler_LDLIBS += -ldw -lelf -lz

UNIT += test_unwind_table test_unwind_store test_snapshot
test_snapshot_USES := sampler reader symbol base
test_snapshot_LDLIBS := -lcmocka
test_unwind_table_USES := sampler reader symbol base
# counts what libdw decodes
test_unwind_table_LDLIBS := -lcmocka -Wl,--wrap=dwarf_next_cfi
test_unwind_store_USES := sampler reader symbol base
test_unwind_store_LDLIBS := -lcmocka
FUZZ += fuzz_unwind_table
fuzz_unwind_table_USES := sampler reader symbol base
fuzz_unwind_table_LDLIBS := -Wl,--wrap=dwarf_next_cfi
FUZZ += fuzz_copy_mode
fuzz_copy_mode_USES := sampler reader symbol analysis base

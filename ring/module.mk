# SPDX-License-Identifier: Apache-2.0
LIBS += ring
ring_SRCS := ring/ring_writer.c ring/ring_reader.c ring/attach.c
OBJ_CFLAGS_ring := -Wconversion

UNIT += test_ring_reader
test_ring_reader_USES := ring
test_ring_reader_LDLIBS := -lcmocka
UNIT += test_ring_writer
test_ring_writer_USES := ring
test_ring_writer_LDLIBS := -lcmocka
UNIT += test_ring_hostile
test_ring_hostile_USES := ring
test_ring_hostile_LDLIBS := -lcmocka
UNIT += test_attach
test_attach_USES := ring
test_attach_LDLIBS := -lcmocka
FUZZ += fuzz_ring_reader fuzz_attach
fuzz_ring_reader_USES := ring
fuzz_attach_USES := ring
UNIT += test_ring_dump
test_ring_dump_USES := ring
test_ring_dump_LDLIBS := -lcmocka -ljansson

PROGS += sysom-ring
INSTALL_PROGS += sysom-ring
sysom-ring_SRCS := ring/ring_dump.c
sysom-ring_USES := ring
TEST_PARTS += $(B)/bin/sysom-ring

BENCH += bench_ring
bench_ring_USES := ring

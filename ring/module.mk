# SPDX-License-Identifier: Apache-2.0
LIBS += ring
ring_SRCS := ring/ring_writer.c ring/ring_reader.c ring/attach.c
ring_NEEDS := base
OBJ_CFLAGS_ring := -Wconversion

test_ring_dump_LDLIBS := -ljansson

PROGS += sysom-ring
INSTALL_PROGS += sysom-ring
sysom-ring_SRCS := ring/ring_dump.c
sysom-ring_USES := ring
TEST_PARTS += $(B)/bin/sysom-ring

$(call unit,ring,test_ring_reader test_ring_writer test_ring_hostile test_attach test_ring_dump)
$(call fuzz,ring,fuzz_ring_reader fuzz_attach)
$(call bench,ring,bench_ring)

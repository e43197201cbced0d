# SPDX-License-Identifier: Apache-2.0
LIBS += wire
WIRE_GEN := $(B)/gen/wire/sysom.pb-c
wire_SRCS := wire/beat_columns.c wire/codec.c wire/columns.c wire/columns_steps.c wire/journal.c wire/pack.c wire/stacks.c wire/wire.c wire/wire_beat.c \
	wire/wire_reply.c wire/wire_sketch.c $(WIRE_GEN).c
wire_LDLIBS := -lprotobuf-c -lzstd
OBJ_CFLAGS_wire := -Wconversion
GEN += $(WIRE_GEN).h

# One recipe for both files; the header stands for the pair.
$(WIRE_GEN).h: wire/sysom.proto
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<
$(WIRE_GEN).c: $(WIRE_GEN).h ;

BENCH += bench_codec
bench_codec_USES := wire analysis base

UNIT += test_wire_codec
test_wire_codec_USES := wire analysis base
test_wire_codec_LDLIBS := -lcmocka

FUZZ += fuzz_wire_window fuzz_wire_beat fuzz_wire_records fuzz_wire_sketch
fuzz_wire_sketch_USES := wire analysis base
fuzz_wire_window_USES := wire analysis base
fuzz_wire_beat_USES := wire analysis base
fuzz_wire_records_USES := wire analysis base
UNIT += test_wire_golden test_wire_stacks test_wire_beat test_wire_sketch
test_wire_beat_USES := wire analysis base
test_wire_beat_LDLIBS := -lcmocka -lm
test_wire_sketch_USES := wire analysis base
test_wire_sketch_LDLIBS := -lcmocka
test_wire_stacks_USES := wire analysis base
test_wire_stacks_LDLIBS := -lcmocka
FUZZ += fuzz_wire_stacks
fuzz_wire_stacks_USES := wire analysis base
test_wire_golden_USES := wire analysis base
test_wire_golden_LDLIBS := -lcmocka
UNIT += test_journal
test_journal_USES := wire analysis base
test_journal_LDLIBS := -lcmocka -lm

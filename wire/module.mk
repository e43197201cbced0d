# SPDX-License-Identifier: Apache-2.0
LIBS += wire link
# what carries the messages: the peers' framing, and TLS
link_SRCS := $(call in,wire/link,req sp tls tls_settings)
link_NEEDS := base
link_LDLIBS := -lnng -lgnutls
WIRE_GEN := $(B)/gen/wire/sysom.pb-c
wire_SRCS := $(call in,wire,beat_columns beat_pieces beat_requests codec columns columns_steps fields pack stacks wire wire_beat \
		wire_reply wire_sketch) \
	$(WIRE_GEN).c
wire_NEEDS := model
wire_LDLIBS := -lprotobuf-c -lzstd
OBJ_CFLAGS_wire := -Wconversion
GEN += $(WIRE_GEN).h

# One recipe for both files; the header stands for the pair.
$(WIRE_GEN).h: wire/sysom.proto
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<
$(WIRE_GEN).c: $(WIRE_GEN).h ;

$(call unit,wire analysis,test_fields test_wire_codec test_wire_golden test_wire_stacks test_wire_beat \
	test_wire_sketch)
$(call fuzz,wire analysis,fuzz_wire_window fuzz_wire_beat fuzz_wire_records fuzz_wire_sketch \
	fuzz_wire_stacks)
$(call bench,wire analysis,bench_codec)
$(call fuzz,link,fuzz_sp fuzz_tls)
$(call unit,link,test_tls)
$(call bench,link,bench_dials peer_dials)
TEST_PARTS += $(B)/bench/bench_dials
SCRIPTS_TEST += tests/e2e/dials.sh

# SPDX-License-Identifier: Apache-2.0
# libsysom_preload.so: always optimised, since our dlsym must tail-jump, and never sanitized, since
# it is loaded into programs that are not.
SOS += libsysom_preload.so
libsysom_preload.so_SRCS := preload/hooks.c preload/hooks_table.c preload/tracer.c preload/helper.c \
	preload/driver.c preload/registry.c preload/wrap_cuda.c preload/wrap_context.c \
	preload/wrap_nccl.c preload/wrap_cupti.c preload/span_api.c cupti/cupti_client.c \
	cupti/cupti_decode.c ring/ring_writer.c ring/attach.c
libsysom_preload.so_CFLAGS := -O2 -fno-sanitize=all -ftls-model=initial-exec -fno-semantic-interposition
libsysom_preload.so_LDFLAGS := -fno-sanitize=all -Wl,-z,nodelete -Wl,-z,defs \
	-Wl,--version-script=$(B)/gen/exports.map
libsysom_preload.so_DEPS := $(B)/gen/exports.map

$(B)/gen/exports.map: preload/exports.map.in preload/hooks.def
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -undef -I. -x c -o $@ $<

# What its tests run: a small sysomd, and callers of several kinds.
PRELOAD_TEST := $(B)/test
PRELOAD_TEST_BINS := $(PRELOAD_TEST)/preload_peer
tests: $(PRELOAD_TEST_BINS)
$(PRELOAD_TEST)/preload_peer: $(B)/obj/tests/preload/peer.o $(B)/libring.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $^ $(LDFLAGS_ALL) -lpthread

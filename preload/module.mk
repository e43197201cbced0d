# SPDX-License-Identifier: Apache-2.0
# libsysom_preload.so: always optimised, since our dlsym must tail-jump, and never sanitized, since
# it is loaded into programs that are not.
SOS += libsysom_preload.so
libsysom_preload.so_SRCS := preload/hooks.c preload/hooks_table.c preload/start.c preload/tracer.c preload/helper.c preload/governor.c \
	preload/driver.c preload/registry.c preload/wrap_cuda.c preload/wrap_context.c \
	preload/wrap_nccl.c preload/wrap_cupti.c $(call in,preload/nccl,nccl_channels nccl_lookup nccl_plugin) preload/refuse_musl.c preload/span_api.c \
	preload/span_pattern.c \
	$(call in,preload/python,python_api python_call python_find python_gc python_hook python_monitor python_spans python_value span_table) \
	cupti/cupti_client.c \
	cupti/cupti_decode.c cupti/cupti_session.c ring/ring_writer.c ring/attach.c
libsysom_preload.so_CFLAGS := -O2 -fno-sanitize=all -ftls-model=initial-exec -fno-semantic-interposition
libsysom_preload.so_LDFLAGS := -fno-sanitize=all -Wl,-z,nodelete -Wl,-z,defs \
	-Wl,--version-script=$(B)/gen/exports.map
libsysom_preload.so_DEPS := $(B)/gen/exports.map $(B)/parts/dynsym_hide
libsysom_preload.so_HIDE := __libc_start_main stdin
$(call part,PARTS,,dynsym_hide)
dynsym_hide_SRCS := tools/dynsym_hide.c

# The catalogues of spans that it carries.
SPAN_CATALOGUES := $(sort $(wildcard conf/spans/*.yaml))
$(call part,PARTS,model,span_compile)
span_compile_SRCS := tools/span_compile.c
$(B)/obj-libsysom_preload.so/preload/python/span_table.o $(B)/obj/preload/python/span_table.o: $(B)/gen/preload/python/spans_builtin.inc
$(B)/gen/preload/python/spans_builtin.inc: $(B)/parts/span_compile $(SPAN_CATALOGUES)
	@mkdir -p $(@D)
	$(Q)$< $(SPAN_CATALOGUES) >$@

$(B)/gen/exports.map: preload/exports.map.in preload/hooks.def
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -undef -I. -x c -o $@ $<

# What its tests and benchmark run: a small sysomd, doubles that only count, callers of all kinds.
PRELOAD_TEST := $(B)/test
$(call part,PARTS,node,preload_peer)
preload_peer_SRCS := tests/preload/peer.c
PRELOAD_NULL := $(PRELOAD_TEST)/null/libcuda.so.1 $(PRELOAD_TEST)/null/libnccl.so.2
TEST_PARTS += $(PRELOAD_NULL) $(PRELOAD_TEST)/caller \
	$(PRELOAD_TEST)/null/libdeep.so $(PRELOAD_TEST)/rival \
	$(PRELOAD_TEST)/plugin_caller $(PRELOAD_TEST)/plugin_loader \
	$(PRELOAD_TEST)/plugin_loader_static $(PRELOAD_TEST)/link_caller $(PRELOAD_TEST)/null/chain_plugin.so \
	$(PRELOAD_TEST)/null/empty_plugin.so $(PRELOAD_TEST)/guest $(PRELOAD_TEST)/prober
test_preload_governor_SRCS := tests/unit/test_preload_governor.c preload/governor.c
test_cupti_decode_SRCS := tests/unit/test_cupti_decode.c cupti/cupti_decode.c
SCRIPTS_TEST += tests/e2e/preload_binary.sh tests/e2e/preload_behaviour.py tests/e2e/preload_guest.sh \
	tests/e2e/preload_cupti.py tests/e2e/preload_plugin.py tests/e2e/gpu_harness.sh tests/conformance/foreign_abi.sh \
	tests/conformance/preload_cudart.py tests/conformance/preload_nvtx.py tests/e2e/python_spans.py tests/e2e/python_spans_flow.sh \
	tests/e2e/spans_tree.py
BENCH_PARTS += $(PRELOAD_NULL)

$(PRELOAD_TEST)/null/libcuda.so.1: tests/preload/null_cuda.c foreign/cuda.h
$(PRELOAD_TEST)/null/libnccl.so.2: tests/preload/null_nccl.c foreign/nccl.h foreign/cuda.h
$(PRELOAD_NULL):
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -fno-sanitize=all -shared -o $@ $< -Wl,-soname,$(@F)
$(PRELOAD_TEST)/null/libdeep.so: tests/preload/deep.c $(PRELOAD_NULL)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -fno-sanitize=all -shared -o $@ $< $(PRELOAD_TEST)/null/libcuda.so.1
$(PRELOAD_TEST)/caller: tests/preload/caller.c tests/preload/null.h $(PRELOAD_NULL)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -fno-sanitize=all -o $@ $< $(PRELOAD_NULL) -Wl,-rpath,'$$ORIGIN/null' \
		-lpthread -ldl
$(PRELOAD_TEST)/guest: tests/preload/guest.c tests/preload/null.h $(PRELOAD_NULL)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -fno-sanitize=all -o $@ $< $(PRELOAD_NULL) -Wl,-rpath,'$$ORIGIN/null' -lpthread
$(PRELOAD_TEST)/null/chain_plugin.so $(PRELOAD_TEST)/null/empty_plugin.so: tests/preload/chain_plugin.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -fno-sanitize=all $(if $(findstring empty,$@),-DCHAIN_EMPTY) -shared -o $@ $<
$(PRELOAD_TEST)/rival: tests/preload/rival.c
$(PRELOAD_TEST)/plugin_caller: tests/preload/plugin_caller.c
$(PRELOAD_TEST)/link_caller: tests/preload/link_caller.c
$(PRELOAD_TEST)/plugin_loader: tests/preload/plugin_loader.c
$(PRELOAD_TEST)/plugin_loader_static: tests/preload/plugin_loader.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -fno-sanitize=all -DSTATIC_PLUGIN -rdynamic -o $@ $< -ldl
$(PRELOAD_TEST)/prober: tests/preload/prober.c foreign/cuda.h
$(PRELOAD_TEST)/rival $(PRELOAD_TEST)/plugin_caller $(PRELOAD_TEST)/plugin_loader $(PRELOAD_TEST)/link_caller $(PRELOAD_TEST)/prober:
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -fno-sanitize=all -o $@ $< -ldl -lpthread

$(call unit,,test_cupti_decode test_preload_governor)
$(call bench,,bench_launch)

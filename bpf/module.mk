# SPDX-License-Identifier: Apache-2.0
# Kernel side of the sampler, and the structs that user space shares with it.
# With clang, bpftool and libbpf, each object becomes a skeleton, $(B)/gen/bpf/NAME.skel.h; without
# them sysom is built without BPF, and `sysom doctor` says so.
BPF_CLANG ?= $(firstword $(shell command -v clang clang-19 clang-16 clang-15 clang-14 2>/dev/null))
BPFTOOL ?= $(firstword $(shell command -v bpftool 2>/dev/null) $(wildcard /usr/sbin/bpftool))
HAS_BPF := $(if $(and $(BPF_CLANG),$(BPFTOOL),$(shell pkg-config --exists libbpf && echo y)),1,)
BPF_ARCH_INCLUDE := -I/usr/include/$(shell uname -m)-linux-gnu
# -mcpu=v3 needs Linux 5.1
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Wno-unused-function $(if $(WERROR),-Werror) \
	-D__TARGET_ARCH_x86 -I. $(BPF_ARCH_INCLUDE) $(RELOCATE)

# $(call bpf_rule,NAME,SOURCE,FLAGS)  SOURCE without .bpf.c
define bpf_rule
GEN += $(B)/gen/bpf/$(1).skel.h
$(B)/gen/bpf/$(1).bpf.o: $(2).bpf.c $(wildcard bpf/*.h $(dir $(2))*_format.h)
	@mkdir -p $$(@D)
	$$(Q)$(BPF_CLANG) $(BPF_CFLAGS) $(3) -c -o $$@.tmp $$< && $(BPFTOOL) gen object $$@ $$@.tmp && rm $$@.tmp
$(B)/gen/bpf/$(1).skel.h: $(B)/gen/bpf/$(1).bpf.o
	$$(Q)$(BPFTOOL) gen skeleton $$< name $(1) >$$@
endef
ifneq ($(HAS_BPF),)
$(eval $(call bpf_rule,sampler_loop,bpf/sampler,))
$(eval $(call bpf_rule,sampler_tail,bpf/sampler,-DSAMPLER_TAIL))
$(eval $(call bpf_rule,off_cpu_loop,bpf/off_cpu,))
$(eval $(call bpf_rule,off_cpu_tail,bpf/off_cpu,-DSAMPLER_TAIL))
$(eval $(call bpf_rule,os_programs,bpf/os_signals,))
endif

# SPDX-License-Identifier: Apache-2.0
# User side of the CPU sampler: tables, mappings, Python names, drained batches.
LIBS += sampler
sampler_SRCS := $(call in,sampler,copy_mode kernel_symbols map_sizes mapping_scan perf_ring \
		processes read_user sampler sampler_events worker) \
	$(call in,sampler/stacks,sleepers stack_build stack_store switches) \
	$(call in,sampler/python,python_elf python_names python_offsets python_runtime \
		python_stitch) \
	$(call in,sampler/unwind,unwind_cfi unwind_replay unwind_section unwind_store \
		unwind_table)
sampler_SRCS += sampler/sampler_maps$(if $(HAS_BPF),,_none).c
sampler_NEEDS := symbol model
sampler_LDLIBS := -ldw -lelf -lz $(if $(HAS_BPF),-lbpf)

$(call unit,sampler,test_cpu_list test_unwind_table test_unwind_store test_snapshot test_python_runtime \
	test_python_walk test_python_names test_python_stitch test_python_elf test_sampler_python \
	test_worker test_sampler test_sampler_none test_switches test_sleepers test_kernel_symbols)
$(call fuzz,sampler,fuzz_unwind_table fuzz_copy_mode fuzz_python fuzz_python_elf)
test_snapshot_SRCS := tests/unit/test_snapshot.c tests/accuracy/snapshot.c
# count what libdw decodes
test_unwind_table_LDFLAGS := -Wl,--wrap=dwarf_next_cfi
fuzz_unwind_table_LDFLAGS := -Wl,--wrap=dwarf_next_cfi
# what is built without clang, bpftool or libbpf takes the place of the archive's own
test_sampler_none_SRCS := tests/unit/test_sampler_none.c sampler/sampler_maps_none.c
$(if $(HAS_BPF),$(call bench,sampler,bench_sampler))

# a file whose interpreter loop has a cold part, with and without symbols
TEST_PARTS += $(B)/python/cold_loop_stripped.so
$(B)/python/cold_loop.so: tests/python/cold_loop.c
	@mkdir -p $(@D)
	$(Q)$(or $(shell command -v gcc),$(CC)) -O2 -freorder-blocks-and-partition -shared -fPIC -nostdlib -o $@ $<
$(B)/python/cold_loop_stripped.so: $(B)/python/cold_loop.so
	$(Q)strip -o $@ $<
# an interpreter whose version is refused
TEST_PARTS += $(B)/python/old_python
$(B)/python/old_python: tests/python/old_python.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O1 -rdynamic -o $@ $<

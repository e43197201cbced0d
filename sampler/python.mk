# SPDX-License-Identifier: Apache-2.0
# CPython frames: the interpreter of a process, names, stitching.
sampler_SRCS += sampler/python_elf.c sampler/python_offsets.c sampler/python_runtime.c \
	sampler/python_names.c sampler/python_stitch.c sampler/read_user.c

UNIT += test_python_runtime test_python_walk test_python_names test_python_stitch
test_python_runtime_USES := sampler reader symbol base
test_python_runtime_LDLIBS := -lcmocka -ldw -lelf
test_python_walk_USES := sampler reader symbol base
test_python_walk_LDLIBS := -lcmocka -lz
test_python_names_USES := sampler reader symbol base
test_python_names_LDLIBS := -lcmocka
test_python_stitch_USES := sampler reader symbol base
test_python_stitch_LDLIBS := -lcmocka
UNIT += test_python_elf
test_python_elf_USES := sampler reader symbol base
test_python_elf_LDLIBS := -lcmocka
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
FUZZ += fuzz_python fuzz_python_elf
fuzz_python_USES := sampler reader symbol base
fuzz_python_elf_USES := sampler reader symbol base
UNIT += test_sampler_python
test_sampler_python_USES := sampler reader symbol analysis base
test_sampler_python_LDLIBS := -lcmocka

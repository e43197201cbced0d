/* SPDX-License-Identifier: Apache-2.0
 * test_unwind_table.c - compiled tables against libdw's own evaluation of the same CFI, and
 * refusals. */
#include <dlfcn.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cmocka.h>

#include "sampler/unwind_table.h"

static void path_of(const void *address, char *path, size_t bytes)
{
	Dl_info info;

	assert_true(dladdr(address, &info));
	assert_true((size_t)snprintf(path, bytes, "%s", info.dli_fname) < bytes);
}

static void compile_path(struct unwind_table *t, const char *path)
{
	char why[UNWIND_TABLE_WHY_BYTES];
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(unwind_table_compile(t, fd, why), 0);
	assert_string_equal(why, "");
	close(fd);
}

/* What libdw says about the CFA at an address, where it is register + offset. */
static int libdw_cfa(Dwarf_CFI *cfi, uint64_t address, unsigned *number, int64_t *offset)
{
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t count;
	int rc = -1;

	if (dwarf_cfi_addrframe(cfi, address, &frame))
		return -1;
	if (!dwarf_frame_cfa(frame, &ops, &count) && count == 1 &&
	    ops[0].atom == 0x92) { /* DW_OP_bregx */
		*number = (unsigned)ops[0].number;
		*offset = (int64_t)ops[0].number2;
		rc = 0;
	}
	free(frame);
	return rc;
}

static void agrees_with_libdw_on_the_c_library(void **state)
{
	char path[4096];
	struct unwind_table t;
	Elf *elf;
	Dwarf_CFI *cfi;
	int fd;
	uint32_t compared = 0;

	/* of the C library itself: sanitizers have no such function of their own */
	path_of((const void *)(uintptr_t)gnu_get_libc_version, path, sizeof(path));
	compile_path(&t, path);
	assert_true(t.row_count > 10000);
	fd = open(path, O_RDONLY);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	/* every 7th row, at its first byte */
	for (uint32_t i = 0; i < t.row_count; i += 7) {
		const struct unwind_rule *r = &t.rules[t.rows[i].rule];
		unsigned number;
		int64_t offset;

		if (libdw_cfa(cfi, t.begin + t.rows[i].address, &number, &offset)) {
			assert_int_not_equal(UNWIND_RULE_CFA(r), UNWIND_CFA_REGISTER);
			continue;
		}
		if (UNWIND_RULE_CFA(r) == UNWIND_CFA_END ||
		    UNWIND_RULE_CFA(r) == UNWIND_CFA_UNSUPPORTED)
			continue;
		assert_int_equal(UNWIND_RULE_CFA(r), UNWIND_CFA_REGISTER);
		assert_int_equal(UNWIND_RULE_REGISTER(r), number);
		assert_int_equal(r->offset, offset);
		compared++;
	}
	assert_true(compared > 1000);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
	unwind_table_fini(&t);
}

static uint32_t count_kind(const struct unwind_table *t, enum unwind_cfa kind)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->row_count; i++)
		n += UNWIND_RULE_CFA(&t->rules[t->rows[i].rule]) == kind;
	return n;
}

static void knows_every_kind_of_the_c_library(void **state)
{
	char path[4096];
	struct unwind_table t;
	uint32_t in_register = 0;

	/* of the C library itself: sanitizers have no such function of their own */
	path_of((const void *)(uintptr_t)gnu_get_libc_version, path, sizeof(path));
	compile_path(&t, path);
	assert_int_equal(count_kind(&t, UNWIND_CFA_SIGNAL), 1); /* the sigreturn trampoline */
	assert_true(count_kind(&t, UNWIND_CFA_END) >
		    0); /* __libc_start_call_main's callers, clone */
	assert_true(count_kind(&t, UNWIND_CFA_PLT) > 0);
	for (uint32_t i = 0; i < t.rule_count; i++)
		in_register += UNWIND_RULE_RA(&t.rules[i]) == UNWIND_RDI; /* vfork */
	assert_true(in_register > 0);
	assert_string_equal(t.source, ".eh_frame");
	unwind_table_fini(&t);
}

/* Two functions that never run: their frames are told by r10, as in a realigned prologue, and by
 * rbx. */
void test_unwind_table_r10(void);
void test_unwind_table_rbx(void);
__asm__(".text\n"
	"test_unwind_table_r10:\n"
	"	.cfi_startproc\n"
	"	lea 8(%rsp), %r10\n"
	"	.cfi_def_cfa r10, 0\n"
	"	and $-64, %rsp\n"
	"	ud2\n"
	"	.cfi_endproc\n"
	"test_unwind_table_rbx:\n"
	"	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_def_cfa rsp, 16\n"
	"	.cfi_offset rbx, -16\n"
	"	mov %rsp, %rbx\n"
	"	.cfi_def_cfa rbx, 16\n"
	"	and $-64, %rsp\n"
	"	ud2\n"
	"	.cfi_endproc\n");

static void check_register(const struct unwind_table *t, Dwarf_CFI *cfi, void (*f)(void),
			   unsigned bytes_in, unsigned wanted)
{
	const struct unwind_rule *r;
	unsigned number = 0;
	int64_t offset = 0;
	uint64_t address;
	Dl_info info;

	assert_true(dladdr((const void *)(uintptr_t)f, &info));
	address = (uint64_t)(uintptr_t)f + bytes_in - (uint64_t)(uintptr_t)info.dli_fbase;
	assert_int_equal(libdw_cfa(cfi, address, &number, &offset), 0);
	assert_int_equal(number, wanted);
	r = unwind_table_find(t, address);
	assert_non_null(r);
	assert_int_equal(UNWIND_RULE_CFA(r), UNWIND_CFA_REGISTER);
	assert_int_equal(UNWIND_RULE_REGISTER(r), number);
	assert_int_equal(r->offset, offset);
	if (wanted == UNWIND_RBX) {
		assert_int_equal(UNWIND_RULE_RBX(r), UNWIND_SAVED_CFA);
		assert_int_equal(r->rbx_slot, -2);
	}
}

static void frames_told_by_r10_and_rbx_agree_with_libdw(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct unwind_table t;
	Dwarf_CFI *cfi;
	Elf *elf;

	compile_path(&t, "/proc/self/exe");
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	check_register(&t, cfi, test_unwind_table_r10, 0, UNWIND_RSP);
	check_register(&t, cfi, test_unwind_table_r10, 5, UNWIND_R10); /* behind the lea */
	check_register(&t, cfi, test_unwind_table_rbx, 4, UNWIND_RBX); /* push and mov */
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
	unwind_table_fini(&t);
}

static void rows_are_sorted_and_gaps_are_none(void **state)
{
	struct unwind_table t;
	const struct unwind_rule *r;

	compile_path(&t, "/proc/self/exe");
	for (uint32_t i = 1; i < t.row_count; i++) {
		assert_true(t.rows[i].address > t.rows[i - 1].address);
		assert_true(t.rows[i].rule != t.rows[i - 1].rule);
	}
	assert_int_equal(t.rows[t.row_count - 1].rule, 0);
	assert_int_equal(t.begin + t.rows[t.row_count - 1].address, t.end);
	assert_null(unwind_table_find(&t, t.begin - 1));
	assert_null(unwind_table_find(&t, t.end));
	r = unwind_table_find(&t, t.end - 1);
	assert_non_null(r);
	assert_int_not_equal(UNWIND_RULE_CFA(r), UNWIND_CFA_NONE);
	unwind_table_fini(&t);
}

static void compiles_the_vdso_from_memory(void **state)
{
	char why[UNWIND_TABLE_WHY_BYTES];
	unsigned long at = getauxval(AT_SYSINFO_EHDR);
	struct unwind_table t;
	void *copy = malloc(4096 * 2);
	const Elf64_Ehdr *eh = (const void *)at;

	if (!at)
		skip();
	assert_non_null(copy);
	assert_true(eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize <= 4096 * 2);
	memcpy(copy, (const void *)at, eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize);
	assert_int_equal(unwind_table_compile_image(&t, copy, 4096 * 2, why), 0);
	assert_true(t.fde_count >= 3);
	unwind_table_fini(&t);
	free(copy);
}

static void refuses_what_is_no_elf_file(void **state)
{
	char why[UNWIND_TABLE_WHY_BYTES], text[] = "#!/bin/sh\nexit 0\n";
	struct unwind_table t;
	int fd = open("/dev/null", O_RDONLY);

	assert_int_equal(unwind_table_compile(&t, fd, why), -ENOTSUP);
	assert_string_not_equal(why, "");
	assert_null(t.rows);
	close(fd);
	assert_int_equal(unwind_table_compile_image(&t, text, sizeof(text), why), -ENOTSUP);
}

/* A copy of this program with its .eh_frame overwritten by `fill`, or cut in half by `cut`. */
static int damaged(struct unwind_table *t, int fill, bool cut, char *why)
{
	FILE *f = fopen("/proc/self/exe", "rb");
	size_t bytes, room = 64u << 20;
	uint8_t *image = malloc(room);
	Elf64_Ehdr *eh = (void *)image;
	Elf64_Shdr *sh;
	const char *names;
	int rc = -1;

	assert_non_null(f);
	assert_non_null(image);
	bytes = fread(image, 1, room, f);
	fclose(f);
	assert_true(bytes > 0 && bytes < room);
	sh = (void *)(image + eh->e_shoff);
	names = (const char *)image + sh[eh->e_shstrndx].sh_offset;
	for (int i = 0; i < eh->e_shnum; i++) {
		if (strcmp(names + sh[i].sh_name, ".eh_frame"))
			continue;
		if (fill >= 0)
			memset(image + sh[i].sh_offset, fill, sh[i].sh_size);
		if (cut)
			sh[i].sh_size = ~0ull >> 1;
		rc = unwind_table_compile_image(t, image, bytes, why);
	}
	free(image);
	return rc;
}

static void refuses_damaged_sections_with_a_reason(void **state)
{
	char why[UNWIND_TABLE_WHY_BYTES];
	struct unwind_table t;

	assert_int_equal(damaged(&t, -1, false, why), 0);
	unwind_table_fini(&t);
	assert_int_equal(damaged(&t, 0x00, false, why), -ENODATA); /* a terminator at once */
	assert_true(damaged(&t, 0xff, false, why) < 0);
	assert_string_not_equal(why, "");
	assert_true(damaged(&t, 0x41, false, why) < 0);
	assert_true(damaged(&t, -1, true, why) < 0);
	assert_string_not_equal(why, "");
	assert_null(t.rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_libdw_on_the_c_library),
	    cmocka_unit_test(knows_every_kind_of_the_c_library),
	    cmocka_unit_test(frames_told_by_r10_and_rbx_agree_with_libdw),
	    cmocka_unit_test(rows_are_sorted_and_gaps_are_none),
	    cmocka_unit_test(compiles_the_vdso_from_memory),
	    cmocka_unit_test(refuses_what_is_no_elf_file),
	    cmocka_unit_test(refuses_damaged_sections_with_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

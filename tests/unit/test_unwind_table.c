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
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sampler/unwind/unwind_replay.h"
#include "sampler/unwind/unwind_store.h"
#include "sampler/unwind/unwind_table.h"
#include "tests/decoded_cfi.h"
#include "tests/unit/skip.h"

/* The rule at an address (ELF virtual); NULL outside. */
static const struct unwind_rule *find_rule(const struct unwind_table *t, uint64_t address)
{
	uint32_t row = 0;

	if (address < t->begin || address >= t->end)
		return NULL;
	while (row < t->row_count && t->rows[row].address <= address - t->begin)
		row++;
	return row ? &t->rules[t->rows[row - 1].rule] : NULL;
}

/* Compiles bytes in memory, e.g. the vdso as a process has it. */
static int compile_image(struct unwind_table *t, const void *image, size_t bytes, char *why)
{
	int fd = memfd_create("image", MFD_CLOEXEC), rc;

	assert_int_equal(write(fd, image, bytes), bytes);
	rc = unwind_table_compile(t, fd, why);
	close(fd);
	return rc;
}

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

/* Two functions that never run: their frames are addressed by r10, as in a realigned prologue, and by
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
	r = find_rule(t, address);
	assert_non_null(r);
	assert_int_equal(UNWIND_RULE_CFA(r), UNWIND_CFA_REGISTER);
	assert_int_equal(UNWIND_RULE_REGISTER(r), number);
	assert_int_equal(r->offset, offset);
	if (wanted == UNWIND_RBX) {
		assert_int_equal(UNWIND_RULE_RBX(r), UNWIND_SAVED_CFA);
		assert_int_equal(r->rbx_slot, -2);
	}
}

static void frames_addressed_by_r10_and_rbx_agree_with_libdw(void **state)
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
	}
	assert_int_equal(t.rows[t.row_count - 1].rule, 0);
	assert_int_equal(t.begin + t.rows[t.row_count - 1].address, t.end);
	assert_null(find_rule(&t, t.begin - 1));
	assert_null(find_rule(&t, t.end));
	r = find_rule(&t, t.end - 1);
	assert_non_null(r);
	assert_int_not_equal(UNWIND_RULE_CFA(r), UNWIND_CFA_NONE);
	unwind_table_fini(&t);
}

/* Two functions that touch, with the same rules throughout. */
void test_unwind_table_first(void);
void test_unwind_table_second(void);
__asm__(".text\n"
	"test_unwind_table_first:\n"
	"	.cfi_startproc\n"
	"	nop\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"test_unwind_table_second:\n"
	"	.cfi_startproc\n"
	"	nop\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	ud2\n"); /* code without rules */

static bool has_row(const struct unwind_table *t, uint64_t address)
{
	for (uint32_t i = 0; i < t->row_count; i++) {
		if (t->begin + t->rows[i].address == address)
			return true;
	}
	return false;
}

static uint64_t elf_address(void (*f)(void))
{
	Dl_info info;

	assert_true(dladdr((const void *)(uintptr_t)f, &info));
	return (uint64_t)(uintptr_t)f - (uint64_t)(uintptr_t)info.dli_fbase;
}

static void functions_that_touch_begin_a_row_each(void **state)
{
	uint64_t first = elf_address(test_unwind_table_first),
		 second = elf_address(test_unwind_table_second);
	struct unwind_table t;

	assert_int_equal(second, first + 2);
	compile_path(&t, "/proc/self/exe");
	assert_true(has_row(&t, first));
	assert_true(has_row(&t, second));
	assert_int_equal(find_rule(&t, first)->cfa, find_rule(&t, second)->cfa);
	unwind_table_fini(&t);
}

static int no_memory(void *context, void *to, size_t bytes, uint64_t address)
{
	return -1;
}

/* Where the leaf's name is looked up: the row's begin, in code without rules the pc. */
static void a_leaf_keeps_its_function(void **state)
{
	const struct unwind_store_key key = {.count = 1, .kind = 1};
	uint64_t at = elf_address(test_unwind_table_second);
	static struct unwind_state s;
	struct unwind_replay *replay;
	struct unwind_store *store;
	struct unwind_mapping m;
	struct unwind_table t;
	uint32_t file;

	compile_path(&t, "/proc/self/exe");
	assert_int_equal(unwind_store_open(&store, &unwind_store_memory, 8u << 20), 0);
	assert_int_equal(unwind_store_add(store, &key, &t, &file), 0);
	unwind_store_mapping(store, file, t.begin, (t.end + 4095) & ~4095ull, 0, &m);
	assert_int_equal(unwind_store_publish(store, &m, 1, &s.process, NULL), 0);
	assert_int_equal(unwind_replay_open(&replay, store, UNWIND_MODE_TABLE, no_memory, NULL), 0);
	s.pc = at + 1;
	unwind_replay_walk(replay, &s);
	assert_int_equal(s.leaf_row, at);
	s.pc = at + 3; /* within the ud2 */
	unwind_replay_walk(replay, &s);
	assert_int_equal(s.leaf_row, at + 3);
	unwind_replay_close(replay);
	unwind_store_close(store);
	unwind_table_fini(&t);
}

/* Compiled code at 0x10000, called by way of code at 0x20000; a stack at 0x50000. */
#define JIT_CALLEE 0x10800u
#define JIT_RETURN 0x20805u
#define JIT_STACK  0x50000u
#define JIT_FRAME  8u /* words from rsp to the saved rbp */
static uint64_t jit_stack[128];

static int jit_memory(void *context, void *to, size_t bytes, uint64_t address)
{
	static const uint8_t call[] = {0xe8, 0xfb, 0xf8, 0xff, 0xff}; /* of 0x20100 */
	uint8_t *byte = to;

	for (size_t i = 0; i < bytes; i++) {
		uint64_t at = address + i;

		if (at >= JIT_STACK && at < JIT_STACK + sizeof(jit_stack))
			byte[i] = ((const uint8_t *)jit_stack)[at - JIT_STACK];
		else if (at >= JIT_RETURN - sizeof(call) && at < JIT_RETURN)
			byte[i] = call[at - (JIT_RETURN - sizeof(call))];
		else if (at >= 0x10000 && at < 0x30000)
			byte[i] = 0x90;
		else
			return -1;
	}
	return 0;
}

static void jit_walk(struct unwind_state *s, uint64_t rbp)
{
	struct unwind_mapping m[2] = {{.begin = 0x10000, .page_total = 1},
				      {.begin = 0x20000, .page_total = 1}};
	struct unwind_replay *replay;
	struct unwind_store *store;

	assert_int_equal(unwind_store_open(&store, &unwind_store_memory, 8u << 20), 0);
	assert_int_equal(unwind_store_publish(store, m, 2, &s->process, NULL), 0);
	assert_int_equal(unwind_replay_open(&replay, store, UNWIND_MODE_TABLE, jit_memory, NULL),
			 0);
	s->pc = JIT_CALLEE;
	s->reg[UNWIND_RSP] = JIT_STACK;
	s->reg[UNWIND_RBP] = rbp;
	unwind_replay_walk(replay, s);
	unwind_replay_close(replay);
	unwind_store_close(store);
}

static void a_tail_call_leaves_the_frame_pointer_right(void **state)
{
	static struct unwind_state s;

	memset(jit_stack, 0, sizeof(jit_stack));
	jit_stack[JIT_FRAME] = JIT_STACK + 8 * 32;
	jit_stack[JIT_FRAME + 1] =
	    JIT_RETURN; /* the call there leads to 0x20100, not to the callee */
	jit_walk(&s, JIT_STACK + 8 * JIT_FRAME);
	assert_true(s.count >= 2);
	assert_int_equal(s.frame[1], JIT_RETURN | UNWIND_FRAME_RETURN | UNWIND_FRAME_FP);
	/* unless a return address is nearer: then the leaf has no frame */
	jit_stack[0] = JIT_RETURN;
	jit_walk(&s, JIT_STACK + 8 * JIT_FRAME);
	assert_int_equal(s.frame[1], JIT_RETURN | UNWIND_FRAME_RETURN | UNWIND_FRAME_SCANNED);
}

static void a_leaf_with_zero_in_rbp_is_no_root(void **state)
{
	static struct unwind_state s;

	memset(jit_stack, 0, sizeof(jit_stack));
	jit_walk(&s, 0);
	assert_int_equal(s.count, 1);
	assert_int_equal(s.end, UNWIND_END_NO_TABLE);
}

/* This program's bytes. */
static uint8_t *own_image(size_t *bytes)
{
	FILE *f = fopen("/proc/self/exe", "rb");
	size_t room = 64u << 20;
	uint8_t *image = malloc(room);

	assert_non_null(f);
	assert_non_null(image);
	*bytes = fread(image, 1, room, f);
	fclose(f);
	assert_true(*bytes > 0 && *bytes < room);
	return image;
}

static void entries_of_a_plt_begin_a_row_each(void **state)
{
	size_t bytes;
	uint8_t *image = own_image(&bytes);
	const Elf64_Ehdr *eh = (void *)image;
	const Elf64_Shdr *sh = (void *)(image + eh->e_shoff);
	const char *names = (const char *)image + sh[eh->e_shstrndx].sh_offset;
	struct unwind_table t;
	uint32_t entries = 0;

	compile_path(&t, "/proc/self/exe");
	for (int i = 0; i < eh->e_shnum; i++) {
		if (strcmp(names + sh[i].sh_name, ".plt") &&
		    strcmp(names + sh[i].sh_name, ".plt.sec"))
			continue;
		for (uint64_t at = 0; at < sh[i].sh_size; at += 16, entries++) {
			if (find_rule(&t, sh[i].sh_addr + at))
				assert_true(has_row(&t, sh[i].sh_addr + at));
		}
	}
	free(image);
	unwind_table_fini(&t);
	if (!entries)
		skip_needs("a PLT in the program");
}

static void without_section_headers_the_segment_names_the_rules(void **state)
{
	char why[UNWIND_TABLE_WHY_BYTES];
	size_t bytes;
	uint8_t *image = own_image(&bytes);
	Elf64_Ehdr *eh = (void *)image;
	struct unwind_table whole, t;

	compile_path(&whole, "/proc/self/exe");
	eh->e_shoff = eh->e_shnum = eh->e_shstrndx = 0;
	assert_int_equal(compile_image(&t, image, bytes, why), 0);
	assert_int_equal(t.fde_count, whole.fde_count);
	assert_int_equal(t.code_bytes, whole.code_bytes);
	free(image);
	unwind_table_fini(&t);
	unwind_table_fini(&whole);
}

#define THRASH_CIES  64u
#define THRASH_FDES  4096u
#define THRASH_BYTES 2048u /* of a CIE, nearly all augmentation text */
struct thrash {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
	uint8_t header[12]; /* .eh_frame_hdr */
	uint8_t cie[THRASH_CIES][THRASH_BYTES];
	uint32_t fde[THRASH_FDES][7];
	uint32_t end;
};

/* Every function names another CIE than the one before; nested: each lies inside an entry. */
static void thrash_fill(struct thrash *f, bool nested)
{
	static const uint8_t tail[] = {0, 1, 0x78, 16, 0, 0x0c, 7, 8, 0x90, 1};

	memset(f, 0, sizeof(*f));
	memcpy(f->eh.e_ident, ELFMAG, SELFMAG);
	f->eh.e_ident[EI_CLASS] = ELFCLASS64;
	f->eh.e_ident[EI_DATA] = ELFDATA2LSB;
	f->eh.e_type = ET_DYN;
	f->eh.e_machine = EM_X86_64;
	f->eh.e_phoff = offsetof(struct thrash, ph);
	f->eh.e_phentsize = sizeof(f->ph[0]);
	f->eh.e_phnum = 2;
	f->ph[0] = (Elf64_Phdr){.p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_filesz = sizeof(*f),
				.p_memsz = sizeof(*f)};
	f->ph[1] =
	    (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME, .p_vaddr = offsetof(struct thrash, header)};
	f->header[0] = 1;
	f->header[1] = 0x1b; /* pc-relative, 4 bytes */
	*(uint32_t *)(void *)(f->header + 4) =
	    offsetof(struct thrash, cie) - offsetof(struct thrash, header) - 4;
	for (uint32_t i = 0; i < THRASH_CIES; i++) {
		uint32_t *words = (void *)f->cie[i];

		words[0] = THRASH_BYTES - 4;
		f->cie[i][8] = 1;
		f->cie[i][9] = 'z';
		memset(f->cie[i] + 10, 'B', THRASH_BYTES - 10 - sizeof(tail));
		memcpy(f->cie[i] + THRASH_BYTES - sizeof(tail), tail, sizeof(tail));
	}
	for (uint32_t i = 0; i < THRASH_FDES; i++) {
		uint32_t offset = offsetof(struct thrash, fde) + i * 28 + 4;

		f->fde[i][0] = 24;
		f->fde[i][1] = offset - (uint32_t)(offsetof(struct thrash, cie) +
						   i % THRASH_CIES * THRASH_BYTES + 4 * nested);
	}
}

static void no_entry_is_decoded_more_than_twice(void **state)
{
	static struct thrash f;
	char why[UNWIND_TABLE_WHY_BYTES];
	struct unwind_table t;

	thrash_fill(&f, false);
	decoded = 0;
	assert_int_equal(compile_image(&t, &f, sizeof(f), why), -ENODATA);
	assert_true(decoded > sizeof(f.cie) && decoded <= 2 * sizeof(f));
	thrash_fill(&f, true);
	decoded = 0;
	assert_int_equal(compile_image(&t, &f, sizeof(f), why), -EBADMSG);
	assert_string_equal(why, "a function names no valid CIE");
	assert_true(decoded <= 2 * sizeof(f));
}

/* Two functions far apart in a file of holes: the page index would have megabytes. */
static void a_hole_is_no_code(void **state)
{
	static struct thrash f;
	char why[UNWIND_TABLE_WHY_BYTES];
	int fd = memfd_create("image", MFD_CLOEXEC);
	struct unwind_table t;

	thrash_fill(&f, false);
	f.ph[0].p_filesz = f.ph[0].p_memsz = 1ull << 30;
	assert_int_equal(write(fd, &f, sizeof(f)), sizeof(f));
	assert_int_equal(ftruncate(fd, 1l << 30), 0);
	assert_int_equal(unwind_table_compile(&t, fd, why), -EBADMSG);
	assert_non_null(strstr(why, "code"));
	close(fd);
}

static void compiles_the_vdso_from_memory(void **state)
{
	char why[UNWIND_TABLE_WHY_BYTES];
	unsigned long at = getauxval(AT_SYSINFO_EHDR);
	struct unwind_table t;
	void *copy = malloc(4096 * 2);
	const Elf64_Ehdr *eh = (const void *)at;

	if (!at)
		skip_needs("vdso");
	assert_non_null(copy);
	assert_true(eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize <= 4096 * 2);
	memcpy(copy, (const void *)at, eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize);
	assert_int_equal(compile_image(&t, copy, 4096 * 2, why), 0);
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
	assert_int_equal(compile_image(&t, text, sizeof(text), why), -ENOTSUP);
}

/* A copy of this program with its .eh_frame overwritten by `fill`, or cut in half by `cut`. */
static int damaged(struct unwind_table *t, int fill, bool cut, char *why)
{
	size_t bytes;
	uint8_t *image = own_image(&bytes);
	Elf64_Ehdr *eh = (void *)image;
	Elf64_Shdr *sh;
	const char *names;
	int rc = -1;

	sh = (void *)(image + eh->e_shoff);
	names = (const char *)image + sh[eh->e_shstrndx].sh_offset;
	for (int i = 0; i < eh->e_shnum; i++) {
		if (strcmp(names + sh[i].sh_name, ".eh_frame"))
			continue;
		if (fill >= 0)
			memset(image + sh[i].sh_offset, fill, sh[i].sh_size);
		if (cut)
			sh[i].sh_size = ~0ull >> 1;
		rc = compile_image(t, image, bytes, why);
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
	    cmocka_unit_test(frames_addressed_by_r10_and_rbx_agree_with_libdw),
	    cmocka_unit_test(rows_are_sorted_and_gaps_are_none),
	    cmocka_unit_test(functions_that_touch_begin_a_row_each),
	    cmocka_unit_test(a_leaf_keeps_its_function),
	    cmocka_unit_test(a_tail_call_leaves_the_frame_pointer_right),
	    cmocka_unit_test(a_leaf_with_zero_in_rbp_is_no_root),
	    cmocka_unit_test(entries_of_a_plt_begin_a_row_each),
	    cmocka_unit_test(without_section_headers_the_segment_names_the_rules),
	    cmocka_unit_test(no_entry_is_decoded_more_than_twice),
	    cmocka_unit_test(a_hole_is_no_code),
	    cmocka_unit_test(compiles_the_vdso_from_memory),
	    cmocka_unit_test(refuses_what_is_no_elf_file),
	    cmocka_unit_test(refuses_damaged_sections_with_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

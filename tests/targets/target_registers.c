/* SPDX-License-Identifier: Apache-2.0
 * target_registers.c - frames whose address is in a register that is neither rsp nor rbp, as
 * hand-written assembly and realigned prologues have them. usage: target_registers [r10|rbx]
 * (default both, in turns). chain r10: main -> in_r10, a leaf that realigns its stack and burns
 * while its frame is known by r10; chain rbx: main -> in_rbx -> target_burn, with in_rbx's frame
 * known by rbx, which target_burn_saved has saved and uses itself. */
#include <string.h>

#include "tests/targets/target.h"

uint64_t in_r10(uint64_t rounds);
uint64_t in_rbx(uint64_t rounds);
uint64_t target_burn_saved(uint64_t rounds);

/* rbx is live over a call, so it is saved, and the loop keeps another value in it. */
TARGET_NOINLINE uint64_t target_burn_saved(uint64_t rounds)
{
	uint64_t sum = rounds;

	for (int i = 0; i < 50; i++)
		sum += target_burn(sum, (int)rounds);
	return sum;
}

__asm__(".text\n"
	".globl in_r10\n"
	".type in_r10, @function\n"
	"in_r10:\n"
	"	.cfi_startproc\n"
	"	lea 8(%rsp), %r10\n"
	"	.cfi_def_cfa r10, 0\n"
	"	and $-64, %rsp\n"
	"	sub $64, %rsp\n"
	"	mov %rdi, %rax\n"
	"1:	imul $1103515245, %rax, %rax\n"
	"	add $12345, %rax\n"
	"	dec %rdi\n"
	"	jnz 1b\n"
	"	lea -8(%r10), %rsp\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size in_r10, .-in_r10\n"
	".globl in_rbx\n"
	".type in_rbx, @function\n"
	"in_rbx:\n"
	"	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_def_cfa rsp, 16\n"
	"	.cfi_offset rbx, -16\n"
	"	mov %rsp, %rbx\n"
	"	.cfi_def_cfa rbx, 16\n"
	"	sub $4096, %rsp\n"
	"	and $-64, %rsp\n"
	"	call target_burn_saved\n"
	"	mov %rbx, %rsp\n"
	"	.cfi_def_cfa rsp, 16\n"
	"	pop %rbx\n"
	"	.cfi_restore rbx\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size in_rbx, .-in_rbx\n");

int main(int argc, char **argv)
{
	target_ready();
	for (uint64_t i = 1;; i++) {
		if (argc < 2 || !strcmp(argv[1], "r10"))
			target_sink += in_r10(200000);
		if (argc < 2 || !strcmp(argv[1], "rbx"))
			target_sink += in_rbx(4000) + i;
	}
}

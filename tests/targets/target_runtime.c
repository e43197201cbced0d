/* SPDX-License-Identifier: Apache-2.0
 * target_runtime.c - what a runtime does that makes its stacks and signal frames by hand, as Go's does.
 * chain: runtime_bottom -> on_stack -> climb x 10 -> target_burn. Nobody called runtime_bottom: the word
 * at the stack's bottom is the address one byte behind its beginning, and above lie words of an earlier
 * use, a return address among them. A timer's handler runs on an alternate stack and returns to a
 * trampoline whose rules say that it is a function, with no rules for the byte before it. */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/targets/target.h"

#define STACK_WORDS                                                                                \
	16384 /* the upper half; below it the alternate stack: who goes by rbp gets across */

/* The kernel's struct sigaction. */
struct action {
	void (*handler)(int number);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

void runtime_enter(uint64_t *bottom, void (*function)(void));
void runtime_bottom(void);
void runtime_stale(void);
void runtime_restorer(void);

__asm__(".text\n"
	".globl runtime_enter\n"
	".type runtime_enter, @function\n"
	"runtime_enter:\n"
	"	.cfi_startproc\n"
	"	.cfi_undefined rip\n"
	"	mov %rdi, %rsp\n"
	"	jmp *%rsi\n"
	"	.cfi_endproc\n"
	".size runtime_enter, .-runtime_enter\n"
	".globl runtime_bottom\n"
	".type runtime_bottom, @function\n"
	"runtime_bottom:\n"
	"	.cfi_startproc\n"
	"	nop\n"
	"	ud2\n"
	"	.cfi_endproc\n"
	".size runtime_bottom, .-runtime_bottom\n"
	".globl runtime_stale\n"
	".type runtime_stale, @function\n"
	"	.cfi_startproc\n"
	"	call runtime_bottom\n"
	"runtime_stale:\n" /* where that call would return to */
	"	ret\n"
	"	.cfi_endproc\n"
	".size runtime_stale, .-runtime_stale\n"
	"	.skip 16, 0xcc\n"
	".globl runtime_restorer\n"
	".type runtime_restorer, @function\n"
	"runtime_restorer:\n"
	"	.cfi_startproc\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	"	.cfi_endproc\n"
	".size runtime_restorer, .-runtime_restorer\n");

static TARGET_NOINLINE uint64_t climb(uint64_t n)
{
	volatile uint64_t keep = n;

	if (n)
		return climb(n - 1) + keep;
	return target_burn(keep, 100000) + keep;
}

static void on_stack(void)
{
	for (;;)
		target_sink += climb(9);
}

static void handler(int number)
{
	target_sink += climb(2) + (uint64_t)number;
}

int main(void)
{
	static uint64_t stack[STACK_WORDS] __attribute__((aligned(16)));
	const struct action action = {
	    handler, SA_ONSTACK | SA_RESTART | 0x04000000 /* SA_RESTORER */, runtime_restorer, 0};
	const struct itimerval every = {{0, 2000}, {0, 2000}};
	stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack) / 2};
	uint64_t *bottom =
	    &stack[STACK_WORDS - 7]; /* 8 beyond a multiple of 16, as behind a call */

	if (sigaltstack(&other, NULL) || syscall(SYS_rt_sigaction, SIGALRM, &action, NULL, 8))
		return 1;
	bottom[0] = (uint64_t)runtime_bottom + 1;
	bottom[1] = (uint64_t)runtime_stale;
	target_ready();
	setitimer(ITIMER_REAL, &every, NULL);
	runtime_enter(bottom, on_stack);
}

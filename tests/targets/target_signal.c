/* SPDX-License-Identifier: Apache-2.0
 * target_signal.c - signal handlers: on the thread's stack, and on an alternate one.
 * chain: main -> below -> (raise) -> trampoline -> handler -> in_handler -> burn, and with a timer
 * the interrupted function may be at any instruction of `below`. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/targets/target.h"

static TARGET_NOINLINE uint64_t in_handler(uint64_t x)
{
	return target_burn(x, 100000) + 1;
}

static void handler(int number)
{
	target_sink += in_handler((uint64_t)number);
}

static TARGET_NOINLINE uint64_t below(uint64_t x)
{
	volatile uint64_t buffer[9];

	buffer[x % 9] = target_burn(x, 50000);
	raise(x & 1 ? SIGUSR1 : SIGUSR2);
	return buffer[x % 9] + 1;
}

int main(void)
{
	const struct itimerval every = {{0, 3000}, {0, 3000}};
	stack_t stack = {.ss_size = 1 << 18};
	struct sigaction on = {.sa_handler = handler};

	stack.ss_sp = malloc(stack.ss_size);
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		return 1;
	sigaction(SIGUSR1, &on, NULL);
	on.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &on, NULL);
	on.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &on, NULL);
	target_ready();
	setitimer(ITIMER_REAL, &every, NULL);
	for (uint64_t i = 0;; i++)
		target_sink += below(i);
}

/* SPDX-License-Identifier: Apache-2.0
 * target_vfork.c - vfork, whose C library code holds the return address in a register, and a child
 * that burns on its parent's stack. chain: main -> spawn -> vfork, and child: main -> spawn -> burn
 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/target.h"

static TARGET_NOINLINE uint64_t spawn(uint64_t x)
{
	pid_t pid = vfork();
	int status;

	if (!pid) {
		target_sink += target_burn(x, 20000);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return (uint64_t)status + target_burn(x, 20000);
}

int main(void)
{
	target_ready();
	for (uint64_t i = 0;; i++)
		target_sink += spawn(i) + 1;
}

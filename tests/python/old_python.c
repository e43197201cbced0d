/* SPDX-License-Identifier: Apache-2.0
 * A program that says it is an interpreter of a version whose frames are not read. */
#include <stdio.h>
#include <unistd.h>

__attribute__((section(".PyRuntime"))) char _PyRuntime[512] = {1};
const unsigned long Py_Version = 0x030907f0;

int main(void)
{
	volatile unsigned long n = 0;

	printf("P %d\n.\n", (int)getpid());
	fflush(stdout);
	for (;;)
		n++;
}

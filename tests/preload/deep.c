/* SPDX-License-Identifier: Apache-2.0
 * deep.c - a library to be opened with RTLD_DEEPBIND: its look-ups pass by every preload. */
#include <dlfcn.h>

#include "tests/preload/null.h"

__attribute__((visibility("default"))) void deep_launch(unsigned n);
void deep_launch(unsigned n)
{
	cu_launch_kernel_fn found =
	    (cu_launch_kernel_fn)dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuLaunchKernel");

	for (unsigned i = 0; i < n; i++) {
		cuLaunchKernel((cu_function)0x1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
		found((cu_function)0x1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	}
}

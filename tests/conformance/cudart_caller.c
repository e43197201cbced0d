/* SPDX-License-Identifier: Apache-2.0
 * cudart_caller.c - starts the real CUDA runtime (linked statically, or opened with -DSHARED) and
 * prints what it asked the driver for. */
#include <dlfcn.h>
#include <stdio.h>

#ifdef SHARED
static int (*cudaFree)(void *);
#else
extern int cudaFree(void *p);
#endif

int main(int argc, char **argv)
{
	/* kept, since the runtime closes a driver that it refuses */
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	void (*report)(void) = driver ? (void (*)(void))dlsym(driver, "all_cuda_report") : NULL;

#ifdef SHARED
	void *lib = dlopen(argv[1], RTLD_NOW);

	if (!lib) {
		printf("error=%s\n", dlerror());
		return 3;
	}
	cudaFree = (int (*)(void *))dlsym(lib, "cudaFree");
#endif
	printf("cudaFree=%d\n", cudaFree(NULL));
	if (report)
		report();
	return 0;
}

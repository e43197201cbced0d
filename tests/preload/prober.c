/* SPDX-License-Identifier: Apache-2.0
 * prober.c - a program that looks for a GPU library at run time, as portable programs do, and is
 * linked with none. usage: prober MODE. Prints lines that do not depend on the preload. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "foreign/cuda.h"

static int launch(void *fn)
{
	return ((cu_launch_kernel_fn)fn)((cu_function)0x100, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

/* Many ask dlerror alone whether they may call what they were given. */
static void look(const char *how, void *handle, const char *name)
{
	void *found;
	const char *error;

	dlerror();
	found = dlsym(handle, name);
	error = dlerror();
	printf("%s %s: found=%d error=%d named=%d\n", how, name, found != NULL, error != NULL,
	       error && strstr(error, name));
}

static void look_for(const char *name)
{
	void *self = dlopen(NULL, RTLD_LAZY);

	look("default", RTLD_DEFAULT, name);
	look("self", self, name);
	look("next", RTLD_NEXT, name);
}

static void mode_absent(void)
{
	look_for("cuLaunchKernel");
	look_for("cuptiSubscribe");
	look_for("ncclCommSplit");
	look_for("cuNothing");
	look_for("dlsym");
}

static void mode_local(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

	look("library", library, "cuLaunchKernel");
	look("library", library, "ncclCommSplit");
	look("self", dlopen(NULL, RTLD_LAZY), "cuLaunchKernel");
	printf("launch=%d\n", launch(dlsym(library, "cuLaunchKernel")));
}

static void mode_global(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL);

	look("library", library, "cuLaunchKernel");
	look_for("cuLaunchKernel");
	printf("launch=%d\n", launch(dlsym(RTLD_DEFAULT, "cuLaunchKernel")));
}

/* Is there a GPU? Closed again, and opened for good when something else lies in its old place. */
static void mode_reload(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY);

	printf("there=%d ", dlsym(library, "cuLaunchKernel") != NULL);
	printf("closed=%d\n", dlclose(library));
	for (int i = 0; i < 4000; i++)
		mmap(NULL, 4096ul * (1 + (unsigned)i % 8), i % 2 ? PROT_NONE : PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL);
	printf("launch=%d\n", launch(dlsym(RTLD_DEFAULT, "cuLaunchKernel")));
	printf("launch=%d\n", launch(dlsym(library, "cuLaunchKernel")));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"absent", mode_absent},
		     {"local", mode_local},
		     {"global", mode_global},
		     {"reload", mode_reload}};

	for (unsigned i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!strcmp(argv[1], "list"))
			puts(modes[i].name);
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run();
		return 0;
	}
	return argc == 2 && !strcmp(argv[1], "list") ? 0 : 2;
}

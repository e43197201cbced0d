/* SPDX-License-Identifier: Apache-2.0
 * gpu_clock.c - reads the same file as the double of NVML, so that a device's reported clock and
 * its speed always agree. */
#include "sim/gpu_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "sim/gpu_iface.h"

#define LOOK_AGAIN_NS	  50000000ull
#define DEFAULT_CLOCK_MHZ 1980u

static struct {
	const char *path;
	bool begun;
	uint64_t looked_ns;
	struct timespec changed;
	uint64_t mhz[GPU_MAX_DEVICES], max_mhz[GPU_MAX_DEVICES];
} clocks;

static void set(uint64_t *values, const char *dot, const char *key, uint64_t value)
{
	int first = 0, last = GPU_MAX_DEVICES - 1;

	if (dot) {
		first = last = atoi(key);
		if (first < 0 || first >= GPU_MAX_DEVICES)
			return;
	}
	for (int d = first; d <= last; d++)
		values[d] = value;
}

static void read_file(void)
{
	char line[256], key[64], text[64];
	FILE *f = fopen(clocks.path, "r");

	for (int d = 0; d < GPU_MAX_DEVICES; d++)
		clocks.mhz[d] = clocks.max_mhz[d] = DEFAULT_CLOCK_MHZ;
	while (f && fgets(line, sizeof(line), f)) {
		const char *dot, *name;

		if (line[0] == '#' || sscanf(line, "%63s %63s", key, text) != 2)
			continue;
		dot = strchr(key, '.');
		name = dot ? dot + 1 : key;
		if (!strcmp(name, "sm_clock_mhz"))
			set(clocks.mhz, dot, key, strtoull(text, NULL, 0));
		else if (!strcmp(name, "sm_clock_max_mhz"))
			set(clocks.max_mhz, dot, key, strtoull(text, NULL, 0));
	}
	if (f)
		fclose(f);
}

static void refresh(uint64_t now_ns)
{
	struct stat st;

	if (!clocks.begun) {
		clocks.begun = true;
		clocks.path = getenv("SIM_NVML_FILE");
	}
	if (!clocks.path || now_ns - clocks.looked_ns < LOOK_AGAIN_NS)
		return;
	clocks.looked_ns = now_ns;
	if (stat(clocks.path, &st) || !memcmp(&st.st_mtim, &clocks.changed, sizeof(clocks.changed)))
		return;
	clocks.changed = st.st_mtim;
	read_file();
}

uint64_t gpu_clock_scale(int device, uint64_t dur_ns, uint64_t now_ns)
{
	refresh(now_ns);
	if (!clocks.path || device < 0 || device >= GPU_MAX_DEVICES || !clocks.mhz[device] ||
	    clocks.mhz[device] >= clocks.max_mhz[device])
		return dur_ns;
	return (uint64_t)((double)dur_ns * (double)clocks.max_mhz[device] /
			  (double)clocks.mhz[device]);
}

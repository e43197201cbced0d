/* SPDX-License-Identifier: Apache-2.0
 * Replays a corpus through a libFuzzer entry point without an engine: every file, then every file cut
 * short at several places and with bytes flipped (a fixed sequence), so that `make check` covers the
 * neighbourhood of each seed on a machine without clang. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define REPLAY_BYTES_MAX (4u << 20)
#define REPLAY_MUTANTS	 64

/* A copy of exactly the size, so that a sanitizer sees the first byte past it. */
static void one(const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);

	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	LLVMFuzzerTestOneInput(copy, bytes);
	free(copy);
}

static void replay(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(REPLAY_BYTES_MAX);
	uint64_t seed = 0x9e3779b97f4a7c15ull;
	size_t n;

	if (!f || !data) {
		perror(path);
		exit(1);
	}
	n = fread(data, 1, REPLAY_BYTES_MAX, f);
	fclose(f);
	one(data, n);
	for (int i = 0; i < 16; i++)
		one(data, n * (size_t)i / 16);
	for (int i = 0; i < REPLAY_MUTANTS && n; i++) {
		size_t at[4];
		uint8_t was[4];

		for (int k = 0; k < 4; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			at[k] = (size_t)(seed >> 33) % n;
			was[k] = data[at[k]];
			data[at[k]] = (uint8_t)(seed >> 20);
		}
		one(data, n);
		for (int k = 3; k >= 0; k--)
			data[at[k]] = was[k];
	}
	free(data);
}

int main(int argc, char **argv)
{
	int files = 0;

	for (int i = 1; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		struct dirent *e;
		char path[4096];

		if (!d) {
			replay(argv[i]);
			files++;
			continue;
		}
		while ((e = readdir(d)))
			if (e->d_name[0] != '.') {
				snprintf(path, sizeof(path), "%s/%s", argv[i], e->d_name);
				replay(path);
				files++;
			}
		closedir(d);
	}
	printf("%d files replayed\n", files);
	return files ? 0 : 1;
}

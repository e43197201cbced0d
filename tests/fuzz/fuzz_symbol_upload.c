/* SPDX-License-Identifier: Apache-2.0
 * fuzz_symbol_upload - any bytes as an uploaded file, in two chunks: what gets into the directory carries
 * the Build ID that it lies under and as much as was promised, and nothing half stays behind. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "symbol/symbol_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char dir[64];
static struct symbol_store *store;

static void remove_all(void)
{
	char command[128];

	symbol_store_close(store);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	CHECK(!system(command));
}

static void open_once(void)
{
	struct symbol_store_options o = {.directory = dir, .bytes_max = 4 << 20, .evict = true};

	if (store)
		return;
	strcpy(dir, "/tmp/sysom-fuzz-upload-XXXXXX");
	CHECK(mkdtemp(dir) && !symbol_store_open(&store, &o));
	atexit(remove_all);
}

/* The Build ID that the bytes carry, so that some uploads go through; else one of their first bytes. */
static size_t pick_id(const uint8_t *data, size_t bytes, uint8_t id[SYMBOL_BUILD_ID_MAX])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC), n;

	CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	n = symbol_elf_build_id(fd, id);
	close(fd);
	if (n >= 2)
		return (size_t)n;
	memset(id, 7, 20);
	memcpy(id, data, bytes < 20 ? bytes : 20);
	return 20;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t id[SYMBOL_BUILD_ID_MAX], got[SYMBOL_BUILD_ID_MAX];
	enum symbol_quality q;
	struct symbol_store_stats st;
	uint64_t session;
	size_t n, split, got_bytes;
	const char *why;
	int err;

	if (bytes < 2)
		return 0;
	open_once();
	q = (enum symbol_quality)(1 + data[0] % 3);
	split = (size_t)data[1] * bytes / 256;
	data += 2;
	bytes -= 2;
	n = pick_id(data, bytes, id);
	err = symbol_store_begin(store, id, n, bytes, q, 1, &session);
	if (err)
		return 0;
	split = split < bytes ? split : bytes;
	CHECK(!symbol_store_append(store, session, 0, data, split, 1));
	CHECK(symbol_store_append(store, session, split + 1, data, 1, 1));
	CHECK(!symbol_store_append(store, session, split, data + split, bytes - split, 1));
	err = symbol_store_finish(store, session, got, &got_bytes, &why);
	CHECK(err || !symbol_store_needed(store, id, n, q, 1));
	CHECK(got_bytes == (n < 20 ? n : 20) && !memcmp(got, id, got_bytes));
	symbol_store_stats_get(store, &st);
	CHECK(!st.uploading && !st.reserved_bytes && st.bytes <= 4 << 20);
	return 0;
}

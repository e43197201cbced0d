/* SPDX-License-Identifier: Apache-2.0
 * fuzz_symbolize - any bytes as the body of the requests about symbols: the answer is JSON, its status one
 * of those documented, and an upload that was begun can be given up. */
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/symbols.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char dir[64], own_id[2 * SYMBOL_BUILD_ID_MAX + 1];
static struct symbols *symbols;

static void remove_all(void)
{
	char command[128];

	symbols_close(symbols);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	CHECK(!system(command));
}

/* This program itself is in the directory, so that some addresses have names. */
static void open_once(void)
{
	struct symbols_config c = {.dir = dir,
				   .upload = true,
				   .evict = true,
				   .max_bytes = 1ull << 30,
				   .index_max_bytes = 1ull << 30};
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	char command[512];
	int fd, n;

	if (symbols)
		return;
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	n = symbol_elf_build_id(fd, id);
	close(fd);
	CHECK(n >= 2);
	for (int i = 0; i < n; i++)
		snprintf(own_id + 2 * i, 3, "%02x", id[i]);
	strcpy(dir, "/tmp/sysom-fuzz-symbolize-XXXXXX");
	CHECK(mkdtemp(dir));
	snprintf(
	    command, sizeof(command),
	    "mkdir -p %s/tree/.build-id/%.2s && cp /proc/%d/exe %s/tree/.build-id/%.2s/%s.debug",
	    dir, own_id, getpid(), dir, own_id, own_id + 2);
	CHECK(!system(command) && !symbols_open(&symbols, &c));
	atexit(remove_all);
}

/* "abcd" in a seed stands for this program's Build ID. Returns owned. */
static uint8_t *with_own_id(const uint8_t *data, size_t bytes, size_t *out_bytes)
{
	const uint8_t *at = bytes ? memmem(data, bytes, "\"abcd\"", 6) : NULL;
	uint8_t *out = malloc(bytes + sizeof(own_id));
	size_t before = at ? (size_t)(at - data) + 1 : bytes, n = at ? strlen(own_id) : 0;

	CHECK(out);
	if (before)
		memcpy(out, data, before);
	memcpy(out + before, own_id, n);
	if (at)
		memcpy(out + before + n, at + 5, bytes - before - 4);
	*out_bytes = at ? bytes - 4 + n : bytes;
	return out;
}

static void abort_upload(const struct buf *answer)
{
	json_t *j = json_loadb((const char *)answer->data, answer->bytes, 0, NULL);
	const char *session = json_string_value(json_object_get(j, "session"));

	CHECK(session && strlen(session) == 16);
	symbols_abort(symbols, strtoull(session, NULL, 16));
	json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct symbols_stats st;
	struct buf out;
	unsigned status;
	uint8_t *body;
	json_t *j;

	open_once();
	body = with_own_id(data, bytes, &bytes);
	for (int kind = 0; kind < 3; kind++) {
		buf_init(&out, 32u << 20);
		status = kind == 0   ? symbols_needed(symbols, body, bytes, &out)
			 : kind == 1 ? symbols_begin(symbols, body, bytes, &out)
				     : symbols_symbolize(symbols, body, bytes, &out);
		CHECK(status == 200 || status == 201 || status == 400 || status == 409 ||
		      status == 413 || status == 507);
		j = json_loadb((const char *)out.data, out.bytes, 0, NULL);
		CHECK(json_is_object(j));
		json_decref(j);
		if (kind == 1 && status == 201)
			abort_upload(&out);
		buf_fini(&out);
	}
	free(body);
	symbols_stats(symbols, &st);
	CHECK(!st.store.uploading);
	return 0;
}

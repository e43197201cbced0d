/* SPDX-License-Identifier: Apache-2.0
 * Why not FNV (base/hash.h) with a random start: FNV is so linear that some sets of keys collide
 * whatever the start is. */
#include "base/keyed.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"

static struct keyed process_key;
static pthread_once_t process_once = PTHREAD_ONCE_INIT;

uint64_t keyed_bytes(const struct keyed *k, const void *data, size_t bytes)
{
	const unsigned char *p = data;
	struct keyed_state s = keyed_begin(k);
	uint64_t last = (uint64_t)bytes << 56, word;
	size_t at = 0;

	for (; at + 8 <= bytes; at += 8) {
		memcpy(&word, p + at, 8);
		keyed_add(&s, word);
	}
	for (size_t i = 0; at + i < bytes; i++)
		last |= (uint64_t)p[at + i] << 8 * i;
	keyed_add(&s, last);
	return keyed_end(&s);
}

uint64_t keyed_text(const struct keyed *k, const char *text)
{
	return keyed_bytes(k, text, strlen(text));
}

static void make_process_key(void)
{
	/* blocks until the kernel first has entropy after boot, never later */
	CHECK(getrandom(&process_key, sizeof(process_key), 0) == sizeof(process_key));
}

const struct keyed *keyed_process(void)
{
	pthread_once(&process_once, make_process_key);
	return &process_key;
}

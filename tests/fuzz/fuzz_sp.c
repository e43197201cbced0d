/* SPDX-License-Identifier: Apache-2.0
 * fuzz_sp - what a peer sends on a stream, in pieces of any size: the same messages whatever the pieces,
 * and never more memory than the peer has paid for with bytes. Byte 0: pieces, and which stream it is. */
#include <stdlib.h>
#include <string.h>

#include "wire/link/sp.h"
#include "base/check.h"
#include "base/hash.h"

#define MESSAGE_MAX 100000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct seen {
	uint64_t hash;
	uint32_t messages;
	size_t taken; /* bytes up to the end, or to what is not the protocol */
};

static bool message(struct sp *s, struct seen *seen)
{
	const uint8_t *body = s->body + s->hops_bytes;

	CHECK(s->hops_bytes >= 4 && s->hops_bytes <= SP_HOPS_MAX * 4 && s->hops_bytes <= s->got);
	CHECK(s->got - s->hops_bytes <= MESSAGE_MAX && s->got == s->want);
	seen->hash = hash_bytes(seen->hash, body, s->got - s->hops_bytes);
	seen->messages++;
	sp_next(s);
	return true;
}

static struct seen feed(const uint8_t *data, size_t bytes, bool ipc, size_t piece)
{
	struct seen seen = {.hash = HASH_SEED};
	size_t of_message = 0, calls = 0;
	struct sp s;

	sp_init(&s, SP_ASKS, ipc, MESSAGE_MAX);
	while (seen.taken < bytes) {
		uint8_t *at;
		size_t room, n;

		CHECK(!sp_room(&s, &at, &room) && room > 0);
		n = room < piece ? room : piece;
		if (n > bytes - seen.taken)
			n = bytes - seen.taken;
		memcpy(at, data + seen.taken, n);
		seen.taken += n;
		of_message += n;
		calls++;
		if (sp_take(&s, n))
			break;
		CHECK(s.capacity <= 2 * of_message + SP_FIRST_BYTES);
		if (s.phase == SP_MESSAGE && message(&s, &seen))
			of_message = 0;
	}
	CHECK(calls <= bytes / piece + 3 * seen.messages + 40); /* some per doubling */
	sp_fini(&s);
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct seen whole, pieces;
	bool ipc;

	if (!bytes)
		return 0;
	ipc = data[0] & 1;
	whole = feed(data + 1, bytes - 1, ipc, SIZE_MAX);
	pieces = feed(data + 1, bytes - 1, ipc, 1 + (data[0] >> 1));
	CHECK(whole.messages == pieces.messages && whole.hash == pieces.hash);
	return 0;
}

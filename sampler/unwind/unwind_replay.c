/* SPDX-License-Identifier: Apache-2.0
 * unwind_replay.c - see unwind_replay.h. As in the kernel, the walk reads memory through functions
 * without a context; here a thread-local variable holds the running replay. */
#include "sampler/unwind/unwind_replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* About as many learned places as in the kernel; the oldest is replaced. */
#define MARKER_SLOTS 16384u

struct marker {
	uint64_t key;
	uint32_t marker;
};

struct unwind_replay {
	const struct unwind_store *store;
	enum unwind_mode mode;
	unwind_replay_read read;
	void *context;
	struct marker markers[MARKER_SLOTS];
};

static _Thread_local struct unwind_replay *current;

static long unwind_read_user(void *to, __u32 bytes, __u64 address)
{
	return current->read(current->context, to, bytes, address);
}

static struct unwind_chunk *unwind_chunk_of(__u32 word)
{
	return unwind_store_chunk(current->store, word);
}

static __u32 unwind_marker_get(__u64 key)
{
	const struct marker *m = &current->markers[hash_mix(key) % MARKER_SLOTS];

	return m->key == key ? m->marker : UNWIND_MARKER_NONE;
}

static void unwind_marker_set(__u64 key, __u32 marker)
{
	current->markers[hash_mix(key) % MARKER_SLOTS] = (struct marker){key, marker};
}

#define UNWIND_MODE current->mode
#include "bpf/unwind.h"

int unwind_replay_open(struct unwind_replay **out, const struct unwind_store *store,
		       enum unwind_mode mode, unwind_replay_read read, void *context)
{
	struct unwind_replay *r = calloc(1, sizeof(*r));

	*out = r;
	if (!r)
		return -ENOMEM;
	r->store = store;
	r->mode = mode;
	r->read = read;
	r->context = context;
	return 0;
}

void unwind_replay_close(struct unwind_replay *r)
{
	free(r);
}

void unwind_replay_walk(struct unwind_replay *r, struct unwind_state *s)
{
	int rc;

	current = r;
	unwind_start(s);
	do {
		rc = unwind_frame(s);
		if (rc == UNWIND_BLIND)
			rc = unwind_blind(s);
	} while (rc == UNWIND_MORE);
	unwind_finish(s);
	current = NULL;
}

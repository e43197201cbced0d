/* SPDX-License-Identifier: Apache-2.0
 * Columns of one record array have very different statistics, and zstd uses one entropy table per
 * block of up to 128 KiB. So a block ends where a large column ends. It stays one frame: matches
 * still reach across columns, and the reader needs no index. */
#include "wire/pack.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <zstd.h>

/* Columns contain few matches: a higher level gains 1% on 100 KB, for ten times the time. */
#define PACK_LEVEL_QUICK 1
#define PACK_LEVEL	 3
#define PACK_LEVEL_SMALL 12
#define PACK_SMALL_BYTES (128u << 10)
/* A table costs about 60 bytes, or less where it has few entries. */
#define PACK_OWN_BLOCK_BYTES 512
#define PACK_OWN_SMALL_BYTES 128

struct contexts {
	ZSTD_CCtx *c;
	ZSTD_DCtx *d;
};

static pthread_key_t contexts_key;
static pthread_once_t contexts_once = PTHREAD_ONCE_INIT;
static bool contexts_have_key;

static void contexts_free(void *p)
{
	struct contexts *x = p;

	ZSTD_freeCCtx(x->c);
	ZSTD_freeDCtx(x->d);
	free(x);
}

static void contexts_make_key(void)
{
	contexts_have_key = !pthread_key_create(&contexts_key, contexts_free);
}

static struct contexts *contexts_get(void)
{
	struct contexts *x;

	pthread_once(&contexts_once, contexts_make_key);
	if (!contexts_have_key)
		return NULL;
	x = pthread_getspecific(contexts_key);
	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->c = ZSTD_createCCtx();
	x->d = ZSTD_createDCtx();
	if (!x->c || !x->d || pthread_setspecific(contexts_key, x)) {
		contexts_free(x);
		return NULL;
	}
	return x;
}

static int level_of(enum pack_effort effort, size_t total)
{
	if (effort == PACK_QUICK)
		return PACK_LEVEL_QUICK;
	return total > PACK_SMALL_BYTES ? PACK_LEVEL : PACK_LEVEL_SMALL;
}

int pack_write(const struct pack_part *parts, size_t count, enum pack_effort effort,
	       struct buf *out)
{
	size_t own = effort == PACK_QUICK ? PACK_OWN_BLOCK_BYTES : PACK_OWN_SMALL_BYTES;
	struct contexts *x = contexts_get();
	size_t total = 0, room, pending = 0;
	ZSTD_outBuffer to = {0};

	if (!x)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		total += parts[i].bytes;
	/* every forced block may add a header */
	room = ZSTD_compressBound(total) + 64 + 8 * count;
	if (room > out->max_bytes - out->bytes)
		room = out->max_bytes - out->bytes;
	to.dst = buf_reserve(out, room);
	if (!to.dst)
		return -ENOMEM;
	to.size = room;
	ZSTD_CCtx_reset(x->c, ZSTD_reset_session_and_parameters);
	ZSTD_CCtx_setParameter(x->c, ZSTD_c_compressionLevel, level_of(effort, total));
	ZSTD_CCtx_setParameter(x->c, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setPledgedSrcSize(x->c, total);
	for (size_t i = 0; i <= count; i++) {
		ZSTD_inBuffer in = {i < count ? parts[i].data : NULL,
				    i < count ? parts[i].bytes : 0, 0};
		ZSTD_EndDirective how = ZSTD_e_continue;
		size_t left;

		if (i == count)
			how = ZSTD_e_end;
		else if (!in.size)
			continue;
		else if ((pending += in.size) >= own)
			how = ZSTD_e_flush;
		do {
			left = ZSTD_compressStream2(x->c, &to, &in, how);
			if (ZSTD_isError(left))
				return -ENOMEM;
			if ((left || in.pos < in.size) && to.pos == to.size)
				return -EMSGSIZE;
		} while (in.pos < in.size || (how != ZSTD_e_continue && left));
		if (how == ZSTD_e_flush)
			pending = 0;
	}
	out->bytes += to.pos;
	return 0;
}

int pack_size(const void *data, size_t bytes, size_t max_bytes, size_t *out)
{
	unsigned long long size = ZSTD_getFrameContentSize(data, bytes);

	if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR)
		return -EPROTO;
	if (size > max_bytes)
		return -EMSGSIZE;
	*out = (size_t)size;
	return 0;
}

int pack_read(const void *data, size_t bytes, size_t max_bytes, uint8_t **out, size_t *out_bytes)
{
	struct contexts *x = contexts_get();
	size_t size = 0, got;
	uint8_t *p;
	int err = pack_size(data, bytes, max_bytes, &size);

	if (err)
		return err;
	/* exactly one frame: a second one would have unbounded content */
	got = ZSTD_findFrameCompressedSize(data, bytes);
	if (ZSTD_isError(got) || got != bytes)
		return -EPROTO;
	if (!x)
		return -ENOMEM;
	p = malloc(size + 1);
	if (!p)
		return -ENOMEM;
	got = ZSTD_decompressDCtx(x->d, p, size, data, bytes);
	if (ZSTD_isError(got) || got != size) {
		free(p);
		return -EPROTO;
	}
	p[size] = 0;
	*out = p;
	*out_bytes = size;
	return 0;
}

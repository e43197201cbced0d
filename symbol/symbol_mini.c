/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_mini.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "base/all_bytes.h"
#include "base/limits.h"

#define CHUNK_BYTES (64u << 10)

struct chunks {
	uint8_t in[CHUNK_BYTES], out[CHUNK_BYTES];
};

static int unpack(const struct symbol_elf *e, int fd, lzma_stream *z, struct chunks *c)
{
	const struct symbol_section *s = &e->sections[e->mini];
	uint64_t at = 0, written = 0, max = s->bytes * LIMIT_SYMBOL_MINI_RATIO;
	lzma_ret rc = LZMA_OK;

	if (max > LIMIT_SYMBOL_MINI_BYTES)
		max = LIMIT_SYMBOL_MINI_BYTES;
	while (rc == LZMA_OK) {
		size_t n;
		int err;

		if (!z->avail_in && at < s->bytes) {
			n = s->bytes - at < CHUNK_BYTES ? s->bytes - at : CHUNK_BYTES;
			err = all_bytes_read(e->fd, c->in, n, s->offset + at);
			if (err)
				return err;
			z->next_in = c->in;
			z->avail_in = n;
			at += n;
		}
		z->next_out = c->out;
		z->avail_out = CHUNK_BYTES;
		rc = lzma_code(z, at == s->bytes ? LZMA_FINISH : LZMA_RUN);
		n = CHUNK_BYTES - z->avail_out;
		written += n;
		if (written > max)
			return -EBADMSG;
		err = all_bytes_write(fd, c->out, n);
		if (err)
			return err;
	}
	return rc == LZMA_STREAM_END ? 0 : rc == LZMA_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

int symbol_mini_unpack(const struct symbol_elf *e, int fd, struct symbol_elf *mini)
{
	lzma_stream z = LZMA_STREAM_INIT;
	struct chunks *c;
	const char *why;
	int err;

	if (!e->mini)
		return -ENOENT;
	c = malloc(sizeof(*c));
	if (!c || lzma_stream_decoder(&z, LIMIT_SYMBOL_MINI_BYTES, 0) != LZMA_OK) {
		free(c);
		return -ENOMEM;
	}
	err = unpack(e, fd, &z, c);
	lzma_end(&z);
	free(c);
	if (!err)
		err = symbol_elf_init(mini, fd, &why);
	if (!err && !mini->symtab) {
		symbol_elf_fini(mini);
		err = -EBADMSG;
	}
	return err == -ENOEXEC ? -EBADMSG : err;
}

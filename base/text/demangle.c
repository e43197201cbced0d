/* SPDX-License-Identifier: Apache-2.0
 * demangle.c - see demangle.h. With a callback, libiberty allocates nothing, so jumping out of it
 * leaks nothing. */
#include "base/text/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

struct sink {
	char *out;
	size_t room, used; /* room: without the zero byte */
	jmp_buf full;
};

static void put(const char *text, size_t bytes, void *arg)
{
	struct sink *s = arg;
	size_t fits = bytes < s->room - s->used ? bytes : s->room - s->used;

	memcpy(s->out + s->used, text, fits);
	s->used += fits;
	if (fits < bytes)
		longjmp(s->full, 1);
}

static bool is_done(struct sink *s, const char *name, int options)
{
	if (setjmp(s->full))
		return true;
	if (rust_demangle_callback(name, options, put, s))
		return true;
	s->used = 0;
	return cplus_demangle_v3_callback(name, options, put, s);
}

bool demangle(const char *name, bool parameters, char *out, size_t bytes)
{
	struct sink s = {.out = out, .room = bytes - 1};

	if (!bytes || name[0] != '_' ||
	    !is_done(&s, name, DMGL_ANSI | (parameters ? DMGL_PARAMS : 0)))
		return false;
	out[s.used] = '\0';
	return true;
}

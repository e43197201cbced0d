/* SPDX-License-Identifier: Apache-2.0
 * kernel_name.c - see kernel_name.h. Demangled names are scanned, not parsed: brackets nest, except in
 * "operator<", "->" and "(anonymous namespace)". */
#include "model/kernel_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/text/demangle.h"
#include "base/text/text.h"

#define ANONYMOUS "(anonymous namespace)"

struct scan {
	char demangled[LIMIT_NAME_BYTES + 1];
	const char *text, *at;
	const char *begin; /* of the name, after a return type */
	char base[LIMIT_NAME_BYTES + 1];
	size_t base_bytes;
	struct {
		const char *at;
		size_t bytes;
	} arg[KERNEL_NAME_ARGS_MAX];
	uint32_t arg_count;
};

static bool is_operator(const struct scan *s)
{
	return s->base_bytes >= 8 && !memcmp(s->base + s->base_bytes - 8, "operator", 8);
}

static void put_arg(struct scan *s, const char *from, const char *to)
{
	while (from < to && *from == ' ')
		from++;
	while (from < to && to[-1] == ' ')
		to--;
	if (from == to)
		return;
	if (s->arg_count == KERNEL_NAME_ARGS_MAX) { /* the last argument takes the rest */
		s->arg[KERNEL_NAME_ARGS_MAX - 1].bytes =
		    (size_t)(to - s->arg[KERNEL_NAME_ARGS_MAX - 1].at);
		return;
	}
	s->arg[s->arg_count].at = from;
	s->arg[s->arg_count++].bytes = (size_t)(to - from);
}

/* Reads from after '<' to after its '>', or to the end of the name, because traces cut long
 * names. */
static void take_arguments(struct scan *s)
{
	const char *from = s->at;
	unsigned depth = 1;

	for (; *s->at; s->at++) {
		char c = *s->at;

		if (strchr("<([{", c)) {
			depth++;
		} else if (strchr(")]}", c) || (c == '>' && s->at[-1] != '-')) {
			if (--depth)
				continue;
			put_arg(s, from, s->at);
			s->at++;
			return;
		} else if (c == ',' && depth == 1) {
			put_arg(s, from, s->at);
			from = s->at + 1;
		}
	}
	put_arg(s, from, s->at);
}

static bool looks_like_cxx(const char *text)
{
	return strchr(text, '<') || strstr(text, "::") || (strchr(text, '(') && strchr(text, ')'));
}

/* Reads the arguments of a name before '<': in C++ "f<T>", in Rust "f::<T>". */
static void take_generic(struct scan *s)
{
	if (s->base_bytes > 2 && !memcmp(s->base + s->base_bytes - 2, "::", 2))
		s->base_bytes -= 2;
	s->at++;
	take_arguments(s);
}

/* Rust's "<T as Trait>::method": the bracket is a part of the name. */
static bool take_qualified(struct scan *s)
{
	unsigned depth = 0;

	do {
		if (!*s->at || s->base_bytes + 1 >= sizeof(s->base))
			return false;
		depth += *s->at == '<';
		depth -= *s->at == '>' && s->at[-1] != '-';
		s->base[s->base_bytes++] = *s->at++;
	} while (depth);
	return true;
}

/* false: the name is not understood. */
static bool scan_name(struct scan *s)
{
	for (s->begin = s->at = s->text; *s->at;) {
		if (!strncmp(s->at, ANONYMOUS, strlen(ANONYMOUS))) {
			if (s->base_bytes + strlen(ANONYMOUS) >= sizeof(s->base))
				return false;
			memcpy(s->base + s->base_bytes, ANONYMOUS, strlen(ANONYMOUS));
			s->base_bytes += strlen(ANONYMOUS);
			s->at += strlen(ANONYMOUS);
		} else if (*s->at == '<' && !s->base_bytes) {
			if (!take_qualified(s))
				return false;
		} else if (*s->at == '<' && !is_operator(s)) {
			take_generic(s);
		} else if (*s->at == '(' && !is_operator(s)) {
			break; /* the parameters */
		} else if (*s->at == ' ') {
			if (s->at[1] == '[' || s->at[1] == '(')
				break;	   /* " [clone .x]" */
			s->base_bytes = 0; /* a return type */
			s->arg_count = 0;
			s->begin = ++s->at;
		} else {
			if (s->base_bytes + 1 >= sizeof(s->base))
				return false;
			s->base[s->base_bytes++] = *s->at++;
		}
	}
	s->base[s->base_bytes] = '\0';
	return s->base_bytes > 0;
}

static int plain(struct kernel_name *k, const char *raw)
{
	k->full = strdup(raw);
	k->base = strdup(raw);
	return k->full && k->base ? 0 : -ENOMEM;
}

int kernel_name_parse(struct kernel_name *k, const char *raw)
{
	struct scan *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	memset(k, 0, sizeof(*k));
	if (!s)
		return -ENOMEM;
	k->mangled = demangle(raw, false, s->demangled, sizeof(s->demangled));
	s->text = k->mangled ? s->demangled : raw;
	if (strlen(s->text) > LIMIT_NAME_BYTES || !looks_like_cxx(s->text) ||
	    !strncmp(raw, "Mem", 3) || !scan_name(s)) {
		err = plain(k, s->text);
		goto done;
	}
	k->base = strdup(s->base);
	k->full = strndup(s->begin, (size_t)(s->at - s->begin));
	if (!k->base || !k->full)
		goto done;
	for (; k->arg_count < s->arg_count; k->arg_count++) {
		k->args[k->arg_count] =
		    strndup(s->arg[k->arg_count].at, s->arg[k->arg_count].bytes);
		if (!k->args[k->arg_count])
			goto done;
	}
	err = 0;
done:
	free(s);
	if (err)
		kernel_name_free(k);
	return err;
}

void kernel_name_free(struct kernel_name *k)
{
	for (uint32_t i = 0; i < k->arg_count; i++)
		free(k->args[i]);
	free(k->full);
	free(k->base);
	memset(k, 0, sizeof(*k));
}

size_t kernel_name_bytes(const char *name)
{
	const char *at = strstr(name, "<<<");

	return at ? (size_t)(at - name) : strlen(name);
}

/* The name's part before a launch configuration, taken apart. */
static int parse_before(struct kernel_name *k, const char *name)
{
	char *raw = strndup(name, kernel_name_bytes(name));
	int err = raw ? kernel_name_parse(k, raw) : -ENOMEM;

	free(raw);
	return err;
}

const char *kernel_name_text(const char *name, char *out, size_t bytes)
{
	struct kernel_name k = {0};

	if (name[0] != '_' || parse_before(&k, name) || !k.mangled)
		text_copy(out, bytes, name);
	else
		snprintf(out, bytes, "%s%s", k.full, name + kernel_name_bytes(name));
	kernel_name_free(&k);
	return out;
}

const char *kernel_name_short(const char *name, char *out, size_t bytes)
{
	kernel_name_text(name, out, bytes);
	out[kernel_name_bytes(out)] = '\0';
	return out;
}

const char *kernel_name_family(const char *name, char *out, size_t bytes)
{
	struct kernel_name k;
	size_t used = 0;
	bool cxx;

	text_copy(out, bytes, name);
	if (!bytes || parse_before(&k, name))
		return out;
	cxx = k.mangled || strchr(k.full, '<') || strstr(k.full, "::");
	for (const char *p = k.base; *p && used + 1 < bytes; p++) {
		bool digit = !cxx && *p >= '0' && *p <= '9';

		if (!digit)
			out[used++] = *p;
		else if (!used || out[used - 1] != '#')
			out[used++] = '#';
	}
	out[used] = '\0';
	kernel_name_free(&k);
	return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/fields.h"

#include <errno.h>
#include <string.h>

void fields_demand(struct fields *f, bool allowed)
{
	if (!f->err && !allowed)
		f->err = f->out ? -EINVAL : -EPROTO;
}

void fields_u64(struct fields *f, uint64_t *v, uint64_t max)
{
	uint64_t got = f->out ? *v : 0;

	if (!f->out && !f->err)
		f->err = buf_read_varint(f->data, f->bytes, &f->pos, &got);
	fields_demand(f, got <= max);
	if (!f->out)
		*v = f->err ? 0 : got;
	else if (!f->err)
		buf_varint(f->out, got);
}

void fields_u32(struct fields *f, uint32_t *v, uint32_t max)
{
	uint64_t wide = *v;

	fields_u64(f, &wide, max);
	if (!f->out)
		*v = (uint32_t)wide;
}

void fields_change(struct fields *f, uint64_t *v, uint64_t before)
{
	int64_t d = 0;

	if (!f->out && !f->err)
		f->err = buf_read_svarint(f->data, f->bytes, &f->pos, &d);
	if (!f->out)
		*v = f->err ? 0 : before + (uint64_t)d;
	else if (!f->err)
		buf_svarint(f->out, (int64_t)(*v - before));
}

void fields_change32(struct fields *f, uint32_t *v, uint32_t before)
{
	uint64_t wide = *v;

	fields_change(f, &wide, before);
	if (!f->out)
		*v = (uint32_t)wide;
}

/* The next bytes; NULL: too few. */
static const uint8_t *take(struct fields *f, size_t bytes)
{
	fields_demand(f, bytes <= f->bytes - f->pos);
	if (f->err)
		return NULL;
	f->pos += bytes;
	return f->data + f->pos - bytes;
}

void fields_fixed64(struct fields *f, uint64_t *v)
{
	const uint8_t *from = f->out ? NULL : take(f, 8);
	uint8_t to[8];

	if (!f->out)
		*v = 0;
	for (int i = 0; i < 8; i++) {
		if (from)
			*v |= (uint64_t)from[i] << 8 * i;
		to[i] = (uint8_t)(*v >> 8 * i);
	}
	if (f->out && !f->err)
		buf_append(f->out, to, sizeof(to));
}

void fields_bytes(struct fields *f, const void **p, size_t *bytes, size_t max)
{
	uint64_t n = *bytes;

	fields_u64(f, &n, max);
	if (!f->out) {
		*p = take(f, (size_t)n);
		*bytes = *p ? (size_t)n : 0;
	} else if (!f->err) {
		buf_append(f->out, *p, *bytes);
	}
}

void fields_text(struct fields *f, const char **p, size_t *bytes, size_t max)
{
	const void *data = *p;

	fields_bytes(f, &data, bytes, max);
	fields_demand(f, !*bytes || !memchr(data, 0, *bytes));
	*p = data;
}

int fields_end(const struct fields *f)
{
	if (f->err)
		return f->err;
	if (f->out)
		return f->out->failed ? -ENOMEM : 0;
	return f->pos == f->bytes ? 0 : -EPROTO;
}

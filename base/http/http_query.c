/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_query.h"

#include <string.h>

#include "base/text.h"

static const char *keep(struct http_query *q, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *to = q->text + q->used;

	if (bytes > sizeof(q->text) - q->used) {
		q->cut = true;
		return "";
	}
	memcpy(to, text, bytes);
	q->used += (uint32_t)bytes;
	return to;
}

void http_query_init(struct http_query *q, const char *path)
{
	q->count = q->used = 0;
	q->cut = false;
	q->path = keep(q, path);
}

void http_query_add(struct http_query *q, const char *name, const char *value)
{
	if (q->count == HTTP_QUERY_ARGS) {
		q->cut = true;
		return;
	}
	q->args[q->count].name = keep(q, name);
	q->args[q->count++].value = keep(q, value ? value : "");
}

const char *http_query_get(const struct http_query *q, const char *name)
{
	for (uint32_t i = 0; i < q->count; i++)
		if (!strcmp(q->args[i].name, name))
			return q->args[i].value;
	return NULL;
}

bool http_query_number(const struct http_query *q, const char *name, uint64_t max, uint64_t *out)
{
	const char *text = http_query_get(q, name);

	return !text || text_number(text, max, out);
}

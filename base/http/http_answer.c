/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_answer.h"

#include "base/json_text.h"

void http_answer_init(struct http_answer *a, size_t max_bytes)
{
	*a = (struct http_answer){.status = 200, .type = "application/json", .allow = "GET, HEAD"};
	buf_init(&a->body, max_bytes);
}

void http_answer_error(struct http_answer *a, unsigned status, const char *why)
{
	a->status = status;
	a->type = "application/json";
	buf_clear(&a->body);
	json_text_append(&a->body, "{\"error\":", why);
	buf_puts(&a->body, "}\n");
}

void http_answer_text(struct http_answer *a, const char *type, const char *text)
{
	a->type = type;
	buf_puts(&a->body, text);
}

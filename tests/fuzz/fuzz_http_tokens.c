/* SPDX-License-Identifier: Apache-2.0
 * fuzz_http_tokens - a file of tokens. Whatever it says: it is refused with a line and a reason that has
 * no token, or each of its tokens gives one user, whose rights fit the role. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/http/http_tokens.h"
#include "tests/fuzz/fuzz_budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Each token that stands as it is: the third word of a line. */
static void look_up(const struct http_tokens *t, char *text)
{
	char *save, *line, *end;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *word[4] = {NULL}, *at = line;
		const struct http_user *u;
		int n = 0;

		line[strcspn(line, "#")] = '\0';
		for (; n < 4 && *(at += strspn(at, " \t\r")); at = end) {
			end = at + strcspn(at, " \t\r");
			word[n++] = at;
			if (*end)
				*end++ = '\0';
		}
		if (!n || !strncmp(word[2], "sha256:", 7))
			continue;
		u = http_tokens_find(t, word[2]);
		CHECK(u && !strncmp(u->name, "token ", 6) && !strcmp(u->name + 6, word[1]));
		CHECK(!strcmp(http_user_role_name(u->roles), word[0]));
		CHECK(u->all ==
		      (u->roles == HTTP_ROLES_ALL || (n > 3 && !strcmp(word[3], "uid=*"))));
		CHECK(u->has_uid == (u->roles == HTTP_ROLE_READ && !u->all));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char why[256] = "", *text = malloc(bytes + 1);
	struct http_tokens *t = NULL;
	int err;

	CHECK(text);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	err = http_tokens_parse(&t, text, bytes, why, sizeof(why));
	CHECK(!err == !*why);
	if (err)
		CHECK(!strncmp(why, "line ", 5));
	fuzz_budget_check_begin();
	if (!err)
		look_up(t, text);
	fuzz_budget_check_end();
	http_tokens_free(t);
	free(text);
	return 0;
}

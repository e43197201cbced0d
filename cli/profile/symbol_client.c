/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile/symbol_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text/text.h"

#define ADDRESSES 4096u /* per request */
#define OBJECTS	  LIMIT_API_SYMBOL_OBJECTS

struct asking {
	const struct client *client;
	symbol_client_named *named;
	void *arg;
};

ORDER_BY(by_place, struct symbol_want,
	 ORDER_UP(answered) ?: memcmp(a->id, b->id, sizeof(a->id)) ?: ORDER_UP(id_bytes)
	 ?: ORDER_UP(address));

static bool same_id(const struct symbol_want *x, const struct symbol_want *y)
{
	return x->id_bytes == y->id_bytes && !memcmp(x->id, y->id, x->id_bytes);
}

/* A request for the first of count wants; *asked: how many it covers. */
static json_t *question(const struct symbol_want *w, size_t count, size_t *asked)
{
	json_t *objects = json_array(), *addresses = NULL;
	size_t i;

	for (i = 0; i < count && i < ADDRESSES; i++) {
		char id[2 * SYMBOL_ID_MAX + 1];

		if (!i || !same_id(&w[i - 1], &w[i])) {
			if (json_array_size(objects) == OBJECTS)
				break;
			text_hex(w[i].id, w[i].id_bytes, id);
			addresses = json_array();
			json_array_append_new(objects, json_pack("{s:s, s:o}", "build_id", id,
								 "addresses", addresses));
		}
		json_array_append_new(addresses, json_exact(w[i].address));
	}
	*asked = i;
	return json_pack("{s:o}", "objects", objects);
}

static int take_name(const struct asking *a, struct symbol_want *w, const json_t *j)
{
	const char *function = jsonget_text(j, "function"), *raw = jsonget_text(j, "raw");
	struct symbol_name name = {.function = function,
				   .raw = *raw ? raw : function,
				   .begin = jsonget_unsigned(j, "begin"),
				   .size = jsonget_unsigned(j, "size"),
				   .proven = jsonget_true(j, "proven")};

	w->answered = true;
	if (json_is_null(j))
		return 0;
	/* the symbol must cover the address: never a neighbour's name */
	if (!*function || w->address < name.begin || w->address - name.begin >= name.size)
		return -EPROTO;
	return a->named(a->arg, w, &name);
}

/* Reads the answer about one file with count wants. Returns how many are answered, or -errno. */
static int settle(const struct asking *a, struct symbol_want *w, size_t count, const json_t *object)
{
	const char *status = jsonget_text(object, "status");
	const json_t *names = json_object_get(object, "names");
	size_t n = json_array_size(names);
	char id[2 * SYMBOL_ID_MAX + 1];

	text_hex(w[0].id, w[0].id_bytes, id);
	if (!*status || strcmp(jsonget_text(object, "build_id"), id) || n > count)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		int err = take_name(a, &w[i], json_array_get(names, i));

		if (err)
			return err;
	}
	if (!strcmp(status, "cut"))
		return (int)n;
	if (!strcmp(status, "ok"))
		return n == count ? (int)n : -EPROTO;
	for (size_t i = n; i < count; i++)
		w[i].answered = true; /* no such file */
	return (int)count;
}

static int take_answer(const struct asking *a, struct symbol_want *w, size_t count,
		       const json_t *objects)
{
	size_t at = 0, i;
	json_t *object;
	int settled = 0;

	json_array_foreach (objects, i, object) {
		size_t n = 0;
		int done;

		while (at + n < count && same_id(&w[at], &w[at + n]))
			n++;
		done = n ? settle(a, w + at, n, object) : -EPROTO;
		if (done < 0)
			return done;
		settled += done;
		at += n;
	}
	return at == count ? settled : -EPROTO;
}

static int ask(const struct asking *a, struct symbol_want *w, size_t count, size_t *asked,
	       struct client_error *e)
{
	json_t *q = question(w, count, asked), *answer;
	int err = q ? client_post(a->client, "/api/v1/symbolize", q, &answer, e) : -ENOMEM;

	json_decref(q);
	if (err)
		return err;
	err = take_answer(a, w, *asked, json_object_get(answer, "objects"));
	json_decref(answer);
	if (err == -EPROTO)
		snprintf(e->why, sizeof(e->why), "%s: the answer does not fit the request",
			 a->client->url);
	return err;
}

int symbol_client_ask(const struct client *c, struct symbol_want *wants, size_t count,
		      symbol_client_named *named, void *arg, struct client_error *e)
{
	const struct asking a = {c, named, arg};
	size_t open = count, asked, settled;
	int n = 0;

	do { /* again for those without room in the answer */
		ORDER_SORT(wants, count, by_place);
		settled = 0;
		for (size_t at = 0; at < open && n >= 0; at += asked) {
			n = ask(&a, wants + at, open - at, &asked, e);
			settled += n > 0 ? (size_t)n : 0;
		}
		open -= settled;
	} while (n >= 0 && settled && open);
	return n < 0 ? n : 0;
}

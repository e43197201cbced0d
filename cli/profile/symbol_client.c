/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile/symbol_client.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"
#include "base/text/text.h"
#include "cli/text/intern.h"
#include "symbol/symbol_content.h"

#define ID_BYTES  SYMBOL_ID_MAX
#define ADDRESSES 4096u /* per request */
#define OBJECTS	  LIMIT_API_SYMBOL_OBJECTS

enum state { WANTED, NAMED, NO_SYMBOL, NO_FILE };

struct place {
	uint8_t id[ID_BYTES];
	uint8_t id_bytes;
	bool proven;
	uint8_t state; /* enum state */
	uint64_t address, begin, size;
	char *function, *raw; /* raw: NULL if the same */
};

struct symbol_client {
	const struct client *client;
	struct intern keys;
	struct place *places; /* [keys.count] */
	size_t room;
};

int symbol_client_open(struct symbol_client **out, const struct client *c)
{
	struct symbol_client *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->client = c;
	*out = s;
	return 0;
}

void symbol_client_close(struct symbol_client *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->keys.count; i++) {
		free(s->places[i].function);
		free(s->places[i].raw);
	}
	intern_fini(&s->keys);
	free(s->places);
	free(s);
}

/* ---- the table ---- */

struct key {
	uint64_t address;
	uint8_t id[ID_BYTES];
};

/* How many of its bytes count. */
static size_t key_make(struct key *k, const uint8_t *build_id, size_t build_id_bytes,
		       uint64_t address)
{
	size_t id_bytes = symbol_content_cut(build_id_bytes);

	k->address = address;
	memcpy(k->id, build_id, id_bytes);
	return offsetof(struct key, id) + id_bytes;
}

int symbol_client_want(struct symbol_client *s, const uint8_t *build_id, size_t build_id_bytes,
		       uint64_t address)
{
	struct place *p;
	struct key k;
	int64_t at;

	if (build_id_bytes < 2 || address > INT64_MAX)
		return build_id_bytes < 2 ? -EINVAL : 0;
	if (ROOM_FOR(s->places, s->room, s->keys.count + 1ull))
		return -ENOMEM;
	p = &s->places[s->keys.count];
	*p = (struct place){.address = address, .state = WANTED};
	p->id_bytes = (uint8_t)symbol_content_cut(build_id_bytes);
	memcpy(p->id, build_id, p->id_bytes);
	at = intern_bytes(&s->keys, &k, key_make(&k, build_id, build_id_bytes, address),
			  LIMIT_STACK_FRAMES);
	return at < 0 ? (int)at : 0;
}

int symbol_client_find(const struct symbol_client *s, const uint8_t *build_id,
		       size_t build_id_bytes, uint64_t address, struct symbol_name *out)
{
	const struct place *p;
	struct key k;
	int64_t at;

	if (build_id_bytes < 2)
		return -ENODATA;
	at = intern_find(&s->keys, &k, key_make(&k, build_id, build_id_bytes, address));
	if (at < 0)
		return -ENODATA;
	p = &s->places[at];
	if (p->state != NAMED)
		return p->state == NO_SYMBOL ? -ENOENT : -ENODATA;
	*out = (struct symbol_name){p->function, p->raw ? p->raw : p->function, p->begin, p->size,
				    p->proven};
	return 0;
}

/* ---- one request ---- */

ORDER_BY(compare_places, const struct place *,
	 memcmp((*a)->id, (*b)->id, ID_BYTES) ?: ORDER((*a)->id_bytes, (*b)->id_bytes)
	 ?: ORDER((*a)->address, (*b)->address));

static bool same_id(const struct place *x, const struct place *y)
{
	return x->id_bytes == y->id_bytes && !memcmp(x->id, y->id, x->id_bytes);
}

/* The question about the first of count places; *asked says how many they are. */
static json_t *question(struct place *const *places, size_t count, size_t *asked)
{
	json_t *objects = json_array(), *addresses = NULL;
	size_t i;

	for (i = 0; i < count && i < ADDRESSES; i++) {
		char id[2 * ID_BYTES + 1];

		if (!i || !same_id(places[i - 1], places[i])) {
			if (json_array_size(objects) == OBJECTS)
				break;
			text_hex(places[i]->id, places[i]->id_bytes, id);
			addresses = json_array();
			json_array_append_new(objects, json_pack("{s:s, s:o}", "build_id", id,
								 "addresses", addresses));
		}
		json_array_append_new(addresses, json_exact(places[i]->address));
	}
	*asked = i;
	return json_pack("{s:o}", "objects", objects);
}

static int set_name(struct place *p, const json_t *j)
{
	const char *function = json_string_value(json_object_get(j, "function"));
	const char *raw = json_string_value(json_object_get(j, "raw"));

	if (json_is_null(j)) {
		p->state = NO_SYMBOL;
		return 0;
	}
	if (!function || !*function)
		return -EPROTO;
	p->function = strdup(function);
	p->raw = raw && *raw ? strdup(raw) : NULL;
	if (!p->function)
		return -ENOMEM;
	p->begin = jsonget_unsigned(j, "begin");
	p->size = jsonget_unsigned(j, "size");
	p->proven = json_is_true(json_object_get(j, "proven"));
	/* the symbol must cover the address: never a neighbour's name */
	if (p->address < p->begin || p->address - p->begin >= p->size) {
		free(p->function);
		free(p->raw);
		p->function = p->raw = NULL;
		return -EPROTO;
	}
	p->state = NAMED;
	return 0;
}

/* Reads the answer about one file with count places. Returns how many are answered, or -errno. */
static int settle(struct place *const *places, size_t count, const json_t *object)
{
	const char *status = json_string_value(json_object_get(object, "status"));
	const json_t *names = json_object_get(object, "names");
	size_t n = json_array_size(names);
	char id[2 * ID_BYTES + 1];
	const char *given = json_string_value(json_object_get(object, "build_id"));

	text_hex(places[0]->id, places[0]->id_bytes, id);
	if (!status || !given || strcmp(given, id) || n > count)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		int err = set_name(places[i], json_array_get(names, i));

		if (err)
			return err;
	}
	if (!strcmp(status, "cut"))
		return (int)n;
	if (!strcmp(status, "ok"))
		return n == count ? (int)n : -EPROTO;
	for (size_t i = n; i < count; i++)
		places[i]->state = NO_FILE;
	return (int)count;
}

static int take_answer(struct place *const *places, size_t count, const json_t *objects)
{
	size_t at = 0, i;
	json_t *object;
	int settled = 0;

	json_array_foreach (objects, i, object) {
		size_t n = 0;
		int done;

		while (at + n < count && same_id(places[at], places[at + n]))
			n++;
		done = n ? settle(places + at, n, object) : -EPROTO;
		if (done < 0)
			return done;
		settled += done;
		at += n;
	}
	return at == count ? settled : -EPROTO;
}

static int ask(struct symbol_client *s, struct place *const *places, size_t count, size_t *asked,
	       struct client_error *e)
{
	json_t *q = question(places, count, asked), *answer;
	int err = q ? client_post(s->client, "/api/v1/symbolize", q, &answer, e) : -ENOMEM;

	json_decref(q);
	if (err)
		return err;
	err = take_answer(places, *asked, json_object_get(answer, "objects"));
	json_decref(answer);
	if (err == -EPROTO)
		snprintf(e->why, sizeof(e->why), "%s: the answer does not fit the request",
			 s->client->url);
	return err;
}

int symbol_client_fetch(struct symbol_client *s, struct client_error *e)
{
	struct place **places = malloc((s->keys.count + 1ull) * sizeof(*places));
	size_t count, asked, settled;
	int n = places ? 0 : -ENOMEM;

	*e = (struct client_error){.remedy = ""};
	do { /* again for places without room in the answer */
		count = settled = 0;
		for (uint32_t i = 0; i < s->keys.count && n >= 0; i++)
			if (s->places[i].state == WANTED)
				places[count++] = &s->places[i];
		ORDER_SORT(places, count, compare_places);
		for (size_t at = 0; at < count && n >= 0; at += asked) {
			n = ask(s, places + at, count - at, &asked, e);
			settled += n > 0 ? (size_t)n : 0;
		}
	} while (n >= 0 && settled && settled < count);
	free(places);
	return n < 0 ? n : 0;
}

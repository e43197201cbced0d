/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile/pprof_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"
#include "base/text/text.h"
#include "cli/profile.pb-c.h"
#include "cli/profile/folded.h"
#include "model/stack.h"
#include "render/term.h"
#include "cli/trace/trace_reader.h"

typedef Sysom__Pprof__Profile profile_t;
typedef Sysom__Pprof__Location location_t;
typedef Sysom__Pprof__Function function_t;

struct reader {
	const profile_t *p;
	location_t **location; /* by id */
	function_t **function;
	char **name;	     /* of function[i], in the form of folded stacks */
	int weight, samples; /* indices of values; samples -1: none */
};

static const char *text(const struct reader *r, int64_t i)
{
	return i >= 0 && (uint64_t)i < r->p->n_string_table ? r->p->string_table[i] : "";
}

ORDER_BY(by_location, location_t *, ORDER((*a)->id, (*b)->id));

ORDER_BY(by_function, function_t *, ORDER((*a)->id, (*b)->id));

static char *name_of(const struct reader *r, const function_t *f)
{
	const char *name = text(r, f->name), *file = text(r, f->filename);
	int kind = !strcmp(file, "[kernel]") ? STACK_FRAME_KERNEL
		   : text_ends(file, ".py")  ? STACK_FRAME_PYTHON
					     : STACK_FRAME_NATIVE;

	return folded_name(kind, *name ? name : "[unknown]", file);
}

static int index_tables(struct reader *r)
{
	r->location = calloc(r->p->n_location + 1, sizeof(*r->location));
	r->function = calloc(r->p->n_function + 1, sizeof(*r->function));
	r->name = calloc(r->p->n_function + 1, sizeof(*r->name));
	if (!r->location || !r->function || !r->name)
		return -ENOMEM;
	for (size_t i = 0; i < r->p->n_location; i++)
		r->location[i] = r->p->location[i];
	for (size_t i = 0; i < r->p->n_function; i++)
		r->function[i] = r->p->function[i];
	qsort(r->location, r->p->n_location, sizeof(*r->location), by_location);
	qsort(r->function, r->p->n_function, sizeof(*r->function), by_function);
	for (size_t i = 0; i < r->p->n_function; i++) {
		r->name[i] = name_of(r, r->function[i]);
		if (!r->name[i])
			return -ENOMEM;
	}
	return 0;
}

static void choose_values(struct reader *r)
{
	const char *standard = text(r, r->p->default_sample_type);
	bool cpu = false;

	r->weight = (int)r->p->n_sample_type - 1;
	r->samples = -1;
	for (size_t i = 0; i < r->p->n_sample_type; i++) {
		const char *type = text(r, r->p->sample_type[i]->type);

		if (!strcmp(type, "cpu") || (!cpu && *standard && !strcmp(type, standard)))
			r->weight = (int)i;
		cpu |= !strcmp(type, "cpu");
		if (r->samples < 0 && (!strcmp(type, "samples") || !strcmp(type, "count")))
			r->samples = (int)i;
	}
}

static const char *function_name(const struct reader *r, uint64_t id)
{
	function_t key = {.id = id}, *k = &key, **found;

	found = bsearch(&k, r->function, r->p->n_function, sizeof(*r->function), by_function);
	return found ? r->name[found - r->function] : "[unknown]";
}

/* Appends the location's frames, outermost first, inlined ones last. */
static uint32_t put_frames(const struct reader *r, uint64_t id, const char **frame, uint32_t n,
			   uint32_t room)
{
	location_t key = {.id = id}, *k = &key, **found;
	const location_t *l;

	found = bsearch(&k, r->location, r->p->n_location, sizeof(*r->location), by_location);
	if (!found)
		return n;
	l = *found;
	for (size_t i = l->n_line; i-- && n < room;)
		frame[n++] = function_name(r, l->line[i]->function_id);
	if (!l->n_line && n < room)
		frame[n++] = "[unknown]";
	return n;
}

static int add_sample(const struct reader *r, const Sysom__Pprof__Sample *s, struct profile *out,
		      uint64_t *skipped)
{
	const char *frame[LIMIT_STACK_DEPTH];
	int64_t weight, samples;
	uint32_t n = 0;
	int err;

	if ((size_t)r->weight >= s->n_value || s->value[r->weight] < 0) {
		++*skipped;
		return 0;
	}
	weight = s->value[r->weight];
	samples = r->samples >= 0 && (size_t)r->samples < s->n_value ? s->value[r->samples] : 0;
	if (!weight)
		return 0;
	for (size_t i = s->n_location_id; i--;)
		n = put_frames(r, s->location_id[i], frame, n, LIMIT_STACK_DEPTH);
	if (!n) {
		++*skipped;
		return 0;
	}
	err = profile_add(out, frame, n, (double)weight, samples > 0 ? (double)samples : 0);
	return err == -E2BIG ? 0 : err; /* profile_dropped() counts it */
}

/* The unpacked file, owned by the caller; NULL: after a message, with *err. */
static uint8_t *read_whole(const char *path, size_t *bytes, int *err)
{
	struct trace_reader *r;
	uint8_t *data = NULL;
	size_t room = 0;
	ssize_t n;

	*bytes = 0;
	*err = trace_reader_open(&r, path);
	if (*err) {
		fprintf(stderr, "%s: %s\n", term_safe(path, 100), strerror(-*err));
		return NULL;
	}
	for (;;) {
		if (*bytes == room)
			*err =
			    room == PPROF_READ_BYTES_MAX ? -EFBIG : ROOM_FOR(data, room, room + 1);
		if (*err)
			break;
		n = trace_reader_read(r, data + *bytes, room - *bytes);
		if (n <= 0) {
			*err = (int)n;
			break;
		}
		*bytes += (size_t)n;
	}
	if (*err) {
		fprintf(stderr, "%s: %s\n", term_safe(path, 100),
			*err == -EFBIG	  ? "too large"
			: *err == -ENOMEM ? "out of memory"
					  : trace_reader_error(r));
		*err = *err == -EFBIG ? -EBADMSG : *err;
		free(data);
		data = NULL;
	}
	trace_reader_close(r);
	return data;
}

int pprof_read_load(struct profile **out, const char *path, uint64_t *skipped)
{
	struct reader r = {0};
	size_t bytes;
	int err;
	uint8_t *data = read_whole(path, &bytes, &err);
	profile_t *p;

	*out = NULL;
	*skipped = 0;
	if (!data)
		return err;
	p = sysom__pprof__profile__unpack(NULL, bytes, data);
	free(data);
	if (!p || !p->n_sample || !p->n_sample_type) {
		fprintf(stderr, "%s:0: not a pprof profile with samples\n", term_safe(path, 100));
		err = -EBADMSG;
	}
	if (!err) {
		r.p = p;
		err = index_tables(&r);
	}
	if (!err)
		err = profile_open(out, keyed_process());
	if (!err)
		choose_values(&r);
	for (size_t i = 0; !err && i < p->n_sample; i++)
		err = add_sample(&r, p->sample[i], *out, skipped);
	if (err) {
		profile_close(*out);
		*out = NULL;
	}
	for (size_t i = 0; r.name && i < p->n_function; i++)
		free(r.name[i]);
	free(r.name);
	free(r.location);
	free(r.function);
	if (p)
		sysom__pprof__profile__free_unpacked(p, NULL);
	return err;
}

/* SPDX-License-Identifier: Apache-2.0
 * profile_names.c - see profile_names.h. Many stacks of a batch have the same frame, so a name is looked up
 * once per (file, address). */
#include "cli/profile/profile_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/room.h"
#include "base/text/text.h"
#include "cli/text/intern.h"

struct slot {
	uint64_t address;
	uint32_t object;
	bool resolved;
	char *function, *raw; /* raw: NULL if the same */
};

struct profile_names {
	const struct stack_batch *b;
	struct symbol_reader *reader; /* of the resolver; NULL: none */
	struct symbol_resolver *resolver;
	char *proc_root;
	uint32_t *pid_of;     /* object -> a process that maps it; 0 none */
	char **plain;	      /* object -> "[module]" */
	struct intern places; /* (object, address) */
	struct slot *slot;    /* [places.count] */
	size_t room;
};

static void find_pids(struct profile_names *n)
{
	const struct stack_batch *b = n->b;

	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack *s = &b->stacks[b->samples[i].stack];

		for (uint32_t k = 0; k < s->count; k++) {
			const struct stack_frame *f = &b->frames[s->first + k];

			if (f->kind == STACK_FRAME_NATIVE)
				n->pid_of[f->object] = b->samples[i].pid;
		}
	}
}

static int make_plain(struct profile_names *n)
{
	for (uint32_t i = 0; i < n->b->object_count; i++) {
		const char *module = text_base(stack_batch_text(n->b, n->b->objects[i].path));

		/* "[vdso]" already has brackets */
		if (asprintf(&n->plain[i], *module == '[' ? "%s" : "[%s]", *module ? module : "?") <
		    0) {
			n->plain[i] = NULL;
			return -ENOMEM;
		}
	}
	return 0;
}

int profile_names_open(struct profile_names **out, const struct stack_batch *b,
		       struct symbol_reader *reader, struct symbol_resolver *resolver,
		       const char *proc_root)
{
	struct profile_names *n = calloc(1, sizeof(*n));
	int err = 0;

	*out = NULL;
	if (!n) {
		symbol_resolver_close(resolver);
		return -ENOMEM;
	}
	n->b = b;
	n->resolver = resolver;
	n->reader = reader;
	n->proc_root = proc_root ? strdup(proc_root) : NULL;
	n->pid_of = calloc(b->object_count + 1, sizeof(*n->pid_of));
	n->plain = calloc(b->object_count + 1, sizeof(*n->plain));
	if (!n->pid_of || !n->plain || (proc_root && !n->proc_root))
		err = -ENOMEM;
	if (!err)
		err = make_plain(n);
	if (err) {
		profile_names_close(n);
		return err;
	}
	find_pids(n);
	*out = n;
	return 0;
}

void profile_names_close(struct profile_names *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->places.count; i++) {
		free(n->slot[i].function);
		free(n->slot[i].raw);
	}
	for (uint32_t i = 0; n->plain && i < n->b->object_count; i++)
		free(n->plain[i]);
	intern_fini(&n->places);
	free(n->slot);
	free(n->plain);
	free(n->pid_of);
	free(n->proc_root);
	symbol_resolver_close(n->resolver);
	free(n);
}

/* The file as the sampled process sees it, while the process lives. */
static int look_up(struct profile_names *n, uint32_t object, uint64_t address,
		   struct symbol_name *name)
{
	const struct stack_object *o = &n->b->objects[object];
	const char *path = stack_batch_text(n->b, o->path);
	char rooted[4400], root[300];

	if (!n->resolver || (!o->build_id_bytes && *path != '/'))
		return -ENODATA;
	if (!n->proc_root || !n->pid_of[object] || *path != '/')
		return symbol_resolver_find(n->resolver, o->build_id, o->build_id_bytes,
					    *path == '/' ? path : NULL, address, name);
	snprintf(root, sizeof(root), "%.256s/%u/root", n->proc_root, n->pid_of[object]);
	snprintf(rooted, sizeof(rooted), "%s%.4000s", root, path);
	if (n->reader)
		symbol_reader_root(n->reader, root, n->pid_of[object], true);
	return symbol_resolver_find(n->resolver, o->build_id, o->build_id_bytes, rooted, address,
				    name);
}

/* Names from another file with the same Build ID or path are not proven: anybody can make such a file. */
static void set_name(struct slot *s, const struct symbol_name *name)
{
	char *text;

	s->function = name->proven ? strdup(name->function)
		      : asprintf(&text, "%s [unproven]", name->function) < 0 ? NULL
									     : text;
	s->raw = strcmp(name->raw, name->function) ? strdup(name->raw) : NULL;
	s->resolved = !!s->function;
}

static struct slot *slot_of(struct profile_names *n, uint32_t object, uint64_t address)
{
	const uint64_t key[2] = {object, address};
	uint32_t before = n->places.count;
	struct symbol_name name;
	struct slot *s;
	int64_t at;

	if (ROOM_FOR(n->slot, n->room, before + 1ull))
		return NULL;
	at = intern_bytes(&n->places, key, sizeof(key), UINT32_MAX);
	if (at < 0)
		return NULL;
	s = &n->slot[at];
	if (at == before) {
		*s = (struct slot){.object = object, .address = address};
		if (!look_up(n, object, address, &name))
			set_name(s, &name);
	}
	return s;
}

static int take_answer(void *arg, const struct symbol_want *w, const struct symbol_name *name)
{
	struct profile_names *n = arg;

	set_name(&n->slot[w->number], name);
	return n->slot[w->number].resolved ? 0 : -ENOMEM;
}

/* The places without a name whose file has a Build ID; *out is malloc-ed. */
static int find_wants(const struct profile_names *n, struct symbol_want **out, size_t *count)
{
	*count = 0;
	*out = calloc(n->places.count + 1ull, sizeof(**out));
	for (uint32_t i = 0; *out && i < n->places.count; i++) {
		const struct slot *s = &n->slot[i];
		const struct stack_object *o = &n->b->objects[s->object];
		struct symbol_want *w = &(*out)[*count];

		if (s->resolved || o->build_id_bytes < 2 || s->address > INT64_MAX)
			continue;
		w->id_bytes = (uint8_t)symbol_content_cut(o->build_id_bytes);
		memcpy(w->id, o->build_id, w->id_bytes);
		w->address = s->address;
		w->number = i;
		++*count;
	}
	return *out ? 0 : -ENOMEM;
}

int profile_names_ask(struct profile_names *n, const struct client *aggregator,
		      struct client_error *e)
{
	const struct stack_batch *b = n->b;
	struct symbol_want *wants = NULL;
	size_t count;
	int err = 0;

	*e = (struct client_error){.remedy = ""};
	for (uint32_t i = 0; i < b->frame_count && !err; i++) {
		const struct stack_frame *f = &b->frames[i];

		if (f->kind == STACK_FRAME_NATIVE &&
		    !slot_of(n, f->object, f->address - !!(f->flags & STACK_FRAME_RETURN)))
			err = -ENOMEM;
	}
	if (!err)
		err = find_wants(n, &wants, &count);
	if (!err)
		err = symbol_client_ask(aggregator, wants, count, take_answer, n, e);
	free(wants);
	return err;
}

static int native(struct profile_names *n, const struct stack_frame *f, struct profile_name *out)
{
	uint64_t address = f->address - !!(f->flags & STACK_FRAME_RETURN);
	struct slot *s;

	out->module = text_base(stack_batch_text(n->b, n->b->objects[f->object].path));
	out->function = out->raw = n->plain[f->object];
	s = slot_of(n, f->object, address);
	if (!s)
		return -ENOMEM;
	if (s->resolved) {
		out->function = s->function;
		out->raw = s->raw ? s->raw : s->function;
		out->resolved = true;
	}
	return 0;
}

int profile_names_get(struct profile_names *n, uint32_t frame, struct profile_name *out)
{
	const struct stack_frame *f = &n->b->frames[frame];
	const char *text;

	*out = (struct profile_name){.function = "[unknown]",
				     .raw = "[unknown]",
				     .module = "",
				     .file = "",
				     .kind = f->kind,
				     .flags = f->flags};
	switch (f->kind) {
	case STACK_FRAME_NATIVE:
		return native(n, f, out);
	case STACK_FRAME_KERNEL:
		text = stack_batch_text(n->b, f->object);
		out->module = "[kernel]";
		break;
	case STACK_FRAME_PYTHON:
		text = stack_batch_text(n->b, f->object);
		out->module = "[python]";
		out->file = stack_batch_text(n->b, f->file);
		out->line = f->line;
		break;
	default:
		text = "[jit]";
		out->module = "[jit]";
	}
	out->resolved = f->kind != STACK_FRAME_ANONYMOUS && *text;
	if (*text)
		out->function = out->raw = text;
	return 0;
}

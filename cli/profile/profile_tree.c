/* SPDX-License-Identifier: Apache-2.0
 * profile_tree.c - see profile_tree.h. Nodes are merged by their texts: function and module. So functions
 * of two files stay apart, and all lines of a Python function are one node. */
#include "cli/profile/profile_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/limits.h"
#include "base/room.h"
#include "cli/profile/folded.h"
#include "cli/text/outfile.h"

int profile_tree_init(struct profile_tree *t)
{
	memset(t, 0, sizeof(*t));
	if (ROOM_FOR(t->nodes, t->room, 1))
		return -ENOMEM;
	t->nodes[0] = (struct profile_node){.function = "all", .module = "", .file = ""};
	t->count = 1;
	return 0;
}

void profile_tree_fini(struct profile_tree *t)
{
	for (uint32_t i = 0; i < t->text_count; i++)
		free(t->texts[i]);
	free(t->texts);
	free(t->nodes);
	probe_fini(&t->by_frame);
	memset(t, 0, sizeof(*t));
}

static uint64_t key_of(uint32_t parent, const struct profile_node *n)
{
	const struct keyed *key = keyed_process();
	uint64_t h = keyed_words(key, keyed_text(key, n->function), keyed_text(key, n->module));

	return keyed_words(key, h ^ keyed_text(key, n->file), (uint64_t)parent << 32 | n->kind);
}

static bool same(const struct profile_node *a, const struct profile_node *b)
{
	return a->parent == b->parent && a->kind == b->kind && !strcmp(a->function, b->function) &&
	       !strcmp(a->module, b->module) && !strcmp(a->file, b->file);
}

/* Finds or adds the child of parent that is like *n. */
static int child(struct profile_tree *t, uint32_t parent, struct profile_node *n, uint32_t *out)
{
	uint64_t key = key_of(parent, n);

	n->parent = parent;
	PROBE_EACH (i, &t->by_frame, key)
		if (same(&t->nodes[i.number], n)) {
			t->nodes[i.number].flags |= n->flags;
			*out = i.number;
			return 0;
		}
	if (t->count >= LIMIT_STACK_FRAMES)
		return -E2BIG;
	if (ROOM_FOR(t->nodes, t->room, t->count + 1ull) || probe_add(&t->by_frame, key, t->count))
		return -ENOMEM;
	*out = t->count;
	n->next = t->nodes[parent].first;
	t->nodes[parent].first = t->count;
	t->nodes[t->count++] = *n;
	return 0;
}

int profile_tree_keep(struct profile_tree *t, char *text)
{
	if (!text || ROOM_FOR(t->texts, t->text_room, t->text_count + 1ull)) {
		free(text);
		return -ENOMEM;
	}
	t->texts[t->text_count++] = text;
	return 0;
}

/* As child; the tree takes the text, the child's name. */
static int child_named(struct profile_tree *t, uint32_t parent, struct profile_node *n, char *text,
		       uint32_t *out)
{
	uint32_t before = t->count;
	int err = text ? 0 : -ENOMEM;

	n->function = text;
	if (!err)
		err = child(t, parent, n, out);
	if (!err && t->count > before)
		return profile_tree_keep(t, text);
	free(text);
	return err;
}

static uint64_t scaled(const struct profile_tree *t, double ns)
{
	double v = t->scale > 0 ? ns * t->scale + 0.5 : ns;

	return v < 0x1p63 ? (uint64_t)v : (uint64_t)1 << 63;
}

static int thread_node(struct profile_tree *t, const struct stack_batch *b,
		       const struct stack_sample *s, enum profile_group group, uint32_t *out)
{
	const char *comm = stack_batch_text(b, s->comm);
	struct profile_node n = {.module = "", .file = "", .function = *comm ? comm : "?"};
	char *text;

	*out = 0;
	if (group == PROFILE_TOGETHER)
		return 0;
	if (group != PROFILE_BY_THREAD)
		return child(t, 0, &n, out);
	if (asprintf(&text, "%s (pid %u/tid %u)", n.function, s->pid, s->tid) < 0)
		return -ENOMEM;
	return child_named(t, 0, &n, text, out);
}

static int add_sample(struct profile_tree *t, const struct stack_batch *b,
		      struct profile_names *names, const struct stack_sample *s,
		      enum profile_group group)
{
	const struct stack *st = &b->stacks[s->stack];
	struct profile_name name;
	uint32_t at;
	int err = thread_node(t, b, s, group, &at);

	for (uint32_t i = st->count; i-- && !err;) {
		struct profile_node n;

		err = profile_names_get(names, st->first + i, &name);
		if (err)
			break;
		n = (struct profile_node){.function = name.function,
					  .module = name.module,
					  .file = name.file,
					  .line = name.line,
					  .kind = name.kind,
					  .flags = name.flags & ~STACK_FRAME_RETURN};
		err = child(t, at, &n, &at);
	}
	if (err)
		return err;
	if (t->to_base) {
		uint64_t ns = scaled(t, (double)s->weight_ns);

		*(s->kind == STACK_OFF_CPU ? &t->nodes[at].base_off_ns
					   : &t->nodes[at].base_on_ns) += ns;
	} else if (s->kind == STACK_OFF_CPU) {
		t->nodes[at].off_ns +=
		    t->scale > 0 ? scaled(t, (double)s->weight_ns) : s->weight_ns;
	} else {
		t->nodes[at].on_ns += t->scale > 0 ? scaled(t, (double)s->weight_ns) : s->weight_ns;
	}
	return 0;
}

int profile_tree_add(struct profile_tree *t, const struct stack_batch *b,
		     struct profile_names *names, enum profile_group group)
{
	int err = 0;

	for (uint32_t i = 0; i < b->sample_count && !err; i++)
		err = add_sample(t, b, names, &b->samples[i], group);
	return err;
}

static uint8_t kind_of(const char *name)
{
	size_t n = strlen(name);

	if (n > 4 && !strcmp(name + n - 4, "_[k]"))
		return STACK_FRAME_KERNEL;
	if (n > 4 && !strcmp(name + n - 4, ".py)"))
		return STACK_FRAME_PYTHON;
	return n > 4 && !strcmp(name + n - 4, "_[j]") ? STACK_FRAME_ANONYMOUS : STACK_FRAME_NATIVE;
}

int profile_tree_add_folded(struct profile_tree *t, const struct folded *f)
{
	const char *names[LIMIT_STACK_DEPTH];
	int err = 0;

	for (uint32_t i = 0; i < f->count && !err; i++) {
		uint32_t count = folded_names(f, i, names), at = 0;

		for (uint32_t k = 0; k < count && !err; k++) {
			struct profile_node n = {.function = names[k], .module = "", .file = ""};

			n.kind = k ? kind_of(names[k]) : 0;
			err = child(t, at, &n, &at);
		}
		if (!err)
			*(t->to_base ? &t->nodes[at].base_on_ns : &t->nodes[at].on_ns) +=
			    scaled(t, f->lines[i].weight);
	}
	return err;
}

int profile_tree_add_gpu(struct profile_tree *t, const struct profile_node *frames, uint32_t count,
			 double ns)
{
	uint32_t at = 0;
	int err = 0;

	for (uint32_t i = 0; i < count && !err; i++) {
		struct profile_node n = {.function = frames[i].function,
					 .module = "",
					 .file = "",
					 .kind = frames[i].kind};

		err = child(t, at, &n, &at);
	}
	if (!err)
		*(t->to_base ? &t->nodes[at].base_gpu_ns : &t->nodes[at].gpu_ns) += scaled(t, ns);
	return err;
}

/* ';' separates frames, and the last blank separates the value: a name must have neither. */
static char *name_of(const struct profile_node *n)
{
	char *text = folded_name(n->kind, n->function, n->file);

	for (char *p = text; p && *p; p++)
		*p = *p == ';' ? ':' : *p == '\n' ? ' ' : *p;
	return text;
}

static void put_path(const struct profile_tree *t, uint32_t at, FILE *to)
{
	uint32_t path[LIMIT_STACK_DEPTH + 2], n = 0;

	for (; at && n < LIMIT_STACK_DEPTH + 2; at = t->nodes[at].parent)
		path[n++] = at;
	while (n--) {
		char *name = name_of(&t->nodes[path[n]]);

		fprintf(to, "%s%s", name ? name : "", n ? ";" : "");
		free(name);
	}
}

int profile_tree_flatten(struct profile_tree *to, const struct profile_tree *from)
{
	uint32_t *at = calloc(from->count, sizeof(*at));
	int err = at ? 0 : -ENOMEM;

	for (uint32_t i = 1; i < from->count && !err; i++) {
		const struct profile_node *n = &from->nodes[i];
		struct profile_node copy = {.kind = n->kind, .module = "", .file = ""};

		err = child_named(to, at[n->parent], &copy, name_of(n), &at[i]);
		if (err)
			break;
		to->nodes[at[i]].on_ns += n->on_ns;
		to->nodes[at[i]].off_ns += n->off_ns;
	}
	free(at);
	return err;
}

long profile_tree_folded(const struct profile_tree *t, bool off, FILE *to)
{
	long lines = 0;

	for (uint32_t i = 1; i < t->count; i++) {
		uint64_t ns = off ? t->nodes[i].off_ns : t->nodes[i].on_ns;

		if (!ns)
			continue;
		put_path(t, i, to);
		fprintf(to, " %llu\n", (unsigned long long)ns);
		lines++;
	}
	return ferror(to) ? outfile_error(to) : lines;
}

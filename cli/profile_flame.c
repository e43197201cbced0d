/* SPDX-License-Identifier: Apache-2.0
 * profile_flame.c - see profile_flame.h. The page (cli/flame.html) is part of the program; what is
 * written here is its data: the tree as columns, names once each. */
#include "cli/profile_flame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/escape.h"

/* clang-format off */
__asm__(".section .rodata\n"
	".global profile_flame_page\nprofile_flame_page:\n.incbin \"cli/flame.html\"\n.byte 0\n"
	".previous\n");
/* clang-format on */
extern const char profile_flame_page[];

struct page {
	const struct profile_tree *t;
	uint64_t *on, *off;   /* with callees */
	uint32_t *number;     /* node -> number on the page + 1; 0: left out */
	uint32_t *node;	      /* number -> node */
	uint32_t count, left_out;
	const char **name;
	uint32_t *name_slot, name_room, name_count;
};

static uint32_t name_number(struct page *p, const char *s)
{
	uint64_t h = hash_mix(hash_bytes(HASH_SEED, s, strlen(s)));

	for (; p->name_slot[h & (p->name_room - 1)]; h++)
		if (!strcmp(p->name[p->name_slot[h & (p->name_room - 1)] - 1], s))
			return p->name_slot[h & (p->name_room - 1)] - 1;
	p->name[p->name_count] = s;
	p->name_slot[h & (p->name_room - 1)] = ++p->name_count;
	return p->name_count - 1;
}

/* A node's number in the tree is above its parent's, so one pass each way does. */
static void choose(struct page *p, double share_min)
{
	const struct profile_tree *t = p->t;
	double on_min, off_min;

	for (uint32_t i = t->count; i-- > 0;) {
		p->on[i] += t->nodes[i].on_ns;
		p->off[i] += t->nodes[i].off_ns;
		if (i) {
			p->on[t->nodes[i].parent] += p->on[i];
			p->off[t->nodes[i].parent] += p->off[i];
		}
	}
	on_min = share_min * (double)p->on[0];
	off_min = share_min * (double)p->off[0];
	for (uint32_t i = 0; i < t->count; i++) {
		bool shown = !i || (p->number[t->nodes[i].parent] &&
				    ((p->on[i] && (double)p->on[i] >= on_min) ||
				     (p->off[i] && (double)p->off[i] >= off_min)));

		if (shown) {
			p->node[p->count++] = i;
			p->number[i] = p->count;
		} else {
			p->left_out++;
		}
	}
}

/* A shown node's own time: what its shown children do not account for. */
static void own_times(struct page *p)
{
	for (uint32_t k = 1; k < p->count; k++) {
		uint32_t i = p->node[k], parent = p->t->nodes[i].parent;

		p->on[parent] -= p->on[i];
		p->off[parent] -= p->off[i];
	}
}

enum column { PARENT, NAME, MODULE, FILE_NAME, LINE, KIND, FLAGS, ON, OFF, COLUMNS };

static uint64_t value(struct page *p, enum column c, uint32_t i)
{
	const struct profile_node *n = &p->t->nodes[i];

	switch (c) {
	case PARENT: return i ? p->number[n->parent] - 1 : 0;
	case NAME: return name_number(p, n->function);
	case MODULE: return name_number(p, n->module);
	case FILE_NAME: return name_number(p, n->file);
	case LINE: return n->line;
	case KIND: return n->kind;
	case FLAGS: return n->flags;
	case ON: return p->on[i];
	default: return p->off[i];
	}
}

static void put_data(struct page *p, FILE *to)
{
	static const char *const label[COLUMNS] = { "parent", "name", "module", "file", "line",
						    "kind", "flags", "on", "off" };

	name_number(p, "");
	fputs("<script>\nconst DATA = {", to);
	for (int c = 0; c < COLUMNS; c++) {
		fprintf(to, "\n%s: [", label[c]);
		for (uint32_t k = 0; k < p->count; k++)
			fprintf(to, k ? ",%llu" : "%llu",
				(unsigned long long)value(p, c, p->node[k]));
		fputs("],", to);
	}
	fputs("\nnames: [", to);
	for (uint32_t i = 0; i < p->name_count; i++) {
		fputs(i ? ",\n" : "", to);
		escape_json(to, p->name[i]);
	}
	fputs("]};\n</script>\n", to);
}

static int page_init(struct page *p, const struct profile_tree *t)
{
	*p = (struct page){ .t = t, .name_room = 64 };
	while (p->name_room < 6ull * t->count + 8)
		p->name_room *= 2;
	p->on = calloc(t->count, sizeof(*p->on));
	p->off = calloc(t->count, sizeof(*p->off));
	p->number = calloc(t->count, sizeof(*p->number));
	p->node = calloc(t->count, sizeof(*p->node));
	p->name = calloc(3ull * t->count + 1, sizeof(*p->name));
	p->name_slot = calloc(p->name_room, sizeof(*p->name_slot));
	return p->on && p->off && p->number && p->node && p->name && p->name_slot ? 0 : -ENOMEM;
}

static void page_fini(struct page *p)
{
	free(p->on);
	free(p->off);
	free(p->number);
	free(p->node);
	free(p->name);
	free(p->name_slot);
}

int profile_flame_write(FILE *to, const struct profile_tree *t, const char *title, const char *note,
			double share_min)
{
	struct page p;
	int err = page_init(&p, t);

	if (!err) {
		choose(&p, share_min);
		own_times(&p);
		fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
		      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", to);
		escape_html(to, title);
		fputs(" - sysom</title></head><body>\n<h1>", to);
		escape_html(to, title);
		fputs("</h1>\n<div class=\"dim\">", to);
		escape_html(to, note);
		if (p.left_out)
			fprintf(to, " %u frames below %g%% are folded into their callers.", p.left_out,
				share_min * 100);
		fputs("</div>\n", to);
		put_data(&p, to);
		fputs(profile_flame_page, to);
		fputs("</body></html>\n", to);
		err = fflush(to) || ferror(to) ? -EIO : 0;
	}
	page_fini(&p);
	return err;
}

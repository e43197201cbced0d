/* SPDX-License-Identifier: Apache-2.0
 * profile_flame.c - see profile_flame.h. The program contains the page (cli/flame.html). This file writes
 * its data: the tree as columns, and each name once. */
#include "cli/profile/profile_flame.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/embed.h"
#include "base/text/json_text.h"
#include "render/escape.h"
#include "cli/text/intern.h"
#include "cli/text/outfile.h"

EMBED_TEXT(profile_flame_page_text, "cli/flame.html");

enum { ON, OFF, GPU, BASE_ON, BASE_OFF, BASE_GPU, METRICS };

struct page {
	const struct profile_tree *t;
	uint64_t *sum[METRICS]; /* with callees; later of the frame itself */
	uint32_t *number;	/* node -> number on the page + 1; 0: left out */
	uint32_t *node;		/* number -> node */
	uint32_t count, left_out;
	struct intern names;
	bool failed;
};

static uint64_t name_number(struct page *p, const char *s)
{
	int64_t at = intern_text(&p->names, s, UINT32_MAX);

	p->failed |= at < 0;
	return at < 0 ? 0 : (uint64_t)at;
}

static uint64_t metric(const struct profile_node *n, int m)
{
	const uint64_t all[METRICS] = {n->on_ns,      n->off_ns,      n->gpu_ns,
				       n->base_on_ns, n->base_off_ns, n->base_gpu_ns};

	return all[m];
}

/* A node's number is larger than its parent's, so one pass in each direction is enough. */
static void choose(struct page *p, double share_min)
{
	const struct profile_tree *t = p->t;
	double least[METRICS];

	for (int m = 0; m < METRICS; m++) {
		for (uint32_t i = t->count; i-- > 0;) {
			p->sum[m][i] += metric(&t->nodes[i], m);
			if (i)
				p->sum[m][t->nodes[i].parent] += p->sum[m][i];
		}
		least[m] = share_min * (double)p->sum[m][0];
	}
	for (uint32_t i = 0; i < t->count; i++) {
		bool shown = !i;

		for (int m = 0; m < METRICS && !shown && p->number[t->nodes[i].parent]; m++)
			shown = p->sum[m][i] && (double)p->sum[m][i] >= least[m];
		if (shown) {
			p->node[p->count++] = i;
			p->number[i] = p->count;
		} else {
			p->left_out++;
		}
	}
}

/* A shown node's self time: its time without its shown children. */
static void own_times(struct page *p)
{
	for (uint32_t k = 1; k < p->count; k++) {
		uint32_t i = p->node[k], parent = p->t->nodes[i].parent;

		for (int m = 0; m < METRICS; m++)
			p->sum[m][parent] -= p->sum[m][i];
	}
}

enum column { PARENT, NAME, MODULE, FILE_NAME, LINE, KIND, FLAGS, FIRST_METRIC };

static uint64_t value(struct page *p, unsigned column, uint32_t i)
{
	const struct profile_node *n = &p->t->nodes[i];

	switch (column) {
	case PARENT:
		return i ? p->number[n->parent] - 1 : 0;
	case NAME:
		return name_number(p, n->function);
	case MODULE:
		return name_number(p, n->module);
	case FILE_NAME:
		return name_number(p, n->file);
	case LINE:
		return n->line;
	case KIND:
		return n->kind;
	case FLAGS:
		return n->flags;
	default:
		return p->sum[column - FIRST_METRIC][i];
	}
}

static bool is_wanted(const struct page *p, unsigned column)
{
	if (column < FIRST_METRIC + GPU)
		return true;
	return column == FIRST_METRIC + GPU || p->t->differs;
}

static void put_data(struct page *p, FILE *to, const struct profile_flame *page)
{
	static const char *const label[] = {"parent",  "name",	   "module",  "file", "line",
					    "kind",    "flags",	   "on",      "off",  "gpu",
					    "on_base", "off_base", "gpu_base"};

	name_number(p, "");
	fputs("<script>\nconst DATA = {", to);
	for (unsigned c = 0; c < ARRAY_LEN(label); c++) {
		if (!is_wanted(p, c))
			continue;
		fprintf(to, "\n%s: [", label[c]);
		for (uint32_t k = 0; k < p->count; k++)
			fprintf(to, k ? ",%llu" : "%llu",
				(unsigned long long)value(p, c, p->node[k]));
		fputs("],", to);
	}
	json_text_print(to, "\nunit: ", page->unit ? page->unit : "");
	json_text_print(to, ", open: ", page->open ? page->open : "");
	if (p->t->differs) {
		json_text_print(to, ", sides: [", page->base ? page->base : "base");
		json_text_print(to, ",", page->other ? page->other : "other");
		fputc(']', to);
	}
	fputs(",\nnames: [", to);
	for (uint32_t i = 0; i < p->names.count; i++)
		json_text_print(to, i ? ",\n" : "", p->names.text[i]);
	fputs("]};\n</script>\n", to);
}

static int page_init(struct page *p, const struct profile_tree *t)
{
	*p = (struct page){.t = t};
	p->number = calloc(t->count, sizeof(*p->number));
	p->node = calloc(t->count, sizeof(*p->node));
	for (int m = 0; m < METRICS; m++) {
		p->sum[m] = calloc(t->count, sizeof(*p->sum[m]));
		if (!p->sum[m])
			return -ENOMEM;
	}
	return p->number && p->node ? 0 : -ENOMEM;
}

static void page_fini(struct page *p)
{
	for (int m = 0; m < METRICS; m++)
		free(p->sum[m]);
	free(p->number);
	free(p->node);
	intern_fini(&p->names);
}

int profile_flame_page(FILE *to, const struct profile_tree *t, const struct profile_flame *page)
{
	struct page p;
	int err = page_init(&p, t);

	if (!err) {
		choose(&p, page->share_min);
		own_times(&p);
		fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
		      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
		      to);
		escape_html(to, page->title);
		escape_around(to, " - sysom</title></head><body>\n<h1>", page->title,
			      "</h1>\n<div class=\"dim\">");
		escape_html(to, page->note);
		if (p.left_out)
			fprintf(to, " %u frames below %g%% are folded into their callers.",
				p.left_out, page->share_min * 100);
		fputs("</div>\n", to);
		put_data(&p, to, page);
		fputs(profile_flame_page_text, to);
		fputs("</body></html>\n", to);
		fflush(to);
		err = p.failed ? -ENOMEM : outfile_error(to);
	}
	page_fini(&p);
	return err;
}

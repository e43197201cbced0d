/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile/profile_out.h"

#include <string.h>

#include "base/check.h"
#include "base/text/text.h"
#include "cli/profile/profile_flame.h"
#include "cli/profile/profile_pprof.h"

/* Smaller frames are narrower than a tenth of a pixel of a wide screen. */
#define FLAME_SHARE_MIN 0.00005

const char *profile_out_format_name(enum profile_format f)
{
	static const char *const names[] = {"html", "folded", "pprof"};

	return names[f];
}

enum profile_format profile_out_format(const char *path)
{
	static const struct {
		const char *ending;
		enum profile_format format;
	} endings[] = {
	    {".folded", PROFILE_FOLDED}, {".txt", PROFILE_FOLDED},  {".collapsed", PROFILE_FOLDED},
	    {".pb.gz", PROFILE_PPROF},	 {".pprof", PROFILE_PPROF},
	};

	for (size_t i = 0; i < ARRAY_LEN(endings); i++)
		if (text_ends(path, endings[i].ending))
			return endings[i].format;
	return PROFILE_HTML;
}

static bool has_scanned(const struct stack_batch *b, const struct stack *st)
{
	for (uint32_t i = 0; i < st->count; i++)
		if (b->frames[st->first + i].flags & STACK_FRAME_SCANNED)
			return true;
	return false;
}

void profile_out_count(const struct stack_batch *b, struct profile_counts *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];
		const struct stack *st = &b->stacks[s->stack];

		if (s->kind == STACK_OFF_CPU) {
			out->off_count += s->count;
			out->off_ns += s->weight_ns;
		} else {
			out->on_count += s->count;
			out->on_ns += s->weight_ns;
		}
		out->frames += (uint64_t)s->count * st->count;
		if (st->end != STACK_END_ROOT)
			out->truncated += s->count;
		if (has_scanned(b, st))
			out->scanned += s->count;
	}
}

static int write_tree(const struct profile_out *o, const struct stack_batch *b,
		      struct profile_names *names, FILE *to)
{
	struct profile_tree t;
	long lines;
	int err = profile_tree_init(&t);

	if (err)
		return err;
	err = profile_tree_add(&t, b, names, o->group);
	if (!err && o->format == PROFILE_HTML) {
		err = profile_flame_page(to, &t,
					 &(struct profile_flame){.title = o->title,
								 .note = o->note,
								 .share_min = FLAME_SHARE_MIN,
								 .open = o->open});
	} else if (!err) {
		lines = profile_tree_folded(&t, o->blocked, to);
		err = lines < 0 ? (int)lines : 0;
	}
	profile_tree_fini(&t);
	return err;
}

int profile_out_write(const struct profile_out *o, const struct stack_batch *b,
		      struct profile_names *names, FILE *to)
{
	if (o->format == PROFILE_PPROF)
		return profile_pprof_write(to, b, names, o->realtime_ns, o->period_ns);
	return write_tree(o, b, names, to);
}

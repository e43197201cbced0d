/* SPDX-License-Identifier: Apache-2.0
 * Finds settings that are equal on all peers but differ on the suspect. Settings that differ
 * between all ranks (RANK, a port, a host name) are thus left out, and two peers are needed. A
 * setting only suggests why kernels or functions differ; alone it explains no time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"
#include "base/text/text.h"
#include "model/kernel_name.h"
#include "model/thresholds.h"

#define DIFFERENT_MAX  4u
#define CUDA_VARIABLES "env:CUDA_"

static bool is_version(const char *name)
{
	static const char *const versions[] = {"cuda", "cupti", "driver", "nccl"};

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
		if (!strcmp(name, versions[i]))
			return true;
	return false;
}

/* Whether the value is known. An environment variable without a value is unset. A version that is
 * missing or 0 was not reported yet. */
static bool is_known(const char *name, const char *value)
{
	if (!value)
		return !is_version(name);
	if (strcmp(value, "0"))
		return *value != '\0';
	return !is_version(name);
}

static const char *value_of(const struct diagnosis_rank *r, const char *name)
{
	for (uint32_t i = 0; i < r->setting_count; i++)
		if (!strcmp(r->setting[i].name, name))
			return r->setting[i].value;
	return NULL;
}

static bool equal(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* The value that all ranks of the base share. False: they differ, or they are too few. */
static bool common(const struct diagnosis_view *v, const char *name, const char **value)
{
	uint32_t ranks = 0;

	if (v->in->kind == FINDING_UNIFORM) {
		if (!v->in->before || !v->in->before->setting_count)
			return false;
		*value = value_of(v->in->before, name);
		return true;
	}
	for (uint32_t i = 0; i < v->in->peer_count; i++) {
		const char *mine;

		if (!v->in->peer[i].setting_count)
			continue;
		mine = value_of(&v->in->peer[i], name);
		if (ranks++ && !equal(mine, *value))
			return false;
		*value = mine;
	}
	return ranks >= 2;
}

static void differs(struct diagnosis_view *v, const char *name, const char *mine,
		    const char *theirs)
{
	struct diagnosis_candidate *c;

	if (v->settings_differ++ >= DIFFERENT_MAX)
		return;
	c = diagnosis_add(v, CAUSE_SW_ENVIRONMENT, 0);
	text_copy(c->subject, sizeof(c->subject), name);
	snprintf(c->text, sizeof(c->text), "%.50s is %.70s, %s %.70s", name,
		 mine ? mine : "(not set)",
		 v->in->kind == FINDING_UNIFORM ? "before it was" : "on the peers it is",
		 theirs ? theirs : "(not set)");
	snprintf(c->because, sizeof(c->because), "%s settings differ: %.230s", v->its, c->text);
	if (!strncmp(name, CUDA_VARIABLES, strlen(CUDA_VARIABLES)))
		text_copy(v->cuda_setting, sizeof(v->cuda_setting), c->text);
}

/* The row of GPU work whose number grew most; NULL: none grew. */
static const struct ledger_row *grown_row(const struct diagnosis_view *v)
{
	const struct ledger_row *best = NULL;
	double most = 0;

	for (uint32_t i = 0; i < v->row_count; i++) {
		const struct ledger_row *r = &v->row[i];
		double more = r->slow_count - r->reference_count;

		if (r->kind >= LEDGER_COMPUTE && r->kind <= LEDGER_COLLECTIVE && more > most) {
			most = more;
			best = r;
		}
	}
	return best;
}

static unsigned number(double x)
{
	return (unsigned)fmin(fmax(x, 0) + 0.5, 1e9);
}

/* Every rank launches more than before. Each launch takes time on host and GPU, so whatever grew is
 * explained, but by no more than the step's usual time grows with the number of launches. If
 * detection expects the slow steps to take longer, it knows their launches, and measures as lost only
 * what these do not explain. */
static void more_work(struct diagnosis_view *v)
{
	double mine = v->mine[FIGURE_KERNELS], base = v->base[FIGURE_KERNELS];
	double step_ns = v->base[FIGURE_STEP], lost_ns = v->who->lost_ns;
	const struct ledger_row *r = grown_row(v);
	struct diagnosis_candidate *c;
	char name[DIAGNOSIS_SUBJECT_BYTES];

	if (v->in->kind != FINDING_UNIFORM || !(base > 0) || !(step_ns > 0) || mine <= base ||
	    (lost_ns > 0 &&
	     v->mine[FIGURE_STEP] - step_ns - lost_ns > thresholds.part.little * step_ns))
		return;
	c = diagnosis_add(v, CAUSE_SW_KERNELS, step_ns * (mine / base - 1));
	c->is_work = true;
	text_copy(c->subject, sizeof(c->subject),
		  kernel_name_short(r ? r->name : "", name, sizeof(name)));
	snprintf(c->text, sizeof(c->text), "each step launches %u kernels, %u before%s%s%s%.80s",
		 number(mine), number(base), r ? "; most of them " : "",
		 r ? ledger_kind_name(r->kind) : "", r ? " " : "", name);
	snprintf(c->because, sizeof(c->because), "%.220s", c->text);
}

void diagnosis_software_look(struct diagnosis_view *v)
{
	const struct diagnosis_rank *first = v->in->before && v->in->kind == FINDING_UNIFORM
						 ? v->in->before
					     : v->in->peer_count ? &v->in->peer[0]
								 : NULL;
	const char *theirs = NULL;

	more_work(v);
	for (uint32_t i = 0; i < v->who->setting_count; i++) {
		const struct diagnosis_setting *s = &v->who->setting[i];

		if (!is_known(s->name, s->value) || !common(v, s->name, &theirs) ||
		    !is_known(s->name, theirs))
			continue;
		if (equal(s->value, theirs))
			v->settings_equal++;
		else
			differs(v, s->name, s->value, theirs);
	}
	for (uint32_t i = 0; first && v->who->setting_count && i < first->setting_count; i++) {
		const char *name = first->setting[i].name;

		if (!value_of(v->who, name) && is_known(name, NULL) && common(v, name, &theirs) &&
		    theirs && is_known(name, theirs))
			differs(v, name, NULL, theirs);
	}
}

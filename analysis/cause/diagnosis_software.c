/* SPDX-License-Identifier: Apache-2.0
 * Settings: one that all peers share and the suspect has otherwise. What differs from rank to rank
 * anyway (RANK, a port, a host's name) is left out by that rule, so two peers are needed. A setting
 * is a hint at why kernels or functions differ; alone it explains no time. */
#include <stdio.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"

#define DIFFERENT_TOLD 4u

static bool is_version(const char *name)
{
	static const char *const versions[] = {"cuda", "cupti", "driver", "nccl"};

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
		if (!strcmp(name, versions[i]))
			return true;
	return false;
}

/* A variable that nobody set (NULL) is known to be unset. A version that is not there, or 0, is one that
 * the process has not told yet. */
static bool is_told(const char *name, const char *value)
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

/* What all ranks of the base have; false: they differ among themselves, or are too few. */
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

	if (v->settings_differ++ >= DIFFERENT_TOLD)
		return;
	c = diagnosis_add(v, CAUSE_SW_ENVIRONMENT, 0, 0.2);
	diagnosis_text_copy(c->subject, sizeof(c->subject), name);
	snprintf(c->text, sizeof(c->text), "%.50s is %.70s, %s %.70s", name,
		 mine ? mine : "(not set)",
		 v->in->kind == FINDING_UNIFORM ? "before it was" : "on the peers it is",
		 theirs ? theirs : "(not set)");
	snprintf(c->because, sizeof(c->because), "%s settings differ: %.230s", v->its, c->text);
}

void diagnosis_software_look(struct diagnosis_view *v)
{
	const struct diagnosis_rank *first = v->in->before && v->in->kind == FINDING_UNIFORM
						 ? v->in->before
					     : v->in->peer_count ? &v->in->peer[0]
								 : NULL;
	const char *theirs = NULL;

	for (uint32_t i = 0; i < v->who->setting_count; i++) {
		const struct diagnosis_setting *s = &v->who->setting[i];

		if (!is_told(s->name, s->value) || !common(v, s->name, &theirs) ||
		    !is_told(s->name, theirs))
			continue;
		if (equal(s->value, theirs))
			v->settings_equal++;
		else
			differs(v, s->name, s->value, theirs);
	}
	for (uint32_t i = 0; first && v->who->setting_count && i < first->setting_count; i++) {
		const char *name = first->setting[i].name;

		if (!value_of(v->who, name) && is_told(name, NULL) && common(v, name, &theirs) &&
		    theirs && is_told(name, theirs))
			differs(v, name, NULL, theirs);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/replay_ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/order.h"
#include "base/room.h"
#include "cli/replay/replay_findings.h"
#include "cli/text/intern.h"

struct replay_ranks {
	struct jobsteps_rank *rank; /* we own steps and kernels */
	struct align_rank *clock;
	struct align_job align;
	size_t rank_room, clock_room;
	uint32_t count;
	struct intern names; /* of the whole job; [0] is "" */
	uint64_t findings;
	bool json;
};

struct replay_ranks *replay_ranks_new(void)
{
	return calloc(1, sizeof(struct replay_ranks));
}

static void rank_free(struct jobsteps_rank *r, struct align_rank *a)
{
	free((void *)r->step);
	free((void *)r->kernel);
	free((void *)r->kernel_at);
	free(a->coll);
}

void replay_ranks_free(struct replay_ranks *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->count; i++)
		rank_free(&r->rank[i], &r->clock[i]);
	intern_fini(&r->names);
	free(r->rank);
	free(r->clock);
	free(r);
}

/* ---- intake ---- */

/* The low byte is the operation. */
static uint64_t what_of(const struct replay_trace *t, const struct record *x)
{
	const char *name = t->names.text[x->name];

	return (hash_bytes(HASH_SEED, name, strlen(name)) & ~0xffull) | x->func;
}

static int take_colls(const struct replay_trace *t, struct align_rank *out)
{
	size_t colls = 0;

	for (size_t i = 0; i < t->device_count; i++)
		colls += t->device[i].kind == RECORD_COLL_KERNEL;
	*out = (struct align_rank){.coll = malloc((colls ? colls : 1) * sizeof(*out->coll))};
	if (!out->coll)
		return -ENOMEM;
	for (size_t i = 0; i < t->device_count; i++) {
		const struct record *x = &t->device[i];

		if (x->kind == RECORD_COLL_KERNEL)
			out->coll[out->count++] = (struct align_coll){
			    x->begin_ns, x->end_ns, what_of(t, x), (uint32_t)i, ALIGN_NONE};
	}
	return 0;
}

/* Maps kernel names of the trace to names of the job. */
static int take_names(struct replay_ranks *r, const struct replay_trace *t,
		      struct step_kernel *kernel, uint32_t count)
{
	uint32_t *ids = calloc(t->names.count ? t->names.count : 1, sizeof(*ids));

	if (!ids || intern_text(&r->names, "", REPLAY_LOAD_NAMES_MAX) < 0) {
		free(ids);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t name = kernel[i].name;
		int64_t id = 0;

		if (name && !ids[name])
			id = intern_text(&r->names, t->names.text[name], REPLAY_LOAD_NAMES_MAX);
		ids[name] = id > 0 ? (uint32_t)id : ids[name];
		kernel[i].name = ids[name];
	}
	free(ids);
	return 0;
}

int replay_ranks_add(struct replay_ranks *r, const struct replay_trace *t, struct replay_steps *s)
{
	struct align_rank a = {0};
	int rc;

	for (uint32_t i = 0; i < r->count; i++)
		if (r->rank[i].rank == t->rank) {
			fprintf(stderr, "sysom replay events: two files of rank %d\n", t->rank);
			return -EBADMSG;
		}
	if (r->count == REPLAY_RANKS_MAX || t->device_count > UINT32_MAX ||
	    ROOM_FOR(r->rank, r->rank_room, r->count + 1ull) ||
	    ROOM_FOR(r->clock, r->clock_room, r->count + 1ull))
		return -ENOMEM;
	rc = take_names(r, t, s->kernel, s->kernel_count);
	if (!rc)
		rc = take_colls(t, &a);
	if (rc)
		return rc;
	r->rank[r->count] = (struct jobsteps_rank){.rank = t->rank,
						   .step = s->step,
						   .step_count = s->count,
						   .kernel = s->kernel,
						   .kernel_at = s->kernel_at};
	if (t->device_count) {
		r->rank[r->count].device_begin_ns = t->device[0].begin_ns;
		r->rank[r->count].last_begin_ns = t->device[t->device_count - 1].begin_ns;
	}
	r->clock[r->count++] = a;
	memset(s, 0, sizeof(*s));
	return 0;
}

/* Sorted by rank number. There are few ranks. */
static void ranks_sort(struct replay_ranks *r)
{
	for (uint32_t i = 1; i < r->count; i++)
		for (uint32_t k = i; k && r->rank[k - 1].rank > r->rank[k].rank; k--) {
			struct jobsteps_rank x = r->rank[k];
			struct align_rank a = r->clock[k];

			r->rank[k] = r->rank[k - 1];
			r->clock[k] = r->clock[k - 1];
			r->rank[k - 1] = x;
			r->clock[k - 1] = a;
		}
}

/* ---- collectives ---- */

struct member {
	uint32_t instance, rank;
	uint64_t enter_ns; /* on the common clock */
	uint8_t func;
};

ORDER_BY(member_order, struct member, ORDER_UP(instance) ?: ORDER_UP(rank));

static void print_instance(const struct replay_ranks *r, const struct member *m, uint32_t n,
			   uint32_t seq)
{
	const struct member *first = m, *last = m;

	for (uint32_t i = 1; i < n; i++) {
		first = m[i].enter_ns < first->enter_ns ? &m[i] : first;
		last = m[i].enter_ns > last->enter_ns ? &m[i] : last;
	}
	if (!r->json) {
		printf("%-14s %6u %6u ranks, last in: rank %d, %.3f ms after the first\n",
		       record_coll_name(m->func), seq, n, r->rank[last->rank].rank,
		       (double)(last->enter_ns - first->enter_ns) / 1e6);
		return;
	}
	printf("{\"type\":\"collective\",\"op\":\"%s\",\"seq\":%u,\"enter_ns\":{",
	       record_coll_name(m->func), seq);
	for (uint32_t i = 0; i < n; i++)
		printf("%s\"%d\":\"%" PRIu64 "\"", i ? "," : "", r->rank[m[i].rank].rank,
		       m[i].enter_ns);
	printf("},\"last_rank\":%d,\"spread_ns\":%" PRIu64 "}\n", r->rank[last->rank].rank,
	       last->enter_ns - first->enter_ns);
}

static int print_collectives(const struct replay_ranks *r)
{
	uint32_t seq[256] = {0};
	size_t total = 0, n = 0;
	struct member *v;

	for (uint32_t k = 0; k < r->count; k++)
		total += r->clock[k].count;
	v = malloc((total ? total : 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (uint32_t k = 0; k < r->count; k++)
		for (uint32_t i = 0; i < r->clock[k].count; i++) {
			const struct align_coll *c = &r->clock[k].coll[i];

			if (c->instance != ALIGN_NONE)
				v[n++] = (struct member){
				    c->instance, k, align_to_reference(&r->align, k, c->begin_ns),
				    (uint8_t)c->what};
		}
	qsort(v, n, sizeof(*v), member_order);
	for (size_t i = 0; i < n;) {
		size_t first = i;

		while (i < n && v[i].instance == v[first].instance)
			i++;
		print_instance(r, &v[first], (uint32_t)(i - first), seq[v[first].func]++);
	}
	free(v);
	return 0;
}

static void print_clocks(const struct replay_ranks *r)
{
	for (uint32_t k = 0; k < r->count; k++) {
		const struct align_rank *c = &r->clock[k];

		if (r->json)
			printf(
			    "{\"type\":\"clock\",\"rank\":%d,\"offset_ns\":%.0f,\"drift_ppm\":%.3f,"
			    "\"common\":%u,\"error_ns\":",
			    r->rank[k].rank, c->offset_ns, c->drift * 1e6, c->common);
		else
			printf("clock of rank %d: offset %.0f ns, drift %.3f ppm, error ",
			       r->rank[k].rank, c->offset_ns, c->drift * 1e6);
		if (isfinite(c->error_ns))
			printf("%.0f%s", c->error_ns, r->json ? "" : " ns");
		else
			fputs(r->json ? "null" : "unknown", stdout);
		if (r->json)
			puts("}");
		else
			printf(", by %u common collective%s\n", c->common,
			       c->common == 1 ? "" : "s");
	}
}

/* ---- findings ---- */

static void print_finding(void *to, const struct crossrank_finding *f)
{
	struct replay_findings_extra extra = {.has_sure_step = true, .sure_step = f->sure_step};
	struct replay_ranks *r = to;

	r->findings++;
	if (r->json)
		replay_findings_json(stdout, &f->finding, &extra);
	else
		replay_findings_text(stdout, &f->finding, &extra);
}

static int print_before(struct replay_ranks *r, const struct crossrank_job *job,
			struct replay_ranks *before)
{
	struct align_job align = {.rank = before->clock, .rank_count = before->count};
	struct jobsteps steps = {.rank = before->rank,
				 .rank_count = before->count,
				 .align = &align,
				 .name_count = before->names.count};
	struct crossrank_job earlier = {.steps = &steps,
					.name = (const char *const *)before->names.text};
	int rc;

	ranks_sort(before);
	rc = align_job(&align);
	if (rc)
		return rc;
	rc = jobsteps_make(&steps);
	if (!rc)
		rc = crossrank_compare(job, &earlier, print_finding, r);
	jobsteps_fini(&steps);
	return rc;
}

static int print_findings(struct replay_ranks *r, struct replay_ranks *before, enum peers_mode mode)
{
	struct jobsteps steps = {.rank = r->rank,
				 .rank_count = r->count,
				 .align = &r->align,
				 .name_count = r->names.count};
	struct crossrank_job job = {.steps = &steps, .name = (const char *const *)r->names.text};
	int rc = jobsteps_make(&steps);

	if (!rc)
		rc = crossrank_find(&job, mode, print_finding, r);
	if (!rc && before && before->count)
		rc = print_before(r, &job, before);
	jobsteps_fini(&steps);
	return rc == -ENODATA ? 0 : rc;
}

int replay_ranks_print(struct replay_ranks *r, struct replay_ranks *before, enum peers_mode mode,
		       bool json, uint64_t *findings)
{
	int rc = 0;

	r->json = json;
	r->findings = 0;
	if (findings)
		*findings = 0;
	if (!r->count)
		return 0;
	ranks_sort(r);
	r->align = (struct align_job){.rank = r->clock, .rank_count = r->count};
	rc = align_job(&r->align);
	if (!json && r->count > 1)
		printf("\n");
	if (!rc && r->count > 1)
		rc = print_collectives(r);
	if (!rc)
		print_clocks(r);
	if (!rc && findings) {
		rc = print_findings(r, before, mode);
		*findings = r->findings;
	}
	return rc;
}

const struct align_job *replay_ranks_align(const struct replay_ranks *r)
{
	return &r->align;
}

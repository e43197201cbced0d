/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ledger/ledger.h"
#include "base/order.h"
#include "model/thresholds.h"
#include "cli/plots/plot_axes.h"
#include "cli/plots/plots.h"
#include "cli/report/kernel_diff.h"
#include "model/kernel_name.h"
#include "render/escape.h"
#include "render/incident_verdict.h"
#include "render/term.h"

#define LANES_MAX   6u	/* GPU streams of a step, the busiest ones */
#define STREAMS_MAX 64u /* that are looked at */
#define LANE	    20.0
#define HEAD	    24.0
/* What lies closer together than this share of the axis is drawn as one. */
#define JOIN 1e-3

struct stream {
	uint32_t device, stream;
	uint64_t busy_ns;
};

struct side {
	const struct trace_rank *r;
	const struct window_step *step;
	uint64_t begin_ns, end_ns; /* of its latency */
	const char *what;	   /* "slow", "healthy" */
	uint32_t launch_tid;
	struct stream stream[STREAMS_MAX];
	uint32_t streams;
};

/* A run of things of one class. */
struct run {
	const char *class, *name;
	uint64_t begin_ns, end_ns, busy_ns;
	unsigned count;
};

struct lane {
	const struct plot_axes *p;
	const struct side *s;
	const json_t *causes; /* the accounts that the verdict rests on */
	double y;
	struct run run;
};

/* ---- which steps ---- */

ORDER_BY(by_latency, const struct window_step *,
	 ORDER((*a)->step.latency_ns, (*b)->step.latency_ns)
	     ?: ORDER((*a)->step.index, (*b)->step.index));

/* How much the work of two steps differs, by their expected latencies; 0: not known. */
static double differs(const struct window_step *s, const struct window_step *from)
{
	return from->expected_ns > 0 ? fabs(s->expected_ns / from->expected_ns - 1) : 0;
}

/* The median slow step or, with `like`, the median healthy step with as much work. It must have all its
 * records and a next step, within which the host may still launch and wait for its work. */
static const struct window_step *typical(const struct trace_rank *r, const struct window_step *like)
{
	const struct window_step **list = calloc(r->step_count + 1, sizeof(*list)), *found = NULL;
	double least = HUGE_VAL;
	size_t counts[2] = {0, 0}, n = 0, alike = 0;
	uint8_t *whole = kernel_diff_whole(r, &counts[0], &counts[1]);

	for (size_t i = 0; list && whole && i + 1 < r->step_count; i++)
		if (whole[i] && r->steps[i + 1].step.index == r->steps[i].step.index + 1 &&
		    (like ? trace_step_is_healthy : trace_step_is_slow)(&r->steps[i]))
			list[n++] = &r->steps[i];
	for (size_t i = 0; like && i < n; i++)
		least = fmin(least, differs(list[i], like));
	for (size_t i = 0; i < n; i++)
		if (!like || differs(list[i], like) <= fmax(least, thresholds.part.little))
			list[alike++] = list[i];
	if (alike) {
		qsort(list, alike, sizeof(*list), by_latency);
		found = list[alike / 2];
	}
	free(whole);
	free(list);
	return found;
}

static const struct window_step *same_time(const struct trace_rank *r, const struct window_step *s)
{
	ptrdiff_t at = trace_model_step_at(r, s->step.begin_ns / 2 + s->step.end_ns / 2);

	return at >= 0 && r->device_count ? &r->steps[at] : NULL;
}

/* ---- what they consist of ---- */

static bool is_in(const struct record *d, const struct side *s)
{
	return d->end_ns > s->begin_ns && d->begin_ns < s->end_ns;
}

/* The thread that launched most in the step. */
static uint32_t launch_thread(const struct side *s)
{
	struct {
		uint32_t tid, count;
	} of[16] = {{0}};
	uint32_t best = 0, n = 0;

	for (size_t i = 0; i < s->r->host_count; i++) {
		const struct record *h = &s->r->host[i];
		uint32_t k = 0;

		if ((h->kind != RECORD_LAUNCH && h->kind != RECORD_GRAPH_LAUNCH) || !is_in(h, s))
			continue;
		while (k < n && of[k].tid != h->thread)
			k++;
		if (k == sizeof(of) / sizeof(*of))
			continue;
		n = k == n ? n + 1 : n;
		of[k].tid = h->thread;
		if (++of[k].count > of[best].count)
			best = k;
	}
	return of[best].tid;
}

ORDER_BY(by_busy, struct stream, ORDER_DOWN(busy_ns) ?: ORDER_UP(device) ?: ORDER_UP(stream));

static void side_make(struct side *out, const struct trace_rank *r, const struct window_step *s,
		      const char *what)
{
	/* the GPU's latency counts from the end of the step before */
	bool device = step_ends_on_device(&s->step) && s->step.device_end_ns > s->step.latency_ns;

	*out = (struct side){.r = r, .step = s, .what = what};
	out->end_ns = device ? s->step.device_end_ns : s->step.end_ns;
	out->begin_ns =
	    out->end_ns - (device ? s->step.latency_ns : s->step.end_ns - s->step.begin_ns);
	out->launch_tid = launch_thread(out);
	for (size_t i = 0; i < r->device_count; i++) {
		const struct record *d = &r->device[i];
		uint32_t k = 0;

		if (!is_in(d, out))
			continue;
		while (k < out->streams &&
		       (out->stream[k].stream != d->stream || out->stream[k].device != d->thread))
			k++;
		if (k == STREAMS_MAX)
			continue;
		if (k == out->streams)
			out->stream[out->streams++] = (struct stream){d->thread, d->stream, 0};
		out->stream[k].busy_ns += d->end_ns - d->begin_ns;
	}
	ORDER_SORT(out->stream, out->streams, by_busy);
	out->streams = out->streams < LANES_MAX ? out->streams : LANES_MAX;
}

/* ---- drawing ---- */

static void put_run(struct lane *l)
{
	const struct run *r = &l->run;
	const struct plot_axes *p = l->p;
	double begin = (double)(r->begin_ns - l->s->begin_ns) / 1e6,
	       end = (double)(r->end_ns - l->s->begin_ns) / 1e6;
	double x = plot_axes_x(p, begin), width = plot_axes_x(p, end) - x;

	if (!r->count)
		return;
	fprintf(
	    p->to,
	    "<rect class=\"%s\" x=\"%.3f%%\" y=\"%.1f\" width=\"%.3f%%\" height=\"%.1f\"><title>",
	    r->class, x, l->y, width > 0.1 ? width : 0.1, LANE - 5);
	if (r->count > 1)
		fprintf(p->to, "%u times ", r->count);
	escape_html(p->to, r->name);
	fprintf(p->to, ": %s</title></rect>\n", term_ms((double)r->busy_ns / 1e6));
	l->run.count = 0;
}

/* An account's name may be cut, and ends with the launch configuration. */
static bool is_of_kernel(const char *account, const char *kernel)
{
	size_t n = kernel_name_bytes(account);

	return n && !strncmp(account, kernel, n) && (!account[n] || !kernel[n]);
}

/* "hot" for the accounts of the verdict, else class. kernel: NULL if it is none. */
static const char *class_for(const struct lane *l, enum ledger_kind kind, const char *kernel,
			     const char *class)
{
	const json_t *row;
	size_t i;

	json_array_foreach ((json_t *)l->causes, i, row)
		if (!strcmp(jsonget_text(row, "account"), ledger_kind_name(kind)) &&
		    (!kernel || is_of_kernel(jsonget_text(row, "name"), kernel)))
			return "hot";
	return class;
}

static void add(struct lane *l, const char *class, const char *name, uint64_t begin_ns,
		uint64_t end_ns)
{
	uint64_t first = l->s->begin_ns, last = l->s->end_ns;
	uint64_t join_ns = (uint64_t)((l->p->x.hi - l->p->x.lo) * 1e6 * JOIN);
	struct run *r = &l->run;

	begin_ns = begin_ns < first ? first : begin_ns;
	end_ns = end_ns > last ? last : end_ns;
	if (end_ns < begin_ns)
		return;
	if (r->count && (r->class != class || begin_ns > r->end_ns + join_ns))
		put_run(l);
	if (!r->count)
		*r = (struct run){.class = class, .begin_ns = begin_ns, .end_ns = begin_ns};
	r->name = name;
	r->end_ns = end_ns > r->end_ns ? end_ns : r->end_ns;
	r->busy_ns += end_ns - begin_ns;
	r->count++;
}

static void put_label(const struct lane *l, const char *text)
{
	fprintf(l->p->to,
		"<rect class=\"cellbg\" x=\"0\" y=\"%.1f\" width=\"100%%\" height=\"%.1f\"/>"
		"<text x=\"-6\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		l->y, LANE - 5, l->y + 12, text);
}

/* What kept the thread off the CPU; several short intervals in one record have no place of their own. */
static void put_switches(struct lane *l)
{
	const struct stack_batch *b = &l->s->r->stacks;
	int64_t offset = l->s->r->realtime_offset_ns;

	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];
		uint64_t woken = s->state == STACK_SWITCH_RUNNABLE ? s->out_ns
				 : s->woken_ns			   ? s->woken_ns
								   : s->in_ns;

		if (s->tid != l->s->launch_tid || s->flags & STACK_SWITCH_FOLDED)
			continue;
		if (woken > s->out_ns)
			add(l, class_for(l, LEDGER_BLOCKED, NULL, "blk"), "blocked",
			    s->out_ns + (uint64_t)offset, woken + (uint64_t)offset);
		if (s->in_ns > woken)
			add(l, class_for(l, LEDGER_RUNNABLE, NULL, "bar"), "waits for a CPU",
			    woken + (uint64_t)offset, s->in_ns + (uint64_t)offset);
	}
	put_run(l);
}

static void put_host(struct lane *l)
{
	const struct side *s = l->s;

	put_label(l, "host");
	put_switches(l);
	for (int pass = 0; pass < 2; pass++) { /* calls above waits */
		for (size_t i = 0; i < s->r->host_count; i++) {
			const struct record *h = &s->r->host[i];
			bool wait = h->kind == RECORD_SYNC,
			     call = record_is_launch(h) || h->kind == RECORD_COPY_CALL;

			if (h->thread == s->launch_tid && is_in(h, s) && (pass ? call : wait))
				add(l, pass ? "call" : "dot", pass ? "launch" : "wait for the GPU",
				    h->begin_ns, h->end_ns);
		}
		put_run(l);
	}
}

static const char *class_of(const struct lane *l, const struct record *d, const char *name)
{
	return d->kind == RECORD_COLL_KERNEL ? class_for(l, LEDGER_COLLECTIVE, NULL, "ok")
	       : d->kind == RECORD_COPY || d->kind == RECORD_MEMSET
		   ? class_for(l, LEDGER_COPY, NULL, "cpy")
		   : class_for(l, LEDGER_COMPUTE, name, "cold");
}

static void put_stream(struct lane *l, const struct trace_model *m, const struct stream *q)
{
	const struct side *s = l->s;
	char text[40];

	snprintf(text, sizeof(text), "stream %u", q->stream);
	put_label(l, text);
	for (size_t i = 0; i < s->r->device_count; i++) {
		const struct record *d = &s->r->device[i];
		const char *name = d->name < m->names.count ? m->names.text[d->name] : "";

		if (d->stream == q->stream && d->thread == q->device && is_in(d, s))
			add(l, class_of(l, d, name), *name ? name : "copy", d->begin_ns, d->end_ns);
	}
	put_run(l);
}

static double side_height(const struct side *s)
{
	return HEAD + LANE * (1 + s->streams);
}

static void put_side(const struct plot_axes *p, const struct trace_model *m, const struct side *s,
		     const json_t *causes, double y)
{
	struct lane l = {.p = p, .s = s, .causes = causes, .y = y + HEAD};
	double end = plot_axes_x(p, (double)s->step->step.latency_ns / 1e6);

	fprintf(p->to, "<text x=\"0\" y=\"%.1f\">%s, step %llu, %s: %s</text>\n", y + 17,
		term_rank(s->r->who.rank), (unsigned long long)s->step->step.index, s->what,
		term_ms((double)s->step->step.latency_ns / 1e6));
	put_host(&l);
	for (uint32_t k = 0; k < s->streams; k++) {
		l.y += LANE;
		put_stream(&l, m, &s->stream[k]);
	}
	fprintf(p->to,
		"<line class=\"end\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>\n", end,
		end, y + HEAD - 3, y + side_height(s) - 2);
}

static void put_keys(FILE *to)
{
	static const char *const keys[][2] = {{"hot", "the verdict's cause"},
					      {"call", "launches"},
					      {"dot", "waits for the GPU"},
					      {"blk", "blocked"},
					      {"bar", "waits for a CPU"},
					      {"cold", "kernels"},
					      {"cpy", "copies"},
					      {"ok", "collectives"}};

	fputs("<p class=\"dim\">", to);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		plot_axes_key(to, keys[i][0], keys[i][1]);
	fputs("</p>\n", to);
}

void plots_timeline(FILE *to, const json_t *in, const struct trace_model *m,
		    const struct trace_rank *culprit, const struct trace_rank *peer)
{
	const json_t *ledger = json_object_get(incident_verdict_at(in, 0), "ledger");
	const struct window_step *slow = typical(culprit, NULL),
				 *healthy = slow ? typical(culprit, slow) : NULL;
	const struct trace_rank *other = culprit;
	struct side side[2];
	struct plot_axes p = {.to = to, .unit = "", .scale = 1};
	double hi;
	int sides = 1;

	if (!slow)
		return;
	if (!healthy && peer) {
		healthy = same_time(peer, slow);
		other = peer;
	}
	side_make(&side[0], culprit, slow, "slow");
	hi = (double)slow->step.latency_ns / 1e6;
	p.height = side_height(&side[0]);
	if (healthy) {
		side_make(&side[sides++], other, healthy, other == culprit ? "healthy" : "peer");
		p.height += side_height(&side[1]);
		hi = hi > (double)healthy->step.latency_ns / 1e6
			 ? hi
			 : (double)healthy->step.latency_ns / 1e6;
	}
	if (!(hi > 0))
		return;
	plot_axes_span(&p.x, 0, hi, 5);
	fprintf(
	    to,
	    "<section id=\"timeline\">\n<h2>A slow step in detail</h2>\n<p class=\"dim\">Launch "
	    "thread and GPU of the median slow step%s%s. The vertical line is the "
	    "step's end.</p>\n",
	    !healthy ? "; there are no records of a healthy step" : ", above ",
	    !healthy	       ? ""
	    : other == culprit ? "the median healthy step of the same rank with similar work"
			       : "a healthy peer's step at the same time");
	put_keys(to);
	plot_axes_begin(&p, "timeline", "launch thread and GPU streams of a slow step",
			"ms since the step before ended");
	for (int k = 0; k < sides; k++)
		put_side(&p, m, &side[k], k ? NULL : json_object_get(ledger, "explained_by"),
			 k ? side_height(&side[0]) : 0);
	plot_axes_end(&p);
	fputs("</section>\n", to);
}

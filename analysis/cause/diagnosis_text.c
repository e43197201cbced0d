/* SPDX-License-Identifier: Apache-2.0
 * Writes numbers and remedies. The catalogue's remedies are general. If a signal names an
 * interrupt, a process or a lock, the remedy names it too, so that nobody has to search for it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"

#define PACKETS_OF ", packets of "

const char *diagnosis_text_ms(double ns, struct diagnosis_number *t)
{
	return text_duration(ns, t->text);
}

const char *diagnosis_text_cpu(const char *subject, uint32_t cpu)
{
	const char *last = "", *at = subject;
	char words[32];

	if (!cpu)
		return last;
	snprintf(words, sizeof(words), " on CPU %u", cpu - 1);
	for (; (at = strstr(at, words)); at++)
		last = at;
	return last;
}

static const struct os_signal *line_of(const struct diagnosis_view *v)
{
	for (uint32_t i = 0; i < v->who->signal_count; i++)
		if (!strcmp(v->who->signal[i].name, os_signal_info(OS_SIGNAL_IRQ_LINE)->name) &&
		    v->who->signal[i].flags & OS_SIGNAL_RAISED)
			return &v->who->signal[i];
	return NULL;
}

static void interrupt(const struct diagnosis_view *v, const struct diagnosis_candidate *c,
		      char *out, size_t bytes)
{
	const struct os_signal *line = line_of(v);
	/* the device whose packets cause NET_RX */
	const char *from = strstr(diagnosis_text_cpu(c->subject, c->cpu), PACKETS_OF);
	int n = line ? (int)strspn(line->subject, "0123456789") : 0;

	if (n)
		snprintf(
		    out, bytes,
		    "move interrupt %.60s to another CPU (/proc/irq/%.*s/smp_affinity_list), or "
		    "pin the thread elsewhere",
		    line->subject, n, line->subject);
	else if (from)
		snprintf(
		    out, bytes,
		    "take CPU %u out of the smp_affinity and rps_cpus of %.60s, or pin the thread "
		    "elsewhere",
		    c->cpu - 1, from + strlen(PACKETS_OF));
	else if (c->cpu)
		snprintf(out, bytes,
			 "take CPU %u out of the interrupt's smp_affinity and of the receive "
			 "queues' rps_cpus, or pin the thread elsewhere",
			 c->cpu - 1);
	else
		snprintf(out, bytes, "%s", finding_cause_remedy(c->cause));
}

void diagnosis_text_remedy(const struct diagnosis_view *v, const struct diagnosis_candidate *c,
			   char *out, size_t bytes)
{
	const char *also;

	switch (c->cause) {
	case CAUSE_OS_SOFTIRQ:
	case CAUSE_OS_IRQ:
		interrupt(v, c, out, bytes);
		return;
	case CAUSE_OS_RUN_QUEUE:
		if (c->subject[0]) {
			snprintf(out, bytes,
				 "move %.100s to other CPUs, or give the rank CPUs of its own",
				 c->subject);
			return;
		}
		break;
	case CAUSE_OS_LOCK:
		also = strstr(c->subject, "shared with ");
		if (also) {
			snprintf(out, bytes, "stop or move %.100s, which takes the same lock",
				 also + strlen("shared with "));
			return;
		}
		also = strstr(c->subject, "also ");
		if (also) {
			snprintf(out, bytes, "stop or move %.100s, which takes the same lock",
				 also + strlen("also "));
			return;
		}
		break;
	case CAUSE_CPU_GIL:
		if (c->subject[0]) {
			snprintf(out, bytes, "move %.120s into a process of its own", c->subject);
			return;
		}
		break;
	case CAUSE_CPU_FUNCTION:
	case CAUSE_CPU_PYTHON:
		if (!c->subject[0])
			break;
		snprintf(out, bytes,
			 "look at %.110s in the differential flame graph; compare the ranks with "
			 "sysom diff",
			 c->subject);
		return;
	case CAUSE_SW_HOT_PATH: /* A healthy earlier run has no window, only a baseline. */
		if (!c->subject[0])
			break;
		snprintf(out, bytes,
			 "look at what calls %.100s; compare with an earlier run: sysom diff "
			 "baseline:JOB ID",
			 c->subject);
		return;
	default:
		break;
	}
	snprintf(out, bytes, "%s", finding_cause_remedy(c->cause));
}

/* length of " and -2147483648" or " and 4294967295 more", with room */
#define WHO_ONE_BYTES 36u

void diagnosis_ranks_text(const struct diagnosis_rank *rank, uint32_t count, char *out,
			  size_t bytes)
{
	uint32_t named = 1;
	struct rank_name one;
	size_t used;

	if (count < 2) {
		text_copy(out, bytes, count ? rank_name(rank->rank, &one) : "every rank");
		return;
	}
	snprintf(out, bytes, "ranks %d", rank->rank);
	used = strlen(out);
	/* leave room for the longest rank number, and for the count of the rest */
	for (; named < count && named < 6 && used + WHO_ONE_BYTES < bytes; named++)
		used += (size_t)snprintf(out + used, bytes - used, "%s%d",
					 named + 1 == count ? " and " : ", ", rank[named].rank);
	if (count > named)
		snprintf(out + used, bytes - used, " and %u more", count - named);
}

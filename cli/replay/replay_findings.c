/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/replay_findings.h"

#include <inttypes.h>

#include "base/text/json_text.h"
#include "base/text/text.h"
#include "render/term.h"

#define TEXT_RANKS 16u /* the most that text names; JSON names all */

void replay_findings_json(FILE *to, const struct finding *f,
			  const struct replay_findings_extra *extra)
{
	fputs("{\"type\":\"finding\",\"ranks\":[", to);
	for (uint32_t i = 0; i < f->rank_count; i++)
		fprintf(to, "%s%" PRId32, i ? "," : "", f->ranks[i]);
	fprintf(
	    to,
	    "],\"first_step\":%" PRIu64 ",\"last_step\":%" PRIu64
	    ",\"kind\":\"%s\",\"layer\":\"%s\",\"cause\":\"%s\",\"excess\":%.6f,\"confidence\":%.3f"
	    ",\"effect_ns\":%.1f,\"title\":",
	    f->first_step, f->last_step, finding_kind_name(f->kind),
	    finding_layer_name(finding_cause_layer(f->cause)), finding_cause_id(f->cause),
	    text_finite(f->excess), text_finite(f->confidence), text_finite(f->effect_ns));
	json_text_print(to, "", finding_cause_title(f->cause));
	json_text_print(to, ",\"remedy\":", finding_cause_remedy(f->cause));
	if (extra && extra->has_sure_step)
		fprintf(to, ",\"sure_step\":%" PRIu64, extra->sure_step);
	if (extra && extra->window)
		fprintf(to, ",\"window\":%" PRIu32, extra->window);
	if (extra && extra->measure)
		json_text_print(to, ",\"measure\":", extra->measure);
	fputs(",\"evidence\":[", to);
	for (uint32_t i = 0; i < f->evidence_count; i++) {
		const struct finding_line *l = &f->evidence[i];

		fprintf(to, "%s{\"layer\":\"%s\",\"effect_ns\":%.1f,\"text\":", i ? "," : "",
			finding_layer_name(l->layer), text_finite(l->effect_ns));
		json_text_print(to, "", l->text);
		fputc('}', to);
	}
	fputs("]}\n", to);
}

static void say_ranks(FILE *to, const struct finding *f)
{
	if (!f->rank_count) {
		fputs("all ranks", to);
		return;
	}
	fputs(f->rank_count == 1 ? "rank" : "ranks", to);
	for (uint32_t i = 0; i < f->rank_count && i < TEXT_RANKS; i++)
		fprintf(to, "%s %" PRId32, i ? "," : "", f->ranks[i]);
	if (f->rank_count > TEXT_RANKS)
		fprintf(to, " and %" PRIu32 " more", f->rank_count - TEXT_RANKS);
}

void replay_findings_text(FILE *to, const struct finding *f,
			  const struct replay_findings_extra *extra)
{
	static const char *const said[] = {"unknown", "slow", "slower than before", "hang",
					   "imbalance (of a role; no rank is faulty)"};

	say_ranks(to, f);
	fprintf(to, ": %s, steps %" PRIu64 " to %" PRIu64,
		said[(unsigned)f->kind <= FINDING_IMBALANCE ? f->kind : 0], f->first_step,
		f->last_step);
	if (f->excess > 0)
		fprintf(to, ", %+.2f%% (%.3f ms per step)", 100 * f->excess, f->effect_ns / 1e6);
	fprintf(to, ", confidence %.2f\n", f->confidence);
	if (f->cause != CAUSE_UNKNOWN)
		fprintf(to, "  %s: %s (%s)\n", finding_layer_name(finding_cause_layer(f->cause)),
			finding_cause_title(f->cause), finding_cause_id(f->cause));
	for (uint32_t i = 0; i < f->evidence_count; i++)
		fprintf(to, "  - %s\n", term_safe(f->evidence[i].text, FINDING_TEXT_BYTES));
	if (extra && extra->has_sure_step)
		fprintf(to, "  - certain after step %" PRIu64 "\n", extra->sure_step);
	if (f->cause != CAUSE_UNKNOWN)
		fprintf(to, "  remedy: %s\n", finding_cause_remedy(f->cause));
}

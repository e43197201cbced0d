/* SPDX-License-Identifier: Apache-2.0 */
#include "model/window.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/sorted.h"
#include "base/text/json_text.h"

const char *const window_pod_keys[POD_TEXTS] = {
    [POD_NAMESPACE] = "namespace",
    [POD_NAME] = "pod",
    [POD_CONTAINER] = "container",
    [POD_HOST] = "hostname",
};

void window_pod_json(const struct wire_pod *pod, struct buf *out)
{
	char before[24];

	for (int k = 0; k < POD_TEXTS; k++) {
		snprintf(before, sizeof(before), ",\"%s\":", window_pod_keys[k]);
		json_text_append(out, before, pod->text[k]);
	}
}

const char *window_pod_host(const struct wire_pod *pod, const char *node)
{
	return *pod->text[POD_HOST] ? pod->text[POD_HOST] : node;
}

static const struct {
	const char *name, *title;
	unsigned says;
} reasons[] = {
    [WINDOW_SELF] = {"self", "slow itself", WINDOW_SAYS_OWN},
    [WINDOW_COMM] = {"comm", "waits for others", WINDOW_SAYS_WAITS},
    [WINDOW_DRIFT] = {"drift", "slower than before", WINDOW_SAYS_OWN | WINDOW_SAYS_LASTS},
    [WINDOW_STALL] = {"stall", "makes no steps", WINDOW_SAYS_OWN | WINDOW_SAYS_LASTS},
    [WINDOW_ASKED] = {"asked", "requested", WINDOW_SAYS_AGAIN},
    [WINDOW_MANUAL] = {"manual", "captured by a user", WINDOW_SAYS_AGAIN},
    [WINDOW_PEER] = {"peer", "slower than its peers", WINDOW_SAYS_OWN | WINDOW_SAYS_LASTS},
};

unsigned window_reason_says(unsigned reason)
{
	return reason < ARRAY_LEN(reasons) ? reasons[reason].says : 0;
}

const char *window_reason_name(unsigned reason)
{
	return window_reason_says(reason) ? reasons[reason].name : "unknown";
}

uint32_t window_slow_flag(const struct window *w)
{
	uint32_t flags = 0;

	for (uint32_t i = 0; i < w->step_count; i++)
		flags |= w->steps[i].flags;
	return flags & WINDOW_STEP_FLAGGED ? WINDOW_STEP_FLAGGED : flags & WINDOW_STEP_OUT;
}

bool window_transients_count(const struct window *w, uint32_t slow_flags)
{
	for (uint32_t i = 0; i < w->step_count; i++)
		if (w->steps[i].flags & slow_flags && !window_step_is_transient(&w->steps[i]))
			return false;
	return true;
}

const char *window_reason_title(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].name && !strcmp(reasons[i].name, name))
			return reasons[i].title;
	return name;
}

uint32_t window_step_at(const struct window *w, uint64_t t)
{
	uint32_t at =
	    w->step_count ? (uint32_t)SORTED_ABOVE(w->steps, w->step_count, step.end_ns, t) : 0;

	return at < w->step_count && w->steps[at].step.begin_ns <= t ? at : w->step_count;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/window.h"

#include <stdio.h>

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

const char *window_reason_name(unsigned reason)
{
	switch ((enum window_reason)reason) {
	case WINDOW_SELF:
		return "self";
	case WINDOW_COMM:
		return "comm";
	case WINDOW_DRIFT:
		return "drift";
	case WINDOW_STALL:
		return "stall";
	case WINDOW_ASKED:
		return "asked";
	case WINDOW_MANUAL:
		return "manual";
	case WINDOW_PEER:
		return "peer";
	}
	return "unknown";
}

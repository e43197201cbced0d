/* SPDX-License-Identifier: Apache-2.0 */
#include "model/window.h"

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

/* SPDX-License-Identifier: Apache-2.0
 * wrap_cupti.c - detects other users of CUPTI, so that we yield before their call runs. Our own
 * calls into CUPTI, and CUPTI's calls into itself, are only forwarded. */
#include <stddef.h>

#include "cupti/cupti_client.h"
#include "preload/hooks.h"
#include "preload/tracer.h"

/* Whether another user makes this call. */
static bool wrap_rival(void)
{
	if (tracer_is_dead() || tracer_inside_bits & (TRACER_IN_SYSOM | TRACER_IN_DRIVER))
		return false;
	tracer_inside_bits |= TRACER_IN_SYSOM;
	return true;
}

#define WRAP_CUPTI(name, params, args, before) WRAP_CUPTI_BOTH(name, params, args, before, (void)0)
#define WRAP_CUPTI_BOTH(name, params, args, before, after)                                         \
	cupti_result wrap_##name params;                                                           \
	cupti_result wrap_##name params                                                            \
	{                                                                                          \
		cupti_result(*real) params = hooks_get(HOOK_ID_##name);                            \
		bool rival = wrap_rival();                                                         \
		cupti_result res = CUPTI_NOT_INITIALIZED_;                                         \
                                                                                                   \
		if (rival)                                                                         \
			before;                                                                    \
		if (real)                                                                          \
			res = real args;                                                           \
		if (rival) {                                                                       \
			after;                                                                     \
			tracer_inside_bits &= ~(uint32_t)TRACER_IN_SYSOM;                          \
		}                                                                                  \
		return res;                                                                        \
	}                                                                                          \
	HOOKS_EXPORT(name)

WRAP_CUPTI(cuptiSubscribe, (cupti_subscriber * out, void *callback, void *user),
	   (out, callback, user), cupti_client_rival_subscribes());
WRAP_CUPTI_BOTH(cuptiSubscribe_v2,
		(cupti_subscriber * out, void *callback, void *user, void *params),
		(out, callback, user, params), cupti_client_rival_subscribes_v2(params),
		cupti_client_rival_subscribed_v2(params, out ? *out : NULL, res));
WRAP_CUPTI(cuptiUnsubscribe, (cupti_subscriber s), (s), cupti_client_rival_unsubscribes(s));
WRAP_CUPTI(cuptiFinalize, (void), (), cupti_client_rival_finalizes());
WRAP_CUPTI(cuptiActivityRegisterCallbacks,
	   (cupti_buffer_requested_fn requested, cupti_buffer_completed_fn completed),
	   (requested, completed), cupti_client_rival_callbacks(&requested, &completed));
WRAP_CUPTI(cuptiActivityRegisterTimestampCallback, (cupti_timestamp_fn fn), (fn),
	   cupti_client_rival_clock(fn));
WRAP_CUPTI(cuptiActivityEnable, (uint32_t kind), (kind), cupti_client_rival_enables(kind));
WRAP_CUPTI(cuptiActivityEnableContext, (void *context, uint32_t kind), (context, kind),
	   cupti_client_rival_enables(kind));
WRAP_CUPTI(cuptiActivityDisable, (uint32_t kind), (kind), cupti_client_rival_disables(kind));
WRAP_CUPTI(cuptiActivityDisableContext, (void *context, uint32_t kind), (context, kind),
	   cupti_client_rival_disables(kind));

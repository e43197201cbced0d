/* SPDX-License-Identifier: Apache-2.0
 * wrap.h - the frame of every wrapper of a driver or NCCL function. INV-1 to INV-3: it calls the real
 * function exactly once with the caller's arguments, returns its result and keeps errno. */
#pragma once

#include "preload/hooks.h"
#include "preload/tracer.h"

/* WRAP(type of the result, result without the real function, the thread's mark during the call, name,
 * enter, (parameters), (arguments), after, before). enter: tracer_enter_...(&push). `before` may use
 * `from`, its time, and `push`, whether to push events; `after` also `res`. Neither runs for calls
 * that enter refuses. `before` comes last because it may contain commas. */
#define WRAP(type, unknown, mark, name, enter, params, args, after, ...)                           \
	type wrap_##name params;                                                                   \
	type wrap_##name params                                                                    \
	{                                                                                          \
		type(*real) params = hooks_get(HOOK_ID_##name);                                    \
		uint64_t from;                                                                     \
		type res;                                                                          \
		bool push;                                                                         \
                                                                                                   \
		if (__builtin_expect(!real, 0))                                                    \
			return unknown;                                                            \
		if (__builtin_expect(!(enter), 0))                                                 \
			return real args;                                                          \
		from = tracer_now();                                                               \
		__VA_ARGS__;                                                                       \
		res = real args;                                                                   \
		after;                                                                             \
		tracer_leave(mark);                                                                \
		return res;                                                                        \
	}                                                                                          \
	HOOKS_EXPORT(name)

/* A function of the driver's that launches nothing. */
#define WRAP_DRIVER(name, params, args, before, after)                                             \
	WRAP(cu_result, CU_NOT_FOUND, TRACER_IN_DRIVER, name, tracer_enter_driver(&push), params,  \
	     args, after, before)

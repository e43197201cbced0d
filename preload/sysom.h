/* SPDX-License-Identifier: Apache-2.0
 * sysom.h - marks steps (training steps, iterations of an inference engine) and named spans.
 *
 * Nothing has to be linked: libsysom_preload.so exports these names when a job runs under
 * `sysom run`. Otherwise they do not exist. Without the calls sysom finds the steps by itself.
 *
 * From C, by dlsym, so that the program also runs without sysom:
 *
 *	void (*begin)(const double *, unsigned) =
 *		(void (*)(const double *, unsigned))dlsym(RTLD_DEFAULT, "sysom_step_begin");
 *	if (begin)
 *		begin((double[]){ batch, tokens }, 2);
 *
 * From Python, by ctypes:
 *
 *	lib = ctypes.CDLL(None)
 *	if hasattr(lib, "sysom_step_begin"):
 *		lib.sysom_step_begin((ctypes.c_double * 2)(batch, tokens), 2)
 *		...
 *		lib.sysom_step_end()
 *
 * All calls may come from any thread, cost a few tens of nanoseconds, never fail and never block. The
 * first one in a process starts sysom's helper thread. */
#ifndef SYSOM_H
#define SYSOM_H

#ifdef __cplusplus
extern "C" {
#endif

/* A step begins. work says how much there is to do, in units that the latency should grow with:
 * batch size, prefill tokens, decode tokens, sequence length... Up to four values, with the same
 * meaning in each step; NULL and 0 for none. A value that is negative, above 1e15 or not a number
 * counts as 0, and sysom doctor says so. Steps do not nest: a call inside a step ends that step. */
void sysom_step_begin(const double *work, unsigned count);
/* The host has issued all work of the step; the GPU may still be busy with it. */
void sysom_step_end(void);
/* A named range of host time on the calling thread; spans nest. The text is copied. */
void sysom_span_begin(const char *name);
void sysom_span_end(void);

#ifdef __cplusplus
}
#endif
#endif

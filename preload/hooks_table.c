/* SPDX-License-Identifier: Apache-2.0
 * hooks_table.c - the table generated from hooks.def. Separate from hooks.c, because it declares
 * every wrapper without its type. */
#include "preload/hooks.h"

#define HOOK(symbol, library, lookup, ptsz, first, end) extern char wrap_##symbol[];
#include "preload/hooks.def"
#undef HOOK

const struct hook hooks_table[HOOK_ID_COUNT] = {
#define HOOK(symbol, library, lookup, ptsz, first, end)                                            \
	{#symbol,                                                                                  \
	 #lookup,                                                                                  \
	 wrap_##symbol,                                                                            \
	 sizeof(#symbol) - 1,                                                                      \
	 sizeof(#lookup) - 1,                                                                      \
	 HOOK_##library,                                                                           \
	 ptsz,                                                                                     \
	 first,                                                                                    \
	 end},
#include "preload/hooks.def"
#undef HOOK
};

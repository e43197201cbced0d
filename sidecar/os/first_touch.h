/* SPDX-License-Identifier: Apache-2.0
 * first_touch.h - what the first access to a page costs after the kernel has handled its page fault.
 * On a machine of its own that is a miss of the TLB. Below a hypervisor that maps a guest's pages
 * itself it may be more than the page fault, and looks like time of the code that touches the page. */
#ifndef SYSOM_SIDECAR_OS_FIRST_TOUCH_H
#define SYSOM_SIDECAR_OS_FIRST_TOUCH_H

#include <stdint.h>

/* Median of a few fresh pages of the caller's own, in nanoseconds; 0: no memory. Takes a hundred
 * microseconds, or a millisecond where it costs much. Threads: any. */
uint64_t first_touch_ns(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * first_touch.h - what the first access to a page costs after the kernel has handled its page
 * fault. On bare metal this is a TLB miss. Under a hypervisor that maps guest pages itself, it may
 * cost more than the page fault, and it looks like time of the code that touches the page. */
#pragma once

#include <stdint.h>

/* Median over a few fresh pages of this process, in nanoseconds; 0: no memory. Takes a hundred
 * microseconds, or a millisecond if page faults are expensive. Threads: any. */
uint64_t first_touch_ns(void);

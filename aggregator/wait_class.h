/* SPDX-License-Identifier: Apache-2.0
 * wait_class.h - what the kernel did for a thread, in words, from the kernel functions of its
 * stack. One table for each question. Static texts; NULL: none fits. Threads: any. */
#ifndef SYSOM_AGGREGATOR_WAIT_CLASS_H
#define SYSOM_AGGREGATOR_WAIT_CLASS_H

#include "analysis/stack.h"

/* What a sleeping thread waits for: "futex", "file sync", "pipe write", "socket" ... */
const char *wait_class_of(const struct stack_batch *b, const struct stack *st);
/* Why a running thread is in the kernel: "page fault", "read" ... */
const char *wait_class_entry(const struct stack_batch *b, const struct stack *st);
/* Which interrupt has its CPU: "NET_RX soft interrupt" ...; NULL: none has. */
const char *wait_class_interrupt(const struct stack_batch *b, const struct stack *st);

#endif

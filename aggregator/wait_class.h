/* SPDX-License-Identifier: Apache-2.0
 * wait_class.h - what the kernel did for a thread, from the kernel functions of its stack. One
 * table for each question. Threads: any. */
#ifndef SYSOM_AGGREGATOR_WAIT_CLASS_H
#define SYSOM_AGGREGATOR_WAIT_CLASS_H

#include "analysis/ledger.h"
#include "analysis/stack.h"

/* What a sleeping thread waits for: LEDGER_LOCK, LEDGER_FILE_SYNC ...; LEDGER_NONE: not known. */
enum ledger_what wait_class_of(const struct stack_batch *b, const struct stack *st);
/* Whether it waits in an event loop (epoll): the loop's own timers end such a wait, too. */
bool wait_class_loop(const struct stack_batch *b, const struct stack *st);
/* What a running thread does in the kernel: LEDGER_PAGE_FAULT, LEDGER_NETWORK ...;
 * LEDGER_SYSCALL: something else. */
enum ledger_what wait_class_entry(const struct stack_batch *b, const struct stack *st);
/* Which interrupt has its CPU: LEDGER_NET_RX ...; LEDGER_NONE: none has. */
enum ledger_what wait_class_interrupt(const struct stack_batch *b, const struct stack *st);

#endif

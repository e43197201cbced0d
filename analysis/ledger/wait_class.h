/* SPDX-License-Identifier: Apache-2.0
 * wait_class.h - what the operating system does for a thread, judged by the kernel functions on its
 * stack. Threads: any. */
#pragma once

#include "analysis/ledger/ledger.h"
#include "model/stack.h"

/* What a blocked thread waits for: LEDGER_LOCK, LEDGER_FILE_SYNC ...; LEDGER_SYSCALL: something else,
 * in a system call; LEDGER_NONE: not known. */
enum ledger_what wait_class_of(const struct stack_batch *b, const struct stack *st);
/* The class of a wait, given the class `what` of its stack and the waker that ended it (struct
 * stack_switch). The waker decides if the call says little. */
enum ledger_what wait_class_ended(const struct stack_batch *b, const struct stack *st,
				  enum ledger_what what, uint32_t waker, bool own_thread);
/* What a running thread does in the kernel: LEDGER_PAGE_FAULT, LEDGER_NETWORK ...;
 * LEDGER_SYSCALL: something else. */
enum ledger_what wait_class_entry(const struct stack_batch *b, const struct stack *st);
/* The system call that the thread is in, "membarrier"; NULL: none, or its stack does not show it. */
const char *wait_class_call(const struct stack_batch *b, const struct stack *st);
/* The interrupt that occupies the thread's CPU: LEDGER_NET_RX ...; LEDGER_NONE: none. */
enum ledger_what wait_class_interrupt(const struct stack_batch *b, const struct stack *st);

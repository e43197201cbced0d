/* SPDX-License-Identifier: Apache-2.0
 * realtime.h - a thread that only interrupts and other real-time threads can delay. Threads:
 * any. */
#pragma once

#include <pthread.h>

/* Starts run(arg) on this CPU, SCHED_FIFO with the highest priority. 0, -errno; -EPERM: not allowed
 * (CAP_SYS_NICE). */
int realtime_thread(pthread_t *thread, int cpu, void *(*run)(void *), void *arg);

/* SPDX-License-Identifier: Apache-2.0
 * realtime.h - a thread that nothing but interrupts and its like delays. Threads: any. */
#ifndef SYSOM_BASE_DAEMON_REALTIME_H
#define SYSOM_BASE_DAEMON_REALTIME_H

#include <pthread.h>

/* Starts run(arg) on that CPU, SCHED_FIFO with the highest priority. 0, -errno: -EPERM where that is not
 * allowed (CAP_SYS_NICE). */
int realtime_thread(pthread_t *thread, int cpu, void *(*run)(void *), void *arg);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * loop.h - an epoll loop with timers, signals and wake-ups from other threads.
 * Threads: one thread runs the loop and calls everything but loop_wake, which any thread may. */
#pragma once

#include <stdint.h>

struct loop;
struct loop_source;

/* events: EPOLLIN, EPOLLOUT, EPOLLHUP as epoll_wait returned them; for timers the expiry count. A
 * callback may close its own source and any other. */
typedef void (*loop_fn)(void *arg, uint32_t events);

int loop_open(struct loop **out);
void loop_close(struct loop *l); /* NULL is a no-op; closes the sources, but not the callers' fds */
/* Borrows fd until loop_source_close. */
int loop_add_fd(struct loop *l, int fd, uint32_t events, loop_fn fn, void *arg,
		struct loop_source **out);
int loop_modify(struct loop_source *s, uint32_t events);
/* Periodic; the first expiry comes after first_ms (0: period_ms). */
int loop_add_timer(struct loop *l, uint32_t first_ms, uint32_t period_ms, loop_fn fn, void *arg,
		   struct loop_source **out);
/* Sets a new period_ms (not 0). 0 or -errno; -EINVAL: the source is not a timer. */
int loop_timer_period(struct loop_source *s, uint32_t period_ms);
/* Blocks signum in the calling thread (call before starting threads); events = signum. */
int loop_add_signal(struct loop *l, int signum, loop_fn fn, void *arg, struct loop_source **out);
/* fn runs in the loop's thread after loop_wake; several wake-ups may cause only one call. */
int loop_add_wake(struct loop *l, loop_fn fn, void *arg, struct loop_source **out);
void loop_wake(struct loop_source *s);	       /* async-signal-safe */
void loop_source_close(struct loop_source *s); /* NULL is a no-op */
/* Runs until loop_stop; 0 or -errno of epoll_wait. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

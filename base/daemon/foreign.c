/* SPDX-License-Identifier: Apache-2.0
 * foreign.c - see foreign.h. The signal is repeated, because the first one may arrive before the
 * wait starts. Changing SO_LINGER would not help: the TCP socket may be in the queue of a Unix
 * socket, where we cannot reach it. */
#include "base/daemon/foreign.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void on_signal(int number)
{
	(void)number;
}

void foreign_begin(struct foreign *f)
{
	struct sigaction on = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
	struct itimerspec every = {{0, FOREIGN_WAIT_NS}, {0, FOREIGN_WAIT_NS}};

	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	f->armed =
	    !sigaction(SIGUSR2, &on, NULL) && !timer_create(CLOCK_MONOTONIC, &event, &f->timer);
	if (f->armed)
		timer_settime(f->timer, 0, &every, NULL);
}

void foreign_end(struct foreign *f)
{
	if (f->armed)
		timer_delete(f->timer);
}

void foreign_close(int fd)
{
	struct foreign f;

	if (fd < 0)
		return;
	foreign_begin(&f);
	close(fd);
	foreign_end(&f);
}

/* SPDX-License-Identifier: Apache-2.0
 * The watchdog is a signal, not a thread: it also ends a process that cannot start threads any more,
 * and its handler runs on the very thread that hangs. */
#include "base/daemon/watchdog.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t watchdog_code;

static void on_alarm(int signum)
{
	static const char text[] = "level=warn event=end why=\"closing took too long\"\n";
	ssize_t rc = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)rc;
	_exit(watchdog_code);
}

void watchdog_arm(unsigned seconds, int code)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	sigset_t set;

	watchdog_code = code;
	sigfillset(&sa.sa_mask);
	sigaction(SIGALRM, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	alarm(seconds ? seconds : 1);
}

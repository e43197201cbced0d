/* SPDX-License-Identifier: Apache-2.0
 * guest.c - programs that do to themselves what makes life hard for a library of somebody else's in
 * the same process: they must behave the same with the preload and without. usage: guest MODE.
 * Prints lines that do not depend on the preload. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "foreign/cuda.h"
#include "tests/preload/null.h"

extern char **environ;

static unsigned long bad;
static volatile sig_atomic_t from_signal;

static void sleep_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static void launch(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		errno = EDOM;
		bad += cuLaunchKernel((cu_function)0x100, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) !=
			   CU_OK ||
		       errno != EDOM;
	}
}

static void begin(void)
{
	cu_context c;

	bad += cuDevicePrimaryCtxRetain(&c, 0) != CU_OK;
	cuCtxSetCurrent(c);
	launch(10);
}

/* ---- threads ---- */

static pthread_barrier_t all_there;
static pthread_key_t key;

static void *crowd_main(void *arg)
{
	launch(200);
	pthread_barrier_wait(&all_there);
	launch(200);
	return NULL;
}

static void mode_crowd(void)
{
	pthread_t t[64];

	begin();
	pthread_barrier_init(&all_there, NULL, 64);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 64; i++)
			pthread_create(&t[i], NULL, crowd_main, NULL);
		for (int i = 0; i < 64; i++)
			pthread_join(t[i], NULL);
		sleep_ms(150);
	}
}

static void late_launch(void *arg)
{
	launch(5);
	if (arg != (void *)4) /* destructors run again while there are values */
		pthread_setspecific(key, (char *)arg + 1);
}

static void *destructor_main(void *arg)
{
	pthread_setspecific(key, (void *)1);
	launch(5);
	return NULL;
}

static void mode_destructor(void)
{
	begin();
	pthread_key_create(&key, late_launch);
	for (int i = 0; i < 60; i++) {
		pthread_t t;

		pthread_create(&t, NULL, destructor_main, NULL);
		pthread_join(t, NULL);
	}
}

static void *endless_main(void *arg)
{
	for (;;) {
		launch(50);
		pthread_testcancel();
	}
	return NULL;
}

static void mode_cancel(void)
{
	begin();
	for (int i = 0; i < 40; i++) {
		pthread_t t;

		pthread_create(&t, NULL, endless_main, NULL);
		sleep_ms(2);
		pthread_cancel(t);
		pthread_join(t, NULL);
	}
}

/* ---- signals ---- */

static void on_signal(int signum)
{
	int saved = errno;

	launch(1);
	from_signal++;
	errno = saved;
}

static void mode_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct itimerval tick = {{0, 500}, {0, 500}};

	begin();
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	while (from_signal < 200)
		launch(1000);
	memset(&tick, 0, sizeof(tick));
	setitimer(ITIMER_REAL, &tick, NULL);
}

/* A signal for the process must come to the job's own thread. */
static void mode_sigwait(void)
{
	sigset_t set;
	int got = 0;

	begin();
	sleep_ms(50);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGUSR1);
	sigwait(&set, &got);
	printf("got=%d\n", got == SIGUSR1);
}

/* ---- processes ---- */

static void mode_vfork(void)
{
	char *argv[] = {"true", NULL};
	int status;
	pid_t pid;

	begin();
	for (int i = 0; i < 20; i++) {
		pid = vfork();
		if (!pid) {
			execv("/bin/true", argv);
			_exit(1);
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
		bad += posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) != 0;
		waitpid(pid, &status, 0);
		bad += status != 0;
		launch(20);
	}
}

/* A fork that libc knows nothing of: no handler runs in the child. */
static void mode_clone(void)
{
	int status;

	begin();
	for (int i = 0; i < 20; i++) {
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (!pid) {
			bad = 0;
			launch(3000);
			_exit(bad != 0);
		}
		launch(1000);
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	sleep_ms(150);
}

static void *fork_main(void *arg)
{
	int status = 0;

	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();

		if (!pid) {
			launch(10);
			exit(0); /* with handlers and destructors */
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	return NULL;
}

static void mode_forks(void)
{
	pthread_t t[4];

	begin();
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, fork_main, NULL);
	launch(20000);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void mode_quick_exit(void)
{
	begin();
	sleep_ms(120);
	printf("bad=%lu\n", bad);
	fflush(stdout);
	quick_exit(7);
}

static void mode_abort(void)
{
	struct rlimit none = {0, 0};

	begin();
	setrlimit(RLIMIT_CORE, &none);
	sleep_ms(120);
	abort();
}

static void *exit_main(void *arg)
{
	launch(100);
	exit(5);
}

static void at_exit(void)
{
	launch(100);
}

/* exit() in one thread while others go on, and launches from a handler of atexit. */
static void mode_exit(void)
{
	pthread_t t;

	begin();
	atexit(at_exit);
	sleep_ms(120);
	pthread_create(&t, NULL, exit_main, NULL);
	for (;;)
		launch(100);
}

/* ---- limits ---- */

static void limit(int what, rlim_t value)
{
	struct rlimit l = {value, value};

	bad += setrlimit(what, &l) != 0;
}

static void mode_nofile(void)
{
	limit(RLIMIT_NOFILE, 3);
	begin();
	sleep_ms(250);
	launch(1000);
}

static void mode_memory(void)
{
	limit(RLIMIT_AS, 40ul << 20);
	begin();
	sleep_ms(250);
	launch(1000);
}

static void mode_fsize(void)
{
	limit(RLIMIT_FSIZE, 4096);
	begin();
	sleep_ms(250);
	launch(1000);
}

static void mode_setuid(void)
{
	begin();
	sleep_ms(120);
	if (!geteuid())
		bad += setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
	launch(1000);
	sleep_ms(250);
	launch(1000);
}

/* Nobody runs in real time but who asked for it. */
static void mode_realtime(void)
{
	struct sched_param first = {.sched_priority = 1};
	struct dirent *e;
	int realtime = 0;
	DIR *tasks;

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		return; /* not allowed here: nothing to inherit */
	begin();
	sleep_ms(250);
	tasks = opendir("/proc/self/task");
	while (tasks && (e = readdir(tasks)))
		realtime +=
		    e->d_name[0] != '.' && sched_getscheduler(atoi(e->d_name)) == SCHED_FIFO;
	printf("realtime=%d\n", realtime);
}

/* ---- descriptors and environment ---- */

/* Who closes 0 and opens counts on getting 0, while somebody may be looking for sysomd. */
static void mode_lowfd(void)
{
	struct timespec from, now;

	begin();
	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		close(0);
		for (volatile int spin = 0; spin < 2000; spin++)
			;
		bad += open("/dev/null", O_RDONLY) != 0;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - from.tv_sec < 2);
}

static void mode_environment(void)
{
	struct timespec from, now;
	char name[32], value[256];

	begin();
	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = 0;
	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		for (int i = 0; i < 400; i++) {
			snprintf(name, sizeof(name), "GUEST_%d", i);
			setenv(name, value, 1);
		}
		clearenv();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - from.tv_sec < 1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"crowd", mode_crowd},
		     {"destructor", mode_destructor},
		     {"cancel", mode_cancel},
		     {"signals", mode_signals},
		     {"sigwait", mode_sigwait},
		     {"vfork", mode_vfork},
		     {"clone", mode_clone},
		     {"forks", mode_forks},
		     {"quick_exit", mode_quick_exit},
		     {"abort", mode_abort},
		     {"exit", mode_exit},
		     {"nofile", mode_nofile},
		     {"memory", mode_memory},
		     {"fsize", mode_fsize},
		     {"setuid", mode_setuid},
		     {"realtime", mode_realtime},
		     {"lowfd", mode_lowfd},
		     {"environment", mode_environment}};

	for (unsigned i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run();
		printf("bad=%lu\n", bad);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
			puts(modes[i].name);
		return 0;
	}
	return 2;
}

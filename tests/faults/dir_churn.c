/* SPDX-License-Identifier: Apache-2.0
 * dir_churn DIR [SECONDS] - makes and removes files in one directory as fast as it can, as a spooler
 * or a cleaner of temporary files does: everybody else's look-ups there wait for the directory's lock.
 * Ends on SIGTERM or after SECONDS; leaves no file. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void on_signal(int sig)
{
	over = 1;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	time_t end = time(NULL) + (argc > 2 ? atol(argv[2]) : 3600);
	int dir;

	if (argc < 2 || (dir = open(argv[1], O_RDONLY | O_DIRECTORY)) < 0) {
		perror("dir_churn");
		return 1;
	}
	sigaction(SIGTERM, &sa, NULL);
	printf("dir_churn: on\n");
	fflush(stdout);
	for (unsigned i = 0; !over && ((i & 1023) || time(NULL) < end); i++) {
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "spool-%u", i & 63);
		fd = openat(dir, name, O_CREAT | O_WRONLY, 0600);
		if (fd < 0) {
			perror("dir_churn");
			return 1;
		}
		close(fd);
		unlinkat(dir, name, 0);
	}
	return 0;
}

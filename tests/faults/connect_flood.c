/* SPDX-License-Identifier: Apache-2.0
 * connect_flood.c - the user UID connects to a Unix socket and hangs up, from many threads and without end.
 * Prints a line when all threads run.
 * usage: connect_flood SOCKET UID THREADS       (as root) */
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un to = {.sun_family = AF_UNIX};

static void *flood(void *arg)
{
	for (;;) {
		int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		if (sock < 0)
			continue;
		connect(sock, (struct sockaddr *)&to, sizeof(to));
		close(sock);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_attr_t small;
	pthread_t thread;
	uid_t uid;

	if (argc != 4 || strlen(argv[1]) >= sizeof(to.sun_path)) {
		fprintf(stderr, "usage: connect_flood SOCKET UID THREADS\n");
		return 2;
	}
	strcpy(to.sun_path, argv[1]);
	uid = (uid_t)atoi(argv[2]);
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) {
		perror("setresuid");
		return 1;
	}
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int i = atoi(argv[3]); i > 0; i--)
		if (pthread_create(&thread, &small, flood, NULL)) {
			perror("pthread_create");
			return 1;
		}
	printf("flooding\n");
	fflush(stdout);
	pause();
	return 0;
}

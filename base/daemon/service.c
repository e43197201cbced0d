/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/daemon/log.h"
#include "base/daemon/watchdog.h"
#include "base/exit_status.h"

#define BACKLOG 128
#define STOP_S	60u

void service_init(void)
{
	sd_listen_fds(0); /* sets close-on-exec */
}

/* The descriptor of a socket that systemd passed. path NULL: the first socket of this type. */
static int passed(const char *path, int type)
{
	int count = sd_listen_fds(0);

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
		if (sd_is_socket_unix(fd, type, 1, path, 0) <= 0)
			continue;
		return fcntl(fd, F_SETFL, O_NONBLOCK) ? -errno : fd;
	}
	return -ENOENT;
}

/* Removes a socket file that a killed daemon left behind. */
static int claim(const struct sockaddr_un *sa, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	err = connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) ? errno : 0;
	close(fd);
	if (!err || err == EAGAIN)
		return -EADDRINUSE;
	if (err == ECONNREFUSED)
		unlink(sa->sun_path);
	return 0;
}

int service_listen(const char *path, int type, mode_t mask, ino_t *inode)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = passed(path, type), err;
	struct stat st;

	*inode = 0;
	if (fd != -ENOENT)
		return fd;
	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	err = claim(&sa, type);
	if (err)
		return err;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	mask = umask(mask);
	err = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, BACKLOG) ? -errno : 0;
	umask(mask);
	if (err) {
		close(fd);
		return err;
	}
	if (!stat(path, &st))
		*inode = st.st_ino;
	return fd;
}

void service_unlisten(const char *path, ino_t inode)
{
	struct stat st;

	if (inode && !stat(path, &st) && st.st_ino == inode)
		unlink(path);
}

bool service_listener_path(int type, char *out, size_t out_bytes)
{
	struct sockaddr_un address = {0};
	socklen_t bytes = sizeof(address) - 1;
	int fd = passed(NULL, type);

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&address, &bytes) ||
	    address.sun_path[0] != '/' || strlen(address.sun_path) >= out_bytes)
		return false;
	strcpy(out, address.sun_path);
	return true;
}

const char *service_state_dir(void)
{
	static char first[512];
	const char *dirs = getenv("STATE_DIRECTORY");
	size_t bytes = dirs ? strcspn(dirs, ":") : 0;

	if (!bytes || *dirs != '/' || bytes >= sizeof(first))
		return NULL;
	memcpy(first, dirs, bytes);
	first[bytes] = '\0';
	return first;
}

void service_ready(void)
{
	sd_notify(0, "READY=1");
}

void service_alive(void)
{
	sd_notify(0, "WATCHDOG=1");
}

void service_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}

void service_stop(struct loop *l)
{
	watchdog_arm(STOP_S, EXIT_FAILED);
	loop_stop(l);
}

static void on_signal(void *arg, uint32_t signum)
{
	log_info("stop", "signal=\"%s\"", strsignal((int)signum));
	service_stop(arg);
}

int service_stop_on_signals(struct loop *l)
{
	int err = loop_add_signal(l, SIGTERM, on_signal, l, NULL);

	return err ? err : loop_add_signal(l, SIGINT, on_signal, l, NULL);
}

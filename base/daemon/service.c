/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define BACKLOG 128

void service_init(void)
{
	sd_listen_fds(0); /* sets close-on-exec */
}

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

/* Removes what a killed daemon left behind. */
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

void service_init(void)
{
	sd_listen_fds(0); /* sets close-on-exec */
}

int service_listener(const char *path, int type)
{
	int count = sd_listen_fds(0);

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
		if (sd_is_socket_unix(fd, type, 1, path, 0) <= 0)
			continue;
		return fcntl(fd, F_SETFL, O_NONBLOCK) ? -errno : fd;
	}
	return -ENOENT;
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

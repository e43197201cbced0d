/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
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

bool service_listener_path(int type, char *out, size_t out_bytes)
{
	int count = sd_listen_fds(0);

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
		struct sockaddr_un address = {0};
		socklen_t bytes = sizeof(address) - 1;

		if (sd_is_socket_unix(fd, type, 1, NULL, 0) <= 0 ||
		    getsockname(fd, (struct sockaddr *)&address, &bytes) ||
		    address.sun_path[0] != '/' || strlen(address.sun_path) >= out_bytes)
			continue;
		strcpy(out, address.sun_path);
		return true;
	}
	return false;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Anybody can create a directory in /tmp, so its owner and mode are checked. */
static bool is_ours_alone(const char *dir)
{
	struct stat st;

	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 077);
}

void paths_socket(char out[PATHS_BYTES], const char *variable, const char *file)
{
	const char *set = getenv(variable), *xdg = getenv("XDG_RUNTIME_DIR");
	char run[PATHS_BYTES], user[PATHS_BYTES] = "", tmp[PATHS_BYTES], dir[PATHS_BYTES];

	if (set && *set) {
		snprintf(out, PATHS_BYTES, "%s", set);
		return;
	}
	snprintf(run, sizeof(run), "/run/sysom/%s", file);
	if (xdg && *xdg == '/' &&
	    (size_t)snprintf(user, sizeof(user), "%s/sysom/%s", xdg, file) >= sizeof(user))
		user[0] = '\0';
	snprintf(dir, sizeof(dir), "/tmp/sysom-%u", (unsigned)geteuid());
	snprintf(tmp, sizeof(tmp), "/tmp/sysom-%u/%s", (unsigned)geteuid(), file);
	if (is_socket(run))
		strcpy(out, run);
	else if (*user && is_socket(user))
		strcpy(out, user);
	else if (is_ours_alone(dir) && is_socket(tmp))
		strcpy(out, tmp);
	else if (geteuid() == 0 || access("/run/sysom", F_OK) == 0)
		strcpy(out, run);
	else
		strcpy(out, *user ? user : tmp);
}

int paths_attach(const char *path, const char **remedy)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	err = fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) ? errno : 0;
	if (fd >= 0)
		close(fd);
	*remedy = err == EACCES ? "let this user's group write to the socket" : PATHS_START;
	return -err;
}

bool paths_beside(char *out, size_t out_bytes, const char *relative)
{
	char self[PATH_MAX], tried[2 * PATH_MAX], full[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return false;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(tried, sizeof(tried), "%s/%s", self, relative);
	if (!realpath(tried, full) || access(full, R_OK) || strlen(full) >= out_bytes) {
		snprintf(out, out_bytes, "%.*s", (int)out_bytes - 1, tried);
		return false;
	}
	strcpy(out, full);
	return true;
}

int paths_preload(char *out, size_t out_bytes)
{
	/* relative to bin/ and to lib/sysom/ */
	static const char *const beside[] = {"../libsysom_preload.so",
					     "../lib/sysom/libsysom_preload.so",
					     "../lib/libsysom_preload.so"};
	const char *set = getenv("SYSOM_PRELOAD");
	char full[PATH_MAX];

	if (set && *set) {
		snprintf(out, out_bytes, "%s", set);
		if (!realpath(set, full) || access(full, R_OK) || strlen(full) >= out_bytes)
			return -ENOENT;
		strcpy(out, full);
		return 0;
	}
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
		if (paths_beside(out, out_bytes, beside[i]))
			return 0;
	return -ENOENT;
}

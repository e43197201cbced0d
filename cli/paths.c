/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* /tmp is everybody's: somebody else may have made the directory first. */
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

int paths_preload(char *out, size_t out_bytes)
{
	static const char *const beside[] = { "../lib", "../lib/sysom" };
	const char *set = getenv("SYSOM_PRELOAD");
	char self[PATH_MAX], tried[PATH_MAX], full[PATH_MAX];
	ssize_t n;

	if (set && *set) {
		snprintf(out, out_bytes, "%s", set);
		if (!realpath(set, full) || access(full, R_OK) || strlen(full) >= out_bytes)
			return -ENOENT;
		strcpy(out, full);
		return 0;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return -ENOENT;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(out, out_bytes, "%.*s/../lib/libsysom_preload.so", (int)out_bytes - 40, self);
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		if ((size_t)snprintf(tried, sizeof(tried), "%s/%s/libsysom_preload.so", self,
				     beside[i]) >= sizeof(tried))
			continue;
		if (realpath(tried, full) && access(full, R_OK) == 0 && strlen(full) < out_bytes) {
			strcpy(out, full);
			return 0;
		}
	}
	return -ENOENT;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_as.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"

static bool number_of(const char *variable, unsigned *out)
{
	const char *text = getenv(variable);
	uint64_t v;

	if (!text || !text_number(text, UINT32_MAX - 1, &v))
		return false;
	*out = (unsigned)v;
	return true;
}

static void take_entry(struct run_as *out, const struct passwd *p)
{
	out->gid = p->pw_gid;
	snprintf(out->name, sizeof(out->name), "%s", p->pw_name);
	snprintf(out->home, sizeof(out->home), "%s", p->pw_dir);
}

int run_as_find(struct run_as *out, const char *name)
{
	const struct passwd *p;
	unsigned uid, gid;

	*out = (struct run_as){.change = false};
	if (name) {
		p = getpwnam(name);
		if (!p)
			return -ENOENT;
		if (p->pw_uid == geteuid())
			return 0;
		if (geteuid())
			return -EPERM;
		out->uid = p->pw_uid;
		take_entry(out, p);
		out->change = true;
		return 0;
	}
	if (geteuid() || !number_of("SUDO_UID", &uid) || !uid)
		return 0;
	out->uid = uid;
	out->gid = number_of("SUDO_GID", &gid) ? gid : uid;
	p = getpwuid(uid);
	if (p)
		take_entry(out, p);
	out->change = true;
	return 0;
}

int run_as_become(const struct run_as *u)
{
	static const char *const sudos[] = {"SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND"};

	if (!u->change)
		return 0;
	if ((u->name[0] ? initgroups(u->name, u->gid) : setgroups(0, NULL)) ||
	    setresgid(u->gid, u->gid, u->gid) || setresuid(u->uid, u->uid, u->uid))
		return -errno;
	for (size_t i = 0; i < sizeof(sudos) / sizeof(sudos[0]); i++)
		unsetenv(sudos[i]);
	if (u->name[0]) {
		setenv("USER", u->name, 1);
		setenv("LOGNAME", u->name, 1);
		setenv("HOME", u->home, 1);
	}
	return 0;
}

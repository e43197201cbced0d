/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/viewer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/daemon/peer.h"

static bool is_named(const char *list, const struct viewer *v)
{
	char *end;

	if (!strcmp(list, "*"))
		return true;
	for (; v->known && *list; list = *end == ',' ? end + 1 : end) {
		unsigned long number = strtoul(list, &end, 10);

		if (end == list)
			return false;
		if (number == v->uid)
			return true;
	}
	return false;
}

void viewer_of(struct viewer *v, int sock, const char *see_all)
{
	*v = (struct viewer){.uid = (uid_t)-1};
	v->known = peer_user(sock, &v->uid);
	v->all = (v->known && (v->uid == 0 || v->uid == geteuid())) || is_named(see_all, v);
}

bool viewer_sees(const struct viewer *v, uid_t owner)
{
	return v->all || (v->known && v->uid == owner);
}

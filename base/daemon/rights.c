/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/rights.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct right rights[RIGHTS] = {
#define RIGHT(name, number, lost) {#name, number, lost},
#include "base/daemon/rights.def"
#undef RIGHT
};

void rights_now(bool has[RIGHTS])
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	memset(data, 0, sizeof(data));
	syscall(SYS_capget, &head, data);
	for (int i = 0; i < RIGHTS; i++)
		has[i] = data[rights[i].number / 32].effective >> rights[i].number % 32 & 1;
}

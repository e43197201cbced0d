/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/realtime.h"

#include <errno.h>
#include <sched.h>

int realtime_thread(pthread_t *thread, int cpu, void *(*run)(void *), void *arg)
{
	struct sched_param p = {.sched_priority = sched_get_priority_max(SCHED_FIFO)};
	size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *one = CPU_ALLOC(cpu + 1);
	pthread_attr_t a;
	int err;

	if (!one)
		return -ENOMEM;
	CPU_ZERO_S(bytes, one);
	CPU_SET_S((size_t)cpu, bytes, one);
	pthread_attr_init(&a);
	pthread_attr_setinheritsched(&a, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&a, SCHED_FIFO);
	pthread_attr_setschedparam(&a, &p);
	err = pthread_attr_setaffinity_np(&a, bytes, one);
	if (!err)
		err = pthread_create(thread, &a, run, arg);
	pthread_attr_destroy(&a);
	CPU_FREE(one);
	return -err;
}

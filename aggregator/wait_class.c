/* SPDX-License-Identifier: Apache-2.0
 * Rows are tried in order over the whole kernel stack, so what is special (a sync that waits for a
 * page) stands before what is general (waiting for a page). Function names of Linux 5.4 to 6.18,
 * x86-64. */
#include "aggregator/wait_class.h"

#include <string.h>

#include "base/check.h"

struct row {
	const char *prefix, *text;
};

static const struct row waits[] = {
    {"do_signal_stop", "stopped by a signal"},
    {"__refrigerator", "frozen"},
    {"cgroup_enter_frozen", "frozen"},
    {"mem_cgroup_handle_over_high", "memory limit of its cgroup"},
    {"try_to_free_mem_cgroup_pages", "memory limit of its cgroup"},
    {"try_charge_memcg", "memory limit of its cgroup"},
    {"blk_throtl", "disk limit of its cgroup"},
    {"throttle_direct_reclaim", "memory reclaim"},
    {"try_to_free_pages", "memory reclaim"},
    {"balance_dirty_pages", "write-back of dirty pages"},
    {"filemap_fault", "page fault from a file"},
    {"do_swap_page", "page fault from swap"},
    {"vfs_fsync", "file sync"},
    {"do_fsync", "file sync"},
    {"__x64_sys_fsync", "file sync"},
    {"__x64_sys_fdatasync", "file sync"},
    {"__x64_sys_msync", "file sync"},
    {"__x64_sys_sync", "file sync"},
    {"locks_lock", "file lock"},
    {"__x64_sys_flock", "file lock"},
    {"fuse_", "FUSE file system"},
    {"nfs_", "NFS"},
    {"futex_", "futex"},
    {"__futex_", "futex"},
    {"do_futex", "futex"},
    {"do_nanosleep", "sleep"},
    {"__x64_sys_clock_nanosleep", "sleep"},
    {"anon_pipe_read", "pipe read"},
    {"pipe_read", "pipe read"},
    {"anon_pipe_write", "pipe write: it is full"},
    {"pipe_write", "pipe write: it is full"},
    {"n_tty_", "terminal"},
    {"tty_", "terminal"},
    {"do_epoll_wait", "poll"},
    {"ep_poll", "poll"},
    {"do_sys_poll", "poll"},
    {"do_select", "poll"},
    {"do_wait", "child process"},
    {"kernel_wait4", "child process"},
    {"unix_stream_", "local socket"},
    {"unix_dgram_", "local socket"},
    {"__skb_wait", "socket"},
    {"sk_wait_data", "socket receive"},
    {"sk_stream_wait_memory", "socket send: the buffer is full"},
    {"tcp_", "socket"},
    {"inet_", "socket"},
    {"jbd2_", "journal of the file system"},
    {"ksys_read", "file read"},
    {"ksys_pread64", "file read"},
    {"vfs_read", "file read"},
    {"ksys_write", "file write"},
    {"vfs_write", "file write"},
    {"io_schedule", "storage"},
    {"rwsem_down_", "lock in the kernel"},
    {"__mutex_lock", "lock in the kernel"},
    {"exit_to_user_mode", "return to user code"},
};

static const struct row entries[] = {
    {"do_user_addr_fault", "page fault"},
    {"exc_page_fault", "page fault"},
    {"asm_exc_page_fault", "page fault"},
};

static const struct row interrupts[] = {
    {"net_rx_action", "NET_RX soft interrupt"},
    {"net_tx_action", "NET_TX soft interrupt"},
    {"blk_done_softirq", "BLOCK soft interrupt"},
    {"run_timer_softirq", "TIMER soft interrupt"},
    {"sched_balance_softirq", "SCHED soft interrupt"},
    {"run_rebalance_domains", "SCHED soft interrupt"},
    {"rcu_core", "RCU soft interrupt"},
    {"tasklet_action", "TASKLET soft interrupt"},
    {"handle_softirqs", "soft interrupt"},
    {"__do_softirq", "soft interrupt"},
    {"common_interrupt", "interrupt of a device"},
    {"sysvec_", "interrupt"},
};

static const char *find(const struct stack_batch *b, const struct stack *st, const struct row *rows,
			size_t n)
{
	for (size_t r = 0; r < n; r++)
		for (uint32_t i = 0; i < st->kernel_count; i++)
			if (!strncmp(stack_batch_text(b, b->frames[st->first + i].object),
				     rows[r].prefix, strlen(rows[r].prefix)))
				return rows[r].text;
	return NULL;
}

const char *wait_class_of(const struct stack_batch *b, const struct stack *st)
{
	return find(b, st, waits, ARRAY_LEN(waits));
}

const char *wait_class_entry(const struct stack_batch *b, const struct stack *st)
{
	static const char call[] = "__x64_sys_";
	const char *what = find(b, st, entries, ARRAY_LEN(entries));

	for (uint32_t i = st->kernel_count; !what && i-- > 0;) {
		const char *name = stack_batch_text(b, b->frames[st->first + i].object);

		if (!strncmp(name, call, strlen(call)))
			return name + strlen(call);
	}
	return what;
}

const char *wait_class_interrupt(const struct stack_batch *b, const struct stack *st)
{
	return find(b, st, interrupts, ARRAY_LEN(interrupts));
}

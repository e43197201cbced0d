/* SPDX-License-Identifier: Apache-2.0
 * The first row that matches any function of the kernel stack decides. So special rows (a sync that
 * waits for a page) come before general ones (a wait for a page). Function names of Linux 5.4 to
 * 6.18, x86-64. */
#include "analysis/ledger/wait_class.h"

#include <string.h>

#include "base/check.h"

struct row {
	const char *prefix;
	enum ledger_what what;
};

/* These rows apply whether the thread sleeps or runs in the call. A write to a file opened with
 * O_SYNC or O_DSYNC calls the file system's function without vfs_fsync. */
#define SYNC_CALLS                                                                                 \
	{"vfs_fsync", LEDGER_FILE_SYNC}, {"do_fsync", LEDGER_FILE_SYNC},                           \
	    {"__x64_sys_fsync", LEDGER_FILE_SYNC}, {"__x64_sys_fdatasync", LEDGER_FILE_SYNC},      \
	    {"__x64_sys_msync", LEDGER_FILE_SYNC}, {"__x64_sys_sync", LEDGER_FILE_SYNC},           \
	    {"ext4_sync_file", LEDGER_FILE_SYNC}, {"xfs_file_fsync", LEDGER_FILE_SYNC},            \
	    {"btrfs_sync_file", LEDGER_FILE_SYNC}, {"f2fs_sync_file", LEDGER_FILE_SYNC},           \
	{                                                                                          \
		"file_write_and_wait_range", LEDGER_FILE_SYNC                                      \
	}

/* FUSE, NFS, Ceph, 9P, SMB, Lustre, Spectrum Scale and BeeGFS. */
#define NETWORK_FILE_CALLS                                                                         \
	{"fuse_", LEDGER_NETWORK_FILE}, {"nfs_", LEDGER_NETWORK_FILE},                             \
	    {"nfs4_", LEDGER_NETWORK_FILE}, {"ceph_", LEDGER_NETWORK_FILE},                        \
	    {"p9_client_", LEDGER_NETWORK_FILE}, {"cifs_", LEDGER_NETWORK_FILE},                   \
	    {"smb2_", LEDGER_NETWORK_FILE}, {"ll_file_", LEDGER_NETWORK_FILE},                     \
	    {"ptlrpc_", LEDGER_NETWORK_FILE}, {"ldlm_", LEDGER_NETWORK_FILE},                      \
	    {"gpfs_", LEDGER_NETWORK_FILE},                                                        \
	{                                                                                          \
		"FhgfsOps_", LEDGER_NETWORK_FILE                                                   \
	}

static const struct row waits[] = {
    {"do_signal_stop", LEDGER_SIGNAL},
    {"do_jobctl_trap", LEDGER_SIGNAL},
    {"ptrace_stop", LEDGER_SIGNAL},
    {"__refrigerator", LEDGER_FROZEN},
    {"do_freezer_trap", LEDGER_FROZEN},
    {"cgroup_enter_frozen", LEDGER_FROZEN},
    {"mem_cgroup_handle_over_high", LEDGER_MEMORY_LIMIT},
    {"__mem_cgroup_handle_over_high", LEDGER_MEMORY_LIMIT},
    {"try_to_free_mem_cgroup_pages", LEDGER_MEMORY_LIMIT},
    {"try_charge_memcg", LEDGER_MEMORY_LIMIT},
    {"blk_throtl", LEDGER_DISK_LIMIT},
    {"blkcg_maybe_throttle_", LEDGER_DISK_LIMIT},
    {"blkcg_iolatency_throttle", LEDGER_DISK_LIMIT},
    {"ioc_rqos_throttle", LEDGER_DISK_LIMIT},
    {"throttle_direct_reclaim", LEDGER_RECLAIM},
    {"try_to_free_pages", LEDGER_RECLAIM},
    {"reclaim_throttle", LEDGER_RECLAIM},
    {"do_swap_page", LEDGER_SWAP},
    {"migration_entry_wait", LEDGER_NUMA},
    {"balance_dirty_pages", LEDGER_FILE_SYNC},
    {"filemap_fault", LEDGER_FILE_FAULT},
    SYNC_CALLS,
    {"jbd2_log_wait_commit", LEDGER_FILE_SYNC},
    {"locks_lock", LEDGER_FILE_LOCK},
    {"fcntl_setlk", LEDGER_FILE_LOCK},
    {"__x64_sys_flock", LEDGER_FILE_LOCK},
    NETWORK_FILE_CALLS,
    {"futex_", LEDGER_LOCK},
    {"__futex_", LEDGER_LOCK},
    {"do_futex", LEDGER_LOCK},
    {"do_semtimedop", LEDGER_LOCK},
    {"__do_semtimedop", LEDGER_LOCK},
    {"eventfd_read", LEDGER_LOCK},
    {"do_nanosleep", LEDGER_SLEEP},
    {"timerfd_read", LEDGER_SLEEP},
    {"__x64_sys_clock_nanosleep", LEDGER_SLEEP},
    {"anon_pipe_read", LEDGER_PIPE_READ},
    {"pipe_read", LEDGER_PIPE_READ},
    {"anon_pipe_write", LEDGER_PIPE_WRITE},
    {"pipe_write", LEDGER_PIPE_WRITE},
    {"n_tty_read", LEDGER_TERMINAL_READ},
    {"n_tty_", LEDGER_TERMINAL},
    {"tty_", LEDGER_TERMINAL},
    {"do_epoll_wait", LEDGER_POLL},
    {"ep_poll", LEDGER_POLL},
    {"do_sys_poll", LEDGER_POLL},
    {"do_select", LEDGER_POLL},
    {"kernel_wait", LEDGER_CHILD},
    {"__do_sys_wait", LEDGER_CHILD},
    {"do_mq_timed", LEDGER_PROCESS},
    {"do_msgrcv", LEDGER_PROCESS},
    {"do_msgsnd", LEDGER_PROCESS},
    {"fanotify_", LEDGER_PROCESS},
    {"inotify_read", LEDGER_PROCESS},
    {"seccomp_do_user_notification", LEDGER_PROCESS},
    {"handle_userfault", LEDGER_PROCESS},
    {"signalfd_", LEDGER_PROCESS},
    {"do_sigtimedwait", LEDGER_PROCESS},
    {"unix_stream_", LEDGER_LOCAL_SOCKET},
    {"unix_dgram_", LEDGER_LOCAL_SOCKET},
    {"__skb_wait", LEDGER_SOCKET},
    {"sk_wait_data", LEDGER_SOCKET},
    {"sk_stream_wait_memory", LEDGER_SOCKET_SEND},
    {"sock_alloc_send_", LEDGER_SOCKET_SEND}, /* of datagrams */
    {"tcp_", LEDGER_SOCKET},
    {"inet_", LEDGER_SOCKET},
    {"rwsem_down_", LEDGER_KERNEL_LOCK},
    {"__mutex_lock", LEDGER_KERNEL_LOCK},
    {"__down_read", LEDGER_KERNEL_LOCK},
    {"__down_write", LEDGER_KERNEL_LOCK},
    {"d_alloc_parallel", LEDGER_KERNEL_LOCK},
    {"jbd2_", LEDGER_FILE_SYSTEM},
    {"ksys_read", LEDGER_FILE_READ},
    {"ksys_pread64", LEDGER_FILE_READ},
    {"vfs_read", LEDGER_FILE_READ},
    {"ksys_write", LEDGER_FILE_WRITE},
    {"vfs_write", LEDGER_FILE_WRITE},
    {"io_schedule", LEDGER_STORAGE},
    {"read_events", LEDGER_STORAGE}, /* io_getevents */
    {"io_cqring_wait", LEDGER_STORAGE},
    {"blkdev_", LEDGER_STORAGE},
    {"submit_bio_wait", LEDGER_STORAGE},
};

/* Calls that wait for whichever of several things comes first. Their class in `waits` says nothing
 * about such a wait, but its waker does. If a timeout ends the wait of a loop, the loop's next
 * timer was due. If a timeout ends a poll, a peer did not answer. */
static const struct {
	const char *prefix;
	enum ledger_what what;
	bool loop;
} any[] = {{"do_epoll_wait", LEDGER_POLL, true},      {"ep_poll", LEDGER_POLL, true},
	   {"do_sys_poll", LEDGER_POLL, false},	      {"do_select", LEDGER_POLL, false},
	   {"do_sigtimedwait", LEDGER_PROCESS, true}, {"io_cqring_wait", LEDGER_STORAGE, true},
	   {"eventfd_read", LEDGER_LOCK, false}};

static const struct row entries[] = {
    {"native_queued_spin_lock_slowpath", LEDGER_KERNEL_LOCK},
    {"__pv_queued_spin_lock_slowpath", LEDGER_KERNEL_LOCK},
    {"queued_read_lock_slowpath", LEDGER_KERNEL_LOCK},
    {"queued_write_lock_slowpath", LEDGER_KERNEL_LOCK},
    {"osq_lock", LEDGER_KERNEL_LOCK},
    {"rwsem_down_", LEDGER_KERNEL_LOCK},
    {"rwsem_optimistic_spin", LEDGER_KERNEL_LOCK},
    {"__mutex_lock", LEDGER_KERNEL_LOCK},
    {"lockref_get_not_dead", LEDGER_KERNEL_LOCK},
    {"try_to_free_mem_cgroup_pages", LEDGER_MEMORY_LIMIT},
    {"try_to_free_", LEDGER_RECLAIM},
    {"shrink_node", LEDGER_RECLAIM},
    {"shrink_lruvec", LEDGER_RECLAIM},
    {"__alloc_pages_direct_", LEDGER_RECLAIM},
    {"try_to_compact_pages", LEDGER_RECLAIM},
    {"do_numa_page", LEDGER_NUMA},
    {"migrate_misplaced_", LEDGER_NUMA},
    {"task_numa_", LEDGER_NUMA},
    {"do_huge_pmd_numa_page", LEDGER_NUMA},
    {"do_swap_page", LEDGER_SWAP},
    {"filemap_fault", LEDGER_FILE_FAULT},
    SYNC_CALLS,
    {"do_user_addr_fault", LEDGER_PAGE_FAULT},
    {"exc_page_fault", LEDGER_PAGE_FAULT},
    {"asm_exc_page_fault", LEDGER_PAGE_FAULT},
    {"handle_mm_fault", LEDGER_PAGE_FAULT},
    NETWORK_FILE_CALLS,
    {"submit_bio", LEDGER_STORAGE},
    {"blk_", LEDGER_STORAGE},
    {"blkdev_", LEDGER_STORAGE},
    {"iomap_dio_", LEDGER_STORAGE},
    {"sock_", LEDGER_NETWORK},
    {"__sock_", LEDGER_NETWORK},
    {"tcp_", LEDGER_NETWORK},
    {"inet_", LEDGER_NETWORK},
    {"unix_", LEDGER_NETWORK},
    {"vfs_", LEDGER_FILE_SYSTEM},
    {"ksys_read", LEDGER_FILE_SYSTEM},
    {"ksys_write", LEDGER_FILE_SYSTEM},
    {"path_", LEDGER_FILE_SYSTEM},
    {"filename_", LEDGER_FILE_SYSTEM},
    {"do_filp_open", LEDGER_FILE_SYSTEM},
    {"do_sys_openat2", LEDGER_FILE_SYSTEM},
    {"ext4_", LEDGER_FILE_SYSTEM},
    {"xfs_", LEDGER_FILE_SYSTEM},
    {"btrfs_", LEDGER_FILE_SYSTEM},
    {"ovl_", LEDGER_FILE_SYSTEM},
};

static const struct row interrupts[] = {
    {"net_rx_action", LEDGER_NET_RX},
    {"net_tx_action", LEDGER_NET_TX},
    {"blk_done_softirq", LEDGER_BLOCK_DONE},
    {"run_timer_softirq", LEDGER_TIMER},
    {"sched_balance_softirq", LEDGER_SCHED},
    {"run_rebalance_domains", LEDGER_SCHED},
    {"rcu_core", LEDGER_RCU},
    {"tasklet_action", LEDGER_TASKLET},
    {"handle_softirqs", LEDGER_SOFTIRQ},
    {"__do_softirq", LEDGER_SOFTIRQ},
    {"common_interrupt", LEDGER_DEVICE},
    {"sysvec_", LEDGER_INTERRUPT},
};

/* Whether a function of the kernel with this prefix is in the stack. */
static bool is_in(const struct stack_batch *b, const struct stack *st, const char *prefix)
{
	for (uint32_t i = 0; i < st->kernel_count; i++)
		if (!strncmp(stack_batch_text(b, b->frames[st->first + i].object), prefix,
			     strlen(prefix)))
			return true;
	return false;
}

static enum ledger_what find(const struct stack_batch *b, const struct stack *st,
			     const struct row *rows, size_t n)
{
	for (size_t r = 0; r < n; r++)
		if (is_in(b, st, rows[r].prefix))
			return rows[r].what;
	return LEDGER_NONE;
}

/* "flock" of "__x64_sys_flock"; NULL: not the entry of a system call. */
static const char *call_of(const char *kernel)
{
	static const char *const prefixes[] = {"__x64_sys_", "__ia32_sys_", "__arm64_sys_",
					       "__se_sys_", "__do_sys_"};

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (!strncmp(kernel, prefixes[i], strlen(prefixes[i])))
			return kernel + strlen(prefixes[i]);
	return NULL;
}

const char *wait_class_call(const struct stack_batch *b, const struct stack *st)
{
	const char *call = NULL;

	for (uint32_t i = st->kernel_count; i-- > 0 && !call;)
		call = call_of(stack_batch_text(b, b->frames[st->first + i].object));
	return call;
}

enum ledger_what wait_class_of(const struct stack_batch *b, const struct stack *st)
{
	enum ledger_what what = find(b, st, waits, ARRAY_LEN(waits));

	return what || !wait_class_call(b, st) ? what : LEDGER_SYSCALL;
}

enum ledger_what wait_class_ended(const struct stack_batch *b, const struct stack *st,
				  enum ledger_what what, uint32_t waker, bool own_thread)
{
	bool open = what == LEDGER_SYSCALL, loop = open;

	for (size_t r = 0; r < ARRAY_LEN(any) && !open; r++) {
		open = any[r].what == what && is_in(b, st, any[r].prefix);
		loop = open && any[r].loop;
	}
	if (waker == STACK_WAKER_TIMER)
		return loop ? LEDGER_SLEEP : what;
	if (waker & STACK_WAKER_CHILD && (open || what == LEDGER_PIPE_READ ||
					  what == LEDGER_PIPE_WRITE || what == LEDGER_LOCAL_SOCKET))
		return LEDGER_CHILD;
	if (!open)
		return what;
	if (waker & STACK_WAKER_NETWORK)
		return LEDGER_SOCKET;
	/* threads of the process also carry out the reads of an io_uring */
	if (own_thread && what != LEDGER_STORAGE)
		return LEDGER_LOCK;
	return waker & STACK_WAKER_PROCESS ? LEDGER_PROCESS : what;
}

enum ledger_what wait_class_entry(const struct stack_batch *b, const struct stack *st)
{
	enum ledger_what what = find(b, st, entries, ARRAY_LEN(entries));

	return what ? what : LEDGER_SYSCALL;
}

enum ledger_what wait_class_interrupt(const struct stack_batch *b, const struct stack *st)
{
	return find(b, st, interrupts, ARRAY_LEN(interrupts));
}

/* SPDX-License-Identifier: Apache-2.0
 * Classifies by name, since a symbol table has nothing else. Kernel functions are matched by their
 * names in Linux 5.4 to 6.18, user functions by words that storage clients, data loaders and
 * loggers use. A word that numeric code also uses (log, read, hash) is not in the list. */
#include "analysis/ledger/function_class.h"

#include <ctype.h>
#include <string.h>

#include "model/window.h"

struct name_rule {
	const char *text; /* "=x": the whole name; "x": a prefix; "*x": contained, in any case */
	enum finding_cause cause;
};

static const struct name_rule kernel_on[] = {
    {"__do_softirq", CAUSE_OS_SOFTIRQ},
    {"handle_softirqs", CAUSE_OS_SOFTIRQ},
    {"do_softirq", CAUSE_OS_SOFTIRQ},
    {"net_rx_action", CAUSE_OS_SOFTIRQ},
    {"__napi_poll", CAUSE_OS_SOFTIRQ},
    {"process_backlog", CAUSE_OS_SOFTIRQ},
    {"handle_irq_event", CAUSE_OS_IRQ},
    {"__handle_irq_event", CAUSE_OS_IRQ},
    {"handle_edge_irq", CAUSE_OS_IRQ},
    {"=__common_interrupt", CAUSE_OS_IRQ},
    {"native_queued_spin_lock_slowpath", CAUSE_OS_LOCK},
    {"osq_lock", CAUSE_OS_LOCK},
    {"queued_read_lock_slowpath", CAUSE_OS_LOCK},
    {"queued_write_lock_slowpath", CAUSE_OS_LOCK},
    {"rwsem_down_", CAUSE_OS_LOCK},
    {"rwsem_optimistic_spin", CAUSE_OS_LOCK},
    {"__mutex_lock", CAUSE_OS_LOCK},
    {"__pv_queued_spin_lock_slowpath", CAUSE_OS_LOCK},
    {"lockref_get_not_dead", CAUSE_OS_LOCK},
    {"try_to_free_", CAUSE_OS_MEMORY},
    {"do_try_to_free_pages", CAUSE_OS_MEMORY},
    {"shrink_node", CAUSE_OS_MEMORY},
    {"shrink_lruvec", CAUSE_OS_MEMORY},
    {"__alloc_pages_direct_", CAUSE_OS_MEMORY},
    {"try_to_compact_pages", CAUSE_OS_MEMORY},
    {"do_numa_page", CAUSE_OS_NUMA},
    {"migrate_misplaced_", CAUSE_OS_NUMA},
    {"task_numa_", CAUSE_OS_NUMA},
    {"do_huge_pmd_numa_page", CAUSE_OS_NUMA},
    {"handle_mm_fault", CAUSE_OS_FAULTS},
    {"__handle_mm_fault", CAUSE_OS_FAULTS},
    {"do_user_addr_fault", CAUSE_OS_FAULTS},
    {"exc_page_fault", CAUSE_OS_FAULTS},
    {"asm_exc_page_fault", CAUSE_OS_FAULTS},
    {"do_anonymous_page", CAUSE_OS_FAULTS},
    {"tcp_retransmit_", CAUSE_NET_RETRANSMITS},
    {"fuse_", CAUSE_STORAGE_CLIENT},
    {"nfs_", CAUSE_STORAGE_CLIENT},
    {"ceph_", CAUSE_STORAGE_CLIENT},
};

static const struct name_rule kernel_off[] = {
    {"do_signal_stop", CAUSE_OS_STOPPED},
    {"ptrace_stop", CAUSE_OS_STOPPED},
    {"do_freezer_trap", CAUSE_OS_STOPPED},
    {"__refrigerator", CAUSE_OS_STOPPED},
    {"do_jobctl_trap", CAUSE_OS_STOPPED},
    {"blk_throtl", CAUSE_STORAGE_LIMIT},
    {"blkcg_maybe_throttle_", CAUSE_STORAGE_LIMIT},
    {"try_to_free_", CAUSE_OS_MEMORY},
    {"shrink_node", CAUSE_OS_MEMORY},
    {"reclaim_throttle", CAUSE_OS_MEMORY},
    {"throttle_direct_reclaim", CAUSE_OS_MEMORY},
    {"mem_cgroup_handle_over_high", CAUSE_OS_MEMORY},
    {"__mem_cgroup_handle_over_high", CAUSE_OS_MEMORY},
    {"rwsem_down_", CAUSE_OS_LOCK},
    {"__mutex_lock", CAUSE_OS_LOCK},
    {"__down_read", CAUSE_OS_LOCK},
    {"__down_write", CAUSE_OS_LOCK},
    {"d_alloc_parallel", CAUSE_OS_LOCK},
    {"migration_entry_wait", CAUSE_OS_NUMA},
    {"io_schedule", CAUSE_STORAGE_DISK},
    {"filemap_read", CAUSE_STORAGE_DISK},
    {"generic_file_read_iter", CAUSE_STORAGE_DISK},
    {"filemap_fault", CAUSE_STORAGE_DISK},
    {"filemap_get_pages", CAUSE_STORAGE_DISK},
    {"folio_wait_", CAUSE_STORAGE_DISK},
    {"wait_on_page_bit", CAUSE_STORAGE_DISK},
    {"submit_bio_wait", CAUSE_STORAGE_DISK},
    {"blkdev_", CAUSE_STORAGE_DISK},
    {"iomap_dio_", CAUSE_STORAGE_DISK},
    {"jbd2_log_wait_commit", CAUSE_STORAGE_DISK},
    {"balance_dirty_pages", CAUSE_STORAGE_DISK},
    {"rq_qos_wait", CAUSE_STORAGE_DISK},
    {"ext4_file_read_iter", CAUSE_STORAGE_DISK},
    {"xfs_file_read_iter", CAUSE_STORAGE_DISK},
    {"btrfs_file_read_iter", CAUSE_STORAGE_DISK},
    {"ovl_read_iter", CAUSE_STORAGE_DISK},
    {"nfs_", CAUSE_STORAGE_DISK},
    {"fuse_", CAUSE_STORAGE_DISK},
    {"ceph_", CAUSE_STORAGE_DISK},
    {"ll_file_read", CAUSE_STORAGE_DISK},
    {"p9_client_", CAUSE_STORAGE_DISK},
};

/* User space: native and Python. */
static const struct name_rule user_on[] = {
    {"*isenabledfor", CAUSE_UNKNOWN}, /* only asks for the log level */
    {"*logging", CAUSE_SW_LOGGING},
    {"*logger", CAUSE_SW_LOGGING},
    {"*loguru", CAUSE_SW_LOGGING},
    {"*spdlog", CAUSE_SW_LOGGING},
    {"*glog", CAUSE_SW_LOGGING},
    {"*logrecord", CAUSE_SW_LOGGING},
    {"*logmessage", CAUSE_SW_LOGGING},
    {"*log_message", CAUSE_SW_LOGGING},
    {"*log_line", CAUSE_SW_LOGGING},
    {"*write_log", CAUSE_SW_LOGGING},
    {"*log_record", CAUSE_SW_LOGGING},
    {"*streamhandler", CAUSE_SW_LOGGING},
    {"*filehandler", CAUSE_SW_LOGGING},
    {"*syslog", CAUSE_SW_LOGGING},
    {"=printf", CAUSE_SW_LOGGING},
    {"=fprintf", CAUSE_SW_LOGGING},
    {"*boto", CAUSE_STORAGE_CLIENT},
    {"*s3client", CAUSE_STORAGE_CLIENT},
    {"*storage_client", CAUSE_STORAGE_CLIENT},
    {"*storageclient", CAUSE_STORAGE_CLIENT},
    {"*hdfs", CAUSE_STORAGE_CLIENT},
    {"*librados", CAUSE_STORAGE_CLIENT},
    {"*libfuse", CAUSE_STORAGE_CLIENT},
    {"*object_store", CAUSE_STORAGE_CLIENT},
    {"*objectstore", CAUSE_STORAGE_CLIENT},
    {"*dataloader", CAUSE_STORAGE_LOADER},
    {"*data_loader", CAUSE_STORAGE_LOADER},
    {"*_next_data", CAUSE_STORAGE_LOADER},
    {"*next_batch", CAUSE_STORAGE_LOADER},
    {"*load_batch", CAUSE_STORAGE_LOADER},
    {"*read_batch", CAUSE_STORAGE_LOADER},
    {"*get_batch", CAUSE_STORAGE_LOADER},
    {"*fetch_batch", CAUSE_STORAGE_LOADER},
    {"*load_sample", CAUSE_STORAGE_LOADER},
    {"*read_sample", CAUSE_STORAGE_LOADER},
    {"*fetch_data", CAUSE_STORAGE_LOADER},
    {"*load_data", CAUSE_STORAGE_LOADER},
    {"*collate", CAUSE_STORAGE_LOADER},
    {"*prefetch", CAUSE_STORAGE_LOADER},
    {"=take_gil", CAUSE_CPU_GIL},
};

/* Functions that serve many purposes (compression, checksums). In a launch thread their callers
 * decide the purpose. Where all threads of a process are summed, they count as a storage
 * client's. */
static const struct name_rule means[] = {
    {"*bz2", CAUSE_STORAGE_CLIENT},	   {"*lzma", CAUSE_STORAGE_CLIENT},
    {"*gzip", CAUSE_STORAGE_CLIENT},	   {"*zlib", CAUSE_STORAGE_CLIENT},
    {"*decompress", CAUSE_STORAGE_CLIENT}, {"*inflate", CAUSE_STORAGE_CLIENT},
    {"ZSTD_", CAUSE_STORAGE_CLIENT},	   {"LZ4_", CAUSE_STORAGE_CLIENT},
    {"*snappy", CAUSE_STORAGE_CLIENT},	   {"*crc32", CAUSE_STORAGE_CLIENT},
    {"*checksum", CAUSE_STORAGE_CLIENT},   {"*sha256", CAUSE_STORAGE_CLIENT},
    {"*sha512", CAUSE_STORAGE_CLIENT},	   {"*md5", CAUSE_STORAGE_CLIENT},
    {"*aesni_", CAUSE_STORAGE_CLIENT},	   {"*aes_gcm", CAUSE_STORAGE_CLIENT},
    {"SSL_read", CAUSE_STORAGE_CLIENT},
};

static const struct name_rule user_off[] = {
    {"=take_gil", CAUSE_CPU_GIL},	    {"=PyEval_RestoreThread", CAUSE_CPU_GIL},
    {"*dataloader", CAUSE_STORAGE_LOADER},  {"*data_loader", CAUSE_STORAGE_LOADER},
    {"*_next_data", CAUSE_STORAGE_LOADER},  {"*next_batch", CAUSE_STORAGE_LOADER},
    {"*load_batch", CAUSE_STORAGE_LOADER},  {"*read_batch", CAUSE_STORAGE_LOADER},
    {"*get_batch", CAUSE_STORAGE_LOADER},   {"*fetch_batch", CAUSE_STORAGE_LOADER},
    {"*load_sample", CAUSE_STORAGE_LOADER}, {"*read_sample", CAUSE_STORAGE_LOADER},
    {"*fetch_data", CAUSE_STORAGE_LOADER},  {"*load_data", CAUSE_STORAGE_LOADER},
    {"*prefetch", CAUSE_STORAGE_LOADER},
};

/* Collectives of the host: gloo and MPI. Until symbols are known, gloo's own threads show only the
 * file name. */
static const struct name_rule collectives[] = {
    {"*gloo::", CAUSE_NET_WAIT},
    {"[libgloo.so", CAUSE_NET_WAIT},
    {"*processgroupgloo", CAUSE_NET_WAIT},
    {"*all_reduce", CAUSE_NET_WAIT},
    {"*all_gather", CAUSE_NET_WAIT},
    {"*reduce_scatter", CAUSE_NET_WAIT},
    {"*all_to_all", CAUSE_NET_WAIT},
    {"*broadcast (distributed", CAUSE_NET_WAIT},
    {"*barrier (distributed", CAUSE_NET_WAIT},
    {"MPI_", CAUSE_NET_WAIT},
};

/* Messages between two ranks on the host. */
static const struct name_rule messages[] = {
    {"*processgroupgloo::recvwork", CAUSE_NET_WAIT},
    {"*processgroupgloo::sendwork", CAUSE_NET_WAIT},
    {"recv (distributed_c10d", CAUSE_NET_WAIT},
    {"send (distributed_c10d", CAUSE_NET_WAIT},
    {"MPI_Recv", CAUSE_NET_WAIT},
    {"MPI_Send", CAUSE_NET_WAIT},
    {"MPI_Ssend", CAUSE_NET_WAIT},
};

/* glibc waits here for its own locks, not for those of a program. */
static const struct name_rule libc_lock[] = {{"*lll_lock_wait_private", 0}};

static const struct name_rule plumbing[] = {
    {"_PyEval_", 0},
    {"PyEval_", 0},
    {"_PyObject_", 0},
    {"PyObject_", 0},
    {"_PyFunction_", 0},
    {"Py_", 0},
    {"Py_RunMain", 0},
    {"pymain_", 0},
    {"_PyRun_", 0},
    {"PyRun_", 0},
    {"run_mod", 0},
    {"run_eval_code_obj", 0},
    {"method_vectorcall", 0},
    {"=main", 0},
    {"=_start", 0},
    {"__libc_start", 0},
    {"=<module>", 0},
    {"<module> ", 0},
    {"=start_thread", 0},
    {"=clone3", 0},
    {"=clone", 0},
    {"=__clone", 0},
    {"entry_SYSCALL", 0},
    {"=do_syscall_64", 0},
    {"__x64_sys_", 0},
    {"=x64_sys_call", 0},
    {"ret_from_fork", 0},
    {"asm_", 0},
    {"=__schedule", 0},
    {"=schedule", 0},
    {"el0", 0},
    {"invoke_syscall", 0},
    {"=Thread._bootstrap", 0},
    {"Thread._bootstrap", 0},
    {"Thread.run ", 0},
    {"syscall_exit_", 0},
    {"exit_to_user_mode", 0},
    /* polling for the GPU or for other ranks: a consequence of slowness, not its cause */
    {"*synchronize", 0},
    {"*streamquery", 0},
    {"*eventquery", 0},
    {"=sched_yield", 0},
    {"__sched_yield", 0},
    {"do_sched_yield", 0},
    {"[", 0},
};

static bool stands_in(const char *name, const char *word)
{
	size_t n = strlen(word);

	for (; *name; name++) {
		size_t i = 0;

		while (i < n && tolower((unsigned char)name[i]) == word[i])
			i++;
		if (i == n)
			return true;
	}
	return false;
}

static bool matches(const char *name, const char *rule)
{
	if (*rule == '=')
		return !strcmp(name, rule + 1);
	if (*rule == '*')
		return stands_in(name, rule + 1);
	return !strncmp(name, rule, strlen(rule));
}

static const struct name_rule *first(const struct name_rule *rules, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (matches(name, rules[i].text))
			return &rules[i];
	return NULL;
}

#define FIRST(rules, name) first(rules, sizeof(rules) / sizeof(*(rules)), name)

enum finding_cause function_class_cause(const char *name, unsigned kind, bool on_cpu)
{
	const struct name_rule *r;

	if (kind == FUNCTION_KERNEL)
		r = on_cpu ? FIRST(kernel_on, name) : FIRST(kernel_off, name);
	else
		r = on_cpu ? FIRST(user_on, name) ?: FIRST(means, name) : FIRST(user_off, name);
	return r ? r->cause : CAUSE_UNKNOWN;
}

enum ledger_what function_class_what(const char *name)
{
	const struct name_rule *r = FIRST(user_on, name);

	switch (r ? r->cause : CAUSE_UNKNOWN) {
	case CAUSE_SW_LOGGING:
		return LEDGER_LOGGING;
	case CAUSE_STORAGE_LOADER:
		return LEDGER_LOADER;
	case CAUSE_STORAGE_CLIENT:
		return LEDGER_STORAGE_CLIENT;
	default:
		if (FIRST(messages, name))
			return LEDGER_HOST_MESSAGE;
		return FIRST(collectives, name) ? LEDGER_HOST_COLLECTIVE : LEDGER_NONE;
	}
}

bool function_class_is_libc_lock(const char *name)
{
	return FIRST(libc_lock, name) != NULL;
}

bool function_class_is_plumbing(const char *name)
{
	return !*name || FIRST(plumbing, name) != NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 * processes.h - the sampled processes: which they are, what is mapped where, whose tables and whose
 * interpreter the kernel may use for them. Kernel events say at once that something changed; what
 * they don't say is read from /proc by the worker. A file's mapping is published without a table
 * first and again when the worker has compiled it. Owns: the worker, the table store's references,
 * process entries.  Threads: one caller. Trust: processes may end, exec or lie at any time; then
 * entries are dropped or corrected. */
#ifndef SYSOM_SAMPLER_PROCESSES_H
#define SYSOM_SAMPLER_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/mapping_scan.h"
#include "sampler/python_names.h"
#include "sampler/python_runtime.h"
#include "sampler/unwind_store.h"

/* Who is told. Any function may be NULL. */
struct processes_sink {
	void *context;
	int (*set)(void *context, uint32_t pid, const struct unwind_process *p);
	void (*remove)(void *context, uint32_t pid);
	void (*python)(void *context, uint32_t pid,
		       const struct python_process *p); /* NULL: none */
};

struct process_mapping {
	uint64_t begin, end, offset, load_bias;
	uint32_t file; /* unwind_store's number; 0: anonymous */
};

struct process {
	uint32_t pid;
	bool children; /* those that it forks are sampled too */
	bool scanning, rescan, dirty, gone;
	uint64_t python_retry_ns; /* the interpreter has not started yet: look again then; 0: no */
	struct process_mapping *mappings; /* sorted by address */
	uint32_t count, room;
	struct unwind_process published;
	struct python_runtime *python; /* NULL: none */
	struct python_names *names;
	int python_err;
};

struct process_file {
	struct mapping_elf elf;
	char *path;
	uint64_t base_bare,
	    base_table; /* ELF virtual address of unwind_mapping.bias, by page_count */
	uint32_t users; /* mappings */
	uint32_t idle;	/* drains without users */
	bool known, waiting, refused;
	bool tabled;	 /* it has, or had, an unwind table */
	uint32_t unread; /* times that a process ended before its file was read */
};

struct processes_stats {
	uint32_t processes, mappings, files, files_waiting, files_refused;
	uint64_t mappings_dropped, publish_full, scans, scan_failed;
	uint64_t worker_cpu_ns;
	uint32_t python_refused; /* interpreters whose frames can't be read */
	char python_why[160];	 /* of the last of them */
};

struct processes;
/* store is borrowed until close; tables: whether they are compiled; python: whether interpreters
 * are looked for. 0, -ENOMEM, -errno. */
int processes_open(struct processes **out, const char *proc_root, struct unwind_store *store,
		   const struct processes_sink *sink, bool tables, bool python);
void processes_close(struct processes *p); /* NULL is a no-op */
/* 0, -ESRCH, -ENOSPC, -ENOMEM. With children: those that it has now and will have. */
int processes_add(struct processes *p, uint32_t pid, bool children);
void processes_remove(struct processes *p, uint32_t pid);
/* Every process of the node, now and later; off: those that were not added by name are dropped. */
int processes_set_all(struct processes *p, bool on);
bool processes_all(const struct processes *p);

/* Events from the kernel, in order of time. */
void processes_on_fork(struct processes *p, uint32_t parent, uint32_t pid);
void processes_on_exec(struct processes *p, uint32_t pid);
void processes_on_exit(struct processes *p, uint32_t pid);
/* build_id NULL: not told. */
void processes_on_mmap(struct processes *p, uint32_t pid, const struct process_mapping *m,
		       const uint8_t *build_id, size_t build_id_bytes, const char *path);
/* Events were lost: everything is read again. */
void processes_on_lost(struct processes *p);
/* What a process has mapped is not what is known: read again. */
void processes_doubt(struct processes *p, uint32_t pid);

int processes_fd(const struct processes *p); /* readable: the worker has results */
/* Takes the worker's results and publishes what changed. */
void processes_poll(struct processes *p);
/* Once per drain, after the kernel's grace period and after the drained stacks were named: forgets
 * what ended, lets go of files. */
void processes_sweep(struct processes *p);

/* NULL: not known. Borrowed until the next call that is not const. */
struct process *processes_find(struct processes *p, uint32_t pid);
const struct process_file *processes_file(const struct processes *p, uint32_t file);
/* The mapping that holds address, or NULL. */
const struct process_mapping *process_mapping_find(const struct process *process, uint64_t address);
void processes_stats_get(const struct processes *p, struct processes_stats *out);

#endif

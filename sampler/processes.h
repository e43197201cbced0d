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
#include "sampler/python/python_names.h"
#include "sampler/python/python_runtime.h"
#include "sampler/unwind/unwind_store.h"

/* Who is told. Any function may be NULL. */
struct processes_sink {
	void *context;
	int (*set)(void *context, uint32_t pid, const struct unwind_process *p, uint8_t generation);
	void (*remove)(void *context, uint32_t pid);
	/* p NULL: none. 0, -errno: its frames are not walked. */
	int (*python)(void *context, uint32_t pid, const struct python_process *p);
	/* Before what was read of /proc is taken over: to tell of the events until now. */
	void (*catch_up)(void *context);
};

struct process_mapping {
	uint64_t begin, end, offset, load_bias;
	uint32_t file; /* unwind_store's number; 0: anonymous */
};

struct process {
	uint32_t pid;
	bool children; /* those that it forks are sampled too */
	bool first;    /* it was there when it was added, and runs the same program still */
	bool scanning, rescan, dirty, gone;
	bool leaving; /* its first thread has ended; the process may not have */
	uint8_t generation;	      /* of what is published */
	uint32_t *replaced; /* by generation: the file in whose place another one was mapped while it was
			     * published; 0 none, UINT32_MAX several. NULL: none in any */
	uint64_t fresh_begin, fresh_end; /* mapped since the scan was asked for, first to last */
	uint64_t python_retry_ns; /* the interpreter has not started yet: look again then; 0: no */
	struct process_mapping *mappings; /* sorted by address */
	uint32_t count;
	size_t room;
	struct unwind_process published;
	struct python_runtime *python; /* NULL: none */
	struct python_names *names;
	uint64_t asked; /* the request for names that is on its way; 0: none */
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
	bool denied; /* its table, as denied_uid has its share of room */
	uint32_t denied_uid;
	bool tabled;	 /* it has, or had, an unwind table */
	uint32_t unread; /* times that a process ended before its file was read */
};

struct processes_stats {
	uint32_t processes, mappings, files, files_waiting, files_refused;
	uint32_t first_waiting; /* of processes that are `first`: being read, or mapping a file that is */
	uint64_t mappings_dropped, publish_full, scans, scan_failed;
	uint64_t worker_cpu_ns;
	struct reader_stats readers;
	uint64_t python_full;	 /* interpreters that found no room */
	uint32_t python_refused; /* interpreters whose frames can't be read */
	char python_why[160];	 /* of the last of them */
};

struct processes;
/* store is borrowed until close; python: whether interpreters are looked for; reader: as for
 * worker_open. 0, -ENOMEM, -errno. */
int processes_open(struct processes **out, const char *proc_root, struct unwind_store *store,
		   const struct processes_sink *sink, bool python, struct reader *reader);
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
void processes_on_mmap(struct processes *p, uint32_t pid, const struct process_mapping *m,
		       const char *path);
/* Events were lost: everything is read again. */
void processes_on_lost(struct processes *p);
/* What a process has mapped is not what is known: read again. */
void processes_doubt(struct processes *p, uint32_t pid);

int processes_fd(const struct processes *p); /* readable: the worker has results */
/* Takes the worker's results and publishes what changed. */
void processes_poll(struct processes *p);
/* Publishes what changed of this process. False: it has no mappings, or they found no room. */
bool processes_publish(struct processes *p, struct process *process);
/* Has the names that were found missing read. True: some are on their way. */
bool processes_names_ask(struct processes *p);
/* Once per drain, after the kernel's grace period and after the drained stacks were named: forgets
 * what ended, lets go of files. */
void processes_sweep(struct processes *p);

/* Whether another file was mapped in the place of this one while this generation of mappings was
 * published: what was unwound by its table then may be the other one's. Until the next sweep. */
bool process_replaced(const struct process *process, uint8_t generation, uint32_t file);
/* NULL: not known. Borrowed until the next call that is not const. */
struct process *processes_find(struct processes *p, uint32_t pid);
const struct process_file *processes_file(const struct processes *p, uint32_t file);
/* The mapping that holds address, or NULL. */
const struct process_mapping *process_mapping_find(const struct process *process, uint64_t address);
void processes_stats_get(const struct processes *p, struct processes_stats *out);

#endif

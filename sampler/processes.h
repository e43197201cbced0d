/* SPDX-License-Identifier: Apache-2.0
 * processes.h - the sampled processes: their mappings, and the tables and interpreters that the
 * kernel may use for them. Kernel events report changes at once; the worker reads everything else
 * from /proc. A file's mapping is published first without a table, and again when the worker has
 * compiled the table. Owns: the worker, the table store's references, process entries.  Threads:
 * one caller. Trust: processes may end, exec or lie at any time; then entries are dropped or
 * corrected. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/mapping_scan.h"
#include "sampler/python/python_names.h"
#include "sampler/python/python_runtime.h"
#include "sampler/unwind/unwind_store.h"

/* Receives the changes. Any function may be NULL. */
struct processes_sink {
	void *context;
	int (*set)(void *context, uint32_t pid, const struct unwind_process *p, uint8_t generation);
	void (*remove)(void *context, uint32_t pid);
	/* p NULL: the process has no interpreter. 0; -errno: its Python frames are not walked. */
	int (*python)(void *context, uint32_t pid, const struct python_process *p);
	/* Called before data read from /proc is used. It must report earlier events first. */
	void (*catch_up)(void *context);
};

struct process_mapping {
	uint64_t begin, end, load_bias;
	uint32_t file; /* unwind_store's number; 0: anonymous */
};

struct process {
	uint32_t pid;
	bool children; /* processes that it forks are sampled too */
	bool first;    /* it existed when it was added, and still runs the same program */
	bool scanning, rescan, dirty, gone;
	bool leaving;	    /* its first thread has ended; others may run on */
	uint8_t generation; /* of the published mappings */
	/* For each generation: which file another one replaced while this generation was published
	 * (0: none, UINT32_MAX: several). The pointer is NULL as long as no file was replaced. */
	uint32_t *replaced;
	uint64_t fresh_begin, fresh_end; /* range of mappings made after the scan was requested */
	/* when to look again for an interpreter that has not started; 0: never */
	uint64_t python_retry_ns;
	struct process_mapping *mappings; /* sorted by address */
	uint32_t count;
	size_t room;
	struct unwind_process published;
	struct python_runtime *python; /* NULL: none */
	struct python_names *names;
	uint64_t asked; /* the pending request for names; 0: none */
	int python_err;
};

struct process_file {
	struct mapping_elf elf;
	char *path;
	/* ELF virtual address to which unwind_mapping.bias belongs: of mappings without and with an
	 * unwind table */
	uint64_t base_bare, base_table;
	uint32_t users; /* mappings */
	uint32_t idle;	/* drains without users */
	bool known, waiting, refused;
	/* it has no table, because the user denied_uid has used up its share of the room */
	bool denied;
	uint32_t denied_uid;
	bool tabled;	 /* it has or had an unwind table */
	uint32_t unread; /* times that a process ended before this file was read */
};

struct processes_stats {
	uint32_t processes, mappings, files, files_waiting, files_refused;
	/* number of `first` processes that are being read, or that map a file that is being read */
	uint32_t first_waiting;
	uint64_t mappings_dropped, publish_full, scan_failed;
	uint64_t worker_cpu_ns;
	struct reader_stats readers;
	uint64_t python_full;	 /* interpreters for which the kernel's map had no room */
	uint32_t python_refused; /* interpreters whose frames cannot be read */
	char python_why[160];	 /* the reason for the last of them */
};

struct processes;
/* store is borrowed until close; python: whether to look for interpreters; reader: as for
 * worker_open. 0, -ENOMEM, -errno. */
int processes_open(struct processes **out, const char *proc_root, struct unwind_store *store,
		   const struct processes_sink *sink, bool python, struct reader *reader);
void processes_close(struct processes *p); /* NULL is a no-op */
/* 0, -ESRCH, -EACCES, -ENOSPC, -ENOMEM. children: also its current and future children. */
int processes_add(struct processes *p, uint32_t pid, bool children);
void processes_remove(struct processes *p, uint32_t pid);
/* Samples every process of the node, now and later. */
void processes_add_all(struct processes *p);

/* Events from the kernel, in order of time. */
void processes_on_fork(struct processes *p, uint32_t parent, uint32_t pid);
void processes_on_exec(struct processes *p, uint32_t pid);
void processes_on_exit(struct processes *p, uint32_t pid);
void processes_on_mmap(struct processes *p, uint32_t pid, const struct process_mapping *m,
		       const char *path);
/* Events were lost: reads everything again. */
void processes_on_lost(struct processes *p);
/* The known mappings of a process are wrong: reads them again. */
void processes_doubt(struct processes *p, uint32_t pid);

int processes_fd(const struct processes *p); /* becomes readable when the worker has results */
/* Takes the worker's results and publishes the changes. */
void processes_poll(struct processes *p);
/* Publishes this process's changes. False: it has no mappings, or there is no room for them. */
bool processes_publish(struct processes *p, struct process *process);
/* Requests missing names. True: requests are pending. */
bool processes_names_ask(struct processes *p);
/* Once per drain, after the kernel's grace period and after the drained stacks were named: removes
 * ended processes and releases files. */
void processes_sweep(struct processes *p);

/* Whether another file replaced this one while this generation of mappings was published. What was
 * unwound with this file's table may then belong to the other file. Valid until the next sweep. */
bool process_replaced(const struct process *process, uint8_t generation, uint32_t file);
/* NULL: unknown. Borrowed until the next call that takes a non-const p. */
struct process *processes_find(struct processes *p, uint32_t pid);
const struct process_file *processes_file(const struct processes *p, uint32_t file);
/* The mapping that contains address, or NULL. */
const struct process_mapping *process_mapping_find(const struct process *process, uint64_t address);
void processes_stats_get(const struct processes *p, struct processes_stats *out);

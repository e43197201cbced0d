/* SPDX-License-Identifier: Apache-2.0
 * processes.c - see processes.h. We trust the address range of an event, but not its file: anybody
 * can write a Build ID into a file. For everything else an event is only a reason to read /proc
 * again, because events can be lost, and an unknown file must be opened anyway. */
#include "sampler/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/probe.h"
#include "base/room.h"
#include "sampler/worker.h"

#define PROCESS_SLOTS	(LIMIT_SAMPLER_PROCESSES * 2)
#define PYTHON_RETRY_NS 200000000ull
/* The number of drains for which a file keeps its number after its last mapping, because stacks in
 * transit still use it. */
#define FILE_IDLE_DRAINS 3
/* The number of processes from which a file is tried to be read before it counts as refused. */
#define FILE_TRIES_MAX 8

struct processes {
	char proc_root[128];
	struct unwind_store *store;
	struct processes_sink sink;
	bool python, all;
	struct worker *worker;
	struct process *slot[PROCESS_SLOTS];
	uint32_t count;
	struct process_file *files; /* by the store's number */
	size_t file_room;
	uint32_t files_known;
	struct unwind_mapping scratch[UNWIND_MAPPING_MAX];
	uint64_t serial; /* of requests for names */
	struct processes_stats stats;
};

/* ---- the table of processes ---- */

static uint32_t slot_of(const struct processes *p, uint32_t pid)
{
	PROBE_PLACES (i, keyed_word(keyed_process(), pid), PROCESS_SLOTS)
		if (!p->slot[i] || p->slot[i]->pid == pid)
			return i;
}

struct process *processes_find(struct processes *p, uint32_t pid)
{
	return p->slot[slot_of(p, pid)];
}

static void slot_clear(struct processes *p, uint32_t i)
{
	p->slot[i] = NULL;
	PROBE_PLACES (j, i + 1, PROCESS_SLOTS) {
		struct process *moved = p->slot[j];

		if (!moved)
			return;
		p->slot[j] = NULL;
		p->slot[slot_of(p, moved->pid)] = moved;
	}
}

static void mappings_clear(struct processes *p, struct process *process)
{
	for (uint32_t i = 0; i < process->count; i++) {
		if (process->mappings[i].file)
			p->files[process->mappings[i].file].users--;
	}
	process->count = 0;
}

static void python_publish(struct processes *p, struct process *process)
{
	if (p->sink.python &&
	    p->sink.python(p->sink.context, process->pid, &process->python->process))
		/* its interpreter loops stay native frames, and its stacks count as guessed */
		p->stats.python_full++;
}

static void python_clear(struct processes *p, struct process *process)
{
	if (process->python && p->sink.python)
		p->sink.python(p->sink.context, process->pid, NULL);
	python_names_close(process->names);
	free(process->python);
	process->names = NULL;
	process->asked = 0;
	process->python = NULL;
	process->python_err = -ENOENT;
	process->python_retry_ns = 0;
}

static void process_drop(struct processes *p, uint32_t slot)
{
	struct process *process = p->slot[slot];

	if (p->sink.remove)
		p->sink.remove(p->sink.context, process->pid);
	unwind_store_retire(p->store, &process->published);
	python_clear(p, process);
	mappings_clear(p, process);
	slot_clear(p, slot);
	p->count--;
	free(process->mappings);
	free(process->replaced);
	free(process);
}

static void scan_request(struct processes *p, struct process *process)
{
	struct worker_job *job;

	if (process->scanning) {
		process->rescan = true;
		return;
	}
	job = calloc(1, sizeof(*job));
	if (!job)
		return; /* the next event triggers a new request */
	job->kind = WORKER_SCAN;
	job->pid = process->pid;
	job->find_python = p->python && !process->python;
	process->scanning = true;
	process->fresh_begin = process->fresh_end = 0;
	process->rescan = false;
	process->python_retry_ns = 0;
	worker_push(p->worker, job);
}

static int process_new(struct processes *p, uint32_t pid, bool children, struct process **out)
{
	uint32_t slot = slot_of(p, pid);
	struct process *process = p->slot[slot];

	if (process) {
		process->children |= children;
		*out = process;
		return 0;
	}
	if (p->count >= LIMIT_SAMPLER_PROCESSES)
		return -ENOSPC;
	process = calloc(1, sizeof(*process));
	if (!process)
		return -ENOMEM;
	process->pid = pid;
	process->children = children;
	process->python_err = -ENOENT;
	p->slot[slot] = process;
	p->count++;
	*out = process;
	return 0;
}

/* ---- files ---- */

static int file_room(struct processes *p, uint32_t file)
{
	if (file > LIMIT_SAMPLER_FILES)
		return -E2BIG;
	return ROOM_FOR_ZERO(p->files, p->file_room, file + 1ull);
}

static void table_request(struct processes *p, uint32_t file, uint32_t pid, uint64_t begin,
			  uint64_t end)
{
	struct worker_job *job = calloc(1, sizeof(*job));

	if (!job)
		return;
	job->kind = WORKER_TABLE;
	job->pid = pid;
	job->file = file;
	job->begin = begin;
	job->end = end;
	job->key = p->files[file].elf.key;
	job->path = strdup(p->files[file].path ? p->files[file].path : "");
	if (!job->path) {
		worker_job_free(job);
		return;
	}
	p->files[file].waiting = true;
	worker_push(p->worker, job);
}

/* The store's number for a mapping's file; 0: none available, treat it as anonymous. */
static uint32_t file_number(struct processes *p, uint32_t pid, uint32_t uid,
			    const struct mapping *m)
{
	struct process_file *f;
	uint32_t file;
	int found;

	if (!m->elf)
		return 0;
	found = unwind_store_find(p->store, &m->elf->key, &file);
	if (found && unwind_store_reserve(p->store, &m->elf->key, uid, &file))
		return 0;
	if (file_room(p, file)) {
		unwind_store_unref(p->store, file);
		return 0;
	}
	f = &p->files[file];
	if (f->known) {
		unwind_store_unref(p->store, file); /* one reference is enough */
		if ((f->unread || (f->denied && f->denied_uid != uid)) && !f->waiting &&
		    !f->tabled && !f->refused)
			table_request(p, file, pid, m->begin, m->end);
		return file;
	}
	memset(f, 0, sizeof(*f));
	f->path = strdup(m->path);
	f->elf = *m->elf;
	f->known = true;
	f->tabled = unwind_store_has_table(p->store, file);
	p->files_known++;
	if (!f->tabled)
		table_request(p, file, pid, m->begin, m->end);
	return file;
}

static void file_forget(struct processes *p, uint32_t file)
{
	struct process_file *f = &p->files[file];

	unwind_store_unref(p->store, file);
	free(f->path);
	memset(f, 0, sizeof(*f));
	p->files_known--;
}

const struct process_file *processes_file(const struct processes *p, uint32_t file)
{
	return file < p->file_room && p->files[file].known ? &p->files[file] : NULL;
}

/* ---- mappings ---- */

static int mapping_append(struct processes *p, struct process *process,
			  const struct process_mapping *m)
{
	if (process->count >= UNWIND_MAPPING_MAX)
		return -E2BIG;
	if (ROOM_FOR(process->mappings, process->room, process->count + 1ull))
		return -ENOMEM;
	process->mappings[process->count++] = *m;
	if (m->file)
		p->files[m->file].users++;
	return 0;
}

ORDER_BY(by_begin, struct process_mapping, ORDER_UP(begin));

/* Samples taken since the change may have been unwound with this file's table. */
static void replaced_note(struct process *process, uint32_t file)
{
	uint32_t *at;

	if (!process->replaced)
		process->replaced = calloc(UINT8_MAX + 1, sizeof(*process->replaced));
	if (!process->replaced)
		return;
	at = &process->replaced[process->generation];
	*at = *at && *at != file ? UINT32_MAX : file;
}

bool process_replaced(const struct process *process, uint8_t generation, uint32_t file)
{
	uint32_t replaced = process->replaced ? process->replaced[generation] : 0;

	return replaced && (replaced == file || replaced == UINT32_MAX);
}

/* Removes the notes of generations that are drained. */
static void replaced_forget(struct process *process)
{
	for (uint32_t i = 0; process->replaced && i <= UINT8_MAX; i++)
		if (i != process->generation)
			process->replaced[i] = 0;
}

/* A new mapping replaces what was at its addresses. */
static void mapping_insert(struct processes *p, struct process *process,
			   const struct process_mapping *m)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < process->count; i++) {
		struct process_mapping *old = &process->mappings[i];

		if (old->begin < m->end && m->begin < old->end) {
			if (old->file) {
				p->files[old->file].users--;
				replaced_note(process, old->file);
			}
			continue;
		}
		process->mappings[kept++] = *old;
	}
	process->count = kept;
	if (!mapping_append(p, process, m))
		qsort(process->mappings, process->count, sizeof(*process->mappings), by_begin);
	process->dirty = true;
}

const struct process_mapping *process_mapping_find(const struct process *process, uint64_t address)
{
	uint32_t low = 0, high = process->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (process->mappings[middle].begin <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < process->mappings[low - 1].end ? &process->mappings[low - 1] : NULL;
}

static void publish(struct processes *p, struct process *process)
{
	struct unwind_process fresh = {0};
	uint32_t dropped = 0;

	process->dirty = false;
	for (uint32_t i = 0; i < process->count; i++) {
		const struct process_mapping *m = &process->mappings[i];
		struct unwind_mapping *to = &p->scratch[i];

		unwind_store_mapping(p->store, m->file, m->begin, m->end, m->load_bias, to);
		if (m->file && to->page_count)
			p->files[m->file].base_table = to->bias - m->load_bias;
		else if (m->file)
			p->files[m->file].base_bare = to->bias - m->load_bias;
	}
	if (process->count &&
	    unwind_store_publish(p->store, p->scratch, process->count, &fresh, &dropped)) {
		p->stats.publish_full++;
		process->dirty = true; /* there may be room after the next drain */
		return;
	}
	p->stats.mappings_dropped += dropped;
	if (p->sink.set && p->sink.set(p->sink.context, process->pid, &fresh,
				       (uint8_t)(process->generation + 1))) {
		unwind_store_retire(p->store, &fresh);
		return;
	}
	unwind_store_retire(p->store, &process->published);
	process->published = fresh;
	process->generation++;
}

bool processes_publish(struct processes *p, struct process *process)
{
	if (process->dirty)
		publish(p, process);
	return !process->dirty && process->published.mapping_count;
}

/* ---- results of the worker ---- */

static void python_adopt(struct processes *p, struct process *process, struct worker_job *job)
{
	if (job->python_err == -ENOTSUP && process->python_err != -ENOTSUP && job->python) {
		p->stats.python_refused++;
		snprintf(p->stats.python_why, sizeof(p->stats.python_why), "%s", job->python->what);
	}
	process->python_err = job->python_err;
	if (job->python_err == -EAGAIN)
		process->python_retry_ns = clock_monotonic_ns() + PYTHON_RETRY_NS;
	if (job->python_err || !job->python)
		return;
	process->python = job->python;
	job->python = NULL;
	if (python_names_open(&process->names, process->python)) {
		python_clear(p, process);
		return;
	}
	python_publish(p, process);
}

static void scan_done(struct processes *p, struct worker_job *job)
{
	uint32_t slot = slot_of(p, job->pid);
	struct process *process = p->slot[slot];

	if (!process || !process->scanning)
		return;
	process->scanning = false;
	if (job->err) {
		p->stats.scan_failed++;
		if (job->err == -ESRCH)
			process_drop(p, slot);
		return;
	}
	mappings_clear(p, process);
	for (uint32_t i = 0; i < job->scan.count; i++) {
		const struct mapping *m = &job->scan.mappings[i];
		struct process_mapping to = {
		    .begin = m->begin, .end = m->end, .load_bias = m->load_bias};

		/* the worker's data may be outdated in that range */
		if (m->begin >= process->fresh_end || m->end <= process->fresh_begin)
			to.file = file_number(p, process->pid, job->uid, m);
		if (mapping_append(p, process, &to))
			break;
	}
	process->dirty = true;
	if (job->find_python && !process->python)
		python_adopt(p, process, job);
	if (process->rescan)
		scan_request(p, process);
}

/* The process through which the file was to be read is gone, or maps another file there now.
 * Another process may have the file now, or later. */
static void table_unread(struct processes *p, struct worker_job *job)
{
	struct process_file *f = &p->files[job->file];

	if (++f->unread >= FILE_TRIES_MAX) {
		f->refused = true;
		unwind_store_set_table(p->store, job->file, job->uid, NULL);
		return;
	}
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++) {
		struct process *process = p->slot[i];

		if (!process || process->gone || process->pid == job->pid)
			continue;
		for (uint32_t k = 0; k < process->count; k++) {
			const struct process_mapping *m = &process->mappings[k];

			if (m->file != job->file)
				continue;
			table_request(p, job->file, process->pid, m->begin, m->end);
			return;
		}
	}
}

static void names_done(struct processes *p, struct worker_job *job)
{
	struct process *process = processes_find(p, job->pid);

	if (!process || process->asked != job->serial)
		return; /* the answer is for another process, or another interpreter */
	python_names_answer(process->names, job->err, job->names, job->names_bytes);
	process->asked = 0;
}

bool processes_names_ask(struct processes *p)
{
	bool waiting = false;

	for (uint32_t i = 0; i < PROCESS_SLOTS; i++) {
		struct process *process = p->slot[i];
		struct worker_job *job;
		size_t bytes = 0;
		void *request;

		if (!process || !process->names)
			continue;
		request = process->asked ? NULL : python_names_ask(process->names, &bytes);
		job = request ? calloc(1, sizeof(*job)) : NULL;
		if (job) {
			job->kind = WORKER_NAMES;
			job->pid = process->pid;
			job->names = request;
			job->names_bytes = bytes;
			job->serial = process->asked = ++p->serial;
			worker_push(p->worker, job);
		} else if (request) {
			free(request);
			python_names_answer(process->names, -ENOMEM, NULL, 0);
		}
		waiting |= process->asked != 0;
	}
	return waiting;
}

static void table_done(struct processes *p, struct worker_job *job)
{
	struct process_file *f;
	int err;

	if (!processes_file(p, job->file) ||
	    memcmp(&p->files[job->file].elf.key, &job->key, sizeof(job->key)))
		return; /* removed meanwhile */
	f = &p->files[job->file];
	f->waiting = false;
	if (job->unread) {
		table_unread(p, job);
		return;
	}
	f->refused = job->err && job->err != -ENODATA;
	err = unwind_store_set_table(p->store, job->file, job->uid, job->err ? NULL : &job->table);
	f->denied = err == -EDQUOT; /* another user who maps it may supply its table */
	f->denied_uid = job->uid;
	f->refused |= err && !f->denied;
	f->tabled = !job->err && !err;
	if (job->err || err)
		return; /* nothing to publish: it had no table before */
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++) {
		struct process *process = p->slot[i];

		for (uint32_t k = 0; process && !process->dirty && k < process->count; k++)
			process->dirty = process->mappings[k].file == job->file;
	}
}

void processes_poll(struct processes *p)
{
	uint64_t now = clock_monotonic_ns();

	for (struct worker_job *job; (job = worker_next(p->worker));) {
		if (job->kind == WORKER_SCAN && p->sink.catch_up)
			p->sink.catch_up(p->sink.context);
		if (job->kind == WORKER_SCAN)
			scan_done(p, job);
		else if (job->kind == WORKER_TABLE)
			table_done(p, job);
		else
			names_done(p, job);
		worker_job_free(job);
	}
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++) {
		struct process *process = p->slot[i];

		if (!process)
			continue;
		if (process->dirty)
			publish(p, process);
		if (process->python_retry_ns && now >= process->python_retry_ns)
			scan_request(p, process);
	}
}

int processes_fd(const struct processes *p)
{
	return worker_fd(p->worker);
}

/* ---- events ---- */

void processes_on_fork(struct processes *p, uint32_t parent_pid, uint32_t pid)
{
	struct process *parent = processes_find(p, parent_pid), *child;
	uint32_t slot = slot_of(p, pid);

	if (!(parent && parent->children) && !p->all)
		return;
	if (p->slot[slot]) /* the number was reused */
		process_drop(p, slot);
	if (process_new(p, pid, parent && parent->children, &child))
		return;
	if (!parent) {
		scan_request(p, child);
		return;
	}
	for (uint32_t i = 0; i < parent->count; i++) {
		if (mapping_append(p, child, &parent->mappings[i]))
			break;
	}
	if (parent->python) {
		child->python = malloc(sizeof(*child->python));
		if (child->python) {
			*child->python = *parent->python;
			if (python_names_open(&child->names, child->python))
				python_clear(p, child);
			else
				python_publish(p, child);
		}
	}
	if (parent->scanning || !parent->count)
		scan_request(p, child);
	publish(p, child);
}

void processes_on_exec(struct processes *p, uint32_t pid)
{
	struct process *process = processes_find(p, pid);
	bool was_scanning;

	if (!process && (!p->all || process_new(p, pid, false, &process)))
		return;
	python_clear(p, process);
	mappings_clear(p, process);
	process->first = false;
	process->gone = process->leaving = false;
	replaced_note(process, UINT32_MAX);
	publish(p, process);
	was_scanning = process->scanning;
	scan_request(p, process);
	if (was_scanning) { /* the scan was of the program before the exec */
		process->fresh_begin = 0;
		process->fresh_end = UINT64_MAX;
	}
}

void processes_on_exit(struct processes *p, uint32_t pid)
{
	struct process *process = processes_find(p, pid);

	if (process)
		process->gone = process->leaving = true; /* other threads may outlive the first
							  * one */
}

/* Until the scan has identified the file, the range counts as anonymous memory. Stacks unwound
 * through it count as guessed, and the table of the previous file is not used. */
void processes_on_mmap(struct processes *p, uint32_t pid, const struct process_mapping *m,
		       const char *path)
{
	struct process *process = processes_find(p, pid);
	struct process_mapping fresh = *m;

	if (!process)
		return;
	if (process->scanning) {
		process->rescan = true; /* the running scan may already be past this range */
		if (!process->fresh_end || m->begin < process->fresh_begin)
			process->fresh_begin = m->begin;
		if (m->end > process->fresh_end)
			process->fresh_end = m->end;
	}
	fresh.file = 0;
	mapping_insert(p, process, &fresh);
	if (path[0] == '/')
		scan_request(p, process);
}

void processes_on_lost(struct processes *p)
{
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++) {
		if (!p->slot[i])
			continue;
		replaced_note(p->slot[i], UINT32_MAX);
		scan_request(p, p->slot[i]);
	}
	if (p->all)
		processes_add_all(p);
}

void processes_doubt(struct processes *p, uint32_t pid)
{
	struct process *process = processes_find(p, pid);

	if (process && !process->gone)
		scan_request(p, process);
}

/* ---- adding and removing ---- */

/* Calls fn with pid and parent of every process in /proc, until fn says stop. */
static void proc_each(const struct processes *p,
		      void (*fn)(void *arg, uint32_t pid, uint32_t parent), void *arg)
{
	DIR *d = opendir(p->proc_root);

	for (struct dirent *e; d && (e = readdir(d));) {
		char name[sizeof(p->proc_root) + 280], text[512], *after;
		unsigned parent;
		FILE *f;
		size_t n;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(name, sizeof(name), "%s/%s/stat", p->proc_root, e->d_name);
		f = fopen(name, "re");
		if (!f)
			continue;
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
		text[n] = 0;
		after = strrchr(text, ')'); /* a name may contain any character */
		if (after && sscanf(after, ") %*c %u", &parent) == 1)
			fn(arg, (uint32_t)strtoul(e->d_name, NULL, 10), parent);
	}
	if (d)
		closedir(d);
}

struct adding {
	struct processes *p;
	bool grew;
};

static void add_child(void *arg, uint32_t pid, uint32_t parent)
{
	struct adding *a = arg;
	struct process *of = processes_find(a->p, parent), *child = processes_find(a->p, pid);

	if (!of || !of->children || (child && child->children))
		return;
	if (!process_new(a->p, pid, true, &child)) {
		child->first = true;
		scan_request(a->p, child);
		a->grew = true;
	}
}

static void add_any(void *arg, uint32_t pid, uint32_t parent)
{
	struct adding *a = arg;
	struct process *process = processes_find(a->p, pid);

	if (!process && !process_new(a->p, pid, false, &process)) {
		process->first = true;
		scan_request(a->p, process);
	}
}

int processes_add(struct processes *p, uint32_t pid, bool children)
{
	struct adding a = {.p = p, .grew = children};
	struct process *process = processes_find(p, pid);
	char name[192], byte;
	int err;

	/* needs the same permission as its maps, and waits for no lock; kernel threads have no
	 * exe */
	snprintf(name, sizeof(name), "%s/%u/exe", p->proc_root, pid);
	if (readlink(name, &byte, 1) < 0 && errno == EACCES)
		return -EACCES;
	snprintf(name, sizeof(name), "%s/%u", p->proc_root, pid);
	if (access(name, F_OK))
		return -ESRCH;
	if (!process) {
		err = process_new(p, pid, children, &process);
		if (err)
			return err;
		process->first = true;
		scan_request(p, process);
	}
	process->children |= children;
	for (int depth = 0; a.grew && depth < 16; depth++) {
		a.grew = false;
		proc_each(p, add_child, &a);
	}
	return 0;
}

void processes_remove(struct processes *p, uint32_t pid)
{
	uint32_t slot = slot_of(p, pid);

	if (p->slot[slot])
		process_drop(p, slot);
}

void processes_add_all(struct processes *p)
{
	struct adding a = {.p = p};

	p->all = true;
	proc_each(p, add_any, &a);
}

/* A zombie has no memory any more, but keeps its number until it is reaped. */
static bool process_ended(const struct processes *p, uint32_t pid)
{
	char name[192], text[512], *after;
	size_t n;
	FILE *f;

	snprintf(name, sizeof(name), "%s/%u/stat", p->proc_root, pid);
	f = fopen(name, "re");
	if (!f)
		return true;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	after = strrchr(text, ')');
	if (!after || (after[1] && after[2] == 'X'))
		return true;
	if (after[2] != 'Z')
		return false;
	/* the first thread of a live process can be a zombie too, so check num_threads, field 20 */
	for (int field = 3; field < 20 && after; field++)
		after = strchr(after + 2, ' ');
	return !after || strtol(after, NULL, 10) <= 1;
}

void processes_sweep(struct processes *p)
{
	unwind_store_quiesce(p->store);
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++) {
		/* the kernel reports an exit before the process has ended, which may take several
		 * sweeps */
		while (p->slot[i] && p->slot[i]->leaving && process_ended(p, p->slot[i]->pid))
			process_drop(p, i);
		if (p->slot[i]) {
			replaced_forget(p->slot[i]);
			p->slot[i]->gone = false;
			if (p->slot[i]->names)
				python_names_begin(p->slot[i]->names);
		}
	}
	for (uint32_t file = 1; file < p->file_room; file++) {
		struct process_file *f = &p->files[file];

		if (!f->known || f->users) {
			f->idle = 0;
			continue;
		}
		if (++f->idle >= FILE_IDLE_DRAINS && !f->waiting)
			file_forget(p, file);
	}
}

/* Whether tables for the process are still being compiled. */
static bool is_waiting(const struct processes *p, const struct process *process)
{
	bool waiting = process->scanning;

	for (uint32_t i = 0; !waiting && i < process->count; i++)
		waiting = process->mappings[i].file && p->files[process->mappings[i].file].waiting;
	return waiting;
}

void processes_stats_get(const struct processes *p, struct processes_stats *out)
{
	*out = p->stats;
	out->processes = p->count;
	out->files = p->files_known;
	out->worker_cpu_ns = worker_cpu_ns(p->worker);
	reader_stats_get(worker_reader(p->worker), &out->readers);
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++)
		out->mappings += p->slot[i] ? p->slot[i]->count : 0;
	for (uint32_t i = 0; i < p->file_room; i++) {
		out->files_waiting += p->files[i].known && p->files[i].waiting;
		out->files_refused +=
		    p->files[i].known && (p->files[i].refused || p->files[i].denied);
	}
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++)
		out->files_waiting += p->slot[i] && p->slot[i]->scanning;
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++)
		out->first_waiting += p->slot[i] && p->slot[i]->first && !p->slot[i]->gone &&
				      is_waiting(p, p->slot[i]);
}

int processes_open(struct processes **out, const char *proc_root, struct unwind_store *store,
		   const struct processes_sink *sink, bool python, struct reader *reader)
{
	struct processes *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	snprintf(p->proc_root, sizeof(p->proc_root), "%s", proc_root);
	p->store = store;
	p->sink = *sink;
	p->python = python;
	err = worker_open(&p->worker, p->proc_root, reader);
	if (err) {
		free(p);
		return err;
	}
	*out = p;
	return 0;
}

void processes_close(struct processes *p)
{
	if (!p)
		return;
	worker_close(p->worker);
	for (uint32_t i = 0; i < PROCESS_SLOTS; i++) {
		while (p->slot[i])
			process_drop(p, i);
	}
	for (uint32_t file = 1; file < p->file_room; file++) {
		if (p->files[file].known)
			file_forget(p, file);
	}
	free(p->files);
	free(p);
}

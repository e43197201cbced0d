/* SPDX-License-Identifier: Apache-2.0
 * python_runtime.c - the interpreter of a process. Each thread has a slot that points to its own
 * thread state. The slot is not just computed from pthread_key_t and the struct sizes of a C
 * library. We search for it where glibc keeps such data, and it must have the right value in the
 * threads that the interpreter lists (a thread state stores its pthread_self, which is fsbase). If
 * we do not find it (musl, another libc), the kernel searches the interpreter's list instead. */
#include "sampler/python/python_runtime.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

/* glibc's struct pthread, x86-64, since 2.12: it contains {sequence, value} of the first 32 keys,
 * then 32 pointers to blocks of 32 more. */
#define TSD_FIRST_BLOCK 0x310
#define TSD_BLOCKS	0x510
#define TSD_KEYS	32u

/* The most thread states that are compared. */
#define RUNTIME_THREADS_MAX 64u
#define RUNTIME_INTERPS_MAX 64u

struct file_seen {
	dev_t dev;
	ino_t ino;
	struct timespec mtime;
	off_t bytes;
	int result;
	uint64_t used;
	struct python_elf elf;
};

struct python_finder {
	struct file_seen file[LIMIT_PYTHON_FILES];
	uint64_t clock;
};

int python_finder_open(struct python_finder **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void python_finder_close(struct python_finder *f)
{
	free(f);
}

static long memory_read(void *owner, void *to, __u32 bytes, __u64 address)
{
	struct python_memory *m = owner;

	m->reads++;
	m->bytes += bytes;
	if (address + bytes < address || address >> 63)
		return -EFAULT;
	return pread(m->fd, to, bytes, (off_t)address) == (ssize_t)bytes ? 0 : -EFAULT;
}

int python_memory_open(struct python_memory *m, struct reader_target *t)
{
	*m = (struct python_memory){.fd = reader_target_open(t, READER_MEMORY, 0, 0, NULL)};
	return m->fd >= 0 ? 0 : m->fd == -ENOENT ? -ESRCH : m->fd;
}

void python_memory_close(struct python_memory *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

struct read_user python_memory_reader(struct python_memory *m)
{
	return (struct read_user){memory_read, m};
}

static bool read_word(const struct read_user *memory, uint64_t address, uint64_t *out)
{
	return read_user_from(memory, out, sizeof(*out), address);
}

static bool plausible(uint64_t address)
{
	return address >= 4096 && address < 1ull << 47 && address % 8 == 0;
}

/* "libpython3.10.so.1.0", "/usr/bin/python3.10" -> 0x030a0000; 0 without a version. */
static uint32_t path_version(const char *path)
{
	const char *name = strrchr(path, '/');
	unsigned int major, minor;

	name = name ? name + 1 : path;
	name = strstr(name, "python");
	if (!name || sscanf(name, "python%1u.%2u", &major, &minor) != 2)
		return 0;
	return major << 24 | minor << 16;
}

static int offsets_find(struct python_runtime *out, const char *path,
			const struct read_user *memory)
{
	uint8_t debug[PYTHON_OFFSETS_DEBUG_BYTES];
	uint64_t version = 0;

	if (!read_user_from(memory, debug, 8, out->runtime)) {
		snprintf(out->what, sizeof(out->what), "the interpreter's state can't be read");
		return -EAGAIN;
	}
	if (!memcmp(debug, PYTHON_OFFSETS_COOKIE, 8)) {
		if (!read_user_from(memory, debug, sizeof(debug), out->runtime))
			return -EAGAIN;
		return python_offsets_of_debug(&out->offsets, debug, sizeof(debug), out->what,
					       sizeof(out->what));
	}
	if (out->version && !read_word(memory, out->version, &version))
		version = 0;
	if (!version)
		version = path_version(path);
	if (!version) {
		snprintf(out->what, sizeof(out->what), "CPython of unknown version");
		return -ENOTSUP;
	}
	if (version >> 32 || python_offsets_of_version(&out->offsets, (uint32_t)version)) {
		snprintf(out->what, sizeof(out->what), "CPython %u.%u: not 3.10 to 3.14",
			 (unsigned)(version >> 24 & 0xff), (unsigned)(version >> 16 & 0xff));
		return -ENOTSUP;
	}
	return 0;
}

/* The first interpreter is the last one in the list. */
static int interp_find(struct python_runtime *r, const struct read_user *memory)
{
	struct python_process *p = &r->process;
	uint64_t interp, next, gil;

	if (!read_word(memory, r->runtime + r->offsets.interpreters_head, &interp))
		return -EAGAIN;
	for (uint32_t i = 0; i < RUNTIME_INTERPS_MAX; i++) {
		if (!plausible(interp) ||
		    !read_word(memory, interp + r->offsets.interp_next, &next))
			return -EAGAIN;
		if (!next)
			break;
		interp = next;
	}
	p->interp = interp;
	if (r->offsets.runtime_gil) {
		p->gil = r->runtime + r->offsets.runtime_gil;
		p->current = r->runtime + r->offsets.runtime_current;
	} else {
		if (!read_word(memory, interp + p->interp_gil, &gil) || !plausible(gil))
			return -EAGAIN;
		p->gil = gil;
	}
	return 0;
}

struct thread_seen {
	uint64_t tstate, thread;
};

static uint32_t threads_list(const struct python_runtime *r, const struct read_user *memory,
			     struct thread_seen *list)
{
	const struct python_process *p = &r->process;
	uint32_t count = 0;
	uint64_t tstate;

	if (!read_word(memory, p->interp + p->threads_head, &tstate))
		return 0;
	/* a list may be circular */
	for (uint32_t i = 0; i < RUNTIME_THREADS_MAX && plausible(tstate); i++) {
		struct thread_seen t = {.tstate = tstate};

		if (!read_word(memory, tstate + p->tstate_thread_id, &t.thread) ||
		    !read_word(memory, tstate + p->tstate_next, &tstate))
			break;
		if (plausible(t.thread))
			list[count++] = t;
	}
	return count;
}

/* Counts for each key of a block the threads whose data is their thread state. */
static void block_agrees(const struct read_user *memory, const struct thread_seen *list,
			 uint32_t count, int64_t block, uint32_t *good)
{
	uint64_t data[TSD_KEYS][2];

	for (uint32_t i = 0; i < count; i++) {
		uint64_t base = list[i].thread;

		if (!block)
			base += TSD_FIRST_BLOCK;
		else if (!read_word(memory, base + (uint64_t)block, &base) || !plausible(base))
			continue;
		if (!read_user_from(memory, data, sizeof(data), base))
			continue;
		for (uint32_t k = 0; k < TSD_KEYS; k++)
			good[k] += data[k][1] == list[i].tstate;
	}
}

/* Finds the lowest key whose data is the thread state in most threads; a thread that starts or ends
 * may not have it. The lowest key is right, because extension modules keep the same pointer under
 * later keys. */
static void slot_find(struct python_runtime *r, const struct read_user *memory)
{
	struct thread_seen list[RUNTIME_THREADS_MAX];
	uint32_t count = threads_list(r, memory, list), best = 0;
	uint32_t key[2] = {0, 0};
	bool known = false;

	if (!count)
		return;
	/* if the runtime names the key, no other key can be right */
	if (r->offsets.runtime_tss)
		known =
		    read_user_from(memory, key, sizeof(key), r->runtime + r->offsets.runtime_tss) &&
		    key[0] == 1 && key[1] < TSD_KEYS * TSD_KEYS;
	for (uint32_t b = 0; b < TSD_KEYS && best < count; b++) {
		int64_t block = b ? TSD_BLOCKS + 8 * (int64_t)b : 0;
		uint32_t good[TSD_KEYS] = {0};

		if (known && b != key[1] / TSD_KEYS)
			continue;
		block_agrees(memory, list, count, block, good);
		for (uint32_t k = 0; k < TSD_KEYS; k++) {
			if (good[k] <= best || (known && k != key[1] % TSD_KEYS))
				continue;
			best = good[k];
			r->process.tsd_block = block;
			r->process.tsd_slot = (block ? 0 : TSD_FIRST_BLOCK) + 16 * (int64_t)k + 8;
		}
	}
	if (best * 2 < count) {
		r->process.tsd_block = 0;
		r->process.tsd_slot = 0;
	}
}

static uint32_t ranges_move(struct python_range *out, const struct python_range *in, uint32_t count,
			    uint64_t bias)
{
	for (uint32_t i = 0; i < count; i++)
		out[i] = (struct python_range){in[i].begin + bias, in[i].end + bias};
	return count;
}

int python_runtime_probe(struct python_runtime *out, const struct python_elf *e, uint64_t bias,
			 const char *path, const struct read_user *memory)
{
	char patch[8] = "";
	uint32_t v;
	int err;

	memset(out, 0, sizeof(*out));
	out->bias = bias;
	out->runtime = e->runtime + bias;
	out->code_type = e->code_type ? e->code_type + bias : 0;
	out->version = e->version ? e->version + bias : 0;
	out->eval_count = ranges_move(out->eval, e->eval, e->eval_count, bias);
	out->wait_count = ranges_move(out->wait, e->wait, e->wait_count, bias);
	err = offsets_find(out, path, memory);
	if (err)
		return err;
	out->process = out->offsets.process;
	err = interp_find(out, memory);
	v = out->offsets.version;
	if (err) {
		snprintf(out->what, sizeof(out->what), "CPython 3.%u: not started",
			 (unsigned)out->process.minor);
		return err;
	}
	slot_find(out, memory);
	/* 3.10 does not publish its patch release */
	if (v & 0xffff)
		snprintf(patch, sizeof(patch), ".%u", v >> 8 & 0xff);
	snprintf(out->what, sizeof(out->what), "CPython %u.%u%s%s, thread states by %s%s%s",
		 v >> 24, v >> 16 & 0xff, patch,
		 out->offsets.verified ? "" : " (layout unverified)",
		 out->process.tsd_slot ? "thread-specific data" : "the interpreter's list",
		 out->eval_count ? "" : ", no symbol for the interpreter loop",
		 e->cold_guessed ? ", its cold part by its jumps" : "");
	return 0;
}

enum python_mark python_runtime_mark(const struct python_runtime *r, uint64_t pc)
{
	for (uint32_t i = 0; i < r->eval_count; i++) {
		if (pc >= r->eval[i].begin && pc < r->eval[i].end)
			return PYTHON_MARK_EVAL;
	}
	for (uint32_t i = 0; i < r->wait_count; i++) {
		if (pc >= r->wait[i].begin && pc < r->wait[i].end)
			return PYTHON_MARK_WAIT;
	}
	return PYTHON_MARK_NONE;
}

/* Reads the file, or uses the cached result. */
static int file_look(struct python_finder *f, int fd, const struct python_elf **out)
{
	struct file_seen *oldest = &f->file[0];
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -ENOENT;
	for (size_t i = 0; i < LIMIT_PYTHON_FILES; i++) {
		struct file_seen *s = &f->file[i];

		if (s->used && s->dev == st.st_dev && s->ino == st.st_ino &&
		    s->bytes == st.st_size && s->mtime.tv_sec == st.st_mtim.tv_sec &&
		    s->mtime.tv_nsec == st.st_mtim.tv_nsec) {
			s->used = ++f->clock;
			*out = &s->elf;
			return s->result;
		}
		if (s->used < oldest->used)
			oldest = s;
	}
	oldest->dev = st.st_dev;
	oldest->ino = st.st_ino;
	oldest->bytes = st.st_size;
	oldest->mtime = st.st_mtim;
	oldest->used = ++f->clock;
	oldest->result = python_elf_read(&oldest->elf, fd);
	*out = &oldest->elf;
	return oldest->result;
}

/* A relevant mapping: executable, of a file that may contain an interpreter. */
struct mapping {
	uint64_t begin, end, offset;
	char path[PATH_MAX];
};

/* Parses one line of /proc/PID/maps. */
static bool mapping_parse(const char *line, struct mapping *m)
{
	unsigned long long begin, end, offset, inode;
	char rights[5];
	int at = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %*x:%*x %llu %n", &begin, &end, rights, &offset,
		   &inode, &at) < 5 ||
	    !at || !inode || rights[2] != 'x' || line[at] != '/')
		return false;
	m->begin = begin;
	m->end = end;
	m->offset = offset;
	snprintf(m->path, sizeof(m->path), "%s", line + at);
	m->path[strcspn(m->path, "\n")] = 0;
	return true;
}

static int mapping_look(struct python_finder *f, struct python_runtime *out,
			struct reader_target *t, const struct mapping *m)
{
	const struct python_elf *elf;
	struct python_memory memory;
	struct read_user reader;
	uint64_t address;
	int fd = reader_target_open(t, READER_MAPPING, m->begin, m->end, m->path), err;

	if (fd < 0)
		return -ENOENT;
	err = file_look(f, fd, &elf);
	close(fd);
	if (err || !python_elf_address(elf, m->offset, &address))
		return -ENOENT;
	err = python_memory_open(&memory, t);
	if (err) {
		snprintf(out->what, sizeof(out->what), "the process's memory can't be read: %s",
			 strerror(-err));
		return err;
	}
	reader = python_memory_reader(&memory);
	err = python_runtime_probe(out, elf, m->begin - address, m->path, &reader);
	python_memory_close(&memory);
	return err;
}

static bool may_be_python(const char *path, const char *exe)
{
	const char *name = strrchr(path, '/');

	return strstr(name ? name : path, "python") || !strcmp(path, exe);
}

int python_runtime_find(struct python_finder *f, struct python_runtime *out,
			struct reader_target *t)
{
	char exe[PATH_MAX], last[PATH_MAX] = "";
	struct mapping m;
	char *line = NULL;
	size_t room = 0;
	uint32_t lines = 0;
	int err = -ENOENT, fd;
	FILE *maps;

	memset(out, 0, sizeof(*out));
	snprintf(out->what, sizeof(out->what), "no CPython interpreter");
	reader_target_exe(t, exe, sizeof(exe));
	fd = reader_target_open(t, READER_MAPS, 0, 0, NULL);
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	maps = fdopen(fd, "r");
	if (!maps) {
		close(fd);
		return -ENOMEM;
	}
	while (err == -ENOENT && lines++ < LIMIT_PYTHON_MAPS_LINES &&
	       getline(&line, &room, maps) > 0) {
		if (!mapping_parse(line, &m) || !may_be_python(m.path, exe) ||
		    !strcmp(m.path, last))
			continue;
		snprintf(last, sizeof(last), "%s", m.path);
		err = mapping_look(f, out, t, &m);
	}
	free(line);
	fclose(maps);
	return err;
}

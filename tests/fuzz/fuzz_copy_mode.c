/* SPDX-License-Identifier: Apache-2.0
 * fuzz_copy_mode - what the kernel's ring gives copy mode: any records, with any copy of a stack,
 * over a file with any rules as the one that is mapped. The fuzzer stands for the kernel and for the
 * table of processes. Input: u16 bytes of rules, the rules, of which each covers 16 bytes of code; then
 * records {u16 type, u16 misc, u16 bytes, bytes}. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "sampler/copy_mode.h"
#include "sampler/perf_ring.h"
#include "tests/fuzz/fuzz_budget.h"

#define MAPPINGS_MAX 16u
#define RECORDS_MAX  32u
#define RULES_MAX    256u
#define RULE_CODE    16u
#define FRAMES_MAX   (UNWIND_FRAME_MAX + 127u)

/* A store of 4 MiB, and learned places; each sample is at most 512 frames. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 64,
    .allocated = 12u << 20,
    .allocated_per_byte = 4096,
    .cpu_us = 200000,
    .cpu_ns_per_byte = 20000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const uint8_t *at;
static size_t left;
static struct process process;
static struct process_file file;
static struct unwind_store *store;
static uint32_t file_number;

/* ---- the kernel ---- */

int perf_ring_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return eventfd(0, EFD_CLOEXEC);
}

int perf_ring_open(struct perf_ring *r, int fd, uint32_t pages)
{
	return 0;
}

void perf_ring_close(struct perf_ring *r)
{
}

uint32_t perf_ring_cpus(int *cpus, uint32_t room)
{
	cpus[0] = 0;
	return 1;
}

static uint16_t take_u16(void)
{
	uint16_t v = 0;

	if (left >= 2) {
		memcpy(&v, at, 2);
		at += 2;
		left -= 2;
	}
	return v;
}

/* Each record in memory of its size, so that a sanitizer sees the first byte past it. */
void perf_ring_read(struct perf_ring *r, uint32_t count,
		    void (*fn)(void *arg, const struct perf_event_header *record), void *arg)
{
	for (uint32_t i = 0; i < RECORDS_MAX && left >= 6; i++) {
		struct perf_event_header *h;
		uint16_t type = take_u16(), misc = take_u16(), n = take_u16();

		n = n > left ? (uint16_t)left : n;
		n = n > UINT16_MAX - sizeof(*h) ? UINT16_MAX - sizeof(*h) : n;
		h = malloc(sizeof(*h) + n);
		CHECK(h);
		*h = (struct perf_event_header){type, misc, (uint16_t)(sizeof(*h) + n)};
		memcpy(h + 1, at, n);
		at += n;
		left -= n;
		fn(arg, h);
		free(h);
	}
}

/* ---- the processes: one, whose mappings are all of one file ---- */

struct process *processes_find(struct processes *p, uint32_t pid)
{
	return &process;
}

const struct process_file *processes_file(const struct processes *p, uint32_t number)
{
	return number == file_number ? &file : NULL;
}

const struct process_mapping *process_mapping_find(const struct process *p, uint64_t address)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (address >= p->mappings[i].begin && address < p->mappings[i].end)
			return &p->mappings[i];
	return NULL;
}

void processes_on_mmap(struct processes *p, uint32_t pid, const struct process_mapping *m,
		       const char *path)
{
	struct process_mapping *to = &process.mappings[process.count];

	CHECK(m->begin < m->end && strlen(path) < UINT16_MAX);
	if (process.count == MAPPINGS_MAX)
		return;
	*to = *m;
	to->file = ++process.count % 2 ? file_number : 0;
	to->load_bias = m->begin - 4096 * strlen(path); /* any */
	process.dirty = true;
}

bool processes_publish(struct processes *p, struct process *of)
{
	struct unwind_mapping m[MAPPINGS_MAX];

	if (of->dirty) {
		for (uint32_t i = 0; i < of->count; i++)
			unwind_store_mapping(store, of->mappings[i].file, of->mappings[i].begin,
					     of->mappings[i].end, of->mappings[i].load_bias, &m[i]);
		unwind_store_retire(store, &of->published);
		unwind_store_quiesce(store);
		of->dirty =
		    of->count && unwind_store_publish(store, m, of->count, &of->published, NULL);
	}
	return !of->dirty && of->published.mapping_count;
}

bool process_replaced(const struct process *p, uint8_t generation, uint32_t number)
{
	return false;
}

void processes_on_lost(struct processes *p)
{
}

void processes_on_fork(struct processes *p, uint32_t parent, uint32_t pid)
{
}

void processes_on_exec(struct processes *p, uint32_t pid)
{
	process.count = 0;
	process.dirty = true;
}

void processes_on_exit(struct processes *p, uint32_t pid)
{
}

const char *kernel_symbols_find(struct kernel_symbols *k, uint64_t address, uint64_t *offset)
{
	*offset = address;
	return "kernel";
}

static void check_batch(struct stack_batch *b, const struct copy_mode_stats *s)
{
	CHECK(s->samples <= RECORDS_MAX && s->frames <= s->samples * FRAMES_MAX);
	CHECK(b->sample_count <= s->samples);
}

/* A table of the rules that the input begins with, kinds as the check of what parsers answer lets
 * them through. */
static void file_make(void)
{
	static struct unwind_rule rules[RULES_MAX];
	static struct unwind_table_row rows[RULES_MAX];
	const struct unwind_store_key key = {.count = 1, .kind = 1};
	struct unwind_table t = {.rows = rows, .rules = rules};
	size_t bytes = take_u16();

	bytes = bytes > left ? left : bytes;
	bytes = bytes > sizeof(rules) ? sizeof(rules) : bytes;
	memcpy(rules, at, bytes);
	at += bytes;
	left -= bytes;
	for (; t.rule_count < bytes / sizeof(*rules); t.rule_count++) {
		rows[t.rule_count] = (struct unwind_table_row){.address = t.rule_count * RULE_CODE,
							       .rule = t.rule_count};
		if (UNWIND_RULE_CFA(&rules[t.rule_count]) >= UNWIND_CFA_COUNT)
			rules[t.rule_count] = (struct unwind_rule){0};
	}
	t.row_count = t.rule_count;
	t.end = t.rule_count * RULE_CODE;
	CHECK(!unwind_store_open(&store, &unwind_store_memory, 4u << 20));
	CHECK(!unwind_store_add(store, &key, t.rule_count ? &t : NULL, &file_number));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct process_mapping mappings[MAPPINGS_MAX];
	const struct copy_mode_settings settings = {.period_ns = 10000000, .weight_ns = 10000000};
	char why[160], missing[160];
	struct copy_mode_stats stats;
	struct stack_batch batch;
	struct copy_mode *c;

	at = data;
	left = bytes;
	file_make();
	process = (struct process){.pid = 7, .mappings = mappings};
	file = (struct process_file){.path = "/lib/x.so"};
	CHECK(!copy_mode_open(&c, NULL, store, NULL, "/proc", &settings, why, missing));
	stack_batch_init(&batch, keyed_process());
	copy_mode_poll(c);
	CHECK(!copy_mode_drain(c, &batch));
	copy_mode_stats_get(c, &stats);
	check_batch(&batch, &stats);
	stack_batch_fini(&batch);
	copy_mode_close(c);
	unwind_store_close(store);
	return 0;
}

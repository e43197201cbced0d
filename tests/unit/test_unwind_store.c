/* SPDX-License-Identifier: Apache-2.0
 * test_unwind_store.c - tables in the arena: found again by the walk, shared, evicted, bounded. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "sampler/unwind/unwind_replay.h"
#include "sampler/unwind/unwind_store.h"

#define ALICE	1000u
#define MALLORY 1001u

static struct unwind_store_key key_of(uint32_t n)
{
	struct unwind_store_key k = {.count = 4, .kind = 1};

	memcpy(k.bytes, &n, sizeof(n));
	return k;
}

/* rows rows, `step` bytes apart from address `first` on; every CFA is rsp + 8 * (1 + index % 50).
 */
static struct unwind_table table_of(uint32_t rows, uint32_t first, uint32_t step)
{
	struct unwind_table t = {.begin = 0x1000};

	t.rules = calloc(51, sizeof(*t.rules));
	t.rows = calloc(rows + 2, sizeof(*t.rows));
	assert_true(t.rules && t.rows);
	t.rule_count = 51;
	for (uint32_t i = 0; i < 50; i++)
		t.rules[i + 1] = (struct unwind_rule){.cfa = UNWIND_CFA_REGISTER | UNWIND_RSP << 4,
						      .offset = (int32_t)(8 * (i + 1))};
	for (uint32_t i = 0; i < rows; i++)
		t.rows[t.row_count++] = (struct unwind_table_row){first + i * step, 1 + i % 50};
	t.rows[t.row_count++] = (struct unwind_table_row){first + rows * step, 0};
	t.end = t.begin + first + rows * step;
	return t;
}

/* Reads of the walk: the word at an address says where it was read. */
static int read_words(void *context, void *to, size_t bytes, uint64_t address)
{
	*(uint64_t *)context = address;
	memset(to, 0, bytes);
	return 0;
}

/* Where the walk looks for the return address at pc with rsp 0x7000: CFA - 8. */
static uint64_t looked_at(const struct unwind_store *s, struct unwind_process p, uint64_t pc,
			  struct unwind_state *out)
{
	static struct unwind_state state;
	struct unwind_replay *r;
	uint64_t address = 0;

	assert_int_equal(unwind_replay_open(&r, s, UNWIND_MODE_TABLE, read_words, &address), 0);
	memset(&state, 0, sizeof(state));
	state.pc = pc;
	state.reg[UNWIND_RSP] = 0x7000;
	state.reg[UNWIND_RBP] = 1; /* 0 would mark the outermost frame */
	state.process = p;
	unwind_replay_walk(r, &state);
	unwind_replay_close(r);
	if (out)
		*out = state;
	return address;
}

static void the_walk_finds_the_row_of_every_address(void **state)
{
	struct unwind_table t = table_of(3000, 100, 9); /* rows that cross many pages */
	struct unwind_store_key key = key_of(1);
	struct unwind_mapping m;
	struct unwind_process p;
	struct unwind_store *s;
	struct unwind_state end;
	uint32_t file;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 1), 0);
	assert_int_equal(unwind_store_add(s, &key, &t, &file), 0);
	unwind_store_mapping(s, file, 0x400000, 0x440000, 0x3ff000,
			     &m); /* 0x1000 lies at 0x400000 */
	assert_int_equal(unwind_store_publish(s, &m, 1, &p, NULL), 0);
	for (uint32_t a = 100; a < 100 + 3000 * 9; a += 1) {
		uint32_t row = (a - 100) / 9;

		assert_int_equal(looked_at(s, p, 0x400000 + a, NULL),
				 0x7000 + 8 * (1 + row % 50) - 8);
	}
	looked_at(s, p, 0x400000 + 99, &end); /* before the first row: no rule, and no other way */
	assert_int_equal(end.end, UNWIND_END_NO_ROW);
	looked_at(s, p, 0x400000 + 100 + 3000 * 9, &end);
	assert_int_equal(end.end, UNWIND_END_NO_ROW);
	looked_at(s, p, 0x440000, &end);
	assert_int_equal(end.end, UNWIND_END_NO_MAPPING);
	assert_int_equal(end.count, 0);
	looked_at(s, p, 0x3fffff, &end);
	assert_int_equal(end.end, UNWIND_END_NO_MAPPING);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

static void a_page_of_single_byte_rows_is_searched_right(void **state)
{
	struct unwind_table t = table_of(4096, 0, 1);
	struct unwind_store_key key = key_of(1);
	struct unwind_mapping m;
	struct unwind_process p;
	struct unwind_store *s;
	uint32_t file;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 1), 0);
	assert_int_equal(unwind_store_add(s, &key, &t, &file), 0);
	unwind_store_mapping(s, file, 0x1000, 0x2000, 0, &m);
	assert_int_equal(unwind_store_publish(s, &m, 1, &p, NULL), 0);
	for (uint32_t a = 0; a < 4096; a++)
		assert_int_equal(looked_at(s, p, 0x1000 + a, NULL), 0x7000 + 8 * (1 + a % 50) - 8);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

#define STACK 0x7000u
static int read_stack(void *context, void *to, size_t bytes, uint64_t address)
{
	const uint64_t *stack = context;

	if (address < STACK || address + bytes > STACK + 4 * sizeof(*stack))
		return -1;
	memcpy(to, (const uint8_t *)stack + (address - STACK), bytes);
	return 0;
}

/* The walk over a stack whose leaf at `leaf` returns to `to`, above which lies a return address of an
 * earlier use, and 0. */
static const struct unwind_state *walked(const struct unwind_store *s, struct unwind_process p,
					 uint64_t leaf, uint64_t to, uint64_t rbp)
{
	static struct unwind_state state;
	uint64_t stack[4] = {to, leaf};
	struct unwind_replay *r;

	assert_int_equal(unwind_replay_open(&r, s, UNWIND_MODE_TABLE, read_stack, stack), 0);
	memset(&state, 0, sizeof(state));
	state.pc = leaf;
	state.reg[UNWIND_RSP] = STACK;
	state.reg[UNWIND_RBP] = rbp;
	state.process = p;
	unwind_replay_walk(r, &state);
	unwind_replay_close(r);
	return &state;
}

/* One rule for two functions, rsp + 8; the second one goes on over a page's end. */
static void the_root_is_a_zero_or_what_nobody_called(void **state)
{
	struct unwind_rule rules[] = {{0},
				      {.cfa = UNWIND_CFA_REGISTER | UNWIND_RSP << 4, .offset = 8}};
	struct unwind_table_row rows[] = {{0x100, 1}, {0x200, 1}, {0x1800, 0}};
	struct unwind_table t = {.begin = 0x1000,
				 .end = 0x2800,
				 .rules = rules,
				 .rule_count = 2,
				 .rows = rows,
				 .row_count = 3};
	struct unwind_store_key key = key_of(1);
	struct unwind_mapping m;
	struct unwind_process p;
	struct unwind_store *s;
	uint32_t file;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 1), 0);
	assert_int_equal(unwind_store_add(s, &key, &t, &file), 0);
	unwind_store_mapping(s, file, 0x1000, 0x3000, 0, &m);
	assert_int_equal(unwind_store_publish(s, &m, 1, &p, NULL), 0);
	/* called: up to the 0, which is the root's if rbp is 0 too */
	assert_int_equal(walked(s, p, 0x1180, 0x1202, 0)->count, 3);
	assert_int_equal(walked(s, p, 0x1180, 0x1202, 0)->end, UNWIND_END_ROOT);
	assert_int_equal(walked(s, p, 0x1180, 0x1202, 8)->count, 3);
	assert_int_equal(walked(s, p, 0x1180, 0x1202, 8)->end, UNWIND_END_NO_MAPPING);
	/* one byte behind a beginning: no call is so short */
	assert_int_equal(walked(s, p, 0x1180, 0x1201, 8)->count, 2);
	assert_int_equal(walked(s, p, 0x1180, 0x1201, 8)->end, UNWIND_END_ROOT);
	assert_int_equal(walked(s, p, 0x1180, 0x2001, 0)->count, 3); /* only a page begins there */
	unwind_store_close(s);
}

static void every_one_of_2048_mappings_is_found(void **state)
{
	static struct unwind_mapping m[UNWIND_MAPPING_MAX + 10];
	struct unwind_table t = table_of(10, 0, 16);
	struct unwind_store_key key = key_of(1);
	struct unwind_process p;
	struct unwind_store *s;
	struct unwind_state end;
	uint32_t file, dropped = 0;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 1), 0);
	assert_int_equal(unwind_store_add(s, &key, &t, &file), 0);
	for (uint32_t i = 0; i < UNWIND_MAPPING_MAX + 10; i++) {
		uint64_t at = 0x10000ull * (UNWIND_MAPPING_MAX + 10 - i); /* unsorted */

		unwind_store_mapping(s, file, at, at + 0x1000, at - 0x1000, &m[i]);
	}
	assert_int_equal(unwind_store_publish(s, m, UNWIND_MAPPING_MAX + 10, &p, &dropped), 0);
	assert_int_equal(dropped, 10);
	assert_int_equal(p.mapping_count, UNWIND_MAPPING_MAX);
	for (uint64_t i = 1; i <= UNWIND_MAPPING_MAX; i++) {
		assert_int_equal(looked_at(s, p, 0x10000 * i + 40, NULL), 0x7000 + 8 * 3 - 8);
		looked_at(s, p, 0x10000 * i + 0x1000, &end);
		assert_int_equal(end.end, UNWIND_END_NO_MAPPING);
	}
	unwind_store_retire(s, &p);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

static void files_are_shared_and_rules_too(void **state)
{
	struct unwind_table t = table_of(100, 0, 16);
	struct unwind_store_key one = key_of(1), two = key_of(2);
	struct unwind_store_stats stats;
	struct unwind_store *s;
	uint32_t a, b, again;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 1), 0);
	assert_int_equal(unwind_store_find(s, &one, &a), -ENOENT);
	assert_int_equal(unwind_store_add(s, &one, &t, &a), 0);
	assert_int_equal(unwind_store_add(s, &one, &t, &again), -EEXIST);
	assert_int_equal(unwind_store_find(s, &one, &again), 0);
	assert_int_equal(again, a);
	unwind_store_stats_get(s, &stats);
	assert_int_equal(stats.rules, 51);
	assert_int_equal(unwind_store_add(s, &two, &t, &b), 0);
	unwind_store_stats_get(s, &stats);
	assert_int_equal(stats.rules, 51);
	assert_int_equal(stats.files, 2);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

static void the_oldest_unused_table_makes_room_after_a_quiesce(void **state)
{
	struct unwind_table t = table_of(400000, 0, 3); /* 1.6 MB: two fit into 4 MiB */
	struct unwind_store_key key[4] = {key_of(1), key_of(2), key_of(3), key_of(4)};
	struct unwind_store_stats stats;
	struct unwind_store *s;
	uint32_t file[4], n;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 4u << 20), 0);
	assert_int_equal(unwind_store_add(s, &key[0], &t, &file[0]), 0);
	assert_int_equal(unwind_store_add(s, &key[1], &t, &file[1]), 0);
	assert_int_equal(unwind_store_add(s, &key[2], &t, &file[2]), -ENOSPC);
	assert_int_equal(unwind_store_find(s, &key[2], &n),
			 -ENOENT); /* a failure is not remembered */
	unwind_store_unref(s, file[1]);
	unwind_store_unref(s, file[0]);
	/* a program may still read them */
	assert_int_equal(unwind_store_add(s, &key[2], &t, &file[2]), -ENOSPC);
	unwind_store_quiesce(s);
	assert_int_equal(unwind_store_find(s, &key[1], &n),
			 0); /* used again, so the other is older */
	unwind_store_unref(s, n);
	unwind_store_quiesce(s);
	assert_int_equal(unwind_store_add(s, &key[2], &t, &file[2]), 0);
	assert_int_equal(unwind_store_find(s, &key[0], &n), -ENOENT);
	assert_int_equal(unwind_store_find(s, &key[1], &n), 0);
	assert_true(unwind_store_has_table(s, n));
	unwind_store_stats_get(s, &stats);
	assert_int_equal(stats.evicted, 1);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

static void mappings_hold_their_files_and_wait_for_the_quiesce(void **state)
{
	struct unwind_table t = table_of(400000, 0, 3);
	struct unwind_store_key one = key_of(1), two = key_of(2), three = key_of(3);
	struct unwind_store_stats before, after;
	struct unwind_mapping m;
	struct unwind_process p, copy;
	struct unwind_store *s;
	uint32_t file, other;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 4u << 20), 0);
	assert_int_equal(unwind_store_add(s, &one, &t, &file), 0);
	unwind_store_mapping(s, file, 0x1000, 0x200000, 0, &m);
	unwind_store_stats_get(s, &before);
	assert_int_equal(unwind_store_publish(s, &m, 1, &p, NULL), 0);
	unwind_store_unref(s, file);
	unwind_store_quiesce(s);
	assert_int_equal(unwind_store_add(s, &two, &t, &other), 0);
	assert_int_equal(unwind_store_add(s, &three, &t, &other), -ENOSPC); /* file 1 is mapped */
	copy = p;
	unwind_store_retire(s, &p);
	assert_int_equal(p.mapping_count, 0);
	unwind_store_retire(s, &p);				    /* no-op */
	assert_int_equal(looked_at(s, copy, 0x1000, NULL), 0x7000); /* still readable */
	unwind_store_quiesce(s);
	assert_int_equal(unwind_store_add(s, &three, &t, &other), 0); /* file 1 gave way */
	unwind_store_stats_get(s, &after);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

static void anonymous_neighbours_are_one_mapping(void **state)
{
	struct unwind_mapping m[3];
	struct unwind_process p;
	struct unwind_store *s;
	struct unwind_state end;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 1), 0);
	unwind_store_mapping(s, 0, 0x1000, 0x3000, 0, &m[0]);
	unwind_store_mapping(s, 0, 0x3000, 0x4000, 0, &m[1]);
	unwind_store_mapping(s, 0, 0x5000, 0x6000, 0, &m[2]);
	assert_int_equal(unwind_store_publish(s, m, 3, &p, NULL), 0);
	assert_int_equal(p.mapping_count, 2);
	looked_at(s, p, 0x3fff, &end);
	assert_int_equal(end.end, UNWIND_END_NO_TABLE);
	looked_at(s, p, 0x4000, &end);
	assert_int_equal(end.end, UNWIND_END_NO_MAPPING);
	unwind_store_close(s);
}

static int grow_fails(void *context, uint32_t shard, uint32_t **words)
{
	return shard ? -EPERM : unwind_store_memory.grow(NULL, shard, words);
}

static void a_backing_that_can_not_grow_is_a_full_store(void **state)
{
	const struct unwind_backing backing = {.grow = grow_fails,
					       .release = unwind_store_memory.release};
	struct unwind_table t = table_of(400000, 0, 3);
	struct unwind_store_key one = key_of(1), two = key_of(2), three = key_of(3);
	struct unwind_store_stats stats;
	struct unwind_store *s;
	uint32_t file;

	assert_int_equal(unwind_store_open(&s, &backing, 64u << 20), 0);
	assert_int_equal(unwind_store_add(s, &one, &t, &file), 0);
	assert_int_equal(unwind_store_add(s, &two, &t, &file), 0);
	assert_int_equal(unwind_store_add(s, &three, &t, &file), -EPERM);
	unwind_store_stats_get(s, &stats);
	assert_int_equal(stats.full, 1);
	assert_int_equal(stats.files, 2);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

/* A backing that can't be mmaped: what readers see is a copy that commit alone fills. */
struct copied {
	uint32_t *seen[UNWIND_SHARD_MAX];
	const uint32_t *words[UNWIND_SHARD_MAX];
	uint32_t shards, commits;
	uint64_t committed;
	bool fails;
};

static int copied_grow(void *context, uint32_t shard, uint32_t **words)
{
	struct copied *c = context;

	assert_int_equal(shard, c->shards);
	*words = calloc(UNWIND_SHARD_WORDS, sizeof(**words));
	c->seen[shard] = calloc(UNWIND_SHARD_WORDS, sizeof(**words));
	assert_true(*words && c->seen[shard]);
	c->words[c->shards++] = *words;
	return 0;
}

static int copied_commit(void *context, const uint32_t *words, uint32_t first, uint32_t count)
{
	struct copied *c = context;
	uint32_t shard = first / UNWIND_SHARD_WORDS, at = first % UNWIND_SHARD_WORDS;

	assert_true(shard < c->shards && at + count <= UNWIND_SHARD_WORDS);
	assert_ptr_equal(words, c->words[shard] + at);
	if (c->fails)
		return -EIO;
	memcpy(c->seen[shard] + at, words, count * sizeof(*words));
	c->commits++;
	c->committed += count;
	return 0;
}

static void copied_release(void *context, uint32_t shard, uint32_t *words)
{
	struct copied *c = context;

	free(c->seen[shard]);
	free(words);
}

static void check_copied(const struct copied *c)
{
	for (uint32_t i = 0; i < c->shards; i++)
		assert_memory_equal(c->seen[i], c->words[i], UNWIND_SHARD_WORDS * 4);
}

static void every_word_is_committed_to_a_backing_that_is_not_mapped(void **state)
{
	static struct copied c;
	const struct unwind_backing backing = {
	    .context = &c, .grow = copied_grow, .commit = copied_commit, .release = copied_release};
	struct unwind_table t = table_of(400000, 0, 3), small = table_of(3000, 100, 9);
	struct unwind_store_key key[4] = {key_of(1), key_of(2), key_of(3), key_of(4)};
	struct unwind_mapping m[2];
	struct unwind_process p;
	struct unwind_store *s;
	uint32_t file[4];

	assert_int_equal(unwind_store_open(&s, &backing, 16u << 20), 0);
	for (int i = 0; i < 3; i++) { /* the third needs a second shard */
		assert_int_equal(unwind_store_add(s, &key[i], &t, &file[i]), 0);
		check_copied(&c);
	}
	assert_true(c.shards >= 2);
	assert_int_equal(unwind_store_reserve(s, &key[3], ALICE, &file[3]), 0);
	assert_int_equal(unwind_store_set_table(s, file[3], ALICE, &small), 0);
	check_copied(&c);
	unwind_store_mapping(s, file[3], 0x400000, 0x440000, 0x3ff000, &m[0]);
	unwind_store_mapping(s, file[2], 0x800000, 0xa00000, 0x7ff000, &m[1]);
	assert_int_equal(unwind_store_publish(s, m, 2, &p, NULL), 0);
	check_copied(&c);
	assert_true(c.commits >= 5 && c.committed > 1200000);
	assert_int_equal(looked_at(s, p, 0x400000 + 100, NULL), 0x7000);
	unwind_store_retire(s, &p);
	c.fails = true; /* what readers can't see is not published */
	assert_int_equal(unwind_store_publish(s, m, 2, &p, NULL), -EIO);
	c.fails = false;
	assert_int_equal(unwind_store_publish(s, m, 2, &p, NULL), 0);
	unwind_store_retire(s, &p);
	unwind_store_unref(s, file[0]);
	unwind_store_quiesce(s);
	check_copied(&c);
	unwind_store_close(s);
	unwind_table_fini(&t);
	unwind_table_fini(&small);
}

static int bring(struct unwind_store *s, uint32_t n, uint32_t uid, const struct unwind_table *t,
		 uint32_t *file)
{
	struct unwind_store_key key = key_of(n);
	int rc = unwind_store_reserve(s, &key, uid, file);

	return rc ? rc : unwind_store_set_table(s, *file, uid, t);
}

/* Mallory maps as many large files as find room; none of them is let go. */
static void tables_of_one_user_leave_room_for_another(void **state)
{
	struct unwind_table t = table_of(100000, 0, 5);
	struct unwind_store *s;
	uint32_t file, n = 0;
	int rc;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 8u << 20), 0);
	while (!(rc = bring(s, n, MALLORY, &t, &file)))
		n++;
	assert_int_equal(rc, -EDQUOT);
	assert_in_range(n, 9, 15); /* 0.4 MiB each, of 8 */
	/* the same file, and others */
	assert_int_equal(unwind_store_set_table(s, file, ALICE, &t), 0);
	assert_int_equal(bring(s, 1000, ALICE, &t, &file), 0);
	assert_int_equal(bring(s, 1001, MALLORY, &t, &file), -EDQUOT);
	unwind_store_close(s);
	unwind_table_fini(&t);
}

static void numbers_of_files_are_left_for_another(void **state)
{
	struct unwind_store_key key;
	struct unwind_store *s;
	uint32_t file, n = 0;
	int rc;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 1), 0);
	do
		key = key_of(n);
	while (!(rc = unwind_store_reserve(s, &key, MALLORY, &file)) && ++n);
	assert_int_equal(rc, -EDQUOT);
	assert_int_equal(n, LIMIT_UNWIND_FILES / 4 * 3);
	key = key_of(n);
	assert_int_equal(unwind_store_reserve(s, &key, ALICE, &file), 0);
	/* what is used no more makes room */
	unwind_store_unref(s, 1);
	unwind_store_quiesce(s);
	key = key_of(n + 1);
	assert_int_equal(unwind_store_reserve(s, &key, MALLORY, &file), 0);
	unwind_store_close(s);
}

/* Each file brings one more; its other rules are known. */
static void rules_are_left_for_another(void **state)
{
	struct unwind_table t = table_of(50, 0, 5), other = table_of(50, 0, 5);
	struct unwind_store *s;
	uint32_t file, n = 0;
	int rc;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 32u << 20), 0);
	t.rules = realloc(t.rules, 4097 * sizeof(*t.rules));
	do {
		uint32_t more = n < 7 ? 4000 : 1;

		t.rule_count = 51 + more;
		for (uint32_t i = 0; i < more; i++)
			t.rules[51 + i] =
			    (struct unwind_rule){.cfa = UNWIND_CFA_REGISTER | UNWIND_RSP << 4,
						 .offset = (int32_t)(8 * (n * 4000 + i + 1000))};
	} while (!(rc = bring(s, n, MALLORY, &t, &file)) && ++n);
	assert_int_equal(rc, -EDQUOT);
	for (uint32_t i = 1; i <= 50; i++)
		other.rules[i].offset = -(int32_t)(8 * i);
	assert_int_equal(bring(s, 100000, ALICE, &other, &file), 0);
	unwind_store_close(s);
	unwind_table_fini(&t);
	unwind_table_fini(&other);
}

/* Alice's is the one that was used longest ago. */
static void unused_tables_of_the_user_with_most_go_first(void **state)
{
	struct unwind_table t = table_of(100000, 0, 5);
	struct unwind_store_key key = key_of(1000);
	struct unwind_store_stats stats;
	struct unwind_store *s;
	uint32_t alices, file;

	assert_int_equal(unwind_store_open(&s, &unwind_store_memory, 8u << 20), 0);
	assert_int_equal(bring(s, 1000, ALICE, &t, &alices), 0);
	unwind_store_unref(s, alices);
	for (uint32_t n = 0; n < 100; n++) {
		assert_int_equal(bring(s, n, MALLORY, &t, &file), 0);
		unwind_store_unref(s, file);
		unwind_store_quiesce(s);
	}
	unwind_store_stats_get(s, &stats);
	assert_in_range(stats.evicted, 50, 100);
	assert_int_equal(unwind_store_find(s, &key, &file), 0);
	assert_true(unwind_store_has_table(s, file));
	unwind_store_close(s);
	unwind_table_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_walk_finds_the_row_of_every_address),
	    cmocka_unit_test(a_page_of_single_byte_rows_is_searched_right),
	    cmocka_unit_test(the_root_is_a_zero_or_what_nobody_called),
	    cmocka_unit_test(every_one_of_2048_mappings_is_found),
	    cmocka_unit_test(files_are_shared_and_rules_too),
	    cmocka_unit_test(the_oldest_unused_table_makes_room_after_a_quiesce),
	    cmocka_unit_test(mappings_hold_their_files_and_wait_for_the_quiesce),
	    cmocka_unit_test(anonymous_neighbours_are_one_mapping),
	    cmocka_unit_test(a_backing_that_can_not_grow_is_a_full_store),
	    cmocka_unit_test(every_word_is_committed_to_a_backing_that_is_not_mapped),
	    cmocka_unit_test(tables_of_one_user_leave_room_for_another),
	    cmocka_unit_test(numbers_of_files_are_left_for_another),
	    cmocka_unit_test(rules_are_left_for_another),
	    cmocka_unit_test(unused_tables_of_the_user_with_most_go_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

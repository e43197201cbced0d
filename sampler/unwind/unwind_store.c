/* SPDX-License-Identifier: Apache-2.0
 * unwind_store.c - see unwind_store.h. Room is allocated as extents of the arena, first fit, from a
 * sorted list. A file without references keeps its table. After the quiesce that follows its last
 * reference no program can read it, and its room may be taken at once. Only mapping sets, which
 * change often, wait in a separate list. */
#include "sampler/unwind/unwind_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"

#define ALIGN_WORDS  64u
#define HASH_BUCKETS 4096u

/* The part of a whole that one user may have. */
#define SHARE(whole) ((whole) / 4 * 3)

struct extent {
	uint32_t first, count;
};

/* Freed with the user's last object. */
struct owner {
	struct owner *next;
	uint32_t uid;
	/* rules: number of rules that this user was the first to add */
	uint32_t files, words, rules;
};

struct file {
	struct unwind_store_key key;
	struct owner *owner; /* NULL: nobody */
	uint32_t refs;
	uint32_t next; /* next in its bucket, or in the list of unused numbers */
	uint64_t released_epoch, last_used;
	bool used, tabled;
	uint64_t begin; /* of the table, ELF virtual */
	uint32_t table, page_count;
	struct extent words; /* the whole table */
	uint32_t *rules;     /* the ids of its rules */
	uint32_t rule_count;
};

struct extents {
	struct extent *at;
	uint32_t count;
	size_t room;
};

struct unwind_store {
	struct unwind_backing backing;
	uint32_t *shards[UNWIND_SHARD_MAX];
	uint32_t shard_count, shard_max;
	struct extents unused, quarantine;
	struct file *files; /* number 0 is not used */
	uint32_t file_count, file_unused;
	size_t file_room;
	uint32_t file_bucket[HASH_BUCKETS];
	struct unwind_rule rules[UNWIND_RULE_MAX];
	uint32_t rule_refs[UNWIND_RULE_MAX], rule_next[UNWIND_RULE_MAX];
	struct owner *rule_owner[UNWIND_RULE_MAX];
	struct owner *owners;
	uint32_t rule_bucket[HASH_BUCKETS]; /* id + 1 */
	uint32_t rule_count, rule_unused;   /* rule_unused: id + 1 */
	uint64_t epoch, clock;
	struct unwind_store_stats stats;
};

static int memory_grow(void *context, uint32_t shard, uint32_t **words)
{
	*words = calloc(UNWIND_SHARD_WORDS, sizeof(**words));
	return *words ? 0 : -ENOMEM;
}

static void memory_release(void *context, uint32_t shard, uint32_t *words)
{
	free(words);
}

const struct unwind_backing unwind_store_memory = {.grow = memory_grow, .release = memory_release};

/* ---- owners ---- */

/* NULL: no memory. */
static struct owner *owner_of(struct unwind_store *s, uint32_t uid)
{
	struct owner *o = s->owners;

	while (o && o->uid != uid)
		o = o->next;
	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	*o = (struct owner){.next = s->owners, .uid = uid};
	s->owners = o;
	return o;
}

static void owner_tidy(struct unwind_store *s, struct owner *o)
{
	struct owner **at = &s->owners;

	if (!o || o->files || o->words || o->rules)
		return;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	free(o);
}

/* ---- room ---- */

static int put_extent(struct extents *list, struct extent e)
{
	uint32_t i = 0;

	if (ROOM_FOR(list->at, list->room, list->count + 1ull))
		return -ENOMEM;
	while (i < list->count && list->at[i].first < e.first)
		i++;
	memmove(&list->at[i + 1], &list->at[i], (list->count - i) * sizeof(e));
	list->at[i] = e;
	list->count++;
	return 0;
}

static void drop_extent(struct extents *list, uint32_t i)
{
	list->count--;
	memmove(&list->at[i], &list->at[i + 1], (list->count - i) * sizeof(list->at[0]));
}

/* Returns an extent to the list and joins neighbours. If there is no memory for the list, the room
 * is lost until close. */
static void give_room(struct unwind_store *s, struct extent e)
{
	struct extents *l = &s->unused;

	s->stats.bytes -= (uint64_t)e.count * 4;
	if (!e.count || put_extent(l, e))
		return;
	for (uint32_t i = 0; i + 1 < l->count;) {
		if (l->at[i].first + l->at[i].count == l->at[i + 1].first) {
			l->at[i].count += l->at[i + 1].count;
			drop_extent(l, i + 1);
		} else {
			i++;
		}
	}
}

/* Removes the words [first, first + count) from list entry i. */
static int cut_extent(struct unwind_store *s, uint32_t i, uint32_t first, uint32_t count)
{
	struct extent whole = s->unused.at[i];
	struct extent behind = {first + count, whole.first + whole.count - first - count};

	if (first > whole.first) {
		s->unused.at[i].count = first - whole.first;
		if (behind.count && put_extent(&s->unused, behind)) {
			s->unused.at[i] = whole;
			return -ENOMEM;
		}
	} else if (behind.count) {
		s->unused.at[i] = behind;
	} else {
		drop_extent(&s->unused, i);
	}
	s->stats.bytes += (uint64_t)count * 4;
	return 0;
}

/* Finds room for a process's mappings: the words must not cross a chunk's end. */
static int find_in_chunk(struct unwind_store *s, uint32_t count, uint32_t *first)
{
	for (uint32_t i = 0; i < s->unused.count; i++) {
		struct extent e = s->unused.at[i];
		uint32_t at = e.first;

		if (at % UNWIND_CHUNK_WORDS + count > UNWIND_CHUNK_WORDS)
			at = (at / UNWIND_CHUNK_WORDS + 1) * UNWIND_CHUNK_WORDS;
		if (at - e.first > e.count || e.count - (at - e.first) < count)
			continue;
		*first = at;
		return cut_extent(s, i, at, count);
	}
	return -ENOSPC;
}

static int grow_arena(struct unwind_store *s)
{
	uint32_t n = s->shard_count;
	int rc;

	if (n == s->shard_max)
		return -ENOSPC;
	rc = s->backing.grow(s->backing.context, n, &s->shards[n]);
	if (rc)
		return rc;
	s->shard_count++;
	s->stats.bytes += (uint64_t)UNWIND_SHARD_WORDS * 4; /* give_room subtracts it */
	give_room(s, (struct extent){n * UNWIND_SHARD_WORDS, UNWIND_SHARD_WORDS});
	return 0;
}

static void forget_file(struct unwind_store *s, uint32_t number);

static uint32_t weight(const struct file *f)
{
	return f->owner ? f->owner->words : 0;
}

/* Evicts a quiesced file without references: the least recently used one of the user who has most.
 * tabled: the file must have a table. of: the file's owner; NULL: any. */
static bool evict_one(struct unwind_store *s, bool tabled, const struct owner *of)
{
	uint32_t goes = 0;

	for (uint32_t i = 1; i < s->file_count; i++) {
		const struct file *f = &s->files[i], *g = &s->files[goes];

		if (!f->used || f->refs || f->released_epoch >= s->epoch ||
		    (tabled && !f->tabled) || (of && f->owner != of))
			continue;
		if (!goes || weight(f) > weight(g) ||
		    (weight(f) == weight(g) && f->last_used < g->last_used))
			goes = i;
	}
	if (!goes)
		return false;
	forget_file(s, goes);
	s->stats.evicted++;
	return true;
}

/* Gets more room from the backing or from an unused file. The caller then tries again. */
static int make_room(struct unwind_store *s)
{
	int rc = grow_arena(s);

	if (rc && evict_one(s, true, NULL))
		rc = 0;
	if (rc)
		s->stats.full++;
	return rc;
}

static uint32_t aligned(uint32_t words)
{
	return (words + ALIGN_WORDS - 1) / ALIGN_WORDS * ALIGN_WORDS;
}

static uint32_t *word_at(const struct unwind_store *s, uint32_t word)
{
	return &s->shards[word / UNWIND_SHARD_WORDS][word % UNWIND_SHARD_WORDS];
}

static int commit(struct unwind_store *s, uint32_t first, uint32_t count)
{
	while (s->backing.commit && count) {
		uint32_t here = UNWIND_SHARD_WORDS - first % UNWIND_SHARD_WORDS;
		int rc;

		here = here < count ? here : count;
		rc = s->backing.commit(s->backing.context, word_at(s, first), first, here);
		if (rc)
			return rc;
		first += here;
		count -= here;
	}
	/* the words must be visible before the mapping that refers to them is published */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return 0;
}

/* ---- rules ---- */

static uint32_t rule_slot(const struct unwind_rule *r)
{
	return (uint32_t)keyed_bytes(keyed_process(), r, sizeof(*r)) % HASH_BUCKETS;
}

/* Takes a reference on the rule's id. 0, -ENOSPC or -EDQUOT. */
static int take_rule(struct unwind_store *s, struct owner *o, const struct unwind_rule *r,
		     uint32_t *id)
{
	uint32_t slot = rule_slot(r), i;

	for (i = s->rule_bucket[slot]; i; i = s->rule_next[i - 1]) {
		if (!memcmp(&s->rules[i - 1], r, sizeof(*r))) {
			s->rule_refs[i - 1]++;
			*id = i - 1;
			return 0;
		}
	}
	if (o && o->rules >= SHARE(UNWIND_RULE_MAX))
		return -EDQUOT;
	if (s->rule_unused) {
		i = s->rule_unused;
		s->rule_unused = s->rule_next[i - 1];
	} else if (s->rule_count < UNWIND_RULE_MAX) {
		i = ++s->rule_count;
	} else {
		return -ENOSPC;
	}
	*id = i - 1;
	s->rules[*id] = *r;
	s->rule_refs[*id] = 1;
	s->rule_owner[*id] = o;
	if (o)
		o->rules++;
	s->rule_next[*id] = s->rule_bucket[slot];
	s->rule_bucket[slot] = i;
	s->stats.rules++;
	memcpy(word_at(s, *id * 2), r, sizeof(*r));
	return commit(s, *id * 2, 2);
}

static void give_rule(struct unwind_store *s, uint32_t id)
{
	uint32_t *at = &s->rule_bucket[rule_slot(&s->rules[id])];
	struct owner *o = s->rule_owner[id];

	CHECK(s->rule_refs[id]);
	if (--s->rule_refs[id])
		return;
	while (*at != id + 1)
		at = &s->rule_next[*at - 1];
	*at = s->rule_next[id];
	s->rule_next[id] = s->rule_unused;
	s->rule_unused = id + 1;
	s->stats.rules--;
	if (!o)
		return;
	o->rules--;
	owner_tidy(s, o);
}

/* ---- tables ---- */

/* The first and the last of the table's rows on a page, and the row in effect at the start of the
 * page. */
struct page_rows {
	uint32_t page, first, end;
	uint32_t carried; /* the row in effect at the page's first byte; UINT32_MAX: none */
};

static void next_page(const struct unwind_table *t, struct page_rows *p)
{
	uint32_t limit;

	p->page++;
	p->first = p->end;
	limit = (p->page + 1) << UNWIND_PAGE_SHIFT;
	p->carried = p->first ? p->first - 1 : UINT32_MAX;
	if (p->first < t->row_count && t->rows[p->first].address == p->page << UNWIND_PAGE_SHIFT)
		p->carried = UINT32_MAX;
	while (p->end < t->row_count && t->rows[p->end].address < limit)
		p->end++;
}

/* The number of rows that the page gets. It includes the carried row, unless that is NONE and no
 * row follows. If nothing is carried and the page's first row lies inside the page, a NONE row goes
 * in front. */
static uint32_t rows_of(const struct unwind_table *t, const struct page_rows *p)
{
	uint32_t own = p->end - p->first;
	bool begins = own && t->rows[p->first].address == p->page << UNWIND_PAGE_SHIFT;

	if (!own && (p->carried == UINT32_MAX ||
		     UNWIND_RULE_CFA(&t->rules[t->rows[p->carried].rule]) == UNWIND_CFA_NONE))
		return 0;
	return own + !begins;
}

static uint32_t page_total(const struct unwind_table *t)
{
	return (uint32_t)((t->end - t->begin + UNWIND_PAGE_BYTES - 1) >> UNWIND_PAGE_SHIFT);
}

/* Where the n rows of the next page go, at `at` or later, so that all are in one chunk. */
static uint32_t rows_at(uint32_t at, uint32_t n)
{
	return at % UNWIND_CHUNK_WORDS + n > UNWIND_CHUNK_WORDS
		   ? (at / UNWIND_CHUNK_WORDS + 1) * UNWIND_CHUNK_WORDS
		   : at;
}

/* The words that the table takes if it begins at `first`. */
static uint64_t measure(const struct unwind_table *t, uint32_t first)
{
	struct page_rows p = {.page = UINT32_MAX};
	uint32_t pages = page_total(t), at = first + pages * 2;

	for (uint32_t i = 0; i < pages; i++) {
		uint32_t n;

		next_page(t, &p);
		n = rows_of(t, &p);
		at = rows_at(at, n) + n;
	}
	return at - first;
}

/* Finds an extent for the table, cut to its size. */
static int find_for_table(struct unwind_store *s, const struct unwind_table *t, struct extent *out)
{
	uint64_t least = (uint64_t)page_total(t) * 2 + t->row_count;

	for (uint32_t i = 0; i < s->unused.count; i++) {
		struct extent e = s->unused.at[i];
		uint64_t need;

		if (e.count < least)
			continue;
		need = measure(t, e.first);
		if (aligned((uint32_t)need) > e.count)
			continue;
		*out = (struct extent){e.first, aligned((uint32_t)need)};
		return cut_extent(s, i, e.first, out->count);
	}
	return -ENOSPC;
}

/* Writes index and rows from f->words.first on; returns the number of words. */
static uint32_t write_table(struct unwind_store *s, struct file *f, const struct unwind_table *t)
{
	struct page_rows p = {.page = UINT32_MAX};
	uint32_t at = f->words.first + f->page_count * 2;

	for (uint32_t i = 0; i < f->page_count; i++) {
		uint32_t index = f->words.first + i * 2, n;

		next_page(t, &p);
		n = rows_of(t, &p);
		at = rows_at(at, n);
		*word_at(s, index) = n ? at : 0;
		*word_at(s, index + 1) = n;
		if (n > p.end - p.first) {
			uint32_t rule = p.carried == UINT32_MAX ? 0 : t->rows[p.carried].rule;

			*word_at(s, at++) = UNWIND_ROW(0, f->rules[rule]);
		}
		for (uint32_t k = p.first; n && k < p.end; k++)
			*word_at(s, at++) = UNWIND_ROW(t->rows[k].address % UNWIND_PAGE_BYTES,
						       f->rules[t->rows[k].rule]);
	}
	return at - f->words.first;
}

static void drop_rules(struct unwind_store *s, struct file *f)
{
	for (uint32_t i = 0; i < f->rule_count; i++)
		give_rule(s, f->rules[i]);
	free(f->rules);
	f->rules = NULL;
	f->rule_count = 0;
}

/* If the user would exceed its share, first evicts its own unused tables. */
static int check_share(struct unwind_store *s, const struct owner *o, uint64_t words)
{
	while (o && o->words + words > SHARE((uint64_t)s->shard_max * UNWIND_SHARD_WORDS))
		if (!evict_one(s, true, o))
			return -EDQUOT;
	return 0;
}

static int put_table(struct unwind_store *s, struct file *f, const struct unwind_table *t)
{
	uint64_t least = (uint64_t)page_total(t) * 2 + t->row_count;
	int rc;

	if (least > (uint64_t)s->shard_max * UNWIND_SHARD_WORDS - UNWIND_RULE_WORDS) {
		s->stats.full++;
		return -ENOSPC;
	}
	rc = check_share(s, f->owner, least);
	if (rc)
		return rc;
	f->rules = malloc((t->rule_count ? t->rule_count : 1) * sizeof(*f->rules));
	if (!f->rules)
		return -ENOMEM;
	for (; f->rule_count < t->rule_count; f->rule_count++) {
		rc = take_rule(s, f->owner, &t->rules[f->rule_count], &f->rules[f->rule_count]);
		if (rc)
			goto fail;
	}
	f->page_count = page_total(t);
	while ((rc = find_for_table(s, t, &f->words)) == -ENOSPC) {
		rc = make_room(s);
		if (rc)
			break;
	}
	if (rc)
		goto fail;
	CHECK(aligned(write_table(s, f, t)) == f->words.count);
	f->table = f->words.first;
	f->begin = t->begin;
	rc = commit(s, f->words.first, f->words.count);
	if (rc) {
		give_room(s, f->words);
		goto fail;
	}
	f->tabled = true;
	if (f->owner)
		f->owner->words += f->words.count;
	s->stats.tables++;
	return 0;
fail:
	drop_rules(s, f);
	f->page_count = 0;
	return rc;
}

/* ---- files ---- */

static uint32_t file_slot(const struct unwind_store_key *key)
{
	return (uint32_t)keyed_bytes(keyed_process(), key, sizeof(*key)) % HASH_BUCKETS;
}

static uint32_t lookup(const struct unwind_store *s, const struct unwind_store_key *key)
{
	uint32_t i = s->file_bucket[file_slot(key)];

	while (i && memcmp(&s->files[i].key, key, sizeof(*key)))
		i = s->files[i].next;
	return i;
}

static void forget_file(struct unwind_store *s, uint32_t number)
{
	struct file *f = &s->files[number];
	struct owner *o = f->owner;
	uint32_t *at = &s->file_bucket[file_slot(&f->key)];

	while (*at != number)
		at = &s->files[*at].next;
	*at = f->next;
	if (f->tabled) {
		give_room(s, f->words);
		s->stats.tables--;
	}
	drop_rules(s, f);
	if (o) {
		o->files--;
		o->words -= f->tabled ? f->words.count : 0;
		owner_tidy(s, o);
	}
	memset(f, 0, sizeof(*f));
	f->next = s->file_unused;
	s->file_unused = number;
	s->stats.files--;
}

static int new_file(struct unwind_store *s, uint32_t *number)
{
	if (!s->file_unused && s->file_count == LIMIT_UNWIND_FILES && !evict_one(s, false, NULL))
		return -E2BIG;
	if (s->file_unused) {
		*number = s->file_unused;
		s->file_unused = s->files[*number].next;
		return 0;
	}
	if (ROOM_FOR_ZERO(s->files, s->file_room, s->file_count + 1ull))
		return -ENOMEM;
	*number = s->file_count++;
	return 0;
}

int unwind_store_find(struct unwind_store *s, const struct unwind_store_key *key, uint32_t *file)
{
	uint32_t i = lookup(s, key);

	if (!i)
		return -ENOENT;
	unwind_store_ref(s, i);
	*file = i;
	return 0;
}

static int number_file(struct unwind_store *s, const struct unwind_store_key *key, uint32_t *file)
{
	uint32_t number, slot = file_slot(key);
	struct file *f;
	int rc;

	if (lookup(s, key))
		return -EEXIST;
	rc = new_file(s, &number);
	if (rc)
		return rc;
	f = &s->files[number];
	*f = (struct file){.key = *key, .refs = 1, .used = true, .last_used = ++s->clock};
	f->next = s->file_bucket[slot];
	s->file_bucket[slot] = number;
	s->stats.files++;
	*file = number;
	return 0;
}

int unwind_store_reserve(struct unwind_store *s, const struct unwind_store_key *key, uint32_t uid,
			 uint32_t *file)
{
	struct owner *o = owner_of(s, uid);
	int rc;

	if (!o)
		return -ENOMEM;
	/* counted first, so that the owner stays while the user's other files are evicted */
	o->files++;
	rc = o->files > SHARE(LIMIT_UNWIND_FILES) && !evict_one(s, false, o)
		 ? -EDQUOT
		 : number_file(s, key, file);
	if (!rc) {
		s->files[*file].owner = o;
		return 0;
	}
	o->files--;
	owner_tidy(s, o);
	return rc;
}

static int give_table(struct unwind_store *s, struct file *f, const struct unwind_table *t)
{
	if (!t || !t->row_count) {
		s->stats.refused++;
		return 0;
	}
	return put_table(s, f, t);
}

int unwind_store_set_table(struct unwind_store *s, uint32_t file, uint32_t uid,
			   const struct unwind_table *t)
{
	struct file *f = &s->files[file];
	struct owner *o = owner_of(s, uid), *before = f->owner;

	CHECK(file && file < s->file_count && f->used && f->refs && !f->tabled);
	if (!o)
		return -ENOMEM;
	o->files++;
	f->owner = o;
	if (before) {
		before->files--;
		owner_tidy(s, before);
	}
	return give_table(s, f, t);
}

int unwind_store_add(struct unwind_store *s, const struct unwind_store_key *key,
		     const struct unwind_table *t, uint32_t *file)
{
	int rc = number_file(s, key, file);

	if (rc)
		return rc;
	rc = give_table(s, &s->files[*file], t);
	if (rc)
		forget_file(s, *file);
	return rc;
}

bool unwind_store_has_table(const struct unwind_store *s, uint32_t file)
{
	return file && file < s->file_count && s->files[file].tabled;
}

void unwind_store_ref(struct unwind_store *s, uint32_t file)
{
	CHECK(file && file < s->file_count && s->files[file].used);
	s->files[file].refs++;
	s->files[file].last_used = ++s->clock;
}

void unwind_store_unref(struct unwind_store *s, uint32_t file)
{
	struct file *f = &s->files[file];

	CHECK(file && file < s->file_count && f->used && f->refs);
	f->last_used = ++s->clock;
	if (!--f->refs)
		f->released_epoch = s->epoch;
}

/* ---- mappings ---- */

void unwind_store_mapping(const struct unwind_store *s, uint32_t file, uint64_t begin, uint64_t end,
			  uint64_t load_bias, struct unwind_mapping *out)
{
	uint64_t pages = (end - begin) >> UNWIND_PAGE_SHIFT;

	*out = (struct unwind_mapping){.begin = begin, .file = file, .bias = load_bias};
	out->page_total = pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
	if (file && s->files[file].tabled) {
		out->bias = load_bias + s->files[file].begin;
		out->table = s->files[file].table;
		out->page_count = s->files[file].page_count;
	}
}

ORDER_BY(by_address, struct unwind_mapping, ORDER_UP(begin));

/* Joins anonymous neighbours; returns the remaining number of mappings. */
static uint32_t join_anonymous(struct unwind_mapping *m, uint32_t count)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct unwind_mapping *last = n ? &m[n - 1] : NULL;

		if (last && !m[i].file && !last->file &&
		    last->begin + ((uint64_t)last->page_total << UNWIND_PAGE_SHIFT) == m[i].begin &&
		    last->page_total <= UINT32_MAX - m[i].page_total)
			last->page_total += m[i].page_total;
		else
			m[n++] = m[i];
	}
	return n;
}

int unwind_store_publish(struct unwind_store *s, struct unwind_mapping *mappings, uint32_t count,
			 struct unwind_process *out, uint32_t *dropped)
{
	uint32_t first = 0, words;
	int rc;

	*out = (struct unwind_process){0};
	qsort(mappings, count, sizeof(*mappings), by_address);
	count = join_anonymous(mappings, count);
	if (count > UNWIND_MAPPING_MAX) {
		if (dropped)
			*dropped += count - UNWIND_MAPPING_MAX;
		count = UNWIND_MAPPING_MAX;
	}
	if (!count)
		return 0;
	/* making room must not evict files that these mappings use */
	for (uint32_t i = 0; i < count; i++) {
		if (mappings[i].file)
			unwind_store_ref(s, mappings[i].file);
	}
	words = count * UNWIND_MAPPING_WORDS;
	while ((rc = find_in_chunk(s, aligned(words), &first)) == -ENOSPC) {
		rc = make_room(s);
		if (rc)
			break;
	}
	if (!rc) {
		memcpy(word_at(s, first), mappings, count * sizeof(*mappings));
		rc = commit(s, first, words);
		if (rc)
			give_room(s, (struct extent){first, aligned(words)});
	}
	if (rc) {
		for (uint32_t i = 0; i < count; i++) {
			if (mappings[i].file)
				unwind_store_unref(s, mappings[i].file);
		}
		return rc;
	}
	out->mappings = first;
	out->mapping_count = count;
	return 0;
}

void unwind_store_retire(struct unwind_store *s, struct unwind_process *p)
{
	uint32_t words = p->mapping_count * UNWIND_MAPPING_WORDS;
	struct extent e = {p->mappings, aligned(words)};

	if (!p->mapping_count)
		return;
	for (uint32_t i = 0; i < p->mapping_count; i++) {
		const struct unwind_mapping *m =
		    (const void *)word_at(s, p->mappings + i * UNWIND_MAPPING_WORDS);

		if (m->file)
			unwind_store_unref(s, m->file);
	}
	/* if there is no memory for the list, the room is lost until close */
	put_extent(&s->quarantine, e);
	*p = (struct unwind_process){0};
}

void unwind_store_quiesce(struct unwind_store *s)
{
	s->epoch++;
	for (uint32_t i = 0; i < s->quarantine.count; i++)
		give_room(s, s->quarantine.at[i]);
	s->quarantine.count = 0;
}

/* ---- the whole ---- */

int unwind_store_open(struct unwind_store **out, const struct unwind_backing *backing,
		      size_t bytes_max)
{
	size_t shard_bytes = (size_t)UNWIND_SHARD_WORDS * 4,
	       shards = (bytes_max + shard_bytes - 1) / shard_bytes;
	struct unwind_store *s;
	int rc;

	*out = NULL;
	if (!backing || !backing->grow)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->backing = *backing;
	s->shard_max = shards > UNWIND_SHARD_MAX ? UNWIND_SHARD_MAX : shards ? (uint32_t)shards : 1;
	s->file_count = 1;
	s->epoch = 1;
	rc = ROOM_FOR_ZERO(s->files, s->file_room, 1);
	if (!rc)
		rc = grow_arena(s);
	if (!rc)
		rc = cut_extent(s, 0, 0, UNWIND_RULE_WORDS);
	if (rc) {
		unwind_store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void unwind_store_close(struct unwind_store *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->shard_count; i++) {
		if (s->backing.release)
			s->backing.release(s->backing.context, i, s->shards[i]);
	}
	for (uint32_t i = 1; i < s->file_count; i++)
		free(s->files[i].rules);
	while (s->owners) {
		struct owner *o = s->owners;

		s->owners = o->next;
		free(o);
	}
	free(s->files);
	free(s->unused.at);
	free(s->quarantine.at);
	free(s);
}

struct unwind_chunk *unwind_store_chunk(const struct unwind_store *s, uint32_t word)
{
	if (word / UNWIND_SHARD_WORDS >= s->shard_count)
		return NULL;
	return (struct unwind_chunk *)word_at(s, word / UNWIND_CHUNK_WORDS * UNWIND_CHUNK_WORDS);
}

void unwind_store_stats_get(const struct unwind_store *s, struct unwind_store_stats *out)
{
	*out = s->stats;
}

/* SPDX-License-Identifier: Apache-2.0
 * snapshot.c - see snapshot.h. */
#include "tests/accuracy/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/unwind/unwind_replay.h"
#include "sampler/unwind/unwind_store.h"

#define MAGIC	    "sysom-snapshot 1\n"
#define COUNT_MAX   (1u << 20)
#define ARENA_BYTES (64u << 20)

void snapshot_fini(struct snapshot *s)
{
	for (uint32_t i = 0; i < s->piece_count; i++)
		free(s->pieces[i].data);
	for (uint32_t i = 0; i < s->file_count; i++)
		unwind_table_fini(&s->files[i]);
	free(s->pieces);
	free(s->mappings);
	free(s->files);
	free(s->frames);
	memset(s, 0, sizeof(*s));
}

int snapshot_add_piece(struct snapshot *s, uint64_t address, const void *data, uint32_t bytes)
{
	struct snapshot_piece *p = realloc(s->pieces, (s->piece_count + 1) * sizeof(*p));

	if (!p)
		return -ENOMEM;
	s->pieces = p;
	p += s->piece_count;
	*p = (struct snapshot_piece){
	    .address = address, .bytes = bytes, .data = malloc(bytes ? bytes : 1)};
	if (!p->data)
		return -ENOMEM;
	if (bytes)
		memcpy(p->data, data, bytes);
	s->piece_count++;
	return 0;
}

static bool shares_page(uint64_t row, const uint64_t *addresses, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (row >> UNWIND_PAGE_SHIFT == addresses[i] >> UNWIND_PAGE_SHIFT)
			return true;
	}
	return false;
}

int snapshot_add_file(struct snapshot *s, const struct unwind_table *t, const uint64_t *addresses,
		      uint32_t count)
{
	struct unwind_table *files = realloc(s->files, (s->file_count + 1) * sizeof(*files)), *f;

	if (!files)
		return -ENOMEM;
	s->files = files;
	f = &files[s->file_count];
	*f = (struct unwind_table){.begin = t->begin, .end = t->end};
	f->rows = malloc(((size_t)t->row_count + 1) * sizeof(*f->rows));
	f->rules = malloc(((size_t)t->rule_count + 1) * sizeof(*f->rules));
	if (!f->rows || !f->rules) {
		unwind_table_fini(f);
		return -ENOMEM;
	}
	f->rule_count = t->rule_count;
	if (t->rule_count)
		memcpy(f->rules, t->rules, t->rule_count * sizeof(*f->rules));
	for (uint32_t i = 0; i < t->row_count; i++) {
		uint64_t from = t->begin + t->rows[i].address;
		uint64_t to = i + 1 < t->row_count ? t->begin + t->rows[i + 1].address - 1 : from;

		/* a row belongs to the page of its first and to that of its last byte */
		if (shares_page(from, addresses, count) || shares_page(to, addresses, count))
			f->rows[f->row_count++] = t->rows[i];
		else if (f->row_count && f->rows[f->row_count - 1].rule)
			f->rows[f->row_count++] = (struct unwind_table_row){t->rows[i].address, 0};
	}
	s->file_count++;
	return 0;
}

/* ---- the file ---- */

static void write_table(const struct unwind_table *t, struct buf *b)
{
	uint32_t last = 0;

	buf_varint(b, t->begin);
	buf_varint(b, t->end - t->begin);
	buf_varint(b, t->rule_count);
	buf_append(b, t->rules, t->rule_count * sizeof(*t->rules));
	buf_varint(b, t->row_count);
	for (uint32_t i = 0; i < t->row_count; i++) {
		buf_varint(b, t->rows[i].address - last);
		buf_varint(b, t->rows[i].rule);
		last = t->rows[i].address;
	}
}

void snapshot_write(const struct snapshot *s, struct buf *b)
{
	buf_append(b, MAGIC, sizeof(MAGIC) - 1);
	buf_append(b, s->name, sizeof(s->name));
	buf_varint(b, s->pc);
	for (int i = 0; i < UNWIND_REGISTERS; i++)
		buf_varint(b, s->reg[i]);
	buf_varint(b, s->piece_count);
	for (uint32_t i = 0; i < s->piece_count; i++) {
		buf_varint(b, s->pieces[i].address);
		buf_varint(b, s->pieces[i].bytes);
		buf_append(b, s->pieces[i].data, s->pieces[i].bytes);
	}
	buf_varint(b, s->file_count);
	for (uint32_t i = 0; i < s->file_count; i++)
		write_table(&s->files[i], b);
	buf_varint(b, s->mapping_count);
	for (uint32_t i = 0; i < s->mapping_count; i++) {
		buf_varint(b, s->mappings[i].begin);
		buf_varint(b, s->mappings[i].end - s->mappings[i].begin);
		buf_varint(b, s->mappings[i].load_bias);
		buf_varint(b, s->mappings[i].file);
	}
	buf_varint(b, s->end);
	buf_varint(b, s->frame_count);
	for (uint32_t i = 0; i < s->frame_count; i++)
		buf_varint(b, s->frames[i]);
}

struct reader {
	const uint8_t *data;
	size_t bytes, at;
	int rc;
};

static uint64_t number(struct reader *r)
{
	uint64_t v = 0;

	if (!r->rc)
		r->rc = buf_read_varint(r->data, r->bytes, &r->at, &v);
	return r->rc ? 0 : v;
}

static const uint8_t *take(struct reader *r, uint64_t bytes)
{
	const uint8_t *p = r->data + r->at;

	if (!r->rc && bytes > r->bytes - r->at)
		r->rc = -EPROTO;
	if (r->rc)
		return NULL;
	r->at += bytes;
	return p;
}

/* Reads a count of items of `each` bytes in memory, and allocates them; each item has at least one
 * byte in the file. */
static uint32_t many(struct reader *r, size_t each, void **room)
{
	uint64_t n = number(r);

	if (!r->rc && (n > COUNT_MAX || n > r->bytes - r->at))
		r->rc = -EPROTO;
	if (r->rc)
		return 0;
	*room = calloc(n ? n : 1, each);
	if (!*room)
		r->rc = -ENOMEM;
	return r->rc ? 0 : (uint32_t)n;
}

static void read_table(struct reader *r, struct unwind_table *t)
{
	const uint8_t *rules;
	uint64_t address = 0, span, count;

	t->begin = number(r);
	span = number(r);
	if (span > UINT32_MAX || t->begin + span < t->begin || t->begin % UNWIND_PAGE_BYTES)
		r->rc = -EPROTO;
	t->end = t->begin + span;
	count = many(r, sizeof(*t->rules), (void **)&t->rules);
	rules = take(r, count * sizeof(*t->rules));
	if (!rules)
		return;
	memcpy(t->rules, rules, count * sizeof(*t->rules));
	t->rule_count = (uint32_t)count;
	t->row_count = many(r, sizeof(*t->rows), (void **)&t->rows);
	for (uint32_t i = 0; i < t->row_count && !r->rc; i++) {
		uint64_t by = number(r), rule = number(r);

		address += by;
		if (by > UINT32_MAX || address > span || rule >= count || (i && !by))
			r->rc = -EPROTO;
		t->rows[i] = (struct unwind_table_row){(uint32_t)address, (uint32_t)rule};
	}
}

static void read_mappings(struct reader *r, struct snapshot *s)
{
	s->mapping_count = many(r, sizeof(*s->mappings), (void **)&s->mappings);
	for (uint32_t i = 0; i < s->mapping_count && !r->rc; i++) {
		struct snapshot_mapping *m = &s->mappings[i];
		uint64_t file;

		m->begin = number(r);
		m->end = m->begin + number(r);
		m->load_bias = number(r);
		file = number(r);
		if (m->end < m->begin || file > s->file_count)
			r->rc = -EPROTO;
		m->file = (uint32_t)file;
	}
}

int snapshot_read(struct snapshot *out, const uint8_t *data, size_t bytes)
{
	struct reader r = {.data = data, .bytes = bytes};
	const uint8_t *p = take(&r, sizeof(MAGIC) - 1);

	memset(out, 0, sizeof(*out));
	if (!p || memcmp(p, MAGIC, sizeof(MAGIC) - 1))
		return -EPROTO;
	p = take(&r, sizeof(out->name));
	if (p)
		memcpy(out->name, p, sizeof(out->name) - 1);
	out->pc = number(&r);
	for (int i = 0; i < UNWIND_REGISTERS; i++)
		out->reg[i] = number(&r);
	for (uint64_t n = number(&r); n && !r.rc; n--) {
		uint64_t address = number(&r), length = number(&r);

		p = take(&r, length);
		if (p && (length > COUNT_MAX || address + length < address))
			r.rc = -EPROTO;
		if (p && !r.rc)
			r.rc = snapshot_add_piece(out, address, p, (uint32_t)length);
	}
	out->file_count = many(&r, sizeof(*out->files), (void **)&out->files);
	for (uint32_t i = 0; i < out->file_count && !r.rc; i++)
		read_table(&r, &out->files[i]);
	read_mappings(&r, out);
	out->end = (uint32_t)number(&r);
	out->frame_count = many(&r, sizeof(*out->frames), (void **)&out->frames);
	for (uint32_t i = 0; i < out->frame_count && !r.rc; i++)
		out->frames[i] = number(&r);
	if (!r.rc && (r.at != bytes || out->end >= UNWIND_END_COUNT))
		r.rc = -EPROTO;
	if (r.rc)
		snapshot_fini(out);
	return r.rc;
}

/* ---- the walk ---- */

static int read_piece(void *context, void *to, size_t bytes, uint64_t address)
{
	const struct snapshot *s = context;

	for (uint32_t i = 0; i < s->piece_count; i++) {
		const struct snapshot_piece *p = &s->pieces[i];

		if (address >= p->address && bytes <= p->bytes &&
		    address - p->address <= p->bytes - bytes) {
			memcpy(to, p->data + (address - p->address), bytes);
			return 0;
		}
	}
	return -1;
}

static int publish(const struct snapshot *s, struct unwind_store *store,
		   struct unwind_process *process)
{
	uint32_t *numbers = calloc(s->file_count + 1u, sizeof(*numbers));
	struct unwind_mapping *m = calloc(s->mapping_count + 1u, sizeof(*m));
	int rc = numbers && m ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < s->file_count; i++) {
		struct unwind_store_key key = {.count = 4, .kind = 1};

		memcpy(key.bytes, &i, sizeof(i));
		rc = unwind_store_add(store, &key, &s->files[i], &numbers[i + 1]);
	}
	for (uint32_t i = 0; !rc && i < s->mapping_count; i++) {
		const struct snapshot_mapping *from = &s->mappings[i];

		unwind_store_mapping(store, numbers[from->file], from->begin, from->end,
				     from->load_bias, &m[i]);
	}
	if (!rc)
		rc = unwind_store_publish(store, m, s->mapping_count, process, NULL);
	free(numbers);
	free(m);
	return rc;
}

int snapshot_walk(const struct snapshot *s, enum unwind_mode mode, struct unwind_state *state)
{
	struct unwind_store *store = NULL;
	struct unwind_replay *replay = NULL;
	int rc = unwind_store_open(&store, &unwind_store_memory, ARENA_BYTES);

	if (!rc)
		rc = unwind_replay_open(&replay, store, mode, read_piece, (void *)(uintptr_t)s);
	if (!rc)
		rc = publish(s, store, &state->process);
	if (!rc) {
		state->pc = s->pc;
		for (int i = 0; i < UNWIND_REGISTERS; i++)
			state->reg[i] = s->reg[i];
		state->owner = 1;
		unwind_replay_walk(replay, state);
	}
	unwind_replay_close(replay);
	unwind_store_close(store);
	return rc;
}

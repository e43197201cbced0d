/* SPDX-License-Identifier: Apache-2.0
 * symbol_index.c - see symbol_index.h.
 * The string table is copied unchanged and rows refer to it, so names need no memory. The symbol
 * table is sorted in runs: each is read, filtered and sorted in a buffer of fixed size and appended
 * to a temporary file. A sweep merges the runs and cuts the symbols into disjoint rows.
 * Read, not mapped: pages touched by random look-ups would count as this process's memory, up to
 * the whole index. */
#include "symbol/symbol_index.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/replace.h"
#include "base/room.h"
#include "symbol/symbol_mini.h"

#define INDEX_MAGIC 0x0331584449535953ull /* "SYSIDX1" and version 3 */
#define RUN_ROWS    (1u << 18)		  /* sorted in memory at a time: 6 MiB */
#define MERGE_ROWS  256u		  /* read ahead of each run */
#define RUNS_MAX    (LIMIT_SYMBOLS / RUN_ROWS)
#define BLOCK_ROWS  256u /* read at a time by a lookup: 8 KiB */
#define NEST_MAX    32
#define PLT_BYTES   16u

/* Begins the index file. Rows, names and the first address of every block follow. */
struct header {
	uint64_t magic, row_count, names_bytes, top_count;
	uint32_t quality, trusted;
};

struct symbol_row {
	uint64_t address; /* of this piece */
	uint64_t begin;	  /* of the symbol */
	uint32_t bytes;	  /* of this piece */
	uint32_t size;	  /* of the symbol */
	uint32_t name;	  /* offset into the names */
	uint32_t plt;	  /* 1: the name is that of the function called through this slot */
};
_Static_assert(sizeof(struct symbol_row) == 32 && sizeof(struct header) == 40, "file format");

/* While building: a symbol. rank: the alias with the lowest rank is shown. */
struct entry {
	uint64_t begin;
	uint32_t size, name, rank, reserved;
};

struct builder {
	const struct symbol_elf *e;
	FILE *out; /* the index file */
	FILE *runs;
	uint64_t run_begin[RUNS_MAX + 1]; /* entry number */
	uint32_t run_count;
	struct entry *run;
	uint32_t fill;
	struct entry nest[NEST_MAX];
	unsigned depth;
	uint64_t cursor; /* everything below this address is written */
	uint64_t rows, names_bytes;
	uint64_t *top;
	size_t top_room;
};

/* ---- entries ---- */

/* The outer symbol first. */
ORDER_BY(compare_entries, struct entry,
	 ORDER_UP(begin) ?: ORDER_DOWN(size) ?: ORDER_UP(rank) ?: ORDER_UP(name));

static int flush_run(struct builder *b)
{
	if (!b->fill)
		return 0;
	if (b->run_count == RUNS_MAX)
		return -EFBIG;
	qsort(b->run, b->fill, sizeof(*b->run), compare_entries);
	if (fwrite(b->run, sizeof(*b->run), b->fill, b->runs) != b->fill)
		return -errno;
	b->run_count++;
	b->run_begin[b->run_count] = b->run_begin[b->run_count - 1] + b->fill;
	b->fill = 0;
	return 0;
}

static int put_entry(struct builder *b, const struct entry *x)
{
	int err = b->fill == RUN_ROWS ? flush_run(b) : 0;

	if (!err)
		b->run[b->fill++] = *x;
	return err;
}

static bool is_code(const struct symbol_elf *e, const Elf64_Sym *s)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);

	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	if (s->st_shndx == SHN_UNDEF || s->st_shndx >= e->section_count)
		return false;
	return (e->sections[s->st_shndx].flags & SHF_EXECINSTR) && s->st_size &&
	       s->st_size <= UINT32_MAX && s->st_value <= UINT64_MAX - s->st_size;
}

/* Ranks names of one range: global before weak before local, typed before untyped. */
static uint32_t rank_of(const Elf64_Sym *s)
{
	static const uint32_t by_binding[16] = {[STB_GLOBAL] = 0, [STB_WEAK] = 1, [STB_LOCAL] = 2};
	unsigned binding = ELF64_ST_BIND(s->st_info);

	return by_binding[binding] + (binding > STB_WEAK ? 3u : 0u) +
	       (ELF64_ST_TYPE(s->st_info) == STT_NOTYPE ? 8u : 0u);
}

/* The names of this table start at b->names_bytes. */
static int read_symbols(struct builder *b, const struct symbol_elf *e, uint32_t section)
{
	const struct symbol_section *s = &e->sections[section];
	uint64_t names = e->sections[s->link].bytes, count = s->bytes / sizeof(Elf64_Sym);
	Elf64_Sym chunk[256];
	int err = 0;

	if (count > LIMIT_SYMBOLS || b->names_bytes + names + 1 > UINT32_MAX)
		return -EFBIG;
	for (uint64_t at = 0; at < count && !err; at += 256) {
		uint64_t n = count - at < 256 ? count - at : 256;

		err = all_bytes_read(e->fd, chunk, n * sizeof(*chunk),
				     s->offset + at * sizeof(*chunk));
		for (uint64_t i = 0; i < n && !err; i++) {
			struct entry x = {chunk[i].st_value, (uint32_t)chunk[i].st_size,
					  (uint32_t)b->names_bytes + chunk[i].st_name,
					  rank_of(&chunk[i]), 0};

			if (is_code(e, &chunk[i]) && chunk[i].st_name && chunk[i].st_name < names)
				err = put_entry(b, &x);
		}
	}
	return err;
}

/* Calls through the PLT: the k-th slot belongs to the k-th relocation's symbol. The high bit of the
 * rank requests "@plt" after the name. */
static int read_plt(struct builder *b, uint32_t table)
{
	const struct symbol_elf *e = b->e;
	const struct symbol_section *plt = &e->sections[e->plt_sec ? e->plt_sec : e->plt];
	const struct symbol_section *rela = &e->sections[e->rela_plt], *syms;
	uint64_t first = e->plt_sec ? 0 : 1, count = rela->bytes / sizeof(Elf64_Rela);
	int err = 0;

	if ((!e->plt && !e->plt_sec) || !e->rela_plt || table != e->dynsym ||
	    plt->type == SHT_NOBITS)
		return 0;
	syms = &e->sections[e->dynsym];
	for (uint64_t i = 0; i < count && (first + i + 1) * PLT_BYTES <= plt->bytes && !err; i++) {
		struct entry x = {plt->address + (first + i) * PLT_BYTES, PLT_BYTES, 0, 1u << 31,
				  0};
		Elf64_Rela r;
		Elf64_Sym s;

		err = all_bytes_read(e->fd, &r, sizeof(r), rela->offset + i * sizeof(r));
		if (err || ELF64_R_SYM(r.r_info) >= syms->bytes / sizeof(s))
			continue;
		err = all_bytes_read(e->fd, &s, sizeof(s),
				     syms->offset + ELF64_R_SYM(r.r_info) * sizeof(s));
		x.name = s.st_name;
		if (!err && x.name && x.name < e->sections[syms->link].bytes)
			err = put_entry(b, &x);
	}
	return err;
}

/* ---- sweep ---- */

static int add_top(struct builder *b, uint64_t address)
{
	size_t n = b->rows / BLOCK_ROWS;

	if (ROOM_FOR(b->top, b->top_room, n + 1))
		return -ENOMEM;
	b->top[n] = address;
	return 0;
}

static int emit(struct builder *b, const struct entry *x, uint64_t end)
{
	struct symbol_row r = {b->cursor, x->begin, (uint32_t)(end - b->cursor),
			       x->size,	  x->name,  x->rank >> 31};

	if (end <= b->cursor)
		return 0;
	if (b->cursor < x->begin)
		return -EBADMSG; /* impossible: the sweep never goes back */
	if (b->rows % BLOCK_ROWS == 0 && add_top(b, b->cursor))
		return -ENOMEM;
	b->cursor = end;
	b->rows++;
	return fwrite(&r, sizeof(r), 1, b->out) == 1 ? 0 : -errno;
}

static int close_until(struct builder *b, uint64_t address)
{
	int err = 0;

	while (b->depth && !err) {
		const struct entry *top = &b->nest[b->depth - 1];
		uint64_t end = top->begin + top->size;

		if (end > address)
			return emit(b, top, address);
		err = emit(b, top, end);
		b->depth--;
	}
	return err;
}

static int sweep(struct builder *b, const struct entry *x)
{
	const struct entry *top = b->depth ? &b->nest[b->depth - 1] : NULL;
	int err;

	if (top && top->begin == x->begin && top->size == x->size)
		return 0; /* an alias of lower rank */
	err = close_until(b, x->begin);
	if (err)
		return err;
	b->cursor = x->begin;
	if (b->depth < NEST_MAX)
		b->nest[b->depth++] = *x;
	return 0;
}

/* ---- merge ---- */

struct run {
	uint64_t next, end; /* entry numbers */
	struct entry ahead[MERGE_ROWS];
	uint32_t at, have;
};

static const struct entry *run_head(struct run *r, int fd, int *err)
{
	uint64_t n = r->end - r->next;

	if (r->at < r->have)
		return &r->ahead[r->at];
	if (!n || *err)
		return NULL;
	n = n < MERGE_ROWS ? n : MERGE_ROWS;
	*err = all_bytes_read(fd, r->ahead, n * sizeof(*r->ahead), r->next * sizeof(*r->ahead));
	r->next += n;
	r->at = 0;
	r->have = *err ? 0 : (uint32_t)n;
	return *err ? NULL : r->ahead;
}

/* A heap of runs, ordered by their first entries; empty runs drop out. */
struct heap {
	struct run *of[RUNS_MAX];
	uint32_t count;
};

static bool before(const struct run *x, const struct run *y)
{
	return compare_entries(&x->ahead[x->at], &y->ahead[y->at]) < 0;
}

static void heap_sink(struct heap *h, uint32_t i)
{
	for (;;) {
		uint32_t least = i;

		for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < h->count; k++)
			if (before(h->of[k], h->of[least]))
				least = k;
		if (least == i)
			return;
		struct run *r = h->of[i];

		h->of[i] = h->of[least];
		h->of[least] = r;
		i = least;
	}
}

static int merge_runs(struct builder *b)
{
	struct run *runs = calloc(b->run_count ? b->run_count : 1, sizeof(*runs));
	int fd = fileno(b->runs), err = runs ? 0 : -ENOMEM;
	struct heap h = {.count = 0};

	for (uint32_t i = 0; i < b->run_count && !err; i++) {
		runs[i].next = b->run_begin[i];
		runs[i].end = b->run_begin[i + 1];
		if (run_head(&runs[i], fd, &err))
			h.of[h.count++] = &runs[i];
	}
	for (uint32_t i = h.count; i-- > 0 && !err;)
		heap_sink(&h, i);
	while (!err && h.count) {
		struct run *r = h.of[0];

		err = sweep(b, &r->ahead[r->at]);
		r->at++;
		if (!err && !run_head(r, fd, &err))
			h.of[0] = h.of[--h.count];
		if (!err)
			heap_sink(&h, 0);
	}
	free(runs);
	return err ? err : close_until(b, UINT64_MAX);
}

/* ---- file ---- */

static int copy_names(struct builder *b, const struct symbol_elf *e, uint32_t table)
{
	const struct symbol_section *s = &e->sections[e->sections[table].link];
	char chunk[65536];
	int err = 0;

	for (uint64_t at = 0; at < s->bytes && !err; at += sizeof(chunk)) {
		size_t n = s->bytes - at < sizeof(chunk) ? s->bytes - at : sizeof(chunk);

		err = all_bytes_read(e->fd, chunk, n, s->offset + at);
		if (!err && fwrite(chunk, 1, n, b->out) != n)
			err = -errno;
	}
	return err			 ? err
	       : fputc(0, b->out) == EOF ? -errno
					 : 0; /* terminates the last name in any
								  * case */
}

static int add_table(struct builder *b, const struct symbol_elf *e, uint32_t table)
{
	int err = read_symbols(b, e, table);

	if (!err && e == b->e)
		err = read_plt(b, table);
	if (!err)
		b->names_bytes += e->sections[e->sections[table].link].bytes + 1;
	return err;
}

/* Writes the rows, then the names of one or two tables, then the top. */
static int write_rows(struct builder *b, uint32_t table, const struct symbol_elf *mini)
{
	int err = add_table(b, b->e, table);

	if (!err && mini)
		err = add_table(b, mini, mini->symtab);
	if (!err)
		err = flush_run(b);
	if (!err && fflush(b->runs))
		err = -errno;
	if (!err)
		err = merge_runs(b);
	if (!err)
		err = copy_names(b, b->e, table);
	if (!err && mini)
		err = copy_names(b, mini, mini->symtab);
	return err;
}

static int write_index(struct builder *b, int scratch)
{
	struct header h = {
	    .magic = INDEX_MAGIC, .quality = b->e->quality, .trusted = b->e->trusted};
	uint32_t table = b->e->symtab ? b->e->symtab : b->e->dynsym;
	struct symbol_elf mini = {.fd = -1};
	bool more = false;
	int err = 0;

	if (fwrite(&h, sizeof(h), 1, b->out) != 1)
		return -errno;
	/* an unreadable small symbol file must not cost the other names */
	if (table && !b->e->symtab)
		more = !symbol_mini_unpack(b->e, scratch, &mini);
	if (table)
		err = write_rows(b, table, more ? &mini : NULL);
	if (more)
		symbol_elf_fini(&mini);
	h.row_count = b->rows;
	h.names_bytes = b->names_bytes;
	h.top_count = (b->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
	if (!err && h.top_count &&
	    fwrite(b->top, sizeof(*b->top), h.top_count, b->out) != h.top_count)
		err = -errno;
	if (!err &&
	    (fseek(b->out, 0, SEEK_SET) || fwrite(&h, sizeof(h), 1, b->out) != 1 || fflush(b->out)))
		err = -errno;
	return err;
}

/* Beside the index, because /tmp may be in memory. */
int symbol_index_scratch(const char *path)
{
	char name[4096];
	int fd;

	if ((size_t)snprintf(name, sizeof(name), "%s.XXXXXX", path) >= sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name);
	return fd;
}

static int build(struct builder *b, int out, int scratch, int runs, const char **why)
{
	int err = 0;

	b->run = malloc(sizeof(*b->run) * RUN_ROWS);
	b->runs = runs < 0 ? NULL : fdopen(runs, "w+");
	b->out = fdopen(out, "w+");
	if (scratch < 0 || runs < 0)
		err = scratch < 0 ? scratch : runs;
	else if (!b->run || !b->runs || !b->out)
		err = -ENOMEM;
	else
		err = write_index(b, scratch);
	if (err == -EBADMSG)
		*why = "symbol table outside the file, or the file changed";
	else if (err == -EFBIG)
		*why = "more symbols than the limit";
	if (b->runs)
		fclose(b->runs);
	else if (runs >= 0)
		close(runs);
	if (b->out ? fclose(b->out) : close(out))
		err = err ? err : -errno;
	if (scratch >= 0)
		close(scratch);
	free(b->run);
	free(b->top);
	return err;
}

int symbol_index_write(const struct symbol_elf *e, int out, int scratch, int runs, const char **why)
{
	struct builder *b = calloc(1, sizeof(*b));
	int err = -ENOMEM;

	*why = "";
	if (!b) {
		close(out);
		close(scratch);
		close(runs);
		return err;
	}
	b->e = e;
	err = build(b, out, scratch, runs, why);
	free(b);
	return err;
}

int symbol_index_build(const struct symbol_elf *e, const char *path, const char **why)
{
	struct replace to;
	int err, fd;

	*why = "";
	err = replace_begin(&to, AT_FDCWD, path, 0600);
	if (err)
		return err;
	fd = to.fd;
	to.fd = -1; /* taken */
	err =
	    symbol_index_write(e, fd, symbol_index_scratch(path), symbol_index_scratch(path), why);
	return replace_end(&to, err);
}

/* ---- lookup ---- */

static bool fits(const struct header *h, uint64_t file_bytes)
{
	return h->magic == INDEX_MAGIC && h->row_count <= 2ull * LIMIT_SYMBOLS + 1 &&
	       h->names_bytes <= UINT32_MAX + 1ull &&
	       h->top_count == (h->row_count + BLOCK_ROWS - 1) / BLOCK_ROWS &&
	       sizeof(*h) + h->row_count * sizeof(struct symbol_row) + h->names_bytes +
		       h->top_count * sizeof(uint64_t) ==
		   file_bytes;
}

int symbol_index_open(struct symbol_index *x, const char *path)
{
	struct header h;
	struct stat st;
	int err;

	*x = (struct symbol_index){.fd = open(path, O_RDONLY | O_CLOEXEC),
				   .block_number = UINT64_MAX};
	if (x->fd < 0)
		return -errno;
	err = fstat(x->fd, &st) ? -errno : all_bytes_read(x->fd, &h, sizeof(h), 0);
	if (!err && !fits(&h, (uint64_t)st.st_size))
		err = -EBADMSG;
	if (!err) {
		x->row_count = h.row_count;
		x->names_bytes = h.names_bytes;
		x->trusted = h.trusted == 1;
		x->top = malloc(h.top_count * sizeof(*x->top) + 1);
		err = !x->top
			  ? -ENOMEM
			  : all_bytes_read(x->fd, x->top, h.top_count * sizeof(*x->top),
					   (uint64_t)st.st_size - h.top_count * sizeof(*x->top));
		x->top_count = h.top_count;
	}
	if (err)
		symbol_index_close(x);
	return err;
}

void symbol_index_close(struct symbol_index *x)
{
	if (x->fd > 0) /* 0: zeroed, never opened */
		close(x->fd);
	free(x->top);
	free(x->block);
	free(x->name);
	*x = (struct symbol_index){.fd = -1};
}

size_t symbol_index_memory(const struct symbol_index *x)
{
	return sizeof(*x) + x->top_count * sizeof(*x->top) + x->name_room +
	       (x->block ? BLOCK_ROWS * sizeof(*x->block) : 0);
}

static uint64_t block_rows(const struct symbol_index *x, uint64_t block)
{
	uint64_t left = x->row_count - block * BLOCK_ROWS;

	return left < BLOCK_ROWS ? left : BLOCK_ROWS;
}

static int read_block(struct symbol_index *x, uint64_t block)
{
	int err;

	if (x->block_number == block)
		return 0;
	if (!x->block)
		x->block = malloc(BLOCK_ROWS * sizeof(*x->block));
	if (!x->block)
		return -ENOMEM;
	err = all_bytes_read(x->fd, x->block, block_rows(x, block) * sizeof(*x->block),
			     sizeof(struct header) + block * BLOCK_ROWS * sizeof(*x->block));
	x->block_number = err ? UINT64_MAX : block;
	return err;
}

/* Most names are short; a longer one costs a second read. */
static int read_name(struct symbol_index *x, uint32_t name)
{
	size_t left = x->names_bytes - name;

	for (size_t want = 256; want <= LIMIT_SYMBOL_NAME_BYTES; want *= 8) {
		size_t n = left < want ? left : want;
		int err;

		if (x->name_room < want) {
			char *room = realloc(x->name, want);

			if (!room)
				return -ENOMEM;
			x->name = room;
			x->name_room = want;
		}
		err =
		    all_bytes_read(x->fd, x->name, n,
				   sizeof(struct header) + x->row_count * sizeof(*x->block) + name);
		if (err)
			return err;
		if (memchr(x->name, 0, n))
			return 0;
		x->name[n - 1] = 0;
		if (n == left)
			return 0;
	}
	return 0;
}

int symbol_index_find(struct symbol_index *x, uint64_t address, struct symbol_hit *out)
{
	uint64_t lo = 0, hi = x->top_count, block;
	const struct symbol_row *r;
	int err;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (x->top[mid] <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return -ENOENT;
	block = lo - 1;
	err = read_block(x, block);
	if (err)
		return err;
	lo = 0;
	hi = block_rows(x, block);
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (x->block[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	r = lo ? &x->block[lo - 1] : NULL;
	if (!r || address - r->address >= r->bytes || r->name >= x->names_bytes)
		return -ENOENT;
	err = read_name(x, r->name);
	if (!err)
		*out = (struct symbol_hit){x->name, r->begin, r->size, r->plt};
	return err;
}

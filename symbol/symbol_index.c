/* SPDX-License-Identifier: Apache-2.0
 * symbol_index.c - see symbol_index.h.
 * The string table is copied as it is, by the kernel, and rows refer to it: names need no memory. The
 * symbol table goes through runs: each is read, filtered and sorted in a buffer of fixed size and
 * appended to a temporary file; the runs are merged while a sweep cuts the symbols into disjoint
 * rows. */
#include "symbol/symbol_index.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

#define INDEX_MAGIC 0x0131584449535953ull /* "SYSIDX1" and version 1 */
#define RUN_ROWS    (1u << 18)		   /* sorted in memory at a time: 6 MiB */
#define MERGE_ROWS  256u		   /* read ahead of each run */
#define RUNS_MAX    (LIMIT_SYMBOLS / RUN_ROWS)
#define NEST_MAX    32
#define PLT_BYTES   16u

struct header {
	uint64_t magic, row_count, names_bytes;
	uint32_t quality, reserved;
};

struct symbol_row {
	uint64_t address;  /* of this piece */
	uint64_t begin;    /* of the symbol */
	uint32_t bytes;	   /* of this piece */
	uint32_t size;	   /* of the symbol */
	uint32_t name;	   /* offset into the names */
	uint32_t plt;	   /* 1: the name is that of the function behind this slot */
};
_Static_assert(sizeof(struct symbol_row) == 32 && sizeof(struct header) == 32, "file format");

/* While building: a symbol. rank: of aliases the lowest is shown. */
struct entry {
	uint64_t begin;
	uint32_t size, name, rank, reserved;
};

struct builder {
	const struct symbol_elf *e;
	const char **why;
	FILE *out;    /* header, rows, names */
	FILE *runs;
	uint64_t run_begin[RUNS_MAX + 1]; /* entry number */
	uint32_t run_count;
	struct entry *run;
	uint32_t fill;
	struct entry nest[NEST_MAX];
	unsigned depth;
	uint64_t cursor; /* everything below is written */
	uint64_t rows;
};

/* ---- entries ---- */

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1; /* the outer one first */
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

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

/* Of several names of one range: global before weak before local, typed before untyped. */
static uint32_t rank_of(const Elf64_Sym *s)
{
	static const uint32_t by_binding[16] = { [STB_GLOBAL] = 0, [STB_WEAK] = 1, [STB_LOCAL] = 2 };
	unsigned binding = ELF64_ST_BIND(s->st_info);

	return by_binding[binding] + (binding > STB_WEAK ? 3u : 0u) +
	       (ELF64_ST_TYPE(s->st_info) == STT_NOTYPE ? 8u : 0u);
}

static int read_symbols(struct builder *b, uint32_t section)
{
	const struct symbol_section *s = &b->e->sections[section];
	uint64_t names = b->e->sections[s->link].bytes, count = s->bytes / sizeof(Elf64_Sym);
	Elf64_Sym chunk[256];
	int err = 0;

	if (count > LIMIT_SYMBOLS)
		return -EFBIG;
	for (uint64_t at = 0; at < count && !err; at += 256) {
		uint64_t n = count - at < 256 ? count - at : 256;

		err = symbol_elf_read(b->e->fd, chunk, n * sizeof(*chunk),
				      s->offset + at * sizeof(*chunk));
		for (uint64_t i = 0; i < n && !err; i++) {
			struct entry x = { chunk[i].st_value, (uint32_t)chunk[i].st_size,
					   chunk[i].st_name, rank_of(&chunk[i]), 0 };

			if (is_code(b->e, &chunk[i]) && x.name && x.name < names)
				err = put_entry(b, &x);
		}
	}
	return err;
}

/* Calls through the PLT: the k-th slot belongs to the k-th relocation's symbol. The rank's high bit
 * says that the name is to be shown with "@plt". */
static int read_plt(struct builder *b, uint32_t table)
{
	const struct symbol_elf *e = b->e;
	const struct symbol_section *plt = &e->sections[e->plt_sec ? e->plt_sec : e->plt];
	const struct symbol_section *rela = &e->sections[e->rela_plt], *syms;
	uint64_t first = e->plt_sec ? 0 : 1, count = rela->bytes / sizeof(Elf64_Rela);
	int err = 0;

	if ((!e->plt && !e->plt_sec) || !e->rela_plt || table != e->dynsym || plt->type == SHT_NOBITS)
		return 0;
	syms = &e->sections[e->dynsym];
	for (uint64_t i = 0; i < count && (first + i + 1) * PLT_BYTES <= plt->bytes && !err; i++) {
		struct entry x = { plt->address + (first + i) * PLT_BYTES, PLT_BYTES, 0, 1u << 31, 0 };
		Elf64_Rela r;
		Elf64_Sym s;

		err = symbol_elf_read(e->fd, &r, sizeof(r), rela->offset + i * sizeof(r));
		if (err || ELF64_R_SYM(r.r_info) >= syms->bytes / sizeof(s))
			continue;
		err = symbol_elf_read(e->fd, &s, sizeof(s),
				      syms->offset + ELF64_R_SYM(r.r_info) * sizeof(s));
		x.name = s.st_name;
		if (!err && x.name && x.name < e->sections[syms->link].bytes)
			err = put_entry(b, &x);
	}
	return err;
}

/* ---- sweep ---- */

static int emit(struct builder *b, const struct entry *x, uint64_t end)
{
	struct symbol_row r = { b->cursor, x->begin, (uint32_t)(end - b->cursor), x->size, x->name,
				x->rank >> 31 };

	if (end <= b->cursor)
		return 0;
	if (b->cursor < x->begin)
		return -EBADMSG; /* cannot be: the sweep never looks back */
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
	*err = symbol_elf_read(fd, r->ahead, n * sizeof(*r->ahead), r->next * sizeof(*r->ahead));
	r->next += n;
	r->at = 0;
	r->have = *err ? 0 : (uint32_t)n;
	return *err ? NULL : r->ahead;
}

static int merge_runs(struct builder *b)
{
	struct run *runs = calloc(b->run_count ? b->run_count : 1, sizeof(*runs));
	int fd = fileno(b->runs), err = runs ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < b->run_count && !err; i++) {
		runs[i].next = b->run_begin[i];
		runs[i].end = b->run_begin[i + 1];
	}
	while (!err) {
		const struct entry *best = NULL;
		struct run *from = NULL;

		for (uint32_t i = 0; i < b->run_count; i++) {
			const struct entry *head = run_head(&runs[i], fd, &err);

			if (head && (!best || compare_entries(head, best) < 0)) {
				best = head;
				from = &runs[i];
			}
		}
		if (err || !best)
			break;
		err = sweep(b, best);
		from->at++;
	}
	free(runs);
	return err ? err : close_until(b, UINT64_MAX);
}

/* ---- file ---- */

static int copy_names(struct builder *b, uint32_t table, uint64_t *bytes)
{
	const struct symbol_section *s = &b->e->sections[b->e->sections[table].link];
	char chunk[65536];
	int err = 0;

	for (uint64_t at = 0; at < s->bytes && !err; at += sizeof(chunk)) {
		size_t n = s->bytes - at < sizeof(chunk) ? s->bytes - at : sizeof(chunk);

		err = symbol_elf_read(b->e->fd, chunk, n, s->offset + at);
		if (!err && fwrite(chunk, 1, n, b->out) != n)
			err = -errno;
	}
	*bytes = s->bytes + 1;
	return err ? err : fputc(0, b->out) == EOF ? -errno : 0; /* the last name ends, whatever it is */
}

static int write_index(struct builder *b)
{
	struct header h = { .magic = INDEX_MAGIC, .quality = b->e->quality };
	uint32_t table = b->e->symtab ? b->e->symtab : b->e->dynsym;
	int err = 0;

	if (fwrite(&h, sizeof(h), 1, b->out) != 1)
		return -errno;
	if (table) {
		err = read_symbols(b, table);
		if (!err)
			err = read_plt(b, table);
		if (!err)
			err = flush_run(b);
		if (!err && fflush(b->runs))
			err = -errno;
		if (!err)
			err = merge_runs(b);
		if (!err)
			err = copy_names(b, table, &h.names_bytes);
	}
	h.row_count = b->rows;
	if (!err && (fseek(b->out, 0, SEEK_SET) || fwrite(&h, sizeof(h), 1, b->out) != 1 ||
		     fflush(b->out)))
		err = -errno;
	return err;
}

int symbol_index_build(const struct symbol_elf *e, const char *path, const char **why)
{
	struct builder *b = calloc(1, sizeof(*b));
	char temporary[4096];
	int fd = -1, err = -ENOMEM;

	*why = "";
	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= sizeof(temporary)) {
		free(b);
		return -ENAMETOOLONG;
	}
	if (b) {
		b->e = e;
		b->why = why;
		b->run = malloc(sizeof(*b->run) * RUN_ROWS);
		b->runs = tmpfile();
		fd = mkostemp(temporary, O_CLOEXEC);
		b->out = fd < 0 ? NULL : fdopen(fd, "w+");
		err = !b->run ? -ENOMEM : !b->runs || !b->out ? -errno : write_index(b);
		if (err == -EBADMSG)
			*why = "symbol table outside the file, or the file changed";
		else if (err == -EFBIG)
			*why = "more symbols than the limit";
		if (b->runs)
			fclose(b->runs);
		if (b->out && fclose(b->out) && !err)
			err = -errno;
		free(b->run);
	}
	free(b);
	if (fd >= 0 && !err && rename(temporary, path))
		err = -errno;
	if (fd >= 0 && err)
		unlink(temporary);
	return err;
}

int symbol_index_open(struct symbol_index *x, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct header *h;
	struct stat st;
	void *map;

	memset(x, 0, sizeof(*x));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || (size_t)st.st_size < sizeof(*h)) {
		close(fd);
		return -EBADMSG;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -errno;
	x->map = h = map;
	x->map_bytes = (size_t)st.st_size;
	x->row_count = h->row_count;
	x->names_bytes = h->names_bytes;
	x->quality = h->quality;
	x->rows = (const struct symbol_row *)(h + 1);
	x->names = (const char *)(x->rows + x->row_count);
	if (h->magic != INDEX_MAGIC || x->row_count > 2ull * LIMIT_SYMBOLS + 1 ||
	    x->names_bytes > UINT32_MAX + 1ull ||
	    sizeof(*h) + x->row_count * sizeof(*x->rows) + x->names_bytes != x->map_bytes ||
	    (x->names_bytes && x->names[x->names_bytes - 1])) {
		symbol_index_close(x);
		return -EBADMSG;
	}
	return 0;
}

void symbol_index_close(struct symbol_index *x)
{
	if (x->map)
		munmap((void *)(uintptr_t)x->map, x->map_bytes);
	memset(x, 0, sizeof(*x));
}

int symbol_index_find(const struct symbol_index *x, uint64_t address, struct symbol_hit *out)
{
	uint64_t lo = 0, hi = x->row_count;
	const struct symbol_row *r;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (x->rows[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return -ENOENT;
	r = &x->rows[lo - 1];
	if (address - r->address >= r->bytes || r->name >= x->names_bytes)
		return -ENOENT;
	*out = (struct symbol_hit){ x->names + r->name, r->begin, r->size, r->plt };
	return 0;
}

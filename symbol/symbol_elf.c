/* SPDX-License-Identifier: Apache-2.0
 * symbol_elf.c - see symbol_elf.h.
 * Not libelf: it maps files or loads whole sections, and we want neither. The headers are plain
 * arrays, read once and bounded. */
#include "symbol/symbol_elf.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "base/limits.h"

static int read_header(int fd, Elf64_Ehdr *h, uint64_t *file_bytes)
{
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	*file_bytes = (uint64_t)st.st_size;
	err = all_bytes_read(fd, h, sizeof(*h), 0);
	if (err)
		return err == -EBADMSG ? -ENOEXEC : err;
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != EM_X86_64 ||
	    (h->e_type != ET_EXEC && h->e_type != ET_DYN))
		return -ENOEXEC;
	return 0;
}

/* A hole of a sparse file reads as zeros. No linker writes a table with a hole, and holes make
 * unbounded work without using disk space. A file system without holes reports the first one at the
 * end. */
static bool has_hole(int fd, uint64_t offset, uint64_t bytes)
{
	off_t hole = bytes ? lseek(fd, (off_t)offset, SEEK_HOLE) : -1;

	return hole >= 0 && (uint64_t)hole < offset + bytes;
}

bool symbol_elf_has(const struct symbol_elf *e, uint64_t offset, uint64_t bytes)
{
	return offset <= e->file_bytes && bytes <= e->file_bytes - offset &&
	       !has_hole(e->fd, offset, bytes);
}

enum note_kind { NOTE_GNU, NOTE_GO };
#define NOTE_GO_BUILD_ID 4u

/* Go's linker writes "ACTION/.../CONTENT"; the last part is the hash of the linked content, as
 * text. */
static size_t go_build_id(const uint8_t *text, size_t bytes, uint8_t *id)
{
	size_t begin = bytes;

	while (begin && text[begin - 1] != '/')
		begin--;
	if (!begin || bytes - begin < 8 || bytes - begin > SYMBOL_BUILD_ID_MAX)
		return 0;
	memcpy(id, text + begin, bytes - begin);
	return bytes - begin;
}

/* Finds the build-id of that kind in one block of notes; 0: none. */
static size_t find_build_id(const uint8_t *note, size_t bytes, size_t align, enum note_kind kind,
			    uint8_t *id)
{
	size_t at = 0;

	while (bytes - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		uint64_t name, desc, next;

		memcpy(&n, note + at, sizeof(n));
		name = at + sizeof(n);
		desc = name + (((uint64_t)n.n_namesz + align - 1) & ~(uint64_t)(align - 1));
		next = desc + (((uint64_t)n.n_descsz + align - 1) & ~(uint64_t)(align - 1));
		if (desc > bytes || n.n_descsz > bytes - desc)
			return 0;
		if (kind == NOTE_GNU && n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
		    !memcmp(note + name, "GNU", 4) && n.n_descsz &&
		    n.n_descsz <= SYMBOL_BUILD_ID_MAX) {
			memcpy(id, note + desc, n.n_descsz);
			return n.n_descsz;
		}
		if (kind == NOTE_GO && n.n_type == NOTE_GO_BUILD_ID && n.n_namesz == 4 &&
		    !memcmp(note + name, "Go\0", 4))
			return go_build_id(note + desc, n.n_descsz, id);
		if (next > bytes)
			return 0;
		at = next;
	}
	return 0;
}

static size_t read_note(int fd, uint64_t offset, uint64_t bytes, uint64_t align,
			enum note_kind kind, uint8_t *id)
{
	uint8_t note[LIMIT_SYMBOL_NOTE_BYTES];
	size_t n = bytes < sizeof(note) ? bytes : sizeof(note);

	if (all_bytes_read(fd, note, n, offset))
		return 0;
	return find_build_id(note, n, align == 8 ? 8 : 4, kind, id);
}

/* Searches the note segments. 0: none. */
static int segment_build_id(int fd, const Elf64_Ehdr *h, enum note_kind kind, uint8_t *id)
{
	int err;

	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	for (unsigned i = 0; i < h->e_phnum && i < LIMIT_SYMBOL_SEGMENTS; i++) {
		Elf64_Phdr p;
		size_t n;

		err = all_bytes_read(fd, &p, sizeof(p), h->e_phoff + i * sizeof(p));
		if (err)
			return err;
		if (p.p_type != PT_NOTE)
			continue;
		n = read_note(fd, p.p_offset, p.p_filesz, p.p_align, kind, id);
		if (n)
			return (int)n;
	}
	return 0;
}

/* Searches the note sections: some linkers put a note only into a section. */
static int section_build_id(int fd, const Elf64_Ehdr *h, enum note_kind kind, uint8_t *id)
{
	if (h->e_shentsize != sizeof(Elf64_Shdr))
		return 0;
	for (unsigned i = 0; i < h->e_shnum && i < LIMIT_SYMBOL_SEGMENTS; i++) {
		Elf64_Shdr s;
		size_t n;

		if (all_bytes_read(fd, &s, sizeof(s), h->e_shoff + i * sizeof(s)))
			return 0; /* section headers were stripped: not an error */
		if (s.sh_type != SHT_NOTE)
			continue;
		n = read_note(fd, s.sh_offset, s.sh_size, s.sh_addralign, kind, id);
		if (n)
			return (int)n;
	}
	return 0;
}

int symbol_elf_build_id(int fd, uint8_t id[SYMBOL_BUILD_ID_MAX])
{
	uint64_t file_bytes;
	Elf64_Ehdr h;
	int n = read_header(fd, &h, &file_bytes);

	for (int kind = NOTE_GNU; !n && kind <= NOTE_GO; kind++) {
		n = segment_build_id(fd, &h, kind, id);
		if (!n)
			n = section_build_id(fd, &h, kind, id);
	}
	return n;
}

static int read_sections(struct symbol_elf *e, const Elf64_Ehdr *h, const char **why)
{
	Elf64_Shdr *raw;
	int err;

	e->section_count = h->e_shnum;
	e->section_headers = h->e_shoff;
	if (!h->e_shnum)
		return 0; /* section headers were stripped: nothing to find, not an error */
	*why = "section headers outside the file";
	if (h->e_shentsize != sizeof(Elf64_Shdr) ||
	    !symbol_elf_has(e, h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr)))
		return -EBADMSG;
	raw = malloc(sizeof(*raw) * h->e_shnum);
	e->sections = calloc(h->e_shnum, sizeof(*e->sections));
	err = raw && e->sections ? all_bytes_read(e->fd, raw, sizeof(*raw) * h->e_shnum, h->e_shoff)
				 : -ENOMEM;
	for (uint32_t i = 0; i < h->e_shnum && !err; i++) {
		struct symbol_section *s = &e->sections[i];

		*s = (struct symbol_section){raw[i].sh_addr,  raw[i].sh_offset, raw[i].sh_size,
					     raw[i].sh_flags, raw[i].sh_type,	raw[i].sh_link,
					     raw[i].sh_name};
		if (s->type == SHT_NOBITS || s->type == SHT_NULL)
			continue;
		if (s->offset > e->file_bytes || s->bytes > e->file_bytes - s->offset) {
			*why = "a section outside the file";
			err = -EBADMSG;
		}
	}
	free(raw);
	return err;
}

/* A symbol table with its strings, whose entries can be read as an array. */
static bool usable_table(const struct symbol_elf *e, const struct symbol_section *s)
{
	const struct symbol_section *names =
	    s->link < e->section_count ? &e->sections[s->link] : NULL;

	return s->bytes >= sizeof(Elf64_Sym) && names && names->type == SHT_STRTAB &&
	       names->bytes <= UINT32_MAX && !has_hole(e->fd, s->offset, s->bytes) &&
	       !has_hole(e->fd, names->offset, names->bytes);
}

int symbol_elf_section_name(const struct symbol_elf *e, uint32_t section,
			    char name[SYMBOL_SECTION_NAME_BYTES])
{
	const struct symbol_section *s = &e->sections[section];
	const struct symbol_section *n = &e->sections[e->section_names];
	size_t want = SYMBOL_SECTION_NAME_BYTES - 1;

	memset(name, 0, SYMBOL_SECTION_NAME_BYTES);
	if (s->name >= n->bytes)
		return 0;
	if (want > n->bytes - s->name)
		want = n->bytes - s->name;
	return all_bytes_read(e->fd, name, want, n->offset + s->name) ? -EBADMSG : 0;
}

static int name_sections(struct symbol_elf *e, uint32_t names, const char **why)
{
	bool lines = false;

	*why = "no section names";
	if (names >= e->section_count || e->sections[names].type != SHT_STRTAB)
		return -EBADMSG;
	*why = "a hole where the sections' names are";
	if (has_hole(e->fd, e->sections[names].offset, e->sections[names].bytes))
		return -EBADMSG;
	e->section_names = names;
	for (uint32_t i = 1; i < e->section_count; i++) {
		struct symbol_section *s = &e->sections[i];
		char name[SYMBOL_SECTION_NAME_BYTES];

		if (symbol_elf_section_name(e, i, name))
			return -EBADMSG;
		if (s->type == SHT_SYMTAB && usable_table(e, s))
			e->symtab = i;
		else if (s->type == SHT_DYNSYM && usable_table(e, s))
			e->dynsym = i;
		else if (s->type == SHT_RELA && !strcmp(name, ".rela.plt") &&
			 !has_hole(e->fd, s->offset, s->bytes))
			e->rela_plt = i;
		else if (!strcmp(name, ".gnu_debuglink"))
			e->debug_link = i;
		else if (!strcmp(name, ".gnu_debugdata") && s->type == SHT_PROGBITS &&
			 !has_hole(e->fd, s->offset, s->bytes))
			e->mini = i;
		else if (!strcmp(name, ".plt"))
			e->plt = i;
		else if (!strcmp(name, ".plt.sec"))
			e->plt_sec = i;
		else if (!strcmp(name, ".PyRuntime"))
			e->python_runtime = s->address;
		else if ((!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info")) &&
			 s->type != SHT_NOBITS)
			lines = true;
	}
	e->quality = e->symtab && lines	    ? SYMBOL_DEBUG
		     : e->symtab || e->mini ? SYMBOL_TABLE
		     : e->dynsym	    ? SYMBOL_DYNAMIC
					    : SYMBOL_NONE;
	return 0;
}

int symbol_elf_init(struct symbol_elf *e, int fd, const char **why)
{
	Elf64_Ehdr h;
	int err;

	*e = (struct symbol_elf){.fd = fd};
	*why = "not an ELF file for x86-64";
	err = read_header(fd, &h, &e->file_bytes);
	if (!err)
		err = read_sections(e, &h, why);
	if (!err && e->section_count)
		err = name_sections(e, h.e_shstrndx, why);
	if (!err) {
		int n = symbol_elf_build_id(fd, e->build_id);

		/* A debug file's program headers may be invalid; its note section is valid. */
		e->build_id_bytes = n > 0 ? (size_t)n : 0;
		for (uint32_t i = 1, notes = 0;
		     i < e->section_count && notes < LIMIT_SYMBOL_SEGMENTS && !e->build_id_bytes;
		     i++)
			if (e->sections[i].type == SHT_NOTE && ++notes)
				e->build_id_bytes =
				    read_note(fd, e->sections[i].offset, e->sections[i].bytes, 4,
					      NOTE_GNU, e->build_id);
		*why = "";
		return 0;
	}
	symbol_elf_fini(e);
	return err;
}

void symbol_elf_fini(struct symbol_elf *e)
{
	free(e->sections);
	e->sections = NULL;
	e->section_count = 0;
}

int symbol_elf_segments(const struct symbol_elf *e, Elf64_Phdr *out, uint32_t max)
{
	uint64_t file_bytes;
	Elf64_Ehdr h;
	uint32_t n;
	int err = read_header(e->fd, &h, &file_bytes);

	if (err)
		return err;
	n = h.e_phnum < max ? h.e_phnum : max;
	if (n && h.e_phentsize != sizeof(*out))
		return -EBADMSG;
	err = n ? all_bytes_read(e->fd, out, n * sizeof(*out), h.e_phoff) : 0;
	return err ? err : (int)n;
}

int symbol_elf_debug_link(const struct symbol_elf *e, char *name, size_t name_bytes, uint32_t *crc)
{
	const struct symbol_section *s;
	char link[512];
	size_t n, at;

	if (!e->debug_link)
		return -ENOENT;
	s = &e->sections[e->debug_link];
	if (s->type == SHT_NOBITS)
		return -ENOENT;
	if (s->bytes < 8 || s->bytes > sizeof(link) ||
	    all_bytes_read(e->fd, link, s->bytes, s->offset))
		return -EBADMSG;
	n = strnlen(link, s->bytes);
	at = (n + 4) & ~3ul;
	/* a path could lead anywhere */
	if (!n || n >= name_bytes || at + 4 > s->bytes || memchr(link, '/', n))
		return -EBADMSG;
	memcpy(name, link, n + 1);
	memcpy(crc, link + at, 4);
	return 0;
}

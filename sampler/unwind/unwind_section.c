/* SPDX-License-Identifier: Apache-2.0
 * unwind_section.c - see unwind_section.h. */
#include "sampler/unwind/unwind_section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/all_bytes.h"
#include "base/limits.h"
#include "sampler/unwind/unwind_cfi.h"

/* For a compressed .debug_frame: its entries are repetitive; Go's shrink to a fifth. */
#define INFLATE_RATIO_MAX 64

static int read_bytes(struct unwind_section *out, const struct symbol_elf *e, uint64_t offset,
		      uint64_t bytes, const char **why)
{
	int err;

	*why = "the section is too large";
	if (bytes > LIMIT_UNWIND_SECTION_BYTES)
		return -E2BIG;
	*why = "the section lies outside the file, or has a hole";
	if (!symbol_elf_has(e, offset, bytes))
		return -EBADMSG;
	*why = "no memory";
	out->bytes = malloc(bytes ? bytes : 1);
	if (!out->bytes)
		return -ENOMEM;
	out->count = bytes;
	err = all_bytes_read(e->fd, out->bytes, bytes, offset);
	*why = err ? "the section can't be read" : "";
	return err;
}

static int inflate_section(struct unwind_section *s, const char **why)
{
	Elf64_Chdr header;
	uint8_t *plain;
	uLongf bytes;

	*why = "a compressed section is invalid";
	if (s->count < sizeof(header))
		return -EBADMSG;
	memcpy(&header, s->bytes, sizeof(header));
	if (header.ch_type != ELFCOMPRESS_ZLIB)
		return -EBADMSG;
	*why = "a compressed section is too large";
	if (header.ch_size > LIMIT_UNWIND_SECTION_BYTES ||
	    header.ch_size > s->count * INFLATE_RATIO_MAX)
		return -E2BIG;
	*why = "no memory";
	plain = malloc(header.ch_size ? header.ch_size : 1);
	if (!plain)
		return -ENOMEM;
	bytes = header.ch_size;
	*why = "a compressed section is invalid";
	if (uncompress(plain, &bytes, s->bytes + sizeof(header), s->count - sizeof(header)) !=
		Z_OK ||
	    bytes != header.ch_size) {
		free(plain);
		return -EBADMSG;
	}
	free(s->bytes);
	s->bytes = plain;
	s->count = bytes;
	*why = "";
	return 0;
}

static const Elf64_Phdr *segment_of(const Elf64_Phdr *ph, int count, uint64_t address)
{
	for (int i = 0; i < count; i++) {
		if (ph[i].p_type == PT_LOAD && address >= ph[i].p_vaddr &&
		    address - ph[i].p_vaddr < ph[i].p_filesz)
			return &ph[i];
	}
	return NULL;
}

/* .eh_frame_hdr has the address of .eh_frame, which ends with a terminator, so we read to the end
 * of its segment. Both lie in the segment that symbol_content.h digests. */
static int read_by_segment(struct unwind_section *out, const struct symbol_elf *e, const char **why)
{
	Elf64_Phdr ph[LIMIT_SYMBOL_SEGMENTS];
	const Elf64_Phdr *load, *frames = NULL;
	int count = symbol_elf_segments(e, ph, LIMIT_SYMBOL_SEGMENTS), err;
	uint8_t header[12]; /* version, three encodings, the pointer */
	struct unwind_cfi_cursor c = {header + 4, header + sizeof(header), false};
	uint64_t at, bytes;

	for (int i = 0; i < count; i++) {
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			frames = &ph[i];
	}
	load = frames ? segment_of(ph, count, frames->p_vaddr) : NULL;
	if (!load)
		return 0;
	*why = ".eh_frame_hdr is invalid";
	err = all_bytes_read(e->fd, header, sizeof(header),
			     load->p_offset + (frames->p_vaddr - load->p_vaddr));
	if (err || header[0] != 1)
		return err ? err : -EBADMSG;
	at = unwind_cfi_pointer(&c, header[1], frames->p_vaddr + 4);
	if (c.failed || segment_of(ph, count, at) != load)
		return -EBADMSG;
	bytes = load->p_vaddr + load->p_filesz - at;
	out->address = at;
	return read_bytes(out, e, load->p_offset + (at - load->p_vaddr),
			  bytes < LIMIT_UNWIND_SECTION_BYTES ? bytes : LIMIT_UNWIND_SECTION_BYTES,
			  why);
}

int unwind_section_read(struct unwind_section *out, const struct symbol_elf *e, const char *name,
			const char **why)
{
	int err = 0;

	*out = (struct unwind_section){0};
	*why = "";
	if (!e->section_count && !strcmp(name, ".eh_frame"))
		return read_by_segment(out, e, why);
	for (uint32_t i = 1; i < e->section_count; i++) {
		const struct symbol_section *s = &e->sections[i];
		char found[SYMBOL_SECTION_NAME_BYTES];

		if (s->type == SHT_NOBITS || !s->bytes || symbol_elf_section_name(e, i, found) ||
		    strcmp(found, name))
			continue;
		out->address = s->address;
		err = read_bytes(out, e, s->offset, s->bytes, why);
		if (!err && s->flags & SHF_COMPRESSED)
			err = inflate_section(out, why);
		break;
	}
	if (err)
		unwind_section_fini(out);
	return err;
}

void unwind_section_fini(struct unwind_section *s)
{
	free(s->bytes);
	*s = (struct unwind_section){0};
}

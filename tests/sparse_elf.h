/* SPDX-License-Identifier: Apache-2.0
 * sparse_elf.h - a library of a few bytes. Its tables claim any size, and its file has room for them: a
 * hole of 8 TiB. */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Writes it to fd, an empty file. 0, -1 with errno. */
static inline int sparse_elf_write(int fd, uint64_t names_bytes, uint32_t sections,
				   uint64_t symbols_bytes)
{
	Elf64_Ehdr eh = {.e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_version = 1,
			 .e_phoff = sizeof(eh),
			 .e_ehsize = sizeof(eh),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 1,
			 .e_shoff = 4096,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = sections < SHN_LORESERVE ? (uint16_t)sections : 0,
			 .e_shstrndx = 1};
	Elf64_Phdr ph = {
	    .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 4096, .p_memsz = 4096};
	Elf64_Shdr sh[3] = {{.sh_size = sections},
			    {.sh_type = SHT_STRTAB, .sh_offset = 8192, .sh_size = names_bytes},
			    {.sh_type = SHT_DYNSYM,
			     .sh_offset = 8192,
			     .sh_size = symbols_bytes,
			     .sh_entsize = sizeof(Elf64_Sym),
			     .sh_link = 1}};

	memcpy(eh.e_ident, ELFMAG, SELFMAG);
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_ident[EI_DATA] = ELFDATA2LSB;
	eh.e_ident[EI_VERSION] = EV_CURRENT;
	if (pwrite(fd, &eh, sizeof(eh), 0) != sizeof(eh) ||
	    pwrite(fd, &ph, sizeof(ph), sizeof(eh)) != sizeof(ph) ||
	    pwrite(fd, sh, sizeof(sh), 4096) != sizeof(sh))
		return -1;
	/* some file systems have no files so large */
	return ftruncate(fd, (off_t)(1ull << 43)) && ftruncate(fd, (off_t)(1ull << 36)) ? -1 : 0;
}

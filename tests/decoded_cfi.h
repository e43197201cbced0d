/* SPDX-License-Identifier: Apache-2.0
 * decoded_cfi.h - stands before libdw's dwarf_next_cfi (-Wl,--wrap) and counts the bytes of decoded
 * entries, wherever an entry is said to begin. Included by one file of a program. */
#pragma once

#include <elfutils/libdw.h>
#include <stdint.h>

static uint64_t decoded;

int __real_dwarf_next_cfi(const unsigned char ident[], Elf_Data *data, bool eh_frame,
			  Dwarf_Off offset, Dwarf_Off *next, Dwarf_CFI_Entry *entry);
int __wrap_dwarf_next_cfi(const unsigned char ident[], Elf_Data *data, bool eh_frame,
			  Dwarf_Off offset, Dwarf_Off *next, Dwarf_CFI_Entry *entry);
int __wrap_dwarf_next_cfi(const unsigned char ident[], Elf_Data *data, bool eh_frame,
			  Dwarf_Off offset, Dwarf_Off *next, Dwarf_CFI_Entry *entry)
{
	int rc = __real_dwarf_next_cfi(ident, data, eh_frame, offset, next, entry);

	decoded += *next > offset && *next <= data->d_size ? *next - offset : 1;
	return rc;
}

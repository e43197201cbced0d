/* SPDX-License-Identifier: Apache-2.0
 * refuse_musl.c - musl's loader does not load this library, so a program with musl runs untraced and
 * untouched. Without this it would miss glibc's symbols and end the program, as LD_PRELOAD is a matter of
 * the whole job: a script for glibc may start a program with musl.
 *
 * musl takes a library that defines both of these names for a second C library, drops it and uses its own
 * (load_library in its ldso/dynlink.c). glibc ignores a hidden symbol of another library
 * (do_lookup_x), musl does not look at visibility. The linker makes hidden symbols local, so
 * tools/dynsym_hide.c hides these in the linked file. Nobody calls or reads them. */
__asm__(".globl __libc_start_main\n"
	".globl stdin\n"
	".set __libc_start_main, 1\n"
	".set stdin, 1\n");

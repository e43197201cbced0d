/* SPDX-License-Identifier: Apache-2.0
 * dynsym_hide - at build time: makes dynamic symbols of a linked library hidden, which no linker does.
 * usage: dynsym_hide LIBRARY SYMBOL... (preload/refuse_musl.c says why) */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the file has the symbol. */
static int hide(char *file, const char *name)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)file;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + head->e_shoff);
	int found = 0;

	for (const Elf64_Shdr *s = sections; s < sections + head->e_shnum; s++) {
		Elf64_Sym *symbols = (Elf64_Sym *)(file + s->sh_offset);
		const char *names = file + sections[s->sh_link].sh_offset;

		if (s->sh_type != SHT_DYNSYM)
			continue;
		for (size_t i = 0; i < s->sh_size / sizeof(*symbols); i++)
			if (!strcmp(names + symbols[i].st_name, name)) {
				symbols[i].st_other = STV_HIDDEN;
				found = 1;
			}
	}
	return found;
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
	struct stat st;
	char *file;

	if (fd < 0 || fstat(fd, &st) ||
	    (file = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
		MAP_FAILED) {
		perror(argc > 1 ? argv[1] : "dynsym_hide LIBRARY SYMBOL...");
		return 1;
	}
	for (int i = 2; i < argc; i++)
		if (!hide(file, argv[i])) {
			fprintf(stderr, "%s: no dynamic symbol %s\n", argv[1], argv[i]);
			return 1;
		}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * symbol_source.h - finds the file of a Build ID.
 * Threads: any.  Trust: paths come from processes. What they lead to is opened without blocking,
 * must be a regular file and must carry the Build ID. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "symbol/symbol_elf.h"

struct symbol_source {
	const char *directory;	/* or NULL */
	const char *debug_root; /* or NULL: /usr/lib/debug; this process's own, never another
				 * process's */
	bool debuginfod;
	bool links; /* for a Build ID alone, also use path and its debug link. Whoever puts a file
		     * there can make up names, so this is for programs that read for one user, not
		     * for a daemon */
	const char *root; /* path is looked up as if this directory were "/", including links (a
			   * process's root); NULL: this process's root */
	/* Opens path, and its debug link's file: a descriptor or -errno. NULL: this process opens
	 * them. */
	int (*open)(void *arg, const char *path);
	void *open_arg;
	uint64_t link_bytes_max; /* of a debug link's file; 0: LIMIT_SYMBOL_FILE_BYTES */
	const atomic_bool *stop; /* cancels a download when true; NULL: never */
};

/* With an identity (symbol/symbol_content.h): finds the file with that content, at path or in the
 * directory. With a Build ID alone: the best file that carries it, in the directory, the debug
 * root, at path and its debug link, or from debuginfod. With neither only the path counts. Reads
 * the headers into *e; the caller closes *fd after symbol_elf_fini. path and build_id as in
 * symbol_resolver_find. 0, -ENODATA, -EBADMSG (*why), -errno. */
int symbol_source_open(const struct symbol_source *s, const uint8_t *build_id,
		       size_t build_id_bytes, const char *path, struct symbol_elf *e, int *fd,
		       const char **why);

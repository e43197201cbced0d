/* SPDX-License-Identifier: Apache-2.0
 * symbol_source.h - where the file of a Build ID is found.
 * Threads: any.  Trust: paths come from processes; what they lead to is opened without blocking, must
 * be a regular file and must carry the Build ID. */
#ifndef SYSOM_SYMBOL_SYMBOL_SOURCE_H
#define SYSOM_SYMBOL_SYMBOL_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "symbol/symbol_elf.h"

struct symbol_source {
	const char *directory;	/* or NULL */
	const char *debug_root; /* or NULL: /usr/lib/debug; the caller's own, never a process's */
	bool debuginfod;
	bool links; /* by a Build ID alone, path and its debug link count too: who puts a file there can
		     * make up names. For who reads for one user, not for a daemon of all */
	const char *root; /* path is looked up as if this directory were "/", links included (a process's
			   * root); NULL: the caller's own */
	/* Opens path, and its debug link's: a descriptor or -errno. NULL: this process does. */
	int (*open)(void *arg, const char *path);
	void *open_arg;
	uint64_t link_bytes_max; /* of a debug link's file; 0: LIMIT_SYMBOL_FILE_BYTES */
	const atomic_bool *stop; /* gives a download up once it is true; NULL: never */
};

/* Of an identity (symbol/symbol_content.h): the file with that content, at path or in the
 * directory. Of a Build ID alone: the best file that carries it, in the directory, the debug root,
 * at path and its debug link, or from debuginfod. Without any: path alone decides. Opened and read
 * into *e; *fd is the caller's to close after symbol_elf_fini. path and build_id as in
 * symbol_resolver_find. 0, -ENODATA, -EBADMSG (*why), -errno. */
int symbol_source_open(const struct symbol_source *s, const uint8_t *build_id, size_t build_id_bytes,
		       const char *path, struct symbol_elf *e, int *fd, const char **why);
/* ".build-id/ab/cdef" + suffix below dir; -ENAMETOOLONG, -EINVAL for an empty or overlong Build ID. */
int symbol_source_path(const char *dir, const uint8_t *build_id, size_t build_id_bytes,
		       const char *suffix, char *out, size_t out_bytes);

#endif

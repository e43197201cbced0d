/* SPDX-License-Identifier: Apache-2.0
 * config.h - one table of settings per program, filled from YAML, then the environment, then flags.
 * A key is "section.name" (or "name"); its flag is --section-name, its variable
 * SYSOM_SECTION_NAME. Every error names the file and line, the variable or the flag.
 * Threads: one caller, at start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum config_type {
	CONFIG_STRING,	 /* char[]; bytes = sizeof the array */
	CONFIG_BOOL,	 /* bool */
	CONFIG_UINT,	 /* uint64_t, min..max */
	CONFIG_BYTES,	 /* uint64_t; accepts KiB MiB GiB KB MB GB */
	CONFIG_DURATION, /* uint64_t nanoseconds; accepts ns us ms s m h d */
	CONFIG_DOUBLE,	 /* double, min..max */
	CONFIG_ENUM,	 /* int; choices is a "a|b|c" list, value = index */
};

struct config_key {
	const char *key;
	enum config_type type;
	size_t offset, bytes; /* into the program's configuration struct */
	const char *initial;  /* parsed like a file's value */
	double min, max;      /* for UINT, BYTES, DURATION, DOUBLE; both 0: unbounded */
	const char *choices;
	const char *help; /* one line, for --help and the commented default file */
};

#define CONFIG_KEY(strct, field, key_, type_, initial_, help_, ...)                                \
	{                                                                                          \
		.key = (key_), .type = (type_), .offset = offsetof(strct, field),                  \
		.bytes = sizeof(((strct *)0)->field), .initial = (initial_), .help = (help_),      \
		__VA_ARGS__                                                                        \
	}

enum config_result {
	CONFIG_RUN = 0,	     /* the program continues */
	CONFIG_EXIT_OK = 1,  /* --help, --version, --print-config, or --check-config of a valid
			       * file */
	CONFIG_EXIT_BAD = 2, /* the message is already on standard error; exit with 2 */
};

/* Checks how the settings fit together, after all have been read. 0, or -EINVAL with the reason in
 * `why`, which names the settings. */
typedef int (*config_check_fn)(const void *values, char *why, size_t why_bytes);
/* Fills *into. Also handles --config FILE, --check-config, --print-config, --help and --version. A
 * missing default_path is not an error, but a missing --config FILE is. about: the first lines of
 * --help. check: may be NULL. */
enum config_result config_load(void *into, const struct config_key *keys, size_t key_count,
			       const char *program, const char *about, const char *default_path,
			       int argc, char **argv, config_check_fn check);
/* For use in such a check: writes into `why` what is wrong with the key's value ("not
 * ADDRESS:PORT"). Returns -EINVAL. */
int config_refuse(char *why, size_t why_bytes, const char *key, const char *value,
		  const char *wrong);
/* tcp://HOST:PORT, tls+tcp://HOST:PORT or ipc://PATH. HOST may be empty unless needs_host is set;
 * an empty HOST makes a listener use all addresses. */
bool config_is_socket_url(const char *text, bool needs_host);
/* Sets one value, parsed as in a file. 0, or -EINVAL with the reason in `why`. */
int config_set(void *into, const struct config_key *key, const char *text, char *why,
	       size_t why_bytes);
/* Fills *into only from the initial values and the text of one file. 0, -ENOMEM, or -EINVAL after
 * messages that name `path` and the line. */
int config_read_text(void *into, const struct config_key *keys, size_t key_count, const char *path,
		     const char *text, size_t bytes);
/* Prints the commented default file. */
void config_print(FILE *to, const void *values, const struct config_key *keys, size_t key_count);

/* SPDX-License-Identifier: Apache-2.0
 * commands.h - the commands of `sysom`; each returns its exit status (options.h). */
#ifndef SYSOM_CLI_COMMANDS_H
#define SYSOM_CLI_COMMANDS_H

#include "cli/client.h"
#include "cli/options.h"

/* The program's own arguments, with which front.c hands a command over. */
extern char **front_argv;

int cmd_run_main(const struct options *o);
int cmd_preload_main(const struct options *o);
int cmd_status_main(const struct options *o);
int cmd_top_main(const struct options *o);
int cmd_incidents_list(const struct options *o);
int cmd_incidents_show(const struct options *o);
int cmd_control_off(const struct options *o);
int cmd_control_on(const struct options *o);
int cmd_control_capture(const struct options *o);
int cmd_wait_main(const struct options *o);
int cmd_replay_main(int argc, char **argv);
int cmd_record_main(int argc, char **argv);
int cmd_trace_main(const struct options *o);
int cmd_report_main(const struct options *o);
int cmd_flame_main(const struct options *o);
int cmd_diff_main(const struct options *o);
int cmd_doctor_main(const struct options *o);

/* Shared by the commands. Each prints to standard error why it failed. */

/* 0 or EXIT_USAGE */
int commands_aggregator(const struct options *o, struct client *c);
int commands_control(const struct options *o, struct client *c);
/* sysomd's status, owned by the caller; NULL: none, and why. The control socket is not everybody's: where
 * this user may not open it and nobody named one, the same is read at sysomd's default HTTP address. */
json_t *commands_node_status(const struct options *o, const struct client *control,
			     struct client_error *e);
/* Whether it can be an incident's id, or its first digits. */
bool commands_is_id(const char *text);
/* False, with a message, where HTML would get a name with another ending. path: NULL or "-" will do. */
bool commands_html_name(const char *what, const char *path);
/* The ranks of which the incident has windows: "0-7", or "none". */
const char *commands_window_ranks(const json_t *incident);
/* What a job does, as a whole: its kinds of steps. */
int commands_show_job(const struct options *o, const struct client *c, const char *job);
/* The incident with this id ("last": the newest that is no hiccup, of --job where given), owned by the
 * caller; or NULL. id: 1 to 32 hexadecimal digits. */
json_t *commands_incident(const struct options *o, const struct client *c, const char *id);
/* The aggregator's list `what` ("ranks", "incidents") with all its pages, until it has `most` entries; *out
 * is owned by the caller. path has its arguments. As client_json. */
int commands_list(const struct client *c, const char *path, const char *what, size_t most,
		  json_t **out, struct client_error *e);
/* Appends --job, where given, to a path that has arguments. */
void commands_add_job(const struct options *o, char *path, size_t room);
/* "sysom WHAT: WHY" with the peer's text made harmless. */
void commands_complain(const char *what, const struct client_error *e);
/* A state of a rank: a word or, from an older peer, a number. */
const char *commands_word(const json_t *o, const char *key);
/* "-": not known. */
const char *commands_ms(double ms);
/* For qsort of json_t *: by job and rank. */
int commands_by_rank(const void *a, const void *b);
/* Borrowed elements in this order, in an array to be freed; NULL without memory. */
json_t **commands_sorted_ranks(const json_t *ranks, size_t *count);
/* One JSON document and a newline. */
void commands_print_json(const json_t *j);
/* The same; takes it. */
void commands_print_new(json_t *j);

#endif

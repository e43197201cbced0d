/* SPDX-License-Identifier: Apache-2.0
 * commands.h - the commands of `sysom`; each returns its exit status (options.h). */
#pragma once

#include "cli/client/client.h"
#include "cli/options.h"

/* The program's arguments, which front.c passes to sysom-full. */
extern char **front_argv;
#define COMMANDS_FULL "sysom-full" /* the program with every library */

int cmd_run_main(const struct options *o);
int cmd_preload_main(const struct options *o);
int cmd_spans_main(const struct options *o);
int cmd_status_main(const struct options *o);
int cmd_top_main(const struct options *o);
int cmd_requests_main(const struct options *o);
int cmd_incidents_list(const struct options *o);
int cmd_incidents_show(const struct options *o);
int cmd_control_off(const struct options *o);
int cmd_control_on(const struct options *o);
int cmd_control_capture(const struct options *o);
int cmd_wait_main(const struct options *o);
int cmd_verdict_main(const struct options *o);
int cmd_replay_main(int argc, char **argv);
/* "replay timings" for "timings"; NULL: no such kind. */
const char *cmd_replay_kind(const char *word);
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
/* sysomd's status, owned by the caller; NULL: none, with the reason. If this user may not open the default
 * control socket, it is read at sysomd's default HTTP address. */
json_t *commands_node_status(const struct options *o, const struct client *control,
			     struct client_error *e);
/* The same for another path. */
json_t *commands_node_get(const struct options *o, const struct client *control, const char *path,
			  struct client_error *e);
/* Whether text can be an incident's id, or the start of one. */
bool commands_is_id(const char *text);
/* False, with a message, if path has an ending that is not HTML's. path: may be NULL or "-". */
bool commands_html_name(const char *what, const char *path);
/* The ranks that the incident has windows of: "0-7", or "none". */
const char *commands_window_ranks(const json_t *incident);
/* Sets an incident's "requests": violations that it counts, or whose slow step it covers. Empty if the
 * aggregator is older, or the job serves no requests. */
void commands_add_requests(const struct client *c, json_t *in);
int commands_show_job(const struct options *o, const struct client *c, const char *job);
/* The incident with this id ("last": the newest that is not a transient, of --job if given), owned by the
 * caller; or NULL. id: 1 to 32 hexadecimal digits. */
int commands_incident(const struct options *o, const struct client *c, const char *id,
		      json_t **out);
/* The aggregator's list `what` ("ranks", "incidents") with all its pages, until it has `most` entries; *out
 * is owned by the caller. state, job: of these only; NULL: of all. As client_json. */
int commands_list(const struct client *c, const char *what, const char *state, const char *job,
		  size_t most, json_t **out, struct client_error *e);
/* A suffix for "no incidents" and the like: " that you may see ..." if the aggregator hides other users'
 * jobs; else "". */
const char *commands_of_seen(const struct client *c);
/* "sysom WHAT: WHY" with the peer's text made harmless. */
int commands_complain(const char *what, const struct client_error *e);
/* A state of a rank: a word or, from an older peer, a number. */
const char *commands_word(const json_t *o, const char *key);
/* The number of a rank; "-": the process has none. */
const char *commands_rank(const json_t *r);
/* "-": not known. */
const char *commands_ms(double ms);
/* For qsort of json_t *: by job and rank. */
int commands_by_rank(const void *a, const void *b);
/* The caller frees the array; its elements are borrowed. NULL: out of memory. */
json_t **commands_sorted_ranks(const json_t *ranks, size_t *count);
/* One JSON document and a newline. */
void commands_print_json(const json_t *j);
/* The same; takes j. */
void commands_print_new(json_t *j);

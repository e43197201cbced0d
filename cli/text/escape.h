/* SPDX-License-Identifier: Apache-2.0
 * escape.h - text from peers and files, made harmless for the page or document it is put into. What is
 * no well-formed UTF-8, a control or a direction-changing character becomes "?". Threads: any, one
 * stream each. */
#ifndef SYSOM_CLI_TEXT_ESCAPE_H
#define SYSOM_CLI_TEXT_ESCAPE_H

#include <stdio.h>

/* As text of an element or within a quoted attribute. */
void escape_html(FILE *to, const char *text);
/* Between two pieces of markup, which are taken as they are. */
void escape_around(FILE *to, const char *before, const char *text, const char *after);
/* A table's cell of it. */
void escape_cell(FILE *to, const char *text);
/* A JSON string with its quotes, which also stands in a script element: no <, > or & in it. */
void escape_json(FILE *to, const char *text);
/* The same for a file of its own, where these stand as they are. */
void escape_json_file(FILE *to, const char *text);
/* A JSON string with its quotes, control characters by their numbers; what is no text is U+FFFD. */
void escape_json_exact(FILE *to, const char *text);
/* A page that is well-formed and escaped already, as an attribute's value (srcdoc). */
void escape_page(FILE *to, const char *page);

#endif

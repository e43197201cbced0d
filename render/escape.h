/* SPDX-License-Identifier: Apache-2.0
 * escape.h - makes text from peers and files harmless in a page or document. Invalid UTF-8, control
 * characters and direction changes become "?". Threads: any, one stream each. */
#pragma once

#include <stdio.h>

/* For an element's text or a quoted attribute. */
void escape_html(FILE *to, const char *text);
/* The text between two pieces of markup, which are not escaped. */
void escape_around(FILE *to, const char *before, const char *text, const char *after);
/* A table cell with the text. */
void escape_cell(FILE *to, const char *text);
/* A complete page, already escaped, as an attribute's value (srcdoc). */
void escape_page(FILE *to, const char *page);

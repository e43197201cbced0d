/* SPDX-License-Identifier: Apache-2.0 */
#include "render/escape.h"

#include "render/term.h"

void escape_html(FILE *to, const char *text)
{
	while (*text) {
		bool ok;
		unsigned n = term_next_char(text, &ok);

		if (!ok)
			fputc('?', to);
		else if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '>')
			fputs("&gt;", to);
		else if (*text == '&')
			fputs("&amp;", to);
		else if (*text == '"')
			fputs("&quot;", to);
		else if (*text == '\'')
			fputs("&#39;", to);
		else
			fwrite(text, 1, n, to);
		text += n;
	}
}

void escape_around(FILE *to, const char *before, const char *text, const char *after)
{
	fputs(before, to);
	escape_html(to, text);
	fputs(after, to);
}

void escape_cell(FILE *to, const char *text)
{
	escape_around(to, "<td>", text, "</td>");
}

void escape_page(FILE *to, const char *page)
{
	for (; *page; page++) {
		if (*page == '&')
			fputs("&amp;", to);
		else if (*page == '"')
			fputs("&quot;", to);
		else
			fputc(*page, to);
	}
}

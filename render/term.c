/* SPDX-License-Identifier: Apache-2.0 */
#include "render/term.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/text/utf8.h"
#include "model/rank_name.h"

static bool colour, live, utf8;
static unsigned paged_columns;

static char *next_text(void)
{
	static _Thread_local char texts[TERM_TEXTS][TERM_TEXT_BYTES];
	static _Thread_local unsigned turn;

	turn = (turn + 1) % TERM_TEXTS;
	texts[turn][0] = '\0';
	return texts[turn];
}

void term_init(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	setlocale(LC_CTYPE, "");
	utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	live = isatty(STDOUT_FILENO);
	colour = live && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

bool term_is_live(void)
{
	return live;
}

static unsigned columns_of(int fd)
{
	struct winsize w;

	return ioctl(fd, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

void term_set_paged(unsigned columns)
{
	paged_columns = columns;
}

unsigned term_columns(void)
{
	unsigned n = paged_columns ? paged_columns : columns_of(STDOUT_FILENO);

	return n >= 40 ? n : 160;
}

bool term_error_is_live(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

unsigned term_error_columns(void)
{
	unsigned n = columns_of(STDERR_FILENO);

	return n >= 20 ? n : 80;
}

const char *term_style(enum term_style s)
{
	static const char *const codes[] = {"\033[0m",	"\033[1m",  "\033[2m", "\033[31m",
					    "\033[32m", "\033[33m", "\033[36m"};

	return colour ? codes[s] : "";
}

unsigned term_next_char(const char *text, bool *ok)
{
	uint32_t c = 0;
	unsigned n = utf8_next(text, UTF8_BYTES, &c);

	*ok = n && utf8_is_harmless(c);
	return n ? n : 1;
}

/* Copies up to `columns` harmless characters; returns the rest of the text. */
static const char *copy_safe(char **out, char *end, const char *text, unsigned columns)
{
	while (*text && columns-- > 0) {
		bool ok;
		unsigned n = term_next_char(text, &ok);

		if (*out + 5 > end)
			break;
		ok = ok && (n == 1 || utf8);
		if (ok)
			memcpy(*out, text, n);
		else
			**out = '?';
		*out += ok ? n : 1;
		text += n;
	}
	return text;
}

static size_t count_chars(const char *text)
{
	size_t chars = 0;
	uint32_t c;

	while (*text) {
		unsigned n = utf8_next(text, UTF8_BYTES, &c);

		text += n ? n : 1;
		chars++;
	}
	return chars;
}

static const char *skip_chars(const char *text, size_t chars)
{
	uint32_t c;

	while (*text && chars--) {
		unsigned n = utf8_next(text, UTF8_BYTES, &c);

		text += n ? n : 1;
	}
	return text;
}

const char *term_safe(const char *text, unsigned max_columns)
{
	char *out = next_text(), *p = out, *end = out + TERM_TEXT_BYTES;
	size_t chars;

	if (!text)
		return out;
	if (max_columns > TERM_COLUMNS_MAX)
		max_columns = TERM_COLUMNS_MAX;
	chars = count_chars(text);
	if (chars <= max_columns || max_columns < 8) {
		copy_safe(&p, end, text, max_columns);
	} else {
		unsigned head = (max_columns - 3) * 2 / 3, tail = max_columns - 3 - head;

		copy_safe(&p, end, text, head);
		p = mempcpy(p, "...", 3);
		copy_safe(&p, end, skip_chars(text, chars - tail), tail);
	}
	*p = '\0';
	return out;
}

static const char *digits(double v, const char *unit)
{
	char *out = next_text();
	double a = fabs(v);

	snprintf(out, TERM_TEXT_BYTES, "%.*f %s", a >= 100 ? 0 : a >= 10 ? 1 : 2, v, unit);
	return out;
}

const char *term_ms(double ms)
{
	double a = fabs(ms);

	if (!isfinite(ms))
		return "?";
	if (a == 0)
		return "0 ms";
	if (a >= 1000)
		return digits(ms / 1000, "s");
	if (a >= 1)
		return digits(ms, "ms");
	return digits(ms * 1000, "us");
}

const char *term_ms_cell(double ms)
{
	return !isfinite(ms) ? "?" : fabs(ms) < 0.005 ? "0 ms" : digits(ms, "ms");
}

const char *term_bytes(double bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
	unsigned u = 0;

	if (!isfinite(bytes) || bytes < 0)
		return "?";
	while (bytes >= 1000 && u < 5) {
		bytes /= 1000;
		u++;
	}
	if (!u) {
		char *out = next_text();

		snprintf(out, TERM_TEXT_BYTES, "%.0f B", bytes);
		return out;
	}
	return digits(bytes, units[u]);
}

/* Never "-0%". */
const char *term_share(double part, double whole)
{
	char *out = next_text();

	*out = '\0';
	if (whole > 0)
		snprintf(out, TERM_TEXT_BYTES, "%.0f%%", round(100 * part / whole) + 0.0);
	return out;
}

const char *term_sent(double bytes, double event_bytes)
{
	char *out = next_text();

	if (event_bytes <= 0)
		snprintf(out, TERM_TEXT_BYTES, "%s, no events", term_bytes(bytes));
	else if (bytes <= event_bytes)
		snprintf(out, TERM_TEXT_BYTES, "%s, %s of %s of events", term_bytes(bytes),
			 term_percent(bytes / event_bytes), term_bytes(event_bytes));
	else
		snprintf(out, TERM_TEXT_BYTES, "%s, more than %s of events", term_bytes(bytes),
			 term_bytes(event_bytes));
	return out;
}

const char *term_percent(double share)
{
	char *out = next_text();
	double p = share * 100;

	if (!isfinite(p))
		return "?";
	snprintf(out, TERM_TEXT_BYTES, "%.*f%%",
		 p == 0 || p >= 10 ? 0
		 : p >= 1	   ? 1
		 : p >= 0.1	   ? 2
				   : 3,
		 p);
	return out;
}

const char *term_excess(double excess)
{
	char *out = next_text();

	if (!isfinite(excess))
		return "?";
	if (excess >= 9)
		snprintf(out, TERM_TEXT_BYTES, "x%.0f", excess + 1);
	else if (fabs(excess) < 0.005)
		return "0%"; /* not "-0%" */
	else
		snprintf(out, TERM_TEXT_BYTES, "%+.0f%%", excess * 100);
	return out;
}

const char *term_counted(double n, const char *one, const char *many)
{
	char *out = next_text();

	snprintf(out, TERM_TEXT_BYTES, "%s %s", term_count(n), n == 1 ? one : many);
	return out;
}

const char *term_ranks(double ranks, double others)
{
	char *out = next_text();

	if (!(others > 0))
		return term_counted(ranks, "rank", "ranks");
	if (!(ranks > 0))
		snprintf(out, TERM_TEXT_BYTES, "%s without a rank",
			 term_counted(others, "process", "processes"));
	else
		snprintf(out, TERM_TEXT_BYTES, "%s and %s", term_counted(ranks, "rank", "ranks"),
			 term_counted(others, "other process", "other processes"));
	return out;
}

const char *term_rank(long long rank)
{
	char *out = next_text();
	struct rank_name name;

	snprintf(out, TERM_TEXT_BYTES, "%s", rank_name(rank, &name));
	return out;
}

const char *term_rank_cell(long long rank)
{
	char *out = next_text();

	snprintf(out, TERM_TEXT_BYTES, "%lld", rank);
	return rank < 0 ? "-" : out;
}

const char *term_count(double n)
{
	char plain[64], *out = next_text(), *p = out;
	size_t len;

	if (!isfinite(n) || n < 0 || n > 1e18)
		return "?";
	len = (size_t)snprintf(plain, sizeof(plain), "%.0f", n);
	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*p++ = ',';
		*p++ = plain[i];
	}
	*p = '\0';
	return out;
}

const char *term_span(double seconds)
{
	char *out = next_text();

	if (!isfinite(seconds) || seconds < 0)
		return "?";
	if (seconds > 0 && seconds < 0.1)
		return term_ms(seconds * 1e3);
	if (seconds < 60)
		snprintf(out, TERM_TEXT_BYTES, "%.1f s", seconds);
	else if (seconds < 3600)
		snprintf(out, TERM_TEXT_BYTES, "%.0f min %.0f s", floor(seconds / 60),
			 fmod(seconds, 60));
	else
		snprintf(out, TERM_TEXT_BYTES, "%.0f h %.0f min", floor(seconds / 3600),
			 fmod(seconds, 3600) / 60);
	return out;
}

const char *term_time(uint64_t unix_ns)
{
	time_t t = (time_t)(unix_ns / 1000000000u);
	char *out = next_text();
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(out, TERM_TEXT_BYTES, "%Y-%m-%d %H:%M:%S UTC", &tm))
		return "?";
	return out;
}

const char *term_bar(double fraction, unsigned width)
{
	static const char *const eighths[] = {"",	"\u258f", "\u258e", "\u258d",
					      "\u258c", "\u258b", "\u258a", "\u2589"};
	char *out = next_text(), *p = out;
	unsigned cells, full;

	if (!(fraction > 0))
		fraction = 0;
	if (fraction > 1)
		fraction = 1;
	if (width > 100)
		width = 100;
	cells = (unsigned)lround(fraction * width * 8);
	full = utf8 ? cells / 8 : (cells + 4) / 8;
	for (unsigned i = 0; i < full; i++)
		p = stpcpy(p, utf8 ? "\u2588" : "#");
	if (utf8 && cells % 8) {
		p = stpcpy(p, eighths[cells % 8]);
		full++;
	}
	while (full++ < width)
		*p++ = ' ';
	*p = '\0';
	return out;
}

void term_wrap(FILE *to, unsigned indent, const char *label, const char *text, unsigned columns)
{
	unsigned room = columns > indent + 20 ? columns - indent : 20, at = 0;
	const char *p = term_safe(text, TERM_COLUMNS_MAX);

	fprintf(to, "  %-*s", (int)indent - 2, label);
	while (*p) {
		const char *end = p;
		unsigned width = 0;

		while (*end && *end != ' ') {
			bool ok;

			end += term_next_char(end, &ok);
			width++;
		}
		if (at && at + 1 + width > room) {
			fprintf(to, "\n%*s", (int)indent, "");
			at = 0;
		}
		if (at) {
			fputc(' ', to);
			at++;
		}
		fwrite(p, 1, (size_t)(end - p), to);
		at += width;
		for (p = end; *p == ' ';)
			p++;
	}
	fputc('\n', to);
}

const char *term_level(double fraction)
{
	static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
					     "\u2585", "\u2586", "\u2587", "\u2588"};
	static const char *const plain[] = {".", ":", "-", "=", "+", "*", "%", "#"};
	int at = fraction > 0 ? (int)lround(fraction * 7) : 0;

	at = at > 7 ? 7 : at;
	return utf8 ? blocks[at] : plain[at];
}

const char *term_ranges(const int *values, size_t count)
{
	char *out = next_text(), *p = out, *end = out + TERM_TEXT_BYTES;

	for (size_t i = 0; i < count;) {
		size_t j = i;

		while (j + 1 < count && values[j + 1] == values[j] + 1)
			j++;
		if (end - p < 40) {
			strcpy(p, ", ...");
			return out;
		}
		p += snprintf(p, (size_t)(end - p), "%s%d", i ? ", " : "", values[i]);
		if (j > i)
			p += snprintf(p, (size_t)(end - p), "%s%d", j == i + 1 ? ", " : "-",
				      values[j]);
		i = j + 1;
	}
	return out;
}

/* SPDX-License-Identifier: Apache-2.0
 * The file is the user's own, like the environment that names it. A bad file costs its spans,
 * nothing else. */
#include "preload/python/span_table.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_FIELDS 5

static const char table_builtin[] =
#include "preload/python/spans_builtin.inc"
    ;

static const char *const table_values[SPAN_VALUE_COUNT] = {
#define X(name) name,
    SPAN_WORKS(X)
#undef X
	"request",
    "decode",
    "requests",
    "requests.id",
    "requests.tokens",
    "requests.done",
};
#define X(name) +1
enum { TABLE_PROCESSES = 0 SPAN_PROCESSES(X), TABLE_THREADS = 0 SPAN_THREADS(X) };
#undef X

enum table_state { TABLE_UNKNOWN, TABLE_READING, TABLE_READ, TABLE_NONE };
static uint32_t table_state; /* enum table_state */
static struct span_table table;
static char table_text[LIMIT_SPAN_TABLE_BYTES + 1];

/* Parses a number from 0 to end - 1; -1: it is not one. */
static int table_number(const char *text, int end)
{
	int value = *text >= '0' && *text <= '9' && !text[1] ? *text - '0' : -1;

	return value < end ? value : -1;
}

static bool table_span(struct span_table *t, char **f, unsigned count, bool on_import)
{
	struct span_row *r = &t->rows[t->row_count];
	int process = count == 5 ? table_number(f[2], TABLE_PROCESSES) : -1;
	int thread = count == 5 ? table_number(f[3], TABLE_THREADS) : -1;
	int step = count == 5 ? table_number(f[4], 2) : -1;

	if (t->row_count == LIMIT_SPAN_COUNT || process < 0 || thread < 0 || step < 0 || !*f[1])
		return false;
	*r = (struct span_row){.name = f[1],
			       .process = (uint8_t)process,
			       .thread = (uint8_t)thread,
			       .step = step,
			       .on_import = on_import};
	t->row_count++;
	return true;
}

static bool table_function(struct span_table *t, char **f, unsigned count)
{
	if (count != 3 || !t->row_count || t->function_count == LIMIT_SPAN_FUNCTIONS || !*f[1] ||
	    !*f[2])
		return false;
	t->functions[t->function_count++] = (struct span_function){
	    .module = f[1], .name = f[2], .row = (uint16_t)(t->row_count - 1)};
	return true;
}

static bool table_nvtx(struct span_table *t, char **f, unsigned count)
{
	if (count != 2 || !t->row_count || t->nvtx_count == LIMIT_SPAN_NVTX || !*f[1])
		return false;
	t->nvtx[t->nvtx_count++] =
	    (struct span_nvtx){.pattern = f[1], .row = (uint16_t)(t->row_count - 1)};
	return true;
}

static bool table_value(struct span_table *t, char **f, unsigned count)
{
	for (unsigned i = 0; i < SPAN_VALUE_COUNT; i++)
		if (!strcmp(f[0], table_values[i]) && count == 2 && t->row_count && *f[1]) {
			t->rows[t->row_count - 1].value[i] = f[1];
			return true;
		}
	return false;
}

/* One line without its end. */
static bool table_line(struct span_table *t, char *line, bool *on_import)
{
	char *f[TABLE_FIELDS];
	unsigned count = 0;

	for (char *at = line; at && count < TABLE_FIELDS; count++) {
		f[count] = at;
		at = strchr(at, '\t');
		if (at)
			*at++ = 0;
		if (strlen(f[count]) > LIMIT_SPAN_TEXT_BYTES || (at && count + 1 == TABLE_FIELDS))
			return false;
	}
	if (!strcmp(f[0], "framework")) {
		int start = count == 3 ? table_number(f[2], 2) : -1;

		*on_import = start == 1;
		return start >= 0;
	}
	if (!strcmp(f[0], "span"))
		return table_span(t, f, count, *on_import);
	if (!strcmp(f[0], "function"))
		return table_function(t, f, count);
	if (!strcmp(f[0], "nvtx"))
		return table_nvtx(t, f, count);
	return table_value(t, f, count);
}

uint32_t span_table_parse(struct span_table *t, char *text, size_t bytes)
{
	bool on_import = false, good = true;
	uint32_t n = 0;
	char *at = text, *end = text + bytes;

	t->row_count = t->function_count = t->nvtx_count = t->bad_line = 0;
	while (good && at < end) {
		char *next = memchr(at, '\n', (size_t)(end - at));

		n++;
		good = next && !memchr(at, 0, (size_t)(next - at));
		if (!good)
			break;
		*next = 0;
		good = n == 1 ? !strcmp(at, SPAN_TABLE_HEAD) : table_line(t, at, &on_import);
		at = next + 1;
	}
	if (good && n)
		return 0;
	t->row_count = t->function_count = t->nvtx_count = 0;
	t->bad_line = n ? n : 1;
	return t->bad_line;
}

/* Reads the file. Returns the number of bytes, or -1. Never waits: a FIFO or a device is
 * refused. */
static ptrdiff_t table_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ptrdiff_t n = -1;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= (off_t)LIMIT_SPAN_TABLE_BYTES)
		n = read(fd, table_text, LIMIT_SPAN_TABLE_BYTES);
	close(fd);
	return n;
}

static bool table_read(void)
{
	const char *path = getenv("SYSOM_SPANS");
	ptrdiff_t n = sizeof(table_builtin) - 1;

	_Static_assert(sizeof(table_builtin) <= sizeof(table_text), "catalogues");
	if (path && !strcmp(path, "off"))
		return false;
	if (path && *path)
		n = table_file(path);
	else
		memcpy(table_text, table_builtin, sizeof(table_builtin));
	if (n < 0) {
		table.bad_line = 1;
		return false;
	}
	return !span_table_parse(&table, table_text, (size_t)n);
}

uint32_t span_table_bad_line(void)
{
	return __atomic_load_n(&table_state, __ATOMIC_ACQUIRE) == TABLE_NONE ? table.bad_line : 0;
}

const struct span_table *span_table_load(void)
{
	uint32_t unknown = TABLE_UNKNOWN, state = __atomic_load_n(&table_state, __ATOMIC_ACQUIRE);

	if (state == TABLE_UNKNOWN &&
	    __atomic_compare_exchange_n(&table_state, &unknown, TABLE_READING, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		state = table_read() ? TABLE_READ : TABLE_NONE;
		/* release; pairs with the acquire above: the table is complete */
		__atomic_store_n(&table_state, state, __ATOMIC_RELEASE);
	}
	return state == TABLE_READ ? &table : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/ledger/frame_class.h"

#include <string.h>

#include "base/check.h"

const char *frame_class_library(const struct stack_batch *b, const struct stack_frame *f)
{
	const char *path = f->kind == STACK_FRAME_NATIVE && f->object < b->object_count
			       ? stack_batch_text(b, b->objects[f->object].path)
			       : "";

	return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

bool frame_class_is_runtime(const struct stack_batch *b, const struct stack_frame *f)
{
	static const char *const names[] = {"libc.",	"libc-",     "libpthread",
					    "ld-linux", "libstdc++", "libgcc_s"};
	const char *base = frame_class_library(b, f);

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Python's standard library: threading, queue, concurrent.futures, ... */
static bool is_stdlib(const struct stack_batch *b, const struct stack_frame *f)
{
	const char *file = stack_batch_text(b, f->file);

	return !strncmp(file, "<frozen ", 8) ||
	       (strstr(file, "/lib/python3.") && !strstr(file, "-packages/"));
}

int frame_class_informative(const struct stack_batch *b, const struct stack_frame *f)
{
	if (stack_frame_is_nameless(b, f))
		return 0;
	if (f->kind == STACK_FRAME_PYTHON)
		return is_stdlib(b, f) ? 2 : FRAME_CLASS_MOST;
	return frame_class_is_runtime(b, f) ? 0 : 1;
}

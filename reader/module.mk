# SPDX-License-Identifier: Apache-2.0
# Reads and parses what belongs to other processes, in processes of its own.
LIBS += reader
reader_SRCS := reader/reader.c reader/reader_opener.c reader/reader_sandbox.c reader/reader_queue.c

UNIT += test_reader
test_reader_USES := reader base
test_reader_LDLIBS := -lcmocka

# SPDX-License-Identifier: Apache-2.0
# Reads and parses what belongs to other processes, in processes of its own.
LIBS += reader
reader_SRCS := reader/reader.c reader/reader_opener.c reader/reader_sandbox.c reader/reader_queue.c
reader_NEEDS := base

$(call unit,reader,test_reader)

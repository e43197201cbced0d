# SPDX-License-Identifier: Apache-2.0
# Names for (Build ID, address).
LIBS += symbol
symbol_SRCS := symbol/symbol_elf.c symbol/symbol_content.c symbol/symbol_index.c symbol/symbol_source.c \
	symbol/symbol_resolver.c symbol/symbol_mini.c symbol/symbol_reader.c symbol/symbol_shelf.c symbol/symbol_store.c
symbol_LDLIBS := -lnettle -ldebuginfod -liberty -llzma -lz

UNIT += test_symbol
test_symbol_USES := symbol base
test_symbol_LDLIBS := -lcmocka

FUZZ += fuzz_symbol
fuzz_symbol_USES := symbol base

UNIT += test_symbol_store
test_symbol_store_USES := symbol base
test_symbol_store_LDLIBS := -lcmocka

FUZZ += fuzz_symbol_upload
fuzz_symbol_upload_USES := symbol base

BENCH += bench_symbols
bench_symbols_USES := symbol base

# SPDX-License-Identifier: Apache-2.0
# Names for (Build ID, address).
LIBS += symbol
symbol_SRCS := symbol/symbol_elf.c symbol/symbol_content.c symbol/symbol_index.c symbol/symbol_source.c \
	symbol/symbol_resolver.c symbol/symbol_mini.c symbol/symbol_reader.c symbol/symbol_files.c symbol/symbol_store.c
symbol_NEEDS := reader
symbol_LDLIBS := -lnettle -ldebuginfod -llzma -lz

$(call unit,symbol,test_symbol test_symbol_store)
$(call fuzz,symbol,fuzz_symbol fuzz_symbol_upload)
$(call bench,symbol,bench_symbols)

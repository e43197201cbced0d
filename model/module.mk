# SPDX-License-Identifier: Apache-2.0
# The nouns that cross rooms.
LIBS += model
model_SRCS := $(call in,model,durations finding kernel_name os_signal record request span_catalogue stack thresholds window)
model_NEEDS := base

$(call unit,model,test_stack test_os_signal test_span_catalogue test_durations test_kernel_name)
# and the reader of what they become
test_span_catalogue_SRCS := tests/unit/test_span_catalogue.c preload/python/span_table.c preload/span_pattern.c

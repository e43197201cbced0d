# SPDX-License-Identifier: Apache-2.0
# The nouns that cross rooms.
LIBS += model
model_SRCS := $(call in,model,finding os_signal record stack thresholds window)
model_NEEDS := base

$(call unit,model,test_stack test_os_signal)

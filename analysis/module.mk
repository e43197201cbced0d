# SPDX-License-Identifier: Apache-2.0
LIBS += analysis
analysis_SRCS := analysis/record.c analysis/stack.c analysis/os_signal.c \
	analysis/finding.c analysis/diagnosis.c analysis/diagnosis_gpu.c analysis/diagnosis_host.c \
	analysis/diagnosis_os.c analysis/diagnosis_software.c analysis/diagnosis_names.c analysis/diagnosis_text.c \
	analysis/profile.c analysis/ledger.c analysis/diagnosis_ledger.c
# rows of independent parts; each names its own sources and tests
include analysis/robust.mk analysis/steps.mk analysis/roofline.mk analysis/peers.mk analysis/crossrank.mk

UNIT += test_stack
test_stack_USES := analysis base
test_stack_LDLIBS := -lcmocka
UNIT += test_os_signal
test_os_signal_USES := analysis
test_os_signal_LDLIBS := -lcmocka
UNIT += test_profile_delta
test_profile_delta_USES := analysis base
test_profile_delta_LDLIBS := -lcmocka
UNIT += test_diagnosis
test_diagnosis_USES := analysis base
test_diagnosis_LDLIBS := -lcmocka
UNIT += test_ledger
test_ledger_USES := analysis base
test_ledger_LDLIBS := -lcmocka
UNIT += test_diagnosis_properties
test_diagnosis_properties_USES := analysis base
test_diagnosis_properties_LDLIBS := -lcmocka -lm
UNIT += test_diagnosis_ledger
test_diagnosis_ledger_USES := analysis base
test_diagnosis_ledger_LDLIBS := -lcmocka -lm

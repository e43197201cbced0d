# SPDX-License-Identifier: Apache-2.0
# User side of the CPU sampler: tables, mappings, Python names, drained batches.
LIBS += sampler
# rows of independent parts; each names its own sources and tests
include sampler/unwind.mk sampler/python.mk sampler/sampler.mk

# SPDX-License-Identifier: Apache-2.0
# User side of the CPU sampler: tables, mappings, Python names, drained batches.

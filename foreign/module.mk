# SPDX-License-Identifier: Apache-2.0
# headers only; the conformance tests live in tests/

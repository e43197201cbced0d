#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tree as tools/tidy.py and .clang-format want it. Other versions of clang-format differ in details.
set -u
B=${B:?}
cd "$(dirname "$0")/../.." || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || { echo "1..0 # SKIP no git repository"; exit 77; }
problems=$(tools/tidy.py "$B" 2>&1) && echo "ok 1 - tidy has no complaint" || { echo "not ok 1 - tidy"; sed 's/^/# /' <<<"$problems"; failed=1; }
if clang-format --version 2>/dev/null | grep -q "version 14\."; then
	problems=$(git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run 2>&1 | grep warning | head -20)
	[ -z "$problems" ] && echo "ok 2 - every C file is formatted" || { echo "not ok 2 - make format"; sed 's/^/# /' <<<"$problems"; failed=1; }
else
	echo "ok 2 # SKIP no clang-format 14"
fi
echo 1..2
exit ${failed:-0}

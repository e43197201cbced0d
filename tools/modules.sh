#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs npm's packages that the tests of deploy/ need, at the versions of package-lock.json, where
# they are missing. DEPS=no: doesn't; those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/../tests/kubernetes"
cmp -s package-lock.json node_modules/.of && exit
if [ "${DEPS:-}" = no ]; then
	echo "modules: not installed, as DEPS=no says (their tests are skipped): npm's packages of tests/kubernetes" >&2
	exit
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! npm ci --ignore-scripts --no-audit --no-fund >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "modules: npm failed; go on without its packages: DEPS=no" >&2
	exit 1
fi
cp package-lock.json node_modules/.of

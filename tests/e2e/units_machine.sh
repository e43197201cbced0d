#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# units_machine.sh - the machine of units_demo.sh, made here so that the part that has to be quiet is short.
. "$(dirname "$0")/lib.sh"
. tests/e2e/machine.sh
for need in "${MACHINE_NEEDS[@]}"; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "a machine with the units" "needs $need"; finish; exit; }
done
ok "the packages are built" packages
ok "they install on a bare Debian, with what the demo needs besides" units_machine
finish

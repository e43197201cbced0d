#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# units_demo.sh - the demo, with a fault that its seed chooses, under the units of the packages: systemd boots a bare
# Debian, and both daemons have the settings that the packages bring.
# quiet: whoever takes the CPUs from a rank of the demo makes it slow as well
. "$(dirname "$0")/lib.sh"
. tests/e2e/machine.sh
for need in "${MACHINE_NEEDS[@]}"; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "the demo under the units" "needs $need"; finish; exit; }
done
cat >"$WORK/trial" <<'EOS'
systemctl enable --now sysom-aggregator
systemctl enable --now sysomd
cd /site
BIN=/usr/bin UNITS=1 SIM=1 tools/demo.sh >/demo.log 2>&1
echo "demo $?"
echo "restarts $(systemctl show -P NRestarts sysomd sysom-aggregator | xargs)"
EOS
ok "the packages are built" packages
ok "a machine with the units" units_machine
cp -a "$SHARED/units/root" "$ROOT"
boot "$WORK/trial"
ok "the demo finds its fault" said "demo 0"
grep -s '^demo: \(seed\|the job had\|rank\)' "$ROOT/demo.log" | sed 's/^/# /'
ok "neither daemon was restarted" said "restarts 0 0"
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the demo with RUNS (20) seeds from FIRST (1) on and prints the tally. SECONDS_LONG as in the demo.
cd "$(dirname "$0")/.." || exit 1
good=0
runs=${RUNS:-20}
for seed in $(seq "${FIRST:-1}" $((${FIRST:-1} + runs - 1))); do
	if line=$(SEED=$seed QUIET=1 SIM=1 tools/demo.sh 2>&1); then
		good=$((good + 1))
	fi
	echo "seed $seed: ${line##*$'\n'}"
done
echo "bench-demo: $good of $runs seeds: the right rank and no other"
[ $good = "$runs" ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "$0")/lib.sh"
. tests/e2e/flow.sh
RANKS=4 CULPRIT=2 STEPS_MIN=150
JOB=("$BIN/sysom" run --job flow-mix -- "$BIN/simjob" --ranks 4 --seconds 30 --seed 11
	--fault "slow:rank=2:start=15s:steps=40:size=1.5")
flow

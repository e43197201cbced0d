#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# alone: eight ranks launch as fast as two cores can
. "$(dirname "$0")/lib.sh"
. tests/e2e/flow.sh
if [ ! -d "$DATA/dlrm-8rank-v100" ]; then
	skip "the flow on the 8-rank DLRM step" "needs data: $DATA/dlrm-8rank-v100"
	finish
fi
# At a third of the pace of the eight V100s that it was recorded on: two cores can't launch for all of
# them at theirs without holding ranks up, which is found as well, and rightly.
RANKS=8 CULPRIT=5 STEPS_MIN=150
JOB=("$BIN/sysom" run --job flow-dlrm -- "$BIN/simjob" --ranks 8 --seconds 40 --seed 12 --stretch 3
	--trace "$DATA"/dlrm-8rank-v100/rank*.events.csv.gz
	--fault "gaps:rank=5:start=20s:steps=60:size=1.6")
flow

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# imbalance.sh - ranks of one role whose inputs differ in length take turns being the slow one: that is reported
# of the role, with its figure, and no rank is accused; the truth is in the job's own log.
. "$(dirname "$0")/lib.sh"
STACK_SYSOMD_FLAGS="--sampler-mode off --beat-period 1s" stack_start "$WORK/stack" ||
	{ ok "daemons start" false; finish; }
"$BIN/sysom" run --job skewed -- "$BIN/simjob" --ranks 4 --seconds 120 --skew 0.25 --truth "$WORK/truth.jsonl" \
	>"$WORK/job.log" 2>&1 &
job=$!
imbalance() { api "incidents?job=skewed" '[.incidents[] | select(.symptom == "imbalance")][0] | '"$1"; }
reported() { [ "$(imbalance .diagnosis.cause)" = imbalance-input ]; }
steps() { [ "$(jq -s '[.[].step // 0] | max' "$WORK/truth.jsonl")" -ge "$1" ]; }
accused() { api "incidents?job=skewed" '[.incidents[] | select(.findings // [] | any(.kind == "slow_rank"))] | length'; }

ok "the job steps" stack_wait 60 steps 50
ok "the imbalance is reported" stack_wait 60 reported
ok "it accuses no rank" is "$(imbalance '.ranks | length')" 0
id=$(imbalance .id)
api "incidents/$id" ".diagnosis.evidence[].text" >"$WORK/evidence"
sed "s/^/# /" "$WORK/evidence"
# Three ranks of four are enough to find it.
ok "its figure stands in it" grep -qE "heaviest of [34] ranks takes [0-9.]+% more" "$WORK/evidence"
now=$(jq -s '[.[].step // 0] | max' "$WORK/truth.jsonl")
ok "the job goes on" stack_wait 60 steps $((now + 60))
ok "comparing ranks has accused none" is "$(accused)" 0
ok "neither has the node" is "$(node_api status '[.. | .peer_slow? // empty | select(. == true)] | length')" 0
kill $job 2>/dev/null
wait $job 2>/dev/null
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job that marks its own steps through the API it found by dlsym.
. "$(dirname "$0")/lib.sh"
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job explicit -- "$BIN/simjob" --ranks 2 --steps 90 --seconds 0 --seed 4 \
	--explicit-steps sysom_step_begin,sysom_step_end --truth "$WORK/truth.jsonl" >"$WORK/job.log" 2>&1 &
job=$!
while kill -0 $job 2>/dev/null; do
	node_api status >"$WORK/now.json"
	jq -e '[.ranks[] | select(.state == "attached")] | length == 2' "$WORK/now.json" >/dev/null 2>&1 &&
		cp "$WORK/now.json" "$WORK/status.json"
	sleep 0.2
done
wait $job
ok "the job ends with 0" is $? 0
# at the last look a few steps had not ended yet
ok "as many steps are found as were marked" \
	jq -e '[.ranks[].steps] | min >= 75 and max <= 90' "$WORK/status.json"
median_truth=$(jq -s '[.[] | select(.step != null and .step > 5) | .end_ns - .begin_ns] | sort | .[length / 2 | floor] / 1e6' "$WORK/truth.jsonl")
ok "and they are as long as the job says ($median_truth ms)" \
	jq -e --argjson t "$median_truth" '[.ranks[].step_ms] | all(. > 0.95 * $t and . < 1.05 * $t)' "$WORK/status.json"

# A Python job without a GPU, through ctypes: its slow steps are its own.
cat >"$WORK/job.py" <<'PY'
import ctypes, time
lib = ctypes.CDLL(None)
for step in range(170):
    lib.sysom_step_begin(None, 0)
    time.sleep(0.04 if 130 <= step < 150 else 0.02)
    lib.sysom_step_end()
PY
RANK=3 WORLD_SIZE=8 "$BIN/sysom" run --job python -- /usr/bin/python3 "$WORK/job.py" >"$WORK/python.log" 2>&1
ok "a Python job marks its steps through ctypes" is $? 0
blamed() { [ "$(api "incidents?job=python" '[.incidents[] | select(.symptom != "hiccup") | .ranks[]] | unique | join(",")')" = 3 ]; }
ok "and its slow steps blame its own rank" stack_wait 10 blamed
finish

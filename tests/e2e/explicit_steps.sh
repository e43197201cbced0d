#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job that marks its own steps through the API it found by dlsym.
. "$(dirname "$0")/lib.sh"
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job explicit -- "$BIN/simjob" --ranks 2 --seconds 3600 --seed 4 \
	--explicit-steps sysom_step_begin,sysom_step_end --truth "$WORK/truth.jsonl" >"$WORK/job.log" 2>&1 &
job=$!
truth() { # rank filter: of its steps by the job's own log
	jq -s "[.[] | select(.step != null and .rank == $1)] | $2" "$WORK/truth.jsonl"
}
both_stepped() { [ "$(truth 0 length)" -ge 80 ] && [ "$(truth 1 length)" -ge 80 ]; }
ok "the job steps" stack_wait 30 both_stepped
# It stands still: what it marked and what sysomd found must come out the same, but for the step under way.
for pid in $(children $job); do kill -STOP "$pid"; done
found() { # rank
	node_api status ".ranks[] | select(.rank == $1) | .steps"
}
as_many() { # the clock of a step's own may end it a step later
	local rank
	for rank in 0 1; do
		[ $(($(found $rank) - $(truth $rank length))) -ge -1 ] && [ $(($(found $rank) - $(truth $rank length))) -le 1 ] || return 1
	done
}
ok "as many steps are found as were marked" stack_wait 5 as_many
echo "# found $(found 0) and $(found 1), marked $(truth 0 length) and $(truth 1 length)"
as_long() { # rank: the median of its latest 128 steps (RANK_PERIOD)
	node_api status ".ranks[] | select(.rank == $1) | .step_ms" >"$WORK/step_ms"
	truth "$1" '.[-128:] | map(.end_ns - .begin_ns) | sort | .[length / 2 | floor] / 1e6' >"$WORK/truth_ms"
	echo "# rank $1: $(cat "$WORK/step_ms") ms, $(cat "$WORK/truth_ms") ms by its own log"
	jq -ne --slurpfile a "$WORK/step_ms" --slurpfile b "$WORK/truth_ms" '$a[0] / $b[0] | . > 0.95 and . < 1.05'
}
ok "and they are as long as the job says: rank 0" as_long 0
ok "and rank 1" as_long 1
for pid in $(children $job); do kill -CONT "$pid"; done
end_job $job
ok "the job ends with 0" is $? 0

# A Python job without a GPU, through ctypes: its slow steps are its own.
cat >"$WORK/job.py" <<'PY'
import ctypes, os, sys, time
lib = ctypes.CDLL(None)
step = 0
while not os.path.exists(sys.argv[1]):
    lib.sysom_step_begin(None, 0)
    time.sleep(0.02 if step < 130 else 0.06)
    lib.sysom_step_end()
    step += 1
PY
RANK=3 WORLD_SIZE=8 "$BIN/sysom" run --job python -- /usr/bin/python3 "$WORK/job.py" "$WORK/end" >"$WORK/python.log" 2>&1 &
job=$!
blamed() { [ "$(api "incidents?job=python" '[.incidents[] | select(.symptom != "transient") | .ranks[]] | unique | join(",")')" = 3 ]; }
ok "a Python job marks its steps through ctypes, and slow ones blame its own rank" stack_wait 20 blamed
touch "$WORK/end"
wait $job
ok "it ends with 0" is $? 0
"$BIN/sysom" verdict python --timeout 30 >"$WORK/verdict" 2>&1
"$BIN/sysom" show last --job python >"$WORK/show" 2>&1
costs_no_gpu() { grep -q "of step time lost$" "$WORK/verdict" && grep -q "^  cost .* of step time$" "$WORK/show" && ! grep -q "GPU-hours" "$WORK/verdict" "$WORK/show"; }
ok "it lost time, but no GPU-hours" costs_no_gpu
costs_no_gpu || sed 's/^/# /' "$WORK/verdict" "$WORK/show"
finish

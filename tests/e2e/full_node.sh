#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# full_node.sh - 80 processes of one user on a node that has room for 64, a fifth of them with a rank: who has no
# room is refused and counted, who has one is reported, and what the aggregator gets it takes.
# alone: 80 processes start at once
. "$(dirname "$0")/lib.sh"
STACK_SYSOMD_FLAGS="--sketch-period 5s"
ok "the daemons start" stack_start "$WORK/stack"
cat >"$WORK/job.py" <<'PY'
import ctypes, os, sys, time
lib = ctypes.CDLL(None)
while not os.path.exists(sys.argv[1]):
    lib.sysom_step_begin(None, 0)
    time.sleep(0.1)
    lib.sysom_step_end()
PY
run() { # count [name=value...] : processes of the job `many`; {} in a value is the number
	local i count=$1
	shift
	for ((i = 0; i < count; i++)); do
		env "${@//\{\}/$i}" SYSOM_JOB=many "$BIN/sysom" run -- /usr/bin/python3 "$WORK/job.py" "$WORK/end" >>"$WORK/job.log" 2>&1 &
		pids+=($!)
	done
}
pids=()
run 16 RANK={} WORLD_SIZE=16
ok "16 ranks attach" stack_wait 30 attached 16
run 64
ok "48 processes more find room" stack_wait 30 attached 64
node_counter() { curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | awk -v name="$1" '$1 == name {print $2}'; }
fleet_counter() { curl -sf "$SYSOM_URL/metrics" | awk -v name="sysom_aggregator_$1" '$1 == name {print $2}'; }
refused() { [ "$(node_counter sysom_attach_refused_full_total)" -ge 16 ]; }
ok "the other 16 are refused and counted" stack_wait 30 refused
sketched() { [ "$(fleet_counter 'sketches_total{status="ok"}')" -ge 16 ]; }
ok "ranks have sketches" stack_wait 60 sketched
stepped() { [ "$(node_api status '[.ranks[] | select(.state == "attached" and .steps >= 100)] | length')" = 64 ]; }
ok "all 64 have as many steps as a sketch takes" stack_wait 60 stepped
made=$(node_counter sysom_sketches_made_total)
two_more() { [ "$(node_counter sysom_sketches_sent_total)" -ge $((made + 32)) ]; }
ok "and two periods later" stack_wait 30 two_more
ok "the aggregator knows 64 processes" is "$(api jobs '.jobs[] | .ranks, .other_processes' | paste -sd' ')" "16 48"
ok "it refused no sketch" is "$(fleet_counter 'sketches_total{status="reject"}')" 0
curl -sf "$SYSOM_URL/metrics" | grep '^sysom_aggregator_refused_total' | grep -v ' 0$' | sed 's/^/# /'
ok "nor anything else that was reported" is "$(curl -sf "$SYSOM_URL/metrics" | awk '/^sysom_aggregator_refused_total/ {sum += $2} END {print sum}')" 0
echo "# refused for want of room: $(node_counter sysom_attach_refused_full_total) attempts; sketches: $(node_counter sysom_sketches_sent_total) sent"
touch "$WORK/end"
wait "${pids[@]}"
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sysom off` and `sysom on` inside a running job, and jobs that meet sysomd late or not at all.
. "$(dirname "$0")/lib.sh"
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job switch -- "$BIN/simjob" --ranks 2 --seconds 24 --seed 3 >"$WORK/job.log" 2>&1 &
job=$!
events() { node_api status '[.ranks[].events] | add // 0'; }
attached() { [ "$(node_api status '.ranks | length')" = 2 ] && [ "$(events)" -gt 1000 ]; }
ok "both ranks attach" stack_wait 10 attached

before=$(date +%s%N)
"$BIN/sysom" off >"$WORK/off.txt" 2>&1
ok "sysom off answers" is $? 0
took_ms=$((($(date +%s%N) - before) / 1000000))
echo "# off took $took_ms ms"
ok "every process says that it is off" is "$(node_api status '[.ranks[].trace] | unique | join(",")')" off
sleep 0.5
first=$(events)
sleep 1
ok "no event is recorded while off" is "$(events)" "$first"
"$BIN/sysom" on --rank 1 >"$WORK/on.txt" 2>&1
sleep 1
ok "one rank can be switched alone" is "$(node_api status '[.ranks[] | select(.trace == "on") | .rank] | join(",")')" 1
ok "on again tells the rank that changes from the one that was on" is \
	"$("$BIN/sysom" on --json | jq -c '[.changed, .already, .asked, .ranks]')" "[1,1,2,[0]]"
ok "and again nothing changes, which is no failure" is "$("$BIN/sysom" on 2>&1; echo $?)" \
	"tracing on: 0 ranks changed, 2 were on already"$'\n0'
sleep 1
ok "events are recorded again" test "$(events)" -gt "$first"

kill -KILL "$STACK_SYSOMD_PID"
wait "$STACK_SYSOMD_PID" 2>/dev/null
sleep 2
stack_sysomd
ok "a new sysomd picks the running job up again" stack_wait 10 attached
wait $job
ok "the job ends with 0" is $? 0

stack_end sysomd "$STACK_SYSOMD_PID"
STACK_SYSOMD_PID=
"$BIN/sysom" run -- "$BIN/simjob" --ranks 2 --seconds 4 >"$WORK/alone.log" 2>&1
ok "a job without sysomd runs" is $? 0
ok "and says nothing" is "$(grep -ci sysom "$WORK/alone.log")" 0
finish

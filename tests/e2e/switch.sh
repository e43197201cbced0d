#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sysom off` and `sysom on` inside a running job, and jobs that meet sysomd late or not at all.
. "$(dirname "$0")/lib.sh"
export STACK_SYSOMD_FLAGS="--stall-after 2s"
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job switch -- "$BIN/simjob" --ranks 2 --seconds 3600 --seed 3 --truth "$WORK/truth.jsonl" >"$WORK/job.log" 2>&1 &
job=$!
events() { node_api status '[.ranks[].events] | add // 0'; }
flow() { attached 2 && [ "$(events)" -gt 1000 ]; }
truth() { wc -l <"$WORK/truth.jsonl"; } # steps of the job, by its own log
truth_is() { [ "$(truth)" -ge "$1" ]; }
still() { # what was under way when it went off has come in
	local before
	before=$(events)
	sleep 1
	[ "$(events)" = "$before" ]
}
trace_on() { [ "$(node_api status '[.ranks[] | select(.trace == "on") | .rank] | join(",")')" = "$1" ]; }
ok "both ranks attach" stack_wait 10 flow

before=$(date +%s%N)
"$BIN/sysom" off >"$WORK/off.txt" 2>&1
ok "sysom off answers" is $? 0
took_ms=$((($(date +%s%N) - before) / 1000000))
echo "# off took $took_ms ms"
ok "every process says that it is off" is "$(node_api status '[.ranks[].trace] | unique | join(",")')" off
stack_wait 5 still
first=$(events)
ok "the job goes on while off" stack_wait 10 truth_is $(($(truth) + 20))
ok "and no event of it is recorded" is "$(events)" "$first"
"$BIN/sysom" on --rank 1 >"$WORK/on.txt" 2>&1
ok "one rank can be switched alone" stack_wait 3 trace_on 1
ok "on again distinguishes the rank that changes from the one that was on" is \
	"$("$BIN/sysom" on --json | jq -c '[.changed, .already, .asked, .ranks]')" "[1,1,2,[0]]"
ok "and again nothing changes, which is no failure" is "$("$BIN/sysom" on 2>&1; echo $?)" \
	"tracing on: 0 ranks changed, 2 were on already"$'\n0'
more_events() { [ "$(events)" -gt "$first" ]; }
ok "events are recorded again" stack_wait 3 more_events

channels() { # their events in the rings of both ranks
	for pid in $(node_api status '.ranks[].pid'); do "$BIN/sysom-ring" --pid "$pid"; done | grep -c "plugin.*type=$((6 | 0xfe << 8))\b"
}
ok "no channel of NCCL's kernels is recorded" is "$(channels)" 0
ok "sysom on --channels asks both ranks" is "$("$BIN/sysom" on --channels 3 --json | jq .changed)" 2
some_channels() { [ "$(channels)" -gt 20 ]; }
ok "then they are" stack_wait 5 some_channels

stack_wait 60 known 2
steps_of_0() { node_api status '.ranks[] | select(.rank == 0) | .steps'; }
steps_again() { [ "$(steps_of_0)" -gt $((before + 10)) ]; }
for round in 1 2 3 4; do # whether it is looked at before its first step is chance
	before=$(steps_of_0)
	"$BIN/sysom" off --rank 0 >"$WORK/off0.txt" 2>&1
	sleep 4 # longer than --stall-after
	"$BIN/sysom" on --rank 0 >"$WORK/on0.txt" 2>&1
	stack_wait 20 steps_again
done
ok "a rank that was off has steps again" steps_again
ok "and the time off is no stall" is "$(grep -c event=stall "$WORK/stack/sysomd.log")" 0

kill -KILL "$STACK_SYSOMD_PID"
wait "$STACK_SYSOMD_PID" 2>/dev/null
stack_sysomd
ok "a new sysomd picks the running job up again" stack_wait 10 flow
end_job $job
ok "the job ends with 0" is $? 0

stack_end sysomd "$STACK_SYSOMD_PID"
STACK_SYSOMD_PID=
"$BIN/sysom" run -- "$BIN/simjob" --ranks 2 --steps 20 >"$WORK/alone.log" 2>&1
ok "a job without sysomd runs" is $? 0
ok "and only sysom run says so, in one line" is "$(grep -i sysom "$WORK/alone.log" | sed 's/ at .*//')" "sysom run: no sysomd answers"
finish

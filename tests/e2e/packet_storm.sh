#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job of 4 ranks on the simulated node; packets from another network namespace are steered to the CPU
# of one rank, whose launches then wait for NET_RX soft interrupts. The incident must say so, and where the
# packets come from.
# needs: root bpf cpus netns
# alone: the storm takes most of a CPU
. "$(dirname "$0")/lib.sh"
CULPRIT=2 # the rank whose CPU takes the packets
CPU=1
trap finish EXIT

rank_pid() { node_api status ".ranks[] | select(.rank == $1 and .state == \"attached\") | .pid"; }
move() { # pid cpu: all its threads
	local thread
	for thread in /proc/"$1"/task/*; do taskset -pc "$2" "${thread##*/}" >>"$WORK/taskset.log" 2>&1; done
}

stack_start "$WORK/stack" || { ok "daemons start" false; exit; }
loaded() { [ "$(node_api status .os.mode)" != starting ]; }
stack_wait 60 loaded
is "$(node_api status .os.mode)" bpf || { echo "# $(node_api status .os.why)"; ok "BPF loads" false; exit; }
"$BIN/sysom" run --job packet-storm -- "$BIN/simjob" --ranks 4 --mix shard --host-work pack:ms=16 \
	--seconds 3600 --seed 7 >"$WORK/job.log" 2>&1 &
JOB=$!
stack_wait 25 attached 4
# The culprit alone on its CPU from the start: the move itself is no fault.
for rank in 0 1 2 3; do
	move "$(rank_pid $rank)" $([ $rank = $CULPRIT ] && echo $CPU || echo 0)
done
ok "four ranks learn what is usual" stack_wait 40 known 4
steps_more 50 # that are usual
# A busy machine may make incidents of its own: the fault's is the one that knows of the device.
named() {
	local id
	for id in $(api incidents '[.incidents[] | select(.symptom != "transient" and (.ranks | index('$CULPRIT')))] |
		sort_by(-.flagged_steps)[].id'); do
		"$BIN/sysom" show "$id" --json >"$WORK/show.json"
		jq -e --arg device "$device" '[.signals[] | select(.name == "softirq_stolen" and .raised and
			(.subject | startswith("NET_RX from thread ")) and
			(.subject | test("packets of " + $device + "( |$)")))] | length > 0' "$WORK/show.json" && ID=$id && return
	done
	return 1
}
# It lasts until its incident is there: how soon depends on how much of the rank's own time the packets take.
ID=none
python3 tests/faults/packet_storm.py --cpu $CPU --seconds 3600 --share 70 >"$WORK/storm.log" 2>&1 &
STORM=$!
ok "a storm comes up" stack_wait 20 grep -q '"device"' "$WORK/storm.log"
device=$(sed -n 's/.*"device": "\([^"]*\)".*/\1/p' "$WORK/storm.log")
netns=$(sed -n 's/.*"netns": "\([^"]*\)".*/\1/p' "$WORK/storm.log")
stack_wait 30 named
kill -TERM $STORM
wait $STORM
sed 's/^/# /' "$WORK/storm.log"
ok "the culprit's incident names NET_RX, the thread, the CPU and the device" test $ID != none
end_job $JOB
ok "the job ends with 0" is $? 0
stack_end sysomd "$STACK_SYSOMD_PID"
ok "sysomd ends with 0" is $? 0
STACK_SYSOMD_PID=
api incidents '.incidents[]' | jq -c '{id,symptom,ranks,victims,flagged_steps}' | sed 's/^/# /'
[ $ID != none ] || api incidents '.incidents[].id' | while read -r id; do "$BIN/sysom" show "$id"; done | sed 's/^/# /'
"$BIN/sysom" show "$ID" --json >"$WORK/show.json"
"$BIN/sysom" show "$ID" | tee "$WORK/show.text" | sed 's/^/# /'
tr -s ' \n' '  ' <"$WORK/show.text" >"$WORK/show.log" # its lines are wrapped
ok "sysom show says so in words" grep -Eq \
	"NET_RX soft interrupts took [0-9.]+ ms/s from thread .* on CPU $CPU, packets of $device" "$WORK/show.log"
ok "and the network namespace" grep -Eq "packets of $device in netns $netns" "$WORK/show.log"
ok "no other rank's thread is said to have lost time to it" jq -e --arg cpu "on CPU 0" '[.signals[] | select(
	.name == "softirq_stolen" and .raised and (.subject | startswith("NET_RX")) and
	(.subject | contains($cpu)))] | length == 0' "$WORK/show.json"

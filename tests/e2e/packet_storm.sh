#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job of 4 ranks on the simulated node; packets from another network namespace are steered to the CPU
# of one rank, whose launches then wait for NET_RX soft interrupts. The incident must say so, and where the
# packets come from. Needs BPF, so root.
. "$(dirname "$0")/lib.sh"
CULPRIT=2 # the rank whose CPU takes the packets
CPU=1

skip_all() {
	echo "$1"
	rm -rf "$WORK"
	exit 77
}
[ "$(id -u)" = 0 ] || skip_all "needs root for BPF"
[ "$(nproc)" -ge 2 ] || skip_all "needs two CPUs"
command -v ip >/dev/null || skip_all "needs ip (iproute2)"
trap finish EXIT

rank_pid() { node_api status ".ranks[] | select(.rank == $1 and .state == \"attached\") | .pid"; }
armed() { # all four ranks know what is usual
	[ "$(node_api status '[.ranks[] | select(.model == "armed")] | length')" = 4 ]
}
move() { # pid cpu: all its threads
	local thread
	for thread in /proc/"$1"/task/*; do taskset -pc "$2" "${thread##*/}" >>"$WORK/taskset.log" 2>&1; done
}

stack_start "$WORK/stack" || { ok "daemons start" false; exit; }
loaded() { [ "$(node_api status .os.mode)" != starting ]; }
stack_wait 60 loaded
is "$(node_api status .os.mode)" bpf || { echo "# $(node_api status .os.why)"; ok "BPF loads" false; exit; }
"$BIN/sysom" run --job packet-storm -- "$BIN/simjob" --ranks 4 --mix shard --host-work pack:ms=16 \
	--seconds 90 --seed 7 >"$WORK/job.log" 2>&1 &
JOB=$!
four() { [ "$(node_api status '[.ranks[] | select(.state == "attached")] | length')" = 4 ]; }
stack_wait 25 four
# The culprit alone on its CPU from the start: the move itself is no fault.
for rank in 0 1 2 3; do
	move "$(rank_pid $rank)" $([ $rank = $CULPRIT ] && echo $CPU || echo 0)
done
ok "four ranks learn what is usual" stack_wait 40 armed
sleep 5 # some more seconds that are usual
# How much of the rank's own time the packets take is chance: a storm that makes no incident is tried again.
told() { api incidents '[.incidents[] | select(.symptom == "slow_rank" and (.ranks | index('$CULPRIT')))] | length > 0'; }
for try in 1 2 3; do
	python3 tests/faults/packet_storm.py --cpu $CPU --seconds 10 --share 70 >>"$WORK/storm.log" 2>&1
	code=$?
	[ $code = 0 ] && sleep 2 && [ "$(told)" != true ] || break
done
sed 's/^/# /' "$WORK/storm.log"
if [ $code = 77 ]; then
	skip "a NET_RX storm shows" "$(cat "$WORK/storm.log")"
	exit
fi
ok "the storm comes up" is $code 0
# each storm has its own: as alternatives of a pattern
device="($(sed -n 's/.*"device": "\([^"]*\)".*/\1/p' "$WORK/storm.log" | paste -sd '|'))"
netns="($(sed -n 's/.*"netns": "\([^"]*\)".*/\1/p' "$WORK/storm.log" | paste -sd '|'))"
wait $JOB
ok "the job ends with 0" is $? 0
stack_end sysomd "$STACK_SYSOMD_PID"
ok "sysomd ends with 0" is $? 0
STACK_SYSOMD_PID=
sleep 0.5
api incidents '.incidents[]' | jq -c '{id,symptom,ranks,victims,flagged_steps}' | sed 's/^/# /'
# A busy machine may make incidents of its own: the fault's is the one that knows of the device.
ID=none
for id in $(api incidents '[.incidents[] | select(.symptom != "hiccup")] | sort_by(-.flagged_steps)[].id'); do
	"$BIN/sysom" show "$id" --json >"$WORK/show.json"
	jq -e --arg device "$device" --argjson rank $CULPRIT '(.ranks | index($rank)) and ([.signals[] | select(
		.name == "softirq_stolen" and .raised and (.subject | startswith("NET_RX from thread ")) and
		(.subject | test("packets of " + $device + "( |$)")))] | length > 0)' "$WORK/show.json" >/dev/null &&
		ID=$id && break
done
[ "$ID" != none ] || api incidents '.incidents[].id' | while read -r id; do "$BIN/sysom" show "$id"; done | sed 's/^/# /'
ok "the culprit's incident tells of NET_RX, the thread, the CPU and the device" test "$ID" != none
"$BIN/sysom" show "$ID" | tee "$WORK/show.text" | sed 's/^/# /'
tr -s ' \n' '  ' <"$WORK/show.text" >"$WORK/show.log" # its lines are wrapped
ok "sysom show says so in words" grep -Eq \
	"NET_RX soft interrupts took [0-9.]+ ms/s from thread .* on CPU $CPU, packets of $device" "$WORK/show.log"
ok "and the network namespace" grep -Eq "packets of $device in netns $netns" "$WORK/show.log"
ok "no other rank's thread is said to have lost time to it" jq -e --arg cpu "on CPU 0" '[.signals[] | select(
	.name == "softirq_stolen" and .raised and (.subject | startswith("NET_RX")) and
	(.subject | contains($cpu)))] | length == 0' "$WORK/show.json"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything dies while a job runs: sysomd and the aggregator by SIGKILL at random moments, the socket is
# removed, a rank of another job is killed. The job is unharmed, every window that was acknowledged is
# stored exactly once, and losses are counted. SEED=N repeats a run.
. "$(dirname "$0")/lib.sh"
seed=${SEED:-$RANDOM}
echo "# seed $seed"
RANDOM=$seed
nap() { sleep "$(awk -v r=$RANDOM -v a="$1" -v b="$2" 'BEGIN{print a+(b-a)*r/32768}')"; }
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job chaos -- "$BIN/simjob" --ranks 4 --seconds 45 --seed "$seed" \
	--truth "$WORK/truth.jsonl" --fault "slow:rank=1:start=14s:steps=300:size=1.6" >"$WORK/job.log" 2>&1 &
job=$!
sleep 12
for round in 1 2 3; do
	nap 2 4
	kill -KILL "$STACK_SYSOMD_PID"
	wait "$STACK_SYSOMD_PID" 2>/dev/null
	[ $round = 2 ] && rm -f "$SYSOM_SOCKET_PATH"
	nap 0.2 1
	stack_sysomd || echo "# sysomd did not come back in round $round"
	nap 2 4
	kill -KILL "$STACK_AGGREGATOR_PID"
	wait "$STACK_AGGREGATOR_PID" 2>/dev/null
	nap 0.2 2
	stack_aggregator || echo "# the aggregator did not come back in round $round"
done
"$BIN/sysom" run --job victim -- "$BIN/simjob" --ranks 2 --seconds 30 >"$WORK/victim.log" 2>&1 &
victim=$!
sleep 2
pkill -KILL -n -f "simjob --ranks 2" 2>/dev/null
wait $job
ok "the job ends with 0" is $? 0
kill -KILL $victim 2>/dev/null
pkill -KILL -f "simjob --ranks 2" 2>/dev/null
wait $victim 2>/dev/null
spooled() { [ "$(node_api status .uplink.spool_bytes)" = 0 ]; }
ok "the spool drains once the aggregator is back" stack_wait 30 spooled
stack_end sysomd "$STACK_SYSOMD_PID"
ok "sysomd ends with 0" is $? 0
STACK_SYSOMD_PID=
sed -n 's/.*event=window_acked .*id=\([0-9a-f]*\).*/\1/p' "$WORK/stack/sysomd.log" | sort -u >"$WORK/acked"
api "incidents?limit=1000" '.incidents[].id' >"$WORK/ids"
for id in $(cat "$WORK/ids"); do api "incidents/$id" '.windows[].id'; done | sort >"$WORK/stored"
echo "# $(wc -l <"$WORK/acked") windows acknowledged, $(wc -l <"$WORK/stored") stored"
ok "windows were acknowledged" test -s "$WORK/acked"
ok "no window is stored twice" is "$(uniq -d "$WORK/stored" | wc -l)" 0
ok "every acknowledged window is stored" is "$(comm -23 "$WORK/acked" "$WORK/stored" | wc -l)" 0
ok "the slow rank is named" bash -c "curl -sf '$SYSOM_URL/api/v1/incidents?job=chaos' |
	jq -e '[.incidents[] | select(.ranks == [1])] | length >= 1' >/dev/null"
finish

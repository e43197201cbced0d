#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything dies while a job runs: the aggregator is away while a window waits for it, sysomd is killed
# with that window on its disk, both are killed at random moments, the socket is removed, a rank of
# another job is killed. The job is unharmed, every window that was acknowledged is stored exactly once,
# losses are counted, and a fault before the storm and one after it are both reported. SEED=N repeats a run.
. "$(dirname "$0")/lib.sh"
seed=${SEED:-$RANDOM}
echo "# seed $seed"
RANDOM=$seed
nap() { sleep "$(awk -v r=$RANDOM -v a="$1" -v b="$2" 'BEGIN{print a+(b-a)*r/32768}')"; }
slain() { # pid: by SIGKILL
	kill -KILL "$1"
	wait "$1" 2>/dev/null
}
shown() { tail -n "+$seen" "$WORK/stack/sysomd.log" | grep -q "event=window rank=$1 reason=self "; } # a window for its own slowness
spooled() { [ -n "$(find "$WORK/stack/state/spool" -name '*.msg')" ]; }
drained() { [ "$(node_api status .uplink.spool_bytes)" = 0 ]; }
named() { # rank: in an incident of this job, whoever else a busy machine held up
	api 'incidents?limit=1000' |
		jq -e "any(.incidents[]; (.job | startswith(\"chaos@\")) and (.ranks | index($1)))" >/dev/null
}
later=() # whenever the storm is over, and a new sysomd knows what is usual, one of them comes
for step in 350 500 650 800 950; do later+=(--fault "slow:rank=2:start=$step:steps=20:size=1.6"); done
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job chaos -- "$BIN/simjob" --ranks 4 --seconds 3600 --seed "$seed" \
	--truth "$WORK/truth.jsonl" --fault "slow:rank=1:start=130:steps=20:size=1.6" "${later[@]}" >"$WORK/job.log" 2>&1 &
job=$!
started=$SECONDS

# A window that only the spool has when sysomd dies.
stack_wait 60 steps_are 110
slain "$STACK_AGGREGATOR_PID"
STACK_AGGREGATOR_PID=
seen=$(($(wc -l <"$WORK/stack/sysomd.log") + 1)) # a busy machine may have made windows before the fault
kept() { steps_are 150 && shown 1 && spooled; }
ok "a window waits on the disk while the aggregator is away" stack_wait 12 kept
slain "$STACK_SYSOMD_PID"
sleep 3
stack_aggregator || echo "# the aggregator did not come back"
stack_sysomd || echo "# sysomd did not come back"
counted() { [ "$(node_api status '[.ranks[].lost.lapped] | add')" -gt 0 ]; }
ok "what was overwritten while nobody read is counted" stack_wait 3 counted

for round in 1 2; do
	nap 0.2 1
	slain "$STACK_SYSOMD_PID"
	[ $round = 2 ] && rm -f "$SYSOM_SOCKET_PATH"
	nap 0.1 0.5
	stack_sysomd || echo "# sysomd did not come back in round $round"
	nap 0.1 0.5
	slain "$STACK_AGGREGATOR_PID"
	nap 0.1 0.5
	stack_aggregator || echo "# the aggregator did not come back in round $round"
done
echo "# the storm ends $((SECONDS - started)) s after the start"
"$BIN/sysom" run --job victim -- "$BIN/simjob" --ranks 2 --seconds 30 >"$WORK/victim.log" 2>&1 &
victim=$!
has_ranks() { [ "$(children $victim | wc -l)" = 2 ]; }
stack_wait 10 has_ranks
ok "a rank of another job is killed" kill -KILL "$(children $victim | tail -n 1)" # sysom run became simjob

ok "the rank that became slow after the storm is named" stack_wait 60 named 2
end_job $job
ok "the job ends with 0" is $? 0
ok "and says what it says without sysom" is "$(grep -ci sysom "$WORK/job.log")" 0
kill -TERM $victim 2>/dev/null
stack_wait 5 eval "! kill -0 $victim 2>/dev/null" || kill -KILL $victim
wait $victim 2>/dev/null
ok "the spool drains once the aggregator is back" stack_wait 30 drained
stack_end sysomd "$STACK_SYSOMD_PID"
ok "sysomd ends with 0" is $? 0
STACK_SYSOMD_PID=
acked='s/.*event=window_acked .*id=\([0-9a-f]*\).*/\1/p'
sed -n "$acked" "$WORK/stack/sysomd.log" | sort -u >"$WORK/acked"
grep 'event=window_acked .*duplicate=1' "$WORK/stack/sysomd.log" | sed -n "$acked" | sort -u >"$WORK/again"
api "incidents?limit=1000" '.incidents[].id' >"$WORK/ids"
for id in $(cat "$WORK/ids"); do api "incidents/$id" '.windows[].id'; done | sort >"$WORK/stored"
echo "# $(wc -l <"$WORK/acked") windows acknowledged, $(wc -l <"$WORK/stored") stored," \
	"$(wc -l <"$WORK/again") of them with an acknowledgement that was lost the first time"
ok "windows were acknowledged" test -s "$WORK/acked"
ok "no window is stored twice" is "$(uniq -d "$WORK/stored" | wc -l)" 0
ok "every acknowledged window is stored" is "$(comm -23 "$WORK/acked" "$WORK/stored" | wc -l)" 0
# An acknowledgement that is lost makes the window come again: in the end each has one.
ok "every stored window is acknowledged" is "$(comm -13 "$WORK/acked" "$WORK/stored" | wc -l)" 0
ok "the store counts as many" is "$(api status .windows)" "$(wc -l <"$WORK/acked")"
ok "the slow rank of the window that waited is named" named 1
finish

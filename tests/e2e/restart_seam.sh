#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# restart_seam.sh - sysomd is killed and started again under a running job, again and again. Each time
# the steps flow again and what was kept alone makes the models ready; what it took is printed.
# ROUNDS (3; 12 for figures) restarts. Not a test of time: only that it happens within a minute.
. "$(dirname "$0")/lib.sh"
rounds=${ROUNDS:-3}
now_ms() { date +%s%3N; }
steps_flow() { [ "$(node_api status '[.ranks[].steps] | min')" -gt 0 ]; }
ready() { [ "$(node_api status '[.ranks[] | select(.model == "ready")] | length')" = 4 ]; }
since_ms() { # begin command... : how long after it the command succeeds
	local begin=$1
	shift
	stack_wait 60 "$@" || return 1
	echo $(($(now_ms) - begin))
}
counter() { curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | sed -n "s/^$1 //p"; }

stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job seam -- "$BIN/simjob" --ranks 4 --seconds $((120 + rounds * 8)) >"$WORK/job.log" 2>&1 &
job=$!
ok "every rank is ready" stack_wait 60 ready
# The files come while the models learn; the metric reports that they hold what made them ready.
kept() {
	[ "$(find "$WORK/stack/state/baseline" -name '*.baseline' | wc -l)" = 4 ] &&
		[ "$(counter sysom_baselines_due)" = 0 ]
}
ok "what they learned is on the disk" stack_wait 10 kept
echo "# learned from nothing after $(node_api status '[.ranks[].steps] | max') steps of the slowest rank's model"
bad=0
most=0
for round in $(seq "$rounds"); do
	kill -KILL "$STACK_SYSOMD_PID"
	killed=$(now_ms)
	wait "$STACK_SYSOMD_PID" 2>/dev/null
	stack_sysomd || bad=1
	first=$(since_ms "$killed" steps_flow) || bad=1
	echo "# round $round: steps $first ms after the kill; restored $(counter sysom_baselines_restored_total)" \
		"with $(counter sysom_baseline_restored_steps_total) steps," \
		"ready by them: $(counter sysom_baselines_ready_total)," \
		"refused $(counter sysom_baselines_bad_total); now" \
		"$(node_api status '[.ranks[] | "\(.model) at \(.steps)"] | join(", ")')"
	[ "${first:-0}" -le "$most" ] || most=$first
	[ "$(counter sysom_baselines_restored_total)" = 4 ] || bad=1
	# Before a step. What a model makes of the steps that follow is not asked here.
	[ "$(counter sysom_baselines_ready_total)" = 4 ] || bad=1
	sleep 1
done
echo "# steps flow at most $most ms after a kill"
ok "after each of $rounds kills the steps flow and what was kept makes every rank ready" is $bad 0
# A file that somebody has bent costs the learning, nothing else.
kill -KILL "$STACK_SYSOMD_PID"
wait "$STACK_SYSOMD_PID" 2>/dev/null
for file in "$WORK/stack/state/baseline/"*.baseline; do
	printf 'bent' | dd of="$file" bs=1 seek=200 conv=notrunc 2>/dev/null
done
stack_sysomd
refused() { [ "$(counter sysom_baselines_bad_total)" = 4 ]; }
ok "bent files are refused and counted" stack_wait 20 refused
ok "and the steps flow all the same" stack_wait 60 steps_flow
kill -TERM $job 2>/dev/null
wait $job 2>/dev/null
swept() { [ -z "$(find "$WORK/stack/state/baseline" -name '*.baseline')" ]; }
ok "nothing is kept of a job that has ended" stack_wait 20 swept
finish

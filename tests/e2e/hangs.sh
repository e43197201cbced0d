#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hangs.sh - two jobs that hang at once: in one a kernel of rank 1 never ends, in the other rank 2 calls
# another collective than its peers and all go on to enter more. Each is one incident that names rank and
# cause, with windows of all its ranks, and stacks in them where this machine has any.
. "$(dirname "$0")/lib.sh"
STACK_AGGREGATOR_FLAGS="--detect-hang 6s" STACK_SYSOMD_FLAGS="--beat-period 1s" \
	stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
loaded() { [ "$(node_api status .mode.stacks)" != starting ]; }
stack_wait 60 loaded
stacks=$(node_api status .mode.stacks)

job() { # name fault
	"$BIN/sysom" run --job "$1" -- "$BIN/simjob" --ranks 3 --seconds 120 --fault "$2" \
		--truth "$WORK/$1.jsonl" >"$WORK/$1.log" 2>&1 &
}
incident() { api "incidents?job=$1" '.incidents[0].id // empty'; }
field() { api "incidents/$(incident "$1")" "$2"; } # job filter
named() { [ "$(field "$1" '.diagnosis.cause + " " + (.ranks | join(","))')" = "$2" ]; }
evidence() { field "$1" '.diagnosis.evidence[].text' | grep -qF "$2"; }
asked() { # of whom windows came that were asked for
	[ "$(field "$1" '[.windows[] | select(.reason == "asked") | .rank] | unique | join(",")')" = 0,1,2 ]
}
sampled() { # job: where the hosts of all ranks stand, in the windows that were asked for
	local id rank
	id=$(incident "$1")
	for rank in 0 1 2; do
		"$BIN/sysom" flame "$id" --rank $rank -o "$WORK/$1.$rank.pb.gz" >/dev/null &&
			zcat "$WORK/$1.$rank.pb.gz" | grep -qa 'cu[A-Z][a-z]*Synchronize' || return 1
	done
}
steps_stood() { # job: no rank has finished a step in which the fault is
	[ "$(jq -s '[.[] | select(.fault == true)] | length' "$WORK/$1.jsonl")" = 0 ]
}

job endless endless:rank=1:start=100:kernel=gemm
endless=$!
job mismatch mismatch:rank=2:start=100
mismatch=$!
ok "the kernel that does not end is found, and its rank" stack_wait 60 named endless "hang-kernel 1"
ok "it is named" evidence endless "gemm"
ok "so are those that wait" stack_wait 30 evidence endless "ranks wait in"
ok "the rank that called another collective is found" stack_wait 30 named mismatch "hang-mismatch 2"
ok "both calls are named" bash -c 'grep -qE "rank 2 called AllGather of [0-9]+ bytes \(float32\) where the others called AllReduce of [0-9]+ bytes" "$0"' \
	<(field mismatch '.diagnosis.evidence[].text')
for name in endless mismatch; do
	ok "$name: windows of all ranks came" stack_wait 30 asked $name
	if [ "${stacks#bpf}" = "$stacks" ]; then
		skip "$name: stacks of all ranks came" "needs bpf: $stacks"
	else
		ok "$name: stacks of all ranks came" sampled $name
	fi
	ok "$name: one incident" is "$(api "incidents?job=$name" '.incidents | length')" 1
	ok "$name: it did hang" steps_stood $name
done
# since when, in what people look at first
ok "status says that all ranks hang" is "$("$BIN/sysom" status | grep -c "hangs for")" 6
ok "top too" is "$("$BIN/sysom" top | grep -cE "^[! ] (endless|mismatch)@.* hangs [0-9]+")" 6
ok "and top marks the ranks that the others wait for" is "$("$BIN/sysom" top | awk '/^!/ {print $2, $3}' | sort | tr '\n' ';')" \
	"endless@$(id -u) 1;mismatch@$(id -u) 2;"
ok "and the cluster counts the jobs" bash -c '"$0" status | grep -q "2 jobs (2 hang)"' "$BIN/sysom"
# a wait is no time of a step
"$BIN/sysom" show "$(incident mismatch)" | grep -m 1 "^  cost" >"$WORK/cost"
sed "s/^/# /" "$WORK/cost"
ok "its cost is not given per step" bash -c 'grep -q "GPU-hours lost so far" "$0" && ! grep -q "per step" "$0"' "$WORK/cost"
ok "and incidents names it" bash -c '"$0" incidents --job mismatch | grep -q "ranks called different collectives"' "$BIN/sysom"
kill $endless $mismatch 2>/dev/null
wait $endless $mismatch 2>/dev/null
over() { [ "$(api status '"\(.jobs) \(.hanging_jobs) \(.ranks)"')" = "0 0 0" ]; }
ok "jobs that have ended are not current" stack_wait 10 over
ok "nor listed by top" bash -c '"$0" top | grep -q "no ranks run; 2 jobs ended"' "$BIN/sysom"
last_counts() { # what the node counted last is what the aggregator has
	[ "$(node_api status '[.ranks[].steps] | add')" = "$(api ranks '[.ranks[].steps] | add')" ]
}
ok "their last step counts are the nodes'" stack_wait 10 last_counts
finish

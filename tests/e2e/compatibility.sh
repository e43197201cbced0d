#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compatibility.sh - the programs of the former release (tests/former_release) beside these, both ways: nodes,
# aggregator, preload and command line find a fault together, and its store is upgraded with all that it holds.
# long: builds the former release
# needs: file:.git command:git
. "$(dirname "$0")/lib.sh"
read -r COMMIT <tests/former_release
NEW=$BIN
OLD=build/former/$COMMIT/build/gcc/bin
build_old() { # once; its compiler's output only if it fails
	[ -x "$OLD/sysomd" ] && return 0
	mkdir -p "build/former/$COMMIT"
	git archive "$COMMIT" | tar -x -C "build/former/$COMMIT" &&
		make -s -C "build/former/$COMMIT" DEPS=no SAN= CC=gcc programs -j2 >"$WORK/build" 2>&1 ||
		{ tail -20 "$WORK/build" | sed 's/^/# /'; return 1; }
}
# "hiccup" is the former release's word for "transient".
fault_found() { # of rank 2 alone
	[ "$(api 'incidents?job=demo' '[.incidents[] | select(.symptom | IN("hiccup", "transient") | not) | .ranks[]] | unique | join(",")')" = 2 ]
}
stack_of() { # aggregator's programs, sysomd's programs: in a directory of their own
	stack_place "$3" && BIN=$1 stack_aggregator && BIN=$2 stack_sysomd
}
run_job() { # programs of the job
	"$1/sysom" run --job demo -- "$1/simjob" --ranks 4 --seconds 30 --seed 7 \
		--fault slow:rank=2:start=14s:steps=60:size=1.8 >"$STACK_DIR/job.log" 2>&1
}
node_shows_it() { # the command line, while the job runs
	grep -q "4 ranks on 1 node" <("$1/sysom" status --control "$SYSOM_CONTROL_PATH")
}
finds() { # name, aggregator, node, job, command line
	ok "$1: they start" stack_of "$2" "$3" "$WORK/$1"
	run_job "$4" &
	ok "$1: the command line shows the node" stack_wait 25 node_shows_it "$5"
	ok "$1: the job ends well" wait $!
	ok "$1: the fault is found" stack_wait 20 fault_found
	ok "$1: nothing is rejected" is "$(curl -sf "$SYSOM_URL/metrics" |
		sed -n 's/^sysom_aggregator_\(windows\|beats\|sketches\)_total{status="reject"} //p' | xargs)" "0 0 0"
	ok "$1: the command line shows it" grep -q 'rank 2' <("$5/sysom" show "$(api 'incidents?job=demo' \
		'[.incidents[] | select(.symptom | IN("hiccup", "transient") | not)][0].id')")
}
trap finish EXIT

if ! git cat-file -e "$COMMIT^{commit}" 2>/dev/null; then
	echo "ok 1 - the former release # SKIP needs file:.git/$COMMIT: a shallow copy of the repository lacks it"
	echo "1..1"
	exit 0
fi
ok "the former release's programs" build_old || exit 1
finds new-aggregator "$NEW" "$OLD" "$OLD" "$NEW"
ok "new-aggregator: they end well" stack_stop
finds old-aggregator "$OLD" "$NEW" "$NEW" "$OLD"
# the old aggregator's store, upgraded
IDS=$(api 'incidents?limit=1000' '.incidents[].id' | sort)
ok "old-aggregator: they end well" stack_stop
BIN=$NEW
ok "this aggregator takes the former one's store" stack_aggregator
ok "it has all incidents" is "$(api 'incidents?limit=1000' '.incidents[].id' | sort)" "$IDS"
whole() { # each incident's windows are served
	local id w
	for id in $IDS; do
		for w in $(api "incidents/$id" '.windows[].id'); do
			curl -sf -o /dev/null "$SYSOM_URL/api/v1/windows/$w" || return 1
		done
	done
}
ok "with their windows" whole
# a job of this preload with the former sysomd, and the other way round
ok "these programs end" stack_stop
for pair in "old $OLD $NEW" "new $NEW $OLD"; do
	read -r name node job <<<"$pair"
	ok "$name-node: they start" stack_of "$NEW" "$node" "$WORK/$name-node"
	ok "$name-node: the other release's preload runs" run_job "$job"
	ok "$name-node: the fault is found" stack_wait 20 fault_found
	ok "$name-node: they end well" stack_stop
done

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sysomd against something at the aggregator's address that is none: it lives on, answers, and ends
# with 0 on SIGTERM.
. "$(dirname "$0")/lib.sh"
trap finish EXIT
tried() { # count: connections and requests seen by the peer
	[ "$(wc -l <"$WORK/peer.log")" -ge "$1" ]
}
survives() { # how count
	local peer rc
	read -r port http <<<"$(free_ports 2)"
	: >"$WORK/peer.log"
	python3 tests/e2e/hostile_aggregator.py "$port" "$1" >>"$WORK/peer.log" 2>&1 &
	peer=$!
	"$BIN/sysomd" --socket-path "$WORK/s" --control-path "$WORK/c" --http-listen "127.0.0.1:$http" \
		--state-dir "$WORK/state" --uplink-url "tcp://127.0.0.1:$port" --beat-period 100ms \
		>>"$WORK/sysomd.log" 2>&1 &
	STACK_SYSOMD_PID=$!
	stack_wait 20 tried "$2" && curl -sf "http://127.0.0.1:$http/healthz" >/dev/null
	rc=$?
	stack_end sysomd "$STACK_SYSOMD_PID" || rc=1
	STACK_SYSOMD_PID=
	kill "$peer" 2>/dev/null
	wait "$peer" 2>/dev/null
	return $rc
}
ok "sysomd outlives and ends beside one that says nothing" survives silent 1
for how in garbage half huge close random; do
	ok "and beside one of the kind: $how" survives $how 2
done

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sysomd alone: a rank that is slow from its first step on, which its own model takes for normal, is
# found among its peers on the node and its window is made; a healthy job leaves everybody in peace.
. "$(dirname "$0")/lib.sh"
trap finish EXIT

start() {
	"$BIN/sysomd" --socket-path "$WORK/a.sock" --control-path "$WORK/c.sock" \
		--http-listen "127.0.0.1:$STACK_NODE_HTTP" --uplink-url "" --sketch-period 5s \
		--state-dir "$WORK/state" >>"$WORK/sysomd.log" 2>&1 &
	SYSOMD=$!
	stack_wait 10 curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/healthz"
}
job() { # arguments of simjob
	SYSOM_SOCKET_PATH=$WORK/a.sock LD_PRELOAD=$PWD/$B/lib/libsysom_preload.so \
		LD_LIBRARY_PATH=$B/lib/sim "$BIN/simjob" --ranks 4 --seed 5 "$@" >"$WORK/job.log" 2>&1
}
flags() { # rank: of the processes of that rank so far
	node_api status "[.ranks[] | select(.rank == $1) | .peer_flags] | add"
}
found() { [ "$(flags 2)" -ge 1 ]; }
others_in_peace() {
	local sum
	sum=$(node_api status '[.ranks[] | select(.rank != 2) | .peer_flags] | add')
	is "$sum" 0
}
shown() { grep -q "event=window rank=2 reason=peer .* summary=0" "$WORK/sysomd.log"; }
none_shown() { ! grep -q "event=window rank=[013] reason=peer " "$WORK/sysomd.log"; }
compared() { [ "$(node_api status .compare.peers.rounds)" -gt "$1" ]; }
sketched() { [ "$(node_api status .compare.sketches.made)" -ge 4 ]; }
widened() { # only where the sampler works, and works in the kernel
	case $(node_api status .mode.stacks) in bpf*) ;; *) return 0 ;; esac
	[ "$(node_api status .sampler.wide_begun)" -ge 1 ] && [ "$(node_api status .sampler.others)" -gt 0 ]
}

mkdir -p "$WORK"
read -r STACK_NODE_HTTP <<<"$(free_ports 1)"
ok "sysomd starts" start
job --seconds 15
ok "ranks of a healthy job are compared" compared 60
ok "and nobody is called slow" is "$(node_api status '[.ranks[].peer_flags] | add')" 0
ok "their sketches are made" sketched
job --seconds 30 --fault slow:rank=2:start=0:steps=1000000:size=1.12
ok "a rank that was slow from the first step on is found" found
ok "none of the others is called slow" others_in_peace
ok "its window is made, with its records" shown
ok "and no window of another rank for that reason" none_shown
ok "meanwhile the sampler took in the whole node" widened
kill -TERM "$SYSOMD"
wait "$SYSOMD"
ok "sysomd ends cleanly" is $? 0

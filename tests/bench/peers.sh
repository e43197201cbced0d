#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The peers' cost per launch on this machine, now: lttng-ust's tracepoint with a session that records
# it, and an entry+return uprobe with an empty BPF program. usage: peers.sh BUILD
set -u
B=$1
exe=$B/bench/peer_launch
if [ ! -x "$exe" ]; then
	echo "  peers: lttng-ust is not installed (make deps)"
	exit 0
fi
tmp=$(mktemp -d)
export LTTNG_HOME=$tmp HOME=$tmp
cleanup() {
	[ -n "${probe:-}" ] && kill "$probe" 2>/dev/null
	lttng destroy sysom-bench >/dev/null 2>&1
	[ -n "${daemon:-}" ] && kill "$daemon" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$tmp"
}
trap cleanup EXIT

plain=$("$exe" plain 100)
base=${plain%% *}
row() { # name figures: cost above the plain call
	awk -v n="$1" -v b="$base" '{printf "  %-46s %7.1f ns  [%.1f, %.1f]\n", n, $1-b, $2-b, $3-b}' <<<"$2"
}
if command -v lttng-sessiond >/dev/null; then
	lttng-sessiond --no-kernel >/dev/null 2>&1 & # ends at once where there is one already
	daemon=$!
	for _ in $(seq 100); do lttng --no-sessiond list >/dev/null 2>&1 && break; sleep 0.1; done
	if lttng create sysom-bench --snapshot --output "$tmp/out" >/dev/null 2>&1 &&
	   lttng enable-channel -u --subbuf-size 1M --num-subbuf 4 c >/dev/null 2>&1 &&
	   lttng enable-event -u -c c 'sysom_bench:launch' >/dev/null 2>&1 &&
	   lttng start >/dev/null 2>&1; then
		row "lttng-ust tracepoint, flight recorder" "$("$exe" lttng 100)"
	else
		echo "  lttng-ust: no session could be started"
	fi
	lttng destroy sysom-bench >/dev/null 2>&1
fi
if [ "$(id -u)" = 0 ] && command -v bpftrace >/dev/null; then
	bpftrace -e "uprobe:$exe:peer_driver_launch { } uretprobe:$exe:peer_driver_launch { }
		interval:s:60 { exit(); }" >"$tmp/bpftrace" 2>&1 &
	probe=$!
	for _ in $(seq 100); do grep -q Attach "$tmp/bpftrace" && break; sleep 0.1; done
	sleep 1
	first=$(objdump -d --no-show-raw-insn --disassemble=peer_driver_launch "$exe" 2>/dev/null |
		awk '/^ .*:\t/{sub(/^[^\t]*\t/,"");print;exit}')
	row "uprobe + uretprobe, first instruction: ${first%% *}" "$("$exe" plain 30)"
else
	echo "  uprobe: needs root and bpftrace: skipped"
fi

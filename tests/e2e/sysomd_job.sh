#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sysomd beside a job on the simulated node, with no aggregator: the join, a restart by kill -9 in the
# middle, and a clean end. The windows wait in the spool.
. "$(dirname "$0")/lib.sh"
trap finish EXIT

start() {
	"$BIN/sysomd" --socket-path "$WORK/a.sock" --control-path "$WORK/c.sock" \
		--http-listen "127.0.0.1:$STACK_NODE_HTTP" --uplink-url "" \
		--state-dir "$WORK/state" >>"$WORK/sysomd.log" 2>&1 &
	SYSOMD=$!
	stack_wait 10 curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/healthz"
}
rank() { node_api status ".ranks[] | select(.rank == $1) | $2"; }
attached() { is "$(node_api status '[.ranks[] | select(.state == "attached")] | length')" 2; }
more_than() { [ "$(rank "$1" "$2")" -gt "$3" ]; }
most_joined() { # [unmatched of before, which do not count]: at most one in a hundred
	local joined unmatched
	joined=$(rank 0 .joined) unmatched=$(($(rank 0 .unmatched) - ${1:-0}))
	echo "# joined $joined unmatched $unmatched, and ${1:-0} before"
	[ "$joined" -gt 1000 ] && [ $((unmatched * 100)) -le "$joined" ]
}
mkdir -p "$WORK"
read -r STACK_NODE_HTTP <<<"$(free_ports 1)"
ok "sysomd starts without an aggregator" start
export SYSOM_SOCKET_PATH=$WORK/a.sock
LD_PRELOAD=$PWD/$B/lib/libsysom_preload.so LD_LIBRARY_PATH=$B/lib/sim \
	"$BIN/simjob" --ranks 2 --seconds 9 --seed 3 >"$WORK/job.log" 2>&1 &
JOB=$!
ok "both ranks attach" stack_wait 10 attached
ok "kernels arrive" stack_wait 10 more_than 0 .joined 1000
ok "nearly all kernels meet their launch" most_joined
{ kill -KILL "$SYSOMD" && wait "$SYSOMD"; } 2>/dev/null
ok "sysomd starts again over what the killed one left" start
ok "both ranks are picked up again" stack_wait 10 attached
ok "kernels arrive again" stack_wait 10 more_than 0 .joined 1000
before=$(rank 0 .unmatched) # launched before, and read by the one that was killed
ok "and more" stack_wait 10 more_than 0 .joined 4000
ok "and meet their launch, but for those launched before" most_joined "$before"
wait "$JOB"
ok "the job ends as without us" is $? 0
gone() { is "$(node_api status '[.ranks[] | select(.state == "gone")] | length')" 2; }
ok "sysomd sees it" stack_wait 10 gone
ok "and its kernels go on being joined" more_than 0 .joined 4000
NCCL_PROFILER_PLUGIN=$PWD/$B/test/null/chain_plugin.so CHAIN_MODE=crash LD_LIBRARY_PATH=$B/lib/sim \
	LD_PRELOAD=$PWD/$B/lib/libsysom_preload.so "$B/test/plugin_loader" >"$WORK/crash.log" 2>&1
crashed() { is "$(node_api status '[.ranks[] | select(.lost.plugin_crash == 1)] | length')" 1; }
ok "a process that ended inside its NCCL plugin is counted" stack_wait 10 crashed
kill -TERM "$SYSOMD"
wait "$SYSOMD"
ok "sysomd ends cleanly" is $? 0
same_config() {
	diff <(tail -n +2 conf/sysomd.yaml) <(env -u SYSOM_SOCKET_PATH "$BIN/sysomd" --print-config) \
		>"$WORK/config.log"
}
ok "conf/sysomd.yaml holds the defaults" same_config

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# newer_node.sh - a node whose wire is a version ahead of its aggregator's keeps its windows and says why, once. It
# sends them when the aggregator is upgraded: here, when newer_node.py stops raising the version in between. A node
# that cannot read the answers of a later aggregator keeps its windows as well.
. "$(dirname "$0")/lib.sh"
PEER=
trap 'kill $PEER 2>/dev/null; finish' EXIT
metric() { curl -sf "http://127.0.0.1:$1/metrics" | sed -n "s/^$2 //p"; }
more_than() { [ "$(metric "$2" "$3")" -gt "$1" ]; }
said() { grep -c 'upgrade the aggregator' "$STACK_DIR/sysomd.log"; }

ok "an aggregator and a sysomd" stack_start "$WORK/stack"
ok "the sysomd ends" stack_end sysomd "$STACK_SYSOMD_PID"
port=$(free_ports 1)
touch "$WORK/newer"
python3 tests/e2e/newer_node.py "$port" "${STACK_NNG##*:}" "$WORK/newer" >"$WORK/peer.log" 2>&1 &
PEER=$!
aggregator=$STACK_NNG
STACK_NNG=tcp://127.0.0.1:$port
ok "another one speaks a later version" stack_sysomd
STACK_NNG=$aggregator
"$BIN/sysom" run --job demo -- "$BIN/simjob" --ranks 4 --seconds 30 --seed 7 \
	--fault slow:rank=2:start=14s:steps=60:size=1.8 >"$WORK/job.log" 2>&1 &
job=$!
ok "the aggregator puts it off" stack_wait 20 more_than 3 "$STACK_HTTP" sysom_aggregator_newer_messages_total
ok "the job ends well" wait $job
ok "the node tries again" more_than 3 "$STACK_NODE_HTTP" sysom_uplink_retries_total
ok "the windows wait" more_than 0 "$STACK_NODE_HTTP" sysom_spool_bytes
ok "none is rejected" is "$(metric "$STACK_NODE_HTTP" sysom_uplink_windows_rejected_total)" 0
ok "none is dropped" is "$(metric "$STACK_NODE_HTTP" sysom_uplink_windows_dropped_total)" 0
ok "none is sent" is "$(metric "$STACK_NODE_HTTP" sysom_uplink_windows_sent_total)" 0
ok "the node says why, once" is "$(said)" 1
rm "$WORK/newer"
sent() { [ "$(metric "$STACK_NODE_HTTP" sysom_spool_bytes)" = 0 ] && more_than 0 "$STACK_HTTP" sysom_aggregator_store_windows; }
ok "upgraded, the aggregator gets them all" stack_wait 20 sent
ok "and has an incident of rank 2" stack_wait 20 eval \
	'api "incidents?job=demo" "[.incidents[].ranks[]] | unique[]" | grep -qx 2'

# ---- answers of a later version ----
stored() { metric "$STACK_HTTP" sysom_aggregator_store_windows; }
"$BIN/sysom" run --job asked -- "$BIN/simjob" --ranks 1 --seconds 3600 >"$WORK/asked.log" 2>&1 &
job=$!
ok "another job has steps" stack_wait 60 steps_are 4
ok "nothing waits" stack_wait 20 sent
before=$(stored)
touch "$WORK/newer.answers"
sent_before=$(metric "$STACK_NODE_HTTP" sysom_uplink_windows_sent_total)
got=$(curl -sf --unix-socket "$SYSOM_CONTROL_PATH" -X POST "http://sysomd/api/v1/capture?rank=0&seconds=0.3&job=asked" | jq .windows)
ok "a window is asked for" is "$got" 1
retries=$(metric "$STACK_NODE_HTTP" sysom_uplink_retries_total)
ok "the node sends it again and again" stack_wait 30 more_than $((retries + 2)) "$STACK_NODE_HTTP" sysom_uplink_retries_total
ok "and keeps it" more_than 0 "$STACK_NODE_HTTP" sysom_spool_bytes
ok "as not sent" is "$(metric "$STACK_NODE_HTTP" sysom_uplink_windows_sent_total)" "$sent_before"
end_job $job
rm "$WORK/newer.answers"
ok "it takes an answer of its own version" stack_wait 60 sent
ok "the aggregator has the window once" is "$(stored)" $((before + $(metric "$STACK_NODE_HTTP" sysom_uplink_windows_sent_total) - sent_before))
ok "none was rejected or dropped" is "$(metric "$STACK_NODE_HTTP" sysom_uplink_windows_rejected_total) $(metric "$STACK_NODE_HTTP" sysom_uplink_windows_dropped_total)" "0 0"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# outage.sh - an hour without the aggregator, in small: a spool of 1 MB instead of 500 MB. Windows are
# asked for while the aggregator is away, stopped or killed, while sysomd is, and while the disk is
# full; in the end each that was not counted as dropped is stored once. (That nothing is too old within
# an hour, whatever the clock does, is test_spool's.) Also: two daemons on one directory, and clients
# that say nothing.
. "$(dirname "$0")/lib.sh"
metric() { curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | sed -n "s/^$1 //p"; }
captured=0
capture() { # count: windows of the last 300 ms, one a turn
	local got
	for _ in $(seq "$1"); do
		got=$(curl -sf --unix-socket "$SYSOM_CONTROL_PATH" -X POST \
			"http://sysomd/api/v1/capture?rank=0&seconds=0.3" | jq .windows)
		captured=$((captured + ${got:-0}))
	done
}
spool_files() { find "$WORK/stack/state/spool" -name '*.msg' | wc -l; }
waiting() { [ "$(spool_files)" -ge "$1" ]; }
drained() { [ "$(spool_files)" = 0 ] && [ "$(metric sysom_spool_bytes)" = 0 ]; }
slain() { kill -KILL "$1" && wait "$1" 2>/dev/null; }
acked() { sed -n 's/.*event=window_acked .*id=\([0-9a-f]*\).*/\1/p' "$WORK/stack/sysomd.log" | sort -u; }
dropped=0
note_dropped() { dropped=$((dropped + $(metric sysom_uplink_windows_dropped_total))); } # before each end

if [ "$(id -u)" = 0 ] && mkdir -p "$WORK/stack/state" &&
	mount -t tmpfs -o size=12m none "$WORK/stack/state" 2>/dev/null; then
	small=1
else
	small=
fi
STACK_SYSOMD_FLAGS="--spool-bytes 1MB --recorder-files 2MB"
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
"$BIN/sysom" run --job outage -- "$BIN/simjob" --ranks 2 --seconds 3600 >"$WORK/job.log" 2>&1 &
job=$!
flows() { [ "$(node_api status '[.ranks[].steps] | min')" -gt 3 ]; }
ok "steps flow" stack_wait 60 flows

# ---- two on one directory ----
second=0
timeout 10 "$BIN/sysomd" --socket-path "$WORK/b.sock" --control-path "$WORK/b.control" --http-listen "" \
	--uplink-url "" --state-dir "$WORK/stack/state" >"$WORK/second.log" 2>&1 || second=$?
ok "a second sysomd on one state.dir ends with 3" is $second 3
ok "and says why" grep -q "another sysomd uses this state.dir" "$WORK/second.log"
second=0
timeout 10 "$BIN/sysom-aggregator" --nng-listen "ipc://$WORK/b.nng" --http-listen 127.0.0.1:0 \
	--store-dir "$WORK/stack/store" >"$WORK/second.log" 2>&1 || second=$?
ok "a second aggregator on one store ends with 3" is $second 3
ok "and says why" grep -q "another aggregator uses it" "$WORK/second.log"

# ---- clients that say nothing ----
python3 - "$STACK_NODE_HTTP" "$SYSOM_CONTROL_PATH" "$SYSOM_SOCKET_PATH" "$WORK/silent" <<'PY' &
import socket, sys, time
held = []
for _ in range(200):
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
    for path, kind in (sys.argv[2], socket.SOCK_STREAM), (sys.argv[3], socket.SOCK_SEQPACKET):
        s = socket.socket(socket.AF_UNIX, kind)
        while True:
            try:
                s.connect(path)
                break
            except BlockingIOError:  # the listener's queue is full: a busy machine
                time.sleep(0.05)
        held.append(s)
open(sys.argv[4], "w").close()
time.sleep(3600)
PY
silent=$!
ok "200 clients come and say nothing" stack_wait 10 test -e "$WORK/silent"
ok "a probe is answered beside 200 silent clients" curl -sf -m 3 -o /dev/null "http://127.0.0.1:$STACK_NODE_HTTP/healthz"
ok "and the control socket too" curl -sf -m 3 -o /dev/null --unix-socket "$SYSOM_CONTROL_PATH" http://sysomd/healthz
kill $silent
wait $silent 2>/dev/null

# ---- away ----
slain "$STACK_AGGREGATOR_PID"
capture 12
ok "windows wait on the disk while the aggregator is away" stack_wait 10 waiting 12
ok "and none was dropped" is "$(metric sysom_uplink_windows_dropped_total)" 0
logged() { grep -qF "$1" "$WORK/stack/sysomd.log"; }
ok "the log says that nobody is connected" stack_wait 20 logged ": no connection for 5 s; windows wait in the spool"
stack_aggregator
ok "they leave once it is back" stack_wait 30 drained
ok "and the log says when" is "$(grep 'event=uplink' "$WORK/stack/sysomd.log" | grep -o 'no connection\|connected' | paste -sd,)" \
	"connected,no connection,connected"
ok "each was stored" test "$(api status .windows)" -ge 12

# ---- away for longer than the spool is large ----
slain "$STACK_AGGREGATOR_PID"
overflows() { capture 10; [ "$(metric sysom_uplink_windows_dropped_total)" -gt 0 ]; }
ok "a spool that overflows drops, and counts it" stack_wait 40 overflows
ok "and stays within its bytes" test "$(metric sysom_spool_bytes)" -le 1000000
stack_aggregator
ok "what was kept leaves" stack_wait 30 drained

# ---- stopped, then killed ----
kill -STOP "$STACK_AGGREGATOR_PID"
capture 5
ok "windows wait while the aggregator is stopped" stack_wait 10 waiting 5
slain "$STACK_AGGREGATOR_PID"
stack_aggregator
ok "they leave after it was killed and started" stack_wait 40 drained
slain "$STACK_AGGREGATOR_PID"
capture 5
stack_wait 10 waiting 5
kill -STOP "$STACK_SYSOMD_PID"
stack_aggregator
note_dropped_late=$(kill -CONT "$STACK_SYSOMD_PID"; metric sysom_uplink_windows_dropped_total)
kill -STOP "$STACK_SYSOMD_PID"
slain "$STACK_SYSOMD_PID"
dropped=$((dropped + note_dropped_late))
stack_sysomd
ok "a sysomd that was stopped and killed leaves no window behind" stack_wait 40 drained

# ---- a full disk ----
if [ -n "$small" ]; then
	slain "$STACK_AGGREGATOR_PID"
	stack_wait 60 flows
	dd if=/dev/zero of="$WORK/stack/state/ballast" bs=64k 2>/dev/null
	capture 3
	in_memory() { [ "$(metric sysom_spool_memory_bytes)" -gt 0 ]; }
	ok "windows wait in memory while the disk is full" stack_wait 10 in_memory
	ok "the failed writes are counted" test "$(metric sysom_spool_disk_errors_total)" -gt 0
	ok "sysomd is healthy" curl -sf -o /dev/null "http://127.0.0.1:$STACK_NODE_HTTP/healthz"
	rm "$WORK/stack/state/ballast"
	on_disk() { [ "$(metric sysom_spool_memory_bytes)" = 0 ]; }
	ok "with room again they go to the disk" stack_wait 10 on_disk
	slain "$STACK_SYSOMD_PID" # nothing of them is in memory alone
	stack_sysomd
	stack_aggregator
	ok "and from there to the aggregator" stack_wait 40 drained
else
	skip "a full disk" "needs mounts"
fi

# ---- the sum: no window is under way ----
end_job $job
ok "the job ends with 0" is $? 0
gone() { [ "$(node_api status '[.ranks[] | select(.state == "attached")] | length')" = 0 ]; }
stack_wait 10 gone
last_acked=0
still() { # no acknowledgement came for a second, and the spool is empty
	local before=$last_acked
	last_acked=$(acked | wc -l)
	[ "$last_acked" = "$before" ] && drained || { sleep 1; false; }
}
stack_wait 20 still
note_dropped
acked >"$WORK/acked"
echo "# asked for $captured, acknowledged $(wc -l <"$WORK/acked"), dropped $dropped, stored $(api status .windows)"
ok "as many are stored as were acknowledged" is "$(api status .windows)" "$(wc -l <"$WORK/acked")"
missing=0
while read -r id; do
	curl -sf -o /dev/null "$SYSOM_URL/api/v1/windows/$id" || missing=$((missing + 1))
done <"$WORK/acked"
ok "each of them can be had" is $missing 0
ok "none went without being counted" test $(($(wc -l <"$WORK/acked") + dropped)) -ge "$captured"
stack_stop
ok "both daemons end with 0" is $? 0
[ -n "$small" ] && umount "$WORK/stack/state"
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# connect_flood.sh - one user's 300 threads connect to sysomd's attach socket without end. It costs sysomd a part of
# a CPU that is bounded, and another user's ranks attach beside it.
# needs: root
# alone: the flood takes all CPUs
. "$(dirname "$0")/lib.sh"
FLOODER=61237 OTHER=61236
chmod 755 "$WORK"
# Users run copies: the tree may lie where only its owner can read, such as /root.
mkdir "$WORK/copy" && cp -r "$BIN" "$B/lib" "$WORK/copy" && chmod -R go+rX "$WORK/copy"
ok "the daemons start" stack_start "$WORK/stack"
# What it takes is what it wants, not what 300 threads leave it.
renice -n -15 -p "$STACK_SYSOMD_PID" >/dev/null
counter() { curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | awk -v name="sysom_attach_$1" '$1 == name {print $2}'; }
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{print int(($14 + $15) * 1000 / hz)}' "/proc/$STACK_SYSOMD_PID/stat"; }
now_ms() { awk '{print int($1 * 1000)}' /proc/uptime; }
"$B/faults/connect_flood" "$SYSOM_SOCKET_PATH" $FLOODER 300 >"$WORK/flood.log" 2>&1 &
flood=$!
busy() { [ "$(counter refused_busy_total)" -ge "$1" ]; }
ok "a flood of connections is refused" stack_wait 30 busy 1000
from_cpu=$(cpu_ms) from=$(now_ms) refused=$(counter refused_busy_total)
ok "and goes on" stack_wait 60 busy $((refused + 10000))
share=$(((100 * ($(cpu_ms) - from_cpu)) / ($(now_ms) - from)))
echo "# sysomd takes $share% of a CPU and refuses $((1000 * ($(counter refused_busy_total) - refused) / ($(now_ms) - from))) connections a second"
ok "sysomd takes less than 30% of a CPU meanwhile" [ "$share" -lt 30 ]
SYSOM_JOB=quiet setpriv --reuid $OTHER --regid $OTHER --clear-groups env HOME=/nonexistent "$WORK/copy/bin/sysom" run -- \
	"$WORK/copy/bin/simjob" --ranks 4 --seconds 3600 --seed 1 >"$WORK/job.log" 2>&1 &
job=$!
ok "the ranks of another user attach" stack_wait 20 attached 4
ok "and have steps" stack_wait 20 steps_are 20
refused=$(counter refused_busy_total)
ok "while the flood goes on" stack_wait 30 busy $((refused + 1))
kill -KILL "$flood"
wait "$flood" 2>/dev/null
end_job "$job"
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hostile_user.sh - one user's process maps files that are made to hurt whoever reads them, and a file system
# that never answers. sysomd, which is root's, serves everybody else as before, and ends when it is asked to.
. "$(dirname "$0")/lib.sh"
python3 tests/needs.py fuse >/dev/null || { echo "1..0 # SKIP needs fuse"; exit 77; }
chmod 755 "$WORK"
ok "the daemons start" stack_start "$WORK/stack"
"$BIN/sysom" run -- "$BIN/simjob" --ranks 1 --seconds 3600 >"$WORK/job.log" 2>&1 &
job=$!
ok "a job of root's is traced" stack_wait 20 steps_are 20
mkdir "$WORK/maps"
SYSOM_JOB=hostile "$BIN/sysom" run -- "$B/faults/hostile_maps" "$WORK/maps" 61236 3600 >"$WORK/hostile.log" 2>&1 &
hostile=$!
ok "the other user's process attaches" stack_wait 20 eval '[ "$(node_api status "[.ranks[] | select(.job | startswith(\"hostile\"))] | length")" = 1 ]'
given_up() { [ "$(node_api status '.readers | [.killed, .refused, .abandoned, .crashed] | map(. // 0) | add')" -ge 1 ]; }
ok "what reads its files is given up" stack_wait 30 given_up
before=$(node_api status .sampler.samples_total)
sampled_more() { [ "$(node_api status .sampler.samples_total)" -gt $((before + 20)) ]; }
ok "stacks are sampled on" stack_wait 30 sampled_more
ok "steps go on" steps_more 50
SYSOM_JOB=second "$BIN/sysom" run -- "$BIN/simjob" --ranks 2 --seconds 3600 >"$WORK/second.log" 2>&1 &
second=$!
ok "a new job attaches" stack_wait 20 eval '[ "$(node_api status "[.ranks[] | select(.job | startswith(\"second\"))] | length")" = 2 ]'
rss_kib=$(awk '/^VmHWM/ {print $2}' "/proc/$STACK_SYSOMD_PID/status")
echo "# sysomd's memory at most: $rss_kib KiB"
ok "sysomd's memory stays within its unit's bound" [ "$rss_kib" -lt 400000 ]
stopped=$STACK_SYSOMD_PID
kill -TERM "$stopped"
ended() { ! kill -0 "$stopped"; }
ok "sysomd ends when asked to, while readers hang" stack_wait 4 ended
STACK_SYSOMD_PID=
ok "sysomd starts again" stack_sysomd
keeper=$(ps -o pid=,comm= --ppid "$STACK_SYSOMD_PID" | awk '$2 == "sysom-keeper" {print $1}')
restarts=$STACK_SYSOMD_PID
kill -KILL "$keeper"
wait "$restarts" 2>/dev/null
code=$?
ok "without the keeper of its readers it ends with an error, so that systemd starts it again" eval \
	'[ $code = 3 ] && grep -q "the keeper of the reader processes died" "$STACK_DIR/sysomd.log"'
STACK_SYSOMD_PID=
kill -KILL "$hostile" 2>/dev/null
end_job "$job"
end_job "$second"
wait "$hostile" 2>/dev/null
umount -l "$WORK/maps/hang" 2>/dev/null
finish

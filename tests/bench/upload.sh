#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 8 simulated ranks, 1% of the steps of one rank slow: what leaves the node, and what sysomd costs.
# usage: upload.sh BUILD
. "$(dirname "$0")/../e2e/lib.sh"
trap 'stack_stop; rm -rf "$WORK"' EXIT
stack_start "$WORK/stack" || { cat "$WORK"/stack/*.log; exit 1; }
seconds=${UPLOAD_SECONDS:-60}
"$BIN/sysom" run --job bench-upload -- "$BIN/simjob" --ranks 8 --seconds "$seconds" --seed 5 \
	--fault "slow:rank=3:start=$((seconds * 2 / 3))s:steps=6:size=1.6" >/dev/null 2>&1 &
job=$!
sleep $((seconds - 3))
node_api status >"$WORK/status.json"
wait $job
sleep 6
node_api status >"$WORK/after.json"
jq -r -n --argjson seconds $((seconds - 3)) --slurpfile s "$WORK/status.json" --slurpfile a "$WORK/after.json" '
	$s[0] as $s | $a[0] as $a |
	($s.ranks | map(.steps) | add) as $steps | ($s.ranks | map(.events) | add) as $events |
	"  steps \($steps), flagged \($s.ranks | map(.flagged) | add), events \($events)",
	"  uploaded \($a.uplink.uploaded_bytes) of \($a.uplink.raw_bytes) ring bytes: \($a.uplink.uploaded_bytes / $a.uplink.raw_bytes * 1e4 | round / 1e2)% (budget 0.5%, StriaTrace 1.6%)",
	"  sysomd: \($s.own.cpu_share * 1e4 | round / 1e2)% of a core at \($events / $seconds | round) events/s (budget 3% at 100k/s), RSS \($s.own.rss_bytes / 1e6 | round) MB with the recorder (\($s.own.recorder_bytes / 1e6 | round) MB) and rings mapped (budget 100 MB without them)"'

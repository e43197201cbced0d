#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `sysom show` of an incident of up to 64 ranks takes: all of them get slow in one job of the simulated node, with stacks (root). The
# first build runs the job and keeps the incident, then the `sysom` of each reads it in turns: the oldest first, as it can't read newer
# windows. usage: show_ranks.sh BUILD [BUILD...]; SHOW_SECONDS, ROUNDS
B=$1
. "$(dirname "$0")/../e2e/lib.sh"
trap 'stack_stop; rm -rf "$WORK"' EXIT
stack_start "$WORK/stack" || { cat "$WORK"/stack/*.log; exit 1; }
seconds=${SHOW_SECONDS:-75}
"$BIN/sysom" run --job show64 -- "$BIN/simjob" --ranks 64 --seconds "$seconds" --seed 5 \
	--fault "slow:rank=all:start=$((seconds * 2 / 3))s:steps=400:size=1.8" >/dev/null 2>&1
sleep 8
id=$(api incidents '[.incidents[] | {id, n: (.ranks | length)}] | max_by(.n).id')
[ "$id" != null ] || { echo "  no incident"; exit 1; }
api "incidents/$id" '"  \(.ranks | length) ranks are slow; \(.windows | length) windows of \([.windows[].rank] | unique | length) ranks"'
for ((i = 0; i < ${ROUNDS:-7}; i++)); do
	for build in "$@"; do
		/usr/bin/time -f "$build %e %U %S %M" -a -o "$WORK/times" "$build/bin/sysom" show "$id" >/dev/null
	done
done
awk '{ n[$1]++; cpu[$1] += $3 + $4; wall[$1] = $2 > wall[$1] ? $2 : wall[$1]; kib[$1] = $5 > kib[$1] ? $5 : kib[$1] }
	END { for (b in n) printf "  %s: %.2f s of CPU, %.2f s by the clock at most, %d MiB\n", b, cpu[b] / n[b], wall[b], kib[b] / 1024 }' "$WORK/times"

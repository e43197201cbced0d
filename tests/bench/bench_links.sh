#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Error of the link model on measured collectives, beside one least-squares line: mean of
# |predicted - time| / time. Held out: rows that the fit has not seen. $1: the build directory.
set -eu
cd "$(dirname "$0")/../.."
data=${SYSOM_DATA:-../shared/data}
sysom=${1:-build/gcc}/bin/sysom

row() { # name, file, options...
	local name=$1 file=$2; shift 2
	if [ ! -r "$file" ]; then echo "$name: no $file (SYSOM_DATA)"; return; fi
	"$sysom" replay links --json "$file" "$@" | tail -n 1 | python3 -c "
import json, sys
s = json.load(sys.stdin)
print(f'{sys.argv[1]:34} {s[\"groups\"]:6} {s[\"rows\"]:6} {s[\"mape\"]:8.1%} {s[\"held_out_mape\"]:9.1%} {s[\"plain_mape\"]:8.1%}')" "$name"
}
printf '%-34s %6s %6s %8s %9s %8s\n' data groups rows mape 'held out' plain
for f in "$data"/nccl-aiconfigurator/*.csv; do
	row "$(basename "$f" .csv)" "$f" --key op_name,nccl_dtype,num_gpus --bytes message_size --latency latency \
		--latency-unit ms
done
for f in a100_dgx:all_reduce h100_dgx:send_recv; do
	row "${f%:*} ${f#*:} (Vidur)" "$data/vidur-profiles/network__${f%:*}__${f#*:}.csv.gz" \
		--key num_workers,devices_per_node --bytes size --latency "time_stats.${f#*:}.median" \
		--latency-unit ms
done

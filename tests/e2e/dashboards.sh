#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dashboards.sh - a Prometheus with the scrape jobs of deploy/README.md watches a job with a slow rank, a serving engine
# whose requests are late, and a job with transfers to another node, on a simulated node with simulated NVML. It has a
# series for each query of each panel of the Grafana dashboards.
# needs: command:prometheus
. "$(dirname "$0")/lib.sh"
PROMETHEUS_PID=
JOB_PID=
SERVE_PID=
LINKS_PID=
done_with() { # SIGTERM, and wait
	[ -z "$1" ] || { kill -TERM "$1" && wait "$1"; } 2>/dev/null
}
trap 'done_with "$JOB_PID"; done_with "$SERVE_PID"; done_with "$LINKS_PID"; done_with "$PROMETHEUS_PID"; finish' EXIT

ok "the dashboards are what the table says" python3 tools/dashboards.py --check
# From the files that Grafana reads, with its variables as it replaces them.
# shellcheck disable=SC2016
jq -r '.uid as $d | .panels[] | .title as $t | .targets[] | [$d, $t, .expr] | @tsv' deploy/grafana/*.json |
	sed -e 's/\\\\/\\/g' -e 's/\$__rate_interval/20s/g' -e 's/\$\(job_name\|rank\|instance\)/.*/g' >"$WORK/queries"
ok "they have at least 30 queries" test "$(wc -l <"$WORK/queries")" -ge 30

export SIM_NVML_FILE=$WORK/nvml
echo "2.sm_clock_mhz 1700" >"$SIM_NVML_FILE"
STACK_SYSOMD_FLAGS="--gpu-library $PWD/$B/lib/sim/libnvidia-ml.so.1 --requests-ttft 1ms"
ok "an aggregator and a sysomd" stack_start "$WORK/stack" || exit
cat >"$WORK/prometheus.yml" <<YML
global: {scrape_interval: 1s}
rule_files: [$PWD/deploy/prometheus/rules.yml]
scrape_configs:
  - job_name: sysom-aggregator
    static_configs: [{targets: ["127.0.0.1:$STACK_HTTP"]}]
  - job_name: sysomd
    static_configs: [{targets: ["127.0.0.1:$STACK_NODE_HTTP"]}]
YML
PORT=$(free_ports 1)
prometheus --config.file "$WORK/prometheus.yml" --storage.tsdb.path "$WORK/tsdb" \
	--web.listen-address "127.0.0.1:$PORT" >"$WORK/prometheus.log" 2>&1 &
PROMETHEUS_PID=$!
series() { # query : how many series it has
	curl -sf -m 10 "http://127.0.0.1:$PORT/api/v1/query" --data-urlencode "query=$1" | jq '.data.result | length'
}
has() { # query, at least so many series
	[ "$(series "$1")" -ge "${2:-1}" ]
}
ok "Prometheus reads both daemons" stack_wait 20 has 'up == 1' 2
"$BIN/sysom" run --job demo -- "$BIN/simjob" --ranks 4 --seconds 600 --seed 7 \
	--fault slow:rank=2:start=14s:steps=60:size=1.8 >"$WORK/job.log" 2>&1 &
JOB_PID=$!
SIM_LIB=$PWD/$B/lib/sim "$BIN/sysom" run --job serve -- /usr/bin/python3 sim/serve_sim.py --seconds 600 >"$WORK/serve.log" 2>&1 &
SERVE_PID=$!
"$B/test/link_caller" --serve 127.0.0.1 >"$WORK/port" 2>"$WORK/far.log" &
stack_wait 10 test -s "$WORK/port"
RANK=0 WORLD_SIZE=2 "$BIN/sysom" run --job links -- "$B/test/link_caller" 127.0.0.1 "$(cat "$WORK/port")" 3600 >"$WORK/links.log" 2>&1 &
LINKS_PID=$!
ok "it sees the incident of the slow rank" stack_wait 40 has sysom_incident_open
types() { { curl -sf "$SYSOM_URL/metrics"; curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/metrics"; } | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p'; }
types | sort -u >"$WORK/types"
cut -f3 "$WORK/queries" | grep -oE '\bsysom_[a-z_]+' | sort -u >"$WORK/asked"
ok "the daemons have each metric" is "$(comm -13 "$WORK/types" "$WORK/asked")" ""
while IFS=$'\t' read -r dashboard title query; do
	ok "$dashboard: $title" stack_wait 30 has "$query"
done <"$WORK/queries"
ok "and none for a metric that does not exist" is "$(series sysom_no_such_metric)" 0

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fleet.sh - beats alone, without any window, lead to an incident that names the slow rank; the nodes are
# asked for windows; what lasts over a restart of the aggregator goes on in the same incident.
. "$(dirname "$0")/lib.sh"
CLIENT=$B/parts/aggregator_client
read -r -a ports <<<"$(free_ports 2)"
STACK_DIR=$WORK/stack
STACK_NNG=tcp://127.0.0.1:${ports[0]}
STACK_HTTP=${ports[1]}
export SYSOM_URL=http://127.0.0.1:$STACK_HTTP
mkdir -p "$STACK_DIR"
metric() { curl -sf "$SYSOM_URL/metrics" | grep -F "sysom_aggregator_$1 " | cut -d' ' -f2; }
suspects() { [ "$(api 'roles?job=fleet' '.roles[0].suspects | join(",")' 2>/dev/null)" = "$1" ]; }
blamed() { [ "$(api 'incidents?job=fleet' '.incidents[0].ranks | join(",")' 2>/dev/null)" = "$1" ]; }

ok "starts" stack_aggregator
"$CLIENT" job "$STACK_NNG" fleet 8 5 3600 >"$WORK/commands" 2>"$WORK/client.log" &
JOB=$!
ok "the slow rank is found" stack_wait 60 suspects 5
ok "it is blamed in an incident" stack_wait 30 blamed 5
ok "nobody else is" is "$(api 'incidents?job=fleet' '[.incidents[].ranks[]] | unique | join(",")')" 5
ok "the nodes are asked to hold, and asked for windows" stack_wait 30 grep -q 'kind=1 rank=5' "$WORK/commands"
both_hold() { [ "$(grep 'kind=2' "$WORK/commands" | sort -u | wc -l)" = 2 ]; }
ok "both nodes hold" stack_wait 10 both_hold
peers_asked() { [ "$(grep 'kind=1' "$WORK/commands" | grep -vc rank=5)" -ge 1 ]; }
ok "healthy peers are asked" stack_wait 10 peers_asked
ok "a node is asked about its own ranks only" \
	test -z "$(awk -F'[= ]' '$4 == 1 && ($6 < 4) != ($2 == "n0")' "$WORK/commands")"
served() {
	[ "$(api 'jobs' '.jobs[0].ranks')$(api 'roles?job=fleet' '.roles[0].ranks | length')$(
		api 'waterline?job=fleet' .sketches)$(api 'baselines?job=fleet' '.baselines | length')" = 8800 ]
}
ok "roles, jobs, waterline and baselines are served" stack_wait 5 served
ok "a job that is not known is none" is "$(curl -s -o /dev/null -w '%{http_code}' "$SYSOM_URL/api/v1/roles?job=x")" 404
ok "the metrics count it" test "$(metric 'detected_total{kind="slow_rank"}')" -ge 1
incident() { api 'incidents?job=fleet' '.incidents | map(.id + " " + .state + " " + (.begin_unix_ns | tostring)) | join(",")'; }
reported_until() { api 'incidents?job=fleet' '.incidents[0].end_unix_ns'; }
goes_on() { [ "$(reported_until)" -gt "$until" ]; }
kill -KILL "$STACK_AGGREGATOR_PID"
wait "$STACK_AGGREGATOR_PID" 2>/dev/null
sleep 8 # longer than incident.gap
ok "starts again" stack_aggregator
before=$(incident)
until=$(reported_until)
echo "# reported until $until: $before"
ok "the fleet is known again, and the slow rank with it" stack_wait 60 suspects 5
ok "it is reported again" stack_wait 30 goes_on
echo "# reported until $(reported_until)"
ok "of the same incident, which is open since then" is "$(incident)" "$before"
kill $JOB 2>/dev/null
wait $JOB 2>/dev/null
finish

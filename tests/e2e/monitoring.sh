#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# monitoring.sh - the alert rules are right for promtool, each leads to a section of the runbook, and both
# daemons have the metrics that they ask for. An incident without a webhook is on /metrics, with its page.
# needs: command:promtool
. "$(dirname "$0")/lib.sh"
RULES=deploy/prometheus/rules.yml
metrics() { curl -sf "$SYSOM_URL/metrics" && curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/metrics"; }
open_incident() { curl -sf "$SYSOM_URL/metrics" | grep '^sysom_incident_open{'; }
has_sections() {
	local bad=0 name
	for name in $(sed -n 's/^ *- alert: //p' $RULES); do
		grep -qx "## $name" docs/runbook.md || { echo "# docs/runbook.md has no $name"; bad=1; }
	done
	for name in $(sed -n 's/.*runbook_url:.*#//p' $RULES); do
		grep -qix "## $name" docs/runbook.md || { echo "# no section for $name"; bad=1; }
	done
	return $bad
}
has_metrics() { # name of each metric that a file asks for, one a line
	local bad=0 name
	metrics | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' | sort -u >"$WORK/types"
	while read -r name; do
		grep -qx "$name" "$WORK/types" || { echo "# no daemon has $name"; bad=1; }
	done
	return $bad
}
trap finish EXIT

ok "promtool takes the rules" promtool check rules $RULES
ok "each fires when it should, and only then" promtool test rules deploy/prometheus/rules_test.yml
ok "each alert leads to its section of the runbook" has_sections

ok "an aggregator and a sysomd" stack_start "$WORK/stack"
grep -v '^ *#' $RULES | grep -oE '\bsysom_[a-z_]+' | grep -v '^sysom_incident_open$' | sort -u >"$WORK/asked"
ok "the rules ask for some metrics" test "$(wc -l <"$WORK/asked")" -ge 10
ok "the daemons have all metrics of the rules" has_metrics <"$WORK/asked"
metrics_are_sound "the aggregator's are sound" curl -sf "$SYSOM_URL/metrics"
ok "no incident is open" is "$(open_incident | wc -l)" 0
ok "a fault arrives" "$B/parts/aggregator_client" fault "$STACK_NNG" demo 8 5
ok "its incident is on /metrics, without a webhook" stack_wait 20 open_incident
ID=$(open_incident | sed -n 's/.*incident="\([0-9a-f]*\)".*/\1/p')
ok "by the API's id" is "$ID" "$(api 'incidents?job=demo' '.incidents[0].id')"
ok "with its rank" grep -q 'ranks="5"' <(open_incident)
ok "the rule's runbook_url is its page" grep -qF '<h1>rank 5 ' <(curl -sf "$SYSOM_URL/incidents/$ID")
metrics_are_sound "the metrics are still sound" curl -sf "$SYSOM_URL/metrics"

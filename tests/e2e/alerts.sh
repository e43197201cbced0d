#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# alerts.sh - an incident reaches a webhook as one alert that fires and is resolved, through an outage of
# the receiver and without holding a window up; the feed has each write of it once.
. "$(dirname "$0")/lib.sh"
CLIENT=$B/parts/aggregator_client
read -r -a ports <<<"$(free_ports 3)"
STACK_DIR=$WORK/stack
STACK_NNG=tcp://127.0.0.1:${ports[0]}
STACK_HTTP=${ports[1]}
export SYSOM_URL=http://127.0.0.1:$STACK_HTTP
export SYSOM_ALERT_WEBHOOK=http://127.0.0.1:${ports[2]}/api/v2/alerts SYSOM_ALERT_LINK=$SYSOM_URL
export SYSOM_ALERT_REPEAT=1s SYSOM_INCIDENT_SILENCE=15s
mkdir -p "$STACK_DIR"
A=$WORK/alerts
metric() { curl -sf "$SYSOM_URL/metrics" | sed -n "s/^sysom_aggregator_$1 //p"; }
count() { [ -f "$1" ] && wc -l <"$1" || echo 0; }
has_refused() { [ "$(count "$A.refused")" -ge 1 ]; }
has_fired() { [ "$(count "$A")" -ge 2 ]; } # the second is the repeat
is_closed() { [ "$(api 'incidents?job=demo' '.incidents[0].state')" = closed ]; }
is_resolved() { jq -es 'any(.[]; .endsAt <= $now)' --arg now "$(date -u +%FT%T.999Z)" "$A" >/dev/null; }

trap finish EXIT
ok "starts without a receiver" stack_aggregator
ok "windows are acknowledged meanwhile" "$CLIENT" fault "$STACK_NNG" demo 8 5
python3 tests/e2e/alert_receiver.py "${ports[2]}" "$A" refuse &
disown
ok "what the receiver refuses is tried again" stack_wait 20 has_refused
touch "$A.open"
ok "the alert fires, and again before it expires" stack_wait 70 has_fired
ok "the receiver found nothing wrong" test ! -e "$A.bad"
ID=$(api 'incidents?job=demo' '.incidents[0].id')
ok "it is the incident's" is "$(head -1 "$A" | jq -r '.labels.incident')" "$ID"
ok "its labels are the same each time" is "$(jq -c .labels "$A" | sort -u | wc -l)" 1
ok "its start is, too" is "$(jq -c .startsAt "$A" | sort -u | wc -l)" 1
ok "it names job, ranks and cause" is \
	"$(head -1 "$A" | jq -r '[.labels.job, .annotations.ranks, (.annotations.cause | length > 0)] | join(" ")')" \
	"demo 5 true"
curl -sf -D "$WORK/page.head" -o "$WORK/page" "$(head -1 "$A" | jq -r .generatorURL)"
ok "it links to a page for people" grep -qi '^content-type: text/html' "$WORK/page.head"
ok "which names the rank" grep -qF '<h1>rank 5 ' "$WORK/page"
ok "and has the verdict" grep -qF 'id="verdict"' "$WORK/page"
ok "and no script" is "$(grep -ci '<script' "$WORK/page")" 0
ok "the start of an id is enough" curl -sf -o /dev/null "$SYSOM_URL/incidents/${ID:0:6}"
curl -sf "$SYSOM_URL/incidents" >"$WORK/list"
ok "the list of incidents links to it, and has its verdict" bash -c 'grep -qF "<a href=\"incidents/$0\"><b>rank 5 " "$1" && grep -qF "job demo" "$1"' "$ID" "$WORK/list"
ok "and it links to the list" grep -qF '<a href="../incidents">' "$WORK/page"
ok "a job without incidents has none there" grep -qF "No incidents." <(curl -sf "$SYSOM_URL/incidents?job=nope")
ok "another incident's page is not there" is "$(curl -s -o /dev/null -w '%{http_code}' "$SYSOM_URL/incidents/zz")" 404
ok "the incident is cleared" stack_wait 40 is_closed
ok "the alert is resolved" stack_wait 40 is_resolved
RESOLVED=$(count "$A")
sleep 2.5 # more than two repeats
ok "and not sent again" is "$(count "$A")" "$RESOLVED"
ok "no alert fires" is "$(metric alerts_firing)" 0
ok "what failed was counted" test "$(metric 'alert_posts_total{outcome="failed"}')" -ge 2

curl -sf "$SYSOM_URL/api/v1/feed" >"$WORK/feed"
ok "the feed has the incident once, as it was written last" is "$(jq -c '[.id, .life]' "$WORK/feed")" "[\"$ID\",\"cleared\"]"
ok "it says what it cost and how long it took" jq -e '.gpu_hours_lost >= 0 and .duration_s > 0' "$WORK/feed"
SINCE=$(jq -r .updated_unix_ns "$WORK/feed")
ok "nothing is new after it" is "$(curl -sf "$SYSOM_URL/api/feed?since=$SINCE" | wc -c)" 0
"$CLIENT" flood "$STACK_NNG" 8 50 1 7 "$WORK/acked" >/dev/null
ok "another incident is" is "$(curl -sf "$SYSOM_URL/api/v1/feed?since=$SINCE" | jq -r .job | tail -1)" flood
ok "a time that is none is refused" is \
	"$(curl -s -o /dev/null -w '%{http_code}' "$SYSOM_URL/api/v1/feed?since=x")" 400
kill -TERM "$STACK_AGGREGATOR_PID"
wait "$STACK_AGGREGATOR_PID"
ok "ends with 0" is $? 0
STACK_AGGREGATOR_PID=

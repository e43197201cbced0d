#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# otlp.sh - both daemons send their metrics to an OTLP receiver that decodes them by OpenTelemetry's own definitions: the
# same series as on their pages, through an outage and a refusal of the receiver.
. "$(dirname "$0")/lib.sh"
trap finish EXIT
for need in file:tests/kubernetes/node_modules/protobufjs module:prometheus_client; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "metrics to an OTLP receiver" "needs $need"; exit; }
done
read -r -a ports <<<"$(free_ports 1)"
GOT=$WORK/got
TOKEN=$WORK/token
(umask 077 && echo "the-token" >"$TOKEN")
export SYSOM_OTLP_URL=http://127.0.0.1:${ports[0]} SYSOM_OTLP_INTERVAL=1s SYSOM_OTLP_TOKEN=$TOKEN
receive() {
	node tests/kubernetes/otlp_receiver.mjs "${ports[0]}" "$GOT" the-token >"$WORK/receiver.log" 2>&1 &
	RECEIVER=$!
	disown
}
sent_by() { [ "$(grep -c "\"stringValue\":\"$1\"" "$GOT")" -ge "$2" ]; } # service count
pages() { # service: its page of metrics
	curl -sf "http://127.0.0.1:$([ "$1" = sysomd ] && echo "$STACK_NODE_HTTP" || echo "$STACK_HTTP")/metrics"
}
same_metrics() { # service: those of a request that begins after the page
	local before
	pages "$1" >"$WORK/page"
	before=$(grep -c "\"stringValue\":\"$1\"" "$GOT")
	stack_wait 10 sent_by "$1" $((before + 2)) && /usr/bin/python3 tests/e2e/otlp.py "$WORK/page" "$GOT" "$1" >"$WORK/otlp.log" 2>&1
}
latest() { # service: its latest metrics, which may be of several requests
	grep "\"stringValue\":\"$1\"" "$GOT" | tail -n 8 | jq -cs '[.[].resourceMetrics[].scopeMetrics[] |
		{at: (.metrics[0] | (.sum // .gauge).dataPoints[0].timeUnixNano), metrics}] | (map(.at) | max) as $last |
		.[] | select(.at == $last).metrics[]'
}
count_of() { pages "$1" | sed -n "s/^sysom_otlp_requests_total{result=\"$2\"} //p"; } # service result
failed() { [ "$(count_of "$1" failed)" -ge 1 ]; }

ok "the daemons start without a receiver" stack_start "$WORK/stack"
ok "a failure is counted" stack_wait 20 failed sysomd
ok "and doctor names it" bash -c '"$0" doctor | grep -q "^warn.*metrics by OTLP.*failed.*: "' "$BIN/sysom"
ok "the log says why, once" is "$(grep -c 'event=otlp.*why=' "$WORK/stack/sysomd.log")" 1
receive
LD_PRELOAD=$PWD/$B/lib/libsysom_preload.so LD_LIBRARY_PATH=$B/lib/sim \
	"$BIN/simjob" --ranks 4 --seconds 600 --seed 3 >"$WORK/job.log" 2>&1 &
JOB=$!
"$B/test/link_caller" --serve 127.0.0.1 >"$WORK/port" 2>"$WORK/serve.log" &
stack_wait 10 test -s "$WORK/port"
RANK=0 WORLD_SIZE=2 "$BIN/sysom" run --job links -- "$B/test/link_caller" 127.0.0.1 "$(cat "$WORK/port")" 3600 >"$WORK/links.log" 2>&1 &
LINKS=$!
ok "four ranks run, and one with transfers" stack_wait 60 known 5
for service in sysomd sysom-aggregator; do
	ok "$service sends the series of its page" stack_wait 40 same_metrics $service
	sed 's/^/# /' "$WORK/otlp.log"
done
ok "with those of ranks" grep -q '"name":"sysom_rank_steps_total"' "$GOT"
links() { # the seven series of a job's links and collectives
	[ "$(latest sysomd | jq -r 'select((.name | test("^sysom_(link|collective)s?_")) and ([.. | .stringValue? // empty | select(startswith("links@"))] |
		length > 0)) | .name' | sort -u | wc -l)" = 7 ]
}
ok "of links and of collectives" stack_wait 10 links
ok "seconds have their unit" stack_wait 30 grep -q '"name":"sysom_rank_self_excess_seconds"[^{]*"unit":"s"' "$GOT"
ok "what is sent can be decoded" test ! -e "$GOT.bad"
echo 503 >"$GOT.refuse"
refused() { [ "$(count_of sysomd dropped)" -gt "$1" ]; }
ok "while the receiver is overloaded, new metrics replace those that wait" stack_wait 30 refused "$(count_of sysomd dropped)"
rm "$GOT.refuse"
LINES=$(wc -l <"$GOT")
again() { [ "$(wc -l <"$GOT")" -gt "$LINES" ]; }
ok "afterwards they arrive again" stack_wait 30 again
echo "wrong" >"$TOKEN"
not_let_in() { grep -q 401 "$GOT.refused"; }
ok "a wrong token is refused" stack_wait 20 not_let_in
echo "the-token" >"$TOKEN"
LINES=$(wc -l <"$GOT")
ok "a new one needs no restart" stack_wait 30 again
of_jobs='select(.name | startswith("sysom_incident_") | not) | (.sum // .gauge).dataPoints[].attributes[]? | select(.key == "job_name")'
has_job() { # service: whether its page, or its latest metrics, have a series of a job that is not an incident's
	pages "$1" | grep -v '^sysom_incident_' | grep -q 'job_name="' || [ -n "$(latest "$1" | jq -c "$of_jobs")" ]
}
over() { ! has_job "$1"; }
for service in sysomd sysom-aggregator; do
	ok "$service has series of jobs while they run" has_job $service
done
ok "the job ends as without us" end_job $JOB
kill "$LINKS"
for service in sysomd sysom-aggregator; do
	ok "$service has none of them, nor sends one, when they are over" stack_wait 10 over $service
done
kill "$RECEIVER"
ok "the daemons end without the receiver" stack_stop

refuses() { # words...: the daemon does not start, and says why
	! "$BIN/sysomd" --uplink-url "" --state-dir "$WORK/state" "$@" >"$WORK/refused.log" 2>&1 && grep -q "otlp\." "$WORK/refused.log"
}
unset SYSOM_OTLP_URL SYSOM_OTLP_TOKEN
ok "a URL that is none is refused" refuses --otlp-url collector:4318
ok "a token is not sent in the clear to another machine" refuses --otlp-url http://192.0.2.1:4318 --otlp-token "$TOKEN"

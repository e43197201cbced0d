#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slow_readers.sh - 700 HTTP clients that ask much and read little keep nobody else from the aggregator, nor from sysomd.
# alone: the clients take all CPUs
. "$(dirname "$0")/lib.sh"
ok "the daemons start" stack_start "$WORK/stack"
shut() { # port: connections that the server has ended for others, by its own count
	curl -sf -m 60 "http://127.0.0.1:$1/metrics" | awk '$1 ~ /_http_evicted_total$/ {print $2}'
}
for daemon in "the aggregator $STACK_HTTP" "sysomd $STACK_NODE_HTTP"; do
	port=${daemon##* } daemon=${daemon% *}
	python3 tests/e2e/slow_readers.py "$port" 700 /metrics >"$WORK/slow.log" 2>&1 &
	slow=$!
	ok "700 clients ask $daemon" stack_wait 20 grep -q asked "$WORK/slow.log"
	healthy=0
	for i in 1 2 3 4 5; do
		curl -sf -m 20 "http://127.0.0.1:$port/healthz" >/dev/null && healthy=$((healthy + 1))
	done
	ok "five probes are answered meanwhile" is $healthy 5
	ok "and other questions" stack_wait 20 curl -sf -m 60 -o /dev/null "http://127.0.0.1:$port/api/v1/status"
	some_shut() { [ "$(shut "$port")" -gt 0 ]; }
	ok "clients that do not read make room" stack_wait 20 some_shut
	ok "which go on all the time" kill -0 $slow
	kill -KILL $slow
	wait $slow 2>/dev/null
done
finish

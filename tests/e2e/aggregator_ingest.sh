#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# aggregator_ingest.sh - what was acknowledged is there exactly once: through duplicates, kill -9,
# garbage and messages above the limit; an incident survives a restart.
. "$(dirname "$0")/lib.sh"
CLIENT=$B/parts/aggregator_client
read -r -a ports <<<"$(free_ports 2)"
STACK_DIR=$WORK/stack
STACK_NNG=tcp://127.0.0.1:${ports[0]}
STACK_HTTP=${ports[1]}
export SYSOM_URL=http://127.0.0.1:$STACK_HTTP
mkdir -p "$STACK_DIR"

# Every id of a file is one row with its body, and the store holds no more windows than it should.
stored_once() { # ids count
	python3 - "$STACK_DIR/store/store.db" "$1" "$2" <<-'PY'
		import sqlite3, sys
		db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
		rows = [(r[0].hex(), r[1]) for r in db.execute(
		    "SELECT w.id, LENGTH(b.body)=w.bytes FROM windows w JOIN bodies b USING(seq) WHERE job='flood'")]
		ids = [r[0] for r in rows]
		acked = set(open(sys.argv[2]).read().split())
		missing = acked - set(ids)
		bad = len(ids) - len(set(ids)), len(missing), sum(not r[1] for r in rows)
		print(f"# acked={len(acked)} stored={len(ids)} twice={bad[0]} missing={bad[1]} cut={bad[2]}")
		sys.exit(any(bad) or len(acked) != int(sys.argv[3]))
	PY
}
metric() { curl -sf "$SYSOM_URL/metrics" | sed -n "s/^sysom_aggregator_$1 //p"; }

ok "starts" stack_aggregator
ok "a beat is acknowledged" "$CLIENT" beat "$STACK_NNG" demo 8
ok "ranks come from beats" is "$(api 'ranks?job=demo' '.ranks | length')" 8
ok "the windows of a fault are acknowledged once" "$CLIENT" fault "$STACK_NNG" demo 8 5
api 'incidents?job=demo' >"$WORK/incidents.json"
ok "they make one incident" is "$(jq '.incidents | length' "$WORK/incidents.json")" 1
ok "the culprit is named" is "$(jq -c '.incidents[0].ranks' "$WORK/incidents.json")" "[5]"
ok "the others waited" is "$(jq -c '.incidents[0].victims' "$WORK/incidents.json")" "[0,1,2,3,4,6,7]"
ID=$(jq -r '.incidents[0].id' "$WORK/incidents.json")

"$CLIENT" flood "$STACK_NNG" 1500 400 6 7 "$WORK/acked" >"$WORK/flood.out" 2>&1 &
FLOOD=$!
for cut in 1 2 3; do
	sleep 0.1
	kill -KILL "$STACK_AGGREGATOR_PID"
	wait "$STACK_AGGREGATOR_PID" 2>/dev/null
	stack_aggregator || break
done
wait $FLOOD
ok "a flood gets through three kills" is $? 0
sed 's/^/# /' "$WORK/flood.out"
ok "every acknowledged window is there exactly once" stored_once "$WORK/acked" 1500
ok "the incident survived, and is one" is "$(api 'incidents?job=demo' '[.incidents[].id] | join(",")')" "$ID"
ok "the flood is one incident" is "$(api 'incidents?job=flood' '.incidents | length')" 1
ok "which counts every window" is "$(api 'incidents?job=flood' '.incidents[0].window_count')" 1500
"$CLIENT" fault "$STACK_NNG" demo 8 5 >/dev/null # all known by now
ok "windows sent again after a restart count once" is "$(api 'incidents?job=demo' '.incidents[0].window_count')" 16
WINDOW=$(api "incidents/$ID" '.windows[0].id')
ok "a window comes back as it was sent" test "$(curl -sf "$SYSOM_URL/api/v1/windows/$WINDOW" | wc -c)" = \
	"$(api "incidents/$ID" '.windows[0].bytes')"
ok "a node's windows come by the connection of its beats" "$CLIENT" impostor "$STACK_NNG" impostor
ok "and another sysomd of its name while that lasts is refused" test "$(metric 'refused_total{reason="node"}')" -ge 1
ok "garbage is rejected" "$CLIENT" garbage "$STACK_NNG" 200 3
ok "and counted" test "$(metric 'windows_total{status="reject"}')" -gt 50
ok "windows of impossible times, too" is "$(metric windows_unsound_total)" 40
ok "a message above the limit is not answered" timeout 10 "$CLIENT" oversize "$STACK_NNG"
ok "and hurts nobody" "$CLIENT" beat "$STACK_NNG" demo 8
ok "SIGTERM ends it with 0" stack_end sysom-aggregator "$STACK_AGGREGATOR_PID"

# ---- a job has its quota ----
STACK_AGGREGATOR_FLAGS="--store-job-max-bytes 1MB"
ok "it starts with a quota" stack_aggregator
ok "sysom doctor says that no job is beyond it" eval '"$BIN/sysom" doctor | grep -q "ok *quotas of jobs *no job is beyond its quota$"'
trimmed() { [ "$(api status .quota_windows)" -gt 100 ] && [ "$(api status .largest_job_bytes)" -le 1000000 ]; }
ok "the large job loses its oldest windows" stack_wait 20 trimmed
ok "and is still the largest" is "$(api status .largest_job)" flood
expired() { curl -s -o /dev/null -w '%{http_code}' "$SYSOM_URL/api/v1/windows/$1"; }
ok "the small one keeps all of its own" is "$(for w in $(api "incidents/$ID" '.windows[].id'); do expired "$w"; echo; done | sort | uniq -c | xargs)" "16 200"
ok "metrics count it" test "$(metric 'quota_removed_total{kind="window"}')" -gt 100
ok "sysom doctor tells it" eval '"$BIN/sysom" doctor | grep -q "warn *quotas of jobs *[0-9]* windows lost their evidence"'
ok "for the cluster, too" eval '"$BIN/sysom" doctor --cluster | grep -q "^store: .* evidence of flood; of jobs beyond their quota"'
finish

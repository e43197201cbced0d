#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# answers.sh - of what the API and the commands answer as JSON a reader that keeps numbers as doubles loses
# nothing; a restart on the same store changes no byte of a closed incident; the beginning of an id is enough.
# long: waits until incidents close
. "$(dirname "$0")/lib.sh"
CLIENT=$B/parts/aggregator_client
STACK_AGGREGATOR_FLAGS="--incident-gap 1s --incident-silence 2s"
JOBS=10
trap finish EXIT
stack_start "$WORK/stack" || { ok "daemons start" false; exit; }

doubles() { # text command... : whose output is JSON
	local text=$1
	shift
	"$@" >"$WORK/json" 2>"$WORK/err"
	ok "$text" python3 tests/e2e/doubles.py <"$WORK/json"
}
closed() { [ "$(api 'incidents?limit=1000&state=closed' '.incidents | length')" -ge "$1" ]; }
blamed() { [ "$(api 'incidents?job=fleet' '.incidents[0].findings | length')" -ge 1 ]; }

"$CLIENT" job "$STACK_NNG" fleet 8 5 3600 >/dev/null 2>&1 &
fleet=$!
sent=0
for ((k = 0; k < JOBS; k++)); do # the nodes have one name: until their last connection has ended they are refused
	for ((try = 0; try < 50; try++)); do
		timeout 20 "$CLIENT" beat "$STACK_NNG" "fault$k" 8 | grep -q 'status=0' && break
		sleep 0.1
	done
	timeout 20 "$CLIENT" fault "$STACK_NNG" "fault$k" 8 $((k % 8)) >/dev/null || sent=1
done
ok "the windows of $JOBS faults are acknowledged" is $sent 0
ok "they are as many closed incidents" stack_wait 20 closed $JOBS
ok "beats lead to a finding" stack_wait 60 blamed
ID=$(api 'incidents?job=fault0' '.incidents[0].id')
OTHER=$(api 'incidents?job=fault1' '.incidents[0].id')

# ---- numbers ----
for path in status ranks jobs 'roles?job=fleet' 'kinds?job=fleet' 'waterline?job=fleet' \
	'incidents?limit=1000' "incidents/$ID" feed symbols/status; do
	doubles "GET ${path%%\?*} loses nothing" curl -sf "$SYSOM_URL/api/v1/$path"
done
doubles "GET status of sysomd loses nothing" curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/api/v1/status"
for command in status "top --once" "incidents --all" "show $ID" "show fleet" "trace $ID -o $WORK/x.json" \
	"report $ID -o $WORK/x.html" "diff $ID $OTHER" doctor "doctor --thresholds" \
	"wait-incident --any --job fault0" "record --seconds 0.2 -o $WORK/x.folded -- sha1sum /dev/zero"; do
	# shellcheck disable=SC2086
	set -- $command
	doubles "sysom $1 --json loses nothing" "$BIN/sysom" "$1" --json "${@:2}"
done
# Times of a day, as traces may have them.
python3 - >"$WORK/trace.csv" <<-'PY'
	print("ts_ns,dur_ns,kind,device,stream,corr,bytes,name")
	for step in range(60):
	    for k in range(4):
	        at = 1795229412000000001 + step * 10_000_000 + k * 2_000_000
	        print(f"{at},50000,api,,,{4 * step + k + 1},,cudaLaunchKernel\n{at + 60000},1500000,kernel,0,7,{4 * step + k + 1},,gemm{k}")
PY
doubles "sysom replay events --json loses nothing" "$BIN/sysom" replay events --json "$WORK/trace.csv"
ok "and its times are exact" grep -qE '"begin_ns":"17952294[0-9]{11}"' "$WORK/json"
doubles "sysom replay events --live --json loses nothing" "$BIN/sysom" replay events --json --live "$WORK/trace.csv"
since=$(curl -sf "$SYSOM_URL/api/v1/feed?limit=5" | tail -1 | jq -r .updated_unix_ns)
ok "the feed goes on behind the time that it gave" test -z "$(comm -12 \
	<(curl -sf "$SYSOM_URL/api/v1/feed?limit=5" | jq -r .updated_unix_ns | sort) \
	<(curl -sf "$SYSOM_URL/api/v1/feed?since=$since" | jq -r .updated_unix_ns | sort))"

# ---- the beginning of an id ----
others=$(api 'incidents?limit=1000' '.incidents[].id' | grep -v "^$ID")
for ((digits = 5; digits < 8; digits++)); do
	grep -q "^${ID:0:$digits}" <<<"$others" || break
done
SHORT=${ID:0:$digits}
echo "# $SHORT is enough of $ID"
same() { # command with the whole id as ID, and the same with its beginning
	"$BIN/sysom" "${@//ID/$ID}" >"$WORK/whole" 2>&1
	local status=$?
	"$BIN/sysom" "${@//ID/$SHORT}" >"$WORK/begun" 2>&1
	is $? $status && diff "$WORK/whole" <(sed "s/\b$SHORT\b/$ID/g" "$WORK/begun") | sed 's/^/# /'
	return "${PIPESTATUS[0]}"
}
for command in "show ID" "show ID --json" "trace ID -o -" "report ID -o -" "flame ID -o -" "diff ID ID" "diff ID:0 ID:1"; do
	# shellcheck disable=SC2086
	ok "the beginning of an id is enough: $command" same $command
done
"$BIN/sysom" show "" >"$WORK/out" 2>&1
ok "nothing is not" is $? 1
first=$(api 'incidents?limit=1000' '.incidents[].id' | cut -c1 | sort | uniq -d | head -1)
ok "a beginning of several is refused" grep -q "give more digits" <("$BIN/sysom" show "$first" 2>&1)

# ---- a restart ----
kill -TERM $fleet
wait $fleet 2>/dev/null
over() { [ "$(api 'incidents?limit=1000&state=open' '.incidents | length')" = 0 ]; }
ok "every incident is closed" stack_wait 60 over
answers() { # directory: what is said of each incident
	mkdir "$1"
	"$BIN/sysom" incidents --all --json --limit 1000 >"$1/incidents"
	curl -sf "$SYSOM_URL/api/v1/feed?limit=1000" >"$1/feed"
	for id in $(api 'incidents?limit=1000' '.incidents[].id'); do
		"$BIN/sysom" show "$id" --json >"$1/$id.json"
		"$BIN/sysom" show "$id" >"$1/$id.text"
		"$BIN/sysom" report "$id" -o "$1/$id.html" >/dev/null
	done
}
answers "$WORK/before"
ok "there are more than $JOBS" test "$(ls "$WORK/before" | wc -l)" -gt $((3 * JOBS))
for signal in TERM KILL; do
	kill -$signal "$STACK_AGGREGATOR_PID"
	wait "$STACK_AGGREGATOR_PID" 2>/dev/null
	ok "starts again after SIG$signal" stack_aggregator
	timeout 20 "$CLIENT" fault "$STACK_NNG" fault0 8 0 >/dev/null # duplicates
	sleep 3 # longer than silence
	rm -rf "$WORK/after"
	answers "$WORK/after"
	ok "and says the same of every closed incident, byte for byte" diff -r "$WORK/before" "$WORK/after"
done

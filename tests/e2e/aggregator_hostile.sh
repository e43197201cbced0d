#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# aggregator_hostile.sh - a full disk loses nothing, HTTP clients that misbehave get an answer that fits
# and harm nobody, bad settings are reported with their line.
. "$(dirname "$0")/lib.sh"
CLIENT=$B/parts/aggregator_client
read -r -a ports <<<"$(free_ports 2)"
STACK_DIR=$WORK/stack
STACK_NNG=tcp://127.0.0.1:${ports[0]}
STACK_HTTP=${ports[1]}
export SYSOM_URL=http://127.0.0.1:$STACK_HTTP
mkdir -p "$STACK_DIR"
metric() { curl -sf "$SYSOM_URL/metrics" | sed -n "s/^sysom_aggregator_$1 //p"; }
code() { curl -s -m 5 -o /dev/null -w '%{http_code}' "$@"; }

# ---- a full disk: a small tmpfs ----
STACK_AGGREGATOR_FLAGS="--store-reserve-bytes 0"
flood() {
	"$CLIENT" flood "$STACK_NNG" 600 2000 4 11 "$WORK/acked" >"$WORK/flood.out" 2>&1
}
mkdir -p "$STACK_DIR/store"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=3m none "$STACK_DIR/store" 2>/dev/null; then
	ok "starts on a small file system" stack_aggregator
	flood &
	FLOOD=$!
	full() { [ "$(metric 'windows_total{status="retry"}')" -gt 0 ]; }
	ok "a full disk answers RETRY" stack_wait 60 full
	says_full() { [ "$(metric disk_full)" = 1 ]; } # a smaller window may have fitted in between
	ok "says so in its metrics" stack_wait 20 says_full
	ok "and still answers beats" "$CLIENT" beat "$STACK_NNG" demo 4
	mount -o remount,size=64m "$STACK_DIR/store"
	wait $FLOOD
	ok "with room again every window gets in" is $? 0
else
	skip "a full disk loses nothing" "needs mounts"
	ok "starts" stack_aggregator
	ok "every window gets in" flood
fi
sed 's/^/# /' "$WORK/flood.out"
ok "all of them, once" is "$(api status .windows)" "$(sort -u "$WORK/acked" | wc -l)"
ok "as one incident" is "$(api incidents '[.incidents[].window_count] | join(",")')" 600
ID=$(api incidents '.incidents[0].id')

# ---- HTTP ----
ok "POST is refused" is "$(code -X POST --data-binary @"$WORK/acked" "$SYSOM_URL/api/v1/status")" 405
ok "DELETE is refused" is "$(code -X DELETE "$SYSOM_URL/api/v1/incidents/$ID")" 405
ok "unknown paths are not found" is "$(code "$SYSOM_URL/api/v1/nothing")" 404
ok "paths out of the tree are not found" is "$(code --path-as-is "$SYSOM_URL/api/v1/windows/../../etc/passwd")" 404
ok "a request by the name of another site is refused" is "$(code -H 'Host: evil.example' "$SYSOM_URL/api/v1/incidents")" 421
ok "and so is a POST by one" is "$(code -H 'Host: evil.example' -X POST -d x "$SYSOM_URL/api/v1/symbolize")" 421
ok "localhost is a name of this machine" is "$(code -H 'Host: localhost:1' "$SYSOM_URL/api/v1/incidents")" 200
ok "a page's end that is none is refused" is "$(code "$SYSOM_URL/api/v1/incidents?after=x")" 400
ok "a limit of 0 is refused" is "$(code "$SYSOM_URL/api/v1/incidents?limit=0")" 400
ok "a limit of 10^9 is refused" is "$(code "$SYSOM_URL/api/v1/incidents?limit=1000000000")" 400
ok "an unknown state is refused" is "$(code "$SYSOM_URL/api/v1/incidents?state=x")" 400
ok "a job that is no text is refused" is "$(code "$SYSOM_URL/api/v1/ranks?job=%ff%fe")" 400
ok "a job of 10,000 bytes is refused" is "$(code "$SYSOM_URL/api/v1/ranks?job=$(printf 'x%.0s' {1..10000})")" 400
ok "quotes in a job are data" is "$(api "incidents?job=%27%20OR%201=1--" '.incidents | length')" 0
ok "an incident id that is none is not found" is "$(code "$SYSOM_URL/api/v1/incidents/ZZZZZZZZ")" 404
ok "a window id that is none is not found" is "$(code "$SYSOM_URL/api/v1/windows/12")" 404
ok "a window id that nobody sent is not found" is \
	"$(code "$SYSOM_URL/api/v1/windows/00000000000000000000000000000000")" 404
head -c 200000 /dev/urandom >"$WORK/noise"
timeout 5 bash -c "cat '$WORK/noise' >/dev/tcp/127.0.0.1/$STACK_HTTP" 2>/dev/null
timeout 5 bash -c "cat '$WORK/noise' >/dev/tcp/127.0.0.1/${ports[0]}" 2>/dev/null
held=()
for i in $(seq 100); do # clients that say nothing
	exec {fd}<>"/dev/tcp/127.0.0.1/$STACK_HTTP" && held+=("$fd")
	printf 'GET /api/v1/sta' >&"$fd"
done
ok "noise and a hundred silent clients leave it healthy" is "$(code "$SYSOM_URL/healthz")" 200
for fd in "${held[@]}"; do exec {fd}>&-; done
curl -sf "$SYSOM_URL/metrics" >"$WORK/its_metrics.txt"
ok "it has metrics" test "$(grep -vc '^#' "$WORK/its_metrics.txt")" -ge 20
metrics_are_sound "its metrics read as Prometheus text" cat "$WORK/its_metrics.txt"
# Peers that ask much and hang up; peers that stop in the middle of a greeting, a length, a message.
storm() {
	python3 - "${STACK_NNG##*:}" <<-'PY'
		import socket, struct, sys
		greeting = b"\0SP\0\0\x30\0\0"
		ask = struct.pack(">QI", 54, 0x80000001) + b"q" * 50
		for i in range(100):
		    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
		    if i % 4 == 0:
		        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
		    whole = greeting + ask * 200
		    s.sendall(whole if i % 3 else whole[:1 + i * 5 % 160])
		    if i % 5 == 0:
		        s.recv(8)
		    s.close()
	PY
}
descriptors() { ls "/proc/$STACK_AGGREGATOR_PID/fd" | wc -l; }
resident_kb() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$STACK_AGGREGATOR_PID/status"; }
settled() { [ "$(metric connections)" = 0 ] && [ "$(descriptors)" -le "$fds_before" ]; }
fds_before=$(descriptors)
storm
stack_wait 10 settled
kb_before=$(resident_kb)
for round in 1 2 3 4 5; do storm; done
ok "peers that ask much and hang up leave no descriptor behind" stack_wait 10 settled
echo "# resident: $kb_before kB after one round, $(resident_kb) kB after six"
case $B in *-*) slack_kb=65536 ;; *) slack_kb=1024 ;; esac # a sanitizer keeps what is freed
ok "and no memory" test "$(resident_kb)" -le $((kb_before + slack_kb))
ok "one that asks properly is answered" "$CLIENT" beat "$STACK_NNG" demo 4
stack_end sysom-aggregator "$STACK_AGGREGATOR_PID"
start_few() { # with room for about 100 peers
	(ulimit -n 256; exec "$BIN/sysom-aggregator" --nng-listen "$STACK_NNG" --http-listen "127.0.0.1:$STACK_HTTP" \
		--store-dir "$STACK_DIR/store" >>"$STACK_DIR/aggregator.log" 2>&1) & STACK_AGGREGATOR_PID=$!
	stack_wait 60 curl -sf "$SYSOM_URL/healthz"
}
ok "starts with few descriptors" start_few
python3 -c '
import socket, sys, time
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(300)]
time.sleep(60)' "${STACK_NNG##*:}" &
SILENT=$!
crowded() { [ "$(metric connections)" -ge 96 ]; }
ok "silent peers take all the places" stack_wait 30 crowded
ok "and yet one that asks is answered" stack_wait 30 "$CLIENT" beat "$STACK_NNG" demo 4
ok "and HTTP too" is "$(code "$SYSOM_URL/healthz")" 200
kill $SILENT
wait $SILENT 2>/dev/null
ok "SIGTERM ends it with 0" stack_end sysom-aggregator "$STACK_AGGREGATOR_PID"
STACK_AGGREGATOR_PID=
umount "$STACK_DIR/store" 2>/dev/null

# ---- senders that cost much, from many addresses: each of them waits for itself ----
PEER="python3 tests/e2e/sp_peer.py"
OTHER=61236
hostile_senders() {
STACK_DIR=$WORK/senders
STACK_AGGREGATOR_FLAGS="--incident-silence 10m"
mkdir -p "$STACK_DIR"
ok "starts for hostile senders" stack_aggregator
"$CLIENT" write "$WORK/bare" bare 1 >"$WORK/write.out"
sed 's/^/# a window of a million rows: /' "$WORK/write.out"
$PEER "${STACK_NNG##*:}" $OTHER 1 "$WORK/bare" >/dev/null
ok "a window that unpacks to more than its size allows is refused" \
	is "$(metric 'windows_total{status="reject"}')" 1
"$CLIENT" write "$WORK/dense" dense 1 >/dev/null
$PEER "${STACK_NNG##*:}" $OTHER 400 "$WORK/dense" >/dev/null &
ATTACK=$!
queued() { [ "$(metric requests_waiting)" -gt 100 ]; }
ok "400 connections of one sender queue up" stack_wait 60 queued
ok "a beat is answered" "$CLIENT" beat "$STACK_NNG" demo 4
echo "# requests that wait: $(metric requests_waiting)"
ok "before they are" test "$(metric requests_waiting)" -gt 0
ok "another sender's windows are taken" "$CLIENT" flood "$STACK_NNG" 4 100 1 5 "$WORK/acked"
echo "# requests that wait: $(metric requests_waiting)"
ok "before they are, too" test "$(metric requests_waiting)" -gt 0
kill $ATTACK
wait $ATTACK 2>/dev/null
real_state() { api 'incidents?job=flood' '[.incidents[].state] | unique | join(",")'; }
ok "the fault has an incident" is "$(real_state)" open
"$CLIENT" write "$WORK/madeup" madeup 1100 >/dev/null
$PEER "${STACK_NNG##*:}" $OTHER 4 "$WORK/madeup" >"$WORK/madeup.out"
sed 's/^/# made-up windows: /' "$WORK/madeup.out"
echo "# incidents that were closed for them: $(metric incidents_evicted_total)"
ok "made-up windows of 1,100 jobs close some incident" test "$(metric incidents_evicted_total)" -gt 0
ok "and not that one" is "$(real_state)" open
# Messages of 8 MiB that never end: a byte more than half of each makes it take all of that.
served() { [ "$(metric requests_waiting)" = 0 ]; }
stack_wait 60 served
evicted() { metric 'connections_closed_total{reason="evicted"}'; }
before=$(evicted)
python3 - "${STACK_NNG##*:}" $OTHER <<-'PY' &
	import os, socket, struct, sys, time
	os.setresuid(int(sys.argv[2]), int(sys.argv[2]), int(sys.argv[2]))
	held = []
	for i in range(80):
	    s = socket.socket()
	    s.bind((f"127.1.0.{i + 1}", 0))
	    s.connect(("127.0.0.1", int(sys.argv[1])))
	    s.sendall(b"\0SP\0\0\x30\0\0" + struct.pack(">QI", 8 << 20, 0x80000001) + bytes((4 << 20) + 4096))
	    held.append(s)
	time.sleep(1000)
PY
HOLD=$!
sixteen() { [ $(($(evicted) - before)) -ge 16 ]; }
ok "of 80 messages of 8 MiB under way 16 go, so that 512 MiB stay" stack_wait 30 sixteen
echo "# gone: $(($(evicted) - before))"
ok "and most stay" test $(($(evicted) - before)) -lt 32
ok "and another sender's beat is answered" "$CLIENT" beat "$STACK_NNG" demo 4
kill $HOLD
wait $HOLD 2>/dev/null
ok "SIGTERM ends it" stack_end sysom-aggregator "$STACK_AGGREGATOR_PID"
STACK_AGGREGATOR_PID=
}
if python3 tests/needs.py root >/dev/null; then
	hostile_senders
else
	skip "senders that cost much wait for themselves" "needs root: senders of one machine are users"
fi

# ---- settings ----
printf 'nng:\n  contexts: 0\nstore:\n  colour: blue\n' >"$WORK/bad.yaml"
"$BIN/sysom-aggregator" --config "$WORK/bad.yaml" --check-config >"$WORK/check.out" 2>&1
ok "bad settings end with 2" is $? 2
ok "and name their lines" bash -c "grep -q 'bad.yaml:2: nng.contexts' '$WORK/check.out' &&
	grep -q 'bad.yaml:4: store.colour' '$WORK/check.out'"
ok "the shipped settings are good" "$BIN/sysom-aggregator" --config conf/sysom-aggregator.yaml --check-config
finish

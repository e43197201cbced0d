#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# symbols.sh - the Build-ID directory over HTTP: a file uploaded in chunks is named from, served by
# debuginfod and found again through it; clients that misbehave harm nobody.
. "$(dirname "$0")/lib.sh"
read -r -a ports <<<"$(free_ports 5)"
STACK_DIR=$WORK/stack
STACK_NNG=tcp://127.0.0.1:${ports[0]}
STACK_HTTP=${ports[1]}
URL=http://127.0.0.1:$STACK_HTTP
mkdir -p "$STACK_DIR" "$WORK/cache"
export HOME=$WORK DEBUGINFOD_CACHE_PATH=$WORK/cache
unset DEBUGINFOD_URLS

printf 'int shown(int a) { return a; }\nstatic __attribute__((noinline,used)) int hidden(int a) { return shown(a) + 1; }\nvoid spin(void) { for (volatile int i = 0; i < 500000000; i++) hidden(i); }\n' >"$WORK/a.c"
gcc -O1 -g -fPIC -shared -Wl,--build-id -o "$WORK/full.so" "$WORK/a.c"
strip -o "$WORK/stripped.so" "$WORK/full.so"
build_id() { readelf -n "$1" | sed -n 's/.*Build ID: //p'; }
ID=$(build_id "$WORK/full.so")
BYTES=$(stat -c %s "$WORK/full.so")
HIDDEN=$((16#$(nm "$WORK/full.so" | sed -n 's/ t hidden$//p')))

post() { # path json [curl options]
	curl -s -m 20 -H Content-Type:application/json --data-binary "$2" "${@:3}" "$URL/api/v1/$1"
}
put() { # session offset, from stdin
	curl -s -m 20 -X PUT -H Content-Type:application/octet-stream --data-binary @- "${@:3}" \
		"$URL/api/v1/symbols/uploads/$1?offset=$2"
}
CODE=(-o /dev/null -w '%{http_code}')
begin() { post symbols/uploads "{\"build_id\":\"$ID\",\"quality\":\"$1\",\"bytes\":$2}" | jq -r .session; }
name() { # url build-id address
	curl -s -m 60 -H Content-Type:application/json -d "{\"objects\":[{\"build_id\":\"$2\",\"addresses\":[$3]}]}" \
		"$1/api/v1/symbolize" | jq -r '.objects[0] | if .status == "ok" then .names[0].function else .status end'
}
needed() { post symbols/needed "{\"files\":[{\"build_id\":\"$ID\",\"quality\":\"$1\"}]}" | jq -r '.needed | length'; }
metric() { curl -sf "$URL/metrics" | sed -n "s/^sysom_aggregator_symbol_$1 //p"; }

ok "the aggregator starts" stack_aggregator

# ---- upload ----
ok "a file that is not there is needed" is "$(needed debug)" 1
ok "and its addresses have no name" is "$(name "$URL" "$ID" "$HIDDEN")" unknown
S=$(begin dynamic "$(stat -c %s "$WORK/stripped.so")")
ok "a stripped one is taken where there is none" is "$(put "$S" 0 "${CODE[@]}" <"$WORK/stripped.so")" 201
ok "it names nothing that it does not know" is "$(name "$URL" "$ID" "$HIDDEN")" null
ok "the whole one is still needed" is "$(needed debug)" 1
S=$(begin debug "$BYTES")
ok "which nobody else need send meanwhile" is "$(needed debug)" 0
ok "the first chunk is taken" is "$(head -c 5000 "$WORK/full.so" | put "$S" 0 | jq .offset)" 5000
ok "again it is not" is "$(head -c 5000 "$WORK/full.so" | put "$S" 0 "${CODE[@]}")" 409
ok "nor one out of order" is "$(tail -c 100 "$WORK/full.so" | put "$S" $((BYTES - 100)) | jq .offset)" 5000
ok "nor more than was announced" is "$(cat "$WORK/full.so" "$WORK/full.so" | put "$S" 5000 "${CODE[@]}")" 409
broken() { # a connection that ends in the middle of a chunk
	python3 - "$STACK_HTTP" "$S" "$(curl -s "$URL/api/v1/symbols/uploads/$S" | jq .offset)" "$WORK/full.so" <<-'PY'
		import socket, sys
		port, session, offset, path = sys.argv[1:]
		data = open(path, "rb").read()[int(offset):]
		s = socket.create_connection(("127.0.0.1", int(port)))
		s.sendall(f"PUT /api/v1/symbols/uploads/{session}?offset={offset} HTTP/1.1\r\nHost: localhost\r\n"
		          f"Content-Type: application/octet-stream\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data[:700])
		s.shutdown(socket.SHUT_WR)
		s.recv(100)
	PY
}
have() { curl -s "$URL/api/v1/symbols/uploads/$S" | jq .offset; }
broken 2>/dev/null
AT=$(have)
ok "a connection that broke in a chunk leaves what came" test "$AT" -ge 5000 -a "$AT" -lt "$BYTES"
ok "the rest ends the upload" is "$(tail -c +$((AT + 1)) "$WORK/full.so" | put "$S" "$AT" | jq -r .stored)" "$ID"
STORED=$STACK_DIR/store/symbols/tree/.build-id/${ID:0:2}/${ID:2}.debug
ok "the file is in its place, byte by byte" cmp "$WORK/full.so" "$STORED"
ok "the static function has its name now" is "$(name "$URL" "$ID" "$HIDDEN")" hidden
ok "one byte beyond a function there is none" is "$(name "$URL" "$ID" 1)" null
ok "a stripped one over it is refused" is \
	"$(post symbols/uploads "{\"build_id\":\"$ID\",\"quality\":\"dynamic\",\"bytes\":5}" "${CODE[@]}")" 409
# ---- sysom record asks as well ----
printf 'void spin(void);\nint main(void) { spin(); }\n' >"$WORK/main.c"
gcc -o "$WORK/main" "$WORK/main.c" "$WORK/stripped.so" -Wl,-rpath,"$WORK"
record() { # file [options]: what ran there
	timeout 60 "$BIN/sysom" record --no-off-cpu --rate 499 --seconds 2 "${@:2}" -o "$1" -- "$WORK/main" \
		>>"$WORK/record.log" 2>&1
}
if record "$WORK/alone.folded" && [ -s "$WORK/alone.folded" ]; then
	record "$WORK/asked.folded" --symbols "$URL"
	ok "sysom record has no name for a stripped function" is "$(grep -c hidden "$WORK/alone.folded")" 0
	ok "with --symbols the aggregator names it" grep -q hidden "$WORK/asked.folded"
else
	skip "sysom record asks the aggregator" "needs own-perf: $(tail -n 1 "$WORK/record.log")"
fi
OTHER=00112233445566778899aabbccddeeff00112233
S=$(post symbols/uploads "{\"build_id\":\"$OTHER\",\"quality\":\"debug\",\"bytes\":$BYTES}" | jq -r .session)
ok "under a Build ID that is not its own too" is "$(put "$S" 0 "${CODE[@]}" <"$WORK/full.so")" 422
ok "and leaves nothing behind" is "$(find "$STACK_DIR/store/symbols/tree" "$STACK_DIR/store/symbols/upload" -type f | wc -l)" 1

# ---- clients that misbehave ----
ok "a form is no request" is "$(curl -s "${CODE[@]}" -d '{}' "$URL/api/v1/symbols/needed")" 415
ok "a chunk of another type is none" is "$(curl -s "${CODE[@]}" -X PUT -d x "$URL/api/v1/symbols/uploads/$S?offset=0")" 415
ok "a body without an end is refused" is \
	"$(curl -s "${CODE[@]}" -H Transfer-Encoding:chunked -H Content-Type:application/json -d '{}' "$URL/api/v1/symbolize")" 411
head -c 1100000 /dev/zero >"$WORK/zeros"
ok "a request of more than 1 MiB is refused" is "$(post symbolize @"$WORK/zeros" "${CODE[@]}")" 413
ok "a chunk of more than 64 MiB is refused unread" is "$(curl -s "${CODE[@]}" -X PUT \
	-H Content-Type:application/octet-stream -H Content-Length:67108865 "$URL/api/v1/symbols/uploads/$S?offset=0")" 413
ok "an upload that nobody began is not found" is "$(put 0123456789abcdef 0 "${CODE[@]}" <"$WORK/a.c")" 404
ok "a chunk without an offset is refused" is "$(put "$S" x "${CODE[@]}" <"$WORK/a.c")" 400
ok "what is no JSON is refused" is "$(post symbolize '{' "${CODE[@]}")" 400
ok "a Build ID that is a path is refused" is \
	"$(post symbols/uploads '{"build_id":"../../../etc","quality":"debug","bytes":5}' "${CODE[@]}")" 400
ok "an upload of 2^60 bytes is refused" is \
	"$(post symbols/uploads "{\"build_id\":\"$OTHER\",\"quality\":\"debug\",\"bytes\":1152921504606846976}" "${CODE[@]}")" 413
python3 -c 'import json; print(json.dumps({"objects": [{"build_id": "aabb", "addresses": list(range(20000))}]}))' >"$WORK/many"
ok "20,000 addresses at a time are refused" is "$(post symbolize @"$WORK/many" "${CODE[@]}")" 400
python3 -c 'print("[" * 100000)' >"$WORK/deep"
ok "100,000 nested lists are refused" is "$(post symbolize @"$WORK/deep" "${CODE[@]}")" 400
for _ in $(seq 40); do post symbolize @"$WORK/deep" >/dev/null & done
wait $(jobs -p | grep -v "^$STACK_AGGREGATOR_PID$")
ok "forty at once leave it healthy" is "$(curl -s "${CODE[@]}" "$URL/healthz")" 200
ok "refusals are counted" test "$(metric 'refused_total{reason="foreign"}')" = 1 -a "$(metric 'refused_total{reason="order"}')" -ge 2
ok "an upload that is given up is gone" is "$(S=$(post symbols/uploads "{\"build_id\":\"$OTHER\",\"quality\":\"debug\",\"bytes\":9}" | jq -r .session)
	curl -s -X DELETE "$URL/api/v1/symbols/uploads/$S" >/dev/null; curl -s "${CODE[@]}" "$URL/api/v1/symbols/uploads/$S")" 404

# ---- restart, and an aggregator that takes none ----
ok "it ends with an upload in progress" eval "begin2=\$(post symbols/uploads '{\"build_id\":\"$OTHER\",\"quality\":\"debug\",\"bytes\":99}'); stack_end sysom-aggregator $STACK_AGGREGATOR_PID"
STACK_AGGREGATOR_FLAGS="--symbols-upload false"
ok "starts again" stack_aggregator
ok "the name is still known" is "$(name "$URL" "$ID" "$HIDDEN")" hidden
ok "uploads can be turned off" is "$(post symbols/uploads "{\"build_id\":\"$OTHER\",\"quality\":\"debug\",\"bytes\":5}" "${CODE[@]}")" 403
ok "nothing is needed then" is "$(needed debug)" 0
ok "and no half upload is left" is "$(ls "$STACK_DIR/store/symbols/upload" | wc -l)" 0

# ---- debuginfod ----
if command -v debuginfod >/dev/null && command -v debuginfod-find >/dev/null; then
	PORT=${ports[2]}
	debuginfod -F -p "$PORT" -d "$WORK/debuginfod.sqlite" "$STACK_DIR/store/symbols/tree" >"$WORK/debuginfod.log" 2>&1 &
	SERVER=$!
	ok "debuginfod serves the directory" stack_wait 30 curl -sf -o /dev/null "http://127.0.0.1:$PORT/buildid/$ID/debuginfo"
	export DEBUGINFOD_URLS=http://127.0.0.1:$PORT
	ok "its client finds the uploaded file" cmp "$(debuginfod-find debuginfo "$ID" 2>/dev/null)" "$WORK/full.so"
	STACK_HTTP=${ports[3]} STACK_NNG=tcp://127.0.0.1:${ports[4]}
	FIRST=$STACK_AGGREGATOR_PID STACK_DIR=$WORK/second STACK_AGGREGATOR_FLAGS="--symbols-debuginfod true"
	rm -rf "$WORK/cache"/*
	mkdir -p "$STACK_DIR"
	ok "another aggregator without files starts" stack_aggregator
	ok "and finds the name through debuginfod" is "$(name "http://127.0.0.1:$STACK_HTTP" "$ID" "$HIDDEN")" hidden
	stack_end sysom-aggregator "$FIRST"
	kill "$SERVER"
	wait "$SERVER" 2>/dev/null
else
	skip "debuginfod serves the directory" "needs command:debuginfod"
fi
finish

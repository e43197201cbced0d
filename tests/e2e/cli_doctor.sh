#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sysom doctor` says what works and what does not.
set -u
B=${B:?}
here=$(cd "$(dirname "$0")" && pwd)
T=$(mktemp -d)
unset LD_PRELOAD SYSOM_PRELOAD SYSOM_URL SYSOM_DISABLE
export ASAN_OPTIONS=verify_asan_link_order=0
n=0
failed=0
is() {
	local text=$1; shift
	n=$((n + 1))
	if "$@"; then echo "ok $n - $text"; else echo "not ok $n - $text"; failed=1
		sed 's/^/# /' "$T/out" "$T/err" 2>/dev/null | head -30; fi
}
mkdir -p "$T/bin" "$T/lib" "$T/windows"
cp "$B/bin/sysom" "$B/bin/sysom-full" "$T/bin/"
printf 'int tiny_preload = 1;\n' >"$T/tiny.c"
${CC:-gcc} -shared -fPIC -o "$T/lib/libsysom_preload.so" "$T/tiny.c"
printf '#include <stdio.h>\n__attribute__((constructor)) static void f(void) { puts("here I am"); }\n' >"$T/loud.c"
${CC:-gcc} -shared -fPIC -o "$T/libloud.so" "$T/loud.c"
mkfifo "$T/stdin"
python3 "$here/cli_server.py" "$T" <"$T/stdin" &
server=$!
exec 9>"$T/stdin"
finish() { exec 9>&-; wait "$server" 2>/dev/null; rm -rf "$T"; }
trap finish EXIT
for _ in $(seq 200); do [ -e "$T/url" ] && break; sleep 0.05; done
export SYSOM_CONTROL_PATH=$T/control.sock SYSOM_SOCKET_PATH=$T/none.sock
doctor() { "$T/bin/sysom" doctor --state-dir "$T" "$@" >"$T/out" 2>"$T/err"; status=$?; }
line() { # check state [detail]
	python3 - "$T/out" "$@" <<'PY'
import json, sys
checks = {c["check"]: c for c in json.load(open(sys.argv[1]))["checks"]}
c = checks[sys.argv[2]]
sys.exit(not (c["state"] == sys.argv[3] and (len(sys.argv) < 5 or sys.argv[4] in c["detail"])
              and (c["state"] == "ok") == (c["remedy"] == "")))
PY
}
doctor --json --url "$(cat "$T/url")"
is "the library loads" line "preload loads" ok
is "both servers answer" eval 'line "control socket" ok "version 0.1.0" && line aggregator ok "version 0.1.0"'
is "seals are kept, forks are noticed" eval 'line "memfd seals" ok && line "wipe on fork" ok'
is "symbol files that can't be uploaded are a warning, with the reason" line "symbol files" warn "can't upload them: the aggregator answers 403; see"
is "a catalogue that is refused is a warning, with its line" line "span catalogue" warn "1 process refused the file in SYSOM_SPANS, for example 76 (train.py) because of line 3"
is "values of spans that are of no use are a warning" line "Python spans" warn "values that are not counts or ids: 21; requests beyond the limit of a span: 4"
is "a profiler plugin of the job that misbehaves is a warning" line "NCCL plugin" warn "the job's own profiler plugin fails, for example in process 77 (train.py): not loaded, or unloaded itself: 1; init failed: 3; callbacks with an error: 500; processes that ended inside it: 2"
is "ranges with impossible texts or without an end are a warning" line ranges warn "for example in process 77 (train.py): texts too long or not terminated: 11; never closed or never opened: 4"
is "a rank that was started again is a warning, with both processes" line restarts warn "1 process replaced one that had ended, for example 79 (train.py, rank 7 of demo) replaced 71"
echo '{"/api/v1/requests": {"jobs": [{"job": "a", "arrived": 9, "lost": 3, "evicted": 2, "bad": 1, "parts_lost": 0},
	{"job": "b", "arrived": 9, "parts_lost": 7, "shared": 4}]}}' >"$T/node-answers.json"
doctor --json
is "requests that are given up are a warning, over all jobs" line requests warn "seen: 18; without an end: 3; of these, for lack of room: 2; impossible times or counts: 1; lost parts: 7; ids of several requests at once: 4"
echo '{"/api/v1/requests": {"jobs": [{"job": "a", "arrived": 9}]}}' >"$T/node-answers.json"
doctor --json
is "requests without loss are fine" line requests ok "seen: 9"
rm "$T/node-answers.json"
joined() { # refused evicted
	echo "{\"/api/v1/requests\": {\"requests\": [{\"job\": \"a\", \"joined\": {\"requests\": 9, \"partial\": 2, \"evicted\": $2, \"bad\": 0}},
		{\"job\": \"b@7\", \"joined\": {\"refused\": $1, \"requests\": 1}}, {\"job\": \"c\"}]},
		\"/api/v1/status\": {\"version\": \"0.1.0\", \"otlp\": {\"fault\": \"$3\", \"sent\": 5, \"failed\": 3, \"dropped\": 2}}}" >"$T/answers.json"
	doctor --json --url "$(cat "$T/url")"
}
joined true 0 ""
is "a job whose requests are not joined for lack of room is a warning" line "joined requests" warn \
	"on several nodes: 10; without the piece of their arrival: 2; jobs without room: 1, for example b@7"
is "metrics that the receiver takes are fine" line "metrics by OTLP" ok "the aggregator: sets sent: 5; failed: 3; dropped: 2"
joined false 3 "no route to host"
is "so are requests that were given up" line "joined requests" warn "without the piece of their arrival: 2; lost for lack of room: 3"
is "a receiver that does not take metrics is a warning, with the reason" line "metrics by OTLP" warn "dropped: 2: no route to host"
joined false 0 ""
is "joined requests without loss are fine" line "joined requests" ok
rm "$T/answers.json"
is "a missing attach socket is a warning" line "attach socket" warn
doctor --json --state-dir "$T/none/state"
is "a state directory that is not there is a warning" line "state directory" warn "none/state: No such file"
doctor --json --state-dir "$T/tiny.c"
is "a file in its place is a failure" eval 'line "state directory" fail "is not a directory" && [ $status = 1 ]'
touch "$T/none.sock"
doctor --json
is "a file in its place is a failure, and the status 1" eval 'line "attach socket" fail && [ $status = 1 ]'
rm "$T/none.sock"
SYSOM_URL=http://127.0.0.1:1 doctor --json
is "an absent aggregator is a warning" line aggregator warn
SYSOM_PRELOAD=$T/libloud.so doctor --json
is "a library that prints is a failure" eval 'line "preload loads" fail "here I am" && [ $status = 1 ]'
SYSOM_PRELOAD=$T/tiny.c doctor --json
is "a file that is no library is a failure" eval 'line "preload format" fail && [ $status = 1 ]'
head -c 700 "$T/lib/libsysom_preload.so" >"$T/cut.so"
SYSOM_PRELOAD=$T/cut.so doctor --json
is "a library cut short is a failure" eval 'line "preload loads" fail && [ $status = 1 ]'
rm "$T/lib/libsysom_preload.so"
doctor --json
is "a missing library is a failure" eval 'line "preload library" fail && [ $status = 1 ]'
SYSOM_DISABLE=1 SYSOM_PRELOAD=$T/libloud.so doctor
is "text for people: state, name, detail, remedy" eval 'grep -q "^ok  *memfd seals" "$T/out" && grep -q "^fail  *preload loads" "$T/out" && grep -q "unset SYSOM_DISABLE" "$T/out" && grep -q "failed$" "$T/out"'
doctor --thresholds --json
is "each threshold has a value, a unit, a reason and an effect" python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))
sys.exit(not rows or len({(r["group"], r["name"]) for r in rows}) < len(rows) or
         any(not r[k] for r in rows for k in ("value", "unit", "reason", "effect")))' "$T/out"
echo "1..$n"
exit $failed

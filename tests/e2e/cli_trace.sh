#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sysom trace` and `sysom report` against a stand-in for the aggregator that serves real windows.
set -u
B=${B:?}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
sysom=$(realpath "$B/bin/sysom")
T=$(mktemp -d)
unset SYSOM_URL LD_PRELOAD
n=0
failed=0
mkdir "$T/windows"
"$B/unit/test_export_perfetto" --write-windows "$T/windows" || { echo "Bail out! no windows"; exit 1; }
mkfifo "$T/stdin"
python3 "$here/cli_server.py" "$T" <"$T/stdin" &
server=$!
exec 9>"$T/stdin"
finish() { exec 9>&-; wait "$server" 2>/dev/null; rm -rf "$T"; }
trap finish EXIT
for _ in $(seq 200); do [ -e "$T/url" ] && break; sleep 0.05; done
export SYSOM_URL=$(cat "$T/url")
is() {
	local text=$1; shift
	n=$((n + 1))
	if "$@"; then echo "ok $n - $text"; else echo "not ok $n - $text"; failed=1
		sed 's/^/# /' "$T/out" "$T/err" 2>/dev/null | head -20; fi
}
run() { "$sysom" "$@" >"$T/out" 2>"$T/err" </dev/null; status=$?; }
json() { python3 -c "import json,sys; j=json.load(open('$1')); sys.exit(0 if ($2) else 1)"; }

run trace 1234abcd -o "$T/t.pftrace" --json
is "trace writes a file and says what is in it" eval '[ $status = 0 ] && json "$T/out" "j[\"windows\"]==3 and j[\"ranks\"]==2 and j[\"slices\"]>200"'
run trace 1234abcd -o "$T/by-name.json" --json
is "a file named .json is Kineto's" eval '[ $status = 0 ] && json "$T/out" "j[\"format\"]==\"kineto\"" &&
	json "$T/by-name.json" "len(j[\"traceEvents\"])>200"'
if command -v protoc >/dev/null; then
	protoc -I "$root/cli" --decode=perfetto.protos.Trace "$root/cli/perfetto.proto" <"$T/t.pftrace" >"$T/t.txt"
	is "protoc reads it" [ $? = 0 ]
	python3 "$here/cli_check_trace.py" <"$T/t.txt" >"$T/out" 2>"$T/err"
	is "slices balance and nest on described tracks" [ $? = 0 ]
	is "every track is there" json "$T/out" 'j["steps"]==16 and j["windows"]==3 and j["GPU 0 stream 7"]==96 and j["GPU 0 stream 8"]==16 and j["spans of thread 4242"]==32 and j["thread 4242"]==112'
fi
run trace 1234abcd --rank 1 -f kineto -o "$T/t.json"
is "Kineto JSON of one rank" eval '[ $status = 0 ] && json "$T/t.json" "j[\"distributedInfo\"][\"rank\"]==1 and len([e for e in j[\"traceEvents\"] if e.get(\"cat\")==\"kernel\"])==70"'
run replay events --json "$T/t.json"
is "replay events finds the launches of its kernels" eval '[ $status = 0 ] && tail -1 "$T/out" >"$T/last" &&
	json "$T/last" "j[\"launch_proxies\"]==0 and j[\"unmatched_device\"]==30 and j[\"rows_used\"]==120"'
run trace 1234abcd -o - -f kineto
is "- is standard output" json "$T/out" 'len(j["traceEvents"])>100'
(cd "$T" && "$sysom" trace 1234abcd >/dev/null)
is "the default file is named after the incident" [ -s "$T/1234abcd.pftrace" ]
run trace 1234abcd --rank 5 -o "$T/none"
is "no window of that rank is exit status 1 and no file" eval '[ $status = 1 ] && [ ! -e "$T/none" ]'
run trace 1234abcd -o "$T/nowhere/x"
is "a directory that is missing is exit status 3" eval '[ $status = 3 ] && grep -q "No such file" "$T/err"'
if [ -e /dev/full ]; then
	run trace 1234abcd -o /dev/full
	is "a full disk is exit status 3" [ $status = 3 ]
fi
run report cafe0001 -o "$T/r.html"
is "report writes one HTML file" eval '[ $status = 0 ] && grep -q "</html>" "$T/r.html"'
run report cafe0001 -o "$T/r.html" --json
is "report --json says what is in it" json "$T/out" 'j["incident"]=="cafe0001" and j["title"]=="rank 1 is slow" and j["ranks"]==[1] and j["windows"]==3 and j["windows_missing"]==0 and j["records"]>100'
python3 - "$T/r.html" >"$T/out" 2>"$T/err" <<'PY'
import html.parser, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
void = {"meta", "br", "hr"}
class Check(html.parser.HTMLParser):
    stack = []
    tags = set()
    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            assert name not in ("src", "href") or value.startswith("#"), "external resource"
            assert not name.startswith("on"), "script"
        if tag not in void:
            self.stack.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, (self.stack, tag)
        self.stack.pop()
c = Check()
c.feed(text)
assert not c.stack, c.stack
assert "script" not in c.tags and "link" not in c.tags and "img" not in c.tags
assert {"svg", "table", "h1", "title"} <= c.tags
ticks = [t for t in re.findall(r'text-anchor="end">([^<]+)</text>', text)]
assert ticks[:5] == ["6 ms", "7 ms", "8 ms", "9 ms", "10 ms"], ticks
for word in ("observed; dots: flagged steps", "Flagged steps as a table", "@media print",
             "prefers-color-scheme:dark", 'tabindex="0"', "rank 1, step 2: 10.0 ms, expected 6.00 ms"):
    assert word in text, word
for word in ("rank 1", "gemm&lt;float", "cafe0001"):
    assert word in text, word
PY
is "it is well-formed, self-contained and free of scripts" [ $? = 0 ]
run report 0e711e11 -o "$T/evil.html"
is "hostile text is escaped in it" eval '[ $status = 0 ] && ! LC_ALL=C grep -qP "[\x00-\x08\x0b-\x1f\x7f]" "$T/evil.html"'
for w in "$T"/windows/*; do head -c 300 "$w" >"$w.cut"; mv "$w.cut" "$w"; done
run trace 1234abcd -o "$T/cut"
is "windows that are cut short are refused, with their ids" eval '[ $status = 1 ] && grep -q "10101010101010101010101010101010 can.t be read" "$T/err" && [ ! -e "$T/cut" ]'
run report 1234abcd -o "$T/r2.html"
is "a report needs no windows" eval '[ $status = 0 ] && grep -q "rank 5 is slow" "$T/r2.html"'
echo "1..$n"
exit $failed

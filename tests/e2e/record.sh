#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sysom record` without sysomd: formats, exit codes, and what an ordinary user gets.
. "$(dirname "$0")/lib.sh"
cp "$BIN/sysom" "$WORK/sysom" && chmod 755 "$WORK" "$WORK/sysom"
spin=(/bin/sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done')
ok "a command is recorded" bash -c '"$0" record --json -o "$1" -- "${@:2}" >"$1.json"' "$WORK/sysom" \
	"$WORK/a.folded" "${spin[@]}"
if [ "$(jq -r .mode "$WORK/a.folded.json" 2>/dev/null)" ]; then
	sed 's/^/# /' "$WORK/a.folded.json"
	ok "the lines' sum is the samples' time" is "$(awk '{s += $NF} END {printf "%.0f", s}' "$WORK/a.folded")" \
		"$(jq .on_cpu_ns "$WORK/a.folded.json")"
fi
ok "the command's status is passed on" bash -c '"$0" record --no-off-cpu -o "$1" -- "${@:2}" >/dev/null; [ $? = 7 ]' \
	"$WORK/sysom" "$WORK/b.html" /bin/sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7'
ok "the page holds its data" grep -q 'const DATA' "$WORK/b.html"
ok "two targets at once are refused" bash -c '"$0" record -a -p 1 2>/dev/null; [ $? = 2 ]' "$WORK/sysom"
ok "no such process" bash -c '"$0" record -p 2147483647 --seconds 1 -o "$1" 2>/dev/null; [ $? = 1 ]' \
	"$WORK/sysom" "$WORK/none.html"
# the names of a command that has ended: its memory and its /proc/PID/root are gone when they are written
cat >"$WORK/brief.py" <<-'EOF'
	import time
	def spin_here(n):
	    return sum(i * i for i in range(n))
	end = time.monotonic() + 2.5
	while time.monotonic() < end:
	    spin_here(5000)
EOF
if [ "$(jq -r .mode "$WORK/a.folded.json" 2>/dev/null | cut -c1-3)" = bpf ] && [ -x /usr/bin/python3 ]; then
	"$WORK/sysom" record --no-off-cpu --fraction 100 -o "$WORK/brief.folded" -- /usr/bin/python3 "$WORK/brief.py" \
		>/dev/null
	ok "an ended command's Python functions have their names" grep -q ';spin_here' "$WORK/brief.folded"
	ok "and the program's own" grep -q ';Py_BytesMain;' "$WORK/brief.folded"
else
	skip "an ended command's names" "no BPF or no Python: $(jq -r .why "$WORK/a.folded.json" 2>/dev/null)"
fi
if command -v go >/dev/null; then
	"$WORK/sysom" record --json -o "$WORK/c.pb.gz" -- "${spin[@]}" >"$WORK/c.json"
	ok "go tool pprof reads it" bash -c 'go tool pprof -top -sample_index=samples "$0/c.pb.gz" >"$0/top.txt" 2>&1' "$WORK"
	ok "its total is the samples" is \
		"$(sed -n 's/.* of \([0-9]*\) total.*/\1/p' "$WORK/top.txt" | head -1)" "$(jq .samples "$WORK/c.json")"
else
	skip "go tool pprof reads it" "no go"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	setpriv --reuid nobody --clear-groups "$WORK/sysom" record --json -o - -f folded -- "${spin[@]}" \
		>"$WORK/n.folded" 2>"$WORK/n.json"
	ok "an ordinary user gets copied stacks, or none, and is told why" bash -c \
		'jq -e "(.mode == \"copy\" and .samples > 0) and (.why | length > 0)" "$0" >/dev/null ||
		 grep -q "no CPU stacks can be taken here: ." "$0"' "$WORK/n.json"
fi
finish

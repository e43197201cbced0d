#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sysom record` without sysomd: formats, exit codes, and what an ordinary user gets.
. "$(dirname "$0")/lib.sh"
cp "$BIN/sysom" "$BIN/sysom-full" "$WORK" && chmod 755 "$WORK" "$WORK"/sysom*
spin=(/bin/sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done')
ok "a command is recorded" bash -c '"$0" record --json -o "$1" -- "${@:2}" >"$1.json"' "$WORK/sysom" \
	"$WORK/a.folded" "${spin[@]}"
if [ "$(jq -r .mode "$WORK/a.folded.json" 2>/dev/null)" ]; then
	sed 's/^/# /' "$WORK/a.folded.json"
	ok "the lines' sum is the samples' time" is "$(awk '{s += $NF} END {printf "%.0f", s}' "$WORK/a.folded")" \
		"$(jq -r .on_cpu_ns "$WORK/a.folded.json")"
fi
ok "the command's status is passed on" bash -c '"$0" record --no-off-cpu -o "$1" -- "${@:2}" >/dev/null; [ $? = 7 ]' \
	"$WORK/sysom" "$WORK/b.html" /bin/sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7'
ok "the page holds its data" grep -q 'const DATA' "$WORK/b.html"
ok "a place that can't be written is reported before the command runs" bash -c \
	'"$0" record -o "$1/none/x.html" -- touch "$1/ran" 2>"$1/err"; [ $? = 3 ] && [ ! -e "$1/ran" ] && grep -q "none/x.html: No such" "$1/err"' \
	"$WORK/sysom" "$WORK"
sleep 100 & # even "true" may be sampled, or wait for its file
ok "a recording without a sample leaves no file" is "$(cd "$WORK" && ./sysom record -p $! --seconds 0.3 --no-off-cpu -o empty.html 2>&1 |
	grep -c 'no samples'; ls | grep -c empty)" "1
0"
kill $!
ok "a command without a sample has its own status, too" bash -c \
	'"$0" record -o "$1" -- true 2>/dev/null && ! "$0" record -o "$1" -- false 2>/dev/null' "$WORK/sysom" "$WORK/empty.html"
ok "a full disk is named" bash -c '"$0" record -o /dev/full -- "${@:2}" 2>"$1"; grep -q "/dev/full: No space left" "$1"' \
	"$WORK/sysom" "$WORK/err" "${spin[@]}"
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
	skip "an ended command's names" "needs bpf: $(jq -r .why "$WORK/a.folded.json" 2>/dev/null)"
fi
if command -v go >/dev/null; then
	"$WORK/sysom" record --json -o "$WORK/c.pb.gz" -- "${spin[@]}" >"$WORK/c.json"
	ok "go tool pprof reads it" bash -c 'go tool pprof -top -sample_index=samples "$0/c.pb.gz" >"$0/top.txt" 2>&1' "$WORK"
	ok "its total is the samples" is \
		"$(sed -n 's/.* of \([0-9]*\) total.*/\1/p' "$WORK/top.txt" | head -1)" "$(jq .samples "$WORK/c.json")"
else
	skip "go tool pprof reads it" "needs command:go"
fi
started() { [ "$(cat "/proc/$1/comm")" = "$2" ]; } # pid name
# a program that is deleted while it runs: its file is there as long as it is mapped
cp "$B/targets/target_frames" "$WORK/gone" 2>/dev/null
if [ "$(id -u)" = 0 ] && [ -x "$WORK/gone" ]; then
	"$WORK/gone" 3600 >/dev/null 2>&1 &
	gone=$!
	stack_wait 10 started "$gone" gone
	rm "$WORK/gone"
	"$WORK/sysom" record -p "$gone" --seconds 2 -o "$WORK/gone.folded" >/dev/null 2>&1
	kill -KILL "$gone"
	wait "$gone" 2>/dev/null
	ok "a deleted program's functions have their names" eval \
		'grep -q ";main;" "$WORK/gone.folded" && ! grep -q "gone (deleted)" "$WORK/gone.folded"'
fi
who_runs() { # sysom record's arguments...: the ids and the home that a command gets under sudo
	env SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody "$WORK/sysom" record --no-off-cpu --mode copy "$@" -o "$WORK/who.html" \
		-- /bin/sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo "$(id -u):$(id -g):$USER:${SUDO_UID:-}"' 2>/dev/null |
		grep -m1 :
}
if [ "$(id -u)" = 0 ]; then
	ok "under sudo a command runs as the user who called it" is "$(who_runs)" "65534:65534:nobody:"
	ok "with --user root as root" is "$(who_runs --user root | cut -d: -f1)" 0
	ok "no such user is an error" eval '"$WORK/sysom" record --user no-such-user -- true 2>&1 | grep -q "no such user"'
fi
# Why there are no samples; and a target that starts programs all the time does not hold the beginning up.
sleep 1000 &
target=$!
says() { # text: what record says about the target that gives no sample
	"$WORK/sysom" record -p "$target" --seconds 0.3 --no-off-cpu -o "$WORK/none.html" 2>"$WORK/idle"
	sed 's/^/# /' "$WORK/idle"
	grep -q "process $target $1" "$WORK/idle"
}
state_is() { # letter
	for _ in $(seq 200); do
		[ "$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$target/status")" = "$1" ] && return
		sleep 0.05
	done
	return 1
}
if [ "$(jq -r .mode "$WORK/a.folded.json" 2>/dev/null | cut -c1-3)" = bpf ]; then
	ok "a sleeping target is said to sleep" says "slept the whole time"
	kill -STOP "$target"
	ok "the target stops" state_is T
	ok "a stopped target is said to be stopped" says "is stopped"
	kill -CONT "$target"
	/usr/bin/python3 - "$target" >"$WORK/tracer" <<-'EOF' &
		import ctypes, os, signal, sys
		pid = int(sys.argv[1])
		libc = ctypes.CDLL(None, use_errno=True)
		assert libc.ptrace(16, pid, None, None) == 0  # PTRACE_ATTACH
		os.waitpid(pid, 0)
		print("traced", flush=True)
		signal.pause()
	EOF
	tracer=$!
	ok "the target is traced" state_is t
	ok "a traced target is said to be traced" says "is stopped by its debugger (process $tracer)"
	kill "$tracer"
	wait "$tracer" 2>/dev/null
	# beginning to end in samples, so that no clock is asked: --seconds counts from when it was ready
	/bin/sh -c 'while :; do /bin/true; done' &
	churn=$!
	"$WORK/sysom" record -p "$churn" --seconds 0.5 --json -o "$WORK/churn.folded" >"$WORK/churn.json" 2>"$WORK/churn.log"
	ok "a target that starts programs all the time is ready at once" bash -c '! grep -q "unwind tables were not ready" "$0"' \
		"$WORK/churn.log"
	kill "$churn"
else
	skip "why a target has no samples" "needs bpf: $(jq -r .why "$WORK/a.folded.json" 2>/dev/null)"
fi
kill "$target" 2>/dev/null
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	setpriv --reuid nobody --clear-groups "$WORK/sysom" record --json -o - -f folded -- "${spin[@]}" \
		>"$WORK/n.folded" 2>"$WORK/n.json"
	ok "an ordinary user gets copied stacks, or none, with the reason" bash -c \
		'jq -e "(.mode == \"copy\" and .samples > 0) and (.why | length > 0)" "$0" >/dev/null ||
		 grep -q "cannot take CPU stacks here: ." "$0"' "$WORK/n.json"
	setpriv --reuid nobody --clear-groups "$WORK/sysom" record -o - -f folded -- "${spin[@]}" \
		>"$WORK/n.folded" 2>"$WORK/n.txt"
	ok "copied stacks say nothing of blocked time" bash -c '! grep "blocking events" "$0"' "$WORK/n.txt"
fi
finish

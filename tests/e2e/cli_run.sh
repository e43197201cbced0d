#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `sysom run`: an absolute path, an earlier LD_PRELOAD kept, the job runs whatever is missing.
set -u
B=${B:?}
T=$(mktemp -d)
trap 'kill $listener 2>/dev/null; rm -rf "$T"' EXIT
unset LD_PRELOAD SYSOM_PRELOAD SYSOM_JOB SYSOM_ROLE SYSOM_SOCKET_PATH
export ASAN_OPTIONS=verify_asan_link_order=0 # sysom below LD_PRELOAD, in a sanitized build
n=0
failed=0
is() {
	local text=$1; shift
	n=$((n + 1))
	if "$@"; then echo "ok $n - $text"; else echo "not ok $n - $text"; failed=1
		sed 's/^/# /' "$T/out" "$T/err" 2>/dev/null | head -20; fi
}
# A tree of its own, so that what is built or not beside the real one makes no difference.
mkdir -p "$T/a b/bin" "$T/t/bin" "$T/t/lib"
cp "$B/bin/sysom" "$T/t/bin/"
cp "$B/bin/sysom" "$T/a b/bin/"
printf 'int tiny_preload = 1;\n' >"$T/tiny.c"
printf 'int other_preload = 1;\n' >"$T/other.c"
${CC:-gcc} -shared -fPIC -o "$T/t/lib/libsysom_preload.so" "$T/tiny.c" &&
	${CC:-gcc} -shared -fPIC -o "$T/libother.so" "$T/other.c"
maps='import os; m = open("/proc/self/maps").read(); print(os.environ.get("LD_PRELOAD"), "libsysom_preload.so" in m, "libother.so" in m, os.environ.get("SYSOM_JOB"), os.environ.get("SYSOM_ROLE"))'
run() { "$@" >"$T/out" 2>"$T/err"; status=$?; }
R=$(realpath "$T")
# Takes the place of sysomd: `sysom run` only checks whether a process listens.
export SYSOM_SOCKET_PATH=$R/sysomd.sock
python3 -c 'import os, signal, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(os.environ["SYSOM_SOCKET_PATH"])
s.listen(64)
signal.pause()' &
listener=$!
for _ in $(seq 400); do [ -S "$SYSOM_SOCKET_PATH" ] && break; sleep 0.05; done

run "$T/t/bin/sysom" run --job j1 --role train -- python3 -c "$maps"
is "the library is loaded by its absolute path; job and role are set" [ "$(cat "$T/out")" = "$R/t/lib/libsysom_preload.so True False j1 train" ]
is "nothing is printed" [ ! -s "$T/err" ]
LD_PRELOAD=$R/libother.so run "$T/t/bin/sysom" run python3 -c "$maps"
is "an earlier LD_PRELOAD stays, behind ours" [ "$(cat "$T/out")" = "$R/t/lib/libsysom_preload.so:$R/libother.so True True None None" ]
SYSOM_SOCKET_PATH=$R/none.sock run "$T/t/bin/sysom" run -- "$T/t/bin/sysom" run -- sh -c 'echo ran; exit 7'
is "without a sysomd the job runs and keeps its status" eval '[ $status = 7 ] && [ "$(cat "$T/out")" = ran ]'
is "... after one line that names the socket and says how to start one" eval '[ "$(wc -l <"$T/err")" = 1 ] &&
	grep -q "^sysom run: no sysomd answers at $R/none.sock .*nothing is recorded.*systemctl start sysomd" "$T/err"'
spans() { SYSOM_SPANS=$1 run "$T/t/bin/sysom" run -- sh -c 'echo ran'; }
says() { [ "$(cat "$T/out")" = ran ] && [ "$(wc -l <"$T/err")" = 1 ] && grep -q "^sysom run: no Python spans .*$1" "$T/err"; }
spans "$R/none.spans"; is "a catalogue that is missing is one warning" says "No such file"
echo "framework: mine" >"$R/mine.yaml"
spans "$R/mine.yaml"; is "... as is one that is not compiled" says "use sysom spans compile"
echo "sysom-spans 1" >"$R/mine.spans"
(cd "$R" && spans mine.spans); is "... and one that another directory has not" says "not an absolute path"
spans "$R/mine.spans"; is "a compiled one is none" [ ! -s "$T/err" ]
spans off; is "nor is off" [ ! -s "$T/err" ]
run "$T/t/bin/sysom" run -- "$T/t/bin/sysom" run -- python3 -c "$maps"
is "run inside run adds it once" [ "$(cat "$T/out")" = "$R/t/lib/libsysom_preload.so True False None None" ]
(cd "$T/t" && SYSOM_PRELOAD=../libother.so run bin/sysom run -- sh -c 'cd /; grep -c libother.so /proc/self/maps >/dev/null && echo "$LD_PRELOAD"')
is "SYSOM_PRELOAD names another library and becomes absolute" [ "$(cat "$T/out")" = "$R/libother.so" ]
mv "$T/t/lib/libsysom_preload.so" "$T/gone.so"
run "$T/t/bin/sysom" run -- sh -c 'echo ran; exit 7'
is "without the library the job runs and keeps its status" eval '[ $status = 7 ] && [ "$(cat "$T/out")" = ran ]'
is "... after one warning" [ "$(wc -l <"$T/err")" = 1 ]
mkdir "$T/a b/lib"; cp "$T/gone.so" "$T/a b/lib/libsysom_preload.so"
run "$T/a b/bin/sysom" run -- sh -c 'echo "ran $LD_PRELOAD"'
is "a path that LD_PRELOAD can't hold is a warning, not an error" eval '[ "$(cat "$T/out")" = "ran " ] && [ "$(wc -l <"$T/err")" = 1 ]'
run "$T/t/bin/sysom" run -- "$T/nonexistent"
is "a command that is missing is 127" [ $status = 127 ]
run "$T/t/bin/sysom" run -- "$T"
is "a command that can't be run is 126" [ $status = 126 ]
run "$T/t/bin/sysom" run
is "no command is a usage error" [ $status = 2 ]
# Of the real library: it has all that musl lacks.
if why=$(/usr/bin/python3 tests/needs.py command:musl-gcc); then
	musl-gcc -o "$T/musl" -xc - <<<'#include <stdio.h>
		#include <unistd.h>
		int main(int argc, char **argv) { puts("ran"); fflush(stdout); if (argc > 1) pause(); return 7; }'
	SYSOM_PRELOAD=$B/lib/libsysom_preload.so run "$T/t/bin/sysom" run -- sh -c '"$0"' "$T/musl"
	is "a program with musl runs as without sysom" eval '[ "$status $(cat "$T/out")" = "7 ran" ] && [ ! -s "$T/err" ]'
	SYSOM_PRELOAD=$B/lib/libsysom_preload.so "$T/t/bin/sysom" run -- "$T/musl" wait >"$T/begun" &
	for _ in $(seq 400); do [ -s "$T/begun" ] && break; sleep 0.05; done
	run "$B/bin/sysom" doctor
	is "doctor says that it is not traced, and why" grep -q "^warn  untraced .*: their C library is musl" "$T/out"
	kill $! && wait $! 2>/dev/null
else
	n=$((n + 1))
	echo "ok $n - a program with musl # SKIP $why"
fi
XDG_RUNTIME_DIR=$T/xdg run "$T/t/bin/sysom" run -- true
is "no user's directory is needed" [ $status = 0 ]
echo "1..$n"
exit $failed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh - `make install` below a DESTDIR: the tree is whole and works from there, with nothing of
# the build tree or the environment; the commands of README.md find a fault with it.
. "$(dirname "$0")/lib.sh"
. tests/e2e/page.sh
ROOT=$WORK/root
BIN=$ROOT/usr/bin
env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory install B="$B" DESTDIR="$ROOT" PREFIX=/usr \
	>"$WORK/install.log" 2>&1
ok "make install DESTDIR=... PREFIX=/usr" is $? 0

has_all() { # directory names...
	local dir=$1 name bad=0
	shift
	for name in "$@"; do
		[ -s "$ROOT/usr/$dir/$name" ] || { echo "# no $dir/$name"; bad=1; }
	done
	return $bad
}
clean() { env -i PATH=/usr/bin:/bin HOME="$WORK" XDG_RUNTIME_DIR="$WORK" "$@"; }
preloads() {
	clean "$BIN/sysom" run -- /usr/bin/env >"$WORK/env" &&
		is "$(sed -n 's/^LD_PRELOAD=//p' "$WORK/env")" "$(realpath "$ROOT/usr/lib/libsysom_preload.so")"
}
all_attached() {
	[ "$(node_api status '[.ranks[]|select(.events>0)]|length' 2>/dev/null)" = 2 ]
}
units() {
	! grep -h ^ExecStart "$ROOT"/usr/lib/systemd/system/*.service | grep -v "^ExecStart=/usr/bin/sysom"
}
compiles() {
	printf '#include <sysom.h>\nint main(void) { return 0; }\n' >"$WORK/a.c"
	"${CC:-cc}" -std=c99 -Wall -Werror -I"$ROOT/usr/include" -o "$WORK/a" "$WORK/a.c"
}

ok "programs" has_all bin sysom sysomd sysom-aggregator sysom-ring simjob
ok "the part with every library" has_all lib sysom/sysom-full
ok "a command that needs it finds it" eval 'clean "$BIN/sysom" doctor >"$WORK/doctor"; grep -q "$(realpath "$ROOT/usr/lib")/libsysom_preload.so" "$WORK/doctor"'
ok "libraries" has_all lib libsysom_preload.so sysom/sim/libcuda.so.1 sysom/sim/libnccl.so.2
ok "manuals" has_all share/man man1/sysom.1 man8/sysomd.8 man8/sysom-aggregator.8
ok "settings, units and header" has_all . share/sysom/sysomd.yaml share/sysom/sysom-aggregator.yaml share/sysom/spans/vllm.yaml \
	lib/systemd/system/sysomd.service lib/systemd/system/sysom-aggregator.service include/sysom.h
ok "units start the installed programs" units
ok "a C program compiles against sysom.h" compiles
for program in sysom sysomd sysom-aggregator sysom-ring simjob; do
	clean "$BIN/$program" --help >"$WORK/help" 2>&1
	ok "$program starts in an empty environment" is $? 0
done
ok "sysom run finds the preload beside itself" preloads
ok "the daemons start" stack_start "$WORK/stack"
"$BIN/sysom" run --job installed -- "$BIN/simjob" --ranks 2 --seconds 4 --seed 7 >"$WORK/job.log" 2>&1 &
JOB=$!
ok "a simulated job's ranks are seen" stack_wait 10 all_attached
wait $JOB
ok "and it ends well" is $? 0
ok "the daemons end" stack_stop

# ---- as README.md has it, on a machine of its own ----
ok "README.md has commands for use" page_lines README.md "Use it" 1 '^make all && sudo make install$' '^sysom-aggregator' '^sudo sysomd' \
	'^sysom run -- torchrun' '^sysom run -- simjob' '^sysom run --job chat -- vllm serve'
lacks=
for need in root mounts command:ip command:unshare; do /usr/bin/python3 tests/needs.py $need >/dev/null || lacks=$need; done
if [ -z "$lacks" ]; then
	(echo 'sudo() { "$@"; }'
	echo 'mount -t tmpfs none /run && mount -t tmpfs none /var/lib && ip link set lo up || exit'
	sed 's/HOST/127.0.0.1/' "$WORK"/lines.{2,3,5}
	echo 'sysom incidents --json; kill $(jobs -p); wait') >"$WORK/commands"
	clean PATH="$BIN:/usr/sbin:/usr/bin:/sbin:/bin" unshare --net --mount bash "$WORK/commands" >"$WORK/incidents" 2>"$WORK/use.log"
	ok "they find the fault" is "$(sed -n '/^{/,$p' "$WORK/incidents" | jq -c '[.incidents[] | select(.symptom != "transient") | .ranks[]] | unique')" "[3]"
else
	skip "they find the fault" "needs $lacks"
fi
finish

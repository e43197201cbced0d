#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# containers.sh - sysomd in a container, beside that of its job, as in a Pod: what is lost without each capability,
# where sysomd says so, and that the tables of the pages are right.
. "$(dirname "$0")/lib.sh"
. tests/e2e/podman.sh
. tests/e2e/beside.sh
trap 'pod_end; finish' EXIT
for need in command:podman command:runc command:gcc root mounts bpf cpu-group; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "sysomd beside a job's container" "needs $need"; exit; }
done

cat >"$WORK/own.c" <<-'C'
	void own_work(void) { for (volatile int i = 0; i < 2000000; i++) ; }
C
python_job() { # it loads a library of its own and deletes the file
	install -d -o 1000 "$HERE/own" && gcc -O1 -shared -fPIC -Wl,--build-id -o "$HERE/own/libown.so" "$WORK/own.c" &&
		job -e RANK=0 -e WORLD_SIZE=1 -- /usr/bin/python3 tests/e2e/python_job.py 600 "$HERE/own/libown.so"
}
sampled() { [ "$(status .sampler.samples_total)" -ge 300 ]; }
yes_if() { "$@" >/dev/null 2>&1 && echo yes || echo no; }
kernel_names() {
	pod exec sysomd bin/sysom record --no-off-cpu -f folded -o - -- /usr/bin/python3 -c '
import time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    open("/proc/stat").read()' 2>/dev/null | grep -q 'seq_read\|show_stat\|vfs_read'
}
# What sysomd has, as words; `tables` is a number.
seen() {
	status ' | "stacks=\(.mode.stacks) os=\(.os.mode) stops=\(.mode.stops) python=\(.sampler.python_frames_total > 0) tables=\(.sampler.tables) cgroups=\(.os.missing | contains("cgroups") | not)"' |
		tr -d '\n'
	echo " names=$(yes_if kernel_names)"
}
look() { # capabilities...
	sysomd_with "$@" && python_job && stack_wait 60 sampled && seen >"$WORK/seen" && sed 's/^/# /' "$WORK/seen" && grep -q '^stacks=.*names=' "$WORK/seen"
}
# Where groups share out real time (CONFIG_RT_GROUP_SCHED, version 1), a container has none.
realtime() { pod run --rm --network=host --cap-drop all --cap-add SYS_NICE -v /usr:/usr:ro localhost/bare:1 /usr/bin/chrt -f 1 true; }
has_all() {
	local stops=unseen
	realtime 2>/dev/null && stops=seen
	TABLES=$(sed 's/.*tables=\([0-9]*\).*/\1/' "$WORK/seen")
	is "$(cat "$WORK/seen")" "stacks=bpf-loop os=bpf stops=$stops python=true tables=$TABLES cgroups=true names=yes"
}
# What differs from a sysomd with all of them.
lost_without() {
	case $1 in
	BPF) echo 's/bpf-loop/copy/; s/os=bpf/os=proc/; s/python=true/python=false/' ;;
	PERFMON) echo 's/bpf-loop/copy/; s/os=bpf/os=proc/; s/python=true/python=false/; s/names=yes/names=no/' ;;
	SYS_PTRACE) echo 's/python=true/python=false/; s/tables=[0-9]*/tables=0/' ;;
	CHECKPOINT_RESTORE) echo "s/tables=$TABLES/tables=$((TABLES - 1))/" ;;
	DAC_READ_SEARCH) echo "s/python=true/python=false/; s/tables=$TABLES/tables=$((TABLES - 1))/; s/cgroups=true/cgroups=false/" ;;
	SYS_NICE) echo 's/stops=seen/stops=unseen/' ;;
	SYSLOG) echo 's/names=yes/names=no/' ;;
	esac
}
loses() { is "$(cat "$WORK/seen")" "$(sed "$(lost_without "$1")" "$WORK/seen.all")"; }
says() { # capability: in its log, metrics, status and to `sysom doctor`
	local text
	text=$(status '.rights | map(.without) | join(" ")')
	is "$text" "CAP_$1" || return
	text=$(status '.rights[0].lost')
	pod logs sysomd 2>&1 | grep -qF "event=rights without=CAP_$1 lost=\"$text\"" &&
		pod exec sysomd curl -s --unix-socket "$CONTROL" http://sysomd/metrics | grep -qxF "sysom_capability{capability=\"CAP_$1\"} 0" &&
		pod exec sysomd bin/sysom doctor --control "$CONTROL" | grep -qF "sysomd has no CAP_$1: without $text" || return
	grep -qF "| CAP_$1 | $text |" docs/sysomd.md
}
traced() { [ "$(status '.ranks[0].steps')" -gt 20 ]; }
without() { local c; for c in "${ALL[@]}"; do [ "$c" = "$1" ] || echo "$c"; done; }
manifests_ask() { # for all but SYS_NICE
	local c
	for c in $(without SYS_NICE); do
		grep -q "add:.*\"$c\"\|^ *- $c\$\|\"$c\"" deploy/kubernetes/training-pod.yaml || { echo "# not $c"; return 1; }
	done
	! grep -q SYS_NICE deploy/kubernetes/*.yaml
}

ok "a bare image of this machine" prepared
ok "a process namespace" container pause -- /usr/bin/sleep 3600
stack_place "$WORK/stack"
ok "an aggregator" stack_aggregator
ok "with all capabilities" look "${ALL[@]}"
cp "$WORK/seen" "$WORK/seen.all"
ok "nothing is lost" has_all
gone sysomd job
for less in "${ALL[@]}"; do
	ok "without CAP_$less" look $(without "$less")
	ok "what the table says is lost, and nothing else" loses "$less"
	ok "log, metrics, status, doctor and the page say so" says "$less"
	ok "the job is traced" traced
	gone sysomd job
done
ok "the manifests ask for what costs the job nothing" manifests_ask

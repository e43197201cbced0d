#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# evicted.sh - what a Pod's end and a poor node do: the sidecar goes before the job, or is killed; one second of
# grace; a volume that is read-only or full; a kernel without BTF, and one that forbids BPF. Each has a clear
# message, no window that was acknowledged or on the disk is lost, and the job ends and prints as it does
# without sysom.
# needs: root
. "$(dirname "$0")/lib.sh"
trap 'volumes_end; finish' EXIT
for need in mounts command:gcc seccomp; do
	/usr/bin/python3 tests/needs.py "$need" >/dev/null || { skip "a Pod's end and a poor node" "needs $need"; exit; }
done
volumes=()
volume() { # directory: of its own, 16 MB
	mkdir -p "$1" && mount -t tmpfs -o size=16m none "$1" && volumes+=("$1")
}
volumes_end() {
	stack_stop
	for v in "${volumes[@]}"; do umount -l "$v"; done
}

# ---- jobs: each beside one without sysom that ends in the same way ----
job_begin() { # prefix: a program and its arguments before the job, or nothing
	local run='echo begun; echo "to stderr" >&2; exec "$@"' simjob=("$BIN/simjob" --ranks 2 --seconds 3600 --seed 7)
	bash -c "$run" job "${simjob[@]}" >"$WORK/plain.out" 2>&1 &
	plain=$!
	"$BIN/sysom" run --job evicted -- bash -c "$run" job "${simjob[@]}" >"$WORK/job.out" 2>&1 &
	job=$!
}
steps_flow() { [ "$(node_api status '[.ranks[] | select(.state == "attached") | .steps] | (length == 2 and min > 3)')" = true ]; }
traced() { job_begin && stack_wait 40 steps_flow; }
unharmed() { # signal: it ends both; their output and status are equal
	local got want
	kill "-$1" $job $plain
	wait $plain
	want=$?
	wait $job
	got=$?
	is "$got $(cat "$WORK/job.out")" "$want $(cat "$WORK/plain.out")"
}

# ---- windows ----
capture() { # count
	local n
	for _ in $(seq "$1"); do
		n=$(curl -sf --unix-socket "$SYSOM_CONTROL_PATH" -X POST "http://sysomd/api/v1/capture?rank=0&seconds=0.3" | jq .windows)
		[ "$n" = 1 ] || return
	done
}
metric() { curl -sf -m 10 "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | sed -n "s/^$1 //p"; }
log_has() { grep -qE "$2" "$WORK/stack/$1.log"; }
stored_are() { [ "$(api status .windows)" -ge "$1" ]; }
spooled_are() { [ "$(find "$WORK/stack/state/spool" -name '*.msg' | wc -l)" -ge "$1" ]; }
acked_are_stored() {
	local id count=0
	for id in $(sed -n 's/.*event=window_acked .*id=\([0-9a-f]*\).*/\1/p' "$WORK/stack/sysomd.log"); do
		curl -sf -o /dev/null "$SYSOM_URL/api/v1/windows/$id" || { echo "# no window $id"; return 1; }
		count=$((count + 1))
	done
	echo "# $count windows"
	[ $count -ge "$1" ]
}
slain() { kill -KILL "$1" && wait "$1" 2>/dev/null; }
one_second() { # pid: of grace, as terminationGracePeriodSeconds: 1
	kill -TERM "$1" && sleep 1
	kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}
again() { # a new place for both daemons
	stack_stop
	rm -rf "$WORK/stack"/*.log
	STACK_SYSOMD_FLAGS=
}

STACK_SYSOMD_FLAGS="--spool-bytes 4MB --recorder-files 2MB" STACK_AGGREGATOR_FLAGS="--store-reserve-bytes 1MB"
ok "daemons start" stack_start "$WORK/stack"
ok "a job is traced" traced
ok "windows are sent" capture 3
ok "and stored" stack_wait 20 stored_are 3
stack_end sysomd "$STACK_SYSOMD_PID"
ok "the sidecar ends with 0, before its job" is $? 0
ok "the job that ends after it is unharmed" unharmed TERM
ok "what was acknowledged is stored" acked_are_stored 3

stack_sysomd
ok "a job is traced" traced
slain "$STACK_AGGREGATOR_PID"
ok "windows are taken while nobody takes them" capture 4
ok "and wait on the volume" stack_wait 20 spooled_are 4
slain "$STACK_SYSOMD_PID"
ok "the job whose sidecar was killed is unharmed" unharmed USR1
stack_sysomd
ok "another job is traced" traced
ok "more windows are taken" capture 2
one_second "$STACK_SYSOMD_PID"
ok "the job is unharmed by a sidecar with one second of grace" unharmed TERM
ok "its windows are on the volume" spooled_are 6
stack_aggregator
stack_sysomd
ok "all of them arrive" stack_wait 40 stored_are 9
one_second "$STACK_AGGREGATOR_PID"
stack_aggregator
ok "an aggregator with one second of grace has what it acknowledged" acked_are_stored 9

# ---- the aggregator's volume ----
again
volume "$WORK/stack/store"
ok "daemons start on a small volume" eval 'stack_aggregator && stack_sysomd'
ok "a job is traced" traced
ok "a window is sent" capture 1
ok "and stored" stack_wait 20 stored_are 1
dd if=/dev/zero of="$WORK/stack/store/ballast" bs=64k 2>/dev/null
ok "windows are sent to a full volume" capture 2
ok "the aggregator says that it is full" stack_wait 20 eval '[ "$(api status .disk_full)" = true ]'
ok "the node, too" stack_wait 20 log_has sysomd 'disk full'
ok "its windows wait" stack_wait 20 eval '[ "$(metric sysom_spool_bytes)" -gt 0 ]'
rm "$WORK/stack/store/ballast"
ok "with room again they are stored" stack_wait 60 stored_are 3
ok "the job is unharmed" unharmed TERM
ok "what was acknowledged is stored" acked_are_stored 3
stack_stop
mount -o remount,ro "$WORK/stack/store"
"$BIN/sysom-aggregator" --nng-listen "$STACK_NNG" --http-listen "127.0.0.1:$STACK_HTTP" --store-dir "$WORK/stack/store" \
	>"$WORK/stack/refused.log" 2>&1
ok "an aggregator on a read-only volume ends with 3" is $? 3
ok "and says why" log_has refused 'level=error event=store dir=.* why="Read-only file system"'
mount -o remount,rw "$WORK/stack/store"
stack_aggregator
ok "and finds all again once it may write" stored_are 3

# ---- the sidecar's volume ----
again
volume "$WORK/stack/state"
mount -o remount,ro "$WORK/stack/state"
ok "daemons start, the sidecar on a read-only volume" eval 'stack_aggregator && stack_sysomd'
ok "it says so" log_has sysomd 'event=spool .*Read-only file system'
ok "and what that costs" log_has sysomd 'event=state .*nothing is kept on disk'
ok "also in its status" is "$(node_api status .mode.spool)" memory
ok "a job is traced" traced
ok "a window is sent" capture 1
ok "and stored" stack_wait 20 stored_are 4
ok "the job is unharmed" unharmed USR1
stack_end sysomd "$STACK_SYSOMD_PID"
STACK_SYSOMD_PID=
mount -o remount,rw "$WORK/stack/state"
dd if=/dev/zero of="$WORK/stack/state/ballast" bs=64k 2>/dev/null
rm "$WORK/stack/sysomd.log"
ok "a sidecar starts on a full volume" stack_sysomd
ok "a job is traced" traced
slain "$STACK_AGGREGATOR_PID"
ok "windows are taken" capture 2
ok "it says that they wait in memory" stack_wait 20 log_has sysomd 'event=spool .*No space left on device'
ok "and how much" test "$(metric sysom_spool_memory_bytes)" -gt 0
stack_aggregator
ok "they are stored all the same" stack_wait 40 stored_are 6
ok "the job is unharmed" unharmed TERM

# ---- the kernel ----
cat >"$WORK/forbid.c" <<-'C'
	/* Runs a program to which the kernel refuses bpf and perf_event_open. */
	#include <errno.h>
	#include <linux/filter.h>
	#include <linux/seccomp.h>
	#include <stddef.h>
	#include <sys/prctl.h>
	#include <sys/syscall.h>
	#include <unistd.h>
	int main(int argc, char **argv)
	{
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 1, 0),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
		struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
			return 125;
		return execv(argv[1], argv + 1);
	}
C
gcc -o "$WORK/forbid" "$WORK/forbid.c"
printf '#!/bin/sh\nexec unshare -m sh -c '\''mount -t tmpfs none /sys/kernel/btf && exec "$0" "$@"'\'' "%s" "$@"\n' "$PWD/$BIN/sysomd" >"$WORK/no-btf"
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$WORK/forbid" "$PWD/$BIN/sysomd" >"$WORK/no-bpf"
chmod +x "$WORK/no-btf" "$WORK/no-bpf"
sysomd_by() { # script that starts it
	mkdir -p "$WORK/$1.bin" && ln -sf "$WORK/$1" "$WORK/$1.bin/sysomd" && BIN=$WORK/$1.bin stack_sysomd
}
is_open() { [ "$(node_api status .os.mode)" != starting ] && [ "$(node_api status .mode.stacks)" != starting ]; }
poor_kernel() { # script, its reason for stacks, that for OS signals, the stacks' mode
	again
	ok "$1: sysomd starts" eval "stack_aggregator && sysomd_by $1"
	ok "$1: a job is traced" traced
	stack_wait 30 is_open
	ok "$1: stacks" is "$(node_api status .mode.stacks)" "$4"
	ok "$1: the log says why" log_has sysomd "event=sampler .*why=\"[^\"]*$2"
	ok "$1: and why OS signals are those of /proc" log_has sysomd "event=os_signals bpf=0 why=\"$3"
	ok "$1: doctor says so" eval "\"$BIN/sysom\" doctor --control '$SYSOM_CONTROL_PATH' | grep -q 'OS signals .*from /proc only: $3'"
	ok "$1: a window is sent" capture 1
	ok "$1: and stored" stack_wait 20 stored_are 1
	ok "$1: the job is unharmed" unharmed TERM
}
poor_kernel no-btf 'the kernel has no BTF' 'the kernel has no BTF' copy
poor_kernel no-bpf 'no permission to load BPF' 'not allowed' none

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The guest rule: programs that make life hard for a library in their process print and return the same
# with the preload as without it, whatever it is refused, and pay no system call for a launch.
. "$(dirname "$0")/lib.sh"
SO=$PWD/$B/lib/libsysom_preload.so
GUEST=$PWD/$B/test/guest
CALLER=$PWD/$B/test/caller
PROBER=$PWD/$B/test/prober
export LD_LIBRARY_PATH=$PWD/$B/test/null SYSOM_SOCKET_PATH=$WORK/none.sock SYSOM_CUPTI=0
outcome() { # command... : output and status
	timeout 30 "$@" 2>&1 </dev/null
	echo "status $?"
}
same() { # text plain-command -- command
	local text=$1 plain=() want got
	shift
	while [ "$1" != -- ]; do plain+=("$1"); shift; done
	shift
	want=$(outcome "${plain[@]}")
	got=$(outcome "$@")
	ok "$text" is "$got" "$want"
}
for mode in $("$GUEST" list); do
	same "$mode is unharmed" "$GUEST" "$mode" -- env LD_PRELOAD="$SO" "$GUEST" "$mode"
done
for mode in $("$PROBER" list); do
	same "a program that looks for a library itself, $mode, is unharmed" \
		"$PROBER" "$mode" -- env LD_PRELOAD="$SO" "$PROBER" "$mode"
	ok "and the truth" is "$(outcome "$PROBER" "$mode" | tail -n 1)" "status 0"
done
if ! command -v strace >/dev/null; then
	skip "no system call of ours is needed" "needs command:strace"
	finish
fi
for refused in memfd_create:error=ENOSYS memfd_create:error=EMFILE ftruncate:error=ENOSPC \
	fcntl:error=EINVAL madvise:error=EINVAL madvise:error=ENOMEM clone3:error=EAGAIN \
	prctl:error=EPERM fallocate:error=ENOSPC gettid:error=EPERM prlimit64:error=EPERM; do
	same "$refused is survived" "$CALLER" linked 5 -- strace -f -qq -o /dev/null -e "inject=$refused" \
		-E "LD_PRELOAD=$SO" "$CALLER" linked 5
done
calls() { # launches -> system calls of the whole run
	strace -f -c -o "$WORK/count" -E "LD_PRELOAD=$SO" "$CALLER" linked "$1" >/dev/null
	awk '/total/ {print $(NF == 5 ? 4 : 3)}' "$WORK/count"
}
few=$(calls 100)
many=$(calls 20100)
echo "# $few system calls with 100 launches, $many with 20100"
ok "20000 launches more make no system calls" test $((many - few)) -lt 100
finish

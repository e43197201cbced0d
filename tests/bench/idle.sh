#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What sysomd costs on a node where no job runs: CPU, wake-ups of all its threads, memory, BPF maps.
# usage: idle.sh BUILD
. "$(dirname "$0")/../e2e/lib.sh"
trap 'stack_stop; rm -rf "$WORK"' EXIT
seconds=${IDLE_SECONDS:-20}
stack_start "$WORK/stack" || { cat "$WORK"/stack/*.log; exit 1; }
cpu_ticks() { # user and system time, of all threads
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}
wakeups() {
	cat /proc/"$1"/task/*/status | awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n }'
}
sleep 5 # what starting takes is no idling
ticks=$(cpu_ticks "$STACK_SYSOMD_PID") woken=$(wakeups "$STACK_SYSOMD_PID")
sleep "$seconds"
ticks=$(($(cpu_ticks "$STACK_SYSOMD_PID") - ticks)) woken=$(($(wakeups "$STACK_SYSOMD_PID") - woken))
awk -v t="$ticks" -v w="$woken" -v s="$seconds" -v hz="$(getconf CLK_TCK)" \
	-v rss="$(awk '/^VmRSS/ { print $2 / 1024 }' "/proc/$STACK_SYSOMD_PID/status")" 'BEGIN {
	printf "  without ranks: %.2f%% of a core (budget 0.3%%), %.0f wake-ups a second (budget 20), RSS %.0f MiB\n",
		100 * t / hz / s, w / s, rss }'

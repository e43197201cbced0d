#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job hangs, and NCCL's RAS service on the host says which rank is behind, after the hang was reported: that is evidence
# of the incident. Others that have the port answer nonsense, or without end: counted, named by doctor, and sysomd goes on.
. "$(dirname "$0")/lib.sh"
read -r port < <(free_ports 1)
echo silent >"$WORK/mode"
STACK_AGGREGATOR_FLAGS="--detect-hang 6s" STACK_SYSOMD_FLAGS="--beat-period 1s --ras-port $port" \
	stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
/usr/bin/python3 tests/faults/ras_server.py "$port" "$WORK/mode" &
hang() { # name
	"$BIN/sysom" run --job "$1" -- "$BIN/simjob" --ranks 3 --seconds 300 --fault endless:rank=1:start=100:kernel=gemm \
		>"$WORK/$1.log" 2>&1 &
	job=$!
}
ras() { node_api status ".ras.$1"; }
at_least() { [ "$(ras "$1")" -ge "$2" ]; }
pid_of() { node_api status ".ranks[] | select(.rank == $1) | .pid"; }
rank() { # rank allreduces
	echo "{\"rank\":$1,\"host\":\"10.0.0.1\",\"pid\":$(pid_of "$1"),\"status\":{\"async_error\":0,\"abort_flag\":false},
		\"collective_counts\":{\"AllReduce\":$2}}"
}
hang first
ok "three ranks attach" stack_wait 20 attached 3
echo "late{\"communicators\":[{\"hash\":\"0xc0ffee\",\"size\":3,\"ranks\":[$(rank 0 677),$(rank 2 677)],
	\"missing_ranks\":[{\"rank\":1,\"host\":\"10.0.0.1\",\"pid\":$(pid_of 1),\"status\":{\"considered_dead\":false}}]}]}" \
	>"$WORK/mode.new"
mv "$WORK/mode.new" "$WORK/mode"
ok "the service is asked when the job hangs, and not before" stack_wait 60 at_least answers 1
says() { # job text
	api "incidents?job=$1" '.incidents[] | .signals[] | select(.name == "nccl_ras") | .text' | grep -qF "$2"
}
ok "what it says is evidence of the incident" stack_wait 60 says first "rank 1 of 0xc0ffee"
api "incidents?job=first" '.incidents[] | .signals[] | select(.name == "nccl_ras") | .text' | sort -u | sed 's/^/# /'
ok "and no more than evidence: the kernel is the cause" is \
	"$(api "incidents?job=first" '.incidents[0].diagnosis.cause')" hang-kernel
for mode in http flood; do
	before=$(ras nonsense)
	echo $mode >"$WORK/mode"
	ok "$mode is counted as no answer" stack_wait 60 at_least nonsense $((before + 1))
done
ok "doctor names it" bash -c '"$0" doctor | grep -q "questions about hangs; [1-9][0-9]* answers were not valid"' "$BIN/sysom"
ok "the job's ranks are followed on" attached 3
node_api status .ras | jq -c . | sed 's/^/# /'
kill $job
wait $job 2>/dev/null
finish

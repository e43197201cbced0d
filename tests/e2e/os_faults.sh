#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job of 4 ranks on the simulated node; a process that spins on the CPU of one rank makes it late. The
# incident must name that process. Needs BPF, so root.
# needs: root bpf cpus
# alone: the hog takes most of a CPU, in real time
. "$(dirname "$0")/lib.sh"
CULPRIT=2 # the rank whose CPU is taken

trap finish EXIT

rank_pid() { node_api status ".ranks[] | select(.rank == $1 and .state == \"attached\") | .pid"; }
# A quarter of the time is left to others, as a real-time process that polls would do.
hog() { # cpu seconds
	exec -a os-hog python3 - "$1" "$2" <<-'PY'
		import ctypes, os, sys, time
		ctypes.CDLL(None).prctl(15, b"os-hog", 0, 0, 0)  # PR_SET_NAME
		os.sched_setaffinity(0, {int(sys.argv[1])})
		os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
		end = time.monotonic() + float(sys.argv[2])
		while time.monotonic() < end:
		    until = time.monotonic() + 0.06
		    while time.monotonic() < until:
		        pass
		    time.sleep(0.02)
	PY
}

stack_start "$WORK/stack" || { ok "daemons start" false; exit; }
loaded() { [ "$(node_api status .os.mode)" != starting ]; }
stack_wait 60 loaded
is "$(node_api status .os.mode)" bpf || { echo "# $(node_api status .os.why)"; ok "BPF loads" false; exit; }
"$BIN/sysom" run --job os-faults -- "$BIN/simjob" --ranks 4 --seconds 3600 --seed 7 >"$WORK/job.log" 2>&1 &
JOB=$!
ok "four ranks learn what is usual" stack_wait 25 known 4
steps_more 30 # that are usual
for rank in 0 1 2 3; do # the hog is to meet one rank alone
	for thread in /proc/"$(rank_pid $rank)"/task/*; do
		taskset -pc $((rank == CULPRIT)) "${thread##*/}" >>"$WORK/taskset.log" 2>&1
	done
done
steps_more 20
hog 1 3600 &
HOG=$!
# A busy machine may make incidents of its own: the fault's is the one that knows of the hog.
says="os-hog (pid $HOG) held a CPU that the rank's threads waited for"
ID=none
named() {
	local id
	for id in $(api incidents '[.incidents[] | select(.symptom != "transient")] | sort_by(-.flagged_steps)[].id'); do
		"$BIN/sysom" show "$id" >"$WORK/show.log"
		grep -qF "$says" "$WORK/show.log" && ID=$id && return
	done
	return 1
}
ok "sysom show names the process that had the CPU" stack_wait 12 named
kill $HOG
sed 's/^/# /' "$WORK/show.log"
end_job $JOB
ok "the job ends with 0" is $? 0
stack_end sysomd "$STACK_SYSOMD_PID"
ok "sysomd ends with 0" is $? 0
STACK_SYSOMD_PID=
api incidents '.incidents[]' | jq -c '{id,symptom,ranks,victims,flagged_steps}' | sed 's/^/# /'
"$BIN/sysom" show "$ID" --json >"$WORK/show.json"
ok "the JSON form has the signal, raised" jq -e --arg who "os-hog (pid $HOG)" \
	'[.signals[] | select(.name == "cpu_hog" and .subject == $who and .raised)] | length > 0' "$WORK/show.json"
ok "and the totals, also those that are as usual" jq -e \
	'[.signals[].name] | contains(["run_wait", "page_faults", "io_wait"])' "$WORK/show.json"
"$BIN/sysom" report "$ID" -o "$WORK/report.html" >"$WORK/report.log"
ok "the HTML report has them" grep -q "os-hog (pid $HOG) held a CPU" "$WORK/report.html"

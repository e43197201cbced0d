#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# two_users.sh - two users run a job of one name on one node: real daemons have two jobs, and the ranks that
# one of them claims first hide no slow rank of the other's.
. "$(dirname "$0")/lib.sh"
python3 tests/needs.py root >/dev/null || { echo "1..0 # SKIP needs root"; exit 77; }
OTHER=61236
chmod 755 "$WORK"
run_job() { # seed fault... : four ranks of the job `same`
	local seed=$1
	shift
	SYSOM_JOB=same exec "${as[@]}" "$WORK/copy/bin/sysom" run -- "$WORK/copy/bin/simjob" \
		--ranks 4 --seconds 3600 --seed "$seed" "$@"
}
jobs_are() { [ "$(api jobs '[.jobs[] | select(.ranks == 4) | .job] | sort | join(",")')" = "$1" ]; }
# What all incidents say is the GPU's fault, as JOB:RANKS. A busy machine makes any rank of either job late, and incidents
# that say so are true; only the fault makes kernels take longer.
slow_gpus() { api incidents '[.incidents[] | .job as $job | (.diagnoses // [.diagnosis])[] | select(.layer == "gpu") | "\($job):\(.ranks | join(","))"] | unique | join(" ")'; }
found() { [ -n "$(slow_gpus)" ]; }
# The other user runs a copy: the tree may lie where only its owner can read, such as /root.
mkdir "$WORK/copy" && cp -r "$BIN" "$B/lib" "$WORK/copy" && chmod -R go+rX "$WORK/copy"
ok "the daemons start" stack_start "$WORK/stack"
as=(setpriv --reuid $OTHER --regid $OTHER --clear-groups env HOME=/nonexistent)
run_job 1 >"$WORK/other.log" 2>&1 &
other=$!
ok "the other user's job is known first" stack_wait 30 jobs_are "same@$OTHER"
as=()
run_job 2 --fault slow:rank=2:start=300:steps=1000000:size=1.5 >"$WORK/own.log" 2>&1 &
own=$!
ok "the same name of two users is two jobs of four ranks" stack_wait 30 jobs_are "same@0,same@$OTHER"
ok "a slow GPU is found" stack_wait 120 found
steps_more 100
ok "it is that of the second job's slow rank, and nobody else's is" is "$(slow_gpus)" same@0:2
quarantined() { curl -sf "$SYSOM_URL/metrics" | awk '$1 == "sysom_aggregator_quarantined_ranks" {print $2}'; }
ok "no rank of either is quarantined" is "$(quarantined)" 0
end_job "$own"
end_job "$other"
finish

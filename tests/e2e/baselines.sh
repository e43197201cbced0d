#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# baselines.sh - of a healthy run its baseline is kept, which `sysom diff` names and holds against the next
# run, in which a kernel runs as another variant that takes 1.5 times as long, and a variable differs.
. "$(dirname "$0")/lib.sh"
trap finish EXIT
STACK_SYSOMD_FLAGS="--sketch-period 5s"
CHANGE='variant:rank=all:start=0:steps=1000000:size=1.5:kernel=flash_fwd'
CHANGE+=':with=flash_fwd_splitkv_kernel<64, 64, true>(Flash_fwd_params)'

job() { # variable=value, arguments of simjob
	env "$1" SYSOM_JOB=nightly LD_PRELOAD="$PWD/$B/lib/libsysom_preload.so" LD_LIBRARY_PATH="$B/lib/sim" \
		"$BIN/simjob" --ranks 2 --seed 5 "${@:2}" >>"$WORK/job.log" 2>&1 &
	JOB=$!
}
job_ends() {
	kill "$JOB" 2>/dev/null
	wait "$JOB" 2>/dev/null
}
kept() { [ "$(api 'baselines?job=nightly' '.baselines | length')" = 1 ]; }
another_run() {
	local now
	now=$(api 'baselines?job=nightly' .present_run)
	[ -n "$now" ] && [ "$now" != "$RUN" ] &&
		api 'sketch?job=nightly&rank=1' '.settings[] | select(.name == "env:NCCL_ALGO") | .value' | grep -q Ring
}
status() { curl -s -o /dev/null -w '%{http_code}' "$SYSOM_URL/api/v1/$1"; }
diff_has() { # jq expression that is true
	jq -e "$1" "$WORK/diff.json" >/dev/null && return
	jq -c '.steps, .settings, .kernels[]' "$WORK/diff.json" | cut -c1-400 | sed 's/^/# /'
	return 1
}
median_ms() { # of the steps that simjob itself timed
	jq -s '[.[] | select(.begin_ns and .step > 20) | (.end_ns - .begin_ns) / 1e6] | sort | .[length / 2 | floor]' "$1"
}

stack_start "$WORK/stack" || { ok "daemons start" false; exit; }
job NCCL_ALGO=Tree --seconds 200 --truth "$WORK/a.jsonl"
ok "nothing is kept of a run that has only begun" is "$(api 'baselines?job=nightly' '.baselines | length')" 0
"$BIN/sysom" diff baseline:nightly baseline:nightly >"$WORK/out" 2>&1
ok "and that is said" is "$?$(grep -c '200 healthy steps' "$WORK/out")" 11
ok "the run leaves a baseline" stack_wait 190 kept
RUN=$(api 'baselines?job=nightly' '.baselines[0].run')
ok "it is the present run's" is "$(api 'baselines?job=nightly' .present_run)" "$RUN"
for path in baselines?job=nightly "baselines/$RUN?job=nightly&role=$(api 'baselines?job=nightly' '.baselines[0].role')" \
	'sketch?job=nightly&rank=1'; do
	ok "a reader of doubles loses nothing of ${path%%\?*}" python3 tests/e2e/doubles.py < <(curl -sf "$SYSOM_URL/api/v1/$path")
done
job_ends
job NCCL_ALGO=Ring --seconds 60 --truth "$WORK/b.jsonl" --fault "$CHANGE"
ok "the next run is another one, and has a sketch" stack_wait 40 another_run
ok "they can be compared" eval "'$BIN/sysom' diff --json baseline:nightly sketch:nightly:1 >'$WORK/diff.json'"
job_ends
ok "the sides are what was named" diff_has ".a.kind == \"baseline\" and (.a.label | contains(\"$RUN\")) and .a.steps >= 200 and
	.b.kind == \"sketch\""
ok "the kernel that changed: its variant, its time, not its calls" diff_has '.kernels[0] |
	.kernel == "flash_fwd_splitkv_kernel" and .changed == "argument 2: 128, now 64" and
	(.ns[1] / .ns[0] - 1.5 | fabs) < 0.03 and (.count[1] / .count[0] - 1 | fabs) < 0.02'
ok "no other kernel did" diff_has '[.kernels[1:][] | select((.kernel | startswith("nccl") | not) and .ns[0] > 1e5) |
	select((.ns[1] / .ns[0] - 1 | fabs) > 0.03 or .changed)] == []'
ok "the steps' times, as the job itself took them" diff_has ".steps.step.median |
	(.[0] / 1e6 / $(median_ms "$WORK/a.jsonl") - 1 | fabs) < 0.05 and
	(.[1] / 1e6 / $(median_ms "$WORK/b.jsonl") - 1 | fabs) < 0.05"
ok "launches are the same" diff_has '.steps.launches.median | .[0] == .[1] and .[0] > 100'
ok "the setting that differs" diff_has '.settings == [{setting: "env:NCCL_ALGO", a: "Tree", b: "Ring"}]'
ok "a baseline beside itself differs in nothing" eval "'$BIN/sysom' diff --json baseline:nightly:rank baseline:nightly::$RUN |
	jq -e '([.steps[].differs] | any | not) and .settings == [] and ([.kernels[] | .ns[0] == .ns[1]] | all)' >/dev/null"
ok "what nobody knows is 404, what nobody can mean 400" is "$(status "baselines/$RUN?job=nightly&role=x")$(
	status "baselines/0000000000000000?job=nightly&role=rank")$(status 'baselines/x?job=nightly&role=rank')$(
	status "baselines/$RUN?job=nightly")$(status 'sketch?job=nightly&rank=9')$(status 'sketch?job=none&rank=0')$(
	status 'sketch?job=nightly&rank=-1')$(status 'sketch?rank=0')" 404404404400404404400400
for side in baseline:none baseline:nightly:none baseline:nightly::0000000000000000 sketch:nightly:7; do
	"$BIN/sysom" diff "$side" baseline:nightly >"$WORK/out" 2>"$WORK/err"
	ok "$side is status 1, and why" is "$?$(wc -l <"$WORK/out")$(wc -l <"$WORK/err")" 101
done

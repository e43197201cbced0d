#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A Python process without a GPU, which marks nothing: a catalogue finds its functions. One of them is its
# step, whose work explains how long a step takes; spans reach the windows and their traces with their work.
. "$(dirname "$0")/lib.sh"
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
ok "the catalogue compiles" "$BIN/sysom" spans compile tests/python/spans/catalogue.yaml -o "$WORK/test.spans"
export PYTHONPATH=tests/python/spans SYSOM_SPANS=$WORK/test.spans
RANK=2 WORLD_SIZE=4 "$BIN/sysom" run --job engine -- /usr/bin/python3 tests/python/spans/serve.py "$WORK/end" \
	>"$WORK/job.log" 2>&1 &
job=$!
ready() { [ "$(node_api status '[.ranks[] | select(.rank == 2) | .model] | .[0]')" = ready ]; }
ok "its steps are found, and a step's work predicts its time" stack_wait 20 ready
node_api status '.ranks[] | select(.rank == 2) | {steps, model, r2, step_ms}' | sed 's/^/# /'
blamed() { [ "$(api "incidents?job=engine" '[.incidents[] | select(.symptom != "transient") | .ranks[]] | unique | join(",")')" = 2 ]; }
ok "steps that take longer than their work explains are an incident" stack_wait 40 blamed
touch "$WORK/end"
wait $job
ok "the job ends with 0" is $? 0
ok "and prints nothing" is "$(cat "$WORK/job.log")" ""
id=$(api "incidents?job=engine" '[.incidents[] | select(.symptom != "transient")] | .[0].id' | tr -d '"')
traced() { "$BIN/sysom" trace "$id" -f kineto -o "$WORK/trace.json" 2>"$WORK/trace.err"; }
ok "its trace is written" stack_wait 10 traced
jq -c '[.traceEvents[] | select(.name == "step" and .args.tokens)] | .[0]' "$WORK/trace.json" | sed 's/^/# /'
ok "a span has its work and kinds" jq -e '[.traceEvents[] | select(.name == "step" and .args.tokens >= 100 and .args.batch >= 1 and
	.args.process == "engine" and .args.thread == "loop")] | length > 10' "$WORK/trace.json"
ok "a request's id is the same in each of its spans" jq -e '[.traceEvents[] | select(.name == "forward") | .args.request] |
	length > 10 and (unique | length) == 1' "$WORK/trace.json"
ok "spans lie inside the span that called them" jq -e '[.traceEvents[] | select(.name == "step" and .args.tokens)] as $steps |
	[.traceEvents[] | select(.name == "schedule")][5:25] | length > 10 and
	all(.[]; . as $s | any($steps[]; .ts <= $s.ts and .ts + .dur >= $s.ts + $s.dur))' "$WORK/trace.json"
ok "the Perfetto trace has them, too" bash -c "'$BIN/sysom' trace $id -o '$WORK/trace.pftrace' &&
	protoc -I cli --decode=perfetto.protos.Trace cli/perfetto.proto <'$WORK/trace.pftrace' | grep -q 'spans of thread'"
printf 'sysom-spans 1\nspan\tx\t0\t0\n' >"$WORK/bad.spans"
SYSOM_SPANS=$WORK/bad.spans "$BIN/sysom" run --job bad -- /usr/bin/python3 -c \
	'import ctypes, time; ctypes.CDLL(None).sysom_step_begin(None, 0); time.sleep(30)' &
job=$!
named() { "$BIN/sysom" doctor | grep -q 'refused the file in SYSOM_SPANS, for example .* because of line 2'; }
ok "sysom doctor names a catalogue that a process refused" stack_wait 15 named
kill $job
finish

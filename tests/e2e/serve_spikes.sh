#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One slow step among thousands of a serving loop is an incident that names the function and its line. Five at
# regular times are one incident with their count and period. While the rank's GPU is slow, the
# incident of that lists them. A training job's single slow step is none.
# needs: bpf
# quiet: a loaded machine makes spikes of its own
. "$(dirname "$0")/lib.sh"
export SIM_LIB=$PWD/$B/lib/sim PYTHONPATH=tests/python/spikes PYTHONDONTWRITEBYTECODE=1
JOB=tests/python/spikes/engine.py
line() { grep -n "LINE OF $1" $JOB | cut -d: -f1; }
start() { # job mode
	mkdir -p "$WORK/$1"
	"$BIN/sysom" run --job "$1" -- /usr/bin/python3 $JOB "$WORK/$1" "$2" >"$WORK/$1.log" 2>&1 &
	job=$!
}
ask() { # job function count: so many spikes in it; complete when the job sees it
	seq "$3" >"$WORK/$1.ask"
	mv "$WORK/$1.ask" "$WORK/$1/$2"
}
ready() { [ "$(node_api status '[.ranks[] | select(.state == "attached") | .model] | .[0]')" = ready ]; }
listed() { # job: its incidents that are no transients and whose function is known
	api "incidents?job=$1" '[.incidents[] | select(.symptom != "transient")]' >"$WORK/listed.json"
}
one_of() { # job function count: one incident is about it, with so many spikes (a busy machine may add some)
	listed "$1"
	jq -e --arg f "$2 (engine.py:$(line "$2"))" --argjson n "$3" '[.[] | select(.slow_step.function == $f)] |
		length == 1 and .[0].symptom == "spike" and .[0].spikes.count >= $n and .[0].spikes.count <= $n + 3' "$WORK/listed.json"
}
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
ok "the catalogue compiles" "$BIN/sysom" spans compile tests/python/spikes/engine.yaml -o "$WORK/engine.spans"
SYSOM_SPANS=$WORK/engine.spans start serve serve
ok "steps of stated work have a model" stack_wait 30 ready
steps_more 1000
node_api status '.ranks[] | {steps, model, r2, step_ms, flagged}' | jq -c . | sed 's/^/# /'
ask serve pad 1
ok "one spike is an incident with its function and line" stack_wait 20 one_of serve pad 1
jq -c '.[] | select(.slow_step.function // "" | startswith("pad")) | {id, symptom, cause: .diagnosis.cause, spikes, slow_step}' \
	"$WORK/listed.json" | sed 's/^/# /'
is_pad() { jq -e "[.[] | select(.slow_step.function // \"\" | startswith(\"pad\"))][0] | $1" "$WORK/listed.json" >/dev/null; }
ok "its span is the one that took the time" is_pad '.slow_step.span == "Engine::Prepare" and .slow_step.span_ms > 150'
ok "its thread was sampled at more than a tenth of the ticks" is_pad '.slow_step.samples >= 4'
ok "the GPU waited for the CPU" is_pad '.slow_step.bound == "cpu" and .slow_step.gpu_idle[0].ms > 150'
ok "sysom show says so" bash -c "'$BIN/sysom' show $(jq -r '[.[] | select(.slow_step.function // "" | startswith("pad"))][0].id' \
	"$WORK/listed.json") | tee '$WORK/show.txt' | grep -q 'in pad (engine.py:$(line pad))'"
sed 's/^/# /' "$WORK/show.txt"
ok "sysom incidents lists it without --all" bash -c "'$BIN/sysom' incidents --job serve | grep -q \
	\"^\$(jq -r '[.[] | select(.slow_step.function // \"\" | startswith(\"pad\"))][0].id' '$WORK/listed.json')\""
ask serve copy 5
ok "five spikes of another function are one other incident" stack_wait 40 one_of serve copy 5
jq -c '.[] | {id, symptom, spikes, function: .slow_step.function}' "$WORK/listed.json" | sed 's/^/# /'
ok "with their period" jq -e '[.[] | select(.slow_step.function // "" | startswith("copy"))][0].spikes.period_s |
	. > 2.7 and . < 3.6' "$WORK/listed.json"
touch "$WORK/serve/end"
wait $job
ok "the job ends with 0" is $? 0
SYSOM_SPANS=$WORK/engine.spans start busy serve
ok "another engine has a model" stack_wait 30 ready
steps_more 300
touch "$WORK/busy/slow"
fault() { # the incident of the slow GPU: an expression about it
	listed busy
	jq -e "[.[] | select(.symptom != \"spike\" and .flagged_steps > 50)] | length == 1 and (.[0] | $1)" "$WORK/listed.json"
}
ok "a slow GPU is an incident of its own" stack_wait 30 fault true
steps_more 100
ask busy pad 1
lists() { # function: the slowest step is in it, or another spike
	fault "[.slow_step.function, .other_spikes[].function] | any(. == \"$1 (engine.py:$(line "$1"))\")"
}
ok "a spike while it lasts is listed there with its function and line" stack_wait 20 lists pad
ask busy copy 1
both() { lists pad && lists copy; }
ok "and so is another one" stack_wait 20 both
jq -c '.[] | {id, symptom, flagged_steps, spikes, function: .slow_step.function, other: [.other_spikes[] | {function, count, latency_ms}]}' \
	"$WORK/listed.json" | sed 's/^/# /'
ok "sysom incidents names both" bash -c "'$BIN/sysom' incidents --job busy | tee '$WORK/list.txt' | grep -q 'spikes* in [a-zA-Z._]* (engine.py:'"
touch "$WORK/busy/end"
wait $job
ok "that job ends with 0" is $? 0
SYSOM_SPANS=off start train train
ok "a training job has a model" stack_wait 30 ready
steps_more 300
ask train pad 1
hiccup() { [ "$(api "incidents?job=train" '[.incidents[] | select(.lost_ms > 140)] | length')" -ge 1 ]; }
ok "its slow step is seen" stack_wait 20 hiccup
api "incidents?job=train" '.incidents[]' | jq -c '{id, symptom, flagged_steps, lost_ms}' | sed 's/^/# /'
ok "and is no spike" is "$(api "incidents?job=train" '[.incidents[] | select(.symptom == "spike" or .spikes)] | length')" 0
touch "$WORK/train/end"
wait $job
ok "that job ends with 0" is $? 0
finish

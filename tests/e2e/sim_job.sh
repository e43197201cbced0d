#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The simulated job: every mix and fault, a real trace, and what it costs.
. "$(dirname "$0")/lib.sh"
job=$BIN/simjob

# truth FILE: mean step in ms of the steps with and without the fault, the fault's rank first
truth() {
	jq -s -r '[.[] | select(.step != null)] as $s
		| ([$s[] | select(.fault)] | map(.end_ns - .begin_ns)) as $f
		| ([$s[] | select(.fault | not)] | map(.end_ns - .begin_ns) | sort) as $n
		| "\($f | length) \(if ($f | length) > 0 then ($f | add) / ($f | length) / 1e6 else 0 end | floor) \($n[($n | length) / 2 | floor] / 1e6 | floor)"' "$1"
}
steps_of() { # FILE RANKS STEPS: every rank logged every step
	is "$(jq -cs '[.[] | select(.step != null)] | group_by(.rank) | map(length) | unique' "$1")" "[$3]" &&
		is "$(jq -s '[.[] | select(.step != null) | .rank] | unique | length' "$1")" "$2"
}
mix() { # NAME STEPS
	"$job" --ranks 2 --steps "$2" --mix "$1" --truth "$WORK/$1.jsonl" --verbose 2>"$WORK/$1.log" &&
		steps_of "$WORK/$1.jsonl" 2 "$2"
}
for m in train:4 accum:2 eval:43 tensor:4 serve:60 shard:4; do
	ok "mix ${m%:*} runs its steps on two ranks" mix "${m%:*}" "${m#*:}"
done

fault() { # SPEC: the faulty steps take clearly longer
	local steps slow usual
	"$job" --ranks 2 --steps 8 --truth "$WORK/fault.jsonl" \
		--fault "$1:rank=1:start=4:steps=2:size=1.8" || return
	read -r steps slow usual <<<"$(truth "$WORK/fault.jsonl")"
	echo "# $1: usual $usual ms, faulty $slow ms"
	[ "$steps" = 2 ] && [ "$slow" -ge $((usual * 5 / 4)) ]
}
for f in slow kernel:kernel=gemm gaps late stop; do
	ok "fault ${f%%:*} makes a rank's steps longer" fault "$f"
done

variant() { # the other kernel runs in its place, for longer
	"$job" --ranks 2 --steps 8 --truth "$WORK/variant.jsonl" --fault \
		"variant:rank=1:start=4:steps=2:size=3:kernel=gemm_bf16_256x128:with=gemm_bf16_64x64" || return
	read -r steps slow usual <<<"$(truth "$WORK/variant.jsonl")"
	[ "$steps" = 2 ] && [ "$slow" -ge $((usual * 5 / 4)) ]
}
ok "another variant of a kernel makes its rank's steps longer" variant

shards() { # MILLISECONDS WORK...: steps with that work on the host are longer by so much than without
	local plain much none
	"$job" --ranks 2 --steps 8 --mix shard --host-work pack:kib=1 --truth "$WORK/plain.jsonl" &&
		"$job" --ranks 2 --steps 8 --mix shard --truth "$WORK/much.jsonl" "${@:2}" || return
	read -r none none plain <<<"$(truth "$WORK/plain.jsonl")"
	read -r none none much <<<"$(truth "$WORK/much.jsonl")"
	echo "# ${*:2}: $plain ms without, $much ms with it"
	[ "$much" -ge $((plain + $1)) ]
}
ok "packing shards takes host time" shards 10 --host-work pack:kib=131072
ok "on a thread of its own too" shards 10 --host-work pack:kib=131072 --comm-thread
ok "so does looking up what is not there" shards 10 --host-work "lookups:count=30000:dir=$WORK"

stuck() {
	"$job" --ranks 2 --seconds 1 --fault stuck:rank=1:start=2 --truth "$WORK/stuck.jsonl" || return
	is "$(jq -s '[.[] | select(.step != null) | .step] | max' "$WORK/stuck.jsonl")" 1
}
ok "fault stuck holds every rank until the end" stuck

killed() {
	"$job" --ranks 3 --seconds 30 --verbose 2>"$WORK/killed.log" &
	local launcher=$! rank=
	for _ in $(seq 100); do
		rank=$(children $launcher | tail -n 1)
		[ -n "$rank" ] && break
		sleep 0.05
	done
	sleep 0.5
	kill -KILL "$rank"
	wait $launcher
	is $? 1 && [ -z "$(children $launcher)" ]
}
ok "a rank's death ends the job with status 1" killed

same_seed() {
	local a b
	for i in 1 2; do
		"$job" --ranks 1 --steps 40 --mix serve --seed 7 --truth "$WORK/seed$i.jsonl" || return
	done
	a=$(jq -r .phase "$WORK/seed1.jsonl")
	b=$(jq -r .phase "$WORK/seed2.jsonl")
	[ "$a" = "$b" ]
}
ok "a seed fixes which phase each step is" same_seed

bad_usage() {
	"$job" --mix nosuch 2>/dev/null
	is $? 2 || return
	"$job" --fault "slow:rank=x" 2>/dev/null
	is $? 2 || return
	"$job" --host-work lookups:count=5 2>/dev/null
	is $? 2 || return
	"$job" --fault variant:rank=1:kernel=gemm 2>/dev/null
	is $? 2 || return
	printf 'not,a,trace\n' >"$WORK/bad.csv"
	"$job" --ranks 1 --steps 1 --trace "$WORK/bad.csv" 2>"$WORK/bad.log"
	[ $? != 0 ] && grep -q 'bad.csv:1:' "$WORK/bad.log"
}
ok "bad usage and bad traces are reported" bad_usage

dlrm() {
	"$job" --ranks 8 --steps 100 --trace "$DATA"/dlrm-8rank-v100/rank?.events.csv.gz \
		--truth "$WORK/dlrm.jsonl" --verbose 2>"$WORK/dlrm.log" || return
	sed -n 's/.*rank /# dlrm: rank /p' "$WORK/dlrm.log" | grep cpu
	steps_of "$WORK/dlrm.jsonl" 8 100
}
kineto() {
	tar xzf "$DATA/dlrm-8rank-v100/dlrm_kineto.tar.gz" -C "$WORK" || return
	"$job" --ranks 2 --steps 20 --truth "$WORK/kineto.jsonl" --trace \
		"$WORK"/dlrm_kineto/worker0_*.json "$WORK"/dlrm_kineto/worker1_*.json || return
	steps_of "$WORK/kineto.jsonl" 2 20
}
if [ -d "$DATA/dlrm-8rank-v100" ]; then
	ok "the 8-rank DLRM trace plays on eight ranks" dlrm
	ok "a Kineto trace plays as it is" kineto
else
	skip "the 8-rank DLRM trace plays on eight ranks" "needs data: $DATA/dlrm-8rank-v100"
	skip "a Kineto trace plays as it is" "needs data: $DATA/dlrm-8rank-v100"
fi
ok "a demo too short to learn from is refused" bash -c \
	'! SECONDS_LONG=2 bash tools/demo.sh 2>"$0" && grep -q "too short to learn" "$0"' "$WORK/demo"
finish

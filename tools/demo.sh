#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo: an 8-rank job in which one rank becomes slow for a while, in a way that only the printed
# seed knows. SEED=N repeats a run, SECONDS_LONG=N changes its length, QUIET=1 prints the last line only,
# SIM=1 uses the simulated node even where a GPU is. UNITS=1 starts no daemons: it uses those of this machine's
# units, with their default HTTP ports.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/stack.sh
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
length=${SECONDS_LONG:-60}
say() { [ -n "${QUIET:-}" ] || echo "$@"; }
fail() { echo "demo: $*" >&2; exit 1; }
trap 'stack_stop 2>/dev/null; kill -KILL $(jobs -p) 2>/dev/null' EXIT
trap 'exit 130' INT TERM
case $seed in *[!0-9]* | '') fail "SEED=$seed: expected a whole number" ;; esac
case $length in *[!0-9]* | '') fail "SECONDS_LONG=$length: expected a whole number" ;; esac
# The fault begins after 0.4 of it at the earliest: until then sysom has to find the steps and learn how long they take.
[ "$length" -ge 20 ] || fail "SECONDS_LONG=$length: too short to learn what is usual before the fault; use 20 or more"

out=$PWD/build/demo/$seed
rm -rf "$out"
mkdir -p "$out" || exit 1

# The fault, from the seed alone.
read -r rank kind size begin steps <<<"$(python3 - "$seed" "$length" <<'PY'
import random, sys
rng = random.Random(int(sys.argv[1]))
length = float(sys.argv[2])
rank = rng.randrange(8)
kind = rng.choice(["slow", "kernel", "gaps", "late"])
size = rng.uniform(2.5, 5.0) if kind == "kernel" else rng.uniform(1.25, 2.0)
if kind == "kernel":
    kind += ":kernel=" + rng.choice(["flash_bwd", "flash_fwd", "gemm_bf16_256x128"])
print(rank, kind, f"{size:.2f}", f"{length * rng.uniform(0.4, 0.6):.1f}", rng.randrange(30, 80))
PY
)"
gpu=no
if [ -z "${SIM:-}" ] && python3 -c 'import torch,sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
	gpu=yes
fi
name=${kind#"${kind%%:*}"}
kind=${kind%%:*}
say "demo: seed $seed (make demo SEED=$seed repeats this run)"
if [ -n "${UNITS:-}" ]; then
	export SYSOM_URL=http://127.0.0.1:9472
	STACK_NODE_HTTP=9470
else
	stack_start "$out" || { tail -n 5 "$out"/*.log; fail "the daemons did not start"; }
fi
say "demo: aggregator at $SYSOM_URL, files in $out"
if [ $gpu = yes ]; then
	ranks=$(python3 -c 'import torch; print(min(8, torch.cuda.device_count()))')
	rank=$((rank % ranks))
	kind=slow
	job=(python3 -m torch.distributed.run --nproc_per_node "$ranks" --master_port "$(free_ports 1)"
		tools/demo_job.py --seconds "$length" --seed "$seed" --fault-rank "$rank" --fault-begin "$begin")
	say "demo: $ranks real GPUs under torchrun, about $length s"
else
	job=("$BIN/simjob" --ranks 8 --seconds "$length" --seed "$seed" --truth "$out/truth.jsonl"
		--fault "$kind:rank=$rank:start=${begin}s:steps=$steps:size=$size$name")
	say "demo: 8 ranks on the simulated GPU node, about $length s"
fi
"$BIN/sysom" run --job demo -- "${job[@]}" >"$out/job.log" 2>&1 &
job_pid=$!
if [ -n "${QUIET:-}" ]; then
	"$BIN/sysom" wait-incident --job demo --timeout "$length" >"$out/wait.log" 2>&1
else
	# its standard output is the incident's bare id, for scripts
	"$BIN/sysom" wait-incident --job demo --timeout "$length" >"$out/wait.log"
fi
kill -0 $job_pid 2>/dev/null && say "demo: waiting for the job's end"
wait $job_pid
code=$?
[ $code = 0 ] || { tail -n 5 "$out/job.log"; fail "the job failed: exit $code (its output: $out/job.log)"; }
sleep 2
# all wire bytes, beats and windows, against all bytes that the ranks wrote to their rings
share=$(curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/api/v1/status" |
	jq -r '.uplink.uploaded_bytes / .uplink.raw_bytes * 1e4 | round / 1e2')
stack_end sysomd "${STACK_SYSOMD_PID:-}" || fail "sysomd did not end well"
STACK_SYSOMD_PID=
sleep 1
curl -sf "$SYSOM_URL/api/v1/incidents?job=demo" >"$out/all.json" || fail "no answer from the aggregator"
# A small host now and then holds up a rank for one step: a transient is no incident.
jq '{incidents: [.incidents[] | select(.symptom != "transient")]}' "$out/all.json" >"$out/incidents.json"
say "demo: the job had: $kind${name:+ ${name#:kernel=}} on rank $rank, size $size, from second $begin for $steps steps (sysom did not know)"
found=$(jq '.incidents | length' "$out/incidents.json")
[ "$found" -ge 1 ] || fail "the fault was not found"
# Every incident must name the culprit and nobody else.
blamed=$(jq -c '[.incidents[].ranks[]] | unique' "$out/incidents.json")
id=$(jq -r '.incidents | max_by(.flagged_steps) | .id' "$out/incidents.json")
"$BIN/sysom" trace "$id" -o "$out/incident.pftrace" >/dev/null || fail "no trace"
"$BIN/sysom" report "$id" -o "$out/report.html" >/dev/null || fail "no report"
say
[ -n "${QUIET:-}" ] || "$BIN/sysom" show "$id"
say
say "demo: look at it  $out/report.html (in a browser)"
say "demo: timeline    $out/incident.pftrace (in ui.perfetto.dev)"
[ -n "${UNITS:-}" ] || say "demo: ask more    build/bin/sysom-aggregator --store-dir $out/store & sleep 1; build/bin/sysom incidents"
[ "$blamed" = "[$rank]" ] || fail "rank $rank was slow, but the incidents blame $blamed (seed $seed)"
say
say "demo: In short: the demo made rank $rank slow, and sysom did not know. It found it by itself, and blames rank $rank alone."
say "demo: Its reason: $(jq -r --arg id "$id" '.incidents[] | select(.id == $id) | .diagnosis.summary // "not known"' "$out/incidents.json")"
jq -r --arg id "$id" --arg share "$share" '.incidents[] | select(.id == $id) |
	"demo: rank \(.ranks[0]) flagged after \(.steps_to_flag) step\(if .steps_to_flag == 1 then "" else "s" end), uploaded \($share)% of the raw stream"' \
	"$out/incidents.json"

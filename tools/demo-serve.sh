#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo of a serving engine (make demo MIX=serve): API process, engine and four tensor-parallel workers on
# the simulated GPU node, under a load of requests; one worker becomes slow for a while, in a way that only the
# printed seed knows. SEED=N repeats a run, SECONDS_LONG=N changes its length.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/stack.sh
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
length=${SECONDS_LONG:-60}
fail() { echo "demo: $*" >&2; exit 1; }
trap 'stack_stop 2>/dev/null; kill -KILL $(jobs -p) 2>/dev/null' EXIT
trap 'exit 130' INT TERM
case $seed in *[!0-9]* | '') fail "SEED=$seed: expected a whole number" ;; esac
case $length in *[!0-9]* | '') fail "SECONDS_LONG=$length: expected a whole number" ;; esac
[ "$length" -ge 50 ] || fail "SECONDS_LONG=$length: too short to learn what is usual before the fault; use 50 or more"

out=$PWD/build/demo/serve-$seed
rm -rf "$out"
mkdir -p "$out" || exit 1
read -r rank fault <<<"$(python3 - "$seed" "$length" <<'PY'
import random, sys
rng = random.Random(int(sys.argv[1]))
rank, begin = rng.randrange(4), float(sys.argv[2]) * 0.6
kind, size = rng.choice([("slow", rng.uniform(1.8, 2.5)), ("kernel", rng.uniform(4, 6)), ("sample", rng.uniform(80, 120))])
print(rank, f"{kind}:rank={rank}:start={begin:.1f}:seconds=8:size={size:.2f}")
PY
)"
echo "demo: seed $seed (make demo MIX=serve SEED=$seed repeats this run)"
stack_start "$out" || { tail -n 5 "$out"/*.log; fail "the daemons did not start"; }
echo "demo: aggregator at $SYSOM_URL, files in $out"
echo "demo: an engine with 4 workers on the simulated GPU node, about $length s"
SIM_LIB=${SIM_LIB:-$PWD/build/lib/sim} "$BIN/sysom" run --job serve -- /usr/bin/python3 sim/serve_sim.py --seconds "$length" --workers 4 \
	--seed "$seed" --truth "$out/truth.jsonl" --fault "$fault" >"$out/job.log" 2>&1 &
job=$!
sleep $((length / 2))
"$BIN/sysom" status | sed -n '/^  job /,/^  uplink /{/^  uplink /!p}'
"$BIN/sysom" requests serve 2>/dev/null
"$BIN/sysom" wait-incident --job serve --timeout "$length" >"$out/wait.log"
kill -0 $job 2>/dev/null && echo "demo: waiting for the job's end"
wait $job || { tail -n 5 "$out/job.log"; fail "the job failed (its output: $out/job.log)"; }
sleep 3
curl -sf "$SYSOM_URL/api/v1/incidents?job=serve" >"$out/incidents.json" || fail "no answer from the aggregator"
id=$(jq -r --argjson rank "$rank" '[.incidents[] | select(.symptom != "transient" and .diagnoses[0].ranks == [$rank])] |
	max_by(.flagged_steps) | .id // ""' "$out/incidents.json")
IFS=:= read -r kind _ _ _ begin _ seconds _ size <<<"$fault"
echo "demo: the engine had: $kind on worker $rank, size $size, from second $begin for $seconds s (sysom did not know)"
if [ -z "$id" ]; then
	"$BIN/sysom" incidents --job serve --all
	fail "no incident blames rank $rank first (seed $seed); CPUs that other programs use hide a fault (load $(cut -d' ' -f1-3 /proc/loadavg)). To see more: build/bin/sysom-aggregator --store-dir $out/store & sleep 1; build/bin/sysom show ID"
fi
"$BIN/sysom" trace "$id" -o "$out/incident.pftrace" >/dev/null || fail "no trace"
"$BIN/sysom" report "$id" -o "$out/report.html" >/dev/null || fail "no report"
echo
"$BIN/sysom" show "$id"
echo
echo "demo: look at it  $out/report.html (in a browser)"
echo "demo: timeline    $out/incident.pftrace (in ui.perfetto.dev)"
echo "demo: ask more    build/bin/sysom-aggregator --store-dir $out/store & sleep 1; build/bin/sysom incidents"
echo
echo "demo: In short: the demo made worker $rank slow, and sysom did not know. It found it by itself."
jq -r --arg id "$id" '.incidents[] | select(.id == $id) | "demo: Its reason: \(.diagnosis.summary // "not known")"' \
	"$out/incidents.json"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# INV-7: a job with a slow rank runs under a sysomd that records what its analysis is given; `sysom replay
# window` says the same of it, byte for byte, and makes the same incident of the stored windows.
. "$(dirname "$0")/lib.sh"
trap finish EXIT
REC=$WORK/analysis.rec
mkdir -p "$WORK"

replay() { "$BIN/sysom" replay window --json "$@"; }
count() { # file jq-filter : lines it holds for
	jq -c "select($2)" "$1" | wc -l
}
at_least() { [ "$1" -ge "$2" ] || { echo "# got $1, wanted $2 at least"; return 1; }; }
code() { # wanted command...
	local wanted=$1
	shift
	"$@" >"$WORK/out.log" 2>"$WORK/err.log"
	is $? "$wanted"
}

# Without stacks and their names: the aggregator's symbols are no part of a window.
STACK_SYSOMD_FLAGS="--record-analysis $REC --sampler-mode off --os-on false"
ok "the daemons start" stack_start "$WORK/stack"
# The fault comes when 50 usable steps are long learned, though a busy host made some unusable.
"$BIN/sysom" run --job replayed -- "$BIN/simjob" --ranks 3 --seconds 20 --seed 3 \
	--fault slow:rank=1:start=12s:steps=50:size=1.4 >"$WORK/job.log" 2>&1
ok "the job ends" is $? 0

incident() { api incidents '.incidents | sort_by(-.flagged_steps) | .[] | select(.ranks[0] == 1) | .id' | head -1; }
recorded() { curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | grep -q '^sysom_analysis_unrecorded_events_total 0$'; }
ok "all of it was recorded" recorded
stack_end sysomd "$STACK_SYSOMD_PID" # its last windows are committed then
ok "sysomd ends" is $? 0
STACK_SYSOMD_PID=
ID=$(incident)
ok "rank 1 has an incident" [ -n "$ID" ]
"$BIN/sysom" show --json "$ID" >"$WORK/show.json"
WINDOWS=()
for w in $(jq -r '.windows[].id' "$WORK/show.json"); do
	curl -sf -m 10 "$SYSOM_URL/api/v1/windows/$w" >"$WORK/$w.win" || echo "# window $w: not had"
	WINDOWS+=("$WORK/$w.win")
done
ok "the aggregator ends" stack_stop

# ---- the recording ----
ok "the recording is replayed" code 0 replay --compare "$REC"
cp "$WORK/out.log" "$WORK/here.json"
ok "and has its end" is "$(jq -r 'select(.type == "summary") | .end' "$WORK/here.json")" clean
replay --live "$REC" >"$WORK/live.json"
diff "$WORK/live.json" "$WORK/here.json" | head -4 | cut -c 1-600 | sed 's/^/# /'
ok "the verdicts are the live ones, byte for byte" cmp "$WORK/here.json" "$WORK/live.json"
ok "steps of three ranks" is "$(jq -r 'select(.type == "step") | .rank' "$WORK/here.json" | sort -u | xargs)" "0 1 2"
ok "most of which were judged" at_least "$(count "$WORK/here.json" '.judged == "used"')" 150
jq -r 'select(.type == "step") | "# rank \(.rank) \(.judged)\(if .self_flagged then ", flagged" else "" end)"' \
	"$WORK/here.json" | sort | uniq -c | sed 's/^ *\([0-9]*\) # /# \1 steps: /'
SLOW=$(count "$WORK/here.json" '.rank == 1 and .self_flagged')
ok "rank 1 was slow in self time" at_least "$SLOW" 20
# a shared host really holds up a rank now and then
ok "the others hardly" at_least "$SLOW" $((4 * $(count "$WORK/here.json" '.rank != 1 and .self_flagged')))
ok "and stood out among its peers" at_least \
	"$(count "$WORK/here.json" '.type == "finding" and .ranks == [1] and .kind == "slow_rank"')" 1

zstd -qf "$REC" -o "$REC.zst" && gzip -kf "$REC"
ok "packed by zstd it is the same" code 0 replay --compare "$REC.zst"
ok "and by gzip" code 0 replay --compare "$REC.gz"
head -c 60000 "$REC" >"$WORK/cut.rec"
ok "cut off within a block: exit 2" code 2 replay "$WORK/cut.rec"
ok "with the file and the place" grep -q "cut.rec: byte [0-9]*: ends within a block" "$WORK/err.log"
{ head -c 30000 "$REC"; printf 'Z'; tail -c +30002 "$REC"; } >"$WORK/bent.rec"
ok "damaged: exit 2" code 2 replay "$WORK/bent.rec"
ok "with the file and the place" grep -q "bent.rec: byte [0-9]*: " "$WORK/err.log"
ok "something else: exit 2" code 2 replay conf/sysomd.yaml

# ---- the windows ----
ok "windows were stored" at_least ${#WINDOWS[@]} 1
ok "they are replayed" code 0 replay --incident "$WORK/show.json" "${WINDOWS[@]}"
cp "$WORK/out.log" "$WORK/windows.json"
jq -S 'select(.type == "incident") | del(.type)' "$WORK/windows.json" >"$WORK/incident.json"
same() { # jq filter
	jq -S "$1" "$WORK/show.json" >"$WORK/want.log"
	jq -S "$1" "$WORK/incident.json" >"$WORK/got.log"
	diff "$WORK/want.log" "$WORK/got.log" | head -5 | sed 's/^/# /'
	cmp -s "$WORK/want.log" "$WORK/got.log" && [ -s "$WORK/want.log" ]
}
ok "the same ranks, victims and symptom" same '[.id, .ranks, .victims, .symptom, .kind, .job_ranks]'
ok "the same steps and figures" same '[.first_step, .last_step, .flagged_steps, .latency_ms, .expected_ms, .excess, .self_excess]'
ok "the same ranks, layers and causes" same '[.diagnoses[] | [.ranks, .layer, .cause]]'
# Sketches are no part of windows: live they may have had a little more of what was usual.
effects() { jq -s '[.[].diagnoses[0] | .effect_ms] | (.[0] - .[1] | fabs) <= .[0] / 100' "$@"; }
ok "whose effects are the same but for what sketches add" \
	is "$(effects "$WORK/show.json" "$WORK/incident.json")" true
ok "the same findings across ranks" same .findings
ok "the same time and cost" same '[.begin_unix_ns, .end_unix_ns, .gpu_hours_lost]'
ok "a finding names rank 1" at_least "$(count "$WORK/windows.json" '.type == "finding" and .ranks[0] == 1')" 1
ok "and each step has its verdict" at_least "$(count "$WORK/windows.json" '.type == "step" and .flagged and .expected_ns > 0')" 1
code 0 replay "${WINDOWS[@]}"
ok "without the incident's own words they still blame rank 1" at_least \
	"$(count "$WORK/out.log" '.type == "finding" and .ranks[0] == 1')" 1

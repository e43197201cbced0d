# SPDX-License-Identifier: Apache-2.0
# flow.sh - the whole flow on one input: job under the preload, ring, sysomd, roofline, window, nng,
# aggregator, incident, trace. Sourced by flow_mix.sh, flow_dlrm.sh and flow_torchrun.sh, which set
# JOB (array), CULPRIT, RANKS and STEPS_MIN.

same_steps() { # FILE: where replay finds a step in the windows, not between two of them, sysomd found it too
	"$BIN/sysom" replay events --json "$1" >"$WORK/replay.jsonl" || return
	jq -n --slurpfile live "$1" --slurpfile replay "$WORK/replay.jsonl" '
		[$live[0].traceEvents[] | select(.tid == "steps" and .ph == "X") | {t: (.ts * 1000 | round), l: (.dur * 1000 | round)}] as $ours |
		[$replay[] | select(.type == "step") | (.begin_ns, .end_ns) |= tonumber | . as $s | select(any($ours[]; $s.begin_ns >= .t and $s.begin_ns < .t + .l))] as $theirs |
		($replay[-1] | {launch_proxies, unmatched_device}) + {ours: ($ours | length), steps: ($theirs | length),
		same: [$ours[] | . as $o | select(any($theirs[]; .begin_ns == $o.t and .end_ns - .begin_ns == $o.l))] | length}' |
		tee "$WORK/same.json" | jq -c . | sed 's/^/# /'
	jq -e '.launch_proxies == 0 and .same > 0 and .same >= 0.9 * .steps' "$WORK/same.json" >/dev/null
}

flow() {
	local id job seen=0 now
	stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
	"${JOB[@]}" >"$WORK/job.log" 2>&1 &
	job=$!
	while kill -0 $job 2>/dev/null; do # ranks leave the status when they end: keep the last full one
		node_api status >"$WORK/now.json"
		now=$(jq '[.ranks[] | select(.state == "attached") | .rank] | unique | length' "$WORK/now.json" 2>/dev/null)
		[ "${now:-0}" -ge $seen ] && [ "${now:-0}" -gt 0 ] && cp "$WORK/now.json" "$WORK/status.json" && seen=$now
		sleep 0.5
	done
	wait $job
	ok "the job ends with 0" is $? 0
	ok "sysomd saw $RANKS ranks" is "$seen" "$RANKS"
	ok "every rank has at least $STEPS_MIN steps" \
		test "$(jq '[.ranks[].steps] | min' "$WORK/status.json")" -ge "$STEPS_MIN"
	ok "99% of device records are joined" \
		jq -e '[.ranks[] | .joined / (.joined + .unmatched + 1e-9)] | min >= 0.99' "$WORK/status.json"
	stack_end sysomd "$STACK_SYSOMD_PID"
	ok "sysomd flushes and ends with 0 on SIGTERM" is $? 0
	STACK_SYSOMD_PID=
	sleep 0.5
	# A host of two cores really holds up a rank now and then. So the test is about the worst incident;
	# how often another rank is blamed is what `make bench-demo` counts.
	api incidents '{incidents: [.incidents[] | select(.symptom != "transient")] | sort_by(-.flagged_steps)}' \
		>"$WORK/incidents.json"
	api incidents '.incidents[]' | jq -c \
		'{id,symptom,ranks,victims,first_step,last_step,flagged_steps,excess,self_excess}' | sed 's/^/# /'
	ok "there is an incident" test "$(jq '.incidents | length' "$WORK/incidents.json")" -ge 1
	ok "the worst one names rank $CULPRIT" is "$(jq -c '.incidents[0].ranks' "$WORK/incidents.json")" "[$CULPRIT]"
	# steps that nobody made up: what the steps took is in the accounts, all of it and nothing twice
	ok "its ledger adds up within 2%" jq -e '.incidents[0].diagnosis.ledger |
		def adds(rows; whole): (rows - whole | fabs) <= 0.02 * (whole | fabs) + 0.001;
		(.rows | length > 0) and
		adds(([.rows[].slow_ms] | add) + .other_slow_ms; .slow_ms) and
		adds(([.rows[].reference_ms] | add) + .other_reference_ms; .reference_ms) and
		adds(([.rows[].excess_ms] | add) + .other_excess_ms; .slow_ms - .reference_ms)' \
		"$WORK/incidents.json"
	id=$(jq -r '.incidents[0].id' "$WORK/incidents.json")
	ok "its Perfetto trace is written" "$BIN/sysom" trace "$id" -o "$WORK/trace.perfetto"
	ok "protoc reads the trace" bash -c "protoc -I cli --decode=perfetto.protos.Trace cli/perfetto.proto \
		<'$WORK/trace.perfetto' | grep -q 'track_event'"
	ok "its Kineto trace is written" "$BIN/sysom" trace "$id" --rank "$CULPRIT" -f kineto -o "$WORK/trace.json"
	ok "replay events finds the steps of sysomd in it" same_steps "$WORK/trace.json"
	ok "sysom show names it" bash -c "'$BIN/sysom' show $id | grep -qi 'rank $CULPRIT'"
	finish
}

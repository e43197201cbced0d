# SPDX-License-Identifier: Apache-2.0
# flow.sh - the whole flow on one input: job under the preload, ring, sysomd, roofline, window, nng,
# aggregator, incident, trace. Sourced by flow_mix.sh, flow_dlrm.sh and flow_torchrun.sh, which set
# JOB (array), CULPRIT, RANKS and STEPS_MIN.
flow() {
	local id
	stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
	"${JOB[@]}" >"$WORK/job.log" 2>&1
	ok "the job ends with 0" is $? 0
	sleep 1
	node_api status >"$WORK/status.json"
	ok "sysomd saw $RANKS ranks" is "$(jq '.ranks | map(.rank) | unique | length' "$WORK/status.json")" "$RANKS"
	ok "every rank has at least $STEPS_MIN steps" \
		test "$(jq '[.ranks[].steps] | min' "$WORK/status.json")" -ge "$STEPS_MIN"
	ok "99% of device records are joined" \
		jq -e '[.ranks[] | .joined / (.joined + .unmatched + 1e-9)] | min >= 0.99' "$WORK/status.json"
	stack_end sysomd "$STACK_SYSOMD_PID"
	ok "sysomd flushes and ends with 0 on SIGTERM" is $? 0
	STACK_SYSOMD_PID=
	api incidents >"$WORK/incidents.json"
	jq -c '.incidents[] | {id,symptom,ranks,victims,first_step,last_step,excess,self_excess,parts:(.parts[:2])}' \
		"$WORK/incidents.json" | sed 's/^/# /'
	ok "one incident" is "$(jq '.incidents | length' "$WORK/incidents.json")" 1
	ok "it names rank $CULPRIT" is "$(jq -c '.incidents[0].ranks' "$WORK/incidents.json")" "[$CULPRIT]"
	ok "it explains the excess" jq -e '.incidents[0].parts | length > 0' "$WORK/incidents.json"
	id=$(jq -r '.incidents[0].id' "$WORK/incidents.json")
	ok "its Perfetto trace is written" "$BIN/sysom" trace "$id" -o "$WORK/trace.perfetto"
	ok "protoc reads the trace" bash -c "protoc -I cli --decode=perfetto.protos.Trace cli/perfetto.proto \
		<'$WORK/trace.perfetto' | grep -q 'track_event'"
	ok "sysom show tells it" bash -c "'$BIN/sysom' show $id | grep -qi 'rank $CULPRIT'"
	finish
}

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sysom top on terminals of several widths, and the metrics of ranks, of a job with one slow rank.
. "$(dirname "$0")/lib.sh"
slow=5
# A server of its own for each terminal: one that has just lost its last session takes no new one.
terminal() { tmux -L "top$$-$columns" "$@"; }
screen() { terminal capture-pane -p -t top; }
stack_start "$WORK/stack" || { ok "the daemons start" false; finish; }
"$BIN/sysom" run --job demo -- "$BIN/simjob" --ranks 8 --seconds 90 \
	--fault "slow:rank=$slow:start=15s:steps=100000:size=1.5" >"$WORK/job.log" 2>&1 &
job=$!
trap 'kill $job 2>/dev/null; terminal kill-server 2>/dev/null' EXIT
columns=60
suspects() { api ranks '[.ranks[] | select(.suspect) | .rank] | join(" ")'; }
named() { [ "$(suspects)" = $slow ] && api ranks ".ranks[$slow] | .self_ms > 1.2 * .role_self_ms" | grep -q true; }
ok "the slow rank becomes a suspect, and its median self time stands out" stack_wait 12 named

only_the_slow() { # FILE: its mark, its row at the top, and an excess of its own; the others have none
	local row
	row=$(grep -E '^! ' "$1") && is "$(grep -cE '^[ !] demo' "$1")" 8 &&
		is "$(grep -E '^[ !] demo' "$1" | head -n 1)" "$row" &&
		grep -qE "^! demo\S* +$slow .*\+[0-9]+% .*suspect" <<<"$row" &&
		! grep -E '^  demo' "$1" | grep -qE '\+([1-9][0-9]|[0-9]{3,})%|suspect'
}
"$BIN/sysom" top >"$WORK/plain"
ok "without a terminal top prints plain text, with the suspect first" only_the_slow "$WORK/plain"
aggregator_metrics() { curl -sf "$SYSOM_URL/metrics"; }
node_metrics() { curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/metrics"; }
metrics_name() {
	aggregator_metrics >"$WORK/metrics"
	is "$(grep -c '^sysom_rank_info{.*rank="[0-7]",node=".*role=".*pod="".*hostname="' "$WORK/metrics")" 8 &&
		is "$(grep '^sysom_rank_suspect.* 1$' "$WORK/metrics" | grep -o 'rank="[0-9]"')" "rank=\"$slow\"" &&
		is "$(awk '/^sysom_rank_self_excess_seconds/ && $2 > 0.01' "$WORK/metrics" | grep -o 'rank="[0-9]"')" "rank=\"$slow\""
}
ok "the aggregator's metrics name the slow rank alone" metrics_name
metrics_are_sound "the aggregator's metrics are sound" aggregator_metrics
metrics_are_sound "sysomd's are" node_metrics
live() { # COLUMNS
	terminal new-session -d -s top -x "$1" -y 24 "'$BIN/sysom' top" || return
	# a stall of the machine may mark another rank for a moment
	stack_wait 10 eval 'screen >"$WORK/screen"; only_the_slow "$WORK/screen"' && [ "$(wc -L <"$WORK/screen")" -le "$1" ] &&
		is "$(grep -c . "$WORK/screen")" 11 # title, heads, ranks, keys: none is wrapped
}
if command -v tmux >/dev/null; then
	for columns in 60 80 100 132 200; do
		ok "in $columns columns top names the slow rank alone, no row wraps" live $columns
		sed 's/^/# /' "$WORK/screen" | head -n 4
		[ $columns = 200 ] || terminal kill-server
	done
	press() { terminal send-keys -t top "$1"; stack_wait 2 eval "screen | grep -qE '$2'"; }
	ok "s sorts" press s 'sort: self time'
	press s 'sort: latency'
	ok "by rank, too" press s 'sort: rank'
	ok "/ filters" eval 'press / "^/" && press 3 "^/3" && stack_wait 2 eval "[ \$(screen | grep -c \"^[ !] demo\") = 1 ]"'
	press Escape 'filter  Enter'
	press s 'sort: suspects'
	terminal send-keys -t top Up Up Up Up Up Up Up Up
	ok "Enter shows the incident of the selected rank" press Enter '^incident '
	ok "and q goes back" press q '^! demo'
	terminal send-keys -t top q
	ok "q quits" stack_wait 2 eval '! terminal has-session -t top 2>/dev/null'
	# a rank that only waits is in the newest incident too; the older one blames it
	mkdir "$WORK/standin"
	mkfifo "$WORK/standin-end"
	python3 tests/e2e/cli_server.py "$WORK/standin" <"$WORK/standin-end" &
	exec 9>"$WORK/standin-end"
	stack_wait 5 test -s "$WORK/standin/url"
	cat >"$WORK/standin/answers.json" <<-'EOF'
		{"/api/v1/incidents/0badcafe": {"id": "0badcafe", "job": "demo"},
		 "/api/v1/incidents?limit=1000&job=demo": {"incidents": [
			{"id": "0badcafe", "job": "demo", "symptom": "slow_rank", "ranks": [5], "victims": [0]},
			{"id": "1234abcd", "job": "demo", "symptom": "slow_rank", "ranks": [0], "victims": [5]}]}}
	EOF
	terminal new-session -d -s top -x 100 -y 24 "SYSOM_URL=$(cat "$WORK/standin/url") '$BIN/sysom' top --job demo"
	stack_wait 5 eval 'screen | grep -q "Enter incident"'
	terminal send-keys -t top s s s Up Up Up Up Up Up Up Up
	ok "Enter shows the fault that the selected rank waits for, not an older one" press Enter '^incident 0badcafe'
	screen | sed 's/^/# /' | head -n 3
	terminal kill-server
	exec 9>&-
else
	skip "top on a terminal" "needs command:tmux"
fi
id=$("$BIN/sysom" capture --rank 0 --seconds 3 --json | jq -r '.ids[0]')
ok "a captured window becomes a trace by its id" stack_wait 10 eval '"$BIN/sysom" trace "$id" -o "$WORK/rank0.pftrace" && [ -s "$WORK/rank0.pftrace" ]'
kill $job 2>/dev/null
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slow_link.sh - two network namespaces, and a link between them that really delays or loses packets: the
# transfers of a collective over it are recorded, fitted and compared, and the incident has the link as evidence.
# The job has no kernels: what its collectives cost is seen by the links alone.
# quiet: learns how long steps and transfers take
# needs: root netns command:jq command:nsenter
. "$(dirname "$0")/lib.sh"
trap finish EXIT

start() { # the link, its other end, and a job whose collectives go over it
	echo "0 0" >"$WORK/$1.set"
	/usr/bin/python3 tests/faults/slow_link.py --file "$WORK/$1.set" >"$WORK/$1.link" 2>"$WORK/$1.log" &
	link=$!
	stack_wait 10 test -s "$WORK/$1.link" || return 1
	read -r netns _ _ _ far <"$WORK/$1.link"
	nsenter --net="/run/netns/$netns" "$B/test/link_caller" --serve "$far" >"$WORK/$1.port" 2>"$WORK/serve.log" &
	stack_wait 10 test -s "$WORK/$1.port" || return 1
	RANK=0 WORLD_SIZE=2 "$BIN/sysom" run --job "$1" -- "$B/test/link_caller" "$far" "$(cat "$WORK/$1.port")" 3600 \
		>"$WORK/job.log" 2>&1 &
	job=$!
}
rank() { # jq filter of the attached rank
	node_api status ".ranks[] | select(.state == \"attached\") | $1"
}
fitted() { [ "$(rank '.links[0].regimes | length')" = 1 ]; }
incident() { api "incidents?job=$1" '[.incidents[] | select(.symptom != "transient")][0].id // empty'; }
there() { [ -n "$(incident "$1")" ]; }
shown() { # job pattern: the verdict's evidence grows with each window
	"$BIN/sysom" show "$(incident "$1")" >"$WORK/show.txt" 2>&1
	tr -s ' \n' ' ' <"$WORK/show.txt" | grep -Eq "$2"
}
fault() { # job link cause
	echo "$2" >"$WORK/$1.set"
	ok "$1: it makes an incident" stack_wait 60 there "$1"
	ok "$1: the link's transfers are evidence" stack_wait 20 shown "$1" \
		'transfers from rank 0 to 1 of communicator feed take [0-9,.]+ ?% longer than usual for their size'
	ok "$1: the verdict is of the network" stack_wait 20 shown "$1" "layer network: [^(]*\\($3\\)"
	sed -n '/verdict/,/do  /p; /OS signals/,/evidence/p' "$WORK/show.txt" | sed 's/^/# /'
	kill "$job" "$link"
	wait "$job" "$link" 2>/dev/null
}

ok "daemons start" stack_start "$WORK/stack"
ok "a job whose collectives go over a link" start loss
ok "the link's usual times are learned" stack_wait 30 fitted
ok "the model is ready" stack_wait 60 known 1
rank '.links[0]' >"$WORK/before.json"
echo "# $(jq -c . "$WORK/before.json")"
says() { # file jq condition
	jq -ne "input | $2" "$1" >/dev/null
}
ok "it is from rank 0 to rank 1 of the communicator" \
	says "$WORK/before.json" '.communicator == "feed" and .from == 0 and .to == 1'
ok "the line of its shortest times lies below that of the mean" says "$WORK/before.json" \
	'((.bytes | tonumber) / .transfers) as $size |
	 def at: .regimes[0] | .latency_us + $size / (.rate_gb_s // 1e9) / 1e3; (.min | at) < (.avg | at)'
ok "its time grows with the size" says "$WORK/before.json" \
	'.regimes[0] | .rate_gb_s > 0 and .latency_us >= 0'
colls() { node_api status ".collectives[] | select(.job | startswith(\"loss@\"))"; }
colls_fitted() { [ "$(colls | jq '.regimes | length')" -ge 1 ]; }
ok "its collectives are fitted, too" stack_wait 30 colls_fitted
colls >"$WORK/colls.json"
ok "each collective is counted once, with all of its bytes" says "$WORK/colls.json" \
	'.function == "AllReduce" and .count > 100 and .transfers >= .count and ((.bytes | tonumber) / .count | . > 60000 and . < 100000)'
ok "its bus bandwidth is the bytes by their time" says "$WORK/colls.json" \
	'.bus_gb_s > 0 and (.bus_gb_s - (.bytes | tonumber) / .ms / 1e6 | fabs) < 0.01 * .bus_gb_s'
fits() { "$BIN/sysom" status | tee "$WORK/status" | grep -Eq 'link to 1: .*R2 -?[0-9.]+, error' && grep -Eq 'AllReduce of 1 rank of loss@[0-9]+, communicator feed: .*GB/s; R2' "$WORK/status"; }
ok "with lines and errors that can be" says "$WORK/colls.json" \
	'(.regimes | length) >= 1 and all(.regimes[]; .latency_us >= 0) and .r2 <= 1 and .mape > 0 and .mape < 1'
ok "sysom status prints both with R2" fits
grep -E 'link to|AllReduce of' "$WORK/status" | sed 's/^/# /'
rank '.links[0].channels' >"$WORK/channels.json"
echo "# $(jq -c '.[0]' "$WORK/channels.json") $(jq -c . "$WORK/colls.json")"
ok "each channel has its mean size and latency" says "$WORK/channels.json" \
	'length > 0 and all(.[]; .size > 0 and .latency_us > 0 and .ms > 0)'
ok "metrics have the sums" bash -c "curl -sf http://127.0.0.1:$STACK_NODE_HTTP/metrics | tee '$WORK/metrics' |
	grep -q '^sysom_collective_bytes_total{.*function=\"AllReduce\"' && grep -q '^sysom_link_seconds_total{.*to=\"1\"' '$WORK/metrics'"
ok "a healthy link makes no incident" test -z "$(incident loss)"
fault loss "0 12" net-retransmits

ok "another job" start delay
ok "its link's usual times are learned" stack_wait 30 fitted
ok "its model is ready" stack_wait 60 known 1
fault delay "4 0" net-link

pair() { # two ranks of one communicator, each with its own connection
	for r in 0 1; do
		"$B/test/link_caller" --serve 127.0.0.1 >"$WORK/$r.port" 2>>"$WORK/serve.log" &
		stack_wait 10 test -s "$WORK/$r.port" || return 1
		RANK=$r WORLD_SIZE=2 "$BIN/sysom" run --job pair -- "$B/test/link_caller" 127.0.0.1 "$(cat "$WORK/$r.port")" 3600 \
			>>"$WORK/job.log" 2>&1 &
	done
}
colls() { node_api status '.collectives[] | select(.job | startswith("pair@"))'; }
both() { [ "$(colls | jq -s 'length == 1 and .[0].ranks == 2 and .[0].count > 400 and (.[0].regimes | length) >= 1')" = true ]; }
of_rank() { # what one rank sent, in all
	curl -sf "http://127.0.0.1:$STACK_NODE_HTTP/metrics" | grep "^sysom_collectives_total{.*job_name=\"pair@.*rank=\"$1\"" | sed 's/.* //'
}
summed() { # the ranks go on meanwhile
	local before=$(($(of_rank 0) + $(of_rank 1))) count
	count=$(colls | jq .count)
	[ "$before" -gt 0 ] && [ "$before" -le "$count" ] && [ "$count" -le $(($(of_rank 0) + $(of_rank 1))) ]
}
ok "two ranks of one communicator" pair
ok "their collectives are one row, with one fit" stack_wait 30 both
ok "and the row counts what both sent" summed
echo "# $(colls | jq -c '{ranks, count, ms, bus_gb_s, regimes}')"

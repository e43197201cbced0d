#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real torchrun on the CPU, two ranks with data loader workers: the stacks are joined and right, and
# what holds up a rank shows in the incident it causes.
# needs: root bpf module:torch
# alone: PyTorch on the CPU, whose stacks and waits are measured
. "$(dirname "$0")/lib.sh"
export STACK_SYSOMD_FLAGS="--sampler-period 2s"
stack_start "$WORK/stack" || { ok "daemons start" false; finish; }
loaded() { [ "$(node_api status .mode.stacks)" != starting ]; }
stack_wait 180 loaded
case $(node_api status .mode.stacks) in
bpf-*) ;;
*) ok "CPU stacks by BPF: $(node_api status .sampler.why)" false && finish ;;
esac
export SIM_LIB=$PWD/$B/lib/sim
orders=$WORK/orders shard=$WORK/shard
: >"$orders"
head -c 8M /dev/urandom >"$shard" && sync
"$BIN/sysom" run --job torchrun-stacks -- /usr/bin/python3 -m torch.distributed.run --nproc_per_node 2 \
	--master_port "$(free_ports 1)" -r 9:3 -t 9:3 tests/e2e/train_stacks.py \
	--orders "$orders" --shard "$shard" >"$WORK/job.log" 2>&1 &
job=$!
steps() { # N: both ranks have so many
	[ "$(node_api status '[.ranks[].steps] | if length == 2 then min else 0 end')" -ge "$1" ]
}
ok "both ranks train" stack_wait 240 steps 60

# ---- the profiles ----
check() { python3 tests/e2e/torchrun_stacks.py "$@"; }
ok "sysom record --rank writes folded stacks" bash -c "'$BIN/sysom' record --rank 1 --rate 499 --seconds 5 \
	--json -o '$WORK/on.folded' >'$WORK/on.json'"
sed 's/^/# /' "$WORK/on.json"
ok "the lines' sum is the samples' time" check total "$WORK/on.folded" "$(cat "$WORK/on.json")"
ok "Python down to libtorch: forward" check forward "$WORK/on.folded"
ok "Python down to libtorch: backward" check backward "$WORK/on.folded"
ok "the data loader's worker stands below its own loop" check worker "$WORK/on.folded"
ok "four of five stacks reach their first function" check whole "$WORK/on.folded"
pid=$(node_api status '.ranks[] | select(.rank == 1) | .pid')
ok "sysom record --pid --blocked" "$BIN/sysom" record -p "$pid" --off-cpu-min 0.05 --seconds 5 --blocked \
	-o "$WORK/off.folded"
ok "Python down to the kernel: a direct read" check kernel "$WORK/off.folded"

# ---- what holds up rank 1 shows in its incident ----
caused() { # begin end: the incident of rank 1 that overlaps most with these times (ns)
	api incidents | jq -er --argjson a "$1" --argjson b "$2" \
		'[.incidents[] | select(.ranks | index(1)) | (.begin_unix_ns, .end_unix_ns) |= tonumber | select(.begin_unix_ns < $b and .end_unix_ns > $a)
		  | {id, s: (([.end_unix_ns, $b] | min) - ([.begin_unix_ns, $a] | max))}]
		 | max_by(.s) | .id' 2>/dev/null
}
shown() { # begin filter: the incident's stacks say so
	last=$(caused "$1" "$(now)") && "$BIN/sysom" show "$last" --json >"$WORK/show.json" && jq -e "$2" "$WORK/show.json"
}
shows() { # begin filter: while the fault lasts
	stack_wait 20 shown "$1" "$2" && good=0 || good=1
	[ -n "$last" ] || { echo "# no incident"; return 1; }
	"$BIN/sysom" show "$last" | sed -n '/stacks  /,/evidence/p' | sed 's/^/# /'
	[ $good = 0 ] || { jq -c ".signals[] | select(.name == \"cpu_hog\" or .name == \"run_wait\")" "$WORK/show.json" | sed "s/^/# /"; false; }
}
quiet() { # longer than an incident stays open for its next window (incident.gap)
	[ $(($(now) - $(api incidents '[(.incidents[].end_unix_ns | tonumber), 0] | max'))) -gt 6000000000 ]
}
now() { date +%s%N; }

begin=$(now)
echo hog >>"$orders"
ok "a thread that hogs the GIL: who waits, and who holds it where" shows "$begin" \
	'.stacks.gil.text | test("waits .* held by thread .* in gil_hog \\(train_stacks.py:[0-9]+\\)")'
echo free >>"$orders"

stack_wait 6 quiet
disk=$(stat -c '%Hd:%Ld' "$shard" 2>/dev/null)
if /usr/bin/python3 tests/needs.py blkio-group >/dev/null; then
	/usr/bin/python3 tests/faults/disk_limit.py --pid "$pid" --device "$disk" --bytes-per-second 300000 >"$WORK/limit.log" &
	limit=$!
	begin=$(now)
	ok "a slow disk: where it is read" shows "$begin" \
		'[.stacks.blocked[] | select(.disk and .function == "read_shard" and .ns > 5e8)] | length > 0'
	kill $limit && wait $limit
else
	skip "a slow disk: where it is read" "needs blkio-group"
fi

stack_wait 6 quiet
cpu=$(($(nproc) - 1))
taskset -a -p -c $cpu "$pid" >/dev/null
hogs=()
for _ in 1 2 3 4; do
	taskset -c $cpu python3 -c 'while True: pass' & # a process each, so that its number is the one to look for
	hogs+=($!)
done
begin=$(now)
who=$(IFS='|'; echo "${hogs[*]}")
echo "# hogs: $who"
ok "another program on its CPU: which, and that the rank waited meanwhile" shows "$begin" \
	'([.signals[] | select(.name == "cpu_hog" and .raised and (.subject | test("^python3[.0-9]* \\(pid ('"$who"')\\)$")))] | length > 0)
	 and ([.signals[] | select(.name == "run_wait" and .raised)] | length > 0)'
kill "${hogs[@]}"
taskset -a -p -c "0-$cpu" "$pid" >/dev/null

# ---- the same stacks elsewhere ----
ok "sysom flame writes a page" "$BIN/sysom" flame "$last" -o "$WORK/flame.html"
ok "it holds the training loop" grep -q '"train_step"' "$WORK/flame.html"
ok "the report holds the flame graph" bash -c "'$BIN/sysom' report $last -o '$WORK/report.html' >/dev/null &&
	grep -q 'srcdoc=.*' '$WORK/report.html' && grep -q '&quot;train_step&quot;' '$WORK/report.html'"
ok "the Perfetto trace holds samples with their functions" bash -c "'$BIN/sysom' trace $last \
	-o '$WORK/t.pftrace' >/dev/null && protoc -I cli --decode=perfetto.protos.Trace cli/perfetto.proto \
	<'$WORK/t.pftrace' >'$WORK/t.txt' && grep -q perf_sample '$WORK/t.txt' && grep -q 'str: \"train_step\"' '$WORK/t.txt'"
echo end >>"$orders"
wait $job
ok "the job ends with 0" is $? 0
finish

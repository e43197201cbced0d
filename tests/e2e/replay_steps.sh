#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sysom replay steps: the contract of its output, its inputs and its errors.
set -u
B=${B:?}
root=$(cd "$(dirname "$0")/../.." && pwd)
sysom=$(realpath "$B/bin/sysom")
data=${SYSOM_DATA:-$root/../shared/data}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
cd "$T" || exit 1
export LC_ALL=C.UTF-8
n=0

is() { # text, condition...
	local text=$1; shift
	n=$((n + 1))
	if "$@"; then echo "ok $n - $text"; else echo "not ok $n - $text"
		head -5 out err 2>/dev/null | cut -c1-200 | sed 's/^/# /'; fi
}
run() { "$sysom" replay steps "$@" >out 2>err </dev/null; status=$?; }
fails() { run "$@"; [ $status = 2 ] && [ -s err ]; }
py() { python3 -c "
import json
L = [json.loads(l) for l in open('out')]
S = [l for l in L if l['type'] == 'step']; M = {l['key']: l for l in L if l['type'] == 'model'}; E = L[-1]
import sys; sys.exit(0 if ($1) else 1)"; }

python3 - <<'P'
import random
random.seed(5)
out = open('a.csv', 'w')
out.write('"step, no",tokens,batch,kind,ms\n')
for i in range(1200):
    t, b, k = random.choice([64, 128, 256, 512]), random.randint(1, 16), 'ab'[i % 2]
    y = (4 + .02 * t + .5 * b) * (1 + 'b'.count(k)) * random.gauss(1, .01)
    y *= 1.5 if i > 600 and i % 40 < 2 else 1
    y *= 1.08 if k == 'b' and i > 900 else 1
    out.write(f'{i},{t},{b},"{k} ""x"", y",{y:.6f}\n')
P
gzip -k a.csv; zstd -q a.csv -o a.csv.zst 2>/dev/null
args=(--latency ms --latency-unit ms --work tokens,batch --key kind --json)

run a.csv "${args[@]}"; cp out plain
is "reads to the end" [ $status = 0 ]
is "one line per row, one per key, a summary last" \
	py "len(S) == 1200 and len(M) == 2 and E['type'] == 'summary' and E['rows'] == 1200"
is "a step has the contract's keys" py "all({'row', 'key', 'state', 'expected_ns', 'latency_ns', \
'excess', 'flagged'} <= s.keys() for s in S) and [s['row'] for s in S] == list(range(1200))"
is "quoted keys come back whole" py "set(M) == {'a \"x\", y', 'b \"x\", y'}"
is "every slow step is flagged, and few others" py "all(s['flagged'] for s in S if s['row'] > 600 \
and s['row'] % 40 < 2) and sum(s['flagged'] for s in S if s['row'] % 40 > 1 and s['row'] < 900) <= 3"
is "the model fits and says so" py "M['a \"x\", y']['state'] == 'ready' and M['a \"x\", y']['r2'] > .97"
is "drift is raised for the key that slowed, only" \
	py "[M[k]['drift'] for k in sorted(M)] == [False, True]"
is "latency is in nanoseconds" py "4e6 < S[0]['latency_ns'] < 1e8 and abs(S[1199]['excess'] - \
(S[1199]['latency_ns'] / S[1199]['expected_ns'] - 1)) < 1e-5"
run a.csv.gz "${args[@]}"; is "gzip reads the same" cmp -s plain out
if [ -f a.csv.zst ]; then
	run a.csv.zst "${args[@]}"; is "zstd reads the same" cmp -s plain out
else
	n=$((n + 1)); echo "ok $n - zstd reads the same # SKIP needs command:zstd"
fi
"$sysom" replay steps - "${args[@]}" <a.csv.gz >out 2>err; is "standard input reads the same" cmp -s plain out
sed 's/$/\r/' a.csv >crlf.csv; run crlf.csv --latency ms --latency-unit ms --work tokens,batch --key kind --json
is "CRLF line ends are no part of a field" eval '[ $status = 0 ] && cmp -s plain out'
run a.csv "${args[@]}" --mode p99 --seed 3
is "p99 mode judges too" py "E['mode'] == 'p99' and E['seed'] == '3' and M['a \"x\", y']['state'] == 'ready'"
run a.csv --latency ms --work tokens,batch --key kind
is "without --json a table and a plot" eval '[ $status = 0 ] && grep -q ready out && grep -q X out'

head -c 3000 a.csv.gz >cut.csv.gz
is "a truncated gzip file is an error" eval 'fails cut.csv.gz "${args[@]}" && grep -q "^cut.csv.gz:[0-9]" err'
(head -3 a.csv; echo '9,64,1,a') >short.csv
is "a short row names file and line" eval 'fails short.csv "${args[@]}" && grep -q "^short.csv:4: " err'
(head -3 a.csv; echo '9,64,1,a,fast') >word.csv
is "a word for a number names file and line" eval 'fails word.csv "${args[@]}" && grep -q "^word.csv:4: .*fast" err'
(head -3 a.csv; echo '9,64,1,a,') >empty.csv
is "a missing latency is an error" eval 'fails empty.csv "${args[@]}" && grep -q "^empty.csv:4: " err'
(head -2 a.csv; echo '9,64,1,"a') >quote.csv
is "an open quote is an error" eval 'fails quote.csv "${args[@]}" && grep -q "^quote.csv:3: " err'
printf 'k,ms\n\xff\xfe\xe2\x80\xae\x1b[31m,5\n' >bytes.csv; run bytes.csv --latency ms --key k --json
is "bytes that are no text stay JSON" eval '[ $status = 0 ] && py "len(M) == 1"'
is "an unknown column is an error" fails a.csv --latency nope
is "an unknown mode is an error" fails a.csv --latency ms --mode best
is "no file is an error" fails nowhere.csv --latency ms
: >void.csv; is "an empty file is an error" fails void.csv --latency ms
(head -3 a.csv; echo; echo '9,64,1,a,0'; head -5 a.csv | tail -2) >zero.csv
run zero.csv "${args[@]}"
is "zero latencies and blank lines are skipped and counted" py "len(S) == 5 and \
E['skipped'] == {'latency_not_positive': 1, 'blank_line': 1}"

python3 -c "
import random; random.seed(2); print('size,s')
for i in range(3000): print(f'{random.choice([256,512,768,1024])},{random.lognormvariate(1, .7):.5f}')" >diffusion.csv
run diffusion.csv --latency s --latency-unit s --work size --json
is "refuses where work explains nothing" py "M['']['state'] == 'refused' and M['']['r2'] < .1 and \
not any(s['flagged'] for s in S)"

f=$data/roofline-splitwise/perf_model.csv
if [ -f "$f" ]; then
	run "$f" --latency prompt_time --latency-unit ms --work prompt_size,batch_size \
		--key model,hardware,tensor_parallel --json
	is "measured prefill latencies fit and raise next to no flags" \
		py "all(m['state'] == 'ready' and m['r2'] > .98 for m in M.values()) and E['flagged'] <= 12"
else
	n=$((n + 1)); echo "ok $n - measured prefill latencies # SKIP needs data: $f"
fi
printf 'ms\n1e300\n0\n18446744073709551616\n' >extreme.csv
run extreme.csv --latency ms
is "extreme latencies are drawn without harm" test $status = 0
echo "1..$n"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command line against a stand-in for both servers.
set -u
B=${B:?}
here=$(cd "$(dirname "$0")" && pwd)
sysom=$(realpath "$B/bin/sysom")
T=$(mktemp -d)
export LC_ALL=C.UTF-8
unset SYSOM_URL SYSOM_CONTROL_PATH SYSOM_SOCKET_PATH SYSOM_JOB LD_PRELOAD SYSOM_PRELOAD
n=0
failed=0
mkfifo "$T/stdin"
python3 "$here/cli_server.py" "$T" <"$T/stdin" &
server=$!
exec 9>"$T/stdin"
finish() { exec 9>&-; wait "$server" 2>/dev/null; rm -rf "$T"; }
trap finish EXIT
for _ in $(seq 200); do [ -e "$T/url" ] && break; sleep 0.05; done
[ -e "$T/url" ] || { echo "Bail out! the stand-in did not start"; exit 1; }
export SYSOM_URL=$(cat "$T/url") SYSOM_CONTROL_PATH=$T/control.sock

is() { # text, condition...
	local text=$1; shift
	n=$((n + 1))
	if "$@"; then echo "ok $n - $text"; else echo "not ok $n - $text"; failed=1
		sed 's/^/# /' "$T/out" "$T/err" 2>/dev/null | head -40; fi
}
run() { "$sysom" "$@" >"$T/out" 2>"$T/err" </dev/null; status=$?; }
has() { grep -qF -- "$1" "$T/out"; }
json() { python3 -c "import json,sys; j=json.load(open('$T/out')); sys.exit(0 if ($1) else 1)"; }
plain() { ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xe2\x80\xae' "$T/out" "$T/err"; }

run status; is "status exits 0" [ $status = 0 ]
is "status shows the node, its loss by cause and the cluster" eval 'has "node gpu-3" && has "lost no_lane: 7" && has "left out span_value: 21 (sysom doctor explains it)" && has "1 job (1 hangs), 8 ranks on 2 nodes" && has "0.10"'
is "status says what its words mean, and prints others as they are" eval 'has "no CPU stacks are taken" && has "canary    on" && grep -qx "  weather   fine" "$T/out"'
run status; is "a rank that left is no longer ready" eval 'grep -qE "demo +6 .*- +gone " "$T/out" && grep -qE "demo +7 .*- +detached " "$T/out" && grep -qE "demo +8 .*on +ready " "$T/out"'
is "a misspelt variable of a job is reported, with the right one" has "SYSOM_ROL is set in the job, but nothing reads it; did you mean SYSOM_ROLE?"
is "one that hangs is shown as hanging, and for how long" eval 'grep -qE "demo +4 .*on +hangs " "$T/out" && has "hangs for 34.0 s"'
is "one that was started again is shown, with the process before" has "started again 2 times; process 71 had ended before"
loads_few() { LD_DEBUG=files LD_DEBUG_OUTPUT="$T/ld" "$sysom" "$@" >"$T/out" 2>"$T/err"; ! grep -hE 'calling init.*/lib(curl|bpf|elf|dw|unwind|gnutls|ncurses)' "$T"/ld.*; local rc=$?; rm -f "$T"/ld.*; return $rc; }
is "--version, --help and replay load neither curl nor BPF nor what these need" eval 'loads_few --version && loads_few show --help && loads_few replay --help'
cp "$sysom" "$T/alone"; "$T/alone" status >"$T/out" 2>"$T/err"; status=$?
is "without sysom-full it says what is missing" eval '[ $status = 3 ] && grep -q "sysom-full.*fully installed" "$T/err"'
run status --json; is "status --json has both" json 'j["node"]["node"]=="gpu-3" and j["cluster"]["ranks"]==8'
link='"regimes": [{"latency_us": 5, "rate_gb_s": 10}], "r2": 0.99, "mape": 0.03'
cat >"$T/node-answers.json" <<EOF
{"/api/v1/status": {"node": "gpu-3", "ranks": [{"job": "demo", "rank": 0, "links": [
	{"to": 1, $link}, {"to": 2, $link, "min": {"regimes": [{"latency_us": 4, "rate_gb_s": 20}]}},
	{"to": 3, $link, "min": {"regimes": []}}, {"to": 4, $link, "min": [7]}, {"to": 5, "regimes": 7}]},
	{"job": "api", "rank": -1}]}}
EOF
run status; is "status shows a link's fits, also of a node that sends one only" eval \
	'[ "$(sed -n "s/^ *link //p" "$T/out")" = "to 1: 5 us + bytes / 10 GB/s; R2 0.990, error 3.0%
to 2: 5 us + bytes / 10 GB/s; R2 0.990, error 3.0%; at best 4 us + bytes / 20 GB/s
to 3: 5 us + bytes / 10 GB/s; R2 0.990, error 3.0%
to 4: 5 us + bytes / 10 GB/s; R2 0.990, error 3.0%" ]'
is "and a dash for the rank of a process that has none" grep -qE "^  api +- " "$T/out"
rm "$T/node-answers.json"
run top; is "top prints once where there is no terminal, sorted by rank" eval '[ $status = 0 ] && [ "$(grep -c "^  demo" "$T/out")" = 8 ] && sed -n 3p "$T/out" | grep -q "demo *0 "'
echo '{"/api/v1/status": {"jobs": 1, "ranks": 4, "other_processes": 2, "nodes": 1}}' >"$T/answers.json"
run status; is "status counts an engine and its API process apart from the ranks" has "1 job, 4 ranks and 2 other processes on 1 node"
rm "$T/answers.json"
run top --job hung; is "and so does top" eval 'head -n 1 "$T/out" | grep -q "^3 ranks and 1 other process, "'
run top --json --job other; is "top --json filters by job" json 'len(j["ranks"])==8 and j["ranks"][0]["job"]=="other"'
run top --job hung; is "top shows which ranks hang, for how long, and which have ended" eval 'grep -qE "^  hung +0 .* hangs 34.0 s" "$T/out" && grep -qE "^  hung +1 .* ended" "$T/out" && grep -qE "^  hung +2 .* ready" "$T/out"'
is "a process without a rank is none, and comes last" eval 'has "3 ranks and 1 other process, " && tail -n 1 "$T/out" | grep -qE "^  hung +- "'
is "and a dash for the rank of a process that has none" grep -qE "^  hung +- " "$T/out"
run requests --once; is "requests shows what each serving job has open, and its times" eval '[ $status = 0 ] && grep -qE "^serve +52 +3 +9 +1.50 s +310 ms +12.3 s +1 " "$T/out" && ! has missed\ *at'
run requests serve --once; is "with a job also the requests that missed an objective, and why, harmless to the terminal" eval 'grep -qE "^00000000deadbeef .* ttft +12.3 s +queue +11.0 s" "$T/out" && has "longest step 10.9 s, 4,096 tokens of 32 requests" && plain'
run requests --json serve; is "requests --json" json 'j["requests"][0]["violations"][0]["id"]=="00000000deadbeef"'
run requests --once cmpl-1; is "a request that nobody knows is looked for on this node, and says so" eval '[ $status = 1 ] && grep -q "no serving job and no request cmpl-1" "$T/err"'
run requests --once -u http://127.0.0.1:1 cmpl-1; is "without aggregator and node, nobody has looked for it" eval '[ $status = 3 ] && ! grep -q "no request" "$T/err" && grep -q "refused" "$T/err"'
run requests --once 00000000deadbeef; is "one that missed an objective is shown by its digits" eval '[ $status = 0 ] && grep -q "^00000000deadbeef" "$T/out"'
echo '{"/api/v1/requests?id=dbe8d1fa298dc74d": {"requests": [{"id": "dbe8d1fa298dc74d", "job": "serve"}]}}' >"$T/node-answers.json"
run requests --once 4bf92f3577b34da6; is "one whose own id has 16 digits is found, too" eval '[ $status = 0 ] && has "request dbe8d1fa298dc74d"'
rm "$T/node-answers.json"
run top --job over; is "asked for by name, top shows a job that is over" eval '[ "$(grep -c "^  over" "$T/out")" = 3 ]'
run top; is "without, it leaves it out and says so" eval '! grep -q "^  over" "$T/out" && has "1 ended job not shown"'
run incidents; is "incidents lists all" eval '[ $status = 0 ] && has 0badcafe && has 1234abcd'
is "a job's name can't colour the terminal" plain
run incidents --job 'a b&c=d'; is "no incident found is exit status 1, the name is escaped" eval '[ $status = 1 ] && grep -q "job=a%20b%26c%3Dd" "$T/requests"'
run incidents --state closed --json; is "incidents --state filters" json 'all(i["state"]=="closed" for i in j["incidents"])'
run show 1234abcd; is "show says which rank, when and how slow" eval '[ $status = 0 ] && has "rank 5 is slow" && has "steps 312 to 371" && has "+50%" && has "ranks 0-4, 6, 7" && has "123 kB, 0.085% of 145 MB of events in these windows"'
is "show is free of control characters" plain
run show d1a60001; is "the cost of a closed incident is final" eval 'has "0.42 GPU-hours lost; a day of it costs 19.2 GPU-hours" && ! has "so far"'
run show d1a60002; is "that of an open one is so far" eval 'has "0.42 GPU-hours lost so far; a day of it costs 19.2 GPU-hours" && has "for 12.4 s so far"'
python3 - "$SYSOM_URL/api/v1/incidents/d1a60002" "$T/answers.json" <<'PY'
import json, sys, urllib.request
incident = json.load(urllib.request.urlopen(sys.argv[1]))
incident["findings"] = [{"kind": "slow_rank", "ended": True}]
incident["diagnoses"][0]["by_ledger"] = False
json.dump({"/api/v1/incidents/d1a60002": incident}, open(sys.argv[2], "w"))
PY
run show d1a60002; is "an open one whose findings have ended is not slow any more" eval 'has "for 12.4 s; nothing slow since 02:50:24" && has "0.42 GPU-hours lost; a day of it costs 19.2 GPU-hours" && ! has "so far"'
is "a verdict with another basis than the ledger says so" has "figure compares median steps of one window"
run report d1a60002 -o "$T/quiet.html"; is "nor in the report" eval 'grep -q "for 12.4 s; nothing slow since 02:50:24<" "$T/quiet.html" && ! grep -q "so far" "$T/quiet.html"'
is "and so does the report" eval 'grep -q "figure compares median steps" "$T/quiet.html" && ! grep -q "sum of the accounts" "$T/quiet.html"'
rm "$T/answers.json"
run show 4a4a4a4a; is "a hang says how long it lasts and who waits in what" eval 'has "hangs since 2026-11-21 02:50:20 UTC, for 20.0 s so far" && has "wait in AllReduce 240" && has "hanging only because they wait"'
is "what it is in since its last step is reported" eval 'has "host blocked (file lock) in save" && has "total" && has "hang: since its last step; usual: the mean of 8 steps before"'
is "and nothing of it per step" eval '! grep -qE "flagged|detected|expected latency|per step|steps 312" "$T/out"'
run report 4a4a4a4a -o "$T/hang.html"
is "nor in the report" eval 'grep -q "hanging, so far" "$T/hang.html" && grep -q "Hang: since its last step; usual: the mean of 8 steps before" "$T/hang.html" && ! grep -qE "median slow step|>expected<|slow steps until|per step" "$T/hang.html"'
run incidents --all; is "incidents gives a hang no step times" eval 'grep "^deadbeef" "$T/out" | grep -qv "41.2 ms"'
run show 4b4b4b4b; is "a verdict that nothing shows is not shown, what is missing is" eval 'has "no evidence shows the cause" && ! grep -qE "confidence|cause not found|look at the evidence" "$T/out" && has "which rank has not entered which collective"'
run report 4b4b4b4b -o "$T/empty.html"
is "nor in the report" eval '! grep -qE "confidence|cause not found|look at the evidence" "$T/empty.html" && grep -q "which rank has not entered which" "$T/empty.html"'
run report d1a60001 -o /dev/full; is "a report for which there is no room says so" eval '[ $status = 3 ] && grep -q "/dev/full: No space left" "$T/err"'
"$sysom" report d1a60001 -o - >/dev/full 2>"$T/err"; status=$?
is "to standard output, too" eval '[ $status = 3 ] && grep -q "No space left" "$T/err"'
run report d1a60001 -o "$T/closed.html"; run report d1a60002 -o "$T/open.html"
is "so says the report" eval 'grep -q "GPU-hours lost<" "$T/closed.html" && ! grep -q "so far" "$T/closed.html" && grep -q "GPU-hours lost so far<" "$T/open.html"'
run show 0e711e11; is "show makes hostile text harmless" eval '[ $status = 0 ] && plain'
run show 1234abcd; is "show lists spikes in other functions" eval 'has "spikes    rank 5: 181 ms, expected 20.0 ms, in pad (engine.py:37) (Engine::Prepare); the longest"'
run incidents; is "so does incidents" eval 'has "spikes in pad (engine.py:37)"'
run show last --job mild --json; is "show last passes transients over, as incidents does" eval '[ $status = 0 ] && json "j[\"id\"]==\"1234abcd\""'
run show last --job host; is "... and says when there is nothing else" eval '[ $status = 1 ] && grep -q "no incidents, only 1 transient (sysom incidents --all)" "$T/err"'
run incidents --job nobody; is "no incidents are no incidents" eval '[ $status = 1 ] && grep -qx "no incidents" "$T/out"'
cat >"$T/answers.json" <<'EOF'
{"/api/v1/status": {"all_jobs": false}, "/api/v1/ranks": {"ranks": []}, "/api/v1/requests": {"requests": []}}
EOF
run incidents --job nobody; is "... unless the aggregator hides other users' jobs: then it says so" eval '[ $status = 1 ] && grep -qx "no incidents that you may see (other users. jobs are hidden)" "$T/out"'
run show last --job nobody; is "so does show" eval '[ $status = 1 ] && grep -qx "sysom: no incidents of job nobody that you may see (other users. jobs are hidden)" "$T/err"'
run top; is "top" eval '[ $status = 1 ] && grep -qx "no ranks that you may see (other users. jobs are hidden)" "$T/out"'
run requests --once; is "requests" has "no requests: no job that you may see (other users' jobs are hidden) has spans"
run wait-incident --job nobody --timeout 0.2; is "and wait-incident" eval '[ $status = 1 ] && grep -q "none that you may see (other users. jobs are hidden) within" "$T/err"'
rm "$T/answers.json"
run top --job nope; is "top says that the job has no ranks" eval '[ $status = 1 ] && has "no ranks of job nope"'
run show last --job demo --json; is "show last finds nothing where the server lacks it" [ $status = 1 ]
run show 1234abcd --json; is "show --json is the incident" json 'j["id"]=="1234abcd" and len(j["windows"])>=1'
run show ffffffff; is "an unknown incident is exit status 1" eval '[ $status = 1 ] && grep -q "no incident ffffffff" "$T/err"'
run show 0dd; is "an answer full of wrong types is survived" [ $status = 0 ]
run show 0badc0de; is "broken JSON is exit status 3" eval '[ $status = 3 ] && grep -q "not a JSON object" "$T/err"'
run show ../../x; is "an id that is none never reaches the server" eval '[ $status = 1 ] && ! grep -q "\.\./x" "$T/requests"'
run verdict over --timeout 9; is "verdict of a job without incidents that was traced" eval '[ $status = 0 ] && has "sysom: job over, 3 ranks on 1 node" && has "nothing was slow"'
run wait-incident --job over --timeout 1.5; is "wait-incident says that the job has ended" grep -q "^the job has ended  .* steps in all  " "$T/err"
run verdict demo --timeout 0.5; is "verdict of one that runs says that it is not the last word" eval '[ $status = 0 ] && has "sysom: rank 5 is slow" && has "no cause yet; see sysom show 1234abcd" && has "8 ranks still run"'
python3 - "$T/answers.json" <<'PY'
import json, sys, time
now = int(time.time() * 1e9)
def rank(job, age_ms, known_s):
    return {"job": job, "rank": 0, "node": "n", "alive": False, "ended": True, "beat_age_ms": age_ms, "known_s": known_s, "steps": 5}
def incident(id, job, ago_s, cause):
    return {"id": id, "job": job, "symptom": "slow_rank", "end_unix_ns": str(now - ago_s * 10**9), "ranks": [0], "nodes": ["n"],
            "diagnosis": {"summary": "rank 0 is slow because of " + cause, "layer": "cpu", "cause": cause, "confidence": 0.9}}
json.dump({
    "/api/v1/ranks?job=runs": {"ranks": [rank("runs#1.0@5", 90000, 200), rank("runs#2.0@5", 3000, 60), rank("runs#2.1@5", 2000, 30)]},
    "/api/v1/incidents?limit=50&job=runs": {"incidents": [incident("00000002", "runs#2.0@5", 50, "new"), incident("00000001", "runs#1.0@5", 40, "old")]},
    "/api/v1/ranks?job=late": {"ranks": [rank("late@5", 2000, 60)]},
    "/api/v1/incidents?limit=20&job=late": {"incidents": [{**incident("00000007", "late@5", 50, "new"), "ranks": [-1]}]},
    "/api/v1/incidents?limit=50&job=late": {"incidents": [
        {**incident("00000006", "late@5", 40, "late"), "kind": "requests", "symptom": "slow_requests", "ranks": [], "nodes": []},
        incident("00000005", "late@5", 50, "new"), {**incident("00000008", "late@5", 55, "worst"), "lost_ms": 9000.0}]},
    "/api/v1/ranks?job=stuck": {"ranks": [rank("stuck@5", 2000, 60)]},
    "/api/v1/incidents?limit=50&job=stuck": {"incidents": [
        {**incident("00000009", "stuck@5", 50, "hang"), "symptom": "stall", "gpu_hours_lost": 0.5, "first_step": 88, "last_step": 104,
         "latency_ms": 134.0, "expected_ms": 103.0,
         "findings": [{"kind": "hang", "ended": True, "begin_unix_ns": "1795229420000000000", "end_unix_ns": "1795229440000000000"}]}]},
    "/api/v1/ranks?job=same": {"ranks": [rank("same@5", 2000, 60)]},
    "/api/v1/incidents?limit=50&job=same": {"incidents": [incident("00000004", "same@5", 50, "new"), incident("00000003", "same@5", 70, "old")]},
}, open(sys.argv[1], "w"))
PY
for job in runs same; do
	run verdict $job --timeout 0.1
	is "verdict $job: the newest run counts" eval '[ $status = 0 ] && has ": 1 incident" && has "sysom: rank 0 is slow because of new" && ! has "sysom: rank 0 is slow because of old"'
	is "verdict $job: earlier ones are listed" grep -q "^sysom: in an earlier run (.*@5): rank 0 is slow because of old; sysom show 0000000[13]" "$T/out"
done
run incidents --job late
is "incidents: a process without a rank has no number" grep -q "^00000007 .* late@5  *- " "$T/out"
run verdict late --timeout 0.1
is "verdict: late requests come after what made them late, without a node and a cost that are not known" \
	eval '[ "$(grep -c " lost$" "$T/out")" = 2 ] && grep -q "cause late, confidence 90%$" "$T/out" && grep -n "because of" "$T/out" | tail -n 1 | grep -q "because of late"'
is "and what cost most comes first" eval 'grep "because of" "$T/out" | head -n 1 | grep -q "because of worst"'
run verdict stuck --timeout 0.1; is "a hang has no steps, but a time" grep -qx "sysom:   hung for 20.0 s, 0.5 GPU-hours lost" "$T/out"
run verdict runs --timeout 0.1; is "steps of one run are one run" has "sysom: job runs, 2 ranks"
rm "$T/answers.json"
run verdict nope; is "verdict of an unknown job is exit status 1" eval '[ $status = 1 ] && grep -q "no rank of nope was traced" "$T/err"'
run verdict; is "verdict without any job is a usage error" eval '[ $status = 2 ] && grep -q "Neither SYSOM_JOB nor a scheduler" "$T/err"'
SLURM_JOB_ID=12 SLURM_JOB_NAME="a b" SLURM_STEP_ID=0 "$sysom" verdict --timeout 0.1 >"$T/out" 2>"$T/err"
is "verdict asks for the job that Slurm names" eval 'grep -q "ranks?job=a%20b%2312.0%40" "$T/requests"'
run off; is "off says how many ranks changed" eval '[ $status = 0 ] && has "tracing off: 8 ranks changed"'
echo '{"/api/v1/trace?state=off": {"changed": 4, "already": 0, "asked": 4, "ranks": [0, 1, -1, -1]}}' >"$T/node-answers.json"
run off; is "and counts processes without a rank apart" has "tracing off: 2 ranks and 2 other processes changed"
rm "$T/node-answers.json"
run on --rank 3 --job j; is "on passes rank and job" eval '[ $status = 0 ] && has "1 rank changed" && grep -q "node POST /api/v1/trace?state=on&rank=3&job=j" "$T/requests"'
run on --channels 12.5 --rank 3; is "on --channels asks for them" eval '[ $status = 0 ] && has "kernels for 12.5 s: 1 rank" && grep -q "node POST /api/v1/trace?state=on&channels=12.5&rank=3" "$T/requests"'
run on --channels -1; is "for a time that is none it is a usage error" [ $status = 2 ]
run off --job again; is "off again changes nothing, says so and is exit status 0" eval '[ $status = 0 ] && has "0 ranks changed, 8 were off already"'
run on --job mixed; is "a process that can't is reported" eval '[ $status = 0 ] && has "1 rank changed, 5 were on already, 2 cannot: tracing failed there"'
run off --job slow; is "one that does not answer is exit status 3, with what the server says" eval '[ $status = 3 ] && grep -q "1 of 8 processes did not answer in time" "$T/err"'
run off --job none; is "off that changes nothing is exit status 1" [ $status = 1 ]
run capture --rank 2 --seconds 5; is "capture asks for the recorder" eval '[ $status = 0 ] && grep -q "POST /api/v1/capture?rank=2&seconds=5" "$T/requests"'
run capture --rank 2 --job a@7; is "capture takes a job" eval '[ $status = 0 ] && grep -q "POST /api/v1/capture?rank=2&job=a%407" "$T/requests"'
is "and says how to look at it" has "sysom trace 00112233445566778899aabbccddeeff -o rank2.pftrace"
run capture; is "capture without a rank is a usage error" [ $status = 2 ]
run incidents --job host; is "transients are not listed" eval '[ $status = 1 ] && has "1 transient of a few slow steps not shown"'
run incidents --job host --all; is "... but with --all" eval '[ $status = 0 ] && has 0ff0ff00'
run wait-incident --any --job demo --timeout 5; is "wait-incident --any prints the closed incident's id" eval '[ $status = 0 ] && [ "$(cat "$T/out")" = 1234abcd ]'
run wait-incident --job demo --timeout 0.6; is "without --any what was over does not count" eval '[ $status = 0 ] && [ "$(cat "$T/out")" = 0badcafe ]'
run wait-incident --job flip --timeout 20; is "... and the next one is waited for" eval '[ $status = 0 ] && [ "$(cat "$T/out")" = aaaa0002 ]'
run incidents
run wait-incident --job again --timeout 20; is "... or the same one when it opens again" eval '[ $status = 0 ] && [ "$(cat "$T/out")" = bbbb0001 ] && ! grep -q "still open" "$T/err"'
run wait-incident --job live --timeout 0.2; is "wait-incident settles for an open one when the time is up" eval '[ $status = 0 ] && [ "$(cat "$T/out")" = deadbeef ] && grep -q "rank 2 hangs" "$T/err"'
run wait-incident --job nobody --timeout 0.2; is "wait-incident without one is exit status 1" [ $status = 1 ]
run wait-incident --job twice --timeout 0.2; is "wait-incident refuses a name that several users have, and names their jobs" eval '[ $status = 1 ] && grep -q "several users.*twice@1001, twice@1002$" "$T/err"'
for c in run status top incidents show trace report wait-incident off on capture doctor replay; do
	run $c --help; is "$c --help, with examples" eval '[ $status = 0 ] && has "usage: sysom $c" && has "examples:"'
done
run; is "no command is a usage error" [ $status = 2 ]
run nonsense; is "an unknown command is a usage error" [ $status = 2 ]
run incident; is "a command begun or overdone is reported" eval '[ $status = 2 ] && grep -q "did you mean incidents?" "$T/err"'
for c in report flame; do
	run $c d1a60001 -o "$T/a.b.svg"; is "$c refuses a name that is none of HTML, and says which" eval '[ $status = 2 ] && [ ! -e "$T/a.b.svg" ] && grep -q "use -o .*/a.b.html" "$T/err"'
done
run trace 1234abcd --rank 99 -o "$T/none.pftrace"; is "trace of a rank without data lists what there is" eval '[ $status = 1 ] && grep -qE "no data for rank 99; available: ([0-9]|none)" "$T/err"'
run flame 1234abcd --rank 99; is "so does flame" eval '[ $status = 1 ] && grep -qE "no data for rank 99; available: ([0-9]|none)" "$T/err"'
run statsu; is "an unknown command suggests the nearest one" eval '[ $status = 2 ] && grep -q "did you mean status?" "$T/err"'
run timings x.csv; is "or the kind of replay" eval '[ $status = 2 ] && grep -q "did you mean replay timings?" "$T/err"'
run xyzzyplugh; is "or none, when none is near" eval '[ $status = 2 ] && ! grep -q "did you mean" "$T/err"'
run help top; is "help COMMAND is COMMAND --help" eval '[ $status = 0 ] && has "usage: sysom top"'
run status --nonsense; is "an unknown option is a usage error" [ $status = 2 ]
run show; is "a missing argument is a usage error" [ $status = 2 ]
run incidents --limit 0; is "a number out of range is a usage error" eval '[ $status = 2 ] && grep -q "from 1 to 1000" "$T/err"'
run off --rank x; is "a bad number is a usage error" [ $status = 2 ]
SYSOM_URL=gpu-1:9472 run incidents; is "... that of the environment is called by its name" eval '[ $status = 2 ] && grep -q "SYSOM_URL gpu-1:9472: expected http://HOST:PORT" "$T/err"'
for c in "--help" "--version" "status" "show --help" "replay --help" "report d1a60001 -o -"; do
	"$sysom" $c >/dev/full 2>"$T/err"; status=$?
	is "$c to a full disk fails, and once says why" eval '[ $status = 3 ] && [ "$(grep -c "No space left" "$T/err")" = 1 ] && [ "$(wc -l <"$T/err")" = 1 ]'
done
run status --url ftp://x; is "a bad url is a usage error" [ $status = 2 ]
run replay metrics x.csv; is "a kind of replay that is not there says so" eval '[ $status = 2 ] && grep -q "unknown kind metrics" "$T/err"'
SYSOM_URL=http://127.0.0.1:1 SYSOM_CONTROL_PATH=$T/none run status
is "status without any server is exit status 3" [ $status = 3 ]
is "... and says what to do" eval 'has "is sysomd running? Use --control" && has "is sysom-aggregator running there?"'
SYSOM_URL=http://127.0.0.1:1 run top
is "so does every command" eval '[ $status = 3 ] && grep -q "Connection refused; is sysom-aggregator running" "$T/err"'
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	mkdir "$T/bin"; cp "$sysom" "$sysom-full" "$T/bin/"; chmod 755 "$T" "$T/bin"; chmod 700 "$T/control.sock"
	setpriv --reuid 65534 --regid 65534 --clear-groups "$T/bin/sysom" off >"$T/out" 2>"$T/err"
	status=$?
	is "another user's control socket: permission denied, and who may" eval '[ $status = 3 ] && grep -q "Permission denied; only root and the user that runs sysomd" "$T/err"'
fi
: >"$T/empty.csv"
run replay stacks "$T/empty.csv"; is "replay stacks says that a file is missing, in a line" eval '[ $status = 2 ] && [ "$(cat "$T/err")" = "sysom replay stacks: BASE.folded OTHER.folded is missing; try sysom replay stacks --help" ]'
run replay events "$T"; is "a directory is reported as one" eval '[ $status = 2 ] && grep -q "Is a directory" "$T/err"'
run replay events "$T/empty.csv"; is "replay events says that a file is empty" eval '[ $status = 0 ] && grep -q "empty.csv: no rows" "$T/err"'
run replay events "$T/none.csv"; is "no table is begun before an error" eval '[ $status = 2 ] && [ ! -s "$T/out" ] && grep -q "No such file" "$T/err"'
printf 'a\n' >"$T/head.csv"
run replay steps --latency a "$T/head.csv"; is "replay steps says that there are no rows" eval '[ $status = 0 ] && grep -q "no rows" "$T/err"'
"$sysom" incidents >/dev/full 2>"$T/err"; is "a full standard output is an error" [ $? = 3 ]
if command -v script >/dev/null; then
	TERM=xterm script -qec "'$sysom' incidents" "$T/out" >/dev/null </dev/null
	is "colours on a terminal" grep -q $'\033\[1m' "$T/out"
	for columns in 80 100 136; do
		for c in "top --once" incidents; do
			NO_COLOR=1 TERM=xterm script -qec "stty cols $columns; '$sysom' $c" "$T/out" >/dev/null </dev/null
			widest=$(grep -v "^Script " "$T/out" | tr -d '\r' | wc -L)
			is "$c fits in $columns columns" eval '[ $widest -gt 40 ] && [ $widest -le $columns ]'
		done
	done
	NO_COLOR=1 TERM=xterm script -qec "'$sysom' incidents" "$T/out" >/dev/null </dev/null
	is "no colours with NO_COLOR" eval '! grep -q $'"'\\033'"'"\[" "$T/out"'
fi
echo "1..$n"
exit $failed

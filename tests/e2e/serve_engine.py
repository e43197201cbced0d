#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A serving engine of vLLM's structure, found by vLLM's own catalogue. First each event against the engine's truth file;
then a real sysomd and aggregator: steps, models (also of a prefill instance), a healthy stretch, a slow GPU of one rank, a slow scheduler."""
# alone: a healthy stretch in real time
# needs: root bpf
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

if "SYSOM_TEST_REAPED" not in os.environ:
    os.execvp("python3", ["python3", "tests/reap.py", sys.executable, *sys.argv])

import tap  # noqa: E402
from serve_stack import Stack, wait_for  # noqa: E402
from python_spans import PEER, SO, hash_of, requests_of  # noqa: E402

B = os.path.abspath(os.environ.get("B", "build/gcc"))
PYTHON = "/usr/bin/python3"
TRAFFIC = os.path.join(os.environ.get("SYSOM_DATA", "../shared/data"), "llm-traffic/mooncake_conversation.csv.gz")
HEALTHY_S = 40
SLOW, SCHEDULE = (HEALTHY_S + 4, 6), (HEALTHY_S + 26, 6)  # begin and length, seconds after the first request
SEEN = 1.25  # a step that took so many times what it should was slow


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "PYTHON", "LD_PRELOAD"))}
    return dict(env, SIM_LIB=f"{B}/lib/sim", LC_ALL="C.UTF-8", **more)


def truth_of(path):
    lines = collections.defaultdict(list)
    with open(path, encoding="ascii") as f:
        for line in f:
            row = json.loads(line)
            lines[next(k for k in ("job", "request", "step", "worker_step") if k in row)].append(row)
    return lines


# ---- each event ----

def events_of(work, name, *options):
    """What a small sysomd gets from all processes of a short run; the run's truth."""
    truth = f"{work}/{name}.jsonl"
    p = subprocess.run([PEER, SO, PYTHON, "sim/serve_sim.py", "--seconds", "5", "--truth", truth, *options],
                       env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    by_pid = collections.defaultdict(list)
    for line in p.stdout.splitlines():
        head = line.split(" ", 3)
        if len(head) > 2 and head[0].isdigit() and (head[1].isdigit() or head[1] == "-"):
            fields = dict(x.split("=", 1) for x in (head[3].split() if len(head) > 3 else ()) if "=" in x)
            by_pid[int(head[0])].append(dict(fields, pid=int(head[0]), lane=head[1], kind=head[2]))
    return p.returncode, by_pid, truth_of(truth)


def spans(events, name):
    """(begin event, end event) of each."""
    stacks, found = collections.defaultdict(list), []
    for e in events:
        if e["kind"] == "span_begin":
            stacks[e["lane"]].append(e)
        elif e["kind"] == "span_end" and stacks[e["lane"]]:
            begin = stacks[e["lane"]].pop()
            if begin["name"] == name:
                found.append((begin, e))
    return found


def check_requests(label, api, engine, truth):
    process = [requests_of(api, (None, *s)) for s in spans(api, "OutputProcessor::Process")]
    tokens, ends = collections.Counter(), collections.Counter()
    for one in process:
        for request, n, done in one:
            tokens[request] += n
            ends[request] += done
    want = {hash_of(r["request"]): r["tokens"] for r in truth["request"]}
    tap.ok(tokens == want and set(ends.values()) == {1}, f"{label}: each request's tokens, and one end",
           (len(want), list(tokens.items())[:3], list(want.items())[:3]))
    added = {b["request"]: b["work"] for b, _ in spans(engine, "EngineCore::AddRequest")}
    want = {f"{hash_of(r['request']):x}": f"{r['prompt_tokens']},0,0,0" for r in truth["request"]}
    tap.ok(added == want, f"{label}: each request's prompt", (list(added.items())[:3], list(want.items())[:3]))


def check_events(work, label, *options):
    status, by_pid, truth = events_of(work, label, *options)
    workers = {w["pid"] for w in truth["worker_step"]}
    with_span = {pid: {e.get("name") for e in events if e["kind"] == "span_begin"} for pid, events in by_pid.items()}
    api = [p for p, names in with_span.items() if "OutputProcessor::Process" in names]
    engine = [p for p, names in with_span.items() if "EngineCore::Schedule" in names]
    tap.ok(status == 0 and len(workers) == 2 and (len(api), len(engine)) == (1, 1) and
           all("ModelRunner::Step" in with_span.get(w, ()) for w in workers),
           f"{label}: API process, engine and both workers are traced", (status, workers, {k: len(v) for k, v in with_span.items()}))
    api, engine = by_pid[api[0]] if api else [], by_pid[engine[0]] if engine else []
    steps = sorted(truth["step"], key=lambda s: s["step"])
    got = [dict((f"{r:x}", n) for r, n, _ in requests_of(engine, (None, *s))) for s in spans(engine, "EngineCore::Output")]
    want = [{f"{hash_of(r):x}": n for r, n in s["requests"].items()} for s in steps]
    tap.ok(got == want and len(got) > 20, f"{label}: each step's requests and their tokens", (len(got), len(want)))
    scheduled = [e["work"] for _, e in spans(engine, "EngineCore::Schedule") if not e["work"].startswith("0,0")]
    want = [",".join(str(s[k]) for k in ("tokens", "batch", "context", "drafts")) for s in steps]
    tap.ok(scheduled == want, f"{label}: each step's work in the engine", [x for x in zip(scheduled, want) if x[0] != x[1]][:3])
    for rank in (0, 1):
        mine = [s for s in truth["worker_step"] if s["rank"] == rank]
        want = [tuple(float(s[k]) for k in ("tokens", "batch", "context", "drafts")) for s in mine]
        got = [(tuple(float(x) for x in (e["work"] + "," + e["more"]).split(",")), e["phase"])
               for e in by_pid[mine[0]["pid"]] if e["kind"] == "step_begin"]
        tap.ok([g[0] for g in got] == want, f"{label}: rank {rank}: each step, with its work",
               (len(got), len(want), [x for x in zip([g[0] for g in got], want) if x[0] != x[1]][:3]))
        if not options:
            phase = ["decode" if t == b else "prefill" if b == 1 else "mixed" for t, b, _, _ in want]
            tap.ok(all(g[1] == p or p == "mixed" for g, p in zip(got, phase)), f"{label}: rank {rank}: prefill and decode apart",
                   collections.Counter(zip((g[1] for g in got), phase)))
    check_requests(label, api, engine, truth)


# ---- with sysomd and the aggregator ----

class Serving(Stack):
    def ranks(self):
        return self.get("NODE", "status")["ranks"]

    def incidents(self):
        return self.get("SYSOM_URL", "incidents?job=serve")["incidents"]


def missed_objective(truth):
    """Whether a request took about as long as sysomd's default objectives, 10 s and 100 ms, or longer."""
    ended = [r for r in truth["request"] if r.get("end_ns") and r.get("first_token_ns")]
    return any(r["first_token_ns"] - r["arrival_ns"] > 9.5e9 or
               r["end_ns"] - r["first_token_ns"] > 95e6 * (r["tokens"] - 1) > 0 for r in ended)


def was_slow(truth, begin_ns, end_ns, ranks=(0, 1)):
    """Whether a step of these ranks in this time took longer than its work explains, whoever was to blame."""
    return any(s["begin_ns"] < end_ns and s["end_ns"] > begin_ns and
               s["end_ns"] - s["begin_ns"] > SEEN * s["expected_ns"] for s in truth["worker_step"] if s["rank"] in ranks)


def unix_offset_ns():
    return time.time_ns() - time.monotonic_ns()


def shows_gpu(diagnosis):
    return diagnosis["layer"] == "gpu" or any(e["layer"] == "gpu" and e["effect_ms"] > 5 for e in diagnosis["evidence"])


def shows_process(diagnosis):
    return diagnosis["cause"] == "cpu-process"


def accused(stack, rank, since_ns, shows):
    """The incident after this time that accuses this rank, with evidence that shows the fault."""
    for i in stack.incidents():
        if i["symptom"] == "transient" or int(i["end_unix_ns"]) < since_ns:
            continue
        if rank in i["ranks"] and any(rank in d["ranks"] and shows(d) for d in i["diagnoses"]):
            return i
    return None


def explained(ranks):
    """R2 by rank and phase, of models that have seen enough steps for it to mean something."""
    return {(r["rank"], m["phase"]): m["r2"] for r in ranks for m in r["models"] if m["steps"] >= 40}


def check_prefill(work):
    """An instance that only computes prompts."""
    stack = Serving(f"{work}/stack-split")
    with open(f"{work}/split.log", "w", encoding="utf-8") as log:
        p = subprocess.run([f"{B}/bin/sysom", "run", "--job", "split", "--", PYTHON, "sim/serve_sim.py", "--split", "--workers", "1",
                            "--seconds", "25", "--requests-per-second", "4"], env=environment(**stack.env), stdout=log,
                           stderr=log, check=False)
    # they have no communicator, so no rank
    r2 = explained(r for r in stack.ranks() if r["models"])
    print(f"# R2 of two instances {r2}")
    tap.ok(p.returncode == 0 and all(r2.get((-1, phase), 0) > 0.9 for phase in ("prefill", "decode")),
           "work explains the time of a prefill instance's steps: R2 above 0.9", (p.returncode, r2, stack.ranks()))
    stack.stop()


def check_live(work):
    stack = Serving(f"{work}/stack")
    truth_path = f"{work}/live.jsonl"
    faults = [f"slow:rank=1:start={SLOW[0]}:seconds={SLOW[1]}:size=2",
              f"schedule:start={SCHEDULE[0]}:seconds={SCHEDULE[1]}:size=150"]
    options = [x for f in faults for x in ("--fault", f)] + (
        ["--traffic", TRAFFIC, "--prompt-scale", "0.05", "--output-scale", "0.25"] if os.path.exists(TRAFFIC) else [])
    with open(f"{work}/job.log", "w", encoding="utf-8") as log:
        job = subprocess.Popen([f"{B}/bin/sysom", "run", "--job", "serve", "--", PYTHON, "sim/serve_sim.py", "--seconds", "600",
                                "--truth", truth_path, *options], env=environment(**stack.env), stdout=log, stderr=log)
    tap.ok(wait_for(60, lambda: len(stack.ranks()) == 4), "all four processes are traced", [r["program"] for r in stack.ranks()])
    job_line = wait_for(20, lambda: truth_of(truth_path)["job"])  # written when the workers are ready
    start_ns = job_line[0]["start_ns"]
    time.sleep(max(0.0, HEALTHY_S - (time.monotonic_ns() - start_ns) / 1e9))
    ranks = [r for r in stack.ranks() if r["rank"] >= 0]
    tap.ok(sorted(r["rank"] for r in ranks) == [0, 1], "workers have the numbers of their communicator", [r["rank"] for r in ranks])
    r2 = explained(ranks)
    print(f"# R2 {r2}")
    tap.ok(all(r2.get((rank, phase), 0) > 0.9 for rank in (0, 1) for phase in ("decode", "mixed")),
           "work explains the time of decode steps, and of those with parts of prompts: R2 above 0.9", r2)
    printed = stack.sysom("status").stdout
    tap.ok(re.search(r"decode R2 (0\.9|1\.0)", printed), "sysom status prints it", printed)
    offset, truth = unix_offset_ns(), truth_of(truth_path)
    false = [(i["id"], i["symptom"], i["ranks"]) for i in stack.incidents() if i["symptom"] != "transient" and not
             (missed_objective(truth) if i["symptom"] == "slow_requests" else
              was_slow(truth, int(i["begin_unix_ns"]) - offset, int(i["end_unix_ns"]) - offset))]
    tap.ok(not false, f"no incident in {HEALTHY_S} s but where steps or requests were slow", false)
    for rank, (begin, _), shows, what in ((1, SLOW, shows_gpu, "a slow GPU"),
                                          (1, SCHEDULE, shows_process, "waiting for a slow scheduler")):
        since = start_ns + int(begin * 1e9) + unix_offset_ns()
        found = wait_for(120, lambda: accused(stack, rank, since, shows))
        tap.ok(found, f"{what} of rank {rank} is an incident that says so", [(i["symptom"], i["ranks"]) for i in stack.incidents()])
        if found:
            print("\n".join("# " + x for x in stack.sysom("show", found["id"]).stdout.splitlines()[:14]))
    os.kill(job_line[0]["pid"], signal.SIGUSR1)
    status = job.wait(60)
    truth = truth_of(truth_path)
    # by rank; sysomd is behind the engine by a step
    steps = {r["rank"]: r["steps"] for r in wait_for(20, lambda: [r for r in stack.ranks() if r["state"] == "gone"]) or []}
    made = collections.Counter(s["rank"] for s in truth["worker_step"])
    tap.ok(status == 0 and all(0 <= made[r] - steps.get(r, 0) <= 2 for r in (0, 1)), "sysomd's steps are the engine's",
           (status, steps, made))
    stack.stop()


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        check_events(work, "one engine")
        check_events(work, "speculating", "--speculate", "3")
        check_prefill(work)
        check_live(work)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())

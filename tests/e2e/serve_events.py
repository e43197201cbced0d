#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A serving engine of vLLM's structure, found by vLLM's own catalogue: each event against the engine's truth file."""
# needs: root
import collections
import os
import subprocess
import sys
import tempfile

if "SYSOM_TEST_REAPED" not in os.environ:
    os.execvp("python3", ["python3", "tests/reap.py", sys.executable, *sys.argv])

import tap  # noqa: E402
from serve_stack import PYTHON, environment, truth_of  # noqa: E402
from python_spans import PEER, SO, hash_of, requests_of  # noqa: E402


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


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        check_events(work, "one engine")
        check_events(work, "speculating", "--speculate", "3")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())

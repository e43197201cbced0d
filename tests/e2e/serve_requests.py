#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests of a serving engine of vLLM's structure, with a real sysomd and aggregator: each one's times against the
engine's truth file; objectives that are missed because of a step that was made slow, and because of a full queue; a
prefill and a decode instance; what sysom requests, the API, the metrics and the incident say."""
# long: four engines, one after the other
import json
import os
import re
import subprocess
import sys
import tempfile
import time

if "SYSOM_TEST_REAPED" not in os.environ:
    os.execvp("python3", ["python3", "tests/reap.py", sys.executable, *sys.argv])

import tap  # noqa: E402
from cli_check_trace import get, parse, slices  # noqa: E402
from python_spans import hash_of  # noqa: E402
from serve_stack import B, Stack, wait_for  # noqa: E402

PYTHON = "/usr/bin/python3"
NEAR_MS = 2  # outside of the truth's two times: of one clock
SETTLED_S = 50  # at most: a request is judged 2 s after its end, and the next beat has it


class Serving(Stack):
    pages = [], []

    def node(self, query=""):
        return self.get("NODE", f"requests{query}")

    def job(self, job):
        found = self.get("SYSOM_URL", f"requests?job={job}")["requests"]
        return found[0] if found else {"violations": []}

    def series(self, where, job):
        """Lines of the job's metrics, but for its incidents'."""
        return [line for line in self.text(where, "/metrics").splitlines()
                if f'job_name="{job}@' in line and not line.startswith("sysom_incident_")]

    def incidents(self, job):
        return [i for i in self.get("SYSOM_URL", f"incidents?job={job}")["incidents"]
                if i["kind"] == "requests"]

    def serve(self, work, job, *options):
        """The engine's exit status and its truth: requests by hash, steps by engine. self.pages: of metrics, as it ran."""
        truth = f"{work}/{job}.jsonl"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "PYTHON", "LD_PRELOAD"))}
        env = dict(env, **self.env, SIM_LIB=f"{B}/lib/sim", LC_ALL="C.UTF-8")
        with subprocess.Popen([f"{B}/bin/sysom", "run", "--job", job, "--", PYTHON, "sim/serve_sim.py", "--truth", truth,
                               *options], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
            while p.poll() is None:
                pages = [self.series(where, job) for where in ("NODE", "SYSOM_URL")]
                self.pages = pages if all(pages) else self.pages
                time.sleep(1)
        requests, steps = {}, []
        with open(truth, encoding="ascii") as f:
            for line in f:
                row = json.loads(line)
                if "request" in row:
                    requests[f"{hash_of(row['request']):016x}"] = row
                elif "step" in row:
                    steps.append(row)
        return p.returncode, requests, steps


def truth_ms(row):
    """Least and most of the time to the first token, and per token after it."""
    tokens = row["tokens"] - 1
    ttft = row["first_token_after_ns"] - row["arrival_before_ns"], row["first_token_ns"] - row["arrival_ns"]
    tpot = row["end_after_ns"] - row["first_token_ns"], row["end_ns"] - row["first_token_after_ns"]
    return [t / 1e6 for t in ttft], [t / 1e6 / tokens for t in tpot] if tokens else None


def off_ms(value, bounds):
    """How far outside; inside: at most 0."""
    return max(bounds[0] - value, value - bounds[1])


def ended(stack, job, count):
    def all_ended():
        return [j for j in stack.node()["jobs"] if j["job"].startswith(job + "@") and j["ended"] == count]
    return wait_for(SETTLED_S, all_ended)


def compare(stack, job, truth):
    """Each request's figures with the truth's; the most that one is outside."""
    worst, wrong = [0.0, 0.0], []
    for request, row in truth.items():
        found = stack.node(f"?id={request}&job={job}")["requests"]
        if len(found) != 1:
            wrong.append((request, len(found)))
            continue
        got, want = found[0], truth_ms(row)
        for i, key in enumerate(("ttft_ms", "tpot_ms")):
            if (got[key] is None) != (want[i] is None):
                wrong.append((request, key, got[key], want[i]))
            elif want[i] is not None:
                worst[i] = max(worst[i], off_ms(got[key], want[i]))
            parts = got[key.replace("_ms", "_parts_ms")]
            if abs(sum(parts.values()) - (got[key] or 0)) > 0.001 or "none" in parts:
                wrong.append((request, key, got[key], parts))
        if got["output_tokens"] != row["tokens"] or got["prompt_tokens"] != row["prompt_tokens"]:
            wrong.append((request, got["prompt_tokens"], got["output_tokens"], row["prompt_tokens"], row["tokens"]))
    tap.ok(not wrong and len(truth) >= 5, f"{job}: each request is known, with its tokens, and its phases add up to its times", wrong)
    tap.ok(max(worst) < NEAR_MS, f"{job}: time to first token and per token are those of the truth", worst)
    print(f"# {job}: {len(truth)} requests; at most {worst[0]:.1f} ms and {worst[1]:.2f} ms off")


def check_plain(stack, work):
    status, truth, steps = stack.serve(work, "plain", "--seconds", "12", "--requests-per-second", "1.5")
    tap.ok(status == 0 and bool(ended(stack, "plain", len(truth))), "plain: every request ends", (status, stack.node()["jobs"]))
    compare(stack, "plain", truth)
    request, row = max(truth.items(), key=lambda r: r[1]["tokens"])
    got = stack.node(f"?id={request}&job=plain")["requests"][0]
    mine = [s for s in steps if row["request"] in s["requests"]]
    tap.ok(got["prefill_steps"] + got["decode_steps"] == len(mine), "plain: a request's steps are those of the truth",
           (got, len(mine)))
    shown = stack.sysom("requests", row["request"])
    tap.ok(shown.returncode == 0 and request in shown.stdout and "time to first token" in shown.stdout and
           "longest" in shown.stdout, "plain: sysom requests ID shows its phases", shown.stdout + shown.stderr)
    tap.ok(stack.sysom("requests", row["request"] + "-01abCDef").stdout == shown.stdout, "plain: and so with the engine's id of it")
    tap.ok([j["arrived"] for j in stack.node()["jobs"]] == [len(truth)], "plain: a request is one under both ids", stack.node()["jobs"])
    job = wait_for(SETTLED_S, lambda: (lambda j: j if j.get("ended") == len(truth) else None)(stack.job("plain")))
    tap.ok(bool(job) and job["ttft"]["requests"] == len(truth) and job["ttft"]["p99_ms"] >= job["ttft"]["median_ms"] > 0,
           "plain: the aggregator has their number and times", stack.job("plain"))


def check_timeline(path, requests):
    """One clock for the tracks of requests, the engine's spans and the kernels: in the slow step they lie together."""
    with open(path, "rb") as f:
        text = subprocess.run(["protoc", "-I", "cli", "--decode=perfetto.protos.Trace", "cli/perfetto.proto"], stdin=f,
                              capture_output=True, text=True, check=True).stdout
    packets = [v for k, v in parse(iter(text.splitlines())) if k == "packet"]
    clocks = {v for p in packets for k, v in p + (get(p, "trace_packet_defaults") or []) if k == "timestamp_clock_id"}
    tap.ok(len(clocks) == 1, "slow step: all of the trace has one clock", clocks)
    found = slices(packets)
    process, track, _, begin, end = max((s for s in found if s[2] == "ModelRunner::Step"), key=lambda s: s[4] - s[3])
    inside = [s for s in found if s[0] == process and begin <= s[3] and s[4] <= end]
    forward = [s for s in inside if s[1:3] == (track, "ModelRunner::Forward")]
    kernels = [s for s in inside if s[1].startswith("GPU ") and s[2].startswith("gemm_")]
    tap.ok((end - begin) / 1e6 > 1400 and len(forward) == 1, "slow step: the trace has its span, and the forward in it",
           (begin, end, forward))
    tap.ok(forward and len(kernels) > 1 and all(s[3] >= forward[0][3] for s in kernels), "slow step: its kernels run within, after "
           "the forward began", (forward, kernels[:3]))
    over = {s[1] for s in found if s[1].startswith("request ") and s[3] < end and s[4] > begin}
    tap.ok(len(requests) > 0 and requests <= over, "slow step: each of its requests is a track with a slice at that time",
           (requests, over))


def check_step_incident(stack, work, request_incident):
    """The rank that was slow in that step has an incident of its own: show, report and the page name it."""
    step = wait_for(SETTLED_S, lambda: stack.get("SYSOM_URL", f"incidents/{request_incident}")["step_incident"])
    tap.ok(bool(step), "slow step: the requests' incident names that of the step", stack.get("SYSOM_URL", "incidents?job=slow"))
    if not step:
        return
    other = stack.get("SYSOM_URL", f"incidents/{step['id']}")
    tap.ok(other["kind"] != "requests" and other["ranks"], "slow step: which blames a rank", other)
    stack.sysom("report", request_incident, "-o", f"{work}/slow.html")
    with open(f"{work}/slow.html", encoding="utf-8") as f:
        pages = [stack.sysom("show", request_incident).stdout, f.read(), stack.text("SYSOM_URL", f"/incidents/{request_incident}")]
    tap.ok(all(f"incident {step['id']}: {step['title']}" in " ".join(page.split()) for page in pages), "slow step: so do show, report and page", pages[0])
    print("\n".join("# " + line for line in pages[0].splitlines() if "see also" in line))
    late = re.findall(r"([0-9a-f]{16}) missed ttft", pages[0])
    tap.ok(late and all(f"<td class=\"t\">{r}</td>" in pages[1] for r in late), "slow step: the report lists the late requests", late)
    back = stack.sysom("show", step["id"]).stdout
    tap.ok(" missed ttft of " in back and "(incident " in back, "slow step: the rank's incident names the requests' in turn", back)


def check_slow_step(stack, work):
    """One step takes 1.5 s more; the objective is 1 s."""
    status, truth, steps = stack.serve(work, "slow", "--seconds", "32", "--requests-per-second", "1.5",
                                       "--fault", "spike:start=25:every=100:size=1500")
    tap.ok(status == 0 and bool(ended(stack, "slow", len(truth))), "slow step: every request ends", status)
    compare(stack, "slow", truth)
    late = {r for r, row in truth.items() if truth_ms(row)[0][1] > 1000}
    found = wait_for(SETTLED_S, lambda: [v for v in stack.job("slow")["violations"] if v["objective"] == "ttft"])
    near = {r for r, row in truth.items() if truth_ms(row)[0][0] - NEAR_MS < 1000 < truth_ms(row)[0][1] + NEAR_MS}
    listed = {v["id"] for v in found}
    tap.ok(bool(listed) and listed <= late | near and abs(stack.job("slow")["ttft"]["violated"] - len(late)) <= len(near),
           "slow step: those that took too long are listed", (listed, late, stack.job("slow")["ttft"]))
    slow = max(steps, key=lambda s: s["end_ns"] - s["begin_ns"])
    right = [v for v in found if v["phase"] in ("queue", "prefill")]
    linked = [v["slow_step"]["ms"] if v["slow_step"] else 0 for v in right]
    tap.ok(bool(linked) and sum(ms > 1400 for ms in linked) * 2 > len(linked) and
           (slow["end_ns"] - slow["begin_ns"]) / 1e6 > 1400, "slow step: each is linked to the step that was slow",
           (found, slow["end_ns"] - slow["begin_ns"]))
    tap.ok(bool(linked) and all(v["slow_step"]["span"] for v in right if v["slow_step"]), "slow step: and to the span that fills it", found)
    incidents = wait_for(SETTLED_S, lambda: stack.incidents("slow"))
    causes = {i["diagnosis"]["cause"] for i in incidents}
    tap.ok(bool(incidents) and causes <= {"request-queue", "request-prefill", "request-api", "request-decode"},
           "slow step: an incident of the objective", [(i["diagnosis"], i["symptom"]) for i in incidents])
    tap.ok(len(incidents) < len(listed) or len(listed) < 3, "slow step: equal ones are one incident",
           [(i["findings"], i["id"]) for i in incidents])

    middle_ns = (slow["begin_ns"] + slow["end_ns"]) // 2 + time.time_ns() - time.monotonic_ns()

    def with_windows():
        return [i for i in stack.incidents("slow")
                if any(int(w["begin_unix_ns"]) < middle_ns < int(w["end_unix_ns"])
                       for w in stack.get("SYSOM_URL", f"incidents/{i['id']}")["windows"])]
    traced = wait_for(2 * SETTLED_S, with_windows)
    tap.ok(bool(traced), "slow step: the incident has the windows of that time")
    stack.sysom("trace", traced[0]["id"], "-o", f"{work}/slow.pftrace")
    check_timeline(f"{work}/slow.pftrace", {f"request {hash_of(r):016x}" for r in slow["requests"]})
    shown = stack.sysom("requests", "slow", "--once")
    tap.ok(shown.returncode == 0 and all(i["id"] in shown.stdout for i in incidents[:1]) and sorted(late)[0] in shown.stdout,
           "slow step: sysom requests JOB names request and incident", shown.stdout)
    check_step_incident(stack, work, traced[0]["id"])
    text = stack.sysom("show", incidents[0]["id"]).stdout
    tap.ok("objective" in text and "longest step" in text and any(f"{r} missed ttft of " in text for r in late) and "objective requests.ttft of " in " ".join(text.split()),
           "slow step: sysom show says what took the time, and what the objective is", text)


def check_queue(stack, work):
    """A burst for which the cache has no room: requests wait."""
    status, truth, _ = stack.serve(work, "queue", "--seconds", "6", "--requests-per-second", "5", "--blocks", "160")
    tap.ok(status == 0 and bool(ended(stack, "queue", len(truth))), "queue: every request ends", status)
    compare(stack, "queue", truth)
    found = wait_for(SETTLED_S, lambda: [v for v in stack.job("queue")["violations"] if v["objective"] == "ttft"])
    phases = [v["phase"] for v in found]
    tap.ok(phases.count("queue") * 2 > len(phases), "queue: most of the late ones waited for the engine", phases)
    longer = [v for job in ("slow", "queue") for v in stack.job(job)["violations"] if v["phase_ms"] > v["ms"]]
    tap.ok(not longer, "no phase is longer than the whole", longer)
    node, cluster = stack.pages
    tap.ok(any('objective="ttft",quantile="0.99"' in line for line in cluster) and
           any(line.startswith("sysom_job_request_violations_total{") for line in cluster) and
           any(line.startswith("sysom_requests_total{") for line in node), "queue: metrics", (node, cluster))
    tap.ok(wait_for(SETTLED_S, lambda: not stack.series("NODE", "queue") + stack.series("SYSOM_URL", "queue")),
           "queue: a job that is over has no series",
           (stack.series("NODE", "queue"), stack.series("SYSOM_URL", "queue")))


def check_split(stack, work):
    status, truth, _ = stack.serve(work, "split", "--split", "--workers", "1", "--seconds", "8", "--requests-per-second", "1")
    jobs = wait_for(SETTLED_S, lambda: [j for j in stack.node()["jobs"] if j["job"].startswith("split@") and
                                        j["ended"] == len(truth)])
    tap.ok(status == 0 and bool(jobs) and jobs[0]["arrived"] == len(truth),
           "split: a request in a prefill and a decode instance is one", (status, len(truth), stack.node()["jobs"]))
    compare(stack, "split", truth)
    found = [stack.node(f"?id={r}&job=split")["requests"][0] for r, row in truth.items() if row["tokens"] > 1]
    tap.ok(found and all(r["transfer_ms"] > 0 for r in found), "split: and the time between the two is known",
           [(r["id"], r["transfer_ms"], r["pause_ms"]) for r in found])


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        stack = Serving(f"{work}/stack", "--requests-ttft 1s --requests-tpot 300ms")
        check_plain(stack, work)
        check_slow_step(stack, work)
        check_queue(stack, work)
        check_split(stack, work)
        stack.stop()
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())

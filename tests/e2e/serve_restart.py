#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A serving engine that restarts a worker of its tensor-parallel group, with a real sysomd and aggregator. A worker is
killed while requests run, and its successor needs so long to load that the group hangs: the engine and its requests go
on, the new process's steps are counted, the accusation of the old one ends, and status and doctor name the restart."""
# needs: root
import collections
import os
import signal
import subprocess
import sys
import tempfile

if "SYSOM_TEST_REAPED" not in os.environ:
    os.execvp("python3", ["python3", "tests/reap.py", sys.executable, *sys.argv])

os.environ["STACK_AGGREGATOR_FLAGS"] = "--detect-hang 3s"
import tap  # noqa: E402
from python_spans import hash_of  # noqa: E402
from serve_requests import NEAR_MS, off_ms, truth_ms  # noqa: E402
from serve_stack import B, PYTHON, Serving, environment, truth_of, wait_for  # noqa: E402

LOAD_S = 8
JOB = "again"


class Job:
    def __init__(self, stack, work):
        self.truth_path = f"{work}/truth.jsonl"
        open(self.truth_path, "w", encoding="ascii").close()
        self.log = open(f"{work}/job.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [f"{B}/bin/sysom", "run", "--job", JOB, "--", PYTHON, "sim/serve_sim.py", "--seconds", "600", "--load",
             str(LOAD_S), "--truth", self.truth_path], env=environment(**stack.env), stdout=self.log, stderr=self.log)

    def steps(self):
        """By rank and process."""
        return collections.Counter((s["rank"], s["pid"]) for s in truth_of(self.truth_path)["worker_step"])

    def worker(self, rank, least=1):
        """The rank's latest process, once it has made so many steps."""
        pids = [pid for (r, pid), n in self.steps().items() if r == rank and n >= least]
        return pids[-1] if pids else 0

    def end(self):
        """Its exit status."""
        os.kill(truth_of(self.truth_path)["job"][0]["pid"], signal.SIGUSR1)
        return self.process.wait(90)


def stalls(stack):
    return [i for i in stack.get("SYSOM_URL", f"incidents?job={JOB}")["incidents"] if i["symptom"] == "stall"]


def alive(stack, rank):
    return [r for r in stack.ranks() if r["rank"] == rank and r["state"] == "attached"]


def check_requests(stack, truth, killed_ns):
    """Each request is one, with the truth's tokens and times, also those that ran when the worker died."""
    wrong, across = [], 0
    for row in truth["request"]:
        request = f"{hash_of(row['request']):016x}"
        found = stack.get("NODE", f"requests?id={request}&job={JOB}")["requests"]
        got = found[0] if len(found) == 1 else {}
        off = [off_ms(got[key], want) for key, want in zip(("ttft_ms", "tpot_ms"), truth_ms(row)) if got and want is not None]
        across += row["arrival_ns"] < killed_ns < row["end_ns"]
        if not got or got["output_tokens"] != row["tokens"] or got["state"] == "lost" or max(off) >= 3 * NEAR_MS:
            wrong.append((request, row["tokens"], got.get("output_tokens"), got.get("state"), off))
    tap.ok(not wrong and across > 1, "requests go on: each is known by the truth's tokens and times", (across, wrong))
    print(f"# {len(truth['request'])} requests, {across} of them across the restart")


def check(stack, work):
    job = Job(stack, work)
    first = wait_for(60, lambda: job.worker(1, 100))
    tap.ok(first and bool(wait_for(10, lambda: [r for r in alive(stack, 1) if r["pid"] == first])), "rank 1 is traced", stack.ranks())
    os.kill(first, signal.SIGKILL)
    killed_ns = truth_of(job.truth_path)["worker_step"][-1]["end_ns"]
    found = wait_for(30, lambda: [i for i in stalls(stack) if i["ranks"] == [1]])
    text = stack.sysom("show", found[0]["id"]).stdout if found else ""
    tap.ok("rank 1: its process has ended" in text, "while the group waits for it, the ended process is accused", text)
    second = wait_for(60, lambda: [p for p in (job.worker(1, 50),) if p not in (0, first)])
    tap.ok(bool(second), "the engine has started a new worker", job.steps())
    again = wait_for(10, lambda: [r for r in alive(stack, 1) if r["pid"] in second])
    tap.ok(len(again) == 1 and (again[0]["restarts"], again[0]["before_pid"]) == (1, first),
           "it has the rank of the one before, which is named", again)
    status, doctor = stack.sysom("status").stdout, stack.sysom("doctor").stdout
    tap.ok(f"started again 1 time; process {first} had ended before" in status, "sysom status says so", status)
    tap.ok(f"1 process replaced one that had ended, for example {second[0]} " in doctor and
           f"rank 1 of {JOB}@0) replaced {first}" in doctor, "and sysom doctor", doctor)
    tap.ok("\nsysom_rank_restarts_total 1\n" in stack.text("NODE", "/metrics"), "and it is counted")
    tap.ok(bool(wait_for(60, lambda: {i["state"] for i in stalls(stack)} == {"closed"})), "the accusation is over",
           [(i["state"], i["ranks"]) for i in stalls(stack)])
    tap.ok(all(r["hang_s"] == 0 for r in stack.ranks()), "no rank hangs any more", stack.ranks())
    status = job.end()
    steps, truth = job.steps(), truth_of(job.truth_path)
    known = {r["pid"]: r["steps"] for r in wait_for(20, lambda: [r for r in stack.ranks() if r["state"] == "gone" and r["rank"] >= 0]) or []}
    # the killed one's latest step may not have been ended; a new process has its spans after 0.1 s
    tap.ok(status == 0 and len(steps) == 3 and all(-1 <= n - known.get(pid, 0) <= 5 for (_, pid), n in steps.items() if pid != first),
           "the engine ends well, and the new worker's steps are counted", (status, steps, known))
    wait_for(30, lambda: [j for j in stack.get("NODE", "requests")["jobs"] if j["ended"] == len(truth["request"])])
    check_requests(stack, truth, killed_ns)


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        stack = Serving(f"{work}/stack", "--beat-period 1s")
        check(stack, work)
        stack.stop()
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A neighbour takes the memory bandwidth, by replay: machines without counters of their memory
controllers cannot see it. A rank's host work gets dearer; the windows that sysomd sent are played again
as a node would have sent them that has the counters, and once more with counters as usual."""
import os
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402

BEGIN_S, STEPS = 40, 160


def slow_job(s, rank):
    """Runs the job until its windows are there; their files and the time of the first slow step."""
    job = f"bandwidth-{rank}"
    s.start_job(s.simjob("--mix", "shard", "--host-work", "pack:ms=16", "--fault",
                         f"host:rank={rank}:start={BEGIN_S}s:steps={STEPS}:size=4"), 4, job)
    s.watch(BEGIN_S + 25)
    s.stack.processes.end(s.job, 20)
    s.job = None
    time.sleep(2)
    files = []
    for i in s.stack.incidents(job):
        for w in s.stack.incident(i["id"])["windows"]:
            files.append(s.stack.path(f"{rank}-{w['id']}"))
            with urllib.request.urlopen(f"{s.stack.url}/api/v1/windows/{w['id']}", timeout=10) as answer, \
                    open(files[-1], "wb") as f:
                f.write(answer.read())
    steps = s.steps()
    begin = s.job_began_ns + BEGIN_S * 1e9
    before = sorted(ms for at, ms in steps if begin - 10e9 < at < begin - 1e9)
    during = sorted(ms for at, ms in steps if begin + 1e9 < at < begin + 8e9)
    usual, now = before[len(before) // 2], during[len(during) // 2]
    s.ok(files and now > usual * scenario.SLOWER,
         f"rank {rank}'s host work is dearer: steps {usual:.0f} -> {now:.0f} ms, {len(files)} windows")
    return files, f"steps {usual:.0f} -> {now:.0f} ms"


def replay(s, job, rank, value, files):
    """Plays the windows as those of another job; its incidents."""
    begin = time.monotonic()
    done = subprocess.run([f"{scenario.BUILD}/parts/window_counters", s.stack.nng, job, str(rank), str(value),
                           "21", *files], stdout=subprocess.PIPE, text=True, check=False)
    s.ok(done.returncode == 0, f"windows as of job {job}: {done.stdout.strip()}")
    time.sleep(1)
    return [s.stack.show(i["id"]) for i in s.stack.incidents(job)], time.monotonic() - begin


def main():
    with scenario.Scenario("case_memory_bandwidth", "a neighbour on the memory bandwidth (replay)", 420) as s:
        s.start_stack()
        for rank in (1, 2) if s.full else (1,):
            files, seen = slow_job(s, rank)
            f = scenario.Fault("148 GB/s by others, usually 21", rank, None,
                               scenario.Want("os-memory-bandwidth", "os", named=["memory_bandwidth|stream"],
                                             remedy="neighbour|NUMA"))
            f.seen = seen
            s.faults.append(f)
            shown, f.seconds = replay(s, f"counters-{rank}", rank, 148, files)
            s.judge_shown(f, shown)
            healthy, _ = replay(s, f"usual-{rank}", rank, 22, files)
            s.ok(healthy and all(i["ranks"] == [rank] and i["diagnosis"]["cause"] != "os-memory-bandwidth"
                              for i in healthy), "with usual counters the bandwidth is not blamed")


main()

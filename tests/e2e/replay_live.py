#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# needs: module:numpy
"""`sysom replay events --live`: a self-made job with a fault in one rank, as one node and as four, and what
it does with bad input. Truth is by construction (tests/bench/bench_diagnosis.py)."""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SYSOM = os.path.join(os.environ.get("B", "build/gcc"), "bin/sysom")
HEADER = "ts_ns,dur_ns,kind,device,stream,corr,bytes,name\n"
number = 0

sys.path.insert(0, os.path.join(HERE, "../bench"))
import bench_diagnosis as bench  # noqa: E402


def check(good, text, why=""):
    global number
    number += 1
    print(f"{'ok' if good else 'not ok'} {number} - {text}")
    if not good:
        print(f"# {str(why)[:2000]}")


def replay(*args, data=None, timeout=120):
    p = subprocess.run([SYSOM, "replay", "events", *args], input=data, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, check=False, timeout=timeout)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def lines_of(out, kind):
    return [x for x in map(json.loads, out.splitlines()) if x["type"] == kind]


def made(seed, steps, faults):
    b = bench.Bench(argparse.Namespace(seed=seed, data="/nonexistent", verbose=False))
    t = bench.synthetic(b.rng)
    t.ranks = t.ranks[:1]
    t.replicated(4, b.rng)
    for rank in t.ranks:  # of 5 ms; ten times that, so that a run is long enough to learn from
        for key in ("start", "dur", "delay"):
            rank[key] = rank[key] * 10
        rank["length"] *= 10
    t.finish()
    case = b.make(t, steps, 1, faults, api=True)
    case["keep"] = b.dir
    return case


def slow_rank():
    faults = [bench.Fault("stretch", [2], 200, 339, 1.3)]
    case = made(3, 400, faults)
    guilty = case["names"][2]
    begin = case["zero"] + case["ends"][199]
    for nodes, where in (("--live", "of one node"), ("--live=1", "of four nodes, whose clocks stand apart")):
        rc, out, err = replay("--json", nodes, *case["paths"])
        incidents = lines_of(out, "incident") if not rc else []
        reported = lines_of(out, "reported") if not rc else []
        check(len(incidents) == 1 and incidents[0]["ranks"] == [guilty],
              f"a slow rank {where} is one incident that names it", err or incidents)
        check(incidents and [d["layer"] for d in incidents[0]["diagnoses"]] == ["gpu"], "and its layer",
              incidents)
        first = [x for x in reported if x["ranks"] == [guilty]]
        check(first and begin < int(first[0]["at_ns"]) < case["zero"] + case["ends"][339] + 30e9,
              "it is reported after the fault began", (begin, reported))
        check(incidents and abs(int(incidents[0]["begin_unix_ns"]) - begin) < 3e9, "the incident begins with the fault",
              (begin, incidents))
        check(len(lines_of(out, "finding")) == len(incidents[0]["diagnoses"]) if incidents else False,
              "a finding for each verdict", out[-2000:])
        live = lines_of(out, "live")
        check(len(live) == 1 and live[0]["steps"] >= 4 * 395 and live[0]["windows"] >= 1,
              "steps and windows are counted", live)
    rc, out, err = replay("--live", *case["paths"])
    check(rc == 0 and f": rank {guilty}, gpu, " in out and "live: " in out, "in words, too", err or out[-1500:])
    one, two = replay("--json", "--live", *case["paths"]), replay("--json", "--live", *case["paths"])
    check(one == two and one[0] == 0, "twice the same", one[2] + two[2])
    check(not one[2], "and nothing on standard error", one[2])


def healthy():
    case = made(4, 400, [])
    for nodes in ("--live", "--live=1"):
        rc, out, err = replay("--json", nodes, *case["paths"])
        check(rc == 0 and not lines_of(out, "incident") and not lines_of(out, "reported"),
              f"a healthy job is left alone ({nodes})", err or lines_of(out, "reported"))


def bad_input():
    for option in ("--live=0", "--live=65", "--live=x"):
        rc, _, err = replay(option, "/nonexistent")
        check(rc == 2 and "a whole number from 1 to 64" in err, f"{option} is refused", err)
    rc, _, err = replay("--live", "--before", "/dev/null", "/dev/null")
    check(rc == 2 and "use --live or --before, not both" in err, "--live with an earlier run is refused", err)
    rc, _, err = replay("--json", "--live", "-", "-", data=HEADER.encode())
    check(rc == 0, "traces without rows are read", err)
    far = HEADER + "".join(f"{at},{dur},kernel,0,7,{i},,k\n" for i, (at, dur) in enumerate(
        [(0, 1), (1, 9_000_000_000_000_000_000), (5, 0), (10**18, 5), (4 * 10**18, 10**18),
         (9_000_000_000_000_000_000, 1)]))
    far += "".join(f"{at},3,nccl,0,20,{100 + i},,ncclDevKernel_AllReduce_Sum_f32\n"
                   for i, at in enumerate((1, 10**12, 10**17, 8 * 10**18)))
    rc, out, err = replay("--json", "--live", "-", data=far.encode())
    check(rc in (0, 2), "a trace of centuries comes to its end", (rc, err))


slow_rank()
healthy()
bad_input()
print(f"1..{number}")

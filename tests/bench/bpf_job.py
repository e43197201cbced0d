#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sysomd and its BPF programs cost a job: one job on the simulated node, sysomd beside it with another
set of parts in each slice, in random order. A step's time is what the job's own log says.

    bpf_job.py [--build DIR] [--slices N] [--seconds S] [--seed N] [-- SIMJOB ARGUMENTS...]

Prints per set the median over its slices of the slice's median (and 90th percentile) step, and the median
difference to the slices without any sysomd, with a bootstrap interval of 95%.
"""
import argparse
import glob
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SETS = [("no sysomd", None), ("no sysomd, again", None),
        ("sysomd without BPF", ["--sampler-mode", "off", "--os-bpf", "false"]),
        ("and stacks (99 Hz, 10%, blocked time)", ["--os-bpf", "false"]),
        ("and OS signals by BPF", ["--sampler-mode", "off"]),
        ("all of it (default)", [])]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("SYSOM_DATA", os.path.join(ROOT, "../shared/data"))
SETTLE_S = 6.0  # programs are loaded, ranks attached


def steps_of(path):
    """(end, seconds) of every step of every rank."""
    got = []
    with open(path, encoding="ascii") as f:
        for line in f:
            try:
                r = json.loads(line)
            except ValueError:
                continue
            if "step" in r and "end_ns" in r:
                got.append((r["end_ns"], (r["end_ns"] - r["begin_ns"]) / 1e6))
    return got


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def bootstrap(values, base, rng):
    """95% of the median difference."""
    d = sorted(statistics.median(rng.choices(values, k=len(values))) -
               statistics.median(rng.choices(base, k=len(base))) for _ in range(4000))
    return d[100], d[-101]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build/gcc")
    p.add_argument("--slices", type=int, default=4, help="of each set")
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("job", nargs="*", default=[],
                   help="of simjob; default: the DLRM trace at a third of its pace, else the mix")
    o = p.parse_args()
    rng, b = random.Random(o.seed), o.build + "/bin/"
    traces = sorted(glob.glob(DATA + "/dlrm-8rank-v100/rank*.events.csv.gz"))
    job_args = o.job or ["--ranks", "8", *(["--stretch", "3", "--trace", *traces] if traces else [])]
    order = [k for k in range(len(SETS)) for _ in range(o.slices)]
    rng.shuffle(order)
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ, SYSOM_SOCKET_PATH=d + "/sock", SYSOM_CONTROL_PATH=d + "/control")
        truth, log = d + "/truth.jsonl", open(d + "/log", "w", encoding="utf-8")
        total = int(len(order) * (o.seconds + SETTLE_S) + 60)
        job = subprocess.Popen([b + "sysom", "run", "--", b + "simjob", "--seconds", str(total),
                                "--truth", truth, *job_args], env=env, stdout=log, stderr=log,
                               start_new_session=True)
        time.sleep(3)
        slices = []
        try:
            for n, k in enumerate(order):
                daemon = None
                if SETS[k][1] is not None:
                    daemon = subprocess.Popen(
                        [b + "sysomd", "--state-dir", d + f"/state{n}", "--http-listen", "",
                         "--socket-path", d + "/sock", "--control-path", d + "/control",
                         "--uplink-url", "", *SETS[k][1]], env=env, stdout=log, stderr=log)
                time.sleep(SETTLE_S)
                begin = time.monotonic_ns()
                time.sleep(o.seconds)
                slices.append((k, begin, time.monotonic_ns()))
                if job.poll() is not None or (daemon and daemon.poll() is not None):
                    log.flush()
                    with open(d + "/log", encoding="utf-8") as f:
                        sys.exit("bpf_job.py: the job or sysomd ended\n" + f.read()[-2000:])
                if daemon:
                    daemon.terminate()
                    daemon.wait(20)
                print(f"\r{n + 1} of {len(order)} slices", end="", file=sys.stderr, flush=True)
        finally:
            os.killpg(job.pid, signal.SIGTERM)
            job.wait(20)
            print(file=sys.stderr)
        steps = steps_of(truth)
    medians, tails = [[] for _ in SETS], [[] for _ in SETS]
    for k, begin, end in slices:
        ms = [t for at, t in steps if begin <= at < end]
        if len(ms) < 10:
            sys.exit("bpf_job.py: a slice of fewer than 10 steps; longer --seconds")
        medians[k].append(statistics.median(ms))
        tails[k].append(quantile(ms, 0.9))
    base = medians[0]
    for k, (name, _) in enumerate(SETS):
        low, high = bootstrap(medians[k], base, rng)
        m = statistics.median(medians[k])
        at = statistics.median(base)
        print(f"{name:40} {m:7.2f} [{statistics.median(tails[k]):7.2f}] ms   "
              f"{100 * (m / at - 1):+5.2f}% ({100 * low / at:+.2f} to {100 * high / at:+.2f})")


main()

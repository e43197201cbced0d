#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Faults put into real traces, and what `sysom replay events` says of them.

A step of a real job is repeated as a small simulation, so that a fault does what it would do: each
rank runs on its own between collectives, enters each when it gets there, and all leave it together,
the transfer after the last one has entered. Every stretch between collectives is longer or shorter by
a residual drawn from a production job's operations (once or three times as large), so no two steps are
alike. A longer kernel delays what the rank does later, and through the next collective everybody.

Truth is by construction; the tool's step numbers must be those made, within one. usage: bench_diagnosis.py [--quick] [--skewed] [--live] [--seed N]
[--only TEXT]"""
import argparse
import csv
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import live_jobs
import reliability
import skewed_jobs

HEADER = "ts_ns,dur_ns,kind,device,stream,corr,bytes,name\n"
STEP_GAP_NS = 50_000
DEVICE_KINDS = ("kernel", "nccl", "memcpy", "memset")


class Template:
    """One step of every rank: device events by start, relative to the rank's begin of the step."""

    def __init__(self, name):
        self.name = name
        self.ranks = []

    def add(self, rows, begin, end):
        """rows: (start, dur, kind, stream, name, launch or None), in ns."""
        rows = sorted(r for r in rows if begin <= r[0] < end)
        rank = {
            "start": np.array([r[0] - begin for r in rows], dtype=float),
            "dur": np.array([r[1] for r in rows], dtype=float),
            "kind": [r[2] for r in rows], "stream": [r[3] for r in rows],
            "name": ['"%s"' % r[4].replace('"', "'") for r in rows],
            "delay": np.array([max(r[0] - (begin if r[5] is None else r[5]), 500) for r in rows],
                              dtype=float),
        }
        rank["compute"] = np.array([k == "kernel" for k in rank["kind"]])
        rank["coll"] = [i for i, k in enumerate(rank["kind"]) if k == "nccl"]
        rank["length"] = max(r[0] + r[1] for r in rows) - begin + STEP_GAP_NS
        # whether the rank computes while it is in a collective: then nothing waits for its end
        rank["blocking"] = []
        for c in rank["coll"]:
            b, e = rank["start"][c], rank["start"][c] + rank["dur"][c]
            inside = np.clip(np.minimum(rank["start"] + rank["dur"], e) - np.maximum(rank["start"], b), 0,
                             None)
            inside[rank["coll"]] = 0
            rank["blocking"].append(inside.sum() < 0.5 * (e - b))
        self.ranks.append(rank)

    def finish(self):
        colls = min(len(r["coll"]) for r in self.ranks)
        assert all(len(r["coll"]) == colls for r in self.ranks) and colls
        self.transfer = [min(r["dur"][r["coll"][c]] for r in self.ranks) for c in range(colls)]
        return self

    def layer_of(self, what):
        """Where most of the time is that a fault adds: a stretch lengthens kernels and what lies between them."""
        if what != "stretch":
            return LAYER.get(what)
        r, busy, end = self.ranks[0], 0.0, 0.0
        for i in np.flatnonzero(r["compute"]):
            begin = max(r["start"][i], end)
            end = max(end, r["start"][i] + r["dur"][i])
            busy += max(end - begin, 0)
        return "gpu" if busy > (r["length"] - r["dur"][r["coll"]].sum()) / 2 else "cpu"

    def replicated(self, count, rng):
        """The first rank's step on so many, none quite like another."""
        one = self.ranks[0]
        self.ranks = []
        for _ in range(count):
            r = dict(one)
            r["dur"] = one["dur"] * np.where(one["compute"], 1 + 0.01 * rng.standard_normal(), 1)
            self.ranks.append(r)
        return self.finish()


def read_rows(path):
    with gzip.open(path, "rt") as f:
        rows = list(csv.DictReader(f))
    launch = {}
    for r in rows:
        if r["kind"] == "api" and r["corr"] and ("Launch" in r["name"] or "Mem" in r["name"]):
            launch.setdefault(r["corr"], int(r["ts_ns"]))
    device = [(int(r["ts_ns"]), int(r["dur_ns"]), r["kind"], r["stream"] or "7", r["name"],
               launch.get(r["corr"])) for r in rows if r["kind"] in DEVICE_KINDS]
    marks = sorted((int(r["ts_ns"]), int(r["ts_ns"]) + int(r["dur_ns"])) for r in rows
                   if r["kind"] == "step")
    return device, marks


def dlrm(data):
    t = Template("dlrm-8rank")
    for rank in range(8):
        device, marks = read_rows(f"{data}/dlrm-8rank-v100/rank{rank}.events.csv.gz")
        begin = marks[0][0]
        launched = [d for d in device if d[0] >= begin]
        t.add(launched, begin, max(d[0] + d[1] for d in launched) + 1)
    return t.finish()


def one_step(data, path, name, ranks, rng):
    """A step of a single-rank trace between two marks, an all-reduce added, on several ranks."""
    device, marks = read_rows(f"{data}/{path}")
    starts = sorted({m[0] for m in marks})
    middle = len(starts) // 2
    # kernels run behind the host: cut where the launches of a step begin and end
    mine = [d for d in device if d[5] is not None and starts[middle - 1] <= d[5] < starts[middle]]
    begin = min(d[0] for d in mine) - 1000
    end = max(d[0] + d[1] for d in mine)
    if not any(d[2] == "nccl" for d in mine):
        mine.append((end + 5000, 800_000, "nccl", "20",
                     "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", end - 5000))
        mine.append((end + 900_000, 30_000, "kernel", "7", "multi_tensor_apply_kernel<Adam>", end))
    t = Template(name)
    t.add(mine, begin, end + 2_000_000)
    return t.replicated(ranks, rng)


def synthetic(rng, ranks=4):
    t = Template("synthetic")
    for r in range(ranks):
        rows, at = [], 100_000
        for k in range(48):
            at += 20_000 + 5_000 * (k % 3)
            dur = 60_000 + 7_000 * (k % 5) + 3_000 * r
            rows.append((at, dur, "kernel", "7", f"void k{k}<float, {k % 12}>(T*)", at - 15_000))
            at += dur
            if k in (23, 47):
                rows.append((at + 4_000, 300_000, "nccl", "20",
                             "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", at - 9_000))
                at += 320_000
        rows.append((at, 40_000, "kernel", "7", "multi_tensor_apply_kernel<Adam>", at - 15_000))
        t.add(rows, 0, at + 100_000)
    return t.finish()


def residuals(data):
    """Of compute operations against the median of their kind, stage and worker."""
    path = f"{data}/straggler-bytedance/trace-ST.csv.gz"
    if not os.path.exists(path):
        return np.random.default_rng(1).normal(0, 0.02, 2000)
    groups = {}
    with gzip.open(path, "rt") as f:
        for r in csv.DictReader(f):
            if r["optype"].endswith("compute"):
                groups.setdefault((r["optype"], r["stage"], r["dp_rank"]), []).append(
                    float(r["duration"]))
    return np.concatenate([np.array(v) / np.median(v) - 1 for v in groups.values()])


class Fault:
    """what: stretch (all a rank does), kernels, one (kernel name), gaps, transfer, more (kernels)."""

    def __init__(self, what, ranks, first, last, factor):
        self.what, self.ranks, self.first, self.last, self.factor = what, ranks, first, last, factor
        self.layer = None  # the template's

    def hits(self, rank, step):
        return rank in self.ranks and self.first <= step <= self.last


LAYER = {"kernels": "gpu", "one": "gpu", "gaps": "cpu", "transfer": "network"}


def heaviest_name(rank):
    totals = {}
    for n, d, c in zip(rank["name"], rank["dur"], rank["compute"]):
        if c:
            totals[n] = totals.get(n, 0) + d
    return max(totals, key=totals.get)


def segment(rank, first, last, grow, fault, rng):
    """Durations, and the extra delay in front of each, of events [first, last) of a rank's step."""
    dur = rank["dur"][first:last] * grow
    compute = rank["compute"][first:last]
    extra = np.zeros(last - first)
    if fault is None or last == first:
        return dur, extra, grow
    if fault.what == "stretch":
        return dur * np.where(compute, fault.factor, 1), extra, grow * fault.factor
    if fault.what in ("kernels", "one"):
        slow = compute.copy()
        if fault.what == "one":
            name = heaviest_name(rank)
            slow &= np.array([n == name for n in rank["name"][first:last]], dtype=bool)
        more = np.where(slow, dur * (fault.factor - 1), 0)
        extra[1:] = more[:-1]
        return dur + more, extra, grow
    if fault.what == "gaps":
        # before every tenth launch, together so much of the step's length
        at = np.arange(first, last) % 10 == 3
        extra[at] = (fault.factor - 1) * rank["length"] / max(1, np.sum(
            np.arange(len(rank["dur"])) % 10 == 3)) * rng.uniform(0.7, 1.3, int(at.sum()))
    return dur, extra, grow


def simulate(t, steps, pool, scale, faults, rng):
    """Per rank the start and duration of each of its events in every step, on one true clock, and which of them
    the host launches late; the ends of steps on rank 0."""
    ranks = len(t.ranks)
    at = rng.uniform(0, 200_000, ranks)
    out = [[] for _ in range(ranks)]
    ends = []
    for step in range(steps):
        starts = [np.zeros(len(r["dur"])) for r in t.ranks]
        durs = [np.zeros(len(r["dur"])) for r in t.ranks]
        late = [np.zeros(len(r["dur"]), dtype=bool) for r in t.ranks]
        cursor = at.copy()  # true time of the rank's latest anchor
        origin = np.zeros(ranks)  # the same on the template's clock
        inside = [None] * ranks  # the collective before: true and template's time of its begin
        index = [0] * ranks
        hit = [next((f for f in faults if f.hits(r, step)), None) for r in range(ranks)]
        slow_net = next((f.factor for f in faults if f.what == "transfer" and f.first <= step <= f.last),
                        1)
        for c in range(len(t.transfer) + 1):
            enter = np.zeros(ranks)
            for r, x in enumerate(t.ranks):
                coll = x["coll"][c] if c < len(t.transfer) else len(x["dur"])
                first, last = index[r], coll
                grow = max(0.3, 1 + scale * pool[rng.integers(len(pool))])
                dur, extra, speed = segment(x, first, last, grow, hit[r], rng)
                shift = np.cumsum(extra)
                starts[r][first:last] = cursor[r] + (x["start"][first:last] - origin[r]) * speed + shift
                if inside[r]:  # what runs beside it goes on from its begin, however long it takes
                    early = first + np.flatnonzero(x["start"][first:last] < origin[r])
                    starts[r][early] = inside[r][0] + (x["start"][early] - inside[r][1]) * speed
                durs[r][first:last] = dur
                late[r][first:last] = (extra > 0) & (hit[r] is not None and hit[r].what == "gaps")
                total = shift[-1] if last > first else 0
                # the growth of the last kernel still lies before what follows
                if last > first and hit[r] and hit[r].what in ("kernels", "one"):
                    total += dur[-1] - x["dur"][last - 1] * grow
                target = x["start"][coll] if c < len(t.transfer) else x["length"]
                enter[r] = cursor[r] + max(target - origin[r], 0) * speed + total
                index[r] = coll + 1
            if c == len(t.transfer):
                at = enter
                break
            grow = max(0.3, 1 + scale * pool[rng.integers(len(pool))])
            end = enter.max() + t.transfer[c] * grow * slow_net
            for r, x in enumerate(t.ranks):
                coll = x["coll"][c]
                mine = end + rng.uniform(-3000, 3000)
                starts[r][coll], durs[r][coll] = enter[r], max(mine - enter[r], 1000)
                if x["blocking"][c]:
                    cursor[r], origin[r] = mine, x["start"][coll] + x["dur"][coll]
                    inside[r] = (enter[r], x["start"][coll])
                else:
                    cursor[r], origin[r], inside[r] = enter[r], x["start"][coll], None
        for r in range(ranks):
            out[r].append((starts[r], durs[r], late[r]))
        ends.append(float(at[0]))
    return out, ends


def launch_times(begins, late, x):
    """As long before as in the template, but in the order of the program, whatever its streams make of it. What the
    host launches late the device has waited for."""
    delay = x["delay"].astype(np.int64)
    latest = begins - np.minimum(delay, 4000)
    wanted = np.where(late, latest, begins - delay)
    order = np.argsort((np.arange(len(begins))[:, None] * x["length"] + x["start"] - delay).ravel(),
                       kind="stable")
    launches = np.empty(begins.size, dtype=np.int64)
    count = np.arange(begins.size)
    ordered = np.minimum(np.maximum.accumulate(wanted.ravel()[order]),
                         np.minimum.accumulate(latest.ravel()[order][::-1])[::-1])
    launches[order] = np.maximum.accumulate(ordered - count) + count  # no two at once
    return launches.reshape(begins.shape)


def write_rank(path, x, events, clock, device, api, skip=0, thin=0):
    offset, drift, zero = clock
    lines = [HEADER]
    corr = 1
    begins = [zero + np.rint(starts + offset + drift * starts).astype(np.int64) for starts, *_ in events[skip:]]
    launches = launch_times(np.array(begins), np.array([late for *_, late in events[skip:]]), x)
    for begin, launch, (_, durs, _) in zip(begins, launches, events[skip:]):
        dur = np.maximum(np.rint(durs * (1 + drift)), 1).astype(np.int64)
        for i, kind in enumerate(x["kind"]):
            if thin and kind != "nccl" and i % thin:
                continue
            if api:
                call = "cudaMemcpyAsync" if kind in ("memcpy", "memset") else "cudaLaunchKernel"
                lines.append(f"{launch[i]},4000,api,,,{corr},,{call}\n")
            lines.append(f"{begin[i]},{dur[i]},{kind},{device},{x['stream'][i]},{corr},,{x['name'][i]}\n")
            corr += 1
    with open(path, "w") as f:
        f.writelines(lines)


class Bench:
    def __init__(self, args):
        self.args = args
        self.rng = np.random.default_rng(args.seed)
        self.pool = residuals(args.data)
        self.dir = tempfile.TemporaryDirectory()
        self.failures = []
        self.began = time.time()

    def progress(self, text):
        if sys.stderr.isatty() or self.args.verbose:
            sys.stderr.write(f"\r[{time.time() - self.began:5.0f} s] {text:<60}")
            sys.stderr.flush()

    def replay(self, paths, *options):
        p = subprocess.run([self.args.sysom, "replay", "events", "--json", *options, *paths],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if p.returncode:
            sys.exit(f"bench_diagnosis: {p.stderr.decode()}")
        return [json.loads(x) for x in p.stdout.decode().splitlines()]

    def make(self, t, steps, scale, faults, api=True, skew=True, skips=None, thin=0):
        """Files of all ranks; the truth that is needed to score them."""
        rng, n = self.rng, len(t.ranks)
        for f in faults:
            f.layer = t.layer_of(f.what)
        events, ends = simulate(t, steps, self.pool, scale, faults, rng)
        names = list(range(n))
        rng.shuffle(names)  # rank numbers that have nothing to do with the template's
        zero = 1_700_000_000_000_000_000
        clocks = [(rng.uniform(-50e6, 50e6) if skew else 0, rng.uniform(-50e-6, 50e-6) if skew else 0, zero)
                  for _ in range(n)]
        paths = []
        for r in range(n):
            path = f"{self.dir.name}/rank{names[r]}.csv"
            write_rank(path, t.ranks[r], events[r], clocks[r], names[r], api,
                       skips[r] if skips else 0, thin)
            paths.append(path)
        low = names.index(0)
        return {"paths": paths, "names": names, "clocks": clocks, "ends": ends, "low": low,
                "first_true": skips[low] if skips else 0, "zero": zero,
                "span_s": ends[-1] / 1e9, "events": events}


def score(case, lines, faults):
    """found, wrong (findings that accuse what is healthy), right layer, steps to detect, edges."""
    def number(step):
        return step + case["first_true"]

    wrong, found, layers, delays, edges, said = 0, set(), [], [], [], []
    truth = {(case["names"][r], i) for i, f in enumerate(faults) for r in f.ranks}
    for x in (x for x in lines if x["type"] == "finding"):
        first, last = number(x["first_step"]), number(x["last_step"])
        matched, layer = False, True
        for i, f in enumerate(faults):
            names = {case["names"][r] for r in f.ranks}
            if last < f.first - 1 or first > f.last + 1:
                continue
            everyone = len(names) == len(case["names"])
            if everyone != (x["kind"] == "uniform") or not set(x["ranks"]) <= names:
                continue
            matched = True
            found |= {(r, i) for r in x["ranks"]}
            layers.append(x["layer"] == f.layer)
            layer = layers[-1]
            delays.append(number(x.get("sure_step", x["last_step"])) - f.first + 1)
            edges.append(max(abs(first - f.first), abs(last - f.last)))
        wrong += not matched and x["kind"] != "imbalance"
        said.append((x["confidence"], int(matched and layer)))
    return {"found": len(found & truth), "of": len(truth), "wrong": wrong, "layers": layers,
            "delays": delays, "edges": edges, "said": said}


def clock_errors(case, lines):
    """Largest error of a time converted with the tool's clocks, over the trace, in ns."""
    clocks = {c["rank"]: c for c in lines if c["type"] == "clock"}
    worst = 0
    ref = case["clocks"][case["low"]]
    skip = case["first_true"]
    first = case["events"][case["low"]][skip]
    coll = next(i for i, k in enumerate(case["kinds"]) if k == "nccl")
    t0 = float(first[0][coll] + first[1][coll])  # true time of the first common end, about
    for r, name in enumerate(case["names"]):
        off, drift, _ = case["clocks"][r]
        for t in (t0, case["ends"][-1]):
            true = (off + drift * t) - (ref[0] + ref[1] * t)
            got = clocks[name]["offset_ns"] + clocks[name]["drift_ppm"] * 1e-6 * (t - t0) * (1 + ref[1])
            worst = max(worst, abs(true - got))
    return worst


class Tally:
    def __init__(self):
        self.found = self.of = self.wrong = self.runs = 0
        self.layers, self.delays, self.edges, self.said = [], [], [], []
        self.rank_hours = 0.0

    def add(self, s, case):
        self.runs += 1
        self.found += s["found"]
        self.of += s["of"]
        self.wrong += s["wrong"]
        self.layers += s["layers"]
        self.delays += s["delays"]
        self.edges += s["edges"]
        self.said += s["said"]
        self.rank_hours += case["span_s"] * len(case["names"]) / 3600

    def line(self, name):
        share = lambda v: f"{100 * sum(v) / len(v):6.1f}" if v else "     -"
        middle = lambda v: f"{np.median(v):5.0f}" if v else "    -"
        high = lambda v: f"{np.max(v):5.0f}" if v else "    -"
        recall = f"{100 * self.found / self.of:6.1f}" if self.of else "     -"
        return (f"{name:<40}{self.runs:5d}{recall}{share(self.layers)}{middle(self.delays)}"
                f"{high(self.delays)}{middle(self.edges)}{self.wrong:6d}{self.rank_hours:8.3f}")


COLUMNS = (f"{'case':<40}{'runs':>5}{'recall':>6} {'layer':>5}{'steps':>5}{'most':>5}{'edge':>5}"
           f"{'wrong':>6}{'rank-h':>8}")


def fault_cases(b, templates, quick):
    """(name, template, scale, faults maker, steps)"""
    factors = (1.1, 2.0) if quick else (1.05, 1.1, 1.2, 1.5, 2.0)
    kinds = ("stretch", "gaps") if quick else ("stretch", "kernels", "one", "gaps")
    for t in templates:
        for scale in ((1,) if quick else (1, 3)):
            for what in kinds:
                for factor in factors:
                    yield (f"{t.name} {what} x{factor} noise {scale}x", t, scale,
                           lambda n, s, w=what, f=factor: one_rank(b, w, f, n, s))
            for what in ("stretch",) if quick else ("stretch", "gaps", "transfer"):
                factor = 3.0 if what == "transfer" else 1.2
                yield (f"{t.name} every rank {what} x{factor} noise {scale}x", t, scale,
                       lambda n, s, w=what, f=factor: every_rank(b, w, f, n, s))
            if len(t.ranks) >= 8:
                yield (f"{t.name} two ranks stretch x1.2 noise {scale}x", t, scale,
                       lambda n, s: two_ranks(b, n, s))


def one_rank(b, what, factor, ranks, steps):
    length = int(b.rng.integers(10, steps // 2))
    first = int(b.rng.integers(5, steps - length - 4))
    return [Fault(what, [int(b.rng.integers(ranks))], first, first + length - 1, factor)]


def two_ranks(b, ranks, steps):
    f = one_rank(b, "stretch", 1.2, ranks, steps)[0]
    other = (f.ranks[0] + 1 + int(b.rng.integers(ranks - 1))) % ranks
    return [Fault("stretch", [f.ranks[0], other], f.first, f.last, 1.2)]


def every_rank(b, what, factor, ranks, steps):
    f = one_rank(b, what, factor, ranks, steps)[0]
    return [Fault(what, list(range(ranks)), f.first, f.last, factor)]


def run_faults(b, templates, runs, steps):
    print(COLUMNS)
    for name, t, scale, maker in fault_cases(b, templates, b.args.quick):
        if b.args.only not in name:
            continue
        ours, paper = Tally(), Tally()
        for i in range(runs):
            b.progress(f"{name} {i + 1}/{runs}")
            faults = maker(len(t.ranks), steps)
            case = b.make(t, steps, scale, faults, api=bool(i % 2))
            ours.add(score(case, b.replay(case["paths"]), faults), case)
            if i < (1 if b.args.quick else 2):
                paper.add(score(case, b.replay(case["paths"], "--mode", "sysom"), faults), case)
        b.progress("")
        print("\r" + ours.line(name) + f"   sysom {100 * paper.found / max(1, paper.of):4.0f}%"
              f" wrong {paper.wrong}", flush=True)
        yield name, scale, ours


def run_healthy(b, templates, runs, steps, thin):
    for t in templates:
        for scale in (1, 3):
            name = f"{t.name} healthy noise {scale}x"
            if b.args.only not in name:
                continue
            ours = Tally()
            for i in range(runs):
                b.progress(f"{name} {i + 1}/{runs}")
                case = b.make(t, steps, scale, [], api=False, thin=thin)
                ours.add(score(case, b.replay(case["paths"]), []), case)
            b.progress("")
            print("\r" + ours.line(name) + f"   {ours.wrong / max(ours.rank_hours, 1e-9):.2f} per rank-hour",
                  flush=True)
            yield name, scale, ours


def run_clocks(b, t, long_s):
    period = None
    for steps, name in ((1, "one step"), (5, "5 steps"), (60, "60 steps"), (0, f"{long_s} s")):
        if b.args.only not in "clocks " + name:
            continue
        if not steps:
            steps = int(long_s / period)
        worst, runs = 0, 2 if b.args.quick else 3 if steps > 1000 else 10
        for i in range(runs):
            b.progress(f"clocks {name} {i + 1}/{runs}")
            skips = [int(b.rng.integers(0, 3)) if steps >= 60 and i % 2 else 0 for _ in t.ranks]
            case = b.make(t, steps, 1, [], api=False, skips=skips, thin=40)
            period = case["span_s"] / steps
            case["kinds"] = t.ranks[case["low"]]["kind"]
            worst = max(worst, clock_errors(case, b.replay(case["paths"])))
        b.progress("")
        print(f"\rclocks, +-50 ms and +-50 ppm, {name:<10} worst error of a time {worst / 1e3:8.2f} us",
              flush=True)
        yield name, worst


def run_skewed(b):
    skewed_jobs.run(b.args.sysom, HEADER, b.dir.name, b.args.seed, b.args.runs or (2 if b.args.quick else 10),
                    b.args.only)


def run_live(b, templates):
    quick = b.args.quick
    return live_jobs.run(b, templates, simulate, Fault, b.args.runs or (1 if quick else 2), 300 if quick else 600)


def judge(b, rows, healthy, clocks, live):
    """The aims, on what was run: x1.1 and above at the production job's noise."""
    hard = [t for name, scale, t in rows if scale == 1 and "x1.05" not in name]
    found, of = sum(t.found for t in hard), sum(t.of for t in hard)
    wrong = sum(t.wrong for _, _, t in healthy)
    delays = [d for t in hard for d in t.delays]
    say = lambda good, text: (b.failures.append(text) if not good else None,
                              print(f"{'met' if good else 'MISSED':<7}{text}"))
    if of:
        say(found >= 0.99 * of, f"recall and right rank {100 * found / of:.1f}% of {of} at x1.1 and above, "
                                "noise 1x (aim 99%)")
        say(sum(t.wrong for t in hard) == 0, f"{sum(t.wrong for t in hard)} findings that accuse the wrong "
                                             "one beside a fault (aim 0)")
    if delays:
        say(np.quantile(delays, 0.99) <= 10, f"{np.quantile(delays, 0.99):.0f} steps to detect in 99 of 100 "
                                             f"(aim 10), median {np.median(delays):.0f}")
    if healthy:
        hours = sum(t.rank_hours for _, _, t in healthy)
        say(wrong == 0, f"{wrong} flags in {hours:.2f} healthy rank-hours (aim 0)")
    if clocks:
        say(max(w for _, w in clocks) < 20_000, f"clocks within {max(w for _, w in clocks) / 1e3:.1f} us "
                                                "(aim 20)")
    hard, healthy = live
    if hard.of:
        say(hard.found >= 0.99 * hard.of, f"live: right rank {100 * hard.found / hard.of:.1f}% of {hard.of} that cost "
                                          f"{100 * live_jobs.COSTS:.0f}% of a step and more, noise 1x (aim 99%)")
        say(hard.wrong == 0, f"live: {hard.wrong} that accuse the wrong one (aim 0)")
    if healthy.runs:
        say(healthy.wrong == 0, f"live: {healthy.wrong} false incidents in {healthy.rank_hours:.2f} healthy rank-hours "
                             f"(aim 0; {healthy.transients} transients noted, {healthy.long} of them steps drawn long)")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--quick", action="store_true")
    p.add_argument("--synthetic", action="store_true", help="only the self-made job")
    p.add_argument("--skewed", action="store_true", help="only the jobs whose work differs by nature")
    p.add_argument("--live", action="store_true", help="only what the live job would have reported")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--runs", type=int, default=0)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--only", default="")
    p.add_argument("--sysom", default=os.path.join(os.environ.get("B", "build/gcc"), "bin/sysom"))
    p.add_argument("--data", default=os.environ.get("SYSOM_DATA", "../shared/data"))
    args = p.parse_args()
    b = Bench(args)
    if args.skewed:
        run_skewed(b)
        return 0
    print(f"seed {args.seed}; residuals: {len(b.pool)} of {'production operations' if os.path.exists(args.data + '/straggler-bytedance') else 'a normal distribution'}, "
          f"5%..95% {100 * np.quantile(b.pool, 0.05):+.1f}% {100 * np.quantile(b.pool, 0.95):+.1f}%")
    templates = [synthetic(b.rng)]
    real = os.path.isdir(f"{args.data}/dlrm-8rank-v100") and not args.synthetic
    if real:
        templates = [dlrm(args.data)]
        if not args.quick:
            templates.append(one_step(args.data, "kineto-single/hta_v100_1gpu.events.csv.gz", "v100 x4", 4,
                                      b.rng))
    elif not args.synthetic:
        print(f"skipped: the real traces, no {args.data}/dlrm-8rank-v100")
    if args.live:
        run_live(b, templates)
        return 0
    rows = list(run_faults(b, templates, args.runs or (2 if args.quick else 5), args.steps))
    healthy = list(run_healthy(b, templates, args.runs or (1 if args.quick else 6),
                               args.steps * (2 if args.quick else 10), 0 if args.quick else 12))
    clocks = list(run_clocks(b, templates[0], 5 if args.quick else 60))
    live = run_live(b, templates)
    if not args.quick:
        run_skewed(b)
    judge(b, rows, healthy, clocks, live)
    reliability.table([p for _, _, t in rows + healthy for p in t.said],
                      "findings of device traces: how often ranks and layer are right")
    print(f"{time.time() - b.began:.0f} s")
    return 1 if b.failures else 0


if __name__ == "__main__":
    sys.exit(main())

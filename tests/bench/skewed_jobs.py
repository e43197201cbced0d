# SPDX-License-Identifier: Apache-2.0
"""Jobs whose work differs by nature, and what `sysom replay` says of them: an imbalance of the role, and no
rank at fault; and the same with one rank that is slow beside.

Sequence lengths: each replica draws a weight for every step (log-normal, sigma 0.3 and 0.6), which its
pipeline stages share. Experts: each rank draws its own, half of it kept from step to step, since experts stay
popular for a while. Truth is by construction."""
import json
import os
import subprocess
import time

import numpy as np

STEPS = 120
KERNELS = 8
NOISE = 0.02
SLOW_FACTOR = 1.5
SLOW_STEPS = 25
SHAPES = ((4, 1), (8, 1), (4, 2), (2, 4))  # replicas x stages
KEPT = 0.5


class Job:
    """own: seconds of [step, rank, kernel]; rank = stage * replicas + replica."""

    def __init__(self, rng, replicas, stages, what, sigma, slow):
        self.replicas, self.stages, self.ranks = replicas, stages, replicas * stages
        self.slow = int(rng.integers(self.ranks)) if slow else None
        self.first = int(rng.integers(30, STEPS - SLOW_STEPS - 20))
        if what == "sequence":
            weight = np.tile(np.exp(sigma * rng.standard_normal((STEPS, replicas))), (1, stages))
        else:
            state, weight = rng.standard_normal(self.ranks), np.empty((STEPS, self.ranks))
            for t in range(STEPS):
                state = KEPT * state + np.sqrt(1 - KEPT**2) * rng.standard_normal(self.ranks)
                weight[t] = np.exp(sigma * state)
        weight = np.repeat(weight[:, :, None], KERNELS, axis=2)
        self.own = 0.01 * weight * (1 + NOISE * rng.standard_normal(weight.shape))
        if slow:
            self.own[self.first:self.first + SLOW_STEPS, self.slow] *= SLOW_FACTOR

    def ops(self):
        out = ["dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc"]
        together = self.own.sum(axis=2).max(axis=1) + 0.002
        for t in range(STEPS):
            for rank in range(self.ranks):
                stage, replica = divmod(rank, self.replicas)
                head, at = f"{replica},{stage},{rank},{t}", 0.0
                for k, took in enumerate(self.own[t, rank]):
                    kind = "forward-compute" if k < KERNELS // 2 else "backward-compute"
                    out.append(f"{head},{kind},{at:.9f},{took:.9f},0,0,{k},0")
                    at += took
                out.append(f"{head},grads-reduce-scatter,{at:.9f},{together[t] - at:.9f},0,0,-1,-1")
        return "\n".join(out) + "\n"

    def timings(self):
        return "".join(",".join(f"{v:.7f}" for v in row) + "\n" for row in self.own.sum(axis=2))

    def events(self, folder, header):
        ends = np.cumsum((self.own.sum(axis=2).max(axis=1) + 0.002) * 1e9)
        paths = []
        for rank in range(self.ranks):
            rows, begin = [], 0.0
            for t in range(STEPS):
                at = begin + 50_000
                for k, took in enumerate(self.own[t, rank]):
                    rows.append(f"{at:.0f},{took * 1e9:.0f},kernel,0,7,,,layer_{k}_kernel\n")
                    at += took * 1e9 + 2000
                rows.append(f"{at:.0f},{ends[t] - at:.0f},nccl,0,20,,,ncclDevKernel_AllReduce_Sum_f32_RING_LL\n")
                begin = ends[t]
            paths.append(os.path.join(folder, f"rank{rank}.events.csv"))
            with open(paths[-1], "w", encoding="utf-8") as f:
                f.write(header + "".join(rows))
        return paths


def findings(sysom, kind, job, folder, header):
    args, text = (job.events(folder, header), None) if kind == "events" else (
        ["-"], job.ops() if kind == "ops" else job.timings())
    p = subprocess.run([sysom, "replay", kind, "--json", *args], input=text, capture_output=True, text=True,
                       check=True)
    return [x for x in map(json.loads, p.stdout.splitlines()) if x["type"] == "finding"]


def run(sysom, header, folder, seed, runs, only=""):
    began, totals = time.time(), {}
    print(f"\njobs whose work differs by nature, {STEPS} steps, {runs} runs a case, seed {seed}; "
          f"found: a slow rank x{SLOW_FACTOR} for {SLOW_STEPS} steps beside it")
    print(f"{'case':<34}{'runs':>5}{'imbalance':>10}{'accused':>8}{'neither':>8} | {'runs':>5}{'found':>6}"
          f"{'others':>7}{'nobody':>7}{'imbalance':>10}")
    for number, (kind, what, sigma, shape) in enumerate(
            (k, w, s, x) for k in ("ops", "timings", "events") for w in ("sequence", "experts") for s in (0.3, 0.6)
            for x in (SHAPES if k == "ops" else SHAPES[1:2])):
        name = f"{kind} {what} {sigma} {shape[0]} x {shape[1]}"
        if only not in name:
            continue
        even, slow = np.zeros(3, dtype=int), np.zeros(4, dtype=int)
        for i in range(runs):
            rng = np.random.default_rng((seed, number, i))
            said = findings(sysom, kind, Job(rng, *shape, what, sigma, False), folder, header)
            imbalance = any(x["kind"] == "imbalance" for x in said)
            accused = any(x["kind"] == "slow_rank" for x in said)
            even += (imbalance, accused, not imbalance and not accused)
            job = Job(rng, *shape, what, sigma, True)
            said = findings(sysom, kind, job, folder, header)
            named = {r for x in said if x["kind"] == "slow_rank" for r in x["ranks"]}
            slow += (job.slow in named, bool(named - {job.slow}), not named,
                     any(x["kind"] == "imbalance" for x in said))
        total = totals.setdefault((kind, what), np.zeros(6, dtype=int))
        total += (runs, even[0], even[1], slow[0], slow[1], slow[2])
        print(f"{name:<34}{runs:5d}{even[0]:10d}{even[1]:8d}{even[2]:8d} | {runs:5d}{slow[0]:6d}{slow[1]:7d}"
              f"{slow[2]:7d}{slow[3]:10d}", flush=True)
    for (kind, what), (n, imbalance, accused, found, others, nobody) in totals.items():
        print(f"{kind}, {what}: imbalance {100 * imbalance / n:.0f}%, a rank falsely accused {100 * accused / n:.0f}% "
              f"of {n}; beside a slow rank: found {100 * found / n:.0f}%, others named {100 * others / n:.0f}%, "
              f"nobody {100 * nobody / n:.0f}% of {n}")
    print(f"{time.time() - began:.0f} s")

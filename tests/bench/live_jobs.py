# SPDX-License-Identifier: Apache-2.0
"""The same faults in the same real steps, through `sysom replay events --live`: what sysomd and the
aggregator would have told while the job ran (one node, or a node per rank), and when. Longer runs than
those that are looked back on: a live model has to learn first."""
import json
import subprocess

import numpy as np

COLUMNS = (f"{'live case':<44}{'runs':>5}{'rank':>6}{'layer':>6}{'s':>6}{'most':>6}{'wrong':>6}{'rank-h':>8}")
LEARN = 0.6  # of the run, before the fault
KINDS = ("stretch", "kernels", "one", "gaps")


def replay(sysom, case, ranks_per_node):
    p = subprocess.run([sysom, "replay", "events", "--json", f"--live={ranks_per_node}", *case["paths"]],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode:
        raise SystemExit(f"live_jobs: {p.stderr.decode()}")
    return [json.loads(x) for x in p.stdout.decode().splitlines() if not x.startswith('{"type":"step"')]


class Tally:
    def __init__(self):
        self.runs = self.found = self.layer = self.of = self.wrong = 0
        self.seconds, self.rank_hours = [], 0.0

    def add(self, case, lines, faults, layer_of):
        self.runs += 1
        self.rank_hours += case["span_s"] * len(case["names"]) / 3600
        incidents = [x for x in lines if x["type"] == "incident"]
        told = [x for x in lines if x["type"] == "told"]
        everyone = len(case["names"])
        for f in faults:
            names = {case["names"][r] for r in f.ranks}
            want = set() if len(names) == everyone else names
            begin = case["zero"] + case["ends"][f.first - 1]
            hits = [d for x in incidents for d in x["diagnoses"]
                    if set(d["ranks"]) == want or (not want and len(d["ranks"]) == everyone)]
            self.of += 1
            self.found += bool(hits)
            self.layer += any(d["layer"] == layer_of[f.what] for d in hits)
            first = [x["at_ns"] - begin for x in told if set(x["ranks"]) == want]
            if hits and first:
                self.seconds.append(min(first) / 1e9)
        guilty = {case["names"][r] for f in faults for r in f.ranks}
        self.wrong += sum(not set(d["ranks"]) <= guilty or not faults for x in incidents for d in x["diagnoses"]
                          if x["kind"] != "imbalance")

    def line(self, name):
        share = lambda n: f"{100 * n / self.of:6.0f}" if self.of else "     -"
        middle = f"{np.median(self.seconds):6.1f}{np.max(self.seconds):6.1f}" if self.seconds else "     -     -"
        return (f"{name:<44}{self.runs:5d}{share(self.found)}{share(self.layer)}{middle}{self.wrong:6d}"
                f"{self.rank_hours:8.3f}")


def one_rank(fault, what, factor, rank, steps):
    return [fault(what, [rank], int(steps * LEARN), steps - steps // 5, factor)]


def cases(b, templates, fault, quick, steps):
    for t in templates:
        n = len(t.ranks)
        for scale in (1,) if quick else (1, 3):
            for what in KINDS[:1] if quick else KINDS:
                for factor in (1.5,) if quick else (1.1, 1.5):
                    yield (f"{t.name} {what} x{factor} noise {scale}x", t, scale,
                           lambda w=what, f=factor, k=n: one_rank(fault, w, f, int(b.rng.integers(k)), steps))
            for what, factor in (("stretch", 1.2), ("gaps", 1.2), ("transfer", 3.0)):
                if not quick:
                    yield (f"{t.name} every rank {what} x{factor} noise {scale}x", t, scale,
                           lambda w=what, f=factor, k=n: [fault(w, list(range(k)), int(steps * LEARN),
                                                                steps - steps // 5, f)])


def run(b, templates, fault, layer_of, runs, steps):
    quick = b.args.quick
    print(COLUMNS)
    hard, healthy = Tally(), Tally()
    for nodes in (8, 1):
        where = "a node" if nodes > 1 else "nodes"
        for name, t, scale, make in cases(b, templates, fault, quick or nodes == 1, steps):
            if b.args.only not in name:
                continue
            tally = Tally()
            for i in range(runs):
                b.progress(f"live, {where}: {name} {i + 1}/{runs}")
                faults = make()
                case = b.make(t, steps, scale, faults, api=True)
                lines = replay(b.args.sysom, case, nodes)
                tally.add(case, lines, faults, layer_of)
                if scale == 1 and nodes > 1 and len(faults[0].ranks) == 1:
                    hard.add(case, lines, faults, layer_of)
            b.progress("")
            print("\r" + tally.line(f"{name}, {where}"), flush=True)
    for t in templates:
        for scale in (1,) if quick else (1, 3):
            if b.args.only not in f"{t.name} healthy noise {scale}x":
                continue
            tally = Tally()
            for i in range(runs):
                b.progress(f"live: {t.name} healthy {i + 1}/{runs}")
                case = b.make(t, 2 * steps if quick else 6 * steps, scale, [], api=True, thin=12)
                lines = replay(b.args.sysom, case, 8)
                tally.add(case, lines, [], layer_of)
                healthy.add(case, lines, [], layer_of)
            b.progress("")
            print("\r" + tally.line(f"{t.name} healthy noise {scale}x, a node"), flush=True)
    if hard.of:
        print(f"live, one rank, noise 1x: right rank {100 * hard.found / hard.of:.1f}%, right layer "
              f"{100 * hard.layer / hard.of:.1f}% of {hard.of}, {hard.wrong} wrong; told after "
              f"{np.median(hard.seconds):.1f} s (most {np.max(hard.seconds):.1f})" if hard.seconds else
              f"live: none of {hard.of} told")
    return hard, healthy

# SPDX-License-Identifier: Apache-2.0
"""The same faults in the same real steps, through `sysom replay events --live`: what sysomd and the
aggregator would have reported while the job ran (one node, or a node per rank), and when. These runs
are longer than those of the other cases, since a live model has to learn first.

"costs": by how much the fault lengthens the rank's step if the rank waits for nobody and all steps are
equal. The aim covers faults that cost COSTS and more; the table lists the others too. A slowed rank that
has less work than its peers may still be ahead of them. It delays nobody, and sysom does not report it.
"ahead" counts such runs; they do not count for the aim.

A transient is stored but alerts nobody (docs/decisions/0003-transients.md), so a fault that is called
a transient counts as not found. "wrong": incidents that at some time were no transients and named a
healthy rank. "trans": transients of healthy ranks. "long": those of them that are one step drawn LONG
times as long as the others."""
import json
import subprocess
import sys

import numpy as np

COSTS = 0.04  # of a rank's step: the floor of the live comparison over 5 steps (analysis/slow/peers.h)
COLUMNS = (f"{'live case':<44}{'costs':>6}{'ahead':>6}{'runs':>5}{'rank':>6}{'layer':>6}{'s':>6}{'most':>6}{'wrong':>6}{'trans':>6}{'long':>6}{'rank-h':>8}")
LEARN = 0.6  # of the run, before the fault
KINDS = ("stretch", "kernels", "one", "gaps")


def replay(sysom, case, ranks_per_node):
    p = subprocess.run([sysom, "replay", "events", "--json", f"--live={ranks_per_node}", *case["paths"]],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode:
        raise SystemExit(f"live_jobs: {p.stderr.decode()}")
    return [json.loads(x) for x in p.stdout.decode().splitlines() if not x.startswith('{"type":"step"')]


def length(simulate, template, ranks, fault=None):
    """Of a step of these ranks alone, no two steps differing."""
    some = type(template)(template.name)
    some.ranks = [template.ranks[r] for r in ranks]
    some.transfer = template.transfer
    faults = [type(fault)(fault.what, list(range(len(ranks))), 0, 3, fault.factor)] if fault else []
    return np.diff(simulate(some, 4, np.zeros(1), 1, faults, np.random.default_rng(1))[1]).mean()


def cost(simulate, template, fault):
    """(share of a step by which the faulty ranks' own one grows, whether the job has anything of it)"""
    everyone = range(len(template.ranks))
    before = length(simulate, template, fault.ranks)
    after = length(simulate, template, fault.ranks, fault)
    others = [length(simulate, template, [r]) for r in everyone if r not in fault.ranks]
    return after / before - 1, not others or after > np.median(others)


LONG = 1.25  # a step of the job that was drawn so much longer than usual is slow, without a fault


def is_long_step(case, incident):
    """A transient that says of one step what is true of it by construction (numbers within one)."""
    lengths = np.diff(case["ends"])
    near = lengths[max(incident["first_step"] - 2, 0):incident["first_step"] + 1]
    return (incident["symptom"] == "transient" and incident["first_step"] == incident["last_step"] and
            len(near) and near.max() > LONG * np.median(lengths))


class Tally:
    def __init__(self):
        self.transients = self.long = 0
        self.costs, self.ahead = [], 0
        self.runs = self.found = self.layer = self.of = self.wrong = 0
        self.seconds, self.rank_hours = [], 0.0

    def add(self, case, lines, faults, verbose=False):
        self.runs += 1
        self.rank_hours += case["span_s"] * len(case["names"]) / 3600
        incidents = [x for x in lines if x["type"] == "incident"]
        reported = [x for x in lines if x["type"] == "reported" and x["symptom"] not in ("transient", "imbalance")]
        everyone = len(case["names"])
        for f in faults:
            names = {case["names"][r] for r in f.ranks}
            want = set() if len(names) == everyone else names
            begin = case["zero"] + case["ends"][f.first - 1]
            hits = [d for x in incidents if x["symptom"] != "transient" for d in x["diagnoses"]
                    if set(d["ranks"]) == want or (not want and len(d["ranks"]) == everyone)]
            self.of += 1
            self.found += bool(hits)
            self.layer += any(d["layer"] == f.layer for d in hits)
            first = [int(x["at_ns"]) - begin for x in reported if set(x["ranks"]) == want]
            if hits and first:
                self.seconds.append(min(first) / 1e9)
        guilty = {case["names"][r] for f in faults for r in f.ranks}
        transients = [x for x in incidents if x["symptom"] == "transient" and
                   not any(set(d["ranks"]) & guilty for d in x["diagnoses"])]
        self.transients += len(transients)
        self.long += sum(is_long_step(case, x) for x in transients)
        wrong = {x["incident"]: x for x in reported if not set(x["ranks"] or case["names"]) <= guilty}
        self.wrong += len(wrong)
        if verbose:
            for x in wrong.values():
                print(f"\rwrong: {json.dumps(x)}", file=sys.stderr)

    def line(self, name):
        share = lambda n: f"{100 * n / self.of:6.0f}" if self.of else "     -"
        middle = f"{np.median(self.seconds):6.1f}{np.max(self.seconds):6.1f}" if self.seconds else "     -     -"
        costs = f"{100 * np.mean(self.costs):5.1f}%" if self.costs else "     -"
        return (f"{name:<44}{costs}{self.ahead:6d}{self.runs:5d}{share(self.found)}{share(self.layer)}{middle}{self.wrong:6d}{self.transients:6d}{self.long:6d}"
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


def run(b, templates, simulate, fault, runs, steps):
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
                tally.add(case, lines, faults, b.args.verbose)
                share, matters = cost(simulate, t, faults[0])
                tally.costs.append(share)
                tally.ahead += not matters
                if scale == 1 and share >= COSTS and matters:
                    hard.add(case, lines, faults)
            b.progress("")
            print("\r" + tally.line(f"{name}, {where}"), flush=True)
    for t in templates:
        for scale in (1,) if quick else (1, 3):
            if b.args.only not in f"{t.name} healthy noise {scale}x":
                continue
            tally = Tally()
            for i in range(runs if quick else 3 * runs):
                b.progress(f"live: {t.name} healthy {i + 1}")
                # all kernels: of a few of them steps can't be found
                case = b.make(t, 2 * steps, scale, [], api=True)
                lines = replay(b.args.sysom, case, 8)
                tally.add(case, lines, [], b.args.verbose)
                healthy.add(case, lines, [])
            b.progress("")
            print("\r" + tally.line(f"{t.name} healthy noise {scale}x, a node"), flush=True)
    if hard.of:
        print(f"live, faults that cost {100 * COSTS:.0f}% of a step and more, noise 1x: right rank "
              f"{100 * hard.found / hard.of:.1f}%, right layer "
              f"{100 * hard.layer / hard.of:.1f}% of {hard.of}, {hard.wrong} wrong; reported after "
              f"{np.median(hard.seconds):.1f} s (most {np.max(hard.seconds):.1f})" if hard.seconds else
              f"live: none of {hard.of} reported")
    return hard, healthy

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios of the catalogue: TAP on standard output.

    run_case.py NAME [--seed N] [--full] [--keep]

The seed chooses the victim. --full has the fault on a second rank as well.
"""
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.join(os.path.dirname(HERE))]

import catalogue  # noqa: E402
import needs  # noqa: E402
import scenario  # noqa: E402

QUIET_S = 6
REST_S = 8
HEALTHY_S = 45
RANKS = 4


def want_of(case, rank):
    ranks = case.ranks(rank) if case.ranks else None if case.every_rank else [rank]
    return scenario.Want(case.causes, case.layers, ranks, case.named, kind=case.kind)


def play(s, case, victims):
    if case.server:
        s.serve_storage()
    launcher = s.make_link(victims[0]) if case.link else ()
    s.begin(s.ranks_here(*(s.fill(a, victims[0]) for a in case.job), launcher=launcher), quiet=0 if case.causes is None else QUIET_S)
    if case.causes is None:
        s.quiet(HEALTHY_S)
        return
    for rank in victims:
        f = scenario.Fault(case.title, None if case.every_rank else rank,
                           lambda r=rank: [i.start(s, r) for i in case.inject], want_of(case, rank),
                           stop=lambda r=rank: [i.stop(s, r) for i in reversed(case.inject)],
                           seconds_max=case.seconds)
        s.faults_at_once([f])
        s.rest(REST_S)


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    seed = next((w.split("=")[1] for w in sys.argv if w.startswith("--seed=")), str(int(time.time()) % 10000))
    case = catalogue.BY_NAME[words[0]]
    lacks = next((n for n in case.needs if not needs.here(n)), None)
    with scenario.Scenario(case.name, case.title) as s:
        if lacks:
            s.skip(f"needs {lacks}")
        rng = random.Random(f"{seed}:{case.name}")
        victims = rng.sample(range(RANKS), 2 if s.full and not case.link and not case.every_rank else 1)
        s.say(f"seed {seed}: victim {', '.join(map(str, victims))}")
        s.seed = seed
        s.start_stack()
        play(s, case, victims)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios of the catalogue: TAP on standard output.

    run_case.py NAME [--seed N] [--full] [--keep]

The seed chooses the victim. --full has the fault on a second rank as well.
"""
import os
import random
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.join(os.path.dirname(HERE))]

import catalogue  # noqa: E402
import needs  # noqa: E402
import scenario  # noqa: E402

QUIET_S = 6
REST_S = 8
HEALTHY_S = float(os.environ.get("SCENARIO_SECONDS") or 0) or 45


def ahead():
    """Before what else the machine does, as the daemons and the job are."""
    try:
        os.setsid()
    except PermissionError:
        pass  # the head of one already
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as group:
            group.write(str(scenario.scenario_stack.AHEAD))
    except OSError:
        pass  # a kernel without them, or not root


def fault_of(s, case, rank):
    return scenario.Fault(case.title, None if case.every_rank else rank,
                          lambda: [i.start(s, rank) for i in case.inject], want_of(case, rank),
                          stop=lambda: [i.stop(s, rank) for i in reversed(case.inject)], seconds_max=case.seconds)


def want_of(case, rank):
    ranks = case.ranks(rank) if case.ranks else list(range(case.world)) if case.every_rank else [rank]
    return scenario.Want(case.causes, case.layers(), ranks, case.named, kind=case.kind, or_all=case.or_all)


def begin(s, case, rank):
    """The job, until what is usual of it is known."""
    launcher = s.make_link(rank) if case.link else ()
    words = [s.fill(a, rank) for a in case.job]
    quiet = 0 if case.causes is None else QUIET_S
    if not case.restarts:
        s.begin(s.ranks_here(*words, launcher=launcher, ranks=case.world), case.world, quiet=quiet)
        return
    s.begin(s.torchrun(*words, options=("--max_restarts", 3)), quiet=0)
    os.kill(s.rank_pids()[(rank + 1) % case.world], signal.SIGKILL)
    s.stack.wait(30, lambda: s.attached() < case.world)
    s.known(case.world, 90)
    s.quiet(quiet)


def slow_from_start(s, case, rank):
    """A job without the fault for as long as its steps take to be known, then one that has it all the time."""
    s.start_job(s.ranks_here(*case.job), case.world, f"{case.name}-none")
    s.stack.wait(60, lambda: len(s.steps()) > 120)
    usual = s.usual_ms()
    s.end_job()
    s.fault_from_start(case.title, rank,
                       s.ranks_here(*case.job, *(s.fill(a, rank) for a in case.from_start)),
                       want_of(case, rank), usual_ms=usual)


def play(s, case, victims):
    if case.server:
        s.serve_storage()
    if case.from_start:
        slow_from_start(s, case, victims[0])
        return
    begin(s, case, victims[0])
    if case.causes is None:
        s.quiet(HEALTHY_S)
        return
    for rank in victims:
        faults = [fault_of(s, case, rank)]
        if case.beside:
            faults.append(fault_of(s, case.beside, (rank + 2) % case.world))
        s.faults_at_once(faults)
        if case.ends:
            s.rest(REST_S)


def main():
    ahead()
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    seed = next((w.split("=")[1] for w in sys.argv if w.startswith("--seed=")), str(int(time.time()) % 10000))
    case = catalogue.BY_NAME[words[0]]
    lacks = next((n for n in case.needs if not needs.here(n)), None)
    limit = () if case.causes else (int(HEALTHY_S) + 300,)
    with scenario.Scenario(case.name, case.title, *limit) as s:
        if lacks:
            s.skip(f"needs {lacks}")
        rng = random.Random(f"{seed}:{case.name}")
        victims = rng.sample(range(case.world), 2 if s.full and case.second() else 1)
        s.say(f"seed {seed}: victim {', '.join(map(str, victims))}")
        s.seed = seed
        s.start_stack()
        play(s, case, victims)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two jobs on one node, and a fault in one of them: the other one stays silent."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.dirname(HERE)]

import scenario  # noqa: E402

RANKS = 2


def main():
    with scenario.Scenario("case_two_jobs", "two jobs on one node, one of them with a fault") as s:
        s.start_stack()
        other = s.stack.job("other", [f"{scenario.BIN}/simjob", "--ranks", RANKS, "--seconds", 3600,
                                      "--truth", s.stack.path("other.jsonl"), "--host-work", "pack:ms=2"])
        s.begin(s.ranks_here("--loader", "none", "--host-ms", 2, ranks=RANKS), 2 * RANKS)
        for rank in (1, 0)[:2 if s.full else 1]:
            s.fault("each step runs a program and waits for it", rank, lambda rank=rank: s.order(f"{rank} start child ms=30"),
                    scenario.Want("cpu-process", "cpu"), stop=lambda rank=rank: s.order(f"{rank} end child"))
            s.rest()
        s.ok(other.poll() is None, "the other job runs")
        found = s.stack.incidents("other")
        for i in found:
            s.print_incident(s.stack.show(i["id"]))
        s.ok(not found, "no incident of the other job")


main()

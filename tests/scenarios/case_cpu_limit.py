#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU limit of a cgroup throttles one rank."""
import os
import sys
import glob

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def throttled():
    """Periods in which groups of cpu_limit.py were stopped."""
    total = 0
    for path in glob.glob("/sys/fs/cgroup/cpu/fault-*/cpu.stat"):
        with open(path, encoding="ascii") as f:
            total += int(f.read().split("nr_throttled")[1].split()[0])
    return total


def main():
    with scenario.Scenario("case_cpu_limit", "a CPU limit on one rank") as s:
        if not os.path.exists("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
            s.skip("needs cpu-group")
        s.start_stack()
        s.begin(s.simjob("--mix", "shard", "--host-work", "pack:ms=16"))
        for rank in (1, 2) if s.full else (1,):
            percent = s.half_of_cpu(rank)
            s.fault(f"a limit of {percent}% of a CPU, half of what it uses", rank,
                    [f"{scenario.FAULTS}/cpu_limit.py", "--pid", s.rank_pids()[rank], "--percent", percent],
                    scenario.Want("os-cpu-limit", "os", remedy="limit"),
                    observe=(throttled, "throttled periods/s", 1))
            s.rest()


main()

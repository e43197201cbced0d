#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two faults that have nothing to do with each other, on two ranks at once: each gets its own verdict."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.dirname(HERE)]

import needs  # noqa: E402
import scenario  # noqa: E402


def both(s, slow_gpu, limited):
    clock = scenario.Fault(
        "clock at 1,400 of 1,980 MHz", slow_gpu,
        [f"{scenario.FAULTS}/gpu_clock.py", "--file", s.stack.nvml, "--device", slow_gpu, "--mhz", 1400],
        scenario.Want("gpu-clocks", "gpu", remedy="clock"))
    percent = s.half_of_cpu(limited)
    limit = scenario.Fault(
        f"a limit of {percent}% of a CPU, half of what it uses", limited,
        [f"{scenario.FAULTS}/cpu_limit.py", "--pid", s.rank_pids()[limited], "--percent", percent],
        scenario.Want("os-cpu-limit", "os", remedy="limit"))
    s.faults_at_once([clock, limit])
    s.rest()


def main():
    with scenario.Scenario("case_two_faults", "two unrelated faults at once") as s:
        if not needs.here("cpu-group"):
            s.skip("needs cpu-group")
        s.start_stack()
        s.begin(s.simjob("--mix", "shard", "--host-work", "pack:ms=16"))
        both(s, 1, 3)
        if s.full:
            both(s, 2, 0)


main()

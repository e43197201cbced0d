#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: root cpus bpf
# alone: judges the steps of a job
"""Case 1: the clock of one GPU is down, so that all its kernels take longer by one ratio."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import scenario  # noqa: E402


def main():
    with scenario.Scenario("case_gpu_clocks", "the clock of one GPU is down") as s:
        s.start_stack()
        s.begin(s.simjob("--mix", "train"))
        for rank in (1, 2) if s.full else (1,):
            s.fault("clock at 1,400 of 1,980 MHz", rank,
                    [f"{scenario.FAULTS}/gpu_clock.py", "--file", s.stack.nvml, "--device", rank,
                     "--mhz", 1400],
                    scenario.Want("gpu-clocks", "gpu", named=["clock"], remedy="clock"))
            s.rest()


main()

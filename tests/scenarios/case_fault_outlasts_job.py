#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slow GPU stays slow while its job is started again: the verdict is the same in both runs, and a restart is no fault."""
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.dirname(HERE)]

import scenario  # noqa: E402

RANKS, SLOW, KILLED = 4, 2, 0


def slow_gpu(s, start):
    return scenario.Fault("clock at 1,400 of 1,980 MHz", SLOW, start, scenario.Want("gpu-clocks", "gpu"))


def main():
    with scenario.Scenario("case_fault_outlasts_job", "a slow GPU, and the job is started again meanwhile") as s:
        s.start_stack()
        s.begin(s.torchrun("--loader", "none", "--host-ms", 2, options=("--max_restarts", 3)), RANKS)
        clock = f"gpu_clock.py --file {s.stack.nvml} --device {SLOW} --mhz 1400".split()
        s.faults_at_once([slow_gpu(s, lambda: s.start_tool(clock))])
        os.kill(s.rank_pids()[KILLED], signal.SIGKILL)
        s.stack.wait(30, lambda: s.attached() < RANKS)
        again = slow_gpu(s, None)
        again.begin_ns = again.first_slow_ns = time.monotonic_ns()
        again.begin_unix_ns = time.time_ns()
        s.faults.append(again)
        s.known(RANKS, 90)
        s.until_right([again])
        again.end_ns, again.end_unix_ns = time.monotonic_ns(), time.time_ns()


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CPU limit: moves processes into a group with a quota, and back and
away with the group on SIGTERM or after --seconds.

    cpu_limit.py --pid PID [--pid PID ...] --percent 5 | --of-use 60 [--beside ON,OFF] [--period-ms 100] [--seconds 30]

--percent: of a CPU. --of-use: of what they use together before. --beside: a process of the group computes
for ON seconds, and rests for OFF. --period-ms: of the quota.
"""
import os
import subprocess
import sys
import time

import fault_group

USE_S = 2
SHARES = 88761  # the weight of nice -20: the group leaves an autogroup with that priority


def used_s(pids):
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            ticks += sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def more(p):
    p.add_argument("--percent", type=float)
    p.add_argument("--of-use", type=float)
    p.add_argument("--beside")
    p.add_argument("--period-ms", type=int, default=100)


def beside(times, own):
    on, off = map(float, times.split(","))
    car = subprocess.Popen([sys.executable, "-c", "import time\nwhile True:\n    end = time.monotonic() + "
                            f"{on}\n    while time.monotonic() < end: pass\n    time.sleep({off})"])
    own.write("cgroup.procs", str(car.pid))
    return car


def main():
    o, own = fault_group.options("cpu", more)
    percent = o.percent
    if percent is None:
        before = used_s(o.pid)
        time.sleep(USE_S)
        percent = o.of_use * (used_s(o.pid) - before) / USE_S
    own.put("cpu_period_us", o.period_ms * 1000)
    own.put("cpu_quota_us", max(1000, int(percent * o.period_ms * 10)))
    own.put("cpu_shares", SHARES)
    car = beside(o.beside, own) if o.beside else None
    try:
        own.hold(o, "cpu_limit")
    finally:
        if car:
            car.kill()
            car.wait()


main()

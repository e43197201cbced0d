#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another program on a CPU: real-time, 30 of every 50 ms or as it is told, until SIGTERM or --seconds.

    cpu_hog.py --cpu 1 [--ms 30 --every 50] [--seconds 30]
"""
import argparse
import ctypes
import os
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cpu", type=int, required=True)
    p.add_argument("--ms", type=float, default=30)
    p.add_argument("--every", type=float, default=50)
    p.add_argument("--seconds", type=float, default=3600)
    o = p.parse_args()
    ctypes.CDLL(None).prctl(15, b"cpu-hog", 0, 0, 0)  # PR_SET_NAME
    os.sched_setaffinity(0, {o.cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    print("cpu_hog: on", flush=True)
    end = time.monotonic() + o.seconds
    while time.monotonic() < end:
        until = time.monotonic() + o.ms / 1e3
        while time.monotonic() < until:
            pass
        time.sleep((o.every - o.ms) / 1e3)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lowers the clock of one device of the simulated node (its NVML file, docs/sim.md) until SIGTERM or
--seconds, then puts the file back as it was.

    gpu_clock.py --file F --device 1 --mhz 1400 [--also temperature_c=93 ...] [--also other=PID] [--seconds 30]

PID stands for this process itself.
"""
import argparse
import os
import signal
import sys
import time


def put(path, text):
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(text)
    os.rename(path + ".new", path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--file", required=True)
    p.add_argument("--device", required=True, help="or all")
    p.add_argument("--mhz", type=int, required=True)
    p.add_argument("--also", action="append", default=[])
    p.add_argument("--seconds", type=float, default=3600)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(o.file, encoding="ascii") as f:
        before = f.read()
    prefix = "" if o.device == "all" else f"{o.device}."
    lines = [f"sm_clock_mhz={o.mhz}", *(x.replace("=PID", f"={os.getpid()}") for x in o.also)]
    try:
        put(o.file, before + "".join(prefix + x.replace("=", " ", 1) + "\n" for x in lines))
        print("gpu_clock: on", flush=True)
        time.sleep(o.seconds)
    finally:
        put(o.file, before)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Correctable memory errors of one device of the simulated node (its NVML file, docs/sim.md), more and more, until
SIGTERM; then the file is as it was.

    ecc_storm.py --file F --device 1 [--per-second 4000]
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
    p.add_argument("--device", type=int, required=True)
    p.add_argument("--per-second", type=int, default=4000)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(o.file, encoding="ascii") as f:
        before = f.read()
    count = 0
    try:
        print("ecc_storm: on", flush=True)
        while True:
            count += o.per_second // 2
            put(o.file, f"{before}{o.device}.ecc_corrected {count}\n")
            time.sleep(0.5)
    finally:
        put(o.file, before)


main()

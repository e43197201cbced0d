#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rate limit (tc, token bucket) on what leaves a namespace of slow_link.py, until SIGTERM.

    shape_link.py --link F --rate 2mbit     F: what slow_link.py printed
"""
import argparse
import signal
import subprocess
import sys
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--link", required=True)
    p.add_argument("--rate", required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(o.link, encoding="ascii") as f:
        name, _, _, device, _ = f.read().split()
    subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", o.rate,
                    "burst", "1600", "latency", "2s"], check=True)
    try:
        print("shape_link: on", flush=True)
        while True:
            time.sleep(1)
    finally:
        subprocess.run(["tc", "-n", name, "qdisc", "del", "dev", device, "root"], check=False)


main()

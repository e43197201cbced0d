#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernel merges equal pages (KSM), so many each time, until SIGTERM.

    merge_pages.py --pages 2000 --ms 10
"""
import argparse
import signal
import sys
import time

ROOT = "/sys/kernel/mm/ksm/"


def read(name):
    with open(ROOT + name, encoding="ascii") as f:
        return f.read().strip()


def write(name, value):
    with open(ROOT + name, "w", encoding="ascii") as f:
        f.write(str(value))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pages", type=int, required=True)
    p.add_argument("--ms", type=int, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    before = [(name, read(name)) for name in ("pages_to_scan", "sleep_millisecs", "run")]
    try:
        for name, value in (("pages_to_scan", o.pages), ("sleep_millisecs", o.ms), ("run", 1)):
            write(name, value)
        print("merge_pages: on", flush=True)
        while True:
            time.sleep(1)
    finally:
        for name, value in before:
            write(name, value)


main()

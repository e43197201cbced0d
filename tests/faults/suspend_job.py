#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops all of some processes at once and lets them go on, again and again, until SIGTERM: as a scheduler does that
has two jobs take turns.

    suspend_job.py --pid P [--pid P ...] --ms 500 --every 1000
"""
import argparse
import os
import signal
import sys
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pid", type=int, action="append", required=True)
    p.add_argument("--ms", type=float, required=True)
    p.add_argument("--every", type=float, required=True)
    o = p.parse_args()

    def send(number):
        for pid in o.pid:
            os.kill(pid, number)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("suspend_job: on", flush=True)
    while True:
        time.sleep((o.every - o.ms) / 1e3)
        send(signal.SIGSTOP)
        try:
            time.sleep(o.ms / 1e3)
        finally:
            send(signal.SIGCONT)


main()

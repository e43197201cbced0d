#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a file again and again, much at a time, until SIGTERM.

    big_writes.py --path F --mb 128
"""
import argparse
import os
import signal
import sys


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--path", required=True)
    p.add_argument("--mb", type=int, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    block = os.urandom(1 << 20) * o.mb
    fd = os.open(o.path, os.O_WRONLY)
    print("big_writes: on", flush=True)
    while True:
        os.pwrite(fd, block, 4096)


main()

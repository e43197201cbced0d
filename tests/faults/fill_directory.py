#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many files in a directory, until SIGTERM.

    fill_directory.py --at DIR --files 30000
"""
import argparse
import os
import signal
import sys
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--at", required=True)
    p.add_argument("--files", type=int, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    paths = [os.path.join(o.at, f"part-{os.getpid()}-{n:06}.json") for n in range(o.files)]
    try:
        for path in paths:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        print("fill_directory: on", flush=True)
        while True:
            time.sleep(1)
    finally:
        for path in filter(os.path.exists, paths):
            os.unlink(path)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk whose blocks are in a file, read-only, until SIGTERM; --at becomes a link to its device.

    loop_disk.py --file F --at LINK
"""
import argparse
import os
import signal
import subprocess
import sys
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--file", required=True)
    p.add_argument("--at", required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    device = subprocess.run(["losetup", "--read-only", "--find", "--show", o.file], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    try:
        os.symlink(device, o.at)
        print(f"loop_disk: {device} on", flush=True)
        while True:
            time.sleep(1)
    finally:
        os.unlink(o.at)
        subprocess.run(["losetup", "--detach", device], check=False)


main()

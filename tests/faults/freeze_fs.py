#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system of its own (ext4 in a file), frozen for a while again and again, as a snapshot does, until SIGTERM.

    freeze_fs.py --at DIR --ms 900 --every 3500
"""
import argparse
import os
import signal
import subprocess
import sys
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--at", required=True)
    p.add_argument("--ms", type=float, required=True)
    p.add_argument("--every", type=float, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    image = o.at + ".image"
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    os.mkdir(o.at)
    subprocess.run(["mount", "-o", "loop", image, o.at], check=True)
    try:
        print(f"freeze_fs: {o.at} on", flush=True)
        while True:
            time.sleep((o.every - o.ms) / 1e3)
            subprocess.run(["fsfreeze", "--freeze", o.at], check=True)
            try:
                time.sleep(o.ms / 1e3)
            finally:
                subprocess.run(["fsfreeze", "--unfreeze", o.at], check=True)
    finally:
        subprocess.run(["umount", "--lazy", o.at], check=False)


main()

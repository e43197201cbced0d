#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rate of one simulated link: what the process sends in a collective takes so long, until SIGTERM. Its peers end
with it.

    nccl_rate.py --pid PID --mbps 4000      as SIM_NCCL_MBPS of docs/sim.md
"""
import argparse
import signal
import struct
import subprocess
import sys
import time


def place(pid):
    """Of the rate in the process's memory: the double's own variable."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        line = next(x for x in f if "libnccl.so" in x).split()
    base, path = int(line[0].split("-")[0], 16) - int(line[2], 16), line[5]
    said = subprocess.run(["gdb", "-nx", "-batch", "-ex", "print (long)&driver.bytes_per_us", path], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return base + int(said.split()[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pid", type=int, required=True)
    p.add_argument("--mbps", type=int, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    at = place(o.pid)
    with open(f"/proc/{o.pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        before = memory.read(8)
        if struct.unpack("=Q", before)[0] not in range(1, 1 << 24):
            raise SystemExit("nccl_rate: this is no rate")
        memory.seek(at)
        memory.write(struct.pack("=Q", o.mbps))
        try:
            print("nccl_rate: on", flush=True)
            while True:
                time.sleep(1)
        finally:
            memory.seek(at)
            memory.write(before)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pause before each operation of a process's simulated GPU, or the rate of its copies, until SIGTERM.

    gpu_gap.py --pid PID [--pid PID ...] --us 600            as SIM_GAP_NS of docs/sim.md
    gpu_gap.py --pid PID --copy-mbps 250                     as SIM_COPY_MBPS
    gpu_gap.py --pid PID --us 600 --on-s 0.7 --off-s 1.8     again and again
"""
import argparse
import signal
import struct
import subprocess
import sys
import time


def offset(path, name):
    """Of the double's own variable."""
    said = subprocess.run(["gdb", "-nx", "-batch", "-ex", f"print (long)&gpu.{name}", path], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return int(said.split()[-1])


def library(pid):
    """Where the double is in the process's memory, and its file."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        line = next(x for x in f if "libcuda.so" in x).split()
    return int(line[0].split("-")[0], 16) - int(line[2], 16), line[5]


class Variable:
    """Of one process."""

    def __init__(self, pid, base, at):
        self.memory, self.at = open(f"/proc/{pid}/mem", "r+b", buffering=0), base + at
        self.memory.seek(self.at)
        self.before = self.memory.read(8)
        if struct.unpack("=Q", self.before)[0] not in range(1, 1 << 20):
            raise SystemExit("gpu_gap: this is neither a pause nor a rate")

    def put(self, value):
        self.memory.seek(self.at)
        self.memory.write(value)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pid", type=int, action="append", required=True)
    p.add_argument("--us", type=int)
    p.add_argument("--copy-mbps", type=int)
    p.add_argument("--on-s", type=float, default=3600)
    p.add_argument("--off-s", type=float, default=0)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    places = [(pid, *library(pid)) for pid in o.pid]
    at = offset(places[0][2], "gap_ns" if o.us else "copy_bytes_per_us")
    variables = [Variable(pid, base, at) for pid, base, _ in places]
    try:
        print("gpu_gap: on", flush=True)
        while True:
            for v in variables:
                v.put(struct.pack("=Q", o.us * 1000 if o.us else o.copy_mbps))
            time.sleep(o.on_s)
            for v in variables:
                v.put(v.before)
            time.sleep(o.off_s)
    finally:
        for v in variables:
            v.put(v.before)


main()

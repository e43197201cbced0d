#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pause before each operation of a process's simulated GPU, until SIGTERM.

    gpu_gap.py --pid PID --us 600      as SIM_GAP_NS of docs/sim.md
"""
import argparse
import signal
import struct
import subprocess
import sys
import time


def place(pid):
    """Of the pause in the process's memory: the double's own variable."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        line = next(x for x in f if "libcuda.so" in x).split()
    base, path = int(line[0].split("-")[0], 16) - int(line[2], 16), line[5]
    said = subprocess.run(["gdb", "-nx", "-batch", "-ex", "print (long)&gpu.gap_ns", path], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return base + int(said.split()[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pid", type=int, required=True)
    p.add_argument("--us", type=int, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    at = place(o.pid)
    with open(f"/proc/{o.pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        before = memory.read(8)
        if struct.unpack("=Q", before)[0] not in range(1, 1 << 20):
            raise SystemExit("gpu_gap: this is no pause")
        memory.seek(at)
        memory.write(struct.pack("=Q", o.us * 1000))
        try:
            print("gpu_gap: on", flush=True)
            while True:
                time.sleep(1)
        finally:
            memory.seek(at)
            memory.write(before)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pause before each operation of a process's simulated GPU, or the rate of its copies, until SIGTERM.

    gpu_gap.py --pid PID --us 600                            as SIM_GAP_NS of docs/sim.md
    gpu_gap.py --pid PID --copy-mbps 250                     as SIM_COPY_MBPS
    gpu_gap.py --pid PID --us 600 --on-s 0.7 --off-s 1.8     again and again
"""
import argparse
import signal
import struct
import subprocess
import sys
import time


def place(pid, name):
    """In the process's memory: of the double's own variable."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        line = next(x for x in f if "libcuda.so" in x).split()
    base, path = int(line[0].split("-")[0], 16) - int(line[2], 16), line[5]
    said = subprocess.run(["gdb", "-nx", "-batch", "-ex", f"print (long)&gpu.{name}", path], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return base + int(said.split()[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pid", type=int, required=True)
    p.add_argument("--us", type=int)
    p.add_argument("--copy-mbps", type=int)
    p.add_argument("--on-s", type=float, default=3600)
    p.add_argument("--off-s", type=float, default=0)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    at = place(o.pid, "gap_ns" if o.us else "copy_bytes_per_us")
    with open(f"/proc/{o.pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        before = memory.read(8)
        if struct.unpack("=Q", before)[0] not in range(1, 1 << 20):
            raise SystemExit("gpu_gap: this is neither a pause nor a rate")

        def put(value):
            memory.seek(at)
            memory.write(value)
        try:
            print("gpu_gap: on", flush=True)
            while True:
                put(struct.pack("=Q", o.us * 1000 if o.us else o.copy_mbps))
                time.sleep(o.on_s)
                put(before)
                time.sleep(o.off_s)
        finally:
            put(before)


main()

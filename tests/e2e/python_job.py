# SPDX-License-Identifier: Apache-2.0
"""One rank that works in Python and in a library of its own, and launches kernels on the simulated GPU:
python_job.py SECONDS LIBRARY. It deletes the library's file once it is loaded."""
import ctypes
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sim"))
import simgpu  # noqa: E402


def compute_in_python(n):
    value = 0
    for i in range(n):
        value = (value * 31 + i) % 1000003
    return value


def main():
    library = ctypes.CDLL(sys.argv[2])
    os.unlink(sys.argv[2])
    gpu = simgpu.Gpu(0)
    end = time.monotonic() + float(sys.argv[1])
    steps = 0
    while time.monotonic() < end:
        for _ in range(4):
            gpu.kernel("gemm", 2_000_000)
        compute_in_python(100_000)
        library.own_work()
        gpu.synchronize()
        steps += 1
    print("steps" if steps else "no step")


main()

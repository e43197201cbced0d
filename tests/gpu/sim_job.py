#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_job.py's stand-in on the simulated GPU: the same interface and shape of steps, no torch. With
it the harness itself is tested on machines without a GPU (gpu_check.py --sim). Its figures say
nothing about a GPU, and it has no profiler of its own."""
import contextlib
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sim"))
import simgpu  # noqa: E402

import gpu_loop  # noqa: E402


class Job:
    def __init__(self, kind):
        self.gpu, self.kind, self.rng = simgpu.Gpu(0), kind, random.Random(3)
        self.total = 0

    def step(self):
        layers, scale = (12, 1) if self.kind == "train" else (24, 0.2)
        for layer in range(layers):
            for name, ns, grid in (("gemm", 250000, (512, 1, 1)), ("norm", 60000, (64, 1, 1)),
                                   ("gelu", 90000, (128, 2, 1))):
                self.gpu.kernel(name, int(ns * scale), grid, (256, 1, 1))
            self.total += layer * self.rng.randrange(1000)
        self.gpu.kernel("adam_kernel", 400000, (320, 1, 1), (512, 1, 1))
        self.gpu.copy_out(4)
        self.gpu.synchronize()

    def synchronize(self):
        self.gpu.synchronize()

    def result(self):
        return str(self.total)

    def describe(self):
        return {"torch": "none", "gpu": "simulated"}

    @contextlib.contextmanager
    def profiled(self):
        yield lambda: 0


if __name__ == "__main__":
    options = gpu_loop.options()
    gpu_loop.run(Job(options.kind), options)

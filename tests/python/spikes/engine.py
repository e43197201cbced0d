# SPDX-License-Identifier: Apache-2.0
"""A serving loop on the simulated GPU: a step's time is what its tokens say, except when WORK/pad or WORK/copy exists:
a step for each line of it then takes 160 ms of CPU time in that function, one every PERIOD_S seconds. While WORK/slow
exists, kernels take 1.8 times as long.

    python3 engine.py WORK [serve|train]

serve: the catalogue beside it names Engine.step. train: no catalogue, and equal work in every step. Ends at WORK/end."""
import os
import random
import sys
import time

sys.path.insert(0, "sim")

import simgpu  # noqa: E402

SPIKE_S = 0.16
PERIOD_S = 3
SLOW = 1.8


class Batch:
    def __init__(self, tokens, requests):
        self.tokens = tokens
        self.requests = requests


def pad(until):
    rows = 0
    while time.thread_time() < until:
        rows += sum(range(3000))  # LINE OF pad
    return rows


def copy(until):
    rows = 0
    while time.thread_time() < until:
        rows += len(list(range(3000)))  # LINE OF copy
    return rows


class Spikes:
    """The function that this step is slow in, if any."""

    functions = {"pad": pad, "copy": copy}

    def __init__(self, work):
        self.work, self.next, self.left, self.function = work, 0, 0, None

    def due(self):
        now = time.monotonic()
        if not self.left:
            for name, function in self.functions.items():
                path = os.path.join(self.work, name)
                if os.path.exists(path):
                    with open(path, encoding="utf-8") as f:
                        self.left, self.function, self.next = len(f.readlines()), function, now
                    os.unlink(path)
        if not self.left or now < self.next:
            return None
        self.left -= 1
        self.next = now + PERIOD_S
        return self.function


class Engine:
    def __init__(self, work):
        self.gpu = simgpu.Gpu(0)
        self.spikes = Spikes(work)
        self.slow = os.path.join(work, "slow")

    def prepare(self, batch, function):
        if function:
            function(time.thread_time() + SPIKE_S)
        return batch.tokens

    def forward(self, tokens):
        size = SLOW if os.path.exists(self.slow) else 1
        for _ in range(6):
            self.gpu.kernel("gemm", round(size * (1_500_000 + 30_000 * tokens)))
            self.gpu.kernel("attention", round(size * (1_000_000 + 10_000 * tokens)))
        self.gpu.synchronize()

    def step(self, batch, function):
        self.forward(self.prepare(batch, function))
        self.gpu.copy_out(64)


def main():
    work, mode = sys.argv[1], sys.argv[2]
    engine, rng, steps, end = Engine(work), random.Random(1), 0, os.path.join(work, "end")
    while steps % 16 or not os.path.exists(end):
        tokens = rng.randrange(1, 33) if mode == "serve" else 16
        engine.step(Batch(tokens, [0] * 4), engine.spikes.due())
        steps += 1
    print(steps, "steps")


if __name__ == "__main__":
    import engine as module  # the catalogue names engine, not __main__
    module.main()

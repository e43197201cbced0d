# SPDX-License-Identifier: Apache-2.0
"""Checks the stacks of tests/e2e/train_stacks.py: torchrun_stacks.py WHAT FILE [ARGUMENT]; exit 0 or 1."""
import json
import re
import sys


def read(path):
    """[(frames from the root, nanoseconds)]"""
    out = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            stack, _, value = line.rstrip("\n").rpartition(" ")
            out.append((stack.split(";"), int(value)))
    return out


def in_order(frames, *wanted):
    at = 0
    for frame in frames:
        if at < len(wanted) and re.search(wanted[at], frame):
            at += 1
    return at == len(wanted)


def share(stacks, condition):
    whole = sum(ns for _, ns in stacks)
    part = sum(ns for frames, ns in stacks if condition(frames))
    print(f"# {part / 1e6:.0f} of {whole / 1e6:.0f} ms")
    return part / whole if whole else 0


TRAIN = (r"^<module> \(train_stacks\.py\)", r"^main \(train_stacks\.py\)", r"^train \(train_stacks\.py\)")


def forward(stacks):
    """Python down to libtorch: a linear layer in the network's forward in the training step."""
    return share(stacks, lambda f: in_order(
        f, *TRAIN, r"^train_step \(train_sim\.py\)", r"^Net\.forward \(train_stacks\.py\)",
        r"^Linear\.forward \(linear\.py\)", r"^at::")) > 0


def backward(stacks):
    return share(stacks, lambda f: in_order(
        f, *TRAIN, r"^train_step \(train_sim\.py\)", r"^Tensor\.backward \(_tensor\.py\)",
        r"^torch::autograd::Engine::execute", r"^torch::autograd::Engine::evaluate_function",
        r"^at::")) > 0


def worker(stacks):
    """What the data loader's process does stands below its loop, and nowhere else."""
    chain = (r"^_worker_loop \(worker\.py\)", r"\.fetch \(fetch\.py\)",
             r"^Samples\.__iter__ \(train_stacks\.py\)", r"^decode_sample \(train_stacks\.py\)")
    right = share(stacks, lambda f: in_order(f, *chain))
    seen = share(stacks, lambda f: any(x.startswith("decode_sample ") for x in f))
    wrong = share(stacks, lambda f: in_order(f, r"^train_step ", r"^decode_sample "))
    return right > 0 and right >= 0.9 * seen and not wrong


def kernel(stacks):
    """A read from Python down to the block layer's wait; kernel frames are innermost everywhere."""
    for frames, _ in stacks:
        kinds = [frame.endswith("_[k]") for frame in frames]
        if kinds != sorted(kinds):
            print("# user frame within the kernel:", ";".join(frames))
            return False
    return share(stacks, lambda f: in_order(
        f, *TRAIN, r"^read_shard \(train_stacks\.py\)", r"preadv", r"^vfs_.*_\[k\]$",
        r"io_schedule.*_\[k\]$|_dio_.*_\[k\]$|submit_bio_wait_\[k\]$")) > 0


def whole(stacks):
    """Reaching the program's or the thread's first function."""
    return share(stacks, lambda f: re.search(r"^(_start|__libc_start|.*clone3?$)", f[1])) > 0.8


def total(stacks, text):
    return sum(ns for _, ns in stacks) == int(json.loads(text)["on_cpu_ns"])


def main():
    what, path, *rest = sys.argv[1:]
    checks = {f.__name__: f for f in (forward, backward, worker, kernel, whole, total)}
    sys.exit(not checks[what](read(path), *rest))


main()

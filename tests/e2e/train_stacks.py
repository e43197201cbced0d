# SPDX-License-Identifier: Apache-2.0
"""A training loop for torchrun whose stacks are known: a real network on the CPU, data loader workers,
direct reads of a file, GPU work on the simulated node. Rank 1 does what the file --orders says, a word
a line: "hog" starts a thread that holds Python's GIL, "free" ends it. Ends when the file says "end".

    torchrun --nproc_per_node 2 tests/e2e/train_stacks.py --orders FILE --shard FILE
"""
import argparse
import mmap
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sim"))

import simgpu  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import train_sim  # noqa: E402

WIDTH, BATCH, SHARD_BYTES = 192, 32, 64 << 10


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Samples(torch.utils.data.IterableDataset):
    def __iter__(self):
        n = 0
        while True:
            yield decode_sample(n)
            n += 1


def decode_sample(n):
    value = 0
    for i in range(300):
        value = (value * 31 + n + i) % 1000003
    return torch.full((WIDTH,), value / 1000003)


def gil_hog(over):
    value = 0
    while not over.is_set():
        for i in range(20000):
            value = (value + i) & 0xffff


def read_shard(fd, buffer, step):
    """Direct: what the page cache holds is read again."""
    at = step * SHARD_BYTES % (8 << 20)
    return os.preadv(fd, [buffer], at)


def obey(path, seen, hog_over):
    with open(path, encoding="ascii") as f:
        lines = f.read().split("\n")[:-1]
    for line in lines[seen:]:
        if line == "hog":
            threading.Thread(target=gil_hog, args=(hog_over,), name="hog", daemon=True).start()
        elif line == "free":
            hog_over.set()
    return len(lines), "end" in lines


def train(o, gpu, rng, rank):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = iter(torch.utils.data.DataLoader(Samples(), batch_size=BATCH, num_workers=1))
    fd = os.open(o.shard, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, SHARD_BYTES)
    last = torch.zeros(1, dtype=torch.int64)
    seen, over, step, hog_over = 0, False, 0, threading.Event()
    while True:
        if rank == 1 and not over:
            seen, over = obey(o.orders, seen, hog_over)
        if step % 8 == 0:  # everybody ends at the same step
            last[0] = over
            dist.broadcast(last, 1)
            if last.item():
                break
        gpu.begin_step(None)
        read_shard(fd, buffer, step)
        train_sim.train_step(gpu, rng, model, optimizer, next(loader))
        step += 1
    print(f"train_stacks: rank {rank}: {step} steps", file=sys.stderr)
    os.close(fd)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--orders", required=True)
    p.add_argument("--shard", required=True)
    o = p.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    rng = random.Random(rank)
    gpu = simgpu.Gpu(int(os.environ.get("LOCAL_RANK", "0")))
    gpu.init_comm(rank, world, train_sim.exchange)
    train(o, gpu, rng, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

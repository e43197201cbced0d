# SPDX-License-Identifier: Apache-2.0
"""A small training loop for torchrun: a real torch computation on the CPU per step, and GPU work on
the simulated node beside it. Writes the truth of its steps with --truth.

    torchrun --nproc_per_node 2 sim/train_sim.py --seconds 30 \
        --fault slow:rank=1:start=15s:steps=40:size=1.6
"""
import argparse
import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import simgpu  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

LAYERS = 8


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=0)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--fault", default=os.environ.get("SIM_FAULT"))
    p.add_argument("--truth")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    if not o.seconds and not o.steps:
        o.seconds = 30
    return o


def exchange(raw):
    """Rank 0's unique id to everybody, over gloo."""
    t = torch.zeros(128, dtype=torch.uint8)
    if raw is not None:
        t = torch.frombuffer(bytearray(raw), dtype=torch.uint8).clone()
    dist.broadcast(t, 0)
    return bytes(t.tolist())


def jitter(rng, us):
    return us * 1000 * (1 + 0.01 * rng.gauss(0, 1))


def train_step(gpu, rng, model, optimizer, batch):
    gpu.copy_in(1 << 20)
    gpu.kernel("embedding_kernel(float*, long const*)", jitter(rng, 150))
    for layer in range(LAYERS):
        gpu.kernel("layer_norm_kernel(float*)", jitter(rng, 60), (512, 1, 1))
        gpu.kernel("gemm_f32_128x128_tn(qkv)", jitter(rng, 900), (768, 1, 1), (256, 1, 1))
        gpu.kernel("attention_forward_kernel(float*)", jitter(rng, 1300), (384, 1, 1))
        gpu.kernel("gemm_f32_128x128_tn(mlp)", jitter(rng, 1600), (1024, 1, 1), (256, 1, 1))
        if layer % 2 == 0:
            gpu.gap()
    # The real part: a tiny model on the CPU while the GPU works.
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    for layer in range(LAYERS):
        gpu.kernel("attention_backward_kernel(float*)", jitter(rng, 2200), (384, 1, 1), (256, 1, 1))
        gpu.kernel("gemm_f32_128x256_nt(wgrad)", jitter(rng, 2600), (1024, 1, 1), (256, 1, 1))
        gpu.kernel("gemm_f32_128x256_nn(dgrad)", jitter(rng, 2500), (1024, 1, 1), (256, 1, 1))
        if layer % 2 == 1:
            gpu.gap()
            gpu.allreduce(48 << 20)
    gpu.join_comm()
    for _ in range(6):
        gpu.kernel("adam_kernel(float*, float*, float*)", jitter(rng, 250), (320, 1, 1),
                   (512, 1, 1))
    gpu.copy_out(4)
    gpu.synchronize()


def main():
    o = options()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(o.seed)
    rng = random.Random(o.seed * 1000003 + rank)
    gpu = simgpu.Gpu(int(os.environ.get("LOCAL_RANK", "0")))
    gpu.init_comm(rank, world, exchange)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(16, 64)
    fault = simgpu.Fault(o.fault) if o.fault else None
    truth = open(o.truth, "a", buffering=1) if o.truth else None
    last = torch.zeros(1, dtype=torch.int64)
    start, step = time.monotonic(), 0
    while True:
        if step % 8 == 0 and o.seconds:  # all ranks end at the same step
            last[0] = time.monotonic() - start >= o.seconds
            dist.broadcast(last, 0)
            if last.item():
                break
        if o.steps and step >= o.steps:
            break
        acting = fault if fault and fault.active(rank, step, time.monotonic() - start) else None
        begin = time.monotonic_ns()
        gpu.begin_step(acting)
        train_step(gpu, rng, model, optimizer, batch)
        end = time.monotonic_ns()
        if truth:
            truth.write(json.dumps({"rank": rank, "step": step, "phase": "train",
                                    "begin_ns": begin, "end_ns": end,
                                    "fault": acting is not None}) + "\n")
        step += 1
    if o.verbose:
        wall = time.monotonic() - start
        print(f"train_sim: rank {rank}: {step} steps in {wall:.2f} s", file=sys.stderr)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

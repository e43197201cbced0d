#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's job on real GPUs: data-parallel training under torchrun. One rank's matrix products grow
for a while, as on a card whose clocks went down. It knows nothing of sysom."""
import argparse
import os
import time

import torch
import torch.distributed as dist


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--fault-rank", type=int, default=0)
    ap.add_argument("--fault-begin", type=float, default=30)
    ap.add_argument("--fault-seconds", type=float, default=6)
    args = ap.parse_args()
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    layers = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, bias=False) for _ in range(24)])
    model = torch.nn.parallel.DistributedDataParallel(layers.cuda(), device_ids=[local])
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    begin = time.monotonic()
    stop = torch.zeros(1, device="cuda")
    while True:
        now = time.monotonic() - begin
        slow = rank == args.fault_rank and 0 <= now - args.fault_begin < args.fault_seconds
        x = torch.randn(12288 if slow else 6144, 4096, device="cuda")
        opt.zero_grad(set_to_none=True)
        model(x).pow(2).mean().backward()
        opt.step()
        stop.fill_(now > args.seconds)  # rank 0 decides, so that all leave at the same step
        dist.broadcast(stop, 0)
        if stop.item():
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small model under torchrun, data-parallel over gloo; one file per rank in PIDS says that it is warm."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(1024, 128), nn.Tanh(), nn.Linear(128, 10))
ddp = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3)
step = 0
while True:
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    loss = nn.functional.cross_entropy(ddp(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step == 5:
        path = os.path.join(os.environ["PIDS"], os.environ["RANK"])
        with open(path + ".new", "w") as f:
            f.write(str(os.getpid()))
        os.rename(path + ".new", path)

# SPDX-License-Identifier: Apache-2.0
"""Five steps of training on the CPU. usage: train.py GO-FILE"""
import os
import sys
import time

import torch
import spanned.engine

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while not os.path.exists(sys.argv[1]):
    spanned.engine.idle()
    time.sleep(0.01)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(10, 4)), batch_size=2)
for (batch,) in data:
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
print("trained")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training or decode-like job on one GPU that knows nothing of sysom. Prints one JSON line.

usage: gpu_job.py train|decode STEPS [--profile FROM TO] [--toggle SOCKET SEED]
--toggle: every 8 steps asks the control socket to switch tracing on or off in random order, and
reports step times by state: how overhead is measured (docs/TESTING.md).
"""
import argparse
import hashlib
import http.client
import json
import random
import socket
import sys
import time

import torch


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=5)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.unix_path)


def switch(path, state):
    c = UnixHTTP(path)
    c.request("POST", f"/api/v1/trace?state={state}")
    c.getresponse().read()
    c.close()


class Train:
    def __init__(self):
        torch.manual_seed(1)
        layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0)
        self.model = torch.nn.TransformerEncoder(layer, 12).cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.g = torch.Generator(device="cuda").manual_seed(2)

    def step(self):
        x = torch.randn(16, 512, 1024, device="cuda", generator=self.g)
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.model(x).float().pow(2).mean()
        loss.backward()
        self.opt.step()
        return loss.item()  # the host waits for the GPU, as training loops do

    def result(self):
        h = hashlib.sha256()
        for p in self.model.parameters():
            h.update(p.detach().cpu().numpy().tobytes())
        return h.hexdigest()


class Decode:
    def __init__(self):
        torch.manual_seed(1)
        self.w = [torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) / 45 for _ in range(48)]
        self.x = torch.randn(32, 2048, device="cuda", dtype=torch.bfloat16)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            self.forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.forward()
        self.h = hashlib.sha256()

    def forward(self):
        y = self.x
        for w in self.w:
            y = torch.nn.functional.silu(y @ w) + y * 0.5
        return y

    def step(self):
        self.graph.replay()
        token = torch.argmax(self.y, dim=-1)
        self.h.update(token.cpu().numpy().tobytes())
        self.x.copy_(torch.roll(self.x, 1, 0))
        return 0.0

    def result(self):
        return self.h.hexdigest()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("kind", choices=("train", "decode"))
    ap.add_argument("steps", type=int)
    ap.add_argument("--profile", nargs=2, type=int)
    ap.add_argument("--toggle", nargs=2)
    args = ap.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    job = {"train": Train, "decode": Decode}[args.kind]()
    for _ in range(5):
        job.step()
    torch.cuda.synchronize()
    rng = random.Random(int(args.toggle[1])) if args.toggle else None
    times, states, order, profiler, profiled = [], [], [], None, 0
    for i in range(args.steps):
        if rng and i % 8 == 0:
            if not order:
                order = ["on", "off"]
                rng.shuffle(order)
            state = order.pop()
            switch(args.toggle[0], state)
        if args.profile and i == args.profile[0]:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU,
                                                          torch.profiler.ProfilerActivity.CUDA])
            profiler.__enter__()
        begin = time.perf_counter()
        job.step()
        times.append(time.perf_counter() - begin)
        states.append("profiled" if profiler else state if rng else "plain")
        if profiler and i == args.profile[1]:
            profiler.__exit__(None, None, None)
            profiled = sum(1 for e in profiler.events()
                           if e.device_type == torch.autograd.DeviceType.CUDA)
            profiler = None
    torch.cuda.synchronize()
    print(json.dumps({"times": times, "states": states, "result": job.result(),
                      "profiled_kernels": profiled, "torch": torch.__version__,
                      "gpu": torch.cuda.get_device_name(0)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

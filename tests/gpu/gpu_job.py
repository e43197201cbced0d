#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training or decode-like job on one GPU that knows nothing of sysom. Prints one JSON line.
usage: gpu_job.py train|decode STEPS [options of gpu_loop.py]
--toggle asks the control socket to switch tracing on or off in random order and reports step times
by state: how overhead is measured (docs/TESTING.md)."""
import contextlib
import hashlib
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS may differ between runs

import torch  # noqa: E402

import gpu_loop  # noqa: E402


class Job:
    def synchronize(self):
        torch.cuda.synchronize()

    def describe(self):
        return {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0)}

    @contextlib.contextmanager
    def profiled(self):
        kinds = torch.profiler.ProfilerActivity
        with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as p:
            yield lambda: sum(1 for e in p.events()
                              if e.device_type == torch.autograd.DeviceType.CUDA)


class Train(Job):
    def __init__(self):
        torch.manual_seed(1)
        # the mathematical attention: the fused ones' gradients depend on the order of additions
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
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


class Decode(Job):
    def __init__(self):
        torch.manual_seed(1)
        self.w = [torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) / 45 for _ in range(48)]
        self.x = torch.randn(32, 2048, device="cuda", dtype=torch.bfloat16)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
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

    def result(self):
        return self.h.hexdigest()


def main():
    args = gpu_loop.options()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    gpu_loop.run({"train": Train, "decode": Decode}[args.kind](), args)


if __name__ == "__main__":
    main()

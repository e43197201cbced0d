#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A serving engine of vLLM's structure on the simulated GPU node, under a load: an API process (this
one), the engine's process and one process per GPU; with --split one engine for prompts and one that
decodes, with the key-value cache carried between them.

    SIM_LIB=$PWD/build/lib/sim sim/serve_sim.py --seconds 40 --truth truth.jsonl
    sim/serve_sim.py --traffic ../shared/data/llm-traffic/azure_llm_2023_code.csv.gz --requests-per-second 3
    sim/serve_sim.py --fault slow:rank=1:start=20:seconds=10:size=1.6 --fault schedule:start=30:size=60

Ends with 0 when all requests that arrived within --seconds, or until SIGUSR1, have ended; with
--concurrency at once. docs/sim.md says what the truth file has."""
import argparse
import asyncio
import csv
import gzip
import math
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "serve"))

from vllm.config import Fault, Truth, VllmConfig  # noqa: E402
from vllm.v1.engine.async_llm import AsyncLLM  # noqa: E402
import _ctypes  # noqa: E402,F401  an extension module after the package, as torch is


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=float, default=30)
    p.add_argument("--warm-up", type=float, default=1.0, help="seconds before the first request, as real engines take")
    p.add_argument("--load", type=float, default=0.0, help="seconds that a worker takes to load its model")
    p.add_argument("--workers", type=int, default=2, help="tensor-parallel ranks of each engine")
    p.add_argument("--split", action="store_true", help="one engine for prompts, one that decodes")
    p.add_argument("--kv-store", default="", help="RANK=HOST:PORT: this rank saves its cache there")
    p.add_argument("--decode-socket", default="", help="with --split: the decode engine attaches to this sysomd, of another node")
    p.add_argument("--speculate", type=int, default=0, help="tokens that a draft proposes")
    p.add_argument("--synchronous", action="store_true", help="schedule a step when the one before has ended")
    p.add_argument("--traffic", help="CSV of arrivals and token counts; without it they are drawn")
    p.add_argument("--requests-per-second", type=float, default=2.0)
    p.add_argument("--concurrency", type=int, default=0, help="so many clients, each with its next request when one ends")
    p.add_argument("--prompt-scale", type=float, default=0.4, help="prompts are so many times as long")
    p.add_argument("--output-scale", type=float, default=0.4, help="answers are so many times as long")
    p.add_argument("--blocks", type=int, default=8192, help="of the key-value cache")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--fault", action="append", default=[], type=Fault.parse)
    p.add_argument("--truth", default="")
    return p.parse_args()


def drawn(seed):
    """Gaps in seconds (mean 1), prompt and output tokens: bursts, and long tails on both sides."""
    rng = random.Random(seed)
    while True:
        yield (rng.expovariate(1.0) if rng.random() < 0.8 else 0.02 + rng.expovariate(1 / 0.9),
               int(min(7500, 40 + rng.lognormvariate(math.log(1100), 0.9))),
               int(min(1000, 2 + rng.lognormvariate(math.log(150), 0.8))))


def recorded(path):
    """The same of a file of Azure's or Mooncake's columns; its mean gap becomes 1."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="ascii") as f:
        rows = list(csv.reader(f))[1:]

    def seconds(text):
        if ":" not in text:
            return float(text) / 1e3
        hour, minute, second = text.split(" ")[1].split(":")
        return int(hour) * 3600 + int(minute) * 60 + float(second)
    times = [seconds(r[0]) for r in rows]
    mean = (times[-1] - times[0]) / (len(times) - 1)
    while True:
        last = times[0]
        for at, row in zip(times, rows):
            yield (at - last) / mean, int(row[1]), int(row[2])
            last = at


def arrivals(o):
    for gap, prompt, output in recorded(o.traffic) if o.traffic else drawn(o.seed):
        yield (gap / o.requests_per_second, max(1, int(prompt * o.prompt_scale)), max(1, int(output * o.output_scale)))


class Server:
    def __init__(self, o):
        def config(**more):
            return VllmConfig(tensor_parallel_size=o.workers, async_scheduling=not o.synchronous,
                              num_speculative_tokens=o.speculate, num_gpu_blocks=o.blocks,
                              max_num_seqs=max(64, o.concurrency), seed=o.seed, truth=o.truth,
                              faults=o.fault, kv_store=o.kv_store, load_seconds=o.load, start_ns=self.start_ns, **more)
        self.start_ns = time.monotonic_ns()
        self.truth = Truth(o.truth)
        if o.split:
            self.engines = [AsyncLLM(config(engine="prefill", kv_role="kv_producer")),
                            AsyncLLM(config(engine="decode", kv_role="kv_consumer", first_device=o.workers,
                                            sysomd_socket=o.decode_socket))]
        else:
            self.engines = [AsyncLLM(config(engine="engine"))]
        for engine in self.engines:
            engine.wait_until_ready()
        self.split, self.count = o.split, 0

    async def serve(self, request_id, prompt, tokens):
        """One request from its arrival to its last token. This task may come late, so the truth has two times of each:
        one before it and one after it."""
        arrival, stamps, handed = time.monotonic_ns(), [], 0
        ids, left, transfer = list(range(prompt)), tokens, None
        for i, engine in enumerate(self.engines):
            wanted = 1 if self.split and i == 0 else left
            if wanted < 1:
                break
            async for output in engine.generate(ids, wanted, request_id, transfer):
                stamps += [(output.delivered_ns, time.monotonic_ns())] * len(output.new_token_ids)
                handed = handed or output.handed_ns
            transfer, left = output.kv_transfer_params, left - 1
            ids = ids + [7]
        (after, first_token), (end_after, end) = stamps[0], stamps[-1]
        self.truth.write(request=request_id, arrival_ns=arrival, arrival_before_ns=handed, first_token_after_ns=after,
                         first_token_ns=first_token, end_after_ns=end_after, end_ns=end, prompt_tokens=prompt,
                         tokens=len(stamps))

    async def run(self, o):
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, over.set)
        for engine in self.engines:
            engine.start()
        await asyncio.sleep(o.warm_up)
        loop.call_later(o.seconds, over.set)
        if o.concurrency:
            load, rng = arrivals(o), random.Random(o.seed + 1)
            clients = [asyncio.ensure_future(self.client(load, rng)) for _ in range(o.concurrency)]
            await over.wait()
            for client in clients:
                client.cancel()
        else:
            await self.arrive(o, over)

    def next_request(self, rng, prompt, tokens):
        self.count += 1
        return self.serve(f"chatcmpl-{rng.getrandbits(128):032x}", prompt, tokens)

    async def client(self, load, rng):
        for _, prompt, tokens in load:
            await self.next_request(rng, prompt, tokens)

    async def arrive(self, o, over):
        loop = asyncio.get_running_loop()
        ended, tasks = asyncio.ensure_future(over.wait()), set()
        rng, due = random.Random(o.seed + 1), loop.time()
        for gap, prompt, tokens in arrivals(o):
            due += gap
            await asyncio.wait([ended], timeout=max(0.0, due - loop.time()))
            if ended.done():
                break
            task = asyncio.ensure_future(self.next_request(rng, prompt, tokens))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks)


def main():
    o = options()
    server = Server(o)
    server.truth.write(job="serve", pid=os.getpid(), start_ns=server.start_ns, workers=o.workers, split=o.split, seed=o.seed)
    print(f"serve_sim: ready, pid {os.getpid()}", file=sys.stderr, flush=True)
    asyncio.run(server.run(o))
    for engine in server.engines:
        engine.shutdown()
    print(f"serve_sim: {server.count} requests", file=sys.stderr)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""What an engine is told, and the faults that act in it."""
import dataclasses
import json
import os
import time


@dataclasses.dataclass
class Fault:
    """KIND:rank=R:start=S:seconds=S:every=S:size=X; times are in seconds from the engine's start."""
    kind: str
    rank: int = 0
    start: float = 0.0
    seconds: float = 1e9
    every: float = 0.0  # 0: once and lasting; else once in each such time
    size: float = 2.0

    KINDS = ("slow", "kernel", "schedule", "sample", "spike", "ghost", "expert", "kv", "triton", "eager", "gil",
             "fallback")

    @classmethod
    def parse(cls, text):
        kind, *parts = text.split(":")
        if kind not in cls.KINDS:
            raise ValueError(f"unknown fault {kind!r}; one of {', '.join(cls.KINDS)}")
        fault = cls(kind)
        for part in parts:
            key, _, value = part.partition("=")
            if key not in ("rank", "start", "seconds", "every", "size"):
                raise ValueError(f"unknown part {part!r} of fault {text!r}")
            setattr(fault, key, type(getattr(fault, key))(float(value)))
        return fault


@dataclasses.dataclass
class VllmConfig:
    """Rates are of a made-up model on a made-up GPU: nanoseconds of a whole step."""
    engine: str = "e0"
    tensor_parallel_size: int = 2
    first_device: int = 0
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    block_size: int = 16
    num_gpu_blocks: int = 8192
    async_scheduling: bool = True
    num_speculative_tokens: int = 0
    acceptance: float = 0.7  # chance that a proposed token is accepted
    kv_role: str = ""  # "", "kv_producer" or "kv_consumer"
    kv_bytes_per_token: int = 131072
    kv_bytes_per_second: float = 4e9
    kv_store: str = ""  # RANK=HOST:PORT
    sysomd_socket: str = ""  # of the engine's processes, if it is not this process's
    load_seconds: float = 0.0
    layers: int = 4
    base_ns: int = 25_000_000
    token_ns: int = 100_000
    context_ns: int = 3000
    seed: int = 1
    start_ns: int = 0  # CLOCK_MONOTONIC
    truth: str = ""
    faults: list = dataclasses.field(default_factory=list)

    def acting(self, kind, rank=None):
        """The fault of this kind that acts now; each of a repeated one is seen until take() ends it."""
        elapsed = (time.monotonic_ns() - self.start_ns) / 1e9
        for f in self.faults:
            if f.kind != kind or (rank is not None and f.rank != rank):
                continue
            since = elapsed - f.start
            if not 0 <= since < f.seconds:
                continue
            if not f.every:
                return f
            turn = int(since / f.every)
            if turn != getattr(f, "turn", -1):
                f.turn = turn
                return f
        return None


class Truth:
    """A file of JSON lines that several processes append to, a line at a time."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if path else -1

    def write(self, **line):
        if self.fd >= 0:
            os.write(self.fd, (json.dumps(line) + "\n").encode())

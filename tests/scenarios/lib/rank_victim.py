# SPDX-License-Identifier: Apache-2.0
"""A training rank in Python for the scenarios, started by torchrun: a batch is loaded, kernels run on the
simulated node, the gradients are reduced, steps are logged. It knows nothing of who watches it.

    torchrun --nproc_per_node 4 rank_victim.py --dir DIR --loader direct|client|worker --seconds N

Ends when DIR/stop is there. What DIR/orders says is done, a line "RANK WORD VALUE" each; words: gil SECONDS (a thread computes in
Python), codec bz2|zlib (how the storage keeps its blocks from now on). DIR/truth.jsonl gets the steps.
"""
import argparse
import bz2
import ctypes
import json
import logging
import mmap
import os
import queue
import random
import sys
import threading
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../sim"))

import simgpu  # noqa: E402

LAYERS = 8
READ_BYTES = 64 << 10  # a batch, read directly
BLOCK_BYTES = 256 << 10
DEAR_BATCH_S = 0.09
LOG = logging.getLogger("train")


def exchange_by_file(directory, rank):
    """Rank 0's bytes reach everybody through a file."""
    path = os.path.join(directory, "unique-id." + os.environ.get("TORCHELASTIC_RUN_ID", "0"))

    def exchange(raw):
        if rank == 0:
            with open(path + ".new", "wb") as f:
                f.write(raw)
            os.rename(path + ".new", path)
        while not os.path.exists(path):
            time.sleep(0.02)
        with open(path, "rb") as f:
            return f.read()
    return exchange


# ---- three ways to get a batch ----

class DirectLoader:
    """Reads its shard past the page cache."""

    def __init__(self, o, rank):
        path = os.path.join(o.dir, f"shard-{rank}")
        with open(path, "wb") as f:
            f.write(os.urandom(4 << 20))
            os.fsync(f.fileno())
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.buffer, self.at = mmap.mmap(-1, READ_BYTES), 0

    def next_batch(self):
        self.at = (self.at + READ_BYTES) % (4 << 20)
        return os.preadv(self.fd, [self.buffer], self.at)


class StorageClient(threading.Thread):
    """Fetches blocks ahead of time, expands and checks them, in a thread of its own."""

    def __init__(self, o, rank):
        super().__init__(name="storage-client", daemon=True)
        rng = random.Random(rank)
        words = [bytes([rng.randrange(256) for _ in range(24)]) for _ in range(4000)]
        plain = b"".join(rng.choice(words) for _ in range(BLOCK_BYTES // 24))
        self.sum = zlib.crc32(plain)
        self.blocks = {"zlib": zlib.compress(plain, 1), "bz2": bz2.compress(plain, 9)}
        self.codec, self.ready = "zlib", queue.Queue(1)
        # a batch takes longer than a step with the dear codec, however fast the machine is; the first time is cold
        took = []
        for _ in range(6):
            begin = time.thread_time()
            bz2.decompress(self.blocks["bz2"])
            took.append(time.thread_time() - begin)
        self.count = max(1, round(DEAR_BATCH_S / min(took)))

    def expand_block(self):
        if self.codec == "bz2":
            return bz2.decompress(self.blocks["bz2"])
        return zlib.decompress(self.blocks["zlib"])

    def verify_checksum(self, plain):
        if zlib.crc32(plain) != self.sum:
            raise OSError("a block is damaged")

    def fetch_blocks(self, count):
        for _ in range(count):
            self.verify_checksum(self.expand_block())

    def run(self):
        ctypes.CDLL(None).prctl(15, b"storage-client", 0, 0, 0)  # PR_SET_NAME
        while True:
            self.fetch_blocks(self.count)
            self.ready.put(b"")

    def next_batch(self):
        return self.ready.get()


def make_worker_loader(o, rank):
    """PyTorch's own: a worker process that asks a storage server for every batch."""
    import socket

    import torch

    class RemoteSamples(torch.utils.data.IterableDataset):
        def __iter__(self):
            s = socket.socket(socket.AF_UNIX)
            s.connect(os.path.join(o.dir, "storage.sock"))
            s.sendall(bytes([rank]))
            while True:
                yield read_sample(s)

    def read_sample(s):
        s.sendall(b"g")
        left = READ_BYTES
        while left:
            left -= len(s.recv(left))
        return torch.zeros(16)

    class Loader:
        def __init__(self):
            torch.set_num_threads(1)
            data = torch.utils.data.DataLoader(RemoteSamples(), batch_size=4, num_workers=1,
                                               prefetch_factor=2)
            self.batches = iter(data)

        def next_batch(self):
            return next(self.batches)

    return Loader()


def make_loader(o, rank):
    if o.loader == "direct":
        return DirectLoader(o, rank)
    if o.loader == "worker":
        return make_worker_loader(o, rank)
    client = StorageClient(o, rank)
    client.start()
    return client


# ---- orders ----

def gil_hog(seconds):
    end, value = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for i in range(20000):
            value = (value + i) & 0xffff


class Orders:
    def __init__(self, path, rank, loader):
        self.path, self.rank, self.loader, self.done = path, rank, loader, 0

    def obey(self):
        if os.path.getsize(self.path) <= self.done:
            return
        with open(self.path, encoding="ascii") as f:
            f.seek(self.done)
            text = f.read()
        text = text[:text.rfind("\n") + 1]
        self.done += len(text)
        for line in text.splitlines():
            rank, word, value = line.split(" ")
            if int(rank) != self.rank:
                continue
            if word == "gil":
                threading.Thread(target=gil_hog, args=(float(value),), name="hog",
                                 daemon=True).start()
            elif word == "codec":
                self.loader.codec = value


def is_over(directory, rank, step):
    """Rank 0 says after which step all end: nobody else can be that far yet."""
    end = os.path.join(directory, "end-after")
    if rank == 0 and not os.path.exists(end) and os.path.exists(os.path.join(directory, "stop")):
        with open(end + ".new", "w", encoding="ascii") as f:
            f.write(str(step + 4))
        os.rename(end + ".new", end)
    if not os.path.exists(end):
        return False
    with open(end, encoding="ascii") as f:
        return step >= int(f.read())


# ---- a step ----

def log_layer(layer, step, rng):
    for part in range(160):
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("step %d layer %d part %d: mean %.6f std %.6f max %.6f", step, layer, part,
                      rng.random(), rng.random(), rng.random())


def train_step(gpu, rng, step):
    def us(n):
        return n * 1000 * (1 + 0.01 * rng.gauss(0, 1))
    gpu.copy_in(1 << 20)
    gpu.kernel("embedding_kernel(float*, long const*)", us(150))
    for layer in range(LAYERS):
        gpu.kernel("layer_norm_kernel(float*)", us(60), (512, 1, 1))
        gpu.kernel("gemm_f32_128x128_tn(qkv)", us(900), (768, 1, 1), (256, 1, 1))
        gpu.kernel("attention_forward_kernel(float*)", us(1100), (384, 1, 1))
        log_layer(layer, step, rng)
        if layer % 2 == 1:
            gpu.synchronize()  # somebody looks at an activation
    for layer in range(LAYERS):
        gpu.kernel("attention_backward_kernel(float*)", us(1900), (384, 1, 1), (256, 1, 1))
        gpu.kernel("gemm_f32_128x256_nt(wgrad)", us(2300), (1024, 1, 1), (256, 1, 1))
        if layer % 2 == 1:
            gpu.allreduce(48 << 20)
    gpu.join_comm()
    for _ in range(4):
        gpu.kernel("adam_kernel(float*, float*, float*)", us(250), (320, 1, 1), (512, 1, 1))
    gpu.copy_out(4)
    gpu.synchronize()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir", required=True)
    p.add_argument("--loader", default="direct")
    p.add_argument("--log-level", default="INFO")
    o = p.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(filename=os.path.join(o.dir, f"train-{rank}.log"), level=o.log_level,
                        format="%(asctime)s %(name)s %(levelname)s %(process)d %(message)s")
    rng = random.Random(rank)
    loader = make_loader(o, rank)
    orders = Orders(os.path.join(o.dir, "orders"), rank, loader)
    gpu = simgpu.Gpu(int(os.environ["LOCAL_RANK"]))
    gpu.init_comm(rank, world, exchange_by_file(o.dir, rank))
    step = 0
    with open(os.path.join(o.dir, "truth.jsonl"), "a", buffering=1, encoding="ascii") as truth:
        while not is_over(o.dir, rank, step):
            begin = time.monotonic_ns()
            orders.obey()
            gpu.begin_step(None)
            loader.next_batch()
            train_step(gpu, rng, step)
            truth.write(json.dumps({"rank": rank, "step": step, "begin_ns": begin,
                                    "end_ns": time.monotonic_ns()}) + "\n")
            step += 1
    sys.stdout.flush()
    os._exit(0)  # a loader's threads are in the middle of something


if __name__ == "__main__":
    main()

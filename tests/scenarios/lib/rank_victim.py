# SPDX-License-Identifier: Apache-2.0
"""A training rank in Python for the scenarios, started by torchrun: a batch is loaded, kernels run on the
simulated node, the gradients are reduced, steps are logged. It knows nothing of who watches it.

    torchrun --nproc_per_node 4 rank_victim.py --dir DIR --loader none|direct|client|worker|augment|two|
        locked

Ends when DIR/stop is there. What DIR/orders says is done, a line each: "RANK start FAULT", "RANK end NAME" (the faults
of rank_faults.py; RANK may be `all`), "RANK codec bz2|zlib" (how the storage keeps its blocks from now on).
DIR/truth.jsonl gets the steps.
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
sys.path[:0] = [HERE, os.path.join(HERE, "../../../sim")]

import rank_faults  # noqa: E402
import simgpu  # noqa: E402

LAUNCH_BLOCKING = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"  # the simulated driver does not know it

LAYERS = 8
READ_BYTES = 64 << 10  # a batch, read directly
BLOCK_BYTES = 256 << 10
DEAR_BATCH_S = 0.09
RUN = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
TABLE = bytes(reversed(range(256)))
LOG = logging.getLogger("train")


def exchange_by_file(directory, rank):
    """Rank 0's bytes reach everybody through a file."""
    path = os.path.join(directory, f"unique-id.{RUN}")

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


class NoLoader:
    """The batch is in memory."""

    def next_batch(self):
        return None


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


def make_augment_loader(o, rank):
    """PyTorch's own: a worker process that computes each batch in Python."""
    import torch

    path = os.path.join(o.dir, f"rounds-{rank}")

    class Samples(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                yield self.augment()

        def __init__(self):
            super().__init__()
            self.count = 0

        def augment(self):
            usual, one_in, long = 20, 0, 0
            if os.path.exists(path):
                with open(path, encoding="ascii") as f:
                    usual, one_in, long = map(int, (f.read() + " 0 0").split()[:3])
            self.count += 1
            rank_faults.loop_in_python(long if one_in and self.count % one_in == 0 else usual)
            return torch.zeros(16)

    class Loader:
        def __init__(self):
            torch.set_num_threads(1)
            self.batches = iter(torch.utils.data.DataLoader(Samples(), batch_size=2, num_workers=1, prefetch_factor=2))

        def next_batch(self):
            return next(self.batches)

    return Loader()


def make_two_loader(o, rank):
    """PyTorch's own: two worker processes, whose batches come in turn."""
    import torch

    path = os.path.join(o.dir, f"mount-{rank}")

    def read_mount(number):
        if number == 1 and os.path.exists(path):
            with open(path, encoding="ascii") as f:
                time.sleep(int(f.read()) / 1e3)

    class Samples(torch.utils.data.IterableDataset):
        def __iter__(self):
            number = torch.utils.data.get_worker_info().id
            while True:
                read_mount(number)
                yield torch.zeros(16)

    class Loader:
        def __init__(self):
            torch.set_num_threads(1)
            self.batches = iter(torch.utils.data.DataLoader(Samples(), batch_size=1, num_workers=2, prefetch_factor=2))

        def next_batch(self):
            return next(self.batches)

    return Loader()


def make_locked_loader(o, rank):
    """PyTorch's own: a worker process that locks the index of the node's cache for each sample."""
    import fcntl

    import torch

    path = os.path.join(o.dir, f"index-{rank}")

    class Samples(torch.utils.data.IterableDataset):
        def __iter__(self):
            with open(path, "a", encoding="ascii") as f:
                while True:
                    fcntl.flock(f, fcntl.LOCK_EX)
                    fcntl.flock(f, fcntl.LOCK_UN)
                    yield torch.zeros(16)

    class Loader:
        def __init__(self):
            torch.set_num_threads(1)
            self.batches = iter(torch.utils.data.DataLoader(Samples(), batch_size=1, num_workers=1, prefetch_factor=2))

        def next_batch(self):
            return next(self.batches)

    return Loader()


def make_loader(o, rank):
    if o.loader == "none":
        return NoLoader()
    if o.loader == "direct":
        return DirectLoader(o, rank)
    if o.loader == "worker":
        return make_worker_loader(o, rank)
    if o.loader == "augment":
        return make_augment_loader(o, rank)
    if o.loader == "two":
        return make_two_loader(o, rank)
    if o.loader == "locked":
        return make_locked_loader(o, rank)
    client = StorageClient(o, rank)
    client.start()
    return client


# ---- orders ----

class Orders:
    def __init__(self, path, rank, loader, faults):
        self.path, self.rank, self.loader, self.faults, self.done = path, rank, loader, faults, 0

    def obey(self):
        if os.path.getsize(self.path) <= self.done:
            return
        with open(self.path, encoding="ascii") as f:
            f.seek(self.done)
            text = f.read()
        text = text[:text.rfind("\n") + 1]
        self.done += len(text)
        for line in text.splitlines():
            who, word, value = line.split(" ", 2)
            if who not in ("all", str(self.rank)):
                continue
            if word == "start":
                self.faults.start(value)
            elif word == "end":
                self.faults.end(value)
            elif word == "codec":
                self.loader.codec = value


def is_over(directory, group, rank, step):
    """The first rank of a group says after which step all of it end: nobody else can be that far yet."""
    end = os.path.join(group, "end-after")
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


class Work:
    """What a step has to do."""

    def __init__(self):
        self.layers, self.copies, self.batch, self.host = LAYERS, 4, 1.0, 1.0
        self.slower, self.renamed, self.grids = {}, {}, {}
        self.pace = 1.0  # of all kernels
        self.forward_only = False


class Rank:
    """One rank of the job."""

    def __init__(self, o):
        self.dir, self.rank, self.world = o.dir, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.rng, self.work = random.Random(self.rank), Work()
        self.group = o.dir, self.rank, self.world  # of the ranks that it reduces with: a directory, its number, how many
        self.faults = rank_faults.Faults(self)
        self.loader = make_loader(o, self.rank)
        self.gpu = simgpu.Gpu(int(os.environ["LOCAL_RANK"]))
        self.plain = self.rng.randbytes(64 << 10)
        self.pack_count = self.packs_in(o.host_ms)
        self.matrix = None
        if o.tensor:
            import torch
            torch.set_num_threads(1)
            self.matrix = torch.rand(o.tensor, o.tensor)
        self.gloo = None
        if o.gloo:
            import torch.distributed
            self.gloo = torch.distributed
            self.gloo.init_process_group("gloo")
            self.tensor = torch.zeros(1024)

    def packs_in(self, ms):
        """How often this CPU packs a batch in so many ms: an amount, so that whatever holds it up is seen."""
        took = []
        for _ in range(8):
            begin = time.thread_time()
            self.pack_batch(1)
            took.append(time.thread_time() - begin)
        return max(1, round(ms / 1e3 / min(took))) if ms else 0

    def pack_batch(self, count):
        for _ in range(count):
            self.plain.translate(TABLE)

    def kernel(self, name, us, grid=(256, 1, 1), block=(128, 1, 1), stream=0):
        w = self.work
        name = w.renamed.get(name, name)
        grid = w.grids.get(name, grid)
        ns = us * 1000 * (1 + 0.01 * self.rng.gauss(0, 1)) * w.batch * w.pace * w.slower.get(name, 1)
        if w.batch != 1:
            grid = (max(1, round(grid[0] * w.batch)), *grid[1:])
        self.gpu.kernel(name, ns, grid, block, stream)
        if LAUNCH_BLOCKING:
            self.gpu.synchronize()

    def step(self, step):
        w, gpu = self.work, self.gpu
        self.faults.at("start", step)
        self.loader.next_batch()
        self.pack_batch(round(self.pack_count * w.host))
        if self.matrix is not None:
            for _ in range(8):
                self.matrix.exp()
        for _ in range(w.copies):
            gpu.copy_in(1 << 20)
        self.faults.at("copied", step)
        self.forward(step)
        self.faults.at("middle", step)
        if not w.forward_only:
            self.backward()
        if self.gloo:
            self.gloo.all_reduce(self.tensor)
        self.faults.at("launched", step)
        gpu.copy_out(4)
        gpu.synchronize()

    def forward(self, step):
        self.kernel("embedding_kernel(float*, long const*)", 150)
        for layer in range(self.work.layers):
            self.kernel("layer_norm_kernel(float*)", 60, (512, 1, 1))
            self.kernel("gemm_f32_128x128_tn(qkv)", 900, (768, 1, 1), (256, 1, 1))
            self.kernel("attention_forward_kernel(float*)", 1100, (384, 1, 1))
            log_layer(layer, step, self.rng)
            if layer % 2 == 1:
                self.gpu.synchronize()  # somebody looks at an activation

    def backward(self):
        for layer in range(self.work.layers):
            self.kernel("attention_backward_kernel(float*)", 1900, (384, 1, 1), (256, 1, 1))
            self.kernel("gemm_f32_128x256_nt(wgrad)", 2300, (1024, 1, 1), (256, 1, 1))
            if layer % 2 == 1 and layer < LAYERS:
                self.gpu.allreduce(48 << 20)
        self.gpu.join_comm()
        for _ in range(4):
            self.kernel("adam_kernel(float*, float*, float*)", 250, (320, 1, 1), (512, 1, 1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir", required=True)
    p.add_argument("--loader", default="direct")
    p.add_argument("--log-level", default="INFO")
    p.add_argument("--host-ms", type=float, default=0, help="work on the host in each step")
    p.add_argument("--tensor", type=int, default=0, help="torch works on a square of that size in each step")
    p.add_argument("--gloo", action="store_true", help="and an all-reduce on the host")
    p.add_argument("--does", action="append", default=[], help="from the first step on, as an order")
    p.add_argument("--rank-does", action="append", default=[], help="RANK and an order")
    o = p.parse_args()
    rank = Rank(o)
    logging.basicConfig(filename=os.path.join(o.dir, f"train-{rank.rank}.log"), level=o.log_level,
                        format="%(asctime)s %(name)s %(levelname)s %(process)d %(message)s")
    orders = Orders(os.path.join(o.dir, "orders"), rank.rank, rank.loader, rank.faults)
    for text in o.does:
        rank.faults.start(text)
    for text in o.rank_does:
        who, _, order = text.partition(" ")
        if int(who) == rank.rank:
            rank.faults.start(order)
    group, number, size = rank.group
    rank.gpu.init_comm(number, size, exchange_by_file(group, number))
    step = 0
    with open(os.path.join(o.dir, "truth.jsonl"), "a", buffering=1, encoding="ascii") as truth:
        while not is_over(o.dir, group, number, step):
            begin = time.monotonic_ns()
            orders.obey()
            rank.gpu.begin_step(None)
            rank.step(step)
            truth.write(json.dumps({"rank": rank.rank, "run": RUN, "step": step, "begin_ns": begin,
                                    "end_ns": time.monotonic_ns()}) + "\n")
            step += 1
    sys.stdout.flush()
    os._exit(0)  # a loader's threads are in the middle of something


if __name__ == "__main__":
    main()

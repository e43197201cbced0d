# SPDX-License-Identifier: Apache-2.0
"""The faults that `make scenarios` knows, one table: what is injected, into which job, and the verdict that a good
engineer would give. run_case.py runs one of them, run_scenarios.py all.

The ranks are lib/rank_victim.py (lib/rank_faults.py is what can go wrong inside) unless a case says otherwise. In
the words of an injection {pid}, {rank}, {dir}, {nvml}, {disk} and {port} stand for the victim's process, its
number, the job's directory, the NVML file, the disk's number and the storage server's port.
"""
import dataclasses
import typing

HOST = ("--loader", "none", "--host-ms", "5")  # with 5 ms of work on the host in each step


# ---- injections ----

class Order:
    """A fault inside the rank, or inside all of them."""

    def __init__(self, text, every_rank=False):
        self.text, self.every_rank = text, every_rank

    def start(self, s, rank):
        s.order(f"{self.who(rank)} start {s.fill(self.text, rank)}")

    def stop(self, s, rank):
        s.order(f"{self.who(rank)} end {self.text.split()[0]}")

    def who(self, rank):
        return "all" if self.every_rank else rank


class Say:
    """Other words for the ranks or their launcher, and those that take them back."""

    def __init__(self, text, back):
        self.text, self.back = text, back

    def start(self, s, rank):
        s.order(s.fill(self.text, rank))

    def stop(self, s, rank):
        s.order(s.fill(self.back, rank))


class Tool:
    """A program that does it to the rank from outside, until it is ended."""

    def __init__(self, text, urgency=0):
        self.text, self.urgency, self.process = text, urgency, None

    def start(self, s, rank):
        self.process = s.start_tool(s.fill(self.text, rank).split(), self.urgency)

    def stop(self, s, rank):
        s.stop_tool(self.process)


class Storage:
    """The storage server answers one rank late."""

    def __init__(self, ms):
        self.ms = ms

    def start(self, s, rank):
        s.slow_storage(rank, self.ms)

    def stop(self, s, rank):
        s.usual_storage()


class Link:
    """The network of one rank delays and loses packets."""

    def __init__(self, delay_ms, loss_percent):
        self.text = f"{delay_ms} {loss_percent}"

    def start(self, s, rank):
        s.set_link(self.text)

    def stop(self, s, rank):
        s.set_link("0 0")


@dataclasses.dataclass
class Case:
    name: str
    title: str
    causes: typing.Any = None  # accepted; None: a healthy job, which must stay silent
    layers: typing.Any = None  # accepted
    inject: tuple = ()
    job: tuple = HOST  # the ranks' arguments
    named: tuple = ()  # patterns that the verdict or its ledger must hold
    every_rank: bool = False
    kind: str = "slow_rank"
    ranks: typing.Any = None  # accused, where it is not the victim: a function of it
    from_start: tuple = ()  # arguments with which the job has it from its first step
    link: bool = False  # the victim's network is a slow_link.py
    server: bool = False  # there is a storage server
    seconds: float = 25  # to the right verdict
    needs: tuple = ()  # of tests/needs.py
    again: bool = False  # a second rank may have it in the same job


STALLED = ("cpu-host-gap", "cpu")

CASES = [
    Case("stall3", "every third step sleeps 30 ms", *STALLED, (Order("sleep every=3 ms=30"),), named=("sleep",)),
    Case("stall10", "every tenth step sleeps 80 ms", *STALLED, (Order("sleep every=10 ms=80"),), named=("sleep",)),
    Case("stall3_copied", "every third step sleeps 30 ms after its batch was copied", *STALLED,
         (Order("sleep every=3 ms=30 at=copied"),), named=("sleep",)),
    Case("stall10_read", "every tenth step reads 8 MB past the page cache after its batch was copied", "storage-disk",
         "storage", (Order("read_direct every=10 kib=8192 at=copied"),), named=("read_direct",)),
    Case("pipe", "standard output is a pipe that is full on every third step: its reader is slow",
         ("cpu-host-gap", "sw-logging"), ("cpu", "software", "os"),
         (Say("job reader {rank} 25", "job reader {rank} 0"),), job=(*HOST, "--does", "progress every=3 kib=48"),
         named=("pipe",)),
    Case("fsync_log", "every line of the log is synced to the disk", "storage-disk", "storage",
         (Order("log_synced lines=6"),), named=("fsync|log_synced",)),
    Case("lock", "another thread holds a threading.Lock of the step while it waits", *STALLED,
         (Order("lock every=2 ms=30"),), named=("lock",)),
    Case("fresh_pages", "64 MB of fresh pages in each step", "os-faults", "os", (Order("fresh_pages mb=64"),),
         named=("touch_pages|fault",)),
    Case("renice", "the rank has nice 19 beside busy processes of its session", "os-run-queue", "os",
         (Tool("inject.py renice --pid {pid} --nice 19"), Say("job hogs 2", "job hogs 0"))),
    Case("affinity", "the rank's affinity is one CPU, with a busy process on it", "os-run-queue", "os",
         (Tool("inject.py affinity --pid {pid} --cpus 1"), Tool("inject.py hog --cpus 1", -20))),
    Case("cpuset", "the rank's cpuset is one CPU, with a busy process on it", "os-run-queue", "os",
         (Tool("inject.py cpuset --pid {pid} --cpus 1"), Tool("inject.py hog --cpus 1", -20))),
    Case("memory_limit", "a memory limit below what the rank maps: its pages are reclaimed", "os-memory", "os",
         (Tool("inject.py memory --pid {pid} --mb 6 --cold {dir}/mapped-{rank}"),),
         job=(*HOST, "--does", "mapped_file mb=8 cold=0")),
    Case("gloo_delay", "8 ms more on the network of a gloo rank", ("net-transfer",), "network", (Link(8, 0),),
         job=(*HOST, "--gloo"), link=True, needs=("module:torch", "netns")),
    Case("gloo_loss", "3% of the packets of a gloo rank are lost", ("net-retransmits",), "network", (Link(0, 3),),
         job=(*HOST, "--gloo"), link=True, needs=("module:torch", "netns")),
    Case("all_clocks", "the clocks of all GPUs are 15% down", "gpu-clocks", "gpu",
         (Tool("gpu_clock.py --file {nvml} --device all --mhz 1683"),), every_rank=True, kind="uniform"),
    Case("all_host", "the host work of all ranks takes three times as long", ("sw-hot-path",), "software",
         (Order("more_host_work percent=200", True),), every_rank=True, kind="uniform", named=("pack_batch|translate",)),
    Case("warm_up", "healthy: sequences grow at the beginning", job=(*HOST, "--does", "warm_up steps=250")),
    Case("checkpoint", "healthy: rank 0 writes a checkpoint every 50 steps",
         job=(*HOST, "--does", "checkpoint every=50 mb=8")),
    Case("evaluation", "healthy: 12 of 60 steps are evaluation", job=(*HOST, "--does", "evaluate every=60 steps=12")),
    Case("skew", "a lower GPU clock beside sequences of uneven length", ("gpu-clocks",), "gpu",
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1250"),),
         job=(*HOST, "--does", "skew percent=12")),
]
BY_NAME = {c.name: c for c in CASES}
assert len(BY_NAME) == len(CASES)

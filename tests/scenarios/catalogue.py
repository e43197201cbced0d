# SPDX-License-Identifier: Apache-2.0
"""The faults that `make scenarios` knows, one table: what is injected, into which job, and the verdict that a good
engineer would give. run_case.py runs one of them, run_scenarios.py all.

The ranks are lib/rank_victim.py (lib/rank_faults.py is what can go wrong inside) unless a case says otherwise. In
the words of an injection {pid}, {child}, {rank}, {dir}, {nvml}, {disk} and {port} stand for the victim's process, its
data loader's worker, its number, the job's directory, the NVML file, the disk's number and the storage server's port.
"""
import dataclasses
import os
import re
import threading
import typing

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOST = ("--loader", "none", "--host-ms", "2")  # with 2 ms of work on the host in each step
BUSY = ("--loader", "none", "--host-ms", "6")
RUN_AHEAD = "read_loss_rarely"
SHORT = ("--loader", "none", "--host-ms", "0.3", "--does", "short_steps")
LONG = ("--loader", "none", "--host-ms", "20", "--does", "paced percent=2400")
MANY = ("--loader", "none", "--host-ms", "1")  # for eight ranks


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

    def __init__(self, text):
        self.text, self.process = text, None

    def start(self, s, rank):
        self.process = s.start_tool(s.fill(self.text, rank).split())

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
    """The network of one rank delays and loses packets; more: what slow_link.py knows beside."""

    def __init__(self, delay_ms, loss_percent, more=""):
        self.text = f"{delay_ms} {loss_percent} {more}"

    def start(self, s, rank):
        s.set_link(self.text)

    def stop(self, s, rank):
        s.set_link("0 0")


class Aside:
    """Goes on beside the job until it is over."""

    def start(self, s, rank):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(s, rank))
        self.thread.start()

    def stop(self, s, rank):
        self.over.set()
        self.thread.join()


class InTurn(Aside):
    """Each of two ranks for a while, again and again."""

    def __init__(self, text, seconds):
        self.text, self.seconds = text, seconds

    def run(self, s, rank):
        ranks = neighbours(rank)
        while not self.over.is_set():
            tool = s.start_tool(s.fill(self.text, ranks[0]).split())
            self.over.wait(self.seconds)
            s.stop_tool(tool)
            ranks = ranks[1], ranks[0]


class Pulses(Aside):
    """A tool for a while, and for a while not, again and again."""

    def __init__(self, text, on_s, off_s):
        self.text, self.on_s, self.off_s = text, on_s, off_s

    def run(self, s, rank):
        while not self.over.is_set():
            tool = s.start_tool(s.fill(self.text, rank).split())
            self.over.wait(self.on_s)
            s.stop_tool(tool)
            self.over.wait(self.off_s)


class Growing(Aside):
    """The storage server answers one rank later and later."""

    def __init__(self, first_ms, more_ms):
        self.first_ms, self.more_ms = first_ms, more_ms

    def run(self, s, rank):
        ms = self.first_ms
        while not self.over.is_set():
            s.slow_storage(rank, ms)
            self.over.wait(1)
            ms += self.more_ms

    def stop(self, s, rank):
        super().stop(s, rank)
        s.usual_storage()


class StoragePulses(Aside):
    """The storage server answers one rank late for a while, and for a while not, again and again."""

    def __init__(self, ms, on_s, off_s):
        self.ms, self.on_s, self.off_s = ms, on_s, off_s

    def run(self, s, rank):
        while not self.over.is_set():
            s.slow_storage(rank, self.ms)
            self.over.wait(self.on_s)
            s.usual_storage()
            self.over.wait(self.off_s)


class LinkPulses(Aside):
    """The network of one rank is bad for a while, and for a while not, again and again."""

    def __init__(self, text, on_s, off_s):
        self.text, self.on_s, self.off_s = text, on_s, off_s

    def run(self, s, rank):
        while not self.over.is_set():
            s.set_link(self.text)
            self.over.wait(self.on_s)
            s.set_link("0 0")
            self.over.wait(self.off_s)


class Ramp(Aside):
    """A tool with one value after the other, a while each; the last one stays."""

    def __init__(self, text, values, seconds):
        self.text, self.values, self.seconds = text, values, seconds

    def run(self, s, rank):
        for value in self.values:
            tool = s.start_tool(s.fill(self.text.replace("{value}", str(value)), rank).split())
            self.over.wait(self.seconds if value != self.values[-1] else None)
            s.stop_tool(tool)
            if self.over.is_set():
                return


class Of:
    """An injection into other ranks than the victim: a function of it."""

    def __init__(self, ranks, *injections):
        self.ranks, self.injections = ranks, injections

    def start(self, s, rank):
        for injection, r in zip(self.injections, self.ranks(rank)):
            injection.start(s, r)

    def stop(self, s, rank):
        for injection, r in reversed(list(zip(self.injections, self.ranks(rank)))):
            injection.stop(s, r)


def others(rank):
    return tuple(r for r in range(4) if r != rank)


def neighbours(rank):
    return rank, (rank + 1) % 4


def next_one(rank):
    return ((rank + 1) % 4,)


def first_rank(_):
    return (0,)


def three_of_eight(rank):
    return tuple((rank + k) % 8 for k in (0, 3, 5))


def nobody(_):
    return ()


def all_of(_):
    return range(4)


@dataclasses.dataclass
class Case:
    name: str
    title: str
    causes: typing.Any = None  # accepted; None: a healthy job, which must stay silent
    inject: tuple = ()
    job: tuple = HOST  # the ranks' arguments
    named: tuple = ()  # patterns that the verdict or its ledger must hold
    every_rank: bool = False
    kind: str = "slow_rank"
    ranks: typing.Any = None  # accused, where it is not the victim: a function of it
    from_start: tuple = ()  # arguments with which the job has it from its first step
    or_all: bool = False  # all ranks may be named as well: they wait for the victim on the host, or for the same CPUs
    link: bool = False  # the victim's network is a slow_link.py
    server: bool = False  # there is a storage server
    seconds: float = 25  # to the right verdict
    needs: tuple = ()  # of tests/needs.py
    world: int = 4  # ranks of the job
    restarts: bool = False  # torchrun starts the job again before, as a rank was killed
    ends: bool = True  # the job ends by itself
    beside: typing.Any = None  # another case's fault at the same time, two ranks further

    def layers(self):
        return {layers()[c] for c in as_set(self.causes)}

    def second(self):
        """Whether a second rank of the same job can have it."""
        return self.ends and not (self.link or self.beside or self.every_rank or self.from_start or
                                  any("{" in word for word in self.job))


STALLED = "cpu-sleep"

CASES = [
    Case("stall3", "every third step sleeps 60 ms", STALLED, (Order("sleep every=3 ms=60"),), named=("sleep",)),
    Case("stall10", "every tenth step sleeps 150 ms", STALLED, (Order("sleep every=10 ms=150"),), named=("sleep",)),
    Case("stall3_copied", "every third step sleeps 60 ms after its batch was copied", STALLED,
         (Order("sleep every=3 ms=60 at=copied"),), named=("sleep",)),
    Case("stall10_read", "every tenth step reads 32 MB past the page cache after its batch was copied", "storage-disk",
         (Order("read_direct every=10 kib=32768 at=copied"),), named=("read_direct",)),
    Case("pipe", "standard output is a pipe that is full on every third step: its reader is slow",
         "sw-output",
         (Say("job reader {rank} 30", "job reader {rank} 0"),), job=(*HOST, "--does", "progress every=3 kib=48"),
         named=("pipe",)),
    Case("fsync_log", "every line of the log is synced to the disk", "storage-sync",
         (Order("log_synced lines=30"),), named=("fsync|log_synced",)),
    Case("lock", "another thread holds a threading.Lock of the step while it waits", "cpu-lock",
         (Order("lock every=2 ms=30"),), named=("lock",)),
    Case("fresh_pages", "64 MB of fresh pages in each step", "os-faults", (Order("fresh_pages mb=64"),),
         named=("touch_pages|fault",)),
    Case("renice", "the rank has nice 19 beside busy processes of its session", "os-run-queue",
         (Tool("inject.py renice --pid {pid} --nice 19"), Say("job hogs 2", "job hogs 0")), job=BUSY),
    Case("affinity", "the rank's affinity is one CPU, with a real-time process on it", "os-run-queue",
         (Tool("inject.py affinity --pid {pid} --cpus 1"), Tool("cpu_hog.py --cpu 1")), job=BUSY),
    Case("cpuset", "the rank's cpuset is one CPU, with a real-time process on it", "os-run-queue",
         (Tool("inject.py cpuset --pid {pid} --cpus 1"), Tool("cpu_hog.py --cpu 1")), job=BUSY),
    Case("memory_limit", "a memory limit below what the rank maps: its pages are reclaimed", "os-memory",
         (Tool("inject.py memory --pid {pid} --mb 2 --cold {dir}/mapped-{rank}"),),
         job=(*HOST, "--does", "mapped_file mb=3 cold=0 stride=1")),
    Case("gloo_delay", "8 ms more on the network of a gloo rank", ("net-transfer", "net-wait"), (Link(8, 0),),
         job=(*HOST, "--gloo"), link=True, or_all=True, needs=("module:torch", "netns")),
    Case("gloo_loss", "3% of the packets of a gloo rank are lost", ("net-retransmits", "net-wait"), (Link(0, 3),),
         job=(*HOST, "--gloo"), link=True, or_all=True, needs=("module:torch", "netns")),
    Case("all_clocks", "the clocks of all GPUs are 15% down", "gpu-clocks",
         (Tool("gpu_clock.py --file {nvml} --device all --mhz 1683"),), every_rank=True, kind="uniform"),
    Case("all_host", "the host work of all ranks takes twice as long", ("sw-hot-path",),
         (Order("more_host_work percent=100", True),), job=BUSY, every_rank=True, kind="uniform",
         named=("pack_batch|translate",)),
    Case("warm_up", "healthy: sequences grow at the beginning", job=(*HOST, "--does", "warm_up steps=250")),
    Case("checkpoint", "healthy: rank 0 writes a checkpoint every 50 steps",
         job=(*HOST, "--does", "checkpoint every=50 mb=8")),
    Case("checkpoint_long", "healthy: rank 0 writes a checkpoint for 2 s every 50 steps",
         job=(*HOST, "--does", "checkpoint every=50 mb=8 ms=2000")),
    Case("sweep_heap", "healthy: Python's collector goes through the whole heap every 100 steps",
         job=(*HOST, "--does", "sweep_heap every=100")),
    Case("evaluation", "healthy: 12 of 60 steps are evaluation", job=(*HOST, "--does", "evaluate every=60 steps=12")),
    Case("mixed", "healthy: checkpoints, evaluation, and sequences of another length in each step",
         job=(*HOST, "--does", "checkpoint every=100 mb=8 ms=500", "--does", "evaluate every=150 steps=20",
              "--does", "lengths percent=20")),
    Case("skew", "a lower GPU clock beside sequences of uneven length", ("gpu-clocks",),
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1250"),),
         job=(*HOST, "--does", "skew percent=12")),
    # the launch thread waits
    Case("sigstop", "SIGSTOP, and SIGCONT 60 ms later, thrice a second", "os-stopped",
         (Tool("inject.py stop --pid {pid} --ms 60 --every 300"),)),
    Case("freezer", "the freezer of its cgroup stops it for 60 ms, thrice a second", "os-stopped",
         (Tool("inject.py freeze --pid {pid} --ms 60 --every 300"),)),
    Case("strace", "somebody traces its system calls", "os-stopped", (Tool("strace -f -qq -o /dev/null -p {pid}"),)),
    Case("flock", "another process holds a lock file of the step", "cpu-lock",
         (Tool("inject.py flock --path {dir}/lock-{rank} --ms 50 --every 100"),),
         job=(*HOST, "--does", "flock path={dir}/lock"), named=("flock",)),
    Case("child", "each step runs a program and waits for it", "cpu-process", (Order("child ms=30"),),
         named=("wait|child",)),
    Case("fifo", "the writer of a named pipe that each step reads is slow", "cpu-process", (Order("fifo ms=30"),),
         named=("pipe|fifo",)),
    Case("server", "a server answers a question of the step late, over TCP", "net-wait",
         (Storage(30),), job=(*HOST, "--does", "ask_server port={port}"), server=True,
         named=("recv|ask_server",)),
    Case("worker", "a data loader's worker waits for its storage", "storage-loader", (Storage(40),),
         job=("--loader", "worker"), server=True, needs=("module:torch",)),
    Case("mapped_cold", "major page faults in a mapped file that the page cache lost", ("os-faults", "storage-disk"),
         (Order("mapped_file mb=6 cold=1"),), named=("mapped_file|fault",)),
    Case("disk_neighbour", "somebody else writes to the disk, past the page cache, that the rank reads from",
         "storage-disk", (Tool("inject.py write --dir {dir} --threads 8"),),
         job=(*HOST, "--rank-does", "{rank} read_direct every=1 kib=512"), named=("read_direct|vda",)),
    Case("disk_limit", "an I/O limit of its cgroup holds the rank's reads", ("storage-limit", "storage-disk"),
         (Tool("disk_limit.py --pid {pid} --device {disk} --bytes-per-second 400000"),), job=("--loader", "direct"),
         needs=("blkio-group",)),
    Case("resolver", "a server answers a question of the step late, over UDP", "net-wait",
         (Order("ask_resolver ms=25"),),
         named=("recv|ask_resolver",)),
    Case("http", "an HTTP request of each step to a slow server", "net-wait", (Order("fetch_config ms=30"),),
         named=("recv|readinto|read|fetch_config",)),
    Case("log_daemon", "the log goes to a daemon's local socket, and the daemon is slow", ("cpu-process", "sw-output"),
         (Order("log_to_daemon"),), named=("log_to_daemon|socket",)),
    Case("prefetch", "the thread that prepares the next batch sleeps", ("cpu-lock", "cpu-sleep", "storage-loader"),
         (Order("prefetch ms=90"),),
         named=("prefetch|get|prepare_batch",)),
    Case("save5", "every fifth step writes 32 MB and syncs them", "storage-sync", (Order("save_every every=5 mb=32"),),
         named=("save_every|fsync",)),
    Case("evict", "somebody drops the file that each step reads from the page cache", "storage-disk",
         (Tool("inject.py evict --path {dir}/cached-{rank} --ms 20"),),
         job=(*HOST, "--rank-does", "{rank} read_cached mb=16"), named=("read_cached|file",)),
    Case("worker_stop", "a data loader's worker is stopped now and then", "storage-loader",
         (Tool("inject.py pause_worker --pid {pid} --path multiprocessing|rank_victim --ms 150 --every 300"),),
         job=("--loader", "worker"),
         server=True, needs=("module:torch",)),
    # the launch thread computes
    Case("python", "a loop in Python in each step", "cpu-python", (Order("augment_in_python"),),
         named=("augment_in_python",)),
    Case("pickle", "each step pickles a large sample", ("cpu-function", "cpu-python"), (Order("serialize"),),
         named=("serialize|pickle|save",)),
    Case("garbage", "the garbage collector goes through a large heap in each step", ("cpu-function", "cpu-python"),
         (Order("collect_garbage"),), named=("gc|collect",)),
    Case("profiler", "a profiler in Python interrupts the main thread 300 times a second", "cpu-python",
         (Order("profile_by_signal hz=300"),), named=("on_tick",)),
    Case("log_debug", "the log level of one rank is DEBUG", ("cpu-python", "sw-logging"),
         (Order("log_debug"),), named=("log",)),
    Case("gil", "a thread that computes in Python", "cpu-gil", (Order("gil"),), named=("gil_hog",)),
    Case("pollers", "four threads of the process poll without the GIL, on the one CPU that it may use", "os-run-queue",
         (Tool("inject.py affinity --pid {pid} --cpus 1"), Order("threads count=4")), job=BUSY, or_all=True),
    Case("omp", "16 threads of OpenMP on two CPUs", ("os-run-queue", "cpu-function"),
         (Order("omp count=16"),), job=("--loader", "none", "--tensor", "600"), needs=("module:torch",),
         named=("omp",), or_all=True),
    Case("cpu_limit", "a CPU limit of half of what the rank uses", "os-cpu-limit",
         (Tool("cpu_limit.py --pid {pid} --percent {half}"),), job=("--loader", "none", "--host-ms", "12"),
         needs=("cpu-group",)),
    Case("swap", "its memory is swapped out: a memory limit below its heap", ("os-memory",),
         (Tool("inject.py swap --mb 256"), Tool("inject.py memory --pid {pid} --mb 48"), Order("heap mb=96"))),
    Case("storage_client", "the storage client of one rank has to expand a dear format and takes a whole CPU",
         "storage-client", (Say("{rank} codec bz2", "{rank} codec zlib"),), job=("--loader", "client"),
         named=("bz2|BZ2|expand|decompress",)),
    Case("settrace", "a coverage tool traces the lines of one rank", "cpu-python", (Order("trace_lines"),), job=BUSY,
         named=("on_line",)),
    Case("small_files", "each step opens 1,500 small files", ("cpu-function", "cpu-python"), (Order("small_files"),),
         named=("small_files|open",)),
    Case("regex", "a regular expression that tries everything", ("cpu-function", "cpu-python"),
         (Order("parse_text length=19"),),
         named=("parse_text|match|re|sre",)),
    Case("fork", "each step forks, with a large heap", ("cpu-function", "cpu-process", "os-faults"),
         (Order("fork_heap mb=256"),),
         named=("fork",)),
    Case("map_churn", "threads map and unmap memory all the time", ("os-lock", "os-run-queue", "os-faults"),
         (Order("map_churn"),), or_all=True),
    Case("idle_class", "the rank has SCHED_IDLE beside busy processes", "os-run-queue",
         (Tool("inject.py idle --pid {pid}"), Say("job hogs 2", "job hogs 0")), job=BUSY),
    Case("hogs_all", "busy processes on every CPU", "os-run-queue",
         (Say("job hogs 6", "job hogs 0"),), job=BUSY, every_rank=True, kind="uniform"),
    # the GPU
    Case("clocks", "the clock of one GPU is down: 1,400 of 1,980 MHz", "gpu-clocks",
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1400"),), named=("clock",)),
    Case("thermal", "the GPU is hot and lowers its clock", "gpu-thermal", (Tool(
        "gpu_clock.py --file {nvml} --device {rank} --mhz 1400 --also temperature_c=92 --also throttle=64"),)),
    Case("power", "a power cap lowers the clock of one GPU", "gpu-power", (Tool(
        "gpu_clock.py --file {nvml} --device {rank} --mhz 1400 --also throttle=4"),)),
    Case("copies", "300 more copies from the host to the device", "gpu-copy", (Order("copies count=300"),)),
    Case("copy_link", "copies at 150 MB a second, from the first step on", "gpu-copy",
         from_start=("--env", "{rank}:SIM_COPY_MBPS=150")),
    Case("variant_always", "another variant of one kernel, 30% slower, from the first step on: only the peers show it",
         "gpu-variant", named=("64x64",), from_start=(
             "--rank-does", "{rank} variant name=gemm_f32_128x256_nt(wgrad) to=gemm_f32_64x64_nt(wgrad) percent=30")),
    Case("kernel", "one kernel takes 60% longer", "gpu-kernel",
         (Order("kernel name=gemm_f32_128x256_nt(wgrad) percent=60"),), named=("wgrad",)),
    Case("variant", "another variant of one kernel, 60% slower", "gpu-variant",
         (Order("variant name=gemm_f32_128x256_nt(wgrad) to=gemm_f32_64x64_nt(wgrad) percent=60"),), named=("64x64",)),
    Case("elastic", "one kernel takes 60% longer, after a rank died and all were started again", "gpu-kernel",
         (Order("kernel name=gemm_f32_128x256_nt(wgrad) percent=60"),), named=("wgrad",), restarts=True,
         needs=("module:torch",)),
    Case("in_turn", "a lower GPU clock, on each of two ranks for 6 s in turn", "gpu-clocks",
         (InTurn("gpu_clock.py --file {nvml} --device {rank} --mhz 1400", 6),), ranks=neighbours, seconds=35),
    Case("layers", "more kernels in each step of one rank: a deeper part", "imbalance-input",
         (Order("kernels layers=3"),), kind="imbalance"),
    Case("batch", "a bigger batch on one rank: larger grids", "imbalance-input",
         (Order("batch percent=35"),), kind="imbalance"),
    Case("all_variant", "another variant of one kernel on every rank, 60% slower", "sw-kernels",
         (Order("variant name=gemm_f32_128x256_nt(wgrad) to=gemm_f32_64x64_nt(wgrad) percent=60", True),),
         every_rank=True, kind="uniform", named=("64x64",)),
    # no end
    Case("killed", "a rank is killed and the others wait for it", "hang-missing", (Order("die"),),
         kind="hang", ends=False, seconds=40),
    Case("hang", "a rank waits for a lock file for ever", "cpu-lock",
         (Tool("inject.py flock --path {dir}/held --every 0"), Order("hang path={dir}/held")),
         named=("file lock", "flock", r"python3 \(pid \d+\) holds"), kind="hang", ends=False),
    Case("hang_pipe", "a rank waits for another process that says nothing more, at a pipe", "cpu-process",
         (Order("silence"),), named=("pipe", "silence"), kind="hang", ends=False),
    Case("hang_lock", "two threads of a rank wait for a lock that the other one holds", "cpu-lock",
         (Order("deadlock"),), named=("deadlock",), kind="hang", ends=False),
    Case("hang_loop", "a rank waits in a loop for what never comes", "cpu-python",
         (Order("loop"),), named=("loop",), kind="hang", ends=False),
    Case("hang_stopped", "a rank is stopped and not continued", "os-stopped",
         (Tool("inject.py stop --pid {pid} --ms 600000 --every 600001"),), kind="hang", ends=False),
    # now and then, or more and more; two threads of a rank, or several ranks; what only looks like something else
    Case("hold_gil", "a thread writes JSON for 250 ms every second and keeps the GIL", "cpu-gil",
         (Order("hold_gil every_ms=1000 ms=250"),), seconds=60),
    Case("pool_compress", "the step waits for the future of a pool whose thread compresses",
         ("cpu-lock", "cpu-function", "storage-client"), (Order("pool_compress"),), named=("pool_compress|compress|deflate",)),
    Case("async_sleep", "a coroutine of the step asks again and again, with asyncio.sleep", "cpu-sleep",
         (Order("async_sleep"),), named=("asyncio|sleep|epoll|select|async_sleep|run_until",)),
    Case("full_queue", "a multiprocessing.Queue is full: the process behind it is slow", ("cpu-process", "cpu-lock"),
         (Order("full_queue"),), named=("put|full_queue|queue",)),
    Case("name_server", "every 20th step looks a name up, and the name server doesn't answer for a second", "net-wait",
         (Order("look_up_name every=20"),), named=("getaddrinfo|res_|poll|look_up_name",), seconds=60),
    Case("sqlite", "metrics go to a database, 15 transactions in each step", "storage-sync", (Order("commit_metrics"),),
         named=("sqlite|sync|commit_metrics",)),
    Case("growing_list", "a list grows in each step and is searched from its beginning", ("cpu-python", "cpu-function"),
         (Order("search_growing more=1200"),), named=("search_growing|list_contains|compare",), seconds=60),
    Case("terminal", "a progress bar on a terminal whose other end is slow", "sw-output", (Order("progress_bar"),),
         named=("progress_bar|tty|write",)),
    Case("msync", "every fourth step writes 48 MB of a mapped file and syncs them", ("storage-sync", "os-faults"),
         (Order("sync_mapped every=4"),), named=("sync_mapped|sync|flush",), seconds=60),
    Case("read_maps", "somebody reads the rank's smaps all the time, and it maps and unmaps", "os-lock",
         (Tool("inject.py read_maps --pid {pid} --threads 2"),), job=(*HOST, "--rank-does", "{rank} map_often")),
    Case("debugger", "a debugger attaches every 700 ms and prints all stacks", "os-stopped",
         (Tool("inject.py debugger --pid {pid} --every 700"),), seconds=60),
    Case("write_limit", "an I/O limit of its cgroup holds the rank's writes", ("storage-limit", "storage-disk"),
         (Tool("disk_limit.py --pid {pid} --of write --device {disk} --bytes-per-second 450000"),),
         job=(*HOST, "--does", "write_direct"), named=("write_direct",), needs=("blkio-group",)),
    Case("micro_batches", "more micro-batches on one rank in every fourth step", "imbalance-input",
         (Order("micro_batches every=4"),), kind="imbalance", seconds=60),
    Case("small_copies", "the batch is copied to the device sample by sample: 8,000 copies of 1 KiB",
         ("gpu-copy", "cpu-python", "cpu-function"), (Order("small_copies"),), named=("cop",)),
    Case("kernel_fourth", "one kernel takes thrice as long in every fourth step", "gpu-kernel",
         (Order("kernel_every name=gemm_f32_128x256_nt(wgrad) every=4"),), named=("wgrad",), seconds=60),
    Case("clock_swings", "the clock of one GPU is down every other second", "gpu-clocks",
         (Pulses("gpu_clock.py --file {nvml} --device {rank} --mhz 1300", 1, 1),), named=("clock",), seconds=60),
    Case("shared_lock", "all ranks work under one lock file", "cpu-lock",
         (Order("shared_lock path={dir}/shared", True),), every_rank=True, kind="uniform", named=("flock|shared_lock",)),
    Case("worker_slows", "a data loader's worker gets its samples later and later", "storage-loader",
         (Growing(10, 1),), job=("--loader", "worker"), server=True, needs=("module:torch",), seconds=60),
    Case("poll", "the step waits for another thread by looking often, with short sleeps", ("cpu-sleep", "cpu-lock"),
         (Order("poll_often"),), named=("poll_often|sleep",)),
    Case("tcp_send", "metrics go out over TCP, and who takes them reads slowly", "net-wait", (Order("send_metrics"),),
         named=("send|send_metrics",)),
    Case("ask_in_pool", "a thread of a pool asks a slow server, and the step waits for its future",
         ("net-wait", "cpu-lock"), (Storage(30),), job=(*HOST, "--does", "ask_in_pool port={port}"), server=True,
         named=("ask|recv|result|wait",)),
    Case("huge_pages", "160 MB of fresh huge pages in each step", "os-faults", (Order("huge_pages"),),
         named=("huge_pages|fault|clear",)),
    Case("remote_file", "a file system's server (FUSE) answers each read late", ("storage-disk", "cpu-process"),
         (Tool("slow_files.py --at {dir}/remote-{rank} --ms 8"), Order("read_remote path={dir}/remote-{rank}/data")),
         named=("read_remote|fuse",)),
    Case("scan", "the rank's affinity is one CPU, and a real-time process runs there for 2 of every 5 s",
         "os-run-queue", (Tool("inject.py affinity --pid {pid} --cpus 1"), Pulses("cpu_hog.py --cpu 1", 2, 3)),
         job=BUSY, seconds=60),
    Case("urandom", "each step reads 12 MB of random bytes from the kernel", ("cpu-function", "cpu-python"),
         (Order("random_bytes"),), named=("urandom|random|chacha",)),
    Case("power_of_two", "a power cap lowers the clocks of two GPUs", "gpu-power",
         (Of(neighbours, *(Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1400 --also throttle=4")
                           for _ in range(2))),),
         ranks=neighbours),
    Case("three_ranks", "three of four ranks sleep in each step", "cpu-sleep",
         (Of(others, *(Order("sleep ms=25") for _ in range(3))),), ranks=others, or_all=True, named=("sleep",)),
    Case("log_lock", "the step's one line of log waits for another thread that logs to a slow pipe",
         ("cpu-lock", "sw-logging", "sw-output", "cpu-process"), (Order("log_lock"),), named=("log|acquire|emit",)),
    Case("recompile", "every seventh step generates and compiles code", ("cpu-python", "cpu-function"),
         (Order("recompile every=7"),), named=("compile|recompile",), seconds=60),
    Case("all_sync", "every rank writes 16 MB and syncs them in each step, to one disk", "storage-sync",
         (Order("sync_state", True),), every_rank=True, kind="uniform", named=("sync",)),
    Case("spin", "the step spins in Python until a thread of a pool is done", ("cpu-python", "cpu-function"),
         (Order("spin"),), named=("spin|done",)),
    Case("lock_chain", "a lock whose holder waits for another process", ("cpu-lock", "cpu-process"), (Order("lock_chain"),),
         named=("lock_chain|validate|read",)),
    Case("signals", "another program sends the rank 500 signals a second, which it handles",
         ("cpu-python", "cpu-function"), (Tool("inject.py signals --pid {pid} --every 2"),),
         job=(*HOST, "--rank-does", "{rank} handle_signals"), named=("on_signal",)),
    Case("threads", "each step starts 150 threads and waits for them", ("cpu-python", "cpu-function", "cpu-lock"),
         (Order("start_threads"),), named=("start_threads|start|clone|thread",)),
    Case("tracebacks", "each step raises and formats exceptions from deep down", ("cpu-python", "cpu-function"),
         (Order("format_tracebacks"),), named=("format_tracebacks|deep|format|traceback",)),
    Case("epoch", "healthy: an epoch ends every 150 steps, and the samples are shuffled",
         job=(*HOST, "--does", "shuffle_samples every=150")),
    Case("accumulate", "healthy: the optimizer runs in every fourth step only",
         job=(*HOST, "--does", "accumulate every=4 at=middle")),
    Case("two_in_one", "a lower GPU clock and a loop in Python, on one rank", ("gpu-clocks", "cpu-python"),
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1500"), Order("augment_in_python")),
         named=("augment_in_python", "clock")),
    # of a training or inference host, each of another kind than those above
    Case("side_stream", "a decoder's kernel takes ten times as long, on a stream of its own for which the step waits",
         "gpu-kernel", (Order("kernel name=decode_jpeg_kernel(uchar*) percent=900"),), named=("decode",),
         job=(*HOST, "--does", "decode_aside")),
    Case("regrid", "one kernel is launched with another grid on one rank, and takes 120% longer",
         ("gpu-kernel", "gpu-variant"), (Order("regrid name=gemm_f32_128x256_nt(wgrad) blocks=96 percent=120"),), named=("wgrad",)),
    Case("check_finite", "one rank looks for NaN after its forward pass, with kernels that no peer runs",
         "sw-environment", (Order("check_finite"),), named=("isfinite",)),
    Case("scanner", "a virus scanner looks at each file that a step opens", "cpu-process",
         (Tool("scanner.py --at {dir}/samples-{rank} --ms 2"),), job=(*HOST, "--does", "small_files count=12"),
         named=("fanotify|small_files|scanner",)),
    Case("shares", "a cgroup of few CPU shares, beside a busy process", "os-run-queue",
         (Tool("inject.py shares --pid {pid} --shares 10000"), Say("job hogs 1", "job hogs 0")), job=BUSY),
    Case("gloo_rate", "the link of a gloo rank carries 1 Mbit/s", ("net-transfer", "net-wait"),
         (Tool("shape_link.py --link {dir}/link.name --rate 1mbit"),), job=(*HOST, "--gloo"), link=True, or_all=True,
         needs=("module:torch", "netns", "command:tc")),
    Case("probed_questions", "a server answers one of nine questions of the step late, and TCP probes for a loss", "net-wait",
         (Order("probed_questions"),), named=("probed_questions|recv",)),
    Case("dirty_limit", "others fill what may wait to be written to the disk, and the step's writes are held back",
         ("storage-sync", "storage-disk"), (Tool("inject.py dirty --dir {dir} --mb 4 --threads 4"),),
         job=(*HOST, "--rank-does", "{rank} write_buffered mb=16"), named=("write_buffered|dirty",)),
    Case("loop_disk", "a disk (loop) whose blocks come from a slow server", "storage-disk",
         (Tool("slow_files.py --at {dir}/image-{rank} --ms 6"),
          Tool("loop_disk.py --file {dir}/image-{rank}/data --at {dir}/disk-{rank}"),
          Order("read_block path={dir}/disk-{rank}")), named=("read_block|loop",), needs=("fuse", "command:losetup")),
    Case("full_directory", "the directory that each step lists gets 30,000 files more", ("cpu-python", "cpu-function"),
         (Tool("fill_directory.py --at {dir}/inbox --files 30000"),),
         job=(*HOST, "--rank-does", "{rank} list_inbox path={dir}/inbox"), named=("list_inbox|listdir|getdents",)),
    Case("late_thread", "the thread for which each step waits may use one CPU only, with a real-time process on it",
         ("os-run-queue", "cpu-lock"),
         (Tool("inject.py affinity --pid {pid} --cpus 1 --thread tokenizer"), Tool("cpu_hog.py --cpu 1")),
         job=(*HOST, "--rank-does", "{rank} tokenize"), named=("tokenize|cpu-hog",)),
    Case("slow_spells", "all kernels of one GPU take 80% longer for 800 ms every 5 s", "gpu-slow",
         (Order("slow_spells"),), seconds=60),
    Case("post7", "every seventh step waits for another process, at a semaphore", ("cpu-process", "cpu-lock"),
         (Order("wait_for_post every=7 ms=60"),), named=("wait_for_post|acquire",), seconds=60),
    Case("system_v_post", "each step waits for another process, at a semaphore of System V", ("cpu-process", "cpu-lock"),
         (Order("system_v_post"),), named=("system_v_post|semop|semtimedop",)),
    Case("message_queue", "each step waits for another process, at a message queue", "cpu-process",
         (Order("message_queue"),), named=("message_queue|mq_",)),
    Case("timer_file", "each step waits for a timer (timerfd)", "cpu-sleep", (Order("pace"),),
         named=("pace|timerfd",)),
    Case("eval_metrics", "a loop in Python, in the 20 of 60 steps that are evaluation", "cpu-python",
         (Order("metrics_in_evaluation"),), job=(*HOST, "--does", "evaluate every=60 steps=20"),
         named=("loop_in_python|metrics_in_evaluation",), seconds=60),
    Case("each_in_turn", "a loop in Python, on one rank after the other, 40 steps each", ("cpu-python", "sw-hot-path"),
         (Order("compute_in_turn", True),), every_rank=True, named=("loop_in_python|compute_in_turn",), seconds=60),
    Case("slow_pair", "the link of one rank carries a thirtieth: the collectives of all take longer", "net-transfer",
         (Tool("nccl_rate.py --pid {pid} --mbps 4000"),), every_rank=True, kind="uniform", ranks=nobody, or_all=True,
         needs=("command:gdb",)),
    Case("job_limit", "the job's one cgroup may use 60% of the CPU that it needs", "os-cpu-limit",
         (Tool("cpu_limit.py {pids} --of-use 60"),), job=("--loader", "none", "--host-ms", "12"), every_rank=True,
         kind="uniform", needs=("cpu-group",)),
    Case("all_remote", "all ranks read from one file server (FUSE) that is slow", ("storage-disk", "cpu-process"),
         (Tool("slow_files.py --at {dir}/remote --ms 2"), Order("read_remote path={dir}/remote/data", True)),
         every_rank=True, kind="uniform", named=("read_remote|fuse",), needs=("fuse",)),
    Case("all_check_finite", "all ranks look for NaN after their forward pass, with kernels that were not there before",
         "sw-kernels", (Order("check_finite", True),), every_rank=True, kind="uniform", named=("isfinite",)),
    Case("writes_and_halves", "a question in two small writes (Nagle) on one rank", "net-wait", (Order("small_writes"),),
         named=("small_writes|recv",), needs=("module:numpy",),
         beside=Case("halves", "half precision in NumPy on another rank", ("cpu-function", "cpu-python"),
                     (Order("multiply_halves"),), named=("multiply_halves|HALF|half|matmul",))),
    Case("clock_and_pinned", "a lower GPU clock on one rank", "gpu-clocks",
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1400"),), named=("clock",),
         beside=Case("pinned", "memory that is new and pinned in each step on another rank", ("os-faults", "cpu-function"),
                     (Order("pin_memory"),), named=("pin_memory|mlock|fault",))),
    Case("async_and_offload", "an I/O limit of its cgroup holds the asynchronous reads of one rank",
         ("storage-limit", "storage-disk"),
         (Tool("disk_limit.py --pid {pid} --device {disk} --bytes-per-second 700000"),), needs=("blkio-group",),
         job=(*HOST, "--rank-does", "{rank} read_async"), named=("read_async",),
         beside=Case("offloaded", "500 copies from the device to the host on another rank", "gpu-copy",
                     (Order("offload at=middle"),), named=("cop",))),
    Case("log_aside", "healthy: a rank begins to log a lot, while the GPU works on what was launched",
         job=(*HOST, "--rank-does", "{rank} log_aside at=launched")),
    Case("prefetch_aside", "healthy: a rank's threads begin to prepare samples with what is left of the CPUs",
         job=(*HOST, "--rank-does", "{rank} prefetch_aside")),
    Case("longer_sequences", "healthy: sequences get 40% longer over 500 steps",
         job=(*HOST, "--does", "longer_sequences")),
    # a third round of faults that nothing was tuned to
    Case("ecc", "the GPU's memory has correctable errors, more and more, and all its kernels take 45% longer", "gpu-ecc",
         (Tool("ecc_storm.py --file {nvml} --device {rank}"), Order("slower_gpu percent=45"))),
    Case("memory_clock", "the memory clock of one GPU is down: what moves memory takes 80% longer",
         ("gpu-clocks", "gpu-kernel", "gpu-slow"),
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1980 --also mem_clock_mhz=810"),
          Order("memory_bound percent=80"))),
    Case("late_starts", "one GPU begins each operation 0.6 ms late, though it was launched long before", "gpu-queue",
         (Tool("gpu_gap.py --pid {pid} --us 600"),)),
    Case("host_callback", "a stream waits 25 ms for a function on the host (cuLaunchHostFunc), with work queued behind it",
         ("gpu-queue", "cpu-host-gap", "cpu-sleep"), (Order("host_callback ms=25 at=middle"),)),
    Case("unfused", "the fused optimizer is missing on one rank: 4,000 small kernels in place of 4",
         ("sw-environment", "cpu-host-gap", "cpu-python"), (Order("unfused"),)),
    Case("eager", "the compiler gives up on all ranks: 1,200 small kernels more in each step",
         ("sw-kernels", "sw-hot-path", "sw-environment", "cpu-host-gap", "cpu-python"), (Order("eager", True),),
         every_rank=True, kind="uniform"),
    Case("eager_small", "the compiler gives up on a part of the model, on all ranks: 600 small kernels more in each step",
         "sw-kernels", (Order("eager count=600", True),), every_rank=True, kind="uniform", named=("elementwise",)),
    Case("other_kernels", "all ranks run other kernels, as many as before, 15% slower", "sw-kernels",
         (Order("other_kernels percent=15", True),), every_rank=True, kind="uniform", named=("simt",)),
    Case("small_buckets", "the gradients of all ranks are reduced in 1,200 small buckets in place of 4",
         ("sw-kernels", "net-transfer", "sw-hot-path", "cpu-python"), (Order("small_buckets", True),), every_rank=True,
         kind="uniform", ranks=nobody, or_all=True),
    Case("tracemalloc", "PYTHONTRACEMALLOC=25 was left on one rank: each allocation is written down",
         ("sw-environment", "cpu-python", "cpu-function"), job=(*HOST, "--does", "build_samples"),
         from_start=("--env", "{rank}:PYTHONTRACEMALLOC=25")),
    Case("mixed_types", "an array of NumPy has Python's objects in place of numbers", ("cpu-function", "cpu-python"),
         (Order("mixed_types"),), job=(*HOST, "--does", "normalize")),
    Case("trim_heap", "a thread trims a large heap all the time and holds the allocator's lock", "cpu-lock",
         (Order("trim_heap"),), job=(*HOST, "--rank-does", "{rank} collate")),
    Case("seccomp", "a container's supervisor answers some system calls late (seccomp's user notifications)", "cpu-process",
         (Order("set_attributes"),)),
    Case("lease", "a file server gives the lease of a file that each step opens back late", ("cpu-lock", "cpu-process"),
         (Tool("lease.py --path {dir}/leased-{rank} --ms 35"),),
         job=(*HOST, "--rank-does", "{rank} open_leased path={dir}/leased")),
    Case("inotify", "each step waits for a file of another process (inotify)", "cpu-process", (Order("await_file"),)),
    Case("async_child", "each step runs a program and waits for it, with asyncio", "cpu-process", (Order("async_child"),)),
    # bpftrace sets the probe in every process that runs the file, whatever its -p says
    Case("uprobes", "somebody counts the calls of a function of the interpreter (bpftrace's uprobe): every rank's calls",
         ("sw-hot-path", "cpu-python"),
         (Tool("bpftrace -p {pid} -e uprobe:/usr/bin/python3.11:PyObject_Malloc{{@=count()}}"),),
         job=(*HOST, "--does", "build_samples"), every_rank=True, kind="uniform"),
    Case("list_processes", "a callback reads what all processes of the machine use, in each step",
         ("cpu-python", "cpu-function"), (Order("list_processes"),)),
    Case("lazy_pages", "another process brings the rank's pages late (userfaultfd)", ("os-faults", "cpu-process"),
         (Order("lazy_pages"),)),
    Case("one_cpu", "all ranks may use the same one CPU only", "os-run-queue",
         (Of(all_of, *(Tool("inject.py affinity --pid {pid} --cpus 1") for _ in range(4))),),
         job=("--loader", "none", "--host-ms", "10"), every_rank=True, kind="uniform"),
    Case("gang", "the whole job is stopped for 500 ms every second: it takes turns with another", "os-stopped",
         (Tool("suspend_job.py {pids} --ms 500 --every 1000"),), every_rank=True, kind="uniform"),
    Case("inode_lock", "somebody writes 128 MB at a time to a file to which each step appends a line",
         ("os-lock", "storage-disk"), (Tool("big_writes.py --path {dir}/events-{rank} --mb 128"),),
         job=(*HOST, "--rank-does", "{rank} append_shared path={dir}/events")),
    Case("backlog", "every tenth step connects to a server whose queue of new connections is full",
         ("net-wait", "net-retransmits"), (Order("connect_often every=10"),), seconds=60),
    Case("link_cut", "the network of a gloo rank is cut", ("net-wait", "net-retransmits", "hang-transfer"), (Link(0, 100),),
         job=(*HOST, "--gloo"), link=True, or_all=True, kind="hang", ends=False, needs=("module:torch", "netns"), seconds=40),
    Case("back_off", "an object store throttles (503), and the client waits before it asks again", ("cpu-sleep", "net-wait"),
         (Order("back_off"),)),
    Case("map_remote", "major page faults in a mapped file that a slow server holds (FUSE)",
         ("storage-disk", "os-faults", "cpu-process"),
         (Tool("slow_files.py --at {dir}/weights-{rank} --ms 8"), Order("map_remote path={dir}/weights-{rank}/data"))),
    Case("copy_up", "each step writes to a file of the container's image, which overlayfs copies first",
         ("storage-sync", "storage-disk"), (Order("write_layer mb=16"),)),
    Case("uprobes_own", "somebody counts the calls of a function of a library that one rank alone has loaded (bpftrace)",
         ("cpu-function", "cpu-python"), (Tool("bpftrace -e uprobe:{dir}/zlib-{rank}.so:crc32{{@=count()}}"),),
         job=(*HOST, "--does", "checksum path={dir}/zlib")),
    Case("pool_map", "the step waits for the processes of a pool (multiprocessing.Pool)", ("cpu-process", "cpu-lock"),
         (Order("pool_map"),)),
    Case("object_store", "an object store on this machine answers late, over a local stream socket", "cpu-process",
         (Order("ask_store"),)),
    Case("history", "every rank computes the mean of all values since the beginning: more in each step",
         ("sw-hot-path", "cpu-python"), (Order("average_history", True),), every_rank=True, kind="uniform", seconds=60),
    Case("trace_window", "healthy: a profiler looks at 6 of 100 steps and writes what it saw",
         job=(*HOST, "--does", "trace_window")),
    Case("no_sync", "healthy: gradients are reduced and the optimizer runs in every eighth step only",
         job=(*HOST, "--does", "no_sync")),
    Case("draw_samples", "healthy: rank 0 draws samples with the model every 60 steps, and the others wait",
         job=(*HOST, "--does", "draw_samples")),
    # a fifth round of faults that nobody here had tuned to
    Case("autotune", "every ninth step has a new shape, and the autotuner times 12 configurations of a kernel",
         ("sw-environment", "gpu-variant", "imbalance-input"), (Order("autotune every=9 at=middle"),)),
    Case("gil_io", "a C library waits for an agent 110 ms every 0.9 s, in a thread, and keeps the GIL meanwhile",
         ("cpu-gil", "cpu-process"), (Order("gil_io"),)),
    Case("denormals", "an average has decayed to denormal numbers, whose powers the CPU computes slowly",
         "cpu-function", (Order("denormals"),), job=(*HOST, "--does", "decay"), named=("_multiarray_umath.* of decay",)),
    Case("collisions", "the keys of a dictionary have one hash value now, on all ranks",
         ("sw-hot-path", "cpu-python", "cpu-function"), (Order("collide", True),), job=(*HOST, "--does", "index_samples"),
         every_rank=True, kind="uniform"),
    Case("sort_lengths", "every sixth step sorts the lengths of all samples", ("cpu-function", "cpu-python"),
         (Order("sort_lengths every=6"),)),
    Case("hand_over", "1,000 samples of a step go to another thread one by one, and each answer is waited for",
         ("cpu-function", "cpu-lock", "cpu-gil", "cpu-python"), (Order("hand_over"),)),
    Case("snapshot", "every eighth step a checkpoint by fork; then the rank's writes copy the pages", "os-faults",
         (Order("snapshot every=8"),), job=(*HOST, "--does", "update_heap mb=64")),
    Case("udp_loss", "questions by UDP are lost at times (8%) and asked again after 60 ms", "net-wait", (Link(0, 8),),
         job=(*HOST, "--does", "feature_store victim={rank}"), link=True, needs=("netns",)),
    Case("close_late", "every fourth step closes a file of a network file system, whose server acknowledges late",
         ("storage-sync", "storage-disk", "cpu-process"),
         (Tool("netfs.py --at {dir}/shared-{rank} --flush-ms 45"),
          Order("touch_status path={dir}/shared-{rank}/status"))),
    Case("metadata", "the metadata server of a network file system is slow for all ranks", ("storage-disk", "cpu-process"),
         (Tool("netfs.py --at {dir}/shared --lookup-ms 1"), Order("stat_shards path={dir}/shared", True)),
         every_rank=True, kind="uniform"),
    Case("rotate_log", "the log of one rank is rotated about every 12 steps, and compressed at once",
         ("sw-logging", "cpu-function", "cpu-python"), (Order("rotate_log"),), job=(*HOST, "--does", "log_batches")),
    Case("sidecar", "a side car takes the CPU quota of the rank's pod for 1.5 of each 3.5 s", "os-cpu-limit",
         (Tool("cpu_limit.py --pid {pid} --of-use 110 --beside 1.5,2"),), job=("--loader", "none", "--host-ms", "10"),
         needs=("cpu-group",)),
    Case("blocking", "CUDA_LAUNCH_BLOCKING=1 was left on one rank", ("sw-environment", "cpu-host-gap"),
         job=(*HOST, "--does", "small_kernels at=middle"), from_start=("--env", "{rank}:CUDA_LAUNCH_BLOCKING=1")),
    Case("size_buckets", "healthy: images of three sizes, 60 steps each, the same on all ranks",
         job=(*HOST, "--does", "size_buckets")),
    Case("journal_aside", "healthy: a thread of one rank syncs a journal to the disk all the time, and no step waits for it",
         None, (Order("sync_aside"),)),
    # a seventh round of faults that nobody here had tuned to
    Case("copy_config", "each step copies a large nested configuration", ("cpu-python", "cpu-function"),
         (Order("copy_config"),)),
    Case("ask_manager", "each step reads 150 entries of a multiprocessing.Manager", "cpu-process",
         (Order("ask_manager"),)),
    Case("shared_mutex", "another process has a lock in shared memory for most of the time", ("cpu-lock", "cpu-process"),
         (Order("shared_mutex"),)),
    Case("sync_machine", "every sixth step writes 24 MB and syncs all file systems", "storage-sync",
         (Order("sync_machine"),)),
    Case("copy_file", "every fifth step copies a file of 160 MB",
         ("cpu-function", "cpu-python", "storage-disk", "storage-sync"), (Order("copy_file"),)),
    Case("workers_again", "every twelfth step starts four new worker processes and waits for their first samples",
         ("cpu-process", "storage-loader", "cpu-lock"), (Order("workers_again"),)),
    Case("slow_launch", "a hook in Python spends 1.5 ms on every launch", ("cpu-python", "cpu-function"),
         (Order("slow_launch"),)),
    Case("clip_on_cpu", "the gradients of one rank go to the host and back, 256 MB each way", "gpu-copy",
         (Order("clip_on_cpu at=launched"),)),
    Case("contended_kernels", "another tenant of the GPU: half of the kernels take 120% longer", ("gpu-slow", "gpu-kernel"),
         (Order("contended_kernels"),)),
    Case("free_tree", "a tree of 40,000 small objects is built and dropped in each step", ("cpu-python", "cpu-function"),
         (Order("free_tree"),)),
    Case("all_sleep", "a sleep of 15 ms was left in the script of all ranks", ("cpu-sleep", "sw-hot-path"),
         (Order("sleep every=1 ms=15", True),), every_rank=True, kind="uniform"),
    # a tenth one
    Case("token_pool", "the texts of a batch are tokenized by a pool that has one process", ("cpu-process", "cpu-lock"),
         (Order("token_pool"),)),
    Case("log_http", "each step logs two records over HTTP, to a slow collector", ("net-wait", "sw-logging"),
         (Order("log_http"),)),
    Case("stream_lock", "a thread of C code writes to a stream whose reader is slow, and the step prints a line there",
         ("cpu-lock", "sw-output"), (Order("stream_lock"),)),
    Case("lazy_import", "a function of the step imports its modules anew", ("cpu-python", "cpu-function"),
         (Order("lazy_import"),)),
    Case("reopen_zip", "each step opens an archive of 3,000 samples to read one", ("cpu-python", "cpu-function"),
         (Order("reopen_zip"),)),
    Case("print_array", "each step prints a whole array", ("cpu-python", "cpu-function"), (Order("print_array"),),
         needs=("module:numpy",)),
    Case("busy_connections", "a pool of two connections that other threads hold most of the time", "cpu-lock",
         (Order("busy_connections"),)),
    Case("empty_queue", "each step looks into an empty queue, and gives up after 30 ms", ("cpu-lock", "cpu-sleep"),
         (Order("empty_queue"),)),
    Case("item_calls", "the step copies its metrics to the host one by one and waits for each copy",
         ("gpu-copy", "cpu-host-gap", "cpu-python", "sw-environment"), (Order("item_calls at=launched"),)),
    # it needs the GIL between two calls, and loses the CPU with it as well
    Case("idle_holder", "a thread of the lowest priority works under a lock of the step, beside busy processes",
         ("cpu-lock", "cpu-gil", "os-run-queue"), (Order("idle_holder"), Say("job hogs 2", "job hogs 0"))),
    Case("thread_map", "the samples of a batch are transformed in Python by 16 threads", ("cpu-gil", "cpu-lock", "cpu-python"),
         (Order("thread_map"),)),
    Case("append_array", "an array grows value by value: each append copies it", ("cpu-function", "cpu-python", "os-faults"),
         (Order("append_array"),), needs=("module:numpy",)),
    # other shapes of jobs
    Case("run_ahead", "healthy: the host waits for the GPU in one of six steps only", job=(*HOST, "--does", RUN_AHEAD)),
    Case("run_ahead_lock", "a lock is held for 85 ms of each step of a host that runs ahead of its GPU", "cpu-lock",
         (Order("lock every=1 ms=85"),), job=(*HOST, "--does", RUN_AHEAD), named=("lock",)),
    Case("run_ahead_sleep", "a sleep of 75 ms in each step of a host that runs ahead of its GPU", "cpu-sleep",
         (Order("sleep ms=75"),), job=(*HOST, "--does", RUN_AHEAD), named=("sleep",)),
    Case("short_lock", "steps of 8 ms, and a lock that is held for 6 ms of every other one", "cpu-lock",
         (Order("lock every=2 ms=6"),), job=SHORT, named=("lock",)),
    Case("long_sleep", "steps of half a second, and every fourth sleeps as long again", "cpu-sleep",
         (Order("sleep every=4 ms=500"),), job=("--loader", "none", "--host-ms", "20", "--does", "long_steps"),
         named=("sleep",), seconds=60),
    Case("alone_clocks", "a lower GPU clock where each rank works for itself, without collectives", "gpu-clocks",
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1400"),), job=(*HOST, "--does", "alone"),
         named=("clock",)),
    Case("backward_hook", "a thread of its own launches the backward pass, and a hook there computes in Python", "cpu-python",
         (Order("backward_hook"),), job=(*HOST, "--does", "backward_thread"), named=("loop_in_python",)),
    Case("log_stacks", "the records of one rank's log have the stack of their caller", ("sw-logging", "cpu-python"),
         (Order("log_stacks"),)),
    Case("log_metrics", "all ranks write the metrics of 3,000 parameters as JSON in each step",
         ("sw-hot-path", "sw-logging", "cpu-python"), (Order("log_metrics", True),), every_rank=True, kind="uniform"),
    Case("read_output", "each step runs a program and reads the 10 MB that it prints", "cpu-process",
         (Order("read_output"),)),
    Case("poll_many", "each step polls 450 pipes 400 times", ("cpu-function", "cpu-python"), (Order("poll_many"),)),
    Case("data_synced", "each step writes to a journal opened with O_DSYNC", "storage-sync", (Order("data_synced"),)),
    # an eighth one: small faults, and faults of several ranks
    Case("clocks_little", "the clock of one GPU is down a little: 1,800 of 1,980 MHz", "gpu-clocks",
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1800"),)),
    Case("sleep_little", "each step sleeps 6 ms", "cpu-sleep", (Order("sleep every=1 ms=6"),)),
    Case("growing_sleep", "a retry waits 0.3 ms longer in each step", "cpu-sleep", (Order("growing_sleep"),)),
    Case("two_disks", "two ranks read 24 MB past the page cache in each step", "storage-disk",
         (Of(neighbours, Order("read_direct kib=24576"), Order("read_direct kib=24576")),), ranks=neighbours),
    Case("two_locks", "two ranks wait for locks that other processes have", "cpu-lock",
         (Of(neighbours, Order("shared_mutex"), Order("shared_mutex")),), ranks=neighbours),
    Case("all_garbage", "the garbage collector goes through a large heap in each step of all ranks",
         ("sw-hot-path", "cpu-python", "cpu-function"), (Order("collect_garbage", True),), every_rank=True, kind="uniform"),
    Case("events", "healthy: rank 0 writes events for TensorBoard every 10 steps", job=(*HOST, "--does", "write_events")),
    Case("overflow", "healthy: every 37th step leaves the optimizer out, since the loss overflowed",
         job=(*HOST, "--does", "skip_optimizer")),
    # a ninth one, in jobs of two and eight ranks and of other step lengths as well
    Case("rings", "each step reads 64 MB past the page cache by io_uring; two ranks, steps of 300 ms", "storage-disk",
         (Order("read_by_rings kib=65536"),), job=(*HOST, "--does", "paced percent=450"), world=2, seconds=60),
    Case("receive_by_rings", "a server answers late, and the step waits by io_uring", "net-wait",
         (Order("receive_by_rings"),)),
    Case("await_signal", "each step waits 4 ms for a signal that nobody sends; two ranks, steps of 10 ms", "cpu-sleep",
         (Order("await_signal"),), job=SHORT, world=2),
    Case("ask_connection", "a helper process answers late, by a connection that is polled", "cpu-process",
         (Order("ask_connection"),)),
    Case("open_fifo", "each step opens a named pipe that another process opens late", "cpu-process", (Order("open_fifo"),)),
    Case("again_child", "each step polls the pidfd of a program, after a rank died and all were started again",
         "cpu-process", (Order("await_child"),), restarts=True, needs=("module:torch",)),
    Case("long_child", "steps of 1.5 s, and each runs a program for 450 ms; two ranks", "cpu-process",
         (Order("child ms=450"),), job=LONG, world=2, seconds=60),
    Case("record_lock", "a record lock (fcntl) that another process has; eight ranks", "cpu-lock",
         (Order("record_lock"),), job=MANY, world=8),
    Case("sync_range", "every fifth step writes 160 MB and waits for them by sync_file_range", "storage-sync",
         (Order("sync_range"),), seconds=60),
    Case("full_tmpfs", "a shared memory (tmpfs) is full now and then, and the rank asks again after a pause", "cpu-sleep",
         (Order("full_tmpfs"),)),
    Case("protect", "a thread changes the protection of a large heap all the time, and the step maps memory", "os-lock",
         (Order("protect_pages"),)),
    Case("gil_slices", "a thread computes in Python for 60% of the time, and threads keep the GIL for 20 ms", "cpu-gil",
         (Order("gil_slices"),)),
    Case("hash_weights", "each step computes a hash of all weights", "cpu-function",
         (Order("hash_weights"),), named=("libcrypto.* of hash_weights",)),
    Case("filter_calls", "a container's filter of system calls has 14,000 rules", ("cpu-function", "cpu-python"),
         (Order("filter_calls"),), job=(*HOST, "--does", "small_files count=1500"), ends=False),
    Case("limit_bursts", "ranks in groups of their own, and one's CPU limit is short for 3 of 6 s", "os-cpu-limit",
         (Of(others, *(Tool("cpu_limit.py --pid {pid} --percent 190") for _ in range(3))),
          Pulses("cpu_limit.py --pid {pid} --of-use 40", 3.5, 3)), job=("--loader", "none", "--host-ms", "12"), seconds=60,
         needs=("cpu-group",)),
    Case("hang_server", "a server that a rank asks is stopped", "net-wait", (Order("stopped_server"),), kind="hang",
         ends=False),
    Case("hang_worker", "a worker process is killed, and its queue stays empty", ("cpu-process", "storage-loader"),
         (Order("lost_worker"),), kind="hang", ends=False),
    Case("late_driver", "the main thread asks a thread for each step, and sleeps before", "cpu-sleep",
         (Order("driver_sleeps"),), job=(*HOST, "--does", "actor")),
    Case("second_model", "a loop in Python, in every other step of two models in turn", "cpu-python",
         (Order("augment_second"),), job=(*HOST, "--does", "alternate"), seconds=60),
    Case("uneven_clock", "rank 0 has more layers by design; the clock of one is down until it is the slowest", "gpu-clocks",
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 900"),), job=(*HOST, "--rank-does", "0 kernels layers=2")),
    Case("creeping_clock", "the clock of one GPU goes down by 2% every 3 s", "gpu-clocks",
         (Ramp("gpu_clock.py --file {nvml} --device {rank} --mhz {value}", range(1940, 1340, -40), 3),), seconds=60),
    Case("three_clocks", "the clocks of three of eight GPUs are down", "gpu-clocks",
         (Of(three_of_eight, *(Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1400") for _ in range(3))),),
         ranks=three_of_eight, job=MANY, world=8),
    Case("eight_clock", "a lower GPU clock on one rank of eight", "gpu-clocks",
         (Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1400"),), job=MANY, world=8,
         beside=Case("eight_resolver", "late answers by UDP on another one", "net-wait", (Order("ask_resolver ms=25"),))),
    Case("pair_link", "two ranks each reduce among themselves, and the link of one pair is slow", "net-transfer",
         (Tool("nccl_rate.py --pid {pid} --mbps 3000"),), job=(*HOST, "--does", "pairs"), every_rank=True, kind="uniform",
         ranks=nobody, or_all=True, needs=("command:gdb",)),
    Case("uneven", "healthy: rank 0 has more layers, by design", job=(*HOST, "--rank-does", "0 kernels layers=2")),
    Case("eight", "healthy: eight ranks", job=MANY, world=8),
    # an eleventh one
    Case("barrier_process", "a process of the rank's own comes late to a barrier (multiprocessing.Barrier)",
         ("cpu-process", "cpu-lock"), (Order("barrier_process"),)),
    Case("populate_pages", "each step maps 48 MB with all of their pages (MAP_POPULATE)", ("os-faults", "os-memory"),
         (Order("populate_pages"),)),
    Case("drop_pages", "each step gives 32 MB back (MADV_DONTNEED) and writes to them again", ("os-faults", "cpu-python"),
         (Order("drop_pages"),)),
    Case("sort_scores", "each step sorts 250,000 numbers", ("cpu-function", "cpu-python"), (Order("sort_scores"),)),
    Case("parse_manifest", "each step parses a JSON manifest again", ("cpu-function", "cpu-python"),
         (Order("parse_manifest"),)),
    Case("database_busy", "another process holds a write transaction of the database of the step's metrics (SQLite)",
         ("cpu-sleep", "cpu-lock"), (Order("database_busy"),)),
    Case("replace_state", "each step replaces three state files: written, synced, renamed, the directory synced",
         "storage-sync", (Order("replace_state"),)),
    Case("transcoder", "each step sends its samples through a program", "cpu-process", (Order("transcoder"),)),
    Case("event_of_thread", "the step waits for a thread that compresses", ("cpu-function", "cpu-lock"),
         (Order("event_of_thread"),)),
    Case("ask_tls", "a server answers late over TLS", ("net-wait", "cpu-process"), (Order("ask_tls"),)),
    Case("sampled_stats", "every sixth step computes statistics in Python", ("cpu-python", "cpu-function"),
         (Order("sampled_stats"),)),
    Case("epoch_pause", "healthy: every 120 steps all ranks open their samples again for 1.5 s",
         job=(*HOST, "--does", "epoch_pause")),
    Case("report_all", "healthy: all ranks reduce and format their metrics every 25 steps",
         job=(*HOST, "--does", "report_all")),
    # a twelfth one
    Case("cause_in_turn", "a sleep for 3 s and a loop in Python for 3 s, in turn", ("cpu-sleep", "cpu-python"),
         (Order("cause_in_turn"),)),
    Case("alarm_sleeps", "a watchdog's signal handler waits 50 ms in the main thread, five times a second", "cpu-sleep",
         (Order("alarm_sleeps"),)),
    Case("python_always", "a loop in Python in each step, from the first step on: only the peers show it", "cpu-python",
         from_start=("--rank-does", "{rank} augment_in_python rounds=250")),
    Case("early_helper", "each step from the 80th on, some seconds after the job began, waits for a helper at a pipe",
         "cpu-process", from_start=("--rank-does", "{rank} early_helper")),
    Case("gloo_python", "a loop in Python on one rank of a job that reduces on the host as well", "cpu-python",
         (Order("augment_in_python"),), job=(*HOST, "--gloo"), link=True,
         needs=("module:torch", "netns")),
    Case("linger_close", "each step closes a connection with SO_LINGER, and its reader is slow", "net-wait",
         (Order("linger_close"),)),
    Case("accept_late", "each step waits until another process has connected to it", ("net-wait", "cpu-process"),
         (Order("accept_late"),)),
    Case("async_ask", "coroutines ask four servers at once, and all answer late", "net-wait", (Order("async_ask"),)),
    Case("read_to_thread", "a coroutine awaits a thread that reads 24 MB past the page cache", ("storage-disk", "cpu-lock"),
         (Order("read_to_thread"),)),
    Case("uncompressed", "the gradients of all ranks are no longer compressed: 40 times the bytes",
         ("net-transfer", "sw-kernels"), (Order("uncompressed", True),), every_rank=True, kind="uniform", ranks=nobody,
         or_all=True),
    Case("frozen_fs", "a backup freezes the file system to which each step appends a line, 900 ms of every 3.5 s",
         ("storage-disk", "storage-sync"), (Tool("freeze_fs.py --at {dir}/frozen --ms 900 --every 3500"),
                                            Order("append_line path={dir}/frozen")), seconds=60,
         needs=("command:mkfs.ext4", "command:fsfreeze", "command:losetup")),
    Case("leaking_heap", "each step leaves objects behind, and every fourth step goes through all of them",
         ("cpu-python", "cpu-function"), (Order("leaking_heap"),), seconds=60),
    Case("hot_expert", "one rank's expert gets more and more tokens, 1% in each step", "imbalance-input",
         (Order("hot_expert"),), kind="imbalance", seconds=60),
    Case("managed_memory", "one of 40 kernels of one GPU, whichever, waits 18 ms for its managed memory",
         ("gpu-kernel", "gpu-slow"), (Order("managed_memory"),)),
    Case("hang_kernel", "a kernel of one rank does not end", "hang-kernel", (Order("endless_kernel"),), kind="hang",
         ends=False),
    Case("all_http", "all ranks ask a slow server in each step, by HTTP", "net-wait", (Order("fetch_config ms=20", True),),
         every_rank=True, kind="uniform"),
    Case("inflate_here", "the launch thread expands a shard of LZMA in each step", "cpu-function",
         (Order("inflate_here"),), named=("liblzma.* of inflate_here",)),
    Case("mapped_writes", "each step writes to a mapped file that another process syncs all the time",
         ("os-faults", "storage-disk", "storage-sync"), (Order("mapped_writes"),)),
    Case("two_programs", "two ranks run a program in every fifth step and wait for it", "cpu-process",
         (Of(neighbours, Order("run_program"), Order("run_program")),), ranks=neighbours),
    Case("growing_batch", "healthy: the batch of all ranks grows by 15% every 70 steps",
         job=(*HOST, "--does", "growing_batch")),
    Case("log_bursts", "healthy: three of 40 steps are logged in detail, and all collect their garbage every 50",
         job=(*HOST, "--does", "log_bursts", "--does", "sweep_heap every=50 objects=400000")),
    Case("full_mix", "healthy: evaluation, checkpoints, sequences of another length in each step, events and a profiler",
         job=(*HOST, "--does", "evaluate every=70 steps=10", "--does", "checkpoint every=90 mb=8 ms=700",
              "--does", "lengths percent=15", "--does", "write_events", "--does", "trace_window every=130")),
    Case("checkpoint_timed", "healthy: rank 0 writes a checkpoint every 15 seconds",
         job=(*HOST, "--does", "checkpoint_timed")),
    Case("collect_timed", "healthy: each rank goes through its heap every 10 seconds",
         job=(*HOST, "--does", "collect_timed")),
    Case("curriculum", "healthy: sequences get 60% longer at once, when the second stage begins",
         job=(*HOST, "--does", "curriculum")),
    Case("late_evaluation", "healthy: evaluation begins late, after step 400",
         job=(*HOST, "--does", "evaluate every=60 steps=12 after=400")),
    Case("workers_in_turn", "healthy: each rank unpacks every fourth batch itself",
         job=(*HOST, "--does", "workers_in_turn")),
    Case("save_aside", "healthy: every 60 steps each rank hands its state to a thread that compresses and writes it",
         job=(*HOST, "--does", "save_aside")),
    # a thirteenth one
    Case("lanes", "the PCIe links of two GPUs fall back to one slow lane", "gpu-copy",
         (Of(neighbours, *(Tool("gpu_clock.py --file {nvml} --device {rank} --mhz 1980 --also pcie_width=1 "
                                "--also pcie_generation=1") for _ in range(2))),
          Of(neighbours, *(Tool("gpu_gap.py --pid {pid} --copy-mbps 250") for _ in range(2)))), ranks=neighbours,
         needs=("command:gdb",)),
    Case("gpu_slices", "another process has the GPU for 0.7 of 2.5 s: each operation begins 0.9 ms late", "gpu-queue",
         (Tool("gpu_gap.py --pid {pid} --us 900 --on-s 0.7 --off-s 1.8"),), seconds=60, needs=("command:gdb",)),
    Case("attention_spells", "the attention kernels of all ranks take 120% longer for 1 s of every 3 s", "sw-kernels",
         (Order("attention_spells", True),), every_rank=True, kind="uniform", seconds=60),
    Case("priority_lock", "a lock with priority inheritance that another thread has", "cpu-lock", (Order("priority_lock"),)),
    Case("callbacks", "a library calls back into Python for each of its events, from threads of its own", "cpu-gil",
         (Order("callbacks"),)),
    Case("timer_slack", "a library allows its timers to be 8 ms late: its very short sleeps are long", "cpu-sleep",
         (Order("lazy_naps"),)),
    Case("event_count", "every fifth step waits for another process, at an eventfd", "cpu-process",
         (Order("event_count"),), seconds=60),
    Case("tiering", "a daemon pages the rank's cold memory out, and it is not cold", "os-memory",
         (Tool("inject.py swap --mb 256"), Tool("inject.py page_out --pid {pid} --every 80")),
         job=(*HOST, "--does", "update_heap mb=64"), seconds=60),
    Case("perf_left", "a profiler was left on: an interrupt after each 10.5 us of CPU time of one rank", "os-irq",
         (Tool("inject.py profile --pid {pid} --us 10.5"),), job=("--loader", "none", "--host-ms", "30"), world=2),
    Case("grace_periods", "each step waits for grace periods of the kernel (membarrier)", ("cpu-host-gap", "os-lock"),
         (Order("grace_periods"),)),
    Case("link_flap", "the link of a gloo rank loses all packets for 300 ms every 2 s",
         ("net-retransmits", "net-wait", "net-transfer"), (LinkPulses("0 100", 0.3, 1.7),), job=(*HOST, "--gloo"), link=True,
         or_all=True, needs=("module:torch", "netns"), seconds=60),
    Case("send_file", "each step sends a file (sendfile) to a slow reader", "net-wait", (Order("send_file"),)),
    Case("firewall", "the firewall of one rank's container gets 30,000 rules", ("os-softirq", "cpu-function", "cpu-python"),
         (Tool("firewall.py --link {dir}/link.name --rules 30000"),),
         job=(*HOST, "--does", "count_metrics victim={rank}"), link=True, needs=("netns", "command:iptables")),
    Case("tail_reads", "one in 20 reads of a file system's server (FUSE) takes 300 ms", ("storage-disk", "cpu-process"),
         (Tool("slow_files.py --at {dir}/remote-{rank} --ms 300 --one-in 20"),
          Order("read_remote path={dir}/remote-{rank}/data")), seconds=60, needs=("fuse",)),
    Case("read_scattered", "each step reads 600 records of 4 KiB that the page cache has not, with the read-ahead off",
         "storage-disk", (Order("read_scattered"),)),
    Case("harder_samples", "a data loader's worker computes longer for each sample", "storage-loader",
         (Order("harder_samples"),), job=("--loader", "augment"), needs=("module:torch",)),
    Case("clock_and_sync", "a lower GPU clock for 3 s and synced writes for 3 s, in turn", ("gpu-clocks", "storage-sync"),
         (Pulses("gpu_clock.py --file {nvml} --device {rank} --mhz 1400", 3, 3), Order("sync_spells")), seconds=60),
    Case("growing_metric", "the metric of one rank's evaluation takes longer each time", "cpu-python",
         (Order("growing_metric"),), job=(*HOST, "--does", "evaluate every=60 steps=12"), seconds=60),
    # a fourteenth one
    Case("power_brake", "a rack's power brake lowers the clocks of all GPUs for 1.5 of every 4 s", "gpu-power",
         (Pulses("gpu_clock.py --file {nvml} --device all --mhz 1200 --also throttle=128", 1.5, 2.5),), every_rank=True,
         kind="uniform", seconds=60),
    Case("eval_kernel", "one kernel takes five times as long, in the 16 of 40 steps that are evaluation", "gpu-kernel",
         (Order("slower_in_evaluation name=gemm_f32_128x128_tn(qkv)"),),
         job=(*HOST, "--does", "evaluate every=40 steps=16"), seconds=60),
    Case("offload_aside", "activations go to the host on a stream of their own, and the backward pass waits for it",
         ("gpu-copy", "gpu-queue"), (Order("offload_aside at=middle"),)),
    Case("growing_optimizer", "the optimizer of every fourth step takes longer each time, on one rank", "gpu-kernel",
         (Order("growing_optimizer"),), job=(*HOST, "--does", "accumulate every=4 at=middle"), seconds=60),
    Case("staggered_gc", "each rank collects its garbage every eighth step, and each in another one",
         ("cpu-python", "cpu-function", "sw-hot-path"), (Order("staggered_garbage", True),), every_rank=True, seconds=60),
    Case("audit_hook", "a security hook in Python (sys.addaudithook) looks at each event of the interpreter", "cpu-python",
         (Order("audit_events"),), job=(*HOST, "--does", "copy_config count=1"), ends=False),
    Case("spin_lock", "a spin lock in shared memory, which another process has for most of the time",
         ("cpu-function", "cpu-lock"), (Order("spin_shared"),)),
    Case("import_lock", "the step imports a module whose import in another thread waits for a process",
         ("cpu-lock", "cpu-process"), (Order("import_late"),)),
    Case("syscall_agent", "a security agent's BPF program looks at each system call of one rank", ("cpu-function", "cpu-python"),
         (Tool("bpftrace -e tracepoint:raw_syscalls:sys_enter{{if(pid=={pid}){{unroll(12){{@[kstack,ustack]=count()}}}}}}"),),
         job=(*HOST, "--does", "small_files count=600"), needs=("command:bpftrace",)),
    Case("private_copy", "each step changes a private mapping of a file of 64 MB", "os-faults", (Order("private_copy"),)),
    Case("long_period", "a CPU limit with a period of a second, which is used up before its end", "os-cpu-limit",
         (Tool("cpu_limit.py --pid {pid} --of-use 75 --period-ms 1000"),), job=("--loader", "none", "--host-ms", "12"),
         seconds=60, needs=("cpu-group",)),
    Case("bursts", "the rank's affinity is one CPU, and a real-time process runs there for 80 of every 250 ms",
         "os-run-queue",
         (Tool("inject.py affinity --pid {pid} --cpus 1"), Tool("cpu_hog.py --cpu 1 --ms 80 --every 250")), job=BUSY,
         seconds=60),
    Case("mtu_hole", "packets of a gloo rank that are larger than 600 bytes are lost",
         ("net-wait", "net-retransmits", "hang-transfer"), (Link(0, 0, "0 0 600"),), job=(*HOST, "--gloo"), link=True,
         or_all=True, kind="hang", ends=False, needs=("module:torch", "netns"), seconds=40),
    Case("jitter", "one in 14 packets of a gloo rank is 80 ms late", ("net-wait", "net-transfer", "net-retransmits"),
         (Link(0, 0, "7 80"),), job=(*HOST, "--gloo"), link=True, or_all=True, needs=("module:torch", "netns"), seconds=60),
    Case("search_domains", "a name is looked up in four search domains, and each answer comes late", "net-wait",
         (Order("search_domains"),)),
    Case("store_key", "each step waits for a key of torch's TCPStore that another process sets late", "net-wait",
         (Order("late_keys"),), job=(*HOST, "--rank-does", "{rank} store_keys"), needs=("module:torch",)),
    Case("free_space", "each step asks a network file system for its free space, and its server is slow",
         ("storage-disk", "cpu-process"),
         (Tool("netfs.py --at {dir}/shared-{rank} --statfs-ms 30"), Order("free_space path={dir}/shared-{rank}")),
         needs=("fuse",)),
    Case("growing_state", "the checkpoint that one rank writes every eighth step is larger each time", "storage-sync",
         (Order("growing_state"),), job=(*HOST, "--rank-does", "{rank} save_planned"), seconds=60),
    Case("late_shards", "the storage of a data loader's worker answers late for 1.2 of every 3 s", "storage-loader",
         (StoragePulses(60, 1.2, 1.8),), job=("--loader", "worker"), server=True, needs=("module:torch",), seconds=60),
    Case("long_samples", "one in 12 samples takes the data loader's worker 150 times as long", "storage-loader",
         (Order("long_samples"),), job=("--loader", "augment"), needs=("module:torch",), seconds=60),
    # a fifteenth one
    Case("eval_reads", "one rank reads its samples past the page cache, in the 16 of 40 steps that are evaluation",
         "storage-disk", (Order("in_evaluation of=read_direct kib=24576"),),
         job=(*HOST, "--does", "evaluate every=40 steps=16"), seconds=60),
    Case("eval_shard", "the validation samples are spread unevenly: one rank has larger grids in evaluation",
         "imbalance-input", (Order("larger_shard"),), kind="imbalance",
         job=(*HOST, "--does", "evaluate every=40 steps=16"), seconds=60),
    Case("gloo_eval", "a loop in Python in evaluation on one rank of a job that reduces on the host as well", "cpu-python",
         (Order("metrics_in_evaluation rounds=600"),), job=(*HOST, "--gloo", "--does", "evaluate every=40 steps=16"),
         link=True, needs=("module:torch", "netns"), seconds=60),
    Case("late_checkpoint", "the process that writes one rank's last checkpoint is not done when the next one begins",
         ("cpu-process", "storage-sync"), (Order("late_checkpoint"),), job=(*HOST, "--does", "save_by_process"), seconds=60),
    Case("slow_save", "every sixth step one rank saves its state to a network file system that takes each write late",
         ("storage-disk", "cpu-process"), (Tool("netfs.py --at {dir}/shared-{rank} --write-ms 8"),
                                           Order("save_shared path={dir}/shared-{rank}/state")), seconds=60,
         needs=("fuse",)),
    Case("eval_sync_all", "all ranks write what they predict and sync it, in evaluation", "storage-sync",
         (Order("in_evaluation of=sync_state mb=8", True),), job=(*HOST, "--does", "evaluate every=40 steps=16"),
         every_rank=True, kind="uniform", seconds=60),
    Case("copy_spells", "the copies of two GPUs are slow for 1 of every 3 s: others use their PCIe switch", "gpu-copy",
         (Of(neighbours, *(Tool("gpu_gap.py --pid {pid} --copy-mbps 100 --on-s 1 --off-s 2") for _ in range(2))),),
         ranks=neighbours, seconds=60, needs=("command:gdb",)),
    Case("heat_spells", "the GPU is hot and lowers its clock for 2 of every 4.5 s", "gpu-thermal",
         (Pulses("gpu_clock.py --file {nvml} --device {rank} --mhz 1200 --also temperature_c=94 --also throttle=64", 2, 2.5),),
         seconds=60),
    Case("all_slow_copies", "the copies of all ranks run at 200 MB a second: the IOMMU was switched on", "gpu-copy",
         (Tool("gpu_gap.py {pids} --copy-mbps 200"),), every_rank=True, kind="uniform", needs=("command:gdb",)),
    Case("all_recompute", "activations are not kept on any rank: the backward pass computes them again", "sw-kernels",
         (Order("recompute at=middle", True),), every_rank=True, kind="uniform"),
    Case("fallback_blocks", "in every third step one kernel runs with many small blocks, and takes 3.5 times as long",
         ("gpu-kernel", "gpu-variant"), (Order("fallback_blocks name=attention_backward_kernel(float*)"),),
         named=("attention_backward",), seconds=60),
    Case("worker_limit", "a CPU limit of 60% of what the data loader's worker uses", ("storage-loader", "os-cpu-limit"),
         (Tool("cpu_limit.py --pid {child} --of-use 60"),), job=("--loader", "augment"),
         needs=("module:torch", "cpu-group")),
    Case("same_cpu", "a wrong map of CPUs: three of four ranks may use the same one only", "os-run-queue",
         (Of(others, *(Tool("inject.py affinity --pid {pid} --cpus 1") for _ in range(3))),),
         job=("--loader", "none", "--host-ms", "20"), ranks=others, or_all=True, seconds=60),
    Case("remote_lock", "each step locks a file of a network file system, whose server is slow",
         ("cpu-lock", "storage-disk", "cpu-process"), (Tool("netfs.py --at {dir}/shared-{rank} --lock-ms 25"),
                                                       Order("lock_shared path={dir}/shared-{rank}/lock")),
         needs=("fuse",)),
    Case("blocked_loop", "the step asks another thread's event loop, where a coroutine computes in Python first",
         ("cpu-lock", "cpu-python"), (Order("blocked_loop"),)),
    Case("trace_callers", "every fifth step a decorator looks at the stacks of its callers (inspect.stack)", "cpu-python",
         (Order("trace_callers"),), seconds=60),
    Case("factorise", "every sixth step an optimizer of second order takes a matrix apart on the host (LAPACK)",
         ("cpu-function", "cpu-python"), (Order("factorise"),), named=("eigh|lapack|blas",), seconds=60),
    Case("shared_batches", "each batch comes in a new segment of shared memory", "os-faults", (Order("shared_batches"),)),
    Case("dead_replica", "every third step tries a replica first that takes no connections", "net-wait",
         (Order("dead_replica"),), seconds=60),
    Case("rate_spells", "the link of one rank carries a thirtieth for 1.2 of every 3.5 s: the collectives of all are longer",
         "net-transfer", (Pulses("nccl_rate.py --pid {pid} --mbps 4000", 1.2, 2.3),), every_rank=True, kind="uniform",
         ranks=nobody, or_all=True, needs=("command:gdb",), seconds=60),
    # a nineteenth one
    Case("shuffle_list", "each step takes the first 12 samples of a list of 1,500,000: all others move",
         ("cpu-function", "cpu-python"), (Order("shuffle_list"),)),
    Case("new_contexts", "every third step makes two new TLS contexts, which read all certificates each time",
         ("cpu-function", "cpu-python"), (Order("new_contexts"),), seconds=60),
    Case("run_remote", "every second step runs a program that lies on a slow file system (FUSE)",
         ("cpu-process", "storage-disk"), (Tool("slow_files.py --at {dir}/remote-{rank} --ms 12 --program /bin/true"),
                                           Order("run_remote path={dir}/remote-{rank}/data")), seconds=60, needs=("fuse",)),
    Case("watch_memory", "each step sums up its own memory from /proc/self/smaps", ("cpu-function", "cpu-python"),
         (Order("watch_memory"),)),
    Case("lost_index", "two ranks look for samples in a table that has no index for it", ("cpu-function", "cpu-python"),
         (Of(neighbours, *(Order("lost_index") for _ in range(2))),), ranks=neighbours),
    Case("exit_waits", "a step of one rank raises, and the interpreter's exit waits for a thread that has nothing to do",
         ("cpu-lock", "hang-missing"), (Order("exit_waits"),), kind="hang", ends=False, seconds=40),
    Case("fewer_samples", "one rank has no more samples and looks for the others' end of the epoch, again and again",
         ("cpu-sleep", "hang-missing"), (Order("fewer_samples"),), kind="hang", ends=False, seconds=40),
    Case("next_shard", "every eighth step of all ranks asks a server that answers one after the other", "net-wait",
         (Order("next_shard", True),), job=(*HOST, "--rank-does", "0 shard_server"), every_rank=True, kind="uniform",
         seconds=60),
    Case("soft_lock", "two ranks work under a lock that is a file: who finds it there looks again after 50 ms",
         ("cpu-sleep", "cpu-lock"), (Of(neighbours, *(Order("soft_lock path={dir}/soft") for _ in range(2))),),
         ranks=neighbours),
    Case("deadline_class", "the launch thread has the deadline class, with a budget that is too small",
         ("os-run-queue", "os-cpu-limit"), (Order("deadline_class"),), job=BUSY),
    Case("retry_batches", "every fourth step of all ranks computes its batch twice: the loss was not finite", "sw-kernels",
         (Order("retry_batches at=middle", True),), every_rank=True, kind="uniform", seconds=60),
    Case("plain_attention", "the fused attention is missing on one rank: three kernels in place of one, 70% longer",
         ("sw-environment", "gpu-variant", "gpu-kernel"), (Order("plain_attention"),)),
    Case("longer_plans", "one rank plans for all, for longer, and the others look for its file again and again",
         "cpu-python", (Order("longer_plans"),), job=(*HOST, "--does", "plan_by_file planner={rank} path={dir}/plan"),
         or_all=True, seconds=60),
    Case("slow_mount", "one of a data loader's two workers reads from a slow mount, and the batches come in turn",
         "storage-loader", (Order("slow_mount"),), job=("--loader", "two"), needs=("module:torch",)),
    Case("all_spells", "all kernels of all GPUs take 110% longer for 2 of every 5 s, at the usual clocks",
         ("gpu-slow", "sw-kernels"), (Order("slow_spells on_ms=2000 every_ms=5000 percent=110", True),), every_rank=True,
         kind="uniform", seconds=60),
    Case("unpacked", "sequences are no longer packed: steps of all ranks have up to 60% more to do, each as it comes",
         "imbalance-input", (Order("unpacked", True),), every_rank=True, kind="imbalance", seconds=60),
    Case("absent_modules", "each step looks for six modules that are not there, in 400 places",
         ("cpu-python", "cpu-function"), (Order("absent_modules"),)),
    Case("large_on_host", "all ranks reduce 24 MB on the host (gloo) in each step in place of 4 KiB",
         ("net-transfer", "net-wait"), (Order("large_on_host", True),), job=(*HOST, "--gloo"), link=True, every_rank=True,
         kind="uniform", needs=("module:torch", "netns"), seconds=60),
    Case("sync_before", "a rank syncs its state to the disk before it hands it to the next rank, which waits at a socket",
         "storage-sync", (Order("sync_before"),), job=(*HOST, "--does", "hand_on sender={rank}"), seconds=60),
    Case("refresh_token", "every 40th step of one rank runs a program for 900 ms and waits for it", "cpu-process",
         (Order("run_program every=40 ms=900"),), seconds=60),
    Case("kernel_spells", "one kernel of two ranks takes 220% longer for 2 of every 4.5 s", "gpu-kernel",
         (Of(neighbours, *(Order("kernel_spells name=attention_backward_kernel(float*)") for _ in range(2))),),
         ranks=neighbours, seconds=60),
    Case("dear_metrics", "all ranks wait for a thread of one rank to take their metrics, which it adds up in Python",
         ("cpu-python", "cpu-gil"), (Order("dear_metrics"),), job=(*HOST, "--does", "hub center={rank}"), or_all=True,
         seconds=60),
    Case("gloo_program", "every sixth step of a rank of a job that reduces on the host runs a program for 150 ms",
         "cpu-process", (Order("run_program every=6 ms=150"),), job=(*HOST, "--gloo"), link=True,
         needs=("module:torch", "netns"), seconds=60),
    Case("all_programs", "every 30th step of all ranks runs a program for 600 ms and waits for it",
         "cpu-process", (Order("run_program every=30 ms=600", True),), every_rank=True, kind="uniform", seconds=60),
    Case("all_copies", "the batches of all ranks have 100 times the bytes", "gpu-copy", (Order("copies count=400", True),),
         every_rank=True, kind="uniform"),
    Case("all_late_starts", "each operation of all GPUs begins 0.4 ms late", "gpu-queue",
         (Tool("gpu_gap.py {pids} --us 400"),), every_rank=True, kind="uniform", needs=("command:gdb",)),
    Case("log_histograms", "healthy: every 16 steps all ranks make histograms of their weights, and rank 0 writes them",
         job=(*HOST, "--does", "log_histograms at=launched")),
    Case("rollouts", "healthy: 8 of 12 steps generate, with many small kernels; the others learn",
         job=(*HOST, "--does", "rollouts")),
    Case("drop_layers", "healthy: each step leaves out some layers, the same ones on all ranks",
         job=(*HOST, "--does", "drop_layers")),
    # a twentieth one
    Case("core_dumps", "every tenth step a worker process crashes, and the kernel writes its core of 96 MB", "cpu-process",
         (Order("core_dumps"),), seconds=60),
    Case("leaked_files", "19,000 files are open, and each step runs eight programs: the kernel closes them all for each",
         ("cpu-process", "cpu-function"), (Order("leaked_files"),)),
    Case("port_search", "nearly all local ports are in use, and each new connection looks for one that is not",
         ("cpu-function", "cpu-python"), (Order("port_search"),), needs=("netns",)),
    Case("many_patterns", "more regular expressions than Python keeps compiled: each is compiled again and again", "cpu-python",
         (Order("many_patterns"),)),
    Case("detect_anomaly", "PyTorch's anomaly detection was left on in one rank, whose head is trained on the host",
         ("cpu-python", "cpu-function"), (Order("detect_anomaly"),), job=(*HOST, "--does", "small_head"),
         needs=("module:torch",)),
    Case("load_here", "a data loader without workers makes each batch in the launch thread, in Python",
         ("storage-loader", "cpu-python", "cpu-function"), (Order("load_here"),), needs=("module:torch",)),
    Case("full_pool", "a little task of the step waits in a pool of two threads, behind uploads to a slow server",
         ("cpu-lock", "net-wait"), (Order("full_pool"),)),
    Case("signal_answer", "each step waits for the signal of another process (sigwait), which comes late", "cpu-process",
         (Order("signal_answer"),)),
    Case("load_plugins", "a thread loads plugins from a slow file system (FUSE), and the step's dlopen waits for it",
         ("cpu-lock", "storage-disk", "cpu-process"), (
             Tool("slow_files.py --at {dir}/plugins-{rank} --ms 12 --program /lib/x86_64-linux-gnu/libz.so.1"),
             Order("load_plugins path={dir}/plugins-{rank}/data")), needs=("fuse",)),
    Case("starved_cache", "all ranks ask a process of their node for samples, whose one CPU a real-time process has",
         ("cpu-process", "os-run-queue"), (Of(first_rank, Order("bind_cache")), Tool("cpu_hog.py --cpu 1 --ms 45 --every 50")),
         job=(*HOST, "--does", "sample_cache"), every_rank=True, kind="uniform", seconds=60),
    Case("worker_locked", "a data loader's worker waits for a lock file, which a process has that cleans the cache",
         ("storage-loader", "cpu-lock"), (Tool("inject.py flock --path {dir}/index-{rank} --ms 300 --every 320"),),
         job=("--loader", "locked"), needs=("module:torch",), seconds=60),
    Case("cold_cache", "a rank waits for another rank's thread, which reads its answers past the page cache",
         ("cpu-process", "storage-disk"), (Order("cold_cache"),), job=(*HOST, "--does", "peer_cache server={rank}"),
         ranks=next_one, seconds=60),
    Case("compare_settings", "a rank compares its settings in Python before it sets a flag for which the next rank spins",
         "cpu-python", (Order("compare_settings"),), job=(*HOST, "--does", "flags path={dir}/flags sender={rank}"), seconds=60),
    Case("walk_shards", "all ranks meet at a barrier of keys (TCPStore), and one walks through directories first",
         ("cpu-function", "cpu-python"), (Order("walk_shards"),), job=(*HOST, "--does", "store_barrier"), or_all=True,
         needs=("module:torch",), seconds=60),
    Case("locked_part", "the ranks write to an index one after the other, and another process has the lock of one's part",
         "cpu-lock", (Tool("inject.py flock --path {dir}/ring-part-{rank} --ms 50 --every 100"),),
         job=(*HOST, "--does", "token_ring path={dir}/ring"), or_all=True, seconds=60),
    Case("bind_gloo", "the thread of gloo in one rank may use one CPU only, with a real-time process on it", "os-run-queue",
         (Order("bind_gloo"), Tool("cpu_hog.py --cpu 1")), job=(*HOST, "--gloo"), link=True, or_all=True,
         needs=("module:torch", "netns"), seconds=60),
    Case("left_breakpoint", "a breakpoint was left in the script: the debugger of one rank waits for a command",
         ("cpu-process", "hang-missing"), (Order("left_breakpoint"),), kind="hang", ends=False, seconds=40),
    Case("lone_broadcast", "one rank broadcasts where the others reduce", "hang-mismatch", (Order("lone_broadcast"),),
         kind="hang", ends=False, seconds=40),
    Case("dead_link", "the link of one rank carries next to nothing: a collective that all have entered does not end",
         "hang-transfer", (Tool("nccl_rate.py --pid {pid} --mbps 1"),), kind="hang", ranks=nobody, or_all=True, ends=False,
         needs=("command:gdb",), seconds=40),
    Case("both_receive", "two ranks exchange their samples over TCP, and both receive first", ("net-wait", "hang-missing"),
         (Of(neighbours, *(Order("receive_first") for _ in range(2))),), job=(*HOST, "--does", "exchange first={rank}"),
         ranks=neighbours, kind="hang", ends=False, seconds=40),
    Case("fork_with_lock", "a process waits for a lock that a thread had when it was forked, and the rank for the process",
         ("cpu-process", "hang-missing"), (Order("fork_with_lock"),), kind="hang", ends=False, seconds=40),
    Case("no_overlap", "all ranks reduce their gradients after the backward pass, and no longer beside it",
         "net-transfer", (Order("no_overlap", True),), job=(*HOST, "--does", "large_gradients"), every_rank=True,
         kind="uniform", ranks=nobody, or_all=True),
    Case("thread_model", "a thread of one rank scores samples with a model of its own, on the stream of the step's kernels",
         ("sw-environment", "gpu-queue"), (Order("thread_model"),)),
    Case("look_rarely", "two ranks exchange edges by shared memory, and each looks for the other's every 7 ms only",
         "cpu-sleep", (Of(neighbours, *(Order("look_rarely") for _ in range(2))),),
         job=(*HOST, "--does", "halo path={dir}/halo first={rank}"), ranks=neighbours, seconds=60),
    Case("merged_pages", "the kernel merges equal pages of the rank's memory (KSM), and the step writes to them again",
         "os-faults", (Order("merged_pages"),)),
    Case("gather_rows", "every third step gathers 900,000 rows of a table on the host from all over it",
         ("cpu-function", "cpu-python"), (Order("gather_rows"),), seconds=60),
    Case("dashboard", "healthy: a thread of rank 0 answers a process that asks for its metrics ten times a second",
         job=(*HOST, "--does", "dashboard")),
    Case("checkpoint_aside", "healthy: every 40 steps all ranks copy their state on a stream of its own; a thread writes it",
         job=(*HOST, "--does", "checkpoint_aside")),
    Case("samples_in_turn", "healthy: every 50 steps one of the ranks, each in its turn, writes some samples to look at",
         job=(*HOST, "--does", "samples_in_turn")),
    # a twenty-first one
    Case("staged_copies", "batches are not in pinned memory: each MB is staged and waited for",
         ("gpu-copy", "cpu-function", "cpu-python"), (Order("staged_copies"),)),
    Case("zero_gradients", "all ranks set their gradients to zero by memset in each step", "gpu-copy",
         (Order("zero_gradients at=launched", True),), every_rank=True, kind="uniform"),
    Case("copy_history", "each step copies a history to the host that grows in each step", "gpu-copy",
         (Order("copy_history at=launched"),), seconds=60),
    Case("keep_average", "two ranks keep an average of the weights, by kernels of its own", "sw-environment",
         (Of(neighbours, *(Order("keep_average at=launched") for _ in range(2))),), ranks=neighbours),
    Case("normalize_text", "each step brings its texts to one form of Unicode", ("cpu-function", "cpu-python"),
         (Order("normalize_text"),)),
    Case("warn_often", "all warnings were switched on, and a deprecated function is called often", "cpu-python",
         (Order("warn_often"),)),
    Case("weighted_samples", "every third step draws samples by the weights of all (torch.multinomial)",
         ("cpu-function", "cpu-python"), (Order("weighted_samples"),), job=(*HOST, "--tensor", "64"),
         needs=("module:torch",), seconds=60),
    Case("tracker_lock", "a tracker's thread syncs its journal under a lock that the step needs",
         ("cpu-lock", "storage-sync"), (Order("tracker_lock"),)),
    Case("pods", "pods come and go now and then, and each step asks for the network's devices", "os-lock",
         (Pulses("pods.py --devices 400", 2, 1.5), Order("watch_network")), seconds=60),
    Case("many_tensors", "a data loader's batches are many little tensors in shared memory",
         ("storage-loader", "cpu-process", "cpu-python", "cpu-function"), (Order("many_tensors"),),
         job=(*HOST, "--tensor", "64"), needs=("module:torch",)),
    Case("kept_pipe", "each step reads a program's output, which the program's own child keeps open", "cpu-process",
         (Order("kept_pipe"),)),
    Case("nice_yield", "a library gives the CPU to others between its pieces, beside busy processes", "os-run-queue",
         (Order("nice_yield"), Say("job hogs 2", "job hogs 0"))),
    Case("pod_memory", "the memory limit of one pod is below what all its ranks map", "os-memory",
         (Tool("pod_memory.py {pids} --mb 8 --cold {dir}/mapped-0 {dir}/mapped-1 {dir}/mapped-2 {dir}/mapped-3"),),
         job=(*HOST, "--does", "mapped_file mb=3 cold=0 stride=1"), every_rank=True, kind="uniform"),
    Case("expect_continue", "an HTTP client asks whether it may send, and the server says nothing", "net-wait",
         (Order("expect_continue"),)),
    Case("net_connections", "every second step reads the list of 9,000 sockets that nobody closed",
         ("cpu-function", "cpu-python"), (Order("net_connections"),), needs=("netns",), seconds=60),
    Case("store_flood", "all ranks add to 300 counters of a TCPStore in each step", ("net-wait", "sw-hot-path"),
         (Order("store_flood", True),), job=(*HOST, "--does", "store_board"), every_rank=True, kind="uniform",
         needs=("module:torch",), seconds=60),
    Case("shared_db", "all ranks write to one SQLite database, and ask again while it is locked",
         ("cpu-sleep", "cpu-lock"), (Order("shared_db path={dir}/board.db", True),), every_rank=True, kind="uniform",
         seconds=60),
    Case("pausing_server", "a feature store stops for 450 ms every 2.5 s, to collect its garbage", "net-wait",
         (Order("pausing_server"),), seconds=60),
    Case("expired_cache", "every eleventh step computes again what a cache has forgotten", "cpu-python",
         (Order("expired_cache"),), seconds=60),
    Case("prune_cache", "every third step removes a directory of 1,200 small files",
         ("cpu-function", "cpu-python", "storage-disk"), (Order("prune_cache"),), seconds=60),
    Case("parallel_reads", "threads of two ranks read from a slow file system (FUSE), and the steps wait",
         ("storage-disk", "cpu-lock"), (Tool("slow_files.py --at {dir}/remote --ms 4"), Of(neighbours, *(
             Order("parallel_reads path={dir}/remote/data") for _ in range(2)))), ranks=neighbours, needs=("fuse",)),
    Case("wrong_source", "a rank waits on the host for a message that no rank sends (gloo)",
         ("net-wait", "hang-missing"), (Order("wrong_source"),), job=(*HOST, "--gloo"), link=True, kind="hang",
         ends=False, needs=("module:torch", "netns"), seconds=40),
    Case("kept_gil", "a library's binding keeps the GIL while it waits for ever, in a thread", ("cpu-gil", "hang-missing"),
         (Order("kept_gil"),), kind="hang", ends=False, seconds=40),
    Case("dead_mount", "a rank's file server (FUSE) doesn't answer any more", ("storage-disk", "hang-missing"),
         (Tool("slow_files.py --at {dir}/remote-{rank} --ms 600000"),
          Order("read_remote path={dir}/remote-{rank}/data")), kind="hang", ends=False, needs=("fuse",), seconds=40),
    Case("coordinator_gone", "all ranks look for a file that a dead coordinator should have written",
         ("cpu-sleep", "hang-missing"), (Order("coordinator_gone path={dir}/next-epoch", True),), every_rank=True,
         kind="hang", ends=False, seconds=40),
    Case("program_aside", "healthy: a thread of each rank runs a program every two seconds",
         job=(*HOST, "--does", "program_aside")),
    Case("move_experts", "healthy: every 70 steps all ranks exchange their experts",
         job=(*HOST, "--does", "move_experts at=launched")),
    Case("upload_aside", "healthy: a thread of rank 0 sends its checkpoints to a slow store",
         job=(*HOST, "--does", "upload_aside")),
]


def layers():
    """The layer of each cause, by the product's own table."""
    with open(os.path.join(ROOT, "model/causes.def"), encoding="ascii") as f:
        return {cause: layer.lower() for layer, cause in re.findall(r'CAUSE\(\w+,\s*(\w+),\s*"([\w-]+)"', f.read())}


def as_set(value):
    return set() if value is None else {value} if isinstance(value, str) else set(value)


BY_NAME = {c.name: c for c in CASES}
assert len(BY_NAME) == len(CASES)

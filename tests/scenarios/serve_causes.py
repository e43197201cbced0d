#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Root causes of slow inference, after StriaTrace's table 4: each is put into the serving engine of sim/serve under
load, and the verdict is compared with what was done. `make serve-causes`, as root; docs/serving-causes.md has the results.

usage: serve_causes.py BUILD [ROW...]"""
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["B"] = os.path.abspath(sys.argv[1])
from serve_stack import B, Stack, truth_of, wait_for  # noqa: E402

LEARN_S, FAULT_S = 32, 10
SETTLE_S = 40  # the longest time from the fault's end to the incident with its diagnosis
RANK = 1
CLOCK = "tests/faults/gpu_clock.py --file {nvml} --device 1 --mhz 1200"
# How much the verdict says: which steps or requests; which rank and layer, or which span; which cause, and the function,
# kernel or part that has it.
CLASSES = ("nothing", "steps", "place", "cause")


@dataclasses.dataclass
class Row:
    name: str
    what: str
    fault: str = ""  # of serve_sim.py, the usual times added unless it has its own; several with blanks between
    tool: str = ""  # or programs that run meanwhile; {pid}: of the rank
    link: str = ""  # or what the link to a store does meanwhile: slow_link.py's "DELAY_MS LOSS_PERCENT"
    options: tuple = ()
    flags: str = ""  # of sysomd
    causes: tuple = ()  # that a good engineer would accept
    named: str = ""  # what must be named for the class "cause"
    layer: str = ""
    once: bool = False  # a single step
    requests: bool = False  # no rank is slow: the requests' incident says it


GPU = ("gpu-slow", "gpu-queue")
PYTHON = ("cpu-python", "cpu-function")
ROWS = (
    Row("clocks", "the clock of one GPU is down", tool=CLOCK, causes=("gpu-clocks",), named="clock", layer="gpu"),
    Row("temperature", "one GPU is hot and slows down", tool=CLOCK + " --also temperature_c=92 --also throttle=64",
        causes=("gpu-thermal",), named="", layer="gpu"),
    Row("gpu_shared", "another process takes a part of one GPU's multiprocessors", "slow:rank=1:size=1.8",
        tool="tests/faults/gpu_clock.py --file {nvml} --device 1 --mhz 1980 --also other=PID", causes=GPU, named=") on GPU 1", layer="gpu"),
    Row("attention", "the attention kernel of one rank is slow", "kernel:rank=1:size=5", causes=("gpu-kernel", "gpu-variant"),
        named="flash_attention", layer="gpu"),
    Row("expert", "the experts of one rank get most tokens", "expert:rank=1:size=2.5", causes=("gpu-kernel", "imbalance-input"),
        named="mlp", layer="gpu"),
    Row("background", "another process takes the CPU that a worker may use",
        tool="tests/faults/inject.py affinity --pid {pid} --cpus 1; tests/faults/cpu_hog.py --cpu 1", causes=("os-run-queue",),
        named="cpu-hog", layer="os"),
    Row("launch", "the process that launches is stopped again and again",
        tool="tests/faults/inject.py stop --pid {pid} --ms 60 --every 330", causes=("os-stopped",), named="host stopped", layer="os"),
    Row("fallback", "a worker loads cached prefixes from files, past the page cache", "fallback:rank=1:size=32",
        causes=("storage-disk",), named="_read_files", layer="storage"),
    Row("nic", "the link over which a worker saves its cache loses packets", link="0 12",
        causes=("net-retransmits",), named="wait_for_save", layer="network"),
    Row("gil", "a thread of one worker holds the GIL", "gil:rank=1", causes=("cpu-gil",), named="collect_statistics", layer="cpu"),
    Row("sampler", "the sampling function is slow", "sample:rank=1:size=60", causes=PYTHON, named="apply_penalties", layer="cpu"),
    Row("graphs_off", "one rank runs operator by operator, without graphs", "eager:rank=1:size=5",
        causes=("sw-kernels", "sw-environment", *PYTHON), named="eager", layer="cpu"),
    Row("pad", "a single spike in make_ndarray_with_pad", "spike:rank=1:every=1000:size=160", causes=PYTHON,
        named="make_ndarray_with_pad", layer="cpu", once=True),
    Row("triton", "Triton compiles a kernel inside a step", "triton:rank=1:every=1000:size=400", causes=PYTHON,
        named="compile", layer="cpu", once=True),
    Row("kv", "the key-value cache takes long to carry", "kv:size=300", options=("--split", "--workers", "1"),
        flags="--requests-tpot 60ms", causes=("request-transfer",), named="transfer", requests=True),
    Row("schedule", "the engine's scheduler is slow, which is none of the table's", "schedule:size=150", flags="--requests-tpot 60ms",
        causes=("request-decode",), named="_sort_waiting (scheduler.py:", requests=True),
    Row("ghost", "drafted tokens are never accepted", "ghost", options=("--speculate", "3"), flags="--requests-tpot 35ms",
        causes=("request-drafts",), named="accepted", requests=True),
)


# What a rank saves, piece by piece.
STORE = """import socket, socketserver, sys
class Store(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(65536, socket.MSG_WAITALL):
            self.request.sendall(b"k")
with socketserver.TCPServer((sys.argv[1], 0), Store) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


class Link:
    """A store in a namespace of its own, behind a link that can lose packets."""

    def __init__(self, path):
        self.path = path
        self.set("0 0")
        self.link = self.begin(sys.executable, "tests/faults/slow_link.py", "--file", path)
        netns, _, _, _, far = self.link.stdout.readline().split()
        self.store = self.begin("nsenter", f"--net=/run/netns/{netns}", sys.executable, "-c", STORE, far)
        self.address = f"{far}:{self.store.stdout.readline().strip()}"

    @staticmethod
    def begin(*command):
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def set(self, text):
        with open(self.path, "w", encoding="ascii") as f:
            f.write(text)

    def end(self):
        for p in self.store, self.link:
            p.terminate()
            p.wait()


def start(stack, row, truth, nvml, link):
    options = ["--seconds", "900", "--truth", truth, "--requests-per-second", "2", "--prompt-scale", "0.1", "--output-scale", "0.6"]
    for fault in row.fault.split():
        options += ["--fault", fault if ":start=" in fault else f"{fault}:start={LEARN_S}:seconds={FAULT_S}"]
    if link:
        options += ["--kv-store", f"{RANK}={link.address}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "PYTHON", "LD_PRELOAD"))}
    env = dict(env, SIM_LIB=f"{B}/lib/sim", SIM_NVML_FILE=nvml, LC_ALL="C.UTF-8", **stack.env)
    return subprocess.Popen([f"{B}/bin/sysom", "run", "--job", row.name, "--", "/usr/bin/python3", "sim/serve_sim.py",
                             *options, *row.options], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            process_group=0)


def start_of(truth):
    def read():
        if os.path.exists(truth):
            with open(truth, encoding="ascii") as f:
                return json.loads(f.readline() or "{}").get("start_ns")
        return None
    return wait_for(60, read)


def pid_of(truth):
    """The rank's process."""
    return next(s["pid"] for s in truth_of(truth)["worker_step"] if s["rank"] == RANK)


def class_of(row, incident):
    """How much of what was done the incident says."""
    text = json.dumps(incident)
    d = incident["diagnosis"]
    place = row.requests or (RANK in d["ranks"] and (d["layer"] == row.layer or d["cause"] in row.causes))
    if place and d["cause"] in row.causes and row.named in text:
        return 3
    return 2 if place else 1


def found_since(stack, row, since_ns):
    listed = stack.get("SYSOM_URL", f"incidents?job={row.name}")["incidents"]
    listed = [i for i in listed if int(i["end_unix_ns"]) > since_ns and (i["symptom"] != "transient" or row.once)]
    return sorted(listed, key=lambda i: class_of(row, i), reverse=True)


def run(row):
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        nvml, truth = f"{work}/nvml", f"{work}/truth.jsonl"
        with open(nvml, "w", encoding="ascii"):
            pass
        os.environ["SIM_NVML_FILE"] = nvml
        stack = Stack(f"{work}/stack", f"--gpu-library {B}/lib/sim/libnvidia-ml.so.1 {row.flags}")
        link = Link(f"{work}/link") if row.link else None
        job = start(stack, row, truth, nvml, link)
        start_ns = start_of(truth)
        time.sleep(max(0.0, LEARN_S - (time.monotonic_ns() - start_ns) / 1e9))
        since = time.time_ns()
        pid = pid_of(truth) if "{pid}" in row.tool else 0
        tools = [subprocess.Popen([sys.executable, *tool.split()])
                 for tool in row.tool.format(nvml=nvml, pid=pid).split(";") if tool]
        if link:
            link.set(row.link)
        time.sleep(FAULT_S)
        for tool in reversed(tools):
            tool.terminate()
            tool.wait()
        if link:
            link.set("0 0")
        wait_for(SETTLE_S, lambda: [i for i in found_since(stack, row, since) if CLASSES[class_of(row, i)] == "cause"])
        found = found_since(stack, row, since)
        shown = stack.sysom("show", found[0]["id"]).stdout if found else ""
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        if link:
            link.end()
        stack.stop()
    best = class_of(row, found[0]) if found else 0
    good = CLASSES[best] == "cause"
    print(f"{'ok' if good else 'NOT OK'} {row.name}: {row.what}: {CLASSES[best]}")
    for i in found:
        step = i.get("slow_step") or {}
        print(f"  {i['id']} {(int(i['begin_unix_ns']) - since) / 1e9:+.1f} s {i['symptom']} ranks {i['ranks']} {i['diagnosis']['cause']} ({100 * i['diagnosis']['confidence']:.0f}%) of "
              f"{i['diagnosis']['ranks']}; span {step.get('span')}, {step.get('function')}, bound {step.get('bound')}; "
              f"other spikes {[s['function'] for s in i.get('other_spikes') or []]}; signals {[s['text'] for s in i['signals'] if s['raised']]}")
    print("\n".join("    " + line for line in shown.splitlines()[:24]), flush=True)
    return good


def main():
    names = sys.argv[2:]
    unknown = set(names) - {r.name for r in ROWS}
    if unknown:
        sys.exit(f"serve_causes.py: no row {', '.join(sorted(unknown))}; rows: {' '.join(r.name for r in ROWS)}")
    print(f"# {time.strftime('%Y-%m-%dT%H:%MZ', time.gmtime())} {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    good = [run(r) for r in ROWS if not names or r.name in names]
    print(f"{sum(good)} of {len(good)} rows name the cause")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sysomd costs while jobs run, of one build or of two at once, each with a stack and a job of its own.
usage: live_cost.py BUILD [BUILD] -- SIMJOB_OPTION..., for instance
       live_cost.py ../before/build/gcc build/gcc -- --ranks 4 --seed 5
       live_cost.py BUILD [BUILD] -- ring_load RANKS EVENTS_PER_S: ranks that only write their rings"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
from free_ports import free_ports  # noqa: E402

LEARN_S, MEASURE_S = 20, 15


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as reply:
        return reply.read()


class Stack:
    def __init__(self, build, options):
        self.build, self.dir, self.children = build, tempfile.mkdtemp(), []
        nng, http, self.port = free_ports(3)
        sock, control = self.dir + "/sysomd.sock", self.dir + "/control.sock"
        self.env = dict(os.environ, SYSOM_SOCKET_PATH=sock, SYSOM_CONTROL_PATH=control)
        self.start("sysom-aggregator", "--nng-listen", f"tcp://127.0.0.1:{nng}", "--http-listen", f"127.0.0.1:{http}",
                   "--store-dir", self.dir + "/store")
        self.healthy(http)
        self.pid = self.start("sysomd", "--socket-path", sock, "--control-path", control, "--http-listen",
                              f"127.0.0.1:{self.port}", "--uplink-url", f"tcp://127.0.0.1:{nng}", "--uplink-http",
                              f"http://127.0.0.1:{http}", "--state-dir", self.dir + "/state").pid
        self.healthy(self.port)
        seconds = str(LEARN_S + MEASURE_S + 8)
        if options[0] == "ring_load":
            self.job = self.start("../bench/ring_load", *options[1:], seconds)
        else:
            self.job = self.start("sysom", "run", "--", f"{build}/bin/simjob", *options, "--seconds", seconds)

    def start(self, name, *args):
        with open(f"{self.dir}/{os.path.basename(name)}.log", "w", encoding="utf-8") as log:
            child = subprocess.Popen([f"{self.build}/bin/{name}", *args], env=self.env, stdout=log, stderr=log)
        self.children.insert(0, child)
        return child

    def healthy(self, port):
        for _ in range(200):
            try:
                return get(port, "healthz")
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"live_cost: no answer; see {self.dir}")

    def look(self):
        """(seconds, events, seconds of CPU by the scheduler's clock)"""
        cpu = 0
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/schedstat", encoding="ascii") as f:
                cpu += int(f.read().split()[0])
        return time.monotonic(), sum(r["events"] for r in json.loads(get(self.port, "api/v1/status"))["ranks"]), cpu / 1e9

    def peak_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))

    def resident_bytes(self, name):
        """of the mappings of that name"""
        total, inside = 0, False
        with open(f"/proc/{self.pid}/smaps", encoding="utf-8") as f:
            for line in f:
                if re.match(r"[0-9a-f]+-", line):
                    inside = name in line
                elif inside and line.startswith("Rss:"):
                    total += int(line.split()[1]) << 10
        return total

    def packed_bytes(self):
        metrics = get(self.port, "metrics").decode()
        return int(float(re.search(r"^sysom_recorder_memory_bytes (\S+)", metrics, re.M)[1]))

    def memory(self):
        """Rings are the jobs' memory; what is mapped of the BPF maps counts once."""
        rings, maps, packed = self.resident_bytes("memfd:sysom-ring"), self.maps_bytes(), self.packed_bytes()
        own = self.peak_bytes() + maps - self.resident_bytes("anon_inode:bpf-map") - rings - packed
        return (f"memory {own / 2**20:.1f} MiB, BPF maps ({maps / 2**20:.1f}) included, without rings "
                f"({rings / 2**20:.1f}) and packed blocks ({packed / 2**20:.1f})")

    def maps_bytes(self):
        maps = {}
        for fd in os.listdir(f"/proc/{self.pid}/fdinfo"):
            try:
                with open(f"/proc/{self.pid}/fdinfo/{fd}", encoding="ascii") as f:
                    fields = dict(line.split(":", 1) for line in f if ":" in line)
            except FileNotFoundError:
                continue
            if "map_id" in fields:
                maps[fields["map_id"]] = int(fields["memlock"])
        return sum(maps.values())

    def end(self):
        self.job.wait()
        for child in self.children:
            child.terminate()
            child.wait()
        shutil.rmtree(self.dir)


def main():
    if "--" not in sys.argv or sys.argv.index("--") not in (2, 3):
        raise SystemExit(__doc__)
    at = sys.argv.index("--")
    stacks = [Stack(build, sys.argv[at + 1:]) for build in sys.argv[1:at]]
    time.sleep(LEARN_S)
    before = [s.look() for s in stacks]
    time.sleep(MEASURE_S)
    costs = []
    for s, b in zip(stacks, before):
        seconds, events, cpu = (x - y for x, y in zip(s.look(), b))
        costs.append(1e7 * cpu / events)
        print(f"{s.build}: {events / seconds:.0f} events/s, {100 * cpu / seconds:.2f}% of a core, {costs[-1]:.2f}% per "
              f"100,000/s; {s.memory()}")
    if len(costs) == 2:
        print(f"x{costs[1] / costs[0]:.2f}")
    for s in stacks:
        s.end()


main()

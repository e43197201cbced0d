# SPDX-License-Identifier: Apache-2.0
"""An aggregator, a sysomd and a job of one's own in a private directory, for the scenarios. Whatever is
started here ends with the scenario, however that ends."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.join(ROOT, os.environ.get("B", "build/gcc"))
BIN = os.path.join(BUILD, "bin")
SIM = os.path.join(BUILD, "lib/sim")
AHEAD = -20  # of what else the machine does meanwhile
FAULTS = os.path.join(ROOT, "tests/faults")

sys.path.insert(0, os.path.join(ROOT, "tools"))
from free_ports import free_ports  # noqa: E402


def exact(o):
    """A JSON object whose times are numbers again: they come as strings of digits."""
    return {k: int(v) if k.endswith("_unix_ns") else v for k, v in o.items()}


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer, object_hook=exact)


class Processes:
    """Started processes, each the head of a group, ended in reverse order."""

    def __init__(self):
        self.all = []

    def start(self, argv, log, cpus=None, env=None, urgency=0, **more):
        """urgency: as nice, among sessions; a session is one to the scheduler (autogroups)."""
        def before():
            os.setsid()
            try:
                with open("/proc/self/autogroup", "w", encoding="ascii") as group:
                    group.write(str(urgency))
            except OSError:
                pass  # a kernel without them
            if cpus is not None:
                os.sched_setaffinity(0, cpus)
        with open(log, "ab") as f:
            p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL,
                                 stdout=more.pop("stdout", f), stderr=f, preexec_fn=before, cwd=ROOT,
                                 env=env, **more)
        self.all.append(p)
        return p

    def end(self, p, patience=10):
        """SIGTERM, then SIGKILL to the whole group. The exit status; None: had to be killed."""
        if p in self.all:
            self.all.remove(p)
        code = None
        if p.poll() is None:
            p.terminate()
        try:
            code = p.wait(patience)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait()
        return code

    def end_all(self):
        for p in reversed(list(self.all)):
            self.end(p)


class Stack:
    """cpus: where the daemons may run. flags: of sysomd."""

    def __init__(self, cpus=None, flags=()):
        self.dir = tempfile.mkdtemp(prefix="real-fault-")
        self.processes = Processes()
        self.cpus, self.flags = cpus, list(flags)
        nng, self.http, self.node_http = free_ports(3)
        self.nng = f"tcp://127.0.0.1:{nng}"
        self.url = f"http://127.0.0.1:{self.http}"
        self.nvml = os.path.join(self.dir, "nvml")
        self.truth = os.path.join(self.dir, "truth.jsonl")
        with open(self.nvml, "w", encoding="ascii") as f:
            f.write("# healthy\n")
        self.env = dict(os.environ, SYSOM_SOCKET_PATH=self.path("sysomd.sock"),
                        SYSOM_CONTROL_PATH=self.path("control.sock"), SYSOM_URL=self.url,
                        SIM_NVML_FILE=self.nvml, SIM_LIB=SIM, LC_ALL="C.UTF-8",
                        LD_LIBRARY_PATH=SIM, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
        self.aggregator = self.sysomd = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self):
        os.sync()  # what was built or written before is not what a disk is slow for
        self.start_aggregator()
        self.start_sysomd()

    def start_aggregator(self):
        self.aggregator = self.processes.start(
            [f"{BIN}/sysom-aggregator", "--nng-listen", self.nng, "--http-listen",
             f"127.0.0.1:{self.http}", "--store-dir", self.path("store")],
            self.path("aggregator.log"), self.cpus, self.env, AHEAD)
        self.wait(20, lambda: self.healthy(self.http))

    def start_sysomd(self):
        self.sysomd = self.processes.start(
            [f"{BIN}/sysomd", "--socket-path", self.env["SYSOM_SOCKET_PATH"], "--control-path",
             self.env["SYSOM_CONTROL_PATH"], "--http-listen", f"127.0.0.1:{self.node_http}",
             "--uplink-url", self.nng, "--uplink-http", self.url, "--state-dir", self.path("state"),
             "--os-bpf", "true",
             *self.flags], self.path("sysomd.log"), self.cpus, self.env, AHEAD)
        self.wait(20, lambda: self.healthy(self.node_http))

    @staticmethod
    def healthy(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            return answer.status == 200

    @staticmethod
    def wait(seconds, condition, every=0.1):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return True
            except (OSError, ValueError):
                pass
            time.sleep(every)
        return False

    def status(self):
        return get(f"http://127.0.0.1:{self.node_http}/api/v1/status")

    def job(self, name, argv):
        """Under `sysom run`; the ranks find the doubles and the NVML file."""
        return self.processes.start([f"{BIN}/sysom", "run", "--job", name, "--", *argv],
                                    self.path("job.log"), env=self.env, urgency=AHEAD)

    def incidents(self, job):
        """All but transients, oldest first."""
        found = get(f"{self.url}/api/v1/incidents?job={job}&limit=1000")["incidents"]
        return sorted((i for i in found if i["symptom"] != "transient"), key=lambda i: i["begin_unix_ns"])

    def incident(self, incident):
        """With the list of its windows."""
        return get(f"{self.url}/api/v1/incidents/{incident}")

    def show(self, incident):
        """What a person gets: `sysom show ID --json`."""
        done = subprocess.run([f"{BIN}/sysom", "show", incident, "--json"], env=self.env, timeout=30,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        return json.loads(done.stdout, object_hook=exact)

    def stop(self):
        """The daemons must end well. What went wrong, or None."""
        wrong = []
        for name, p in (("sysomd", self.sysomd), ("sysom-aggregator", self.aggregator)):
            if p is not None and self.processes.end(p, 20) != 0:
                wrong.append(f"{name} did not end with 0")
        self.sysomd = self.aggregator = None
        return "; ".join(wrong)

    def close(self, keep):
        self.processes.end_all()
        if not keep:
            shutil.rmtree(self.dir, ignore_errors=True)

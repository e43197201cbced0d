# SPDX-License-Identifier: Apache-2.0
"""One scenario: a job learns what is usual, runs on without a fault, has the real fault on one rank,
rests, has it on another one. What is asserted is the verdict that `sysom show ID --json` gives, that the
fault was really there (the job's own step times and a counter of the kernel's), and that no other
incident opened. TAP on standard output; --full does all of it, without it the second rank is left out.

    import scenario
    with scenario.Scenario("name", "what it is") as s:
        s.begin(argv, ranks=4)
        s.fault("what", rank=1, start=[injector argv], want=scenario.Want("os-lock", "os"))
"""
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

import scenario_stack
from scenario_stack import BIN, BUILD, FAULTS, ROOT, free_ports  # noqa: F401  (for the scenarios)

SLOWER = 1.05  # a fault that makes the steps together less than this much longer is none
SECONDS_MAX = 14 if "--short" in sys.argv else 45  # a fault is left on so long until its verdict is there
SECONDS_MIN = 14
HANG_S = 5
STEPS_KNOWN = 200
VICTIM_CPU, OTHER_CPU = 1, 0


class Want:
    """The verdict that is right: what a good engineer would say. causes, layers: those accepted. ranks: None, whoever
    has the fault. named, remedy: patterns that must stand in it."""

    PARTS = ("rank", "layer", "cause")

    def __init__(self, causes, layers, ranks=None, named=(), remedy=None, kind="slow_rank", or_all=False):
        self.or_all = or_all  # all ranks may be named as well: they wait for each other on the host
        self.causes = {causes} if isinstance(causes, str) else set(causes)
        self.layers = {layers} if isinstance(layers, str) else set(layers)
        self.ranks, self.kind = ranks, kind
        self.named, self.remedy = list(named), remedy

    def wrong(self, incident):
        """What is wrong with an incident's verdict; "" nothing."""
        wrong = self.wrong_ranks(incident)
        if wrong:
            return wrong
        others = incident.get("diagnoses", [])[1:]
        if others:
            return f"a second verdict: {others[0].get('cause')} of {others[0].get('ranks')}"
        return self.wrong_in(incident, incident.get("diagnosis"))

    def wrong_ranks(self, incident):
        got = sorted(incident.get("ranks", []))
        if self.ranks is not None and got != sorted(self.ranks) and not (self.or_all and got == [0, 1, 2, 3]):
            return f"ranks {incident.get('ranks')}, not {self.ranks}"
        return ""

    def wrong_of_several(self, incident):
        """The same of an incident that distinguishes several faults."""
        mine = [d for d in incident.get("diagnoses", []) if d.get("ranks") == self.ranks]
        return self.wrong_in(incident, mine[0] if mine else None)

    def wrong_in(self, incident, d):
        if not d:
            return "no diagnosis"
        text = json.dumps([d.get("summary"), d.get("evidence"), d.get("ledger"), incident.get("signals")])
        if d.get("cause") not in self.causes:
            return f"cause {d.get('cause')}, not {' or '.join(sorted(self.causes))}"
        if d.get("layer") not in self.layers:
            return f"layer {d.get('layer')}, not {' or '.join(sorted(self.layers))}"
        for pattern in self.named:
            if not re.search(pattern, text):
                return f"/{pattern}/ is not named"
        if self.remedy and not re.search(self.remedy, d.get("remedy", "")):
            return f"the remedy lacks /{self.remedy}/: {d.get('remedy')}"
        return ""

    def hits(self, incident, d, wrong):
        """Which parts of a verdict are right, each for itself: all, if nothing is wrong (an incident may have several
        faults)."""
        if wrong == "":
            return dict.fromkeys(self.PARTS, True)
        d = d or {}
        return {"rank": bool(incident) and not self.wrong_ranks(incident), "layer": d.get("layer") in self.layers,
                "cause": d.get("cause") in self.causes}

    def text(self):
        who = "" if self.ranks is None else f"rank {', '.join(map(str, self.ranks))}{' or all' if self.or_all else ''}; " if self.ranks else "no rank; "
        return f"{who}{' or '.join(sorted(self.layers))}; {' or '.join(sorted(self.causes))}"


class Fault:
    """start: an injector's argv, or a function; stop: a function. observe: (a function that reads a
    counter, what it counts, least per second). urgency: of the injector, as nice. again: where it makes
    no step longer, the caller tries once more; what is reported of it has to be right all the same."""

    def __init__(self, what, rank, start, want, observe=None, stop=None, urgency=0, again=False,
                 seconds_max=SECONDS_MAX):
        self.what, self.rank, self.start, self.want = what, rank, start, want
        self.observe, self.stop, self.urgency, self.again = observe, stop, urgency, again
        self.real, self.seconds_max = None, seconds_max  # None: the caller judges whether the fault was there
        if want.ranks is None and rank is not None and want.kind == "slow_rank":
            want.ranks = [rank]
        self.begin_ns = self.end_ns = None  # CLOCK_MONOTONIC
        self.begin_unix_ns = self.end_unix_ns = None
        self.right_ns = None  # when its verdict was first right
        self.first_slow_ns = None
        self.shared = False  # with another fault
        self.process = self.seen = self.incident = self.wrong = self.seconds = None
        self.counter = self.rate = 0

    def verdict(self, incident):
        return self.want.wrong_of_several(incident) if self.shared else self.want.wrong(incident)


class Late(Exception):
    pass


class Witness:
    """Beside sysom, of what no scenario injects and none can keep away: ms a second that this machine's CPUs
    did not run, mean over them, every 250 ms."""

    MORE = 30  # ms/s above the usual, and twice that: what is no noise
    EVERY_S = 0.25

    def __init__(self):
        self.samples = []  # (unix_ns of its end, ms/s)
        threading.Thread(target=self.read, daemon=True).start()

    def during(self, begin_ns, end_ns):
        """(ms/s in the two seconds between them that had most, usually)"""
        inside = [v for t, v in self.samples if begin_ns < t < end_ns + 250e6]
        usual = statistics.median(v for _, v in self.samples) if self.samples else 0
        spans = [statistics.mean(inside[i:i + 8]) for i in range(max(len(inside) - 7, 1))] if inside else [0]
        return max(spans), usual

    def saw_stop(self, begin_ns, end_ns):
        value, usual = self.during(begin_ns, end_ns)
        return value - usual >= self.MORE and value >= 2 * usual


class Stops(Witness):
    """As real-time threads see it, which nothing but the machine itself makes late."""

    def read(self):
        try:
            with subprocess.Popen([f"{BUILD}/parts/cpu_stops"], stdout=subprocess.PIPE, text=True) as p:
                for line in p.stdout:
                    at, ms = line.split()
                    self.samples.append((int(at), float(ms)))
        except OSError:
            pass  # no witness: then it is sysom's


class Counter(Witness):
    """What a counter of the kernel's says; total(): in ms since some time."""

    def read(self):
        try:
            at, before = time.monotonic(), self.total()
            while True:
                time.sleep(self.EVERY_S)
                now, total = time.monotonic(), self.total()
                self.samples.append((time.time_ns(), (total - before) / (now - at)))
                at, before = now, total
        except (OSError, IndexError):
            pass  # its process ended


class Steal(Counter):
    """What the kernel says that the hypervisor took."""

    def __init__(self):
        self.cpus, self.ticks = os.cpu_count(), os.sysconf("SC_CLK_TCK")
        super().__init__()

    def total(self):
        with open("/proc/stat", encoding="ascii") as f:
            return int(f.readline().split()[8]) / self.ticks * 1e3 / self.cpus


class RunQueue(Counter):
    """What the kernel says that a rank's threads waited for a CPU."""

    def __init__(self, pid):
        self.pid = pid
        super().__init__()

    def total(self):
        ms = 0
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{tid}/schedstat", encoding="ascii") as f:
                ms += int(f.read().split()[1]) / 1e6
        return ms

    def longer_ms(self, begin_ns, end_ns):
        """In all, than at the same rate as before."""
        usual = statistics.median([v for t, v in self.samples if t <= begin_ns] or [0])
        return sum((v - usual) * self.EVERY_S for t, v in self.samples if begin_ns < t < end_ns + self.EVERY_S * 1e9)


class Scenario:
    def __init__(self, name, title, limit_s=300):
        self.name, self.title, self.limit_s = name, title, limit_s
        self.full = "--full" in sys.argv
        self.count = self.failed = 0
        self.faults, self.quiet_s, self.strangers = [], 0.0, []
        self.machine = []  # incidents that are true, and of nobody's making here
        self.steal, self.stops, self.queues = Steal(), Stops(), {}
        self.noted, self.tools, self.seed = {}, [], None
        self.stack = self.job = self.job_name = None
        self.began_unix_ns = self.job_began_ns = 0
        self.python = False
        self.keep = "--keep" in sys.argv
        self.why_skipped = None

    # ---- TAP ----

    def ok(self, good, text):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {text}", flush=True)
        return good

    @staticmethod
    def say(text):
        print("\n".join("# " + line for line in str(text).splitlines()), flush=True)

    @staticmethod
    def skip(why):
        """Leaves: the machine lacks the means."""
        print(why)
        sys.exit(77)

    # ---- life ----

    def __enter__(self):
        def late(*_):
            raise Late(f"ran past {self.limit_s} s")

        signal.signal(signal.SIGALRM, late)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        signal.alarm(self.limit_s)
        self.began = time.monotonic()
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.end()
            elif kind is not SystemExit:
                self.ok(False, f"{kind.__name__}: {error}")
        except (Exception, Late) as e:  # the clean-up below has to come
            self.ok(False, f"{type(e).__name__}: {e}")
        signal.alarm(0)
        if kind is SystemExit:
            self.close()
            return False
        if self.failed and self.stack:
            self.logs()
        self.close()
        self.write_result()
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failed else 0)

    def close(self):
        if self.stack:
            self.stack.close(self.keep)

    def logs(self):
        for name in ("job.log", "sysomd.log", "aggregator.log", "fault.log"):
            path = self.stack.path(name)
            if os.path.exists(path) and os.path.getsize(path):
                with open(path, encoding="utf-8", errors="replace") as f:
                    self.say(f"{name}:\n" + "".join(f.readlines()[-12:])[:3000])

    # ---- the job ----

    def start_stack(self, cpus=None, flags=()):
        if os.geteuid():
            self.skip("needs root: of all scenarios")
        if os.cpu_count() < 2:
            self.skip("needs cpus: of all scenarios")
        self.stack = scenario_stack.Stack(cpus, flags)
        self.stack.start()

    def begin(self, argv, ranks=4, name=None, pin=None, quiet=None, learn=90):
        """Starts a job and waits until sysomd knows what is usual of each rank. pin: as pin()'s."""
        self.start_job(argv, ranks, name)
        if pin:
            self.stack.wait(30, lambda: self.attached() == ranks or self.job.poll() is not None)
            self.pin(*pin)

        self.known(ranks, learn)
        self.quiet((15 if self.full else 8) if quiet is None else quiet)

    def known(self, ranks, seconds):
        """Waits until sysomd knows what is usual of each rank."""
        def ready():
            if self.job.poll() is not None:
                return True
            now = [r for r in self.stack.status()["ranks"] if r.get("state") == "attached"]
            # where the machine is restless a rank's own model may be refused; its peers are there still
            return len(now) == ranks and (all(r["model"] == "ready" for r in now) or
                                          all(r["steps"] >= STEPS_KNOWN for r in now))
        good = self.stack.wait(seconds, ready, 0.5) and self.job.poll() is None
        if not self.ok(good, f"{ranks} ranks run and are known"):
            raise Late("the job did not get under way")
        self.queues = {rank: RunQueue(pid) for rank, pid in self.rank_pids().items()}

    def start_job(self, argv, ranks, name=None):
        if not self.stack:
            self.start_stack()
        self.job_name, self.ranks, self.began_unix_ns = name or self.name, ranks, time.time_ns()
        self.job_began_ns = time.monotonic_ns()
        self.job = self.stack.job(self.job_name, argv)

    def simjob(self, *more):
        return [f"{BIN}/simjob", "--ranks", 4, "--seconds", 3600, "--truth", self.stack.truth, *more]

    def torchrun(self, *more, options=()):
        """Four Python ranks by Debian's torchrun."""
        if not os.path.exists("/usr/lib/python3/dist-packages/torch/distributed/run.py"):
            self.skip("needs module:torch")
        self.new_orders()
        return ["/usr/bin/python3", "-m", "torch.distributed.run", "--nproc_per_node", 4,
                "-r", "9:3", "-t", "9:3",  # its own default fails in 1.13
                "--master_port", free_ports(1)[0], *options, f"{ROOT}/tests/scenarios/lib/rank_victim.py",
                "--dir", self.stack.dir, *more]

    def ranks_here(self, *more, launcher=(), ranks=4):
        """Python ranks by a launcher of our own, which starts within a second."""
        self.new_orders()
        return ["/usr/bin/python3", f"{ROOT}/tests/scenarios/lib/launch_ranks.py", "--dir", self.stack.dir,
                "--ranks", ranks, *launcher,
                f"{ROOT}/tests/scenarios/lib/rank_victim.py", *more]

    def fill(self, text, rank):
        """What an injection's words stand for."""
        if "{" not in text:
            return text
        disk = os.stat(self.stack.dir).st_dev
        return text.format(pid=self.rank_pids()[rank] if "{pid}" in text else None, rank=rank, dir=self.stack.dir,
                           child=self.worker_pid(rank) if "{child}" in text else None,
                           pids=" ".join(f"--pid {p}" for p in self.rank_pids().values()) if "{pids}" in text else None,
                           nvml=self.stack.nvml, disk=f"{os.major(disk)}:{os.minor(disk)}",
                           port=getattr(self, "storage_port", None),
                           half=self.half_of_cpu(rank) if "{half}" in text else None)

    def worker_pid(self, rank):
        """Of the rank's child that is a fork of it: its data loader's worker."""
        return int(subprocess.run(["pgrep", "-P", str(self.rank_pids()[rank]), "-f", "rank_victim"], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.split()[0])

    def start_tool(self, words):
        """A program of tests/faults, or of the machine, which runs until stop_tool()."""
        path = os.path.join(FAULTS, words[0])
        log = self.stack.path(f"fault-{len(os.listdir(self.stack.dir))}.log")
        speaks = os.path.exists(path)
        if speaks:
            words = ["/usr/bin/python3", path, *words[1:]]
        elif os.path.exists(f"{BUILD}/faults/{words[0]}"):
            words = [f"{BUILD}/faults/{words[0]}", *words[1:]]
        p = self.stack.processes.start(words, log)
        if speaks:  # that it is on
            self.stack.wait(10, lambda: os.path.getsize(log) > 0 or p.poll() is not None, 0.02)
        p.log = log
        self.tools.append(p)
        return p

    def stop_tool(self, p):
        self.tools.remove(p)
        if not self.ok(p.poll() is None, f"the injector ran: {' '.join(map(str, p.args[:3]))}"):
            with open(p.log, encoding="utf-8", errors="replace") as f:
                self.say(f.read()[-1000:])
        self.stack.processes.end(p)

    def make_link(self, rank):
        """The launcher's arguments for a job in which this rank is behind a slow_link.py."""
        self.set_link("0 0")
        self.stack.processes.start(["/usr/bin/python3", f"{FAULTS}/slow_link.py", "--file", self.stack.path("link")],
                                   self.stack.path("link.name"))
        self.stack.wait(10, lambda: os.path.getsize(self.stack.path("link.name")) > 0)
        with open(self.stack.path("link.name"), encoding="ascii") as f:
            name, near, address, far, far_address = f.read().split()
        words = ["--netns", f"{rank}:{name}"]
        for r in range(4):
            for value in (f"MASTER_ADDR={far_address if rank == 0 else address}", f"MASTER_PORT={29000 + os.getpid() % 2000}",
                          f"GLOO_SOCKET_IFNAME={far if r == rank else near}"):
                words += ["--env", f"{r}:{value}"]
        return words

    def set_link(self, text):
        with open(self.stack.path("link.new"), "w", encoding="ascii") as f:
            f.write(text)
        os.rename(self.stack.path("link.new"), self.stack.path("link"))

    def new_orders(self):
        with open(self.stack.path("orders"), "w", encoding="ascii"):
            pass
        for name in os.listdir(self.stack.dir):  # of an earlier job
            if name in ("stop", "end-after") or name.startswith("unique-id"):
                os.unlink(self.stack.path(name))
        self.python = True

    def order(self, line):
        with open(self.stack.path("orders"), "a", encoding="ascii") as f:
            f.write(line + "\n")

    def serve_storage(self):
        server = f"{ROOT}/tests/scenarios/lib/storage_server.py"
        self.storage_port = free_ports(1)[0]
        self.stack.processes.start(["/usr/bin/python3", server, self.stack.dir, self.storage_port],
                                   self.stack.path("storage.log"))
        self.stack.wait(10, lambda: os.path.exists(self.stack.path("storage.sock")))

    def slow_storage(self, rank, ms):
        with open(self.stack.path("slow.new"), "w", encoding="ascii") as f:
            f.write(f"{rank} {ms}\n")
        os.rename(self.stack.path("slow.new"), self.stack.path("slow"))

    def usual_storage(self):
        os.unlink(self.stack.path("slow"))

    def attached(self):
        return sum(r.get("state") == "attached" for r in self.stack.status()["ranks"])

    def quiet(self, seconds):
        """The job without a fault."""
        self.quiet_s += seconds
        self.watch(seconds)

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.job.poll() is not None:
                raise Late(f"the job ended early, with {self.job.returncode}")
            time.sleep(0.2)

    def half_of_cpu(self, rank):
        """Percent of a CPU: half of what the rank's process uses, on whatever machine."""
        def used():
            with open(f"/proc/{self.rank_pids()[rank]}/stat", encoding="utf-8", errors="replace") as f:
                return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:13])

        before = used()
        time.sleep(3)
        return max(2, round(100 * (used() - before) / os.sysconf("SC_CLK_TCK") / 3 / 2))

    def rank_pids(self):
        """Of the job's processes, by what their environment says and not by what sysom says."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    env = dict(x.split(b"=", 1) for x in f.read().split(b"\0") if b"=" in x)
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if env.get(b"SYSOM_SOCKET_PATH", b"").decode() == self.stack.env["SYSOM_SOCKET_PATH"] and \
                    env.get(b"RANK"):
                found.setdefault(int(env[b"RANK"]), []).append((int(pid), parent))
        out = {}
        for rank, processes in found.items():
            pids = {pid for pid, _ in processes}
            tops = [pid for pid, parent in processes if parent not in pids]
            out[rank] = tops[0]
        return out

    def pin(self, victim, thread=None):
        """The victim (or its one thread of that name) alone on a CPU, everybody else on the other."""
        for rank, pid in self.rank_pids().items():
            for tid in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as f:
                    comm = f.read().rstrip("\n")
                alone = rank == victim and (thread is None or comm == thread)
                os.sched_setaffinity(int(tid), {VICTIM_CPU if alone else OTHER_CPU})

    def steps(self):
        """(begin_ns, ms) of the job's steps, of the slowest rank each."""
        by_step = {}
        with open(self.stack.truth, encoding="utf-8") as f:
            for line in f:
                try:
                    s = json.loads(line)
                except ValueError:
                    continue
                if "step" in s and s["begin_ns"] > self.job_began_ns:
                    ms = (s["end_ns"] - s["begin_ns"]) / 1e6
                    key = s.get("run", 0), s["step"]
                    old = by_step.get(key)
                    if old is None or ms > old[1]:
                        by_step[key] = (s["begin_ns"], ms)
        return [by_step[k] for k in sorted(by_step)]

    # ---- the fault ----

    def fault(self, *args, **more):
        """One fault (as Fault's arguments), on until its verdict is right and 5 s more."""
        one = Fault(*args, **more)
        self.faults_at_once([one])
        return one

    def faults_at_once(self, faults):
        for f in faults:
            f.shared = len(faults) > 1
            f.counter = f.observe[0]() if f.observe else 0
            f.begin_ns, f.begin_unix_ns = time.monotonic_ns(), time.time_ns()
            if callable(f.start):
                f.start()
            else:
                f.process = self.stack.processes.start(f.start, self.stack.path("fault.log"),
                                                       {OTHER_CPU}, urgency=f.urgency)
        self.faults += faults
        try:
            self.until_right(faults, max(f.seconds_max for f in faults))
        finally:
            for f in faults:
                if f.observe:
                    f.rate = (f.observe[0]() - f.counter) / ((time.monotonic_ns() - f.begin_ns) / 1e9)
                f.end_ns, f.end_unix_ns = time.monotonic_ns(), time.time_ns()
                if f.process:
                    self.stack.processes.end(f.process)
                if f.stop:
                    f.stop()
        for f in faults:
            self.judge_steps(f)

    def until_right(self, faults, seconds_max=SECONDS_MAX):
        begin = time.monotonic()
        while True:
            now = time.monotonic() - begin
            if now >= 1:
                self.look([f for f in faults if f.right_ns is None])
            right = [f.right_ns for f in faults]
            if None not in right and now >= SECONDS_MIN and time.monotonic_ns() - max(right) > 5e9:
                return
            if now >= seconds_max:
                return
            for f in faults:
                if f.process and f.process.poll() is not None:
                    raise Late(f"the injector ended, with {f.process.returncode}")
            self.watch(0.5)

    def look(self, faults):
        if not faults:
            return
        for i in self.stack.incidents(self.job_name):
            if i["end_unix_ns"] <= faults[0].begin_unix_ns:
                continue
            shown = self.stack.show(i["id"])
            for f in faults:
                if not f.verdict(shown):
                    f.right_ns = time.monotonic_ns()
                self.note(f, shown)

    def note(self, f, i):
        """How the verdict came about."""
        said = f"{i['symptom']} of {i['ranks']}: " + (f.verdict(i) or "as it should be")
        if self.noted.get((i["id"], f.what)) != said:
            self.noted[i["id"], f.what] = said
            self.say(f"{(time.monotonic_ns() - f.begin_ns) / 1e9:.1f} s: {i['id']} {said}")

    def judge_steps(self, f):
        steps = self.steps()
        before = [ms for at, ms in steps if f.begin_ns - 8e9 < at and at + ms * 1e6 < f.begin_ns]
        during = [ms for at, ms in steps if f.begin_ns + 1e9 < at < f.end_ns]
        if f.want.kind == "hang":
            f.first_slow_ns = max(end for end in (at + ms * 1e6 for at, ms in steps) if end < f.end_ns)
            still_s = (f.end_ns - f.first_slow_ns) / 1e9
            f.seen, f.real = f"no step ends for {still_s:.0f} s", still_s > HANG_S
            self.ok(f.real, f"{f.what} on {self.who(f)} is real: {f.seen}")
            return
        if not before or not during:
            self.ok(False, f"{f.what}: no steps to compare")
            return
        usual = statistics.median(before)
        spread = statistics.median(abs(ms - usual) for ms in before)
        bound = max(usual * SLOWER, usual + 4 * spread)
        over = [sum(ms > bound for ms in some) / len(some) for some in (before, during)]
        slow = [at + ms * 1e6 for at, ms in steps if at + ms * 1e6 > f.begin_ns and ms > bound]
        f.first_slow_ns = slow[0] if slow else f.begin_ns
        # not every step has every fault, so their sum counts, as it does for the job
        mean = [statistics.fmean(some) for some in (before, during)]
        real = mean[1] > mean[0] * SLOWER
        f.seen = (f"steps {mean[0]:.0f} -> {mean[1]:.0f} ms on average, {100 * over[0]:.0f} -> {100 * over[1]:.0f}% "
                  f"above {bound:.0f} ms")
        if f.observe:
            f.seen += f", {f.rate:.0f} {f.observe[1]}"
            real = real and f.rate >= f.observe[2]
        f.real = real
        if f.again and not real:
            self.say(f"{f.what} on {self.who(f)} is too small: {f.seen}")
            return
        self.ok(real, f"{f.what} on {self.who(f)} is real: {f.seen}")

    def fault_from_start(self, what, rank, argv, want, name=None, usual_ms=0):
        """A job that has the fault from its first step on. usual_ms: of a step without it."""
        self.start_job(argv, 4, name)
        f = Fault(what, rank, None, want)
        f.begin_ns, f.begin_unix_ns = self.job_began_ns, self.began_unix_ns
        self.faults.append(f)
        self.stack.wait(60, lambda: len(self.steps()) > 3 or self.job.poll() is not None)
        self.until_right([f], 2 * SECONDS_MAX)
        f.end_ns, f.end_unix_ns = time.monotonic_ns(), time.time_ns()
        steps = self.steps()
        now = statistics.median(ms for _, ms in steps)
        f.first_slow_ns = steps[0][0] + steps[0][1] * 1e6
        f.seen = f"steps {usual_ms:.0f} -> {now:.0f} ms"
        f.real = now > usual_ms * SLOWER
        self.ok(f.real, f"{what} on {self.who(f)} is real: {f.seen}")

    @staticmethod
    def who(f):
        return "every rank" if f.rank is None else f"rank {f.rank}"

    def usual_ms(self):
        return statistics.median(ms for _, ms in self.steps()[20:])

    def rest(self, seconds=None):
        """Without the fault, longer than its incident waits for its next window."""
        self.watch(seconds or (15 if self.full else 6))

    # ---- the end ----

    def end(self):
        self.end_job()
        wrong = self.stack.stop()
        self.ok(not wrong, wrong or "the daemons end with 0")

    def end_job(self):
        """Ends the job and judges its incidents."""
        if not self.job:
            return
        self.rest(10 if self.full else 6)
        with open(self.stack.path("stop"), "w", encoding="ascii"):
            pass  # Python ranks end by themselves
        if self.python:
            self.stack.wait(20, lambda: self.job.poll() is not None)
        code = self.stack.processes.end(self.job, 20)
        self.ok(code in (0, 143, -15), f"the job ends (status {code})")
        self.job = None
        time.sleep(2)  # what is on its way to the aggregator
        shown = [self.stack.show(i["id"]) for i in self.stack.incidents(self.job_name)
                 if i["end_unix_ns"] > self.began_unix_ns]
        faults = [f for f in self.faults if f.begin_unix_ns >= self.began_unix_ns]
        for f in faults:
            self.judge_verdict(f, shown)
        others = [i for i in shown if all(i is not f.incident for f in faults)]
        strangers = [i for i in others if not self.is_machines(i)]
        for i in others:
            self.print_incident(i)
        seconds = (time.time_ns() - self.began_unix_ns) / 1e9
        self.ok(not strangers, f"no other incident in the job's {seconds:.0f} s")
        self.strangers += strangers
        self.machine += [i for i in others if i not in strangers]

    @staticmethod
    def cause(i):
        return (i.get("diagnosis") or {}).get("cause")

    def is_machines(self, i):
        """The machine itself stood still for a part of it: the job was slow, whatever the verdict says. It may
        accuse no rank of that. Where the kernel says so too, the verdict has to. Or other programs had the CPUs,
        and the verdict says so."""
        cause = self.cause(i)
        when = i["begin_unix_ns"], i["end_unix_ns"]
        for who, witness in (("by /proc/stat", self.steal), ("by real-time threads", self.stops)):
            value, usual = witness.during(*when)
            self.say(f"{i['id']}: {cause}; {who} each CPU stood still for {value:.0f} ms/s "
                     f"(usually {usual:.0f})")
        if cause == "os-run-queue":
            return self.waited_for_cpus(i)
        stolen, stood = self.steal.saw_stop(*when), self.stops.saw_stop(*when)
        if cause == "os-steal":
            return stolen or stood
        return i["symptom"] == "slow_job" and stood and not stolen

    def waited_for_cpus(self, i):
        """So much longer than before that it explains half of what the incident cost: each of the ranks that it accuses;
        of a whole job, whose ranks wait for each other, the one that waited most."""
        when, lost_ms = (i["begin_unix_ns"], i["end_unix_ns"]), i["lost_ms"]
        more = [self.queues[rank].longer_ms(*when) for rank in i["ranks"] if rank in self.queues]
        self.say(f"{i['id']}: by schedstat its ranks' threads waited {', '.join(f'{m:.0f}' for m in more)} ms longer for a "
                 f"CPU than before; its steps cost {lost_ms:.0f} ms")
        least = max if i["symptom"] == "slow_job" else min
        return bool(more) and least(more) >= lost_ms / 2

    def judge_verdict(self, f, shown):
        own = [i for i in shown if i["begin_unix_ns"] < f.end_unix_ns + 2e9 and
               i["end_unix_ns"] > f.begin_unix_ns - 1e9]
        self.judge_shown(f, own)
        if f.right_ns is not None:
            if f.right_ns < f.first_slow_ns:  # reported before a step was as slow as counts here
                f.first_slow_ns = f.begin_ns
            f.seconds = (f.right_ns - f.first_slow_ns) / 1e9
            self.say(f"{f.seconds:.1f} s from the first slow step to the diagnosed incident")

    def judge_shown(self, f, own):
        if f.again and not f.real and not own:
            return
        right = [i for i in own if not f.verdict(i)]
        near = right or sorted(own, key=lambda i: -i.get("flagged_steps", 0))
        f.wrong = f.verdict(near[0]) if near else "no incident"
        f.incident = near[0] if near else None
        if near:
            self.print_incident(near[0])
        self.ok(not f.wrong, f"{f.what} on {self.who(f)}: {f.wrong or self.summary(f)}")

    def diagnosis(self, f):
        i = f.incident or {}
        if f.shared:
            return next((d for d in i.get("diagnoses", []) if d.get("ranks") == f.want.ranks), {})
        return i.get("diagnosis") or {}

    def largest(self, f):
        """The three accounts of the ledger that grew most: (account, name, ms per step)."""
        rows = (self.diagnosis(f).get("ledger") or {}).get("rows", [])
        rows = sorted(rows, key=lambda r: -r["excess_ms"])[:3]
        return [(r["account"], r["name"], r["excess_ms"]) for r in rows]

    def summary(self, f):
        return self.diagnosis(f).get("summary") or (f.incident or {}).get("symptom")

    def print_incident(self, i):
        self.say(f"incident {i['id']}: {i['symptom']}, ranks {i['ranks']}, {i.get('flagged_steps')} steps")
        began = time.strftime("%H:%M:%S", time.gmtime(i["begin_unix_ns"] / 1e9))
        windows = [f"{w['reason']} of {w['rank']}: {w['steps']}" for w in i.get("windows", [])[:12]]
        self.say(f"  {began} UTC, {i.get('duration_s', 0):.1f} s, {i.get('latency_ms', 0):.1f} of "
                 f"{i.get('expected_ms', 0):.1f} ms; windows ({', '.join(windows)})")
        for d in i.get("diagnoses") or ([i["diagnosis"]] if i.get("diagnosis") else []):
            self.say(f"  {d.get('cause')} ({d.get('layer')}) of {d.get('ranks')}, confidence "
                     f"{d.get('confidence')}: {d.get('summary')}\n  remedy: {d.get('remedy')}")
            for e in d.get("evidence", [])[:6]:
                self.say(f"  evidence: {json.dumps(e)}")
            for m in d.get("missing", []):
                self.say(f"  missing: {m}")
            for r in (d.get("ledger") or {}).get("rows", [])[:6]:
                self.say(f"  ledger: {json.dumps(r)}")
        for sig in [x for x in i.get("signals", []) if x.get("raised")][:6]:
            self.say(f"  signal: {json.dumps(sig)}")

    def write_result(self):
        path = os.environ.get("SCENARIO_RESULT")
        if not path:
            return
        rows = [{"what": f.what, "rank": f.rank, "steps": f.seen, "wrong": f.wrong,
                 "cause": self.diagnosis(f).get("cause"), "summary": self.summary(f),
                 "layer": self.diagnosis(f).get("layer"), "ranks": (f.incident or {}).get("ranks"),
                 "confidence": self.diagnosis(f).get("confidence"), "want": f.want.text(),
                 "hits": f.want.hits(f.incident or {}, self.diagnosis(f), f.wrong), "ledger": self.largest(f),
                 "real": f.real, "seconds": f.seconds} for f in self.faults if f.real or not f.again]
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"name": self.name, "title": self.title, "rows": rows, "quiet_s": self.quiet_s,
                       "checks": self.count, "failed": self.failed, "others": len(self.strangers),
                       "other_verdicts": [f"{i['symptom']} of {i['ranks']}: {self.cause(i)}" for i in self.strangers],
                       "machine": [self.cause(i) for i in self.machine],
                       "full": self.full, "seed": self.seed, "load": os.getloadavg()[0],
                       "seconds": time.monotonic() - self.began}, out)

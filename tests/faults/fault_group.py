# SPDX-License-Identifier: Apache-2.0
"""A cgroup (version 1) of one's own for a while, for cpu_limit.py and disk_limit.py."""
import argparse
import os
import signal
import sys
import time


class Group:
    def __init__(self, controller, pids):
        self.root = f"/sys/fs/cgroup/{controller}"
        self.path = f"{self.root}/fault-{os.getpid()}"
        self.pids, self.before = pids, {}
        if not os.path.isdir(self.root):
            raise SystemExit(f"no version 1 cgroup {controller}")
        os.mkdir(self.path)

    def put(self, name, value, path=None):
        with open(os.path.join(path or self.path, name), "w", encoding="ascii") as f:
            f.write(str(value))

    def home(self, pid):
        """Where the process is now."""
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
            for line in f:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if os.path.basename(self.root) in controllers.split(","):
                    return self.root + path
        return self.root

    def hold(self, o, name):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            for pid in self.pids:
                self.before[pid] = self.home(pid)
                self.put("cgroup.procs", pid)
            print(f"{name}: on", flush=True)
            end = time.monotonic() + o.seconds
            while time.monotonic() < end:
                time.sleep(0.1)
        finally:
            for pid, home in self.before.items():
                try:
                    self.put("cgroup.procs", pid, home)
                except OSError:
                    pass  # it has ended
            for _ in range(50):
                try:
                    os.rmdir(self.path)
                    break
                except OSError:
                    time.sleep(0.1)


def options(controller, more):
    p = argparse.ArgumentParser()
    p.add_argument("--pid", type=int, action="append", required=True)
    p.add_argument("--seconds", type=float, default=3600)
    more(p)
    o = p.parse_args()
    return o, Group(controller, o.pid)

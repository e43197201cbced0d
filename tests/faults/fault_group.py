# SPDX-License-Identifier: Apache-2.0
"""A cgroup of one's own for a while, in the version that has the controller on this machine."""
import argparse
import os
import signal
import sys
import time

# what a setting is called: the file and what it holds, in version 1 and in version 2
SETTINGS = {
    "cpu_quota_us": (("cpu.cfs_quota_us", "{}"), ("cpu.max", "{}")),  # its period stays
    "cpu_period_us": (("cpu.cfs_period_us", "{}"), ("cpu.max", "max {}")),
    "cpu_shares": (("cpu.shares", "{}"), ("cpu.weight", "{}")),
    "cpus": (("cpuset.cpus", "{}"), ("cpuset.cpus", "{}")),
    "mems": (("cpuset.mems", "{}"), ("cpuset.mems", "{}")),
    "memory_bytes": (("memory.limit_in_bytes", "{}"), ("memory.max", "{}")),
    "read_bps": (("blkio.throttle.read_bps_device", "{} {}"), ("io.max", "{} rbps={}")),
    "write_bps": (("blkio.throttle.write_bps_device", "{} {}"), ("io.max", "{} wbps={}")),
    "frozen": (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")),
    "thawed": (("freezer.state", "THAWED"), ("cgroup.freeze", "0")),
}
CONTROLLERS_V2 = {"blkio": "io", "freezer": ""}  # a freezer is in every group


def text_of(path):
    with open(path, encoding="ascii") as f:
        return f.read().strip()


def hierarchy(controller):
    """Where its groups are, and their version."""
    root = f"/sys/fs/cgroup/{controller}"
    if os.path.exists(f"{root}/cgroup.procs"):
        return root, 1
    name = CONTROLLERS_V2.get(controller, controller)
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            if not name or name in text_of(f"{root}/cgroup.controllers").split():
                return root, 2
        except OSError:
            pass
    raise SystemExit(f"no cgroup has the controller {controller}")


class Group:
    def __init__(self, controller, pids):
        self.root, self.version = hierarchy(controller)
        self.controller, self.pids, self.before = controller, pids, {}
        name = CONTROLLERS_V2.get(controller, controller)
        if self.version == 2 and name:
            self.write("cgroup.subtree_control", f"+{name}", self.root)
        self.path = f"{self.root}/fault-{os.getpid()}"
        os.mkdir(self.path)

    def write(self, name, text, path=None):
        with open(os.path.join(path or self.path, name), "w", encoding="ascii") as f:
            f.write(text)

    def put(self, setting, *values):
        name, form = SETTINGS[setting][self.version - 1]
        if setting == "cpu_shares" and self.version == 2:  # both are in parts of what is usual
            values = [min(max(1, v * 100 // 1024), 10000) for v in values]
        self.write(name, form.format(*values))

    def home(self, pid):
        """Where the process is now."""
        mine = self.controller if self.version == 1 else ""
        for line in text_of(f"/proc/{pid}/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if mine in controllers.split(","):
                return self.root + path
        return self.root

    def hold(self, o, name):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            for pid in self.pids:
                self.before[pid] = self.home(pid)
                self.write("cgroup.procs", str(pid))
            print(f"{name}: on", flush=True)
            end = time.monotonic() + o.seconds
            while time.monotonic() < end:
                time.sleep(0.1)
        finally:
            for pid, home in self.before.items():
                try:
                    self.write("cgroup.procs", str(pid), home)
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

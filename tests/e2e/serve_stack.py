# SPDX-License-Identifier: Apache-2.0
"""A sysomd and an aggregator of one's own, for tests of the serving engine."""
import collections
import json
import os
import subprocess
import time
import urllib.request

B = os.path.abspath(os.environ.get("B", "build/gcc"))
PYTHON = "/usr/bin/python3"


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SYSOM_", "PYTHON", "LD_PRELOAD"))}
    return dict(env, SIM_LIB=f"{B}/lib/sim", LC_ALL="C.UTF-8", **more)


def truth_of(path):
    lines = collections.defaultdict(list)
    with open(path, encoding="ascii") as f:
        for line in f:
            row = json.loads(line)
            lines[next(k for k in ("job", "request", "step", "worker_step") if k in row)].append(row)
    return lines


class Stack:
    def __init__(self, work, flags=""):
        self.shell = subprocess.Popen(
            ["bash", "-c", f". tools/stack.sh; BIN={B}/bin; STACK_SYSOMD_FLAGS='{flags}'; stack_start {work} || exit 1; "
             "env | grep ^SYSOM_; echo NODE=http://127.0.0.1:$STACK_NODE_HTTP; echo up; read -r _; stack_stop"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.env = {}
        for line in self.shell.stdout:
            if line == "up\n":
                break
            self.env.__setitem__(*line.rstrip("\n").split("=", 1))

    def text(self, base, path):
        """base: NODE or SYSOM_URL."""
        with urllib.request.urlopen(f"{self.env[base]}{path}", timeout=10) as r:
            return r.read().decode()

    def get(self, base, path):
        return json.loads(self.text(base, f"/api/v1/{path}"))

    def sysom(self, *args):
        return subprocess.run([f"{B}/bin/sysom", *args], env=dict(os.environ, **self.env), capture_output=True, text=True,
                              check=False)

    def stop(self):
        self.shell.communicate("\n")


class Serving(Stack):
    def ranks(self):
        return self.get("NODE", "status")["ranks"]

    def incidents(self):
        return self.get("SYSOM_URL", "incidents?job=serve")["incidents"]


def wait_for(seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.3)
    return condition()

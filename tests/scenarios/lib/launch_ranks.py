#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a job on this node, as a launcher does, and reads what they write to standard output.

    launch_ranks.py --dir DIR [--ranks 4] [--env 1:KEY=VALUE ...] [--netns 1:NAME] SCRIPT ARGUMENT...

DIR/orders may contain "job hogs N" (N busy processes of the same session) and "job reader RANK MS" (reads 4 KiB of the
rank's output each so many milliseconds). Ends with its ranks; a rank that dies does not end the others.
"""
import argparse
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

READ_BYTES = 4096
CLONE_NEWNET = 0x40000000


class Reader(threading.Thread):
    """Of one rank's output."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.pipe, self.pause_s = pipe, 0

    def run(self):
        while os.read(self.pipe.fileno(), READ_BYTES):
            time.sleep(self.pause_s)


class Launcher:
    def __init__(self, o, script):
        self.o, self.script = o, script
        self.hogs, self.done = [], 0
        self.ranks = [self.start(r) for r in range(o.ranks)]
        self.readers = [Reader(p.stdout) for p in self.ranks]
        for r in self.readers:
            r.start()

    def of_rank(self, values, rank):
        return [v.split(":", 1)[1] for v in values if int(v.split(":", 1)[0]) == rank]

    def start(self, rank):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(self.o.ranks),
                   LOCAL_WORLD_SIZE=str(self.o.ranks))
        env.update(v.split("=", 1) for v in self.of_rank(self.o.env, rank))
        netns = self.of_rank(self.o.netns, rank)

        def enter():
            fd = os.open(f"/run/netns/{netns[0]}", os.O_RDONLY | os.O_CLOEXEC)
            if ctypes.CDLL(None).setns(fd, CLONE_NEWNET):
                os._exit(126)
        return subprocess.Popen(["/usr/bin/python3", *self.script, "--dir", self.o.dir], env=env,
                                stdout=subprocess.PIPE, preexec_fn=enter if netns else None)

    def obey(self):
        with open(os.path.join(self.o.dir, "orders"), encoding="ascii") as f:
            f.seek(self.done)
            text = f.read()
        text = text[:text.rfind("\n") + 1]
        self.done += len(text)
        for words in (line.split() for line in text.splitlines()):
            if words[:2] == ["job", "hogs"]:
                self.end(self.hogs)
                self.hogs = [subprocess.Popen(["/usr/bin/python3", "-c", "while True: pass"])
                             for _ in range(int(words[2]))]
            elif words[:2] == ["job", "reader"]:
                self.readers[int(words[2])].pause_s = float(words[3]) / 1e3

    @staticmethod
    def end(processes):
        for p in processes:
            p.kill()
            p.wait()

    def run(self):
        try:
            while any(p.poll() is None for p in self.ranks):
                self.obey()
                time.sleep(0.1)
        finally:
            self.end(self.hogs)
            self.end(self.ranks)
        return 0 if all(p.returncode == 0 for p in self.ranks) else 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--dir", required=True)
    p.add_argument("--ranks", type=int, default=4)
    p.add_argument("--env", action="append", default=[])
    p.add_argument("--netns", action="append", default=[])
    o, script = p.parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return Launcher(o, script).run()


sys.exit(main())

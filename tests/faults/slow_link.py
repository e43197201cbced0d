#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network of this host and a namespace of its own, whose packets all pass through here: two tun devices and a
program between them that can delay and lose packets.

    slow_link.py --file F

F is read as it changes: "DELAY_MS LOSS_PERCENT [LATE_PERCENT LATE_MS [BYTES_MAX]]". So many packets are late, and larger
ones are lost. Prints the namespace, this end's device and address, and the other end's. Ends on SIGTERM.
"""
import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
MTU = 1500


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, stderr=subprocess.DEVNULL)


def enter(fd):
    if LIBC.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


class Link:
    def __init__(self, path):
        self.path, self.rng = path, random.Random(8)
        self.delay_s = self.loss = self.late = self.late_s = self.bytes_max = 0
        self.changed = None
        self.waiting = []  # (when, number, to, packet)
        self.number = 0

    def settings(self):
        at = os.stat(self.path).st_mtime_ns
        if at != self.changed:
            self.changed = at
            with open(self.path, encoding="ascii") as f:
                words = f.read().split()
            delay, loss, late, late_ms, self.bytes_max = map(float, words + ["0", "0", "0", "0", "1e9"][len(words):])
            self.delay_s, self.loss, self.late, self.late_s = delay / 1e3, loss / 100, late / 100, late_ms / 1e3

    def take(self, fd, to):
        while True:
            try:
                packet = os.read(fd, MTU + 100)
            except BlockingIOError:
                return
            if self.rng.random() >= self.loss and len(packet) <= self.bytes_max:
                self.number += 1
                when = time.monotonic() + self.delay_s + self.late_s * (self.rng.random() < self.late)
                heapq.heappush(self.waiting, (when, self.number, to, packet))

    def give(self):
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(self.waiting)
            try:
                os.write(to, packet)
            except OSError:
                pass  # full, as a queue may be
        return max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else 0.2

    def run(self, here, there):
        while True:
            self.settings()
            ready, _, _ = select.select([here, there], [], [], self.give())
            for fd in ready:
                self.take(fd, there if fd == here else here)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--file", required=True)
    o = p.parse_args()
    number = os.getpid()
    name, ours, theirs = f"link{number}", f"sa{number}", f"sb{number}"
    near, far = (f"10.{98 + number // 250 % 100}.{number % 250}.{n}" for n in (1, 2))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ip("netns", "add", name)
    try:
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        here = tun(ours)
        enter(os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC))
        there = tun(theirs)
        enter(home)
        ip("addr", "add", near, "peer", far, "dev", ours)
        ip("link", "set", ours, "up", "mtu", str(MTU))
        ip("-n", name, "addr", "add", far, "peer", near, "dev", theirs)
        ip("-n", name, "link", "set", theirs, "up", "mtu", str(MTU))
        ip("-n", name, "link", "set", "lo", "up")
        print(name, ours, near, theirs, far, flush=True)
        Link(o.file).run(here, there)
    finally:
        ip("netns", "del", name, check=False)


main()

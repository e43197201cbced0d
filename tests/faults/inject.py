#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does something to a running process or to the machine beside it, until SIGTERM; then all is as before.

    inject.py stop --pid P --ms 40 --every 400    SIGSTOP, and SIGCONT so much later
    inject.py freeze --pid P --ms 40 --every 400  the same by the freezer of a cgroup
    inject.py renice --pid P --nice 19
    inject.py affinity --pid P --cpus 1 [--thread NAME]
    inject.py cpuset --pid P --cpus 1             by a cgroup
    inject.py memory --pid P --mb 4 [--cold FILE] a memory limit; FILE leaves the page cache first
    inject.py swap --mb 256                       a swap of compressed memory
    inject.py flock --path F --ms 30 --every 60   holds a lock file
    inject.py evict --path F --ms 50              drops a file from the page cache
    inject.py idle --pid P                        SCHED_IDLE
    inject.py pause_worker --pid P --path PATTERN --ms 80 --every 200  a child of P stops for a while
    inject.py write --dir D --threads 4           writes to the disk past the page cache
    inject.py read_maps --pid P --threads 2       reads /proc/P/smaps all the time
    inject.py debugger --pid P --every 2000       a debugger attaches, prints a stack and leaves
    inject.py signals --pid P --every 2           SIGURG
    inject.py shares --pid P --shares 100         of the CPU, as a cgroup (1,024 are usual)
    inject.py dirty --dir D --mb 16 --threads 2   so much may wait to be written, on the whole machine, and others write
    inject.py page_out --pid P --every 400        its memory goes to the swap, as a daemon for cold memory does it
    inject.py profile --pid P --us 10.5           an interrupt takes a stack after each so much CPU time
"""
import argparse
import ctypes
import fcntl
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import fault_group


def say_on(name):
    print(f"inject: {name} on", flush=True)


def wait():
    while True:
        signal.pause()


def cpus_of(text):
    return [int(c) for c in text.split(",")]


def threads_of(pid):
    return [int(t) for t in os.listdir(f"/proc/{pid}/task")]


def each_thread(pid, function, *args):
    for tid in threads_of(pid):
        try:
            function(tid, *args)
        except (ProcessLookupError, FileNotFoundError):
            pass  # it has ended


def in_group(controller, o, **values):
    """The process in a group with these values, until the end."""
    group = fault_group.Group(controller, [o.pid])
    for name, value in values.items():
        group.put(name, value)
    o.seconds = 1e9
    group.hold(o, f"inject {o.what}")


def duty(o, begin, end):
    say_on(o.what)
    while True:
        time.sleep((o.every - o.ms) / 1e3)
        begin()
        try:
            time.sleep(o.ms / 1e3)
        finally:
            end()


def stop(o):
    duty(o, lambda: os.kill(o.pid, signal.SIGSTOP), lambda: os.kill(o.pid, signal.SIGCONT))


def freeze(o):
    group = fault_group.Group("freezer", [o.pid])
    threading.Thread(target=lambda: duty(o, lambda: group.put("frozen"),
                                         lambda: group.put("thawed")), daemon=True).start()
    o.seconds = 1e9
    try:
        group.hold(o, "inject freeze")
    finally:
        if os.path.isdir(group.path):
            group.put("thawed")


def renice(o):
    before = os.getpriority(os.PRIO_PROCESS, o.pid)
    try:
        each_thread(o.pid, lambda t: os.setpriority(os.PRIO_PROCESS, t, o.nice))
        say_on("renice")
        wait()
    finally:
        each_thread(o.pid, lambda t: os.setpriority(os.PRIO_PROCESS, t, before))


def name_of(tid):
    with open(f"/proc/{tid}/comm", encoding="utf-8", errors="replace") as f:
        return f.read().rstrip("\n")


def affinity(o):
    before = os.sched_getaffinity(o.pid)

    def move(tid):
        if o.thread in (None, name_of(tid)):
            os.sched_setaffinity(tid, cpus_of(o.cpus))
    try:
        each_thread(o.pid, move)
        say_on("affinity")
        wait()
    finally:
        each_thread(o.pid, os.sched_setaffinity, before)


def cpuset(o):
    root, version = fault_group.hierarchy("cpuset")
    mems = fault_group.text_of(f"{root}/cpuset.mems{'.effective' * (version == 2)}")
    in_group("cpuset", o, mems=mems, cpus=o.cpus)


def memory(o):
    threading.Timer(0.5, forget, [o.cold]).start()
    in_group("memory", o, memory_bytes=o.mb << 20)


def forget(path):
    if path:
        fd = os.open(path, os.O_RDONLY)
        for _ in range(40):  # what is mapped just now stays
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            time.sleep(0.01)
        os.close(fd)


def swap(o):
    device = subprocess.run(["zramctl", "--find", "--size", f"{o.mb}M"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    try:
        subprocess.run(["mkswap", device], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["swapon", device], check=True)
        say_on("swap")
        wait()
    finally:
        subprocess.run(["swapoff", device], check=False)
        subprocess.run(["zramctl", "--reset", device], check=False)


def flock(o):
    with open(o.path, "a", encoding="ascii") as f:
        if not o.every:
            fcntl.flock(f, fcntl.LOCK_EX)
            say_on("flock")
            wait()
        duty(o, lambda: fcntl.flock(f, fcntl.LOCK_EX), lambda: fcntl.flock(f, fcntl.LOCK_UN))


def write(o):
    path = os.path.join(o.dir, f"written-{os.getpid()}")

    def work(number):
        block = mmap.mmap(-1, 1 << 20)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
        at = 0
        while True:
            os.pwrite(fd, block, (number * 32 + at) << 20)
            at = (at + 1) % 32
    for n in range(o.threads):
        threading.Thread(target=work, args=(n,), daemon=True).start()
    say_on("write")
    try:
        wait()
    finally:
        os.unlink(path)


def evict(o):
    """A file leaves the page cache, again and again."""
    fd = os.open(o.path, os.O_RDONLY)
    say_on("evict")
    while True:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        time.sleep(o.ms / 1e3)


def idle(o):
    """The class for what may run where nobody else wants to."""
    each_thread(o.pid, os.sched_setscheduler, os.SCHED_IDLE, os.sched_param(0))
    say_on("idle")
    try:
        wait()
    finally:
        each_thread(o.pid, os.sched_setscheduler, os.SCHED_OTHER, os.sched_param(0))


def pause_worker(o):
    """The child with that name stops for a while, again and again."""
    child = int(subprocess.run(["pgrep", "-P", str(o.pid), "-f", o.path], capture_output=True, check=True,
                               text=True).stdout.split()[0])
    say_on("pause_worker")
    o.pid = child
    duty(o, lambda: os.kill(child, signal.SIGSTOP), lambda: os.kill(child, signal.SIGCONT))


def read_maps(o):
    def read():
        while True:
            with open(f"/proc/{o.pid}/smaps", "rb", buffering=0) as f:
                while f.read(1 << 16):
                    pass
    for _ in range(o.threads):
        threading.Thread(target=read, daemon=True).start()
    say_on("read_maps")
    wait()


def debugger(o):
    say_on("debugger")
    while True:
        subprocess.run(["gdb", "-nx", "-batch", "-p", str(o.pid), "-ex", "thread apply all bt"],
                       stdin=subprocess.DEVNULL, capture_output=True, check=False)
        time.sleep(o.every / 1e3)


def signals(o):
    say_on("signals")
    while True:
        os.kill(o.pid, signal.SIGURG)
        time.sleep(o.every / 1e3)


def shares(o):
    in_group("cpu", o, cpu_shares=o.shares)


def setting(name, value=None):
    with open(f"/proc/sys/vm/{name}", "r" if value is None else "w", encoding="ascii") as f:
        return f.read().strip() if value is None else f.write(value)


def dirty(o):
    names = "dirty_bytes", "dirty_background_bytes", "dirty_ratio", "dirty_background_ratio"
    before = {n: setting(n) for n in names}
    paths = [os.path.join(o.dir, f"dirty-{n}") for n in range(o.threads)]

    def work(path):
        block, at = bytes(1 << 20), 0
        with open(path, "wb", buffering=0) as f:
            while True:
                os.pwrite(f.fileno(), block, at << 20)
                at = (at + 1) % 256
    try:
        setting("dirty_background_bytes", str(o.mb << 19))
        setting("dirty_bytes", str(o.mb << 20))
        for path in paths:
            threading.Thread(target=work, args=(path,), daemon=True).start()
        say_on("dirty")
        wait()
    finally:
        for n in names:  # a ratio of 0 stands for bytes, and the other way round
            if before[n] != "0":
                setting(n, before[n])
        for path in paths:
            os.unlink(path)


def anonymous(pid):
    """Its large mappings of no file."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        for line in f:
            words = line.split()
            begin, end = (int(x, 16) for x in words[0].split("-"))
            if words[1] == "rw-p" and len(words) == 5 and end - begin >= 16 << 20:
                yield begin, end - begin


def page_out(o):
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(o.pid)
    say_on("page_out")
    while True:
        for begin, size in anonymous(o.pid):
            # process_madvise, MADV_PAGEOUT
            libc.syscall(440, process, struct.pack("=2Q", begin, size), ctypes.c_size_t(1), 21, 0)
        time.sleep(o.every / 1e3)


def profile(o):
    """perf's sampling by the CPU clock, which is an interrupt of a timer."""
    libc, rings = ctypes.CDLL(None, use_errno=True), []

    def attach(tid):
        attributes = bytearray(128)
        struct.pack_into("=2I4Q", attributes, 0, 1, 128, 0, int(o.us * 1000), 1 | 2 | 4 | 32, 0)
        fd = libc.syscall(298, (ctypes.c_char * 128).from_buffer(attributes), tid, -1, -1, 8)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")
        rings.append(mmap.mmap(fd, 9 * mmap.PAGESIZE))
    each_thread(o.pid, attach)
    say_on("profile")
    while True:
        for ring in rings:  # who reads has read all
            head = struct.unpack_from("=Q", ring, 1024)[0]
            struct.pack_into("=Q", ring, 1032, head)
        time.sleep(0.005)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=("stop", "freeze", "renice", "affinity", "cpuset", "memory", "swap",
                                    "flock", "write", "evict", "idle", "pause_worker", "read_maps", "debugger",
                                    "signals", "shares", "dirty", "page_out", "profile"))
    for name, kind in (("pid", int), ("ms", float), ("every", float), ("nice", int), ("mb", int), ("threads", int),
                       ("cpus", str), ("path", str), ("dir", str), ("cold", str), ("thread", str), ("shares", int), ("us", float)):
        p.add_argument("--" + name, type=kind)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    globals()[o.what](o)


main()

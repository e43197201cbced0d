#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A packet flood whose soft interrupts land on one CPU: two network namespaces, a veth pair between
them, receive packet steering (rps_cpus) of the receiving end on that CPU. Every packet goes to a
broadcast address that many sockets listen to, which makes it dear for the receiver and cheap for the
sender, whose own share of a CPU stays small. Needs root. Ends on SIGTERM or after --seconds, and
leaves nothing: the namespaces live as long as the processes in them.

    packet_storm.py --cpu 1 --send-cpu 0 [--listeners 300] [--rate 20000] [--seconds 30]
"""
import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PORT = 9999


def checked(rc, what):
    if rc:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def own_network():
    LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)  # ends with its parent
    checked(LIBC.unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare")
    checked(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")


def ip(*args):
    subprocess.run(["ip", *args], check=True, stdin=subprocess.DEVNULL)


def write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def receiver(o, ready, go):
    own_network()
    os.write(ready, b"r")
    os.read(go, 1)  # the pair is there
    checked(LIBC.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount sysfs")
    ip("addr", "add", "10.77.0.2/24", "broadcast", "10.77.0.255", "dev", "storm1")
    ip("link", "set", "storm1", "up")
    write("/sys/class/net/storm1/queues/rx-0/rps_cpus", f"{1 << o.cpu:x}")
    sockets = []
    for _ in range(o.listeners):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)  # full at once: nobody reads
        s.bind(("", PORT))
        sockets.append(s)
    os.write(ready, b"r")
    while True:
        signal.pause()


def sender(o, ready, go):
    own_network()
    os.write(ready, b"s")
    os.read(go, 1)
    if o.send_cpu >= 0:
        os.sched_setaffinity(0, {o.send_cpu})
    ip("addr", "add", "10.77.0.1/24", "broadcast", "10.77.0.255", "dev", "storm0")
    ip("link", "set", "storm0", "up")
    os.write(ready, b"s")
    os.read(go, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.connect(("10.77.0.255", PORT))
    payload, sent, begin = b"x" * 64, 0, time.monotonic()
    while True:
        due = int((time.monotonic() - begin) * o.rate)
        while sent < due:
            try:
                s.send(payload)
            except OSError:
                pass
            sent += 1
        time.sleep(0.001)


def start(body, o):
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready_r)
        os.close(go_w)
        try:
            body(o, ready_w, go_r)
        except BaseException as e:  # the child must not return into the parent's code
            print(f"packet_storm: {e}", file=sys.stderr)
        os._exit(1)
    os.close(ready_w)
    os.close(go_r)
    return pid, ready_r, go_w


def answer(fd, pid):
    if not os.read(fd, 1):
        os.waitpid(pid, 0)
        raise SystemExit("packet_storm: could not be set up")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cpu", type=int, required=True)
    p.add_argument("--send-cpu", type=int, default=-1)
    p.add_argument("--listeners", type=int, default=300)
    p.add_argument("--rate", type=float, default=20000)
    p.add_argument("--seconds", type=float, default=3600)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    rx, rx_ready, rx_go = start(receiver, o)
    tx, tx_ready, tx_go = start(sender, o)
    try:
        answer(rx_ready, rx)
        answer(tx_ready, tx)
        # made in the sender's namespace, one end moved to the receiver's
        subprocess.run(["nsenter", "-t", str(tx), "-n", "ip", "link", "add", "storm0", "type", "veth",
                        "peer", "name", "storm1", "netns", str(rx)], check=True)
        os.write(rx_go, b"g")
        os.write(tx_go, b"g")
        answer(rx_ready, rx)
        answer(tx_ready, tx)
        os.write(tx_go, b"g")
        print("packet_storm: on", flush=True)
        end = time.monotonic() + o.seconds
        while time.monotonic() < end:
            time.sleep(0.1)
    finally:
        for pid in (tx, rx):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()

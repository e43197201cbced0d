#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packet_storm.py - a real NET_RX storm on one CPU, for tests that inject faults. Needs root and `ip`.

    python3 tests/faults/packet_storm.py --cpu 1 --seconds 20 [--share 50] [--sender-cpu 0] [--ready FILE]

Two network namespaces joined by a veth pair; receive packet steering (rps_cpus) hands what arrives to
--cpu, so its soft interrupts run there and not where the sender is. A packet filter of thousands of
divisions on the receiving side makes each packet dear, so that the sender needs little of its own CPU:
it sleeps between bursts and holds itself to --sender-share percent (25) of its core. The rate follows
the CPU's softirq time in /proc/stat until it is --share percent.

Prints one line of JSON when packets flow, {"device": ..., "netns": ..., "cpu": ..., "pid": ...}, and one
at the end with what was reached: {"softirq_share": ..., "sender_share": ..., "packets": ...}. --ready FILE
is made when packets flow. SIGTERM ends it early. However it ends, namespaces and devices are removed.
Exit status: 0; 77 where this machine cannot do it (with the reason); 1 where the storm did not come up.
"""
import argparse
import ctypes
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

SO_ATTACH_FILTER = 26
CLONE_NEWNET = 0x40000000
ETH_P_IP = 0x0800
BURST_S = 0.001
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent):
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def enter(netns):
    fd = os.open(f"/run/netns/{netns}", os.O_RDONLY | os.O_CLOEXEC)
    if LIBC.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def ip(*words, check=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def rps_mask(cpu):
    """cpumask text: 32-bit groups, the highest first"""
    groups = [0] * (cpu // 32 + 1)
    groups[cpu // 32] = 1 << cpu % 32
    return ",".join(f"{g:08x}" for g in reversed(groups))


class Network:
    def __init__(self):
        self.a, self.b = f"storm{os.getpid()}a", f"storm{os.getpid()}b"
        self.sender, self.device = f"stx{os.getpid()}", f"srx{os.getpid()}"

    def make(self, cpu):
        ip("netns", "add", self.a)
        ip("netns", "add", self.b)
        ip("-n", self.a, "link", "add", self.sender, "type", "veth", "peer", "name", self.device,
           "netns", self.b)
        for netns, device, address in ((self.a, self.sender, "10.97.7.1/24"),
                                       (self.b, self.device, "10.97.7.2/24")):
            ip("-n", netns, "addr", "add", address, "dev", device)
            ip("-n", netns, "link", "set", device, "up")
        steer = f"echo {rps_mask(cpu)} >/sys/class/net/{self.device}/queues/rx-0/rps_cpus"
        ip("netns", "exec", self.b, "sh", "-c", steer)

    def remove(self):
        ip("netns", "del", self.a, check=False)
        ip("netns", "del", self.b, check=False)


def dear_socket(device, instructions):
    """A packet socket whose filter divides that often and then drops; None: no room for the filter."""
    code = [(0x00, 0xFFFFFFF1), (0x01, 3)]  # A = ..., X = 3
    code += [(0x3C, 0)] * instructions  # A /= X
    code += [(0x06, 0)]  # drop
    text = b"".join(struct.pack("HBBI", op, 0, 0, k) for op, k in code)
    buffer = ctypes.create_string_buffer(text)
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
    except OSError:
        s.close()
        return None
    s.bind((device, ETH_P_IP))
    return s


def receive(network, divisions, ready):
    enter(network.b)
    held, left, size = [], divisions, 4000
    while left > 0 and len(held) < 256:
        s = dear_socket(network.device, min(size, left))
        if s:
            held.append(s)
            left -= min(size, left)
        elif size > 100:
            size //= 2
        else:
            break
    os.write(ready, b"r" if held else b"x")
    signal.pause()


def send(network, cpu, share, control):
    """Bursts of as many packets as the last word from control says, a burst each millisecond or so."""
    enter(network.a)
    os.sched_setaffinity(0, {cpu})
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    packet, target = b"\0" * 32, ("10.97.7.2", 9)
    per_burst, owed = 1.0, 0.0
    os.set_blocking(control, False)
    begin_cpu, begin = time.process_time(), time.monotonic()
    following = begin
    while True:
        try:
            words = os.read(control, 4096)
            if not words:
                os._exit(0)
            per_burst = struct.unpack("d", words[-8:])[0]
        except BlockingIOError:
            pass
        if time.process_time() - begin_cpu < share / 100 * (time.monotonic() - begin + 0.05):
            owed = min(owed + per_burst, 512)
            while owed >= 1:
                s.sendto(packet, target)
                owed -= 1
        # never in step with the timer tick: some kernels count soft interrupts only by what a tick meets
        following = max(following + BURST_S * random.uniform(0.2, 1.8), time.monotonic() - 0.01)
        time.sleep(max(0, following - time.monotonic()))


def softirq_ticks(cpu):
    with open("/proc/stat") as f:
        for line in f:
            words = line.split()
            if words[0] == f"cpu{cpu}":
                return int(words[7])
    raise RuntimeError(f"no CPU {cpu}")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        words = f.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def packets_received(network):
    path = f"/sys/class/net/{network.device}/statistics/rx_packets"
    done = subprocess.run(["ip", "netns", "exec", network.b, "cat", path], capture_output=True, text=True)
    return int(done.stdout or 0)


def govern(args, network, sender, control):
    """Holds the CPU's softirq share where it is wanted."""
    tick = os.sysconf("SC_CLK_TCK")
    per_burst, end = 2.0, time.monotonic() + args.seconds
    ticks, at = softirq_ticks(args.cpu), time.monotonic()
    first_ticks = first_at = None
    sender_before = cpu_seconds(sender)
    begin = time.monotonic()
    while time.monotonic() < end:
        time.sleep(min(0.25, max(0.01, end - time.monotonic())))
        now_ticks, now = softirq_ticks(args.cpu), time.monotonic()
        share = 100 * (now_ticks - ticks) / tick / (now - at)
        ticks, at = now_ticks, now
        per_burst *= min(2, max(0.5, args.share / max(share, 1)))
        per_burst = min(200, max(0.1, per_burst))
        os.write(control, struct.pack("d", per_burst))
        if first_at is None and share >= args.share / 2:
            first_ticks, first_at = now_ticks, now
            print(json.dumps({"device": network.device, "netns": network.b, "cpu": args.cpu,
                              "pid": sender}), flush=True)
            if args.ready:
                open(args.ready, "w").close()
    if first_at is None:
        print("# the CPU's soft interrupts never reached half of what is wanted", file=sys.stderr)
        return 1
    seconds = max(at - first_at, 1e-3)
    print(json.dumps({
        "softirq_share": round(100 * (ticks - first_ticks) / tick / seconds, 1),
        "sender_share": round(100 * (cpu_seconds(sender) - sender_before) / (at - begin), 1),
        "packets": packets_received(network)}), flush=True)
    return 0


def fork_child(work, *args):
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with_parent(parent)
        work(*args)
    except BaseException as error:  # a child must never run on into the parent's clean-up
        print(f"# {work.__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(1)


def storm(args, network):
    children = []
    try:
        network.make(args.cpu)
        ready, ready_in = os.pipe()
        children.append(fork_child(receive, network, args.divisions, ready_in))
        os.close(ready_in)
        if os.read(ready, 1) != b"r":
            print("no packet filter can be attached here")
            return 77
        control_out, control = os.pipe()
        children.append(fork_child(send, network, args.sender_cpu, args.sender_share, control_out))
        return govern(args, network, children[1], control)
    except RuntimeError as error:
        print(f"no network namespaces here: {error}")
        return 77
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        network.remove()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--cpu", type=int, required=True, help="that takes the soft interrupts")
    p.add_argument("--seconds", type=float, required=True)
    p.add_argument("--share", type=float, default=50, help="percent of that CPU")
    p.add_argument("--sender-cpu", type=int, default=None, help="default: the first other one")
    p.add_argument("--sender-share", type=float, default=25, help="percent of its core at most")
    p.add_argument("--divisions", type=int, default=8000, help="per packet, in the receiver's filter")
    p.add_argument("--ready", help="file to make when packets flow")
    args = p.parse_args()
    if os.geteuid():
        print("needs root")
        return 77
    cpus = sorted(os.sched_getaffinity(0))
    if args.sender_cpu is None:
        others = [c for c in cpus if c != args.cpu]
        if not others:
            print("needs two CPUs")
            return 77
        args.sender_cpu = others[0]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    return storm(args, Network())


if __name__ == "__main__":
    sys.exit(main())

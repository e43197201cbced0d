#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Free TCP ports of loopback, for daemons that start later.
usage: free_ports.py [COUNT]

The kernel gives outgoing connections and sockets bound to port 0 a port from its ephemeral range, at any time; so
these come from below it."""
import random
import socket
import sys


def free_ports(count):
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        low = int(f.read().split()[0])
    ports = []
    for port in random.sample(range(min(10000, low // 2), low), min(low // 2, 1000)):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError("no free ports")


if __name__ == "__main__":
    print(*free_ports(int(sys.argv[1]) if len(sys.argv) > 1 else 1))

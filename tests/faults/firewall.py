#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""So many rules in the firewall of a namespace of slow_link.py, none of which says what happens to its packets, until
SIGTERM.

    firewall.py --link F --rules 30000     F: what slow_link.py printed
"""
import argparse
import signal
import subprocess
import sys
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--link", required=True)
    p.add_argument("--rules", type=int, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(o.link, encoding="ascii") as f:
        name = f.read().split()[0]

    def put(rules):
        subprocess.run(["ip", "netns", "exec", name, "iptables-restore"], check=True, text=True,
                       input="\n".join(["*filter", ":INPUT ACCEPT [0:0]", *rules, "COMMIT", ""]))
    put(f"-A INPUT -s 10.{n >> 16}.{n >> 8 & 255}.{n & 255}/32 -p udp -j DROP" for n in range(o.rules))
    try:
        print("firewall: on", flush=True)
        while True:
            time.sleep(1)
    finally:
        put(())


main()

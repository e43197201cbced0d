#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A limit on what a process may read from (--of write: write to) a disk, until SIGTERM or --seconds.

    disk_limit.py --pid PID --device 254:0 --bytes-per-second 300000 [--seconds 30]
"""
import fault_group


def more(p):
    p.add_argument("--device", required=True)
    p.add_argument("--of", default="read", choices=("read", "write"))
    p.add_argument("--bytes-per-second", type=int, required=True)


def main():
    o, own = fault_group.options("blkio", more)
    own.put(f"{o.of}_bps", o.device, o.bytes_per_second)
    own.hold(o, "disk_limit")


main()

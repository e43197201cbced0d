#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A memory limit of one pod: moves processes into one group with it, and back on SIGTERM. What they map of these files
leaves the page cache first, to be charged to the group.

    pod_memory.py --pid PID [--pid PID ...] --mb 8 [--cold FILE ...]
"""
import os
import threading
import time

import fault_group


def more(p):
    p.add_argument("--mb", type=int, required=True)
    p.add_argument("--cold", nargs="*", default=[])


def forget(paths):
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    for _ in range(40):  # what is mapped just now stays
        for fd in fds:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        time.sleep(0.01)


def main():
    o, own = fault_group.options("memory", more)
    own.put("memory_bytes", o.mb << 20)
    threading.Timer(0.5, forget, [o.cold]).start()
    own.hold(o, "pod_memory")


main()

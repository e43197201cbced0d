#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A virus scanner: whoever opens a file of a directory waits until it has looked (fanotify), until SIGTERM.

    scanner.py --at DIR --ms 2
"""
import argparse
import ctypes
import os
import signal
import struct
import sys
import time

FAN_CLASS_CONTENT, FAN_CLOEXEC, FAN_MARK_ADD = 4, 1, 1
FAN_OPEN_PERM, FAN_EVENT_ON_CHILD, FAN_ALLOW = 0x10000, 0x8000000, 1
AT_FDCWD = -100
EVENT = struct.Struct("=IBBHQii")
LIBC = ctypes.CDLL(None, use_errno=True)


def check(rc, what):
    if rc < 0:
        raise OSError(ctypes.get_errno(), what)
    return rc


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--at", required=True)
    p.add_argument("--ms", type=float, required=True)
    o = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ctypes.CDLL(None).prctl(15, b"scanner", 0, 0, 0)  # PR_SET_NAME
    fd = check(LIBC.fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, os.O_RDONLY | os.O_CLOEXEC), "fanotify_init")
    check(LIBC.fanotify_mark(fd, FAN_MARK_ADD, ctypes.c_uint64(FAN_OPEN_PERM | FAN_EVENT_ON_CHILD), AT_FDCWD,
                             o.at.encode()), "fanotify_mark")
    print("scanner: on", flush=True)
    while True:
        events, at = os.read(fd, 4096), 0
        while at < len(events):
            size, _, _, _, mask, opened, _ = EVENT.unpack_from(events, at)
            if mask & FAN_OPEN_PERM:
                time.sleep(o.ms / 1e3)
                os.write(fd, struct.pack("=iI", opened, FAN_ALLOW))
            os.close(opened)
            at += size


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system (FUSE) with one file, whose server answers each read late, until SIGTERM.

    slow_files.py --at DIR --ms 8                the file is DIR/data
    slow_files.py --at DIR --ms 300 --one-in 20  only one in so many
    slow_files.py --at DIR --ms 8 --program /bin/true  it can be run
"""
import argparse
import errno
import stat
import struct
import time

import fuse_server as fuse

SIZE = 16 << 20
CONTENT = bytearray()


def attributes(node):
    mode, size = (stat.S_IFDIR | 0o755, 0) if node == 1 else (stat.S_IFREG | 0o555, len(CONTENT) or SIZE)
    return struct.pack("=6Q10I", node, size, size >> 9, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(o, code, node, body):
    """What the server says to one question; an errno, or bytes; None: nothing."""
    if code == fuse.INIT:
        return fuse.init()
    if code == fuse.LOOKUP:
        if body != b"data\0":
            return errno.ENOENT
        return struct.pack("=4Q2I", 2, 0, 3600, 3600, 0, 0) + attributes(2)
    if code == fuse.GETATTR:
        return struct.pack("=Q2I", 3600, 0, 0) + attributes(node)
    if code == fuse.OPEN:
        return struct.pack("=Q2I", 1, fuse.DIRECT_IO, 0)
    if code == fuse.READ:
        o.reads += 1
        if o.reads % o.one_in == 0:
            time.sleep(o.ms / 1e3)
        _, at, size = struct.unpack_from("=2QI", body)
        return bytes(CONTENT[at:at + size]) if CONTENT else bytes(size)
    if code in (fuse.FORGET, fuse.FORGET_MANY, fuse.INTERRUPT):
        return None
    return b"" if code in (fuse.FLUSH, fuse.RELEASE) else errno.ENOSYS


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--at", required=True)
    p.add_argument("--ms", type=float, required=True)
    p.add_argument("--one-in", type=int, default=1)
    p.add_argument("--program")
    p.set_defaults(reads=0)
    o = p.parse_args()
    if o.program:
        with open(o.program, "rb") as f:
            CONTENT.extend(f.read())
    fuse.run("slow_files", o.at, lambda *question: answer(o, *question), first="data")


main()

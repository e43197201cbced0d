#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network file system (FUSE) whose server answers late, until SIGTERM. Any name is there.

    netfs.py --at DIR [--lookup-ms N] [--flush-ms N] [--statfs-ms N] [--write-ms N] [--lock-ms N]
"""
import argparse
import errno
import fcntl
import stat
import struct
import time

import fuse_server as fuse


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o644
    return struct.pack("=6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(o, code, node, body):
    if code == fuse.INIT:
        return fuse.init(fuse.POSIX_LOCKS)
    if code == fuse.LOOKUP:
        time.sleep(o.lookup_ms / 1e3)
        return struct.pack("=4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2)
    if code in (fuse.GETATTR, fuse.SETATTR):
        if node != 1:
            time.sleep(o.lookup_ms / 1e3)
        return struct.pack("=Q2I", 0, 0, 0) + attributes(node)
    if code == fuse.OPEN:
        return struct.pack("=Q2I", 1, fuse.DIRECT_IO, 0)
    if code == fuse.READ:
        return b""
    if code == fuse.WRITE:
        time.sleep(o.write_ms / 1e3)
        return struct.pack("=2I", struct.unpack_from("=2QI", body)[2], 0)
    if code in (fuse.SETLK, fuse.SETLKW):
        if struct.unpack_from("=4QI", body)[4] != fcntl.F_UNLCK:
            time.sleep(o.lock_ms / 1e3)
        return b""
    if code == fuse.FLUSH:
        time.sleep(o.flush_ms / 1e3)
        return b""
    if code == fuse.STATFS:
        time.sleep(o.statfs_ms / 1e3)
        return struct.pack("=5Q10I", 1 << 30, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, *[0] * 7)
    if code in (fuse.FORGET, fuse.FORGET_MANY, fuse.INTERRUPT):
        return None
    return b"" if code == fuse.RELEASE else errno.ENOSYS


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--at", required=True)
    p.add_argument("--lookup-ms", type=float, default=0)
    p.add_argument("--flush-ms", type=float, default=0)
    p.add_argument("--statfs-ms", type=float, default=0)
    p.add_argument("--write-ms", type=float, default=0)
    p.add_argument("--lock-ms", type=float, default=0)
    o = p.parse_args()
    fuse.run("netfs", o.at, lambda *question: answer(o, *question))


main()

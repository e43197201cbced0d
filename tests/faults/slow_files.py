#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system (FUSE) with one file, whose server answers each read late, until SIGTERM.

    slow_files.py --at DIR --ms 8           the file is DIR/data
"""
import argparse
import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import threading
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT = 1, 2, 3, 14, 15, 18, 25, 26, 36
FORGET_MANY = 42
SIZE = 16 << 20
DIRECT_IO = 1


def attributes(node):
    mode, size = (stat.S_IFDIR | 0o755, 0) if node == 1 else (stat.S_IFREG | 0o444, SIZE)
    return struct.pack("=6Q10I", node, size, size >> 9, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(o, code, node, body):
    """What the server says to one question; an errno, or bytes; None: nothing."""
    if code == INIT:
        return struct.pack("=4I2H2I2H8I", 7, 31, 65536, 0, 8, 8, 65536, 1, 16, 0, *[0] * 8)
    if code == LOOKUP:
        if body != b"data\0":
            return errno.ENOENT
        return struct.pack("=4Q2I", 2, 0, 3600, 3600, 0, 0) + attributes(2)
    if code == GETATTR:
        return struct.pack("=Q2I", 3600, 0, 0) + attributes(node)
    if code == OPEN:
        return struct.pack("=Q2I", 1, DIRECT_IO, 0)
    if code == READ:
        time.sleep(o.ms / 1e3)
        return bytes(struct.unpack_from("=2QI", body)[2])
    if code in (FORGET, FORGET_MANY, INTERRUPT):
        return None
    return b"" if code in (FLUSH, RELEASE) else errno.ENOSYS


def serve(o, fd):
    while True:
        try:
            question = os.read(fd, 1 << 17)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.EINTR):
                continue
            return  # it was unmounted
        _, code, unique, node = struct.unpack_from("=2I2Q", question)
        said = answer(o, code, node, question[40:])
        if said is not None:
            data, error = (b"", -said) if isinstance(said, int) else (said, 0)
            try:
                os.write(fd, struct.pack("=IiQ", 16 + len(data), error, unique) + data)
            except OSError:
                pass  # nobody waits any more


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--at", required=True)
    p.add_argument("--ms", type=float, required=True)
    o = p.parse_args()
    os.makedirs(o.at, exist_ok=True)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"slow", o.at.encode(), b"fuse", 6, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()):
        raise SystemExit(f"slow_files: mount: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=serve, args=(o, fd), daemon=True).start()
    try:
        os.stat(os.path.join(o.at, "data"))
        print("slow_files: on", flush=True)
        over.wait()
        time.sleep(1)  # who reads just now gets its answer
    finally:
        subprocess.run(["umount", "-l", o.at], check=False)


main()

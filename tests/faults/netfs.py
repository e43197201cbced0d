#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network file system (FUSE) whose server answers late, until SIGTERM. Any name is there.

    netfs.py --at DIR [--lookup-ms N] [--flush-ms N]
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

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, RELEASE, FLUSH, INIT, CREATE, INTERRUPT, FORGET_MANY = \
    1, 2, 3, 4, 14, 15, 16, 18, 25, 26, 35, 36, 42


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o644
    return struct.pack("=6Q10I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(o, code, node, body):
    if code == INIT:
        return struct.pack("=4I2H2I2H8I", 7, 31, 65536, 0, 8, 8, 65536, 1, 16, 0, *[0] * 8)
    if code == LOOKUP:
        time.sleep(o.lookup_ms / 1e3)
        return struct.pack("=4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2)
    if code in (GETATTR, SETATTR):
        if node != 1:
            time.sleep(o.lookup_ms / 1e3)
        return struct.pack("=Q2I", 0, 0, 0) + attributes(node)
    if code == OPEN:
        return struct.pack("=Q2I", 1, 1, 0)  # DIRECT_IO
    if code == READ:
        return b""
    if code == WRITE:
        return struct.pack("=2I", struct.unpack_from("=2QI", body)[2], 0)
    if code == FLUSH:
        time.sleep(o.flush_ms / 1e3)
        return b""
    if code in (FORGET, FORGET_MANY, INTERRUPT):
        return None
    return b"" if code == RELEASE else errno.ENOSYS


def serve(o, fd):
    while True:
        try:
            question = os.read(fd, 1 << 17)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.EINTR):
                continue
            return
        _, code, unique, node = struct.unpack_from("=2I2Q", question)
        said = answer(o, code, node, question[40:])
        if said is not None:
            data, error = (b"", -said) if isinstance(said, int) else (said, 0)
            try:
                os.write(fd, struct.pack("=IiQ", 16 + len(data), error, unique) + data)
            except OSError:
                pass


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--at", required=True)
    p.add_argument("--lookup-ms", type=float, default=0)
    p.add_argument("--flush-ms", type=float, default=0)
    o = p.parse_args()
    os.makedirs(o.at, exist_ok=True)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"netfs", o.at.encode(), b"fuse", 6, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()):
        raise SystemExit(f"netfs: mount: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=serve, args=(o, fd), daemon=True).start()
    try:
        print("netfs: on", flush=True)
        over.wait()
        time.sleep(1)
    finally:
        subprocess.run(["umount", "-l", o.at], check=False)


if __name__ == "__main__":
    main()

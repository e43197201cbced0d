# SPDX-License-Identifier: Apache-2.0
"""A file system whose files a function answers for, over FUSE, for slow_files.py and netfs.py."""
import ctypes
import errno
import os
import signal
import struct
import subprocess
import threading
import time

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FLUSH, INIT, SETLK, SETLKW, INTERRUPT, FORGET_MANY = \
    1, 2, 3, 4, 14, 15, 16, 17, 18, 25, 26, 32, 33, 36, 42
DIRECT_IO = 1
POSIX_LOCKS = 2


def init(flags=0):
    return struct.pack("=4I2H2I2H8I", 7, 31, 65536, flags, 8, 8, 65536, 1, 16, 0, *[0] * 8)


def serve(answer, fd):
    while True:
        try:
            question = os.read(fd, 1 << 17)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.EINTR):
                continue
            return  # it was unmounted
        _, code, unique, node = struct.unpack_from("=2I2Q", question)
        said = answer(code, node, question[40:])
        if said is not None:
            data, error = (b"", -said) if isinstance(said, int) else (said, 0)
            try:
                os.write(fd, struct.pack("=IiQ", 16 + len(data), error, unique) + data)
            except OSError:
                pass  # nobody waits any more


def run(name, at, answer, first=None):
    """Until SIGTERM. answer(code, node, body): bytes, an errno, or None for no answer. first: a file that is looked
    at before the file system counts as on."""
    os.makedirs(at, exist_ok=True)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(name.encode(), at.encode(), b"fuse", 6, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()):
        raise SystemExit(f"{name}: mount: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=serve, args=(answer, fd), daemon=True).start()
    try:
        if first:
            os.stat(os.path.join(at, first))
        print(f"{name}: on", flush=True)
        over.wait()
        time.sleep(1)  # who reads just now gets its answer
    finally:
        subprocess.run(["umount", "-l", at], check=False)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leases a file, as a file server does for its clients, and gives the lease back so much after somebody wants to
open the file, again and again, until SIGTERM.

    lease.py --path F --ms 35
"""
import argparse
import fcntl
import os
import signal
import time


def lease(fd):
    """Whether nobody else has the file open."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        return True
    except BlockingIOError:
        return False


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--path", required=True)
    p.add_argument("--ms", type=float, required=True)
    o = p.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
    fd = os.open(o.path, os.O_RDWR)
    print("lease: on", flush=True)
    while True:
        while not lease(fd):
            time.sleep(0.001)
        signal.sigwait([signal.SIGIO])
        time.sleep(o.ms / 1e3)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        time.sleep(0.005)


main()

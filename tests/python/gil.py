#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three threads that want the GIL all the time, and one that has released it in a system call."""
import os
import sys
import threading

GATE, GATE_WRITE = os.pipe()


def spin():
    x = 0
    while True:
        x += 1


def main():
    sys.setswitchinterval(0.002)
    threading.Thread(target=os.read, args=(GATE, 1), daemon=True).start()
    for _ in range(2):
        threading.Thread(target=spin, daemon=True).start()
    os.write(1, f"P {os.getpid()}\n.\n".encode())
    spin()


main()

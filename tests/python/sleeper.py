#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes, and from SIGUSR1 on waits for what never comes while another thread computes."""
import os
import signal
import threading

GATE, GATE_WRITE = os.pipe()


def wait_for_ever(_number, _frame):
    threading.Thread(target=spin, daemon=True).start()
    os.read(GATE, 1)


def spin():
    x = 0
    while True:
        x += 1


def main():
    signal.signal(signal.SIGUSR1, wait_for_ever)
    os.write(1, f"P {os.getpid()}\n.\n".encode())
    spin()


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Works without end in a second interpreter of the process, on the main thread."""
import os

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

CODE = """
def sub_work(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5
    return s

def sub_run():
    while True:
        sub_work(20000)

sub_run()
"""


def main():
    os.write(1, f"P {os.getpid()}\n.\n".encode())
    (interpreters.run_string if hasattr(interpreters, "run_string") else interpreters.exec)(
        interpreters.create(), CODE)


main()

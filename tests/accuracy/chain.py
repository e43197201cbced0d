#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A known chain of Python and C frames: main -> climb x 11 -> sort (C) -> K.__lt__ -> work, and
main -> reduce (C) -> fold -> work. Runs until it is killed."""
import functools
import sys


def work(x):
    s = 0
    for i in range(300):
        s = (s * 31 + i ^ x) & 0xFFFFFFFF
    return s


class K:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        work(self.v)
        return self.v < other.v


def climb(n):
    if n:
        return climb(n - 1) + 1
    items = [K(i * 7919 % 31) for i in range(24)]
    items.sort()
    return items[0].v


def fold(a, b):
    return work(a) + b


def main():
    print("ready")
    sys.stdout.flush()
    while True:
        climb(10)
        functools.reduce(fold, range(20))


main()

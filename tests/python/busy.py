#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Works without end in one known chain, in which C calls back into Python twice."""
import math
import os


def work(n):
    s = 0.0
    for i in range(n):
        s += math.sqrt(i)
    return s


class Key:
    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        work(400)
        return self.n < other.n


def order(n):
    return sorted([Key(i % 5) for i in range(n)])


def spread(n):
    return list(map(order, [n, n + 1]))


def recurse(k, n):
    return spread(n) if k == 0 else recurse(k - 1, n)


def main():
    os.write(1, f"P {os.getpid()}\n.\n".encode())
    while True:
        recurse(10, 6)


main()
